/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - declarations for the files of a session: session.c (create, step, query),
 * handshake.c, send.c (frames in flight), loss.c (loss detection), receive.c.
 *
 * Sequence numbers of data frames are modulo 2^32, so only their differences are compared. Arrays
 * with one element per sequence number have `window` elements, and are indexed by number & mask.
 * Each transmission of a frame is a *packet*, which has a number that is never used again. An
 * *incarnation* of a session lasts from a handshake until the session goes down.
 */
#ifndef EMU_HOSTLINK_INTERNAL_H
#define EMU_HOSTLINK_INTERNAL_H

#include <string.h>

#include "emu/hostlink/session/session.h"
#include "emu/packet/rto.h"
#include "emu/util/count.h"
#include "emu/util/list.h"

#define SESSION_ANSWERS 4u /* maximum number of handshake frames answered per step */
/* a packet this far behind the newest one is dropped; more packets than can be in flight */
#define SESSION_SPAN 65536u

enum slot_state {
    SLOT_FREE,   /* there is no frame with this number */
    SLOT_READY,  /* the frame is being filled, or is complete and was never sent */
    SLOT_OUT,    /* waits in `out` until the port takes it; may have been sent before */
    SLOT_FLIGHT, /* was sent, and is not known to be lost or received */
    SLOT_LOST,   /* counts as lost, so it must be sent again */
    SLOT_HAS     /* the peer has received it, but not all earlier frames */
};

/* A data frame that was not yet acknowledged cumulatively. */
struct session_slot {
    /* FLIGHT: on session_loss.flight, in order of transmission; LOST: on session_loss.lost */
    struct emu_list link;
    struct emu_hostframe *frame;
    uint64_t packet; /* number of its last packet; OUT: of the packet that waits for the port */
    uint64_t sent_ns;
    uint16_t body_bytes;
    uint8_t state; /* enum slot_state */
    bool again;    /* was sent at least once */
    /* was sent several times, so its acknowledgment gives no round trip (Karn's algorithm) */
    bool twice;
};

/* A complete frame that the port has not taken yet. This queue holds a reference to the frame. */
struct session_out {
    struct session_slot *slot; /* the frame's slot; NULL: it is no data frame */
    uint64_t packet;
};

/* A handshake frame that is sent as an answer to a received one. */
struct session_answer {
    uint8_t kind;
    uint64_t mine;
    uint64_t yours;
    uint8_t mac[EMU_HOSTLINK_MAC_BYTES];
    uint32_t sent_ns; /* sent_ns of the received frame */
    uint64_t received_ns;
};

/* Why a host was rejected. */
enum session_refusal { SESSION_NOT_REFUSED, SESSION_DIGEST, SESSION_VERSION, SESSION_CHECKS };

/* session_handshake.impostor: bit offsets of the reason and the version, above the MAC address. */
enum { SESSION_IMPOSTOR_WHY = 48, SESSION_IMPOSTOR_VERSION = 56 };

struct session_handshake {
    uint64_t next; /* our session number for the next incarnation */
    uint64_t mine; /* our number and the peer's in this incarnation */
    uint64_t yours;
    bool heard;                          /* a frame of this incarnation has arrived from the peer */
    uint8_t mac[EMU_HOSTLINK_MAC_BYTES]; /* MAC address of the peer's port */
    uint64_t handshake_ns; /* when to send the next HELLO or CONFIRM without being asked */
    uint64_t wait_ns;      /* interval between that frame and the next one */
    struct session_answer answer[SESSION_ANSWERS];
    uint32_t answers;
    _Atomic uint64_t refusal; /* enum session_refusal */
    _Atomic uint64_t version; /* protocol version in the peer's last handshake frame */
    /*
     * MAC address, enum session_refusal and version of the last host that was rejected while the
     * session was up; 0: none.
     */
    _Atomic uint64_t impostor;
    /* a host was rejected in this incarnation and has learned `next`, which must be replaced */
    bool impostor_seen;
    /* handshake frames with a key although we have none, or without a key although we have one */
    _Atomic uint64_t key_mismatches;
    /* Values of key_mismatches and counts.forged when a session last ended or was last rejected. */
    _Atomic uint64_t past_key_mismatches, past_forged;
};

/* Data frames to send: unacked <= ready <= fill <= unacked + window, as sequence numbers. */
struct session_send {
    struct session_slot *slot;
    uint32_t unacked; /* first frame that the peer does not have */
    uint32_t ready;   /* first frame that was never sent */
    uint32_t fill;    /* the frame being filled, if `filling` */
    bool filling;
    bool hold; /* do not send the frame being filled in the next step */
    uint32_t fill_bytes;
    uint64_t packet;  /* number of the next packet */
    uint64_t last_ns; /* time when a frame was last sent */
    struct emu_hostframe *out_frame[EMU_HOSTLINK_BURST];
    struct session_out out[EMU_HOSTLINK_BURST];
    uint32_t outs;
    bool stuck; /* the port took only some frames, or had no free frame */
};

/* Detection of lost frames (RFC 8985, RFC 6298). */
struct session_loss {
    struct emu_list flight;
    struct emu_list lost;
    struct emu_rto rto;
    uint64_t rto_from_ns; /* when the retransmission timer last expired */
    uint64_t rto_ns;      /* when it expires next; UINT64_MAX: nothing is in flight */
    /* when the oldest frame counts as lost, because later ones have arrived; UINT64_MAX: never */
    uint64_t found_ns;
    /* newest packet that is known to have arrived, and its round trip */
    uint64_t packet;
    uint64_t rtt_ns;
    bool late;            /* the time-out was doubled, and no round trip was measured since */
    uint32_t widened;     /* how often the reordering window was doubled */
    uint64_t widened_ns;  /* time when it was last doubled */
    uint64_t needless_ns; /* when the peer last reported that a retransmission was needless */
    uint32_t needless;    /* emu_frame.needless of the peer's last frame */
    uint32_t good;        /* frames retransmitted since needless_ns */
};

struct session_receive {
    struct emu_hostframe **held; /* frames that arrived before an earlier one */
    uint64_t *got;               /* bit at number & mask: `held` has this frame */
    uint32_t next;               /* first missing frame */
    uint32_t high;               /* 1 more than the highest sequence number received */
    uint32_t needless;
    uint32_t ack_pending;    /* frames received since the last acknowledgment */
    uint64_t ack_pending_ns; /* arrival time of the first of these frames */
    bool ack_now;
    bool any;        /* a packet was received in this incarnation */
    uint64_t newest; /* highest packet number received */
    /* bit at number % SESSION_SPAN: this packet of the last SESSION_SPAN ones was received */
    uint64_t packets[SESSION_SPAN / 64];
    uint32_t sent_ns;     /* send time in the newest packet */
    uint64_t received_ns; /* arrival time of the newest packet */
};

struct emu_session {
    struct emu_session_config config;
    struct emu_hostport *port;
    struct emu_auth *auth;
    struct emu_session_counts counts;
    _Atomic uint64_t state; /* enum emu_session_state */
    _Atomic uint64_t rtt_ns;
    /*
     * when a frame last arrived from the peer, plus the parts of this host's pauses since then that
     * session_excuse_pause() does not count as silence
     */
    uint64_t heard_ns;
    uint64_t stepped_ns; /* time of the last step */
    uint64_t now_ns;     /* latest time that a caller has passed */
    uint64_t keep_ns;    /* interval of keep-alives */
    uint32_t mask;       /* number of elements of the arrays by sequence number, minus 1 */
    uint32_t window;     /* maximum number of frames in flight, agreed in the handshake */
    uint32_t body_max;   /* largest body of a frame, agreed in the handshake */
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

/* Returns whether the session has used up its only incarnation (emu_session_config.once). */
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

/* Return the current time, which never decreases: the latest @now_ns that any caller has passed. */
static inline uint64_t session_now(struct emu_session *s, uint64_t now_ns)
{
    if (now_ns > s->now_ns)
        s->now_ns = now_ns;
    return s->now_ns;
}

/* session.c */

/** session_down - end the incarnation and drop everything in it. */
void session_down(struct emu_session *s, enum emu_session_state state);

/** session_stamp - fill the header fields that are equal in all frames of this host. */
void session_stamp(const struct emu_session *s, struct emu_frame *header, uint64_t now_ns);

/** session_echo_ns - return a frame's send time plus the time since its arrival; 0: none. Pure. */
uint32_t session_echo_ns(uint32_t sent_ns, uint64_t received_ns, uint64_t now_ns);

/**
 * session_measure_rtt - measure and return a round trip from the echo in a frame; UINT64_MAX: no
 * echo.
 */
uint64_t session_measure_rtt(struct emu_session *s, const struct emu_frame *header,
                             uint64_t now_ns);

/* handshake.c */

void session_handshake_init(struct emu_session *s);

void session_handshake_restart(struct emu_session *s);

/** session_handshake - process a handshake frame, whose tag was verified. */
void session_handshake(struct emu_session *s, const struct emu_frame *header, uint64_t now_ns);

void session_handshake_send(struct emu_session *s, uint64_t now_ns);

/* send.c */

void session_send_begin(struct emu_session *s);
void session_send_end(struct emu_session *s);

/** session_ack_due_ns - return when to send an acknowledgment; UINT64_MAX: none pending. Pure. */
uint64_t session_ack_due_ns(const struct emu_session *s);

/** session_send - send the data frames and acknowledgments that are due. The session is up. */
void session_send(struct emu_session *s, uint64_t now_ns);

/**
 * session_out - queue a complete frame for the port. The queue must have a free slot, and takes
 * over the caller's reference to the frame. @slot: the frame's slot; NULL: it is no data frame.
 */
void session_out(struct emu_session *s, struct emu_hostframe *frame, struct session_slot *slot,
                 uint64_t packet);
void session_flush(struct emu_session *s, uint64_t now_ns);

/** session_take - get a free frame, or NULL if there is none. */
struct emu_hostframe *session_take(struct emu_session *s);

/** session_acked - process the acknowledgments in a received frame. */
void session_acked(struct emu_session *s, const struct emu_frame *header, uint64_t now_ns);

/* loss.c */

void session_loss_begin(struct emu_session *s);

void session_loss_sent(struct emu_session *s, struct session_slot *slot, uint64_t now_ns);

void session_loss_rtt(struct emu_session *s, uint64_t rtt_ns);

/** session_loss_has - remove a frame from its list, because the peer has received it. */
void session_loss_has(struct emu_session *s, struct session_slot *slot, uint64_t now_ns);

/** session_loss_arrived - note that packet @newest has arrived, with round trip @rtt_ns. */
void session_loss_arrived(struct emu_session *s, uint32_t newest, uint64_t rtt_ns);

/** session_loss_find - move frames that count as lost to session_loss.lost. */
void session_loss_find(struct emu_session *s, uint64_t now_ns);

/**
 * session_loss_needless - process the peer's count of needless retransmissions. If it has grown, we
 * retransmit too early.
 */
void session_loss_needless(struct emu_session *s, uint32_t needless, uint64_t now_ns);

/* receive.c */

void session_receive_begin(struct emu_session *s, uint32_t first_seq);
void session_receive_end(struct emu_session *s);

/** session_gap - return whether a frame is missing before a received one. Pure. */
static inline bool session_gap(const struct emu_session *s)
{
    return s->receive.high != s->receive.next;
}

/**
 * session_map_word - return 64 bits. Bit i says whether frame receive.next + 64 * @word + i was
 * received. Pure.
 */
uint64_t session_map_word(const struct emu_session *s, uint32_t word);

#endif
