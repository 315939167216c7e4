/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arbiter.c - the central arbiter of an input-queued switch: matches inputs and outputs in each
 * time slot. An input sends one segment in a slot, and so does an output.
 *
 * Unicasts, from virtual output queues: iSLIP (McKeown, "The iSLIP scheduling algorithm for
 * input-queued switches", 1999). In each iteration every free output grants to the next input,
 * round robin, that has a segment for it, and every free input accepts the next output, round
 * robin, of those that granted. The round-robin pointers advance only in the first iteration, past
 * the accepted one: so the pointers of different outputs desynchronize, and no queue starves.
 * Iterations continue until none is accepted, which gives a maximal match (mostly after log2 of the
 * ports).
 *
 * Multicasts, from one fifo per input, with fanout splitting: WBA, the weight based algorithm of
 * Prabhakar, McKeown and Ahuja ("Multicast scheduling for input-queued switches", 1997): the weight
 * of the residue of an input's first segment is its age minus its fanout, and every output grants
 * to the heaviest input that wants it. Age is in slots since it became first, the fanout is the
 * number of outputs left, both with the factor 1: at equal age the smaller residue wins, and the
 * wait is
 * bounded: with M inputs and N outputs, at most M + N - 1 slots at the head. All outputs see the
 * same weights, so the residue stays at as few inputs as possible. Ties: an order that depends
 * pseudo-randomly on the slot.
 *
 * The two share the switch as in ESLIP: in even slots the multicasts are matched first, in odd ones
 * the unicasts.
 */
#include "switch/input/slots.h"

/* A match in progress. */
struct arbiter {
    emu_ports rows;             /* still free */
    emu_ports outs;             /* still free */
    struct switch_sends *sends; /* the match, by row */
};

static void arbiter_take(struct arbiter *free, uint32_t r, emu_ports outs, bool multicast)
{
    free->rows &= ~emu_port(r);
    free->outs &= ~outs;
    free->sends[r] = (struct switch_sends){.outs = outs, .multicast = multicast};
}

/* One iteration of iSLIP. Returns true if something was accepted. */
static bool arbiter_iterate(struct switch_slots *sw, struct arbiter *free, bool first)
{
    emu_ports grants[SWITCH_ROWS_MAX];
    emu_ports rows = EMU_NO_PORTS;

    emu_each_port (o, free->outs) {
        emu_ports asks = sw->bar.out[o].waiting & free->rows;
        uint32_t r;

        if (!emu_ports_any(asks))
            continue;
        r = emu_ports_next(asks, sw->bar.out[o].last);
        if (!emu_ports_has(rows, r))
            grants[r] = EMU_NO_PORTS;
        grants[r] |= emu_port(o);
        rows |= emu_port(r);
    }
    emu_each_port (r, rows) {
        uint32_t o = emu_ports_next(grants[r], sw->arbiter[r].last);

        arbiter_take(free, r, emu_port(o), false);
        if (first) {
            sw->bar.out[o].last = (uint8_t)r;
            sw->arbiter[r].last = o;
        }
    }
    return emu_ports_any(rows);
}

static void arbiter_unicasts(struct switch_slots *sw, struct arbiter *free)
{
    bool first = true;

    while (arbiter_iterate(sw, free, first))
        first = false;
}

/* WBA: the weight of the first multicast of @r in slot @slot. */
static int64_t arbiter_weight(const struct switch_slots *sw, uint32_t r, uint64_t slot)
{
    emu_ports outs = sw->in.outs[sw->in.fifo[r].list.first];

    return (int64_t)(slot - sw->arbiter[r].head_slot) - (int64_t)emu_ports_count(outs);
}

/* The heaviest of @rows. */
static uint32_t arbiter_heaviest(const struct switch_slots *sw, emu_ports rows, uint64_t slot)
{
    int64_t most = INT64_MIN;
    uint32_t best = 0;

    emu_each_port (r, rows) {
        int64_t weight = arbiter_weight(sw, r, slot);

        if (weight < most ||
            (weight == most && emu_order_tie_rank(slot, r) > emu_order_tie_rank(slot, best)))
            continue;
        most = weight;
        best = r;
    }
    return best;
}

/* From the heaviest to the lightest, match each row with all free outputs that it wants. */
static void arbiter_multicasts(struct switch_slots *sw, uint64_t slot, struct arbiter *free)
{
    emu_ports rows = EMU_NO_PORTS;

    emu_each_port (r, free->rows) {
        if (sw->in.fifo[r].queued)
            rows |= emu_port(r);
    }
    while (emu_ports_any(rows) && emu_ports_any(free->outs)) {
        uint32_t r = arbiter_heaviest(sw, rows, slot);
        emu_ports outs = sw->in.outs[sw->in.fifo[r].list.first] & free->outs;

        rows &= ~emu_port(r);
        if (emu_ports_any(outs))
            arbiter_take(free, r, outs, true);
    }
}

void switch_match(struct switch_slots *sw, uint64_t slot, emu_ports outs,
                  struct switch_sends *sends)
{
    struct arbiter free = {.rows = emu_ports_below(sw->bar.sw.ports), .outs = outs, .sends = sends};

    for (uint32_t r = 0; r < sw->bar.sw.ports; r++)
        sends[r] = (struct switch_sends){0};
    if (slot & 1)
        arbiter_unicasts(sw, &free);
    arbiter_multicasts(sw, slot, &free);
    if (!(slot & 1))
        arbiter_unicasts(sw, &free);
}
