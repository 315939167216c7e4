/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attach.c - attach to fabrics, detach from them, and handle the events that a fabric sends.
 *
 * The list of attached adapters is the library's only mutable global. The libfabric provider and
 * the Open MPI component of one process do not know of each other, but must share one adapter for
 * each fabric.
 */
#include "nic/fabemu.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emu/packet/packet.h"
#include "emu/util/json.h"
#include "nic/host/api/open.h"
#include "nic/host/base/base.h"
#include "nic/host/base/compute.h"
#include "nic/host/base/lock.h"
#include "nic/host/control/control.h"
#include "nic/host/group/break.h"
#include "nic/host/peer/handshake.h"
#include "nic/host/progress/progress.h"

/* longer than any valid socket path, so that a path truncated to this length is still refused */
#define PATH_BYTES 512

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fabemu *registry; /* protected by registry_lock */
static pthread_once_t registry_once = PTHREAD_ONCE_INIT;

/* Fork handlers. A forked child loses its adapters, because two processes cannot share one. */
static void registry_before_fork(void)
{
    pthread_mutex_lock(&registry_lock);
}

static void registry_in_parent(void)
{
    pthread_mutex_unlock(&registry_lock);
}

static void registry_in_child(void)
{
    for (struct fabemu *fab = registry; fab; fab = fab->next) {
        atomic_store_explicit(&fab->defunct, true, memory_order_relaxed);
        nic_control_forked(fab->control);
        nic_note_forked();
    }
    registry = NULL;
    pthread_mutex_unlock(&registry_lock);
}

/*
 * Tell the fabric that this process exits while it is attached, so that the fabric does not count
 * the exit as a crash.
 */
__attribute__((destructor)) static void registry_at_exit(void)
{
    if (pthread_mutex_trylock(&registry_lock))
        return;
    for (struct fabemu *fab = registry; fab; fab = fab->next)
        nic_control_exits(fab->control);
    pthread_mutex_unlock(&registry_lock);
}

static void registry_init(void)
{
    pthread_atfork(registry_before_fork, registry_in_parent, registry_in_child);
}

/* --- events from the fabric, handled by the thread that nic_control_watch() starts -- */

/* Return @number as a node, or FABEMU_ANY_NODE if the fabric has no such node. */
static uint32_t node_of(const struct fabemu *fab, int64_t number)
{
    return number >= 0 && number < fab->info.nodes ? (uint32_t)number : FABEMU_ANY_NODE;
}

/* End the groups that the event names. The caller holds the adapter's lock. */
static void event_groups(struct fabemu *fab, struct json_object *event)
{
    struct json_object *groups = json_object_object_get(event, "groups");
    struct json_object *nodes = json_object_object_get(event, "nodes");
    int64_t partitioned = emu_json_count(nodes) ? json_object_get_int64(emu_json_at(nodes, 0)) : -1;
    const struct nic_group_end end = {.dead = node_of(fab, emu_json_number(event, "node", -1)),
                                      .by = node_of(fab, emu_json_number(event, "by", -1)),
                                      .partitioned = node_of(fab, partitioned),
                                      .why = emu_json_text(event, "why", "")};

    for (size_t i = 0; i < emu_json_count(groups); i++) {
        int64_t group = json_object_get_int64(emu_json_at(groups, i));

        if (group >= 0 && group <= UINT32_MAX)
            nic_group_over(fab, (uint32_t)group, &end);
    }
}

static void event_groups_broken(struct fabemu *fab, struct json_object *event)
{
    nic_lock(fab);
    event_groups(fab, event);
    nic_unlock(fab);
}

/* A process died. nic_step() reads in the host interface which process it was. */
static void event_node_died(struct fabemu *fab, struct json_object *event)
{
    nic_lock(fab);
    event_groups(fab, event);
    nic_step(fab);
    nic_unlock(fab);
}

/* The network dropped a segment between two processes for good. One of them may be this process. */
static void event_drop(struct fabemu *fab, struct json_object *event)
{
    const char *why = emu_json_text(event, "why", "");
    int64_t from = emu_json_number(event, "from", -1), to = emu_json_number(event, "to", -1);

    if (from < 0 || to < 0 || from >= fab->info.nodes || to >= fab->info.nodes)
        return;
    nic_lock(fab);
    nic_peer_dropped(fab,
                     &(struct nic_drop){.from = nic_peer(fab, (uint32_t)from),
                                        .to = nic_peer(fab, (uint32_t)to),
                                        .from_incarnation =
                                            (uint64_t)emu_json_number(event, "from_incarnation", 0),
                                        .to_incarnation =
                                            (uint64_t)emu_json_number(event, "to_incarnation", 0),
                                        .at_ns = (uint64_t)emu_json_number(event, "at_ns", 0),
                                        .why = why});
    nic_step(fab);
    nic_unlock(fab);
}

/*
 * The fabric reports that no route has led to these nodes for too long. End the operations with the
 * nodes first, so that the reason is known when their groups end.
 */
static void event_nodes_partitioned(struct fabemu *fab, struct json_object *event)
{
    struct json_object *nodes = json_object_object_get(event, "nodes");

    nic_lock(fab);
    for (size_t i = 0; i < emu_json_count(nodes); i++) {
        uint32_t node = node_of(fab, json_object_get_int64(emu_json_at(nodes, i)));

        if (node != FABEMU_ANY_NODE)
            nic_peer_partitioned(fab, nic_peer(fab, node));
    }
    event_groups(fab, event);
    nic_unlock(fab);
}

static void attach_event(struct fabemu *fab, const char *name, struct json_object *event)
{
    if (strcmp(name, "node_died") == 0)
        event_node_died(fab, event);
    else if (strcmp(name, "groups_broken") == 0)
        event_groups_broken(fab, event);
    else if (strcmp(name, "lost") == 0)
        event_drop(fab, event);
    else if (strcmp(name, "nodes_partitioned") == 0)
        event_nodes_partitioned(fab, event);
}

/* --- attach and detach -------------------------------------------------------------- */

static int env_decimal(const char *name)
{
    const char *text = getenv(name);
    char *end;
    long value;

    if (!text || !*text)
        return -1;
    value = strtol(text, &end, 10);
    return !*end && value >= 0 && value <= INT32_MAX ? (int)value : -1;
}

/* Return the first number that one of the variables in the list holds, or -1. */
static int first_decimal(const char *const *names)
{
    int value = -1;

    for (; *names && value < 0; names++)
        value = env_decimal(*names);
    return value;
}

/* Return the rank of this process that its MPI launcher exported, or -1. MPICH sets PMI_RANK. */
static int rank_given(void)
{
    return first_decimal(
        (const char *const[]){"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", NULL});
}

/* Return the number of processes of the job that the MPI launcher exported, or -1. */
static int ranks_given(void)
{
    return first_decimal((const char *const[]){"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", NULL});
}

/* Return the number or name of the node that the user has requested, or NULL. */
static const char *node_given(void)
{
    const char *node = getenv("FABEMU_NODE");

    return node && *node ? node : NULL;
}

/*
 * Return whether to start the thread. It never runs in simulated time, where the times of all steps
 * must not depend on the host's scheduling.
 */
static bool thread_wanted(const struct fabemu *fab)
{
    const char *text = getenv("FABEMU_ADAPTER_THREAD");

    return !fab->simulated && (!text || strcmp(text, "0") != 0);
}

/*
 * Set *ret to the traffic class that the user has requested, or to EMU_TCLASSES if there is none.
 * Errors: -EINVAL.
 */
static int tclass_given(unsigned *ret)
{
    static const char *const names[] = {[FABEMU_TCLASS_DEFAULT] = "default",
                                        [FABEMU_TCLASS_BULK] = "bulk",
                                        [FABEMU_TCLASS_LATENCY] = "latency"};
    const char *text = getenv("FABEMU_TCLASS");

    static_assert(sizeof names / sizeof names[0] == EMU_TCLASSES, "a name for each class");
    *ret = 0;
    while (text && *text && *ret < EMU_TCLASSES && strcmp(text, names[*ret]) != 0)
        ++*ret;
    if (!text || !*text)
        *ret = EMU_TCLASSES;
    else if (*ret == EMU_TCLASSES)
        return nic_fail(-EINVAL, "FABEMU_TCLASS is '%.40s': it must be default, bulk or latency",
                        text);
    return 0;
}

static_assert(FABEMU_TCLASS_DEFAULT == EMU_TCLASS_DEFAULT &&
                  FABEMU_TCLASS_BULK == EMU_TCLASS_BULK &&
                  FABEMU_TCLASS_LATENCY == EMU_TCLASS_LATENCY,
              "same values");

static void tclass_set(struct fabemu *fab, unsigned tclass)
{
    atomic_store_explicit(&fab->hostif.shared->tclass, tclass, memory_order_relaxed);
}

int fabemu_set_tclass(struct fabemu *fab, unsigned tclass)
{
    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    if (tclass >= EMU_TCLASSES)
        return nic_fail(-EINVAL, "there is no traffic class %u", tclass);
    if (!fab->tclass_given)
        tclass_set(fab, tclass);
    return 0;
}

/*
 * Clock virtual: the third descriptor is the file of calls, because this clock has no multicast
 * buffers.
 */
static int compute_open(struct fabemu *fab, struct emu_hostif_fds *fds, int rank)
{
    int calls_fd = fds->mcast_buf, err;

    fds->mcast_buf = -1;
    fab->sim.compute.rank = rank;
    err = nic_compute_open(fab, calls_fd);
    if (!err)
        return 0;
    nic_compute_close(fab);
    fab->hostif.bell = -1; /* the caller still owns it */
    nic_close(fab);
    return nic_fail(err, "cannot measure or record what the program computes: %s%s", strerror(-err),
                    nic_remedy(err));
}

static int fail_to_map(int err)
{
    return nic_fail(err,
                    err == -EPROTO
                        ? "the fabric's host interface does not fit this library (%s): use the "
                          "libfabemu that came with this fabemu%s"
                        : "cannot map the fabric's host interface: %s%s",
                    strerror(-err), nic_remedy(err));
}

static int attach_new(struct fabemu **ret, const char *path)
{
    struct nic_control *control;
    struct fabemu_info info;
    struct fabemu *fab;
    struct emu_hostif_fds fds;
    const struct nic_job job = {.node = node_given(), .rank = rank_given(), .ranks = ranks_given()};
    unsigned tclass;
    int err;

    err = tclass_given(&tclass);
    if (!err)
        err = nic_check_environment();
    if (!err)
        err = nic_control_attach(&control, path, &job, &info, &fds);
    if (err)
        return err;
    err = nic_open(&fab, &fds, &info);
    close(fds.memory);
    if (err)
        err = fail_to_map(err);
    else if (fab->simulated)
        err = compute_open(fab, &fds, job.rank);
    if (fds.mcast_buf >= 0)
        close(fds.mcast_buf);
    if (err) {
        close(fds.bell);
        nic_control_detach(control, 0);
        return err;
    }
    fab->control = control;
    fab->rank = job.rank;
    fab->tclass_given = tclass < EMU_TCLASSES;
    if (fab->tclass_given)
        tclass_set(fab, tclass);
    fab->other_session = nic_control_in_other_session(control);
    fab->path = strdup(path);
    err = fab->path ? 0 : -ENOMEM;
    nic_sim_begin(fab);
    if (!err)
        err = nic_control_watch(control, fab, attach_event);
    if (!err && thread_wanted(fab))
        err = nic_thread_start(&fab->thread, fab);
    if (err) {
        nic_control_detach(control, 0);
        nic_sim_end(fab);
        nic_compute_close(fab);
        nic_close(fab);
        return nic_fail(err, "cannot start the adapter's threads: %s%s", strerror(-err),
                        nic_remedy(err));
    }
    *ret = fab;
    return 0;
}

void fabemu_socket(const char *path, char *ret, size_t bytes)
{
    const char *given = path ? path : getenv("FABEMU_SOCKET");
    const char *at = given ? strstr(given, "%h") : NULL;
    char name[256] = "";

    if (at && gethostname(name, sizeof name - 1) == 0)
        snprintf(ret, bytes, "%.*s%.32s%s", (int)(at - given), given, name, at + 2);
    else
        snprintf(ret, bytes, "%s", given ? given : "");
}

int fabemu_attach(struct fabemu **ret, const char *socket_path)
{
    char path[PATH_BYTES];
    struct fabemu *fab;
    int err = 0;

    fabemu_socket(socket_path, path, sizeof path);
    if (!*path)
        return nic_fail(-ENOENT, "no fabric is named: start the program with `fabemu run`, or set "
                                 "FABEMU_SOCKET to the socket of a fabric that is up");
    pthread_once(&registry_once, registry_init);
    pthread_mutex_lock(&registry_lock);
    for (fab = registry; fab; fab = fab->next)
        if (strcmp(fab->path, path) == 0)
            break;
    if (!fab) {
        err = attach_new(&fab, path);
        if (!err) {
            fab->next = registry;
            registry = fab;
        }
    }
    if (!err) {
        fab->refs++;
        *ret = fab;
    }
    pthread_mutex_unlock(&registry_lock);
    return err;
}

uint32_t fabemu_uses(struct fabemu *fab)
{
    uint32_t refs;

    pthread_mutex_lock(&registry_lock);
    refs = fab->refs;
    pthread_mutex_unlock(&registry_lock);
    return refs;
}

int fabemu_outside(struct fabemu *fab, const char *why)
{
    struct json_object *request, *reply = NULL;
    int err;

    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    request = json_object_new_object();
    json_object_object_add(request, "cmd", json_object_new_string("outside"));
    json_object_object_add(request, "why", json_object_new_string(why));
    err = nic_control_request(fab->control, request, &reply);
    json_object_put(reply);
    return err;
}

int fabemu_refused(const char *what)
{
    struct json_object *request;
    char path[PATH_BYTES];
    int rank = rank_given();

    fabemu_socket(NULL, path, sizeof path);
    if (!*path)
        return -ENOENT;
    request = json_object_new_object();
    json_object_object_add(request, "cmd", json_object_new_string("refused"));
    json_object_object_add(request, "what", json_object_new_string(what));
    if (rank >= 0)
        json_object_object_add(request, "rank", json_object_new_int(rank));
    return nic_control_notify(path, request);
}

void fabemu_detach(struct fabemu *fab)
{
    static const struct emu_call end = {.kind = EMU_CALL_END};
    uint32_t disconnects_unconfirmed;
    bool last;

    if (fab->pid != getpid())
        return; /* a forked child: the adapter belongs to its parent */
    pthread_mutex_lock(&registry_lock);
    last = --fab->refs == 0;
    if (last) {
        struct fabemu **at = &registry;

        while (*at != fab)
            at = &(*at)->next;
        *at = fab->next;
    }
    pthread_mutex_unlock(&registry_lock);
    if (!last)
        return;
    nic_call_begin(fab, &end);
    nic_call_end(fab, &end, true);
    nic_sim_settle(fab);
    nic_compute_close(fab);
    disconnects_unconfirmed = nic_leave(fab, fab->leave_limit_ns);
    nic_lock(fab);
    /* from now on the fabric may deliver segments for a later process of this node */
    emu_hostif_nic_leave(&fab->hostif);
    nic_unlock(fab);
    /*
     * Stop the adapter's thread only after the detach. At the detach, the fabric reads how long
     * each thread of this process has waited for a core, which is impossible for a thread that has
     * ended.
     */
    nic_control_detach(fab->control, disconnects_unconfirmed);
    nic_sim_end(fab);
    nic_thread_stop(fab->thread);
    nic_close(fab);
}
