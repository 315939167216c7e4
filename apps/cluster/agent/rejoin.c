/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rejoin.c - when this host rejoins, it copies the state of the coordinator's replica from the
 * messages that coordinator/admit.c sends. The functions are in the order of the messages. The
 * comment before each call_…() shows the fields of its message.
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/control/conn.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "apps/cluster/agent/internal.h"
#include "emu/hostif/hostif.h"
#include "emu/util/now.h"

/* Find list @name in @of. Returns false if it is missing, or its length is no multiple of @lot. */
static bool list_find(struct json_object *of, const char *name, size_t lot,
                      struct json_object **list, size_t *count)
{
    *list = json_object_object_get(of, name);
    *count = json_object_is_type(*list, json_type_array) ? json_object_array_length(*list) : 1;
    return json_object_is_type(*list, json_type_array) && *count % lot == 0;
}

/* {"host":H,"incarnation":N} */
static int call_incarnation(struct agent *agent, struct json_object *call,
                            struct json_object *reply)
{
    int64_t host = emu_json_number(call, "host", -1),
            incarnation = emu_json_number(call, "incarnation", -1);

    (void)reply;
    if (host < 0 || host >= HOSTS_MAX || incarnation < 0 || incarnation > UINT32_MAX)
        return -EINVAL;
    fabric_host_incarnation(agent->fabric, (uint32_t)host, (uint32_t)incarnation);
    return 0;
}

/* --- nodes, cables, units ----------------------------------------------------------------- */

static int nodes_restore(struct fabric *fabric, struct json_object *call)
{
    struct json_object *list;
    size_t count;
    int err = list_find(call, "nodes", 3, &list, &count) ? 0 : -EINVAL;

    for (size_t i = 0; !err && i < count; i += 3) {
        uint64_t node = hosts_number_at(list, i),
                 word = hosts_number_at(list, i + 1) & ~EMU_INCARNATION_NO_LINK;

        if (!hosts_number_at(list, i + 2))
            word |= EMU_INCARNATION_NO_LINK;
        err = node <= UINT32_MAX ? fabric_node_restore(fabric, (uint32_t)node, word) : -EINVAL;
    }
    return err;
}

static int cables_take_down(struct fabric *fabric, struct json_object *call)
{
    struct json_object *list;
    size_t count;
    int err = list_find(call, "down", 1, &list, &count) ? 0 : -EINVAL;

    for (size_t i = 0; !err && i < count; i++) {
        uint64_t cable = hosts_number_at(list, i);
        uint32_t none;

        if (cable >= fabric_cable_count(fabric))
            return -EINVAL;
        fabric_pause(fabric);
        err = fabric_link_set(fabric, (uint32_t)cable, false, 0, fabric_now_ps(fabric), &none);
        fabric_resume(fabric);
    }
    return err;
}

/* {"nodes":[NODE,WORD,LINKED,…],"down":[CABLE,…],"units":[SWITCH,…]}: the lists of admit.c */
static int call_begin(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    struct fabric *fabric = agent->fabric;
    struct json_object *list;
    size_t count;
    int err = nodes_restore(fabric, call);

    (void)reply;
    if (!err)
        err = cables_take_down(fabric, call);
    if (!err && !list_find(call, "units", 1, &list, &count))
        err = -EINVAL;
    for (size_t i = 0; !err && i < count; i++)
        fabric_unit_out(fabric, (uint32_t)hosts_number_at(list, i), emu_now_ns() * 1000u);
    return err;
}

/* --- groups -------------------------------------------------------------------------------- */

/*
 * Read a switch of a tree from the numbers of @list that begin at element @at. Returns false if the
 * network has no such switch.
 */
static bool tree_switch_read(struct topo_tree_switch *ret, const struct topo_graph *graph,
                             struct json_object *list, size_t at)
{
    uint64_t sw = hosts_number_at(list, at),
             /* 1 + the port that leads up; 0: this switch is the top of the tree */
        up = hosts_number_at(list, at + 1);

    if (sw >= graph->switches || up > graph->ports)
        return false;
    ret->sw = (uint32_t)sw;
    ret->up = (int16_t)(up - 1);
    return hosts_ports_read(&ret->ports, list, at + 2, graph->ports);
}

static int group_restore(struct fabric *fabric, struct json_object *one)
{
    uint32_t is = (uint32_t)emu_json_number(one, "is", 0);
    struct json_object *nodes, *tree;
    struct fabric_group_copy group = {.id = (uint32_t)emu_json_number(one, "id", 0),
                                      .sources = (uint32_t)emu_json_number(one, "sources", 0),
                                      .combines = is & HOSTS_COMBINES,
                                      .failed = is & HOSTS_FAILED,
                                      .treeless = is & HOSTS_TREELESS,
                                      .partitioned = is & HOSTS_PARTITIONED};
    size_t members, numbers;
    uint32_t *node;
    int err = 0;

    if (!list_find(one, "nodes", 1, &nodes, &members) ||
        !list_find(one, "tree", HOSTS_TREE_NUMBERS, &tree, &numbers))
        return -EINVAL;
    node = calloc(members + 1, sizeof *node);
    group.tree.switches = calloc(numbers / HOSTS_TREE_NUMBERS + 1, sizeof *group.tree.switches);
    group.nodes = node;
    group.count = (uint32_t)members;
    group.tree.count = (uint32_t)(numbers / HOSTS_TREE_NUMBERS);
    if (!node || !group.tree.switches)
        err = -ENOMEM;
    for (size_t i = 0; !err && i < members; i++)
        node[i] = (uint32_t)hosts_number_at(nodes, i);
    for (size_t i = 0; !err && i < group.tree.count; i++)
        if (!tree_switch_read(&group.tree.switches[i], fabric_graph(fabric), tree,
                              HOSTS_TREE_NUMBERS * i))
            err = -EINVAL;
    if (!err)
        err = fabric_group_restore(fabric, &group);
    free(node);
    free(group.tree.switches);
    return err;
}

/* {"groups":[{…},…]}, each as in group_add() of admit.c */
static int call_groups(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    struct json_object *list;
    size_t count;
    int err = list_find(call, "groups", 1, &list, &count) ? 0 : -EINVAL;

    (void)reply;
    for (size_t i = 0; !err && i < count; i++)
        err = group_restore(agent->fabric, json_object_array_get_idx(list, i));
    return err;
}

/* --- the table ----------------------------------------------------------------------------- */

/* clang-format off */
const struct agent_call agent_rejoin_calls[] = {
    {"host_incarnation", call_incarnation},
    {"begin", call_begin},
    {"groups", call_groups},
    {NULL, NULL},
};
/* clang-format on */
