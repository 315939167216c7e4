/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * work.c - triggered operations: calls with FI_TRIGGER, and deferred work of a domain.
 *
 * A counter is an event of the adapter (ofi.h), so the adapter itself starts a triggered operation.
 * The provider only names the counter and the threshold in the request.
 *
 * A data transfer that is deferred work is posted by the same functions as any other. The provider
 * replaces its context with the context in struct ofi_work. This context has a special event_type,
 * by which ofi_trigger_of() recognises deferred work. A domain keeps its deferred work in a list,
 * from which it can be cancelled. Callbacks take no lock, so they only mark work as complete
 * (`ended`). work_queue() frees complete work when the list has become twice as long as after the
 * last sweep. So adding work takes constant time on average. Source: fi_trigger(3).
 */
#include "nic/ofi/ep.h"

#include <stdlib.h>

/* event_type of the context in struct ofi_work; libfabric does not use this value */
#define WORK_EVENT     ((enum fi_trigger_event)0x7fab)
#define WORK_SWEEP_MIN 64

struct ofi_work {
    struct ofi_work *next; /* next in the domain's list */
    /* the pointer by which the program names work that it cancels */
    const struct fi_deferred_work *request;
    struct ofi_trigger trigger;
    _Atomic bool cancelled; /* the program has cancelled it, so no counter counts it */
    _Atomic bool ended;     /* it is complete and no longer used; W1 pairs with W2 */

    /* Only for data transfers: */
    struct ofi_ep *ep;
    struct fi_triggered_context context; /* replaces the program's context in the call */
    void *user_context;                  /* the program's context, for the completion entry */
    struct ofi_cntr *completion;         /* the counter that counts the completion; NULL: none */
    bool reported; /* success gets a completion entry, too; an error always gets one */

    /* Only for operations on a counter: */
    struct fabemu_req req; /* request of the adapter that waits for the trigger */
    struct ofi_cntr *target;
    enum fabemu_event_change change;
    uint64_t value;
};

/* --- triggers ----------------------------------------------------------------------- */

int ofi_trigger_of(const struct ofi_ep *ep, const struct ofi_xfer *xfer, struct ofi_trigger *ret)
{
    const struct fi_triggered_context *context = xfer->context;

    if (!context)
        return -FI_EINVAL;
    switch ((int)context->event_type) {
    case WORK_EVENT:
        *ret = container_of(context, struct ofi_work, context)->trigger;
        return 0;
    case FI_TRIGGER_THRESHOLD:
        *ret = (struct ofi_trigger){
            .cntr = ofi_cntr_of(ep->domain, context->trigger.threshold.cntr),
            .threshold = context->trigger.threshold.threshold,
            .context = context,
        };
        return ret->cntr ? 0 : -FI_EINVAL;
    case FI_TRIGGER_XPU:
        return -FI_ENOSYS;
    default:
        return -FI_EINVAL;
    }
}

/* --- data transfers ----------------------------------------------------------------- */

void ofi_work_apply(struct ofi_op *op)
{
    const struct ofi_work *work = op->trigger.work;

    op->cntr = work->completion;
    op->wanted = work->reported;
    if (!work->reported)
        op->cq = NULL;
}

void ofi_work_complete(struct ofi_op *op)
{
    const struct ofi_work *work = op->trigger.work;

    /* atomic, because a thread that cancels work may compare it at the same time */
    __atomic_store_n(&op->req.context, work->user_context, __ATOMIC_RELAXED);
    if (op->error == FI_ECANCELED && atomic_load_explicit(&work->cancelled, memory_order_relaxed)) {
        op->cq = NULL;
        op->cntr = NULL;
    }
}

void ofi_work_end(struct ofi_work *work)
{
    ofi_cntr_unbind(&work->completion);
    ofi_cntr_unbind(&work->target);
    atomic_store_explicit(&work->ended, true, memory_order_release); /* W1 */
}

/* W2: a thread that sees the mark may free the work, because its operation no longer uses it. */
static bool work_ended(const struct ofi_work *work)
{
    return atomic_load_explicit(&work->ended, memory_order_acquire); /* W2 */
}

/* Return whether @ep accepts receives, if @receives is set, or else other operations. */
static bool work_takes(const struct fid_ep *ep, bool receives)
{
    return ep && (ep->fid.fclass == FI_CLASS_EP ||
                  ep->fid.fclass == (receives ? FI_CLASS_RX_CTX : FI_CLASS_TX_CTX));
}

/* Check the endpoint of a data transfer, and replace the context and the flags of its call. */
static int work_transfer(struct ofi_domain *domain, struct ofi_work *work, struct fid_ep *ep,
                         void **context, uint64_t *flags)
{
    bool receives = work->request->op_type == FI_OP_RECV || work->request->op_type == FI_OP_TRECV;

    if (!work_takes(ep, receives) || ofi_ep_of(ep)->domain != domain ||
        !(ofi_ep_of(ep)->caps & FI_TRIGGER))
        return -FI_EINVAL;
    work->ep = ofi_ep_of(ep);
    work->user_context = *context;
    work->reported = *flags & FI_COMPLETION;
    *context = &work->context;
    *flags |= FI_TRIGGER;
    return 0;
}

static int work_message(struct ofi_domain *domain, struct ofi_work *work,
                        const struct fi_op_msg *op, bool receive)
{
    struct fi_msg msg = op->msg;
    uint64_t flags = op->flags;
    int err = work_transfer(domain, work, op->ep, &msg.context, &flags);

    if (err)
        return err;
    return (int)(receive ? fi_recvmsg(op->ep, &msg, flags) : fi_sendmsg(op->ep, &msg, flags));
}

static int work_tagged(struct ofi_domain *domain, struct ofi_work *work,
                       const struct fi_op_tagged *op, bool receive)
{
    struct fi_msg_tagged msg = op->msg;
    uint64_t flags = op->flags;
    int err = work_transfer(domain, work, op->ep, &msg.context, &flags);

    if (err)
        return err;
    return (int)(receive ? fi_trecvmsg(op->ep, &msg, flags) : fi_tsendmsg(op->ep, &msg, flags));
}

static int work_rma(struct ofi_domain *domain, struct ofi_work *work, const struct fi_op_rma *op,
                    bool read)
{
    struct fi_msg_rma msg = op->msg;
    uint64_t flags = op->flags;
    int err = work_transfer(domain, work, op->ep, &msg.context, &flags);

    if (err)
        return err;
    return (int)(read ? fi_readmsg(op->ep, &msg, flags) : fi_writemsg(op->ep, &msg, flags));
}

static int work_atomic(struct ofi_domain *domain, struct ofi_work *work,
                       const struct fi_op_atomic *op)
{
    struct fi_msg_atomic msg = op->msg;
    uint64_t flags = op->flags;
    int err = work_transfer(domain, work, op->ep, &msg.context, &flags);

    return err ? err : (int)fi_atomicmsg(op->ep, &msg, flags);
}

static int work_fetch(struct ofi_domain *domain, struct ofi_work *work,
                      const struct fi_op_fetch_atomic *op)
{
    const struct fi_msg_fetch *fetch = &op->fetch;
    struct fi_msg_atomic msg = op->msg;
    uint64_t flags = op->flags;
    int err = work_transfer(domain, work, op->ep, &msg.context, &flags);

    return err ? err
               : (int)fi_fetch_atomicmsg(op->ep, &msg, fetch->msg_iov, fetch->desc,
                                         fetch->iov_count, flags);
}

static int work_compare(struct ofi_domain *domain, struct ofi_work *work,
                        const struct fi_op_compare_atomic *op)
{
    const struct fi_msg_fetch *fetch = &op->fetch;
    const struct fi_msg_compare *compare = &op->compare;
    struct fi_msg_atomic msg = op->msg;
    uint64_t flags = op->flags;
    int err = work_transfer(domain, work, op->ep, &msg.context, &flags);

    return err ? err
               : (int)fi_compare_atomicmsg(op->ep, &msg, compare->msg_iov, compare->desc,
                                           compare->iov_count, fetch->msg_iov, fetch->desc,
                                           fetch->iov_count, flags);
}

/* --- operations on counters --------------------------------------------------------- */

/* Callback of the adapter, under its lock. */
static void counter_done(struct fabemu_req *req)
{
    struct ofi_work *work = container_of(req, struct ofi_work, req);
    struct ofi_cntr *trigger = work->trigger.cntr;

    if (!req->status)
        fabemu_event_change_in_done(&work->target->event, work->change, work->value);
    ofi_work_end(work);
    ofi_release(&trigger->source.refs);
}

static int work_counter(struct ofi_domain *domain, struct ofi_work *work,
                        const struct fi_op_cntr *op, enum fabemu_event_change change)
{
    int err;

    if (work->completion || !op->cntr || ofi_cntr_bind(domain, &op->cntr->fid, &work->target))
        return -FI_EINVAL;
    work->change = change;
    work->value = op->value;
    work->req.done = counter_done;
    work->req.after_failures = true;
    ofi_hold(&work->trigger.cntr->source.refs);
    err = fabemu_event_when(&work->trigger.cntr->event, work->trigger.threshold, &work->req);
    if (err)
        ofi_release(&work->trigger.cntr->source.refs);
    return err ? -ofi_errno(err) : 0;
}

/* --- the list of deferred work ------------------------------------------------------ */

static int work_start(struct ofi_domain *domain, struct ofi_work *work,
                      const struct fi_deferred_work *request)
{
    if (!request->op.msg) /* `op` is a union of pointers, one of which points to the arguments */
        return -FI_EINVAL;
    switch (request->op_type) {
    case FI_OP_SEND:
        return work_message(domain, work, request->op.msg, false);
    case FI_OP_TSEND:
        return work_tagged(domain, work, request->op.tagged, false);
    case FI_OP_RECV:
        return work_message(domain, work, request->op.msg, true);
    case FI_OP_TRECV:
        return work_tagged(domain, work, request->op.tagged, true);
    case FI_OP_READ:
        return work_rma(domain, work, request->op.rma, true);
    case FI_OP_WRITE:
        return work_rma(domain, work, request->op.rma, false);
    case FI_OP_ATOMIC:
        return work_atomic(domain, work, request->op.atomic);
    case FI_OP_FETCH_ATOMIC:
        return work_fetch(domain, work, request->op.fetch_atomic);
    case FI_OP_COMPARE_ATOMIC:
        return work_compare(domain, work, request->op.compare_atomic);
    case FI_OP_CNTR_SET:
        return work_counter(domain, work, request->op.cntr, FABEMU_EVENT_SET);
    case FI_OP_CNTR_ADD:
        return work_counter(domain, work, request->op.cntr, FABEMU_EVENT_ADD);
    default:
        return -FI_ENOSYS;
    }
}

/* Free the work that has ended or, with @all, all work. Lock: the domain's. */
static void works_sweep(struct ofi_domain *domain, bool all)
{
    struct ofi_work **at = &domain->works;

    while (*at) {
        struct ofi_work *work = *at;

        if (!all && !work_ended(work)) {
            at = &work->next;
            continue;
        }
        *at = work->next;
        free(work);
        domain->work_count--;
    }
    domain->work_sweep_at = 2 * domain->work_count + WORK_SWEEP_MIN;
}

static int work_begin(struct ofi_domain *domain, struct ofi_work *work,
                      const struct fi_deferred_work *request)
{
    int err = 0;

    work->request = request;
    work->context.event_type = WORK_EVENT;
    work->trigger = (struct ofi_trigger){
        .cntr = ofi_cntr_of(domain, request->triggering_cntr),
        .threshold = request->threshold,
        .context = &work->context,
        .work = work,
    };
    if (!work->trigger.cntr)
        return -FI_EINVAL;
    if (request->completion_cntr)
        err = ofi_cntr_bind(domain, &request->completion_cntr->fid, &work->completion);
    return err ? err : work_start(domain, work, request);
}

/* Lock: the domain's. */
static int work_queue(struct ofi_domain *domain, const struct fi_deferred_work *request)
{
    struct ofi_work *work = calloc(1, sizeof *work);
    int err = work ? work_begin(domain, work, request) : -FI_ENOMEM;

    if (err) {
        if (work)
            ofi_work_end(work);
        free(work);
        return err;
    }
    work->next = domain->works;
    domain->works = work;
    if (++domain->work_count >= domain->work_sweep_at)
        works_sweep(domain, false);
    return 0;
}

/*
 * Lock: the domain's. The work's endpoint exists while the lock is held, because an endpoint takes
 * the lock when it closes. Errors: -FI_ENOENT, the work has started.
 */
static int work_cancel(const struct ofi_domain *domain, struct ofi_work *work)
{
    int err;

    atomic_store_explicit(&work->cancelled, true, memory_order_relaxed);
    if (work->ep)
        err = ofi_op_disarm(work->ep, false, &work->context);
    else
        err = -ofi_errno(fabemu_disarm(domain->fab, &work->req));
    if (err)
        atomic_store_explicit(&work->cancelled, false, memory_order_relaxed);
    return err;
}

/* Selects the work to cancel: both fields must match. */
struct work_filter {
    const struct fi_deferred_work *request; /* NULL: any */
    const struct fid_cntr *trigger;         /* the counter for which the work waits; NULL: any */
};

/*
 * Cancel the work that matches and has not started. No counter counts cancelled work, so it
 * triggers no other work. Lock: the domain's. Errors: -FI_ENOENT, there is no such work.
 */
static int works_cancel(struct ofi_domain *domain, struct work_filter filter)
{
    int err = -FI_ENOENT;

    for (struct ofi_work *work = domain->works; work; work = work->next)
        if (!work_ended(work) && (!filter.request || work->request == filter.request) &&
            (!filter.trigger || &work->trigger.cntr->cntr_fid == filter.trigger) &&
            !work_cancel(domain, work))
            err = 0;
    return err;
}

int ofi_work_control(struct ofi_domain *domain, int command, void *arg)
{
    const struct fi_deferred_work *request = arg;
    int err;

    if (command != FI_FLUSH_WORK && command != FI_QUEUE_WORK && command != FI_CANCEL_WORK)
        return -FI_ENOSYS;
    if (command != FI_FLUSH_WORK && !arg)
        return -FI_EINVAL;
    ofi_lock(&domain->lock);
    if (command == FI_QUEUE_WORK)
        err = work_queue(domain, request);
    else if (command == FI_CANCEL_WORK)
        err = works_cancel(domain, (struct work_filter){.request = request});
    else
        err = works_cancel(domain, (struct work_filter){
                                       .trigger = request ? request->triggering_cntr : NULL});
    ofi_unlock(&domain->lock);
    return command == FI_FLUSH_WORK ? 0 : err; /* there may be nothing to flush */
}

void ofi_work_free(struct ofi_domain *domain)
{
    works_sweep(domain, true);
}
