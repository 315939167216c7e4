/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pingpong_bench.c - latency and bandwidth of messages between ranks 0 and 1.
 *
 *    mpirun -np 2 pingpong_bench [--bytes N] [--iterations N] [--json]
 *
 * Latency: half of a round trip, the median over the trips. Bandwidth: a window of messages, then a
 * short message back; the median over the windows. Further ranks wait in a receive.
 */
#include "common.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW     32        /* messages in flight */
#define MOST_BYTES (4 << 20) /* of the list of sizes */
#define WARMUP     20
#define TAG_DATA   1
#define TAG_WORD   2

struct bench {
    int bytes; /* -1: a list */
    int iterations;
    bool json;
    int rank;
    char *buf; /* one for all: the contents do not matter */
};

static double latency_us(const struct bench *b, int bytes, double *samples, int n)
{
    for (int i = -WARMUP; i < n; i++) {
        const double start = MPI_Wtime();

        if (b->rank == 0) {
            MPI_Send(b->buf, bytes, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD);
            MPI_Recv(b->buf, bytes, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(b->buf, bytes, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(b->buf, bytes, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD);
        }
        if (i >= 0)
            samples[i] = (MPI_Wtime() - start) * 1e6 / 2;
    }
    return samples_sort(samples, n);
}

static double bandwidth_mb_per_s(const struct bench *b, int bytes, double *samples, int n)
{
    MPI_Request requests[WINDOW];
    char word = 0;

    for (int i = -2; i < n; i++) {
        const double start = MPI_Wtime();

        for (int w = 0; w < WINDOW; w++)
            if (b->rank == 0)
                MPI_Isend(b->buf, bytes, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, &requests[w]);
            else
                MPI_Irecv(b->buf + (size_t)w * (size_t)bytes, bytes, MPI_BYTE, 0, TAG_DATA,
                          MPI_COMM_WORLD, &requests[w]);
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        if (b->rank == 0)
            MPI_Recv(&word, 1, MPI_BYTE, 1, TAG_WORD, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(&word, 1, MPI_BYTE, 0, TAG_WORD, MPI_COMM_WORLD);
        if (i >= 0)
            samples[i] = (double)bytes * WINDOW / (MPI_Wtime() - start) / 1e6;
    }
    return samples_sort(samples, n);
}

/* Large messages take fewer repetitions: about the same bytes for each size. */
static int repetitions(const struct bench *b, int bytes)
{
    const int fewer = b->iterations / (1 + bytes / 4096);

    return fewer < 20 ? 20 : fewer;
}

static void measure(const struct bench *b, int bytes)
{
    const int trips = repetitions(b, bytes), windows = trips / 10 + 5;
    double *samples = samples_alloc(trips > windows ? trips : windows);
    const double us = latency_us(b, bytes, samples, trips);
    const double mb = bandwidth_mb_per_s(b, bytes, samples, windows);

    free(samples);
    if (b->rank != 0)
        return;
    printf(b->json
               ? "{\"bench\":\"pingpong\",\"bytes\":%d,\"trips\":%d,\"windows\":%d,\"latency_us\":%"
                 ".3f,"
                 "\"bandwidth_mb_per_s\":%.1f}\n"
               : "pingpong %8d bytes, %5d trips, %4d windows: half round trip %.2f us, %.1f MB/s\n",
           bytes, trips, windows, us, mb);
    fflush(stdout);
}

static void options(struct bench *b, int argc, char **argv)
{
    const struct option_row rows[] = {
        {"bytes", "N", OPTION_INT, &b->bytes, "size of a message"},
        {"iterations", "N", OPTION_INT, &b->iterations, "round trips"},
        {"json", NULL, OPTION_FLAG, &b->json, "print JSON"},
        {0},
    };

    options_read(rows, argc, argv);
    if (b->iterations < 1)
        options_error(argv[0], "--iterations must be at least 1");
}

static void measure_all(const struct bench *b)
{
    if (b->bytes >= 0) {
        measure(b, b->bytes);
        return;
    }
    for (int bytes = 1; bytes <= MOST_BYTES; bytes *= bytes < 8 ? 8 : 4)
        measure(b, bytes);
}

int main(int argc, char **argv)
{
    struct bench b = {.bytes = -1, .iterations = 2000};
    int size;
    char word = 0;

    options(&b, argc, argv);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 2) {
        fprintf(stderr, "pingpong_bench: needs two ranks, mpirun -np 2\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    b.buf = calloc(WINDOW, (size_t)(b.bytes >= 0 ? b.bytes : MOST_BYTES) + 1);
    if (!b.buf)
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (b.rank < 2)
        measure_all(&b);
    for (int r = 2; b.rank == 0 && r < size; r++)
        MPI_Send(&word, 1, MPI_BYTE, r, TAG_WORD, MPI_COMM_WORLD);
    if (b.rank >= 2)
        MPI_Recv(&word, 1, MPI_BYTE, 0, TAG_WORD, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    free(b.buf);
    MPI_Finalize();
    return 0;
}
