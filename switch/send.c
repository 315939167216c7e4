/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.c - each output arbitrates on its own and spends credits.
 *
 * Rows are served in turn (round robin), so no input waits longer than the
 * others. On a timed clock a segment may leave once the switch delay has
 * passed, the wire is free and a credit has come; then it leaves as of the
 * latest of the three, not as of when the host got round to it: how far the
 * host is behind is measured, and does not add up from hop to hop.
 */
#include "switch/internal.h"

#define SEND_BURST 64 /* segments an output sends in one pass */

struct emu_entry *switch_dequeue(struct switch_dev *sw, uint32_t r, uint32_t o)
{
    size_t at = switch_at(sw, r, o);
    struct switch_out *out = &sw->out[o];
    uint8_t head = sw->head[at];
    size_t slot = switch_slot(sw, r, o, head);
    uint8_t left = (uint8_t)(sw->count[at] - 1);

    sw->head[at] = (uint8_t)((head + 1) & (sw->slots - 1));
    sw->count[at] = left;
    out->waiting &= ~((uint64_t)(left == 0) << r);
    out->queued--;
    sw->light |= (uint64_t)(out->queued < sw->light_slots) << o;
    sw->unsettled |= (uint64_t)1 << r;
    if (!switch_by_row(sw)) { /* the last copy's departure gives the credit back */
        struct switch_row *row = &sw->row[r];
        uint8_t copy_of = sw->copy_of[slot];

        row->rx.owed += !copy_of || !--row->copies[copy_of - 1];
    }
    return &sw->slot[slot];
}

/*
 * Raw: as many as there is room for. Room is asked for until there is none: the
 * answer "none" is what makes an edge tell us when there is some again.
 */
static uint32_t send_raw(struct switch_dev *sw, uint32_t o)
{
    struct switch_out *out = &sw->out[o];
    uint32_t sent = 0;

    while (out->waiting) {
        uint32_t room = emu_tx_room(&out->tx);

        if (!room) {
            emu_count(&out->tx.counts.stalls, 1);
            break;
        }
        if (sent == SEND_BURST) {
            sw->runnable |= (uint64_t)1 << o;
            emu_dev_again(&sw->dev);
            break;
        }
        if (room > SEND_BURST - sent)
            room = SEND_BURST - sent;
        sent += room;
        for (; room && out->waiting; room--) {
            out->last = (uint8_t)switch_next_bit(out->waiting, out->last);
            emu_tx_send(&out->tx, switch_dequeue(sw, out->last, o));
        }
        sent -= room;
    }
    return sent;
}

uint32_t switch_pick(const struct switch_dev *sw, uint32_t o, uint64_t now_ps,
                     uint64_t *ready_ps)
{
    const struct switch_out *out = &sw->out[o];
    uint64_t earliest_ps = EMU_NEVER;
    uint32_t row = out->last;
    uint32_t best = 0;

    for (uint64_t left = out->waiting; left; left &= ~((uint64_t)1 << row)) {
        size_t at;
        uint64_t at_ps;

        row = switch_next_bit(left, row);
        at = switch_at(sw, row, o);
        at_ps = sw->slot[switch_slot(sw, row, o, sw->head[at])].time_ps;
        if (row < sw->ports)
            at_ps += sw->profile->switch_ps;
        if (at_ps < earliest_ps) {
            earliest_ps = at_ps;
            best = row;
        }
        if (at_ps <= now_ps) /* in turn: good enough */
            break;
    }
    *ready_ps = earliest_ps;
    return best;
}

static void send_lag(struct switch_dev *sw, uint64_t depart_ps, uint64_t now_ps)
{
    _Atomic uint64_t *worst = &sw->dev.worker->worst_lag_ps;
    uint64_t lag_ps = now_ps - depart_ps;

    if (lag_ps > atomic_load_explicit(worst, memory_order_relaxed))
        atomic_store_explicit(worst, lag_ps, memory_order_relaxed);
}

/* No credit: come back when the next one that is on its way arrives. */
static void send_await_credit(struct switch_dev *sw, uint32_t o)
{
    uint64_t next_ps = emu_tx_next_credit_ps(&sw->out[o].tx);

    if (next_ps == EMU_NEVER)
        return; /* its coming sets our bit */
    sw->crediting |= (uint64_t)1 << o;
    if (next_ps < sw->dev.next_ps)
        sw->dev.next_ps = next_ps;
}

/* Timed: what may leave by now; the time of the next that may goes to dev.next_ps. */
static uint32_t send_timed(struct switch_dev *sw, uint32_t o, uint64_t now_ps)
{
    struct switch_out *out = &sw->out[o];
    struct emu_tx *tx = &out->tx;
    uint32_t sent = 0;

    while (out->waiting && sent < SEND_BURST) {
        uint64_t depart_ps;
        uint32_t row = switch_pick(sw, o, now_ps, &depart_ps);
        struct emu_entry *entry;

        emu_tx_take_credits(tx, now_ps);
        if (!emu_tx_room(tx)) {
            emu_count(&tx->counts.stalls, 1);
            send_await_credit(sw, o);
            return sent;
        }
        if (depart_ps < tx->busy_ps)
            depart_ps = tx->busy_ps;
        if (depart_ps < tx->credit_ps)
            depart_ps = tx->credit_ps;
        if (depart_ps > now_ps) {
            if (depart_ps < sw->dev.next_ps)
                sw->dev.next_ps = depart_ps;
            break;
        }
        out->last = (uint8_t)row;
        entry = switch_dequeue(sw, row, o);
        emu_tx_stamp(tx, entry, depart_ps);
        emu_tx_send(tx, entry);
        if (row < sw->ports) /* the credit leaves with the segment's tail */
            switch_pay_row(sw, row, tx->busy_ps + sw->profile->channel_ps);
        send_lag(sw, depart_ps, now_ps);
        sent++;
    }
    if (out->waiting) /* tried again at next_ps, or at once after a full burst */
        sw->runnable |= (uint64_t)1 << o;
    if (sent == SEND_BURST)
        emu_dev_again(&sw->dev);
    return sent;
}

uint32_t switch_send(struct switch_dev *sw, uint64_t until_ps)
{
    uint64_t outs = sw->runnable & ~((uint64_t)1 << sw->ports);
    uint32_t sent = 0;

    sw->runnable &= (uint64_t)1 << sw->ports;
    for (; outs; outs &= outs - 1) {
        uint32_t o = (uint32_t)__builtin_ctzll(outs);

        if (!sw->out[o].waiting)
            continue;
        sent += sw->dev.timed ? send_timed(sw, o, until_ps) : send_raw(sw, o);
        emu_tx_flush(&sw->out[o].tx);
    }
    return sent;
}
