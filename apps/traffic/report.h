/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report.h - the figures of runs, for people and for programs.
 */
#ifndef APPS_TRAFFIC_REPORT_H
#define APPS_TRAFFIC_REPORT_H

#include <json-c/json.h>
#include <stdio.h>

#include "apps/traffic/run.h"

/** traffic_report_json - one run, as docs/traffic.md says. @pattern: --pattern's text. */
struct json_object *traffic_report_json(const struct traffic_result *result,
                                        const struct traffic_config *config, const char *pattern);

/** traffic_report_text - one run, for people. */
void traffic_report_text(FILE *out, const struct traffic_result *result,
                         const struct traffic_config *config, const char *pattern);

/** traffic_report_row - one line of a table of loads; with its head before the first. */
void traffic_report_row(FILE *out, const struct traffic_result *result,
                        const struct traffic_config *config, bool first);

#endif
