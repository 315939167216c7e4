/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fragments.c - discard incomplete receives of osc/pt2pt, and post them again.
 *
 * osc/pt2pt, Open MPI's one-sided communication over messages, keeps some receives from any source
 * posted. When a receive completes, it processes the buffer, which contains puts, accumulates and
 * replies. It ignores the receive's status. If the sender dies in the middle of a message, the
 * receive completes with an error. Its buffer then holds a part of that message, followed by the
 * rest of the previous message, from another member. If osc/pt2pt processed this rest a second
 * time, sums would be wrong and unexpected acknowledgments would be sent. So this file checks the
 * status first, and posts such a receive again as if no message had arrived. window.c reports the
 * loss of the sender.
 *
 * If the window is freed before the receive is posted again, osc/pt2pt frees the request and its
 * buffer, and this file removes the request from its list.
 *
 * These receives are persistent requests with one callback. The first request that osc/pt2pt starts
 * while it makes a window is one of them, so this file takes the callback from that request.
 *
 * Each long put or accumulate is received by a request that names its source, and osc/pt2pt counts
 * it for the source in the request's status. If such a request fails, Open MPI's transport sets
 * rank 0 as the source, whoever the sender was. Then the count for rank 0 would be one too high,
 * and its flushes would be acknowledged too early, or never. So this file corrects the source.
 *
 * Thread: as window.c.
 */
#include "coll_fabemu.h"

#include "ompi/mca/pml/pml.h"
#include "ompi/request/request.h"

#include <stdlib.h>

/* A receive that was incomplete and is to be posted again. */
struct broken {
    ompi_request_t *req;
    ompi_request_free_fn_t free_below; /* Open MPI's req->req_free */
};

static struct {
    /* Open MPI's function; NULL: this file is not installed */
    mca_pml_base_module_start_fn_t start_below;
    mca_pml_base_module_irecv_init_fn_t init_below;
    /* the request that was made last and is not started; NULL: none */
    ompi_request_t *made;
    int made_from;                    /* source of that request; negative: any */
    ompi_request_complete_fn_t below; /* osc/pt2pt's callback; NULL: not known yet */
    bool learns;                      /* a window is being made, so the callback can be learned */
    struct broken *broken;            /* receives to be started again once they are complete */
    size_t count, room;
} fragments;

/* req_free() of an incomplete receive whose window is freed before the receive is started again. */
static int broken_freed(ompi_request_t **req)
{
    size_t i = 0;

    while (fragments.broken[i].req != *req)
        i++;
    (*req)->req_free = fragments.broken[i].free_below;
    fragments.broken[i] = fragments.broken[--fragments.count];
    return (*req)->req_free(req);
}

/* Completion callback of osc/pt2pt's receives from any source. */
static int fragment_completed(ompi_request_t *req)
{
    struct broken *more;

    if (req->req_status.MPI_ERROR == MPI_SUCCESS && !req->req_status._cancelled)
        return fragments.below(req);
    if (fragments.count == fragments.room) {
        more = realloc(fragments.broken, (2 * fragments.room + 4) * sizeof *more);
        if (!more)
            (void)ompi_mpi_abort(MPI_COMM_WORLD, MPI_ERR_NO_MEM); /* the other ranks would hang */
        fragments.broken = more;
        fragments.room = 2 * fragments.room + 4;
    }
    fragments.broken[fragments.count++] = (struct broken){req, req->req_free};
    req->req_free = broken_freed;
    return OMPI_SUCCESS; /* osc/pt2pt does not see the completion and keeps the request */
}

/* What named_completed() needs to restore the callback of a receive that names its source. */
struct named {
    ompi_request_complete_fn_t below;
    void *data;
    int from;
};

static int named_completed(ompi_request_t *req)
{
    struct named *named = req->req_complete_cb_data;
    ompi_request_complete_fn_t below = named->below;

    req->req_complete_cb_data = named->data;
    if (req->req_status.MPI_ERROR != MPI_SUCCESS || req->req_status._cancelled)
        req->req_status.MPI_SOURCE = named->from;
    free(named);
    return below(req);
}

static void named_begin(ompi_request_t *req, int from)
{
    struct named *named = malloc(sizeof *named);

    if (!named)
        return; /* without memory, the source is not corrected */
    *named = (struct named){req->req_complete_cb, req->req_complete_cb_data, from};
    req->req_complete_cb = named_completed;
    req->req_complete_cb_data = named;
}

static int fragments_init(void *buf, size_t count, ompi_datatype_t *type, int from, int tag,
                          ompi_communicator_t *comm, ompi_request_t **req)
{
    int rc = fragments.init_below(buf, count, type, from, tag, comm, req);

    fragments.made = rc == OMPI_SUCCESS ? *req : NULL;
    fragments.made_from = from;
    return rc;
}

static int fragments_start(size_t count, ompi_request_t **reqs)
{
    for (size_t i = 0; i < count; i++) {
        if (fragments.learns && !fragments.below)
            fragments.below = reqs[i]->req_complete_cb;
        if (fragments.below && reqs[i]->req_complete_cb == fragments.below)
            reqs[i]->req_complete_cb = fragment_completed;
        else if (reqs[i] == fragments.made && fragments.made_from >= 0 && reqs[i]->req_complete_cb)
            named_begin(reqs[i], fragments.made_from);
    }
    fragments.made = NULL;
    return fragments.start_below(count, reqs);
}

void coll_fabemu_fragments_learn(bool learns)
{
    if (!fragments.start_below) {
        fragments.start_below = mca_pml.pml_start;
        fragments.init_below = mca_pml.pml_irecv_init;
        mca_pml.pml_start = fragments_start;
        mca_pml.pml_irecv_init = fragments_init;
    }
    fragments.learns = learns;
}

void coll_fabemu_fragments_again(void)
{
    size_t left = 0;

    for (size_t i = 0; i < fragments.count; i++) {
        struct broken one = fragments.broken[i];
        ompi_request_t *req = one.req;

        if (!REQUEST_COMPLETE(req)) {
            fragments.broken[left++] = one;
            continue;
        }
        req->req_free = one.free_below;
        req->req_status.MPI_ERROR = MPI_SUCCESS;
        req->req_status._cancelled = 0;
        /* set it again, because ompi_request_complete() has cleared it */
        req->req_complete_cb = fragment_completed;
        (void)fragments.start_below(1, &req);
    }
    fragments.count = left;
}

void coll_fabemu_fragments_undo(void)
{
    if (fragments.start_below) {
        mca_pml.pml_start = fragments.start_below;
        mca_pml.pml_irecv_init = fragments.init_below;
    }
    free(fragments.broken);
    fragments.start_below = NULL;
    fragments.below = NULL;
    fragments.broken = NULL;
    fragments.count = fragments.room = 0;
}
