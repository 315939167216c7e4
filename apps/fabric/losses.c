/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * losses.c - what is lost for good, and can never end: segments that found no room, partial results
 * that were found damaged, what waits for a combine unit that does nothing.
 *
 * Where nothing acknowledges, who waits for these would wait for ever. So the manager looks, and
 * what it finds stands in a list until it is taken (fabric_loss_take()). Where they happen, nothing
 * is forgotten before that: an intake has a place for each segment that can overrun it, and a group
 * that has failed in a switch is marked there.
 *
 * On several hosts each looks at its own devices and says what it found, and that is all it does:
 * replicas are to stay alike, so what follows of a loss is decided when the governor takes it, and
 * done on all.
 */
#include <stdlib.h>
#include <string.h>

#include "apps/fabric/internal.h"
#include "emu/retry/intake.h"
#include "emu/util/now.h"

/* What was taken leaves its room to others, when that is the larger part. */
static void losses_settle(struct fabric_losses *losses)
{
    if (losses->taken < losses->count / 2)
        return;
    losses->count -= losses->taken;
    if (losses->count)
        memmove(losses->at, losses->at + losses->taken, losses->count * sizeof *losses->at);
    losses->taken = 0;
}

/* False: there is no memory; what it is about is found again by the next look. */
static bool loss_room(struct fabric_losses *losses, uint32_t more)
{
    uint32_t most = losses->most ? losses->most : 64;
    struct fabric_loss *at;

    if (losses->count + more > most)
        losses_settle(losses);
    while (losses->count + more > most)
        most *= 2;
    if (most == losses->most)
        return true;
    at = realloc(losses->at, most * sizeof *at);
    losses->untold |= !at;
    if (!at)
        return false;
    losses->at = at;
    losses->most = most;
    return true;
}

/* So many wait to be told that more are not looked for; they stay where they were lost. */
static bool losses_are_many(const struct fabric_losses *losses)
{
    return losses->count - losses->taken >= FABRIC_LOSSES_MOST;
}

static bool is_same_pair(const struct fabric_loss *a, const struct fabric_loss *b)
{
    return a->what == FABRIC_LOST_SEGMENT && b->what == FABRIC_LOST_SEGMENT && a->from == b->from &&
           a->to == b->to && a->from_seat == b->from_seat && a->to_seat == b->to_seat;
}

/*
 * A pair may lose something on each cable that its segments spread over: it need not be told more
 * than once at a time. Of many pairs some are not recognized, and are told twice.
 */
static void loss_add(struct fabric *fabric, const struct fabric_loss *loss)
{
    struct fabric_losses *losses = &fabric->losses;
    uint32_t *recent = &losses->recent[(loss->from * 31u + loss->to) % FABRIC_LOSSES_RECENT];

    if (*recent >= losses->taken && *recent < losses->count &&
        is_same_pair(&losses->at[*recent], loss)) {
        losses->at[*recent].more += loss->more + 1;
        losses->at[*recent].found_ns = emu_now_ns();
        return;
    }
    if (!loss_room(losses, 1))
        return;
    *recent = losses->count;
    losses->urgent += loss->what != FABRIC_LOST_SEGMENT;
    losses->at[losses->count] = *loss;
    losses->at[losses->count++].found_ns = emu_now_ns();
}

/* Do its nodes and switches exist in this network, and could a device of @host have found it? */
static bool loss_is_sane(const struct fabric *fabric, uint32_t host, const struct fabric_loss *loss)
{
    const struct topo_graph *graph = fabric->config.graph;
    bool unicast = loss->what == FABRIC_LOST_SEGMENT;

    if (loss->what > FABRIC_UNIT_BACK || loss->sw >= graph->switches || loss->from >= graph->nodes)
        return false;
    if (unicast || loss->what == FABRIC_LOST_OF_GROUP)
        return (!unicast || loss->to < graph->nodes) && loss->cable < fabric->links.count &&
               fabric_way_host(fabric, 2 * loss->cable + loss->out, false) == host;
    if (loss->what == FABRIC_LEFT_GAVE_UP)
        return fabric_node_host(&fabric->config, loss->from) == host;
    return fabric_switch_host(&fabric->config, loss->sw) == host;
}

void fabric_loss_heard(struct fabric *fabric, uint32_t host, const struct fabric_loss *loss)
{
    const struct fabric_losses *losses = &fabric->losses;
    bool many = loss->what == FABRIC_LOST_SEGMENT ? losses_are_many(losses)
                                                  : losses->urgent >= FABRIC_LOSSES_MOST;

    if (!many && loss_is_sane(fabric, host, loss))
        loss_add(fabric, loss);
}

void fabric_free_losses(struct fabric *fabric)
{
    free(fabric->losses.at);
}

/*
 * The group has failed, and whoever takes the loss tells its members so, once. On several hosts it
 * has when the governor takes it.
 */
static void group_fails(struct fabric *fabric, struct fabric_group *group,
                        const struct fabric_loss *why)
{
    struct fabric_loss loss = *why;

    if (group->failed || !loss_room(&fabric->losses, 1))
        return;
    group->failed = !fabric->config.hosts;
    loss.group = group->id;
    loss_add(fabric, &loss);
}

/* --- segments that found no room ------------------------------------------------------ */

struct overrun {
    struct fabric *fabric;
    uint32_t cable;
    bool out;
};

/*
 * The seat at @node whose lowest byte is @low: the last that there was, mostly the one that is
 * there, or one before it. 0: there was none, as where a process does not say whose its segments
 * are.
 */
static uint64_t seat_near(const struct fabric *fabric, uint32_t node, uint8_t low)
{
    uint64_t word = node < fabric->config.graph->nodes ? fabric->seat[node] : 0;
    uint64_t last = emu_seat_first(word) - !emu_seat_attached(word);
    uint64_t before = (uint8_t)(last - low);

    return before < last ? last - before : 0;
}

static void overrun_note(void *ctx, const struct emu_hdr *hdr)
{
    const struct overrun *at = ctx;
    bool unicast = hdr->kind == EMU_UNICAST;
    struct fabric_group *group = unicast ? NULL : fabric_group_at(at->fabric, hdr->dst);
    struct fabric_loss loss = {.what = unicast ? FABRIC_LOST_SEGMENT : FABRIC_LOST_OF_GROUP,
                               .cable = at->cable,
                               .out = at->out,
                               .from = hdr->src,
                               .to = hdr->dst};

    if (unicast) {
        loss.from_seat = seat_near(at->fabric, hdr->src, hdr->type);
        loss.to_seat = seat_near(at->fabric, hdr->dst, hdr->op);
        loss_add(at->fabric, &loss);
    } else if (group) {
        group_fails(at->fabric, group, &loss);
    }
}

/* Of the cables into a switch. */
static void switch_overran(struct fabric *fabric, uint32_t sw)
{
    for (uint32_t p = 0; p < fabric->config.graph->ports; p++) {
        uint32_t i = fabric_cable_at(fabric, sw, p);
        struct overrun at = {.fabric = fabric, .cable = i};

        if (i == TOPO_NONE || fabric->links.cable[i].kind != TOPO_END_SWITCH ||
            losses_are_many(&fabric->losses) || !loss_room(&fabric->losses, EMU_INTAKE_FORGED))
            continue;
        at.out = fabric->links.cable[i].at.sw != sw || fabric->links.cable[i].at.port != p;
        switch_overruns(fabric->sw[sw], p, overrun_note, &at);
    }
}

/* --- partial results that were found damaged ------------------------------------------- */

static bool group_failed_at(const struct fabric *fabric, const struct fabric_group *group,
                            uint32_t sw)
{
    const struct engine *unit = fabric_unit(fabric, sw);

    for (uint32_t i = 0; unit && group->engines && i < group->engines->count; i++)
        if (group->engines->at[i].engine == unit &&
            engine_group_failed(group->engines->at[i].group))
            return true;
    for (uint32_t i = 0; !unit && i < group->tree.count; i++)
        if (group->tree.switches[i].sw == sw && switch_group_failed(group->part[i]))
            return true;
    return false;
}

/* Has it failed there for what the unit gave up? */
static bool group_given_up_at(const struct fabric *fabric, const struct fabric_group *group,
                              uint32_t sw)
{
    const struct engine *unit = fabric_unit(fabric, sw);

    for (uint32_t i = 0; unit && group->engines && i < group->engines->count; i++)
        if (group->engines->at[i].engine == unit &&
            engine_group_gave_up(group->engines->at[i].group))
            return true;
    return false;
}

/* How often a unit has found that something is damaged, or has given something up. */
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
    struct fabric_loss why = {.sw = sw};

    for (uint32_t g = 0; g < fabric->slots; g++) {
        struct fabric_group *group = fabric->group[g];

        if (!group || !group_failed_at(fabric, group, sw))
            continue;
        why.what = group_given_up_at(fabric, group, sw) ? FABRIC_UNIT_GAVE_UP : FABRIC_UNIT_DAMAGED;
        group_fails(fabric, group, &why);
    }
}

/* --- what a node had posted before it left ----------------------------------------------- */

static bool group_has(const struct fabric_group *group, uint32_t node)
{
    for (uint32_t i = 0; i < group->count; i++)
        if (group->node[i] == node)
            return true;
    return false;
}

/*
 * A member may leave, or end, as soon as it has posted its part. Is that given up afterwards,
 * nobody there hears of it; and with a tree without the node, probes of those who wait get through.
 */
static void group_left_look(struct fabric *fabric, struct fabric_group *group)
{
    const struct fabric_group_engines *engines = group->engines;

    for (uint32_t i = 0; engines && i < engines->count; i++) {
        uint32_t node = engines->at[i].number;

        if (node < fabric->config.graph->nodes && engine_group_gave_up(engines->at[i].group) &&
            !group_has(group, node))
            group_fails(fabric, group,
                        &(struct fabric_loss){.what = FABRIC_LEFT_GAVE_UP,
                                              .from = node,
                                              .from_seat = engines->at[i].seat});
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

/* What was given up before its node left is found when it has. */
static void left_look(struct fabric *fabric)
{
    struct fabric_losses *losses = &fabric->losses;
    uint64_t given_up = nodes_given_up(fabric);

    if (!given_up || (given_up == losses->given_up && !losses->left))
        return;
    losses->untold = false;
    fabric_hold(fabric);
    for (uint32_t g = 0; g < fabric->slots; g++)
        if (fabric->group[g])
            group_left_look(fabric, fabric->group[g]);
    fabric_go(fabric);
    if (losses->untold)
        return;
    losses->given_up = given_up;
    losses->left = false;
}

/* --- units that do nothing -------------------------------------------------------------- */

static bool tree_has(const struct topo_tree *tree, uint32_t sw)
{
    for (uint32_t i = 0; i < tree->count; i++)
        if (tree->switches[i].sw == sw)
            return true;
    return false;
}

/*
 * Its groups get trees without it where nothing of them is under way, and where there are such
 * trees; the others fail, and so do all where units are link engines, and on several hosts, of
 * which none sees that nothing is under way. What waits for it is dropped from now on.
 */
static void unit_out(struct fabric *fabric, uint32_t sw, uint64_t now_ps)
{
    struct fabric_loss why = {.what = FABRIC_UNIT_OUT, .sw = sw};

    if (fabric->config.hosts) {
        loss_add(fabric, &why); /* unit_settles() */
        return;
    }
    if (!loss_room(&fabric->losses, fabric->groups + 1))
        return; /* the next look does it */
    fabric_combine_out(fabric, sw, true, now_ps);
    for (uint32_t g = 0; g < fabric->slots; g++) {
        struct fabric_group *group = fabric->group[g];

        if (!group || !group->combines || group->failed || !tree_has(&group->tree, sw))
            continue;
        if (fabric_has_states(&fabric->config) && fabric_group_evade(fabric, group, now_ps))
            why.moved++;
        else
            group_fails(fabric, group, &(struct fabric_loss){.what = FABRIC_UNIT_STUCK, .sw = sw});
    }
    loss_add(fabric, &why);
}

/* Has it done nothing for @bound_ps, counted from the first look that found something waiting? */
static bool unit_is_stuck(struct fabric *fabric, uint32_t sw, uint64_t now_ps, uint64_t bound_ps)
{
    struct fabric_combine *seen = &fabric->combine[sw];
    struct engine *unit = fabric_unit(fabric, sw);
    uint64_t taken = unit ? emu_count_read(&engine_counts(unit)->results)
                          : switch_combine_taken(fabric->sw[sw]);
    bool waits = unit ? engine_combine_stands(unit)
                      : fabric_combine_waiting(fabric, sw, 0, now_ps) > 0;

    if (!seen->waits || taken != seen->taken)
        seen->since_ps = now_ps;
    seen->waits = waits;
    seen->taken = taken;
    return waits && now_ps - seen->since_ps >= bound_ps;
}

/* --- a look ------------------------------------------------------------------------------ */

static uint64_t overruns_of(const struct fabric *fabric, uint32_t sw)
{
    struct switch_retries sum = {0};

    switch_retries_add(fabric->sw[sw], &sum);
    return sum.overrun;
}

/* Are there units that faults can have stopped? */
static bool unit_can_ail(const struct fabric *fabric, uint32_t sw)
{
    bool units = fabric_has_states(&fabric->config) || fabric_has_units(&fabric->config);

    return units && fabric->combine[sw].faults && !fabric->combine[sw].out;
}

static void switch_look(struct fabric *fabric, uint32_t sw, uint64_t now_ps, uint64_t bound_ps)
{
    struct fabric_combine *seen = &fabric->combine[sw];
    uint64_t overran = overruns_of(fabric, sw), damaged = states_damaged(fabric, sw);
    bool ails = bound_ps != EMU_NEVER && unit_can_ail(fabric, sw);

    if (overran == seen->overran && damaged == seen->damaged && !ails)
        return;
    fabric->losses.untold = false;
    fabric_hold(fabric);
    if (overran != seen->overran)
        switch_overran(fabric, sw);
    if (damaged != seen->damaged)
        switch_damaged(fabric, sw);
    if (ails && unit_is_stuck(fabric, sw, now_ps, bound_ps))
        unit_out(fabric, sw, now_ps);
    fabric_go(fabric);
    if (fabric->losses.untold)
        return;
    seen->overran = overran;
    seen->damaged = damaged;
}

void fabric_losses_look(struct fabric *fabric, uint64_t now_ps, uint64_t bound_ps)
{
    for (uint32_t s = 0; s < fabric->config.graph->switches; s++)
        if (fabric->sw[s])
            switch_look(fabric, s, now_ps, bound_ps);
    if (fabric_has_engines(&fabric->config))
        left_look(fabric);
    fabric->losses.now_ps = now_ps;
    if (fabric->mirror)
        fabric->mirror->losses(fabric->mirror->ctx, bound_ps);
}

void fabric_losses_unit_back(struct fabric *fabric, uint32_t sw)
{
    loss_add(fabric, &(struct fabric_loss){.what = FABRIC_UNIT_BACK, .sw = sw});
}

/* --- what follows of a loss, on several hosts ---------------------------------------------- */

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
    fabric_hold(fabric);
    fabric_combine_out(fabric, sw, true, now_ps);
    fabric_go(fabric);
}

/* False: that was known. */
static bool unit_settles(struct fabric *fabric, uint32_t sw)
{
    if (fabric->combine[sw].out)
        return false;
    fabric_unit_out(fabric, sw, fabric->losses.now_ps);
    fabric->mirror->unit_out(fabric->mirror->ctx, sw);
    for (uint32_t g = 0; g < fabric->slots; g++) {
        struct fabric_group *group = fabric->group[g];

        if (group && group->combines && tree_has(&group->tree, sw))
            group_fails(fabric, group, &(struct fabric_loss){.what = FABRIC_UNIT_STUCK, .sw = sw});
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

/* The governor takes it: all replicas do what follows. False: that was done before. */
static bool loss_settles(struct fabric *fabric, const struct fabric_loss *loss)
{
    switch (loss->what) {
    case FABRIC_UNIT_OUT:
        return unit_settles(fabric, loss->sw);
    case FABRIC_LOST_SEGMENT:
    case FABRIC_UNIT_BACK:
        return true;
    default:
        return fabric_group_fails_all(fabric, loss->group);
    }
}

/* What a group, or a unit, waits for does not stand behind what pairs have lost. */
static void urgent_first(struct fabric_losses *losses)
{
    struct fabric_loss *first = &losses->at[losses->taken], *at = first, urgent;

    while (at->what == FABRIC_LOST_SEGMENT)
        at++;
    urgent = *at;
    memmove(first + 1, first, (size_t)(at - first) * sizeof *first);
    *first = urgent;
    losses->urgent--;
}

bool fabric_loss_take(struct fabric *fabric, struct fabric_loss *ret)
{
    struct fabric_losses *losses = &fabric->losses;

    while (losses->taken < losses->count) {
        if (losses->urgent)
            urgent_first(losses);
        *ret = losses->at[losses->taken++];
        if (!fabric->mirror || loss_settles(fabric, ret))
            return true;
    }
    losses->taken = losses->count = 0;
    return false;
}

uint32_t fabric_losses_left(const struct fabric *fabric)
{
    return fabric->losses.count - fabric->losses.taken;
}
