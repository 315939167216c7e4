/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * command.h - the COMMAND of `fabemu run`: found, started with its environment.
 */
#ifndef APPS_BASE_COMMAND_H
#define APPS_BASE_COMMAND_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define COMMAND_MARK "FABEMU_RUN" /* environment variable that tells a run's processes */

/** command_check - is @name there and executable? Says what is not; returns 0 or an exit status. */
int command_check(const char *name);

/** command_is_launcher - is it mpirun, or an alias of mpirun? @name: with or without a folder. */
bool command_is_launcher(const char *name);

/**
 * command_environment - set this process's environment for the fabric at @socket_path.
 * @argv: the command. @mark: tells the processes of this run. @scratch: folder for temporary files.
 * Errors: as env_each().
 */
int command_environment(char **argv, const char *socket_path, const char *mark, const char *scratch,
                        char *error, size_t error_bytes);

/* What a supervisor changes about signals, and the command gets back. */
struct command_signals {
    sigset_t mask;
    struct sigaction pipe;
    struct sigaction file_size;
};

/**
 * command_start - fork and execute @argv with @signals as they were.
 * It ends with SIGTERM when the supervisor (the calling thread) dies. Returns the pid or -errno.
 */
pid_t command_start(char **argv, const struct command_signals *signals);

#endif
