/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compare_bench.c - compare collectives in the network with the same collectives over messages.
 *
 *    mpirun -np 4 compare_bench [--rounds N] [--call-ms N] [--only COLLECTIVE] [--alone]
 *    mpirun -np 4 compare_bench --calls COLLECTIVE:BYTES[,...]
 *
 * Two communicators have the same members. The collectives of the second one use messages. Each
 * round times both, one after the other. A machine's speed drifts, so only ratios within one round
 * are used. Prints one line of JSON for each collective, size and pattern; scripts/slower makes
 * apps/ompi/slower.def from them.
 *
 * Patterns: "step" has a barrier over messages after each call, as in programs that work in steps.
 * "flow" has none, and the next rank is the root of the next call.
 *
 * With --alone, both communicators use whatever Open MPI selects, for runs without fabemu. With
 * --calls, each of the collectives is called once on the first communicator, and nothing is timed.
 */
#include "common.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES (4 << 20)

struct bench {
    int rounds;
    int call_ms;       /* minimum time of all calls of one round */
    const char *only;  /* NULL, or the name of the only collective to measure */
    const char *calls; /* NULL, or the only calls to make: COLLECTIVE:BYTES,... */
    bool alone;        /* the program does not run over fabemu */
    int rank, size;
    MPI_Comm comm[TRANSPORTS];
    float *in, *out; /* MOST_BYTES each */
};

struct pattern {
    const char *name;
    bool steps;
};

static const struct pattern patterns[] = {{"step", true}, {"flow", false}};

/* @bytes: size of all data. */
typedef void call_fn(const struct bench *b, MPI_Comm comm, int bytes, int root);

static void call_barrier(const struct bench *b, MPI_Comm comm, int bytes, int root)
{
    (void)b;
    (void)bytes;
    (void)root;
    MPI_Barrier(comm);
}

static void call_broadcast(const struct bench *b, MPI_Comm comm, int bytes, int root)
{
    MPI_Bcast(b->out, bytes, MPI_BYTE, root, comm);
}

static void call_reduce(const struct bench *b, MPI_Comm comm, int bytes, int root)
{
    MPI_Reduce(b->in, b->out, bytes / 4, MPI_FLOAT, MPI_SUM, root, comm);
}

static void call_allreduce(const struct bench *b, MPI_Comm comm, int bytes, int root)
{
    (void)root;
    MPI_Allreduce(b->in, b->out, bytes / 4, MPI_FLOAT, MPI_SUM, comm);
}

static void call_allgather(const struct bench *b, MPI_Comm comm, int bytes, int root)
{
    (void)root;
    MPI_Allgather(b->in, bytes / b->size, MPI_BYTE, b->out, bytes / b->size, MPI_BYTE, comm);
}

static void call_reduce_scatter(const struct bench *b, MPI_Comm comm, int bytes, int root)
{
    (void)root;
    MPI_Reduce_scatter_block(b->in, b->out, bytes / 4 / b->size, MPI_FLOAT, MPI_SUM, comm);
}

static void call_gather(const struct bench *b, MPI_Comm comm, int bytes, int root)
{
    MPI_Gather(b->in, bytes / b->size, MPI_BYTE, b->out, bytes / b->size, MPI_BYTE, root, comm);
}

static void call_scatter(const struct bench *b, MPI_Comm comm, int bytes, int root)
{
    MPI_Scatter(b->in, bytes / b->size, MPI_BYTE, b->out, bytes / b->size, MPI_BYTE, root, comm);
}

static void call_scan(const struct bench *b, MPI_Comm comm, int bytes, int root)
{
    (void)root;
    MPI_Scan(b->in, b->out, bytes / 4 / b->size, MPI_FLOAT, MPI_SUM, comm);
}

static void call_alltoall(const struct bench *b, MPI_Comm comm, int bytes, int root)
{
    const int block = bytes / b->size / b->size;

    (void)root;
    MPI_Alltoall(b->in, block, MPI_BYTE, b->out, block, MPI_BYTE, comm);
}

static const struct collective {
    const char *name;
    call_fn *call;
    bool has_bytes;
    bool is_one_way; /* a rank may end its call before another one has begun */
    int divided;     /* a rank has 1 / size of the bytes (1), or a block 1 / size^2 of them (2) */
} collectives[] = {
    {"BARRIER", call_barrier, false, false, 0},
    {"BROADCAST", call_broadcast, true, true, 0},
    {"REDUCE", call_reduce, true, true, 0},
    {"ALLREDUCE", call_allreduce, true, false, 0},
    {"ALLGATHER", call_allgather, true, false, 1},
    {"REDUCE_SCATTER", call_reduce_scatter, true, false, 1},
    {"GATHER", call_gather, true, true, 1},
    {"SCATTER", call_scatter, true, true, 1},
    {"SCAN", call_scan, true, true, 1},
    {"ALLTOALL", call_alltoall, true, false, 2},
};

/* Seconds that the slowest rank needs for @calls calls. */
static double time_calls(const struct bench *b, const struct collective *coll,
                         const struct pattern *pattern, int way, int bytes, int calls)
{
    double start, mine, slowest;

    MPI_Barrier(b->comm[MESSAGES]);
    start = MPI_Wtime();
    for (int i = 0; i < calls; i++) {
        coll->call(b, b->comm[way], bytes, pattern->steps ? 0 : i % b->size);
        if (pattern->steps)
            MPI_Barrier(b->comm[MESSAGES]);
    }
    mine = MPI_Wtime() - start;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, b->comm[MESSAGES]);
    return slowest;
}

/* The number of calls for which messages need call_ms; the same on all ranks. Warms up both. */
static int calls_needed(const struct bench *b, const struct collective *coll,
                        const struct pattern *pattern, int bytes)
{
    int calls = 2;

    time_calls(b, coll, pattern, NETWORK, bytes, 2);
    for (;;) {
        double s = time_calls(b, coll, pattern, MESSAGES, bytes, calls);

        if (s * 1e3 >= b->call_ms || calls >= 1 << 16)
            return calls;
        calls *= 2;
    }
}

static void measure(const struct bench *b, const struct collective *coll,
                    const struct pattern *pattern, int bytes)
{
    int calls = calls_needed(b, coll, pattern, bytes);
    double *us[TRANSPORTS] = {samples_alloc(b->rounds), samples_alloc(b->rounds)};
    double *ratio = samples_alloc(b->rounds);

    for (int i = 0; i < b->rounds; i++) {
        for (int step = 0; step < TRANSPORTS; step++) {
            int way = (step + i) % TRANSPORTS;

            us[way][i] = time_calls(b, coll, pattern, way, bytes, calls) * 1e6 / calls;
        }
        ratio[i] = us[NETWORK][i] / us[MESSAGES][i];
    }
    if (b->rank == 0) {
        printf("{\"collective\":\"%s\",\"pattern\":\"%s\",\"ranks\":%d,\"bytes\":%d,"
               "\"network_us\":%.2f,\"messages_us\":%.2f,\"ratio\":%.3f",
               coll->name, pattern->name, b->size, bytes, samples_sort(us[NETWORK], b->rounds),
               samples_sort(us[MESSAGES], b->rounds), samples_sort(ratio, b->rounds));
        printf(",\"least\":%.3f,\"most\":%.3f}\n", ratio[0], ratio[b->rounds - 1]);
        fflush(stdout);
    }
    free(ratio);
    free(us[MESSAGES]);
    free(us[NETWORK]);
}

/* The smallest size of all data: four bytes for a rank, or one byte for each pair of ranks. */
static int least_bytes(const struct bench *b, const struct collective *coll)
{
    return coll->divided == 2 ? b->size * b->size : coll->divided ? 4 * b->size : 0;
}

static void measure_all(const struct bench *b)
{
    for (size_t c = 0; c < sizeof collectives / sizeof collectives[0]; c++) {
        const struct collective *coll = &collectives[c];

        if (b->only && strcmp(b->only, coll->name) != 0)
            continue;
        for (size_t p = 0; p < sizeof patterns / sizeof patterns[0]; p++) {
            if (!coll->has_bytes) {
                if (!patterns[p].steps)
                    measure(b, coll, &patterns[p], 0);
                continue;
            }
            if (!coll->is_one_way && patterns[p].steps)
                continue; /* these calls synchronize all ranks anyway */
            for (int bytes = 8; bytes <= MOST_BYTES; bytes *= bytes == 8 ? 8 : 4)
                if (bytes >= least_bytes(b, coll))
                    measure(b, coll, &patterns[p], bytes);
        }
    }
}

static void call_each(const struct bench *b)
{
    const size_t count = sizeof collectives / sizeof collectives[0];
    char name[32];
    int bytes, length;

    for (const char *at = b->calls; *at; at += length) {
        size_t c = 0;

        if (sscanf(at, "%31[A-Z_]:%d%n", name, &bytes, &length) != 2 || bytes < 0 ||
            bytes > MOST_BYTES)
            options_error("compare_bench", "--calls %s: it must be COLLECTIVE:BYTES,...", at);
        while (c < count && strcmp(name, collectives[c].name) != 0)
            c++;
        if (c == count)
            options_error("compare_bench", "--calls: there is no collective %s", name);
        collectives[c].call(b, b->comm[NETWORK], bytes, 0);
        length += at[length] == ',';
    }
}

int main(int argc, char **argv)
{
    struct bench b = {.rounds = 7, .call_ms = 20};
    const struct option_row rows[] = {
        {"rounds", "N", OPTION_INT, &b.rounds, "rounds of each case"},
        {"call-ms", "N", OPTION_INT, &b.call_ms, "least time of the calls of a round, in ms"},
        {"only", "COLLECTIVE", OPTION_TEXT, &b.only, "compare one collective"},
        {"calls", "COLLECTIVE:BYTES,...", OPTION_TEXT, &b.calls, "make only these calls"},
        {"alone", NULL, OPTION_FLAG, &b.alone,
         "run without fabemu: Open MPI selects all algorithms"},
        {0},
    };

    options_read(rows, argc, argv);
    if (b.rounds < 1 || b.call_ms < 1)
        options_error(argv[0], "--rounds and --call-ms must be at least 1");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &b.size);
    b.in = calloc(1, MOST_BYTES);
    b.out = calloc(1, MOST_BYTES);
    if (!b.in || !b.out)
        MPI_Abort(MPI_COMM_WORLD, 1);
    transports_open(b.comm, !b.alone);
    if (b.calls)
        call_each(&b);
    else
        measure_all(&b);
    transports_close(b.comm);
    free(b.out);
    free(b.in);
    MPI_Finalize();
    return 0;
}
