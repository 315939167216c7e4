/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mirror.c - what the governor's fabric has the parts at other hosts do: struct fabric_mirror.
 * views.c and faults.c have the rest of it.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "apps/fabric/comm.h"
#include "apps/cluster/coordinator/internal.h"

static struct json_object *of_node(uint32_t node)
{
    return json_add_number(json_object_new_object(), "node", node);
}

static int mirror_attach(void *ctx, uint32_t host, uint32_t node)
{
    hosts_view_forget(ctx, host, node);
    return hosts_call(ctx, host, "attach", of_node(node), NULL, NULL);
}

static void mirror_detach(void *ctx, uint32_t host, uint32_t node, bool dead)
{
    hosts_view_forget(ctx, host, node);
    hosts_do(ctx, host, "detach", json_add_number(of_node(node), "dead", dead), 0);
}

static void mirror_seat(void *ctx, uint32_t node, uint64_t word)
{
    hosts_do(ctx, 0, "seat", json_add_number(of_node(node), "word", word), 0);
}

static void mirror_linked(void *ctx, uint32_t node, bool linked)
{
    hosts_tell(ctx, "linked", json_add_number(of_node(node), "linked", linked));
}

static int mirror_group(void *ctx, const struct fabric_group_call *group)
{
    struct json_object *with = json_object_new_object(), *nodes = json_object_new_array();

    for (uint32_t i = 0; i < group->count; i++)
        json_object_array_add(nodes, json_object_new_int64(group->nodes[i]));
    json_object_object_add(with, "nodes", nodes);
    json_add_number(with, "wide", group->wide);
    json_add_number(with, "group", group->id);
    return hosts_call(ctx, 0, "group", with, NULL, NULL);
}

static void mirror_leave(void *ctx, uint32_t group, uint32_t node)
{
    /* one that could not make it has none */
    hosts_do(ctx, 0, "leave", json_add_number(of_node(node), "group", group), -ENOENT);
}

static void mirror_link(void *ctx, uint32_t cable, bool up, uint32_t fault)
{
    struct json_object *with = json_add_number(json_object_new_object(), "cable", cable);

    json_add_number(with, "up", up);
    hosts_tell(ctx, "link", json_add_number(with, "fault", fault));
}

static void mirror_reroute(void *ctx, const uint32_t *out, uint32_t count)
{
    struct json_object *with = json_object_new_object(), *cables = json_object_new_array();

    for (uint32_t i = 0; i < count; i++)
        json_object_array_add(cables, json_object_new_int64(out[i]));
    json_object_object_add(with, "out", cables);
    hosts_do(ctx, 0, "reroute", with, 0);
}

static void mirror_cut_off(void *ctx, bool parted)
{
    hosts_do(ctx, 0, "cut_off", json_add_number(json_object_new_object(), "parted", parted), 0);
}

static bool is_name(struct json_object *value)
{
    const char *at = json_object_is_type(value, json_type_string) ? json_object_get_string(value)
                                                                  : "\n";

    while (*at >= ' ' && *at <= '~')
        at++;
    return !*at;
}

/* A host's report about its links in the form of links_report(); NULL: it has another form. */
static struct json_object *links_of(struct json_object *reply)
{
    struct json_object *links = json_object_object_get(reply, "links");

    if (!json_object_is_type(links, json_type_array))
        return NULL;
    for (size_t i = 0; i < json_object_array_length(links); i++) {
        struct json_object *link = json_object_array_get_idx(links, i);

        if (!json_object_is_type(link, json_type_object))
            return NULL;
        json_object_object_foreach(link, name, value)
        {
            if (strcmp(name, "host") != 0 ? !json_object_is_type(value, json_type_int)
                                          : !is_name(value))
                return NULL;
        }
    }
    return json_object_get(links);
}

static void add_totals(void *ctx, uint32_t host, struct json_object *reply)
{
    struct hosts *hosts = ctx;
    struct json_object *field;

    if (json_object_object_get_ex(reply, "totals", &field)) {
        hosts->part[host].real_time_factor = INFINITY;
        hosts_totals_add(&hosts->part[host], field);
        hosts_totals_add(hosts->sum, field);
    }
    json_object_put(hosts->far[host].links);
    hosts->far[host].links = links_of(reply);
}

static void mirror_totals(void *ctx, struct fabric_totals *sum)
{
    struct hosts *hosts = ctx;

    memset(hosts->part, 0, sizeof hosts->part);
    hosts->part[0] = *sum;
    hosts->sum = sum;
    hosts_ask(hosts, "totals", json_object_new_object(), add_totals, hosts);
    hosts->sum = NULL;
}

struct comms {
    struct fabric_comm *sum;
    int64_t next[HOSTS_MAX]; /* by host: pairs from that number on were not told yet; 0: all were */
};

static void add_comm(void *ctx, uint32_t host, struct json_object *reply)
{
    struct json_object *comm = json_object_object_get(reply, "comm");
    struct comms *comms = ctx;

    hosts_comm_add(comms->sum, comm);
    comms->next[host] = emu_json_number(comm, "next", 0);
}

/* The pairs for which a message has no room. An honest host has told all after so many times. */
static void rest_of_comm(struct hosts *hosts, uint32_t h, struct comms *comms)
{
    uint32_t left = FABRIC_PAIRS_MOST / HOSTS_PAIRS_MOST + 1;
    int64_t from = 0;

    while (comms->next[h] > from && left--) {
        from = comms->next[h];
        comms->next[h] = 0;
        hosts_call(hosts, h, "comm",
                   json_add_number(json_object_new_object(), "from", (uint64_t)from), add_comm,
                   comms);
    }
    if (comms->next[h] > from)
        hosts_lose(&hosts->far[h], "what its processes have sent has no end");
}

static void mirror_comm(void *ctx, struct fabric_comm *sum)
{
    struct comms comms = {.sum = sum};
    struct hosts *hosts = ctx;

    hosts_call(hosts, 0, "comm", json_object_new_object(), add_comm, &comms);
    for (uint32_t h = 1; h < hosts->config.count; h++)
        rest_of_comm(hosts, h, &comms);
}

const struct fabric_totals *hosts_part(const struct hosts *hosts, uint32_t host,
                                       struct json_object **links)
{
    const struct hosts_config *config = &hosts->config;

    if (host)
        *links = json_object_get(hosts->far[host].links);
    else
        *links = config->links_report ? config->links_report(config->links_ctx) : NULL;
    return &hosts->part[host];
}

void hosts_mirror_open(struct hosts *hosts)
{
    hosts->mirror = (struct fabric_mirror){.ctx = hosts,
                                           .attach = mirror_attach,
                                           .detach = mirror_detach,
                                           .seat = mirror_seat,
                                           .linked = mirror_linked,
                                           .group = mirror_group,
                                           .leave = mirror_leave,
                                           .link = mirror_link,
                                           .reroute = mirror_reroute,
                                           .cut_off = mirror_cut_off,
                                           .totals = mirror_totals,
                                           .comm = mirror_comm,
                                           .alone = hosts_mirror_alone,
                                           .failed = hosts_mirror_failed,
                                           .unit_out = hosts_mirror_unit_out,
                                           .test = hosts_mirror_test,
                                           .carry = hosts_mirror_carry,
                                           .look = hosts_mirror_look,
                                           .losses = hosts_mirror_losses,
                                           .pending = hosts_view_pending,
                                           .came = hosts_view_came,
                                           .clash = hosts_view_clash,
                                           .stalls = hosts_view_stalls,
                                           .audit = hosts_view_audit};
}

const struct fabric_mirror *hosts_mirror(struct hosts *hosts)
{
    return &hosts->mirror;
}
