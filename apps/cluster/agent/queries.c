/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queries.c - an agent's reports on the devices and processes of its host: pending operations of
 * processes, contributions to a collective, stalled links, the audit. The comment before a query
 * shows the fields of its reply.
 *
 * Replies are lists of numbers, with two exceptions: pending operations of a process, and
 * mismatches, are sent as the bytes of a structure in hexadecimal digits. This works because all
 * hosts run the same version of fabemu.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/audit/audit.h"
#include "apps/control/conn.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/stalls.h"
#include "apps/cluster/agent/internal.h"
#include "emu/buffer/combiner.h"
#include "emu/hostif/pending.h"
#include "emu/util/now.h"

/* --- processes ------------------------------------------------------------------------ */

/*
 * {"pending":{NODE:DIGITS,…},"now_ns":T,"starved_ns":T}, and "next":NODE if the reply has no space
 * for the operations of NODE and later nodes
 */
static int query_pending(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    struct fabric *fabric = agent->fabric;
    struct json_object *blocks = json_object_new_object();
    int64_t from = emu_json_number(call, "from", 0);
    size_t sum = 0;

    json_add_number(reply, "now_ns", emu_now_ns());
    json_add_number(reply, "starved_ns", fabric_starved_ns(fabric));
    json_object_object_add(reply, "pending", blocks);
    for (int64_t i = from < 0 ? 0 : from; i < fabric_graph(fabric)->nodes; i++) {
        uint32_t n = (uint32_t)i;
        struct emu_pending pending;
        char name[12];
        size_t bytes;

        if (!fabric_node_is_here(fabric, n) || !fabric_pending(fabric, n, &pending))
            continue;
        if (sum > HOSTS_BLOCKS_MOST) {
            json_add_number(reply, "next", n);
            break;
        }
        bytes = offsetof(struct emu_pending, group) + pending.groups * sizeof pending.group[0];
        snprintf(name, sizeof name, "%u", n);
        json_object_object_add(blocks, name, hosts_to_hex(&pending, bytes));
        sum += 2 * bytes;
    }
    return 0;
}

/* --- a collective ---------------------------------------------------------------------- */

/* {"arrived":[AT,PORTS…,…]}; AT is a switch or node, PORTS are the numbers of hosts_ports_add() */
static int query_arrived(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    struct fabric *fabric = agent->fabric;
    uint32_t max = fabric_graph(fabric)->nodes + fabric_graph(fabric)->switches;
    struct fabric_arrived *arrived = calloc(max, sizeof *arrived);
    struct json_object *list = json_object_new_array();
    uint32_t count = 0;

    fabric_pause(fabric);
    if (arrived)
        count = fabric_arrived(fabric, (uint32_t)emu_json_number(call, "group", 0),
                               (uint32_t)emu_json_number(call, "seq", 0), arrived, max);
    fabric_resume(fabric);
    for (uint32_t i = 0; i < count; i++) {
        hosts_list_add(list, arrived[i].at);
        hosts_ports_add(list, arrived[i].ports);
    }
    free(arrived);
    json_object_object_add(reply, "arrived", list);
    return arrived ? 0 : -ENOMEM;
}

/* {"mismatch":DIGITS}, or no field if there is no mismatch */
static int query_mismatch(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    struct fabric *fabric = agent->fabric;
    const struct emu_mismatch *mismatch;

    fabric_pause(fabric);
    mismatch = fabric_mismatch(fabric, (uint32_t)emu_json_number(call, "group", 0));
    if (mismatch)
        json_object_object_add(reply, "mismatch", hosts_to_hex(mismatch, sizeof *mismatch));
    fabric_resume(fabric);
    return 0;
}

/* --- links ------------------------------------------------------------------------------ */

#define STALLS_MAX 32u /* maximum number of stalled links that a report lists */

/* {"stalls":[NODE,SWITCH,PORT,WAIT,AGE,…]} */
static int query_stalls(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    struct fabric *fabric = agent->fabric;
    struct fabric_stall stall[STALLS_MAX];
    struct json_object *list = json_object_new_array();
    uint64_t now_ns = emu_now_ns();
    uint32_t count;

    (void)call;
    fabric_pause(fabric);
    count = fabric_stalls(fabric, now_ns, stall, STALLS_MAX);
    fabric_resume(fabric);
    for (uint32_t i = 0; i < count && i < STALLS_MAX; i++) {
        const uint64_t said[HOSTS_STALL] = {stall[i].node, stall[i].sw, stall[i].port,
                                            stall[i].wait, now_ns - stall[i].since_ns};

        for (uint32_t w = 0; w < HOSTS_STALL; w++)
            hosts_list_add(list, said[w]);
    }
    json_object_object_add(reply, "stalls", list);
    return 0;
}

/* --- audit ------------------------------------------------------------------------------ */

/* {"audit":…}, as audit_json() builds it */
static int query_audit(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    struct fabric *fabric = agent->fabric;
    struct json_object *audit = audit_json(fabric, emu_json_number(call, "routes", 0) != 0);

    json_object_object_add(reply, "audit", audit);
    return audit ? 0 : -ENOMEM;
}

/* --- the table -------------------------------------------------------------------------- */

/* clang-format off */
const struct agent_call agent_queries[] = {
    {"pending", query_pending},
    {"arrived", query_arrived},
    {"mismatch", query_mismatch},
    {"stalls", query_stalls},
    {"audit", query_audit},
    {NULL, NULL},
};
/* clang-format on */
