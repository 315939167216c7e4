/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kinds.c - what kinds of fault there are, and which keys each one takes.
 */
#include <stdio.h>
#include <string.h>

#include "apps/fault/internal.h"

#define KEY(name) (UINT64_C(1) << FAULT_KEY_##name)

#define WHEN     (KEY(AT) | KEY(FOR) | KEY(EVERY) | KEY(ON))
#define MOMENT   (WHEN & ~KEY(FOR))
#define LINKS    (KEY(LINK) | KEY(LEVEL) | KEY(SWITCH) | KEY(TOP) | KEY(RANDOM))
#define SWITCHES (KEY(SWITCH) | KEY(LEVEL) | KEY(TOP) | KEY(RANDOM))
#define NODES    (KEY(NODE) | KEY(NODES) | KEY(RANDOM))
#define OFTEN    (KEY(NTH) | KEY(RATE) | KEY(COUNT))
#define ENTRIES  (KEY(PACKET) | KEY(KIND) | KEY(FROM) | KEY(TO) | KEY(GROUP) | OFTEN)
#define FOLDED   (1u << EMU_REDUCE | 1u << EMU_ALLREDUCE)

/* A rule about entries of cables. */
#define RULE_OF_ENTRIES(becomes) \
    .has_rule = true, .what = (becomes), .packets = EMU_FAULT_ENTRIES, .kinds = EMU_FAULT_KINDS
#define RULE_OF_CREDITS(becomes) \
    .has_rule = true, .what = (becomes), .packets = EMU_FAULT_CREDIT, .kinds = EMU_FAULT_KINDS

static const struct fault_kind_row kinds[] = {
    [FAULT_LINK_DOWN] = {"link-down", "nothing passes the cable", FAULT_OF_LINKS,
                         .keys = WHEN | LINKS},
    [FAULT_LINK_FLAP] = {"link-flap", "the cable is down and up in turn", FAULT_OF_LINKS,
                         .example = "down=50ms up=200ms",
                         .keys = WHEN | LINKS | KEY(DOWN) | KEY(UP), .needs = KEY(DOWN) | KEY(UP)},
    [FAULT_BIT_ERRORS] = {"bit-errors", "one bit of what is hit is flipped", FAULT_OF_LINKS,
                          .example = "rate=1e-2", .keys = WHEN | LINKS | ENTRIES | KEY(PART),
                          RULE_OF_ENTRIES(EMU_FAULT_FLIP_ANY)},
    [FAULT_LOSS] = {"loss", "what is hit never arrives", FAULT_OF_LINKS, .example = "rate=1e-2",
                    .keys = WHEN | LINKS | ENTRIES, RULE_OF_ENTRIES(EMU_FAULT_LOSE)},
    [FAULT_DUPLICATE] = {"duplicate", "what is hit arrives twice", FAULT_OF_LINKS,
                         .example = "rate=1e-2", .keys = WHEN | LINKS | ENTRIES,
                         RULE_OF_ENTRIES(EMU_FAULT_DOUBLE)},
    [FAULT_DELAY] = {"delay", "what is hit arrives later, and is overtaken", FAULT_OF_LINKS,
                     .example = "by=1ms rate=1e-2",
                     .keys = WHEN | LINKS | ENTRIES | KEY(BY) | KEY(JITTER),
                     RULE_OF_ENTRIES(EMU_FAULT_DELAY)},
    [FAULT_CREDIT_LOSS] = {"credit-loss", "credits on their way back are lost", FAULT_OF_LINKS,
                           .example = "count=1 rate=1", .keys = WHEN | LINKS | OFTEN,
                           RULE_OF_CREDITS(EMU_FAULT_LOSE)},
    [FAULT_CREDIT_FORGE] = {"credit-forge", "credits on their way back become two", FAULT_OF_LINKS,
                            .example = "count=1 rate=1", .keys = WHEN | LINKS | OFTEN,
                            RULE_OF_CREDITS(EMU_FAULT_DOUBLE)},
    [FAULT_STUCK_PORT] = {"stuck-port", "the port sends nothing, and nobody is told",
                          FAULT_OF_LINKS, .keys = WHEN | LINKS},
    [FAULT_SLOW_LINK] = {"slow-link", "the cable takes so many times as long for each byte",
                         FAULT_OF_LINKS, .example = "factor=10", .keys = WHEN | LINKS | KEY(FACTOR),
                         .needs = KEY(FACTOR)},
    [FAULT_SWITCH_CRASH] = {"switch-crash", "the switch forgets all it holds, its cables are down",
                            FAULT_OF_SWITCHES, .keys = WHEN | SWITCHES},
    [FAULT_COMBINE_STALL] = {"combine-stall", "the switch's combine units stand still",
                             FAULT_OF_SWITCHES, .keys = WHEN | SWITCHES},
    [FAULT_COMBINE_FLIP] = {"combine-flip", "a combine unit flips one bit of what it folds",
                            FAULT_OF_SWITCHES, .example = "count=1 rate=1",
                            .keys = WHEN | SWITCHES | KEY(KIND) | KEY(GROUP) | OFTEN,
                            .has_rule = true, .what = EMU_FAULT_FLIP_PAYLOAD,
                            .packets = EMU_FAULT_ENTRIES, .kinds = FOLDED},
    [FAULT_COMBINE_EXHAUST] = {"combine-exhaust", "the switch has no states left to combine in",
                               FAULT_OF_SWITCHES, .keys = WHEN | SWITCHES},
    [FAULT_ADAPTER_RESET] = {"adapter-reset", "the node's adapter forgets what is under way",
                             FAULT_OF_NODES, .at_once = true, .keys = MOMENT | NODES},
    [FAULT_NODE_FREEZE] = {"node-freeze", "the node's process stands still", FAULT_OF_NODES,
                           .keys = WHEN | NODES},
    [FAULT_NODE_SLOW] = {"node-slow", "the node's process has only a share of its time",
                         FAULT_OF_NODES, .example = "share=25%", .keys = WHEN | NODES | KEY(SHARE),
                         .needs = KEY(SHARE)},
    [FAULT_NODE_KILL] = {"node-kill", "the node's process dies", FAULT_OF_NODES, .at_once = true,
                         .keys = MOMENT | NODES},
    [FAULT_NOISE] = {"noise", "the node loses time to its operating system, again and again",
                     FAULT_OF_NODES, .example = "period=10ms length=1ms",
                     .keys = WHEN | NODES | KEY(PERIOD) | KEY(LENGTH),
                     .needs = KEY(PERIOD) | KEY(LENGTH)},
    [FAULT_PARTITION] = {"partition", "nothing passes between these nodes and the others",
                         FAULT_OF_NODES, .keys = WHEN | NODES},
};
static_assert(sizeof kinds / sizeof kinds[0] == FAULT_KINDS, "a row for each kind");

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
