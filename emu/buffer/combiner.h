/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * combiner.h - contributions to a collective become one result: what a switch's combine unit and an
 * adapter's link engine have in common. The arithmetic is combine.h's.
 *
 * A combiner has inputs, each of which is a bit: ports of a switch, or positions in a tree of
 * adapters. Of every operation that is under way it knows the set of inputs that have contributed,
 * and what they have contributed, in one of two forms. Either it has the result so far, and folds
 * each contribution into it as it comes. Or it keeps the contributions (struct emu_kept), and folds
 * them in the order of their inputs when all are there: so floating-point results are the same bits
 * every time. The owner says which state an operation has, when it may begin and when it is over.
 *
 * Owner of all of it: the worker of the device that combines. Nothing here blocks or waits.
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
 * emu_combiner_agrees - are both of one operation, as their headers say? All is compared but from
 * whom and to where. The caller clears what is its own in the kinds. Pure.
 */
static inline bool emu_combiner_agrees(const struct emu_hdr *a, const struct emu_hdr *b)
{
    return emu_hdr_words(a).says == emu_hdr_words(b).says;
}

/* Two contributions to one operation whose headers do not agree, kept for who asks why it waits. */
struct emu_clash {
    bool seen;
    struct emu_hdr first,
        other; /* src: a node, or what has combined the contributions of several */
};

/* Keeps the first such pair of a group's. Not on the way of what agrees. */
static inline void emu_clash_note(struct emu_clash *clash, const struct emu_hdr *first,
                                  const struct emu_hdr *other)
{
    if (!clash->seen && first->seq == other->seq && !emu_combiner_agrees(first, other))
        *clash = (struct emu_clash){.seen = true, .first = *first, .other = *other};
}

/**
 * emu_combiner_outs - where the result goes, now that @have of the inputs @all have contributed; 0:
 * contributions are missing.
 * @kind:     a REDUCE is complete with all inputs but one, and leaves by that one.
 * @up: the input towards the tree's top; 0: this is the top. Everything else than a REDUCE goes up
 *            when all other inputs have contributed, and at the top, when all have,
 * @everyone: to everyone. Pure.
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
 * emu_combiner_own - a buffer with the same in it that nobody else holds, so that it may be
 * written. The caller's reference to @buf is given up for it, and dropped late. EMU_NO_BUF stays
 * what it is. The pool has buffers to spare for such calls, and for what is dropped late.
 * @bytes: of payload. Thread: the cache's.
 */
static inline uint32_t emu_combiner_own(struct emu_pool_cache *cache, uint32_t buf, uint32_t bytes)
{
    struct emu_pool *pool = cache->pool;
    uint32_t own;

    if (buf == EMU_NO_BUF || emu_pool_alone(pool, buf))
        return buf;
    own = emu_pool_take(cache);
    assert(own != EMU_NO_BUF); /* the manager has set it aside */
    emu_seg_copy(emu_pool_seg(pool, own), emu_pool_seg(pool, buf), bytes);
    *emu_pool_note(pool, own) = *emu_pool_note(pool, buf);
    emu_pool_drop_late(cache, buf);
    return own;
}

/*
 * Has the segment in a buffer a payload? Barriers have none, nor has what stands for its length
 * alone.
 */
typedef bool emu_payload_fn(struct emu_pool *pool, uint32_t buf);

/**
 * emu_combiner_fold - the payload of @in is folded into that of @acc, and the reference to @in
 * dropped, late.
 * @acc: the caller's alone (emu_combiner_own()). @hdr: of the operation.
 * @payload: where one of the two has none, nothing is folded. Thread: the cache's.
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

/* --- in the order of the inputs ----------------------------------------------------- */

/* The contributions to one operation: the owner's memory, a reference for each that has come. */
struct emu_kept {
    /* emu_kept_slots() of them; only those of inputs that have contributed mean something */
    uint32_t *buf;
    emu_ports all; /* the inputs that exist */
};

/**
 * emu_kept_slots - buffers to be kept for each operation of a combiner with the inputs @all. Pure.
 */
static inline uint32_t emu_kept_slots(emu_ports all)
{
    return emu_ports_count(all);
}

/** emu_kept_at - the slot of input @at, which is one of them. */
static inline uint32_t *emu_kept_at(struct emu_kept kept, uint32_t at)
{
    assert(emu_ports_has(kept.all, at));
    return &kept.buf[emu_kept_slots(kept.all & emu_ports_below(at))];
}

/**
 * emu_kept_fold - fold what @have have contributed, in their order. All references become one, to
 * the buffer returned, which is the caller's alone. @have: not empty. Thread: the cache's.
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
