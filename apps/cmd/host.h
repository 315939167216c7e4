/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host.h - the process that a fabric runs in, seen from its supervisor.
 */
#ifndef APPS_CMD_HOST_H
#define APPS_CMD_HOST_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "apps/capture/capture.h"
#include "apps/fabric/fabric.h"
#include "apps/daemon/timeline.h"
#include "apps/control/paths.h"
#include "apps/base/procs.h"
#include "apps/control/conn.h"

#define HOST_WHY_BYTES 512

struct host {
    pid_t pid;        /* 0 once it is reaped */
    int status;       /* as wait() has it, once reaped */
    struct conn conn; /* to the fabric: requests, replies, events; fd -1 at its end */
    struct paths_socket socket;
    struct emu_bounds bounds;   /* start and stop */
    struct json_object *report; /* the final report, once it came */
    bool in_order;              /* not the governor: it was ended in order */
    char why[HOST_WHY_BYTES];   /* why it has not ended in order; "": nothing to say */
    struct procs_frozen frozen; /* by its faults; they go on when it has ended */
};

/* What a fabric's process is to do beside being a fabric. */
struct host_plan {
    /*
     * "NAME=VALUE" in the environment of what the run starts, or NULL: should the supervisor die,
     * the fabric ends the processes that carry it.
     */
    const char *mark;
    const struct fault_schedule *faults; /* NULL: none */
    const struct hosts_plan *hosts;      /* NULL: one host */
    const char *fabric;                  /* on several: its name on all of them */
    int events_fd;                       /* where events are written; -1: nowhere */
    int record_fd;                       /* where they are with snapshots; -1: nowhere */
    int starter_fd; /* pipe to who waits for the start; it is given up at its end; -1: none */
    struct timeline_plan timeline;
    struct capture_plan capture; /* without a file: none */
};

/**
 * host_start - make the control socket, fork the fabric's process, wait until it serves.
 *
 * The calling process is single-threaded, has become the supervisor, and has
 * blocked host_signals(). Errors: one line in @error; -EINTR, one of them asks for the end, and
 * still waits to be read, or nobody waits for the start any more.
 */
int host_start(struct host *ret, const struct fabric_config *config, const struct host_plan *plan,
               char *error, size_t error_bytes);

/**
 * host_signals - what a supervisor blocks and reads from a signalfd. host_signal_waits() - the one
 * of them that asks for the end and has not been read; 0: none.
 */
void host_signals(sigset_t *ret);
int host_signal_waits(void);

/** host_event - what a supervisor does of an event of the fabric's, whatever else it does of it. */
void host_event(struct host *host, struct json_object *event);

/** host_ended - the fabric's process is no more: what it held goes on. host_release() does it. */
void host_ended(struct host *host);

/**
 * host_stop - ask it to end, wait for the final report and for its end; remove the socket.
 * Returns false if it had to be killed.
 */
bool host_stop(struct host *host);

/**
 * host_unwritten - after host_stop(): true if a file of the fabric (--events, --record, --timeline,
 * --capture) could not be written. The reason was printed.
 */
bool host_unwritten(const struct host *host);

/** host_release - free what is left. */
void host_release(struct host *host);

#endif
