/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pairs_bench.c - bandwidth of pairs of ranks that all send at the same time.
 *
 *    mpirun -np 8 pairs_bench [--bytes N] [--windows N] [--json]
 *
 * Rank i of the first half sends windows of messages to rank i + half, which sends a short message
 * back for each window. The result is all bytes divided by the time from the first pair's start to
 * the last one's end.
 *
 * Each rank also reports the kernel's count for its first thread, from MPI_Init to MPI_Finalize:
 * how long it was ready to run but had no core. With more ranks than cores this wait determines the
 * bandwidth, not the network.
 */
#include "common.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IN_FLIGHT 32 /* messages of a window */
#define WARMUP    2  /* windows */
#define TAG_DATA  1
#define TAG_WORD  2

struct bench {
    int bytes;
    int windows;
    bool json;
    int rank;
    int pairs;
    char *buf; /* one for all: the contents do not matter */
};

/* Nanoseconds for which the process's first thread has waited for a core; 0: not counted. */
static unsigned long long waited_ns(void)
{
    unsigned long long ran, waited = 0;
    FILE *file = fopen("/proc/self/schedstat", "r");

    if (file && fscanf(file, "%llu %llu", &ran, &waited) != 2)
        waited = 0;
    if (file)
        fclose(file);
    return waited;
}

static void send_window(const struct bench *b)
{
    MPI_Request request[IN_FLIGHT];
    char word;

    for (int i = 0; i < IN_FLIGHT; i++)
        MPI_Isend(b->buf, b->bytes, MPI_BYTE, b->rank + b->pairs, TAG_DATA, MPI_COMM_WORLD,
                  &request[i]);
    MPI_Waitall(IN_FLIGHT, request, MPI_STATUSES_IGNORE);
    MPI_Recv(&word, 1, MPI_BYTE, b->rank + b->pairs, TAG_WORD, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void receive_window(const struct bench *b)
{
    MPI_Request request[IN_FLIGHT];
    char word = 0;

    for (int i = 0; i < IN_FLIGHT; i++)
        MPI_Irecv(b->buf, b->bytes, MPI_BYTE, b->rank - b->pairs, TAG_DATA, MPI_COMM_WORLD,
                  &request[i]);
    MPI_Waitall(IN_FLIGHT, request, MPI_STATUSES_IGNORE);
    MPI_Send(&word, 1, MPI_BYTE, b->rank - b->pairs, TAG_WORD, MPI_COMM_WORLD);
}

/* Seconds for all windows of all pairs. */
static double measure(const struct bench *b)
{
    double start = 0, took, most;

    for (int i = -WARMUP; i < b->windows; i++) {
        if (i == 0) {
            MPI_Barrier(MPI_COMM_WORLD);
            start = MPI_Wtime();
        }
        if (b->rank < b->pairs)
            send_window(b);
        else if (b->rank < 2 * b->pairs)
            receive_window(b);
    }
    took = MPI_Wtime() - start;
    MPI_Reduce(&took, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    return most;
}

static void print(const struct bench *b, double took_s, unsigned long long waited)
{
    double bytes = (double)b->bytes * IN_FLIGHT * b->windows * b->pairs;

    if (b->json)
        printf("{\"bench\":\"pairs\",\"pairs\":%d,\"bytes\":%d,\"mb_per_s\":%.1f,\"waited_ns\":%"
               "llu}\n",
               b->pairs, b->bytes, bytes / took_s / 1e6, waited);
    else
        printf("pairs     %4d of %d bytes: %.1f MB/s; ranks waited %.3f s for cores\n", b->pairs,
               b->bytes, bytes / took_s / 1e6, (double)waited / 1e9);
}

static void options(struct bench *b, int argc, char **argv)
{
    const struct option_row rows[] = {
        {"bytes", "N", OPTION_INT, &b->bytes, "size of a message"},
        {"windows", "N", OPTION_INT, &b->windows, "windows of messages that a rank sends"},
        {"json", NULL, OPTION_FLAG, &b->json, "print JSON"},
        {0},
    };

    options_read(rows, argc, argv);
    if (b->bytes < 1 || b->windows < 1)
        options_error(argv[0], "--bytes and --windows must be at least 1");
}

int main(int argc, char **argv)
{
    struct bench b = {.bytes = 65536, .windows = 20};
    unsigned long long before, waited, all = 0;
    double took_s;
    int ranks;

    options(&b, argc, argv);
    MPI_Init(&argc, &argv);
    before = waited_ns();
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    b.pairs = ranks / 2;
    if (!b.pairs) {
        fprintf(stderr, "pairs_bench: needs two ranks, mpirun -np 2\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    b.buf = calloc(1, (size_t)b.bytes);
    if (!b.buf)
        MPI_Abort(MPI_COMM_WORLD, 1);
    took_s = measure(&b);
    waited = waited_ns() - before;
    MPI_Reduce(&waited, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (b.rank == 0)
        print(&b, took_s, all);
    free(b.buf);
    MPI_Finalize();
    return 0;
}
