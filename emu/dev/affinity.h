/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * affinity.h - migrate a worker to the core of a process that sends a stream.
 *
 * A message involves three threads: sender, worker and receiver. With fewer cores than threads, two
 * share a core. A stream is fastest if these are the sender and the worker: the worker finds the
 * sender's data in the caches of their core, and the receiver, which has the most work, has the
 * other core. The scheduler cannot know that: all three are always runnable, so it leaves them
 * where they are. With several senders the worker follows none: when 4 ranks all send (1 MB
 * all-reduced by messages), the slowest counts, and following each took 1.2 times as long.
 *
 * This migrates, it does not bind: the scheduler may move the worker again, and the worker never
 * goes to a core that it may not use. The cores that processes report are not trusted beyond that:
 * a process that lies makes the worker migrate once per many of its segments.
 */
#ifndef EMU_AFFINITY_H
#define EMU_AFFINITY_H

#include <stdbool.h>
#include <stdint.h>

#define EMU_AFFINITY_STREAMS 64u /* streams in a row from one other core before migrating */

/* Owned by the worker. Streams in a row from one node and core. */
struct emu_affinity {
    uint32_t node;  /* of the sender */
    uint32_t core;  /* 1 + the core; 0: none */
    uint32_t times; /* streams, if it is another core */
};

/**
 * emu_affinity_observe - a stream of @node comes from @core (1 + its number; 0: unknown), and this
 * thread is on @own. Returns whether to migrate to @core. Pure but for @affinity.
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

/** emu_affinity_migrate - migrate this thread to @core (1 + its number), if it may run there. */
void emu_affinity_migrate(uint32_t core);

/** emu_affinity_cores - cores that this thread may use; if unknown, those online. */
uint32_t emu_affinity_cores(void);

#endif
