/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bounds.h - all bounds on waiting for another party.
 *
 * `fabemu run` and `fabemu up` take them as --bound NAME=TIME|off; docs/manual.md explains each. A
 * process's library receives its bounds when it attaches.
 */
#ifndef EMU_BOUNDS_H
#define EMU_BOUNDS_H

#include <stdint.h>

#define EMU_BOUND_OFF UINT64_MAX /* wait without limit */

/* The fabric's. A row is X(field, NAME, default in ms or 0 for the profile's, what it bounds). */
#define EMU_BOUNDS_FABRIC(X)                                                                 \
    X(cut_off, "cut-off", 5000, "a process takes fewer than 64 segments while more wait")    \
    X(stopped, "stopped", EMU_BOUND_OFF, "a process is stopped, by a debugger or a signal")  \
    X(no_link, "no-link", 1000, "no link of a node is in use, and it has something to send") \
    X(unit, "unit", 2000, "something waits for a combine unit, and it does nothing")         \
    X(stuck, "stuck", 1000, "a port sends nothing of what it could")                         \
    X(reply, "reply", 0, "with acknowledgments: no reply to a packet, which is sent again")

/* Those of a process's library, sent when it attaches: struct fabemu_bounds. */
#define EMU_BOUNDS_LIBRARY(X)                                                            \
    X(silence, "silence", 10000, "a peer that must answer is silent")                    \
    X(successor, "successor", 1000, "nobody follows a process that has left or died")    \
    X(leave, "leave", 10000, "a process that detaches has something unconfirmed")        \
    X(farewell, "farewell", 1000, "one that detaches is not answered, all is confirmed") \
    X(drain, "drain", 2000, "a libfabric endpoint that is closed has sends under way")   \
    X(detach, "detach", 2000, "the fabric does not answer to a process that detaches")

/* Those of the command that starts a fabric. */
#define EMU_BOUNDS_RUN(X)                                                           \
    X(start, "start", 60000, "a fabric starts")                                     \
    X(end, "end", 2000, "a run that ends: COMMAND may end by itself, then SIGTERM") \
    X(term, "term", 1500, "from SIGTERM to all that COMMAND started to SIGKILL")    \
    X(last, "last", 700, "from SIGTERM to COMMAND itself to SIGKILL")               \
    X(leftover, "leftover", 300, "what COMMAND left behind may end by itself")      \
    X(stop, "stop", 10000, "a fabric that was asked to end")

#define EMU_BOUNDS(X) EMU_BOUNDS_FABRIC(X) EMU_BOUNDS_LIBRARY(X) EMU_BOUNDS_RUN(X)

/* Milliseconds, or EMU_BOUND_OFF. 0 stands for the default: emu_bounds_filled(). */
struct emu_bounds {
#define EMU_BOUND_FIELD(field, name, ms, what) uint64_t field##_ms;
    EMU_BOUNDS(EMU_BOUND_FIELD)
#undef EMU_BOUND_FIELD
    uint64_t retries; /* transmissions of a packet before it is given up; 0: the profile's */
};

/** emu_bounds_filled - replace each 0 by its default. Pure. */
static inline struct emu_bounds emu_bounds_filled(struct emu_bounds bounds)
{
#define EMU_BOUND_FILL(field, name, ms, what) \
    if (!bounds.field##_ms)                   \
        bounds.field##_ms = (ms);
    EMU_BOUNDS(EMU_BOUND_FILL)
#undef EMU_BOUND_FILL
    return bounds;
}

/** emu_bound_ns - in nanoseconds; keeps EMU_BOUND_OFF. Pure. */
static inline uint64_t emu_bound_ns(uint64_t ms)
{
    return ms > UINT64_MAX / 1000000u ? EMU_BOUND_OFF : ms * 1000000u;
}

/** emu_bound_int_ms - as poll() takes it; EMU_BOUND_OFF becomes 24 days. Pure. */
static inline int emu_bound_int_ms(uint64_t ms)
{
    return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

#endif
