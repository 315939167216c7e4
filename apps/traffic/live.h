/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * live.h - live view of a run in simulated time: a control socket that the driver serves between
 * two windows. Subscribers that read fast enough get each snapshot or, at full speed, one in 40 ms.
 * Clients may set the pace of simulated time, or pause it (docs/traffic.md), which does not change
 * the results of a run.
 *
 * A request for a pace expires after a time that the client has set, so that simulated time
 * continues at full speed if the client dies. Simulated time begins when a client subscribes.
 * Thread: the driver.
 */
#ifndef APPS_TRAFFIC_LIVE_H
#define APPS_TRAFFIC_LIVE_H

#include "apps/fabric/fabric.h"
#include "apps/traffic/run.h"

struct traffic_live;

/**
 * traffic_live_open - listen on the control socket of the fabric that @config names. Borrows
 * @config. Errors: as paths_listen(), -ENOMEM; one line in @error.
 */
int traffic_live_open(struct traffic_live **ret, const struct fabric_config *config, char *error,
                      size_t error_bytes);

/** traffic_live_close - send pending data for at most half a second. Free @live (may be NULL). */
void traffic_live_close(struct traffic_live *live);

/** traffic_live_viewer - return the callbacks for traffic_config.snapshots.viewer. */
struct traffic_viewer traffic_live_viewer(struct traffic_live *live);

#endif
