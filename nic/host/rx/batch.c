/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * batch.c - execute the batches of peers on registered memory, segment by segment
 *
 * The segments of a batch are requests in a row, so they arrive in order, and nothing is buffered.
 * The peer gets one FIN, after the last segment.
 */
#include <errno.h>
#include <string.h>

#include "emu/util/combine.h"
#include "nic/host/base/op.h"
#include "nic/host/base/trap.h"
#include "nic/host/rx/atomic.h"
#include "nic/host/rx/region.h"
#include "nic/host/rx/serve.h"
#include "nic/host/tx/answer.h"

/* Return the region if it permits the rest of the current record, or NULL. */
static struct nic_region *record_region(struct fabemu *fab, const struct nic_batch *batch)
{
    const struct fabemu_record *record = &batch->record;
    struct nic_region *region = nic_region_find(fab, batch->key);
    unsigned access = record->op == FABEMU_RECORD_PUT ? FABEMU_REMOTE_WRITE
                                                      : FABEMU_REMOTE_WRITE | FABEMU_REMOTE_ATOMIC;

    return region && region->access & access &&
                   nic_region_holds(region, record->offset, record->bytes)
               ? region
               : NULL;
}

/* Return whether the operation of a record is valid, and its data are whole elements. */
static bool record_is_sane(const struct fabemu_record *record)
{
    size_t element = emu_type_bytes(record->type);

    if (record->spare || !record->bytes)
        return false;
    if (record->op == FABEMU_RECORD_PUT)
        return true;
    return fabemu_atomic_most(record->op, record->type) && nic_atomic_operands(record->op) == 1 &&
           element <= FABEMU_RECORD_UNIT && record->bytes % element == 0;
}

static uint64_t padded(uint32_t bytes)
{
    return ((uint64_t)bytes + FABEMU_RECORD_UNIT - 1) & ~(uint64_t)(FABEMU_RECORD_UNIT - 1);
}

/* Read a record. If it is refused, the rest of the batch is skipped. */
static void record_begin(struct nic_batch *batch, const uint8_t *from)
{
    struct fabemu_record *record = &batch->record;

    memcpy(record, from, sizeof *record);
    batch->left -= sizeof *record;
    batch->data = padded(record->bytes);
    if (!record_is_sane(record) || batch->data > batch->left)
        batch->status = -EINVAL;
}

/*
 * Change @piece. A single element is changed as by fabemu_atomic(), because one that is a word may
 * be a lock or a count that the program polls.
 */
static void record_apply(const struct fabemu_record *record, const uint8_t *from,
                         const struct fabemu_iov *piece)
{
    uint8_t before[FABEMU_RECORD_UNIT];
    struct nic_atomic atomic = {.op = record->op,
                                .type = record->type,
                                .bytes = piece->bytes,
                                .operands = from,
                                .before = before};

    if (record->op == FABEMU_RECORD_PUT)
        memcpy(piece->base, from, piece->bytes);
    else if (piece->bytes == emu_type_bytes(record->type))
        nic_atomic_apply(&atomic, piece);
    else
        nic_atomic_fold(record->op, record->type, from, piece);
}

/* Execute the record for the next @bytes of its data. The rest of the record is checked, too. */
static int record_execute(struct fabemu *fab, const struct nic_batch *batch, const uint8_t *from,
                          uint64_t bytes)
{
    const struct fabemu_record *record = &batch->record;
    const struct nic_region *region = record_region(fab, batch);
    struct fabemu_iov iov[NIC_IOVS];
    unsigned pieces;

    if (!region)
        return -EACCES;
    pieces = nic_region_iov(region, record->offset, bytes, iov);
    if (region->traps && !nic_trap_mapped(iov, pieces, true))
        return -EFAULT;
    for (unsigned i = 0; record->op != FABEMU_RECORD_PUT && i < pieces; i++)
        if (!nic_atomic_fits(record->type, &iov[i]))
            return -EINVAL;
    for (unsigned i = 0; i < pieces; from += iov[i++].bytes)
        record_apply(record, from, &iov[i]);
    return 0;
}

/* Handle the next @bytes of data and padding of the record. */
static void record_continue(struct fabemu *fab, struct nic_batch *batch, const uint8_t *from,
                            uint64_t bytes)
{
    uint64_t n = bytes < batch->record.bytes ? bytes : batch->record.bytes;

    if (n)
        batch->status = record_execute(fab, batch, from, n);
    batch->record.offset += n;
    batch->record.bytes -= (uint32_t)n;
    batch->data -= bytes;
    batch->left -= bytes;
}

static void batch_end(struct fabemu *fab, struct nic_peer *peer)
{
    const struct nic_batch *batch = &peer->batch;
    struct nic_region *region = nic_region_find(fab, batch->key);

    if (batch->status)
        nic_trap(fab, &(struct fabemu_trap){.node = peer->node,
                                            .status = batch->status,
                                            .key = batch->key,
                                            .offset = batch->record.offset,
                                            .bytes = batch->record.bytes});
    else if (region)
        nic_access_count(fab, &region->events, FABEMU_REMOTE_WRITE);
    nic_fin(fab, peer, batch->id, batch->status);
}

/* Handle the next bytes of the batch; the number is a multiple of FABEMU_RECORD_UNIT. */
static void batch_feed(struct fabemu *fab, struct nic_peer *peer, const uint8_t *from,
                       uint64_t bytes)
{
    struct nic_batch *batch = &peer->batch;
    uint64_t n;

    nic_trap_translated(fab);
    for (; bytes; bytes -= n, from += n) {
        n = FABEMU_RECORD_UNIT;
        if (batch->status) {
            n = bytes;
            batch->left -= n;
        } else if (!batch->data) {
            record_begin(batch, from);
        } else {
            n = bytes < batch->data ? bytes : batch->data;
            record_continue(fab, batch, from, n);
        }
    }
    if (!batch->left)
        batch_end(fab, peer);
}

/* Return whether a segment carries all that is left of the batch, or the @most bytes that fit. */
static bool batch_bytes_fit(const struct nic_batch *batch, uint64_t bytes, uint64_t most)
{
    return bytes == (batch->left < most ? batch->left : most);
}

void nic_batch_begin(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    struct nic_wire_mem mem;

    if (peer->batch.left || seg->hdr.len < sizeof mem) {
        peer->batch.left = 0; /* the rest of the previous batch is missing */
        fab->counts.malformed++;
        return;
    }
    memcpy(&mem, seg->payload, sizeof mem);
    peer->batch = (struct nic_batch){.key = mem.key, .left = mem.bytes, .id = mem.id};
    if (!mem.bytes || mem.bytes % FABEMU_RECORD_UNIT ||
        !batch_bytes_fit(&peer->batch, seg->hdr.len - sizeof mem, NIC_INLINE_BYTES)) {
        peer->batch.left = 0;
        fab->counts.malformed++;
        return;
    }
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
