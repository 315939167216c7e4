/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * serve.c - puts, gets and atomics of peers, into and out of memory here.
 *
 * Every access is checked here, at the target, each time.
 */
#include "nic/host/memory/serve.h"

#include <errno.h>
#include <string.h>

#include "emu/combine.h"
#include "nic/host/memory/atomic.h"
#include "nic/host/memory/region.h"
#include "nic/host/op/op.h"
#include "nic/host/send/answer.h"
#include "nic/host/send/bulk.h"

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

/* An operation that serves the request @mem. NULL: there are too many, and the peer is told. */
static struct nic_op *serve_begin(struct fabemu *fab, struct nic_peer *peer, uint8_t kind,
                                  struct nic_region *region, const struct nic_wire_mem *mem)
{
    struct nic_serve *serve = nic_op_serve(fab, kind, peer->node);
    struct fabemu_iov iov = {.base = region->base + mem->offset, .bytes = mem->bytes};

    if (!serve) {
        nic_fin(fab, peer, mem->id, -ENOBUFS);
        return NULL;
    }
    serve->region = region;
    serve->op.remote = mem->id;
    serve->op.state = NIC_OP_WAITING;
    nic_op_iov(&serve->op, &iov, 1);
    return &serve->op;
}

void nic_memory_put_rts(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    struct nic_wire_mem mem;
    struct nic_region *region = memory_asked(fab, peer, seg, FABEMU_REMOTE_WRITE, &mem);
    struct nic_op *op = NULL;

    if (region && mem.bytes)
        op = serve_begin(fab, peer, NIC_OP_SERVE_PUT, region, &mem);
    else if (region)
        fab->counts.malformed++; /* a put of nothing is one segment, NIC_PUT */
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
    op = serve_begin(fab, peer, NIC_OP_SERVE_GET, region, &mem);
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

    if (!nic_wire_read(fab, seg, &atomic, sizeof atomic))
        return;
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
    result = (struct nic_wire_result){.head = nic_head(peer, NIC_RESULT, 0),
                                      .id = mem.id,
                                      .value = atomic.flags & NIC_ATOMIC_FETCH ? before : 0};
    nic_answer(fab, peer, &result, sizeof result);
}
