/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traffic_report.h - the figures of runs, for people and for programs.
 */
#ifndef APPS_CMD_TRAFFIC_REPORT_H
#define APPS_CMD_TRAFFIC_REPORT_H

#include <json-c/json.h>
#include <stdio.h>

#include "apps/traffic/run.h"

/* Facts about a result that its configuration does not have. */
struct traffic_title {
    const char *pattern;        /* --pattern's text */
    struct json_object *origin; /* apps/fabric/origin.h */
};

/** traffic_report_json - one run, as docs/traffic.md says. */
struct json_object *traffic_report_json(const struct traffic_result *result,
                                        const struct traffic_config *config,
                                        const struct traffic_title *title);

/** traffic_report_text - one run, for people. */
void traffic_report_text(FILE *out, const struct traffic_result *result,
                         const struct traffic_config *config, const struct traffic_title *title);

/**
 * traffic_report_head - the head of a table of loads: lines that begin with '#', and the names of
 * the columns. traffic_report_row() - one line of the table.
 */
void traffic_report_head(FILE *out, const struct traffic_config *config,
                         const struct traffic_title *title);
void traffic_report_row(FILE *out, const struct traffic_result *result,
                        const struct traffic_config *config);

#endif
