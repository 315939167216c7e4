/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c - registered memory; puts and gets of both sides.
 *
 * A key is a table index and 44 random bits, so a peer reaches only what it was
 * told of. Every access is checked here, at the target, each time.
 */
#include "nic/adapter.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define KEY_INDEX_BITS 20
#define KEY_INDEX_MASK ((1u << KEY_INDEX_BITS) - 1)

static int regions_grow(struct fabemu *fab)
{
    uint32_t count = fab->region_count ? fab->region_count * 2 : 16;
    struct nic_region **regions;

    if (count > 1u << KEY_INDEX_BITS)
        return -ENOSPC;
    regions = realloc(fab->regions, count * sizeof(struct nic_region *));
    if (!regions)
        return -ENOMEM;
    for (uint32_t i = fab->region_count; i < count; i++)
        regions[i] = NULL;
    fab->regions = regions;
    fab->region_count = count;
    return 0;
}

int fabemu_register(struct fabemu *fab, void *addr, size_t bytes, unsigned access, uint64_t *key)
{
    struct nic_region *region;
    uint64_t random;
    uint32_t index = 0;
    int err = 0;

    if (access & ~(FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE) || (uintptr_t)addr + bytes < bytes)
        return nic_fail(-EINVAL, "no such access or memory");
    if (nic_gone(fab))
        return nic_fail_gone();
    region = malloc(sizeof *region);
    if (!region)
        return -ENOMEM;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        random = nic_now_ns() * UINT64_C(0x9e3779b97f4a7c15) ^ (uintptr_t)region;
    nic_lock(fab);
    while (index < fab->region_count && fab->regions[index])
        index++;
    if (index == fab->region_count)
        err = regions_grow(fab);
    if (!err) {
        *region = (struct nic_region){.key = random << KEY_INDEX_BITS | index, .base = addr,
                                      .bytes = bytes, .access = access};
        fab->regions[index] = region;
        *key = region->key;
    }
    nic_unlock(fab);
    if (err)
        free(region);
    return err;
}

static struct nic_region *region_find(struct fabemu *fab, uint64_t key)
{
    uint32_t index = (uint32_t)key & KEY_INDEX_MASK;
    struct nic_region *region = index < fab->region_count ? fab->regions[index] : NULL;

    return region && region->key == key ? region : NULL;
}

int fabemu_unregister(struct fabemu *fab, uint64_t key)
{
    struct nic_region *region;

    if (nic_gone(fab))
        return nic_fail_gone();
    nic_lock(fab);
    region = region_find(fab, key);
    if (region) {
        nic_op_fail_all(fab, 0, region, -EACCES);
        fab->regions[key & KEY_INDEX_MASK] = NULL;
    }
    nic_unlock(fab);
    free(region);
    return region ? 0 : nic_fail(-ENOENT, "no such key");
}

/* --- ours ------------------------------------------------------------------------ */

static int memory_post(struct fabemu *fab, enum nic_op_kind kind, uint32_t node, uint64_t key,
                       uint64_t offset, void *local, size_t bytes, struct fabemu_req *req)
{
    struct fabemu_iov iov = {.base = local, .bytes = bytes};
    struct nic_op *op = nic_op_of(req);
    int err;

    if (nic_gone(fab))
        return nic_fail_gone();
    if (node >= fab->info.nodes)
        return nic_fail(-EHOSTUNREACH, "there is no node %u: the fabric has %u", node,
                        fab->info.nodes);
    memset(op, 0, sizeof *op);
    op->req = req;
    op->kind = (uint8_t)kind;
    op->node = node;
    op->key = key;
    op->offset = offset;
    nic_op_iov(op, &iov, 1);
    if (bytes > NIC_TRANSFER_MAX)
        return nic_fail(-EMSGSIZE, "a transfer has at most %llu bytes",
                        (unsigned long long)NIC_TRANSFER_MAX);
    nic_lock(fab);
    err = nic_op_id(fab, op);
    if (!err) {
        __atomic_store_n(&req->status, FABEMU_PENDING, __ATOMIC_RELAXED);
        nic_request(fab, nic_peer(fab, node), op);
    }
    nic_unlock(fab);
    return err;
}

int fabemu_put(struct fabemu *fab, uint32_t node, uint64_t key, uint64_t offset, const void *src,
               size_t bytes, struct fabemu_req *req)
{
    return memory_post(fab, NIC_OP_PUT, node, key, offset, (void *)(uintptr_t)src, bytes, req);
}

int fabemu_get(struct fabemu *fab, uint32_t node, uint64_t key, uint64_t offset, void *dst,
               size_t bytes, struct fabemu_req *req)
{
    return memory_post(fab, NIC_OP_GET, node, key, offset, dst, bytes, req);
}

/* --- a peer's ---------------------------------------------------------------------- */

void nic_fin(struct fabemu *fab, struct nic_peer *peer, uint32_t id, int status)
{
    struct nic_wire_fin fin = {.head = nic_head(peer, NIC_FIN, 0), .id = id, .status = status};

    nic_answer(fab, peer, &fin, sizeof fin);
}

void nic_cts(struct fabemu *fab, struct nic_peer *peer, uint32_t id, uint32_t to, uint64_t bytes)
{
    struct nic_wire_cts cts = {.head = nic_head(peer, NIC_CTS, 0), .id = id, .to = to,
                               .bytes = bytes};

    nic_answer(fab, peer, &cts, sizeof cts);
}

/* Reads and checks a request. NULL: refused, and the peer is told. */
static struct nic_region *memory_begin(struct fabemu *fab, struct nic_peer *peer,
                                       const struct emu_seg *seg, unsigned access,
                                       struct nic_wire_mem *mem)
{
    struct nic_region *region;

    if (seg->hdr.len < sizeof *mem) {
        fab->counts.malformed++;
        return NULL;
    }
    memcpy(mem, seg->payload, sizeof *mem);
    region = region_find(fab, mem->key);
    if (!region || !(region->access & access) || mem->offset > region->bytes ||
        mem->bytes > region->bytes - mem->offset) {
        nic_fin(fab, peer, mem->id, -EACCES);
        return NULL;
    }
    return region;
}

void nic_memory_put(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    struct nic_wire_mem mem;
    struct nic_region *region = memory_begin(fab, peer, seg, FABEMU_REMOTE_WRITE, &mem);

    if (!region)
        return;
    if (mem.bytes != seg->hdr.len - sizeof mem) {
        fab->counts.malformed++;
        return;
    }
    if (mem.bytes)
        memcpy(region->base + mem.offset, seg->payload + sizeof mem, mem.bytes);
    nic_fin(fab, peer, mem.id, 0);
}

static struct nic_op *memory_serve(struct fabemu *fab, struct nic_peer *peer, uint8_t kind,
                                   struct nic_region *region, const struct nic_wire_mem *mem)
{
    struct nic_op *op = nic_op_serve(fab, kind, peer->node);
    struct fabemu_iov iov = {.base = region->base + mem->offset, .bytes = mem->bytes};

    if (!op) {
        nic_fin(fab, peer, mem->id, -ENOBUFS);
        return NULL;
    }
    op->remote = mem->id;
    op->region = region;
    op->state = NIC_OP_WAITING;
    nic_op_iov(op, &iov, 1);
    return op;
}

void nic_memory_put_rts(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    struct nic_wire_mem mem;
    struct nic_region *region = memory_begin(fab, peer, seg, FABEMU_REMOTE_WRITE, &mem);
    struct nic_op *op;

    if (!region)
        return;
    if (!mem.bytes) {
        fab->counts.malformed++;
        return;
    }
    op = memory_serve(fab, peer, NIC_OP_SERVE_PUT, region, &mem);
    if (op)
        nic_cts(fab, peer, mem.id, op->id, mem.bytes);
}

void nic_memory_get(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    struct nic_wire_mem mem;
    struct nic_region *region = memory_begin(fab, peer, seg, FABEMU_REMOTE_READ, &mem);
    struct nic_op *op;

    if (!region)
        return;
    if (!mem.bytes) {
        nic_fin(fab, peer, mem.id, 0);
        return;
    }
    op = memory_serve(fab, peer, NIC_OP_SERVE_GET, region, &mem);
    if (op)
        nic_stream(fab, op);
}
