/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control.h - the bytes of a control channel: from a socket into records, and from records into it.
 *
 * The far host has EMU_HOSTLINK_WINDOW bytes of room for what its socket does not take at once; no
 * more is sent than it has said to have read (CONTROL_TAKEN), so a socket that nobody reads stops
 * the control channel and nothing else. When the session ends the socket is closed, which tells
 * whoever is at its other end; a new one is for the session's next life.
 *
 * Owner: the host link's device, but for `next`.
 */
#ifndef EMU_HOSTLINK_CONTROL_H
#define EMU_HOSTLINK_CONTROL_H

#include "emu/hostlink/hostlink.h"
#include "emu/hostlink/wire.h"

struct hostlink_control {
    int fd;           /* -1: none */
    _Atomic int next; /* to be taken when there is none; -1: none */

    /* What goes. */
    uint8_t out[EMU_HOSTLINK_CONTROL_BYTES];
    uint32_t out_most;  /* bytes that this life's records may have */
    uint32_t out_bytes; /* read, not yet in a frame */
    uint32_t in_flight; /* in frames, and not read there */
    bool out_end;       /* whoever is at the other end says no more; */
    bool out_ended;     /* and the far host has been told */
    uint64_t poll_ns;   /* the socket is looked at again then */

    /* What came. */
    uint8_t *in;              /* a ring of EMU_HOSTLINK_WINDOW */
    uint32_t in_put, in_sent; /* free-running: bytes that came, and that the socket took */
    uint32_t in_reported;     /* and of those that the far host has been told of */
    bool in_end;              /* no more will come; */
    bool in_ended;            /* and the socket has been told */
    bool in_stuck;            /* the socket takes no more now */
};

/** hostlink_control_none - zeros are a channel without a socket; now it can be freed. */
void hostlink_control_none(struct hostlink_control *control);

/** hostlink_control_init - the rest of it. Errors: -ENOMEM. */
int hostlink_control_init(struct hostlink_control *control);

/** hostlink_control_free - closes what it has. */
void hostlink_control_free(struct hostlink_control *control);

/** hostlink_control_cut - the session has ended: what is in it is lost. Returns how many bytes. */
uint32_t hostlink_control_cut(struct hostlink_control *control, struct emu_hostlink_counts *counts);

/** hostlink_control_take - take the next socket if there is none; @waiter: wakes for it. */
void hostlink_control_take(struct hostlink_control *control, struct emu_waiter *waiter);

/**
 * hostlink_control_read - look whether the socket has something to send, unless it was looked at a
 * moment ago. True: a record is to be sent (hostlink_control_record()).
 */
bool hostlink_control_read(struct hostlink_control *control, uint64_t now_ns, bool woke);

/** hostlink_control_record - the record to be sent; hostlink_control_sent() - it was. */
struct emu_hostlink_record hostlink_control_record(const struct hostlink_control *control);
void hostlink_control_sent(struct hostlink_control *control);

/** hostlink_control_rx - bytes came. False: more than there is room for. */
bool hostlink_control_rx(struct hostlink_control *control, const uint8_t *bytes, uint32_t length);

/** hostlink_control_taken - @count were read there. False: more than were sent. */
bool hostlink_control_taken(struct hostlink_control *control, uint32_t count);

/** hostlink_control_write - give the socket what it takes. What it never will is counted. */
void hostlink_control_write(struct hostlink_control *control, struct emu_hostlink_counts *counts);

/** hostlink_control_unreported - so many bytes the far host is to be told of now; 0: not yet. */
uint32_t hostlink_control_unreported(const struct hostlink_control *control);

#endif
