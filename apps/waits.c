/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * waits.c - how long threads waited for a core, as the kernel counted it.
 *
 * The kernel counts for each thread how long it stood in a run queue (sched_info.run_delay), always
 * and for nothing; here it is read, a small file a thread. Counts go with their thread, so each
 * one's last is kept, and a look adds what is new.
 * Rejected: taskstats, which has whole processes with their ended threads, but only for
 * CAP_NET_ADMIN. Rejected: /proc/PID/schedstat, which is the first thread's.
 */
#include "apps/waits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct thread {
    pid_t tid;
    uint64_t wait_ns; /* in all, as of the last look */
};

struct waits {
    int tasks; /* the folder /proc/PID/task */
    size_t count;
    struct thread *thread; /* as of the last look */
};

/* What the kernel has of one thread. False: it has ended. */
static bool thread_read(int tasks, pid_t tid, unsigned long long *wait_ns,
                        unsigned long long *slices)
{
    unsigned long long run_ns;
    char path[64], text[80];
    ssize_t bytes;
    int fd;

    snprintf(path, sizeof path, "%d/schedstat", (int)tid);
    fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bytes = read(fd, text, sizeof text - 1);
    close(fd);
    text[bytes > 0 ? bytes : 0] = '\0';
    return sscanf(text, "%llu %llu %llu", &run_ns, wait_ns, slices) == 3;
}

/* What thread @tid had waited as of the last look; 0: it is new. Most stand where they stood, at @at. */
static uint64_t thread_before(const struct waits *waits, size_t at, pid_t tid)
{
    if (at < waits->count && waits->thread[at].tid == tid)
        return waits->thread[at].wait_ns;
    for (size_t i = 0; i < waits->count; i++)
        if (waits->thread[i].tid == tid)
            return waits->thread[i].wait_ns;
    return 0;
}

/* The threads that there are now, as an array to free; NULL: out of memory, or there are none. */
static struct thread *threads_now(const struct waits *waits, size_t *count, bool *accounted)
{
    int again = openat(waits->tasks, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = again < 0 ? NULL : fdopendir(again);
    struct thread *all = NULL;
    struct dirent *entry;
    size_t room = 0;

    *count = 0;
    *accounted = false;
    if (!dir && again >= 0)
        close(again);
    while (dir && (entry = readdir(dir))) {
        unsigned long long wait_ns, slices;
        pid_t tid = (pid_t)atoi(entry->d_name);

        if (tid <= 0 || !thread_read(waits->tasks, tid, &wait_ns, &slices))
            continue;
        if (*count == room) {
            struct thread *more = realloc(all, (room = room ? 2 * room : 8) * sizeof *all);
            if (!more)
                break;
            all = more;
        }
        *accounted |= slices > 0;
        all[(*count)++] = (struct thread){ .tid = tid, .wait_ns = wait_ns };
    }
    if (dir)
        closedir(dir);
    return all;
}

static int waits_renew(struct waits *waits, struct thread *now, size_t count)
{
    if (!count) {
        free(now);
        return -ESRCH;
    }
    free(waits->thread);
    waits->thread = now;
    waits->count = count;
    return 0;
}

int waits_look(struct waits *waits, uint64_t since_ns, struct waits_more *ret)
{
    struct waits_more more = { 0 };
    bool accounted;
    size_t count;
    struct thread *now = threads_now(waits, &count, &accounted);

    for (size_t i = 0; i < count; i++) {
        uint64_t before_ns = thread_before(waits, i, now[i].tid);
        uint64_t ns = now[i].wait_ns;

        ns -= ns < before_ns ? 0 : before_ns; /* less than before: another one of that number */
        more.ns += ns;
        more.over_ns += ns > since_ns ? ns - since_ns : 0;
    }
    *ret = more;
    return waits_renew(waits, now, count);
}

int waits_open(struct waits **ret, pid_t pid)
{
    struct waits *waits = calloc(1, sizeof *waits);
    struct thread *now;
    char path[64];
    bool accounted;
    size_t count;
    int err;

    if (!waits)
        return -ENOMEM;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    waits->tasks = pid > 0 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    err = waits->tasks >= 0 ? 0 : pid > 0 && errno != ENOENT ? -errno : -ESRCH;
    if (err)
        goto close_waits;
    now = threads_now(waits, &count, &accounted);
    err = waits_renew(waits, now, count);
    if (!err && !accounted)
        err = -ENOTSUP;
    if (err)
        goto close_waits;
    *ret = waits;
    return 0;

close_waits:
    waits_close(waits);
    return err;
}

void waits_close(struct waits *waits)
{
    if (!waits)
        return;
    if (waits->tasks >= 0)
        close(waits->tasks);
    free(waits->thread);
    free(waits);
}
