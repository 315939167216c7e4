/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pairs.c - operations between two nodes: messages, puts, gets and atomics.
 *
 * A message announces each put; the receiver checks its slot, poisons it, and then answers. The
 * next put of the pair uses the other slot, so a late duplicate write would be found.
 */
#include "tests/chaos/node.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "emu/util/random.h"
#include "tests/fixtures/bytes.h"

uint64_t chaos_known_key(const struct chaos_node *node, uint32_t of, uint64_t words)
{
    return emu_mix(node->plan.seed ^ ((uint64_t)of + 1) << 40) + words * EMU_GOLDEN;
}

static uint8_t *slot_of(const struct chaos_node *node, uint32_t peer, uint32_t place)
{
    return node->slots + ((size_t)peer * CHAOS_PUTS + place % CHAOS_PUTS) * CHAOS_BYTES;
}

static bool is_lost(const struct chaos_node *node, uint32_t peer)
{
    return chaos_is_in(node->lost, peer);
}

void chaos_pairs_open(struct chaos_node *node)
{
    uint64_t *key = node->board->key[node->me];
    size_t slots = (size_t)node->plan.nodes * CHAOS_PUTS * CHAOS_BYTES;
    size_t words = (size_t)node->plan.nodes * CHAOS_WORDS * sizeof *node->words;
    int err = 0;

    node->known = malloc(CHAOS_BYTES_KNOWN);
    node->slots = malloc(slots);
    node->words = calloc(1, words);
    if (!node->known || !node->slots || !node->words)
        chaos_wrong(node, "there is no memory");
    bytes_fill(node->known, CHAOS_BYTES_KNOWN, chaos_known_key(node, node->me, 0));
    chaos_poison(node->slots, slots);
    err = fabemu_register(node->fab, node->known, CHAOS_BYTES_KNOWN, FABEMU_REMOTE_READ,
                          &key[CHAOS_KNOWN]);
    if (!err)
        err =
            fabemu_register(node->fab, node->slots, slots, FABEMU_REMOTE_WRITE, &key[CHAOS_SLOTS]);
    if (!err)
        err = fabemu_register(node->fab, node->words, words, FABEMU_REMOTE_ATOMIC,
                              &key[CHAOS_ATOMIC]);
    if (err)
        chaos_wrong(node, "it cannot register memory: %s", strerror(-err));
}

/* --- messages ----------------------------------------------------------------------- */

static void message_sent(struct chaos_node *node, struct chaos_task *task)
{
    chaos_over(node, task);
}

static void message_send(struct chaos_node *node, struct chaos_task *task)
{
    uint64_t tag = chaos_tag(node, CHAOS_DATA, task->index);
    struct fabemu_dest dest = {.node = task->peer,
                               .queue = 1,
                               .tag = tag,
                               .data = ~tag,
                               .incarnation = chaos_incarnation_of(node, task)};
    int err;

    if (task->bytes > FABEMU_INJECT_BYTES || task->withdraw || task->op->random >> 9 & 1) {
        chaos_send(node, task, task->peer, tag, task->buf, task->bytes);
        return;
    }
    err = fabemu_inject(node->queue, &dest, task->buf, task->bytes);
    if (err != -EAGAIN)
        chaos_posted(task, err);
}

static void message_arrived(struct chaos_node *node, struct chaos_task *task)
{
    const struct fabemu_req *req = &task->req;
    bool stream = task->op->kind == CHAOS_STREAM;
    uint64_t tag = chaos_tag(node, stream ? CHAOS_IN_ORDER : CHAOS_DATA, task->index);

    if (req->bytes != task->bytes || req->src_node != task->peer || req->tag != tag ||
        req->data != ~tag)
        chaos_wrong(node,
                    "message %u of %zu bytes from node %u: what came is of %" PRIu64
                    " bytes from node %u, tag %" PRIx64 ", data %" PRIx64,
                    task->index, task->bytes, task->peer, req->bytes, req->src_node, req->tag,
                    req->data);
    chaos_check(node, task, task->buf, task->bytes, task->op->random);
    chaos_over(node, task);
}

/* Some receives probe for the message first; some name no source. */
static void message_receive(struct chaos_node *node, struct chaos_task *task)
{
    uint64_t tag = chaos_tag(node, CHAOS_DATA, task->index);
    bool anybody = task->op->random >> 10 & 1 && !chaos_is_fragile(&node->plan);
    const struct fabemu_iov iov = {.base = task->buf, .bytes = task->bytes};
    uint32_t from = anybody ? FABEMU_ANY_NODE : task->peer;
    int err;

    if (task->op->random >> 11 & 1 || task->withdraw || chaos_is_fragile(&node->plan)) {
        chaos_receive(node, task, from, tag, task->buf, task->bytes);
        return;
    }
    err = fabemu_probe(node->queue, from, tag, 0, &task->claim, &task->req);
    if (err == -ENOMSG)
        return;
    if (err)
        chaos_wrong(node, "a probe for message %u ended with: %s", task->index, strerror(-err));
    memset(&task->req, 0, sizeof task->req);
    chaos_posted(task, fabemu_recv_claimed(node->queue, task->claim, &iov, 1, &task->req));
}

/* --- cancelled messages ------------------------------------------------------------- */

/*
 * Some unmatched receives are cancelled by the receiver and posted again later: nothing was
 * written, and the message arrives whole.
 *
 * Some messages are recalled by the sender, who reports the result in another message: if it was
 * sent, the message has arrived or will; otherwise only the receiver knows whether it gets all of
 * it, -ECANCELED, or nothing: then it cancels its receive.
 */
enum chaos_withdraw { KEPT, RECEIVE_CANCELLED, SEND_RECALLED };
#define WITHDRAWN_OF 6u /* each end withdraws one of this many messages */
#define ROUNDS_MOST  64u

static enum chaos_withdraw withdraw_of(const struct chaos_node *node, const struct chaos_op *op)
{
    uint32_t one = (uint32_t)(op->random >> 13) % WITHDRAWN_OF;

    if (!node->plan.cancels || op->kind != CHAOS_MESSAGE)
        return KEPT;
    return one == 0 ? RECEIVE_CANCELLED : one == 1 ? SEND_RECALLED : KEPT;
}

static uint32_t rounds_of(const struct chaos_node *node, const struct chaos_op *op)
{
    return 1 + (uint32_t)(emu_mix(op->random + node->me) % ROUNDS_MOST);
}

static void buffer_untouched(struct chaos_node *node, const struct chaos_task *task)
{
    if (!chaos_poisoned(task->buf, task->bytes + CHAOS_GUARD))
        chaos_wrong(node, "receive %u was cancelled before anything matched, and was written into",
                    task->index);
}

/* Too late: the receive has matched, and completes. */
static void receive_cancel(struct chaos_node *node, struct chaos_task *task)
{
    if (fabemu_cancel(node->queue, &task->req))
        return;
    if (fabemu_req_status(&task->req) != -ECANCELED)
        chaos_wrong(node, "receive %u was cancelled, and its status is %d", task->index,
                    fabemu_req_status(&task->req));
    buffer_untouched(node, task);
    atomic_fetch_add(&node->board->taken_back, 1);
    task->posted = false;
    task->late = rounds_of(node, task->op);
}

static void recall_reported(struct chaos_node *node, struct chaos_task *task)
{
    chaos_over(node, task);
}

/* Tell the receiver whether the message was sent or recalled. */
static void recall_report(struct chaos_node *node, struct chaos_task *task, bool sent)
{
    task->word = sent;
    task->then = recall_reported;
    task->withdrawn = NULL;
    task->rounds = 0;
    chaos_send(node, task, task->peer, chaos_tag(node, CHAOS_SEEN, task->index), &task->word, 8);
}

static void recall_late(struct chaos_node *node, struct chaos_task *task)
{
    recall_report(node, task, true);
}

static void recalled(struct chaos_node *node, struct chaos_task *task)
{
    atomic_fetch_add(&node->board->taken_back, 1);
    recall_report(node, task, false);
}

static void recall(struct chaos_node *node, struct chaos_task *task)
{
    fabemu_abort(node->fab, &task->req);
}

/* The sender recalled it, and reports that, too. */
static void receive_ended(struct chaos_node *node, struct chaos_task *task)
{
    task->word = 1;
    chaos_check(node, task, NULL, 0, 0);
    chaos_over(node, task);
}

static void recall_heard(struct chaos_node *node, struct chaos_task *task)
{
    struct chaos_task *message = task->other;

    if (task->word && message->word)
        chaos_wrong(node, "message %u was sent, and its receive was cancelled", task->index);
    if (task->word)
        message->withdrawn = NULL; /* from now on -ECANCELED is an error */
    else if (!message->over && !fabemu_cancel(node->queue, &message->req))
        buffer_untouched(node, message);
    chaos_over(node, task);
}

static void withdrawal(struct chaos_node *node, struct chaos_task *task)
{
    enum chaos_withdraw what = withdraw_of(node, task->op);
    bool mine = task->op->from == node->me;
    struct chaos_task *note;

    if (what == KEPT || (what == RECEIVE_CANCELLED && mine))
        return;
    if (what == RECEIVE_CANCELLED || mine) {
        task->withdraw = mine ? recall : receive_cancel;
        task->rounds = rounds_of(node, task->op);
    }
    if (what == RECEIVE_CANCELLED)
        return;
    task->withdrawn = mine ? recalled : receive_ended;
    if (mine) {
        task->then = recall_late;
        return;
    }
    chaos_receive(node, task, task->peer, chaos_tag(node, CHAOS_DATA, task->index), task->buf,
                  task->bytes);
    note = chaos_task(node, task->index, 0);
    note->peer = task->peer;
    note->other = task;
    note->then = recall_heard;
    chaos_receive(node, note, note->peer, chaos_tag(node, CHAOS_SEEN, note->index), &note->word, 8);
}

static void message(struct chaos_node *node, uint32_t index)
{
    const struct chaos_op *op = &node->op[index];
    bool mine = op->from == node->me, stream = op->kind == CHAOS_STREAM;
    struct chaos_task *task = chaos_task(node, index, op->bytes);
    uint64_t tag = chaos_tag(node, CHAOS_IN_ORDER, index);

    task->peer = mine ? op->to : op->from;
    task->start = mine ? message_send : message_receive;
    task->then = mine ? message_sent : message_arrived;
    if (mine)
        bytes_fill(task->buf, op->bytes, op->random);
    if (stream && mine)
        chaos_send(node, task, task->peer, tag, task->buf, op->bytes);
    else if (stream)
        chaos_receive(node, task, task->peer, tag, task->buf, op->bytes);
    withdrawal(node, task);
}

/* --- puts and gets ------------------------------------------------------------------ */

static uint64_t put_offset(const struct chaos_op *op)
{
    return op->random % (CHAOS_BYTES - op->bytes + 1);
}

static void put_answered(struct chaos_node *node, struct chaos_task *task)
{
    node->puts_over[task->peer]++;
    chaos_over(node, task);
}

static void put_announced(struct chaos_node *node, struct chaos_task *task)
{
    task->then = put_answered;
    chaos_receive(node, task, task->peer, chaos_tag(node, CHAOS_SEEN, task->index), NULL, 0);
}

static void put_there(struct chaos_node *node, struct chaos_task *task)
{
    task->then = put_announced;
    chaos_send(node, task, task->peer, chaos_tag(node, CHAOS_DONE, task->index), NULL, 0);
}

/* The peer must have answered the previous put. */
static void put_start(struct chaos_node *node, struct chaos_task *task)
{
    uint32_t peer = task->peer;
    uint64_t offset = put_offset(task->op) +
                      ((uint64_t)node->me * CHAOS_PUTS + task->place % CHAOS_PUTS) * CHAOS_BYTES;

    if (node->puts_over[peer] != task->place)
        return;
    task->req.incarnation = chaos_incarnation_of(node, task);
    chaos_posted(task, fabemu_put(node->fab, peer, node->board->key[peer][CHAOS_SLOTS], offset,
                                  task->buf, task->bytes, &task->req));
}

static void slot_answered(struct chaos_node *node, struct chaos_task *task)
{
    chaos_over(node, task);
}

static void slot_look(struct chaos_node *node, struct chaos_task *task)
{
    uint8_t *slot = slot_of(node, task->peer, task->place);
    uint8_t *other = slot_of(node, task->peer, task->place + 1);
    uint64_t offset = put_offset(task->op);
    size_t bytes = task->op->bytes;

    if (node->puts_right[task->peer]++ != task->place)
        chaos_wrong(node, "put %u of node %u is told of before the one before it", task->place,
                    task->peer);
    chaos_check(node, task, slot + offset, bytes, task->op->random);
    if (!chaos_poisoned(slot, offset) ||
        !chaos_poisoned(slot + offset + bytes, CHAOS_BYTES - offset - bytes))
        chaos_wrong(node, "put %u of node %u wrote beside its place", task->index, task->peer);
    if (!chaos_poisoned(other, CHAOS_BYTES))
        chaos_wrong(node, "something of node %u wrote once more where an earlier put had been",
                    task->peer);
    chaos_poison(slot + offset, bytes);
    task->then = slot_answered;
    chaos_send(node, task, task->peer, chaos_tag(node, CHAOS_SEEN, task->index), NULL, 0);
}

static void put(struct chaos_node *node, uint32_t index)
{
    const struct chaos_op *op = &node->op[index];
    bool mine = op->from == node->me;
    struct chaos_task *task = chaos_task(node, index, mine ? op->bytes : 0);

    task->peer = mine ? op->to : op->from;
    task->start = put_start;
    task->then = mine ? put_there : slot_look;
    if (mine) {
        task->place = node->puts_asked[task->peer]++;
        bytes_fill(task->buf, op->bytes, op->random);
    } else {
        task->place = node->puts_from[task->peer]++;
        chaos_receive(node, task, task->peer, chaos_tag(node, CHAOS_DONE, index), NULL, 0);
    }
}

static void get_arrived(struct chaos_node *node, struct chaos_task *task)
{
    uint64_t words = task->op->random % (CHAOS_BYTES / 8);

    chaos_check(node, task, task->buf, task->bytes, chaos_known_key(node, task->peer, words));
    chaos_over(node, task);
}

static void get_start(struct chaos_node *node, struct chaos_task *task)
{
    uint64_t words = task->op->random % (CHAOS_BYTES / 8);

    task->req.incarnation = chaos_incarnation_of(node, task);
    chaos_posted(task, fabemu_get(node->fab, task->peer, node->board->key[task->peer][CHAOS_KNOWN],
                                  words * 8, task->buf, task->bytes, &task->req));
}

static void get(struct chaos_node *node, uint32_t index)
{
    struct chaos_task *task;

    if (node->op[index].from != node->me)
        return;
    task = chaos_task(node, index, node->op[index].bytes);
    task->peer = node->op[index].to;
    task->start = get_start;
    task->then = get_arrived;
}

/* --- atomics ------------------------------------------------------------------------ */

static void atomic_done(struct chaos_node *node, struct chaos_task *task)
{
    if (!is_lost(node, task->peer) && task->op->kind != CHAOS_SHARE && task->word != task->want)
        chaos_wrong(node, "atomic %u at node %u fetched %" PRIu64 ", and %" PRIu64 " was right",
                    task->index, task->peer, task->word, task->want);
    chaos_over(node, task);
}

static void atomic_post(struct chaos_node *node, uint32_t index, uint32_t peer,
                        const struct fabemu_atomic *what, uint32_t word, uint64_t want)
{
    struct chaos_task *task = chaos_task(node, index, 0);
    uint32_t whose = word == 2 ? 0 : node->me;
    struct fabemu_atomic atomic = *what;

    task->peer = peer;
    task->then = atomic_done;
    task->lasting = true;
    task->want = want;
    atomic.node = peer;
    atomic.key = node->board->key[peer][CHAOS_ATOMIC];
    atomic.offset = ((uint64_t)whose * CHAOS_WORDS + word) * sizeof *node->words;
    atomic.type = FABEMU_U64;
    atomic.result = &task->word;
    task->req.incarnation = chaos_incarnation_of(node, task);
    chaos_posted(task, fabemu_atomic(node->fab, &atomic, &task->req));
}

static void add(struct chaos_node *node, uint32_t index)
{
    const struct chaos_op *op = &node->op[index];
    struct fabemu_atomic what = {.op = FABEMU_ATOMIC_ADD, .operand = &op->random};

    if (op->from == node->me) {
        atomic_post(node, index, op->to, &what, 0, node->added[op->to]);
        node->added[op->to] += op->random;
    } else {
        node->expected_sum[op->from] += op->random;
    }
}

/* A swap, or a compare-and-swap that succeeds, or one that fails and changes nothing. */
static void swap(struct chaos_node *node, uint32_t index)
{
    const struct chaos_op *op = &node->op[index];
    bool mine = op->from == node->me, wrong = op->random % 4 == 3;
    uint64_t *model = mine ? &node->swapped[op->to] : &node->expected_swap[op->from];
    uint64_t compare = wrong ? ~*model : *model;
    struct fabemu_atomic what = {.op = op->random % 2 ? FABEMU_ATOMIC_CAS : FABEMU_ATOMIC_SWAP,
                                 .operand = &op->random,
                                 .compare = op->random % 2 ? &compare : NULL};

    if (mine)
        atomic_post(node, index, op->to, &what, 1, *model);
    if (!wrong)
        *model = op->random;
}

static void share(struct chaos_node *node, uint32_t index)
{
    const struct chaos_op *op = &node->op[index];
    struct fabemu_atomic what = {.op = FABEMU_ATOMIC_ADD, .operand = &op->random};

    if (op->from == 0)
        return;
    if (node->me == 0)
        node->shared += op->random;
    else if (op->from == node->me && !is_lost(node, 0))
        atomic_post(node, index, 0, &what, 2, 0);
}

/* --- tables ------------------------------------------------------------------------- */

void chaos_pair(struct chaos_node *node, uint32_t index)
{
    static void (*const begin[CHAOS_BARRIER])(struct chaos_node * node, uint32_t index) = {
        [CHAOS_MESSAGE] = message, [CHAOS_STREAM] = message, [CHAOS_PUT] = put,
        [CHAOS_GET] = get,         [CHAOS_ADD] = add,        [CHAOS_SWAP] = swap};
    const struct chaos_op *op = &node->op[index];
    uint32_t peer = op->from == node->me ? op->to : op->from;

    if (op->kind == CHAOS_SHARE)
        share(node, index);
    else if ((op->from == node->me || op->to == node->me) && !is_lost(node, peer))
        begin[op->kind](node, index);
}

void chaos_pairs_end(struct chaos_node *node)
{
    const uint64_t *word = node->words;

    for (uint32_t n = 0; n < node->plan.nodes; n++, word += CHAOS_WORDS) {
        if (chaos_may_fail(&node->plan, node->me, n))
            continue;
        if (word[0] != node->expected_sum[n] || word[1] != node->expected_swap[n])
            chaos_wrong(node,
                        "words of node %u hold %" PRIu64 " and %" PRIu64 ", and %" PRIu64
                        " and %" PRIu64 " are right",
                        n, word[0], word[1], node->expected_sum[n], node->expected_swap[n]);
        for (uint32_t p = 0; p < CHAOS_PUTS; p++)
            if (!chaos_poisoned(slot_of(node, n, p), CHAOS_BYTES))
                chaos_wrong(node, "something of node %u wrote after all puts", n);
    }
    if (node->me == 0 && !chaos_is_fragile(&node->plan) && node->words[2] != node->shared)
        chaos_wrong(node, "all added %" PRIu64 " to a word that holds %" PRIu64, node->shared,
                    node->words[2]);
}
