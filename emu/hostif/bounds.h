/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bounds.h - how long is waited for others at most: the list of all such bounds.
 *
 * `fabemu run` and `fabemu up` take them as --bound NAME=TIME|off; docs/manual.md explains each.
 * The library of a process is told its part of them when it attaches.
 */
#ifndef EMU_BOUNDS_H
#define EMU_BOUNDS_H

#include <stdint.h>

#define EMU_BOUND_OFF UINT64_MAX /* waits without limit */

/*
 * A row is X(field, NAME, default in milliseconds, what it bounds). Default 0: what a profile has.
 *
 * The fabric's.
 */
#define EMU_BOUNDS_FABRIC(X)                                                                 \
    X(cut_off, "cut-off", 5000, "a process takes fewer than 64 segments while more wait")    \
    X(stopped, "stopped", EMU_BOUND_OFF, "a process is stopped, by a debugger or a signal")  \
    X(no_link, "no-link", 1000, "no link of a node is in use, and it has something to send") \
    X(unit, "unit", 2000, "something waits for a combine unit, and it does nothing")         \
    X(stuck, "stuck", 1000, "a port sends nothing of what it could")                         \
    X(reply, "reply", 0, "with acknowledgments: no reply to a packet, which is sent again")

/* Those of a process's library, which it is told when it attaches: struct fabemu_bounds. */
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

/* Milliseconds, or EMU_BOUND_OFF. All 0 are defaults: emu_bounds_filled(). */
struct emu_bounds {
#define EMU_BOUND_FIELD(field, name, ms, what) uint64_t field##_ms;
    EMU_BOUNDS(EMU_BOUND_FIELD)
#undef EMU_BOUND_FIELD
    uint64_t retries; /* tries of a packet, and then it is given up; 0: the profile's */
};

/** emu_bounds_filled - with defaults in the place of what is 0. Pure. */
static inline struct emu_bounds emu_bounds_filled(struct emu_bounds bounds)
{
#define EMU_BOUND_FILL(field, name, ms, what) \
    if (!bounds.field##_ms)                   \
        bounds.field##_ms = (ms);
    EMU_BOUNDS(EMU_BOUND_FILL)
#undef EMU_BOUND_FILL
    return bounds;
}

/** emu_bound_ns - in nanoseconds; EMU_BOUND_OFF stays what it is. Pure. */
static inline uint64_t emu_bound_ns(uint64_t ms)
{
    return ms > UINT64_MAX / 1000000u ? EMU_BOUND_OFF : ms * 1000000u;
}

/** emu_bound_int_ms - as poll() and the like take it: off is 24 days. Pure. */
static inline int emu_bound_int_ms(uint64_t ms)
{
    return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

#endif
