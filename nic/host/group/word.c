/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * word.c - words of a group, and conditionals on them: the calls.
 *
 * Words lie in the adapter (emu/link/seg.h); here is only what was set last, until the adapter has
 * it. A value goes to the up ring at once, and when that is full before anything else does
 * (nic_claim_up()), so nothing that we say overtakes it. One that is set again meanwhile is sent
 * once: as if the first had been there for a moment in which nobody looked.
 */
#include "nic/host/group/word.h"

#include <errno.h>

#include "emu/now.h"
#include "nic/host/base/base.h"
#include "nic/host/base/lock.h"
#include "nic/host/base/op.h"
#include "nic/host/group/condition.h"
#include "nic/host/group/send.h"

static_assert(FABEMU_WORDS == EMU_WORDS, "fabemu.h");
static_assert((int)FABEMU_TEST_EQUAL == (int)EMU_TEST_EQUAL &&
                  (int)FABEMU_TEST_REACHED == (int)EMU_TEST_REACHED,
              "fabemu.h");

/* --- setting ------------------------------------------------------------------------ */

/* In a group of one nobody else has to be asked. */
static void set_alone(struct fabemu_group *g)
{
    struct emu_list *at, *next;

    for (at = g->asked.next; at != &g->asked; at = next) {
        struct nic_condition *condition = emu_list_entry(at, struct nic_condition, op.post.link);

        next = at->next;
        if (emu_word_is(g->words.value[condition->word], condition->value, condition->test))
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

static int word_check(const struct fabemu_group *g, uint32_t word, const struct fabemu_req *req)
{
    int err = nic_group_check(g, req);

    if (!err && word >= FABEMU_WORDS)
        err = nic_fail(-EINVAL, "a group has %d words", FABEMU_WORDS);
    return err;
}

int fabemu_group_set(struct fabemu_group *g, uint32_t word, uint64_t value, struct fabemu_req *req)
{
    struct fabemu_req now = {0};
    int err = word_check(g, word, req);
    struct nic_set *set;

    if (err)
        return err;
    set = nic_set_of(nic_op_new(req ? req : &now, NIC_OP_SET, FABEMU_ANY_NODE, set_begin));
    set->group = g;
    set->word = word;
    set->value = value;
    err = nic_post(g->fab, &set->op.post);
    return err ? err : now.status;
}

/* --- conditionals ------------------------------------------------------------------- */

static int test_begin(struct fabemu *fab, struct nic_post *post)
{
    struct nic_op *op = nic_op_of(post->req);
    struct nic_condition *condition = nic_condition_of(op);
    struct fabemu_group *g = condition->group;
    bool alone = g->members == 1;
    bool yes = alone &&
               emu_word_is(g->words.value[condition->word], condition->value, condition->test);
    int err = 0;

    if (g->broken || yes || (alone && !condition->until)) {
        nic_op_end(fab, op, g->broken ? nic_group_status(g) : yes ? 0 : -EAGAIN);
        return 0;
    }
    err = nic_op_id(fab, op);
    if (err)
        return err;
    op->state = NIC_OP_QUEUED;
    emu_list_add(alone ? &g->asked : &g->asking, &op->post.link);
    nic_group_send(g);
    return 0;
}

int fabemu_group_test(struct fabemu_group *g, uint32_t word, uint64_t value, unsigned how,
                      struct fabemu_req *req)
{
    int err = word_check(g, word, req);
    struct nic_condition *condition;

    if (!err && how > (FABEMU_TEST_REACHED | FABEMU_TEST_UNTIL))
        err = nic_fail(-EINVAL, "no such way to test");
    if (err)
        return err;
    condition = nic_condition_of(nic_op_new(req, NIC_OP_TEST, FABEMU_ANY_NODE, test_begin));
    condition->group = g;
    condition->word = word;
    condition->value = value;
    condition->test = how & FABEMU_TEST_REACHED ? EMU_TEST_REACHED : EMU_TEST_EQUAL;
    condition->until = how & FABEMU_TEST_UNTIL;
    return nic_post(g->fab, &condition->op.post);
}

uint32_t nic_word_again(struct fabemu *fab)
{
    uint32_t sent = 0;

    if (emu_now_ns() < fab->again_ns)
        return 0;
    while (!emu_list_empty(&fab->again)) {
        struct fabemu_group *g = emu_list_entry(fab->again.next, struct fabemu_group, resting);

        emu_list_del(&g->resting);
        while (!emu_list_empty(&g->again)) {
            struct emu_list *link = g->again.next;

            emu_list_del(link);
            emu_list_add(&g->asking, link);
        }
        sent += nic_group_send(g);
    }
    return sent;
}
