/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compute.c - a program that computes between all-reduces and messages, for the options --compute
 * and --call-ns of fabemu run --clock virtual. Prints its simulated times, and the CPU time of its
 * loops.
 *
 *    mpirun -np 4 mpi_compute [--iterations N] [--loops N] [--tests N] [--tail barrier|exit]
 *
 * --tests: after the iterations, rank 0 computes N times, each time before a call of MPI_Iprobe.
 * --tail: after the iterations, rank 1 sends a message to itself and all ranks make a barrier; or
 * rank 1 exits without MPI_Finalize.
 */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct test {
    int rank, ranks, iterations, loops;
    double cpu_s; /* CPU time of all loops */
    double sum;
};

static double cpu_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Later ranks compute longer. */
static void compute(struct test *test)
{
    double began = cpu_s();
    volatile double sum = test->sum;

    for (int i = 0; i < test->loops * (test->rank + 1); i++)
        sum += 1.0 / (i + 1);
    test->sum = sum;
    test->cpu_s += cpu_s() - began;
}

/* While a message travels around the ring, compute. */
static void ring(struct test *test)
{
    int next = (test->rank + 1) % test->ranks, last = (test->rank + test->ranks - 1) % test->ranks;
    MPI_Request requests[2];
    double received;

    MPI_Irecv(&received, 1, MPI_DOUBLE, last, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&test->sum, 1, MPI_DOUBLE, next, 1, MPI_COMM_WORLD, &requests[1]);
    compute(test);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

/* Nothing arrives. */
static void tests(struct test *test, int count)
{
    double began = MPI_Wtime();
    int arrived;

    for (int i = 0; i < count; i++) {
        compute(test);
        MPI_Iprobe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &arrived, MPI_STATUS_IGNORE);
    }
    printf("tests took %.9f s\n", MPI_Wtime() - began);
}

static void tail(const struct test *test, const char *kind)
{
    int rank = test->rank;

    if (strcmp(kind, "exit") == 0 && rank == 1)
        _exit(3);
    if (strcmp(kind, "barrier") != 0)
        return;
    if (rank == 1)
        MPI_Sendrecv(&rank, 1, MPI_INT, 1, 2, &rank, 1, MPI_INT, 1, 2, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    struct test test = {.iterations = 20, .loops = 10000};
    const char *after = "";
    int count = 0;
    const struct option_row rows[] = {
        {"iterations", "N", OPTION_INT, &test.iterations, "all-reduces, each after computing"},
        {"loops", "N", OPTION_INT, &test.loops, "loops of each computation"},
        {"tests", "N", OPTION_INT, &count, "MPI_Iprobe calls of rank 0 after the iterations"},
        {"tail", "barrier|exit", OPTION_CHOICE, &after,
         "how the program ends after the iterations"},
        {0}};
    double began, most, sum;

    options_read(rows, argc, argv);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &test.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test.ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    began = MPI_Wtime();
    for (int i = 0; i < test.iterations; i++) {
        compute(&test);
        MPI_Allreduce(&test.sum, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        ring(&test);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    began = MPI_Wtime() - began;
    MPI_Reduce(&test.cpu_s, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (count && !test.rank)
        tests(&test, count);
    tail(&test, after);
    if (!test.rank) {
        printf("compute: %d iterations took %.9f s\n", test.iterations, began);
        printf("cpu: %.9f s\n", most);
    }
    MPI_Finalize();
    return EXIT_SUCCESS;
}
