/* SPDX-License-Identifier: BSD-3-Clause */
/* word.h - words of a group and conditionals on them. Lock: held. */
#ifndef NIC_WORD_H
#define NIC_WORD_H

#include "nic/host/base/op.h"
#include "nic/host/group/group.h"

/* An operation that sets a word. Its begin() completes it. */
struct nic_set {
    struct nic_op op;
    struct fabemu_group *group;
    uint64_t value;
    uint32_t word;
} __attribute__((may_alias));
NIC_OP_KIND(nic_set_of, struct nic_set, op);

/* A conditional: tests whether a word has a value at all members. */
struct nic_condition {
    struct nic_op op;
    struct fabemu_group *group;
    uint64_t value;
    uint32_t word;
    uint8_t test; /* enum emu_test */
    bool until;   /* repeat the test until it is true */
} __attribute__((may_alias));
NIC_OP_KIND(nic_condition_of, struct nic_condition, op);

/** nic_condition_send - send the conditionals that were not sent yet. Returns their number. */
uint32_t nic_condition_send(struct fabemu_group *g);
/** nic_condition_answer - handle the network's reply to a conditional. */
void nic_condition_answer(struct fabemu *fab, const struct emu_seg *seg);
/**
 * nic_condition_take_back - remove @condition from the link engine if it is there, because the
 * operation is about to end. Returns false if there is no space for the segment that does this.
 */
bool nic_condition_take_back(const struct nic_condition *condition);

/**
 * nic_word_again - if it is time, send the conditionals again for which the link engine had no
 * slot. Returns their number.
 */
uint32_t nic_word_again(struct fabemu *fab);

#endif
