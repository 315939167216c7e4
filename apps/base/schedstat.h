/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * schedstat.h - measure how long the threads of a process waited for a core (a *wait*). The kernel
 * counts this in /proc/PID/task/TID/schedstat.
 */
#ifndef APPS_BASE_SCHEDSTAT_H
#define APPS_BASE_SCHEDSTAT_H

#include <stdint.h>
#include <sys/types.h>

struct waits;

/**
 * waits_open - start to sample process @pid. Keeps a descriptor of its folder in /proc open, so a
 * later process with the same number is never sampled. Errors: -ESRCH, the process has ended or is
 * in another pid namespace; -ENOTSUP, the kernel does not count waits; -EACCES, -EMFILE, -ENOMEM.
 */
int waits_open(struct waits **ret, pid_t pid);

/** waits_open_at - as waits_open(), but take over @tasks, a descriptor of /proc/PID/task. */
int waits_open_at(struct waits **ret, int tasks);

void waits_close(struct waits *waits);

#define WAITS_SHARED_NS UINT64_C(10000000) /* normal wait on a shared core: a few time slices */

struct waits_delta {
    uint64_t ns; /* sum over all threads: the waits that this sample counts */
    /* part of ns that passed before the previous sample: a wait counts at its end */
    uint64_t over_ns;
    /*
     * The largest value of any thread: its waits in this sample, without the normal waits for a
     * shared core. If the thread's mean wait for a core is at most WAITS_SHARED_NS, the value is 0.
     * From twice WAITS_SHARED_NS on, all its waits count. In between, a growing part does.
     */
    uint64_t starved_ns;
};

/**
 * waits_sample - measure the waits since the previous sample or waits_open(), which was @since_ns
 * ago. A wait that has not ended counts only if it began before the previous sample. A thread that
 * has ended since the previous sample does not count. Errors: -ESRCH, the process has ended;
 * -ENOMEM or -EMFILE, after which the next sample includes the waits that this one failed to count.
 */
int waits_sample(struct waits *waits, uint64_t since_ns, struct waits_delta *ret);

#endif
