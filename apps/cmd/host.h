/* SPDX-License-Identifier: BSD-3-Clause */
/* host.h - start and stop the process of a fabric, from its supervisor. */
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
    pid_t pid;        /* 0 after it was reaped */
    int status;       /* then, as from wait() */
    struct conn conn; /* requests, replies and events; fd is -1 after the fabric has ended */
    struct paths_socket socket;
    struct emu_bounds bounds;   /* start and stop */
    struct json_object *report; /* the final report; NULL: not received */
    bool in_order;              /* of an agent of a cluster: the coordinator ended it */
    char why[HOST_WHY_BYTES];   /* why it has not ended in order; "": no reason to print */
    struct procs_frozen frozen; /* stopped by its faults; they continue when it has ended */
};

/* Tasks of a fabric's process beside running the fabric. */
struct host_plan {
    /*
     * "NAME=VALUE" in the environment of the processes that the run starts, or NULL. If the
     * supervisor dies, the fabric ends all processes that have it.
     */
    const char *mark;
    const struct fault_schedule *faults; /* NULL: none */
    const struct hosts_plan *hosts;      /* NULL: one host */
    const char *fabric;                  /* on several hosts: the fabric's name on all of them */
    int events_fd;                       /* file of --events; -1: none */
    int record_fd;                       /* file of --record; -1: none */
    int starter_fd; /* pipe to a process that waits for the start; if it ends, give up; -1: none */
    struct timeline_plan timeline;
    struct capture_plan capture; /* without a file: none */
};

/**
 * host_start - make the control socket, fork the fabric's process, wait until it serves requests.
 *
 * The calling process is single-threaded, has become the supervisor, and has blocked
 * host_signals(). Errors: one line in @error; -EINTR, a signal that asks for the end is pending, or
 * the process at starter_fd has ended.
 */
int host_start(struct host *ret, const struct fabric_config *config, const struct host_plan *plan,
               char *error, size_t error_bytes);

/**
 * host_signals - the signals that a supervisor blocks and reads from a signalfd.
 * host_signal_waits() - a pending one of them that asks for the end; 0: none.
 */
void host_signals(sigset_t *ret);
int host_signal_waits(void);

/** host_event - what every supervisor does on an event of the fabric. */
void host_event(struct host *host, struct json_object *event);

/** host_say - print a line for events that have the same text in all supervisors, or nothing. */
void host_say(struct json_object *event);

/** host_ended - the fabric's process has ended: continue the processes that its faults stopped. */
void host_ended(struct host *host);

/**
 * host_stop - ask the process to end, wait for the final report and for the end, remove the socket.
 * Returns false if the process had to be killed.
 */
bool host_stop(struct host *host);

/**
 * host_unwritten - after host_stop(): true if a file of the fabric (--events, --record, --timeline,
 * --capture) could not be written. The reason was printed.
 */
bool host_unwritten(const struct host *host);

/** host_release - host_ended(), and free all resources. */
void host_release(struct host *host);

#endif
