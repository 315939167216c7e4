/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts.c - a fabric on several hosts: the others as the daemon that governs has them, and how they
 * are told of.
 */
#include "apps/daemon/client.h"
#include "apps/run/report.h"

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

static struct json_object *host_build(const struct daemon *daemon, uint32_t host)
{
    const struct fabric_config *config = daemon->config->fabric;
    struct json_object *one = json_object_new_object(), *links;
    const struct fabric_totals *part = hosts_part(daemon->hosts, host, &links);
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
    report_traffic(one, part);
    json_object_object_add(one, "links", links ? links : json_object_new_array());
    return one;
}

void daemon_hosts_report(struct daemon *daemon, struct json_object *report)
{
    struct json_object *all;

    if (!daemon->hosts)
        return;
    all = json_object_new_array();
    for (uint32_t h = 0; h < daemon->config->hosts->count; h++)
        json_object_array_add(all, host_build(daemon, h));
    json_object_object_add(report, "hosts", all);
}
