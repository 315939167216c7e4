/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timed.c - a switch with channels on a timed clock: its events, in the
 * order of their times.
 *
 * As in timed.c: at one and the same time arrivals come first, in a turn that
 * the time draws, then the look for time-outs, then outputs, by number. An
 * output acts when its wire is free and it has something to send. If nothing of
 * that has room it acts again when the next credit comes, or something else to
 * send. Credits are taken by their times, and only when an output that needs one
 * acts: which channel may send depends on which credits have come. All of this is
 * a function of times and ports alone.
 */
#include "switch/channel/channel.h"

#include "switch/events.h"

/* Output @o acts at @at_ps, or at an earlier time that it knows of. */
static void timed_plan(struct switch_channels *ch, uint32_t o, uint64_t at_ps)
{
    struct switch_dev *sw = &ch->sw;
    uint64_t bit = emu_bit(o);

    if (at_ps < ch->busy_ps[o])
        at_ps = ch->busy_ps[o];
    sw->stalled &= ~bit;
    if (sw->due & bit) {
        if (ch->due_ps[o] <= at_ps)
            return;
        emu_order_drop(&sw->acts, o);
    }
    sw->due |= bit;
    ch->due_ps[o] = at_ps;
    emu_order_add(&sw->acts, at_ps, o);
}

/* Outputs that were given something at @at_ps. */
static inline void timed_news(struct switch_channels *ch, uint64_t at_ps)
{
    uint64_t outs = ch->news;

    ch->news = 0;
    emu_each_bit(o, outs)
        timed_plan(ch, o, at_ps);
}

/* Nothing at output @o has room at @at_ps: it waits for credits. */
static void timed_stall(struct switch_channels *ch, uint32_t o, uint64_t at_ps)
{
    const struct emu_credit *next = emu_credit_front(&ch->port[o].tx.credit);

    emu_count(&ch->port[o].tx.counts.stalls, 1);
    ch->port[o].stalled_ps = at_ps;
    if (next)
        timed_plan(ch, o, next->time_ps);
    else
        ch->sw.stalled |= emu_bit(o); /* EMU_EVENT_CREDIT tells */
}

static void timed_act(struct switch_channels *ch, uint64_t now_ps)
{
    struct emu_order_event event = emu_order_take(&ch->sw.acts);
    uint32_t o = (uint32_t)event.port;

    ch->sw.due &= ~emu_bit(o);
    switch_lag(&ch->sw, event.at_ps, now_ps);
    if (switch_channel_send(ch, o, event.at_ps)) {
        if (ch->queued >> o & 1)
            timed_plan(ch, o, event.at_ps);
    } else if (ch->queued >> o & 1) {
        timed_stall(ch, o, event.at_ps);
    }
    timed_news(ch, event.at_ps);
}

/* The next entry of port @p: an event of this step if it comes by @until_ps, else remembered. */
static uint64_t timed_look(struct switch_channels *ch, struct emu_order *arrivals, uint32_t p,
                           uint64_t until_ps)
{
    struct switch_channel_port *port = &ch->port[p];
    uint64_t at_ps = port->faults ? emu_faults_next_ps(port->faults, &port->rx)
                                  : emu_rx_next_ps(&port->rx);

    if (at_ps <= until_ps) {
        emu_order_add(arrivals, at_ps, p);
        return EMU_NEVER;
    }
    ch->sw.arriving |= (uint64_t)(at_ps != EMU_NEVER) << p;
    return at_ps;
}

static uint64_t timed_arrive(struct switch_channels *ch, struct emu_order *arrivals,
                             uint64_t until_ps)
{
    struct emu_order_event event = emu_order_take(arrivals);
    uint32_t p = (uint32_t)event.port;
    struct emu_entry entry;
    enum emu_fate fate;

    if (ch->sweep_ps == EMU_NEVER) /* ticks count while something is open */
        ch->sweep_ps = (event.at_ps / ch->tick_ps + 1) * ch->tick_ps;
    if (switch_channel_take(ch, p, event.at_ps, &entry, &fate)) {
        switch_channel_arrive(ch, p, &entry, fate, event.at_ps);
        timed_news(ch, event.at_ps);
    }
    return timed_look(ch, arrivals, p, until_ps);
}

static void timed_sweep(struct switch_channels *ch)
{
    uint64_t at_ps = ch->sweep_ps;

    ch->tick++;
    ch->sweep_ps = switch_channel_sweep(ch, at_ps) ? at_ps + ch->tick_ps : EMU_NEVER;
    timed_news(ch, at_ps);
}

/* Outputs that wait for a credit that has come, and ports that something came to. */
static uint64_t timed_begin(struct switch_channels *ch, struct emu_order *arrivals,
                            uint64_t until_ps)
{
    uint64_t outs = emu_dev_take(&ch->sw.dev, EMU_EVENT_CREDIT) & ch->sw.stalled;
    uint64_t ports = emu_dev_take(&ch->sw.dev, EMU_EVENT_DATA) | ch->sw.arriving;
    uint64_t later_ps = EMU_NEVER;

    emu_each_bit(o, outs) {
        const struct emu_credit *next = emu_credit_front(&ch->port[o].tx.credit);

        if (next) /* clock real: it may have been seen late */
            timed_plan(ch, o, next->time_ps > ch->port[o].stalled_ps ? next->time_ps
                                                                    : ch->port[o].stalled_ps);
    }
    ch->sw.arriving = 0;
    emu_each_bit(p, ports) {
        uint64_t next_ps = timed_look(ch, arrivals, p, until_ps);

        later_ps = next_ps < later_ps ? next_ps : later_ps;
    }
    return later_ps;
}

uint32_t switch_step_channels(struct emu_dev *dev, uint64_t until_ps)
{
    struct switch_channels *ch = (struct switch_channels *)dev;
    struct emu_order_event event[EMU_ORDER_ROOM(TOPO_PORTS_MAX)];
    struct emu_order arrivals;
    uint64_t later_ps;
    uint32_t moved = 0;

    if (!ch->plugged)
        switch_channel_plugged(ch);
    emu_order_init(&arrivals, event, TOPO_PORTS_MAX, true);
    later_ps = timed_begin(ch, &arrivals, until_ps);
    for (;; moved++) {
        uint64_t act_ps = emu_order_next_ps(&ch->sw.acts);
        uint64_t arrive_ps = emu_order_next_ps(&arrivals);

        if (arrive_ps != EMU_NEVER && arrive_ps <= act_ps && arrive_ps <= ch->sweep_ps) {
            uint64_t next_ps = timed_arrive(ch, &arrivals, until_ps);

            later_ps = next_ps < later_ps ? next_ps : later_ps;
        } else if (ch->sweep_ps <= act_ps && ch->sweep_ps <= until_ps) {
            timed_sweep(ch);
        } else if (act_ps <= until_ps) {
            timed_act(ch, until_ps);
        } else {
            later_ps = ch->sweep_ps < later_ps ? ch->sweep_ps : later_ps;
            dev->next_ps = act_ps < later_ps ? act_ps : later_ps;
            return moved;
        }
    }
}
