/* SPDX-License-Identifier: BSD-3-Clause */
/* layout.c - the sizes of a collective's data, and where the parts of the data are. */
#include "coll_fabemu.h"

#include <stdint.h>

size_t coll_fabemu_bytes(ompi_communicator_t *comm, const ompi_datatype_t *dtype, int count,
                         const int *counts)
{
    size_t elements = 0;

    if (OMPI_COMM_IS_INTER(comm))
        /* the call runs over messages; and @counts would be about the ranks of the remote group */
        return 0;
    for (int rank = 0; rank < ompi_comm_size(comm); rank++)
        elements += (size_t)(counts ? counts[rank] : count);
    return elements * dtype->super.size;
}

struct coll_fabemu_call coll_fabemu_of_blocks(ompi_communicator_t *comm,
                                              struct coll_fabemu_call call)
{
    const size_t ranks = (size_t)ompi_comm_size(comm);
    const bool root = ompi_comm_rank(comm) == call.root;

    if (OMPI_COMM_IS_INTER(comm)) /* the call runs over messages */
        return (struct coll_fabemu_call){.coll = call.coll};
    if (call.in == MPI_IN_PLACE || (call.coll == FABEMU_COLL_SCATTER && !root))
        call.in_type = NULL;
    if (call.out == MPI_IN_PLACE || (call.coll == FABEMU_COLL_GATHER && !root))
        call.dtype = NULL;
    if (call.in_type)
        call.bytes = (size_t)call.in_count * call.in_type->super.size * ranks;
    else if (call.dtype)
        call.bytes = (size_t)call.count * call.dtype->super.size * ranks;
    if (call.coll == FABEMU_COLL_ALLTOALL)
        call.bytes *= ranks;
    return call;
}

size_t coll_fabemu_part_bytes(const struct coll_fabemu_call *call, int part)
{
    const opal_datatype_t *dtype = &call->dtype->super;
    /* only reductions read and write elements together with their padding */
    bool padded = call->coll == FABEMU_COLL_REDUCE_SCATTER;

    return (size_t)coll_fabemu_part_count(call, part) *
           (padded ? (size_t)(dtype->ub - dtype->lb) : dtype->size);
}

size_t coll_fabemu_part_offset(const struct coll_fabemu_call *call, int part)
{
    size_t offset = 0;

    if (!call->counts)
        return (size_t)part * coll_fabemu_part_bytes(call, 0);
    for (int i = 0; i < part; i++)
        offset += coll_fabemu_part_bytes(call, i);
    return offset;
}

char *coll_fabemu_part_place(const struct coll_fabemu_call *call, int part)
{
    ptrdiff_t extent = call->dtype->super.ub - call->dtype->super.lb;
    ptrdiff_t elements = call->displs ? call->displs[part]
                                      : (ptrdiff_t)part * coll_fabemu_part_count(call, part);

    return (char *)call->out + elements * extent;
}

int coll_fabemu_pack_own(ompi_communicator_t *comm, const struct coll_fabemu_call *call,
                         void *packed, size_t room)
{
    bool in_place = call->in == MPI_IN_PLACE;
    bool gathers = call->coll == FABEMU_COLL_GATHER || call->coll == FABEMU_COLL_ALLGATHER;
    const void *in = call->in;
    const ompi_datatype_t *type = call->in_type ? call->in_type : call->dtype;
    size_t count = (size_t)(call->in_type ? call->in_count : call->count);

    if (in_place && gathers) {
        in = coll_fabemu_part_place(call, ompi_comm_rank(comm));
        count = (size_t)coll_fabemu_part_count(call, ompi_comm_rank(comm));
    } else if (in_place) {
        in = call->out;
    }
    if (call->coll == FABEMU_COLL_ALLTOALL)
        count *= (size_t)ompi_comm_size(comm);
    if (count * type->super.size > room)
        return OMPI_ERR_BAD_PARAM; /* the ranks' counts differ */
    return coll_fabemu_pack(in, count, type, packed, room);
}
