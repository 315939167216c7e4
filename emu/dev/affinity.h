/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * affinity.h - move a worker to the core of a process that sends a stream.
 *
 * A message involves three threads: the sender, the worker and the receiver. If there are fewer
 * cores than threads, two of them share a core. A *stream* is many segments that one process posts
 * at a time. It is fastest if the sender and the worker share a core. Then the worker finds the
 * sender's data in the caches of that core, and the receiver, which has the most work, gets the
 * other core. The scheduler cannot know that: all three threads are always runnable, so it leaves
 * them where they are. If several processes send streams, the worker follows none of them. When it
 * followed every sender, an all-reduce of 1 MB by messages, in which each of 4 ranks sends streams,
 * took 1.2 times as long. Each move helps only one rank, but the all-reduce ends only when its
 * slowest rank has finished.
 *
 * The worker is moved, but not bound: the scheduler may move it again. The worker never moves to a
 * core that it may not use. The core numbers that processes report are not verified otherwise. A
 * process with a false report can only make the worker move once per EMU_AFFINITY_STREAMS of its
 * streams.
 */
#ifndef EMU_AFFINITY_H
#define EMU_AFFINITY_H

#include <stdbool.h>
#include <stdint.h>

/* after this many streams in a row from one other core, the worker moves there */
#define EMU_AFFINITY_STREAMS 64u

/* Counts streams in a row from one node and core. Owned by the worker. */
struct emu_affinity {
    uint32_t node;  /* node of the sender */
    uint32_t core;  /* core of the sender, plus 1; 0: none */
    uint32_t times; /* streams so far, all while the worker was on another core */
};

/**
 * emu_affinity_observe - count a stream of @node from @core, while this thread is on core @own.
 * Both are core numbers plus 1; @core is 0 if it is unknown. Returns whether this thread should
 * move to @core. Changes only @affinity.
 */
static inline bool emu_affinity_observe(struct emu_affinity *affinity, uint32_t node, uint32_t core,
                                        uint32_t own)
{
    if (!core)
        return false;
    if (core != affinity->core || node != affinity->node)
        *affinity = (struct emu_affinity){.node = node, .core = core};
    if (core == own || ++affinity->times < EMU_AFFINITY_STREAMS)
        return false;
    *affinity = (struct emu_affinity){0};
    return true;
}

/** emu_affinity_migrate - move this thread to core @core - 1, if it may run there. */
void emu_affinity_migrate(uint32_t core);

/** emu_affinity_cores - return how many cores this thread may use or, if unknown, are online. */
uint32_t emu_affinity_cores(void);

#endif
