/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * losses.h - who waits for what is lost for good is told (apps/fabric/losses.c). The daemon's one
 * thread's.
 */
#ifndef APPS_DAEMON_LOSSES_H
#define APPS_DAEMON_LOSSES_H

#include "apps/daemon/client.h"
#include "apps/fabric/fabric.h"

struct daemon_losses {
    uint64_t look_ps; /* the next look, by the host's clock */
    uint64_t pairs;   /* pairs of processes that were told of a segment that one of them misses */
    uint64_t more;    /* losses of the same that were told together with another one */
    uint64_t groups;  /* that have failed */
    uint64_t out;     /* combine units that were taken out of service, */
    uint64_t back;    /* that are in it again, */
    uint64_t moved;   /* and groups that have trees without them */
};

/** daemon_losses_step - look, if it is time, and tell. */
void daemon_losses_step(struct daemon *daemon, struct daemon_losses *losses, uint64_t now_ps);

/** daemon_losses_report - "losses" of a report. */
void daemon_losses_report(const struct daemon *daemon, const struct daemon_losses *losses,
                          struct json_object *report);

#endif
