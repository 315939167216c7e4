/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.c - a member's view of a group: collectives that the switches carry out.
 *
 * The operations of a group are one stream of segments (emu/seg.h). This file
 * counts operation segments without the tokens: segment i lies in half window
 * i / USABLE, and its number on the wire is nic_seq(i). Three marks move along
 * the stream:
 *   cur     the lowest half window in which a segment is not complete here
 *   issued  tokens that this member has sent: one for each half window below cur
 *   done    tokens that came back: a half window h is open to senders when h - 2 < done
 * so done <= issued <= cur, and whatever may arrive lies in half window cur or
 * cur + 1: who sent it has seen token h - 2, hence this member has sent that.
 * Segments are bound to their operation while they lie in these two; one that
 * comes before its operation (or before this process joined) is stashed.
 *
 * A segment is complete when its result is here or, for a member that only
 * contributes, when it is in the up ring.
 */
#include "nic/group.h"

#include <stdlib.h>
#include <string.h>

#include "emu/combine.h"

#define USABLE (EMU_HALF - 1) /* segments of operations in a half window; the last is the token */
#define TOKEN (EMU_HALF - 1)

static uint64_t nic_seq(uint64_t index)
{
    return index / USABLE * EMU_HALF + index % USABLE;
}

static bool half_open(const struct fabemu_group *g, uint64_t half)
{
    return half < g->done + 2;
}

/* --- completion ------------------------------------------------------------------ */

static void coll_end(struct fabemu_group *g, struct nic_coll *c)
{
    nic_list_del(&c->link);
    nic_complete(g->fab, c->req, c->status);
}

static void segment_complete(struct fabemu_group *g, struct nic_coll *c, uint64_t index)
{
    g->complete[index / USABLE % 2]++;
    while (g->complete[g->cur % 2] == USABLE) {
        g->complete[g->cur % 2] = 0;
        g->cur++;
    }
    if (++c->done == c->segs)
        coll_end(g, c);
}

static size_t segment_bytes(const struct nic_coll *c, uint64_t k)
{
    uint64_t left = c->bytes - k * c->step;

    return left < c->step ? (size_t)left : c->step;
}

/* The k-th segment's result is here. */
static void segment_store(struct nic_coll *c, uint64_t k, const struct emu_seg *seg)
{
    size_t bytes = segment_bytes(c, k);
    uint8_t *out = c->out ? c->out + k * c->step : NULL;
    bool reduces = c->kind == EMU_REDUCE || c->kind == EMU_ALLREDUCE;

    if (seg->hdr.kind != c->kind || seg->hdr.len != bytes ||
        (reduces && (seg->hdr.op != c->op || seg->hdr.type != c->type))) {
        c->status = -EPROTO; /* the members do not agree on what they do */
        return;
    }
    if (!bytes)
        return;
    if (c->kind == EMU_REDUCE) { /* own contribution first, then the others' */
        const uint8_t *in = c->in + k * c->step;

        if (in != out)
            memcpy(out, in, bytes);
        emu_combine(c->op, c->type, out, seg->payload, bytes / emu_type_bytes(c->type));
    } else {
        memcpy(out, seg->payload, bytes);
    }
}

/* A segment of the stream for a bound index. */
static void segment_take(struct fabemu_group *g, uint64_t index, const struct emu_seg *seg)
{
    struct nic_coll **owner = &g->owner[seg->hdr.seq % EMU_WINDOW];
    struct nic_coll *c = *owner;
    uint64_t k = c ? index - c->first : 0;

    if (!c || !c->awaits || (c->sends && k >= c->sent)) {
        g->fab->counts.malformed++;
        return;
    }
    *owner = NULL;
    segment_store(c, k, seg);
    segment_complete(g, c, index);
}

/* --- binding, stash --------------------------------------------------------------- */

static void group_bind(struct fabemu_group *g)
{
    while (g->binding && g->bound < (g->cur + 2) * USABLE) {
        struct nic_coll *c = g->binding;
        uint64_t index = g->bound++;
        uint32_t at = (uint32_t)(nic_seq(index) % EMU_WINDOW);

        g->owner[at] = c;
        if (index + 1 == c->first + c->segs)
            g->binding = c->link.next == &g->ops ? NULL
                                                 : nic_entry(c->link.next, struct nic_coll, link);
        if (g->stashed[at]) {
            g->stashed[at] = false;
            segment_take(g, index, &g->stash[at]);
        }
    }
}

static void group_stash(struct fabemu_group *g, const struct emu_seg *seg)
{
    uint32_t at = seg->hdr.seq % EMU_WINDOW;

    if (!g->stash)
        g->stash = malloc(EMU_WINDOW * sizeof *g->stash);
    if (!g->stash || g->stashed[at]) {
        g->fab->counts.malformed++;
        return;
    }
    g->stashed[at] = true;
    g->stash[at] = *seg;
}

/* --- the table of groups ------------------------------------------------------------- */

struct fabemu_group *nic_group_find(const struct fabemu *fab, uint32_t id)
{
    struct fabemu_group *g = fab->groups[id % NIC_GROUP_BUCKETS];

    while (g && g->id != id)
        g = g->next;
    return g;
}

struct fabemu_group *nic_group_make(struct fabemu *fab, uint32_t id)
{
    struct fabemu_group *g = calloc(1, sizeof *g);

    if (!g)
        return NULL;
    g->fab = fab;
    g->id = id;
    nic_list_init(&g->ops);
    g->next = fab->groups[id % NIC_GROUP_BUCKETS];
    fab->groups[id % NIC_GROUP_BUCKETS] = g;
    return g;
}

void nic_group_unmake(struct fabemu_group *g)
{
    struct fabemu_group **at = &g->fab->groups[g->id % NIC_GROUP_BUCKETS];

    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    nic_list_del(&g->busy);
    free(g->stash);
    free(g);
}

void nic_group_leave(struct fabemu_group *g)
{
    struct fabemu *fab = g->fab;

    if (g->broken)
        fab->broken_ids[fab->broken_count++ % NIC_BROKEN_GROUPS] = g->id;
    nic_group_unmake(g);
}

static uint32_t broken_kept(const struct fabemu *fab)
{
    return fab->broken_count < NIC_BROKEN_GROUPS ? fab->broken_count : NIC_BROKEN_GROUPS;
}

void nic_group_known(struct fabemu *fab, uint32_t id)
{
    for (uint32_t i = 0; i < broken_kept(fab); i++)
        if (fab->broken_ids[i] == id)
            fab->broken_ids[i] = UINT32_MAX; /* no group's */
}

static bool group_was_broken(const struct fabemu *fab, uint32_t id)
{
    for (uint32_t i = 0; i < broken_kept(fab); i++)
        if (fab->broken_ids[i] == id)
            return true;
    return false;
}

static struct fabemu_group *group_early(struct fabemu *fab, uint32_t id)
{
    struct fabemu_group *g = NULL;

    if (fab->early_groups < NIC_EARLY_GROUPS_MAX && !group_was_broken(fab, id))
        g = nic_group_make(fab, id);
    if (g)
        fab->early_groups++;
    return g;
}

/* --- sending ---------------------------------------------------------------------- */

static struct emu_seg *group_claim(struct fabemu_group *g, uint8_t kind, uint64_t seq)
{
    struct fabemu *fab = g->fab;
    struct emu_seg *seg = emu_edge_nic_claim(&fab->edge, fab->now_ps + fab->send_ps);

    if (seg)
        seg->hdr = (struct emu_hdr){.dst = g->id, .src = fab->info.node, .seq = (uint32_t)seq,
                                    .kind = kind};
    return seg;
}

static uint32_t tokens_send(struct fabemu_group *g)
{
    uint32_t sent = 0;

    while (g->issued < g->cur && half_open(g, g->issued)) {
        if (!group_claim(g, EMU_BARRIER, g->issued * EMU_HALF + TOKEN))
            break;
        g->issued++;
        sent++;
    }
    return sent;
}

static void sending_next(struct fabemu_group *g)
{
    struct nic_list *at = g->sending->link.next;

    while (at != &g->ops && !nic_entry(at, struct nic_coll, link)->sends)
        at = at->next;
    g->sending = at == &g->ops ? NULL : nic_entry(at, struct nic_coll, link);
}

/* The next segment of g->sending. False: no room. */
static bool segment_send(struct fabemu_group *g, struct nic_coll *c)
{
    uint64_t k = c->sent, index = c->first + k, seq = nic_seq(index);
    struct emu_seg *seg = group_claim(g, c->kind, seq);

    if (!seg)
        return false;
    seg->hdr.op = c->op;
    seg->hdr.type = c->type;
    seg->hdr.len = (uint8_t)segment_bytes(c, k);
    if (seg->hdr.len)
        memcpy(seg->payload, c->in + k * c->step, seg->hdr.len);
    if (++c->sent == c->segs)
        sending_next(g);
    if (!c->awaits) {
        g->owner[seq % EMU_WINDOW] = NULL;
        segment_complete(g, c, index);
    }
    return true;
}

static uint32_t group_send(struct fabemu_group *g)
{
    uint32_t sent = tokens_send(g);

    while (g->sending && sent < NIC_GROUP_BURST) {
        struct nic_coll *c = g->sending;

        if (!half_open(g, (c->first + c->sent) / USABLE))
            break;
        group_bind(g); /* cur may have moved: what is sent must be bound */
        if (!segment_send(g, c))
            break;
        sent++;
    }
    group_bind(g);
    sent += tokens_send(g);

    bool left = g->sending || g->issued < g->cur;

    if (!left)
        nic_list_del(&g->busy);
    else if (!nic_listed(&g->busy))
        nic_list_add(&g->fab->busy, &g->busy);
    return sent;
}

void nic_group_start(struct fabemu_group *g, struct nic_coll *c)
{
    c->first = g->posted;
    g->posted += c->segs;
    nic_list_add(&g->ops, &c->link);
    if (!g->binding)
        g->binding = c;
    if (!g->sending && c->sends)
        g->sending = c;
    group_bind(g);
    group_send(g);
}

uint32_t nic_group_transmit(struct fabemu *fab)
{
    struct nic_list *at = fab->busy.next, *next;
    uint32_t sent = 0;

    for (; at != &fab->busy; at = next) {
        next = at->next;
        sent += group_send(nic_entry(at, struct fabemu_group, busy));
    }
    return sent;
}

/* --- receiving ----------------------------------------------------------------------- */

static void token_receive(struct fabemu_group *g, const struct emu_seg *seg)
{
    /* Half windows modulo 2^25: the number on the wire has 32 bits. */
    uint32_t ahead = (seg->hdr.seq / EMU_HALF - (uint32_t)g->done) & (UINT32_MAX / EMU_HALF);

    if (ahead > 1 || g->done + ahead >= g->issued || g->token_back[(g->done + ahead) % 2]) {
        g->fab->counts.malformed++;
        return;
    }
    g->token_back[(g->done + ahead) % 2] = true;
    while (g->token_back[g->done % 2]) {
        g->token_back[g->done % 2] = false;
        g->done++;
    }
}

static void group_receive(struct fabemu_group *g, const struct emu_seg *seg)
{
    uint32_t ahead = seg->hdr.seq - (uint32_t)(g->cur * EMU_HALF);
    uint64_t index = (g->cur + ahead / EMU_HALF) * USABLE + ahead % EMU_HALF;

    if (seg->hdr.len > EMU_PAYLOAD_BYTES || ahead >= EMU_WINDOW || ahead % EMU_HALF == TOKEN) {
        g->fab->counts.malformed++;
    } else if (index < g->bound) {
        segment_take(g, index, seg);
    } else if (seg->hdr.kind == EMU_MULTICAST || seg->hdr.kind == EMU_REDUCE) {
        group_stash(g, seg);
    } else { /* not without our contribution */
        g->fab->counts.malformed++;
    }
}

void nic_group_receive(struct fabemu *fab, const struct emu_seg *seg)
{
    struct fabemu_group *g = nic_group_find(fab, seg->hdr.dst);

    if (!g && (seg->hdr.kind == EMU_MULTICAST || seg->hdr.kind == EMU_REDUCE))
        g = group_early(fab, seg->hdr.dst);
    if (!g) {
        fab->counts.late++;
        return;
    }
    if (seg->hdr.kind == EMU_BARRIER && seg->hdr.seq % EMU_HALF == TOKEN)
        token_receive(g, seg);
    else
        group_receive(g, seg);
    if (g->joined)
        group_send(g); /* a window may have opened, a token become due */
}

void nic_group_broken(struct fabemu *fab, uint32_t id)
{
    struct fabemu_group *g = nic_group_find(fab, id);

    if (!g) /* others may know of the group before we join */
        g = group_early(fab, id);
    if (!g)
        return;
    g->broken = -EPIPE;
    g->binding = g->sending = NULL;
    g->issued = g->cur; /* no more tokens */
    nic_list_del(&g->busy);
    for (uint32_t i = 0; i < EMU_WINDOW; i++)
        g->owner[i] = NULL;
    while (!nic_list_empty(&g->ops)) {
        struct nic_coll *c = nic_entry(g->ops.next, struct nic_coll, link);

        c->status = -EPIPE;
        coll_end(g, c);
    }
}

void nic_group_release(struct fabemu *fab)
{
    for (uint32_t i = 0; i < NIC_GROUP_BUCKETS; i++)
        while (fab->groups[i])
            nic_group_unmake(fab->groups[i]);
}
