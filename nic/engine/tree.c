/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree.c - collectives among adapters: barriers, reductions, and their results.
 *
 * The adapters of a group form a tree. Each combines the contributions of its own host, its parent
 * and its children. When all of these but one have contributed, it sends the result to the
 * remaining one. So a reduction ends at the host that did not contribute, wherever that is. (The
 * switches follow the same rule, emu/packet/seg.h.) A result for all members (of a barrier or an
 * all-reduce) is complete at the tree's root, which sends it to the group as a multicast. The
 * switches copy it and merge the replies. With barrier=conditional no adapter sends a contribution
 * to a barrier. Instead the root asks all members by a network conditional whether they have
 * reached the barrier. With combining=switch a combine unit in each switch, which is an engine
 * without a host, replaces the inner adapters, and the group's tree of switches replaces the tree
 * of adapters.
 * Source: QsNet III §IV-A: counted events, reductions in adapters, and both designs of a barrier.
 *
 * A contribution of another adapter arrives exactly once because of flow.c, and a contribution of
 * the host because of the protocol of its library. The engine drops a repeated contribution, and
 * one to an operation that has ended, so that nothing is combined twice. The manager has reserved
 * memory for all results that can be in progress.
 */
#include <string.h>

#include "nic/engine/internal.h"

static void contribution_drop(struct engine *e, uint32_t buf)
{
    emu_count(&e->counts.against, 1);
    emu_pool_drop(engine_cache(e), buf);
}

/* --- combining ---------------------------------------------------------------------- */

/*
 * Return whether the segment in @buf has payload, which a host inside the fabric may omit
 * (internal.h).
 */
static bool has_payload(struct emu_pool *pool, uint32_t buf)
{
    return !engine_is_length_only(&emu_pool_seg(pool, buf)->hdr);
}

/*
 * Combine two buffers into one and return it. Takes both references. Whether a buffer is copied
 * depends on the scheduling of threads, because its sender may still hold a reference to it. The
 * order of the operands must not depend on this, because the result can depend on the order: the
 * minimum of 0.0 and -0.0 is the second operand.
 */
static uint32_t combine_bufs(struct engine *e, const struct emu_hdr *hdr, uint32_t acc, uint32_t in)
{
    acc = emu_combiner_own(engine_cache(e), acc, hdr->len);
    emu_combiner_fold(engine_cache(e), hdr, acc, in, has_payload);
    return acc;
}

/* --- contributions ------------------------------------------------------------------ */

static bool by_conditional(const struct engine *e, const struct engine_coll *state)
{
    return state->hdr.kind == EMU_BARRIER && e->tree.queries;
}

static bool is_top(const struct engine_tree *tree)
{
    return !emu_ports_has(tree->all, ENGINE_PARENT);
}

/* Return the outputs of a result for all members: the group, and the host here if there is one. */
static emu_ports all_get(const struct engine_tree *tree)
{
    return (tree->all & emu_port(ENGINE_HERE)) | emu_port(ENGINE_GROUP);
}

emu_ports engine_outs(const struct engine_tree *tree, uint8_t kind, emu_ports have)
{
    return emu_combiner_outs(kind, tree->all, have, tree->all & emu_port(ENGINE_PARENT),
                             all_get(tree));
}

/* Return the positions, as bits, to which @state's result goes; 0: contributions are missing. */
static emu_ports state_outs(const struct engine *e, const struct engine_coll *state)
{
    const struct engine_tree *tree = state->group->tree;

    if (by_conditional(e, state))
        return emu_port_if(ENGINE_QUERY, is_top(tree));
    return engine_outs(tree, state->hdr.kind, state->have);
}

/*
 * Return whether the contribution begins a new operation, or is still missing in the current one.
 */
static bool contribution_fits(const struct engine_coll *state, const struct emu_hdr *hdr,
                              uint32_t at)
{
    struct emu_hdr plain = *hdr;

    if (!emu_ports_any(state->have))
        return (!state->used || hdr->seq != state->hdr.seq) &&
               (hdr->kind == EMU_BARRIER || !engine_passed(state->group->tree, hdr->seq));
    plain.kind = engine_kind(hdr);
    return !emu_ports_any(state->outs) && !emu_ports_has(state->have, at) &&
           emu_combiner_agrees(&state->hdr, &plain);
}

/* Note the mismatch if a contribution does not fit because members started different operations. */
static void contribution_mismatch(struct engine_tree *tree, const struct engine_coll *state,
                                  const struct emu_hdr *hdr)
{
    struct emu_hdr other = *hdr;

    other.kind = engine_kind(hdr);
    emu_mismatch_note(&tree->mismatch, &state->hdr, &other);
}

/*
 * Return the header for the fault functions. In it, a contribution without payload has length 0,
 * because it has no bits that could flip.
 */
static struct emu_hdr contribution_hdr(struct engine *e, uint32_t buf)
{
    struct emu_hdr hdr = *engine_hdr(e, buf);

    if (!has_payload(engine_cache(e)->pool, buf))
        hdr.len = 0;
    return hdr;
}

/*
 * Return whether the parity of @state, which is about to be read, shows that a bit has flipped. If
 * so, the group has failed here, and the manager notifies its members.
 */
static bool state_damaged(struct engine *e, const struct engine_coll *state)
{
    if (__builtin_expect(!state->flipped, 1))
        return false;
    state->group->tree->failed = true;
    emu_count(&e->counts.damaged, 1);
    return true;
}

/* Return whether number @then is at least a window before @now. Numbers are modulo 2^32. */
static bool is_before_window(const struct engine_tree *tree, uint32_t then, uint32_t now)
{
    return now - then >= tree->window && now - then < UINT32_C(1) << 31;
}

/*
 * Forget numbers that are older than a window, because numbers repeat after 2^32. Check only one
 * state per call, so that a forged contribution, which may have any number, has little effect.
 * Every half window has a token, so each state is checked long before its number repeats.
 */
static void tree_release_old(struct engine_tree *tree, uint32_t seq)
{
    struct engine_coll *state = &tree->state[tree->check_next++ & (tree->window - 1)];

    if (!emu_ports_any(state->have) && is_before_window(tree, state->hdr.seq, seq))
        state->used = false;
    for (uint32_t i = 0; i < ENGINE_PASSED_RANGES; i++)
        if (is_before_window(tree, tree->passed[i].to, seq))
            tree->passed[i].from = tree->passed[i].to = seq;
}

void engine_passes_note(struct engine_tree *tree, uint32_t seq, uint32_t count)
{
    struct engine_seq_range *row = tree->passed;
    uint32_t i = 0;

    tree_release_old(tree, seq);
    while (i < ENGINE_PASSED_RANGES && row[i].to != seq)
        i++;
    if (i < ENGINE_PASSED_RANGES) {
        row += i;
    } else {
        memmove(row + 1, row, (ENGINE_PASSED_RANGES - 1) * sizeof *row);
        row->from = seq;
    }
    row->to = seq + count;
    if (row->to - row->from > tree->window)
        row->from = row->to - tree->window;
}

/* Add a contribution to @state. False: the state is damaged, and nothing was done. */
static bool state_add(struct engine *e, struct engine_coll *state, uint32_t from, uint32_t buf,
                      uint64_t at_ps)
{
    const struct engine_tree *tree = state->group->tree;
    bool faulty = __builtin_expect(e->tree.faults != NULL, 0);
    struct emu_hdr hdr = {0};
    uint32_t *at = &state->buf;

    if (faulty)
        hdr = contribution_hdr(e, buf);
    if (!emu_ports_any(state->have)) {
        state->hdr = *engine_hdr(e, buf);
        state->hdr.kind = engine_kind(&state->hdr);
        if (state->hdr.kind == EMU_BARRIER)
            tree_release_old(state->group->tree, state->hdr.seq);
        state->used = true;
        state->flipped = false;
        state->group->tree->open += state->hdr.kind != EMU_BARRIER;
    }
    if (engine_state_in_order(tree, state)) {
        at = emu_kept_at(engine_kept(tree, state), from);
        *at = buf;
    } else if (!emu_ports_any(state->have)) {
        *at = buf;
    } else if (state_damaged(e, state)) {
        return false;
    } else {
        *at = combine_bufs(e, &state->hdr, *at, buf);
    }
    if (faulty && emu_faults_fold(e->tree.faults, engine_cache(e), &hdr, at,
                                  !emu_ports_any(state->have), e->dev.timed, at_ps))
        state->flipped = e->tree.checks;
    state->have |= emu_port(from);
    emu_count(&e->counts.contributions, 1);
    return true;
}

/* Add the time to combine this contribution. Contributions are combined one after the other. */
static void combine_add_time(struct engine *e, const struct emu_hdr *hdr, uint64_t at_ps)
{
    if (e->tree.combine_ps < at_ps)
        e->tree.combine_ps = at_ps;
    e->tree.combine_ps += e->tree.header_ps + (hdr->len + 7u) / 8u * e->tree.word_ps;
}

static void state_clear(struct engine_coll *state)
{
    state->have = EMU_NO_PORTS;
    state->group->tree->open -= state->hdr.kind != EMU_BARRIER;
}

static bool result_go_now(struct engine *e, struct engine_coll *state);

/* Send the result of @state to @outs, now or when it is due. */
static void state_go(struct engine *e, struct engine_coll *state, emu_ports outs)
{
    state->outs = outs;
    if (result_go_now(e, state))
        return;
    state->due_ps = e->tree.combine_ps;
    engine_queue_add(&e->tree.results, &state->at);
    if (e->tree.results.first == &state->at)
        e->tree.results_ps = state->due_ps;
    engine_group_hold(state->group);
}

void engine_contribute_at(struct engine *e, struct engine_group *group, uint32_t at, uint32_t buf,
                          uint64_t at_ps)
{
    const struct emu_hdr *hdr = engine_hdr(e, buf);
    struct engine_tree *tree = group->tree;
    struct engine_coll *state = tree ? engine_state(tree, hdr->seq) : NULL;
    emu_ports outs;

    if (at == ENGINE_WIDTH || tree->failed || !contribution_fits(state, hdr, at)) {
        if (at != ENGINE_WIDTH && emu_ports_any(state->have))
            contribution_mismatch(tree, state, hdr);
        contribution_drop(e, buf);
        return;
    }
    if (!state_add(e, state, at, buf, at_ps)) {
        contribution_drop(e, buf);
        return;
    }
    combine_add_time(e, &state->hdr, at_ps);
    outs = state_outs(e, state);
    if (emu_ports_any(outs))
        state_go(e, state, outs);
}

uint32_t engine_position(const struct engine *e, const struct engine_group *group, uint32_t from)
{
    const struct engine_tree *tree = group->tree;

    if (tree && from == e->node)
        return ENGINE_HERE;
    for (uint32_t i = ENGINE_PARENT; tree && i < tree->width; i++)
        if (emu_ports_has(tree->all, i) && tree->node[i] == from)
            return i;
    return ENGINE_WIDTH;
}

void engine_contribute(struct engine *e, struct engine_group *group, uint32_t from, uint32_t buf,
                       uint64_t at_ps)
{
    engine_contribute_at(e, group, engine_position(e, group, from), buf, at_ps);
}

/* --- barriers by conditional -------------------------------------------------------- */

void engine_all_ready(struct engine *e, struct engine_coll *state, uint64_t at_ps)
{
    combine_add_time(e, &state->hdr, at_ps + e->tree.root_ps);
    state_go(e, state, all_get(state->group->tree));
}

void engine_barrier_over(struct engine *e, const struct emu_hdr *hdr)
{
    struct engine_group *group = engine_group_of(e, hdr->dst);
    struct engine_coll *state = group && group->tree ? engine_state(group->tree, hdr->seq) : NULL;

    if (!state || !emu_ports_any(state->have) || emu_ports_any(state->outs) || state->querying ||
        !by_conditional(e, state) || state->hdr.seq != hdr->seq)
        return;
    emu_pool_drop(engine_cache(e), state->buf);
    state->have = EMU_NO_PORTS;
}

/* --- results ------------------------------------------------------------------------ */

struct engine_to engine_result_to(const struct engine *e, const struct engine_group *group,
                                  uint32_t out)
{
    struct engine_to to = engine_to_group(e, group, ENGINE_TREE);

    if (out == ENGINE_GROUP)
        return to;
    return (struct engine_to){.dst = group->tree->node[out],
                              .class = ENGINE_TREE,
                              .only = group->tree->by_link ? to.only : 0};
}

/* Send the result to @out, together with one reference to its buffer. False: no packet is free. */
static bool result_send(struct engine *e, struct engine_coll *state, uint32_t out, uint64_t at_ps)
{
    if (out != ENGINE_HERE)
        return engine_post(e, state->buf, engine_result_to(e, state->group, out), at_ps);
    if (engine_hand_fast(e, state->buf))
        return true;
    if (engine_list_empty(&e->send.free))
        return false;
    engine_back(e, engine_begin(e, state->buf, engine_to_group(e, state->group, ENGINE_TREE)),
                ENGINE_NOTICE_SEGMENTS, at_ps);
    return true;
}

/*
 * Make the result of @state, in a buffer to which no other thread writes. If only the host of this
 * node gets the result, other readers may share its buffer, which saves a copy of 95 ns per
 * segment.
 */
static void result_make(struct engine *e, struct engine_coll *state)
{
    const struct engine_tree *tree = state->group->tree;
    struct emu_pool_cache *cache = engine_cache(e);
    bool stays = emu_ports_equal(state->outs, emu_port(ENGINE_HERE));

    if (engine_state_in_order(tree, state))
        state->buf =
            emu_kept_fold(cache, &state->hdr, engine_kept(tree, state), state->have, has_payload);
    else if (!stays)
        state->buf = emu_combiner_own(cache, state->buf, state->hdr.len);
    if (!stays)
        engine_hdr(e, state->buf)->src = e->node;
    /* marks buf as used; the kept contributions have been combined */
    state->have = emu_port(ENGINE_HERE);
    emu_count(&e->counts.results, 1);
}

/* Send the result to all its outputs. False: too few packets are free. */
static bool result_go(struct engine *e, struct engine_coll *state, uint64_t at_ps)
{
    while (emu_ports_any(state->outs)) {
        uint32_t out = emu_ports_first(state->outs);
        emu_ports rest = state->outs & ~emu_port(out);

        if (emu_ports_any(rest))
            emu_pool_share(engine_cache(e)->pool, state->buf, 1);
        if (!result_send(e, state, out, at_ps)) {
            if (emu_ports_any(rest))
                emu_pool_drop(engine_cache(e), state->buf);
            return false;
        }
        state->outs = rest;
    }
    state_clear(state);
    return true;
}

/*
 * Handle the next state in the queue of results. False: it must wait. Nothing is sent for a group
 * that all members have left; the buffers of its states are freed with the group.
 */
static bool state_next(struct engine *e, struct engine_coll *state, uint64_t at_ps)
{
    if (engine_group_of(e, state->group->id) != state->group) {
        state->outs = EMU_NO_PORTS;
        return true;
    }
    if (emu_ports_equal(state->outs, emu_port(ENGINE_QUERY))) {
        state->outs = EMU_NO_PORTS;
        engine_query_barrier(e, state, at_ps);
        return true;
    }
    if (!state->made) {
        if (state_damaged(e, state)) {
            state->outs = EMU_NO_PORTS;
            return true;
        }
        result_make(e, state);
        state->made = true;
    }
    if (!result_go(e, state, at_ps))
        return false;
    state->made = false;
    return true;
}

/* Clock raw: send a reduction's result if no other result waits. False: it must be queued. */
static bool result_go_now(struct engine *e, struct engine_coll *state)
{
    return !e->dev.timed && state->hdr.kind != EMU_BARRIER && engine_results_pass(&e->tree) &&
           state_next(e, state, 0);
}

/*
 * Drop all waiting results, and mark their groups as failed. The other buffers of such a group are
 * freed with the group.
 */
static void results_drop(struct engine *e)
{
    while (!engine_queue_empty(&e->tree.results)) {
        struct engine_coll *state = engine_coll_of(e->tree.results.first);

        if (state->made) {
            emu_pool_drop(engine_cache(e), state->buf);
            state_clear(state);
            state->made = false;
        }
        state->outs = EMU_NO_PORTS;
        state->group->tree->failed = true;
        engine_queue_pop(&e->tree.results);
        engine_group_release(state->group);
    }
}

void engine_results(struct engine *e, uint64_t at_ps)
{
    struct engine_coll *state;

    e->tree.results_ps = EMU_NEVER;
    if (e->tree.out)
        results_drop(e);
    if (e->tree.stalled)
        return;
    while (!engine_queue_empty(&e->tree.results)) {
        state = engine_coll_of(e->tree.results.first);
        if (state->due_ps > at_ps) {
            e->tree.results_ps = state->due_ps;
            return;
        }
        if (!state_next(e, state, at_ps))
            return; /* engine_free() continues when a packet is free */
        engine_queue_pop(&e->tree.results);
        engine_group_release(state->group);
    }
    engine_queries_go(e, at_ps);
    engine_posts_again(e, at_ps); /* using packets that the results did not need */
}

/* --- faults ------------------------------------------------------------------------- */

void engine_combine_faults(struct engine *e, struct emu_faults *faults)
{
    e->tree.faults = faults;
}

void engine_combine_stall(struct engine *e, bool stalled, uint64_t at_ps)
{
    e->tree.stalled = stalled;
    if (!stalled && !engine_queue_empty(&e->tree.results))
        e->tree.results_ps = at_ps;
}

void engine_combine_out(struct engine *e, bool out, uint64_t at_ps)
{
    e->tree.out = out;
    if (out)
        e->tree.results_ps = at_ps;
}

bool engine_combine_is_stuck(const struct engine *e)
{
    return !engine_queue_empty(&e->tree.results) && !engine_list_empty(&e->send.free);
}

uint32_t engine_combine_waiting(struct engine *e,
                                void (*report)(void *ctx, const struct emu_hdr *hdr), void *ctx)
{
    uint32_t waiting = 0;

    for (struct engine_queued *at = e->tree.results.first; at; at = at->next, waiting++)
        if (report)
            report(ctx, &engine_coll_of(at)->hdr);
    return waiting;
}
