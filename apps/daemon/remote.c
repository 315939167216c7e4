/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * remote.c - other hosts: their processes, lost hosts and host links, and the report on hosts.
 *
 * When a host is lost, the connections of its processes end. death.c handles this like other
 * deaths. All cables of the host are down. If two hosts lose their connection to each other, the
 * cables between them are down, even if the coordinator still reaches both. If the fabric can send
 * lost packets again over other routes, the manager takes these cables out of service
 * (manager_sever()) and reroutes traffic. Otherwise each process that may send over one of these
 * cables is notified that there is no route. It is notified again each second, because it may have
 * posted more messages.
 *
 * A restarted host is admitted with the current state of the fabric (coordinator_admit()). When its
 * host links work again (apps/cluster/coordinator/rejoin.c), the manager brings up its cables like
 * other links. The manager also does so when two hosts reach each other again.
 *
 * The callbacks below only record events, because they may run in the middle of a call to other
 * hosts. daemon_remote_settle() handles the events at the end of this turn of the event loop.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/daemon/client.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "apps/daemon/faults.h"
#include "apps/daemon/report.h"
#include "apps/base/message.h"
#include "emu/util/bits.h"

/*
 * Return whether @host already has the maximum number of connections. The coordinator does not know
 * which processes a host has, so it limits the sum over all of them.
 */
static bool host_has_its_share(const struct daemon *daemon, uint32_t host)
{
    uint32_t held = 0, nodes = 0;

    emu_each_listed (const struct client, client, &daemon->clients, link)
        held += client->remote && coordinator_process_info(client->remote)->host == host;
    for (uint32_t n = 0; n < daemon->graph->nodes; n++)
        nodes += fabric_node_host(daemon->config->fabric, n) == host;
    return held >= admission_most(nodes);
}

static int on_connected(void *ctx, int fd, struct coordinator_process *process, const char **why)
{
    struct daemon *daemon = ctx;
    struct client *client;

    *why = admission_refuses(&daemon->admission, fd, coordinator_process_info(process)->host,
                             coordinator_process_info(process)->pid);
    if (!*why && host_has_its_share(daemon, coordinator_process_info(process)->host))
        *why = "the processes of this host have used up its share of the fabric's connections; "
               "close some of them";
    if (*why)
        return -EMFILE;
    *why = ADMISSION_NO_MEMORY;
    client = daemon_client_new(daemon, fd, coordinator_process_info(process)->pid);
    if (!client)
        return -ENOMEM;
    client->remote = process;
    return 0;
}

/*
 * Mark cables between hosts @a and @b as lost. The hosts are connected by @of pairs of ports; mark
 * the cables that use pair @number. If @b is TOPO_NONE, mark all cables of @a. Returns whether one
 * of these cables was not lost before.
 */
static bool cables_lost(struct daemon *daemon, uint32_t a, uint32_t b, uint32_t number, uint32_t of)
{
    uint32_t cables = fabric_cable_count(daemon->fabric);
    bool *now = daemon->remote.affected; /* by cable: this loss affects it */
    bool changed = false;

    memset(now, 0, cables * sizeof *now);
    fabric_crossings_by(daemon->fabric, a, b, number, of, now);
    for (uint32_t i = 0; i < cables; i++) {
        changed |= now[i] && (!daemon->remote.lost[i] || daemon->remote.mended[i]);
        daemon->remote.lost[i] = daemon->remote.lost[i] || now[i];
        daemon->remote.mended[i] = daemon->remote.mended[i] && !now[i];
    }
    daemon->remote.lost_changed |= changed;
    return changed;
}

static void on_lost(void *ctx, uint32_t host, const char *why)
{
    struct daemon *daemon = ctx;
    struct json_object *event;

    if (!daemon->coordinator)
        return; /* not all hosts are connected yet, or the fabric is ending */
    event = json_add_number(conn_event("host_lost"), "host", host);
    cables_lost(daemon, host, TOPO_NONE, 0, 1);
    daemon->remote.gone |= UINT64_C(1) << host;
    daemon->remote.back &= ~(UINT64_C(1) << host);
    daemon->remote.joins &= ~(UINT64_C(1) << host);
    json_add_text(event, "name", daemon->config->hosts->name[host]);
    json_add_text(event, "why", why);
    daemon_notify_owner(daemon, json_object_get(event));
    daemon_publish(daemon, event);
    telemetry_serve_host_lost(daemon, host);
    timeline_serve_host_lost(daemon, host);
}

static bool on_sampled(void *ctx, const struct coordinator_piece *piece)
{
    return piece->of == HOSTS_SAMPLE_COUNTERS ? telemetry_serve_receive(ctx, piece)
                                              : timeline_serve_receive(ctx, piece);
}

static void on_sampled_all(void *ctx, enum hosts_sample_kind of)
{
    if (of == HOSTS_SAMPLE_COUNTERS)
        telemetry_serve_received_all(ctx);
}

/*
 * Both hosts report that their link is lost. Publish a report only if it concerns a cable that was
 * not lost before, because a host that repeats its report could fill the buffers of the
 * subscribers.
 */
static void on_link_lost(void *ctx, uint32_t host, const struct hosts_link *link)
{
    struct daemon *daemon = ctx;
    struct json_object *event;

    if (!cables_lost(daemon, host, link->host, link->number, link->of))
        return;
    event = json_add_number(conn_event("host_link_lost"), "pair", link->number);
    json_add_text(event, "host", daemon->config->hosts->name[host]);
    json_add_text(event, "to", daemon->config->hosts->name[link->host]);
    daemon_publish_from(daemon, host, event);
}

static void on_back(void *ctx, uint32_t host)
{
    struct daemon *daemon = ctx;

    daemon->remote.back |= UINT64_C(1) << host;
}

static void on_mended(void *ctx, uint32_t a, uint32_t b)
{
    struct daemon *daemon = ctx;

    fabric_crossings_by(daemon->fabric, a, b, 0, 1, daemon->remote.mended);
    daemon->remote.mended_changed = true;
}

static void on_links_due(void *ctx)
{
    struct daemon *daemon = ctx;

    daemon->due.links = true;
    daemon_await(daemon);
}

static void notify_refused(struct daemon *daemon, const char *what, uint32_t host, const char *why)
{
    struct json_object *event = json_add_number(conn_event(what), "host", host);

    json_add_text(event, "name", daemon->config->hosts->name[host]);
    json_add_text(event, "why", why);
    daemon_notify_owner(daemon, json_object_get(event));
    daemon_publish(daemon, event);
}

static void on_refused(void *ctx, uint32_t host, const char *why)
{
    notify_refused(ctx, "host_refused", host, why);
}

static void on_duplicate(void *ctx, uint32_t host, const char *why)
{
    notify_refused(ctx, "host_duplicate", host, why);
}

/* A host may report only on its own nodes. */
static void on_cut_off(void *ctx, uint32_t host, uint32_t node)
{
    struct daemon *daemon = ctx;
    const struct fabric_config *fabric = daemon->config->fabric;

    if (node < fabric->graph->nodes && fabric_node_host(fabric, node) == host)
        daemon_cut_off(daemon, node);
}

int daemon_remote_open(struct daemon *daemon, char *error, size_t error_bytes)
{
    struct coordinator_config config = *daemon->config->hosts;
    size_t cables = fabric_cable_count(daemon->fabric) + 1u;
    int err;

    daemon->remote.lost = calloc(cables, sizeof *daemon->remote.lost);
    daemon->remote.mended = calloc(cables, sizeof *daemon->remote.mended);
    daemon->remote.affected = calloc(cables, sizeof *daemon->remote.affected);
    if (!daemon->remote.lost || !daemon->remote.mended || !daemon->remote.affected)
        return fail(-ENOMEM, error, error_bytes, "no memory for %u hosts", config.count);
    config.fabric = daemon->fabric;
    config.signal_fd = daemon->config->signal_fd;
    config.owner_fd = daemon->owner->conn.fd;
    config.ops = (struct coordinator_ops){.connected = on_connected,
                                          .lost = on_lost,
                                          .link_lost = on_link_lost,
                                          .cut_off = on_cut_off,
                                          .back = on_back,
                                          .links_due = on_links_due,
                                          .mended = on_mended,
                                          .refused = on_refused,
                                          .duplicate = on_duplicate,
                                          .sampled = on_sampled,
                                          .sampled_all = on_sampled_all,
                                          .ctx = daemon};
    daemon_notify_owner(daemon,
                        /* the supervisor restarts its time limit for the start */
                        conn_event("handshake"));
    err = coordinator_open(&daemon->coordinator, &config, error, error_bytes);
    if (err)
        return err;
    fabric_mirror(daemon->fabric, coordinator_mirror(daemon->coordinator));
    return daemon_watch(daemon, coordinator_fd(daemon->coordinator), &daemon->coordinator);
}

/* Break all groups that had partial results on the lost host. */
static void groups_fail(struct daemon *daemon, uint32_t host)
{
    uint32_t groups[64], count;
    char why[160];

    snprintf(why, sizeof why, "host %s was lost, and partial results of the group with it",
             daemon->config->hosts->name[host]);
    do {
        count = fabric_groups_through(daemon->fabric, host, groups, 64);
        for (uint32_t i = 0; i < count && i < 64; i++) {
            fabric_group_fails_all(daemon->fabric, groups[i]);
            daemon_group_fail(daemon, groups[i], why);
        }
    } while (count > 64);
}

/*
 * Handle the deaths of the lost hosts' processes first, so that the members of their groups are
 * notified of these deaths. Clients are marked as gone here, because the loop may not have seen the
 * end of their connections yet. A host that has already restarted must be admitted without any
 * state of its former incarnation.
 */
static void settle_gone(struct daemon *daemon)
{
    uint64_t gone = daemon->remote.gone;

    daemon->remote.gone = 0;
    if (gone) {
        emu_each_listed (struct client, client, &daemon->clients, link)
            client->gone = client->gone ||
                           (client->remote && coordinator_process_info(client->remote)->lost);
        daemon_reap(daemon);
    }
    emu_each_bit (host, gone)
        groups_fail(daemon, host);
}

/*
 * Return whether packets that were lost with a host are sent again over other routes. With
 * link-level retry, the segments that wait for a link are rerouted in flight instead.
 */
static bool reroutes(const struct daemon *daemon)
{
    return fabric_has_links(daemon->fabric) && !fabric_can_reroute_in_flight(daemon->fabric);
}

static int settle_lost(struct daemon *daemon, char *error, size_t error_bytes)
{
    int err;

    daemon->remote.lost_changed = false;
    if (reroutes(daemon))
        return daemon_faults_sever(daemon, daemon->remote.lost, error, error_bytes);
    err = fabric_sever(daemon->fabric, daemon->remote.lost);
    snprintf(error, error_bytes, "no memory to mark the lost cables");
    daemon->remote.severed = !err;
    daemon_notify_unreachable(daemon);
    return err;
}

/* Admit restarted hosts. settle_gone() has removed all state of their former incarnations. */
static void settle_back(struct daemon *daemon)
{
    uint64_t back = daemon->remote.back;

    daemon->remote.back = 0;
    emu_each_bit (host, back) {
        int err;

        daemon_operation(daemon);
        err = coordinator_admit(daemon->coordinator, host);

        if (!err &&
            /* after an error of coordinator_admit() the host is lost again */
            daemon_faults_reapply(daemon, host))
            coordinator_expel(daemon->coordinator, host,
                              "the active faults could not be applied there");
        if (!coordinator_is_lost(daemon->coordinator, host))
            daemon->remote.joins |= UINT64_C(1) << host;
    }
    timeline_serve_host_back(daemon);
}

/*
 * Handle cables that work again. If traffic was not rerouted, processes may have lost segments
 * since the last notification, so notify them once more before the cables count as working.
 */
static int settle_mended(struct daemon *daemon, char *error, size_t error_bytes)
{
    bool *mended = daemon->remote.mended, any = false;
    int err = 0;

    daemon->remote.mended_changed = false;
    if (daemon->remote.severed)
        daemon_notify_unreachable(daemon);
    for (uint32_t i = 0; i < fabric_cable_count(daemon->fabric); i++) {
        daemon->remote.lost[i] = daemon->remote.lost[i] && !mended[i];
        any |= daemon->remote.lost[i];
    }
    if (reroutes(daemon)) {
        daemon_faults_rejoin(daemon, mended);
    } else {
        err = fabric_sever(daemon->fabric, daemon->remote.lost);
        snprintf(error, error_bytes, "no memory to mark the lost cables");
        daemon->remote.severed = any;
    }
    memset(mended, 0, fabric_cable_count(daemon->fabric) * sizeof *mended);
    return err;
}

static void settle_joins(struct daemon *daemon)
{
    uint64_t joins = daemon->remote.joins;

    emu_each_bit (host, joins) {
        struct json_object *event;

        if (!coordinator_is_connected(daemon->coordinator, host))
            continue;
        daemon->remote.joins &= ~(UINT64_C(1) << host);
        event = json_add_number(conn_event("host_back"), "host", host);
        json_add_text(event, "name", daemon->config->hosts->name[host]);
        daemon_notify_owner(daemon, json_object_get(event));
        daemon_publish(daemon, event);
    }
}

void daemon_remote_settle(struct daemon *daemon)
{
    char error[256];

    daemon_operation(daemon);
    if (daemon->remote.lost_changed && settle_lost(daemon, error, sizeof error))
        print_message("%s", error);
    settle_gone(daemon);
    if (daemon->remote.back && daemon->due.admit) {
        settle_back(daemon);
    } else if (daemon->remote.back) {
        daemon->due.back = true;
        daemon_await(daemon);
    }
    daemon->due.admit = false;
    if (daemon->remote.mended_changed && settle_mended(daemon, error, sizeof error))
        print_message("%s", error);
    if (daemon->remote.joins)
        settle_joins(daemon);
}

void daemon_remote_tick(struct daemon *daemon)
{
    if (daemon->remote.severed)
        daemon_notify_unreachable(daemon);
}

void daemon_remote_close(struct daemon *daemon, const char *why)
{
    struct coordinator *hosts = daemon->coordinator;

    daemon->coordinator = NULL;
    coordinator_close(hosts, why);
    free(daemon->remote.lost);
    free(daemon->remote.mended);
    free(daemon->remote.affected);
}

void daemon_host_add(const struct daemon *daemon, uint32_t node, struct json_object *one)
{
    const struct coordinator_config *hosts = daemon->config->hosts;

    if (hosts)
        json_add_text(one, "host", hosts->name[fabric_node_host(daemon->config->fabric, node)]);
}

static struct json_object *host_build(const struct daemon *daemon, uint32_t host)
{
    const struct fabric_config *config = daemon->config->fabric;
    struct json_object *one = json_object_new_object(), *links;
    const struct fabric_totals *part = coordinator_totals_of(daemon->coordinator, host, &links);
    uint32_t nodes = 0, attached = 0;

    for (uint32_t n = 0; n < config->graph->nodes; n++) {
        bool is_there = fabric_node_host(config, n) == host;

        nodes += is_there;
        attached += is_there && daemon->by_node[n];
    }
    json_add_text(one, "host", daemon->config->hosts->name[host]);
    json_add_text(one, "state",
                  !host                                            ? "coordinator"
                  : coordinator_is_lost(daemon->coordinator, host) ? "lost"
                  : daemon->remote.joins >> host & 1               ? "joins"
                                                                   : "up");
    json_add_number(one, "nodes", nodes);
    json_add_number(one, "attached", attached);
    json_add_number(one, "groups_refused", coordinator_groups_refused(daemon->coordinator, host));
    report_traffic(one, part);
    json_object_object_add(one, "links", links ? links : json_object_new_array());
    return one;
}

void daemon_hosts_report(struct daemon *daemon, struct json_object *report)
{
    struct json_object *all;

    if (!daemon->coordinator)
        return;
    all = json_object_new_array();
    for (uint32_t h = 0; h < daemon->config->hosts->count; h++)
        json_object_array_add(all, host_build(daemon, h));
    json_object_object_add(report, "hosts", all);
}
