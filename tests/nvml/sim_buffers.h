/* The sample buffers of the simulated driver (nvmlDeviceGetSamples), which it fills between polls.
 *
 * Utilisation has one sample a period, power one each 100 ms: the sensor of H100 looks at 25 of
 * them (arXiv 2312.02741). Time stamps are CPU time in microseconds.
 */
#include "sim_call.h"

enum { POWER_SAMPLES, UTIL_SAMPLES, MEMORY_SAMPLES, BUFFER = 120 };
struct sample { unsigned long long at_us; union { unsigned u; unsigned long long ull; } value; };

static double wall_offset(void) {
    static double offset;
    struct timespec t;
    if (!offset) {
        clock_gettime(CLOCK_REALTIME, &t);
        offset = t.tv_sec + t.tv_nsec * 1e-9 - now();
    }
    return offset;
}

static unsigned sampled(const struct gpu *g, unsigned kind, double end) {
    if (kind == POWER_SAMPLES) return fixed(g, "power_mw", limit_mw(g) * integral(g, end - 0.025, end, power_of) / 0.025);
    if (kind == UTIL_SAMPLES) return fixed(g, "util", integral(g, end - period(g), end, util_of) / period(g));
    return fixed(g, "memory_util", integral(g, end - period(g), end, memory_of) / period(g));
}

int nvmlDeviceGetSamples(const void *device, unsigned kind, unsigned long long after_us, int *type, unsigned *count, struct sample *samples) {
    ENTER(device);
    double step = kind == POWER_SAMPLES ? 0.1 : period(g);
    double last = floor(now() / step);
    unsigned found = 0;
    if (kind > MEMORY_SAMPLES || fixed(g, "mig", 0)) return NOT_SUPPORTED;
    *type = 1; /* unsigned int */
    if (!samples) {
        *count = BUFFER;
        return SUCCESS;
    }
    for (double k = last - BUFFER + 1; k <= last && found < *count; k++) {
        unsigned long long at_us = llround((k * step + wall_offset()) * 1e6);
        if (at_us <= after_us) continue;
        samples[found].at_us = at_us;
        samples[found++].value.u = sampled(g, kind, k * step);
    }
    *count = found;
    return found ? SUCCESS : NOT_FOUND;
}
