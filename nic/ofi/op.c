/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * op.c - the operations of an endpoint: their pool, completion and cancelling.
 *
 * The pool grows when more operations than ever before are in flight or unread, and never shrinks.
 * So in the steady state no message allocates memory. Threads take operations from the pool under
 * the endpoint's lock. They return an operation by a push onto a stack, which even callbacks may
 * do. If calls are serialized, the thread that has read an entry returns its operation without a
 * push.
 *
 * A second pool has the operations for messages that arrive in a buffer for several messages, and
 * for messages that were lost. Callbacks take these operations under the adapter's lock, where they
 * may not take the endpoint's lock.
 */
#include "nic/ofi/ep.h"

#include <stdlib.h>

/* Callback of the adapter. The thread that steps the adapter calls it, under the adapter's lock. */
static void op_done(struct fabemu_req *req)
{
    struct ofi_op *op = container_of(req, struct ofi_op, req);

    op->error = req->status ? ofi_errno(req->status) : 0;
    op->done(op);
}

static struct ofi_op *op_slab_add(struct ofi_pool *pool)
{
    struct ofi_slab *slab;

    if (pool->slab_count == OFI_SLABS_MAX)
        return NULL;
    slab = calloc(1, sizeof *slab);
    if (!slab)
        return NULL;
    slab->next = pool->slabs;
    pool->slabs = slab;
    pool->slab_count++;
    for (uint32_t i = 0; i < OFI_SLAB_OPS; i++) {
        slab->op[i].pool = pool;
        slab->op[i].req.done = op_done;
        slab->op[i].next = i + 1 < OFI_SLAB_OPS ? &slab->op[i + 1] : NULL;
    }
    return slab->op;
}

/* Lock: that of the pool (see struct ofi_ep). */
static struct ofi_op *op_take(struct ofi_ep *ep, struct ofi_pool *pool)
{
    struct ofi_op *op = pool->free;

    if (!op)
        op = ofi_stack_take(&pool->spare);
    if (!op)
        op = op_slab_add(pool);
    if (!op)
        return NULL;
    pool->free = op->next;
    op->ep = ep;
    return op;
}

static uint64_t op_entry_flags(enum ofi_kind kind, enum ofi_count count)
{
    switch (count) {
    case OFI_COUNT_SEND:
        return FI_SEND | (kind == OFI_TAGGED ? FI_TAGGED : FI_MSG);
    case OFI_COUNT_RECV:
        return FI_RECV | (kind == OFI_TAGGED ? FI_TAGGED : FI_MSG);
    case OFI_COUNT_READ:
        return FI_READ | FI_RMA;
    case OFI_COUNT_NOTICE:
        return FI_REMOTE_WRITE | FI_RMA | FI_REMOTE_CQ_DATA;
    default:
        return FI_WRITE | FI_RMA;
    }
}

static void op_set(struct ofi_op *op, const struct ofi_xfer *xfer, enum ofi_count count)
{
    struct ofi_ep *ep = op->ep;
    /* a notice is always reported, even with FI_SELECTIVE_COMPLETION */
    bool notice = count == OFI_COUNT_NOTICE;
    const struct ofi_side *side = notice || count == OFI_COUNT_RECV ? &ep->rx : &ep->tx;

    op->req.context = xfer->context;
    op->req.queue = OFI_QUEUE_NONE;
    op->req.mark = 0; /* a cancelled receive must not report data */
    op->req.incarnation = 0;
    op->srx = ofi_srx_of(ep);
    op->cq = side->cq;
    op->cntr = ep->cntr[count];
    op->buf = NULL;
    op->room = 0;
    ofi_op_flags_set(op, op_entry_flags(xfer->kind, count));
    op->error = 0;
    op->kind = xfer->kind;
    op->done = ofi_op_finish;
    op->wanted = notice || (!xfer->silent && (!side->selective || xfer->flags & FI_COMPLETION));
}

struct ofi_op *ofi_op_get(struct ofi_ep *ep, const struct ofi_xfer *xfer, enum ofi_count count)
{
    struct ofi_op *op;

    ofi_lock(&ep->lock);
    op = op_take(ep, &ep->pool);
    ofi_unlock(&ep->lock);
    if (op)
        op_set(op, xfer, count);
    return op;
}

struct ofi_op *ofi_op_arrival(struct ofi_op *multi)
{
    return op_take(multi->ep, &multi->ep->arrivals);
}

void *ofi_op_copy(struct ofi_op *op, const struct fabemu_iov *iov, unsigned pieces, size_t bytes)
{
    void *to = op->copy;

    if (bytes > sizeof op->copy) {
        if (!op->large_copy)
            op->large_copy = malloc(OFI_INJECT_BYTES);
        to = op->large_copy;
    }
    if (to)
        ofi_iov_copy(to, iov, pieces);
    return to;
}

/*
 * Return whether an operation is in flight. Operations that wait for a peer's message or write do
 * not count; they have a flag of OFI_FROM_PEER.
 */
static bool op_pending(const struct ofi_op *op)
{
    return fabemu_req_status(&op->req) == FABEMU_PENDING &&
           !(__atomic_load_n(&op->flags, __ATOMIC_RELAXED) & OFI_FROM_PEER);
}

/*
 * Return whether an operation is a write in flight. Triggered writes, which can be cancelled, do
 * not count, because their counters order them.
 */
static bool write_pending(const struct ofi_op *op)
{
    return op_pending(op) && __atomic_load_n(&op->flags, __ATOMIC_RELAXED) & FI_WRITE &&
           !atomic_load_explicit(&op->cancellable, memory_order_relaxed);
}

static bool any_pending(const struct ofi_ep *ep, bool (*must_wait)(const struct ofi_op *op))
{
    for (const struct ofi_slab *slab = ep->pool.slabs; slab; slab = slab->next)
        for (uint32_t i = 0; i < OFI_SLAB_OPS; i++)
            if (must_wait(&slab->op[i]))
                return true;
    return false;
}

bool ofi_op_sends_pending(struct ofi_ep *ep)
{
    return any_pending(ep, op_pending);
}

/* Return whether @must_wait() is true of any operation. If so, make progress. */
static bool op_awaits(struct ofi_ep *ep, bool (*must_wait)(const struct ofi_op *op))
{
    bool pending;

    ofi_lock(&ep->lock);
    pending = any_pending(ep, must_wait);
    ofi_unlock(&ep->lock);
    if (pending)
        fabemu_progress(ep->domain->fab);
    return pending;
}

bool ofi_op_fenced(struct ofi_ep *ep, uint64_t flags)
{
    return flags & FI_FENCE && op_awaits(ep, op_pending);
}

/*
 * The peer handles requests in the order of their numbers. A message or a short write is one
 * request, but the data of a longer write follows its request, so a message could overtake the
 * data. An operation does not record whether its write is long, so a message waits for short
 * writes, too.
 */
bool ofi_op_after_writes(struct ofi_ep *ep, uint64_t flags)
{
    return ep->after_writes && !(flags & FI_TRIGGER) && op_awaits(ep, write_pending);
}

/* --- completion --------------------------------------------------------------------- */

void ofi_op_put(struct ofi_op *op)
{
    atomic_store_explicit(&op->cancellable, false, memory_order_relaxed);
    ofi_stack_push(&op->pool->spare, op);
}

/* If calls are serialized, no other thread uses the free list, so no push is necessary. */
void ofi_op_read(struct ofi_op *op)
{
    struct ofi_ep *ep = op->ep;

    if (!ep->lock.serial || op->pool != &ep->pool) {
        ofi_op_put(op);
        return;
    }
    op->next = ep->pool.free;
    ep->pool.free = op;
}

static void op_count(const struct ofi_op *op, struct ofi_cntr *cntr, bool locked)
{
    enum fabemu_event_change change = op->error ? FABEMU_EVENT_ADD_FAILURES : FABEMU_EVENT_ADD;

    if (locked)
        fabemu_event_change_in_done(&cntr->event, change, 1);
    else
        fabemu_event_change(&cntr->event, change, 1);
}

/* @locked: the adapter's lock is held. */
static void op_finish(struct ofi_op *op, bool locked)
{
    if (op->srx && !ofi_srx_assign(op)) {
        ofi_op_put(op);
        return;
    }
    struct ofi_cq *cq = op->wanted || op->error ? op->cq : NULL;
    struct ofi_cntr *cntr = op->cntr;

    atomic_store_explicit(&op->cancellable, false, memory_order_relaxed);
    if (op->hold) {
        ofi_release(op->hold);
        op->hold = NULL;
    }
    if (atomic_load_explicit(&op->ep->closing, memory_order_relaxed)) {
        ofi_op_put(op); /* do not use op->cq or op->cntr, which may have been closed */
        return;
    }
    if (cntr)
        op_count(op, cntr, locked);
    if (cq) {
        ofi_stack_push(&cq->arrived, op);
        ofi_source_wake(&cq->source);
    } else {
        ofi_op_put(op);
    }
}

void ofi_op_finish(struct ofi_op *op)
{
    op_finish(op, true);
}

void ofi_op_finish_here(struct ofi_op *op)
{
    op_finish(op, false);
}

void ofi_op_lost(struct ofi_ep *ep, enum ofi_kind kind, const struct fabemu_req *failed)
{
    const struct ofi_xfer none = {.kind = kind};
    struct ofi_op *op = op_take(ep, &ep->arrivals);

    if (!op) {
        ofi_report("a message was lost, and there is no memory to report it");
        return;
    }
    op->req = *failed;
    op->req.done = op_done;
    op_set(op, &none, OFI_COUNT_SEND);
    op->error = ofi_errno(failed->status);
    ofi_op_finish(op);
}

/* --- triggered operations ------------------------------------------------------------ */

/* Let the adapter start @op as @trigger says. M2 pairs with M1, as in xfer.c. */
static void op_arm(struct ofi_op *op, const struct ofi_trigger *trigger)
{
    op->req.context = (void *)trigger->context;
    op->req.after = &trigger->cntr->event;
    op->req.threshold = trigger->threshold;
    /* the threshold of deferred work counts failures, too: fi_trigger(3) */
    op->req.after_failures = trigger->work != NULL;
    atomic_store_explicit(&op->cancellable, true, memory_order_release); /* M2 */
}

/* Remove and return the operation's trigger. The caller then releases its counter. */
static struct ofi_trigger trigger_take(struct ofi_op *op)
{
    struct ofi_trigger trigger = op->trigger;

    op->trigger = (struct ofi_trigger){0};
    op->req.after = NULL;
    return trigger;
}

/* A triggered operation is complete. @locked: the adapter's lock is held. */
static void triggered_finish(struct ofi_op *op, bool locked)
{
    if (op->trigger.work)
        ofi_work_complete(op);
    struct ofi_trigger trigger = trigger_take(op);

    op_finish(op, locked);
    if (trigger.work)
        ofi_work_end(trigger.work);
    ofi_release(&trigger.cntr->source.refs);
}

static void triggered_done(struct ofi_op *op)
{
    triggered_finish(op, true);
}

int ofi_op_begin(struct ofi_ep *ep, const struct ofi_xfer *xfer, enum ofi_count count,
                 struct ofi_op **ret)
{
    struct ofi_trigger trigger = {0};
    int err = xfer->flags & FI_TRIGGER ? ofi_trigger_of(ep, xfer, &trigger) : 0;
    struct ofi_op *op = err ? NULL : ofi_op_get(ep, xfer, count);

    *ret = op;
    if (!op)
        return err ? err : -FI_EAGAIN;
    if (!trigger.cntr)
        return 0;
    op->trigger = trigger;
    op->done = triggered_done;
    ofi_hold(&trigger.cntr->source.refs);
    if (trigger.work)
        ofi_work_apply(op);
    op_arm(op, &trigger);
    return 0;
}

void ofi_op_drop(struct ofi_op *op)
{
    struct ofi_trigger trigger = trigger_take(op);

    if (trigger.cntr)
        ofi_release(&trigger.cntr->source.refs);
    ofi_op_put(op);
}

/* --- operations in parts ------------------------------------------------------------ */

void ofi_op_split(struct ofi_op *whole, uint32_t parts)
{
    atomic_store_explicit(&whole->parts, parts + 1, memory_order_relaxed);
    /* only its parts can be cancelled */
    atomic_store_explicit(&whole->cancellable, false, memory_order_relaxed);
}

/* O1 pairs with itself: the thread that ends the last part sees the errors of all parts. */
static void parts_end(struct ofi_op *whole, uint32_t parts, bool locked)
{
    if (atomic_fetch_sub_explicit(&whole->parts, parts, memory_order_acq_rel) != parts) /* O1 */
        return;
    if (whole->trigger.cntr)
        triggered_finish(whole, locked);
    else
        op_finish(whole, locked);
}

void ofi_op_split_end(struct ofi_op *whole, uint32_t missing, int error)
{
    if (error)
        __atomic_store_n(&whole->error, error, __ATOMIC_RELAXED);
    parts_end(whole, missing + 1, false);
}

/*
 * Callback of the adapter, under its lock. The request describes the error, so copy the request,
 * too.
 */
void ofi_op_part_done(struct ofi_op *op)
{
    struct ofi_op *whole = op->whole;
    void *context = whole->req.context;

    op->req.after = NULL;
    if (op->error) {
        whole->req = op->req;
        whole->req.context = context;
        __atomic_store_n(&whole->error, op->error, __ATOMIC_RELAXED);
    }
    ofi_op_put(op);
    parts_end(whole, 1, true);
}

struct ofi_op *ofi_op_part(struct ofi_op *whole)
{
    const struct ofi_xfer none = {.silent = true};
    struct ofi_op *op = ofi_op_get(whole->ep, &none, OFI_COUNT_WRITE);

    if (!op)
        return NULL;
    op->done = ofi_op_part_done;
    op->whole = whole;
    if (whole->trigger.cntr)
        op_arm(op, &whole->trigger);
    return op;
}

/* --- cancelling -------------------------------------------------------------------- */

static void pool_abort(struct fabemu *fab, struct ofi_pool *pool)
{
    for (struct ofi_slab *slab = pool->slabs; slab; slab = slab->next)
        for (uint32_t i = 0; i < OFI_SLAB_OPS; i++)
            fabemu_abort(fab, &slab->op[i].req);
}

/* Abort even operations that look complete, because their callbacks may still be running. */
void ofi_op_abort_all(struct ofi_ep *ep)
{
    pool_abort(ep->domain->fab, &ep->pool);
    pool_abort(ep->domain->fab, &ep->arrivals);
}

/* Loaded atomically, because ofi_work_complete() may change the context at the same time. */
static const void *op_context(const struct ofi_op *op)
{
    return __atomic_load_n(&op->req.context, __ATOMIC_RELAXED);
}

/*
 * Find a posted receive or triggered operation with this context. Lock: the endpoint's, so that no
 * thread takes an operation from the pool at the same time.
 */
static struct ofi_op *op_find(struct ofi_ep *ep, void *context)
{
    for (struct ofi_slab *slab = ep->pool.slabs; slab; slab = slab->next)
        for (uint32_t i = 0; i < OFI_SLAB_OPS; i++) {
            struct ofi_op *op = &slab->op[i];

            if (atomic_load_explicit(&op->cancellable, memory_order_acquire) && /* M1 */
                op_context(op) == context && fabemu_req_status(&op->req) == FABEMU_PENDING)
                return op;
        }
    return NULL;
}

/* Lock: the endpoint's, so that no thread takes an operation from the pool at the same time. */
static int ops_disarm(struct ofi_ep *ep, bool all, const void *context)
{
    int err = -FI_ENOENT;

    for (struct ofi_slab *slab = ep->pool.slabs; slab; slab = slab->next)
        for (uint32_t i = 0; i < OFI_SLAB_OPS; i++) {
            struct ofi_op *op = &slab->op[i];

            if (atomic_load_explicit(&op->cancellable, memory_order_acquire) && /* M1 */
                (all || op_context(op) == context) && !fabemu_disarm(ep->domain->fab, &op->req))
                err = 0; /* do not stop: each part of a call is an operation */
        }
    return err;
}

int ofi_op_disarm(struct ofi_ep *ep, bool all, const void *context)
{
    ofi_lock(&ep->lock);
    int err = ops_disarm(ep, all, context);

    ofi_unlock(&ep->lock);
    return err;
}

/*
 * Search the whole pool, because fi_cancel() is rare, and an index would slow down each message.
 * The lock keeps other calls from using the operation. The adapter decides whether the operation
 * can still be cancelled.
 */
ssize_t ofi_op_cancel(struct ofi_ep *ep, void *context)
{
    ssize_t err = -FI_ENOENT;

    ofi_lock(&ep->lock);
    struct ofi_op *op = op_find(ep, context);

    if (op)
        err = fabemu_cancel(ep->queue[op->kind], &op->req);
    if (op && err)
        err = ops_disarm(ep, false, context);
    ofi_unlock(&ep->lock);
    return err;
}

void ofi_op_claim(struct ofi_op *op, struct fabemu_message *message)
{
    struct ofi_ep *ep = op->ep;

    op->message = message;
    ofi_lock(&ep->lock);
    op->next = ep->claims;
    ep->claims = op;
    ofi_unlock(&ep->lock);
}

struct ofi_op *ofi_op_claimed(struct ofi_ep *ep, void *context)
{
    struct ofi_op *found = NULL;

    ofi_lock(&ep->lock);
    for (struct ofi_op **at = &ep->claims; *at; at = &(*at)->next)
        if ((*at)->req.context == context) {
            found = *at;
            *at = found->next;
            break;
        }
    ofi_unlock(&ep->lock);
    return found;
}

static void pool_free(struct ofi_pool *pool)
{
    while (pool->slabs) {
        struct ofi_slab *slab = pool->slabs;

        pool->slabs = slab->next;
        for (uint32_t i = 0; i < OFI_SLAB_OPS; i++)
            free(slab->op[i].large_copy);
        free(slab);
    }
}

void ofi_op_pool_free(struct ofi_ep *ep)
{
    pool_free(&ep->pool);
    pool_free(&ep->arrivals);
}
