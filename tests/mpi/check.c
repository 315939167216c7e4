/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check.c - checks that MPI computes the right results: all collectives, on the world and on
 * communicators derived from it, in order and several at once; one-sided communication.
 *
 *    mpirun -np 4 mpi_check [--quick | --full] [--strict] [--threads] [--only TEST] [--skip TEST]
 *                           [--part N] [--seed N] [--iterations N] [--timeout SECONDS]
 *
 * --part: one in N of the reductions, selected by the seed. --strict: MPI_MIN and MPI_MAX with the
 * top bit set, too, for the two types that Open MPI 4.1.4 compares with the wrong sign,
 * MPI_UNSIGNED_LONG and MPI_OFFSET; and communicators that are freed while a non-blocking
 * collective is in flight. Every failure prints a line; `--seed` with the printed number replays
 * it.
 */
#include "check.h"
#include "common.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FAILURES_SHOWN 10  /* per rank; further ones are only counted */
#define TIMEOUT_S      900 /* a run that takes longer hangs */
#define PROGRESS_S     10  /* rank 0 prints a line after this time without one */

static const struct {
    const char *name;
    void (*run)(struct check *check, const struct check_comm *comms, size_t count);
} tests[] = {
    {"reductions", check_reductions},
    {"broadcasts", check_broadcasts},
    {"barriers", check_barriers},
    {"in-flight", check_in_flight},
    {"run-ahead", check_run_ahead},
    {"non-blocking", check_nonblocking},
    {"persistent", check_persistent},
    {"blocks", check_blocks},
    {"scans", check_scans},
    {"threads", check_threads},
    {"odds", check_odds},
    {"one-sided", check_onesided},
};
#define TESTS (sizeof tests / sizeof tests[0])
#define TEST_NAMES                                                                             \
    "reductions|broadcasts|barriers|in-flight|run-ahead|non-blocking|persistent|blocks|scans|" \
    "threads|odds|one-sided"

/*
 * Print on rank 0 how long the test has run, because a test takes long on a busy host. Called for
 * each check, by any thread.
 */
static void show_progress(struct check *check, uint64_t passed)
{
    int64_t now_s, shown_s = atomic_load_explicit(&check->shown_s, memory_order_relaxed);

    if (check->rank != 0 || passed % 16)
        return;
    now_s = time(NULL);
    if (now_s - shown_s >= PROGRESS_S &&
        atomic_compare_exchange_strong_explicit(&check->shown_s, &shown_s, now_s,
                                                memory_order_relaxed, memory_order_relaxed))
        fprintf(stderr, "check: %s, %lld s so far\n", check->running,
                (long long)(now_s - check->began_s));
}

bool check_that(struct check *check, bool ok, const char *format, ...)
{
    if (ok) {
        show_progress(check, atomic_fetch_add_explicit(&check->passed, 1, memory_order_relaxed));
        return true;
    }
    if (atomic_fetch_add_explicit(&check->failed, 1, memory_order_relaxed) < FAILURES_SHOWN) {
        char line[256];
        va_list args;

        va_start(args, format);
        vsnprintf(line, sizeof line, format, args);
        va_end(args);
        fprintf(stderr, "check: rank %d: %s (seed %" PRIu64 ")\n", check->rank, line, check->seed);
    }
    return false;
}

uint64_t check_key(struct check *check)
{
    return check_mix(check->seed, check->tests++, 0);
}

void check_epoch(struct check *check)
{
    check->tests = ((check->tests >> 32) + 1) << 32;
}

struct check_comm check_comm_of(const char *name, MPI_Comm comm)
{
    struct check_comm c = {.name = name, .comm = comm};

    MPI_Comm_rank(comm, &c.rank);
    MPI_Comm_size(comm, &c.size);
    return c;
}

void check_sleep_us(uint64_t us)
{
    struct timespec t = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};

    nanosleep(&t, NULL);
}

void *check_alloc(size_t bytes)
{
    void *p = malloc(bytes);

    if (!p)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return p;
}

static void on_alarm(int sig)
{
    static const char line[] =
        "check: --timeout is over: the test after the last one named here hangs\n";

    (void)sig;
    (void)!write(STDERR_FILENO, line, sizeof line - 1);
    _exit(3);
}

static void options(struct check *check, int argc, char **argv)
{
    const struct option_row rows[] = {
        {"quick", NULL, OPTION_FLAG, &check->quick, "fewer cases"},
        {"full", NULL, OPTION_FLAG, &check->full,
         "all types, lengths and roots on all communicators"},
        {"strict", NULL, OPTION_FLAG, &check->strict, "also cases that Open MPI 4.1.4 gets wrong"},
        {"threads", NULL, OPTION_FLAG, &check->threads,
         "use MPI_THREAD_MULTIPLE, and check calls of threads"},
        {"only", TEST_NAMES, OPTION_CHOICE, &check->only, "run one test"},
        {"skip", TEST_NAMES, OPTION_CHOICE, &check->skip, "leave out one test"},
        {"seed", "N", OPTION_NUMBER, &check->seed,
         "seed of random choices (default: the time in seconds)"},
        {"part", "N", OPTION_INT, &check->part,
         "run one in N of the reductions, chosen by the seed"},
        {"iterations", "N", OPTION_INT, &check->iterations,
         "run only the test in-flight, with N rounds"},
        {"timeout", "SECONDS", OPTION_INT, &check->timeout_s,
         "end a run that takes longer (default 900)"},
        {0},
    };

    options_read(rows, argc, argv);
    if (check->iterations)
        check->only = "in-flight";
}

/* Distribute rank 0's seed by messages, since the collectives are under test. */
static void agree_on_seed(struct check *check)
{
    if (check->rank != 0) {
        MPI_Recv(&check->seed, 1, MPI_UINT64_T, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return;
    }
    if (!check->seed)
        check->seed = (uint64_t)time(NULL);
    for (int r = 1; r < check->size; r++)
        MPI_Send(&check->seed, 1, MPI_UINT64_T, r, 0, MPI_COMM_WORLD);
    printf("check: seed %" PRIu64 ", %d ranks\n", check->seed, check->size);
    fflush(stdout);
}

/*
 * Collect all counts by messages. Returns the total of failures on rank 0, the own ones elsewhere.
 */
static uint64_t conclude(struct check *check)
{
    uint64_t counts[2] = {check->passed, check->failed}, others[2];

    if (check->rank != 0) {
        MPI_Send(counts, 2, MPI_UINT64_T, 0, 1, MPI_COMM_WORLD);
        return counts[1];
    }
    for (int r = 1; r < check->size; r++) {
        MPI_Recv(others, 2, MPI_UINT64_T, r, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        counts[0] += others[0];
        counts[1] += others[1];
    }
    printf("check: %" PRIu64 " checks passed, %" PRIu64 " failed\n", counts[0], counts[1]);
    fflush(stdout);
    return counts[1];
}

static void run_tests(struct check *check)
{
    MPI_Comm halves, copy, pairs;

    MPI_Comm_split(MPI_COMM_WORLD, check->rank & 1, -check->rank, &halves); /* ranks reversed */
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_split(MPI_COMM_WORLD, (check->rank + 1) / 2, check->rank, &pairs);

    const struct check_comm comms[] = {
        check_comm_of("the world", MPI_COMM_WORLD), check_comm_of("odd or even, reversed", halves),
        check_comm_of("a duplicate", copy),
        check_comm_of("a pair", pairs), /* overlaps with the halves */
    };

    for (size_t i = 0; i < TESTS; i++) {
        if ((check->only && strcmp(check->only, tests[i].name) != 0) ||
            (check->skip && !strcmp(check->skip, tests[i].name)))
            continue;
        const double start = MPI_Wtime();

        check_epoch(check);
        check->running = tests[i].name;
        check->began_s = time(NULL);
        atomic_store_explicit(&check->shown_s, check->began_s, memory_order_relaxed);
        tests[i].run(check, comms, sizeof comms / sizeof comms[0]);
        if (check->rank == 0)
            fprintf(stderr, "check: %s, %.1f s\n", tests[i].name, MPI_Wtime() - start);
    }
    MPI_Comm_free(&pairs);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&halves);
}

int main(int argc, char **argv)
{
    struct check check = {.timeout_s = TIMEOUT_S};
    int provided;

    options(&check, argc, argv);
    MPI_Init_thread(&argc, &argv, check.threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                    &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &check.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check.size);
    if (check.threads && provided < MPI_THREAD_MULTIPLE) {
        fprintf(stderr, "check: this MPI has no MPI_THREAD_MULTIPLE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    signal(SIGALRM, on_alarm);
    alarm((unsigned)check.timeout_s);
    agree_on_seed(&check);
    run_tests(&check);

    const uint64_t failed = conclude(&check);

    MPI_Finalize();
    return failed ? 1 : 0;
}
