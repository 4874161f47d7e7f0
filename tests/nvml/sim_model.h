/* What the GPUs of the simulated NVML do: levels of each phase, and their averages over time.
 *
 * Levels are those of an H100-like board. A collective that waits keeps few of the 132 SMs busy,
 * as NCCL has one thread block a channel, 8 to 32 of them (nccl/src/device/primitives.h): so its
 * utilisation is 100 % while SM activity, tensor cores and DRAM are nearly still.
 */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H
#include "sim_state.h"

#include <math.h>
#include <time.h>

/* Power and clock as shares of the limit and of the largest clock; sm to dram in percent of what
 * the GPU can do, as GPM tells it; PCIe and NVLink in MiB/s, tx from the GPU, rx to it. */
static const struct level {
    double util, memory, power, clock;
    unsigned long long reasons;
    double sm, occupancy, tensor, dram, pcie_tx, pcie_rx, nvlink_tx, nvlink_rx;
} LEVELS[KINDS] = {
    [OFF] = {0, 0, 0.10, 0.17, 0x1, 0, 0, 0, 0, 0, 0, 0, 0},
    [IDLE] = {0, 0, 0.19, 1.00, 0x1, 0, 0, 0, 0, 1, 1, 0, 0},
    [STARVED] = {0, 0, 0.19, 1.00, 0x1, 0, 0, 0, 0, 1, 1, 0, 0},
    [COMPUTE] = {99, 45, 0.90, 0.93, 0x4, 91, 36, 47, 52, 40, 250, 0, 0},
    [SPIN] = {100, 2, 0.22, 1.00, 0, 18, 4, 0, 1, 2, 2, 0, 0},
    [COPY] = {100, 15, 0.35, 1.00, 0, 22, 6, 0, 12, 5000, 5000, 8000, 8000},
    [THROTTLED] = {98, 30, 0.60, 0.45, 0x60, 90, 35, 23, 27, 20, 120, 0, 0},
};

typedef double (*reading)(const struct level *);
#define LEVEL(NAME) static double NAME##_of(const struct level *l) { return l->NAME; }
LEVEL(util) LEVEL(memory) LEVEL(power) LEVEL(sm) LEVEL(occupancy) LEVEL(tensor) LEVEL(dram)
LEVEL(pcie_tx) LEVEL(pcie_rx) LEVEL(nvlink_tx) LEVEL(nvlink_rx)

static unsigned long long reason_bit;
static double reason_of(const struct level *l) { return (l->reasons & reason_bit) != 0; }

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static double shared(const struct phase *p, reading of) {
    const struct level *rest = &LEVELS[p->kind == OFF ? OFF : IDLE];
    return p->share * of(&LEVELS[p->kind]) + (1 - p->share) * of(rest);
}

/* Integral over [from, to); what was before the first phase line was as the first. */
static double integral(const struct gpu *g, double from, double to, reading of) {
    double sum = 0;
    if (!g->phase_count) return (to - from) * of(&LEVELS[OFF]);
    for (int i = 0; i < g->phase_count; i++) {
        double begin = i ? fmax(from, g->phases[i].at) : from;
        double end = i + 1 < g->phase_count ? fmin(to, g->phases[i + 1].at) : to;
        if (end > begin) sum += (end - begin) * shared(&g->phases[i], of);
    }
    return sum;
}

/* Integral over all that is known of the past, until then. */
static double total(const struct gpu *g, double until, reading of) {
    double sum = 0;
    for (int k = 0; k < KINDS; k++) sum += g->spent[k] * of(&LEVELS[k]);
    if (g->phase_count && until > g->phases[0].at) sum += integral(g, g->phases[0].at, until, of);
    return sum;
}

/* Mean over the last complete period before now, as the driver samples. */
static double mean(const struct gpu *g, double period, double step, reading of) {
    double end = floor(now() / step) * step;
    return integral(g, end - period, end, of) / period;
}

static const struct level *level(const struct gpu *g) {
    double t = now();
    enum kind kind = g->phase_count ? g->phases[0].kind : OFF;
    for (int i = 0; i < g->phase_count && g->phases[i].at <= t; i++) kind = g->phases[i].kind;
    return &LEVELS[kind];
}

static long long fixed(const struct gpu *g, const char *key, double otherwise) {
    int k = index_of(key, KEYS, KEY_COUNT);
    return g->is_fixed[k] ? g->fixed[k] : llround(otherwise);
}

static const char *name(const struct gpu *g) { return *g->name ? g->name : "NVIDIA H100 80GB HBM3"; }
static double period(const struct gpu *g) { return g->period > 0 ? g->period : 1.0 / 6; }
static double limit_mw(const struct gpu *g) { return fixed(g, "power_limit_mw", 700000); }
static double clock_max(const struct gpu *g) { return fixed(g, "clock_max_mhz", 1980); }
static double power_mw(const struct gpu *g) { return fixed(g, "power_mw", limit_mw(g) * mean(g, 1, 0.1, power_of)); }
static int links(const struct gpu *g) { return fixed(g, "nvlink_links", 18); }

static unsigned long long energy_mj(const struct gpu *g) {
    return fixed(g, "energy_mj", 1e9) + total(g, floor(now() * 10) / 10, power_of) * limit_mw(g);
}

#endif
