/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * location.c - the locations of processes. A location says on which fabric and which node a process
 * is.
 *
 * In MPI_Init every process publishes its location, together with the addresses that Open MPI's
 * transports publish. So each process can look up the locations of all others without a message.
 */
#include "coll_fabemu.h"

#include "ompi/group/group.h"
#include "ompi/proc/proc.h"

#include <stdlib.h>
#include <string.h>

/*
 * Open MPI identifies published data by a component. Both of our components, for collectives and
 * for windows, use this one.
 */
static const mca_base_component_t publisher = {
    COLL_FABEMU_FRAMEWORK_VERSION,
    .mca_component_name = "fabemu",
    MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION),
};

uint64_t coll_fabemu_location(const struct fabemu *fab)
{
    if (!fab)
        return COLL_FABEMU_NO_LOCATION;
    const struct fabemu_info *info = fabemu_info(fab);

    return (info->fabric_id ^ info->fabric_id << 32) >> 32 << 32 | info->node;
}

void coll_fabemu_publish(const struct fabemu *fab)
{
    uint64_t location = coll_fabemu_location(fab);
    int rc;

    /* If this fails, the macro prints an error, and other processes do not find our location. */
    OPAL_MODEX_SEND(rc, COLL_FABEMU_MODEX_SCOPE, &publisher, &location, sizeof location);
    (void)rc;
}

/* Return the location that rank @rank of @comm has published; COLL_FABEMU_NO_LOCATION: none. */
static uint64_t location_of(ompi_communicator_t *comm, int rank)
{
    const ompi_proc_t *proc = ompi_group_peer_lookup(comm->c_local_group, rank);
    uint64_t location = COLL_FABEMU_NO_LOCATION;
    uint8_t *data = NULL;
    size_t bytes = 0;
    int rc;

    OPAL_MODEX_RECV(rc, &publisher, &proc->super.proc_name, &data, &bytes);
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
    return places[size - 1] != COLL_FABEMU_NO_LOCATION;
}

uint32_t *coll_fabemu_nodes(ompi_communicator_t *comm)
{
    int size = ompi_comm_size(comm);
    uint64_t *places = malloc((size_t)size * sizeof *places);
    uint32_t *nodes = malloc((size_t)size * sizeof *nodes);
    bool fits;

    if (!places || !nodes)
        (void)ompi_mpi_abort(comm, MPI_ERR_NO_MEM); /* else the other ranks would wait forever */
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
