/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * notice.c - notices, which tell a process that all bytes of a put to its memory have arrived.
 *
 * A queue keeps notices in separate lists, so that message matching does not see them. The receive
 * of a notice is not reported to the fabric as pending, because a program may keep such a receive
 * posted all the time without waiting for it.
 */
#include "nic/host/rx/notice.h"

#include <errno.h>
#include <stdlib.h>

#include "nic/host/base/base.h"
#include "nic/host/base/compute.h"
#include "nic/host/base/lock.h"

static struct fabemu_queue *notice_queue(const struct fabemu *fab, uint16_t id)
{
    struct fabemu_queue *queue = fab->queues[id];

    return queue && queue->open && queue->takes_notices ? queue : NULL;
}

int nic_notice_check(const struct fabemu *fab, uint16_t id)
{
    return notice_queue(fab, id) ? 0 : -EOPNOTSUPP;
}

static void notice_complete(struct fabemu *fab, struct nic_op *op, const struct nic_notice *notice)
{
    struct fabemu_req *req = op->post.req;

    req->queue = (uint16_t)nic_recv_of(op)->queue->id;
    req->src_node = notice->src_node;
    req->src_queue = notice->src_queue;
    req->mark = 0;
    req->src_incarnation = notice->src_incarnation;
    req->tag = 0;
    req->data = notice->data;
    req->bytes = notice->bytes;
    nic_op_end(fab, op, 0);
}

int nic_notice_give(struct fabemu *fab, const struct nic_peer *from,
                    const struct fabemu_notice *notice, uint64_t bytes)
{
    const struct nic_notice arrived = {.src_node = from->node,
                                       .src_queue = notice->src_queue,
                                       .src_incarnation = from->incarnation,
                                       .data = notice->data,
                                       .bytes = bytes};
    struct fabemu_queue *queue = notice_queue(fab, notice->queue);
    struct nic_notice *kept;

    if (!queue)
        return -ECANCELED;
    if (!emu_list_empty(&queue->awaiting)) {
        notice_complete(fab, emu_list_entry(queue->awaiting.next, struct nic_op, post.link),
                        &arrived);
        return 0;
    }
    kept = malloc(sizeof *kept);
    if (!kept) {
        fab->counts.refused++;
        return -ENOMEM;
    }
    *kept = arrived;
    emu_list_add(&queue->notices, &kept->link);
    return 0;
}

void nic_notices_end(struct fabemu_queue *queue)
{
    while (!emu_list_empty(&queue->awaiting))
        nic_op_end(queue->fab, emu_list_entry(queue->awaiting.next, struct nic_op, post.link),
                   -ECANCELED);
    while (!emu_list_empty(&queue->notices)) {
        struct nic_notice *notice = emu_list_entry(queue->notices.next, struct nic_notice, link);

        emu_list_del(&notice->link);
        free(notice);
    }
}

/* Complete the receive @op with the oldest notice of the queue. There must be one. */
static void notice_take(struct fabemu_queue *queue, struct nic_op *op)
{
    struct nic_notice *notice = emu_list_entry(queue->notices.next, struct nic_notice, link);

    emu_list_del(&notice->link);
    notice_complete(queue->fab, op, notice);
    free(notice);
}

int fabemu_recv_notice(struct fabemu_queue *queue, struct fabemu_req *req)
{
    struct fabemu *fab = queue->fab;
    struct emu_call call;
    struct nic_op *op;

    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    if (req->after)
        return nic_fail(-EINVAL, "the receive of a notice cannot be armed");
    if (nic_event_check(fab, req))
        return -EINVAL;
    op = nic_op_new(req, NIC_OP_NOTICE, FABEMU_ANY_NODE, NULL);
    op->state = NIC_OP_POSTED;
    nic_recv_of(op)->queue = queue; /* fabemu_cancel() reads it */
    call = nic_op_call(op);
    nic_call_begin(fab, &call);
    nic_lock(fab);
    nic_ready(fab);
    __atomic_store_n(&req->status, FABEMU_PENDING, __ATOMIC_RELAXED);
    queue->takes_notices = true;
    if (emu_list_empty(&queue->notices))
        emu_list_add(&queue->awaiting, &op->post.link);
    else
        notice_take(queue, op);
    nic_unlock(fab);
    nic_call_end(fab, &call, true);
    return 0;
}
