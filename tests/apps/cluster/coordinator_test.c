/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coordinator_test.c - the coordinator alone. This test plays the other hosts: they reply to every
 * call with success, except to one call, whose reply the case defines.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apps/control/conn.h"
#include "apps/audit/audit.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "apps/fabric/comm.h"
#include "apps/fabric/internal.h"
#include "apps/cluster/channel.h"
#include "apps/cluster/coordinator/internal.h"
#include "apps/inject/internal.h"
#include "emu/buffer/combiner.h"
#include "emu/hostif/pending.h"
#include "emu/fault/log.h"
#include "emu/packet/rule.h"
#include "emu/util/now.h"
#include "tests/test.h"
#include "tests/fixtures/hostifs.h"
#include "tests/fixtures/json.h"
#include "tests/fixtures/parsed.h"

#define PATIENCE_MS 30000
#define NODES       4
#define PLAYERS     3 /* two hosts, and the next incarnation of the first */

static const char *const names[] = {"red", "green", "blue"};

/* The agent's end of a control channel. */
struct player {
    struct conn conn; /* used by the thread only */
    pthread_t thread;
    const char *on; /* the call with the special answer; NULL: none */
    bool plays;
};

static struct stage {
    struct topo_graph *graph;
    struct fabric *fabric;
    struct coordinator *hosts;
    struct coordinator_config config;
    int control[PLAYERS];
    int stop_fd, closed_fd;
    struct player player[PLAYERS];
    void (*does)(struct conn *conn, struct json_object *call);
    _Atomic uint32_t asked;         /* how often that call was received */
    uint32_t connected, lost;       /* reported to the coordinator, */
    uint32_t lost_of[PLAYERS];      /* by host, */
    uint32_t back, again;           /* next incarnations of host 1: connected, and attempts */
    uint32_t partitioned, rejoined; /* state of the link to the other host */
    char why[256];
    _Atomic bool anything; /* the other host sends random messages */
    bool lets_in;          /* a process: */
    int client_fd;         /* the daemon's end of its connection */
} stage;

static void replies(struct conn *conn, struct json_object *call, struct json_object *reply, int err)
{
    json_add_number(reply, "reply", (uint64_t)emu_json_number(call, "call", 0));
    conn_put(conn, json_add_number(reply, "errno", (uint64_t)err));
    conn_drain(conn, PATIENCE_MS);
}

static void answers_at_random(struct conn *conn, struct json_object *call);

static void *other_host(void *arg)
{
    struct player *player = arg;
    struct conn *conn = &player->conn;
    struct json_object *call;

    while (conn_wait(conn, &call, PATIENCE_MS) == 0) {
        const char *what = emu_json_text(call, "do", "");

        if (stage.anything && strcmp(what, "end") != 0) {
            answers_at_random(conn, call);
        } else if (player->on && strcmp(what, player->on) == 0) {
            stage.asked++;
            stage.does(conn, call);
        } else if (emu_json_number(call, "call", 0)) {
            replies(conn, call, json_object_new_object(), 0);
        }
        json_object_put(call);
    }
    shutdown(conn->fd, SHUT_RDWR);
    return NULL;
}

/* Returns the coordinator's end. */
static int player_enters(struct player *player, const char *on)
{
    int pair[2];

    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    conn_open(&player->conn, pair[1], CONN_REPLY_MAX);
    player->on = on;
    return pair[0];
}

static void player_plays(struct player *player)
{
    CU_ASSERT_EQUAL_FATAL(pthread_create(&player->thread, NULL, other_host, player), 0);
    player->plays = true;
}

static void player_leaves(struct player *player)
{
    if (player->plays)
        pthread_join(player->thread, NULL);
    conn_close(&player->conn);
}

static int on_connected(void *ctx, int fd, struct coordinator_process *process, const char **why)
{
    (void)ctx;
    stage.connected++;
    if (stage.lets_in) {
        stage.client_fd = fd;
        coordinator_process_forget(process); /* the coordinator frees it when it has ended */
        return 0;
    }
    *why = "nobody is let in";
    return -EMFILE;
}

static void on_lost(void *ctx, uint32_t host, const char *why)
{
    (void)ctx;
    CU_ASSERT_FATAL(host > 0 && host < PLAYERS);
    stage.lost++;
    stage.lost_of[host]++;
    snprintf(stage.why, sizeof stage.why, "%s", why);
}

static void on_link_lost(void *ctx, uint32_t host, const struct hosts_link *link)
{
    (void)ctx;
    CU_ASSERT_EQUAL(host, 1);
    CU_ASSERT_EQUAL(link->host, 0);
    stage.partitioned++;
}

static void on_cut_off(void *ctx, uint32_t host, uint32_t node)
{
    (void)ctx;
    (void)node;
    CU_ASSERT_EQUAL(host, 1);
}

static void on_mended(void *ctx, uint32_t a, uint32_t b)
{
    (void)ctx;
    CU_ASSERT_EQUAL(a, 0);
    CU_ASSERT_EQUAL(b, 1);
    stage.rejoined++;
}

/* Bring up the links at once, without waiting for a query. */
static void on_links_due(void *ctx)
{
    (void)ctx;
    coordinator_links_mend(stage.hosts);
}

/* The coordinator has not connected to the other host yet. */
static void stage_set(const char *on, void (*does)(struct conn *conn, struct json_object *call))
{
    const struct fabric_config config = {.threads = 1, .clock = EMU_CLOCK_RAW};
    struct fabric_config with = config;

    stage = (struct stage){.does = does};
    for (uint32_t i = 0; i < PLAYERS; i++)
        stage.player[i].conn.fd = -1;
    fixture_profile(&with.profile, "oq2004", NULL);
    stage.fabric = fixture_fabric_start(&stage.graph, "kary:2,2", NODES, &with);
    stage.control[1] = player_enters(&stage.player[0], on);
    stage.stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    stage.config = (struct coordinator_config){.fabric = stage.fabric,
                                               .count = 2,
                                               .control = stage.control,
                                               .name = names,
                                               .call_ms = PATIENCE_MS,
                                               .query_ms = PATIENCE_MS,
                                               .start_ms = PATIENCE_MS,
                                               .last_ms = PATIENCE_MS,
                                               .signal_fd = stage.stop_fd,
                                               .owner_fd = -1,
                                               .ops = {.connected = on_connected,
                                                       .lost = on_lost,
                                                       .link_lost = on_link_lost,
                                                       .links_due = on_links_due,
                                                       .cut_off = on_cut_off,
                                                       .mended = on_mended}};
    player_plays(&stage.player[0]);
}

static const struct fabric_mirror *stage_open(const char *on,
                                              void (*does)(struct conn *conn,
                                                           struct json_object *call))
{
    char error[256] = "";

    stage_set(on, does);
    CU_ASSERT_EQUAL_FATAL(coordinator_open(&stage.hosts, &stage.config, error, sizeof error), 0);
    return coordinator_mirror(stage.hosts);
}

/*
 * Let switches 0 and 1 be on the other host, with their nodes. The fabric has all devices
 * nevertheless.
 */
static void stage_divide(void)
{
    static const uint32_t of[] = {1, 1, 0, 0};
    static const struct fabric_hosts hosts = {.count = 2, .of = of};

    CU_ASSERT_EQUAL_FATAL(stage.graph->switches, sizeof of / sizeof of[0]);
    stage.fabric->config.hosts = &hosts;
}

static void stage_close(void)
{
    stage.fabric->config.hosts = NULL;
    coordinator_close(stage.hosts, NULL);
    for (uint32_t i = 0; i < PLAYERS; i++)
        player_leaves(&stage.player[i]);
    close(stage.stop_fd);
    fixture_fabric_stop(stage.fabric, stage.graph);
}

/* Serve until the other host is lost. */
static void serve_until_lost(void)
{
    struct pollfd ready = {coordinator_fd(stage.hosts), POLLIN, 0};

    while (!stage.lost && poll(&ready, 1, PATIENCE_MS) > 0)
        coordinator_serve(stage.hosts);
    CU_ASSERT_EQUAL(stage.lost, 1);
    CU_ASSERT_TRUE(coordinator_is_lost(stage.hosts, 1));
}

/* --- failed calls --------------------------------------------------------------------------- */

static void has_no_memory(struct conn *conn, struct json_object *call)
{
    replies(conn, call, json_object_new_object(), ENOMEM);
}

static void could_not(struct conn *conn, struct json_object *call)
{
    (void)call; /* nobody waits for this call */
    conn_put(conn,
             json_add_number(json_add_text(json_object_new_object(), "failed", "a\033 link\377"),
                             "errno", ENOMEM));
    conn_drain(conn, PATIENCE_MS);
}

static void failure__of_a_mandatory_call_loses_the_host(void)
{
    const struct fabric_mirror *mirror = stage_open("reroute", has_no_memory);

    mirror->incarnation(mirror->ctx, 1, 2);
    CU_ASSERT_EQUAL(stage.lost, 0);
    mirror->reroute(mirror->ctx, (const uint32_t[]){1}, 1);
    serve_until_lost();
    CU_ASSERT_PTR_NOT_NULL(strstr(stage.why, "reroute"));
    CU_ASSERT_PTR_NOT_NULL(strstr(stage.why, strerror(ENOMEM)));
    stage_close();

    mirror = stage_open("link", could_not); /* it is notified, and not called */
    mirror->link(mirror->ctx, 1, false, 0);
    serve_until_lost();
    /* control characters are replaced when it is printed, and escaped in JSON */
    CU_ASSERT_PTR_NOT_NULL(strstr(stage.why, "(a? link?)"));
    CU_ASSERT_PTR_NOT_NULL(strstr(stage.why, strerror(ENOMEM)));
    stage_close();
}

/* The client that asked for a group gets the error, and all other hosts remove it again. */
static void failure__reported_does_not_lose_the_host(void)
{
    const struct fabric_mirror *mirror = stage_open("group", has_no_memory);
    const uint32_t nodes[] = {0, 1};
    const struct fabric_group_call group = {.nodes = nodes, .count = 2, .id = 7};
    char error[128] = "";

    /* -ENOMEM would end the program: the component would take it for an error of its own process */
    CU_ASSERT_EQUAL(mirror->group(mirror->ctx, &group, error, sizeof error), -ENOSPC);
    CU_ASSERT_STRING_EQUAL(error, "host green cannot make the group: Cannot allocate memory");
    CU_ASSERT_EQUAL(coordinator_groups_refused(stage.hosts, 1), 1);
    stage_close();
    CU_ASSERT_EQUAL(stage.lost, 0);
}

/* --- hosts that end, send invalid data or do not answer ----------------------------------- */

/* A process connects while the host handles a call, and the host is lost. */
static void connects_and_ends(struct conn *conn, struct json_object *call)
{
    static const char line[] = "{\"client\":5,\"new\":1,\"command\":\"late\"}\n";

    (void)call;
    send(conn->fd, line, sizeof line - 1, MSG_NOSIGNAL);
    shutdown(conn->fd, SHUT_RDWR);
}

static void process__of_a_lost_host_is_not_admitted(void)
{
    const struct fabric_mirror *mirror = stage_open("totals", connects_and_ends);
    struct fabric_totals sum = {0};

    mirror->totals(mirror->ctx, &sum);
    CU_ASSERT_EQUAL(stage.lost, 1);
    for (int i = 0; i < 3; i++)
        coordinator_serve(stage.hosts);
    CU_ASSERT_EQUAL(stage.connected, 0);
    stage_close();
}

/* Send a message about a process. Its field "hit" is of a kind that is handled during a call. */
static void connects_as_a_hit(struct conn *conn, struct json_object *call)
{
    static const char line[] = "{\"client\":5,\"new\":1,\"command\":\"early\",\"hit\":1}\n";

    send(conn->fd, line, sizeof line - 1, MSG_NOSIGNAL);
    replies(conn, call, json_object_new_object(), 0);
}

/* The daemon may iterate over its clients during a call. */
static void process__does_not_connect_during_a_call(void)
{
    const struct fabric_mirror *mirror = stage_open("totals", connects_as_a_hit);
    struct fabric_totals sum = {0};

    mirror->totals(mirror->ctx, &sum);
    CU_ASSERT_EQUAL(stage.connected, 0);
    stage_close();
    CU_ASSERT_EQUAL(stage.lost, 0);
}

#define LIES_MOST 10000 /* then it is silent: the coordinator should have dropped it before */

static void has_ever_more(struct conn *conn, struct json_object *call)
{
    struct json_object *reply = json_object_new_object();
    int64_t from = emu_json_number(call, "from", 0);

    json_object_object_add(reply, "pending", json_object_new_object());
    if (stage.asked < LIES_MOST)
        json_add_number(reply, "next", (uint64_t)from + 1);
    replies(conn, call, reply, 0);
}

static void host__sending_without_end_is_lost(void)
{
    const struct fabric_mirror *mirror = stage_open("pending", has_ever_more);
    struct emu_pending pending;

    CU_ASSERT_FALSE(mirror->pending(mirror->ctx, 1, 0, &pending));
    CU_ASSERT_TRUE(stage.asked < LIES_MOST);
    CU_ASSERT_EQUAL(stage.lost, 1);
    stage_close();
}

/* Sends other messages instead of the answer, over and over. */
static void sends_other_messages(struct conn *conn, struct json_object *call)
{
    static const char line[] = "{\"client\":5,\"how\":\"\"}\n";

    for (uint32_t i = 0; i < 100000 && conn_put_line(conn, line, sizeof line - 2) == 0; i++)
        conn_drain(conn, PATIENCE_MS);
    replies(conn, call, json_object_new_object(), 0);
}

static void host__sending_other_messages_is_lost(void)
{
    const struct fabric_mirror *mirror = stage_open("cut_off", sends_other_messages);

    mirror->cut_off(mirror->ctx, true);
    CU_ASSERT_EQUAL(stage.lost, 1);
    stage_close();
}

static const struct flood {
    const char *begin, *part, *end; /* a line: @begin, @part @times times, @end */
    size_t times;
    uint32_t lines;
    const char *why; /* NULL: a correct host may send it */
} floods[] = {
    {"{\"x\":[0", ",[]", "]}\n", HOSTS_AGENT_CONTAINERS - 2, 1, NULL},
    {"{\"x\":[0", ",[]", "]}\n", HOSTS_AGENT_CONTAINERS - 1, 1, "not a valid message"},
    {"{\"x\":[0", ",{}", "]}\n", 1 << 20, 1, "not a valid message"},
    {"{\"x\":\"\\\"", "[{", "\"}\n", 1 << 20, 1, NULL},             /* brackets in a string */
    {"{'\"':[0", ",{}", "]}\n", 1 << 20, 1, "not a valid message"}, /* json-c takes this name */
    {"{\"x\":\"", "12345678", "\"}\n", 1 << 20, 1, "longer line"},
    {"{\"x\":\"", "12345678", "\"}\n", 1 << 17, 16, NULL},
    {"{\"x\":\"", "12345678", "\"}\n", 1 << 17, 65, "does not answer"}, /* 65 MiB */
};
static const struct flood *flood;

static void floods_and_answers(struct conn *conn, struct json_object *call)
{
    size_t part = strlen(flood->part), begin = strlen(flood->begin), end = strlen(flood->end);
    size_t bytes = begin + part * flood->times + end;
    char *line = malloc(bytes + 1), *at = line + begin;
    bool sent = true;

    memcpy(line, flood->begin, begin);
    for (size_t i = 0; i < flood->times; i++, at += part)
        memcpy(at, flood->part, part);
    memcpy(at, flood->end, end);
    fcntl(conn->fd, F_SETFL, 0); /* blocking, until the coordinator closes */
    for (uint32_t i = 0; sent && i < flood->lines; i++)
        for (size_t done = 0; sent && done < bytes;) {
            ssize_t some = send(conn->fd, line + done, bytes - done, MSG_NOSIGNAL);

            sent = some > 0;
            done += sent ? (size_t)some : 0;
        }
    free(line);
    replies(conn, call, json_object_new_object(), 0);
}

/* Messages before an answer are queued and parsed: both are limited. */
static void host__flooding_before_its_answer_is_lost(void)
{
    for (size_t i = 0; i < sizeof floods / sizeof floods[0]; i++) {
        const struct fabric_mirror *mirror;

        flood = &floods[i];
        mirror = stage_open("cut_off", floods_and_answers);
        mirror->cut_off(mirror->ctx, true);
        CU_ASSERT_EQUAL(stage.lost, flood->why != NULL);
        CU_ASSERT_PTR_NOT_NULL(strstr(stage.why, flood->why ? flood->why : ""));
        stage_close();
    }
}

/* --- hosts that send random data ------------------------------------------------------------- */

static const char *answer_text; /* the other host's answer without "reply" and "errno" */

static void reports(struct conn *conn, struct json_object *call)
{
    replies(conn, call, json_tokener_parse(answer_text), 0);
}

/* Return the report on the links of the other host if it sends @text. The caller releases it. */
static struct json_object *links_from(const struct fabric_mirror *mirror, const char *text)
{
    struct fabric_totals sum = {0};
    struct json_object *links;

    answer_text = text;
    mirror->totals(mirror->ctx, &sum);
    coordinator_totals_of(stage.hosts, 1, &links);
    return links;
}

#define MANY 20000u

/* Each report on the fabric includes the report on the links, so that is limited. */
static void report__of_links_is_limited(void)
{
    const struct fabric_mirror *mirror = stage_open("totals", reports);
    char *text = malloc(32 * MANY), *at = text;

    at += sprintf(at, "{\"links\":[{\"host\":\"red\"");
    for (uint32_t i = 0; i < MANY; i++)
        at += sprintf(at, ",\"n%u\":1", i);
    strcpy(at, "}]}");
    CU_ASSERT_PTR_NULL(links_from(mirror, text));
    at = text + sprintf(text, "{\"links\":[{\"host\":\"");
    memset(at, 'r', MANY);
    strcpy(at + MANY, "\"}]}");
    CU_ASSERT_PTR_NULL(links_from(mirror, text));
    at = text + sprintf(text, "{\"links\":[{\"host\":\"red\",\"");
    memset(at, 'r', MANY);
    strcpy(at + MANY, "\":1}]}");
    CU_ASSERT_PTR_NULL(links_from(mirror, text));
    at = text + sprintf(text, "{\"links\":[{}");
    for (uint32_t i = 0; i < 1000; i++)
        at += sprintf(at, ",{}");
    strcpy(at, "]}");
    CU_ASSERT_PTR_NULL(links_from(mirror, text));
    free(text);
    stage_close();
    CU_ASSERT_EQUAL(stage.lost, 0);
}

/* The report prints a host's data about its links, so a wrong shape must be refused. */
static void report__of_links_is_validated(void)
{
    static const char *const lies[] = {
        "{\"links\":{}}",
        "{\"links\":7}",
        "{\"links\":[7]}",
        "{\"links\":[null]}",
        "{\"links\":[{\"host\":[]}]}",
        "{\"links\":[{\"host\":\"\\u001b[2J\"}]}",
        "{\"links\":[{\"host\":\"red\",\"cables\":\"3\"}]}",
        "{\"links\":[{\"host\":\"red\",\"cables\":{}}]}",
    };
    const struct fabric_mirror *mirror = stage_open("totals", reports);
    struct fabric_totals sum = {0};
    struct json_object *links;

    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        answer_text = lies[i];
        mirror->totals(mirror->ctx, &sum);
        coordinator_totals_of(stage.hosts, 1, &links);
        CU_ASSERT_PTR_NULL(links);
    }
    answer_text = "{\"links\":[{\"host\":\"red\",\"cables\":3}]}";
    mirror->totals(mirror->ctx, &sum);
    coordinator_totals_of(stage.hosts, 1, &links);
    CU_ASSERT_TRUE(json_object_is_type(links, json_type_array));
    json_object_put(links);
    stage_close();
    CU_ASSERT_EQUAL(stage.lost, 0);
}

/* The real-time factor in the report when the other host reports @factor. */
static double factor_with(const struct fabric_mirror *mirror, const char *factor)
{
    struct json_object *list = json_object_new_array(), *reply = json_object_new_object();
    struct fabric_totals sum = {.real_time_factor = 1};

    for (size_t i = 0; i < FABRIC_COUNTERS; i++)
        json_object_array_add(list, json_object_new_int(0));
    json_object_array_add(list, json_object_new_string(factor)); /* json-c converts it */
    json_object_array_add(list, json_object_new_int(0));
    json_object_object_add(reply, "totals", list);
    answer_text = json_object_to_json_string(reply);
    mirror->totals(mirror->ctx, &sum);
    json_object_put(reply);
    return sum.real_time_factor;
}

static void totals__ignore_an_impossible_factor(void)
{
    const struct fabric_mirror *mirror = stage_open("totals", reports);

    CU_ASSERT_EQUAL(factor_with(mirror, "0.25"), 0.25);
    CU_ASSERT_EQUAL(factor_with(mirror, "-0.5"), 1);
    CU_ASSERT_EQUAL(factor_with(mirror, "-inf"), 1);
    CU_ASSERT_EQUAL(factor_with(mirror, "nan"), 1);
    stage_close();
    CU_ASSERT_EQUAL(stage.lost, 0);
}

#define TEN(text)     text text text text text text text text text text
#define MANY_FINDINGS "{\"audit\":{\"found\":0,\"wrong\":[\"\"" TEN(TEN(",\"\"")) "]}}"

/*
 * Findings of a host are added to the others' findings, and cannot cancel them. Each host has the
 * same share of the lines.
 */
static void audit__of_a_host_adds_to_those_of_others(void)
{
    const struct fabric_mirror *mirror = stage_open("audit", reports);
    struct fabric_audit sum = {.found = 1, .lines = 1, .line = {"own"}};

    answer_text = "{\"audit\":{\"found\":4294967295,\"wrong\":[\"\\u001b[2J\",null]}}";
    CU_ASSERT_EQUAL(mirror->audit(mirror->ctx, false, &sum), 0);
    CU_ASSERT_TRUE(sum.found > 2);
    CU_ASSERT_EQUAL(sum.lines, 3);
    CU_ASSERT_STRING_EQUAL(sum.line[1], "host green: ?[2J");
    CU_ASSERT_STRING_EQUAL(sum.line[2], "host green: ");
    answer_text = "{\"audit\":{\"found\":-1,\"wrong\":[\"a\"]}}";
    sum = (struct fabric_audit){.found = 1, .lines = 1, .line = {"own"}};
    CU_ASSERT_EQUAL(mirror->audit(mirror->ctx, false, &sum), 0);
    CU_ASSERT_EQUAL(sum.found, 2);
    answer_text = MANY_FINDINGS;
    sum = (struct fabric_audit){.found = 1, .lines = 1, .line = {"own"}};
    CU_ASSERT_EQUAL(mirror->audit(mirror->ctx, false, &sum), 0);
    CU_ASSERT_EQUAL(sum.found, 102);
    CU_ASSERT_EQUAL(sum.lines, 1 + FABRIC_FINDINGS / 2);
    answer_text = "{\"audit\":{\"switches\":4294967295,\"cables\":-1,\"buffers\":-1,"
                  "\"paused_ns\":-1}}";
    sum = (struct fabric_audit){.switches = 2, .cables = 2, .buffers = 2, .paused_ns = 2};
    CU_ASSERT_EQUAL(mirror->audit(mirror->ctx, false, &sum), 0);
    CU_ASSERT_EQUAL(sum.switches, UINT32_MAX);
    CU_ASSERT_EQUAL(sum.cables, UINT32_MAX);
    CU_ASSERT_EQUAL(sum.buffers, UINT64_MAX);
    CU_ASSERT_EQUAL(sum.paused_ns, 2);
    stage_close();
    CU_ASSERT_EQUAL(stage.lost, 0);
}

/* A forged number of rerouted segments does not hide those of other hosts. */
static void rerouted__forged_number_does_not_wrap(void)
{
    const struct fabric_mirror *mirror = stage_open("reroute_in_flight", reports);
    struct fabric_rerouted sum = {.segments = 1, .partitioned = 1};

    answer_text = "{\"segments\":4294967295,\"partitioned\":-1}";
    mirror->reroute_in_flight(mirror->ctx, false, false, &sum);
    CU_ASSERT_EQUAL(sum.segments, UINT64_C(1) << 32);
    CU_ASSERT_EQUAL(sum.partitioned, UINT64_MAX);
    stage_close();
    CU_ASSERT_EQUAL(stage.lost, 0);
}

/*
 * How many switches are accepted from @reply, which lists contributions that reached the other
 * host.
 */
static uint32_t arrived_switches(const struct fabric_mirror *mirror, uint32_t group,
                                 const char *reply)
{
    struct fabric_arrived arrived[8];

    answer_text = reply;
    return mirror->arrived(mirror->ctx, group, 0, arrived, 8);
}

#if EMU_PORT_WORDS == 1
#define MORE_WORDS ""
#else
#define MORE_WORDS ",0,0,0" /* of a set of ports, in fabemu-wide */
#endif

static void arrivals__at_unknown_ports_are_skipped(void)
{
    const struct fabric_mirror *mirror = stage_open("arrived", reports);
    uint32_t group;

    CU_ASSERT_EQUAL_FATAL(stage.graph->ports, 4);
    group = fixture_group_of_first(stage.fabric, NODES);
    stage_divide();
    CU_ASSERT_EQUAL(arrived_switches(mirror, group,
                                     "{\"arrived\":[0,15" MORE_WORDS ",1,8" MORE_WORDS "]}"),
                    2);
    CU_ASSERT_EQUAL(arrived_switches(mirror, group,
                                     "{\"arrived\":[0,16" MORE_WORDS ",1,8" MORE_WORDS "]}"),
                    1);
    /* switch 2 is on the coordinator; 900: no switch */
    CU_ASSERT_EQUAL(arrived_switches(mirror, group,
                                     "{\"arrived\":[2,1" MORE_WORDS ",900,1" MORE_WORDS
                                     ",1,8" MORE_WORDS "]}"),
                    1);
    CU_ASSERT_EQUAL(arrived_switches(mirror, group, "{\"arrived\":[0,9223372036854775808]}"), 0);
    CU_ASSERT_EQUAL(arrived_switches(mirror, group, "{\"arrived\":[0,\"1\",1,null,2,[]]}"), 0);
    CU_ASSERT_EQUAL(arrived_switches(mirror, group, "{\"arrived\":[0,1" MORE_WORDS ",1]}"), 1);
    CU_ASSERT_EQUAL(arrived_switches(mirror, group, "{\"arrived\":7}"), 0);
    fixture_group_end(stage.fabric, group);
    stage_close();
    CU_ASSERT_EQUAL(stage.lost, 0);
}

/*
 * A host that names a switch twice, or one that does not combine for the group, uses up no space
 * for the switches of other hosts. The group has one switch, because its members are at one switch.
 */
static void arrivals__are_accepted_once_for_each_switch_of_the_group(void)
{
    const struct fabric_mirror *mirror = stage_open("arrived", reports);
    uint32_t group = fixture_group_of_first(stage.fabric, 2);

    stage_divide();
    CU_ASSERT_EQUAL(arrived_switches(mirror, group,
                                     "{\"arrived\":[0,1" MORE_WORDS ",0,2" MORE_WORDS
                                     ",1,1" MORE_WORDS "]}"),
                    1);
    CU_ASSERT_EQUAL(arrived_switches(mirror, UINT32_MAX, "{\"arrived\":[0,1" MORE_WORDS "]}"), 0);
    fixture_group_end(stage.fabric, group);
    stage_close();
    CU_ASSERT_EQUAL(stage.lost, 0);
}

/* Return whether a host's report that the calls of two members of a group differ is accepted. */
static bool accepts_mismatch(const struct fabric_mirror *mirror, uint32_t group, uint32_t first,
                             uint32_t other)
{
    struct emu_mismatch mismatch = {.first.src = first, .other.src = other};
    char text[2 * sizeof mismatch + 32];
    struct json_object *digits = hosts_to_hex(&mismatch, sizeof mismatch);
    bool accepted;

    snprintf(text, sizeof text, "{\"mismatch\":\"%s\"}", json_object_get_string(digits));
    json_object_put(digits);
    answer_text = text;
    accepted = mirror->mismatch(mirror->ctx, group, &mismatch);
    CU_ASSERT_TRUE(!accepted || mismatch.other.src == other);
    return accepted;
}

/*
 * A host without a part of a group cannot report that calls of the group's members differ. A host
 * with a part may only name members.
 */
static void mismatch__of_the_group_of_others_is_ignored(void)
{
    const struct fabric_mirror *mirror = stage_open("mismatch", reports);
    uint32_t group = fixture_group_of_first(stage.fabric, 2);

    CU_ASSERT_FALSE(accepts_mismatch(mirror, group, 0, 1));
    fixture_group_end(stage.fabric, group);
    stage_divide();
    group = fixture_group_of_first(stage.fabric, 2);
    CU_ASSERT_TRUE(accepts_mismatch(mirror, group, 0, 1));
    CU_ASSERT_FALSE(accepts_mismatch(mirror, group, 0, 2));
    CU_ASSERT_FALSE(accepts_mismatch(mirror, group, 3, 1));
    CU_ASSERT_FALSE(accepts_mismatch(mirror, group, 0, UINT32_MAX));
    fixture_group_end(stage.fabric, group);
    stage_close();
    CU_ASSERT_EQUAL(stage.lost, 0);
}

/* The numbers are node, switch, port, wait and age. Switches 2 and 3 are on the coordinator. */
static void stalls__elsewhere_are_skipped(void)
{
    const struct fabric_mirror *mirror = stage_open("stalls", reports);
    struct fabric_stall stalls[8];

    stage_divide();
    /* the last two are of node 0, which is at port 0 of switch 0 */
    answer_text = "{\"stalls\":[4294967295,2,0,2,7, 4294967295,1,3,2,7, 4294967295,900,0,2,7,"
                  "4294967295,0,900,2,7, 4294967295,0,0,900,7, 0,2,0,2,7, 0,0,0,2,7]}";
    CU_ASSERT_EQUAL_FATAL(topo_first_link(stage.graph, 0)->sw, 0);
    CU_ASSERT_EQUAL_FATAL(topo_first_link(stage.graph, 0)->port, 0);
    CU_ASSERT_EQUAL_FATAL(mirror->stalls(mirror->ctx, 7, stalls, 8), 2);
    CU_ASSERT_EQUAL(stalls[1].sw, 0);
    CU_ASSERT_EQUAL(stalls[0].sw, 1);
    CU_ASSERT_EQUAL(stalls[0].port, 3);
    stage_close();
    CU_ASSERT_EQUAL(stage.lost, 0);
}

#define A_STALL "4294967295,1,3,2,7"

/* A host that reports more stalls than there is space for leaves half of it to other hosts. */
static void stalls__of_a_host_leave_space(void)
{
    const struct fabric_mirror *mirror = stage_open("stalls", reports);
    struct fabric_stall stalls[3];

    stage_divide();
    answer_text = "{\"stalls\":[" A_STALL "," A_STALL "," A_STALL "," A_STALL "]}";
    CU_ASSERT_EQUAL(mirror->stalls(mirror->ctx, 7, stalls, 3), 2);
    CU_ASSERT_EQUAL(mirror->stalls(mirror->ctx, 7, stalls, 1), 1);
    stage_close();
    CU_ASSERT_EQUAL(stage.lost, 0);
}

static const struct emu_fault_hit a_hit = {.fault = 1, .what = EMU_FAULT_LOSE, .packet = 1};

static void count_hit(void *ctx, uint32_t host, const struct emu_fault_hit *hit)
{
    CU_ASSERT_EQUAL(host, 1);
    CU_ASSERT_TRUE(hit->what <= EMU_FAULT_SEE);
    ++*(uint32_t *)ctx;
}

/* How many hits are accepted if byte @at of one is set to @to. */
static uint32_t hits_with(size_t at, uint8_t to)
{
    struct json_object *reply = json_object_new_object(), *log = json_object_new_array();
    uint8_t bytes[sizeof a_hit];
    uint32_t taken = 0;

    memcpy(bytes, &a_hit, sizeof bytes);
    bytes[at] = to;
    json_object_array_add(log, hosts_to_hex(bytes, sizeof bytes));
    json_object_object_add(reply, "log", log);
    answer_text = json_object_to_json_string(reply);
    coordinator_hits(stage.hosts, false, count_hit, &taken);
    json_object_put(reply);
    return taken;
}

static void hit__of_an_unknown_device_is_skipped(void)
{
    stage_open("hits", reports);
    CU_ASSERT_EQUAL(hits_with(0, 0), 0); /* the device is on the coordinator */
    stage_divide();
    CU_ASSERT_EQUAL(hits_with(0, 0), 1);
    CU_ASSERT_EQUAL(hits_with(offsetof(struct emu_fault_hit, what), EMU_FAULT_SEE + 1), 0);
    CU_ASSERT_EQUAL(hits_with(offsetof(struct emu_fault_hit, link_down), 2), 0);
    CU_ASSERT_EQUAL(hits_with(offsetof(struct emu_fault_hit, known), 255), 0);
    CU_ASSERT_EQUAL(hits_with(offsetof(struct emu_fault_hit, cable) + 3, 1), 0);
    stage_close();
    CU_ASSERT_EQUAL(stage.lost, 0);
}

static void last_time(void *ctx, uint32_t host, const struct emu_fault_hit *hit)
{
    CU_ASSERT_EQUAL(host, 1);
    *(uint64_t *)ctx = hit->at_ps;
}

/* A fault that waits for a hit begins at the time of the hit. */
static void hit__of_the_future_counts_as_of_now(void)
{
    struct emu_fault_hit hit = a_hit;
    struct json_object *reply = json_object_new_object(), *log = json_object_new_array();
    uint64_t at_ps = 0;

    hit.at_ps = UINT64_MAX / 2;
    json_object_array_add(log, hosts_to_hex(&hit, sizeof hit));
    json_object_object_add(reply, "log", log);
    answer_text = json_object_to_json_string(reply);
    stage_open("hits", reports);
    stage_divide();
    coordinator_hits(stage.hosts, false, last_time, &at_ps);
    CU_ASSERT_TRUE(at_ps > 0 && at_ps <= emu_now_ns() * 1000u);
    json_object_put(reply);
    stage_close();
    CU_ASSERT_EQUAL(stage.lost, 0);
}

/* A host may list faults in any order, and report any number of hits. */
static void hits__are_found_by_their_fault(void)
{
    struct inject_remote remote;
    uint32_t taken = 0;

    answer_text = "{\"hits\":[9,4,1,18446744073709551615,5,2,7,3,8]}";
    stage_open("hits", reports);
    remote = coordinator_inject(stage.hosts);
    coordinator_hits(stage.hosts, true, count_hit, &taken);
    CU_ASSERT_EQUAL(remote.hits(remote.ctx, 9, UINT64_MAX), 4);
    CU_ASSERT_EQUAL(remote.hits(remote.ctx, 5, UINT64_MAX), 2);
    CU_ASSERT_EQUAL(remote.hits(remote.ctx, 7, UINT64_MAX), 3);
    CU_ASSERT_EQUAL(remote.hits(remote.ctx, 8, UINT64_MAX), 0);
    coordinator_hits_down(&stage.hosts->agent[1].hits, 1, 5);
    coordinator_hits_down(&stage.hosts->agent[1].hits, 5, 5);
    CU_ASSERT_EQUAL(remote.hits(remote.ctx, 1, UINT64_MAX), UINT64_MAX);
    CU_ASSERT_EQUAL(remote.hits(remote.ctx, 5, UINT64_MAX), 7);
    coordinator_expel(stage.hosts, 1, "the test ends"); /* its next incarnation counts from 0 */
    CU_ASSERT_EQUAL(remote.hits(remote.ctx, 5, UINT64_MAX), 7);
    stage_close();
}

/* Return how many hits of a fault with this text the coordinator counts. */
static uint64_t hits_of(const char *text)
{
    struct inject_remote remote = coordinator_inject(stage.hosts);
    const struct fabric_config *fabric = fabric_config_of(stage.fabric);
    const struct inject_config config = {.network = {.graph = stage.graph,
                                                     .profile = &fabric->profile,
                                                     .clock = fabric->clock},
                                         .scan_ps = 1,
                                         .remote = &remote};
    struct fault fault = parsed(text);
    char note[FAULT_ERROR_BYTES] = "";
    struct injector *injector;
    uint32_t id, taken = 0;
    uint64_t hits;

    CU_ASSERT_EQUAL_FATAL(injector_create(&injector, stage.fabric, NULL, &config), 0);
    CU_ASSERT_EQUAL_FATAL(injector_add(injector, &fault, 0, &id, note, sizeof note), 0);
    CU_ASSERT_EQUAL(injector_step(injector, 0), 0);
    coordinator_hits(stage.hosts, true, count_hit, &taken);
    hits = injector_at(injector, 0).hits;
    CU_ASSERT_EQUAL(injector_may_hit(injector, id, 1), hits > 0);
    CU_ASSERT_FALSE(injector_may_hit(injector, id + 1, 1)); /* there is no such fault */
    injector_destroy(injector);
    return hits;
}

/* A host reports that its switches had no route to a node. This node must exist. */
static void trap__for_an_unknown_node_is_ignored(void)
{
    const struct fabric_mirror *mirror = stage_open("scan", reports);
    uint64_t trapped[64] = {0};
    uint32_t to[64] = {0};
    struct fabric_scan_result seen = {.trapped = trapped, .trapped_to = to};

    stage_divide();
    CU_ASSERT_TRUE_FATAL(stage.graph->switches <= 64);
    answer_text = "{\"traps\":[0,5,4000000000, 1,6,1]}";
    mirror->scan(mirror->ctx, &seen);
    CU_ASSERT_EQUAL(trapped[0], 0);
    CU_ASSERT_EQUAL(trapped[1], 6);
    CU_ASSERT_EQUAL(to[1], 1);
    stage_close();
    CU_ASSERT_EQUAL(stage.lost, 0);
}

static uint32_t faults_left = UINT32_MAX; /* structs emu_faults before memory runs out */

struct emu_faults *__real_fabric_faults(struct fabric *fabric, uint32_t cable, bool out);
struct emu_faults *__wrap_fabric_faults(struct fabric *fabric, uint32_t cable, bool out);

struct emu_faults *__wrap_fabric_faults(struct fabric *fabric, uint32_t cable, bool out)
{
    if (!fabric_faults_of(fabric, cable, out) && !faults_left--) {
        faults_left = 0;
        return NULL;
    }
    return __real_fabric_faults(fabric, cable, out);
}

/* If memory runs out at the second direction of a cable, the first is not stopped, either. */
static void injector_step__applies_a_target_as_a_whole(void)
{
    struct inject_config config = {.scan_ps = 1};
    struct fault fault;
    char note[FAULT_ERROR_BYTES] = "";
    struct injector *injector;
    uint32_t id, stuck = 0;

    stage_open("hits", reports);
    fault = parsed("stuck-port link=2:0");
    config.network = (struct fault_network){.graph = stage.graph,
                                            .profile = &fabric_config_of(stage.fabric)->profile,
                                            .clock = fabric_config_of(stage.fabric)->clock};
    CU_ASSERT_EQUAL_FATAL(injector_create(&injector, stage.fabric, NULL, &config), 0);
    CU_ASSERT_EQUAL_FATAL(injector_add(injector, &fault, 0, &id, note, sizeof note), 0);
    faults_left = 1;
    CU_ASSERT_EQUAL(injector_step(injector, 0), -ENOMEM);
    faults_left = UINT32_MAX;
    for (uint32_t i = 0; i < 2 * fabric_cable_count(stage.fabric); i++)
        stuck += injector->stuck[i];
    CU_ASSERT_EQUAL(stuck, 0);
    injector_destroy(injector);
    stage_close();
}

/* Switches 0 and 1 are on the other host. A cable belongs to both hosts at its ends. */
static void hits__of_faults_elsewhere_are_not_counted(void)
{
    answer_text = "{\"hits\":[1,4]}";
    stage_open("hits", reports);
    stage_divide();
    CU_ASSERT_EQUAL(hits_of("combine-flip switch=2"), 0);
    CU_ASSERT_EQUAL(hits_of("combine-flip switch=1"), 4);
    CU_ASSERT_EQUAL(hits_of("stuck-port link=2:0"), 4);
    CU_ASSERT_EQUAL(hits_of("combine-flip random"), 4);
    stage_close();
}

#define MANY_FAULTS 5000u

static void hits_sum(void *sum, uint32_t id, uint64_t hits)
{
    CU_ASSERT_EQUAL(id % 2, 1);
    *(uint64_t *)sum += hits;
}

/* Another host keeps each fault with its hits until the coordinator lets it forget the fault. */
static void faults__of_another_host_stay_listed(void)
{
    static const uint32_t of[] = {1, 1, 0, 0}, ids[] = {1, 3};
    static const struct fabric_hosts hosts = {.self = 1, .count = 2, .of = of};
    struct inject_config config = {.scan_ps = 1};
    struct fault fault;
    struct injector *injector;
    uint64_t sum = 0;

    stage_open(NULL, NULL);
    stage.fabric->config.hosts = &hosts;
    fault = parsed("combine-flip random");
    config.network = (struct fault_network){.graph = stage.graph,
                                            .profile = &fabric_config_of(stage.fabric)->profile,
                                            .clock = fabric_config_of(stage.fabric)->clock};
    CU_ASSERT_EQUAL_FATAL(injector_create(&injector, stage.fabric, NULL, &config), 0);
    for (uint32_t i = 1; i <= MANY_FAULTS; i++) {
        const struct inject_call call = {.what = INJECT_OFF, .id = i, .fault = &fault};

        CU_ASSERT_EQUAL_FATAL(injector_apply_call(injector, &call, 0), 0);
        if (i == 1)
            injector->injection[0].past = 5;
    }
    CU_ASSERT_EQUAL(injector_count(injector), MANY_FAULTS);
    injector_forget(injector, ids, 2, hits_sum, &sum);
    CU_ASSERT_EQUAL(sum, 5);
    CU_ASSERT_EQUAL(injector_count(injector), MANY_FAULTS - 2);
    injector_destroy(injector);
    stage_close();
}

/* When faults leave the coordinator's list, other hosts report their last hits and forget them. */
static void faults__leave_the_lists_of_all_hosts(void)
{
    struct inject_config config = {.scan_ps = 1};
    char note[FAULT_ERROR_BYTES] = "";
    struct inject_remote remote;
    struct injector *injector;
    struct fault fault;
    uint32_t id;

    answer_text = "{\"hits\":[1,7]}";
    stage_open("forget", reports);
    stage_divide();
    remote = coordinator_inject(stage.hosts);
    fault = parsed("combine-flip random");
    config.remote = &remote;
    config.network = (struct fault_network){.graph = stage.graph,
                                            .profile = &fabric_config_of(stage.fabric)->profile,
                                            .clock = fabric_config_of(stage.fabric)->clock};
    CU_ASSERT_EQUAL_FATAL(injector_create(&injector, stage.fabric, NULL, &config), 0);
    for (uint32_t i = 0; i < OVER_KEPT + 100; i++) {
        CU_ASSERT_EQUAL_FATAL(injector_add(injector, &fault, 1000, &id, note, sizeof note), 0);
        CU_ASSERT_EQUAL_FATAL(injector_clear(injector, id, 0), 0);
    }
    CU_ASSERT_EQUAL(stage.asked, 1);
    CU_ASSERT_EQUAL(injector_past(injector).hits, 7);
    CU_ASSERT_EQUAL(injector_past(injector).faults + injector_count(injector), OVER_KEPT + 100);
    injector_destroy(injector);
    stage_close();
    CU_ASSERT_EQUAL(stage.lost, 0);
}

/* The other host has no switch, so no end of any cable. */
static void test__of_a_cable_elsewhere_is_ignored(void)
{
    const struct fabric_mirror *mirror = stage_open("test", reports);
    const struct fabric_past here = {.quiet = true};
    struct fabric_test test = {.cable = 1, .quiet = true};

    answer_text = "{\"tests\":[7,0,1,3,4]}";
    mirror->test(mirror->ctx, &test, &here, 1, 10);
    CU_ASSERT_EQUAL(stage.asked, 1);
    CU_ASSERT_EQUAL(test.errors, 0);
    CU_ASSERT_TRUE(test.quiet);
    stage_close();
    CU_ASSERT_EQUAL(stage.lost, 0);
}

/* The coordinator keeps the pending operations, but nothing else that a host sends with them. */
static void pending__of_unknown_nodes_is_not_kept(void)
{
    const struct fabric_mirror *mirror = stage_open("pending", reports);
    struct json_object *const *kept = &stage.hosts->agent[1].pending.blocks;
    struct emu_pending pending;

    answer_text = "{\"pending\":{\"0\":\"00\",\"\":\"00\",\"00\":\"00\",\"+1\":\"00\",\"1\":[],"
                  "\"900\":\"00\",\"4294967297\":\"00\",\"a\":7}}";
    CU_ASSERT_FALSE(mirror->pending(mirror->ctx, 1, 0, &pending));
    CU_ASSERT_EQUAL(json_object_object_length(*kept), 1);
    CU_ASSERT_TRUE(json_object_object_get_ex(*kept, "0", NULL));
    stage_close();
    CU_ASSERT_EQUAL(stage.lost, 0);
}

/* Return whether the process at node 0, on the other host, may report a mismatch. */
static bool may_disagree(uint32_t group, uint32_t node, uint32_t root)
{
    struct emu_pending pending = {.written_ns = 1, .mismatch = {.group = group, .node = node}};
    size_t bytes = offsetof(struct emu_pending, group);
    struct json_object *reply = json_object_new_object(), *blocks = json_object_new_object();

    pending.mismatch.mine = (struct emu_pending_what){.kind = EMU_BARRIER, .root = EMU_PENDING_ANY};
    pending.mismatch.other = (struct emu_pending_what){.kind = EMU_MULTICAST, .root = root};
    json_object_object_add(blocks, "0", hosts_to_hex(&pending, bytes));
    json_object_object_add(reply, "pending", blocks);
    answer_text = json_object_to_json_string(json_add_number(reply, "now_ns", 1));
    stage.hosts->asked_ns = 0; /* the last answer is old */
    CU_ASSERT_TRUE(fabric_pending(stage.fabric, 0, &pending));
    json_object_put(reply);
    return pending.mismatch.node == node;
}

/* A process on another host may only report a mismatch between members of one of its groups. */
static void pending__mismatch_of_the_group_of_others_is_ignored(void)
{
    const struct fabric_mirror *mirror = stage_open("pending", reports);
    static const uint32_t of_others[] = {2, 3};
    char error[256] = "";
    uint32_t group, others;

    stage_divide();
    group = fixture_group_of_first(stage.fabric, 2);
    CU_ASSERT_EQUAL_FATAL(fabric_group_create(stage.fabric, of_others, 2, &others, error,
                                              sizeof error),
                          0);
    fabric_mirror(stage.fabric, mirror);
    CU_ASSERT_TRUE(may_disagree(group, 1, 1));
    CU_ASSERT_FALSE(may_disagree(group, 2, 1));
    CU_ASSERT_FALSE(may_disagree(group, 1, 2));
    CU_ASSERT_FALSE(may_disagree(others, 3, 3));
    CU_ASSERT_FALSE(may_disagree(UINT32_MAX, 1, 1));
    fabric_mirror(stage.fabric, NULL);
    fixture_group_end(stage.fabric, others);
    fixture_group_end(stage.fabric, group);
    stage_close();
    CU_ASSERT_EQUAL(stage.lost, 0);
}

/* Only an increase counts, and it counts once; a host that has come back counts from 0 again. */
static void starved__of_a_host_is_added_once(void)
{
    static const char *const answers[] = {"{\"starved_ns\":700}", "{\"starved_ns\":1000}",
                                          "{\"starved_ns\":40}", "{\"starved_ns\":-1}"};
    static const uint64_t more_ns[] = {700, 300, 0, UINT64_MAX - 40};
    const struct fabric_mirror *mirror = stage_open("pending", reports);
    struct emu_pending pending;

    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        answer_text = answers[i];
        stage.hosts->asked_ns = 0; /* the last answer is old */
        CU_ASSERT_FALSE(mirror->pending(mirror->ctx, 1, 0, &pending));
        CU_ASSERT_EQUAL(mirror->starved(mirror->ctx), more_ns[i]);
        CU_ASSERT_EQUAL(mirror->starved(mirror->ctx), 0);
    }
    stage_close();
}

/* Field names in the answers to all calls. */
static const char *const fields[] = {
    "errno",         "totals",  "links", "pending", "next",   "now_ns",   "arrived",
    "mismatch",      "stalls",  "audit", "found",   "wrong",  "hits",     "log",
    "missed",        "now_ps",  "more",  "tests",   "errors", "ready",    "traps",
    "unrecoverable", "comm",    "cells", "sampled", "pairs",  "segments", "partitioned",
    "sample",        "number",  "of",    "up",      "why",    "client",   "hit",
    "fault",         "new",     "line",  "taken",   "how",    "stopped",  "link_lost",
    "host",          "cut_off", "0"};

static const size_t lengths[] = {sizeof(struct emu_pending), sizeof(struct fabric_drop),
                                 sizeof(struct emu_fault_hit), sizeof(struct emu_mismatch)};

static struct json_drawn drawn = {.names = fields,
                                  .count = sizeof fields / sizeof fields[0],
                                  .digits = lengths,
                                  .lengths = sizeof lengths / sizeof lengths[0]};

/* Answer a call with a random object, and sometimes send another one first. */
static void answers_at_random(struct conn *conn, struct json_object *call)
{
    struct json_object *reply = json_drawn_object(&drawn, 3);

    if (!emu_json_number(call, "call", 0) || test_random(&drawn.random) % 16 == 0) {
        conn_put(conn, reply);
        conn_drain(conn, PATIENCE_MS);
        reply = json_object_new_object();
    }
    if (!emu_json_number(call, "call", 0)) {
        json_object_put(reply);
        return;
    }
    json_object_object_del(reply, "errno");
    replies(conn, call, reply, test_random(&drawn.random) % 8 ? 0 : ENOENT);
}

/* Send all queries of a coordinator to the host that answers at random. */
static void query_everything(const struct fabric_mirror *mirror)
{
    uint32_t cables = fabric_cable_count(stage.fabric),
             switches = fabric_graph(stage.fabric)->switches;
    uint64_t numbers[64] = {0};
    struct fabric_port ports[64] = {{0}};
    uint32_t to[64] = {0}, hits = 0;
    struct fabric_scan_result seen = {numbers, numbers, ports, numbers, to};
    struct fabric_test test = {.cable = 0};
    const struct fabric_past past = {.quiet = true};
    struct fabric_rerouted carried = {0};
    struct fabric_totals totals = {0};
    struct fabric_comm comm = {.nodes = NODES};
    struct fabric_audit audit = {.found = 0};
    struct fabric_stall stalls[8];
    struct fabric_arrived arrived[8];
    struct emu_pending pending;
    struct emu_mismatch mismatch;

    CU_ASSERT_TRUE_FATAL(2 * cables <= 64 && switches <= 64);
    mirror->totals(mirror->ctx, &totals);
    mirror->comm(mirror->ctx, &comm);
    mirror->audit(mirror->ctx, false, &audit);
    mirror->test(mirror->ctx, &test, &past, 1, 10);
    mirror->reroute_in_flight(mirror->ctx, false, false, &carried);
    mirror->scan(mirror->ctx, &seen);
    mirror->drops(mirror->ctx, 0);
    CU_ASSERT_TRUE(mirror->stalls(mirror->ctx, 0, stalls, 8) <= 8);
    CU_ASSERT_TRUE(mirror->arrived(mirror->ctx, 0, 0, arrived, 8) <= 8);
    if (mirror->mismatch(mirror->ctx, 0, &mismatch))
        CU_ASSERT_TRUE(mismatch.seen);
    if (mirror->pending(mirror->ctx, 1, 0, &pending))
        emu_pending_check(&pending, NODES, emu_now_ns());
    coordinator_hits(stage.hosts, true, count_hit, &hits);
    coordinator_serve(stage.hosts);
    free(comm.pair);
}

#define ROUNDS 40

/* Whatever a host answers, the worst effect is that this host is lost. */
static void host__random_answers_at_most_lose_it(void)
{
    drawn.random = test_seed();
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const struct fabric_mirror *mirror = stage_open("", answers_at_random);
        struct fabric_drop loss;

        stage.anything = true;
        for (uint32_t i = 0; i < 8 && !stage.lost; i++)
            query_everything(mirror);
        while (fabric_drop_take(stage.fabric, &loss))
            CU_ASSERT_TRUE(loss.what <= FABRIC_UNIT_BACK);
        stage_close();
    }
}

/* --- lines for a process on another host ---------------------------------------------------- */

/* What the player's host has received. */
static struct heard {
    _Atomic size_t bytes;   /* of text */
    size_t longest;         /* longest piece of a text */
    uint64_t digest;        /* digest of all text, in order */
    _Atomic uint32_t lines; /* last pieces of lines; written last */
    _Atomic uint32_t whole; /* lines received in one piece */
    _Atomic bool takes;     /* the player receives from now on, and reports it */
} heard;

static uint64_t digest_of(uint64_t digest, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        digest = digest * 31 + (unsigned char)text[i];
    return digest;
}

static void host_takes(struct conn *conn, size_t bytes)
{
    struct json_object *message = json_add_number(json_object_new_object(), "client", 5);

    CU_ASSERT_EQUAL(conn_put(conn, json_add_number(message, "taken", bytes)), 0);
    conn_drain(conn, PATIENCE_MS);
}

static void receives_line(struct conn *conn, struct json_object *message)
{
    struct json_object *text = json_object_object_get(message, "text");
    size_t bytes = text ? (size_t)json_object_get_string_len(text) : 0;

    if (json_object_object_get_ex(message, "line", NULL))
        atomic_fetch_add(&heard.whole, 1);
    if (text) {
        heard.digest = digest_of(heard.digest, json_object_get_string(text), bytes);
        heard.bytes += bytes;
        heard.longest = bytes > heard.longest ? bytes : heard.longest;
    }
    if (bytes && atomic_load(&heard.takes))
        host_takes(conn, bytes);
    if (text && !json_object_object_get_ex(message, "more", NULL))
        atomic_fetch_add(&heard.lines, 1);
}

/* A line of the daemon with @bytes besides its end; the caller frees it. */
static char *line_of(const char *event, size_t bytes)
{
    static const char end[] = "\"}\n";
    char *line = malloc(bytes + 2);
    size_t at = (size_t)sprintf(line, "{\"event\":\"%s\",\"of\":\"", event);

    for (; at < bytes; at++)
        line[at] = (char)('a' + at % 23);
    memcpy(line + bytes + 1 - strlen(end), end, strlen(end));
    return line;
}

/*
 * Send as much of it as is accepted while everybody is served; *said: bytes so far. Returns true on
 * progress.
 */
static bool daemon_sends(const char *line, size_t bytes, size_t *said)
{
    ssize_t sent = send(stage.client_fd, line + *said, bytes - *said, MSG_NOSIGNAL | MSG_DONTWAIT);

    CU_ASSERT_TRUE(sent >= 0 || errno == EAGAIN);
    *said += sent > 0 ? (size_t)sent : 0;
    coordinator_serve(stage.hosts);
    return sent > 0;
}

/* A process of the other host connects. */
static void client_connects(bool takes)
{
    static const char enters[] = "{\"client\":5,\"new\":1,\"command\":\"top\"}\n";
    struct pollfd ready;

    memset(&heard, 0, sizeof heard);
    atomic_store(&heard.takes, takes);
    stage_open("", receives_line); /* these lines are not calls */
    stage.lets_in = true;
    CU_ASSERT_EQUAL(send(stage.player[0].conn.fd, enters, strlen(enters), MSG_NOSIGNAL),
                    strlen(enters));
    ready = (struct pollfd){coordinator_fd(stage.hosts), POLLIN, 0};
    while (!stage.connected && poll(&ready, 1, PATIENCE_MS) > 0)
        coordinator_serve(stage.hosts);
}

static void client_reads(uint32_t lines)
{
    int64_t until_ms = emu_now_ms() + PATIENCE_MS;
    struct pollfd ready = {coordinator_fd(stage.hosts), POLLIN, 0};

    while (atomic_load(&heard.lines) < lines && emu_now_ms() < until_ms) {
        poll(&ready, 1, 1);
        coordinator_serve(stage.hosts);
    }
    CU_ASSERT_EQUAL(atomic_load(&heard.lines), lines);
}

static void client_disconnects(void)
{
    close(stage.client_fd);
    stage_close();
    CU_ASSERT_EQUAL(stage.lost, 0);
}

/*
 * A line longer than a message is sent in pieces, with calls in between. Lengths around that of a
 * piece work as well.
 */
static void line__long_is_sent_in_pieces(void)
{
    static const size_t sizes[] = {CONN_REPLY_MAX + 12345, HOSTS_PIECE_BYTES - 1, HOSTS_PIECE_BYTES,
                                   HOSTS_PIECE_BYTES + 1,  2 * HOSTS_PIECE_BYTES, 200};
    struct fabric_totals totals = {0};
    uint64_t digest = 0;
    size_t bytes = 0;

    client_connects(true);
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *line = line_of(i % 2 ? "telemetry" : "telemetry_shape", sizes[i]);
        size_t said = 0;
        bool asked = false;

        while (said < sizes[i] + 1) {
            struct pollfd ready[2] = {{coordinator_fd(stage.hosts), POLLIN, 0},
                                      {stage.client_fd, POLLOUT, 0}};

            CU_ASSERT_TRUE_FATAL(poll(ready, 2, PATIENCE_MS) > 0);
            daemon_sends(line, sizes[i] + 1, &said);
            if (!asked && said > sizes[i] / 2) /* the call is answered at once */
                coordinator_mirror(stage.hosts)
                    ->totals(coordinator_mirror(stage.hosts)->ctx, &totals);
            asked = asked || said > sizes[i] / 2;
        }
        digest = digest_of(digest, line, sizes[i]);
        bytes += sizes[i];
        free(line);
        client_reads(i + 1);
        CU_ASSERT_EQUAL(heard.bytes, bytes);
        CU_ASSERT_EQUAL(heard.digest, digest);
    }
    CU_ASSERT_EQUAL(heard.longest, HOSTS_PIECE_BYTES);
    CU_ASSERT_EQUAL(atomic_load(&heard.whole), 0);
    client_disconnects();
}

#define SOCKETS_BYTES ((size_t)2 << 20) /* most bytes that wait in sockets */

/* If the host does not read, little is in flight: the daemon notices that and skips snapshots. */
static void line__unread_waits_at_the_daemon(void)
{
    size_t bytes = CONN_REPLY_MAX, said = 0, quiet = 0;
    char taken[64];
    char *line = line_of("telemetry", bytes);

    client_connects(false);
    while (quiet < 50 && said < bytes) {
        quiet = daemon_sends(line, bytes + 1, &said) ? 0 : quiet + 1;
        if (quiet)
            poll(NULL, 0, 1);
    }
    CU_ASSERT_TRUE(said < SOCKETS_BYTES);
    CU_ASSERT_TRUE(heard.bytes <= HOSTS_UNACKED_MOST + HOSTS_PIECE_BYTES);
    atomic_store(&heard.takes, true); /* from now on the host reads, and the line continues */
    snprintf(taken, sizeof taken, "{\"client\":5,\"taken\":%zu}\n", HOSTS_UNACKED_MOST);
    CU_ASSERT_TRUE(send(stage.player[0].conn.fd, taken, strlen(taken), MSG_NOSIGNAL) > 0);
    while (said < bytes + 1) {
        struct pollfd ready[2] = {{coordinator_fd(stage.hosts), POLLIN, 0},
                                  {stage.client_fd, POLLOUT, 0}};

        CU_ASSERT_TRUE_FATAL(poll(ready, 2, PATIENCE_MS) > 0);
        daemon_sends(line, bytes + 1, &said);
    }
    client_reads(1);
    CU_ASSERT_EQUAL(heard.bytes, bytes);
    CU_ASSERT_EQUAL(heard.digest, digest_of(0, line, bytes));
    free(line);
    client_disconnects();
}

/* --- returning hosts -------------------------------------------------------------------------- */

/* A channel for the next incarnation of host 1; the first one uses the last player. */
static int next_incarnation(void *links, uint32_t host)
{
    int pair[2];

    (void)links;
    if (host == 1 && !stage.again++)
        return player_enters(&stage.player[2], NULL);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    close(pair[1]);
    return pair[0];
}

static void on_back(void *ctx, uint32_t host)
{
    (void)ctx;
    CU_ASSERT_EQUAL(host, 1);
    stage.back++;
}

/* Two hosts: the first is lost, and the message of its next incarnation has been received. */
static void host_returns(const char *on, void (*does)(struct conn *conn, struct json_object *call),
                         const char *text, size_t bytes)
{
    struct pollfd ready = {.events = POLLIN};
    char error[256];

    stage_set(NULL, does);
    stage.config.count = 3;
    stage.control[2] = player_enters(&stage.player[1], on);
    player_plays(&stage.player[1]);
    stage.config.links_again = next_incarnation;
    stage.config.ops.back = on_back;
    CU_ASSERT_EQUAL_FATAL(coordinator_open(&stage.hosts, &stage.config, error, sizeof error), 0);
    ready.fd = coordinator_fd(stage.hosts);
    shutdown(stage.player[0].conn.fd, SHUT_RDWR);
    while (!stage.again && poll(&ready, 1, PATIENCE_MS) > 0)
        coordinator_serve(stage.hosts);
    CU_ASSERT_EQUAL(send(stage.player[2].conn.fd, text, bytes, MSG_NOSIGNAL), (ssize_t)bytes);
    while (!stage.back && poll(&ready, 1, PATIENCE_MS) > 0)
        coordinator_serve(stage.hosts);
    CU_ASSERT_EQUAL(stage.back, 1);
    CU_ASSERT_EQUAL(stage.lost_of[1], 1);
}

#define HERE "{\"here\":1}\n"

/*
 * A host fails a call while another one is back: the failing host is lost, not the one that is
 * back.
 */
static void host__returning_does_not_answer_for_others(void)
{
    host_returns("host_incarnation", has_no_memory, HERE, sizeof HERE - 1);
    player_plays(&stage.player[2]);
    CU_ASSERT_EQUAL(coordinator_admit(stage.hosts, 1), 0);
    CU_ASSERT_EQUAL(stage.asked, 1);
    CU_ASSERT_EQUAL(stage.lost_of[1], 1); /* the first loss */
    CU_ASSERT_EQUAL(stage.lost_of[2], 1);
    CU_ASSERT_FALSE(coordinator_is_lost(stage.hosts, 1));
    CU_ASSERT_TRUE(coordinator_is_lost(stage.hosts, 2));
    stage_close();
}

#define WORDS 12000 /* more than is buffered for a host of this fabric */

/* Messages of a host that is not admitted yet are buffered, up to a limit. */
static void host__returning_that_floods_is_not_admitted(void)
{
    static const char word[] = "{}\n";
    size_t bytes = sizeof HERE - 1;
    char *text = malloc(bytes + WORDS * (sizeof word - 1) + 1);

    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    strcpy(text, HERE);
    for (uint32_t i = 0; i < WORDS; i++, bytes += sizeof word - 1)
        strcpy(text + bytes, word);
    host_returns(NULL, NULL, text, bytes);
    for (int i = 0; i < 10 && stage.again < 2; i++)
        coordinator_serve(stage.hosts);
    CU_ASSERT_TRUE(stage.again >= 2);
    CU_ASSERT_EQUAL(coordinator_admit(stage.hosts, 1), -EHOSTDOWN);
    CU_ASSERT_EQUAL(stage.lost, 1); /* the first loss: no other incarnation was admitted */
    free(text);
    stage_close();
}

/* --- communication statistics ---------------------------------------------------------------- */

#define AT_ONCE 2 /* pairs per message of the player's host */

/* Its fabric is the coordinator's, which has no remote hosts here. */
static void reports_in_parts(struct conn *conn, struct json_object *call)
{
    uint64_t from = (uint64_t)emu_json_number(call, "from", 0);
    struct json_object *reply = json_object_new_object();

    json_object_object_add(reply, "comm", hosts_comm_list(stage.fabric, from, AT_ONCE));
    replies(conn, call, reply, 0);
}

/* More pairs than fit one message: each is reported exactly once. */
static void comm__of_another_host_is_complete(void)
{
    const struct fabric_mirror *mirror = stage_open("comm", reports_in_parts);
    struct fabric_comm all, sum = {.nodes = NODES, .more_bytes = 3};
    struct emu_hostif_nic nic[NODES];

    for (uint32_t from = 0; from < NODES; from++) {
        hostifs_attach_at(stage.fabric, from, &nic[from]);
        for (uint32_t to = 0; to < NODES && from != 2; to++)
            emu_hostif_sent(nic[from].shared, NODES, to, 100 * from + to);
        emu_hostif_sent(nic[from].shared, NODES, 1, 7);
    }
    CU_ASSERT_EQUAL_FATAL(fabric_comm_read(stage.fabric, &all), 0);
    CU_ASSERT_EQUAL(all.pairs, 3 * NODES + 1);
    stage_divide();
    mirror->comm(mirror->ctx, &sum);
    CU_ASSERT_EQUAL(stage.asked, (all.pairs + AT_ONCE - 1) / AT_ONCE);
    CU_ASSERT_EQUAL_FATAL(sum.pairs, all.pairs);
    CU_ASSERT_EQUAL(memcmp(sum.pair, all.pair, all.pairs * sizeof *all.pair), 0);
    CU_ASSERT_EQUAL(sum.more_bytes, 3);
    fabric_comm_free(&sum);
    fabric_comm_free(&all);
    for (uint32_t n = 0; n < NODES; n++)
        emu_hostif_nic_close(&nic[n]);
    stage_close();
    CU_ASSERT_EQUAL(stage.lost, 0);
}

static void has_sent_ever_more(struct conn *conn, struct json_object *call)
{
    struct json_object *reply = json_object_new_object(), *comm = json_object_new_object();
    int64_t from = emu_json_number(call, "from", 0);

    if (stage.asked < LIES_MOST)
        json_add_number(comm, "next", (uint64_t)from + 1);
    json_object_object_add(reply, "comm", comm);
    replies(conn, call, reply, 0);
}

static void comm__without_an_end_loses_the_host(void)
{
    const struct fabric_mirror *mirror = stage_open("comm", has_sent_ever_more);
    struct fabric_comm sum = {.nodes = NODES};

    mirror->comm(mirror->ctx, &sum);
    CU_ASSERT_TRUE(stage.asked < LIES_MOST);
    CU_ASSERT_EQUAL(stage.lost, 1);
    stage_close();
}

/* Pairs that do not fit are still counted in the sums. */
static void comm__beyond_the_limit_is_counted(void)
{
    static struct fabric_comm sum;
    struct json_object *comm, *list;

    stage_open(NULL, reports);
    for (uint32_t room = 0; room < 2; room++) {
        sum = (struct fabric_comm){.nodes = NODES, .pairs = FABRIC_PAIRS_MOST - room};
        sum.pair = calloc(sum.pairs, sizeof *sum.pair);
        CU_ASSERT_PTR_NOT_NULL_FATAL(sum.pair);
        comm = json_object_new_object();
        list = json_object_new_array();
        for (uint64_t i = 0; i < 3; i++)
            for (uint64_t k = 0; k < 4; k++)
                json_object_array_add(list, json_object_new_uint64(k < 2 ? 1 : 10 * i + k));
        json_object_object_add(comm, "pairs", list);
        hosts_comm_add(&sum, fabric_config_of(stage.fabric), 0, comm);
        json_object_put(comm);
        CU_ASSERT_EQUAL(sum.pairs, FABRIC_PAIRS_MOST);
        CU_ASSERT_EQUAL(sum.more_messages, room ? 12 + 22 : 2 + 12 + 22);
        CU_ASSERT_EQUAL(sum.more_bytes, room ? 13 + 23 : 3 + 13 + 23);
        if (room)
            CU_ASSERT_EQUAL(sum.pair[FABRIC_PAIRS_MOST - 1].messages, 2);
        fabric_comm_free(&sum);
    }
    stage_close();
}

/* Half of the nodes are on the other host, so it gets half of the list. */
static void comm__of_a_host_leaves_space(void)
{
    static const uint32_t of[] = {1, 0, 0, 0};
    static const struct fabric_hosts hosts = {.count = 2, .of = of};
    struct json_object *comm = json_object_new_object(), *list = json_object_new_array();
    struct fabric_comm sum = {.nodes = NODES};
    uint32_t replies = 0;

    for (uint32_t i = 0; i < 4 * HOSTS_PAIRS_MOST; i++)
        json_object_array_add(list, json_object_new_int64(1)); /* 1 message from node 1 to 1 */
    json_object_object_add(comm, "pairs", list);
    stage_open(NULL, reports);
    stage.fabric->config.hosts = &hosts;
    for (; replies * HOSTS_PAIRS_MOST <= FABRIC_PAIRS_MOST / 2; replies++)
        hosts_comm_add(&sum, fabric_config_of(stage.fabric), 1, comm);
    CU_ASSERT_EQUAL(sum.pairs, FABRIC_PAIRS_MOST / 2);
    CU_ASSERT_EQUAL(sum.pairs + sum.more_messages, replies * HOSTS_PAIRS_MOST);
    json_object_put(comm);
    fabric_comm_free(&sum);
    stage_close();
}

/* A host cannot invent messages of processes on other hosts, nor a trap there. */
static void comm__of_the_nodes_of_others_is_ignored(void)
{
    const struct fabric_mirror *mirror = stage_open("comm", reports);
    struct fabric_comm sum = {.nodes = NODES};

    answer_text = "{\"comm\":{\"pairs\":[1,2,3,4, 4000000000,0,1,1],\"more_messages\":5,"
                  "\"memory\":[6,7,1,2,13,8,9]}}";
    mirror->comm(mirror->ctx, &sum); /* all nodes are on the coordinator */
    CU_ASSERT_EQUAL(sum.pairs, 0);
    CU_ASSERT_EQUAL(sum.more_messages, 5);
    CU_ASSERT_EQUAL(sum.memory.traps, 0);
    stage_divide(); /* all nodes are on the other host */
    mirror->comm(mirror->ctx, &sum);
    CU_ASSERT_EQUAL(sum.pairs, 1);
    CU_ASSERT_EQUAL(sum.memory.traps, 7);
    CU_ASSERT_EQUAL(sum.memory.node, 1);
    answer_text = "{\"comm\":{\"memory\":[6,7,1,900,13,8,9]}}"; /* an access from an unknown node */
    mirror->comm(mirror->ctx, &sum);
    CU_ASSERT_EQUAL(sum.memory.traps, 7);
    fabric_comm_free(&sum);
    stage_close();
    CU_ASSERT_EQUAL(stage.lost, 0);
}

/* The sums of forged counts of another host do not wrap around, and negative counts are 0. */
static void comm__forged_counts_do_not_wrap(void)
{
    static struct fabric_comm sum;
    static struct fabric_totals totals;
    struct json_object *comm = json_object_new_object(), *list = json_object_new_array();

    stage_open(NULL, reports);
    sum = (struct fabric_comm){.nodes = NODES, .more_bytes = 7, .unreported = 7, .memory.traps = 7};
    json_object_object_add(comm, "more_messages", json_object_new_int64(-1));
    json_object_object_add(comm, "more_bytes", json_object_new_uint64(UINT64_MAX - 3));
    json_object_object_add(comm, "unreported", json_object_new_int64(INT64_MIN));
    for (uint64_t i = 0; i < 7; i++)
        json_object_array_add(list, json_object_new_uint64(i == 2 || i == 3 ? 1 : UINT64_MAX - 3));
    json_object_object_add(comm, "memory", list);
    hosts_comm_add(&sum, fabric_config_of(stage.fabric), 0, comm);
    json_object_put(comm);
    stage_close();
    CU_ASSERT_EQUAL(sum.more_messages, 0);
    CU_ASSERT_EQUAL(sum.more_bytes, UINT64_MAX);
    CU_ASSERT_EQUAL(sum.unreported, 7);
    CU_ASSERT_EQUAL(sum.memory.traps, UINT64_MAX);
    fabric_comm_free(&sum);

    totals = (struct fabric_totals){.sent = UINT64_MAX - 1};
    for (int i = 0; i < 2; i++) {
        list = hosts_totals_list(&totals);
        hosts_totals_add(&totals, list);
        json_object_put(list);
    }
    CU_ASSERT_EQUAL(totals.sent, UINT64_MAX);
}

/* --- links lost and rejoined ------------------------------------------------------------------ */

static int rejoins(void *links, uint32_t host)
{
    (void)links;
    CU_ASSERT_EQUAL(host, 1);
    return 1;
}

static void carries_again(struct conn *conn, struct json_object *call)
{
    replies(conn, call, json_add_number(json_object_new_object(), "up", 1), 0);
}

/* A host reports the lost link in each round, and the link is repaired all the same. */
static void link__lost_repeatedly_is_repaired(void)
{
    static const char line[] = "{\"link_lost\":{\"host\":0,\"number\":0,\"of\":1}}\n";
    int64_t end_ms = emu_now_ms() + PATIENCE_MS;
    char error[256];

    stage_set("rejoin", carries_again);
    stage.config.links_rejoin = rejoins;
    CU_ASSERT_EQUAL_FATAL(coordinator_open(&stage.hosts, &stage.config, error, sizeof error), 0);
    while (!stage.rejoined && emu_now_ms() < end_ms) {
        CU_ASSERT_EQUAL(send(stage.player[0].conn.fd, line, sizeof line - 1, MSG_NOSIGNAL),
                        (ssize_t)sizeof line - 1);
        poll(NULL, 0, 1);
        coordinator_serve(stage.hosts);
    }
    CU_ASSERT_EQUAL(stage.rejoined, 1);
    CU_ASSERT_TRUE(stage.partitioned > 0);
    CU_ASSERT_TRUE(coordinator_is_connected(stage.hosts, 1));
    stage_close();
    CU_ASSERT_EQUAL(stage.lost, 0);
}

static uint32_t duplicates;

/* Each time it is asked for, another host with a new address claims to be host 1. */
static const char *claims_again(void *links, uint32_t *host)
{
    (void)links;
    *host = 1;
    return duplicates < LIES_MOST ? "02:00:00:00:00:01" : NULL;
}

static void on_duplicate(void *ctx, uint32_t host, const char *why)
{
    (void)ctx;
    (void)host;
    (void)why;
    duplicates++;
}

/* A host that changes its address again and again does not occupy the coordinator. */
static void duplicates__without_end_are_limited(void)
{
    int64_t end_ms = emu_now_ms() + PATIENCE_MS;
    char error[256];

    duplicates = 0;
    stage_set(NULL, reports);
    stage.config.links_duplicate = claims_again;
    stage.config.ops.duplicate = on_duplicate;
    CU_ASSERT_EQUAL_FATAL(coordinator_open(&stage.hosts, &stage.config, error, sizeof error), 0);
    while (!duplicates && emu_now_ms() < end_ms) {
        poll(NULL, 0, 10);
        coordinator_serve(stage.hosts);
    }
    CU_ASSERT_EQUAL(duplicates, stage.config.count);
    stage_close();
}

/* --- start ---------------------------------------------------------------------------------- */

static bool never_up(const void *ctx)
{
    (void)ctx;
    return false;
}

static bool has_another_key(const void *ctx, char *text, size_t bytes)
{
    (void)ctx;
    snprintf(text, bytes, "host b: another key");
    return true;
}

/* Waiting for hosts that do not connect or answer ends on request. */
static void requests_the_end(struct conn *conn, struct json_object *call)
{
    (void)conn;
    (void)call;
    eventfd_write(stage.stop_fd, 1);
}

static void does_not_reach(struct conn *conn, struct json_object *call)
{
    struct json_object *why = json_object_new_object();

    replies(conn, call, json_add_text(why, "why", "\033[2J\xc2\x9b"), EPROTO);
}

/* Check the error of a start in which a host answers the handshake by @answer. */
static void check_start_error(void (*answer)(struct conn *conn, struct json_object *call),
                              const char *expected)
{
    char error[256] = "";

    stage_set("handshake", answer);
    CU_ASSERT_EQUAL(coordinator_open(&stage.hosts, &stage.config, error, sizeof error), -EPROTO);
    CU_ASSERT_STRING_EQUAL(error, expected);
    stage.hosts = NULL;
    stage_close();
}

/* A host's text about another host is shown on the terminal. */
static void connect__failure_shows_printable_text(void)
{
    check_start_error(does_not_reach, "host green does not reach ?[2J??");
}

static void sends_no_json(struct conn *conn, struct json_object *call)
{
    (void)call;
    send(conn->fd, "{\n", 2, MSG_NOSIGNAL);
}

/* If a host is lost during the start, the error says why, and does not mention a time-out. */
static void connect__failure_shows_why_the_host_was_lost(void)
{
    check_start_error(sends_no_json,
                      "host green is lost: it sent a line that is not a valid message");
}

static void connect__ends_on_request(void)
{
    char error[256];

    for (int answers = 0; answers < 2; answers++) {
        stage_set("handshake", requests_the_end);
        stage.config.start_ms = UINT64_MAX;
        stage.config.links_up = answers ? NULL : never_up;
        if (!answers)
            eventfd_write(stage.stop_fd, 1);
        *error = '\0';
        CU_ASSERT_EQUAL(coordinator_open(&stage.hosts, &stage.config, error, sizeof error),
                        -ECANCELED);
        CU_ASSERT_STRING_EQUAL(error, "ended before all hosts were connected");
        stage.hosts = NULL;
        stage_close();
    }
}

/* Receives "end" and keeps its "why"; "": an orderly end. */
static void receives_the_end(struct conn *conn, struct json_object *call)
{
    snprintf(stage.why, sizeof stage.why, "%s", emu_json_text(call, "why", ""));
    replies(conn, call, json_object_new_object(), 0);
}

static void end__gives_the_reason_unless_orderly(void)
{
    stage_open("end", receives_the_end);
    stage_close();
    CU_ASSERT_EQUAL(stage.asked, 1);
    CU_ASSERT_STRING_EQUAL(stage.why, "");

    stage_open("end", receives_the_end);
    coordinator_close(stage.hosts, "its supervisor was killed");
    stage.hosts = NULL;
    stage_close();
    CU_ASSERT_EQUAL(stage.asked, 1);
    CU_ASSERT_STRING_EQUAL(stage.why, "its supervisor was killed");
}

/* A connected host is told which other host did not connect. */
static void end__of_a_failed_start_gives_the_reason(void)
{
    char error[256] = "";

    stage_set("end", receives_the_end);
    stage.config.start_ms = 100;
    stage.config.links_up = never_up;
    stage.config.links_why = has_another_key;
    CU_ASSERT_EQUAL(coordinator_open(&stage.hosts, &stage.config, error, sizeof error), -ETIMEDOUT);
    CU_ASSERT_STRING_EQUAL(error, "host b: another key; --bound start sets how long to wait");
    stage.hosts = NULL;
    stage_close();
    CU_ASSERT_STRING_EQUAL(stage.why, error);
}

/* --- slow calls ----------------------------------------------------------------------------- */

static void sends_nothing(struct conn *conn, struct json_object *call)
{
    (void)conn;
    (void)call;
}

/*
 * The audit at the end has its own time limit, which is shorter than that of other calls here. A
 * host that does not answer in this time is lost. Once the end is requested, the coordinator does
 * not wait for any host.
 */
static void audit__unanswered_ends(void)
{
    struct fabric_audit sum = {.found = 0};
    const struct fabric_mirror *mirror;
    int64_t began_ms = emu_now_ms();
    char error[256] = "";

    stage_set("audit", sends_nothing);
    stage.config.last_ms = 300;
    CU_ASSERT_EQUAL_FATAL(coordinator_open(&stage.hosts, &stage.config, error, sizeof error), 0);
    mirror = coordinator_mirror(stage.hosts);
    CU_ASSERT_EQUAL(mirror->audit(mirror->ctx, false, &sum), 0);
    CU_ASSERT_TRUE(coordinator_is_lost(stage.hosts, 1));
    CU_ASSERT_TRUE(emu_now_ms() - began_ms < PATIENCE_MS / 2);
    serve_until_lost();
    CU_ASSERT_STRING_EQUAL(stage.why, "it does not answer");
    stage_close();

    stage_set("audit", requests_the_end);
    stage.config.last_ms = UINT64_MAX;
    CU_ASSERT_EQUAL_FATAL(coordinator_open(&stage.hosts, &stage.config, error, sizeof error), 0);
    mirror = coordinator_mirror(stage.hosts);
    CU_ASSERT_EQUAL(mirror->audit(mirror->ctx, false, &sum), -ECANCELED);
    CU_ASSERT_FALSE(coordinator_is_lost(stage.hosts, 1));
    stage_close();
}

/*
 * A query may take longer than a call, because it does not block the daemon. A host that replies to
 * a query but not to the next call is lost after the limit of a call.
 */
static void call__has_a_shorter_limit_than_a_query(void)
{
    const struct fabric_mirror *mirror;
    struct fabric_totals sum = {.sent = 0};
    char error[256] = "";

    stage_set("totals", sends_nothing);
    stage.config.call_ms = 100;
    CU_ASSERT_EQUAL_FATAL(coordinator_open(&stage.hosts, &stage.config, error, sizeof error), 0);
    mirror = coordinator_mirror(stage.hosts);
    coordinator_query_answer(stage.hosts);
    CU_ASSERT_TRUE(coordinator_query_wait_ms(stage.hosts, COORDINATOR_ANSWER) > PATIENCE_MS / 2);
    mirror->totals(mirror->ctx, &sum);
    CU_ASSERT_TRUE(coordinator_is_lost(stage.hosts, 1));
    CU_ASSERT_STRING_EQUAL(stage.why, "it does not answer");
    stage_close();
}

/* Reply after more messages than one read gets. */
static void replies_after_hits(struct conn *conn, struct json_object *call)
{
    for (uint32_t i = 0; i < 2000; i++)
        conn_put(conn,
                 json_add_number(json_add_number(json_object_new_object(), "hit", 0), "fault", 1));
    replies(conn, call, json_object_new_object(), 0);
}

/* The coordinator, occupied by another host, reads a reply to a query only after the deadline. */
static void query__reply_that_is_read_late_counts(void)
{
    char error[256] = "";

    stage_set("answer", replies_after_hits);
    stage.config.query_ms = 50;
    CU_ASSERT_EQUAL_FATAL(coordinator_open(&stage.hosts, &stage.config, error, sizeof error), 0);
    coordinator_query_answer(stage.hosts);
    for (struct pollfd ready = {coordinator_fd(stage.hosts), POLLIN, 0}; poll(&ready, 1, 10) < 1;)
        ;
    poll(NULL, 0, 100);
    CU_ASSERT_EQUAL(coordinator_query_wait_ms(stage.hosts, COORDINATOR_ANSWER), 0);
    CU_ASSERT_FALSE(coordinator_is_lost(stage.hosts, 1));
    stage_close();
}

/* A host executes no calls during an audit, so the coordinator uses the old data meanwhile. */
static void pending__is_not_fetched_during_an_audit(void)
{
    const struct fabric_mirror *mirror = stage_open("pending", reports);
    struct fabric_audit sum = {.found = 0};
    struct emu_pending pending;

    answer_text = "{}";
    coordinator_query_audit(stage.hosts, false, &sum);
    CU_ASSERT_FALSE(mirror->pending(mirror->ctx, 1, 0, &pending));
    CU_ASSERT_EQUAL(stage.asked, 0);
    coordinator_query_end(stage.hosts, COORDINATOR_AUDIT);
    CU_ASSERT_FALSE(mirror->pending(mirror->ctx, 1, 0, &pending));
    CU_ASSERT_EQUAL(stage.asked, 1);
    stage_close();
}

static bool takes_piece(void *ctx, const struct coordinator_piece *piece)
{
    (void)ctx;
    return piece->count == 1;
}

/* Reply with a piece of a sample. @more: promise another piece. */
static void replies_piece(struct conn *conn, struct json_object *call, bool more)
{
    struct json_object *reply = json_add_text(json_object_new_object(), "sample", "00");

    json_add_number(reply, "of", HOSTS_SAMPLE_FINISHED);
    replies(conn, call, json_add_number(json_add_number(reply, "number", 0), "more", more), 0);
}

/* Fetch the last sample from the host, which replies as stage_set() says. */
static void fetch_sample(void)
{
    char error[256] = "";

    stage.config.ops.sampled = takes_piece;
    CU_ASSERT_EQUAL_FATAL(coordinator_open(&stage.hosts, &stage.config, error, sizeof error), 0);
    coordinator_sample_last(stage.hosts, HOSTS_SAMPLE_FINISHED);
}

/* Reply within the limit of a call, and promise another piece. */
static void sends_a_piece_late(struct conn *conn, struct json_object *call)
{
    poll(NULL, 0, 200);
    replies_piece(conn, call, true);
}

/* A host that sends each piece of a sample just in time is lost before the sample ends. */
static void sample__has_a_limit_for_all_pieces(void)
{
    stage_set("sample", sends_a_piece_late);
    stage.config.call_ms = 400;
    fetch_sample();
    CU_ASSERT_STRING_EQUAL(stage.why, "it does not answer");
    CU_ASSERT_TRUE(stage.asked < 10);
    stage_close();
}

/*
 * Reply after 40 ms, so that the operation's limit is never reached, and promise another piece. The
 * tenth call also requests the end.
 */
static void sends_pieces_without_end(struct conn *conn, struct json_object *call)
{
    if (stage.asked == 10)
        eventfd_write(stage.stop_fd, 1);
    poll(NULL, 0, 40);
    replies_piece(conn, call, true);
}

/* When the end is requested, an operation ends soon, even if a host answers each call in time. */
static void operation__is_shortened_by_the_end(void)
{
    stage_set("sample", sends_pieces_without_end);
    stage.config.call_ms = 10000;
    stage.config.last_ms = 2000;
    fetch_sample();
    CU_ASSERT_STRING_EQUAL(stage.why, "it does not answer");
    CU_ASSERT_TRUE(stage.asked > 10 && stage.asked < 60);
    stage_close();
}

/* Reply late to the first call, during which the end is requested, and in time to the second. */
static void sends_a_late_and_a_timely_piece(struct conn *conn, struct json_object *call)
{
    poll(NULL, 0, 1000);
    if (stage.asked == 1) {
        eventfd_write(stage.stop_fd, 1);
        poll(NULL, 0, 1500);
    }
    replies_piece(conn, call, stage.asked == 1);
}

/* The time before the end was requested does not count against the time that is left after it. */
static void operation__shortened_by_the_end_leaves_time(void)
{
    stage_set("sample", sends_a_late_and_a_timely_piece);
    stage.config.call_ms = 60000;
    stage.config.last_ms = 4000;
    fetch_sample();
    CU_ASSERT_STRING_EQUAL(stage.why, "");
    CU_ASSERT_EQUAL(stage.asked, 2);
    stage_close();
}

/* A call that waits already when the end is requested ends soon, too. */
static void call__is_shortened_by_the_end(void)
{
    const struct fabric_mirror *mirror;
    struct fabric_totals sum = {.sent = 0};
    char error[256] = "";
    int64_t began_ms;

    stage_set("totals", requests_the_end);
    stage.config.last_ms = 400;
    CU_ASSERT_EQUAL_FATAL(coordinator_open(&stage.hosts, &stage.config, error, sizeof error), 0);
    mirror = coordinator_mirror(stage.hosts);
    began_ms = emu_now_ms();
    mirror->totals(mirror->ctx, &sum);
    CU_ASSERT_STRING_EQUAL(stage.why, "it does not answer");
    CU_ASSERT_TRUE(emu_now_ms() - began_ms < PATIENCE_MS / 2);
    stage_close();
}

/* Reply within the limit of a call, and promise further pairs. */
static void sends_pairs_late(struct conn *conn, struct json_object *call)
{
    struct json_object *comm = json_add_number(json_object_new_object(), "next", stage.asked + 1u);
    struct json_object *reply = json_object_new_object();

    json_object_object_add(reply, "comm", comm);
    poll(NULL, 0, 150);
    replies(conn, call, reply, 0);
}

/* All calls for the final report have one time limit for each host. */
static void report__has_a_limit_for_all_calls(void)
{
    const struct fabric_mirror *mirror;
    struct fabric_comm sum = {.nodes = NODES};
    char error[256] = "";

    stage_set("comm", sends_pairs_late);
    stage.config.last_ms = 600;
    CU_ASSERT_EQUAL_FATAL(coordinator_open(&stage.hosts, &stage.config, error, sizeof error), 0);
    mirror = coordinator_mirror(stage.hosts);
    coordinator_limit_calls(stage.hosts, true);
    mirror->comm(mirror->ctx, &sum);
    CU_ASSERT_STRING_EQUAL(stage.why, "it does not answer");
    CU_ASSERT_TRUE(stage.asked < 5);
    fabric_comm_free(&sum);
    stage_close();
}

static void answers_late(struct conn *conn, struct json_object *call)
{
    poll(NULL, 0, 400);
    replies(conn, call, json_object_new_object(), 0);
}

/* A host may answer one call of each operation late, but not all calls of an operation. */
static void operation__has_a_limit_for_all_calls(void)
{
    const struct fabric_mirror *mirror;
    char error[256] = "";

    stage_set("node_incarnation", answers_late);
    stage.config.call_ms = 1000;
    CU_ASSERT_EQUAL_FATAL(coordinator_open(&stage.hosts, &stage.config, error, sizeof error), 0);
    mirror = coordinator_mirror(stage.hosts);
    for (uint32_t i = 0; i < 3; i++) {
        coordinator_operation(stage.hosts);
        mirror->incarnation(mirror->ctx, 1, emu_incarnation_state(1, true));
    }
    CU_ASSERT_EQUAL(stage.lost, 0);
    for (uint32_t i = 0; i < 8; i++)
        mirror->incarnation(mirror->ctx, 1, emu_incarnation_state(1, true));
    CU_ASSERT_STRING_EQUAL(stage.why, "it does not answer");
    CU_ASSERT_TRUE(stage.asked < 8);
    stage_close();
}

/* --- agents --------------------------------------------------------------------------------- */

static bool has_failed(const void *ctx, char *text, size_t bytes)
{
    (void)ctx;
    snprintf(text, bytes, "host green: its agent has ended with status 1");
    return true;
}

/* A host whose agent has failed is not waited for, however long the limit is. */
static void connect__ends_when_an_agent_has_failed(void)
{
    char error[256] = "";

    stage_set(NULL, NULL);
    stage.config.start_ms = UINT64_MAX;
    stage.config.links_up = never_up;
    stage.config.agents_why = has_failed;
    CU_ASSERT_EQUAL(coordinator_open(&stage.hosts, &stage.config, error, sizeof error), -EPROTO);
    CU_ASSERT_STRING_EQUAL(error, "host green: its agent has ended with status 1");
    stage.hosts = NULL;
    stage_close();
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(failure__of_a_mandatory_call_loses_the_host),
        CASE(failure__reported_does_not_lose_the_host),
        CASE(process__of_a_lost_host_is_not_admitted),
        CASE(process__does_not_connect_during_a_call),
        CASE(host__sending_without_end_is_lost),
        CASE(host__sending_other_messages_is_lost),
        CASE(host__flooding_before_its_answer_is_lost),
        CASE(report__of_links_is_validated),
        CASE(report__of_links_is_limited),
        CASE(totals__ignore_an_impossible_factor),
        CASE(audit__of_a_host_adds_to_those_of_others),
        CASE(rerouted__forged_number_does_not_wrap),
        CASE(arrivals__at_unknown_ports_are_skipped),
        CASE(arrivals__are_accepted_once_for_each_switch_of_the_group),
        CASE(mismatch__of_the_group_of_others_is_ignored),
        CASE(stalls__elsewhere_are_skipped),
        CASE(stalls__of_a_host_leave_space),
        CASE(hit__of_an_unknown_device_is_skipped),
        CASE(hit__of_the_future_counts_as_of_now),
        CASE(hits__are_found_by_their_fault),
        CASE(hits__of_faults_elsewhere_are_not_counted),
        CASE(faults__of_another_host_stay_listed),
        CASE(faults__leave_the_lists_of_all_hosts),
        CASE(trap__for_an_unknown_node_is_ignored),
        CASE(injector_step__applies_a_target_as_a_whole),
        CASE(test__of_a_cable_elsewhere_is_ignored),
        CASE(pending__of_unknown_nodes_is_not_kept),
        CASE(pending__mismatch_of_the_group_of_others_is_ignored),
        CASE(starved__of_a_host_is_added_once),
        CASE(host__random_answers_at_most_lose_it),
        CASE(line__long_is_sent_in_pieces),
        CASE(line__unread_waits_at_the_daemon),
        CASE(host__returning_does_not_answer_for_others),
        CASE(host__returning_that_floods_is_not_admitted),
        CASE(comm__of_another_host_is_complete),
        CASE(comm__without_an_end_loses_the_host),
        CASE(comm__beyond_the_limit_is_counted),
        CASE(comm__of_a_host_leaves_space),
        CASE(comm__of_the_nodes_of_others_is_ignored),
        CASE(comm__forged_counts_do_not_wrap),
        CASE(link__lost_repeatedly_is_repaired),
        CASE(duplicates__without_end_are_limited),
        CASE(connect__failure_shows_printable_text),
        CASE(connect__failure_shows_why_the_host_was_lost),
        CASE(connect__ends_on_request),
        CASE(end__gives_the_reason_unless_orderly),
        CASE(end__of_a_failed_start_gives_the_reason),
        CASE(audit__unanswered_ends),
        CASE(call__has_a_shorter_limit_than_a_query),
        CASE(query__reply_that_is_read_late_counts),
        CASE(pending__is_not_fetched_during_an_audit),
        CASE(sample__has_a_limit_for_all_pieces),
        CASE(operation__is_shortened_by_the_end),
        CASE(operation__shortened_by_the_end_leaves_time),
        CASE(call__is_shortened_by_the_end),
        CASE(report__has_a_limit_for_all_calls),
        CASE(operation__has_a_limit_for_all_calls),
        CASE(connect__ends_when_an_agent_has_failed),
        {NULL, NULL},
    };

    return test_run("coordinator", cases);
}
