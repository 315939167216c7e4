/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * schedstat.c - how long threads waited for a core, as the kernel counted it.
 *
 * The kernel counts for each thread how long it stood in a run queue (sched_info.run_delay), always
 * and for nothing; here it is read, a small file a thread. Counts go with their thread, so each
 * one's last is kept, and a look adds what is new.
 * Rejected: taskstats, which has whole processes with their ended threads, but only for
 * CAP_NET_ADMIN. Rejected: /proc/PID/schedstat, which is the first thread's.
 */
#include "apps/daemon/schedstat.h"

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

/* What the kernel has of one thread. Errors: -ESRCH, it has ended; -errno of openat. */
static int thread_read(int tasks, pid_t tid, unsigned long long *wait_ns,
                       unsigned long long *slices)
{
    unsigned long long run_ns;
    char path[64], text[80];
    ssize_t bytes;
    int fd;

    snprintf(path, sizeof path, "%d/schedstat", (int)tid);
    fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? -ESRCH : -errno;
    bytes = read(fd, text, sizeof text - 1);
    close(fd);
    text[bytes > 0 ? bytes : 0] = '\0';
    return sscanf(text, "%llu %llu %llu", &run_ns, wait_ns, slices) == 3 ? 0 : -ESRCH;
}

/*
 * What thread @tid had waited as of the last look; 0: it is new. Most stand where they stood, at
 * @at.
 */
static uint64_t thread_before(const struct waits *waits, size_t at, pid_t tid)
{
    if (at < waits->count && waits->thread[at].tid == tid)
        return waits->thread[at].wait_ns;
    for (size_t i = 0; i < waits->count; i++)
        if (waits->thread[i].tid == tid)
            return waits->thread[i].wait_ns;
    return 0;
}

#define THREADS_STEP 16u /* threads for which room is made at once */

/* The threads that there are now. */
struct threads {
    struct thread *thread; /* an array to free, of whole THREADS_STEPs */
    size_t count;
    bool accounted; /* by this kernel */
};

/* Add thread @tid as it is now. Errors: as of thread_read(); -ENOMEM. */
static int threads_add(struct threads *now, int tasks, pid_t tid)
{
    unsigned long long wait_ns, slices;
    int err = thread_read(tasks, tid, &wait_ns, &slices);

    if (err)
        return err;
    if (now->count % THREADS_STEP == 0) {
        struct thread *more = realloc(now->thread, (now->count + THREADS_STEP) * sizeof *more);

        if (!more)
            return -ENOMEM;
        now->thread = more;
    }
    now->accounted |= slices > 0;
    now->thread[now->count++] = (struct thread){.tid = tid, .wait_ns = wait_ns};
    return 0;
}

/* All of them or, on failure, none. Errors: -ESRCH, the process has ended; -ENOMEM, -EMFILE. */
static int threads_now(struct threads *now, const struct waits *waits)
{
    int again = openat(waits->tasks, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = again < 0 ? NULL : fdopendir(again);
    struct dirent *entry;
    int err = 0;

    *now = (struct threads){0};
    if (!dir) {
        err = again < 0 && errno == ENOENT ? -ESRCH : -errno;
        if (again >= 0)
            close(again);
        return err;
    }
    while (!err && (entry = readdir(dir))) {
        pid_t tid = (pid_t)atoi(entry->d_name);

        err = tid > 0 ? threads_add(now, waits->tasks, tid) : 0;
        err = err == -ESRCH ? 0 : err;
    }
    closedir(dir);
    if (!err && !now->count)
        err = -ESRCH;
    if (err)
        free(now->thread);
    return err;
}

static void waits_renew(struct waits *waits, const struct threads *now)
{
    free(waits->thread);
    waits->thread = now->thread;
    waits->count = now->count;
}

int waits_look(struct waits *waits, uint64_t since_ns, struct waits_more *ret)
{
    struct threads now;
    int err = threads_now(&now, waits);

    *ret = (struct waits_more){0};
    if (err)
        return err;
    for (size_t i = 0; i < now.count; i++) {
        uint64_t before_ns = thread_before(waits, i, now.thread[i].tid);
        uint64_t ns = now.thread[i].wait_ns;

        ns -= ns < before_ns ? 0 : before_ns; /* less than before: another one of that number */
        ret->ns += ns;
        ret->over_ns += ns > since_ns ? ns - since_ns : 0;
    }
    waits_renew(waits, &now);
    return 0;
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

/* The first look. */
static int waits_begin(struct waits *waits, pid_t pid)
{
    struct threads now;
    char path[64];
    int err;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    waits->tasks = pid > 0 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (waits->tasks < 0)
        return pid > 0 && errno != ENOENT ? -errno : -ESRCH;
    err = threads_now(&now, waits);
    if (err)
        return err;
    waits_renew(waits, &now);
    return now.accounted ? 0 : -ENOTSUP;
}

int waits_open(struct waits **ret, pid_t pid)
{
    struct waits *waits = calloc(1, sizeof *waits);
    int err = waits ? waits_begin(waits, pid) : -ENOMEM;

    if (err)
        waits_close(waits);
    else
        *ret = waits;
    return err;
}
