/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.c - what it costs to push and pop a descriptor, as cables with channels do on clock raw:
 * the sender looks whether there is a slot.
 *
 * On one core a burst is pushed and popped in turn, and the figure is the
 * thread's own time. Across two threads, each on a core of its own, producer
 * and consumer run against each other, and the figure is the wall's.
 */
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>

#include "apps/bench/internal.h"
#include "emu/link/ring.h"
#include "emu/now.h"
#include "emu/worker/wait.h"

#define RING_SLOTS 1024
#define LOOK_EVERY 1000 /* bursts between looks at the clock */

struct ring_pair {
    struct emu_ring_end in; /* the producer's */
    unsigned burst;
    int cpu[2];                  /* the producer's, the consumer's */
    _Atomic uint64_t pushed_all; /* the producer's: entries, at its end; UINT64_MAX before */

    /* The consumer's; read after its end. */
    alignas(EMU_LINE) struct emu_ring_end out;
    uint64_t popped;
    uint64_t first_ns;
    uint64_t last_ns;
    bool out_of_order;
};

/* Returns how many there was room for. */
static unsigned push_burst(struct emu_ring_end *ring, unsigned burst, uint32_t seq)
{
    unsigned pushed = 0;

    for (; pushed < burst; pushed++) {
        struct emu_entry entry = {.hdr = {.seq = seq + pushed}, .buf = EMU_NO_BUF};

        if (!emu_ring_has_slot(ring))
            break;
        emu_ring_put(ring, &entry);
    }
    return pushed;
}

/* Returns how many there were; false in @in_order if one was not the next. */
static unsigned pop_burst(struct emu_ring_end *ring, unsigned burst, uint32_t seq, bool *in_order)
{
    const struct emu_entry *entry;
    unsigned popped = 0;

    for (; popped < burst && (entry = emu_ring_front(ring)); popped++) {
        *in_order &= entry->hdr.seq == seq + popped;
        emu_ring_skip(ring);
    }
    return popped;
}

static double one_core_ns(struct ring_pair *pair, uint64_t sample_ns, bool *in_order)
{
    uint64_t start_ns = emu_time_ns(CLOCK_THREAD_CPUTIME_ID);
    uint64_t now_ns = start_ns;
    uint64_t moved = 0;

    while (now_ns < start_ns + sample_ns) {
        for (unsigned i = 0; i < LOOK_EVERY; i++) {
            uint32_t seq = (uint32_t)moved;
            push_burst(&pair->in, pair->burst, seq);
            moved += pop_burst(&pair->out, pair->burst, seq, in_order);
        }
        now_ns = emu_time_ns(CLOCK_THREAD_CPUTIME_ID);
    }
    return (double)(now_ns - start_ns) / (double)moved;
}

void bench_bind(int core)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(core, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

void bench_wait(unsigned *rounds, bool oversubscribed)
{
    if (emu_wait_round(*rounds, oversubscribed) == EMU_WAIT_AGAIN)
        ++*rounds;
    else
        *rounds = EMU_WAIT_SPINS;
}

static void *consume(void *arg)
{
    struct ring_pair *pair = arg;
    bool in_order = true;
    unsigned rounds = 0;

    bench_bind(pair->cpu[1]);
    while (pair->popped < atomic_load_explicit(&pair->pushed_all, memory_order_relaxed)) {
        unsigned popped = pop_burst(&pair->out, pair->burst, (uint32_t)pair->popped, &in_order);
        if (popped && !pair->popped)
            pair->first_ns = emu_now_ns();
        pair->popped += popped;
        if (popped)
            rounds = 0;
        else
            bench_wait(&rounds, false);
    }
    pair->last_ns = emu_now_ns();
    pair->out_of_order = !in_order;
    return NULL;
}

static uint64_t produce(struct ring_pair *pair, uint64_t sample_ns)
{
    uint64_t end_ns = emu_now_ns() + sample_ns;
    uint64_t pushed = 0;
    unsigned rounds = 0;

    bench_bind(pair->cpu[0]);
    while (emu_now_ns() < end_ns) {
        for (unsigned i = 0; i < LOOK_EVERY; i++) {
            unsigned one = push_burst(&pair->in, pair->burst, (uint32_t)pushed);
            pushed += one;
            if (one)
                rounds = 0;
            else
                bench_wait(&rounds, false);
        }
    }
    return pushed;
}

/* Returns a negative number without threads. */
static double two_cores_ns(struct ring_pair *pair, uint64_t sample_ns, bool *in_order)
{
    pthread_t consumer;

    pair->popped = 0;
    atomic_store_explicit(&pair->pushed_all, UINT64_MAX, memory_order_relaxed);
    if (pthread_create(&consumer, NULL, consume, pair))
        return -1;
    uint64_t pushed = produce(pair, sample_ns);
    atomic_store_explicit(&pair->pushed_all, pushed, memory_order_relaxed);
    pthread_join(consumer, NULL);
    *in_order &= !pair->out_of_order;
    if (!pair->popped) /* the host had no core for us in all that time */
        return two_cores_ns(pair, 2 * sample_ns, in_order);
    return (double)(pair->last_ns - pair->first_ns) / (double)pair->popped;
}

bool bench_two_cores(int core[2])
{
    cpu_set_t allowed;

    core[0] = core[1] = -1;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return false;
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &allowed))
            continue;
        core[0] = core[0] < 0 ? i : core[0];
        core[1] = i;
    }
    return core[0] != core[1];
}

static void ring_row(struct bench *bench, struct ring_pair *pair, bool two_cores)
{
    struct bench_samples samples = {.count = 0};
    unsigned repeat = bench_repeat(bench, 9, 3);
    bool in_order = true;
    char name[64];
    char cores[32] = "1";

    if (two_cores)
        snprintf(cores, sizeof cores, "%d and %d", pair->cpu[0], pair->cpu[1]);
    snprintf(name, sizeof name, "ring.%s.burst%u", two_cores ? "two_cores" : "one_core",
             pair->burst);
    for (unsigned i = 0; i < repeat && in_order; i++) {
        if (!emu_ring_create(&pair->in, &pair->out, RING_SLOTS))
            break;
        bench_sample(&samples, two_cores ? two_cores_ns(pair, bench_sample_ns(bench), &in_order)
                                         : one_core_ns(pair, bench_sample_ns(bench), &in_order));
        emu_ring_destroy(&pair->in);
        in_order &= samples.value[i] > 0;
    }
    struct json_object *own = json_object_new_object();
    json_object_object_add(own, two_cores ? "on_cores" : "threads", json_object_new_string(cores));
    json_object_object_add(own, "slots", json_object_new_int(RING_SLOTS));
    json_object_object_add(own, "entry_bytes", json_object_new_int(sizeof(struct emu_entry)));
    bench_row(bench, &(struct bench_row){
                         .name = name,
                         .unit = "ns",
                         .samples = &samples,
                         .conditions = own,
                         .error = samples.count == repeat && in_order ? NULL
                                                                      : "entries out of order, or "
                                                                        "no memory or threads",
                     });
}

void bench_ring(struct bench *bench, int unused)
{
    static const unsigned bursts[] = {1, 8, 32};
    struct ring_pair pair = {.burst = 0};
    cpu_set_t allowed;

    (void)unused;
    sched_getaffinity(0, sizeof allowed, &allowed);
    bool two = bench_two_cores(pair.cpu);
    for (unsigned i = 0; i < 6; i++) {
        pair.burst = bursts[i % 3];
        bench_progress(bench, "ring", i / 6.0);
        if (i < 3 || two)
            ring_row(bench, &pair, i >= 3);
    }
    sched_setaffinity(0, sizeof allowed, &allowed);
}
