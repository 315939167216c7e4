/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seg.h - the segment, the unit that moves through the fabric: up to 256 bytes on the wire.
 * Switches read its 16-byte header. Only adapters and combine units read its payload of up to 240
 * bytes.
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
#define EMU_HDR_BYTES     16
#define EMU_PAYLOAD_BYTES 240 /* its largest payload */

#define EMU_NO_BUF UINT32_MAX /* a segment without payload has no buffer */

/* GCC emits prefetchw only with a target option. Processors without this instruction ignore it. */
static inline void emu_prefetch_to_write(const void *at)
{
#if defined(__x86_64__)
    __asm__ __volatile__("prefetchw %0" : : "m"(*(const char *)at));
#else
    __builtin_prefetch(at, 1);
#endif
}

/*
 * All collectives of a group form one stream: every segment of every operation takes the next
 * sequence number, which is the same at every member. A switch has a *state* (the storage of one
 * operation) for each number in the group's *window*. The last number of each half window is a
 * *token*, a barrier of the adapters themselves. No member begins half window h before the token of
 * half window h - 2 has returned, so states are reused safely.
 *
 * The window limits how far a member may run ahead of the others, because every token waits for the
 * last member. If processes outnumber cores, this wait lasts until the scheduler has run all of
 * them. So groups with operations of many segments use a wide window (EMU_GROUP_WIDE). Other groups
 * use a narrow window, whose states stay in the caches.
 */
#define EMU_WINDOW      256
#define EMU_WINDOW_WIDE 2048
#define EMU_GROUP_WIDE  (UINT32_C(1) << 31) /* bit of a group's address: the window is wide */

/** emu_window - return the size of a group's window in sequence numbers. Pure. */
static inline uint32_t emu_window(uint32_t group)
{
    return group & EMU_GROUP_WIDE ? EMU_WINDOW_WIDE : EMU_WINDOW;
}

/* The kind of a segment: what a switch does with it (the paper's tag, §2.1). */
enum emu_kind {
    EMU_UNICAST,   /* dst is a node */
    EMU_MULTICAST, /* dst is a group: copied to all ports of its tree except the input */
    /*
     * dst is a group: the contributions from all ports of its tree except one are combined, and the
     * result leaves through that port
     */
    EMU_REDUCE,
    EMU_ALLREDUCE, /* dst is a group: combined up to the tree's root, then multicast from there */
    EMU_BARRIER,   /* an all-reduce without payload */
    EMU_KINDS,     /* number of the kinds that switches handle */

    /*
     * Kinds between a host and its adapter, only if the network acknowledges packets. Payload:
     * struct emu_word.
     */
    EMU_SET = EMU_KINDS, /* set a word of the group in the host's own adapter */
    EMU_TEST /* test a network conditional; the adapter returns the header, with the answer in op */
};

#define EMU_KIND_MASK 7u /* bits of emu_hdr.kind with the enum emu_kind, without the flags */

/* Flags in emu_hdr.kind. A fabric without acknowledgments does not use them. */
enum emu_kind_bits {
    EMU_NOTIFY = 32, /* the host wants the header back when all receivers have the segment */
    EMU_FAILED = 64, /* in a returned header: the network gave up the segment */
    EMU_STORED = 128 /* for code that stores headers; never set on a cable or in a host interface */
};

/*
 * Number of words that a group has in each member's adapter. They are 0 at first, and the member's
 * host writes them. A network conditional compares the same word of all members with a value, and
 * is true if all match.
 * Source: QsNet III §IV-A.
 */
#define EMU_WORDS 16

/*
 * Number of 8-byte words in a host interface that are memory of the process and that its link
 * engine can read. The group's words with numbers of EMU_WORDS and higher are a range of this
 * memory, which each member chooses.
 */
#define EMU_MEMORY_WORDS 4096u

enum emu_test {
    EMU_TEST_EQUAL,  /* word == value */
    EMU_TEST_REACHED /* word - value modulo 2^64 is below 2^63 */
};

/** emu_word_is - return whether @word matches @value. @test: enum emu_test. Pure. */
static inline bool emu_word_is(uint64_t word, uint64_t value, unsigned test)
{
    return test == EMU_TEST_REACHED ? word - value < UINT64_C(1) << 63 : word == value;
}

enum emu_test_answer { EMU_TEST_FALSE, EMU_TEST_TRUE };

enum emu_test_until {
    EMU_TEST_ONCE,     /* test once; a NACK makes the conditional false */
    EMU_TEST_UNTIL,    /* test until it is true; false only if the adapter has too many tests */
    EMU_TEST_TAKE_BACK /* cancel the test with the number hdr.seq */
};

/* Payload of EMU_SET and EMU_TEST. hdr.dst is the group, hdr.seq a number that the host chooses. */
struct emu_word {
    uint64_t value;
    /*
     * EMU_SET: below EMU_WORDS, or EMU_WORDS to choose the range. Then `value` is the range's first
     * word plus 2^32 times its number of words. EMU_TEST: below EMU_WORDS + EMU_MEMORY_WORDS.
     */
    uint32_t word;
    uint8_t test;  /* EMU_TEST: enum emu_test */
    uint8_t until; /* EMU_TEST: enum emu_test_until */
    uint8_t spare[2];
};
static_assert(sizeof(struct emu_word) == 16, "wire format");

struct emu_hdr {
    uint32_t dst; /* node; collective kinds: address of the group */
    uint32_t src; /* sending node, written by the fabric's end of the host interface */
    uint32_t seq; /* collectives: number in the group's stream; unicasts: used by adapters */
    uint8_t kind; /* enum emu_kind, and with acknowledgments enum emu_kind_bits */
    uint8_t len;  /* payload bytes, 0 to EMU_PAYLOAD_BYTES */
    uint8_t op;   /* reductions: enum emu_op; unicasts: low byte of the receiver's incarnation */
    uint8_t type; /* reductions: enum emu_type; unicasts: low byte of the sender's incarnation */
};
static_assert(sizeof(struct emu_hdr) == EMU_HDR_BYTES, "the header is 16 bytes");

/**
 * emu_hdr_from - return @word, the first word of a header, with its source replaced by @src.
 * (Storing only the source and then loading the word would stall the processor.) Pure.
 */
static inline uint64_t emu_hdr_from(uint64_t word, uint32_t src)
{
    return (uint32_t)word | (uint64_t)src << 32;
}
static_assert(offsetof(struct emu_hdr, src) == 4 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "the source is the upper half");

/*
 * A header as two words, for code that makes or compares many headers. Writing fields to memory and
 * then loading the words stalls on store forwarding. With the sender of a stream and its worker on
 * one core, this took 13 % of the time.
 */
struct emu_hdr_words {
    uint64_t ends;   /* dst, and src in the upper half */
    uint64_t fields; /* seq in the lowest bits, then kind, len, op, type: emu_hdr_fields() */
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

/** emu_hdr_fields - return the second word of a header, with seq 0. Pure. */
static inline uint64_t emu_hdr_fields(uint8_t kind, uint8_t len, uint8_t op, uint8_t type)
{
    return (uint64_t)(kind | (uint32_t)len << 8 | (uint32_t)op << 16 | (uint32_t)type << 24) << 32;
}

/** emu_hdr_next - return @fields, the second word of a header, with seq increased by 1. Pure. */
static inline uint64_t emu_hdr_next(uint64_t fields)
{
    return (fields & ~(uint64_t)UINT32_MAX) | (uint32_t)(fields + 1);
}

/** emu_hdr_kind - return the enum emu_kind of a header, without the flags. Pure. */
static inline unsigned emu_hdr_kind(const struct emu_hdr *hdr)
{
    return hdr->kind & EMU_KIND_MASK;
}

static inline bool emu_hdr_is_token(const struct emu_hdr *hdr)
{
    uint32_t last = emu_window(hdr->dst) / 2 - 1;

    return emu_hdr_kind(hdr) == EMU_BARRIER && (hdr->seq & last) == last;
}

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
 * emu_copy - do memcpy(), always by a library call. For lengths that GCC knows to be short, GCC
 * would inline "rep movs", whose start-up takes as long as the library's copy of a whole segment.
 */
extern void *emu_copy(void *to, const void *from, size_t bytes) __asm__("memcpy");

/* Copy a segment with @len bytes of payload. @to and @from are aligned to a cache line. */
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
