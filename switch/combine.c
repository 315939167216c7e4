/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * combine.c - the combine unit: contributions fold into one, the result goes on.
 *
 * The unit hangs on output `ports` and feeds back into row `ports` (§2, Figure 2).
 * It always takes what waits for it: room for the state was set aside when the
 * group was made, and adapters keep within their window, so contributions of
 * one group never hold up another. Results wait at their group until the
 * crosspoints of the unit's own row have room.
 *
 * A REDUCE is complete with k - 1 of the tree's k ports here and leaves by the
 * k-th. An ALLREDUCE or BARRIER folds towards the tree's top switch, is complete
 * there with all k, and goes out by all k: the paper's reduction and broadcast
 * without the way down to a root's adapter and up again.
 */
#include <string.h>

#include "emu/combine.h"
#include "switch/internal.h"

#define COMBINE_BURST 64 /* contributions in one pass */

static void combine_drop(struct switch_dev *sw, uint32_t buf)
{
    emu_count(&sw->counts.bad, 1);
    emu_pool_drop(&sw->dev.worker->cache, buf);
}

/* acc op= in, over the payload of two segments with the same header. */
static void combine_bufs(struct switch_dev *sw, const struct emu_hdr *hdr, uint32_t acc,
                         uint32_t in)
{
    struct emu_pool *pool = sw->dev.worker->cache.pool;

    if (hdr->kind == EMU_BARRIER)
        return;
    emu_combine(hdr->op, hdr->type, emu_pool_bytes(pool, acc), emu_pool_bytes(pool, in),
                hdr->len / emu_type_bytes(hdr->type));
}

/* Where the result goes once these ports have contributed; 0: others are missing. */
static uint64_t combine_outs(const struct switch_group *group, const struct switch_state *state)
{
    uint64_t missing = group->ports & ~state->have;

    if (state->hdr.kind != EMU_REDUCE && group->up < 0)
        return missing ? 0 : group->ports;
    if (state->hdr.kind != EMU_REDUCE && missing != (uint64_t)1 << group->up)
        return 0;
    return missing & (missing - 1) ? 0 : missing;
}

/* In port order: fold what was kept. Returns the buffer with the result. */
static uint32_t combine_kept(struct switch_dev *sw, struct switch_group *group, uint32_t i)
{
    struct switch_state *state = &group->state[i];
    uint64_t have = state->have;
    uint32_t acc = *switch_group_kept(group, i, __builtin_ctzll(have));

    for (have &= have - 1; have; have &= have - 1) {
        uint32_t in = *switch_group_kept(group, i, __builtin_ctzll(have));

        combine_bufs(sw, &state->hdr, acc, in);
        emu_pool_drop(&sw->dev.worker->cache, in);
    }
    return acc;
}

/* The state is complete: queue its result at the group, and free the state. */
static void combine_complete(struct switch_dev *sw, struct switch_group *group, uint32_t i,
                             uint64_t outs, uint64_t done_ps)
{
    struct switch_state *state = &group->state[i];
    uint32_t buf = group->in_order ? combine_kept(sw, group, i) : state->buf;
    struct switch_result *result;

    state->active = false;
    if (group->last - group->first == EMU_WINDOW) { /* only if members ignore their window */
        combine_drop(sw, buf);
        return;
    }
    result = &group->result[group->last++ % EMU_WINDOW];
    result->outs = outs;
    result->entry = (struct emu_entry){.time_ps = done_ps,
                                       .hdr = state->hdr,
                                       .buf = buf,
                                       .born_ns = state->born_ns};
    if (!group->pending) {
        struct switch_results *results = &sw->results;

        group->pending = true;
        results->group[results->last++ % SWITCH_GROUPS_MAX] = group->id;
    }
}

static bool combine_agrees(const struct emu_hdr *a, const struct emu_hdr *b)
{
    return a->seq == b->seq && a->kind == b->kind && a->op == b->op && a->type == b->type &&
           a->len == b->len;
}

/* One contribution. A repeated or disagreeing one is counted and dropped. */
static void combine_fold(struct switch_dev *sw, uint32_t row, const struct emu_entry *in,
                         uint64_t done_ps)
{
    struct switch_group *group = switch_group_of(sw, in->hdr.dst);
    uint32_t i = in->hdr.seq % EMU_WINDOW;
    struct switch_state *state;
    uint64_t outs;

    if (!group || !(group->ports >> row & 1)) {
        combine_drop(sw, in->buf);
        return;
    }
    state = &group->state[i];
    if (!state->active) {
        *state = (struct switch_state){
            .hdr = in->hdr, .buf = EMU_NO_BUF, .born_ns = in->born_ns, .active = true};
    } else if (!combine_agrees(&state->hdr, &in->hdr) || state->have >> row & 1) {
        combine_drop(sw, in->buf);
        return;
    }
    if (group->in_order) {
        *switch_group_kept(group, i, (int)row) = in->buf;
    } else if (!state->have) {
        state->buf = in->buf;
    } else {
        combine_bufs(sw, &state->hdr, state->buf, in->buf);
        emu_pool_drop(&sw->dev.worker->cache, in->buf);
    }
    state->have |= (uint64_t)1 << row;
    emu_count(&sw->counts.combined, 1);
    outs = combine_outs(group, state);
    if (outs)
        combine_complete(sw, group, i, outs, done_ps);
}

/* May the unit's row take one more segment for each of @outs? */
static bool results_room(const struct switch_dev *sw, uint64_t outs)
{
    for (; outs; outs &= outs - 1) {
        size_t at = switch_at(sw, sw->ports, (uint32_t)__builtin_ctzll(outs));

        if (sw->count[at] == sw->profile->xpoint_slots)
            return false;
    }
    return true;
}

/* Move one group's results to the crosspoints. Returns true when none is left. */
static bool results_move(struct switch_dev *sw, struct switch_group *group)
{
    while (group->first != group->last) {
        const struct switch_result *result = &group->result[group->first % EMU_WINDOW];

        if (!results_room(sw, result->outs))
            return false;
        switch_queue(sw, sw->ports, result->outs, &result->entry);
        emu_count(&sw->counts.results, 1);
        group->first++;
    }
    return true;
}

/* Each pending group in turn; one whose crosspoints are full goes to the end of the line. */
static void results_flush(struct switch_dev *sw)
{
    struct switch_results *results = &sw->results;
    uint32_t count = results->last - results->first;

    while (count--) {
        uint32_t id = results->group[results->first++ % SWITCH_GROUPS_MAX];
        struct switch_group *group = switch_group_of(sw, id);

        if (!group)
            continue; /* taken away meanwhile */
        group->pending = !results_move(sw, group);
        if (group->pending)
            results->group[results->last++ % SWITCH_GROUPS_MAX] = id;
    }
}

/*
 * On a timed clock the unit needs the whole segment, then works for a time that
 * grows with the payload. Returns false if it cannot start by @now_ps.
 */
static bool combine_start(struct switch_dev *sw, uint64_t now_ps, uint32_t *row,
                          uint64_t *done_ps)
{
    const struct emu_profile *profile = sw->profile;
    const struct emu_hdr *hdr;
    uint64_t start_ps;
    size_t at;

    *row = switch_pick(sw, sw->ports, now_ps, &start_ps);
    at = switch_at(sw, *row, sw->ports);
    hdr = &sw->slot[switch_slot(sw, *row, sw->ports, sw->head[at])].hdr;
    start_ps += (EMU_HDR_BYTES + hdr->len) * profile->link_ps_per_byte;
    if (start_ps < sw->unit_busy_ps)
        start_ps = sw->unit_busy_ps;
    if (start_ps > now_ps) {
        if (start_ps < sw->dev.next_ps)
            sw->dev.next_ps = start_ps;
        return false;
    }
    *done_ps = start_ps + (1 + (hdr->len + 7u) / 8u) * profile->combine_word_ps;
    return true;
}

uint32_t switch_combine(struct switch_dev *sw, uint64_t until_ps)
{
    struct switch_out *unit = &sw->out[sw->ports];
    uint32_t taken = 0;

    for (; unit->waiting && taken < COMBINE_BURST; taken++) {
        uint64_t done_ps = 0;
        uint32_t row;
        struct emu_entry in;

        if (!sw->dev.timed)
            row = switch_next_bit(unit->waiting, unit->last);
        else if (!combine_start(sw, until_ps, &row, &done_ps))
            break;
        unit->last = (uint8_t)row;
        in = *switch_dequeue(sw, row, sw->ports);
        if (sw->dev.timed) {
            sw->unit_busy_ps = done_ps;
            switch_pay_row(sw, row, done_ps + sw->profile->channel_ps);
        }
        combine_fold(sw, row, &in, done_ps);
    }
    if (unit->waiting && taken == COMBINE_BURST)
        emu_dev_again(&sw->dev);
    if (sw->results.first != sw->results.last)
        results_flush(sw);
    return taken;
}
