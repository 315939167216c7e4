/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * agent.h - the timeline's part of another host: what its processes have finished is told piece by
 * piece to the host that governs, which writes the file.
 *
 * A host keeps what processes have told that have left since, up to a bound; what processes tell
 * that are there stays in their own memory until the next question. What there is no room for is
 * counted. Times are by the clock of the host that tells; what that is ahead of the governor's is
 * measured by the questions and answers themselves.
 *
 * Thread: one on each side, the fabric's manager.
 */
#ifndef APPS_TIMELINE_AGENT_H
#define APPS_TIMELINE_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/timeline/timeline.h"
#include "apps/base/text.h"
#include "emu/hostif/finished.h"
#include "emu/hostlink/offset.h"

struct fabric;
struct fabric_config;

/* A piece is this, as it is in memory, and records behind it: all hosts run one fabemu. */
struct timeline_piece {
    uint64_t now_ns; /* emu_now_ns() there, when it was told */
    uint64_t missed; /* so many more, since the last piece, which nobody knows now */
};

struct timeline_record {
    uint64_t incarnation;
    struct emu_finished one;
    uint32_t node;
};

/* --- the host that tells ---------------------------------------------------------------- */

struct timeline_agent;

/**
 * timeline_agent_create - from now on processes here tell what they finish; of messages, those of
 * so many bytes and more. Errors: -ENOMEM.
 */
int timeline_agent_create(struct timeline_agent **ret, struct fabric *fabric, uint64_t from_bytes);
void timeline_agent_destroy(struct timeline_agent *part);

/** timeline_agent_leaves - the process at @node is about to leave. */
void timeline_agent_leaves(struct timeline_agent *part, uint32_t node);

/**
 * timeline_agent_report - in place of what is in @bytes: the next piece, of about @most bytes, or
 * less if there is no more. Returns 1: the next call has the rest; 0: each process was looked at,
 * and that was all. Errors: -ENOMEM, and these are lost.
 */
int timeline_agent_report(struct timeline_agent *part, size_t most, struct text_buf *bytes);

/** timeline_agent_most_bytes - that there are until it says that was all. */
uint64_t timeline_agent_most_bytes(uint32_t nodes);

/* --- the host that hears ---------------------------------------------------------------- */

struct timeline_received {
    const struct fabric_config *config; /* which has what is where */
    uint32_t host;
    const void *bytes;
    size_t count;
    uint64_t asked_ns; /* emu_now_ns(): it was told after that, */
    uint64_t now_ns;   /* and before that */
};

/**
 * timeline_receive - it is in the timeline, by our clock. @clock: what is known of that host's,
 * zeros and hostlink_offset_reset() at first. False: no honest host says that.
 */
bool timeline_receive(struct timeline *t, struct hostlink_offset *clock,
                      const struct timeline_received *received);

#endif
