/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma.c - libfabric's reads and writes of registered memory: get and put.
 *
 * One remote piece. A write is complete when it is acknowledged, so it has the
 * meaning of FI_DELIVERY_COMPLETE. FI_INJECT says nothing of a read. Writes that carry completion
 * data are not there: a put says nothing to the target's process.
 */
#include "nic/ofi/no.h"

#define RMA_FLAGS (OFI_OP_FLAGS_TX | FI_MORE)

/* The remote side of a transfer. */
struct rma_remote {
    fi_addr_t addr;
    uint64_t offset;
    uint64_t key;
    size_t bytes; /* as many as the local side has, or RMA_AS_LOCAL: not said */
};
#define RMA_AS_LOCAL SIZE_MAX

static int rma_post(struct ofi_ep *ep, enum ofi_count count, uint32_t node,
                    const struct rma_remote *remote, const struct fabemu_iov *iov, unsigned pieces,
                    struct fabemu_req *req)
{
    return count == OFI_COUNT_WRITE
               ? fabemu_putv(ep->domain->fab, node, remote->key, remote->offset, iov, pieces, req)
               : fabemu_getv(ep->domain->fab, node, remote->key, remote->offset, iov, pieces, req);
}

static ssize_t rma_start(struct ofi_ep *ep, enum ofi_count count, const struct ofi_xfer *xfer,
                         const struct rma_remote *remote)
{
    bool injected = xfer->flags & FI_INJECT && count == OFI_COUNT_WRITE;
    struct fabemu_iov iov[OFI_IOV_MAX];
    struct ofi_peer peer;
    unsigned pieces;
    size_t bytes;
    int err = ofi_iov(xfer, iov, &pieces, &bytes);

    if (!ep->enabled || !(ep->caps & FI_RMA))
        return -FI_EOPBADSTATE;
    if (xfer->flags & ~(uint64_t)RMA_FLAGS)
        return -FI_EBADFLAGS;
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
    op->req.seat = peer.seat;
    err = rma_post(ep, count, peer.node, remote, iov, pieces, &op->req);
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

static ssize_t rma_inject(struct fid_ep *ep, const void *buf, size_t bytes, fi_addr_t dest,
                          uint64_t addr, uint64_t key)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = bytes};

    return rma_start(ofi_ep_of(ep), OFI_COUNT_WRITE,
                     &(struct ofi_xfer){.iov = &iov, .iovs = 1, .flags = FI_INJECT, .silent = true},
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
    .writedata = ofi_no_writedata,
    .injectdata = ofi_no_injectdata,
};
