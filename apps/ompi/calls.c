/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calls.c - post one call of a collective to its group, and store the result when it is complete.
 *
 * The network executes barriers, broadcasts, reductions and all-reduces. Other collectives consist
 * of several parts: an allgather consists of one broadcast from each rank, and a reduce-scatter
 * consists of one reduction to each rank. All parts of a call are in flight at the same time.
 *
 * Buffers that are not contiguous are packed into a copy. A rank may therefore use a different
 * layout of the data than the other ranks.
 */
#include "coll_fabemu.h"

#include "opal/datatype/opal_convertor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

size_t coll_fabemu_bytes(ompi_communicator_t *comm, const ompi_datatype_t *dtype, int count,
                         const int *counts)
{
    size_t elements = 0;

    if (OMPI_COMM_IS_INTER(comm))
        return 0; /* these run over messages anyway, and @counts is for the remote group */
    for (int rank = 0; rank < ompi_comm_size(comm); rank++)
        elements += (size_t)(counts ? counts[rank] : count);
    return elements * dtype->super.size;
}

/* --- layout ----------------------------------------------------------------------------- */

static int part_count(const struct coll_fabemu_call *call, int part)
{
    return call->counts ? call->counts[part] : call->count;
}

/* Return the size of @part. Reductions read and write elements with their padding. */
static size_t part_bytes(const struct coll_fabemu_call *call, int part)
{
    const opal_datatype_t *dtype = &call->dtype->super;
    bool padded = call->coll == FABEMU_COLL_REDUCE_SCATTER;

    return (size_t)part_count(call, part) *
           (padded ? (size_t)(dtype->ub - dtype->lb) : dtype->size);
}

/* Return the offset of @part if all parts are packed one after the other. */
static size_t part_offset(const struct coll_fabemu_call *call, int part)
{
    size_t offset = 0;

    if (!call->counts)
        return (size_t)part * part_bytes(call, 0);
    for (int i = 0; i < part; i++)
        offset += part_bytes(call, i);
    return offset;
}

/* Return where the elements of @part are in the user's result of an allgather. */
static char *part_place(const struct coll_fabemu_call *call, int part)
{
    ptrdiff_t extent = call->dtype->super.ub - call->dtype->super.lb;
    ptrdiff_t elements = call->displs ? call->displs[part]
                                      : (ptrdiff_t)part * part_count(call, part);

    return (char *)call->out + elements * extent;
}

static bool is_contiguous(const ompi_datatype_t *dtype, int count)
{
    return ompi_datatype_is_contiguous_memory_layout(dtype, count);
}

/* If @pack, copy @buf to the contiguous buffer @packed; otherwise copy @packed to @buf. */
static int convert(bool pack, void *buf, int count, const ompi_datatype_t *dtype, void *packed)
{
    size_t bytes = dtype->super.size * (size_t)count, done = bytes;
    struct iovec iov = {.iov_base = packed, .iov_len = bytes};
    uint32_t iovs = 1;
    opal_convertor_t conv;
    int rc;

    if (!bytes)
        return OMPI_SUCCESS;
    if (is_contiguous(dtype, count)) {
        char *at = (char *)buf + dtype->super.true_lb;

        memcpy(pack ? packed : at, pack ? at : packed, bytes);
        return OMPI_SUCCESS;
    }
    OBJ_CONSTRUCT(&conv, opal_convertor_t);
    if (pack)
        rc = opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &dtype->super,
                                                      (size_t)count, buf, 0, &conv);
    else
        rc = opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor, &dtype->super,
                                                      (size_t)count, buf, 0, &conv);
    if (rc == OPAL_SUCCESS) {
        if (pack)
            rc = opal_convertor_pack(&conv, &iov, &iovs, &done) == 1 ? OMPI_SUCCESS : OMPI_ERROR;
        else
            rc = opal_convertor_unpack(&conv, &iov, &iovs, &done) == 1 ? OMPI_SUCCESS : OMPI_ERROR;
    }
    OBJ_DESTRUCT(&conv);
    return rc;
}

/* --- posting ---------------------------------------------------------------------------- */

int coll_fabemu_parts(ompi_communicator_t *comm, const struct coll_fabemu_call *call)
{
    bool several = call->coll == FABEMU_COLL_ALLGATHER || call->coll == FABEMU_COLL_REDUCE_SCATTER;

    return several ? ompi_comm_size(comm) : 1;
}

static int post_broadcast(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                          struct fabemu_group *group, struct coll_fabemu_call *call,
                          struct fabemu_req *req)
{
    char *buf = (char *)call->out + call->dtype->super.true_lb;

    if (!is_contiguous(call->dtype, call->count)) {
        buf = call->packed = malloc(call->bytes);
        if (!buf)
            return -ENOMEM;
        if (ompi_comm_rank(comm) == call->root &&
            convert(true, call->out, call->count, call->dtype, buf) != OMPI_SUCCESS)
            return -EINVAL;
    }
    return fabemu_broadcast(group, buf, call->bytes, module->nodes[call->root], req);
}

/* Copy this rank's contribution to an allgather to its place in the result. */
static int allgather_own(ompi_communicator_t *comm, struct coll_fabemu_call *call)
{
    const int rank = ompi_comm_rank(comm);
    bool in_place = call->in == MPI_IN_PLACE;
    void *in = in_place ? part_place(call, rank) : (void *)(uintptr_t)call->in;
    int count = in_place ? part_count(call, rank) : call->in_count;
    const ompi_datatype_t *type = in_place ? call->dtype : call->in_type;

    if (call->packed)
        return convert(true, in, count, type, (char *)call->packed + part_offset(call, rank));
    if (in_place)
        return OMPI_SUCCESS;
    return convert(true, in, count, type, part_place(call, rank) + call->dtype->super.true_lb);
}

static int post_allgather(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                          struct fabemu_group *group, struct coll_fabemu_call *call,
                          struct fabemu_req *reqs)
{
    size_t offset = 0; /* of the part in the packed copy */
    int err = 0;

    /* test two elements: one element of a type can be contiguous while a gap follows it */
    if (!is_contiguous(call->dtype, 2)) {
        call->packed = malloc(call->bytes);
        if (!call->packed)
            return -ENOMEM;
    }
    if (allgather_own(comm, call) != OMPI_SUCCESS)
        return -EINVAL;
    for (int part = 0; part < ompi_comm_size(comm) && !err; part++) {
        void *buf = call->packed ? (char *)call->packed + offset
                                 : part_place(call, part) + call->dtype->super.true_lb;

        if (part_count(call, part))
            err = fabemu_broadcast(group, buf, part_bytes(call, part), module->nodes[part],
                                   &reqs[part]);
        offset += part_bytes(call, part);
    }
    return err;
}

static int post_reduce_scatter(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                               struct fabemu_group *group, struct coll_fabemu_call *call,
                               struct fabemu_req *reqs)
{
    const int rank = ompi_comm_rank(comm);
    bool in_place = call->in == MPI_IN_PLACE;
    const char *in = in_place ? call->out : call->in;
    void *out = call->out;
    int err = 0;

    if (in_place) { /* the result must not overwrite contributions that are not sent yet */
        out = call->packed = malloc(part_bytes(call, rank) + 1);
        if (!out)
            return -ENOMEM;
    }
    for (int part = 0; part < ompi_comm_size(comm) && !err; part++) {
        if (part_count(call, part))
            err = fabemu_reduce(group, in, part == rank ? out : NULL,
                                (size_t)part_count(call, part), call->fab_op, call->fab_type,
                                module->nodes[part], &reqs[part]);
        in += part_bytes(call, part);
    }
    return err;
}

int coll_fabemu_post(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                     struct fabemu_group *group, struct coll_fabemu_call *call,
                     struct fabemu_req *reqs)
{
    const void *in = call->in == MPI_IN_PLACE ? call->out : call->in;
    size_t count = (size_t)call->count;

    switch (call->coll) {
    case FABEMU_COLL_BARRIER:
        return fabemu_barrier(group, reqs);
    case FABEMU_COLL_BROADCAST:
        return post_broadcast(module, comm, group, call, reqs);
    case FABEMU_COLL_REDUCE:
        return fabemu_reduce(group, in, ompi_comm_rank(comm) == call->root ? call->out : NULL,
                             count, call->fab_op, call->fab_type, module->nodes[call->root], reqs);
    case FABEMU_COLL_ALLREDUCE:
        return fabemu_allreduce(group, in, call->out, count, call->fab_op, call->fab_type, reqs);
    case FABEMU_COLL_ALLGATHER:
        return post_allgather(module, comm, group, call, reqs);
    default:
        return post_reduce_scatter(module, comm, group, call, reqs);
    }
}

/* --- the end ---------------------------------------------------------------------------- */

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

/* Copy the result from the packed copy to the user's buffer. */
static int unpack(ompi_communicator_t *comm, const struct coll_fabemu_call *call)
{
    const int rank = ompi_comm_rank(comm);
    char *packed = call->packed;
    int rc = OMPI_SUCCESS;

    if (call->coll == FABEMU_COLL_REDUCE_SCATTER) {
        memcpy(call->out, call->packed, part_bytes(call, rank));
        return OMPI_SUCCESS;
    }
    if (call->coll == FABEMU_COLL_BROADCAST)
        return rank == call->root
                   ? OMPI_SUCCESS
                   : convert(false, call->out, call->count, call->dtype, call->packed);
    for (int part = 0; part < ompi_comm_size(comm) && rc == OMPI_SUCCESS; part++) {
        if (part != rank || call->in != MPI_IN_PLACE)
            rc =
                convert(false, part_place(call, part), part_count(call, part), call->dtype, packed);
        packed += part_bytes(call, part);
    }
    return rc;
}

int coll_fabemu_finish(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                       struct coll_fabemu_call *call, int err)
{
    int rc = OMPI_SUCCESS;

    if (OPAL_UNLIKELY(err))
        rc = coll_fabemu_failed(module, comm, call->coll, err);
    else if (call->packed)
        rc = unpack(comm, call);
    free(call->packed);
    call->packed = NULL;
    if (module->counts && !err)
        fabemu_count_in_network(module->group, call->coll);
    return rc;
}
