/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll.c - the calls that start collectives, such as fi_barrier().
 *
 * The switches execute barrier, broadcast, reduce and allreduce. The other collectives consist of
 * several operations:
 * - allgather: a broadcast by each member, in the switches.
 * - reduce-scatter: a reduction to each member, in the switches.
 * - scatter, gather, alltoall: each member sends one message to each other member for which it has
 * data. (Broadcasts in the switches would carry all data to all members.) Each member has a queue
 * for these messages in each group. Their tag is the number of the collective.
 *
 * In all collectives, @count is the number of elements that one member sends to another. A group of
 * n members therefore needs buffers of n times @count elements for the result of allgather, gather
 * and alltoall, and for the operand of reduce-scatter, scatter and alltoall. Source: the figures of
 * fi_collective(3).
 *
 * Each call is an operation in parts (op.c), which completes when all its parts have completed. All
 * parts are taken from the pool before the first one is posted. Otherwise a call that returns
 * -FI_EAGAIN could have posted some of them, and the members would not post the same operations.
 */
#include "nic/ofi/coll.h"
#include "nic/ofi/unsupported.h"

#include <string.h>

#define COLL_FLAGS (FI_COMPLETION | FI_MORE | FI_INJECT_COMPLETE | OFI_DELIVERED)

struct coll {
    enum fi_collective_op kind;
    const void *buf;
    void *result;
    size_t count;
    fi_addr_t coll_addr, root_addr;
    enum fi_datatype datatype;
    enum fi_op op;
    uint64_t flags;
    void *context;
};

struct coll_job {
    enum fi_collective_op kind;
    struct ofi_mc *mc;
    const char *in;
    char *out;
    unsigned op, type; /* as defined in fabemu.h */
    size_t count;
    size_t bytes; /* size of @count elements */
    uint32_t root;
    uint64_t number; /* number of this collective in the group */
};

/* --- parts -------------------------------------------------------------------------- */

static bool is_root(const struct coll_job *job)
{
    return job->root == job->mc->rank;
}

static uint32_t node_of(const struct coll_job *job, uint32_t rank)
{
    return job->mc->peer[rank].node;
}

/* Return the rank of the member with index @part in the list of all other members. */
static uint32_t other_rank(const struct coll_job *job, uint32_t part)
{
    return part < job->mc->rank ? part : part + 1;
}

static int post_barrier(const struct coll_job *job, uint32_t part, struct ofi_op *op)
{
    (void)part;
    return fabemu_barrier(job->mc->group, &op->req);
}

static int post_broadcast(const struct coll_job *job, uint32_t part, struct ofi_op *op)
{
    (void)part;
    return fabemu_broadcast(job->mc->group, job->out, job->bytes, node_of(job, job->root),
                            &op->req);
}

static int post_allreduce(const struct coll_job *job, uint32_t part, struct ofi_op *op)
{
    (void)part;
    return fabemu_allreduce(job->mc->group, job->in, job->out, job->count, job->op, job->type,
                            &op->req);
}

static int post_reduce(const struct coll_job *job, uint32_t part, struct ofi_op *op)
{
    (void)part;
    return fabemu_reduce(job->mc->group, job->in, is_root(job) ? job->out : NULL, job->count,
                         job->op, job->type, node_of(job, job->root), &op->req);
}

/* Reduce the elements for member @part, which is the root. */
static int post_reduce_scatter(const struct coll_job *job, uint32_t part, struct ofi_op *op)
{
    return fabemu_reduce(job->mc->group, job->in + part * job->bytes,
                         part == job->mc->rank ? job->out : NULL, job->count, job->op, job->type,
                         node_of(job, part), &op->req);
}

static int post_allgather(const struct coll_job *job, uint32_t part, struct ofi_op *op)
{
    return fabemu_broadcast(job->mc->group, job->out + part * job->bytes, job->bytes,
                            node_of(job, part), &op->req);
}

/*
 * Return the completion data for a message, which differs between collectives. The receiver
 * compares it to check that both members have called the same collective.
 */
static uint64_t message_data(const struct coll_job *job)
{
    return (uint64_t)job->kind << 56 | job->bytes;
}

static int send_to(const struct coll_job *job, uint32_t rank, const char *from, struct ofi_op *op)
{
    const struct ofi_mc *mc = job->mc;
    const struct fabemu_dest dest = {.node = node_of(job, rank),
                                     .incarnation = mc->peer[rank].incarnation,
                                     .queue = mc->queue_of[rank],
                                     .tag = job->number,
                                     .data = message_data(job)};
    const struct fabemu_iov iov = {.base = (void *)from, .bytes = job->bytes};

    return fabemu_send(mc->queue, &dest, &iov, 1, &op->req);
}

/*
 * Callback of the adapter. When a group breaks, parts in the switches end with a different error
 * from parts that are messages. Report the same error for both.
 */
static void part_done(struct ofi_op *op)
{
    const struct ofi_mc *mc = container_of(op->whole->hold, struct ofi_mc, refs);

    if (op->error == FI_EOTHER || op->error == FI_ECANCELED)
        op->error = atomic_load_explicit(&mc->closing, memory_order_relaxed) ? FI_ECANCELED
                                                                             : FI_EOTHER;
    ofi_op_part_done(op);
}

/*
 * Callback of the adapter. The message must have @op->room bytes and the completion data
 * @op->expected.
 */
static void received(struct ofi_op *op)
{
    if (!op->error && (op->req.data != op->expected || op->req.bytes != op->room))
        op->error = FI_EOTHER;
    part_done(op);
}

static int receive_from(const struct coll_job *job, uint32_t rank, char *to, struct ofi_op *op)
{
    const struct ofi_mc *mc = job->mc;
    const struct fabemu_source from = {node_of(job, rank), mc->queue_of[rank]};
    const struct fabemu_iov iov = {.base = to, .bytes = job->bytes};

    op->done = received;
    op->room = job->bytes;
    op->expected = message_data(job);
    op->req.incarnation = mc->peer[rank].incarnation;
    return fabemu_recv_from(mc->queue, from, job->number, 0, &iov, 1, &op->req);
}

static int post_scatter(const struct coll_job *job, uint32_t part, struct ofi_op *op)
{
    uint32_t rank = other_rank(job, part);

    return is_root(job) ? send_to(job, rank, job->in + rank * job->bytes, op)
                        : receive_from(job, job->root, job->out, op);
}

static int post_gather(const struct coll_job *job, uint32_t part, struct ofi_op *op)
{
    uint32_t rank = other_rank(job, part);

    return is_root(job) ? receive_from(job, rank, job->out + rank * job->bytes, op)
                        : send_to(job, job->root, job->in, op);
}

/* The first half of the parts are receives, so that long messages find them posted. */
static int post_alltoall(const struct coll_job *job, uint32_t part, struct ofi_op *op)
{
    uint32_t others = job->mc->members - 1, rank = other_rank(job, part % others);

    return part < others ? receive_from(job, rank, job->out + rank * job->bytes, op)
                         : send_to(job, rank, job->in + rank * job->bytes, op);
}

/* --- kinds of collectives ----------------------------------------------------------- */

enum coll_parts {
    PARTS_ONE,
    PARTS_MEMBERS, /* one part for each member */
    PARTS_ROOT,    /* at the root: one part for each other member; at the others: one part */
    PARTS_PAIRS    /* two parts for each other member */
};

enum coll_size {
    SIZE_NONE, /* there is no buffer */
    SIZE_ONE,  /* @count elements */
    SIZE_ALL   /* @count elements for each member */
};

static const struct coll_kind {
    int (*post)(const struct coll_job *job, uint32_t part, struct ofi_op *op);
    enum coll_parts parts;
    enum coll_size in, out;
    bool in_at_root, out_at_root; /* only the root uses the buffer */
    bool has_root, has_op;
    /* each part is counted in the fabric's report as this collective; FABEMU_COLLS: not counted */
    enum fabemu_coll counted;
} kinds[] = {
    [FI_BARRIER] = {.post = post_barrier, .counted = FABEMU_COLL_BARRIER},
    [FI_BROADCAST] = {.post = post_broadcast,
                      .out = SIZE_ONE,
                      .has_root = true,
                      .counted = FABEMU_COLL_BROADCAST},
    [FI_ALLTOALL] = {.post = post_alltoall,
                     .parts = PARTS_PAIRS,
                     .in = SIZE_ALL,
                     .out = SIZE_ALL,
                     .counted = FABEMU_COLLS},
    [FI_ALLREDUCE] = {.post = post_allreduce,
                      .in = SIZE_ONE,
                      .out = SIZE_ONE,
                      .has_op = true,
                      .counted = FABEMU_COLL_ALLREDUCE},
    [FI_ALLGATHER] = {.post = post_allgather,
                      .parts = PARTS_MEMBERS,
                      .in = SIZE_ONE,
                      .out = SIZE_ALL,
                      .counted = FABEMU_COLL_BROADCAST},
    [FI_REDUCE_SCATTER] = {.post = post_reduce_scatter,
                           .parts = PARTS_MEMBERS,
                           .in = SIZE_ALL,
                           .out = SIZE_ONE,
                           .has_op = true,
                           .counted = FABEMU_COLL_REDUCE},
    [FI_REDUCE] = {.post = post_reduce,
                   .in = SIZE_ONE,
                   .out = SIZE_ONE,
                   .out_at_root = true,
                   .has_root = true,
                   .has_op = true,
                   .counted = FABEMU_COLL_REDUCE},
    [FI_SCATTER] = {.post = post_scatter,
                    .parts = PARTS_ROOT,
                    .in = SIZE_ALL,
                    .out = SIZE_ONE,
                    .in_at_root = true,
                    .has_root = true,
                    .counted = FABEMU_COLLS},
    [FI_GATHER] = {.post = post_gather,
                   .parts = PARTS_ROOT,
                   .in = SIZE_ONE,
                   .out = SIZE_ALL,
                   .out_at_root = true,
                   .has_root = true,
                   .counted = FABEMU_COLLS},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

static uint32_t parts_of(const struct coll_job *job)
{
    uint32_t members = job->mc->members;

    if (members == 1)
        return 0; /* own_copy() does all the work */
    switch (kinds[job->kind].parts) {
    case PARTS_MEMBERS:
        return members;
    case PARTS_ROOT:
        return is_root(job) ? members - 1 : 1;
    case PARTS_PAIRS:
        return 2 * (members - 1);
    default:
        return 1;
    }
}

/* Copy the elements from this member to itself, unless the switches do so. */
static void own_copy(const struct coll_job *job)
{
    const struct coll_kind *kind = &kinds[job->kind];
    bool switches = kind->has_op && job->mc->members > 1;
    bool used = !kind->has_root || is_root(job);
    size_t at = job->mc->rank * job->bytes;

    if (!used || switches || kind->in == SIZE_NONE || !job->bytes)
        return;
    memmove(job->out + (kind->out == SIZE_ALL ? at : 0), job->in + (kind->in == SIZE_ALL ? at : 0),
            job->bytes);
}

/* --- checking a call ---------------------------------------------------------------- */

/*
 * Find the enum fabemu_op for @op. Errors: -FI_EOPNOTSUPP, there is none, or it does not apply to
 * @type.
 */
static int op_find(enum fi_op op, unsigned type, unsigned *ret)
{
    static const uint8_t ops[] = {
        [FI_MIN] = FABEMU_MIN,   [FI_MAX] = FABEMU_MAX,   [FI_SUM] = FABEMU_SUM,
        [FI_PROD] = FABEMU_PROD, [FI_LOR] = FABEMU_LOR,   [FI_LAND] = FABEMU_LAND,
        [FI_BOR] = FABEMU_BOR,   [FI_BAND] = FABEMU_BAND, [FI_LXOR] = FABEMU_LXOR,
        [FI_BXOR] = FABEMU_BXOR,
    };

    if ((size_t)op >= sizeof ops)
        return -FI_EOPNOTSUPP;
    *ret = ops[op];
    return fabemu_reducible(*ret, type) ? 0 : -FI_EOPNOTSUPP;
}

/* Find the type, its size and, for reductions, the operation. */
static int types_find(enum fi_collective_op kind, enum fi_datatype datatype, enum fi_op op,
                      struct coll_job *job, size_t *element)
{
    int err;

    *element = 0;
    if ((size_t)kind >= KINDS)
        return -FI_EOPNOTSUPP;
    if (kind == FI_BARRIER)
        return 0;
    err = ofi_type_find(datatype, &job->type, element);
    if (!err && kinds[kind].has_op)
        err = op_find(op, job->type, &job->op);
    return err;
}

int ofi_coll_query(struct fid_domain *domain, enum fi_collective_op coll,
                   struct fi_collective_attr *attr, uint64_t flags)
{
    struct coll_job job;
    size_t element;
    int err;

    if (flags)
        return -FI_EBADFLAGS;
    if (!attr || attr->mode)
        return -FI_EINVAL;
    err = types_find(coll, attr->datatype, attr->op, &job, &element);
    if (err)
        return err;
    if (coll != FI_BARRIER && !kinds[coll].has_op && attr->op != FI_NOOP &&
        attr->op != FI_ATOMIC_READ && attr->op != FI_ATOMIC_WRITE)
        return -FI_EOPNOTSUPP;
    attr->datatype_attr.size = element;
    attr->datatype_attr.count = element ? OFI_MESSAGE_MAX_BYTES / element : 0;
    attr->max_members = fabemu_info(ofi_domain_of(domain)->fab)->nodes;
    return 0;
}

/* Check a buffer. @used: this member uses it. */
static int buffer_check(const struct coll_job *job, const void *buf, enum coll_size size, bool used)
{
    return used && size != SIZE_NONE && job->bytes && !buf ? -FI_EFAULT : 0;
}

static int root_find(const struct ofi_ep *ep, fi_addr_t addr, struct coll_job *job)
{
    struct ofi_peer peer;
    int err = ofi_av_peer(ep->av, addr, &peer);

    if (err)
        return err;
    job->root = ofi_mc_rank(job->mc, &peer);
    return job->root == job->mc->members ? -FI_EINVAL : 0;
}

/* Check the arguments of a call; job->mc is set. */
static int coll_check(const struct ofi_ep *ep, const struct coll *coll, struct coll_job *job)
{
    const struct coll_kind *kind = &kinds[coll->kind];
    size_t element;
    int err = types_find(coll->kind, coll->datatype, coll->op, job, &element);

    if (!err && coll->flags & ~(uint64_t)COLL_FLAGS)
        err = -FI_EBADFLAGS;
    if (!err && kind->has_root)
        err = root_find(ep, coll->root_addr, job);
    if (err)
        return err;
    if (element && coll->count > OFI_MESSAGE_MAX_BYTES / element)
        return -FI_EMSGSIZE;
    job->kind = coll->kind;
    job->count = coll->count;
    job->bytes = coll->count * element;
    job->in = coll->buf;
    job->out = coll->result;
    err = buffer_check(job, job->in, kind->in, !kind->in_at_root || is_root(job));
    if (!err)
        err = buffer_check(job, job->out, kind->out, !kind->out_at_root || is_root(job));
    return err;
}

/* --- posting ------------------------------------------------------------------------ */

static void parts_drop(struct ofi_op *part)
{
    while (part) {
        struct ofi_op *next = part->next;

        ofi_op_drop(part);
        part = next;
    }
}

/* Take all parts from the pool, as a list. NULL: the pool has too few. */
static struct ofi_op *parts_take(struct ofi_op *whole, uint32_t count)
{
    struct ofi_op *list = NULL;

    for (uint32_t i = 0; i < count; i++) {
        struct ofi_op *part = ofi_op_part(whole);

        if (!part) {
            parts_drop(list);
            return NULL;
        }
        part->done = part_done;
        part->next = list;
        list = part;
    }
    return list;
}

/*
 * Post all parts. The adapter refuses a part only if the fabric is gone; then the call completes
 * with an error.
 */
static void parts_post(struct coll_job *job, struct ofi_op *whole, struct ofi_op *part,
                       uint32_t count)
{
    struct ofi_mc *mc = job->mc;
    uint32_t posted = 0;
    int err = 0;

    ofi_lock(&mc->lock);
    job->number = mc->posted++;
    while (part) {
        struct ofi_op *next = part->next; /* once posted, a part may complete and be used again */

        err = kinds[job->kind].post(job, posted, part);
        if (err)
            break;
        posted++;
        part = next;
    }
    ofi_unlock(&mc->lock);
    parts_drop(part);
    if (!err && count && mc->rank == 0 && kinds[job->kind].counted != FABEMU_COLLS)
        for (uint32_t i = 0; i < count; i++)
            fabemu_count_in_network(mc->group, kinds[job->kind].counted);
    ofi_op_split_end(whole, count - posted, err ? ofi_errno(err) : 0);
}

/* Start a checked call. On success, the operation's completion releases the group's reference. */
static int coll_post(struct ofi_ep *ep, const struct coll *coll, struct coll_job *job)
{
    const struct ofi_xfer xfer = {.flags = coll->flags, .context = coll->context};
    uint32_t count = parts_of(job);
    struct ofi_op *whole = ofi_op_get(ep, &xfer, OFI_COUNT_WRITE), *part;

    if (!whole)
        return -FI_EAGAIN;
    ofi_op_flags_set(whole, FI_COLLECTIVE);
    part = parts_take(whole, count);
    if (count && !part) {
        ofi_op_drop(whole);
        return -FI_EAGAIN;
    }
    whole->hold = &job->mc->refs;
    ofi_op_split(whole, count);
    own_copy(job);
    parts_post(job, whole, part, count);
    return 0;
}

static ssize_t coll_start(struct fid_ep *fid, const struct coll *coll)
{
    struct ofi_ep *ep = ofi_ep_of(fid);
    struct coll_job job = {.mc = ofi_mc_hold(ep, coll->coll_addr)};
    int err;

    if (!job.mc)
        return -FI_EINVAL;
    err = coll_check(ep, coll, &job);
    if (!err)
        err = coll_post(ep, coll, &job);
    if (err)
        ofi_release(&job.mc->refs);
    return err;
}

/* --- calls -------------------------------------------------------------------------- */

static ssize_t coll_barrier2(struct fid_ep *ep, fi_addr_t coll_addr, uint64_t flags, void *context)
{
    return coll_start(ep, &(struct coll){.kind = FI_BARRIER,
                                         .coll_addr = coll_addr,
                                         .flags = flags,
                                         .context = context});
}

static ssize_t coll_barrier(struct fid_ep *ep, fi_addr_t coll_addr, void *context)
{
    return coll_barrier2(ep, coll_addr, ofi_tx_flags(ep) & COLL_FLAGS, context);
}

static ssize_t coll_broadcast(struct fid_ep *ep, void *buf, size_t count, void *desc,
                              fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype,
                              uint64_t flags, void *context)
{
    (void)desc;
    return coll_start(ep, &(struct coll){.kind = FI_BROADCAST,
                                         .result = buf,
                                         .count = count,
                                         .coll_addr = coll_addr,
                                         .root_addr = root_addr,
                                         .datatype = datatype,
                                         .flags = flags,
                                         .context = context});
}

/* Optional parameters of a call, in the order of fi_collective(3). */
#define COLL_NONE
#define COLL_ROOT fi_addr_t root_addr,
#define COLL_OP   enum fi_op op,

/* Define a call. The arguments after @op_param set the fields for the optional parameters. */
#define COLL_CALL(name, of_kind, root_param, op_param, ...)                                   \
    static ssize_t coll_##name(struct fid_ep *ep, const void *buf, size_t count, void *desc,  \
                               void *result, void *result_desc, fi_addr_t coll_addr,          \
                               root_param enum fi_datatype datatype, op_param uint64_t flags, \
                               void *context)                                                 \
    {                                                                                         \
        (void)desc, (void)result_desc;                                                        \
        return coll_start(ep, &(struct coll){.kind = (of_kind),                               \
                                             .buf = buf,                                      \
                                             .result = result,                                \
                                             .count = count,                                  \
                                             .coll_addr = coll_addr,                          \
                                             .datatype = datatype,                            \
                                             .flags = flags,                                  \
                                             .context = context,                              \
                                             __VA_ARGS__});                                   \
    }
COLL_CALL(alltoall, FI_ALLTOALL, COLL_NONE, COLL_NONE, )
COLL_CALL(allgather, FI_ALLGATHER, COLL_NONE, COLL_NONE, )
COLL_CALL(allreduce, FI_ALLREDUCE, COLL_NONE, COLL_OP, .op = op)
COLL_CALL(reduce_scatter, FI_REDUCE_SCATTER, COLL_NONE, COLL_OP, .op = op)
COLL_CALL(reduce, FI_REDUCE, COLL_ROOT, COLL_OP, .root_addr = root_addr, .op = op)
COLL_CALL(scatter, FI_SCATTER, COLL_ROOT, COLL_NONE, .root_addr = root_addr)
COLL_CALL(gather, FI_GATHER, COLL_ROOT, COLL_NONE, .root_addr = root_addr)

struct fi_ops_collective ofi_coll_ops = {
    .size = sizeof(struct fi_ops_collective),
    .barrier = coll_barrier,
    .broadcast = coll_broadcast,
    .alltoall = coll_alltoall,
    .allreduce = coll_allreduce,
    .allgather = coll_allgather,
    .reduce_scatter = coll_reduce_scatter,
    .reduce = coll_reduce,
    .scatter = coll_scatter,
    .gather = coll_gather,
    .msg = ofi_no_coll_msg,
    .barrier2 = coll_barrier2,
};
