/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * put.c - the call that broadcasts a put.
 */
#include "nic/fabemu.h"

#include <errno.h>

#include "nic/host/api/transfer.h"
#include "nic/host/base/base.h"
#include "nic/host/base/lock.h"
#include "nic/host/base/wire.h"
#include "nic/host/group/broadcast.h"
#include "nic/host/group/send.h"

static int broadcast_begin(struct fabemu *fab, struct nic_post *post)
{
    struct nic_op *op = nic_op_of(post->req);
    struct nic_broadcast_put *put = nic_broadcast_put_of(op);
    struct fabemu_group *g = put->group;
    struct nic_region *region = nic_broadcast_region(fab, g->id, put->key, put->offset, op->bytes);
    int err = 0;

    if (!region)
        return nic_fail(-EINVAL, "no such symmetric region of this group");
    if (g->broken || g->members == 1) {
        if (!g->broken)
            nic_broadcast_write(fab, region, put->offset, op->iov[0].base, op->bytes, true);
        nic_op_end(fab, op, nic_group_status(g));
        return 0;
    }
    err = nic_op_id(fab, op);
    if (err)
        return err;
    op->state = NIC_OP_WAITING;
    emu_list_add(&g->broadcasts, &op->post.link);
    nic_group_send(g);
    return 0;
}

int fabemu_broadcast_put(struct fabemu_group *g, uint64_t key, uint64_t offset, const void *src,
                         size_t bytes, struct fabemu_req *req)
{
    struct fabemu_iov local = {.base = (void *)(uintptr_t)src, .bytes = bytes};
    int err = nic_group_check(g, req);
    struct nic_broadcast_put *put;

    if (!err)
        err = nic_transfer_check(bytes);
    if (!err)
        err = nic_buffer_check(src, bytes);
    if (!err && bytes > (uint64_t)NIC_BROADCAST_BYTES << 32)
        err = nic_fail(-EMSGSIZE, "a broadcast put has at most 2^32 segments");
    if (err)
        return err;
    put = nic_broadcast_put_of(nic_op_new(req, NIC_OP_BROADCAST, FABEMU_ANY_NODE, broadcast_begin));
    nic_op_iov(&put->op, &local, 1);
    put->group = g;
    put->key = key;
    put->offset = offset;
    return nic_post(g->fab, &put->op.post);
}
