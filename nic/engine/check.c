/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check.c - consistency checks: count an engine's packets, segments and buffers, and compare the
 * results with its counters.
 */
#include "nic/engine/internal.h"

static uint32_t list_length(const struct engine_list *list, const struct engine_join *join)
{
    uint32_t length = 0;

    for (uint16_t i = list->first; i != ENGINE_NONE; i = join[i].next)
        length++;
    return length;
}

static uint32_t queue_length(const struct engine_queue *queue)
{
    uint32_t length = 0;

    for (const struct engine_queued *at = queue->first; at; at = at->next)
        length++;
    return length;
}

static const char *check_packets(const struct engine *e)
{
    uint32_t held = 0;
    uint32_t count =
        list_length(&e->send.free, e->send.join) + list_length(&e->send.awaiting, e->send.join) +
        list_length(&e->send.backing_off, e->send.join) + list_length(&e->send.back, e->send.join);

    for (uint32_t p = 0; p < EMU_PRIORITIES; p++) {
        uint32_t waiting = list_length(&e->send.waiting[p], e->send.join);

        if ((e->send.waiting_any >> p & 1) != (waiting != 0))
            return "an engine's bits of waiting packets are wrong";
        count += waiting;
    }
    count += e->host.delivery.active && e->host.delivery.packet != ENGINE_NONE;
    if (count != e->send.packets)
        return "an engine has lost a packet";
    for (uint32_t i = 0; i < e->send.packets; i++)
        held += e->send.packet[i].state != ENGINE_FREE ? e->send.packet[i].count : 0;
    return held == e->send.held ? NULL : "an engine's count of segments is wrong";
}

/*
 * Check the sending side of a link: open channels have packets, and the counts of slots are
 * consistent.
 */
static const char *check_link(const struct engine *e, const struct engine_link *l)
{
    uint32_t pool = l->vcs.pool, left = 0;

    for (uint32_t c = 0; c < EMU_VCS; c++) {
        const struct engine_packet *p = &e->send.packet[l->packet[c]];
        uint32_t used = l->vcs.used[c];

        pool += used ? used - 1 : 0;
        if ((l->vcs.occupied >> c & 1) != (used != 0))
            return "an engine's bits of occupied slots are wrong";
        if ((l->vcs.open >> c & 1) &&
            (p->state != ENGINE_AWAITING || p->channel != c || p->tag != l->vcs.tag[c]))
            return "an open channel has no packet";
    }
    for (uint32_t p = 0; p < EMU_PRIORITIES; p++)
        left |= l->left[p];
    if (left & ~l->vcs.open)
        return "a closed channel has segments left";
    return pool == e->profile->pool_slots ? NULL : "the pool slots of a cable do not add up";
}

static const char *check_queries(const struct engine *e)
{
    uint32_t backing_off = 0, testing = 0, used = 0;

    for (uint32_t d = 0; d <= ENGINE_DOUBLINGS; d++) {
        if ((e->queries.any >> d & 1) == engine_queue_empty(&e->queries.backoff[d]))
            return "an engine's bits of conditionals in backoff are wrong";
        backing_off += queue_length(&e->queries.backoff[d]);
    }
    for (uint32_t i = 0; i < e->send.packets; i++)
        testing += (e->send.packet[i].state == ENGINE_WAITING ||
                    e->send.packet[i].state == ENGINE_AWAITING) &&
                   e->send.packet[i].query;
    for (uint32_t i = 0; i < ENGINE_QUERIES; i++)
        used += e->queries.slot[i].used;
    if (backing_off != e->queries.backing_off || testing != e->queries.in_packets ||
        used + queue_length(&e->queries.free) != ENGINE_QUERIES)
        return "an engine has lost a conditional";
    return NULL;
}

/* Check that the lists have all packets on open channels, and all incoming packets. */
static const char *check_channels(const struct engine *e)
{
    uint32_t open = 0, parts = 0, complete = 0, stored = 0;

    for (uint32_t i = 0; i < e->links; i++)
        open += emu_vcs_pending(&e->link[i].vcs);
    for (uint32_t i = 0; i < e->links * EMU_VCS; i++) {
        parts += e->receive.incoming[i].state == ENGINE_INCOMPLETE;
        complete += e->receive.incoming[i].state == ENGINE_COMPLETE;
        stored += e->receive.incoming[i].state == ENGINE_STORED;
    }
    if (open != list_length(&e->send.awaiting, e->send.join))
        return "a packet awaits a reply on no channel";
    if (parts != list_length(&e->receive.parts, e->receive.join) ||
        complete != list_length(&e->receive.complete, e->receive.join) ||
        stored != list_length(&e->receive.stored, e->receive.join))
        return "an engine's lists of incoming packets are wrong";
    return NULL;
}

void engine_audit(const struct engine *e, const struct emu_reporter *reporter)
{
    for (uint32_t i = 0; i < e->links; i++)
        emu_report_error(reporter, i, check_link(e, &e->link[i]));
    emu_report_error(reporter, EMU_NO_PORT, check_packets(e));
    emu_report_error(reporter, EMU_NO_PORT, check_channels(e));
    emu_report_error(reporter, EMU_NO_PORT, check_queries(e));
}

const char *engine_check(const struct engine *e)
{
    const char *first = NULL;

    engine_audit(e, &(struct emu_reporter){emu_report_first, &first});
    return first;
}

bool engine_idle(const struct engine *e)
{
    for (uint32_t i = 0; i < e->links; i++)
        if (e->link[i].replies)
            return false;
    return list_length(&e->send.free, e->send.join) == e->send.packets &&
           !e->host.delivery.active && !e->queries.backing_off &&
           engine_queue_empty(&e->queries.due) && engine_list_empty(&e->receive.parts) &&
           engine_list_empty(&e->receive.complete) && engine_list_empty(&e->receive.stored) &&
           engine_queue_empty(&e->tree.results);
}

static uint32_t list_held(const struct engine *e, const struct engine_list *list)
{
    uint32_t held = 0;

    for (uint16_t i = list->first; i != ENGINE_NONE; i = e->send.join[i].next)
        held += e->send.packet[i].count;
    return held;
}

/*
 * Return how many buffers an incoming packet holds. Segments without a host segment, at the end of
 * the packet, have no buffer.
 */
static uint32_t incoming_held(const struct engine_incoming *in)
{
    uint32_t held = 0;

    if (in->state != ENGINE_INCOMPLETE && in->state != ENGINE_COMPLETE)
        return 0;
    for (uint32_t s = 0; s < in->segs; s++)
        held += in->buf[s] != EMU_NO_BUF;
    return held;
}

/* Return how many buffers the conditionals in a queue hold. Those of barriers hold none. */
static uint32_t queries_held(const struct engine_queue *queries)
{
    uint32_t held = 0;

    for (struct engine_queued *at = queries->first; at; at = at->next)
        held += !engine_query_of(at)->barrier;
    return held;
}

uint32_t engine_held(const struct engine *e)
{
    uint32_t held = list_held(e, &e->send.awaiting) + list_held(e, &e->send.backing_off) +
                    list_held(e, &e->send.back) + emu_link_bufs(&e->host.in) +
                    queries_held(&e->queries.due);

    for (uint32_t d = 0; d <= ENGINE_DOUBLINGS; d++)
        held += queries_held(&e->queries.backoff[d]);
    for (uint32_t p = 0; p < EMU_PRIORITIES; p++)
        held += list_held(e, &e->send.waiting[p]);
    if (e->host.delivery.active)
        held += e->host.delivery.count - e->host.delivery.at;
    for (uint32_t i = 0; i < e->links; i++)
        held += emu_link_bufs(&e->link[i].rx);
    for (uint32_t i = 0; i < e->links * EMU_VCS; i++)
        held += incoming_held(&e->receive.incoming[i]);
    return held;
}
