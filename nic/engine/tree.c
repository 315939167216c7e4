/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree.c - collectives among adapters: barriers, reductions, and their results.
 *
 * The adapters of a group form a tree. Each combines the contributions of its own host, its parent
 * and its children. When all but one have contributed it sends the result to that one. So a
 * reduction ends at the host that did not contribute, wherever it is (the rule of the switches'
 * trees, emu/packet/seg.h). Results for all members (barriers, all-reduces) are complete at the
 * tree's root, which broadcasts them to the group; the switches copy them and merge the replies.
 * With barrier=conditional nothing is sent up: the root tests whether all members have arrived.
 * With combining=switch a combine unit in each switch, an engine without a host, replaces the inner
 * adapters, and the group's tree of switches replaces the tree of adapters.
 * Source: QsNet III §IV-A: counted events, adapter reductions, both designs of a barrier.
 *
 * Contributions of other adapters arrive exactly once (flow.c), those of the host by its protocol.
 * A repeated contribution, or one to an operation that has ended, is dropped, so nothing is counted
 * twice. The manager has reserved memory for all results that can be under way.
 */
#include <string.h>

#include "nic/engine/internal.h"

static void contribution_drop(struct engine *e, uint32_t buf)
{
    emu_count(&e->counts.against, 1);
    emu_pool_drop(engine_cache(e), buf);
}

/* --- combining ---------------------------------------------------------------------- */

/* Hosts that send lengths only give no payload. */
static bool has_payload(struct emu_pool *pool, uint32_t buf)
{
    return !engine_is_length_only(&emu_pool_seg(pool, buf)->hdr);
}

/*
 * Combine two buffers into one and return it; takes both references. The sender of a buffer may
 * still hold it, for a time that depends on threads; this may decide whether a copy is made, but
 * nothing else. The order of operands must not depend on it either: the minimum of 0.0 and -0.0 is
 * the second operand.
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

/* A result for all members goes to the group, and to the host here, if there is one. */
static emu_ports all_get(const struct engine_tree *tree)
{
    return (tree->all & emu_port(ENGINE_HERE)) | emu_port(ENGINE_GROUP);
}

emu_ports engine_outs(const struct engine_tree *tree, uint8_t kind, emu_ports have)
{
    return emu_combiner_outs(kind, tree->all, have, tree->all & emu_port(ENGINE_PARENT),
                             all_get(tree));
}

/* Where the result of @state goes, as bits; 0: contributions are missing. */
static emu_ports state_outs(const struct engine *e, const struct engine_coll *state)
{
    const struct engine_tree *tree = state->group->tree;

    if (by_conditional(e, state))
        return emu_port_if(ENGINE_QUERY, is_top(tree));
    return engine_outs(tree, state->hdr.kind, state->have);
}

/* Does the contribution start a new operation, or is it a new one to the operation under way? */
static bool contribution_fits(const struct engine_coll *state, const struct emu_hdr *hdr,
                              uint32_t at)
{
    struct emu_hdr asked = *hdr;

    if (!emu_ports_any(state->have))
        return (!state->used || hdr->seq != state->hdr.seq) &&
               (hdr->kind == EMU_BARRIER || !engine_passed(state->group->tree, hdr->seq));
    asked.kind = engine_kind(hdr);
    return !emu_ports_any(state->outs) && !emu_ports_has(state->have, at) &&
           emu_combiner_agrees(&state->hdr, &asked);
}

/* A contribution does not fit: record a possible mismatch of the members' operations. */
static void contribution_mismatch(struct engine_tree *tree, const struct engine_coll *state,
                                  const struct emu_hdr *hdr)
{
    struct emu_hdr other = *hdr;

    other.kind = engine_kind(hdr);
    emu_mismatch_note(&tree->mismatch, &state->hdr, &other);
}

/* The header as faults see it. A contribution without payload has no bits that could flip. */
static struct emu_hdr contribution_hdr(struct engine *e, uint32_t buf)
{
    struct emu_hdr hdr = *engine_hdr(e, buf);

    if (!has_payload(engine_cache(e)->pool, buf))
        hdr.len = 0;
    return hdr;
}

/*
 * When the state is read, does its parity show that a bit has flipped? Then the group has failed
 * here, and the manager notifies its members.
 */
static bool state_damaged(struct engine *e, const struct engine_coll *state)
{
    if (__builtin_expect(!state->flipped, 1))
        return false;
    state->group->tree->failed = true;
    emu_count(&e->counts.damaged, 1);
    return true;
}

/* Was @then more than a window before @now? Numbers are modulo 2^32. */
static bool is_before_window(const struct engine_tree *tree, uint32_t then, uint32_t now)
{
    return now - then >= tree->window && now - then < UINT32_C(1) << 31;
}

/*
 * Numbers repeat after 2^32, so old ones are forgotten long before: one state at a time, because a
 * forged contribution may have any number. Every half window has a token, so each state is visited
 * in time.
 */
static void tree_forget_old(struct engine_tree *tree, uint32_t seq)
{
    struct engine_coll *state = &tree->state[tree->forgot++ & (tree->window - 1)];

    if (!emu_ports_any(state->have) && is_before_window(tree, state->hdr.seq, seq))
        state->used = false;
    for (uint32_t i = 0; i < ENGINE_ROWS; i++)
        if (is_before_window(tree, tree->passed[i].to, seq))
            tree->passed[i].from = tree->passed[i].to = seq;
}

void engine_passes_note(struct engine_tree *tree, uint32_t seq, uint32_t count)
{
    struct engine_row *row = tree->passed;
    uint32_t i = 0;

    tree_forget_old(tree, seq);
    while (i < ENGINE_ROWS && row[i].to != seq)
        i++;
    if (i < ENGINE_ROWS) {
        row += i;
    } else {
        memmove(row + 1, row, (ENGINE_ROWS - 1) * sizeof *row);
        row->from = seq;
    }
    row->to = seq + count;
    if (row->to - row->from > tree->window)
        row->from = row->to - tree->window;
}

/* Add a contribution. False: the state is damaged, and nothing was done. */
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
            tree_forget_old(state->group->tree, state->hdr.seq);
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

/* Combining takes time; contributions are combined one after the other. */
static void combine_add_time(struct engine *e, const struct emu_hdr *hdr, uint64_t at_ps)
{
    if (e->tree.combine_ps < at_ps)
        e->tree.combine_ps = at_ps;
    e->tree.combine_ps += e->tree.header_ps + (hdr->len + 7u) / 8u * e->tree.word_ps;
}

/* The state is empty again. */
static void state_clear(struct engine_coll *state)
{
    state->have = EMU_NO_PORTS;
    state->group->tree->open -= state->hdr.kind != EMU_BARRIER;
}

static bool result_go_now(struct engine *e, struct engine_coll *state);

/* Send the result of @state to @outs: now, or when its combining is done. */
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
    combine_add_time(e, &state->hdr, at_ps);
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

/* Pass one reference to the result to @out. False: no packet is free. */
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
 * Make the buffer of @state one that nobody else writes. A result only for the host here may stay
 * shared with other readers: a copy takes 95 ns per segment.
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
    state->have = emu_port(ENGINE_HERE); /* the kept contributions have been used */
    emu_count(&e->counts.results, 1);
}

/* Send the result to all its outputs. False: packets to send it are missing. */
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
 * Handle the next waiting state. False: it must wait. Nothing is sent for a group that all have
 * left; its buffers are freed with it.
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
            state->outs = EMU_NO_PORTS; /* a damaged result goes nowhere */
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

/* Clock raw: send a vector's result immediately if none waits. False: it must be queued. */
static bool result_go_now(struct engine *e, struct engine_coll *state)
{
    return !e->dev.timed && state->hdr.kind != EMU_BARRIER && engine_results_pass(&e->tree) &&
           state_next(e, state, 0);
}

/* Drop all results, and mark their groups as failed; their other buffers are freed with them. */
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
            return; /* until a packet is free: engine_free() */
        engine_queue_pop(&e->tree.results);
        engine_group_release(state->group);
    }
    engine_queries_go(e, at_ps);
    engine_posts_again(e, at_ps); /* packets that results did not need */
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

bool engine_combine_stands(const struct engine *e)
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
