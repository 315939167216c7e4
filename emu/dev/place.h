/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * place.h - where a worker runs while it shares its core with those that it serves.
 *
 * With fewer cores than threads two of the three that a message takes share a core. A stream is
 * fastest if these are its sender and the worker: what the one writes the other finds in the caches
 * of their core, and the receiver, which has the most to do, has the other core. Nothing tells the
 * scheduler so: all three run without end, and it leaves them where they are. Where several send
 * by turns none of them is followed: of 4 ranks that all do (1 MB all-reduced over messages) the
 * slowest counts, and following each took 1.2 times as long.
 *
 * A hint, and a move, no binding: the scheduler may move the worker again at once, and nothing is
 * moved to a core that the worker may not use. What processes say of their cores is believed as far
 * as that: one that lies has the worker move, after many segments of its own each time.
 */
#ifndef EMU_PLACE_H
#define EMU_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#define EMU_PLACE_PATIENCE 64u /* streams told of in a row from one other core, before a move */

/* The worker's. Streams that it was told of since it was elsewhere, or others sent: */
struct emu_place {
    uint32_t node;  /* who sent them */
    uint32_t core;  /* 1 + where they came from; 0: there was none */
    uint32_t times; /* how often, if that is another one than its own */
};

/**
 * emu_place_hear - a stream of @node comes from @core (1 + its number; 0: not known), and this
 * thread is on @own. Returns whether it is to move there. Pure but for @place.
 */
static inline bool emu_place_hear(struct emu_place *place, uint32_t node, uint32_t core,
                                  uint32_t own)
{
    if (!core)
        return false;
    if (core != place->core || node != place->node)
        *place = (struct emu_place){.node = node, .core = core};
    if (core == own || ++place->times < EMU_PLACE_PATIENCE)
        return false;
    *place = (struct emu_place){0};
    return true;
}

/** emu_place_move - this thread to @core (1 + its number), if it may run there. */
void emu_place_move(uint32_t core);

/** emu_place_cores - cores that this thread may use; those that are there if nobody can say. */
uint32_t emu_place_cores(void);

#endif
