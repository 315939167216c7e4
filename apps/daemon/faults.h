/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * faults.h - the fabric's manager and its faults, as the daemon runs them. The daemon's one
 * thread's.
 */
#ifndef APPS_DAEMON_FAULTS_H
#define APPS_DAEMON_FAULTS_H

#include "apps/daemon/client.h"
#include "apps/manager/manager.h"

/**
 * daemon_faults_open - begin with the schedule of the daemon's configuration, if there is one.
 * Until somebody asks for a fault there is nothing else, and nothing of it runs.
 * @error: one line. Errors: as daemon_fault's.
 */
int daemon_faults_open(struct daemon *daemon, char *error, size_t error_bytes);
void daemon_faults_close(struct daemon *daemon);

/** daemon_faults_run - what is due, and what was hit meanwhile. When its timer has expired. */
void daemon_faults_run(struct daemon *daemon);

/**
 * daemon_faults_sever - these cables lead nowhere: the manager sends around them. @lost: by cable.
 * Errors: as daemon_fault's, with one line in @error. daemon_faults_rejoin() - these do again.
 */
int daemon_faults_sever(struct daemon *daemon, const bool *lost, char *error, size_t error_bytes);
void daemon_faults_rejoin(struct daemon *daemon, const bool *mended);

/**
 * daemon_faults_reapply - @host has come back: what befalls its devices now does so again, and what
 * was counted there begins anew. Errors: -ENOMEM.
 */
int daemon_faults_reapply(struct daemon *daemon, uint32_t host);

/** daemon_faults_manager - who brings links up and takes them out; NULL: all are in use, still. */
const struct manager *daemon_faults_manager(const struct daemon *daemon);

#define DAEMON_CABLE_ENDS_BYTES 72 /* "switch 3:5 - switch 7:1" */
#define DAEMON_CABLE_BYTES      (DAEMON_CABLE_ENDS_BYTES + TOPO_CABLE_BYTES)

/**
 * daemon_cable_name - write the two ends of cable @i, such as "switch 3:5 - switch 7:1" or
 * "switch 3:5 - node 4:0". @direction: the text between them. The names and numbers from a file
 * follow in
 * parentheses: "switch 3:5 - node 4:0 (leaf1:6, node01:1)".
 */
const char *daemon_cable_name(const struct fabric *fabric, uint32_t i, const char *direction,
                              char text[static DAEMON_CABLE_BYTES]);

/**
 * daemon_faults_report - "faults", "links" and "unrecoverable" of a report, where there can be any.
 * */
void daemon_faults_report(struct daemon *daemon, struct json_object *report);

/* Requests. */
void daemon_fault(struct daemon *daemon, struct client *client, struct json_object *request);
void daemon_fault_clear(struct daemon *daemon, struct client *client, struct json_object *request);
void daemon_fault_kinds(struct daemon *daemon, struct client *client, struct json_object *request);
void daemon_fault_list(struct daemon *daemon, struct client *client, struct json_object *request);

#endif
