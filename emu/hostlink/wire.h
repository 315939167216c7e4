/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.h - the records that host links exchange. A frame of a session contains one or more of them.
 *
 * A record begins with a head of 8 bytes: its kind, a byte with the channel or flags, a length of
 * two bytes, and the cable. Numbers are little-endian; unused fields are 0. emu_hostlink_parse()
 * checks all fields of a received record, but not whether an entry is valid on its cable: the
 * device checks that, because it knows the cable.
 */
#ifndef EMU_HOSTLINK_WIRE_H
#define EMU_HOSTLINK_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/buffer/ring.h"

enum emu_hostlink_kind {
    EMU_HOSTLINK_ENTRY = 1, /* a segment or reply: its header, and its payload if it has one */
    EMU_HOSTLINK_CREDITS,   /* credits of a cable, which return to the sender */
    EMU_HOSTLINK_TAKEN,     /* how many entries of a cable have left the receiver's ring */
    /* sent before READY: number of a channel's segments that were received before the session went
       down, and whose credits the switch has not returned yet */
    EMU_HOSTLINK_OLD,
    EMU_HOSTLINK_READY, /* the sender of the record has reset its counts, and can receive entries */
    EMU_HOSTLINK_CONTROL,       /* bytes of the control channel, in order; 0 bytes: end of file */
    EMU_HOSTLINK_CONTROL_TAKEN, /* how many control bytes the receiver has written to its socket */
    EMU_HOSTLINK_CLOCK,         /* a query of the other host's clock, or the answer */
    /* only for clock virtual (barrier.h), which uses ENTRY and no other kind above */
    EMU_HOSTLINK_CREDIT_AT, /* credits of a cable, and the simulated time of their arrival */
    EMU_HOSTLINK_STEP,      /* bytes for all hosts, and whether the superstep ends */
    EMU_HOSTLINK_KINDS
};

/* A record, parsed and checked. */
struct emu_hostlink_record {
    uint8_t kind;
    /*
     * CREDITS, CREDIT_AT, OLD: the channel, below EMU_VCS; 0 on cables without channels. STEP: enum
     * emu_step.
     */
    uint8_t channel;
    uint32_t cable; /* index of the cable in the session, which is the same on both hosts */
    union {
        struct {                    /* ENTRY */
            struct emu_entry entry; /* `buf` and `time_ps` are unused */
            /* the entry has a pool buffer, so `payload` is set, perhaps to 0 bytes */
            bool has_buf;
            /*
             * On cables with channels: the segment header in the sender's buffer, which may differ
             * from that of the entry, and the note of that buffer (pool.h). On other cables: NULL
             * and 0. In a received record `own_hdr` and `payload` point into the frame.
             */
            const uint8_t *own_hdr;
            uint32_t note;
            const uint8_t *payload;
            uint32_t payload_bytes; /* 0 to EMU_PAYLOAD_BYTES */
            uint64_t at_ps;         /* entry.time_ps on the sender's monotonic clock, modulo 2^64 */
        };
        struct {
            uint32_t count;     /* CREDITS, CREDIT_AT, TAKEN, OLD, CONTROL_TAKEN: at least 1 */
            uint64_t credit_ps; /* CREDIT_AT: simulated time */
        };
        struct {
            const uint8_t *bytes; /* CONTROL, STEP; in a received record, part of the frame */
            uint32_t length;      /* 0 to EMU_HOSTLINK_CONTROL_BYTES */
        };
        struct {                  /* CLOCK; each host uses its own monotonic clock */
            uint64_t sent_ns;     /* when the sender wrote this record */
            uint64_t echo_ns;     /* answer: sent_ns of the query; 0: this record is a query */
            uint64_t received_ns; /* answer: when that query arrived */
        };
    };
};

enum emu_step {
    EMU_STEP_MORE, /* more bytes of this superstep follow */
    EMU_STEP_LAST, /* the superstep ends here */
    EMU_STEP_FAIL, /* the host has failed; the bytes are the reason, a line for the user */
    EMU_STEP_BUSY, /* the host is still working on the superstep; the record has no bytes */
    EMU_STEPS
};

#define EMU_HOSTLINK_HEAD_BYTES    8u
#define EMU_HOSTLINK_COUNT_BYTES   (EMU_HOSTLINK_HEAD_BYTES + 8u)  /* a record with a count */
#define EMU_HOSTLINK_ENTRY_BYTES   (EMU_HOSTLINK_HEAD_BYTES + 32u) /* an entry without a payload */
#define EMU_HOSTLINK_CONTROL_BYTES 1024u /* maximum number of payload bytes of CONTROL and STEP */
#define EMU_HOSTLINK_RECORD_BYTES  (EMU_HOSTLINK_HEAD_BYTES + EMU_HOSTLINK_CONTROL_BYTES)
#define EMU_HOSTLINK_ENTRY_MOST    (EMU_HOSTLINK_ENTRY_BYTES + EMU_HDR_BYTES + EMU_PAYLOAD_BYTES)

/** emu_hostlink_bytes - return the number of bytes of the record on the wire. Pure. */
uint32_t emu_hostlink_bytes(const struct emu_hostlink_record *record);

/** emu_hostlink_write - write the record to the emu_hostlink_bytes() bytes at @to. */
void emu_hostlink_write(uint8_t *to, const struct emu_hostlink_record *record);

/**
 * emu_hostlink_parse - parse the record at @from, of at most @bytes. Returns its number of bytes,
 * or 0 if it is malformed; then the records after it cannot be parsed, either. A cable number must
 * be below @cables, or 0 in a record without a cable. *@ret is written only on success. Pure.
 */
uint32_t emu_hostlink_parse(const uint8_t *from, uint32_t bytes, uint32_t cables,
                            struct emu_hostlink_record *ret);

#endif
