/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kinds.c - what kinds of fault there are, and which keys each one takes; what keys there are, how
 * their values are written and where they are kept.
 */
#include <stdio.h>
#include <string.h>

#include "apps/fault/internal.h"
#include "emu/packet/seg.h"
#include "emu/util/bits.h"

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
    [FAULT_SLOW_LINK] = {"slow-link", "a byte takes several times as long on the cable",
                         FAULT_OF_LINKS, .example = "factor=10", .keys = WHEN | LINKS | KEY(FACTOR),
                         .needs = KEY(FACTOR)},
    [FAULT_SWITCH_CRASH] = {"switch-crash", "the switch forgets all it holds, its cables are down",
                            FAULT_OF_SWITCHES, .keys = WHEN | SWITCHES},
    [FAULT_COMBINE_STALL] = {"combine-stall", "the switch's combine units stand still",
                             FAULT_OF_SWITCHES, .keys = WHEN | SWITCHES},
    [FAULT_COMBINE_FLIP] = {"combine-flip", "one bit flips in a partial result of a combine unit",
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

/* --- keys ------------------------------------------------------------------------- */

#define TIME_TO "in whole picoseconds, up to 1000000s: 10ns, 5us, 2ms, 1.5s"
#define LEAST   "a time of at least 1ps, " TIME_TO
#define RATE    "a rate from 1e-9 to 1 in whole billionths: 1e-3, 0.001 or 0.1%"

static const char *const packets[] = {"head", "cont", "ack", "nack", NULL};
static const char *const parts[] = {"any", "header", "payload", NULL};
static const char *const segments[] = {[EMU_UNICAST] = "unicast", [EMU_MULTICAST] = "multicast",
                                       [EMU_REDUCE] = "reduce",   [EMU_ALLREDUCE] = "allreduce",
                                       [EMU_BARRIER] = "barrier", [EMU_SET] = "set",
                                       [EMU_TEST] = "test",       NULL};
static_assert(EMU_FAULT_FLIP_HEADER == EMU_FAULT_FLIP_ANY + 1 &&
                  EMU_FAULT_FLIP_PAYLOAD == EMU_FAULT_FLIP_ANY + 2,
              "parts[] is in the order of enum emu_fault_what");

#define IN(member) offsetof(struct fault, member)

static const struct fault_key_row keys[] = {
    [FAULT_KEY_AT] = {"at", "a time " TIME_TO, FAULT_TYPE_TIME, IN(when.at_ps), 0,
                      FAULT_TIME_MAX_PS, NULL},
    [FAULT_KEY_FOR] = {"for", LEAST, FAULT_TYPE_TIME, IN(when.for_ps), 1, FAULT_TIME_MAX_PS, NULL},
    [FAULT_KEY_EVERY] = {"every", LEAST, FAULT_TYPE_TIME, IN(when.every_ps), 1, FAULT_TIME_MAX_PS,
                         NULL},
    [FAULT_KEY_ON] = {"on",
                      "multicast, reduce, allreduce, barrier or test, the how-many-th from 1, and "
                      "perhaps the group: allreduce:3 or allreduce:3:0",
                      FAULT_TYPE_EVENT, IN(when.on), 0, 0, segments},
    [FAULT_KEY_LINK] = {"link", NULL, FAULT_TYPE_WHERE, 0, 0, 0, NULL},
    [FAULT_KEY_LEVEL] = {"level", NULL, FAULT_TYPE_WHERE, 0, 0, 0, NULL},
    [FAULT_KEY_SWITCH] = {"switch", NULL, FAULT_TYPE_WHERE, 0, 0, 0, NULL},
    [FAULT_KEY_NODE] = {"node", NULL, FAULT_TYPE_WHERE, 0, 0, 0, NULL},
    [FAULT_KEY_NODES] = {"nodes", NULL, FAULT_TYPE_WHERE, 0, 0, 0, NULL},
    [FAULT_KEY_TOP] = {"top", NULL, FAULT_TYPE_WHERE, 0, 0, 0, NULL},
    [FAULT_KEY_RANDOM] = {"random", NULL, FAULT_TYPE_WHERE, 0, 0, 0, NULL},
    [FAULT_KEY_PACKET] = {"packet", "head, cont, ack or nack, or several: ack,nack",
                          FAULT_TYPE_BITS, IN(rule.aim.packets), 0, 0, packets},
    [FAULT_KEY_KIND] = {"kind",
                        "unicast, multicast, reduce, allreduce, barrier, set or test, or several: "
                        "reduce,allreduce",
                        FAULT_TYPE_BITS, IN(rule.aim.kinds), 0, 0, segments},
    [FAULT_KEY_FROM] = {"from", "the number of a node, from 0", FAULT_TYPE_NUMBER, IN(rule.aim.src),
                        0, EMU_FAULT_ANY - 1, NULL},
    [FAULT_KEY_TO] = {"to", "the number of a node, from 0", FAULT_TYPE_NUMBER, IN(rule.aim.dst), 0,
                      EMU_FAULT_ANY - 1, NULL},
    [FAULT_KEY_GROUP] = {"group", "the number of a group, from 0 to 2147483647", FAULT_TYPE_NUMBER,
                         IN(rule.aim.group), 0, EMU_GROUP_WIDE - 1, NULL},
    [FAULT_KEY_NTH] = {"nth", "a number from 1: the first that matches is 1", FAULT_TYPE_COUNT,
                       IN(rule.nth), 1, INT64_MAX, NULL},
    [FAULT_KEY_RATE] = {"rate", RATE, FAULT_TYPE_SHARE, IN(rule.rate), 1, EMU_FAULT_ONE, NULL},
    [FAULT_KEY_COUNT] = {"count", "a number of hits, at least 1", FAULT_TYPE_COUNT, IN(rule.most),
                         1, INT64_MAX, NULL},
    [FAULT_KEY_PART] = {"part", "header, payload or any", FAULT_TYPE_NAME, IN(rule.what),
                        EMU_FAULT_FLIP_ANY, EMU_FAULT_FLIP_PAYLOAD, parts},
    [FAULT_KEY_BY] = {"by", LEAST, FAULT_TYPE_TIME, IN(rule.by_ps), 1, FAULT_TIME_MAX_PS, NULL},
    [FAULT_KEY_JITTER] = {"jitter", LEAST, FAULT_TYPE_TIME, IN(rule.jitter_ps), 1,
                          FAULT_TIME_MAX_PS, NULL},
    [FAULT_KEY_DOWN] = {"down", LEAST, FAULT_TYPE_TIME, IN(flap.down_ps), 1, FAULT_TIME_MAX_PS,
                        NULL},
    [FAULT_KEY_UP] = {"up", LEAST, FAULT_TYPE_TIME, IN(flap.up_ps), 1, FAULT_TIME_MAX_PS, NULL},
    [FAULT_KEY_FACTOR] = {"factor", "above 1 and at most 1000, in whole thousandths: 4 or 1.5",
                          FAULT_TYPE_FACTOR, IN(factor), FAULT_FACTOR_ONE + 1,
                          1000 * FAULT_FACTOR_ONE, NULL},
    [FAULT_KEY_SHARE] = {"share", "above 0 and below 1, in whole billionths: 25% or 0.25",
                         FAULT_TYPE_SHARE, IN(share), 1, EMU_FAULT_ONE - 1, NULL},
    [FAULT_KEY_PERIOD] = {"period", LEAST, FAULT_TYPE_TIME, IN(noise.period_ps), 1,
                          FAULT_TIME_MAX_PS, NULL},
    [FAULT_KEY_LENGTH] = {"length", LEAST, FAULT_TYPE_TIME, IN(noise.length_ps), 1,
                          FAULT_TIME_MAX_PS, NULL},
};
static_assert(sizeof keys / sizeof keys[0] == FAULT_KEYS, "a row for each key");

const struct fault_key_row *fault_key_row(enum fault_key key)
{
    return &keys[key];
}

char *fault_list_keys(uint64_t set, char *text)
{
    struct fault_writer writer = {text, FAULT_LIST_ROOM};

    *text = '\0';
    emu_each_bit (key, set)
        fault_put(&writer, "%s%s", *text ? ", " : "", keys[key].name);
    return text;
}

const char *fault_packet_name(enum emu_fault_packet packet)
{
    uint32_t i = packet ? emu_bits_first(packet) : UINT32_MAX;

    if (packet == EMU_FAULT_CREDIT) /* no key's value: it has kinds of faults of its own */
        return "credit";
    return i < sizeof packets / sizeof packets[0] - 1 ? packets[i] : "?";
}

const char *fault_segment_name(unsigned kind)
{
    return kind < sizeof segments / sizeof segments[0] - 1 ? segments[kind] : "?";
}
