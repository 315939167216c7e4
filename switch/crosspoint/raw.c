/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * raw.c - clock raw: a pass of a switch with crosspoints. A timed clock has timed.c instead.
 */
#include "switch/crosspoint/combine.h"
#include "switch/crosspoint/through.h"

/* Credits came back at these ports: their outputs may send. */
static void raw_take_credits(struct switch_crosspoints *xp)
{
    uint64_t ports = emu_dev_take(&xp->bar.sw.dev, EMU_EVENT_CREDIT);

    emu_each_bit (o, ports) {
        emu_tx_take_credits(&xp->bar.out[o].tx);
        if (xp->bar.out[o].waiting)
            xp->bar.runnable |= emu_bit(o);
    }
}

static uint32_t raw_take_port(struct switch_crosspoints *xp, uint32_t r)
{
    struct emu_rx *rx = &xp->bar.row[r].rx;
    const struct emu_entry *entry;
    uint32_t moved = 0;

    emu_rx_begin(rx);
    while (moved < SWITCH_BURST && (entry = emu_rx_front(rx, 0))) {
        xp->admit(xp, r, entry);
        emu_rx_skip(rx);
        moved++;
    }
    if (moved)
        emu_rx_done(rx, moved);
    if (moved == SWITCH_BURST)
        switch_more(&xp->bar.sw, r);
    return moved;
}

static uint32_t raw_take_segments(struct switch_crosspoints *xp)
{
    uint64_t ports = emu_dev_take(&xp->bar.sw.dev, EMU_EVENT_DATA) | xp->bar.sw.arriving;
    uint32_t moved = 0;

    xp->bar.sw.arriving = 0;
    emu_each_bit (r, ports) {
        bool edge = xp->through && xp->bar.row[r].rx.kind == EMU_LINK_EDGE;

        moved += edge ? switch_through(xp, r) : raw_take_port(xp, r);
    }
    return moved;
}

/* One batch of credits a row and pass. */
static void raw_return_credits(struct switch_crosspoints *xp)
{
    uint64_t rows = xp->touched & emu_bits_below(xp->bar.sw.ports);

    xp->touched = 0;
    emu_each_bit (r, rows) {
        if (switch_row_settle(xp, r))
            emu_rx_pay(&xp->bar.row[r].rx, 0);
    }
}

static bool raw_pending(const struct switch_crosspoints *xp)
{
    for (uint32_t u = 0; u < xp->units; u++)
        if (switch_unit_pending(xp, u))
            return true;
    return false;
}

/* Inputs with a buffer of their own: what waits in it, after others have left. */
static void raw_advance(struct switch_crosspoints *xp)
{
    bool moved = false;

    emu_each_bit (r, xp->backed & emu_bits_below(xp->bar.sw.ports))
        moved |= xp->advance(xp, r, 0);
    if (moved)
        emu_dev_again(&xp->bar.sw.dev);
}

/* One pass: bounded, never blocks or allocates. Returns segments moved. */
uint32_t switch_step_raw(struct emu_dev *dev, uint64_t until_ps)
{
    struct switch_crosspoints *xp = (struct switch_crosspoints *)dev;
    uint32_t moved;

    (void)until_ps;
    xp->open = 0;
    xp->shut = xp->through ? ~emu_bits_below(xp->bar.sw.ports) : UINT64_MAX;
    raw_take_credits(xp);          /* refill before spending */
    moved = raw_take_segments(xp); /* links -> crosspoints */
    moved += switch_combine(xp);   /* contributions fold into one */
    moved += switch_send(xp);      /* arbitrate, spend credit */
    if (moved && raw_pending(xp))
        emu_dev_again(dev); /* sending may have made room for results */
    raw_advance(xp);
    raw_return_credits(xp); /* only for room truly free */
    return moved;
}
