/* SPDX-License-Identifier: BSD-3-Clause */
/* procs.h - observe, stop and end processes. */
#ifndef APPS_BASE_PROCS_H
#define APPS_BASE_PROCS_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <sys/types.h>

#define PROCS_MAX 4096 /* largest number of processes that procs_end_marked() finds at once */

/** procs_check - check that /proc is mounted. Errors: -ENOENT with one line in @error. */
int procs_check(char *error, size_t error_bytes);

/** procs_name - write the name that the kernel has for @pid to @name; "?" if it has ended. */
void procs_name(pid_t pid, char *name, size_t name_bytes);

/**
 * procs_pidfd - return a pidfd of process @pid, which has connected to @socket; -1: none. From
 * Linux 6.16 on, the socket provides it even after the parent of the process has reaped it.
 */
int procs_pidfd(int socket, pid_t pid);

/**
 * procs_exit_reason - describe in @how the end of process @pid, which has closed its connection, as
 * far as the end is known. @pidfd: from procs_pidfd(). @exits: the process had announced its exit.
 * Returns false if it still runs. Never waits. From Linux 6.16 on, the kernel always knows the exit
 * status. Older kernels forget it when the parent reaps the process.
 */
bool procs_exit_reason(pid_t pid, int pidfd, bool exits, char *how, size_t how_bytes);

/** procs_is_stopped - return whether @pid is known to be stopped by a signal or a debugger. */
bool procs_is_stopped(pid_t pid);

/* The state of procs_stopped_for() for one process. Zeros: the process was not stopped. */
struct procs_stop {
    uint64_t since_ns; /* when it was first found stopped, by emu_now_ns(); 0: it is not stopped */
    uint64_t switches; /* context switches of its main thread at since_ns */
};

/**
 * procs_stopped_for - return whether @pid has been stopped for @bound_ns. Call this periodically.
 * If the process ran between two calls, it has more context switches, and its time starts again.
 */
bool procs_stopped_for(struct procs_stop *stop, pid_t pid, uint64_t bound_ns);

/*
 * A list of processes that injected faults stop, permanently or at intervals. The fabric and its
 * supervisor both have a list, and add a process to it before the process is stopped. So if one of
 * the two is killed, the other one resumes the process.
 */
struct procs_frozen {
    struct procs_frozen_one {
        pid_t pid;
        int pidfd; /* signals go to this, since pid may be reused */
    } * at;
    uint32_t count;
};

/**
 * procs_freeze - add @pid to the list; sends no signal. Returns 1, or 0 if it was in the list
 * already.
 * Errors: -ENOMEM, those of pidfd_open().
 * procs_thaw() - resume all processes of the list, and free it.
 */
int procs_freeze(struct procs_frozen *frozen, pid_t pid);
void procs_thaw(struct procs_frozen *frozen);

/**
 * procs_descendants - find the descendants of @root that have not ended. Leaves out @except and its
 * descendants. Returns their number.
 */
size_t procs_descendants(pid_t root, pid_t except, pid_t *ret, size_t max);

/** procs_child_has_socket - return whether a child of @parent has the socket @inode open. */
bool procs_child_has_socket(pid_t parent, unsigned long inode);

/** procs_signal - send @signal to each process, and resume stopped ones so that they handle it. */
void procs_signal(const pid_t *pids, size_t count, int signal);

/**
 * procs_end_marked - end all processes with @mark ("NAME=VALUE") in their environment. They have 2
 * s to end by themselves. Then they get SIGTERM, and 1 s later SIGKILL. Waits for 4 s at most.
 */
void procs_end_marked(const char *mark);

#endif
