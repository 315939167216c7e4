/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * repair.c - corrects persistent sends of Open MPI 4.1 over libfabric, for data types with a lower
 * bound.
 *
 * Open MPI's transport over libfabric uses a contiguous buffer's address without adding the data
 * type's lower bound, if the request was made by isend_init(): MPI_Send_init, MPI_Alltoallw, and
 * long one-sided puts send wrong bytes, with MPI_BOTTOM those at address 0. (With any libfabric
 * provider; fixed in later versions by "mtl: Fix datatype offsetting".) A provider gets the wrong
 * address and cannot detect it.
 *
 * So the call is passed on as a send of bytes from the correct address. Where Open MPI is correct
 * itself, that is the same message.
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
