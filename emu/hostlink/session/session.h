/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * session.h - reliable, authenticated delivery of records between two hosts: each once, in order
 * and unchanged.
 *
 * A session is one endpoint of a connection between two hosts over one Ethernet port each. Its
 * owner steps it and passes the time; it never blocks. The owner puts *records* in (a few bytes
 * with a kind, wire.h) and gets the peer's records out in the order in which they were put in.
 * Records are packed into frames. Frames are numbered, acknowledged cumulatively and with a bit map
 * of those received out of order, kept until acknowledged, and sent again when a gap or a time-out
 * shows that they were lost (RFC 6298, RFC 9002). Both hosts begin with a handshake of fresh random
 * numbers, so frames of an earlier session and replayed frames are recognized. With a key every
 * frame carries a tag (AES-256-GCM over the whole frame), without one a CRC-32C.
 *
 * A peer that sends nothing for `silent_ns` has failed: the session goes down, drops everything in
 * it, and a new handshake starts the next incarnation, numbered by `life`. A host that claims to be
 * the peer but must be rejected does not end the session: emu_session_impostor() reports it.
 */
#ifndef EMU_HOSTLINK_SESSION_H
#define EMU_HOSTLINK_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/hostlink/session/auth.h"
#include "emu/hostlink/session/frame.h"
#include "emu/hostlink/port/port.h"

/* Most frames of the port that a session holds. */
#define EMU_SESSION_FRAMES(window) (2 * (window) + 64)

struct emu_session;

struct emu_session_config {
    struct emu_hostport *port; /* borrowed */
    uint64_t fabric;           /* fabric's number: frames of other fabrics are dropped */
    uint16_t host;             /* number of this host in the cluster file, and of the peer */
    uint16_t peer;
    /* digest of the cluster file; the handshake compares it */
    uint8_t digest[EMU_FRAME_DIGEST_BYTES];
    const uint8_t *key; /* EMU_AUTH_KEY_BYTES; NULL: none */
    uint64_t silent_ns; /* the peer has failed after this long without a frame; UINT64_MAX: never */
    /*
     * Most frames in flight, and kept out of order here; a power of two, 64 to 4096. The smaller of
     * both hosts' values applies. The port needs EMU_SESSION_FRAMES(window) frames per session
     * besides those in its queues. With fewer, a peer whose frames have gaps can hold so many that
     * the frames of other hosts find none free.
     */
    uint32_t window;
    /* MAC address of the peer's port; zeros: learned from its handshake, which is broadcast */
    uint8_t peer_mac[EMU_HOSTLINK_MAC_BYTES];
    /*
     * Only one incarnation: after its end nothing more is sent, so that a host that is exiting does
     * not take the place of its successor.
     */
    bool once;
    uint64_t (*random)(void *ctx); /* numbers of the handshake; NULL: the system's secure ones */
    void *random_ctx;
    /* For tests; 0 otherwise. */
    uint32_t first_seq;    /* sequence number of the first data frame */
    uint64_t first_packet; /* number of the first packet; the session ends when they run out */
    uint32_t checks;       /* with a key: allowed enum emu_auth_check, by bit; 0: all */
};

enum emu_session_state {
    EMU_SESSION_CONNECTING, /* handshake in progress */
    EMU_SESSION_UP,         /* records are sent and received */
    EMU_SESSION_REFUSED     /* the peer has another cluster file or version: see why() */
};

/* Counters; read by any thread. */
struct emu_session_counts {
    _Atomic uint64_t frames_sent;
    _Atomic uint64_t frames_received; /* valid ones of this session */
    _Atomic uint64_t sent_again;
    _Atomic uint64_t timeouts;
    _Atomic uint64_t doubles;      /* duplicates: dropped */
    _Atomic uint64_t out_of_order; /* received before earlier ones: kept */
    _Atomic uint64_t beyond;       /* beyond the window: dropped */
    _Atomic uint64_t malformed;    /* too short, another version, or inconsistent lengths */
    _Atomic uint64_t foreign;      /* of another fabric, host or session: dropped */
    _Atomic uint64_t forged;       /* wrong tag or checksum: dropped */
    _Atomic uint64_t incarnations; /* handshakes that succeeded */
};

/**
 * emu_session_create - make a session, not connected yet. Errors: -ENOMEM, -EINVAL (config),
 * -ENOTSUP (keys are not supported: emu_auth_missing()).
 */
int emu_session_create(struct emu_session **ret, const struct emu_session_config *config);
void emu_session_destroy(struct emu_session *session);

/**
 * emu_session_state, emu_session_incarnation - its state; the number of handshakes completed so
 * far.
 */
enum emu_session_state emu_session_state(const struct emu_session *session);
uint64_t emu_session_incarnation(const struct emu_session *session);

/**
 * emu_session_end - end the incarnation: everything in it is dropped, and a new handshake begins.
 * Must not be called from within emu_session_receive().
 */
void emu_session_end(struct emu_session *session);

/**
 * emu_session_is_idle - does the peer have all our records, and have we acknowledged all of its
 * own?
 */
bool emu_session_is_idle(const struct emu_session *session);

/**
 * emu_session_is_refused - true in state EMU_SESSION_REFUSED, and when the session is down and
 * frames with another key arrived since it went down.
 */
bool emu_session_is_refused(const struct emu_session *session);

/** emu_session_why - why the session is not up: one line for the user. */
void emu_session_why(const struct emu_session *session, char *text, size_t bytes);

/**
 * emu_session_impostor - was a host rejected that claimed to be the peer while the session was up?
 * The session stays up. Then @text says which host and why: one line for the user. Any thread.
 */
bool emu_session_impostor(const struct emu_session *session, char *text, size_t bytes);

/**
 * emu_session_room - where a record of @bytes can be written now, or NULL: the window is full, no
 * frame is free, or the session is not up. The caller writes it at once and calls
 * emu_session_put(), with no other call in between.
 * @bytes: at most emu_session_record_max(), the smaller of both ports' limits, which a handshake
 * may change; never below EMU_FRAME_LEAST_BYTES - emu_frame_bytes(0).
 */
uint8_t *emu_session_room(struct emu_session *session, uint32_t bytes);
void emu_session_put(struct emu_session *session, uint32_t bytes);

/**
 * emu_session_left - bytes that can be written there: at least those requested, maybe more for
 * further records. Between emu_session_room() and emu_session_put(). Pure.
 */
uint32_t emu_session_left(const struct emu_session *session);
uint32_t emu_session_record_max(const struct emu_session *session);

/**
 * emu_session_hold - keep the frame being filled for more records in the next step only. For an
 * owner that will have more.
 */
void emu_session_hold(struct emu_session *session);

/**
 * emu_session_receive - handle a received frame whose Ethernet header and host numbers match this
 * session (emu_session_peek()). The session drops it, now or later. Records that are next in order
 * are passed to @records, all of one frame together: @bytes bytes, valid until it returns. They
 * belong to the incarnation that emu_session_incarnation() returns then: a new one begins in this
 * function and ends here or in a step. @records may put records in; it must not step or receive.
 * @now_ns: as in emu_session_step(); any monotonic clock.
 */
void emu_session_receive(struct emu_session *session, struct emu_hostframe *frame, uint64_t now_ns,
                         void (*records)(void *ctx, const uint8_t *records, uint32_t bytes),
                         void *ctx);

/**
 * emu_session_peek - which host sent @frame, and to which host of @fabric. Returns false if it is
 * not of this fabric; @malformed: it has our EtherType but not our format.
 */
bool emu_session_peek(const struct emu_hostframe *frame, uint64_t fabric, uint16_t *from,
                      uint16_t *to, bool *malformed);

/**
 * emu_session_step - send what is due: the frame being filled, retransmissions, acknowledgments (at
 * most a few frames late), handshakes, and keep-alives. Returns the number of frames sent. A full
 * send queue of the port is no error: the next step sends the rest.
 */
uint32_t emu_session_step(struct emu_session *session, uint64_t now_ns);

/** emu_session_next_ns - when it must be stepped next if nothing else happens. */
uint64_t emu_session_next_ns(const struct emu_session *session);

/** emu_session_trip_ns - smoothed round-trip time; 0: unknown. Any thread. */
uint64_t emu_session_trip_ns(const struct emu_session *session);

/** emu_session_counts - valid as long as the session. */
const struct emu_session_counts *emu_session_counts(const struct emu_session *session);

#endif
