/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * word.c - words of a group, and conditionals on them: the calls.
 *
 * Words lie in the adapter (emu/link/seg.h); here is only what was set last, until the adapter has it. A
 * value goes to the up ring at once, and when that is full before anything else does (nic_claim_up()), so
 * nothing that we say overtakes it. One that is set again meanwhile is sent once: as if the first had been
 * there for a moment in which nobody looked.
 */
#include "nic/host/group/word.h"

#include <errno.h>

#include "nic/host/base.h"
#include "nic/host/group/send.h"
#include "nic/host/lock.h"
#include "nic/host/op/op.h"

static_assert(FABEMU_WORDS == EMU_WORDS, "fabemu.h");
static_assert((int)FABEMU_TEST_EQUAL == (int)EMU_TEST_EQUAL &&
                  (int)FABEMU_TEST_REACHED == (int)EMU_TEST_REACHED,
              "fabemu.h");

/* --- setting ---------------------------------------------------------------------- */

/* In a group of one nobody else has to be asked. */
static void set_alone(struct fabemu_group *g)
{
    struct emu_list *at, *next;

    for (at = g->asked.next; at != &g->asked; at = next) {
        struct nic_op *op = emu_list_entry(at, struct nic_op, link);

        next = at->next;
        if (emu_word_is(g->words.value[op->word], op->value, op->test))
            nic_op_end(g->fab, op, 0);
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
    struct nic_op *op = nic_op_of(post->req);
    struct fabemu_group *g = op->group;

    if (!g->broken)
        word_set(g, op->word, op->value);
    nic_op_end(fab, op, g->broken);
    return 0;
}

static struct nic_op *word_op(struct fabemu_group *g, enum nic_op_kind kind, uint32_t word,
                              uint64_t value, struct fabemu_req *req,
                              int (*begin)(struct fabemu *fab, struct nic_post *post))
{
    struct nic_op *op = nic_op_new(req, kind, FABEMU_ANY_NODE, begin);

    op->group = g;
    op->word = word;
    op->value = value;
    return op;
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
    struct nic_op *op;

    if (err)
        return err;
    op = word_op(g, NIC_OP_SET, word, value, req ? req : &now, set_begin);
    err = nic_post(g->fab, &op->post);
    return err ? err : now.status;
}

/* --- conditionals ----------------------------------------------------------------- */

static int test_begin(struct fabemu *fab, struct nic_post *post)
{
    struct nic_op *op = nic_op_of(post->req);
    struct fabemu_group *g = op->group;
    bool alone = g->members == 1, yes = alone && emu_word_is(g->words.value[op->word], op->value, op->test);
    int err = 0;

    if (g->broken || yes || (alone && !op->until)) {
        nic_op_end(fab, op, g->broken ? g->broken : yes ? 0 : -EAGAIN);
        return 0;
    }
    err = nic_op_id(fab, op);
    if (err)
        return err;
    op->state = NIC_OP_QUEUED;
    emu_list_add(alone ? &g->asked : &g->asking, &op->link);
    nic_group_send(g);
    return 0;
}

int fabemu_group_test(struct fabemu_group *g, uint32_t word, uint64_t value, unsigned how,
                      struct fabemu_req *req)
{
    int err = word_check(g, word, req);
    struct nic_op *op;

    if (!err && how > (FABEMU_TEST_REACHED | FABEMU_TEST_UNTIL))
        err = nic_fail(-EINVAL, "no such way to test");
    if (err)
        return err;
    op = word_op(g, NIC_OP_TEST, word, value, req, test_begin);
    op->test = how & FABEMU_TEST_REACHED ? EMU_TEST_REACHED : EMU_TEST_EQUAL;
    op->until = how & FABEMU_TEST_UNTIL ? 1 : 0;
    return nic_post(g->fab, &op->post);
}

uint32_t nic_word_again(struct fabemu *fab)
{
    uint32_t sent = 0;

    if (nic_now_ns() < fab->again_ns)
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
