/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * drops.c - find unrecoverable drops: segments that overran a buffer, partial results that were
 * found damaged, and entries that wait for a combine unit that does nothing.
 *
 * Without acknowledgments the receivers would wait forever for dropped segments. So the manager
 * scans the devices for such *losses*, and queues them until fabric_drop_take() takes them. Devices
 * keep their losses until a scan has read them: an intake has space to note each segment that can
 * overrun it, and a switch marks each group that has failed in it.
 *
 * On several hosts each host scans its own devices and reports the losses to the coordinator. To
 * keep the replicas consistent, the coordinator alone decides on the consequences when it takes a
 * loss, and applies them on all hosts.
 */
#include <stdlib.h>
#include <string.h>

#include "apps/fabric/internal.h"
#include "apps/fabric/stalls.h"
#include "emu/retry/intake.h"
#include "emu/util/count.h"
#include "emu/util/now.h"

/*
 * Reuse the space of losses that were taken from the queue, if these fill at least half of the
 * array.
 */
static void drops_settle(struct fabric_drops *drops)
{
    if (drops->taken < drops->count / 2)
        return;
    drops->count -= drops->taken;
    if (drops->count)
        memmove(drops->at, drops->at + drops->taken, drops->count * sizeof *drops->at);
    drops->taken = 0;
}

/* Make space for @more losses. False: out of memory; the next scan will find the losses again. */
static bool drop_reserve(struct fabric_drops *drops, uint32_t more)
{
    uint32_t most = drops->most ? drops->most : 64;
    struct fabric_drop *at;

    if (drops->count + more > most)
        drops_settle(drops);
    while (drops->count + more > most)
        most *= 2;
    if (most == drops->most)
        return true;
    at = realloc(drops->at, most * sizeof *at);
    drops->unreported |= !at;
    if (!at)
        return false;
    drops->at = at;
    drops->most = most;
    return true;
}

/* Return whether the queue is full. If so, scans leave further losses in the devices. */
static bool drops_are_full(const struct fabric_drops *drops)
{
    return drops->count - drops->taken >= FABRIC_DROPS_MOST;
}

uint32_t fabric_drop_host(const struct fabric *fabric, const struct fabric_drop *drop)
{
    if (drop->what == FABRIC_LOST_SEGMENT || drop->what == FABRIC_LOST_OF_GROUP)
        return fabric_direction_host(fabric, 2 * drop->cable + drop->out, false);
    if (drop->what == FABRIC_LEFT_GAVE_UP)
        return fabric_node_host(&fabric->config, drop->from);
    return fabric_switch_host(&fabric->config, drop->sw);
}

static bool is_same_pair(const struct fabric_drop *a, const struct fabric_drop *b)
{
    return a->what == FABRIC_LOST_SEGMENT && b->what == FABRIC_LOST_SEGMENT && a->from == b->from &&
           a->to == b->to && a->from_incarnation == b->from_incarnation &&
           a->to_incarnation == b->to_incarnation;
}

/*
 * Queue a loss. The segments between two processes may use several cables, and may be lost on each
 * of them. So a further loss between the same two processes is only counted in the entry of the
 * first loss, if `recent` still refers to that entry. Otherwise it gets an entry of its own.
 */
static void drop_add(struct fabric *fabric, const struct fabric_drop *drop)
{
    struct fabric_drops *drops = &fabric->drops;
    uint32_t *recent = &drops->recent[(drop->from * 31u + drop->to) % FABRIC_DROPS_RECENT];

    if (*recent >= drops->taken && *recent < drops->count &&
        is_same_pair(&drops->at[*recent], drop)) {
        emu_sum32(&drops->at[*recent].more, drop->more + UINT64_C(1));
        drops->at[*recent].found_ns = emu_now_ns();
        return;
    }
    if (!drop_reserve(drops, 1))
        return;
    *recent = drops->count;
    drops->urgent += drop->what != FABRIC_LOST_SEGMENT;
    drops->held[fabric_drop_host(fabric, drop)]++;
    drops->at[drops->count] = *drop;
    drops->at[drops->count++].found_ns = emu_now_ns();
}

/* Return true if @host may report a loss of this group, or if the loss concerns no group. */
static bool host_has_group(const struct fabric *fabric, uint32_t host,
                           const struct fabric_drop *drop)
{
    return drop->what == FABRIC_LOST_SEGMENT || drop->what == FABRIC_UNIT_OUT ||
           drop->what == FABRIC_UNIT_BACK || fabric_has_group(fabric, drop->group, host);
}

/*
 * Return whether a process of the node has had this incarnation. Returns true also for 0, which
 * stands for an unknown incarnation.
 */
static bool node_had_process(const struct fabric *fabric, uint32_t node, uint64_t incarnation)
{
    uint64_t word = fabric->incarnation[node];

    return incarnation < emu_incarnation_first(word) + emu_incarnation_attached(word);
}

/*
 * Return whether a loss is possible: the processes that it names must have existed. The queue also
 * carries reports that the units of a switch are back in service (FABRIC_UNIT_BACK). These units
 * must have been out of service.
 */
static bool loss_is_possible(const struct fabric *fabric, const struct fabric_drop *drop)
{
    if (drop->what == FABRIC_UNIT_BACK)
        return fabric->combine[drop->sw].returns;
    if (drop->what == FABRIC_LOST_SEGMENT &&
        !node_had_process(fabric, drop->to, drop->to_incarnation))
        return false;
    return (drop->what != FABRIC_LOST_SEGMENT && drop->what != FABRIC_LEFT_GAVE_UP) ||
           node_had_process(fabric, drop->from, drop->from_incarnation);
}

/*
 * Return whether @host may report a loss: the loss names existing nodes, switches and cables, the
 * device that found it is on @host, and @host has a part of the group.
 */
static bool loss_is_sane(const struct fabric *fabric, uint32_t host, const struct fabric_drop *drop)
{
    const struct topo_graph *graph = fabric->config.graph;
    bool unicast = drop->what == FABRIC_LOST_SEGMENT;
    bool on_cable = unicast || drop->what == FABRIC_LOST_OF_GROUP;

    if (drop->what > FABRIC_UNIT_BACK || drop->sw >= graph->switches ||
        drop->from >= graph->nodes || !host_has_group(fabric, host, drop))
        return false;
    return (!unicast || drop->to < graph->nodes) &&
           (!on_cable || drop->cable < fabric->links.count) &&
           fabric_drop_host(fabric, drop) == host;
}

/* Return whether the queue has space for a loss that @host reports; if not, the loss is dropped. */
static bool drops_have_space(const struct fabric_drops *drops, uint32_t host, bool urgent)
{
    uint32_t used = urgent ? drops->urgent : drops->count - drops->taken;

    return used < FABRIC_DROPS_MOST &&
           fabric_host_has_space(FABRIC_DROPS_MOST - used, host, drops->held[host]);
}

void fabric_drop_receive(struct fabric *fabric, uint32_t host, const struct fabric_drop *drop)
{
    struct fabric_drops *drops = &fabric->drops;
    struct fabric_drop copy = *drop;

    copy.moved = 0; /* on several hosts no group moves to another tree */
    if (!loss_is_sane(fabric, host, drop) || !loss_is_possible(fabric, drop)) {
        drops->refused++;
    } else if (drops_have_space(drops, host, drop->what != FABRIC_LOST_SEGMENT)) {
        if (drop->what == FABRIC_UNIT_BACK)
            fabric->combine[drop->sw].returns = false;
        drop_add(fabric, &copy);
    }
}

uint64_t fabric_drops_refused(const struct fabric *fabric)
{
    return fabric->drops.refused;
}

void fabric_free_drops(struct fabric *fabric)
{
    free(fabric->drops.at);
}

/*
 * Queue the failure of a group, unless it has failed before. The caller of fabric_drop_take()
 * notifies the members. On several hosts the coordinator marks the group when it takes the loss.
 */
static void queue_failure(struct fabric *fabric, struct fabric_group *group,
                          const struct fabric_drop *why)
{
    struct fabric_drop drop = *why;

    if (group->failed || !drop_reserve(&fabric->drops, 1))
        return;
    group->failed = !fabric->config.hosts;
    drop.group = group->id;
    drop_add(fabric, &drop);
}

/* --- segments that overran a buffer --------------------------------------------------- */

/* One direction of a cable. At its receiving end, segments overran the buffer. */
struct overrun {
    struct fabric *fabric;
    uint32_t cable;
    bool out;
};

/*
 * A header contains only the lowest byte of an incarnation, @low. Return the latest incarnation of
 * the node with this byte; 0: there is none.
 */
static uint64_t incarnation_with_low_byte(const struct fabric *fabric, uint32_t node, uint8_t low)
{
    uint64_t word = node < fabric->config.graph->nodes ? fabric->incarnation[node] : 0;
    uint64_t last = emu_incarnation_first(word) - !emu_incarnation_attached(word);
    uint64_t before = (uint8_t)(last - low);

    return before < last ? last - before : 0;
}

static void overrun_note(void *ctx, const struct emu_hdr *hdr)
{
    const struct overrun *at = ctx;
    bool unicast = hdr->kind == EMU_UNICAST;
    struct fabric_group *group = unicast ? NULL : fabric_group_at(at->fabric, hdr->dst);
    struct fabric_drop drop = {.what = unicast ? FABRIC_LOST_SEGMENT : FABRIC_LOST_OF_GROUP,
                               .cable = at->cable,
                               .out = at->out,
                               .from = hdr->src,
                               .to = hdr->dst};

    if (unicast) {
        drop.from_incarnation = incarnation_with_low_byte(at->fabric, hdr->src, hdr->type);
        drop.to_incarnation = incarnation_with_low_byte(at->fabric, hdr->dst, hdr->op);
        drop_add(at->fabric, &drop);
    } else if (group) {
        queue_failure(at->fabric, group, &drop);
    }
}

static void switch_overran(struct fabric *fabric, uint32_t sw)
{
    for (uint32_t p = 0; p < fabric->config.graph->ports; p++) {
        uint32_t i = fabric_cable_at(fabric, sw, p);
        struct overrun at = {.fabric = fabric, .cable = i};

        if (i == TOPO_NONE || fabric->links.cable[i].kind != TOPO_END_SWITCH ||
            drops_are_full(&fabric->drops) || !drop_reserve(&fabric->drops, EMU_INTAKE_FORGED))
            continue;
        at.out = fabric->links.cable[i].at.sw != sw || fabric->links.cable[i].at.port != p;
        switch_overruns(fabric->sw[sw], p, overrun_note, &at);
    }
}

/* --- damaged partial results ----------------------------------------------------------- */

static const struct engine_group *group_at_unit(const struct fabric *fabric,
                                                const struct fabric_group *group, uint32_t sw)
{
    const struct engine *unit = fabric_unit(fabric, sw);

    for (uint32_t i = 0; unit && group->engines && i < group->engines->count; i++)
        if (group->engines->at[i].engine == unit)
            return group->engines->at[i].group;
    return NULL;
}

static bool group_failed_at(const struct fabric *fabric, const struct fabric_group *group,
                            uint32_t sw)
{
    if (fabric_unit(fabric, sw)) {
        const struct engine_group *at = group_at_unit(fabric, group, sw);

        return at && engine_group_failed(at);
    }
    for (uint32_t i = 0; i < group->tree.count; i++)
        if (group->tree.switches[i].sw == sw && switch_group_failed(group->part[i]))
            return true;
    return false;
}

/* Return how often the units of a switch have found a damaged result, or have given up a packet. */
static uint64_t states_damaged(const struct fabric *fabric, uint32_t sw)
{
    const struct engine *unit = fabric_unit(fabric, sw);

    if (unit)
        return emu_count_read(&engine_counts(unit)->damaged) +
               emu_count_read(&engine_counts(unit)->lost);
    return emu_count_read(&switch_counts(fabric->sw[sw])->damaged);
}

static void switch_damaged(struct fabric *fabric, uint32_t sw)
{
    struct fabric_drop why = {.sw = sw};

    for (uint32_t g = 0; g < fabric->slots; g++) {
        struct fabric_group *group = fabric->group[g];
        const struct engine_group *at;

        if (!group || !group_failed_at(fabric, group, sw))
            continue;
        at = group_at_unit(fabric, group, sw);
        why.what = at && engine_group_gave_up(at) ? FABRIC_UNIT_GAVE_UP : FABRIC_UNIT_DAMAGED;
        queue_failure(fabric, group, &why);
    }
}

/* --- packets of nodes that left -------------------------------------------------------- */

/*
 * Queue the failure of a group if a node has left the group, and the node's adapter gave up a
 * packet. A member may leave, or its process may end, as soon as it has posted its contribution. If
 * its adapter gives up the contribution later, no process there gets an error. The waiting members
 * do not notice either: they probe only the nodes that are still members.
 */
static void group_scan_left_nodes(struct fabric *fabric, struct fabric_group *group)
{
    const struct fabric_group_engines *engines = group->engines;

    for (uint32_t i = 0; engines && i < engines->count; i++) {
        uint32_t node = engines->at[i].number;

        if (node < fabric->config.graph->nodes && engine_group_gave_up(engines->at[i].group) &&
            fabric_group_find(group, node) < 0)
            queue_failure(fabric, group,
                          &(struct fabric_drop){.what = FABRIC_LEFT_GAVE_UP,
                                                .from = node,
                                                .from_incarnation = engines->at[i].incarnation});
    }
}

static uint64_t nodes_given_up(const struct fabric *fabric)
{
    uint64_t sum = 0;

    for (uint32_t n = 0; n < fabric->config.graph->nodes; n++) {
        const struct engine *engine = fabric_engine(fabric, n);

        sum += engine ? emu_count_read(&engine_counts(engine)->lost) : 0;
    }
    return sum;
}

/*
 * Call group_scan_left_nodes() for all groups, if an adapter has given up a packet, or a node has
 * left a group, since the last scan.
 */
static void scan_left_nodes(struct fabric *fabric)
{
    struct fabric_drops *drops = &fabric->drops;
    uint64_t given_up = nodes_given_up(fabric);

    if (!given_up || (given_up == drops->given_up && !drops->left))
        return;
    drops->unreported = false;
    fabric_pause(fabric);
    for (uint32_t g = 0; g < fabric->slots; g++)
        if (fabric->group[g])
            group_scan_left_nodes(fabric, fabric->group[g]);
    fabric_resume(fabric);
    if (drops->unreported)
        return;
    drops->given_up = given_up;
    drops->left = false;
}

/* --- stuck combine units ---------------------------------------------------------------- */

static bool tree_has(const struct topo_tree *tree, uint32_t sw)
{
    for (uint32_t i = 0; i < tree->count; i++)
        if (tree->switches[i].sw == sw)
            return true;
    return false;
}

/*
 * Take the units of a switch out of service. From now on entries for them are dropped. Groups whose
 * tree includes the switch move to another tree if they are idle and there is such a tree;
 * otherwise they fail. If the units are link engines (combining=switch), all these groups fail. On
 * several hosts all these groups fail, too, because no host can see whether a group is idle on all
 * others. There, unit_apply_loss() marks the groups as failed when the coordinator takes the loss.
 */
static void unit_take_out(struct fabric *fabric, uint32_t sw, uint64_t now_ps)
{
    struct fabric_drop why = {.what = FABRIC_UNIT_OUT, .sw = sw};

    if (fabric->config.hosts) {
        drop_add(fabric, &why);
        return;
    }
    if (!drop_reserve(&fabric->drops, fabric->groups + 1))
        return; /* the next scan tries again */
    fabric_combine_out(fabric, sw, true, now_ps);
    for (uint32_t g = 0; g < fabric->slots; g++) {
        struct fabric_group *group = fabric->group[g];

        if (!group || !group->combines || group->failed || !tree_has(&group->tree, sw))
            continue;
        if (fabric_has_states(&fabric->config) && fabric_group_avoid_unit(fabric, group, now_ps))
            why.moved++;
        else
            queue_failure(fabric, group,
                          &(struct fabric_drop){.what = FABRIC_UNIT_STUCK, .sw = sw});
    }
    drop_add(fabric, &why);
}

/*
 * Return whether contributions have waited for the units of a switch for @bound_ps, while the units
 * took none. The time counts from the first scan that found a contribution waiting.
 */
static bool unit_is_stuck(struct fabric *fabric, uint32_t sw, uint64_t now_ps, uint64_t bound_ps)
{
    struct fabric_combine *seen = &fabric->combine[sw];
    struct engine *unit = fabric_unit(fabric, sw);
    uint64_t taken = unit ? emu_count_read(&engine_counts(unit)->results)
                          : switch_combine_taken(fabric->sw[sw]);
    bool waits = unit ? engine_combine_is_stuck(unit)
                      : fabric_combine_waiting(fabric, sw, 0, now_ps) > 0;

    if (!seen->waits || taken != seen->taken)
        seen->since_ps = now_ps;
    seen->waits = waits;
    seen->taken = taken;
    return waits && now_ps - seen->since_ps >= bound_ps;
}

/* --- the scan ---------------------------------------------------------------------------- */

static uint64_t overruns_of(const struct fabric *fabric, uint32_t sw)
{
    struct switch_retries sum = {0};

    switch_retries_add(fabric->sw[sw], &sum);
    return sum.overrun;
}

/* Return whether a switch has units that are in service and that a fault may have stopped. */
static bool unit_can_be_stuck(const struct fabric *fabric, uint32_t sw)
{
    bool units = fabric_has_states(&fabric->config) || fabric_has_units(&fabric->config);

    return units && fabric->combine[sw].faults && !fabric->combine[sw].out;
}

static void switch_poll(struct fabric *fabric, uint32_t sw, uint64_t now_ps, uint64_t bound_ps)
{
    struct fabric_combine *seen = &fabric->combine[sw];
    uint64_t overran = overruns_of(fabric, sw), damaged = states_damaged(fabric, sw);
    bool check_unit = bound_ps != EMU_NEVER && unit_can_be_stuck(fabric, sw);

    if (overran == seen->overran && damaged == seen->damaged && !check_unit)
        return;
    fabric->drops.unreported = false;
    fabric_pause(fabric);
    if (overran != seen->overran)
        switch_overran(fabric, sw);
    if (damaged != seen->damaged)
        switch_damaged(fabric, sw);
    if (check_unit && unit_is_stuck(fabric, sw, now_ps, bound_ps))
        unit_take_out(fabric, sw, now_ps);
    fabric_resume(fabric);
    if (fabric->drops.unreported)
        return;
    seen->overran = overran;
    seen->damaged = damaged;
}

void fabric_drops_find(struct fabric *fabric, uint64_t now_ps, uint64_t bound_ps)
{
    for (uint32_t s = 0; s < fabric->config.graph->switches; s++)
        if (fabric->sw[s])
            switch_poll(fabric, s, now_ps, bound_ps);
    if (fabric_has_engines(&fabric->config))
        scan_left_nodes(fabric);
    fabric->drops.now_ps = now_ps;
    if (fabric->mirror)
        fabric->mirror->drops(fabric->mirror->ctx, bound_ps);
}

void fabric_drops_unit_back(struct fabric *fabric, uint32_t sw)
{
    drop_add(fabric, &(struct fabric_drop){.what = FABRIC_UNIT_BACK, .sw = sw});
}

/* --- consequences of a loss, on several hosts ---------------------------------------------- */

void fabric_group_fails(struct fabric *fabric, uint32_t id)
{
    struct fabric_group *group = fabric_group_at(fabric, id);

    if (group)
        group->failed = true;
}

bool fabric_unit_is_out(const struct fabric *fabric, uint32_t sw)
{
    return fabric->combine[sw].out;
}

void fabric_unit_out(struct fabric *fabric, uint32_t sw, uint64_t now_ps)
{
    if (sw >= fabric->config.graph->switches || !fabric_switches_combine(fabric) ||
        fabric->combine[sw].out)
        return;
    fabric_pause(fabric);
    fabric_combine_out(fabric, sw, true, now_ps);
    fabric_resume(fabric);
}

/* On all hosts, take a switch's units out of service and fail their groups. False: done already. */
static bool unit_apply_loss(struct fabric *fabric, uint32_t sw)
{
    if (fabric->combine[sw].out)
        return false;
    fabric->combine[sw].returns = true;
    fabric_unit_out(fabric, sw, fabric->drops.now_ps);
    fabric->mirror->unit_out(fabric->mirror->ctx, sw);
    for (uint32_t g = 0; g < fabric->slots; g++) {
        struct fabric_group *group = fabric->group[g];

        if (group && group->combines && tree_has(&group->tree, sw))
            queue_failure(fabric, group,
                          &(struct fabric_drop){.what = FABRIC_UNIT_STUCK, .sw = sw});
    }
    return true;
}

bool fabric_group_fails_all(struct fabric *fabric, uint32_t id)
{
    const struct fabric_group *group = fabric_group_at(fabric, id);

    if (!group || group->failed)
        return false;
    fabric_group_fails(fabric, id);
    fabric->mirror->failed(fabric->mirror->ctx, id);
    return true;
}

/* Coordinator: apply the consequences of a loss on all hosts. False: they were applied before. */
static bool drop_apply(struct fabric *fabric, const struct fabric_drop *drop)
{
    switch (drop->what) {
    case FABRIC_UNIT_OUT:
        return unit_apply_loss(fabric, drop->sw);
    case FABRIC_LOST_SEGMENT:
    case FABRIC_UNIT_BACK:
        return true;
    default:
        return fabric_group_fails_all(fabric, drop->group);
    }
}

/*
 * Move the first loss that concerns a group or a unit to the front of the queue. Losses of pairs of
 * processes come later.
 */
static void urgent_first(struct fabric_drops *drops)
{
    struct fabric_drop *first = &drops->at[drops->taken], *at = first, urgent;

    while (at->what == FABRIC_LOST_SEGMENT)
        at++;
    urgent = *at;
    memmove(first + 1, first, (size_t)(at - first) * sizeof *first);
    *first = urgent;
    drops->urgent--;
}

bool fabric_drop_take(struct fabric *fabric, struct fabric_drop *ret)
{
    struct fabric_drops *drops = &fabric->drops;

    while (drops->taken < drops->count) {
        if (drops->urgent)
            urgent_first(drops);
        *ret = drops->at[drops->taken++];
        drops->held[fabric_drop_host(fabric, ret)]--;
        if (!fabric->mirror || drop_apply(fabric, ret))
            return true;
    }
    drops->taken = drops->count = 0;
    return false;
}

uint32_t fabric_drops_left(const struct fabric *fabric)
{
    return fabric->drops.count - fabric->drops.taken;
}
