/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fragments.c - what osc/pt2pt receives for a window comes whole, or not at all.
 *
 * Open MPI's one-sided communication over messages keeps some receives posted, from any source, and
 * carries out what their buffers hold once they are complete: puts, accumulates, answers. It does
 * not look at their status. One that has begun to match a message of a process that then died is
 * complete with an error; its buffer holds a part of that message, and behind it the one before,
 * of some other member, which would be carried out twice: wrong sums, and acknowledgments that
 * nobody waits for. So this component looks at the status before that one does: such a receive is
 * posted again, as if nothing had come. Who sent it is lost, and window.c says so.
 *
 * A window may be freed in between, and such a receive with it, whose buffer is no longer there: so
 * it is forgotten when it is freed.
 *
 * These receives are persistent requests with a callback. The first callback of a request that is
 * started while a window is made is theirs.
 *
 * Long puts and accumulates are received each by a request that names its source, and are counted
 * as come from who its status names. In the status of one that has failed Open MPI's transport
 * names rank 0, whoever it was to come from: rank 0 then was one ahead, and what it flushed was
 * acknowledged before it had come, or never. So the source is put right there.
 *
 * Thread: as window.c.
 */
#include "coll_fabemu.h"

#include "ompi/mca/pml/pml.h"
#include "ompi/request/request.h"

#include <stdlib.h>

/* A receive that came in part. */
struct broken {
    ompi_request_t *req;
    ompi_request_free_fn_t free_below; /* what frees it, if its window goes before */
};

static struct {
    mca_pml_base_module_start_fn_t start_below; /* NULL: not hooked */
    mca_pml_base_module_irecv_init_fn_t init_below;
    ompi_request_t
        *made;     /* the request that was made last, not started; NULL: none, or by nobody */
    int made_from; /* its source, or any */
    ompi_request_complete_fn_t below; /* osc/pt2pt's callback; NULL: not known yet */
    bool learns;                      /* a window is being made */
    struct broken *broken;            /* to be started again, once they are complete */
    size_t count, room;
} fragments;

/* Its window is freed before it was started again: its buffer is no longer there. */
static int broken_freed(ompi_request_t **req)
{
    size_t i = 0;

    while (fragments.broken[i].req != *req)
        i++;
    (*req)->req_free = fragments.broken[i].free_below;
    fragments.broken[i] = fragments.broken[--fragments.count];
    return (*req)->req_free(req);
}

/* Returns 0: the request completes, and is not over. */
static int fragment_came(ompi_request_t *req)
{
    struct broken *more;

    if (req->req_status.MPI_ERROR == MPI_SUCCESS && !req->req_status._cancelled)
        return fragments.below(req);
    if (fragments.count == fragments.room) {
        more = realloc(fragments.broken, (2 * fragments.room + 4) * sizeof *more);
        if (!more)
            (void)ompi_mpi_abort(MPI_COMM_WORLD, MPI_ERR_NO_MEM); /* others would wait for ever */
        fragments.broken = more;
        fragments.room = 2 * fragments.room + 4;
    }
    fragments.broken[fragments.count++] = (struct broken){req, req->req_free};
    req->req_free = broken_freed;
    return OMPI_SUCCESS;
}

/* A receive that names its source, with what osc/pt2pt would be called with. */
struct named {
    ompi_request_complete_fn_t below;
    void *data;
    int from;
};

static int named_came(ompi_request_t *req)
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
        return; /* as it would be without us */
    *named = (struct named){req->req_complete_cb, req->req_complete_cb_data, from};
    req->req_complete_cb = named_came;
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
            reqs[i]->req_complete_cb = fragment_came;
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
        req->req_complete_cb = fragment_came; /* which ompi_request_complete() has cleared */
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
