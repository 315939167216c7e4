/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * accept.c - which connections to the control socket are accepted, and what the refused ones are
 * told.
 *
 * Descriptors and memory are bounded, so connections are: as many as nodes may
 * want, within what the process may open. A process that takes more than its
 * share (DAEMON_SHARE) is refused before others find nothing left.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apps/daemon/client.h"

/* beside two for each node: status, shutdown, who waits for a node */
#define CONNECTIONS_SPARE 256u
#define SPARE_FDS         8u /* for a process that attaches: its bell, and what is passed on */

struct client *daemon_client_new(struct daemon *daemon, int fd, pid_t pid)
{
    struct client *client = calloc(1, sizeof *client);

    if (!client)
        return NULL;
    client->pid = pid;
    client->node = client->died = client->rank = -1;
    client->events = EPOLLIN;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
    if (epoll_ctl(daemon->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
        free(client);
        return NULL;
    }
    conn_open(&client->conn, fd, CONN_LINE_MAX);
    emu_list_push(&daemon->clients, &client->link);
    daemon->connections++;
    return client;
}

void daemon_client_free(struct client *client)
{
    if (client->far)
        hosts_forget(client->far);
    free(client);
}

/* One line, as far as the socket takes it, and the end. */
static void turn_away(int fd, int err, const char *why)
{
    char line[256];
    int bytes =
        snprintf(line, sizeof line, "{\"ok\":false,\"errno\":%d,\"error\":\"%s\"}\n", -err, why);

    send(fd, line, (size_t)bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}

/* Callers wait until the next tick, and must not keep us awake. */
static void go_deaf(struct daemon *daemon)
{
    epoll_ctl(daemon->epoll, EPOLL_CTL_DEL, daemon->config->listen_fd, NULL);
    daemon->deaf = true;
    daemon_tick_when(daemon);
}

/* No descriptor left: give up the spare one, so that the caller hears why. */
static void accept_without_room(struct daemon *daemon)
{
    if (daemon->spare < 0)
        daemon->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (daemon->spare < 0) {
        go_deaf(daemon);
        return;
    }
    close(daemon->spare);
    int fd = accept4(daemon->config->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        turn_away(fd, -EMFILE,
                  "the fabric has no file descriptors left; start it with a higher limit "
                  "(ulimit -n)");
    daemon->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void accept_failed(struct daemon *daemon, int err)
{
    if (err == EMFILE || err == ENFILE)
        accept_without_room(daemon);
    else if (err != EAGAIN && err != EINTR && err != ECONNABORTED)
        go_deaf(daemon); /* no memory, as a rule */
}

/* How many more connections there may be for the fabric's nodes. */
static uint64_t left_of_nodes(const struct daemon *daemon)
{
    uint64_t most = 2 * (uint64_t)daemon->config->fabric->graph->nodes + CONNECTIONS_SPARE;

    return most > daemon->connections ? most - daemon->connections : 0;
}

/*
 * And for the limit of open files. Descriptors are handed out from below: @fd is the first that was
 * free.
 */
static uint64_t left_of_files(int fd)
{
    uint64_t used = (uint64_t)fd + SPARE_FDS;
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX / DAEMON_SHARE;
    return files.rlim_cur > used ? files.rlim_cur - used : 0;
}

/*
 * Has process @pid got its share, where @left are left? It is counted only where nearly all is
 * taken: else nobody has. Every process may have one.
 */
static bool has_its_share(const struct daemon *daemon, pid_t pid, uint64_t left)
{
    uint64_t share = left * DAEMON_SHARE;
    uint64_t held = 0;

    if (daemon->connections < share)
        return false;
    emu_each_listed (const struct client, client, &daemon->clients, link)
        held += client->pid == pid;
    return held && held >= share;
}

static void let_in(struct daemon *daemon, int fd, const struct ucred *cred)
{
    struct client *client = daemon_client_new(daemon, fd, cred->pid);

    if (!client) {
        turn_away(fd, -ENOMEM, "the fabric has no memory left for another connection");
    } else if (cred->uid != geteuid()) {
        daemon_reply_error(daemon, client, -EACCES,
                           "this fabric belongs to another user; start "
                           "one of your own with 'fabemu run' or 'fabemu up'");
        client->closing = true; /* with the first that comes from it */
    }
}

void daemon_accept(struct daemon *daemon)
{
    struct ucred cred = {0};
    socklen_t bytes = sizeof cred;
    int fd = accept4(daemon->config->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0) {
        accept_failed(daemon, errno);
        return;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &bytes) < 0)
        cred.uid = (uid_t)-1;
    if (has_its_share(daemon, cred.pid, left_of_files(fd)))
        turn_away(fd, -EMFILE,
                  "this process has its share of the fabric's connections; it must close "
                  "some, or the fabric be started with a higher limit (ulimit -n)");
    else if (has_its_share(daemon, cred.pid, left_of_nodes(daemon)))
        turn_away(fd, -EMFILE,
                  "this process has its share of the fabric's connections; it must close "
                  "some, or the fabric have more nodes");
    else
        let_in(daemon, fd, &cred);
}
