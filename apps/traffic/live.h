/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * live.h - a run in simulated time, looked at as it goes: a control socket that the driver serves
 * between two windows. Whoever subscribes gets each snapshot, and may say how fast time passes, or
 * hold it: docs/traffic.md. Nothing of this changes what a run computes.
 *
 * A wish about time is good for as long as who has it said, and is repeated while he is there: if
 * he dies, time goes on. At first it stands until somebody looks.
 *
 * Thread: the driver's.
 */
#ifndef APPS_TRAFFIC_LIVE_H
#define APPS_TRAFFIC_LIVE_H

#include "apps/fabric/fabric.h"
#include "apps/traffic/run.h"

struct traffic_live;

/**
 * traffic_live_open - listen for the fabric that @config names, which is kept. Errors: as
 * paths_listen(), -ENOMEM; one line in @error.
 */
int traffic_live_open(struct traffic_live **ret, const struct fabric_config *config, char *error,
                      size_t error_bytes);

/** traffic_live_close - who reads gets what is left, for half a second at most. NULL is allowed. */
void traffic_live_close(struct traffic_live *live);

/** traffic_live_viewer - what a run's configuration wants. */
struct traffic_viewer traffic_live_viewer(struct traffic_live *live);

#endif
