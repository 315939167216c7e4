/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomic.c - libfabric's atomics, one word per operation.
 *
 * The provider supports the operations of adapters (fabemu_atomic()) that mean the same in
 * libfabric: those on integers of 32 and 64 bits, and sums, reads and writes of doubles. It does
 * not support compare-and-swap of doubles, because libfabric compares values and the adapter
 * compares bits.
 */
#include "nic/ofi/ofi.h"

#include <string.h>

#define ATOMIC_FLAGS (OFI_OP_FLAGS_TX | FI_MORE)
#define NOT_HERE     FABEMU_ATOMIC_OPS

#define ATOMIC_MAX_BYTES 8 /* largest word */

/* libfabric's three kinds of atomic calls. */
enum atomic_call { ATOMIC_BASE, ATOMIC_FETCH, ATOMIC_COMPARE };

/* Arguments of one operation. Each of libfabric's arrays must have one element. */
struct atomic {
    enum atomic_call call;
    const void *operand, *compare;
    void *result;
    size_t count;
    fi_addr_t dest;
    uint64_t offset, key;
    enum fi_datatype type;
    enum fi_op op;
    uint64_t flags;
    void *context;
    bool silent;
};

/* --- supported operations ----------------------------------------------------------- */

static int atomic_type(enum fi_datatype type)
{
    switch (type) {
    case FI_INT32:
        return FABEMU_I32;
    case FI_UINT32:
        return FABEMU_U32;
    case FI_INT64:
        return FABEMU_I64;
    case FI_UINT64:
        return FABEMU_U64;
    case FI_DOUBLE:
        return FABEMU_F64;
    default:
        return -FI_EOPNOTSUPP;
    }
}

static size_t atomic_bytes(enum fi_datatype type)
{
    return type == FI_INT32 || type == FI_UINT32 ? 4 : 8;
}

static unsigned atomic_op(enum atomic_call call, enum fi_op op)
{
    if (call == ATOMIC_COMPARE)
        return op == FI_CSWAP ? FABEMU_ATOMIC_CAS : NOT_HERE;
    switch (op) {
    case FI_MIN:
        return FABEMU_ATOMIC_MIN;
    case FI_MAX:
        return FABEMU_ATOMIC_MAX;
    case FI_SUM:
        return FABEMU_ATOMIC_ADD;
    case FI_BOR:
        return FABEMU_ATOMIC_OR;
    case FI_BAND:
        return FABEMU_ATOMIC_AND;
    case FI_BXOR:
        return FABEMU_ATOMIC_XOR;
    case FI_ATOMIC_WRITE:
        return FABEMU_ATOMIC_SWAP;
    case FI_ATOMIC_READ:
        return call == ATOMIC_FETCH ? FABEMU_ATOMIC_FETCH : NOT_HERE;
    default:
        return NOT_HERE;
    }
}

static int atomic_valid(enum atomic_call call, enum fi_datatype type, enum fi_op op)
{
    int fab_type = atomic_type(type);
    unsigned fab_op = atomic_op(call, op);

    if (fab_type < 0 || fab_op == NOT_HERE || !fabemu_atomic_ok(fab_op, (unsigned)fab_type) ||
        (type == FI_DOUBLE && fab_op == FABEMU_ATOMIC_CAS))
        return -FI_EOPNOTSUPP;
    return 0;
}

int ofi_atomic_query(struct fid_domain *domain, enum fi_datatype type, enum fi_op op,
                     struct fi_atomic_attr *attr, uint64_t flags)
{
    enum atomic_call call = flags & FI_FETCH_ATOMIC     ? ATOMIC_FETCH
                            : flags & FI_COMPARE_ATOMIC ? ATOMIC_COMPARE
                                                        : ATOMIC_BASE;

    (void)domain;
    if (flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC) ||
        flags == (FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC))
        return -FI_EBADFLAGS;
    if (atomic_valid(call, type, op))
        return -FI_EOPNOTSUPP;
    *attr = (struct fi_atomic_attr){.count = 1, .size = atomic_bytes(type)};
    return 0;
}

static int atomic_one(enum atomic_call call, enum fi_datatype type, enum fi_op op, size_t *count)
{
    int err = atomic_valid(call, type, op);

    if (!err && count)
        *count = 1;
    return err;
}

/* --- starting an operation ---------------------------------------------------------- */

static int atomic_check(const struct ofi_ep *ep, const struct atomic *a)
{
    if (!ep->enabled || !(ep->caps & FI_ATOMIC))
        return -FI_EOPBADSTATE;
    if (a->flags & ~(ATOMIC_FLAGS | (ep->caps & FI_TRIGGER)))
        return -FI_EBADFLAGS;
    if (a->count != 1)
        return a->count ? -FI_EMSGSIZE : -FI_EINVAL;
    if ((a->call != ATOMIC_BASE && !a->result) || (a->call == ATOMIC_COMPARE && !a->compare) ||
        (!a->operand && a->op != FI_ATOMIC_READ))
        return -FI_EINVAL;
    return atomic_valid(a->call, a->type, a->op);
}

/*
 * With FI_INJECT, the operands of a triggered atomic must be read now. The adapter would read them
 * when the atomic starts.
 */
static void atomic_copy(struct ofi_op *op, struct atomic *a)
{
    static_assert(sizeof op->copy >= 2 * ATOMIC_MAX_BYTES, "two operands");
    size_t bytes = atomic_bytes(a->type);

    if (a->operand)
        a->operand = memcpy(op->copy, a->operand, bytes);
    if (a->compare)
        a->compare = memcpy(op->copy + ATOMIC_MAX_BYTES, a->compare, bytes);
}

/* Post an atomic. The adapter reads the operands at once, unless the atomic is triggered. */
static ssize_t atomic_start(struct fid_ep *fid, struct atomic *a)
{
    struct ofi_ep *ep = ofi_ep_of(fid);
    enum ofi_count count = a->call == ATOMIC_BASE ? OFI_COUNT_WRITE : OFI_COUNT_READ;
    const struct ofi_xfer xfer = {.flags = a->flags, .context = a->context, .silent = a->silent};
    struct ofi_peer peer;
    struct ofi_op *op;
    int err = atomic_check(ep, a);

    if (err)
        return err;
    err = ofi_ep_peer(ep, a->dest, &peer);
    if (err)
        return err;
    err = ofi_op_begin(ep, &xfer, count, &op);
    if (err)
        return err;
    ofi_op_target(op, &peer, true);
    if (a->flags & FI_INJECT && a->flags & FI_TRIGGER)
        atomic_copy(op, a);
    op->flags = FI_ATOMIC | (count == OFI_COUNT_WRITE ? FI_WRITE : FI_READ);
    err = fabemu_atomic(ep->domain->fab,
                        &(struct fabemu_atomic){.node = peer.node,
                                                .key = a->key,
                                                .offset = a->offset,
                                                .op = atomic_op(a->call, a->op),
                                                .type = (unsigned)atomic_type(a->type),
                                                .operand = a->operand,
                                                .compare = a->compare,
                                                .result = a->result},
                        &op->req);
    if (err)
        ofi_op_drop(op);
    return err ? -ofi_errno(err) : 0;
}

/* Return the only element of an array; NULL if the array has none, or more than one. */
static void *piece(const struct fi_ioc *iov, size_t pieces)
{
    return pieces == 1 && iov->count == 1 ? iov->addr : NULL;
}

/* Return the number of elements of an array in one piece; 0 if it has another number of pieces. */
static size_t piece_count(const struct fi_ioc *iov, size_t pieces)
{
    return pieces == 1 ? iov->count : 0;
}

/* --- arguments ---------------------------------------------------------------------- */

static struct atomic atomic_of(enum atomic_call call, const void *operand, size_t count,
                               fi_addr_t dest, uint64_t offset, uint64_t key, enum fi_datatype type,
                               enum fi_op op)
{
    return (struct atomic){
        .call = call,
        .operand = operand,
        .count = count,
        .dest = dest,
        .offset = offset,
        .key = key,
        .type = type,
        .op = op,
    };
}

static struct atomic atomic_of_msg(enum atomic_call call, const struct fi_msg_atomic *msg,
                                   uint64_t flags)
{
    const struct fi_rma_ioc *remote = msg->rma_iov;
    struct atomic a = atomic_of(call, piece(msg->msg_iov, msg->iov_count),
                                msg->rma_iov_count == 1 ? remote->count : 0, msg->addr,
                                remote->addr, remote->key, msg->datatype, msg->op);

    a.flags = flags;
    a.context = msg->context;
    return a;
}

/* Start an atomic for a call without flags, which uses those of the endpoint. */
static ssize_t atomic_post(struct fid_ep *ep, struct atomic *a, void *context)
{
    a->flags = ofi_handle_of(ep)->tx_flags;
    a->context = context;
    return atomic_start(ep, a);
}

/* --- write -------------------------------------------------------------------------- */

static ssize_t atomic_write(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                            fi_addr_t dest, uint64_t addr, uint64_t key, enum fi_datatype type,
                            enum fi_op op, void *context)
{
    struct atomic a = atomic_of(ATOMIC_BASE, buf, count, dest, addr, key, type, op);

    (void)desc;
    return atomic_post(ep, &a, context);
}

static ssize_t atomic_writev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
                             size_t pieces, fi_addr_t dest, uint64_t addr, uint64_t key,
                             enum fi_datatype type, enum fi_op op, void *context)
{
    (void)desc;
    return atomic_write(ep, piece(iov, pieces), piece_count(iov, pieces), NULL, dest, addr, key,
                        type, op, context);
}

static ssize_t atomic_writemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
{
    struct atomic a = atomic_of_msg(ATOMIC_BASE, msg, flags);

    return atomic_start(ep, &a);
}

static ssize_t atomic_inject(struct fid_ep *ep, const void *buf, size_t count, fi_addr_t dest,
                             uint64_t addr, uint64_t key, enum fi_datatype type, enum fi_op op)
{
    struct atomic a = atomic_of(ATOMIC_BASE, buf, count, dest, addr, key, type, op);

    a.flags = FI_INJECT;
    a.silent = true;
    return atomic_start(ep, &a);
}

/* --- fetch -------------------------------------------------------------------------- */

static ssize_t atomic_readwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                void *result, void *result_desc, fi_addr_t dest, uint64_t addr,
                                uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
    struct atomic a = atomic_of(ATOMIC_FETCH, buf, count, dest, addr, key, type, op);

    (void)desc, (void)result_desc;
    a.result = result;
    return atomic_post(ep, &a, context);
}

static ssize_t atomic_readwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
                                 size_t pieces, struct fi_ioc *resultv, void **result_desc,
                                 size_t results, fi_addr_t dest, uint64_t addr, uint64_t key,
                                 enum fi_datatype type, enum fi_op op, void *context)
{
    (void)desc, (void)result_desc;
    return atomic_readwrite(ep, piece(iov, pieces), piece_count(resultv, results), NULL,
                            piece(resultv, results), NULL, dest, addr, key, type, op, context);
}

static ssize_t atomic_readwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                                   struct fi_ioc *resultv, void **result_desc, size_t results,
                                   uint64_t flags)
{
    struct atomic a = atomic_of_msg(ATOMIC_FETCH, msg, flags);

    (void)result_desc;
    a.result = piece(resultv, results);
    return atomic_start(ep, &a);
}

/* --- compare ------------------------------------------------------------------------ */

static ssize_t atomic_compwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                const void *compare, void *compare_desc, void *result,
                                void *result_desc, fi_addr_t dest, uint64_t addr, uint64_t key,
                                enum fi_datatype type, enum fi_op op, void *context)
{
    struct atomic a = atomic_of(ATOMIC_COMPARE, buf, count, dest, addr, key, type, op);

    (void)desc, (void)compare_desc, (void)result_desc;
    a.compare = compare;
    a.result = result;
    return atomic_post(ep, &a, context);
}

static ssize_t atomic_compwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
                                 size_t pieces, const struct fi_ioc *comparev, void **compare_desc,
                                 size_t compares, struct fi_ioc *resultv, void **result_desc,
                                 size_t results, fi_addr_t dest, uint64_t addr, uint64_t key,
                                 enum fi_datatype type, enum fi_op op, void *context)
{
    (void)desc, (void)compare_desc, (void)result_desc;
    return atomic_compwrite(ep, piece(iov, pieces), piece_count(iov, pieces), NULL,
                            piece(comparev, compares), NULL, piece(resultv, results), NULL, dest,
                            addr, key, type, op, context);
}

static ssize_t atomic_compwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                                   const struct fi_ioc *comparev, void **compare_desc,
                                   size_t compares, struct fi_ioc *resultv, void **result_desc,
                                   size_t results, uint64_t flags)
{
    struct atomic a = atomic_of_msg(ATOMIC_COMPARE, msg, flags);

    (void)compare_desc, (void)result_desc;
    a.compare = piece(comparev, compares);
    a.result = piece(resultv, results);
    return atomic_start(ep, &a);
}

/* --- queries ------------------------------------------------------------------------ */

static int atomic_writevalid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count)
{
    (void)ep;
    return atomic_one(ATOMIC_BASE, type, op, count);
}

static int atomic_readwritevalid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op,
                                 size_t *count)
{
    (void)ep;
    return atomic_one(ATOMIC_FETCH, type, op, count);
}

static int atomic_compwritevalid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op,
                                 size_t *count)
{
    (void)ep;
    return atomic_one(ATOMIC_COMPARE, type, op, count);
}

struct fi_ops_atomic ofi_atomic_ops = {
    .size = sizeof(struct fi_ops_atomic),
    .write = atomic_write,
    .writev = atomic_writev,
    .writemsg = atomic_writemsg,
    .inject = atomic_inject,
    .readwrite = atomic_readwrite,
    .readwritev = atomic_readwritev,
    .readwritemsg = atomic_readwritemsg,
    .compwrite = atomic_compwrite,
    .compwritev = atomic_compwritev,
    .compwritemsg = atomic_compwritemsg,
    .writevalid = atomic_writevalid,
    .readwritevalid = atomic_readwritevalid,
    .compwritevalid = atomic_compwritevalid,
};
