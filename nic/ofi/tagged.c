/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tagged.c - libfabric's tagged calls. They use the endpoint's tagged queue.
 */
#include "nic/ofi/ofi.h"

static ssize_t tagged_recvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct ofi_xfer xfer = {.kind = OFI_TAGGED,
                            .iov = msg->msg_iov,
                            .iovs = msg->iov_count,
                            .addr = msg->addr,
                            .tag = msg->tag,
                            .ignore = msg->ignore,
                            .flags = flags,
                            .context = msg->context};

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
    return ofi_recv(ofi_ep_of(ep), &(struct ofi_xfer){.kind = OFI_TAGGED,
                                                      .iov = iov,
                                                      .iovs = count,
                                                      .addr = source,
                                                      .tag = tag,
                                                      .ignore = ignore,
                                                      .flags = ofi_ep_of(ep)->rx.op_flags,
                                                      .context = context});
}

static ssize_t tagged_recv(struct fid_ep *ep, void *buf, size_t bytes, void *desc, fi_addr_t source,
                           uint64_t tag, uint64_t ignore, void *context)
{
    struct iovec iov = {.iov_base = buf, .iov_len = bytes};

    return tagged_recvv(ep, &iov, &desc, 1, source, tag, ignore, context);
}

static ssize_t tagged_sendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    return ofi_send(ofi_ep_of(ep), &(struct ofi_xfer){.kind = OFI_TAGGED,
                                                      .iov = msg->msg_iov,
                                                      .iovs = msg->iov_count,
                                                      .addr = msg->addr,
                                                      .tag = msg->tag,
                                                      .data = msg->data,
                                                      .flags = flags,
                                                      .context = msg->context});
}

static ssize_t tagged_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t dest, uint64_t tag, void *context)
{
    (void)desc;
    return ofi_send(ofi_ep_of(ep), &(struct ofi_xfer){.kind = OFI_TAGGED,
                                                      .iov = iov,
                                                      .iovs = count,
                                                      .addr = dest,
                                                      .tag = tag,
                                                      .flags = ofi_ep_of(ep)->tx.op_flags,
                                                      .context = context});
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
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = bytes};

    (void)desc;
    return ofi_send(ofi_ep_of(ep),
                    &(struct ofi_xfer){.kind = OFI_TAGGED,
                                       .iov = &iov,
                                       .iovs = 1,
                                       .addr = dest,
                                       .tag = tag,
                                       .data = data,
                                       .flags = ofi_ep_of(ep)->tx.op_flags | FI_REMOTE_CQ_DATA,
                                       .context = context});
}

static ssize_t tagged_inject(struct fid_ep *ep, const void *buf, size_t bytes, fi_addr_t dest,
                             uint64_t tag)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = bytes};

    return ofi_send(ofi_ep_of(ep), &(struct ofi_xfer){.kind = OFI_TAGGED,
                                                      .iov = &iov,
                                                      .iovs = 1,
                                                      .addr = dest,
                                                      .tag = tag,
                                                      .flags = FI_INJECT,
                                                      .silent = true});
}

static ssize_t tagged_injectdata(struct fid_ep *ep, const void *buf, size_t bytes, uint64_t data,
                                 fi_addr_t dest, uint64_t tag)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = bytes};

    return ofi_send(ofi_ep_of(ep), &(struct ofi_xfer){.kind = OFI_TAGGED,
                                                      .iov = &iov,
                                                      .iovs = 1,
                                                      .addr = dest,
                                                      .tag = tag,
                                                      .data = data,
                                                      .flags = FI_INJECT | FI_REMOTE_CQ_DATA,
                                                      .silent = true});
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
