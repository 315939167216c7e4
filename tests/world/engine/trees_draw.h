/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trees_draw.h - the collectives of a group, one after the other: what the i-th one is, what each
 * member contributes, and what must come of it. All of it is drawn by functions; nothing is kept.
 */
#ifndef TESTS_WORLD_TREES_DRAW_H
#define TESTS_WORLD_TREES_DRAW_H

#include <stdatomic.h>
#include <stdbool.h>

#include "emu/packet/seg.h"

#define TREES_HOSTS  64u
#define TREES_USABLE (EMU_WINDOW / 2 - 1) /* of a half window; its last number is the token's */

/* Kinds of collectives that a stream draws from. */
enum {
    MIX_BARRIER = 1,
    MIX_REDUCE = 2,
    MIX_ALLREDUCE = 4,
    MIX_MULTICAST = 8,
    MIX_ROUGH = 16, /* and numbers that are not the same in any order: no result is known */
    MIX_ALL = 15
};

/* One collective. */
struct tree_op {
    uint32_t root; /* node */
    uint8_t kind;
    uint8_t op;
    uint8_t type;
    uint8_t len;
    bool told;
};

/* A group, and what its members do. */
struct tree_stream {
    uint32_t id;
    uint32_t base; /* where its numbers begin */
    uint32_t members;
    uint32_t ops;
    uint32_t mix;
    uint64_t seed;
    uint32_t node[TREES_HOSTS];
    _Atomic uint32_t *posted; /* by op, then by token: contributions so far */
    _Atomic uint32_t *taken;  /* by op: multicasts that came */
    _Atomic uint32_t left;    /* members that are not through */
};

/** trees_draw - a number that follows from these four. */
uint64_t trees_draw(uint64_t seed, uint64_t a, uint64_t b, uint64_t c);

/** trees_draw_op - operation @i of the stream. */
void trees_draw_op(const struct tree_stream *s, uint64_t i, struct tree_op *ret);
/** trees_draw_reduction - of a reduction only operator, type and length, by @number. */
void trees_draw_reduction(const struct tree_stream *s, uint64_t number, struct tree_op *ret);

/** trees_contribution - what @node puts into operation @i; of a multicast, what the root sends. */
void trees_contribution(const struct tree_stream *s, uint64_t i, const struct tree_op *op,
                        uint32_t node, uint8_t *bytes);
/** trees_contributions - how many there are of such an operation. */
uint32_t trees_contributions(const struct tree_stream *s, const struct tree_op *op);

/** trees_result - what operation @i must give. */
void trees_result(const struct tree_stream *s, uint64_t i, const struct tree_op *op,
                  uint8_t *bytes);

/** trees_op_posts, trees_op_awaits - does @node post it, and does it get a result? */
bool trees_op_posts(const struct tree_op *op, uint32_t node);
bool trees_op_awaits(const struct tree_op *op, uint32_t node);

/** trees_seq - the number of operation @i on the wire. */
uint32_t trees_seq(const struct tree_stream *s, uint64_t i);

#endif
