/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pending.h - a block in the host interface's memory that describes the operations for which a
 * process waits.
 *
 * The process's library writes the block about once a second from its other data, never per segment
 * (nic/host/progress/pending.c). Each such update is a *sample*. The fabric copies and checks the
 * block: invalid values become "unknown". A process can lie here about itself and others; the only
 * effect is a misleading line in a report.
 *
 * A sequence lock protects the block. The writer makes `sequence` odd, writes the words, and makes
 * it even again. If a reader finds the same even number before and after it copies the words, the
 * copy is consistent. K1 pairs with K3: a reader that sees a new word then also sees the odd number
 * or a later one. K2 pairs with K4: a reader that sees an even number sees the words before it.
 */
#ifndef EMU_PENDING_H
#define EMU_PENDING_H

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "emu/packet/seg.h"

#define EMU_PENDING_GROUPS       64u /* a process lists at most this many groups */
#define EMU_PENDING_NAME         40u /* bytes of a group's name with its NUL */
#define EMU_PENDING_ANY          UINT32_MAX
#define EMU_PENDING_SIZE_UNKNOWN UINT64_MAX

enum emu_pending_kind {
    EMU_PENDING_NOTHING,
    EMU_PENDING_SEND,
    EMU_PENDING_RECEIVE,
    EMU_PENDING_PUT,
    EMU_PENDING_GET,
    EMU_PENDING_ATOMIC,
    EMU_PENDING_PROBE,
    EMU_PENDING_UNLOCK, /* this kind and those below: the program waits for an action of the peer */
    EMU_PENDING_POST,
    EMU_PENDING_COMPLETE,
    EMU_PENDING_FREE,
    EMU_PENDING_KINDS
};

enum emu_pending_state {
    EMU_PENDING_UNSENT,    /* not sent: the peer has not replied yet, or has no space */
    EMU_PENDING_UNMATCHED, /* a send without a receive at the peer, or a receive without a send */
    EMU_PENDING_MOVING,    /* matched, not complete */
    EMU_PENDING_STATES
};

/* An operation with one other process. */
struct emu_pending_op {
    uint64_t since_ns; /* when a sample first found this operation pending, by emu_now_ns() */
    uint64_t tag;      /* UNLOCK: the node whose memory has the lock */
    uint64_t ignore;   /* in a receive: bits of the tag that are not compared */
    uint64_t bytes;    /* or EMU_PENDING_SIZE_UNKNOWN */
    uint32_t node;     /* the peer's node; EMU_PENDING_ANY: any node */
    uint8_t kind;      /* enum emu_pending_kind */
    uint8_t state;     /* enum emu_pending_state */
    uint8_t spare[2];
};

/* A description of a collective, as in the headers of its segments. */
struct emu_pending_what {
    uint64_t bytes; /* payload of the operation, or of one segment */
    uint32_t root;  /* the root's node; EMU_PENDING_ANY: none or unknown */
    uint8_t kind;   /* enum emu_kind */
    uint8_t op;     /* of a reduction: enum emu_op */
    uint8_t type;   /* of a reduction: enum emu_type */
    /* the MPI collective that the program called: 1 + enum fabemu_coll; 0: unknown */
    uint8_t call;
};

struct emu_pending_group {
    uint64_t begun;    /* collectives that the process has begun in the group */
    uint64_t number;   /* number of the oldest unfinished collective, from 1 */
    uint64_t since_ns; /* when a sample first found that one unfinished; 0: none is unfinished */
    struct emu_pending_what what; /* the oldest unfinished collective */
    uint32_t id;
    uint32_t seq;  /* emu_hdr.seq of the segment for which the process waits */
    uint32_t sent; /* 1: the process has sent its contribution, or need not send one */
    uint32_t spare;
    char name[EMU_PENDING_NAME]; /* the program's name for the group; may be "" */
};

/* The first time that this process saw members of a group call different collectives. */
struct emu_pending_mismatch {
    uint32_t group;
    uint32_t node;   /* sender of the segment that did not match; EMU_PENDING_ANY: no mismatch */
    uint64_t number; /* number of this collective; an earlier one may have differed, too */
    struct emu_pending_what mine, other;
    char name[EMU_PENDING_NAME];
};

/*
 * Bits of Open MPI's tags over libfabric (mtl_ofi_types.h of Open MPI). INTERNAL is set in messages
 * of its collectives, and SYNC in messages of synchronous sends (MPI_Ssend and MPI_Issend). When a
 * message with SYNC has matched, the receiver sends a reply, in which SYNC_REPLY is set instead.
 */
#define EMU_PENDING_INTERNAL   (UINT64_C(1) << 31)
#define EMU_PENDING_SYNC       (UINT64_C(1) << 32)
#define EMU_PENDING_SYNC_REPLY (UINT64_C(1) << 33)

struct emu_pending {
    uint64_t written_ns; /* when the block was last written; 0: never */
    /* time since which no operation has begun, progressed or completed. A long sleep on clock
       virtual sets it to the end of the sleep, which may be in the future */
    uint64_t quiet_ns;
    uint32_t waits;             /* 1: the program polls for completions and finds none */
    uint32_t groups;            /* number of entries in group[] */
    uint32_t more;              /* 1: further groups did not fit */
    uint32_t finalizes;         /* 1: the program is in MPI_Finalize */
    uint32_t spare;             /* fills the word */
    uint32_t unexpected;        /* number of received messages that match no receive; messages with
                                      EMU_PENDING_INTERNAL count only if there are no others */
    struct emu_pending_op send; /* the oldest send, put, get or atomic */
    struct emu_pending_op receive; /* the oldest receive, probe or wait for an action */
    struct emu_pending_op early;   /* the oldest message that `unexpected` counts */
    struct emu_pending_mismatch mismatch;
    struct emu_pending_group group[EMU_PENDING_GROUPS];
};
#define EMU_PENDING_WORDS (sizeof(struct emu_pending) / sizeof(uint64_t))
static_assert(sizeof(struct emu_pending) % sizeof(uint64_t) == 0, "whole words");

/* The block in the host interface's memory. */
struct emu_pending_shared {
    alignas(EMU_LINE) _Atomic uint32_t sequence; /* odd while the words are being written */
    _Atomic uint64_t word[EMU_PENDING_WORDS];
};

/** emu_pending_write - publish @from. Thread: the process, one thread at a time. */
void emu_pending_write(struct emu_pending_shared *to, const struct emu_pending *from);

/**
 * emu_pending_read - copy the latest block and correct invalid values. In the copy all counts and
 * enums are in range, nodes are below @nodes or EMU_PENDING_ANY, no time is after @now_ns, and
 * names are printable. Returns false and leaves @to unchanged if the block was never written or is
 * being written.
 */
bool emu_pending_read(struct emu_pending *to, struct emu_pending_shared *from, uint32_t nodes,
                      uint64_t now_ns);

/** emu_pending_check - correct a copy from another host as emu_pending_read() does. */
void emu_pending_check(struct emu_pending *pending, uint32_t nodes, uint64_t now_ns);

/**
 * emu_pending_shift - convert times of another host to this host's clock. @there_ns, @here_ns: the
 * times that both clocks showed at one moment.
 */
void emu_pending_shift(struct emu_pending *pending, uint64_t there_ns, uint64_t here_ns);

#endif
