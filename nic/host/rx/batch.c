/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * batch.c - execute the batches of peers on registered memory, segment by segment.
 *
 * The segments of a batch are consecutive requests, so they are dispatched in order, and each is
 * executed at once. The result of a batch is collected, and sent after the last segment as the DATA
 * of a get. Without a result the peer gets a FIN, unless it wants none.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/util/combine.h"
#include "nic/host/base/op.h"
#include "nic/host/base/trap.h"
#include "nic/host/rx/atomic.h"
#include "nic/host/rx/region.h"
#include "nic/host/rx/serve.h"
#include "nic/host/tx/answer.h"
#include "nic/host/tx/bulk.h"

/* Return how many bytes of the record, without a gap in memory, come next. */
static uint64_t record_run(const struct nic_batch *batch)
{
    uint64_t left = batch->stride.block - batch->in_block;

    return left < batch->record.bytes ? left : batch->record.bytes;
}

static bool record_allowed(const struct nic_region *region, const struct nic_batch *batch)
{
    unsigned op = batch->record.op;

    if (op == FABEMU_RECORD_PUT || op == FABEMU_RECORD_GET)
        return region->access &
               (op == FABEMU_RECORD_PUT ? FABEMU_REMOTE_WRITE : FABEMU_REMOTE_READ);
    return nic_atomic_allowed(region, op, batch->serve);
}

/* Return the region if it permits the record's operation, or NULL. */
static struct nic_region *record_region(struct fabemu *fab, const struct nic_batch *batch)
{
    struct nic_region *region = nic_region_find(fab, batch->mem.key);

    return region && record_allowed(region, batch) ? region : NULL;
}

/*
 * Return the bytes from the current position to the end of the record's last block in memory, gaps
 * included; or UINT64_MAX if the next block begins before the current position, or the blocks lie
 * far apart. The result may exceed the end of the last block by less than a block.
 */
static uint64_t record_span(const struct nic_batch *batch)
{
    uint64_t run = record_run(batch), left = batch->record.bytes - run;
    const struct fabemu_stride *stride = &batch->stride;

    if (!left)
        return run;
    if (stride->step < batch->in_block || stride->step > UINT32_MAX)
        return UINT64_MAX;
    return run + (left + stride->block - 1) / stride->block * stride->step;
}

/* Return whether a record only reads memory. Then it has no data in the list. */
static bool record_reads(const struct fabemu_record *record)
{
    return record->op == FABEMU_RECORD_GET || record->op == FABEMU_ATOMIC_FETCH;
}

static bool record_fetches(const struct nic_batch *batch)
{
    return batch->serve && batch->record.op != FABEMU_RECORD_PUT;
}

/* Return whether the operation of a record is valid, and there is space for its result. */
static bool record_is_sane(const struct nic_batch *batch)
{
    const struct fabemu_record *record = &batch->record;

    if (record->strided > 1 || !record->bytes || (record_reads(record) && !batch->serve) ||
        (record_fetches(batch) && record->bytes > batch->mem.offset - batch->fetched))
        return false;
    if (record->op == FABEMU_RECORD_PUT || record->op == FABEMU_RECORD_GET)
        return true;
    return fabemu_atomic_most(record->op, record->type) && nic_atomic_operands(record->op) < 2 &&
           record->bytes % emu_type_bytes(record->type) == 0;
}

static uint64_t padded(uint32_t bytes)
{
    return ((uint64_t)bytes + FABEMU_RECORD_UNIT - 1) & ~(uint64_t)(FABEMU_RECORD_UNIT - 1);
}

/*
 * Change or read @piece. A single element is changed as by fabemu_atomic(), because it may be a
 * lock or a count that the program polls.
 */
static void record_apply(const struct fabemu_record *record, const uint8_t *from,
                         const struct fabemu_iov *piece, uint8_t *before)
{
    struct nic_atomic atomic = {.op = record->op,
                                .type = record->type,
                                .bytes = piece->bytes,
                                .operands = from,
                                .before = before};

    if (record->op == FABEMU_RECORD_PUT) {
        memcpy(piece->base, from, piece->bytes);
    } else if (record->op == FABEMU_RECORD_GET) {
        memcpy(before, piece->base, piece->bytes);
    } else if (record_reads(record) || piece->bytes == emu_type_bytes(record->type)) {
        nic_atomic_apply(&atomic, piece);
    } else {
        memcpy(before, piece->base, piece->bytes);
        nic_atomic_fold(record->op, record->type, from, piece);
    }
}

/* Execute the record for its next @bytes, which have no gaps. The rest of the block is checked. */
static int record_execute(const struct nic_region *region, struct nic_batch *batch,
                          const uint8_t *from, uint64_t bytes)
{
    const struct fabemu_record *record = &batch->record;
    bool fetches = record_fetches(batch), puts = record->op == FABEMU_RECORD_PUT;
    uint8_t unused[NIC_MORE_BYTES],
        *before = fetches ? batch->serve->result + batch->fetched : unused;
    struct fabemu_iov iov[NIC_IOVS];
    unsigned pieces;

    if (!nic_region_holds(region, record->offset, record_run(batch)))
        return -EACCES;
    pieces = nic_region_iov(region, record->offset, bytes, iov);
    if (region->traps && !nic_trap_mapped(iov, pieces, !record_reads(record)))
        return -EFAULT;
    for (unsigned i = 0; !puts && record->op != FABEMU_RECORD_GET && i < pieces; i++)
        if (!nic_atomic_fits(record->type, &iov[i]))
            return -EINVAL;
    for (unsigned i = 0; i < pieces; before += puts ? 0 : iov[i].bytes, from += iov[i++].bytes)
        record_apply(record, from, &iov[i], before);
    batch->fetched += fetches ? bytes : 0;
    return 0;
}

/* Record that the next @n bytes of the current block were executed. */
static inline void record_advance(struct nic_batch *batch, uint64_t n)
{
    batch->record.offset += n;
    batch->record.bytes -= (uint32_t)n;
    batch->in_block += n;
    if (batch->in_block == batch->stride.block) {
        batch->record.offset += batch->stride.step - batch->stride.block;
        batch->in_block = 0;
    }
}

static inline void record_copy(struct nic_batch *batch, void *to, const void *from, uint64_t n)
{
    if (n == sizeof(uint64_t)) /* for a matrix of doubles, because calling memcpy() takes longer */
        memcpy(to, from, sizeof(uint64_t));
    else
        memcpy(to, from, n);
    record_advance(batch, n);
}

/*
 * Copy the next @bytes of a put or get with gaps, whose memory was checked. A check for each block
 * would take ten times as long as the copy.
 */
static void record_copy_all(const struct nic_region *region, struct nic_batch *batch,
                            const uint8_t *from, uint64_t bytes)
{
    uint64_t base = (uintptr_t)region->piece[0].base - region->origin, n;
    bool puts = batch->record.op == FABEMU_RECORD_PUT;
    uint8_t *to = puts ? NULL : batch->serve->result + batch->fetched;

    batch->fetched += puts ? 0 : bytes;
    for (; bytes; bytes -= n) {
        void *memory = (void *)(uintptr_t)(base + batch->record.offset);

        n = record_run(batch);
        n = n < bytes ? n : bytes;
        if (puts) {
            record_copy(batch, memory, from, n);
            from += n;
        } else {
            record_copy(batch, to, memory, n);
            to += n;
        }
    }
}

/* Execute the record for its next @bytes, block by block. @from: their data. */
static void record_continue(struct fabemu *fab, struct nic_batch *batch, const uint8_t *from,
                            uint64_t bytes)
{
    const struct nic_region *region = record_region(fab, batch);
    uint64_t span = record_span(batch), n;

    if (!region) {
        batch->status = -EACCES;
        return;
    }
    if (batch->record.op >= FABEMU_RECORD_GET && region->pieces == 1 && !region->traps &&
        span != UINT64_MAX && nic_region_holds(region, batch->record.offset, span)) {
        record_copy_all(region, batch, from, bytes);
        return;
    }
    for (; bytes && !batch->status; bytes -= n, from += n) {
        n = record_run(batch);
        n = n < bytes ? n : bytes;
        batch->status = record_execute(region, batch, from, n);
        if (!batch->status)
            record_advance(batch, n);
    }
}

/* Check a record that has arrived, with its stride. If it has no data in the list, execute it. */
static void record_ready(struct fabemu *fab, struct nic_batch *batch, const uint8_t *from)
{
    if (!batch->stride.block || !record_is_sane(batch)) {
        batch->status = -EINVAL;
        return;
    }
    batch->data = record_reads(&batch->record) ? 0 : padded(batch->record.bytes);
    if (batch->data > batch->left)
        batch->status = -EINVAL;
    else if (!batch->data)
        record_continue(fab, batch, from, batch->record.bytes);
}

/* Read a unit that does not contain data: a record or its stride. */
static void record_read(struct fabemu *fab, struct nic_batch *batch, const uint8_t *from)
{
    batch->left -= FABEMU_RECORD_UNIT;
    if (batch->awaits_stride) {
        batch->awaits_stride = false;
        memcpy(&batch->stride, from, sizeof batch->stride);
        record_ready(fab, batch, from);
        return;
    }
    memcpy(&batch->record, from, sizeof batch->record);
    batch->stride.block = UINT64_MAX;
    batch->in_block = 0;
    batch->awaits_stride = batch->record.strided;
    if (!batch->awaits_stride)
        record_ready(fab, batch, from);
    else if (!batch->left)
        batch->status = -EINVAL;
}

/* Answer the batch: with its result, or with a FIN if the peer wants one. */
static void batch_end(struct fabemu *fab, struct nic_peer *peer)
{
    struct nic_batch *batch = &peer->batch;
    struct nic_region *region = nic_region_find(fab, batch->mem.key);
    unsigned counts = FABEMU_REMOTE_WRITE | (batch->serve ? FABEMU_REMOTE_READ : 0);
    struct nic_op *result = batch->serve ? &batch->serve->op : NULL;

    if (!batch->status && batch->fetched != batch->mem.offset)
        batch->status = -EINVAL;
    if (batch->status && batch->status != -ENOBUFS)
        nic_trap(fab, &(struct fabemu_trap){.node = peer->node,
                                            .status = batch->status,
                                            .key = batch->mem.key,
                                            .offset = batch->record.offset,
                                            .bytes = batch->record.bytes});
    else if (region && !batch->status)
        nic_request_count(fab, region, counts, &batch->mem.head, counts);
    batch->serve = NULL;
    if (!batch->status && result) {
        nic_stream(fab, result);
        return;
    }
    if (result)
        nic_op_end(fab, result, batch->status);
    if (batch->mem.id)
        nic_fin(fab, peer, batch->mem.id, batch->status);
}

/* Handle the next bytes of the batch; the number is a multiple of FABEMU_RECORD_UNIT. */
static void batch_feed(struct fabemu *fab, struct nic_peer *peer, const uint8_t *from,
                       uint64_t bytes)
{
    struct nic_batch *batch = &peer->batch;
    uint64_t n;

    nic_trap_translated(fab);
    for (; bytes; bytes -= n, from += n) {
        n = batch->status ? bytes : FABEMU_RECORD_UNIT;
        if (!batch->status && !batch->data) {
            record_read(fab, batch, from);
            continue;
        }
        if (!batch->status) {
            n = bytes < batch->data ? bytes : batch->data;
            record_continue(fab, batch, from, n < batch->record.bytes ? n : batch->record.bytes);
            batch->data -= n;
        }
        batch->left -= n;
    }
    if (!batch->left)
        batch_end(fab, peer);
}

/* Drop the batch, because a segment of it was invalid. */
static void batch_drop(struct fabemu *fab, struct nic_batch *batch)
{
    fab->counts.malformed++;
    if (batch->serve)
        nic_op_end(fab, &batch->serve->op, -EPROTO);
    *batch = (struct nic_batch){0};
}

/* Make the operation that will send the result. If there is no memory, the batch is skipped. */
static void batch_serve(struct fabemu *fab, struct nic_peer *peer)
{
    struct nic_batch *batch = &peer->batch;
    struct nic_serve *serve = nic_op_serve(fab, NIC_OP_SERVE_GET, peer->node);

    batch->status = -ENOBUFS;
    if (!serve)
        return;
    serve->op.state = NIC_OP_WAITING;
    serve->op.remote = batch->mem.id;
    serve->result = malloc(batch->mem.offset);
    if (!serve->result) {
        nic_op_end(fab, &serve->op, -ENOBUFS);
        return;
    }
    nic_op_iov(&serve->op, &(struct fabemu_iov){serve->result, batch->mem.offset}, 1);
    batch->serve = serve;
    batch->status = 0;
}

/* Return whether a segment carries all that is left of the batch, or the @most bytes that fit. */
static bool batch_bytes_fit(const struct nic_batch *batch, uint64_t bytes, uint64_t most)
{
    return bytes == (batch->left < most ? batch->left : most);
}

static bool batch_is_sane(const struct nic_batch *batch, uint64_t bytes)
{
    const struct nic_wire_mem *mem = &batch->mem;

    return mem->bytes && mem->bytes % FABEMU_RECORD_UNIT == 0 && (mem->id || !mem->offset) &&
           mem->offset <= FABEMU_BATCH_RESULT && batch_bytes_fit(batch, bytes, NIC_INLINE_BYTES);
}

void nic_batch_begin(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    struct nic_batch *batch = &peer->batch;
    struct nic_wire_mem mem;

    if (batch->left || seg->hdr.len < sizeof mem) {
        batch_drop(fab, batch); /* the rest of the previous batch is missing */
        return;
    }
    memcpy(&mem, seg->payload, sizeof mem);
    *batch = (struct nic_batch){.mem = mem, .left = mem.bytes};
    if (!batch_is_sane(batch, seg->hdr.len - sizeof mem)) {
        batch_drop(fab, batch);
        return;
    }
    if (mem.offset)
        batch_serve(fab, peer);
    batch_feed(fab, peer, seg->payload + sizeof mem, seg->hdr.len - sizeof mem);
}

void nic_batch_more(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    size_t head = sizeof(struct nic_wire_head);

    if (!peer->batch.left || !batch_bytes_fit(&peer->batch, seg->hdr.len - head, NIC_MORE_BYTES)) {
        fab->counts.malformed++;
        return;
    }
    batch_feed(fab, peer, seg->payload + head, seg->hdr.len - head);
}
