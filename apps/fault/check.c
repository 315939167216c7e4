/* SPDX-License-Identifier: BSD-3-Clause */
/* check.c - check whether a fault can be injected into a network. */
#include <errno.h>
#include <stdio.h>

#include "apps/fault/internal.h"
#include "emu/packet/kind.h"
#include "switch/switch.h"

static const struct fault_kind_row *kind_of(const struct fault_check *c)
{
    return fault_kind_row(c->fault->kind);
}

static const char *name_of(const struct fault_check *c)
{
    return kind_of(c)->name;
}

static int check_node(const struct fault_check *c, const char *key, uint32_t node)
{
    if (node == EMU_FAULT_ANY || node < c->network->graph->nodes)
        return 0;
    return refuse(c, -EINVAL, "%s %s=%u: %s has nodes 0 to %u", name_of(c), key, node,
                  c->network->graph->spec, c->network->graph->nodes - 1);
}

/* Check that the network can have packets that match the fault's rule. */
static int check_aim(const struct fault_check *c)
{
    const struct emu_fault_aim *aim = &c->fault->rule.aim;
    const struct emu_profile *profile = c->network->profile;
    int err = check_node(c, "from", aim->src);

    if (!err)
        err = check_node(c, "to", aim->dst);
    if (err)
        return err;
    if (aim->kinds == 1u << EMU_SET)
        return refuse(c, -EINVAL,
                      "%s kind=set: a set goes to the node's own adapter and crosses no cable; use "
                      "another kind",
                      name_of(c));
    if (!emu_profile_has_packets(profile) && aim->packets != EMU_FAULT_CREDIT &&
        !(aim->packets & EMU_FAULT_HEAD))
        return refuse(c, -EINVAL,
                      "%s packet=: profile %s has no acknowledgments, so each segment is a head; "
                      "leave packet out, or use --profile qsnet3",
                      name_of(c), profile->name);
    if (!emu_profile_has_words(profile) && aim->kinds == 1u << EMU_TEST)
        return refuse(c, -EINVAL,
                      "%s kind=test: profile %s has no network conditionals; use --profile qsnet3",
                      name_of(c), profile->name);
    return 0;
}

/* Without acknowledgments a node's cable is the host interface of its process, and cannot fail. */
static bool cable_can_fail(const struct fault_network *network, uint32_t sw, uint32_t port)
{
    return emu_profile_has_engines(network->profile) ||
           network->graph->sw[sw].end[port].kind == TOPO_END_SWITCH;
}

void fault_targets_limit(struct fault_targets *targets, const struct fault *fault,
                         const struct fault_network *network)
{
    struct fault_target *at = targets->target;
    uint32_t kept = 0;

    if (fault_domain(fault->kind) != FAULT_OF_LINKS)
        return;
    for (uint32_t i = 0; i < targets->count; i++)
        kept += cable_can_fail(network, at[i].id, at[i].port);
    if (!kept || kept == targets->count)
        return;
    kept = 0;
    for (uint32_t i = 0; i < targets->count; i++)
        if (cable_can_fail(network, at[i].id, at[i].port))
            at[kept++] = at[i];
    targets->count = kept;
    if (!fault_targets_drawn(fault))
        targets->among = kept;
}

static bool switch_can_crash(const struct fault_check *c, uint32_t sw)
{
    for (uint32_t port = 0; port < c->network->graph->ports; port++)
        if (c->network->graph->sw[sw].end[port].kind != TOPO_END_NONE &&
            !cable_can_fail(c->network, sw, port))
            return false;
    return true;
}

/* Check that the event that the fault waits for (on=) can be observed. */
static int check_event(const struct fault_check *c)
{
    const struct fault_event *on = &c->fault->when.on;
    const struct topo_graph *graph = c->network->graph;

    if (!on->nth)
        return 0;
    if (on->kind == EMU_TEST && !emu_profile_has_words(c->network->profile))
        return refuse(c, -EINVAL,
                      "%s on=test: profile %s has no network conditionals; use --profile qsnet3",
                      name_of(c), c->network->profile->name);
    if (emu_kind_traits(on->kind)->folds) {
        if (emu_profile_has_engines(c->network->profile) || switch_combines(c->network->profile))
            return 0;
        return refuse(c, -ENOTSUP,
                      "on=: this network does not combine contributions, so it cannot observe "
                      "this operation; use at=");
    }
    for (uint32_t sw = 0; sw < graph->switches; sw++)
        for (uint32_t port = 0; port < graph->ports; port++)
            if (graph->sw[sw].end[port].kind != TOPO_END_NONE &&
                cable_can_fail(c->network, sw, port))
                return 0;
    return refuse(c, -ENOTSUP,
                  "on=: no cable of this network can be observed; use at=, or profile qsnet3");
}

static int check_requirements(const struct fault_check *c)
{
    int err = 0;

    for (size_t i = 0; !err && i < FAULT_REQUIRES && kind_of(c)->requires[i]; i++)
    err = kind_of(c)->requires[i](c);
    return err;
}

static int check_signals(const struct fault_check *c)
{
    for (uint32_t i = 0; i < c->targets.count; i++) {
        const struct fault_target *at = &c->targets.target[i];

        if (!cable_can_fail(c->network, at->id, at->port))
            return refuse(
                c, -ENOTSUP,
                "%s: it may act on the cable at switch %u, port %u, which leads to a node: "
                "without acknowledgments such a cable cannot fail",
                name_of(c), at->id, topo_switch_port(c->network->graph, at->id, at->port));
    }
    return 0;
}

static uint32_t targets_hit(const struct fault_check *c)
{
    uint32_t hit = 0;

    for (uint32_t i = 0; i < c->targets.count; i++) {
        const struct fault_target *at = &c->targets.target[i];

        if (kind_of(c)->domain == FAULT_OF_LINKS || kind_of(c)->cuts)
            hit += cable_can_fail(c->network, at->id, at->port);
        else
            hit += !kind_of(c)->takes_switch || switch_can_crash(c, at->id);
    }
    return hit;
}

/* Check that a fault of cables can hit at least one cable, and that a crash can hit each switch. */
static int check_effect(const struct fault_check *c)
{
    uint32_t hit = targets_hit(c);

    if (!c->targets.count)
        return refuse(c, -EINVAL,
                      "%s: no cable connects these nodes to the others; name other nodes",
                      name_of(c));
    if (!hit || (kind_of(c)->takes_switch && hit < c->targets.count))
        return refuse(c, -ENOTSUP,
                      "%s: without acknowledgments a node's cable cannot fail: name cables between "
                      "switches, switches without nodes, or use profile qsnet3",
                      name_of(c));
    return kind_of(c)->takes_signal ? check_signals(c) : 0;
}

/*
 * Return a fault that acts on all candidates of @fault, to check a fault with random targets for
 * all seeds at once. For a partition, which may cut any cable, it is a fault of all cables.
 */
static struct fault fault_on_all_candidates(const struct fault *fault)
{
    struct fault ret = *fault;

    if (fault_targets_drawn(fault) && fault_kind_row(fault->kind)->cuts)
        return (struct fault){.kind = FAULT_LINK_DOWN, .where.place = FAULT_AT_ALL};
    if (fault_targets_drawn(fault))
        ret.where.random = (struct fault_random){.share = EMU_FAULT_ONE};
    return ret;
}

/* Check that the network has all devices that the fault names, and enough candidates. */
static int check_place(const struct fault_check *c)
{
    struct fault_targets named = {.count = 0};
    int err = fault_targets_find(&named, c->fault, c->network->graph, 0, c->text, c->text_bytes);

    if (!err && kind_of(c)->cuts && named.count == c->network->graph->nodes)
        err = refuse(c, -EINVAL, "%s: these are all nodes of %s; name only some of them",
                     name_of(c), c->network->graph->spec);
    fault_targets_release(&named);
    return err;
}

static int check_all(const struct fault_check *c)
{
    int err = kind_of(c)->has_rule ? check_aim(c) : 0;

    if (!err)
        err = check_event(c);
    if (!err)
        err = check_requirements(c);
    return err ? err : check_effect(c);
}

int fault_check(const struct fault *fault, const struct fault_network *network, char *text,
                size_t text_bytes)
{
    struct fault_check c = {.fault = fault,
                            .network = network,
                            .text = text,
                            .text_bytes = text_bytes};
    const struct fault all = fault_on_all_candidates(fault);
    int err = check_place(&c);

    if (!err)
        err = fault_affected_find(&c.targets, &all, network->graph, 0, text, text_bytes);
    if (!err)
        err = check_all(&c);
    if (!err && text_bytes) {
        *text = '\0';
        if (kind_of(&c)->note)
            kind_of(&c)->note(&c);
    }
    fault_targets_release(&c.targets);
    return err;
}
