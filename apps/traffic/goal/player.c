/* SPDX-License-Identifier: BSD-3-Clause */
/* player.c - nodes that play ranks, and the functions with which the driver reads their state. */
#include "apps/traffic/goal/player.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/base/amount.h"
#include "apps/base/message.h"
#include "apps/traffic/goal/node.h"
#include "emu/packet/kind.h"
#include "emu/util/alloc.h"

#define STUCK_SHOWN 4u /* maximum number of ranks that an error describes */

/* --- a step ------------------------------------------------------------------------- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Return the time of the rank's next event if no further segment arrives; EMU_NEVER: no event. */
static uint64_t rank_next_ps(const struct goal_node *node)
{
    uint64_t calc_ps = goal_ops_next_ps(node);

    if (node->arrived.head == GOAL_NONE)
        return calc_ps;
    return earlier(goal_node_item(node, node->arrived.head)->at_ps, calc_ps);
}

/*
 * Process the events of a rank until @until_ps. All events of the same time come before the start
 * of operations at that time.
 */
static void rank_run(struct goal_node *node, uint64_t until_ps)
{
    uint64_t now_ps;

    while ((now_ps = rank_next_ps(node)) <= until_ps) {
        while (node->arrived.head != GOAL_NONE &&
               goal_node_item(node, node->arrived.head)->at_ps == now_ps)
            goal_message_arrived(node, goal_list_pop(node, &node->arrived), now_ps);
        goal_ops_end(node, now_ps);
        goal_ops_start(node, now_ps);
    }
}

static uint32_t node_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct goal_node *node = (struct goal_node *)dev;
    uint64_t arrive_ps, depart_ps;

    emu_dev_take(dev, EMU_EVENT_DATA);
    emu_dev_take(dev, EMU_EVENT_CREDIT);
    arrive_ps = traffic_take(&node->base.rx, node->base.tx.profile->credit_ps, until_ps, node,
                             goal_wire_deliver);
    rank_run(node, until_ps);
    depart_ps = goal_wire_send(node, until_ps);
    dev->next_ps = earlier(earlier(arrive_ps, depart_ps), rank_next_ps(node));
    return 0;
}

/* --- creation ----------------------------------------------------------------------- */

static struct goal_worker *worker_join(struct goal_player *player, uint32_t index)
{
    struct traffic_phase always = traffic_phase_of(0, EMU_LAST_PS);

    if (index >= player->workers) {
        struct goal_worker **more = realloc(player->worker, (index + 1) * sizeof more[0]);

        if (!more)
            return NULL;
        for (player->worker = more; player->workers <= index; player->workers++)
            more[player->workers] = NULL;
    }
    if (!player->worker[index]) {
        player->worker[index] = emu_zeros(sizeof *player->worker[index]);
        if (player->worker[index])
            traffic_stats_init(&player->worker[index]->latency, &always);
    }
    return player->worker[index];
}

static int node_create(void *ctx, uint32_t n, struct emu_worker *worker, struct emu_dev **dev,
                       struct emu_tx **tx, struct emu_rx **rx)
{
    static const struct goal_list empty = {GOAL_NONE, GOAL_NONE};
    static const struct goal_rank idle = {.cpus = 1};
    struct goal_player *player = ctx;
    struct goal_node *node = traffic_base_new(sizeof *node, worker, node_step, dev, tx, rx);

    if (!node)
        return -ENOMEM;
    player->node[n] = node;
    node->player = player;
    node->node = n;
    node->rank = n < player->goal->ranks ? &player->goal->rank[n] : &idle;
    node->stream = &player->stream[node->rank->first_member];
    node->streams = node->rank->members;
    node->arrived = node->out = node->unmatched = node->posted = empty;
    node->digest = TRAFFIC_DIGEST_START + n;
    node->worker = worker_join(player, worker->index);
    node->cpu = calloc(node->rank->cpus, sizeof node->cpu[0]);
    if (!node->worker || !node->cpu)
        return -ENOMEM;
    for (uint32_t c = 0; c < node->rank->cpus; c++)
        node->cpu[c] = (struct goal_cpu){empty, GOAL_NONE, EMU_NEVER};
    return 0;
}

static int streams_init(struct goal_player *player)
{
    const struct goal *goal = player->goal;

    for (uint32_t m = 0; m < goal->members; m++)
        player->stream[m] = (struct goal_stream){.window = goal->group[goal->member[m].group].wide
                                                               ? EMU_WINDOW_WIDE
                                                               : EMU_WINDOW,
                                                 .ops = {GOAL_NONE, GOAL_NONE},
                                                 .sending = GOAL_NONE,
                                                 .latest = GOAL_NONE,
                                                 .first = GOAL_NONE};
    for (uint32_t i = 0; i < goal->ops; i++) {
        const struct goal_op *op = &goal->op[i];
        struct goal_stream *stream = op->kind == GOAL_COLL ? &player->stream[op->member] : NULL;

        if (!stream)
            continue;
        if (stream->latest == GOAL_NONE)
            stream->latest = i;
        if (stream->early || (op->coll_kind != EMU_MULTICAST && op->coll_kind != EMU_REDUCE))
            continue;
        stream->early = calloc(stream->window, sizeof stream->early[0]);
        if (!stream->early)
            return -ENOMEM;
    }
    return 0;
}

int goal_player_init(struct goal_player *player, const struct goal *goal, uint32_t nodes,
                     const struct emu_profile *profile)
{
    *player = (struct goal_player){
        .ops = {.create = node_create, .ctx = player},
        .goal = goal,
        .profile = profile,
        .times = traffic_times_of(profile),
        .nodes = nodes,
        .node = calloc(nodes, sizeof player->node[0]),
        .state = malloc(((size_t)goal->ops + 1) * sizeof player->state[0]),
        .item =
            calloc(2 * (size_t)goal->messages + goal_coll_items(goal) + 1, sizeof player->item[0]),
        .sent = calloc((size_t)goal->messages + 1, sizeof player->sent[0]),
        .pair = calloc((size_t)goal->pairs + 1, sizeof player->pair[0]),
        .coll = calloc((size_t)goal->colls + 1, sizeof player->coll[0]),
        .stream = calloc((size_t)goal->members + 1, sizeof player->stream[0]),
        .group = calloc((size_t)goal->groups + 1, sizeof player->group[0]),
    };
    if (!player->node || !player->state || !player->item || !player->sent || !player->pair ||
        !player->coll || !player->stream || !player->group || streams_init(player))
        return -ENOMEM;
    for (uint32_t i = 0; i < goal->ops; i++)
        player->state[i] = (struct goal_state){goal->waits[i], GOAL_NONE};
    for (uint32_t i = 0; i < goal->pairs; i++)
        player->pair[i].early = GOAL_NONE;
    return 0;
}

void goal_player_free(struct goal_player *player)
{
    for (uint32_t n = 0; player->node && n < player->nodes; n++) {
        if (!player->node[n])
            continue;
        emu_link_unjoin(&player->node[n]->base.tx);
        free(player->node[n]->cpu);
        free(player->node[n]);
    }
    for (uint32_t w = 0; w < player->workers; w++)
        free(player->worker[w]);
    free(player->worker);
    free(player->node);
    free(player->state);
    free(player->item);
    free(player->sent);
    free(player->pair);
    for (uint32_t m = 0; player->stream && m < player->goal->members; m++)
        free(player->stream[m].early);
    free(player->stream);
    free(player->coll);
    free(player->group);
    *player = (struct goal_player){.nodes = 0};
}

uint64_t goal_player_bytes(const struct goal_player *player)
{
    const struct goal *goal = player->goal;
    uint64_t op = sizeof goal->op[0] + sizeof goal->waits[0] + sizeof goal->edge_first[0] +
                  sizeof player->state[0];
    uint64_t message = sizeof goal->message[0] + 2 * sizeof player->item[0] +
                       sizeof player->sent[0];

    uint64_t groups = goal_coll_items(goal) * sizeof player->item[0] +
                      goal->colls * sizeof player->coll[0] +
                      goal->members * sizeof player->stream[0];

    for (uint32_t m = 0; m < goal->members; m++)
        if (player->stream[m].early)
            groups += player->stream[m].window * sizeof(struct goal_early);
    return groups + goal->ops * op + goal->edges * sizeof goal->edge[0] + goal->messages * message +
           goal->pairs * sizeof player->pair[0] +
           player->nodes *
               (sizeof(struct goal_node) + sizeof(struct goal_cpu) + sizeof player->node[0]);
}

/* --- functions of the driver -------------------------------------------------------- */

void goal_player_begin(struct goal_player *player)
{
    for (uint32_t r = 0; r < player->goal->ranks; r++) {
        goal_ops_begin(player->node[r]);
        emu_dev_wake(&player->node[r]->base.dev, 0);
    }
}

uint64_t goal_player_done(const struct goal_player *player)
{
    uint64_t done = 0;

    for (uint32_t w = 0; w < player->workers; w++)
        done += player->worker[w] ? player->worker[w]->done : 0;
    return done;
}

uint64_t goal_player_moved(const struct goal_player *player)
{
    uint64_t segments = 0;

    for (uint32_t w = 0; w < player->workers; w++)
        segments += player->worker[w] ? player->worker[w]->segments : 0;
    return segments + goal_player_done(player);
}

bool goal_player_rests(const struct goal_player *player)
{
    for (uint32_t r = 0; r < player->goal->ranks; r++)
        if (player->node[r]->base.dev.next_ps != EMU_NEVER)
            return false;
    return true;
}

struct goal_times goal_player_times(const struct goal_player *player, uint32_t rank)
{
    const struct goal_node *node = player->node[rank];

    return (struct goal_times){node->finish_ps, node->finish_ps - node->busy_ps};
}

void goal_player_totals(const struct goal_player *player, uint64_t *digest, uint64_t *sent,
                        uint64_t *received)
{
    *sent = *received = 0;
    for (uint32_t n = 0; n < player->nodes; n++) {
        const struct goal_node *node = player->node[n];

        digest[n] = node->digest;
        *sent += emu_count_read(&node->base.tx.counts.segments) - node->in_groups;
        *received += node->received;
    }
}

/* --- errors ------------------------------------------------------------------------- */

/* Describe a collective, for example "allreduce of 8 bytes". */
static const char *coll_text(const struct goal_op *op, char text[static GOAL_TEXT_BYTES])
{
    const char *name = emu_kind_traits(op->coll_kind)->collective;

    if (op->coll_kind == EMU_BARRIER)
        snprintf(text, GOAL_TEXT_BYTES, "%s", name);
    else
        snprintf(text, GOAL_TEXT_BYTES, "%s of %llu byte%s", name, (unsigned long long)op->amount,
                 plural_s(op->amount));
    return text;
}

const char *goal_op_text(const struct goal_op *op, char text[static GOAL_TEXT_BYTES])
{
    char peer[16] = "any", tag[16] = "any";

    if (op->kind == GOAL_COLL)
        return coll_text(op, text);
    if (op->kind == GOAL_CALC) {
        snprintf(text, GOAL_TEXT_BYTES, "calc %llu", (unsigned long long)op->amount);
        return text;
    }
    if (op->peer != GOAL_ANY)
        snprintf(peer, sizeof peer, "%u", op->peer);
    if (op->tag != GOAL_ANY)
        snprintf(tag, sizeof tag, "%u", op->tag);
    snprintf(text, GOAL_TEXT_BYTES, "%s of %llu byte%s %s %s tag %s",
             op->kind == GOAL_SEND ? "send" : "recv", (unsigned long long)op->amount,
             plural_s(op->amount), op->kind == GOAL_SEND ? "to" : "from", peer, tag);
    return text;
}

int goal_player_check(const struct goal_player *player, char *error, size_t error_bytes)
{
    static const char *const why[] = {
        [GOAL_TRUNCATED] = "has matched a message that is longer",
        [GOAL_TOO_LATE] = "would end after more than 53 days, the limit of simulated time",
        [GOAL_DIFFERS] = "does not match the collective of another rank of its group",
        [GOAL_NO_BUFFER] = "has found no free buffer for a payload"};
    char text[GOAL_TEXT_BYTES];
    uint32_t r = 0, w = 0;

    while (w < player->workers && !(player->worker[w] && player->worker[w]->fault))
        w++;
    if (w == player->workers)
        return 0;
    while (r < player->goal->ranks && !player->node[r]->fault)
        r++;
    if (r == player->goal->ranks)
        return 0;
    const struct goal_node *node = player->node[r];
    const struct goal_op *op = goal_node_op(node, node->fault_op);

    return fail(-EINVAL, error, error_bytes, "rank %u: %s (line %u) %s", r, goal_op_text(op, text),
                op->line, why[node->fault]);
}

/* Return an operation of @node that is not complete: one that waits for a message, if possible. */
static uint32_t stuck_op(const struct goal_node *node)
{
    const struct goal_state *state = node->player->state;
    uint32_t first = node->rank->first, other = GOAL_NONE;

    if (node->posted.head != GOAL_NONE)
        return node->posted.head;
    for (uint32_t op = first; op < first + node->rank->ops; op++) {
        if (state[op].waits == GOAL_STARTED)
            return op;
        if (state[op].waits != GOAL_DONE && other == GOAL_NONE)
            other = op;
    }
    return other;
}

/* Describe why @node cannot continue. Returns the length of the description, as snprintf() does. */
static int stuck_text(const struct goal_node *node, char *text, size_t bytes)
{
    uint32_t op = stuck_op(node);
    char what[GOAL_TEXT_BYTES];
    const char *how = "never matched";

    if (node->player->state[op].waits < GOAL_STARTED)
        how = "never started";
    else if (goal_node_op(node, op)->kind == GOAL_COLL)
        how = "waits for other ranks of its group";
    else if (goal_node_op(node, op)->kind == GOAL_RECV && op != node->posted.head)
        how = "matched a message that never arrived";
    return snprintf(text, bytes, "rank %u: %s %s (line %u)", node->node,
                    goal_op_text(goal_node_op(node, op), what), how, goal_node_op(node, op)->line);
}

/* Describe a message that no receive of @node has matched. */
static int unmatched_text(const struct goal_node *node, char *text, size_t bytes)
{
    const struct goal *goal = node->player->goal;
    const struct goal_message *message = &goal->message[node->unmatched.head - goal->messages];
    char what[GOAL_TEXT_BYTES];

    return snprintf(text, bytes, "rank %u: %s never received (line %u)", message->from,
                    goal_op_text(&goal->op[message->op], what), goal->op[message->op].line);
}

uint32_t goal_player_stuck(const struct goal_player *player, char *text, size_t bytes)
{
    bool complete = goal_player_done(player) == player->goal->ops;
    uint32_t count = 0;
    size_t used = 0;

    for (uint32_t r = 0; r < player->goal->ranks; r++) {
        const struct goal_node *node = player->node[r];
        bool stuck = complete ? node->unmatched.head != GOAL_NONE : node->done < node->rank->ops;

        if (!stuck || count++ >= STUCK_SHOWN || used >= bytes)
            continue;
        used += (size_t)snprintf(text + used, bytes - used, "%s", count > 1 ? "; " : "");
        if (used < bytes)
            used +=
                (size_t)(complete ? unmatched_text : stuck_text)(node, text + used, bytes - used);
    }
    if (count > STUCK_SHOWN && used < bytes)
        snprintf(text + used, bytes - used, "; and %u more", count - STUCK_SHOWN);
    return count;
}
