/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap.h - what passes chosen ends of cables is copied into rings, for captures (docs/capture.md).
 *
 * A tap stands at a sending end, or at the receiving end of a cable from a process, and notes what
 * its device puts on the cable or takes off it: segments, parts of packets, replies, credits, the
 * answers of link-level retry. Each worker fills a ring of its own, which somebody else empties, in
 * this process or another (tap_area.h). What finds the ring full is counted at its interface and
 * not kept: the fabric waits for nobody. The far side of a ring is not trusted either: all that a
 * worker reads of it is how much was taken, and a wrong number there loses records alone.
 *
 * An end without a tap pays nothing for it: `tapped` lies beside `kind`, and emu_tx_send() and
 * emu_rx_pay() compare both at once. The manager sets it while it holds the workers.
 */
#ifndef EMU_TAP_H
#define EMU_TAP_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "emu/buffer/ring.h"
#include "emu/packet/rule.h"
#include "emu/util/clock.h"

struct emu_rx;
struct emu_tap_area;
struct emu_tap_iface;
struct emu_tap_ring;
struct emu_tx;

/* What a record is of. Numbers are those of the capture's header. */
enum emu_tap_what {
    EMU_TAP_SEGMENT = 1, /* on a cable without channels, or to or from a process */
    EMU_TAP_PACKET,      /* on a cable with channels: the head of a packet, or a continuation */
    EMU_TAP_REPLY,       /* there: an ACK or a NACK */
    EMU_TAP_CREDITS,     /* for what came by the cable's other way */
    EMU_TAP_ANSWER       /* link-level retry: about what came by the cable's other way */
};

enum emu_tap_flags {
    EMU_TAP_NUMBERED = 1, /* SEGMENT: `number` is link-level retry's */
    EMU_TAP_AGAIN = 2,    /* SEGMENT: and it was sent before */
    EMU_TAP_CARRIES = 4   /* PACKET: the segment that lies in its buffer follows, header first */
};

#define EMU_TAP_VERSION    1u
#define EMU_TAP_HEAD_BYTES 16u
#define EMU_TAP_BYTES      (EMU_TAP_HEAD_BYTES + 2 * EMU_HDR_BYTES + EMU_PAYLOAD_BYTES)

/* In front of what is copied, little-endian: docs/capture.md has the table. */
struct emu_tap_head {
    uint8_t version; /* EMU_TAP_VERSION */
    uint8_t what;    /* enum emu_tap_what */
    uint8_t flags;   /* enum emu_tap_flags */
    uint8_t spare;
    /* SEGMENT: link-level retry's; CREDITS: how many; ANSWER: all before it have come */
    uint32_t number;
    uint32_t about; /* CREDITS: of which channel; ANSWER: enum emu_answer */
    uint32_t note;  /* the fourth word of a descriptor: PACKET, its CRC-32; SEGMENT, emu_entry's */
};
static_assert(sizeof(struct emu_tap_head) == EMU_TAP_HEAD_BYTES, "a format of files");

/* A slot of a worker's ring. */
struct emu_tap_record {
    alignas(EMU_LINE) uint64_t time; /* host's monotonic clock, ns; clock virtual: simulated, ps */
    uint32_t iface;
    uint16_t bytes;              /* of data, that were kept */
    uint16_t whole;              /* and that there were */
    uint64_t missed;             /* by its interface before it, since the capture began */
    uint8_t data[EMU_TAP_BYTES]; /* the head, and what it is of */
};

/* What of all that passes is noted. */
struct emu_tap_filter {
    struct emu_fault_aim aim; /* of segments, and of packets' parts by the segment they carry */
    uint32_t what;            /* bits: 1 << enum emu_tap_what */
    uint32_t snap_bytes;      /* of a payload, at most */
};

#define EMU_TAP_NOWHERE UINT32_MAX

/* An end with a tap. */
struct emu_tap_end {
    const void *end; /* an emu_tx, or an emu_rx */
    uint32_t sends;  /* interface of what goes from here: of an emu_rx credits, answers */
    uint32_t takes;  /* of an emu_rx at an edge: of what comes; or EMU_TAP_NOWHERE, as above */
    bool packets;    /* the cable has channels */
    uint64_t peeked; /* of an edge: the last segment that was noted before it was taken */
};

/* All taps of a worker; its own while it runs. */
struct emu_taps {
    struct emu_tap_filter filter;
    enum emu_clock_mode clock;
    uint64_t credit_ps; /* a credit is on its way for so long */
    struct emu_tap_iface *iface;
    struct emu_tap_ring *ring;
    uint64_t slots; /* of the ring; a power of two */
    uint64_t put;   /* records so far */
    uint64_t taken; /* of them, as of the last look */
    uint32_t ends;
    struct emu_tap_end end[]; /* by address: emu_taps_sort() */
};

/** emu_taps_sort - once all ends are in it, before the worker has it. */
void emu_taps_sort(struct emu_taps *taps);

/*
 * What ends with a tap tell. Thread: the end's device's. Each is bounded, and neither waits nor
 * allocates.
 */

/** emu_tap_sent - @entry goes on the cable; its times, if it has any, are those of the far end. */
void emu_tap_sent(const struct emu_tx *tx, const struct emu_entry *entry);

/** emu_tap_copied - raw: the same of a segment that is copied to a process; @payload: or NULL. */
void emu_tap_copied(const struct emu_tx *tx, const struct emu_hdr *hdr,
                    const struct emu_seg *payload);

/** emu_tap_numbered - link-level retry sends @entry, which is at the far end at @there_ps. */
void emu_tap_numbered(const struct emu_tx *tx, const struct emu_entry *entry, uint32_t number,
                      bool again, uint64_t there_ps);

/** emu_tap_took - @entry came from a process, and the device has it. */
void emu_tap_took(const struct emu_rx *rx, const struct emu_entry *entry);

/**
 * emu_tap_peeked - raw: the segment in slot @at of edge @edge comes from a process. It may be told
 * more than once of the same, and is noted once.
 */
void emu_tap_peeked(const struct emu_rx *rx, uint32_t edge, uint32_t at, const struct emu_hdr *hdr,
                    const struct emu_seg *payload);

/** emu_tap_credits - credits go back, and are there at @there_ps. */
void emu_tap_credits(const struct emu_rx *rx, uint32_t count, uint32_t channel, uint64_t there_ps);

/** emu_tap_answer - an answer of link-level retry; @answer: enum emu_answer. */
void emu_tap_answer(const struct emu_rx *rx, uint32_t number, uint32_t answer, uint64_t there_ps);

#endif
