/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * choose.c - adaptive routing: one of several candidate outputs.
 *
 * The lightly loaded candidates first; of them the next in turn, the first, or
 * a random one. If none is lightly loaded, the least loaded one.
 * Source: output-queued routers §2.2 (adaptive up); QsNet III §III (the choice).
 */
#include "switch/internal.h"

#include "emu/random.h"

static uint64_t choose_least(const struct switch_dev *sw, uint64_t candidates)
{
    uint32_t least = UINT32_MAX;
    uint64_t best = 0;

    emu_each_bit(out, candidates) {
        uint32_t queued = sw->out[out].queued;

        if (queued < least) {
            least = queued;
            best = 0;
        }
        if (queued == least)
            best |= emu_bit(out);
    }
    return best;
}

uint32_t switch_pick_random(struct switch_dev *sw, uint64_t from)
{
    return emu_bits_nth(from,
                          (uint32_t)(emu_xorshift(&sw->random) % (unsigned)__builtin_popcountll(from)));
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
        sw->turn = emu_bits_next(from, sw->turn);
        return sw->turn;
    }
}

uint32_t switch_choose(struct switch_dev *sw, uint64_t candidates)
{
    uint64_t from = candidates & sw->light;

    if (!from)
        from = choose_least(sw, candidates);
    return switch_pick(sw, from);
}
