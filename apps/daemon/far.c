/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * far.c - processes on other hosts, what follows when a host, or a link between two, is lost, and
 * how hosts are told of.
 *
 * A host that is lost takes its processes with it: their connections end, and that is a death like
 * others (death.c). Its cables lead nowhere. So do those between two hosts that have lost each
 * other while both still hear the governor. Where packets are acknowledged the manager takes these
 * cables out for good (manager_sever()), and traffic goes by other ways; else whoever may send by
 * one of them is told that no way leads there, again and again for what is posted meanwhile. It is
 * for good: a lost host, or link, does not come back in this fabric's life.
 *
 * Losses are noted where they are heard of, which may be in the middle of a call to other hosts,
 * and settled at the end of the round.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "apps/daemon/client.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "apps/daemon/faults.h"
#include "apps/run/report.h"
#include "apps/say.h"

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
    struct json_object *event;

    if (!daemon->hosts)
        return; /* not all have been met, or the end has come */
    event = json_add_number(conn_event("host_lost"), "host", host);
    fabric_crossings_by(daemon->fabric, host, TOPO_NONE, 0, 1, daemon->far.lost);
    daemon->far.news = true;
    json_add_text(event, "name", daemon->config->hosts->name[host]);
    json_add_text(event, "why", why);
    daemon_tell_owner(daemon, json_object_get(event));
    daemon_tell_all(daemon, event);
}

static void on_link_lost(void *ctx, uint32_t host, const struct hosts_link *link)
{
    struct daemon *daemon = ctx;
    struct json_object *event = json_add_number(conn_event("host_link_lost"), "pair", link->number);

    fabric_crossings_by(daemon->fabric, host, link->host, link->number, link->of, daemon->far.lost);
    daemon->far.news = true;
    json_add_text(event, "host", daemon->config->hosts->name[host]);
    daemon_tell_all(daemon, json_add_text(event, "to", daemon->config->hosts->name[link->host]));
}

/* A host speaks of its own nodes alone. */
static void on_cut_off(void *ctx, uint32_t host, uint32_t node)
{
    struct daemon *daemon = ctx;
    const struct fabric_config *fabric = daemon->config->fabric;

    if (node < fabric->graph->nodes && fabric_node_host(fabric, node) == host)
        daemon_cut_off(daemon, node);
}

int daemon_far_open(struct daemon *daemon, char *error, size_t error_bytes)
{
    struct hosts_config config = *daemon->config->hosts;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &daemon->hosts};
    int err;

    daemon->far.lost = calloc(fabric_cable_count(daemon->fabric) + 1u, sizeof *daemon->far.lost);
    if (!daemon->far.lost)
        return fail(-ENOMEM, error, error_bytes, "no memory for %u hosts", config.count);
    config.fabric = daemon->fabric;
    config.ops = (struct hosts_ops){.connected = on_connected,
                                    .lost = on_lost,
                                    .link_lost = on_link_lost,
                                    .cut_off = on_cut_off,
                                    .ctx = daemon};
    err = hosts_open(&daemon->hosts, &config, error, error_bytes);
    if (err)
        return err;
    fabric_mirror(daemon->fabric, hosts_mirror(daemon->hosts));
    return epoll_ctl(daemon->epoll, EPOLL_CTL_ADD, hosts_fd(daemon->hosts), &event) < 0 ? -errno
                                                                                        : 0;
}

void daemon_far_settle(struct daemon *daemon)
{
    char error[256];
    int err;

    if (!daemon->far.news)
        return;
    daemon->far.news = false;
    if (fabric_has_links(daemon->fabric)) {
        err = daemon_faults_lose(daemon, daemon->far.lost, error, sizeof error);
    } else {
        err = fabric_sever(daemon->fabric, daemon->far.lost);
        snprintf(error, sizeof error, "no memory for cables that are lost");
        daemon->far.severed = !err;
        daemon_parted(daemon);
    }
    if (err)
        say("%s", error);
}

void daemon_far_tick(struct daemon *daemon)
{
    if (daemon->far.severed)
        daemon_parted(daemon);
}

void daemon_far_close(struct daemon *daemon)
{
    struct hosts *hosts = daemon->hosts;

    daemon->hosts = NULL;
    hosts_close(hosts);
    free(daemon->far.lost);
}

/* --- told of ------------------------------------------------------------------------- */

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
