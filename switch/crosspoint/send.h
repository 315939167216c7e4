/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.h - clock raw: each output arbitrates on its own and spends credits.
 *
 * Rows are served in turn (round robin), so no input waits longer than the
 * others. With times the same happens in timed.h.
 */
#ifndef SWITCH_SEND_H
#define SWITCH_SEND_H

#include "switch/crosspoint/crosspoint.h"

#define SEND_BURST 64 /* segments an output sends in one pass */

/*
 * As many as there is room for. Ask for room until the answer is none: only after that answer
 * does an edge signal when it has room again.
 */
static inline __attribute__((always_inline)) uint32_t send_port(struct switch_crosspoints_raw *raw,
                                                                uint32_t o,
                                                                switch_dequeue_fn dequeue)
{
    struct switch_crosspoints *xp = &raw->xp;
    struct switch_out *out = &xp->bar.out[o];
    uint32_t sent = 0;

    while (out->waiting) {
        uint32_t room = emu_tx_room(&out->tx);

        if (!room) {
            emu_count(&out->tx.counts.stalls, 1);
            break;
        }
        if (sent == SEND_BURST) {
            xp->bar.runnable |= emu_bit(o);
            emu_dev_again(&xp->bar.sw.dev);
            break;
        }
        if (room > SEND_BURST - sent)
            room = SEND_BURST - sent;
        sent += room;
        for (; room && out->waiting; room--) {
            out->last = (uint8_t)emu_bits_next(out->waiting, out->last);
            raw->touched |= emu_bit(out->last);
            emu_tx_send(&out->tx, dequeue(xp, out->last, o));
        }
        sent -= room;
    }
    return sent;
}

/*
 * All runnable outputs send what they may. Returns segments sent. Always inlined with @dequeue a
 * constant.
 */
static inline __attribute__((always_inline)) uint32_t switch_send(
    struct switch_crosspoints_raw *raw, switch_dequeue_fn dequeue)
{
    struct switch_crosspoints *xp = &raw->xp;
    uint64_t outs = xp->bar.runnable & xp->bar.sends;
    uint32_t sent = 0;

    xp->bar.runnable = 0;
    emu_each_bit (o, outs) {
        if (xp->bar.out[o].waiting)
            sent += send_port(raw, o, dequeue);
        emu_tx_flush(&xp->bar.out[o].tx);
    }
    return sent;
}

#endif
