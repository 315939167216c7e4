/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check.h - a check under way. Inside topo/ only.
 */
#ifndef TOPO_CHECK_H
#define TOPO_CHECK_H

#include "topo/graph.h"

struct check {
    const struct topo_graph *graph;
    struct topo_checked what;
    char *error; /* where the user's line goes */
    size_t error_bytes;
};

/** check_fail - write the line. Returns -EINVAL. */
__attribute__((format(printf, 2, 3))) int check_fail(const struct check *c, const char *format,
                                                     ...);

/** check_levels - routes go up and then down, by levels: check_levels.c. Errors: -EINVAL. */
int check_levels(struct check *c);

/** check_waits - routes arrive, nothing waits in a ring: check_waits.c. Errors: as topo_check(). */
int check_waits(struct check *c);

#endif
