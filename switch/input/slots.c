/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slots.c - buffers=input: an input-queued switch, the paper's baseline.
 *
 * Segments wait at their input: unicasts in a queue for each output, multicasts
 * in one fifo, all of them in the buffer that the input's credits stand for.
 * The arbiter (arbiter.c) works once in a time slot, the wire time of a whole
 * segment, and slots begin at its multiples: what has arrived by then takes
 * part, and an output does only if a credit for it is there. Segments leave at
 * the beginning of a slot. A multicast leaves by as many outputs at once as it
 * is granted, the rest stays first in its fifo; its place is free when the last
 * copy has left. A slot in which nothing can leave is not looked at, and
 * changes nothing: so this too is a function of times and ports alone.
 *
 * Not on clock raw, which has no time to cut into slots. There are no combine
 * units; why nothing deadlocks is in input/fifo.c.
 */
#include "switch/events.h"

/* The first slot that begins at @at_ps or later, and is not over. */
static uint64_t slots_at(const struct switch_dev *sw, uint64_t at_ps)
{
    uint64_t length_ps = sw->slots.length_ps;

    if (at_ps < sw->slots.from_ps)
        at_ps = sw->slots.from_ps;
    return (at_ps + length_ps - 1) / length_ps * length_ps;
}

/* The arbiter has something to do at @at_ps. */
static void slots_plan(struct switch_dev *sw, uint64_t at_ps)
{
    uint64_t next_ps = slots_at(sw, at_ps);

    if (next_ps < sw->slots.next_ps)
        sw->slots.next_ps = next_ps;
}

/* Outputs that something waits for. */
static uint64_t slots_wanted(const struct switch_dev *sw)
{
    uint64_t outs = 0;

    for (uint32_t p = 0; p < sw->ports; p++) {
        outs |= (uint64_t)(sw->out[p].waiting != 0) << p;
        if (sw->input[p].queued)
            outs |= sw->outs[sw->input[p].fifo.first];
    }
    return outs;
}

/* Something waits for @outs: when can it go? */
static void slots_plan_outs(struct switch_dev *sw, uint64_t outs)
{
    emu_each_bit(o, outs) {
        uint64_t due_ps = emu_tx_earliest_ps(&sw->out[o].tx, sw->slots.from_ps);

        if (due_ps == EMU_NEVER)
            sw->stalled |= emu_bit(o); /* EMU_EVENT_CREDIT tells */
        else
            slots_plan(sw, due_ps);
    }
}

/* Credits have come for outputs that had none on its way: they are later than all that has been. */
static void slots_take_credits(struct switch_dev *sw)
{
    uint64_t outs = emu_dev_take(&sw->dev, EMU_EVENT_CREDIT) & sw->stalled;

    sw->stalled &= ~outs;
    slots_plan_outs(sw, outs);
}

/* Of @outs, those that can send at @at_ps. A stall is counted once, until they send again. */
static uint64_t slots_free(struct switch_dev *sw, uint64_t outs, uint64_t at_ps)
{
    uint64_t free = 0;

    emu_each_bit(o, outs) {
        uint64_t bit = emu_bit(o);
        struct emu_tx *tx = &sw->out[o].tx;

        if (emu_tx_earliest_ps(tx, at_ps) <= at_ps) {
            free |= bit;
        } else if (!(sw->slots.counted & bit)) {
            sw->slots.counted |= bit;
            emu_count(&tx->counts.stalls, 1);
        }
    }
    return free;
}

static void slots_depart(struct switch_dev *sw, uint32_t o, struct emu_entry entry, uint64_t at_ps)
{
    struct emu_tx *tx = &sw->out[o].tx;

    emu_tx_depart(tx, &entry, at_ps);
    emu_tx_flush(tx);
    sw->slots.counted &= ~emu_bit(o);
}

/* The first unicast of @r for output @o, if there is one: the match says so. */
static void slots_send_unicast(struct switch_dev *sw, uint32_t r, uint32_t o, uint64_t at_ps)
{
    uint32_t slot = switch_remove(sw, switch_xpoint(sw, r, o));
    uint8_t left = --*switch_count(sw, r, o);

    switch_out_loses(sw, r, o, left);
    at_ps = switch_no_sooner(at_ps, &sw->slot[slot]);
    sw->little.held--;
    sw->little.waited_ps += at_ps - sw->slot[slot].time_ps;
    sw->row[r].rx.owed++;
    slots_depart(sw, o, sw->slot[slot], at_ps);
}

/* The first multicast of @r: copies of it by @outs. */
static void slots_send_multicast(struct switch_dev *sw, uint32_t r, uint64_t outs, uint64_t at_ps)
{
    struct switch_input *in = &sw->input[r];
    uint32_t slot = in->fifo.first;

    at_ps = switch_no_sooner(at_ps, &sw->slot[slot]);
    sw->outs[slot] &= ~outs;
    emu_each_bit(o, outs)
        slots_depart(sw, o, sw->slot[slot], at_ps);
    if (sw->outs[slot])
        return;
    switch_input_leave(sw, r, at_ps);
    in->head_slot = at_ps / sw->slots.length_ps + 1;
}

/* One slot. */
static uint32_t slots_act(struct switch_dev *sw, uint64_t now_ps)
{
    uint64_t at_ps = sw->slots.next_ps;
    struct switch_sends sends[TOPO_PORTS_MAX];
    uint32_t moved = 0;

    switch_lag(sw, at_ps, now_ps);
    switch_little(sw, at_ps);
    sw->slots.from_ps = at_ps + sw->slots.length_ps;
    sw->slots.next_ps = EMU_NEVER;
    switch_match(sw, at_ps / sw->slots.length_ps, slots_free(sw, slots_wanted(sw), at_ps), sends);
    for (uint32_t r = 0; r < sw->ports; r++) {
        if (sends[r].multicast)
            slots_send_multicast(sw, r, sends[r].outs, at_ps);
        else if (sends[r].outs)
            slots_send_unicast(sw, r, emu_bits_first(sends[r].outs), at_ps);
        moved += (uint32_t)__builtin_popcountll(sends[r].outs);
        switch_pay(sw, r, at_ps);
    }
    slots_plan_outs(sw, slots_wanted(sw));
    return moved;
}

static uint64_t slots_arrive(struct switch_dev *sw, struct emu_order *arrivals,
                             uint64_t until_ps)
{
    struct emu_order_event event = emu_order_take(arrivals);
    struct switch_row *row = &sw->row[event.port];
    struct switch_input *in = &sw->input[event.port];
    bool empty = !in->queued;

    switch_little(sw, event.at_ps);
    sw->admit(sw, (uint32_t)event.port, emu_rx_front(&row->rx, until_ps));
    emu_rx_skip(&row->rx);
    emu_rx_done(&row->rx, 1);
    switch_pay(sw, (uint32_t)event.port, event.at_ps);
    if (empty && in->queued)
        in->head_slot = slots_at(sw, event.at_ps) / sw->slots.length_ps;
    slots_plan(sw, event.at_ps);
    return switch_look(sw, arrivals, (uint32_t)event.port, until_ps);
}

uint32_t switch_step_slots(struct emu_dev *dev, uint64_t until_ps)
{
    struct switch_dev *sw = (struct switch_dev *)dev;
    struct emu_order_event event[EMU_ORDER_ROOM(SWITCH_ROWS_MAX)];
    struct emu_order arrivals;
    uint64_t later_ps;
    uint32_t moved = 0;

    emu_order_init(&arrivals, event, SWITCH_ROWS_MAX, true);
    slots_take_credits(sw);
    later_ps = switch_look_all(sw, &arrivals, until_ps);
    for (;;) {
        uint64_t arrive_ps = emu_order_next_ps(&arrivals);

        if (arrive_ps != EMU_NEVER && arrive_ps <= sw->slots.next_ps) {
            uint64_t next_ps = slots_arrive(sw, &arrivals, until_ps);

            later_ps = next_ps < later_ps ? next_ps : later_ps;
            moved++;
        } else if (sw->slots.next_ps <= until_ps) {
            moved += slots_act(sw, until_ps);
        } else {
            dev->next_ps = sw->slots.next_ps < later_ps ? sw->slots.next_ps : later_ps;
            return moved;
        }
    }
}
