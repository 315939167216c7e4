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

/** report_network - add "topo", "profile" and, for a file's network, "up". */
void report_network(struct json_object *all, const struct fabric_config *config);

/** report_build - the report so far; the run fills in "command" and "exit_status", here null. */
struct json_object *report_build(struct fabric *fabric, const struct fabric_config *config,
                                 const struct daemon_record *record);

/** report_traffic - add "segments" and "combined": the counters of traffic and of combining. */
void report_traffic(struct json_object *report, const struct fabric_totals *totals);

/** report_print - print it as text for people. */
void report_print(FILE *out, struct json_object *report);

/**
 * report_write - replace the contents of @fd, the file at @path, by the report as JSON. Prints a
 * line on errors, which are those of ftruncate() and write().
 */
int report_write(int fd, const char *path, struct json_object *report);

/* The profile's name, and the fields that options have set. */
struct report_profile {
    char text[256];
};

/** report_profile - the profile in a report: "oq2004 with transport=acknowledged". Pure. */
struct report_profile report_profile(struct json_object *report);

/* --- comm.c: the communication of programs ----------------------------------------------- */

/* Pairs of nodes that a report lists, those with most bytes; the others are summed up. */
#define COMM_PAIRS_MOST 65536u

/**
 * comm_build - "communication" of the report (docs/manual.md): collectives, messages, their times,
 * and traffic by pair of nodes. NULL: no memory. Thread: manager.
 */
struct json_object *comm_build(struct fabric *fabric, const struct fabric_config *config);

/** comm_print - print its summary as text; nothing if nothing was sent. */
void comm_print(FILE *out, struct json_object *comm);

#endif
