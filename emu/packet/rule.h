/* SPDX-License-Identifier: BSD-3-Clause */
/* rule.h - a fault rule: which entries of a cable it matches, how many it hits, and the effect. */
#ifndef EMU_FAULT_RULE_H
#define EMU_FAULT_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/packet/packet.h"
#include "emu/packet/seg.h"

#define EMU_FAULT_ANY UINT32_MAX                  /* any node, any group */
#define EMU_FAULT_ONE ((uint32_t)1000 * 1000000u) /* a rate of 1; rates are in billionths */

/* Types of entries on a cable, as bits. Without acknowledgments every segment counts as a head. */
enum emu_fault_packet {
    EMU_FAULT_HEAD = 1,
    EMU_FAULT_CONT = 2,
    EMU_FAULT_ACK = 4,
    EMU_FAULT_NACK = 8,
    EMU_FAULT_CREDIT = 16 /* not an entry, but a credit on its way back */
};

#define EMU_FAULT_ENTRIES (EMU_FAULT_HEAD | EMU_FAULT_CONT | EMU_FAULT_ACK | EMU_FAULT_NACK)
#define EMU_FAULT_KINDS   ((UINT32_C(1) << (EMU_TEST + 1)) - 1) /* all of enum emu_kind */

/* A rule or filter matches entries that have all of these properties. */
struct emu_fault_aim {
    uint32_t packets; /* bits of enum emu_fault_packet */
    uint32_t kinds;   /* bits 1 << enum emu_kind */
    uint32_t src;     /* node, or EMU_FAULT_ANY */
    uint32_t dst;     /* node, or EMU_FAULT_ANY */
    uint32_t group;   /* address without EMU_GROUP_WIDE, or EMU_FAULT_ANY */
};

static inline enum emu_fault_packet emu_fault_packet_of(unsigned kind)
{
    switch (kind) {
    case EMU_PACKET_CONT:
        return EMU_FAULT_CONT;
    case EMU_PACKET_ACK:
        return EMU_FAULT_ACK;
    case EMU_PACKET_NACK:
        return EMU_FAULT_NACK;
    default:
        return EMU_FAULT_HEAD;
    }
}

static inline bool emu_fault_is(uint32_t wanted, uint32_t is)
{
    return wanted == EMU_FAULT_ANY || wanted == is;
}

/** emu_fault_aim_is_any - return whether @aim matches every segment, whatever its header. Pure. */
static inline bool emu_fault_aim_is_any(const struct emu_fault_aim *aim)
{
    return aim->src == EMU_FAULT_ANY && aim->dst == EMU_FAULT_ANY && aim->group == EMU_FAULT_ANY &&
           aim->kinds == EMU_FAULT_KINDS;
}

/**
 * emu_fault_aimed - return whether @aim matches an entry of type @packet. @hdr: header of the
 * segment in the entry. NULL: the entry has no segment, and @aim matches it only if @aim matches
 * every segment. Pure.
 */
static inline bool emu_fault_aimed(const struct emu_fault_aim *aim, enum emu_fault_packet packet,
                                   const struct emu_hdr *hdr)
{
    bool any = emu_fault_aim_is_any(aim);
    uint32_t kind = hdr ? emu_hdr_kind(hdr) : 0;
    bool unicast = kind == EMU_UNICAST;

    if (!(aim->packets & packet))
        return false;
    if (!hdr || any)
        return any;
    return aim->kinds >> kind & 1 && emu_fault_is(aim->src, hdr->src) &&
           (aim->dst == EMU_FAULT_ANY || (unicast && aim->dst == hdr->dst)) &&
           (aim->group == EMU_FAULT_ANY ||
            (!unicast && aim->group == (hdr->dst & ~EMU_GROUP_WIDE)));
}

/* The effect on an entry that is hit. */
enum emu_fault_what {
    EMU_FAULT_LOSE,
    EMU_FAULT_FLIP_ANY, /* one bit, anywhere */
    EMU_FAULT_FLIP_HEADER,
    EMU_FAULT_FLIP_PAYLOAD, /* one bit of the payload, or of the header if there is no payload */
    EMU_FAULT_DUPLICATE,    /* a duplicate follows */
    EMU_FAULT_DELAY,        /* it is delayed by by_ps and a random part of jitter_ps */
    EMU_FAULT_SLOW,         /* only counted here; emu_tx_slow() slows the wire */
    EMU_FAULT_STICK,        /* only in the log, not in rules: the entry waited at a stuck port */
    /*
     * only log the nth match in each group. If the rule is for a combine unit, it matches the first
     * contribution to each operation, instead of entries
     */
    EMU_FAULT_SEE
};

struct emu_fault_rule {
    enum emu_fault_what what;
    uint32_t rate; /* share of the matching entries that are hit; EMU_FAULT_ONE: all of them */
    struct emu_fault_aim aim;
    uint64_t nth;              /* hit only the nth matching entry, counted from 1; 0: all */
    uint64_t most;             /* hit at most this many entries; 0: no limit */
    uint64_t by_ps, jitter_ps; /* EMU_FAULT_DELAY, EMU_FAULT_DUPLICATE */
};

#endif
