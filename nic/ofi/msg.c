/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * msg.c - libfabric's untagged calls. They use the endpoint's untagged queue.
 */
#include "nic/ofi/ofi.h"

static ssize_t msg_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    if (flags & (FI_PEEK | FI_CLAIM | FI_DISCARD))
        return -FI_EBADFLAGS;
    return ofi_recv(ofi_ep_of(ep), &(struct ofi_xfer){.kind = OFI_UNTAGGED,
                                                      .iov = msg->msg_iov,
                                                      .iovs = msg->iov_count,
                                                      .addr = msg->addr,
                                                      .flags = flags,
                                                      .context = msg->context});
}

static ssize_t msg_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t source, void *context)
{
    (void)desc;
    return ofi_recv(ofi_ep_of(ep), &(struct ofi_xfer){.kind = OFI_UNTAGGED,
                                                      .iov = iov,
                                                      .iovs = count,
                                                      .addr = source,
                                                      .flags = ofi_ep_of(ep)->rx.op_flags,
                                                      .context = context});
}

static ssize_t msg_recv(struct fid_ep *ep, void *buf, size_t bytes, void *desc, fi_addr_t source,
                        void *context)
{
    struct iovec iov = {.iov_base = buf, .iov_len = bytes};

    return msg_recvv(ep, &iov, &desc, 1, source, context);
}

static ssize_t msg_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    return ofi_send(ofi_ep_of(ep), &(struct ofi_xfer){.kind = OFI_UNTAGGED,
                                                      .iov = msg->msg_iov,
                                                      .iovs = msg->iov_count,
                                                      .addr = msg->addr,
                                                      .data = msg->data,
                                                      .flags = flags,
                                                      .context = msg->context});
}

static ssize_t msg_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t dest, void *context)
{
    (void)desc;
    return ofi_send(ofi_ep_of(ep), &(struct ofi_xfer){.kind = OFI_UNTAGGED,
                                                      .iov = iov,
                                                      .iovs = count,
                                                      .addr = dest,
                                                      .flags = ofi_ep_of(ep)->tx.op_flags,
                                                      .context = context});
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
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = bytes};

    (void)desc;
    return ofi_send(ofi_ep_of(ep),
                    &(struct ofi_xfer){.kind = OFI_UNTAGGED,
                                       .iov = &iov,
                                       .iovs = 1,
                                       .addr = dest,
                                       .data = data,
                                       .flags = ofi_ep_of(ep)->tx.op_flags | FI_REMOTE_CQ_DATA,
                                       .context = context});
}

static ssize_t msg_inject(struct fid_ep *ep, const void *buf, size_t bytes, fi_addr_t dest)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = bytes};

    return ofi_send(ofi_ep_of(ep), &(struct ofi_xfer){.kind = OFI_UNTAGGED,
                                                      .iov = &iov,
                                                      .iovs = 1,
                                                      .addr = dest,
                                                      .flags = FI_INJECT,
                                                      .silent = true});
}

static ssize_t msg_injectdata(struct fid_ep *ep, const void *buf, size_t bytes, uint64_t data,
                              fi_addr_t dest)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = bytes};

    return ofi_send(ofi_ep_of(ep), &(struct ofi_xfer){.kind = OFI_UNTAGGED,
                                                      .iov = &iov,
                                                      .iovs = 1,
                                                      .addr = dest,
                                                      .data = data,
                                                      .flags = FI_INJECT | FI_REMOTE_CQ_DATA,
                                                      .silent = true});
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
