/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream.c - collectives that the switches execute: one stream of numbered segments per group.
 *
 * The operations of a group form one stream of segments (emu/packet/seg.h). Switches hold states
 * for a *window* of numbers. The last number of each half window belongs to a *token*, a barrier of
 * the adapters. No member sends in half window h before the token of half window h - 2 has
 * returned. The indexes of segments in this file do not count the tokens: a half window has
 * usable() such segments, and segment i has the number seq_of(i) on the wire. Three counts of half
 * windows advance along the stream:
 *   cur     half windows in which all segments are complete at this member
 *   issued  half windows whose token this member has sent
 *   done    half windows whose token has returned; half window h may be sent if h - 2 < done
 * It follows that done <= issued <= cur. An arriving segment is in half window cur or cur + 1: a
 * member sends in half window h only after token h - 2 has returned, and that token returns only
 * after this member has sent it, too. The segments of half windows cur and cur + 1 are *bound* to
 * their operations: the table `owner` names the operation of each. A segment that arrives before
 * its operation is posted (or before this process has joined) goes to the reorder buffer.
 *
 * A segment is complete when its result has arrived or, if this member only contributes, when the
 * segment is in the up ring (to the fabric).
 *
 * QsNet III §IV-A broadcasts into a buffer of the library if the members' addresses differ, and
 * pipelines large broadcasts: each segment is copied out while the next one arrives. This stream
 * does the same. Its buffer is the down ring (from the fabric) or, at members that have not posted
 * the operation yet, the reorder buffer. Bound segments are copied from the ring directly to their
 * destination.
 */
#include "nic/host/group/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/packet/kind.h"
#include "emu/util/combine.h"
#include "emu/util/now.h"

static uint32_t half_numbers(const struct fabemu_group *g)
{
    return g->window / 2;
}

/*
 * Return how many segments of operations a half window has: all its numbers except the token's.
 */
static uint32_t usable(const struct fabemu_group *g)
{
    return half_numbers(g) - 1;
}

/*
 * Return the half window of segment @index. Divides by constants, which compiles to
 * multiplications.
 */
static inline uint64_t half_of(const struct fabemu_group *g, uint64_t index)
{
    return g->window == EMU_WINDOW ? index / (EMU_WINDOW / 2 - 1)
                                   : index / (EMU_WINDOW_WIDE / 2 - 1);
}

/* Return the number of segment @index on the wire, which also counts the tokens before it. */
static uint64_t seq_of(const struct fabemu_group *g, uint64_t index)
{
    return index + half_of(g, index);
}

static uint64_t token_seq(const struct fabemu_group *g, uint64_t half)
{
    return half * half_numbers(g) + usable(g);
}

static bool is_token(const struct fabemu_group *g, uint32_t seq)
{
    /* half_numbers() is a power of two, so usable() is also the mask of a position in a half
       window */
    return (seq & usable(g)) == usable(g);
}

/* Return how many half windows @seq is ahead of @half. The number on the wire has only 32 bits. */
static uint32_t halves_ahead(const struct fabemu_group *g, uint32_t seq, uint64_t half)
{
    return (seq / half_numbers(g) - (uint32_t)half) & (UINT32_MAX / half_numbers(g));
}

static uint32_t slot_of(const struct fabemu_group *g, uint32_t seq)
{
    return seq & (g->window - 1);
}

static bool half_open(const struct fabemu_group *g, uint64_t half)
{
    return half < g->done + 2;
}

/* --- mismatches: members that call different operations ----------------------------- */

static struct emu_pending_what what_of(uint8_t kind, uint8_t op, uint8_t type, uint32_t root,
                                       uint64_t bytes)
{
    bool has_root = emu_kind_traits(kind)->root != EMU_ROOT_NONE;

    return (struct emu_pending_what){.bytes = bytes,
                                     .root = has_root ? root : EMU_PENDING_ANY,
                                     .kind = kind,
                                     .op = op,
                                     .type = type};
}

struct emu_pending_what nic_stream_what(const struct nic_coll *c)
{
    struct emu_pending_what what = what_of(c->kind, c->op, c->type, c->root, c->bytes);

    what.call = c->post.req->call;
    return what;
}

uint32_t nic_stream_awaits(const struct fabemu_group *g, const struct nic_coll *c)
{
    return (uint32_t)seq_of(g, c->first + c->done);
}

/* Return the number, from 1, of the operation that has segment @index; 0: not remembered. */
static uint64_t recent_number(const struct fabemu_group *g, uint64_t index)
{
    for (uint64_t n = g->begun; n && g->begun - n < NIC_GROUP_RECENT; n--)
        if (g->recent[(n - 1) % NIC_GROUP_RECENT].first <= index)
            return n;
    return 0;
}

/*
 * Report to the fabric that the sender of @seg has called another operation than this member for
 * segment @index. Do nothing if a mismatch was reported before, or if @seg may be a duplicate.
 * @bytes: size of the segment that this member awaits; 0: it awaits none.
 */
static void mismatch_note(struct fabemu_group *g, uint64_t index, uint64_t bytes,
                          const struct emu_seg *seg)
{
    struct emu_pending_mismatch *mismatch = &g->fab->pending.mismatch;
    uint64_t number = recent_number(g, index);
    const struct nic_recent *mine = &g->recent[(number - 1) % NIC_GROUP_RECENT];
    const struct emu_hdr *hdr = &seg->hdr;
    uint8_t kind = (uint8_t)emu_hdr_kind(hdr);
    uint32_t sender = kind == EMU_MULTICAST ? hdr->src : g->fab->info.node;

    if (!number || mismatch->node != EMU_PENDING_ANY ||
        (!bytes && kind == mine->kind && (sender == mine->root || kind >= EMU_ALLREDUCE)))
        return;
    *mismatch = (struct emu_pending_mismatch){
        .group = g->id,
        .node = hdr->src,
        .number = number,
        .mine = what_of(mine->kind, mine->op, mine->type, mine->root, bytes),
        .other = what_of(kind, hdr->op, hdr->type,
                         kind == EMU_MULTICAST ? hdr->src : EMU_PENDING_ANY, hdr->len)};
    memcpy(mismatch->name, g->name, sizeof mismatch->name);
    emu_pending_write(&g->fab->hostif.shared->pending, &g->fab->pending);
}

/* --- completion --------------------------------------------------------------------- */

static void coll_report(const struct fabemu_group *g, const struct nic_coll *c, uint64_t now_ns,
                        struct emu_finished_shared *ring)
{
    const struct emu_finished finished = {.first = c->first,
                                          .began_ns = c->began_ns,
                                          .ended_ns = now_ns,
                                          .bytes = c->bytes,
                                          .group = g->id,
                                          .root = c->root,
                                          .members = g->members < UINT16_MAX ? (uint16_t)g->members
                                                                             : UINT16_MAX,
                                          .kind = c->kind,
                                          .op = c->op,
                                          .type = c->type,
                                          .report_bits = c->draw.report_bits};

    emu_finished_write(ring, &finished);
}

static void coll_count(const struct fabemu_group *g, const struct nic_coll *c)
{
    struct emu_hostif_shared *shared = g->fab->hostif.shared;
    struct emu_comm_cell *cell =
        &shared->comm.cell[EMU_COMM_NETWORK][c->kind - EMU_MULTICAST][emu_comm_size(c->bytes)];
    uint64_t now_ns;

    emu_comm_called(cell, c->bytes);
    if (!c->timed)
        return;
    now_ns = nic_now_ns(g->fab);
    if (c->draw.timed)
        emu_comm_timed(cell, now_ns - c->began_ns, c->draw.weight_bits);
    if (c->draw.report_bits != EMU_COMM_UNREPORTED)
        coll_report(g, c, now_ns, &shared->drawn);
    if (atomic_load_explicit(&shared->watched, memory_order_relaxed))
        coll_report(g, c, now_ns, &shared->finished);
}

void nic_coll_end(struct fabemu_group *g, struct nic_coll *c)
{
    emu_list_del(&c->post.link);
    if (c->counted && !c->status)
        coll_count(g, c);
    if (c->ended)
        c->ended(g, c);
    else
        nic_complete(g->fab, c->post.req, c->status);
}

/* Note that @count segments of one half window are complete. This may complete and free @c. */
static void segments_complete(struct fabemu_group *g, struct nic_coll *c, uint64_t index,
                              uint32_t count)
{
    g->complete[half_of(g, index) % 2] += count;
    while (g->complete[g->cur % 2] == usable(g)) {
        g->complete[g->cur % 2] = 0;
        g->cur++;
    }
    c->done += count;
    if (c->done == c->segs)
        nic_coll_end(g, c);
}

static size_t segment_bytes(const struct nic_coll *c, uint64_t k)
{
    uint64_t left = c->bytes - k * c->step;

    return left < c->step ? (size_t)left : c->step;
}

/* A segment of kind EMU_REDUCE contains contributions of other members, not a result. */
static inline bool lacks_own_contribution(const struct emu_hdr *hdr)
{
    return hdr->kind == EMU_REDUCE;
}

/* Store the result of the k-th segment. If @seg lacks this member's contribution, combine both. */
static inline void result_store(const struct nic_coll *c, uint64_t k, const struct emu_seg *seg,
                                size_t bytes)
{
    uint8_t *out = c->out + k * c->step;
    const uint8_t *in;

    if (!lacks_own_contribution(&seg->hdr)) {
        emu_copy(out, seg->payload, bytes);
        return;
    }
    in = c->in + k * c->step;
    if (in != out) /* start with this member's own contribution */
        emu_copy(out, in, bytes);
    emu_combine_fold(c->op, c->type, out, seg->payload, bytes);
}

static void segment_store(struct fabemu_group *g, struct nic_coll *c, uint64_t k,
                          const struct emu_seg *seg)
{
    size_t bytes = segment_bytes(c, k);
    bool reduces = c->kind == EMU_REDUCE || c->kind == EMU_ALLREDUCE;

    if (seg->hdr.kind != c->kind || seg->hdr.len != bytes ||
        (reduces && (seg->hdr.op != c->op || seg->hdr.type != c->type))) {
        c->status = -EPROTO; /* the members have called different operations */
        mismatch_note(g, c->first + k, bytes, seg);
        return;
    }
    if (bytes)
        result_store(c, k, seg, bytes);
}

static void group_reorder(struct fabemu_group *g, const struct emu_seg *seg)
{
    uint32_t at = slot_of(g, seg->hdr.seq);

    if (!g->reorder_buf)
        g->reorder_buf = malloc(g->window * sizeof *g->reorder_buf);
    if (!g->reorder_buf || g->reorder_used[at]) {
        g->fab->counts.malformed++;
        return;
    }
    g->reorder_used[at] = true;
    g->reorder_count++;
    g->reorder_buf[at] = *seg;
}

static void segment_take(struct fabemu_group *g, uint64_t index, const struct emu_seg *seg)
{
    struct nic_coll **owner = &g->owner[slot_of(g, seg->hdr.seq)];
    struct nic_coll *c = *owner;
    uint64_t k = c ? index - c->first : 0;
    bool waits = c && c->awaits, early = waits && c->sends && k >= c->sent;

    if (!waits || early) {
        g->fab->counts.malformed++;
        if (nic_group_may_be_early(&seg->hdr))
            mismatch_note(g, index, 0, seg);
        return;
    }
    *owner = NULL;
    segment_store(g, c, k, seg);
    segments_complete(g, c, index, 1);
}

/* --- binding, reorder buffer -------------------------------------------------------- */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Return the first index after the half window of @index. */
static uint64_t half_end(const struct fabemu_group *g, uint64_t index)
{
    return (half_of(g, index) + 1) * usable(g);
}

/*
 * Receive the segments in the reorder buffer whose index is from @index to @index + @count - 1. All
 * of them are in one half window.
 */
static void reorder_take(struct fabemu_group *g, uint64_t index, uint64_t count)
{
    uint32_t at = slot_of(g, (uint32_t)seq_of(g, index));

    for (uint64_t i = 0; g->reorder_count && i < count; i++) {
        if (g->reorder_used[at + i]) {
            g->reorder_used[at + i] = false;
            g->reorder_count--;
            segment_take(g, index + i, &g->reorder_buf[at + i]);
        }
    }
}

/*
 * Bind @count segments of @c, beginning with @index, all in one half window. This may complete @c
 * and free it. Segments for which this member gets no result have no owner.
 */
static void bind_run(struct fabemu_group *g, struct nic_coll *c, uint64_t index, uint64_t count)
{
    uint32_t at = slot_of(g, (uint32_t)seq_of(g, index));

    for (uint64_t i = 0; c->awaits && i < count; i++)
        g->owner[at + i] = c;
    reorder_take(g, index, count);
}

static struct nic_coll *coll_after(const struct fabemu_group *g, const struct nic_coll *c)
{
    struct emu_list *next = c->post.link.next;

    return next == &g->ops ? NULL : emu_list_entry(next, struct nic_coll, post.link);
}

static void group_bind(struct fabemu_group *g)
{
    uint64_t end;

    while (g->binding && g->bound < (end = (g->cur + 2) * usable(g))) {
        struct nic_coll *c = g->binding;
        uint64_t index = g->bound, of_c = c->first + c->segs;

        g->bound = least(least(end, of_c), half_end(g, index));
        if (g->bound == of_c)
            g->binding = coll_after(g, c);
        bind_run(g, c, index, g->bound - index);
    }
}

/* --- sending ------------------------------------------------------------------------ */

/* Advance `done` over the tokens that have returned and that this member has sent. */
static void tokens_done(struct fabemu_group *g)
{
    while (g->done < g->issued && g->token_back[g->done % NIC_TOKENS]) {
        g->token_back[g->done % NIC_TOKENS] = false;
        g->done++;
    }
}

static uint32_t tokens_send(struct fabemu_group *g)
{
    uint32_t sent = 0;

    while (g->issued < g->cur && half_open(g, g->issued)) {
        if (!nic_group_claim(g, EMU_BARRIER, token_seq(g, g->issued)))
            break;
        g->issued++;
        sent++;
        tokens_done(g);
    }
    return sent;
}

static void sending_next(struct fabemu_group *g)
{
    struct emu_list *at = g->sending->post.link.next;

    while (at != &g->ops && !emu_list_entry(at, struct nic_coll, post.link)->sends)
        at = at->next;
    g->sending = at == &g->ops ? NULL : emu_list_entry(at, struct nic_coll, post.link);
}

/* Send the k-th segment of @c. Returns false if there is no space. */
static bool segment_send(struct fabemu_group *g, const struct nic_coll *c, uint64_t k, uint64_t seq)
{
    struct emu_seg *seg = nic_group_claim(g, c->kind, seq);

    if (!seg)
        return false;
    seg->hdr.op = c->op;
    seg->hdr.type = c->type;
    seg->hdr.len = (uint8_t)segment_bytes(c, k);
    if (seg->hdr.len)
        emu_copy(seg->payload, c->in + k * c->step, seg->hdr.len);
    return true;
}

/*
 * Send at most @most consecutive segments of g->sending, all in one half window. If this member
 * only contributes, segments are complete when they are sent. Returns the number sent; 0: the ring
 * has no space, or members may not send in this half window yet.
 */
static uint32_t run_send(struct fabemu_group *g, uint32_t most)
{
    struct nic_coll *c = g->sending;
    uint64_t index = c->first + c->sent, seq = seq_of(g, index), count;
    uint32_t sent;

    if (!half_open(g, half_of(g, index)))
        return 0;
    /* cur may have advanced, and segments must be bound before they are sent */
    if (g->bound <= index)
        group_bind(g);
    count = least(least(g->bound, half_end(g, index)), c->first + c->segs) - index;
    count = least(count, most);
    if (count >= EMU_STREAM_SEGS)
        emu_hostif_nic_stream(&g->fab->hostif);
    for (sent = 0; sent < count && segment_send(g, c, c->sent + sent, seq + sent);)
        sent++;
    c->sent += sent;
    if (c->sent == c->segs) {
        emu_hostif_nic_streamed(&g->fab->hostif);
        sending_next(g);
    }
    if (sent && !c->awaits)
        segments_complete(g, c, index, sent);
    return sent;
}

uint32_t nic_stream_send(struct fabemu_group *g)
{
    uint32_t sent = tokens_send(g), run = 1;

    while (g->sending && sent < NIC_GROUP_BURST && run) {
        run = run_send(g, NIC_GROUP_BURST - sent);
        sent += run;
    }
    group_bind(g);
    return sent + tokens_send(g);
}

/* Choose whether to time @c. Do not count operations that the library itself has posted. */
static void coll_choose_timing(struct fabemu_group *g, struct nic_coll *c)
{
    uint32_t *calls = &g->calls[c->kind - EMU_MULTICAST][emu_comm_size(c->bytes)];

    c->counted = !c->ended;
    if (!c->counted)
        return;
    c->draw = emu_comm_draw((*calls)++);
    c->timed = c->draw.timed ||
               atomic_load_explicit(&g->fab->hostif.shared->watched, memory_order_relaxed);
    if (c->timed)
        c->began_ns = nic_now_ns(g->fab);
}

void nic_stream_add(struct fabemu_group *g, struct nic_coll *c)
{
    assert(g->fab->locked && g->joined && c->segs && !emu_listed(&c->post.link));
    c->first = g->posted;
    coll_choose_timing(g, c);
    g->posted += c->segs;
    g->recent[g->begun++ % NIC_GROUP_RECENT] = (struct nic_recent){
        .first = c->first, .root = c->root, .kind = c->kind, .op = c->op, .type = c->type};
    emu_list_add(&g->ops, &c->post.link);
    if (!g->binding)
        g->binding = c;
    if (!g->sending && c->sends)
        g->sending = c;
    group_bind(g);
}

/* --- receiving ---------------------------------------------------------------------- */

static void token_receive(struct fabemu_group *g, const struct emu_seg *seg)
{
    uint32_t ahead = halves_ahead(g, seg->hdr.seq, g->done);
    bool *back = &g->token_back[(g->done + ahead) % NIC_TOKENS];
    bool early = g->done + ahead >= g->issued;

    if (ahead >= NIC_TOKENS || early || *back) {
        g->fab->counts.malformed++;
        return;
    }
    *back = true;
    tokens_done(g);
}

static void stream_receive(struct fabemu_group *g, const struct emu_seg *seg)
{
    uint32_t half = half_numbers(g);
    uint32_t ahead = seg->hdr.seq - (uint32_t)(g->cur * half);
    uint64_t index = (g->cur + (ahead >= half)) * usable(g) + (ahead & usable(g));

    if (seg->hdr.len > EMU_PAYLOAD_BYTES || ahead >= g->window || is_token(g, ahead)) {
        g->fab->counts.malformed++;
    } else if (index < g->bound) {
        segment_take(g, index, seg);
    } else if (nic_group_may_be_early(&seg->hdr)) {
        group_reorder(g, seg);
    } else { /* a result for which our contribution is missing */
        g->fab->counts.malformed++;
    }
}

void nic_stream_receive(struct fabemu_group *g, const struct emu_seg *seg)
{
    if (emu_hdr_is_token(&seg->hdr))
        token_receive(g, seg);
    else
        stream_receive(g, seg);
}

/*
 * Return how many segments of @c, beginning with the k-th, may be received together: all that are
 * in one half window.
 */
static uint64_t run_most(const struct fabemu_group *g, const struct nic_coll *c, uint64_t k)
{
    uint64_t end = least(c->sends ? c->sent : c->segs, c->bytes / c->step);

    end = least(end, half_end(g, c->first + k) - c->first);
    return end > k ? end - k : 0;
}

/* Return whether @seg is a full result for @c. */
static bool is_full_result(const struct nic_coll *c, const struct emu_seg *seg)
{
    return seg->hdr.kind == c->kind && seg->hdr.len == c->step &&
           (c->kind == EMU_MULTICAST || (seg->hdr.op == c->op && seg->hdr.type == c->type));
}

/* Return whether @seg has number @seq and is otherwise like the segment with header @like. */
static bool run_continues(const struct emu_seg *seg, const struct emu_hdr *like, uint32_t seq)
{
    return seg->hdr.dst == like->dst && seg->hdr.seq == seq && seg->hdr.kind == like->kind &&
           seg->hdr.len == like->len && seg->hdr.op == like->op && seg->hdr.type == like->type;
}

/*
 * Check the first segment completely. The following segments must only be like the first, and their
 * operation must still wait for them.
 */
uint32_t nic_stream_receive_run(struct fabemu_group *g, const struct emu_seg *seg, uint32_t most)
{
    struct emu_hostif_nic *nic = &g->fab->hostif;
    const struct emu_hdr hdr = seg->hdr;
    uint32_t half = half_numbers(g), ahead = hdr.seq - (uint32_t)(g->cur * half), run = 0;
    uint64_t index = (g->cur + (ahead >= half)) * usable(g) + (ahead & usable(g)), k;
    struct nic_coll **owner = &g->owner[slot_of(g, hdr.seq)], *c = *owner;

    if (ahead >= g->window || is_token(g, ahead) || index >= g->bound || !c || !c->awaits ||
        !c->out || !is_full_result(c, seg))
        return 0;
    k = index - c->first;
    most = (uint32_t)least(most, run_most(g, c, k));
    while (run < most && owner[run] == c) {
        result_store(c, k + run, seg, c->step);
        owner[run++] = NULL;
        emu_hostif_nic_pop(nic);
        if (run == most || !(seg = emu_hostif_nic_peek(nic, g->fab->now_ps)) ||
            !run_continues(seg, &hdr, hdr.seq + run))
            break;
    }
    if (run)
        segments_complete(g, c, index, run);
    return run;
}

/* --- breaking ----------------------------------------------------------------------- */

/*
 * If the token of the segment's half window has returned, all members have the segment, even if the
 * network reports it as dropped.
 */
bool nic_stream_needs(const struct fabemu_group *g, const struct emu_seg *seg)
{
    return halves_ahead(g, seg->hdr.seq, g->done) <= 1;
}

void nic_stream_break(struct fabemu_group *g)
{
    g->binding = g->sending = NULL;
    g->issued = g->cur; /* send no more tokens */
    emu_list_del(&g->busy);
    for (uint32_t i = 0; i < g->window; i++)
        g->owner[i] = NULL;
    while (!emu_list_empty(&g->ops)) {
        struct nic_coll *c = emu_list_entry(g->ops.next, struct nic_coll, post.link);

        c->status = -EPIPE;
        nic_coll_end(g, c);
    }
}
