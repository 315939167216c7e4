/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * switch.c - a switch is made, stepped, and taken apart.
 */
#include "switch/switch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "switch/internal.h"

#define SWITCH_BURST 64 /* segments taken from one port in one pass */

/* Credits came back at these ports, or are about to: their outputs may send. */
static void switch_take_credits(struct switch_dev *sw, uint64_t until_ps)
{
    uint64_t ports = emu_dev_take(&sw->dev, EMU_EVENT_CREDIT) | sw->crediting;

    sw->crediting = 0;
    for (; ports; ports &= ports - 1) {
        uint32_t o = (uint32_t)__builtin_ctzll(ports);

        emu_tx_take_credits(&sw->out[o].tx, until_ps);
        if (sw->out[o].waiting)
            sw->runnable |= (uint64_t)1 << o;
    }
}

static void take_port(struct switch_dev *sw, uint32_t r, uint64_t until_ps)
{
    struct emu_rx *rx = &sw->row[r].rx;
    const struct emu_entry *entry;
    uint32_t moved = 0;

    emu_rx_begin(rx);
    while (moved < SWITCH_BURST && (entry = emu_rx_front(rx, until_ps))) {
        uint64_t time_ps = entry->time_ps;

        switch_admit(sw, r, entry);
        emu_rx_skip(rx);
        moved++;
        if (sw->dev.timed) { /* room that it does not take is free at once */
            emu_rx_done(rx, 1); /* the slot before the credit that lets it be filled */
            switch_pay_row(sw, r, time_ps + sw->profile->channel_ps);
        }
    }
    if (moved && !sw->dev.timed)
        emu_rx_done(rx, moved);
    if (moved == SWITCH_BURST) {
        sw->arriving |= (uint64_t)1 << r;
        emu_dev_again(&sw->dev);
    } else if (sw->dev.timed) {
        uint64_t next_ps = emu_rx_next_ps(rx);

        if (next_ps != EMU_NEVER) {
            sw->arriving |= (uint64_t)1 << r;
            if (next_ps < sw->dev.next_ps)
                sw->dev.next_ps = next_ps;
        }
    }
}

static void switch_take_segments(struct switch_dev *sw, uint64_t until_ps)
{
    uint64_t ports = emu_dev_take(&sw->dev, EMU_EVENT_DATA) | sw->arriving;

    sw->arriving = 0;
    for (; ports; ports &= ports - 1)
        take_port(sw, (uint32_t)__builtin_ctzll(ports), until_ps);
}

/* Raw: one batch of credits a row and pass. A timed pass has paid at each arrival and departure. */
static void switch_return_credits(struct switch_dev *sw)
{
    uint64_t rows = sw->unsettled & ~((uint64_t)1 << sw->ports);

    sw->unsettled = 0;
    for (; rows && !sw->dev.timed; rows &= rows - 1)
        switch_pay_row(sw, (uint32_t)__builtin_ctzll(rows), 0);
}

/* One pass: bounded, never blocks or allocates. Returns segments moved. */
static uint32_t switch_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct switch_dev *sw = (struct switch_dev *)dev;
    uint32_t moved;

    dev->next_ps = EMU_NEVER;
    switch_take_credits(sw, until_ps);             /* refill before spending */
    switch_take_segments(sw, until_ps);            /* links -> crosspoints */
    moved = switch_combine(sw, until_ps);          /* contributions fold into one */
    moved += switch_send(sw, until_ps);            /* arbitrate, spend credit */
    if (moved && sw->results.first != sw->results.last)
        emu_dev_again(dev);                        /* sending may have made room for results */
    switch_return_credits(sw);                     /* only for room truly free */
    return moved;
}

static uint32_t switch_slots(const struct emu_profile *profile)
{
    uint32_t slots = 1;

    while (slots < profile->xpoint_slots)
        slots *= 2;
    return slots;
}

static uint32_t switch_width(uint32_t ports)
{
    return (ports + 1 + 15) / 16 * 16;
}

size_t switch_bytes(uint32_t ports, const struct emu_profile *profile)
{
    size_t rows = ports + 1;

    return sizeof(struct switch_dev) + rows * sizeof(struct switch_row) +
           rows * sizeof(struct switch_out) + 2 * rows * switch_width(ports) +
           rows * rows * switch_slots(profile) * (sizeof(struct emu_entry) + 1) +
           2 * ports * emu_ring_bytes(profile->xpoint_slots);
}

static void *switch_zeros(size_t bytes)
{
    void *at;

    bytes = (bytes + EMU_LINE - 1) / EMU_LINE * EMU_LINE;
    at = aligned_alloc(EMU_LINE, bytes);
    if (at)
        memset(at, 0, bytes);
    return at;
}

int switch_create(struct switch_dev **ret, struct emu_worker *worker, uint32_t ports,
                  const struct topo_route *route, const struct emu_profile *profile,
                  uint64_t seed)
{
    struct switch_dev *sw;
    size_t rows = ports + 1;
    size_t xpoints;

    if (!ports || ports > TOPO_PORTS_MAX || !profile->xpoint_slots ||
        profile->xpoint_slots > EMU_XPOINT_MAX)
        return -EINVAL;
    sw = switch_zeros(sizeof(*sw));
    if (!sw)
        return -ENOMEM;
    sw->route = route;
    sw->profile = profile;
    sw->ports = ports;
    sw->slots = switch_slots(profile);
    sw->random = seed | 1;
    sw->light = UINT64_MAX;
    sw->light_slots = profile->light_slots;
    sw->xpoint_slots = profile->xpoint_slots;
    sw->by_row = profile->credit == EMU_CREDIT_ROW;
    sw->width = switch_width(ports);
    xpoints = rows * sw->width;
    sw->row = switch_zeros(rows * sizeof(*sw->row));
    sw->out = switch_zeros(rows * sizeof(*sw->out));
    sw->count = switch_zeros(xpoints);
    sw->head = switch_zeros(xpoints);
    sw->slot = switch_zeros(rows * rows * sw->slots * sizeof(*sw->slot));
    sw->copy_of = switch_zeros(rows * rows * sw->slots);
    if (!sw->row || !sw->out || !sw->count || !sw->head || !sw->slot || !sw->copy_of) {
        switch_destroy(sw);
        return -ENOMEM;
    }
    emu_dev_init(&sw->dev, worker, switch_step);
    *ret = sw;
    return 0;
}

void switch_destroy(struct switch_dev *sw)
{
    if (!sw)
        return;
    for (uint32_t p = 0; sw->out && p < sw->ports; p++)
        emu_link_unjoin(&sw->out[p].tx);
    free(atomic_load_explicit(&sw->groups, memory_order_relaxed));
    free(sw->copy_of);
    free(sw->slot);
    free(sw->head);
    free(sw->count);
    free(sw->out);
    free(sw->row);
    free(sw);
}

struct emu_dev *switch_emu_dev(struct switch_dev *sw)
{
    return &sw->dev;
}

struct emu_tx *switch_tx(struct switch_dev *sw, uint32_t port)
{
    return &sw->out[port].tx;
}

struct emu_rx *switch_rx(struct switch_dev *sw, uint32_t port)
{
    return &sw->row[port].rx;
}

const struct switch_counts *switch_counts(const struct switch_dev *sw)
{
    return &sw->counts;
}
