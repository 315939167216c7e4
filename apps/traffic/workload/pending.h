/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pending.h - things that arrive in parts: which of them are not whole yet.
 *
 * A node has a table of messages of more than one segment; the driver has one
 * of multicasts or operations, whose parts reach different nodes. What the
 * driver is to know of, workers write to logs that it reads while they stand
 * still. Tables and logs grow only then: a step allocates nothing.
 */
#ifndef APPS_TRAFFIC_WORKLOAD_PENDING_H
#define APPS_TRAFFIC_WORKLOAD_PENDING_H

#include <stdbool.h>
#include <stdint.h>

/* A part that arrived at @at_ps of what is known by (@src, @birth_ps) and has @of parts. */
struct traffic_part {
    uint64_t birth_ps;
    uint64_t at_ps;
    uint32_t src;
    uint32_t of;
};

struct traffic_slot {
    uint64_t birth_ps;
    uint64_t last_ps; /* latest arrival so far */
    uint32_t src;
    uint32_t left; /* parts not here yet; 0: the slot is free */
};

/* Open addressing. */
struct traffic_pending {
    struct traffic_slot *slot;
    uint32_t mask; /* slots - 1 */
    uint32_t used;
    bool full; /* a part found no room, and is lost */
};

/**
 * traffic_pending_room - make room for @more new things. Thread: the table's, or the driver's
 * while the workers stand still.
 * Errors: -ENOMEM, and nothing changed.
 */
int traffic_pending_room(struct traffic_pending *pending, uint32_t more);

/**
 * traffic_pending_arrive - take a part.
 * Returns true when it was the last one: then *last_ps is the time of the latest.
 */
bool traffic_pending_arrive(struct traffic_pending *pending, const struct traffic_part *part,
                            uint64_t *last_ps);

void traffic_pending_release(struct traffic_pending *pending);

/* What the nodes of one worker tell the driver. */
struct traffic_log {
    struct traffic_part *part;
    uint32_t count;
    uint32_t room;
    bool full; /* a part found no room */
};

/** traffic_log_init - a log for @room parts between two looks of the driver. Errors: -ENOMEM. */
int traffic_log_init(struct traffic_log *log, uint32_t room);
void traffic_log_release(struct traffic_log *log);

static inline void traffic_log_add(struct traffic_log *log, const struct traffic_part *part)
{
    if (log->count < log->room)
        log->part[log->count++] = *part;
    else
        log->full = true;
}

#endif
