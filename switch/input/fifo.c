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
 * buffers=input is the router that the paper compares with: slots.c.
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
#include "switch/internal.h"

/* Not queued: its place is free again. */
static void input_drop(struct switch_dev *sw, uint32_t r, const struct emu_entry *entry)
{
    switch_count_drop(sw, switch_group_of(sw, entry->hdr.dst), &entry->hdr);
    emu_pool_drop(&sw->dev.worker->cache, entry->buf);
    sw->row[r].rx.owed++;
    sw->unsettled |= emu_bit(r);
}

/* At the end of the fifo of @r. */
static void input_append(struct switch_dev *sw, uint32_t r, uint64_t outs,
                         const struct emu_entry *entry)
{
    struct switch_input *in = &sw->input[r];
    uint32_t slot = switch_append(sw, &in->fifo, in->queued, entry);

    in->queued++;
    sw->outs[slot] = outs;
    sw->little.held++;
    if (entry->hdr.kind == EMU_UNICAST || !emu_bits_several(outs))
        return;
    emu_pool_share(sw->dev.worker->cache.pool, entry->buf,
                   (unsigned)__builtin_popcountll(outs) - 1);
    emu_count(&sw->counts.multicasts, 1);
}

void switch_input_leave(struct switch_dev *sw, uint32_t r, uint64_t at_ps)
{
    struct switch_input *in = &sw->input[r];
    uint32_t slot = switch_remove(sw, &in->fifo);

    in->queued--;
    sw->little.held--;
    sw->little.waited_ps += at_ps - sw->slot[slot].time_ps;
    sw->row[r].rx.owed++;
    sw->unsettled |= emu_bit(r);
}

/* --- buffers=input_xpoint ------------------------------------------------------- */

/* Of @outs, those whose crosspoint of row @r has room. */
static uint64_t input_room(const struct switch_dev *sw, uint32_t r, uint64_t outs)
{
    uint64_t room = 0;

    emu_each_bit(o, outs) {
        room |= (uint64_t)(*switch_count(sw, r, o) < sw->xpoint_slots) << o;
    }
    return room;
}

/* The first segment of the fifo of @r, as of @at_ps: to its crosspoints. Returns those that it still goes to. */
static uint64_t input_move(struct switch_dev *sw, uint32_t r, uint64_t at_ps)
{
    uint32_t slot = sw->input[r].fifo.first;
    uint64_t outs = sw->outs[slot];
    uint64_t room = input_room(sw, r, outs);
    struct emu_entry entry = sw->slot[slot];

    entry.time_ps = at_ps;
    if (entry.hdr.kind == EMU_UNICAST) { /* to one of them: the choice is made as late as can be */
        if (!room)
            return outs;
        switch_put(sw, r, emu_bits_several(room) ? switch_choose(sw, room)
                                           : emu_bits_first(room), &entry);
        return 0;
    }
    emu_each_bit(o, room)
        switch_put(sw, r, o, &entry);
    return sw->outs[slot] = outs & ~room;
}

bool switch_input_advance(struct switch_dev *sw, uint32_t r, uint64_t at_ps)
{
    struct switch_input *in = &sw->input[r];
    uint64_t ready = sw->runnable;
    bool moved = false;

    sw->runnable = 0;
    while (in->queued) {
        uint64_t at = switch_no_sooner(at_ps, &sw->slot[in->fifo.first]);

        if (input_move(sw, r, at))
            break;
        switch_input_leave(sw, r, at);
        moved = true;
    }
    moved |= sw->runnable != 0;
    sw->runnable |= ready;
    sw->row[r].backed = in->queued != 0;
    return moved;
}

void switch_input_admit_xpoint(struct switch_dev *sw, uint32_t r, const struct emu_entry *entry)
{
    uint64_t outs = entry->hdr.kind == EMU_UNICAST ? topo_route_ports(sw->route, entry->hdr.dst)
                                                   : switch_collective_outs(sw, switch_group_of(sw, entry->hdr.dst), r, &entry->hdr);

    if (!outs) {
        input_drop(sw, r, entry);
        return;
    }
    input_append(sw, r, outs, entry);
    if (sw->input[r].queued == 1)
        switch_input_advance(sw, r, entry->time_ps);
}

/* --- buffers=input ----------------------------------------------------------------- */

/* A unicast waits in the queue of its output. */
static void input_put(struct switch_dev *sw, uint32_t r, uint32_t o, const struct emu_entry *entry)
{
    uint8_t *count = switch_count(sw, r, o);

    switch_append(sw, switch_xpoint(sw, r, o), (*count)++, entry);
    sw->little.held++;
    switch_out_gains(sw, r, o);
}

/*
 * Of several candidate outputs, those that fewest segments of row @r wait for. What an input sees
 * is its own queues; and if it looked at whole outputs instead, an output that has just taken a
 * segment of an input would get that input's next one, and inputs that wait at few outputs would
 * get less than others for good.
 */
static uint64_t input_shortest(const struct switch_dev *sw, uint32_t r, uint64_t outs)
{
    uint8_t least = UINT8_MAX;
    uint64_t best = 0;

    emu_each_bit(o, outs) {
        uint8_t count = *switch_count(sw, r, o);

        if (count < least) {
            least = count;
            best = 0;
        }
        if (count == least)
            best |= emu_bit(o);
    }
    return best;
}

/* There are no combine units here: their groups were refused when they were to be made. */
void switch_input_admit(struct switch_dev *sw, uint32_t r, const struct emu_entry *entry)
{
    bool unicast = entry->hdr.kind == EMU_UNICAST;
    uint64_t outs = unicast ? topo_route_ports(sw->route, entry->hdr.dst)
                            : switch_collective_outs(sw, switch_group_of(sw, entry->hdr.dst), r, &entry->hdr);

    if (!outs || outs >> sw->ports)
        input_drop(sw, r, entry);
    else if (unicast)
        input_put(sw, r, emu_bits_several(outs) ? switch_choose(sw, input_shortest(sw, r, outs))
                                           : emu_bits_first(outs), entry);
    else
        input_append(sw, r, outs, entry);
}

/* --- what must hold --------------------------------------------------------------------- */

uint32_t switch_input_holds(const struct switch_dev *sw, uint32_t r)
{
    const struct switch_input *in = &sw->input[r];
    uint32_t holds = 0;

    for (uint32_t slot = in->fifo.first, left = in->queued; left; left--) {
        holds++;
        slot = sw->link[slot].next;
    }
    for (uint32_t o = 0; o < sw->ports && sw->profile->buffers == EMU_BUFFERS_INPUT; o++)
        holds += *switch_count(sw, r, o);
    return holds;
}

const char *switch_input_check(const struct switch_dev *sw, uint32_t r, uint64_t now_ps,
                               uint64_t *held, uint64_t *waited_ps)
{
    const struct switch_input *in = &sw->input[r];
    uint32_t slot = in->fifo.first;

    *held += in->queued;
    for (uint32_t left = in->queued; left; left--) {
        if (!sw->outs[slot])
            return "a segment of a fifo has nowhere to go";
        *waited_ps += now_ps - sw->slot[slot].time_ps;
        slot = sw->link[slot].next;
    }
    if (in->queued && sw->profile->buffers == EMU_BUFFERS_INPUT_XPOINT &&
        (!sw->row[r].backed || input_room(sw, r, sw->outs[in->fifo.first])))
        return "a fifo waits though there is room";
    return NULL;
}
