/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * look.c - what a host that obeys tells of its own part: totals, what processes have pending, what
 * has come of a collective, links that stand still, whether it is right.
 *
 * Everything is a list of numbers but what a process has pending and a clash: these are the bytes
 * of their structures, in hexadecimal digits. All hosts run one fabemu.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/audit/audit.h"
#include "apps/control/conn.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/stalls.h"
#include "apps/cluster/follower/internal.h"
#include "emu/buffer/combiner.h"
#include "emu/hostif/pending.h"
#include "emu/util/now.h"

/* --- processes ------------------------------------------------------------------------ */

/* {"pending":{NODE:DIGITS,…},"now_ns":T,"next":NODE}; without "next" those were all. */
static int look_pending(struct fabric *fabric, struct json_object *call, struct json_object *reply)
{
    struct json_object *blocks = json_object_new_object();
    int64_t from = emu_json_number(call, "from", 0);
    size_t sum = 0;

    json_add_number(reply, "now_ns", emu_now_ns());
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
        json_object_object_add(blocks, name, hosts_digits(&pending, bytes));
        sum += 2 * bytes;
    }
    return 0;
}

/* --- a collective ---------------------------------------------------------------------- */

/* {"came":[AT,PORTS…,…]}: hosts_ports_add() */
static int look_came(struct fabric *fabric, struct json_object *call, struct json_object *reply)
{
    uint32_t max = fabric_graph(fabric)->nodes + fabric_graph(fabric)->switches;
    struct fabric_came *came = calloc(max, sizeof *came);
    struct json_object *list = json_object_new_array();
    uint32_t count = 0;

    fabric_hold(fabric);
    if (came)
        count = fabric_came(fabric, (uint32_t)emu_json_number(call, "group", 0),
                            (uint32_t)emu_json_number(call, "seq", 0), came, max);
    fabric_go(fabric);
    for (uint32_t i = 0; i < count; i++) {
        json_object_array_add(list, json_object_new_uint64(came[i].at));
        hosts_ports_add(list, came[i].ports);
    }
    free(came);
    json_object_object_add(reply, "came", list);
    return came ? 0 : -ENOMEM;
}

/* {"clash":DIGITS}, where there is one. */
static int look_clash(struct fabric *fabric, struct json_object *call, struct json_object *reply)
{
    const struct emu_clash *clash;

    fabric_hold(fabric);
    clash = fabric_clash(fabric, (uint32_t)emu_json_number(call, "group", 0));
    if (clash)
        json_object_object_add(reply, "clash", hosts_digits(clash, sizeof *clash));
    fabric_go(fabric);
    return 0;
}

/* --- links ------------------------------------------------------------------------------ */

#define STALLS_MAX 32u /* as many as are listed */

/* {"stalls":[NODE,SWITCH,PORT,WAIT,AGE,…]} */
static int look_stalls(struct fabric *fabric, struct json_object *call, struct json_object *reply)
{
    struct fabric_stall stall[STALLS_MAX];
    struct json_object *list = json_object_new_array();
    uint64_t now_ns = emu_now_ns();
    uint32_t count;

    (void)call;
    fabric_hold(fabric);
    count = fabric_stalls(fabric, now_ns, stall, STALLS_MAX);
    fabric_go(fabric);
    for (uint32_t i = 0; i < count && i < STALLS_MAX; i++) {
        const uint64_t said[HOSTS_STALL] = {stall[i].node, stall[i].sw, stall[i].port,
                                            stall[i].wait, now_ns - stall[i].since_ns};

        for (uint32_t w = 0; w < HOSTS_STALL; w++)
            json_object_array_add(list, json_object_new_uint64(said[w]));
    }
    json_object_object_add(reply, "stalls", list);
    return 0;
}

/* --- audit ------------------------------------------------------------------------------ */

/* {"audit":{…}}: as the daemon says it of itself. */
static int look_audit(struct fabric *fabric, struct json_object *call, struct json_object *reply)
{
    struct json_object *audit = audit_json(fabric, emu_json_number(call, "routes", 0) != 0);

    json_object_object_add(reply, "audit", audit);
    return audit ? 0 : -ENOMEM;
}

/* --- the table -------------------------------------------------------------------------- */

/* clang-format off */
static const struct {
    const char *name;
    int (*look)(struct fabric *, struct json_object *call, struct json_object *reply);
} looks[] = {
    {"pending", look_pending},
    {"came", look_came},
    {"clash", look_clash},
    {"stalls", look_stalls},
    {"audit", look_audit},
};
/* clang-format on */

int hosts_look(struct fabric *fabric, const char *what, struct json_object *call,
               struct json_object *reply)
{
    for (size_t i = 0; i < sizeof looks / sizeof looks[0]; i++)
        if (strcmp(looks[i].name, what) == 0)
            return looks[i].look(fabric, call, reply);
    return -ENOSYS;
}
