/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * child.c - a program run to its end, within a time.
 *
 * The caller is a subreaper, so whatever a launcher leaves behind becomes a
 * child of ours and is ended too: the next measurement has the machine alone.
 * And a copy of this process that works beside it.
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

#include "apps/run/procs.h"
#include "emu/now.h"

#define END_MS 6000 /* between SIGTERM, after which `fabemu run` needs seconds, and SIGKILL */

/* In the child. Standard input is empty, so that no launcher reads the user's. */
static void become(char *const *argv, char *const *env, int out, int err, pid_t parent)
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
        become(argv, env, pipes[0][1], pipes[1][1], parent);
    for (int i = 0; i < 2; i++) {
        close(pipes[i][1]);
        fcntl(pipes[i][0], F_SETFL, O_NONBLOCK);
    }
    *out = pipes[0][0];
    *err = pipes[1][0];
    return pid;
}

/* Read what is there; what exceeds the room is dropped. False at the end. */
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

/* Until @pid ends or @end_ms comes. False: the time is up. */
static bool follow(struct bench_child *child, pid_t pid, int out, int err, int64_t end_ms)
{
    struct pollfd fds[3] = {{pidfd_open(pid, 0), POLLIN, 0}, {out, POLLIN, 0}, {err, POLLIN, 0}};
    bool ended = false;

    while (!ended && emu_now_ms() < end_ms) {
        poll(fds, 3, (int)(end_ms - emu_now_ms()));
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

/* What the child left behind, as our own children by now or still below it. */
static void end_leftovers(void)
{
    pid_t left[PROCS_MAX];
    size_t count;

    for (int tries = 0; tries < 100; tries++) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        count = procs_descendants(getpid(), 0, left, PROCS_MAX);
        if (count == 0)
            break;
        if (tries >= 10) /* some end by themselves within moments */
            procs_signal(left, count, SIGKILL);
        usleep(20000);
    }
}

/* The first line of standard error that says something; a launcher frames its words in dashes. */
static void first_words(char *text, char *ret, size_t ret_bytes)
{
    char *rest = text;
    char *line;

    snprintf(ret, ret_bytes, "it said nothing");
    while ((line = strsep(&rest, "\n"))) {
        if (line[strspn(line, "- \t")] == '\0')
            continue;
        snprintf(ret, ret_bytes, "%.*s", (int)ret_bytes - 1, line);
        return;
    }
}

static int how_it_ended(struct bench_child *child, const char *name, unsigned timeout_s,
                        char *error, size_t error_bytes)
{
    char said[200];

    if (!child->timed_out && WIFEXITED(child->status) && WEXITSTATUS(child->status) == 0)
        return 0;
    first_words(child->err, said, sizeof said);
    if (child->timed_out)
        snprintf(error, error_bytes, "%s took more than %u s: %s", name, timeout_s, said);
    else if (WIFSIGNALED(child->status))
        snprintf(error, error_bytes, "%s was killed by signal %d", name, WTERMSIG(child->status));
    else
        snprintf(error, error_bytes, "%s ended with status %d: %s", name,
                 WEXITSTATUS(child->status), said);
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
    ret->timed_out = !follow(ret, pid, out, err, emu_now_ms() + (int64_t)timeout_s * 1000);
    if (ret->timed_out) {
        kill(pid, SIGTERM);
        if (!follow(ret, pid, out, err, emu_now_ms() + END_MS))
            kill(pid, SIGKILL);
    }
    waitpid(pid, &ret->status, 0);
    drain(out, ret->out, sizeof ret->out, &ret->out_bytes);
    drain(err, ret->err, sizeof ret->err, &ret->err_bytes);
    close(out);
    close(err);
    end_leftovers();
    return how_it_ended(ret, argv[0], timeout_s, error, error_bytes);
}

/* --- the same beside us ---------------------------------------------------------------------- */

pid_t bench_twin_begin(void (*work)(const void *what), const void *what)
{
    pid_t parent = getpid(), pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            work(what);
        _exit(EXIT_SUCCESS);
    }
    return pid;
}

bool bench_twin_end(pid_t twin, char *error, size_t error_bytes)
{
    int status = 0;
    bool was_there = twin > 0 && waitpid(twin, &status, WNOHANG) == 0;

    if (was_there) {
        kill(twin, SIGKILL);
        waitpid(twin, &status, 0);
    } else {
        snprintf(error, error_bytes, "no second process to measure beside");
    }
    return was_there;
}
