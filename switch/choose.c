/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * choose.c - adaptive routing: one of several candidate outputs.
 *
 * The lightly loaded candidates first; of them the next in turn, the first, or
 * a random one. If none is lightly loaded, the least loaded one.
 * Source: output-queued routers §2.2 (adaptive up); QsNet III §III (the choice).
 */
#include "emu/least.h"
#include "emu/random.h"
#include "switch/crossbar.h"

uint32_t switch_pick_random(struct switch_dev *sw, uint64_t from)
{
    return emu_bits_nth(from, (uint32_t)(emu_xorshift(&sw->random) %
                                         (unsigned)__builtin_popcountll(from)));
}

uint32_t switch_pick(struct switch_dev *sw, uint64_t from)
{
    switch (sw->profile->choice) {
    case EMU_CHOICE_FIRST_FREE:
        return emu_bits_first(from);
    case EMU_CHOICE_RANDOM:
        return switch_pick_random(sw, from);
    case EMU_CHOICE_NEXT_FREE:
    default:
        sw->last_served = emu_bits_next(from, sw->last_served);
        return sw->last_served;
    }
}

/* Segments that wait for output @o. */
static uint32_t choose_queued(const void *of, uint32_t o)
{
    return ((const struct switch_out *)of)[o].queued;
}

uint32_t switch_choose(struct switch_crossbar *bar, uint64_t candidates)
{
    uint64_t from = candidates & bar->light;

    return switch_pick(&bar->sw, from ? from : emu_least(candidates, choose_queued, bar->out));
}
