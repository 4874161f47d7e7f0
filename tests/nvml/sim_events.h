/* Event sets of the simulated NVML: a critical Xid wakes who registered before it. */
#include "sim_call.h"

enum { EVENT_XID = 0x8 };
struct event_set { double seen[MAX_GPUS]; };
struct event { void *device; unsigned long long type, data; unsigned instance, compute_instance; };

READS(nvmlDeviceGetSupportedEventTypes, unsigned long long, ((void)g, EVENT_XID))

int nvmlEventSetCreate(struct event_set **set) {
    int failed = enter(__func__, NULL, NULL);
    if (failed) return failed;
    *set = calloc(1, sizeof **set);
    for (int i = 0; i < MAX_GPUS; i++) (*set)->seen[i] = INFINITY;
    return SUCCESS;
}

int nvmlEventSetFree(struct event_set *set) {
    free(set);
    return SUCCESS;
}

int nvmlDeviceRegisterEvents(const void *device, unsigned long long types, struct event_set *set) {
    ENTER(device);
    (void)g;
    if (types & ~EVENT_XID) return NOT_SUPPORTED;
    set->seen[index_in(device)] = now();
    return SUCCESS;
}

static int next_event(struct event_set *set, struct event *event) {
    for (int i = 0; i < MAX_GPUS; i++) {
        const struct gpu *g = &state.gpus[i];
        for (int x = 0; x < g->xid_count; x++) {
            if (g->xids[x].at <= set->seen[i] || g->xids[x].at > now()) continue;
            set->seen[i] = g->xids[x].at;
            *event = (struct event){(void *)(intptr_t)(i + 1), EVENT_XID, g->xids[x].number, ~0u, ~0u};
            return 1;
        }
    }
    return 0;
}

int nvmlEventSetWait_v2(struct event_set *set, struct event *event, unsigned timeout_ms) {
    double until = now() + timeout_ms * 1e-3;
    for (;;) {
        int failed = enter(__func__, NULL, NULL);
        if (failed) return failed;
        if (next_event(set, event)) return SUCCESS;
        if (now() >= until) return TIMED_OUT;
        usleep(1000);
    }
}
