/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * schedstat.c - measure how long the threads of a process waited for a core.
 *
 * The kernel counts for each thread how long it was in a run queue (sched_info.run_delay). A sample
 * reads this count from one small file per thread, and adds up the increases since the last sample.
 *
 * The kernel adds a wait to its count only when the wait ends. If a thread is runnable now and has
 * not run since the last sample, we assume that it has waited all that time. A sample counts that
 * time at once, and a later sample subtracts it when the kernel has counted the wait. A stopped
 * process is not runnable.
 *
 * Rejected: taskstats, which includes ended threads but needs CAP_NET_ADMIN; /proc/PID/schedstat,
 * which has only the first thread.
 */
#include "apps/base/schedstat.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Several timer ticks. At each tick the kernel updates ran_ns of the running thread, so a thread
 * whose ran_ns has not changed for this long has not run.
 */
#define WAITING_LEAST_NS 20000000u

struct thread {
    pid_t tid;
    /* the kernel's counts at the last sample */
    uint64_t ran_ns;
    uint64_t wait_ns;
    uint64_t slices;     /* times that the thread got a core */
    uint64_t assumed_ns; /* part of a wait that samples have counted before its end */
};

struct waits {
    int tasks; /* descriptor of /proc/PID/task */
    size_t count;
    struct thread *thread; /* as of the last sample */
};

/* Read file @name of thread @tid as text. Errors: -ESRCH, it has ended; those of openat(). */
static int thread_file(int tasks, pid_t tid, const char *name, char *text, size_t text_bytes)
{
    char path[64];
    ssize_t bytes;
    int fd;

    snprintf(path, sizeof path, "%d/%s", (int)tid, name);
    fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? -ESRCH : -errno;
    bytes = read(fd, text, text_bytes - 1);
    close(fd);
    text[bytes > 0 ? bytes : 0] = '\0';
    return 0;
}

static int thread_read(int tasks, pid_t tid, struct thread *ret)
{
    unsigned long long ran_ns, wait_ns, slices;
    char text[80];
    int err = thread_file(tasks, tid, "schedstat", text, sizeof text);

    if (err)
        return err;
    if (sscanf(text, "%llu %llu %llu", &ran_ns, &wait_ns, &slices) != 3)
        return -ESRCH;
    *ret = (struct thread){.tid = tid, .ran_ns = ran_ns, .wait_ns = wait_ns, .slices = slices};
    return 0;
}

/* The file has "PID (NAME) STATE ...", where NAME may contain any byte. */
static bool thread_is_runnable(int tasks, pid_t tid)
{
    char text[256];
    const char *end = thread_file(tasks, tid, "stat", text, sizeof text) ? NULL
                                                                         : strrchr(text, ')');

    return end && end[1] == ' ' && end[2] == 'R';
}

/* Find thread @tid in the last sample, where it is usually at the same index. NULL: it is new. */
static const struct thread *thread_before(const struct waits *waits, size_t at, pid_t tid)
{
    if (at < waits->count && waits->thread[at].tid == tid)
        return &waits->thread[at];
    for (size_t i = 0; i < waits->count; i++)
        if (waits->thread[i].tid == tid)
            return &waits->thread[i];
    return NULL;
}

/*
 * Return the waits of thread @now that this sample counts, @since_ns after the last one. @before:
 * its counts at the last sample; NULL: it is new. If @before has a longer wait, it is an earlier
 * thread with the same number.
 */
static uint64_t thread_waited(int tasks, struct thread *now, const struct thread *before,
                              uint64_t since_ns)
{
    uint64_t ns = now->wait_ns;

    if (!before || now->wait_ns < before->wait_ns)
        return ns;
    ns -= before->wait_ns;
    if (now->ran_ns != before->ran_ns || now->slices != before->slices)
        return ns > before->assumed_ns ? ns - before->assumed_ns : 0;
    now->assumed_ns = before->assumed_ns;
    if (since_ns < WAITING_LEAST_NS || !thread_is_runnable(tasks, now->tid))
        return 0;
    now->assumed_ns += since_ns;
    return since_ns;
}

/*
 * Return the part of the waits of @ns that is longer than normal for a shared core. The mean wait
 * for a core decides: up to WAITS_SHARED_NS, the part is 0. From twice WAITS_SHARED_NS on, it is
 * @ns. In between, it grows steadily. If more programs run than there are cores, a program that
 * yields at each poll hardly runs, because it waits twice WAITS_SHARED_NS or longer before each
 * poll. So its waits must count in full.
 */
static uint64_t beyond_sharing(const struct thread *now, const struct thread *before, uint64_t ns)
{
    uint64_t slices = now->slices - (before && before->slices <= now->slices ? before->slices : 0);

    if (ns / WAITS_SHARED_NS <= slices)
        return 0;
    uint64_t beyond_ns = ns - slices * WAITS_SHARED_NS;
    return beyond_ns > ns / 2 ? ns : 2 * beyond_ns;
}

#define THREADS_STEP 16u /* threads by which the array grows */

/* The threads of the process that exist now. */
struct threads {
    struct thread *thread; /* the caller frees it; space for a multiple of THREADS_STEP */
    size_t count;
    bool accounted; /* this kernel counts waits of threads */
};

static int threads_add(struct threads *now, int tasks, pid_t tid)
{
    struct thread thread;
    int err = thread_read(tasks, tid, &thread);

    if (err)
        return err;
    if (now->count % THREADS_STEP == 0) {
        struct thread *more = realloc(now->thread, (now->count + THREADS_STEP) * sizeof *more);

        if (!more)
            return -ENOMEM;
        now->thread = more;
    }
    now->accounted |= thread.slices > 0;
    now->thread[now->count++] = thread;
    return 0;
}

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

static void waits_restart(struct waits *waits, const struct threads *now)
{
    free(waits->thread);
    waits->thread = now->thread;
    waits->count = now->count;
}

int waits_sample(struct waits *waits, uint64_t since_ns, struct waits_delta *ret)
{
    struct threads now;
    int err = threads_now(&now, waits);

    *ret = (struct waits_delta){0};
    if (err)
        return err;
    for (size_t i = 0; i < now.count; i++) {
        struct thread *thread = &now.thread[i];
        const struct thread *before = thread_before(waits, i, thread->tid);
        uint64_t ns = thread_waited(waits->tasks, thread, before, since_ns);

        ret->ns += ns;
        uint64_t starved_ns = beyond_sharing(thread, before, ns);
        ret->starved_ns = starved_ns > ret->starved_ns ? starved_ns : ret->starved_ns;
        ret->over_ns += ns > since_ns ? ns - since_ns : 0;
    }
    waits_restart(waits, &now);
    return 0;
}

void waits_close(struct waits *waits)
{
    if (!waits)
        return;
    close(waits->tasks);
    free(waits->thread);
    free(waits);
}

int waits_open_at(struct waits **ret, int tasks)
{
    struct waits *waits = calloc(1, sizeof *waits);
    struct threads now;
    int err = -ENOMEM;

    if (!waits)
        goto close_tasks;
    waits->tasks = tasks;
    err = threads_now(&now, waits);
    if (err)
        goto free_waits;
    waits_restart(waits, &now);
    if (!now.accounted) {
        waits_close(waits);
        return -ENOTSUP;
    }
    *ret = waits;
    return 0;

free_waits:
    free(waits);
close_tasks:
    close(tasks);
    return err;
}

int waits_open(struct waits **ret, pid_t pid)
{
    char path[64];
    int tasks;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    tasks = pid > 0 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (tasks < 0)
        return pid > 0 && errno != ENOENT ? -errno : -ESRCH;
    return waits_open_at(ret, tasks);
}
