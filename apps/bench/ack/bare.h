/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bare.h - what a hop cannot take less than, with acknowledgments and without: the network and the
 * rings of fabrics, and devices that do no more than no router could do without.
 *
 * Acknowledged, that is: of a packet's head a route, a free channel of the output, and a note of
 * which of the input's goes on by it; of each segment a slot beyond, and the copy from ring to
 * ring; of the reply the channel, freed, and the same the other way. Not acknowledged: a route, a
 * credit, a copy. There are no checks, counters, queues, turns, priorities, broadcasts, time-outs,
 * faults. Who finds no channel or slot stays in its ring, and what is behind it waits.
 */
#ifndef APPS_BENCH_ACK_BARE_H
#define APPS_BENCH_ACK_BARE_H

#include <stdbool.h>
#include <stdint.h>

struct bare;

/**
 * bare_open - kary:4,3, whose nodes send to the opposite one of their block of @within nodes.
 * @segments: of a packet; 0: without acknowledgments. NULL: there is no memory.
 */
struct bare *bare_open(uint32_t within, uint32_t segments);
void bare_close(struct bare *bare);

/**
 * bare_step - step for @run_ns of the thread's own time. Returns ns a segment that arrived; 0: none
 * has.
 */
double bare_step(struct bare *bare, uint64_t run_ns);

#endif
