/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * profile.h - the parameters of the emulated hardware: rates, delays, buffers, policies. A number
 * in the comment of a field is its value in the built-in profile oq2004.
 */
#ifndef EMU_PROFILE_H
#define EMU_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/packet/seg.h"
#include "emu/util/clock.h"

#define EMU_XPOINT_MAX     64  /* maximum number of buffers of a crosspoint */
#define EMU_RAW_SLOTS      16  /* emu_profile_on() uses it if raw_xpoint_slots is 0 */
#define EMU_INPUT_MAX      255 /* maximum buffers of an input; EMU_XPOINT_MAX at a hostif link */
#define EMU_UNITS_MAX      16  /* maximum number of combine units of a switch */
#define EMU_TREE_WIDTH_MAX 16
#define EMU_TREES_MAX      8             /* maximum value of broadcast_trees */
#define EMU_HOST_DELAY_PS  100000000000u /* 100 ms: a thread of the host may be delayed this long */

/* Only --bound can set these values. They disable time-outs of replies and the limit of retries. */
#define EMU_REPLY_NEVER_PS  UINT64_C(100000000000000000)
#define EMU_RETRIES_ENDLESS UINT32_MAX

/* Where a switch buffers segments. A credit of a cable stands for a buffer. */
enum emu_buffers {
    EMU_BUFFERS_XPOINT,       /* in crosspoints, as in the paper; see emu_credit_policy */
    EMU_BUFFERS_INPUT_XPOINT, /* in a FIFO per input, which feeds small crosspoints */
    EMU_BUFFERS_INPUT         /* in inputs with virtual output queues and a central arbiter */
};

/* What a credit of crosspoint buffers stands for (docs/ARCHITECTURE.md, section 4). */
enum emu_credit_policy {
    /* a slot in every crosspoint of the input; it returns when the fullest one has a free slot */
    EMU_CREDIT_ROW,
    EMU_CREDIT_COUNTER /* a segment at the switch; it returns when the last copy has left */
};

/*
 * Policies of adaptive routing: how a switch chooses one of several candidate outputs. Each policy
 * is a file in switch/policy/. docs/recipes.md explains how to add one.
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
    EMU_COMBINE_CHECK_PARITY, /* a flipped bit is detected when the state is next read */
    EMU_COMBINE_CHECK_NONE    /* a flipped bit gives a wrong result */
};

/* The order in which a combine unit combines contributions. */
enum emu_combine_order {
    EMU_COMBINE_ARRIVAL, /* as they arrive, as in the paper */
    EMU_COMBINE_PORT     /* by port, so that every run gives the same bits */
};

/* How the network transports packets. */
enum emu_transport {
    EMU_TRANSPORT_NONE,        /* segments without acknowledgments */
    EMU_TRANSPORT_ACKNOWLEDGED /* packets on virtual channels, as in QsNet III */
};

/* How a cable between two switches recovers lost segments; only with EMU_TRANSPORT_NONE. */
enum emu_link_retry {
    EMU_LINK_RETRY_NONE,
    /* each end of the cable numbers its segments, and sends lost ones again: emu/retry/replay.h */
    EMU_LINK_RETRY_GO_BACK_N
};

/* How a switch chooses one of several paths (QsNet III §I, §III). */
enum emu_routing {
    EMU_ROUTING_ADAPTIVE, /* per packet, by load: see enum emu_choice */
    EMU_ROUTING_STATIC,   /* the same for all packets to a destination */
    EMU_ROUTING_OBLIVIOUS /* per packet, at random */
};

/* How adapters carry out a barrier (QsNet III §IV-A). */
enum emu_barrier_by {
    EMU_BARRIER_BY_CONDITIONAL, /* an adapter tests all members, and then broadcasts the end */
    EMU_BARRIER_BY_TREE /* adapters combine in a tree; faster if members do not arrive together */
};

/* What the fabric does if a switch has no route for a packet (a trap). Source: QsNet III §III. */
enum emu_trap {
    EMU_TRAP_EDIT,   /* change the tables of all other switches, as after a change of links */
    EMU_TRAP_ISOLATE /* take down the links of the switch as well */
};

/*
 * Where contributions are combined if the transport is EMU_TRANSPORT_ACKNOWLEDGED. With
 * EMU_TRANSPORT_NONE, switches combine them.
 */
enum emu_combining {
    EMU_COMBINING_ADAPTER, /* a tree of adapters: QsNet III §IV-A */
    EMU_COMBINING_SWITCH   /* a combine unit per switch: an addition to QsNet III */
};

struct emu_profile {
    char name[32];
    uint64_t link_ps_per_byte; /* 800 at 10 Gb/s */
    uint64_t channel_ps;       /* delay of a cable: 20 ns */
    uint64_t switch_ps;        /* delay of a switch, from header in to header out: 90 ns */
    uint64_t nic_send_ps;      /* from post to wire; other segments may overlap with this time */
    uint64_t nic_recv_ps;      /* from wire to memory; other segments may overlap with this time */
    uint64_t call_ps;          /* clock virtual: time of a libfabemu call: 0, see nic_send_ps */
    uint64_t credit_ps;        /* from a freed slot to a usable credit at the sender */
    /* fabemu traffic: times of the processors and the memory bus of a node; 0: none */
    uint64_t bus_ps_per_byte; /* least time per byte between memory and adapter */
    uint64_t host_send_ps;    /* a processor sends a message of a collective */
    uint64_t host_recv_ps;    /* a processor takes a message of a collective */
    uint64_t host_word_ps;    /* a processor combines an 8-byte word */
    uint64_t share_ps;        /* a process takes a value from another process of its node */
    /* time of a pass through a combine unit, before the unit works on a contribution; other passes
       may overlap with it */
    uint64_t combine_ps;
    uint64_t combine_header_ps; /* time of a combine unit per contribution: lookup, state, update */
    uint64_t combine_word_ps;   /* additional time per 8-byte word: 4 ns at 250 MHz */
    uint32_t combine_units;     /* number per switch: 1, or more in a tree of a root and leaves */
    uint32_t xpoint_slots;      /* buffers of a crosspoint, in segments: 4 */
    uint32_t raw_xpoint_slots;  /* xpoint_slots on clock raw; 0: chosen by the network's size */
    uint32_t input_slots;       /* buffers of an input, in segments, if inputs have any: 8 */
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
    uint32_t raw_packet_bytes; /* packet_bytes on clock raw, where each packet costs time: 3840 */
    uint32_t channels;         /* virtual channels of a link: 32 */
    uint32_t pool_slots;     /* slots of a link's shared pool, in addition to one per channel: 16 */
    uint32_t raw_pool_slots; /* pool_slots on clock raw: 90, enough for six packets at a time */
    uint32_t light_pending;  /* a link with fewer open channels is lightly loaded */
    uint64_t reply_timeout_ps; /* without a reply for this time, the packet counts as lost */
    uint64_t retry_ps;         /* delay before a packet is sent again, doubled each time */
    uint32_t retry_limit;      /* transmissions before a packet is given up */
    enum emu_combining combining;
    enum emu_barrier_by barrier; /* only with EMU_COMBINING_ADAPTER */
    uint64_t barrier_root_ps;    /* from the reply to a barrier's conditional until its broadcast */
    uint32_t tree_width;         /* maximum number of children of an adapter in a tree */
    uint32_t vector_tree_width;  /* tree_width of groups with long vectors: 1, which is a chain */
    uint32_t broadcast_trees;    /* maximum number of trees of switches that a group has: 1 */
};

/* --- properties of the transport: other code calls these and does not read `transport` - */

/**
 * emu_profile_acknowledged - return whether the network acknowledges packets. If so, it also
 * retransmits lost packets, and hosts can ask for notifications (EMU_NOTIFY). Pure.
 */
static inline bool emu_profile_acknowledged(const struct emu_profile *profile)
{
    return profile->transport == EMU_TRANSPORT_ACKNOWLEDGED;
}

/** emu_profile_has_words - return whether groups have words and network conditionals. Pure. */
static inline bool emu_profile_has_words(const struct emu_profile *profile)
{
    return profile->transport == EMU_TRANSPORT_ACKNOWLEDGED;
}

/** emu_profile_has_packets - return whether packets of several segments have one header. Pure. */
static inline bool emu_profile_has_packets(const struct emu_profile *profile)
{
    return profile->transport == EMU_TRANSPORT_ACKNOWLEDGED;
}

/** emu_profile_has_engines - return whether each node has a link engine. Pure. */
static inline bool emu_profile_has_engines(const struct emu_profile *profile)
{
    return profile->transport == EMU_TRANSPORT_ACKNOWLEDGED;
}

/** emu_profile_has_unit_engines - return whether combine units have link engines. Pure. */
static inline bool emu_profile_has_unit_engines(const struct emu_profile *profile)
{
    return profile->transport == EMU_TRANSPORT_ACKNOWLEDGED &&
           profile->combining == EMU_COMBINING_SWITCH;
}

/** emu_profile_switches_combine - return whether switches combine; otherwise adapters do. Pure. */
static inline bool emu_profile_switches_combine(const struct emu_profile *profile)
{
    return profile->transport == EMU_TRANSPORT_NONE || profile->combining == EMU_COMBINING_SWITCH;
}

/** emu_profile_barrier_queries - return whether a barrier uses a network conditional. Pure. */
static inline bool emu_profile_barrier_queries(const struct emu_profile *profile)
{
    return !emu_profile_switches_combine(profile) && profile->barrier == EMU_BARRIER_BY_CONDITIONAL;
}

/**
 * emu_profile_group_slots - return how many consecutive slots a group has in the switches' tables:
 * one for each of its trees, rounded up to a power of two. Pure.
 */
static inline uint32_t emu_profile_group_slots(const struct emu_profile *profile)
{
    uint32_t slots = 1;

    while (emu_profile_acknowledged(profile) && slots < profile->broadcast_trees)
        slots *= 2;
    return slots;
}

/** emu_profile_retries - return whether cables between switches have link-level retry. Pure. */
static inline bool emu_profile_retries(const struct emu_profile *profile)
{
    return profile->transport == EMU_TRANSPORT_NONE &&
           profile->link_retry == EMU_LINK_RETRY_GO_BACK_N;
}

/* --- times and profiles --------------------------------------------------------------- */

/** emu_wire_ps - return how long a segment occupies the wire. Pure. */
static inline uint64_t emu_wire_ps(const struct emu_profile *profile, const struct emu_hdr *hdr)
{
    return (EMU_HDR_BYTES + hdr->len) * profile->link_ps_per_byte;
}

/* The names of the built-in profiles. */
#define EMU_PROFILES "oq2004, qsnet3, qsnet, qsnet2, sharp"

/**
 * emu_profile_load - load a built-in profile ("oq2004") or a JSON file.
 * @what: a name, or a path (anything with a '/' or that ends in ".json"). A file names a built-in
 * profile with "base", and overrides some of its fields; see docs/profiles.md.
 * Errors: -ENOENT, -EINVAL, with one line in @error.
 */
int emu_profile_load(struct emu_profile *ret, const char *what, char *error, size_t error_bytes);

/**
 * emu_profile_node_ps - return the delay that is used instead of switch_ps on a cable from a switch
 * to a node inside the fabric. It is the smaller of switch_ps and the time until the shortest
 * segment is in the node's memory, because the node may forward the segment from then on. With link
 * engines no cable leads from a switch to a node. Pure.
 */
static inline uint64_t emu_profile_node_ps(const struct emu_profile *profile)
{
    uint64_t memory_ps = EMU_HDR_BYTES * profile->link_ps_per_byte + profile->nic_recv_ps;

    if (emu_profile_has_engines(profile) || memory_ps > profile->switch_ps)
        return profile->switch_ps;
    return memory_ps;
}

/**
 * emu_profile_lookahead_ps - return the least time in which one device can affect another: the time
 * of a segment to the next crosspoint or node, or the time of a credit if it is shorter. Pure.
 */
static inline uint64_t emu_profile_lookahead_ps(const struct emu_profile *profile)
{
    uint64_t flight_ps = profile->channel_ps + emu_profile_node_ps(profile);

    return flight_ps < profile->credit_ps ? flight_ps : profile->credit_ps;
}

/**
 * emu_profile_window_ps - return the earliest time for which a device may schedule something in a
 * step up to @until_ps. A process that has ended or lies may have named an earlier time. But on
 * clock virtual the time before the current window has been simulated already. Pure.
 */
static inline uint64_t emu_profile_window_ps(const struct emu_profile *profile, uint64_t until_ps)
{
    uint64_t lookahead_ps = emu_profile_lookahead_ps(profile);

    return until_ps > lookahead_ps ? until_ps - lookahead_ps + 1 : 0;
}

/** emu_profile_credits - return the credits of a cable to a switch: its input's slots. Pure. */
uint32_t emu_profile_credits(const struct emu_profile *profile);

/**
 * emu_profile_on - return the profile as it is used on a clock. On clock raw, packets, pools and,
 * with buffers=xpoint, crosspoints have their raw_ sizes. On clocks raw and real, the time-out of
 * replies is at least EMU_HOST_DELAY_PS, because the host's threads may wait for a core. On clock
 * real it is also at least the wire time of packets on all channels of 16 links, up to 1 s. Pure.
 */
struct emu_profile emu_profile_on(const struct emu_profile *profile, enum emu_clock_mode mode);

/** emu_profile_each - call @fn for all fields in order. Named values are passed as numbers. */
void emu_profile_each(const struct emu_profile *profile,
                      void (*fn)(void *ctx, const char *name, uint64_t value), void *ctx);

/** emu_profile_set - set one field by "name=value". Errors: -EINVAL with one line in @error. */
int emu_profile_set(struct emu_profile *profile, const char *assignment, char *error,
                    size_t error_bytes);

/**
 * emu_profile_set_all - set @count fields by "name=value". Fields whose names begin with raw_ are
 * set last, because packet_bytes and pool_slots set their raw_ fields, too. Errors: as
 * emu_profile_set().
 */
int emu_profile_set_all(struct emu_profile *profile, const char *const *assignments, unsigned count,
                        char *error, size_t error_bytes);

/**
 * emu_profile_idle - if an assignment "name=value" has no effect in this profile on this clock,
 * return the setting with which the field has an effect ("transport=acknowledged"). Returns NULL if
 * it has an effect, or if there is no such field. Pure.
 */
const char *emu_profile_idle(const struct emu_profile *profile, enum emu_clock_mode mode,
                             const char *assignment);

#endif
