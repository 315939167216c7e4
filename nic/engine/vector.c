/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vector.c - clock raw: contributions to a long vector, handled in runs.
 *
 * The contributions of a member arrive in packets of full segments with consecutive numbers.
 * Usually the same other members have contributed to the states of all these numbers. Such a
 * sequence is a *run*. This file makes the checks that do not depend on the number only once per
 * run. It combines each contribution in place, and sends the results that a run completes together,
 * in one packet or to the host. It handles only this regular case, and leaves all other
 * contributions to tree.c, which takes them one by one.
 */
#include "nic/engine/internal.h"

/* A run: the common properties of its contributions. */
struct vector_run {
    struct engine_group *group;
    uint32_t at;        /* position in the tree from which the contributions came */
    struct emu_hdr hdr; /* header of the first contribution */
    /*
     * Second word of the next contribution's header. Incrementing the number inside a header and
     * then reading the whole word would stall store forwarding: 7 % of a worker's time in a reduce.
     */
    uint64_t signature;
    bool passes;    /* the contributions pass unchanged, without a state */
    emu_ports had;  /* inputs that have already contributed to the same states */
    emu_ports outs; /* positions to which the results go; 0: no results yet */
    struct engine_to to;
    uint32_t room; /* how many results can be sent now */
};

/*
 * Contributions pass unchanged where nothing is combined, for example at the last node of a chain,
 * which only forwards its host's contributions, or at a root that does not contribute. All states
 * must be free, so that the contribution cannot belong to an operation in progress.
 */
emu_ports engine_passes(const struct engine *e, const struct engine_group *group, uint8_t kind,
                        uint32_t at)
{
    const struct engine_tree *tree = group->tree;

    if (tree->open || tree->kept || tree->failed || e->tree.faults ||
        !engine_results_pass(&e->tree))
        return EMU_NO_PORTS;
    return engine_outs(tree, kind, emu_port(at));
}

/* Begin a run with the contribution in @buf. False: leave this contribution to tree.c. */
static inline bool run_begin(struct engine *e, struct vector_run *run, uint32_t buf)
{
    struct engine_tree *tree = run->group->tree;
    const struct emu_hdr *hdr = engine_hdr(e, buf);
    const struct engine_coll *state;

    if ((hdr->kind != EMU_REDUCE && hdr->kind != EMU_ALLREDUCE) || hdr->len != EMU_PAYLOAD_BYTES)
        return false;
    run->hdr = *hdr;
    run->signature = emu_hdr_words(hdr).fields;
    run->had = EMU_NO_PORTS;
    run->outs = engine_passes(e, run->group, hdr->kind, run->at);
    run->passes = emu_ports_any(run->outs);
    if (run->passes)
        return !engine_passed(tree, hdr->seq);
    state = engine_state(tree, hdr->seq);
    if (emu_ports_any(state->outs) || emu_ports_has(state->have, run->at))
        return false;
    run->had = state->have;
    run->outs = engine_outs(tree, hdr->kind, run->had | emu_port(run->at));
    return true;
}

/* Set the destinations of the run's results, and how many (at most @most) can be sent now. */
static inline void run_aim(struct engine *e, struct vector_run *run, uint32_t most)
{
    emu_ports others = run->outs & ~emu_port(ENGINE_HERE);
    bool here = emu_ports_has(run->outs, ENGINE_HERE);

    run->room = most;
    if (emu_ports_any(run->outs) && !engine_results_pass(&e->tree))
        run->room = 0;
    if (emu_ports_any(others)) {
        uint32_t room;

        run->to = engine_result_to(e, run->group, emu_ports_first(others));
        room = engine_post_room(e, run->to);
        run->room = room < run->room ? room : run->room;
    }
    if (here && run->room && !engine_may_deliver_fast(e, run->room))
        run->room = 0;
}

/* Add the contribution in @buf to @state. False: it or its state does not fit the run. */
static inline bool run_add(struct engine *e, const struct vector_run *run,
                           struct engine_coll *state, uint32_t buf)
{
    struct emu_pool_cache *cache = engine_cache(e);

    if (emu_hdr_words(engine_hdr(e, buf)).fields != run->signature ||
        !emu_ports_equal(state->have, run->had) || emu_ports_any(state->outs))
        return false;
    if (!emu_ports_any(run->had)) {
        if ((state->used && state->hdr.seq == (uint32_t)run->signature) ||
            engine_passed(run->group->tree, (uint32_t)run->signature))
            return false;
        state->hdr = *engine_hdr(e, buf);
        state->used = true;
        state->flipped = false;
        state->buf = buf;
        return true;
    }
    if (emu_hdr_words(&state->hdr).fields != run->signature || state->flipped ||
        engine_is_length_only(engine_hdr(e, state->buf)))
        return false;
    state->buf = emu_combiner_own(cache, state->buf, EMU_PAYLOAD_BYTES);
    emu_combine_fold(run->hdr.op, run->hdr.type, emu_pool_bytes(cache->pool, state->buf),
                     emu_pool_bytes(cache->pool, buf), EMU_PAYLOAD_BYTES);
    emu_pool_drop_late(cache, buf);
    return true;
}

/* Make a result from @buf. Returns the buffer of the result, which replaces @buf. */
static inline uint32_t run_result(struct engine *e, const struct vector_run *run, uint32_t buf)
{
    if (emu_ports_equal(run->outs, emu_port(ENGINE_HERE)))
        return buf; /* the host only reads the buffer, which may be shared */
    buf = emu_combiner_own(engine_cache(e), buf, EMU_PAYLOAD_BYTES);
    engine_hdr(e, buf)->src = e->node;
    return buf;
}

static void run_leave(struct engine *e, const struct vector_run *run, const uint32_t *bufs,
                      uint32_t count)
{
    bool here = emu_ports_has(run->outs, ENGINE_HERE);
    bool others = emu_ports_any(run->outs & ~emu_port(ENGINE_HERE));

    emu_count(&e->counts.results, count);
    for (uint32_t s = 0; here && others && s < count; s++)
        emu_pool_share(engine_cache(e)->pool, bufs[s], 1);
    if (here)
        engine_hand_run(e, bufs, count);
    if (others)
        engine_post_run(e, bufs, count, run->to);
}

/*
 * Prefetch the buffers of the next @count states. They have usually left the inner caches, because
 * members run ahead of each other by up to a window.
 */
static inline void run_fetch(struct engine *e, const struct vector_run *run, uint32_t count)
{
    struct engine_tree *tree = run->group->tree;
    uint64_t signature = run->signature;

    for (uint32_t s = 0; s < count; s++, signature = emu_hdr_next(signature)) {
        uint32_t buf = engine_state(tree, (uint32_t)signature)->buf;

        if (buf != EMU_NO_BUF)
            emu_seg_prefetch(emu_pool_seg(engine_cache(e)->pool, buf), true);
    }
}

/*
 * Take contributions, up to @count, that belong to the run and can be taken now. Returns how many.
 */
static uint32_t run_take(struct engine *e, struct vector_run *run, const uint32_t *bufs,
                         uint32_t count)
{
    struct engine_tree *tree = run->group->tree;
    uint32_t result[ENGINE_SEGS_MAX], taken = 0;

    for (; taken < count && taken < run->room;
         taken++, run->signature = emu_hdr_next(run->signature)) {
        struct engine_coll *state = engine_state(tree, (uint32_t)run->signature);

        if (!run_add(e, run, state, bufs[taken]))
            break;
        if (emu_ports_any(run->outs)) {
            state->have = EMU_NO_PORTS;
            result[taken] = run_result(e, run, state->buf);
        } else {
            state->have |= emu_port(run->at);
        }
    }
    if (emu_ports_any(run->had) && emu_ports_any(run->outs))
        tree->open -= taken;
    else if (!emu_ports_any(run->had) && !emu_ports_any(run->outs))
        tree->open += taken;
    emu_count(&e->counts.contributions, taken);
    if (emu_ports_any(run->outs) && taken)
        run_leave(e, run, result, taken);
    return taken;
}

/* Do as run_take(), for contributions that pass unchanged. */
static uint32_t run_pass(struct engine *e, struct vector_run *run, const uint32_t *bufs,
                         uint32_t count)
{
    uint32_t result[ENGINE_SEGS_MAX], taken = 0;

    for (; taken < count && taken < run->room;
         taken++, run->signature = emu_hdr_next(run->signature)) {
        if (emu_hdr_words(engine_hdr(e, bufs[taken])).fields != run->signature)
            break;
        result[taken] = run_result(e, run, bufs[taken]);
    }
    if (!taken)
        return 0;
    engine_passes_note(run->group->tree, run->hdr.seq, taken);
    emu_count(&e->counts.contributions, taken);
    run_leave(e, run, result, taken);
    return taken;
}

/* Take contributions from position @at in runs. Returns how many. */
static uint32_t runs_take(struct engine *e, struct engine_group *group, uint32_t at,
                          const uint32_t *bufs, uint32_t count)
{
    struct vector_run run = {.group = group, .at = at};
    uint32_t taken = 0, some = 1;

    for (; some && taken < count; taken += some) {
        if (!run_begin(e, &run, bufs[taken]))
            break;
        run_aim(e, &run, count - taken);
        if (emu_ports_any(run.had))
            run_fetch(e, &run, count - taken);
        some = run.passes ? run_pass(e, &run, &bufs[taken], count - taken)
                          : run_take(e, &run, &bufs[taken], count - taken);
    }
    return taken;
}

void engine_contribute_all(struct engine *e, const uint32_t *bufs, uint32_t count, uint64_t at_ps)
{
    const struct emu_hdr *first = engine_hdr(e, bufs[0]);
    struct engine_group *group = engine_group_of(e, first->dst);
    uint32_t at = group ? engine_position(e, group, first->src) : ENGINE_WIDTH, s = 0;
    bool runs = !e->dev.timed && at != ENGINE_WIDTH && !group->tree->kept && !e->tree.faults;

    while (s < count) {
        if (runs && !group->tree->failed)
            s += runs_take(e, group, at, &bufs[s], count - s);
        if (s == count)
            return;
        if (group)
            engine_contribute_at(e, group, at, bufs[s++], at_ps);
        else
            emu_pool_drop(engine_cache(e), bufs[s++]);
    }
}
