/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fifo.c - inputs with a buffer of their own: a credit is a place in it.
 *
 * buffers=input_xpoint is the router with an input flow-control buffer that
 * the paper leaves for later (§5): the buffer covers the cable's round trip, so
 * a crosspoint need hold only a segment or two. An arriving segment enters its
 * input's fifo; the first one moves on to its crosspoints as they have room, a
 * multicast's copies each on its own and at most once to each output; when the
 * last has moved, its place is free and the credit goes back. What is behind
 * the first waits for it (head-of-line blocking), and that is the price of it.
 * Modelling choice: moving takes no time; the crossbar's internal speed-up that
 * output queuing needs anyway lets a whole fifo through once there is room.
 *
 * buffers=input is the router that the paper compares with: input/slots.c.
 *
 * Neither can deadlock in a network whose routes go up and then down, nor can
 * their multicasts, for four reasons. (1) Cables can be put in an order such
 * that every segment takes them in that order: first the ways up, by level,
 * then the ways down. That holds for a multicast too: its tree spans one top
 * switch, and what came down never goes up again. (2) A segment waits at an
 * input only for what comes later in the order: its crosspoints, or output
 * slots, and these for credits of the next cables. Those behind it in the fifo
 * wait for the same. (3) A copy takes one whole place of the next input at a
 * time and holds nothing else while it waits for another: there is no hold and
 * wait among the outputs of a switch, and no copy waits for its siblings. (That
 * is what forbids "no fanout splitting" by claiming outputs one by one.) (4)
 * The last cables lead to adapters, which take everything, and combine units
 * are sinks: results wait in the unit's own list, and come from there. So, from
 * the end of the order backwards, every first segment gets on at some time.
 * What this needs is (1): routes that turn up again after going down, or trees
 * with two tops, would bring deadlock back, and nothing here would break it.
 */
#include "switch/input/fifo.h"

#include <errno.h>

static bool fifo_fits(const struct emu_profile *profile)
{
    return !emu_profile_acknowledged(profile) && profile->buffers == EMU_BUFFERS_INPUT_XPOINT;
}

/* Of @outs, those whose crosspoint of row @r has room. */
static uint64_t fifo_room(const struct switch_crosspoints *xp, uint32_t r, uint64_t outs)
{
    uint64_t room = 0;

    emu_each_bit(o, outs)
        room |= (uint64_t)(*switch_count(&xp->bar, r, o) < xp->xpoint_slots) << o;
    return room;
}

/* The first segment of the fifo of @r, as of @at_ps: to its crosspoints. Returns those that it still goes to. */
static uint64_t fifo_move(struct switch_fifos *sw, uint32_t r, uint64_t at_ps)
{
    struct switch_crosspoints *xp = &sw->xp;
    uint32_t slot = sw->in.fifo[r].list.first;
    uint64_t outs = sw->in.outs[slot];
    uint64_t room = fifo_room(xp, r, outs);
    struct emu_entry entry = xp->bar.store.slot[slot];

    entry.time_ps = at_ps;
    if (entry.hdr.kind == EMU_UNICAST) { /* to one of them: the choice is made as late as can be */
        if (!room)
            return outs;
        switch_put(xp, r, emu_bits_several(room) ? switch_choose(&xp->bar, room) : emu_bits_first(room), &entry);
        return 0;
    }
    emu_each_bit(o, room)
        switch_put(xp, r, o, &entry);
    return sw->in.outs[slot] = outs & ~room;
}

/* The first segment of the fifo of @r has moved on, as of @at_ps. */
static void fifo_leave(struct switch_fifos *sw, uint32_t r, uint64_t at_ps)
{
    struct switch_crosspoints *xp = &sw->xp;
    uint32_t slot = switch_inputs_leave(&sw->in, &xp->bar, r);

    xp->touched |= emu_bit(r);
    if (xp->timing)
        switch_little_leave(&xp->timing->little, &xp->bar.store.slot[slot], at_ps);
}

static bool fifo_advance(struct switch_crosspoints *xp, uint32_t r, uint64_t at_ps)
{
    struct switch_fifos *sw = switch_fifos_of(xp);
    struct switch_fifo *fifo = &sw->in.fifo[r];
    uint64_t ready = xp->bar.runnable;
    bool moved = false;

    xp->bar.runnable = 0;
    while (fifo->queued) {
        uint64_t at = switch_no_sooner(at_ps, &xp->bar.store.slot[fifo->list.first]);

        if (fifo_move(sw, r, at))
            break;
        fifo_leave(sw, r, at);
        moved = true;
    }
    moved |= xp->bar.runnable != 0;
    xp->bar.runnable |= ready;
    xp->backed = (xp->backed & ~emu_bit(r)) | (uint64_t)(fifo->queued != 0) << r;
    return moved;
}

static void fifo_admit(struct switch_crosspoints *xp, uint32_t r, const struct emu_entry *entry)
{
    struct switch_dev *base = &xp->bar.sw;
    struct switch_fifos *sw = switch_fifos_of(xp);
    const struct emu_hdr *hdr = &entry->hdr;
    uint64_t outs = hdr->kind == EMU_UNICAST
                        ? topo_route_ports(base->route, hdr->dst)
                        : switch_collective_outs(xp, switch_group_of(base, hdr->dst), r, hdr);

    if (!outs) {
        switch_inputs_drop(&xp->bar, r, entry);
        xp->touched |= emu_bit(r);
        return;
    }
    switch_inputs_append(&sw->in, &xp->bar, r, outs, entry);
    if (xp->timing)
        xp->timing->little.held++;
    if (sw->in.fifo[r].queued == 1)
        fifo_advance(xp, r, entry->time_ps);
}

/* --- the kind ------------------------------------------------------------------------------------ */

static uint32_t fifo_segments(uint32_t ports, const struct emu_profile *profile)
{
    return switch_crosspoints_segments(ports, profile) + ports * profile->input_slots;
}

static size_t fifo_bytes(uint32_t ports, const struct emu_profile *profile)
{
    uint32_t slots = fifo_segments(ports, profile);

    return sizeof(struct switch_fifos) + switch_crosspoints_bytes(ports, slots, profile) +
           switch_inputs_bytes(ports, slots);
}

static void fifo_destroy(struct switch_dev *sw)
{
    switch_inputs_free(&switch_fifos_of(switch_crosspoints_of(sw))->in);
    switch_crosspoints_free(switch_crosspoints_of(sw));
    switch_base_destroy(sw);
}

static int fifo_create(struct switch_dev **ret, const struct switch_plan *plan)
{
    uint32_t slots = fifo_segments(plan->ports, plan->profile);
    struct switch_fifos *sw;

    if (!switch_crosspoints_sane(plan->ports, plan->profile))
        return -EINVAL;
    sw = switch_base_create(&switch_fifo_kind, plan, sizeof *sw);
    if (!sw)
        return -ENOMEM;
    sw->xp.admit = fifo_admit;
    sw->xp.advance = fifo_advance;
    if (switch_crosspoints_init(&sw->xp, plan->worker->clock.mode, slots) ||
        !switch_inputs_init(&sw->in, plan->ports, slots)) {
        fifo_destroy(&sw->xp.bar.sw);
        return -ENOMEM;
    }
    switch_crosspoints_start(&sw->xp, plan->worker);
    *ret = &sw->xp.bar.sw;
    return 0;
}

static uint32_t fifo_bufs(struct switch_dev *base)
{
    const struct switch_fifos *sw = switch_fifos_of(switch_crosspoints_of(base));

    return switch_crossbar_bufs(&sw->xp.bar) + switch_inputs_bufs(&sw->in, &sw->xp.bar);
}

static const char *check_input(const struct switch_fifos *sw, uint32_t r, uint64_t now_ps, uint64_t *held,
                               uint64_t *waited_ps)
{
    const struct switch_crosspoints *xp = &sw->xp;
    const struct switch_fifo *fifo = &sw->in.fifo[r];
    const char *wrong = switch_inputs_check(&sw->in, &xp->bar, r, now_ps, held, waited_ps);

    if (!wrong && fifo->queued &&
        (!(xp->backed >> r & 1) || fifo_room(xp, r, sw->in.outs[fifo->list.first])))
        wrong = "a fifo waits though there is room";
    return wrong ? wrong : switch_crossbar_check_cable(&xp->bar, r, fifo->queued);
}

static const char *fifo_check(struct switch_dev *base, uint64_t now_ps)
{
    const struct switch_fifos *sw = switch_fifos_of(switch_crosspoints_of(base));
    uint64_t held = 0, waited_ps = 0;

    for (uint32_t r = 0; r < sw->xp.bar.rows; r++) {
        const char *wrong = switch_crosspoints_check(&sw->xp, r, now_ps, &held, &waited_ps);

        if (!wrong && r < base->ports)
            wrong = check_input(sw, r, now_ps, &held, &waited_ps);
        if (wrong)
            return wrong;
    }
    return switch_crosspoints_check_books(&sw->xp, now_ps, held, waited_ps);
}

const struct switch_kind switch_fifo_kind = {
    .fits = fifo_fits,
    .segments = fifo_segments,
    .bytes = fifo_bytes,
    .create = fifo_create,
    .destroy = fifo_destroy,
    .tx = switch_crossbar_tx,
    .rx = switch_crossbar_rx,
    .check = fifo_check,
    .bufs = fifo_bufs,
    .turn_back = switch_crosspoints_turn_back,
    .combines = true,
};
