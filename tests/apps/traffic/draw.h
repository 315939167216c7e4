/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * draw.h - traffic configurations, given or random, for tests that compare whole runs.
 *
 * Only one network exists at a time: that of the last configuration.
 */
#ifndef TESTS_APPS_TRAFFIC_DRAW_H
#define TESTS_APPS_TRAFFIC_DRAW_H

#include "apps/traffic/run.h"

/** draw_config_of - a basic configuration; the caller releases its pattern. */
struct traffic_config draw_config_of(const char *topo, const char *pattern);

/** draw_acknowledged_of - the same for a network with acknowledgments. */
struct traffic_config draw_acknowledged_of(const char *topo, const char *pattern);

/** draw_profile - random times, buffers and policies. */
void draw_profile(uint64_t *seed, struct emu_profile *profile);

/** draw_config, draw_acknowledged - any run; *topo and *pattern are for error messages. */
struct traffic_config draw_config(uint64_t *seed, const char **topo, const char **pattern);
struct traffic_config draw_acknowledged(uint64_t *seed, const char **topo, const char **pattern);

/** draw_same_result - are all measured values the same? */
bool draw_same_result(const struct traffic_result *a, const struct traffic_result *b);

/** draw_end - release the network. */
void draw_end(void);

#endif
