/* SPDX-License-Identifier: BSD-3-Clause */
/* procs.c - observe, stop and end processes. */
#include "apps/base/procs.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/base/message.h"
#include "emu/util/now.h"
#include "emu/util/printable.h"

/* Copies of SO_PEERPIDFD (Linux 6.5), PIDFD_INFO_EXIT (6.15), PIDFD_GET_INFO and its structure. */
#define PEER_PIDFD  77
#define STATUS_EXIT (UINT64_C(1) << 3)
#define GET_STATUS  _IOWR(0xff, 11, struct pidfd_status)

struct pidfd_status {
    uint64_t mask; /* STATUS_EXIT: request exit_code; on return: exit_code is known */
    uint64_t cgroup;
    uint32_t ids[11];
    int32_t exit_code; /* a status as from wait() */
};
static_assert(sizeof(struct pidfd_status) == 64, "GET_STATUS encodes this size");

int procs_check(char *error, size_t error_bytes)
{
    if (access("/proc/self/exe", F_OK) == 0)
        return 0;
    return fail(-ENOENT, error, error_bytes,
                "/proc/self/exe is missing: fabemu finds its own files and the processes of a run "
                "in /proc; mount it: mount -t proc proc /proc");
}

struct proc {
    pid_t pid;
    pid_t parent;
    char state;
    int exit_code; /* if the process is a zombie: the status that wait() will return */
    bool below;    /* procs_descendants() has marked it as a descendant of the root */
};

static bool read_stat(pid_t pid, struct proc *ret)
{
    char path[64];
    char line[1024];

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t bytes = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[bytes] = '\0';
    char *at = strrchr(line, ')'); /* the last one, because the name may contain any byte */
    if (!at || sscanf(at + 1, " %c %d", &ret->state, &ret->parent) != 2)
        return false;
    char *last = strrchr(line, ' ');
    ret->pid = pid;
    ret->exit_code = last ? atoi(last) : 0;
    ret->below = false;
    return true;
}

bool procs_is_stopped(pid_t pid)
{
    struct proc proc;

    return read_stat(pid, &proc) && (proc.state == 'T' || proc.state == 't');
}

/* Return the context switches of the main thread, which grow when it runs; 0: not readable. */
static uint64_t switches_of(pid_t pid)
{
    uint64_t sum = 0;
    char text[128];

    snprintf(text, sizeof text, "/proc/%d/status", (int)pid);
    FILE *file = fopen(text, "re");
    if (!file)
        return 0;
    while (fgets(text, sizeof text, file)) {
        const char *count = strstr(text, "ctxt_switches:");

        if (count)
            sum += strtoull(count + strlen("ctxt_switches:"), NULL, 10);
    }
    fclose(file);
    return sum;
}

bool procs_stopped_for(struct procs_stop *stop, pid_t pid, uint64_t bound_ns)
{
    uint64_t now = emu_now_ns(), switches = switches_of(pid);

    if (!procs_is_stopped(pid)) {
        stop->since_ns = 0;
    } else if (!stop->since_ns || stop->switches != switches) {
        stop->since_ns = now;
        stop->switches = switches;
    } else {
        return now - stop->since_ns >= bound_ns;
    }
    return false;
}

void procs_name(pid_t pid, char *name, size_t name_bytes)
{
    char path[64];

    snprintf(name, name_bytes, "?");
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    if (fgets(name, (int)name_bytes, file))
        name[strcspn(name, "\n")] = '\0';
    emu_printable(name); /* a process can set its name to any bytes */
    fclose(file);
}

int procs_pidfd(int socket, pid_t pid)
{
    int pidfd;
    socklen_t bytes = sizeof pidfd;

    return getsockopt(socket, SOL_SOCKET, PEER_PIDFD, &pidfd, &bytes) ? pidfd_open(pid, 0) : pidfd;
}

/*
 * Read the status that wait() returns for a process that has ended. Its parent may reap it between
 * any two steps here. Then only its pidfd still has the status.
 */
static bool read_exit_code(pid_t pid, int pidfd, int *exit_code)
{
    struct pidfd_status status = {.mask = STATUS_EXIT};
    struct proc proc;

    if (read_stat(pid, &proc) && proc.state == 'Z') {
        *exit_code = proc.exit_code;
        return true;
    }
    if (ioctl(pidfd, GET_STATUS, &status) || !(status.mask & STATUS_EXIT))
        return false;
    *exit_code = status.exit_code;
    return true;
}

bool procs_exit_reason(pid_t pid, int pidfd, bool exits, char *how, size_t how_bytes)
{
    const char *exited = exits ? "exited without detaching" : NULL;
    struct pollfd end = {pidfd, POLLIN, 0};
    int exit_code;

    if (pidfd >= 0 && poll(&end, 1, 0) == 0) {
        snprintf(how, how_bytes, "%s", exited ? exited : "closed its connection without detaching");
        return false;
    }
    if (pidfd < 0 || !read_exit_code(pid, pidfd, &exit_code)) /* its parent has reaped it */
        snprintf(how, how_bytes, "%s",
                 exited ? exited : "ended without detaching: it was killed, or called _exit()");
    else if (WIFSIGNALED(exit_code))
        snprintf(how, how_bytes, "killed by signal %d", WTERMSIG(exit_code));
    else
        snprintf(how, how_bytes, "exited with status %d without detaching", WEXITSTATUS(exit_code));
    return true;
}

/* Return all processes in an array, which the caller frees; NULL: no memory. */
static struct proc *read_all(size_t *count)
{
    size_t room = 256;
    struct proc *all = calloc(room, sizeof *all);
    DIR *dir = opendir("/proc");
    struct dirent *entry;

    *count = 0;
    while (all && dir && (entry = readdir(dir))) {
        pid_t pid = (pid_t)atoi(entry->d_name);
        if (pid <= 0)
            continue;
        if (*count == room) {
            struct proc *more = realloc(all, 2 * room * sizeof *all);
            if (!more)
                break;
            all = more;
            room *= 2;
        }
        if (read_stat(pid, &all[*count]))
            ++*count;
    }
    if (dir)
        closedir(dir);
    return all;
}

static bool mark_children(struct proc *all, size_t count, pid_t parent)
{
    bool found = false;

    for (size_t i = 0; i < count; i++) {
        if (all[i].parent == parent && !all[i].below) {
            all[i].below = true;
            found = true;
        }
    }
    return found;
}

size_t procs_descendants(pid_t root, pid_t except, pid_t *ret, size_t max)
{
    size_t count;
    size_t found = 0;
    struct proc *all = read_all(&count);

    for (bool more = all && mark_children(all, count, root); more;) {
        more = false;
        for (size_t i = 0; i < count; i++)
            if (all[i].below && all[i].pid != except)
                more = mark_children(all, count, all[i].pid) || more;
    }
    for (size_t i = 0; all && i < count && found < max; i++)
        if (all[i].below && all[i].pid != except && all[i].state != 'Z' && all[i].state != 'X')
            ret[found++] = all[i].pid;
    free(all);
    return found;
}

static bool has_socket(pid_t pid, const char *link)
{
    char folder[64], target[64];
    struct dirent *entry;
    bool found = false;

    snprintf(folder, sizeof folder, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(folder);
    while (dir && !found && (entry = readdir(dir))) {
        ssize_t bytes = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);

        target[bytes > 0 ? bytes : 0] = '\0';
        found = strcmp(target, link) == 0;
    }
    if (dir)
        closedir(dir);
    return found;
}

bool procs_child_has_socket(pid_t parent, unsigned long inode)
{
    struct proc *all;
    bool found = false;
    char link[64];
    size_t count;

    snprintf(link, sizeof link, "socket:[%lu]", inode);
    all = read_all(&count);
    for (size_t i = 0; all && !found && i < count; i++)
        found = all[i].parent == parent && has_socket(all[i].pid, link);
    free(all);
    return found;
}

void procs_signal(const pid_t *pids, size_t count, int signal)
{
    for (size_t i = 0; i < count; i++) {
        struct proc proc;
        kill(pids[i], signal);
        if (read_stat(pids[i], &proc) && proc.state == 'T')
            kill(pids[i], SIGCONT); /* a stopped process does not handle signals */
    }
}

/* --- processes that faults stop --------------------------------------------------------- */

static void frozen_sweep(struct procs_frozen *frozen)
{
    for (uint32_t i = frozen->count; i--;) {
        struct pollfd end = {frozen->at[i].pidfd, POLLIN, 0};

        if (poll(&end, 1, 0) <= 0)
            continue;
        close(end.fd);
        frozen->at[i] = frozen->at[--frozen->count];
    }
}

int procs_freeze(struct procs_frozen *frozen, pid_t pid)
{
    struct procs_frozen_one *at;
    int pidfd;

    frozen_sweep(frozen);
    for (uint32_t i = 0; i < frozen->count; i++)
        if (frozen->at[i].pid == pid)
            return 0;
    at = realloc(frozen->at, (frozen->count + 1u) * sizeof *at);
    if (!at)
        return -ENOMEM;
    frozen->at = at;
    pidfd = pidfd_open(pid, 0);
    if (pidfd < 0)
        return -errno;
    at[frozen->count++] = (struct procs_frozen_one){.pid = pid, .pidfd = pidfd};
    return 1;
}

void procs_thaw(struct procs_frozen *frozen)
{
    while (frozen->count) {
        int pidfd = frozen->at[--frozen->count].pidfd;

        pidfd_send_signal(pidfd, SIGCONT, NULL, 0);
        close(pidfd);
    }
    free(frozen->at);
    frozen->at = NULL;
}

/* --- processes of a run ----------------------------------------------------------------- */

static bool has_mark(pid_t pid, const char *mark)
{
    char path[64];
    char *entry = NULL;
    size_t room = 0;
    bool found = false;

    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    while (!found && getdelim(&entry, &room, '\0', file) > 0)
        found = strcmp(entry, mark) == 0;
    free(entry);
    fclose(file);
    return found;
}

static size_t marked(const char *mark, pid_t *ret, size_t max)
{
    size_t count;
    size_t found = 0;
    struct proc *all = read_all(&count);

    for (size_t i = 0; all && i < count && found < max; i++)
        if (all[i].pid != getpid() && all[i].state != 'Z' && has_mark(all[i].pid, mark))
            ret[found++] = all[i].pid;
    free(all);
    return found;
}

/* Wait until one of the processes has ended, but at most @timeout_ms. */
static void wait_for_one(const pid_t *pids, size_t count, int timeout_ms)
{
    struct pollfd *ends = calloc(count, sizeof *ends);
    bool ended = false;

    for (size_t i = 0; ends && i < count; i++) {
        ends[i] = (struct pollfd){pidfd_open(pids[i], 0), POLLIN, 0};
        ended = ended || (ends[i].fd < 0 && errno == ESRCH);
    }
    if (ends && !ended)
        poll(ends, count, timeout_ms);
    for (size_t i = 0; ends && i < count; i++)
        if (ends[i].fd >= 0)
            close(ends[i].fd);
    free(ends);
}

void procs_end_marked(const char *mark)
{
    static const struct {
        int from_ms;
        int signal;
    } steps[] = {{2000, SIGTERM}, {3000, SIGKILL}, {3500, SIGKILL}, {4000, 0}};
    pid_t *pids = calloc(PROCS_MAX, sizeof *pids);
    int64_t start_ms = emu_now_ms();

    for (size_t step = 0; pids && step < sizeof steps / sizeof steps[0];) {
        size_t count = marked(mark, pids, PROCS_MAX);
        if (count == 0)
            break;
        int64_t left_ms = start_ms + steps[step].from_ms - emu_now_ms();
        if (left_ms > 0) {
            wait_for_one(pids, count, (int)left_ms);
        } else {
            if (steps[step].signal)
                procs_signal(pids, count, steps[step].signal);
            step++;
        }
    }
    free(pids);
}
