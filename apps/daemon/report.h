/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report.h - the run report: built by the fabric, printed by the command.
 */
#ifndef APPS_DAEMON_REPORT_H
#define APPS_DAEMON_REPORT_H

#include <json-c/json.h>
#include <stdint.h>
#include <stdio.h>

#include "apps/daemon/daemon.h"
#include "apps/fabric/fabric.h"

/** report_network - add "topo" and "profile": what the fabric is. */
void report_network(struct json_object *all, const struct fabric_config *config);

/** report_build - the report so far; "command" and "exit_status" are null: the run fills them. */
struct json_object *report_build(struct fabric *fabric, const struct fabric_config *config,
                                 const struct daemon_record *record);

/** report_traffic - add "segments" and "combined": what was carried and combined. */
void report_traffic(struct json_object *report, const struct fabric_totals *totals);

/** report_print - for people. */
void report_print(FILE *out, struct json_object *report);

/** report_print_hosts - of it: the hosts and their links, if there are several. */
void report_print_hosts(FILE *out, struct json_object *report);

/**
 * report_write - as JSON, in place of what @fd, the file at @path, held. Errors are said: as
 * ftruncate() and write().
 */
int report_write(int fd, const char *path, struct json_object *report);

/* The profile's name, and those of its fields that were set. */
struct report_profile {
    char text[256];
};

/** report_profile - "oq2004 with transport=acknowledged", of a report. Pure. */
struct report_profile report_profile(struct json_object *report);

#endif
