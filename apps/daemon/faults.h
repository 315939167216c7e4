/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * faults.h - the faults, the link manager and the unrecoverable drops of a running fabric. Thread:
 * the daemon's.
 */
#ifndef APPS_DAEMON_FAULTS_H
#define APPS_DAEMON_FAULTS_H

#include "apps/daemon/client.h"
#include "apps/fabric/fabric.h"
#include "apps/manager/manager.h"

/**
 * daemon_faults_open - inject the schedule of the daemon's configuration, if there is one. Injector
 * and manager are created when the first fault is requested. Errors: of injector_add(), one line in
 * @error.
 */
int daemon_faults_open(struct daemon *daemon, char *error, size_t error_bytes);
void daemon_faults_close(struct daemon *daemon);

/** daemon_faults_run - the timer has expired: take the due steps, and collect hits. */
void daemon_faults_run(struct daemon *daemon);

/**
 * daemon_faults_sever - cables (@lost, by cable) are down for good; the manager sends around them.
 * Errors: -ENOMEM and others, with one line in @error. daemon_faults_rejoin() - cables work again.
 */
int daemon_faults_sever(struct daemon *daemon, const bool *lost, char *error, size_t error_bytes);
void daemon_faults_rejoin(struct daemon *daemon, const bool *mended);

/**
 * daemon_faults_reapply - @host was restarted: apply the active faults on its devices again. Its
 * counts restart from 0. Errors: -ENOMEM.
 */
int daemon_faults_reapply(struct daemon *daemon, uint32_t host);

/** daemon_faults_manager - manages the states of links; NULL: all are in use. */
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

/** daemon_faults_report - once a fault was requested: add "faults", "links", "unrecoverable". */
void daemon_faults_report(struct daemon *daemon, struct json_object *report);

/* Requests. */
void daemon_fault(struct daemon *daemon, struct client *client, struct json_object *request);
void daemon_fault_clear(struct daemon *daemon, struct client *client, struct json_object *request);
void daemon_fault_kinds(struct daemon *daemon, struct client *client, struct json_object *request);
void daemon_fault_list(struct daemon *daemon, struct client *client, struct json_object *request);

/* --- drops.c: unrecoverable drops (apps/fabric/drops.c) -------------------------------- */

struct daemon_drops {
    uint64_t scan_ps; /* next check, daemon_now_ps() */
    uint64_t pairs;   /* pairs of processes that were notified of a lost segment */
    uint64_t more;    /* further losses that these notifications included */
    uint64_t groups;  /* failed groups */
    uint64_t out;     /* combine units taken out of service, */
    uint64_t back;    /* and back in service */
    uint64_t moved;   /* groups moved to trees without such a unit */
};

/** daemon_drops_step - if a check is due, notify the processes of each drop. */
void daemon_drops_step(struct daemon *daemon, struct daemon_drops *drops, uint64_t now_ps);

/** daemon_drops_report - add "unrecoverable" to a report. */
void daemon_drops_report(const struct daemon *daemon, const struct daemon_drops *drops,
                         struct json_object *report);

#endif
