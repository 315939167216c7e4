/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - shared by the files of a session: session.c (create, step, query), handshake.c
 * (handshake), send.c (frames in flight), loss.c (loss detection), receive.c.
 *
 * Data frames have sequence numbers modulo 2^32, of which only differences are compared. State per
 * sequence number is in rings of `window` elements, at number & mask.
 */
#ifndef EMU_HOSTLINK_INTERNAL_H
#define EMU_HOSTLINK_INTERNAL_H

#include <string.h>

#include "emu/hostlink/session/session.h"
#include "emu/packet/rto.h"
#include "emu/util/count.h"
#include "emu/util/list.h"

#define SESSION_ANSWERS 4u /* most handshakes answered in a step */

enum slot_state {
    SLOT_FREE,   /* no frame with this number */
    SLOT_READY,  /* being filled, or full: not sent yet */
    SLOT_OUT,    /* waits for the port's send queue, for the first time or again */
    SLOT_FLIGHT, /* sent */
    SLOT_LOST,   /* considered lost: to be sent again */
    SLOT_HAS     /* received by the peer; earlier frames are missing */
};

/* A data frame, until the peer has it and all earlier ones. */
struct session_slot {
    struct emu_list link; /* FLIGHT: in order of transmission; or LOST */
    struct emu_hostframe *frame;
    uint64_t packet; /* packet number of the last transmission; OUT: of the next */
    uint64_t sent_ns;
    uint16_t body_bytes;
    uint8_t state; /* enum slot_state */
    bool again;    /* sent before */
    bool twice;    /* sent more than once: an answer may be to any transmission (Karn) */
};

/* A finished frame that the port has not taken yet. This queue holds it once. */
struct session_out {
    struct session_slot *slot; /* NULL: no data frame */
    uint64_t packet;
};

/* A handshake frame to be sent in answer to one. */
struct session_answer {
    uint8_t kind;
    uint64_t mine;
    uint64_t yours;
    uint8_t mac[EMU_HOSTLINK_MAC_BYTES];
    uint32_t sent_ns; /* of the answered frame */
    uint64_t received_ns;
};

/* Why a host is rejected. */
enum session_refusal { SESSION_NOT_REFUSED, SESSION_DIGEST, SESSION_VERSION, SESSION_CHECKS };

/* Bit offsets in session_handshake.impostor; the MAC address is below. */
enum { SESSION_IMPOSTOR_WHY = 48, SESSION_IMPOSTOR_VERSION = 56 };

struct session_handshake {
    uint64_t next; /* our session number in the next incarnation */
    uint64_t mine; /* in the current one */
    uint64_t yours;
    bool heard;                          /* the peer has begun this incarnation, too */
    uint8_t mac[EMU_HOSTLINK_MAC_BYTES]; /* the peer's port */
    uint64_t handshake_ns;               /* time of the next unsolicited handshake frame */
    uint64_t wait_ns;                    /* and interval to the one after it */
    struct session_answer answer[SESSION_ANSWERS];
    uint32_t answers;
    _Atomic uint64_t refusal; /* enum session_refusal */
    _Atomic uint64_t version; /* protocol version of the peer's last handshake */
    /*
     * The last host rejected while the session was up: MAC address, enum session_refusal, version.
     * 0: none.
     */
    _Atomic uint64_t impostor;
    /* a host was rejected in this incarnation and has seen `next` */
    bool impostor_seen;
    _Atomic uint64_t strange; /* handshake frames with a key where we have none, or the reverse */
    /* Values of `strange` and counts.forged at the last session's end or rejection. */
    _Atomic uint64_t past_strange, past_forged;
};

/* unacked <= ready <= fill <= unacked + window */
struct session_send {
    struct session_slot *slot;
    uint32_t unacked; /* first number that the peer does not have */
    uint32_t ready;   /* first number that was never sent */
    uint32_t fill;    /* number being filled; it has a frame if `filling` */
    bool filling;
    bool hold; /* do not send it in the next step */
    uint32_t fill_bytes;
    uint64_t packet;  /* next packet number */
    uint64_t last_ns; /* time of the last transmission */
    struct emu_hostframe *out_frame[EMU_HOSTLINK_BURST];
    struct session_out out[EMU_HOSTLINK_BURST];
    uint32_t outs;
    bool stuck; /* the port took too few frames, or had no free one */
};

/* Frames in flight (RFC 8985, RFC 6298). */
struct session_loss {
    struct emu_list flight;
    struct emu_list lost;
    struct emu_rto rto;
    uint64_t rto_from_ns; /* time of the last time-out */
    uint64_t rto_ns;      /* time of the next one; UINT64_MAX: nothing is in flight */
    uint64_t found_ns;    /* when the oldest frame counts as lost, because later ones arrived */
    /* Of the packet that was sent last among those that have arrived: */
    uint64_t packet;
    uint64_t trip_ns;
    bool late;           /* the time-out was doubled, and no round trip was measured since */
    uint32_t widened;    /* number of doublings of the reordering window */
    uint64_t widened_ns; /* time of the last doubling */
    uint64_t sign_ns;    /* when a retransmission last turned out to be needless */
    uint32_t needless;   /* the peer's last count of these: frame.h */
    uint32_t good;       /* frames retransmitted since then */
};

struct session_receive {
    struct emu_hostframe **held; /* frames received out of order */
    uint64_t *got;               /* bits at number & mask: the frame is in `held` */
    uint32_t *received_by;       /* low bits of the packet number of its first arrival */
    uint32_t next;               /* first missing number */
    uint32_t high;               /* one more than the highest received number */
    uint32_t needless;
    uint32_t ack_pending;    /* frames received since the last acknowledgment */
    uint64_t ack_pending_ns; /* arrival time of the first of them */
    bool ack_now;
    bool any;         /* any packet was received */
    uint64_t newest;  /* highest packet number received */
    uint32_t sent_ns; /* its send time */
    uint64_t received_ns;
};

struct emu_session {
    struct emu_session_config config;
    struct emu_hostport *port;
    struct emu_auth *auth;
    struct emu_session_counts counts;
    _Atomic uint64_t state; /* enum emu_session_state */
    _Atomic uint64_t trip_ns;
    uint64_t heard_ns;   /* when the peer was last heard; corrected for our own pauses */
    uint64_t stepped_ns; /* time of the last step */
    uint64_t now_ns;     /* latest time passed by a caller; monotonic */
    uint64_t keep_ns;    /* interval of keep-alives */
    uint32_t mask;       /* of all rings */
    uint32_t window;     /* agreed in the handshake */
    uint32_t body_max;   /* agreed in the handshake */
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

/* Has it used up its only incarnation (emu_session_config.once)? */
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

/* The current time, made monotonic: another caller may have read the clock later. */
static inline uint64_t session_now(struct emu_session *s, uint64_t now_ns)
{
    if (now_ns > s->now_ns)
        s->now_ns = now_ns;
    return s->now_ns;
}

/* session.c */

/** session_down - end the incarnation and drop everything in it. */
void session_down(struct emu_session *s, enum emu_session_state state);

/** session_stamp - set the header fields that all frames of this host share. */
void session_stamp(const struct emu_session *s, struct emu_frame *header, uint64_t now_ns);

/** session_echo_ns - the send time of a received frame plus the time since its arrival. Pure. */
uint32_t session_echo_ns(uint32_t sent_ns, uint64_t received_ns, uint64_t now_ns);

/**
 * session_trip - measure the round trip by the echo in a received frame. Returns it, or UINT64_MAX
 * if the frame has no echo.
 */
uint64_t session_trip(struct emu_session *s, const struct emu_frame *header, uint64_t now_ns);

/* handshake.c */

void session_handshake_init(struct emu_session *s);

/** session_handshake_restart - the next incarnation may begin at once. */
void session_handshake_restart(struct emu_session *s);

/** session_handshake - handle a handshake frame with a valid tag. */
void session_handshake(struct emu_session *s, const struct emu_frame *header, uint64_t now_ns);

/** session_handshake_send - send the handshake frames that are due. */
void session_handshake_send(struct emu_session *s, uint64_t now_ns);

/* send.c */

void session_send_begin(struct emu_session *s);
void session_send_end(struct emu_session *s);

/** session_ack_due_ns - when an acknowledgment is due; UINT64_MAX: none. Pure. */
uint64_t session_ack_due_ns(const struct emu_session *s);

/** session_send - send what is due while the session is up. */
void session_send(struct emu_session *s, uint64_t now_ns);

/**
 * session_out - queue a finished frame for the port; the queue must have a free slot. Takes over
 * one hold of the caller. @slot: NULL: no data frame.
 */
void session_out(struct emu_session *s, struct emu_hostframe *frame, struct session_slot *slot,
                 uint64_t packet);
void session_flush(struct emu_session *s, uint64_t now_ns);

/** session_take - get a free frame, or NULL. */
struct emu_hostframe *session_take(struct emu_session *s);

/** session_acked - handle the acknowledgments in a received frame. */
void session_acked(struct emu_session *s, const struct emu_frame *header, uint64_t now_ns);

/* loss.c */

void session_loss_begin(struct emu_session *s);

/** session_loss_sent - @slot was transmitted. */
void session_loss_sent(struct emu_session *s, struct session_slot *slot, uint64_t now_ns);

/** session_loss_trip - a round trip was measured. */
void session_loss_trip(struct emu_session *s, uint64_t trip_ns);

/** session_loss_has - the peer has @slot: remove it from its list. */
void session_loss_has(struct emu_session *s, struct session_slot *slot, uint64_t now_ns);

/** session_loss_arrived - the peer has packet @newest, whose round trip took @trip_ns. */
void session_loss_arrived(struct emu_session *s, uint32_t newest, uint64_t trip_ns);

/** session_loss_find - move frames that count as lost to the list of lost frames. */
void session_loss_find(struct emu_session *s, uint64_t now_ns);

/**
 * session_loss_needless - the peer received @needless frames twice because we retransmitted too
 * early.
 */
void session_loss_needless(struct emu_session *s, uint32_t needless, uint64_t now_ns);

/* receive.c */

void session_receive_begin(struct emu_session *s, uint32_t first_seq);
void session_receive_end(struct emu_session *s);

/** session_gap - is a frame missing before a received one? Pure. */
static inline bool session_gap(const struct emu_session *s)
{
    return s->receive.high != s->receive.next;
}

/** session_map_word - received bits of 64 frames, from the first missing one + 64 * @word. Pure. */
uint64_t session_map_word(const struct emu_session *s, uint32_t word);

#endif
