/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pending.h - tables of messages and operations that arrive in parts and are still incomplete.
 *
 * A node has a table of the messages that consist of several segments. The driver has a table of
 * multicasts or of operations; each of their parts is the arrival at one node. Workers write these
 * parts to logs, which the driver reads while the workers are stopped. Tables and logs grow only
 * while the workers are stopped, so that a step allocates no memory.
 */
#ifndef APPS_TRAFFIC_WORKLOAD_PENDING_H
#define APPS_TRAFFIC_WORKLOAD_PENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A part that arrived at @at_ps, of the message (@src, @birth_ps), which has @of parts. */
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
    uint32_t left; /* missing parts; 0: the slot is free */
};

/* A hash table with open addressing. */
struct traffic_pending {
    struct traffic_slot *slot;
    uint32_t mask; /* slots - 1 */
    uint32_t used;
    uint64_t most;
    bool full; /* a part was lost because there was no free slot */
};

/**
 * traffic_pending_reserve - grow the table for @more new messages, but not beyond @most messages.
 * Thread: the table's owner, or the driver while the workers are stopped. Errors: -ENOMEM; only the
 * limit has changed.
 */
int traffic_pending_reserve(struct traffic_pending *pending, size_t more, uint64_t most);

/**
 * traffic_pending_arrive - process a part. If it completes its message, set *last_ps to the time of
 * the latest part and return true.
 */
bool traffic_pending_arrive(struct traffic_pending *pending, const struct traffic_part *part,
                            uint64_t *last_ps);

void traffic_pending_release(struct traffic_pending *pending);

/* The parts that the nodes of one worker have logged for the driver. */
struct traffic_log {
    struct traffic_part *part;
    uint32_t count;
    uint32_t capacity;
    bool full; /* a part was lost because the log was full */
};

/** traffic_log_init - allocate space for the parts between two reads. Errors: -ENOMEM. */
int traffic_log_init(struct traffic_log *log, uint32_t capacity);
void traffic_log_release(struct traffic_log *log);

static inline void traffic_log_add(struct traffic_log *log, const struct traffic_part *part)
{
    if (log->count < log->capacity)
        log->part[log->count++] = *part;
    else
        log->full = true;
}

#endif
