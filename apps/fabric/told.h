/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * told.h - collectives of which all members have told, put together: how long each waited for the
 * last, and how long it took from then on.
 *
 * Members tell one by one, and are read one after the other; what is not complete waits for the
 * rest. Thread: the manager.
 */
#ifndef APPS_FABRIC_TOLD_H
#define APPS_FABRIC_TOLD_H

#include "emu/edge/comm.h"
#include "emu/edge/finished.h"

/* What was told of some collectives by all of their members: emu/edge/comm.h says of which. */
struct fabric_told {
    uint64_t calls;    /* of the members of those */
    double weight;     /* calls that these stand for, and so for these sums: */
    double wait_ns;    /* until the last of those had come that a member waits for, */
    double network_ns; /* and from then on */
    uint64_t wait_most_ns, network_most_ns; /* of one call */
};

/** told_whole - a sum as a whole number; what processes make up may be too large for one. Pure. */
static inline uint64_t told_whole(double sum)
{
    return sum < 0x1p63 ? (uint64_t)(sum + 0.5) : UINT64_C(1) << 63;
}

/* What one member told. */
struct told_entry {
    struct emu_finished one;
    uint32_t node;
};

struct told {
    struct told_entry *entry; /* not complete, and not looked at */
    uint32_t count, room, most;
    uint64_t untold; /* entries of collectives of which not all members told, or not in time */
    struct fabric_told sum[EMU_COMM_KINDS][EMU_COMM_SIZES];
};

/** told_open - for a fabric of so many nodes. @told: zeros, before. */
void told_open(struct told *told, uint32_t nodes);
void told_free(struct told *told);

/** told_add - @node has told of one. */
void told_add(struct told *told, uint32_t node, const struct emu_finished *one);

/** told_settle - add up what is complete. */
void told_settle(struct told *told);

#endif
