/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * virtual.c - acknowledgments in simulated time: do links run full, and what does it
 * cost this host to simulate them?
 *
 * Rates are the network's, not this host's: a sample is a run with a seed of its
 * own. What links carry is the payload of packets, as a part of the link rate; of
 * that a program has 240 bytes of every 256, because each of its segments brings
 * its header along (nic/engine/engine.h). Headers leave most_percent().
 */
#include <stdio.h>
#include <string.h>

#include "apps/bench/virtual.h"
#include "emu/packet/packet.h"

#define PROFILE   "qsnet3"
#define MESSAGE   960 /* four segments: a packet's payload, with their headers, is 1024 bytes */
#define PACKET    1024
#define RATE_RUNS 5
#define RATE_LOAD 1.5 /* of each source: more than its link takes, so that it always has some */
#define RATE_PS   400000000

/* --- rates -------------------------------------------------------------------------- */

static uint32_t packet_wire_bytes(void)
{
    uint32_t bytes = 0;

    for (uint32_t s = 0; s < emu_packet_segments(PACKET); s++)
        bytes += emu_packet_wire_bytes(PACKET, s);
    return bytes;
}

/* A link that carries packets one way has the replies the other way. */
static double most_percent(bool both_ways)
{
    return 100.0 * PACKET / (packet_wire_bytes() + (both_ways ? EMU_REPLY_BYTES : 0));
}

/* Messages that arrived, a packet each, of what a sender's link could carry without headers. */
static double payload_percent(const struct traffic_result *result)
{
    struct emu_profile profile;
    char error[256];

    if (emu_profile_load(&profile, PROFILE, error, sizeof error))
        return 0;
    return 100 * result->from.mean * PACKET * (double)profile.link_ps_per_byte * 1e-12;
}

static struct json_object *rate_conditions(const struct bench_virtual_case *what, double most,
                                           double rate)
{
    struct json_object *own = bench_virtual_conditions(what, "1");
    char text[16];

    json_object_object_add(own, "transport", json_object_new_string("acknowledged"));
    snprintf(text, sizeof text, "%.2f", most);
    json_object_object_add(own, "most", json_object_new_double_s(most, text));
    rate = rate * EMU_PAYLOAD_BYTES / EMU_SEG_BYTES;
    snprintf(text, sizeof text, "%.2f", rate);
    json_object_object_add(own, "of_programs", json_object_new_double_s(rate, text));
    return own;
}

static void rate_rows(struct bench *bench, const struct bench_virtual_case *what)
{
    struct bench_samples rate = {.count = 0}, part = {.count = 0};
    double most = most_percent(what->pattern != NULL);
    struct bench_virtual_how how = {.warmup_ps = bench->quick ? 50000000 : 200000000,
                                    .measure_ps = bench->quick ? 100000000 : RATE_PS,
                                    .workers = 1};
    unsigned repeat = bench_repeat(bench, RATE_RUNS, 1);
    struct traffic_result result;
    bool good = true;
    char error[256];
    char name[64];

    while (how.seed++ < repeat && good) {
        good = bench_virtual_run(&result, what, &how, error, sizeof error);
        if (!good)
            break;
        double percent = payload_percent(&result);
        bench_sample(&rate, percent);
        bench_sample(&part, 100 * percent / most);
    }
    snprintf(name, sizeof name, "ack.rate.%s", what->name);
    bench_row(bench,
              &(struct bench_row){.name = name,
                                  .unit = "% link",
                                  .samples = &rate,
                                  .conditions = rate_conditions(what, most, bench_median(&rate)),
                                  .error = good ? NULL : error});
    snprintf(name, sizeof name, "ack.rate.%s of most", what->name);
    if (good)
        bench_row(bench, &(struct bench_row){.name = name, .unit = "%", .samples = &part});
}

void bench_ack_rate(struct bench *bench, int unused)
{
    static const struct bench_virtual_case cases[] = {
        {"pair.switches1", "qsnet:512", PROFILE, true, NULL, 1, MESSAGE, RATE_LOAD},
        {"pair.switches3", "qsnet:512", PROFILE, true, NULL, 16, MESSAGE, RATE_LOAD},
        {"pair.switches5", "qsnet:512", PROFILE, true, NULL, 128, MESSAGE, RATE_LOAD},
        {"all.complement", "qsnet:128", PROFILE, true, "complement", 0, MESSAGE, RATE_LOAD},
        {"all.uniform", "qsnet:128", PROFILE, true, "uniform", 0, MESSAGE, RATE_LOAD},
        {"all.alltoall", "qsnet:128", PROFILE, true, "alltoall", 0, MESSAGE, RATE_LOAD},
    };
    const unsigned count = sizeof cases / sizeof cases[0];

    (void)unused;
    for (unsigned i = 0; i < count; i++) {
        bench_progress(bench, "ack.rate", i / (double)count);
        rate_rows(bench, &cases[i]);
    }
}

/* --- speed: acknowledged beside not ------------------------------------------------- */

enum { NONE, ACK, TRANSPORTS };

static struct json_object *speed_conditions(const struct bench_virtual_case *what)
{
    struct json_object *own = bench_virtual_conditions(what, "1");

    json_object_object_add(own, "transport",
                           json_object_new_string(what->acknowledged ? "acknowledged" : "none"));
    return own;
}

static void speed_print(struct bench *bench, const struct bench_virtual_case *cases,
                        const struct bench_samples *mhops, const struct bench_samples *times,
                        const char *error)
{
    static const char *const who[TRANSPORTS] = {[NONE] = "none", [ACK] = "ack"};
    char name[64];

    for (int i = 0; i < TRANSPORTS; i++) {
        snprintf(name, sizeof name, "ack.virtual.%s.%s", cases[i].name, who[i]);
        bench_row(bench, &(struct bench_row){.name = name,
                                             .unit = "Mhops/s",
                                             .samples = &mhops[i],
                                             .conditions = speed_conditions(&cases[i]),
                                             .error = error});
    }
    snprintf(name, sizeof name, "ack.virtual.%s ack/none", cases[0].name);
    if (!error)
        bench_row(bench, &(struct bench_row){.name = name, .unit = "x time", .samples = times});
}

/* @what: of the acknowledged one; the other differs in nothing else. */
static void speed_rows(struct bench *bench, const struct bench_virtual_case *what)
{
    struct bench_virtual_case cases[TRANSPORTS] = {*what, *what};
    struct bench_samples mhops[TRANSPORTS] = {{.count = 0}}, times = {.count = 0};
    struct bench_virtual_how how = {.warmup_ps = 20000000,
                                    .measure_ps = bench->quick ? 50000000 : 500000000,
                                    .workers = 1,
                                    .seed = 1};
    struct traffic_result result[TRANSPORTS];
    bool good = true;
    char error[256];

    cases[NONE].acknowledged = false;
    for (unsigned left = bench_repeat(bench, 5, 1); left && good; left--) {
        for (int i = 0; i < TRANSPORTS && good; i++) {
            good = bench_virtual_run(&result[i], &cases[i], &how, error, sizeof error);
            if (good)
                bench_sample(&mhops[i], bench_virtual_mhops(&result[i]));
        }
        if (good) /* for as many messages: a load counts headers, and runs end at different times */
            bench_sample(&times, result[ACK].wall_s / (double)result[ACK].segments /
                                     (result[NONE].wall_s / (double)result[NONE].segments));
    }
    speed_print(bench, cases, mhops, &times, good ? NULL : error);
}

void bench_ack_virtual(struct bench *bench, int unused)
{
    static const struct bench_virtual_case cases[] = {
        {"ports8.load0.5", "kary:4,4", PROFILE, true, "uniform", 0, MESSAGE, 0.5},
        {"ports8.load0.8", "kary:4,4", PROFILE, true, "uniform", 0, MESSAGE, 0.8},
        {"ports32.load0.5", "kary:16,2", PROFILE, true, "uniform", 0, MESSAGE, 0.5},
        {"ports32.load0.8", "kary:16,2", PROFILE, true, "uniform", 0, MESSAGE, 0.8},
    };

    (void)unused;
    for (unsigned i = 0; i < 4; i++) {
        bench_progress(bench, "ack.virtual", i / 4.0);
        speed_rows(bench, &cases[i]);
    }
}
