/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client.c - connections to the daemon: admission, sending, and events for subscribers and files.
 *
 * If a client's socket cannot accept all bytes, the rest waits in a buffer of the client. The
 * *excess* of a buffer is the number of its bytes beyond EMU_JSON_KEEP. If the excesses of all
 * clients add up to more than CONN_EXCESS_MAX, the daemon disconnects the clients with the largest
 * excess.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "apps/daemon/client.h"

/* --- admission ------------------------------------------------------------------------ */

struct client *daemon_client_new(struct daemon *daemon, int fd, pid_t pid)
{
    struct client *client = calloc(1, sizeof *client);

    if (!client)
        return NULL;
    client->pid = pid;
    client->node = client->died = client->rank = client->pidfd = -1;
    client->events = EPOLLIN;
    if (daemon_watch(daemon, fd, client)) {
        free(client);
        return NULL;
    }
    conn_open(&client->conn, fd, CONN_LINE_MAX);
    client->conn.containers_max = CONN_CONTAINERS_MAX;
    emu_list_push(&daemon->clients, &client->link);
    daemon->admission.connections++;
    return client;
}

uint32_t daemon_client_host(const struct client *client)
{
    return client->remote ? coordinator_process_info(client->remote)->host : 0;
}

void daemon_client_command(const struct client *client, char *ret, size_t ret_bytes)
{
    if (client->remote)
        snprintf(ret, ret_bytes, "%s", coordinator_process_info(client->remote)->command);
    else
        procs_name(client->pid, ret, ret_bytes);
}

/* A process number identifies a process only within its host. */
uint32_t daemon_connections_of(void *ctx, uint32_t host, pid_t pid)
{
    const struct daemon *daemon = ctx;
    uint32_t held = 0;

    emu_each_listed (const struct client, client, &daemon->clients, link)
        held += client->pid == pid && daemon_client_host(client) == host;
    return held;
}

void daemon_accept(struct daemon *daemon)
{
    struct client *client;
    struct ucred cred;
    int fd = admission_accept(&daemon->admission, &cred);

    if (fd < 0) {
        daemon_tick_when(daemon); /* if admission is paused, start the timer, which resumes it */
        return;
    }
    client = daemon_client_new(daemon, fd, cred.pid);
    if (!client) {
        admission_reject(fd, -ENOMEM, ADMISSION_NO_MEMORY);
    } else if (cred.uid != geteuid()) {
        daemon_reply_error(daemon, client, -EACCES, ADMISSION_NOT_YOURS);
        client->closing = true; /* the client is disconnected when it sends its first request */
    }
}

/* --- the end of a connection ---------------------------------------------------------- */

void daemon_client_gone(struct daemon *daemon, struct client *client)
{
    client->gone = true;
    if (client == daemon->owner) {
        daemon->owner = NULL;
        daemon->owner_gone = true;
    }
}

static void count_excess(struct daemon *daemon, struct client *client, size_t excess)
{
    daemon->excess += excess - client->excess;
    client->excess = excess;
}

void daemon_client_close(struct daemon *daemon, struct client *client)
{
    emu_list_del(&client->link);
    daemon_capture_left(daemon, client);
    telemetry_serve_left(client);
    conn_close(&client->conn); /* closing removes it from the epoll, too */
    daemon_queues_forget(client);
    free(client->sample);
    client->sample = NULL;
    count_excess(daemon, client, 0);
    daemon->admission.connections--;
}

void daemon_client_free(struct client *client)
{
    if (client->remote)
        coordinator_process_forget(client->remote);
    json_object_put(client->asked);
    free(client);
}

/* --- sending --------------------------------------------------------------------------- */

void daemon_client_events(struct daemon *daemon, struct client *client)
{
    struct epoll_event event = {.data.ptr = client};

    event.events = client->conn.out.bytes            ? EPOLLOUT
                   : client->at_end || client->query ? 0u
                                                     : EPOLLIN;
    if (event.events == client->events)
        return;
    client->events = event.events;
    epoll_ctl(daemon->epoll, EPOLL_CTL_MOD, client->conn.fd, &event);
}

/*
 * Return the client with the largest excess; if several are equal, the oldest of them. NULL: no
 * client has an excess. Never return the supervisor, because it reads its messages.
 */
static struct client *largest_client(const struct daemon *daemon)
{
    struct client *largest = NULL;

    emu_each_listed (struct client, client, &daemon->clients, link)
        if (client != daemon->owner && !client->gone && client->excess &&
            (!largest || client->excess >= largest->excess))
            largest = client;
    return largest;
}

void daemon_client_count(struct daemon *daemon, struct client *client)
{
    struct client *largest;

    count_excess(daemon, client, conn_excess(&client->conn));
    while (daemon->excess > CONN_EXCESS_MAX && (largest = largest_client(daemon))) {
        largest->unread = true;
        count_excess(daemon, largest, 0); /* it is closed after this round of the event loop */
        daemon_client_gone(daemon, largest);
    }
}

void daemon_client_flush(struct daemon *daemon, struct client *client)
{
    int err = conn_flush(&client->conn);

    daemon_client_count(daemon, client);
    if (client->gone)
        return;
    if (err ? err != -EAGAIN : client->closing)
        daemon_client_gone(daemon, client);
    else
        daemon_client_events(daemon, client);
    daemon->busy = daemon->busy || (client->has_lines && !err);
}

/*
 * Send the queued bytes. @err: 0, or the error that occurred when they were queued. An error means
 * that the client does not read its messages, so disconnect it.
 */
static void send_queued(struct daemon *daemon, struct client *client, int err)
{
    if (!err) {
        daemon_client_flush(daemon, client);
        return;
    }
    client->unread = true;
    daemon_client_gone(daemon, client);
}

void daemon_send(struct daemon *daemon, struct client *client, struct json_object *message)
{
    if (client->gone)
        json_object_put(message);
    else
        send_queued(daemon, client, conn_put(&client->conn, message));
}

void daemon_send_line(struct daemon *daemon, struct client *client, const char *line, size_t bytes)
{
    if (!client->gone)
        send_queued(daemon, client, conn_put_line(&client->conn, line, bytes));
}

void daemon_send_with(struct daemon *daemon, struct client *client, struct json_object *message,
                      const int pass[EMU_JSON_FDS])
{
    send_queued(daemon, client, conn_put_with(&client->conn, message, pass));
}

void daemon_reply_error(struct daemon *daemon, struct client *client, int err, const char *format,
                        ...)
{
    char line[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    daemon_send(daemon, client, conn_error(err, line));
}

bool daemon_signal(const struct client *client, int signal)
{
    return client->remote ? coordinator_process_signal(client->remote, signal)
                          : kill(client->pid, signal) == 0;
}

bool daemon_freeze(struct daemon *daemon, struct client *client, bool stop)
{
    /* agent_process_signal() adds a process of another host to the frozen processes of that host */
    int listed = stop && !client->remote ? procs_freeze(&daemon->frozen, client->pid) : 0;
    bool is_done;

    if (listed > 0)
        daemon_notify_owner(daemon, conn_frozen(client->pid));
    is_done = listed >= 0 && daemon_signal(client, stop ? SIGSTOP : SIGCONT);
    if (is_done)
        client->frozen = stop;
    return is_done;
}

/* --- events ---------------------------------------------------------------------------- */

void daemon_subscribe(struct daemon *daemon, struct client *client, struct json_object *request)
{
    if (!json_object_object_get_ex(request, "telemetry", NULL))
        daemon_send(daemon, client, conn_ok());
    else if (!telemetry_serve_subscribe(daemon, client, request))
        return;
    client->subscribed = true;
}

static void write_event(struct daemon *daemon, struct json_object *event)
{
    size_t bytes;
    const char *text =
        json_object_to_json_string_length(event,
                                          JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE,
                                          &bytes);

    if (!text)
        return;
    lines_put(&daemon->events, text, bytes);
    lines_put(&daemon->snapshots, text, bytes);
}

static bool has_file(const struct daemon *daemon)
{
    return daemon->events.fd >= 0 || daemon->snapshots.fd >= 0;
}

void daemon_notify_owner(struct daemon *daemon, struct json_object *event)
{
    if (daemon->owner)
        daemon_send(daemon, daemon->owner, event);
    else
        json_object_put(event);
}

void daemon_publish(struct daemon *daemon, struct json_object *event)
{
    daemon_publish_from(daemon, 0, event);
}

void daemon_publish_from(struct daemon *daemon, uint32_t host, struct json_object *event)
{
    if (has_file(daemon))
        write_event(daemon, event);
    timeline_serve_event(daemon, host, event);
    emu_each_listed (struct client, client, &daemon->clients, link)
        if (client->subscribed && !client->gone)
            daemon_send(daemon, client, json_object_get(event));
    json_object_put(event);
}

struct json_object *daemon_event(const struct daemon *daemon, const char *what, uint64_t at_ps)
{
    struct json_object *event = conn_event(what);
    double s = (double)(at_ps - daemon->began_ps) * 1e-12;

    json_object_object_add(event, "s", json_object_new_double(s));
    return event;
}

bool daemon_has_subscribers(const struct daemon *daemon)
{
    emu_each_listed (struct client, client, &daemon->clients, link)
        if (client->subscribed && !client->gone)
            return true;
    return has_file(daemon) || daemon->timeline;
}
