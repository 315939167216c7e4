/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * channel.c - a switch with channels is made, stepped on clock raw, and taken apart.
 */
#include "switch/channel/channel.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "emu/packet/crc.h"

#define CHANNEL_BURST      EMU_CHANNEL_SLOTS /* entries taken from one port, or sent, in one pass */

void switch_channel_plugged(struct switch_channels *ch)
{
    for (uint32_t p = 0; p < ch->sw.ports; p++) {
        const struct emu_tx *tx = &ch->port[p].tx;

        if (tx->kind != EMU_LINK_LOCAL)
            continue;
        ch->plugged |= emu_bit(p);
        for (uint32_t o = 0; o < ch->sw.ports; o++) {
            const struct emu_tx *other = &ch->port[o].tx;
            bool twin = other->kind == EMU_LINK_LOCAL && other->peer_worker == tx->peer_worker &&
                        other->peer_index == tx->peer_index;

            ch->port[p].twins |= (uint64_t)twin << o;
        }
    }
}

/* --- clock raw ------------------------------------------------------------------- */

/* All that has come: a sender that gives up and sends anew never finds the ring full of old replies. */
static uint32_t raw_take_port(struct switch_channels *ch, uint32_t p)
{
    struct emu_entry entry;
    enum emu_fate fate;
    uint32_t moved = 0;

    while (moved < CHANNEL_BURST && switch_channel_take(ch, p, 0, &entry, &fate)) {
        switch_channel_arrive(ch, p, &entry, fate, 0);
        moved++;
    }
    if (moved == CHANNEL_BURST) {
        ch->sw.arriving |= emu_bit(p);
        emu_dev_again(&ch->sw.dev);
    }
    return moved;
}

static uint32_t raw_take(struct switch_channels *ch)
{
    uint64_t ports = emu_dev_take(&ch->sw.dev, EMU_EVENT_DATA) | ch->sw.arriving;
    uint32_t moved = 0;

    ch->sw.arriving = 0;
    emu_each_bit(p, ports)
        moved += raw_take_port(ch, p);
    return moved;
}

/* If the ring is full of replies (see channels_sane()), the far end empties it in its next step. */
static uint32_t raw_send_port(struct switch_channels *ch, uint32_t o)
{
    uint64_t bit = emu_bit(o);
    uint32_t sent = 0;

    while (sent < CHANNEL_BURST && ch->queued & bit && emu_tx_has_slot(&ch->port[o].tx)) {
        if (!switch_channel_send(ch, o, 0)) {
            emu_count(&ch->port[o].tx.counts.stalls, 1);
            break;
        }
        sent++;
    }
    if (sent == CHANNEL_BURST || (ch->queued & bit && !emu_tx_has_slot(&ch->port[o].tx))) {
        ch->news |= bit;
        emu_dev_again(&ch->sw.dev);
    }
    emu_tx_flush(&ch->port[o].tx);
    return sent;
}

static uint32_t raw_send(struct switch_channels *ch)
{
    uint64_t outs = ch->news;
    uint32_t sent = 0;

    ch->news = 0;
    emu_each_bit(o, outs)
        sent += raw_send_port(ch, o);
    return sent;
}

/*
 * Ticks of the host's clock, when what has come was looked at. They need not be exact, so neither
 * is the clock. If we were not stepped for long, so perhaps were others: no more than a tick passes
 * at once. A time-out that comes too early is a NACK too many, no more.
 */
static void raw_tick(struct switch_channels *ch)
{
    struct timespec ts;
    uint64_t now_ps;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
    now_ps = ((uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec) * 1000u;
    if (now_ps - ch->sweep_ps < ch->tick_ps) /* modulo 2^64: a host may be up for longer than 213 days */
        return;
    ch->sweep_ps = now_ps;
    ch->tick++;
    switch_channel_sweep(ch, 0);
}

/* One pass: bounded, never blocks or allocates. Returns entries moved. */
static uint32_t switch_step_channels_raw(struct emu_dev *dev, uint64_t until_ps)
{
    struct switch_channels *ch = (struct switch_channels *)dev;
    uint32_t moved;

    (void)until_ps;
    if (!ch->plugged)
        switch_channel_plugged(ch);
    ch->news |= emu_dev_take(dev, EMU_EVENT_CREDIT); /* taken when needed */
    raw_take(ch);
    raw_tick(ch);
    moved = raw_send(ch);
    dev->next_ps = ch->open ? ch->tick_ps : EMU_NEVER; /* or who could end its time-outs? */
    return moved;
}

/* --- made and taken apart ------------------------------------------------------------ */

uint32_t switch_channels_segments(uint32_t ports, const struct emu_profile *profile)
{
    return ports * (profile->channels + profile->pool_places) + CHANNEL_GHOSTS;
}

size_t switch_channels_bytes(uint32_t ports, const struct emu_profile *profile)
{
    return sizeof(struct switch_channels) +
           ports * (sizeof(struct switch_channel_port) + 2 * sizeof(uint64_t) +
                    3 * sizeof(struct emu_order_event) +
                    EMU_CHANNELS *
                        (sizeof(struct switch_channel_in) + sizeof(struct switch_channel_out)) +
                    ports * sizeof(struct switch_channel_pair) +
                    emu_link_bytes(EMU_CHANNEL_SLOTS)) +
           switch_channels_segments(ports, profile) *
               (sizeof(struct emu_entry) + sizeof(struct switch_slot));
}

/*
 * A cable's ring holds every place's segment and the replies: one for each channel, and for each
 * one more that was sent just before its packet was given up at the far end. On clock raw a channel
 * may be given up there again before its thread has looked at the ring: emu_tx_has_slot().
 */
static bool channels_sane(uint32_t ports, const struct emu_profile *profile)
{
    return ports && ports <= TOPO_PORTS_MAX && profile->channels &&
           profile->channels <= EMU_CHANNELS && profile->pool_places <= EMU_POOL_PLACES_MAX &&
           emu_channel_slots(profile) <= EMU_CHANNEL_SLOTS &&
           switch_channels_segments(ports, profile) <= SWITCH_SEGMENTS_MAX;
}

static int channels_alloc(struct switch_channels *ch)
{
    struct switch_dev *sw = &ch->sw;
    uint32_t ports = sw->ports;
    size_t slots = switch_channels_segments(ports, sw->profile);

    ch->port = switch_zeros(ports * sizeof(*ch->port));
    ch->in = switch_zeros(ports * EMU_CHANNELS * sizeof(*ch->in));
    ch->out = switch_zeros(ports * EMU_CHANNELS * sizeof(*ch->out));
    ch->pair = switch_zeros(ports * ports * sizeof(*ch->pair));
    ch->busy_ps = switch_zeros(ports * sizeof(*ch->busy_ps));
    ch->due_ps = switch_zeros(ports * sizeof(*ch->due_ps));
    sw->acts.event = switch_zeros(EMU_ORDER_ROOM(ports) * sizeof(*sw->acts.event));
    sw->slot = switch_lines(slots * sizeof(*sw->slot));
    sw->link = calloc(slots, sizeof(*sw->link));
    if (!ch->port || !ch->in || !ch->out || !ch->pair || !ch->busy_ps || !ch->due_ps ||
        !sw->acts.event || !sw->slot || !sw->link)
        return -ENOMEM;
    emu_order_init(&sw->acts, sw->acts.event, ports, false);
    return 0;
}

static void channels_init(struct switch_channels *ch, enum emu_clock_mode clock)
{
    const struct emu_profile *profile = ch->sw.profile;
    uint64_t wait_ps = profile->reply_timeout_ps;

    ch->channels = profile->channels;
    ch->first_unit = UINT32_MAX;
    if (clock == EMU_CLOCK_RAW && wait_ps < EMU_PATIENCE_PS)
        wait_ps = EMU_PATIENCE_PS;
    ch->tick_ps = (wait_ps + CHANNEL_TICKS - 1) / CHANNEL_TICKS;
    ch->sweep_ps = clock == EMU_CLOCK_RAW ? 0 : EMU_NEVER;
    for (uint32_t p = 0; p < ch->sw.ports; p++) {
        emu_channels_init(&ch->port[p].books, profile->channels, profile->pool_places);
        switch_channel_count(ch, p, 0);
    }
    for (uint32_t bits = 0; bits < EMU_CHANNELS; bits++) { /* a CRC is linear */
        ch->head_crc[bits] = emu_crc16(bits, 6) ^ emu_crc16(0, 6);
        ch->cont_crc[bits] = emu_crc16(bits, 2) ^ emu_crc16(0, 2);
    }
}

int switch_channels_create(struct switch_dev **ret, struct emu_worker *worker, uint32_t ports,
                           const struct topo_route *route, const struct emu_profile *profile,
                           uint64_t seed)
{
    struct switch_channels *ch;

    if (!channels_sane(ports, profile))
        return -EINVAL;
    ch = switch_zeros(sizeof(*ch));
    if (!ch)
        return -ENOMEM;
    ch->sw.route = route;
    ch->sw.profile = profile;
    ch->sw.ports = ports;
    ch->sw.acknowledged = true;
    ch->sw.free = SWITCH_NO_SLOT;
    ch->sw.random = seed | 1;
    if (channels_alloc(ch)) {
        switch_channels_destroy(&ch->sw);
        return -ENOMEM;
    }
    channels_init(ch, worker->clock.mode);
    emu_dev_init(&ch->sw.dev, worker, worker->clock.mode == EMU_CLOCK_RAW
                                          ? switch_step_channels_raw
                                          : switch_step_channels);
    *ret = &ch->sw;
    return 0;
}

void switch_channels_destroy(struct switch_dev *sw)
{
    struct switch_channels *ch = switch_channels_of(sw);

    for (uint32_t p = 0; ch->port && p < sw->ports; p++)
        emu_link_unjoin(&ch->port[p].tx);
    emu_table_free(&sw->groups);
    free(sw->link);
    free(sw->slot);
    free(sw->acts.event);
    free(ch->due_ps);
    free(ch->busy_ps);
    free(ch->pair);
    free(ch->out);
    free(ch->in);
    free(ch->port);
    free(ch);
}

void switch_units(struct switch_dev *sw, uint32_t first, uint32_t own, const uint32_t *at)
{
    struct switch_channels *ch = switch_channels_of(sw);

    ch->first_unit = first;
    ch->unit = own;
    ch->unit_at = at;
}
