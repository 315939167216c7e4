/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clients.c - processes of other hosts as clients of the coordinator's daemon.
 *
 * Each remote process has a pair of connected sockets here. The daemon reads and writes one of them
 * like any other connection. This file copies lines between the other socket and the control
 * channel of the process's host. Therefore back-pressure, limits and the end of a connection need
 * no special case in the daemon.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apps/cluster/coordinator/internal.h"
#include "emu/util/list.h"

void coordinator_process_free(struct coordinator_process *process)
{
    emu_list_del(&process->link);
    conn_close(&process->conn);
    free(process);
}

void coordinator_process_end(struct coordinator_process *process)
{
    process->ended = true;
    conn_close(&process->conn);
}

static struct json_object *to_client(const struct coordinator_process *process)
{
    struct json_object *ret = json_object_new_object();

    json_object_object_add(ret, "client", json_object_new_int64(process->client));
    return ret;
}

static struct coordinator_process *process_of(struct coordinator_agent *agent, int64_t client)
{
    emu_each_listed (struct coordinator_process, process, &agent->processes, link)
        if (process->client == client)
            return process;
    return NULL;
}

/* Reply to a process with an error, as the daemon does, and close the process's connection. */
static void process_refuse(struct coordinator_agent *agent, int64_t client, int err,
                           const char *why)
{
    const struct coordinator_process process = {.client = client};
    struct json_object *message = to_client(&process);

    json_object_object_add(message, "line", conn_error(err, why));
    coordinator_send(agent, message);
    coordinator_send(agent, json_add_number(to_client(&process), "end", 1));
}

static const char no_room[] = "the coordinator has no file descriptors or no "
                              "memory left; start it with a higher limit (ulimit -n)";

static void process_new(struct coordinator_agent *agent, int64_t client,
                        struct json_object *message)
{
    struct coordinator *coord = agent->coord;
    struct coordinator_process *process = calloc(1, sizeof *process);
    const char *why = no_room;
    int pair[2], err;

    if (!process || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        free(process);
        process_refuse(agent, client, -EMFILE, why);
        return;
    }
    process->host = agent;
    process->info.host = agent->number;
    process->client = client;
    process->info.pid = (pid_t)emu_json_number(message, "new", 0);
    snprintf(process->info.command, sizeof process->info.command, "%s",
             emu_json_text(message, "command", "?"));
    emu_printable(process->info.command);
    conn_open(&process->conn, pair[1], HOSTS_PIECE_BYTES);
    emu_list_add(&agent->processes, &process->link);
    hosts_listen(coord->epoll, &process->conn, &process->events, process);
    err = coord->config.ops.connected(coord->config.ops.ctx, pair[0], process, &why);
    if (!err)
        return;
    close(pair[0]);
    coordinator_process_free(process);
    process_refuse(agent, client, err, why);
}

/*
 * Return whether the control channel has space, and the limit of unacknowledged text is not
 * reached.
 */
static bool has_space(const struct coordinator_process *process)
{
    return !hosts_is_full(&process->host->conn) && process->unacked < HOSTS_UNACKED_MOST;
}

static void process_listen(struct coordinator_process *process)
{
    hosts_listen_for(process->host->coord->epoll, &process->conn,
                     !process->at_end && has_space(process), &process->events, process);
}

/*
 * Forward a line from a process to the daemon. If conn_put() fails, the process's host has sent
 * more requests than HOSTS_ASKED_MOST allows.
 */
static void process_line(struct coordinator_process *process, struct json_object *line)
{
    int err;

    if (process->ended || process->at_end || !json_object_is_type(line, json_type_object))
        return;
    err = conn_put(&process->conn, json_object_get(line));
    if (err) {
        process_refuse(process->host, process->client, err,
                       "this process has sent too many requests at a time");
        if (!process->ended)
            coordinator_process_end(process);
        return;
    }
    conn_flush(&process->conn); /* the next read reports an error */
    process_listen(process);
}

static bool is_snapshot(const char *text, size_t bytes)
{
    static const char begin[] = "{\"event\":\"telemetry"; /* also matches "telemetry_shape" */

    return bytes >= strlen(begin) && memcmp(text, begin, strlen(begin)) == 0;
}

/*
 * If the daemon's next output to the process is a snapshot or a long line, which is sent as text,
 * send the next piece of it. Returns false if there is no such output.
 */
static bool piece_forward(struct coordinator_process *process)
{
    struct json_object *message;
    const char *text;
    bool ends;
    size_t bytes = emu_json_peek_line(&process->conn.in, HOSTS_PIECE_BYTES, &text, &ends);

    if (!ends && bytes < HOSTS_PIECE_BYTES)
        return false;
    if (ends && !process->in_line && !is_snapshot(text, bytes))
        return false;
    message = to_client(process);
    json_object_object_add(message, "text", json_object_new_string_len(text, (int)bytes));
    if (!ends)
        json_add_number(message, "more", 1);
    emu_json_drop(&process->conn.in, bytes, ends);
    process->in_line = !ends;
    process->unacked += bytes;
    coordinator_send(process->host, message);
    return true;
}

/*
 * Send the next piece or line of output to the process. Returns 1 on success, 0 if there is no
 * output, or -EBADMSG.
 */
static int process_send(struct coordinator_process *process)
{
    struct json_object *message, *line;
    int got;

    if (piece_forward(process))
        return 1;
    got = conn_next(&process->conn, &line);
    if (got != 1)
        return got;
    message = to_client(process);
    json_object_object_add(message, "line", line);
    coordinator_send(process->host, message);
    return 1;
}

/* Send the daemon's output to the process's host as long as there is space. */
static void process_forward(struct coordinator_process *process)
{
    struct coordinator_agent *agent = process->host;
    int got = 1;

    while (!process->ended && has_space(process) && (got = process_send(process)) == 1)
        ;
    if (process->ended)
        return;
    if (hosts_is_full(&agent->conn)) {
        agent->blocked = true;
    } else if (got < 0 || (got == 0 && process->at_end)) {
        coordinator_send(agent, json_add_number(to_client(process), "end", 1));
        if (!process->ended)
            coordinator_process_end(process);
        return;
    }
    process_listen(process);
}

static void process_serve(struct coordinator_process *process)
{
    int err = conn_flush(&process->conn);

    if (err && err != -EAGAIN)
        emu_json_free(&process->conn.out); /* the daemon does not read any more */
    if (!process->at_end && has_space(process))
        process->at_end = conn_fill(&process->conn) != 0;
    process_forward(process);
}

/*
 * Handle the host's acknowledgment of @bytes of text. If it is for more bytes than were sent,
 * ignore the excess.
 */
static void process_acknowledged(struct coordinator_process *process, int64_t bytes)
{
    size_t most = process->unacked;

    if (process->ended)
        return;
    process->unacked -= bytes < 0 ? 0 : (uint64_t)bytes < most ? (size_t)bytes : most;
    process_forward(process);
}

static size_t process_unsent(const struct coordinator_process *process)
{
    int unread = 0;

    if (process->ended || ioctl(process->conn.fd, FIONREAD, &unread) < 0)
        return 0;
    return process->conn.in.bytes + (size_t)unread;
}

size_t coordinator_forward(struct coordinator *coord)
{
    size_t waits = 0;

    coordinator_serve(coord);
    for (uint32_t h = 1; h < coord->config.count; h++)
        emu_each_listed (const struct coordinator_process, process, &coord->agent[h].processes,
                         link)
            waits += process_unsent(process);
    return waits;
}

void coordinator_message_of_client(struct coordinator_agent *agent, int64_t client,
                                   struct json_object *message)
{
    struct coordinator_process *process = process_of(agent, client);
    struct json_object *field;

    if (json_object_object_get_ex(message, "new", NULL)) {
        if (!process)
            process_new(agent, client, message);
        return;
    }
    if (!process)
        return;
    if (json_object_object_get_ex(message, "line", &field))
        process_line(process, field);
    if (json_object_object_get_ex(message, "taken", NULL))
        process_acknowledged(process, emu_json_number(message, "taken", 0));
    if (json_object_object_get_ex(message, "how", NULL))
        hosts_text(process->info.how, sizeof process->info.how, message, "how");
    process->info.stopped = emu_json_number(message, "stopped", process->info.stopped) != 0;
    if (json_object_object_get_ex(message, "end", NULL) && !process->ended)
        coordinator_process_end(process);
}

const struct coordinator_process_info *coordinator_process_info(
    const struct coordinator_process *process)
{
    return &process->info;
}

void coordinator_process_forget(struct coordinator_process *process)
{
    process->forgotten = true;
}

bool coordinator_process_signal(struct coordinator_process *process, int signal)
{
    struct json_object *with = to_client(process);

    if (process->ended) {
        json_object_put(with);
        return false;
    }
    json_add_number(with, "signal", (uint64_t)signal);
    return coordinator_call(process->host->coord, process->host->number, "signal", with, NULL,
                            NULL) == 0;
}

/*
 * Free each remote process that has ended, if the daemon has freed its client. Do not call this
 * while a message is being handled.
 */
static void agent_sweep(struct coordinator_agent *agent)
{
    for (struct emu_list *at = agent->processes.next, *next; at != &agent->processes; at = next) {
        struct coordinator_process *process = emu_list_entry(at, struct coordinator_process, link);

        next = at->next;
        if (process->ended && process->forgotten)
            coordinator_process_free(process);
    }
}

void coordinator_processes_serve(struct coordinator_agent *agent, const struct epoll_event *events,
                                 int count)
{
    bool go_on = agent->blocked && !hosts_is_full(&agent->conn);

    agent->blocked = agent->blocked && !go_on;
    emu_each_listed (struct coordinator_process, process, &agent->processes, link)
        if (!process->ended && coordinator_is_among(process, events, count))
            process_serve(process);
        else if (!process->ended && go_on)
            process_forward(process);
    agent_sweep(agent);
}
