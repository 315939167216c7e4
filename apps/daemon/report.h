/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report.h - the run report. The fabric's process builds it as JSON; the command that started the
 * fabric prints it.
 */
#ifndef APPS_DAEMON_REPORT_H
#define APPS_DAEMON_REPORT_H

#include <json-c/json.h>
#include <stdint.h>
#include <stdio.h>

#include "apps/daemon/daemon.h"
#include "apps/fabric/fabric.h"

/*
 * Clock real: programs were "on time" if they lost at most 1/REPORT_ON_TIME_SHARE of the time, and
 * if the fabric's real-time factor was at least REPORT_ON_TIME_FACTOR.
 */
#define REPORT_ON_TIME_SHARE  100
#define REPORT_ON_TIME_FACTOR 0.99

/** report_network - add "topo", "profile" and, if the network comes from a file, "up" to @all. */
void report_network(struct json_object *all, const struct fabric_config *config);

/**
 * report_build - build the report of this moment. The command fills in "command" and "exit_status".
 */
struct json_object *report_build(struct fabric *fabric, const struct fabric_config *config,
                                 const struct daemon_record *record);

/** report_traffic - add the counters of traffic, "segments", and of combining, "combined". */
void report_traffic(struct json_object *report, const struct fabric_totals *totals);

/** report_print - print the report as text for people. */
void report_print(FILE *out, struct json_object *report);

/**
 * report_write - truncate the file @fd, named @path (output_begin()), and write the report to it as
 * JSON. On an error, print a line and return the error of output_begin() or write().
 */
int report_write(int fd, const char *path, struct json_object *report);

/* The profile's name, and the fields that options have set. */
struct report_profile {
    char text[256];
};

/** report_profile - describe a report's profile: "oq2004 with transport=acknowledged". Pure. */
struct report_profile report_profile(struct json_object *report);

/* --- comm.c: the communication of programs ----------------------------------------------- */

/* maximum number of pairs of nodes that a report lists; it has only sums over all further pairs */
#define COMM_PAIRS_MOST 65536u

/**
 * comm_build - build "communication" of the report (docs/manual.md): collectives, messages, their
 * times, and traffic by pair of nodes. NULL: no memory. Thread: manager.
 */
struct json_object *comm_build(struct fabric *fabric, const struct fabric_config *config);

/** comm_print - print a summary of "communication" as text. Prints nothing if nothing was sent. */
void comm_print(FILE *out, struct json_object *comm);

#endif
