/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * admit.c - sends the state of the coordinator's replica to a host that rejoins. agent/rejoin.c
 * receives it.
 *
 * The thread that sends the state is the only thread that changes replicas, and the state is the
 * first message on the host's new control channel. Later changes go to all hosts, including this
 * one, so the host misses no change.
 */
#include <sys/eventfd.h>

#include "apps/fabric/links.h"
#include "apps/cluster/coordinator/internal.h"

/* a message about groups is sent as soon as it contains more numbers than this */
#define GROUPS_NUMBERS 65536u
/* length of a message about a group, in numbers, without the group's nodes and tree */
#define GROUP_NUMBERS 8u

/* --- incarnations ---------------------------------------------------------------------- */

static struct json_object *with_incarnation(uint32_t host, uint32_t incarnations)
{
    return json_add_number(json_add_number(json_object_new_object(), "host", host), "incarnation",
                           incarnations);
}

/*
 * Start a new incarnation of the host. All hosts drop the traffic of its former incarnation, and
 * this host gets the incarnations of all other hosts. A host on which this call fails is lost.
 */
static int begin_incarnation(struct coordinator *coord, uint32_t host)
{
    uint32_t incarnations = ++coord->agent[host].incarnations;
    int err = 0;

    fabric_host_incarnation(coord->config.fabric, host, incarnations);
    coordinator_do(coord, 0, "host_incarnation", with_incarnation(host, incarnations), 0);
    for (uint32_t h = 1; !err && h < coord->config.count; h++)
        if (h != host && coord->agent[h].incarnations)
            err = coordinator_call(coord, host, "host_incarnation",
                                   with_incarnation(h, coord->agent[h].incarnations), NULL, NULL);
    return err;
}

/* --- nodes, cables, units ---------------------------------------------------------------- */

/*
 * List the nodes that are not in their initial state, as [NODE,WORD,LINKED,…]. WORD is the
 * incarnation of the node's process, as emu_incarnation_state() encodes it, without the bit
 * EMU_INCARNATION_NO_LINK. LINKED is 0 if that bit is set.
 */
static struct json_object *nodes_list(const struct fabric *fabric)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t n = 0; n < fabric_graph(fabric)->nodes; n++) {
        uint64_t word = fabric_node_word(fabric, n);

        if (!word)
            continue;
        hosts_list_add(list, n);
        hosts_list_add(list, word & ~EMU_INCARNATION_NO_LINK);
        hosts_list_add(list, !(word & EMU_INCARNATION_NO_LINK));
    }
    return list;
}

static struct json_object *cables_list(const struct fabric *fabric,
                                       bool (*is)(const struct fabric *fabric, uint32_t cable))
{
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < fabric_cable_count(fabric); i++)
        if (is(fabric, i))
            hosts_list_add(list, i);
    return list;
}

static bool is_unrouted(const struct fabric *fabric, uint32_t cable)
{
    return !fabric_cable_is_routed(fabric, cable);
}

static struct json_object *units_list(const struct fabric *fabric)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t s = 0; s < fabric_graph(fabric)->switches; s++)
        if (fabric_unit_is_out(fabric, s))
            hosts_list_add(list, s);
    return list;
}

static int network_send(struct coordinator *coord, uint32_t host)
{
    const struct fabric *fabric = coord->config.fabric;
    struct json_object *with = json_object_new_object(), *out;
    int err;

    json_object_object_add(with, "nodes", nodes_list(fabric));
    json_object_object_add(with, "down", cables_list(fabric, fabric_link_is_out));
    json_object_object_add(with, "units", units_list(fabric));
    err = coordinator_call(coord, host, "begin", with, NULL, NULL);
    out = cables_list(fabric, is_unrouted);
    if (err || !json_object_array_length(out)) {
        json_object_put(out);
        return err;
    }
    with = json_object_new_object();
    json_object_object_add(with, "out", out);
    return coordinator_call(coord, host, "reroute", with, NULL, NULL);
}

/* --- groups ------------------------------------------------------------------------------ */

struct groups {
    struct coordinator *coord;
    uint32_t host;
    struct json_object *list;
    size_t numbers; /* length of the list, in numbers */
    int err;
};

static void groups_flush(struct groups *groups)
{
    struct json_object *with = json_object_new_object();

    json_object_object_add(with, "groups", groups->list);
    if (!groups->err && groups->numbers)
        groups->err =
            coordinator_call_next(groups->coord, groups->host, "groups", with, NULL, NULL);
    else
        json_object_put(with);
    groups->list = json_object_new_array();
    groups->numbers = 0;
}

/*
 * Add a group, {"id":N,"sources":N,"is":BITS,"nodes":[NODE,…],"tree":[SWITCH,UP,PORTS…,…]}. UP is 1
 * + the port that leads up, 0 at the top. PORTS are the numbers that hosts_ports_add() appends.
 */
static void group_add(void *ctx, const struct fabric_group_copy *group)
{
    struct groups *groups = ctx;
    struct json_object *one = json_object_new_object(), *nodes = json_object_new_array();
    struct json_object *tree = json_object_new_array();

    for (uint32_t i = 0; i < group->count; i++)
        hosts_list_add(nodes, group->nodes[i]);
    for (uint32_t i = 0; i < group->tree.count; i++) {
        hosts_list_add(tree, group->tree.switches[i].sw);
        hosts_list_add(tree, (uint64_t)(group->tree.switches[i].up + 1));
        hosts_ports_add(tree, group->tree.switches[i].ports);
    }
    json_add_number(one, "id", group->id);
    json_add_number(one, "sources", group->sources);
    json_add_number(one, "is",
                    (group->combines ? HOSTS_COMBINES : 0) | (group->failed ? HOSTS_FAILED : 0) |
                        (group->treeless ? HOSTS_TREELESS : 0) |
                        (group->partitioned ? HOSTS_PARTITIONED : 0));
    json_object_object_add(one, "nodes", nodes);
    json_object_object_add(one, "tree", tree);
    json_object_array_add(groups->list, one);
    groups->numbers += GROUP_NUMBERS + group->count +
                       HOSTS_TREE_NUMBERS * (size_t)group->tree.count;
    if (groups->numbers > GROUPS_NUMBERS)
        groups_flush(groups);
}

static int groups_send(struct coordinator *coord, uint32_t host)
{
    struct groups groups = {.coord = coord, .host = host, .list = json_object_new_array()};

    fabric_group_each(coord->config.fabric, group_add, &groups);
    groups_flush(&groups);
    json_object_put(groups.list);
    return groups.err;
}

/* --- rejoining --------------------------------------------------------------------------- */

int coordinator_admit(struct coordinator *coord, uint32_t host)
{
    struct coordinator_agent *agent = &coord->agent[host];
    int err;

    if (!agent->back)
        return -EHOSTDOWN; /* the host was lost again in the meantime */
    agent->lost = agent->back = false;
    err = begin_incarnation(coord, host);
    if (!err)
        err = network_send(coord, host);
    if (!err)
        err = groups_send(coord, host);
    if (agent->lost)
        return -EHOSTDOWN;
    if (err) {
        coordinator_lose(agent, "it cannot adopt the fabric's state");
        return err;
    }
    if (agent->kept_lines)
        /* then serve the messages that the host has sent while it was being admitted */
        eventfd_write(coord->kept_fd, 1);
    coordinator_rejoin_soon(coord);
    return 0;
}
