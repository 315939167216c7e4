/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * daemon.c - the daemon's loop, timer, start and end. The daemon serves the control socket of a
 * running fabric.
 *
 * The daemon is one thread, the fabric's manager, which waits in epoll. No client can block it,
 * because a read takes only the bytes that have arrived. After REQUESTS_PER_TURN requests of a
 * client, other clients are served. The daemon reads no more requests from a client until its last
 * reply is sent. In an idle fabric the daemon never wakes: the timer runs only while a process is
 * attached or admission is paused.
 */
#include "apps/daemon/daemon.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "apps/fabric/origin.h"
#include "apps/base/output.h"
#include "apps/base/message.h"
#include "apps/audit/audit.h"
#include "apps/daemon/client.h"
#include "apps/daemon/faults.h"
#include "apps/base/procs.h"
#include "apps/daemon/report.h"
#include "emu/util/clock.h"
#include "emu/util/now.h"

#define EVENTS_PER_ROUND 64
/* maximum number of requests handled for one client before other clients are served */
#define REQUESTS_PER_TURN 16
#define TICK_MS           1000u
#define LAST_FLUSH_MS     1000 /* time for the supervisor to read the final report */

/*
 * Return a client that is marked as gone but still occupies its node. Search from the start each
 * time, because handling a death may mark more clients as gone.
 */
static struct client *next_dead(const struct daemon *daemon)
{
    emu_each_listed (struct client, client, &daemon->clients, link)
        if (client->gone && client->node >= 0)
            return client;
    return NULL;
}

void daemon_reap(struct daemon *daemon)
{
    for (struct client *dead; (dead = next_dead(daemon));)
        daemon_died(daemon, dead);
}

static void free_gone(struct daemon *daemon)
{
    daemon_reap(daemon);
    for (struct emu_list *at = daemon->clients.next, *next; at != &daemon->clients; at = next) {
        struct client *client = emu_list_entry(at, struct client, link);

        next = at->next;
        if (!client->gone)
            continue;
        if (client->died >= 0 && !client->remote)
            client->pidfd = procs_pidfd(client->conn.fd, client->pid);
        daemon_client_close(daemon, client);
        if (client->died >= 0)
            daemon_exiting_add(daemon, client);
        else
            daemon_client_free(client);
    }
    daemon_exiting_report(daemon, false);
}

int daemon_watch(struct daemon *daemon, int fd, const void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = (void *)(uintptr_t)what};

    return epoll_ctl(daemon->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int daemon_watch_new(struct daemon *daemon, int fd, const void *what)
{
    int err = fd < 0 ? -errno : daemon_watch(daemon, fd, what);

    if (err && fd >= 0)
        close(fd);
    return err ? err : fd;
}

int daemon_timer_open(struct daemon *daemon, const void *what)
{
    return daemon_watch_new(daemon, timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
                            what);
}

void daemon_timer_set(int timer, uint64_t at_ns)
{
    struct itimerspec when = {0};

    if (at_ns != EMU_NEVER) /* a value of 0 would disarm the timer */
        when.it_value =
            (struct timespec){(time_t)(at_ns / 1000000000u), (long)(at_ns % 1000000000u) + !at_ns};
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}

/*
 * The client has closed its sending direction. If it is attached, its process is dead. Otherwise
 * the replies to its earlier requests are still sent.
 */
static void client_end(struct daemon *daemon, struct client *client)
{
    if (client->node >= 0 || !client->conn.out.bytes) {
        daemon_client_gone(daemon, client);
        return;
    }
    client->closing = true;
    daemon_client_events(daemon, client);
}

/* Return whether to read the next request: the reply to the last request must have been sent. */
static bool client_listens(const struct client *client)
{
    return !client->gone && !client->closing && !client->conn.out.bytes && !client->query;
}

/* Handle some requests of a client: those left from the last round, or the result of one read. */
static void client_serve(struct daemon *daemon, struct client *client)
{
    struct json_object *request;
    int lines = 0;
    int got = 0;

    if (client->closing) { /* the last bytes to the client are sent */
        daemon_client_gone(daemon, client);
        return;
    }
    if (!client->has_lines && conn_fill(&client->conn))
        client->at_end = true;
    for (; lines < REQUESTS_PER_TURN && client_listens(client); lines++) {
        got = conn_next(&client->conn, &request);
        if (got <= 0 && got != -EBADMSG)
            break;
        if (got == 1) {
            daemon_request(daemon, client, request);
            json_object_put(request);
        } else {
            daemon_reply_error(daemon, client, -EBADMSG, CONN_NO_LINE);
        }
    }
    if (got == -EMSGSIZE && !client->gone) {
        client->closing = true;
        daemon_reply_error(daemon, client, -EMSGSIZE, CONN_LONG_LINE);
    }
    if (!client->gone)
        daemon_client_count(daemon, client);
    client->has_lines = (lines == REQUESTS_PER_TURN || client->conn.out.bytes || client->query) &&
                        !client->gone && !client->closing;
    if (client->query && !client->gone)
        daemon_client_events(daemon, client);
    daemon->busy = daemon->busy || (client->has_lines && client_listens(client));
    if (client->at_end && !client->has_lines)
        client_end(daemon, client);
}

static void serve_remaining(struct daemon *daemon)
{
    if (!daemon->busy)
        return;
    daemon->busy = false;
    emu_each_listed (struct client, client, &daemon->clients, link)
        if (client->has_lines && client_listens(client))
            client_serve(daemon, client);
}

void daemon_tick_when(struct daemon *daemon)
{
    bool wanted = fabric_attached(daemon->fabric) > 0 || daemon->admission.paused;
    struct itimerspec each = {{wanted, 0}, {wanted, 0}};

    if (wanted != daemon->ticking)
        timerfd_settime(daemon->timer, 0, &each, NULL);
    daemon->ticking = wanted;
}

/* Treat a process as dead if it has been stopped for longer than --bound stopped. */
static void tick_stopped(struct daemon *daemon)
{
    uint64_t bound_ns = emu_bound_ns(daemon->config->fabric->bounds.stopped_ms);

    if (bound_ns == EMU_BOUND_OFF)
        return;
    emu_each_listed (struct client, client, &daemon->clients, link) {
        if (client->node < 0 || client->gone)
            continue;
        client->stopped = client->remote ? coordinator_process_info(client->remote)->stopped
                                         : procs_stopped_for(&client->stop, client->pid, bound_ns);
        if (!client->stopped)
            continue;
        daemon_send(daemon, client, conn_event("stopped"));
        daemon_client_gone(daemon, client);
    }
}

void daemon_cut_off(struct daemon *daemon, uint32_t node)
{
    struct client *client = daemon->by_node[node];

    if (!client || client->cut_off)
        /* notify only once: a host that repeats its report could fill the supervisor's buffer */
        return;
    client->cut_off = true;
    daemon->record.cut_off++;
    daemon_send(daemon, client, conn_event("cut_off"));
    daemon_notify_owner(daemon,
                        json_add_node(conn_event("cut_off"), daemon->config->fabric->graph, node));
}

/*
 * Notify subscribers and the supervisor, once, that simulated time has reached its end. Segments
 * that are sent from now on do not arrive. Time jumps to its end if, for example, all processes
 * wait, and one of them has set a very long time-out.
 */
static void tick_time(struct daemon *daemon)
{
    struct json_object *event;

    if (daemon->time_over || fabric_reached_ps(daemon->fabric) < EMU_LAST_PS)
        return;
    daemon->time_over = true;
    event = daemon_event(daemon, "time_over", daemon_now_ps(daemon));
    daemon_publish(daemon, json_object_get(event));
    daemon_notify_owner(daemon, event);
}

static void tick(struct daemon *daemon)
{
    uint32_t nodes[64];
    uint64_t expired;

    if (read(daemon->timer, &expired, sizeof expired) < 0)
        return;
    daemon_waits_tick(daemon);
    tick_stopped(daemon);
    tick_time(daemon);
    if (daemon->coordinator) {
        daemon->due.standstill = true;
        daemon_await(daemon);
    } else {
        daemon_standstill_tick(daemon);
    }
    uint32_t count = fabric_tick(daemon->fabric, nodes, 64);
    for (uint32_t i = 0; i < count; i++)
        daemon_cut_off(daemon, nodes[i]);
    daemon_remote_tick(daemon);
    if (daemon->admission.paused) {
        admission_resume(&daemon->admission);
        daemon_tick_when(daemon);
    }
}

/* Do one iteration of the loop. @most_ms: limit of the wait for an event; -1: no limit. */
static void serve_round(struct daemon *daemon, int most_ms)
{
    struct epoll_event events[EVENTS_PER_ROUND];
    int wait_ms = daemon_least_ms(most_ms, daemon_exiting_wait_ms(daemon));
    int count =
        epoll_wait(daemon->epoll, events, EVENTS_PER_ROUND,
                   daemon->busy ? 0 : daemon_least_ms(wait_ms, daemon_queries_wait_ms(daemon)));

    daemon_operation(daemon);
    serve_remaining(daemon);
    for (int i = 0; i < count; i++) {
        void *what = events[i].data.ptr;
        struct client *client = what;
        if (what == &daemon->config->listen_fd) {
            daemon_accept(daemon);
        } else if (what == &daemon->config->signal_fd) {
            daemon->shutdown = true;
        } else if (what == &daemon->timer) {
            tick(daemon);
        } else if (what == &daemon->faults) {
            daemon_faults_run(daemon);
        } else if (what == &daemon->telemetry) {
            telemetry_serve_run(daemon);
        } else if (what == &daemon->events || what == &daemon->snapshots) {
            lines_flush(what);
        } else if (what == &daemon->timeline) {
            timeline_serve_run(daemon);
        } else if (what == &daemon->coordinator) {
            coordinator_serve(daemon->coordinator);
        } else if (what != &daemon->exiting && !client->gone) {
            if (client->conn.out.bytes)
                daemon_client_flush(daemon, client);
            if (!client->gone && client->query && events[i].events & (EPOLLHUP | EPOLLERR))
                daemon_client_gone(daemon, client); /* the client closed its connection while its
                                                     * request waited for a query */
            if (!client->gone && !client->has_lines && events[i].events & ~(uint32_t)EPOLLOUT)
                client_serve(daemon, client);
        }
    }
    daemon_queries_settle(daemon);
    daemon_remote_settle(daemon);
    free_gone(daemon);
}

static int make_id(char *ret, size_t ret_bytes)
{
    uint64_t id;

    if (getrandom(&id, sizeof id, 0) != (ssize_t)sizeof id)
        return -EIO;
    snprintf(ret, ret_bytes, "%016" PRIx64, id);
    return 0;
}

static int daemon_open(struct daemon *daemon)
{
    const struct topo_graph *graph = daemon->graph;
    int err = 0;

    daemon->by_node = calloc(graph->nodes, sizeof *daemon->by_node);
    daemon->last_rank = calloc(graph->nodes, sizeof *daemon->last_rank);
    daemon->forgotten = calloc(graph->nodes, sizeof *daemon->forgotten);
    emu_list_init(&daemon->clients);
    emu_list_init(&daemon->exiting);
    if (!daemon->by_node || !daemon->last_rank || !daemon->forgotten)
        err = -ENOMEM;
    else if ((daemon->epoll = epoll_create1(EPOLL_CLOEXEC)) < 0)
        err = -errno;
    if (!err && (daemon->timer = daemon_timer_open(daemon, &daemon->timer)) < 0)
        err = daemon->timer;
    if (!err)
        err = make_id(daemon->fabric_id, sizeof daemon->fabric_id);
    if (!err) {
        daemon->admission.epoll = daemon->epoll;
        err = admission_open(&daemon->admission);
    }
    if (!err)
        err = daemon_watch(daemon, daemon->config->signal_fd, &daemon->config->signal_fd);
    if (!err) {
        daemon->owner = daemon_client_new(daemon, daemon->config->owner_fd, daemon->config->owner);
        err = daemon->owner ? 0 : -ENOMEM;
    }
    daemon->hop_limit = graph->longest;
    daemon_waits_open(daemon);
    return err;
}

/* @why: the reason if the fabric has failed; NULL: it was shut down. */
static void daemon_close(struct daemon *daemon, const char *why)
{
    daemon_exiting_report(daemon, true);
    if (daemon->coordinator)
        coordinator_limit_calls(daemon->coordinator, true);
    telemetry_serve_close(daemon);
    timeline_serve_close(daemon);
    daemon_calls_close(daemon);
    daemon_goal_free(daemon);
    daemon_faults_close(daemon);
    procs_thaw(&daemon->frozen); /* this also resumes processes that are no longer attached */
    daemon_waits_close(daemon);
    while (!emu_list_empty(&daemon->clients)) {
        struct client *client = emu_list_entry(daemon->clients.next, struct client, link);

        daemon_client_close(daemon, client);
        daemon_client_free(client);
    }
    daemon_capture_close(daemon);
    daemon_remote_close(daemon, why);
    lines_close(&daemon->events);
    lines_close(&daemon->snapshots);
    daemon_groups_free(daemon);
    free(daemon->audit);
    free(daemon->forgotten);
    free(daemon->last_rank);
    free(daemon->by_node);
    admission_close(&daemon->admission);
    if (daemon->timer >= 0)
        close(daemon->timer);
    if (daemon->epoll >= 0)
        close(daemon->epoll);
}

static bool is_remote_attached(const struct daemon *daemon)
{
    emu_each_listed (const struct client, client, &daemon->clients, link)
        if (client->remote && client->node >= 0 && !client->gone)
            return true;
    return false;
}

/*
 * Wait for processes on other hosts to detach. The supervisor of this host does not see those
 * processes, so it may end the fabric before their last requests have arrived. The time limit is
 * the one for processes of this host (--bound term), but at most half of --bound stop.
 */
static void await_remote(struct daemon *daemon)
{
    const struct emu_bounds bounds = emu_bounds_filled(daemon->config->fabric->bounds);
    uint64_t most_ms = bounds.term_ms < bounds.stop_ms / 2 ? bounds.term_ms : bounds.stop_ms / 2;
    int64_t until_ms = emu_now_ms() + emu_bound_int_ms(most_ms), left_ms;

    while (!daemon->owner_gone && is_remote_attached(daemon) &&
           (left_ms = until_ms - emu_now_ms()) > 0)
        serve_round(daemon, (int)left_ms);
}

/*
 * Begin a part of the shutdown. @limits: all its calls together wait for each host for a limited
 * time. The supervisor restarts its own time limit.
 */
static void begin_part(struct daemon *daemon, bool limits)
{
    if (!daemon->coordinator)
        return;
    coordinator_limit_calls(daemon->coordinator, limits);
    daemon_notify_owner(daemon, conn_event("ending"));
}

/* Announce the shutdown to all processes, and send the final report to the supervisor. */
static void announce_end(struct daemon *daemon)
{
    struct json_object *ended = conn_event("ended"), *report;

    emu_each_listed (struct client, client, &daemon->clients, link)
        if (client->node >= 0)
            daemon_send(daemon, client, conn_event("shutdown"));
    daemon_queries_end(daemon);
    daemon->ending = true;
    begin_part(daemon, true);
    await_remote(daemon);
    daemon_exiting_report(daemon, true);
    daemon_calls_write(daemon);
    begin_part(daemon, true);
    report = daemon_report(daemon);
    begin_part(daemon, false);
    json_object_object_add(report, "check", audit_json(daemon->fabric, false));
    json_object_object_add(ended, "report", report);
    daemon_notify_owner(daemon, ended);
    if (daemon->owner)
        conn_drain(&daemon->owner->conn, LAST_FLUSH_MS);
}

/*
 * Truncate the output files. Call this after all checks that can refuse the run, so that a refused
 * run keeps the old files.
 */
static int files_begin(const struct daemon_config *config, char *error, size_t error_bytes)
{
    int err = output_begin(config->events_fd);

    if (!err)
        err = output_begin(config->record_fd);
    return err ? fail(err, error, error_bytes, "cannot write events or snapshots: %s",
                      strerror(-err))
               : 0;
}

/*
 * Write the origin (version, command line, settings) to the file of events. In the file of
 * snapshots, the origin is part of the first record, which describes the network.
 */
static void events_begin(struct daemon *daemon)
{
    struct json_object *event = conn_event("origin");
    const char *line;

    json_object_object_add(event, "origin", origin_json(daemon->config->fabric));
    line = json_object_to_json_string_ext(event,
                                          JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
    lines_put(&daemon->events, line, strlen(line));
    json_object_put(event);
}

/* Return the reason to send to the other hosts if the fabric has failed; NULL: it was shut down. */
static const char *failure_reason(const struct daemon *daemon, int err, const char *error)
{
    if (err)
        return *error ? error : strerror(-err);
    return daemon->owner_gone ? "the process that started it was killed" : NULL;
}

int daemon_serve(struct fabric *fabric, const struct daemon_config *config, char *error,
                 size_t error_bytes)
{
    struct daemon daemon = {.fabric = fabric,
                            .config = config,
                            .graph = config->fabric->graph,
                            .epoll = -1,
                            .timer = -1,
                            .admission = {.listen_fd = &config->listen_fd,
                                          .nodes = config->fabric->graph->nodes,
                                          .spare = -1,
                                          .connections_of = daemon_connections_of,
                                          .ctx = &daemon}};
    int err = daemon_open(&daemon);

    lines_open(&daemon.events, config->events_fd, daemon.epoll, "events");
    lines_open(&daemon.snapshots, config->record_fd, daemon.epoll, "snapshots");
    if (!err && config->hosts)
        err = daemon_remote_open(&daemon, error, error_bytes);
    if (!err)
        err = daemon_capture_open(&daemon, error, error_bytes);
    if (!err)
        err = files_begin(config, error, error_bytes);
    if (!err)
        events_begin(&daemon);
    if (!err)
        err = daemon_faults_open(&daemon, error, error_bytes);
    if (!err && daemon.snapshots.fd >= 0)
        err = telemetry_serve_record(&daemon);
    if (!err && config->timeline)
        err = timeline_serve_open(&daemon, config->timeline, error, error_bytes);
    if (!err) {
        daemon_send(&daemon, daemon.owner,
                    json_add_number(conn_event("ready"), "pid", (uint64_t)getpid()));
        while (!daemon.shutdown && !daemon.owner_gone)
            serve_round(&daemon, -1);
        if (!daemon.owner_gone)
            announce_end(&daemon);
    } else if (daemon.owner && *error) {
        daemon_send(&daemon, daemon.owner, conn_failed(err, error));
        if (daemon.owner)
            conn_drain(&daemon.owner->conn, LAST_FLUSH_MS);
    }
    if (err && daemon.owner)
        /* the caller keeps this connection, and reports the error over it */
        daemon.owner->conn.fd = -1;
    daemon_close(&daemon, failure_reason(&daemon, err, error));
    if (err)
        return err;
    if (daemon.owner_gone)
        return DAEMON_OWNER_GONE;
    return daemon.unwritten || daemon.events.failed || daemon.snapshots.failed ? DAEMON_UNWRITTEN
                                                                               : DAEMON_SHUTDOWN;
}
