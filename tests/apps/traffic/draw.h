/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * draw.h - configurations of traffic, given or drawn at random, for tests that compare whole runs.
 *
 * One network stands at a time: that of the configuration that was made last.
 */
#ifndef TESTS_APPS_TRAFFIC_DRAW_H
#define TESTS_APPS_TRAFFIC_DRAW_H

#include "apps/traffic/run.h"

/** draw_config_of - a configuration to start from: its pattern is the caller's to release. */
struct traffic_config draw_config_of(const char *topo, const char *pattern);

/** draw_acknowledged_of - the same of a network with acknowledgments. */
struct traffic_config draw_acknowledged_of(const char *topo, const char *pattern);

/** draw_profile - other times, buffers and rules. */
void draw_profile(uint64_t *seed, struct emu_profile *profile);

/** draw_config, draw_acknowledged - any run; *topo and *pattern are for messages. */
struct traffic_config draw_config(uint64_t *seed, const char **topo, const char **pattern);
struct traffic_config draw_acknowledged(uint64_t *seed, const char **topo, const char **pattern);

/** draw_same_result - is all that was measured the same? */
bool draw_same_result(const struct traffic_result *a, const struct traffic_result *b);

/** draw_end - the network goes, too. */
void draw_end(void);

#endif
