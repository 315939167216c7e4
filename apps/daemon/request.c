/* SPDX-License-Identifier: BSD-3-Clause */
/* request.c - the requests on the control socket (docs/control.md). */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/audit/audit.h"
#include "apps/fabric/hosts.h"
#include "apps/base/bounds.h"
#include "apps/daemon/client.h"
#include "apps/daemon/faults.h"
#include "apps/base/procs.h"
#include "apps/daemon/report.h"
#include "apps/base/message.h"
#include "emu/hostif/hostif.h"
#include "emu/util/printable.h"

/* --- attach, detach ----------------------------------------------------------------- */

/* Notify the supervisor of the event @what about a process. The field @name has the @text. */
static void notify_about(struct daemon *daemon, const struct client *client, const char *what,
                         const char *name, const char *text)
{
    struct json_object *event = json_add_text(conn_event(what), name, text);
    uint32_t host = daemon_client_host(client);

    if (host)
        json_add_text(event, "host", daemon->config->hosts->name[host]);
    daemon_notify_owner(daemon, event);
}

/*
 * Refuse to attach a process. @line: the reason. The supervisor is notified of the first refusal
 * only.
 */
static void refuse(struct daemon *daemon, struct client *client, int err, const char *line)
{
    daemon->record.refused++;
    daemon_reply_error(daemon, client, err, "%s", line);
    if (daemon->record.refused == 1)
        notify_about(daemon, client, "refused", "error", line);
}

static void refuse_full(struct daemon *daemon, struct client *client)
{
    const struct fabric_config *config = daemon->config->fabric;
    char line[256], more[64] = "take a network with more nodes, or fewer processes";
    uint32_t nodes = 0;

    for (uint32_t n = 0; n < config->graph->nodes; n++)
        nodes += fabric_node_host(config, n) == daemon_client_host(client);
    if (!config->graph->label) /* a network from a file has a fixed number of nodes */
        snprintf(more, sizeof more, "start it with more, for example --nodes %u",
                 config->graph->nodes * 2);
    snprintf(line, sizeof line, "all %u nodes of fabric '%s' (%.64s)%s are taken; %s", nodes,
             config->name, config->graph->spec, config->hosts ? " on this host" : "", more);
    refuse(daemon, client, -ENOSPC, line);
}

/* Return advice for the user to append to an error message. */
static const char *remedy(int err)
{
    switch (err) {
    case -EMFILE:
        return "; start it with a higher limit of open files (ulimit -n)";
    case -EFBIG:
        return "; start it with a higher limit of file sizes (ulimit -f)";
    case -ENOMEM:
        return "; start it with a higher limit of memory (ulimit -v), or on a larger machine";
    case -EDQUOT:
        return "; raise fs.epoll.max_user_watches";
    default:
        return "";
    }
}

static void client_attached(struct daemon *daemon, struct client *client,
                            const struct fabric_attachment *attachment)
{
    client->node = attachment->node;
    client->incarnation = attachment->incarnation;
    client->cut_off = false;
    daemon_client_command(client, client->command, sizeof client->command);
    daemon->by_node[attachment->node] = client;
    daemon_refusals_forget(daemon, client);
    daemon_waits_attach(daemon, client);
    daemon_standstill_attach(daemon, client);
    timeline_serve_attach(daemon, client);
    daemon->record.attaches++;
    uint32_t attached = fabric_attached(daemon->fabric);
    if (attached > daemon->record.peak)
        daemon->record.peak = attached;
    daemon_tick_when(daemon);
}

/* Tell the supervisor that a process has attached. @ranks: ranks of its job; 0: unknown. */
static void notify_attached(struct daemon *daemon, uint32_t ranks)
{
    struct json_object *event =
        json_add_number(conn_event("attached"), "attached", fabric_attached(daemon->fabric));

    if (ranks)
        json_add_number(event, "ranks", ranks);
    daemon_notify_owner(daemon, event);
}

/* Return the number of processes of the job to which the process belongs; 0: unknown. */
static uint32_t ranks_of(const struct daemon *daemon, struct json_object *request)
{
    int64_t ranks = emu_json_number(request, "ranks", 0);

    return ranks > 0 && ranks <= daemon->graph->nodes ? (uint32_t)ranks : 0;
}

/*
 * Find the node that a process requests, either by the variable FABEMU_NODE or by its rank. @ret:
 * gets the node. It gets -1, which stands for any node of the process's host, if the requested node
 * is on another host, or if the rank is larger than the number of any node. Errors: -EINVAL,
 * FABEMU_NODE does not name a node.
 */
static int node_wanted(const struct fabric_config *config, const struct client *client,
                       struct json_object *request, int64_t *ret, char *error, size_t error_bytes)
{
    const char *text = emu_json_text(request, "want", "");
    int64_t number = emu_json_number(request, "want", -1);
    uint32_t host = daemon_client_host(client);
    uint32_t node = TOPO_NONE;
    int err = 0;

    if (*text) {
        size_t used = (size_t)snprintf(error, error_bytes, "FABEMU_NODE: ");

        err = topo_parse_node(&node, config->graph, text, error + used, error_bytes - used);
    }
    if (number >= 0 && number < config->graph->nodes)
        node = (uint32_t)number;
    *ret = node < config->graph->nodes && fabric_node_host(config, node) == host ? (int64_t)node
                                                                                 : -1;
    return err;
}

/*
 * Return the third descriptor that the reply passes to a process that has attached: the file of
 * daemon_calls_file(), if the process records or replays its calls, or else the multicast buffer,
 * which may be -1. If the file cannot be made, detach the process, reply with the error, and return
 * the error, which is below -1.
 */
static int calls_or_mcast_buf(struct daemon *daemon, struct client *client,
                              const struct fabric_attachment *attachment)
{
    char error[256];
    int fd = daemon_calls_file(daemon, client, error, sizeof error);

    if (fd == -1)
        return attachment->fds.mcast_buf;
    if (fd < -1) {
        if (!client->remote)
            fabric_attachment_close(attachment);
        daemon_node_free(daemon, client, false);
        refuse(daemon, client, fd, error);
    }
    return fd;
}

static void request_attach(struct daemon *daemon, struct client *client,
                           struct json_object *request)
{
    const struct fabric_config *config = daemon->config->fabric;
    struct fabric_attachment attachment;
    int64_t version = emu_json_number(request, "version", 0);
    char error[TOPO_NODE_ERROR_BYTES + 16];

    if (version != EMU_HOSTIF_VERSION) {
        snprintf(error, sizeof error,
                 "this process's library has protocol version %lld, but the fabric has version "
                 "%u: use the libfabemu that came with this fabemu",
                 (long long)version, EMU_HOSTIF_VERSION);
        refuse(daemon, client, -EPROTO, error);
        return;
    }
    if (client->node >= 0) {
        daemon_reply_error(daemon, client, -EALREADY, "this connection has attached already");
        return;
    }
    daemon_reap(daemon); /* free the nodes of processes that died in this round */
    int64_t want;
    int err = node_wanted(config, client, request, &want, error, sizeof error);
    if (err) {
        refuse(daemon, client, err, error);
        return;
    }
    err = client->remote
              ? fabric_attach_remote(daemon->fabric, coordinator_process_info(client->remote)->host,
                                     want, &attachment)
              : fabric_attach(daemon->fabric, want, &attachment);
    if (err == -ENOSPC) {
        refuse_full(daemon, client);
        return;
    }
    if (err) {
        snprintf(error, sizeof error, "cannot attach to the fabric: %s%s", strerror(-err),
                 remedy(err));
        refuse(daemon, client, err, error);
        return;
    }
    client->rank = emu_json_number(request, "rank", -1);
    client_attached(daemon, client, &attachment);
    int third = calls_or_mcast_buf(daemon, client, &attachment);
    if (third < -1)
        return;
    uint32_t ranks = ranks_of(daemon, request);
    notify_attached(daemon, ranks);
    fabric_set_pid(daemon->fabric, attachment.node, client->pid);
    fabric_expect(daemon->fabric, ranks);
    struct json_object *reply = conn_ok();
    json_add_text(reply, "fabric", config->name);
    json_add_text(reply, "fabric_id", daemon->fabric_id);
    report_network(reply, config);
    json_add_text(reply, "clock", emu_clock_name(config->clock));
    json_add_number(reply, "node", attachment.node);
    json_add_number(reply, "incarnation", client->incarnation);
    json_add_number(reply, "nodes", config->graph->nodes);
    json_object_object_add(reply, "link_bytes_per_s",
                           json_object_new_double(1e12 / (double)config->profile.link_ps_per_byte));
    json_add_number(reply, "hop_limit", daemon->hop_limit);
    json_object_object_add(reply, "bounds", bounds_library(&config->bounds));
    json_object_object_add(reply, "acknowledged",
                           json_object_new_boolean(emu_profile_acknowledged(&config->profile)));
    if (client->remote) /* the host of the process has the descriptors, and adds them */
        daemon_send(daemon, client, reply);
    else
        daemon_send_with(daemon, client, reply,
                         (const int[EMU_JSON_FDS]){attachment.fds.memory, attachment.fds.bell,
                                                   third});
}

/*
 * Clock virtual: record for how long the process has slept in calls that the fabric does not
 * control (emu/hostif/simtime.h).
 */
static void record_sleep(struct daemon *daemon, const struct client *client)
{
    uint64_t ns = fabric_outside_ns(daemon->fabric, (uint32_t)client->node);
    struct daemon_sleeps *sleeps = &daemon->record.sleeps;

    sleeps->processes += ns > 0;
    if (ns > sleeps->longest_ns) {
        sleeps->longest_ns = ns;
        sleeps->rank = client->rank;
        sleeps->node = (uint32_t)client->node;
    }
}

/* Clock virtual: record how the process has measured the host's time. */
static void record_host_time(struct daemon *daemon, const struct client *client)
{
    uint32_t how = fabric_host_time(daemon->fabric, (uint32_t)client->node);
    struct daemon_host_time *record = &daemon->record.host_time;

    if (!how)
        return;
    record->how |= how;
    if (record->processes++)
        return;
    record->rank = client->rank;
    record->node = (uint32_t)client->node;
}

void daemon_node_free(struct daemon *daemon, struct client *client, bool dead)
{
    record_sleep(daemon, client);
    record_host_time(daemon, client);
    daemon_queues_forget(client);
    daemon_waits_detach(daemon, client, dead);
    daemon_standstill_detach(daemon, client);
    telemetry_serve_detach(daemon, (uint32_t)client->node);
    timeline_serve_detach(daemon, client, dead);
    if (dead)
        fabric_detach_dead(daemon->fabric, (uint32_t)client->node);
    else
        fabric_detach(daemon->fabric, (uint32_t)client->node);
    daemon->by_node[client->node] = NULL;
    client->node = -1;
    if (client->frozen && !dead)
        /* the fault applies to the node, which the process has left */
        daemon_freeze(daemon, client, false);
    client->frozen = false;
    daemon_tick_when(daemon);
}

static void request_detach(struct daemon *daemon, struct client *client,
                           struct json_object *request)
{
    int64_t disconnects_unconfirmed = emu_json_number(request, "disconnects_unconfirmed", 0);

    if (client->node < 0) {
        daemon_reply_error(daemon, client, -ENOTCONN, "this connection has not attached");
        return;
    }
    if (disconnects_unconfirmed > 0 && disconnects_unconfirmed <= daemon->graph->nodes)
        daemon->record.disconnects_unconfirmed += (uint64_t)disconnects_unconfirmed;
    daemon_left(daemon, client);
    client->closing = true;
    daemon_send(daemon, client, conn_ok());
}

/*
 * Handle the request that the library sends when its process exits without detaching. It tells the
 * fabric that the process was not killed.
 */
static void request_exits(struct daemon *daemon, struct client *client, struct json_object *request)
{
    (void)request;
    client->exits = true;
    daemon_send(daemon, client, conn_ok());
}

/* Copy text that a process has sent, with '?' in place of unprintable bytes. */
static void copy_printable(char *to, size_t bytes, const char *from)
{
    snprintf(to, bytes, "%s", from);
    emu_printable(to);
}

/*
 * Handle the request that the Open MPI component sends when the process's messages use another
 * transport.
 */
static void request_outside(struct daemon *daemon, struct client *client,
                            struct json_object *request)
{
    struct daemon_record *record = &daemon->record;

    if (client->node < 0) {
        daemon_reply_error(daemon, client, -ENOTCONN, "this connection has not attached");
        return;
    }
    if (!client->outside && !record->outside++) {
        copy_printable(record->outside_why, sizeof record->outside_why,
                       emu_json_text(request, "why", ""));
        notify_about(daemon, client, "outside", "why", record->outside_why);
    }
    client->outside = true;
    daemon_send(daemon, client, conn_ok());
}

struct json_object *daemon_report(struct daemon *daemon)
{
    struct json_object *report;

    daemon_waits_sample(daemon);
    report = report_build(daemon->fabric, daemon->config->fabric, &daemon->record);
    /* after report_build(), because that queries all hosts */
    daemon_hosts_report(daemon, report);
    daemon_faults_report(daemon, report);
    timeline_serve_report(daemon, report);
    if (daemon->config->replay)
        json_add_number(json_object_object_get(json_object_object_get(report, "clock"), "compute"),
                        "unused", daemon_calls_unused(daemon));
    return report;
}

static void request_status(struct daemon *daemon, struct client *client,
                           struct json_object *request)
{
    const struct fabric_config *config = daemon->config->fabric;
    struct json_object *reply = conn_ok();
    struct json_object *attached = json_object_new_array();
    const struct emu_profile on = emu_profile_on(&config->profile, config->clock);

    (void)request;
    daemon_waits_sample(daemon);
    daemon_standstill_add(daemon, reply);
    json_add_text(reply, "name", config->name);
    json_add_number(reply, "pid", (uint64_t)getpid());
    json_add_number(reply, "supervisor", (uint64_t)daemon->config->owner);
    for (uint32_t node = 0; node < config->graph->nodes; node++) {
        const struct client *who = daemon->by_node[node];
        if (!who)
            continue;
        struct json_object *one = daemon_process_build(daemon, who);
        if (who->waits && config->clock == EMU_CLOCK_REAL)
            json_add_number(one, "waited_ns", who->waited_ns);
        daemon_standstill_client(daemon, who, one);
        json_object_array_add(attached, one);
    }
    json_object_object_add(reply, "attached", attached);
    json_object_object_add(reply, "bounds", bounds_all(&config->bounds, &on));
    json_object_object_add(reply, "report", daemon_report(daemon));
    daemon_send(daemon, client, reply);
}

static void request_report(struct daemon *daemon, struct client *client,
                           struct json_object *request)
{
    struct json_object *reply = conn_ok();

    (void)request;
    json_object_object_add(reply, "report", daemon_report(daemon));
    daemon_send(daemon, client, reply);
}

/* Return the result of the audit of all hosts; NULL: a host had no memory for it. */
static struct json_object *audit_asked(struct daemon *daemon)
{
    if (!daemon->audit || coordinator_query_error(daemon->coordinator, COORDINATOR_AUDIT))
        return NULL;
    daemon->audit->elapsed_ns = emu_now_ns() - daemon->audit_ns;
    return audit_json_of(daemon->audit);
}

static void request_check(struct daemon *daemon, struct client *client, struct json_object *request)
{
    struct json_object *check = daemon->coordinator ? audit_asked(daemon)
                                                    : audit_json(daemon->fabric, true);
    struct json_object *reply;

    (void)request;
    if (!check) {
        daemon_reply_error(daemon, client, -ENOMEM, "cannot check the fabric: out of memory");
        return;
    }
    reply = json_add_text(conn_ok(), "name", daemon->config->fabric->name);
    json_object_object_add(reply, "check", check);
    daemon_send(daemon, client, reply);
}

static void request_shutdown(struct daemon *daemon, struct client *client,
                             struct json_object *request)
{
    (void)request;
    daemon->shutdown = true;
    daemon_send(daemon, client, conn_ok());
}

/* --- the table ---------------------------------------------------------------------- */

#define AT_ONCE COORDINATOR_QUERIES

static const struct request {
    const char *command;
    void (*answer)(struct daemon *, struct client *, struct json_object *);
    enum coordinator_query_kind after; /* query that must complete first; AT_ONCE: none */
    /* clang-format off: one row per line */
} requests[] = {
    {"attach", request_attach, COORDINATOR_ANSWER},
    {"detach", request_detach, AT_ONCE},
    {"exits", request_exits, AT_ONCE},
    {"outside", request_outside, AT_ONCE},
    {"refused", daemon_refused, AT_ONCE},
    {"queue_announce", daemon_queue_announce, AT_ONCE},
    {"queue_withdraw", daemon_queue_withdraw, AT_ONCE},
    {"queue_find", daemon_queue_find, AT_ONCE},
    {"group_create", daemon_group_create, COORDINATOR_ANSWER},
    {"group_join", daemon_group_join, AT_ONCE},
    {"group_leave", daemon_group_leave, AT_ONCE},
    {"group_break", daemon_group_break, AT_ONCE},
    {"status", request_status, COORDINATOR_ANSWER},
    {"report", request_report, COORDINATOR_ANSWER},
    {"check", request_check, COORDINATOR_AUDIT},
    {"shutdown", request_shutdown, AT_ONCE},
    {"subscribe", daemon_subscribe, AT_ONCE},
    {"capture", daemon_capture, AT_ONCE},
    {"capture_stop", daemon_capture_stop, AT_ONCE},
    {"fault", daemon_fault, COORDINATOR_ANSWER},
    {"fault_clear", daemon_fault_clear, COORDINATOR_ANSWER},
    {"fault_kinds", daemon_fault_kinds, AT_ONCE},
    {"faults", daemon_fault_list, COORDINATOR_ANSWER},
};
/* clang-format on */

static const struct request *request_of(struct json_object *request)
{
    const char *command = emu_json_text(request, "cmd", "");

    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
        if (strcmp(requests[i].command, command) == 0)
            return &requests[i];
    return NULL;
}

/* --- queries to other hosts ------------------------------------------------------------ */

static void audit_begin(struct daemon *daemon)
{
    if (!daemon->audit)
        daemon->audit = malloc(sizeof *daemon->audit);
    daemon->audit_ns = emu_now_ns();
    if (daemon->audit &&
        fabric_audit_host(daemon->fabric, fabric_now_ps(daemon->fabric), true, daemon->audit)) {
        free(daemon->audit);
        daemon->audit = NULL;
    }
    if (daemon->audit)
        coordinator_query_audit(daemon->coordinator, true, daemon->audit);
}

static void query_begin(struct daemon *daemon, enum coordinator_query_kind of)
{
    struct daemon_query *query = &daemon->query[of];

    query->number++;
    query->waits = true;
    if (of == COORDINATOR_AUDIT)
        audit_begin(daemon);
    else
        coordinator_query_answer(daemon->coordinator);
}

/* Return whether a request, or other work, waits for a query that has not begun. */
static bool is_wanted(const struct daemon *daemon, enum coordinator_query_kind of)
{
    const struct daemon_query *query = &daemon->query[of];

    emu_each_listed (const struct client, client, &daemon->clients, link)
        if (client->query == query && !client->gone && client->query_number > query->number)
            return true;
    return of == COORDINATOR_ANSWER && daemon->due.query_number > query->number;
}

/*
 * Begin the next query, unless one is in progress: a host executes no calls during an audit, so a
 * call after another query would block the daemon. If both kinds are wanted, @first is next.
 */
static void query_next(struct daemon *daemon, enum coordinator_query_kind first)
{
    enum coordinator_query_kind other = first == COORDINATOR_AUDIT ? COORDINATOR_ANSWER
                                                                   : COORDINATOR_AUDIT;

    if (daemon->query[first].waits || daemon->query[other].waits)
        return;
    if (is_wanted(daemon, first))
        query_begin(daemon, first);
    else if (is_wanted(daemon, other))
        query_begin(daemon, other);
}

/*
 * Return the number of the next query of this kind. A query in progress is too old for the caller,
 * because hosts may have replied to it already. The caller then calls query_next().
 */
static uint64_t query_join(const struct daemon *daemon, enum coordinator_query_kind of)
{
    return daemon->query[of].number + 1;
}

/*
 * Let the request wait for a query. Some requests wait only because their handlers call other hosts
 * and block until these reply. The query does not block, and when it is complete, each host has
 * replied or is lost. So a host that does not reply delays only these requests, and not the daemon.
 */
static void request_waits(struct daemon *daemon, struct client *client, const struct request *row,
                          struct json_object *request)
{
    client->query = &daemon->query[row->after];
    client->request = row;
    client->asked = json_object_get(request);
    client->query_number = query_join(daemon, row->after);
    query_next(daemon, row->after);
    if (emu_json_true(request, "wait"))
        daemon_send(daemon, client,
                    json_add_number(conn_event("wait"), "limit_ms",
                                    coordinator_request_ms(daemon->coordinator, row->after)));
}

void daemon_operation(struct daemon *daemon)
{
    if (daemon->coordinator)
        coordinator_operation(daemon->coordinator);
}

/*
 * Return whether a signal or the supervisor has asked the fabric to end, and the daemon has not
 * begun with it yet.
 */
static bool must_end(const struct daemon *daemon)
{
    struct pollfd fds[2] = {{daemon->config->signal_fd, POLLIN, 0},
                            {daemon->owner ? daemon->owner->conn.fd : -1, POLLIN, 0}};

    return !daemon->ending && (daemon->shutdown || poll(fds, 2, 0) > 0);
}

void daemon_await(struct daemon *daemon)
{
    if (!daemon->due.query_number)
        daemon->due.query_number = query_join(daemon, COORDINATOR_ANSWER);
    query_next(daemon, COORDINATOR_ANSWER);
}

/*
 * Do the work that has waited for a query. If the fabric must end, leave the work, because slow
 * hosts could delay each part of it.
 */
static void due_settle(struct daemon *daemon)
{
    if (!daemon->due.query_number ||
        daemon->due.query_number > daemon->query[COORDINATOR_ANSWER].number)
        return;
    daemon->due.query_number = 0;
    daemon->due.admit = daemon->due.back;
    daemon->due.back = false;
    daemon_operation(daemon);
    if (!must_end(daemon))
        daemon_faults_due(daemon);
    daemon_operation(daemon);
    if (daemon->due.standstill && !must_end(daemon))
        daemon_standstill_tick(daemon);
    daemon->due.standstill = false;
    daemon_operation(daemon);
    if (daemon->due.links && !must_end(daemon))
        coordinator_links_mend(daemon->coordinator);
    daemon->due.links = false;
}

/*
 * The query is complete: reply to the requests that wait for it. Then begin a query for the
 * requests that have arrived since this one began; one of the other kind comes first.
 */
static void query_ends(struct daemon *daemon, enum coordinator_query_kind of)
{
    struct daemon_query *query = &daemon->query[of];

    if (of == COORDINATOR_ANSWER)
        due_settle(daemon);
    emu_each_listed (struct client, client, &daemon->clients, link) {
        struct json_object *request = client->asked;

        if (client->query != query || client->gone || client->query_number > query->number)
            continue;
        if (must_end(daemon)) {
            client->query_number = query_join(daemon, of);
            continue;
        }
        client->query = NULL;
        client->asked = NULL;
        daemon_operation(daemon);
        client->request->answer(daemon, client, request);
        json_object_put(request);
    }
    query->waits = false;
    query_next(daemon, of == COORDINATOR_AUDIT ? COORDINATOR_ANSWER : COORDINATOR_AUDIT);
}

int daemon_queries_wait_ms(struct daemon *daemon)
{
    int least = -1;

    for (uint32_t of = 0; of < COORDINATOR_QUERIES; of++)
        if (daemon->query[of].waits)
            least = daemon_least_ms(least, coordinator_query_wait_ms(daemon->coordinator, of));
    return least;
}

void daemon_queries_settle(struct daemon *daemon)
{
    for (uint32_t of = 0; of < COORDINATOR_QUERIES; of++)
        if (daemon->query[of].waits && coordinator_query_wait_ms(daemon->coordinator, of) == 0)
            query_ends(daemon, of);
}

void daemon_queries_end(struct daemon *daemon)
{
    for (uint32_t of = 0; of < COORDINATOR_QUERIES; of++)
        if (daemon->query[of].waits)
            coordinator_query_end(daemon->coordinator, of);
    memset(&daemon->due, 0, sizeof daemon->due);
    emu_each_listed (struct client, client, &daemon->clients, link) {
        if (!client->query || client->gone)
            continue;
        client->query = NULL;
        json_object_put(client->asked);
        client->asked = NULL;
        daemon_reply_error(daemon, client, -ECANCELED,
                           "the fabric is shutting down, and not all of its hosts have answered");
    }
}

void daemon_request(struct daemon *daemon, struct client *client, struct json_object *request)
{
    const struct request *row = request_of(request);

    if (!row) {
        daemon_reply_error(daemon, client, -ENOSYS, "no request \"%.40s\"; see docs/control.md",
                           emu_json_text(request, "cmd", ""));
        return;
    }
    if (row->after != AT_ONCE && daemon->coordinator) {
        request_waits(daemon, client, row, request);
        return;
    }
    daemon_operation(daemon);
    row->answer(daemon, client, request);
}
