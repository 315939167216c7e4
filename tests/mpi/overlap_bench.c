/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * overlap_bench.c - measure how much of a non-blocking all-reduce runs while the program computes.
 *
 *    mpirun -np 2 overlap_bench [--bytes N] [--rounds N] [--sleep]
 *
 * Each round measures three times: that of the all-reduce alone, that of the computation alone, and
 * that of both when the program computes between MPI_Iallreduce and MPI_Wait. The computation has a
 * fixed amount of work, chosen so that it takes as long as the all-reduce. The overlap is the time
 * saved, as a share of the shorter of the first two times: 1 is ideal, 0 means that both run one
 * after the other.
 *
 * Rounds alternate between the network and Open MPI's own algorithm (libnbc) over messages. With
 * --sleep, the program sleeps instead of computing. It then needs no core, so the network has all
 * cores, as it would on a host with enough cores for the program, the adapters and the switches.
 */
#include "common.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define UNIT 2000 /* multiplications in one unit of work */

struct bench {
    int bytes, rounds;
    bool sleep;
    int rank, size;
    MPI_Comm comm[TRANSPORTS];
    float *in, *out;
};

/* Work for a number of units, or sleep for a time. */
struct work {
    long units;
    double sleep_s;
};

static void compute(const struct bench *b, const struct work *work)
{
    struct timespec time = {.tv_sec = (time_t)work->sleep_s};
    volatile double sink;
    double x = 1.0;

    if (b->sleep) {
        time.tv_nsec = (long)((work->sleep_s - (double)time.tv_sec) * 1e9);
        nanosleep(&time, NULL);
        return;
    }
    for (long i = 0; i < work->units * UNIT; i++)
        x = x * 1.0000001 + 1e-9;
    sink = x;
    (void)sink;
}

/* Return the seconds that the slowest rank needs. @work: NULL: do not compute. */
static double time_one(const struct bench *b, int way, bool reduce, const struct work *work)
{
    MPI_Request request = MPI_REQUEST_NULL;
    double start, mine, slowest;

    MPI_Barrier(b->comm[MESSAGES]);
    start = MPI_Wtime();
    if (reduce)
        MPI_Iallreduce(b->in, b->out, b->bytes / 4, MPI_FLOAT, MPI_SUM, b->comm[way], &request);
    if (work)
        compute(b, work);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    mine = MPI_Wtime() - start;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, b->comm[MESSAGES]);
    return slowest;
}

/* Return the median seconds of all-reduces alone. */
static double time_alone(const struct bench *b, int way)
{
    double *s = samples_alloc(b->rounds), median;

    for (int i = 0; i < b->rounds; i++)
        s[i] = time_one(b, way, true, NULL);
    median = samples_sort(s, b->rounds);
    free(s);
    return median;
}

/* Return work that takes @target_s. All ranks get the same. */
static struct work work_for(const struct bench *b, double target_s)
{
    struct work work = {.units = 1, .sleep_s = target_s};
    double s = 0;

    if (b->sleep)
        return work;
    while ((s = time_one(b, NETWORK, false, &work)) < target_s && work.units < 1 << 28)
        work.units *= 2;
    work.units = (long)((double)work.units * target_s / s) + 1;
    return work;
}

static void measure(const struct bench *b)
{
    static const char *const names[TRANSPORTS] = {"network", "messages"};
    double *s[TRANSPORTS][4];
    struct work work[TRANSPORTS];

    for (int way = 0; way < TRANSPORTS; way++) {
        for (int i = 0; i < 4; i++)
            s[way][i] = samples_alloc(b->rounds);
        time_alone(b, way); /* warm up */
        work[way] = work_for(b, time_alone(b, way));
    }
    for (int round = 0; round < b->rounds; round++) {
        for (int way = 0; way < TRANSPORTS; way++) {
            double reduce = time_one(b, way, true, NULL);
            double computing = time_one(b, way, false, &work[way]);
            double both = time_one(b, way, true, &work[way]);
            double shorter = reduce < computing ? reduce : computing;

            s[way][0][round] = reduce * 1e6;
            s[way][1][round] = computing * 1e6;
            s[way][2][round] = both * 1e6;
            s[way][3][round] = (reduce + computing - both) / shorter;
        }
    }
    for (int way = 0; way < TRANSPORTS; way++) {
        double median[4];

        for (int i = 0; i < 4; i++)
            median[i] = samples_sort(s[way][i], b->rounds);
        if (b->rank == 0)
            printf("{\"ranks\":%d,\"bytes\":%d,\"over\":\"%s\",\"computes\":%s,\"reduce_us\":%.1f,"
                   "\"compute_us\":%.1f,\"both_us\":%.1f,\"overlap\":%.3f,\"least\":%.3f,"
                   "\"most\":%.3f}\n",
                   b->size, b->bytes, names[way], b->sleep ? "false" : "true", median[0], median[1],
                   median[2], median[3], s[way][3][0], s[way][3][b->rounds - 1]);
        for (int i = 0; i < 4; i++)
            free(s[way][i]);
    }
}

int main(int argc, char **argv)
{
    struct bench b = {.bytes = 1 << 20, .rounds = 21};
    const struct option_row rows[] = {
        {"bytes", "N", OPTION_INT, &b.bytes, "size of the vector"},
        {"rounds", "N", OPTION_INT, &b.rounds, "rounds over the network, and over messages"},
        {"sleep", NULL, OPTION_FLAG, &b.sleep, "sleep instead of computing"},
        {0},
    };

    options_read(rows, argc, argv);
    if (b.rounds < 1 || b.bytes < 4)
        options_error(argv[0], "--rounds must be at least 1, and --bytes at least 4");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &b.size);
    b.in = calloc(1, (size_t)b.bytes);
    b.out = calloc(1, (size_t)b.bytes);
    if (!b.in || !b.out)
        MPI_Abort(MPI_COMM_WORLD, 1);
    transports_open(b.comm, true);
    measure(&b);
    transports_close(b.comm);
    free(b.out);
    free(b.in);
    MPI_Finalize();
    return 0;
}
