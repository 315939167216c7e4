/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll.c - collectives that the network executes. In each of its groups a rank sends and receives
 * one stream of segments, as the adapter library does (nic/host/group/stream.c, which explains half
 * windows and tokens).
 *
 * A collective has two items (struct goal_item): one for its segments to send, one for its end. A
 * membership (a rank in a group) has three: one for its tokens to send, one for the returning
 * tokens of even half windows, and one for those of odd half windows.
 */
#include <string.h>

#include "apps/base/message.h"
#include "apps/traffic/goal/node.h"
#include "emu/util/combine.h"

#define MEMBER_ITEMS 3u /* one for tokens to send, two for tokens that return */

static uint32_t first_item(const struct goal *goal)
{
    return 2 * goal->messages;
}

static uint32_t send_item(const struct goal *goal, uint32_t coll)
{
    return first_item(goal) + coll;
}

static uint32_t end_item(const struct goal *goal, uint32_t coll)
{
    return first_item(goal) + goal->colls + coll;
}

static uint32_t member_item(const struct goal *goal, uint32_t member)
{
    return first_item(goal) + 2 * goal->colls + MEMBER_ITEMS * member;
}

uint64_t goal_coll_items(const struct goal *goal)
{
    return 2 * (uint64_t)goal->colls + MEMBER_ITEMS * (uint64_t)goal->members;
}

bool goal_coll_has_item(const struct goal *goal, uint32_t id)
{
    return id >= first_item(goal);
}

/* --- properties of an operation ------------------------------------------------------ */

static bool is_root(const struct goal_node *node, const struct goal_op *op)
{
    return op->peer == node->node;
}

static bool sends(const struct goal_node *node, const struct goal_op *op)
{
    if (op->coll_kind == EMU_MULTICAST)
        return is_root(node, op);
    return op->coll_kind != EMU_REDUCE || !is_root(node, op);
}

static bool awaits(const struct goal_node *node, const struct goal_op *op)
{
    if (op->coll_kind == EMU_MULTICAST)
        return !is_root(node, op);
    return op->coll_kind != EMU_REDUCE || is_root(node, op);
}

static bool folds(const struct goal_op *op)
{
    return op->coll_kind == EMU_REDUCE || op->coll_kind == EMU_ALLREDUCE;
}

/* Return the payload of each segment except the last: as many whole elements as fit. */
static uint64_t step_of(const struct goal_op *op)
{
    uint64_t element = folds(op) ? emu_type_bytes(op->fold_type) : 1;

    return EMU_PAYLOAD_BYTES / element * element;
}

static uint32_t segments_of(const struct goal_op *op)
{
    return op->amount ? (uint32_t)((op->amount + step_of(op) - 1) / step_of(op)) : 1;
}

/* Return the payload of segment @k. */
static uint8_t segment_bytes(const struct goal_op *op, uint64_t k)
{
    uint64_t left = op->amount - k * step_of(op);

    return (uint8_t)(left < step_of(op) ? left : step_of(op));
}

/* --- numbers of segments -------------------------------------------------------------- */

/*
 * Return the number of segments in a half window that operations may use. The last segment of a
 * half window is its token. The result is also a bit mask for the number of a segment in its half
 * window.
 */
static uint32_t usable(const struct goal_stream *stream)
{
    return stream->window / 2 - 1;
}

static uint64_t half_of(const struct goal_stream *stream, uint64_t index)
{
    return index / usable(stream);
}

static uint64_t seq_of(const struct goal_stream *stream, uint64_t index)
{
    return index + half_of(stream, index);
}

static bool half_open(const struct goal_stream *stream, uint64_t half)
{
    return half < stream->done + 2;
}

/* --- sending -------------------------------------------------------------------------- */

/* Let @count more segments of item @id leave, from @at_ps on. */
static void put(struct goal_node *node, uint32_t id, uint32_t count, uint64_t at_ps)
{
    struct goal_item *item = goal_node_item(node, id);
    bool listed = item->left > 0;

    item->left += count;
    if (listed)
        return;
    item->what = GOAL_GROUP;
    item->at_ps = at_ps;
    goal_list_push(node, &node->out, id);
}

/* Let item @id arrive at @at_ps. */
static void arrive(struct goal_node *node, uint32_t id, uint64_t at_ps)
{
    struct goal_item *item = goal_node_item(node, id);

    item->what = GOAL_GROUP;
    item->at_ps = at_ps;
    goal_list_arrive(node, id);
}

static void unlist(const struct goal_node *node, struct goal_stream *stream, uint32_t op)
{
    uint32_t before = GOAL_NONE;

    for (uint32_t at = stream->ops.head; at != op; at = node->player->state[at].next)
        before = at;
    goal_ops_unlink(node, &stream->ops, before, op);
}

/* Note that @count segments of one half window are complete, at @at_ps. This may end @op. */
static void complete(struct goal_node *node, struct goal_stream *stream, uint32_t op,
                     uint64_t index, uint32_t count, uint64_t at_ps)
{
    uint32_t number = goal_node_op(node, op)->coll;
    struct goal_coll *coll = &node->player->coll[number];

    stream->complete[half_of(stream, index) % 2] += count;
    while (stream->complete[stream->cur % 2] == usable(stream)) {
        stream->complete[stream->cur % 2] = 0;
        stream->cur++;
    }
    coll->done += count;
    if (at_ps > coll->last_ps)
        coll->last_ps = at_ps;
    if (coll->done < coll->segments)
        return;
    unlist(node, stream, op);
    arrive(node, end_item(node->player->goal, number), coll->last_ps);
}

static void tokens_done(struct goal_stream *stream)
{
    while (stream->done < stream->issued && stream->back[stream->done % 2]) {
        stream->back[stream->done % 2] = false;
        stream->done++;
    }
}

/* Send the tokens that are due. Returns whether there were any. */
static bool tokens_send(struct goal_node *node, struct goal_stream *stream, uint64_t at_ps)
{
    uint32_t member = (uint32_t)(stream - node->player->stream);
    bool sent = false;

    while (stream->issued < stream->cur && half_open(stream, stream->issued)) {
        put(node, member_item(node->player->goal, member), 1, at_ps);
        stream->issued++;
        tokens_done(stream);
        sent = true;
    }
    return sent;
}

/* Let the next segments of stream->sending leave, up to the end of the half window. */
static void run_send(struct goal_node *node, struct goal_stream *stream, uint64_t at_ps)
{
    const struct goal_op *op = goal_node_op(node, stream->sending);
    struct goal_coll *coll = &node->player->coll[op->coll];
    uint64_t index = coll->first + coll->sent;
    uint64_t room = (half_of(stream, index) + 1) * usable(stream) - index;
    uint32_t left = coll->segments - coll->sent, count = left < room ? left : (uint32_t)room;
    uint32_t sending = stream->sending;

    coll->sent += count;
    put(node, send_item(node->player->goal, op->coll), count, at_ps);
    if (coll->sent == coll->segments)
        do
            stream->sending = node->player->state[stream->sending].next;
        while (stream->sending != GOAL_NONE && !sends(node, goal_node_op(node, stream->sending)));
    if (!awaits(node, op))
        complete(node, stream, sending, index, count, at_ps);
}

/* Send all tokens and segments that may leave, from @at_ps on. */
static void release(struct goal_node *node, struct goal_stream *stream, uint64_t at_ps)
{
    bool sent;

    do {
        sent = tokens_send(node, stream, at_ps);
        for (; stream->sending != GOAL_NONE; sent = true) {
            const struct goal_coll *coll =
                &node->player->coll[goal_node_op(node, stream->sending)->coll];

            if (!half_open(stream, half_of(stream, coll->first + coll->sent)))
                break;
            run_send(node, stream, at_ps);
        }
    } while (sent);
}

/* Give the entry a payload, which combine units need. Its values do not matter. */
static bool payload(struct goal_node *node, struct emu_entry *entry)
{
    struct emu_pool_cache *cache = &node->base.dev.worker->cache;

    entry->buf = emu_pool_take(cache);
    if (entry->buf == EMU_NO_BUF)
        return false;
    memset(emu_pool_bytes(cache->pool, entry->buf), 0, entry->hdr.len);
    return true;
}

bool goal_coll_segment(struct goal_node *node, uint32_t id, struct emu_entry *entry)
{
    const struct goal_player *player = node->player;
    const struct goal *goal = player->goal;
    uint32_t left = goal_node_item(node, id)->left;

    *entry = (struct emu_entry){.hdr = {.src = node->node}, .buf = EMU_NO_BUF};
    if (id >= member_item(goal, 0)) {
        const struct goal_stream *stream =
            &player->stream[(id - member_item(goal, 0)) / MEMBER_ITEMS];
        uint64_t half = stream->issued - left;

        entry->hdr.kind = EMU_BARRIER;
        entry->hdr.dst = stream->id;
        entry->hdr.seq = (uint32_t)(half * (stream->window / 2) + usable(stream));
        return true;
    }
    const struct goal_coll *coll = &player->coll[id - first_item(goal)];
    const struct goal_op *op = goal_node_op(node, coll->op);
    const struct goal_stream *stream = &player->stream[op->member];
    uint32_t k = coll->sent - left;

    entry->hdr.kind = op->coll_kind;
    entry->hdr.dst = stream->id;
    entry->hdr.seq = (uint32_t)seq_of(stream, coll->first + k);
    entry->hdr.len = segment_bytes(op, k);
    entry->hdr.op = op->fold_op;
    entry->hdr.type = op->fold_type;
    if (!folds(op) || payload(node, entry))
        return true;
    goal_ops_fail(node, coll->op, GOAL_NO_BUFFER);
    return false;
}

/* --- receiving ------------------------------------------------------------------------ */

/* Return the pending operation that has segment @index. */
static uint32_t op_of(const struct goal_node *node, const struct goal_stream *stream,
                      uint64_t index)
{
    uint32_t op = stream->ops.head;

    for (; op != GOAL_NONE; op = node->player->state[op].next) {
        const struct goal_coll *coll = &node->player->coll[goal_node_op(node, op)->coll];

        if (index >= coll->first && index - coll->first < coll->segments)
            break;
    }
    return op;
}

/* Process a segment of a posted operation. Members whose operations differ cause a fault. */
static void take(struct goal_node *node, struct goal_stream *stream, uint64_t index,
                 const struct goal_early *segment, uint64_t now_ps)
{
    uint32_t at = op_of(node, stream, index);
    const struct goal_op *op;
    uint64_t k;

    if (at == GOAL_NONE) {
        goal_ops_fail(node, stream->latest, GOAL_DIFFERS);
        return;
    }
    op = goal_node_op(node, at);
    k = index - node->player->coll[op->coll].first;
    if (!awaits(node, op) || (sends(node, op) && k >= node->player->coll[op->coll].sent) ||
        segment->kind != op->coll_kind || segment->len != segment_bytes(op, k) ||
        segment->op != op->fold_op || segment->type != op->fold_type) {
        goal_ops_fail(node, at, GOAL_DIFFERS);
        return;
    }
    complete(node, stream, at, index, 1, segment->at_ps > now_ps ? segment->at_ps : now_ps);
}

static struct goal_stream *stream_of(const struct goal_node *node, uint32_t id)
{
    struct goal_stream *stream = node->stream;

    for (uint32_t i = 0; i < node->streams; i++)
        if (stream[i].id == id)
            return &stream[i];
    return NULL;
}

/* Process a segment. If its operation has not started yet, only store the segment. */
static void receive(struct goal_node *node, struct goal_stream *stream, uint32_t seq,
                    const struct goal_early *segment)
{
    uint32_t half = stream->window / 2, ahead = seq - (uint32_t)(stream->cur * half);
    uint64_t index = (stream->cur + (ahead >= half)) * usable(stream) + (ahead & usable(stream));

    if (ahead >= stream->window || (index >= stream->posted && !stream->early)) {
        goal_ops_fail(node, stream->latest, GOAL_DIFFERS);
    } else if (index >= stream->posted) {
        stream->early[seq % stream->window] = *segment;
    } else {
        take(node, stream, index, segment, 0);
        release(node, stream, segment->at_ps);
    }
}

void goal_coll_deliver(struct goal_node *node, const struct emu_entry *entry)
{
    const struct goal_player *player = node->player;
    struct goal_stream *stream = stream_of(node, entry->hdr.dst);
    const struct goal_early segment = {
        .at_ps = traffic_memory_ps(&player->times, player->profile, entry),
        .kind = (uint8_t)emu_hdr_kind(&entry->hdr),
        .len = entry->hdr.len,
        .op = entry->hdr.op,
        .type = entry->hdr.type,
    };

    if (!stream || node->fault)
        return;
    node->digest = traffic_digest(node->digest, entry->hdr.dst, entry->hdr.seq, segment.at_ps);
    if (emu_hdr_is_token(&entry->hdr)) {
        uint32_t parity = entry->hdr.seq / (stream->window / 2) % 2;

        arrive(node, member_item(player->goal, (uint32_t)(stream - player->stream)) + 1 + parity,
               segment.at_ps);
    } else {
        receive(node, stream, entry->hdr.seq, &segment);
    }
}

/* --- events --------------------------------------------------------------------------- */

void goal_coll_start(struct goal_node *node, uint32_t at, uint64_t now_ps)
{
    struct goal_player *player = node->player;
    const struct goal_op *op = goal_node_op(node, at);
    struct goal_stream *stream = &player->stream[op->member];
    struct goal_coll *coll = &player->coll[op->coll];
    uint64_t end;

    *coll = (struct goal_coll){.first = stream->posted,
                               .op = at,
                               .segments = segments_of(op),
                               .after = GOAL_NONE};
    if (stream->first == GOAL_NONE)
        stream->first = at;
    else
        player->coll[goal_node_op(node, stream->latest)->coll].after = at;
    stream->posted += coll->segments;
    stream->latest = at;
    goal_ops_append(node, &stream->ops, at);
    if (stream->sending == GOAL_NONE && sends(node, op))
        stream->sending = at;
    end = stream->posted;
    for (uint64_t i = coll->first;
         stream->early && i < end && i < (stream->cur + 2) * usable(stream) && !node->fault; i++) {
        struct goal_early *early = &stream->early[seq_of(stream, i) % stream->window];

        if (!early->at_ps)
            continue;
        take(node, stream, i, early, now_ps);
        early->at_ps = 0;
    }
    release(node, stream, now_ps);
}

void goal_coll_arrived(struct goal_node *node, uint32_t id, uint64_t now_ps)
{
    struct goal_player *player = node->player;
    const struct goal *goal = player->goal;
    uint32_t token = id - member_item(goal, 0);
    struct goal_stream *stream;

    if (id < member_item(goal, 0)) {
        goal_ops_done(node, player->coll[id - end_item(goal, 0)].op, now_ps);
        return;
    }
    stream = &player->stream[token / MEMBER_ITEMS];
    stream->back[token % MEMBER_ITEMS - 1] = true;
    tokens_done(stream);
    release(node, stream, now_ps);
}

/* --- groups --------------------------------------------------------------------------- */

int goal_coll_groups(struct goal_player *player, struct fabric *fabric, char *error,
                     size_t error_bytes)
{
    const struct goal *goal = player->goal;
    char why[160];
    int err = 0;

    for (uint32_t g = 0; !err && g < goal->groups; g++) {
        const struct goal_group *group = &goal->group[g];

        if (!group->used)
            continue;
        err = (group->wide ? fabric_group_create_wide
                           : fabric_group_create)(fabric, group->rank, group->ranks,
                                                  &player->group[g], why, sizeof why);
        if (err)
            fail(err, error, error_bytes,
                 "group %u (line %u): %s; all groups of the file exist from the beginning",
                 group->number, group->line, why);
    }
    for (uint32_t m = 0; !err && m < goal->members; m++)
        player->stream[m].id = player->group[goal->member[m].group];
    return err;
}
