/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * goal.h - the operations of a parallel program, read from a file in the format GOAL.
 *
 * The file has a block for each rank. An operation of a rank sends a message, receives one, or
 * computes. A dependency lets an operation start only when another operation of the same rank is
 * complete (`requires`) or has started (`irequires`). docs/traffic.md has the grammar.
 * Source: Hoefler, Siebert, Lumsdaine, "Group Operation Assembly Language - a flexible way to
 * express collective communication", ICPP 2009; the text form is that of LogGOPSim and ATLAHS.
 */
#ifndef APPS_TRAFFIC_GOAL_GOAL_H
#define APPS_TRAFFIC_GOAL_GOAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GOAL_NONE UINT32_MAX /* stands for no operation, no message or no list item */
#define GOAL_ANY  UINT32_MAX /* a receive matches messages from any source, or with any tag */

/* Limits of a file. */
#define GOAL_RANKS_MOST 65536u
#define GOAL_CPUS_MOST  256u
#define GOAL_OPS_MOST   (UINT32_C(1) << 30)
/* limit of a message's size, the same as for libfabric programs */
#define GOAL_BYTES_MOST (UINT64_C(1) << 39)
#define GOAL_NS_MOST    (((uint64_t)1 << 62) / 1000)

enum goal_kind { GOAL_CALC, GOAL_SEND, GOAL_RECV, GOAL_COLL };

struct goal_op {
    uint64_t amount; /* GOAL_CALC: ns; otherwise bytes */
    uint32_t peer;   /* the other rank; GOAL_ANY: a receive from any source; GOAL_COLL: the root */
    union {
        uint32_t tag;    /* of a message; GOAL_ANY: a receive with any tag */
        uint32_t member; /* GOAL_COLL: index of its membership */
    };
    union {
        uint32_t message; /* GOAL_SEND: index of its message */
        uint32_t coll;    /* GOAL_COLL: number of the collective in the file */
    };
    uint32_t line; /* line in the file */
    uint8_t kind;  /* enum goal_kind */
    uint8_t cpu;
    uint8_t coll_kind; /* GOAL_COLL: enum emu_kind */
    uint8_t fold_op;   /* GOAL_COLL that reduces: enum emu_op and enum emu_type */
    uint8_t fold_type;
};

/*
 * An edge stands for an operation that waits for another one. Its value is the index of the waiting
 * operation times 2, plus GOAL_EDGE_START if that waits only for the start of the other.
 */
#define GOAL_EDGE_START 1u

struct goal_rank {
    uint32_t first; /* its first operation; the operations of a rank are consecutive */
    uint32_t ops;
    uint32_t cpus;                  /* 1 + the highest number of a cpu */
    uint32_t first_member, members; /* its memberships, which are consecutive */
    /* line in which the block of the rank begins; 0: the file has no block of this rank */
    uint32_t line;
};

struct goal_message {
    uint32_t op;   /* the send */
    uint32_t from; /* rank of the send */
    uint32_t pair; /* index of the pair of sender and receiver */
};

/* A group of ranks, whose collectives the network executes. */
struct goal_group {
    uint32_t number; /* in the file; the groups have ascending numbers */
    uint32_t line;
    uint32_t ranks;
    bool wide; /* see fabric_group_create_wide() */
    bool used; /* it has an operation */
    uint32_t *rank;
};

/* A rank that takes part in collectives of a group. */
struct goal_member {
    uint32_t rank, group;
};

/* Immutable after goal_read(). */
struct goal {
    uint32_t ranks, ops, messages, pairs, colls, groups, members;
    struct goal_group *group;
    struct goal_member *member;
    struct goal_rank *rank;
    struct goal_op *op;
    uint32_t *waits; /* by operation: number of its dependencies */
    /* by operation: its first edge in edge[]; the edges of an operation are consecutive */
    uint32_t *edge_first;
    uint32_t *edge; /* for each operation: the operations that wait for it, with GOAL_EDGE_START */
    uint32_t edges;
    struct goal_message *message;
};

/**
 * goal_read - read a file. The caller frees the result with goal_free().
 * Errors, with one line in @error: -EINVAL, the file is wrong; -ENOMEM; errors of reading the file.
 */
int goal_read(struct goal **ret, const char *path, char *error, size_t error_bytes);

/**
 * goal_parse - like goal_read(), but read @bytes at @text. @path: the name of the file, for errors.
 */
int goal_parse(struct goal **ret, const char *path, const char *text, size_t bytes, char *error,
               size_t error_bytes);

void goal_free(struct goal *goal);

#endif
