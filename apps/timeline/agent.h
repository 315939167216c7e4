/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * agent.h - sends the completions of an agent host's processes to the coordinator, which writes the
 * timeline. A completion is a finished collective or message.
 *
 * A running process keeps its completions in its host interface until the coordinator's next query.
 * When the process leaves, the agent reads them. It stores a limited number, and counts the others
 * as lost. Times are those of the sender's clock; its offset to the coordinator's clock is measured
 * with the queries and replies.
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

/*
 * The agent sends its completions in pieces. A piece is this header, followed by records (struct
 * timeline_record). Both have the native layout, because all hosts run the same fabemu.
 */
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
 * timeline_agent_create - make the processes of this host record their completions. Messages of
 * fewer than @from_bytes are not recorded. Errors: -ENOMEM.
 */
int timeline_agent_create(struct timeline_agent **ret, struct fabric *fabric, uint64_t from_bytes);
void timeline_agent_destroy(struct timeline_agent *agent);

/** timeline_agent_leaves - read the completions of the process at @node before it leaves. */
void timeline_agent_leaves(struct timeline_agent *agent, uint32_t node);

/**
 * timeline_agent_report - replace the contents of @bytes by the next piece, of at most about @most
 * bytes. Returns 1 if another piece follows; 0 if this is the last piece: all processes were read
 * and all completions are sent. Errors: -ENOMEM; the completions of this piece are lost.
 */
int timeline_agent_report(struct timeline_agent *agent, size_t most, struct text_buf *bytes);

/** timeline_agent_most_bytes - return the maximum sum of the sizes of all pieces of a report. */
uint64_t timeline_agent_most_bytes(uint32_t nodes);

/* --- coordinator ------------------------------------------------------------------------ */

/* A piece from another host. */
struct timeline_received {
    const struct fabric_config *config;
    uint32_t host;
    const void *bytes;
    size_t count;
    uint64_t asked_ns; /* emu_now_ns() when the query was sent */
    uint64_t now_ns;   /* emu_now_ns() when the piece arrived */
};

/**
 * timeline_receive - add a piece to the timeline, and convert its times to this host's clock.
 * @clock: offset of the sender's clock. Before the first piece it must be zeroed and passed to
 * hostlink_offset_reset(). Returns false if the piece is invalid.
 */
bool timeline_receive(struct timeline *t, struct hostlink_offset *clock,
                      const struct timeline_received *received);

#endif
