/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.h - the records that host links exchange.
 *
 * A record begins with a head of 8 bytes: its kind, a byte with the channel or flags, a length of
 * two bytes, and the cable. Numbers are little-endian; unused fields are 0. emu_hostlink_parse()
 * checks every field of a received record before use. Whether an entry is valid on its cable is
 * checked by the device, which knows the cable.
 */
#ifndef EMU_HOSTLINK_WIRE_H
#define EMU_HOSTLINK_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/buffer/ring.h"

enum emu_hostlink_kind {
    EMU_HOSTLINK_ENTRY = 1, /* a segment or reply: descriptor, and payload if any */
    EMU_HOSTLINK_CREDITS,   /* credits of a cable, returned to the sender */
    EMU_HOSTLINK_TAKEN,     /* number of entries of a cable that have left the receiver's ring */
    EMU_HOSTLINK_OLD,   /* before READY: segments of an earlier incarnation without a credit yet */
    EMU_HOSTLINK_READY, /* the sender's counts are reset: entries may be sent to it */
    EMU_HOSTLINK_CONTROL,       /* bytes of the control channel, in order; none: end of file */
    EMU_HOSTLINK_CONTROL_TAKEN, /* number of control bytes that were read */
    EMU_HOSTLINK_CLOCK,         /* times to compute the offset of the hosts' clocks */
    /* For clock virtual only (barrier.h), which uses none of the kinds above but ENTRY: */
    EMU_HOSTLINK_CREDIT_AT, /* credits of a cable, and the time of their arrival */
    EMU_HOSTLINK_STEP,      /* bytes for all hosts, and the end of a superstep */
    EMU_HOSTLINK_KINDS
};

/* A parsed and checked record. */
struct emu_hostlink_record {
    uint8_t kind;
    /* CREDITS, CREDIT_AT, OLD: below EMU_VCS, 0 on cables without channels. STEP: enum emu_step. */
    uint8_t channel;
    uint32_t cable; /* index of the cable in this host link, the same on both hosts */
    union {
        struct {                    /* ENTRY */
            struct emu_entry entry; /* without `buf` and `time_ps` */
            bool has_buf;           /* then `payload` is set, even if it has 0 bytes */
            /*
             * On cables with channels: the header and note stored with the payload in the sender's
             * buffer (pool.h), else NULL and 0. `own_hdr` and `payload` point into the frame.
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
            const uint8_t *bytes; /* CONTROL, STEP: in the frame */
            uint32_t length;      /* 0 to EMU_HOSTLINK_CONTROL_BYTES */
        };
        struct {                  /* CLOCK: each on the monotonic clock of the host that read it */
            uint64_t sent_ns;     /* when this record was written */
            uint64_t echo_ns;     /* sent_ns of the query that this answers; 0: this is a query */
            uint64_t received_ns; /* arrival time of that query */
        };
    };
};

/* The meaning of a STEP record. */
enum emu_step {
    EMU_STEP_MORE, /* more bytes of this superstep follow */
    EMU_STEP_LAST, /* the superstep ends here */
    EMU_STEP_FAIL, /* the host gives up; the bytes are the reason, a line for the user */
    EMU_STEPS
};

#define EMU_HOSTLINK_HEAD_BYTES    8u
#define EMU_HOSTLINK_COUNT_BYTES   (EMU_HOSTLINK_HEAD_BYTES + 8u)  /* a record with a count */
#define EMU_HOSTLINK_ENTRY_BYTES   (EMU_HOSTLINK_HEAD_BYTES + 32u) /* without buffer */
#define EMU_HOSTLINK_CONTROL_BYTES 1024u /* most payload bytes of CONTROL and STEP */
/* the largest record */
#define EMU_HOSTLINK_RECORD_BYTES (EMU_HOSTLINK_HEAD_BYTES + EMU_HOSTLINK_CONTROL_BYTES)
/* the largest entry */
#define EMU_HOSTLINK_ENTRY_MOST (EMU_HOSTLINK_ENTRY_BYTES + EMU_HDR_BYTES + EMU_PAYLOAD_BYTES)

/** emu_hostlink_bytes - bytes of the record on the wire. Pure. */
uint32_t emu_hostlink_bytes(const struct emu_hostlink_record *record);

/** emu_hostlink_write - write these bytes at @to. */
void emu_hostlink_write(uint8_t *to, const struct emu_hostlink_record *record);

/**
 * emu_hostlink_parse - parse the record at @from, of at most @bytes. Returns its length, or 0 if it
 * is malformed: then nothing after it can be parsed either. @cables: cable numbers are lower;
 * records without a cable have 0. *ret is written only on success. Pure.
 */
uint32_t emu_hostlink_parse(const uint8_t *from, uint32_t bytes, uint32_t cables,
                            struct emu_hostlink_record *ret);

#endif
