/* SPDX-License-Identifier: BSD-3-Clause */
/* keys.c - the keys of a fault's text: form of their values, and their fields in struct fault. */
#include <stddef.h>

#include "apps/fault/internal.h"
#include "emu/packet/kind.h"
#include "emu/util/bits.h"

#define TIME_TO "in whole picoseconds, up to 1000000s: 10ns, 5us, 2ms, 1.5s"
#define LEAST   "a time of at least 1ps, " TIME_TO
#define A_NODE  "the number of a node, from 0, or its name in the network's file"
#define RATE    "a rate from 1e-9 to 1 in whole billionths: 1e-3, 0.001 or 0.1%"

static const char *const packets[] = {"head", "cont", "ack", "nack", NULL};
static const char *const parts[] = {"any", "header", "payload", NULL};
static const char *const segments[] = {
#define KIND(id, name, ...) name,
#include "emu/packet/kinds.def"
    NULL};
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
                      "multicast, reduce, allreduce, barrier or test, the count from 1 at which "
                      "the fault begins, and optionally the group: allreduce:3 or allreduce:3:0",
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
    [FAULT_KEY_FROM] = {"from", A_NODE, FAULT_TYPE_NODE, IN(rule.aim.src), 0, 0, NULL},
    [FAULT_KEY_TO] = {"to", A_NODE, FAULT_TYPE_NODE, IN(rule.aim.dst), 0, 0, NULL},
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
    struct fault_writer writer = {.at = text, .left = FAULT_LIST_BYTES};

    *text = '\0';
    emu_each_bit (key, set)
        fault_put(&writer, "%s%s", *text ? ", " : "", keys[key].name);
    return text;
}

const char *fault_packet_name(enum emu_fault_packet packet)
{
    uint32_t i = packet ? emu_bits_first(packet) : UINT32_MAX;

    if (packet == EMU_FAULT_CREDIT) /* packets[] lacks it: credits have kinds of their own */
        return "credit";
    return i < sizeof packets / sizeof packets[0] - 1 ? packets[i] : "?";
}

const char *fault_segment_name(unsigned kind)
{
    return kind < sizeof segments / sizeof segments[0] - 1 ? segments[kind] : "?";
}
