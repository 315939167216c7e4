/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link.c - take a link down or up, which both of its ends detect; stop a port, which is then
 * *stuck*.
 *
 * The hardware reacts by itself. Packets take other outputs, a packet that has no other output gets
 * a NACK, and the channels of the link close. The fabric manager changes the routing tables
 * (apps/manager/). Segments on the wire are lost. Their credits return as if the segments had been
 * received (emu/fault/fault.h), so that the counters of both ends agree when the link is up again.
 * Source: QsNet III §III, Figure 2 (a broken link), §V.
 */
#include "switch/channel/stages.h"

static void link_refuse_all(struct switch_channels *ch, uint32_t o, uint64_t at_ps)
{
    emu_each_port (p, ch->port[o].waiters)
        emu_each_bit (c, switch_channel_pair(ch, o, p)->waiting)
            switch_channel_refuse(ch, p * EMU_VCS + c, o, at_ps);
}

static uint32_t link_down(struct switch_channels *ch, uint32_t port, uint64_t at_ps)
{
    struct emu_vcs *vcs = &ch->port[port].vcs;
    uint32_t hit = emu_vcs_pending(vcs);

    link_refuse_all(ch, port, at_ps);
    emu_each_bit (c, vcs->open) {
        vcs->open &= ~(1u << c);
        switch_channel_settle(ch, port * EMU_VCS + c, true, at_ps);
    }
    for (uint32_t v = port * EMU_VCS; v < (port + 1) * EMU_VCS; v++)
        if (ch->in[v].state != CHANNEL_CLOSED)
            switch_channel_give_up(ch, v, at_ps);
    return hit;
}

uint32_t switch_channel_link(struct switch_channels *ch, uint32_t port, bool up, uint64_t at_ps)
{
    emu_ports bit = emu_port(port);

    if (!emu_ports_any(ch->plugged))
        switch_channel_find_cables(ch);
    if (up == emu_ports_has(ch->up, port) || !emu_ports_has(ch->plugged, port))
        return 0;
    ch->up ^= bit;
    switch_channel_update_onward(ch);
    return up ? 0 : link_down(ch, port, at_ps);
}

/* --- a port that is stuck ----------------------------------------------------------- */

/* Timed clocks: treat the wire of a stuck port as busy, and cancel the port's scheduled action. */
static void link_stick_timed(struct switch_channels *ch, uint32_t port)
{
    struct switch_channel_timing *timing = switch_channels_timing(ch);

    timing->busy_ps[port] = ch->port[port].tx.busy_ps;
    if (emu_ports_has(timing->agenda.due, port))
        emu_order_drop(&timing->agenda.acts, port);
    timing->agenda.due &= ~emu_port(port);
}

void switch_channels_stick(struct switch_dev *sw, uint32_t port, bool stuck, uint64_t at_ps)
{
    struct switch_channels *ch = switch_channels_of(sw);
    emu_ports bit = emu_port(port);

    emu_tx_stick(&ch->port[port].tx, stuck, at_ps);
    if (sw->dev.timed)
        link_stick_timed(ch, port);
    if (!stuck)
        ch->news |= ch->queued & bit;
    if (sw->dev.timed && at_ps)
        switch_channel_schedule_news(ch, at_ps - 1);
}

/* Return whether the port has a reply, or a segment and a credit (which may still be in a ring). */
bool switch_channels_ready(const struct switch_dev *sw, uint32_t port)
{
    const struct switch_channel_port *at = &((const struct switch_channels *)sw)->port[port];
    uint32_t ready = 0;

    for (uint32_t priority = 0; priority < EMU_PRIORITIES; priority++)
        ready |= at->ready[priority];
    return at->replies ||
           (ready && (ready & emu_vcs_room(&at->vcs) || emu_credit_front(&at->tx.credit)));
}

uint32_t switch_channels_waiting(struct switch_dev *sw, uint32_t port,
                                 void (*report)(void *ctx, const struct emu_entry *entry),
                                 void *ctx)
{
    const struct switch_channels *ch = switch_channels_of(sw);
    uint32_t waiting = 0;

    emu_each_bit (c, ch->port[port].vcs.open) {
        const struct switch_channel_out *out = &ch->out[port * EMU_VCS + c];

        if (out->cursor == CHANNEL_NONE)
            continue;
        for (uint32_t slot = out->cursor, last = ch->in [out->from].queue.last;;
             slot = ch->store.next[slot]) {
            waiting++;
            if (report)
                report(ctx, &ch->store.slot[slot]);
            if (slot == last)
                break;
        }
    }
    return waiting;
}
