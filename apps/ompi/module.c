/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * module.c - the module that the component makes for each communicator: create it, save the
 * functions of the modules below it, free it.
 */
#include "coll_fabemu.h"

#include "ompi/group/group.h"
#include "ompi/proc/proc.h"

#include <stdlib.h>

static void module_construct(mca_coll_fabemu_module_t *module)
{
    *module = (mca_coll_fabemu_module_t){
        .super = module->super, /* Open MPI has constructed it already */
        .fallback_why = COLL_FABEMU_NOT_TRIED,
        .wide_fallback_why = COLL_FABEMU_NOT_TRIED,
    };
}

static void release(mca_coll_base_module_t **module)
{
    if (*module)
        OBJ_RELEASE(*module);
    *module = NULL;
}

static void module_destruct(mca_coll_fabemu_module_t *module)
{
    /* do this before leaving the groups: no operation may be pending in them */
    coll_fabemu_requests_abandon(module);
    if (module->wide)
        fabemu_group_leave(module->wide);
    if (module->group)
        fabemu_group_leave(module->group);
    free(module->nodes);
#define COLLECTIVE(name, parameters, arguments, ...) \
    release(&module->below.name##_module);           \
    release(&module->below.i##name##_module);        \
    release(&module->below.name##_init_module);
#include "collectives.def"
}

OBJ_CLASS_INSTANCE(mca_coll_fabemu_module_t, mca_coll_base_module_t, module_construct,
                   module_destruct);

/*
 * Return whether this process counts the collectives of the communicator. Rank 0 does. An
 * intercommunicator has two ranks 0; the one with the smaller process name counts.
 */
static bool counts_for(ompi_communicator_t *comm)
{
    if (ompi_comm_rank(comm) != 0)
        return false;
    if (!OMPI_COMM_IS_INTER(comm))
        return true;

    const ompi_proc_t *here = ompi_group_peer_lookup(comm->c_local_group, 0);
    const ompi_proc_t *there = ompi_group_peer_lookup(comm->c_remote_group, 0);

    return opal_compare_proc(here->super.proc_name, there->super.proc_name) < 0;
}

/*
 * Return why all collectives of @comm run over messages; COLL_FABEMU_NOT_TRIED: no reason is known
 * yet.
 */
static int fallback_why_of(const struct coll_fabemu_component *component, ompi_communicator_t *comm)
{
    if (!component->enable)
        return FABEMU_WHY_OFF;
    if (OMPI_COMM_IS_INTER(comm))
        return FABEMU_WHY_INTER;
    if (ompi_comm_size(comm) == 1)
        return FABEMU_WHY_SINGLE;
    return COLL_FABEMU_NOT_TRIED;
}

/*
 * Save the functions of the components below. Open MPI enables modules in order of increasing
 * priority, so these functions are in c_coll now. Intercommunicators have no scan, for example. The
 * component then offers none.
 */
#define SAVE(name)                                                    \
    module->below.name = comm->c_coll->coll_##name;                   \
    module->below.name##_module = comm->c_coll->coll_##name##_module; \
    if (module->below.name##_module)                                  \
        OBJ_RETAIN(module->below.name##_module);                      \
    if (!module->below.name)                                          \
        module->super.coll_##name = NULL;

static int module_enable(mca_coll_base_module_t *base, ompi_communicator_t *comm)
{
    mca_coll_fabemu_module_t *module = (mca_coll_fabemu_module_t *)base;

#define COLLECTIVE(name, parameters, arguments, ...) SAVE(name) SAVE(i##name) SAVE(name##_init)
#include "collectives.def"
    module->counts = module->fab && counts_for(comm);
    if (module->fab && comm == MPI_COMM_WORLD)
        fabemu_await_time(module->fab);
    return OMPI_SUCCESS;
}

mca_coll_base_module_t *coll_fabemu_comm_query(ompi_communicator_t *comm, int *priority)
{
    const struct coll_fabemu_component *component = &mca_coll_fabemu_component;
    mca_coll_fabemu_module_t *module = OBJ_NEW(mca_coll_fabemu_module_t);

    if (!module)
        return NULL;
    /* call these now, because MPI_Init has chosen the transport for messages */
    coll_fabemu_repair();
    coll_fabemu_tests();
    module->fab = component->fab;
    module->fallback_why = fallback_why_of(component, comm);
    module->super.coll_module_enable = module_enable;
#define COLLECTIVE(name, parameters, arguments, ...)  \
    module->super.coll_##name = coll_fabemu_##name;   \
    module->super.coll_i##name = coll_fabemu_i##name; \
    module->super.coll_##name##_init = coll_fabemu_##name##_init;
#include "collectives.def"
    *priority = component->priority;
    return &module->super;
}
