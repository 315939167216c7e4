/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * passive.c - one-sided communication with a target that computes: passive [--threads] [--seed N]
 * [--rounds N] [--windows N]. tests/cli/onesided_test.py runs it.
 *
 * The last rank calls no MPI function while the others access its memory by all operations. It only
 * watches a word of its window, to which each of them adds 1 at its end. Then windows are made and
 * freed, and with --threads several threads of each rank access windows at the same time.
 */
#include <mpi.h>
#include <complex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

#define PATIENCE_S  300     /* of a target that computes */
#define AREA        1100000 /* bytes of each origin's part of the window */
#define THREADS     3
#define WINDOWS     20 /* at the same time */
#define THREAD_ADDS 200

static int rank, ranks, target;
static int rounds = 1, seed = 1;
static int remakes = 100; /* windows made and freed one after the other */
static long checks, failures;

static void that(int ok, const char *what, long detail)
{
    checks++;
    if (ok)
        return;
    failures++;
    printf("rank %d: %s (%ld) is wrong\n", rank, what, detail);
    fflush(stdout);
}

static unsigned char byte_of(long at, long key)
{
    return (unsigned char)((uint64_t)(at + 1) * 2654435761u >> 7 ^ (uint64_t)key * 40503u >> 3);
}

/* --- the operations of an origin ------------------------------------------------------ */

/* How an origin synchronizes: each operation is complete at the end of step(). */
enum sync { LOCK, SHARED_LOCK, LOCK_ALL, LOCK_ALL_LOCAL, REQUEST, SYNCS };

struct origin {
    MPI_Win win;
    MPI_Aint base; /* displacement of this rank's area */
    MPI_Aint sums; /* displacement of words that all origins add to */
    enum sync sync;
    unsigned char *out, *got;
};

static void begin(const struct origin *o)
{
    if (o->sync == LOCK || o->sync == SHARED_LOCK)
        MPI_Win_lock(o->sync == LOCK ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0, o->win);
    else
        MPI_Win_lock_all(0, o->win);
}

static void done(const struct origin *o)
{
    if (o->sync == LOCK || o->sync == SHARED_LOCK)
        MPI_Win_unlock(target, o->win);
    else
        MPI_Win_unlock_all(o->win);
}

/* Complete the operations so far; the epoch goes on. */
static void step(const struct origin *o)
{
    if (o->sync == LOCK_ALL_LOCAL) {
        MPI_Win_flush_local(target, o->win);
        MPI_Win_flush_local_all(o->win);
    }
    if (o->sync == LOCK_ALL)
        MPI_Win_flush_all(o->win);
    else
        MPI_Win_flush(target, o->win);
}

static void put(const struct origin *o, int bytes, MPI_Aint at)
{
    MPI_Request request;

    if (o->sync == REQUEST) {
        MPI_Rput(o->out, bytes, MPI_BYTE, target, at, bytes, MPI_BYTE, o->win, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Put(o->out, bytes, MPI_BYTE, target, at, bytes, MPI_BYTE, o->win);
    }
    step(o);
}

static void get(const struct origin *o, int bytes, MPI_Aint at)
{
    MPI_Request request;

    if (o->sync == REQUEST) {
        MPI_Rget(o->got, bytes, MPI_BYTE, target, at, bytes, MPI_BYTE, o->win, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        return;
    }
    MPI_Get(o->got, bytes, MPI_BYTE, target, at, bytes, MPI_BYTE, o->win);
    step(o);
}

static void sizes(const struct origin *o)
{
    static const int sizes[] = {0,     1,      7,      8,      9,      191,  192,   193,
                                231,   232,    233,    255,    256,    257,  928,   929,
                                4095,  4096,   4097,   8191,   8192,   8193, 65535, 65536,
                                65537, 262143, 262144, 262145, 1048577};

    for (size_t i = o->sync % 2; i < sizeof sizes / sizeof sizes[0]; i += 2) {
        const MPI_Aint at = o->base + (MPI_Aint)((i * 13 + (size_t)seed) % 61);

        for (int b = 0; b < sizes[i]; b++)
            o->out[b] = byte_of(b, seed + sizes[i] + rank);
        memset(o->got, 0x5a, (size_t)sizes[i] + 1);
        begin(o);
        put(o, sizes[i], at);
        get(o, sizes[i], at);
        done(o);
        that(memcmp(o->out, o->got, (size_t)sizes[i]) == 0, "get after put", sizes[i]);
        that(o->got[sizes[i]] == 0x5a, "the byte after a get", sizes[i]);
    }
}

/* Every third word at the target, every second in this process. */
static void gaps(const struct origin *o)
{
    enum { COUNT = 3000 };
    int32_t *out = (void *)o->out, *got = (void *)o->got;
    MPI_Datatype mine, its;
    int right = 1;

    MPI_Type_vector(COUNT, 1, 2, MPI_INT32_T, &mine);
    MPI_Type_vector(COUNT / 3, 3, 9, MPI_INT32_T, &its);
    MPI_Type_commit(&mine);
    MPI_Type_commit(&its);
    for (int i = 0; i < 2 * COUNT; i++) {
        out[i] = i + rank;
        got[i] = -1;
    }
    begin(o);
    MPI_Put(out, 1, mine, target, o->base, 1, its, o->win);
    step(o);
    MPI_Accumulate(out, 1, mine, target, o->base, 1, its, MPI_SUM, o->win);
    step(o);
    MPI_Get(got, 1, mine, target, o->base, 1, its, o->win);
    MPI_Type_free(&mine); /* MPI frees it when the get is complete */
    MPI_Type_free(&its);
    step(o);
    done(o);
    for (int i = 0; i < 2 * COUNT - 1; i++)
        right = right && got[i] == (i % 2 ? -1 : 2 * out[i]);
    that(right, "types with gaps", COUNT);
}

/* Make a type of short and long blocks at unequal distances. Returns the number of its words. */
static int blocks_type(MPI_Datatype *type)
{
    enum { BLOCKS = 400 };
    int lengths[BLOCKS], at[BLOCKS], words = 0;

    for (int i = 0, next = 0; i < BLOCKS; i++) {
        lengths[i] = i % 67 == 40 ? 300 : 1 + (i / 20) % 3;
        at[i] = next;
        next += lengths[i] + 1 + (i / 50) % 2 * (i % 3);
        words += lengths[i];
    }
    MPI_Type_indexed(BLOCKS, lengths, at, MPI_INT32_T, type);
    MPI_Type_commit(type);
    return words;
}

/* Each operation ends with its request. */
static void blocks(const struct origin *o)
{
    int32_t *out = (void *)o->out, *got = (void *)o->got;
    MPI_Request request;
    MPI_Datatype its;
    const int words = blocks_type(&its);
    int right = 1;

    for (int i = 0; i < words; i++) {
        out[i] = 3 * i + rank;
        got[i] = -1;
    }
    got[words] = -1;
    begin(o);
    MPI_Rput(out, words, MPI_INT32_T, target, o->base, 1, its, o->win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Raccumulate(out, words, MPI_INT32_T, target, o->base, 1, its, MPI_SUM, o->win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    step(o);
    MPI_Rget(got, words, MPI_INT32_T, target, o->base, 1, its, o->win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < words; i++)
        right = right && got[i] == 2 * out[i];
    that(right && got[words] == -1, "blocks by requests", words);
    done(o);
    MPI_Type_free(&its);
}

#define ARITHMETIC(NAME, TYPE, MPI_TYPE, ODD)                                                    \
    static void add_##NAME(const struct origin *o, int count)                                    \
    {                                                                                            \
        TYPE *out = (void *)o->out, *got = (void *)o->got;                                       \
        const MPI_Aint at = o->base + (ODD);                                                     \
        int right = 1;                                                                           \
                                                                                                 \
        for (int i = 0; i < count; i++)                                                          \
            out[i] = (TYPE)(i % 50 + 1);                                                         \
        begin(o);                                                                                \
        MPI_Accumulate(out, count, MPI_TYPE, target, at, count, MPI_TYPE, MPI_REPLACE, o->win);  \
        MPI_Accumulate(out, count, MPI_TYPE, target, at, count, MPI_TYPE, MPI_SUM, o->win);      \
        MPI_Get_accumulate(out, count, MPI_TYPE, got, count, MPI_TYPE, target, at, count,        \
                           MPI_TYPE, MPI_PROD, o->win);                                          \
        step(o);                                                                                 \
        for (int i = 0; i < count; i++)                                                          \
            right = right && got[i] == 2 * out[i];                                               \
        MPI_Get_accumulate(NULL, 0, MPI_TYPE, got, count, MPI_TYPE, target, at, count, MPI_TYPE, \
                           MPI_NO_OP, o->win);                                                   \
        step(o);                                                                                 \
        done(o);                                                                                 \
        for (int i = 0; i < count; i++)                                                          \
            right = right && got[i] == (TYPE)(2 * out[i] * out[i]);                              \
        that(right, "accumulates of " #NAME, count);                                             \
    }
ARITHMETIC(int8, int8_t, MPI_INT8_T, 1)
ARITHMETIC(int32, int32_t, MPI_INT32_T, 0)
ARITHMETIC(int32_odd, int32_t, MPI_INT32_T, 2)
ARITHMETIC(int64, int64_t, MPI_INT64_T, 0)
ARITHMETIC(float, float, MPI_FLOAT, 4)
ARITHMETIC(double, double, MPI_DOUBLE, 8)
ARITHMETIC(double_odd, double, MPI_DOUBLE, 4)
ARITHMETIC(long_double, long double, MPI_LONG_DOUBLE, 0)
ARITHMETIC(complex, double complex, MPI_C_DOUBLE_COMPLEX, 8)
ARITHMETIC(float_complex, float complex, MPI_C_FLOAT_COMPLEX, 8)
ARITHMETIC(long_double_complex, long double complex, MPI_C_LONG_DOUBLE_COMPLEX, 16)

static void arithmetic(const struct origin *o)
{
    static const int counts[SYNCS][2] = {{1, 513}, {2, 256}, {24, 5000}, {511, 1025}, {512, 255}};

    for (int i = 0; i < 2; i++) {
        add_int8(o, counts[o->sync][i] % 1000);
        add_int32(o, counts[o->sync][i]);
        add_int32_odd(o, counts[o->sync][i]);
        add_int64(o, counts[o->sync][i]);
        add_float(o, counts[o->sync][i]);
        add_double(o, counts[o->sync][i]);
        add_double_odd(o, counts[o->sync][i]);
        add_long_double(o, counts[o->sync][i]);
        add_complex(o, counts[o->sync][i]);
        add_float_complex(o, counts[o->sync][i]);
        add_long_double_complex(o, counts[o->sync][i]);
    }
}

struct pair {
    double value;
    int index;
};

static void pairs(const struct origin *o)
{
    struct pair first[3] = {{5, 1}, {6, 2}, {7, 3}}, second[3] = {{4, 9}, {6, 1}, {8, 1}}, got[3];

    begin(o);
    MPI_Put(first, 3, MPI_DOUBLE_INT, target, o->base, 3, MPI_DOUBLE_INT, o->win);
    step(o);
    MPI_Accumulate(second, 3, MPI_DOUBLE_INT, target, o->base, 3, MPI_DOUBLE_INT, MPI_MINLOC,
                   o->win);
    MPI_Get_accumulate(NULL, 0, MPI_DOUBLE_INT, got, 3, MPI_DOUBLE_INT, target, o->base, 3,
                       MPI_DOUBLE_INT, MPI_NO_OP, o->win);
    step(o);
    done(o);
    that(got[0].value == 4 && got[0].index == 9 && got[1].value == 6 && got[1].index == 1 &&
             got[2].value == 7 && got[2].index == 3,
         "MPI_MINLOC", 3);
}

/* Words that all origins change at the same time. */
static void sums(const struct origin *o)
{
    long one = 1, got, compare, next;

    for (int i = 0; i < 20; i++) {
        begin(o);
        MPI_Fetch_and_op(&one, &got, MPI_LONG, target, o->sums, MPI_SUM, o->win);
        step(o);
        MPI_Accumulate(&one, 1, MPI_LONG, target, o->sums + 8, 1, MPI_LONG, MPI_SUM, o->win);
        do { /* add 1 by compare and swap */
            MPI_Fetch_and_op(NULL, &compare, MPI_LONG, target, o->sums + 16, MPI_NO_OP, o->win);
            MPI_Win_flush(target, o->win);
            next = compare + 1;
            MPI_Compare_and_swap(&next, &compare, &got, MPI_LONG, target, o->sums + 16, o->win);
            MPI_Win_flush(target, o->win);
        } while (got != compare);
        done(o);
    }
    if (o->sync == LOCK) { /* a get and a put under the exclusive lock */
        begin(o);
        MPI_Get(&got, 1, MPI_LONG, target, o->sums + 24, 1, MPI_LONG, o->win);
        MPI_Win_flush(target, o->win);
        got++;
        MPI_Put(&got, 1, MPI_LONG, target, o->sums + 24, 1, MPI_LONG, o->win);
        done(o);
    }
}

static void origin_run(struct origin *o)
{
    const long one = 1;

    for (o->sync = 0; o->sync < SYNCS; o->sync++) {
        sizes(o);
        gaps(o);
        blocks(o);
        arithmetic(o);
        pairs(o);
        sums(o);
    }
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, o->win);
    MPI_Accumulate(&one, 1, MPI_LONG, target, o->sums + 32, 1, MPI_LONG, MPI_SUM, o->win);
    MPI_Win_unlock(target, o->win);
}

/* --- the target that computes ----------------------------------------------------------- */

static double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Compute until all origins have ended. This must not call MPI. */
static void compute(const long *sums_)
{
    const double until_s = now_s() + PATIENCE_S;

    while (__atomic_load_n(&sums_[4], __ATOMIC_ACQUIRE) != ranks - 1)
        if (now_s() > until_s) {
            printf("the target has waited in vain\n");
            fflush(stdout);
            _exit(1);
        }
    that(sums_[0] == 20l * SYNCS * (ranks - 1), "the sum by fetches", sums_[0]);
    that(sums_[1] == 20l * SYNCS * (ranks - 1), "the sum by accumulates", sums_[1]);
    that(sums_[2] == 20l * SYNCS * (ranks - 1), "the sum by compare and swap", sums_[2]);
    that(sums_[3] == ranks - 1, "the sum under the exclusive lock", sums_[3]);
}

static void passive(int dynamic)
{
    const size_t bytes = (size_t)ranks * AREA + 64;
    struct origin o = {.out = calloc(1, AREA), .got = calloc(1, AREA)};
    unsigned char *memory = NULL;
    MPI_Aint at = 0;

    if (dynamic) {
        memory = calloc(1, bytes);
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &o.win);
        MPI_Win_attach(o.win, memory, (MPI_Aint)(bytes / 2)); /* two parts without a gap */
        MPI_Win_attach(o.win, memory + bytes / 2, (MPI_Aint)(bytes - bytes / 2));
        MPI_Get_address(memory, &at);
    } else {
        MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &o.win);
        memset(memory, 0, bytes);
    }
    MPI_Bcast(&at, 1, MPI_AINT, target, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    o.base = at + 64 + (MPI_Aint)rank * AREA;
    o.sums = at;
    if (rank == target)
        compute((const long *)(void *)memory);
    else
        origin_run(&o);
    MPI_Barrier(MPI_COMM_WORLD);
    if (dynamic) {
        MPI_Win_detach(o.win, memory);
        MPI_Win_detach(o.win, memory + bytes / 2);
    }
    MPI_Win_free(&o.win);
    if (dynamic)
        free(memory);
    free(o.out);
    free(o.got);
}

/* --- memory that is not attached ---------------------------------------------------------- */

static void refused_that(MPI_Win win, MPI_Request request, const char *what)
{
    const int ended = MPI_Wait(&request, MPI_STATUS_IGNORE);

    that(ended != MPI_SUCCESS, what, ended);
    that(MPI_Win_flush(0, win) != MPI_SUCCESS, "a flush after a refused access", 0);
}

/* The last blocks of each access are beyond the memory that rank 0 has attached. */
static void refused(void)
{
    enum { WORDS = 128 };
    int32_t memory[WORDS] = {0}, data[WORDS] = {0};
    MPI_Request request;
    MPI_Datatype its;
    MPI_Aint at;
    MPI_Win win;

    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, memory, sizeof memory);
    MPI_Get_address(memory, &at);
    MPI_Bcast(&at, 1, MPI_AINT, 0, MPI_COMM_WORLD);
    MPI_Type_vector(WORDS / 2 + 1, 1, 2, MPI_INT32_T, &its);
    MPI_Type_commit(&its);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Win_lock_all(0, win);
    MPI_Rput(data, WORDS / 2 + 1, MPI_INT32_T, 0, at, 1, its, win, &request);
    refused_that(win, request, "a refused put");
    MPI_Rget(data, WORDS / 2 + 1, MPI_INT32_T, 0, at, 1, its, win, &request);
    refused_that(win, request, "a refused get");
    MPI_Raccumulate(data, WORDS / 2 + 1, MPI_INT32_T, 0, at, 1, its, MPI_SUM, win, &request);
    refused_that(win, request, "a refused accumulate");
    MPI_Win_unlock_all(win);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_detach(win, memory);
    MPI_Type_free(&its);
    MPI_Win_free(&win);
}

/* --- types with equal blocks and gaps ---------------------------------------------------- */

#define GAPS_INTS 12000

/* Get, put and add @bytes by the type @its, and compare with a model of the target's memory. */
static void equal_blocks_try(MPI_Win win, MPI_Datatype its, MPI_Aint at, int count,
                             const int *model)
{
    static int out[GAPS_INTS], got[GAPS_INTS], old[GAPS_INTS], all[GAPS_INTS];
    int bytes = count * (int)sizeof(int), place = 0;
    const char *packed = (const char *)got;

    for (int i = 0; i < count; i++)
        out[i] = (int)(at + 3 * i);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
    MPI_Get(got, count, MPI_INT, target, at, 1, its, win);
    MPI_Win_flush(target, win);
    MPI_Accumulate(out, count, MPI_INT, target, at, 1, its, MPI_SUM, win);
    MPI_Win_flush(target, win);
    MPI_Get(all, GAPS_INTS, MPI_INT, target, 0, GAPS_INTS, MPI_INT, win);
    MPI_Win_flush(target, win);
    MPI_Put(got, count, MPI_INT, target, at, 1, its, win);
    MPI_Win_unlock(target, win);
    MPI_Unpack(packed, bytes, &place, all + at, 1, its, MPI_COMM_SELF); /* undo the sum */
    that(!memcmp(all, model, sizeof all), "only elements of the type have changed", at);
    place = 0;
    MPI_Pack(model + at, 1, its, all, sizeof all, &place, MPI_COMM_SELF);
    that(place == bytes && !memcmp(all, got, (size_t)bytes), "a get with gaps", count);
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
    MPI_Get_accumulate(out, count, MPI_INT, old, count, MPI_INT, target, at, 1, its, MPI_SUM, win);
    MPI_Get_accumulate(NULL, 0, MPI_INT, all, count, MPI_INT, target, at, 1, its, MPI_NO_OP, win);
    MPI_Accumulate(got, count, MPI_INT, target, at, 1, its, MPI_REPLACE, win);
    MPI_Win_unlock(target, win);
    for (int i = 0; i < count; i++)
        out[i] += got[i];
    that(!memcmp(old, got, (size_t)bytes), "values before a sum with gaps", count);
    that(!memcmp(all, out, (size_t)bytes), "a sum with gaps", count);
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
    MPI_Get(all, GAPS_INTS, MPI_INT, target, 0, GAPS_INTS, MPI_INT, win);
    MPI_Win_unlock(target, win);
    that(!memcmp(all, model, sizeof all), "a put with gaps", at);
}

static void equal_blocks(void)
{
    static int memory[GAPS_INTS];
    MPI_Datatype its;
    MPI_Win win;

    for (int i = 0; i < GAPS_INTS; i++)
        memory[i] = 7 * i;
    MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int block = 1; rank == 0 && block < 200; block = 6 * block + 1)
        for (int blocks = 1; 2 * block * blocks < GAPS_INTS / 2; blocks = 20 * blocks + 1) {
            MPI_Type_vector(blocks, block, 2 * block, MPI_INT, &its);
            MPI_Type_commit(&its);
            equal_blocks_try(win, its, 5, block * blocks, memory);
            MPI_Type_free(&its);
            MPI_Type_vector(blocks, block, -block - 3, MPI_INT, &its);
            MPI_Type_commit(&its);
            equal_blocks_try(win, its, GAPS_INTS - block - 1, block * blocks, memory);
            MPI_Type_free(&its);
        }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&win);
}

/* --- a target without memory ------------------------------------------------------------ */

#define SCARCE_WORDS 2046 /* no other request for memory has the size of so many words */

static _Atomic int scarce; /* how often malloc() still returns NULL for SCARCE_WORDS */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SCARCE_TIMES 0 /* the sanitizer replaces malloc() */
#else
#define SCARCE_TIMES 3

void *__libc_malloc(size_t bytes);

void *malloc(size_t bytes)
{
    if (bytes == SCARCE_WORDS * sizeof(long) && scarce > 0) {
        scarce--;
        return NULL;
    }
    return __libc_malloc(bytes);
}
#endif

/* The target has no memory for the result of a get with gaps, which is then tried again. */
static void without_memory(void)
{
    static long memory[2 * SCARCE_WORDS], got[SCARCE_WORDS];
    MPI_Datatype gaps;
    MPI_Win win;

    MPI_Type_vector(SCARCE_WORDS, 1, 2, MPI_LONG, &gaps);
    MPI_Type_commit(&gaps);
    for (long i = 0; i < SCARCE_WORDS; i++)
        memory[2 * i] = i * i;
    MPI_Win_create(memory, sizeof memory, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    scarce = rank == target ? SCARCE_TIMES : 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
        that(MPI_Get(got, SCARCE_WORDS, MPI_LONG, target, 0, 1, gaps, win) == MPI_SUCCESS,
             "a get without memory at the target", 0);
        MPI_Win_unlock(target, win);
        for (long i = 0; i < SCARCE_WORDS; i++)
            if (got[i] != i * i)
                that(0, "data of a get that was tried again", i);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    that(scarce == 0, "how often the target had no memory", scarce);
    MPI_Win_free(&win);
    MPI_Type_free(&gaps);
}

/* --- many windows ----------------------------------------------------------------------- */

static void windows(void)
{
    MPI_Win win[WINDOWS];
    long memory[WINDOWS] = {0}, one = 1;

    for (int i = 0; i < WINDOWS; i++)
        MPI_Win_create(&memory[i], sizeof memory[i], 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win[i]);
    for (int i = 0; i < WINDOWS; i++) {
        MPI_Win_fence(0, win[i]);
        MPI_Accumulate(&one, 1, MPI_LONG, (rank + i) % ranks, 0, 1, MPI_LONG, MPI_SUM, win[i]);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win[i]);
        that(memory[i] == 1, "one of many windows", i);
    }
    for (int i = 0; i < WINDOWS; i++)
        MPI_Win_free(&win[i]);
    memory[0] = 0;
    for (int i = 0; i < remakes; i++) {
        MPI_Win_create(memory, i % 3 ? 8 : 0, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win[0]);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, (rank + i) % ranks, 0, win[0]);
        if (i % 3)
            MPI_Accumulate(&one, 1, MPI_LONG, (rank + i) % ranks, 0, 1, MPI_LONG, MPI_SUM, win[0]);
        MPI_Win_unlock((rank + i) % ranks, win[0]);
        MPI_Win_free(&win[0]);
    }
    that(memory[0] == remakes - (remakes + 2) / 3, "a window that is made again", memory[0]);
}

/* --- several threads --------------------------------------------------------------------- */

struct worker {
    pthread_t id;
    int number;
    MPI_Win win;
    MPI_Datatype two; /* two words with a gap */
    long wrong;
};

static void *work(void *argument)
{
    struct worker *w = argument;
    const MPI_Aint mine = 1 + 3 * ((MPI_Aint)rank * THREADS + w->number);
    long one = 1, got;

    for (long i = 0; i < THREAD_ADDS; i++) {
        int to = (rank + (int)i + w->number) % ranks;
        long value[2] = {i * 1000 + w->number, i}, back[2] = {-1, -1};
        MPI_Request request;

        MPI_Fetch_and_op(&one, &got, MPI_LONG, to, 0, MPI_SUM, w->win);
        MPI_Rput(value, 2, MPI_LONG, to, mine, 1, w->two, w->win, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Win_flush(to, w->win);
        MPI_Rget(back, 2, MPI_LONG, to, mine, 1, w->two, w->win, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        w->wrong += back[0] != value[0] || back[1] != value[1];
        if (i % 16 == 0)
            MPI_Win_flush_all(w->win);
    }
    return NULL;
}

static void threads(void)
{
    struct worker worker[THREADS];
    const MPI_Aint bytes = (1 + 3 * ranks * THREADS) * 8;
    long *memory, total = 0, wrong = 0;
    MPI_Datatype two;
    MPI_Win win;

    MPI_Type_vector(2, 1, 2, MPI_LONG, &two);
    MPI_Type_commit(&two);
    MPI_Win_allocate(bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    memset(memory, 0, (size_t)bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < THREADS; i++) {
        worker[i] = (struct worker){.number = i, .win = win, .two = two};
        pthread_create(&worker[i].id, NULL, work, &worker[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(worker[i].id, NULL);
        wrong += worker[i].wrong;
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Allreduce(&memory[0], &total, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    that(wrong == 0, "what a thread has put", wrong);
    that(total == (long)ranks * THREADS * THREAD_ADDS, "the sum by threads", total);
    MPI_Type_free(&two);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    bool with_threads = false;
    int given;
    long all[2], mine[2];
    const struct option_row rows[] = {
        {"rounds", "N", OPTION_INT, &rounds, "rounds of random operations"},
        {"seed", "N", OPTION_INT, &seed, "seed of random choices"},
        {"windows", "N", OPTION_INT, &remakes, "number of windows to make and free"},
        {"threads", NULL, OPTION_FLAG, &with_threads, "also access windows in several threads"},
        {0}};

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    options_read(rows, argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    target = ranks - 1;
    for (int i = 0; i < rounds; i++, seed++) {
        passive(0);
        passive(1);
        if (with_threads)
            threads();
    }
    refused();
    equal_blocks();
    without_memory();
    windows();
    mine[0] = checks;
    mine[1] = failures;
    MPI_Allreduce(mine, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("passive: %ld checks passed, %ld failed\n", all[0] - all[1], all[1]);
    MPI_Finalize();
    return all[1] != 0;
}
