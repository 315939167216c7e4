/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control.h - a control channel: bytes from a local socket into records, and from records into it.
 *
 * A host buffers up to EMU_HOSTLINK_WINDOW bytes that its socket does not take at once. The peer
 * sends no more than the host has reported as read (CONTROL_TAKEN), so a socket that nobody reads
 * blocks its control channel and nothing else. When the session ends the socket is closed, which
 * notifies its user. The next incarnation of the session needs a new socket.
 *
 * Owner: the host link's device, except for `next`.
 */
#ifndef EMU_HOSTLINK_CONTROL_H
#define EMU_HOSTLINK_CONTROL_H

#include "emu/hostlink/hostlink.h"
#include "emu/hostlink/wire.h"

struct hostlink_control {
    int fd;           /* -1: none */
    _Atomic int next; /* socket to use once fd is closed; -1: none */

    /* Sending. */
    uint8_t out[EMU_HOSTLINK_CONTROL_BYTES];
    uint32_t out_most;  /* most bytes in a record of this session */
    uint32_t out_bytes; /* read from the socket, not yet in a frame */
    uint32_t in_flight; /* sent, and not yet read by the remote socket's user */
    bool out_end;       /* the socket has reached its end of file */
    bool out_ended;     /* and the peer was notified */
    uint64_t poll_ns;   /* time of the next read of the socket */

    /* Receiving. */
    uint8_t *in;              /* a ring of EMU_HOSTLINK_WINDOW */
    uint32_t in_put, in_sent; /* free-running: bytes received, and written to the socket */
    uint32_t in_reported;     /* and reported to the peer in CONTROL_TAKEN */
    bool in_end;              /* the peer has sent its end of file */
    bool in_ended;            /* and the socket was shut down for writing */
    bool in_stuck;            /* the socket is full */
};

/**
 * hostlink_control_none - make a zeroed struct a channel without a socket, so that it can be freed.
 */
void hostlink_control_none(struct hostlink_control *control);

/** hostlink_control_init - allocate the receive buffer. Errors: -ENOMEM. */
int hostlink_control_init(struct hostlink_control *control);

/** hostlink_control_free - close the sockets and free the buffer. */
void hostlink_control_free(struct hostlink_control *control);

/** hostlink_control_cut - reset after the session's end. Returns the number of bytes lost. */
uint32_t hostlink_control_cut(struct hostlink_control *control, struct emu_hostlink_counts *counts);

/** hostlink_control_take - switch to the next socket if none is open; @waiter wakes for it. */
void hostlink_control_take(struct hostlink_control *control, struct emu_waiter *waiter);

/**
 * hostlink_control_read - read from the socket, unless that was tried a moment ago. Returns true if
 * a record is ready to be sent (hostlink_control_record()).
 */
bool hostlink_control_read(struct hostlink_control *control, uint64_t now_ns, bool woke);

/** hostlink_control_record - the record to be sent; hostlink_control_sent() - it was sent. */
struct emu_hostlink_record hostlink_control_record(const struct hostlink_control *control);
void hostlink_control_sent(struct hostlink_control *control);

/** hostlink_control_rx - bytes arrived. Returns false if they exceed the window. */
bool hostlink_control_rx(struct hostlink_control *control, const uint8_t *bytes, uint32_t length);

/**
 * hostlink_control_taken - the peer has read @count bytes. Returns false if that is more than were
 * sent.
 */
bool hostlink_control_taken(struct hostlink_control *control, uint32_t count);

/**
 * hostlink_control_write - write received bytes to the socket. Counts bytes that it will never
 * take.
 */
void hostlink_control_write(struct hostlink_control *control, struct emu_hostlink_counts *counts);

/** hostlink_control_unreported - number of read bytes to report to the peer now; 0: too few yet. */
uint32_t hostlink_control_unreported(const struct hostlink_control *control);

#endif
