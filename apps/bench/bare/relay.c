/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * relay.c - what messages between two processes cannot be faster than, however little the fabric
 * does: three threads, of which the middle one hands on what the first has written to the last.
 *
 * Slots are as large as segments, rings as long as those of edges, and who finds nothing waits as
 * everybody in fabemu does; so the middle one keeps its core for the answer of who is on another
 * one. Streams are written around the caches, and the middle one goes to the core of who sends, as
 * the fabric's worker does; what is no stream is 8 bytes, and touches one line of a slot. There are
 * no headers to read, no routes, no credits of cables, no MPI. `copies4` copies as the fabric does:
 * into the sender's ring, out of it, into the receiver's, out of it. In `copies2` the middle one
 * hands on a number alone, and the receiver reads the sender's ring. In `packets` it forms packets
 * of what it copies, and has them acknowledged (packets.h).
 */
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "apps/bench/bare/packets.h"
#include "apps/bench/internal.h"
#include "emu/alloc.h"
#include "emu/edge/around.h"
#include "emu/edge/edge.h"
#include "emu/now.h"
#include "emu/worker/place.h"
#include "emu/worker/crowd.h"
#include "emu/worker/wait.h"

#define RELAY_HEAD     8u /* bytes of a slot's payload that say whose it is, */
#define RELAY_BYTES    (EMU_PAYLOAD_BYTES - RELAY_HEAD) /* and the others, a message's */
#define RELAY_TELLS    64u         /* slots of a stream between two words of how many there are */
#define RELAY_MESSAGE  (1u << 20u) /* bytes */
#define RELAY_MESSAGES 32u         /* that are received into different places */

#define RELAY_SHORT 8u /* of one that is no stream's */

/* A ring from one thread to another. */
struct relay_way {
    struct emu_seg *slot; /* seq: copies2, the slot that has it */
    alignas(2 * EMU_LINE) _Atomic uint64_t put;
    _Atomic uint32_t core; /* 1 + that of who writes what is no stream; 0: not known */
    alignas(2 * EMU_LINE) _Atomic uint64_t taken;
};

struct relay {
    struct relay_way up[2], down[2]; /* of either end */
    uint8_t *message;                /* that are sent, RELAY_MESSAGE bytes, */
    uint8_t *place;                  /* and RELAY_MESSAGES where they are received */
    struct bare_packets *packets;    /* what is between them; NULL: slots go as they are */
    bool refers;
    bool streams;
    bool oversubscribed;
    bool apart; /* the ends are bound to cores of their own, as mpirun binds ranks: */
    int end_core[2];
    atomic_bool over;
    alignas(2 * EMU_LINE) _Atomic uint64_t came; /* slots, at the far end */
    alignas(2 * EMU_LINE) _Atomic uint32_t core; /* 1 + that of the stream's sender; 0: not known */
    alignas(2 * EMU_LINE) _Atomic uint32_t core_between; /* 1 + that of the thread between them */
};

struct relay_end {
    struct relay *relay;
    uint32_t side;
    bool around; /* what is sent now is written around the caches */
    uint64_t sent, room, got, has;
};

/* --- rings ------------------------------------------------------------------------------- */

/* False: it is over. */
static bool relay_waits(const struct relay *relay, unsigned *rounds)
{
    bench_wait(rounds, relay->oversubscribed);
    return !atomic_load_explicit(&relay->over, memory_order_relaxed);
}

static uint32_t relay_bytes(const struct relay *relay)
{
    return relay->streams ? RELAY_BYTES : RELAY_SHORT;
}

static struct emu_seg *way_slot(const struct relay_way *way, uint64_t number)
{
    return &way->slot[number % EMU_EDGE_SLOTS];
}

/* Is there slot @number? @has: so many there were when it was looked last. */
static bool way_has(const struct relay_way *way, uint64_t number, uint64_t *has)
{
    if (*has == number)
        *has = atomic_load_explicit(&way->put, memory_order_acquire);
    return *has != number;
}

static void way_show(struct relay_way *way, uint64_t put)
{
    emu_around_end();
    atomic_store_explicit(&way->put, put, memory_order_release);
}

static uint64_t way_taken(const struct relay_way *way)
{
    return atomic_load_explicit(&way->taken, memory_order_acquire);
}

static void way_tell(struct relay_way *way, uint64_t taken)
{
    atomic_store_explicit(&way->taken, taken, memory_order_release);
}

/* Shows in @shown where this thread runs, which is returned. */
static uint32_t relay_core(_Atomic uint32_t *shown)
{
    uint32_t core = (uint32_t)sched_getcpu() + 1;

    if (atomic_load_explicit(shown, memory_order_relaxed) != core)
        atomic_store_explicit(shown, core, memory_order_relaxed);
    return core;
}

/* --- ends -------------------------------------------------------------------------------- */

static struct relay_end end_begin(struct relay *relay, uint32_t side)
{
    if (relay->apart)
        bench_bind(relay->end_core[side]);
    return (struct relay_end){.relay = relay, .side = side, .room = EMU_EDGE_SLOTS};
}

/* Every slot of what is no stream is shown at once; of a stream, some at a time. */
static void end_show(struct relay_end *end)
{
    struct relay *relay = end->relay;

    if (!relay->streams) {
        relay_core(&relay->up[end->side].core);
        way_show(&relay->up[end->side], end->sent);
    } else if (end->sent % RELAY_TELLS == 0) {
        uint32_t core = relay_core(&relay->core);

        way_show(&relay->up[end->side], end->sent);
        end->around = relay->refers ||
                      core != atomic_load_explicit(&relay->core_between, memory_order_relaxed);
    }
}

static bool end_send(struct relay_end *end, const uint8_t *data)
{
    struct relay_way *way = &end->relay->up[end->side];
    const struct emu_hdr hdr = {.len = EMU_PAYLOAD_BYTES};
    uint64_t head = end->sent;
    struct emu_seg *slot = way_slot(way, end->sent);
    unsigned rounds = 0;

    while (end->sent == end->room) {
        end->room = way_taken(way) + EMU_EDGE_SLOTS;
        if (end->sent == end->room && !relay_waits(end->relay, &rounds))
            return false;
    }
    if (end->around) {
        emu_around_write(slot, emu_hdr_words(&hdr), &head, data);
    } else {
        if (end->relay->streams)
            emu_seg_prefetch(slot + EMU_EDGE_AHEAD, true);
        slot->hdr = hdr;
        memcpy(slot->payload, &head, RELAY_HEAD);
        emu_copy(slot->payload + RELAY_HEAD, data, relay_bytes(end->relay));
    }
    end->sent++;
    end_show(end);
    return true;
}

static bool end_take(struct relay_end *end, uint8_t *data)
{
    struct relay_way *way = &end->relay->down[end->side];
    const struct emu_seg *slot = way_slot(way, end->got);
    unsigned rounds = 0;

    while (!way_has(way, end->got, &end->has)) {
        way_tell(way, end->got);
        if (!relay_waits(end->relay, &rounds))
            return false;
    }
    if (end->relay->refers)
        slot = way_slot(&end->relay->up[!end->side], slot->hdr.seq);
    if (end->relay->streams)
        emu_seg_prefetch(slot + EMU_EDGE_AHEAD, false);
    emu_copy(data, slot->payload + RELAY_HEAD, relay_bytes(end->relay));
    if (++end->got % RELAY_TELLS == 0)
        way_tell(way, end->got);
    return true;
}

/* --- between them ------------------------------------------------------------------------ */

/* From one end's ring into the other's. */
struct relay_lane {
    struct relay_way *from, *to;
    uint64_t moved, has, room, told;
    _Atomic uint32_t *core; /* of who is told */
};

static void lane_copy(const struct relay *relay, const struct emu_seg *from, struct emu_seg *to)
{
    const struct emu_hdr hdr = from->hdr;

    if (relay->streams) {
        emu_seg_prefetch(from + EMU_EDGE_AHEAD, false);
        emu_around_write(to, emu_hdr_words(&hdr), from->payload, from->payload + 8);
    } else {
        emu_seg_copy(to, from, RELAY_HEAD + RELAY_SHORT);
        to->hdr = hdr;
    }
}

/* So many slots are handed on together. Whole packets are shown, and rings wrap at their ends. */
static uint32_t lane_slots(const struct relay *relay)
{
    static_assert(!(RELAY_TELLS % BARE_PACKET_SLOTS || EMU_EDGE_SLOTS % BARE_PACKET_SLOTS), "cut");
    return relay->packets ? BARE_PACKET_SLOTS : 1;
}

/* The next ones: they are here, and there is room. */
static void lane_move(const struct relay *relay, struct relay_lane *lane)
{
    const struct emu_seg *from = way_slot(lane->from, lane->moved);
    struct emu_seg *to = way_slot(lane->to, lane->moved);

    if (relay->packets) {
        bare_packets_move(relay->packets, from, to);
    } else if (relay->refers) {
        to->hdr.seq = (uint32_t)lane->moved;
    } else {
        lane_copy(relay, from, to);
    }
    lane->moved += lane_slots(relay);
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

    while (lane->moved - before < RELAY_TELLS && way_has(lane->from, lane->moved, &lane->has)) {
        if (lane->room - lane->moved < lane_slots(relay))
            lane->room = way_taken(lane->to) + EMU_EDGE_SLOTS;
        if (lane->room - lane->moved < lane_slots(relay))
            break;
        lane_move(relay, lane);
    }
    lane_tell(lane, relay->refers);
    if (lane->moved == before)
        return false;
    way_show(lane->to, lane->moved);
    return true;
}

/* As the fabric's worker does: it says where it runs, and goes to where a stream comes from. */
static void relay_place(struct relay *relay, struct emu_place *place)
{
    uint32_t own = relay_core(&relay->core_between);
    uint32_t core = atomic_load_explicit(&relay->core, memory_order_relaxed);

    if (relay->oversubscribed && emu_place_hear(place, 0, core, own))
        emu_place_move(core);
}

/* When an answer is not awaited any more to what was moved; 0: it is not, as by the worker. */
static uint64_t relay_answer_ns(const struct relay *relay, const struct relay_lane *lane)
{
    uint32_t core = atomic_load_explicit(lane->core, memory_order_relaxed);

    if (relay->streams || !relay->oversubscribed || !core || core == (uint32_t)sched_getcpu() + 1)
        return 0;
    return emu_now_ns() + EMU_CROWD_ANSWER_NS;
}

/* lane_step(), until no answer is awaited. */
static bool lane_serve(const struct relay *relay, struct relay_lane *lane, uint64_t *answer_ns)
{
    if (!lane_step(relay, lane))
        return false;
    *answer_ns = relay_answer_ns(relay, lane);
    return true;
}

static void *relay_main(void *ctx)
{
    struct relay *relay = ctx;
    struct relay_lane lane[2] = {
        {.from = &relay->up[0], .to = &relay->down[1], .core = &relay->up[1].core},
        {.from = &relay->up[1], .to = &relay->down[0], .core = &relay->up[0].core}};
    struct emu_place place = {0};
    uint64_t answer_ns = 0;
    unsigned rounds = 0;
    bool goes_on = true;

    while (goes_on) {
        bool moved = lane_serve(relay, &lane[0], &answer_ns);

        moved = lane_serve(relay, &lane[1], &answer_ns) || moved;
        if (moved && relay->streams)
            relay_place(relay, &place);
        if (moved)
            rounds = 0;
        else if (emu_now_ns() >= answer_ns)
            goes_on = relay_waits(relay, &rounds);
    }
    return NULL;
}

/* --- what the ends do -------------------------------------------------------------------- */

static void *answer_main(void *ctx)
{
    struct relay_end end = end_begin(ctx, 1);
    uint8_t data[RELAY_BYTES];

    while (end_take(&end, data) && end_send(&end, data))
        ;
    return NULL;
}

static void *sink_main(void *ctx)
{
    struct relay *relay = ctx;
    struct relay_end end = end_begin(relay, 1);
    const size_t room = (size_t)RELAY_MESSAGES * RELAY_MESSAGE;
    size_t at = 0;

    while (end_take(&end, relay->place + at)) {
        at = at + 2 * RELAY_BYTES > room ? 0 : at + RELAY_BYTES;
        if (end.got % RELAY_TELLS == 0)
            atomic_store_explicit(&relay->came, end.got, memory_order_relaxed);
    }
    return NULL;
}

/* Half a round trip, in us. */
static double latency_us(struct relay *relay, uint64_t run_ns)
{
    struct relay_end end = end_begin(relay, 0);
    uint8_t data[RELAY_BYTES] = {0};
    uint64_t start_ns = emu_now_ns(), now_ns = start_ns;

    while (now_ns - start_ns < run_ns) {
        end_send(&end, data);
        end_take(&end, data);
        now_ns = emu_now_ns();
    }
    return (double)(now_ns - start_ns) / 2e3 / (double)end.got;
}

static uint64_t relay_came(const struct relay *relay)
{
    return atomic_load_explicit(&relay->came, memory_order_relaxed);
}

/* MB/s, from when the first slots have come: who takes them may have to wait for a core. */
static double stream_mb(struct relay *relay, uint64_t run_ns)
{
    struct relay_end end = end_begin(relay, 0);
    uint64_t start_ns = 0, now_ns = 0, first = 0;
    size_t at = 0;

    while (!first || now_ns - start_ns < run_ns || relay_came(relay) == first) {
        end_send(&end, relay->message + at);
        at = at + 2 * RELAY_BYTES > RELAY_MESSAGE ? 0 : at + RELAY_BYTES;
        if (at)
            continue;
        now_ns = emu_now_ns();
        if (!first) {
            first = relay_came(relay);
            start_ns = now_ns;
        }
    }
    return (double)(relay_came(relay) - first) * RELAY_BYTES * 1e3 / (double)(now_ns - start_ns);
}

/* --- rows -------------------------------------------------------------------------------- */

struct relay_case {
    const char *name, *unit;
    bool streams, refers, packets;
    void *(*far)(void *relay);
    double (*near)(struct relay *relay, uint64_t run_ns);
};

static bool way_open(struct relay_way *way)
{
    way->slot = emu_zeros((EMU_EDGE_SLOTS + EMU_EDGE_AHEAD) * sizeof *way->slot);
    return way->slot;
}

static bool relay_open(struct relay *relay, bool packets)
{
    relay->message = calloc(1, RELAY_MESSAGE);
    relay->place = malloc((size_t)RELAY_MESSAGES * RELAY_MESSAGE);
    if (relay->place) /* its pages are there before anything is measured: a rank's are */
        memset(relay->place, 1, (size_t)RELAY_MESSAGES * RELAY_MESSAGE);
    if (packets)
        relay->packets = bare_packets_open();
    return relay->message && relay->place && (relay->packets || !packets) &&
           way_open(&relay->up[0]) && way_open(&relay->up[1]) && way_open(&relay->down[0]) &&
           way_open(&relay->down[1]);
}

static void relay_close(struct relay *relay)
{
    for (uint32_t side = 0; side < 2; side++) {
        free(relay->up[side].slot);
        free(relay->down[side].slot);
    }
    bare_packets_close(relay->packets);
    free(relay->message);
    free(relay->place);
}

/* A negative number: there are no threads, or no memory, or a packet came otherwise. */
static double relay_sample(const struct relay_case *what, uint64_t run_ns)
{
    struct relay relay = {.streams = what->streams,
                          .refers = what->refers,
                          .oversubscribed = emu_place_cores() < 3};
    pthread_t middle, far;
    cpu_set_t allowed;
    double value = -1;

    relay.apart = bench_two_cores(relay.end_core) &&
                  !sched_getaffinity(0, sizeof allowed, &allowed);

    if (relay_open(&relay, what->packets) && !pthread_create(&middle, NULL, relay_main, &relay)) {
        bool both = !pthread_create(&far, NULL, what->far, &relay);

        if (both)
            value = what->near(&relay, run_ns);
        atomic_store_explicit(&relay.over, true, memory_order_relaxed);
        if (both)
            pthread_join(far, NULL);
        pthread_join(middle, NULL);
        if (relay.packets && bare_packets_bad(relay.packets))
            value = -1;
    }
    if (relay.apart)
        sched_setaffinity(0, sizeof allowed, &allowed);
    relay_close(&relay);
    return value;
}

void bench_relay(struct bench *bench, int unused)
{
    static const struct relay_case cases[] = {
        {"relay.latency8", "us", false, false, false, answer_main, latency_us},
        {"relay.stream.copies4", "MB/s", true, false, false, sink_main, stream_mb},
        {"relay.stream.copies2", "MB/s", true, true, false, sink_main, stream_mb},
        {"relay.stream.packets", "MB/s", true, false, true, sink_main, stream_mb},
    };
    unsigned repeat = bench_repeat(bench, 9, 3);

    (void)unused;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bench_samples samples = {.count = 0};
        bool done = true;

        bench_progress(bench, "relay", i / 4.0);
        for (unsigned r = 0; r < repeat && done; r++) {
            bench_sample(&samples, relay_sample(&cases[i], bench_sample_ns(bench)));
            done = samples.value[r] > 0;
        }
        bench_row(bench,
                  &(struct bench_row){.name = cases[i].name,
                                      .unit = cases[i].unit,
                                      .samples = &samples,
                                      .error = done ? NULL : "no memory or threads, or damage"});
    }
}
