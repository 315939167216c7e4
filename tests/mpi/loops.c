/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loops.c - the loops of osu_latency, osu_allreduce, osu_bcast and osu_barrier. For each loop and
 * each rank it prints the mean, the least and the largest time of an iteration, in ns.
 *
 *    mpirun -np 4 mpi_loops [--iterations N] [--skip N] [--bytes N]
 *
 * As in OSU, the clock is read before and after the call that is timed, and a barrier follows an
 * all-reduce and a broadcast. The loop of osu_latency is a ping-pong of ranks 0 and 1. Only rank 0
 * times it, and the time is half of a round trip. tests/cli/loops_test.py compares the times with
 * those of fabemu traffic.
 */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>

struct test {
    int rank, ranks, iterations, skip, bytes;
    char *in, *out;
};

/* Times of the iterations of a rank. */
struct times {
    double mean_ns, least_ns, most_ns;
};

static void latency(const struct test *test)
{
    for (int from = 0; from < 2 && test->rank < 2; from++)
        if (test->rank == from)
            MPI_Send(test->in, test->bytes, MPI_CHAR, !from, 1, MPI_COMM_WORLD);
        else
            MPI_Recv(test->out, test->bytes, MPI_CHAR, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void allreduce(const struct test *test)
{
    MPI_Allreduce(test->in, test->out, test->bytes, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD);
}

static void bcast(const struct test *test)
{
    MPI_Bcast(test->in, test->bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static void barrier(const struct test *test)
{
    (void)test;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void nothing(const struct test *test)
{
    (void)test;
}

static const struct loop {
    const char *name;
    void (*timed)(const struct test *test);
    void (*after)(const struct test *test);
    double divisor; /* of the time */
    int ranks;      /* how many ranks read the clock; 0: all */
} loops[] = {
    {"latency", latency, nothing, 2, 1},
    {"allreduce", allreduce, barrier, 1, 0},
    {"bcast", bcast, barrier, 1, 0},
    {"barrier", barrier, nothing, 1, 0},
};

static struct times run(const struct test *test, const struct loop *loop)
{
    bool reads = !loop->ranks || test->rank < loop->ranks;
    struct times times = {0, 1e30, 0};
    double began = 0, ns;

    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = -test->skip; i < test->iterations; i++) {
        if (reads)
            began = MPI_Wtime();
        loop->timed(test);
        ns = reads ? (MPI_Wtime() - began) * 1e9 / loop->divisor : 0;
        loop->after(test);
        if (i < 0)
            continue;
        times.mean_ns += ns / test->iterations;
        times.least_ns = ns < times.least_ns ? ns : times.least_ns;
        times.most_ns = ns > times.most_ns ? ns : times.most_ns;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return times;
}

int main(int argc, char **argv)
{
    struct test test = {.iterations = 20, .skip = 2, .bytes = 8};
    const struct option_row rows[] = {
        {"iterations", "N", OPTION_INT, &test.iterations, "iterations that are timed"},
        {"skip", "N", OPTION_INT, &test.skip, "iterations before them"},
        {"bytes", "N", OPTION_INT, &test.bytes, "size of a message or vector"},
        {0}};
    struct times mine, *all;

    options_read(rows, argc, argv);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &test.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test.ranks);
    test.in = calloc(2, (size_t)test.bytes);
    all = calloc((size_t)test.ranks, sizeof *all);
    if (!test.in || !all)
        MPI_Abort(MPI_COMM_WORLD, 1);
    test.out = test.in + test.bytes;
    for (size_t i = 0; i < sizeof loops / sizeof loops[0]; i++) {
        mine = run(&test, &loops[i]);
        MPI_Gather(&mine, 3, MPI_DOUBLE, all, 3, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        for (int r = 0; !test.rank && r < test.ranks; r++)
            printf("loops: %s: rank %d: %.2f ns (%.2f to %.2f)\n", loops[i].name, r, all[r].mean_ns,
                   all[r].least_ns, all[r].most_ns);
    }
    free(all);
    free(test.in);
    MPI_Finalize();
    return 0;
}
