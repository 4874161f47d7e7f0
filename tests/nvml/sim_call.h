/* What every call of the simulated NVML begins with: the state as it is now, and its faults. */
#ifndef SIM_CALL_H
#define SIM_CALL_H
#include "sim_model.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

enum {
    SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND = 6, INSUFFICIENT_SIZE,
    DRIVER_NOT_LOADED = 9, TIMED_OUT, NO_DATA = 21, VERSION_MISMATCH = 25,
};

static int initialised;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

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

/* A device handle is the GPU's index + 1. */
static int index_in(const void *device) { return (int)(intptr_t)device - 1; }

static int enter(const char *function, const void *device, struct gpu **gpu) {
    int index = index_in(device);
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

#define ENTER(device)                         \
    struct gpu *g;                            \
    int failed = enter(__func__, device, &g); \
    if (failed) return failed

#define READS(NAME, TYPE, EXPRESSION)           \
    int NAME(const void *device, TYPE *value) { \
        ENTER(device);                          \
        *value = (TYPE)(EXPRESSION);            \
        return SUCCESS;                         \
    }

#endif
