/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mirror.c - functions of struct fabric_mirror, which repeat the changes of the coordinator's
 * fabric on the replicas of the other hosts, and collect the counters of these hosts. Its other
 * functions are in views.c and faults.c.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "apps/fabric/comm.h"
#include "apps/cluster/coordinator/internal.h"
#include "emu/hostif/hostif.h"

static struct json_object *of_node(uint32_t node)
{
    return json_add_number(json_object_new_object(), "node", node);
}

/*
 * Send a change that cannot fail on any host. Do not wait for the replies, because thousands of
 * processes may die at the same time. But wait if earlier changes have filled the control channel
 * of a host.
 */
static void change_send(struct coordinator *coord, uint32_t only, const char *what,
                        struct json_object *with)
{
    bool full = false;

    for (uint32_t h = 1; h < coord->config.count; h++)
        full = full || (!coord->agent[h].lost && hosts_is_full(&coord->agent[h].conn));
    if (full)
        coordinator_do(coord, only, what, with, 0);
    else
        coordinator_notify(coord, only, what, with);
}

static int mirror_attach(void *ctx, uint32_t host, uint32_t node)
{
    coordinator_view_forget(ctx, host, node);
    return coordinator_call(ctx, host, "attach", of_node(node), NULL, NULL);
}

static void mirror_detach(void *ctx, uint32_t host, uint32_t node, bool dead)
{
    coordinator_view_forget(ctx, host, node);
    change_send(ctx, host, "detach", json_add_number(of_node(node), "dead", dead));
}

/*
 * If the process has attached, wait for the hosts, because all hosts must know the process before
 * it sends. If it has left, do not wait: deaths must not wait for a host that does not answer.
 */
static void mirror_incarnation(void *ctx, uint32_t node, uint64_t word)
{
    struct json_object *with = json_add_number(of_node(node), "word", word);

    if (emu_incarnation_attached(word))
        coordinator_do(ctx, 0, "node_incarnation", with, 0);
    else
        change_send(ctx, 0, "node_incarnation", with);
}

static void mirror_linked(void *ctx, uint32_t node, bool linked)
{
    coordinator_notify(ctx, 0, "linked", json_add_number(of_node(node), "linked", linked));
}

struct group_error {
    struct coordinator *coord;
    char *text;
    size_t bytes;
};

static void take_group(void *ctx, uint32_t host, struct json_object *reply)
{
    const struct group_error *error = ctx;
    int err = coordinator_error_of(reply, 0);

    if (!err)
        return;
    error->coord->agent[host].groups_refused++;
    snprintf(error->text, error->bytes, "host %s cannot make the group: %s",
             error->coord->config.name[host], strerror(-err));
}

/* A host that does not answer is lost, so the call fails only if a host reports an error. */
static int mirror_group(void *ctx, const struct fabric_group_call *group, char *error,
                        size_t error_bytes)
{
    struct json_object *with = json_object_new_object(), *nodes = json_object_new_array();
    struct group_error take = {ctx, error, error_bytes};

    for (uint32_t i = 0; i < group->count; i++)
        json_object_array_add(nodes, json_object_new_int64(group->nodes[i]));
    json_object_object_add(with, "nodes", nodes);
    json_add_number(with, "wide", group->wide);
    json_add_number(with, "group", group->id);
    return coordinator_call(ctx, 0, "group", with, take_group, &take) ? -ENOSPC : 0;
}

static void mirror_leave(void *ctx, uint32_t group, uint32_t node)
{
    change_send(ctx, 0, "leave", json_add_number(of_node(node), "group", group));
}

static void mirror_link(void *ctx, uint32_t cable, bool up, uint32_t fault)
{
    struct json_object *with = json_add_number(json_object_new_object(), "cable", cable);

    json_add_number(with, "up", up);
    coordinator_notify(ctx, 0, "link", json_add_number(with, "fault", fault));
}

static void mirror_reroute(void *ctx, const uint32_t *out, uint32_t count)
{
    struct json_object *with = json_object_new_object(), *cables = json_object_new_array();

    for (uint32_t i = 0; i < count; i++)
        json_object_array_add(cables, json_object_new_int64(out[i]));
    json_object_object_add(with, "out", cables);
    coordinator_do(ctx, 0, "reroute", with, 0);
}

static void mirror_cut_off(void *ctx, bool partitioned)
{
    coordinator_do(ctx, 0, "cut_off",
                   json_add_number(json_object_new_object(), "partitioned", partitioned), 0);
}

/*
 * Limits of a report on a host's links. The coordinator keeps the report, and each report on the
 * fabric includes it. Without limits a host could make these reports too long to be sent.
 */
#define LINKS_MOST       512u /* 64 hosts, connected by 8 pairs of ports */
#define LINK_FIELDS_MOST 32
#define LINK_NAME_MOST   64u

static bool is_name(struct json_object *value)
{
    const char *at = json_object_is_type(value, json_type_string) ? json_object_get_string(value)
                                                                  : "\n";

    for (size_t i = 0; i <= LINK_NAME_MOST && *at >= ' ' && *at <= '~'; i++)
        at++;
    return !*at;
}

/* Return a new reference to the report on a host's links; NULL if it is invalid. */
static struct json_object *links_of(struct json_object *reply)
{
    struct json_object *links = json_object_object_get(reply, "links");

    if (!json_object_is_type(links, json_type_array) ||
        json_object_array_length(links) > LINKS_MOST)
        return NULL;
    for (size_t i = 0; i < json_object_array_length(links); i++) {
        struct json_object *link = json_object_array_get_idx(links, i);

        if (!json_object_is_type(link, json_type_object) ||
            json_object_object_length(link) > LINK_FIELDS_MOST)
            return NULL;
        json_object_object_foreach(link, name, value)
        {
            if (strlen(name) > LINK_NAME_MOST ||
                (strcmp(name, "host") != 0 ? !json_object_is_type(value, json_type_int)
                                           : !is_name(value)))
                return NULL;
        }
    }
    return json_object_get(links);
}

static void add_totals(void *ctx, uint32_t host, struct json_object *reply)
{
    struct coordinator *coord = ctx;
    struct json_object *field;

    if (json_object_object_get_ex(reply, "totals", &field)) {
        coord->totals[host].real_time_factor = INFINITY;
        hosts_totals_add(&coord->totals[host], field);
        hosts_totals_add(coord->sum, field);
    }
    json_object_put(coord->agent[host].links);
    coord->agent[host].links = links_of(reply);
}

static void mirror_totals(void *ctx, struct fabric_totals *sum)
{
    struct coordinator *coord = ctx;

    memset(coord->totals, 0, sizeof coord->totals);
    coord->totals[0] = *sum;
    coord->sum = sum;
    coordinator_query_all(coord, "totals", json_object_new_object(), add_totals, coord);
    coord->sum = NULL;
}

struct comms {
    const struct fabric_config *config;
    struct fabric_comm *sum;
    /* by host: number of the first pair that the host has not sent yet; 0: it has sent all pairs */
    int64_t next[HOSTS_MAX];
};

static void add_comm(void *ctx, uint32_t host, struct json_object *reply)
{
    struct json_object *comm = json_object_object_get(reply, "comm");
    struct comms *comms = ctx;

    hosts_comm_add(comms->sum, comms->config, host, comm);
    comms->next[host] = emu_json_number(comm, "next", 0);
}

/*
 * Fetch the pairs for which the first reply had no space. Accept at most as many replies as
 * FABRIC_PAIRS_MOST pairs need.
 */
static void rest_of_comm(struct coordinator *coord, uint32_t h, struct comms *comms)
{
    uint32_t left = FABRIC_PAIRS_MOST / HOSTS_PAIRS_MOST + 1;
    int64_t from = 0;

    while (comms->next[h] > from && left--) {
        from = comms->next[h];
        comms->next[h] = 0;
        coordinator_call_next(coord, h, "comm",
                              json_add_number(json_object_new_object(), "from", (uint64_t)from),
                              add_comm, comms);
    }
    if (comms->next[h] > from)
        coordinator_lose(&coord->agent[h], "its list of communicating pairs has no end");
}

static void mirror_comm(void *ctx, struct fabric_comm *sum)
{
    struct coordinator *coord = ctx;
    struct comms comms = {.config = fabric_config_of(coord->config.fabric), .sum = sum};

    coordinator_call(coord, 0, "comm", json_object_new_object(), add_comm, &comms);
    for (uint32_t h = 1; h < coord->config.count; h++)
        rest_of_comm(coord, h, &comms);
}

uint64_t coordinator_groups_refused(const struct coordinator *coord, uint32_t host)
{
    return host ? coord->agent[host].groups_refused : 0;
}

const struct fabric_totals *coordinator_totals_of(const struct coordinator *coord, uint32_t host,
                                                  struct json_object **links)
{
    const struct coordinator_config *config = &coord->config;

    if (host)
        *links = json_object_get(coord->agent[host].links);
    else
        *links = config->links_report ? config->links_report(config->links_ctx) : NULL;
    return &coord->totals[host];
}

void coordinator_mirror_open(struct coordinator *coord)
{
    coord->mirror =
        (struct fabric_mirror){.ctx = coord,
                               .attach = mirror_attach,
                               .detach = mirror_detach,
                               .incarnation = mirror_incarnation,
                               .linked = mirror_linked,
                               .group = mirror_group,
                               .leave = mirror_leave,
                               .link = mirror_link,
                               .reroute = mirror_reroute,
                               .cut_off = mirror_cut_off,
                               .totals = mirror_totals,
                               .comm = mirror_comm,
                               .no_link = coordinator_mirror_no_link,
                               .failed = coordinator_mirror_failed,
                               .unit_out = coordinator_mirror_unit_out,
                               .test = coordinator_mirror_test,
                               .reroute_in_flight = coordinator_mirror_reroute_in_flight,
                               .scan = coordinator_mirror_scan,
                               .drops = coordinator_mirror_drops,
                               .pending = coordinator_view_pending,
                               .starved = coordinator_view_starved,
                               .arrived = coordinator_view_arrived,
                               .mismatch = coordinator_view_mismatch,
                               .stalls = coordinator_view_stalls,
                               .audit = coordinator_view_audit};
}

const struct fabric_mirror *coordinator_mirror(struct coordinator *coord)
{
    return &coord->mirror;
}
