/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap.h - record the traffic of chosen links in rings, for captures (docs/capture.md).
 *
 * A tap is set on a sender, or on a receiver of a hostif link. It records what the device sends or
 * takes: segments, parts of packets, replies, credits, link-level retry's ACKs and NACKs. Each
 * worker fills its own ring, which a reader in this or another process empties (tap_area.h). When
 * the ring is full, records are dropped and counted per interface: the fabric never waits. The
 * reader is not trusted: the worker reads only its count of records taken, and a wrong count loses
 * records and does no other harm.
 *
 * A link without a tap costs nothing: `tapped` is next to `kind`, and emu_tx_send() and
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

/* Type of a record, as in the capture's header. */
enum emu_tap_what {
    EMU_TAP_SEGMENT = 1, /* on a cable without channels or a hostif link */
    EMU_TAP_PACKET,      /* on a cable with channels: a packet's head or continuation */
    EMU_TAP_REPLY,       /* on a cable with channels: an ACK or a NACK */
    EMU_TAP_CREDITS,     /* for segments of the opposite direction */
    EMU_TAP_ANSWER       /* link-level retry, about the opposite direction */
};

enum emu_tap_flags {
    EMU_TAP_NUMBERED = 1, /* SEGMENT: `number` is its sequence number in link-level retry */
    EMU_TAP_AGAIN = 2,    /* SEGMENT: and it is a retransmission */
    EMU_TAP_CARRIES = 4   /* PACKET: the buffered segment follows, header first */
};

#define EMU_TAP_VERSION    1u
#define EMU_TAP_HEAD_BYTES 16u
#define EMU_TAP_BYTES      (EMU_TAP_HEAD_BYTES + 2 * EMU_HDR_BYTES + EMU_PAYLOAD_BYTES)

/* At the front of each record, little-endian. The table is in docs/capture.md. */
struct emu_tap_head {
    uint8_t version; /* EMU_TAP_VERSION */
    uint8_t what;    /* enum emu_tap_what */
    uint8_t flags;   /* enum emu_tap_flags */
    uint8_t spare;
    /* SEGMENT: sequence number; CREDITS: count; ANSWER: cumulative acknowledgment */
    uint32_t number;
    uint32_t about; /* CREDITS: channel; ANSWER: enum emu_answer */
    uint32_t note;  /* fourth word of a descriptor. PACKET: its CRC-32; SEGMENT: emu_entry.note */
};
static_assert(sizeof(struct emu_tap_head) == EMU_TAP_HEAD_BYTES, "a format of files");

/* A slot of a worker's ring. */
struct emu_tap_record {
    alignas(EMU_LINE) uint64_t time; /* ns of CLOCK_MONOTONIC; clock virtual: simulated ps */
    uint32_t iface;
    uint16_t bytes;              /* of `data` */
    uint16_t whole;              /* without truncation */
    uint64_t missed;             /* records that its interface has dropped so far */
    uint8_t data[EMU_TAP_BYTES]; /* head, headers, payload */
};

/* Selects the records to keep. */
struct emu_tap_filter {
    struct emu_fault_aim aim; /* for segments, and parts of packets by their segment */
    uint32_t what;            /* bits 1 << enum emu_tap_what */
    uint32_t snap_bytes;      /* payload bytes kept, at most */
};

#define EMU_TAP_NOWHERE UINT32_MAX

/* A link end with a tap. */
struct emu_tap_end {
    const void *end; /* emu_tx or emu_rx */
    uint32_t sends;  /* interface for what it sends; an emu_rx: credits, answers */
    uint32_t takes;  /* emu_rx of a hostif link: interface for arrivals; else EMU_TAP_NOWHERE */
    bool packets;    /* the cable has channels */
    uint64_t peeked; /* hostif link: the last segment recorded before it was taken */
};

/* The taps of a worker. Owned by the worker while it runs. */
struct emu_taps {
    struct emu_tap_filter filter;
    enum emu_clock_mode clock;
    uint64_t credit_ps; /* travel time of a credit */
    struct emu_tap_iface *iface;
    struct emu_tap_ring *ring;
    uint64_t slots; /* of the ring; a power of two */
    uint64_t put;   /* records written */
    uint64_t taken; /* copy of ring->taken: may lag */
    uint32_t ends;
    struct emu_tap_end end[]; /* sorted by address */
};

/** emu_taps_sort - call after all ends are added, before the worker gets @taps. */
void emu_taps_sort(struct emu_taps *taps);

/* Called where a tapped link is used. Thread: the device's worker. Bounded; no allocation. */

/** emu_tap_sent - @entry was sent; its time, if any, is its arrival. */
void emu_tap_sent(const struct emu_tx *tx, const struct emu_entry *entry);

/** emu_tap_copied - raw: emu_tap_sent() of a segment copied to a process. @payload: may be NULL. */
void emu_tap_copied(const struct emu_tx *tx, const struct emu_hdr *hdr,
                    const struct emu_seg *payload);

/** emu_tap_numbered - link-level retry sends @entry, which arrives at @there_ps. */
void emu_tap_numbered(const struct emu_tx *tx, const struct emu_entry *entry, uint32_t number,
                      bool again, uint64_t there_ps);

/** emu_tap_took - the device took @entry from a process. */
void emu_tap_took(const struct emu_rx *rx, const struct emu_entry *entry);

/** emu_tap_peeked - raw: slot @at of interface number @hostif is used. Recorded once. */
void emu_tap_peeked(const struct emu_rx *rx, uint32_t hostif, uint32_t at,
                    const struct emu_hdr *hdr, const struct emu_seg *payload);

/** emu_tap_credits - credits are returned and arrive at @there_ps. */
void emu_tap_credits(const struct emu_rx *rx, uint32_t count, uint32_t channel, uint64_t there_ps);

/** emu_tap_answer - link-level retry acknowledges. @answer: enum emu_answer. */
void emu_tap_answer(const struct emu_rx *rx, uint32_t number, uint32_t answer, uint64_t there_ps);

#endif
