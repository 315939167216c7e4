/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * batch.c - sends several small puts and accumulates, or short pieces of longer ones, together.
 *
 * Each put costs a segment and a confirmation, and both adapters have to process them. So if other
 * operations with the same member are still under way, a small put or accumulate is only copied
 * into the member's batch. The batch is posted when it is full, before any other operation of the
 * adapter (*part*) with this member is posted, and when a call waits for such operations. If no
 * other operation is under way, a put is posted at once. After MPI_Win_start it is always copied,
 * because MPI_Win_complete sends its notice in the same batch.
 */
#include "apps/ompi/osc/osc_fabemu.h"

#include <stdlib.h>
#include <string.h>

#define BATCH_BYTES 8192u      /* maximum size of the list of records */
#define FIRST_BYTES 512u       /* initial size of its memory, because most lists are short */
#define GETS_BYTES  1024u      /* maximum size of the list of a batch of gets */
#define RECORD_MOST (1u << 20) /* maximum size of the data of a long record */
/* the longest record in a batch */
#define RECORD_BYTES \
    (sizeof(struct fabemu_record) + sizeof(struct fabemu_stride) + OSC_FABEMU_SMALL)

bool osc_fabemu_batches(const struct osc_fabemu_peer *peer, size_t bytes)
{
    return bytes <= OSC_FABEMU_SMALL && (peer->first || peer->batch || peer->started);
}

void osc_fabemu_batch_post(struct osc_fabemu_peer *peer, bool confirmed)
{
    struct osc_fabemu_call *batch = peer->batch;
    struct osc_fabemu_part *part;
    int err;

    if (!batch)
        return;
    peer->batch = NULL;
    part = osc_fabemu_part_new(batch, 0);
    part->req.unconfirmed = !confirmed;
    err = fabemu_batchv(batch->w->fab, peer->place.node, peer->place.key,
                        &(struct fabemu_iov){batch->out, batch->listed}, 1, NULL, &part->req);
    osc_fabemu_part_append(part, err);
    batch->parts--; /* no further part follows */
}

/*
 * Return the member's batch, with memory for another @bytes of its list; NULL: no memory. Lock:
 * held.
 */
static struct osc_fabemu_call *batch_room(struct osc_fabemu_window *w, int rank, size_t bytes)
{
    struct osc_fabemu_peer *peer = &w->peer[rank];
    struct osc_fabemu_call *batch = peer->batch;
    void *out;

    if (!batch && osc_fabemu_call_begin(w, rank, FIRST_BYTES, 0, NULL, NULL, &batch))
        return NULL;
    peer->batch = batch;
    if (batch->listed > FIRST_BYTES || batch->listed + bytes <= FIRST_BYTES)
        return batch;
    out = realloc(batch->out, BATCH_BYTES);
    if (!out)
        return NULL;
    batch->out = out;
    return batch;
}

static void list_append(struct osc_fabemu_call *batch, const void *from, size_t bytes)
{
    memcpy((char *)batch->out + batch->listed, from, bytes);
    batch->listed += bytes;
}

/* Append a record to the member's batch. Lock: held. */
static int batch_append(struct osc_fabemu_window *w, int rank, const struct fabemu_record *record,
                        const struct fabemu_stride *stride, const void *data)
{
    static const char zeros[FABEMU_RECORD_UNIT];
    size_t pad = -record->bytes % FABEMU_RECORD_UNIT;
    struct osc_fabemu_call *batch =
        batch_room(w, rank, sizeof *record + (stride ? sizeof *stride : 0) + record->bytes + pad);

    if (!batch)
        return MPI_ERR_NO_MEM;
    list_append(batch, record, sizeof *record);
    if (stride)
        list_append(batch, stride, sizeof *stride);
    list_append(batch, data, record->bytes);
    list_append(batch, zeros, pad);
    return OMPI_SUCCESS;
}

int osc_fabemu_batch(struct osc_fabemu_window *w, int rank, const struct fabemu_record *record,
                     const struct fabemu_stride *stride, const void *data)
{
    struct osc_fabemu_peer *peer = &w->peer[rank];
    int rc;

    osc_fabemu_parts_limit(w);
    OPAL_THREAD_LOCK(&w->lock);
    rc = batch_append(w, rank, record, stride, data);
    if (!rc && BATCH_BYTES - peer->batch->listed < RECORD_BYTES)
        osc_fabemu_batch_post(peer, true);
    OPAL_THREAD_UNLOCK(&w->lock);
    return rc;
}

int osc_fabemu_state_add(struct osc_fabemu_window *w, int rank, size_t offset, uint64_t operand,
                         bool joins)
{
    struct osc_fabemu_peer *peer = &w->peer[rank];
    const struct fabemu_record record = {.offset = peer->place.state + offset,
                                         .bytes = sizeof operand,
                                         .op = FABEMU_ATOMIC_ADD,
                                         .type = FABEMU_U64};
    int rc;

    OPAL_THREAD_LOCK(&w->lock);
    if (!joins)
        osc_fabemu_batch_post(peer, true);
    rc = batch_append(w, rank, &record, NULL, &operand);
    osc_fabemu_batch_post(peer, false);
    OPAL_THREAD_UNLOCK(&w->lock);
    /* the batch's part has already ended if the up ring had space */
    (void)osc_fabemu_reap(w, rank);
    return rc;
}

/* --- runs -------------------------------------------------------------------------------- */

/* A *run* is a sequence of blocks that are collected into records. */

static bool run_gets(const struct osc_fabemu_run *run)
{
    return run->record.op == FABEMU_RECORD_GET;
}

int osc_fabemu_gets_send(struct osc_fabemu_part *part)
{
    const struct osc_fabemu_place *place = &part->call->peer->place;
    const struct fabemu_iov list = {part + 1, part->gets_listed};

    return fabemu_batchv(part->call->w->fab, place->node, place->key, &list, 1, &part->result,
                         &part->req);
}

/* Post the gets of the run as a batch of their own. */
static void gets_post(struct osc_fabemu_run *run)
{
    struct osc_fabemu_part *part = run->gets;

    run->gets = NULL;
    part->borrows = true;
    osc_fabemu_part_posted(part, osc_fabemu_gets_send(part));
}

/* Append the record to the batch of gets. If the batch has no room, post it and begin another. */
static void gets_append(struct osc_fabemu_run *run)
{
    size_t bytes = sizeof run->record + sizeof run->stride;
    struct osc_fabemu_part *gets = run->gets;
    char *list;

    if (gets && (gets->gets_listed + bytes > GETS_BYTES ||
                 gets->result.bytes + run->record.bytes > FABEMU_BATCH_RESULT ||
                 (char *)gets->result.base + gets->result.bytes != run->data))
        gets_post(run);
    if (!run->gets) {
        run->gets = osc_fabemu_part(run->call, GETS_BYTES);
        run->gets->result.base = run->data;
    }
    gets = run->gets;
    list = (char *)(gets + 1) + gets->gets_listed;
    memcpy(list, &run->record, sizeof run->record);
    memcpy(list + sizeof run->record, &run->stride, sizeof run->stride);
    gets->gets_listed += run->record.strided ? bytes : sizeof run->record;
    gets->result.bytes += run->record.bytes;
}

/* Post the record as a batch of its own. Its data is not copied. The record may have a result. */
static void record_post(const struct osc_fabemu_run *run)
{
    static const char zeros[FABEMU_RECORD_UNIT];
    const struct fabemu_record *record = &run->record;
    const struct osc_fabemu_place *place = &run->call->peer->place;
    struct osc_fabemu_part *part = osc_fabemu_part(run->call, sizeof *record + sizeof run->stride);
    char *list = (char *)(part + 1);
    size_t listed = sizeof *record + (record->strided ? sizeof run->stride : 0);
    const struct fabemu_iov result = {run->result, record->bytes};
    const struct fabemu_iov iov[] = {{list, listed},
                                     {run->data, record->bytes},
                                     {(void *)zeros, -record->bytes % FABEMU_RECORD_UNIT}};
    unsigned iovs = !run->data ? 1 : iov[2].bytes ? 3 : 2;

    memcpy(list, record, sizeof *record);
    memcpy(list + sizeof *record, &run->stride, sizeof run->stride);
    part->borrows = run->result || !run->call->out;
    osc_fabemu_part_posted(part, fabemu_batchv(run->call->w->fab, place->node, place->key, iov,
                                               iovs, run->result ? &result : NULL, &part->req));
}

/* Make a record of blocks. */
static int record_make(struct osc_fabemu_run *run)
{
    struct osc_fabemu_window *w = run->call->w;
    struct fabemu_record *record = &run->record;

    record->strided = record->bytes > run->stride.block;
    if (run_gets(run))
        gets_append(run);
    else if (run->result || record->bytes > OSC_FABEMU_SMALL)
        record_post(run);
    else
        return osc_fabemu_batch(w, (int)(run->call->peer - w->peer), record,
                                record->strided ? &run->stride : NULL, run->data);
    return OMPI_SUCCESS;
}

/* Make records of the blocks, if there are any. */
static int run_record(struct osc_fabemu_run *run)
{
    uint64_t most = run_gets(run) || run->result ? FABEMU_BATCH_RESULT : RECORD_MOST;
    uint64_t block = run->stride.block, n;
    int rc = OMPI_SUCCESS;

    most -= block ? most % block : 0;
    for (; run->bytes && !rc; run->bytes -= n) {
        n = run->bytes < most ? run->bytes : most;
        run->record.bytes = (uint32_t)n;
        rc = record_make(run);
        run->record.offset += n / block * run->stride.step;
        run->data = run->data ? run->data + n : NULL;
        run->result = run->result ? run->result + n : NULL;
    }
    return rc;
}

int osc_fabemu_run_end(struct osc_fabemu_run *run)
{
    int rc = run_record(run);

    if (run->gets)
        gets_post(run);
    else if (run->call->request && run->data) /* an empty part, which ends after the batch */
        osc_fabemu_part_posted(osc_fabemu_part(run->call, 0), 0);
    return rc;
}

/* Return whether the run can include the piece as well. */
static bool run_continues(const struct osc_fabemu_run *run, const struct osc_fabemu_piece *piece,
                          const char *data, const char *result)
{
    uint64_t has = run->bytes, bytes = piece->bytes,
             most = run_gets(run) || run->result ? FABEMU_BATCH_RESULT : OSC_FABEMU_SMALL;

    return has && bytes == run->stride.block && has + bytes <= most &&
           (!data || data == run->data + has) && (!result || result == run->result + has) &&
           (has == bytes || piece->at == run->next);
}

int osc_fabemu_run_add(struct osc_fabemu_run *run, const struct osc_fabemu_piece *piece, char *data,
                       char *result)
{
    int rc = OMPI_SUCCESS;

    if (run_continues(run, piece, data, result)) {
        if (run->bytes == piece->bytes)
            run->stride.step = piece->at - run->record.offset;
    } else {
        rc = run_record(run);
        run->record.offset = piece->at;
        run->stride = piece->stride;
        run->data = data;
        run->result = result;
    }
    run->bytes += piece->bytes;
    run->next = piece->at + run->stride.step;
    return rc;
}
