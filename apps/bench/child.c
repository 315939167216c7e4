/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * child.c - run a program and wait for its exit, with a time limit.
 *
 * The caller must be a subreaper (prctl). Then processes that a launcher leaves behind become its
 * children, and this file kills them, so that they do not disturb the next measurement.
 */
#include "apps/bench/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/base/procs.h"
#include "emu/util/now.h"

#define TERM_MS 6000 /* from SIGTERM to SIGKILL; `fabemu run` needs seconds to stop */

/*
 * Called in the child. The child's standard input is empty. Otherwise a launcher would read the
 * standard input of the user.
 */
static void child_exec(char *const *argv, char *const *env, int out, int err, pid_t parent)
{
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execvpe(argv[0], argv, env);
    fprintf(stderr, "cannot execute %s: %s\n", argv[0], strerror(errno));
    fflush(stderr);
    _exit(127);
}

static pid_t start(char *const *argv, char *const *env, int *out, int *err)
{
    pid_t parent = getpid();
    int pipes[2][2];

    if (pipe2(pipes[0], O_CLOEXEC))
        return -1;
    if (pipe2(pipes[1], O_CLOEXEC)) {
        close(pipes[0][0]);
        close(pipes[0][1]);
        return -1;
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        child_exec(argv, env, pipes[0][1], pipes[1][1], parent);
    int fork_err = errno;
    for (int i = 0; i < 2; i++) {
        close(pipes[i][1]);
        fcntl(pipes[i][0], F_SETFL, O_NONBLOCK);
        if (pid < 0)
            close(pipes[i][0]);
    }
    errno = fork_err;
    *out = pipes[0][0];
    *err = pipes[1][0];
    return pid;
}

/* Read the available bytes; drop those beyond the buffer. Returns false at end of file. */
static bool drain(int fd, char *text, size_t room, size_t *bytes)
{
    char rest[4096];
    ssize_t got;

    for (;;) {
        bool full = *bytes + 1 >= room;
        got = full ? read(fd, rest, sizeof rest) : read(fd, text + *bytes, room - 1 - *bytes);
        if (got <= 0)
            break;
        if (!full)
            *bytes += (size_t)got;
    }
    text[*bytes] = '\0';
    return got < 0 && (errno == EAGAIN || errno == EINTR);
}

/* Collect output until @pid exits or the clock reaches @end_ms. Returns false on time-out. */
static bool collect(struct bench_child *child, pid_t pid, int out, int err, int64_t end_ms)
{
    struct pollfd fds[3] = {{pidfd_open(pid, 0), POLLIN, 0}, {out, POLLIN, 0}, {err, POLLIN, 0}};
    bool ended = false;
    int64_t left_ms;

    while (!ended && (left_ms = end_ms - emu_now_ms()) > 0) {
        poll(fds, 3, (int)left_ms);
        if (fds[1].revents && !drain(out, child->out, sizeof child->out, &child->out_bytes))
            fds[1].fd = -1;
        if (fds[2].revents && !drain(err, child->err, sizeof child->err, &child->err_bytes))
            fds[2].fd = -1;
        ended = fds[0].revents;
    }
    if (fds[0].fd >= 0)
        close(fds[0].fd);
    return ended;
}

/* Reap and kill the descendants that the child left behind. */
static void kill_leftovers(void)
{
    pid_t left[PROCS_MAX];
    size_t count;

    for (int tries = 0; tries < 100; tries++) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        count = procs_descendants(getpid(), 0, left, PROCS_MAX);
        if (count == 0)
            break;
        if (tries >= 10) /* some processes exit by themselves soon */
            procs_signal(left, count, SIGKILL);
        usleep(20000);
    }
}

/* Open MPI writes lines of dashes around messages; get the first other line. */
static void first_line(char *text, char *ret, size_t ret_bytes)
{
    char *rest = text;
    char *line;

    snprintf(ret, ret_bytes, "no message");
    while ((line = strsep(&rest, "\n"))) {
        if (line[strspn(line, "- \t")] == '\0')
            continue;
        snprintf(ret, ret_bytes, "%.*s", (int)ret_bytes - 1, line);
        return;
    }
}

static int check_status(struct bench_child *child, const char *name, unsigned timeout_s,
                        char *error, size_t error_bytes)
{
    char message[200];

    if (!child->timed_out && WIFEXITED(child->status) && WEXITSTATUS(child->status) == 0)
        return 0;
    first_line(child->err, message, sizeof message);
    if (child->timed_out)
        snprintf(error, error_bytes, "%s took more than %u s: %s", name, timeout_s, message);
    else if (WIFSIGNALED(child->status))
        snprintf(error, error_bytes, "%s was killed by signal %d", name, WTERMSIG(child->status));
    else
        snprintf(error, error_bytes, "%s ended with status %d: %s", name,
                 WEXITSTATUS(child->status), message);
    return -1;
}

int bench_child_run(struct bench_child *ret, char *const *argv, char *const *env,
                    unsigned timeout_s, char *error, size_t error_bytes)
{
    int out, err;

    memset(ret, 0, sizeof *ret);
    pid_t pid = start(argv, env, &out, &err);
    if (pid < 0) {
        snprintf(error, error_bytes, "cannot start %s: %s", argv[0], strerror(errno));
        return -1;
    }
    ret->timed_out = !collect(ret, pid, out, err, emu_now_ms() + (int64_t)timeout_s * 1000);
    if (ret->timed_out) {
        kill(pid, SIGTERM);
        if (!collect(ret, pid, out, err, emu_now_ms() + TERM_MS))
            kill(pid, SIGKILL);
    }
    waitpid(pid, &ret->status, 0);
    drain(out, ret->out, sizeof ret->out, &ret->out_bytes);
    drain(err, ret->err, sizeof ret->err, &ret->err_bytes);
    close(out);
    close(err);
    kill_leftovers();
    return check_status(ret, argv[0], timeout_s, error, error_bytes);
}
