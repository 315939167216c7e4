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

#define DAEMON_DEATHS_MAX 64 /* deaths that are remembered one by one */

/* A process that went without detaching. */
struct daemon_death {
    uint32_t node;
    pid_t pid;
    char command[16]; /* its name, as the kernel has it */
    char how[96];     /* "killed by signal 9", "ended without detaching", … */
};

/*
 * Clock real: how much of the time while processes were attached may not have been the network's,
 * because the host's cores were taken (daemon/waits.c, docs/manual.md).
 */
struct daemon_waits {
    uint64_t attached_ns; /* somebody was attached */
    uint64_t late_ns;     /* of that, at most: a thread waited for a core, or an edge was full */
    uint64_t programs_ns; /* waited by all threads of attached processes together */
    uint64_t fabric_ns;   /* the same of the fabric's */
    uint64_t full_ns;     /* fabric_full_ns() */
    uint64_t longest_ns;  /* waited by the threads of the process that waited most: */
    pid_t longest_pid;    /* 0: none did */
    uint32_t longest_node;
    char longest_command[16];
    uint32_t unseen; /* processes of which it is not known */
};

/* What the control socket saw since the start. */
struct daemon_record {
    struct daemon_waits waits;
    uint64_t attaches;     /* that were granted */
    uint64_t refused;      /* because every node was taken */
    uint64_t outside;      /* processes whose MPI messages do not pass the fabric */
    char outside_why[200]; /* the reason that the first of them gave */
    uint64_t cut_off;      /* processes that did not take their segments */
    /* goodbyes of leaving processes that were not complete in time */
    uint64_t goodbyes_late;
    uint32_t peak;                                /* nodes attached at the same time, at most */
    uint32_t died;                                /* processes that died */
    struct daemon_death death[DAEMON_DEATHS_MAX]; /* the first of them */
};

struct daemon_config {
    const struct fabric_config *fabric;     /* what the fabric was started with */
    int listen_fd;                          /* listening control socket; the caller's to close */
    int signal_fd;                          /* readable when the fabric is to end; the caller's */
    int owner_fd;                           /* connection of the supervisor: taken over */
    pid_t owner;                            /* the supervisor */
    const struct fault_schedule *faults;    /* from the start; NULL: none */
    const struct capture_plan *capture;     /* from the start; NULL: none */
    int events_fd;                          /* where events are written, too; -1 */
    int record_fd;                          /* where these and snapshots are written; -1 */
    const struct timeline_plan *timeline;   /* from the start; NULL: none */
    const struct coordinator_config *hosts; /* that this one governs, without `ops`; NULL: none */
};

enum daemon_end {
    DAEMON_SHUTDOWN,   /* asked to, by request or signal */
    DAEMON_OWNER_GONE, /* the supervisor has died */
    DAEMON_UNWRITTEN   /* as DAEMON_SHUTDOWN, but a file could not be written; a line said so */
};

/**
 * daemon_serve - serve until somebody asks for the end, or the owner dies.
 *
 * The owner's connection is a client like the others that gets the events
 * "ready", "node_died", "refused", "outside", "cut_off", "frozen" and, last, "ended" with the
 * report. Returns enum daemon_end, or a negative errno, and then owner_fd is still the caller's;
 * @error has a line if the schedule of faults cannot be injected. Thread: the fabric's manager.
 */
int daemon_serve(struct fabric *fabric, const struct daemon_config *config, char *error,
                 size_t error_bytes);

#endif
