/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * live.h - live view of a run in simulated time: a control socket that the driver serves between
 * two windows. Subscribers that read fast enough get each snapshot. They may set the pace of
 * simulated time, or pause it (docs/traffic.md). None of this changes the results of a run.
 *
 * A pace request expires after the time that the client has set, and the client repeats it: if the
 * client dies, simulated time continues. It is paused until the first client subscribes.
 *
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

/** traffic_live_close - sends pending data for half a second at most. NULL is allowed. */
void traffic_live_close(struct traffic_live *live);

/** traffic_live_viewer - for traffic_config.snapshots.viewer. */
struct traffic_viewer traffic_live_viewer(struct traffic_live *live);

#endif
