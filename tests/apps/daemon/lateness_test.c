/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lateness_test.c - times in the report: readable durations, waits for a core as the kernel counts
 * them, and waits for processes that do not empty their host interface.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "apps/base/schedstat.h"
#include "apps/base/amount.h"
#include "emu/hostif/fabric/fabric.h"
#include "emu/worker/worker.h"
#include "tests/test.h"

/* --- durations ---------------------------------------------------------------------- */

static void duration_of_ns__has_three_digits_and_a_unit(void)
{
    static const struct {
        double ns;
        char text[16];
    } cases[] = {
        {0, "0 s"},
        {-5, "0 s"},
        {0.25, "0.25 ns"},
        {7, "7.00 ns"},
        {12.34, "12.3 ns"},
        {999.4, "999 ns"},
        {999.6, "1.00 us"},
        {9994, "9.99 us"},
        {9996, "10.0 us"},
        {99940, "99.9 us"},
        {99960, "100 us"},
        {490946200, "491 ms"},
        {999.4e6, "999 ms"},
        {999.6e6, "1.00 s"},
        {1.5e9, "1.50 s"},
        {59.96e9, "60.0 s"},
        {119.4e9, "119 s"},
        {119.6e9, "2 min 00 s"},
        {125e9, "2 min 05 s"},
        {3599.7e9, "60 min 00 s"},
        {7199.4e9, "119 min 59 s"},
        {7199.6e9, "2 h 00 min"},
        {9000e9, "2 h 30 min"},
        {86399e9, "24 h 00 min"},
        {1e17, "27777 h 47 min"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct duration got = duration_of_ns(cases[i].ns);

        if (strcmp(got.text, cases[i].text) != 0)
            printf("\n    %.2f ns: \"%s\" instead of \"%s\"\n    ", cases[i].ns, got.text,
                   cases[i].text);
        CU_ASSERT_STRING_EQUAL(got.text, cases[i].text);
    }
}

/* All times of a table have the finest unit in which the longest of them fits. */
static void duration_unit_of__fits_the_longest_time(void)
{
    static const struct {
        double most_ns, ns;
        const char *unit, *text;
        int width;
    } cases[] = {
        {0, 0, "us", "0.0", 9},
        {13.6e6, 3070, "us", "3.1", 9},
        {999999.9e3, 999999.9e3, "us", "999,999.9", 9},
        {1e9, 3070, "us", "3", 9},
        {9999999e3, 9999999e3, "us", "9,999,999", 9},
        {10e9, 3.07e6, "ms", "3.07", 9},
        {10e9, 10e9, "ms", "10,000.00", 9},
        {10e9, 10e9, "ms", "10,000.0", 8},
        {1e13, 1e13, "s", "10,000.0", 9},
        {1e18, 1e18, "s", "1,000,000,000", 9}, /* does not fit in any unit */
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct duration_unit unit = duration_unit_of(cases[i].most_ns, cases[i].width);

        CU_ASSERT_STRING_EQUAL(unit.name, cases[i].unit);
        CU_ASSERT_STRING_EQUAL(duration_in(&unit, cases[i].ns).text, cases[i].text);
    }
}

/* A printed duration differs from the exact one by at most half of its last digit. */
static void duration_of_ns__is_right_to_its_last_digit(void)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    uint64_t random = test_seed();

    for (int i = 0; i < 20000; i++) {
        double ns = (double)(test_random(&random) >> (27 + test_random(&random) % 37)) / 8;
        struct duration got = duration_of_ns(ns);
        double value = 0, unit = 1;
        char name[16];

        if (ns < 0.01 || strstr(got.text, "min"))
            continue;
        CU_ASSERT_EQUAL_FATAL(sscanf(got.text, "%lf %15s", &value, name), 2);
        for (int u = 0; strcmp(units[u], name) != 0; u++)
            unit *= 1000;
        if (!(value * unit > ns * 0.994 && value * unit < ns * 1.006 && value < 1000) && ns > 1)
            printf("\n    %.3f ns: \"%s\"\n    ", ns, got.text);
        CU_ASSERT_TRUE(ns <= 1 || (value * unit > ns * 0.994 && value * unit < ns * 1.006));
        CU_ASSERT_TRUE(value < 1000);
    }
}

/* --- waits for cores ---------------------------------------------------------------- */

#define CHILDREN 3
#define BUSY     "50000" /* loop iterations of each: some tens of milliseconds */

struct child {
    pid_t pid;
    int go;   /* written to: be busy */
    int done; /* readable: done */
};

/* Pin the children to one core that this process may use. */
static void share_one_core(void)
{
    cpu_set_t set;
    int core = 0;

    sched_getaffinity(0, sizeof set, &set);
    while (core < CPU_SETSIZE - 1 && !CPU_ISSET(core, &set))
        core++;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    sched_setaffinity(0, sizeof set, &set);
}

/*
 * A shell has exactly one thread, whatever the build: ThreadSanitizer adds a thread to other
 * programs.
 */
static void child_main(int go, int done)
{
    share_one_core();
    dup2(go, 0);
    dup2(done, 1);
    execl("/bin/sh", "sh", "-c",
          "while echo && read go; do i=0; while [ $i -lt " BUSY " ]; do i=$((i + 1)); done; done",
          NULL);
    _exit(1);
}

static struct child child_start(void)
{
    struct child child;
    int go[2], done[2];

    CU_ASSERT_EQUAL_FATAL(pipe(go) | pipe(done), 0);
    child.pid = fork();
    CU_ASSERT_TRUE_FATAL(child.pid >= 0);
    if (!child.pid) {
        close(go[1]);
        close(done[0]);
        child_main(go[0], done[1]);
    }
    close(go[0]);
    close(done[1]);
    child.go = go[1];
    child.done = done[0];
    return child;
}

static void child_stop(struct child *child)
{
    close(child->go);
    close(child->done);
    kill(child->pid, SIGKILL);
    waitpid(child->pid, NULL, 0);
}

/*
 * The child has reported that it is done, and sleeps, so its counters do not change. Returns its
 * wait.
 */
static uint64_t child_rests(const struct child *child)
{
    unsigned long long ran_ns, wait_ns = 0;
    char path[64], state = 0, byte;
    FILE *file;

    CU_ASSERT_EQUAL_FATAL(read(child->done, &byte, 1), 1);
    snprintf(path, sizeof path, "/proc/%d/stat", (int)child->pid);
    while (state != 'S') {
        file = fopen(path, "r");
        CU_ASSERT_PTR_NOT_NULL_FATAL(file);
        CU_ASSERT_EQUAL_FATAL(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
        fclose(file);
        sched_yield();
    }
    snprintf(path, sizeof path, "/proc/%d/schedstat", (int)child->pid);
    file = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL_FATAL(fscanf(file, "%llu %llu", &ran_ns, &wait_ns), 2);
    fclose(file);
    return wait_ns;
}

/* The result equals the kernel's count to the nanosecond, and is not zero. */
static void waits_sample__equals_the_kernel_s_count(void)
{
    struct child child[CHILDREN];
    struct waits *waits[CHILDREN];
    uint64_t before_ns[CHILDREN];

    for (int i = 0; i < CHILDREN; i++) {
        child[i] = child_start();
        before_ns[i] = child_rests(&child[i]);
        CU_ASSERT_EQUAL_FATAL(waits_open(&waits[i], child[i].pid), 0);
    }
    for (int i = 0; i < CHILDREN; i++)
        CU_ASSERT_EQUAL(write(child[i].go, "\n", 1), 1);
    for (int i = 0; i < CHILDREN; i++) {
        uint64_t counted_ns = child_rests(&child[i]) - before_ns[i];
        struct waits_delta more;

        CU_ASSERT_EQUAL(waits_sample(waits[i], UINT64_MAX, &more), 0);
        CU_ASSERT_EQUAL(more.ns, counted_ns);
        CU_ASSERT_EQUAL(more.over_ns, 0);
        CU_ASSERT_TRUE(counted_ns > 0); /* three processes shared a core */
        CU_ASSERT_EQUAL(waits_sample(waits[i], UINT64_MAX, &more), 0);
        CU_ASSERT_EQUAL(more.ns, 0); /* no new wait */
    }
    for (int i = 0; i < CHILDREN; i++) {
        waits_close(waits[i]);
        child_stop(&child[i]);
    }
}

/* A wait longer than the time since the last sample began before that sample. */
static void waits_sample__reports_the_wait_before_the_last_sample(void)
{
    struct child child[2] = {child_start(), child_start()};
    struct waits *waits;
    struct waits_delta more;
    uint64_t before_ns = child_rests(&child[0]), counted_ns;

    child_rests(&child[1]);
    CU_ASSERT_EQUAL_FATAL(waits_open(&waits, child[0].pid), 0);
    for (int i = 0; i < 2; i++)
        CU_ASSERT_EQUAL(write(child[i].go, "\n", 1), 1);
    counted_ns = child_rests(&child[0]) - before_ns;
    CU_ASSERT_EQUAL(waits_sample(waits, 1000, &more), 0);
    CU_ASSERT_EQUAL(more.ns, counted_ns);
    CU_ASSERT_EQUAL(more.over_ns, counted_ns > 1000 ? counted_ns - 1000 : 0);
    waits_close(waits);
    child_stop(&child[0]);
    child_stop(&child[1]);
}

/*
 * A sample that cannot open a descriptor returns nothing and loses nothing: the next one returns
 * the whole wait, once.
 */
static void waits_sample__failure_loses_nothing(void)
{
    struct child child[2] = {child_start(), child_start()};
    uint64_t before_ns = child_rests(&child[0]), counted_ns;
    struct rlimit had, none;
    struct waits *waits;
    struct waits_delta more;

    child_rests(&child[1]);
    CU_ASSERT_EQUAL_FATAL(waits_open(&waits, child[0].pid), 0);
    for (int i = 0; i < 2; i++)
        CU_ASSERT_EQUAL(write(child[i].go, "\n", 1), 1);
    counted_ns = child_rests(&child[0]) - before_ns;
    getrlimit(RLIMIT_NOFILE, &had);
    none = (struct rlimit){.rlim_max = had.rlim_max};
    /* the lowest free descriptor: one is left for the folder, none for a file */
    none.rlim_cur = (rlim_t)dup(0);
    close((int)none.rlim_cur);
    for (int spare = 0; spare < 2; spare++, none.rlim_cur++) {
        setrlimit(RLIMIT_NOFILE, &none);
        CU_ASSERT_EQUAL(waits_sample(waits, UINT64_MAX, &more), -EMFILE);
        CU_ASSERT_EQUAL(more.ns, 0);
    }
    setrlimit(RLIMIT_NOFILE, &had);
    CU_ASSERT_EQUAL(waits_sample(waits, UINT64_MAX, &more), 0);
    CU_ASSERT_EQUAL(more.ns, counted_ns);
    waits_close(waits);
    child_stop(&child[0]);
    child_stop(&child[1]);
}

static void waits_sample__reports_an_ended_process(void)
{
    struct child child = child_start();
    struct waits *waits;
    struct waits_delta more;

    child_rests(&child);
    CU_ASSERT_EQUAL_FATAL(waits_open(&waits, child.pid), 0);
    child_stop(&child);
    CU_ASSERT_EQUAL(waits_sample(waits, 1, &more), -ESRCH);
    CU_ASSERT_EQUAL(more.ns, 0);
    waits_close(waits);
}

/* A folder in place of /proc/PID/task, with one thread. */
struct pretended {
    char folder[32];
    int thread; /* folder of the thread */
};

static void pretend_file(const struct pretended *p, const char *name, const char *text)
{
    int fd = openat(p->thread, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    CU_ASSERT_TRUE_FATAL(fd >= 0);
    CU_ASSERT_EQUAL(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

/*
 * Pretend that the thread has run for @ran_ns, waited for @waited_ns, got a core @slices times, and
 * is in @state.
 */
static void pretend(const struct pretended *p, uint64_t ran_ns, uint64_t waited_ns, uint64_t slices,
                    char state)
{
    char text[96];

    snprintf(text, sizeof text, "%llu %llu %llu\n", (unsigned long long)ran_ns,
             (unsigned long long)waited_ns, (unsigned long long)slices);
    pretend_file(p, "schedstat", text);
    snprintf(text, sizeof text, "7 (a) R (b) %c 1 7 7 0", state);
    pretend_file(p, "stat", text);
}

static struct waits *pretend_begin(struct pretended *p)
{
    struct waits *waits = NULL;
    int tasks;

    strcpy(p->folder, "/tmp/fabemu-waits.XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(p->folder));
    tasks = open(p->folder, O_RDONLY | O_DIRECTORY);
    CU_ASSERT_EQUAL_FATAL(mkdirat(tasks, "7", 0700), 0);
    p->thread = openat(tasks, "7", O_RDONLY | O_DIRECTORY);
    pretend(p, 1000, 5000, 3, 'S');
    CU_ASSERT_EQUAL_FATAL(waits_open_at(&waits, tasks), 0);
    return waits;
}

static void pretend_end(struct pretended *p, struct waits *waits)
{
    char path[48];

    unlinkat(p->thread, "schedstat", 0);
    unlinkat(p->thread, "stat", 0);
    close(p->thread);
    snprintf(path, sizeof path, "%s/7", p->folder);
    rmdir(path);
    rmdir(p->folder);
    waits_close(waits);
}

#define SECOND_NS UINT64_C(1000000000)

/*
 * A runnable thread without a core is counted before the kernel accounts its wait, and only once.
 */
static void waits_sample__counts_a_wait_in_progress(void)
{
    struct waits_delta more;
    struct pretended p;
    struct waits *waits = pretend_begin(&p);

    pretend(&p, 1000, 5000, 3, 'R');
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(waits_sample(waits, SECOND_NS, &more), 0);
        CU_ASSERT_TRUE(more.ns == SECOND_NS && more.starved_ns == SECOND_NS && !more.over_ns);
    }
    pretend(&p, 2000, 5000 + 2 * SECOND_NS + 300, 4, 'R'); /* the wait has ended */
    CU_ASSERT_EQUAL(waits_sample(waits, SECOND_NS, &more), 0);
    CU_ASSERT_TRUE(more.ns == 300 && more.starved_ns == 0);
    pretend(&p, 3000, 5000 + 2 * SECOND_NS + 700, 5, 'R');
    CU_ASSERT_EQUAL(waits_sample(waits, SECOND_NS, &more), 0);
    CU_ASSERT_EQUAL(more.ns, 400);
    pretend_end(&p, waits);
}

/* Short waits of threads that share a core do not count; a long wait does. */
static void waits_sample__distinguishes_sharing_from_starving(void)
{
    struct waits_delta more;
    struct pretended p;
    struct waits *waits = pretend_begin(&p);

    pretend(&p, 1500, SECOND_NS / 2, 3 + 1, 'R');
    CU_ASSERT_EQUAL(waits_sample(waits, SECOND_NS, &more), 0);
    pretend(&p, 2000, SECOND_NS, 3 + 51, 'R'); /* 50 times 10 ms */
    CU_ASSERT_EQUAL(waits_sample(waits, SECOND_NS, &more), 0);
    CU_ASSERT_EQUAL(more.ns, SECOND_NS / 2);
    CU_ASSERT_EQUAL(more.starved_ns, 0);
    pretend(&p, 3000, SECOND_NS + SECOND_NS / 2, 3 + 51 + 10, 'R'); /* 10 times 50 ms */
    CU_ASSERT_EQUAL(waits_sample(waits, SECOND_NS, &more), 0);
    CU_ASSERT_EQUAL(more.ns, SECOND_NS / 2);
    CU_ASSERT_EQUAL(more.starved_ns, SECOND_NS / 2);
    pretend(&p, 4000, 2 * SECOND_NS - SECOND_NS / 4, 3 + 51 + 10 + 20, 'R'); /* 20 times 12.5 ms */
    CU_ASSERT_EQUAL(waits_sample(waits, SECOND_NS, &more), 0);
    CU_ASSERT_EQUAL(more.starved_ns, 2 * (SECOND_NS / 4 - 20 * WAITS_SHARED_NS));
    pretend_end(&p, waits);
}

/*
 * A thread that runs, sleeps or is stopped does not wait for a core. Samples close together do not
 * count either.
 */
static void waits_sample__ignores_threads_that_do_not_wait(void)
{
    static const char states[] = {'S', 'D', 'T', 't', 'Z'};
    struct waits_delta more;
    struct pretended p;
    struct waits *waits = pretend_begin(&p);

    for (size_t i = 0; i < sizeof states; i++) {
        pretend(&p, 1000, 5000, 3, states[i]);
        CU_ASSERT_EQUAL(waits_sample(waits, SECOND_NS, &more), 0);
        CU_ASSERT_EQUAL(more.ns, 0);
    }
    pretend(&p, 1000, 5000, 3, 'R');
    CU_ASSERT_EQUAL(waits_sample(waits, 1000000, &more), 0);
    CU_ASSERT_EQUAL(more.ns, 0);
    pretend(&p, 2000, 5000, 3, 'R');
    CU_ASSERT_EQUAL(waits_sample(waits, SECOND_NS, &more), 0);
    CU_ASSERT_EQUAL(more.ns, 0);
    pretend_end(&p, waits);
}

/* Only part of the time without a core counts; the same holds for a long time without a sample. */
static void starved_ns__counts_a_part(void)
{
    const uint64_t late_ns = EMU_STARVED_LATE_NS;

    CU_ASSERT_EQUAL(emu_starved_ns(SECOND_NS, 0), 0);
    CU_ASSERT_EQUAL(emu_starved_ns(SECOND_NS, SECOND_NS / 2), SECOND_NS / 2);
    CU_ASSERT_EQUAL(emu_starved_ns(SECOND_NS, 5 * SECOND_NS), SECOND_NS / 32 * 31);
    CU_ASSERT_EQUAL(emu_starved_ns(late_ns, 0), 0);
    CU_ASSERT_EQUAL(emu_starved_ns(late_ns + 100, 0), 100);
    CU_ASSERT_EQUAL(emu_starved_ns(320 * late_ns, 0), 310 * late_ns);
}

/* The kernel reports PID 0 for a process in a namespace that is not visible here. */
static void waits_open__reports_an_invisible_process(void)
{
    struct child child = child_start();
    struct waits *waits = NULL;

    CU_ASSERT_EQUAL(waits_open(&waits, 0), -ESRCH);
    CU_ASSERT_EQUAL(waits_open(&waits, -1), -ESRCH);
    child_stop(&child);
    CU_ASSERT_EQUAL(waits_open(&waits, child.pid), -ESRCH);
    CU_ASSERT_PTR_NULL(waits);
}

/* --- full host interfaces ----------------------------------------------------------- */

static uint32_t no_step(struct emu_dev *dev, uint64_t until_ps)
{
    (void)dev;
    (void)until_ps;
    return 0;
}

/*
 * Counts from when a segment finds no space until the process takes one, or until now while it
 * waits. The clock may be rebased meanwhile.
 */
static void hostif_full_ns__counts_the_time_without_space(void)
{
    const struct emu_clock clock = {.mode = EMU_CLOCK_REAL};
    struct emu_profile profile = {.nic_send_ps = 1};
    struct emu_pool *pool = emu_pool_create(EMU_POOL_CHAIN);
    struct emu_hostif init = {.nodes = 1, .profile = &profile};
    struct emu_worker *worker;
    struct emu_hostif *hostif;
    struct emu_dev dev;
    int memfd;

    CU_ASSERT_EQUAL_FATAL(emu_worker_create(&worker, 1, &clock, pool), 0);
    memset(&dev, 0, sizeof dev);
    emu_dev_init(&dev, worker, no_step);
    init.dev = &dev;
    CU_ASSERT_EQUAL_FATAL(emu_hostif_create(&hostif, &init, false, &clock, &memfd), 0);
    worker->now_ps = EMU_REBASE_BY_PS + 1000000;
    CU_ASSERT_EQUAL(emu_hostif_room(hostif), EMU_HOSTIF_SLOTS);
    CU_ASSERT_EQUAL(emu_hostif_full_ns(hostif, worker->now_ps), 0);
    hostif->down_tail = EMU_HOSTIF_SLOTS;
    for (int i = 0; i < 3; i++, worker->now_ps += 2000000)
        CU_ASSERT_EQUAL(emu_hostif_room(hostif), 0);
    CU_ASSERT_EQUAL(emu_hostif_full_ns(hostif, worker->now_ps), 6000);
    CU_ASSERT_EQUAL(emu_hostif_full_ns(hostif, EMU_REBASE_BY_PS), 0); /* read before it began */
    emu_hostif_rebase(hostif, EMU_REBASE_BY_PS);
    worker->now_ps -= EMU_REBASE_BY_PS;
    CU_ASSERT_EQUAL(emu_hostif_full_ns(hostif, worker->now_ps + 1000), 6001);
    atomic_store(&hostif->shared->down_head, 1);
    CU_ASSERT_EQUAL(emu_hostif_room(hostif), 1);
    CU_ASSERT_EQUAL(emu_hostif_full_ns(hostif, worker->now_ps), 6000);
    worker->now_ps += 5000000;
    CU_ASSERT_EQUAL(emu_hostif_room(hostif), 1);
    CU_ASSERT_EQUAL(emu_hostif_full_ns(hostif, worker->now_ps), 6000);
    emu_hostif_rebase(hostif, EMU_REBASE_BY_PS); /* nothing waits */
    hostif->down_tail++;
    CU_ASSERT_EQUAL(emu_hostif_room(hostif), 0);
    CU_ASSERT_EQUAL(emu_hostif_full_ns(hostif, worker->now_ps + 2000000), 8000);
    emu_hostif_destroy(hostif, &worker->cache);
    close(memfd);
    emu_worker_destroy(worker);
    emu_pool_destroy(pool);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(duration_of_ns__has_three_digits_and_a_unit),
        CASE(duration_of_ns__is_right_to_its_last_digit),
        CASE(duration_unit_of__fits_the_longest_time),
        CASE(waits_sample__equals_the_kernel_s_count),
        CASE(waits_sample__reports_the_wait_before_the_last_sample),
        CASE(waits_sample__failure_loses_nothing),
        CASE(waits_sample__reports_an_ended_process),
        CASE(waits_sample__counts_a_wait_in_progress),
        CASE(waits_sample__ignores_threads_that_do_not_wait),
        CASE(waits_sample__distinguishes_sharing_from_starving),
        CASE(starved_ns__counts_a_part),
        CASE(waits_open__reports_an_invisible_process),
        CASE(hostif_full_ns__counts_the_time_without_space),
        {NULL, NULL},
    };

    return test_run("lateness", cases);
}
