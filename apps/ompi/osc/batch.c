/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * batch.c - small puts and accumulates: several are sent together.
 *
 * Each put costs a segment, a confirmation, and the work of both adapters for them. So a small put
 * or accumulate that follows others to the same member is only copied into the member's batch. The
 * batch is posted when it is full, before any other part, and when a call waits for the member's
 * parts. A put that is alone is posted at once.
 */
#include "apps/ompi/osc/osc_fabemu.h"

#include <string.h>

#define BATCH_BYTES  8192u                                             /* of the list */
#define RECORD_BYTES (sizeof(struct fabemu_record) + OSC_FABEMU_SMALL) /* the longest in a batch */

static size_t padding(size_t bytes)
{
    return -bytes & (FABEMU_RECORD_UNIT - 1);
}

bool osc_fabemu_batches(const struct osc_fabemu_peer *peer, size_t bytes)
{
    return bytes <= OSC_FABEMU_SMALL && (peer->first || peer->batch);
}

void osc_fabemu_batch_post(struct osc_fabemu_peer *peer)
{
    struct osc_fabemu_call *batch = peer->batch;
    struct osc_fabemu_part *part;
    int err;

    if (!batch)
        return;
    peer->batch = NULL;
    part = osc_fabemu_part_new(batch);
    err = fabemu_batchv(batch->w->fab, peer->place.node, peer->place.key,
                        &(struct fabemu_iov){batch->out, batch->listed}, 1, &part->req);
    osc_fabemu_part_append(part, err);
    batch->parts--; /* no further part follows */
}

static void batch_append(struct osc_fabemu_call *batch, const struct fabemu_record *record,
                         const void *data)
{
    char *to = (char *)batch->out + batch->listed;

    memcpy(to, record, sizeof *record);
    memcpy(to + sizeof *record, data, record->bytes);
    memset(to + sizeof *record + record->bytes, 0, padding(record->bytes));
    batch->listed += sizeof *record + record->bytes + padding(record->bytes);
}

int osc_fabemu_batch(struct osc_fabemu_window *w, int rank, const struct fabemu_record *record,
                     const void *data)
{
    struct osc_fabemu_peer *peer = &w->peer[rank];
    int rc = OMPI_SUCCESS;

    osc_fabemu_parts_limit(w);
    OPAL_THREAD_LOCK(&w->lock);
    if (!peer->batch)
        rc = osc_fabemu_call_begin(w, rank, BATCH_BYTES, 0, NULL, NULL, &peer->batch);
    if (!rc) {
        batch_append(peer->batch, record, data);
        if (BATCH_BYTES - peer->batch->listed < RECORD_BYTES)
            osc_fabemu_batch_post(peer);
    }
    OPAL_THREAD_UNLOCK(&w->lock);
    return rc;
}

void osc_fabemu_record(struct osc_fabemu_call *call, const struct fabemu_record *record,
                       const void *data)
{
    static const char zeros[FABEMU_RECORD_UNIT];
    const struct osc_fabemu_place *place = &call->peer->place;
    size_t pad = padding(record->bytes);
    struct osc_fabemu_part *part;
    int rank = (int)(call->peer - call->w->peer);

    if (!call->request && osc_fabemu_batches(call->peer, record->bytes) &&
        !osc_fabemu_batch(call->w, rank, record, data))
        return;
    part = osc_fabemu_part(call);
    part->record = *record;
    part->borrows = !call->out;

    const struct fabemu_iov list[] = {{&part->record, sizeof part->record},
                                      {(void *)(uintptr_t)data, record->bytes},
                                      {(void *)(uintptr_t)zeros, pad}};

    osc_fabemu_part_posted(part, fabemu_batchv(call->w->fab, place->node, place->key, list,
                                               pad ? 3 : 2, &part->req));
}
