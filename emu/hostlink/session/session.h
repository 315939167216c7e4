/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * session.h - what two hosts say to each other arrives: once, in order, whole, and from nobody
 * else.
 *
 * A session is one end of the conversation of two hosts over one Ethernet port each. It is stepped,
 * and told the time; it blocks nowhere. Whoever owns it puts *records* in (a few bytes with a kind,
 * wire.h) and gets those of the other host out, in the order in which they were put in. Records are
 * packed into frames; frames are numbered, acknowledged cumulatively and with a bit map of those
 * that came out of order, kept until they are acknowledged, and sent again when a gap or a time-out
 * shows that they were lost (RFC 6298, RFC 9002). Both hosts begin with a handshake of fresh random
 * numbers, so that frames of an earlier session, or replayed ones, are told from this one's. With a
 * key every frame carries a tag (AES-256-GCM's, over the whole frame); without, a CRC-32C.
 *
 * A host that has said nothing for `silent_ns` is gone: the session is down, everything in it is
 * dropped, and a new handshake begins a new one, with a new `life`. Somebody who says that he is
 * the other host, and has to be refused, ends no life: emu_session_impostor() says who it was.
 */
#ifndef EMU_HOSTLINK_SESSION_H
#define EMU_HOSTLINK_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/hostlink/session/auth.h"
#include "emu/hostlink/session/frame.h"
#include "emu/hostlink/port/port.h"

#define EMU_HOSTLINK_KEY_BYTES    EMU_AUTH_KEY_BYTES
#define EMU_HOSTLINK_DIGEST_BYTES EMU_FRAME_DIGEST_BYTES

struct emu_session;

struct emu_session_config {
    struct emu_hostport *port; /* borrowed */
    uint64_t fabric;           /* number of the fabric: frames of others are dropped */
    uint16_t host;             /* this host's number in the cluster file, and the other's */
    uint16_t peer;
    /* of the cluster file, as both must have it; it goes with the handshake */
    uint8_t digest[EMU_HOSTLINK_DIGEST_BYTES];
    const uint8_t *key; /* EMU_HOSTLINK_KEY_BYTES; NULL: none */
    uint64_t silent_ns; /* without a frame from the other host: it is gone; UINT64_MAX: never */
    /*
     * Frames under way at most, and kept out of order here at most; a power of two, 64 to 4096. The
     * less of both hosts' holds. The port needs 2 * window + 64 frames for each session, beside
     * those in its queues: with fewer nothing is lost, but a frame that others wait for may find
     * none free, and then they wait for ever.
     */
    uint32_t window;
    /* where the other host's port is; all zeros: found by its handshake, which is broadcast */
    uint8_t peer_mac[EMU_HOSTLINK_MAC_BYTES];
    /*
     * One life and no more: once it has ended nothing is said to the other host, so that who is
     * ending does not take the place of who comes after it.
     */
    bool once;
    uint64_t (*random)(void *ctx); /* of the handshake; NULL: the system's, not to be guessed */
    void *random_ctx;
    /* For tests; 0 otherwise. */
    uint32_t first_seq;    /* number of a life's first frame of records, modulo 2^32 */
    uint64_t first_packet; /* of its first packet: where they end, so does the life */
    uint32_t checks;       /* with a key: bits by enum emu_auth_check (auth.h); 0: all there are */
};

enum emu_session_state {
    EMU_SESSION_CONNECTING, /* no handshake yet, or not again yet */
    EMU_SESSION_UP,         /* records pass */
    EMU_SESSION_REFUSED /* the other host has another cluster file, or another version: see why() */
};

/* Counted; read by any thread. */
struct emu_session_counts {
    _Atomic uint64_t frames_sent;
    _Atomic uint64_t frames_received; /* good ones of this session */
    _Atomic uint64_t sent_again;
    _Atomic uint64_t timeouts;
    _Atomic uint64_t doubles;      /* came twice: dropped */
    _Atomic uint64_t out_of_order; /* came before others: kept */
    _Atomic uint64_t beyond;       /* beyond the window: dropped */
    _Atomic uint64_t malformed;    /* too short, another version, lengths that do not add up */
    _Atomic uint64_t foreign;      /* another fabric, host or session: dropped */
    _Atomic uint64_t forged;       /* the tag or the check sum is wrong: dropped */
    _Atomic uint64_t incarnations; /* handshakes that succeeded */
};

/** emu_session_key_missing - NULL, or why a key cannot be used: a line for the user. */
const char *emu_session_key_missing(void);

/**
 * emu_session_create - an end that has not met the other yet. Errors: -ENOMEM, -EINVAL (config),
 * -ENOTSUP (a key cannot be used: emu_session_key_missing()).
 */
int emu_session_create(struct emu_session **ret, const struct emu_session_config *config);
void emu_session_destroy(struct emu_session *session);

/** emu_session_state, emu_session_incarnation - how it stands; which handshake this is, from 1. */
enum emu_session_state emu_session_state(const struct emu_session *session);
uint64_t emu_session_incarnation(const struct emu_session *session);

/**
 * emu_session_end - its life ends: everything in it is dropped, and both hosts meet anew. Not from
 * within emu_session_receive().
 */
void emu_session_end(struct emu_session *session);

/** emu_session_is_idle - has the other host all that was put in, and been told what has come? */
bool emu_session_is_idle(const struct emu_session *session);

/**
 * emu_session_is_refused - does somebody say that he is the other host, whom we cannot talk with:
 * EMU_SESSION_REFUSED, or there is no life, and since the last one frames came with another key?
 */
bool emu_session_is_refused(const struct emu_session *session);

/** emu_session_why - EMU_SESSION_REFUSED, or not met: one line for the user. */
void emu_session_why(const struct emu_session *session, char *text, size_t bytes);

/**
 * emu_session_impostor - was somebody refused who said that he was the other host, while that one
 * was there? The life goes on. Then @text says who, and why: one line for the user. Any thread.
 */
bool emu_session_impostor(const struct emu_session *session, char *text, size_t bytes);

/**
 * emu_session_room - where a record of @bytes can be written now, or NULL: the
 * window is full, no frame is free, or the session is not up. Written by the caller at once, and
 * then emu_session_put(); between the two nothing else is called.
 * @bytes: at most emu_session_record_max(), which a handshake may change: the less of both ports'
 * frames; it is never below EMU_FRAME_LEAST_BYTES - emu_frame_bytes(0).
 */
uint8_t *emu_session_room(struct emu_session *session, uint32_t bytes);
void emu_session_put(struct emu_session *session, uint32_t bytes);

/**
 * emu_session_left - bytes that can be written there: those asked for and maybe more, of other
 * records in a row. After emu_session_room(), and before emu_session_put(). Pure.
 */
uint32_t emu_session_left(const struct emu_session *session);
uint32_t emu_session_record_max(const struct emu_session *session);

/**
 * emu_session_hold - the frame that is being filled waits in the next step, and no longer, for more
 * records, which its owner knows will come.
 */
void emu_session_hold(struct emu_session *session);

/**
 * emu_session_receive - a frame came, whose Ethernet header and host numbers say that it is for
 * this session (emu_session_peek()). The session drops it, now or later. Records that are next in
 * order are given to @records, one frame's records in one piece: @bytes of them, which are good
 * until it returns. The frame's records are cut by whoever wrote them: wire.h. They are of the life
 * that emu_session_incarnation() names then: a new one begins in this function, and ends here or in
 * a step. @records may put records in; it must not step or receive.
 * @now_ns: as in emu_session_step(); any clock that does not go back.
 */
void emu_session_receive(struct emu_session *session, struct emu_hostframe *frame, uint64_t now_ns,
                         void (*records)(void *ctx, const uint8_t *records, uint32_t bytes),
                         void *ctx);

/**
 * emu_session_peek - which host sent @frame, to which host of @fabric; false: it is none of ours,
 * and @malformed says whether it has our EtherType all the same.
 */
bool emu_session_peek(const struct emu_hostframe *frame, uint64_t fabric, uint16_t *from,
                      uint16_t *to, bool *malformed);

/**
 * emu_session_step - send what is to be sent: the frame being filled, what is to be sent again,
 * acknowledgments (no more than a few frames late), handshakes, and a sign
 * of life while nothing else is said. Returns frames sent. The port's send queue being full is no
 * error: the rest is sent by the next step.
 */
uint32_t emu_session_step(struct emu_session *session, uint64_t now_ns);

/** emu_session_next_ns - when it wants to be stepped without anything else happening. */
uint64_t emu_session_next_ns(const struct emu_session *session);

/** emu_session_trip_ns - round trip between the hosts, smoothed; 0: not known. Any thread. */
uint64_t emu_session_trip_ns(const struct emu_session *session);

/** emu_session_counts - they live as long as the session. */
const struct emu_session_counts *emu_session_counts(const struct emu_session *session);

#endif
