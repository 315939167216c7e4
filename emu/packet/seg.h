/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seg.h - the segment: what moves through the fabric.
 *
 * A segment is 256 bytes on the wire: a 16-byte header that switches read and
 * up to 240 bytes of payload that only adapters and combine units read.
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
#define EMU_HDR_BYTES     16  /* of them, the header */
#define EMU_PAYLOAD_BYTES 240 /* of them, payload at most */

#define EMU_NO_BUF UINT32_MAX /* a segment without payload needs no buffer */

/*
 * The line of @at will be written: it is wanted alone. GCC says so only if told of the instruction;
 * where a processor lacks it, it does nothing.
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
 * A group's collectives form one stream: every segment of every operation
 * takes the next sequence number, the same at every member. A switch keeps as
 * many states for a group as its window has numbers. The last number of each
 * half window carries a token, a barrier of the adapters themselves; nobody
 * starts half window h before the token of h - 2 has come back, so a state is
 * never wanted twice.
 *
 * A window is how far members may run ahead of each other, and every token has
 * to wait for the last of them. Where processes outnumber cores that is a turn
 * of the scheduler, so what has many segments wants a wide window. What has few
 * wants the narrow one: its states stay in the caches. The address says which a
 * group has.
 */
#define EMU_WINDOW      256
#define EMU_WINDOW_WIDE 2048
#define EMU_GROUP_WIDE  (UINT32_C(1) << 31) /* in the address of a group whose window is wide */

/** emu_window - numbers of the group's stream that may be under way; a power of two. Pure. */
static inline uint32_t emu_window(uint32_t group)
{
    return group & EMU_GROUP_WIDE ? EMU_WINDOW_WIDE : EMU_WINDOW;
}

/* What a segment asks of a switch (the paper's tag, §2.1). */
enum emu_kind {
    EMU_UNICAST,   /* dst is a node */
    EMU_MULTICAST, /* dst is a group: out of every port of its tree but the arrival port */
    /* dst is a group: k - 1 contributions fold, the result leaves by the k-th port */
    EMU_REDUCE,
    EMU_ALLREDUCE, /* dst is a group: folds up to the tree's top switch, multicast from there */
    EMU_BARRIER,   /* an all-reduce without payload */
    EMU_KINDS,     /* what a switch is asked for; more with acknowledgments: */
    EMU_SET = EMU_KINDS, /* to one's own adapter, and no further: struct emu_word */
    EMU_TEST /* network conditional over a group: struct emu_word; the adapter answers with
                the same header, in op EMU_TEST_TRUE or EMU_TEST_FALSE */
};

#define EMU_KIND_MASK 7u /* of emu_hdr.kind; the other bits are enum emu_kind_bits */

/* With acknowledgments the upper bits of emu_hdr.kind say more of one. */
enum emu_kind_bits {
    EMU_NOTIFY =
        32, /* added by a host to EMU_UNICAST or EMU_MULTICAST: tell me when all have it; and
               by its adapter, to the same header without payload: they have */
    EMU_FAILED = 64, /* added to one of these, to the sender: this segment of yours was given up */
    EMU_STORED = 128 /* free for who keeps a header with the payload: on no cable, at no edge */
};

/*
 * Words of a group. Each member's adapter has EMU_WORDS of its own for each group, 0 at first; its
 * host writes them, and a conditional reads the same one of all members: true if all of them are as
 * asked. Source: QsNet III §IV-A.
 */
#define EMU_WORDS 16

enum emu_test {
    EMU_TEST_EQUAL,  /* the word is this value */
    EMU_TEST_REACHED /* the word has reached it: word - value, modulo 2^64, is below 2^63 */
};

/** emu_word_is - is @word as a conditional asks? @test: enum emu_test. Pure. */
static inline bool emu_word_is(uint64_t word, uint64_t value, unsigned test)
{
    return test == EMU_TEST_REACHED ? word - value < UINT64_C(1) << 63 : word == value;
}

enum emu_test_answer { EMU_TEST_FALSE, EMU_TEST_TRUE };

enum emu_test_until {
    EMU_TEST_ONCE,     /* any NACK is a false */
    EMU_TEST_UNTIL,    /* again until it is true. False: the adapter has too many such; ask again */
    EMU_TEST_TAKE_BACK /* of the test with this number: no answer to it is wanted any more */
};

/* Payload of EMU_SET and EMU_TEST: hdr.dst is the group, hdr.seq is the host's own. */
struct emu_word {
    uint64_t value;
    uint32_t word; /* below EMU_WORDS */
    uint8_t test;  /* EMU_TEST: enum emu_test */
    uint8_t until; /* EMU_TEST: enum emu_test_until */
    uint8_t spare[2];
};
static_assert(sizeof(struct emu_word) == 16, "wire format");

struct emu_hdr {
    uint32_t dst; /* node; for collective kinds the collective address */
    uint32_t src; /* sending node: written by the fabric's side of the edge */
    uint32_t seq; /* collective kinds: number in the group's stream; unicast: the adapters' own */
    uint8_t kind; /* enum emu_kind; with acknowledgments, and enum emu_kind_bits */
    uint8_t len;  /* payload bytes, 0 to EMU_PAYLOAD_BYTES */
    /* of a process's unicasts: the lowest byte of the seat that it is for, and of its own */
    uint8_t op;   /* reductions: enum emu_op */
    uint8_t type; /* reductions: enum emu_type */
};
static_assert(sizeof(struct emu_hdr) == EMU_HDR_BYTES, "the header is 16 bytes");

/**
 * emu_hdr_from - the first word of a header, of destination and source, with @src in it: so that it
 * is stored as one, for who stores a part of a word and then loads the word waits for the store.
 * Pure.
 */
static inline uint64_t emu_hdr_from(uint64_t word, uint32_t src)
{
    return (uint32_t)word | (uint64_t)src << 32;
}
static_assert(offsetof(struct emu_hdr, src) == 4 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "the source is the upper half");

/*
 * A header as the two words that it is, for who makes or compares many of them. Made of smaller
 * pieces in memory and then loaded by the word, each would be waited for: of a stream's sender and
 * its worker, which share a core, that was 13 % of the time.
 */
struct emu_hdr_words {
    uint64_t whom; /* dst, and above it src */
    uint64_t says; /* seq, and above it kind, len, op, type: emu_hdr_says() */
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

/** emu_hdr_says - the second word of a header with the number 0. Pure. */
static inline uint64_t emu_hdr_says(uint8_t kind, uint8_t len, uint8_t op, uint8_t type)
{
    return (uint64_t)(kind | (uint32_t)len << 8 | (uint32_t)op << 16 | (uint32_t)type << 24) << 32;
}

/** emu_hdr_next - the same word with the next number, which wraps. Pure. */
static inline uint64_t emu_hdr_next(uint64_t says)
{
    return (says & ~(uint64_t)UINT32_MAX) | (uint32_t)(says + 1);
}

/** emu_hdr_kind - enum emu_kind, without enum emu_kind_bits. Pure. */
static inline unsigned emu_hdr_kind(const struct emu_hdr *hdr)
{
    return hdr->kind & EMU_KIND_MASK;
}

/** emu_hdr_is_token - is it a group's barrier with a token's number? Pure. */
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
 * emu_copy - memcpy() of the C library, called for what it is worth: where GCC knows a length to be
 * short it makes "rep movs" of memcpy(), which takes as long to begin as the library for a segment.
 */
extern void *emu_copy(void *to, const void *from, size_t bytes) __asm__("memcpy");

/*
 * Copy a segment with @len bytes of payload, by whole lines: what lies beyond
 * the payload may come along. Both segments begin at a line.
 */
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
