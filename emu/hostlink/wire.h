/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.h - the records that host links say to each other.
 *
 * A record begins with 8 bytes: its kind, a byte that is the channel or says what follows, a length
 * of two bytes, and the cable it is of. Numbers are little-endian; what has no meaning is 0. All
 * that comes from the wire is checked by emu_hostlink_parse(), field by field, before anybody uses
 * it; whether an entry makes sense on its cable is for the device to say, which knows the cable.
 */
#ifndef EMU_HOSTLINK_WIRE_H
#define EMU_HOSTLINK_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/buffer/ring.h"

enum emu_hostlink_kind {
    EMU_HOSTLINK_ENTRY = 1, /* a segment, or a reply: descriptor, and the payload if it has one */
    EMU_HOSTLINK_CREDITS,   /* credits of a cable on their way back */
    EMU_HOSTLINK_TAKEN,     /* so many entries of a cable have left the far ring: its room */
    EMU_HOSTLINK_OLD,     /* before READY: so many segments of an earlier life have no credit yet */
    EMU_HOSTLINK_READY,   /* the sender's accounts begin anew: entries may come */
    EMU_HOSTLINK_CONTROL, /* bytes of the control channel, in order; none: its end */
    EMU_HOSTLINK_CONTROL_TAKEN, /* so many of them have been read: its room */
    EMU_HOSTLINK_CLOCK,         /* times, for the offset of the hosts' clocks */
    /* These two are of clock virtual alone (barrier.h), as is none of those above but ENTRY: */
    EMU_HOSTLINK_CREDIT_AT, /* credits of a cable, and the time at which they are there */
    EMU_HOSTLINK_STEP,      /* bytes for all hosts, and the end of a superstep */
    EMU_HOSTLINK_KINDS
};

/* A record, as it is once it has been checked. */
struct emu_hostlink_record {
    uint8_t kind;
    /* CREDITS, CREDIT_AT, OLD; below EMU_VCS, 0 on cables without channels. STEP: enum emu_step */
    uint8_t channel;
    uint32_t cable; /* number of the cable in this host link, both ends' the same */
    union {
        struct {                    /* ENTRY */
            struct emu_entry entry; /* without `buf` and `time_ps` */
            bool has_buf;           /* and so `payload`, maybe of 0 bytes */
            /*
             * The header and the note that lie with the payload in the sender's buffer, on cables
             * with channels (pool.h); NULL, 0: none do. In the frame, as is the payload.
             */
            const uint8_t *own_hdr;
            uint32_t note;
            const uint8_t *payload;
            uint32_t payload_bytes; /* 0 to EMU_PAYLOAD_BYTES */
            uint64_t at_ps;         /* entry.time_ps by the sender's monotonic clock, modulo 2^64 */
        };
        struct {
            uint32_t count;     /* CREDITS, CREDIT_AT, TAKEN, OLD, CONTROL_TAKEN: at least 1 */
            uint64_t credit_ps; /* CREDIT_AT: simulated time */
        };
        struct {
            const uint8_t *bytes; /* CONTROL, STEP: in the frame */
            uint32_t length;      /* 0 to EMU_HOSTLINK_CONTROL_BYTES */
        };
        struct {                  /* CLOCK, each by the monotonic clock of who wrote it down */
            uint64_t sent_ns;     /* when this record was written */
            uint64_t echo_ns;     /* sent_ns of the one that it answers; 0: it asks */
            uint64_t received_ns; /* and when that came */
        };
    };
};

/* What a STEP says of its host. */
enum emu_step {
    EMU_STEP_MORE, /* there is more of this superstep */
    EMU_STEP_LAST, /* that was all of it */
    EMU_STEP_FAIL, /* the host ends; the bytes are why, a line for the user */
    EMU_STEPS
};

#define EMU_HOSTLINK_HEAD_BYTES    8u
#define EMU_HOSTLINK_COUNT_BYTES   (EMU_HOSTLINK_HEAD_BYTES + 8u)  /* a record with a count */
#define EMU_HOSTLINK_ENTRY_BYTES   (EMU_HOSTLINK_HEAD_BYTES + 32u) /* without buffer */
#define EMU_HOSTLINK_CONTROL_BYTES 1024u /* of the control channel, in one record */
/* any record, at most */
#define EMU_HOSTLINK_RECORD_BYTES (EMU_HOSTLINK_HEAD_BYTES + EMU_HOSTLINK_CONTROL_BYTES)
/* and an entry */
#define EMU_HOSTLINK_ENTRY_MOST (EMU_HOSTLINK_ENTRY_BYTES + EMU_HDR_BYTES + EMU_PAYLOAD_BYTES)

/** emu_hostlink_bytes - of the record on the wire. Pure. */
uint32_t emu_hostlink_bytes(const struct emu_hostlink_record *record);

/** emu_hostlink_write - writes these bytes at @to. */
void emu_hostlink_write(uint8_t *to, const struct emu_hostlink_record *record);

/**
 * emu_hostlink_parse - the record at @from, of at most @bytes. Returns its bytes on the wire, or 0:
 * it is malformed, and so is what follows. @cables: cables are below; READY and what is not of a
 * cable has 0. *ret is written only on success. Pure.
 */
uint32_t emu_hostlink_parse(const uint8_t *from, uint32_t bytes, uint32_t cables,
                            struct emu_hostlink_record *ret);

#endif
