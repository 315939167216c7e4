/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timed.c - a switch on a timed clock: its events, in the order of their times.
 *
 * Two kinds of event: the front segment of a row arrives at its crosspoint,
 * and an output acts: a segment leaves, or a combine unit begins or ends its
 * work. Credits are no events: an output
 * takes the next one, wherever in time it is, when it wants to send.
 *
 * At one and the same time arrivals come before departures, so that arbitration
 * sees all that is there. Arrivals at the same time are taken in a turn that
 * the time itself draws, so that over time every port is as often first as any
 * other; outputs at the same time by their number, for they do not compete.
 * An output serves its rows round robin. All of this is a function of times and
 * ports alone: it does not depend on how time was cut into windows, or on which
 * worker steps the switch.
 *
 * A segment leaves as of the latest of its arrival, the wire's and its
 * credit's, not as of when the host got round to it: on clock real, how far the
 * host is behind is measured, and does not add up from hop to hop.
 */
#include "switch/events.h"

/* Output @o will act at @at_ps. It had nothing to do so far. */
static inline void timed_act_at(struct switch_dev *sw, uint32_t o, uint64_t at_ps)
{
    sw->due |= emu_bit(o);
    emu_order_add(&sw->acts, at_ps, o);
}

/*
 * Output @o has a segment that is ready at @ready_ps: when will it leave? A stall is counted when
 * its credit's time is known: whether that is at once or later is for the windows to say.
 */
static inline void timed_plan_port(struct switch_dev *sw, uint32_t o, uint64_t ready_ps)
{
    struct emu_tx *tx = &sw->out[o].tx;
    uint64_t due_ps = emu_tx_earliest_ps(tx, ready_ps);

    if (due_ps == EMU_NEVER) {
        sw->stalled |= emu_bit(o); /* EMU_EVENT_CREDIT tells */
        if (tx->kind != EMU_LINK_LOCAL)
            emu_count(&tx->counts.stalls, 1);
        return;
    }
    if (due_ps > ready_ps && due_ps > tx->busy_ps)
        emu_count(&tx->counts.stalls, 1);
    timed_act_at(sw, o, due_ps);
}

/* When the oldest segment of @row is at unit @u as a whole: the unit needs all of it. */
static uint64_t timed_whole_ps(const struct switch_dev *sw, uint32_t u, uint32_t row)
{
    const struct emu_entry *entry = switch_front(sw, row, sw->ports + u);

    return entry->time_ps + (row < sw->ports ? emu_wire_ps(sw->profile, &entry->hdr) : 0);
}

/* Unit @u is idle: when can it begin? Not before @now_ps, nor (on clock real) before it was idle. */
static void timed_plan_unit(struct switch_dev *sw, uint32_t u, uint64_t now_ps)
{
    uint32_t o = sw->ports + u;
    uint64_t begin_ps = EMU_NEVER;

    if (now_ps < sw->unit[u].free_ps)
        now_ps = sw->unit[u].free_ps;
    if (sw->due >> o & 1)
        emu_order_drop(&sw->acts, o);
    sw->due &= ~emu_bit(o);
    emu_each_bit(row, sw->out[o].waiting) {
        uint64_t whole_ps = timed_whole_ps(sw, u, row);

        if (whole_ps < begin_ps)
            begin_ps = whole_ps;
    }
    if (begin_ps != EMU_NEVER)
        timed_act_at(sw, o, begin_ps > now_ps ? begin_ps : now_ps);
}

/* Outputs that were given segments at @at_ps. */
static inline void timed_news(struct switch_dev *sw, uint64_t at_ps)
{
    uint64_t outs = sw->runnable;

    sw->runnable = 0;
    emu_each_bit(o, outs) {
        if (o >= sw->ports) {
            if (!sw->unit[o - sw->ports].working)
                timed_plan_unit(sw, o - sw->ports, at_ps);
        } else if (!((sw->due | sw->stalled) >> o & 1)) { /* else it knows, or waits for a credit */
            timed_plan_port(sw, o, at_ps);
        }
    }
}

/* Input @r has room at a crosspoint again: its fifo moves on. Seldom, hence not inline. */
__attribute__((noinline)) static void timed_advance(struct switch_dev *sw, uint32_t r,
                                                    uint64_t at_ps)
{
    switch_input_advance(sw, r, at_ps);
    switch_pay(sw, r, at_ps);
}

/* A segment left row @r at @at_ps: its credit, and the room that it leaves. */
static inline void timed_left(struct switch_dev *sw, uint32_t r, uint64_t at_ps)
{
    switch_pay(sw, r, at_ps);
    if (!sw->row[r].backed)
        return;
    if (r < sw->ports)
        timed_advance(sw, r, at_ps);
    else if (switch_unit_pending(sw, r - sw->ports))
        switch_unit_flush(sw, r - sw->ports, at_ps);
    timed_news(sw, at_ps);
}

static inline void timed_send(struct switch_dev *sw, uint32_t o, uint64_t at_ps)
{
    struct switch_out *out = &sw->out[o];
    struct emu_entry *entry;
    uint32_t r;

    if (out->tx.kind == EMU_LINK_EDGE && !emu_tx_room(&out->tx)) { /* looked up anew in each pass */
        sw->stalled |= emu_bit(o);
        return;
    }
    switch_little(sw, at_ps);
    r = emu_bits_next(out->waiting, out->last);
    out->last = (uint8_t)r;
    entry = switch_dequeue(sw, r, o);
    at_ps = switch_no_sooner(at_ps, entry);
    sw->little.waited_ps += at_ps - entry->time_ps;
    emu_tx_depart(&out->tx, entry, at_ps);
    emu_tx_flush(&out->tx);
    if (out->waiting)
        timed_plan_port(sw, o, at_ps);
    timed_left(sw, r, at_ps);
}

/* The next row in turn whose segment is there as a whole. */
static uint32_t timed_unit_row(const struct switch_dev *sw, uint32_t u, uint64_t at_ps)
{
    const struct switch_out *out = &sw->out[sw->ports + u];
    uint32_t r = out->last;

    do {
        r = emu_bits_next(out->waiting, r);
    } while (timed_whole_ps(sw, u, r) > at_ps);
    return r;
}

/* The unit works while the segment lies at the crosspoint: it leaves when the work is done. */
static void timed_work(struct switch_dev *sw, uint32_t u, uint64_t at_ps)
{
    struct switch_unit *unit = &sw->unit[u];
    uint32_t o = sw->ports + u;
    const struct emu_entry *entry;

    if (unit->working) {
        unit->working = false;
        unit->free_ps = at_ps;
        switch_little(sw, at_ps);
        sw->little.waited_ps += at_ps - switch_front(sw, unit->row, o)->time_ps;
        switch_unit_take(sw, u, unit->row, at_ps);
        switch_units_flush(sw, at_ps);
        timed_left(sw, unit->row, at_ps);
        timed_news(sw, at_ps);
        timed_plan_unit(sw, u, at_ps);
        return;
    }
    unit->row = (uint8_t)timed_unit_row(sw, u, at_ps);
    unit->working = true;
    sw->out[o].last = unit->row;
    entry = switch_front(sw, unit->row, o);
    timed_act_at(sw, o,
                 at_ps + sw->profile->combine_header_ps +
                     (entry->hdr.len + 7u) / 8u * sw->profile->combine_word_ps);
}

static inline void timed_act(struct switch_dev *sw, uint64_t now_ps)
{
    struct emu_order_event event = emu_order_take(&sw->acts);

    sw->due &= ~emu_bit(event.port);
    switch_lag(sw, event.at_ps, now_ps);
    if (event.port < sw->ports)
        timed_send(sw, event.port, event.at_ps);
    else
        timed_work(sw, event.port - sw->ports, event.at_ps);
}

static inline uint64_t timed_arrive(struct switch_dev *sw, struct emu_order *arrivals,
                             uint64_t until_ps)
{
    struct emu_order_event event = emu_order_take(arrivals);
    struct emu_rx *rx = &sw->row[event.port].rx;

    switch_little(sw, event.at_ps);
    sw->admit(sw, event.port, emu_rx_front(rx, until_ps));
    emu_rx_skip(rx); /* the slot before the credit that lets it be filled */
    emu_rx_done(rx, 1);
    switch_pay(sw, event.port, event.at_ps);
    timed_news(sw, event.at_ps);
    return switch_look(sw, arrivals, event.port, until_ps);
}

/*
 * Ports that something arrived at, and outputs that wait for a credit that has come.
 * Returns the earliest arrival after @until_ps.
 */
static uint64_t timed_begin(struct switch_dev *sw, struct emu_order *arrivals,
                            uint64_t until_ps)
{
    uint64_t outs = emu_dev_take(&sw->dev, EMU_EVENT_CREDIT) & sw->stalled;

    sw->stalled &= ~outs;
    emu_each_bit(o, outs)
        timed_plan_port(sw, o, 0);
    return switch_look_all(sw, arrivals, until_ps);
}

uint32_t switch_step_timed(struct emu_dev *dev, uint64_t until_ps)
{
    struct switch_dev *sw = (struct switch_dev *)dev;
    struct emu_order_event event[EMU_ORDER_ROOM(SWITCH_ROWS_MAX)];
    struct emu_order arrivals;
    uint64_t later_ps;
    uint32_t moved = 0;

    emu_order_init(&arrivals, event, SWITCH_ROWS_MAX, true);
    later_ps = timed_begin(sw, &arrivals, until_ps);

    for (;; moved++) {
        uint64_t act_ps = emu_order_next_ps(&sw->acts);
        uint64_t arrive_ps = emu_order_next_ps(&arrivals);

        if (arrive_ps != EMU_NEVER && arrive_ps <= act_ps) {
            uint64_t next_ps = timed_arrive(sw, &arrivals, until_ps);

            later_ps = next_ps < later_ps ? next_ps : later_ps;
        } else if (act_ps <= until_ps) {
            timed_act(sw, until_ps);
        } else {
            dev->next_ps = act_ps < later_ps ? act_ps : later_ps;
            break;
        }
    }
    sw->unsettled = 0;
    return moved;
}
