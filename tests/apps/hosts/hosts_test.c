/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts_test.c - one governs, the others obey: processes of several hosts, their groups and their
 * ends, by the control channel alone. No segment passes.
 *
 * Each host is a fabric of the whole network with a thread that serves it. Its processes are
 * connections of this program.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/daemon/conn.h"
#include "apps/daemon/daemon.h"
#include "apps/fabric/internal.h"
#include "apps/hosts/hosts.h"
#include "emu/edge/edge.h"
#include "emu/edge/pending.h"
#include "emu/fault/fault.h"
#include "emu/now.h"
#include "tests/test.h"
#include "tests/world/world.h"

#define PATIENCE_MS 30000
#define STOPPED_MS  100
#define HOSTS       3
#define NODES       9

static const char *const names[HOSTS] = {"red", "green", "blue"};

#define ENDS_MAX 64

struct dumb_link {
    struct emu_dev dev;
    struct emu_tx tx[ENDS_MAX];
    struct emu_rx rx[ENDS_MAX];
    uint32_t ends;
};

struct node_host {
    struct dumb_link link;
    struct fabric *fabric;
    struct fabric_config config;
    struct fabric_hosts hosts;
    int listen_fd, stop_fd;
    struct conn owner; /* to the supervisor, which this test is */
    int owner_fd;
    int control;              /* that it was given */
    struct hosts_link linked; /* a host link that is watched */
    char path[108];
    pthread_t thread;
    int end;
    bool ended;
};

static struct rig {
    struct topo_graph *graph;
    uint32_t *of; /* by switch */
    struct node_host host[HOSTS];
    int control[HOSTS]; /* the governor's ends */
    int tap[HOSTS];     /* a copy of those, to close or to lie */
    struct hosts_config hosts;
    const char *profile;
    int link_end; /* the other end of what host 1 watches: its link to host 2; -1: none */
    char dir[64];
} rig;

static void *governs(void *arg)
{
    struct node_host *host = arg;
    struct daemon_config config = {.fabric = &host->config,
                                   .listen_fd = host->listen_fd,
                                   .signal_fd = host->stop_fd,
                                   .owner_fd = host->owner_fd,
                                   .owner = getpid(),
                                   .events_fd = -1,
                                   .record_fd = -1,
                                   .hosts = &rig.hosts};
    char error[256] = "";

    host->end = daemon_serve(host->fabric, &config, error, sizeof error);
    if (*error)
        printf("\n    %s\n    ", error);
    return NULL;
}

static void *obeys(void *arg)
{
    struct node_host *host = arg;
    const struct obey_config config = {.graph = rig.graph,
                                       .control = host->control,
                                       .listen_fd = host->listen_fd,
                                       .signal_fd = host->stop_fd,
                                       .owner_fd = host->owner_fd,
                                       .start_ms = PATIENCE_MS,
                                       .link = &host->linked,
                                       .links = host->linked.of,
                                       .stopped_ms = STOPPED_MS};

    host->end = obey_serve(host->fabric, &config);
    return NULL;
}

static int listens(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    CU_ASSERT_EQUAL_FATAL(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    CU_ASSERT_EQUAL_FATAL(listen(fd, 64), 0);
    return fd;
}

/* --- host links that carry nothing ------------------------------------------------------ */

static uint32_t dumb_step(struct emu_dev *dev, uint64_t until_ps)
{
    (void)until_ps;
    emu_dev_rest(dev, EMU_NEVER);
    return 0;
}

static int dumb_create(void *ctx, uint32_t i, struct emu_worker *worker)
{
    struct dumb_link *dumb = ctx;

    (void)i;
    emu_dev_init(&dumb->dev, worker, dumb_step);
    return 0;
}

static int dumb_join(void *ctx, const struct fabric_crossing *crossing,
                     const struct fabric_crossing_end *here, uint32_t credits,
                     const struct emu_profile *profile)
{
    struct dumb_link *dumb = ctx;
    uint32_t i = dumb->ends++;
    int err = i < ENDS_MAX ? 0 : -ENOSPC;

    (void)crossing;
    if (!err)
        err = emu_link_join(here->tx, here->dev, here->port, &dumb->rx[i], &dumb->dev, 0, credits,
                            profile);
    return err ? err
               : emu_link_join(&dumb->tx[i], &dumb->dev, 0, here->rx, here->dev, here->port,
                               credits, profile);
}

static void dumb_destroy(void *ctx)
{
    struct dumb_link *dumb = ctx;

    while (dumb->ends)
        emu_link_unjoin(&dumb->tx[--dumb->ends]);
}

static const struct fabric_crossing_ops dumb_ops = {.devices = 1,
                                                    .create = dumb_create,
                                                    .join = dumb_join,
                                                    .destroy = dumb_destroy};

static void host_make(uint32_t h)
{
    struct node_host *host = &rig.host[h];
    char error[256] = "";
    int pair[2];

    *host = (struct node_host){.control = -1};
    host->hosts = (struct fabric_hosts){
        .self = h, .count = HOSTS, .of = rig.of, .ops = &dumb_ops, .ctx = &host->link};
    host->config = (struct fabric_config){.graph = rig.graph,
                                          .threads = 1,
                                          .clock = EMU_CLOCK_RAW,
                                          .hosts = &host->hosts};
    host->config.bounds = emu_bounds_filled((struct emu_bounds){.stopped_ms = STOPPED_MS});
    world_profile(&host->config.profile, rig.profile, NULL);
    snprintf(host->config.name, sizeof host->config.name, "%s", names[h]);
    if (fabric_start(&host->fabric, &host->config, error, sizeof error))
        printf("\n    %s\n    ", error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(host->fabric);
    snprintf(host->path, sizeof host->path, "%s/%s.sock", rig.dir, names[h]);
    host->listen_fd = listens(host->path);
    host->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    conn_open(&host->owner, pair[0], CONN_REPLY_MAX);
    host->owner_fd = pair[1];
}

/* The event @name, of those that a connection is told. The caller's to put. */
static struct json_object *hears(struct conn *conn, const char *name)
{
    struct json_object *event = NULL;

    while (conn_wait(conn, &event, PATIENCE_MS) == 0) {
        if (strcmp(emu_json_text(event, "event", ""), name) == 0)
            return event;
        json_object_put(event);
    }
    printf("\n    \"%s\" was not heard\n    ", name);
    CU_FAIL_FATAL("an event");
    return NULL;
}

/* Each host has a switch with nodes, and one at the top. */
static void rig_place(const char *profile)
{
    rig = (struct rig){.graph = world_graph("kary:3,2", NODES), .profile = profile, .link_end = -1};
    rig.of = calloc(rig.graph->switches, sizeof *rig.of);
    CU_ASSERT_PTR_NOT_NULL_FATAL(rig.of);
    for (uint32_t s = 0; s < rig.graph->switches; s++)
        rig.of[s] = s % HOSTS;
    for (uint32_t n = 0; n < NODES; n++)
        rig.of[rig.graph->node[n].link[0].sw] = n / (NODES / HOSTS);
}

/* Host 1 watches its link to host 2. */
static void rig_watch(void)
{
    int pair[2];

    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    rig.link_end = pair[0];
    rig.host[1].linked = (struct hosts_link){.host = 2, .of = 1, .end_fd = pair[1]};
}

static void rig_make(const char *profile)
{
    rig_place(profile);
    snprintf(rig.dir, sizeof rig.dir, "/tmp/fabemu-hosts.XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(rig.dir));
    for (uint32_t h = 0; h < HOSTS; h++)
        host_make(h);
    for (uint32_t h = 1; h < HOSTS; h++) {
        int pair[2];

        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        rig.control[h] = pair[0];
        rig.tap[h] = fcntl(pair[1], F_DUPFD_CLOEXEC, 0);
        rig.host[h].control = pair[1];
    }
    rig.hosts = (struct hosts_config){.count = HOSTS,
                                      .control = rig.control,
                                      .name = names,
                                      .call_ms = PATIENCE_MS,
                                      .start_ms = PATIENCE_MS};
    if (strcmp(profile, "qsnet3") == 0)
        rig_watch();
}

/* From now on each host is its own thread's. */
static void rig_go(void)
{
    for (uint32_t h = 0; h < HOSTS; h++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&rig.host[h].thread, NULL, h ? obeys : governs,
                                             &rig.host[h]),
                              0);
    for (uint32_t h = 0; h < HOSTS; h++)
        json_object_put(hears(&rig.host[h].owner, "ready"));
}

static void rig_start_as(const char *profile)
{
    rig_make(profile);
    rig_go();
}

static void rig_start(void)
{
    rig_start_as("oq2004");
}

static void host_join(struct node_host *host)
{
    if (!host->ended)
        pthread_join(host->thread, NULL);
    host->ended = true;
}

/* The governor ends, and with it all. */
static void rig_end(void)
{
    eventfd_write(rig.host[0].stop_fd, 1);
    for (uint32_t h = 0; h < HOSTS; h++)
        host_join(&rig.host[h]);
}

static void rig_free(void)
{
    for (uint32_t h = 0; h < HOSTS; h++) {
        struct node_host *host = &rig.host[h];

        conn_close(&host->owner);
        close(host->listen_fd);
        close(host->stop_fd);
        if (h)
            close(rig.tap[h]);
        if (host->linked.of)
            close(host->linked.end_fd);
        unlink(host->path);
        fabric_stop(host->fabric);
    }
    rmdir(rig.dir);
    free(rig.of);
    topo_free(rig.graph);
}

/* --- processes ------------------------------------------------------------------------ */

static void connects(struct conn *conn, uint32_t h)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memcpy(to.sun_path, rig.host[h].path, sizeof rig.host[h].path);
    CU_ASSERT_EQUAL_FATAL(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    conn_open(conn, fd, CONN_REPLY_MAX);
}

static struct json_object *asks(struct conn *conn, struct json_object *request)
{
    struct json_object *reply = NULL;
    int err = conn_ask(conn, request, &reply, PATIENCE_MS);

    if (err)
        printf("\n    %s\n    ", strerror(-err));
    CU_ASSERT_EQUAL_FATAL(err, 0);
    return reply;
}

static struct json_object *command(const char *name)
{
    return json_add_text(json_object_new_object(), "cmd", name);
}

/* Attach; returns the node. */
static int64_t attaches(struct conn *conn, uint32_t h, int64_t want)
{
    struct json_object *request = json_add_number(command("attach"), "version", EMU_EDGE_VERSION);
    struct json_object *reply;
    int64_t node;

    connects(conn, h);
    json_object_object_add(request, "want", json_object_new_int64(want));
    reply = asks(conn, request);
    node = emu_json_true(reply, "ok") ? emu_json_number(reply, "node", -1) : -1;
    json_object_put(reply);
    return node;
}

/* A request with a group's number; the error. */
static int64_t of_group(struct conn *conn, const char *name, int64_t group)
{
    struct json_object *reply =
        asks(conn, json_add_number(command(name), "group", (uint64_t)group));
    int64_t err = emu_json_number(reply, "errno", 0);

    json_object_put(reply);
    return err;
}

/* Make a group; its number, or -errno. */
static int64_t makes(struct conn *conn, const uint32_t *nodes, uint32_t count)
{
    struct json_object *request = command("group_create"), *list = json_object_new_array(), *reply;
    int64_t ret;

    for (uint32_t i = 0; i < count; i++)
        json_object_array_add(list, json_object_new_int64(nodes[i]));
    json_object_object_add(request, "nodes", list);
    reply = asks(conn, request);
    ret = emu_json_true(reply, "ok") ? emu_json_number(reply, "group", -1)
                                     : -emu_json_number(reply, "errno", 0);
    json_object_put(reply);
    return ret;
}

/* --- what all replicas must agree on; nobody serves them any more ------------------------ */

static void replicas_agree(void)
{
    const struct fabric *first = rig.host[0].fabric;

    for (uint32_t h = 1; h < HOSTS; h++) {
        const struct fabric *fabric = rig.host[h].fabric;

        for (uint32_t n = 0; n < NODES; n++)
            CU_ASSERT_EQUAL(fabric->seat[n], first->seat[n]);
        CU_ASSERT_EQUAL(fabric->groups, first->groups);
        for (uint32_t slot = 0; slot < FABRIC_GROUPS_MAX; slot++) {
            CU_ASSERT_EQUAL(!fabric->group[slot], !first->group[slot]);
            if (fabric->group[slot] && first->group[slot])
                CU_ASSERT_EQUAL(fabric->group[slot]->members, first->group[slot]->members);
        }
        CU_ASSERT_EQUAL(memcmp(fabric->states, first->states,
                               rig.graph->switches * sizeof *first->states),
                        0);
        CU_ASSERT_EQUAL(memcmp(fabric->tree_load, first->tree_load,
                               rig.graph->switches * sizeof *first->tree_load),
                        0);
    }
}

/* --- tests ------------------------------------------------------------------------------ */

static void processes__get_nodes_of_their_own_host(void)
{
    struct conn conn[NODES + 1];
    bool taken[NODES] = {false};

    rig_start();
    for (uint32_t i = 0; i < NODES; i++) {
        int64_t node = attaches(&conn[i], i % HOSTS, i == 0 ? 8 : i == 1 ? 5 : -1);

        CU_ASSERT_TRUE_FATAL(node >= 0 && node < NODES);
        CU_ASSERT_EQUAL(node / (NODES / HOSTS), i % HOSTS);
        CU_ASSERT_FALSE(taken[node]);
        taken[node] = true;
        if (i == 1)
            CU_ASSERT_EQUAL(node, 5);
    }
    CU_ASSERT_EQUAL(attaches(&conn[NODES], 2, -1), -1); /* its host is full */
    conn_close(&conn[4]);
    CU_ASSERT_EQUAL(attaches(&conn[4], 2, -1), -1); /* that one was on another */
    for (uint32_t i = 0; i <= NODES; i++)
        conn_close(&conn[i]);
    rig_end();
    CU_ASSERT_EQUAL(rig.host[0].end, DAEMON_SHUTDOWN);
    CU_ASSERT_EQUAL(rig.host[1].end, OBEY_ENDED);
    CU_ASSERT_EQUAL(rig.host[2].end, OBEY_ENDED);
    rig_free();
}

static void group__is_made_everywhere_and_breaks_everywhere(void)
{
    struct conn conn[3];
    uint32_t nodes[3];
    struct json_object *event;
    int64_t group;

    rig_start();
    for (uint32_t h = 0; h < HOSTS; h++)
        nodes[h] = (uint32_t)attaches(&conn[h], h, -1);
    group = makes(&conn[1], nodes, 3);
    CU_ASSERT_TRUE_FATAL(group >= 0);
    for (uint32_t h = 0; h < HOSTS; h++)
        CU_ASSERT_EQUAL(of_group(&conn[h], "group_join", group), 0);
    conn_close(&conn[2]); /* it dies */
    for (uint32_t h = 0; h < 2; h++) {
        event = hears(&conn[h], "node_died");
        CU_ASSERT_EQUAL(emu_json_number(event, "node", -1), nodes[2]);
        CU_ASSERT_EQUAL(json_object_array_length(json_object_object_get(event, "groups")), 1);
        json_object_put(event);
        CU_ASSERT_EQUAL(of_group(&conn[h], "group_leave", group), 0);
    }
    event = hears(&rig.host[0].owner, "node_died");
    CU_ASSERT_EQUAL(emu_json_number(event, "pid", 0), getpid());
    json_object_put(event);
    rig_end();
    CU_ASSERT_EQUAL(rig.host[0].fabric->groups, 0);
    replicas_agree();
    conn_close(&conn[0]);
    conn_close(&conn[1]);
    rig_free();
}

/* Processes come and go and make groups at random; then all replicas are the same. */
static void replicas__agree_whatever_was_asked(void)
{
    struct conn conn[NODES];
    int64_t node[NODES], held[64];
    uint32_t groups = 0;
    uint64_t random = test_seed();

    rig_start();
    for (uint32_t i = 0; i < NODES; i++)
        node[i] = attaches(&conn[i], i % HOSTS, -1);
    for (uint32_t turn = 0; turn < 300; turn++) {
        uint32_t who = (uint32_t)test_draw(&random, 0, NODES - 1);
        uint32_t all[NODES], count = (uint32_t)test_draw(&random, 2, NODES);
        uint32_t what = (uint32_t)test_draw(&random, 0, 9);

        if (what == 0) {
            struct json_object *reply = asks(&conn[who], command("detach"));

            json_object_put(reply);
            conn_close(&conn[who]);
            node[who] = attaches(&conn[who], who % HOSTS, node[who]);
            CU_ASSERT_TRUE_FATAL(node[who] >= 0);
        } else if (what < 5 && groups < 64) {
            for (uint32_t i = 0; i < NODES; i++)
                all[i] = (uint32_t)node[i];
            test_shuffle(&random, all, NODES, count);
            held[groups] = makes(&conn[who], all, count); /* not a member: refused */
            groups += held[groups] >= 0;
        } else if (groups) {
            uint32_t at = (uint32_t)test_draw(&random, 0, groups - 1);

            of_group(&conn[who], what < 7 ? "group_join" : "group_leave", held[at]);
            if (what == 9)
                held[at] = held[--groups];
        }
    }
    rig_end();
    replicas_agree();
    for (uint32_t i = 0; i < NODES; i++)
        conn_close(&conn[i]);
    rig_free();
}

static void report__adds_up_all_hosts(void)
{
    struct conn conn;
    struct json_object *reply, *hosts;

    rig_start();
    CU_ASSERT_TRUE_FATAL(attaches(&conn, 1, -1) >= 0);
    reply = asks(&conn, command("report")); /* asked on a host that does not govern */
    CU_ASSERT_TRUE(emu_json_true(reply, "ok"));
    hosts = json_object_object_get(json_object_object_get(reply, "report"), "hosts");
    CU_ASSERT_EQUAL_FATAL(json_object_array_length(hosts), HOSTS);
    for (uint32_t h = 0; h < HOSTS; h++) {
        struct json_object *one = json_object_array_get_idx(hosts, h);

        CU_ASSERT_STRING_EQUAL(emu_json_text(one, "host", ""), names[h]);
        CU_ASSERT_STRING_EQUAL(emu_json_text(one, "state", ""), h ? "up" : "governs");
        CU_ASSERT_EQUAL(emu_json_number(one, "nodes", 0), NODES / HOSTS);
        CU_ASSERT_EQUAL(emu_json_number(one, "attached", -1), h == 1);
    }
    json_object_put(reply);
    conn_close(&conn);
    rig_end();
    rig_free();
}

/* --- standstill -------------------------------------------------------------------------- */

#define S_NS UINT64_C(1000000000)

/* As its library would: it waits in the first barrier of @group, or has not begun any. */
static void shows(int64_t node, int64_t group, bool in_it)
{
    struct emu_edge *edge = rig.host[node / (NODES / HOSTS)].fabric->edge[node];
    struct emu_pending pending = {.written_ns = emu_now_ns(),
                                  .quiet_ns = emu_now_ns() - 9 * S_NS,
                                  .waits = in_it,
                                  .groups = 1,
                                  .clash.node = EMU_PENDING_ANY};

    CU_ASSERT_PTR_NOT_NULL_FATAL(edge);
    pending.group[0] = (struct emu_pending_group){
        .id = (uint32_t)group,
        .begun = in_it,
        .number = in_it,
        .since_ns = in_it ? emu_now_ns() - 5 * S_NS : 0,
        .what = {.kind = EMU_BARRIER, .root = EMU_PENDING_ANY},
        .name = "ALL",
    };
    emu_pending_write(&edge->shared->pending, &pending);
}

static struct json_object *field(struct json_object *of, const char *name)
{
    struct json_object *ret = json_object_object_get(of, name);

    CU_ASSERT_PTR_NOT_NULL_FATAL(ret);
    return ret;
}

/* Asked on a host that does not govern, of processes on all of them. */
static void standstill__is_that_of_all_hosts(void)
{
    struct conn conn[HOSTS];
    struct json_object *reply, *waits, *missing, *attached;
    uint32_t nodes[HOSTS];
    int64_t group;

    rig_start();
    for (uint32_t h = 0; h < HOSTS; h++)
        nodes[h] = (uint32_t)attaches(&conn[h], h, -1);
    group = makes(&conn[0], nodes, HOSTS);
    CU_ASSERT_TRUE_FATAL(group >= 0);
    for (uint32_t h = 0; h < HOSTS; h++) {
        CU_ASSERT_EQUAL(of_group(&conn[h], "group_join", group), 0);
        shows(nodes[h], group, h != 2);
    }
    reply = asks(&conn[1], command("status"));
    attached = field(reply, "attached");
    CU_ASSERT_EQUAL(json_object_array_length(attached), HOSTS);
    for (uint32_t h = 0; h < HOSTS; h++) {
        struct json_object *one = json_object_array_get_idx(attached, h);

        CU_ASSERT_EQUAL(emu_json_number(one, "node", -1), nodes[h]);
        CU_ASSERT_STRING_EQUAL(emu_json_text(one, "host", ""), names[h]);
        CU_ASSERT_EQUAL(emu_json_true(one, "waits"), h != 2);
    }
    CU_ASSERT_TRUE(emu_json_number(field(reply, "standstill"), "for_ns", 0) >= 9 * (int64_t)S_NS);
    waits = field(field(reply, "standstill"), "collectives");
    CU_ASSERT_EQUAL_FATAL(json_object_array_length(waits), 1);
    waits = json_object_array_get_idx(waits, 0);
    CU_ASSERT_STRING_EQUAL(emu_json_text(waits, "name", ""), "ALL");
    missing = field(waits, "missing"); /* no segment has passed: nobody's part has come */
    CU_ASSERT_EQUAL_FATAL(json_object_array_length(missing), HOSTS);
    for (uint32_t h = 0; h < HOSTS; h++) {
        struct json_object *one = json_object_array_get_idx(missing, h);

        CU_ASSERT_EQUAL(emu_json_number(one, "node", -1), nodes[h]);
        CU_ASSERT_EQUAL(emu_json_true(one, "entered"), h != 2);
        CU_ASSERT_EQUAL(emu_json_number(one, "switch", -1), /* that host's to know */
                        rig.graph->node[nodes[h]].link[0].sw);
    }
    json_object_put(reply);
    for (uint32_t h = 0; h < HOSTS; h++)
        conn_close(&conn[h]);
    rig_end();
    rig_free();
}

/* Whoever comes after a process does not inherit what it said. */
static void standstill__of_who_has_left_is_forgotten(void)
{
    struct conn conn[2];
    struct json_object *reply, *one;
    int64_t node;

    rig_start();
    node = attaches(&conn[1], 2, -1);
    shows(node, 1, true);
    connects(&conn[0], 0);
    reply = asks(&conn[0], command("status"));
    one = json_object_array_get_idx(field(reply, "attached"), 0);
    CU_ASSERT_TRUE(emu_json_true(one, "waits"));
    json_object_put(reply);
    json_object_put(asks(&conn[1], command("detach")));
    conn_close(&conn[1]);
    CU_ASSERT_EQUAL_FATAL(attaches(&conn[1], 2, node), node);
    reply = asks(&conn[0], command("status"));
    one = json_object_array_get_idx(field(reply, "attached"), 0);
    CU_ASSERT_EQUAL(emu_json_number(one, "node", -1), node);
    CU_ASSERT_PTR_NULL(json_object_object_get(one, "waits"));
    json_object_put(reply);
    conn_close(&conn[0]);
    conn_close(&conn[1]);
    rig_end();
    rig_free();
}

/* --- audit ------------------------------------------------------------------------------- */

static void check__is_of_all_hosts_and_names_them(void)
{
    struct fabric *blue;
    struct conn conn;
    struct json_object *reply, *check;
    uint32_t crossings = 0, sw;

    rig_start();
    connects(&conn, 1);
    reply = asks(&conn, command("check"));
    check = field(reply, "check");
    CU_ASSERT_TRUE(emu_json_true(check, "right"));
    CU_ASSERT_EQUAL(emu_json_number(check, "switches", 0), rig.graph->switches);
    CU_ASSERT_EQUAL(emu_json_number(check, "cables", 0), fabric_cable_count(rig.host[0].fabric));
    for (uint32_t h = 0; h < HOSTS; h++) /* each is counted at both ends */
        crossings += fabric_crossings(&rig.host[h].config, TOPO_NONE);
    CU_ASSERT_TRUE(crossings > 0);
    CU_ASSERT_EQUAL(emu_json_number(check, "between_hosts", 0), crossings / 2);
    json_object_put(reply);
    conn_close(&conn);
    rig_end();
    rig_free();

    rig_make("oq2004");
    blue = rig.host[2].fabric;
    sw = rig.graph->node[NODES - 1].link[0].sw;
    blue->states[sw]++; /* set aside there for no group */
    rig_go();
    connects(&conn, 1);
    reply = asks(&conn, command("check"));
    check = field(reply, "check");
    CU_ASSERT_EQUAL(emu_json_number(check, "found", 0), 1);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(json_object_get_string(json_object_array_get_idx(field(check, "wrong"), 0)),
               "host blue: switch"));
    json_object_put(reply);
    conn_close(&conn);
    rig_end();
    blue->states[sw]--;
    rig_free();
}

static void host_lost__its_processes_have_died(void)
{
    struct conn conn[HOSTS];
    struct json_object *event;
    int64_t node[HOSTS];

    rig_start();
    for (uint32_t h = 0; h < HOSTS; h++)
        node[h] = attaches(&conn[h], h, -1);
    shutdown(rig.tap[1], SHUT_RDWR);
    event = hears(&rig.host[0].owner, "host_lost");
    CU_ASSERT_STRING_EQUAL(emu_json_text(event, "name", ""), "green");
    json_object_put(event);
    event = hears(&conn[2], "node_died");
    CU_ASSERT_EQUAL(emu_json_number(event, "node", -1), node[1]);
    json_object_put(event);
    event = hears(&rig.host[0].owner, "node_died");
    CU_ASSERT_STRING_EQUAL(emu_json_text(event, "how", ""), "its host green was lost");
    json_object_put(event);
    host_join(&rig.host[1]);
    CU_ASSERT_EQUAL(rig.host[1].end, OBEY_LOST);
    event = hears(&conn[1], "shutdown"); /* there, too, all hear of it */
    json_object_put(event);
    CU_ASSERT_TRUE(makes(&conn[0], (const uint32_t[]){(uint32_t)node[0], (uint32_t)node[2]}, 2) >=
                   0);
    for (uint32_t h = 0; h < HOSTS; h++)
        conn_close(&conn[h]);
    rig_end();
    rig_free();
}

/* --- what hosts tell of others ------------------------------------------------------------ */

static void tables_agree(void)
{
    const struct topo_graph *first = rig.host[0].fabric->links.routed;

    for (uint32_t h = 1; h < HOSTS; h++)
        for (uint32_t s = 0; s < first->switches; s++)
            for (uint32_t n = 0; n < NODES; n++)
                CU_ASSERT_EQUAL(topo_route_ports(&rig.host[h].fabric->links.routed->sw[s].route, n),
                                topo_route_ports(&first->sw[s].route, n));
}

/* Does any table of the governor's name a cable between hosts @a and @b? */
static bool tables_cross(uint32_t a, uint32_t b)
{
    const struct topo_graph *routed = rig.host[0].fabric->links.routed;
    bool cross = false;

    for (uint32_t s = 0; s < routed->switches; s++)
        for (uint32_t n = 0; n < NODES; n++)
            for (uint32_t p = 0; p < routed->ports; p++) {
                const struct topo_end *end = &rig.graph->sw[s].end[p];

                if (topo_route_ports(&routed->sw[s].route, n) >> p & 1 &&
                    end->kind == TOPO_END_SWITCH)
                    cross = cross || (rig.of[s] == a && rig.of[end->id] == b) ||
                            (rig.of[s] == b && rig.of[end->id] == a);
            }
    return cross;
}

static void link_lost__all_go_round_it(void)
{
    struct conn conn[HOSTS], heard;
    uint32_t nodes[HOSTS];

    rig_start_as("qsnet3");
    for (uint32_t h = 0; h < HOSTS; h++)
        nodes[h] = (uint32_t)attaches(&conn[h], h, -1);
    connects(&heard, 0);
    json_object_put(asks(&heard, command("subscribe")));
    close(rig.link_end); /* the session has ended */
    json_object_put(hears(&heard, "host_link_lost"));
    json_object_put(hears(&heard, "tables"));
    CU_ASSERT_TRUE(makes(&conn[0], nodes, HOSTS) >= 0);
    rig_end();
    CU_ASSERT_FALSE(tables_cross(1, 2));
    CU_ASSERT_TRUE(tables_cross(0, 1));
    tables_agree();
    replicas_agree();
    for (uint32_t a = 0; a < HOSTS; a++)
        for (uint32_t b = 0; b < HOSTS; b++)
            CU_ASSERT_TRUE(fabric_reaches(rig.host[0].fabric, nodes[a], nodes[b]));
    for (uint32_t h = 0; h < HOSTS; h++)
        conn_close(&conn[h]);
    conn_close(&heard);
    rig_free();
}

/* --- faults --------------------------------------------------------------------------------- */

/* Ask for a fault; its number. */
static int64_t befalls(struct conn *conn, const char *text)
{
    struct json_object *reply = asks(conn, json_add_text(command("fault"), "fault", text));
    int64_t id = emu_json_number(reply, "fault", 0);

    if (!id)
        printf("\n    %s: %s\n    ", text, emu_json_text(reply, "error", ""));
    CU_ASSERT_TRUE_FATAL(id > 0);
    json_object_put(reply);
    return id;
}

static void clears(struct conn *conn, int64_t id)
{
    struct json_object *reply =
        asks(conn, json_add_number(command("fault_clear"), "fault", (uint64_t)id));

    CU_ASSERT_TRUE(emu_json_true(reply, "ok"));
    json_object_put(reply);
}

/* A cable between switches of hosts @a and @b, as "link=S:P". */
static uint32_t cable_between(uint32_t a, uint32_t b, char text[static 32])
{
    const struct fabric *fabric = rig.host[0].fabric;

    for (uint32_t i = 0; i < fabric_cable_count(fabric); i++) {
        const struct fabric_cable *cable = fabric_cable(fabric, i);

        if (cable->kind != TOPO_END_SWITCH)
            continue;
        if ((rig.of[cable->at.sw] == a && rig.of[cable->far.sw] == b) ||
            (rig.of[cable->at.sw] == b && rig.of[cable->far.sw] == a)) {
            snprintf(text, 32, "link=%u:%u", cable->at.sw, cable->at.port);
            return i;
        }
    }
    CU_FAIL_FATAL("there is no such cable");
    return 0;
}

/* "link" with this state is heard. */
static void hears_link(struct conn *conn, const char *state)
{
    for (;;) {
        struct json_object *event = hears(conn, "link");
        bool is_it = strcmp(emu_json_text(event, "state", ""), state) == 0;

        json_object_put(event);
        if (is_it)
            return;
    }
}

/* All replicas, which nobody serves any more, know the same links to be out. Returns how many. */
static uint32_t links_agree(void)
{
    const struct fabric *first = rig.host[0].fabric;
    uint32_t out = 0;

    for (uint32_t i = 0; i < fabric_cable_count(first); i++) {
        out += fabric_link_is_out(first, i);
        for (uint32_t h = 1; h < HOSTS; h++)
            CU_ASSERT_EQUAL(fabric_link_is_out(rig.host[h].fabric, i),
                            fabric_link_is_out(first, i));
    }
    return out;
}

/* Rules stood on every cable, each at its receiving end, and all were taken back. */
static void fault__stands_where_the_device_is(void)
{
    struct conn conn;

    rig_start_as("qsnet3");
    CU_ASSERT_EQUAL(attaches(&conn, 1, 4), 4);
    befalls(&conn, "bit-errors link=any rate=0.5");
    befalls(&conn, "stuck-port random=50%");
    befalls(&conn, "on=multicast:3 loss link=any rate=0.5");
    befalls(&conn, "at=1000s node-freeze node=4");
    conn_close(&conn);
    rig_end();
    for (uint32_t h = 0; h < HOSTS; h++)
        for (uint32_t w = 0; w < 2 * fabric_cable_count(rig.host[h].fabric); w++) {
            const struct fabric *fabric = rig.host[h].fabric;
            const struct emu_faults *faults = fabric_faults_of(fabric, w / 2, w % 2);

            CU_ASSERT_EQUAL(faults != NULL, fabric_cable_ends_here(fabric, w / 2, w % 2));
            CU_ASSERT_EQUAL(faults ? faults->rules : 0, 0);
            CU_ASSERT_FALSE(fabric_port_is_stuck(fabric, w / 2, w % 2));
        }
    rig_free();
}

/* No group has states in any switch of any host; then all may again. */
static void fault__of_combine_units_is_known_to_all(void)
{
    struct conn conn[HOSTS];
    uint32_t nodes[HOSTS];
    int64_t fault, group;

    rig_start();
    for (uint32_t h = 0; h < HOSTS; h++)
        nodes[h] = (uint32_t)attaches(&conn[h], h, -1);
    fault = befalls(&conn[2], "combine-exhaust switch=any");
    CU_ASSERT_TRUE(makes(&conn[0], nodes, HOSTS) < 0);
    clears(&conn[1], fault);
    befalls(&conn[2], "combine-stall switch=any");
    befalls(&conn[2], "combine-flip switch=any rate=0.1");
    group = makes(&conn[0], nodes, HOSTS);
    CU_ASSERT_TRUE(group >= 0);
    rig_end();
    for (uint32_t h = 0; h < HOSTS; h++)
        for (uint32_t s = 0; s < rig.graph->switches; s++) {
            CU_ASSERT_FALSE(rig.host[h].fabric->combine[s].exhausted);
            CU_ASSERT_EQUAL(fabric_combine_faults_of(rig.host[h].fabric, s) != NULL,
                            rig.of[s] == h);
        }
    replicas_agree();
    for (uint32_t h = 0; h < HOSTS; h++)
        conn_close(&conn[h]);
    rig_free();
}

/* Links of all hosts, and between any two, go down and come up: one manager sees to all. */
static void link_down__is_that_of_all_hosts(void)
{
    struct conn conn, heard;
    char text[80], where[32];
    int64_t fault;

    rig_start_as("qsnet3");
    CU_ASSERT_EQUAL(attaches(&conn, 1, 4), 4);
    connects(&heard, 0);
    json_object_put(asks(&heard, command("subscribe")));
    for (uint32_t a = 0; a < HOSTS; a++)
        for (uint32_t b = a; b < HOSTS; b++) {
            cable_between(a, b, where);
            snprintf(text, sizeof text, "link-down %s", where);
            fault = befalls(&conn, text);
            json_object_put(hears(&heard, "tables"));
            clears(&conn, fault);
            hears_link(&heard, "up");
            json_object_put(hears(&heard, "tables"));
        }
    conn_close(&heard);
    conn_close(&conn);
    rig_end();
    CU_ASSERT_EQUAL(links_agree(), 0);
    tables_agree();
    for (uint32_t h = 0; h < HOSTS; h++)
        for (uint32_t s = 0; s < rig.graph->switches; s++)
            for (uint32_t n = 0; n < NODES; n++)
                CU_ASSERT_EQUAL(topo_route_ports(&rig.host[h].fabric->links.routed->sw[s].route, n),
                                topo_route_ports(&rig.graph->sw[s].route, n));
    rig_free();
}

/* Whatever befalls at random times: replicas are the same, with links out or not. */
static void faults__leave_replicas_alike(void)
{
    static const char *const texts[] = {"link-down random",
                                        "link-flap random=2 down=3ms up=3ms",
                                        "switch-crash random",
                                        "adapter-reset random",
                                        "bit-errors link=any rate=1e-2",
                                        "partition nodes=0-2",
                                        "for=9ms stuck-port random",
                                        "link-down link=n5"};
    struct conn conn[HOSTS];
    uint32_t nodes[HOSTS], count = 0;
    uint64_t random = test_seed();
    int64_t fault[32];

    rig_start_as("qsnet3");
    for (uint32_t h = 0; h < HOSTS; h++)
        nodes[h] = (uint32_t)attaches(&conn[h], h, -1);
    for (uint32_t turn = 0; turn < 40; turn++) {
        uint32_t what = (uint32_t)test_draw(&random, 0, 11), who = turn % HOSTS;

        if (what < 8 && count < 32)
            fault[count++] = befalls(&conn[who], texts[what]);
        else if (what < 10)
            makes(&conn[who], nodes, HOSTS);
        else if (count)
            clears(&conn[who], fault[--count]);
    }
    rig_end();
    links_agree();
    tables_agree();
    replicas_agree();
    for (uint32_t h = 0; h < HOSTS; h++)
        conn_close(&conn[h]);
    rig_free();
}

/* The end of a fault does not bring back a cable whose host link is lost. */
static void fault__ends_and_the_lost_stays_lost(void)
{
    struct conn conn, heard;
    char text[80], where[32];
    int64_t fault, other;
    uint32_t cable;

    rig_start_as("qsnet3");
    CU_ASSERT_TRUE(attaches(&conn, 0, -1) >= 0);
    connects(&heard, 0);
    json_object_put(asks(&heard, command("subscribe")));
    cable = cable_between(1, 2, where);
    snprintf(text, sizeof text, "link-down %s", where);
    fault = befalls(&conn, text);
    close(rig.link_end);
    json_object_put(hears(&heard, "host_link_lost"));
    clears(&conn, fault);
    cable_between(0, 0, where);
    snprintf(text, sizeof text, "link-down %s", where);
    other = befalls(&conn, text);
    clears(&conn, other); /* its link is up later than the other would be */
    hears_link(&heard, "up");
    conn_close(&heard);
    conn_close(&conn);
    rig_end();
    for (uint32_t h = 0; h < HOSTS; h++)
        CU_ASSERT_TRUE(fabric_link_is_out(rig.host[h].fabric, cable));
    CU_ASSERT_EQUAL(links_agree(),
                    fabric_crossings_by(rig.host[0].fabric, 1, 2, 0, 1, (bool[1024]){false}));
    rig_free();
}

static bool has_number(struct json_object *list, int64_t number)
{
    for (size_t i = 0; i < json_object_array_length(list); i++)
        if (json_object_get_int64(json_object_array_get_idx(list, i)) == number)
            return true;
    return false;
}

/* Without acknowledgments: some of what 0 and 2 send each other went by the top switch on 1. */
static void host_lost__those_who_sent_by_it_are_told(void)
{
    struct conn conn[HOSTS];
    int64_t node[HOSTS];

    rig_start();
    for (uint32_t h = 0; h < HOSTS; h++)
        node[h] = attaches(&conn[h], h, -1);
    shutdown(rig.tap[1], SHUT_RDWR);
    for (uint32_t h = 0; h < HOSTS; h += 2) {
        struct json_object *event = hears(&conn[h], "nodes_parted");
        struct json_object *list = json_object_object_get(event, "nodes");

        CU_ASSERT_TRUE(has_number(list, node[2 - h]));
        json_object_put(event);
    }
    for (uint32_t h = 0; h < HOSTS; h++)
        conn_close(&conn[h]);
    host_join(&rig.host[1]);
    rig_end();
    CU_ASSERT_TRUE(fabric_reaches(rig.host[0].fabric, 0, 1)); /* by one switch, which is here */
    rig_free();
}

static void says(uint32_t h, const char *line)
{
    CU_ASSERT_EQUAL(send(rig.tap[h], line, strlen(line), MSG_NOSIGNAL), (ssize_t)strlen(line));
}

static void host__speaks_of_its_own(void)
{
    struct json_object *event;

    rig_start();
    says(1, "{\"cut_off\":0}\n{\"cut_off\":-1}\n{\"cut_off\":900}\n");
    says(1, "{\"link_lost\":{\"host\":1,\"number\":0,\"of\":1}}\n{\"link_lost\":7}\n");
    says(1, "{\"link_lost\":{\"host\":64,\"number\":0,\"of\":1}}\n");
    says(1, "{\"link_lost\":{\"host\":2,\"number\":1,\"of\":1}}\n");
    says(1, "{\"link_lost\":{\"host\":2,\"number\":0,\"of\":0}}\n{\"cut_off\":3}\n");
    event = hears(&rig.host[0].owner, "cut_off");
    CU_ASSERT_EQUAL(emu_json_number(event, "node", -1), 3);
    json_object_put(event);
    rig_end();
    for (uint32_t a = 0; a < NODES; a++)
        CU_ASSERT_TRUE(fabric_reaches(rig.host[0].fabric, a, NODES - 1));
    rig_free();
}

/* A process of its own, attached on host 1, and stopped. */
static pid_t stopped_process(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char line[96], reply[512];
    pid_t pid;

    snprintf(line, sizeof line, "{\"cmd\":\"attach\",\"version\":%u,\"want\":-1}\n",
             EMU_EDGE_VERSION);
    memcpy(to.sun_path, rig.host[1].path, sizeof rig.host[1].path);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        if (connect(fd, (struct sockaddr *)&to, sizeof to) ||
            send(fd, line, strlen(line), MSG_NOSIGNAL) < 0 || recv(fd, reply, sizeof reply, 0) <= 0)
            _exit(EXIT_FAILURE);
        raise(SIGSTOP);
        _exit(EXIT_SUCCESS);
    }
    close(fd);
    return pid;
}

static void process__that_is_stopped_elsewhere_counts_as_dead(void)
{
    struct conn conn;
    struct json_object *event;
    pid_t pid;

    rig_start();
    CU_ASSERT_TRUE(attaches(&conn, 0, -1) >= 0);
    pid = stopped_process();
    CU_ASSERT_TRUE_FATAL(pid > 0);
    json_object_put(hears(&conn, "node_died"));
    event = hears(&rig.host[0].owner, "node_died");
    CU_ASSERT_EQUAL(emu_json_number(event, "pid", 0), pid);
    CU_ASSERT_STRING_EQUAL(emu_json_text(event, "how", ""),
                           "was stopped for too long (--bound stopped)");
    json_object_put(event);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    conn_close(&conn);
    rig_end();
    rig_free();
}

#define FAULT_CALL(call, fault, text, what)                                      \
    "{\"call\":" #call ",\"do\":\"fault\",\"fault\":" #fault ",\"text\":\"" text \
    "\",\"seed\":\"0011223344556677\",\"what\":" #what "}\n"

static const char *const nonsense[] = {
    "{\"call\":1,\"do\":\"attach\",\"node\":-7}\n",
    "{\"call\":2,\"do\":\"group\",\"nodes\":[1,99999999,-1],\"group\":3}\n",
    "{\"call\":3,\"do\":\"leave\",\"node\":5,\"group\":4000000000}\n",
    "{\"call\":4,\"do\":\"detach\",\"node\":400}\n{\"call\":5,\"do\":\"seat\",\"node\":400}\n",
    "{\"call\":6,\"do\":\"signal\",\"client\":77,\"signal\":9}\n{\"client\":5,\"line\":[]}\n",
    "{\"client\":99,\"end\":true}\n{\"call\":7,\"do\":\"what\"}\n",
    "{\"call\":8,\"do\":\"link\",\"cable\":4000}\n",
    "{\"call\":9,\"do\":\"reroute\",\"out\":[-1]}\n",
    "{\"call\":10,\"do\":\"reroute\",\"out\":7}\n",
    "{\"call\":11,\"do\":\"pending\",\"from\":-5}\n",
    "{\"call\":12,\"do\":\"pending\",\"from\":99999999999}\n",
    "{\"call\":13,\"do\":\"came\",\"group\":4000000000,\"seq\":-1}\n",
    "{\"call\":14,\"do\":\"clash\"}\n{\"call\":15,\"do\":\"stalls\",\"x\":[]}\n",
    "{\"call\":16,\"do\":\"fault\"}\n{\"call\":17,\"do\":\"taken_out\",\"cable\":4000}\n",
    "{\"call\":18,\"do\":\"fault\",\"fault\":1,\"text\":\"loss link=any\",\"seed\":\"zz\"}\n",
    /* links and processes are seen to by others; what it does is none; a switch is not there */
    FAULT_CALL(19, 1, "link-down random", 0),
    FAULT_CALL(20, 1, "stuck-port random", 9),
    FAULT_CALL(21, -1, "stuck-port random", 0),
    FAULT_CALL(22, 1, "stuck-port link=4000:1", 0),
    "{\"call\":23,\"do\":\"test\",\"cables\":[-1]}\n{\"call\":0,\"do\":\"link\",\"cable\":4000}"
    "\n",
    "{\"call\":24,\"do\":\"test\",\"cables\":[1,4000],\"packets\":7}\n",
    "{\"call\":25,\"do\":\"alone\",\"node\":400}\n",
    "{\"call\":26,\"do\":\"failed\",\"group\":-1}\n{\"call\":27,\"do\":\"hits\"}\n",
    "{\"call\":28,\"do\":\"unit_out\",\"switch\":4000}\n{\"call\":29,\"do\":\"losses\"}\n",
    "{\"call\":30,\"do\":\"look\",\"x\":1}\n",
};

static void governor__that_says_nonsense_is_lost(void)
{
    struct node_host *host = &rig.host[1];
    struct conn conn;
    int pair[2];

    rig_place("oq2004");
    snprintf(rig.dir, sizeof rig.dir, "/tmp/fabemu-hosts.XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(rig.dir));
    host_make(1);
    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    host->control = pair[1];
    pthread_create(&host->thread, NULL, obeys, host);
    conn_open(&conn, pair[0], CONN_REPLY_MAX);
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++)
        CU_ASSERT_EQUAL(send(pair[0], nonsense[i], strlen(nonsense[i]), MSG_NOSIGNAL),
                        (ssize_t)strlen(nonsense[i]));
    for (int i = 1; i <= 30; i++) { /* what sees, or knows, nothing is no error */
        struct json_object *reply = NULL;
        bool refused = i < 11 || (i > 15 && i < 26);

        CU_ASSERT_EQUAL_FATAL(conn_wait(&conn, &reply, PATIENCE_MS), 0);
        CU_ASSERT_EQUAL(emu_json_number(reply, "reply", -1), i);
        CU_ASSERT_TRUE(i == 4 || (emu_json_number(reply, "errno", 0) > 0) == refused);
        json_object_put(reply);
    }
    CU_ASSERT_TRUE(send(pair[0], "nonsense\n", 9, MSG_NOSIGNAL) == 9);
    host_join(host);
    CU_ASSERT_EQUAL(host->end, OBEY_LOST);
    conn_close(&conn);
    conn_close(&host->owner);
    close(host->listen_fd);
    close(host->stop_fd);
    unlink(host->path);
    fabric_stop(host->fabric);
    rmdir(rig.dir);
    free(rig.of);
    topo_free(rig.graph);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(processes__get_nodes_of_their_own_host),
        CASE(group__is_made_everywhere_and_breaks_everywhere),
        CASE(replicas__agree_whatever_was_asked),
        CASE(report__adds_up_all_hosts),
        CASE(standstill__is_that_of_all_hosts),
        CASE(standstill__of_who_has_left_is_forgotten),
        CASE(check__is_of_all_hosts_and_names_them),
        CASE(fault__stands_where_the_device_is),
        CASE(fault__of_combine_units_is_known_to_all),
        CASE(link_down__is_that_of_all_hosts),
        CASE(faults__leave_replicas_alike),
        CASE(fault__ends_and_the_lost_stays_lost),
        CASE(host_lost__its_processes_have_died),
        CASE(link_lost__all_go_round_it),
        CASE(host_lost__those_who_sent_by_it_are_told),
        CASE(host__speaks_of_its_own),
        CASE(process__that_is_stopped_elsewhere_counts_as_dead),
        CASE(governor__that_says_nonsense_is_lost),
        {NULL, NULL},
    };

    return test_run("hosts", cases);
}
