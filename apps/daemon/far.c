/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * far.c - processes on other hosts, what follows when a host, or a link between two, is lost, and
 * how hosts are told of.
 *
 * A host that is lost takes its processes with it: their connections end, and that is a death like
 * others (death.c). Its cables lead nowhere. So do those between two hosts that have lost each
 * other while both still hear the governor. Where packets are acknowledged the manager takes these
 * cables out for good (manager_sever()), and traffic goes by other ways; else whoever may send by
 * one of them is told that no way leads there, again and again for what is posted meanwhile.
 *
 * A host that is started again is let in with the state that all have (hosts_admit()). Its cables
 * lead somewhere again when the host links below them do (apps/cluster/coordinator/mend.c):
 * from there on the manager brings them up as any others. So do those between two hosts that find
 * each other again.
 *
 * All of that is noted where it is heard of, which may be in the middle of a call to other hosts,
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
#include "apps/daemon/report.h"
#include "apps/base/say.h"
#include "emu/util/bits.h"

static int on_connected(void *ctx, int fd, struct hosts_process *process, const char **why)
{
    struct daemon *daemon = ctx;
    struct client *client;

    *why = door_refuses(&daemon->door, fd, hosts_of(process), hosts_pid(process));
    if (*why)
        return -EMFILE;
    *why = DOOR_NO_MEMORY;
    client = daemon_client_new(daemon, fd, hosts_pid(process));
    if (!client)
        return -ENOMEM;
    client->far = process;
    return 0;
}

/* Their cables by pair @number of @of pairs of ports, or all, lead nowhere. */
static void cables_lost(struct daemon *daemon, uint32_t a, uint32_t b, uint32_t number, uint32_t of)
{
    uint32_t cables = fabric_cable_count(daemon->fabric);
    bool *now = daemon->far.now; /* these alone: others that were lost may have been mended since */

    memset(now, 0, cables * sizeof *now);
    fabric_crossings_by(daemon->fabric, a, b, number, of, now);
    for (uint32_t i = 0; i < cables; i++) {
        daemon->far.lost[i] = daemon->far.lost[i] || now[i];
        daemon->far.mended[i] = daemon->far.mended[i] && !now[i];
    }
    daemon->far.news = true;
}

static void on_lost(void *ctx, uint32_t host, const char *why)
{
    struct daemon *daemon = ctx;
    struct json_object *event;

    if (!daemon->hosts)
        return; /* not all have been met, or the end has come */
    event = json_add_number(conn_event("host_lost"), "host", host);
    cables_lost(daemon, host, TOPO_NONE, 0, 1);
    daemon->far.gone |= UINT64_C(1) << host;
    daemon->far.back &= ~(UINT64_C(1) << host);
    daemon->far.joins &= ~(UINT64_C(1) << host);
    json_add_text(event, "name", daemon->config->hosts->name[host]);
    json_add_text(event, "why", why);
    daemon_tell_owner(daemon, json_object_get(event));
    daemon_tell_all(daemon, event);
    telemetry_serve_host_lost(daemon, host);
    timeline_serve_host_lost(daemon, host);
}

static bool on_sampled(void *ctx, const struct hosts_piece *piece)
{
    return piece->of == HOSTS_COUNTED ? telemetry_serve_heard(ctx, piece)
                                      : timeline_serve_heard(ctx, piece);
}

static void on_sampled_all(void *ctx, enum hosts_told of)
{
    if (of == HOSTS_COUNTED)
        telemetry_serve_heard_all(ctx);
}

static void on_link_lost(void *ctx, uint32_t host, const struct hosts_link *link)
{
    struct daemon *daemon = ctx;
    struct json_object *event = json_add_number(conn_event("host_link_lost"), "pair", link->number);

    cables_lost(daemon, host, link->host, link->number, link->of);
    json_add_text(event, "host", daemon->config->hosts->name[host]);
    daemon_tell_all(daemon, json_add_text(event, "to", daemon->config->hosts->name[link->host]));
}

static void on_back(void *ctx, uint32_t host)
{
    struct daemon *daemon = ctx;

    daemon->far.back |= UINT64_C(1) << host;
}

static void on_mended(void *ctx, uint32_t a, uint32_t b)
{
    struct daemon *daemon = ctx;

    fabric_crossings_by(daemon->fabric, a, b, 0, 1, daemon->far.mended);
    daemon->far.heals = true;
}

static void tell_refused(struct daemon *daemon, const char *what, uint32_t host, const char *why)
{
    struct json_object *event = json_add_number(conn_event(what), "host", host);

    json_add_text(event, "name", daemon->config->hosts->name[host]);
    json_add_text(event, "why", why);
    daemon_tell_owner(daemon, json_object_get(event));
    daemon_tell_all(daemon, event);
}

static void on_refused(void *ctx, uint32_t host, const char *why)
{
    tell_refused(ctx, "host_refused", host, why);
}

static void on_knock(void *ctx, uint32_t host, const char *why)
{
    tell_refused(ctx, "host_knock", host, why);
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
    daemon->far.mended =
        calloc(fabric_cable_count(daemon->fabric) + 1u, sizeof *daemon->far.mended);
    daemon->far.now = calloc(fabric_cable_count(daemon->fabric) + 1u, sizeof *daemon->far.now);
    if (!daemon->far.lost || !daemon->far.mended || !daemon->far.now)
        return fail(-ENOMEM, error, error_bytes, "no memory for %u hosts", config.count);
    config.fabric = daemon->fabric;
    config.signal_fd = daemon->config->signal_fd;
    config.owner_fd = daemon->owner->conn.fd;
    config.ops = (struct hosts_ops){.connected = on_connected,
                                    .lost = on_lost,
                                    .link_lost = on_link_lost,
                                    .cut_off = on_cut_off,
                                    .back = on_back,
                                    .mended = on_mended,
                                    .refused = on_refused,
                                    .knock = on_knock,
                                    .sampled = on_sampled,
                                    .sampled_all = on_sampled_all,
                                    .ctx = daemon};
    daemon_tell_owner(daemon, conn_event("meets")); /* its wait for the start begins again */
    err = hosts_open(&daemon->hosts, &config, error, error_bytes);
    if (err)
        return err;
    fabric_mirror(daemon->fabric, hosts_mirror(daemon->hosts));
    return epoll_ctl(daemon->epoll, EPOLL_CTL_ADD, hosts_fd(daemon->hosts), &event) < 0 ? -errno
                                                                                        : 0;
}

/* What adapters and units there had combined is lost, and the groups are over. */
static void groups_over(struct daemon *daemon, uint32_t host)
{
    uint32_t groups[64], count;
    char why[160];

    snprintf(why, sizeof why, "what host %s had of it was lost with the host",
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
 * After its processes' deaths, of which their groups hear first. The ends of their connections may
 * be yet to be seen, and the host back already, which is to be given nothing of its former life.
 */
static void settle_gone(struct daemon *daemon)
{
    uint64_t gone = daemon->far.gone;

    daemon->far.gone = 0;
    if (gone) {
        emu_each_listed (struct client, client, &daemon->clients, link)
            client->gone = client->gone || (client->far && hosts_has_lost(client->far));
        daemon_bury(daemon);
    }
    emu_each_bit (host, gone)
        groups_over(daemon, host);
}

/* Is what a lost host had of it sent again, by other ways? */
static bool goes_round(const struct daemon *daemon)
{
    return fabric_has_links(daemon->fabric) && !fabric_can_carry(daemon->fabric);
}

static int settle_lost(struct daemon *daemon, char *error, size_t error_bytes)
{
    int err;

    daemon->far.news = false;
    if (goes_round(daemon))
        return daemon_faults_lose(daemon, daemon->far.lost, error, error_bytes);
    err = fabric_sever(daemon->fabric, daemon->far.lost);
    snprintf(error, error_bytes, "no memory for cables that are lost");
    daemon->far.severed = !err;
    daemon_parted(daemon);
    return err;
}

/* Nothing of its former life is left in the state that it is given. */
static void settle_back(struct daemon *daemon)
{
    uint64_t back = daemon->far.back;

    daemon->far.back = 0;
    emu_each_bit (host, back) {
        int err = hosts_admit(daemon->hosts, host);

        if (!err && daemon_faults_again(daemon, host)) /* what is lost again has said so */
            hosts_expel(daemon->hosts, host, "faults cannot be made there");
        if (!hosts_is_lost(daemon->hosts, host))
            daemon->far.joins |= UINT64_C(1) << host;
    }
    timeline_serve_host_back(daemon);
}

/*
 * They carry segments again. Where nothing is sent around what is lost, those who may have lost
 * something since they were told last are told once more, before it is taken for whole.
 */
static int settle_mended(struct daemon *daemon, char *error, size_t error_bytes)
{
    bool *mended = daemon->far.mended, any = false;
    int err = 0;

    daemon->far.heals = false;
    if (daemon->far.severed)
        daemon_parted(daemon);
    for (uint32_t i = 0; i < fabric_cable_count(daemon->fabric); i++) {
        daemon->far.lost[i] = daemon->far.lost[i] && !mended[i];
        any |= daemon->far.lost[i];
    }
    if (goes_round(daemon)) {
        daemon_faults_mend(daemon, mended);
    } else {
        err = fabric_sever(daemon->fabric, daemon->far.lost);
        snprintf(error, error_bytes, "no memory for cables that are lost");
        daemon->far.severed = any;
    }
    memset(mended, 0, fabric_cable_count(daemon->fabric) * sizeof *mended);
    return err;
}

/* Whose links are all up. */
static void settle_joins(struct daemon *daemon)
{
    uint64_t joins = daemon->far.joins;

    emu_each_bit (host, joins) {
        struct json_object *event;

        if (!hosts_is_whole(daemon->hosts, host))
            continue;
        daemon->far.joins &= ~(UINT64_C(1) << host);
        event = json_add_number(conn_event("host_back"), "host", host);
        json_add_text(event, "name", daemon->config->hosts->name[host]);
        daemon_tell_owner(daemon, json_object_get(event));
        daemon_tell_all(daemon, event);
    }
}

void daemon_far_settle(struct daemon *daemon)
{
    char error[256];
    int err = 0;

    if (daemon->far.news)
        err = settle_lost(daemon, error, sizeof error);
    if (err)
        say("%s", error);
    err = 0;
    settle_gone(daemon);
    if (daemon->far.back)
        settle_back(daemon);
    if (daemon->far.heals)
        err = settle_mended(daemon, error, sizeof error);
    if (daemon->far.joins)
        settle_joins(daemon);
    if (err)
        say("%s", error);
}

void daemon_far_tick(struct daemon *daemon)
{
    if (daemon->far.severed)
        daemon_parted(daemon);
}

void daemon_far_close(struct daemon *daemon, const char *why)
{
    struct hosts *hosts = daemon->hosts;

    daemon->hosts = NULL;
    hosts_close(hosts, why);
    free(daemon->far.lost);
    free(daemon->far.mended);
    free(daemon->far.now);
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
                  : daemon->far.joins >> host & 1      ? "joins"
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
