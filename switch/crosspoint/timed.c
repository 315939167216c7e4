/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timed.c - timed clocks: the step by the row guarantee.
 */
#include "switch/crosspoint/timed.h"

uint32_t switch_step_row_timed(struct emu_dev *dev, uint64_t until_ps)
{
    static const struct switch_timed row = {.admit = switch_admit_level,
                                            .dequeue = switch_dequeue_timed,
                                            .by_row = true};

    return switch_timed_run(dev, until_ps, &row);
}
