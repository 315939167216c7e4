/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * allreduce.c - what an all-reduce of some processes cannot be faster than, if somebody between
 * them combines, and if nobody does.
 *
 * Every end writes its number into a line of its own. *Between*: a further thread waits for all of
 * them, adds them up, and writes the sum into one line that all ends read; nothing else is what
 * adapters, cables and a combine unit have to do. *Direct*: every end waits for all the others'
 * lines and adds them up, which is what shared memory has to do. Who finds nothing waits as
 * everybody in fabemu does, and the thread between keeps its core while it waits for ends on other
 * ones alone, as the fabric's worker does. There are no segments, no rings, no MPI.
 *
 * Where the ends outnumber the cores each of them has to get its core once a call, and on one core
 * a further thread has to as well: on two cores with four ends that is three turns and not two.
 */
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <unistd.h>

#include "apps/bench/internal.h"
#include "emu/edge/edge.h"
#include "emu/now.h"
#include "emu/worker/crowd.h"
#include "emu/worker/place.h"

#define ENDS 4u

/* Written by one thread. Two numbers: who is one call ahead overwrites none that is still read. */
struct word {
    alignas(2 * EMU_LINE) _Atomic uint64_t call; /* so many of its numbers were shown */
    _Atomic uint32_t core;                       /* 1 + where by; 0: not known */
    uint64_t number[2];                          /* by call */
};

struct meeting {
    struct word end[ENDS], sum;
    bool between; /* a thread adds them up */
    bool oversubscribed;
    atomic_bool over, wrong;
};

struct member {
    struct meeting *meeting;
    uint32_t rank;
    uint64_t call;
};

/* False: it is over. */
static bool meeting_waits(const struct meeting *meeting, unsigned *rounds)
{
    bench_wait(rounds, meeting->oversubscribed);
    return !atomic_load_explicit(&meeting->over, memory_order_relaxed);
}

static void word_show(struct word *word, uint64_t call, uint64_t number)
{
    uint32_t core = (uint32_t)sched_getcpu() + 1;

    if (atomic_load_explicit(&word->core, memory_order_relaxed) != core)
        atomic_store_explicit(&word->core, core, memory_order_relaxed);
    word->number[call % 2] = number;
    atomic_store_explicit(&word->call, call, memory_order_release);
}

static bool word_has(const struct word *word, uint64_t call)
{
    return atomic_load_explicit(&word->call, memory_order_acquire) >= call;
}

/* --- ends -------------------------------------------------------------------------------- */

/* Adds the number of @call to @sum. False: it is over. */
static bool word_add(const struct meeting *meeting, const struct word *word, uint64_t call,
                     uint64_t *sum)
{
    unsigned rounds = 0;

    while (!word_has(word, call))
        if (!meeting_waits(meeting, &rounds))
            return false;
    *sum += word->number[call % 2];
    return true;
}

/* One all-reduce of ranks and calls. False: it is over. */
static bool member_calls(struct member *member)
{
    struct meeting *meeting = member->meeting;
    uint64_t call = ++member->call, sum = 0;

    word_show(&meeting->end[member->rank], call, call + member->rank);
    if (meeting->between) {
        if (!word_add(meeting, &meeting->sum, call, &sum))
            return false;
    } else {
        for (uint32_t i = 0; i < ENDS; i++)
            if (!word_add(meeting, &meeting->end[i], call, &sum))
                return false;
    }
    if (sum != ENDS * call + ENDS * (ENDS - 1) / 2)
        atomic_store_explicit(&meeting->wrong, true, memory_order_relaxed);
    return true;
}

static void *member_main(void *ctx)
{
    while (member_calls(ctx))
        ;
    return NULL;
}

/* --- between them ------------------------------------------------------------------------ */

/* Has everybody shown the number of @call? @here: may one that has not need this core? */
static bool all_have(const struct meeting *meeting, uint64_t call, bool *here)
{
    uint32_t own = (uint32_t)sched_getcpu() + 1;
    bool all = true;

    *here = false;
    for (uint32_t i = 0; i < ENDS; i++) {
        const struct word *word = &meeting->end[i];
        uint32_t core = atomic_load_explicit(&word->core, memory_order_relaxed);

        if (word_has(word, call))
            continue;
        all = false;
        *here |= !core || core == own;
    }
    return all;
}

/* Until all have. False: it is over. */
static bool between_awaits(const struct meeting *meeting, uint64_t call)
{
    uint64_t until_ns = emu_now_ns() + EMU_CROWD_ANSWER_NS;
    unsigned rounds = 0;
    bool here;

    while (!all_have(meeting, call, &here))
        if ((here || !meeting->oversubscribed || emu_now_ns() >= until_ns) &&
            !meeting_waits(meeting, &rounds))
            return false;
    return true;
}

static void *between_main(void *ctx)
{
    struct meeting *meeting = ctx;

    for (uint64_t call = 1; between_awaits(meeting, call); call++) {
        uint64_t sum = 0;

        for (uint32_t i = 0; i < ENDS; i++)
            sum += meeting->end[i].number[call % 2];
        word_show(&meeting->sum, call, sum);
    }
    return NULL;
}

/* --- rows -------------------------------------------------------------------------------- */

/* What one call takes at one of the ends, in us. */
static double member_us(struct member *member, uint64_t run_ns)
{
    uint64_t start_ns = emu_now_ns(), now_ns = start_ns;

    while (now_ns - start_ns < run_ns) {
        member_calls(member);
        now_ns = emu_now_ns();
    }
    return (double)(now_ns - start_ns) / 1e3 / (double)member->call;
}

/* A negative number: there are no threads, or a sum was wrong. */
static double meeting_sample(bool between, uint64_t run_ns)
{
    struct meeting meeting = {.between = between,
                              .oversubscribed = emu_place_cores() < ENDS + between};
    struct member member[ENDS];
    pthread_t thread[ENDS];
    uint32_t threads = between ? 0 : 1; /* this one is end 0, in whose place the one between is */
    double value = -1;

    for (uint32_t i = 0; i < ENDS; i++)
        member[i] = (struct member){.meeting = &meeting, .rank = i};
    while (threads < ENDS &&
           !pthread_create(&thread[threads], NULL, threads ? member_main : between_main,
                           threads ? (void *)&member[threads] : (void *)&meeting))
        threads++;
    if (threads == ENDS)
        value = member_us(&member[0], run_ns);
    atomic_store_explicit(&meeting.over, true, memory_order_relaxed);
    for (uint32_t i = between ? 0 : 1; i < threads; i++)
        pthread_join(thread[i], NULL);
    return atomic_load_explicit(&meeting.wrong, memory_order_relaxed) ? -1 : value;
}

void bench_relay_allreduce(struct bench *bench, int unused)
{
    struct bench_samples between = {.count = 0}, direct = between, ratio = between;
    const struct bench_row rows[] = {
        {.name = "relay.allreduce8.np4", .unit = "us", .samples = &between},
        {.name = "relay.allreduce8.np4.direct", .unit = "us", .samples = &direct},
        {.name = "relay.allreduce8.np4 between/direct", .unit = "x", .samples = &ratio},
    };
    unsigned repeat = bench_repeat(bench, 9, 3);
    bool done = true;

    (void)unused;
    for (unsigned r = 0; r < repeat && done; r++) {
        double with = meeting_sample(true, bench_sample_ns(bench));
        double without = meeting_sample(false, bench_sample_ns(bench));

        bench_progress(bench, "relay.allreduce8", r / (double)repeat);
        done = with > 0 && without > 0;
        bench_sample(&between, with);
        bench_sample(&direct, without);
        bench_sample(&ratio, with / without);
    }
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bench_row row = rows[i];

        row.error = done ? NULL : "no threads, or a wrong sum";
        bench_row(bench, &row);
    }
}
