/* SPDX-License-Identifier: BSD-3-Clause */
/* profile.h - the parameters of a machine: rates, delays, buffers, policies. */
#ifndef EMU_PROFILE_H
#define EMU_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/packet/seg.h"
#include "emu/util/clock.h"

#define EMU_XPOINT_MAX     64  /* buffers of a crosspoint at most */
#define EMU_RAW_SLOTS      16  /* clock raw: default of raw_xpoint_slots */
#define EMU_INPUT_MAX      255 /* buffers of an input at most; of a hostif link's EMU_XPOINT_MAX */
#define EMU_UNITS_MAX      16  /* combine units of a switch at most */
#define EMU_TREE_WIDTH_MAX 16
/* delay of a host's threads to allow for on clocks raw and real: 100 ms */
#define EMU_PATIENCE_PS 100000000000u

/* Only --bound can set these, no profile: no time-out of replies (28 h), endless retries. */
#define EMU_REPLY_NEVER_PS  UINT64_C(100000000000000000)
#define EMU_RETRIES_ENDLESS UINT32_MAX

/* Where a switch buffers segments, and so what a credit of a cable stands for. */
enum emu_buffers {
    EMU_BUFFERS_XPOINT,       /* crosspoints, as in the paper; see emu_credit_policy */
    EMU_BUFFERS_INPUT_XPOINT, /* an input FIFO, which feeds small crosspoints */
    EMU_BUFFERS_INPUT         /* inputs with virtual output queues and a central arbiter */
};

/* What a credit of crosspoint buffers means (docs/ARCHITECTURE.md, 4). */
enum emu_credit_policy {
    EMU_CREDIT_ROW,    /* withheld while the fullest crosspoint of the row and the wire need it */
    EMU_CREDIT_COUNTER /* withheld until the packet, or its last copy, has left */
};

/*
 * Adaptive routing policies: how a router chooses one of several candidate outputs. Each is a file
 * of that name in switch/policy/. docs/recipes.md says how to add one.
 */
#define EMU_CHOICES(CHOICE)        \
    CHOICE(NEXT_FREE, next_free)   \
    CHOICE(FIRST_FREE, first_free) \
    CHOICE(RANDOM, random)

#define EMU_CHOICE_OF(upper, lower) EMU_CHOICE_##upper,
enum emu_choice { EMU_CHOICES(EMU_CHOICE_OF) EMU_CHOICES_COUNT };
#undef EMU_CHOICE_OF

/* Protection of the partial results in a combine unit. */
enum emu_combine_check {
    EMU_COMBINE_CHECK_PARITY, /* a flipped bit is found when the state is next read */
    EMU_COMBINE_CHECK_NONE    /* none: a flipped bit gives a wrong result */
};

enum emu_combine_order {
    EMU_COMBINE_ARRIVAL, /* as in the paper */
    EMU_COMBINE_PORT     /* in port order: the same bits on every run */
};

/* Transport of packets by the network. */
enum emu_transport {
    EMU_TRANSPORT_NONE, /* segments arrive unless a fault loses them */
    /* QsNet III: virtual channels, kept until the ACK or NACK comes back */
    EMU_TRANSPORT_ACKNOWLEDGED
};

/* Without acknowledgments: how a cable between two switches recovers lost segments. */
enum emu_link_retry {
    EMU_LINK_RETRY_NONE,     /* not at all */
    EMU_LINK_RETRY_GO_BACK_N /* numbers and replay between neighbours: emu/retry/replay.h */
};

/* How one of several paths is chosen (QsNet III §I, §III). */
enum emu_routing {
    EMU_ROUTING_ADAPTIVE, /* per packet, by load: see enum emu_choice */
    EMU_ROUTING_STATIC,   /* the same for all packets to a destination */
    EMU_ROUTING_OBLIVIOUS /* per packet, at random */
};

/* How adapters carry out a barrier (QsNet III §IV-A). */
enum emu_barrier_by {
    /* one adapter tests all members with a network conditional, then broadcasts */
    EMU_BARRIER_BY_CONDITIONAL,
    EMU_BARRIER_BY_TREE /* combined up a tree of adapters: for late and uneven arrivals */
};

/*
 * What the fabric manager does when a switch has no route for a packet, and traps: edit the tables
 * of all other switches, as after any change of links, or take the switch's links down as well.
 * Source: QsNet III §III.
 */
enum emu_trap { EMU_TRAP_EDIT, EMU_TRAP_ISOLATE };

/* Where contributions are combined with acknowledged transport. Without, switches combine. */
enum emu_combining {
    EMU_COMBINING_ADAPTER, /* a tree of adapters: QsNet III §IV-A */
    EMU_COMBINING_SWITCH   /* a combine unit per switch: an addition to QsNet III */
};

struct emu_profile {
    char name[32];
    uint64_t link_ps_per_byte;  /* 800 at 10 Gb/s */
    uint64_t channel_ps;        /* cable: 20 ns */
    uint64_t switch_ps;         /* header in to header out: 90 ns */
    uint64_t nic_send_ps;       /* post to wire: latency, not occupancy */
    uint64_t nic_recv_ps;       /* wire to memory: latency, not occupancy */
    uint64_t credit_ps;         /* from a freed slot to a usable credit at the sender */
    uint64_t combine_header_ps; /* combine unit, per contribution: lookup, state, update */
    uint64_t combine_word_ps;   /* and per 8-byte word: 4 ns at 250 MHz */
    uint32_t combine_units;     /* per switch: 1, or a tree of units - 1 leaves and a root */
    uint32_t xpoint_slots;      /* segments in a crosspoint: 4 */
    uint32_t raw_xpoint_slots;  /* clock raw: for a pass of the threads; 0: by network size */
    uint32_t input_slots;       /* segments in an input's buffer, if inputs have one: 8 */
    uint32_t combine_states;    /* partial results per switch */
    uint32_t light_slots;       /* an output with fewer waiting segments is lightly loaded */
    enum emu_buffers buffers;
    enum emu_credit_policy credit;
    enum emu_choice choice;
    enum emu_combine_order combine_order;
    enum emu_combine_check combine_check;
    enum emu_routing routing;
    enum emu_link_retry link_retry;
    enum emu_trap trap;

    /* Acknowledged transport. */
    enum emu_transport transport;
    uint32_t packet_bytes;     /* payload per packet: 1024; at most 4096 */
    uint32_t raw_packet_bytes; /* clock raw, where only the number of packets costs time: 3840 */
    uint32_t channels;         /* virtual channels of a link: 32 */
    uint32_t pool_slots;       /* segments in a link's input beside one per channel: 16 */
    uint32_t raw_pool_slots;   /* the same on clock raw, for six packets per pass: 90 */
    uint32_t light_pending;    /* a link with fewer open channels is lightly loaded */
    uint64_t reply_timeout_ps; /* without a reply by then the packet or its reply was lost */
    uint64_t retry_ps;         /* delay before a packet is sent again, doubled each time */
    uint32_t retry_limit;      /* transmissions before a packet is given up */
    enum emu_combining combining;
    enum emu_barrier_by barrier; /* if adapters combine */
    uint32_t tree_width;         /* most children of an adapter in a tree of adapters */
    uint32_t vector_tree_width;  /* the same for groups with long vectors: 1, a chain */
};

/* --- properties of the transport: other code uses these and does not test it ----------- */

/**
 * emu_profile_acknowledged - does the network acknowledge packets? If so it also retransmits what
 * is lost, and hosts can ask for notifications (EMU_NOTIFY). Pure.
 */
static inline bool emu_profile_acknowledged(const struct emu_profile *profile)
{
    return profile->transport == EMU_TRANSPORT_ACKNOWLEDGED;
}

/** emu_profile_has_words - do groups have words, and conditionals that test them? Pure. */
static inline bool emu_profile_has_words(const struct emu_profile *profile)
{
    return profile->transport == EMU_TRANSPORT_ACKNOWLEDGED;
}

/** emu_profile_has_packets - do several segments travel as one packet with one header? Pure. */
static inline bool emu_profile_has_packets(const struct emu_profile *profile)
{
    return profile->transport == EMU_TRANSPORT_ACKNOWLEDGED;
}

/** emu_profile_has_engines - is there a link engine between a node and its cables? Pure. */
static inline bool emu_profile_has_engines(const struct emu_profile *profile)
{
    return profile->transport == EMU_TRANSPORT_ACKNOWLEDGED;
}

/** emu_profile_has_unit_engines - is a switch's combine unit behind a link engine, too? Pure. */
static inline bool emu_profile_has_unit_engines(const struct emu_profile *profile)
{
    return profile->transport == EMU_TRANSPORT_ACKNOWLEDGED &&
           profile->combining == EMU_COMBINING_SWITCH;
}

/** emu_profile_switches_combine - do switches have combine units? Else adapters combine. Pure. */
static inline bool emu_profile_switches_combine(const struct emu_profile *profile)
{
    return profile->transport == EMU_TRANSPORT_NONE || profile->combining == EMU_COMBINING_SWITCH;
}

/** emu_profile_barrier_queries - does a barrier use a network conditional? Pure. */
static inline bool emu_profile_barrier_queries(const struct emu_profile *profile)
{
    return !emu_profile_switches_combine(profile) && profile->barrier == EMU_BARRIER_BY_CONDITIONAL;
}

/** emu_profile_retries - do cables between switches retransmit what is lost on them? Pure. */
static inline bool emu_profile_retries(const struct emu_profile *profile)
{
    return profile->transport == EMU_TRANSPORT_NONE &&
           profile->link_retry == EMU_LINK_RETRY_GO_BACK_N;
}

/* --- times and profiles --------------------------------------------------------------- */

/** emu_wire_ps - wire time of a segment. */
static inline uint64_t emu_wire_ps(const struct emu_profile *profile, const struct emu_hdr *hdr)
{
    return (EMU_HDR_BYTES + hdr->len) * profile->link_ps_per_byte;
}

/**
 * emu_profile_load - load a built-in profile ("oq2004", "qsnet3") or a JSON file.
 * @what: a name, or a path (anything with a '/' or that ends in ".json"). A file names its base
 * with "base" and overrides the fields above; see docs/profiles.md.
 * Errors: -ENOENT, -EINVAL, with one line in @error.
 */
int emu_profile_load(struct emu_profile *ret, const char *what, char *error, size_t error_bytes);

/**
 * emu_profile_node_ps - replaces switch_ps on a cable from a switch to a node inside the fabric.
 * The node sees a segment as late as a switch would, but not after all of it is in memory, when the
 * node may forward it. With link engines no cable leads from a switch to a node. Pure.
 */
static inline uint64_t emu_profile_node_ps(const struct emu_profile *profile)
{
    uint64_t memory_ps = EMU_HDR_BYTES * profile->link_ps_per_byte + profile->nic_recv_ps;

    if (emu_profile_has_engines(profile) || memory_ps > profile->switch_ps)
        return profile->switch_ps;
    return memory_ps;
}

/**
 * emu_profile_lookahead_ps - the least time in which one device can act on another: the lesser of a
 * segment's time to the remote crosspoint or node, and a credit's. Pure.
 */
static inline uint64_t emu_profile_lookahead_ps(const struct emu_profile *profile)
{
    uint64_t flight_ps = profile->channel_ps + emu_profile_node_ps(profile);

    return flight_ps < profile->credit_ps ? flight_ps : profile->credit_ps;
}

/** emu_profile_credits - credits of a cable into a switch: the slots of its input. Pure. */
uint32_t emu_profile_credits(const struct emu_profile *profile);

/**
 * emu_profile_on - the profile as used on a clock. Pure. Raw: credits suffice for a pass, and
 * packets and pools have their raw_ sizes. Raw and real: as a host's threads may wait for a core,
 * the time-out is at least EMU_PATIENCE_PS and, on real, the time of packets on all channels of 16
 * links, up to 1 s.
 */
struct emu_profile emu_profile_on(const struct emu_profile *profile, enum emu_clock_mode mode);

/** emu_profile_each - call @fn for all fields in order; named values as numbers. */
void emu_profile_each(const struct emu_profile *profile,
                      void (*fn)(void *ctx, const char *name, uint64_t value), void *ctx);

/** emu_profile_set - set one field by "name=value". Errors: -EINVAL with one line in @error. */
int emu_profile_set(struct emu_profile *profile, const char *assignment, char *error,
                    size_t error_bytes);

/**
 * emu_profile_set_all - the same for @count assignments, raw_ fields last: other fields set the
 * raw_ field, too, unless that is given.
 */
int emu_profile_set_all(struct emu_profile *profile, const char *const *assignments, unsigned count,
                        char *error, size_t error_bytes);

/**
 * emu_profile_idle - is "name=value", as given to emu_profile_set(), without effect in this profile
 * on this clock? Returns what the field is for ("transport=acknowledged"), or NULL if it has an
 * effect or is no field. Pure.
 */
const char *emu_profile_idle(const struct emu_profile *profile, enum emu_clock_mode mode,
                             const char *assignment);

#endif
