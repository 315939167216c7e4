/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * profile.h - the numbers of a machine: rates, delays, buffers, policies.
 */
#ifndef EMU_PROFILE_H
#define EMU_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "emu/seg.h"

#define EMU_XPOINT_MAX 16 /* buffers of a crosspoint, at most */
#define EMU_INPUT_MAX  255 /* buffers of an input, at most; of an edge's EMU_XPOINT_MAX */
#define EMU_UNITS_MAX  16 /* combine units of a switch, at most */

/* Where a switch keeps segments, and so what a credit of a cable stands for. */
enum emu_buffers {
    EMU_BUFFERS_XPOINT,       /* at crosspoints: the paper's router; emu_credit_policy says more */
    EMU_BUFFERS_INPUT_XPOINT, /* a place in the input's FIFO, which feeds small crosspoints */
    EMU_BUFFERS_INPUT         /* a place at the input: virtual output queues, a central arbiter */
};

/* What a credit of crosspoint buffers means (FACTS A, "Two readings of the credit counter"). */
enum emu_credit_policy {
    EMU_CREDIT_ROW,    /* owed while the row's fullest crosspoint and the wire take it */
    EMU_CREDIT_COUNTER /* owed until the packet, or its last copy, has left */
};

/* How an output is chosen from several candidates. */
enum emu_choice {
    EMU_CHOICE_NEXT_FREE,  /* the next in turn of the lightly loaded ones */
    EMU_CHOICE_FIRST_FREE, /* the lowest of them */
    EMU_CHOICE_RANDOM
};

enum emu_combine_order {
    EMU_COMBINE_ARRIVAL, /* as in the paper */
    EMU_COMBINE_PORT     /* in port order: the same bits on every run */
};

struct emu_profile {
    char name[32];
    uint64_t link_ps_per_byte;  /* 800 at 10 Gb/s */
    uint64_t channel_ps;        /* cable: 20 ns */
    uint64_t switch_ps;         /* header in to header out: 90 ns */
    uint64_t nic_send_ps;       /* post to wire: latency, not occupancy */
    uint64_t nic_recv_ps;       /* wire to memory: latency, not occupancy */
    uint64_t credit_ps;         /* from the moment that frees the room until the sender may use the
                                   credit: the way back, and the switch there */
    uint64_t combine_header_ps; /* combine unit, per contribution: control register, lookup, state,
                                   update */
    uint64_t combine_word_ps;   /* and per 8-byte word: 4 ns at 250 MHz */
    uint32_t combine_units;     /* units of a switch: 1, or a tree of units - 1 leaves and a root */
    uint32_t xpoint_slots;      /* segments a crosspoint holds: 4 */
    uint32_t raw_xpoint_slots;  /* the same under clock raw, where a round trip is a pass of the
                                   host's threads and not 200 ns: 16 */
    uint32_t input_slots;       /* segments an input's buffer holds, where inputs have one: 8 */
    uint32_t combine_states;    /* partial results that one switch can hold */
    uint32_t light_slots;       /* an output with fewer segments waiting is lightly loaded */
    enum emu_buffers buffers;
    enum emu_credit_policy credit;
    enum emu_choice choice;
    enum emu_combine_order combine_order;
};

/** emu_wire_ps - how long a segment takes the wire. */
static inline uint64_t emu_wire_ps(const struct emu_profile *profile, const struct emu_hdr *hdr)
{
    return (EMU_HDR_BYTES + hdr->len) * profile->link_ps_per_byte;
}

/**
 * emu_profile_load - a profile by name ("oq2004", "qsnet3"), or from a JSON file.
 * @what: a built-in name, or a path (anything with a '/' or that ends in ".json"). A file names
 *        its base with "base" and overrides fields by their names above; see docs/profiles.md.
 * Errors: -ENOENT, -EINVAL, with one line in @error.
 */
int emu_profile_load(struct emu_profile *ret, const char *what, char *error, size_t error_bytes);

/**
 * emu_profile_lookahead_ps - the least time in which one device can act on another: what a segment
 * takes to the far end's crosspoint, or a credit back, whichever is less. Pure.
 */
static inline uint64_t emu_profile_lookahead_ps(const struct emu_profile *profile)
{
    uint64_t flight_ps = profile->channel_ps + profile->switch_ps;

    return flight_ps < profile->credit_ps ? flight_ps : profile->credit_ps;
}

/** emu_profile_credits - credits of a cable into a switch: what its input has room for. Pure. */
static inline uint32_t emu_profile_credits(const struct emu_profile *profile)
{
    return profile->buffers == EMU_BUFFERS_XPOINT ? profile->xpoint_slots : profile->input_slots;
}

/**
 * emu_profile_for_raw - the profile as clock raw runs it: the credits of a cable are for a pass.
 * Pure.
 */
struct emu_profile emu_profile_for_raw(const struct emu_profile *profile);

/** emu_profile_set - override one field by "name=value" text, as --set does. Errors: -EINVAL with one line. */
int emu_profile_set(struct emu_profile *profile, const char *assignment, char *error,
                    size_t error_bytes);

#endif
