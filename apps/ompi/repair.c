/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * repair.c - corrects an error of Open MPI 4.1: persistent sends over libfabric of data types with
 * a true lower bound other than 0.
 *
 * If a request for a contiguous buffer was made by isend_init(), Open MPI's transport over
 * libfabric does not add this bound of the data type to the buffer's address. So MPI_Send_init,
 * MPI_Alltoallw and long one-sided puts send wrong bytes; with MPI_BOTTOM they send the bytes at
 * address 0. This happens with any libfabric provider, because a provider gets the wrong address
 * and cannot detect the error. Later versions of Open MPI have the fix "mtl: Fix datatype
 * offsetting".
 *
 * So this file replaces the call by a send of bytes from the correct address. If Open MPI's address
 * was correct, the message is the same.
 */
#include "coll_fabemu.h"

#include "ompi/mca/pml/base/base.h"

#include <string.h>

static int isend_init(const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
                      mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                      ompi_request_t **request)
{
    mca_pml_base_module_isend_init_fn_t below = mca_coll_fabemu_component.isend_init_below;

    if (type->super.true_lb &&
        opal_datatype_is_contiguous_memory_layout(&type->super, (int32_t)count))
        return below((const char *)buf + type->super.true_lb, count * type->super.size, MPI_BYTE,
                     dst, tag, mode, comm, request);
    return below(buf, count, type, dst, tag, mode, comm, request);
}

void coll_fabemu_repair(void)
{
    struct coll_fabemu_component *me = &mca_coll_fabemu_component;

    if (me->isend_init_below ||
        strcmp(mca_pml_base_selected_component.pmlm_version.mca_component_name, "cm") != 0)
        return;
    me->isend_init_below = mca_pml.pml_isend_init;
    mca_pml.pml_isend_init = isend_init;
}

void coll_fabemu_repair_undo(void)
{
    struct coll_fabemu_component *me = &mca_coll_fabemu_component;

    if (me->isend_init_below && mca_pml.pml_isend_init == isend_init)
        mca_pml.pml_isend_init = me->isend_init_below;
    me->isend_init_below = NULL;
}
