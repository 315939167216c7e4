/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check.c - does a network have what a fault names, and its profile what the fault breaks?
 */
#include <errno.h>
#include <stdio.h>

#include "apps/fault/internal.h"

struct check {
    const struct fault *fault;
    const struct fault_network *network;
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

/* Is there such an event? */
static int check_event(const struct check *c)
{
    if (!c->fault->when.on.nth || c->fault->when.on.kind != EMU_TEST ||
        emu_profile_has_words(c->network->profile))
        return 0;
    return fail(-EINVAL, c->text, c->text_bytes,
                "%s on=test: profile %s has no network conditionals; take --profile qsnet3",
                name_of(c), c->network->profile->name);
}

/* Does the machine have the part that breaks? */
static int check_part(const struct check *c)
{
    const struct emu_profile *profile = c->network->profile;

    switch (c->fault->kind) {
    case FAULT_COMBINE_STALL:
    case FAULT_COMBINE_FLIP:
    case FAULT_COMBINE_EXHAUST:
        if (emu_profile_switches_combine(profile))
            return 0;
        return fail(-EINVAL, c->text, c->text_bytes,
                    "%s: with profile %s adapters combine, switches have no combine units; take "
                    "--set combining=switch",
                    name_of(c), profile->name);
    case FAULT_ADAPTER_RESET:
        if (emu_profile_has_engines(profile))
            return 0;
        return fail(-EINVAL, c->text, c->text_bytes,
                    "%s: adapters of profile %s keep nothing that could be reset; take --profile "
                    "qsnet3, or node-kill",
                    name_of(c), profile->name);
    case FAULT_PARTITION:
        if (c->fault->where.place != FAULT_AT_NODES || c->fault->where.nodes.ranges != 1 ||
            c->fault->where.nodes.range[0].first ||
            c->fault->where.nodes.range[0].last + 1 != c->network->graph->nodes)
            return 0;
        return fail(-EINVAL, c->text, c->text_bytes,
                    "%s: these are all nodes of %s, and there are no others; name some of them",
                    name_of(c), c->network->graph->spec);
    default:
        return 0;
    }
}

/* What the fault will do that a user may not expect. */
static void write_note(const struct check *c)
{
    const struct emu_profile *profile = c->network->profile;
    bool mends = c->network->retry || emu_profile_retries(profile) || emu_profile_resends(profile);
    const char *lost = "nothing sends again what is lost or damaged: who waits for it may wait for "
                       "ever";

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
                 mends ? "" : "; nothing sends it again");
        return;
    case FAULT_COMBINE_FLIP:
        if (profile->combine_check == EMU_COMBINE_CHECK_NONE)
            snprintf(c->text, c->text_bytes,
                     "with combine_check=none nothing finds the bit that has flipped: results are "
                     "wrong, and nobody is told");
        return;
    case FAULT_DUPLICATE:
        lost = "nothing in the network takes the second copy out";
        break;
    case FAULT_LINK_DOWN:
    case FAULT_LINK_FLAP:
    case FAULT_BIT_ERRORS:
    case FAULT_LOSS:
    case FAULT_SWITCH_CRASH:
    case FAULT_PARTITION:
        break;
    default:
        return;
    }
    if (!mends)
        snprintf(c->text, c->text_bytes, "with profile %s %s", profile->name, lost);
}

int fault_check(const struct fault *fault, const struct fault_network *network, char *text,
                size_t text_bytes)
{
    struct check c = {fault, network, text, text_bytes};
    struct fault_targets targets;
    int err = fault_targets_find(&targets, fault, network->graph, 0, text, text_bytes);

    if (err)
        return err;
    fault_targets_release(&targets);
    err = fault_has_rule(fault->kind) ? check_aim(&c) : 0;
    if (!err)
        err = check_event(&c);
    if (!err)
        err = check_part(&c);
    if (!err && text_bytes)
        write_note(&c);
    return err;
}
