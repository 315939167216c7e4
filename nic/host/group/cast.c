/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cast.c - regions under the same key at all members of a group, and broadcasts that write them.
 *
 * A broadcast put is not of the group's stream: its segments are multicasts with a
 * mark of their own (wire.h), each says where it belongs, and the network tells when
 * all members have it. Any number of members may be at it, NIC_CAST_WINDOW segments
 * of each at a time. The last segment of a put waits for all the others to be told.
 * Source: QsNet III §IV-A; that the last one waits is ours.
 */
#include "nic/host/group/group.h"

#include <string.h>

#include "emu/combine.h"

static_assert(FABEMU_CAST_BYTES == NIC_CAST_BYTES, "fabemu.h");
static_assert(NIC_CAST_WINDOW <= 64, "op->told has a bit for each");

/* --- symmetric regions ------------------------------------------------------------------- */

static void region_refuse(struct fabemu_group *g, struct nic_coll *c)
{
    nic_region_drop(g->fab, c->region);
    nic_complete(g->fab, c->req, c->status);
}

/* All have the key. */
static void region_ready(struct fabemu_group *g, struct nic_coll *c)
{
    if (c->status) {
        region_refuse(g, c);
        return;
    }
    *c->key = c->region->key;
    nic_complete(g->fab, c->req, 0);
}

/* The members have told each other what they would register. Nobody may use the key before all know it. */
static void region_agreed(struct fabemu_group *g, struct nic_coll *c)
{
    uint64_t most = c->agree[1], least = ~c->agree[2];

    if (!c->status && most != least)
        c->status = -EINVAL;
    if (c->status) {
        region_refuse(g, c);
        return;
    }
    c->region->key = c->agree[0] | NIC_KEY_SYMMETRIC;
    c->ended = region_ready;
    if (g->members == 1) {
        region_ready(g, c);
        return;
    }
    c->kind = EMU_BARRIER;
    c->in = c->out = NULL;
    c->bytes = c->sent = c->done = 0;
    c->segs = 1;
    nic_group_start(g, c);
}

int fabemu_register_symmetric(struct fabemu_group *g, void *addr, size_t bytes, unsigned access,
                              uint64_t *key, struct fabemu_req *req)
{
    struct nic_region init = {.base = addr, .bytes = bytes, .access = access, .group = g};
    struct nic_coll c = {.kind = EMU_ALLREDUCE, .op = EMU_MAX, .type = EMU_U64, .sends = true,
                         .awaits = true, .ended = region_agreed, .key = key};
    struct nic_coll *posted = (struct nic_coll *)(void *)req->opaque;
    int err = nic_region_check(addr, bytes, access);

    if (!err && req->after)
        err = nic_fail(-EINVAL, "a registration is not armed");
    if (err)
        return err;
    if (nic_gone(g->fab))
        return nic_fail_gone();
    nic_lock(g->fab);
    err = nic_region_add(g->fab, &init, &c.region);
    nic_unlock(g->fab);
    if (err)
        return err;
    c.agree[0] = nic_random();
    c.agree[1] = bytes;
    c.agree[2] = ~(uint64_t)bytes;
    c.in = (const uint8_t *)posted->agree;
    c.out = (uint8_t *)posted->agree;
    c.bytes = c.step = sizeof c.agree;
    return nic_coll_post(g, req, &c);
}

void nic_cast_release(struct fabemu_group *g)
{
    struct nic_region *next;

    for (struct nic_region *at = g->fab->symmetric; at; at = next) {
        next = at->symmetric;
        if (at->group == g)
            nic_region_drop(g->fab, at);
    }
}

/* --- sending ----------------------------------------------------------------------------- */

static uint32_t cast_segs(const struct nic_op *op)
{
    return op->bytes ? (uint32_t)((op->bytes + NIC_CAST_BYTES - 1) / NIC_CAST_BYTES) : 1;
}

static uint32_t cast_out(const struct nic_op *op)
{
    return op->sent - op->base - (uint32_t)__builtin_popcountll(op->told);
}

/* May the next segment be sent, if there is room for it? */
static bool cast_may_send(const struct fabemu_group *g, const struct nic_op *op)
{
    uint32_t segs = cast_segs(op);

    return op->sent < segs && g->cast_out < NIC_CAST_WINDOW &&
           op->sent - op->base < NIC_CAST_WINDOW && (op->sent + 1 < segs || op->base == op->sent);
}

/* Where @op's region lies here, or NULL: it is none of the group's, or was unregistered. */
static struct nic_region *cast_region(struct fabemu *fab, uint32_t group, uint64_t key,
                                      uint64_t offset, uint64_t bytes)
{
    struct nic_region *region = key & NIC_KEY_SYMMETRIC ? nic_region_find(fab, key) : NULL;

    if (!region || region->group->id != group || !(region->access & FABEMU_REMOTE_WRITE) ||
        !nic_region_holds(region, offset, bytes))
        return NULL;
    return region;
}

/* One's own copy. */
static void cast_write(struct fabemu *fab, struct nic_region *region, uint64_t offset,
                       const void *from, size_t bytes, bool last)
{
    if (bytes && region->base + offset != (const uint8_t *)from)
        emu_copy(region->base + offset, from, bytes);
    if (last)
        nic_region_written(fab, region);
}

static bool segment_send(struct fabemu_group *g, struct nic_op *op)
{
    struct emu_seg *seg = nic_group_claim(g, EMU_MULTICAST | EMU_TOLD, op->id);
    uint64_t at = (uint64_t)op->sent * NIC_CAST_BYTES, left = op->bytes - at;
    uint64_t n = left < NIC_CAST_BYTES ? left : NIC_CAST_BYTES;
    struct nic_wire_cast cast = {.key = op->key, .offset = op->offset + at};
    const uint8_t *from = (const uint8_t *)op->iov[0].base + at;
    struct nic_region *own;
    bool last = op->sent + 1 == cast_segs(op);

    if (!seg)
        return false;
    seg->hdr.op = last ? NIC_CAST_LAST : NIC_CAST_PART;
    seg->hdr.type = (uint8_t)op->sent;
    seg->hdr.len = (uint8_t)(sizeof cast + n);
    memcpy(seg->payload, &cast, sizeof cast);
    if (n)
        emu_copy(seg->payload + sizeof cast, from, n);
    own = cast_region(g->fab, g->id, op->key, cast.offset, n);
    if (own)
        cast_write(g->fab, own, cast.offset, from, n, last);
    op->sent++;
    g->cast_out++;
    return true;
}

uint32_t nic_cast_send(struct fabemu_group *g, uint32_t most)
{
    uint32_t sent = 0;

    for (struct emu_list *at = g->casts.next; at != &g->casts; at = at->next) {
        struct nic_op *op = emu_list_entry(at, struct nic_op, link);

        for (; cast_may_send(g, op); sent++)
            if (sent == most || !nic_bulk_room(g->fab) || !segment_send(g, op))
                return sent;
    }
    return sent;
}

bool nic_cast_due(const struct fabemu_group *g)
{
    for (const struct emu_list *at = g->casts.next; at != &g->casts; at = at->next)
        if (cast_may_send(g, emu_list_entry(at, struct nic_op, link)))
            return true;
    return false;
}

static int cast_begin(struct fabemu *fab, struct nic_post *post)
{
    struct nic_op *op = nic_op_of(post->req);
    struct fabemu_group *g = op->cast_group;
    struct nic_region *region = cast_region(fab, g->id, op->key, op->offset, op->bytes);
    int err = 0;

    if (!region)
        return nic_fail(-EINVAL, "no such symmetric region of this group");
    if (g->broken || g->members == 1) {
        if (!g->broken)
            cast_write(fab, region, op->offset, op->iov[0].base, op->bytes, true);
        nic_op_end(fab, op, g->broken);
        return 0;
    }
    err = nic_op_id(fab, op);
    if (err)
        return err;
    op->state = NIC_OP_WAITING;
    emu_list_add(&g->casts, &op->link);
    nic_group_send(g);
    return 0;
}

int fabemu_broadcast_put(struct fabemu_group *g, uint64_t key, uint64_t offset, const void *src,
                         size_t bytes, struct fabemu_req *req)
{
    struct fabemu_iov local = {.base = (void *)(uintptr_t)src, .bytes = bytes};
    int err = nic_group_check(g, req);
    struct nic_op *op;

    if (!err)
        err = nic_transfer_check(bytes);
    if (!err)
        err = nic_buffer_check(src, bytes);
    if (!err && bytes > (uint64_t)NIC_CAST_BYTES << 32)
        err = nic_fail(-EMSGSIZE, "a broadcast put has at most 2^32 segments");
    if (err)
        return err;
    op = nic_op_new(req, NIC_OP_CAST, FABEMU_ANY_NODE, cast_begin);
    op->key = key;
    op->offset = offset;
    op->cast_group = g;
    nic_op_iov(op, &local, 1);
    return nic_post(g->fab, &op->post);
}

void nic_cast_abandon(struct nic_op *op)
{
    op->cast_group->cast_out -= cast_out(op);
}

/* All have heard that the group is broken; or that somebody asks whether they hear. */
static void news_told(struct fabemu *fab, const struct emu_seg *seg)
{
    struct fabemu_group *g = nic_group_find(fab, seg->hdr.dst);

    if (g && seg->hdr.op == NIC_CAST_BROKEN && g->alarm == NIC_ALARM_SENT)
        g->alarm = NIC_ALARM_NONE;
    else if (g && seg->hdr.op == NIC_CAST_PROBE && g->probing)
        g->probing = false;
    else if (g)
        fab->counts.malformed++;
    else
        fab->counts.late++;
}

void nic_cast_told(struct fabemu *fab, const struct emu_seg *seg)
{
    struct fabemu_group *g;
    struct nic_op *op;
    uint8_t ahead;

    if (seg->hdr.op >= NIC_CAST_BROKEN) {
        news_told(fab, seg);
        return;
    }
    op = nic_op_find(fab, seg->hdr.seq, FABEMU_ANY_NODE);
    if (!op)
        return;
    ahead = (uint8_t)(seg->hdr.type - op->base);
    if (op->kind != NIC_OP_CAST || op->cast_group->id != seg->hdr.dst ||
        ahead >= op->sent - op->base || op->told >> (op->base + ahead) % 64 & 1) {
        fab->counts.malformed++;
        return;
    }
    g = op->cast_group;
    g->cast_out--;
    op->told |= UINT64_C(1) << (op->base + ahead) % 64;
    for (; op->told >> op->base % 64 & 1; op->base++)
        op->told &= ~(UINT64_C(1) << op->base % 64);
    if (op->base == cast_segs(op))
        nic_op_end(fab, op, 0);
    nic_group_send(g);
}

/* --- receiving ------------------------------------------------------------------------------ */

static void news_receive(struct fabemu *fab, const struct emu_seg *seg)
{
    struct fabemu_group *g = nic_group_find(fab, seg->hdr.dst);

    if (seg->hdr.op == NIC_CAST_BROKEN)
        nic_group_broken(fab, seg->hdr.dst);
    else if (g)
        nic_group_probed(g);
}

void nic_cast_receive(struct fabemu *fab, const struct emu_seg *seg)
{
    struct nic_wire_cast cast;
    struct nic_region *region;
    size_t n = seg->hdr.len - sizeof cast;

    if (!fab->info.acknowledged || seg->hdr.op > NIC_CAST_PROBE) {
        fab->counts.malformed++;
        return;
    }
    if (seg->hdr.op >= NIC_CAST_BROKEN) {
        news_receive(fab, seg);
        return;
    }
    if (seg->hdr.len < sizeof cast || seg->hdr.len > EMU_PAYLOAD_BYTES) {
        fab->counts.malformed++;
        return;
    }
    memcpy(&cast, seg->payload, sizeof cast);
    region = cast_region(fab, seg->hdr.dst, cast.key, cast.offset, n);
    if (region)
        cast_write(fab, region, cast.offset, seg->payload + sizeof cast, n,
                   seg->hdr.op == NIC_CAST_LAST);
    else
        fab->counts.late++;
}
