/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * daemon.c - serves a running fabric's control socket: the loop.
 *
 * One thread, the fabric's manager, in epoll. No client can hold it up: reads
 * take what is there, some lines of it are answered in turn, replies wait in
 * the client's own buffer, and a client that does not read is closed when that
 * is full. Nothing wakes an idle fabric: the timer runs only while somebody is
 * attached. What a request does stands in daemon_request.c, what follows from
 * a death in daemon_death.c.
 */
#include "apps/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "apps/daemon_client.h"
#include "apps/report.h"

#define EVENTS_A_ROUND 64
#define LINES_A_TURN   16   /* that a client is answered before the next one is */
#define LAST_FLUSH_MS  1000 /* for the supervisor to take the final report */

/* Only says so: what follows waits for the end of the round, when nobody is in the middle of it. */
static void client_gone(struct daemon *daemon, struct client *client)
{
    client->gone = true;
    if (client == daemon->owner) {
        daemon->owner = NULL;
        daemon->owner_gone = true;
    }
}

static void client_events(struct daemon *daemon, struct client *client)
{
    struct epoll_event event = { .data.ptr = client };

    event.events = (client->at_end ? 0u : EPOLLIN) | (client->wire.out.bytes ? EPOLLOUT : 0u);
    if (event.events == client->events)
        return;
    client->events = event.events;
    epoll_ctl(daemon->epoll, EPOLL_CTL_MOD, client->wire.fd, &event);
}

static void client_flush(struct daemon *daemon, struct client *client)
{
    int err = wire_flush(&client->wire);

    if (err && err != -EAGAIN)
        client_gone(daemon, client);
    else if (!err && client->closing)
        client_gone(daemon, client);
    else
        client_events(daemon, client);
}

void daemon_send(struct daemon *daemon, struct client *client, struct json_object *message)
{
    if (client->gone)
        json_object_put(message);
    else if (wire_put(&client->wire, message))
        client_gone(daemon, client);
    else
        client_flush(daemon, client);
}

void daemon_send_with(struct daemon *daemon, struct client *client, struct json_object *message,
                      const int pass[2])
{
    if (wire_put_with(&client->wire, message, pass))
        client_gone(daemon, client);
    else
        client_flush(daemon, client);
}

void daemon_reply_error(struct daemon *daemon, struct client *client, int err, const char *error)
{
    struct json_object *reply = json_object_new_object();

    json_object_object_add(reply, "ok", json_object_new_boolean(false));
    wire_add_number(reply, "errno", (uint64_t)-err);
    wire_add_text(reply, "error", error);
    daemon_send(daemon, client, reply);
}

static struct client *client_new(struct daemon *daemon, int fd, pid_t pid)
{
    struct client *client = calloc(1, sizeof *client);

    if (!client)
        return NULL;
    wire_open(&client->wire, fd, WIRE_LINE_MAX);
    client->pid = pid;
    client->node = client->died = -1;
    client->events = EPOLLIN;
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = client };
    if (epoll_ctl(daemon->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
        free(client);
        return NULL;
    }
    client->next = daemon->clients;
    if (client->next)
        client->next->prev = client;
    daemon->clients = client;
    return client;
}

static void client_close(struct daemon *daemon, struct client *client)
{
    if (client->prev)
        client->prev->next = client->next;
    else
        daemon->clients = client->next;
    if (client->next)
        client->next->prev = client->prev;
    wire_close(&client->wire); /* leaves epoll with it */
}

/* The next who died: each tells all others, and may find more that are gone. */
static struct client *next_dead(const struct daemon *daemon)
{
    struct client *client = daemon->clients;

    while (client && !(client->gone && client->node >= 0))
        client = client->next;
    return client;
}

static void free_gone(struct daemon *daemon)
{
    for (struct client *dead; (dead = next_dead(daemon));)
        daemon_died(daemon, dead);
    for (struct client *client = daemon->clients, *next; client; client = next) {
        next = client->next;
        if (!client->gone)
            continue;
        client_close(daemon, client);
        if (client->died >= 0)
            daemon_dying_add(daemon, client);
        else
            free(client);
    }
    daemon_dying_tell(daemon, false);
}

static int watch(struct daemon *daemon, int fd, const void *what)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = (void *)(uintptr_t)what };

    return epoll_ctl(daemon->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

/* No descriptor left: give up the spare one, so that the caller hears why. */
static void accept_without_room(struct daemon *daemon)
{
    static const char line[] =
        "{\"ok\":false,\"errno\":24,\"error\":\"the fabric has no file descriptors left; start it "
        "with a higher limit (ulimit -n)\"}\n";

    if (daemon->spare < 0)
        daemon->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (daemon->spare < 0) { /* the caller waits, and must not keep us awake */
        epoll_ctl(daemon->epoll, EPOLL_CTL_DEL, daemon->config->listen_fd, NULL);
        daemon->deaf = true;
        daemon_tick_when(daemon);
        return;
    }
    close(daemon->spare);
    int fd = accept4(daemon->config->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
        send(fd, line, sizeof line - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        close(fd);
    }
    daemon->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void accept_one(struct daemon *daemon)
{
    struct ucred cred = { 0 };
    socklen_t bytes = sizeof cred;
    int fd = accept4(daemon->config->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE)
            accept_without_room(daemon);
        return;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &bytes) < 0)
        cred.uid = (uid_t)-1;
    struct client *client = client_new(daemon, fd, cred.pid);
    if (!client) {
        close(fd);
    } else if (cred.uid != geteuid()) {
        daemon_reply_error(daemon, client, -EACCES,
                           "this fabric belongs to another user; start "
                           "one of your own with 'fabemu run' or 'fabemu up'");
        client->closing = true; /* with the first that comes from it */
    }
}

/* What came before the end is still answered: a client may send and shut down its side. */
static void client_end(struct daemon *daemon, struct client *client)
{
    if (client->node >= 0 || !client->wire.out.bytes) { /* an attached one is dead */
        client_gone(daemon, client);
        return;
    }
    client->closing = true;
    client_events(daemon, client);
}

/* Its lines in turn: what is left from the last one first, then what one read gets. */
static void client_turn(struct daemon *daemon, struct client *client)
{
    struct json_object *request;
    int lines = 0;
    int got = 0;

    if (client->closing) { /* it has its answer */
        client_gone(daemon, client);
        return;
    }
    if (!client->more && wire_fill(&client->wire))
        client->at_end = true;
    for (; lines < LINES_A_TURN && !client->gone && !client->closing; lines++) {
        got = wire_next(&client->wire, &request);
        if (got <= 0 && got != -EBADMSG)
            break;
        if (got == 1) {
            daemon_request(daemon, client, request);
            json_object_put(request);
        } else {
            daemon_reply_error(daemon, client, -EBADMSG,
                               "a request must be one JSON object on one "
                               "line; see docs/control.md");
        }
    }
    if (got == -EMSGSIZE && !client->gone) {
        client->closing = true;
        daemon_reply_error(daemon, client, -EMSGSIZE, "the line is longer than 65536 bytes");
    }
    client->more = lines == LINES_A_TURN && !client->gone && !client->closing;
    daemon->busy = daemon->busy || client->more;
    if (client->at_end && !client->more)
        client_end(daemon, client);
}

/* Those who have lines left from their last turn. */
static void serve_left(struct daemon *daemon)
{
    if (!daemon->busy)
        return;
    daemon->busy = false;
    for (struct client *client = daemon->clients; client; client = client->next)
        if (client->more && !client->gone)
            client_turn(daemon, client);
}

void daemon_tick_when(struct daemon *daemon)
{
    bool wanted = fabric_attached(daemon->fabric) > 0 || daemon->deaf;
    struct itimerspec each = { { wanted, 0 }, { wanted, 0 } };

    if (wanted != daemon->ticking)
        timerfd_settime(daemon->timer, 0, &each, NULL);
    daemon->ticking = wanted;
}

static void tick(struct daemon *daemon)
{
    uint32_t nodes[64];
    uint64_t expired;

    if (read(daemon->timer, &expired, sizeof expired) < 0)
        return;
    daemon_waits_tick(daemon);
    uint32_t count = fabric_tick(daemon->fabric, nodes, 64);
    daemon->record.cut_off += count;
    for (uint32_t i = 0; i < count && i < 64; i++) {
        struct client *client = daemon->by_node[nodes[i]];
        if (client)
            daemon_send(daemon, client, wire_event("cut_off"));
        if (daemon->owner)
            daemon_send(daemon, daemon->owner,
                        wire_add_number(wire_event("cut_off"), "node", nodes[i]));
    }
    if (daemon->deaf && !watch(daemon, daemon->config->listen_fd, &daemon->config->listen_fd)) {
        daemon->deaf = false;
        daemon_tick_when(daemon);
    }
}

static void serve_round(struct daemon *daemon)
{
    struct epoll_event events[EVENTS_A_ROUND];
    int timeout_ms = daemon->busy ? 0 : daemon_dying_wait_ms(daemon);
    int count = epoll_wait(daemon->epoll, events, EVENTS_A_ROUND, timeout_ms);

    serve_left(daemon);
    for (int i = 0; i < count; i++) {
        void *what = events[i].data.ptr;
        struct client *client = what;
        if (what == &daemon->config->listen_fd) {
            accept_one(daemon);
        } else if (what == &daemon->config->signal_fd) {
            daemon->shutdown = true;
        } else if (what == &daemon->timer) {
            tick(daemon);
        } else if (what != &daemon->dying && !client->gone) {
            if (events[i].events & EPOLLOUT)
                client_flush(daemon, client);
            if (!client->gone && !client->more && events[i].events & ~(uint32_t)EPOLLOUT)
                client_turn(daemon, client);
        }
    }
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
    const struct topo_graph *graph = daemon->config->fabric->graph;
    int err = 0;

    daemon->epoll = epoll_create1(EPOLL_CLOEXEC);
    daemon->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    daemon->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    daemon->by_node = calloc(graph->nodes, sizeof *daemon->by_node);
    daemon->dying_end = &daemon->dying;
    if (daemon->epoll < 0 || daemon->timer < 0 || !daemon->by_node)
        err = -ENOMEM;
    if (!err)
        err = make_id(daemon->fabric_id, sizeof daemon->fabric_id);
    if (!err)
        err = watch(daemon, daemon->config->listen_fd, &daemon->config->listen_fd);
    if (!err)
        err = watch(daemon, daemon->config->signal_fd, &daemon->config->signal_fd);
    if (!err)
        err = watch(daemon, daemon->timer, &daemon->timer);
    if (!err) {
        daemon->owner = client_new(daemon, daemon->config->owner_fd, daemon->config->owner);
        err = daemon->owner ? 0 : -ENOMEM;
    }
    daemon->hop_limit = graph->longest;
    daemon_waits_open(daemon);
    return err;
}

static void daemon_close(struct daemon *daemon)
{
    daemon_dying_tell(daemon, true);
    daemon_waits_close(daemon);
    for (struct client *client; (client = daemon->clients);) {
        client_close(daemon, client);
        free(client);
    }
    free(daemon->by_node);
    if (daemon->spare >= 0)
        close(daemon->spare);
    if (daemon->timer >= 0)
        close(daemon->timer);
    if (daemon->epoll >= 0)
        close(daemon->epoll);
}

/* Tell everybody, and hand the final report to the supervisor. */
static void say_goodbye(struct daemon *daemon)
{
    struct json_object *ended = wire_event("ended");

    daemon_dying_tell(daemon, true);
    daemon_waits_look(daemon);
    for (struct client *client = daemon->clients; client; client = client->next)
        if (client->node >= 0)
            daemon_send(daemon, client, wire_event("shutdown"));
    json_object_object_add(ended, "report",
                           report_build(daemon->fabric, daemon->config->fabric, &daemon->record));
    if (!daemon->owner) {
        json_object_put(ended);
        return;
    }
    daemon_send(daemon, daemon->owner, ended);
    if (daemon->owner)
        wire_drain(&daemon->owner->wire, LAST_FLUSH_MS);
}

int daemon_serve(struct fabric *fabric, const struct daemon_config *config)
{
    struct daemon daemon = { .fabric = fabric, .config = config, .epoll = -1, .timer = -1 };
    int err = daemon_open(&daemon);

    if (!err) {
        daemon_send(&daemon, daemon.owner,
                    wire_add_number(wire_event("ready"), "pid", (uint64_t)getpid()));
        while (!daemon.shutdown && !daemon.owner_gone)
            serve_round(&daemon);
        if (!daemon.owner_gone)
            say_goodbye(&daemon);
    }
    daemon_close(&daemon);
    if (err)
        return err;
    return daemon.owner_gone ? DAEMON_OWNER_GONE : DAEMON_SHUTDOWN;
}
