/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fifo.c - a FIFO at each input in front of small crosspoints. A credit is a slot in the FIFO.
 *
 * With buffers=input_xpoint, this is the router with an input flow-control buffer that OQ, the
 * paper on output-queued routers, leaves for later (§5). The buffer covers the cable's round trip,
 * so a crosspoint needs to hold only one or two segments. An arriving segment enters its input's
 * FIFO. The first segment of the FIFO moves to its crosspoints as they have space. Each copy of a
 * multicast moves independently, once per output. When the last copy has moved, the slot is free
 * and the credit returns. The segments behind the first one wait for it: head-of-line blocking is
 * the price of this design. Modelling choice: moving a segment to its crosspoints takes no time. An
 * output-queued crossbar must be faster inside than its links anyway. At that speed it can move a
 * whole FIFO when there is space.
 *
 * buffers=input is the router with which OQ compares its own: input/slots.c.
 *
 * Neither router can deadlock in a network whose routes go up and then down, not even with
 * multicasts. There are four reasons. (1) The cables can be ordered so that every segment takes
 * them in that order: first the cables that lead upwards, by level, then those that lead downwards.
 * This holds for a multicast, too, because its tree has one top switch, and a segment that came
 * down never goes up again. (2) A segment waits at an input only for resources later in the order:
 * its crosspoints, or output slots, which in turn wait for credits of the next cables. Segments
 * behind it in the FIFO wait for the same. (3) A copy takes one whole slot of the next input at a
 * time, and holds nothing else while it waits for another slot. So there is no hold and wait among
 * the outputs of a switch, and no copy waits for the other copies of its segment. (A multicast
 * without fanout splitting claims its outputs one by one, and holds some while it waits for others.
 * It could deadlock.) (4) The last cables lead to adapters, which take everything. Combine units
 * take everything, too: their results wait in the unit's own list. So, by induction from the end of
 * the order backwards, every first segment moves at some time. All this needs (1): routes that go
 * up again after going down, or trees with two tops, could deadlock, and nothing here would detect
 * it.
 */
#include "switch/input/fifo.h"

#include "switch/crosspoint/raw.h"
#include "switch/crosspoint/timed.h"
#include "switch/policy/policy.h"

static bool fifo_fits(const struct emu_profile *profile)
{
    return !emu_profile_acknowledged(profile) && profile->buffers == EMU_BUFFERS_INPUT_XPOINT;
}

/* Functions that depend on the clock. Always a constant, so that there are no indirect calls. */
struct fifo_clock {
    switch_put_fn put;
    /* accounts for the segment in @slot, which left its FIFO at @at_ps; may be NULL */
    void (*left)(struct switch_crosspoints *xp, uint32_t slot, uint64_t at_ps);
};

/* Return the subset of @outs whose crosspoints in row @r have space. */
static emu_ports fifo_room(const struct switch_crosspoints *xp, uint32_t r, emu_ports outs)
{
    emu_ports room = EMU_NO_PORTS;

    emu_each_port (o, outs)
        room |= emu_port_if(o, *switch_count(&xp->bar, r, o) < xp->xpoint_slots);
    return room;
}

/* Move the first segment of input @r's FIFO to its crosspoints. Returns its remaining outputs. */
static inline __attribute__((always_inline)) emu_ports fifo_move(struct switch_crosspoints *xp,
                                                                 struct switch_inputs *in,
                                                                 uint32_t r, uint64_t at_ps,
                                                                 switch_put_fn put)
{
    uint32_t slot = in->fifo[r].list.first;
    emu_ports outs = in->outs[slot];
    emu_ports room = fifo_room(xp, r, outs);
    struct emu_entry entry = xp->bar.store.slot[slot];
    uint32_t o;

    entry.time_ps = at_ps;
    if (entry.hdr.kind == EMU_UNICAST) { /* the output is chosen as late as possible */
        if (!emu_ports_any(room))
            return outs;
        o = emu_ports_several(room) ? route_choose(&xp->bar.sw, room, xp->bar.light)
                                    : emu_ports_first(room);
        put(xp, r, o, &entry, 0);
        return EMU_NO_PORTS;
    }
    emu_each_port (out, room)
        put(xp, r, out, &entry, 0);
    return in->outs[slot] = outs & ~room;
}

/*
 * Move segments from the FIFO of input @r to crosspoints; on timed clocks, at @at_ps. Returns
 * whether any segment moved. Always inlined with constant @clock.
 */
static inline __attribute__((always_inline)) bool fifo_advance(struct switch_crosspoints *xp,
                                                               struct switch_fifos *fifos,
                                                               uint32_t r, uint64_t at_ps,
                                                               const struct fifo_clock *clock)
{
    struct switch_fifo *fifo = &fifos->in.fifo[r];
    emu_ports ready = xp->bar.runnable;
    bool moved = false;

    xp->bar.runnable = EMU_NO_PORTS;
    while (fifo->queued) {
        uint64_t at = switch_no_sooner(at_ps, &xp->bar.store.slot[fifo->list.first]);
        uint32_t slot;

        if (emu_ports_any(fifo_move(xp, &fifos->in, r, at, clock->put)))
            break;
        slot = switch_inputs_leave(&fifos->in, &xp->bar, r);
        if (clock->left)
            clock->left(xp, slot, at);
        moved = true;
    }
    moved |= emu_ports_any(xp->bar.runnable);
    xp->bar.runnable |= ready;
    fifos->nonempty = (fifos->nonempty & ~emu_port(r)) | emu_port_if(r, fifo->queued != 0);
    return moved;
}

/* Let a segment enter the FIFO of input @r. False: it was dropped. */
static inline bool fifo_enter(struct switch_crosspoints *xp, struct switch_fifos *fifos, uint32_t r,
                              const struct emu_entry *entry)
{
    struct switch_dev *sw = &xp->bar.sw;
    struct switch_routes routes = switch_routes_of(&xp->bar, r);
    const struct emu_hdr *hdr = &entry->hdr;
    emu_ports outs = hdr->kind == EMU_UNICAST
                         ? switch_unicast_outs(&xp->bar, &routes, hdr->dst)
                         : switch_collective_outs(xp, switch_group_of(sw, hdr->dst), r, hdr);

    if (!emu_ports_any(outs)) {
        switch_inputs_drop(&xp->bar, r, entry);
        return false;
    }
    switch_inputs_append(&fifos->in, &xp->bar, r, outs, entry);
    return true;
}

/* --- clock raw ---------------------------------------------------------------------- */

static inline struct switch_fifos *raw_fifos(struct switch_crosspoints *xp)
{
    return &((struct switch_fifo_raw *)xp)->fifos;
}

static bool raw_move(struct switch_crosspoints *xp, uint32_t r)
{
    static const struct fifo_clock raw = {.put = switch_put_raw};

    return fifo_advance(xp, raw_fifos(xp), r, 0, &raw);
}

static inline void raw_admit(struct switch_crosspoints *xp, uint32_t r,
                             const struct emu_entry *entry)
{
    if (fifo_enter(xp, raw_fifos(xp), r, entry) && raw_fifos(xp)->in.fifo[r].queued == 1)
        raw_move(xp, r);
}

static inline uint32_t raw_take(struct switch_crosspoints_raw *raw, uint32_t r)
{
    return raw_take_port(&raw->xp, r, raw_admit);
}

/* Move segments out of all FIFOs, after departures have made space. */
static inline void raw_advance(struct switch_crosspoints_raw *raw)
{
    struct switch_fifos *fifos = raw_fifos(&raw->xp);
    bool moved = false;

    raw->touched |= fifos->nonempty;
    emu_each_port (r, fifos->nonempty)
        moved |= raw_move(&raw->xp, r);
    if (moved)
        emu_dev_again(&raw->xp.bar.sw.dev);
}

static uint32_t fifo_step_raw(struct emu_dev *dev, uint64_t until_ps)
{
    static const struct switch_pass fifo_pass = {.take = raw_take,
                                                 .advance = raw_advance,
                                                 .settle = switch_row_owed};

    (void)until_ps;
    return switch_pass_run((struct switch_crosspoints_raw *)dev, &fifo_pass);
}

/* --- timed clocks ------------------------------------------------------------------- */

static inline struct switch_fifos *timed_fifos(struct switch_crosspoints *xp)
{
    return &((struct switch_fifo_timed *)xp)->fifos;
}

static inline void timed_leave(struct switch_crosspoints *xp, uint32_t slot, uint64_t at_ps)
{
    switch_little_leave(&xp->bar.little, &xp->bar.store.slot[slot], at_ps);
}

static bool timed_move(struct switch_crosspoints *xp, uint32_t r, uint64_t at_ps)
{
    static const struct fifo_clock timed = {.put = switch_put_timed, .left = timed_leave};

    return fifo_advance(xp, timed_fifos(xp), r, at_ps, &timed);
}

static inline void timed_admit(struct switch_crosspoints *xp, uint32_t r,
                               const struct emu_entry *entry)
{
    switch_little_until(&xp->bar.little, entry->time_ps);
    if (!fifo_enter(xp, timed_fifos(xp), r, entry))
        return;
    xp->bar.little.held++;
    if (timed_fifos(xp)->in.fifo[r].queued == 1)
        timed_move(xp, r, entry->time_ps);
}

static inline bool timed_advance(struct switch_crosspoints *xp, uint32_t r, uint64_t at_ps)
{
    if (!emu_ports_has(timed_fifos(xp)->nonempty, r))
        return false;
    timed_move(xp, r, at_ps);
    return true;
}

static uint32_t fifo_step_timed(struct emu_dev *dev, uint64_t until_ps)
{
    static const struct switch_timed fifo = {.admit = timed_admit,
                                             .dequeue = switch_dequeue_timed,
                                             .advance = timed_advance};

    return switch_timed_run(dev, until_ps, &fifo);
}

/* --- the kind ----------------------------------------------------------------------- */

static uint32_t fifo_segments(uint32_t ports, const struct emu_profile *profile)
{
    return switch_crosspoints_segments(ports, profile) + ports * profile->input_slots;
}

static size_t fifo_bytes(uint32_t ports, const struct emu_profile *profile)
{
    uint32_t slots = fifo_segments(ports, profile);

    return switch_crosspoints_bytes(ports, slots, profile) + sizeof(struct switch_fifos) +
           switch_inputs_bytes(ports, slots);
}

static void fifo_destroy(struct switch_dev *sw)
{
    switch_inputs_free(&switch_fifos_of(sw)->in);
    switch_crosspoints_free(switch_crosspoints_of(sw));
}

static bool fifo_init(struct switch_dev *sw)
{
    uint32_t slots = fifo_segments(sw->ports, sw->profile);

    return switch_inputs_init(&switch_fifos_of(sw)->in, sw->ports, slots) &&
           switch_crosspoints_init(switch_crosspoints_of(sw), slots,
                                   sw->dev.timed ? &switch_access_timed : &switch_access_raw);
}

static uint32_t fifo_bufs(struct switch_dev *sw)
{
    return switch_crossbar_bufs(sw) +
           switch_inputs_bufs(&switch_fifos_of(sw)->in, switch_crossbar_of(sw));
}

static bool fifo_holds(struct switch_dev *sw, uint32_t id)
{
    const struct switch_crossbar *bar = switch_crossbar_of(sw);

    for (uint32_t r = 0; r < sw->ports; r++) {
        const struct switch_fifo *fifo = &switch_fifos_of(sw)->in.fifo[r];

        if (switch_store_holds(&bar->store, &fifo->list, fifo->queued, id))
            return true;
    }
    return switch_crossbar_holds(sw, id);
}

static const char *fifo_check(struct switch_dev *sw, uint32_t r, uint64_t now_ps, uint64_t *held,
                              uint64_t *waited_ps)
{
    struct switch_crosspoints *xp = switch_crosspoints_of(sw);
    const struct switch_fifos *fifos = switch_fifos_of(sw);
    const char *wrong = switch_crosspoints_check_row(xp, r);
    const struct switch_fifo *fifo;

    if (wrong || r >= sw->ports)
        return wrong;
    fifo = &fifos->in.fifo[r];
    wrong = switch_inputs_check(&fifos->in, &xp->bar, r, now_ps, held, waited_ps);
    if (!wrong && fifo->queued &&
        (!emu_ports_has(fifos->nonempty, r) ||
         emu_ports_any(fifo_room(xp, r, fifos->in.outs[fifo->list.first]))))
        wrong = "a fifo with segments is not marked as such, or its crosspoints have space";
    return wrong ? wrong : switch_crossbar_check_cable(&xp->bar, r, fifo->queued);
}

const struct switch_kind switch_fifo_kind = {
    .raw = {sizeof(struct switch_fifo_raw), fifo_step_raw},
    .timed = {sizeof(struct switch_fifo_timed), fifo_step_timed},
    .fits = fifo_fits,
    .segments = fifo_segments,
    .bytes = fifo_bytes,
    .init = fifo_init,
    .destroy = fifo_destroy,
    .check_row = fifo_check,
    .bufs = fifo_bufs,
    .holds = fifo_holds,
    SWITCH_CROSSPOINTS_KIND,
};
