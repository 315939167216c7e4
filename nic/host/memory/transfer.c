/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transfer.c - registered memory; puts and gets of both sides.
 *
 * A key is a table index and 43 random bits, so a peer reaches only what it was
 * told of; or NIC_KEY_SYMMETRIC and 63 bits that a group's members have agreed on
 * (cast.c). Every access is checked here, at the target, each time.
 */
#include "nic/host/adapter.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "emu/combine.h"

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

/* Into the table. Errors: -ENOMEM, -ENOSPC. */
static int region_place(struct fabemu *fab, struct nic_region *region, uint64_t random)
{
    uint32_t index = 0;
    int err = 0;

    while (index < fab->region_count && fab->regions[index])
        index++;
    if (index == fab->region_count)
        err = regions_grow(fab);
    if (err)
        return err;
    region->key = (random << KEY_INDEX_BITS | index) & ~NIC_KEY_SYMMETRIC;
    fab->regions[index] = region;
    return 0;
}

int nic_region_add(struct fabemu *fab, const struct nic_region *init, struct nic_region **ret)
{
    struct nic_region *region = malloc(sizeof *region);
    int err = 0;

    if (!region)
        return -ENOMEM;
    *region = *init;
    if (region->group) {
        region->symmetric = fab->symmetric;
        fab->symmetric = region;
    } else {
        err = region_place(fab, region, nic_random());
    }
    if (err)
        free(region);
    else
        *ret = region;
    return err;
}

/* Symmetric ones are few. */
struct nic_region *nic_region_find(struct fabemu *fab, uint64_t key)
{
    uint32_t index = (uint32_t)key & KEY_INDEX_MASK;
    struct nic_region *region;

    if (key & NIC_KEY_SYMMETRIC) {
        for (region = fab->symmetric; region && region->key != key;)
            region = region->symmetric;
        return region;
    }
    region = index < fab->region_count ? fab->regions[index] : NULL;
    return region && region->key == key ? region : NULL;
}

void nic_region_drop(struct fabemu *fab, struct nic_region *region)
{
    struct nic_region **at = &fab->symmetric;

    nic_op_fail_all(fab, 0, region, -EACCES);
    if (region->group) {
        while (*at != region)
            at = &(*at)->symmetric;
        *at = region->symmetric;
    } else {
        fab->regions[region->key & KEY_INDEX_MASK] = NULL;
    }
    free(region);
}

void nic_region_written(struct fabemu *fab, struct nic_region *region)
{
    if (region->event)
        nic_event_counts(fab, region->event, 1, 0);
}

int nic_region_check(const void *addr, size_t bytes, unsigned access)
{
    if (access & ~(FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE | FABEMU_REMOTE_ATOMIC) ||
        (uintptr_t)addr + bytes < bytes)
        return nic_fail(-EINVAL, "no such access or memory");
    return bytes == SIZE_MAX ? 0 : nic_buffer_check(addr, bytes); /* that is all memory */
}

int fabemu_register(struct fabemu *fab, void *addr, size_t bytes, unsigned access, uint64_t *key)
{
    struct nic_region *region, init = {.base = addr, .bytes = bytes, .access = access};
    int err = nic_region_check(addr, bytes, access);

    if (err)
        return err;
    if (nic_gone(fab))
        return nic_fail_gone();
    nic_lock(fab);
    err = nic_region_add(fab, &init, &region);
    if (!err)
        *key = region->key;
    nic_unlock(fab);
    return err;
}

int fabemu_unregister(struct fabemu *fab, uint64_t key)
{
    struct nic_region *region;

    if (nic_gone(fab))
        return nic_fail_gone();
    nic_lock(fab);
    region = nic_region_find(fab, key);
    if (region)
        nic_region_drop(fab, region);
    nic_unlock(fab);
    return region ? 0 : nic_fail(-ENOENT, "no such key");
}

int fabemu_register_event(struct fabemu *fab, uint64_t key, struct fabemu_event *event)
{
    const struct fabemu_req named = {.event = event};
    struct nic_region *region;

    if (nic_gone(fab))
        return nic_fail_gone();
    if (nic_event_check(fab, &named))
        return -EINVAL;
    nic_lock(fab);
    region = nic_region_find(fab, key);
    if (region)
        region->event = event;
    nic_unlock(fab);
    return region ? 0 : nic_fail(-ENOENT, "no such key");
}

/* --- ours ------------------------------------------------------------------------ */

static int memory_begin(struct fabemu *fab, struct nic_post *post)
{
    struct nic_op *op = nic_op_of(post->req);
    int err = nic_op_id(fab, op);

    if (!err)
        nic_request(fab, nic_peer(fab, op->node), op);
    return err;
}

static int memory_check(struct fabemu *fab, uint32_t node, const struct fabemu_req *req)
{
    int err = nic_node_check(fab, node);

    return err ? err : nic_event_check(fab, req);
}

static struct nic_op *memory_op(enum nic_op_kind kind, uint32_t node, uint64_t key,
                                uint64_t offset, const struct fabemu_iov *iov, unsigned iovs,
                                struct fabemu_req *req)
{
    struct nic_op *op = nic_op_new(req, kind, node, memory_begin);

    op->key = key;
    op->offset = offset;
    nic_op_iov(op, iov, iovs);
    return op;
}

int nic_transfer_check(uint64_t bytes)
{
    return bytes > NIC_TRANSFER_MAX ? nic_fail(-EMSGSIZE, "a transfer has at most %llu bytes",
                                               (unsigned long long)NIC_TRANSFER_MAX) : 0;
}

static int transfer_post(struct fabemu *fab, enum nic_op_kind kind, uint32_t node, uint64_t key,
                         uint64_t offset, const struct fabemu_iov *iov, unsigned iovs,
                         struct fabemu_req *req)
{
    int err = memory_check(fab, node, req);
    struct nic_op *op;

    if (!err)
        err = nic_iov_check(iov, iovs);
    if (err)
        return err;
    op = memory_op(kind, node, key, offset, iov, iovs, req);
    err = nic_transfer_check(op->bytes);
    return err ? err : nic_post(fab, &op->post);
}

int fabemu_putv(struct fabemu *fab, uint32_t node, uint64_t key, uint64_t offset,
                const struct fabemu_iov *iov, unsigned iovs, struct fabemu_req *req)
{
    return transfer_post(fab, NIC_OP_PUT, node, key, offset, iov, iovs, req);
}

int fabemu_getv(struct fabemu *fab, uint32_t node, uint64_t key, uint64_t offset,
                const struct fabemu_iov *iov, unsigned iovs, struct fabemu_req *req)
{
    return transfer_post(fab, NIC_OP_GET, node, key, offset, iov, iovs, req);
}

int fabemu_put(struct fabemu *fab, uint32_t node, uint64_t key, uint64_t offset, const void *src,
               size_t bytes, struct fabemu_req *req)
{
    struct fabemu_iov local = {.base = (void *)(uintptr_t)src, .bytes = bytes};

    return fabemu_putv(fab, node, key, offset, &local, 1, req);
}

int fabemu_get(struct fabemu *fab, uint32_t node, uint64_t key, uint64_t offset, void *dst,
               size_t bytes, struct fabemu_req *req)
{
    struct fabemu_iov local = {.base = dst, .bytes = bytes};

    return fabemu_getv(fab, node, key, offset, &local, 1, req);
}

static int atomic_check(const struct fabemu_atomic *what)
{
    bool bare = what->op == FABEMU_ATOMIC_FETCH;

    if (!fabemu_atomic_ok(what->op, what->type))
        return nic_fail(-EINVAL, "atomic operation %u does not apply to type %u", what->op,
                        what->type);
    if ((!bare && !what->operand) || (what->op == FABEMU_ATOMIC_CAS && !what->compare))
        return nic_fail(-EINVAL, "atomic operation %u needs an operand", what->op);
    return 0;
}

int fabemu_atomic(struct fabemu *fab, const struct fabemu_atomic *what, struct fabemu_req *req)
{
    struct fabemu_iov local = {.base = what->result};
    int err = memory_check(fab, what->node, req);
    struct nic_op *op;

    if (!err)
        err = atomic_check(what);
    if (err)
        return err;
    local.bytes = emu_type_bytes(what->type);
    op = memory_op(NIC_OP_ATOMIC, what->node, what->key, what->offset, &local, 1, req);
    op->atomic_op = (uint8_t)what->op;
    op->atomic_type = (uint8_t)what->type;
    if (what->op != FABEMU_ATOMIC_FETCH)
        memcpy(&op->operand, what->operand, local.bytes);
    if (what->op == FABEMU_ATOMIC_CAS)
        memcpy(&op->compare, what->compare, local.bytes);
    return nic_post(fab, &op->post);
}

void nic_memory_result(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    struct nic_wire_result result;
    struct nic_op *op;

    if (seg->hdr.len != sizeof result) {
        fab->counts.malformed++;
        return;
    }
    memcpy(&result, seg->payload, sizeof result);
    op = nic_op_find(fab, result.id, peer->node);
    if (!op)
        return;
    if (op->kind != NIC_OP_ATOMIC || op->state != NIC_OP_WAITING) {
        fab->counts.malformed++;
        return;
    }
    if (op->iov[0].base)
        memcpy(op->iov[0].base, &result.value, op->bytes);
    nic_op_end(fab, op, 0);
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
static struct nic_region *memory_asked(struct fabemu *fab, struct nic_peer *peer,
                                       const struct emu_seg *seg, unsigned access,
                                       struct nic_wire_mem *mem)
{
    struct nic_region *region;

    if (seg->hdr.len < sizeof *mem) {
        fab->counts.malformed++;
        return NULL;
    }
    memcpy(mem, seg->payload, sizeof *mem);
    region = nic_region_find(fab, mem->key);
    if (!region || !(region->access & access) ||
        !nic_region_holds(region, mem->offset, mem->bytes)) {
        nic_fin(fab, peer, mem->id, -EACCES);
        return NULL;
    }
    return region;
}

void nic_memory_put(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    struct nic_wire_mem mem;
    struct nic_region *region = memory_asked(fab, peer, seg, FABEMU_REMOTE_WRITE, &mem);

    if (!region)
        return;
    if (mem.bytes != seg->hdr.len - sizeof mem) {
        fab->counts.malformed++;
        return;
    }
    if (mem.bytes)
        memcpy(region->base + mem.offset, seg->payload + sizeof mem, mem.bytes);
    nic_region_written(fab, region);
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
    struct nic_region *region = memory_asked(fab, peer, seg, FABEMU_REMOTE_WRITE, &mem);
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
    struct nic_region *region = memory_asked(fab, peer, seg, FABEMU_REMOTE_READ, &mem);
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

/* Both kinds of access are given by FABEMU_REMOTE_ATOMIC. */
static bool atomic_allowed(const struct nic_region *region, const struct nic_wire_atomic *atomic)
{
    unsigned needs = 0;

    if (region->access & FABEMU_REMOTE_ATOMIC)
        return true;
    if (atomic->op != FABEMU_ATOMIC_FETCH)
        needs |= FABEMU_REMOTE_WRITE;
    if (atomic->op == FABEMU_ATOMIC_FETCH || atomic->flags & NIC_ATOMIC_FETCH)
        needs |= FABEMU_REMOTE_READ;
    return (region->access & needs) == needs;
}

void nic_memory_atomic(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    struct nic_wire_atomic atomic;
    struct nic_wire_mem mem;
    struct nic_region *region;
    struct nic_wire_result result;
    uint64_t before;

    if (seg->hdr.len != sizeof atomic) {
        fab->counts.malformed++;
        return;
    }
    memcpy(&atomic, seg->payload, sizeof atomic);
    if (!fabemu_atomic_ok(atomic.op, atomic.type) ||
        atomic.mem.bytes != emu_type_bytes(atomic.type) || atomic.flags & ~NIC_ATOMIC_FETCH) {
        fab->counts.malformed++;
        return;
    }
    region = memory_asked(fab, peer, seg, ~0u, &mem);
    if (!region)
        return;
    if (!atomic_allowed(region, &atomic)) {
        nic_fin(fab, peer, mem.id, -EACCES);
        return;
    }
    if (((uintptr_t)region->base + mem.offset) % mem.bytes) {
        nic_fin(fab, peer, mem.id, -EINVAL);
        return;
    }
    before = nic_atomic(atomic.op, atomic.type, region->base + mem.offset, atomic.operand,
                        atomic.compare);
    if (atomic.op != FABEMU_ATOMIC_FETCH)
        nic_region_written(fab, region);
    result = (struct nic_wire_result){.head = nic_head(peer, NIC_RESULT, 0), .id = mem.id,
                                      .value = atomic.flags & NIC_ATOMIC_FETCH ? before : 0};
    nic_answer(fab, peer, &result, sizeof result);
}
