/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.c - each output arbitrates on its own and spends credits.
 *
 * Rows are served in turn (round robin), so no input waits longer than the
 * others. This file is clock raw; with times the same happens in timed.h.
 */
#include "switch/crosspoint/crosspoint.h"

#define SEND_BURST 64 /* segments an output sends in one pass */

/* The fullest crosspoint of a row. Vectorised: a row is a multiple of 16 bytes, the rest zero. */
static inline uint8_t row_fullest(const uint8_t *count, uint32_t width)
{
    uint8_t most[16] = {0};
    uint8_t fullest = 0;

    for (uint32_t i = 0; i < width; i += 16)
        for (uint32_t j = 0; j < 16; j++)
            most[j] = most[j] > count[i + j] ? most[j] : count[i + j];
    for (uint32_t j = 0; j < 16; j++)
        fullest = fullest > most[j] ? fullest : most[j];
    return fullest;
}

uint32_t switch_row_settle(struct switch_crosspoints_row *row, uint32_t r)
{
    const struct switch_crossbar *bar = &row->raw.xp.bar;
    struct switch_settling *settling = &row->settling[r];
    uint8_t fullest = row_fullest(switch_count(bar, r, 0), bar->width);

    bar->row[r].rx.owed += settling->arrived + settling->fullest - fullest;
    settling->fullest = fullest;
    settling->arrived = 0;
    return bar->row[r].rx.owed;
}

/*
 * As many as there is room for. Ask for room until the answer is none: only after that answer
 * does an edge signal when it has room again.
 */
static uint32_t send_port(struct switch_crosspoints_raw *raw, uint32_t o)
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
            emu_tx_send(&out->tx, switch_dequeue(xp, out->last, o));
        }
        sent -= room;
    }
    return sent;
}

uint32_t switch_send(struct switch_crosspoints_raw *raw)
{
    struct switch_crosspoints *xp = &raw->xp;
    uint64_t outs = xp->bar.runnable & xp->bar.sends;
    uint32_t sent = 0;

    xp->bar.runnable = 0;
    emu_each_bit (o, outs) {
        if (xp->bar.out[o].waiting)
            sent += send_port(raw, o);
        emu_tx_flush(&xp->bar.out[o].tx);
    }
    return sent;
}
