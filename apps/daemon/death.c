/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * death.c - notifies processes when a process detaches or dies, or when nodes cannot reach each
 * other.
 *
 * A process that detaches has disconnected from its peers (nic/host/api/leave.c). It breaks only
 * the groups that it has not left.
 *
 * When a process dies, the daemon notifies all attached processes as soon as the node is free. The
 * cause of death becomes known shortly after the connection has closed. Until then the client is in
 * the list daemon->exiting. Then the daemon records the death, and reports it to the supervisor and
 * to subscribers, in the order of deaths.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "apps/daemon/client.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "apps/base/procs.h"
#include "emu/util/now.h"

/* longest wait for the exit status of a process after its connection was closed */
#define EXIT_STATUS_MS 200

/*
 * Notify all processes of the death of @dead's process. Also tell each process which of its groups
 * this death has broken (@lists, by node). Frees @lists.
 */
static void report_death(struct daemon *daemon, const struct client *dead,
                         struct json_object **lists)
{
    uint32_t nodes = daemon->graph->nodes;
    char why[160];

    if (dead->remote)
        snprintf(why, sizeof why, "the process at node %lld has died: %s", (long long)dead->died,
                 coordinator_process_info(dead->remote)->how);
    for (uint32_t node = 0; node < nodes; node++) {
        struct client *peer = daemon->by_node[node];
        struct json_object *groups = lists ? lists[node] : NULL;
        struct json_object *event;

        if (!peer) {
            json_object_put(groups);
            continue;
        }
        event = json_add_number(conn_event("node_died"), "node", (uint64_t)dead->died);
        json_add_number(event, "incarnation", dead->incarnation);
        if (dead->remote && coordinator_process_info(dead->remote)->lost)
            json_add_text(event, "why", why);
        json_object_object_add(event, "groups", groups ? groups : json_object_new_array());
        daemon_send(daemon, peer, event);
    }
    free(lists);
}

void daemon_notify_broken(struct daemon *daemon, uint32_t by, struct json_object **lists)
{
    for (uint32_t node = 0; lists && node < daemon->graph->nodes; node++) {
        struct client *peer = daemon->by_node[node];
        struct json_object *event;

        if (!peer || !lists[node]) {
            json_object_put(lists[node]);
            continue;
        }
        event = conn_event("groups_broken");
        json_object_object_add(event, "groups", lists[node]);
        daemon_send(daemon, peer, json_add_number(event, "by", by));
    }
    free(lists);
}

void daemon_died(struct daemon *daemon, struct client *client)
{
    struct json_object **lists = daemon_groups_quit(daemon, client);

    client->died = client->node;
    daemon_node_free(daemon, client, true);
    report_death(daemon, client, lists);
}

void daemon_left(struct daemon *daemon, struct client *client)
{
    struct json_object **lists = daemon_groups_quit(daemon, client);
    uint32_t node = (uint32_t)client->node;

    daemon_node_free(daemon, client, false);
    daemon_notify_broken(daemon, node, lists);
}

/* List the attached nodes that have no route to or from @node; NULL: none. */
static struct json_object *unreachable_from(const struct daemon *daemon, uint32_t node)
{
    struct json_object *nodes = NULL;

    for (uint32_t n = 0; n < daemon->graph->nodes; n++) {
        if (!daemon->by_node[n] ||
            (fabric_reaches(daemon->fabric, node, n) && fabric_reaches(daemon->fabric, n, node)))
            continue;
        if (!nodes)
            nodes = json_object_new_array();
        json_object_array_add(nodes, json_object_new_int64(n));
    }
    return nodes;
}

/*
 * Write to @why the first pair of nodes that has no route. A member that can reach all nodes itself
 * gets this as the reason why its group is broken.
 */
static void unreachable_why(const struct daemon *daemon, char *why, size_t bytes)
{
    const struct topo_graph *graph = daemon->graph;
    char from[TOPO_SHOWN_BYTES], to[TOPO_SHOWN_BYTES];
    uint32_t nodes = graph->nodes;

    snprintf(why, bytes, "a link between hosts that the group needs is down");
    for (uint32_t a = 0; a < nodes; a++)
        for (uint32_t b = 0; daemon->by_node[a] && b < nodes; b++)
            if (daemon->by_node[b] && !fabric_reaches(daemon->fabric, a, b)) {
                snprintf(why, bytes, "there is no route from %s to %s",
                         topo_show_node(graph, a, from), topo_show_node(graph, b, to));
                return;
            }
}

void daemon_notify_unreachable(struct daemon *daemon)
{
    struct json_object **lists = daemon_groups_break_unreachable(daemon);
    char why[64 + 2 * TOPO_SHOWN_BYTES];

    for (uint32_t node = 0; node < daemon->graph->nodes; node++) {
        struct client *client = daemon->by_node[node];
        struct json_object *groups = lists ? lists[node] : NULL;
        struct json_object *nodes = client ? unreachable_from(daemon, node) : NULL;
        struct json_object *event;

        if (!client || (!nodes && !groups)) {
            json_object_put(groups);
            continue;
        }
        event = conn_event("nodes_partitioned");
        if (!nodes) {
            unreachable_why(daemon, why, sizeof why);
            json_add_text(event, "why", why);
        }
        json_object_object_add(event, "nodes", nodes ? nodes : json_object_new_array());
        json_object_object_add(event, "groups", groups ? groups : json_object_new_array());
        daemon_send(daemon, client, event);
    }
    free(lists);
}

/* --- the cause of death ---------------------------------------------------------------- */

void daemon_exiting_add(struct daemon *daemon, struct client *client)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = &daemon->exiting};

    client->how_by_ms = emu_now_ms() + EXIT_STATUS_MS;
    if (client->pidfd >= 0) /* without a pidfd, the loop does not notice the exit, but wakes at
                             * how_by_ms */
        epoll_ctl(daemon->epoll, EPOLL_CTL_ADD, client->pidfd, &event);
    emu_list_add(&daemon->exiting, &client->link);
}

/* Return whether the list of deaths has space for a death on @host. */
static bool has_space(const struct daemon *daemon, uint32_t host)
{
    const struct daemon_record *record = &daemon->record;
    uint32_t held = 0;

    for (uint32_t i = 0; i < record->deaths; i++)
        held += fabric_node_host(daemon->config->fabric, record->death[i].node) == host;
    return fabric_host_has_space(DAEMON_DEATHS_MAX - record->deaths, host, held);
}

static void record(struct daemon *daemon, const struct daemon_death *death)
{
    struct json_object *event =
        json_add_node(daemon_event(daemon, "node_died", daemon_now_ps(daemon)), daemon->graph,
                      death->node);
    uint32_t host = fabric_node_host(daemon->config->fabric, death->node);

    if (has_space(daemon, host))
        daemon->record.death[daemon->record.deaths++] = *death;
    daemon->record.died++;
    json_add_number(event, "pid", (uint64_t)death->pid);
    json_add_text(event, "command", death->command);
    json_add_text(event, "how", death->how);
    daemon_host_add(daemon, death->node, event);
    daemon_notify_owner(daemon, json_object_get(event));
    daemon_publish_from(daemon, host, event);
}

static struct client *first_dying(const struct daemon *daemon)
{
    return emu_list_entry(daemon->exiting.next, struct client, link);
}

/* Describe the cause of death, if it is known. Returns false if it may become known later. */
static bool how_it_ended(const struct client *client, char *how, size_t how_bytes)
{
    const struct coordinator_process_info *remote;

    if (!client->remote)
        return procs_exit_reason(client->pid, client->pidfd, client->exits, how, how_bytes);
    remote = coordinator_process_info(client->remote);
    snprintf(how, how_bytes, "%s", *remote->how ? remote->how : "cause unknown");
    return *remote->how;
}

void daemon_exiting_report(struct daemon *daemon, bool all)
{
    while (!emu_list_empty(&daemon->exiting)) {
        struct client *client = first_dying(daemon);
        struct daemon_death death = {.node = (uint32_t)client->died, .pid = client->pid};
        bool known = how_it_ended(client, death.how, sizeof death.how);
        if (client->unread)
            snprintf(death.how, sizeof death.how, "did not read the fabric's messages");
        else if (client->stopped)
            snprintf(death.how, sizeof death.how, "was stopped for too long (--bound stopped)");
        else if (!known && !all && emu_now_ms() < client->how_by_ms)
            return;
        snprintf(death.command, sizeof death.command, "%s", client->command);
        record(daemon, &death);
        emu_list_del(&client->link);
        if (client->pidfd >= 0)
            close(client->pidfd);
        daemon_client_free(client);
    }
}

int daemon_exiting_wait_ms(const struct daemon *daemon)
{
    if (emu_list_empty(&daemon->exiting))
        return -1;
    int64_t left_ms = first_dying(daemon)->how_by_ms - emu_now_ms();

    return left_ms < 0 ? 0 : (int)left_ms;
}
