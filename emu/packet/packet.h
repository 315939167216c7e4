/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packet.h - the packet of QsNet III on the wire.
 *
 * A packet carries up to 4 KB of payload in segments of up to 256 bytes. The first segment, the
 * *head*, begins with a header of 8 bytes. Each other segment is a *continuation* and begins with a
 * header of 4 bytes. After the payload, the last segment has another 8 bytes: a CRC-32 of the
 * payload, and the packet's id. Each header includes a CRC-16, which each switch computes again
 * because it changes the virtual channel.
 * Source: QsNet III §IV-B. The paper gives the fields, but neither their widths nor their order.
 *
 * On a cable between two devices a segment is an entry of a ring (ring.h) whose header is a struct
 * emu_packet_hdr. The cable has virtual channels (here: channels) and follows these rules:
 *
 * - The sender opens a channel for a packet when it sends the head, and keeps it open until the
 * packet's reply comes back in the opposite direction of the cable. A channel carries one packet at
 * a time, and the packet's segments stay in order.
 * - The receiver has one slot per channel and a pool of slots that the channels share. The sender
 * sends a segment only if the slot of its channel or a slot of the pool is free (vc.h). When the
 * segment leaves the receiver, the receiver returns its credit.
 * - A reply needs no slot, because there is at most one per open channel.
 * - Each packet has a *tag*, a number that its source assigns. All segments of the packet and its
 * reply carry the tag. A continuation or reply is stale if its channel is open for a packet with
 * another tag: the receiver counts and drops it, and returns the credit of a continuation. If a
 * head arrives on a channel that is open at the receiver, the sender has given up the earlier
 * packet, and the receiver gives it up, too.
 * - The receiver sends the reply when it has received and checked the packet's last segment. If it
 * gives up waiting for this segment, it sends a NACK.
 */
#ifndef EMU_PACKET_H
#define EMU_PACKET_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/packet/crc.h"
#include "emu/packet/seg.h"

#define EMU_VCS          32u   /* virtual channels of a link */
#define EMU_PRIORITIES   4u    /* priorities of packets; the highest goes first */
#define EMU_PACKET_BYTES 4096u /* maximum payload of a packet */
#define EMU_HEAD_BYTES   8u    /* header of a head */
#define EMU_CONT_BYTES   4u    /* header of a continuation */
#define EMU_TAIL_BYTES   8u    /* CRC-32 and id after the payload */
#define EMU_REPLY_BYTES  8u    /* an ACK or a NACK on the wire */
#define EMU_INDEXES      32u   /* a continuation's segment index is below this */

/* Kinds of segments on a cable with channels. None has the value of an enum emu_kind. */
enum emu_packet_kind {
    EMU_PACKET_HEAD = 16, /* first segment: `head` */
    EMU_PACKET_CONT,      /* further segment: `cont` */
    EMU_PACKET_ACK,       /* reply: every destination has accepted the packet */
    EMU_PACKET_NACK       /* reply: a destination has not accepted the packet; send it again */
};

/* The header of an entry on a cable with channels, in place of struct emu_hdr. */
struct emu_packet_hdr {
    union {
        uint64_t head; /* emu_head_pack() */
        uint32_t cont; /* emu_cont_pack() */
    };
    union {
        struct {
            uint32_t tag;    /* the packet's tag */
            uint8_t kind;    /* enum emu_packet_kind; same offset as emu_hdr.kind */
            uint8_t wire;    /* number of bytes on the wire, minus 1 */
            uint8_t channel; /* channel on this cable; copied from the header's field */
            uint8_t last;    /* 1: the packet's last segment */
        };
        uint64_t rest; /* the five fields above, to compare them at once */
    };
};
static_assert(sizeof(struct emu_packet_hdr) == EMU_HDR_BYTES, "in the place of struct emu_hdr");
static_assert(offsetof(struct emu_packet_hdr, kind) == offsetof(struct emu_hdr, kind),
              "kind is at the same offset in both");

/*
 * The traffic class of a process's packets. Each class except bulk has two priorities: a packet of
 * one segment on the wire is *short*, and overtakes the longer packets of its class.
 */
enum emu_tclass {
    EMU_TCLASS_DEFAULT, /* long packets have priority 1, short ones 2 */
    EMU_TCLASS_BULK,    /* priority 0, such as the traffic of a file system */
    EMU_TCLASS_LATENCY, /* long packets have priority 2, short ones 3 */
    EMU_TCLASSES
};

#define EMU_PRIORITY_LONG 1u /* the highest priority of long packets, except of class latency */

/** emu_packet_priority - return the priority of a packet. @tclass: below EMU_TCLASSES. Pure. */
static inline uint8_t emu_packet_priority(uint8_t tclass, bool is_short)
{
    static const uint8_t of_long[EMU_TCLASSES] = {
        [EMU_TCLASS_DEFAULT] = 1, [EMU_TCLASS_BULK] = 0, [EMU_TCLASS_LATENCY] = 2};

    return (uint8_t)(of_long[tclass] + (is_short && tclass != EMU_TCLASS_BULK));
}

struct emu_head {
    uint8_t channel;  /* below EMU_VCS */
    uint8_t priority; /* below EMU_PRIORITIES */
    bool group;       /* dst is a broadcast group; false: a node */
    /* another packet to dst follows, so the ACK need not wait until the payload is in memory */
    bool more;
    uint16_t dst;
    uint16_t bytes; /* length of the packet's payload, 0 to EMU_PACKET_BYTES */
    uint16_t stamp; /* time of injection in units of 64 ns, modulo 2^10 */
};

struct emu_cont {
    uint8_t channel;
    uint8_t priority;
    uint8_t index; /* number of the segment in its packet, from 1; the head is number 0 */
    bool last;
};

/** emu_head_pack - return the 8 bytes of a header, with the CRC-16 in the upper two. Pure. */
uint64_t emu_head_pack(const struct emu_head *head);

/**
 * emu_head_unpack - unpack the 8 bytes of a header. Returns false if its CRC-16 or its payload
 * length is wrong. Pure.
 */
static inline bool emu_head_unpack(struct emu_head *ret, uint64_t wire)
{
    uint64_t word = wire & (((uint64_t)1 << 48) - 1);

    if (emu_crc16(word, 6) != wire >> 48)
        return false;
    *ret = (struct emu_head){.channel = word & 31,
                             .priority = word >> 5 & 3,
                             .group = word >> 7 & 1,
                             .dst = (uint16_t)(word >> 8),
                             .bytes = word >> 24 & 8191,
                             .stamp = word >> 37 & 1023,
                             .more = word >> 47 & 1};
    return ret->bytes <= EMU_PACKET_BYTES;
}

#define EMU_CONT_INDEX 7u /* position of the index in a continuation's word */
#define EMU_CONT_LAST  (1u << 12)

/**
 * emu_cont_pack, emu_cont_unpack - pack and unpack the 4 bytes of a continuation, with the CRC-16
 * in the upper two. emu_cont_unpack() returns false if the CRC-16 is wrong. Pure.
 */
static inline uint32_t emu_cont_pack(const struct emu_cont *cont)
{
    uint32_t word = cont->channel | (uint32_t)cont->priority << 5 |
                    (uint32_t)cont->index << EMU_CONT_INDEX | (cont->last ? EMU_CONT_LAST : 0);

    return word | (uint32_t)emu_crc16(word, 2) << 16;
}
bool emu_cont_unpack(struct emu_cont *ret, uint32_t wire);

/**
 * emu_cont_other - return which bits of a continuation's header change, including bits of its
 * CRC-16, if the bits @bits of its fields flip. A CRC is linear. Therefore the header of one
 * continuation XOR these bits is the header of another. Pure.
 */
static inline uint32_t emu_cont_other(uint32_t bits)
{
    return bits | (uint32_t)(emu_crc16_table[1][bits & 255] ^ emu_crc16_table[0][bits >> 8]) << 16;
}

/** emu_packet_segments - return how many segments a packet with @bytes of payload has. Pure. */
static inline uint32_t emu_packet_segments(uint32_t bytes)
{
    uint32_t rest = bytes + EMU_TAIL_BYTES;

    if (rest <= EMU_SEG_BYTES - EMU_HEAD_BYTES)
        return 1;
    rest -= EMU_SEG_BYTES - EMU_HEAD_BYTES;
    return 1 + (rest + EMU_SEG_BYTES - EMU_CONT_BYTES - 1) / (EMU_SEG_BYTES - EMU_CONT_BYTES);
}

/** emu_packet_most - return how much payload fits into a packet of @segments (at least 1). Pure. */
static inline uint32_t emu_packet_most(uint32_t segments)
{
    return EMU_SEG_BYTES - EMU_HEAD_BYTES - EMU_TAIL_BYTES +
           (segments - 1) * (EMU_SEG_BYTES - EMU_CONT_BYTES);
}

/**
 * emu_packet_last_wire - return the length on the wire of the last segment of a packet with @bytes
 * of payload and @segments segments. Pure.
 */
static inline uint32_t emu_packet_last_wire(uint32_t bytes, uint32_t segments)
{
    if (segments == 1)
        return EMU_HEAD_BYTES + bytes + EMU_TAIL_BYTES;
    return EMU_CONT_BYTES + bytes - emu_packet_most(segments - 1);
}

/**
 * emu_packet_wire_bytes - return the length on the wire of segment @index of a packet, whose
 * payload has @bytes bytes.
 */
static inline uint32_t emu_packet_wire_bytes(uint32_t bytes, uint32_t index)
{
    uint32_t segments = emu_packet_segments(bytes);

    return index + 1 < segments ? EMU_SEG_BYTES : emu_packet_last_wire(bytes, segments);
}

#endif
