/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pending.c - report to the fabric which operations of this process are pending.
 *
 * nic_watch() calls nic_pending_publish() about once a second. Operations have no start time,
 * because each of them would have to read the clock. Instead, the first sample that finds an
 * operation pending notes the time in it. Each list is sampled from its oldest entry, up to
 * SCAN_MAX entries.
 */
#include "nic/host/progress/progress.h"

#include <string.h>

#include "nic/host/base/lock.h"
#include "nic/host/group/group.h"
#include "nic/host/group/stream.h"
#include "nic/host/rx/queue.h"
#include "nic/host/tx/request.h"

#define SCAN_MAX 64u /* operations examined per list */

struct scan {
    struct fabemu *fab;
    struct emu_pending *pending;
    uint64_t now_ns;
    uint64_t moved; /* a sum that changes when any operation progresses */
    bool fresh;     /* an operation was found for the first time */
};

/* --- operations with one peer ------------------------------------------------------- */

/* Return when @op was first found pending. op->seen_ms: milliseconds modulo 2^32; 0: never. */
static uint64_t op_since_ns(struct scan *scan, struct nic_op *op)
{
    uint32_t now_ms = (uint32_t)(scan->now_ns / 1000000u);

    if (!op->seen_ms) {
        op->seen_ms = now_ms + !now_ms;
        scan->fresh = true;
    }
    return scan->now_ns - (uint64_t)(uint32_t)(now_ms - op->seen_ms) * 1000000u;
}

/* Return whether @op of an MPI process is the receive of the reply to a synchronous send. */
static bool awaits_sync_reply(const struct fabemu *fab, struct nic_op *op)
{
    return fab->rank >= 0 && op->kind == NIC_OP_RECV &&
           nic_recv_of(op)->tag & EMU_PENDING_SYNC_REPLY;
}

/*
 * Note @op in @oldest if it is the oldest so far. The receive of the reply to a synchronous send
 * counts as that send, because the operation that sent the message may have ended already.
 */
static void op_scan(struct scan *scan, struct emu_pending_op *oldest, struct nic_op *op,
                    enum emu_pending_kind kind, enum emu_pending_state state)
{
    uint64_t since_ns = op_since_ns(scan, op);
    bool sync = awaits_sync_reply(scan->fab, op);

    if (sync) {
        oldest = &scan->pending->send;
        kind = EMU_PENDING_SEND;
    }
    if (!kind || (oldest->kind && oldest->since_ns <= since_ns))
        return;
    *oldest = (struct emu_pending_op){.since_ns = since_ns,
                                      .bytes = op->bytes,
                                      .node = op->node,
                                      .kind = (uint8_t)kind,
                                      .state = (uint8_t)state};
    if (sync) {
        oldest->tag = nic_recv_of(op)->tag ^ (EMU_PENDING_SYNC_REPLY | EMU_PENDING_SYNC);
        oldest->bytes = EMU_PENDING_SIZE_UNKNOWN;
    } else if (kind == EMU_PENDING_SEND) {
        oldest->tag = nic_send_of(op)->tag;
    } else if (kind == EMU_PENDING_RECEIVE) {
        oldest->tag = nic_recv_of(op)->tag;
        oldest->ignore = nic_recv_of(op)->ignore;
    }
}

static enum emu_pending_kind op_kind(const struct nic_op *op)
{
    /* the other kinds serve a peer, belong to a group, or wait for an event or a notice */
    static const enum emu_pending_kind kinds[NIC_OP_KINDS] = {
        [NIC_OP_SEND] = EMU_PENDING_SEND,     [NIC_OP_RECV] = EMU_PENDING_RECEIVE,
        [NIC_OP_PUT] = EMU_PENDING_PUT,       [NIC_OP_GET] = EMU_PENDING_GET,
        [NIC_OP_ATOMIC] = EMU_PENDING_ATOMIC, [NIC_OP_BATCH] = EMU_PENDING_PUT,
    };

    return kinds[op->kind];
}

/*
 * If the receiver has not yet requested the data of a long message, no receive has matched the
 * message.
 */
static enum emu_pending_state op_state(const struct nic_op *op)
{
    bool asks = op->kind == NIC_OP_SEND && op->state == NIC_OP_WAITING && op->moved < op->bytes;

    return asks ? EMU_PENDING_UNMATCHED : EMU_PENDING_MOVING;
}

static void slots_scan(struct scan *scan)
{
    for (uint32_t i = 1; i < scan->fab->slot_count; i++) {
        struct nic_op *op = scan->fab->slots[i].op;
        enum emu_pending_kind kind = op ? op_kind(op) : EMU_PENDING_NOTHING;

        if (op)
            scan->moved += op->moved;
        if (kind == EMU_PENDING_RECEIVE)
            op_scan(scan, &scan->pending->receive, op, kind, EMU_PENDING_MOVING);
        else if (kind && op->state != NIC_OP_QUEUED)
            op_scan(scan, &scan->pending->send, op, kind, op_state(op));
    }
}

static void list_scan(struct scan *scan, struct emu_pending_op *oldest, const struct emu_list *list,
                      enum emu_pending_state state)
{
    uint32_t left = SCAN_MAX;

    for (struct emu_list *at = list->next; at != list && left; at = at->next, left--) {
        struct nic_op *op = emu_list_entry(at, struct nic_op, post.link);

        scan->moved += op->moved;
        op_scan(scan, oldest, op, op_kind(op), state);
    }
}

/*
 * Requests that a peer has sent to this process do not count as progress here. The peer counts
 * them, unless they only check whether this process has acted, see fabemu_awaits().
 */
static void peers_scan(struct scan *scan)
{
    for (uint32_t node = 0; node < scan->fab->info.nodes; node++) {
        const struct nic_peer *peer = &scan->fab->peers[node];

        if (!peer->sendq.next)
            continue; /* the peer was never used */
        scan->moved += peer->tx_seq;
        list_scan(scan, &scan->pending->send, &peer->sendq, EMU_PENDING_UNSENT);
    }
}

/*
 * Count the queue's unexpected messages, and note the first. Messages of Open MPI's own
 * collectives, which faster ranks have sent, would hide the messages of the program. So they count
 * only if there are no others.
 */
static void unexpected_scan(struct scan *scan, const struct fabemu_queue *queue)
{
    struct emu_pending *pending = scan->pending;
    uint32_t left = SCAN_MAX;

    for (struct emu_list *at = queue->unexpected.next; at != &queue->unexpected && left;
         at = at->next, left--) {
        const struct fabemu_message *msg = emu_list_entry(at, struct fabemu_message, link);
        uint64_t internal = msg->wire.tag & EMU_PENDING_INTERNAL;

        if (pending->unexpected && (pending->early.tag & EMU_PENDING_INTERNAL) != internal) {
            if (internal)
                continue;
            pending->unexpected = 0;
        }
        if (!pending->unexpected++)
            pending->early = (struct emu_pending_op){.tag = msg->wire.tag,
                                                     .bytes = msg->wire.bytes,
                                                     .node = msg->src_node,
                                                     .kind = EMU_PENDING_RECEIVE,
                                                     .state = EMU_PENDING_UNMATCHED};
    }
}

static void queues_scan(struct scan *scan)
{
    emu_each_listed (const struct fabemu_queue, queue, &scan->fab->opened, opened) {
        list_scan(scan, &scan->pending->receive, &queue->posted, EMU_PENDING_UNMATCHED);
        list_scan(scan, &scan->pending->receive, &queue->active, EMU_PENDING_MOVING);
        unexpected_scan(scan, queue);
    }
}

/*
 * Note @wait, for which there is no operation, in @oldest if it is the oldest so far. @seen_ns:
 * when it was first sampled; 0: this is the first sample.
 */
static void wait_note(struct scan *scan, struct emu_pending_op *oldest, uint64_t *seen_ns,
                      struct emu_pending_op wait)
{
    if (!*seen_ns) {
        *seen_ns = scan->now_ns;
        scan->fresh = true;
    }
    wait.since_ns = *seen_ns;
    if (!oldest->kind || oldest->since_ns > wait.since_ns)
        *oldest = wait;
}

/*
 * Sample the message that fabemu_inject() could not send. There is no operation for it, but its
 * caller may try again and again. It counts as pending until a request has been sent to that peer.
 */
static void offer_scan(struct scan *scan)
{
    struct nic_offer *offer = &scan->fab->offer;
    bool waits = offer->made && offer->tx_seq == scan->fab->peers[offer->node].tx_seq;

    offer->made = false;
    if (!waits) {
        offer->seen_ns = 0;
        return;
    }
    wait_note(scan, &scan->pending->send, &offer->seen_ns,
              (struct emu_pending_op){.tag = offer->tag,
                                      .bytes = offer->bytes,
                                      .node = offer->node,
                                      .kind = EMU_PENDING_SEND,
                                      .state = EMU_PENDING_UNSENT});
}

/*
 * Sample the last probe that found no message. There is no operation for it, but a call such as
 * MPI_Probe probes until the message arrives. A program may also probe now and then between other
 * work, so the wait counts from the first sample of a probe, until something has moved.
 */
static void probe_scan(struct scan *scan)
{
    struct nic_probe *probe = &scan->fab->probe;
    bool made = probe->made;

    probe->made = false;
    if (scan->moved != scan->fab->pending_moved)
        probe->seen_ns = 0;
    if (made)
        wait_note(scan, &scan->pending->receive, &probe->seen_ns,
                  (struct emu_pending_op){.tag = probe->tag,
                                          .ignore = probe->ignore,
                                          .bytes = EMU_PENDING_SIZE_UNKNOWN,
                                          .node = probe->node,
                                          .kind = EMU_PENDING_PROBE,
                                          .state = EMU_PENDING_UNMATCHED});
}

/* Sample the action of another process for which the program waits. */
static void awaited_scan(struct scan *scan)
{
    static const enum emu_pending_kind kinds[FABEMU_ACTIONS] = {
        [FABEMU_ACTION_UNLOCK] = EMU_PENDING_UNLOCK,
        [FABEMU_ACTION_POST] = EMU_PENDING_POST,
        [FABEMU_ACTION_COMPLETE] = EMU_PENDING_COMPLETE,
        [FABEMU_ACTION_FREE] = EMU_PENDING_FREE,
    };
    struct nic_awaited *awaited = &scan->fab->awaited;

    scan->moved -= 2 * awaited->checks; /* each was a request and a completion */
    if (awaited->waits)
        wait_note(scan, &scan->pending->receive, &awaited->seen_ns,
                  (struct emu_pending_op){.tag = awaited->what.target,
                                          .bytes = EMU_PENDING_SIZE_UNKNOWN,
                                          .node = awaited->what.node,
                                          .kind = (uint8_t)kinds[awaited->what.action],
                                          .state = EMU_PENDING_UNMATCHED});
}

/* --- groups ------------------------------------------------------------------------- */

static uint64_t group_in_flight(const struct fabemu_group *g)
{
    uint64_t count = 0;

    for (const struct emu_list *at = g->ops.next; at != &g->ops; at = at->next)
        count++;
    return count;
}

/* Note the group's oldest pending collective. The number of its first segment identifies it. */
static void group_scan_coll(struct scan *scan, struct fabemu_group *g, struct emu_pending_group *to)
{
    const struct nic_coll *c = emu_list_entry(g->ops.next, struct nic_coll, post.link);

    if (g->seen != c->first + 1) {
        g->seen = c->first + 1;
        g->seen_ns = scan->now_ns;
        scan->fresh = true;
    }
    to->since_ns = g->seen_ns;
    to->number = g->begun - group_in_flight(g) + 1;
    to->what = nic_stream_what(c);
    to->seq = nic_stream_awaits(g, c);
    to->sent = !c->sends || c->sent > c->done;
}

static void group_scan(struct scan *scan, struct fabemu_group *g)
{
    struct emu_pending *pending = scan->pending;
    struct emu_pending_group *to = &pending->group[pending->groups];

    if (pending->groups == EMU_PENDING_GROUPS) {
        pending->more = 1;
        return;
    }
    pending->groups++;
    *to = (struct emu_pending_group){.id = g->id, .begun = g->begun};
    memcpy(to->name, g->name, sizeof to->name);
    if (!emu_list_empty(&g->ops))
        group_scan_coll(scan, g, to);
}

/* Sample the groups that have a pending collective (@busy), or those that have none. */
static void groups_scan(struct scan *scan, bool busy)
{
    for (uint32_t i = 0; i < NIC_GROUP_BUCKETS; i++) {
        for (struct fabemu_group *g = scan->fab->groups[i]; g; g = g->next) {
            if (!g->joined || g->members < 2 || g->broken || emu_list_empty(&g->ops) == busy)
                continue;
            group_scan(scan, g);
            scan->moved += g->posted + g->bound;
            if (busy)
                scan->moved += emu_list_entry(g->ops.next, struct nic_coll, post.link)->done;
        }
    }
}

/* --- all ---------------------------------------------------------------------------- */

void nic_pending_publish(struct fabemu *fab, uint64_t now_ns)
{
    struct emu_pending *pending = &fab->pending;
    struct scan scan = {.fab = fab,
                        .pending = pending,
                        .now_ns = now_ns,
                        .moved = fab->completions};
    uint32_t polls = atomic_load_explicit(&fab->polls, memory_order_relaxed);

    *pending = (struct emu_pending){.quiet_ns = pending->quiet_ns,
                                    .written_ns = now_ns,
                                    .mismatch = pending->mismatch};
    slots_scan(&scan);
    peers_scan(&scan);
    offer_scan(&scan);
    queues_scan(&scan);
    groups_scan(&scan, true);
    groups_scan(&scan, false);
    awaited_scan(&scan);
    probe_scan(&scan); /* last, because it needs the final value of scan.moved */
    if (scan.fresh || scan.moved != fab->pending_moved)
        pending->quiet_ns = now_ns;
    pending->waits = polls != fab->pending_polls;
    pending->finalizes = fab->finalizing && fab->finalizing();
    fab->pending_moved = scan.moved;
    fab->pending_polls = polls;
    emu_pending_write(&fab->hostif.shared->pending, pending);
}

void nic_pending_sleep(struct fabemu *fab, uint64_t until_ns)
{
    struct emu_pending *pending = &fab->pending;

    if (pending->quiet_ns >= until_ns)
        return;
    pending->quiet_ns = until_ns;
    if (!pending->written_ns) /* 0 would mean that nothing was ever published */
        pending->written_ns = nic_now_ns(fab) + 1;
    emu_pending_write(&fab->hostif.shared->pending, pending);
}

void fabemu_awaits(struct fabemu *fab, const struct fabemu_awaited *awaited)
{
    struct nic_awaited *at = &fab->awaited;

    if (nic_is_defunct(fab) || (awaited && awaited->action >= FABEMU_ACTIONS))
        return;
    nic_lock(fab);
    if (!awaited || !at->waits || awaited->action != at->what.action ||
        awaited->node != at->what.node || awaited->target != at->what.target)
        at->seen_ns = 0;
    at->waits = awaited;
    if (awaited) {
        at->what = *awaited;
        at->checks += awaited->checks;
    }
    nic_unlock(fab);
}

void fabemu_finalizing(struct fabemu *fab, bool (*function)(void))
{
    if (nic_is_defunct(fab))
        return;
    nic_lock(fab);
    fab->finalizing = function;
    nic_unlock(fab);
}
