/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * command.h - the COMMAND of `fabemu run`, and the environment that makes a program use a fabric.
 */
#ifndef APPS_BASE_COMMAND_H
#define APPS_BASE_COMMAND_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define COMMAND_MARK "FABEMU_RUN" /* environment variable of the processes of a run */

/** command_check - can @name be executed? Returns 0, or an exit status after printing why. */
int command_check(const char *name);

/** command_is_launcher - is it mpirun, or an alias of mpirun? @name: with or without a folder. */
bool command_is_launcher(const char *name);

/**
 * command_environment - set this process's environment for the fabric at @socket_path.
 * @argv: the command. @mark: value of COMMAND_MARK. @scratch: folder for temporary files.
 * Errors: as env_each().
 */
int command_environment(char **argv, const char *socket_path, const char *mark, const char *scratch,
                        char *error, size_t error_bytes);

/**
 * env_each - call @each with the name and the value of every variable that a command needs to find
 * the fabric whose socket is @socket_path. Values that the user has set stay: the variable is
 * skipped, or our part is put before the user's. A name may contain a byte that shells do not
 * accept in names (libfabric's, in Turkish). Prints a line for each of the user's values that keeps
 * programs off the fabric.
 * Errors: -ENOENT with one line in @error: the provider or /proc is missing.
 */
int env_each(const char *socket_path,
             void (*each)(void *context, const char *name, const char *value), void *context,
             char *error, size_t error_bytes);

/* Signal settings that a supervisor changes for itself, and restores for the command. */
struct command_signals {
    sigset_t mask;
    struct sigaction pipe;
    struct sigaction file_size;
};

/**
 * command_start - fork, restore @signals and execute @argv. The kernel sends it SIGTERM when the
 * supervisor (the calling thread) dies. Returns the pid or -errno.
 */
pid_t command_start(char **argv, const struct command_signals *signals);

#endif
