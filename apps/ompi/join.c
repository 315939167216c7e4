/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * join.c - make a group of the fabric for a communicator at its first collective, so that a
 * communicator without collectives costs nothing.
 *
 * There are three steps, each a collective of the component below. All members exchange their
 * locations. Rank 0 creates the group and broadcasts its number. All members exchange whether they
 * have joined. After each step all members have the same data, so all reach the same decision.
 *
 * Rejected: to create groups in MPI_Comm_split, because most communicators of real programs never
 * see a collective; to identify groups by Open MPI's context ids, because these are not unique
 * across disjoint communicators.
 */
#include "coll_fabemu.h"

#include "opal/util/output.h"

#include <stdlib.h>
#include <string.h>

#define NO_GROUP UINT32_MAX

uint64_t coll_fabemu_location(const struct fabemu *fab)
{
    if (!fab)
        return COLL_FABEMU_NOWHERE;
    const struct fabemu_info *info = fabemu_info(fab);

    return (info->fabric_id ^ info->fabric_id << 32) >> 32 << 32 | info->node;
}

static int compare_u64(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Return whether all members are on one fabric and on different nodes. Sorts @places. */
static bool places_fit(uint64_t *places, int size)
{
    qsort(places, (size_t)size, sizeof *places, compare_u64);
    for (int i = 1; i < size; i++)
        if (places[i] == places[i - 1] || places[i] >> 32 != places[0] >> 32)
            return false;
    return places[size - 1] != COLL_FABEMU_NOWHERE;
}

/*
 * Set @nodes to the members' nodes. Returns false, on all ranks alike, if no group is possible. (An
 * error of the component below is fatal to Open MPI, so it need not be the same on all ranks.)
 */
static bool exchange_nodes(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                           uint32_t *nodes, uint64_t *places)
{
    const struct coll_fabemu_below *below = &module->below;
    int size = ompi_comm_size(comm);
    uint64_t mine = coll_fabemu_location(module->fab);

    if (below->allgather(&mine, 1, MPI_UINT64_T, places, 1, MPI_UINT64_T, comm,
                         below->allgather_module) != OMPI_SUCCESS)
        return false;
    for (int i = 0; i < size; i++)
        nodes[i] = (uint32_t)places[i];
    return places_fit(places, size);
}

typedef int group_create_fn(struct fabemu *fab, const uint32_t *nodes, uint32_t count,
                            uint32_t *id);

/*
 * Let rank 0 create the group and broadcast its number. Returns the number, or NO_GROUP if the
 * fabric refused.
 */
static uint32_t agree_on_group(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                               const uint32_t *nodes, group_create_fn *create)
{
    const struct coll_fabemu_below *below = &module->below;
    uint32_t id = NO_GROUP;

    if (ompi_comm_rank(comm) == 0) {
        int err = create(module->fab, nodes, (uint32_t)ompi_comm_size(comm), &id);

        if (err) {
            opal_output_verbose(1, ompi_coll_base_framework.framework_output,
                                "coll:fabemu: no group for %s of %d: %s (%s)", comm->c_name,
                                ompi_comm_size(comm), fabemu_error(), strerror(-err));
            id = NO_GROUP;
        }
    }
    if (below->bcast(&id, 1, MPI_UINT32_T, 0, comm, below->bcast_module) != OMPI_SUCCESS)
        id = NO_GROUP;
    return id;
}

/*
 * Join the group, and leave it again if not all ranks have joined. Returns NULL, on all ranks
 * alike, if they have left.
 */
static struct fabemu_group *join_all_or_none(mca_coll_fabemu_module_t *module,
                                             ompi_communicator_t *comm, uint32_t id)
{
    const struct coll_fabemu_below *below = &module->below;
    struct fabemu_group *group = NULL;
    int mine = !fabemu_group_join(module->fab, id, (uint32_t)ompi_comm_size(comm), &group);
    int all = 0;

    if (below->allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm, below->allreduce_module) ==
            OMPI_SUCCESS &&
        all)
        return group;
    if (mine)
        fabemu_group_leave(group);
    return NULL;
}

static struct fabemu_group *make_group(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                                       const uint32_t *nodes, group_create_fn *create)
{
    uint32_t id = agree_on_group(module, comm, nodes, create);

    return id == NO_GROUP ? NULL : join_all_or_none(module, comm, id);
}

/* Give the group the name of its communicator, for reports about hanging runs. */
static void name_group(struct fabemu_group *group, const ompi_communicator_t *comm)
{
    if (group)
        fabemu_group_name(group, comm->c_name);
}

/*
 * Begin to form a group by messages. If the run hangs meanwhile, the report shows the program's
 * @call instead of these messages.
 */
static void begin(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                  enum fabemu_coll call)
{
    module->passing = true; /* the component below may call collectives of the communicator */
    if (module->fab)
        fabemu_call_begin(module->fab, call, comm->c_name, (uint32_t)ompi_comm_size(comm));
}

static void end(mca_coll_fabemu_module_t *module)
{
    if (module->fab)
        fabemu_call_end(module->fab);
    module->passing = false;
}

void coll_fabemu_join(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                      enum fabemu_coll call)
{
    size_t size = (size_t)ompi_comm_size(comm);
    uint64_t *places = malloc(size * sizeof *places);
    uint32_t *nodes = malloc(size * sizeof *nodes);

    module->standing = FABEMU_WHY_GROUP;
    if (!places || !nodes)
        (void)ompi_mpi_abort(comm, MPI_ERR_NO_MEM); /* the other ranks would hang */

    begin(module, comm, call);
    if (exchange_nodes(module, comm, nodes, places))
        module->group = make_group(module, comm, nodes, fabemu_group_create);
    if (module->group) {
        module->standing = COLL_FABEMU_NOTHING;
        module->nodes = nodes;
        nodes = NULL;
        coll_fabemu_slower_find(module, (int)size);
    }
    end(module);
    name_group(module->group, comm);
    free(nodes);
    free(places);
}

void coll_fabemu_join_wide(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                           enum fabemu_coll call)
{
    begin(module, comm, call);
    module->wide = make_group(module, comm, module->nodes, fabemu_group_create_wide);
    name_group(module->wide, comm);
    module->wide_standing = module->wide ? COLL_FABEMU_NOTHING : FABEMU_WHY_WINDOW;
    end(module);
}
