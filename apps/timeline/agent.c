/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * part.c - see agent.h.
 */
#include "apps/timeline/agent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/fabric/hosts.h"
#include "apps/fabric/sample.h"
#include "emu/util/now.h"

/* Largest size of the records of processes that have left. */
#define KEPT_MOST_BYTES ((size_t)16 << 20)

struct timeline_agent {
    struct fabric *fabric;
    struct fabric_finished_at *at; /* by node */
    struct text_buf kept;          /* records */
    size_t told;                   /* bytes of kept that were sent */
    uint64_t missed;
    uint32_t next; /* next node to read */
};

/* --- agent ------------------------------------------------------------------------------ */

int timeline_agent_create(struct timeline_agent **ret, struct fabric *fabric, uint64_t from_bytes)
{
    struct timeline_agent *part = calloc(1, sizeof *part);

    if (part)
        part->at = calloc(fabric_graph(fabric)->nodes, sizeof *part->at);
    if (!part || !part->at) {
        free(part);
        return -ENOMEM;
    }
    part->fabric = fabric;
    fabric_watch(fabric, FABRIC_WATCH_TIMELINE, true);
    fabric_watch_messages(fabric, from_bytes);
    *ret = part;
    return 0;
}

void timeline_agent_destroy(struct timeline_agent *part)
{
    if (!part)
        return;
    fabric_watch(part->fabric, FABRIC_WATCH_TIMELINE, false);
    text_buf_free(&part->kept);
    free(part->at);
    free(part);
}

static size_t unsent(const struct timeline_agent *part)
{
    return part->kept.bytes - part->told;
}

static void keep(struct timeline_agent *part, const struct timeline_record *record)
{
    if (unsent(part) + sizeof *record <= KEPT_MOST_BYTES &&
        text_buf_reserve(&part->kept, sizeof *record))
        text_put(&part->kept, (const char *)record, sizeof *record);
    else
        part->missed++;
    part->kept.failed = false; /* earlier records are intact */
}

static void take(struct timeline_agent *part, uint32_t node)
{
    struct emu_finished ring[EMU_FINISHED_SLOTS];
    uint32_t count = fabric_finished(part->fabric, node, &part->at[node], ring, &part->missed);

    for (uint32_t i = 0; i < count; i++)
        keep(part, &(struct timeline_record){.incarnation = part->at[node].incarnation,
                                             .one = ring[i],
                                             .node = node});
}

void timeline_agent_leaves(struct timeline_agent *part, uint32_t node)
{
    take(part, node);
}

/* Free the space of the records that were sent, if that is worth the copy. */
static void discard_sent(struct timeline_agent *part)
{
    if (part->told < part->kept.bytes / 2)
        return;
    part->kept.bytes -= part->told;
    if (part->kept.bytes)
        memmove(part->kept.at, part->kept.at + part->told, part->kept.bytes);
    part->told = 0;
}

int timeline_agent_report(struct timeline_agent *part, size_t most, struct text_buf *bytes)
{
    size_t least = (most + sizeof(struct timeline_record) - 1) / sizeof(struct timeline_record) *
                   sizeof(struct timeline_record);
    struct timeline_piece piece;
    bool more;

    while (unsent(part) < least && part->next < fabric_graph(part->fabric)->nodes)
        take(part, part->next++);
    piece = (struct timeline_piece){.now_ns = emu_now_ns(), .missed = part->missed};
    least = unsent(part) < least ? unsent(part) : least;
    text_buf_clear(bytes);
    text_put(bytes, (const char *)&piece, sizeof piece);
    if (least)
        text_put(bytes, part->kept.at + part->told, least);
    part->missed = 0;
    part->told += least;
    discard_sent(part);
    more = unsent(part) || part->next < fabric_graph(part->fabric)->nodes;
    if (!more)
        part->next = 0;
    return bytes->failed ? -ENOMEM : more;
}

uint64_t timeline_agent_most_bytes(uint32_t nodes)
{
    /* while pieces are sent, each process may leave and another one attach to its node */
    return KEPT_MOST_BYTES +
           UINT64_C(2) * nodes * EMU_FINISHED_SLOTS * sizeof(struct timeline_record);
}

/* --- coordinator ------------------------------------------------------------------------ */

/* True if the record is of a node on that host, and was finished before it was sent. */
static bool is_sane(const struct timeline_received *received, uint64_t sent_ns,
                    const struct timeline_record *record)
{
    const struct emu_finished *one = &record->one;

    return record->node < received->config->graph->nodes &&
           fabric_node_host(received->config, record->node) == received->host &&
           one->kind < EMU_FINISHED_KINDS && one->began_ns <= one->ended_ns &&
           one->ended_ns <= sent_ns;
}

/* Convert a time of a clock that is @ahead_ns ahead to ours; at most @most_ns. */
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
