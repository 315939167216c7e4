/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * schedstat.h - how long the threads of a process were ready to run and did not, by the kernel's
 * own accounting: /proc/PID/task/TID/schedstat.
 */
#ifndef APPS_BASE_SCHEDSTAT_H
#define APPS_BASE_SCHEDSTAT_H

#include <stdint.h>
#include <sys/types.h>

struct waits;

/**
 * waits_open - look at process @pid from now on. Takes one descriptor, bound to this process: a
 * later one of the same number is not taken for it.
 * Errors: -ESRCH, there is none (perhaps it is in a pid namespace that is not seen from here);
 * -ENOTSUP, the kernel does not account for it; -EACCES, -EMFILE, -ENOMEM.
 */
int waits_open(struct waits **ret, pid_t pid);

/**
 * waits_open_at - the same for @tasks, an open folder with the contents of /proc/PID/task. Takes
 * over the descriptor, also on failure.
 */
int waits_open_at(struct waits **ret, int tasks);

void waits_close(struct waits *waits);

#define WAITS_SHARED_NS UINT64_C(10000000) /* a few time slices of other threads */

struct waits_delta {
    uint64_t ns;      /* waited by all of its threads together since the last look */
    uint64_t over_ns; /* of that, what a thread waited longer than the look was ago */
    /*
     * The longest wait of one thread, less WAITS_SHARED_NS for each time that it got a core:
     * threads that share a core wait that long for each other.
     */
    uint64_t starved_ns;
};

/**
 * waits_sample - what has come since the last look, or since it was opened.
 * @since_ns: how long ago that was. A wait that has not ended counts if it is as old as the last
 * look. A thread that has ended since the last look is not seen.
 * Errors: -ESRCH, the process has ended; -ENOMEM, -EMFILE: this was no look, the next one sees it
 * all.
 */
int waits_sample(struct waits *waits, uint64_t since_ns, struct waits_delta *ret);

#endif
