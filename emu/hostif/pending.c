/* SPDX-License-Identifier: BSD-3-Clause */
/* pending.c - write, read and check the block of pending operations (pending.h). */
#include "emu/hostif/pending.h"

#include <string.h>

#include "emu/hostif/hostif.h"
#include "emu/packet/kind.h"
#include "emu/util/combine.h"
#include "emu/util/printable.h"

#define PENDING_TRIES 4u /* limit of attempts to read, because a process may never finish writing */

void emu_pending_write(struct emu_pending_shared *to, const struct emu_pending *from)
{
    uint32_t sequence = atomic_load_explicit(&to->sequence, memory_order_relaxed) | 1;
    const uint8_t *at = (const void *)from;

    atomic_store_explicit(&to->sequence, sequence, memory_order_relaxed);
    for (size_t i = 0; i < EMU_PENDING_WORDS; i++, at += sizeof(uint64_t)) {
        uint64_t word;

        memcpy(&word, at, sizeof word);
        atomic_store_explicit(&to->word[i], word, memory_order_release); /* K1 pairs with K3 */
    }
    atomic_store_explicit(&to->sequence, sequence + 1, memory_order_release); /* K2 pairs with K4 */
}

static bool pending_copy(struct emu_pending *to, struct emu_pending_shared *from)
{
    uint32_t sequence = atomic_load_explicit(&from->sequence, memory_order_acquire); /* K4: K2 */
    uint8_t *at = (void *)to;

    if (!sequence || sequence & 1)
        return false;
    for (size_t i = 0; i < EMU_PENDING_WORDS; i++, at += sizeof(uint64_t)) {
        uint64_t word = atomic_load_explicit(&from->word[i], memory_order_acquire); /* K3: K1 */

        memcpy(at, &word, sizeof word);
    }
    return atomic_load_explicit(&from->sequence, memory_order_relaxed) == sequence;
}

/* --- checks ------------------------------------------------------------------------- */

static uint64_t time_checked(uint64_t at_ns, uint64_t now_ns)
{
    return at_ns < now_ns ? at_ns : now_ns;
}

static uint32_t node_checked(uint32_t node, uint32_t nodes)
{
    return node < nodes ? node : EMU_PENDING_ANY;
}

static void op_check(struct emu_pending_op *op, uint32_t nodes, uint64_t now_ns)
{
    op->since_ns = time_checked(op->since_ns, now_ns);
    op->node = node_checked(op->node, nodes);
    if (op->kind >= EMU_PENDING_KINDS || op->state >= EMU_PENDING_STATES)
        op->kind = EMU_PENDING_NOTHING;
}

/* Replace invalid fields of @what. Returns false if its kind or operation does not exist. */
static bool what_check(struct emu_pending_what *what, uint32_t nodes)
{
    bool has_op = what->kind < EMU_KINDS && emu_kind_traits(what->kind)->has_op;

    what->root = node_checked(what->root, nodes);
    if (!has_op)
        what->op = what->type = 0;
    if (what->call > EMU_HOSTIF_COLLS)
        what->call = 0;
    return what->kind >= EMU_MULTICAST && what->kind < EMU_KINDS &&
           (!has_op || emu_combine_ok(what->op, what->type));
}

static void name_check(char name[EMU_PENDING_NAME])
{
    name[EMU_PENDING_NAME - 1] = '\0';
    emu_printable(name);
}

static void group_check(struct emu_pending_group *group, uint32_t nodes, uint64_t now_ns)
{
    group->since_ns = time_checked(group->since_ns, now_ns);
    group->sent = group->sent != 0;
    name_check(group->name);
    if (!what_check(&group->what, nodes) || group->number > group->begun || !group->number)
        group->since_ns = 0;
}

void emu_pending_check(struct emu_pending *pending, uint32_t nodes, uint64_t now_ns)
{
    pending->written_ns = time_checked(pending->written_ns, now_ns);
    pending->quiet_ns = time_checked(pending->quiet_ns, now_ns);
    pending->finalizes = pending->finalizes != 0;
    if (pending->groups > EMU_PENDING_GROUPS)
        pending->groups = 0;
    op_check(&pending->send, nodes, now_ns);
    op_check(&pending->receive, nodes, now_ns);
    op_check(&pending->early, nodes, now_ns);
    pending->mismatch.node = node_checked(pending->mismatch.node, nodes);
    if (!what_check(&pending->mismatch.mine, nodes) || !what_check(&pending->mismatch.other, nodes))
        pending->mismatch.node = EMU_PENDING_ANY;
    name_check(pending->mismatch.name);
    for (uint32_t g = 0; g < pending->groups; g++)
        group_check(&pending->group[g], nodes, now_ns);
}

bool emu_pending_read(struct emu_pending *to, struct emu_pending_shared *from, uint32_t nodes,
                      uint64_t now_ns)
{
    struct emu_pending copy;
    unsigned tries = 0;

    while (!pending_copy(&copy, from))
        if (++tries == PENDING_TRIES)
            return false;
    emu_pending_check(&copy, nodes, now_ns);
    *to = copy;
    return true;
}

/* --- times of another host's clock -------------------------------------------------- */

/* 0 means that there is no time and stays 0. A time before this host's boot becomes 1. */
static uint64_t time_shifted(uint64_t at_ns, uint64_t there_ns, uint64_t here_ns)
{
    uint64_t ago_ns = there_ns > at_ns ? there_ns - at_ns : 0;

    if (!at_ns)
        return 0;
    return here_ns > ago_ns ? here_ns - ago_ns : 1;
}

void emu_pending_shift(struct emu_pending *pending, uint64_t there_ns, uint64_t here_ns)
{
    uint64_t *const times[] = {&pending->written_ns, &pending->quiet_ns, &pending->send.since_ns,
                               &pending->receive.since_ns, &pending->early.since_ns};

    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        *times[i] = time_shifted(*times[i], there_ns, here_ns);
    for (uint32_t g = 0; g < pending->groups && g < EMU_PENDING_GROUPS; g++)
        pending->group[g].since_ns = time_shifted(pending->group[g].since_ns, there_ns, here_ns);
}
