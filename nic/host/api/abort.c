/* SPDX-License-Identifier: BSD-3-Clause */
/* abort.c - fabemu_abort(): cancel a pending operation */
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

/* End the operation. Segments that still arrive for its id are then dropped as stale. */
static void transfer_abort(struct fabemu *fab, struct nic_op *op)
{
    if (op->state == NIC_OP_STREAM)
        /* tell the receiver not to wait for more data */
        nic_fin(fab, nic_peer(fab, op->node), op->remote, -ECANCELED);
    nic_op_end(fab, op, -ECANCELED);
}

static void recv_abort(struct fabemu *fab, struct nic_op *op)
{
    nic_receive_abandon(fab, nic_recv_of(op));
}

/*
 * End a test that the link engine repeats until it succeeds. This needs a segment to the link
 * engine. If the up ring has no space for the segment, the test stays pending, and fabemu_abort()
 * tries again.
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
        if (nic_is_defunct(fab))
            return nic_fail_defunct();
        nic_lock(fab); /* so that no other thread completes the operation at the same time */
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
