/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * virtual_bare.h - a simulator that does nothing but what none can leave out.
 */
#ifndef APPS_BENCH_VIRTUAL_BARE_H
#define APPS_BENCH_VIRTUAL_BARE_H

#include <stdint.h>

/**
 * bench_virtual_bare - millions of hops a second of the wall's, uniform traffic.
 * @load: of the links of nodes, above 0 and up to 1. Times are simulated; windows that have begun
 * are done.
 * Returns 0 if there is no memory or no such network.
 */
double bench_virtual_bare(const char *topo, double load, uint64_t warmup_ps, uint64_t measure_ps);

#endif
