/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * word.h - the calls on a group's words, and conditionals that are asked again.
 *
 * Owner: `again_ns`. Lock: held. Callers: the step.
 */
#ifndef NIC_WORD_H
#define NIC_WORD_H

#include "nic/host/base/adapter.h"

/** nic_word_again - ask again, when it is time, what had no slot. Returns segments. */
uint32_t nic_word_again(struct fabemu *fab);

#endif
