/* SPDX-License-Identifier: BSD-3-Clause */
/* daemon.h - the daemon, which serves a running fabric's control socket (docs/control.md). */
#ifndef APPS_DAEMON_DAEMON_H
#define APPS_DAEMON_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "apps/calls/calls.h"
#include "apps/capture/capture.h"
#include "apps/fabric/fabric.h"
#include "apps/daemon/timeline.h"
#include "apps/fault/fault.h"
#include "apps/cluster/coordinator/coordinator.h"

#define DAEMON_DEATHS_MAX 64 /* maximum number of deaths that a report lists */

/* A process that ended without detaching. */
struct daemon_death {
    uint32_t node;
    pid_t pid;
    char command[16]; /* the kernel's name of the process */
    char how[96];     /* such as "killed by signal 9" or "ended without detaching" */
};

/*
 * On clock real: the delays of programs because all cores of the host were busy (daemon/waits.c,
 * docs/manual.md).
 */
struct daemon_waits {
    uint64_t attached_ns; /* time during which any process was attached */
    /* upper bound of the time in which a thread waited for a core or a receive ring was full */
    uint64_t late_ns;
    uint64_t programs_ns; /* sum of the waits of all threads of attached processes */
    uint64_t fabric_ns;   /* sum of the waits of the fabric's threads */
    uint64_t full_ns;     /* fabric_full_ns(): waits for space in receive rings */
    uint64_t longest_ns;  /* sum of the waits of the process that has waited longest */
    pid_t longest_pid;    /* that process; 0: none has waited */
    uint32_t longest_node;
    char longest_command[16];
    uint32_t unseen; /* processes whose waits for cores cannot be read */
};

#define DAEMON_REFUSALS_MAX 64u

/* A process to which the libfabric provider could not offer a network. */
struct daemon_refusal {
    uint32_t host; /* 0: this host */
    pid_t pid;
    int64_t rank;     /* its rank in its MPI job, reported by the process; -1: none */
    char command[16]; /* name of the process */
    char what[96];    /* the hint that the provider does not support, reported by the process */
};

/* Clock virtual: processes that slept outside the fabric, and have detached. */
struct daemon_sleeps {
    uint32_t processes;
    uint64_t longest_ns; /* longest time that one of them slept, in host time */
    int64_t rank;        /* that process's rank in its MPI job; -1: none */
    uint32_t node;
};

/* Clock virtual: processes that measured the host's time, and have detached. */
struct daemon_host_time {
    uint32_t processes;
    uint32_t how; /* bits of enum emu_host_time, of all these processes */
    int64_t rank; /* rank of the first of these processes in its MPI job; -1: none */
    uint32_t node;
};

/* Counts since the start of the fabric. */
struct daemon_record {
    struct daemon_waits waits;
    uint64_t attaches; /* processes that were given a node */
    uint64_t refused;  /* processes that got no node */
    struct daemon_sleeps sleeps;
    struct daemon_host_time host_time;
    uint64_t outside;      /* processes whose MPI messages use another transport */
    char outside_why[200]; /* the reason that the first of these processes gave */
    uint32_t refusals;
    struct daemon_refusal refusal[DAEMON_REFUSALS_MAX];
    uint64_t cut_off; /* processes that were cut off because they did not read their segments */
    uint64_t disconnects_unconfirmed; /* disconnects that a peer did not confirm in time */
    uint32_t peak;                    /* largest number of nodes attached at the same time */
    uint32_t died;                    /* processes that ended without detaching */
    uint32_t deaths;                  /* elements of `death` */
    struct daemon_death death[DAEMON_DEATHS_MAX]; /* the first of these processes */
};

struct daemon_config {
    const struct fabric_config *fabric; /* configuration of the fabric */
    int listen_fd;                      /* listening control socket; borrowed */
    int signal_fd; /* readable when a signal has asked the fabric to end; borrowed */
    int owner_fd;  /* connection of the supervisor; the daemon takes it over */
    pid_t owner;   /* process number of the supervisor */
    const struct fault_schedule *faults;    /* --faults; NULL: none */
    const struct capture_plan *capture;     /* --capture; NULL: none */
    int events_fd;                          /* file for events; -1: none */
    int record_fd;                          /* file for events and snapshots; -1: none */
    const struct timeline_plan *timeline;   /* --timeline; NULL: none */
    int calls_fd;                           /* file of --compute record:FILE or --goal */
    struct calls_file *replay;              /* --compute replay:FILE; NULL: none */
    const struct coordinator_config *hosts; /* the other hosts; the daemon sets the field `ops`;
                                             * NULL: none */
};

enum daemon_end {
    DAEMON_SHUTDOWN,   /* a request or a signal has ended the fabric */
    DAEMON_OWNER_GONE, /* the supervisor has died */
    /* as DAEMON_SHUTDOWN, but a file could not be written, and the error was printed */
    DAEMON_UNWRITTEN
};

/**
 * daemon_serve - serve a fabric until a shutdown is requested, or the supervisor dies.
 *
 * The supervisor's connection is a client that gets events of its own (daemon_notify_owner()), such
 * as "ready" and, at the end, "ended" with the report. Returns enum daemon_end or a negative errno.
 * On an error the caller keeps owner_fd, and @error may have a line for the user. Thread: the
 * fabric's manager.
 */
int daemon_serve(struct fabric *fabric, const struct daemon_config *config, char *error,
                 size_t error_bytes);

#endif
