/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seg.h - the segment, the unit that moves through the fabric: 256 bytes on the wire, of which a
 * 16-byte header that switches read, and up to 240 bytes of payload that only adapters and combine
 * units read.
 */
#ifndef EMU_SEG_H
#define EMU_SEG_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "emu/util/alloc.h"

#define EMU_SEG_BYTES     256 /* a whole segment on the wire */
#define EMU_HDR_BYTES     16  /* its header */
#define EMU_PAYLOAD_BYTES 240 /* its payload, at most */

#define EMU_NO_BUF UINT32_MAX /* a segment without payload has no buffer */

/*
 * Prefetch the line of @at for writing. GCC emits prefetchw only with a target option; processors
 * without it treat it as a no-op.
 */
static inline void emu_prefetch_to_write(const void *at)
{
#if defined(__x86_64__)
    __asm__ __volatile__("prefetchw %0" : : "m"(*(const char *)at));
#else
    __builtin_prefetch(at, 1);
#endif
}

/*
 * A group's collectives form one stream: every segment of every operation takes the next sequence
 * number, the same at every member. A switch has a state for each number in the group's window. The
 * last number of each half window is a token, a barrier of the adapters themselves: no member
 * starts half window h before the token of h - 2 has come back, so states are reused safely.
 *
 * The window limits how far members run ahead of each other, and every token waits for the last
 * member. Where processes outnumber cores that is a round of the scheduler, so operations of many
 * segments use a wide window. Others use the narrow one, whose states stay in the caches. A bit of
 * the address selects it.
 */
#define EMU_WINDOW      256
#define EMU_WINDOW_WIDE 2048
#define EMU_GROUP_WIDE  (UINT32_C(1) << 31) /* in the address of a group with a wide window */

/** emu_window - sequence numbers of the group in flight at most; a power of two. Pure. */
static inline uint32_t emu_window(uint32_t group)
{
    return group & EMU_GROUP_WIDE ? EMU_WINDOW_WIDE : EMU_WINDOW;
}

/* What a segment requests of a switch (the paper's tag, §2.1). */
enum emu_kind {
    EMU_UNICAST,   /* dst is a node */
    EMU_MULTICAST, /* dst is a group: sent by all ports of its tree except the input */
    /* dst is a group: k - 1 contributions are combined, the result leaves by the k-th port */
    EMU_REDUCE,
    EMU_ALLREDUCE, /* dst is a group: combined up to the root of the tree, multicast from there */
    EMU_BARRIER,   /* an all-reduce without payload */
    EMU_KINDS,     /* those for switches; only with acknowledgments: */
    EMU_SET = EMU_KINDS, /* host to its own adapter: struct emu_word */
    EMU_TEST /* network conditional over a group: struct emu_word; the adapter answers with the same
                header, its op EMU_TEST_TRUE or EMU_TEST_FALSE */
};

#define EMU_KIND_MASK 7u /* of emu_hdr.kind; the other bits are enum emu_kind_bits */

/* Flags in emu_hdr.kind. Only with acknowledgments. */
enum emu_kind_bits {
    /* set by a host in EMU_UNICAST or EMU_MULTICAST to be notified once all receivers have it, and
       by its adapter in the notification: the same header without payload */
    EMU_NOTIFY = 32,
    EMU_FAILED = 64, /* in a notification to the sender: the segment was given up */
    EMU_STORED =
        128 /* for code that stores headers with payloads; never on a cable or host interface */
};

/*
 * Words of a group. Each member's adapter has EMU_WORDS words per group, initially 0. Its host
 * writes them; a conditional compares the same word of all members and is true if all match.
 * Source: QsNet III §IV-A.
 */
#define EMU_WORDS 16

enum emu_test {
    EMU_TEST_EQUAL,  /* word == value */
    EMU_TEST_REACHED /* word - value modulo 2^64 is below 2^63 */
};

/** emu_word_is - does @word match? @test: enum emu_test. Pure. */
static inline bool emu_word_is(uint64_t word, uint64_t value, unsigned test)
{
    return test == EMU_TEST_REACHED ? word - value < UINT64_C(1) << 63 : word == value;
}

enum emu_test_answer { EMU_TEST_FALSE, EMU_TEST_TRUE };

enum emu_test_until {
    EMU_TEST_ONCE,     /* any NACK makes it false */
    EMU_TEST_UNTIL,    /* repeated until true. False: the adapter has too many of these; retry */
    EMU_TEST_TAKE_BACK /* cancel the test with this number */
};

/* Payload of EMU_SET and EMU_TEST. hdr.dst is the group, hdr.seq the host's own number. */
struct emu_word {
    uint64_t value;
    uint32_t word; /* below EMU_WORDS */
    uint8_t test;  /* EMU_TEST: enum emu_test */
    uint8_t until; /* EMU_TEST: enum emu_test_until */
    uint8_t spare[2];
};
static_assert(sizeof(struct emu_word) == 16, "wire format");

struct emu_hdr {
    uint32_t dst; /* node; collective kinds: address of the group */
    uint32_t src; /* sending node, written by the fabric's end of the host interface */
    uint32_t seq; /* collective kinds: number in the group's stream; unicast: used by adapters */
    uint8_t kind; /* enum emu_kind, and with acknowledgments enum emu_kind_bits */
    uint8_t len;  /* payload bytes, 0 to EMU_PAYLOAD_BYTES */
    /* a process's unicasts: lowest byte of the receiver's and of the sender's incarnation */
    uint8_t op;   /* reductions: enum emu_op */
    uint8_t type; /* reductions: enum emu_type */
};
static_assert(sizeof(struct emu_hdr) == EMU_HDR_BYTES, "the header is 16 bytes");

/**
 * emu_hdr_from - @word, the first word of a header, with source @src. Stored as one word, since
 * loading a word after storing a part of it stalls. Pure.
 */
static inline uint64_t emu_hdr_from(uint64_t word, uint32_t src)
{
    return (uint32_t)word | (uint64_t)src << 32;
}
static_assert(offsetof(struct emu_hdr, src) == 4 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "the source is the upper half");

/*
 * A header as two words, for code that makes or compares many. Writing fields to memory and then
 * loading the words stalls on store forwarding: 13 % of the time of a stream's sender and its
 * worker on one core.
 */
struct emu_hdr_words {
    uint64_t ends;   /* dst, src in the upper half */
    uint64_t fields; /* seq, and above it kind, len, op, type: emu_hdr_fields() */
};
static_assert(offsetof(struct emu_hdr, seq) == 8 && offsetof(struct emu_hdr, kind) == 12 &&
                  offsetof(struct emu_hdr, len) == 13 && offsetof(struct emu_hdr, op) == 14 &&
                  offsetof(struct emu_hdr, type) == 15,
              "the order of the second word");

static inline struct emu_hdr_words emu_hdr_words(const struct emu_hdr *hdr)
{
    struct emu_hdr_words ret;

    memcpy(&ret, hdr, sizeof ret);
    return ret;
}

static inline void emu_hdr_store(struct emu_hdr *to, struct emu_hdr_words words)
{
    memcpy(to, &words, sizeof words);
}

/** emu_hdr_fields - the second word of a header, with seq 0. Pure. */
static inline uint64_t emu_hdr_fields(uint8_t kind, uint8_t len, uint8_t op, uint8_t type)
{
    return (uint64_t)(kind | (uint32_t)len << 8 | (uint32_t)op << 16 | (uint32_t)type << 24) << 32;
}

/** emu_hdr_next - the same word with the next seq, which wraps. Pure. */
static inline uint64_t emu_hdr_next(uint64_t fields)
{
    return (fields & ~(uint64_t)UINT32_MAX) | (uint32_t)(fields + 1);
}

/** emu_hdr_kind - enum emu_kind without the flags. Pure. */
static inline unsigned emu_hdr_kind(const struct emu_hdr *hdr)
{
    return hdr->kind & EMU_KIND_MASK;
}

/** emu_hdr_is_token - is it a group's token? Pure. */
static inline bool emu_hdr_is_token(const struct emu_hdr *hdr)
{
    uint32_t last = emu_window(hdr->dst) / 2 - 1;

    return emu_hdr_kind(hdr) == EMU_BARRIER && (hdr->seq & last) == last;
}

/** emu_hdr_is_of - is it a segment of group @id? Pure. */
static inline bool emu_hdr_is_of(const struct emu_hdr *hdr, uint32_t id)
{
    return emu_hdr_kind(hdr) != EMU_UNICAST && hdr->dst == id;
}

struct emu_seg {
    struct emu_hdr hdr;
    uint8_t payload[EMU_PAYLOAD_BYTES];
};
static_assert(sizeof(struct emu_seg) == EMU_SEG_BYTES, "a segment is 256 bytes");

/**
 * emu_copy - memcpy() as a library call. For lengths that GCC knows to be short it would inline
 * "rep movs", whose start-up takes as long as the library's copy of a segment.
 */
extern void *emu_copy(void *to, const void *from, size_t bytes) __asm__("memcpy");

/* Copy a segment with @len bytes of payload, in whole cache lines. Both are aligned to a line. */
static inline void emu_seg_copy(struct emu_seg *to, const struct emu_seg *from, uint32_t len)
{
    void *dst = __builtin_assume_aligned(to, EMU_LINE);
    const void *src = __builtin_assume_aligned(from, EMU_LINE);

    if (len > 2 * EMU_LINE - EMU_HDR_BYTES)
        __builtin_memcpy(dst, src, EMU_SEG_BYTES);
    else if (len > EMU_LINE - EMU_HDR_BYTES)
        __builtin_memcpy(dst, src, 2 * EMU_LINE);
    else
        __builtin_memcpy(dst, src, EMU_LINE);
}

#endif
