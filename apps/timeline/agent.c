/* SPDX-License-Identifier: BSD-3-Clause */
/* agent.c - see agent.h. */
#include "apps/timeline/agent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/fabric/hosts.h"
#include "apps/fabric/sample.h"
#include "emu/util/now.h"

/* limit of the records that wait to be sent */
#define KEPT_MOST_BYTES ((size_t)16 << 20)

struct timeline_agent {
    struct fabric *fabric;
    struct fabric_finished_at *at; /* by node: read position */
    struct text_buf kept;          /* records, in the order in which they were read */
    size_t sent_bytes;             /* size of those records at the front of `kept` that were sent */
    uint64_t missed;               /* completions lost since the last piece */
    uint32_t next;                 /* next node to read for the current report */
};

/* --- agent ------------------------------------------------------------------------------ */

int timeline_agent_create(struct timeline_agent **ret, struct fabric *fabric, uint64_t from_bytes)
{
    struct timeline_agent *agent = calloc(1, sizeof *agent);

    if (agent)
        agent->at = calloc(fabric_graph(fabric)->nodes, sizeof *agent->at);
    if (!agent || !agent->at) {
        free(agent);
        return -ENOMEM;
    }
    agent->fabric = fabric;
    fabric_watch(fabric, FABRIC_WATCH_TIMELINE, true);
    fabric_watch_messages(fabric, from_bytes);
    *ret = agent;
    return 0;
}

void timeline_agent_destroy(struct timeline_agent *agent)
{
    if (!agent)
        return;
    fabric_watch(agent->fabric, FABRIC_WATCH_TIMELINE, false);
    text_buf_free(&agent->kept);
    free(agent->at);
    free(agent);
}

static size_t unsent(const struct timeline_agent *agent)
{
    return agent->kept.bytes - agent->sent_bytes;
}

static void keep(struct timeline_agent *agent, const struct timeline_record *record)
{
    if (unsent(agent) + sizeof *record <= KEPT_MOST_BYTES &&
        text_buf_reserve(&agent->kept, sizeof *record))
        text_put(&agent->kept, (const char *)record, sizeof *record);
    else
        agent->missed++;
    agent->kept.failed = false; /* clear the error: earlier records are intact */
}

/* Store the completions that the process at @node has recorded since the last call. */
static void take(struct timeline_agent *agent, uint32_t node)
{
    struct emu_finished ring[EMU_FINISHED_SLOTS];
    uint32_t count = fabric_finished(agent->fabric, node, &agent->at[node], ring, &agent->missed);

    for (uint32_t i = 0; i < count; i++)
        keep(agent, &(struct timeline_record){.incarnation = agent->at[node].incarnation,
                                              .one = ring[i],
                                              .node = node});
}

void timeline_agent_leaves(struct timeline_agent *agent, uint32_t node)
{
    take(agent, node);
}

/* Remove the sent records from `kept` if they are at least half of it. */
static void discard_sent(struct timeline_agent *agent)
{
    if (agent->sent_bytes < agent->kept.bytes / 2)
        return;
    agent->kept.bytes -= agent->sent_bytes;
    if (agent->kept.bytes)
        memmove(agent->kept.at, agent->kept.at + agent->sent_bytes, agent->kept.bytes);
    agent->sent_bytes = 0;
}

int timeline_agent_report(struct timeline_agent *agent, size_t most, struct text_buf *bytes)
{
    /* size of the next piece: @most, rounded up to whole records */
    size_t piece_bytes = (most + sizeof(struct timeline_record) - 1) /
                         sizeof(struct timeline_record) * sizeof(struct timeline_record);
    struct timeline_piece piece;
    bool more;

    while (unsent(agent) < piece_bytes && agent->next < fabric_graph(agent->fabric)->nodes)
        take(agent, agent->next++);
    piece = (struct timeline_piece){.now_ns = emu_now_ns(), .missed = agent->missed};
    piece_bytes = unsent(agent) < piece_bytes ? unsent(agent) : piece_bytes;
    text_buf_clear(bytes);
    text_put(bytes, (const char *)&piece, sizeof piece);
    if (piece_bytes)
        text_put(bytes, agent->kept.at + agent->sent_bytes, piece_bytes);
    agent->missed = 0;
    agent->sent_bytes += piece_bytes;
    discard_sent(agent);
    more = unsent(agent) || agent->next < fabric_graph(agent->fabric)->nodes;
    if (!more)
        agent->next = 0;
    return bytes->failed ? -ENOMEM : more;
}

uint64_t timeline_agent_most_bytes(uint32_t nodes)
{
    /* During the report each process may leave, and another one may attach to its node. */
    return KEPT_MOST_BYTES +
           UINT64_C(2) * nodes * EMU_FINISHED_SLOTS * sizeof(struct timeline_record);
}

/* --- coordinator ------------------------------------------------------------------------ */

/* Return whether the node is on the sending host, and the completion is before @sent_ns. */
static bool is_sane(const struct timeline_received *received, uint64_t sent_ns,
                    const struct timeline_record *record)
{
    const struct emu_finished *one = &record->one;

    return record->node < received->config->graph->nodes &&
           fabric_node_host(received->config, record->node) == received->host &&
           one->kind < EMU_FINISHED_KINDS && one->began_ns <= one->ended_ns &&
           one->ended_ns <= sent_ns;
}

/* Convert a time of a clock that is @ahead_ns ahead of this host's. Returns at most @most_ns. */
static uint64_t to_our_clock(uint64_t there_ns, uint64_t ahead_ns, uint64_t most_ns)
{
    uint64_t at_ns = there_ns - ahead_ns;

    return at_ns < most_ns ? at_ns : most_ns;
}

bool timeline_receive(struct timeline *t, struct hostlink_offset *clock,
                      const struct timeline_received *received)
{
    const char *at = received->bytes, *end = at + received->count;
    struct timeline_record record;
    struct timeline_piece piece;
    uint64_t ahead_ns;

    if (received->count < sizeof piece || (received->count - sizeof piece) % sizeof record)
        return false;
    memcpy(&piece, at, sizeof piece);
    hostlink_offset_sample(clock, piece.now_ns, received->asked_ns, piece.now_ns, received->now_ns);
    ahead_ns = (uint64_t)hostlink_offset_at(clock, received->now_ns);
    timeline_missed(t, piece.missed);
    for (at += sizeof piece; at < end; at += sizeof record) {
        memcpy(&record, at, sizeof record);
        if (!is_sane(received, piece.now_ns, &record))
            return false;
        record.one.ended_ns = to_our_clock(record.one.ended_ns, ahead_ns, received->now_ns);
        record.one.began_ns = to_our_clock(record.one.began_ns, ahead_ns, record.one.ended_ns);
        timeline_finished(t, record.node, record.incarnation, &record.one);
    }
    if (received->count > sizeof piece)
        timeline_clock(t, received->host,
                       atomic_load_explicit(&clock->error_ns, memory_order_relaxed));
    return true;
}
