/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * combine.c - the combine units: combine contributions and send the results.
 *
 * A *contribution* is a segment with the operand of one member of a group, or with the result of
 * another switch. The contributions with one sequence number of a group are combined in a *state*
 * (common/group.h). A unit takes contributions from an output of its own, and sends results through
 * a row of its own (§2, Figure 2). It can always take the contributions that wait for it: memory
 * for the states was reserved when the group was created, and adapters keep within the window of
 * states, so the contributions of one group never block another group. Results wait in the unit's
 * list until the crosspoints of its row have space.
 *
 * Several units form a tree of leaves and one root (§2, Figure 3). The ports are divided among the
 * leaves. A leaf sends its partial result through the crossbar to the root when all its ports in
 * the group have contributed, or when only one port of the whole switch has not contributed. The
 * result will leave through that port. (A wire between the leaves tells each how many ports are
 * missing.)
 *
 * A REDUCE is complete when k - 1 of the tree's k ports at this switch have contributed. Its result
 * leaves through the remaining port. From then on, a contribution from that port is dropped, even
 * while the root still waits for partial results of leaves. An ALLREDUCE or BARRIER is combined
 * towards the tree's top switch. It is complete there with contributions of all k ports, and its
 * result leaves through all k ports. The paper instead reduces to one adapter, which then
 * broadcasts the result.
 */
#include "emu/buffer/combiner.h"
#include "switch/crosspoint/combine.h"
#include "switch/crosspoint/cut_through.h"

#define COMBINE_BURST 64 /* limit of contributions that a unit takes in one pass */

/* --- states ------------------------------------------------------------------------- */

/* Return whether there is payload: a barrier's segments have no buffer. */
static bool combine_has_payload(struct emu_pool *pool, uint32_t buf)
{
    (void)pool;
    return buf != EMU_NO_BUF;
}

/* Return the outputs of @state's result if ports @have have contributed; empty: no result yet. */
static inline emu_ports combine_outs(const struct switch_group *group,
                                     const struct switch_state *state, emu_ports have)
{
    emu_ports up = group->up < 0 ? EMU_NO_PORTS : emu_port((uint32_t)group->up);

    return emu_combiner_outs(state->hdr.kind, group->ports, have, up, group->ports);
}

/*
 * Combine the kept contributions to state @i of a group in port order. Returns the result's buffer.
 */
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

/* --- results ------------------------------------------------------------------------ */

/* Return whether the unit's row has space for one more segment for each of @outs. */
static bool results_room(const struct switch_crosspoints *xp, uint32_t row, emu_ports outs)
{
    emu_each_port (o, outs)
        if (*switch_count(&xp->bar, row, o) == xp->xpoint_slots)
            return false;
    return true;
}

/*
 * Put a result into the crossbar. This function is not inlined, because writing a part of a word of
 * the entry and reading all of it immediately stalls the processor, and most results need no entry.
 */
static __attribute__((noinline)) void results_queue(struct switch_crosspoints *xp, uint32_t u,
                                                    emu_ports outs,
                                                    const struct switch_state *state,
                                                    uint64_t at_ps)
{
    const struct switch_partial *part = &state->part[u];
    struct emu_entry entry = {.time_ps = part->done_ps > at_ps ? part->done_ps : at_ps,
                              .hdr = state->hdr,
                              .buf = part->buf,
                              .born_ns = state->born_ns};

    switch_queue(xp, xp->bar.sw.ports + u, outs, &entry);
}

/*
 * Send unit @u's result of state @i. On clock raw, it goes straight to the rings of processes, if
 * all its outputs lead to processes that have space now. Otherwise it goes into the crossbar.
 * False: the crosspoints of the unit's row have no space.
 */
static bool results_enter(struct switch_crosspoints *xp, uint32_t u,
                          const struct switch_group *group, uint32_t i, uint64_t at_ps)
{
    const struct switch_state *state = switch_group_state(group, i);
    const struct switch_partial *part = &state->part[u];
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

/* Append the result of state @i to the results that wait at unit @u. */
static __attribute__((noinline)) void combine_queue(struct switch_crosspoints *xp,
                                                    const struct switch_group *group, uint32_t i,
                                                    uint32_t u)
{
    struct switch_partial *part = switch_group_partial(group, i, u);
    struct switch_results *results = &group->results[u];
    struct switch_unit *unit = &xp->unit[u];

    part->queued = true;
    if (results->some)
        switch_group_partial(group, results->last, u)->next = (uint16_t)i;
    else
        results->first = (uint16_t)i;
    results->last = (uint16_t)i;
    results->some = true;
    if (!results->pending)
        unit->group[unit->last++ % SWITCH_PENDING_MAX] = group->id;
    results->pending = true;
}

/* Send the result of state @i now, if no other result waits before it. False: it must be queued. */
static inline bool combine_sent_now(struct switch_crosspoints *xp, const struct switch_group *group,
                                    uint32_t i, uint32_t u)
{
    return xp->access->fast_path && !switch_unit_pending(xp, u) &&
           results_enter(xp, u, group, i, 0);
}

/*
 * Return whether the parity of unit @u's part of @state, which the unit reads, is wrong. If so, the
 * group has failed here, and the manager notifies its members.
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

/* Let unit @u read its part of @state. False: an injected fault has damaged the part. */
static inline bool combine_read(struct switch_crosspoints *xp, const struct switch_group *group,
                                const struct switch_state *state, uint32_t u)
{
    return __builtin_expect(!xp->impaired, 1) || !combine_damaged(xp, group, state, u);
}

/* Send the complete result of unit @u's part of state @i. False: the part is damaged. */
static inline bool combine_pass(struct switch_crosspoints *xp, const struct switch_group *group,
                                uint32_t i, uint32_t u, uint64_t at_ps)
{
    struct switch_partial *part = switch_group_partial(group, i, u);

    if (!combine_read(xp, group, switch_group_state(group, i), u))
        return false;
    if (group->in_order)
        part->buf = combine_kept(xp, group, i, part->have);
    part->done_ps = at_ps;
    part->passed = true;
    if (!combine_sent_now(xp, group, i, u))
        combine_queue(xp, group, i, u);
    return true;
}

/* --- progress of a state ------------------------------------------------------------ */

static emu_ports combine_leaf(const struct switch_crosspoints *xp, uint32_t u)
{
    return emu_ports_range(u * xp->leaf_ports, xp->leaf_ports);
}

/* Return the rows of the leaves that have contributions if the ports @have have contributed. */
static emu_ports combine_leaves(const struct switch_crosspoints *xp, emu_ports have)
{
    emu_ports rows = EMU_NO_PORTS;

    for (uint32_t u = 0; u + 1 < xp->units; u++)
        if (emu_ports_any(have & combine_leaf(xp, u)))
            rows |= emu_port(xp->bar.sw.ports + u);
    return rows;
}

/*
 * Send the partial result of leaf @u to the root, if the leaf has contributions and none of its
 * ports is missing. @all: missing ports do not matter, because the outputs of the result are fixed.
 */
static void combine_pass_leaf(struct switch_crosspoints *xp, const struct switch_group *group,
                              uint32_t i, uint32_t u, bool all, uint64_t at_ps)
{
    const struct switch_partial *part = switch_group_partial(group, i, u);
    emu_ports missing = group->ports & combine_leaf(xp, u) & ~part->have;

    if (emu_ports_any(part->have) && !part->passed && (all || !emu_ports_any(missing)))
        combine_pass(xp, group, i, u, at_ps);
}

/* Free @state for a new operation, because the root has sent its result. */
static inline void combine_end(const struct switch_crosspoints *xp, struct switch_state *state)
{
    state->active = false;
    for (uint32_t u = 0; u < xp->units; u++) {
        state->part[u].have = EMU_NO_PORTS;
        state->part[u].passed = false;
    }
}

/* Do as combine_progress(), for switches with several units. */
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

/* Unit @u has one more contribution. Send the results of all parts that are complete now. */
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

/* --- contributions ------------------------------------------------------------------ */

/*
 * Return whether contribution @in from @row may be combined. Begins a new operation if none is in
 * progress. A contribution from a port fits only until the outputs of the result are fixed, because
 * the leaves send their partial results then.
 */
static inline bool combine_fits(const struct switch_crosspoints *xp,
                                const struct switch_group *group, struct switch_state *state,
                                uint32_t u, uint32_t row, const struct emu_entry *in)
{
    bool port = row < xp->bar.sw.ports;

    if (port && !emu_ports_has(group->ports, row))
        return false;
    /* happens only if members do not keep within their window */
    if (state->part[xp->units - 1].queued)
        return false;
    if (state->active)
        return emu_combiner_agrees(&state->hdr, &in->hdr) &&
               !emu_ports_has(state->part[u].have, row) && !(port && emu_ports_any(state->outs));
    if (!port || (state->used && state->hdr.seq == in->hdr.seq)) /* the operation has ended */
        return false;
    combine_begin(state, in);
    return true;
}

/* Account for a contribution from @row that was combined, or kept to be combined in port order. */
static inline void combine_arrived(struct switch_crosspoints *xp, const struct switch_group *group,
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
 * Return whether a contribution is dropped, after a fault was injected into the units. Units that
 * are out of service drop all. A unit also drops all contributions to a group with a damaged state,
 * which cannot complete any operation.
 */
static __attribute__((noinline)) bool combine_drops(struct switch_crosspoints *xp,
                                                    const struct switch_group *group, uint32_t u)
{
    xp->impaired->taken++;
    if (!xp->impaired->out && !(group && group->units && group->results[u].failed))
        return false;
    emu_count(&xp->bar.sw.counts.dropped_out_of_service, 1);
    return true;
}

/* Let a fault flip a bit of a contribution that was just combined into @state, in buffer *@at. */
static __attribute__((noinline)) void combine_flip(struct switch_crosspoints *xp,
                                                   struct switch_state *state, uint32_t u,
                                                   uint32_t row, const struct emu_hdr *hdr,
                                                   uint32_t *at, uint64_t at_ps)
{
    const struct switch_dev *sw = &xp->bar.sw;
    bool begins = row < sw->ports && !emu_ports_any(state->have);

    if (xp->impaired->faults &&
        emu_faults_fold(xp->impaired->faults, switch_cache(xp), hdr, at, begins, sw->dev.timed,
                        at_ps) &&
        sw->profile->combine_check == EMU_COMBINE_CHECK_PARITY)
        state->flipped |= (uint16_t)(1u << u);
}

/* Put a contribution that fits into unit @u's part of state @i. False: the part is damaged. */
static inline bool combine_put(struct switch_crosspoints *xp, const struct switch_group *group,
                               uint32_t i, uint32_t u, uint32_t row, const struct emu_entry *in,
                               uint64_t at_ps)
{
    struct switch_state *state = switch_group_state(group, i);
    struct switch_partial *part = &state->part[u];
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
    if (__builtin_expect(xp->impaired != NULL, 0))
        combine_flip(xp, state, u, row, &in->hdr, at, at_ps);
    return true;
}

/* Process a contribution. A repeated or mismatching one is counted and dropped. */
static inline void combine_fold(struct switch_crosspoints *xp, const struct switch_group *group,
                                uint32_t u, uint32_t row, const struct emu_entry *in,
                                uint64_t at_ps)
{
    uint32_t i = in->hdr.seq & (group ? group->window - 1 : 0);
    struct switch_state *state = group && group->units ? switch_group_state(group, i) : NULL;

    if (__builtin_expect(xp->impaired != NULL, 0) && combine_drops(xp, group, u)) {
        emu_pool_drop(switch_cache(xp), in->buf);
        return;
    }
    if (!state || !combine_fits(xp, group, state, u, row, in)) {
        if (state && state->active)
            emu_mismatch_note(group->mismatch, &state->hdr, &in->hdr);
        switch_drop(xp, group, in);
        return;
    }
    if (combine_put(xp, group, i, u, row, in, at_ps))
        combine_arrived(xp, group, state, i, u, row, at_ps);
    else
        emu_pool_drop(switch_cache(xp), in->buf);
}

/* --- waiting results ---------------------------------------------------------------- */

/* Send a group's waiting results as far as crosspoints have space. Returns true if none is left. */
static bool results_move(struct switch_crosspoints *xp, uint32_t u,
                         const struct switch_group *group, uint64_t at_ps)
{
    struct switch_results *results = &group->results[u];

    while (results->some) {
        struct switch_partial *part = switch_group_partial(group, results->first, u);

        if (!results_enter(xp, u, group, results->first, at_ps))
            return false;
        part->queued = false;
        results->some = results->first != results->last;
        results->first = part->next;
    }
    return true;
}

/* Serve each group in the list once. A group whose crosspoints are full goes to the list's end. */
void switch_unit_flush(struct switch_crosspoints *xp, uint32_t u, uint64_t at_ps)
{
    struct switch_unit *unit = &xp->unit[u];
    uint32_t count = unit->last - unit->first;

    while (count--) {
        uint32_t id = unit->group[unit->first++ % SWITCH_PENDING_MAX];
        struct switch_group *group = switch_group_of(&xp->bar.sw, id);

        if (!group)
            continue; /* the group was removed in the meantime */
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

/* --- entry points ------------------------------------------------------------------- */

void switch_unit_take(struct switch_crosspoints *xp, uint32_t u, uint32_t row, uint64_t at_ps)
{
    struct emu_entry in = *xp->access->dequeue(xp, row, xp->bar.sw.ports + u);

    combine_fold(xp, switch_group_of(&xp->bar.sw, in.hdr.dst), u, row, &in, at_ps);
}

/* Prefetch distances, in sequence numbers: a member's contributions arrive in order. */
#define COMBINE_AHEAD       4u /* for the buffer of a partial result */
#define COMBINE_AHEAD_STATE 8u /* for the state, which has the index of that buffer */

/* Prefetch for later contributions: the data of a wide window is larger than a core's cache. */
static inline void combine_prefetch(struct switch_crosspoints *xp, const struct switch_group *group,
                                    uint32_t i, uint32_t u)
{
    uint32_t mask = group->window - 1;
    const struct switch_state *next = switch_group_state(group, (i + COMBINE_AHEAD) & mask);

    emu_prefetch_to_write(switch_group_state(group, (i + COMBINE_AHEAD_STATE) & mask));
    if (next->active && emu_ports_any(next->part[u].have) && next->part[u].buf != EMU_NO_BUF)
        emu_seg_prefetch(emu_pool_seg(switch_cache(xp)->pool, next->part[u].buf), true);
}

/* Return whether a contribution can be combined into @state straight from the sender's memory. */
static inline bool combine_is_direct(const struct switch_crosspoints *xp,
                                     const struct switch_group *group,
                                     const struct switch_state *state, uint32_t u, uint32_t row,
                                     const struct emu_hdr *hdr)
{
    return !xp->impaired && !group->in_order && hdr->len && state->active &&
           !emu_ports_any(state->outs) && emu_ports_any(state->part[u].have) &&
           !emu_ports_has(state->part[u].have, row) && emu_combiner_agrees(&state->hdr, hdr);
}

/* Combine a contribution into the partial result of state @i. */
static inline void combine_add(struct switch_crosspoints *xp, const struct switch_group *group,
                               uint32_t i, uint32_t u, const struct emu_hdr *hdr,
                               const struct emu_seg *seg)
{
    uint32_t buf = switch_group_partial(group, i, u)->buf;

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

    if (!state || !combine_is_direct(xp, group, state, u, row, hdr))
        return false;
    combine_add(xp, group, i, u, hdr, seg);
    combine_arrived(xp, group, state, i, u, row, 0);
    return true;
}

uint32_t switch_unit_add_run(struct switch_crosspoints *xp, const struct switch_group *group,
                             uint32_t row, struct emu_hostif *hostif, struct emu_hdr *hdr,
                             const struct emu_seg *seg, uint32_t most)
{
    const struct emu_hdr like = *hdr;
    uint32_t run = 0;

    do {
        uint32_t i = combine_index(group, hdr);
        struct switch_state *state = switch_group_state(group, i);

        if (hdr->dst != like.dst || hdr->kind != like.kind ||
            !combine_is_direct(xp, group, state, 0, row, hdr) ||
            emu_ports_any(combine_outs(group, state, state->have | emu_port(row))))
            break;
        combine_add(xp, group, i, 0, hdr, seg);
        state->part[0].have |= emu_port(row);
        state->have |= emu_port(row);
        emu_hostif_pass(hostif);
        run++;
    } while (run < most && (seg = emu_hostif_peek(hostif, hdr)));
    emu_count(&xp->bar.sw.counts.combined, run);
    return run;
}

emu_ports switch_unit_ends(const struct switch_crosspoints *xp, const struct switch_group *group,
                           uint32_t row, const struct emu_hdr *hdr)
{
    const struct switch_state *state = switch_group_state(group, combine_index(group, hdr));

    if (!combine_is_direct(xp, group, state, 0, row, hdr))
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
 * The leaves act first, then the root, so that the root finds the partial results of the leaves.
 * Results that stay at a unit, or reach the root only after it has acted, wait for the next pass.
 * The switch requests this pass itself, because no other device would wake it.
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
