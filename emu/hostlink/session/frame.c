/* SPDX-License-Identifier: BSD-3-Clause */
/* frame.c - fields to bytes, and back. */
#include "emu/hostlink/session/frame.h"

#include <assert.h>
#include <string.h>

/* The layout of a frame: docs/hosts.md, "Frames on the wire". */
enum place {
    TO_MAC = 0,
    FROM_MAC = 6,
    ETHERTYPE = 12,
    MAGIC = 14,
    VERSION = 15,
    FABRIC = 16,
    FROM = 24,
    TO = 26,
    KIND = 28,
    CHECK = 29,
    BODY_BYTES = 30,
    PACKET = 32,
    YOURS = 40,
    MINE = 48,
    SEQ = 56,
    ACK = 60,
    SENT = 64,
    ECHO = 68,
    NEEDLESS = 72,
    NEWEST = 76
};
static_assert(NEWEST + 4 == EMU_FRAME_HEADER_BYTES, "the body follows");

static inline uint16_t get16(const uint8_t *from)
{
    return (uint16_t)(from[0] | from[1] << 8);
}

static inline uint32_t get32(const uint8_t *from)
{
    return get16(from) | (uint32_t)get16(from + 2) << 16;
}

static inline uint64_t get64(const uint8_t *from)
{
    return get32(from) | (uint64_t)get32(from + 4) << 32;
}

static inline void put16(uint8_t *to, uint16_t number)
{
    to[0] = (uint8_t)number;
    to[1] = (uint8_t)(number >> 8);
}

static inline void put32(uint8_t *to, uint32_t number)
{
    put16(to, (uint16_t)number);
    put16(to + 2, (uint16_t)(number >> 16));
}

static inline void put64(uint8_t *to, uint64_t number)
{
    put32(to, (uint32_t)number);
    put32(to + 4, (uint32_t)(number >> 32));
}

/* Do the lengths of the kind add up? */
static bool frame_fits(const struct emu_frame *header)
{
    switch (header->kind) {
    case EMU_FRAME_HELLO:
    case EMU_FRAME_REPLY:
    case EMU_FRAME_CONFIRM:
        return header->body_bytes == EMU_FRAME_OFFER_BYTES;
    case EMU_FRAME_DATA:
        return header->body_bytes > 0;
    case EMU_FRAME_ACK:
        return header->body_bytes % 8 == 0;
    default:
        return false;
    }
}

bool emu_frame_is_ours(const struct emu_hostframe *frame)
{
    const uint8_t *at = frame->data;

    return frame->bytes >= MAGIC && at[ETHERTYPE] == EMU_FRAME_ETHERTYPE >> 8 &&
           at[ETHERTYPE + 1] == (EMU_FRAME_ETHERTYPE & 255);
}

bool emu_frame_parse(const struct emu_hostframe *frame, struct emu_frame *ret)
{
    const uint8_t *at = frame->data;

    if (!emu_frame_is_ours(frame) || frame->bytes < emu_frame_bytes(0) ||
        at[MAGIC] != EMU_FRAME_MAGIC)
        return false;
    memcpy(ret->to_mac, at + TO_MAC, EMU_HOSTLINK_MAC_BYTES);
    memcpy(ret->from_mac, at + FROM_MAC, EMU_HOSTLINK_MAC_BYTES);
    ret->version = at[VERSION];
    ret->fabric = get64(at + FABRIC);
    ret->from = get16(at + FROM);
    ret->to = get16(at + TO);
    ret->kind = at[KIND];
    ret->check = at[CHECK];
    ret->body_bytes = get16(at + BODY_BYTES);
    ret->packet = get64(at + PACKET);
    ret->yours = get64(at + YOURS);
    ret->mine = get64(at + MINE);
    ret->seq = get32(at + SEQ);
    ret->ack = get32(at + ACK);
    ret->sent_ns = get32(at + SENT);
    ret->echo_ns = get32(at + ECHO);
    ret->needless = get32(at + NEEDLESS);
    ret->newest = get32(at + NEWEST);
    ret->body = at + EMU_FRAME_HEADER_BYTES;
    /* Ethernet may have padded it: bytes behind the tag are nobody's. */
    return emu_frame_bytes(ret->body_bytes) <= frame->bytes && frame_fits(ret);
}

void emu_frame_write(uint8_t *to, const struct emu_frame *header)
{
    memcpy(to + TO_MAC, header->to_mac, EMU_HOSTLINK_MAC_BYTES);
    memcpy(to + FROM_MAC, header->from_mac, EMU_HOSTLINK_MAC_BYTES);
    to[ETHERTYPE] = EMU_FRAME_ETHERTYPE >> 8;
    to[ETHERTYPE + 1] = EMU_FRAME_ETHERTYPE & 255;
    to[MAGIC] = EMU_FRAME_MAGIC;
    to[VERSION] = header->version;
    put64(to + FABRIC, header->fabric);
    put16(to + FROM, header->from);
    put16(to + TO, header->to);
    to[KIND] = header->kind;
    to[CHECK] = header->check;
    put16(to + BODY_BYTES, header->body_bytes);
    put64(to + PACKET, header->packet);
    put64(to + YOURS, header->yours);
    put64(to + MINE, header->mine);
    put32(to + SEQ, header->seq);
    put32(to + ACK, header->ack);
    put32(to + SENT, header->sent_ns);
    put32(to + ECHO, header->echo_ns);
    put32(to + NEEDLESS, header->needless);
    put32(to + NEWEST, header->newest);
}

bool emu_frame_offer_parse(const struct emu_frame *header, struct emu_frame_offer *ret)
{
    const uint8_t *at = header->body;

    memcpy(ret->digest, at, EMU_FRAME_DIGEST_BYTES);
    ret->frame_bytes = get32(at + 32);
    ret->window = get32(at + 36);
    ret->first_seq = get32(at + 40);
    ret->checks = get32(at + 44);
    return header->mine && ret->frame_bytes >= EMU_FRAME_LEAST_BYTES &&
           ret->window >= EMU_FRAME_WINDOW_LEAST && ret->window <= EMU_FRAME_WINDOW_MOST &&
           !(ret->window & (ret->window - 1));
}

void emu_frame_offer_write(uint8_t *to, const struct emu_frame_offer *offer)
{
    memcpy(to, offer->digest, EMU_FRAME_DIGEST_BYTES);
    put32(to + 32, offer->frame_bytes);
    put32(to + 36, offer->window);
    put32(to + 40, offer->first_seq);
    put32(to + 44, offer->checks);
}

uint64_t emu_frame_map_word(const struct emu_frame *header, uint32_t word)
{
    return get64(header->body + 8 * (size_t)word);
}

void emu_frame_map_write(uint8_t *body, uint32_t word, uint64_t bits)
{
    put64(body + 8 * (size_t)word, bits);
}
