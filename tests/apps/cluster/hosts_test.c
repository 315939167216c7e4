/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts_test.c - one coordinator and its agents: the processes of several hosts, their groups and
 * how they end, over the control channel only. No segments are sent.
 *
 * Each host is a fabric of the whole network with a thread that serves it. Its processes are
 * connections of this program.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/control/conn.h"
#include "apps/daemon/daemon.h"
#include "apps/fabric/internal.h"
#include "apps/cluster/channel.h"
#include "apps/cluster/coordinator/coordinator.h"
#include "apps/cluster/agent/agent.h"
#include "apps/timeline/agent.h"
#include "apps/base/procs.h"
#include "apps/telemetry/internal.h"
#include "apps/telemetry/view.h"
#include "apps/telemetry/telemetry.h"
#include "emu/hostif/hostif.h"
#include "emu/hostif/pending.h"
#include "emu/hostif/fabric/mcast_buf.h"
#include "emu/fault/fault.h"
#include "emu/retry/replay.h"
#include "emu/util/now.h"
#include "switch/common/base.h"
#include "tests/test.h"
#include "tests/fixtures/fabric.h"
#include "tests/fixtures/json.h"
#include "tests/fixtures/fixture.h"

#define PATIENCE_MS 30000
#define STOPPED_MS  100
#define HOSTS       3
#define NODES       9

static const char *const names[HOSTS] = {"red", "green", "blue"};

#define ENDS_MAX 64

struct silent_link {
    struct emu_dev dev;
    struct emu_tx tx[ENDS_MAX];
    struct emu_rx rx[ENDS_MAX];
    struct emu_replay replay[ENDS_MAX]; /* zeros without link-level retry */
    uint32_t ends;
};

struct node_host {
    struct silent_link link;
    struct fabric *fabric;
    struct fabric_config config;
    struct fabric_hosts hosts;
    int listen_fd, stop_fd;
    struct conn owner; /* to the supervisor, whose part this test plays */
    int owner_fd;
    int control;              /* its end of the control channel */
    struct hosts_link linked; /* a host link that it watches */
    char path[108];
    pthread_t thread;
    int end;
    bool ended;
};

static struct fixture {
    struct topo_graph *graph;
    uint32_t *of; /* host by switch */
    struct node_host host[HOSTS];
    int control[HOSTS]; /* the coordinator's ends */
    int tap[HOSTS];     /* copies of these, to close or to forge messages */
    struct coordinator_config hosts;
    enum emu_clock_mode clock; /* of all hosts; 0: raw */
    const char *profile;
    const char *set;             /* a profile setting; NULL: none */
    int link_end;                /* peer end of the link that host 1 watches, to host 2; -1: none */
    int next[HOSTS];             /* eventfd: a new control channel to the host exists, */
    _Atomic int agent_fd[HOSTS]; /* and this is the host's end of it */
    const struct timeline_plan *timeline; /* written by the coordinator; NULL: none */
    bool returns;                         /* lost hosts may return */
    /* 2, 1: steps until host 2 is lost, between two links of the coordinator; 0: off */
    int loss_countdown;
    char dir[64];
} fixture;

static void *coordinate(void *arg)
{
    struct node_host *host = arg;
    struct daemon_config config = {.fabric = &host->config,
                                   .listen_fd = host->listen_fd,
                                   .signal_fd = host->stop_fd,
                                   .owner_fd = host->owner_fd,
                                   .owner = getpid(),
                                   .events_fd = -1,
                                   .record_fd = -1,
                                   .timeline = fixture.timeline,
                                   .hosts = &fixture.hosts};
    char error[256] = "";

    host->end = daemon_serve(host->fabric, &config, error, sizeof error);
    if (*error)
        printf("\n    %s\n    ", error);
    return NULL;
}

/*
 * Host links: provides the next incarnation's control channel; links carry nothing and rejoin at
 * once.
 */
static int next_channel(void *links, uint32_t host)
{
    int pair[2];

    (void)links;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -errno;
    fixture.agent_fd[host] = pair[1];
    eventfd_write(fixture.next[host], 1);
    return pair[0];
}

static int rejoins(void *links, uint32_t host)
{
    (void)links;
    (void)host;
    return 1;
}

/*
 * The same for the coordinator, which queries hosts in order. Its link to host 1 comes up in the
 * round after the one in which it also queried host 2; in that round host 2 is lost.
 */
static int rejoins_and_loses(void *links, uint32_t host)
{
    bool waits = fixture.loss_countdown == 2;

    (void)links;
    if (host == 2 && fixture.loss_countdown && --fixture.loss_countdown == 0)
        shutdown(fixture.tap[2], SHUT_RDWR);
    return !waits;
}

/* The reason why a host cannot connect to its coordinator; NULL: unknown. */
static bool (*fixture_links_why)(const void *links, char *text, size_t bytes);

static void *start_agent(void *arg)
{
    struct node_host *host = arg;
    const struct agent_config config = {.links_rejoin = fixture.returns ? rejoins : NULL,
                                        .links_why = fixture_links_why,
                                        .control = host->control,
                                        .listen_fd = host->listen_fd,
                                        .signal_fd = host->stop_fd,
                                        .owner_fd = host->owner_fd,
                                        .start_ms = PATIENCE_MS,
                                        .link = &host->linked,
                                        .links = host->linked.of,
                                        .stopped_ms = STOPPED_MS};

    host->end = agent_serve(host->fabric, &config);
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

/* --- host links without traffic --------------------------------------------------------- */

static uint32_t silent_link_step(struct emu_dev *dev, uint64_t until_ps)
{
    (void)until_ps;
    emu_dev_poll_within(dev, EMU_NEVER);
    return 0;
}

static int silent_link_create(void *ctx, uint32_t i, struct emu_worker *worker)
{
    struct silent_link *silent = ctx;

    (void)i;
    emu_dev_init(&silent->dev, worker, silent_link_step);
    return 0;
}

static int silent_link_join(void *ctx, const struct fabric_crossing *crossing,
                            const struct fabric_crossing_end *here, uint32_t credits,
                            const struct emu_profile *profile)
{
    struct silent_link *silent = ctx;
    uint32_t i = silent->ends++;
    int err = i < ENDS_MAX ? 0 : -ENOSPC;

    (void)crossing;
    if (!err)
        err = emu_link_join(here->tx, here->dev, here->port, &silent->rx[i], &silent->dev, 0,
                            credits, profile);
    if (!err && here->intake) /* link-level retry */
        return emu_retry_join(&silent->replay[i], &silent->tx[i], &silent->dev, 0, here->intake,
                              here->rx, here->dev, here->port, credits, profile);
    return err ? err
               : emu_link_join(&silent->tx[i], &silent->dev, 0, here->rx, here->dev, here->port,
                               credits, profile);
}

static void silent_link_destroy(void *ctx)
{
    struct silent_link *silent = ctx;

    while (silent->ends) {
        emu_link_unjoin(&silent->tx[--silent->ends]);
        emu_replay_free(&silent->replay[silent->ends]);
    }
}

static const struct fabric_crossing_ops silent_link_ops = {.devices = 1,
                                                           .create = silent_link_create,
                                                           .join = silent_link_join,
                                                           .destroy = silent_link_destroy};

static void host_make(uint32_t h)
{
    struct node_host *host = &fixture.host[h];
    char error[256] = "";
    int pair[2];

    *host = (struct node_host){.control = -1};
    host->hosts = (struct fabric_hosts){
        .self = h, .count = HOSTS, .of = fixture.of, .ops = &silent_link_ops, .ctx = &host->link};
    host->config = (struct fabric_config){.graph = fixture.graph,
                                          .threads = 1,
                                          .clock = fixture.clock,
                                          .hosts = &host->hosts};
    host->config.bounds = emu_bounds_filled((struct emu_bounds){.stopped_ms = STOPPED_MS});
    fixture_profile(&host->config.profile, fixture.profile, fixture.set);
    snprintf(host->config.name, sizeof host->config.name, "%s", names[h]);
    if (fabric_start(&host->fabric, &host->config, error, sizeof error))
        printf("\n    %s\n    ", error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(host->fabric);
    snprintf(host->path, sizeof host->path, "%s/%s.sock", fixture.dir, names[h]);
    host->listen_fd = listens(host->path);
    host->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    conn_open(&host->owner, pair[0], CONN_REPLY_MAX);
    host->owner_fd = pair[1];
}

/* The next event @name on the connection. The caller puts it. */
static struct json_object *next_event(struct conn *conn, const char *name)
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
static void fixture_place(const char *profile)
{
    fixture = (struct fixture){.graph = fixture_graph("kary:3,2", NODES),
                               .profile = profile,
                               .link_end = -1};
    fixture.of = calloc(fixture.graph->switches, sizeof *fixture.of);
    CU_ASSERT_PTR_NOT_NULL_FATAL(fixture.of);
    for (uint32_t s = 0; s < fixture.graph->switches; s++)
        fixture.of[s] = s % HOSTS;
    for (uint32_t n = 0; n < NODES; n++)
        fixture.of[fixture.graph->node[n].link[0].sw] = n / (NODES / HOSTS);
}

/* Host 1 watches its link to host 2. */
static void fixture_watch(void)
{
    int pair[2];

    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    fixture.link_end = pair[0];
    fixture.host[1].linked = (struct hosts_link){.host = 2, .of = 1, .closed_fd = pair[1]};
}

static void fixture_make_as(const char *profile, const char *set, bool returns)
{
    fixture_place(profile);
    fixture.set = set;
    fixture.returns = returns;
    for (uint32_t h = 0; h < HOSTS; h++)
        fixture.next[h] = eventfd(0, EFD_CLOEXEC);
    snprintf(fixture.dir, sizeof fixture.dir, "/tmp/fabemu-hosts.XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(fixture.dir));
    for (uint32_t h = 0; h < HOSTS; h++)
        host_make(h);
    for (uint32_t h = 1; h < HOSTS; h++) {
        int pair[2];

        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        fixture.control[h] = pair[0];
        fixture.tap[h] = fcntl(pair[1], F_DUPFD_CLOEXEC, 0);
        fixture.host[h].control = pair[1];
    }
    fixture.hosts =
        (struct coordinator_config){.count = HOSTS,
                                    .control = fixture.control,
                                    .name = names,
                                    .call_ms = PATIENCE_MS,
                                    .query_ms = PATIENCE_MS,
                                    .last_ms = PATIENCE_MS,
                                    .start_ms = PATIENCE_MS,
                                    .links_again = fixture.returns ? next_channel : NULL,
                                    .links_rejoin = fixture.returns ? rejoins : NULL};
    if (strcmp(profile, "qsnet3") == 0)
        fixture_watch();
}

static void fixture_make(const char *profile, bool returns)
{
    fixture_make_as(profile, NULL, returns);
}

/* From now on each host belongs to its own thread. */
static void fixture_go(void)
{
    for (uint32_t h = 0; h < HOSTS; h++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&fixture.host[h].thread, NULL,
                                             h ? start_agent : coordinate, &fixture.host[h]),
                              0);
    for (uint32_t h = 0; h < HOSTS; h++)
        json_object_put(next_event(&fixture.host[h].owner, "ready"));
}

static void fixture_start_as(const char *profile)
{
    fixture_make(profile, false);
    fixture_go();
}

static void fixture_start(void)
{
    fixture_start_as("oq2004");
}

static void host_join(struct node_host *host)
{
    if (!host->ended)
        pthread_join(host->thread, NULL);
    host->ended = true;
}

/* The coordinator ends, and with it all hosts. */
static void fixture_end(void)
{
    eventfd_write(fixture.host[0].stop_fd, 1);
    for (uint32_t h = 0; h < HOSTS; h++)
        host_join(&fixture.host[h]);
}

static void host_free(struct node_host *host)
{
    conn_close(&host->owner);
    close(host->listen_fd);
    close(host->stop_fd);
    if (host->linked.of)
        close(host->linked.closed_fd);
    unlink(host->path);
    fabric_stop(host->fabric);
}

static void fixture_free(void)
{
    for (uint32_t h = 0; h < HOSTS; h++) {
        host_free(&fixture.host[h]);
        if (h)
            close(fixture.tap[h]);
        close(fixture.next[h]);
    }
    rmdir(fixture.dir);
    free(fixture.of);
    topo_free(fixture.graph);
}

/* The host's end of the next control channel to it, once there is one. */
static int next_control(uint32_t h)
{
    eventfd_t times;

    CU_ASSERT_EQUAL_FATAL(eventfd_read(fixture.next[h], &times), 0);
    CU_ASSERT_EQUAL(times, 1);
    return fixture.agent_fd[h];
}

/* Cut the host's control channel; the host ends. */
static void lose_host(uint32_t h)
{
    shutdown(fixture.tap[h], SHUT_RDWR);
    host_join(&fixture.host[h]);
    CU_ASSERT_EQUAL(fixture.host[h].end, AGENT_LOST);
    json_object_put(next_event(&fixture.host[0].owner, "host_lost"));
    host_free(&fixture.host[h]);
    close(fixture.tap[h]);
}

/* Start the host again. */
static void restart_host(uint32_t h)
{
    struct node_host *host = &fixture.host[h];

    host_make(h);
    host->control = next_control(h);
    fixture.tap[h] = fcntl(host->control, F_DUPFD_CLOEXEC, 0);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&host->thread, NULL, start_agent, host), 0);
    json_object_put(next_event(&host->owner, "ready"));
}

/* Wait until the coordinator reports that the host is part of the fabric again. */
static void await_return(uint32_t h)
{
    struct json_object *event = next_event(&fixture.host[0].owner, "host_back");

    CU_ASSERT_STRING_EQUAL(emu_json_text(event, "name", ""), names[h]);
    json_object_put(event);
}

static void host_returns(uint32_t h)
{
    restart_host(h);
    await_return(h);
}

/* --- processes ------------------------------------------------------------------------ */

static void connects(struct conn *conn, uint32_t h)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memcpy(to.sun_path, fixture.host[h].path, sizeof fixture.host[h].path);
    CU_ASSERT_EQUAL_FATAL(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    conn_open(conn, fd, CONN_REPLY_MAX);
}

static struct json_object *query(struct conn *conn, struct json_object *request)
{
    struct json_object *reply = NULL;
    int err = conn_query(conn, request, &reply, PATIENCE_MS);

    if (err)
        printf("\n    %s\n    ", strerror(-err));
    CU_ASSERT_EQUAL_FATAL(err, 0);
    return reply;
}

static struct json_object *command(const char *name)
{
    return json_add_text(json_object_new_object(), "cmd", name);
}

/* Attach; return the node. @received: takes the descriptors; NULL: close them. */
static int64_t attach_with(struct conn *conn, uint32_t h, int64_t want,
                           struct emu_json_fds *received)
{
    struct json_object *request = json_add_number(command("attach"), "version", EMU_HOSTIF_VERSION);
    struct json_object *reply;
    int64_t node;

    connects(conn, h);
    conn->received_fds = received;
    json_object_object_add(request, "want", json_object_new_int64(want));
    reply = query(conn, request);
    node = emu_json_true(reply, "ok") ? emu_json_number(reply, "node", -1) : -1;
    json_object_put(reply);
    return node;
}

static int64_t attach(struct conn *conn, uint32_t h, int64_t want)
{
    return attach_with(conn, h, want, NULL);
}

/* Send a request with a group's number; returns the error. */
static int64_t of_group(struct conn *conn, const char *name, int64_t group)
{
    struct json_object *reply =
        query(conn, json_add_number(command(name), "group", (uint64_t)group));
    int64_t err = emu_json_number(reply, "errno", 0);

    json_object_put(reply);
    return err;
}

/* A request to create a group or, if @key is not NULL, to ask for it. */
static struct json_object *group_request(const char *key, const uint32_t *nodes, uint32_t count)
{
    struct json_object *request = command("group_create"), *list = json_object_new_array();

    if (key)
        json_add_text(request, "key", key);
    for (uint32_t i = 0; i < count; i++)
        json_object_array_add(list, json_object_new_int64(nodes[i]));
    json_object_object_add(request, "nodes", list);
    return request;
}

/* Create a group, or ask for it by @key if that is not NULL; returns its number, or -errno. */
static int64_t open_group(struct conn *conn, const char *key, const uint32_t *nodes, uint32_t count)
{
    struct json_object *reply = query(conn, group_request(key, nodes, count));
    int64_t ret;

    ret = emu_json_true(reply, "ok") ? emu_json_number(reply, "group", -1)
                                     : -emu_json_number(reply, "errno", 0);
    json_object_put(reply);
    return ret;
}

static int64_t create_group(struct conn *conn, const uint32_t *nodes, uint32_t count)
{
    return open_group(conn, NULL, nodes, count);
}

/* --- state that all replicas must agree on, after the hosts have stopped ----------------- */

static void replicas_agree(void)
{
    const struct fabric *first = fixture.host[0].fabric;

    for (uint32_t h = 1; h < HOSTS; h++) {
        const struct fabric *fabric = fixture.host[h].fabric;

        for (uint32_t n = 0; n < NODES; n++)
            CU_ASSERT_EQUAL(fabric->incarnation[n], first->incarnation[n]);
        CU_ASSERT_EQUAL(fabric->groups, first->groups);
        for (uint32_t slot = 0; slot < FABRIC_GROUPS_MAX; slot++) {
            CU_ASSERT_EQUAL(!fabric->group[slot], !first->group[slot]);
            if (fabric->group[slot] && first->group[slot])
                CU_ASSERT_EQUAL(fabric->group[slot]->members, first->group[slot]->members);
        }
        CU_ASSERT_EQUAL(memcmp(fabric->states, first->states,
                               fixture.graph->switches * sizeof *first->states),
                        0);
        CU_ASSERT_EQUAL(memcmp(fabric->tree_load, first->tree_load,
                               fixture.graph->switches * sizeof *first->tree_load),
                        0);
    }
}

/* --- tests ------------------------------------------------------------------------------ */

static void processes__get_nodes_of_their_own_host(void)
{
    struct conn conn[NODES + 1];
    bool taken[NODES] = {false};
    struct json_object *event;

    fixture_start();
    for (uint32_t i = 0; i < NODES; i++) {
        int64_t node = attach(&conn[i], i % HOSTS, i == 0 ? 8 : i == 1 ? 5 : -1);

        CU_ASSERT_TRUE_FATAL(node >= 0 && node < NODES);
        CU_ASSERT_EQUAL(node / (NODES / HOSTS), i % HOSTS);
        CU_ASSERT_FALSE(taken[node]);
        taken[node] = true;
        if (i == 1)
            CU_ASSERT_EQUAL(node, 5);
    }
    CU_ASSERT_EQUAL(attach(&conn[NODES], 2, -1), -1); /* its host is full */
    event = next_event(&fixture.host[0].owner, "refused");
    CU_ASSERT_STRING_EQUAL(emu_json_text(event, "host", ""), names[2]);
    CU_ASSERT_PTR_NOT_NULL(strstr(emu_json_text(event, "error", ""),
                                  "all 3 nodes of fabric 'red' (kary:3,2) on this"));
    json_object_put(event);
    conn_close(&conn[4]);
    CU_ASSERT_EQUAL(attach(&conn[4], 2, -1), -1); /* that process was on another host */
    for (uint32_t i = 0; i <= NODES; i++)
        conn_close(&conn[i]);
    fixture_end();
    CU_ASSERT_EQUAL(fixture.host[0].end, DAEMON_SHUTDOWN);
    CU_ASSERT_EQUAL(fixture.host[1].end, AGENT_ENDED);
    CU_ASSERT_EQUAL(fixture.host[2].end, AGENT_ENDED);
    fixture_free();
}

static void group__is_created_and_breaks_everywhere(void)
{
    struct conn conn[3];
    uint32_t nodes[3];
    struct json_object *event;
    int64_t group;

    fixture_start();
    for (uint32_t h = 0; h < HOSTS; h++)
        nodes[h] = (uint32_t)attach(&conn[h], h, -1);
    group = create_group(&conn[1], nodes, 3);
    CU_ASSERT_TRUE_FATAL(group >= 0);
    for (uint32_t h = 0; h < HOSTS; h++)
        CU_ASSERT_EQUAL(of_group(&conn[h], "group_join", group), 0);
    conn_close(&conn[2]); /* a member dies */
    for (uint32_t h = 0; h < 2; h++) {
        event = next_event(&conn[h], "node_died");
        CU_ASSERT_EQUAL(emu_json_number(event, "node", -1), nodes[2]);
        CU_ASSERT_EQUAL(json_object_array_length(json_object_object_get(event, "groups")), 1);
        json_object_put(event);
        CU_ASSERT_EQUAL(of_group(&conn[h], "group_leave", group), 0);
    }
    event = next_event(&fixture.host[0].owner, "node_died");
    CU_ASSERT_EQUAL(emu_json_number(event, "pid", 0), getpid());
    json_object_put(event);
    fixture_end();
    CU_ASSERT_EQUAL(fixture.host[0].fabric->groups, 0);
    replicas_agree();
    conn_close(&conn[0]);
    conn_close(&conn[1]);
    fixture_free();
}

/* A process of the host reports that the provider could not satisfy a request. */
static void refuses(uint32_t h, uint32_t times)
{
    struct conn conn;
    char what[16];

    connects(&conn, h);
    for (uint32_t i = 0; i < times; i++) {
        snprintf(what, sizeof what, "%u of host %u", i, h);
        json_object_put(query(&conn, json_add_text(command("refused"), "what", what)));
    }
    conn_close(&conn);
}

/* @times processes of the host die. */
static void processes_die(uint32_t h, uint32_t times)
{
    for (uint32_t left = times, count; left; left -= count) {
        struct conn conn[NODES / HOSTS];

        count = left < NODES / HOSTS ? left : NODES / HOSTS;
        for (uint32_t i = 0; i < count; i++)
            CU_ASSERT_TRUE_FATAL(attach(&conn[i], h, -1) >= 0);
        for (uint32_t i = 0; i < count; i++)
            conn_close(&conn[i]);
        for (uint32_t i = 0; i < count; i++)
            json_object_put(next_event(&fixture.host[0].owner, "node_died"));
    }
}

/* However many processes die on host 1, or are refused there, the report lists those of host 2. */
static void report__has_space_for_the_processes_of_each_host(void)
{
    struct json_object *reply, *report, *list;
    struct conn conn;
    size_t count;

    fixture_start();
    processes_die(1, DAEMON_DEATHS_MAX);
    processes_die(2, 1);
    refuses(1, DAEMON_REFUSALS_MAX);
    refuses(2, 1);
    connects(&conn, 0);
    reply = query(&conn, command("report"));
    report = json_object_object_get(reply, "report");
    list = json_object_object_get(report, "refusals");
    count = emu_json_count(list);
    CU_ASSERT_EQUAL(count, DAEMON_REFUSALS_MAX / 2 + 1);
    CU_ASSERT_STRING_EQUAL(emu_json_text(emu_json_at(list, count - 1), "what", ""), "0 of host 2");
    list = json_object_object_get(report, "died");
    count = emu_json_count(list);
    CU_ASSERT_EQUAL(count, DAEMON_DEATHS_MAX / 2 + 1);
    CU_ASSERT_EQUAL(emu_json_number(emu_json_at(list, count - 1), "node", 0) * HOSTS / NODES, 2);
    json_object_put(reply);
    conn_close(&conn);
    fixture_end();
    fixture_free();
}

/* A member on each host asks for the groups of one key: first it is refused, and one breaks. */
static void group__is_opened_by_its_key_on_all_hosts(void)
{
    struct conn conn[3];
    uint32_t nodes[3];
    int64_t group, next;

    fixture_start();
    for (uint32_t h = 0; h < HOSTS; h++)
        nodes[h] = (uint32_t)attach(&conn[h], h, -1);
    conn_close(&conn[2]);
    json_object_put(next_event(&fixture.host[0].owner, "node_died"));
    CU_ASSERT_EQUAL(open_group(&conn[1], "key", nodes, 3), -EHOSTUNREACH);
    CU_ASSERT_EQUAL_FATAL(attach(&conn[2], 2, nodes[2]), nodes[2]);
    CU_ASSERT_EQUAL(open_group(&conn[2], "key", nodes, 3), -EHOSTUNREACH);
    group = open_group(&conn[2], "key", nodes, 3);
    CU_ASSERT_TRUE(group >= 0);
    CU_ASSERT_EQUAL(open_group(&conn[1], "key", nodes, 3), group);
    CU_ASSERT_EQUAL(of_group(&conn[1], "group_join", group), 0);
    CU_ASSERT_EQUAL(of_group(&conn[1], "group_break", group), 0);
    CU_ASSERT_EQUAL(of_group(&conn[1], "group_leave", group), 0);
    CU_ASSERT_EQUAL(open_group(&conn[2], "key", nodes, 3), -EPIPE);
    next = open_group(&conn[2], "key", nodes, 3);
    CU_ASSERT_TRUE(next >= 0 && next != group);
    CU_ASSERT_EQUAL(open_group(&conn[0], "key", nodes, 3), -EHOSTUNREACH);
    CU_ASSERT_EQUAL(open_group(&conn[0], "key", nodes, 3), -EPIPE);
    for (uint32_t h = 0; h < HOSTS; h++) {
        CU_ASSERT_EQUAL(open_group(&conn[h], "key", nodes, 3), next);
        CU_ASSERT_EQUAL(of_group(&conn[h], "group_join", next), 0);
    }
    for (uint32_t h = 0; h < HOSTS; h++)
        CU_ASSERT_EQUAL(of_group(&conn[h], "group_leave", next), 0);
    fixture_end();
    CU_ASSERT_EQUAL(fixture.host[0].fabric->groups, 0);
    replicas_agree();
    for (uint32_t h = 0; h < HOSTS; h++)
        conn_close(&conn[h]);
    fixture_free();
}

/* Processes attach, detach and create groups at random; then all replicas agree. */
static void replicas__agree_after_random_requests(void)
{
    struct conn conn[NODES];
    int64_t node[NODES], held[64];
    uint32_t groups = 0;
    uint64_t random = test_seed();

    fixture_start();
    for (uint32_t i = 0; i < NODES; i++)
        node[i] = attach(&conn[i], i % HOSTS, -1);
    for (uint32_t turn = 0; turn < 300; turn++) {
        uint32_t who = (uint32_t)test_draw(&random, 0, NODES - 1);
        uint32_t all[NODES], count = (uint32_t)test_draw(&random, 2, NODES);
        uint32_t what = (uint32_t)test_draw(&random, 0, 9);

        if (what == 0) {
            struct json_object *reply = query(&conn[who], command("detach"));

            json_object_put(reply);
            conn_close(&conn[who]);
            node[who] = attach(&conn[who], who % HOSTS, node[who]);
            CU_ASSERT_TRUE_FATAL(node[who] >= 0);
        } else if (what < 5 && groups < 64) {
            for (uint32_t i = 0; i < NODES; i++)
                all[i] = (uint32_t)node[i];
            test_shuffle(&random, all, NODES, count);
            held[groups] = create_group(&conn[who], all, count); /* not a member: refused */
            groups += held[groups] >= 0;
        } else if (groups) {
            uint32_t at = (uint32_t)test_draw(&random, 0, groups - 1);

            of_group(&conn[who], what < 7 ? "group_join" : "group_leave", held[at]);
            if (what == 9)
                held[at] = held[--groups];
        }
    }
    fixture_end();
    replicas_agree();
    for (uint32_t i = 0; i < NODES; i++)
        conn_close(&conn[i]);
    fixture_free();
}

static void report__adds_up_all_hosts(void)
{
    struct conn conn;
    struct json_object *reply, *hosts;

    fixture_start();
    CU_ASSERT_TRUE_FATAL(attach(&conn, 1, -1) >= 0);
    reply = query(&conn, command("report")); /* queried on an agent's host */
    CU_ASSERT_TRUE(emu_json_true(reply, "ok"));
    hosts = json_object_object_get(json_object_object_get(reply, "report"), "hosts");
    CU_ASSERT_EQUAL_FATAL(json_object_array_length(hosts), HOSTS);
    for (uint32_t h = 0; h < HOSTS; h++) {
        struct json_object *one = json_object_array_get_idx(hosts, h);

        CU_ASSERT_STRING_EQUAL(emu_json_text(one, "host", ""), names[h]);
        CU_ASSERT_STRING_EQUAL(emu_json_text(one, "state", ""), h ? "up" : "coordinator");
        CU_ASSERT_EQUAL(emu_json_number(one, "nodes", 0), NODES / HOSTS);
        CU_ASSERT_EQUAL(emu_json_number(one, "attached", -1), h == 1);
    }
    json_object_put(reply);
    conn_close(&conn);
    fixture_end();
    fixture_free();
}

/* --- standstill -------------------------------------------------------------------------- */

#define S_NS UINT64_C(1000000000)

/*
 * Write the pending report as the library would: node @node waits in the first barrier of @group,
 * or has not started any.
 */
static void write_pending(int64_t node, int64_t group, bool in_it)
{
    struct emu_hostif *hostif = fixture.host[node / (NODES / HOSTS)].fabric->hostif[node];
    struct emu_pending pending = {.written_ns = emu_now_ns(),
                                  .quiet_ns = emu_now_ns() - 9 * S_NS,
                                  .waits = in_it,
                                  .groups = 1,
                                  .mismatch.node = EMU_PENDING_ANY};

    CU_ASSERT_PTR_NOT_NULL_FATAL(hostif);
    pending.group[0] = (struct emu_pending_group){
        .id = (uint32_t)group,
        .begun = in_it,
        .number = in_it,
        .since_ns = in_it ? emu_now_ns() - 5 * S_NS : 0,
        .what = {.kind = EMU_BARRIER, .root = EMU_PENDING_ANY},
        .name = "ALL",
    };
    emu_pending_write(&hostif->shared->pending, &pending);
}

static struct json_object *field(struct json_object *of, const char *name)
{
    struct json_object *ret = json_object_object_get(of, name);

    CU_ASSERT_PTR_NOT_NULL_FATAL(ret);
    return ret;
}

/*
 * Return the standstill report for @conn. Query until it is current, because the coordinator uses a
 * host's last report, which may be outdated, until that is half a second old.
 */
static struct json_object *standstill_of(struct conn *conn)
{
    int64_t end_ms = emu_now_ms() + PATIENCE_MS, for_ns = 0;
    struct json_object *reply = NULL;

    while (for_ns < 9 * (int64_t)S_NS && emu_now_ms() < end_ms) {
        json_object_put(reply);
        reply = query(conn, command("status"));
        for_ns = emu_json_number(field(reply, "standstill"), "for_ns", 0);
    }
    CU_ASSERT_TRUE(for_ns >= 9 * (int64_t)S_NS);
    return reply;
}

/* Queried on an agent's host, about processes on all hosts. */
static void standstill__covers_all_hosts(void)
{
    struct conn conn[HOSTS];
    struct json_object *reply, *waits, *missing, *attached;
    uint32_t nodes[HOSTS];
    int64_t group;

    fixture_start();
    for (uint32_t h = 0; h < HOSTS; h++)
        nodes[h] = (uint32_t)attach(&conn[h], h, -1);
    group = create_group(&conn[0], nodes, HOSTS);
    CU_ASSERT_TRUE_FATAL(group >= 0);
    for (uint32_t h = 0; h < HOSTS; h++) {
        CU_ASSERT_EQUAL(of_group(&conn[h], "group_join", group), 0);
        write_pending(nodes[h], group, h != 2);
    }
    reply = standstill_of(&conn[1]);
    attached = field(reply, "attached");
    CU_ASSERT_EQUAL(json_object_array_length(attached), HOSTS);
    for (uint32_t h = 0; h < HOSTS; h++) {
        struct json_object *one = json_object_array_get_idx(attached, h);

        CU_ASSERT_EQUAL(emu_json_number(one, "node", -1), nodes[h]);
        CU_ASSERT_STRING_EQUAL(emu_json_text(one, "host", ""), names[h]);
        CU_ASSERT_EQUAL(emu_json_true(one, "waits"), h != 2);
    }
    waits = field(field(reply, "standstill"), "collectives");
    CU_ASSERT_EQUAL_FATAL(json_object_array_length(waits), 1);
    waits = json_object_array_get_idx(waits, 0);
    CU_ASSERT_STRING_EQUAL(emu_json_text(waits, "name", ""), "ALL");
    missing = field(waits, "missing"); /* no segment was sent: no contribution has arrived */
    CU_ASSERT_EQUAL_FATAL(json_object_array_length(missing), HOSTS);
    for (uint32_t h = 0; h < HOSTS; h++) {
        struct json_object *one = json_object_array_get_idx(missing, h);

        CU_ASSERT_EQUAL(emu_json_number(one, "node", -1), nodes[h]);
        CU_ASSERT_EQUAL(emu_json_true(one, "entered"), h != 2);
        CU_ASSERT_EQUAL(emu_json_number(one, "switch", -1), /* known to the other host only */
                        fixture.graph->node[nodes[h]].link[0].sw);
    }
    json_object_put(reply);
    for (uint32_t h = 0; h < HOSTS; h++)
        conn_close(&conn[h]);
    fixture_end();
    fixture_free();
}

/*
 * Let the processes at @nodes, both on one host, make @count groups, and report that both wait for
 * a collective of kind @kind in each of them. @silent: their last report is old.
 */
static void report_many(struct conn *conn, const uint32_t nodes[2], uint32_t count,
                        enum emu_kind kind, bool silent)
{
    uint64_t now_ns = emu_now_ns();
    struct emu_pending pending = {.written_ns = silent ? now_ns - 4 * S_NS : now_ns,
                                  .quiet_ns = now_ns - 9 * S_NS,
                                  .waits = true,
                                  .groups = count,
                                  .mismatch.node = EMU_PENDING_ANY};

    for (uint32_t g = 0; g < count; g++) {
        int64_t group = create_group(conn, nodes, 2);

        CU_ASSERT_TRUE_FATAL(group >= 0);
        pending.group[g] = (struct emu_pending_group){
            .id = (uint32_t)group,
            .begun = 1,
            .number = 1,
            .since_ns = now_ns - 5 * S_NS,
            .what = {.kind = (uint8_t)kind, .root = EMU_PENDING_ANY},
            .name = "MANY",
        };
    }
    for (uint32_t i = 0; i < 2; i++) {
        struct fabric *fabric = fixture.host[nodes[i] / (NODES / HOSTS)].fabric;

        emu_pending_write(&fabric->hostif[nodes[i]]->shared->pending, &pending);
    }
}

/* Return how many collectives of groups with this name a standstill report lists. */
static uint32_t listed(struct json_object *reply, const char *name)
{
    struct json_object *list = field(field(reply, "standstill"), "collectives");
    uint32_t count = 0;

    for (size_t i = 0; i < json_object_array_length(list); i++)
        count += strcmp(emu_json_text(json_object_array_get_idx(list, i), "name", ""), name) == 0;
    return count;
}

/*
 * Processes of one host report many collectives. Those of other hosts are listed nevertheless, even
 * if the many are only examined, because all their waiting members are silent.
 */
static void standstill__has_space_for_each_host(void)
{
    static const struct {
        enum emu_kind kind;
        bool silent;
        uint32_t listed;
    } c[] = {{EMU_BARRIER, false, 8}, {EMU_MULTICAST, true, 0}};

    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct conn conn[5];
        uint32_t nodes[5];
        struct json_object *reply;
        int64_t group;

        fixture_start();
        for (uint32_t n = 0; n < 5; n++)
            nodes[n] = (uint32_t)attach(&conn[n], n == 0 ? 0 : n == 1 ? 2 : 1, -1);
        group = create_group(&conn[0], nodes, 2);
        write_pending(nodes[0], group, true);
        write_pending(nodes[1], group, false);
        group = create_group(&conn[4], nodes + 3, 2);
        report_many(&conn[2], nodes + 2, 20, c[i].kind, c[i].silent);
        write_pending(nodes[4], group, true);
        reply = standstill_of(&conn[0]);
        CU_ASSERT_EQUAL(listed(reply, "MANY"), c[i].listed);
        CU_ASSERT_EQUAL(listed(reply, "ALL"), 1); /* and not the other group of that host */
        json_object_put(reply);
        for (uint32_t n = 0; n < 5; n++)
            conn_close(&conn[n]);
        fixture_end();
        fixture_free();
    }
}

/* A successor does not inherit the report of the process before it. */
static void standstill__of_a_detached_process_is_discarded(void)
{
    struct conn conn[2];
    struct json_object *reply, *one;
    int64_t node;

    fixture_start();
    node = attach(&conn[1], 2, -1);
    write_pending(node, 1, true);
    connects(&conn[0], 0);
    reply = standstill_of(&conn[0]);
    one = json_object_array_get_idx(field(reply, "attached"), 0);
    CU_ASSERT_TRUE(emu_json_true(one, "waits"));
    json_object_put(reply);
    json_object_put(query(&conn[1], command("detach")));
    conn_close(&conn[1]);
    CU_ASSERT_EQUAL_FATAL(attach(&conn[1], 2, node), node);
    reply = query(&conn[0], command("status"));
    one = json_object_array_get_idx(field(reply, "attached"), 0);
    CU_ASSERT_EQUAL(emu_json_number(one, "node", -1), node);
    CU_ASSERT_PTR_NULL(json_object_object_get(one, "waits"));
    json_object_put(reply);
    conn_close(&conn[0]);
    conn_close(&conn[1]);
    fixture_end();
    fixture_free();
}

/*
 * Attach on host 1, as above. @file: inode of the shared multicast buffer that comes with the node;
 * 0: none.
 */
static int64_t attach_with_mcast_buf(struct conn *conn, int64_t want, ino_t *file)
{
    struct emu_json_fds received = {.fd = EMU_JSON_NONE};
    int64_t node = attach_with(conn, 1, want, &received);
    struct stat st;

    *file = 0;
    conn->received_fds = NULL;
    if (!fstat(received.fd[2], &st)) /* the host interface, its bell, the multicast buffer */
        *file = st.st_ino;
    for (uint32_t i = 0; i < EMU_JSON_FDS && received.fd[i] >= 0; i++)
        close(received.fd[i]);
    return node;
}

/* In a detach, the coordinator says whether the process is dead; a live one may still read. */
static void mcast_buf__is_retired_after_a_remote_death(void)
{
    struct conn conn;
    ino_t first, file;
    int64_t node;

    fixture_start();
    node = attach_with_mcast_buf(&conn, -1, &first);
    CU_ASSERT_NOT_EQUAL(first, 0);
    json_object_put(query(&conn, command("detach")));
    conn_close(&conn);
    CU_ASSERT_EQUAL_FATAL(attach_with_mcast_buf(&conn, node, &file), node);
    CU_ASSERT_EQUAL(file, first);
    conn_close(&conn);
    for (int64_t other = -1; other != node;) { /* until the process is known to be gone */
        other = attach_with_mcast_buf(&conn, node, &file);
        if (other != node) {
            json_object_put(query(&conn, command("detach")));
            conn_close(&conn);
        }
    }
    CU_ASSERT_NOT_EQUAL(file, 0);
    CU_ASSERT_NOT_EQUAL(file, first);
    conn_close(&conn);
    fixture_end();
    fixture_free();
}

/* --- audit ------------------------------------------------------------------------------- */

static void check__covers_all_hosts_and_names_them(void)
{
    struct fabric *blue;
    struct conn conn;
    struct json_object *reply, *check;
    uint32_t crossings = 0, sw;

    fixture_start();
    connects(&conn, 1);
    reply = query(&conn, command("check"));
    check = field(reply, "check");
    CU_ASSERT_TRUE(emu_json_true(check, "right"));
    CU_ASSERT_EQUAL(emu_json_number(check, "switches", 0), fixture.graph->switches);
    CU_ASSERT_EQUAL(emu_json_number(check, "cables", 0),
                    fabric_cable_count(fixture.host[0].fabric));
    for (uint32_t h = 0; h < HOSTS; h++) /* each is counted at both ends */
        crossings += fabric_crossings(&fixture.host[h].config, TOPO_NONE);
    CU_ASSERT_TRUE(crossings > 0);
    CU_ASSERT_EQUAL(emu_json_number(check, "between_hosts", 0), crossings / 2);
    for (uint32_t h = 0; h < HOSTS; h++) /* and all compute the same number */
        CU_ASSERT_EQUAL(fabric_crossings_all(&fixture.host[h].config), crossings / 2);
    json_object_put(reply);
    conn_close(&conn);
    fixture_end();
    fixture_free();

    fixture_make("oq2004", false);
    blue = fixture.host[2].fabric;
    sw = fixture.graph->node[NODES - 1].link[0].sw;
    blue->states[sw]++; /* reserved there by no group */
    fixture_go();
    connects(&conn, 1);
    reply = query(&conn, command("check"));
    check = field(reply, "check");
    CU_ASSERT_EQUAL(emu_json_number(check, "found", 0), 1);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(json_object_get_string(json_object_array_get_idx(field(check, "wrong"), 0)),
               "host blue: switch"));
    json_object_put(reply);
    conn_close(&conn);
    fixture_end();
    blue->states[sw]--;
    fixture_free();
}

/* --- a stopped host ---------------------------------------------------------------------- */

static int still_fd; /* the stopped host reads it */

/* In a signal handler on the host's thread. */
static void wait_to_continue(int number)
{
    int was = errno;
    eventfd_t go;

    (void)number;
    while (read(still_fd, &go, sizeof go) < 0 && errno == EINTR)
        ;
    errno = was;
}

/* Stop the thread that serves host @h; its links stay up. */
static void stop_host(uint32_t h)
{
    struct sigaction action = {.sa_handler = wait_to_continue};

    still_fd = eventfd(0, EFD_CLOEXEC);
    CU_ASSERT_EQUAL_FATAL(sigaction(SIGUSR1, &action, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(pthread_kill(fixture.host[h].thread, SIGUSR1), 0);
}

static void host_goes(void)
{
    eventfd_write(still_fd, 1);
}

static void puts_request(struct conn *conn, struct json_object *request)
{
    CU_ASSERT_EQUAL_FATAL(conn_put(conn, request), 0);
    CU_ASSERT_EQUAL_FATAL(conn_flush(conn), 0);
}

static bool has_word(const struct conn *conn)
{
    struct pollfd ready = {conn->fd, POLLIN, 0};

    return poll(&ready, 1, 0) > 0;
}

/* The next reply; the caller puts it. */
static struct json_object *next_reply(struct conn *conn)
{
    struct json_object *reply = NULL;

    CU_ASSERT_EQUAL_FATAL(conn_wait(conn, &reply, PATIENCE_MS), 0);
    return reply;
}

static void is_right(struct json_object *reply)
{
    struct json_object *check = field(reply, "check");

    CU_ASSERT_TRUE(emu_json_true(check, "right"));
    CU_ASSERT_EQUAL(emu_json_number(check, "switches", 0), fixture.graph->switches);
    json_object_put(reply);
}

/* A client waits for a stopped host, on whatever host it is, and nobody else does. */
static void stopped_host__delays_only_its_clients(void)
{
    static const char *const questions[] = {"check", "status", "report", "faults", "check"};
    enum { ASKERS = sizeof questions / sizeof questions[0] };
    struct conn asker[ASKERS], other, detached;
    struct json_object *reply;

    fixture_start();
    connects(&other, 0);
    stop_host(2);
    for (uint32_t i = 0; i < ASKERS; i++) {
        connects(&asker[i], i % 2);
        puts_request(&asker[i], command(questions[i]));
    }
    connects(&detached, 0);
    puts_request(&detached, command("check"));
    conn_close(&detached);
    for (uint32_t i = 0; i < 3; i++) { /* a request after the others, which host 1 forwards */
        reply = query(&other, command(i ? "subscribe" : "nonsense"));
        CU_ASSERT_EQUAL(emu_json_true(reply, "ok"), i > 0);
        json_object_put(reply);
    }
    for (uint32_t i = 0; i < ASKERS; i++)
        CU_ASSERT_FALSE(has_word(&asker[i]));
    CU_ASSERT_FALSE(has_word(&fixture.host[0].owner)); /* and no host is lost */
    host_goes();
    for (uint32_t i = 0; i < ASKERS; i++) {
        reply = next_reply(&asker[i]);
        CU_ASSERT_TRUE(emu_json_true(reply, "ok"));
        if (strcmp(questions[i], "check") == 0)
            is_right(reply);
        else
            json_object_put(reply);
        conn_close(&asker[i]);
    }
    conn_close(&other);
    fixture_end();
    fixture_free();
    close(still_fd);
}

/*
 * While one host is stopped, the coordinator delays requests to attach and to create a group. It
 * still handles processes of other hosts that detach or die, and replies to all other requests.
 */
static void stopped_host__delays_only_changes_of_all_hosts(void)
{
    struct conn conn[3], comes, other;
    uint32_t nodes[3];
    struct json_object *event;
    int64_t group;

    fixture_start();
    for (uint32_t i = 0; i < 3; i++) /* two on the coordinator, one on host 1 */
        nodes[i] = (uint32_t)attach(&conn[i], i / 2, -1);
    group = create_group(&conn[0], nodes, 3);
    CU_ASSERT_TRUE_FATAL(group >= 0);
    for (uint32_t i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(of_group(&conn[i], "group_join", group), 0);
    connects(&other, 1);
    connects(&comes, 0);
    stop_host(2);
    puts_request(&comes, json_add_number(command("attach"), "version", EMU_HOSTIF_VERSION));
    puts_request(&conn[0], group_request(NULL, nodes, 3));
    json_object_put(query(&other, command("subscribe")));
    conn_close(&conn[2]);
    event = next_event(&conn[1], "node_died");
    CU_ASSERT_EQUAL(emu_json_number(event, "node", -1), nodes[2]);
    json_object_put(event);
    CU_ASSERT_EQUAL(of_group(&conn[1], "group_leave", group), 0);
    json_object_put(query(&conn[1], command("detach")));
    event = next_event(&conn[0], "node_died"); /* the death of the member on host 1 */
    json_object_put(event);
    CU_ASSERT_FALSE(has_word(&comes));
    host_goes();
    event = next_reply(&comes);
    CU_ASSERT_TRUE(emu_json_true(event, "ok"));
    json_object_put(event);
    conn_close(&comes);
    conn_close(&other);
    conn_close(&conn[0]);
    conn_close(&conn[1]);
    fixture_end();
    CU_ASSERT_EQUAL(fixture.host[2].end, AGENT_ENDED); /* it was not lost */
    replicas_agree();
    fixture_free();
    close(still_fd);
}

/*
 * Requests behind a waiting one are answered after it, also for a client that has shut down its
 * side.
 */
static void stopped_host__answers_come_in_order(void)
{
    static const char lines[] = "{\"cmd\":\"check\"}\n{\"cmd\":\"nonsense\"}\n"
                                "{\"cmd\":\"check\"}\n{\"cmd\":\"status\"}\n";
    struct json_object *reply;
    struct conn conn, other;

    fixture_start();
    connects(&conn, 0);
    connects(&other, 0);
    stop_host(1);
    CU_ASSERT_EQUAL(send(conn.fd, lines, sizeof lines - 1, MSG_NOSIGNAL), sizeof lines - 1);
    shutdown(conn.fd, SHUT_WR);
    json_object_put(query(&other, command("subscribe")));
    CU_ASSERT_FALSE(has_word(&conn));
    host_goes();
    is_right(next_reply(&conn));
    reply = next_reply(&conn);
    CU_ASSERT_EQUAL(emu_json_number(reply, "errno", 0), ENOSYS);
    json_object_put(reply);
    is_right(next_reply(&conn));
    reply = next_reply(&conn);
    CU_ASSERT_PTR_NOT_NULL(field(reply, "report"));
    json_object_put(reply);
    CU_ASSERT_EQUAL(conn_wait(&conn, &reply, PATIENCE_MS), -EPIPE);
    conn_close(&conn);
    conn_close(&other);
    fixture_end();
    fixture_free();
    close(still_fd);
}

/* After the limit the host is lost, and the client gets the answers of all others. */
static void stopped_host__is_lost_after_the_limit(void)
{
    static const char *const questions[] = {"check", "status"};

    for (uint32_t i = 0; i < 2; i++) {
        struct json_object *reply, *event;
        struct conn conn;

        fixture_make("oq2004", false);
        fixture.hosts.query_ms = 200;
        fixture.hosts.start_ms = 300;
        fixture_go();
        connects(&conn, 0);
        stop_host(2);
        puts_request(&conn, command(questions[i]));
        event = next_event(&fixture.host[0].owner, "host_lost");
        CU_ASSERT_STRING_EQUAL(emu_json_text(event, "name", ""), "blue");
        CU_ASSERT_STRING_EQUAL(emu_json_text(event, "why", ""), "it does not answer");
        json_object_put(event);
        reply = next_reply(&conn);
        CU_ASSERT_TRUE(emu_json_true(reply, "ok"));
        if (i == 0)
            CU_ASSERT_TRUE(emu_json_number(field(reply, "check"), "switches", 0) <
                           fixture.graph->switches);
        json_object_put(reply);
        conn_close(&conn);
        host_goes();
        fixture_end();
        fixture_free();
        close(still_fd);
    }
}

/*
 * While a link between two hosts is lost and one of the two is stopped, the coordinator does not
 * call them to bring it up, and replies to other clients.
 */
static void stopped_host__with_a_lost_link_delays_nobody(void)
{
    struct conn other;
    int64_t end_ms;

    fixture_make("oq2004", true);
    fixture_watch();
    fixture_go();
    connects(&other, 0);
    json_object_put(query(&other, command("subscribe")));
    stop_host(2);
    close(fixture.link_end);
    json_object_put(next_event(&other, "host_link_lost"));
    end_ms = emu_now_ms() + 200; /* the first attempt to bring up the link is due after 20 ms */
    while (emu_now_ms() < end_ms)
        json_object_put(query(&other, command("nonsense")));
    CU_ASSERT_FALSE(has_word(&fixture.host[0].owner)); /* and no host is lost */
    host_goes();
    conn_close(&other);
    fixture_end();
    fixture_free();
    close(still_fd);
}

/* A client that waits when the fabric ends is notified. */
static void stopped_host__does_not_delay_the_end(void)
{
    struct json_object *reply;
    struct conn conn, other;

    fixture_make("oq2004", false);
    fixture.hosts.call_ms = 200;
    fixture_go();
    connects(&conn, 0);
    connects(&other, 0);
    stop_host(2);
    puts_request(&conn, command("check"));
    json_object_put(query(&other, command("shutdown")));
    reply = next_reply(&conn);
    CU_ASSERT_EQUAL(emu_json_number(reply, "errno", 0), ECANCELED);
    json_object_put(reply);
    host_join(&fixture.host[0]);
    host_goes();
    fixture_end();
    fixture_free();
    conn_close(&conn);
    conn_close(&other);
    close(still_fd);
}

/* A request may ask how long its reply can take while other hosts are waited for. */
static void request__gets_the_time_limit_of_its_reply(void)
{
    struct json_object *line;
    struct conn conn;

    fixture_start();
    connects(&conn, 0);
    for (int waits = 0; waits < 2; waits++) {
        line = command("status");
        json_object_object_add(line, "wait", json_object_new_boolean(waits));
        puts_request(&conn, line);
        if (waits) {
            line = next_event(&conn, "wait");
            CU_ASSERT_TRUE(emu_json_number(line, "limit_ms", 0) >= 2 * PATIENCE_MS);
            json_object_put(line);
        }
        line = next_reply(&conn);
        CU_ASSERT_TRUE(emu_json_true(line, "ok"));
        json_object_put(line);
    }
    conn_close(&conn);
    fixture_end();
    fixture_free();
}

static struct slow_channel {
    pthread_t thread;
    struct conn coordinator, agent;
    int reply_ms;      /* delay of each reply */
    int audit_ms;      /* further delay of the reply to an audit; below 0: it is dropped */
    int attached_last; /* the call for this process, counted from 1, ends the fabric */
    _Atomic int attached;
    _Atomic int audits; /* number of replies to audits */
    _Atomic int log_ms; /* further delay of replies with hits of faults */
} slow_channel;

#define SLOW_MS   600
#define SLOWER_MS 1500

static bool is_dropped(struct slow_channel *slow, struct json_object *line)
{
    bool audit = json_object_object_get_ex(line, "audit", NULL);

    slow->audits += audit;
    if (json_object_object_get_ex(line, "reply", NULL))
        poll(NULL, 0,
             slow->reply_ms + (audit && slow->audit_ms > 0 ? slow->audit_ms : 0) +
                 (json_object_object_get_ex(line, "log", NULL) ? slow->log_ms : 0));
    else if (strcmp(emu_json_text(line, "do", ""), "node_incarnation") == 0 &&
             ++slow->attached == slow->attached_last)
        eventfd_write(fixture.host[0].stop_fd, 1);
    return audit && slow->audit_ms < 0;
}

/* Pass on what arrives at one end of the control channel to the other. */
static bool passes_on(struct slow_channel *slow, struct conn *from, struct conn *to)
{
    struct json_object *line;
    int end = conn_fill(from);

    while (conn_next(from, &line) == 1) {
        if (is_dropped(slow, line))
            json_object_put(line);
        else
            conn_put(to, line);
    }
    conn_drain(to, PATIENCE_MS);
    return !end;
}

static void *slow_channel_run(void *arg)
{
    struct slow_channel *slow = arg;
    struct pollfd fds[] = {{slow->coordinator.fd, POLLIN, 0}, {slow->agent.fd, POLLIN, 0}};
    bool runs = true;

    while (runs && poll(fds, 2, PATIENCE_MS) > 0)
        runs = (!fds[0].revents || passes_on(slow, &slow->coordinator, &slow->agent)) &&
               (!fds[1].revents || passes_on(slow, &slow->agent, &slow->coordinator));
    conn_close(&slow->coordinator);
    conn_close(&slow->agent);
    return NULL;
}

/* Let replies of host @h arrive late, as @with says. Call this before fixture_go(). */
static void slow_channel_begin(uint32_t h, struct slow_channel with)
{
    int pair[2];

    slow_channel = with;
    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
                          0);
    conn_open(&slow_channel.agent, fixture.control[h], CONN_REPLY_MAX);
    conn_open(&slow_channel.coordinator, pair[1], CONN_REPLY_MAX);
    fixture.control[h] = pair[0];
    CU_ASSERT_EQUAL_FATAL(pthread_create(&slow_channel.thread, NULL, slow_channel_run,
                                         &slow_channel),
                          0);
}

/*
 * A host may answer one call of each operation late. To attach a process of its own takes two
 * calls, and the time limit holds for both together.
 */
static void slow_host__is_lost_during_a_long_operation(void)
{
    struct json_object *event;
    struct conn conn[4];

    fixture_make("oq2004", false);
    fixture.hosts.call_ms = 2 * SLOWER_MS - 500;
    slow_channel_begin(2, (struct slow_channel){.reply_ms = SLOWER_MS});
    fixture_go();
    for (uint32_t i = 0; i < 3; i++)
        attach(&conn[i], 0, -1);
    while (has_word(&fixture.host[0].owner) &&
           conn_wait(&fixture.host[0].owner, &event, PATIENCE_MS) == 0) {
        CU_ASSERT_STRING_EQUAL(emu_json_text(event, "event", ""), "attached");
        json_object_put(event);
    }
    connects(&conn[3], 2);
    puts_request(&conn[3], json_add_number(command("attach"), "version", EMU_HOSTIF_VERSION));
    event = next_event(&fixture.host[0].owner, "host_lost");
    CU_ASSERT_STRING_EQUAL(emu_json_text(event, "name", ""), "blue");
    CU_ASSERT_STRING_EQUAL(emu_json_text(event, "why", ""), "it does not answer");
    json_object_put(event);
    for (uint32_t i = 0; i < 4; i++)
        conn_close(&conn[i]);
    fixture_end();
    pthread_join(slow_channel.thread, NULL);
    fixture_free();
}

static void puts_attach(struct conn *conn)
{
    connects(conn, 0);
    puts_request(conn, json_add_number(command("attach"), "version", EMU_HOSTIF_VERSION));
}

static int error_of_next(struct conn *conn)
{
    struct json_object *reply = next_reply(conn);
    int err = (int)emu_json_number(reply, "errno", 0);

    json_object_put(reply);
    return err;
}

/*
 * The fabric must end while a request calls a slow host. The next request, which has waited for the
 * same query, is not executed any more.
 */
static void end__does_not_wait_for_further_requests(void)
{
    struct conn conn[3];

    fixture_make("oq2004", false);
    slow_channel_begin(2, (struct slow_channel){.reply_ms = SLOW_MS, .attached_last = 2});
    fixture_go();
    for (uint32_t i = 0; i < 3; i++)
        puts_attach(&conn[i]);
    CU_ASSERT_EQUAL(error_of_next(&conn[0]), 0);
    CU_ASSERT_EQUAL(error_of_next(&conn[1]) + error_of_next(&conn[2]), ECANCELED);
    CU_ASSERT_EQUAL(slow_channel.attached, 2);
    for (uint32_t i = 0; i < 3; i++)
        conn_close(&conn[i]);
    fixture_end();
    pthread_join(slow_channel.thread, NULL);
    fixture_free();
}

/* The supervisor restarts its time limit for each part of the end that waits for hosts. */
static void end__has_parts_with_a_time_limit(void)
{
    struct json_object *event;
    uint32_t parts = 0;
    bool ended = false;

    fixture_start();
    eventfd_write(fixture.host[0].stop_fd, 1);
    while (!ended && conn_wait(&fixture.host[0].owner, &event, PATIENCE_MS) == 0) {
        const char *what = emu_json_text(event, "event", "");

        parts += strcmp(what, "ending") == 0;
        ended = strcmp(what, "ended") == 0;
        json_object_put(event);
    }
    CU_ASSERT_TRUE(ended);
    CU_ASSERT_EQUAL(parts, 3);
    fixture_end();
    fixture_free();
}

/* Other requests are answered between checks, even if there is always another check waiting. */
static void audit__without_end_delays_no_request_for_long(void)
{
    struct conn conn[3];

    fixture_make("oq2004", false);
    slow_channel_begin(2, (struct slow_channel){.audit_ms = SLOW_MS / 4});
    fixture_go();
    for (uint32_t c = 0; c < 2; c++) {
        connects(&conn[c], 0);
        for (uint32_t i = 0; i < 6; i++)
            puts_request(&conn[c], command("check"));
    }
    puts_attach(&conn[2]);
    CU_ASSERT_EQUAL(error_of_next(&conn[2]), 0);
    CU_ASSERT_TRUE(slow_channel.audits <= 3);
    for (uint32_t c = 0; c < 3; c++)
        conn_close(&conn[c]);
    fixture_end();
    pthread_join(slow_channel.thread, NULL);
    fixture_free();
}

/* Count the events "host_lost" that the supervisor has got so far. */
static uint32_t hosts_lost(void)
{
    struct json_object *event;
    uint32_t lost = 0;

    while (has_word(&fixture.host[0].owner) &&
           conn_wait(&fixture.host[0].owner, &event, PATIENCE_MS) == 0) {
        lost += strcmp(emu_json_text(event, "event", ""), "host_lost") == 0;
        json_object_put(event);
    }
    return lost;
}

/*
 * While a host audits its part, or pretends to, requests that call hosts wait, and the daemon
 * answers other requests. A host that audits for longer than a query may take is not lost.
 */
static void audit__delays_only_requests_that_call_hosts(void)
{
    static const int audit_ms[] = {3 * SLOW_MS, -1};
    struct conn conn[3];

    for (uint32_t i = 0; i < 2; i++) {
        fixture_make("oq2004", false);
        fixture.hosts.query_ms = 2 * SLOW_MS;
        slow_channel_begin(2, (struct slow_channel){.audit_ms = audit_ms[i]});
        fixture_go();
        connects(&conn[0], 0);
        puts_request(&conn[0], command("check"));
        puts_attach(&conn[1]);
        poll(NULL, 0, SLOW_MS / 2); /* then the first query has ended, unless it waits */
        connects(&conn[2], 0);
        puts_request(&conn[2], json_add_number(command("fault_clear_all"), "n", 1));
        CU_ASSERT_EQUAL(error_of_next(&conn[2]), ENOSYS);
        if (audit_ms[i] < 0) {
            CU_ASSERT_FALSE(has_word(&conn[1]));
        } else {
            CU_ASSERT_EQUAL(error_of_next(&conn[0]), 0);
            CU_ASSERT_EQUAL(error_of_next(&conn[1]), 0);
            CU_ASSERT_EQUAL(hosts_lost(), 0);
        }
        for (uint32_t c = 0; c < 3; c++)
            conn_close(&conn[c]);
        fixture_end();
        pthread_join(slow_channel.thread, NULL);
        fixture_free();
    }
}

static void host_lost__reports_its_processes_dead(void)
{
    struct conn conn[HOSTS];
    struct json_object *event;
    int64_t node[HOSTS];

    fixture_start();
    for (uint32_t h = 0; h < HOSTS; h++)
        node[h] = attach(&conn[h], h, -1);
    shutdown(fixture.tap[1], SHUT_RDWR);
    event = next_event(&fixture.host[0].owner, "host_lost");
    CU_ASSERT_STRING_EQUAL(emu_json_text(event, "name", ""), "green");
    json_object_put(event);
    event = next_event(&conn[2], "node_died");
    CU_ASSERT_EQUAL(emu_json_number(event, "node", -1), node[1]);
    json_object_put(event);
    event = next_event(&fixture.host[0].owner, "node_died");
    CU_ASSERT_STRING_EQUAL(emu_json_text(event, "how", ""), "its host green was lost");
    json_object_put(event);
    host_join(&fixture.host[1]);
    CU_ASSERT_EQUAL(fixture.host[1].end, AGENT_LOST);
    event = next_event(&conn[1], "shutdown"); /* there, too, all are notified */
    json_object_put(event);
    CU_ASSERT_TRUE(
        create_group(&conn[0], (const uint32_t[]){(uint32_t)node[0], (uint32_t)node[2]}, 2) >= 0);
    for (uint32_t h = 0; h < HOSTS; h++)
        conn_close(&conn[h]);
    fixture_end();
    fixture_free();
}

/* --- failures of hosts and links ---------------------------------------------------------- */

static void tables_agree(void)
{
    const struct topo_graph *first = fixture.host[0].fabric->links.routed;

    for (uint32_t h = 1; h < HOSTS; h++)
        for (uint32_t s = 0; s < first->switches; s++)
            for (uint32_t n = 0; n < NODES; n++)
                CU_ASSERT(emu_ports_equal(
                    topo_route_ports(&fixture.host[h].fabric->links.routed->sw[s].route, n),
                    topo_route_ports(&first->sw[s].route, n)));
}

/* Does any table of the coordinator use a cable between hosts @a and @b? */
static bool tables_cross(uint32_t a, uint32_t b)
{
    const struct topo_graph *routed = fixture.host[0].fabric->links.routed;
    bool cross = false;

    for (uint32_t s = 0; s < routed->switches; s++)
        for (uint32_t n = 0; n < NODES; n++)
            for (uint32_t p = 0; p < routed->ports; p++) {
                const struct topo_end *end = &fixture.graph->sw[s].end[p];

                if (emu_ports_has(topo_route_ports(&routed->sw[s].route, n), p) &&
                    end->kind == TOPO_END_SWITCH)
                    cross = cross || (fixture.of[s] == a && fixture.of[end->id] == b) ||
                            (fixture.of[s] == b && fixture.of[end->id] == a);
            }
    return cross;
}

static void link_lost__all_reroute(void)
{
    struct conn conn[HOSTS], heard;
    uint32_t nodes[HOSTS];

    fixture_start_as("qsnet3");
    for (uint32_t h = 0; h < HOSTS; h++)
        nodes[h] = (uint32_t)attach(&conn[h], h, -1);
    connects(&heard, 0);
    json_object_put(query(&heard, command("subscribe")));
    close(fixture.link_end); /* the session has ended */
    json_object_put(next_event(&heard, "host_link_lost"));
    json_object_put(next_event(&heard, "tables"));
    CU_ASSERT_TRUE(create_group(&conn[0], nodes, HOSTS) >= 0);
    fixture_end();
    CU_ASSERT_FALSE(tables_cross(1, 2));
    CU_ASSERT_TRUE(tables_cross(0, 1));
    tables_agree();
    replicas_agree();
    for (uint32_t a = 0; a < HOSTS; a++)
        for (uint32_t b = 0; b < HOSTS; b++)
            CU_ASSERT_TRUE(fabric_reaches(fixture.host[0].fabric, nodes[a], nodes[b]));
    for (uint32_t h = 0; h < HOSTS; h++)
        conn_close(&conn[h]);
    conn_close(&heard);
    fixture_free();
}

/* --- faults --------------------------------------------------------------------------------- */

/* Inject a fault; returns its number. */
static int64_t add_fault(struct conn *conn, const char *text)
{
    struct json_object *reply = query(conn, json_add_text(command("fault"), "fault", text));
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
        query(conn, json_add_number(command("fault_clear"), "fault", (uint64_t)id));

    CU_ASSERT_TRUE(emu_json_true(reply, "ok"));
    json_object_put(reply);
}

/* A cable between switches of hosts @a and @b, as "link=S:P". */
static uint32_t cable_between(uint32_t a, uint32_t b, char text[static 32])
{
    const struct fabric *fabric = fixture.host[0].fabric;

    for (uint32_t i = 0; i < fabric_cable_count(fabric); i++) {
        const struct fabric_cable *cable = fabric_cable(fabric, i);

        if (cable->kind != TOPO_END_SWITCH)
            continue;
        if ((fixture.of[cable->at.sw] == a && fixture.of[cable->peer.sw] == b) ||
            (fixture.of[cable->at.sw] == b && fixture.of[cable->peer.sw] == a)) {
            snprintf(text, 32, "link=%u:%u", cable->at.sw, cable->at.port);
            return i;
        }
    }
    CU_FAIL_FATAL("there is no such cable");
    return 0;
}

/* Wait for the event "link" with this state. */
static void await_link_event(struct conn *conn, const char *state)
{
    for (;;) {
        struct json_object *event = next_event(conn, "link");
        bool is_it = strcmp(emu_json_text(event, "state", ""), state) == 0;

        json_object_put(event);
        if (is_it)
            return;
    }
}

/*
 * All replicas, which are not served any more, have the same links out of service. Returns how
 * many.
 */
static uint32_t count_agreed_links(void)
{
    const struct fabric *first = fixture.host[0].fabric;
    uint32_t out = 0;

    for (uint32_t i = 0; i < fabric_cable_count(first); i++) {
        out += fabric_link_is_out(first, i);
        for (uint32_t h = 1; h < HOSTS; h++)
            CU_ASSERT_EQUAL(fabric_link_is_out(fixture.host[h].fabric, i),
                            fabric_link_is_out(first, i));
    }
    return out;
}

/* The fabric on host @h logs @times hits of a fault by one of its switches. */
static void logs_hits(uint32_t h, int64_t fault, uint32_t times)
{
    struct fabric *fabric = fixture.host[h].fabric;
    struct emu_fault_hit hit = {.fault = (uint32_t)fault, .what = EMU_FAULT_FLIP_ANY};

    while (fabric_direction_host(fabric, hit.cable, true) != h ||
           fabric_direction_host(fabric, hit.cable, false) != h)
        hit.cable++;
    CU_ASSERT_PTR_NOT_NULL_FATAL(fabric->links.log[0]);
    while (times--)
        emu_fault_log_put(fabric->links.log[0], &hit);
}

/* However many hits host 1 logs, the report lists those of host 2, and none of unknown faults. */
static void report__has_space_for_the_hits_of_each_host(void)
{
    struct json_object *reply, *list;
    struct conn conn;
    int64_t fault;

    fixture_start_as("qsnet3");
    connects(&conn, 0);
    fault = add_fault(&conn, "bit-errors link=any rate=1e-9");
    logs_hits(1, fault + 1, 10);
    logs_hits(1, fault, 200);
    json_object_put(query(&conn, command("report")));
    logs_hits(2, fault, 1);
    reply = query(&conn, command("report"));
    list = json_object_object_get(json_object_object_get(reply, "report"), "hits");
    CU_ASSERT_EQUAL(emu_json_count(list), 100 / 2 + 1);
    for (size_t i = 0; i < emu_json_count(list); i++)
        CU_ASSERT_EQUAL(emu_json_number(emu_json_at(list, i), "fault", 0), fault);
    json_object_put(reply);
    conn_close(&conn);
    fixture_end();
    fixture_free();
}

/*
 * Host 1 does not reply in time. The long reply of host 2 arrives meanwhile, so only host 1 is
 * lost.
 */
static void slow_host__costs_no_other_host(void)
{
    struct json_object *event, *reply;
    struct conn conn;
    int64_t fault;

    fixture_make("qsnet3", false);
    fixture.hosts.call_ms = SLOW_MS;
    slow_channel_begin(1, (struct slow_channel){.reply_ms = 0});
    fixture_go();
    connects(&conn, 0);
    fault = add_fault(&conn, "bit-errors link=any rate=1e-9");
    slow_channel.log_ms = 2 * SLOW_MS;
    logs_hits(2, fault, 200);
    json_object_put(query(&conn, command("report")));
    event = next_event(&fixture.host[0].owner, "host_lost");
    CU_ASSERT_STRING_EQUAL(emu_json_text(event, "name", ""), names[1]);
    json_object_put(event);
    reply = query(&conn, command("report"));
    for (uint32_t h = 1; h < HOSTS; h++)
        CU_ASSERT_STRING_EQUAL(
            emu_json_text(emu_json_at(json_object_object_get(
                                          json_object_object_get(reply, "report"), "hosts"),
                                      h),
                          "state", ""),
            h == 1 ? "lost" : "up");
    json_object_put(reply);
    conn_close(&conn);
    fixture_end();
    pthread_join(slow_channel.thread, NULL);
    fixture_free();
}

/* Rules were applied to every cable at its receiving end, and all were reverted. */
static void fault__applies_at_the_device(void)
{
    struct conn conn;

    fixture_start_as("qsnet3");
    CU_ASSERT_EQUAL(attach(&conn, 1, 4), 4);
    add_fault(&conn, "bit-errors link=any rate=0.5");
    add_fault(&conn, "stuck-port random=50%");
    add_fault(&conn, "on=multicast:3 loss link=any rate=0.5");
    add_fault(&conn, "at=1000s node-freeze node=4");
    conn_close(&conn);
    fixture_end();
    for (uint32_t h = 0; h < HOSTS; h++)
        for (uint32_t w = 0; w < 2 * fabric_cable_count(fixture.host[h].fabric); w++) {
            const struct fabric *fabric = fixture.host[h].fabric;
            const struct emu_faults *faults = fabric_faults_of(fabric, w / 2, w % 2);

            CU_ASSERT_EQUAL(faults != NULL, fabric_cable_ends_here(fabric, w / 2, w % 2));
            CU_ASSERT_EQUAL(faults ? faults->rules : 0, 0);
            CU_ASSERT_FALSE(fabric_port_is_stuck(fabric, w / 2, w % 2));
        }
    fixture_free();
}

/* Combine units on all hosts are out of service for every group; then all are available again. */
static void fault__of_combine_units_reaches_all_hosts(void)
{
    struct conn conn[HOSTS];
    uint32_t nodes[HOSTS];
    int64_t fault, group;

    fixture_start();
    for (uint32_t h = 0; h < HOSTS; h++)
        nodes[h] = (uint32_t)attach(&conn[h], h, -1);
    fault = add_fault(&conn[2], "combine-exhaust switch=any");
    CU_ASSERT_TRUE(create_group(&conn[0], nodes, HOSTS) < 0);
    clears(&conn[1], fault);
    add_fault(&conn[2], "combine-stall switch=any");
    add_fault(&conn[2], "combine-flip switch=any rate=0.1");
    group = create_group(&conn[0], nodes, HOSTS);
    CU_ASSERT_TRUE(group >= 0);
    fixture_end();
    for (uint32_t h = 0; h < HOSTS; h++)
        for (uint32_t s = 0; s < fixture.graph->switches; s++) {
            CU_ASSERT_FALSE(fixture.host[h].fabric->combine[s].exhausted);
            CU_ASSERT_EQUAL(fabric_combine_faults_of(fixture.host[h].fabric, s) != NULL,
                            fixture.of[s] == h);
        }
    replicas_agree();
    for (uint32_t h = 0; h < HOSTS; h++)
        conn_close(&conn[h]);
    fixture_free();
}

/* Links of all hosts, and between any two, go down and come up: one manager handles all. */
static void link_down__reaches_all_hosts(void)
{
    struct conn conn, heard;
    char text[80], where[32];
    int64_t fault;

    fixture_start_as("qsnet3");
    CU_ASSERT_EQUAL(attach(&conn, 1, 4), 4);
    connects(&heard, 0);
    json_object_put(query(&heard, command("subscribe")));
    for (uint32_t a = 0; a < HOSTS; a++)
        for (uint32_t b = a; b < HOSTS; b++) {
            cable_between(a, b, where);
            snprintf(text, sizeof text, "link-down %s", where);
            fault = add_fault(&conn, text);
            json_object_put(next_event(&heard, "tables"));
            clears(&conn, fault);
            await_link_event(&heard, "up");
            json_object_put(next_event(&heard, "tables"));
        }
    conn_close(&heard);
    conn_close(&conn);
    fixture_end();
    CU_ASSERT_EQUAL(count_agreed_links(), 0);
    tables_agree();
    for (uint32_t h = 0; h < HOSTS; h++)
        for (uint32_t s = 0; s < fixture.graph->switches; s++)
            for (uint32_t n = 0; n < NODES; n++)
                CU_ASSERT(emu_ports_equal(
                    topo_route_ports(&fixture.host[h].fabric->links.routed->sw[s].route, n),
                    topo_route_ports(&fixture.graph->sw[s].route, n)));
    fixture_free();
}

/* With random faults, replicas agree, with and without links out of service. */
static void faults__keep_replicas_equal(void)
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

    fixture_start_as("qsnet3");
    for (uint32_t h = 0; h < HOSTS; h++)
        nodes[h] = (uint32_t)attach(&conn[h], h, -1);
    for (uint32_t turn = 0; turn < 40; turn++) {
        uint32_t what = (uint32_t)test_draw(&random, 0, 11), who = turn % HOSTS;

        if (what < 8 && count < 32)
            fault[count++] = add_fault(&conn[who], texts[what]);
        else if (what < 10)
            create_group(&conn[who], nodes, HOSTS);
        else if (count)
            clears(&conn[who], fault[--count]);
    }
    fixture_end();
    count_agreed_links();
    tables_agree();
    replicas_agree();
    for (uint32_t h = 0; h < HOSTS; h++)
        conn_close(&conn[h]);
    fixture_free();
}

/* The end of a fault does not restore a cable whose host link is lost. */
static void fault__end_does_not_restore_a_lost_host_link(void)
{
    struct conn conn, heard;
    char text[80], where[32];
    int64_t fault, other;
    uint32_t cable;

    fixture_start_as("qsnet3");
    CU_ASSERT_TRUE(attach(&conn, 0, -1) >= 0);
    connects(&heard, 0);
    json_object_put(query(&heard, command("subscribe")));
    cable = cable_between(1, 2, where);
    snprintf(text, sizeof text, "link-down %s", where);
    fault = add_fault(&conn, text);
    close(fixture.link_end);
    json_object_put(next_event(&heard, "host_link_lost"));
    clears(&conn, fault);
    cable_between(0, 0, where);
    snprintf(text, sizeof text, "link-down %s", where);
    other = add_fault(&conn, text);
    clears(&conn, other); /* its link is up later than the other would be */
    await_link_event(&heard, "up");
    conn_close(&heard);
    conn_close(&conn);
    fixture_end();
    for (uint32_t h = 0; h < HOSTS; h++)
        CU_ASSERT_TRUE(fabric_link_is_out(fixture.host[h].fabric, cable));
    CU_ASSERT_EQUAL(count_agreed_links(),
                    fabric_crossings_by(fixture.host[0].fabric, 1, 2, 0, 1, (bool[1024]){false}));
    fixture_free();
}

static bool has_number(struct json_object *list, int64_t number)
{
    for (size_t i = 0; i < json_object_array_length(list); i++)
        if (json_object_get_int64(json_object_array_get_idx(list, i)) == number)
            return true;
    return false;
}

/* Without acknowledgments: part of the traffic between 0 and 2 used the top switch on host 1. */
static void host_lost__pairs_routed_through_it_are_reported(void)
{
    struct conn conn[HOSTS];
    int64_t node[HOSTS];

    fixture_start();
    for (uint32_t h = 0; h < HOSTS; h++)
        node[h] = attach(&conn[h], h, -1);
    shutdown(fixture.tap[1], SHUT_RDWR);
    for (uint32_t h = 0; h < HOSTS; h += 2) {
        struct json_object *event = next_event(&conn[h], "nodes_partitioned");
        struct json_object *list = json_object_object_get(event, "nodes");

        CU_ASSERT_TRUE(has_number(list, node[2 - h]));
        json_object_put(event);
    }
    for (uint32_t h = 0; h < HOSTS; h++)
        conn_close(&conn[h]);
    host_join(&fixture.host[1]);
    fixture_end();
    /* through one switch, on this host */
    CU_ASSERT_TRUE(fabric_reaches(fixture.host[0].fabric, 0, 1));
    fixture_free();
}

/* --- returning hosts ----------------------------------------------------------------------- */

static uint32_t descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    uint32_t count = 0;

    while (dir && readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* The hosts are not served any more: a returned host has the same state as all others. */
static void check_replicas(void)
{
    const struct fabric *first = fixture.host[0].fabric;

    replicas_agree();
    tables_agree();
    count_agreed_links();
    for (uint32_t h = 1; h < HOSTS; h++) {
        const struct fabric *fabric = fixture.host[h].fabric;

        CU_ASSERT_EQUAL(fabric->spare_bufs, first->spare_bufs);
        CU_ASSERT_EQUAL(fabric->combining, first->combining);
        for (uint32_t slot = 0; slot < FABRIC_GROUPS_MAX; slot++) {
            const struct fabric_group *a = first->group[slot], *b = fabric->group[slot];

            if (!a || !b)
                continue;
            CU_ASSERT_EQUAL(a->id, b->id);
            CU_ASSERT_EQUAL(a->failed, b->failed);
            CU_ASSERT_EQUAL_FATAL(a->tree.count, b->tree.count);
            for (uint32_t i = 0; i < a->tree.count; i++) {
                CU_ASSERT_EQUAL(a->tree.switches[i].sw, b->tree.switches[i].sw);
                CU_ASSERT(emu_ports_equal(a->tree.switches[i].ports, b->tree.switches[i].ports));
            }
        }
    }
}

static void check_is_right(struct conn *conn)
{
    struct json_object *reply = query(conn, command("check"));
    struct json_object *check = field(reply, "check");

    if (!emu_json_true(check, "right"))
        printf("\n    %s\n    ", json_object_to_json_string(check));
    CU_ASSERT_TRUE(emu_json_true(check, "right"));
    json_object_put(reply);
}

/* All links are in use again, and the tables include them. */
static void check_links_up(struct conn *conn)
{
    int64_t until_ms = emu_now_ms() + PATIENCE_MS, out = 1;
    bool partitioned = true;

    while ((out || partitioned) && emu_now_ms() < until_ms) {
        struct json_object *reply = query(conn, command("report"));
        struct json_object *links = json_object_object_get(field(reply, "report"), "links");

        out = emu_json_number(links, "out_now", 0);
        json_object_put(reply);
        reply = query(conn, command("check"));
        partitioned = emu_json_number(field(reply, "check"), "partitioned", 0) != 0;
        json_object_put(reply);
        poll(NULL, 0, 2);
    }
    CU_ASSERT_EQUAL(out, 0);
    CU_ASSERT_FALSE(partitioned);
    check_is_right(conn);
}

/*
 * Inject faults before and while a host is lost: one ends, one does not. Returns the number of the
 * second.
 */
static int64_t some_faults(struct conn *conn, const char *profile, uint64_t *random)
{
    static const char *const acknowledged[] = {"link-down random", "bit-errors link=any rate=1e-2",
                                               "partition nodes=0-2",
                                               "on=multicast:3 loss link=any rate=0.5",
                                               "stuck-port random"};
    static const char *const not [] = {"combine-exhaust random", "combine-stall random",
                                       "combine-flip switch=any rate=0.1"};
    bool acks = strcmp(profile, "qsnet3") == 0;
    uint32_t which = (uint32_t)test_draw(random, 0, acks ? 4 : 2);
    const char *text = acks ? acknowledged[which] : not [which];

    clears(conn, add_fault(conn, text));
    return add_fault(conn, text);
}

struct comings {
    const char *profile;
    struct conn stays[2], comes;
    uint32_t nodes[3];
    int64_t group[64], fault[64];
    uint32_t groups, faults;
    uint64_t random;
};

static void comings_make(struct comings *c, uint32_t who, uint32_t count)
{
    c->group[c->groups] = create_group(&c->stays[who], c->nodes, count);
    c->groups += c->group[c->groups] >= 0;
}

/* Host 1 is lost and returns. */
static void host_goes_and_returns(struct comings *c, uint32_t turn)
{
    struct json_object *died;

    c->nodes[2] = (uint32_t)attach(&c->comes, 1, 4);
    CU_ASSERT_EQUAL(c->nodes[2], 4);
    comings_make(c, 0, 3);
    comings_make(c, turn % 2, 2);
    c->fault[c->faults++] = some_faults(&c->stays[0], c->profile, &c->random);
    lose_host(1);
    died = next_event(&c->stays[1], "node_died");
    CU_ASSERT_EQUAL(emu_json_number(died, "node", 0), 4);
    CU_ASSERT_EQUAL(emu_json_number(died, "incarnation", 0), turn + 1); /* of this incarnation */
    json_object_put(died);
    comings_make(c, 0, 2);
    c->fault[c->faults++] = some_faults(&c->stays[1], c->profile, &c->random);
    conn_close(&c->comes);
    host_returns(1);
    while (c->faults > 2)
        clears(&c->stays[0], c->fault[--c->faults]);
    while (c->groups > 4) {
        c->groups--;
        for (uint32_t i = 0; i < 2; i++)
            of_group(&c->stays[i], "group_leave", c->group[c->groups]);
    }
}

/*
 * Again and again: all hosts then have the same state, its nodes can be attached, and nothing has
 * leaked.
 */
static void return_with_profile(const char *profile, const char *set, uint32_t times)
{
    struct comings c = {.profile = profile, .random = test_seed()};
    uint32_t fds = 0;

    fixture_make_as(profile, set, true);
    fixture_go();
    c.nodes[0] = (uint32_t)attach(&c.stays[0], 0, -1);
    c.nodes[1] = (uint32_t)attach(&c.stays[1], 2, -1);
    for (uint32_t turn = 0; turn < times; turn++) {
        host_goes_and_returns(&c, turn);
        fds = turn ? fds : descriptors();
        CU_ASSERT_EQUAL(descriptors(), fds);
    }
    c.nodes[2] = (uint32_t)attach(&c.comes, 1, -1);
    while (c.faults)
        clears(&c.comes, c.fault[--c.faults]);
    check_links_up(&c.comes);
    CU_ASSERT_TRUE(create_group(&c.comes, c.nodes, 3) >= 0);
    fixture_end();
    CU_ASSERT_EQUAL(count_agreed_links(), 0);
    check_replicas();
    conn_close(&c.comes);
    conn_close(&c.stays[0]);
    conn_close(&c.stays[1]);
    fixture_free();
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RETURNS 3 /* sanitizers make it thirty times as slow */
#else
#define RETURNS 10
#endif

static void host_back__again_and_again(void)
{
    return_with_profile("oq2004", NULL, RETURNS);
    return_with_profile("qsnet3", NULL, RETURNS);
    return_with_profile("qsnet3", "broadcast_trees=2", RETURNS / 3);
}

/* At whatever stage of its incarnation. */
static void host_dies(uint32_t h)
{
    shutdown(fixture.tap[h], SHUT_RDWR);
    host_join(&fixture.host[h]);
    host_free(&fixture.host[h]);
    close(fixture.tap[h]);
}

/* All hosts are up, as @conn reports, and no link is missing. */
static bool all_are_up(struct conn *conn)
{
    int64_t until_ms = emu_now_ms() + PATIENCE_MS;
    uint32_t up = 0;

    while (up < HOSTS - 1 && emu_now_ms() < until_ms) {
        struct json_object *reply = query(conn, command("report"));
        struct json_object *hosts = field(field(reply, "report"), "hosts");

        up = 0;
        for (size_t h = 1; h < HOSTS; h++)
            up += strcmp(emu_json_text(json_object_array_get_idx(hosts, h), "state", ""), "up") ==
                  0;
        json_object_put(reply);
    }
    return up == HOSTS - 1;
}

/*
 * All hosts but the coordinator are lost and return at once, and die again just after their start.
 */
static void return_at_once(const char *profile, uint32_t times)
{
    uint64_t random = test_seed();
    struct conn conn, comes;

    fixture_make(profile, true);
    fixture_go();
    CU_ASSERT_TRUE(attach(&conn, 0, -1) >= 0);
    for (uint32_t turn = 0; turn < times; turn++) {
        for (uint32_t h = 1; h < HOSTS; h++)
            host_dies(h);
        for (uint32_t h = 1; h < HOSTS; h++)
            restart_host(h);
        for (uint32_t next_channel = 0; next_channel < 3; next_channel++) {
            uint32_t h = (uint32_t)test_draw(&random, 1, HOSTS - 1);

            poll(NULL, 0, (int)test_draw(&random, 0, 30));
            host_dies(h);
            restart_host(h);
        }
        CU_ASSERT_TRUE_FATAL(all_are_up(&conn));
        check_links_up(&conn);
        CU_ASSERT_EQUAL(attach(&comes, 1, 3), 3);
        conn_close(&comes);
        CU_ASSERT_EQUAL(attach(&comes, 2, 8), 8);
        conn_close(&comes);
    }
    fixture_end();
    check_replicas();
    conn_close(&conn);
    fixture_free();
}

static void host_back__two_at_once_and_twice_in_a_row(void)
{
    return_at_once("oq2004", RETURNS / 3);
    return_at_once("qsnet3", RETURNS / 3);
}

/* Does the group's tree, in the coordinator's copy, use a switch of host @h? */
static bool uses_host(int64_t id, uint32_t h)
{
    const struct fabric_group *group = fixture.host[0].fabric->group[id % FABRIC_GROUPS_MAX];

    for (uint32_t i = 0; group && i < group->tree.count; i++)
        if (fixture.of[group->tree.switches[i].sw] == h)
            return true;
    return false;
}

/*
 * Switches combine: the partial results in a lost host's units are gone. So a group whose tree uses
 * one of its switches has failed, even without members there. The other groups continue.
 */
static void host_lost__groups_combined_there_fail(void)
{
    struct conn conn[2];
    uint32_t nodes[2], through = 0;
    int64_t group[6];
    bool was[6];

    fixture_make_as("qsnet3", "combining=switch", true);
    fixture_go();
    nodes[0] = (uint32_t)attach(&conn[0], 0, -1);
    nodes[1] = (uint32_t)attach(&conn[1], 2, -1);
    for (uint32_t g = 0; g < 6; g++) {
        group[g] = create_group(&conn[0], nodes, 2);
        CU_ASSERT_TRUE_FATAL(group[g] >= 0);
        for (uint32_t i = 0; i < 2; i++)
            CU_ASSERT_EQUAL(of_group(&conn[i], "group_join", group[g]), 0);
        was[g] = uses_host(group[g], 1); /* the coordinator has answered, and is idle */
        through += was[g];
    }
    CU_ASSERT_TRUE(through > 0 && through < 6);
    lose_host(1);
    for (uint32_t g = 0; g < through; g++) {
        struct json_object *event = next_event(&conn[1], "groups_broken");
        int64_t id = json_object_get_int64(
            json_object_array_get_idx(json_object_object_get(event, "groups"), 0));

        CU_ASSERT_TRUE(uses_host(id, 1));
        CU_ASSERT_PTR_NOT_NULL(strstr(emu_json_text(event, "why", ""), "green"));
        json_object_put(event);
    }
    host_returns(1);
    fixture_end();
    for (uint32_t g = 0; g < 6; g++) {
        const struct fabric_group *at = fixture.host[1].fabric->group[group[g] % FABRIC_GROUPS_MAX];

        CU_ASSERT_EQUAL_FATAL(at ? (int64_t)at->id : -1, group[g]);
        CU_ASSERT_EQUAL(at->failed, was[g]);
    }
    check_replicas();
    conn_close(&conn[0]);
    conn_close(&conn[1]);
    fixture_free();
}

/* Is a cable between these hosts severed in the coordinator's copy? */
static bool is_severed(uint32_t a, uint32_t b)
{
    const struct fabric *fabric = fixture.host[0].fabric;
    bool noted[ENDS_MAX] = {false}, severed = false;

    CU_ASSERT_TRUE_FATAL(fabric_cable_count(fabric) <= ENDS_MAX);
    CU_ASSERT_TRUE(fabric_crossings_by(fabric, a, b, 0, 1, noted) > 0);
    for (uint32_t i = 0; i < fabric_cable_count(fabric); i++)
        severed = severed || (noted[i] && fabric->links.severed[i]);
    return severed;
}

/* Both hosts return; one of them is lost again between the repair of the two hosts' links. */
static void host_back__keeps_its_links_when_another_is_lost(void)
{
    fixture_make("oq2004", true);
    fixture.loss_countdown = 2;
    fixture.hosts.links_rejoin = rejoins_and_loses;
    fixture_go();
    for (uint32_t h = 1; h < HOSTS; h++)
        lose_host(h);
    for (uint32_t h = 1; h < HOSTS; h++)
        restart_host(h);
    await_return(1);
    host_join(&fixture.host[2]);
    CU_ASSERT_EQUAL(fixture.host[2].end, AGENT_LOST);
    close(next_control(2));
    fixture_end();
    CU_ASSERT_FALSE(is_severed(0, 1));
    CU_ASSERT_TRUE(is_severed(0, 2));
    CU_ASSERT_TRUE(is_severed(1, 2));
    fixture_free();
}

/* It announces itself and disappears; it sends something else; then it returns. */
static void host_back__dies_while_it_joins(void)
{
    static const char *const lines[] = {"",
                                        "{\"here\":1}\n",
                                        "{\"hit\":1,\"fault\":1}\n",
                                        "nonsense\n",
                                        "{\"here\":1}\n{\"client\":0,\"new\":7}\n",
                                        "{\"here\":1}\nnonsense\n"};
    struct conn conn;

    fixture_make("qsnet3", true);
    fixture_go();
    CU_ASSERT_TRUE(attach(&conn, 0, -1) >= 0);
    lose_host(1);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        int fd = next_control(1);

        CU_ASSERT_EQUAL(send(fd, lines[i], strlen(lines[i]), MSG_NOSIGNAL),
                        (ssize_t)strlen(lines[i]));
        close(fd);
    }
    host_returns(1);
    conn_close(&conn);
    CU_ASSERT_EQUAL(attach(&conn, 1, 3), 3);
    fixture_end();
    check_replicas();
    conn_close(&conn);
    fixture_free();
}

static void send_line(uint32_t h, const char *line)
{
    CU_ASSERT_EQUAL(send(fixture.tap[h], line, strlen(line), MSG_NOSIGNAL), (ssize_t)strlen(line));
}

static void host__reports_its_own_devices_only(void)
{
    struct json_object *event;
    struct conn conn;

    fixture_start();
    CU_ASSERT_EQUAL(attach(&conn, 1, 3), 3);
    send_line(1, "{\"cut_off\":0}\n{\"cut_off\":-1}\n{\"cut_off\":900}\n");
    send_line(1, "{\"link_lost\":{\"host\":1,\"number\":0,\"of\":1}}\n{\"link_lost\":7}\n");
    send_line(1, "{\"link_lost\":{\"host\":64,\"number\":0,\"of\":1}}\n");
    send_line(1, "{\"link_lost\":{\"host\":2,\"number\":1,\"of\":1}}\n");
    send_line(1, "{\"link_lost\":{\"host\":2,\"number\":0,\"of\":0}}\n{\"cut_off\":3}\n");
    event = next_event(&fixture.host[0].owner, "cut_off");
    CU_ASSERT_EQUAL(emu_json_number(event, "node", -1), 3);
    json_object_put(event);
    fixture_end();
    for (uint32_t a = 0; a < NODES; a++)
        CU_ASSERT_TRUE(fabric_reaches(fixture.host[0].fabric, a, NODES - 1));
    conn_close(&conn);
    fixture_free();
}

/*
 * Each report is passed on once. Otherwise a host that repeats its reports would fill the buffers
 * of the supervisor and the subscribers, and the fabric would close their connections.
 */
static void host__repeated_reports_count_once(void)
{
    struct conn conn, heard;
    struct json_object *event;

    fixture_start_as("qsnet3");
    CU_ASSERT_EQUAL(attach(&conn, 1, 3), 3);
    connects(&heard, 0);
    json_object_put(query(&heard, command("subscribe")));
    for (uint32_t i = 0; i < 3; i++)
        send_line(1, "{\"cut_off\":4}\n{\"cut_off\":3}\n"
                     "{\"link_lost\":{\"host\":2,\"number\":0,\"of\":1}}\n");
    send_line(1, "{\"link_lost\":{\"host\":0,\"number\":0,\"of\":1}}\n");
    for (uint32_t i = 0; i < 2; i++) {
        event = next_event(&heard, "host_link_lost");
        CU_ASSERT_STRING_EQUAL(emu_json_text(event, "to", ""), names[i ? 0 : 2]);
        json_object_put(event);
    }
    event = query(&heard, command("report"));
    CU_ASSERT_EQUAL(emu_json_number(field(field(event, "report"), "processes"), "cut_off", 0), 1);
    json_object_put(event);
    conn_close(&heard);
    conn_close(&conn);
    fixture_end();
    fixture_free();
}

/*
 * Start a process that attaches on host 1. If it @stops, it stops itself, again after each SIGCONT.
 * Otherwise it reads until the connection ends.
 */
static pid_t attached_process(bool stops)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char line[96], reply[512];
    pid_t pid;

    snprintf(line, sizeof line, "{\"cmd\":\"attach\",\"version\":%u,\"want\":-1}\n",
             EMU_HOSTIF_VERSION);
    memcpy(to.sun_path, fixture.host[1].path, sizeof fixture.host[1].path);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        if (connect(fd, (struct sockaddr *)&to, sizeof to) ||
            send(fd, line, strlen(line), MSG_NOSIGNAL) < 0 || recv(fd, reply, sizeof reply, 0) <= 0)
            _exit(EXIT_FAILURE);
        while (stops)
            raise(SIGSTOP);
        while (recv(fd, reply, sizeof reply, 0) > 0)
            continue;
        _exit(EXIT_SUCCESS);
    }
    close(fd);
    return pid;
}

static void process__stopped_on_another_host_counts_as_dead(void)
{
    struct conn conn;
    struct json_object *event;
    pid_t pid;

    fixture_start();
    CU_ASSERT_TRUE(attach(&conn, 0, -1) >= 0);
    pid = attached_process(true);
    CU_ASSERT_TRUE_FATAL(pid > 0);
    json_object_put(next_event(&conn, "node_died"));
    event = next_event(&fixture.host[0].owner, "node_died");
    CU_ASSERT_EQUAL(emu_json_number(event, "pid", 0), pid);
    CU_ASSERT_STRING_EQUAL(emu_json_text(event, "how", ""),
                           "was stopped for too long (--bound stopped)");
    json_object_put(event);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    conn_close(&conn);
    fixture_end();
    fixture_free();
}

/* Wait until it is stopped, or (@stands false) is not stopped any more or has exited. */
static bool await_process_state(pid_t pid, bool stands)
{
    int64_t end_ms = emu_now_ms() + PATIENCE_MS;

    while (procs_is_stopped(pid) != stands && emu_now_ms() < end_ms)
        poll(NULL, 0, 1);
    return procs_is_stopped(pid) == stands;
}

/* Wait until @count processes are attached, as @conn reports. */
static bool await_processes(struct conn *conn, size_t count)
{
    int64_t end_ms = emu_now_ms() + PATIENCE_MS;
    bool is_so = false;

    while (!is_so && emu_now_ms() < end_ms) {
        struct json_object *reply = query(conn, command("status"));

        is_so = json_object_array_length(field(reply, "attached")) == count;
        json_object_put(reply);
    }
    return is_so;
}

/* The host that lost its coordinator continues the process; the supervisor is notified. */
static void process__frozen_continues_when_its_host_ends(void)
{
    struct json_object *event;
    struct conn conn;
    pid_t pid;

    for (int lost = 0; lost < 2; lost++) {
        fixture_start();
        pid = attached_process(false);
        CU_ASSERT_TRUE_FATAL(pid > 0);
        connects(&conn, 0);
        CU_ASSERT_TRUE(await_processes(&conn, 1));
        add_fault(&conn, "node-freeze node=3");
        CU_ASSERT_TRUE(await_process_state(pid, true));
        event = next_event(&fixture.host[1].owner, "frozen");
        CU_ASSERT_EQUAL(emu_json_number(event, "pid", 0), pid);
        json_object_put(event);
        if (lost)
            shutdown(fixture.tap[1], SHUT_RDWR);
        else
            eventfd_write(fixture.host[1].stop_fd, 1);
        CU_ASSERT_TRUE(await_process_state(pid, false));
        shutdown(fixture.tap[1],
                 SHUT_RDWR); /* as the end of its process does: nobody waits for it */
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        conn_close(&conn);
        fixture_end();
        fixture_free();
    }
}

/* --- connections on an agent's host --------------------------------------------------------- */

/* Limit open files to @most, or to the maximum. Returns the limit before. */
static rlim_t files_limited(rlim_t most)
{
    struct rlimit limit;
    rlim_t before;

    CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_NOFILE, &limit), 0);
    before = limit.rlim_cur;
    limit.rlim_cur = most < limit.rlim_max ? most : limit.rlim_max;
    CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return before;
}

/* The error in its answer to a request without arguments. */
static int64_t error_of_exit(struct conn *conn)
{
    struct json_object *reply = query(conn, command("exits"));
    int64_t err = emu_json_number(reply, "errno", 0);

    json_object_put(reply);
    return err;
}

#define CONNECTIONS (2 * NODES + 256) /* for as many nodes */

static void connections__of_one_process_leave_some_for_others(void)
{
    struct conn conn[CONNECTIONS];
    uint32_t count = 0;
    rlim_t before = files_limited(8192);
    int64_t err = 0;
    int status = 0;
    pid_t pid;

    fixture_start();
    while (!err && count < CONNECTIONS) {
        connects(&conn[count], 1);
        err = error_of_exit(&conn[count++]);
    }
    CU_ASSERT_EQUAL(err, EMFILE);
    pid = attached_process(true); /* when it is attached */
    CU_ASSERT_TRUE_FATAL(pid > 0);
    CU_ASSERT_EQUAL(waitpid(pid, &status, WUNTRACED), pid);
    CU_ASSERT_TRUE(WIFSTOPPED(status));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    while (count)
        conn_close(&conn[--count]);
    fixture_end();
    fixture_free();
    files_limited(before);
}

/* A host that claims to have more processes than there can be does not get all descriptors. */
static void connections__of_a_host_are_limited(void)
{
    uint32_t most = 2 * (NODES / HOSTS) + 256, files;
    rlim_t before = files_limited(8192);
    struct conn conn, attached;
    char lines[1 << 15];
    size_t bytes = 0;

    for (uint32_t i = 0; i < 2 * most; i++)
        bytes += (size_t)snprintf(lines + bytes, sizeof lines - bytes,
                                  "{\"client\":%u,\"new\":%u}\n", 1000 + i, 1000000 + i);
    CU_ASSERT_FATAL(bytes < sizeof lines);
    fixture_start();
    CU_ASSERT_EQUAL(attach(&attached, 1, 3), 3);
    files = descriptors();
    send_line(1, lines);
    send_line(1, "{\"cut_off\":3}\n");
    json_object_put(next_event(&fixture.host[0].owner, "cut_off"));
    CU_ASSERT_TRUE(descriptors() > files + most);
    CU_ASSERT_TRUE(descriptors() <= files + 2 * most); /* two for each connection */
    connects(&conn, 2);
    CU_ASSERT_EQUAL(error_of_exit(&conn), 0);
    conn_close(&conn);
    conn_close(&attached);
    fixture_end();
    fixture_free();
    files_limited(before);
}

static void connections__without_descriptors_are_reported(void)
{
    struct conn first, second;
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd, lowest;
    rlim_t before;

    fixture_start();
    memcpy(to.sun_path, fixture.host[1].path, sizeof fixture.host[1].path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    lowest = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    close(lowest);
    before = files_limited((rlim_t)lowest);
    CU_ASSERT_EQUAL_FATAL(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    conn_open(&first, fd, CONN_REPLY_MAX);
    CU_ASSERT_EQUAL(error_of_exit(&first), EMFILE);
    files_limited(before);
    connects(&second, 1);
    CU_ASSERT_EQUAL(error_of_exit(&second), 0);
    conn_close(&first);
    conn_close(&second);
    fixture_end();
    fixture_free();
}

/* It is killed after it has asked for a node, and others get that node. */
static void process__dead_before_its_reply_frees_its_node(void)
{
    char line[96];
    struct conn conn;
    int bytes = snprintf(line, sizeof line, "{\"cmd\":\"attach\",\"version\":%u,\"want\":4}\n",
                         EMU_HOSTIF_VERSION);

    fixture_start();
    for (uint32_t i = 0; i < 20; i++) {
        int64_t node = -1, end_ms = emu_now_ms() + PATIENCE_MS;

        connects(&conn, 1);
        CU_ASSERT_EQUAL(send(conn.fd, line, (size_t)bytes, MSG_NOSIGNAL), bytes);
        conn_close(&conn);
        while (node != 4 && emu_now_ms() < end_ms) {
            node = attach(&conn, 1, 4);
            conn_close(&conn);
        }
        CU_ASSERT_EQUAL_FATAL(node, 4);
    }
    connects(&conn, 0);
    CU_ASSERT_TRUE(await_processes(&conn, 0));
    conn_close(&conn);
    fixture_end();
    fixture_free();
}

/* The next line that it receives, as an error; -1: the end. */
static int64_t next_error(struct conn *conn)
{
    struct json_object *reply = NULL;
    int64_t err = -1;

    if (conn_wait(conn, &reply, PATIENCE_MS) == 0)
        err = emu_json_number(reply, "errno", 0);
    json_object_put(reply);
    return err;
}

static void sends(struct conn *conn, const char *text, size_t bytes)
{
    CU_ASSERT_EQUAL(send(conn->fd, text, bytes, MSG_NOSIGNAL), (ssize_t)bytes);
}

/* Same as on the coordinator. */
static void connection__half_closed_or_malformed_is_answered(void)
{
    static const char mixed[] = "{\"cmd\":\"exits\"}\nnonsense\n[]\n{\"cmd\":\"exits\"}\n";
    static const char three[] = "{\"cmd\":\"exits\"}\n{\"cmd\":\"report\"}\n{\"cmd\":1}\n{";
    static char longer[CONN_LINE_MAX + 2];
    struct conn conn;

    memset(longer, 'x', sizeof longer);
    fixture_start();
    for (uint32_t h = 0; h < 2; h++) {
        connects(&conn, h);
        sends(&conn, mixed, sizeof mixed - 1);
        CU_ASSERT_EQUAL(next_error(&conn), 0);
        CU_ASSERT_EQUAL(next_error(&conn), EBADMSG);
        CU_ASSERT_EQUAL(next_error(&conn), EBADMSG);
        CU_ASSERT_EQUAL(next_error(&conn), 0);
        sends(&conn, longer, sizeof longer);
        CU_ASSERT_EQUAL(next_error(&conn), EMSGSIZE);
        CU_ASSERT_EQUAL(next_error(&conn), -1);
        conn_close(&conn);
        connects(&conn, h);
        sends(&conn, three, sizeof three - 1);
        shutdown(conn.fd, SHUT_WR);
        CU_ASSERT_EQUAL(next_error(&conn), 0);
        CU_ASSERT_EQUAL(next_error(&conn), 0);
        CU_ASSERT_EQUAL(next_error(&conn), ENOSYS);
        CU_ASSERT_EQUAL(next_error(&conn), -1);
        conn_close(&conn);
    }
    fixture_end();
    fixture_free();
}

/* --- processes that flood ---------------------------------------------------------------- */

#define FLOOD_MOST  (64u << 20) /* bytes; far more than can be buffered anywhere */
#define FLOOD_QUIET 64 /* requests of another process, answered while the flood is blocked */

/* A request, padded to @bytes. */
static size_t padded(char *line, const char *name, size_t bytes)
{
    size_t at = (size_t)sprintf(line, "{\"cmd\":\"%s\",\"pad\":\"", name);

    memset(line + at, 'x', bytes);
    return at + bytes + (size_t)sprintf(line + at + bytes, "\"}\n");
}

/*
 * The flooding process blocks, and continues when it reads; others on its host are served all the
 * while.
 */
static void process__flooding_only_blocks_itself(void)
{
    static char line[4096];
    size_t bytes = padded(line, "report", 2000), sent = 0;
    struct conn flood, other;
    unsigned quiet = 0;
    ssize_t got;

    fixture_start();
    connects(&flood, 1);
    connects(&other, 1);
    while (quiet < FLOOD_QUIET && sent < FLOOD_MOST) {
        got =
            send(flood.fd, line + sent % bytes, bytes - sent % bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (got < 0 && errno != EAGAIN)
            break;
        quiet = got < 0 ? quiet + 1 : 0;
        sent += got < 0 ? 0 : (size_t)got;
        if (got < 0)
            CU_ASSERT_EQUAL(error_of_exit(&other), 0);
    }
    CU_ASSERT_EQUAL(quiet, FLOOD_QUIET);
    for (size_t i = 0; i < sent / bytes; i++) /* nothing of it is lost */
        CU_ASSERT_EQUAL_FATAL(next_error(&flood), 0);
    CU_ASSERT_EQUAL(error_of_exit(&other), 0);
    conn_close(&flood);
    conn_close(&other);
    fixture_end();
    CU_ASSERT_EQUAL(fixture.host[1].end, AGENT_ENDED);
    fixture_free();
}

#define CLIENTS         40
#define CLIENT_REQUESTS 10

/* A coordinator played by this test: it answers each forwarded request. */
static uint32_t answers(struct conn *coordinator, int most_ms)
{
    struct json_object *message = NULL, *reply;
    uint32_t lines = 0;
    int err = conn_wait(coordinator, &message, most_ms);

    CU_ASSERT_TRUE_FATAL(!err || (err == -ETIMEDOUT && !most_ms));
    if (err)
        return 0;
    if (json_object_object_get_ex(message, "line", NULL)) {
        reply = json_object_new_object();
        json_add_number(reply, "client", (uint64_t)emu_json_number(message, "client", 0));
        json_object_object_add(reply, "line", conn_ok());
        CU_ASSERT_EQUAL(conn_put(coordinator, reply), 0);
        conn_flush(coordinator);
        lines = 1;
    }
    json_object_put(message);
    return lines;
}

/* An agent alone, with a coordinator that this test plays. */
static void start_agent_alone_set(struct conn *coordinator, const char *profile, const char *set,
                                  enum emu_clock_mode clock)
{
    struct node_host *host = &fixture.host[1];
    int pair[2];

    fixture_place(profile);
    fixture.set = set;
    fixture.clock = clock;
    snprintf(fixture.dir, sizeof fixture.dir, "/tmp/fabemu-hosts.XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(fixture.dir));
    host_make(1);
    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    host->control = pair[1];
    pthread_create(&host->thread, NULL, start_agent, host);
    conn_open(coordinator, pair[0], CONN_REPLY_MAX);
}

static void start_agent_alone_as(struct conn *coordinator, const char *profile)
{
    start_agent_alone_set(coordinator, profile, NULL, EMU_CLOCK_RAW);
}

static void start_agent_alone(struct conn *coordinator)
{
    start_agent_alone_as(coordinator, "oq2004");
}

static void alone_free(struct conn *coordinator)
{
    struct node_host *host = &fixture.host[1];

    host_join(host);
    conn_close(coordinator);
    conn_close(&host->owner);
    close(host->listen_fd);
    close(host->stop_fd);
    unlink(host->path);
    fabric_stop(host->fabric);
    rmdir(fixture.dir);
    free(fixture.of);
    topo_free(fixture.graph);
}

/* Each client sends as many requests as its socket accepts. Returns the bytes sent. */
static size_t clients_send(const struct conn *conn, size_t *sent, const char *line, size_t bytes)
{
    size_t all = 0;

    for (uint32_t i = 0; i < CLIENTS; i++) {
        size_t at = sent[i] % bytes;
        ssize_t got = 0;

        if (sent[i] < CLIENT_REQUESTS * bytes)
            got = send(conn[i].fd, line + at, bytes - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        CU_ASSERT_TRUE_FATAL(got >= 0 || errno == EAGAIN);
        sent[i] += got < 0 ? 0 : (size_t)got;
        all += got < 0 ? 0 : (size_t)got;
    }
    return all;
}

/* Clients send more than the control channel holds while the coordinator reads nothing. */
static void coordinator__not_reading_is_waited_for(void)
{
    static char line[65536];
    size_t bytes = padded(line, "exits", 60000), sent[CLIENTS] = {0}, all = 0;
    struct conn coordinator, conn[CLIENTS];
    uint32_t heard = 0, stuck = 0;

    start_agent_alone(&coordinator);
    for (uint32_t i = 0; i < CLIENTS; i++)
        connects(&conn[i], 1);
    while (all < CLIENTS * CLIENT_REQUESTS * bytes) {
        size_t more = clients_send(conn, sent, line, bytes);

        all += more;
        stuck += !more;
        if (!more)
            poll(NULL, 0, 5);
        if (stuck > 20) /* it reads from now on */
            heard += answers(&coordinator, 0);
    }
    while (heard < CLIENTS * CLIENT_REQUESTS)
        heard += answers(&coordinator, PATIENCE_MS);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        for (uint32_t n = 0; n < CLIENT_REQUESTS; n++)
            CU_ASSERT_EQUAL(next_error(&conn[i]), 0);
        conn_close(&conn[i]);
    }
    eventfd_write(fixture.host[1].stop_fd, 1);
    alone_free(&coordinator);
    CU_ASSERT_EQUAL(fixture.host[1].end, AGENT_SIGNALLED);
}

/* The event for the supervisor of host 1, which ends. The caller puts it. */
static struct json_object *host_end_event(struct conn *coordinator, enum agent_end end)
{
    struct json_object *event = next_event(&fixture.host[1].owner, "ended");

    alone_free(coordinator);
    CU_ASSERT_EQUAL(fixture.host[1].end, end);
    CU_ASSERT_EQUAL(emu_json_true(event, "in_order"), end == AGENT_ENDED);
    return event;
}

/* The host ends in order, unless the coordinator gives a reason why the fabric has failed. */
static void agent__receives_the_reason_of_a_failure(void)
{
    struct json_object *call, *event;
    struct conn coordinator;

    for (int failed = 0; failed < 2; failed++) {
        start_agent_alone(&coordinator);
        call = json_add_text(json_add_number(json_object_new_object(), "call", 1), "do", "end");
        if (failed)
            json_add_text(call, "why", "host c: another\033 key\xc2\x9b");
        CU_ASSERT_EQUAL(conn_put(&coordinator, call), 0);
        conn_drain(&coordinator, PATIENCE_MS);
        event = host_end_event(&coordinator, failed ? AGENT_FAILED : AGENT_ENDED);
        CU_ASSERT_STRING_EQUAL(emu_json_text(event, "why", "?"),
                               failed ? "the fabric has failed: host c: another? key??" : "");
        json_object_put(event);
    }
}

static bool has_another_key(const void *ctx, char *text, size_t bytes)
{
    (void)ctx;
    snprintf(text, bytes, "host a: another key");
    return true;
}

/* A host that is stopped while it waits for its coordinator says why it waits. */
static void agent__stopped_while_unconnected_reports_why(void)
{
    struct json_object *event;
    struct conn coordinator;

    fixture_links_why = has_another_key;
    start_agent_alone(&coordinator);
    eventfd_write(fixture.host[1].stop_fd, 1);
    event = host_end_event(&coordinator, AGENT_SIGNALLED);
    fixture_links_why = NULL;
    CU_ASSERT_STRING_EQUAL(emu_json_text(event, "why", "?"),
                           "stopped before it connected to the coordinator: host a: another key");
    json_object_put(event);
}

#define PIECES 64

/* The number in the next message that has @field; -1: none within @most_ms. */
static int64_t agent_prints(struct conn *coordinator, const char *field, int most_ms)
{
    struct json_object *message = NULL;
    int64_t ret = -1;

    while (ret < 0 && conn_wait(coordinator, &message, most_ms) == 0) {
        ret = emu_json_number(message, field, -1);
        json_object_put(message);
    }
    return ret;
}

/* Send the next piece of a line of PIECES pieces. */
static size_t send_piece(struct conn *coordinator, int64_t client, uint32_t piece)
{
    static const char begin[] = "{\"x\":\"", end[] = "\"}";
    static char text[HOSTS_PIECE_BYTES + 1];
    struct json_object *message = json_object_new_object();

    memset(text, 'x', HOSTS_PIECE_BYTES);
    if (!piece)
        memcpy(text, begin, sizeof begin - 1);
    if (piece == PIECES - 1)
        memcpy(text + HOSTS_PIECE_BYTES - (sizeof end - 1), end, sizeof end - 1);
    json_add_number(message, "client", (uint64_t)client);
    json_add_text(message, "text", text);
    if (piece < PIECES - 1)
        json_add_number(message, "more", 1);
    CU_ASSERT_EQUAL(conn_put(coordinator, message), 0);
    return HOSTS_PIECE_BYTES;
}

/*
 * A host reads no more of a line sent in pieces before its process has read the earlier ones, and
 * answers an invalid request of the process after the line.
 */
static void pieces__are_read_as_their_process_reads(void)
{
    size_t under_way = 0, bytes = PIECES * HOSTS_PIECE_BYTES;
    int64_t client, taken, end_ms = emu_now_ms() + PATIENCE_MS;
    struct json_object *line = NULL;
    struct conn coordinator, conn;
    uint32_t said = 0;
    bool reads = false;

    start_agent_alone(&coordinator);
    connects(&conn, 1);
    client = agent_prints(&coordinator, "client", PATIENCE_MS);
    under_way += send_piece(&coordinator, client, said++);
    conn_drain(&coordinator, PATIENCE_MS);
    while (!conn.in.bytes && emu_now_ms() < end_ms) /* it is in the middle of the line now */
        CU_ASSERT_EQUAL_FATAL(conn_fill(&conn), 0);
    sends(&conn, "nonsense\n", 9);
    while ((said < PIECES || under_way >= HOSTS_ACK_BYTES) && emu_now_ms() < end_ms) {
        while (said < PIECES && under_way < HOSTS_UNACKED_MOST)
            under_way += send_piece(&coordinator, client, said++);
        taken = agent_prints(&coordinator, "taken", reads ? 1 : 200);
        under_way -= taken > 0 ? (size_t)taken : 0;
        reads = reads || taken < 0; /* it is blocked, as expected */
        CU_ASSERT_EQUAL(reads ? conn_fill(&conn) : 0, 0);
        CU_ASSERT_TRUE(reads || said < PIECES);
    }
    CU_ASSERT_EQUAL(said, PIECES);
    CU_ASSERT_EQUAL_FATAL(conn_wait(&conn, &line, PATIENCE_MS), 0);
    CU_ASSERT_EQUAL(strlen(emu_json_text(line, "x", "")), bytes - strlen("{\"x\":\"\"}"));
    json_object_put(line);
    CU_ASSERT_EQUAL(next_error(&conn), EBADMSG);
    conn_close(&conn);
    eventfd_write(fixture.host[1].stop_fd, 1);
    alone_free(&coordinator);
}

#define FAULT_CALL(call, fault, text, what)                                      \
    "{\"call\":" #call ",\"do\":\"fault\",\"fault\":" #fault ",\"text\":\"" text \
    "\",\"seed\":\"0011223344556677\",\"what\":" #what "}\n"

#define GROUP_CALL(call, id, nodes, tree)                           \
    "{\"call\":" #call ",\"do\":\"groups\",\"groups\":[{\"id\":" id \
    ",\"sources\":2,\"is\":1,\"nodes\":" nodes ",\"tree\":" tree "}]}\n"

static const char *const nonsense[] = {
    "{\"call\":1,\"do\":\"attach\",\"node\":-7}\n",
    "{\"call\":2,\"do\":\"group\",\"nodes\":[1,99999999,-1],\"group\":3}\n",
    "{\"call\":3,\"do\":\"leave\",\"node\":5,\"group\":4000000000}\n",
    "{\"call\":4,\"do\":\"detach\",\"node\":400}\n{\"call\":5,\"do\":\"incarnation\",\"node\":400}"
    "\n",
    "{\"call\":6,\"do\":\"signal\",\"client\":77,\"signal\":9}\n{\"client\":5,\"line\":[]}\n",
    "{\"client\":99,\"end\":true}\n{\"call\":7,\"do\":\"what\"}\n",
    "{\"call\":8,\"do\":\"link\",\"cable\":4000}\n",
    "{\"call\":9,\"do\":\"reroute\",\"out\":[-1]}\n",
    "{\"call\":10,\"do\":\"reroute\",\"out\":7}\n",
    "{\"call\":11,\"do\":\"pending\",\"from\":-5}\n",
    "{\"call\":12,\"do\":\"pending\",\"from\":99999999999}\n",
    "{\"call\":13,\"do\":\"arrived\",\"group\":4000000000,\"seq\":-1}\n",
    "{\"call\":14,\"do\":\"mismatch\"}\n{\"call\":15,\"do\":\"stalls\",\"x\":[]}\n",
    "{\"call\":16,\"do\":\"fault\"}\n{\"call\":17,\"do\":\"taken_out\",\"cable\":4000}\n",
    "{\"call\":18,\"do\":\"fault\",\"fault\":1,\"text\":\"loss link=any\",\"seed\":\"zz\"}\n",
    /* the coordinator handles links and processes; "watch" has no effect; unknown switch */
    FAULT_CALL(19, 1, "link-down random", 0), FAULT_CALL(20, 1, "stuck-port random", 9),
    FAULT_CALL(21, -1, "stuck-port random", 0), FAULT_CALL(22, 1, "stuck-port link=4000:1", 0),
    "{\"call\":23,\"do\":\"test\",\"cables\":[-1]}\n{\"call\":0,\"do\":\"link\",\"cable\":4000}"
    "\n",
    "{\"call\":24,\"do\":\"test\",\"cables\":[1,4000],\"packets\":7}\n",
    "{\"call\":25,\"do\":\"node_no_link\",\"node\":400}\n",
    "{\"call\":26,\"do\":\"failed\",\"group\":-1}\n{\"call\":27,\"do\":\"hits\"}\n",
    "{\"call\":28,\"do\":\"unit_out\",\"switch\":4000}\n{\"call\":29,\"do\":\"unrecoverable\"}\n",
    "{\"call\":30,\"do\":\"scan\",\"x\":1}\n",
    "{\"call\":31,\"do\":\"host_incarnation\",\"host\":64,\"incarnation\":1}\n{\"call\":32,"
    "\"do\":\"begin\"}\n",
    "{\"call\":33,\"do\":\"begin\",\"nodes\":[0,2],\"down\":[],\"units\":[]}\n",
    /* an unknown node; no process attached yet */
    "{\"call\":34,\"do\":\"begin\",\"nodes\":[900,2,1],\"down\":[],\"units\":[]}\n",
    "{\"call\":35,\"do\":\"begin\",\"nodes\":[3,1,1],\"down\":[],\"units\":[]}\n",
    "{\"call\":36,\"do\":\"begin\",\"nodes\":[],\"down\":[4000],\"units\":[]}\n",
    GROUP_CALL(37, "0", "[0,8]", "[900,0,7]"), /* unknown switch, */
    GROUP_CALL(38, "0", "[0,4]", "[0,0,7]"),   /* unknown member here, */
    GROUP_CALL(39, "0", "[0,8]", "[]"),        /* no tree, */
    GROUP_CALL(40, "0", "[0,8]", "[0,0]"), GROUP_CALL(41, "0", "[]", "[0,0,7]"),
    GROUP_CALL(42, "0", "[4294967295]", "[0,0,7]"),            /* all have left, */
    GROUP_CALL(43, "0", "[0,8]", "[0,0,9223372036854775807]"), /* invalid ports */
    "{\"call\":44,\"do\":\"groups\",\"groups\":7}\n{\"call\":45,\"do\":\"rejoin\",\"host\":0}\n",
    GROUP_CALL(46, "0", "[0,8]", "[0,65537,7]"), /* invalid port up */
    GROUP_CALL(47, "0", "[0,8]", "[0,0,\"7\"]"), /* not a number */
    GROUP_CALL(48, "0", "[0,8]", "[4294967296,0,7]"),
    GROUP_CALL(49, "0", "[0,8]", "[1,0,0]"),       /* no port, */
    GROUP_CALL(50, "0", "[0,8]", "[1,3,3]"),       /* the port up is not among the ports, */
    GROUP_CALL(51, "0", "[0,8]", "[4,0,32]"),      /* a port without a cable, */
    GROUP_CALL(52, "0", "[0,8]", "[1,0,3,1,0,3]"), /* a switch twice, */
    GROUP_CALL(53, "0", "[0,8]", "[0,4,9]"),       /* no root, */
    GROUP_CALL(54, "0", "[0,8]", "[3,0,3,0,4,9]"), /* a cable with one end, */
    GROUP_CALL(55, "0", "[0,8]", "[1,0,3,2,0,3]"), /* two roots, */
    GROUP_CALL(56, "0", "[0,8]", "[4,0,3,0,4,24,1,5,24,3,2,3]"), /* a cycle through the root, */
    GROUP_CALL(57, "0", "[0,8]", "[2,0,1,4,1,3,0,4,24,1,5,24,3,2,3]"), /* a cycle of ways up */
    GROUP_CALL(58, "0", "[0,8]", "[3,0,5,0,4,9,2,4,9]"),               /* this is a tree */
};
#define NONSENSE 57

/* Skip messages up to the reply to call @number. Returns its error. */
static int64_t replied(struct conn *conn, int64_t number)
{
    struct json_object *message = NULL;
    int64_t got = -1, err = -1;

    while (got != number) {
        CU_ASSERT_EQUAL_FATAL(conn_wait(conn, &message, PATIENCE_MS), 0);
        got = emu_json_number(message, "reply", -1);
        err = emu_json_number(message, "errno", -1);
        json_object_put(message);
    }
    return err;
}

static void coordinator__sending_invalid_calls_is_lost(void)
{
    struct conn conn;

    start_agent_alone(&conn);
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++)
        CU_ASSERT_EQUAL(send(conn.fd, nonsense[i], strlen(nonsense[i]), MSG_NOSIGNAL),
                        (ssize_t)strlen(nonsense[i]));
    for (int i = 0; i <= NONSENSE; i++) { /* queries with an empty answer are not errors */
        struct json_object *reply = NULL;
        /* to leave an unknown group is no error: this host had no memory for the group */
        bool refused = (i < 11 && i != 3) || (i > 15 && i < 26) || i > 30;

        CU_ASSERT_EQUAL_FATAL(conn_wait(&conn, &reply, PATIENCE_MS), 0);
        if (i == 24) { /* nobody waits for the previous call, and its error is still reported */
            CU_ASSERT_STRING_EQUAL(emu_json_text(reply, "failed", ""), "link");
            CU_ASSERT_EQUAL(emu_json_number(reply, "errno", 0), EINVAL);
            json_object_put(reply);
            CU_ASSERT_EQUAL_FATAL(conn_wait(&conn, &reply, PATIENCE_MS), 0);
        }
        CU_ASSERT_EQUAL(emu_json_number(reply, i ? "reply" : "here", -1), i ? i : getpid());
        CU_ASSERT_TRUE(!i || i == 4 || (emu_json_number(reply, "errno", 0) > 0) == refused);
        json_object_put(reply);
    }
    /* the last call is valid if a set of ports is one number */
    CU_ASSERT_EQUAL(replied(&conn, NONSENSE + 1), EMU_PORT_WORDS == 1 ? 0 : EINVAL);
    CU_ASSERT_TRUE(send(conn.fd, "nonsense\n", 9, MSG_NOSIGNAL) == 9);
    alone_free(&conn);
    CU_ASSERT_EQUAL(fixture.host[1].end, AGENT_LOST);
}

static void send_as_coordinator(const struct conn *conn, const char *line)
{
    CU_ASSERT_EQUAL(send(conn->fd, line, strlen(line), MSG_NOSIGNAL), (ssize_t)strlen(line));
}

/*
 * A fault is reverted as the kind that was applied, even if the coordinator names another one by
 * then.
 */
static void fault__is_reverted_as_applied(void)
{
    static const char *const calls = FAULT_CALL(1, 2, "stuck-port random", 0)
        FAULT_CALL(2, 2, "slow-link random factor=3", 1) FAULT_CALL(3, 2, "loss random", 3);
    struct conn conn;
    emu_ports stuck = EMU_NO_PORTS;

    start_agent_alone(&conn);
    send_as_coordinator(&conn, calls);
    replied(&conn, 3);
    shutdown(conn.fd, SHUT_RDWR);
    host_join(&fixture.host[1]);
    for (uint32_t s = 0; s < fixture.graph->switches; s++)
        if (fixture.host[1].fabric->sw[s])
            stuck |= fixture.host[1].fabric->sw[s]->stuck;
    CU_ASSERT_FALSE(emu_ports_any(stuck));
    alone_free(&conn);
}

/* A correct coordinator checks this before it sends the call. */
static void fault__impossible_is_refused(void)
{
    static const struct {
        const char *profile, *calls;
    } lies[] = {{"qsnet3", FAULT_CALL(1, 2, "combine-stall random", 0)},
                {"qsnet3", FAULT_CALL(1, 2, "combine-flip random", 0)},
                {"oq2004", FAULT_CALL(1, 2, "slow-link random factor=3", 0)},
                {"oq2004", FAULT_CALL(1, 2, "loss random on=test:1", 2)}};
    struct conn conn;

    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        start_agent_alone_as(&conn, lies[i].profile);
        send_as_coordinator(&conn, lies[i].calls);
        CU_ASSERT(replied(&conn, 1) > 0);
        shutdown(conn.fd, SHUT_RDWR);
        alone_free(&conn);
        CU_ASSERT_EQUAL(fixture.host[1].end, AGENT_LOST);
    }
}

/* Have the agent test a cable that is down. A cable that cannot fail has no end to test. */
static void cable_is_tested(struct conn *conn, int64_t call, uint32_t cable)
{
    bool can_fail = fabric_can_fail(fixture.host[1].fabric, cable);
    char line[128];

    snprintf(line, sizeof line, "{\"call\":%d,\"do\":\"test\",\"cables\":[%u],\"packets\":1}\n",
             (int)call, cable);
    send_as_coordinator(conn, line);
    CU_ASSERT_EQUAL(replied(conn, call), can_fail ? 0 : EINVAL);
}

/*
 * Not all switch models support a link that is down or a reroute of the segments that wait for it.
 * A correct coordinator knows which do.
 */
static void link__down_is_refused_where_unsupported(void)
{
    static const struct {
        const char *profile, *set;
        enum emu_clock_mode clock;
        bool refused;
    } lies[] = {{"oq2004", "buffers=input", EMU_CLOCK_REAL, true},
                {"oq2004", "buffers=input_xpoint", EMU_CLOCK_RAW, false},
                {"oq2004", NULL, EMU_CLOCK_RAW, false},
                {"oq2004", "link_retry=go_back_n", EMU_CLOCK_RAW, false},
                {"qsnet3", NULL, EMU_CLOCK_RAW, false}};

    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        int64_t call = 1;
        struct conn conn;
        char line[128];

        start_agent_alone_set(&conn, lies[i].profile, lies[i].set, lies[i].clock);
        for (uint32_t cable = 0; cable < fabric_cable_count(fixture.host[1].fabric); cable++) {
            bool fails = lies[i].refused || !fabric_can_fail(fixture.host[1].fabric, cable);

            snprintf(line, sizeof line, "{\"call\":%d,\"do\":\"link\",\"cable\":%u}\n", (int)call,
                     cable);
            send_as_coordinator(&conn, line);
            CU_ASSERT_EQUAL(replied(&conn, call++), fails ? ENOTSUP : 0);
            cable_is_tested(&conn, call++, cable);
        }
        snprintf(line, sizeof line, "{\"call\":%d,\"do\":\"reroute_in_flight\"}\n", (int)call);
        send_as_coordinator(&conn, line);
        CU_ASSERT_EQUAL(replied(&conn, call), 0);
        shutdown(conn.fd, SHUT_RDWR);
        alone_free(&conn);
        CU_ASSERT_EQUAL(fixture.host[1].end, AGENT_LOST);
    }
}

/* A coordinator may send any JSON to a process. */
static void coordinator__may_send_any_json_to_a_process(void)
{
    static const char *const lines[] = {"null",
                                        "7",
                                        "[1,2]",
                                        "{\"event\":null}",
                                        "{\"event\":[\"lost\"]}",
                                        "{\"ok\":3,\"incarnation\":[]}"};
    struct conn coordinator, conn;
    struct json_object *message = NULL;
    char line[128];

    start_agent_alone(&coordinator);
    connects(&conn, 1);
    for (int64_t client = -1; client < 0; json_object_put(message)) {
        CU_ASSERT_EQUAL_FATAL(conn_wait(&coordinator, &message, PATIENCE_MS), 0);
        client = emu_json_number(message, "client", -1);
        for (size_t i = 0; client >= 0 && i < sizeof lines / sizeof lines[0]; i++) {
            snprintf(line, sizeof line, "{\"client\":%d,\"line\":%s}\n", (int)client, lines[i]);
            send_as_coordinator(&coordinator, line);
            snprintf(line, sizeof line, "{\"client\":%d,\"text\":%s}\n", (int)client, lines[i]);
            send_as_coordinator(&coordinator, line);
        }
    }
    send_as_coordinator(&coordinator, "{\"call\":9,\"do\":\"answer\"}\n");
    replied(&coordinator, 9);
    shutdown(coordinator.fd, SHUT_RDWR);
    alone_free(&coordinator);
    conn_close(&conn);
}

/* Have the agent attach @client to its node @node, and detach it, without a request to do so. */
static void client_is_attached(const struct conn *coordinator, int64_t client, uint32_t node)
{
    char line[256];

    snprintf(line, sizeof line,
             "{\"call\":1,\"do\":\"attach\",\"node\":%u}\n"
             "{\"client\":%d,\"line\":{\"ok\":true,\"incarnation\":1,\"node\":%u}}\n"
             "{\"call\":2,\"do\":\"detach\",\"node\":%u,\"dead\":0}\n",
             node, (int)client, node, node);
    send_as_coordinator(coordinator, line);
}

/* A coordinator that attaches a process again and again uses up no descriptors of the agent. */
static void coordinator__attaching_a_process_twice_leaks_nothing(void)
{
    struct conn coordinator, conn;
    struct json_object *message = NULL;
    uint32_t had = 0;

    start_agent_alone(&coordinator);
    connects(&conn, 1);
    for (int64_t client = -1; client < 0; json_object_put(message)) {
        CU_ASSERT_EQUAL_FATAL(conn_wait(&coordinator, &message, PATIENCE_MS), 0);
        client = emu_json_number(message, "client", -1);
        for (int i = 0; client >= 0 && i < 8; i++) {
            client_is_attached(&coordinator, client, NODES / HOSTS);
            CU_ASSERT_EQUAL(replied(&coordinator, 2), 0);
            if (i == 0)
                had = descriptors();
        }
    }
    CU_ASSERT_EQUAL(descriptors(), had);
    shutdown(coordinator.fd, SHUT_RDWR);
    alone_free(&coordinator);
    conn_close(&conn);
}

/* Names of calls, and of their fields. */
static const char *const call_names[] = {"handshake",
                                         "answer",
                                         "attach",
                                         "detach",
                                         "node_incarnation",
                                         "linked",
                                         "group",
                                         "leave",
                                         "link",
                                         "reroute",
                                         "cut_off",
                                         "totals",
                                         "comm",
                                         "signal",
                                         "rejoin",
                                         "sample",
                                         "sample_end",
                                         "pending",
                                         "arrived",
                                         "mismatch",
                                         "stalls",
                                         "audit",
                                         "host_incarnation",
                                         "begin",
                                         "groups",
                                         "fault",
                                         "taken_out",
                                         "hits",
                                         "test",
                                         "reroute_in_flight",
                                         "scan",
                                         "node_no_link",
                                         "unrecoverable",
                                         "failed",
                                         "unit_out",
                                         "?"};
static const char *const call_fields[] = {
    "node",  "dead",   "word",   "linked",      "group",     "nodes",  "wide",        "cable",
    "up",    "fault",  "out",    "partitioned", "from",      "client", "signal",      "host",
    "of",    "anew",   "number", "from_bytes",  "seq",       "routes", "incarnation", "down",
    "units", "groups", "id",     "sources",     "is",        "tree",   "text",        "seed",
    "what",  "counts", "cables", "packets",     "reachable", "drops",  "bound_us",    "switch",
    "line",  "end",    "more"};

#define ANYTHING 1000 /* calls */

static uint64_t below(struct json_drawn *drawn, uint64_t end)
{
    return test_random(&drawn->random) % end;
}

/* A group in the form of admit.c with random numbers, most of them in range. */
static void add_a_group(struct json_drawn *drawn, struct json_object *with)
{
    struct json_object *list = json_object_new_array(), *one = json_object_new_object();
    struct json_object *nodes = json_object_new_array(), *tree = json_object_new_array();

    for (uint64_t left = 1 + below(drawn, 4); left; left--)
        json_object_array_add(nodes, json_object_new_int64((int64_t)below(drawn, NODES)));
    for (uint64_t left = 1 + below(drawn, 3); left; left--) {
        json_object_array_add(tree, json_object_new_int64((int64_t)below(drawn, 6)));
        json_object_array_add(tree, json_object_new_int64((int64_t)below(drawn, 7)));
        for (uint32_t w = 0; w < EMU_PORT_WORDS; w++)
            json_object_array_add(tree, json_object_new_int64((int64_t)below(drawn, 64)));
    }
    json_add_number(one, "id", below(drawn, 100000));
    json_add_number(one, "sources", below(drawn, 4));
    json_add_number(one, "is", below(drawn, 16));
    json_object_object_add(one, "nodes", nodes);
    json_object_object_add(one, "tree", tree);
    json_object_array_add(list, one);
    json_object_object_add(with, "groups", list);
}

static void random_calls(const char *profile, const char *set, enum emu_clock_mode clock)
{
    static const size_t lengths[] = {sizeof(uint64_t)};
    struct json_drawn drawn = {.random = test_seed(),
                               .names = call_fields,
                               .count = sizeof call_fields / sizeof call_fields[0],
                               .digits = lengths,
                               .lengths = 1};
    struct conn conn;

    start_agent_alone_set(&conn, profile, set, clock);
    for (int64_t call = 1; call <= ANYTHING; call++) {
        struct json_object *with = json_drawn_object(&drawn, 3);

        json_add_text(
            with, "do",
            call_names[test_random(&drawn.random) % (sizeof call_names / sizeof call_names[0])]);
        if (test_random(&drawn.random) % 4 == 0)
            json_add_text(with, "text", "stuck-port random");
        add_a_group(&drawn, with);
        CU_ASSERT_EQUAL_FATAL(conn_put(&conn, json_add_number(with, "call", (uint64_t)call)), 0);
        conn_drain(&conn, PATIENCE_MS);
        replied(&conn, call);
    }
    shutdown(conn.fd, SHUT_RDWR);
    alone_free(&conn);
    CU_ASSERT_EQUAL(fixture.host[1].end, AGENT_LOST);
}

/* Whatever calls the coordinator sends, the host runs until the control channel ends. */
static void coordinator__random_calls_are_answered(void)
{
    random_calls("oq2004", NULL, EMU_CLOCK_RAW);
    random_calls("oq2004", "combine_order=port", EMU_CLOCK_RAW);
    random_calls("oq2004", "buffers=input", EMU_CLOCK_REAL);
    random_calls("oq2004", "link_retry=go_back_n", EMU_CLOCK_RAW);
    random_calls("oq2004", "link_retry=go_back_n", EMU_CLOCK_REAL);
    random_calls("qsnet3", NULL, EMU_CLOCK_RAW);
    random_calls("qsnet3", "combining=switch", EMU_CLOCK_REAL);
    random_calls("qsnet3", "broadcast_trees=2", EMU_CLOCK_RAW);
}

/* --- telemetry --------------------------------------------------------------------------- */

/* For each host: the first direction to a node on which it sends, and its count there. */
struct watched {
    struct conn conn;
    struct telemetry_view view;
    uint32_t direction[HOSTS];
    uint64_t segments[HOSTS];
};

static uint32_t way_of(uint32_t h)
{
    const struct fabric *fabric = fixture.host[0].fabric;

    for (uint32_t i = 0; i < fabric_cable_count(fabric); i++)
        if (fabric_cable(fabric, i)->kind == TOPO_END_NODE &&
            fixture.of[fabric_cable(fabric, i)->at.sw] == h)
            return 2 * i + 1;
    CU_FAIL_FATAL("a cable of each host");
    return 0;
}

/* Count as the sending switch would; it is idle. */
static void counts(struct watched *w, uint32_t h, uint64_t segments)
{
    const struct fabric_cable *cable = fabric_cable(fixture.host[h].fabric, w->direction[h] / 2);
    struct switch_dev *sw = fixture.host[h].fabric->sw[cable->at.sw];

    emu_count(&switch_tx(sw, cable->at.port)->counts.segments, segments);
    w->segments[h] += segments;
}

static void watch_every(struct watched *w, uint32_t asked, uint64_t every_ms)
{
    struct json_object *reply;

    *w = (struct watched){.view = {.shape = NULL}};
    for (uint32_t h = 0; h < HOSTS; h++)
        w->direction[h] = way_of(h);
    connects(&w->conn, asked);
    reply = query(&w->conn, json_add_number(command("subscribe"), "telemetry", every_ms));
    CU_ASSERT_TRUE(emu_json_true(reply, "ok"));
    json_object_put(reply);
}

static void watch_begin(struct watched *w, uint32_t asked)
{
    watch_every(w, asked, 100);
}

static bool shows_all(const struct watched *w)
{
    uint64_t sum = 0;

    for (uint32_t h = 0; h < HOSTS; h++) {
        const struct telemetry_view_cable *cable = &w->view.cable[w->direction[h] / 2];

        sum += w->segments[h];
        if (cable->direction[1].segments != w->segments[h])
            return false;
    }
    return w->view.totals.hops == sum;
}

/* Read snapshots until one has the expected counts of each host and the sum. */
static void watch_until(struct watched *w)
{
    int64_t until_ms = emu_now_ms() + PATIENCE_MS;
    bool right = false;

    while (!right && emu_now_ms() < until_ms) {
        struct json_object *line = NULL;

        CU_ASSERT_EQUAL_FATAL(conn_wait(&w->conn, &line, PATIENCE_MS), 0);
        CU_ASSERT_TRUE(telemetry_view_take(&w->view, line) >= 0);
        json_object_put(line);
        right = w->view.sample && shows_all(w);
    }
    CU_ASSERT_TRUE(right);
}

static void watch_first(struct watched *w)
{
    while (!w->view.sample) {
        struct json_object *line = NULL;

        CU_ASSERT_EQUAL_FATAL(conn_wait(&w->conn, &line, PATIENCE_MS), 0);
        CU_ASSERT_TRUE(telemetry_view_take(&w->view, line) >= 0);
        json_object_put(line);
    }
}

/* Read everything up to the end of the connection. */
static void watch_last(struct watched *w)
{
    struct json_object *line;

    while (conn_wait(&w->conn, &line, PATIENCE_MS) == 0) {
        CU_ASSERT_TRUE(telemetry_view_take(&w->view, line) >= 0);
        json_object_put(line);
    }
}

static void watch_end(struct watched *w)
{
    telemetry_view_release(&w->view);
    conn_close(&w->conn);
}

/* The first snapshot includes counts from before the first reader, on all hosts. */
static void telemetry__covers_all_hosts(void)
{
    struct watched w, other;

    fixture_make("oq2004", false);
    fixture_go();
    watch_begin(&w, 0);
    for (uint32_t h = 0; h < HOSTS; h++)
        counts(&w, h, 10 + h);
    watch_until(&w);
    counts(&w, 2, 1000);
    watch_until(&w);
    watch_begin(&other, 1); /* read on an agent's host */
    memcpy(other.segments, w.segments, sizeof w.segments);
    watch_first(&other);
    CU_ASSERT_TRUE(shows_all(&other));
    watch_end(&other);
    watch_end(&w);
    watch_begin(&w, 0); /* whether or not all other readers have left, it begins with all counts */
    memcpy(w.segments, other.segments, sizeof w.segments);
    watch_until(&w);
    watch_end(&w);
    fixture_end();
    fixture_free();
}

/* Only the first snapshot waits long for the counts of a host that does not answer. */
static void stopped_host__delays_only_the_first_snapshot(void)
{
    struct json_object *line;
    struct watched w;
    int64_t began_ms;

    fixture_start();
    stop_host(2);
    watch_begin(&w, 0);
    watch_first(&w);
    began_ms = emu_now_ms();
    for (uint32_t i = 0; i < 20; i++) { /* 40 s if each of them waited */
        CU_ASSERT_EQUAL_FATAL(conn_wait(&w.conn, &line, PATIENCE_MS), 0);
        json_object_put(line);
    }
    CU_ASSERT_TRUE(emu_now_ms() - began_ms < 20000);
    host_goes();
    watch_end(&w);
    fixture_end();
    fixture_free();
    close(still_fd);
}

/* One reader per host, whose next snapshot is due in an hour; the fabric ends before. */
static void telemetry__ends_with_the_final_counts(void)
{
    struct watched w[HOSTS];

    fixture_make("oq2004", false);
    fixture_go();
    for (uint32_t h = 0; h < HOSTS; h++) {
        watch_every(&w[h], h, 3600000);
        watch_first(&w[h]);
    }
    for (uint32_t h = 0; h < HOSTS; h++)
        counts(&w[0], h, 10 + h);
    fixture_end();
    for (uint32_t h = 0; h < HOSTS; h++) {
        memcpy(w[h].segments, w[0].segments, sizeof w[h].segments);
        watch_last(&w[h]);
        CU_ASSERT_TRUE(shows_all(&w[h]));
        watch_end(&w[h]);
    }
    fixture_free();
}

/* Counts of a lost host stay, and those of its next incarnation are added. */
static void telemetry__counters_of_a_lost_host_stay(void)
{
    struct watched w;

    fixture_make("oq2004", true);
    fixture_go();
    watch_begin(&w, 0);
    for (uint32_t h = 0; h < HOSTS; h++)
        counts(&w, h, 10 + h);
    watch_until(&w);
    lose_host(1);
    counts(&w, 2, 7);
    watch_until(&w);
    host_returns(1);
    counts(&w, 1, 5);
    counts(&w, 0, 1);
    watch_until(&w);
    watch_end(&w);
    fixture_end();
    fixture_free();
}

/* Descriptors do not pass between hosts: a client elsewhere is told where to ask. */
static void capture__is_only_available_on_the_coordinator(void)
{
    struct conn conn;
    struct json_object *reply;

    fixture_start();
    connects(&conn, 1);
    reply = query(&conn, command("capture"));
    CU_ASSERT_FALSE(emu_json_true(reply, "ok"));
    CU_ASSERT_EQUAL(emu_json_number(reply, "errno", 0), ENOTSUP);
    CU_ASSERT_PTR_NOT_NULL(strstr(emu_json_text(reply, "error", ""), names[0]));
    json_object_put(reply);
    conn_close(&conn);
    fixture_end();
    fixture_free();
}

/* The sampler of host 0 and the reports of host 1, neither of them served. */
static void sampler_open(struct telemetry **telemetry, struct telemetry_agent **part)
{
    struct telemetry_source source = {.hosts = names}, agent_fd = {.hosts = NULL};

    fixture_make("oq2004", false);
    source.fabric = fixture.host[0].fabric;
    source.config = fabric_config_of(source.fabric);
    agent_fd.fabric = fixture.host[1].fabric;
    agent_fd.config = fabric_config_of(agent_fd.fabric);
    CU_ASSERT_EQUAL_FATAL(telemetry_create(telemetry, &source), 0);
    CU_ASSERT_EQUAL_FATAL(telemetry_agent_create(part, &agent_fd), 0);
}

static void sampler_close(struct telemetry *telemetry, struct telemetry_agent *part)
{
    telemetry_agent_destroy(part);
    telemetry_destroy(telemetry);
    fixture_go();
    fixture_end();
    fixture_free();
}

/* The coordinator's sampler shows what host 1 reports, piece by piece. */
static void telemetry__is_reported_in_pieces_of_any_size(void)
{
    struct text_buf bytes = {.at = NULL}, line = {.at = NULL};
    struct telemetry *telemetry;
    struct telemetry_agent *part;
    struct watched w = {.view = {.shape = NULL}};
    char wanted[64];
    int more;

    sampler_open(&telemetry, &part);
    w.direction[1] = way_of(1);
    for (size_t most = 1; most < 5000; most *= 7) {
        counts(&w, 1, UINT64_C(1) << 33);
        do {
            more = telemetry_agent_report(part, most, &bytes);
            CU_ASSERT_TRUE_FATAL(more >= 0 && (!more || bytes.bytes >= most));
            CU_ASSERT_TRUE(telemetry_receive(telemetry, 1, bytes.at, bytes.bytes, emu_now_ns()));
        } while (more);
        telemetry_sample(telemetry, emu_now_ns());
        telemetry_line(telemetry, 0, 0, &line);
        text_put(&line, "", 1);
        snprintf(wanted, sizeof wanted, "\"links\":[[%u,%llu,0,0,0]]", w.direction[1],
                 (unsigned long long)w.segments[1]);
        CU_ASSERT_PTR_NOT_NULL(strstr(line.at, wanted));
    }
    text_buf_free(&bytes);
    text_buf_free(&line);
    sampler_close(telemetry, part);
}

static bool is_heard(struct telemetry *telemetry, const char *bytes, size_t count)
{
    return telemetry_receive(telemetry, 1, bytes, count, emu_now_ns());
}

#define HEARD(telemetry, bytes) is_heard(telemetry, bytes, sizeof bytes - 1)

/* Is a record accepted of a direction of which host 1 has the receiving end only, or no end? */
static bool heard_direction(struct telemetry *telemetry, bool receives)
{
    const struct fabric *fabric = fixture.host[0].fabric;
    char bytes[] = "\0\0\1\1\1\1";

    for (uint32_t d = 0; d < 2 * fabric_cable_count(fabric); d++)
        if (fabric_direction_host(fabric, d, true) != 1 &&
            (fabric_direction_host(fabric, d, false) == 1) == receives) {
            bytes[1] = (char)d;
            return HEARD(telemetry, bytes);
        }
    CU_FAIL_FATAL("there is such a direction");
    return false;
}

/* Is a record of a finished collective accepted, of a group that is on host 0 only? */
static bool heard_group_of_others(struct telemetry *telemetry)
{
    struct fabric *fabric = fixture.host[0].fabric;
    uint32_t group = fixture_group_of_first(fabric, 2);
    char bytes[] = "\3\x80\x80\x80\x80\0\1\1\1\1\2\1"; /* the group in 5 pieces of 7 bits */
    bool heard;

    for (uint32_t i = 0; i < 5; i++)
        bytes[1 + i] = (char)((bytes[1 + i] & 128) | (group >> 7 * i & 127));
    heard = HEARD(telemetry, bytes);
    fixture_group_end(fabric, group);
    return heard;
}

/*
 * Only records about the host's own devices are accepted. Records: direction, switch, node,
 * finished, sums.
 */
static void telemetry__invalid_reports_are_refused(void)
{
    struct telemetry *telemetry;
    struct telemetry_agent *part;
    uint64_t random = test_seed();
    char bytes[64];

    sampler_open(&telemetry, &part);
    CU_ASSERT_TRUE(HEARD(telemetry, ""));
    CU_ASSERT_TRUE(heard_direction(telemetry, true));
    CU_ASSERT_FALSE(HEARD(telemetry, "\0\0\1\1\1"));             /* truncated, */
    CU_ASSERT_FALSE(HEARD(telemetry, "\0\x80"));                 /* truncated within a number; */
    CU_ASSERT_FALSE(HEARD(telemetry, "\6\0\0"));                 /* unknown record, */
    CU_ASSERT_FALSE(HEARD(telemetry, "\0\xff\xff\x7f\1\1\1\1")); /* unknown direction; */
    CU_ASSERT_FALSE(HEARD(telemetry, "\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"));
    CU_ASSERT_EQUAL_FATAL(fixture.of[0], 0);
    CU_ASSERT_FALSE(HEARD(telemetry, "\1\0\1\1\1\1"));       /* host 0's switch, */
    CU_ASSERT_FALSE(heard_direction(telemetry, false));      /* a direction without its ends; */
    CU_ASSERT_FALSE(HEARD(telemetry, "\1\x7f\1\1\1\1"));     /* a switch of no host; */
    CU_ASSERT_FALSE(HEARD(telemetry, "\2\0\1\1\1\1\1"));     /* host 0's node, */
    CU_ASSERT_FALSE(HEARD(telemetry, "\2\x7f\1\1\1\1\1"));   /* a node of no host; */
    CU_ASSERT_FALSE(HEARD(telemetry, "\3\1\1\x7f\1\1\1\1")); /* unknown kind, */
    CU_ASSERT_FALSE(HEARD(telemetry, "\3\1\1\1\1\0\1\1"));   /* no member, */
    CU_ASSERT_FALSE(HEARD(telemetry, "\3\1\1\1\1\x7f\1\1")); /* too many members; */
    CU_ASSERT_TRUE(HEARD(telemetry, "\3\1\1\1\1\1\2\1"));
    CU_ASSERT_FALSE(HEARD(telemetry, "\3\1\1\1\1\1\1\2")); /* it ended before it began */
    CU_ASSERT_FALSE(heard_group_of_others(telemetry));
    for (int i = 0; i < 2; i++) /* a sum of forged numbers does not wrap around */
        CU_ASSERT_TRUE(HEARD(telemetry, "\4\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"));
    CU_ASSERT_EQUAL(telemetry->finished_missed, UINT64_MAX);
    for (uint32_t i = 0; i < TEST_TRIALS(20000u); i++) {
        size_t count = test_random(&random) % sizeof bytes;

        for (size_t b = 0; b < count; b++) /* mostly small, as row numbers are */
            bytes[b] = (char)(test_random(&random) % (b % 3 ? 8 : 256));
        is_heard(telemetry, bytes, count);
    }
    telemetry_sample(telemetry, emu_now_ns());
    sampler_close(telemetry, part);
}

static uint32_t collectives_of_group(const struct telemetry *telemetry, uint32_t group)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < TELEMETRY_FINISHED; i++)
        count += telemetry->finished[i].members && telemetry->finished[i].now.group == group;
    return count;
}

/* A host that reports collectives without end leaves space in the list for those of others. */
static void telemetry__of_a_host_leaves_space_for_collectives(void)
{
    struct emu_finished here = {.group = 2, .began_ns = 1, .ended_ns = 2};
    char forged[] = "\3\1\x80\0\1\1\1\2\1"; /* group 1, and a number in 2 pieces of 7 bits */
    struct telemetry *telemetry;
    struct telemetry_agent *part;

    sampler_open(&telemetry, &part);
    for (uint32_t i = 0; i < 20; i++) {
        for (uint32_t n = 0; n < 1000; n++) {
            forged[2] = (char)(n % 128 | 128);
            forged[3] = (char)(1 + n / 128);
            CU_ASSERT_TRUE(HEARD(telemetry, forged));
        }
        here.first = i;
        telemetry_finished_note(telemetry, 0, &here, 1, 1);
    }
    CU_ASSERT_EQUAL(collectives_of_group(telemetry, 2), 20);
    CU_ASSERT_EQUAL(collectives_of_group(telemetry, 1), TELEMETRY_FINISHED - 20);
    sampler_close(telemetry, part);
}

/* --- the timeline ------------------------------------------------------------------------ */

#define REPORTED_NS    10u   /* duration of each */
#define REPORTED_COUNT 2000u /* several pieces */

/*
 * Report, as the library would, that @count barriers from @first on are finished. Returns when the
 * first of them began.
 */
static uint64_t finish_barriers(int64_t node, uint64_t first, uint32_t count)
{
    struct emu_hostif *hostif = fixture.host[node / (NODES / HOSTS)].fabric->hostif[node];
    uint64_t began_ns = emu_now_ns() - count * REPORTED_NS;

    CU_ASSERT_PTR_NOT_NULL_FATAL(hostif);
    for (uint32_t i = 0; i < count; i++)
        emu_finished_write(&hostif->shared->finished,
                           &(struct emu_finished){.first = first + i,
                                                  .began_ns = began_ns + i * REPORTED_NS,
                                                  .ended_ns = began_ns + (i + 1) * REPORTED_NS,
                                                  .kind = EMU_BARRIER});
    return began_ns;
}

/* The collectives at @node in the file: their number, and when the first one began, in us. */
static uint32_t file_has(struct json_object *all, int64_t node, double *began_us)
{
    struct json_object *events = field(all, "traceEvents");
    uint32_t count = 0;

    for (size_t i = 0; i < json_object_array_length(events); i++) {
        struct json_object *event = json_object_array_get_idx(events, i);

        if (strcmp(emu_json_text(event, "ph", ""), "X") != 0 ||
            emu_json_number(event, "pid", -1) != node)
            continue;
        if (!count++ && began_us)
            *began_us = json_object_get_double(field(event, "ts"));
        CU_ASSERT_DOUBLE_EQUAL(json_object_get_double(field(event, "dur")), REPORTED_NS / 1e3,
                               1e-6);
    }
    return count;
}

static struct json_object *file_host(struct json_object *all, uint32_t h)
{
    struct json_object *hosts = field(field(all, "otherData"), "hosts");

    CU_ASSERT_EQUAL_FATAL(json_object_array_length(hosts), HOSTS);
    return json_object_array_get_idx(hosts, h);
}

/* A coordinator that writes a timeline. Returns its file. */
static int timeline_start(struct timeline_plan *plan, const char *profile, bool returns,
                          uint64_t most_bytes)
{
    *plan = (struct timeline_plan){.fd = memfd_create("timeline", MFD_CLOEXEC),
                                   .most_bytes = most_bytes};
    fixture_make(profile, returns);
    fixture.timeline = plan;
    fixture_go();
    return plan->fd;
}

/*
 * The file has all collectives of processes on all hosts, also of one that leaves at once, with
 * times of one clock.
 */
static void timeline__covers_the_processes_of_all_hosts(void)
{
    struct timeline_plan plan;
    struct conn conn;
    int64_t node[HOSTS];
    uint64_t began_ns[HOSTS];
    int fd = timeline_start(&plan, "oq2004", false, TIMELINE_MOST_BYTES);
    struct json_object *all;
    double us, origin_ns = 0;

    for (uint32_t h = 0; h < HOSTS; h++) {
        node[h] = attach(&conn, h, -1);
        began_ns[h] = finish_barriers(node[h], 0, h == 1 ? REPORTED_COUNT : 1);
        json_object_put(query(&conn, command("detach")));
        conn_close(&conn);
    }
    fixture_end();
    all = json_of_file(fd);
    for (uint32_t h = 0; h < HOSTS; h++) {
        double error_ns = (double)emu_json_number(file_host(all, h), "clock_error_ns", -1);

        CU_ASSERT_EQUAL_FATAL(file_has(all, node[h], &us), h == 1 ? REPORTED_COUNT : 1);
        CU_ASSERT_EQUAL(error_ns > 0, h > 0);
        origin_ns = h ? origin_ns : (double)began_ns[0] - us * 1000; /* all hosts share one clock */
        CU_ASSERT_DOUBLE_EQUAL(us * 1000, (double)began_ns[h] - origin_ns, error_ns + 2);
    }
    CU_ASSERT_EQUAL(emu_json_number(field(all, "otherData"), "missed", -1), 0);
    json_object_put(all);
    close(fd);
    fixture_free();
}

/* Return how many processes attached to @node according to the file, and close it. */
static uint32_t timeline_attached(int fd, int64_t node)
{
    struct json_object *all = json_of_file(fd), *events = field(all, "traceEvents");
    uint32_t attached = 0;

    for (size_t i = 0; i < emu_json_count(events); i++) {
        struct json_object *event = emu_json_at(events, i);

        attached += emu_json_number(event, "pid", NODES) == node &&
                    strstr(emu_json_text(event, "name", ""), "attached");
    }
    json_object_put(all);
    close(fd);
    return attached;
}

/* Processes that make groups without end leave space in the file for events of other hosts. */
static void timeline__of_groups_leaves_space(void)
{
    struct timeline_plan plan;
    struct conn conn[3];
    uint32_t nodes[2];
    int fd = timeline_start(&plan, "oq2004", false, UINT64_C(1) << 17);

    for (uint32_t i = 0; i < 2; i++)
        nodes[i] = (uint32_t)attach(&conn[i], 1, -1);
    for (uint32_t i = 0; i < 400; i++)
        CU_ASSERT_EQUAL(of_group(&conn[0], "group_leave", create_group(&conn[0], nodes, 2)), 0);
    nodes[0] = (uint32_t)attach(&conn[2], 0, -1);
    for (uint32_t i = 0; i < 3; i++)
        conn_close(&conn[i]);
    fixture_end();
    CU_ASSERT_EQUAL(timeline_attached(fd, nodes[0]), 1);
    fixture_free();
}

/* A host whose switches report traps without end leaves space in the file, too. */
static void timeline__of_traps_leaves_space(void)
{
    struct timeline_plan plan;
    struct conn conn, heard;
    uint32_t sw;
    int64_t node;
    int fd = timeline_start(&plan, "qsnet3", false, UINT64_C(72) << 10);

    connects(&heard, 0);
    json_object_put(query(&heard, command("subscribe")));
    connects(&conn, 1);
    add_fault(&conn, "bit-errors link=any rate=1e-9"); /* the manager scans the devices */
    sw = fixture.graph->node[NODES / HOSTS].link[0].sw;
    for (uint32_t i = 0; i < 45; i++) {
        switch_trap(fixture.host[1].fabric->sw[sw], 0);
        json_object_put(next_event(&heard, "trap"));
    }
    conn_close(&conn);
    node = attach(&conn, 0, -1);
    conn_close(&conn);
    conn_close(&heard);
    fixture_end();
    CU_ASSERT_EQUAL(timeline_attached(fd, node), 1);
    fixture_free();
}

/* Its earlier reports stay, the file records the loss, and its next incarnation reports, too. */
static void timeline__of_a_lost_host_is_valid(void)
{
    struct timeline_plan plan;
    struct conn conn;
    int64_t node, next;
    int fd = timeline_start(&plan, "oq2004", true, TIMELINE_MOST_BYTES);
    struct json_object *all;

    node = attach(&conn, 1, -1);
    finish_barriers(node, 0, REPORTED_COUNT);
    json_object_put(query(&conn, command("report"))); /* the coordinator has all reports by then */
    lose_host(1);
    conn_close(&conn);
    all = json_of_file(fd);
    CU_ASSERT_EQUAL(file_has(all, node, NULL), REPORTED_COUNT);
    json_object_put(all);
    host_returns(1);
    next = attach(&conn, 1, node + 1);
    finish_barriers(next, 0, 3);
    json_object_put(query(&conn, command("detach")));
    conn_close(&conn);
    fixture_end();
    all = json_of_file(fd);
    CU_ASSERT_EQUAL(file_has(all, node, NULL), REPORTED_COUNT);
    CU_ASSERT_EQUAL(file_has(all, next, NULL), 3);
    for (uint32_t h = 0; h < HOSTS; h++)
        CU_ASSERT_EQUAL(emu_json_number(file_host(all, h), "lost", -1), h == 1);
    json_object_put(all);
    close(fd);
    fixture_free();
}

#define AHEAD_NS (UINT64_C(1) << 50) /* offset of host 1's clock */
#define TOO_MANY 17u                 /* for the buffer of a process */

/* The file of host 0, and host 1, which reports; neither is served. */
struct reporter {
    struct timeline_agent *part;
    struct text_buf bytes;
    struct timeline *timeline;
    struct hostlink_offset clock;
    uint64_t asked_ns;
    int fd;
};

static void teller_open(struct reporter *reporter, uint64_t most_bytes)
{
    struct timeline_config config = {.most_bytes = most_bytes,
                                     .nodes = NODES,
                                     .host = names,
                                     .hosts = HOSTS};

    *reporter =
        (struct reporter){.fd = memfd_create("timeline", MFD_CLOEXEC), .asked_ns = emu_now_ns()};
    fixture_make("oq2004", false);
    config.fd = reporter->fd;
    config.fabric = fabric_config_of(fixture.host[0].fabric);
    CU_ASSERT_EQUAL_FATAL(timeline_create(&reporter->timeline, &config), 0);
    CU_ASSERT_EQUAL_FATAL(timeline_agent_create(&reporter->part, fixture.host[1].fabric, 0), 0);
    hostlink_offset_reset(&reporter->clock);
}

/* Returns the file. */
static struct json_object *reporter_close(struct reporter *reporter)
{
    struct json_object *all;

    timeline_destroy(reporter->timeline);
    timeline_agent_destroy(reporter->part);
    text_buf_free(&reporter->bytes);
    all = json_of_file(reporter->fd);
    close(reporter->fd);
    fixture_go();
    fixture_end();
    fixture_free();
    return all;
}

static bool teller_heard(struct reporter *reporter, const void *bytes, size_t count)
{
    const struct timeline_received heard = {.config = fabric_config_of(fixture.host[0].fabric),
                                            .host = 1,
                                            .bytes = bytes,
                                            .count = count,
                                            .asked_ns = reporter->asked_ns,
                                            .now_ns = emu_now_ns()};

    return timeline_receive(reporter->timeline, &reporter->clock, &heard);
}

/* As if its clock were ahead. Returns the number of records in the piece. */
static uint32_t piece_ahead(struct text_buf *bytes)
{
    char *at = bytes->at + sizeof(struct timeline_piece), *end = bytes->at + bytes->bytes;
    struct timeline_record record;
    struct timeline_piece piece;

    memcpy(&piece, bytes->at, sizeof piece);
    piece.now_ns += AHEAD_NS;
    memcpy(bytes->at, &piece, sizeof piece);
    for (; at < end; at += sizeof record) {
        memcpy(&record, at, sizeof record);
        record.one.began_ns += AHEAD_NS;
        record.one.ended_ns += AHEAD_NS;
        memcpy(at, &record, sizeof record);
    }
    return (uint32_t)((bytes->bytes - sizeof piece) / sizeof record);
}

/* Pieces of any size contain all records of two processes, one of which detaches meanwhile. */
static void timeline__is_reported_in_pieces_with_another_clock(void)
{
    struct fabric_attachment incarnation[2];
    struct fabric *fabric;
    struct reporter reporter;
    struct json_object *all;
    uint64_t began_ns;
    double us, error_ns;
    uint32_t records = 0;
    int64_t missed;
    int more = 1;

    teller_open(&reporter, TIMELINE_MOST_BYTES);
    fabric = fixture.host[1].fabric;
    for (int i = 0; i < 2; i++)
        CU_ASSERT_EQUAL_FATAL(fabric_attach(fabric, -1, &incarnation[i]), 0);
    began_ns = finish_barriers(incarnation[0].node, 0, 2);
    for (size_t most = 1; more; most *= 3) {
        reporter.asked_ns = emu_now_ns();
        more = timeline_agent_report(reporter.part, most, &reporter.bytes);
        CU_ASSERT_TRUE_FATAL(more == 0 || (more == 1 && reporter.bytes.bytes >= most));
        records += piece_ahead(&reporter.bytes);
        CU_ASSERT_TRUE_FATAL(teller_heard(&reporter, reporter.bytes.at, reporter.bytes.bytes));
        if (most == 1) { /* more than fits */
            finish_barriers(incarnation[1].node, 0, EMU_FINISHED_SLOTS + TOO_MANY);
            timeline_agent_leaves(reporter.part, incarnation[1].node);
        }
    }
    for (int i = 0; i < 2; i++) {
        fabric_detach(fabric, incarnation[i].node);
        fabric_attachment_close(&incarnation[i]);
    }
    all = reporter_close(&reporter);
    missed = emu_json_number(field(all, "otherData"), "missed", -1);
    CU_ASSERT_EQUAL(records, 2 + EMU_FINISHED_SLOTS + TOO_MANY - missed);
    CU_ASSERT_EQUAL(file_has(all, incarnation[1].node, NULL), records - 2);
    CU_ASSERT_TRUE(missed >= TOO_MANY && missed < 2 * TOO_MANY);
    CU_ASSERT_EQUAL_FATAL(file_has(all, incarnation[0].node, &us), 2);
    error_ns = (double)emu_json_number(file_host(all, 1), "clock_error_ns", 0);
    CU_ASSERT_TRUE(error_ns > 0);
    CU_ASSERT_DOUBLE_EQUAL(us * 1000, (double)began_ns, error_ns + 2);
    json_object_put(all);
}

/* A host with a different clock offset in each piece moves no record into the future. */
static void timeline__of_a_lying_clock_is_not_ahead(void)
{
    struct {
        struct timeline_piece piece;
        struct timeline_record record;
    } message = {.piece.now_ns = AHEAD_NS};
    struct json_object *all, *events;
    struct reporter reporter;

    teller_open(&reporter, TIMELINE_MOST_BYTES);
    message.record.node = NODES / HOSTS; /* the first node of host 1 */
    message.record.one = (struct emu_finished){.kind = EMU_BARRIER, .ended_ns = 1};
    CU_ASSERT_TRUE(teller_heard(&reporter, &message, sizeof message));
    all = reporter_close(&reporter);
    events = field(all, "traceEvents");
    CU_ASSERT_TRUE(emu_json_count(events) > 0);
    for (size_t i = 0; i < emu_json_count(events); i++)
        CU_ASSERT_TRUE(emu_json_double(emu_json_at(events, i), "ts", 0) * 1000 <=
                       (double)emu_now_ns());
    json_object_put(all);
}

/* A host that reports operations without end leaves space in the file for those of others. */
static void timeline__of_a_host_leaves_space(void)
{
    const struct emu_finished here = {.kind = EMU_BARRIER, .ended_ns = 1};
    struct {
        struct timeline_piece piece;
        struct timeline_record record;
    } message = {.piece.now_ns = AHEAD_NS};
    uint32_t kept[2] = {0}; /* events of host 0, and of host 1 */
    struct json_object *all;
    struct reporter reporter;

    teller_open(&reporter, UINT64_C(1) << 20);
    message.record.node = NODES / HOSTS; /* the first node of host 1 */
    for (uint32_t i = 0; i < 10000; i++) {
        message.record.one = (struct emu_finished){.kind = EMU_BARRIER, .ended_ns = i, .first = i};
        CU_ASSERT_TRUE_FATAL(teller_heard(&reporter, &message, sizeof message));
    }
    for (uint32_t i = 0; i < 1000; i++)
        timeline_finished(reporter.timeline, 0, 1, &here);
    all = reporter_close(&reporter);
    for (size_t i = 0; i < emu_json_count(field(all, "traceEvents")); i++) {
        struct json_object *event = emu_json_at(field(all, "traceEvents"), i);

        if (strcmp(emu_json_text(event, "ph", ""), "X") == 0)
            kept[emu_json_number(event, "pid", 0) != 0]++;
    }
    CU_ASSERT_EQUAL(kept[0], 1000);
    CU_ASSERT_TRUE(kept[1] > 1000);
    json_object_put(all);
}

/* Only records about the host's own nodes that have ended are accepted. */
static void timeline__invalid_reports_are_refused(void)
{
    struct {
        struct timeline_piece piece;
        struct timeline_record record[1];
    } message = {.piece.now_ns = emu_now_ns()}, wrong;
    struct timeline_record *record = &message.record[0];
    uint64_t random = test_seed();
    struct reporter reporter;

    teller_open(&reporter, TIMELINE_MOST_BYTES);
    *record = (struct timeline_record){.node = NODES / HOSTS, .one.kind = EMU_BARRIER};
    CU_ASSERT_TRUE(teller_heard(&reporter, &message, sizeof message));
    CU_ASSERT_TRUE(teller_heard(&reporter, &message, sizeof message.piece));
    CU_ASSERT_FALSE(teller_heard(&reporter, &message, sizeof message - 1));
    CU_ASSERT_FALSE(teller_heard(&reporter, &message, sizeof message.piece - 1));
    record->one.ended_ns = message.piece.now_ns + 1; /* ends in the future; */
    CU_ASSERT_FALSE(teller_heard(&reporter, &message, sizeof message));
    record->one.ended_ns = 4;
    record->one.began_ns = 5; /* has no beginning; */
    CU_ASSERT_FALSE(teller_heard(&reporter, &message, sizeof message));
    record->one.began_ns = 3;
    record->one.kind = EMU_FINISHED_KINDS; /* unknown kind; */
    CU_ASSERT_FALSE(teller_heard(&reporter, &message, sizeof message));
    record->one.kind = EMU_FINISHED_SENT;
    record->node = NODES / HOSTS - 1; /* host 0's node, */
    CU_ASSERT_FALSE(teller_heard(&reporter, &message, sizeof message));
    record->node = NODES; /* a node of no host */
    CU_ASSERT_FALSE(teller_heard(&reporter, &message, sizeof message));
    for (uint32_t i = 0; i < TEST_TRIALS(5000u); i++) {
        char *at = (char *)&wrong;

        for (size_t b = 0; b < sizeof wrong; b++)
            at[b] = (char)(test_random(&random) % (b % 3 ? 4 : 256));
        teller_heard(&reporter, at, test_random(&random) % 2 ? sizeof wrong : sizeof wrong / 2);
    }
    json_object_put(reporter_close(&reporter));
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(processes__get_nodes_of_their_own_host),
        CASE(group__is_created_and_breaks_everywhere),
        CASE(report__has_space_for_the_processes_of_each_host),
        CASE(group__is_opened_by_its_key_on_all_hosts),
        CASE(replicas__agree_after_random_requests),
        CASE(report__adds_up_all_hosts),
        CASE(standstill__covers_all_hosts),
        CASE(standstill__has_space_for_each_host),
        CASE(standstill__of_a_detached_process_is_discarded),
        CASE(mcast_buf__is_retired_after_a_remote_death),
        CASE(check__covers_all_hosts_and_names_them),
        CASE(stopped_host__delays_only_its_clients),
        CASE(stopped_host__delays_only_changes_of_all_hosts),
        CASE(stopped_host__answers_come_in_order),
        CASE(stopped_host__is_lost_after_the_limit),
        CASE(stopped_host__with_a_lost_link_delays_nobody),
        CASE(stopped_host__does_not_delay_the_end),
        CASE(request__gets_the_time_limit_of_its_reply),
        CASE(slow_host__is_lost_during_a_long_operation),
        CASE(end__does_not_wait_for_further_requests),
        CASE(end__has_parts_with_a_time_limit),
        CASE(audit__delays_only_requests_that_call_hosts),
        CASE(audit__without_end_delays_no_request_for_long),
        CASE(report__has_space_for_the_hits_of_each_host),
        CASE(slow_host__costs_no_other_host),
        CASE(fault__applies_at_the_device),
        CASE(fault__of_combine_units_reaches_all_hosts),
        CASE(link_down__reaches_all_hosts),
        CASE(faults__keep_replicas_equal),
        CASE(fault__end_does_not_restore_a_lost_host_link),
        CASE(host_lost__reports_its_processes_dead),
        CASE(link_lost__all_reroute),
        CASE(host_lost__pairs_routed_through_it_are_reported),
        CASE(host_lost__groups_combined_there_fail),
        CASE(host_back__again_and_again),
        CASE(host_back__two_at_once_and_twice_in_a_row),
        CASE(host_back__keeps_its_links_when_another_is_lost),
        CASE(host_back__dies_while_it_joins),
        CASE(host__reports_its_own_devices_only),
        CASE(host__repeated_reports_count_once),
        CASE(telemetry__covers_all_hosts),
        CASE(stopped_host__delays_only_the_first_snapshot),
        CASE(telemetry__ends_with_the_final_counts),
        CASE(telemetry__counters_of_a_lost_host_stay),
        CASE(capture__is_only_available_on_the_coordinator),
        CASE(telemetry__is_reported_in_pieces_of_any_size),
        CASE(telemetry__invalid_reports_are_refused),
        CASE(telemetry__of_a_host_leaves_space_for_collectives),
        CASE(timeline__covers_the_processes_of_all_hosts),
        CASE(timeline__of_a_lost_host_is_valid),
        CASE(timeline__is_reported_in_pieces_with_another_clock),
        CASE(timeline__of_a_lying_clock_is_not_ahead),
        CASE(timeline__of_a_host_leaves_space),
        CASE(timeline__of_groups_leaves_space),
        CASE(timeline__of_traps_leaves_space),
        CASE(timeline__invalid_reports_are_refused),
        CASE(process__stopped_on_another_host_counts_as_dead),
        CASE(process__frozen_continues_when_its_host_ends),
        CASE(connections__of_one_process_leave_some_for_others),
        CASE(connections__of_a_host_are_limited),
        CASE(connections__without_descriptors_are_reported),
        CASE(process__dead_before_its_reply_frees_its_node),
        CASE(connection__half_closed_or_malformed_is_answered),
        CASE(process__flooding_only_blocks_itself),
        CASE(coordinator__not_reading_is_waited_for),
        CASE(agent__receives_the_reason_of_a_failure),
        CASE(agent__stopped_while_unconnected_reports_why),
        CASE(pieces__are_read_as_their_process_reads),
        CASE(coordinator__sending_invalid_calls_is_lost),
        CASE(fault__is_reverted_as_applied),
        CASE(fault__impossible_is_refused),
        CASE(link__down_is_refused_where_unsupported),
        CASE(coordinator__may_send_any_json_to_a_process),
        CASE(coordinator__attaching_a_process_twice_leaks_nothing),
        CASE(coordinator__random_calls_are_answered),
        {NULL, NULL},
    };

    return test_run("hosts", cases);
}
