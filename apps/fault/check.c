/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check.c - can a fault be injected into a network? The only place that decides it: the dry run, a
 * schedule, and a request to a running fabric all ask here.
 */
#include <errno.h>
#include <stdio.h>

#include "apps/fault/internal.h"
#include "switch/switch.h"

struct check {
    const struct fault *fault;
    const struct fault_network *network;
    struct fault_targets targets; /* all that the fault may act on, for any seed */
    char *text;
    size_t text_bytes;
};

static const char *name_of(const struct check *c)
{
    return fault_name(c->fault->kind);
}

static int check_node(const struct check *c, const char *key, uint32_t node)
{
    if (node == EMU_FAULT_ANY || node < c->network->graph->nodes)
        return 0;
    return fail(-EINVAL, c->text, c->text_bytes, "%s %s=%u: %s has nodes 0 to %u", name_of(c), key,
                node, c->network->graph->spec, c->network->graph->nodes - 1);
}

/* Are there such entries? */
static int check_aim(const struct check *c)
{
    const struct emu_fault_aim *aim = &c->fault->rule.aim;
    const struct emu_profile *profile = c->network->profile;
    int err = check_node(c, "from", aim->src);

    if (!err)
        err = check_node(c, "to", aim->dst);
    if (err)
        return err;
    if (aim->kinds == 1u << EMU_SET)
        return fail(-EINVAL, c->text, c->text_bytes,
                    "%s kind=set: a set goes to the node's own adapter and passes no cable; take "
                    "another kind",
                    name_of(c));
    if (!emu_profile_has_packets(profile) && aim->packets != EMU_FAULT_CREDIT &&
        !(aim->packets & EMU_FAULT_HEAD))
        return fail(-EINVAL, c->text, c->text_bytes,
                    "%s packet=: profile %s does not acknowledge, so that each segment is a head; "
                    "leave packet out, or take --profile qsnet3",
                    name_of(c), profile->name);
    if (!emu_profile_has_words(profile) && aim->kinds == 1u << EMU_TEST)
        return fail(-EINVAL, c->text, c->text_bytes,
                    "%s kind=test: profile %s has no network conditionals; take --profile qsnet3",
                    name_of(c), profile->name);
    return 0;
}

/* --- what can fail here --------------------------------------------------------- */

/*
 * Can a fault act on the cable at this port? Without acknowledgments a node's cable leads straight
 * to the node's process, and nothing can go wrong on it.
 */
static bool cable_can_fail(const struct check *c, uint32_t sw, uint32_t port)
{
    return emu_profile_has_engines(c->network->profile) ||
           c->network->graph->sw[sw].end[port].kind == TOPO_END_SWITCH;
}

static bool switch_can_crash(const struct check *c, uint32_t sw)
{
    for (uint32_t port = 0; port < c->network->graph->ports; port++)
        if (c->network->graph->sw[sw].end[port].kind != TOPO_END_NONE &&
            !cable_can_fail(c, sw, port))
            return false;
    return true;
}

/* Does anything combine contributions: adapters, or switches with combine units? */
static bool network_combines(const struct check *c)
{
    return emu_profile_has_engines(c->network->profile) || switch_combines(c->network->profile);
}

/* Can the event that the fault waits for (on=) be observed? */
static int check_event(const struct check *c)
{
    const struct fault_event *on = &c->fault->when.on;
    const struct topo_graph *graph = c->network->graph;

    if (!on->nth)
        return 0;
    if (on->kind == EMU_TEST && !emu_profile_has_words(c->network->profile))
        return fail(-EINVAL, c->text, c->text_bytes,
                    "%s on=test: profile %s has no network conditionals; take --profile qsnet3",
                    name_of(c), c->network->profile->name);
    if (on->kind == EMU_REDUCE || on->kind == EMU_ALLREDUCE || on->kind == EMU_BARRIER) {
        if (network_combines(c))
            return 0;
        return fail(-ENOTSUP, c->text, c->text_bytes,
                    "on=: nothing combines in this network, so no such operation is seen: use at=");
    }
    for (uint32_t sw = 0; sw < graph->switches; sw++)
        for (uint32_t port = 0; port < graph->ports; port++)
            if (graph->sw[sw].end[port].kind != TOPO_END_NONE && cable_can_fail(c, sw, port))
                return 0;
    return fail(-ENOTSUP, c->text, c->text_bytes,
                "on=: no cable of this network can be observed: use at=, or profile qsnet3");
}

/* In simulated time nodes are traffic generators inside the fabric. */
static bool has_processes(const struct check *c)
{
    return c->network->clock != EMU_CLOCK_VIRTUAL;
}

/* Does the machine have the part that breaks? */
static int check_part(const struct check *c)
{
    const struct emu_profile *profile = c->network->profile;

    switch (c->fault->kind) {
    case FAULT_COMBINE_STALL:
    case FAULT_COMBINE_FLIP:
    case FAULT_COMBINE_EXHAUST:
        if (!emu_profile_switches_combine(profile))
            return fail(-EINVAL, c->text, c->text_bytes,
                        "%s: with profile %s adapters combine, switches have no combine units; "
                        "take --set combining=switch",
                        name_of(c), profile->name);
        if (!network_combines(c))
            return fail(-ENOTSUP, c->text, c->text_bytes,
                        "%s: these switches have no combine units: use buffers=xpoint or "
                        "input_xpoint",
                        name_of(c));
        if (c->fault->kind == FAULT_COMBINE_EXHAUST && !has_processes(c))
            return fail(-ENOTSUP, c->text, c->text_bytes,
                        "%s: it refuses groups that are made during the fault, but synthetic "
                        "traffic makes all of its groups before the run: use fabemu run",
                        name_of(c));
        return 0;
    case FAULT_ADAPTER_RESET:
        if (emu_profile_has_engines(profile))
            return 0;
        return fail(-EINVAL, c->text, c->text_bytes,
                    "%s: adapters of profile %s keep nothing that could be reset; take --profile "
                    "qsnet3, or node-kill",
                    name_of(c), profile->name);
    case FAULT_NODE_FREEZE:
    case FAULT_NODE_SLOW:
    case FAULT_NODE_KILL:
    case FAULT_NOISE:
        if (has_processes(c))
            return 0;
        return fail(-ENOTSUP, c->text, c->text_bytes,
                    "%s acts on processes, and nodes in simulated time have none", name_of(c));
    default:
        return 0;
    }
}

/* Does the network do what the fault disturbs: send again, take time, return credits? */
static int check_service(const struct check *c)
{
    const struct emu_profile *profile = c->network->profile;

    switch (c->fault->kind) {
    case FAULT_LINK_DOWN:
    case FAULT_LINK_FLAP:
    case FAULT_BIT_ERRORS:
    case FAULT_LOSS:
    case FAULT_DUPLICATE:
    case FAULT_DELAY:
    case FAULT_SWITCH_CRASH:
    case FAULT_ADAPTER_RESET:
    case FAULT_PARTITION:
        if (switch_has_links(profile))
            return 0;
        return fail(-ENOTSUP, c->text, c->text_bytes,
                    "%s: this profile acknowledges nothing, so nothing would mend what is lost: "
                    "use profile qsnet3, transport=acknowledged or link_retry=go_back_n",
                    name_of(c));
    case FAULT_CREDIT_LOSS:
    case FAULT_CREDIT_FORGE:
        if (!emu_profile_retries(profile))
            return 0;
        return fail(-ENOTSUP, c->text, c->text_bytes,
                    "%s: with link-level retry credits go with what is checked and sent again, so "
                    "that none is lost or made on a cable: use link_retry=none",
                    name_of(c));
    case FAULT_SLOW_LINK:
        if (c->network->clock != EMU_CLOCK_RAW)
            return 0;
        return fail(-ENOTSUP, c->text, c->text_bytes,
                    "%s: on clock raw a byte takes no time, so nothing can take longer: use "
                    "--clock real, or fabemu traffic",
                    name_of(c));
    default:
        return 0;
    }
}

/* --- what the fault acts on --------------------------------------------------------- */

/* For a fault that takes the signal of whole cables: can each of its cables lose its signal? */
static int check_signals(const struct check *c)
{
    for (uint32_t i = 0; i < c->targets.count; i++) {
        const struct fault_target *at = &c->targets.target[i];

        if (!cable_can_fail(c, at->id, at->port))
            return fail(-ENOTSUP, c->text, c->text_bytes,
                        "%s: it may take the cable at switch %u, port %u, which leads to a node: "
                        "without acknowledgments nothing can go wrong there",
                        name_of(c), at->id, at->port);
    }
    return 0;
}

/* How many of its targets the fault has an effect on. */
static uint32_t targets_hit(const struct check *c)
{
    uint32_t hit = 0;

    for (uint32_t i = 0; i < c->targets.count; i++) {
        const struct fault_target *at = &c->targets.target[i];

        if (fault_domain(c->fault->kind) == FAULT_OF_LINKS || c->fault->kind == FAULT_PARTITION)
            hit += cable_can_fail(c, at->id, at->port);
        else
            hit += c->fault->kind != FAULT_SWITCH_CRASH || switch_can_crash(c, at->id);
    }
    return hit;
}

/* A fault on cables must have an effect on one of them, a crash on each of its switches. */
static int check_effect(const struct check *c)
{
    uint32_t hit = targets_hit(c);

    if (!c->targets.count)
        return fail(-EINVAL, c->text, c->text_bytes,
                    "%s: no cable joins these nodes with the others; name some others", name_of(c));
    if (!hit || (c->fault->kind == FAULT_SWITCH_CRASH && hit < c->targets.count))
        return fail(-ENOTSUP, c->text, c->text_bytes,
                    "%s: without acknowledgments nothing goes wrong on a node's cable: name cables "
                    "between switches, switches without nodes, or take profile qsnet3",
                    name_of(c));
    if (c->fault->kind != FAULT_LINK_DOWN && c->fault->kind != FAULT_LINK_FLAP &&
        c->fault->kind != FAULT_PARTITION)
        return 0;
    return check_signals(c);
}

/* What the fault will do that a user may not expect. */
static void write_note(const struct check *c)
{
    const struct emu_profile *profile = c->network->profile;

    *c->text = '\0';
    switch (c->fault->kind) {
    case FAULT_CREDIT_LOSS:
        snprintf(c->text, c->text_bytes,
                 "a credit that is lost is never given back: the cable gets slower, and without "
                 "any it stands still");
        return;
    case FAULT_CREDIT_FORGE:
        snprintf(c->text, c->text_bytes,
                 "the sender may now send more than there is room for at the far end, where what "
                 "finds no room is dropped%s",
                 emu_profile_resends(profile) ? "" : "; nothing sends it again");
        return;
    case FAULT_COMBINE_FLIP:
        if (profile->combine_check == EMU_COMBINE_CHECK_NONE)
            snprintf(c->text, c->text_bytes,
                     "with combine_check=none nothing finds the bit that has flipped: results are "
                     "wrong, and nobody is told");
        return;
    default:
        return;
    }
}

/*
 * A fault that acts on everything that @fault may choose with some seed, so that the answer does
 * not depend on the seed. A partition of random nodes may cut any cable.
 */
static struct fault of_all_draws(const struct fault *fault)
{
    struct fault ret = *fault;

    if (fault_targets_drawn(fault) && fault->kind == FAULT_PARTITION)
        return (struct fault){.kind = FAULT_LINK_DOWN, .where.place = FAULT_AT_ALL};
    if (fault_targets_drawn(fault))
        ret.where.some = (struct fault_some){.share = EMU_FAULT_ONE};
    return ret;
}

/* Does the network have everything that the fault names, and enough targets to choose from? */
static int check_place(const struct check *c)
{
    struct fault_targets named = {.count = 0};
    int err = fault_targets_find(&named, c->fault, c->network->graph, 0, c->text, c->text_bytes);

    if (!err && c->fault->kind == FAULT_PARTITION && named.count == c->network->graph->nodes)
        err = fail(-EINVAL, c->text, c->text_bytes,
                   "%s: these are all nodes of %s, and there are no others; name some of them",
                   name_of(c), c->network->graph->spec);
    fault_targets_release(&named);
    return err;
}

static int check_all(const struct check *c)
{
    int err = fault_has_rule(c->fault->kind) ? check_aim(c) : 0;

    if (!err)
        err = check_event(c);
    if (!err)
        err = check_part(c);
    if (!err)
        err = check_service(c);
    return err ? err : check_effect(c);
}

int fault_check(const struct fault *fault, const struct fault_network *network, char *text,
                size_t text_bytes)
{
    struct check c = {.fault = fault, .network = network, .text = text, .text_bytes = text_bytes};
    const struct fault all = of_all_draws(fault);
    int err = check_place(&c);

    if (!err)
        err = fault_affected_find(&c.targets, &all, network->graph, 0, text, text_bytes);
    if (!err)
        err = check_all(&c);
    if (!err && text_bytes)
        write_note(&c);
    fault_targets_release(&c.targets);
    return err;
}
