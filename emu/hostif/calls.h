/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calls.h - the calls of a process in simulated time, and how a recording stores them
 * (`--compute record:FILE`).
 *
 * A recording contains the *posts* of a process: calls that begin an operation. How often a process
 * polls depends on the network, so polls and readings of the clock are stored only if the process
 * has computed since its previous call. For them, the size in bytes is replaced by a count: how
 * many other calls of this kind were made since the last stored call. Polls without a pause between
 * them count as one. A replay may skip polls and readings of the clock.
 *
 * A call is stored as one byte for its kind, followed by numbers. Each byte of a number holds 7 of
 * its bits, beginning with the lowest. Bit 7 is set in all bytes of a number except the last. The
 * numbers are: 1 + the call's node (0: none); its size in bytes; and how long the process computed
 * before the call, in ns. If bit 7 of the kind is set, the first two numbers are left out, because
 * they equal those of the last call of this kind.
 */
#ifndef EMU_CALLS_H
#define EMU_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The numbers are stored in recordings, so add new kinds at the end. */
enum emu_call_kind {
    EMU_CALL_END,   /* the process detaches */
    EMU_CALL_POLL,  /* looks for segments */
    EMU_CALL_CLOCK, /* reads the clock, or sleeps */
    EMU_CALL_SEND,
    EMU_CALL_RECEIVE,
    EMU_CALL_PUT,
    EMU_CALL_GET,
    EMU_CALL_ATOMIC,
    EMU_CALL_BATCH,
    EMU_CALL_EVENT, /* waits for a count of events */
    EMU_CALL_NOTICE,
    EMU_CALL_SET, /* sets a word of a group */
    EMU_CALL_TEST,
    EMU_CALL_BROADCAST_PUT,
    EMU_CALL_BARRIER,
    EMU_CALL_BROADCAST,
    EMU_CALL_REDUCE,
    EMU_CALL_ALLREDUCE,
    EMU_CALL_KINDS
};

/* Classes of posts, in the report. */
enum emu_call_class {
    EMU_CALLS_MESSAGE,
    EMU_CALLS_COLLECTIVE, /* in the network */
    EMU_CALLS_ONE_SIDED,
    EMU_CALL_CLASSES
};

#define EMU_CALL_NO_NODE UINT32_MAX
/* values of emu_call.group: the collective uses no network, or a trace cannot hold it */
#define EMU_CALL_LOCAL    UINT32_MAX
#define EMU_CALL_UNTRACED (UINT32_MAX - 1)
/* in a trace (--goal): the last line of a process, and a mark of a call that GOAL cannot express */
#define EMU_TRACE_END  "// end\n"
#define EMU_TRACE_NOT  " // not in GOAL: "
#define EMU_CALL_BYTES 26 /* maximum size of a stored call */

struct emu_call {
    enum emu_call_kind kind;
    uint32_t node; /* the peer, or the root of a collective; EMU_CALL_NO_NODE: none, or any */
    uint64_t bytes;
    uint64_t ns; /* how long the process computed before the call */

    /* The next fields are not in recordings. */
    uint64_t tag;     /* tag of a send */
    uint32_t group;   /* a collective's group address, or EMU_CALL_LOCAL or _UNTRACED */
    uint8_t op, type; /* enum emu_op and enum emu_type of a reduction */
};

/* The last call of each kind. All zeros at the beginning of a recording. */
struct emu_calls {
    struct emu_call last[EMU_CALL_KINDS];
};

/** emu_call_class - return the class of a post. Pure. */
static inline enum emu_call_class emu_call_class(enum emu_call_kind kind)
{
    if (kind <= EMU_CALL_RECEIVE)
        return EMU_CALLS_MESSAGE;
    return kind < EMU_CALL_BROADCAST_PUT ? EMU_CALLS_ONE_SIDED : EMU_CALLS_COLLECTIVE;
}

/** emu_call_is_soft - return whether a replay may skip the call. Pure. */
static inline bool emu_call_is_soft(enum emu_call_kind kind)
{
    return kind == EMU_CALL_POLL || kind == EMU_CALL_CLOCK;
}

/**
 * emu_call_put - store @call in @ret, a buffer of EMU_CALL_BYTES. Returns the size of the stored
 * call.
 */
size_t emu_call_put(struct emu_calls *calls, const struct emu_call *call, uint8_t *ret);

/**
 * emu_call_get - read a call from the @bytes bytes at @from. Returns the size of the stored call;
 * 0: there is no valid call.
 */
size_t emu_call_get(struct emu_calls *calls, const uint8_t *from, size_t bytes,
                    struct emu_call *ret);

/** emu_call_text - describe @call for the user: "a send of 8 bytes to node 2". */
void emu_call_text(const struct emu_call *call, char *text, size_t bytes);

#endif
