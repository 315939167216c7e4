/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * faults.h - faults on a running fabric, the manager of its links, and unrecoverable drops:
 * segments that are lost for good because they are not sent again. Thread: the daemon's.
 */
#ifndef APPS_DAEMON_FAULTS_H
#define APPS_DAEMON_FAULTS_H

#include "apps/daemon/client.h"
#include "apps/fabric/fabric.h"
#include "apps/manager/manager.h"

/**
 * daemon_faults_open - inject the schedule of the daemon's configuration, if there is one. Without
 * a schedule, the injector and the manager are created later, for the first fault or lost link
 * between hosts. Errors: as injector_add(), with one line in @error.
 */
int daemon_faults_open(struct daemon *daemon, char *error, size_t error_bytes);
void daemon_faults_close(struct daemon *daemon);

/**
 * daemon_faults_run - called when the timer has expired: execute the steps of faults that are due,
 * and read the log of hits. On several hosts, only query the other hosts (daemon_await()). After
 * their replies daemon_faults_due() executes the steps.
 * daemon_faults_due() - execute the steps if the timer has expired since the last call.
 */
void daemon_faults_run(struct daemon *daemon);
void daemon_faults_due(struct daemon *daemon);

/**
 * daemon_faults_sever - let the manager take the cables in @lost (by cable) out of service and
 * route around them. Errors: -ENOMEM and others, with one line in @error.
 * daemon_faults_rejoin() - let the manager bring up the cables in @mended, which carry segments
 * again.
 */
int daemon_faults_sever(struct daemon *daemon, const bool *lost, char *error, size_t error_bytes);
void daemon_faults_rejoin(struct daemon *daemon, const bool *mended);

/**
 * daemon_faults_reapply - apply the active faults again to the devices of @host, which was
 * restarted. Its counts of hits begin at 0 again. Errors: -ENOMEM.
 */
int daemon_faults_reapply(struct daemon *daemon, uint32_t host);

/**
 * daemon_faults_manager - return the manager, which knows the state of each link. NULL: there has
 * been no fault and no lost link between hosts, or this fabric cannot reroute.
 */
const struct manager *daemon_faults_manager(const struct daemon *daemon);

#define DAEMON_CABLE_ENDS_BYTES 72 /* "switch 3:5 - switch 7:1" */
#define DAEMON_CABLE_BYTES      (DAEMON_CABLE_ENDS_BYTES + TOPO_CABLE_BYTES)

/**
 * daemon_cable_name - write the two ends of cable @i, such as "switch 3:5 - switch 7:1" or "switch
 * 3:5 - node 4:0". @direction: the text between the ends, such as "-" or "->". If the network comes
 * from a file, the names and port numbers of that file follow in parentheses: "switch 3:5 - node
 * 4:0 (leaf1:6, node01:1)".
 */
const char *daemon_cable_name(const struct fabric *fabric, uint32_t i, const char *direction,
                              char text[static DAEMON_CABLE_BYTES]);

/**
 * daemon_faults_report - add "faults", "links" and "unrecoverable" to @report, if there has been a
 * fault or a lost link.
 */
void daemon_faults_report(struct daemon *daemon, struct json_object *report);

/* Requests of clients (docs/control.md). */
void daemon_fault(struct daemon *daemon, struct client *client, struct json_object *request);
void daemon_fault_clear(struct daemon *daemon, struct client *client, struct json_object *request);
void daemon_fault_kinds(struct daemon *daemon, struct client *client, struct json_object *request);
void daemon_fault_list(struct daemon *daemon, struct client *client, struct json_object *request);

/* --- drops.c: unrecoverable drops (apps/fabric/drops.c) -------------------------------- */

struct daemon_drops {
    uint64_t scan_ps; /* time of the next check, by daemon_now_ps() */
    uint64_t pairs;   /* notifications sent; each is about two processes between which segments
                       * were lost */
    uint64_t more;    /* further segments lost between the same processes, without a notification */
    uint64_t groups;  /* groups that failed because of a drop */
    uint64_t out;     /* how often a combine unit was taken out of service */
    uint64_t back;    /* how often a combine unit was put back in service */
    uint64_t moved;   /* groups moved to trees that do not use a unit out of service */
};

/** daemon_drops_step - if a check is due, look for new drops, and notify processes of them. */
void daemon_drops_step(struct daemon *daemon, struct daemon_drops *drops, uint64_t now_ps);

void daemon_drops_report(const struct daemon *daemon, const struct daemon_drops *drops,
                         struct json_object *report);

#endif
