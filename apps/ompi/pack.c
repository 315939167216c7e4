/* SPDX-License-Identifier: BSD-3-Clause */
/* pack.c - copies between the user's buffers, which may have gaps, and contiguous ones. */
#include "coll_fabemu.h"

#include "opal/datatype/opal_convertor.h"

#include <stdint.h>
#include <string.h>

bool coll_fabemu_is_contiguous(const ompi_datatype_t *dtype, size_t count)
{
    /* ask about 2 elements: a single element can be contiguous although a gap follows it */
    return ompi_datatype_is_contiguous_memory_layout(dtype, count > 1 ? 2 : 1);
}

static int prepare(opal_convertor_t *conv, bool packs, void *buf, size_t count,
                   const ompi_datatype_t *dtype)
{
    return packs ? opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &dtype->super,
                                                            count, buf, 0, conv)
                 : opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor, &dtype->super,
                                                            count, buf, 0, conv);
}

/*
 * If @packs is true, copy the first @bytes of @buf, which has gaps, to @packed. Otherwise copy them
 * from @packed to @buf.
 */
static int convert(bool packs, void *buf, size_t count, const ompi_datatype_t *dtype, void *packed,
                   size_t bytes)
{
    struct iovec iov = {.iov_base = packed, .iov_len = bytes};
    uint32_t iovs = 1;
    size_t done = bytes;
    opal_convertor_t conv;
    int rc;

    OBJ_CONSTRUCT(&conv, opal_convertor_t);
    rc = prepare(&conv, packs, buf, count, dtype);
    if (rc == OPAL_SUCCESS) {
        rc = packs ? opal_convertor_pack(&conv, &iov, &iovs, &done)
                   : opal_convertor_unpack(&conv, &iov, &iovs, &done);
        rc = rc >= 0 && done == bytes ? OMPI_SUCCESS : OMPI_ERROR;
    }
    OBJ_DESTRUCT(&conv);
    return rc;
}

static int copy(bool packs, void *buf, size_t count, const ompi_datatype_t *dtype, void *packed,
                size_t most)
{
    size_t all = dtype->super.size * count, bytes = all < most ? all : most;
    char *plain = (char *)buf + dtype->super.true_lb;

    if (!bytes)
        return OMPI_SUCCESS;
    if (!coll_fabemu_is_contiguous(dtype, count))
        return convert(packs, buf, count, dtype, packed, bytes);
    memcpy(packs ? packed : plain, packs ? plain : packed, bytes);
    return OMPI_SUCCESS;
}

int coll_fabemu_pack(const void *buf, size_t count, const ompi_datatype_t *dtype, void *packed,
                     size_t most)
{
    return copy(true, (void *)(uintptr_t)buf, count, dtype, packed, most);
}

int coll_fabemu_unpack(void *buf, size_t count, const ompi_datatype_t *dtype, const void *packed,
                       size_t most)
{
    return copy(false, buf, count, dtype, (void *)(uintptr_t)packed, most);
}
