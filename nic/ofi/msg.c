/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * msg.c - libfabric's calls for messages. Untagged messages use the endpoint's untagged queue with
 * tag 0. Tagged messages use its tagged queue.
 */
#include "nic/ofi/ep.h"

#define NO_TAG 0

/* --- common to both kinds ----------------------------------------------------------- */

static struct ofi_xfer xfer_of(enum ofi_kind kind, const struct iovec *iov, size_t iovs,
                               fi_addr_t addr, uint64_t tag, uint64_t flags, void *context)
{
    return (struct ofi_xfer){
        .kind = kind,
        .iov = iov,
        .iovs = iovs,
        .addr = addr,
        .tag = tag,
        .flags = flags,
        .context = context,
    };
}

static ssize_t recv_iov(struct fid_ep *fid, enum ofi_kind kind, const struct iovec *iov,
                        size_t iovs, fi_addr_t source, uint64_t tag, uint64_t ignore, void *context)
{
    struct ofi_ep *ep = ofi_ep_of(fid);
    struct ofi_xfer xfer = xfer_of(kind, iov, iovs, source, tag, ofi_rx_flags(fid), context);

    xfer.ignore = ignore;
    return ofi_recv(ep, &xfer);
}

static ssize_t send_iov(struct fid_ep *fid, enum ofi_kind kind, const struct iovec *iov,
                        size_t iovs, fi_addr_t dest, uint64_t tag, void *context)
{
    struct ofi_ep *ep = ofi_ep_of(fid);
    struct ofi_xfer xfer = xfer_of(kind, iov, iovs, dest, tag, ofi_tx_flags(fid), context);

    return ofi_send(ep, &xfer);
}

static ssize_t send_data(struct fid_ep *fid, enum ofi_kind kind, const void *buf, size_t bytes,
                         uint64_t data, fi_addr_t dest, uint64_t tag, void *context)
{
    struct ofi_ep *ep = ofi_ep_of(fid);
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = bytes};
    uint64_t flags = ofi_tx_flags(fid) | FI_REMOTE_CQ_DATA;
    struct ofi_xfer xfer = xfer_of(kind, &iov, 1, dest, tag, flags, context);

    xfer.data = data;
    return ofi_send(ep, &xfer);
}

/*
 * Send without a completion entry.
 * @data_flag: FI_REMOTE_CQ_DATA if the message carries @data, else 0.
 */
static ssize_t inject(struct fid_ep *ep, enum ofi_kind kind, const void *buf, size_t bytes,
                      uint64_t data_flag, uint64_t data, fi_addr_t dest, uint64_t tag)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = bytes};
    struct ofi_xfer xfer = xfer_of(kind, &iov, 1, dest, tag, FI_INJECT | data_flag, NULL);

    xfer.data = data;
    xfer.silent = true;
    return ofi_send(ofi_ep_of(ep), &xfer);
}

/* --- untagged ----------------------------------------------------------------------- */

static struct ofi_xfer untagged_of(const struct fi_msg *msg, uint64_t flags)
{
    struct ofi_xfer xfer =
        xfer_of(OFI_UNTAGGED, msg->msg_iov, msg->iov_count, msg->addr, NO_TAG, flags, msg->context);

    xfer.data = msg->data;
    return xfer;
}

static ssize_t msg_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    if (!msg)
        return -FI_EINVAL;
    struct ofi_xfer xfer = untagged_of(msg, flags);

    if (flags & (FI_PEEK | FI_CLAIM | FI_DISCARD))
        return -FI_EBADFLAGS;
    return ofi_recv(ofi_ep_of(ep), &xfer);
}

static ssize_t msg_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t source, void *context)
{
    (void)desc;
    return recv_iov(ep, OFI_UNTAGGED, iov, count, source, NO_TAG, 0, context);
}

static ssize_t msg_recv(struct fid_ep *ep, void *buf, size_t bytes, void *desc, fi_addr_t source,
                        void *context)
{
    struct iovec iov = {.iov_base = buf, .iov_len = bytes};

    return msg_recvv(ep, &iov, &desc, 1, source, context);
}

static ssize_t msg_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    if (!msg)
        return -FI_EINVAL;
    struct ofi_xfer xfer = untagged_of(msg, flags);

    return ofi_send(ofi_ep_of(ep), &xfer);
}

static ssize_t msg_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t dest, void *context)
{
    (void)desc;
    return send_iov(ep, OFI_UNTAGGED, iov, count, dest, NO_TAG, context);
}

static ssize_t msg_send(struct fid_ep *ep, const void *buf, size_t bytes, void *desc,
                        fi_addr_t dest, void *context)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = bytes};

    return msg_sendv(ep, &iov, &desc, 1, dest, context);
}

static ssize_t msg_senddata(struct fid_ep *ep, const void *buf, size_t bytes, void *desc,
                            uint64_t data, fi_addr_t dest, void *context)
{
    (void)desc;
    return send_data(ep, OFI_UNTAGGED, buf, bytes, data, dest, NO_TAG, context);
}

static ssize_t msg_inject(struct fid_ep *ep, const void *buf, size_t bytes, fi_addr_t dest)
{
    return inject(ep, OFI_UNTAGGED, buf, bytes, 0, 0, dest, NO_TAG);
}

static ssize_t msg_injectdata(struct fid_ep *ep, const void *buf, size_t bytes, uint64_t data,
                              fi_addr_t dest)
{
    return inject(ep, OFI_UNTAGGED, buf, bytes, FI_REMOTE_CQ_DATA, data, dest, NO_TAG);
}

struct fi_ops_msg ofi_msg_ops = {
    .size = sizeof(struct fi_ops_msg),
    .recv = msg_recv,
    .recvv = msg_recvv,
    .recvmsg = msg_recvmsg,
    .send = msg_send,
    .sendv = msg_sendv,
    .sendmsg = msg_sendmsg,
    .inject = msg_inject,
    .senddata = msg_senddata,
    .injectdata = msg_injectdata,
};

/* --- tagged ------------------------------------------------------------------------- */

static struct ofi_xfer tagged_of(const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct ofi_xfer xfer =
        xfer_of(OFI_TAGGED, msg->msg_iov, msg->iov_count, msg->addr, msg->tag, flags, msg->context);

    xfer.ignore = msg->ignore;
    xfer.data = msg->data;
    return xfer;
}

static ssize_t tagged_recvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    if (!msg)
        return -FI_EINVAL;
    struct ofi_xfer xfer = tagged_of(msg, flags);

    if (flags & FI_MULTI_RECV && flags & (FI_PEEK | FI_CLAIM))
        return -FI_EBADFLAGS; /* these flags concern one message */
    if (flags & FI_PEEK)
        return ofi_peek(ofi_ep_of(ep), &xfer);
    if (flags & FI_CLAIM)
        return ofi_recv_claimed(ofi_ep_of(ep), &xfer);
    if (flags & FI_DISCARD)
        return -FI_EBADFLAGS;
    return ofi_recv(ofi_ep_of(ep), &xfer);
}

static ssize_t tagged_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t source, uint64_t tag, uint64_t ignore, void *context)
{
    (void)desc;
    return recv_iov(ep, OFI_TAGGED, iov, count, source, tag, ignore, context);
}

static ssize_t tagged_recv(struct fid_ep *ep, void *buf, size_t bytes, void *desc, fi_addr_t source,
                           uint64_t tag, uint64_t ignore, void *context)
{
    struct iovec iov = {.iov_base = buf, .iov_len = bytes};

    return tagged_recvv(ep, &iov, &desc, 1, source, tag, ignore, context);
}

static ssize_t tagged_sendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    if (!msg)
        return -FI_EINVAL;
    struct ofi_xfer xfer = tagged_of(msg, flags);

    return ofi_send(ofi_ep_of(ep), &xfer);
}

static ssize_t tagged_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t dest, uint64_t tag, void *context)
{
    (void)desc;
    return send_iov(ep, OFI_TAGGED, iov, count, dest, tag, context);
}

static ssize_t tagged_send(struct fid_ep *ep, const void *buf, size_t bytes, void *desc,
                           fi_addr_t dest, uint64_t tag, void *context)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = bytes};

    return tagged_sendv(ep, &iov, &desc, 1, dest, tag, context);
}

static ssize_t tagged_senddata(struct fid_ep *ep, const void *buf, size_t bytes, void *desc,
                               uint64_t data, fi_addr_t dest, uint64_t tag, void *context)
{
    (void)desc;
    return send_data(ep, OFI_TAGGED, buf, bytes, data, dest, tag, context);
}

static ssize_t tagged_inject(struct fid_ep *ep, const void *buf, size_t bytes, fi_addr_t dest,
                             uint64_t tag)
{
    return inject(ep, OFI_TAGGED, buf, bytes, 0, 0, dest, tag);
}

static ssize_t tagged_injectdata(struct fid_ep *ep, const void *buf, size_t bytes, uint64_t data,
                                 fi_addr_t dest, uint64_t tag)
{
    return inject(ep, OFI_TAGGED, buf, bytes, FI_REMOTE_CQ_DATA, data, dest, tag);
}

struct fi_ops_tagged ofi_tagged_ops = {
    .size = sizeof(struct fi_ops_tagged),
    .recv = tagged_recv,
    .recvv = tagged_recvv,
    .recvmsg = tagged_recvmsg,
    .send = tagged_send,
    .sendv = tagged_sendv,
    .sendmsg = tagged_sendmsg,
    .inject = tagged_inject,
    .senddata = tagged_senddata,
    .injectdata = tagged_injectdata,
};
