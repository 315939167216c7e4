/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traffic.h - the parts of `fabemu traffic`: its options (traffic_options.c), and the reports of
 * its runs (traffic_report.c).
 */
#ifndef APPS_CMD_TRAFFIC_H
#define APPS_CMD_TRAFFIC_H

#include <json-c/json.h>
#include <stdint.h>
#include <stdio.h>

#include "apps/cmd/options.h"
#include "apps/traffic/run.h"

#define TRAFFIC_LOADS_MAX 1000

struct traffic_options {
    const char *pattern;
    const char *goal;             /* file; NULL: none */
    const char *telemetry;        /* file; NULL: none */
    bool page;                    /* snapshots also go to a web page; set by the caller */
    struct traffic_config config; /* the fields that do not depend on the network */
    uint32_t loads;
    uint64_t load[TRAFFIC_LOADS_MAX];
    uint64_t given; /* one bit for each option that was given */
};

/**
 * traffic_options_init - set defaults, and make the table @own, which lets options_parse() fill
 * @ret.
 */
void traffic_options_init(struct traffic_options *ret, struct option_table *own);

/**
 * traffic_options_config - make the configuration of runs on the network of @fabric. The caller
 * releases its pattern with traffic_pattern_release(), and its goal with goal_free(). Prints
 * errors. Returns 0 or an exit status.
 */
int traffic_options_config(struct traffic_config *ret, const struct traffic_options *options,
                           const struct fabric_config *fabric);

/* Parts of a report that are not in the configuration of the run. */
struct traffic_title {
    const char *pattern;        /* text of --pattern; for a GOAL file "goal" */
    const char *goal;           /* name of the GOAL file; NULL: none */
    struct json_object *origin; /* from origin_json() */
};

/** traffic_report_json - return the report of one run as JSON (docs/traffic.md). */
struct json_object *traffic_report_json(const struct traffic_result *result,
                                        const struct traffic_config *config,
                                        const struct traffic_title *title);

/** traffic_report_text - print the report of one run. */
void traffic_report_text(FILE *out, const struct traffic_result *result,
                         const struct traffic_config *config, const struct traffic_title *title);

/**
 * traffic_report_head - print the head of a table of loads: lines that begin with '#', and the
 * names of the columns. @result: the result of the first load.
 * traffic_report_row() - print a line of the table.
 */
void traffic_report_head(FILE *out, const struct traffic_result *result,
                         const struct traffic_config *config, const struct traffic_title *title);
void traffic_report_row(FILE *out, const struct traffic_result *result,
                        const struct traffic_config *config);

#endif
