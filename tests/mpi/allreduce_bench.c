/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * allreduce_bench.c - latency of barrier, all-reduce, broadcast and reduce.
 *
 *    mpirun -np 4 allreduce_bench [--op NAME] [--bytes N] [--iterations N] [--warmup N] [--json]
 *
 * Every rank times every call; a call's latency is the mean over the ranks, and the result is the
 * median over the calls. Each broadcast or reduce has the next rank as its root, which must have
 * received the previous result: otherwise a root would run ahead, and we would measure how fast it
 * can post. Rejected: a barrier before each broadcast; with more ranks than cores the data arrives
 * before its reader gets a core.
 */
#include "common.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bench {
    const char *op; /* NULL: all */
    int bytes;      /* of all-reduce and reduce (sum of doubles), and broadcast */
    int iterations;
    int warmup;
    bool json;
    int rank;
    int size;
    double *in, *out; /* of @bytes each */
};

static void do_barrier(const struct bench *b, int call)
{
    (void)b;
    (void)call;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void do_allreduce(const struct bench *b, int call)
{
    (void)call;
    MPI_Allreduce(b->in, b->out, b->bytes / (int)sizeof(double), MPI_DOUBLE, MPI_SUM,
                  MPI_COMM_WORLD);
}

static void do_bcast(const struct bench *b, int call)
{
    MPI_Bcast(b->out, b->bytes, MPI_BYTE, call % b->size, MPI_COMM_WORLD);
}

static void do_reduce(const struct bench *b, int call)
{
    MPI_Reduce(b->in, b->out, b->bytes / (int)sizeof(double), MPI_DOUBLE, MPI_SUM, call % b->size,
               MPI_COMM_WORLD);
}

static const struct {
    const char *name;
    void (*run)(const struct bench *b, int call);
    bool has_bytes;
} ops[] = {
    {"barrier", do_barrier, false},
    {"allreduce", do_allreduce, true},
    {"bcast", do_bcast, true},
    {"reduce", do_reduce, true},
};
#define OPS (sizeof ops / sizeof ops[0])

static void print(const struct bench *b, size_t op, const double *us, double mean_us)
{
    const int n = b->iterations;
    const int bytes = ops[op].has_bytes ? b->bytes : 0;

    printf(b->json
               ? "{\"bench\":\"%s\",\"ranks\":%d,\"bytes\":%d,\"iterations\":%d,\"median_us\":%.3f,"
                 "\"mean_us\":%.3f,\"min_us\":%.3f,\"p90_us\":%.3f}\n"
               : "%-10s %3d ranks %8d bytes %7d calls: median %.2f us, mean %.2f, least %.2f, 90%% "
                 "within %.2f\n",
           ops[op].name, b->size, bytes, n, us[n / 2], mean_us, us[0], us[n * 9 / 10]);
    fflush(stdout);
}

static void measure(const struct bench *b, size_t op)
{
    double *mine = samples_alloc(b->iterations), *sums = samples_alloc(b->iterations);
    double total = 0;

    for (int i = -b->warmup; i < b->iterations; i++) {
        const double start = MPI_Wtime();

        ops[op].run(b, i + b->warmup);
        if (i >= 0)
            mine[i] = (MPI_Wtime() - start) * 1e6;
    }
    MPI_Reduce(mine, sums, b->iterations, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    for (int i = 0; i < b->iterations; i++)
        total += sums[i] /= b->size;
    samples_sort(sums, b->iterations);
    if (b->rank == 0)
        print(b, op, sums, total / b->iterations);
    free(sums);
    free(mine);
}

static void options(struct bench *b, int argc, char **argv)
{
    const struct option_row rows[] = {
        {"op", "barrier|allreduce|bcast|reduce", OPTION_CHOICE, &b->op,
         "the collective (default allreduce)"},
        {"bytes", "N", OPTION_INT, &b->bytes, "size of the data"},
        {"iterations", "N", OPTION_INT, &b->iterations, "timed calls"},
        {"warmup", "N", OPTION_INT, &b->warmup, "calls before the timed ones"},
        {"json", NULL, OPTION_FLAG, &b->json, "print JSON"},
        {0},
    };

    options_read(rows, argc, argv);
    if (b->iterations < 1 || b->bytes < (int)sizeof(double))
        options_error(argv[0], "--iterations must be at least 1, and --bytes at least 8");
}

int main(int argc, char **argv)
{
    struct bench b = {.bytes = 8, .iterations = 2000, .warmup = 200};

    options(&b, argc, argv);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &b.size);
    b.in = calloc(1, (size_t)b.bytes);
    b.out = calloc(1, (size_t)b.bytes);
    if (!b.in || !b.out)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (size_t op = 0; op < OPS; op++) {
        if (b.op && strcmp(b.op, ops[op].name) != 0)
            continue;
        measure(&b, op);
    }
    free(b.out);
    free(b.in);
    MPI_Finalize();
    return 0;
}
