/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hops.h - the bare loop beside `hops.tree.uniform`: hops with nothing but what no fabric can do
 * without.
 */
#ifndef APPS_BENCH_BARE_HOPS_H
#define APPS_BENCH_BARE_HOPS_H

#include <stdbool.h>
#include <stdint.h>

struct bare_hops;

/**
 * bare_hops_open - nothing has moved yet. NULL: there is no memory.
 * @queued: what finds no credit waits in a queue of its input and output; else in its ring.
 */
struct bare_hops *bare_hops_open(bool queued);
void bare_hops_close(struct bare_hops *bare);

/** bare_hops_step - moves segments for @run_ns of the thread's own time. Returns ns a hop. */
double bare_hops_step(struct bare_hops *bare, uint64_t run_ns);

/** bare_hops_stray - has anything come to a node that it was not for? */
bool bare_hops_stray(const struct bare_hops *bare);

#endif
