/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * condition.c - conditionals on a group's words: what goes to the adapter's engine, and its
 * answers.
 *
 * A conditional that is asked until it is true waits in the adapter, which has slots for a hundred
 * or so. When they are taken it asks once and says false; then the conditional waits here, and is
 * asked again a little later, in turn with all others. So any number may wait.
 */
#include "nic/host/group/condition.h"

#include <errno.h>
#include <string.h>

#include "emu/now.h"
#include "nic/host/base/base.h"

/* 1 ms: then conditionals that the adapter had no slot for are asked again. */
#define AGAIN_NS 1000000u

/* Say something of @condition to the adapter. False: no room. */
static bool condition_say(const struct nic_condition *condition, enum emu_test_until until)
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

uint32_t nic_condition_send(struct fabemu_group *g)
{
    uint32_t sent = 0;

    for (; !emu_list_empty(&g->asking); sent++) {
        struct nic_condition *condition =
            emu_list_entry(g->asking.next, struct nic_condition, op.post.link);

        if (!condition_say(condition, condition->until ? EMU_TEST_UNTIL : EMU_TEST_ONCE))
            break;
        condition->op.state = NIC_OP_WAITING;
        emu_list_del(&condition->op.post.link);
        emu_list_add(&g->asked, &condition->op.post.link);
    }
    return sent;
}

bool nic_condition_take_back(const struct nic_condition *condition)
{
    return condition->op.state != NIC_OP_WAITING || !condition->until ||
           condition->group->members == 1 || condition_say(condition, EMU_TEST_TAKE_BACK);
}

/* It was false, and the adapter had no slot for it. */
static void condition_rest(struct nic_condition *condition)
{
    struct fabemu_group *g = condition->group;
    struct fabemu *fab = g->fab;

    emu_list_del(&condition->op.post.link);
    condition->op.state = NIC_OP_QUEUED;
    emu_list_add(&g->again, &condition->op.post.link);
    if (emu_list_empty(&fab->again))
        fab->again_ns = emu_now_ns() + AGAIN_NS;
    if (!emu_listed(&g->resting))
        emu_list_add(&fab->again, &g->resting);
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
        condition_rest(nic_condition_of(op));
    else
        nic_op_end(fab, op, seg->hdr.op == EMU_TEST_TRUE ? 0 : -EAGAIN);
}
