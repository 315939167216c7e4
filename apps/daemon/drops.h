/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * drops.h - who waits for what is lost for good is told (apps/fabric/drops.c). The daemon's one
 * thread's.
 */
#ifndef APPS_DAEMON_DROPS_H
#define APPS_DAEMON_DROPS_H

#include "apps/daemon/client.h"
#include "apps/fabric/fabric.h"

struct daemon_drops {
    uint64_t scan_ps; /* the next look, by the host's clock */
    uint64_t pairs;   /* pairs of processes that were told of a segment that one of them misses */
    uint64_t more;    /* losses of the same that were told together with another one */
    uint64_t groups;  /* that have failed */
    uint64_t out;     /* combine units that were taken out of service, */
    uint64_t back;    /* that are in it again, */
    uint64_t moved;   /* and groups that have trees without them */
};

/** daemon_drops_step - look, if it is time, and tell. */
void daemon_drops_step(struct daemon *daemon, struct daemon_drops *drops, uint64_t now_ps);

/** daemon_drops_report - "unrecoverable" of a report. */
void daemon_drops_report(const struct daemon *daemon, const struct daemon_drops *drops,
                         struct json_object *report);

#endif
