/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * requests.c - non-blocking and persistent collectives.
 *
 * A non-blocking collective is posted to the group of its communicator. The network and the adapter
 * execute it while the program computes, and Open MPI's progress function completes its request.
 *
 * Each persistent request has its own group. All members must post the operations of a group in the
 * same order, but MPI lets each rank start its persistent requests in a different order.
 *
 * Thread: any. The lock protects the lists and the flag `freed` of each request. A non-blocking
 * request is completed without the lock, because its completion may call this component again. A
 * persistent request is completed under the lock, because another thread may free it.
 */
#include "coll_fabemu.h"

#include "ompi/mca/coll/base/coll_base_util.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/output.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct coll_fabemu_request {
    /* here Open MPI stores the objects that it retains for the request */
    ompi_coll_base_nbc_request_t super;
    struct coll_fabemu_request *next; /* next in the list of active, finished or unused requests */
    struct coll_fabemu_request *next_persistent;
    mca_coll_fabemu_module_t *module;
    ompi_communicator_t *comm;  /* retained until the request is freed */
    struct fabemu_group *group; /* group in which the operation is posted */
    bool freed;                 /* MPI_Request_free() was called while the request was active */
    int err; /* status of the parts; valid once the request is in the list of finished requests */
    struct coll_fabemu_call call;
    int parts;               /* number of elements of `reqs` */
    struct fabemu_req *reqs; /* &one, or allocated */
    struct fabemu_req one;
};
typedef struct coll_fabemu_request coll_fabemu_request_t; /* for Open MPI's object system */

static struct {
    opal_mutex_t lock;
    struct coll_fabemu_request *active; /* oldest first */
    _Atomic unsigned active_count;      /* changed under the lock, read without it */
    /* all persistent requests that are not freed, active or not */
    struct coll_fabemu_request *persistent;
    /* Requests are reused, and their memory is freed only when the component closes: Open MPI still
       reads a persistent request after it has called request_free(). */
    struct coll_fabemu_request *unused;
    struct fabemu *fab;
    bool polls; /* request_progress() is registered */
} requests;

/* --- persistent requests --------------------------------------------------------------- */

static void persistent_add(struct coll_fabemu_request *request)
{
    OPAL_THREAD_LOCK(&requests.lock);
    request->next_persistent = requests.persistent;
    requests.persistent = request;
    OPAL_THREAD_UNLOCK(&requests.lock);
}

static void persistent_remove(const struct coll_fabemu_request *request)
{
    struct coll_fabemu_request **at = &requests.persistent;

    OPAL_THREAD_LOCK(&requests.lock);
    while (*at != request)
        at = &(*at)->next_persistent;
    *at = request->next_persistent;
    OPAL_THREAD_UNLOCK(&requests.lock);
}

void coll_fabemu_each_group(const mca_coll_fabemu_module_t *module,
                            void (*visit)(struct fabemu_group *group, void *arg), void *arg)
{
    if (module->group)
        visit(module->group, arg);
    if (module->wide)
        visit(module->wide, arg);
    OPAL_THREAD_LOCK(&requests.lock);
    for (struct coll_fabemu_request *at = requests.persistent; at; at = at->next_persistent)
        if (at->module == module)
            visit(at->group, arg);
    OPAL_THREAD_UNLOCK(&requests.lock);
}

/* --- completion ----------------------------------------------------------------------- */

static void request_release(struct coll_fabemu_request *request)
{
    ompi_request_t *base = &request->super.super;

    if (base->req_persistent) {
        persistent_remove(request);
        fabemu_group_leave(request->group);
        if (request->call.dtype)
            OBJ_RELEASE(request->call.dtype);
        if (request->call.in_type)
            OBJ_RELEASE(request->call.in_type);
        if (request->call.op)
            OBJ_RELEASE(request->call.op);
    }
    OBJ_RELEASE(request->comm);
    if (request->reqs != &request->one)
        free(request->reqs);
    OMPI_REQUEST_FINI(base);
    OPAL_THREAD_LOCK(&requests.lock);
    request->next = requests.unused;
    requests.unused = request;
    OPAL_THREAD_UNLOCK(&requests.lock);
}

static void persistent_finish(struct coll_fabemu_request *request)
{
    bool freed;

    OPAL_THREAD_LOCK(&requests.lock); /* another thread may be in request_free() */
    freed = request->freed;
    if (!freed)
        ompi_request_complete(&request->super.super, true);
    OPAL_THREAD_UNLOCK(&requests.lock);
    if (freed)
        request_release(request);
}

static void request_finish(struct coll_fabemu_request *request)
{
    ompi_request_t *base = &request->super.super;

    base->req_status.MPI_ERROR =
        coll_fabemu_finish(request->module, request->comm, &request->call, request->err);
    if (base->req_persistent)
        persistent_finish(request);
    else
        ompi_request_complete(base, true); /* from now on another thread may free the request */
}

/*
 * Remove the requests whose operations have ended from the list of active requests, and return
 * them.
 */
static struct coll_fabemu_request *finished_take(void)
{
    struct coll_fabemu_request *finished = NULL, **last = &finished, **at = &requests.active;

    while (*at) {
        struct coll_fabemu_request *request = *at;

        request->err = coll_fabemu_status(request->reqs, request->parts);
        if (request->err == FABEMU_PENDING) {
            at = &request->next;
            continue;
        }
        *at = request->next;
        atomic_fetch_sub_explicit(&requests.active_count, 1, memory_order_relaxed);
        request->next = NULL;
        *last = request;
        last = &request->next;
    }
    return finished;
}

/* Open MPI's progress callback. Returns the number of requests that it has completed. */
static int request_progress(void)
{
    struct coll_fabemu_request *finished, *next;
    int count = 0;

    if (!atomic_load_explicit(&requests.active_count, memory_order_relaxed) ||
        OPAL_THREAD_TRYLOCK(&requests.lock))
        return 0;
    (void)fabemu_progress(requests.fab);
    finished = finished_take();
    OPAL_THREAD_UNLOCK(&requests.lock);
    for (; finished; finished = next, count++) {
        next = finished->next;
        request_finish(finished);
    }
    return count;
}

/* --- starting ------------------------------------------------------------------------- */

/* Post the operation of @request, and append the request to the list of active ones. */
static int request_post(struct coll_fabemu_request *request)
{
    struct coll_fabemu_request **at = &requests.active;
    bool registers;
    int err;

    request->super.super.req_complete = REQUEST_PENDING;
    request->super.super.req_state = OMPI_REQUEST_ACTIVE;
    memset(request->reqs, 0, (size_t)request->parts * sizeof *request->reqs);
    request->next = NULL;
    err = coll_fabemu_post(request->module, request->comm, request->group, &request->call,
                           request->reqs);
    if (err)
        return coll_fabemu_failed_alone(request->module, request->comm, request->call.coll, err);
    OPAL_THREAD_LOCK(&requests.lock);
    while (*at)
        at = &(*at)->next;
    *at = request;
    atomic_fetch_add_explicit(&requests.active_count, 1, memory_order_relaxed);
    requests.fab = request->module->fab;
    registers = !requests.polls;
    requests.polls = true;
    OPAL_THREAD_UNLOCK(&requests.lock);
    if (registers)
        opal_progress_register(request_progress);
    /* do this only for a long operation: a short one ends when its first segments arrive */
    if (request->call.bytes >= mca_coll_fabemu_component.wide_bytes)
        fabemu_hand_over(request->module->fab);
    return OMPI_SUCCESS;
}

static int request_start(size_t count, ompi_request_t **list)
{
    for (size_t i = 0; i < count; i++) {
        int rc = request_post((struct coll_fabemu_request *)list[i]);

        if (rc != OMPI_SUCCESS)
            return rc;
    }
    return OMPI_SUCCESS;
}

static int request_free(ompi_request_t **list)
{
    struct coll_fabemu_request *request = (struct coll_fabemu_request *)*list;
    bool active;

    OPAL_THREAD_LOCK(&requests.lock);
    active = !REQUEST_COMPLETE(*list);
    request->freed = active;
    OPAL_THREAD_UNLOCK(&requests.lock);
    *list = MPI_REQUEST_NULL;
    if (!active)
        request_release(request);
    return OMPI_SUCCESS;
}

static int request_cancel(ompi_request_t *request, int complete)
{
    (void)request;
    (void)complete;
    return MPI_ERR_REQUEST;
}

static void request_construct(struct coll_fabemu_request *request)
{
    ompi_request_t *base = &request->super.super;

    base->req_type = OMPI_REQUEST_COLL;
    base->req_start = request_start;
    base->req_free = request_free;
    base->req_cancel = request_cancel;
}

OBJ_CLASS_INSTANCE(coll_fabemu_request_t, ompi_coll_base_nbc_request_t, request_construct, NULL);

static struct coll_fabemu_request *request_make(mca_coll_fabemu_module_t *module,
                                                ompi_communicator_t *comm,
                                                struct fabemu_group *group,
                                                const struct coll_fabemu_call *call,
                                                bool persistent)
{
    struct coll_fabemu_request *request;
    ompi_request_t *base;

    OPAL_THREAD_LOCK(&requests.lock);
    request = requests.unused;
    if (request)
        requests.unused = request->next;
    OPAL_THREAD_UNLOCK(&requests.lock);
    if (!request)
        request = OBJ_NEW(coll_fabemu_request_t);
    if (!request)
        (void)ompi_mpi_abort(comm, MPI_ERR_NO_MEM); /* else the other ranks would wait forever */
    request->parts = coll_fabemu_parts(comm, call);
    request->reqs = request->parts == 1 ? &request->one
                                        : malloc((size_t)request->parts * sizeof *request->reqs);
    if (!request->reqs)
        (void)ompi_mpi_abort(comm, MPI_ERR_NO_MEM);
    base = &request->super.super;
    OMPI_REQUEST_INIT(base, persistent);
    base->req_free = request_free; /* Open MPI may have replaced this function */
    base->req_mpi_object.comm = comm;
    base->req_status = (ompi_status_public_t){.MPI_SOURCE = MPI_ANY_SOURCE,
                                              .MPI_TAG = MPI_ANY_TAG,
                                              .MPI_ERROR = MPI_SUCCESS};
    memset(&request->super.data, 0, sizeof request->super.data);
    memset(&request->super.cb, 0, sizeof request->super.cb);
    request->module = module;
    request->comm = comm;
    request->group = group;
    request->freed = false;
    request->call = *call;
    OBJ_RETAIN(comm);
    return request;
}

/* Start a non-blocking collective in @group. */
static int start(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                 struct fabemu_group *group, const struct coll_fabemu_call *call,
                 ompi_request_t **ret)
{
    struct coll_fabemu_request *request = request_make(module, comm, group, call, false);

    *ret = &request->super.super;
    return request_post(request);
}

/*
 * Make a persistent request, if the network can execute @call. Returns false if the caller must
 * pass the call to the component below.
 */
static bool init(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                 struct coll_fabemu_call *call, ompi_request_t **ret)
{
    struct coll_fabemu_request *request;
    struct fabemu_group *group;

    if (coll_fabemu_is_empty(comm, call))
        return false;
    call->overlaps = true;
    group = coll_fabemu_choose(module, comm, call);
    if (!group)
        return false;
    group = coll_fabemu_join_another(module, comm, group == module->wide);
    if (!group) {
        if (module->counts)
            fabemu_count_elsewhere(module->fab, call->coll, FABEMU_WHY_GROUP);
        return false;
    }
    request = request_make(module, comm, group, call, true);
    if (call->dtype)
        OBJ_RETAIN(call->dtype);
    if (call->in_type)
        OBJ_RETAIN(call->in_type);
    if (call->op)
        OBJ_RETAIN(call->op);
    persistent_add(request);
    *ret = &request->super.super;
    return true;
}

/* --- the collectives ------------------------------------------------------------------ */

/*
 * Return whether Open MPI itself may have made this call, in MPI_Comm_idup. Such calls run over
 * messages, because all members of a group must post its operations in the same order, but ranks
 * make these calls at different times, even between the program's blocking collectives.
 */
static bool is_of_idup(const struct coll_fabemu_call *call)
{
    return call->coll == FABEMU_COLL_ALLREDUCE && call->count == 1 &&
           call->dtype == &ompi_mpi_int.dt &&
           (call->op == &ompi_mpi_op_max.op || call->op == &ompi_mpi_op_min.op);
}

/*
 * Decide as coll_fabemu_choose() does. The components below make no non-blocking calls, so it does
 * not matter whether one of them is executing a collective.
 */
static struct fabemu_group *choose(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                                   struct coll_fabemu_call *call)
{
    bool passing = module->passing;
    struct fabemu_group *group;

    if (is_of_idup(call))
        return NULL;
    module->passing = false;
    call->overlaps = true;
    group = coll_fabemu_choose(module, comm, call);
    module->passing = passing;
    return group;
}

#define COLLECTIVE(name, parameters, arguments, ...)                                       \
    int coll_fabemu_i##name(COLL_FABEMU_UNWRAP parameters ompi_communicator_t *comm,       \
                            ompi_request_t **request, mca_coll_base_module_t *base)        \
    {                                                                                      \
        mca_coll_fabemu_module_t *module = (mca_coll_fabemu_module_t *)base;               \
        struct coll_fabemu_call call = __VA_ARGS__;                                        \
        struct fabemu_group *group;                                                        \
                                                                                           \
        if (coll_fabemu_is_empty(comm, &call)) {                                           \
            *request = &ompi_request_empty;                                                \
            return OMPI_SUCCESS;                                                           \
        }                                                                                  \
        group = choose(module, comm, &call);                                               \
        if (group)                                                                         \
            return start(module, comm, group, &call, request);                             \
        return module->below.i##name(COLL_FABEMU_UNWRAP arguments comm, request,           \
                                     module->below.i##name##_module);                      \
    }                                                                                      \
    int coll_fabemu_##name##_init(COLL_FABEMU_UNWRAP parameters ompi_communicator_t *comm, \
                                  ompi_info_t *info, ompi_request_t **request,             \
                                  mca_coll_base_module_t *base)                            \
    {                                                                                      \
        mca_coll_fabemu_module_t *module = (mca_coll_fabemu_module_t *)base;               \
        struct coll_fabemu_call call = __VA_ARGS__;                                        \
                                                                                           \
        if (init(module, comm, &call, request))                                            \
            return OMPI_SUCCESS;                                                           \
        return module->below.name##_init(COLL_FABEMU_UNWRAP arguments comm, info, request, \
                                         module->below.name##_init_module);                \
    }
#include "collectives.def"

/* --- the component's life ------------------------------------------------------------- */

void coll_fabemu_requests_begin(void)
{
    OBJ_CONSTRUCT(&requests.lock, opal_mutex_t);
}

/* End the operation of a request by breaking its group. The request itself is never completed. */
static void request_abandon(struct coll_fabemu_request *request)
{
    fabemu_group_break(request->group);
    (void)fabemu_progress(request->module->fab);
    free(request->call.packed);
    request->call.packed = NULL;
}

void coll_fabemu_requests_abandon(const mca_coll_fabemu_module_t *module)
{
    struct coll_fabemu_request **at = &requests.active;
    unsigned count = 0;

    OPAL_THREAD_LOCK(&requests.lock);
    while (*at) {
        struct coll_fabemu_request *request = *at;

        if (module && request->module != module) {
            at = &request->next;
            continue;
        }
        *at = request->next;
        atomic_fetch_sub_explicit(&requests.active_count, 1, memory_order_relaxed);
        request_abandon(request);
        count++;
    }
    OPAL_THREAD_UNLOCK(&requests.lock);
    if (count)
        opal_output(0, "fabemu: MPI_Finalize: the program has not completed %u collective%s", count,
                    count == 1 ? "" : "s");
}

void coll_fabemu_requests_end(void)
{
    coll_fabemu_requests_abandon(NULL);
    if (requests.polls)
        opal_progress_unregister(request_progress);
    requests.polls = false;
    while (requests.unused) {
        struct coll_fabemu_request *request = requests.unused;

        requests.unused = request->next;
        OBJ_RELEASE(request);
    }
    OBJ_DESTRUCT(&requests.lock);
}
