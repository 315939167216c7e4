/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link_end.h - the end of a host link's cable that a switch would be, and no switch's work: it
 * sends whole segments as fast as its credits allow, or takes them.
 *
 * Thread: its worker's.
 */
#ifndef APPS_BENCH_LINK_END_H
#define APPS_BENCH_LINK_END_H

#include <stdbool.h>

#include "emu/link/link.h"
#include "emu/worker/worker.h"

#define BENCH_LINK_NODES 16u  /* of the network that the segments are for */
#define BENCH_LINK_BURST 128u /* segments of a cable in a pass */

struct bench_link_end {
    struct emu_dev dev; /* must be first */
    struct emu_tx tx;   /* its user joins both */
    struct emu_rx rx;
    bool sends;
};

/** bench_link_end_init - @end is zeroed. It begins when it is told of credits, or of data. */
void bench_link_end_init(struct bench_link_end *end, struct emu_worker *worker, bool sends);

#endif
