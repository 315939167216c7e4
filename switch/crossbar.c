/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crossbar.c - rows, outputs and their queues are made, rebased with the clock, and counted anew.
 */
#include "switch/crossbar.h"

#include <stdlib.h>

#include "emu/alloc.h"

static uint32_t crossbar_width(uint32_t rows)
{
    return (rows + 15) / 16 * 16;
}

size_t switch_crossbar_bytes(uint32_t ports, uint32_t rows, uint32_t slots,
                             const struct emu_profile *profile)
{
    uint32_t credits = emu_profile_credits(profile);

    return (size_t)rows * (sizeof(struct switch_row) + sizeof(struct switch_out)) +
           (size_t)rows * crossbar_width(rows) * (1 + sizeof(struct switch_list)) +
           ports * emu_link_bytes(credits) + switch_store_bytes(slots);
}

bool switch_crossbar_init(struct switch_crossbar *bar, uint32_t rows, uint32_t slots)
{
    bar->light = UINT64_MAX;
    bar->light_slots = bar->sw.profile->light_slots;
    bar->rows = rows;
    bar->width = crossbar_width(rows);
    bar->count = emu_zeros(rows * bar->width);
    bar->xpoint = emu_zeros(rows * bar->width * sizeof *bar->xpoint);
    bar->row = emu_zeros(rows * sizeof *bar->row);
    bar->out = emu_zeros(rows * sizeof *bar->out);
    return switch_store_init(&bar->store, slots) && bar->count && bar->xpoint && bar->row &&
           bar->out;
}

void switch_crossbar_free(struct switch_crossbar *bar)
{
    for (uint32_t p = 0; bar->out && bar->row && p < bar->sw.ports; p++) {
        emu_link_unjoin(&bar->out[p].tx);
        emu_link_free_edge(&bar->row[p].rx);
    }
    switch_store_free(&bar->store);
    free(bar->out);
    free(bar->row);
    free(bar->xpoint);
    free(bar->count);
}

struct emu_tx *switch_crossbar_tx(struct switch_dev *sw, uint32_t port)
{
    return &switch_crossbar_of(sw)->out[port].tx;
}

struct emu_rx *switch_crossbar_rx(struct switch_dev *sw, uint32_t port)
{
    return &switch_crossbar_of(sw)->row[port].rx;
}

void switch_crossbar_rebase(struct switch_crossbar *bar, uint64_t by_ps)
{
    switch_store_rebase(&bar->store, by_ps);
    for (uint32_t p = 0; p < bar->sw.ports; p++) {
        emu_tx_rebase(&bar->out[p].tx, by_ps);
        emu_rx_rebase(&bar->row[p].rx, by_ps);
    }
}

/* --- what must hold ----------------------------------------------------------------- */

/* What stands at (@r, output), counted. */
static const char *check_row(const struct switch_crossbar *bar, uint32_t r, uint64_t now_ps,
                             uint64_t *held, uint64_t *waited_ps)
{
    for (uint32_t o = 0; o < bar->rows; o++) {
        uint32_t slot = switch_xpoint(bar, r, o)->first;
        uint32_t count = *switch_count(bar, r, o);

        if (!(bar->out[o].waiting >> r & 1) != !count)
            return "an output does not know who waits for it";
        *held += count;
        for (; count; count--) {
            *waited_ps += now_ps - bar->store.slot[slot].time_ps;
            slot = bar->store.next[slot];
        }
    }
    return NULL;
}

/* An output knows how many segments are for it. */
static const char *check_out(const struct switch_crossbar *bar, uint32_t o)
{
    uint32_t queued = 0;

    for (uint32_t r = 0; r < bar->rows; r++)
        queued += *switch_count(bar, r, o);
    return queued == bar->out[o].queued ? NULL : "an output does not know how many wait for it";
}

const char *switch_crossbar_check(struct switch_crossbar *bar, uint64_t now_ps,
                                  const struct switch_little *little, switch_row_check_fn row_check)
{
    uint64_t held = 0, waited_ps = 0;

    for (uint32_t r = 0; r < bar->rows; r++) {
        const char *wrong = check_row(bar, r, now_ps, &held, &waited_ps);

        if (!wrong)
            wrong = check_out(bar, r);
        if (!wrong)
            wrong = row_check(&bar->sw, r, now_ps, &held, &waited_ps);
        if (wrong)
            return wrong;
    }
    return little ? switch_little_check(little, now_ps, held, waited_ps) : NULL;
}

const char *switch_crossbar_check_cable(const struct switch_crossbar *bar, uint32_t r,
                                        uint32_t holds)
{
    const struct emu_rx *rx = &bar->row[r].rx;

    if (rx->kind != EMU_LINK_LOCAL)
        return NULL;
    return emu_link_check(rx, holds, emu_profile_credits(bar->sw.profile));
}

uint32_t switch_crossbar_bufs(const struct switch_crossbar *bar)
{
    uint32_t bufs = 0;

    for (uint32_t r = 0; r < bar->rows; r++) {
        for (uint32_t o = 0; o < bar->rows; o++)
            bufs +=
                switch_store_bufs(&bar->store, switch_xpoint(bar, r, o), *switch_count(bar, r, o));
        if (r < bar->sw.ports)
            bufs += emu_link_bufs(&bar->row[r].rx);
    }
    return bufs;
}
