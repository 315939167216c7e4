/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cut_through.c - clock raw: cut-through of segments that a process sends.
 *
 * On clock raw nothing takes time. A segment that finds its outputs idle leaves in the *pass* (a
 * step of the switch) in which it arrived. If all its outputs lead to processes, its payload is
 * copied from the sender's memory to the receivers', without a buffer in between. A contribution to
 * a reduction is combined straight from the sender's memory. Routing, credits, space and counters
 * are the same as for other segments. A segment that must wait takes a buffer and a crosspoint as
 * usual.
 *
 * If the sender changes a payload while the worker copies it, the sender corrupts only its own
 * message: the worker has read the header once, and never interprets a payload.
 */
#include "switch/crosspoint/combine.h"
#include "switch/crosspoint/cut_through.h"

bool switch_is_open_else(struct switch_crosspoints *xp, uint32_t o)
{
    /* only these devices have open outputs; in all others, all outputs are in `shut` */
    struct switch_crosspoints_row *row = switch_row_of(xp);
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

/* Return the multicast buffer that all processes at @outs share. NULL: there is none. */
static struct emu_mcast_buf *mcast_buf_at(const struct switch_crosspoints *xp, emu_ports outs)
{
    struct emu_mcast_buf *mcast_buf = NULL;

    emu_each_port (o, outs) {
        const struct emu_hostif *hostif = xp->bar.out[o].tx.plug.plugged;

        if (!hostif)
            continue;
        if (!hostif->mcast_buf || (mcast_buf && hostif->mcast_buf != mcast_buf))
            return NULL;
        mcast_buf = hostif->mcast_buf;
    }
    return mcast_buf;
}

/* check once per this many refused segments whether processes still read the next block */
#define MCAST_BUF_RETRY_SEGS 64u

/*
 * The current block of @mcast_buf is full. Start the next block if no process reads it. The check
 * whether the buffer is retired must come last, because it covers processes that have detached in
 * the meantime and may still read.
 */
static __attribute__((noinline)) bool mcast_buf_next_block(struct switch_crosspoints *xp,
                                                           struct emu_mcast_buf *mcast_buf)
{
    if (mcast_buf->refused++ % MCAST_BUF_RETRY_SEGS)
        return false;
    for (uint32_t o = 0; o < xp->bar.sw.ports; o++) {
        struct emu_tx *tx = &xp->bar.out[o].tx;
        struct emu_hostif *hostif =
            tx->kind == EMU_LINK_HOSTIF
                /* E3 pairs with E4 */
                ? atomic_load_explicit(&tx->plug.hostif, memory_order_acquire)
                : NULL;

        if (hostif && hostif->mcast_buf == mcast_buf &&
            emu_hostif_reads(hostif, emu_mcast_buf_block(mcast_buf->next)))
            return false;
    }
    if (emu_mcast_buf_is_retired(mcast_buf))
        return false;
    emu_mcast_buf_next_block(mcast_buf);
    return true;
}

bool switch_mcast_buf_put(struct switch_crosspoints *xp, emu_ports outs, const struct emu_hdr *hdr,
                          const struct emu_seg *payload)
{
    struct emu_mcast_buf *mcast_buf = mcast_buf_at(xp, outs);
    uint32_t on;

    if (!mcast_buf || (emu_mcast_buf_is_full(mcast_buf) && !mcast_buf_next_block(xp, mcast_buf)))
        return false;
    on = emu_hostif_write(mcast_buf, hdr, payload);
    emu_each_port (o, outs) {
        switch_pass(xp, o);
        emu_tx_refer(&xp->bar.out[o].tx, on, hdr, payload);
    }
    return true;
}

/* How to handle segments of one kind to one destination. It is kept for the next segment. */
struct cut_through_path {
    uint32_t dst;
    uint8_t kind;
    bool copies_out; /* all outputs lead to processes, or to no device */
    bool runs;       /* cut_through_run() may take several segments */
    bool streams;    /* cut_through_stream() may take several segments */
    /* combine unit that takes the segments; SWITCH_NO_UNIT: none */
    uint32_t unit;
    emu_ports outs;                   /* empty: the struct is not filled in yet */
    const struct switch_group *group; /* for collective kinds */
};

#define SWITCH_NO_UNIT UINT32_MAX

static void cut_through_find(struct switch_crosspoints *xp, uint32_t r, const struct emu_hdr *hdr,
                             struct cut_through_path *path)
{
    struct switch_routes routes = switch_routes_of(&xp->bar, r);
    bool unicast = hdr->kind == EMU_UNICAST;
    uint32_t o;

    path->dst = hdr->dst;
    path->kind = hdr->kind;
    path->unit = SWITCH_NO_UNIT;
    path->group = unicast ? NULL : switch_group_of(&xp->bar.sw, hdr->dst);
    path->outs = unicast ? switch_unicast_outs(&xp->bar, &routes, hdr->dst)
                         : switch_collective_outs(xp, path->group, r, hdr);
    o = emu_ports_any(path->outs) ? emu_ports_first(path->outs) : 0;
    if (o >= xp->bar.sw.ports && !switch_units_stalled(xp))
        path->unit = o - xp->bar.sw.ports;
    path->runs = path->unit != SWITCH_NO_UNIT && xp->units == 1 && path->group->units &&
                 r < xp->bar.sw.ports && !xp->bar.row[r].rx.tapped;
    path->copies_out = emu_ports_any(path->outs) && !(unicast && emu_ports_several(path->outs)) &&
                       switch_copies_out(xp, path->outs);
    path->streams = unicast && path->copies_out && !xp->bar.row[r].rx.tapped;
}

/* Process one segment as @path says. False: it needs a buffer, and none is free now. */
static inline bool cut_through_pass(struct switch_crosspoints *xp, uint32_t r,
                                    const struct cut_through_path *path, struct emu_hostif *hostif,
                                    const struct emu_seg *seg, struct emu_entry *entry)
{
    bool folds = path->unit != SWITCH_NO_UNIT &&
                 !*switch_count(&xp->bar, r, xp->bar.sw.ports + path->unit);

    if (path->copies_out &&
        switch_copy_out(xp, path->outs, &entry->hdr, entry->hdr.len ? seg : NULL))
        return true;
    if (folds && switch_unit_add(xp, path->group, path->unit, r, &entry->hdr, seg))
        return true;
    if (!emu_hostif_take(hostif, seg, entry))
        return false;
    if (folds)
        switch_unit_fold(xp, path->group, path->unit, r, entry);
    else
        switch_enter(xp, r, entry);
    return true;
}

/*
 * Return how many results for several @outs may be written into the multicast buffer *@ret and sent
 * from there. 0: they cannot be sent through a shared buffer. switch_is_open() must come first,
 * because it updates which processes are attached to the outputs.
 */
static uint32_t cut_through_mcast_room(struct switch_crosspoints *xp, emu_ports outs,
                                       struct emu_mcast_buf **ret)
{
    struct emu_mcast_buf *mcast_buf;
    uint32_t room;

    emu_each_port (o, outs)
        if (!switch_is_open(xp, o))
            return 0;
    *ret = mcast_buf = mcast_buf_at(xp, outs);
    if (!mcast_buf || (emu_mcast_buf_is_full(mcast_buf) && !mcast_buf_next_block(xp, mcast_buf)))
        return 0;
    room = mcast_buf->end - mcast_buf->next;
    emu_each_port (o, outs) {
        if (!emu_tx_refers(&xp->bar.out[o].tx))
            return 0;
        if (switch_row_of(xp)->room[o] < room)
            room = switch_row_of(xp)->room[o];
    }
    return room;
}

static uint32_t cut_through_room(struct switch_crosspoints *xp, uint32_t o)
{
    return switch_is_open(xp, o) ? switch_row_of(xp)->room[o] : 0;
}

/* Send @count results, which begin at index @on of the shared multicast buffer, to all of @outs. */
static void cut_through_refer(struct switch_crosspoints *xp, emu_ports outs, uint32_t on,
                              uint32_t count)
{
    emu_each_port (o, outs) {
        switch_row_of(xp)->room[o] -= count;
        emu_tx_refer_run(&xp->bar.out[o].tx, on, count);
    }
    xp->bar.runnable |= outs; /* the pass notifies the receivers */
    emu_count(&xp->bar.sw.counts.multicasts, count);
}

/* Return the outputs of the full-size result that contribution @hdr from row @r completes. */
static emu_ports cut_through_result_outs(struct switch_crosspoints *xp, uint32_t r,
                                         const struct cut_through_path *path,
                                         const struct emu_hdr *hdr)
{
    if (hdr->dst != path->dst || hdr->kind != path->kind || !switch_fits_mcast_buf(hdr))
        return EMU_NO_PORTS;
    return switch_unit_ends(xp, path->group, r, hdr);
}

/*
 * Process up to @most contributions that complete results, beginning with @hdr and @seg. The member
 * that contributes last to one sequence number usually is the last for many consecutive numbers, so
 * the checks that do not depend on the number are made once. Returns how many; 0: nothing was done.
 */
static uint32_t cut_through_reduce(struct switch_crosspoints *xp, uint32_t r,
                                   const struct cut_through_path *path, struct emu_hostif *hostif,
                                   struct emu_hdr *hdr, const struct emu_seg *seg, uint32_t most)
{
    emu_ports outs = cut_through_result_outs(xp, r, path, hdr);
    struct emu_mcast_buf *mcast_buf = NULL; /* NULL: there is one output */
    uint32_t room, on = 0, count = 0;

    if (!emu_ports_any(outs) || switch_unit_pending(xp, path->unit) || !switch_copies_out(xp, outs))
        return 0;
    room = emu_ports_several(outs) ? cut_through_mcast_room(xp, outs, &mcast_buf)
                                   : cut_through_room(xp, emu_ports_first(outs));
    if (!room)
        return 0;
    if (mcast_buf)
        on = mcast_buf->next;
    do {
        struct emu_hdr result;
        uint32_t buf = switch_unit_end(xp, path->group, r, hdr, seg, &result);

        if (mcast_buf)
            emu_hostif_write(mcast_buf, &result, emu_pool_seg(switch_cache(xp)->pool, buf));
        else
            switch_put_out(xp, outs, &result, emu_pool_seg(switch_cache(xp)->pool, buf));
        emu_pool_drop(switch_cache(xp), buf);
        emu_hostif_pass(hostif);
    } while (++count < room && count < most && (seg = emu_hostif_peek(hostif, hdr)) &&
             emu_ports_equal(cut_through_result_outs(xp, r, path, hdr), outs));
    if (mcast_buf)
        cut_through_refer(xp, outs, on, count);
    emu_count(&xp->bar.sw.counts.combined, count);
    emu_count(&xp->bar.sw.counts.results, count);
    return count;
}

/* Combine consecutive contributions without a buffer. Returns how many; 0: nothing was done. */
static uint32_t cut_through_run(struct switch_crosspoints *xp, uint32_t r,
                                const struct cut_through_path *path, struct emu_hostif *hostif,
                                struct emu_hdr *hdr, const struct emu_seg *seg, uint32_t most)
{
    uint32_t run;

    if (*switch_count(&xp->bar, r, xp->bar.sw.ports + path->unit))
        return 0;
    run = cut_through_reduce(xp, r, path, hostif, hdr, seg, most);
    return run ? run : switch_unit_add_run(xp, path->group, r, hostif, hdr, seg, most);
}

/*
 * Send full segments of a stream to a process. They differ only in number and payload, so their
 * other fields are checked once. Returns how many; 0: nothing was done.
 */
static uint32_t cut_through_stream(struct switch_crosspoints *xp,
                                   const struct cut_through_path *path, struct emu_hostif *hostif,
                                   uint32_t most)
{
    uint32_t o = emu_ports_first(path->outs), room = cut_through_room(xp, o), run;

    run = room ? emu_tx_pass_run(&xp->bar.out[o].tx, hostif, path->dst, room < most ? room : most)
               : 0;
    if (run) {
        switch_row_of(xp)->room[o] -= run;
        xp->bar.runnable |= emu_port(o); /* the pass notifies the receiver */
    }
    return run;
}

/* Process several segments together. Returns how many; 0: the next one must be processed alone. */
static inline uint32_t cut_through_burst(struct switch_crosspoints *xp, uint32_t r,
                                         const struct cut_through_path *path,
                                         struct emu_hostif *hostif, struct emu_hdr *hdr,
                                         const struct emu_seg *seg, uint32_t most)
{
    if (path->runs)
        return cut_through_run(xp, r, path, hostif, hdr, seg, most);
    return path->streams && hdr->len == EMU_PAYLOAD_BYTES
               ? cut_through_stream(xp, path, hostif, most)
               : 0;
}

/* Publish the segments for processes at @outs now, before the pass continues. */
static void cut_through_publish(struct switch_crosspoints *xp, emu_ports outs)
{
    emu_ports published = EMU_NO_PORTS;

    emu_each_port (o, outs)
        published |= emu_port_if(o, emu_tx_publish_few(&xp->bar.out[o].tx));
    if (!emu_ports_any(published))
        return;
    emu_hostif_publish_end();
    emu_each_port (o, published)
        emu_hostif_wake(xp->bar.out[o].tx.plug.plugged);
}

uint32_t switch_cut_through(struct switch_crosspoints_row *row, uint32_t r)
{
    struct switch_crosspoints *xp = &row->raw.xp;
    struct emu_rx *rx = &xp->bar.row[r].rx;
    struct cut_through_path path = {.outs = 0};
    emu_ports ran = xp->bar.runnable;
    const struct emu_seg *seg;
    struct emu_hostif *hostif;
    struct emu_entry entry;
    uint32_t moved = 0, run;

    xp->bar.runnable = EMU_NO_PORTS; /* collects the outputs that send in this call */
    emu_rx_begin(rx);
    hostif = rx->plug.plugged;
    while (hostif && moved < SWITCH_BURST && (seg = emu_hostif_peek(hostif, &entry.hdr))) {
        if (!emu_ports_any(path.outs) || entry.hdr.dst != path.dst || entry.hdr.kind != path.kind)
            cut_through_find(xp, r, &entry.hdr, &path);
        if (__builtin_expect(rx->tapped, 0))
            emu_tap_peeked(rx, hostif->serial, hostif->up_head, &entry.hdr, seg);
        run = cut_through_burst(xp, r, &path, hostif, &entry.hdr, seg, SWITCH_BURST - moved);
        moved += run;
        if (run)
            continue;
        if (!cut_through_pass(xp, r, &path, hostif, seg, &entry))
            break;
        emu_hostif_pass(hostif);
        moved++;
    }
    if (emu_ports_any(xp->bar.runnable) && emu_worker_is_alone(xp->bar.sw.dev.worker))
        cut_through_publish(xp, xp->bar.runnable);
    xp->bar.runnable |= ran;
    if (moved)
        emu_rx_done(rx, moved);
    if (moved == SWITCH_BURST)
        emu_dev_signal(&xp->bar.sw.dev, xp->bar.sw.dev.worker, EMU_EVENT_DATA, emu_port_signal(r));
    row->settling[r].arrived += moved;
    return moved;
}
