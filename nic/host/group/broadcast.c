/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * broadcast.c - fabemu_broadcast_put(), and sending and receiving its segments.
 *
 * The segments of a broadcast put are not part of the group's stream. They are multicasts of their
 * own kinds (wire.h). Each contains the key and offset at which the members write it, and the
 * network reports when all members have received it. Any number of members may send at the same
 * time, each with up to NIC_BROADCAST_WINDOW segments in flight. The last segment of a put is sent
 * after all others were reported as delivered. Source: QsNet III §IV-A. Deviation: QsNet III does
 * not delay the last segment.
 */
#include "nic/host/group/broadcast.h"

#include <errno.h>
#include <string.h>

#include "emu/util/bits.h"
#include "nic/fabemu.h"
#include "nic/host/base/base.h"
#include "nic/host/base/lock.h"
#include "nic/host/base/op.h"
#include "nic/host/base/wire.h"
#include "nic/host/group/group.h"

static_assert(FABEMU_BROADCAST_LAST_BYTES == NIC_BROADCAST_BYTES, "fabemu.h");
static_assert(NIC_BROADCAST_WINDOW <= 64, "acked has a bit for each segment of the window");

static uint32_t broadcast_segs(const struct nic_broadcast_put *put)
{
    return put->op.bytes
               ? (uint32_t)((put->op.bytes + NIC_BROADCAST_BYTES - 1) / NIC_BROADCAST_BYTES)
               : 1;
}

/* Return how many segments of the put are in flight. */
static uint32_t broadcast_out(const struct nic_broadcast_put *put)
{
    return put->sent - put->base - (uint32_t)__builtin_popcountll(put->acked);
}

/* Return whether the next segment may be sent if the ring has space. */
static bool broadcast_may_send(const struct fabemu_group *g, const struct nic_broadcast_put *put)
{
    uint32_t segs = broadcast_segs(put);

    return put->sent < segs && g->broadcast_out < NIC_BROADCAST_WINDOW &&
           put->sent - put->base < NIC_BROADCAST_WINDOW &&
           (put->sent + 1 < segs || put->base == put->sent);
}

struct nic_region *nic_broadcast_region(struct fabemu *fab, uint32_t group, uint64_t key,
                                        uint64_t offset, uint64_t bytes)
{
    struct nic_region *region = key & NIC_KEY_SYMMETRIC ? nic_region_find(fab, key) : NULL;

    if (!region || region->group->id != group || !(region->access & FABEMU_REMOTE_WRITE) ||
        !nic_region_holds(region, offset, bytes))
        return NULL;
    return region;
}

void nic_broadcast_write(struct fabemu *fab, struct nic_region *region, uint64_t offset,
                         const void *from, size_t bytes, bool last)
{
    uint8_t *to = (uint8_t *)region->piece[0].base + offset;

    if (bytes && to != (const uint8_t *)from)
        emu_copy(to, from, bytes);
    if (last)
        nic_access_count(fab, &region->events, FABEMU_REMOTE_WRITE);
}

static bool segment_send(struct fabemu_group *g, struct nic_broadcast_put *put)
{
    struct emu_seg *seg = nic_group_claim(g, EMU_MULTICAST | EMU_NOTIFY, put->op.id);
    uint64_t at = (uint64_t)put->sent * NIC_BROADCAST_BYTES, left = put->op.bytes - at;
    uint64_t n = left < NIC_BROADCAST_BYTES ? left : NIC_BROADCAST_BYTES;
    struct nic_wire_broadcast broadcast = {.key = put->key, .offset = put->offset + at};
    const uint8_t *from = (const uint8_t *)put->op.iov[0].base + at;
    struct nic_region *own;
    bool last = put->sent + 1 == broadcast_segs(put);

    if (!seg)
        return false;
    seg->hdr.op = last ? NIC_MULTICAST_LAST : NIC_MULTICAST_BODY;
    seg->hdr.type = (uint8_t)put->sent;
    seg->hdr.len = (uint8_t)(sizeof broadcast + n);
    memcpy(seg->payload, &broadcast, sizeof broadcast);
    if (n)
        emu_copy(seg->payload + sizeof broadcast, from, n);
    own = nic_broadcast_region(g->fab, g->id, put->key, broadcast.offset, n);
    if (own)
        nic_broadcast_write(g->fab, own, broadcast.offset, from, n, last);
    put->sent++;
    g->broadcast_out++;
    return true;
}

uint32_t nic_broadcast_send(struct fabemu_group *g, uint32_t most)
{
    uint32_t sent = 0;

    emu_each_listed (struct nic_broadcast_put, put, &g->broadcasts, op.post.link)
        for (; broadcast_may_send(g, put); sent++)
            if (sent == most || !nic_bulk_room(g->fab) || !segment_send(g, put))
                return sent;
    return sent;
}

bool nic_broadcast_due(const struct fabemu_group *g)
{
    emu_each_listed (const struct nic_broadcast_put, put, &g->broadcasts, op.post.link)
        if (broadcast_may_send(g, put))
            return true;
    return false;
}

void nic_broadcast_abandon(struct nic_broadcast_put *put)
{
    put->group->broadcast_out -= broadcast_out(put);
}

/* Return whether segment base + @ahead was sent to @group and not reported as delivered yet. */
static bool broadcast_awaits(const struct nic_broadcast_put *put, uint32_t group, uint8_t ahead)
{
    return put->group->id == group && ahead < put->sent - put->base &&
           !(put->acked >> (put->base + ahead) % 64 & 1);
}

struct fabemu_group *nic_broadcast_delivered(struct fabemu *fab, const struct emu_seg *seg)
{
    struct nic_op *op = nic_op_find(fab, seg->hdr.seq, FABEMU_ANY_NODE);
    struct nic_broadcast_put *put = op && op->kind == NIC_OP_BROADCAST ? nic_broadcast_put_of(op)
                                                                       : NULL;
    uint8_t ahead = put ? (uint8_t)(seg->hdr.type - put->base) : 0;
    struct fabemu_group *g;

    if (!op)
        return NULL;
    if (!put || !broadcast_awaits(put, seg->hdr.dst, ahead)) {
        fab->counts.malformed++;
        return NULL;
    }
    g = put->group;
    g->broadcast_out--;
    put->acked |= emu_bit((put->base + ahead) % 64);
    for (; put->acked & emu_bit(put->base % 64); put->base++)
        put->acked &= ~emu_bit(put->base % 64);
    if (put->base == broadcast_segs(put))
        nic_op_end(fab, op, 0);
    return g;
}

void nic_broadcast_receive(struct fabemu *fab, const struct emu_seg *seg)
{
    struct nic_wire_broadcast broadcast;
    struct nic_region *region;
    size_t n = seg->hdr.len - sizeof broadcast;

    if (seg->hdr.len < sizeof broadcast || seg->hdr.len > EMU_PAYLOAD_BYTES) {
        fab->counts.malformed++;
        return;
    }
    memcpy(&broadcast, seg->payload, sizeof broadcast);
    region = nic_broadcast_region(fab, seg->hdr.dst, broadcast.key, broadcast.offset, n);
    if (region)
        nic_broadcast_write(fab, region, broadcast.offset, seg->payload + sizeof broadcast, n,
                            seg->hdr.op == NIC_MULTICAST_LAST);
    else
        fab->counts.late++;
}

/* --- the call ----------------------------------------------------------------------- */

static int broadcast_begin(struct fabemu *fab, struct nic_post *post)
{
    struct nic_op *op = nic_op_of(post->req);
    struct nic_broadcast_put *put = nic_broadcast_put_of(op);
    struct fabemu_group *g = put->group;
    struct nic_region *region = nic_broadcast_region(fab, g->id, put->key, put->offset, op->bytes);
    int err = 0;

    if (!region)
        return nic_fail(-EINVAL, "the key names no symmetric region of this group that contains "
                                 "the range and allows writing");
    if (g->broken || g->members == 1) {
        if (!g->broken)
            nic_broadcast_write(fab, region, put->offset, op->iov[0].base, op->bytes, true);
        nic_op_end(fab, op, nic_group_status(g));
        return 0;
    }
    err = nic_op_id(fab, op);
    if (err)
        return err;
    op->state = NIC_OP_WAITING;
    emu_list_add(&g->broadcasts, &op->post.link);
    nic_group_send(g);
    return 0;
}

int fabemu_broadcast_put(struct fabemu_group *g, uint64_t key, uint64_t offset, const void *src,
                         size_t bytes, struct fabemu_req *req)
{
    struct fabemu_iov local = {.base = (void *)(uintptr_t)src, .bytes = bytes};
    int err = nic_group_check(g, req);
    struct nic_broadcast_put *put;

    if (!err)
        err = nic_transfer_check(bytes);
    if (!err)
        err = nic_buffer_check(src, bytes);
    if (!err && bytes > (uint64_t)NIC_BROADCAST_BYTES << 32)
        err = nic_fail(-EMSGSIZE, "a broadcast put has at most 2^32 segments");
    if (err)
        return err;
    put = nic_broadcast_put_of(nic_op_new(req, NIC_OP_BROADCAST, FABEMU_ANY_NODE, broadcast_begin));
    nic_op_iov(&put->op, &local, 1);
    put->group = g;
    put->key = key;
    put->offset = offset;
    return nic_op_post(g->fab, &put->op);
}
