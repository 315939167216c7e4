/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * profile.h - the numbers of a machine: rates, delays, buffers, policies.
 */
#ifndef EMU_PROFILE_H
#define EMU_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/packet/seg.h"
#include "emu/util/clock.h"

#define EMU_XPOINT_MAX     64  /* buffers of a crosspoint, at most */
#define EMU_RAW_SLOTS      16  /* on clock raw, if raw_xpoint_slots is 0 and nobody knows better */
#define EMU_INPUT_MAX      255 /* buffers of an input, at most; of an edge's EMU_XPOINT_MAX */
#define EMU_UNITS_MAX      16  /* combine units of a switch, at most */
#define EMU_TREE_WIDTH_MAX 16
/* a host's threads may be this late, clock raw and real: 100 ms */
#define EMU_PATIENCE_PS 100000000000u

/* What profile files cannot say, but --bound can: no time-out of replies (28 h), no last try. */
#define EMU_REPLY_NEVER_PS  UINT64_C(100000000000000000)
#define EMU_RETRIES_ENDLESS UINT32_MAX

/* Where a switch keeps segments, and so what a credit of a cable stands for. */
enum emu_buffers {
    EMU_BUFFERS_XPOINT,       /* at crosspoints: the paper's router; emu_credit_policy says more */
    EMU_BUFFERS_INPUT_XPOINT, /* a slot in the input's FIFO, which feeds small crosspoints */
    EMU_BUFFERS_INPUT         /* a slot at the input: virtual output queues, a central arbiter */
};

/* What a credit of crosspoint buffers means (docs/ARCHITECTURE.md, 4). */
enum emu_credit_policy {
    EMU_CREDIT_ROW,    /* owed while the row's fullest crosspoint and the wire take it */
    EMU_CREDIT_COUNTER /* owed until the packet, or its last copy, has left */
};

/*
 * The adaptive routing policies: how a router chooses one of several candidate outputs. Each is a
 * file in switch/policy/ with the name that is given here. docs/recipes.md says how to add one.
 */
#define EMU_CHOICES(CHOICE)        \
    CHOICE(NEXT_FREE, next_free)   \
    CHOICE(FIRST_FREE, first_free) \
    CHOICE(RANDOM, random)

#define EMU_CHOICE_OF(upper, lower) EMU_CHOICE_##upper,
enum emu_choice { EMU_CHOICES(EMU_CHOICE_OF) EMU_CHOICES_COUNT };
#undef EMU_CHOICE_OF

/* What a combine unit has with each word of the partial results that it keeps. */
enum emu_combine_check {
    EMU_COMBINE_CHECK_PARITY, /* a bit that has flipped is found when the state is next read */
    EMU_COMBINE_CHECK_NONE    /* nothing: the result is wrong, and nobody finds out */
};

enum emu_combine_order {
    EMU_COMBINE_ARRIVAL, /* as in the paper */
    EMU_COMBINE_PORT     /* in port order: the same bits on every run */
};

/* What the network does for a packet. */
enum emu_transport {
    EMU_TRANSPORT_NONE, /* segments go their way, and arrive because nothing is ever lost */
    /* QsNet III: virtual channels, held until the ACK or NACK comes back */
    EMU_TRANSPORT_ACKNOWLEDGED
};

/* Without acknowledgments: how a cable between two switches mends what it loses. */
enum emu_link_retry {
    EMU_LINK_RETRY_NONE,     /* not at all: what a fault hits is lost */
    EMU_LINK_RETRY_GO_BACK_N /* numbers and replay between neighbours: emu/retry/replay.h */
};

/* How one of several ways is chosen (QsNet III §I, §III). */
enum emu_routing {
    EMU_ROUTING_ADAPTIVE, /* packet by packet, by load: see enum emu_choice */
    EMU_ROUTING_STATIC,   /* the same for all packets to a destination */
    EMU_ROUTING_OBLIVIOUS /* packet by packet, at random, whatever the load */
};

/* How adapters carry out a barrier (QsNet III §IV-A). */
enum emu_barrier_by {
    /* one of them tests all with a network conditional, then broadcasts */
    EMU_BARRIER_BY_CONDITIONAL,
    EMU_BARRIER_BY_TREE /* a tree of adapters counts them: for late and uneven arrivals */
};

/*
 * What the fabric manager does when a switch has no way for a packet, and traps: edit the tables of
 * its neighbours and all others, as it does whenever links change, or take the switch's links down
 * as well. Source: QsNet III §III.
 */
enum emu_trap { EMU_TRAP_EDIT, EMU_TRAP_ISOLATE };

/* Who combines where packets are acknowledged. Without, switches do. */
enum emu_combining {
    EMU_COMBINING_ADAPTER, /* a tree of adapters: QsNet III §IV-A */
    EMU_COMBINING_SWITCH   /* a combine unit in each switch: an addition to QsNet III */
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
                                   host's threads and not 200 ns; 0: as the network's size is */
    uint32_t input_slots;       /* segments an input's buffer holds, where inputs have one: 8 */
    uint32_t combine_states;    /* partial results that one switch can hold */
    uint32_t light_slots;       /* an output with fewer segments waiting is lightly loaded */
    enum emu_buffers buffers;
    enum emu_credit_policy credit;
    enum emu_choice choice;
    enum emu_combine_order combine_order;
    enum emu_combine_check combine_check;
    enum emu_routing routing;
    enum emu_link_retry link_retry;
    enum emu_trap trap;

    /* Transport with acknowledgments. */
    enum emu_transport transport;
    uint32_t packet_bytes;     /* payload that an adapter puts into a packet: 1024; at most 4096 */
    uint32_t raw_packet_bytes; /* the same under clock raw, where only the number of packets takes
                                  time: 3840 */
    uint32_t channels;         /* virtual channels of a link: 32 */
    uint32_t pool_slots;       /* segments that a link's input holds beside one a channel: 16 */
    uint32_t raw_pool_slots;   /* the same under clock raw, for six packets a pass: 90 */
    uint32_t light_pending;    /* a link with fewer open channels is lightly loaded */
    uint64_t reply_timeout_ps; /* no reply by then: the packet, or its reply, was lost */
    uint64_t retry_ps;         /* a packet is sent again after that, doubled with each try, */
    uint32_t retry_limit;      /* and given up after so many tries */
    enum emu_combining combining;
    enum emu_barrier_by barrier; /* where adapters do it */
    uint32_t tree_width;         /* adapters below one in a tree of adapters, at most */
    uint32_t vector_tree_width;  /* the same where a group is for long vectors: 1, a chain */
};

/* --- what a transport does: these know them, and nobody else looks which one it is ---- */

/** emu_profile_acknowledged - does the network acknowledge packets? Pure. */
static inline bool emu_profile_acknowledged(const struct emu_profile *profile)
{
    return profile->transport == EMU_TRANSPORT_ACKNOWLEDGED;
}

/**
 * emu_profile_notifies - is a host told when all receivers have a segment of its (EMU_NOTIFY)?
 * Pure.
 */
static inline bool emu_profile_notifies(const struct emu_profile *profile)
{
    return profile->transport == EMU_TRANSPORT_ACKNOWLEDGED;
}

/** emu_profile_has_words - have groups words, and conditionals that read them? Pure. */
static inline bool emu_profile_has_words(const struct emu_profile *profile)
{
    return profile->transport == EMU_TRANSPORT_ACKNOWLEDGED;
}

/** emu_profile_has_packets - do several segments travel as one packet, behind one head? Pure. */
static inline bool emu_profile_has_packets(const struct emu_profile *profile)
{
    return profile->transport == EMU_TRANSPORT_ACKNOWLEDGED;
}

/** emu_profile_resends - is sent again what was lost or damaged on its way? Pure. */
static inline bool emu_profile_resends(const struct emu_profile *profile)
{
    return profile->transport == EMU_TRANSPORT_ACKNOWLEDGED;
}

/** emu_profile_has_engines - is there a link engine between a node and its cables? Pure. */
static inline bool emu_profile_has_engines(const struct emu_profile *profile)
{
    return profile->transport == EMU_TRANSPORT_ACKNOWLEDGED;
}

/** emu_profile_has_unit_engines - is a switch's combine unit a link engine, too? Pure. */
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

/** emu_profile_barrier_asks - does a network conditional find out who has come? Pure. */
static inline bool emu_profile_barrier_asks(const struct emu_profile *profile)
{
    return !emu_profile_switches_combine(profile) && profile->barrier == EMU_BARRIER_BY_CONDITIONAL;
}

/** emu_profile_retries - do cables between switches send again what was lost on them? Pure. */
static inline bool emu_profile_retries(const struct emu_profile *profile)
{
    return profile->transport == EMU_TRANSPORT_NONE &&
           profile->link_retry == EMU_LINK_RETRY_GO_BACK_N;
}

/* --- times, and how a profile is made ------------------------------------------------- */

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
 * emu_profile_node_ps - what a cable from a switch to a node inside the fabric has in the place of
 * switch_ps: the node is shown a segment as late as a switch would be, but never after the segment
 * lies in its memory, when it may pass it on. With link engines no cable leads from a switch to a
 * node. Pure.
 */
static inline uint64_t emu_profile_node_ps(const struct emu_profile *profile)
{
    uint64_t memory_ps = EMU_HDR_BYTES * profile->link_ps_per_byte + profile->nic_recv_ps;

    if (emu_profile_has_engines(profile) || memory_ps > profile->switch_ps)
        return profile->switch_ps;
    return memory_ps;
}

/**
 * emu_profile_lookahead_ps - the least time in which one device can act on another: what a segment
 * takes to the far end's crosspoint or node, or a credit back, whichever is less. Pure.
 */
static inline uint64_t emu_profile_lookahead_ps(const struct emu_profile *profile)
{
    uint64_t flight_ps = profile->channel_ps + emu_profile_node_ps(profile);

    return flight_ps < profile->credit_ps ? flight_ps : profile->credit_ps;
}

/** emu_profile_credits - credits of a cable into a switch: what its input has room for. Pure. */
uint32_t emu_profile_credits(const struct emu_profile *profile);

/**
 * emu_profile_on - the profile as a clock runs it. Pure.
 * Raw: the credits of a cable are for a pass, and packets and pools are those of the fields for
 * raw. Raw and real: a host's threads may have to wait for a
 * core, so no time-out is shorter than EMU_PATIENCE_PS; nor, on real, than packets on all channels
 * of 16 links take, up to 1 s.
 */
struct emu_profile emu_profile_on(const struct emu_profile *profile, enum emu_clock_mode mode);

/** emu_profile_each - all fields by their names, in one order; named values as numbers. */
void emu_profile_each(const struct emu_profile *profile,
                      void (*fn)(void *ctx, const char *name, uint64_t value), void *ctx);

/**
 * emu_profile_set - override one field by "name=value" text, as --set does. Errors: -EINVAL with
 * one line.
 */
int emu_profile_set(struct emu_profile *profile, const char *assignment, char *error,
                    size_t error_bytes);

/**
 * emu_profile_set_all - the same of @count of them, in order, but those of clock raw alone, raw_*,
 * last: what is set for all clocks is set for raw, too, unless its own field is.
 */
int emu_profile_set_all(struct emu_profile *profile, const char *const *assignments, unsigned count,
                        char *error, size_t error_bytes);

/**
 * emu_profile_idle - is "name=value", as emu_profile_set() took it, one that nothing looks at in
 * @profile's machine on this clock? Returns what the field is for ("transport=acknowledged"), or
 * NULL: it plays a part, or there is no such field. Pure.
 */
const char *emu_profile_idle(const struct emu_profile *profile, enum emu_clock_mode mode,
                             const char *assignment);

#endif
