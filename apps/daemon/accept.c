/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * accept.c - connections to the daemon's control socket: those that the door (door.h) lets in, and
 * those of processes on other hosts.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "apps/daemon/client.h"

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
    daemon->door.connections++;
    return client;
}

void daemon_client_free(struct client *client)
{
    if (client->far)
        hosts_forget(client->far);
    json_object_put(client->request);
    free(client);
}

/* A process is another one on another host, whatever its number. */
uint32_t daemon_held(void *ctx, uint32_t host, pid_t pid)
{
    const struct daemon *daemon = ctx;
    uint32_t held = 0;

    emu_each_listed (const struct client, client, &daemon->clients, link)
        held += client->pid == pid && (client->far ? hosts_of(client->far) : 0) == host;
    return held;
}

static void let_in(struct daemon *daemon, int fd, const struct ucred *cred)
{
    struct client *client = daemon_client_new(daemon, fd, cred->pid);

    if (!client) {
        door_turn_away(fd, -ENOMEM, DOOR_NO_MEMORY);
    } else if (cred->uid != geteuid()) {
        daemon_reply_error(daemon, client, -EACCES, DOOR_NOT_YOURS);
        client->closing = true; /* with the first that comes from it */
    }
}

void daemon_accept(struct daemon *daemon)
{
    struct ucred cred;
    int fd = door_accept(&daemon->door, &cred);

    if (fd >= 0)
        let_in(daemon, fd, &cred);
    else
        daemon_tick_when(daemon); /* it may be deaf until then */
}
