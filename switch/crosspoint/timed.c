/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timed.c - timed clocks: the steps by the row guarantee, and by the plain counter.
 */
#include "switch/crosspoint/timed.h"

uint32_t switch_step_row_timed(struct emu_dev *dev, uint64_t until_ps)
{
    static const struct switch_timed row = {.admit = switch_admit_level, .by_row = true};

    return switch_timed_run(dev, until_ps, &row);
}

uint32_t switch_step_counter_timed(struct emu_dev *dev, uint64_t until_ps)
{
    static const struct switch_timed counter = {.admit = switch_admit_copies};

    return switch_timed_run(dev, until_ps, &counter);
}
