/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * word.c - words of a group, and conditionals on them: the host's side.
 *
 * Words lie in the adapter (emu/link/seg.h); here is only what was set last, until the
 * adapter has it. A value goes to the up ring at once, and when that is full before
 * anything else does (nic_claim_up()), so nothing that we say overtakes it. One that
 * is set again meanwhile is sent once: as if the first had been there for a moment
 * in which nobody looked.
 *
 * A conditional that is asked until it is true waits in the adapter, which has places for a
 * hundred or so. When they are taken it asks once and says false; then the conditional waits here, and is
 * asked again a little later, in turn with all others. So any number may wait.
 */
#include "nic/host/group/group.h"

#include <string.h>

#define AGAIN_NS 1000000u /* before conditionals that the adapter had no room for are asked again: 1 ms */

static_assert(FABEMU_WORDS == EMU_WORDS, "fabemu.h");
static_assert((int)FABEMU_TEST_EQUAL == (int)EMU_TEST_EQUAL &&
                  (int)FABEMU_TEST_REACHED == (int)EMU_TEST_REACHED,
              "fabemu.h");

/* --- setting ----------------------------------------------------------------------- */

/* By emu_edge_nic_claim() itself: nic_claim_up() comes here first. */
static bool word_send(struct fabemu_group *g, uint32_t word)
{
    struct fabemu *fab = g->fab;
    struct emu_word set = {.value = g->word[word], .word = word};
    struct emu_seg *seg = emu_edge_nic_claim(&fab->edge, fab->now_ps + fab->send_ps);

    if (!seg)
        return false;
    seg->hdr = (struct emu_hdr){.dst = g->id, .src = fab->info.node, .kind = EMU_SET,
                                .len = sizeof set};
    memcpy(seg->payload, &set, sizeof set);
    return true;
}

bool nic_word_flush(struct fabemu *fab)
{
    while (!emu_list_empty(&fab->setting)) {
        struct fabemu_group *g = emu_list_entry(fab->setting.next, struct fabemu_group, setting);

        for (; g->unset; g->unset &= g->unset - 1)
            if (!word_send(g, (uint32_t)__builtin_ctz(g->unset)))
                return false;
        emu_list_del(&g->setting);
    }
    return true;
}

/* In a group of one nobody else has to be asked. */
static void set_alone(struct fabemu_group *g)
{
    struct emu_list *at, *next;

    for (at = g->asked.next; at != &g->asked; at = next) {
        struct nic_op *op = emu_list_entry(at, struct nic_op, link);

        next = at->next;
        if (emu_word_is(g->word[op->word], op->value, op->test))
            nic_op_end(g->fab, op, 0);
    }
}

static void word_set(struct fabemu_group *g, uint32_t word, uint64_t value)
{
    g->word[word] = value;
    if (g->members == 1) {
        set_alone(g);
        return;
    }
    g->unset |= 1u << word;
    if (!emu_listed(&g->setting))
        emu_list_add(&g->fab->setting, &g->setting);
    nic_word_flush(g->fab);
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

/* --- conditionals --------------------------------------------------------------------- */

static int test_begin(struct fabemu *fab, struct nic_post *post)
{
    struct nic_op *op = nic_op_of(post->req);
    struct fabemu_group *g = op->group;
    bool alone = g->members == 1, yes = alone && emu_word_is(g->word[op->word], op->value, op->test);
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

/* Say something of the conditional @op to the adapter. False: no room. */
static bool test_send(struct fabemu_group *g, const struct nic_op *op, enum emu_test_until until)
{
    struct emu_word ask = {.value = op->value, .word = op->word, .test = op->test,
                           .until = (uint8_t)until};
    struct emu_seg *seg = nic_group_claim(g, EMU_TEST, op->id);

    if (!seg)
        return false;
    seg->hdr.len = sizeof ask;
    memcpy(seg->payload, &ask, sizeof ask);
    return true;
}

uint32_t nic_word_send(struct fabemu_group *g)
{
    uint32_t sent = 0;

    for (; !emu_list_empty(&g->asking); sent++) {
        struct nic_op *op = emu_list_entry(g->asking.next, struct nic_op, link);

        if (!test_send(g, op, op->until ? EMU_TEST_UNTIL : EMU_TEST_ONCE))
            break;
        op->state = NIC_OP_WAITING;
        emu_list_del(&op->link);
        emu_list_add(&g->asked, &op->link);
    }
    return sent;
}

bool nic_word_take_back(const struct nic_op *op)
{
    struct fabemu_group *g = op->group;

    return op->state != NIC_OP_WAITING || !op->until || g->members == 1 ||
           test_send(g, op, EMU_TEST_TAKE_BACK);
}

/* It was false, and there was no place for it in the adapter. */
static void test_again(struct fabemu_group *g, struct nic_op *op)
{
    struct fabemu *fab = g->fab;

    emu_list_del(&op->link);
    op->state = NIC_OP_QUEUED;
    emu_list_add(&g->again, &op->link);
    if (emu_list_empty(&fab->again))
        fab->again_ns = nic_now_ns() + AGAIN_NS;
    if (!emu_listed(&g->resting))
        emu_list_add(&fab->again, &g->resting);
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

void nic_word_answer(struct fabemu *fab, const struct emu_seg *seg)
{
    struct nic_op *op;

    if (!fab->info.acknowledged || seg->hdr.src != fab->info.node ||
        seg->hdr.op > EMU_TEST_TRUE) {
        fab->counts.malformed++;
        return;
    }
    op = nic_op_find(fab, seg->hdr.seq, FABEMU_ANY_NODE);
    if (!op)
        return;
    if (op->kind != NIC_OP_TEST || op->state != NIC_OP_WAITING || op->group->id != seg->hdr.dst) {
        fab->counts.malformed++;
        return;
    }
    if (seg->hdr.op == EMU_TEST_FALSE && op->until)
        test_again(op->group, op);
    else
        nic_op_end(fab, op, seg->hdr.op == EMU_TEST_TRUE ? 0 : -EAGAIN);
}
