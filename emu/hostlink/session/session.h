/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * session.h - reliable, authenticated delivery of records between two hosts. Each record arrives
 * once, in order and unchanged.
 *
 * A *session* is one endpoint of a connection between two hosts. Each host uses one Ethernet port
 * for it. The endpoint on the other host is the *peer*. The session never blocks. Its owner steps
 * it, and passes the current time. The owner puts *records* (a few bytes with a kind, wire.h) into
 * the session, and gets the peer's records in the order in which the peer's owner has put them in.
 *
 * Records are packed into frames, which have sequence numbers. The receiver acknowledges frames
 * cumulatively, and reports frames that arrived out of order in a bit map. The sender keeps a frame
 * until it is acknowledged, and sends it again when a gap or a time-out shows that it was lost (RFC
 * 6298, RFC 9002). Each transmission of a frame is a *packet*, which has a new packet number. Each
 * frame has a tag (auth.h). If the hosts share a key, the tag authenticates the frame.
 *
 * A session begins with a handshake of fresh random numbers. They distinguish the session's frames
 * from replayed frames and from frames of an earlier session. If nothing arrives from the peer for
 * `silent_ns`, the peer has failed. Then the session goes down and drops everything in it, and a
 * new handshake begins the next *incarnation* of the session. A host that claims to be the peer but
 * must be rejected does not end the session; emu_session_impostor() reports such a host.
 */
#ifndef EMU_HOSTLINK_SESSION_H
#define EMU_HOSTLINK_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/hostlink/session/auth.h"
#include "emu/hostlink/session/frame.h"
#include "emu/hostlink/port/port.h"

/* Maximum number of frames of the port that a session uses at a time. */
#define EMU_SESSION_FRAMES(window) (2 * (window) + 64)

struct emu_session;

struct emu_session_config {
    struct emu_hostport *port; /* borrowed */
    uint64_t fabric;           /* number of the fabric; frames of other fabrics are dropped */
    uint16_t host;             /* number of this host in the cluster file */
    uint16_t peer;             /* number of the peer */
    /* digest of the cluster file; the handshake compares the digests of both hosts */
    uint8_t digest[EMU_FRAME_DIGEST_BYTES];
    const uint8_t *key; /* EMU_AUTH_KEY_BYTES bytes; NULL: no key */
    /* after this time without a frame the peer counts as failed; UINT64_MAX: never */
    uint64_t silent_ns;
    /*
     * Maximum number of frames in flight, and of frames kept here because an earlier one is
     * missing: a power of two, 64 to 4096. The smaller value of both hosts applies. For each
     * session the port needs EMU_SESSION_FRAMES(window) frames, besides those in its queues. If it
     * has fewer, a peer whose frames have gaps can use so many that no frame is free for other
     * hosts.
     */
    uint32_t window;
    /* MAC address of the peer's port; zeros: taken from its handshake, which is broadcast */
    uint8_t peer_mac[EMU_HOSTLINK_MAC_BYTES];
    /*
     * The session has only one incarnation, and sends nothing after its end. Therefore a host that
     * is about to exit cannot connect in place of a newly started one.
     */
    bool once;
    /* random numbers for the handshake; NULL: from the system's secure generator */
    uint64_t (*random)(void *ctx);
    void *random_ctx;
    /* The next fields are 0, except in tests. */
    uint32_t first_seq; /* sequence number of the first data frame */
    /* number of the first packet; when the numbers run out, the incarnation ends */
    uint64_t first_packet;
    uint32_t checks; /* bits by enum emu_auth_check: checks allowed with a key; 0: all */
};

enum emu_session_state {
    EMU_SESSION_CONNECTING, /* handshake in progress */
    EMU_SESSION_UP,         /* records are sent and received */
    EMU_SESSION_REFUSED     /* the peer has another cluster file or version: emu_session_why() */
};

/* Counters. Any thread may read them. */
struct emu_session_counts {
    _Atomic uint64_t frames_sent;
    _Atomic uint64_t frames_received; /* valid frames of this session */
    _Atomic uint64_t sent_again;
    _Atomic uint64_t timeouts;
    _Atomic uint64_t doubles;      /* duplicates, which were dropped */
    _Atomic uint64_t out_of_order; /* frames that arrived before earlier ones, and were kept */
    _Atomic uint64_t beyond;       /* frames beyond the window, which were dropped */
    /* frames that are too short, of another version, or with wrong lengths */
    _Atomic uint64_t malformed;
    /* frames of another fabric, host or session, which were dropped */
    _Atomic uint64_t foreign;
    _Atomic uint64_t forged;       /* frames with a wrong tag or checksum, which were dropped */
    _Atomic uint64_t incarnations; /* handshakes that succeeded */
};

/**
 * emu_session_create - make a session that is not connected. Errors: -ENOMEM; -EINVAL: @config is
 * invalid; -ENOTSUP: keys are not supported (emu_auth_missing()).
 */
int emu_session_create(struct emu_session **ret, const struct emu_session_config *config);
void emu_session_destroy(struct emu_session *session);

/**
 * emu_session_state - return the state.
 * emu_session_incarnation - return the number of the incarnation, which is how many handshakes have
 * succeeded.
 */
enum emu_session_state emu_session_state(const struct emu_session *session);
uint64_t emu_session_incarnation(const struct emu_session *session);

/**
 * emu_session_end - end the incarnation. Everything in it is dropped, and a new handshake begins.
 * Must not be called from within emu_session_receive().
 */
void emu_session_end(struct emu_session *session);

/** emu_session_is_idle - return whether all records of both hosts were acknowledged. */
bool emu_session_is_idle(const struct emu_session *session);

/**
 * emu_session_is_refused - return whether the other host is incompatible: the state is
 * EMU_SESSION_REFUSED, or frames with another key have arrived since the session went down.
 */
bool emu_session_is_refused(const struct emu_session *session);

/** emu_session_why - write one line for the user about why the session is not up. */
void emu_session_why(const struct emu_session *session, char *text, size_t bytes);

/**
 * emu_session_impostor - return whether the session is up, and a host that claimed to be the peer
 * was rejected since it came up. @text: one line for the user about that host and the reason.
 * Thread: any.
 */
bool emu_session_impostor(const struct emu_session *session, char *text, size_t bytes);

/**
 * emu_session_room - return the memory to which a record of @bytes can be written now. Returns NULL
 * if the window is full, no frame is free, or the session is not up. The caller must write the
 * record at once and then call emu_session_put(), with no other call in between except
 * emu_session_left().
 * @bytes: at most emu_session_record_max(). This is the limit of the port with the smaller frames,
 * at least EMU_FRAME_LEAST_BYTES - emu_frame_bytes(0). A handshake may change it.
 */
uint8_t *emu_session_room(struct emu_session *session, uint32_t bytes);
void emu_session_put(struct emu_session *session, uint32_t bytes);

/**
 * emu_session_left - after emu_session_room(), return how many bytes can be written there: at least
 * the requested number, and perhaps more, for further records. Pure.
 */
uint32_t emu_session_left(const struct emu_session *session);
uint32_t emu_session_record_max(const struct emu_session *session);

/**
 * emu_session_hold - do not send the unfinished frame in the next step, because the owner will soon
 * have more records for it.
 */
void emu_session_hold(struct emu_session *session);

/**
 * emu_session_receive - process a received frame, which is for this session according to
 * emu_session_peek(). The session drops the frame, now or later. It passes the records that are
 * next in order to @records. One call gets all records of a frame, @bytes bytes, which are valid
 * until @records returns. They belong to the incarnation that emu_session_incarnation() returns
 * during that call. A new incarnation begins only in this function, and ends in this function or in
 * a step. @records may put records in, but must not step the session or receive. @now_ns: from any
 * monotonic clock, as in emu_session_step().
 */
void emu_session_receive(struct emu_session *session, struct emu_hostframe *frame, uint64_t now_ns,
                         void (*records)(void *ctx, const uint8_t *records, uint32_t bytes),
                         void *ctx);

/**
 * emu_session_peek - read the numbers of @frame's sender and receiver. Returns false if the frame
 * does not belong to fabric @fabric. Then *@malformed says whether it has our EtherType but not our
 * format.
 */
bool emu_session_peek(const struct emu_hostframe *frame, uint64_t fabric, uint16_t *from,
                      uint16_t *to, bool *malformed);

/**
 * emu_session_step - send everything that is due: the unfinished frame, retransmissions,
 * acknowledgments, handshakes, and keep-alives. Returns the number of frames sent. If the port's
 * send queue is full, the next step sends the rest.
 */
uint32_t emu_session_step(struct emu_session *session, uint64_t now_ns);

/** emu_session_next_ns - return when to step next, if nothing arrives or is put in earlier. */
uint64_t emu_session_next_ns(const struct emu_session *session);

/** emu_session_rtt_ns - return the smoothed round-trip time; 0: unknown. Thread: any. */
uint64_t emu_session_rtt_ns(const struct emu_session *session);

/** emu_session_counts - return the counters, which exist as long as the session. */
const struct emu_session_counts *emu_session_counts(const struct emu_session *session);

#endif
