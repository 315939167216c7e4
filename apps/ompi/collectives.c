/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * collectives.c - decide whether a collective runs in the network or over messages; run blocking
 * collectives; report failures. Non-blocking and persistent collectives are in requests.c.
 *
 * Every rank decides by itself. So the decision must depend only on data that is the same on all
 * ranks:
 * - all collectives: the reason, if there is one, why all collectives of the communicator run over
 *   messages (module->fallback_why). module.c or join.c sets the same reason on all ranks;
 * - reductions: MPI requires the same count, operation and type on every rank. Ranks may pass
 *   different handles of one type (MPI_INT, MPI_INT32_T). Either Open MPI gives both the same id,
 *   or ops.def maps both ids to the same type. A duplicate of a predefined type is another type,
 *   which Open MPI itself refuses for predefined operations. The use of MPI_IN_PLACE may differ
 *   between ranks (in a reduce only the root may use it). So it is supported on every rank, and
 *   does not affect the decision;
 * - all collectives: the sizes at which messages are faster. All members of a group find the same
 *   sizes;
 * - collectives that only move data: only the number of bytes. Count and type may differ between
 *   ranks, as long as their signatures match. So data that is not contiguous is packed;
 * - reduce-scatter: the same as other reductions, with the sum of the counts of all ranks;
 * - scan: only the number of bytes, because the ranks themselves apply the operation;
 * - gatherv, scatterv, alltoallv, alltoallw and collectives on neighbours run over messages,
 *   because a rank need not know how much data the others send.
 */
#include "coll_fabemu.h"

#include "opal/util/output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const coll_names[FABEMU_COLLS] = {
    [FABEMU_COLL_BARRIER] = "MPI_Barrier",     [FABEMU_COLL_BROADCAST] = "MPI_Bcast",
    [FABEMU_COLL_REDUCE] = "MPI_Reduce",       [FABEMU_COLL_ALLREDUCE] = "MPI_Allreduce",
    [FABEMU_COLL_ALLGATHER] = "MPI_Allgather", [FABEMU_COLL_REDUCE_SCATTER] = "MPI_Reduce_scatter",
    [FABEMU_COLL_GATHER] = "MPI_Gather",       [FABEMU_COLL_SCATTER] = "MPI_Scatter",
    [FABEMU_COLL_SCAN] = "MPI_Scan",           [FABEMU_COLL_ALLTOALL] = "MPI_Alltoall",
};

static const char *why_failed(int err)
{
    switch (err) {
    case -EPIPE:
        return "a member of the communicator died, or cannot be reached";
    case -EPROTO:
        return "the members of the communicator called different collectives";
    default:
        return strerror(-err);
    }
}

struct node_query {
    uint32_t (*of)(const struct fabemu_group *);
    uint32_t node;
};

static void node_find(struct fabemu_group *group, void *arg)
{
    struct node_query *query = arg;

    if (query->node == FABEMU_ANY_NODE)
        query->node = query->of(group);
}

/*
 * Call @of for each of the communicator's groups. Return the first node that it finds, or
 * FABEMU_ANY_NODE.
 */
static uint32_t node_of(const mca_coll_fabemu_module_t *module,
                        uint32_t (*of)(const struct fabemu_group *))
{
    struct node_query query = {of, FABEMU_ANY_NODE};

    coll_fabemu_each_group(module, node_find, &query);
    return query.node;
}

struct why_query {
    char *text;
    size_t bytes;
    bool found;
};

static void why_find(struct fabemu_group *group, void *arg)
{
    struct why_query *query = arg;

    query->found = query->found || fabemu_group_why(group, query->text, query->bytes);
}

/* Return the rank of @node, or -1 if no rank is on it. */
static int rank_of(const mca_coll_fabemu_module_t *module, ompi_communicator_t *comm, uint32_t node)
{
    for (int rank = 0; module->nodes && rank < ompi_comm_size(comm); rank++)
        if (module->nodes[rank] == node)
            return rank;
    return -1;
}

/*
 * Describe why a group broke. The text always names a node. If the cause is unknown, it names this
 * node.
 */
static void broken_text(const mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                        char *text, size_t bytes)
{
    uint32_t gave_up = node_of(module, fabemu_group_gave_up);
    uint32_t broke_off = node_of(module, fabemu_group_broke_off);

    if (rank_of(module, comm, gave_up) >= 0)
        snprintf(
            text, bytes,
            "the network dropped messages that rank %d of the communicator, on node %u, had sent",
            rank_of(module, comm, gave_up), gave_up);
    else if (rank_of(module, comm, broke_off) >= 0)
        snprintf(text, bytes,
                 "rank %d of the communicator, on node %u, has left it, or had an error",
                 rank_of(module, comm, broke_off), broke_off);
    else
        snprintf(text, bytes, "%s (reported to rank %d, on node %u)", why_failed(-EPIPE),
                 ompi_comm_rank(comm), fabemu_info(module->fab)->node);
}

/*
 * Describe why the communicator's group broke. If it is known, say which member was lost, and why.
 */
static void why_broken(const mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                       char *text, size_t bytes)
{
    uint32_t dead = node_of(module, fabemu_group_dead_node);
    struct why_query query = {text, bytes, false};
    char why[80];

    coll_fabemu_each_group(module, why_find, &query);
    if (query.found)
        return;
    if (rank_of(module, comm, dead) >= 0) {
        snprintf(text, bytes, "rank %d of the communicator, on node %u, died",
                 rank_of(module, comm, dead), dead);
        return;
    }
    for (int rank = 0; module->nodes && rank < ompi_comm_size(comm); rank++) {
        if (fabemu_node_why(module->fab, module->nodes[rank], why, sizeof why)) {
            snprintf(text, bytes, "rank %d of the communicator cannot be reached: %s", rank, why);
            return;
        }
    }
    broken_text(module, comm, text, bytes);
}

/*
 * Break a group of the communicator, because an operation of one of the communicator's groups has
 * failed. Another member may have completed that operation, and would wait for this rank in the
 * other groups.
 */
static void break_one(struct fabemu_group *group, void *arg)
{
    (void)arg;
    fabemu_group_break(group);
}

int coll_fabemu_failed(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                       enum fabemu_coll coll, int err)
{
    char why[160];

    if (err == -EPIPE) {
        /* find the cause before break_one(), which changes it */
        why_broken(module, comm, why, sizeof why);
        coll_fabemu_each_group(module, break_one, NULL);
    } else {
        snprintf(why, sizeof why, "%s (detected by rank %d, on node %u)", why_failed(err),
                 ompi_comm_rank(comm), fabemu_info(module->fab)->node);
    }
    opal_output(0, "fabemu: %s on %s failed in the fabric: %s", coll_names[coll], comm->c_name,
                why);
    return MPI_ERR_OTHER;
}

/*
 * Abort, because this rank could not post a collective, or could post only some of its parts. The
 * sequence numbers of this rank in the group now differ from those of the other ranks, so data of
 * its next collective would be mixed with data of an earlier collective of the others. A collective
 * that fails after all its parts were posted does not have this problem.
 */
int coll_fabemu_failed_alone(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                             enum fabemu_coll coll, int err)
{
    coll_fabemu_failed(module, comm, coll, err);
    (void)ompi_mpi_abort(comm, MPI_ERR_OTHER);
    return MPI_ERR_OTHER;
}

/*
 * Join the groups that @call needs, if that is not done yet. Returns COLL_FABEMU_NO_FALLBACK, or
 * the reason why the collective cannot run in the fabric.
 */
static int join_if_needed(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                          const struct coll_fabemu_call *call)
{
    if (module->fallback_why == COLL_FABEMU_NOT_TRIED)
        coll_fabemu_join(module, comm);
    if (module->fallback_why != COLL_FABEMU_NO_FALLBACK)
        return module->fallback_why;
    if (coll_fabemu_is_slower(module, call))
        return FABEMU_WHY_SLOWER;
    if (call->bytes < mca_coll_fabemu_component.wide_bytes)
        return COLL_FABEMU_NO_FALLBACK;
    if (module->wide_fallback_why == COLL_FABEMU_NOT_TRIED)
        coll_fabemu_join_wide(module, comm);
    return module->wide_fallback_why;
}

/* Return the group for collectives of @bytes; NULL if it is not joined. */
static inline struct fabemu_group *group_for(const mca_coll_fabemu_module_t *module, size_t bytes)
{
    return bytes >= mca_coll_fabemu_component.wide_bytes ? module->wide : module->group;
}

/*
 * Decide as coll_fabemu_choose() does, in the cases that need not be fast: no group is joined yet,
 * or the collective runs over messages.
 */
static struct fabemu_group *choose_slowly(mca_coll_fabemu_module_t *module,
                                          ompi_communicator_t *comm,
                                          const struct coll_fabemu_call *call, int why)
{
    if (module->passing)
        return NULL; /* the call belongs to a collective that was counted already */
    if (ompi_mpi_state >= OMPI_MPI_STATE_FINALIZE_PAST_COMM_SELF_DESTRUCT)
        why = FABEMU_WHY_FINALIZE;
    else if (module->fallback_why >= 0)
        why = module->fallback_why;
    else if (why == COLL_FABEMU_NO_FALLBACK)
        why = join_if_needed(module, comm, call);
    if (why == COLL_FABEMU_NO_FALLBACK)
        return group_for(module, call->bytes);
    if (module->counts)
        fabemu_count_elsewhere(module->fab, call->coll, (enum fabemu_why)why);
    return NULL;
}

struct fabemu_group *coll_fabemu_choose(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                                        struct coll_fabemu_call *call)
{
    int why = COLL_FABEMU_NO_FALLBACK;
    struct fabemu_group *group;

    if (call->uneven)
        why = FABEMU_WHY_COUNTS;
    else if (call->op && call->coll != FABEMU_COLL_SCAN) /* the ranks themselves combine a scan */
        why = coll_fabemu_map(call->op, call->dtype, &call->fab_op, &call->fab_type);
    group = group_for(module, call->bytes);
    if (OPAL_LIKELY(why == COLL_FABEMU_NO_FALLBACK && group && !module->passing &&
                    !coll_fabemu_is_slower(module, call) &&
                    ompi_mpi_state < OMPI_MPI_STATE_FINALIZE_PAST_COMM_SELF_DESTRUCT))
        return group;
    return choose_slowly(module, comm, call, why);
}

/* Run a collective in the network and wait for its end. */
static int run(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
               struct fabemu_group *group, struct coll_fabemu_call *call)
{
    struct fabemu_req one = {0}, *reqs = &one;
    unsigned round = 1, idle = 0;
    int parts = coll_fabemu_parts(comm, call), err;

    if (parts > 1)
        reqs = calloc((size_t)parts, sizeof *reqs);
    err = reqs ? coll_fabemu_post(module, comm, group, call, reqs) : -ENOMEM;
    if (OPAL_UNLIKELY(err))
        return coll_fabemu_failed_alone(module, comm, call->coll, err);
    while ((err = coll_fabemu_status(reqs, parts)) == FABEMU_PENDING)
        coll_fabemu_wait_round(module->fab, round++, &idle);
    if (reqs != &one)
        free(reqs);
    return coll_fabemu_finish(module, comm, call, err);
}

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* State while a call is passed to the component below. */
struct pass {
    bool nested; /* the component below makes this call, while another call is passed to it */
    uint64_t began_ns;
};

/*
 * Begin to pass a call to the component below; pass_end() ends it. In between, the component below
 * may call collectives of this communicator and so re-enter this component.
 */
static struct pass pass_begin(mca_coll_fabemu_module_t *module)
{
    struct pass pass = {module->passing, module->passing ? 0 : now_ns()};

    module->passing = true;
    return pass;
}

static int pass_end(mca_coll_fabemu_module_t *module, const struct pass *pass,
                    const struct coll_fabemu_call *call, int rc)
{
    module->passing = pass->nested;
    if (module->fab && !pass->nested && rc == OMPI_SUCCESS)
        fabemu_time_elsewhere(module->fab, call->coll, call->bytes, now_ns() - pass->began_ns);
    return rc;
}

#define COLLECTIVE(name, parameters, arguments, ...)                                \
    int coll_fabemu_##name(COLL_FABEMU_UNWRAP parameters ompi_communicator_t *comm, \
                           mca_coll_base_module_t *base)                            \
    {                                                                               \
        mca_coll_fabemu_module_t *module = (mca_coll_fabemu_module_t *)base;        \
        struct coll_fabemu_call call = __VA_ARGS__;                                 \
        struct fabemu_group *group;                                                 \
        struct pass pass;                                                           \
                                                                                    \
        if (coll_fabemu_is_empty(comm, &call))                                      \
            return OMPI_SUCCESS;                                                    \
        group = coll_fabemu_choose(module, comm, &call);                            \
        if (group)                                                                  \
            return run(module, comm, group, &call);                                 \
        pass = pass_begin(module);                                                  \
        return pass_end(module, &pass, &call,                                       \
                        module->below.name(COLL_FABEMU_UNWRAP arguments comm,       \
                                           module->below.name##_module));           \
    }
#include "collectives.def"
