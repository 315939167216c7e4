/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * switch.c - a switch is made, stepped, and taken apart.
 */
#include "switch/switch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "switch/channel/channel.h"

/* Credits came back at these ports: their outputs may send. */
static void switch_take_credits(struct switch_dev *sw)
{
    uint64_t ports = emu_dev_take(&sw->dev, EMU_EVENT_CREDIT);

    emu_each_bit(o, ports) {
        emu_tx_take_credits(&sw->out[o].tx);
        if (sw->out[o].waiting)
            sw->runnable |= emu_bit(o);
    }
}

static uint32_t take_port(struct switch_dev *sw, uint32_t r)
{
    struct emu_rx *rx = &sw->row[r].rx;
    const struct emu_entry *entry;
    uint32_t moved = 0;

    emu_rx_begin(rx);
    while (moved < SWITCH_BURST && (entry = emu_rx_front(rx, 0))) {
        sw->admit(sw, r, entry);
        emu_rx_skip(rx);
        moved++;
    }
    if (moved)
        emu_rx_done(rx, moved);
    if (moved == SWITCH_BURST) {
        sw->arriving |= emu_bit(r);
        emu_dev_again(&sw->dev);
    }
    return moved;
}

static uint32_t switch_take_segments(struct switch_dev *sw)
{
    uint64_t ports = emu_dev_take(&sw->dev, EMU_EVENT_DATA) | sw->arriving;
    uint32_t moved = 0;

    sw->arriving = 0;
    emu_each_bit(r, ports) {
        bool edge = sw->through && sw->row[r].rx.kind == EMU_LINK_EDGE;

        moved += edge ? switch_through(sw, r) : take_port(sw, r);
    }
    return moved;
}

/* One batch of credits a row and pass. */
static void switch_return_credits(struct switch_dev *sw)
{
    uint64_t rows = sw->unsettled & emu_bits_below(sw->ports);

    sw->unsettled = 0;
    emu_each_bit(r, rows) {
        if (switch_row_settle(sw, r))
            emu_rx_pay(&sw->row[r].rx, 0);
    }
}

static bool switch_pending(const struct switch_dev *sw)
{
    for (uint32_t u = 0; u < sw->units; u++)
        if (switch_unit_pending(sw, u))
            return true;
    return false;
}

/* Inputs with a buffer of their own: what waits in it, after others have left. */
static void switch_advance(struct switch_dev *sw)
{
    bool moved = false;

    for (uint32_t r = 0; r < sw->ports; r++)
        if (sw->row[r].backed)
            moved |= switch_input_advance(sw, r, 0);
    if (moved)
        emu_dev_again(&sw->dev);
}

/* Clock raw. One pass: bounded, never blocks or allocates. Returns segments moved. */
static uint32_t switch_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct switch_dev *sw = (struct switch_dev *)dev;
    uint32_t moved;

    (void)until_ps;
    sw->open = 0;
    sw->shut = sw->through ? ~emu_bits_below(sw->ports) : UINT64_MAX;
    switch_take_credits(sw);       /* refill before spending */
    moved = switch_take_segments(sw); /* links -> crosspoints */
    moved += switch_combine(sw);   /* contributions fold into one */
    moved += switch_send(sw);      /* arbitrate, spend credit */
    if (moved && switch_pending(sw))
        emu_dev_again(dev);        /* sending may have made room for results */
    if (sw->input)
        switch_advance(sw);
    switch_return_credits(sw);     /* only for room truly free */
    return moved;
}

uint32_t switch_segments(uint32_t ports, const struct emu_profile *profile)
{
    uint32_t rows = ports + profile->combine_units;
    uint32_t slots = 0;

    if (emu_profile_acknowledged(profile))
        return switch_channels_segments(ports, profile);
    if (profile->buffers != EMU_BUFFERS_INPUT)
        slots += rows * rows * profile->xpoint_slots;
    if (profile->buffers != EMU_BUFFERS_XPOINT)
        slots += ports * profile->input_slots;
    return slots;
}

/* Of an input's own buffer, where it has one. */
static size_t switch_input_bytes(uint32_t ports, const struct emu_profile *profile)
{
    if (profile->buffers == EMU_BUFFERS_XPOINT)
        return 0;
    return ports * sizeof(struct switch_input) + switch_segments(ports, profile) * sizeof(uint64_t);
}

static uint32_t switch_width(uint32_t rows)
{
    return (rows + 15) / 16 * 16;
}

size_t switch_bytes(uint32_t ports, const struct emu_profile *profile)
{
    size_t rows = ports + profile->combine_units;

    if (emu_profile_acknowledged(profile))
        return switch_channels_bytes(ports, profile);
    return sizeof(struct switch_dev) +
           rows * (sizeof(struct switch_row) + sizeof(struct switch_out) +
                   3 * sizeof(struct emu_order_event)) +
           profile->combine_units *
               (sizeof(struct switch_unit) + SWITCH_PENDING_MAX * sizeof(uint32_t)) +
           rows * switch_width((uint32_t)rows) * (1 + sizeof(struct switch_list)) +
           switch_segments(ports, profile) *
               (sizeof(struct emu_entry) + sizeof(struct switch_slot)) +
           switch_input_bytes(ports, profile) +
           ports * emu_link_bytes(emu_profile_credits(profile));
}

void *switch_lines(size_t bytes)
{
    return aligned_alloc(EMU_LINE, (bytes + EMU_LINE - 1) / EMU_LINE * EMU_LINE);
}

void *switch_zeros(size_t bytes)
{
    void *at = switch_lines(bytes);

    if (at)
        memset(at, 0, bytes);
    return at;
}

static bool switch_alloc_inputs(struct switch_dev *sw, size_t slots)
{
    if (sw->profile->buffers == EMU_BUFFERS_XPOINT)
        return true;
    sw->input = calloc(sw->ports, sizeof(*sw->input));
    sw->outs = switch_lines(slots * sizeof(*sw->outs));
    return sw->input && sw->outs;
}

static int switch_alloc(struct switch_dev *sw, size_t rows)
{
    size_t slots = switch_segments(sw->ports, sw->profile);

    sw->row = switch_zeros(rows * sizeof(*sw->row));
    sw->out = switch_zeros(rows * sizeof(*sw->out));
    sw->unit = calloc(sw->units, sizeof(*sw->unit));
    sw->acts.event = switch_lines(EMU_ORDER_ROOM(rows) * sizeof(*sw->acts.event));
    sw->count = switch_zeros(rows * sw->width);
    sw->xpoint = switch_zeros(rows * sw->width * sizeof(*sw->xpoint));
    sw->slot = switch_lines(slots * sizeof(*sw->slot));
    sw->link = switch_lines(slots * sizeof(*sw->link));
    if (!sw->row || !sw->out || !sw->unit || !sw->count ||
        !sw->acts.event || !sw->xpoint || !sw->slot || !sw->link || !switch_alloc_inputs(sw, slots))
        return -ENOMEM;
    emu_order_init(&sw->acts, sw->acts.event, (uint32_t)rows, false);
    for (uint32_t u = 0; u < sw->units; u++) {
        sw->unit[u].group = calloc(SWITCH_PENDING_MAX, sizeof(uint32_t));
        if (!sw->unit[u].group)
            return -ENOMEM;
    }
    return 0;
}

/* What the profile's buffers mean for who does what. */
static emu_step_fn switch_policy(struct switch_dev *sw, enum emu_clock_mode clock)
{
    const struct emu_profile *profile = sw->profile;

    sw->by_row = profile->buffers == EMU_BUFFERS_XPOINT && profile->credit == EMU_CREDIT_ROW;
    sw->by_copy = profile->buffers == EMU_BUFFERS_XPOINT && profile->credit == EMU_CREDIT_COUNTER;
    sw->shut = UINT64_MAX;
    sw->through = sw->by_row && clock == EMU_CLOCK_RAW;
    for (uint32_t r = sw->ports; r < sw->rows; r++)
        sw->row[r].backed = true;
    switch (profile->buffers) {
    case EMU_BUFFERS_INPUT:
        sw->admit = switch_input_admit;
        sw->slots.length_ps = EMU_SEG_BYTES * profile->link_ps_per_byte;
        sw->slots.next_ps = EMU_NEVER;
        return switch_step_slots;
    case EMU_BUFFERS_INPUT_XPOINT:
        sw->admit = switch_input_admit_xpoint;
        break;
    case EMU_BUFFERS_XPOINT:
        sw->admit = switch_admit;
        break;
    }
    return clock == EMU_CLOCK_RAW ? switch_step : switch_step_timed;
}

/* Can a switch be so? */
static bool switch_sane(uint32_t ports, const struct emu_profile *profile,
                        enum emu_clock_mode clock)
{
    uint32_t credits = emu_profile_credits(profile);

    if (!ports || ports > TOPO_PORTS_MAX || ports + profile->combine_units > SWITCH_ROWS_MAX ||
        !profile->xpoint_slots || profile->xpoint_slots > EMU_XPOINT_MAX || !credits ||
        credits > EMU_INPUT_MAX)
        return false;
    if (profile->buffers == EMU_BUFFERS_INPUT && clock == EMU_CLOCK_RAW)
        return false;
    return switch_segments(ports, profile) <= SWITCH_SEGMENTS_MAX;
}

int switch_create(struct switch_dev **ret, struct emu_worker *worker, uint32_t ports,
                  const struct topo_route *route, const struct emu_profile *profile,
                  uint64_t seed)
{
    struct switch_dev *sw;
    size_t rows = ports + profile->combine_units;

    if (emu_profile_acknowledged(profile))
        return switch_channels_create(ret, worker, ports, route, profile, seed);
    if (!switch_sane(ports, profile, worker->clock.mode))
        return -EINVAL;
    sw = switch_zeros(sizeof(*sw));
    if (!sw)
        return -ENOMEM;
    sw->route = route;
    sw->profile = profile;
    sw->ports = ports;
    sw->units = profile->combine_units;
    sw->rows = (uint32_t)rows;
    sw->leaf_ports = sw->units > 1 ? (ports + sw->units - 2) / (sw->units - 1) : ports;
    sw->free = SWITCH_NO_SLOT;
    sw->random = seed | 1;
    sw->light = UINT64_MAX;
    sw->light_slots = profile->light_slots;
    sw->xpoint_slots = profile->xpoint_slots;
    sw->width = switch_width((uint32_t)rows);
    if (switch_alloc(sw, rows)) {
        switch_destroy(sw);
        return -ENOMEM;
    }
    for (size_t r = 0; r < rows; r++)
        sw->row[r].level[0] = (uint8_t)rows;
    emu_dev_init(&sw->dev, worker, switch_policy(sw, worker->clock.mode));
    *ret = sw;
    return 0;
}

void switch_destroy(struct switch_dev *sw)
{
    if (!sw)
        return;
    if (sw->acknowledged) {
        switch_channels_destroy(sw);
        return;
    }
    for (uint32_t p = 0; sw->out && sw->row && p < sw->ports; p++) {
        emu_link_unjoin(&sw->out[p].tx);
        emu_link_free_edge(&sw->row[p].rx);
    }
    emu_table_free(&sw->groups);
    for (uint32_t u = 0; sw->unit && u < sw->units; u++)
        free(sw->unit[u].group);
    free(sw->unit);
    free(sw->acts.event);
    free(sw->link);
    free(sw->slot);
    free(sw->outs);
    free(sw->input);
    free(sw->xpoint);
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
    return sw->acknowledged ? &switch_channels_of(sw)->port[port].tx : &sw->out[port].tx;
}

struct emu_rx *switch_rx(struct switch_dev *sw, uint32_t port)
{
    return sw->acknowledged ? &switch_channels_of(sw)->port[port].rx : &sw->row[port].rx;
}

const struct switch_counts *switch_counts(const struct switch_dev *sw)
{
    return &sw->counts;
}

void switch_faults(struct switch_dev *sw, uint32_t port, struct emu_faults *faults)
{
    switch_channels_of(sw)->port[port].faults = faults;
}
