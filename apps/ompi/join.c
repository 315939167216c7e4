/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * join.c - join the group of the fabric for a communicator at its first collective, so that a
 * communicator without collectives costs nothing.
 *
 * The members exchange no messages, because the first collective may be a non-blocking one, which
 * must not wait for other members. In MPI_Init every process publishes its location, together with
 * the addresses that Open MPI's transports publish. So each member can look up the locations of all
 * members. It then asks the fabric for the group by a key, which is the same on all members.
 *
 * Rejected: to create groups in MPI_Comm_split, because most communicators of real programs never
 * see a collective.
 */
#include "coll_fabemu.h"

#include "ompi/group/group.h"
#include "ompi/proc/proc.h"
#include "opal/util/output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t coll_fabemu_location(const struct fabemu *fab)
{
    if (!fab)
        return COLL_FABEMU_NOWHERE;
    const struct fabemu_info *info = fabemu_info(fab);

    return (info->fabric_id ^ info->fabric_id << 32) >> 32 << 32 | info->node;
}

void coll_fabemu_publish(const struct fabemu *fab)
{
    uint64_t location = coll_fabemu_location(fab);
    int rc;

    /* if this fails, the macro prints an error, and other processes do not find the location */
    OPAL_MODEX_SEND(rc, COLL_FABEMU_MODEX_SCOPE, &mca_coll_fabemu_component.super.collm_version,
                    &location, sizeof location);
    (void)rc;
}

/* Return the location that @rank of @comm has published; COLL_FABEMU_NOWHERE: none. */
static uint64_t location_of(ompi_communicator_t *comm, int rank)
{
    const ompi_proc_t *proc = ompi_group_peer_lookup(comm->c_local_group, rank);
    uint64_t location = COLL_FABEMU_NOWHERE;
    uint8_t *data = NULL;
    size_t bytes = 0;
    int rc;

    OPAL_MODEX_RECV(rc, &mca_coll_fabemu_component.super.collm_version, &proc->super.proc_name,
                    &data, &bytes);
    if (rc == OPAL_SUCCESS && bytes == sizeof location)
        memcpy(&location, data, sizeof location);
    free(data);
    return location;
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

/* Return an array with the node of each rank; the caller frees it. NULL: no group is possible. */
static uint32_t *find_nodes(ompi_communicator_t *comm)
{
    int size = ompi_comm_size(comm);
    uint64_t *places = malloc((size_t)size * sizeof *places);
    uint32_t *nodes = malloc((size_t)size * sizeof *nodes);
    bool fits;

    if (!places || !nodes)
        (void)ompi_mpi_abort(comm, MPI_ERR_NO_MEM); /* the other ranks would hang */
    for (int i = 0; i < size; i++) {
        places[i] = location_of(comm, i);
        nodes[i] = (uint32_t)places[i];
    }
    fits = places_fit(places, size);
    free(places);
    if (fits)
        return nodes;
    free(nodes);
    return NULL;
}

/*
 * Join a group of all members. The key names the process of rank 0 and the communicator's number,
 * which no other communicator of that process has at the same time.
 * @what: 0 for the communicator's two groups, which differ in @wide; otherwise the number of the
 * group for a persistent request.
 * Returns NULL if the fabric has refused the group, to all members alike.
 */
static struct fabemu_group *open_group(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                                       bool wide, uint64_t what)
{
    const ompi_proc_t *first = ompi_group_peer_lookup(comm->c_local_group, 0);
    struct fabemu_group *group = NULL;
    char key[FABEMU_GROUP_KEY + 1];
    int err;

    snprintf(key, sizeof key, "mpi %" PRIx32 ".%" PRIx32 " %" PRIx64 ".%" PRIx64 " %" PRIx64,
             first->super.proc_name.jobid, first->super.proc_name.vpid, COLL_FABEMU_CID_BASE(comm),
             COLL_FABEMU_CID(comm), what);
    err = fabemu_group_open(module->fab, key, module->nodes, (uint32_t)ompi_comm_size(comm), wide,
                            &group);
    if (!err) {
        fabemu_group_name(group, comm->c_name);
        return group;
    }
    if (err == -EPIPE || err == -ENOMEM || err == -ENOTCONN || err == -EALREADY || err == -EPROTO) {
        opal_output(0, "fabemu: rank %d cannot join the group of %s: %s", ompi_comm_rank(comm),
                    comm->c_name, fabemu_error());
        (void)ompi_mpi_abort(comm, MPI_ERR_OTHER); /* the other ranks would hang */
    }
    opal_output_verbose(1, ompi_coll_base_framework.framework_output,
                        "coll:fabemu: no group for %s of %d: %s (%s)", comm->c_name,
                        ompi_comm_size(comm), fabemu_error(), strerror(-err));
    return NULL;
}

void coll_fabemu_join(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm)
{
    module->standing = FABEMU_WHY_GROUP;
    module->nodes = module->fab ? find_nodes(comm) : NULL;
    if (!module->nodes)
        return;
    module->group = open_group(module, comm, false, 0);
    if (!module->group)
        return;
    module->standing = COLL_FABEMU_NOTHING;
    coll_fabemu_slower_find(module, ompi_comm_size(comm));
}

void coll_fabemu_join_wide(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm)
{
    module->wide = open_group(module, comm, true, 0);
    module->wide_standing = module->wide ? COLL_FABEMU_NOTHING : FABEMU_WHY_WINDOW;
}

struct fabemu_group *coll_fabemu_join_another(mca_coll_fabemu_module_t *module,
                                              ompi_communicator_t *comm, bool wide)
{
    return open_group(module, comm, wide, ++module->persistent);
}
