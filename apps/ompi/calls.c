/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calls.c - post one call of a collective to its group, and store the result when it is complete.
 *
 * The network executes barriers, broadcasts, reductions and all-reduces. Other collectives are
 * composed of these:
 * - an allgather is one broadcast from each rank, and a reduce-scatter is one reduction to each
 *   rank. All parts of a call are in flight at the same time;
 * - a scatter is one broadcast of the blocks of all ranks;
 * - a gather is one reduction, in which the switches *concatenate* the blocks of all ranks: each
 *   rank contributes a vector that is zero except for its own block, and the operation is a bitwise
 *   OR. Each rank sends as many bytes as the root receives, so this is only used for small blocks;
 * - a scan, an exscan or an all-to-all distributes the blocks of all ranks to all ranks. Small
 *   blocks are concatenated by one all-reduce; larger ones are sent by one broadcast from each
 *   rank. Each rank then selects the data that it needs. For a scan it applies the operation
 *   itself, in the order of the ranks, so any operation and type is possible.
 *
 * Buffers that are not contiguous are packed into a copy. Therefore ranks may use different layouts
 * of the data.
 */
#include "coll_fabemu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * If all blocks together have at most this size, one all-reduce concatenates them; otherwise they
 * are broadcast.
 */
#define CONCATENATED_BYTES 1024

/* --- posting ---------------------------------------------------------------------------- */

/*
 * Return whether one all-reduce distributes the blocks of all ranks, and not one broadcast per
 * rank.
 */
static bool is_concatenated(const struct coll_fabemu_call *call)
{
    return call->bytes <= CONCATENATED_BYTES;
}

int coll_fabemu_parts(ompi_communicator_t *comm, const struct coll_fabemu_call *call)
{
    switch (call->coll) {
    case FABEMU_COLL_SCAN:
    case FABEMU_COLL_ALLTOALL:
        return is_concatenated(call) ? 1 : ompi_comm_size(comm);
    case FABEMU_COLL_ALLGATHER:
    case FABEMU_COLL_REDUCE_SCATTER:
        return ompi_comm_size(comm);
    default:
        return 1;
    }
}

/* The arguments of the functions that post a call. */
struct posting {
    mca_coll_fabemu_module_t *module;
    ompi_communicator_t *comm;
    struct fabemu_group *group;
    struct coll_fabemu_call *call;
    struct fabemu_req *reqs;
};

static int post_barrier(const struct posting *p)
{
    return fabemu_barrier(p->group, p->reqs);
}

static int post_broadcast(const struct posting *p)
{
    struct coll_fabemu_call *call = p->call;
    const size_t count = (size_t)call->count;
    char *buf = (char *)call->out + call->dtype->super.true_lb;

    if (!coll_fabemu_is_contiguous(call->dtype, count)) {
        buf = call->packed = malloc(call->bytes);
        if (!buf)
            return -ENOMEM;
        if (ompi_comm_rank(p->comm) == call->root &&
            coll_fabemu_pack(call->out, count, call->dtype, buf, call->bytes) != OMPI_SUCCESS)
            return -EINVAL;
    }
    return fabemu_broadcast(p->group, buf, call->bytes, p->module->nodes[call->root], p->reqs);
}

static const void *contribution(const struct coll_fabemu_call *call)
{
    return call->in == MPI_IN_PLACE ? call->out : call->in;
}

static int post_reduce(const struct posting *p)
{
    const struct coll_fabemu_call *call = p->call;
    void *out = ompi_comm_rank(p->comm) == call->root ? call->out : NULL;

    return fabemu_reduce(p->group, contribution(call), out, (size_t)call->count, call->fab_op,
                         call->fab_type, p->module->nodes[call->root], p->reqs);
}

static int post_allreduce(const struct posting *p)
{
    const struct coll_fabemu_call *call = p->call;

    return fabemu_allreduce(p->group, contribution(call), call->out, (size_t)call->count,
                            call->fab_op, call->fab_type, p->reqs);
}

static int post_reduce_scatter(const struct posting *p)
{
    struct coll_fabemu_call *call = p->call;
    const int rank = ompi_comm_rank(p->comm);
    const char *in = contribution(call);
    void *out = call->out;
    int err = 0;

    if (call->in == MPI_IN_PLACE) {
        /* use a copy: in call->out the result would overwrite contributions not sent yet */
        out = call->packed = malloc(coll_fabemu_part_bytes(call, rank) + 1);
        if (!out)
            return -ENOMEM;
    }
    for (int part = 0; part < ompi_comm_size(p->comm) && !err; part++) {
        size_t count = (size_t)coll_fabemu_part_count(call, part);

        if (count)
            err = fabemu_reduce(p->group, in, part == rank ? out : NULL, count, call->fab_op,
                                call->fab_type, p->module->nodes[part], &p->reqs[part]);
        in += coll_fabemu_part_bytes(call, part);
    }
    return err;
}

/* Copy this rank's contribution to an allgather to its place in the result. */
static int allgather_own(const struct posting *p)
{
    struct coll_fabemu_call *call = p->call;
    const int rank = ompi_comm_rank(p->comm);
    char *to = call->packed ? (char *)call->packed + coll_fabemu_part_offset(call, rank)
                            : coll_fabemu_part_place(call, rank) + call->dtype->super.true_lb;

    if (!call->packed && call->in == MPI_IN_PLACE)
        return OMPI_SUCCESS;
    return coll_fabemu_pack_own(p->comm, call, to, coll_fabemu_part_bytes(call, rank));
}

static int post_allgather(const struct posting *p)
{
    struct coll_fabemu_call *call = p->call;
    size_t offset = 0; /* offset of the part in the packed copy */
    int err = 0;

    if (!coll_fabemu_is_contiguous(call->dtype, 2)) {
        call->packed = malloc(call->bytes);
        if (!call->packed)
            return -ENOMEM;
    }
    if (allgather_own(p) != OMPI_SUCCESS)
        return -EINVAL;
    for (int part = 0; part < ompi_comm_size(p->comm) && !err; part++) {
        size_t bytes = coll_fabemu_part_bytes(call, part);
        void *buf = call->packed ? (char *)call->packed + offset
                                 : coll_fabemu_part_place(call, part) + call->dtype->super.true_lb;

        if (bytes)
            err = fabemu_broadcast(p->group, buf, bytes, p->module->nodes[part], &p->reqs[part]);
        offset += bytes;
    }
    return err;
}

/* Gather, scan or all-to-all: transfer the blocks of all ranks to the root, or to all ranks. */
static int post_blocks(const struct posting *p)
{
    struct coll_fabemu_call *call = p->call;
    const int ranks = ompi_comm_size(p->comm), rank = ompi_comm_rank(p->comm);
    size_t block = call->bytes / (size_t)ranks;
    char *blocks = call->packed = calloc(1, call->bytes);
    int err = 0;

    if (!blocks)
        return -ENOMEM;
    if (coll_fabemu_pack_own(p->comm, call, blocks + (size_t)rank * block, block) != OMPI_SUCCESS)
        return -EINVAL;
    if (call->coll == FABEMU_COLL_GATHER)
        return fabemu_reduce(p->group, blocks, blocks, call->bytes, FABEMU_BOR, FABEMU_U8,
                             p->module->nodes[call->root], p->reqs);
    if (is_concatenated(call))
        return fabemu_allreduce(p->group, blocks, blocks, call->bytes, FABEMU_BOR, FABEMU_U8,
                                p->reqs);
    for (int part = 0; part < ranks && !err; part++)
        err = fabemu_broadcast(p->group, blocks + (size_t)part * block, block,
                               p->module->nodes[part], &p->reqs[part]);
    return err;
}

/*
 * Return the program's buffer with the blocks at the root of a scatter, or NULL if they must be
 * packed.
 */
static char *scatter_in(ompi_communicator_t *comm, const struct coll_fabemu_call *call)
{
    if (ompi_comm_rank(comm) != call->root || !coll_fabemu_is_contiguous(call->in_type, 2))
        return NULL;
    return (char *)(uintptr_t)call->in + call->in_type->super.true_lb;
}

static int post_scatter(const struct posting *p)
{
    struct coll_fabemu_call *call = p->call;
    size_t count = (size_t)ompi_comm_size(p->comm) * (size_t)call->in_count;
    char *blocks = scatter_in(p->comm, call);

    if (!blocks) {
        blocks = call->packed = malloc(call->bytes);
        if (!blocks)
            return -ENOMEM;
        if (ompi_comm_rank(p->comm) == call->root &&
            coll_fabemu_pack(call->in, count, call->in_type, blocks, call->bytes) != OMPI_SUCCESS)
            return -EINVAL;
    }
    return fabemu_broadcast(p->group, blocks, call->bytes, p->module->nodes[call->root], p->reqs);
}

/* --- results ---------------------------------------------------------------------------- */

static int store_broadcast(ompi_communicator_t *comm, const struct coll_fabemu_call *call)
{
    if (!call->packed || ompi_comm_rank(comm) == call->root)
        return OMPI_SUCCESS;
    return coll_fabemu_unpack(call->out, (size_t)call->count, call->dtype, call->packed,
                              call->bytes);
}

static int store_reduce_scatter(ompi_communicator_t *comm, const struct coll_fabemu_call *call)
{
    if (call->packed)
        memcpy(call->out, call->packed, coll_fabemu_part_bytes(call, ompi_comm_rank(comm)));
    return OMPI_SUCCESS;
}

static int store_allgather(ompi_communicator_t *comm, const struct coll_fabemu_call *call)
{
    const char *packed = call->packed;
    int rc = OMPI_SUCCESS;

    for (int part = 0; packed && part < ompi_comm_size(comm) && rc == OMPI_SUCCESS; part++) {
        size_t bytes = coll_fabemu_part_bytes(call, part);

        if (part != ompi_comm_rank(comm) || call->in != MPI_IN_PLACE)
            rc = coll_fabemu_unpack(coll_fabemu_part_place(call, part),
                                    (size_t)coll_fabemu_part_count(call, part), call->dtype, packed,
                                    bytes);
        packed += bytes;
    }
    return rc;
}

/*
 * Store a block of @block bytes from each rank, even if the program's receive count is larger. The
 * blocks begin at @from, @step bytes apart.
 */
static int store_blocks(ompi_communicator_t *comm, const struct coll_fabemu_call *call,
                        const char *from, size_t block, size_t step)
{
    int rc = OMPI_SUCCESS;

    for (int part = 0; part < ompi_comm_size(comm) && rc == OMPI_SUCCESS; part++, from += step)
        rc = coll_fabemu_unpack(coll_fabemu_part_place(call, part), (size_t)call->count,
                                call->dtype, from, block);
    return rc;
}

static int store_gather(ompi_communicator_t *comm, const struct coll_fabemu_call *call)
{
    size_t block = call->bytes / (size_t)ompi_comm_size(comm);

    return ompi_comm_rank(comm) == call->root ? store_blocks(comm, call, call->packed, block, block)
                                              : OMPI_SUCCESS;
}

static int store_scatter(ompi_communicator_t *comm, const struct coll_fabemu_call *call)
{
    size_t block = call->bytes / (size_t)ompi_comm_size(comm);
    const char *blocks = call->packed ? call->packed : scatter_in(comm, call);

    if (call->out == MPI_IN_PLACE)
        return OMPI_SUCCESS;
    return coll_fabemu_unpack(call->out, (size_t)call->count, call->dtype,
                              blocks + (size_t)ompi_comm_rank(comm) * block, block);
}

static int store_alltoall(ompi_communicator_t *comm, const struct coll_fabemu_call *call)
{
    const size_t ranks = (size_t)ompi_comm_size(comm), block = call->bytes / ranks / ranks;
    const char *from = (const char *)call->packed + (size_t)ompi_comm_rank(comm) * block;

    return store_blocks(comm, call, from, block, ranks * block);
}

/*
 * Combine the contributions of ranks 0 to @last, which are packed in @blocks without gaps, in the
 * order of the ranks. The blocks are changed.
 */
static int combine_blocks(const struct coll_fabemu_call *call, char *blocks, int last)
{
    const size_t count = (size_t)call->count, block = count * call->dtype->super.size;
    char *at = blocks - call->dtype->super.true_lb;

    for (int rank = 0; rank < last; rank++, at += block)
        ompi_op_reduce(call->op, at, at + block, count, call->dtype);
    return coll_fabemu_unpack(call->out, count, call->dtype, blocks + (size_t)last * block, block);
}

/*
 * Do as combine_blocks() does, for elements with gaps. First copy them into the user's layout,
 * because the operation requires this layout.
 */
static int combine_spread(const struct coll_fabemu_call *call, const char *blocks, int last)
{
    const size_t count = (size_t)call->count, block = count * call->dtype->super.size;
    ptrdiff_t gap, span = opal_datatype_span(&call->dtype->super, count, &gap);
    char *both = malloc(2 * (size_t)span), *sum = both - gap, *next = sum + span;
    int rc = both ? coll_fabemu_unpack(sum, count, call->dtype, blocks, block)
                  : OMPI_ERR_OUT_OF_RESOURCE;

    for (int rank = 1; rank <= last && rc == OMPI_SUCCESS; rank++) {
        char *old = sum;

        rc = coll_fabemu_unpack(next, count, call->dtype, blocks + (size_t)rank * block, block);
        if (rc == OMPI_SUCCESS)
            ompi_op_reduce(call->op, old, next, count, call->dtype);
        sum = next;
        next = old;
    }
    if (rc == OMPI_SUCCESS)
        rc = ompi_datatype_copy_content_same_ddt(call->dtype, (int32_t)count, call->out, sum);
    free(both);
    return rc;
}

static int store_scan(ompi_communicator_t *comm, const struct coll_fabemu_call *call)
{
    int last = ompi_comm_rank(comm) - (call->exclusive ? 1 : 0);

    if (last < 0)
        return OMPI_SUCCESS; /* the result of an exscan is undefined on rank 0 */
    return coll_fabemu_is_contiguous(call->dtype, 2) ? combine_blocks(call, call->packed, last)
                                                     : combine_spread(call, call->packed, last);
}

/* --- a call ----------------------------------------------------------------------------- */

static const struct {
    int (*post)(const struct posting *p);
    /* store the result; NULL: the network writes it to the user's buffer */
    int (*store)(ompi_communicator_t *comm, const struct coll_fabemu_call *call);
} kinds[FABEMU_COLLS] = {
    [FABEMU_COLL_BARRIER] = {post_barrier, NULL},
    [FABEMU_COLL_BROADCAST] = {post_broadcast, store_broadcast},
    [FABEMU_COLL_REDUCE] = {post_reduce, NULL},
    [FABEMU_COLL_ALLREDUCE] = {post_allreduce, NULL},
    [FABEMU_COLL_ALLGATHER] = {post_allgather, store_allgather},
    [FABEMU_COLL_REDUCE_SCATTER] = {post_reduce_scatter, store_reduce_scatter},
    [FABEMU_COLL_GATHER] = {post_blocks, store_gather},
    [FABEMU_COLL_SCATTER] = {post_scatter, store_scatter},
    [FABEMU_COLL_SCAN] = {post_blocks, store_scan},
    [FABEMU_COLL_ALLTOALL] = {post_blocks, store_alltoall},
};

int coll_fabemu_post(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                     struct fabemu_group *group, struct coll_fabemu_call *call,
                     struct fabemu_req *reqs)
{
    const struct posting posting = {module, comm, group, call, reqs};

    for (int part = 0; part < coll_fabemu_parts(comm, call); part++)
        reqs[part].call = (uint8_t)(call->coll + 1);
    return kinds[call->coll].post(&posting);
}

int coll_fabemu_status(const struct fabemu_req *reqs, int parts)
{
    int err = 0;

    for (int i = 0; i < parts; i++) {
        int status = fabemu_req_status(&reqs[i]);

        if (status == FABEMU_PENDING)
            return status;
        err = err ? err : status;
    }
    return err;
}

int coll_fabemu_finish(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                       struct coll_fabemu_call *call, int err)
{
    int rc = OMPI_SUCCESS;

    if (OPAL_UNLIKELY(err))
        rc = coll_fabemu_failed(module, comm, call->coll, err);
    else if (kinds[call->coll].store)
        rc = kinds[call->coll].store(comm, call);
    free(call->packed);
    call->packed = NULL;
    if (module->counts && !err)
        fabemu_count_in_network(module->group, call->coll);
    return rc;
}
