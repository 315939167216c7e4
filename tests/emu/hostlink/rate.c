/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rate.c - what a host link carries when nothing but the link and its port has anything to do: on
 * one host a device sends whole segments into cables as fast as their credits allow, on the other
 * one takes them. scripts/hostbench starts both and compares with what DPDK's own program does.
 *
 *     rate DEVICE HOST [SECONDS [CORE [KEY-FILE]]]     HOST: 0 sends, 1 takes; CORE -1: any
 *
 * The worker, and all else of the process, is on core CORE. Prints a line of JSON: segments and
 * frames of SECONDS (2) after the beginning is over, and the processor's time that they took. Ends
 * with status 0 when something was measured; with 3 when there is no such port.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "apps/bench/link_end.h"
#include "emu/alloc.h"
#include "emu/hostlink/hostlink.h"
#include "emu/hostlink/open.h"
#include "emu/now.h"
#include "emu/worker/worker.h"

#define CABLES    8u
#define CREDITS   256u   /* a cable: far more than are under way in a round trip */
#define WINDOW    1024u  /* frames, as apps/hosts has it */
#define BUFS      65536u /* for all that cables hold */
#define MEET_NS   20000000000ull
#define BEGIN_NS  300000000ull /* until all is under way */
#define MOST_NS   60000000000ull
#define SILENT_NS 5000000000ull

struct rate {
    struct emu_hostport *port;
    char name[sizeof((struct emu_hostport *)0)->name];
    uint32_t frame_bytes;
    struct emu_profile profile;
    struct emu_pool *pool;
    struct emu_worker *worker;
    struct emu_hostlink *link;
    struct bench_link_end *end;
    bool sends;
    uint8_t key[EMU_HOSTLINK_KEY_BYTES];
    bool has_key;
};

static void fail(const char *what)
{
    fprintf(stderr, "rate: %s\n", what);
    exit(EXIT_FAILURE);
}

/* --- made --------------------------------------------------------------------------- */

static void read_key(struct rate *rate, const char *path)
{
    FILE *file = fopen(path, "rb");

    if (!file || fread(rate->key, sizeof rate->key, 1, file) != 1)
        fail("the key cannot be read");
    fclose(file);
    rate->has_key = true;
}

static void make_worker(struct rate *rate)
{
    const struct emu_clock clock = {.mode = EMU_CLOCK_RAW};
    char error[128];

    if (emu_profile_load(&rate->profile, "oq2004", error, sizeof error))
        fail(error);
    rate->pool = emu_pool_create(BUFS);
    rate->end = emu_zeros(CABLES * sizeof *rate->end);
    if (!rate->pool || !rate->end ||
        emu_worker_create(&rate->worker, CABLES + 1, &clock, rate->pool))
        fail("no memory");
    for (uint32_t i = 0; i < CABLES; i++)
        bench_link_end_init(&rate->end[i], rate->worker, rate->sends);
}

static void make_link(struct rate *rate)
{
    struct emu_hostlink_peer peer = {.session = {.fabric = 1,
                                                 .host = rate->sends ? 0 : 1,
                                                 .peer = rate->sends ? 1 : 0,
                                                 .key = rate->has_key ? rate->key : NULL,
                                                 .silent_ns = SILENT_NS,
                                                 .window = WINDOW},
                                     .cables = CABLES,
                                     .control_fd = -1};
    struct emu_hostlink_config config = {.port = rate->port,
                                         .nodes = BENCH_LINK_NODES,
                                         .peers = &peer,
                                         .count = 1};

    if (emu_hostlink_create(&rate->link, rate->worker, &config))
        fail(rate->has_key && emu_session_key_missing() ? emu_session_key_missing()
                                                        : "no host link");
    for (uint32_t i = 0; i < CABLES; i++) {
        struct bench_link_end *end = &rate->end[i];

        if (emu_hostlink_join(rate->link, 0, i, &end->tx, &end->rx, &end->dev, 0, NULL, CREDITS, 0,
                              &rate->profile))
            fail("no cable");
    }
}

/* --- measured ----------------------------------------------------------------------- */

static void nap(uint64_t ns)
{
    const struct timespec ts = {.tv_sec = (time_t)(ns / 1000000000u),
                                .tv_nsec = (long)(ns % 1000000000u)};

    nanosleep(&ts, NULL);
}

static uint64_t cpu_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* What has gone by so far. */
struct seen {
    uint64_t ns, cpu_ns, segments, frames, again;
};

static struct seen look(const struct rate *rate)
{
    const struct emu_hostlink_counts *counts = emu_hostlink_counts(rate->link, 0);
    const struct emu_session_counts *frames =
        emu_session_counts(emu_hostlink_session(rate->link, 0));

    return (struct seen){
        .ns = emu_now_ns(),
        .cpu_ns = cpu_ns(),
        .segments = emu_count_read(rate->sends ? &counts->entries_sent : &counts->entries_received),
        .frames = emu_count_read(rate->sends ? &frames->frames_sent : &frames->frames_received),
        .again = emu_count_read(&frames->sent_again)};
}

static void meet(const struct rate *rate)
{
    const uint64_t until_ns = emu_now_ns() + MEET_NS;

    while (emu_hostlink_phase(rate->link, 0) != EMU_HOSTLINK_UP) {
        if (emu_now_ns() > until_ns)
            fail("the other host was not met");
        nap(1000000);
    }
}

static bool measure(const struct rate *rate, uint64_t ns)
{
    struct seen from, to;

    meet(rate);
    for (uint32_t i = 0; i < CABLES; i++)
        emu_dev_signal_far(&rate->end[i].dev, EMU_EVENT_CREDIT, 1); /* begins */
    nap(BEGIN_NS);
    from = look(rate);
    nap(ns);
    to = look(rate);
    nap(BEGIN_NS); /* the other host may have begun later */
    printf("{\"host\": %d, \"device\": \"%s\", \"frame_bytes\": %u, \"seconds\": %.6f, "
           "\"cpu_seconds\": %.6f, \"segments\": %llu, \"frames\": %llu, \"sent_again\": %llu}\n",
           !rate->sends, rate->name, rate->frame_bytes, (double)(to.ns - from.ns) / 1e9,
           (double)(to.cpu_ns - from.cpu_ns) / 1e9,
           (unsigned long long)(to.segments - from.segments),
           (unsigned long long)(to.frames - from.frames),
           (unsigned long long)(to.again - from.again));
    return to.segments > from.segments;
}

static void end_all(struct rate *rate, struct emu_thread *thread)
{
    emu_thread_stop(thread);
    for (uint32_t i = 0; i < CABLES; i++)
        emu_link_unjoin(&rate->end[i].tx);
    emu_hostlink_destroy(rate->link);
    emu_worker_destroy(rate->worker);
    emu_pool_destroy(rate->pool);
    free(rate->end);
}

/* All threads that are started later are there, too. */
static void pin(int core)
{
    cpu_set_t cores;

    CPU_ZERO(&cores);
    if (core >= 0) {
        CPU_SET((unsigned)core, &cores);
        if (sched_setaffinity(0, sizeof cores, &cores))
            fail("no such core");
    }
}

int main(int argc, char **argv)
{
    static struct rate rate;
    struct emu_thread *thread;
    char error[512];
    bool measured;

    if (argc < 3) {
        fprintf(stderr, "usage: rate DEVICE HOST [SECONDS [CORE [KEY-FILE]]]\n");
        return 2;
    }
    double seconds = argc > 3 ? strtod(argv[3], NULL) : 2;
    if (!(seconds > 0 && seconds * 1e9 <= (double)MOST_NS))
        fail("SECONDS is above 0, and 60 at most");
    rate.sends = strcmp(argv[2], "0") == 0;
    pin(argc > 4 ? atoi(argv[4]) : -1);
    if (argc > 5)
        read_key(&rate, argv[5]);
    if (emu_hostport_open(&rate.port, argv[1], NULL, error, sizeof error) != 0) {
        fprintf(stderr, "%s\n", error);
        return 3;
    }
    memcpy(rate.name, rate.port->name, sizeof rate.name);
    rate.frame_bytes = rate.port->frame_bytes;
    make_worker(&rate);
    make_link(&rate);
    if (emu_thread_start(&thread, rate.worker, "rate"))
        fail("no thread");
    measured = measure(&rate, (uint64_t)(seconds * 1e9));
    end_all(&rate, thread);
    return !measured;
}
