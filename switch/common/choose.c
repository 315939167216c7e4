/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * choose.c - adaptive routing: one of several candidate outputs.
 *
 * The lightly loaded candidates first; of them the next in turn, the first, or
 * a random one. If none is lightly loaded, the least loaded one.
 * Source: output-queued routers §2.2 (adaptive up); QsNet III §III (the choice).
 */
#include "emu/util/least.h"
#include "emu/util/random.h"
#include "switch/common/crossbar.h"

uint32_t switch_pick_random(struct switch_dev *sw, emu_ports from)
{
    return emu_ports_nth(from, (uint32_t)(emu_xorshift(&sw->random) % emu_ports_count(from)));
}

uint32_t switch_pick_else(struct switch_dev *sw, emu_ports from)
{
    return sw->profile->choice == EMU_CHOICE_RANDOM ? switch_pick_random(sw, from)
                                                    : emu_ports_first(from);
}

/* Segments that wait for output @o. */
static uint32_t choose_queued(const void *of, uint32_t o)
{
    return ((const struct switch_out *)of)[o].queued;
}

emu_ports switch_least(const struct switch_crossbar *bar, emu_ports candidates)
{
    return emu_least(candidates, choose_queued, bar->out);
}

uint32_t switch_choose_least(struct switch_crossbar *bar, emu_ports candidates)
{
    return switch_pick(&bar->sw, switch_least(bar, candidates));
}
