/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * virtual.h - a simulator that does nothing but what none can leave out, on both timed clocks.
 */
#ifndef APPS_BENCH_BARE_VIRTUAL_H
#define APPS_BENCH_BARE_VIRTUAL_H

#include "apps/bench/virtual.h"

/**
 * bench_virtual_bare - the bare loop's bench_virtual_mhops(): segments of all nodes to nodes drawn
 * at random. @what: its name of a network and its load count, and of @how all but the seed; one
 * worker, or two. @ordered: with what an output-queued switch does besides (ordered.h). Returns 0
 * if there is no memory, thread or such network.
 */
double bench_virtual_bare(const struct bench_virtual_case *what,
                          const struct bench_virtual_how *how, bool ordered);

struct bare_real;

/** bare_real_open - the same loop on clock real. NULL: there is no memory, or no such network. */
struct bare_real *bare_real_open(const char *topo);
void bare_real_close(struct bare_real *real);

/**
 * bare_real_try - all nodes send for @run_ns at @load of their links' rate; then all that was sent
 * arrives. Returns how late the latest was that came in the last quarter, in ns.
 * *@mhops: millions of hops a second of the wall's time, meanwhile.
 */
uint64_t bare_real_try(struct bare_real *real, double load, uint64_t run_ns, double *mhops);

#endif
