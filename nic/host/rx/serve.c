/* SPDX-License-Identifier: BSD-3-Clause */
/* serve.c - check the puts, gets and atomics of peers, and execute them on registered memory */
#include "nic/host/rx/serve.h"

#include <errno.h>
#include <string.h>

#include "emu/util/combine.h"
#include "nic/host/base/op.h"
#include "nic/host/base/trap.h"
#include "nic/host/rx/atomic.h"
#include "nic/host/rx/notice.h"
#include "nic/host/rx/region.h"
#include "nic/host/tx/answer.h"
#include "nic/host/tx/bulk.h"

/* Refuse a request, because its memory is not mapped or does not allow this access. */
static void request_trap(struct fabemu *fab, struct nic_peer *peer, const struct nic_wire_mem *mem,
                         int status)
{
    nic_trap(fab, &(struct fabemu_trap){.node = peer->node,
                                        .status = status,
                                        .key = mem->key,
                                        .offset = mem->offset,
                                        .bytes = mem->bytes});
    nic_fin(fab, peer, mem->id, status);
}

/* Return whether the region's pages for this request are mapped. */
static bool request_mapped(const struct nic_region *region, const struct nic_wire_mem *mem,
                           bool write)
{
    struct fabemu_iov iov[NIC_IOVS];

    return !region->traps ||
           nic_trap_mapped(iov, nic_region_iov(region, mem->offset, mem->bytes, iov), write);
}

/* Return 0 if the table of regions allows the access of @mem; otherwise the error of the trap. */
static int memory_translate(const struct nic_region *region, const struct nic_wire_mem *mem,
                            unsigned access)
{
    if (!region || !(region->access & access) || !nic_region_holds(region, mem->offset, mem->bytes))
        return -EACCES;
    return request_mapped(region, mem, access & FABEMU_REMOTE_WRITE) ? 0 : -EFAULT;
}

/*
 * Read and check a segment of a request for memory. Returns the region. NULL: the segment was
 * malformed, or the request is refused. A request may have several segments, and only its last one
 * is answered. If a segment was refused, all later segments of the request are refused, too,
 * although the process may have mapped the memory meanwhile. @more: this is not the last segment.
 */
static struct nic_region *memory_request_read(struct fabemu *fab, struct nic_peer *peer,
                                              const struct emu_seg *seg, unsigned access, bool more,
                                              struct nic_wire_mem *mem)
{
    struct nic_region *region;

    if (seg->hdr.len < sizeof *mem) {
        fab->counts.malformed++;
        return NULL;
    }
    memcpy(mem, seg->payload, sizeof *mem);
    region = nic_region_find(fab, mem->key);
    if (!mem->at)
        peer->refusal = 0;
    if (!peer->refusal)
        peer->refusal = memory_translate(region, mem, access);
    if (!peer->refusal) {
        nic_trap_translated(fab);
        return region;
    }
    if (!more)
        request_trap(fab, peer, mem, peer->refusal);
    return NULL;
}

void nic_request_count(struct fabemu *fab, const struct nic_region *region, unsigned region_access,
                       const struct nic_wire_head *head, unsigned queue_access)
{
    const struct fabemu_queue *queue = head->targets_queue ? fab->queues[head->queue] : NULL;

    nic_access_count(fab, &region->events, region_access);
    if (queue)
        nic_access_count(fab, &queue->events, queue_access);
}

struct put_request {
    struct nic_wire_mem mem;
    bool has_notice;
    struct fabemu_notice notice;
    uint64_t data_bytes; /* bytes of data in the segment */
    bool more;           /* segments of the put follow */
};

/* Return whether the segment's data is a part of the put; if the put has a notice, all of it. */
static bool put_is_sane(const struct put_request *put)
{
    const struct nic_wire_mem *mem = &put->mem;

    if (put->has_notice)
        return !mem->at && mem->bytes == put->data_bytes;
    return mem->at <= mem->bytes && put->data_bytes <= mem->bytes - mem->at &&
           (put->data_bytes || !mem->bytes);
}

/* Read and check a put request, and return its region or NULL, as memory_request_read() does. */
static struct nic_region *put_request_read(struct fabemu *fab, struct nic_peer *peer,
                                           const struct emu_seg *seg, struct put_request *put)
{
    uint8_t what = seg->payload[0];
    struct nic_wire_notice wire = {0};
    size_t head_bytes = sizeof put->mem;
    struct nic_region *region;

    put->has_notice = what == NIC_PUT_NOTICE || what == NIC_PUT_NOTICE_RTS;
    head_bytes += put->has_notice ? sizeof wire : 0;
    if (seg->hdr.len < head_bytes) {
        fab->counts.malformed++;
        return NULL;
    }
    memcpy(&put->mem, seg->payload, sizeof put->mem);
    put->data_bytes = seg->hdr.len - head_bytes;
    put->more = what == NIC_PUT && put->mem.at + put->data_bytes < put->mem.bytes;
    if ((what == NIC_PUT || what == NIC_PUT_NOTICE) && !put_is_sane(put)) {
        fab->counts.malformed++;
        return NULL;
    }
    region = memory_request_read(fab, peer, seg, FABEMU_REMOTE_WRITE, put->more, &put->mem);
    if (!region)
        return NULL;
    if (put->has_notice && nic_notice_check(fab, put->mem.head.queue)) {
        nic_fin(fab, peer, put->mem.id, -EOPNOTSUPP);
        return NULL;
    }
    if (put->has_notice)
        memcpy(&wire, seg->payload + sizeof put->mem, sizeof wire);
    put->mem.head.targets_queue |= put->has_notice;
    put->notice = (struct fabemu_notice){.queue = put->mem.head.queue,
                                         .src_queue = wire.src_queue,
                                         .data = wire.data};
    return region;
}

/* End a peer's put, whose bytes are all in memory: deliver its notice, then send a FIN. */
static void put_end(struct fabemu *fab, struct nic_peer *peer, const struct put_request *put,
                    const struct nic_region *region)
{
    int status = 0;

    nic_request_count(fab, region, FABEMU_REMOTE_WRITE, &put->mem.head, FABEMU_REMOTE_WRITE);
    if (put->has_notice)
        status = nic_notice_give(fab, peer, &put->notice, put->mem.bytes);
    nic_fin(fab, peer, put->mem.id, status);
}

static void region_write(const struct nic_region *region, uint64_t offset, const uint8_t *from,
                         uint64_t bytes)
{
    struct fabemu_iov iov[NIC_IOVS];
    unsigned pieces = bytes ? nic_region_iov(region, offset, bytes, iov) : 0;

    for (unsigned i = 0; i < pieces; from += iov[i++].bytes)
        memcpy(iov[i].base, from, iov[i].bytes);
}

void nic_memory_put(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    struct put_request put;
    struct nic_region *region = put_request_read(fab, peer, seg, &put);
    const struct nic_wire_mem *mem = &put.mem;

    if (!region)
        return;
    region_write(region, mem->offset + mem->at, seg->payload + seg->hdr.len - put.data_bytes,
                 put.data_bytes);
    if (!put.more)
        put_end(fab, peer, &put, region);
}

/* Start to serve @mem. If too many requests are being served, notify the peer and return NULL. */
static struct nic_op *serve_begin(struct fabemu *fab, struct nic_peer *peer, uint8_t kind,
                                  struct nic_region *region, const struct nic_wire_mem *mem)
{
    struct nic_serve *serve = nic_op_serve(fab, kind, peer->node);
    struct fabemu_iov iov[NIC_IOVS];

    if (!serve) {
        nic_fin(fab, peer, mem->id, -ENOBUFS);
        return NULL;
    }
    serve->region = region;
    serve->offset = mem->offset;
    serve->op.traps = region->traps;
    serve->targets_queue = mem->head.targets_queue;
    serve->queue = mem->head.queue;
    serve->op.remote = mem->id;
    serve->op.state = NIC_OP_WAITING;
    nic_op_iov(&serve->op, iov, nic_region_iov(region, mem->offset, mem->bytes, iov));
    return &serve->op;
}

void nic_memory_put_rts(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    struct put_request put;
    struct nic_region *region = put_request_read(fab, peer, seg, &put);
    struct nic_serve *serve;
    struct nic_op *op;

    if (!region)
        return;
    if (!put.mem.bytes) {
        fab->counts.malformed++; /* a put of 0 bytes needs no RTS */
        return;
    }
    op = serve_begin(fab, peer, NIC_OP_SERVE_PUT, region, &put.mem);
    if (!op)
        return;
    serve = nic_serve_of(op);
    serve->has_notice = put.has_notice;
    serve->notice = put.notice;
    nic_cts(fab, peer, put.mem.id, op->id, put.mem.bytes);
}

static struct nic_wire_head serve_head(const struct nic_serve *serve)
{
    return (struct nic_wire_head){.targets_queue = serve->targets_queue, .queue = serve->queue};
}

void nic_memory_put_done(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op)
{
    const struct nic_serve *serve = nic_serve_of(op);
    const struct put_request put = {
        .mem = {.head = serve_head(serve), .id = op->remote, .bytes = op->bytes},
        .has_notice = serve->has_notice,
        .notice = serve->notice,
    };

    put_end(fab, peer, &put, serve->region);
    nic_op_end(fab, op, 0);
}

static void get_sent(struct fabemu *fab, const struct nic_serve *serve)
{
    const struct nic_wire_head head = serve_head(serve);

    nic_request_count(fab, serve->region, FABEMU_REMOTE_READ, &head, FABEMU_REMOTE_READ);
}

void nic_memory_get(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    struct nic_wire_mem mem;
    struct nic_region *region =
        memory_request_read(fab, peer, seg, FABEMU_REMOTE_READ, false, &mem);
    struct nic_op *op;

    if (!region)
        return;
    if (!mem.bytes) {
        nic_request_count(fab, region, FABEMU_REMOTE_READ, &mem.head, FABEMU_REMOTE_READ);
        nic_fin(fab, peer, mem.id, 0);
        return;
    }
    op = serve_begin(fab, peer, NIC_OP_SERVE_GET, region, &mem);
    if (!op)
        return;
    nic_serve_of(op)->sent = get_sent;
    nic_stream(fab, op);
}

/* --- atomics ------------------------------------------------------------------------ */

bool nic_atomic_allowed(const struct nic_region *region, unsigned op, bool fetch)
{
    unsigned needs = 0;

    if (region->access & FABEMU_REMOTE_ATOMIC)
        return true;
    if (op != FABEMU_ATOMIC_FETCH)
        needs |= FABEMU_REMOTE_WRITE;
    if (op == FABEMU_ATOMIC_FETCH || fetch)
        needs |= FABEMU_REMOTE_READ;
    return (region->access & needs) == needs;
}

/* Return whether the header of a request is valid for a segment of this length. */
static bool atomic_is_sane(const struct nic_wire_atomic *atomic, size_t bytes)
{
    size_t most = fabemu_atomic_most(atomic->op, atomic->type);
    uint64_t element = emu_type_bytes(atomic->type), all = atomic->mem.bytes;

    return most && all && all <= most * element && !(all & (element - 1)) && !atomic->mem.at &&
           !(atomic->flags & ~NIC_ATOMIC_FETCH) &&
           bytes == sizeof *atomic + nic_atomic_operands(atomic->op) * all;
}

/*
 * Execute a request. Errors: -EINVAL, an element is misaligned, or divided between two pieces of
 * the region.
 */
static int atomic_execute(const struct nic_wire_atomic *wire, const uint8_t *operands,
                          const struct nic_region *region, uint8_t *before)
{
    struct nic_atomic atomic = {.op = wire->op,
                                .type = wire->type,
                                .bytes = wire->mem.bytes,
                                .operands = operands,
                                .before = before};
    struct fabemu_iov iov[NIC_IOVS];
    unsigned pieces = nic_region_iov(region, wire->mem.offset, wire->mem.bytes, iov);

    for (unsigned i = 0; i < pieces; i++)
        if (!nic_atomic_fits(wire->type, &iov[i]))
            return -EINVAL;
    for (unsigned i = 0; i < pieces; i++)
        nic_atomic_apply(&atomic, &iov[i]);
    return 0;
}

static void atomic_count(struct fabemu *fab, const struct nic_region *region,
                         const struct nic_wire_atomic *atomic)
{
    unsigned reads = atomic->flags & NIC_ATOMIC_FETCH ? FABEMU_REMOTE_READ : 0;
    unsigned writes = atomic->op != FABEMU_ATOMIC_FETCH ? FABEMU_REMOTE_WRITE : 0;

    nic_request_count(fab, region, reads | writes, &atomic->mem.head, reads ? reads : writes);
}

void nic_memory_atomic(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    struct nic_wire_atomic atomic;
    struct nic_wire_mem mem;
    struct nic_region *region;
    struct {
        struct nic_wire_result head;
        uint8_t before[NIC_ATOMIC_BYTES];
    } result;
    bool fetch;

    if (seg->hdr.len >= sizeof atomic)
        memcpy(&atomic, seg->payload, sizeof atomic);
    if (seg->hdr.len < sizeof atomic || !atomic_is_sane(&atomic, seg->hdr.len)) {
        fab->counts.malformed++;
        return;
    }
    fetch = atomic.flags & NIC_ATOMIC_FETCH;
    /* FETCH also works on memory that is mapped for reading only */
    region = memory_request_read(fab, peer, seg,
                                 atomic.op == FABEMU_ATOMIC_FETCH ? ~FABEMU_REMOTE_WRITE : ~0u,
                                 false, &mem);
    if (!region)
        return;
    if (!nic_atomic_allowed(region, atomic.op, fetch)) {
        request_trap(fab, peer, &mem, -EACCES);
        return;
    }
    if (atomic_execute(&atomic, seg->payload + sizeof atomic, region, result.before)) {
        nic_fin(fab, peer, mem.id, -EINVAL);
        return;
    }
    atomic_count(fab, region, &atomic);
    result.head = (struct nic_wire_result){.head = nic_head(peer, NIC_RESULT, 0), .id = mem.id};
    nic_answer(fab, peer, &result, sizeof result.head + (fetch ? mem.bytes : 0));
}
