/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * command.c - the COMMAND of `fabemu run`: found, started with its environment.
 */
#include "apps/base/command.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/base/env.h"
#include "apps/base/message.h"

static bool is_file(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* 0 found, EACCES found but not executable, ENOENT. */
static int look_in_path(const char *name)
{
    const char *path = getenv("PATH");
    char file[4096];
    int err = ENOENT;

    for (const char *at = path ? path : "/bin:/usr/bin"; at; at = *at ? at + 1 : NULL) {
        size_t length = strcspn(at, ":");
        snprintf(file, sizeof file, "%.*s/%s", (int)(length ? length : 1), length ? at : ".", name);
        if (is_file(file)) {
            if (access(file, X_OK) == 0)
                return 0;
            err = EACCES;
        }
        at += length;
        if (!*at)
            break;
    }
    return err;
}

bool command_is_launcher(const char *name)
{
    static const char *const launchers[] = {"mpirun", "mpiexec", "orterun", "mpirun.openmpi",
                                            "mpiexec.openmpi"};
    const char *slash = strrchr(name, '/');

    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++)
        if (strcmp(slash ? slash + 1 : name, launchers[i]) == 0)
            return true;
    return false;
}

static const char *what_to_do(const char *name)
{
    if (command_is_launcher(name))
        return "install Open MPI: apt-get install openmpi-bin";
    return "check the spelling and PATH";
}

int command_check(const char *name)
{
    int err = ENOENT;

    if (!strchr(name, '/'))
        err = look_in_path(name);
    else if (is_file(name))
        err = access(name, X_OK) == 0 ? 0 : EACCES;
    else if (access(name, F_OK) == 0)
        err = EACCES;
    if (err == ENOENT) {
        print_message("%s: not found; %s", name, what_to_do(name));
        return EXIT_NOT_FOUND;
    }
    if (err) {
        print_message("%s: not executable; is it a program? (chmod +x makes a file one)", name);
        return EXIT_CANNOT_RUN;
    }
    return 0;
}

static void set(void *context, const char *name, const char *value)
{
    (void)context;
    setenv(name, value, 1);
}

/*
 * mpirun refuses --nooversubscribe and --map-by X:NOOVERSUBSCRIBE if a variable allows
 * oversubscribing. If COMMAND has such an option, the variable is set to 0.
 */
static void decide_oversubscribe(char **argv)
{
    for (char **word = argv; *word; word++)
        if (strcasestr(*word, "nooversubscribe"))
            setenv("OMPI_MCA_rmaps_base_oversubscribe", "0", 1);
}

int command_environment(char **argv, const char *socket_path, const char *mark, const char *scratch,
                        char *error, size_t error_bytes)
{
    const char *tmpdir = getenv("OMPI_MCA_orte_tmpdir_base");

    setenv(COMMAND_MARK, mark, 1);
    setenv("OMPI_MCA_orte_tmpdir_base", scratch, !tmpdir || !*tmpdir); /* the user may choose one */
    decide_oversubscribe(argv);
    return env_each(socket_path, set, NULL, error, error_bytes);
}

pid_t command_start(char **argv, const struct command_signals *signals)
{
    pid_t supervisor = getpid();
    pid_t pid = fork();

    if (pid != 0)
        return pid < 0 ? -errno : pid;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != supervisor)
        _exit(EXIT_FAILURE); /* it died before we could ask to be told */
    sigaction(SIGPIPE, &signals->pipe, NULL);
    sigaction(SIGXFSZ, &signals->file_size, NULL);
    sigprocmask(SIG_SETMASK, &signals->mask, NULL);
    execvp(argv[0], argv);
    print_message("cannot execute %s: %s", argv[0], strerror(errno));
    _exit(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN);
}
