/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * frame.h - the layout of the frames that host links exchange. frame.c has the offsets of the
 * fields.
 *
 * A frame consists of the Ethernet header, our header, a body, and a tag over everything before it
 * (auth.h). The body contains records, a map of received frames, or an offer. Numbers are
 * little-endian, except the EtherType. emu_frame_parse() reads a received frame into a struct, and
 * checks everything that can be checked without knowing the session. No field is used before the
 * frame's tag was verified.
 */
#ifndef EMU_HOSTLINK_FRAME_H
#define EMU_HOSTLINK_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/hostlink/port/port.h"

#define EMU_FRAME_MAGIC        0xfeu
#define EMU_FRAME_VERSION      2u
#define EMU_FRAME_HEADER_BYTES 80u /* size of the Ethernet header and our header */
#define EMU_FRAME_TAG_BYTES    16u
#define EMU_FRAME_OFFER_BYTES  48u
#define EMU_FRAME_LEAST_BYTES  512u   /* smallest frame size that a port may have */
#define EMU_FRAME_MOST_BYTES   65535u /* lengths are numbers of 16 bits */
#define EMU_FRAME_DIGEST_BYTES 32
#define EMU_FRAME_WINDOW_LEAST 64u /* limits of the number of frames in flight; powers of two */
#define EMU_FRAME_WINDOW_MOST  4096u

/* The kinds of frames. The first three are handshake frames, whose layout never changes. */
enum emu_frame_kind {
    EMU_FRAME_HELLO = 1, /* offers the sender's random session number */
    EMU_FRAME_REPLY,     /* returns that number, and offers the replying host's own */
    EMU_FRAME_CONFIRM,   /* returns the replying host's number */
    EMU_FRAME_DATA,      /* contains records */
    EMU_FRAME_ACK,       /* acknowledges frames; also sent as a keep-alive */
    EMU_FRAME_KINDS
};

struct emu_frame {
    uint8_t to_mac[EMU_HOSTLINK_MAC_BYTES];
    uint8_t from_mac[EMU_HOSTLINK_MAC_BYTES];
    uint8_t version;
    uint8_t kind;
    uint8_t check; /* enum emu_auth_check: the kind of tag */
    uint16_t from;
    uint16_t to;
    uint16_t body_bytes;
    uint64_t fabric;
    /* packet number, unique until the next handshake; each retransmission has a new one */
    uint64_t packet;
    uint64_t yours;   /* session number of the receiver; 0: unknown */
    uint64_t mine;    /* session number of the sender */
    uint32_t seq;     /* DATA: sequence number, modulo 2^32 */
    uint32_t ack;     /* all data frames with lower sequence numbers were received */
    uint32_t sent_ns; /* sender's clock when the frame was sent, low 32 bits; never 0 */
    /* sent_ns of the last received frame, plus the time since its arrival; 0: no such frame */
    uint32_t echo_ns;
    /* number of needless retransmissions that the sender of this frame has received */
    uint32_t needless;
    /* low bits of the highest packet number received; echo_ns refers to this packet */
    uint32_t newest;
    const uint8_t *body; /* points into the frame */
};

/* The body of a handshake frame: the sender's offer. */
struct emu_frame_offer {
    uint8_t digest[EMU_FRAME_DIGEST_BYTES];
    uint32_t frame_bytes; /* largest frame that its port can receive */
    uint32_t window;      /* maximum number of frames in flight: a power of two */
    uint32_t first_seq;   /* sequence number of its first data frame */
    uint32_t checks;      /* supported kinds of enum emu_auth_check, by bit */
};

/**
 * emu_frame_parse - parse @frame. Returns false if it is too short, has inconsistent lengths, or is
 * not a frame of a host link. Does not check the version. Pure.
 */
bool emu_frame_parse(const struct emu_hostframe *frame, struct emu_frame *ret);

/** emu_frame_is_ours - return whether the frame has an Ethernet header with our EtherType. Pure. */
bool emu_frame_is_ours(const struct emu_hostframe *frame);

void emu_frame_write(uint8_t *to, const struct emu_frame *from);

/** emu_frame_bytes - return the length of a frame with this body, including its tag. Pure. */
static inline uint32_t emu_frame_bytes(uint32_t body_bytes)
{
    return EMU_FRAME_HEADER_BYTES + body_bytes + EMU_FRAME_TAG_BYTES;
}

static inline bool emu_frame_is_handshake(uint8_t kind)
{
    return kind <= EMU_FRAME_CONFIRM;
}

/** emu_frame_offer_parse - parse the body of a handshake frame. Returns whether it is valid. */
bool emu_frame_offer_parse(const struct emu_frame *header, struct emu_frame_offer *ret);
void emu_frame_offer_write(uint8_t *to, const struct emu_frame_offer *from);

/**
 * emu_frame_map_word - return a word of an ACK frame's map. Bit i says whether the frame with
 * sequence number `ack` + 64 * @word + i was received. @word must be below body_bytes / 8. Pure.
 */
uint64_t emu_frame_map_word(const struct emu_frame *header, uint32_t word);
void emu_frame_map_write(uint8_t *body, uint32_t word, uint64_t bits);

#endif
