/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * batch.c - small puts and accumulates: several are sent together.
 *
 * Each put costs a segment, a confirmation, and the work of both adapters for them. So a small put
 * or accumulate that follows others to the same member is only copied into the member's batch. The
 * batch is posted when it is full, before any other part, and when a call waits for the member's
 * parts. A put that is alone is posted at once, except after MPI_Win_start: MPI_Win_complete sends
 * its notice in the same batch.
 */
#include "apps/ompi/osc/osc_fabemu.h"

#include <stdlib.h>
#include <string.h>

#define BATCH_BYTES 8192u /* of the list */
#define FIRST_BYTES 512u  /* of its first memory, because most lists are short */
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
    part = osc_fabemu_part_new(batch);
    part->req.unconfirmed = !confirmed;
    err = fabemu_batchv(batch->w->fab, peer->place.node, peer->place.key,
                        &(struct fabemu_iov){batch->out, batch->listed}, 1, NULL, &part->req);
    osc_fabemu_part_append(part, err);
    batch->parts--; /* no further part follows */
}

/* Return the member's batch, with memory for @bytes more of its list, or NULL. Lock: held. */
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

/* Append to the member's batch. Lock: held. */
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
    (void)osc_fabemu_reap(w, rank); /* its part has ended if the up ring had space */
    return rc;
}

/* --- runs -------------------------------------------------------------------------------- */

int osc_fabemu_run_end(struct osc_fabemu_window *w, int rank, struct osc_fabemu_run *run)
{
    struct fabemu_record *record = &run->record;
    int rc;

    if (!record->bytes)
        return OMPI_SUCCESS;
    record->strided = record->bytes > run->stride.block;
    rc = osc_fabemu_batch(w, rank, record, record->strided ? &run->stride : NULL, run->data);
    record->bytes = 0;
    return rc;
}

/* Return whether the run can include the block as well. */
static bool run_continues(const struct osc_fabemu_run *run, uint64_t at, size_t bytes)
{
    uint64_t has = run->record.bytes;

    return has && bytes == run->stride.block && has + bytes <= OSC_FABEMU_SMALL &&
           (has == bytes || at == run->next);
}

int osc_fabemu_run_add(struct osc_fabemu_window *w, int rank, struct osc_fabemu_run *run,
                       uint64_t at, size_t bytes, const void *data)
{
    int rc = OMPI_SUCCESS;

    if (run_continues(run, at, bytes)) {
        if (run->record.bytes == bytes)
            run->stride.step = at - run->record.offset;
    } else {
        rc = osc_fabemu_run_end(w, rank, run);
        run->record.offset = at;
        run->stride.block = bytes;
        run->data = data;
    }
    run->record.bytes += (uint32_t)bytes;
    run->next = at + run->stride.step;
    return rc;
}
