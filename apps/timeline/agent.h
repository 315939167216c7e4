/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * agent.h - sends the completions of an agent host's processes to the coordinator, which writes the
 * timeline. A completion is a finished collective or message.
 *
 * Running processes keep their completions in their own memory until the coordinator's next query.
 * The host keeps those of processes that have left, up to a bound, and counts the rest. Times are
 * by the sender's clock; its offset to the coordinator's clock is measured from the queries and
 * replies.
 *
 * Thread: on each host the fabric's manager.
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

/* A piece is this header and records, in native layout: all hosts run the same fabemu. */
struct timeline_piece {
    uint64_t now_ns; /* the sender's emu_now_ns() */
    uint64_t missed; /* number of completions lost since the last piece */
};

struct timeline_record {
    uint64_t incarnation;
    struct emu_finished one;
    uint32_t node;
};

/* --- agent ------------------------------------------------------------------------------ */

struct timeline_agent;

/**
 * timeline_agent_create - make the processes of this host record their completions; of messages,
 * those with @from_bytes or more. Errors: -ENOMEM.
 */
int timeline_agent_create(struct timeline_agent **ret, struct fabric *fabric, uint64_t from_bytes);
void timeline_agent_destroy(struct timeline_agent *part);

/**
 * timeline_agent_leaves - keep the completions of the process at @node, which is about to leave. */
void timeline_agent_leaves(struct timeline_agent *part, uint32_t node);

/**
 * timeline_agent_report - write the next piece, of at most about @most bytes, to @bytes, replacing
 * its contents. Returns 1 if there is more; 0 if all processes were read and nothing is left.
 * Errors: -ENOMEM: the completions of this piece are lost.
 */
int timeline_agent_report(struct timeline_agent *part, size_t most, struct text_buf *bytes);

/** timeline_agent_most_bytes - upper bound of the bytes of records until it returns 0. */
uint64_t timeline_agent_most_bytes(uint32_t nodes);

/* --- coordinator ------------------------------------------------------------------------ */

/* A piece from another host. */
struct timeline_received {
    const struct fabric_config *config;
    uint32_t host;
    const void *bytes;
    size_t count;
    uint64_t asked_ns; /* emu_now_ns() when the query was sent */
    uint64_t now_ns;   /* emu_now_ns() when the piece came */
};

/**
 * timeline_receive - add a piece to the timeline, with times by our clock. @clock: offset of that
 * host's clock, initially zeros and hostlink_offset_reset(). Returns false if the piece is invalid.
 */
bool timeline_receive(struct timeline *t, struct hostlink_offset *clock,
                      const struct timeline_received *received);

#endif
