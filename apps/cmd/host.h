/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host.h - start and stop the process of a fabric, from its supervisor. The supervisor is the
 * process that the user has started: `fabemu run`, `up` or `join`.
 */
#ifndef APPS_CMD_HOST_H
#define APPS_CMD_HOST_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "apps/calls/calls.h"
#include "apps/capture/capture.h"
#include "apps/fabric/fabric.h"
#include "apps/daemon/timeline.h"
#include "apps/control/paths.h"
#include "apps/base/procs.h"
#include "apps/control/conn.h"

#define HOST_WHY_BYTES 512

struct host {
    pid_t pid;  /* the fabric's process; 0: it has ended and was reaped */
    int status; /* after the process was reaped: its status, as from wait() */
    /* connection to the fabric, for requests, replies and events; fd -1: the fabric has ended */
    struct conn conn;
    struct paths_socket socket;
    struct emu_bounds bounds;   /* the supervisor uses only `stop` of these */
    struct json_object *report; /* the final report; NULL: not received */
    bool in_order;              /* on an agent: the coordinator has ended the fabric */
    char why[HOST_WHY_BYTES];   /* why the fabric failed; "": nothing to print */
    char refused[256];          /* the error of the process that could not attach; "": none */
    struct procs_frozen frozen; /* processes that faults have stopped; host_ended() resumes them */
};

/* Additional tasks of a fabric's process. */
struct host_plan {
    /*
     * "NAME=VALUE", which is in the environment of all processes of the run, or NULL. If the
     * supervisor dies, the fabric's process ends all processes with this variable.
     */
    const char *mark;
    const struct fault_schedule *faults; /* NULL: none */
    const struct hosts_plan *hosts;      /* NULL: one host */
    const char *fabric;                  /* on several hosts: the fabric's name, the same on all */
    int events_fd;                       /* file of --events; -1: none */
    int record_fd;                       /* file of --record; -1: none */
    int calls_fd;                        /* file of --compute record:FILE; -1: none */
    struct calls_file *replay;           /* --compute replay:FILE; NULL: none */
    int starter_fd; /* pipe to the process that waits for the start; if that process ends, the
                     * start is cancelled; -1: none */
    struct timeline_plan timeline;
    struct capture_plan capture; /* if the field `files` is NULL, there is no capture */
};

/**
 * host_start - make the control socket, fork the fabric's process, and wait until it serves
 * requests. The calling process must be single-threaded and have blocked host_signals(). On an
 * error, @error gets one line. Errors: -EINTR, a signal that requests the end is pending, or the
 * process at starter_fd has ended; others, which host_start_status() converts to an exit status.
 */
int host_start(struct host *ret, const struct fabric_config *config, const struct host_plan *plan,
               char *error, size_t error_bytes);

/** host_start_status - return the exit status after host_start() has returned @err. */
int host_start_status(int err);

/**
 * host_signals - return the signals that a supervisor blocks and reads from a signalfd. SIGHUP is
 * not one of them if this process ignores it, as under nohup.
 * host_signal_waits() - return a signal that requests the end and is pending, or 0.
 */
void host_signals(sigset_t *ret);
int host_signal_waits(void);

/**
 * host_event - handle an event as every supervisor must: keep the final report and the error of a
 * process that could not attach, and note which process was frozen.
 */
void host_event(struct host *host, struct json_object *event);

/**
 * host_print_event - print a line about an event, if all supervisors print the same line about it.
 */
void host_print_event(struct json_object *event);

/** host_ended - after the end of the fabric's process, resume the processes that faults stopped. */
void host_ended(struct host *host);

/**
 * host_stop - request the end of the fabric's process, wait for the final report and for the end,
 * and remove the socket. Returns false if the process had to be killed.
 */
bool host_stop(struct host *host);

/**
 * host_has_unwritten_files - return, after host_stop(), whether the fabric could not write a file
 * (--events, --record, --timeline, --capture). It has printed the reason.
 */
bool host_has_unwritten_files(const struct host *host);

/** host_release - as host_ended(), and free all resources. */
void host_release(struct host *host);

#endif
