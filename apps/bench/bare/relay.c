/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * relay.c - what messages between two processes cannot be faster than, however little the fabric
 * does: three threads, of which the middle one hands on what the first has written to the last.
 *
 * Slots are as large as segments, rings as long as those of edges, and who finds nothing waits as
 * everybody in fabemu does. There are no headers to read, no routes, no credits of cables, no MPI.
 * `copies4` copies as the fabric does: into the sender's ring, out of it, into the receiver's, out
 * of it. In `copies2` the middle one hands on a number alone, and the receiver reads the sender's
 * ring.
 */
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/bench/internal.h"
#include "emu/alloc.h"
#include "emu/edge/edge.h"
#include "emu/now.h"

#define RELAY_BYTES   232u        /* of a message in a slot */
#define RELAY_TELLS   16u         /* slots between two words of how many were taken */
#define RELAY_MESSAGE (1u << 20u) /* bytes */

struct relay_slot {
    alignas(EMU_LINE) _Atomic uint64_t number; /* of what is in it, from 1 on */
    uint64_t at;                               /* copies2: the slot that has it */
    uint8_t data[RELAY_BYTES];
};

/* A ring from one thread to another. */
struct relay_way {
    struct relay_slot *slot;
    alignas(2 * EMU_LINE) _Atomic uint64_t taken;
};

struct relay {
    struct relay_way up[2], down[2]; /* of either end */
    bool refers;
    bool oversubscribed;
    atomic_bool over;
    alignas(2 * EMU_LINE) _Atomic uint64_t came; /* slots, at the far end */
};

struct relay_end {
    struct relay *relay;
    uint32_t side;
    uint64_t sent, room, got;
};

/* --- rings ------------------------------------------------------------------------------- */

/* False: it is over. */
static bool relay_waits(const struct relay *relay, unsigned *rounds)
{
    bench_wait(rounds, relay->oversubscribed);
    return !atomic_load_explicit(&relay->over, memory_order_relaxed);
}

static struct relay_slot *way_slot(const struct relay_way *way, uint64_t number)
{
    return &way->slot[number % EMU_EDGE_SLOTS];
}

static bool way_has(const struct relay_way *way, uint64_t number)
{
    return atomic_load_explicit(&way_slot(way, number)->number, memory_order_acquire) == number + 1;
}

static void way_put(struct relay_way *way, uint64_t number)
{
    atomic_store_explicit(&way_slot(way, number)->number, number + 1, memory_order_release);
}

static uint64_t way_taken(const struct relay_way *way)
{
    return atomic_load_explicit(&way->taken, memory_order_acquire);
}

static void way_tell(struct relay_way *way, uint64_t taken)
{
    atomic_store_explicit(&way->taken, taken, memory_order_release);
}

/* --- ends -------------------------------------------------------------------------------- */

static bool end_send(struct relay_end *end, const uint8_t *data)
{
    struct relay_way *way = &end->relay->up[end->side];
    unsigned rounds = 0;

    while (end->sent == end->room) {
        end->room = way_taken(way) + EMU_EDGE_SLOTS;
        if (end->sent == end->room && !relay_waits(end->relay, &rounds))
            return false;
    }
    memcpy(way_slot(way, end->sent)->data, data, RELAY_BYTES);
    way_put(way, end->sent++);
    return true;
}

static bool end_take(struct relay_end *end, uint8_t *data)
{
    struct relay_way *way = &end->relay->down[end->side];
    const struct relay_slot *slot = way_slot(way, end->got);
    unsigned rounds = 0;

    while (!way_has(way, end->got)) {
        way_tell(way, end->got);
        if (!relay_waits(end->relay, &rounds))
            return false;
    }
    if (end->relay->refers)
        slot = way_slot(&end->relay->up[!end->side], slot->at);
    memcpy(data, slot->data, RELAY_BYTES);
    if (++end->got % RELAY_TELLS == 0)
        way_tell(way, end->got);
    return true;
}

/* --- between them ------------------------------------------------------------------------ */

/* From one end's ring into the other's. */
struct relay_lane {
    struct relay_way *from, *to;
    uint64_t moved, room, told;
};

static void lane_copy(struct relay_lane *lane)
{
    alignas(EMU_LINE) uint8_t buffer[RELAY_BYTES];

    memcpy(buffer, way_slot(lane->from, lane->moved)->data, sizeof buffer);
    __asm__ volatile("" : : "r"(buffer) : "memory"); /* it is one, as a pool's is */
    memcpy(way_slot(lane->to, lane->moved)->data, buffer, sizeof buffer);
}

/* What is only referred to is free when its reader has it. */
static void lane_tell(struct relay_lane *lane, bool refers)
{
    uint64_t taken = refers ? way_taken(lane->to) : lane->moved;

    if (taken != lane->told)
        way_tell(lane->from, lane->told = taken);
}

/* What there is, but no more than RELAY_TELLS slots. False: none moved. */
static bool lane_step(const struct relay *relay, struct relay_lane *lane)
{
    uint64_t before = lane->moved;

    while (lane->moved - before < RELAY_TELLS && way_has(lane->from, lane->moved)) {
        if (lane->moved == lane->room)
            lane->room = way_taken(lane->to) + EMU_EDGE_SLOTS;
        if (lane->moved == lane->room)
            break;
        if (relay->refers)
            way_slot(lane->to, lane->moved)->at = lane->moved;
        else
            lane_copy(lane);
        way_put(lane->to, lane->moved++);
    }
    lane_tell(lane, relay->refers);
    return lane->moved != before;
}

static void *relay_main(void *ctx)
{
    struct relay *relay = ctx;
    struct relay_lane lane[2] = {{.from = &relay->up[0], .to = &relay->down[1]},
                                 {.from = &relay->up[1], .to = &relay->down[0]}};
    unsigned rounds = 0;
    bool goes_on = true;

    while (goes_on) {
        bool moved = lane_step(relay, &lane[0]);

        moved = lane_step(relay, &lane[1]) || moved;
        if (moved)
            rounds = 0;
        else
            goes_on = relay_waits(relay, &rounds);
    }
    return NULL;
}

/* --- what the ends do -------------------------------------------------------------------- */

static void *answer_main(void *ctx)
{
    struct relay_end end = {.relay = ctx, .side = 1, .room = EMU_EDGE_SLOTS};
    uint8_t data[RELAY_BYTES];

    while (end_take(&end, data) && end_send(&end, data))
        ;
    return NULL;
}

static void *sink_main(void *ctx)
{
    struct relay *relay = ctx;
    struct relay_end end = {.relay = relay, .side = 1, .room = EMU_EDGE_SLOTS};
    uint8_t *message = malloc(RELAY_MESSAGE);
    size_t at = 0;

    while (message && end_take(&end, message + at)) {
        at = at + 2 * RELAY_BYTES > RELAY_MESSAGE ? 0 : at + RELAY_BYTES;
        if (end.got % RELAY_TELLS == 0)
            atomic_store_explicit(&relay->came, end.got, memory_order_relaxed);
    }
    free(message);
    return NULL;
}

/* Half a round trip, in us. */
static double latency_us(struct relay *relay, uint64_t run_ns)
{
    struct relay_end end = {.relay = relay, .room = EMU_EDGE_SLOTS};
    uint8_t data[RELAY_BYTES] = {0};
    uint64_t start_ns = emu_now_ns(), now_ns = start_ns;

    while (now_ns - start_ns < run_ns) {
        end_send(&end, data);
        end_take(&end, data);
        now_ns = emu_now_ns();
    }
    return (double)(now_ns - start_ns) / 2e3 / (double)end.got;
}

/* MB/s. */
static double stream_mb(struct relay *relay, uint64_t run_ns)
{
    struct relay_end end = {.relay = relay, .room = EMU_EDGE_SLOTS};
    uint8_t *message = calloc(1, RELAY_MESSAGE);
    uint64_t start_ns = emu_now_ns(), now_ns = start_ns;
    size_t at = 0;

    while (message && now_ns - start_ns < run_ns) {
        end_send(&end, message + at);
        at = at + 2 * RELAY_BYTES > RELAY_MESSAGE ? 0 : at + RELAY_BYTES;
        if (!at)
            now_ns = emu_now_ns();
    }
    free(message);
    return (double)atomic_load_explicit(&relay->came, memory_order_relaxed) * RELAY_BYTES * 1e3 /
           (double)(now_ns - start_ns);
}

/* --- rows -------------------------------------------------------------------------------- */

struct relay_case {
    const char *name, *unit;
    bool refers;
    void *(*far)(void *relay);
    double (*near)(struct relay *relay, uint64_t run_ns);
};

static bool way_open(struct relay_way *way)
{
    way->slot = emu_zeros(EMU_EDGE_SLOTS * sizeof *way->slot);
    return way->slot;
}

static bool relay_open(struct relay *relay)
{
    return way_open(&relay->up[0]) && way_open(&relay->up[1]) && way_open(&relay->down[0]) &&
           way_open(&relay->down[1]);
}

static void relay_close(struct relay *relay)
{
    for (uint32_t side = 0; side < 2; side++) {
        free(relay->up[side].slot);
        free(relay->down[side].slot);
    }
}

/* A negative number: there are no threads, or no memory. */
static double relay_sample(const struct relay_case *what, uint64_t run_ns)
{
    struct relay relay = {.refers = what->refers,
                          .oversubscribed = sysconf(_SC_NPROCESSORS_ONLN) < 3};
    pthread_t middle, far;
    double value = -1;

    if (relay_open(&relay) && !pthread_create(&middle, NULL, relay_main, &relay)) {
        bool both = !pthread_create(&far, NULL, what->far, &relay);

        if (both)
            value = what->near(&relay, run_ns);
        atomic_store_explicit(&relay.over, true, memory_order_relaxed);
        if (both)
            pthread_join(far, NULL);
        pthread_join(middle, NULL);
    }
    relay_close(&relay);
    return value;
}

void bench_relay(struct bench *bench, int unused)
{
    static const struct relay_case cases[] = {
        {"relay.latency8", "us", false, answer_main, latency_us},
        {"relay.stream.copies4", "MB/s", false, sink_main, stream_mb},
        {"relay.stream.copies2", "MB/s", true, sink_main, stream_mb},
    };
    unsigned repeat = bench_repeat(bench, 9, 3);

    (void)unused;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bench_samples samples = {.count = 0};
        bool done = true;

        bench_progress(bench, "relay", i / 3.0);
        for (unsigned r = 0; r < repeat && done; r++) {
            bench_sample(&samples, relay_sample(&cases[i], bench_sample_ns(bench)));
            done = samples.value[r] > 0;
        }
        bench_row(bench, &(struct bench_row){.name = cases[i].name,
                                             .unit = cases[i].unit,
                                             .samples = &samples,
                                             .error = done ? NULL : "no memory or threads"});
    }
}
