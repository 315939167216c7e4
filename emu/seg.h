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
#include <stdint.h>

#define EMU_LINE 64           /* bytes of a cache line: one writer a line */
#define EMU_SEG_BYTES 256     /* a whole segment on the wire */
#define EMU_HDR_BYTES 16      /* of them, the header */
#define EMU_PAYLOAD_BYTES 240 /* of them, payload at most */

#define EMU_NO_BUF UINT32_MAX /* a segment without payload needs no buffer */

/*
 * A group's collectives form one stream: every segment of every operation
 * takes the next sequence number, the same at every member. A switch keeps
 * EMU_WINDOW states a group. The last number of each half window carries a
 * token, a barrier of the adapters themselves; nobody starts half window h
 * before the token of h - 2 has come back, so a state is never wanted twice.
 */
#define EMU_WINDOW 256
#define EMU_HALF (EMU_WINDOW / 2)

/* What a segment asks of a switch (the paper's tag, §2.1). */
enum emu_kind {
    EMU_UNICAST,   /* dst is a node */
    EMU_MULTICAST, /* dst is a group: out of every port of its tree but the arrival port */
    EMU_REDUCE,    /* dst is a group: k - 1 contributions fold, the result leaves by the k-th port */
    EMU_ALLREDUCE, /* dst is a group: folds up to the tree's top switch, multicast from there */
    EMU_BARRIER,   /* an all-reduce without payload */
    EMU_KINDS
};

struct emu_hdr {
    uint32_t dst; /* node; for collective kinds the collective address */
    uint32_t src; /* sending node: written by the fabric's side of the edge */
    uint32_t seq; /* collective kinds: number in the group's stream; unicast: the adapters' own */
    uint8_t kind; /* enum emu_kind */
    uint8_t len;  /* payload bytes, 0 to EMU_PAYLOAD_BYTES */
    uint8_t op;   /* reductions: enum emu_op */
    uint8_t type; /* reductions: enum emu_type */
};
static_assert(sizeof(struct emu_hdr) == EMU_HDR_BYTES, "the header is 16 bytes");

struct emu_seg {
    struct emu_hdr hdr;
    uint8_t payload[EMU_PAYLOAD_BYTES];
};
static_assert(sizeof(struct emu_seg) == EMU_SEG_BYTES, "a segment is 256 bytes");

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
