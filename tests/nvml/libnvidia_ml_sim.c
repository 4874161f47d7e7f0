/* A simulated NVML: libnvidia-ml.so.1 for machines without a GPU.
 *
 * It behaves as NVML does: utilisation is the share of a past sample period in which a kernel ran,
 * power is an average over 1 s, energy and event-reason times only grow, a spinning collective
 * reads about 100 % at low power. All readings follow from the clock and one text file, whose
 * lines sim_state.h documents. Layouts and codes: NVML API reference, nvml.h.
 */
#include "sim_state.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9 };
enum { FIELD_ENERGY = 83 };

static int initialised;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* ---- what the GPU does, averaged ---- */

static double util_of(const struct level *l) { return l->util; }
static double memory_of(const struct level *l) { return l->memory; }
static double power_of(const struct level *l) { return l->power; }

static double shared(const struct phase *p, double (*of)(const struct level *)) {
    const struct level *rest = &LEVELS[p->kind == OFF ? OFF : IDLE];
    return p->share * of(&LEVELS[p->kind]) + (1 - p->share) * of(rest);
}

/* Integral over [from, to); what was before the first phase line was as the first. */
static double integral(const struct gpu *g, double from, double to, double (*of)(const struct level *)) {
    double sum = 0;
    if (!g->phase_count) return (to - from) * of(&LEVELS[OFF]);
    for (int i = 0; i < g->phase_count; i++) {
        double begin = i ? fmax(from, g->phases[i].at) : from;
        double end = i + 1 < g->phase_count ? fmin(to, g->phases[i + 1].at) : to;
        if (end > begin) sum += (end - begin) * shared(&g->phases[i], of);
    }
    return sum;
}

/* Mean over the last complete period before now, as the driver samples. */
static double mean(const struct gpu *g, double period, double step, double (*of)(const struct level *)) {
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

static double period(const struct gpu *g) { return g->period > 0 ? g->period : 1.0 / 6; }
static double limit_mw(const struct gpu *g) { return fixed(g, "power_limit_mw", 700000); }
static double clock_max(const struct gpu *g) { return fixed(g, "clock_max_mhz", 1980); }
static double power_mw(const struct gpu *g) { return fixed(g, "power_mw", limit_mw(g) * mean(g, 1, 0.1, power_of)); }

static unsigned long long energy_mj(const struct gpu *g) {
    double end = floor(now() * 10) / 10, sum = 0;
    for (int k = 0; k < KINDS; k++) sum += g->spent[k] * LEVELS[k].power;
    if (g->phase_count && end > g->phases[0].at) sum += integral(g, g->phases[0].at, end, power_of);
    return fixed(g, "energy_mj", 1e9) + sum * limit_mw(g);
}

static unsigned long long reason_bit;
static double reason_of(const struct level *l) { return (l->reasons & reason_bit) != 0; }

static long long counter(const struct gpu *g, unsigned id) {
    static const struct { unsigned id; unsigned long long bit; } REASONS[] = {{74, 0x4}, {76, 0x10}, {269, 0x20}, {270, 0x40}, {271, 0x80}};
    double seconds = 0, t = now();
    long long base = 0;
    for (int i = 0; i < g->field_count; i++)
        if (g->field_id[i] == id) base = g->field[i];
    for (unsigned i = 0; i < sizeof REASONS / sizeof *REASONS; i++) {
        if (REASONS[i].id != id) continue;
        reason_bit = REASONS[i].bit;
        for (int k = 0; k < KINDS; k++) seconds += g->spent[k] * reason_of(&LEVELS[k]);
        if (g->phase_count && t > g->phases[0].at) seconds += integral(g, g->phases[0].at, t, reason_of);
    }
    return base + seconds * 1e9;
}

/* ---- the calls ---- */

static int suffer(const char *function, int gpu) {
    for (int i = 0; i < state.fault_count; i++) {
        struct fault f = state.faults[i];
        if ((f.gpu >= 0 && f.gpu != gpu) || (strcmp(f.function, "*") && strcmp(f.function, function))) continue;
        if (!strcmp(f.what, "error")) return f.value;
        if (!strcmp(f.what, "sleep")) usleep(f.value * 1e6);
        while (!strcmp(f.what, "hang")) pause();
        if (!strcmp(f.what, "crash")) kill(getpid(), SIGSEGV);
    }
    return SUCCESS;
}

static int enter(const char *function, const void *device, struct gpu **gpu) {
    int index = (int)(intptr_t)device - 1;
    int failed;
    pthread_mutex_lock(&lock);
    refresh();
    failed = suffer(function, index);
    pthread_mutex_unlock(&lock);
    if (failed) return failed;
    if (!initialised) return UNINITIALIZED;
    if (gpu && (index < 0 || index >= MAX_GPUS)) return INVALID_ARGUMENT;
    if (gpu) *gpu = &state.gpus[index];
    return SUCCESS;
}

#define ENTER(device)                              \
    struct gpu *g;                                 \
    int failed = enter(__func__, device, &g);      \
    if (failed) return failed

#define READS(NAME, TYPE, EXPRESSION)                                          \
    int NAME(const void *device, TYPE *value) {                                \
        ENTER(device);                                                         \
        *value = (TYPE)(EXPRESSION);                                           \
        return SUCCESS;                                                        \
    }

int nvmlInitWithFlags(unsigned flags) {
    int failed;
    (void)flags;
    refresh();
    failed = suffer(__func__, -1);
    if (failed) return failed;
    if (!getenv("GPUWATCH_SIM_STATE")) return DRIVER_NOT_LOADED;
    initialised = 1;
    return SUCCESS;
}

int nvmlShutdown(void) {
    initialised = 0;
    return SUCCESS;
}

const char *nvmlErrorString(int code) { return code == 25 ? "Argument version mismatch" : "Unknown Error"; }

int nvmlSystemGetDriverVersion(char *text, unsigned length) {
    int failed = enter(__func__, NULL, NULL);
    if (failed) return failed;
    snprintf(text, length, "%s", state.driver);
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    int failed = enter(__func__, NULL, NULL);
    if (failed) return failed;
    *count = state.count;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    int failed = enter(__func__, (void *)(intptr_t)(index + 1), NULL);
    if (failed) return failed;
    if (index >= (unsigned)state.count) return INVALID_ARGUMENT;
    *device = (void *)(intptr_t)(index + 1);
    return SUCCESS;
}

int nvmlDeviceGetName(const void *device, char *text, unsigned length) {
    ENTER(device);
    snprintf(text, length, "%s", *g->name ? g->name : "NVIDIA H100 80GB HBM3");
    return SUCCESS;
}

int nvmlDeviceGetUUID(const void *device, char *text, unsigned length) {
    ENTER(device);
    if (*g->uuid) snprintf(text, length, "%s", g->uuid);
    else snprintf(text, length, "GPU-00000000-0000-0000-0000-%012d", (int)(g - state.gpus));
    return SUCCESS;
}

struct utilization { unsigned gpu, memory; };
int nvmlDeviceGetUtilizationRates(const void *device, struct utilization *value) {
    ENTER(device);
    if (fixed(g, "mig", 0)) return NOT_SUPPORTED;
    value->gpu = fixed(g, "util", mean(g, period(g), period(g), util_of));
    value->memory = fixed(g, "memory_util", mean(g, period(g), period(g), memory_of));
    return SUCCESS;
}

struct memory { unsigned long long total, free, used; };
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(const void *device, struct memory_v2 *value) {
    ENTER(device);
    value->total = fixed(g, "memory_total", 85520809984.0);
    value->reserved = fixed(g, "memory_reserved", 538000000);
    value->used = fixed(g, "memory_used", 0);
    value->free = fixed(g, "memory_free", (double)value->total - value->used - value->reserved);
    return SUCCESS;
}

/* Version 1 counts reserved memory as used. */
int nvmlDeviceGetMemoryInfo(const void *device, struct memory *value) {
    ENTER(device);
    value->total = fixed(g, "memory_total", 85520809984.0);
    value->used = fixed(g, "memory_used", 0) + fixed(g, "memory_reserved", 538000000);
    value->free = fixed(g, "memory_free", (double)value->total - value->used);
    return SUCCESS;
}

READS(nvmlDeviceGetPowerUsage, unsigned, power_mw(g))
READS(nvmlDeviceGetEnforcedPowerLimit, unsigned, limit_mw(g))
READS(nvmlDeviceGetPowerManagementLimit, unsigned, limit_mw(g))
READS(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, energy_mj(g))
READS(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, fixed(g, "reasons", level(g)->reasons))
READS(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, fixed(g, "reasons", level(g)->reasons))
READS(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, fixed(g, "pcie_gen", 5))
READS(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, fixed(g, "pcie_gen_max", 5))
READS(nvmlDeviceGetCurrPcieLinkWidth, unsigned, fixed(g, "pcie_width", 16))
READS(nvmlDeviceGetMaxPcieLinkWidth, unsigned, fixed(g, "pcie_width_max", 16))

int nvmlDeviceGetClockInfo(const void *device, int type, unsigned *value) {
    ENTER(device);
    (void)type;
    *value = fixed(g, "clock_mhz", clock_max(g) * level(g)->clock);
    return SUCCESS;
}

int nvmlDeviceGetMaxClockInfo(const void *device, int type, unsigned *value) {
    ENTER(device);
    (void)type;
    *value = clock_max(g);
    return SUCCESS;
}

struct temperature { unsigned version, sensor; int value; };
int nvmlDeviceGetTemperatureV(const void *device, struct temperature *t) {
    ENTER(device);
    t->value = fixed(g, "temperature_c", 30 + 45 * power_mw(g) / limit_mw(g));
    return SUCCESS;
}

int nvmlDeviceGetTemperature(const void *device, int sensor, unsigned *value) {
    ENTER(device);
    (void)sensor;
    *value = fixed(g, "temperature_c", 30 + 45 * power_mw(g) / limit_mw(g));
    return SUCCESS;
}

int nvmlDeviceGetMigMode(const void *device, unsigned *current, unsigned *pending) {
    ENTER(device);
    *current = *pending = fixed(g, "mig", 0);
    return SUCCESS;
}

struct process { unsigned pid; unsigned long long bytes; unsigned instance, compute_instance; };
static int processes(const struct gpu *g, unsigned *count, struct process *list) {
    unsigned room = *count;
    *count = g->process_count;
    if (room < *count) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < *count; i++)
        list[i] = (struct process){g->pid[i], g->process_bytes[i], ~0u, ~0u};
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v2(const void *device, unsigned *count, struct process *list) {
    ENTER(device);
    return processes(g, count, list);
}

int nvmlDeviceGetComputeRunningProcesses_v3(const void *device, unsigned *count, struct process *list) {
    ENTER(device);
    return processes(g, count, list);
}

struct field { unsigned id, scope; long long at_us, latency_us; int type, status; long long value; };
int nvmlDeviceGetFieldValues(const void *device, int count, struct field *fields) {
    ENTER(device);
    for (int i = 0; i < count; i++) {
        struct field *f = &fields[i];
        f->at_us = now() * 1e6;
        f->type = 3; /* unsigned long long */
        f->status = f->id == FIELD_ENERGY || f->id == 74 || f->id == 76 || (f->id >= 269 && f->id <= 271) ? SUCCESS : NOT_SUPPORTED;
        f->value = f->id == FIELD_ENERGY ? (long long)energy_mj(g) : counter(g, f->id);
        for (int e = 0; e < g->error_count; e++)
            if (g->error_id[e] == f->id) f->status = g->field_error[e];
    }
    return SUCCESS;
}
