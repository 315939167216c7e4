/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fifo.c - inputs with a buffer of their own: a credit is a slot in it.
 *
 * buffers=input_xpoint is the router with an input flow-control buffer that
 * the paper leaves for later (§5): the buffer covers the cable's round trip, so
 * a crosspoint need hold only a segment or two. An arriving segment enters its
 * input's fifo; the first one moves on to its crosspoints as they have room, a
 * multicast's copies each on its own and at most once to each output; when the
 * last has moved, its slot is free and the credit goes back. Segments behind the first wait for
 * it: head-of-line blocking is the price of this design. Modelling choice: moving takes no time;
 * the crossbar's internal speed-up that output queuing needs anyway lets a whole fifo through
 * once there is room.
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
 * wait for the same. (3) A copy takes one whole slot of the next input at a
 * time and holds nothing else while it waits for another: there is no hold and
 * wait among the outputs of a switch, and no copy waits for its siblings. (That
 * is what forbids "no fanout splitting" by claiming outputs one by one.) (4)
 * The last cables lead to adapters, which take everything, and combine units
 * are sinks: results wait in the unit's own list, and come from there. So, from
 * the end of the order backwards, every first segment gets on at some time.
 * What this needs is (1): routes that turn up again after going down, or trees
 * with two tops, would bring deadlock back, and nothing here would break it.
 */
#include <stdlib.h>

#include "switch/crosspoint/crosspoint.h"
#include "switch/input/input.h"

static bool fifo_fits(const struct emu_profile *profile)
{
    return !emu_profile_acknowledged(profile) && profile->buffers == EMU_BUFFERS_INPUT_XPOINT;
}

/* Of @outs, those whose crosspoint of row @r has room. */
static uint64_t fifo_room(const struct switch_crosspoints *xp, uint32_t r, uint64_t outs)
{
    uint64_t room = 0;

    emu_each_bit (o, outs)
        room |= (uint64_t)(*switch_count(&xp->bar, r, o) < xp->xpoint_slots) << o;
    return room;
}

/*
 * The first segment of the fifo of @r goes to its crosspoints. Returns those that it still has to
 * go to.
 */
static uint64_t fifo_move(struct switch_crosspoints *xp, uint32_t r, uint64_t at_ps)
{
    struct switch_inputs *in = xp->inputs;
    uint32_t slot = in->fifo[r].list.first;
    uint64_t outs = in->outs[slot];
    uint64_t room = fifo_room(xp, r, outs);
    struct emu_entry entry = xp->bar.store.slot[slot];
    uint32_t o;

    entry.time_ps = at_ps;
    if (entry.hdr.kind == EMU_UNICAST) { /* to one of them: the choice is made as late as can be */
        if (!room)
            return outs;
        o = emu_bits_several(room) ? switch_choose(&xp->bar, room) : emu_bits_first(room);
        switch_put(xp, r, o, &entry);
        return 0;
    }
    emu_each_bit (out, room)
        switch_put(xp, r, out, &entry);
    return in->outs[slot] = outs & ~room;
}

/* The first segment of the fifo of @r has moved on, as of @at_ps. */
static void fifo_leave(struct switch_crosspoints *xp, uint32_t r, uint64_t at_ps)
{
    uint32_t slot = switch_inputs_leave(xp->inputs, &xp->bar, r);

    xp->touched |= emu_bit(r);
    if (xp->timing)
        switch_little_leave(&xp->timing->little, &xp->bar.store.slot[slot], at_ps);
}

static bool fifo_advance(struct switch_crosspoints *xp, uint32_t r, uint64_t at_ps)
{
    struct switch_fifo *fifo = &xp->inputs->fifo[r];
    uint64_t ready = xp->bar.runnable;
    bool moved = false;

    xp->bar.runnable = 0;
    while (fifo->queued) {
        uint64_t at = switch_no_sooner(at_ps, &xp->bar.store.slot[fifo->list.first]);

        if (fifo_move(xp, r, at))
            break;
        fifo_leave(xp, r, at);
        moved = true;
    }
    moved |= xp->bar.runnable != 0;
    xp->bar.runnable |= ready;
    xp->backed = (xp->backed & ~emu_bit(r)) | (uint64_t)(fifo->queued != 0) << r;
    return moved;
}

static void fifo_admit(struct switch_crosspoints *xp, uint32_t r, const struct emu_entry *entry)
{
    struct switch_dev *sw = &xp->bar.sw;
    const struct emu_hdr *hdr = &entry->hdr;
    uint64_t outs = hdr->kind == EMU_UNICAST
                        ? topo_route_ports(sw->route, hdr->dst)
                        : switch_collective_outs(xp, switch_group_of(sw, hdr->dst), r, hdr);

    if (!outs) {
        switch_inputs_drop(&xp->bar, r, entry);
        xp->touched |= emu_bit(r);
        return;
    }
    switch_inputs_append(xp->inputs, &xp->bar, r, outs, entry);
    if (xp->timing)
        xp->timing->little.held++;
    if (xp->inputs->fifo[r].queued == 1)
        fifo_advance(xp, r, entry->time_ps);
}

/* --- the kind ----------------------------------------------------------------------- */

static uint32_t fifo_segments(uint32_t ports, const struct emu_profile *profile)
{
    return switch_crosspoints_segments(ports, profile) + ports * profile->input_slots;
}

static size_t fifo_bytes(uint32_t ports, const struct emu_profile *profile)
{
    uint32_t slots = fifo_segments(ports, profile);

    return switch_crosspoints_bytes(ports, slots, profile) + sizeof(struct switch_inputs) +
           switch_inputs_bytes(ports, slots);
}

static void fifo_destroy(struct switch_dev *sw)
{
    struct switch_crosspoints *xp = switch_crosspoints_of(sw);

    if (xp->inputs)
        switch_inputs_free(xp->inputs);
    free(xp->inputs);
    switch_crosspoints_free(xp);
}

static bool fifo_init(struct switch_dev *sw, bool timed)
{
    struct switch_crosspoints *xp = switch_crosspoints_of(sw);
    uint32_t slots = fifo_segments(sw->ports, sw->profile);

    xp->admit = fifo_admit;
    xp->advance = fifo_advance;
    xp->inputs = calloc(1, sizeof *xp->inputs);
    return xp->inputs && switch_inputs_init(xp->inputs, sw->ports, slots) &&
           switch_crosspoints_init(xp, timed, slots);
}

static uint32_t fifo_bufs(struct switch_dev *sw)
{
    const struct switch_crosspoints *xp = switch_crosspoints_of(sw);

    return switch_crossbar_bufs(&xp->bar) + switch_inputs_bufs(xp->inputs, &xp->bar);
}

static const char *check_row(struct switch_dev *sw, uint32_t r, uint64_t now_ps, uint64_t *held,
                             uint64_t *waited_ps)
{
    const struct switch_crosspoints *xp = switch_crosspoints_of(sw);
    const char *wrong = switch_crosspoints_check_row(xp, r);
    const struct switch_fifo *fifo;

    if (wrong || r >= sw->ports)
        return wrong;
    fifo = &xp->inputs->fifo[r];
    wrong = switch_inputs_check(xp->inputs, &xp->bar, r, now_ps, held, waited_ps);
    if (!wrong && fifo->queued &&
        (!(xp->backed >> r & 1) || fifo_room(xp, r, xp->inputs->outs[fifo->list.first])))
        wrong = "a fifo waits though there is room";
    return wrong ? wrong : switch_crossbar_check_cable(&xp->bar, r, fifo->queued);
}

static const char *fifo_check(struct switch_dev *sw, uint64_t now_ps)
{
    return switch_crosspoints_check(sw, now_ps, check_row);
}

const struct switch_kind switch_fifo_kind = {
    .raw = {sizeof(struct switch_crosspoints), switch_step_raw},
    .timed = {sizeof(struct switch_crosspoints_timed), switch_step_timed},
    .combines = true,
    .fits = fifo_fits,
    .sane = switch_crosspoints_sane,
    .segments = fifo_segments,
    .bytes = fifo_bytes,
    .init = fifo_init,
    .destroy = fifo_destroy,
    .tx = switch_crossbar_tx,
    .rx = switch_crossbar_rx,
    .check = fifo_check,
    .bufs = fifo_bufs,
    .rebase = switch_crosspoints_rebase,
};
