/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packet.h - the packet of QsNet III on the wire.
 *
 * A packet carries up to 4 KB in segments of 256 bytes: a header of 8 bytes and up to 248 of
 * payload, then continuations of 4 bytes and up to 252 each; the last segment ends with 8 bytes: a
 * CRC-32 over the payload and the packet's id. Each header and continuation has a CRC-16,
 * recomputed at every hop because the virtual channel changes.
 * Source: QsNet III §IV-B. The paper gives the fields; their widths and order are ours.
 *
 * On a cable between two devices a segment is a descriptor (ring.h) whose header is a struct
 * emu_packet_hdr. Cables with channels guarantee:
 *
 * - The sender opens a channel for a packet when it sends the head, and keeps it open until the
 *   packet's reply comes back in the opposite direction of the cable. A channel carries one packet
 *   at a time; its segments stay in order.
 * - The receiver has one slot per channel and a shared pool of slots. A segment is sent only if its
 *   channel's slot or a pool slot is free (vc.h); its credit is returned when it leaves the
 *   receiver.
 * - A reply needs no slot: there is at most one per open channel.
 * - The source assigns a packet's tag, which is in each of its segments and in its reply. An entry
 *   whose tag is not the open channel's is stale: it is counted, its credit is returned, and it is
 *   dropped. A head on a channel that the receiver considers open means that the sender gave the
 *   earlier packet up; the receiver then does the same.
 * - A reply is sent when the packet's last segment has been received and checked, or when the
 *   receiver gives up waiting for it (a NACK).
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
#define EMU_PRIORITIES   4u    /* 0 is bulk */
#define EMU_PACKET_BYTES 4096u /* payload, at most */
#define EMU_HEAD_BYTES   8u    /* at the front of the first segment */
#define EMU_CONT_BYTES   4u    /* at the front of the others */
#define EMU_TAIL_BYTES   8u    /* CRC-32 and id, after the payload */
#define EMU_REPLY_BYTES  8u    /* an ACK or a NACK on the wire */
#define EMU_INDEXES      32u   /* limit of a continuation's segment index */

/* Segments on a cable with channels. Distinct from enum emu_kind. */
enum emu_packet_kind {
    EMU_PACKET_HEAD = 16, /* first segment: `head` */
    EMU_PACKET_CONT,      /* further segment: `cont` */
    EMU_PACKET_ACK,       /* reply: accepted by every destination */
    EMU_PACKET_NACK       /* reply: not accepted by at least one; send again */
};

/* The header of a descriptor on such a cable, in place of struct emu_hdr. */
struct emu_packet_hdr {
    union {
        uint64_t head; /* emu_head_pack() */
        uint32_t cont; /* emu_cont_pack() */
    };
    union {
        struct {
            uint32_t tag; /* of the packet, assigned by its source */
            uint8_t kind; /* enum emu_packet_kind; same offset as emu_hdr.kind */
            uint8_t wire; /* bytes on the wire - 1 */
            /* on this cable: copy of that in head or cont, which the CRC-16 protects */
            uint8_t channel;
            uint8_t last; /* 1: the packet's last segment */
        };
        uint64_t rest; /* all of these, to compare at once */
    };
};
static_assert(sizeof(struct emu_packet_hdr) == EMU_HDR_BYTES, "in the place of struct emu_hdr");
static_assert(offsetof(struct emu_packet_hdr, kind) == offsetof(struct emu_hdr, kind),
              "a kind is a kind");

/* The fields of a header. */
struct emu_head {
    uint8_t channel;  /* below EMU_VCS */
    uint8_t priority; /* below EMU_PRIORITIES */
    bool group;       /* dst is a broadcast group, else a node */
    bool more;        /* more packets to dst follow immediately: acknowledge early */
    uint16_t dst;
    uint16_t bytes; /* payload of the packet, 0 to EMU_PACKET_BYTES */
    uint16_t stamp; /* time of injection in units of 64 ns, modulo 2^10 */
};

/* The fields of a continuation. */
struct emu_cont {
    uint8_t channel;
    uint8_t priority;
    uint8_t index; /* of the segment in its packet, from 1 */
    bool last;
};

/** emu_head_pack - the 8 bytes of a header, its CRC-16 in the upper two. Pure. */
uint64_t emu_head_pack(const struct emu_head *head);

/** emu_head_unpack - false: bad CRC-16 or length. Pure. */
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

#define EMU_CONT_INDEX 7u         /* position of the index in a continuation's word */
#define EMU_CONT_LAST  (1u << 12) /* flag of the last segment */

/** emu_cont_pack, emu_cont_unpack - the same for the 4 bytes of a continuation. Pure. */
static inline uint32_t emu_cont_pack(const struct emu_cont *cont)
{
    uint32_t word = cont->channel | (uint32_t)cont->priority << 5 |
                    (uint32_t)cont->index << EMU_CONT_INDEX | (cont->last ? EMU_CONT_LAST : 0);

    return word | (uint32_t)emu_crc16(word, 2) << 16;
}
bool emu_cont_unpack(struct emu_cont *ret, uint32_t wire);

/**
 * emu_cont_other - the change of a continuation's word, CRC-16 included, when the field bits @bits
 * flip: a CRC is linear. So all continuations of a packet derive from one. Pure.
 */
static inline uint32_t emu_cont_other(uint32_t bits)
{
    return bits | (uint32_t)(emu_crc16_table[1][bits & 255] ^ emu_crc16_table[0][bits >> 8]) << 16;
}

/** emu_packet_segments - segments of a packet with @bytes payload, at least 1. Pure. */
static inline uint32_t emu_packet_segments(uint32_t bytes)
{
    uint32_t rest = bytes + EMU_TAIL_BYTES;

    if (rest <= EMU_SEG_BYTES - EMU_HEAD_BYTES)
        return 1;
    rest -= EMU_SEG_BYTES - EMU_HEAD_BYTES;
    return 1 + (rest + EMU_SEG_BYTES - EMU_CONT_BYTES - 1) / (EMU_SEG_BYTES - EMU_CONT_BYTES);
}

/** emu_packet_most - the most payload in @segments segments, 1 or more. Bytes. Pure. */
static inline uint32_t emu_packet_most(uint32_t segments)
{
    return EMU_SEG_BYTES - EMU_HEAD_BYTES - EMU_TAIL_BYTES +
           (segments - 1) * (EMU_SEG_BYTES - EMU_CONT_BYTES);
}

/** emu_packet_last_wire - bytes on the wire of the last of @segments segments. Pure. */
static inline uint32_t emu_packet_last_wire(uint32_t bytes, uint32_t segments)
{
    if (segments == 1)
        return EMU_HEAD_BYTES + bytes + EMU_TAIL_BYTES;
    return EMU_CONT_BYTES + bytes - emu_packet_most(segments - 1);
}

/** emu_packet_wire_bytes - bytes on the wire of segment @index, of @bytes payload. Pure. */
static inline uint32_t emu_packet_wire_bytes(uint32_t bytes, uint32_t index)
{
    uint32_t segments = emu_packet_segments(bytes);

    return index + 1 < segments ? EMU_SEG_BYTES : emu_packet_last_wire(bytes, segments);
}

#endif
