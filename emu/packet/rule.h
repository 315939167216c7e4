/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rule.h - a rule about what passes a cable: which entries it hits, how often, and what becomes
 * of them. Who carries it out is at the cable's receiving end.
 */
#ifndef EMU_FAULT_RULE_H
#define EMU_FAULT_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/packet/packet.h"
#include "emu/packet/seg.h"

#define EMU_FAULT_ANY UINT32_MAX                  /* any node, any group */
#define EMU_FAULT_ONE ((uint32_t)1000 * 1000000u) /* a rate of 1: rates are in billionths */

/* What an entry is on the cable, as bits. Without acknowledgments every segment is a head. */
enum emu_fault_packet {
    EMU_FAULT_HEAD = 1,
    EMU_FAULT_CONT = 2,
    EMU_FAULT_ACK = 4,
    EMU_FAULT_NACK = 8,
    EMU_FAULT_CREDIT = 16 /* no entry: a credit on its way back */
};

#define EMU_FAULT_ENTRIES (EMU_FAULT_HEAD | EMU_FAULT_CONT | EMU_FAULT_ACK | EMU_FAULT_NACK)
#define EMU_FAULT_KINDS   ((UINT32_C(1) << (EMU_TEST + 1)) - 1) /* all of enum emu_kind */

/* Which entries: those that have all of these. */
struct emu_fault_aim {
    uint32_t packets; /* enum emu_fault_packet */
    uint32_t kinds;   /* bits: 1 << enum emu_kind */
    uint32_t src;     /* node, or EMU_FAULT_ANY */
    uint32_t dst;     /* node, or EMU_FAULT_ANY */
    uint32_t group;   /* number without EMU_GROUP_WIDE, or EMU_FAULT_ANY */
};

/** emu_fault_part - what an entry of that kind is. Pure. */
static inline enum emu_fault_packet emu_fault_part(unsigned kind)
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

/** emu_fault_aim_is_any - does it say nothing of the segment that an entry carries? Pure. */
static inline bool emu_fault_aim_is_any(const struct emu_fault_aim *aim)
{
    return aim->src == EMU_FAULT_ANY && aim->dst == EMU_FAULT_ANY && aim->group == EMU_FAULT_ANY &&
           aim->kinds == EMU_FAULT_KINDS;
}

/**
 * emu_fault_aimed - is it about this entry? Of one without a segment (@hdr: NULL) only what it is
 * on the cable is known. Pure.
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

/* What becomes of an entry that is hit. */
enum emu_fault_what {
    EMU_FAULT_LOSE,
    EMU_FAULT_FLIP_ANY, /* one bit, anywhere */
    EMU_FAULT_FLIP_HEADER,
    EMU_FAULT_FLIP_PAYLOAD, /* without one, of the header */
    EMU_FAULT_DOUBLE,       /* a second copy follows */
    EMU_FAULT_DELAY,        /* it comes later by by_ps and a random part of jitter_ps */
    EMU_FAULT_SLOW,         /* nothing: it is counted, and what others make of it stands */
    EMU_FAULT_STICK,        /* no rule's: it has waited at a port that was stuck */
    /* nothing: the nth of a group's that is aimed at is logged, no hit; of operations that are */
    EMU_FAULT_SEE /* combined, the first contribution to each here is aimed at */
};

struct emu_fault_rule {
    enum emu_fault_what what;
    uint32_t rate; /* how often an entry that is aimed at is hit; of EMU_FAULT_ONE */
    struct emu_fault_aim aim;
    uint64_t nth;              /* only the nth that is aimed at, counted from 1; 0: all */
    uint64_t most;             /* hits, at most; 0: without limit */
    uint64_t by_ps, jitter_ps; /* EMU_FAULT_DELAY */
};

#endif
