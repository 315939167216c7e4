/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * join.c - join the group of the fabric for a communicator at its first collective, so that a
 * communicator without collectives costs nothing.
 *
 * The members exchange no messages, because the first collective may be a non-blocking one, which
 * must not wait for other members. Each member looks up the locations of all members (location.c),
 * and then asks the fabric for the group by a key, which is the same on all members.
 *
 * We do not create groups in MPI_Comm_split, because real programs use most communicators for no
 * collective at all.
 */
#include "coll_fabemu.h"

#include "ompi/group/group.h"
#include "ompi/proc/proc.h"
#include "opal/util/output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/*
 * Join a group of all members. The key consists of the name of the process of rank 0 and of the
 * communicator's number. No other communicator of that process has this number at the same time.
 * @what: 0 for the communicator's two groups, which differ in @wide; otherwise the number of the
 * group for a persistent request. Returns NULL if the fabric has refused the group. It then refuses
 * the group to all members.
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
        (void)ompi_mpi_abort(comm, MPI_ERR_OTHER); /* else the other ranks would wait forever */
    }
    opal_output_verbose(1, ompi_coll_base_framework.framework_output,
                        "coll:fabemu: no group for %s of %d members: %s (%s)", comm->c_name,
                        ompi_comm_size(comm), fabemu_error(), strerror(-err));
    return NULL;
}

void coll_fabemu_join(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm)
{
    module->fallback_why = FABEMU_WHY_GROUP;
    module->nodes = module->fab ? coll_fabemu_nodes(comm) : NULL;
    if (!module->nodes)
        return;
    module->group = open_group(module, comm, false, 0);
    if (!module->group)
        return;
    module->fallback_why = COLL_FABEMU_NO_FALLBACK;
    coll_fabemu_slower_find(module, ompi_comm_size(comm));
}

void coll_fabemu_join_wide(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm)
{
    module->wide = open_group(module, comm, true, 0);
    module->wide_fallback_why = module->wide ? COLL_FABEMU_NO_FALLBACK : FABEMU_WHY_WINDOW;
}

struct fabemu_group *coll_fabemu_join_another(mca_coll_fabemu_module_t *module,
                                              ompi_communicator_t *comm, bool wide)
{
    return open_group(module, comm, wide, ++module->persistent);
}
