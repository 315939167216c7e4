/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arbiter.c - the central arbiter of an input-queued switch. It matches inputs and outputs in each
 * time slot, in which each input and each output sends at most one segment.
 *
 * Unicasts wait in virtual output queues and are matched by iSLIP (McKeown, "The iSLIP scheduling
 * algorithm for input-queued switches", 1999). In each iteration every free output grants to the
 * next input, round robin, that has a segment for it. Every free input accepts the next output,
 * round robin, of those that granted. If the first iteration matches an input and an output, the
 * round-robin pointer of each moves to the position after the other. Later iterations move no
 * pointers. So the pointers of different outputs desynchronize, and no queue starves. The
 * iterations end when no input accepts an output, usually after log2 of the number of ports, and
 * give a maximal match.
 *
 * Multicasts wait in one FIFO per input and are matched with fanout splitting by WBA, the weight
 * based algorithm of Prabhakar, McKeown and Ahuja ("Multicast scheduling for input-queued
 * switches", 1997). Every output grants to the heaviest input that has a multicast for it. The
 * *residue* of a multicast is the set of outputs that have not sent it yet. Its *age* is the number
 * of slots since it became the first of its FIFO. The weight of an input is the age of its first
 * multicast minus the number of outputs in the residue of this multicast. At equal age the smaller
 * residue wins. The wait is bounded: with M inputs and N outputs, without unicasts, and if every
 * output can always send, a multicast is first for at most M + N - 1 slots. All outputs see the
 * same weights, so a residue remains at as few inputs as possible. Ties are resolved in an order
 * that depends pseudo-randomly on the slot.
 *
 * As in ESLIP, unicasts and multicasts share the switch: in even slots the multicasts are matched
 * first, in odd slots the unicasts.
 */
#include "switch/input/slots.h"

/* A match that is being computed. */
struct arbiter {
    emu_ports rows;             /* inputs that are not matched yet */
    emu_ports outs;             /* outputs that are not matched yet */
    struct switch_sends *sends; /* the match, indexed by row */
};

static void arbiter_take(struct arbiter *free, uint32_t r, emu_ports outs, bool multicast)
{
    free->rows &= ~emu_port(r);
    free->outs &= ~outs;
    free->sends[r] = (struct switch_sends){.outs = outs, .multicast = multicast};
}

/* Do one iteration of iSLIP. Returns true if an input has accepted an output. */
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

/* Return the weight (WBA) of the first multicast of input @r in slot @slot. */
static int64_t arbiter_weight(const struct switch_slots *sw, uint32_t r, uint64_t slot)
{
    emu_ports outs = sw->in.outs[sw->in.fifo[r].list.first];

    return (int64_t)(slot - sw->arbiter[r].head_slot) - (int64_t)emu_ports_count(outs);
}

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

/* Match each row, heaviest first, with all free outputs of its first multicast. */
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
