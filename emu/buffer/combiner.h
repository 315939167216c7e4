/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * combiner.h - combine contributions to a collective: shared by a switch's combine unit and an
 * adapter's link engine. The arithmetic is in combine.h.
 *
 * A combiner's inputs are bits: ports of a switch, or positions in a tree of adapters. For each
 * operation it keeps the set of inputs that have contributed, and either the partial result, to
 * which each contribution is added as it arrives, or all contributions (struct emu_kept), combined
 * in the order of inputs once complete, so that floating-point results are the same bits every
 * time. The owner manages the states of operations.
 *
 * Owner: the worker of the device that combines. Nothing here blocks.
 */
#ifndef EMU_COMBINER_H
#define EMU_COMBINER_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "emu/util/ports.h"
#include "emu/util/combine.h"
#include "emu/buffer/pool.h"

/**
 * emu_combiner_agrees - do both headers describe the same operation? Compares all but source and
 * destination. The caller clears its own bits in the kinds. Pure.
 */
static inline bool emu_combiner_agrees(const struct emu_hdr *a, const struct emu_hdr *b)
{
    return emu_hdr_words(a).fields == emu_hdr_words(b).fields;
}

/* The first mismatch between contributions to one operation, for reports on why it is stuck. */
struct emu_mismatch {
    bool seen;
    struct emu_hdr first, other; /* src: a node, or a device that combined several contributions */
};

/* Record the first mismatch of a group. Not called on the fast path. */
static inline void emu_mismatch_note(struct emu_mismatch *mismatch, const struct emu_hdr *first,
                                     const struct emu_hdr *other)
{
    if (!mismatch->seen && first->seq == other->seq && !emu_combiner_agrees(first, other))
        *mismatch = (struct emu_mismatch){.seen = true, .first = *first, .other = *other};
}

/**
 * emu_combiner_outs - where the result goes once the inputs @have, of @all, have contributed; 0:
 * contributions are missing.
 * @kind: a REDUCE is complete with all inputs but one, and leaves by that one.
 * @up: the input towards the root of the tree; 0: this is the root. Other kinds go up when all
 * other inputs have contributed; at the root, when all have, they go to
 * @everyone. Pure.
 */
static inline emu_ports emu_combiner_outs(uint8_t kind, emu_ports all, emu_ports have, emu_ports up,
                                          emu_ports everyone)
{
    emu_ports missing = all & ~have;

    if (kind == EMU_REDUCE)
        return emu_ports_several(missing) ? EMU_NO_PORTS : missing;
    if (!emu_ports_any(up))
        return emu_ports_any(missing) ? EMU_NO_PORTS : everyone;
    return emu_ports_equal(missing, up) ? missing : EMU_NO_PORTS;
}

/**
 * emu_combiner_own - a writable buffer with the same contents: @buf if no other reference exists,
 * else a copy, and the caller's reference to @buf is dropped late. EMU_NO_BUF stays. The pool is
 * sized for these copies.
 * @bytes: of payload. Thread: the cache's.
 */
static inline uint32_t emu_combiner_own(struct emu_pool_cache *cache, uint32_t buf, uint32_t bytes)
{
    struct emu_pool *pool = cache->pool;
    uint32_t own;

    if (buf == EMU_NO_BUF || emu_pool_alone(pool, buf))
        return buf;
    own = emu_pool_take(cache);
    assert(own != EMU_NO_BUF); /* the pool is sized for it */
    emu_seg_copy(emu_pool_seg(pool, own), emu_pool_seg(pool, buf), bytes);
    *emu_pool_note(pool, own) = *emu_pool_note(pool, buf);
    emu_pool_drop_late(cache, buf);
    return own;
}

/* Has the buffer a payload? Barriers have none, nor buffers that only stand for a length. */
typedef bool emu_payload_fn(struct emu_pool *pool, uint32_t buf);

/**
 * emu_combiner_fold - combine the payload of @in into @acc, and drop the reference to @in late.
 * @acc: writable (emu_combiner_own()). @hdr: of the operation.
 * @payload: if either has none, nothing is combined. Thread: the cache's.
 */
static inline __attribute__((always_inline)) void emu_combiner_fold(struct emu_pool_cache *cache,
                                                                    const struct emu_hdr *hdr,
                                                                    uint32_t acc, uint32_t in,
                                                                    emu_payload_fn *payload)
{
    struct emu_pool *pool = cache->pool;

    if (hdr->len && payload(pool, acc) && payload(pool, in))
        emu_combine_fold(hdr->op, hdr->type, emu_pool_bytes(pool, acc), emu_pool_bytes(pool, in),
                         hdr->len);
    emu_pool_drop_late(cache, in);
}

/* --- in the order of inputs --------------------------------------------------------- */

/* The contributions to one operation. The owner allocates the array and has a reference to each. */
struct emu_kept {
    /* emu_kept_slots() elements; valid for inputs that have contributed */
    uint32_t *buf;
    emu_ports all; /* all inputs */
};

/** emu_kept_slots - elements per operation of a combiner with the inputs @all. Pure. */
static inline uint32_t emu_kept_slots(emu_ports all)
{
    return emu_ports_count(all);
}

/** emu_kept_at - the element of input @at. */
static inline uint32_t *emu_kept_at(struct emu_kept kept, uint32_t at)
{
    assert(emu_ports_has(kept.all, at));
    return &kept.buf[emu_kept_slots(kept.all & emu_ports_below(at))];
}

/**
 * emu_kept_fold - combine the contributions of @have, which is not empty, in order. Consumes all
 * references and returns a writable buffer. Thread: the cache's.
 */
static inline __attribute__((always_inline)) uint32_t emu_kept_fold(struct emu_pool_cache *cache,
                                                                    const struct emu_hdr *hdr,
                                                                    struct emu_kept kept,
                                                                    emu_ports have,
                                                                    emu_payload_fn *payload)
{
    uint32_t acc = emu_combiner_own(cache, *emu_kept_at(kept, emu_ports_first(have)), hdr->len);

    emu_each_port (at, have & ~emu_port(emu_ports_first(have)))
        emu_combiner_fold(cache, hdr, acc, *emu_kept_at(kept, at), payload);
    return acc;
}

#endif
