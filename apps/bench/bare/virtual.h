/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * virtual.h - a simulator that does nothing but what none can leave out.
 */
#ifndef APPS_BENCH_BARE_VIRTUAL_H
#define APPS_BENCH_BARE_VIRTUAL_H

#include "apps/bench/virtual.h"

/**
 * bench_virtual_bare - the bare loop's bench_virtual_mhops(): segments of all nodes to nodes drawn
 * at random. @what: its name of a network and its load count, and of @how all but the seed; one
 * worker, or two. Returns 0 if there is no memory, thread or such network.
 */
double bench_virtual_bare(const struct bench_virtual_case *what,
                          const struct bench_virtual_how *how);

#endif
