/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queues.c - requests about the queues that processes announce.
 *
 * A process announces a queue so that other processes of its host can find the process by the
 * queue's number. In the same way, programs of a host find a server by the address 127.0.0.1 and a
 * port. An announcement ends when the process leaves its node.
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/daemon/client.h"

#define QUEUES 65536u

struct daemon_queues {
    uint8_t bit[QUEUES / 8];
};

void daemon_queues_forget(struct client *client)
{
    free(client->queues);
    client->queues = NULL;
}

/*
 * Read the number of the queue in a request of an attached process. If the request is invalid, send
 * an error reply and return false.
 */
static bool queue_of(struct daemon *daemon, struct client *client, struct json_object *request,
                     uint16_t *ret)
{
    int64_t queue = emu_json_number(request, "queue", -1);

    if (client->node < 0) {
        daemon_reply_error(daemon, client, -ENOTCONN, "this connection has not attached");
        return false;
    }
    if (queue < 0 || queue >= QUEUES) {
        daemon_reply_error(daemon, client, -EINVAL, "\"queue\" must be from 0 to %u", QUEUES - 1);
        return false;
    }
    *ret = (uint16_t)queue;
    return true;
}

static bool has_queue(const struct client *client, uint16_t queue)
{
    return client->node >= 0 && client->queues && client->queues->bit[queue / 8] >> queue % 8 & 1;
}

void daemon_queue_announce(struct daemon *daemon, struct client *client,
                           struct json_object *request)
{
    uint16_t queue;

    if (!queue_of(daemon, client, request, &queue))
        return;
    if (!client->queues)
        client->queues = calloc(1, sizeof *client->queues);
    if (!client->queues) {
        daemon_reply_error(daemon, client, -ENOMEM, "no memory for the announced queues");
        return;
    }
    client->queues->bit[queue / 8] |= (uint8_t)(1u << queue % 8);
    daemon_send(daemon, client, conn_ok());
}

void daemon_queue_withdraw(struct daemon *daemon, struct client *client,
                           struct json_object *request)
{
    uint16_t queue;

    if (!queue_of(daemon, client, request, &queue))
        return;
    if (has_queue(client, queue))
        client->queues->bit[queue / 8] &= (uint8_t) ~(1u << queue % 8);
    daemon_send(daemon, client, conn_ok());
}

/*
 * Return the process of @client's host that has announced @queue. If several have announced it,
 * prefer @client, or else the process with the oldest connection. NULL: there is none.
 */
static const struct client *queue_owner(const struct daemon *daemon, const struct client *client,
                                        uint16_t queue)
{
    const struct client *found = NULL;

    if (has_queue(client, queue))
        return client;
    emu_each_listed (const struct client, other, &daemon->clients, link)
        if (!other->gone && has_queue(other, queue) &&
            daemon_client_host(other) == daemon_client_host(client))
            found = other; /* the list begins with the newest connection */
    return found;
}

void daemon_queue_find(struct daemon *daemon, struct client *client, struct json_object *request)
{
    const struct client *owner;
    uint16_t queue;

    if (!queue_of(daemon, client, request, &queue))
        return;
    owner = queue_owner(daemon, client, queue);
    if (!owner)
        daemon_reply_error(daemon, client, -ENOENT,
                           "no process of this host has announced queue %u", (unsigned)queue);
    else
        daemon_send(daemon, client,
                    json_add_number(json_add_number(conn_ok(), "node", (uint64_t)owner->node),
                                    "incarnation", owner->incarnation));
}
