/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * daemon.h - serves a running fabric's control socket (docs/control.md).
 */
#ifndef APPS_DAEMON_DAEMON_H
#define APPS_DAEMON_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "apps/capture/capture.h"
#include "apps/fabric/fabric.h"
#include "apps/daemon/timeline.h"
#include "apps/fault/fault.h"
#include "apps/cluster/coordinator/coordinator.h"

#define DAEMON_DEATHS_MAX 64 /* deaths that a report lists */

/* A process that ended without detaching. */
struct daemon_death {
    uint32_t node;
    pid_t pid;
    char command[16]; /* the kernel's name of the process */
    char how[96];     /* "killed by signal 9", "ended without detaching", … */
};

/*
 * On clock real: an upper bound of the time that programs lost because the host's cores were busy
 * (daemon/waits.c, docs/manual.md).
 */
struct daemon_waits {
    uint64_t attached_ns; /* time with attached processes */
    uint64_t late_ns;     /* upper bound of the part in which a thread or a full ring waited */
    uint64_t programs_ns; /* sum of the waits of all threads of attached processes */
    uint64_t fabric_ns;   /* sum of the waits of the fabric's threads */
    uint64_t full_ns;     /* fabric_full_ns() */
    uint64_t longest_ns;  /* sum of the waits of the process that waited most */
    pid_t longest_pid;    /* that process; 0: none waited */
    uint32_t longest_node;
    char longest_command[16];
    uint32_t unseen; /* processes whose waits are unknown */
};

/* Counts of the control socket since the start. */
struct daemon_record {
    struct daemon_waits waits;
    uint64_t attaches;      /* granted requests */
    uint64_t refused;       /* requests when every node was in use */
    uint64_t outside;       /* processes whose MPI messages use another transport */
    char outside_why[200];  /* the reason given by the first one */
    uint64_t cut_off;       /* processes that did not take their segments */
    uint64_t goodbyes_late; /* disconnects that a peer did not confirm in time */
    uint32_t peak;          /* most nodes attached at the same time */
    uint32_t died;          /* processes that ended without detaching */
    struct daemon_death death[DAEMON_DEATHS_MAX]; /* the first ones */
};

struct daemon_config {
    const struct fabric_config *fabric;     /* configuration of the fabric */
    int listen_fd;                          /* listening control socket; borrowed */
    int signal_fd;                          /* readable when the fabric has to end; borrowed */
    int owner_fd;                           /* connection of the supervisor: taken over */
    pid_t owner;                            /* the supervisor */
    const struct fault_schedule *faults;    /* --fault; NULL: none */
    const struct capture_plan *capture;     /* --capture; NULL: none */
    int events_fd;                          /* file for events; -1: none */
    int record_fd;                          /* file for events and snapshots; -1: none */
    const struct timeline_plan *timeline;   /* --timeline; NULL: none */
    const struct coordinator_config *hosts; /* the agents, without `ops`; NULL: none */
};

enum daemon_end {
    DAEMON_SHUTDOWN,   /* by request or signal */
    DAEMON_OWNER_GONE, /* the supervisor has died */
    DAEMON_UNWRITTEN   /* as DAEMON_SHUTDOWN, but a file could not be written; it was reported */
};

/**
 * daemon_serve - serve until a shutdown is requested, or the supervisor dies.
 *
 * The supervisor's connection is a client that also gets the events "ready", "node_died",
 * "refused", "outside", "cut_off", "frozen" and, last, "ended" with the report. Returns enum
 * daemon_end or a negative errno; on errors the caller keeps owner_fd, and @error may have a line
 * for the user. Thread: the fabric's manager.
 */
int daemon_serve(struct fabric *fabric, const struct daemon_config *config, char *error,
                 size_t error_bytes);

#endif
