/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomic.c - libfabric's atomics.
 *
 * One atomic of the adapter covers at most as many elements as fit in a segment. They must be
 * contiguous both in local and in remote memory. A call with other elements is executed as several
 * atomics, because libfabric requires only that the change of each single element is atomic. Each
 * call copies the operands into its operations, so the program may change them when the call
 * returns. Only a triggered call without FI_INJECT does not copy them: the adapter reads them when
 * the operation starts.
 *
 * fabemu.h lists the accesses with respect to which a change is atomic. Each *piece* of local or
 * remote memory (a struct fi_ioc or fi_rma_ioc) consists of whole elements.
 */
#include "nic/ofi/ep.h"

/* libfabric's three kinds of atomic calls; bits. */
enum atomic_call { ATOMIC_BASE = 1, ATOMIC_FETCH = 2, ATOMIC_COMPARE = 4 };

struct atomic_local {
    const struct fi_ioc *ioc;
    size_t pieces;
};

struct atomic {
    enum atomic_call call;
    struct atomic_local operand, compare, result;
    fi_addr_t dest;
    const struct fi_rma_ioc *remote;
    size_t remotes;
    enum fi_datatype type;
    enum fi_op op;
    uint64_t flags;
    void *context;
    bool silent;
};

struct atomic_array {
    struct fabemu_iov iov[OFI_IOV_MAX];
    unsigned pieces;
};

struct atomic_job {
    unsigned op, type; /* as defined in fabemu.h */
    size_t element;    /* bytes */
    size_t count;      /* elements */
    size_t most;       /* maximum number of elements of one operation */
    struct ofi_peer peer;
    struct atomic_array operand, compare, result;
    const struct fi_rma_ioc *remote;
    bool late; /* the adapter reads the operands when the operation starts, not during the call */
};

/* Where an operation of a call begins in the remote memory. */
struct atomic_remote {
    const struct fi_rma_ioc *ioc;
    size_t skip; /* elements of this piece before the beginning of the operation */
};

/* --- supported operations ----------------------------------------------------------- */

static const struct {
    uint8_t type; /* the type of fabemu.h */
    uint8_t bytes;
} types[] = {
    [FI_INT8] = {FABEMU_I8, sizeof(int8_t)},
    [FI_UINT8] = {FABEMU_U8, sizeof(uint8_t)},
    [FI_INT16] = {FABEMU_I16, sizeof(int16_t)},
    [FI_UINT16] = {FABEMU_U16, sizeof(uint16_t)},
    [FI_INT32] = {FABEMU_I32, sizeof(int32_t)},
    [FI_UINT32] = {FABEMU_U32, sizeof(uint32_t)},
    [FI_INT64] = {FABEMU_I64, sizeof(int64_t)},
    [FI_UINT64] = {FABEMU_U64, sizeof(uint64_t)},
    [FI_FLOAT] = {FABEMU_F32, sizeof(float)},
    [FI_DOUBLE] = {FABEMU_F64, sizeof(double)},
    [FI_FLOAT_COMPLEX] = {FABEMU_F32_COMPLEX, sizeof(float _Complex)},
    [FI_DOUBLE_COMPLEX] = {FABEMU_F64_COMPLEX, sizeof(double _Complex)},
    [FI_LONG_DOUBLE] = {FABEMU_F128, sizeof(long double)},
    [FI_LONG_DOUBLE_COMPLEX] = {FABEMU_F128_COMPLEX, sizeof(long double _Complex)},
    [FI_INT128] = {FABEMU_I128, 16},
    [FI_UINT128] = {FABEMU_U128, 16},
};
#define TYPES (sizeof types / sizeof types[0])

int ofi_type_find(enum fi_datatype type, unsigned *ret, size_t *bytes)
{
    if ((size_t)type >= TYPES)
        return -FI_EOPNOTSUPP;
    *ret = types[type].type;
    *bytes = types[type].bytes;
    return 0;
}

/* Each operation of libfabric: the operation of fabemu.h, and the kinds of calls that offer it. */
static const struct {
    uint8_t op;
    uint8_t calls;
} ops[] = {
    [FI_MIN] = {FABEMU_ATOMIC_MIN, ATOMIC_BASE | ATOMIC_FETCH},
    [FI_MAX] = {FABEMU_ATOMIC_MAX, ATOMIC_BASE | ATOMIC_FETCH},
    [FI_SUM] = {FABEMU_ATOMIC_ADD, ATOMIC_BASE | ATOMIC_FETCH},
    [FI_PROD] = {FABEMU_ATOMIC_PROD, ATOMIC_BASE | ATOMIC_FETCH},
    [FI_LOR] = {FABEMU_ATOMIC_LOR, ATOMIC_BASE | ATOMIC_FETCH},
    [FI_LAND] = {FABEMU_ATOMIC_LAND, ATOMIC_BASE | ATOMIC_FETCH},
    [FI_BOR] = {FABEMU_ATOMIC_OR, ATOMIC_BASE | ATOMIC_FETCH},
    [FI_BAND] = {FABEMU_ATOMIC_AND, ATOMIC_BASE | ATOMIC_FETCH},
    [FI_LXOR] = {FABEMU_ATOMIC_LXOR, ATOMIC_BASE | ATOMIC_FETCH},
    [FI_BXOR] = {FABEMU_ATOMIC_XOR, ATOMIC_BASE | ATOMIC_FETCH},
    [FI_ATOMIC_READ] = {FABEMU_ATOMIC_FETCH, ATOMIC_FETCH},
    [FI_ATOMIC_WRITE] = {FABEMU_ATOMIC_SWAP, ATOMIC_BASE | ATOMIC_FETCH},
    [FI_CSWAP] = {FABEMU_ATOMIC_CAS_EQ, ATOMIC_COMPARE},
    [FI_CSWAP_NE] = {FABEMU_ATOMIC_CAS_NE, ATOMIC_COMPARE},
    [FI_CSWAP_LE] = {FABEMU_ATOMIC_CAS_LE, ATOMIC_COMPARE},
    [FI_CSWAP_LT] = {FABEMU_ATOMIC_CAS_LT, ATOMIC_COMPARE},
    [FI_CSWAP_GE] = {FABEMU_ATOMIC_CAS_GE, ATOMIC_COMPARE},
    [FI_CSWAP_GT] = {FABEMU_ATOMIC_CAS_GT, ATOMIC_COMPARE},
    [FI_MSWAP] = {FABEMU_ATOMIC_MSWAP, ATOMIC_COMPARE},
};
#define OPS (sizeof ops / sizeof ops[0])

/*
 * Find the operation and the type of fabemu.h, the size of an element, and the maximum number of
 * elements of an operation.
 */
static int atomic_find(enum atomic_call call, enum fi_datatype type, enum fi_op op,
                       struct atomic_job *job)
{
    if (ofi_type_find(type, &job->type, &job->element) || (size_t)op >= OPS ||
        !(ops[op].calls & call))
        return -FI_EOPNOTSUPP;
    job->op = ops[op].op;
    job->most = fabemu_atomic_most(job->op, job->type);
    return job->most ? 0 : -FI_EOPNOTSUPP;
}

int ofi_atomic_query(struct fid_domain *domain, enum fi_datatype type, enum fi_op op,
                     struct fi_atomic_attr *attr, uint64_t flags)
{
    enum atomic_call call = flags & FI_FETCH_ATOMIC     ? ATOMIC_FETCH
                            : flags & FI_COMPARE_ATOMIC ? ATOMIC_COMPARE
                                                        : ATOMIC_BASE;
    struct atomic_job job;

    (void)domain;
    if (flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC) ||
        flags == (FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC))
        return -FI_EBADFLAGS;
    if (!attr)
        return -FI_EINVAL;
    if (atomic_find(call, type, op, &job))
        return -FI_EOPNOTSUPP;
    *attr = (struct fi_atomic_attr){.count = OFI_ATOMIC_BYTES / job.element, .size = job.element};
    return 0;
}

static int atomic_valid(enum atomic_call call, enum fi_datatype type, enum fi_op op, size_t *count)
{
    struct atomic_job job;
    int err = atomic_find(call, type, op, &job);

    if (!err && count)
        *count = OFI_ATOMIC_BYTES / job.element;
    return err;
}

/* --- checking a call ---------------------------------------------------------------- */

/* Convert local elements, and count them. Errors: -FI_EINVAL, -FI_EFAULT, -FI_EMSGSIZE. */
static int atomic_local(const struct atomic_local *from, size_t element, struct atomic_array *to,
                        size_t *count)
{
    if (from->pieces > ofi_limits()->iovs || (from->pieces && !from->ioc))
        return -FI_EINVAL;
    *count = 0;
    to->pieces = (unsigned)from->pieces;
    for (size_t i = 0; i < from->pieces; i++) {
        const struct fi_ioc *ioc = &from->ioc[i];

        if (ioc->count && !ioc->addr)
            return -FI_EFAULT;
        if (ioc->count > OFI_ATOMIC_BYTES / element)
            return -FI_EMSGSIZE;
        to->iov[i] = (struct fabemu_iov){.base = ioc->addr, .bytes = ioc->count * element};
        *count += ioc->count;
    }
    return 0;
}

/* Convert the elements of another local array. It must have job->count elements. */
static int atomic_local_more(const struct atomic_local *from, const struct atomic_job *job,
                             struct atomic_array *to)
{
    size_t count;
    int err = atomic_local(from, job->element, to, &count);

    return err || count == job->count ? err : -FI_EINVAL;
}

static int atomic_remote_check(const struct atomic *a, struct atomic_job *job)
{
    size_t left = job->count;

    if (!a->remotes || a->remotes > ofi_limits()->iovs || !a->remote)
        return -FI_EINVAL;
    job->remote = a->remote;
    for (size_t i = 0; i < a->remotes; left -= a->remote[i++].count)
        if (a->remote[i].count > left)
            return -FI_EINVAL;
    return left ? -FI_EINVAL : 0;
}

static int atomic_check(const struct ofi_ep *ep, const struct atomic *a, struct atomic_job *job)
{
    bool reads = a->op == FI_ATOMIC_READ;
    int err;

    if (!ep->enabled || !(ep->caps & FI_ATOMIC))
        return -FI_EOPBADSTATE;
    if (a->flags & ~(OFI_CALL_FLAGS_TX | (ep->caps & FI_TRIGGER)))
        return -FI_EBADFLAGS;
    err = atomic_find(a->call, a->type, a->op, job);
    if (!err)
        err = atomic_local(reads ? &a->result : &a->operand, job->element,
                           reads ? &job->result : &job->operand, &job->count);
    if (err)
        return err;
    if (!job->count || job->count > OFI_ATOMIC_BYTES / job->element)
        return job->count ? -FI_EMSGSIZE : -FI_EINVAL;
    if (a->call == ATOMIC_COMPARE)
        err = atomic_local_more(&a->compare, job, &job->compare);
    if (!err && a->call != ATOMIC_BASE && !reads)
        err = atomic_local_more(&a->result, job, &job->result);
    if (!err)
        err = atomic_remote_check(a, job);
    return err ? err : ofi_ep_peer(ep, a->dest, &job->peer);
}

/* --- starting operations ------------------------------------------------------------ */

/* Copy elements into the operation. Returns NULL if the call has no such array. */
static const void *atomic_copy(const struct atomic_array *from, size_t at, size_t bytes, void *to)
{
    struct fabemu_iov iov[OFI_IOV_MAX];

    if (!from->pieces)
        return NULL;
    ofi_iov_copy(to, iov, ofi_iov_slice(from->iov, from->pieces, at, bytes, iov));
    return to;
}

/*
 * Return the address of element number @done in local memory. Reduce @count to the number of
 * elements that are contiguous from there on. Returns NULL if the call has no such array.
 */
static void *atomic_place(const struct atomic_job *job, const struct atomic_array *array,
                          size_t done, size_t *count)
{
    struct fabemu_iov iov[OFI_IOV_MAX];

    if (!array->pieces)
        return NULL;
    ofi_iov_slice(array->iov, array->pieces, done * job->element, *count * job->element, iov);
    *count = iov[0].bytes / job->element;
    return iov[0].base;
}

/*
 * Find where an operation on at most @count elements, beginning with number @done, reads its
 * operands and stores its results. Reduce @count to the number of elements that are contiguous
 * there.
 */
static void atomic_places(const struct atomic_job *job, size_t done, size_t *count,
                          struct fabemu_atomic *what)
{
    if (*count > job->most)
        *count = job->most;
    what->result = atomic_place(job, &job->result, done, count);
    if (!job->late)
        return;
    what->operand = atomic_place(job, &job->operand, done, count);
    what->compare = atomic_place(job, &job->compare, done, count);
}

/* Go to the remote piece that has the next element. */
static void atomic_remote_skip(struct atomic_remote *remote)
{
    while (remote->skip == remote->ioc->count) {
        remote->ioc++;
        remote->skip = 0;
    }
}

/*
 * Start an operation on elements, beginning with number @done. Returns the number of its elements,
 * or a negative FI_E number.
 */
static ssize_t atomic_part(struct ofi_op *op, const struct atomic_job *job, size_t done,
                           const struct atomic_remote *remote)
{
    size_t left = job->count - done, there = remote->ioc->count - remote->skip;
    size_t count = left < there ? left : there, bytes, at = done * job->element;
    struct fabemu_atomic what = {.node = job->peer.node,
                                 .key = remote->ioc->key,
                                 .offset = remote->ioc->addr + remote->skip * job->element,
                                 .op = job->op,
                                 .type = job->type};
    int err;

    atomic_places(job, done, &count, &what);
    bytes = count * job->element;
    assert(bytes * (job->compare.pieces ? 2 : 1) <= sizeof op->copy);
    if (!job->late) {
        what.operand = atomic_copy(&job->operand, at, bytes, op->copy);
        what.compare = atomic_copy(&job->compare, at, bytes, op->copy + bytes);
    }
    ofi_op_target(op, &job->peer, done + count == job->count);
    err = fabemu_atomic_array(op->ep->domain->fab, &what, count, &op->req);
    return err ? -ofi_errno(err) : (ssize_t)count;
}

/* Start all operations of a call that needs several. Returns an error only if none was started. */
static int atomic_split(struct ofi_op *whole, const struct atomic_job *job)
{
    struct atomic_remote remote = {.ioc = job->remote};
    uint32_t most = (uint32_t)job->count, started = 0;
    ssize_t n = 0;

    ofi_op_split(whole, most); /* at most one operation for each element */
    for (size_t done = 0; done < job->count; started++) {
        struct ofi_op *op = ofi_op_part(whole);

        atomic_remote_skip(&remote);
        n = op ? atomic_part(op, job, done, &remote) : started ? -FI_ENOMEM : -FI_EAGAIN;
        if (op && n < 0)
            ofi_op_drop(op);
        if (n < 0)
            break;
        done += (size_t)n;
        remote.skip += (size_t)n;
    }
    if (n < 0 && !started)
        return (int)n;
    ofi_op_split_end(whole, most - started, n < 0 ? (int)-n : 0);
    return 0;
}

static bool atomic_is_one(const struct atomic_job *job)
{
    struct fabemu_atomic what = {0};
    size_t count = job->count;

    atomic_places(job, 0, &count, &what);
    return count == job->count && job->remote->count == count;
}

static ssize_t atomic_start(struct fid_ep *fid, const struct atomic *a)
{
    struct ofi_ep *ep = ofi_ep_of(fid);
    enum ofi_count count = a->call == ATOMIC_BASE ? OFI_COUNT_WRITE : OFI_COUNT_READ;
    const struct ofi_xfer xfer = {.flags = a->flags, .context = a->context, .silent = a->silent};
    struct atomic_job job = {0};
    struct ofi_op *op;
    ssize_t n = atomic_check(ep, a, &job);

    if (n)
        return n;
    if (ofi_op_fenced(ep, a->flags))
        return -FI_EAGAIN;
    job.late = a->flags & FI_TRIGGER && !(a->flags & FI_INJECT);
    n = ofi_op_begin(ep, &xfer, count, &op);
    if (n)
        return n;
    ofi_op_flags_set(op, FI_ATOMIC | (count == OFI_COUNT_WRITE ? FI_WRITE : FI_READ));
    if (atomic_is_one(&job))
        n = atomic_part(op, &job, 0, &(struct atomic_remote){.ioc = job.remote});
    else
        n = atomic_split(op, &job);
    if (n < 0)
        ofi_op_drop(op);
    return n < 0 ? n : 0;
}

/* --- calls without flags ------------------------------------------------------------ */

/* The target of a call that names one remote address; all elements of the call are there. */
struct atomic_target {
    fi_addr_t dest;
    uint64_t addr, key;
    enum fi_datatype type;
    enum fi_op op;
};

static size_t local_count(const struct atomic_local *local)
{
    size_t sum = 0;

    for (size_t i = 0; local->ioc && i < local->pieces && i < OFI_IOV_MAX; i++)
        if (__builtin_add_overflow(sum, local->ioc[i].count, &sum))
            return SIZE_MAX;
    return sum;
}

/* Start a call with @target. The other fields of @a are set. */
static ssize_t atomic_start_at(struct fid_ep *ep, struct atomic a,
                               const struct atomic_target *target)
{
    bool reads = target->op == FI_ATOMIC_READ;
    struct fi_rma_ioc remote = {.addr = target->addr,
                                .count = local_count(reads ? &a.result : &a.operand),
                                .key = target->key};

    a.dest = target->dest;
    a.type = target->type;
    a.op = target->op;
    a.remote = &remote;
    a.remotes = 1;
    if (!a.silent)
        a.flags = ofi_tx_flags(ep);
    return atomic_start(ep, &a);
}

static ssize_t atomic_writev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
                             size_t pieces, fi_addr_t dest, uint64_t addr, uint64_t key,
                             enum fi_datatype type, enum fi_op op, void *context)
{
    (void)desc;
    return atomic_start_at(
        ep, (struct atomic){.call = ATOMIC_BASE, .operand = {iov, pieces}, .context = context},
        &(struct atomic_target){dest, addr, key, type, op});
}

static ssize_t atomic_write(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                            fi_addr_t dest, uint64_t addr, uint64_t key, enum fi_datatype type,
                            enum fi_op op, void *context)
{
    const struct fi_ioc operand = {(void *)buf, count};

    return atomic_writev(ep, &operand, &desc, 1, dest, addr, key, type, op, context);
}

static ssize_t atomic_inject(struct fid_ep *ep, const void *buf, size_t count, fi_addr_t dest,
                             uint64_t addr, uint64_t key, enum fi_datatype type, enum fi_op op)
{
    const struct fi_ioc operand = {(void *)buf, count};

    return atomic_start_at(ep,
                           (struct atomic){.call = ATOMIC_BASE,
                                           .operand = {&operand, 1},
                                           .flags = FI_INJECT,
                                           .silent = true},
                           &(struct atomic_target){dest, addr, key, type, op});
}

static ssize_t atomic_readwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
                                 size_t pieces, struct fi_ioc *resultv, void **result_desc,
                                 size_t results, fi_addr_t dest, uint64_t addr, uint64_t key,
                                 enum fi_datatype type, enum fi_op op, void *context)
{
    (void)desc, (void)result_desc;
    return atomic_start_at(ep,
                           (struct atomic){.call = ATOMIC_FETCH,
                                           .operand = {iov, pieces},
                                           .result = {resultv, results},
                                           .context = context},
                           &(struct atomic_target){dest, addr, key, type, op});
}

static ssize_t atomic_readwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                void *result, void *result_desc, fi_addr_t dest, uint64_t addr,
                                uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
    const struct fi_ioc operand = {(void *)buf, count};
    struct fi_ioc to = {result, count};

    return atomic_readwritev(ep, &operand, &desc, 1, &to, &result_desc, 1, dest, addr, key, type,
                             op, context);
}

static ssize_t atomic_compwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
                                 size_t pieces, const struct fi_ioc *comparev, void **compare_desc,
                                 size_t compares, struct fi_ioc *resultv, void **result_desc,
                                 size_t results, fi_addr_t dest, uint64_t addr, uint64_t key,
                                 enum fi_datatype type, enum fi_op op, void *context)
{
    (void)desc, (void)compare_desc, (void)result_desc;
    return atomic_start_at(ep,
                           (struct atomic){.call = ATOMIC_COMPARE,
                                           .operand = {iov, pieces},
                                           .compare = {comparev, compares},
                                           .result = {resultv, results},
                                           .context = context},
                           &(struct atomic_target){dest, addr, key, type, op});
}

static ssize_t atomic_compwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                const void *compare, void *compare_desc, void *result,
                                void *result_desc, fi_addr_t dest, uint64_t addr, uint64_t key,
                                enum fi_datatype type, enum fi_op op, void *context)
{
    const struct fi_ioc operand = {(void *)buf, count}, with = {(void *)compare, count};
    struct fi_ioc to = {result, count};

    return atomic_compwritev(ep, &operand, &desc, 1, &with, &compare_desc, 1, &to, &result_desc, 1,
                             dest, addr, key, type, op, context);
}

/* --- calls with flags --------------------------------------------------------------- */

static ssize_t atomic_msg(struct fid_ep *ep, enum atomic_call call, const struct fi_msg_atomic *msg,
                          struct atomic_local compare, struct atomic_local result, uint64_t flags)
{
    if (!msg)
        return -FI_EINVAL;
    return atomic_start(ep, &(struct atomic){.call = call,
                                             .operand = {msg->msg_iov, msg->iov_count},
                                             .compare = compare,
                                             .result = result,
                                             .dest = msg->addr,
                                             .remote = msg->rma_iov,
                                             .remotes = msg->rma_iov_count,
                                             .type = msg->datatype,
                                             .op = msg->op,
                                             .flags = flags,
                                             .context = msg->context});
}

static ssize_t atomic_writemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
{
    return atomic_msg(ep, ATOMIC_BASE, msg, (struct atomic_local){0}, (struct atomic_local){0},
                      flags);
}

static ssize_t atomic_readwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                                   struct fi_ioc *resultv, void **result_desc, size_t results,
                                   uint64_t flags)
{
    (void)result_desc;
    return atomic_msg(ep, ATOMIC_FETCH, msg, (struct atomic_local){0},
                      (struct atomic_local){resultv, results}, flags);
}

static ssize_t atomic_compwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                                   const struct fi_ioc *comparev, void **compare_desc,
                                   size_t compares, struct fi_ioc *resultv, void **result_desc,
                                   size_t results, uint64_t flags)
{
    (void)compare_desc, (void)result_desc;
    return atomic_msg(ep, ATOMIC_COMPARE, msg, (struct atomic_local){comparev, compares},
                      (struct atomic_local){resultv, results}, flags);
}

/* --- queries ------------------------------------------------------------------------ */

static int atomic_writevalid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count)
{
    (void)ep;
    return atomic_valid(ATOMIC_BASE, type, op, count);
}

static int atomic_readwritevalid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op,
                                 size_t *count)
{
    (void)ep;
    return atomic_valid(ATOMIC_FETCH, type, op, count);
}

static int atomic_compwritevalid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op,
                                 size_t *count)
{
    (void)ep;
    return atomic_valid(ATOMIC_COMPARE, type, op, count);
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
