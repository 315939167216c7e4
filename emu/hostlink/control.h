/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control.h - a *control channel*, which connects a local socket to a socket on another host. It
 * reads bytes from the socket and sends them in CONTROL records, and it writes the bytes of
 * received records to the socket.
 *
 * If the socket does not accept received bytes at once, a host buffers up to EMU_HOSTLINK_WINDOW of
 * them. The host reports bytes that were written to the socket (CONTROL_TAKEN), and the peer never
 * sends more than EMU_HOSTLINK_WINDOW bytes that are not reported yet. Therefore an unread socket
 * blocks only its own control channel. When the session ends the host link closes the socket, so
 * that its user notices. When the session comes up again, it needs a new socket.
 *
 * Owner: the host link's device, except for `next`.
 */
#ifndef EMU_HOSTLINK_CONTROL_H
#define EMU_HOSTLINK_CONTROL_H

#include "emu/hostlink/hostlink.h"
#include "emu/hostlink/wire.h"

struct hostlink_control {
    int fd;           /* the local socket; -1: none */
    _Atomic int next; /* socket to use once `fd` is closed; -1: none */

    /* Sending. */
    uint8_t out[EMU_HOSTLINK_CONTROL_BYTES];
    uint32_t out_most;  /* maximum number of bytes in a record of this session */
    uint32_t out_bytes; /* bytes in `out`: read from the socket, not yet sent */
    uint32_t in_flight; /* bytes sent that the remote host has not reported in CONTROL_TAKEN */
    bool out_end;       /* the socket has reached its end of file */
    bool out_ended;     /* the peer was notified of out_end */
    uint64_t poll_ns;   /* when to read the socket next */

    /* Receiving. */
    uint8_t *in;              /* a ring of EMU_HOSTLINK_WINDOW bytes */
    uint32_t in_put, in_sent; /* bytes received, and bytes written to the socket; free-running */
    uint32_t in_reported;     /* bytes reported to the peer in CONTROL_TAKEN */
    bool in_end;              /* the remote socket has reached its end of file */
    bool in_ended;            /* after in_end, `fd` was shut down for writing */
    bool in_stuck;            /* the socket accepts no bytes now */
};

/** hostlink_control_none - initialize a zeroed channel, so that it has no socket. */
void hostlink_control_none(struct hostlink_control *control);

/** hostlink_control_init - allocate the receive buffer. Errors: -ENOMEM. */
int hostlink_control_init(struct hostlink_control *control);

void hostlink_control_free(struct hostlink_control *control);

/**
 * hostlink_control_cut - reset the channel after the session has ended. Returns the number of
 * received bytes that were lost.
 */
uint32_t hostlink_control_cut(struct hostlink_control *control, struct emu_hostlink_counts *counts);

/**
 * hostlink_control_take - if no socket is open, use the socket in `next`. @waiter will wake when
 * that socket becomes readable.
 */
void hostlink_control_take(struct hostlink_control *control, struct emu_waiter *waiter);

/**
 * hostlink_control_read - read from the socket, unless it was found empty a moment ago. Returns
 * whether to send a record (hostlink_control_record()). @woke: the worker has just slept, so read
 * in any case.
 */
bool hostlink_control_read(struct hostlink_control *control, uint64_t now_ns, bool woke);

/** hostlink_control_record - return the record to send. hostlink_control_sent - mark it as sent. */
struct emu_hostlink_record hostlink_control_record(const struct hostlink_control *control);
void hostlink_control_sent(struct hostlink_control *control);

/**
 * hostlink_control_rx - store received bytes; 0 bytes mean the end of the file. Returns false if
 * there are too many.
 */
bool hostlink_control_rx(struct hostlink_control *control, const uint8_t *bytes, uint32_t length);

/**
 * hostlink_control_taken - record that the peer has written @count bytes to its socket. Returns
 * false if fewer were sent.
 */
bool hostlink_control_taken(struct hostlink_control *control, uint32_t count);

/**
 * hostlink_control_write - write received bytes to the socket. Bytes that it can no longer take are
 * dropped and counted.
 */
void hostlink_control_write(struct hostlink_control *control, struct emu_hostlink_counts *counts);

/** hostlink_control_unreported - return how many written bytes to report now; 0: too few. */
uint32_t hostlink_control_unreported(const struct hostlink_control *control);

#endif
