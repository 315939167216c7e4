/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * procs.h - observe, stop and end processes.
 */
#ifndef APPS_BASE_PROCS_H
#define APPS_BASE_PROCS_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <sys/types.h>

#define PROCS_MAX 4096 /* limit of the processes that procs_end_marked() finds at once */

/** procs_check - is /proc mounted? Errors: -ENOENT with one line in @error, as in a chroot. */
int procs_check(char *error, size_t error_bytes);

/** procs_name - the kernel's name of @pid; "?" if it has ended. */
void procs_name(pid_t pid, char *name, size_t name_bytes);

/**
 * procs_exit_reason - describe how @pid, which closed its connection, ended, as far as is known.
 * @pidfd: its pidfd; -1: it had ended already. @exits: it had announced its exit. Returns false
 * while it runs. Never waits.
 */
bool procs_exit_reason(pid_t pid, int pidfd, bool exits, char *how, size_t how_bytes);

/** procs_is_stopped - has a signal or a debugger stopped @pid? False if that is not visible. */
bool procs_is_stopped(pid_t pid);

/* A process that may be stopped. Zeros: not seen stopped. */
struct procs_stop {
    uint64_t since_ns; /* first sample of this stop, emu_now_ns(); 0: it is not stopped */
    uint64_t switches; /* context switches of its main thread at that time */
};

/**
 * procs_stopped_for - has @pid been stopped for @bound_ns? Call it periodically. A process that ran
 * between two calls has more context switches, so its time starts again.
 */
bool procs_stopped_for(struct procs_stop *stop, pid_t pid, uint64_t bound_ns);

/*
 * Processes that faults stop, permanently or at intervals. Both the fabric and its supervisor list
 * them before they are stopped, so that either resumes them if the other one ends.
 */
struct procs_frozen {
    struct procs_frozen_one {
        pid_t pid;
        int pidfd; /* pidfd, since the number may be reused */
    } * at;
    uint32_t count;
};

/**
 * procs_freeze - list @pid; sends no signal. Returns 1; 0: it is listed already. Errors: -ENOMEM,
 * those of pidfd_open(). procs_thaw() - resume all listed processes, and free the list.
 */
int procs_freeze(struct procs_frozen *frozen, pid_t pid);
void procs_thaw(struct procs_frozen *frozen);

/** procs_descendants - running descendants of @root, except @except. Returns their count. */
size_t procs_descendants(pid_t root, pid_t except, pid_t *ret, size_t max);

/** procs_child_has_socket - does a child of @parent have the socket with this inode open? */
bool procs_child_has_socket(pid_t parent, unsigned long inode);

/** procs_signal - send @signal to each, and resume stopped ones so that they handle it. */
void procs_signal(const pid_t *pids, size_t count, int signal);

/**
 * procs_end_marked - end the processes with @mark ("NAME=VALUE") in their environment. They have
 * 2 s to end by themselves; then SIGTERM is sent, after 3 s SIGKILL. Waits for 4 s at most.
 */
void procs_end_marked(const char *mark);

#endif
