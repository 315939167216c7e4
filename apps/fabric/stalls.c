/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stalls.c - find out why a run has stalled: which operations of processes are pending, where the
 * contributions to a collective have arrived, and which links have something to send but do not
 * send.
 *
 * A *contribution* is one member's operand of a collective. Reports of processes about pending
 * operations are used only after emu_pending_read() has checked them. Everything else is read from
 * switches, adapters and cables while the workers are held. The coordinator releases its workers
 * while it queries other hosts, because the workers carry the queries and the replies.
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/fabric/internal.h"
#include "emu/buffer/combiner.h"
#include "emu/util/now.h"

#define STALL_NS 1000000000u /* a link that has sent within this time is not stalled */

static bool is_member(const struct fabric_group *group, uint32_t node)
{
    for (uint32_t i = 0; i < group->count; i++)
        if ((group->node[i] & ~FABRIC_LEFT) == node)
            return true;
    return false;
}

/* Return whether all nodes that a mismatch between calls names are members of its group. */
static bool names_members(const struct fabric *fabric, uint32_t node,
                          const struct emu_pending_mismatch *mismatch)
{
    const struct fabric_group *group = fabric_group_at(fabric, mismatch->group);
    const uint32_t roots[] = {mismatch->mine.root, mismatch->other.root};
    bool named = group && is_member(group, node) && is_member(group, mismatch->node);

    for (uint32_t i = 0; i < 2; i++)
        named = named && (roots[i] == EMU_PENDING_ANY || is_member(group, roots[i]));
    return named;
}

static bool pending_remote(const struct fabric *fabric, uint32_t node, struct emu_pending *ret)
{
    const struct fabric_mirror *mirror = fabric->mirror;
    struct emu_pending copy;

    if (!mirror || fabric_node_is_here(fabric, node) ||
        !mirror->pending(mirror->ctx, fabric_node_host(&fabric->config, node), node, &copy))
        return false;
    emu_pending_check(&copy, fabric->config.graph->nodes, fabric_process_ns(fabric));
    if (copy.mismatch.node != EMU_PENDING_ANY && !names_members(fabric, node, &copy.mismatch))
        copy.mismatch.node = EMU_PENDING_ANY;
    *ret = copy;
    return true;
}

bool fabric_pending(const struct fabric *fabric, uint32_t node, struct emu_pending *ret)
{
    struct emu_hostif *hostif = fabric->hostif[node];

    if (!hostif)
        return pending_remote(fabric, node, ret);
    return emu_pending_read(ret, &hostif->shared->pending, hostif->nodes,
                            fabric_process_ns(fabric));
}

/* --- contributions to a collective -------------------------------------------------- */

/* Return the maximum number of switches or adapters that combine contributions to @group. */
static uint32_t arrived_max(const struct fabric_group *group)
{
    return group->engines ? group->engines->count : group->tree.count;
}

uint32_t fabric_arrived(const struct fabric *fabric, uint32_t id, uint32_t seq,
                        struct fabric_arrived *ret, uint32_t max)
{
    const struct fabric_group *group = fabric_group_at(fabric, id);
    uint32_t count = 0;

    for (uint32_t i = 0; group && count < max && i < arrived_max(group); i++) {
        if (!group->engines && group->part[i])
            ret[count++] = (struct fabric_arrived){group->tree.switches[i].sw,
                                                   switch_group_arrived(group->part[i], seq)};
        else if (group->engines && group->engines->at[i].group)
            ret[count++] = (struct fabric_arrived){
                group->engines->at[i].number,
                emu_port_if(0, engine_group_arrived(group->engines->at[i].group, seq))};
    }
    return count;
}

bool fabric_arrived_is_on(const struct fabric *fabric, uint32_t id, uint32_t at, uint32_t host)
{
    const struct fabric_group *group = fabric_group_at(fabric, id);
    bool combines = false;

    for (uint32_t i = 0; group && !combines && i < arrived_max(group); i++)
        combines = at ==
                   (group->engines ? group->engines->at[i].number : group->tree.switches[i].sw);
    if (!combines)
        return false;
    return group->engines ? fabric_engine_number_is_on(fabric, at, host)
                          : fabric_switch_host(&fabric->config, at) == host;
}

struct arrived {
    struct fabric_arrived *at;
    uint32_t count;
};

/*
 * Collect the results of fabric_arrived() on all hosts. If memory runs out, @ret->count is 0. The
 * caller frees @ret->at.
 */
static void arrived_on_all_hosts(struct fabric *fabric, const struct fabric_group *group,
                                 uint32_t seq, struct arrived *ret)
{
    const struct fabric_mirror *mirror = fabric->mirror;
    uint32_t max = arrived_max(group);

    *ret = (struct arrived){.at = calloc(max + 1u, sizeof *ret->at)};
    if (!ret->at)
        return;
    ret->count = fabric_arrived(fabric, group->id, seq, ret->at, max);
    if (!mirror)
        return;
    fabric_resume(fabric);
    ret->count +=
        mirror->arrived(mirror->ctx, group->id, seq, ret->at + ret->count, max - ret->count);
    fabric_pause(fabric);
}

static const struct fabric_arrived *arrived_at(const struct arrived *arrived, uint32_t at)
{
    for (uint32_t i = 0; i < arrived->count; i++)
        if (arrived->at[i].at == at)
            return &arrived->at[i];
    return NULL;
}

/* With acknowledgments, look in the member's adapter, where its contribution arrives first. */
static void contribution_at_adapter(const struct arrived *arrived, struct fabric_contribution *part)
{
    const struct fabric_arrived *at = arrived_at(arrived, part->node);

    part->known = at;
    part->arrived = at && emu_ports_any(at->ports);
}

/* Without acknowledgments, look in the switch at the member's link in the tree instead. */
static void contribution_at_switch(const struct fabric *fabric, const struct fabric_group *group,
                                   const struct arrived *arrived, struct fabric_contribution *part)
{
    const struct topo_graph *graph = fabric->links.routed;
    uint32_t link = group->treeless ? TOPO_NONE : topo_tree_link(&group->tree, graph, part->node);
    const struct fabric_arrived *at =
        link == TOPO_NONE ? NULL : arrived_at(arrived, graph->node[part->node].link[link].sw);

    part->known = at;
    if (!at)
        return;
    part->sw = at->at;
    part->port = graph->node[part->node].link[link].port;
    part->arrived = emu_ports_has(at->ports, part->port);
}

uint32_t fabric_contributions(struct fabric *fabric, uint32_t id, uint32_t seq,
                              struct fabric_contribution *ret, uint32_t max)
{
    const struct fabric_group *group = fabric_group_at(fabric, id);
    struct arrived arrived;
    uint32_t count = 0;

    if (!group)
        return 0;
    arrived_on_all_hosts(fabric, group, seq, &arrived);
    for (uint32_t i = 0; i < group->count && count < max; i++) {
        struct fabric_contribution *part = &ret[count];

        if (group->node[i] & FABRIC_LEFT)
            continue;
        *part = (struct fabric_contribution){.node = group->node[i], .sw = TOPO_NONE};
        if (group->engines)
            contribution_at_adapter(&arrived, part);
        else
            contribution_at_switch(fabric, group, &arrived, part);
        count++;
    }
    free(arrived.at);
    return count;
}

/*
 * Return whether a switch of the tree has all contributions from below. It has then sent its
 * partial result up.
 */
static bool result_has_left(const struct fabric_group *group, const struct arrived *arrived,
                            uint32_t sw)
{
    const struct fabric_arrived *at = arrived_at(arrived, sw);

    for (uint32_t i = 0; at && i < group->tree.count; i++) {
        const struct topo_tree_switch *in = &group->tree.switches[i];

        if (in->sw == sw)
            return in->up >= 0 &&
                   emu_ports_equal(at->ports | emu_port((uint32_t)in->up), in->ports);
    }
    return false;
}

/* Return the ports of a switch of the tree at which contributions from below are missing. */
static emu_ports ports_missing(const struct arrived *arrived, const struct topo_tree_switch *in)
{
    const struct fabric_arrived *at = arrived_at(arrived, in->sw);
    emu_ports up = in->up < 0 ? EMU_NO_PORTS : emu_port((uint32_t)in->up);

    return at ? in->ports & ~up & ~at->ports : EMU_NO_PORTS;
}

uint32_t fabric_gaps(struct fabric *fabric, uint32_t id, uint32_t seq, struct fabric_gap *ret,
                     uint32_t max)
{
    const struct fabric_group *group = fabric_group_at(fabric, id);
    struct arrived arrived;
    uint32_t count = 0;

    if (!group || group->engines)
        return 0;
    arrived_on_all_hosts(fabric, group, seq, &arrived);
    for (uint32_t i = 0; i < group->tree.count; i++) {
        const struct topo_tree_switch *in = &group->tree.switches[i];

        emu_each_port (p, ports_missing(&arrived, in)) {
            const struct topo_end *end = &fabric->links.routed->sw[in->sw].end[p];

            if (end->kind != TOPO_END_SWITCH || !result_has_left(group, &arrived, end->id))
                continue;
            if (count < max)
                ret[count] = (struct fabric_gap){.from = end->id, .sw = in->sw, .port = p};
            count++;
        }
    }
    free(arrived.at);
    return count;
}

bool fabric_has_group(const struct fabric *fabric, uint32_t id, uint32_t host)
{
    const struct fabric_group *group = fabric_group_at(fabric, id);

    return !group || (group->hosts >> host & 1);
}

/* Return whether @src is a member of the group, or a device that combines for it. */
static bool contributes(const struct fabric_group *group, uint32_t src)
{
    if (is_member(group, src))
        return true;
    for (uint32_t i = 0; group->engines && i < group->engines->count; i++)
        if (group->engines->at[i].number == src)
            return true;
    return false;
}

bool fabric_mismatch_names(const struct fabric *fabric, uint32_t id,
                           const struct emu_mismatch *mismatch)
{
    const struct fabric_group *group = fabric_group_at(fabric, id);

    return group && contributes(group, mismatch->first.src) &&
           contributes(group, mismatch->other.src);
}

static const struct emu_mismatch *mismatch_here(const struct fabric_group *group)
{
    const struct emu_mismatch *mismatch = NULL;

    for (uint32_t i = 0; !mismatch && i < group->tree.count; i++)
        if (group->part[i])
            mismatch = switch_group_mismatch(group->part[i]);
    for (uint32_t i = 0; group->engines && !mismatch && i < group->engines->count; i++)
        if (group->engines->at[i].group)
            mismatch = engine_group_mismatch(group->engines->at[i].group);
    return mismatch;
}

/*
 * On the coordinator, return a copy that belongs to the fabric. The workers run during the query to
 * other hosts, and may then change the original.
 */
const struct emu_mismatch *fabric_mismatch(struct fabric *fabric, uint32_t id)
{
    const struct fabric_mirror *mirror = fabric->mirror;
    const struct fabric_group *group = fabric_group_at(fabric, id);
    const struct emu_mismatch *mismatch = group ? mismatch_here(group) : NULL;
    bool seen;

    if (!mirror || !group)
        return mismatch;
    if (mismatch) {
        fabric->mismatch = *mismatch;
        return &fabric->mismatch;
    }
    fabric_resume(fabric);
    seen = mirror->mismatch(mirror->ctx, id, &fabric->mismatch);
    fabric_pause(fabric);
    return seen ? &fabric->mismatch : NULL;
}

/* --- links -------------------------------------------------------------------------- */

/* Segments that one direction of a link had sent at the last sample. */
struct fabric_moved {
    uint64_t segments;
    uint64_t since_ns; /* time of the last sample that found new segments; 0: not sampled yet */
};

/*
 * Return the index of the first entry of @node in fabric.moved. That array has an entry for each
 * port of each switch, by switch and port. Then each node has TOPO_NODE_LINKS_MAX entries for the
 * links of its adapter, one for the segments to its process, and one for those from its process.
 */
static uint32_t node_moved_index(const struct topo_graph *graph, uint32_t node)
{
    return graph->switches * graph->ports + node * (TOPO_NODE_LINKS_MAX + 2);
}

static void moved_update(struct fabric_moved *moved, uint64_t segments, uint64_t now_ns)
{
    if (moved->since_ns && moved->segments == segments)
        return;
    *moved = (struct fabric_moved){.segments = segments, .since_ns = now_ns};
}

static void node_sample(struct fabric *fabric, uint32_t n, uint64_t now_ns)
{
    struct fabric_moved *moved = &fabric->moved[node_moved_index(fabric->config.graph, n)];
    const struct emu_hostif *hostif = fabric->hostif[n];

    for (uint32_t i = 0; fabric_engine(fabric, n) && i < fabric->config.graph->node[n].links; i++)
        moved_update(&moved[i],
                     emu_count_read(&engine_tx(fabric_engine(fabric, n), i)->counts.segments),
                     now_ns);
    moved += TOPO_NODE_LINKS_MAX;
    if (!hostif) {
        moved[0] = moved[1] = (struct fabric_moved){0};
        return;
    }
    moved_update(&moved[0], emu_count_read(&hostif->delivered), now_ns);
    moved_update(&moved[1], emu_count_read(&hostif->sent), now_ns);
}

int fabric_stalls_sample(struct fabric *fabric, uint64_t now_ns)
{
    const struct topo_graph *graph = fabric->config.graph;

    if (!fabric->moved)
        fabric->moved = calloc(node_moved_index(graph, graph->nodes), sizeof *fabric->moved);
    if (!fabric->moved)
        return -ENOMEM;
    for (uint32_t s = 0; s < graph->switches; s++)
        for (uint32_t p = 0; fabric->sw[s] && p < graph->ports; p++)
            moved_update(&fabric->moved[s * graph->ports + p],
                         emu_count_read(&switch_tx(fabric->sw[s], p)->counts.segments), now_ns);
    for (uint32_t n = 0; n < graph->nodes; n++)
        node_sample(fabric, n, now_ns);
    return 0;
}

struct stalls {
    struct fabric_stall *at;
    uint32_t count; /* number of stalls found; may be more than `max` */
    uint32_t max;   /* elements of `at` */
    uint64_t now_ns;
};

/* Add @stall to the list if its link has sent nothing for STALL_NS. @moved: samples of the link. */
static void stall_add(struct stalls *list, const struct fabric_moved *moved,
                      struct fabric_stall stall)
{
    if (!moved->since_ns || moved->since_ns + STALL_NS > list->now_ns)
        return;
    stall.since_ns = moved->since_ns;
    if (list->count < list->max)
        list->at[list->count] = stall;
    list->count++;
}

/*
 * Add the stalled links that leave switch @s. A port that has a segment and a credit and does not
 * send is always reported. With virtual channels, missing credits are not reported, because
 * engine_stalls() reports missing replies, which explain more.
 */
static void switch_stalls(const struct fabric *fabric, uint32_t s, struct stalls *list)
{
    const struct topo_graph *graph = fabric->config.graph;

    for (uint32_t p = 0; p < graph->ports; p++) {
        struct emu_tx *tx = switch_tx(fabric->sw[s], p);
        struct fabric_stall stall = {.node = TOPO_NONE,
                                     .sw = s,
                                     .port = p,
                                     .wait = FABRIC_WAITS_PORT};

        if (tx->kind != EMU_LINK_LOCAL)
            continue;
        if (!fabric_has_engines(&fabric->config) && !emu_tx_has_credit(tx))
            stall.wait = FABRIC_WAITS_CREDIT;
        else if (!switch_is_ready(fabric->sw[s], p))
            continue;
        stall_add(list, &fabric->moved[s * graph->ports + p], stall);
    }
}

static void hostif_stalls(const struct fabric *fabric, uint32_t n, struct stalls *list)
{
    const struct topo_link *at = topo_first_link(fabric->config.graph, n);
    const struct fabric_moved *moved =
        &fabric->moved[node_moved_index(fabric->config.graph, n) + TOPO_NODE_LINKS_MAX];
    const struct emu_hostif *hostif = fabric->hostif[n];
    bool has_engine = fabric_has_engines(&fabric->config);
    struct fabric_stall stall = {.node = n,
                                 .sw = has_engine ? TOPO_NONE : at->sw,
                                 .port = has_engine ? 0 : at->port,
                                 .wait = FABRIC_WAITS_PROCESS};

    if (atomic_load_explicit(&hostif->stuck, memory_order_relaxed))
        stall_add(list, &moved[0], stall);
    stall.wait = FABRIC_WAITS_CREDIT;
    if (!hostif->credits->count)
        stall_add(list, &moved[1], stall);
}

static void engine_stalls(const struct fabric *fabric, uint32_t n, struct stalls *list)
{
    const struct fabric_moved *moved = &fabric->moved[node_moved_index(fabric->config.graph, n)];

    for (uint32_t i = 0; i < fabric->config.graph->node[n].links; i++) {
        struct engine *engine = fabric_engine(fabric, n);
        struct fabric_stall stall = {.node = n,
                                     .sw = TOPO_NONE,
                                     .port = i,
                                     .wait = FABRIC_WAITS_PORT};

        if (!engine_is_ready(engine, i)) {
            if (!emu_vcs_pending(engine_vcs(engine, i)))
                continue;
            stall.wait = FABRIC_WAITS_REPLY;
        }
        stall_add(list, &moved[i], stall);
    }
}

bool fabric_stall_is_on(const struct fabric *fabric, const struct fabric_stall *stall,
                        uint32_t host)
{
    const struct topo_graph *graph = fabric->config.graph;
    bool at_switch = stall->sw < graph->switches && stall->port < graph->ports;
    bool has_node = stall->node < graph->nodes;
    bool at_node = has_node && stall->sw == TOPO_NONE &&
                   stall->port < graph->node[stall->node].links;
    const struct topo_link *link = has_node ? topo_first_link(graph, stall->node) : NULL;
    /* as in hostif_stalls(): a node without an engine, and the switch at its link */
    bool at_both = at_switch && link && link->sw == stall->sw && link->port == stall->port;

    if (stall->wait > FABRIC_WAITS_REPLY ||
        !(at_node || at_both || (at_switch && stall->node == TOPO_NONE)))
        return false;
    return (has_node ? fabric_node_host(&fabric->config, stall->node)
                     : fabric_switch_host(&fabric->config, stall->sw)) == host;
}

/* Add the stalls that other hosts report. */
static void stalls_add_remote(struct fabric *fabric, struct stalls *list)
{
    uint32_t had = list->count < list->max ? list->count : list->max, count;

    fabric_resume(fabric);
    count =
        fabric->mirror->stalls(fabric->mirror->ctx, list->now_ns, list->at + had, list->max - had);
    fabric_pause(fabric);
    if (list->count < list->max)
        list->count = had + count;
}

uint32_t fabric_stalls(struct fabric *fabric, uint64_t now_ns, struct fabric_stall *ret,
                       uint32_t max)
{
    const struct topo_graph *graph = fabric->config.graph;
    struct stalls list = {.at = ret, .max = max, .now_ns = now_ns};

    for (uint32_t s = 0; fabric->moved && s < graph->switches; s++)
        if (fabric->sw[s])
            switch_stalls(fabric, s, &list);
    for (uint32_t n = 0; fabric->moved && n < graph->nodes; n++) {
        if (fabric->hostif[n])
            hostif_stalls(fabric, n, &list);
        if (fabric_engine(fabric, n))
            engine_stalls(fabric, n, &list);
    }
    if (fabric->mirror)
        stalls_add_remote(fabric, &list);
    return list.count;
}
