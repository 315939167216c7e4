/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.h - clock raw: each output arbitrates independently and spends credits.
 *
 * An output serves its rows (inputs) round robin, so no input waits longer than the others. It
 * sends a burst row by row, and each row has an equal share of the burst. If it changed rows after
 * each segment, a switch of a full tree would move 12 % fewer segments. timed.h, for timed clocks,
 * sends segments one by one.
 */
#ifndef SWITCH_SEND_H
#define SWITCH_SEND_H

#include "switch/crosspoint/crosspoint.h"

#define SEND_BURST 64 /* limit of segments that an output sends in one pass (step) */

/* Send the @count segments of the list that begins at @slot. Returns the slot of the last one. */
static inline __attribute__((always_inline)) uint32_t send_list(const struct switch_store *store,
                                                                struct emu_tx *tx, uint32_t slot,
                                                                uint32_t count)
{
    const struct emu_entry *entry = store->slot;
    const switch_slot *next = store->next;
    uint32_t last = slot;

    if (tx->shape == EMU_LINK_LOCAL) {
        struct emu_ring_end data = tx->data; /* a local copy, to keep it in registers */

        for (uint32_t i = 0; i < count; i++, last = slot, slot = next[slot])
            emu_ring_put_at(&data, &entry[slot], 0);
        emu_tx_sent(tx, &data, count);
    } else {
        for (uint32_t i = 0; i < count; i++, last = slot, slot = next[slot])
            emu_tx_send(tx, &entry[slot]);
    }
    return last;
}

/*
 * Send all segments that wait for output @o, which must have space for them. The queues are first
 * joined into one list, so that one loop of known length sends all (a hop is 3 % faster).
 */
static inline uint32_t send_all(struct switch_crosspoints_raw *raw, uint32_t o)
{
    struct switch_crossbar *bar = &raw->xp.bar;
    struct switch_out *out = &bar->out[o];
    uint32_t sent = out->queued;
    switch_slot first, *link = &first;

    emu_each_port (r, out->waiting) {
        struct switch_list *queue = switch_xpoint(bar, r, o);

        *link = queue->first;
        link = &bar->store.next[queue->last];
        *switch_count(bar, r, o) = 0;
    }
    *link = (switch_slot)bar->store.free;
    send_list(&bar->store, &out->tx, first, sent);
    bar->store.free = first;
    raw->touched |= out->waiting;
    out->waiting = EMU_NO_PORTS;
    switch_out_set_queued(out, 0);
    bar->light |= emu_port(o);
    return sent;
}

/* Send the first @count segments of the queue (r, o). */
static inline void send_run(struct switch_crossbar *bar, uint32_t r, uint32_t o, uint32_t count)
{
    struct switch_list *queue = switch_xpoint(bar, r, o);
    uint32_t first = queue->first, last = send_list(&bar->store, &bar->out[o].tx, first, count);
    uint8_t *left = switch_count(bar, r, o);

    queue->first = bar->store.next[last];
    bar->store.next[last] = (switch_slot)bar->store.free;
    bar->store.free = first;
    *left = (uint8_t)(*left - count);
    switch_out_lose(bar, r, o, count, *left);
}

/*
 * Send up to @room segments through output @o, for which more segments wait. Each row sends up to
 * an equal share. Returns how many segments were sent, at least one.
 */
static inline uint32_t send_shares(struct switch_crosspoints_raw *raw, uint32_t o, uint32_t room)
{
    struct switch_crossbar *bar = &raw->xp.bar;
    struct switch_out *out = &bar->out[o];
    uint32_t rows = emu_ports_count(out->waiting), sent = 0;
    uint32_t share = room > rows ? room / rows : 1;

    for (; rows && sent < room; rows--) {
        uint32_t r = emu_ports_next(out->waiting, out->last);
        uint32_t queued = *switch_count(bar, r, o), count = queued < share ? queued : share;

        send_run(bar, r, o, count);
        raw->touched |= emu_port(r);
        out->last = (uint8_t)r;
        sent += count;
    }
    return sent;
}

/*
 * Send up to @room segments one by one, for kinds of switches that account for each segment.
 * Returns how many.
 */
static inline __attribute__((always_inline)) uint32_t send_singly(
    struct switch_crosspoints_raw *raw, uint32_t o, uint32_t room, switch_dequeue_fn dequeue)
{
    struct switch_out *out = &raw->xp.bar.out[o];
    uint32_t sent = 0;

    for (; sent < room && emu_ports_any(out->waiting); sent++) {
        out->last = (uint8_t)emu_ports_next(out->waiting, out->last);
        raw->touched |= emu_port(out->last);
        emu_tx_send(&out->tx, dequeue(&raw->xp, out->last, o));
    }
    return sent;
}

/*
 * Send segments through output @o until it has no space or SEND_BURST segments were sent. The space
 * must be queried until it is 0, because a host interface signals new space only after that.
 * @dequeue: see struct switch_pass.
 */
static inline __attribute__((always_inline)) uint32_t send_port(struct switch_crosspoints_raw *raw,
                                                                uint32_t o,
                                                                switch_dequeue_fn dequeue)
{
    struct switch_crosspoints *xp = &raw->xp;
    struct switch_out *out = &xp->bar.out[o];
    uint32_t sent = 0;

    while (emu_ports_any(out->waiting)) {
        uint32_t room = emu_tx_room(&out->tx);

        if (!room) {
            emu_count(&out->tx.counts.stalls, 1);
            break;
        }
        if (sent == SEND_BURST) {
            xp->bar.runnable |= emu_port(o);
            emu_dev_again(&xp->bar.sw.dev);
            break;
        }
        if (room > SEND_BURST - sent)
            room = SEND_BURST - sent;
        if (dequeue)
            sent += send_singly(raw, o, room, dequeue);
        else
            sent += out->queued <= room ? send_all(raw, o) : send_shares(raw, o, room);
    }
    return sent;
}

/*
 * Send from all outputs in `runnable`. Returns how many segments were sent. @dequeue: a constant.
 */
static inline __attribute__((always_inline)) uint32_t switch_send(
    struct switch_crosspoints_raw *raw, switch_dequeue_fn dequeue)
{
    struct switch_crosspoints *xp = &raw->xp;
    emu_ports outs = xp->bar.runnable & xp->bar.sends;
    uint32_t sent = 0;

    xp->bar.runnable = EMU_NO_PORTS;
    emu_each_port (o, outs) {
        if (emu_ports_any(xp->bar.out[o].waiting))
            sent += send_port(raw, o, dequeue);
        emu_tx_flush(&xp->bar.out[o].tx);
    }
    return sent;
}

#endif
