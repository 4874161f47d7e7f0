/* A simulated NVML: libnvidia-ml.so.1 for machines without a GPU.
 *
 * It behaves as NVML does: utilisation is the share of a past sample period in which a kernel ran,
 * power is an average over 1 s, energy and event-reason times only grow, a spinning collective
 * reads about 100 % at low power. All readings follow from the clock and one text file, whose
 * lines sim_state.h documents. Layouts and codes: NVML API reference, nvml.h.
 */
#include "sim_buffers.h"
#include "sim_events.h"
#include "sim_fields.h"
#include "sim_gpm.h"

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
    snprintf(text, length, "%s", name(g));
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

READS(nvmlDeviceGetComputeMode, unsigned, fixed(g, "compute_mode", 0))

int nvmlDeviceGetTotalEccErrors(const void *device, int is_uncorrected, int is_aggregate, unsigned long long *value) {
    ENTER(device);
    (void)is_aggregate;
    *value = fixed(g, is_uncorrected ? "ecc_uncorrected" : "ecc_corrected", 0);
    return SUCCESS;
}

int nvmlDeviceGetEncoderUtilization(const void *device, unsigned *value, unsigned *period_us) {
    ENTER(device);
    *value = fixed(g, "encoder", 0);
    *period_us = 167000;
    return SUCCESS;
}

int nvmlDeviceGetDecoderUtilization(const void *device, unsigned *value, unsigned *period_us) {
    ENTER(device);
    *value = fixed(g, "decoder", 0);
    *period_us = 167000;
    return SUCCESS;
}

/* ---- NVLink: `nvlink_links` of them, the last `nvlink_down` inactive ---- */

static int is_link(const struct gpu *g, unsigned link) {
    if (!links(g)) return NOT_SUPPORTED;
    return link < (unsigned)links(g) ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetNvLinkState(const void *device, unsigned link, unsigned *active) {
    ENTER(device);
    *active = link < (unsigned)(links(g) - fixed(g, "nvlink_down", 0));
    return is_link(g, link);
}

int nvmlDeviceGetNvLinkRemoteDeviceType(const void *device, unsigned link, unsigned *type) {
    ENTER(device);
    *type = 2; /* NVSwitch */
    return is_link(g, link);
}

int nvmlDeviceGetNvLinkErrorCounter(const void *device, unsigned link, unsigned counter, unsigned long long *value) {
    static const unsigned IDS[] = {52, 59, 38, 45, 160};
    ENTER(device);
    if (counter >= sizeof IDS / sizeof *IDS) return INVALID_ARGUMENT;
    *value = link ? 0 : base_of(g, IDS[counter]);
    return is_link(g, link);
}

/* ---- processes: version 1 had neither instances nor the room for them ---- */

struct process_v1 { unsigned pid; unsigned long long bytes; };
struct process { unsigned pid; unsigned long long bytes; unsigned instance, compute_instance; };

static int room(const struct gpu *g, unsigned *count) {
    int fits = *count >= (unsigned)g->process_count;
    *count = g->process_count;
    return fits ? SUCCESS : INSUFFICIENT_SIZE;
}

static int processes(const struct gpu *g, unsigned *count, struct process *list) {
    int failed = room(g, count);
    for (unsigned i = 0; !failed && i < *count; i++)
        list[i] = (struct process){g->pid[i], g->process_bytes[i], ~0u, ~0u};
    return failed;
}

int nvmlDeviceGetComputeRunningProcesses(const void *device, unsigned *count, struct process_v1 *list) {
    ENTER(device);
    failed = room(g, count);
    for (unsigned i = 0; !failed && i < *count; i++) list[i] = (struct process_v1){g->pid[i], g->process_bytes[i]};
    return failed;
}

int nvmlDeviceGetComputeRunningProcesses_v2(const void *device, unsigned *count, struct process *list) {
    ENTER(device);
    return processes(g, count, list);
}

int nvmlDeviceGetComputeRunningProcesses_v3(const void *device, unsigned *count, struct process *list) {
    ENTER(device);
    return processes(g, count, list);
}
