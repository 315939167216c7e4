/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timed.h - a switch with crosspoints on a timed clock: its events, in the order of their times.
 *
 * There are two kinds of events. The front segment of a row arrives at its crosspoint; or an output
 * acts, which means that a segment leaves, or that a combine unit begins or ends its work. A
 * returning credit is no event: an output that wants to send takes the next credit, whatever its
 * time.
 *
 * At equal times, arrivals come before departures, so that arbitration sees all segments.
 * Simultaneous arrivals are taken in an order that depends pseudo-randomly on the time, so that in
 * the long run every port is first equally often. Simultaneous outputs act in the order of their
 * numbers, because they do not compete. An output serves its rows round robin. All this is a
 * function of times and ports. It depends neither on how the workers divide time into windows
 * (windows.h) nor on which worker steps the switch.
 *
 * The departure time of a segment is the latest of three times: of its arrival, of the end of the
 * previous segment on the wire, and of its credit. It does not depend on the host's time. So on
 * clock real the lag behind the host's clock can be measured, and does not add up from hop to hop.
 */
#ifndef SWITCH_CROSSPOINT_TIMED_H
#define SWITCH_CROSSPOINT_TIMED_H

#include "switch/crosspoint/combine.h"

/* Parts of event handling that differ between kinds. Always a constant, so calls are direct. */
struct switch_timed {
    /* lets a segment enter when it arrives; calls switch_little_until() before `held` changes */
    void (*admit)(struct switch_crosspoints *xp, uint32_t r, const struct emu_entry *entry);
    switch_dequeue_fn dequeue; /* as in struct switch_access */
    /* moves segments out of the input's buffer after a departure from row @r; NULL: no buffers */
    bool (*advance)(struct switch_crosspoints *xp, uint32_t r, uint64_t at_ps);
};

static inline struct switch_agenda *timed_agenda(struct switch_crosspoints *xp)
{
    return &switch_timing_of(xp)->agenda;
}

/*
 * Schedule output @o, which has a segment that is ready at @ready_ps, to act at @due_ps. EMU_NEVER:
 * the output waits for a credit. The stall of a local cable is counted when the time of the credit
 * is known, so that the count does not depend on where windows begin. If the process at a host
 * interface has named the time at which it makes space, the output also waits for EMU_EVENT_CREDIT,
 * because the process may end before that time. As long as such an output is in `stalled`, no
 * stall of its segment is counted again: it was counted, or the port was stuck.
 */
static inline void timed_plan_at(struct switch_crosspoints *xp, uint32_t o, uint64_t ready_ps,
                                 uint64_t due_ps)
{
    struct emu_tx *tx = &xp->bar.out[o].tx;
    bool counted = tx->kind == EMU_LINK_HOSTIF && emu_ports_has(timed_agenda(xp)->stalled, o);

    if (due_ps == EMU_NEVER) {
        timed_agenda(xp)->stalled |= emu_port(o); /* until EMU_EVENT_CREDIT */
        if (tx->kind != EMU_LINK_LOCAL && !counted)
            emu_count(&tx->counts.stalls, 1);
        return;
    }
    if (due_ps > ready_ps && due_ps > tx->busy_ps) {
        emu_count(&tx->counts.stalls, !counted);
        if (tx->kind == EMU_LINK_HOSTIF)
            timed_agenda(xp)->stalled |= emu_port(o);
    }
    switch_agenda_add(timed_agenda(xp), o, due_ps);
}

/* Schedule output @o, which has a segment ready at @ready_ps, for the earliest possible time. */
static inline void timed_plan_port(struct switch_crosspoints *xp, uint32_t o, uint64_t ready_ps)
{
    timed_plan_at(xp, o, ready_ps, emu_tx_earliest_ps(&xp->bar.out[o].tx, ready_ps));
}

/*
 * Output @o has got EMU_EVENT_CREDIT. If it is scheduled for a time that a process has named,
 * schedule it anew, but not before @from_ps. This changes the time only if the process has ended,
 * was cut off or lies.
 */
static inline void timed_plan_again(struct switch_crosspoints *xp, uint32_t o, uint64_t from_ps)
{
    struct switch_agenda *agenda = timed_agenda(xp);
    struct emu_tx *tx = &xp->bar.out[o].tx;
    uint64_t due_ps;

    if (tx->kind != EMU_LINK_HOSTIF) {
        timed_plan_port(xp, o, 0);
        return;
    }
    if (emu_ports_has(agenda->due, o))
        emu_order_drop(&agenda->acts, o);
    agenda->due &= ~emu_port(o);
    agenda->stalled |= emu_port(o); /* until it sends, or gets the next EMU_EVENT_CREDIT */
    due_ps = emu_tx_earliest_ps(tx, 0);
    if (due_ps != EMU_NEVER)
        switch_agenda_add(agenda, o, due_ps > from_ps ? due_ps : from_ps);
}

/*
 * Return when the oldest segment of @row has arrived completely at combine unit @u, and has passed
 * the unit's input (combine_ps).
 */
static inline uint64_t timed_complete_ps(const struct switch_crosspoints *xp, uint32_t u,
                                         uint32_t row)
{
    const struct emu_entry *entry = switch_front(&xp->bar, row, xp->bar.sw.ports + u);

    return entry->time_ps + (row < xp->bar.sw.ports ? emu_wire_ps(xp->bar.sw.profile, &entry->hdr) +
                                                          xp->bar.sw.profile->combine_ps
                                                    : 0);
}

/* Schedule unit @u, which is idle: not before @now_ps, and not before its last work ended. */
static inline void timed_plan_unit(struct switch_crosspoints *xp, uint32_t u, uint64_t now_ps)
{
    struct switch_agenda *agenda = timed_agenda(xp);
    const struct switch_work *work = &switch_timing_of(xp)->work[u];
    uint32_t o = xp->bar.sw.ports + u;
    uint64_t begin_ps = EMU_NEVER;

    if (now_ps < work->free_ps)
        now_ps = work->free_ps;
    if (emu_ports_has(agenda->due, o))
        emu_order_drop(&agenda->acts, o);
    agenda->due &= ~emu_port(o);
    emu_each_port (row, xp->bar.out[o].waiting) {
        uint64_t complete_ps = timed_complete_ps(xp, u, row);

        if (complete_ps < begin_ps)
            begin_ps = complete_ps;
    }
    if (begin_ps != EMU_NEVER)
        switch_agenda_add(timed_agenda(xp), o, begin_ps > now_ps ? begin_ps : now_ps);
}

/* Schedule the outputs that received segments at @at_ps. */
static inline __attribute__((always_inline)) void timed_news(struct switch_crosspoints *xp,
                                                             uint64_t at_ps)
{
    const struct switch_timing *timing = switch_timing_of(xp);
    const struct switch_agenda *agenda = &timing->agenda;
    uint32_t ports = xp->bar.sw.ports;
    emu_ports outs = xp->bar.runnable;

    xp->bar.runnable = EMU_NO_PORTS;
    emu_each_port (o, outs) {
        if (o >= ports) {
            if (!timing->work[o - ports].working)
                timed_plan_unit(xp, o - ports, at_ps);
        } else if (!emu_ports_has(agenda->due | agenda->stalled, o)) {
            timed_plan_port(xp, o, at_ps);
        }
    }
}

/* Return the credit of a segment that left row @r, and move waiting segments into its space. */
static inline __attribute__((always_inline)) void timed_left(struct switch_crosspoints *xp,
                                                             uint32_t r, uint64_t at_ps,
                                                             const struct switch_timed *timed)
{
    uint32_t ports = xp->bar.sw.ports;

    if (__builtin_expect(r >= ports, 0)) {
        if (switch_unit_pending(xp, r - ports))
            switch_unit_flush(xp, r - ports, at_ps);
        timed_news(xp, at_ps);
        return;
    }
    switch_pay(&xp->bar, r, at_ps);
    if (timed->advance && timed->advance(xp, r, at_ps)) {
        switch_pay(&xp->bar, r, at_ps);
        timed_news(xp, at_ps);
    }
}

static inline __attribute__((always_inline)) void timed_send(struct switch_crosspoints *xp,
                                                             uint32_t o, uint64_t at_ps,
                                                             const struct switch_timed *timed)
{
    struct switch_out *out = &xp->bar.out[o];
    struct emu_entry *entry;
    uint32_t r;

    if (out->tx.kind == EMU_LINK_HOSTIF) {
        uint64_t room_ps = emu_tx_room_ps(&out->tx, at_ps);

        if (room_ps > at_ps) {
            timed_plan_at(xp, o, at_ps, room_ps);
            return;
        }
        timed_agenda(xp)->stalled &= ~emu_port(o);
    }
    switch_little_until(&xp->bar.little, at_ps);
    r = emu_ports_next(out->waiting, out->last);
    out->last = (uint8_t)r;
    entry = timed->dequeue(xp, r, o);
    at_ps = switch_no_sooner(at_ps, entry);
    xp->bar.little.waited_ps += at_ps - entry->time_ps;
    emu_tx_depart_notify(&out->tx, &xp->bar.sw.dev, xp->bar.sw.profile, entry, at_ps);
    if (emu_ports_any(out->waiting))
        timed_plan_port(xp, o, at_ps);
    timed_left(xp, r, at_ps, timed);
}

/* Return the next row, round robin, whose oldest segment has arrived completely at unit @u. */
static inline uint32_t timed_unit_row(const struct switch_crosspoints *xp, uint32_t u,
                                      uint64_t at_ps)
{
    const struct switch_out *out = &xp->bar.out[xp->bar.sw.ports + u];
    uint32_t r = out->last;

    do {
        r = emu_ports_next(out->waiting, r);
    } while (timed_complete_ps(xp, u, r) > at_ps);
    return r;
}

/* End the work of unit @u: its segment leaves its crosspoint. */
static inline __attribute__((always_inline)) void timed_work_ends(struct switch_crosspoints *xp,
                                                                  uint32_t u, uint64_t at_ps,
                                                                  const struct switch_timed *timed)
{
    struct switch_work *work = &switch_timing_of(xp)->work[u];
    struct switch_little *little = &xp->bar.little;

    work->working = false;
    work->free_ps = at_ps;
    switch_little_until(little, at_ps);
    little->waited_ps += at_ps - switch_front(&xp->bar, work->row, xp->bar.sw.ports + u)->time_ps;
    switch_unit_take(xp, u, work->row, at_ps);
    switch_units_flush(xp, at_ps);
    timed_left(xp, work->row, at_ps, timed);
    timed_news(xp, at_ps);
    timed_plan_unit(xp, u, at_ps);
}

/* Begin or end the work of unit @u. The segment stays at its crosspoint in between. */
static inline __attribute__((always_inline)) void timed_work(struct switch_crosspoints *xp,
                                                             uint32_t u, uint64_t at_ps,
                                                             const struct switch_timed *timed)
{
    const struct emu_profile *profile = xp->bar.sw.profile;
    struct switch_work *work = &switch_timing_of(xp)->work[u];
    uint32_t o = xp->bar.sw.ports + u;
    const struct emu_entry *entry;

    if (switch_units_stalled(xp)) {
        xp->impaired->held |= emu_bit(u); /* units_act() in crosspoint.c schedules it again */
        return;
    }
    if (work->working) {
        timed_work_ends(xp, u, at_ps, timed);
        return;
    }
    work->row = (uint8_t)timed_unit_row(xp, u, at_ps);
    work->working = true;
    xp->bar.out[o].last = work->row;
    entry = switch_front(&xp->bar, work->row, o);
    switch_agenda_add(timed_agenda(xp), o,
                      at_ps + profile->combine_header_ps +
                          (entry->hdr.len + 7u) / 8u * profile->combine_word_ps);
}

/* --- callbacks of switch_events_run() ----------------------------------------------- */

static inline __attribute__((always_inline)) uint32_t timed_act(struct switch_dev *sw,
                                                                const void *own)
{
    const struct switch_timed *timed = own;
    struct switch_crosspoints *xp = switch_crosspoints_of(sw);
    struct emu_order_event event = switch_agenda_take(timed_agenda(xp));
    uint32_t o = (uint32_t)event.port;

    if (o < sw->ports)
        timed_send(xp, o, event.at_ps, timed);
    else
        timed_work(xp, o - sw->ports, event.at_ps, timed);
    return 1;
}

static inline uint64_t timed_next_ps(const struct switch_dev *sw)
{
    return emu_order_next_ps(&((const struct switch_crosspoints_timed *)sw)->timing.agenda.acts);
}

static inline __attribute__((always_inline)) uint64_t timed_arrive(struct switch_dev *sw,
                                                                   struct emu_order *arrivals,
                                                                   uint64_t until_ps,
                                                                   const void *own)
{
    const struct switch_timed *timed = own;
    struct switch_crosspoints *xp = switch_crosspoints_of(sw);
    struct emu_order_event event = emu_order_take(arrivals);
    uint32_t r = (uint32_t)event.port;

    switch_timing_of(xp)->alone = emu_order_next_ps(arrivals) != event.at_ps &&
                                  timed_next_ps(sw) != event.at_ps;
    timed->admit(xp, r, emu_rx_arrived(&xp->bar.row[r].rx, until_ps));
    switch_entered(&xp->bar, r, event.at_ps);
    timed_news(xp, event.at_ps);
    return switch_poll_next(&xp->bar, arrivals, r, until_ps);
}

static inline __attribute__((always_inline)) uint64_t timed_begin(struct switch_dev *sw,
                                                                  struct emu_order *arrivals,
                                                                  uint64_t until_ps)
{
    struct switch_crosspoints *xp = switch_crosspoints_of(sw);
    struct switch_agenda *agenda = timed_agenda(xp);
    emu_ports outs = switch_take(sw, EMU_EVENT_CREDIT) & agenda->stalled;

    agenda->stalled &= ~outs;
    emu_each_port (o, outs)
        timed_plan_again(xp, o, emu_profile_window_ps(sw->profile, until_ps));
    return switch_poll_all(&xp->bar, arrivals, until_ps);
}

/* The step of a switch with crosspoints. Always inlined with constant @timed. */
static inline __attribute__((always_inline)) uint32_t switch_timed_run(
    struct emu_dev *dev, uint64_t until_ps, const struct switch_timed *timed)
{
    static const struct switch_events timed_events = {.begin = timed_begin,
                                                      .next_ps = timed_next_ps,
                                                      .arrive = timed_arrive,
                                                      .act = timed_act};

    uint32_t moved = switch_events_run((struct switch_dev *)dev, until_ps, &timed_events, timed);

    emu_dev_wants(dev, emu_ports_signals(
                           ((struct switch_crosspoints_timed *)dev)->timing.agenda.stalled));
    return moved;
}

#endif
