/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bounds.h - all bounds on waiting for another process, thread or host. Users set them by --bound
 * NAME=TIME|off of `fabemu run` and `fabemu up`; docs/manual.md explains each bound.
 */
#ifndef EMU_BOUNDS_H
#define EMU_BOUNDS_H

#include <stdint.h>

#define EMU_BOUND_OFF UINT64_MAX /* wait without limit */

/* The fabric's bounds: X(field, NAME, default in ms, help). Default 0 means the profile's value. */
#define EMU_BOUNDS_FABRIC(X)                                                               \
    X(cut_off, "cut-off", 5000,                                                            \
      "a process takes fewer than 64 segments from its full receive ring")                 \
    X(stopped, "stopped", EMU_BOUND_OFF, "a process is stopped by a debugger or a signal") \
    X(no_link, "no-link", 1000, "a node with something to send has no link in use")        \
    X(unit, "unit", 2000, "a combine unit has work and does nothing")                      \
    X(stuck, "stuck", 1000, "a port has a segment and a credit, and sends nothing")        \
    X(reply, "reply", 0, "with acknowledgments: a packet has no reply, and is then sent again")

/* The bounds of libfabemu, which gets them when the process attaches, in struct fabemu_bounds. */
#define EMU_BOUNDS_LIBRARY(X)                                                            \
    X(silence, "silence", 10000, "a peer that has to answer is silent")                  \
    X(successor, "successor", 1000,                                                      \
      "after a process leaves or dies, no other one attaches at its node")               \
    X(leave, "leave", 10000, "peers do not confirm the data of a process that detaches") \
    X(farewell, "farewell", 1000,                                                        \
      "peers do not answer a process that detaches, but have confirmed its data")        \
    X(drain, "drain", 2000, "a libfabric endpoint that is closed has sends in flight")   \
    X(detach, "detach", 2000, "the fabric does not confirm that a process detaches")

/* The bounds of the command that starts a fabric. */
#define EMU_BOUNDS_RUN(X)                                                                    \
    X(start, "start", 60000, "the fabric starts")                                            \
    X(end, "end", 2000,                                                                      \
      "a run ends before COMMAND does: time for COMMAND to end by itself, before its "       \
      "processes get SIGTERM")                                                               \
    X(term, "term", 1500,                                                                    \
      "then: time for these processes to end, before they get SIGKILL "                      \
      "and COMMAND gets SIGTERM")                                                            \
    X(last, "last", 700, "then: time for COMMAND to end, before it gets SIGKILL")            \
    X(leftover, "leftover", 300, "processes that COMMAND left behind may end by themselves") \
    X(stop, "stop", 10000, "the fabric was asked to stop, and has not ended")

#define EMU_BOUNDS(X) EMU_BOUNDS_FABRIC(X) EMU_BOUNDS_LIBRARY(X) EMU_BOUNDS_RUN(X)

/* Values in ms, or EMU_BOUND_OFF. 0 means the default, which emu_bounds_filled() fills in. */
struct emu_bounds {
#define EMU_BOUND_FIELD(field, name, ms, what) uint64_t field##_ms;
    EMU_BOUNDS(EMU_BOUND_FIELD)
#undef EMU_BOUND_FIELD
    uint64_t retries; /* transmissions of a packet before it is dropped; 0: as in the profile */
};

static inline struct emu_bounds emu_bounds_filled(struct emu_bounds bounds)
{
#define EMU_BOUND_FILL(field, name, ms, what) \
    if (!bounds.field##_ms)                   \
        bounds.field##_ms = (ms);
    EMU_BOUNDS(EMU_BOUND_FILL)
#undef EMU_BOUND_FILL
    return bounds;
}

/** emu_bound_ns - convert @ms to nanoseconds; EMU_BOUND_OFF stays. Pure. */
static inline uint64_t emu_bound_ns(uint64_t ms)
{
    return ms > UINT64_MAX / 1000000u ? EMU_BOUND_OFF : ms * 1000000u;
}

/** emu_bound_int_ms - convert @ms to an int for poll(); EMU_BOUND_OFF becomes 24 days. Pure. */
static inline int emu_bound_int_ms(uint64_t ms)
{
    return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

#endif
