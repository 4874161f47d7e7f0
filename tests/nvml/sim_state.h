/* The state file of the simulated NVML, named by GPUWATCH_SIM_STATE; replace it by rename.
 *
 * It is read again when it changes. Lines, in any order but for phases, which go forward in time:
 *
 *   # comment
 *   driver TEXT                        version of the driver
 *   count N                            GPUs that are listed (default: the highest GPU named + 1)
 *   gpu G phase [AT] KIND [SHARE]      since AT (CLOCK_MONOTONIC, s; default: when the file was
 *                                      written): off idle starved compute spin copy throttled;
 *                                      active for SHARE (0..1) of the time, else idle
 *   gpu G spent KIND SECONDS           time in a phase before the first phase line
 *   gpu G period SECONDS               sample period of utilisation (default 1/6)
 *   gpu G name TEXT | uuid TEXT
 *   gpu G KEY NUMBER                   a fixed reading, see KEYS below
 *   gpu G field ID NUMBER              base of a field's counter (default 0)
 *   gpu G field_error ID CODE          that field alone fails
 *   gpu G process PID BYTES            a process with a compute context
 *   gpu G xid NUMBER AT                a critical error that the driver reports at AT
 *   fault G|* FUNCTION|* error CODE | sleep SECONDS | hang | crash
 *
 * A file with one phase line and no AT is enough, as each process remembers what it read; it sees
 * only what stands there when it makes a call, so short phases want a history of lines with AT.
 */
#ifndef SIM_STATE_H
#define SIM_STATE_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { MAX_GPUS = 16, MAX_PHASES = 512, MAX_PROCESSES = 64, MAX_FIELDS = 32, MAX_FAULTS = 64, MAX_XIDS = 16 };

enum kind { OFF, IDLE, STARVED, COMPUTE, SPIN, COPY, THROTTLED, KINDS };
static const char *const KIND_NAMES[KINDS] = {"off", "idle", "starved", "compute", "spin", "copy", "throttled"};

static const char *const KEYS[] = {
    "util", "memory_util", "memory_total", "memory_used", "memory_reserved", "memory_free", "power_mw",
    "power_limit_mw", "clock_mhz", "clock_max_mhz", "temperature_c", "reasons", "energy_mj", "pcie_gen",
    "pcie_gen_max", "pcie_width", "pcie_width_max", "mig", "compute_mode", "encoder", "decoder", "nvlink_links",
    "nvlink_down", "ecc_corrected", "ecc_uncorrected", "gpm", "gpm_sm", "gpm_occupancy", "gpm_tensor", "gpm_dram",
    "gpm_pcie_tx", "gpm_pcie_rx", "gpm_nvlink_tx", "gpm_nvlink_rx",
};
enum { KEY_COUNT = sizeof KEYS / sizeof *KEYS };

struct phase { double at, share; enum kind kind; };
struct gpu {
    struct phase phases[MAX_PHASES];
    double spent[KINDS], period;
    long long fixed[KEY_COUNT], field[MAX_FIELDS];
    char is_fixed[KEY_COUNT], is_untimed, name[96], uuid[96];
    unsigned field_id[MAX_FIELDS], error_id[MAX_FIELDS], pid[MAX_PROCESSES];
    int field_error[MAX_FIELDS], phase_count, field_count, error_count, process_count;
    unsigned long long process_bytes[MAX_PROCESSES];
    struct { unsigned number; double at; } xids[MAX_XIDS];
    int xid_count;
};
struct fault { int gpu; char function[64], what[8]; double value; };
static struct state {
    struct gpu gpus[MAX_GPUS];
    struct fault faults[MAX_FAULTS];
    int count, fault_count;
    char driver[80];
} state;
static int index_of(const char *word, const char *const *words, int count) {
    for (int i = 0; i < count; i++)
        if (!strcmp(word, words[i])) return i;
    return -1;
}

static void parse_phase(struct gpu *g, const char *rest) {
    struct phase p = {0, 1, OFF};
    char word[32];
    int k;
    g->is_untimed = sscanf(rest, "%lf %31s %lf", &p.at, word, &p.share) < 2;
    if (g->is_untimed && sscanf(rest, "%31s %lf", word, &p.share) < 1) return;
    k = index_of(word, KIND_NAMES, KINDS);
    if (k < 0 || g->phase_count == MAX_PHASES) return;
    p.kind = k;
    g->phases[g->phase_count++] = p;
}

/* Puts a phase without a time behind those that this process read before. */
static void remember(struct gpu *g, const struct gpu *before, double written) {
    struct phase p = g->phases[0];
    int from = before->phase_count == MAX_PHASES;
    p.at = written;
    memcpy(g->spent, before->spent, sizeof g->spent);
    if (from) g->spent[before->phases[0].kind] += before->phases[1].at - before->phases[0].at;
    g->phase_count = before->phase_count - from;
    memcpy(g->phases, before->phases + from, g->phase_count * sizeof p);
    g->phases[g->phase_count++] = p;
}

static void parse_gpu(struct gpu *g, const char *key, const char *rest) {
    char word[32];
    double a = 0;
    long long n = 0;
    int k = index_of(key, KEYS, KEY_COUNT);
    if (k >= 0) {
        g->fixed[k] = strtoll(rest, NULL, 0);
        g->is_fixed[k] = 1;
    } else if (!strcmp(key, "phase")) {
        parse_phase(g, rest);
    } else if (!strcmp(key, "spent") && sscanf(rest, "%31s %lf", word, &a) == 2) {
        k = index_of(word, KIND_NAMES, KINDS);
        if (k >= 0) g->spent[k] += a;
    } else if (!strcmp(key, "period")) {
        g->period = atof(rest);
    } else if (!strcmp(key, "name")) {
        snprintf(g->name, sizeof g->name, "%s", rest);
    } else if (!strcmp(key, "uuid")) {
        snprintf(g->uuid, sizeof g->uuid, "%s", rest);
    } else if (!strcmp(key, "field") && g->field_count < MAX_FIELDS && sscanf(rest, "%d %lli", &k, &n) == 2) {
        g->field_id[g->field_count] = k;
        g->field[g->field_count++] = n;
    } else if (!strcmp(key, "field_error") && g->error_count < MAX_FIELDS && sscanf(rest, "%d %lli", &k, &n) == 2) {
        g->error_id[g->error_count] = k;
        g->field_error[g->error_count++] = n;
    } else if (!strcmp(key, "process") && g->process_count < MAX_PROCESSES && sscanf(rest, "%d %lli", &k, &n) == 2) {
        g->pid[g->process_count] = k;
        g->process_bytes[g->process_count++] = n;
    } else if (!strcmp(key, "xid") && g->xid_count < MAX_XIDS && sscanf(rest, "%d %lf", &k, &a) == 2) {
        g->xids[g->xid_count].number = k;
        g->xids[g->xid_count++].at = a;
    }
}

static void parse_line(struct state *s, int *listed, char *line) {
    char word[64], key[64], what[64], function[64];
    int i, used = 0;
    struct fault f = {-1, "", "", 0};
    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "gpu %d %63s %n", &i, key, &used) >= 2 && used && i >= 0 && i < MAX_GPUS) {
        parse_gpu(&s->gpus[i], key, line + used);
        if (i + 1 > s->count) s->count = i + 1;
    } else if (sscanf(line, "count %d", &i) == 1) {
        *listed = i;
    } else if (!strncmp(line, "driver ", 7)) {
        snprintf(s->driver, sizeof s->driver, "%.79s", line + 7);
    } else if (s->fault_count < MAX_FAULTS && sscanf(line, "fault %63s %63s %63s %lf", word, function, what, &f.value) >= 3) {
        f.gpu = *word == '*' ? -1 : atoi(word);
        snprintf(f.function, sizeof f.function, "%s", function);
        snprintf(f.what, sizeof f.what, "%.7s", what);
        s->faults[s->fault_count++] = f;
    }
}

static double monotonic(struct timespec wall) {
    struct timespec m, r;
    clock_gettime(CLOCK_MONOTONIC, &m);
    clock_gettime(CLOCK_REALTIME, &r);
    return m.tv_sec - r.tv_sec + wall.tv_sec + (m.tv_nsec - r.tv_nsec + wall.tv_nsec) * 1e-9;
}

static void refresh(void) {
    static struct timespec seen;
    static ino_t inode;
    static off_t size;
    static struct state next;
    char line[512];
    int listed = -1;
    struct stat st;
    const char *path = getenv("GPUWATCH_SIM_STATE");
    FILE *file;
    if (!path || stat(path, &st)) return;
    if (st.st_ino == inode && st.st_size == size && st.st_mtim.tv_sec == seen.tv_sec && st.st_mtim.tv_nsec == seen.tv_nsec) return;
    file = fopen(path, "r");
    if (!file) return;
    if (!fstat(fileno(file), &st)) {
        memset(&next, 0, sizeof next);
        snprintf(next.driver, sizeof next.driver, "570.124.06");
        while (fgets(line, sizeof line, file)) parse_line(&next, &listed, line);
        if (listed >= 0) next.count = listed < MAX_GPUS ? listed : MAX_GPUS;
        for (int i = 0; i < MAX_GPUS; i++)
            if (next.gpus[i].is_untimed) remember(&next.gpus[i], &state.gpus[i], monotonic(st.st_mtim));
        state = next;
        seen = st.st_mtim;
        inode = st.st_ino;
        size = st.st_size;
    }
    fclose(file);
}

#endif
