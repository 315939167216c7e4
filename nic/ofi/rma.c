/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma.c - libfabric's reads and writes of registered memory: gets and puts, with one remote piece.
 *
 * A write is complete when the peer has acknowledged it, as FI_DELIVERY_COMPLETE requires. For
 * reads, FI_INJECT is ignored among the endpoint's flags, and refused among a call's flags.
 *
 * A write that carries completion data is a put with a notice for the target endpoint's untagged
 * queue. At the target, one operation of each endpoint waits for notices. When a notice arrives,
 * the operation becomes a completion entry. When the entry is read, the operation waits for the
 * next notice. The adapter keeps notices that arrive meanwhile, so no notice is lost if a program
 * does not read its completion queue. If no operation waits for notices (see ep_await_data() in
 * ep.c), the adapter refuses the write, which completes with FI_EOPNOTSUPP.
 */
#include "nic/ofi/ofi.h"

#define RMA_FLAGS (OFI_OP_FLAGS_TX | FI_MORE)

/* The remote memory of a transfer. */
struct rma_remote {
    fi_addr_t addr;
    uint64_t offset;
    uint64_t key;
    size_t bytes; /* must equal the local size; RMA_AS_LOCAL: the call gives only that size */
};
#define RMA_AS_LOCAL SIZE_MAX

static int rma_post(struct ofi_op *op, enum ofi_count count, const struct ofi_xfer *xfer,
                    const struct ofi_peer *peer, const struct rma_remote *remote,
                    const struct fabemu_iov *iov, unsigned pieces)
{
    struct ofi_ep *ep = op->ep;
    struct fabemu *fab = ep->domain->fab;
    uint64_t key = remote->key, offset = remote->offset;
    const struct fabemu_notice notice = {.queue = peer->queue[OFI_UNTAGGED],
                                         .src_queue = ep->source.queue[OFI_UNTAGGED],
                                         .data = xfer->data};

    if (count == OFI_COUNT_READ)
        return fabemu_getv(fab, peer->node, key, offset, iov, pieces, &op->req);
    if (xfer->flags & FI_REMOTE_CQ_DATA)
        return fabemu_putv_notice(fab, peer->node, key, offset, iov, pieces, &notice, &op->req);
    return fabemu_putv(fab, peer->node, key, offset, iov, pieces, &op->req);
}

static int rma_check(const struct ofi_ep *ep, enum ofi_count count, uint64_t flags)
{
    uint64_t known = RMA_FLAGS | (count == OFI_COUNT_WRITE ? FI_REMOTE_CQ_DATA : 0);

    if (!ep->enabled || !(ep->caps & FI_RMA))
        return -FI_EOPBADSTATE;
    return flags & ~known ? -FI_EBADFLAGS : ofi_data_check(ep, flags);
}

void ofi_notice_await(struct ofi_op *op)
{
    if (fabemu_recv_notice(op->ep->queue[OFI_UNTAGGED], &op->req))
        ofi_op_put(op); /* the fabric has ended, so no write can be reported */
}

static ssize_t rma_start(struct ofi_ep *ep, enum ofi_count count, const struct ofi_xfer *xfer,
                         const struct rma_remote *remote)
{
    bool injected = xfer->flags & FI_INJECT && count == OFI_COUNT_WRITE;
    struct fabemu_iov iov[OFI_IOV_MAX];
    struct ofi_peer peer;
    unsigned pieces;
    size_t bytes;
    int err = rma_check(ep, count, xfer->flags);

    if (!err)
        err = ofi_iov(xfer, iov, &pieces, &bytes);
    if (err)
        return err;
    if ((remote->bytes != RMA_AS_LOCAL && remote->bytes != bytes) ||
        ofi_av_peer(ep->av, remote->addr, &peer))
        return -FI_EINVAL;
    if (injected && bytes > FABEMU_INJECT_BYTES)
        return -FI_EMSGSIZE;
    struct ofi_op *op = ofi_op_get(ep, xfer, count);

    if (!op)
        return -FI_EAGAIN;
    if (injected) {
        ofi_iov_copy(op->copy, iov, pieces);
        iov[0] = (struct fabemu_iov){.base = op->copy, .bytes = bytes};
        pieces = 1;
    }
    op->req.incarnation = peer.incarnation;
    err = rma_post(op, count, xfer, &peer, remote, iov, pieces);
    if (err)
        ofi_op_put(op);
    return err ? -ofi_errno(err) : 0;
}

static ssize_t rma_msg(struct fid_ep *ep, enum ofi_count count, const struct fi_msg_rma *msg,
                       uint64_t flags)
{
    if (msg->rma_iov_count != 1)
        return -FI_EINVAL;
    return rma_start(ofi_ep_of(ep), count,
                     &(struct ofi_xfer){.iov = msg->msg_iov,
                                        .iovs = msg->iov_count,
                                        .data = msg->data,
                                        .flags = flags,
                                        .context = msg->context},
                     &(struct rma_remote){msg->addr, msg->rma_iov->addr, msg->rma_iov->key,
                                          msg->rma_iov->len});
}

static ssize_t rma_v(struct fid_ep *ep, enum ofi_count count, const struct iovec *iov, size_t iovs,
                     const struct rma_remote *remote, void *context)
{
    return rma_start(ofi_ep_of(ep), count,
                     &(struct ofi_xfer){.iov = iov,
                                        .iovs = iovs,
                                        .flags = ofi_ep_of(ep)->tx.op_flags,
                                        .context = context},
                     remote);
}

static ssize_t rma_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    return flags & FI_INJECT ? -FI_EBADFLAGS : rma_msg(ep, OFI_COUNT_READ, msg, flags);
}

static ssize_t rma_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t source, uint64_t addr, uint64_t key, void *context)
{
    (void)desc;
    return rma_v(ep, OFI_COUNT_READ, iov, count,
                 &(struct rma_remote){source, addr, key, RMA_AS_LOCAL}, context);
}

static ssize_t rma_read(struct fid_ep *ep, void *buf, size_t bytes, void *desc, fi_addr_t source,
                        uint64_t addr, uint64_t key, void *context)
{
    struct iovec iov = {.iov_base = buf, .iov_len = bytes};

    return rma_readv(ep, &iov, &desc, 1, source, addr, key, context);
}

static ssize_t rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    return rma_msg(ep, OFI_COUNT_WRITE, msg, flags);
}

static ssize_t rma_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                          fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
    (void)desc;
    return rma_v(ep, OFI_COUNT_WRITE, iov, count,
                 &(struct rma_remote){dest, addr, key, RMA_AS_LOCAL}, context);
}

static ssize_t rma_write(struct fid_ep *ep, const void *buf, size_t bytes, void *desc,
                         fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = bytes};

    return rma_writev(ep, &iov, &desc, 1, dest, addr, key, context);
}

static ssize_t rma_writedata(struct fid_ep *ep, const void *buf, size_t bytes, void *desc,
                             uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key,
                             void *context)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = bytes};
    struct ofi_xfer xfer = {.iov = &iov,
                            .iovs = 1,
                            .data = data,
                            .flags = ofi_ep_of(ep)->tx.op_flags | FI_REMOTE_CQ_DATA,
                            .context = context};

    (void)desc;
    return rma_start(ofi_ep_of(ep), OFI_COUNT_WRITE, &xfer,
                     &(struct rma_remote){dest, addr, key, RMA_AS_LOCAL});
}

/*
 * Write without a completion entry.
 * @data_flag: FI_REMOTE_CQ_DATA if the write carries @data, else 0.
 */
static ssize_t inject(struct fid_ep *ep, const void *buf, size_t bytes, uint64_t data_flag,
                      uint64_t data, const struct rma_remote *remote)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = bytes};
    struct ofi_xfer xfer = {
        .iov = &iov, .iovs = 1, .data = data, .flags = FI_INJECT | data_flag, .silent = true};

    return rma_start(ofi_ep_of(ep), OFI_COUNT_WRITE, &xfer, remote);
}

static ssize_t rma_inject(struct fid_ep *ep, const void *buf, size_t bytes, fi_addr_t dest,
                          uint64_t addr, uint64_t key)
{
    return inject(ep, buf, bytes, 0, 0, &(struct rma_remote){dest, addr, key, RMA_AS_LOCAL});
}

static ssize_t rma_injectdata(struct fid_ep *ep, const void *buf, size_t bytes, uint64_t data,
                              fi_addr_t dest, uint64_t addr, uint64_t key)
{
    return inject(ep, buf, bytes, FI_REMOTE_CQ_DATA, data,
                  &(struct rma_remote){dest, addr, key, RMA_AS_LOCAL});
}

struct fi_ops_rma ofi_rma_ops = {
    .size = sizeof(struct fi_ops_rma),
    .read = rma_read,
    .readv = rma_readv,
    .readmsg = rma_readmsg,
    .write = rma_write,
    .writev = rma_writev,
    .writemsg = rma_writemsg,
    .inject = rma_inject,
    .writedata = rma_writedata,
    .injectdata = rma_injectdata,
};
