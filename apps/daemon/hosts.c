/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts.c - a fabric on several hosts: the others as the daemon that governs has them, and how they
 * are told of.
 */
#include "apps/daemon/client.h"

/* A process on another host. */
static bool on_connected(void *ctx, int fd, struct hosts_process *process)
{
    struct client *client = daemon_client_new(ctx, fd, hosts_pid(process));

    if (client)
        client->far = process;
    return client;
}

static void on_lost(void *ctx, uint32_t host, const char *why)
{
    struct daemon *daemon = ctx;
    struct json_object *event = json_add_number(conn_event("host_lost"), "host", host);

    json_add_text(event, "name", daemon->config->hosts->name[host]);
    daemon_tell_owner(daemon, json_add_text(event, "why", why));
}

int daemon_hosts_open(struct daemon *daemon, char *error, size_t error_bytes)
{
    struct hosts_config config = *daemon->config->hosts;
    int err;

    config.ops = (struct hosts_ops){.connected = on_connected, .lost = on_lost, .ctx = daemon};
    err = hosts_open(&daemon->hosts, &config, error, error_bytes);
    if (err)
        return err;
    fabric_mirror(daemon->fabric, hosts_mirror(daemon->hosts));
    return 0;
}

/* --- told of ---------------------------------------------------------------------------- */

const char *daemon_host_of(const struct daemon *daemon, uint32_t node)
{
    const struct hosts_config *hosts = daemon->config->hosts;

    return hosts ? hosts->name[fabric_node_host(daemon->config->fabric, node)] : NULL;
}

void daemon_host_add(const struct daemon *daemon, uint32_t node, struct json_object *one)
{
    const char *name = daemon_host_of(daemon, node);

    if (name)
        json_add_text(one, "host", name);
}

static struct json_object *host_build(const struct daemon *daemon, uint32_t host,
                                      struct json_object *links)
{
    const struct fabric_config *config = daemon->config->fabric;
    struct json_object *one = json_object_new_object();
    uint32_t nodes = 0, attached = 0;

    for (uint32_t n = 0; n < config->graph->nodes; n++) {
        bool is_there = fabric_node_host(config, n) == host;

        nodes += is_there;
        attached += is_there && daemon->by_node[n];
    }
    json_add_text(one, "host", daemon->config->hosts->name[host]);
    json_add_text(one, "state",
                  !host                                ? "governs"
                  : hosts_is_lost(daemon->hosts, host) ? "lost"
                                                       : "up");
    json_add_number(one, "nodes", nodes);
    json_add_number(one, "attached", attached);
    json_object_object_add(one, "links", links ? links : json_object_new_array());
    return one;
}

void daemon_hosts_report(struct daemon *daemon, struct json_object *report)
{
    const struct daemon_config *config = daemon->config;
    struct json_object *all, *links[HOSTS_MAX] = {NULL};

    if (!daemon->hosts)
        return;
    all = json_object_new_array();
    if (config->links_report)
        links[0] = config->links_report(config->links);
    hosts_links(daemon->hosts, links);
    for (uint32_t h = 0; h < config->hosts->count; h++)
        json_object_array_add(all, host_build(daemon, h, links[h]));
    json_object_object_add(report, "hosts", all);
}
