/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * abort.c - an operation ends before its time, because the application wants it.
 */
#include "nic/fabemu.h"

#include <errno.h>

#include "nic/host/base/base.h"
#include "nic/host/base/lock.h"
#include "nic/host/base/op.h"
#include "nic/host/base/peer.h"
#include "nic/host/group/broadcast.h"
#include "nic/host/group/word.h"
#include "nic/host/rx/queue.h"
#include "nic/host/tx/answer.h"

/* Segments that come for it later find another generation of its id. */
static void transfer_abort(struct fabemu *fab, struct nic_op *op)
{
    if (op->state == NIC_OP_STREAM)
        nic_fin(fab, nic_peer(fab, op->node), op->remote, -ECANCELED); /* no more data will come */
    nic_op_end(fab, op, -ECANCELED);
}

static void recv_abort(struct fabemu *fab, struct nic_op *op)
{
    nic_receive_abandon(fab, nic_recv_of(op));
}

/*
 * What waits in the network's adapter is taken back from there; when there is no room to say so,
 * the operation goes on, and is tried again.
 */
static void test_abort(struct fabemu *fab, struct nic_op *op)
{
    if (nic_condition_take_back(nic_condition_of(op)))
        nic_op_end(fab, op, -ECANCELED);
}

static void broadcast_abort(struct fabemu *fab, struct nic_op *op)
{
    nic_broadcast_abandon(nic_broadcast_put_of(op));
    nic_op_end(fab, op, -ECANCELED);
}

static void op_abort(struct fabemu *fab, struct nic_op *op)
{
    static void (*const aborts[NIC_OP_KINDS])(struct fabemu * fab, struct nic_op * op) = {
        [NIC_OP_RECV] = recv_abort,
        [NIC_OP_TEST] = test_abort,
        [NIC_OP_BROADCAST] = broadcast_abort,
    };

    if (aborts[op->kind])
        aborts[op->kind](fab, op);
    else
        transfer_abort(fab, op);
}

int fabemu_abort(struct fabemu *fab, struct fabemu_req *req)
{
    const struct nic_op *op = nic_op_of(req);

    for (unsigned rounds = 0;; rounds++) {
        if (nic_gone(fab))
            return nic_fail_gone();
        nic_lock(fab); /* under the lock no operation is half completed */
        if (fabemu_req_status(req) == FABEMU_PENDING && op->state != NIC_OP_EAGER)
            op_abort(fab, nic_op_of(req));
        nic_unlock(fab);
        if (fabemu_req_status(req) != FABEMU_PENDING)
            return fabemu_req_status(req);
        if (fabemu_progress(fab))
            rounds = 0;
        else
            fabemu_idle(fab, rounds);
    }
}
