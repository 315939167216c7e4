/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * simtime.c - what a program sees of simulated time (fabemu run --clock virtual). Prints times of
 * messages and collectives, which must be equal in each run, and checks the program's clocks.
 *
 *    mpirun -np 4 mpi_simtime [--iterations N] [--sleep S] [--date D]
 *
 * With --sleep all ranks first sleep for S seconds of simulated time. With --date they check that
 * their clocks begin at D seconds since 1970.
 */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define BYTES_MOST (3 << 19) /* more than a process can post at once */

struct test {
    struct checks checks;
    int ranks, iterations, sleep_s, date_s;
    char *data;
};

/* Rank 0 exchanges messages with the last rank, in turns. */
static void pingpong(struct test *test, int bytes)
{
    int peer = test->checks.rank ? 0 : test->ranks - 1;
    double began;

    MPI_Barrier(MPI_COMM_WORLD);
    began = MPI_Wtime();
    for (int i = 0;
         i < test->iterations && (!test->checks.rank || test->checks.rank == test->ranks - 1);
         i++) {
        if (!test->checks.rank)
            MPI_Send(test->data, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
        MPI_Recv(test->data, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (test->checks.rank)
            MPI_Send(test->data, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
    }
    if (!test->checks.rank)
        printf("simtime: message of %d bytes: %.4f us\n", bytes,
               (MPI_Wtime() - began) * 1e6 / test->iterations / 2);
}

static void allreduce(struct test *test)
{
    double mine = 1, sum = 0, began;

    MPI_Barrier(MPI_COMM_WORLD);
    began = MPI_Wtime();
    for (int i = 0; i < test->iterations; i++)
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    checks_that(&test->checks, sum == test->ranks, "the sum of an all-reduce");
    if (!test->checks.rank)
        printf("simtime: all-reduce of 8 bytes: %.4f us\n",
               (MPI_Wtime() - began) * 1e6 / test->iterations);
}

/* Each rank exchanges long messages with both neighbours at once, so rings become full. */
static void exchange(struct test *test)
{
    int next = (test->checks.rank + 1) % test->ranks,
        last = (test->checks.rank + test->ranks - 1) % test->ranks;
    MPI_Request requests[4];
    double began, took;
    char *in = malloc(2 * (size_t)BYTES_MOST);

    if (!in)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    began = MPI_Wtime();
    MPI_Irecv(in, BYTES_MOST, MPI_BYTE, last, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(in + BYTES_MOST, BYTES_MOST, MPI_BYTE, next, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(test->data, BYTES_MOST, MPI_BYTE, next, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(test->data, BYTES_MOST, MPI_BYTE, last, 2, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    took = MPI_Wtime() - began;
    free(in);
    MPI_Reduce(&took, &began, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (!test->checks.rank)
        printf("simtime: exchange of %d bytes with both neighbours: %.4f us\n", BYTES_MOST,
               began * 1e6 / test->ranks);
}

/* A message in a ring carries the time of its send, which must be before that of its receive. */
static void lamport(struct test *test)
{
    int next = (test->checks.rank + 1) % test->ranks,
        last = (test->checks.rank + test->ranks - 1) % test->ranks;
    double sent = MPI_Wtime(), received, before = sent;

    for (int i = 0; i < test->iterations; i++) {
        MPI_Sendrecv(&sent, 1, MPI_DOUBLE, next, 1, &received, 1, MPI_DOUBLE, last, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sent = MPI_Wtime();
        if (sent <= received || sent <= before)
            break;
        before = sent;
    }
    checks_that(&test->checks, sent > received, "a message is received after it was sent");
    checks_that(&test->checks, sent >= before, "the clock does not go back");
}

/* Sleeping and spinning take as long as the program requests, in simulated time. */
static void sleeps(struct test *test)
{
    double began = MPI_Wtime(), slept, waited;
    int arrived = 0;

    usleep(250000);
    slept = MPI_Wtime() - began;
    checks_that(&test->checks, slept >= 0.25 && slept < 0.2501, "usleep() takes its time");
    began = MPI_Wtime();
    while (MPI_Wtime() - began < 0.0001)
        MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &arrived, MPI_STATUS_IGNORE);
    waited = MPI_Wtime() - began;
    checks_that(&test->checks, waited < 0.000101 && !arrived, "a limit on polling ends it");
}

#define TESTS 1000

/*
 * A test takes at most 0.1 us, although nothing arrives, so a program may compute between tests.
 * Meanwhile the sender sleeps. A loop of tests ends when the message arrives.
 */
static void tests(struct test *test)
{
    int next = (test->checks.rank + 1) % test->ranks, done = 0, arrived = 0;
    double began, took;
    MPI_Request request;
    char in, out = 1;

    MPI_Irecv(&in, 1, MPI_BYTE, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    began = MPI_Wtime();
    if (test->checks.rank) {
        usleep(2000);
    } else {
        for (int i = 0; i < TESTS; i++) {
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
            MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &arrived, MPI_STATUS_IGNORE);
        }
        took = MPI_Wtime() - began;
        checks_that(&test->checks, took < 2e-7 * TESTS && !done && !arrived, "tests do not wait");
    }
    MPI_Send(&out, 1, MPI_BYTE, next, 2, MPI_COMM_WORLD);
    while (!done)
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    took = MPI_Wtime() - began;
    checks_that(&test->checks, took < 0.0021, "a loop of tests ends when the message arrives");
}

/* MPI_Win_test is a test, too. Meanwhile the origin sleeps. */
static void window_tests(struct test *test)
{
    int other = !test->checks.rank, done = 0;
    double began;
    MPI_Group all, group;
    MPI_Win window;
    char *memory;

    MPI_Win_allocate(1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &other, &group);
    MPI_Barrier(MPI_COMM_WORLD);
    if (test->checks.rank == 1) {
        usleep(2000);
        MPI_Win_start(group, 0, window);
        MPI_Win_complete(window);
    } else if (!test->checks.rank) {
        MPI_Win_post(group, 0, window);
        began = MPI_Wtime();
        for (int i = 0; i < TESTS && !done; i++)
            MPI_Win_test(window, &done);
        checks_that(&test->checks, MPI_Wtime() - began < 2e-7 * TESTS && !done,
                    "tests of a window do not wait");
        if (!done)
            MPI_Win_wait(window);
    }
    MPI_Group_free(&group);
    MPI_Group_free(&all);
    MPI_Win_free(&window);
}

/* Accesses to shared memory take no simulated time; only the barriers in the fences do. */
static void shared_window(struct test *test)
{
    int next = (test->checks.rank + 1) % test->ranks, got = -1, unit, *own, *theirs;
    double began, took;
    MPI_Aint bytes;
    MPI_Win window;

    MPI_Win_allocate_shared(sizeof *own, sizeof *own, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &window);
    MPI_Win_shared_query(window, next, &bytes, &unit, &theirs);
    MPI_Win_fence(0, window);
    *own = test->checks.rank;
    MPI_Win_fence(0, window);
    began = MPI_Wtime();
    for (int i = 0; i < TESTS; i++)
        MPI_Get(&got, 1, MPI_INT, next, 0, 1, MPI_INT, window);
    took = MPI_Wtime() - began;
    MPI_Win_fence(0, window);
    checks_that(&test->checks, took < 1e-7, "shared memory costs no time");
    checks_that(&test->checks, got == next && *theirs == next, "the data in shared memory");
    MPI_Win_free(&window);
}

#define ROUNDS 5

/* All other ranks send to rank 0 at once. Rank 0 prints the order of their messages, and times. */
static void any_source(struct test *test)
{
    MPI_Status status;
    double sent;

    for (int i = 0; i < ROUNDS; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        sent = MPI_Wtime();
        if (test->checks.rank)
            MPI_Send(&sent, 1, MPI_DOUBLE, 0, 3, MPI_COMM_WORLD);
        else
            printf("simtime: received from any source:");
        for (int r = 1; r < test->ranks && !test->checks.rank; r++) {
            MPI_Recv(&sent, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &status);
            printf(" %d sent at %.4f us", status.MPI_SOURCE, sent * 1e6);
        }
        if (!test->checks.rank)
            putchar('\n');
    }
}

#define MANY_TESTS 5100

/* After many tests without success each waits, but not for long. MPI_Iprobe polls twice. */
static void many_tests(struct test *test)
{
    double began;
    int arrived;

    MPI_Barrier(MPI_COMM_WORLD);
    began = MPI_Wtime();
    for (int i = 0; i < MANY_TESTS && !test->checks.rank; i++)
        MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &arrived, MPI_STATUS_IGNORE);
    checks_that(&test->checks, MPI_Wtime() - began < 0.01, "tests wait briefly");
    MPI_Barrier(MPI_COMM_WORLD);
}

static double seconds(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Check the date. Called less than 1 ms after time 0. */
static void date(struct test *test)
{
    double since = seconds(CLOCK_REALTIME) - test->date_s;
    struct timeval now;

    gettimeofday(&now, NULL);
    checks_that(&test->checks, since >= 0 && since < 0.001, "the date at time 0 is that of --date");
    checks_that(&test->checks, time(NULL) == test->date_s && now.tv_sec == test->date_s,
                "time() and gettimeofday() show this date");
}

/* The wall time and the monotonic time advance together. */
static void clocks(struct test *test)
{
    double monotonic = seconds(CLOCK_MONOTONIC), real = seconds(CLOCK_REALTIME), moved;

    MPI_Barrier(MPI_COMM_WORLD);
    moved = seconds(CLOCK_REALTIME) - real - (seconds(CLOCK_MONOTONIC) - monotonic);
    checks_that(&test->checks, moved > -1e-5 && moved < 1e-5, "both clocks advance together");
    checks_that(&test->checks, time(NULL) == (time_t)seconds(CLOCK_REALTIME), "time() is in step");
}

int main(int argc, char **argv)
{
    struct test test = {.checks = {.program = "simtime"}, .iterations = 200};
    const struct option_row rows[] = {{"iterations", "N", OPTION_INT, &test.iterations,
                                       "calls that are timed"},
                                      {"sleep", "S", OPTION_INT, &test.sleep_s,
                                       "simulated seconds for which all ranks sleep first"},
                                      {"date", "D", OPTION_INT, &test.date_s,
                                       "the expected start of the clocks, in seconds since 1970"},
                                      {0}};
    int status;

    options_read(rows, argc, argv);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &test.checks.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test.ranks);
    test.data = calloc(1, BYTES_MOST);
    if (!test.data)
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (test.date_s)
        date(&test);
    sleep((unsigned)test.sleep_s);
    for (int bytes = 8; bytes <= 1 << 18; bytes *= 32)
        pingpong(&test, bytes);
    allreduce(&test);
    exchange(&test);
    lamport(&test);
    clocks(&test);
    sleeps(&test);
    tests(&test);
    window_tests(&test);
    shared_window(&test);
    any_source(&test);
    many_tests(&test);
    status = checks_sum(&test.checks);
    free(test.data);
    MPI_Finalize();
    return status;
}
