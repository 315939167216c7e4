/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * snapshots.h - telemetry of a run in simulated time: docs/telemetry.md. The driver's, between two
 * windows.
 */
#ifndef APPS_TRAFFIC_SNAPSHOTS_H
#define APPS_TRAFFIC_SNAPSHOTS_H

#include "apps/traffic/inside.h"

struct traffic_snapshots;

/**
 * traffic_snapshots_start - the shape of the run's fabric, if the configuration wants snapshots.
 * Errors, with a line in the run's error: -ENOMEM, -EIO.
 */
int traffic_snapshots_start(struct traffic_run *run);

/** traffic_snapshots_stop - one more, of the end. */
void traffic_snapshots_stop(struct traffic_run *run);

/**
 * traffic_snapshots_advance - fabric_advance() to @until_ps, with those that are due on the way, at
 * their times. Errors: as above.
 */
int traffic_snapshots_advance(struct traffic_run *run, uint64_t until_ps);

#endif
