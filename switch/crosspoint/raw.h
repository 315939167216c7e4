/* SPDX-License-Identifier: BSD-3-Clause */
/* raw.h - clock raw: a *pass*, which is one step of a switch with crosspoints. */
#ifndef SWITCH_CROSSPOINT_RAW_H
#define SWITCH_CROSSPOINT_RAW_H

#include "switch/crosspoint/combine.h"
#include "switch/crosspoint/send.h"

/* The parts of a pass that differ between kinds of switches. */
struct switch_pass {
    void (*begin)(struct switch_crosspoints_raw *raw); /* NULL: nothing to do */
    /* takes the arrivals of row @r */
    uint32_t (*take)(struct switch_crosspoints_raw *raw, uint32_t r);
    /* see struct switch_access; NULL: segments leave in bursts (send_all(), send_shares()) */
    switch_dequeue_fn dequeue;
    /* moves segments out of the inputs' buffers; NULL: there are none */
    void (*advance)(struct switch_crosspoints_raw *raw);
    /* returns how many credits row @r owes */
    uint32_t (*settle)(struct switch_crosspoints_raw *raw, uint32_t r);
};

/*
 * Take returned credits, and send the segments that wait for them, before new arrivals can get in
 * front of them. This makes a hop 20 % faster on a switch of 16 ports. Returns how many were sent.
 */
static inline __attribute__((always_inline)) uint32_t raw_take_credits(
    struct switch_crosspoints_raw *raw, switch_dequeue_fn dequeue)
{
    struct switch_crosspoints *xp = &raw->xp;
    emu_ports ports = switch_take(&xp->bar.sw, EMU_EVENT_CREDIT);
    uint32_t sent = 0;

    emu_each_port (o, ports) {
        emu_tx_take_credits(&xp->bar.out[o].tx);
        if (!emu_ports_any(xp->bar.out[o].waiting))
            continue;
        xp->bar.runnable |= emu_port(o);
        if (emu_ports_has(xp->bar.sends, o))
            sent += send_port(raw, o, dequeue);
    }
    return sent;
}

/* Take the arrivals of row @r. Always inlined with constant @admit. Returns how many there were. */
static inline __attribute__((always_inline)) uint32_t raw_take_port(
    struct switch_crosspoints *xp, uint32_t r,
    void (*admit)(struct switch_crosspoints *xp, uint32_t r, const struct emu_entry *entry))
{
    struct emu_rx *rx = &xp->bar.row[r].rx;
    const struct emu_entry *entry;
    uint32_t moved = 0;

    emu_rx_begin(rx);
    while (moved < SWITCH_BURST && (entry = emu_rx_front(rx, 0))) {
        admit(xp, r, entry);
        emu_rx_skip(rx);
        moved++;
    }
    if (moved)
        emu_rx_done(rx, moved);
    if (moved == SWITCH_BURST)
        switch_more(&xp->bar.sw, r);
    return moved;
}

static inline __attribute__((always_inline)) uint32_t raw_take_segments(
    struct switch_crosspoints_raw *raw, const struct switch_pass *pass)
{
    struct switch_dev *sw = &raw->xp.bar.sw;
    emu_ports ports = switch_take(sw, EMU_EVENT_DATA) | sw->arriving;
    uint32_t moved = 0;

    sw->arriving = EMU_NO_PORTS;
    raw->touched |= ports;
    emu_each_port (r, ports) {
        emu_ports behind = ports & ~emu_ports_below(r + 1);

        if (emu_ports_any(behind)) /* prefetch the next row: a hop is 2 % faster */
            emu_rx_fetch_burst(&raw->xp.bar.row[emu_ports_first(behind)].rx);
        moved += pass->take(raw, r);
    }
    return moved;
}

/* Return credits to senders, in one batch per row and pass. */
static inline __attribute__((always_inline)) void raw_return_credits(
    struct switch_crosspoints_raw *raw, const struct switch_pass *pass)
{
    emu_ports rows = raw->touched & emu_ports_below(raw->xp.bar.sw.ports);

    raw->touched = EMU_NO_PORTS;
    emu_each_port (r, rows) {
        if (pass->settle(raw, r))
            emu_rx_pay(&raw->xp.bar.row[r].rx, &raw->xp.bar.sw.dev, 0);
    }
}

static inline bool raw_pending(const struct switch_crosspoints *xp)
{
    for (uint32_t u = 0; u < xp->units; u++)
        if (switch_unit_pending(xp, u))
            return true;
    return false;
}

/* Do one pass. Always inlined with constant @pass, so that there are no indirect calls. */
static inline __attribute__((always_inline)) uint32_t switch_pass_run(
    struct switch_crosspoints_raw *raw, const struct switch_pass *pass)
{
    struct switch_crosspoints *xp = &raw->xp;
    uint32_t moved;

    if (pass->begin)
        pass->begin(raw);
    moved = raw_take_credits(raw, pass->dequeue);
    moved += raw_take_segments(raw, pass);
    moved += switch_combine(raw);
    moved += switch_send(raw, pass->dequeue);
    if (moved && raw_pending(xp))
        emu_dev_again(&xp->bar.sw.dev); /* sending may have made space for results */
    if (pass->advance)
        pass->advance(raw);
    raw_return_credits(raw, pass);
    return moved;
}

/* settle() of a kind that counts rx.owed at each arrival and departure. */
static inline uint32_t switch_row_owed(struct switch_crosspoints_raw *raw, uint32_t r)
{
    return raw->xp.bar.row[r].rx.owed;
}

#endif
