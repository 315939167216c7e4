/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timed.c - a switch with channels on a timed clock (real or virtual): its events, in the order of
 * their times.
 *
 * As in crosspoint/timed.h, simultaneous events have an order: first arrivals, in an order that
 * depends pseudo-randomly on the time, then time-outs, then outputs by number. An output acts when
 * its wire is free and it has something to send. If none of its segments has a credit, it acts
 * again when the next credit returns, or when it receives something else to send. An output takes
 * returned credits only when it needs one, and never before a credit's time, because the credits
 * taken determine which channels may send. So the order depends only on times and ports.
 */
#include "switch/channel/stages.h"

/* Schedule output @o to act at @at_ps, unless it is scheduled for an earlier time. */
static void timed_plan(struct switch_channels *ch, uint32_t o, uint64_t at_ps)
{
    struct switch_channel_timing *timing = switch_channels_timing(ch);
    struct switch_agenda *agenda = &timing->agenda;

    if (at_ps < timing->busy_ps[o])
        at_ps = timing->busy_ps[o];
    agenda->stalled &= ~emu_port(o);
    if (emu_ports_has(agenda->due, o)) {
        if (timing->due_ps[o] <= at_ps)
            return;
        emu_order_drop(&agenda->acts, o);
    }
    timing->due_ps[o] = at_ps;
    switch_agenda_add(agenda, o, at_ps);
}

static inline void timed_news(struct switch_channels *ch, uint64_t at_ps)
{
    emu_ports outs = ch->news;

    ch->news = EMU_NO_PORTS;
    emu_each_port (o, outs)
        timed_plan(ch, o, at_ps);
}

/* Schedule output @o for its next credit, because it has none for any of its segments at @at_ps. */
static void timed_stall(struct switch_channels *ch, uint32_t o, uint64_t at_ps)
{
    const struct emu_credit *next = emu_credit_front(&ch->port[o].tx.credit);

    emu_count(&ch->port[o].tx.counts.stalls, 1);
    switch_channels_timing(ch)->stalled_ps[o] = at_ps;
    if (next)
        timed_plan(ch, o, next->time_ps);
    else
        switch_channels_timing(ch)->agenda.stalled |= emu_port(o); /* until EMU_EVENT_CREDIT */
}

/*
 * Check the next entry of port @p. If it arrives not later than @until_ps, add it to @arrivals and
 * return EMU_NEVER. Otherwise note the port for the next step, and return the entry's time.
 */
static uint64_t timed_poll(struct switch_channels *ch, struct emu_order *arrivals, uint32_t p,
                           uint64_t until_ps)
{
    struct switch_channel_port *port = &ch->port[p];
    uint64_t at_ps = port->faults ? emu_faults_next_ps(port->faults, &port->rx)
                                  : emu_rx_next_ps(&port->rx);

    if (at_ps <= until_ps) {
        emu_order_add(arrivals, at_ps, p);
        return EMU_NEVER;
    }
    ch->sw.arriving |= emu_port_if(p, at_ps != EMU_NEVER);
    return at_ps;
}

static void timed_sweep(struct switch_channels *ch)
{
    uint64_t *sweep_ps = &switch_channels_timing(ch)->sweep_ps;
    uint64_t at_ps = *sweep_ps;

    ch->tick++;
    *sweep_ps = switch_channel_check_timeouts(ch, at_ps) ? at_ps + ch->tick_ps : EMU_NEVER;
    timed_news(ch, at_ps);
}

static inline void timed_out(struct switch_channels *ch)
{
    struct emu_order_event event = switch_agenda_take(&switch_channels_timing(ch)->agenda);
    uint32_t o = (uint32_t)event.port;
    const struct emu_tx *tx = &ch->port[o].tx;

    if (!tx->cross_worker && !emu_tx_has_slot(tx)) {
        /* the ring is full, which only a malicious host causes: try again later */
        timed_plan(ch, o, event.at_ps + ch->credit_ps);
        return;
    }
    if (switch_channel_transmit(ch, o, event.at_ps)) {
        if (emu_ports_has(ch->queued, o))
            timed_plan(ch, o, event.at_ps);
    } else if (emu_ports_has(ch->queued, o)) {
        timed_stall(ch, o, event.at_ps);
    }
    timed_news(ch, event.at_ps);
}

/* --- callbacks of switch_events_run() ----------------------------------------------- */

static inline uint64_t timed_next_ps(const struct switch_dev *sw)
{
    const struct switch_channel_timing *timing =
        &((const struct switch_channels_timed *)sw)->timing;
    uint64_t act_ps = emu_order_next_ps(&timing->agenda.acts);

    return act_ps < timing->sweep_ps ? act_ps : timing->sweep_ps;
}

/* Check time-outs or let an output act. At equal times, time-outs come first. */
static inline uint32_t timed_act(struct switch_dev *sw, const void *own)
{
    struct switch_channels *ch = switch_channels_of(sw);

    (void)own;
    if (switch_channels_timing(ch)->sweep_ps <=
        emu_order_next_ps(&switch_channels_timing(ch)->agenda.acts))
        timed_sweep(ch);
    else
        timed_out(ch);
    return 1;
}

static inline uint64_t timed_arrive(struct switch_dev *sw, struct emu_order *arrivals,
                                    uint64_t until_ps, const void *own)
{
    struct switch_channels *ch = switch_channels_of(sw);
    struct emu_order_event event = emu_order_take(arrivals);
    uint32_t p = (uint32_t)event.port;
    struct emu_entry entry;
    enum emu_fate fate;

    (void)own;
    /* ticks run only while a packet can time out */
    if (switch_channels_timing(ch)->sweep_ps == EMU_NEVER)
        switch_channels_timing(ch)->sweep_ps = (event.at_ps / ch->tick_ps + 1) * ch->tick_ps;
    if (switch_channel_take(ch, p, event.at_ps, &entry, &fate)) {
        switch_channel_arrive(ch, p, &entry, fate, event.at_ps);
        timed_news(ch, event.at_ps);
    }
    return timed_poll(ch, arrivals, p, until_ps);
}

/*
 * Schedule the outputs whose awaited credits have returned. On clock real a credit may be seen
 * late, so the time must not be before the stall.
 */
static inline void timed_take_credits(struct switch_channels *ch)
{
    emu_ports outs = switch_take(&ch->sw, EMU_EVENT_CREDIT) &
                     switch_channels_timing(ch)->agenda.stalled;

    emu_each_port (o, outs) {
        const struct emu_credit *next = emu_credit_front(&ch->port[o].tx.credit);
        uint64_t stalled_ps = switch_channels_timing(ch)->stalled_ps[o];

        if (next)
            timed_plan(ch, o, next->time_ps > stalled_ps ? next->time_ps : stalled_ps);
    }
}

static inline uint64_t timed_begin(struct switch_dev *sw, struct emu_order *arrivals,
                                   uint64_t until_ps)
{
    struct switch_channels *ch = switch_channels_of(sw);
    uint64_t later_ps = EMU_NEVER;
    emu_ports ports;

    if (!emu_ports_any(ch->plugged))
        switch_channel_find_cables(ch);
    timed_take_credits(ch);
    ports = switch_take(sw, EMU_EVENT_DATA) | sw->arriving;
    sw->arriving = EMU_NO_PORTS;
    emu_each_port (p, ports) {
        uint64_t next_ps = timed_poll(ch, arrivals, p, until_ps);

        later_ps = next_ps < later_ps ? next_ps : later_ps;
    }
    return later_ps;
}

void switch_channel_schedule_news(struct switch_channels *ch, uint64_t at_ps)
{
    timed_news(ch, at_ps + 1);
}

uint32_t switch_step_channels(struct emu_dev *dev, uint64_t until_ps)
{
    static const struct switch_events timed_events = {.begin = timed_begin,
                                                      .next_ps = timed_next_ps,
                                                      .arrive = timed_arrive,
                                                      .act = timed_act};

    return switch_events_run((struct switch_dev *)dev, until_ps, &timed_events, NULL);
}
