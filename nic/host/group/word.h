/* SPDX-License-Identifier: BSD-3-Clause */
/* word.h - words of a group and conditionals on them. Lock: held. */
#ifndef NIC_WORD_H
#define NIC_WORD_H

#include "nic/host/base/op.h"
#include "nic/host/group/group.h"

/* Sets a word; complete at once, when its event has reached the threshold. */
struct nic_set {
    struct nic_op op;
    struct fabemu_group *group;
    uint64_t value;
    uint32_t word;
} __attribute__((may_alias));
NIC_OP_KIND(nic_set_of, struct nic_set, op);

/* Does a word have a value at all members? */
struct nic_condition {
    struct nic_op op;
    struct fabemu_group *group;
    uint64_t value;
    uint32_t word;
    uint8_t test; /* enum emu_test */
    bool until;   /* repeat until true */
} __attribute__((may_alias));
NIC_OP_KIND(nic_condition_of, struct nic_condition, op);

/** nic_condition_send - send waiting conditionals. Returns the number of segments. */
uint32_t nic_condition_send(struct fabemu_group *g);
/** nic_condition_answer - the network's answer to a conditional arrived. */
void nic_condition_answer(struct fabemu *fab, const struct emu_seg *seg);
/**
 * nic_condition_take_back - @condition is about to end: remove it from the link engine, if it is
 * there. False: no space now.
 */
bool nic_condition_take_back(const struct nic_condition *condition);

/**
 * nic_word_again - if it is time, resend conditionals that found no slot. Returns the number of
 * segments.
 */
uint32_t nic_word_again(struct fabemu *fab);

#endif
