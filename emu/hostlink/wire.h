/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.h - the records that host links say to each other.
 *
 * A record begins with its kind and the cable it is of; numbers are little-endian. All that comes
 * from the wire is checked by emu_hostlink_parse(), field by field, before anybody uses it.
 */
#ifndef EMU_HOSTLINK_WIRE_H
#define EMU_HOSTLINK_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/link/ring.h"

enum emu_hostlink_kind {
    EMU_HOSTLINK_ENTRY = 1, /* a segment, or a reply: descriptor, and the payload if it has one */
    EMU_HOSTLINK_CREDITS,   /* credits of a cable on their way back */
    EMU_HOSTLINK_TAKEN,     /* so many entries of a cable have left the far ring: its room */
    EMU_HOSTLINK_CONTROL,   /* bytes of the control channel, in order */
    EMU_HOSTLINK_CONTROL_TAKEN, /* so many of them have been read: its room */
    EMU_HOSTLINK_CLOCK          /* times, for the offset of the hosts' clocks */
};

/* A record, as it is once it has been checked. */
struct emu_hostlink_record {
    uint8_t kind;
    uint32_t cable; /* number of the cable in this host link, both ends' the same */
    union {
        struct {
            struct emu_entry entry; /* buf: EMU_NO_BUF */
            const uint8_t *payload; /* in the frame */
            uint32_t payload_bytes; /* 0 to EMU_PAYLOAD_BYTES */
        };
        struct {
            uint32_t count; /* CREDITS, TAKEN, CONTROL_TAKEN */
            uint32_t channel;
            uint64_t time_ps;
        };
        struct {
            const uint8_t *bytes; /* CONTROL */
            uint32_t length;
        };
        uint64_t
            clock_ns[3]; /* CLOCK: sent here, and of the last that came: sent there, came here */
    };
};

#define EMU_HOSTLINK_ENTRY_BYTES  (8u + 32u) /* without payload */
#define EMU_HOSTLINK_RECORD_BYTES (EMU_HOSTLINK_ENTRY_BYTES + EMU_PAYLOAD_BYTES) /* at most */

/** emu_hostlink_bytes - of the record on the wire. Pure. */
uint32_t emu_hostlink_bytes(const struct emu_hostlink_record *record);

/** emu_hostlink_write - writes these bytes at @to. */
void emu_hostlink_write(uint8_t *to, const struct emu_hostlink_record *record);

/**
 * emu_hostlink_parse - the record at @from, of at most @bytes. Returns its bytes on the wire, or 0:
 * it is malformed, and so is what follows. @cables: cables are below. Pure.
 */
uint32_t emu_hostlink_parse(const uint8_t *from, uint32_t bytes, uint32_t cables,
                            struct emu_hostlink_record *ret);

#endif
