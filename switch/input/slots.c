/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slots.c - buffers=input: an input-queued switch, the baseline of the paper on output-queued
 * routers.
 *
 * Segments wait at their input: unicasts in one queue per output, multicasts in one FIFO. All are
 * in the input's buffer. A credit stands for one slot of this buffer. The arbiter (arbiter.c) runs
 * once per time slot. A time slot lasts as long as a full segment takes on the wire, and begins at
 * a multiple of this length. A segment takes part in a slot if it has arrived before the slot
 * begins, and an output takes part if it has a credit by then. Segments leave when a slot begins. A
 * multicast leaves through the outputs that grant to it; for the other outputs it stays first in
 * its FIFO. Its place in the buffer is free when the last copy has left. A time slot in which
 * nothing can leave is skipped and changes nothing. So the behaviour of the switch is a function of
 * times and ports alone.
 *
 * There is no implementation for clock raw, which has no time to divide into slots, and there are
 * no combine units. input/fifo.c explains why nothing deadlocks.
 */
#include "switch/input/slots.h"

#include <stdlib.h>

#include "emu/util/ports.h"
#include "switch/common/cables.h"
#include "switch/policy/policy.h"

/* Return the start of the first time slot that is not over and starts at @at_ps or later. */
static uint64_t slots_at(const struct switch_slots *sw, uint64_t at_ps)
{
    uint64_t length_ps = sw->length_ps;

    if (at_ps < sw->from_ps)
        at_ps = sw->from_ps;
    return (at_ps + length_ps - 1) / length_ps * length_ps;
}

/* Schedule the arbiter for the first time slot at @at_ps or later. */
static void slots_plan(struct switch_slots *sw, uint64_t at_ps)
{
    uint64_t next_ps = slots_at(sw, at_ps);

    if (next_ps < sw->next_ps)
        sw->next_ps = next_ps;
}

static emu_ports slots_wanted(const struct switch_slots *sw)
{
    emu_ports outs = EMU_NO_PORTS;

    for (uint32_t p = 0; p < sw->bar.sw.ports; p++) {
        outs |= emu_port_if(p, emu_ports_any(sw->bar.out[p].waiting));
        if (sw->in.fifo[p].queued)
            outs |= sw->in.outs[sw->in.fifo[p].list.first];
    }
    return outs;
}

/*
 * Schedule the arbiter for outputs that have segments, but not before @from_ps. If the process at a
 * host interface has named the time at which it makes space, the output also waits for
 * EMU_EVENT_CREDIT, because the process may end before that time.
 */
static void slots_plan_outs(struct switch_slots *sw, emu_ports outs, uint64_t from_ps)
{
    emu_each_port (o, outs) {
        struct emu_tx *tx = &sw->bar.out[o].tx;
        uint64_t due_ps = emu_tx_earliest_ps(tx, sw->from_ps);

        if (due_ps == EMU_NEVER || (due_ps > sw->from_ps && tx->kind == EMU_LINK_HOSTIF))
            sw->stalled |= emu_port(o); /* until EMU_EVENT_CREDIT */
        if (due_ps != EMU_NEVER)
            slots_plan(sw, due_ps > from_ps ? due_ps : from_ps);
    }
}

/* Schedule the arbiter for outputs whose awaited credits have returned. */
static void slots_take_credits(struct switch_slots *sw, uint64_t until_ps)
{
    emu_ports outs = switch_take(&sw->bar.sw, EMU_EVENT_CREDIT) & sw->stalled;

    sw->stalled &= ~outs;
    if (emu_ports_any(outs))
        slots_plan_outs(sw, outs & slots_wanted(sw),
                        emu_profile_window_ps(sw->bar.sw.profile, until_ps));
}

/* Return the subset of @outs that can send at @at_ps. Counts each stall of an output once. */
static emu_ports slots_free(struct switch_slots *sw, emu_ports outs, uint64_t at_ps)
{
    emu_ports free = EMU_NO_PORTS;

    emu_each_port (o, outs) {
        emu_ports bit = emu_port(o);
        struct emu_tx *tx = &sw->bar.out[o].tx;

        if (emu_tx_earliest_ps(tx, at_ps) <= at_ps) {
            free |= bit;
        } else if (!emu_ports_has(sw->counted, o)) {
            sw->counted |= bit;
            emu_count(&tx->counts.stalls, 1);
        }
    }
    return free;
}

static void slots_depart(struct switch_slots *sw, uint32_t o, struct emu_entry entry,
                         uint64_t at_ps)
{
    struct emu_tx *tx = &sw->bar.out[o].tx;

    emu_tx_depart_notify(tx, &sw->bar.sw.dev, sw->bar.sw.profile, &entry, at_ps);
    sw->counted &= ~emu_port(o);
}

static void slots_send_unicast(struct switch_slots *sw, uint32_t r, uint32_t o, uint64_t at_ps)
{
    struct switch_crossbar *bar = &sw->bar;
    const struct emu_entry *entry =
        &bar->store.slot[switch_remove(&bar->store, switch_xpoint(bar, r, o))];
    uint8_t left = --*switch_count(bar, r, o);

    switch_out_lose(bar, r, o, 1, left);
    at_ps = switch_no_sooner(at_ps, entry);
    switch_little_leave(&sw->bar.little, entry, at_ps);
    bar->row[r].rx.owed++;
    slots_depart(sw, o, *entry, at_ps);
}

static void slots_send_multicast(struct switch_slots *sw, uint32_t r, emu_ports outs,
                                 uint64_t at_ps)
{
    uint32_t slot = sw->in.fifo[r].list.first;
    const struct emu_entry *entry = &sw->bar.store.slot[slot];

    at_ps = switch_no_sooner(at_ps, entry);
    sw->in.outs[slot] &= ~outs;
    emu_each_port (o, outs)
        slots_depart(sw, o, *entry, at_ps);
    if (emu_ports_any(sw->in.outs[slot]))
        return;
    switch_inputs_leave(&sw->in, &sw->bar, r);
    switch_little_leave(&sw->bar.little, entry, at_ps);
    sw->arbiter[r].head_slot = at_ps / sw->length_ps + 1;
}

/* Run the arbiter for one time slot, and send the segments that it has matched. */
static inline uint32_t slots_act(struct switch_dev *base, const void *own)
{
    struct switch_slots *sw = switch_slots_of(base);
    uint64_t at_ps = sw->next_ps;
    struct switch_sends sends[TOPO_PORTS_MAX];
    uint32_t moved = 0;

    (void)own;
    switch_little_until(&sw->bar.little, at_ps);
    sw->from_ps = at_ps + sw->length_ps;
    sw->next_ps = EMU_NEVER;
    switch_match(sw, at_ps / sw->length_ps, slots_free(sw, slots_wanted(sw), at_ps), sends);
    for (uint32_t r = 0; r < sw->bar.sw.ports; r++) {
        if (sends[r].multicast)
            slots_send_multicast(sw, r, sends[r].outs, at_ps);
        else if (emu_ports_any(sends[r].outs))
            slots_send_unicast(sw, r, emu_ports_first(sends[r].outs), at_ps);
        moved += emu_ports_count(sends[r].outs);
        switch_pay(&sw->bar, r, at_ps);
    }
    slots_plan_outs(sw, slots_wanted(sw), 0);
    return moved;
}

/* --- a segment arrives -------------------------------------------------------------- */

static void slots_put(struct switch_slots *sw, uint32_t r, uint32_t o,
                      const struct emu_entry *entry)
{
    struct switch_crossbar *bar = &sw->bar;
    uint8_t *count = switch_count(bar, r, o);

    switch_append(&bar->store, switch_xpoint(bar, r, o), (*count)++, entry);
    switch_out_gains(bar, r, o);
}

static uint32_t slots_queued(const void *of, uint32_t o)
{
    return ((const uint8_t *)of)[o];
}

/*
 * Choose the candidate output for which input @r has the fewest segments. If the loads of whole
 * outputs were compared instead, the input would often choose again the output that has just sent
 * one of its segments. Then its segments would wait for few outputs, and the input would
 * permanently get a smaller share.
 */
static uint32_t slots_choose(struct switch_slots *sw, uint32_t r, emu_ports outs)
{
    if (!emu_ports_several(outs))
        return emu_ports_first(outs);
    return route_choose(&sw->bar.sw, emu_least(outs, slots_queued, switch_count(&sw->bar, r, 0)),
                        sw->bar.light);
}

/*
 * Queue a segment. There are no contributions, since switch_groups_set() refuses groups that
 * combine.
 */
static void slots_admit(struct switch_slots *sw, uint32_t r, const struct emu_entry *entry)
{
    const struct switch_dev *base = &sw->bar.sw;
    const struct emu_hdr *hdr = &entry->hdr;
    bool unicast = hdr->kind == EMU_UNICAST;
    emu_ports outs = unicast
                         ? topo_route_ports(switch_route(base), hdr->dst)
                         : switch_group_outs(switch_group_of(base, hdr->dst), r, hdr, EMU_NO_PORTS);

    if (!emu_ports_any(outs)) {
        switch_inputs_drop(&sw->bar, r, entry);
        return;
    }
    sw->bar.little.held++;
    if (unicast)
        slots_put(sw, r, slots_choose(sw, r, outs), entry);
    else
        switch_inputs_append(&sw->in, &sw->bar, r, outs, entry);
}

/* --- callbacks of switch_events_run() ----------------------------------------------- */

static inline uint64_t slots_arrive(struct switch_dev *base, struct emu_order *arrivals,
                                    uint64_t until_ps, const void *own)
{
    struct switch_slots *sw = switch_slots_of(base);
    struct emu_order_event event = emu_order_take(arrivals);
    uint32_t r = (uint32_t)event.port;
    const struct switch_fifo *fifo = &sw->in.fifo[r];
    bool empty = !fifo->queued;

    (void)own;
    switch_little_until(&sw->bar.little, event.at_ps);
    slots_admit(sw, r, emu_rx_front(&sw->bar.row[r].rx, until_ps));
    switch_entered(&sw->bar, r, event.at_ps);
    if (empty && fifo->queued)
        sw->arbiter[r].head_slot = slots_at(sw, event.at_ps) / sw->length_ps;
    slots_plan(sw, event.at_ps);
    return switch_poll(&sw->bar, arrivals, r, until_ps);
}

static inline uint64_t slots_begin(struct switch_dev *base, struct emu_order *arrivals,
                                   uint64_t until_ps)
{
    struct switch_slots *sw = switch_slots_of(base);

    slots_take_credits(sw, until_ps);
    return switch_poll_all(&sw->bar, arrivals, until_ps);
}

static inline uint64_t slots_next_ps(const struct switch_dev *base)
{
    return ((const struct switch_slots *)base)->next_ps;
}

static uint32_t slots_step(struct emu_dev *dev, uint64_t until_ps)
{
    static const struct switch_events slots_events = {.begin = slots_begin,
                                                      .next_ps = slots_next_ps,
                                                      .arrive = slots_arrive,
                                                      .act = slots_act};

    return switch_events_run((struct switch_dev *)dev, until_ps, &slots_events, NULL);
}

/* --- the kind ----------------------------------------------------------------------- */

static bool slots_fits(const struct emu_profile *profile)
{
    return !emu_profile_acknowledged(profile) && profile->buffers == EMU_BUFFERS_INPUT;
}

static uint32_t slots_segments(uint32_t ports, const struct emu_profile *profile)
{
    return ports * profile->input_slots;
}

static size_t slots_bytes(uint32_t ports, const struct emu_profile *profile)
{
    uint32_t slots = slots_segments(ports, profile);

    return sizeof(struct switch_slots) + ports * sizeof(struct switch_arbiter) +
           switch_crossbar_bytes(ports, ports, slots, 0, profile) +
           switch_inputs_bytes(ports, slots);
}

static void slots_destroy(struct switch_dev *base)
{
    struct switch_slots *sw = switch_slots_of(base);

    free(sw->arbiter);
    switch_inputs_free(&sw->in);
    switch_crossbar_free(&sw->bar);
}

static bool slots_sane(uint32_t ports, const struct emu_profile *profile)
{
    uint32_t credits = emu_profile_credits(profile);

    (void)ports;
    return credits && credits <= EMU_INPUT_MAX;
}

static bool slots_init(struct switch_dev *base)
{
    struct switch_slots *sw = switch_slots_of(base);
    uint32_t slots = slots_segments(base->ports, base->profile);

    sw->length_ps = EMU_SEG_BYTES * base->profile->link_ps_per_byte;
    sw->next_ps = EMU_NEVER;
    sw->arbiter = calloc(base->ports, sizeof *sw->arbiter);
    return sw->arbiter && switch_crossbar_init(&sw->bar, base->ports, slots, 0) &&
           switch_inputs_init(&sw->in, base->ports, slots);
}

static uint32_t slots_bufs(struct switch_dev *base)
{
    const struct switch_slots *sw = switch_slots_of(base);

    return switch_crossbar_bufs(base) + switch_inputs_bufs(&sw->in, &sw->bar);
}

/* Return the number of segments at input @r, each of which took a credit. */
static uint32_t slots_holds(const struct switch_slots *sw, uint32_t r)
{
    uint32_t holds = sw->in.fifo[r].queued;

    for (uint32_t o = 0; o < sw->bar.rows; o++)
        holds += *switch_count(&sw->bar, r, o);
    return holds;
}

static const char *slots_check(struct switch_dev *base, uint32_t r, uint64_t now_ps, uint64_t *held,
                               uint64_t *waited_ps)
{
    const struct switch_slots *sw = switch_slots_of(base);
    const char *wrong = switch_inputs_check(&sw->in, &sw->bar, r, now_ps, held, waited_ps);

    return wrong ? wrong : switch_crossbar_check_cable(&sw->bar, r, slots_holds(sw, r));
}

/*
 * Subtract @by_ps from all times. Slots still begin at multiples of their length, so the time until
 * the next slot may become longer.
 */
static void slots_rebase(struct switch_dev *base, uint64_t by_ps)
{
    struct switch_slots *sw = switch_slots_of(base);

    switch_crossbar_rebase(&sw->bar, by_ps);
    switch_rebase_time(&sw->bar.little.last_ps, by_ps);
    switch_rebase_time(&sw->next_ps, by_ps);
    switch_rebase_time(&sw->from_ps, by_ps);
    for (uint32_t p = 0; p < base->ports; p++)
        switch_rebase_time(&sw->arbiter[p].head_slot, by_ps / sw->length_ps);
}

const struct switch_kind switch_slots_kind = {
    .timed = {sizeof(struct switch_slots), slots_step},
    .fits = slots_fits,
    .sane = slots_sane,
    .segments = slots_segments,
    .bytes = slots_bytes,
    .init = slots_init,
    .destroy = slots_destroy,
    .tx = switch_crossbar_tx,
    .rx = switch_crossbar_rx,
    .check = switch_crossbar_check,
    .check_row = slots_check,
    .bufs = slots_bufs,
    .rebase = slots_rebase,
    .stick = switch_crossbar_stick,
    .queued = switch_crossbar_queued,
    .shortest = switch_crossbar_shortest,
    .waiting = switch_crossbar_waiting,
    .ready = switch_crossbar_ready,
    .faults = switch_cables_faults,
};
