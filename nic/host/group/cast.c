/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cast.c - segments of broadcast puts, sent and received.
 *
 * A broadcast put is not of the group's stream: its segments are multicasts with a mark of their own
 * (wire.h), each says where it belongs, and the network tells when all members have it. Any number of
 * members may be at it, NIC_CAST_WINDOW segments of each at a time. The last segment of a put waits for all
 * the others to be told. Source: QsNet III §IV-A; that the last one waits is ours.
 */
#include "nic/host/group/cast.h"

#include <string.h>

#include "emu/bits.h"
#include "nic/host/wire.h"

static_assert(FABEMU_CAST_BYTES == NIC_CAST_BYTES, "fabemu.h");
static_assert(NIC_CAST_WINDOW <= 64, "told has a bit for each");

static uint32_t cast_segs(const struct nic_broadcast *put)
{
    return put->op.bytes ? (uint32_t)((put->op.bytes + NIC_CAST_BYTES - 1) / NIC_CAST_BYTES) : 1;
}

static uint32_t cast_out(const struct nic_broadcast *put)
{
    return put->sent - put->base - (uint32_t)__builtin_popcountll(put->told);
}

/* May the next segment be sent, if there is room for it? */
static bool cast_may_send(const struct fabemu_group *g, const struct nic_broadcast *put)
{
    uint32_t segs = cast_segs(put);

    return put->sent < segs && g->cast_out < NIC_CAST_WINDOW &&
           put->sent - put->base < NIC_CAST_WINDOW && (put->sent + 1 < segs || put->base == put->sent);
}

struct nic_region *nic_cast_region(struct fabemu *fab, uint32_t group, uint64_t key,
                                   uint64_t offset, uint64_t bytes)
{
    struct nic_region *region = key & NIC_KEY_SYMMETRIC ? nic_region_find(fab, key) : NULL;

    if (!region || region->group->id != group || !(region->access & FABEMU_REMOTE_WRITE) ||
        !nic_region_holds(region, offset, bytes))
        return NULL;
    return region;
}

void nic_cast_write(struct fabemu *fab, struct nic_region *region, uint64_t offset,
                    const void *from, size_t bytes, bool last)
{
    if (bytes && region->base + offset != (const uint8_t *)from)
        emu_copy(region->base + offset, from, bytes);
    if (last)
        nic_region_written(fab, region);
}

static bool segment_send(struct fabemu_group *g, struct nic_broadcast *put)
{
    struct emu_seg *seg = nic_group_claim(g, EMU_MULTICAST | EMU_TOLD, put->op.id);
    uint64_t at = (uint64_t)put->sent * NIC_CAST_BYTES, left = put->op.bytes - at;
    uint64_t n = left < NIC_CAST_BYTES ? left : NIC_CAST_BYTES;
    struct nic_wire_cast cast = {.key = put->key, .offset = put->offset + at};
    const uint8_t *from = (const uint8_t *)put->op.iov[0].base + at;
    struct nic_region *own;
    bool last = put->sent + 1 == cast_segs(put);

    if (!seg)
        return false;
    seg->hdr.op = last ? NIC_CAST_LAST : NIC_CAST_PART;
    seg->hdr.type = (uint8_t)put->sent;
    seg->hdr.len = (uint8_t)(sizeof cast + n);
    memcpy(seg->payload, &cast, sizeof cast);
    if (n)
        emu_copy(seg->payload + sizeof cast, from, n);
    own = nic_cast_region(g->fab, g->id, put->key, cast.offset, n);
    if (own)
        nic_cast_write(g->fab, own, cast.offset, from, n, last);
    put->sent++;
    g->cast_out++;
    return true;
}

uint32_t nic_cast_send(struct fabemu_group *g, uint32_t most)
{
    uint32_t sent = 0;

    for (struct emu_list *at = g->casts.next; at != &g->casts; at = at->next) {
        struct nic_broadcast *put = emu_list_entry(at, struct nic_broadcast, op.post.link);

        for (; cast_may_send(g, put); sent++)
            if (sent == most || !nic_bulk_room(g->fab) || !segment_send(g, put))
                return sent;
    }
    return sent;
}

bool nic_cast_due(const struct fabemu_group *g)
{
    for (const struct emu_list *at = g->casts.next; at != &g->casts; at = at->next)
        if (cast_may_send(g, emu_list_entry(at, struct nic_broadcast, op.post.link)))
            return true;
    return false;
}

void nic_cast_abandon(struct nic_broadcast *put)
{
    put->group->cast_out -= cast_out(put);
}

/*
 * Is the segment that is @ahead of the base under way to group @group, and nobody has said so far that all
 * have it?
 */
static bool cast_awaits(const struct nic_broadcast *put, uint32_t group, uint8_t ahead)
{
    return put->group->id == group && ahead < put->sent - put->base &&
           !(put->told >> (put->base + ahead) % 64 & 1);
}

struct fabemu_group *nic_cast_told(struct fabemu *fab, const struct emu_seg *seg)
{
    struct nic_op *op = nic_op_find(fab, seg->hdr.seq, FABEMU_ANY_NODE);
    struct nic_broadcast *put = op && op->kind == NIC_OP_CAST ? nic_broadcast_of(op) : NULL;
    uint8_t ahead = put ? (uint8_t)(seg->hdr.type - put->base) : 0;
    struct fabemu_group *g;

    if (!op)
        return NULL;
    if (!put || !cast_awaits(put, seg->hdr.dst, ahead)) {
        fab->counts.malformed++;
        return NULL;
    }
    g = put->group;
    g->cast_out--;
    put->told |= emu_bit((put->base + ahead) % 64);
    for (; put->told & emu_bit(put->base % 64); put->base++)
        put->told &= ~emu_bit(put->base % 64);
    if (put->base == cast_segs(put))
        nic_op_end(fab, op, 0);
    return g;
}

void nic_cast_receive(struct fabemu *fab, const struct emu_seg *seg)
{
    struct nic_wire_cast cast;
    struct nic_region *region;
    size_t n = seg->hdr.len - sizeof cast;

    if (seg->hdr.len < sizeof cast || seg->hdr.len > EMU_PAYLOAD_BYTES) {
        fab->counts.malformed++;
        return;
    }
    memcpy(&cast, seg->payload, sizeof cast);
    region = nic_cast_region(fab, seg->hdr.dst, cast.key, cast.offset, n);
    if (region)
        nic_cast_write(fab, region, cast.offset, seg->payload + sizeof cast, n,
                   seg->hdr.op == NIC_CAST_LAST);
    else
        fab->counts.late++;
}
