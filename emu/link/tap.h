/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap.h - record the traffic of chosen links in rings, for captures (docs/capture.md).
 *
 * A *tap* is set on an end of a link. On a sender (emu_tx) it records the segments, parts of
 * packets and replies that the device sends. On a receiver (emu_rx) it records the credits, and the
 * ACKs and NACKs of link-level retry, that the device sends back. On a receiver of a hostif link
 * (the link to a process) it also records the segments that the device takes from the process. Each
 * direction of a cable is an *interface* of the capture. Each worker fills its own ring, which a
 * reader in this or another process empties (tap_area.h). When the ring is full, the worker drops
 * records and counts them per interface, so the fabric never waits. The reader is not trusted. The
 * worker reads only the reader's count of records taken; a wrong count loses records and does no
 * other harm.
 *
 * A link without a tap has no extra cost, because `tapped` is next to `kind`, and emu_tx_send() and
 * emu_rx_pay() compare both at once. `tapped` is set while the workers are stopped.
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

/* Type of a record; the capture file contains these numbers. */
enum emu_tap_what {
    EMU_TAP_SEGMENT = 1, /* a segment on a cable without channels, or on a hostif link */
    EMU_TAP_PACKET,      /* a packet's head or continuation, on a cable with channels */
    EMU_TAP_REPLY,       /* an ACK or a NACK of a packet, on a cable with channels */
    EMU_TAP_CREDITS,     /* credits for segments of the opposite direction */
    EMU_TAP_ANSWER       /* link-level retry's ACK or NACK of segments of the opposite direction */
};

enum emu_tap_flags {
    EMU_TAP_NUMBERED = 1, /* SEGMENT: `number` is its sequence number in link-level retry */
    EMU_TAP_AGAIN = 2,    /* SEGMENT: the numbered segment is a retransmission */
    EMU_TAP_CARRIES = 4   /* PACKET: the segment that it carries follows, header first */
};

#define EMU_TAP_VERSION    1u
#define EMU_TAP_HEAD_BYTES 16u
#define EMU_TAP_BYTES      (EMU_TAP_HEAD_BYTES + 2 * EMU_HDR_BYTES + EMU_PAYLOAD_BYTES)

/* The front of each record's data, little-endian; see docs/capture.md. */
struct emu_tap_head {
    uint8_t version; /* EMU_TAP_VERSION */
    uint8_t what;    /* enum emu_tap_what */
    uint8_t flags;   /* enum emu_tap_flags */
    uint8_t spare;
    /* SEGMENT: sequence number; CREDITS: count; ANSWER: cumulative acknowledgment */
    uint32_t number;
    uint32_t about; /* CREDITS: channel; ANSWER: enum emu_answer */
    uint32_t note;  /* PACKET: its CRC-32; SEGMENT: emu_entry.note */
};
static_assert(sizeof(struct emu_tap_head) == EMU_TAP_HEAD_BYTES, "this is part of a file format");

/* A slot of a worker's ring. */
struct emu_tap_record {
    alignas(EMU_LINE) uint64_t time; /* ns of CLOCK_MONOTONIC; clock virtual: simulated ps */
    uint32_t iface;
    uint16_t bytes;              /* used bytes of `data` */
    uint16_t whole;              /* `bytes` before truncation to snap_bytes */
    uint64_t missed;             /* records of this interface that were dropped so far */
    uint8_t data[EMU_TAP_BYTES]; /* head, headers, payload */
};

/* Selects the records to keep. */
struct emu_tap_filter {
    struct emu_fault_aim aim; /* selects segments, alone or carried by a head or continuation */
    uint32_t what;            /* types of records: bits 1 << enum emu_tap_what */
    uint32_t snap_bytes;      /* maximum number of payload bytes to keep */
};

#define EMU_TAP_NOWHERE UINT32_MAX

/* A link end with a tap. */
struct emu_tap_end {
    const void *end; /* emu_tx or emu_rx */
    uint32_t sends;  /* interface on which this end sends; an emu_rx sends credits, ACKs, NACKs */
    uint32_t takes;  /* emu_rx of a hostif link: interface of arrivals; else EMU_TAP_NOWHERE */
    bool packets;    /* the cable has channels */
    uint64_t peeked; /* hostif link: identifies the last segment that emu_tap_peeked() recorded */
};

/* The taps of a worker. Owned by the worker while it runs. */
struct emu_taps {
    struct emu_tap_filter filter;
    enum emu_clock_mode clock;
    uint64_t credit_ps; /* time that a credit takes to reach the sender */
    struct emu_tap_iface *iface;
    struct emu_tap_ring *ring;
    uint64_t slots; /* number of slots of the ring, a power of two */
    uint64_t put;   /* records written */
    uint64_t taken; /* copy of ring->taken: may lag */
    uint32_t ends;
    struct emu_tap_end end[]; /* sorted by address */
};

/** emu_taps_sort - sort the ends. Call it after adding all ends, before the worker gets @taps. */
void emu_taps_sort(struct emu_taps *taps);

/* The device's worker calls the functions below for tapped links. They allocate no memory. */

/** emu_tap_sent - record that @entry was sent. entry->time_ps is its arrival; clock raw: 0. */
void emu_tap_sent(const struct emu_tx *tx, const struct emu_entry *entry);

/**
 * emu_tap_copied - clock raw: record that a segment was sent to a process by a copy into its ring.
 * @payload: may be NULL.
 */
void emu_tap_copied(const struct emu_tx *tx, const struct emu_hdr *hdr,
                    const struct emu_seg *payload);

/**
 * emu_tap_numbered - record that link-level retry sends @entry with sequence number @number. It
 * arrives at @there_ps. @again: it is a retransmission.
 */
void emu_tap_numbered(const struct emu_tx *tx, const struct emu_entry *entry, uint32_t number,
                      bool again, uint64_t there_ps);

/** emu_tap_took - record that the device took @entry from a process. */
void emu_tap_took(const struct emu_rx *rx, const struct emu_entry *entry);

/**
 * emu_tap_peeked - clock raw: record that the device reads segment number @at, which a process
 * posted to host interface @hostif (emu_hostif.serial). Further calls for this segment record
 * nothing.
 */
void emu_tap_peeked(const struct emu_rx *rx, uint32_t hostif, uint32_t at,
                    const struct emu_hdr *hdr, const struct emu_seg *payload);

/** emu_tap_credits - record that @count credits of @channel return and arrive at @there_ps. */
void emu_tap_credits(const struct emu_rx *rx, uint32_t count, uint32_t channel, uint64_t there_ps);

/**
 * emu_tap_answer - record link-level retry's ACK or NACK. @number: cumulative acknowledgment.
 * @answer: enum emu_answer.
 */
void emu_tap_answer(const struct emu_rx *rx, uint32_t number, uint32_t answer, uint64_t there_ps);

#endif
