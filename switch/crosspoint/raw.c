/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * raw.c - clock raw: a step of a switch with the row guarantee, by which a credit promises space in
 * every crosspoint of the receiving row (crosspoint.h).
 *
 * Source: output-queued routers §2. docs/ARCHITECTURE.md, section 4, explains the two possible
 * readings of the credit counter in this paper.
 */
#include "switch/crosspoint/raw.h"

#include "switch/crosspoint/admit.h"

static inline struct switch_crosspoints_row *row_of(struct switch_crosspoints_raw *raw)
{
    return switch_row_of(&raw->xp);
}

/* Forget which outputs are *open* (cut_through.h), because each pass checks that again. */
static inline void row_begin(struct switch_crosspoints_raw *raw)
{
    row_of(raw)->open = EMU_NO_PORTS;
    row_of(raw)->plain = EMU_NO_PORTS;
    raw->xp.shut = ~raw->xp.bar.sends;
}

/*
 * Do as switch_enter_put(), but without checking outputs in @plain, which are known to be open.
 * @plain is a copy of the field of that name in a register. This saves 4 % of the time of a hop.
 */
static inline __attribute__((always_inline)) void row_put(struct switch_crosspoints *xp, uint32_t r,
                                                          uint32_t o, emu_ports *plain,
                                                          const struct emu_entry *entry)
{
    struct emu_tx *tx = &xp->bar.out[o].tx;

    if (emu_ports_has(*plain, o)) {
        if (__builtin_expect(!emu_tx_send_plain(tx, entry), 0))
            *plain &= ~emu_port(o);
    } else if (switch_passes(xp, o)) {
        emu_tx_send(tx, entry);
        *plain |= emu_port_if(o, tx->shape == EMU_LINK_LOCAL && tx->credits);
    } else {
        switch_put_raw(xp, r, o, entry, 0);
    }
}

static inline __attribute__((always_inline)) void row_admit(struct switch_crosspoints *xp,
                                                            uint32_t r,
                                                            const struct switch_routes *routes,
                                                            emu_ports *plain,
                                                            const struct emu_entry *entry)
{
    emu_ports outs = switch_unicast_outs(&xp->bar, routes, entry->hdr.dst);
    uint32_t o;

    if (!emu_ports_any(outs)) {
        switch_drop(xp, NULL, entry);
        return;
    }
    o = emu_ports_several(outs) ? route_choose(&xp->bar.sw, outs, xp->bar.light)
                                : emu_ports_first(outs);
    row_put(xp, r, o, plain, entry);
}

/*
 * Take the segments that have arrived on the cable into row @r. Each took a credit, so there is
 * space for it. Returns how many.
 */
static inline uint32_t row_take_cable(struct switch_crosspoints *xp, uint32_t r)
{
    struct switch_crosspoints_row *row = switch_row_of(xp);
    struct switch_routes routes = switch_routes_of(&xp->bar, r);
    struct emu_rx *rx = &xp->bar.row[r].rx;
    struct emu_ring_end data = rx->data; /* a local copy, to keep it in registers */
    uint32_t end = data.at + SWITCH_BURST, moved;
    emu_ports plain = row->plain;
    const struct emu_entry *entry;

    while (data.at != end && (entry = emu_ring_front(&data))) {
        if (__builtin_expect(entry->hdr.kind == EMU_UNICAST, 1)) {
            row_admit(xp, r, &routes, &plain, entry);
        } else {
            switch_enter(xp, r, entry);
            plain = EMU_NO_PORTS; /* the copies may have used up the space of any output */
        }
        emu_ring_skip(&data);
    }
    row->plain = plain;
    moved = data.at - rx->data.at;
    rx->data.at = data.at;
    emu_rx_done(rx, moved);
    if (moved == SWITCH_BURST)
        switch_more(&xp->bar.sw, r);
    return moved;
}

static inline uint32_t row_take(struct switch_crosspoints_raw *raw, uint32_t r)
{
    uint32_t moved;

    if (raw->xp.bar.row[r].rx.kind == EMU_LINK_HOSTIF) {
        /* the process's segments may use up the space of any output */
        row_of(raw)->plain = EMU_NO_PORTS;
        return switch_cut_through(row_of(raw), r);
    }
    moved = row_take_cable(&raw->xp, r);
    row_of(raw)->settling[r].arrived += moved;
    return moved;
}

/*
 * Return the number of segments in a row's fullest crosspoint. @width is a multiple of 16, and
 * unused counts are 0, so the compiler can vectorize the loop: 22 instructions instead of 110.
 */
static inline uint8_t row_fullest(const uint8_t *count, uint32_t width)
{
    uint8_t fullest = 0;

    for (uint32_t i = 0; i < (width & ~15u); i++)
        fullest = fullest > count[i] ? fullest : count[i];
    return fullest;
}

/* Settle row @r: update and return the number of credits that it owes (struct switch_settling). */
static inline uint32_t row_settle(struct switch_crosspoints_raw *raw, uint32_t r)
{
    const struct switch_crossbar *bar = &raw->xp.bar;
    struct switch_settling *settling = &row_of(raw)->settling[r];
    uint8_t fullest = row_fullest(switch_count(bar, r, 0), bar->width);

    bar->row[r].rx.owed += settling->arrived + settling->fullest - fullest;
    settling->fullest = fullest;
    settling->arrived = 0;
    return bar->row[r].rx.owed;
}

uint32_t switch_step_row_raw(struct emu_dev *dev, uint64_t until_ps)
{
    static const struct switch_pass row_pass = {.begin = row_begin,
                                                .take = row_take,
                                                .settle = row_settle};

    (void)until_ps;
    return switch_pass_run((struct switch_crosspoints_raw *)dev, &row_pass);
}
