/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * word.c - words of a group and conditionals on them: the calls, the segments to the link engine,
 * and its replies.
 *
 * The link engine holds the words (emu/packet/seg.h). This process keeps each value that it sets
 * until the value is sent to the engine. It sends the value at once or, if the up ring (to the
 * fabric) is full, before all other segments (nic_claim_up()), so that no segment overtakes it. If
 * a word is set twice before it was sent, only the second value is sent. To the other members this
 * looks as if no test had taken place in between.
 *
 * A conditional that is repeated until it is true waits in the link engine, which has about a
 * hundred slots. If all slots are in use, the engine tests only once, and replies "false" if the
 * test is false. Then the conditional waits in this process and is sent again a little later, after
 * all others that wait. So any number of conditionals may wait.
 *
 * Words with numbers of FABEMU_WORDS and higher are in memory (memory.c). In a group of one member
 * no engine watches them, so a conditional on one of them waits in this process in the same way.
 */
#include "nic/host/group/word.h"

#include <errno.h>
#include <string.h>

#include "emu/util/now.h"
#include "nic/host/base/base.h"
#include "nic/host/base/lock.h"
#include "nic/host/base/op.h"
#include "nic/host/group/group.h"
#include "nic/host/group/memory.h"

/* a conditional for which the link engine had no slot is sent again after this time: 1 ms */
#define AGAIN_NS 1000000u

/* Send @condition to the link engine, or remove it there. Returns false if there is no space. */
static bool condition_put(const struct nic_condition *condition, enum emu_test_until until)
{
    struct emu_word ask = {.value = condition->value,
                           .word = condition->word,
                           .test = condition->test,
                           .until = (uint8_t)until};
    struct emu_seg *seg = nic_group_claim(condition->group, EMU_TEST, condition->op.id);

    if (!seg)
        return false;
    seg->hdr.len = sizeof ask;
    memcpy(seg->payload, &ask, sizeof ask);
    return true;
}

/* Return whether @condition is true at this member. */
static bool condition_holds(const struct nic_condition *condition)
{
    const struct fabemu_group *g = condition->group;
    uint64_t word = condition->word < FABEMU_WORDS
                        ? g->words.value[condition->word]
                        : nic_memory_word(g, condition->word - FABEMU_WORDS);

    return (condition->word < FABEMU_WORDS + nic_memory_count(g)) &&
           emu_word_is(word, condition->value, condition->test);
}

/*
 * Let the conditional wait, because it was false and the link engine had no slot for it, or there
 * is no engine.
 */
static void condition_back_off(struct nic_condition *condition)
{
    struct fabemu_group *g = condition->group;
    struct fabemu *fab = g->fab;

    emu_list_del(&condition->op.post.link);
    condition->op.state = NIC_OP_QUEUED;
    emu_list_add(&g->again, &condition->op.post.link);
    if (emu_list_empty(&fab->again))
        fab->again_ns = nic_now_ns(fab) + AGAIN_NS;
    if (!emu_listed(&g->backing_off))
        emu_list_add(&fab->again, &g->backing_off);
}

/* Group of one member: end the conditional if it is true. Otherwise let it wait. */
static void condition_alone(struct nic_condition *condition)
{
    if (condition_holds(condition))
        nic_op_end(condition->group->fab, &condition->op, 0);
    else
        condition_back_off(condition);
}

uint32_t nic_condition_send(struct fabemu_group *g)
{
    uint32_t sent = 0;

    for (; !emu_list_empty(&g->unsent); sent++) {
        struct nic_condition *condition =
            emu_list_entry(g->unsent.next, struct nic_condition, op.post.link);

        if (g->members == 1) {
            condition_alone(condition);
            continue;
        }
        if (!condition_put(condition, condition->until ? EMU_TEST_UNTIL : EMU_TEST_ONCE))
            break;
        condition->op.state = NIC_OP_WAITING;
        emu_list_del(&condition->op.post.link);
        emu_list_add(&g->in_engine, &condition->op.post.link);
    }
    return sent;
}

bool nic_condition_take_back(const struct nic_condition *condition)
{
    return condition->op.state != NIC_OP_WAITING || !condition->until ||
           condition->group->members == 1 || condition_put(condition, EMU_TEST_TAKE_BACK);
}

void nic_condition_answer(struct fabemu *fab, const struct emu_seg *seg)
{
    struct nic_op *op;

    if (!fab->transport.has_engine || seg->hdr.src != fab->info.node ||
        seg->hdr.op > EMU_TEST_TRUE) {
        fab->counts.malformed++;
        return;
    }
    op = nic_op_find(fab, seg->hdr.seq, FABEMU_ANY_NODE);
    if (!op)
        return;
    if (op->kind != NIC_OP_TEST || op->state != NIC_OP_WAITING ||
        nic_condition_of(op)->group->id != seg->hdr.dst) {
        fab->counts.malformed++;
        return;
    }
    if (seg->hdr.op == EMU_TEST_FALSE && nic_condition_of(op)->until)
        condition_back_off(nic_condition_of(op));
    else
        nic_op_end(fab, op, seg->hdr.op == EMU_TEST_TRUE ? 0 : -EAGAIN);
}

static_assert(FABEMU_WORDS == EMU_WORDS, "same number");
static_assert((int)FABEMU_TEST_EQUAL == (int)EMU_TEST_EQUAL &&
                  (int)FABEMU_TEST_REACHED == (int)EMU_TEST_REACHED,
              "same values");

/* --- setting ------------------------------------------------------------------------ */

/* In a group of one member, check the waiting conditionals in this process. */
static void set_alone(struct fabemu_group *g)
{
    struct emu_list *at, *next;

    for (at = g->in_engine.next; at != &g->in_engine; at = next) {
        struct nic_condition *condition = emu_list_entry(at, struct nic_condition, op.post.link);

        next = at->next;
        if (condition_holds(condition))
            nic_op_end(g->fab, &condition->op, 0);
    }
}

static void word_set(struct fabemu_group *g, uint32_t word, uint64_t value)
{
    g->words.value[word] = value;
    if (g->members == 1)
        set_alone(g);
    else
        nic_word_set(g->fab, &g->words, word);
}

static int set_begin(struct fabemu *fab, struct nic_post *post)
{
    struct nic_set *set = nic_set_of(nic_op_of(post->req));
    struct fabemu_group *g = set->group;

    if (!g->broken)
        word_set(g, set->word, set->value);
    nic_op_end(fab, &set->op, nic_group_status(g));
    return 0;
}

static int word_check(const struct fabemu_group *g, uint32_t word, uint32_t words,
                      const struct fabemu_req *req)
{
    int err = nic_group_check(g, req);

    if (!err && word >= words)
        err = nic_fail(-EINVAL, "there is no word %u: use a number below %u", word, words);
    return err;
}

int fabemu_group_set(struct fabemu_group *g, uint32_t word, uint64_t value, struct fabemu_req *req)
{
    struct fabemu_req now = {0};
    int err = word_check(g, word, FABEMU_WORDS, req);
    struct nic_set *set;

    if (err)
        return err;
    set = nic_set_of(nic_op_new(req ? req : &now, NIC_OP_SET, FABEMU_ANY_NODE, set_begin));
    set->group = g;
    set->word = word;
    set->value = value;
    err = nic_op_post(g->fab, &set->op);
    return err ? err : now.status;
}

/* --- conditionals ------------------------------------------------------------------- */

static int test_begin(struct fabemu *fab, struct nic_post *post)
{
    struct nic_op *op = nic_op_of(post->req);
    struct nic_condition *condition = nic_condition_of(op);
    struct fabemu_group *g = condition->group;
    bool alone = g->members == 1, in_memory = condition->word >= FABEMU_WORDS;
    bool yes = alone && condition_holds(condition);
    int err = 0;

    if (g->broken || yes || (alone && !condition->until)) {
        nic_op_end(fab, op, g->broken ? nic_group_status(g) : yes ? 0 : -EAGAIN);
        return 0;
    }
    err = nic_op_id(fab, op);
    if (err)
        return err;
    op->state = NIC_OP_QUEUED;
    emu_list_add(alone && !in_memory ? &g->in_engine : &g->unsent, &op->post.link);
    nic_group_send(g);
    return 0;
}

int fabemu_group_test(struct fabemu_group *g, uint32_t word, uint64_t value, unsigned how,
                      struct fabemu_req *req)
{
    int err = word_check(g, word, FABEMU_WORDS + FABEMU_MEMORY_WORDS, req);
    struct nic_condition *condition;

    if (!err && how > (FABEMU_TEST_REACHED | FABEMU_TEST_UNTIL))
        err = nic_fail(-EINVAL, "the flags of the test are invalid");
    if (err)
        return err;
    condition = nic_condition_of(nic_op_new(req, NIC_OP_TEST, FABEMU_ANY_NODE, test_begin));
    condition->group = g;
    condition->word = word;
    condition->value = value;
    condition->test = how & FABEMU_TEST_REACHED ? EMU_TEST_REACHED : EMU_TEST_EQUAL;
    condition->until = how & FABEMU_TEST_UNTIL;
    return nic_op_post(g->fab, &condition->op);
}

uint32_t nic_word_again(struct fabemu *fab)
{
    const struct emu_list *last = fab->again.prev;
    uint32_t sent = 0;

    if (nic_now_ns(fab) < fab->again_ns)
        return 0;
    fab->again_ns = nic_now_ns(fab) + AGAIN_NS;
    /* a group whose conditionals are still false enters the list again, behind the last one */
    for (bool more = !emu_list_empty(&fab->again); more;) {
        struct fabemu_group *g = emu_list_entry(fab->again.next, struct fabemu_group, backing_off);

        more = &g->backing_off != last;
        emu_list_del(&g->backing_off);
        while (!emu_list_empty(&g->again)) {
            struct emu_list *link = g->again.next;

            emu_list_del(link);
            emu_list_add(&g->unsent, link);
        }
        sent += nic_group_send(g);
    }
    return sent;
}
