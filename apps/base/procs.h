/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * procs.h - looking at processes and ending them.
 */
#ifndef APPS_BASE_PROCS_H
#define APPS_BASE_PROCS_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <sys/types.h>

#define PROCS_MAX 4096 /* processes that one look finds, at most */

/**
 * procs_check - can processes be found? Errors: -ENOENT, one line in @error: /proc is not mounted,
 * as in a chroot. Without /proc, processes that a run leaves behind are not found.
 */
int procs_check(char *error, size_t error_bytes);

/** procs_name - the kernel's name of @pid, "?" if it is gone. */
void procs_name(pid_t pid, char *name, size_t name_bytes);

/**
 * procs_exit_reason - how @pid, which closed its connection, ended: as well as can be seen.
 * @pidfd: its pidfd, -1 when there is none any more. @exits: it had said that it exits. Returns
 * false while it lives. Never waits.
 */
bool procs_exit_reason(pid_t pid, int pidfd, bool exits, char *how, size_t how_bytes);

/** procs_is_stopped - is @pid stopped, by a signal or a debugger? False where it is not seen. */
bool procs_is_stopped(pid_t pid);

/**
 * procs_switches - how often the main thread of @pid has given a core up: more each time the
 * process goes on after it was stopped. 0 where it is not seen.
 */
uint64_t procs_switches(pid_t pid);

/* A process that was seen stopped. Zeros: it was not. */
struct procs_stop {
    uint64_t since_ns; /* the first look that found it stopped as it is now; 0: it goes on */
    uint64_t switches; /* its context switches then */
};

/**
 * procs_stopped_for - has @pid been stopped for @bound_ns? Looked at again and again. What
 * a look finds stopped need not have been so since the last one: a process that went on in between
 * has been switched to.
 */
bool procs_stopped_for(struct procs_stop *stop, pid_t pid, uint64_t bound_ns);

/*
 * Processes that faults stop, now or now and then. Whoever does lists them before, and so does its
 * supervisor, who may be left alone: whoever ends, or sees the other end, has them go on.
 */
struct procs_frozen {
    struct procs_frozen_one {
        pid_t pid;
        int pidfd; /* pidfd: its number may be another's some day */
    } * at;
    uint32_t count;
};

/**
 * procs_freeze - list @pid; no signal is sent. Returns 1; 0: it is listed already. Errors: -ENOMEM,
 * those of pidfd_open(). procs_thaw() - all that are listed go on, where they are still there; the
 * list is empty, and what it took is free.
 */
int procs_freeze(struct procs_frozen *frozen, pid_t pid);
void procs_thaw(struct procs_frozen *frozen);

/** procs_descendants - living descendants of @root, except @except. Returns their count. */
size_t procs_descendants(pid_t root, pid_t except, pid_t *ret, size_t max);

/** procs_child_has_socket - does a child of @parent have the socket with this inode open? */
bool procs_child_has_socket(pid_t parent, unsigned long inode);

/** procs_signal - send @signal to each. */
void procs_signal(const pid_t *pids, size_t count, int signal);

/**
 * procs_end_marked - end the processes that carry @mark ("NAME=VALUE") in their environment.
 * They have two seconds to end by themselves, then comes SIGTERM, after three SIGKILL. Waits
 * for their end, at most 4 s.
 */
void procs_end_marked(const char *mark);

#endif
