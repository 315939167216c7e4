/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * threads.c - measures upper bounds for MPI on this machine: the speed at which threads of one
 * process exchange data in shared memory.
 *
 * Latency: two threads pass a number back and forth. Bandwidth: one thread copies a message into a
 * shared buffer, and another one copies it out. All-reduce: each thread writes its number and then
 * reads the numbers of all threads. A fabric does more: a third thread moves each segment between
 * the rings of two processes, and every byte is copied four times.
 */
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "apps/bench/internal.h"
#include "emu/hostif/hostif.h"
#include "emu/util/now.h"
#include "emu/dev/affinity.h"

#define RANKS_MAX   16u
#define CHUNKS      8u    /* pieces of the shared buffer */
#define SPINS       1000u /* reads before a thread yields its core, if each thread has a core */
#define CLOCK_EVERY 16u   /* calls between two reads of the clock */

#define MESSAGE_BYTES (1u << 20) /* size of a message for the bandwidth */

/*
 * A counter that one thread writes and others read. The release in counter_write() pairs with the
 * acquire in counter_read().
 */
struct counter {
    alignas(2 * EMU_LINE) _Atomic uint64_t count;
    uint64_t number[2]; /* all-reduce: contributions to even and odd calls */
};

struct shared {
    struct counter counter[RANKS_MAX]; /* by thread */
    atomic_bool stop;
    bool oversubscribed; /* more threads than cores */
    unsigned ranks;
    uint8_t *buffer; /* CHUNKS pieces */
    uint8_t *message[2];
    size_t chunk_bytes;
    size_t bytes; /* size of a message */
};

static uint64_t counter_read(struct counter *counter)
{
    return atomic_load_explicit(&counter->count, memory_order_acquire);
}

static void counter_write(struct counter *counter, uint64_t count)
{
    atomic_store_explicit(&counter->count, count, memory_order_release);
}

/* Wait until @counter has reached @count. Returns false if the measurement has ended. */
static bool counter_wait(struct shared *shared, struct counter *counter, uint64_t count)
{
    unsigned rounds = 0;

    while (counter_read(counter) < count) {
        if (atomic_load_explicit(&shared->stop, memory_order_relaxed))
            return false;
        if (shared->oversubscribed || ++rounds % SPINS == 0)
            sched_yield();
    }
    return true;
}

/* --- latency -------------------------------------------------------------------------- */

/* Make a round trip: first thread 0 writes the number of the call, then thread 1 does. */
static bool pass_number(struct shared *shared, unsigned rank, uint64_t call)
{
    if (rank == 1 && !counter_wait(shared, &shared->counter[0], call))
        return false;
    counter_write(&shared->counter[rank], call);
    return rank == 1 || counter_wait(shared, &shared->counter[1], call);
}

/* --- bandwidth ------------------------------------------------------------------------ */

/* Copy one piece of the message: thread 0 into the shared buffer, or thread 1 out of it. */
static bool copy_chunk(struct shared *shared, unsigned rank, uint64_t call)
{
    uint8_t *chunk = shared->buffer + call % CHUNKS * shared->chunk_bytes;
    uint8_t *own = shared->message[rank] + call * shared->chunk_bytes % shared->bytes;

    if (rank == 0) {
        if (call > CHUNKS && !counter_wait(shared, &shared->counter[1], call - CHUNKS))
            return false;
        memcpy(chunk, own, shared->chunk_bytes);
    } else {
        if (!counter_wait(shared, &shared->counter[0], call))
            return false;
        memcpy(own, chunk, shared->chunk_bytes);
    }
    counter_write(&shared->counter[rank], call);
    return true;
}

/* --- all-reduce ----------------------------------------------------------------------- */

/*
 * Make one all-reduce. Each thread alternates between two numbers, so that a thread that is one
 * call ahead does not overwrite a number that others still read.
 */
static bool add_numbers(struct shared *shared, unsigned rank, uint64_t call)
{
    struct counter *own = &shared->counter[rank];
    uint64_t sum = 0;

    own->number[call % 2] = call + rank;
    counter_write(own, call);
    for (unsigned r = 0; r < shared->ranks; r++) {
        if (!counter_wait(shared, &shared->counter[r], call))
            return false;
        sum += shared->counter[r].number[call % 2];
    }
    return sum == shared->ranks * call + shared->ranks * (shared->ranks - 1) / 2;
}

/* --- threads -------------------------------------------------------------------------- */

typedef bool (*call_fn)(struct shared *shared, unsigned rank, uint64_t call);

struct thread_arg {
    struct shared *shared;
    call_fn call;
    unsigned rank;
};

static void *thread_main(void *ctx)
{
    struct thread_arg *arg = ctx;

    for (uint64_t call = 1; arg->call(arg->shared, arg->rank, call); call++)
        ;
    return NULL;
}

/* The caller is thread 0. Returns ns per call; negative: a call failed. */
static double measure(struct shared *shared, call_fn call, uint64_t run_ns)
{
    struct thread_arg arg[RANKS_MAX];
    pthread_t thread[RANKS_MAX];
    unsigned threads = 1;
    double value = -1;

    shared->oversubscribed = emu_affinity_cores() < shared->ranks;
    for (; threads < shared->ranks; threads++) {
        arg[threads] = (struct thread_arg){.shared = shared, .call = call, .rank = threads};
        if (pthread_create(&thread[threads], NULL, thread_main, &arg[threads]))
            break;
    }
    if (threads == shared->ranks) {
        uint64_t start_ns = emu_now_ns(), now_ns = start_ns, calls = 0;
        bool good = true;

        while (good && now_ns - start_ns < run_ns) {
            good = call(shared, 0, ++calls);
            if (calls % CLOCK_EVERY == 0)
                now_ns = emu_now_ns();
        }
        now_ns = emu_now_ns();
        value = good ? (double)(now_ns - start_ns) / (double)calls : -1;
    }
    atomic_store_explicit(&shared->stop, true, memory_order_relaxed);
    for (unsigned t = 1; t < threads; t++)
        pthread_join(thread[t], NULL);
    return value;
}

double bench_threads_latency_us(unsigned ranks, uint64_t run_ns)
{
    struct shared shared = {.ranks = ranks};

    return measure(&shared, pass_number, run_ns) / 2e3;
}

double bench_threads_allreduce_us(unsigned ranks, uint64_t run_ns)
{
    struct shared shared = {.ranks = ranks};

    return measure(&shared, add_numbers, run_ns) / 1e3;
}

double bench_threads_mb_per_s(unsigned ranks, uint64_t run_ns)
{
    struct shared shared = {.ranks = ranks,
                            .bytes = MESSAGE_BYTES,
                            .chunk_bytes = MESSAGE_BYTES / CHUNKS / 2};
    double ns = -1;

    shared.buffer = calloc(CHUNKS, shared.chunk_bytes);
    shared.message[0] = calloc(1, MESSAGE_BYTES);
    shared.message[1] = calloc(1, MESSAGE_BYTES);
    if (shared.buffer && shared.message[0] && shared.message[1])
        ns = measure(&shared, copy_chunk, run_ns);
    free(shared.buffer);
    free(shared.message[0]);
    free(shared.message[1]);
    return ns > 0 ? (double)shared.chunk_bytes * 1e3 / ns : -1;
}
