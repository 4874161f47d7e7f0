/* GPM of the simulated NVML: metrics of the time between two samples (nvml.h, nvmlGpmFunctions).
 *
 * Hopper and later have it, or what the key `gpm` says; sampled each 100 ms, so two samples closer
 * than that hold nothing new.
 */
#include "sim_call.h"

struct gpm_sample { int gpu; double at; };
struct gpm_metric { unsigned id; int status; double value; const char *short_name, *long_name, *unit; };
struct gpm_request { unsigned version, count; struct gpm_sample *first, *second; struct gpm_metric metrics[]; };
struct gpm_support { unsigned version, supported; };

static const struct { unsigned id; const char *key, *unit; reading of; } GPM[] = {
    {2, "gpm_sm", "%", sm_of},             {3, "gpm_occupancy", "%", occupancy_of},
    {5, "gpm_tensor", "%", tensor_of},     {10, "gpm_dram", "%", dram_of},
    {20, "gpm_pcie_tx", "MiB/s", pcie_tx_of},     {21, "gpm_pcie_rx", "MiB/s", pcie_rx_of},
    {60, "gpm_nvlink_rx", "MiB/s", nvlink_rx_of}, {61, "gpm_nvlink_tx", "MiB/s", nvlink_tx_of},
};

static int has_gpm(const struct gpu *g) {
    static const char *const MODELS[] = {" H100", " H200", " H800", " H20", " GH200", " B200", " B300", " GB200", " GB300"};
    int found = 0;
    for (unsigned i = 0; i < sizeof MODELS / sizeof *MODELS; i++) found |= strstr(name(g), MODELS[i]) != NULL;
    return fixed(g, "gpm", found);
}

int nvmlGpmQueryDeviceSupport(const void *device, struct gpm_support *support) {
    ENTER(device);
    if (support->version != 1) return VERSION_MISMATCH;
    support->supported = has_gpm(g);
    return SUCCESS;
}

int nvmlGpmSampleAlloc(struct gpm_sample **sample) {
    int failed = enter(__func__, NULL, NULL);
    if (failed) return failed;
    *sample = calloc(1, sizeof **sample);
    return SUCCESS;
}

int nvmlGpmSampleFree(struct gpm_sample *sample) {
    free(sample);
    return SUCCESS;
}

int nvmlGpmSampleGet(const void *device, struct gpm_sample *sample) {
    ENTER(device);
    if (!has_gpm(g)) return NOT_SUPPORTED;
    *sample = (struct gpm_sample){index_in(device), floor(now() * 10) / 10};
    return SUCCESS;
}

static int gpm_read(const struct gpm_request *request, struct gpm_metric *metric) {
    const struct gpu *g = &state.gpus[request->first->gpu];
    double from = request->first->at, to = request->second->at;
    if (to <= from) return NO_DATA;
    for (unsigned i = 0; i < sizeof GPM / sizeof *GPM; i++) {
        int key = index_of(GPM[i].key, KEYS, KEY_COUNT);
        if (GPM[i].id != metric->id) continue;
        if (metric->id >= 60 && !links(g)) return NOT_SUPPORTED;
        metric->unit = GPM[i].unit;
        metric->value = g->is_fixed[key] ? (double)g->fixed[key] : integral(g, from, to, GPM[i].of) / (to - from);
        return SUCCESS;
    }
    return NOT_SUPPORTED;
}

int nvmlGpmMetricsGet(struct gpm_request *request) {
    int failed = enter(__func__, (void *)(intptr_t)(request->second->gpu + 1), NULL);
    if (failed) return failed;
    if (request->version != 1) return VERSION_MISMATCH;
    if (request->first->gpu != request->second->gpu || !request->first->at) return INVALID_ARGUMENT;
    for (unsigned i = 0; i < request->count; i++) request->metrics[i].status = gpm_read(request, &request->metrics[i]);
    return SUCCESS;
}
