/* SPDX-License-Identifier: BSD-3-Clause */
/* frame.c - read and write frame headers (frame.h). */
#include "emu/hostlink/session/frame.h"

#include <assert.h>
#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "fields need no conversion");

#define ETHERTYPE 12
#define MAGIC     14

/* Offsets of the other fields; frame.h explains them. */
#define HEADER_FIELDS(FIELD) \
    FIELD(to_mac, 0)         \
    FIELD(from_mac, 6)       \
    FIELD(version, 15)       \
    FIELD(fabric, 16)        \
    FIELD(from, 24)          \
    FIELD(to, 26)            \
    FIELD(kind, 28)          \
    FIELD(check, 29)         \
    FIELD(body_bytes, 30)    \
    FIELD(packet, 32)        \
    FIELD(yours, 40)         \
    FIELD(mine, 48)          \
    FIELD(seq, 56)           \
    FIELD(ack, 60)           \
    FIELD(sent_ns, 64)       \
    FIELD(echo_ns, 68)       \
    FIELD(needless, 72)      \
    FIELD(newest, 76)
static_assert(76 + sizeof(uint32_t) == EMU_FRAME_HEADER_BYTES, "the body follows the last field");

#define OFFER_FIELDS(FIELD) \
    FIELD(digest, 0)        \
    FIELD(frame_bytes, 32)  \
    FIELD(window, 36)       \
    FIELD(first_seq, 40)    \
    FIELD(checks, 44)
static_assert(44 + sizeof(uint32_t) == EMU_FRAME_OFFER_BYTES, "the tag follows the last field");

#define FIELD_READ(field, offset)  memcpy(&ret->field, at + (offset), sizeof ret->field);
#define FIELD_WRITE(field, offset) memcpy(to + (offset), &from->field, sizeof from->field);

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

    return frame->bytes >= MAGIC && at[ETHERTYPE] == EMU_HOSTLINK_ETHERTYPE >> 8 &&
           at[ETHERTYPE + 1] == (EMU_HOSTLINK_ETHERTYPE & 255);
}

bool emu_frame_parse(const struct emu_hostframe *frame, struct emu_frame *ret)
{
    const uint8_t *at = frame->data;

    if (!emu_frame_is_ours(frame) || frame->bytes < emu_frame_bytes(0) ||
        at[MAGIC] != EMU_FRAME_MAGIC)
        return false;
    HEADER_FIELDS(FIELD_READ);
    ret->body = at + EMU_FRAME_HEADER_BYTES;
    /* Ethernet may have padded the frame, so bytes after the tag are ignored. */
    return emu_frame_bytes(ret->body_bytes) <= frame->bytes && frame_fits(ret);
}

void emu_frame_write(uint8_t *to, const struct emu_frame *from)
{
    HEADER_FIELDS(FIELD_WRITE);
    to[ETHERTYPE] = EMU_HOSTLINK_ETHERTYPE >> 8;
    to[ETHERTYPE + 1] = EMU_HOSTLINK_ETHERTYPE & 255;
    to[MAGIC] = EMU_FRAME_MAGIC;
}

bool emu_frame_offer_parse(const struct emu_frame *header, struct emu_frame_offer *ret)
{
    const uint8_t *at = header->body;

    OFFER_FIELDS(FIELD_READ);
    return header->mine && ret->frame_bytes >= EMU_FRAME_LEAST_BYTES &&
           ret->window >= EMU_FRAME_WINDOW_LEAST && ret->window <= EMU_FRAME_WINDOW_MOST &&
           !(ret->window & (ret->window - 1));
}

void emu_frame_offer_write(uint8_t *to, const struct emu_frame_offer *from)
{
    OFFER_FIELDS(FIELD_WRITE);
}

uint64_t emu_frame_map_word(const struct emu_frame *header, uint32_t word)
{
    uint64_t bits;

    memcpy(&bits, header->body + 8 * (size_t)word, sizeof bits);
    return bits;
}

void emu_frame_map_write(uint8_t *body, uint32_t word, uint64_t bits)
{
    memcpy(body + 8 * (size_t)word, &bits, sizeof bits);
}
