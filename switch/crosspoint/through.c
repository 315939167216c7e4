/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * through.c - clock raw: cut-through of segments that come from a process.
 *
 * Raw has no time. A segment that finds its outputs free leaves in the pass in which it came; if
 * all of them lead to processes, its payload is copied from the sender's memory to the receivers',
 * without a buffer in between. A contribution to a reduction is combined straight from the sender's
 * memory. Routing, credits, space and counters are those of any segment; a segment that must wait
 * takes a buffer and a crosspoint as usual.
 *
 * If the sender changes its payload while we copy it, it corrupts only its own message: the header
 * was read once, and the switch never interprets a payload.
 */
#include "switch/crosspoint/combine.h"
#include "switch/crosspoint/through.h"

bool switch_is_open_else(struct switch_crosspoints *xp, uint32_t o)
{
    struct switch_crosspoints_row *row = switch_row_of(xp); /* valid if any output is not shut */
    emu_ports bit = emu_port(o);

    if (emu_ports_has(xp->shut, o))
        return false;
    if (!emu_ports_has(row->open, o)) {
        row->open |= bit;
        row->room[o] = emu_ports_any(xp->bar.out[o].waiting) ? 0 : emu_tx_room(&xp->bar.out[o].tx);
    }
    if (!row->room[o])
        xp->shut |= bit;
    return row->room[o];
}

/* The shared multicast buffer of all processes at @outs; NULL: none, or they differ. */
static struct emu_shelf *shelf_at(const struct switch_crosspoints *xp, emu_ports outs)
{
    struct emu_shelf *shelf = NULL;

    emu_each_port (o, outs) {
        const struct emu_hostif *edge = xp->bar.out[o].tx.plug.plugged;

        if (!edge)
            continue;
        if (!edge->shelf || (shelf && edge->shelf != shelf))
            return NULL;
        shelf = edge->shelf;
    }
    return shelf;
}

#define SHELF_PATIENCE 64u /* segments between two checks of a part that is still being read */

/*
 * A part of @shelf is full: start the next one, if no process reads it. A process that has gone
 * reads nothing, or the shelf is retired, which is checked last.
 */
static __attribute__((noinline)) bool shelf_turn(struct switch_crosspoints *xp,
                                                 struct emu_shelf *shelf)
{
    if (shelf->refused++ % SHELF_PATIENCE)
        return false;
    for (uint32_t o = 0; o < xp->bar.sw.ports; o++) {
        struct emu_tx *tx = &xp->bar.out[o].tx;
        struct emu_hostif *edge =
            tx->kind == EMU_LINK_EDGE
                ? atomic_load_explicit(&tx->plug.edge, memory_order_acquire) /* E3: E4 */
                : NULL;

        if (edge && edge->shelf == shelf && emu_hostif_reads(edge, emu_shelf_part(shelf->next)))
            return false;
    }
    if (emu_shelf_is_retired(shelf))
        return false;
    emu_shelf_turn(shelf);
    return true;
}

bool switch_shelve(struct switch_crosspoints *xp, emu_ports outs, const struct emu_hdr *hdr,
                   const struct emu_seg *payload)
{
    struct emu_shelf *shelf = shelf_at(xp, outs);
    uint32_t on;

    if (!shelf || (emu_shelf_is_full(shelf) && !shelf_turn(xp, shelf)))
        return false;
    on = emu_hostif_write(shelf, hdr, payload);
    emu_each_port (o, outs) {
        switch_pass(xp, o);
        emu_tx_refer(&xp->bar.out[o].tx, on, hdr, payload);
    }
    return true;
}

/* The route of a segment; the next one often has the same. */
struct through_way {
    uint32_t dst;
    uint8_t kind;
    bool copies_out;                  /* all outputs lead to processes */
    bool runs;                        /* through_run() may take several segments */
    bool streams;                     /* through_stream() may take several segments */
    uint32_t unit;                    /* combine unit that takes the segments; SWITCH_NO_UNIT */
    emu_ports outs;                   /* empty: this struct is not filled in */
    const struct switch_group *group; /* collective kinds */
};

#define SWITCH_NO_UNIT UINT32_MAX

static void through_find(struct switch_crosspoints *xp, uint32_t r, const struct emu_hdr *hdr,
                         struct through_way *way)
{
    struct switch_routes routes = switch_routes_of(&xp->bar, r);
    bool unicast = hdr->kind == EMU_UNICAST;
    uint32_t o;

    way->dst = hdr->dst;
    way->kind = hdr->kind;
    way->unit = SWITCH_NO_UNIT;
    way->group = unicast ? NULL : switch_group_of(&xp->bar.sw, hdr->dst);
    way->outs = unicast ? switch_ways(&xp->bar, &routes, hdr->dst)
                        : switch_collective_outs(xp, way->group, r, hdr);
    o = emu_ports_any(way->outs) ? emu_ports_first(way->outs) : 0;
    if (o >= xp->bar.sw.ports && !switch_units_stalled(xp))
        way->unit = o - xp->bar.sw.ports;
    way->runs = way->unit != SWITCH_NO_UNIT && xp->units == 1 && way->group->units &&
                r < xp->bar.sw.ports && !xp->bar.row[r].rx.tapped;
    way->copies_out = emu_ports_any(way->outs) && !(unicast && emu_ports_several(way->outs)) &&
                      switch_copies_out(xp, way->outs);
    way->streams = unicast && way->copies_out && !xp->bar.row[r].rx.tapped;
}

/* Process one segment by its route. False: it needs a buffer, and none is free now. */
static inline bool through_pass(struct switch_crosspoints *xp, uint32_t r,
                                const struct through_way *way, struct emu_hostif *edge,
                                const struct emu_seg *seg, struct emu_entry *entry)
{
    bool folds = way->unit != SWITCH_NO_UNIT &&
                 !*switch_count(&xp->bar, r, xp->bar.sw.ports + way->unit);

    if (way->copies_out && switch_copy_out(xp, way->outs, &entry->hdr, entry->hdr.len ? seg : NULL))
        return true;
    if (folds && switch_unit_add(xp, way->group, way->unit, r, &entry->hdr, seg))
        return true;
    if (!emu_hostif_take(edge, seg, entry))
        return false;
    if (folds)
        switch_unit_fold(xp, way->group, way->unit, r, entry);
    else
        switch_enter(xp, r, entry);
    return true;
}

/*
 * How many results for several @outs may be written to their shared multicast buffer, *@ret, and
 * sent from there? 0: not by a shared buffer. switch_is_open() comes first: it updates which
 * processes are attached to the outputs.
 */
static uint32_t through_shelves(struct switch_crosspoints *xp, emu_ports outs,
                                struct emu_shelf **ret)
{
    struct emu_shelf *shelf;
    uint32_t room;

    emu_each_port (o, outs)
        if (!switch_is_open(xp, o))
            return 0;
    *ret = shelf = shelf_at(xp, outs);
    if (!shelf || (emu_shelf_is_full(shelf) && !shelf_turn(xp, shelf)))
        return 0;
    room = shelf->end - shelf->next;
    emu_each_port (o, outs) {
        if (!emu_tx_refers(&xp->bar.out[o].tx))
            return 0;
        if (switch_row_of(xp)->room[o] < room)
            room = switch_row_of(xp)->room[o];
    }
    return room;
}

/* How many segments may be sent by output @o? */
static uint32_t through_room(struct switch_crosspoints *xp, uint32_t o)
{
    return switch_is_open(xp, o) ? switch_row_of(xp)->room[o] : 0;
}

/* Send the @count results in the shared multicast buffer from @on on to all of @outs. */
static void through_refer(struct switch_crosspoints *xp, emu_ports outs, uint32_t on,
                          uint32_t count)
{
    emu_each_port (o, outs) {
        switch_row_of(xp)->room[o] -= count;
        emu_tx_refer_run(&xp->bar.out[o].tx, on, count);
    }
    xp->bar.runnable |= outs; /* the pass notifies their receivers */
    emu_count(&xp->bar.sw.counts.multicasts, count);
}

/* The outputs of the full-size result that contribution @hdr of row @r completes; empty: none. */
static emu_ports through_ends(struct switch_crosspoints *xp, uint32_t r,
                              const struct through_way *way, const struct emu_hdr *hdr)
{
    if (hdr->dst != way->dst || hdr->kind != way->kind || !switch_shelves(hdr))
        return EMU_NO_PORTS;
    return switch_unit_ends(xp, way->group, r, hdr);
}

/*
 * The member whose contribution is the last one is mostly last for many numbers in a row, so checks
 * that do not depend on the number are made once. Process up to @most contributions that complete
 * results, from @hdr and @seg on. Returns how many; 0: nothing was done.
 */
static uint32_t through_end(struct switch_crosspoints *xp, uint32_t r,
                            const struct through_way *way, struct emu_hostif *edge,
                            struct emu_hdr *hdr, const struct emu_seg *seg, uint32_t most)
{
    emu_ports outs = through_ends(xp, r, way, hdr);
    struct emu_shelf *shelf = NULL; /* for several outputs */
    uint32_t room, on = 0, count = 0;

    if (!emu_ports_any(outs) || switch_unit_pending(xp, way->unit) || !switch_copies_out(xp, outs))
        return 0;
    room = emu_ports_several(outs) ? through_shelves(xp, outs, &shelf)
                                   : through_room(xp, emu_ports_first(outs));
    if (!room)
        return 0;
    if (shelf)
        on = shelf->next;
    do {
        struct emu_hdr result;
        uint32_t buf = switch_unit_end(xp, way->group, r, hdr, seg, &result);

        if (shelf)
            emu_hostif_write(shelf, &result, emu_pool_seg(switch_cache(xp)->pool, buf));
        else
            switch_put_out(xp, outs, &result, emu_pool_seg(switch_cache(xp)->pool, buf));
        emu_pool_drop(switch_cache(xp), buf);
        emu_hostif_pass(edge);
    } while (++count < room && count < most && (seg = emu_hostif_peek(edge, hdr)) &&
             emu_ports_equal(through_ends(xp, r, way, hdr), outs));
    if (shelf)
        through_refer(xp, outs, on, count);
    emu_count(&xp->bar.sw.counts.combined, count);
    emu_count(&xp->bar.sw.counts.results, count);
    return count;
}

/* Combine several contributions in a row without a buffer. Returns how many, or 0. */
static uint32_t through_run(struct switch_crosspoints *xp, uint32_t r,
                            const struct through_way *way, struct emu_hostif *edge,
                            struct emu_hdr *hdr, const struct emu_seg *seg, uint32_t most)
{
    uint32_t run;

    if (*switch_count(&xp->bar, r, xp->bar.sw.ports + way->unit))
        return 0;
    run = through_end(xp, r, way, edge, hdr, seg, most);
    return run ? run : switch_unit_add_run(xp, way->group, r, edge, hdr, seg, most);
}

/*
 * Send full segments of a stream to a process, which differ in number and payload only, with one
 * check of their common fields. Returns how many, or 0.
 */
static uint32_t through_stream(struct switch_crosspoints *xp, const struct through_way *way,
                               struct emu_hostif *edge, uint32_t most)
{
    uint32_t o = emu_ports_first(way->outs), room = through_room(xp, o), run;

    run = room ? emu_tx_pass_run(&xp->bar.out[o].tx, edge, way->dst, room < most ? room : most) : 0;
    if (run) {
        switch_row_of(xp)->room[o] -= run;
        xp->bar.runnable |= emu_port(o); /* the pass notifies its receiver */
    }
    return run;
}

/* Process several segments together. Returns how many; 0: the caller processes the next one. */
static inline uint32_t through_several(struct switch_crosspoints *xp, uint32_t r,
                                       const struct through_way *way, struct emu_hostif *edge,
                                       struct emu_hdr *hdr, const struct emu_seg *seg,
                                       uint32_t most)
{
    if (way->runs)
        return through_run(xp, r, way, edge, hdr, seg, most);
    return way->streams && hdr->len == EMU_PAYLOAD_BYTES ? through_stream(xp, way, edge, most) : 0;
}

/* Publish the segments for processes at @outs before the pass continues. */
static void through_show(struct switch_crosspoints *xp, emu_ports outs)
{
    emu_ports shown = EMU_NO_PORTS;

    emu_each_port (o, outs)
        shown |= emu_port_if(o, emu_tx_show_few(&xp->bar.out[o].tx));
    if (!emu_ports_any(shown))
        return;
    emu_hostif_shown();
    emu_each_port (o, shown)
        emu_hostif_wake(xp->bar.out[o].tx.plug.plugged);
}

uint32_t switch_through(struct switch_crosspoints_row *row, uint32_t r)
{
    struct switch_crosspoints *xp = &row->raw.xp;
    struct emu_rx *rx = &xp->bar.row[r].rx;
    struct through_way way = {.outs = 0};
    emu_ports ran = xp->bar.runnable;
    const struct emu_seg *seg;
    struct emu_hostif *edge;
    struct emu_entry entry;
    uint32_t moved = 0, run;

    xp->bar.runnable = EMU_NO_PORTS; /* collects the outputs that send in this call */
    emu_rx_begin(rx);
    edge = rx->plug.plugged;
    while (edge && moved < SWITCH_BURST && (seg = emu_hostif_peek(edge, &entry.hdr))) {
        if (!emu_ports_any(way.outs) || entry.hdr.dst != way.dst || entry.hdr.kind != way.kind)
            through_find(xp, r, &entry.hdr, &way);
        if (__builtin_expect(rx->tapped, 0))
            emu_tap_peeked(rx, edge->serial, edge->up_head, &entry.hdr, seg);
        run = through_several(xp, r, &way, edge, &entry.hdr, seg, SWITCH_BURST - moved);
        moved += run;
        if (run)
            continue;
        if (!through_pass(xp, r, &way, edge, seg, &entry))
            break;
        emu_hostif_pass(edge);
        moved++;
    }
    if (emu_ports_any(xp->bar.runnable) && emu_worker_is_alone(xp->bar.sw.dev.worker))
        through_show(xp, xp->bar.runnable);
    xp->bar.runnable |= ran;
    if (moved)
        emu_rx_done(rx, moved);
    if (moved == SWITCH_BURST)
        emu_dev_signal(&xp->bar.sw.dev, xp->bar.sw.dev.worker, EMU_EVENT_DATA, emu_port_signal(r));
    row->settling[r].arrived += moved;
    return moved;
}
