/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check_order.c - concurrent operations: barriers synchronize; collectives of several
 * communicators, point-to-point messages and non-blocking collectives do not disturb each other;
 * ranks may run ahead.
 */
#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* --- barriers ----------------------------------------------------------------------- */

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t); /* one clock for all processes of the host */
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/*
 * Identifies the clock: a number for each boot of a machine, and each of its time namespaces.
 * Unreadable ids count as equal.
 */
static int64_t clock_id(void)
{
    char start[64] = "", space[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    uint64_t id = 0;

    if (file) {
        if (!fgets(start, sizeof start, file))
            start[0] = 0;
        fclose(file);
    }
    if (readlink("/proc/self/ns/time", space, sizeof space - 1) < 0)
        space[0] = 0;
    for (size_t i = 0; i < sizeof start; i++)
        id = check_mix(id, (uint8_t)start[i], (uint8_t)space[i]);
    return (int64_t)id;
}

/*
 * No rank leaves before the last one has entered; another rank is last each time. Times of
 * different clocks cannot be compared.
 */
static void barrier_once(struct check *check, const struct check_comm *comm)
{
    const uint64_t key = check_key(check);
    int64_t mine[3] = {[2] = clock_id()}, *all = check_alloc((size_t)comm->size * sizeof mine);
    int64_t last_in = INT64_MIN, first_out = INT64_MAX;
    MPI_Request request;

    if ((int)(key % (uint64_t)comm->size) == comm->rank)
        check_sleep_us(check_mix(key, 0, 1) % 600);
    mine[0] = now_ns();
    if (key >> 32 & 1) {
        MPI_Ibarrier(comm->comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Barrier(comm->comm);
    }
    mine[1] = now_ns();
    MPI_Allgather(mine, 3, MPI_INT64_T, all, 3, MPI_INT64_T, comm->comm);
    for (int r = 0; r < comm->size; r++) {
        const int64_t *its = &all[3 * r];

        if (its[2] != mine[2])
            continue;
        last_in = its[0] > last_in ? its[0] : last_in;
        first_out = its[1] < first_out ? its[1] : first_out;
    }
    check_that(check, first_out >= last_in,
               "barrier on %s of %d: a rank left %lld ns before the last entered", comm->name,
               comm->size, (long long)(last_in - first_out));
    free(all);
}

void check_barriers(struct check *check, const struct check_comm *comms, size_t count)
{
    const int times = check->quick ? 20 : 150;

    for (size_t c = 0; c < count; c++) {
        check_epoch(check);
        for (int i = 0; i < times; i++)
            barrier_once(check, &comms[c]);
    }
}

/* --- several in flight -------------------------------------------------------------- */

/*
 * Rank @rank's contribution to the sum of a key: whole numbers small enough for any number of
 * ranks.
 */
static int64_t share(uint64_t key, int rank, uint64_t i)
{
    return (int64_t)(check_mix(key, (uint64_t)rank, i) >> 16);
}

static int64_t total(uint64_t key, int size, uint64_t i)
{
    int64_t sum = 0;

    for (int r = 0; r < size; r++)
        sum += share(key, r, i);
    return sum;
}

#define SUMS 5

static void allreduce_sums(struct check *check, const struct check_comm *comm, uint64_t key)
{
    int64_t in[SUMS], out[SUMS];
    bool right = true;

    for (int i = 0; i < SUMS; i++)
        in[i] = share(key, comm->rank, (uint64_t)i);
    MPI_Allreduce(in, out, SUMS, MPI_INT64_T, MPI_SUM, comm->comm);
    for (int i = 0; i < SUMS; i++)
        right = right && out[i] == total(key, comm->size, (uint64_t)i);
    check_that(check, right, "allreduce in flight on %s of %d is wrong", comm->name, comm->size);
}

static void reduce_sums(struct check *check, const struct check_comm *comm, uint64_t key)
{
    const int root = (int)(key % (uint64_t)comm->size);
    int64_t in = share(key, comm->rank, 0), out = -1;

    MPI_Reduce(&in, &out, 1, MPI_INT64_T, MPI_SUM, root, comm->comm);
    check_that(check, comm->rank != root || out == total(key, comm->size, 0),
               "reduce in flight to %d on %s of %d is wrong", root, comm->name, comm->size);
}

/* Lengths from one byte to many segments. */
static void bcast_bytes(struct check *check, const struct check_comm *comm, uint64_t key)
{
    static const int lengths[] = {1, 8, 239, 240, 241, 4096, 30000};
    const int root = (int)(key % (uint64_t)comm->size);
    const int bytes = lengths[(key >> 8) % (sizeof lengths / sizeof lengths[0])];
    uint8_t *buf = check_alloc((size_t)bytes);
    bool right = true;

    for (int i = 0; i < bytes; i++)
        buf[i] = comm->rank == root ? (uint8_t)check_mix(key, (uint64_t)i, 7) : 0;
    MPI_Bcast(buf, bytes, MPI_BYTE, root, comm->comm);
    for (int i = 0; i < bytes; i++)
        right = right && buf[i] == (uint8_t)check_mix(key, (uint64_t)i, 7);
    check_that(check, right, "bcast in flight of %d bytes from %d on %s of %d is wrong", bytes,
               root, comm->name, comm->size);
    free(buf);
}

/* Messages around a ring of all ranks, posted before and completed after the collectives. */
#define RINGS 3
struct ring {
    MPI_Request requests[2 * RINGS];
    uint8_t *out[RINGS], *in[RINGS];
    uint64_t key;
};
static const int ring_bytes[RINGS] = {8, 4000, 70000};

static void ring_start(struct ring *ring, const struct check *check)
{
    const int right = (check->rank + 1) % check->size;
    const int left = (check->rank + check->size - 1) % check->size;

    for (int i = 0; i < RINGS; i++) {
        ring->in[i] = check_alloc((size_t)ring_bytes[i]);
        ring->out[i] = check_alloc((size_t)ring_bytes[i]);
        memset(ring->out[i], (int)(check_mix(ring->key, (uint64_t)check->rank, (uint64_t)i) & 0xff),
               (size_t)ring_bytes[i]);
        MPI_Irecv(ring->in[i], ring_bytes[i], MPI_BYTE, left, i, MPI_COMM_WORLD,
                  &ring->requests[2 * i]);
        MPI_Isend(ring->out[i], ring_bytes[i], MPI_BYTE, right, i, MPI_COMM_WORLD,
                  &ring->requests[2 * i + 1]);
    }
}

static void ring_finish(struct ring *ring, struct check *check)
{
    const int left = (check->rank + check->size - 1) % check->size;

    MPI_Waitall(2 * RINGS, ring->requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < RINGS; i++) {
        const uint8_t want = (uint8_t)check_mix(ring->key, (uint64_t)left, (uint64_t)i);
        bool right = true;

        for (int b = 0; b < ring_bytes[i]; b++)
            right = right && ring->in[i][b] == want;
        check_that(check, right, "message of %d bytes from %d is wrong after collectives",
                   ring_bytes[i], left);
        free(ring->out[i]);
        free(ring->in[i]);
    }
}

/* A round of collectives in the same order on every rank, with random delays. */
static void mixed_collectives(struct check *check, const struct check_comm *comms, size_t count)
{
    const uint64_t key = check_key(check);
    const int steps = 6;

    for (int i = 0; i < steps; i++) {
        const uint64_t step = check_mix(key, (uint64_t)i, 0);
        const struct check_comm *comm = &comms[step % count];

        if (check_mix(step, (uint64_t)check->rank, 1) % 8 == 0)
            check_sleep_us(check_mix(step, (uint64_t)check->rank, 2) % 100);
        switch (step >> 8 & 3) {
        case 0:
            allreduce_sums(check, comm, step >> 16);
            break;
        case 1:
            reduce_sums(check, comm, step >> 16);
            break;
        case 2:
            bcast_bytes(check, comm, step >> 16);
            break;
        default:
            MPI_Barrier(comm->comm);
            break;
        }
    }
}

void check_in_flight(struct check *check, const struct check_comm *comms, size_t count)
{
    const unsigned rounds = check->iterations ? check->iterations : check->quick ? 30 : 200;

    for (unsigned i = 0; i < rounds; i++) {
        struct ring ring = {.key = check_key(check)};
        const uint64_t key = ring.key >> 16;
        int64_t in = share(key, check->rank, 9), out = 0;
        MPI_Request request;

        ring_start(&ring, check);
        MPI_Iallreduce(&in, &out, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD, &request);
        mixed_collectives(check, comms, count);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        check_that(check, out == total(key, check->size, 9),
                   "iallreduce around other collectives is wrong");
        ring_finish(&ring, check);
    }
}

/* --- running ahead ------------------------------------------------------------------ */

/*
 * A root that broadcasts, or members that contribute, need no answer and may be far ahead of a rank
 * that sleeps: the layers in between must hold them back or buffer everything, and lose nothing.
 */
static void run_ahead(struct check *check, const struct check_comm *comm, bool reduce, int late)
{
    const uint64_t key = check_key(check);
    const int times = check->quick ? 300 : 1500;
    bool right = true;

    if (comm->rank == late)
        check_sleep_us(3000);
    for (int i = 0; i < times; i++) {
        int64_t in = share(key, comm->rank, (uint64_t)i), out = -1;

        if (reduce) {
            MPI_Reduce(&in, &out, 1, MPI_INT64_T, MPI_SUM, late, comm->comm);
            right = right && (comm->rank != late || out == total(key, comm->size, (uint64_t)i));
        } else {
            const int root = (late + 1) % comm->size;

            MPI_Bcast(&in, 1, MPI_INT64_T, root, comm->comm);
            right = right && in == share(key, root, (uint64_t)i);
        }
    }
    check_that(check, right, "%d %s ahead of rank %d on %s of %d went wrong", times,
               reduce ? "reduces" : "bcasts", late, comm->name, comm->size);
}

void check_run_ahead(struct check *check, const struct check_comm *comms, size_t count)
{
    for (size_t c = 0; c < count; c++) {
        const int last = comms[c].size - 1;

        check_epoch(check);
        run_ahead(check, &comms[c], true, 0);
        run_ahead(check, &comms[c], false, 0);
        run_ahead(check, &comms[c], true, last);
        run_ahead(check, &comms[c], false, last);
    }
}

/* --- threads ------------------------------------------------------------------------ */

#define THREADS 3

struct worker {
    struct check *check;
    struct check_comm comm;
    uint64_t key;
    pthread_t thread;
};

static void *worker_run(void *arg)
{
    struct worker *w = arg;
    const int times = w->check->quick ? 15 : 100;

    for (int i = 0; i < times; i++) {
        const uint64_t key = check_mix(w->key, (uint64_t)i, 3);

        allreduce_sums(w->check, &w->comm, key >> 16);
        bcast_bytes(w->check, &w->comm, key >> 16);
        reduce_sums(w->check, &w->comm, key >> 16);
        MPI_Barrier(w->comm.comm);
        check_blocks_in_flight(w->check, check_mix(key, 1, 0), &w->comm, 1, false);
        check_calls_in_flight(w->check, check_mix(key, 2, 0), &w->comm, 1);
        if (i % 8 == 0)
            check_requests_restart(w->check, check_mix(key, 3, 0), &w->comm, 1);
    }
    return NULL;
}

/* Several threads, each with collectives of all kinds on its own communicator. */
void check_threads(struct check *check, const struct check_comm *comms, size_t count)
{
    struct worker workers[THREADS];

    (void)count;
    if (!check->threads)
        return;
    for (int i = 0; i < THREADS; i++) {
        MPI_Comm comm;

        MPI_Comm_dup(comms[0].comm, &comm);
        workers[i] = (struct worker){.check = check,
                                     .comm = check_comm_of("a thread's", comm),
                                     .key = check_key(check)};
    }
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]))
            MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        MPI_Comm_free(&workers[i].comm.comm);
    }
}
