/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - a session, as its files see it: session.c (made, stepped, asked), handshake.c (the
 * handshake), send.c (frames on their way), loss.c (which of them are lost), receive.c.
 *
 * Frames of records are numbered modulo 2^32, and differences of these numbers are compared, never
 * the numbers. What is by number lies in rings of `window` elements, at number & mask.
 */
#ifndef EMU_HOSTLINK_INTERNAL_H
#define EMU_HOSTLINK_INTERNAL_H

#include <string.h>

#include "emu/hostlink/session/session.h"
#include "emu/packet/rto.h"
#include "emu/util/count.h"
#include "emu/util/list.h"

#define SESSION_ANSWERS 4u /* handshakes that are answered in a step */

enum slot_state {
    SLOT_FREE,   /* no frame of this number */
    SLOT_READY,  /* is being filled, or full: never sent */
    SLOT_OUT,    /* waits for the port's send queue, for the first time or again */
    SLOT_FLIGHT, /* sent */
    SLOT_LOST,   /* to be sent again */
    SLOT_HAS     /* the other host has it; frames before it are missing */
};

/* A frame of records, until the other host has it and all before it. */
struct session_slot {
    struct emu_list link; /* FLIGHT, in the order of their sending; LOST */
    struct emu_hostframe *frame;
    uint64_t packet; /* of the last transmission; OUT: of the coming one */
    uint64_t sent_ns;
    uint16_t body_bytes;
    uint8_t state; /* enum slot_state */
    bool again;    /* it was sent before */
    bool twice;    /* it was sent more than once: what comes back may be of any of them (Karn) */
};

/* A frame that is made, and that the port has not taken yet. It is held once for this. */
struct session_out {
    struct session_slot *slot; /* NULL: not a frame of records */
    uint64_t packet;
};

/* A frame of a handshake that somebody is owed. */
struct session_answer {
    uint8_t kind;
    uint64_t mine;
    uint64_t yours;
    uint8_t mac[EMU_HOSTLINK_MAC_BYTES];
    uint32_t sent_ns; /* of the frame that is answered */
    uint64_t received_ns;
};

/* Why a host is refused. */
enum session_refusal { SESSION_NOT_REFUSED, SESSION_DIGEST, SESSION_VERSION, SESSION_CHECKS };

/* Bits of session_handshake.impostor: the address is below. */
enum { SESSION_IMPOSTOR_WHY = 48, SESSION_IMPOSTOR_VERSION = 56 };

struct session_handshake {
    uint64_t next; /* our session number in the next life */
    uint64_t mine; /* in this one */
    uint64_t yours;
    bool heard;                          /* the other end is known to have begun this life, too */
    uint8_t mac[EMU_HOSTLINK_MAC_BYTES]; /* where the other host is */
    uint64_t handshake_ns;               /* when a handshake's frame is sent unasked */
    uint64_t wait_ns;                    /* and after how long another one */
    struct session_answer answer[SESSION_ANSWERS];
    uint32_t answers;
    _Atomic uint64_t refusal; /* enum session_refusal */
    _Atomic uint64_t version; /* that the other host spoke last */
    /*
     * Who was refused last while there was a life: address, enum session_refusal, version. 0:
     * nobody.
     */
    _Atomic uint64_t impostor;
    bool impostor_seen;       /* somebody was, in this life: he knows `next` */
    _Atomic uint64_t strange; /* frames of a handshake with a key and none here, or without */
    /* Of them, and of forged frames, before the last life ended or somebody was refused. */
    _Atomic uint64_t past_strange, past_forged;
};

/* unacked <= ready <= fill <= unacked + window */
struct session_send {
    struct session_slot *slot;
    uint32_t unacked; /* the first number that the other host does not have */
    uint32_t ready;   /* the first that was never sent */
    uint32_t fill;    /* the one that is being filled: it has a frame if `filling` */
    bool filling;
    bool hold; /* it is not sent in the next step */
    uint32_t fill_bytes;
    uint64_t packet;  /* number of the next packet */
    uint64_t last_ns; /* when something was sent last */
    struct emu_hostframe *out_frame[EMU_HOSTLINK_BURST];
    struct session_out out[EMU_HOSTLINK_BURST];
    uint32_t outs;
    bool stuck; /* the port took less than there was, or had no free frame */
};

/* What is known of frames on their way (RFC 8985, RFC 6298). */
struct session_loss {
    struct emu_list flight;
    struct emu_list lost;
    struct emu_rto rto;
    uint64_t rto_from_ns; /* the last time-out */
    uint64_t rto_ns;      /* the next one; UINT64_MAX: nothing is under way */
    uint64_t found_ns;    /* when the oldest will count as lost, by those sent later that arrived */
    /* of the packet that was sent last of all those that have arrived */
    uint64_t packet;
    uint64_t trip_ns;
    bool late;           /* the time-out was doubled: no trip has been seen since */
    uint32_t widened;    /* doublings of the time by which frames may be overtaken */
    uint64_t widened_ns; /* when it was widened last */
    uint64_t sign_ns;    /* when a frame was last found to be sent again for nothing */
    uint32_t needless;   /* what the other host said last: frame.h */
    uint32_t good;       /* frames sent again since then */
};

struct session_receive {
    struct emu_hostframe **held; /* that came before others */
    uint64_t *got;               /* bits by number & mask: it is held */
    uint32_t *received_by;       /* low bits of the packet number by which it came */
    uint32_t next;               /* the first number that is missing */
    uint32_t high;               /* the one after the last that has come */
    uint32_t needless;
    uint32_t ack_pending;    /* frames that came since we told the other host last */
    uint64_t ack_pending_ns; /* when the first of them came */
    bool ack_now;
    bool any;         /* a packet has come */
    uint64_t newest;  /* the greatest packet number that has come */
    uint32_t sent_ns; /* of that packet */
    uint64_t received_ns;
};

struct emu_session {
    struct emu_session_config config;
    struct emu_hostport *port;
    struct emu_auth *auth;
    struct emu_session_counts counts;
    _Atomic uint64_t state; /* enum emu_session_state */
    _Atomic uint64_t trip_ns;
    uint64_t heard_ns;   /* when the other host was heard last; later, if we stood still since */
    uint64_t stepped_ns; /* when it was stepped last */
    uint64_t now_ns;     /* the latest that it was told; it does not go back */
    uint64_t keep_ns;    /* between signs of life */
    uint32_t mask;       /* of all rings */
    uint32_t window;     /* of this life */
    uint32_t body_max;   /* of its frames */
    uint8_t check;
    struct session_handshake handshake;
    struct session_send send;
    struct session_loss lost;
    struct session_receive receive;
};

static inline bool session_is(const struct emu_session *s, enum emu_session_state state)
{
    return emu_count_read(&s->state) == (uint64_t)state;
}

/* Has it had the only life that it is to have (emu_session_config.once)? */
static inline bool session_is_spent(const struct emu_session *s)
{
    return s->config.once && !session_is(s, EMU_SESSION_UP) &&
           emu_count_read(&s->counts.incarnations);
}

static inline void session_set(_Atomic uint64_t *field, uint64_t to)
{
    atomic_store_explicit(field, to, memory_order_relaxed);
}

static inline struct session_slot *session_slot(const struct emu_session *s, uint32_t seq)
{
    return &s->send.slot[seq & s->mask];
}

/* The time, which whoever calls may have read before somebody else did. */
static inline uint64_t session_now(struct emu_session *s, uint64_t now_ns)
{
    if (now_ns > s->now_ns)
        s->now_ns = now_ns;
    return s->now_ns;
}

/* session.c */

/** session_down - the life ends; everything in it is dropped. */
void session_down(struct emu_session *s, enum emu_session_state state);

/** session_stamp - what of a header is the same in all frames of this host. */
void session_stamp(const struct emu_session *s, struct emu_frame *header, uint64_t now_ns);

/** session_echo_ns - the time in a frame that came, and how long ago it came. Pure. */
uint32_t session_echo_ns(uint32_t sent_ns, uint64_t received_ns, uint64_t now_ns);

/**
 * session_trip - the echo in a frame that came says how long the round trip is. Returns it;
 * UINT64_MAX: there is none.
 */
uint64_t session_trip(struct emu_session *s, const struct emu_frame *header, uint64_t now_ns);

/* handshake.c */

void session_handshake_init(struct emu_session *s);

/** session_handshake_restart - a life is over: the next one may begin at once. */
void session_handshake_restart(struct emu_session *s);

/** session_handshake - a frame of the handshake, whose tag is right. */
void session_handshake(struct emu_session *s, const struct emu_frame *header, uint64_t now_ns);

/** session_handshake_send - sends what of the handshake is due. */
void session_handshake_send(struct emu_session *s, uint64_t now_ns);

/* send.c */

void session_send_begin(struct emu_session *s);
void session_send_end(struct emu_session *s);

/**
 * session_ack_due_ns - when the other host must be told what has come; UINT64_MAX: nothing has.
 * Pure.
 */
uint64_t session_ack_due_ns(const struct emu_session *s);

/** session_send - what is to be sent in this life. */
void session_send(struct emu_session *s, uint64_t now_ns);

/**
 * session_out - one more frame for the port, with its header, body and tag. There is room for it.
 * It is held for this by the caller. @slot: NULL: none.
 */
void session_out(struct emu_session *s, struct emu_hostframe *frame, struct session_slot *slot,
                 uint64_t packet);
void session_flush(struct emu_session *s, uint64_t now_ns);

/** session_take - a free frame, or NULL. */
struct emu_hostframe *session_take(struct emu_session *s);

/** session_acked - what a frame says of those that have come over there. */
void session_acked(struct emu_session *s, const struct emu_frame *header, uint64_t now_ns);

/* loss.c */

void session_loss_begin(struct emu_session *s);

/** session_loss_sent - @slot was sent. */
void session_loss_sent(struct emu_session *s, struct session_slot *slot, uint64_t now_ns);

/** session_loss_trip - a round trip took so long. */
void session_loss_trip(struct emu_session *s, uint64_t trip_ns);

/** session_loss_has - the other host has @slot: it is on no list any more. */
void session_loss_has(struct emu_session *s, struct session_slot *slot, uint64_t now_ns);

/** session_loss_arrived - the other host has that packet, which went to and fro in @trip_ns. */
void session_loss_arrived(struct emu_session *s, uint32_t newest, uint64_t trip_ns);

/** session_loss_find - frames that are lost by now are put on the list of these. */
void session_loss_find(struct emu_session *s, uint64_t now_ns);

/** session_loss_needless - the other host says that so many came twice for our impatience. */
void session_loss_needless(struct emu_session *s, uint32_t needless, uint64_t now_ns);

/* receive.c */

void session_receive_begin(struct emu_session *s, uint32_t first_seq);
void session_receive_end(struct emu_session *s);

/** session_gap - is a frame missing before one that has come? Pure. */
static inline bool session_gap(const struct emu_session *s)
{
    return s->receive.high != s->receive.next;
}

/**
 * session_map_word - the bits of the 64 frames from the first missing one + 64 * @word on. Pure.
 */
uint64_t session_map_word(const struct emu_session *s, uint32_t word);

#endif
