/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * repair.c - persistent sends of Open MPI 4.1 over libfabric, of data that does not begin where
 * the buffer does.
 *
 * The transport layer of messages over libfabric takes the address of a contiguous datum for that
 * of its first byte, and forgets the data type's lower bound. It does so where the request was made
 * by isend_init(): MPI_Send_init, MPI_Alltoallw, and long one-sided puts send other bytes than they
 * were told, and those of address 0 for MPI_BOTTOM. (Over any libfabric provider; mended in later
 * versions by "mtl: Fix datatype offsetting".) A provider gets the wrong address and cannot know.
 *
 * So the call is handed on with what it means in bytes. Where Open MPI does it right itself, that
 * is the same message.
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
