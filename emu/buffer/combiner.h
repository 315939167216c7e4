/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * combiner.h - combine the contributions to a collective. A *contribution* is one process's
 * operand, or the combination of several operands. A switch's combine unit and an adapter's link
 * engine use these functions. The arithmetic is in combine.h.
 *
 * The inputs of a combiner are ports of a switch, or positions in a tree of adapters. A set of
 * inputs is a set of bits. For each operation the combiner's owner stores which inputs have
 * contributed, and one of two things:
 * - the partial result, to which each contribution is added when it arrives, or
 * - all contributions (struct emu_kept), which are combined in the order of the inputs when all
 *   have arrived. So floating-point results have the same bits every time.
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
 * emu_combiner_agrees - return whether both headers describe the same operation: all fields but
 * source and destination are equal. If the caller has added bits to the kinds, it must clear them
 * first. Pure.
 */
static inline bool emu_combiner_agrees(const struct emu_hdr *a, const struct emu_hdr *b)
{
    return emu_hdr_words(a).fields == emu_hdr_words(b).fields;
}

/*
 * The first mismatch between two contributions to one operation, for a report that explains why the
 * operation does not complete.
 */
struct emu_mismatch {
    bool seen;
    /* src: a node, or a device that has combined several contributions */
    struct emu_hdr first, other;
};

/* If both contribute to one operation but differ, record this as the group's first mismatch. */
static inline void emu_mismatch_note(struct emu_mismatch *mismatch, const struct emu_hdr *first,
                                     const struct emu_hdr *other)
{
    if (!mismatch->seen && first->seq == other->seq && !emu_combiner_agrees(first, other))
        *mismatch = (struct emu_mismatch){.seen = true, .first = *first, .other = *other};
}

/**
 * emu_combiner_outs - return the outputs through which the result leaves, when the inputs @have, a
 * subset of all inputs @all, have contributed. Returns 0 if contributions are missing.
 * @kind: for EMU_REDUCE all inputs but one must have contributed, and the result leaves through the
 * input that has not contributed.
 * @up: the input towards the root of the tree; 0: this is the root. For kinds other than EMU_REDUCE
 * the result leaves through @up, when all other inputs have contributed. At the root it leaves
 * through @everyone, when all inputs have contributed. Pure.
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
 * emu_combiner_own - return a writable buffer with the contents of @buf: @buf itself, if there is
 * no other reference to it, else a copy. If it returns a copy, it drops the caller's reference to
 * @buf late (emu_pool_drop_late()). The pool is large enough for these copies. EMU_NO_BUF is
 * returned unchanged. @bytes: size of the payload. Thread: the owner of @cache.
 */
static inline uint32_t emu_combiner_own(struct emu_pool_cache *cache, uint32_t buf, uint32_t bytes)
{
    struct emu_pool *pool = cache->pool;
    uint32_t own;

    if (buf == EMU_NO_BUF || emu_pool_alone(pool, buf))
        return buf;
    own = emu_pool_take(cache);
    assert(own != EMU_NO_BUF);
    emu_seg_copy(emu_pool_seg(pool, own), emu_pool_seg(pool, buf), bytes);
    *emu_pool_note(pool, own) = *emu_pool_note(pool, buf);
    emu_pool_drop_late(cache, buf);
    return own;
}

/*
 * Returns whether the buffer has a payload. A barrier has none, and a node that is simulated inside
 * the fabric may omit it.
 */
typedef bool emu_payload_fn(struct emu_pool *pool, uint32_t buf);

/**
 * emu_combiner_fold - combine the payload of @in into the payload of @acc, and drop the reference
 * to @in late. @acc must be writable (emu_combiner_own()). @hdr: header of the operation. @payload:
 * if it returns false for @acc or @in, nothing is combined. Thread: the owner of @cache.
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

/* The contributions to one operation. The owner owns the array, and a reference to each buffer. */
struct emu_kept {
    /* buffers of the inputs, emu_kept_slots() elements; valid for inputs that have contributed */
    uint32_t *buf;
    emu_ports all; /* the set of all inputs */
};

/** emu_kept_slots - return how many elements emu_kept.buf needs for the inputs @all. Pure. */
static inline uint32_t emu_kept_slots(emu_ports all)
{
    return emu_ports_count(all);
}

static inline uint32_t *emu_kept_at(struct emu_kept kept, uint32_t at)
{
    assert(emu_ports_has(kept.all, at));
    return &kept.buf[emu_kept_slots(kept.all & emu_ports_below(at))];
}

/**
 * emu_kept_fold - combine the contributions of the inputs @have, in the order of the inputs. @have
 * must not be empty. Drops the references to all contributions, and returns a writable buffer with
 * the result. Thread: the owner of @cache.
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
