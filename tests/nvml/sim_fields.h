/* Field values of the simulated NVML: many counters in one call, each with a status of its own.
 *
 * A counter is its base from the state file and what the phases add: time for event reasons, bytes
 * for PCIe and NVLink. NVLink bytes are of the link that the scope names, of all with UINT_MAX.
 */
#include "sim_call.h"

#include <limits.h>

struct field { unsigned id, scope; long long at_us, latency_us; int type, status; long long value; };

static const struct counted { unsigned id; unsigned long long reason; reading of; double scale; } COUNTED[] = {
    {74, 0x4, reason_of, 1e9},     {76, 0x10, reason_of, 1e9},    {269, 0x20, reason_of, 1e9},
    {270, 0x40, reason_of, 1e9},   {271, 0x80, reason_of, 1e9},   {138, 0, nvlink_tx_of, 1024},
    {139, 0, nvlink_rx_of, 1024},  {197, 0, pcie_tx_of, 1048576}, {198, 0, pcie_rx_of, 1048576},
};
/* ECC, retired pages, NVLink errors (all links), PCIe replays, remapped rows, power smoothing: bases only. */
static const unsigned BASES[] = {3, 4, 31, 38, 45, 52, 59, 94, 142, 143, 144, 145, 160, 251};
enum { FIELD_ENERGY = 83, FIELD_LINKS = 91 };

static long long base_of(const struct gpu *g, unsigned id) {
    for (int i = 0; i < g->field_count; i++)
        if (g->field_id[i] == id) return g->field[i];
    return 0;
}

static int is_nvlink(unsigned id) { return id == 38 || id == 45 || id == 52 || id == 59 || id == 138 || id == 139 || id == 160; }

static int field_value(const struct gpu *g, struct field *f) {
    f->value = base_of(g, f->id);
    if (is_nvlink(f->id) && !links(g)) return NOT_SUPPORTED;
    if (f->id == FIELD_ENERGY) f->value = energy_mj(g);
    if (f->id == FIELD_LINKS) f->value = links(g);
    if (f->id == FIELD_ENERGY || f->id == FIELD_LINKS) return SUCCESS;
    for (unsigned i = 0; i < sizeof BASES / sizeof *BASES; i++)
        if (BASES[i] == f->id) return SUCCESS;
    for (unsigned i = 0; i < sizeof COUNTED / sizeof *COUNTED; i++) {
        double sum;
        if (COUNTED[i].id != f->id) continue;
        reason_bit = COUNTED[i].reason;
        sum = total(g, now(), COUNTED[i].of) * COUNTED[i].scale;
        if (is_nvlink(f->id) && f->scope != UINT_MAX) sum /= links(g);
        f->value += sum;
        return SUCCESS;
    }
    return NOT_SUPPORTED;
}

int nvmlDeviceGetFieldValues(const void *device, int count, struct field *fields) {
    ENTER(device);
    for (int i = 0; i < count; i++) {
        struct field *f = &fields[i];
        f->at_us = now() * 1e6;
        f->type = 3; /* unsigned long long */
        f->status = field_value(g, f);
        for (int e = 0; e < g->error_count; e++)
            if (g->error_id[e] == f->id) f->status = g->field_error[e];
    }
    return SUCCESS;
}
