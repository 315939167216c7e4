/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * word.h - the calls on a group's words, and conditionals that are asked again.
 *
 * Owner: `again_ns`. Lock: held. Callers: the step.
 */
#ifndef NIC_WORD_H
#define NIC_WORD_H

#include "nic/host/adapter.h"

/**
 * nic_word_again - conditionals that the adapter had no place for, when it is time. Returns
 * segments.
 */
uint32_t nic_word_again(struct fabemu *fab);

#endif
