/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * word.h - words of a group, and conditionals on them.
 *
 * Owner: a group's lists of conditionals (`asking`, `asked`, `again`, `resting`), `again_ns`. Lock:
 * held. Callers: dispatch.c; who aborts; the step.
 */
#ifndef NIC_WORD_H
#define NIC_WORD_H

#include "nic/host/base/op.h"
#include "nic/host/group/group.h"

/* A word is to be set: begins and ends at once, when its event has counted. */
struct nic_set {
    struct nic_op op;
    struct fabemu_group *group;
    uint64_t value;
    uint32_t word;
} __attribute__((may_alias));
NIC_OP_KIND(nic_set_of, struct nic_set, op);

/* Is a word as wanted, at all members? */
struct nic_condition {
    struct nic_op op;
    struct fabemu_group *group;
    uint64_t value;
    uint32_t word;
    uint8_t test; /* enum emu_test */
    bool until;   /* asked until it is true */
} __attribute__((may_alias));
NIC_OP_KIND(nic_condition_of, struct nic_condition, op);

/** nic_condition_send - conditionals that are not on their way. Returns segments. */
uint32_t nic_condition_send(struct fabemu_group *g);
/** nic_condition_answer - the network's answer to a conditional. */
void nic_condition_answer(struct fabemu *fab, const struct emu_seg *seg);
/**
 * nic_condition_take_back - @condition is about to end: tell the adapter, if it waits there. False:
 * no room now.
 */
bool nic_condition_take_back(const struct nic_condition *condition);

/** nic_word_again - ask again, when it is time, what had no slot. Returns segments. */
uint32_t nic_word_again(struct fabemu *fab);

#endif
