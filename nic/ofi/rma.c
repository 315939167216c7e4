/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma.c - libfabric's reads and writes of registered memory. Each is executed as a get or put of
 * the adapter for each piece of the remote memory.
 *
 * A write is complete when the peer has acknowledged it, as FI_DELIVERY_COMPLETE requires. For
 * reads, FI_INJECT is ignored in the flags of the endpoint, and refused in the flags of a call.
 *
 * The counters of the target endpoint count a transfer with several remote pieces once, when the
 * piece that was posted last arrives. At that time earlier pieces may still be in flight, unless
 * they are writes of at most FABEMU_INJECT_BYTES.
 *
 * A write that carries completion data is a put with a notice for the target endpoint's untagged
 * queue. At the target, one operation of each endpoint waits for notices. When a notice arrives,
 * the operation becomes a completion entry. When the entry is read, the operation waits for the
 * next notice. The adapter keeps notices that arrive before that, so no notice is lost if a program
 * does not read its completion queue. If no operation waits for notices (see ep_await_data() in
 * ep.c), the adapter refuses the write, which completes with FI_EOPNOTSUPP.
 */
#include "nic/ofi/ep.h"

struct rma_remote {
    fi_addr_t addr;
    const struct fi_rma_iov *iov;
    size_t iovs;
    /* there is one piece, which is as long as the local memory; ignore its field len */
    bool as_local;
};

/* A transfer, or a part of it between one local and one remote range. */
struct rma_transfer {
    enum ofi_count count; /* OFI_COUNT_READ or OFI_COUNT_WRITE */
    struct ofi_peer peer;
    uint64_t key, offset;
    bool last; /* this is the last part of its transfer */
    struct fabemu_iov iov[OFI_IOV_MAX];
    unsigned pieces;
    const struct ofi_xfer *xfer;
};

static int rma_post(struct ofi_op *op, const struct rma_transfer *t)
{
    struct ofi_ep *ep = op->ep;
    struct fabemu *fab = ep->domain->fab;
    const struct fabemu_notice notice = {.queue = t->peer.queue[OFI_UNTAGGED],
                                         .src_queue = ep->source.queue[OFI_UNTAGGED],
                                         .data = t->xfer->data};

    ofi_op_target(op, &t->peer, t->last);
    if (t->count == OFI_COUNT_READ)
        return fabemu_getv(fab, t->peer.node, t->key, t->offset, t->iov, t->pieces, &op->req);
    if (t->xfer->flags & FI_REMOTE_CQ_DATA)
        return fabemu_putv_notice(fab, t->peer.node, t->key, t->offset, t->iov, t->pieces, &notice,
                                  &op->req);
    return fabemu_putv(fab, t->peer.node, t->key, t->offset, t->iov, t->pieces, &op->req);
}

/* Start a part of @whole. Errors: a negative FI_E number; -FI_EAGAIN, the pool has no operation. */
static int rma_part(struct ofi_op *whole, const struct rma_transfer *part)
{
    struct ofi_op *op = ofi_op_part(whole);
    int err = op ? rma_post(op, part) : 0;

    if (!op)
        return -FI_EAGAIN;
    if (err)
        ofi_op_drop(op);
    return err ? -ofi_errno(err) : 0;
}

/*
 * Start one operation for each remote piece.
 * Errors: as rma_part(), if no operation was started; otherwise the error completes @whole.
 */
static int rma_split(struct ofi_op *whole, const struct rma_transfer *t,
                     const struct rma_remote *remote)
{
    size_t at = 0, started;
    int err = 0;

    ofi_op_split(whole, (uint32_t)remote->iovs);
    for (started = 0; started < remote->iovs; started++) {
        const struct fi_rma_iov *piece = &remote->iov[started];
        struct rma_transfer part = *t;

        part.last = started + 1 == remote->iovs;
        part.key = piece->key;
        part.offset = piece->addr;
        part.pieces = ofi_iov_slice(t->iov, t->pieces, at, piece->len, part.iov);
        err = rma_part(whole, &part);
        if (err)
            break;
        at += piece->len;
    }
    if (err && !started)
        return err;
    ofi_op_split_end(whole, (uint32_t)(remote->iovs - started),
                     err == -FI_EAGAIN ? FI_ENOMEM : -err);
    return 0;
}

static int rma_check(const struct ofi_ep *ep, enum ofi_count count, uint64_t flags)
{
    uint64_t known = OFI_CALL_FLAGS_TX | (ep->caps & FI_TRIGGER) |
                     (count == OFI_COUNT_WRITE ? FI_REMOTE_CQ_DATA : 0);

    if (!ep->enabled || !(ep->caps & FI_RMA))
        return -FI_EOPBADSTATE;
    return flags & ~known ? -FI_EBADFLAGS : ofi_data_check(ep, flags);
}

/* Check that the remote pieces have @bytes in all. */
static int rma_remote_check(const struct rma_remote *remote, size_t bytes, uint64_t flags)
{
    size_t sum = 0;

    if (!remote->iov || !remote->iovs || remote->iovs > ofi_limits()->iovs)
        return -FI_EINVAL;
    if (remote->as_local)
        return 0;
    if (remote->iovs > 1 && flags & FI_REMOTE_CQ_DATA)
        return -FI_EOPNOTSUPP; /* no part can carry the data, because each may arrive last */
    for (size_t i = 0; i < remote->iovs; i++)
        if (__builtin_add_overflow(sum, remote->iov[i].len, &sum))
            return -FI_EINVAL;
    return sum == bytes ? 0 : -FI_EINVAL;
}

void ofi_notice_await(struct ofi_op *op)
{
    if (fabemu_recv_notice(op->ep->queue[OFI_UNTAGGED], &op->req))
        ofi_op_put(op); /* the fabric has ended, so no write will arrive */
}

/* Copy the data of an injected write. Errors: -FI_EMSGSIZE; -FI_EAGAIN, no memory. */
static int rma_inject_copy(struct ofi_op *op, struct rma_transfer *t, size_t bytes)
{
    if (bytes > ofi_limits()->inject_bytes)
        return -FI_EMSGSIZE;
    t->iov[0] =
        (struct fabemu_iov){.base = ofi_op_copy(op, t->iov, t->pieces, bytes), .bytes = bytes};
    t->pieces = 1;
    return t->iov[0].base ? 0 : -FI_EAGAIN;
}

static int rma_begin(struct ofi_op *op, struct rma_transfer *t, const struct rma_remote *remote,
                     size_t bytes)
{
    int err = 0;

    if (t->xfer->flags & FI_INJECT && t->count == OFI_COUNT_WRITE)
        err = rma_inject_copy(op, t, bytes);
    if (err)
        return err;
    if (remote->iovs > 1)
        return rma_split(op, t, remote);
    t->key = remote->iov->key;
    t->offset = remote->iov->addr;
    t->last = true;
    err = rma_post(op, t);
    return err ? -ofi_errno(err) : 0;
}

static ssize_t rma_start(struct ofi_ep *ep, enum ofi_count count, const struct ofi_xfer *xfer,
                         const struct rma_remote *remote)
{
    struct rma_transfer t = {.count = count, .xfer = xfer};
    size_t bytes;
    int err = rma_check(ep, count, xfer->flags);

    if (!err)
        err = ofi_iov(xfer, t.iov, &t.pieces, &bytes);
    if (!err && bytes > ep->message_max_bytes)
        err = -FI_EMSGSIZE;
    if (!err)
        err = rma_remote_check(remote, bytes, xfer->flags);
    if (err)
        return err;
    err = ofi_ep_peer(ep, remote->addr, &t.peer);
    if (err)
        return err;
    if (ofi_op_fenced(ep, xfer->flags))
        return -FI_EAGAIN;
    struct ofi_op *op;

    err = ofi_op_begin(ep, xfer, count, &op);
    if (err)
        return err;
    err = rma_begin(op, &t, remote, bytes);
    if (err)
        ofi_op_drop(op);
    return err;
}

/* Start a transfer whose call names one remote address without a size. */
static ssize_t rma_start_at(struct ofi_ep *ep, enum ofi_count count, const struct ofi_xfer *xfer,
                            fi_addr_t addr, uint64_t offset, uint64_t key)
{
    const struct fi_rma_iov piece = {.addr = offset, .key = key};

    return rma_start(ep, count, xfer, &(struct rma_remote){addr, &piece, 1, true});
}

static ssize_t rma_msg(struct fid_ep *ep, enum ofi_count count, const struct fi_msg_rma *msg,
                       uint64_t flags)
{
    if (!msg)
        return -FI_EINVAL;
    return rma_start(ofi_ep_of(ep), count,
                     &(struct ofi_xfer){.iov = msg->msg_iov,
                                        .iovs = msg->iov_count,
                                        .data = msg->data,
                                        .flags = flags,
                                        .context = msg->context},
                     &(struct rma_remote){msg->addr, msg->rma_iov, msg->rma_iov_count, false});
}

static ssize_t rma_v(struct fid_ep *ep, enum ofi_count count, const struct iovec *iov, size_t iovs,
                     fi_addr_t addr, uint64_t offset, uint64_t key, void *context)
{
    return rma_start_at(
        ofi_ep_of(ep), count,
        &(struct ofi_xfer){.iov = iov, .iovs = iovs, .flags = ofi_tx_flags(ep), .context = context},
        addr, offset, key);
}

static ssize_t rma_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    return flags & FI_INJECT ? -FI_EBADFLAGS : rma_msg(ep, OFI_COUNT_READ, msg, flags);
}

static ssize_t rma_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t source, uint64_t addr, uint64_t key, void *context)
{
    (void)desc;
    return rma_v(ep, OFI_COUNT_READ, iov, count, source, addr, key, context);
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
    return rma_v(ep, OFI_COUNT_WRITE, iov, count, dest, addr, key, context);
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
                            .flags = ofi_tx_flags(ep) | FI_REMOTE_CQ_DATA,
                            .context = context};

    (void)desc;
    return rma_start_at(ofi_ep_of(ep), OFI_COUNT_WRITE, &xfer, dest, addr, key);
}

/*
 * Write without a completion entry.
 * @data_flag: FI_REMOTE_CQ_DATA if the write carries @data, else 0.
 */
static ssize_t inject(struct fid_ep *ep, const void *buf, size_t bytes, uint64_t data_flag,
                      uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = bytes};
    struct ofi_xfer xfer = {
        .iov = &iov, .iovs = 1, .data = data, .flags = FI_INJECT | data_flag, .silent = true};

    return rma_start_at(ofi_ep_of(ep), OFI_COUNT_WRITE, &xfer, dest, addr, key);
}

static ssize_t rma_inject(struct fid_ep *ep, const void *buf, size_t bytes, fi_addr_t dest,
                          uint64_t addr, uint64_t key)
{
    return inject(ep, buf, bytes, 0, 0, dest, addr, key);
}

static ssize_t rma_injectdata(struct fid_ep *ep, const void *buf, size_t bytes, uint64_t data,
                              fi_addr_t dest, uint64_t addr, uint64_t key)
{
    return inject(ep, buf, bytes, FI_REMOTE_CQ_DATA, data, dest, addr, key);
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
