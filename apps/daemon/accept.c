/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * accept.c - connections to the daemon's control socket: those that the door (admission.h) lets in,
 * and those of processes on other hosts.
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
    client->conn.containers_max = CONN_CONTAINERS_MAX;
    emu_list_push(&daemon->clients, &client->link);
    daemon->admission.connections++;
    return client;
}

void daemon_client_free(struct client *client)
{
    if (client->remote)
        coordinator_process_forget(client->remote);
    free(client);
}

/* A process is another one on another host, whatever its number. */
uint32_t daemon_connections_of(void *ctx, uint32_t host, pid_t pid)
{
    const struct daemon *daemon = ctx;
    uint32_t held = 0;

    emu_each_listed (const struct client, client, &daemon->clients, link)
        held += client->pid == pid &&
                (client->remote ? coordinator_process_info(client->remote)->host : 0) == host;
    return held;
}

static void let_in(struct daemon *daemon, int fd, const struct ucred *cred)
{
    struct client *client = daemon_client_new(daemon, fd, cred->pid);

    if (!client) {
        admission_reject(fd, -ENOMEM, ADMISSION_NO_MEMORY);
    } else if (cred->uid != geteuid()) {
        daemon_reply_error(daemon, client, -EACCES, ADMISSION_NOT_YOURS);
        client->closing = true; /* with the first that comes from it */
    }
}

void daemon_accept(struct daemon *daemon)
{
    struct ucred cred;
    int fd = admission_accept(&daemon->admission, &cred);

    if (fd >= 0)
        let_in(daemon, fd, &cred);
    else
        daemon_tick_when(daemon); /* it may be deaf until then */
}
