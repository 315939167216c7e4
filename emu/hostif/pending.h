/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pending.h - what a process has pending, as its own library tells the fabric: a block in the
 * edge's memory.
 *
 * The adapter writes it about once a second, from what it has anyway (nic/host/progress/pending.c);
 * nothing on a segment's way does. The fabric copies it and believes nothing: a number that cannot
 * be is as if it had not been said. What is said of others, and what is said of oneself that is not
 * so, can mislead the reader of a line of text, and nothing else.
 *
 * A sequence lock: the writer makes `turn` odd, writes the words, makes it even. A reader that
 * finds the same even turn before and after has words of one turn. K1 pairs with K3: who sees a
 * word sees that the turn is odd, or a later one; K2 pairs with K4: who sees an even turn sees its
 * words.
 */
#ifndef EMU_PENDING_H
#define EMU_PENDING_H

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "emu/packet/seg.h"

#define EMU_PENDING_GROUPS 64u /* of a process that the block has room for */
#define EMU_PENDING_NAME   40u /* bytes of a group's name, 0 at the end */
#define EMU_PENDING_ANY    UINT32_MAX

enum emu_pending_kind {
    EMU_PENDING_NOTHING,
    EMU_PENDING_SEND,
    EMU_PENDING_RECEIVE,
    EMU_PENDING_PUT,
    EMU_PENDING_GET,
    EMU_PENDING_ATOMIC,
    EMU_PENDING_KINDS
};

enum emu_pending_state {
    EMU_PENDING_UNSENT,    /* not on its way: the peer has not answered yet, or takes no more */
    EMU_PENDING_UNMATCHED, /* no receive there, or no message here, matches it */
    EMU_PENDING_MOVING,    /* matched, and not complete */
    EMU_PENDING_STATES
};

/* An operation with one other process. */
struct emu_pending_op {
    uint64_t since_ns; /* it was there then; by emu_now_ns() */
    uint64_t tag;
    uint64_t ignore; /* receives: bits of the tag that may be anything */
    uint64_t bytes;
    uint32_t node; /* the other; EMU_PENDING_ANY: anyone's */
    uint8_t kind;  /* enum emu_pending_kind */
    uint8_t state; /* enum emu_pending_state */
    uint8_t spare[2];
};

/* What a collective is, as its segments say it, and its root. */
struct emu_pending_what {
    uint64_t bytes; /* of the operation, or of one segment */
    uint32_t root;  /* node; EMU_PENDING_ANY: it has none, or it is not known */
    uint8_t kind;   /* enum emu_kind */
    uint8_t op;     /* reductions: enum emu_op, */
    uint8_t type;   /* enum emu_type */
    uint8_t spare;
};

/* A group of the process. */
struct emu_pending_group {
    uint64_t begun;               /* collectives of the group that the process has begun */
    uint64_t number;              /* from 1: of the oldest one that is under way here, */
    uint64_t since_ns;            /* and it was there then; 0: none is under way */
    struct emu_pending_what what; /* it is */
    uint32_t id;
    uint32_t seq;  /* the segment that it waits for: emu_hdr.seq */
    uint32_t sent; /* 1: the process has handed its part of that to the fabric, or has none */
    uint32_t spare;
    char name[EMU_PENDING_NAME]; /* as the program calls it; "": no name */
};

/*
 * A collective call of the program, while its communicator forms a group for it. The messages that
 * form the group are not the program's.
 */
struct emu_pending_call {
    uint64_t since_ns; /* 0: there is none */
    uint32_t members;  /* of the communicator */
    uint8_t kind;      /* enum emu_kind */
    uint8_t spare[3];
    char name[EMU_PENDING_NAME]; /* of the communicator */
};

/* The members of a group do not agree on what they do: as this process has seen it first. */
struct emu_pending_clash {
    uint32_t group;  /* id */
    uint32_t node;   /* whose segment it was; EMU_PENDING_ANY: nothing was seen */
    uint64_t number; /* of the collective, or a later one */
    struct emu_pending_what mine, other;
    char name[EMU_PENDING_NAME]; /* of the group */
};

struct emu_pending {
    uint64_t written_ns;                 /* 0: never */
    uint64_t quiet_ns;                   /* nothing has begun, moved or completed here since then */
    uint32_t waits;                      /* 1: the program looks for completions, and finds none */
    uint32_t groups;                     /* of group[] */
    uint32_t more;                       /* 1: there are groups that found no room */
    uint32_t unexpected;                 /* messages here that no receive has matched */
    struct emu_pending_op send, receive; /* the oldest of each; get, put, atomic: as sends */
    struct emu_pending_op early;         /* the oldest of the unexpected messages */
    struct emu_pending_clash clash;
    struct emu_pending_call call;
    struct emu_pending_group group[EMU_PENDING_GROUPS];
};
#define EMU_PENDING_WORDS (sizeof(struct emu_pending) / sizeof(uint64_t))
static_assert(sizeof(struct emu_pending) % sizeof(uint64_t) == 0, "words");

/* In the edge's memory. */
struct emu_pending_shared {
    alignas(EMU_LINE) _Atomic uint32_t turn; /* odd: it is being written */
    _Atomic uint64_t word[EMU_PENDING_WORDS];
};

/** emu_pending_write - the adapter: show @from. Thread: one at a time. */
void emu_pending_write(struct emu_pending_shared *to, const struct emu_pending *from);

/**
 * emu_pending_read - the fabric: copy what was shown last, checked. Every count and enum of it is
 * in range, every node below @nodes or EMU_PENDING_ANY, no time is later than @now_ns, and names
 * are printable. False: it was never written, or is being written; @to is not changed.
 */
bool emu_pending_read(struct emu_pending *to, struct emu_pending_shared *from, uint32_t nodes,
                      uint64_t now_ns);

/** emu_pending_check - the same check of a copy that came another way: from another host. */
void emu_pending_check(struct emu_pending *pending, uint32_t nodes, uint64_t now_ns);

/**
 * emu_pending_shift - a copy from a host whose clock showed @there_ns when ours showed @here_ns:
 * its times by ours. A time that is 0 stays 0. Pure.
 */
void emu_pending_shift(struct emu_pending *pending, uint64_t there_ns, uint64_t here_ns);

#endif
