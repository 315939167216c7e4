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

#define COMMAND_MARK "FABEMU_RUN" /* environment variable that marks the processes of COMMAND */

/**
 * command_find - search PATH for program @name. @file: gets its path; a buffer of PATH_MAX bytes.
 * Returns 0, EACCES (found, but not executable) or ENOENT.
 */
int command_find(const char *name, char *file);

/** command_check - check that @name can be executed. Prints errors. Returns 0 or an exit status. */
int command_check(const char *name);

/** command_is_launcher - return whether @name is mpirun or another name of it, or a path to it. */
bool command_is_launcher(const char *name);

/**
 * command_processes - return how many processes the command line tells mpirun to start (-np), or 0
 * if the number is unknown. If the command line has several programs, only the first one is
 * counted, and mpirun starts more. @argv: the command, ended by NULL.
 */
unsigned long command_processes(char *const *argv);

/**
 * command_environment - set this process's environment for the fabric at @socket_path.
 * @argv: the command. @provider: name of the libfabric provider. @mark: the value of COMMAND_MARK.
 * @scratch: folder for temporary files.
 * Errors: those of env_each().
 */
int command_environment(char **argv, const char *socket_path, const char *provider,
                        const char *mark, const char *scratch, char *error, size_t error_bytes);

/**
 * command_prepare_virtual - prepare the environment of programs in simulated time: preload
 * libfabemu-clock, and tell Open MPI not to yield its core when it waits. @tsc: let the
 * instructions RDTSC and RDTSCP read simulated time.
 */
void command_prepare_virtual(bool tsc);

/**
 * env_each - call @each with the name and the value of every variable that a program needs to use
 * the fabric whose socket is @socket_path. @provider: name of the libfabric provider. @launcher:
 * the mpirun that is used, whose version determines the variables for Open MPI; NULL: the one in
 * PATH. Skips variables that the user has set. In lists of folders, however, our folder is put
 * before the user's. Prints a line for each value of the user that prevents programs from using the
 * fabric. In a Turkish locale, @each is also called with names that contain a byte that shells do
 * not accept in names (set_in_each_locale() in command.c).
 * Errors: -ENOENT, with one line in @error, if the libfabric provider or /proc is missing.
 */
int env_each(const char *socket_path, const char *provider, const char *launcher,
             void (*each)(void *context, const char *name, const char *value), void *context,
             char *error, size_t error_bytes);

/* The signal settings that `fabemu run` changes for itself and restores for its COMMAND. */
struct command_signals {
    sigset_t mask;
    struct sigaction pipe;
    struct sigaction file_size;
};

/**
 * command_start - fork a process that restores @signals and executes @argv. The kernel sends it
 * SIGTERM when the calling thread dies. Returns the pid or -errno.
 */
pid_t command_start(char **argv, const struct command_signals *signals);

#endif
