/* SPDX-License-Identifier: BSD-3-Clause */
/* check.h - the state of topo_check(), shared by check.c and check_waits.c. Inside topo/ only. */
#ifndef TOPO_CHECK_H
#define TOPO_CHECK_H

#include "topo/graph.h"

struct check {
    const struct topo_graph *graph;
    struct topo_checked what;
    char *error; /* gets one line for the user */
    size_t error_bytes;
};

/** check_fail - write c->error. Returns -EINVAL. */
__attribute__((format(printf, 2, 3))) int check_fail(const struct check *c, const char *format,
                                                     ...);

/** check_waits - check that routes arrive and waits form no cycle. Errors: as topo_check(). */
int check_waits(struct check *c);

#endif
