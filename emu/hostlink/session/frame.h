/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * frame.h - the layout of the frames of host links: docs/hosts.md has the table of the fields.
 *
 * A frame is the Ethernet header, ours, a body (records, a map of what came, or an offer), and a
 * tag over all that stands before it (auth.h). Numbers are little-endian, the EtherType excepted.
 * What comes from the wire is read by emu_frame_parse() into a struct, which checks every field
 * that can be checked without knowing the session; nothing of a frame is used before its tag was
 * found right.
 */
#ifndef EMU_HOSTLINK_FRAME_H
#define EMU_HOSTLINK_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/hostlink/port/port.h"

#define EMU_FRAME_ETHERTYPE    0x88b5u /* IEEE 802, local experimental 1 */
#define EMU_FRAME_MAGIC        0xfeu
#define EMU_FRAME_VERSION      2u
#define EMU_FRAME_HEADER_BYTES 80u /* with the Ethernet header; the body begins there */
#define EMU_FRAME_TAG_BYTES    16u
#define EMU_FRAME_OFFER_BYTES  48u
#define EMU_FRAME_LEAST_BYTES  512u   /* of a port's frames: a record of a full segment fits */
#define EMU_FRAME_MOST_BYTES   65535u /* lengths have 16 bits */
#define EMU_FRAME_DIGEST_BYTES 32
#define EMU_FRAME_WINDOW_LEAST 64u /* frames under way; both are powers of two */
#define EMU_FRAME_WINDOW_MOST  4096u

/* The handshake's three come first: their layout is the same in all versions to come. */
enum emu_frame_kind {
    EMU_FRAME_HELLO = 1, /* I have this number: do you hear me? */
    EMU_FRAME_REPLY,     /* I hear you; and I have that one */
    EMU_FRAME_CONFIRM,   /* I hear you, too */
    EMU_FRAME_DATA,      /* records */
    EMU_FRAME_ACK,       /* which frames have come; also the sign of life */
    EMU_FRAME_KINDS
};

struct emu_frame {
    uint8_t to_mac[EMU_HOSTLINK_MAC_BYTES];
    uint8_t from_mac[EMU_HOSTLINK_MAC_BYTES];
    uint8_t version;
    uint8_t kind;
    uint8_t check; /* enum emu_auth_check: what the tag is */
    uint16_t from;
    uint16_t to;
    uint16_t body_bytes;
    uint64_t fabric;
    uint64_t packet;  /* never the same again in a life: a frame that is sent again has a new one */
    uint64_t yours;   /* session number of who gets it; 0: not known */
    uint64_t mine;    /* of who sends it */
    uint32_t seq;     /* DATA: which frame of records this is; modulo 2^32 */
    uint32_t ack;     /* all frames before that one have come */
    uint32_t sent_ns; /* sender's clock, low 32 bits; never 0 */
    uint32_t echo_ns; /* sent_ns of the last that came, and how long ago that was; 0: none */
    uint32_t needless; /* frames that came by more than one of their transmissions */
    uint32_t newest;   /* low bits of the greatest `packet` that has come, which `echo_ns` is of */
    const uint8_t *body; /* in the frame */
};

/* What a handshake offers: the body of its frames. */
struct emu_frame_offer {
    uint8_t digest[EMU_FRAME_DIGEST_BYTES];
    uint32_t frame_bytes; /* of the largest frame that its port takes */
    uint32_t window;      /* frames: a power of two */
    uint32_t first_seq;   /* number of its first frame of records */
    uint32_t checks;      /* bits by enum emu_auth_check: what it can make and check */
};

/**
 * emu_frame_parse - @frame as a struct. False: it is too short, not of host links, or its lengths
 * do not add up. Versions are not looked at. Pure.
 */
bool emu_frame_parse(const struct emu_hostframe *frame, struct emu_frame *ret);

/** emu_frame_is_ours - is it long enough, and of host links by its EtherType? Pure. */
bool emu_frame_is_ours(const struct emu_hostframe *frame);

/** emu_frame_write - the header at @to, as @header says. */
void emu_frame_write(uint8_t *to, const struct emu_frame *header);

/** emu_frame_bytes - of a frame with @body_bytes, tag and all. Pure. */
static inline uint32_t emu_frame_bytes(uint32_t body_bytes)
{
    return EMU_FRAME_HEADER_BYTES + body_bytes + EMU_FRAME_TAG_BYTES;
}

/** emu_frame_is_handshake - is @kind one of the handshake's? Pure. */
static inline bool emu_frame_is_handshake(uint8_t kind)
{
    return kind <= EMU_FRAME_CONFIRM;
}

/** emu_frame_offer_parse - the body of a handshake; false: it makes no sense. Pure. */
bool emu_frame_offer_parse(const struct emu_frame *header, struct emu_frame_offer *ret);
void emu_frame_offer_write(uint8_t *to, const struct emu_frame_offer *offer);

/**
 * emu_frame_map_word - of an ACK, the map's bits for the 64 frames from `ack` + 64 * @word on:
 * which have come. @word < body_bytes / 8. Pure.
 */
uint64_t emu_frame_map_word(const struct emu_frame *header, uint32_t word);
void emu_frame_map_write(uint8_t *body, uint32_t word, uint64_t bits);

#endif
