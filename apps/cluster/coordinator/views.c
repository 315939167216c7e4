/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * views.c - queries about the state of other hosts' devices and processes, for the coordinator's
 * fabric. agent/queries.c is the other side.
 *
 * Pending operations are fetched from all hosts together, and at most twice a second, even if the
 * caller needs only those of one process.
 */
#include <stdlib.h>
#include <string.h>

#include "apps/control/conn.h"
#include "apps/fabric/stalls.h"
#include "apps/cluster/coordinator/internal.h"
#include "emu/buffer/combiner.h"
#include "emu/hostif/pending.h"
#include "emu/util/count.h"
#include "emu/util/now.h"

#define PENDING_OLD_NS 500000000u
/* size of a node's number in decimal, which is the name of its block of pending operations */
#define NODE_NAME_BYTES 12

/* --- pending operations --------------------------------------------------------------- */

/*
 * Copy each node's block of pending operations from @reply to @kept. Drop other fields, with which
 * a host could fill this host's memory.
 */
static void blocks_take(const struct coordinator *coord, struct json_object *reply,
                        struct json_object *kept)
{
    json_object_object_foreach(reply, name, digits)
    {
        uint32_t node = (uint32_t)strtoul(name, NULL, 10);
        char own[NODE_NAME_BYTES];

        snprintf(own, sizeof own, "%u", node);
        if (strcmp(name, own) == 0 && node < fabric_graph(coord->config.fabric)->nodes &&
            json_object_is_type(digits, json_type_string) &&
            (size_t)json_object_get_string_len(digits) <= 2 * sizeof(struct emu_pending))
            json_object_object_add(kept, own, json_object_get(digits));
    }
}

/*
 * Add the time for which the host's threads had no core since its last report. After a restart the
 * host counts this time from 0 again.
 */
static void starved_take(struct coordinator_agent *agent, uint64_t starved_ns)
{
    if (starved_ns > agent->starved_ns)
        emu_sum(&agent->more_starved_ns, starved_ns - agent->starved_ns);
    agent->starved_ns = starved_ns;
}

uint64_t coordinator_view_starved(void *ctx)
{
    struct coordinator *coord = ctx;
    uint64_t most_ns = 0;

    for (uint32_t h = 1; h < coord->config.count; h++) {
        struct coordinator_agent *agent = &coord->agent[h];

        most_ns = agent->more_starved_ns > most_ns ? agent->more_starved_ns : most_ns;
        agent->more_starved_ns = 0;
    }
    return most_ns;
}

static void pending_take(void *ctx, uint32_t host, struct json_object *reply)
{
    struct coordinator *coord = ctx;
    struct coordinator_pending *pending = &coord->agent[host].pending;
    struct json_object *blocks = json_object_object_get(reply, "pending");

    starved_take(&coord->agent[host], (uint64_t)emu_json_number(reply, "starved_ns", 0));
    pending->next = emu_json_number(reply, "next", 0);
    pending->there_ns = (uint64_t)emu_json_number(reply, "now_ns", 0);
    pending->here_ns = emu_now_ns();
    if (!json_object_is_type(blocks, json_type_object))
        return;
    if (!pending->blocks)
        pending->blocks = json_object_new_object();
    blocks_take(coord, blocks, pending->blocks);
}

static void pending_forget(struct coordinator_pending *pending)
{
    json_object_put(pending->blocks);
    *pending = (struct coordinator_pending){0};
}

/*
 * Fetch the operations that did not fit into the first reply. Accept only as many replies as the
 * operations of all nodes need.
 */
static void pending_rest(struct coordinator *coord, uint32_t h)
{
    uint64_t all = (uint64_t)fabric_graph(coord->config.fabric)->nodes * 2 *
                   sizeof(struct emu_pending);
    struct coordinator_pending *pending = &coord->agent[h].pending;
    uint64_t left = all / HOSTS_BLOCKS_MOST + 1;
    int64_t from = 0;

    while (pending->next > from && left--) {
        from = pending->next;
        pending->next = 0;
        coordinator_call_next(coord, h, "pending",
                              json_add_number(json_object_new_object(), "from", (uint64_t)from),
                              pending_take, coord);
    }
    if (pending->next > from)
        coordinator_lose(&coord->agent[h], "its list of pending operations has no end");
}

static void pending_fetch(struct coordinator *coord)
{
    for (uint32_t h = 1; h < coord->config.count; h++)
        pending_forget(&coord->agent[h].pending);
    coordinator_call(coord, 0, "pending", json_object_new_object(), pending_take, coord);
    for (uint32_t h = 1; h < coord->config.count; h++)
        pending_rest(coord, h);
}

bool coordinator_view_pending(void *ctx, uint32_t host, uint32_t node, struct emu_pending *ret)
{
    struct coordinator *coord = ctx;
    struct coordinator_pending *pending = &coord->agent[host].pending;
    uint64_t now_ns = emu_now_ns();
    uint64_t *asked_ns = &coord->asked_ns;
    char name[NODE_NAME_BYTES];
    size_t bytes;

    /* use the old data while some host has not answered a query: it would delay the fetch */
    if (now_ns - *asked_ns >= PENDING_OLD_NS && !coord->query[COORDINATOR_ANSWER].waits &&
        !coord->query[COORDINATOR_AUDIT].waits) {
        *asked_ns = now_ns;
        pending_fetch(coord);
    }
    if (!pending->blocks)
        return false;
    snprintf(name, sizeof name, "%u", node);
    memset(ret, 0, sizeof *ret);
    bytes = hosts_from_hex(json_object_object_get(pending->blocks, name), ret, sizeof *ret);
    if (bytes < offsetof(struct emu_pending, group))
        return false;
    if (bytes < offsetof(struct emu_pending, group) + ret->groups * sizeof ret->group[0])
        ret->groups = 0;
    emu_pending_shift(ret, pending->there_ns, pending->here_ns);
    return ret->written_ns;
}

void coordinator_view_forget(struct coordinator *coord, uint32_t host, uint32_t node)
{
    struct coordinator_pending *pending = &coord->agent[host].pending;
    char name[NODE_NAME_BYTES];

    snprintf(name, sizeof name, "%u", node);
    if (pending->blocks)
        json_object_object_del(pending->blocks, name);
}

/* --- a collective ------------------------------------------------------------------------ */

static struct json_object *of_group(uint32_t group)
{
    return json_add_number(json_object_new_object(), "group", group);
}

struct arrived_list {
    const struct fabric *fabric;
    uint32_t group;
    struct fabric_arrived *at;
    uint32_t count, max;
    uint32_t ports; /* number of ports of the largest switch */
};

static bool arrived_has(const struct arrived_list *arrived, uint32_t at)
{
    for (uint32_t i = 0; i < arrived->count; i++)
        if (arrived->at[i].at == at)
            return true;
    return false;
}

/*
 * Accept each switch or node once, and only from its own host, so that no host can use up the space
 * for other hosts. A correct reply has at most arrived->max switches or nodes.
 */
static void arrived_take(void *ctx, uint32_t host, struct json_object *reply)
{
    struct json_object *list = json_object_object_get(reply, "arrived");
    struct arrived_list *arrived = ctx;
    size_t end = (1 + EMU_PORT_WORDS) * (size_t)arrived->max;

    for (size_t i = 0; i < end && i < emu_json_count(list) && arrived->count < arrived->max;
         i += 1 + EMU_PORT_WORDS) {
        struct fabric_arrived *at = &arrived->at[arrived->count];

        at->at = (uint32_t)hosts_number_at(list, i);
        if (hosts_ports_read(&at->ports, list, i + 1, arrived->ports) &&
            fabric_arrived_is_on(arrived->fabric, arrived->group, at->at, host) &&
            !arrived_has(arrived, at->at))
            arrived->count++;
    }
}

uint32_t coordinator_view_arrived(void *ctx, uint32_t group, uint32_t seq,
                                  struct fabric_arrived *ret, uint32_t max)
{
    const struct coordinator *coord = ctx;
    struct arrived_list arrived = {.fabric = coord->config.fabric,
                                   .group = group,
                                   .at = ret,
                                   .max = max,
                                   .ports = fabric_graph(coord->config.fabric)->ports};

    coordinator_call(ctx, 0, "arrived", json_add_number(of_group(group), "seq", seq), arrived_take,
                     &arrived);
    return arrived.count;
}

struct mismatch_take {
    const struct fabric *fabric;
    uint32_t group;
    struct emu_mismatch *mismatch;
};

static void mismatch_take(void *ctx, uint32_t host, struct json_object *reply)
{
    struct json_object *digits = json_object_object_get(reply, "mismatch");
    const struct mismatch_take *take = ctx;
    struct emu_mismatch copy;

    if (!take->mismatch->seen && fabric_has_group(take->fabric, take->group, host) &&
        hosts_from_hex(digits, &copy, sizeof copy) == sizeof copy &&
        fabric_mismatch_names(take->fabric, take->group, &copy)) {
        *take->mismatch = copy;
        take->mismatch->seen = true;
    }
}

bool coordinator_view_mismatch(void *ctx, uint32_t group, struct emu_mismatch *ret)
{
    const struct coordinator *coord = ctx;
    struct mismatch_take take = {coord->config.fabric, group, ret};

    *ret = (struct emu_mismatch){.seen = false};
    coordinator_call(ctx, 0, "mismatch", of_group(group), mismatch_take, &take);
    return ret->seen;
}

/* --- links ------------------------------------------------------------------------------- */

struct stalls_list {
    const struct fabric *fabric;
    struct fabric_stall *at;
    uint32_t count, max;
    uint64_t now_ns;
};

/* Use at most half of the space that is left, so that the other hosts can report stalls, too. */
static void stalls_take(void *ctx, uint32_t host, struct json_object *reply)
{
    struct json_object *list = json_object_object_get(reply, "stalls");
    struct stalls_list *stalls = ctx;
    uint32_t max = stalls->count + (stalls->max - stalls->count + 1) / 2;

    for (size_t i = 0; i + HOSTS_STALL <= emu_json_count(list) && stalls->count < max;
         i += HOSTS_STALL) {
        uint64_t age_ns = hosts_number_at(list, i + 4);
        struct fabric_stall *stall = &stalls->at[stalls->count];

        *stall = (struct fabric_stall){
            .node = (uint32_t)hosts_number_at(list, i),
            .sw = (uint32_t)hosts_number_at(list, i + 1),
            .port = (uint32_t)hosts_number_at(list, i + 2),
            .wait = (enum fabric_wait)hosts_number_at(list, i + 3),
            .since_ns = stalls->now_ns > age_ns ? stalls->now_ns - age_ns : 0,
        };
        stalls->count += fabric_stall_is_on(stalls->fabric, stall, host);
    }
}

uint32_t coordinator_view_stalls(void *ctx, uint64_t now_ns, struct fabric_stall *ret, uint32_t max)
{
    const struct coordinator *coord = ctx;
    struct stalls_list stalls = {.fabric = coord->config.fabric,
                                 .at = ret,
                                 .max = max,
                                 .now_ns = now_ns};

    coordinator_call(ctx, 0, "stalls", json_object_new_object(), stalls_take, &stalls);
    return stalls.count;
}
