/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kinds.c - the kinds of fault (kinds.def): check that the keys of a fault fit together and that
 * the network meets its requirements, and tell the user of unexpected effects.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "apps/fault/internal.h"
#include "emu/packet/seg.h"
#include "emu/util/bits.h"
#include "switch/switch.h"

#define KEY(name) (UINT64_C(1) << FAULT_KEY_##name)

#define WHEN     (KEY(AT) | KEY(FOR) | KEY(EVERY) | KEY(ON))
#define MOMENT   (WHEN & ~KEY(FOR))
#define LINKS    (KEY(LINK) | KEY(LEVEL) | KEY(SWITCH) | KEY(TOP) | KEY(RANDOM))
#define SWITCHES (KEY(SWITCH) | KEY(LEVEL) | KEY(TOP) | KEY(RANDOM))
#define NODES    (KEY(NODE) | KEY(NODES) | KEY(RANDOM))
#define OFTEN    (KEY(NTH) | KEY(RATE) | KEY(COUNT))
#define ENTRIES  (KEY(PACKET) | KEY(KIND) | KEY(FROM) | KEY(TO) | KEY(GROUP) | OFTEN)

#define RULE_OF_ENTRIES(becomes) \
    .has_rule = true, .what = (becomes), .packets = EMU_FAULT_ENTRIES, .kinds = EMU_FAULT_KINDS
#define RULE_OF_CREDITS(becomes) \
    .has_rule = true, .what = (becomes), .packets = EMU_FAULT_CREDIT, .kinds = EMU_FAULT_KINDS
#define RULE_OF_COMBINING                                                           \
    .has_rule = true, .what = EMU_FAULT_FLIP_PAYLOAD, .packets = EMU_FAULT_ENTRIES, \
    .kinds = 1u << EMU_REDUCE | 1u << EMU_ALLREDUCE

/* --- checks that keys fit each other -------------------------------------------------- */

static int validate_delay(const struct fault *fault, uint64_t seen, char *error, size_t error_bytes)
{
    (void)fault;
    if (seen & (KEY(BY) | KEY(JITTER)))
        return 0;
    return fail(-EINVAL, error, error_bytes, "delay needs by=TIME or jitter=TIME");
}

static int validate_noise(const struct fault *fault, uint64_t seen, char *error, size_t error_bytes)
{
    (void)seen;
    if (fault->noise.length_ps < fault->noise.period_ps)
        return 0;
    return fail(-EINVAL, error, error_bytes,
                "noise: the node would lose all of its time; 'length' must be less than 'period'");
}

static int validate_partition(const struct fault *fault, uint64_t seen, char *error,
                              size_t error_bytes)
{
    (void)seen;
    if (fault->where.place != FAULT_AT_ALL)
        return 0;
    return fail(-EINVAL, error, error_bytes,
                "partition node=any: no other nodes would be left; name some: nodes=0-3");
}

/* --- requirements on the network ------------------------------------------------------ */

static int lacks(const struct fault_check *c, int err, const char *why)
{
    return refuse(c, err, "%s: %s", fault_name(c->fault->kind), why);
}

/* Requires that lost and damaged segments are retransmitted. */
static int requires_repair(const struct fault_check *c)
{
    if (switch_links_are_lossless(c->network->profile))
        return 0;
    return lacks(c, -ENOTSUP,
                 "this profile acknowledges nothing, so lost segments would not be retransmitted: "
                 "use --profile qsnet3, --set transport=acknowledged or "
                 "--set link_retry=go_back_n");
}

/* Requires cables without link-level retry, which would repair lost and duplicated credits. */
static int requires_plain_credits(const struct fault_check *c)
{
    if (!emu_profile_retries(c->network->profile))
        return 0;
    return lacks(c, -ENOTSUP,
                 "with link-level retry credits are checked and retransmitted, so no cable loses "
                 "or duplicates them: use link_retry=none");
}

static int requires_time(const struct fault_check *c)
{
    if (c->network->clock != EMU_CLOCK_RAW)
        return 0;
    return lacks(c, -ENOTSUP,
                 "clock raw does not model time, so no link can be slow: use --clock real, or "
                 "fabemu traffic");
}

static int requires_units(const struct fault_check *c)
{
    const struct emu_profile *profile = c->network->profile;

    if (!emu_profile_switches_combine(profile))
        return refuse(c, -EINVAL,
                      "%s: with profile %s adapters combine, and switches have no combine units; "
                      "use --set combining=switch",
                      fault_name(c->fault->kind), profile->name);
    if (emu_profile_has_engines(profile) || switch_combines(profile))
        return 0;
    return lacks(c, -ENOTSUP,
                 "these switches have no combine units: use buffers=xpoint or input_xpoint");
}

/*
 * Requires that groups can be created during the fault. This is not so in simulated time: synthetic
 * traffic creates all of its groups at the start, and the daemon creates the groups of processes at
 * times of the host's clock.
 */
static int requires_new_groups(const struct fault_check *c)
{
    if (c->network->clock != EMU_CLOCK_VIRTUAL)
        return 0;
    return lacks(c, -ENOTSUP,
                 "it acts on groups that are created during the fault, which is not possible in "
                 "simulated time: use fabemu run without --clock virtual");
}

static int requires_engines(const struct fault_check *c)
{
    if (emu_profile_has_engines(c->network->profile))
        return 0;
    return refuse(c, -EINVAL,
                  "%s: adapters of profile %s have no state to reset; use --profile qsnet3, or "
                  "node-kill",
                  fault_name(c->fault->kind), c->network->profile->name);
}

/* Requires that processes can be stopped. On clock virtual this would stop simulated time. */
static int requires_processes(const struct fault_check *c)
{
    if (c->network->clock != EMU_CLOCK_VIRTUAL)
        return 0;
    return lacks(c, -ENOTSUP, "it acts on processes, which is not possible in simulated time");
}

/* --- effects that a user may not expect --------------------------------------------- */

static void note_credit_loss(const struct fault_check *c)
{
    snprintf(c->text, c->text_bytes,
             "a lost credit never returns: the cable gets slower, and without any credit it stops");
}

static void note_credit_forge(const struct fault_check *c)
{
    snprintf(c->text, c->text_bytes,
             "the sender may now send more than the receiver has space for, and the receiver "
             "drops the rest%s",
             emu_profile_acknowledged(c->network->profile) ? "" : "; they are not retransmitted");
}

static void note_combine_flip(const struct fault_check *c)
{
    if (c->network->profile->combine_check == EMU_COMBINE_CHECK_NONE)
        snprintf(c->text, c->text_bytes,
                 "with combine_check=none no check finds the flipped bit: results are wrong, "
                 "without any error");
}

/* --- the table ---------------------------------------------------------------------- */

static const struct fault_kind_row kinds[] = {
#define KIND(id, ...) [FAULT_##id] = {__VA_ARGS__},
#include "apps/fault/kinds.def"
};

const struct fault_kind_row *fault_kind_row(enum fault_kind kind)
{
    return &kinds[kind];
}

const char *fault_name(enum fault_kind kind)
{
    return kinds[kind].name;
}

const char *fault_about(enum fault_kind kind)
{
    return kinds[kind].about;
}

bool fault_needs_repair(enum fault_kind kind)
{
    for (size_t i = 0; i < FAULT_REQUIRES; i++)
        if (kinds[kind].requires[i] == requires_repair)
            return true;
    return false;
}

const char *fault_hits_are(enum fault_kind kind, bool packets)
{
    if (kind == FAULT_NODE_KILL)
        return "processes killed";
    if (kinds[kind].requires[0] == requires_processes)
        return "stops of processes";
    if (kinds[kind].takes_signal || kinds[kind].takes_switch || kind == FAULT_ADAPTER_RESET)
        return packets ? "packets hit in transit" : "segments hit in transit";
    return packets ? "packets hit" : "segments hit";
}

enum fault_domain fault_domain(enum fault_kind kind)
{
    return kinds[kind].domain;
}

bool fault_has_rule(enum fault_kind kind)
{
    return kinds[kind].has_rule;
}

bool fault_at_once(enum fault_kind kind)
{
    return kinds[kind].at_once;
}

bool fault_example(enum fault_kind kind, const char *where, const char *lasts, char *text,
                   size_t text_bytes)
{
    const struct fault_kind_row *row = &kinds[kind];
    bool may_last = *lasts && !row->at_once;
    int bytes = snprintf(text, text_bytes, "%s%s%s%s %s%s%s", may_last ? "for=" : "",
                         may_last ? lasts : "", may_last ? " " : "", row->name, where,
                         row->example ? " " : "", row->example ? row->example : "");

    return bytes >= 0 && (size_t)bytes < text_bytes;
}

void fault_init(struct fault *fault, enum fault_kind kind)
{
    const struct fault_kind_row *row = &kinds[kind];

    memset(fault, 0, sizeof *fault);
    fault->kind = kind;
    if (!row->has_rule)
        return;
    fault->rule.what = row->what;
    fault->rule.rate = EMU_FAULT_ONE;
    fault->rule.aim = (struct emu_fault_aim){.packets = row->packets,
                                             .kinds = row->kinds,
                                             .src = EMU_FAULT_ANY,
                                             .dst = EMU_FAULT_ANY,
                                             .group = EMU_FAULT_ANY};
}
