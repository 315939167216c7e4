/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * combine.c - the combine units: contributions fold into one, the result goes on.
 *
 * A unit hangs on an output of its own and feeds back into a row of its own
 * (§2, Figure 2). It always takes what waits for it: room for the state was set
 * aside when the group was made, and adapters keep within their window, so
 * contributions of one group never hold up another. Results wait in the unit's
 * list until the crosspoints of its row have room.
 *
 * Several units form a tree of leaves and one root (§2, Figure 3): the ports are
 * divided among the leaves, and a leaf passes its partial result through the
 * crossbar to the root: as soon as all of its ports in the group have
 * contributed, or when only one port of the whole switch is missing, which is
 * where the result will go (a wire from each leaf tells the others how many
 * ports are missing).
 *
 * A REDUCE is complete with k - 1 of the tree's k ports here and leaves by the
 * k-th. Which one that is, is settled once: what comes after it is too late, though the root still
 * waits for the leaves' parts. An ALLREDUCE or BARRIER folds towards the tree's top switch, is
 * complete there with all k, and goes out by all k: the paper's reduction and broadcast without the
 * way down to a root's adapter and up again.
 */
#include "emu/buffer/combiner.h"
#include "switch/crosspoint/combine.h"
#include "switch/crosspoint/through.h"

#define COMBINE_BURST 64 /* contributions in one pass */

/* --- folding: what is in a state, and what comes of it ------------------------------ */

/* A barrier has no buffer. */
static bool combine_has_payload(struct emu_pool *pool, uint32_t buf)
{
    (void)pool;
    return buf != EMU_NO_BUF;
}

/* Where the result of @state goes, once the ports @have have contributed; 0: others are missing. */
static inline emu_ports combine_outs(const struct switch_group *group,
                                     const struct switch_state *state, emu_ports have)
{
    emu_ports up = group->up < 0 ? EMU_NO_PORTS : emu_port((uint32_t)group->up);

    return emu_combiner_outs(state->hdr.kind, group->ports, have, up, group->ports);
}

/* In port order: fold what was kept of state @i. Returns the buffer with the result. */
static uint32_t combine_kept(struct switch_crosspoints *xp, const struct switch_group *group,
                             uint32_t i, emu_ports have)
{
    return emu_kept_fold(switch_cache(xp), &switch_group_state(group, i)->hdr,
                         switch_group_kept(group, i, xp->bar.sw.ports), have, combine_has_payload);
}

static inline void combine_begin(struct switch_state *state, const struct emu_entry *in)
{
    state->have = state->outs = EMU_NO_PORTS;
    state->flipped = 0;
    state->hdr = in->hdr;
    state->born_ns = in->born_ns;
    state->active = state->used = true;
}

/* --- results go on ------------------------------------------------------------------ */

/* May the unit's row take one more segment for each of @outs? */
static bool results_room(const struct switch_crosspoints *xp, uint32_t row, emu_ports outs)
{
    emu_each_port (o, outs)
        if (*switch_count(&xp->bar, row, o) == xp->xpoint_slots)
            return false;
    return true;
}

/*
 * Into the crossbar. By itself: to make a descriptor is to write part of a word and to read all of
 * it at once, for which a processor waits, and most results take none.
 */
static __attribute__((noinline)) void results_queue(struct switch_crosspoints *xp, uint32_t u,
                                                    emu_ports outs,
                                                    const struct switch_state *state,
                                                    uint64_t at_ps)
{
    const struct switch_part *part = &state->part[u];
    struct emu_entry entry = {.time_ps = part->done_ps > at_ps ? part->done_ps : at_ps,
                              .hdr = state->hdr,
                              .buf = part->buf,
                              .born_ns = state->born_ns};

    switch_queue(xp, xp->bar.sw.ports + u, outs, &entry);
}

/*
 * Unit @u's result of state @i goes on: raw, to processes that have room for it now, at once; else
 * into the crossbar. False: its crosspoints have no room.
 */
static bool results_enter(struct switch_crosspoints *xp, uint32_t u,
                          const struct switch_group *group, uint32_t i, uint64_t at_ps)
{
    const struct switch_state *state = switch_group_state(group, i);
    const struct switch_part *part = &state->part[u];
    uint32_t root = xp->units - 1;
    emu_ports outs = u == root ? state->outs : emu_port(xp->bar.sw.ports + root);

    if (u == root && switch_copies_out(xp, outs) &&
        switch_copy_out(xp, outs, &state->hdr, emu_pool_payload(switch_cache(xp)->pool, part->buf)))
        emu_pool_drop(switch_cache(xp), part->buf);
    else if (results_room(xp, xp->bar.sw.ports + u, outs))
        results_queue(xp, u, outs, state, at_ps);
    else
        return false;
    if (u == root)
        emu_count(&xp->bar.sw.counts.results, 1);
    return true;
}

/* The result of state @i, after those of its unit that wait. */
static __attribute__((noinline)) void combine_queue(struct switch_crosspoints *xp,
                                                    const struct switch_group *group, uint32_t i,
                                                    uint32_t u)
{
    struct switch_part *part = switch_group_part(group, i, u);
    struct switch_results *results = &group->results[u];
    struct switch_unit *unit = &xp->unit[u];

    part->queued = true;
    if (results->some)
        switch_group_part(group, results->last, u)->next = (uint16_t)i;
    else
        results->first = (uint16_t)i;
    results->last = (uint16_t)i;
    results->some = true;
    if (!results->pending)
        unit->group[unit->last++ % SWITCH_PENDING_MAX] = group->id;
    results->pending = true;
}

/* Nothing waits before the result of state @i, and it is on its way. */
static inline bool combine_at_once(struct switch_crosspoints *xp, const struct switch_group *group,
                                   uint32_t i, uint32_t u)
{
    return xp->access->at_once && !switch_unit_pending(xp, u) && results_enter(xp, u, group, i, 0);
}

/*
 * Unit @u reads its part of @state: does its parity say that a bit has flipped? Then the group has
 * failed here, and the manager tells its members.
 */
static __attribute__((noinline)) bool combine_damaged(struct switch_crosspoints *xp,
                                                      const struct switch_group *group,
                                                      const struct switch_state *state, uint32_t u)
{
    if (!state->flipped)
        return false;
    group->results[u].failed = true;
    emu_count(&xp->bar.sw.counts.damaged, 1);
    return true;
}

/* False: what was read is damaged. Nothing ever is where nothing was ever wrong with the units. */
static inline bool combine_read(struct switch_crosspoints *xp, const struct switch_group *group,
                                const struct switch_state *state, uint32_t u)
{
    return __builtin_expect(!xp->ailing, 1) || !combine_damaged(xp, group, state, u);
}

/* Unit @u has its part of state @i: its result goes on. False: it is damaged, and stays. */
static inline bool combine_pass(struct switch_crosspoints *xp, const struct switch_group *group,
                                uint32_t i, uint32_t u, uint64_t at_ps)
{
    struct switch_part *part = switch_group_part(group, i, u);

    if (!combine_read(xp, group, switch_group_state(group, i), u))
        return false;
    if (group->in_order)
        part->buf = combine_kept(xp, group, i, part->have);
    part->done_ps = at_ps;
    part->passed = true;
    if (!combine_at_once(xp, group, i, u))
        combine_queue(xp, group, i, u);
    return true;
}

/* --- a state makes progress --------------------------------------------------------- */

/* The ports of leaf @u. */
static emu_ports combine_leaf(const struct switch_crosspoints *xp, uint32_t u)
{
    return emu_ports_range(u * xp->leaf_ports, xp->leaf_ports);
}

/* The leaves that pass something on once @have has contributed: rows of theirs. */
static emu_ports combine_leaves(const struct switch_crosspoints *xp, emu_ports have)
{
    emu_ports rows = EMU_NO_PORTS;

    for (uint32_t u = 0; u + 1 < xp->units; u++)
        if (emu_ports_any(have & combine_leaf(xp, u)))
            rows |= emu_port(xp->bar.sw.ports + u);
    return rows;
}

/* A leaf has contributions: pass them on, if it is time. */
static void combine_pass_leaf(struct switch_crosspoints *xp, const struct switch_group *group,
                              uint32_t i, uint32_t u, bool all, uint64_t at_ps)
{
    const struct switch_part *part = switch_group_part(group, i, u);
    emu_ports missing = group->ports & combine_leaf(xp, u) & ~part->have;

    if (emu_ports_any(part->have) && !part->passed && (all || !emu_ports_any(missing)))
        combine_pass(xp, group, i, u, at_ps);
}

/* The root has passed its result on: a new state may begin here. */
static inline void combine_end(const struct switch_crosspoints *xp, struct switch_state *state)
{
    state->active = false;
    for (uint32_t u = 0; u < xp->units; u++) {
        state->part[u].have = EMU_NO_PORTS;
        state->part[u].passed = false;
    }
}

/* Several units: @u has one more contribution. What is complete now? */
static __attribute__((noinline)) void combine_progress_tree(struct switch_crosspoints *xp,
                                                            const struct switch_group *group,
                                                            struct switch_state *state, uint32_t i,
                                                            uint32_t u, uint64_t at_ps)
{
    uint32_t root = xp->units - 1;

    if (!emu_ports_any(state->outs))
        state->outs = combine_outs(group, state, state->have);
    for (uint32_t leaf = 0; leaf < root; leaf++)
        if (emu_ports_any(state->outs) || leaf == u)
            combine_pass_leaf(xp, group, i, leaf, emu_ports_any(state->outs), at_ps);
    if (!emu_ports_any(state->outs) ||
        !emu_ports_equal(state->part[root].have, combine_leaves(xp, state->have)))
        return;
    if (combine_pass(xp, group, i, root, at_ps))
        combine_end(xp, state);
}

/* The same, where one unit is all there is. */
static inline void combine_progress(struct switch_crosspoints *xp, const struct switch_group *group,
                                    struct switch_state *state, uint32_t i, uint32_t u,
                                    uint64_t at_ps)
{
    if (xp->units > 1) {
        combine_progress_tree(xp, group, state, i, u, at_ps);
        return;
    }
    state->outs = combine_outs(group, state, state->have);
    if (!emu_ports_any(state->outs))
        return;
    if (combine_pass(xp, group, i, 0, at_ps))
        combine_end(xp, state);
}

/* --- a contribution comes ----------------------------------------------------------- */

static void combine_drop(struct switch_crosspoints *xp, const struct switch_group *group,
                         const struct emu_entry *in)
{
    switch_count_drop(&xp->bar.sw, group, &in->hdr);
    emu_pool_drop(switch_cache(xp), in->buf);
}

/*
 * May @in be folded from @row? A new state begins if there is none. From a port only until it is
 * settled where the result goes: from then on the leaves' parts are not theirs any more.
 */
static inline bool combine_fits(const struct switch_crosspoints *xp,
                                const struct switch_group *group, struct switch_state *state,
                                uint32_t u, uint32_t row, const struct emu_entry *in)
{
    bool port = row < xp->bar.sw.ports;

    if (port && !emu_ports_has(group->ports, row))
        return false;
    if (state->part[xp->units - 1].queued) /* only if members ignore their window */
        return false;
    if (state->active)
        return emu_combiner_agrees(&state->hdr, &in->hdr) &&
               !emu_ports_has(state->part[u].have, row) && !(port && emu_ports_any(state->outs));
    if (!port || (state->used && state->hdr.seq == in->hdr.seq)) /* done already */
        return false;
    combine_begin(state, in);
    return true;
}

/* A contribution is folded, or kept. */
static inline void combine_came(struct switch_crosspoints *xp, const struct switch_group *group,
                                struct switch_state *state, uint32_t i, uint32_t u, uint32_t row,
                                uint64_t at_ps)
{
    state->part[u].have |= emu_port(row);
    if (row < xp->bar.sw.ports) {
        state->have |= emu_port(row);
        emu_count(&xp->bar.sw.counts.combined, 1);
    }
    combine_progress(xp, group, state, i, u, at_ps);
}

/*
 * Something is, or was, wrong with the units. Is what comes dropped? By units that are out of
 * service all is, and of a group of which a state was found damaged: no operation of it can end.
 */
static __attribute__((noinline)) bool combine_scraps(struct switch_crosspoints *xp,
                                                     const struct switch_group *group, uint32_t u)
{
    xp->ailing->taken++;
    if (!xp->ailing->out && !(group && group->units && group->results[u].failed))
        return false;
    emu_count(&xp->bar.sw.counts.scrapped, 1);
    return true;
}

/* A contribution is in @state, in the buffer @at: a fault may flip a bit of it there. */
static __attribute__((noinline)) void combine_ails(struct switch_crosspoints *xp,
                                                   struct switch_state *state, uint32_t u,
                                                   uint32_t row, const struct emu_hdr *hdr,
                                                   uint32_t *at, uint64_t at_ps)
{
    const struct switch_dev *sw = &xp->bar.sw;
    bool begins = row < sw->ports && !emu_ports_any(state->have);

    if (xp->ailing->faults &&
        emu_faults_fold(xp->ailing->faults, switch_cache(xp), hdr, at, begins, sw->dev.timed,
                        at_ps) &&
        sw->profile->combine_check == EMU_COMBINE_CHECK_PARITY)
        state->flipped |= (uint16_t)(1u << u);
}

/* A contribution that fits is put into unit @u's part of state @i. False: that is damaged. */
static inline bool combine_put(struct switch_crosspoints *xp, const struct switch_group *group,
                               uint32_t i, uint32_t u, uint32_t row, const struct emu_entry *in,
                               uint64_t at_ps)
{
    struct switch_state *state = switch_group_state(group, i);
    struct switch_part *part = &state->part[u];
    uint32_t *at = &part->buf;

    if (group->in_order) {
        at = emu_kept_at(switch_group_kept(group, i, xp->bar.sw.ports), row);
        *at = in->buf;
    } else if (!emu_ports_any(part->have)) {
        *at = in->buf;
    } else if (combine_read(xp, group, state, u)) {
        emu_combiner_fold(switch_cache(xp), &in->hdr, *at, in->buf, combine_has_payload);
    } else {
        return false;
    }
    if (__builtin_expect(xp->ailing != NULL, 0))
        combine_ails(xp, state, u, row, &in->hdr, at, at_ps);
    return true;
}

/* One contribution. A repeated or disagreeing one is counted and dropped. */
static inline void combine_fold(struct switch_crosspoints *xp, const struct switch_group *group,
                                uint32_t u, uint32_t row, const struct emu_entry *in,
                                uint64_t at_ps)
{
    uint32_t i = in->hdr.seq & (group ? group->window - 1 : 0);
    struct switch_state *state = group && group->units ? switch_group_state(group, i) : NULL;

    if (__builtin_expect(xp->ailing != NULL, 0) && combine_scraps(xp, group, u)) {
        emu_pool_drop(switch_cache(xp), in->buf);
        return;
    }
    if (!state || !combine_fits(xp, group, state, u, row, in)) {
        if (state && state->active)
            emu_clash_note(group->clash, &state->hdr, &in->hdr);
        combine_drop(xp, group, in);
        return;
    }
    if (combine_put(xp, group, i, u, row, in, at_ps))
        combine_came(xp, group, state, i, u, row, at_ps);
    else
        emu_pool_drop(switch_cache(xp), in->buf);
}

/* --- results that waited ------------------------------------------------------------ */

/* Move one group's results to the crosspoints. Returns true when none is left. */
static bool results_move(struct switch_crosspoints *xp, uint32_t u,
                         const struct switch_group *group, uint64_t at_ps)
{
    struct switch_results *results = &group->results[u];

    while (results->some) {
        struct switch_part *part = switch_group_part(group, results->first, u);

        if (!results_enter(xp, u, group, results->first, at_ps))
            return false;
        part->queued = false;
        results->some = results->first != results->last;
        results->first = part->next;
    }
    return true;
}

/* Each pending group in turn; one whose crosspoints are full goes to the end of the line. */
void switch_unit_flush(struct switch_crosspoints *xp, uint32_t u, uint64_t at_ps)
{
    struct switch_unit *unit = &xp->unit[u];
    uint32_t count = unit->last - unit->first;

    while (count--) {
        uint32_t id = unit->group[unit->first++ % SWITCH_PENDING_MAX];
        struct switch_group *group = switch_group_of(&xp->bar.sw, id);

        if (!group)
            continue; /* taken away meanwhile */
        group->results[u].pending = !results_move(xp, u, group, at_ps);
        if (group->results[u].pending)
            unit->group[unit->last++ % SWITCH_PENDING_MAX] = id;
    }
}

void switch_units_flush(struct switch_crosspoints *xp, uint64_t at_ps)
{
    for (uint32_t u = 0; u < xp->units; u++)
        if (switch_unit_pending(xp, u))
            switch_unit_flush(xp, u, at_ps);
}

/* --- what units do ------------------------------------------------------------------ */

void switch_unit_take(struct switch_crosspoints *xp, uint32_t u, uint32_t row, uint64_t at_ps)
{
    struct emu_entry in = *xp->access->dequeue(xp, row, xp->bar.sw.ports + u);

    combine_fold(xp, switch_group_of(&xp->bar.sw, in.hdr.dst), u, row, &in, at_ps);
}

/* Contributions of a member come in the order of their numbers: so far it is looked ahead. */
#define COMBINE_AHEAD       4u /* to what a contribution is folded into */
#define COMBINE_AHEAD_STATE 8u /* to the state that says where that is */

/*
 * The states of a wide window, and what lies in them, are more than a core's cache holds. Each
 * contribution asks for the lines of those that come after it.
 */
static inline void combine_prefetch(struct switch_crosspoints *xp, const struct switch_group *group,
                                    uint32_t i, uint32_t u)
{
    uint32_t mask = group->window - 1;
    const struct switch_state *next = switch_group_state(group, (i + COMBINE_AHEAD) & mask);

    emu_prefetch_to_write(switch_group_state(group, (i + COMBINE_AHEAD_STATE) & mask));
    if (next->active && emu_ports_any(next->part[u].have) && next->part[u].buf != EMU_NO_BUF)
        emu_seg_prefetch(emu_pool_seg(switch_cache(xp)->pool, next->part[u].buf), true);
}

/* May a contribution by @row be added to @state, which is that of its number? */
static inline bool combine_adds(const struct switch_crosspoints *xp,
                                const struct switch_group *group, const struct switch_state *state,
                                uint32_t u, uint32_t row, const struct emu_hdr *hdr)
{
    return !xp->ailing && !group->in_order && hdr->len && state->active &&
           !emu_ports_any(state->outs) && emu_ports_any(state->part[u].have) &&
           !emu_ports_has(state->part[u].have, row) && emu_combiner_agrees(&state->hdr, hdr);
}

/* It is. */
static inline void combine_add(struct switch_crosspoints *xp, const struct switch_group *group,
                               uint32_t i, uint32_t u, const struct emu_hdr *hdr,
                               const struct emu_seg *seg)
{
    uint32_t buf = switch_group_part(group, i, u)->buf;

    if (group->window == EMU_WINDOW_WIDE)
        combine_prefetch(xp, group, i, u);
    emu_combine_fold(hdr->op, hdr->type, emu_pool_bytes(switch_cache(xp)->pool, buf), seg->payload,
                     hdr->len);
}

static inline uint32_t combine_index(const struct switch_group *group, const struct emu_hdr *hdr)
{
    return hdr->seq & (group->window - 1);
}

bool switch_unit_add(struct switch_crosspoints *xp, const struct switch_group *group, uint32_t u,
                     uint32_t row, const struct emu_hdr *hdr, const struct emu_seg *seg)
{
    uint32_t i = combine_index(group, hdr);
    struct switch_state *state = group->units ? switch_group_state(group, i) : NULL;

    if (!state || !combine_adds(xp, group, state, u, row, hdr))
        return false;
    combine_add(xp, group, i, u, hdr, seg);
    combine_came(xp, group, state, i, u, row, 0);
    return true;
}

uint32_t switch_unit_add_run(struct switch_crosspoints *xp, const struct switch_group *group,
                             uint32_t row, struct emu_hostif *edge, struct emu_hdr *hdr,
                             const struct emu_seg *seg, uint32_t most)
{
    const struct emu_hdr like = *hdr;
    uint32_t run = 0;

    do {
        uint32_t i = combine_index(group, hdr);
        struct switch_state *state = switch_group_state(group, i);

        if (hdr->dst != like.dst || hdr->kind != like.kind ||
            !combine_adds(xp, group, state, 0, row, hdr) ||
            emu_ports_any(combine_outs(group, state, state->have | emu_port(row))))
            break;
        combine_add(xp, group, i, 0, hdr, seg);
        state->part[0].have |= emu_port(row);
        state->have |= emu_port(row);
        emu_hostif_pass(edge);
        run++;
    } while (run < most && (seg = emu_hostif_peek(edge, hdr)));
    emu_count(&xp->bar.sw.counts.combined, run);
    return run;
}

emu_ports switch_unit_ends(const struct switch_crosspoints *xp, const struct switch_group *group,
                           uint32_t row, const struct emu_hdr *hdr)
{
    const struct switch_state *state = switch_group_state(group, combine_index(group, hdr));

    if (!combine_adds(xp, group, state, 0, row, hdr))
        return EMU_NO_PORTS;
    return combine_outs(group, state, state->have | emu_port(row));
}

uint32_t switch_unit_end(struct switch_crosspoints *xp, const struct switch_group *group,
                         uint32_t row, const struct emu_hdr *hdr, const struct emu_seg *seg,
                         struct emu_hdr *result)
{
    uint32_t i = combine_index(group, hdr);
    struct switch_state *state = switch_group_state(group, i);

    combine_add(xp, group, i, 0, hdr, seg);
    state->have |= emu_port(row);
    state->outs = combine_outs(group, state, state->have);
    combine_end(xp, state);
    *result = state->hdr;
    return state->part[0].buf;
}

void switch_unit_fold(struct switch_crosspoints *xp, const struct switch_group *group, uint32_t u,
                      uint32_t row, const struct emu_entry *in)
{
    combine_fold(xp, group, u, row, in, 0);
}

/*
 * The leaves, then the root, which finds their parts there. Results that are still at a unit, or
 * reach the root only now that it has made room, are for the next pass. The device marks itself,
 * since no other would wake it for them.
 */
uint32_t switch_combine(struct switch_crosspoints_raw *raw)
{
    struct switch_crosspoints *xp = &raw->xp;
    uint32_t taken = 0;

    if (switch_units_stalled(xp))
        return 0;
    for (uint32_t u = 0; u < xp->units; u++) {
        struct switch_out *out = &xp->bar.out[xp->bar.sw.ports + u];

        for (uint32_t left = COMBINE_BURST; emu_ports_any(out->waiting) && left; left--, taken++) {
            out->last = (uint8_t)emu_ports_next(out->waiting, out->last);
            switch_unit_take(xp, u, out->last, 0);
            raw->touched |= emu_port(out->last);
        }
    }
    switch_units_flush(xp, 0);
    for (uint32_t u = 0; u < xp->units; u++)
        if (emu_ports_any(xp->bar.out[xp->bar.sw.ports + u].waiting))
            emu_dev_again(&xp->bar.sw.dev);
    return taken;
}
