/* SPDX-License-Identifier: BSD-3-Clause */
/* live.c - a control socket for a run in simulated time. Times in ms are real time. */
#include "apps/traffic/live.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apps/base/message.h"
#include "apps/control/conn.h"
#include "apps/control/paths.h"
#include "apps/telemetry/telemetry.h"
#include "apps/telemetry/filter.h"
#include "emu/util/list.h"
#include "emu/util/now.h"

#define CLIENTS_MOST 64u
#define PACES_MOST   64u /* maximum number of pace requests that have not expired */
/* longest wait for clients before the driver checks whether the run must end */
#define WAIT_MS       100
#define SEND_MS       40    /* least time between two snapshots to a client at full speed */
#define FIRST_FOR_MS  3000  /* length of the slow phase that begins with the first subscription */
#define FIRST_MS      100   /* time between snapshots in that phase, if no client sets the pace */
#define EVERY_MOST_MS 60000 /* limits of a pace request */
#define FOR_MOST_MS   120000
#define DRAIN_MS      500 /* at the end: time limit for sending pending data */

struct live_client {
    struct emu_list all;
    struct conn conn;
    bool subscribed;
    struct telemetry_filter filter;
    struct telemetry_format format; /* `filter`, applied to the network of this run */
    bool gone;
    uint64_t seen;    /* number of the last snapshot sent to this client; 0: none */
    uint64_t skipped; /* later snapshots that were not sent to this client */
    int64_t sent_ms;
};

/* A client's request for the pace of simulated time. */
struct live_pace {
    int64_t who;      /* the number that the client has chosen for itself */
    bool hold;        /* pause simulated time */
    int64_t every_ms; /* time between snapshots; 0: full speed */
    int64_t until_ms; /* when the request expires */
};

struct traffic_live {
    const struct fabric_config *config;
    struct paths_socket socket;
    int listen_fd;
    struct emu_list clients;
    uint32_t client_count;
    struct telemetry *telemetry; /* sampler of the current run; NULL: no run */
    uint32_t threads;
    uint64_t every_ns;
    struct text_buf line;
    bool shutdown;    /* a client has requested the end of the run */
    bool unwatched;   /* no client has subscribed yet, so simulated time pauses */
    int64_t first_ms; /* until then, run slowly if there is no pace request */
    struct live_pace paces[PACES_MOST];
    bool hold;        /* at least one pace request pauses simulated time */
    int64_t every_ms; /* time between snapshots that the slowest pace request asks for */
    int64_t next_ms;  /* earliest time of the next snapshot */
};

/* --- subscribers -------------------------------------------------------------------- */

static void client_send(struct live_client *client)
{
    int err = conn_flush(&client->conn);

    client->gone |= err && err != -EAGAIN;
}

static void client_put(struct live_client *client, struct json_object *message)
{
    client->gone |= conn_put(&client->conn, message) != 0;
    client_send(client);
}

static void client_line(struct traffic_live *live, struct live_client *client)
{
    client->gone |= live->line.failed ||
                    conn_put_line(&client->conn, live->line.at, live->line.bytes);
    client_send(client);
}

static void client_unsubscribe(struct live_client *client)
{
    telemetry_format_free(&client->format);
    client->subscribed = false;
}

/*
 * Use @filter for the snapshots to @client. On an error nothing changes, and *@why is its reason.
 */
static int client_filter(struct traffic_live *live, struct live_client *client,
                         const struct telemetry_filter *filter, const char **why)
{
    struct telemetry_format format;
    int err = telemetry_filter_apply(filter, live->telemetry, &format, why);

    if (err)
        return err;
    client_unsubscribe(client);
    client->format = format;
    return 0;
}

static void client_shape(struct traffic_live *live, struct live_client *client)
{
    client->subscribed = true;
    client->seen = client->skipped = 0;
    telemetry_format_shape(&client->format, live->telemetry, live->every_ns, &live->line);
    client_line(live, client);
}

static void client_snapshot(struct traffic_live *live, struct live_client *client)
{
    telemetry_format_line(&client->format, live->telemetry, client->seen, client->skipped,
                          &live->line);
    client->seen = telemetry_samples(live->telemetry);
    client->skipped = 0;
    client->sent_ms = emu_now_ms();
    client_line(live, client);
}

/*
 * Send the latest snapshot to each subscriber to which the previous one was sent completely. At
 * full speed the previous one must also be SEND_MS old.
 */
static void snapshots_send(struct traffic_live *live)
{
    emu_each_listed (struct live_client, client, &live->clients, all) {
        bool soon = !live->every_ms && emu_now_ms() - client->sent_ms < SEND_MS;

        if (!client->subscribed)
            continue;
        if (client->conn.out.bytes || soon)
            client->skipped++;
        else
            client_snapshot(live, client);
    }
}

/* --- requests ----------------------------------------------------------------------- */

/* Return the entry of @who's pace request, or a free entry; NULL: all are in use. */
static struct live_pace *pace_of(struct traffic_live *live, int64_t who, int64_t now_ms)
{
    struct live_pace *free_one = NULL;

    for (uint32_t i = 0; i < PACES_MOST; i++) {
        struct live_pace *pace = &live->paces[i];

        if (pace->until_ms > now_ms && pace->who == who)
            return pace;
        if (pace->until_ms <= now_ms)
            free_one = pace;
    }
    return free_one;
}

/* Set the pace to that of the slowest request that has not expired. */
static void pace_update(struct traffic_live *live, int64_t now_ms)
{
    bool any = false;

    live->hold = false;
    live->every_ms = 0;
    for (uint32_t i = 0; i < PACES_MOST; i++) {
        const struct live_pace *pace = &live->paces[i];

        if (pace->until_ms <= now_ms)
            continue;
        any = true;
        live->hold |= pace->hold;
        live->every_ms = pace->every_ms > live->every_ms ? pace->every_ms : live->every_ms;
    }
    if (!any && now_ms < live->first_ms)
        live->every_ms = FIRST_MS;
    if (live->next_ms > now_ms + live->every_ms)
        live->next_ms = now_ms + live->every_ms;
}

static struct json_object *answer_pace(struct traffic_live *live, struct json_object *request)
{
    int64_t every_ms = emu_json_number(request, "every_ms", 0);
    int64_t for_ms = emu_json_number(request, "for_ms", -1), now_ms = emu_now_ms();
    int64_t who = emu_json_number(request, "who", 0);
    struct live_pace *pace = pace_of(live, who, now_ms);

    if (every_ms < 0 || every_ms > EVERY_MOST_MS || for_ms < 0 || for_ms > FOR_MOST_MS)
        return conn_error(-EINVAL, "\"every_ms\" must be 0 to 60000, \"for_ms\" 0 to 120000");
    if (!pace)
        return conn_error(-ENOSPC, "too many clients set the pace of simulated time");
    *pace = (struct live_pace){who, emu_json_true(request, "hold"), every_ms, now_ms + for_ms};
    return conn_ok();
}

/* Return the reply that `fabemu status` expects. */
static struct json_object *answer_status(const struct traffic_live *live)
{
    const struct fabric_config *config = live->config;
    struct json_object *reply = json_add_text(conn_ok(), "name", config->name);
    struct json_object *report =
        json_add_text(json_object_new_object(), "topo", config->graph->spec);
    struct json_object *clock = json_add_text(json_object_new_object(), "mode", "virtual");

    json_add_number(report, "nodes", config->graph->nodes);
    json_add_number(report, "threads", live->threads);
    json_add_text(report, "profile", config->profile.name);
    json_object_object_add(report, "clock", clock);
    json_object_object_add(reply, "attached", json_object_new_array());
    json_object_object_add(reply, "report", report);
    return json_add_number(reply, "supervisor", (uint64_t)getpid());
}

static void subscribe(struct traffic_live *live, struct live_client *client,
                      struct json_object *request)
{
    struct telemetry_filter filter;
    const char *why;
    int err = telemetry_filter_read(&filter, request, &why);

    if (!err && live->telemetry)
        err = client_filter(live, client, &filter, &why);
    if (err) {
        telemetry_filter_free(&filter);
        client_put(client, conn_error(err, why));
        return;
    }
    telemetry_filter_free(&client->filter);
    client->filter = filter;
    client->subscribed = true;
    client_put(client, conn_ok());
    if (live->unwatched)
        live->first_ms = emu_now_ms() + FIRST_FOR_MS;
    live->unwatched = false;
    if (!live->telemetry)
        return; /* client_begin() sends the shape when a run begins */
    client_shape(live, client);
    if (telemetry_samples(live->telemetry))
        client_snapshot(live, client);
}

static void answer(struct traffic_live *live, struct live_client *client,
                   struct json_object *request)
{
    const char *cmd = emu_json_text(request, "cmd", "");
    struct json_object *reply;

    if (strcmp(cmd, "subscribe") == 0) {
        subscribe(live, client, request);
        return;
    }
    if (strcmp(cmd, "pace") == 0) {
        reply = answer_pace(live, request);
    } else if (strcmp(cmd, "status") == 0) {
        reply = answer_status(live);
    } else if (strcmp(cmd, "shutdown") == 0) {
        live->shutdown = true;
        reply = conn_ok();
    } else {
        reply = conn_error(-ENOTSUP, "a run in simulated time answers subscribe, pace, status and "
                                     "shutdown");
    }
    client_put(client, reply);
}

static void client_step(struct traffic_live *live, struct live_client *client)
{
    struct json_object *request;
    int end = conn_fill(&client->conn), got;

    while ((got = conn_next(&client->conn, &request)) == 1) {
        answer(live, client, request);
        json_object_put(request);
    }
    client->gone |= end || got < 0;
}

/* --- connections -------------------------------------------------------------------- */

/* Accept a connection. Returns false if none is waiting. */
static bool client_open(struct traffic_live *live)
{
    int fd = accept4(live->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct ucred who = {.uid = (uid_t)-1};
    socklen_t bytes = sizeof who;
    struct live_client *client;

    if (fd < 0)
        return false;
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes);
    client = who.uid == geteuid() && live->client_count < CLIENTS_MOST ? calloc(1, sizeof *client)
                                                                       : NULL;
    if (!client) {
        close(fd);
        return true;
    }
    conn_open(&client->conn, fd, CONN_LINE_MAX);
    client->conn.containers_max = CONN_CONTAINERS_MAX;
    emu_list_add(&live->clients, &client->all);
    live->client_count++;
    client_step(live, client); /* most clients have already sent a request */
    return true;
}

static void client_close(struct traffic_live *live, struct live_client *client)
{
    emu_list_del(&client->all);
    live->client_count--;
    client_unsubscribe(client);
    telemetry_filter_free(&client->filter);
    conn_close(&client->conn);
    free(client);
}

static void clients_sweep(struct traffic_live *live)
{
    struct emu_list *at = live->clients.next, *next;

    for (; at != &live->clients; at = next) {
        struct live_client *client = emu_list_entry(at, struct live_client, all);

        next = at->next;
        if (client->gone)
            client_close(live, client);
    }
}

static nfds_t poll_clients(struct traffic_live *live, struct pollfd *fds)
{
    nfds_t count = 0;

    emu_each_listed (struct live_client, client, &live->clients, all) {
        short out = client->conn.out.bytes ? POLLOUT : 0;

        fds[count++] = (struct pollfd){client->conn.fd, (short)(POLLIN | out), 0};
    }
    return count;
}

/* Serve all clients with input, waiting at most @timeout_ms for any. */
static void serve(struct traffic_live *live, int64_t timeout_ms)
{
    struct pollfd fds[1 + CLIENTS_MOST] = {{live->listen_fd, POLLIN, 0}};
    nfds_t count = 1 + poll_clients(live, fds + 1), at = 1;

    if (poll(fds, count, (int)timeout_ms) <= 0)
        return;
    emu_each_listed (struct live_client, client, &live->clients, all) {
        short came = fds[at++].revents;

        if (came & POLLOUT)
            client_send(client);
        if (came & ~POLLOUT)
            client_step(live, client);
    }
    clients_sweep(live);
    for (uint32_t i = 0; fds[0].revents && i < CLIENTS_MOST && client_open(live); i++)
        ;
}

/* --- callbacks of the run ----------------------------------------------------------- */

/*
 * Apply the client's filter to a new run. On an error, end the subscription. For example, the
 * filter may open a block that the run's network does not have.
 */
static void client_begin(struct traffic_live *live, struct live_client *client)
{
    const char *why;
    int err = client_filter(live, client, &client->filter, &why);

    if (!err) {
        client_shape(live, client);
        return;
    }
    client_unsubscribe(client);
    client_put(client, conn_error(err, why));
}

/*
 * A run begins or, if @telemetry is NULL, ends. At the end each subscriber gets the last snapshot.
 */
static void on_run(void *ctx, const struct fabric *fabric, struct telemetry *telemetry,
                   uint64_t every_ns)
{
    struct traffic_live *live = ctx;

    emu_each_listed (struct live_client, client, &live->clients, all)
        if (client->subscribed && live->telemetry &&
            client->seen < telemetry_samples(live->telemetry))
            client_snapshot(live, client);
    live->threads = fabric ? fabric_threads(fabric) : 0;
    live->telemetry = telemetry;
    live->every_ns = every_ns;
    emu_each_listed (struct live_client, client, &live->clients, all)
        if (client->subscribed && telemetry)
            client_begin(live, client);
}

/*
 * Send the snapshot, if one was @taken, and serve the clients. Returns whether simulated time must
 * pause; if so, this function has waited for clients, for at most WAIT_MS.
 */
static bool on_view(void *ctx, bool taken)
{
    struct traffic_live *live = ctx;
    int64_t now_ms, left_ms;

    if (taken) {
        snapshots_send(live);
        now_ms = emu_now_ms();
        live->next_ms += live->every_ms;
        live->next_ms = live->next_ms > now_ms ? live->next_ms : now_ms;
    }
    serve(live, 0);
    now_ms = emu_now_ms();
    pace_update(live, now_ms);
    left_ms = live->unwatched || live->hold ? WAIT_MS : live->next_ms - now_ms;
    if (left_ms <= 0)
        return false;
    serve(live, left_ms < WAIT_MS ? left_ms : WAIT_MS);
    return true;
}

static bool on_end(const void *ctx)
{
    return ((const struct traffic_live *)ctx)->shutdown;
}

struct traffic_viewer traffic_live_viewer(struct traffic_live *live)
{
    return (struct traffic_viewer){.run = on_run, .view = on_view, .ends = on_end, .ctx = live};
}

int traffic_live_open(struct traffic_live **ret, const struct fabric_config *config, char *error,
                      size_t error_bytes)
{
    struct traffic_live *live = calloc(1, sizeof *live);
    int err;

    if (!live)
        return fail(-ENOMEM, error, error_bytes, "out of memory");
    live->config = config;
    live->unwatched = true;
    emu_list_init(&live->clients);
    err = paths_listen(&live->socket, &live->listen_fd, config->name, error, error_bytes);
    if (err) {
        free(live);
        return err;
    }
    *ret = live;
    return 0;
}

void traffic_live_close(struct traffic_live *live)
{
    int64_t end_ms = emu_now_ms() + DRAIN_MS, left_ms;

    if (!live)
        return;
    emu_each_listed (struct live_client, client, &live->clients, all) {
        left_ms = end_ms - emu_now_ms();
        conn_drain(&client->conn, left_ms > 0 ? (int)left_ms : 0);
        client->gone = true;
    }
    clients_sweep(live);
    close(live->listen_fd);
    paths_unlink(&live->socket);
    text_buf_free(&live->line);
    free(live);
}
