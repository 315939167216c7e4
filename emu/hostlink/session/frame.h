/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * frame.h - the layout of host link frames: docs/hosts.md has the table of the fields.
 *
 * A frame is the Ethernet header, our header, a body (records, a map of received frames, or an
 * offer), and a tag over everything before it (auth.h). Numbers are little-endian, except the
 * EtherType. emu_frame_parse() reads a received frame into a struct and checks every field that can
 * be checked without knowing the session. Nothing of a frame is used before its tag was verified.
 */
#ifndef EMU_HOSTLINK_FRAME_H
#define EMU_HOSTLINK_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/hostlink/port/port.h"

#define EMU_FRAME_MAGIC        0xfeu
#define EMU_FRAME_VERSION      2u
#define EMU_FRAME_HEADER_BYTES 80u /* with the Ethernet header; offset of the body */
#define EMU_FRAME_TAG_BYTES    16u
#define EMU_FRAME_OFFER_BYTES  48u
#define EMU_FRAME_LEAST_BYTES  512u   /* least frame size of a port */
#define EMU_FRAME_MOST_BYTES   65535u /* lengths have 16 bits */
#define EMU_FRAME_DIGEST_BYTES 32
#define EMU_FRAME_WINDOW_LEAST 64u /* frames in flight; powers of two */
#define EMU_FRAME_WINDOW_MOST  4096u

/* The handshake frames: their layout is the same in all future versions. */
enum emu_frame_kind {
    EMU_FRAME_HELLO = 1, /* offers the sender's number */
    EMU_FRAME_REPLY,     /* confirms it and offers the answerer's number */
    EMU_FRAME_CONFIRM,   /* confirms that number */
    EMU_FRAME_DATA,      /* records */
    EMU_FRAME_ACK,       /* acknowledges frames; also the keep-alive */
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
    uint64_t packet;     /* unique within the incarnation: a retransmission has a new one */
    uint64_t yours;      /* session number of the receiver; 0: unknown */
    uint64_t mine;       /* session number of the sender */
    uint32_t seq;        /* DATA: sequence number, modulo 2^32 */
    uint32_t ack;        /* all earlier frames were received */
    uint32_t sent_ns;    /* sender's clock, low 32 bits; never 0 */
    uint32_t echo_ns;    /* last received sent_ns plus the time since; 0: none */
    uint32_t needless;   /* frames of which more than one transmission was received */
    uint32_t newest;     /* low bits of the highest packet received, which `echo_ns` is of */
    const uint8_t *body; /* in the frame */
};

/* The body of a handshake frame. */
struct emu_frame_offer {
    uint8_t digest[EMU_FRAME_DIGEST_BYTES];
    uint32_t frame_bytes; /* largest frame that the port takes */
    uint32_t window;      /* frames: a power of two */
    uint32_t first_seq;   /* sequence number of the first data frame */
    uint32_t checks;      /* supported enum emu_auth_check, by bit */
};

/**
 * emu_frame_parse - parse @frame. Returns false if it is too short, no host link frame, or its
 * lengths are inconsistent. Does not check the version. Pure.
 */
bool emu_frame_parse(const struct emu_hostframe *frame, struct emu_frame *ret);

/** emu_frame_is_ours - does it have an Ethernet header with our EtherType? Pure. */
bool emu_frame_is_ours(const struct emu_hostframe *frame);

/** emu_frame_write - write the header @from at @to. */
void emu_frame_write(uint8_t *to, const struct emu_frame *from);

/** emu_frame_bytes - length of a frame with @body_bytes, with its tag. Pure. */
static inline uint32_t emu_frame_bytes(uint32_t body_bytes)
{
    return EMU_FRAME_HEADER_BYTES + body_bytes + EMU_FRAME_TAG_BYTES;
}

/** emu_frame_is_handshake - is @kind one of the three handshake frames? Pure. */
static inline bool emu_frame_is_handshake(uint8_t kind)
{
    return kind <= EMU_FRAME_CONFIRM;
}

/**
 * emu_frame_offer_parse - parse the body of a handshake frame. Returns false if it is invalid.
 * Pure.
 */
bool emu_frame_offer_parse(const struct emu_frame *header, struct emu_frame_offer *ret);
void emu_frame_offer_write(uint8_t *to, const struct emu_frame_offer *from);

/**
 * emu_frame_map_word - the bits of an ACK's map for 64 frames from `ack` + 64 * @word: received or
 * not. @word < body_bytes / 8. Pure.
 */
uint64_t emu_frame_map_word(const struct emu_frame *header, uint32_t word);
void emu_frame_map_write(uint8_t *body, uint32_t word, uint64_t bits);

#endif
