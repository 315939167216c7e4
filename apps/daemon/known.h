/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * known.h - what the daemon knows of cables and processes: a sampler's source (telemetry.h).
 */
#ifndef APPS_TELEMETRY_KNOWN_H
#define APPS_TELEMETRY_KNOWN_H

#include "apps/telemetry/telemetry.h"

/* As telemetry_source has them; @ctx: the daemon. */
void telemetry_known_link(void *ctx, uint32_t cable, struct telemetry_cable *ret);
void telemetry_known_node(void *ctx, uint32_t node, struct telemetry_process *who,
                          struct telemetry_wait *waits);

#endif
