/* SPDX-License-Identifier: BSD-3-Clause */
/* raw.c - clock raw: the step of a switch with channels. timed.c is for timed clocks. */
#include <time.h>

#include "emu/util/now.h"
#include "switch/channel/stages.h"

#define RAW_FETCHED 8u /* slots of a ring that are prefetched */
/* a step takes at most this many entries from a port, and sends at most this many through it */
#define CHANNEL_BURST EMU_VC_SLOTS_MAX

/*
 * Take all arrivals of port @p. Replies must not stay in the ring, or it could fill up. This switch
 * may give up a packet, and send the next one on the same channel, before it takes the first
 * packet's reply. Then one channel has two replies in the ring.
 */
static uint32_t raw_take_port(struct switch_channels *ch, uint32_t p)
{
    struct emu_entry entry;
    enum emu_fate fate;
    uint32_t moved = 0;

    while (moved < CHANNEL_BURST) {
        uint32_t through = switch_channel_bypass(ch, p, CHANNEL_BURST - moved);

        moved += through;
        if (through)
            continue;
        if (!switch_channel_take(ch, p, 0, &entry, &fate))
            break;
        switch_channel_arrive(ch, p, &entry, fate, 0);
        moved++;
    }
    if (moved == CHANNEL_BURST)
        switch_more(&ch->sw, p);
    return moved;
}

/* Prefetch the cache lines of @ports and their cables, which other devices may have evicted. */
static void raw_fetch(const struct switch_channels *ch, emu_ports ports)
{
    emu_each_port (p, ports)
        emu_fetch_lines(&ch->port[p], &ch->port[p].rx.tx);
    emu_each_port (p, ports) {
        const struct switch_channel_port *port = &ch->port[p];

        if (port->rx.kind != EMU_LINK_LOCAL)
            continue;
        for (uint32_t ahead = 0; ahead < RAW_FETCHED; ahead += 2) {
            emu_fetch_line(&port->rx.data.slot[(port->rx.data.at + ahead) & port->rx.data.mask]);
            emu_fetch_line(&port->tx.data.slot[(port->tx.data.at + ahead) & port->tx.data.mask]);
        }
    }
}

static uint32_t raw_take(struct switch_channels *ch)
{
    emu_ports ports = switch_take(&ch->sw, EMU_EVENT_DATA) | ch->sw.arriving;
    uint32_t moved = 0;

    raw_fetch(ch, ports);
    ch->sw.arriving = EMU_NO_PORTS;
    emu_each_port (p, ports)
        moved += raw_take_port(ch, p);
    return moved;
}

/*
 * Send as much as output @o can. If the cable's ring is full (kind.c explains why this can happen),
 * this switch tries again in each step until the receiver has emptied a slot.
 */
static uint32_t raw_send_port(struct switch_channels *ch, uint32_t o)
{
    emu_ports bit = emu_port(o);
    uint32_t sent = 0;

    while (sent < CHANNEL_BURST && emu_ports_has(ch->queued, o) &&
           emu_tx_has_slot(&ch->port[o].tx)) {
        if (!switch_channel_transmit(ch, o, 0)) {
            emu_count(&ch->port[o].tx.counts.stalls, 1);
            break;
        }
        sent++;
    }
    if (sent == CHANNEL_BURST ||
        (emu_ports_has(ch->queued, o) && !emu_tx_has_slot(&ch->port[o].tx))) {
        ch->news |= bit;
        emu_dev_again(&ch->sw.dev);
    }
    emu_tx_flush(&ch->port[o].tx);
    return sent;
}

static uint32_t raw_send(struct switch_channels *ch)
{
    emu_ports outs = ch->news & ~ch->sw.stuck;
    uint32_t sent = 0;

    ch->news = EMU_NO_PORTS;
    emu_each_port (o, outs)
        sent += raw_send_port(ch, o);
    return sent;
}

/*
 * Advance the ticks by the host's clock, after the arrivals were taken. A coarse clock is enough,
 * because ticks need not be exact. At most one tick passes in a step: if this switch was not
 * stepped for a long time, other switches may not have been stepped either. An early time-out costs
 * only a NACK.
 */
static void raw_tick(struct switch_channels_raw *raw)
{
    struct switch_channels *ch = &raw->ch;
    uint64_t now_ps = emu_time_ns(CLOCK_MONOTONIC_COARSE) * 1000u;

    /* now_ps wraps to 0 when the host has been up for 213 days, so compare the difference */
    if (now_ps - raw->swept_ps < ch->tick_ps)
        return;
    raw->swept_ps = now_ps;
    ch->tick++;
    switch_channel_check_timeouts(ch, 0);
}

uint32_t switch_step_channels_raw(struct emu_dev *dev, uint64_t until_ps)
{
    struct switch_channels_raw *raw = (struct switch_channels_raw *)dev;
    struct switch_channels *ch = &raw->ch;
    uint32_t moved;

    (void)until_ps;
    if (!emu_ports_any(ch->plugged))
        switch_channel_find_cables(ch);
    ch->news |= switch_take(&ch->sw, EMU_EVENT_CREDIT); /* credits are taken when needed */
    /* send the waiting segments first, so that arrivals may bypass the buffer */
    moved = raw_send(ch);
    moved += raw_take(ch);
    raw_tick(raw);
    moved += raw_send(ch);
    switch_channel_flush_credits(ch);
    /* time-outs need a step each tick */
    emu_dev_poll_within(dev, ch->open ? ch->tick_ps : EMU_NEVER);
    return moved;
}
