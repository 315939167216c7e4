/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hops.c - segment-hops per second of one core.
 *
 * A hop is a segment that leaves a switch; routing, credits and counters are
 * on. Hops are counted per second of the stepping thread's own time, so that a
 * neighbour who takes the core for a while does not count; cpu_share says how
 * much of the wall's time that was. The nodes that send and take the segments
 * run on the same thread, and so do their adapters where packets are
 * acknowledged: their work is in the figure.
 */
#include "apps/bench/hops.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "apps/bench/bare/hops.h"
#include "apps/bench/internal.h"
#include "emu/now.h"
#include "emu/packet/packet.h"
#include "emu/worker/worker.h"

#define LOOK_EVERY    16 /* passes between looks at the clock */
#define SEED          1
#define NO_CORE_TRIES 7    /* each twice as long as the one before */
#define SENT_AGAIN    1000 /* one packet of so many may be: who stands still finds time-outs */

int bench_config(struct fabric_config *ret, struct topo_graph **graph, const char *profile,
                 const char *topo, char *error, size_t error_bytes)
{
    *ret = (struct fabric_config){.name = "bench", .clock = EMU_CLOCK_RAW, .seed = SEED};
    int err = emu_profile_load(&ret->profile, profile, error, error_bytes);
    if (!err)
        err = topo_parse(graph, topo, error, error_bytes);
    ret->graph = *graph;
    return err;
}

int bench_hops_open(struct bench_hops *hops, const struct bench_hops_case *what, uint32_t workers,
                    char *error, size_t error_bytes)
{
    memset(hops, 0, sizeof *hops);
    int err =
        bench_config(&hops->config, &hops->graph, what->profile, what->topo, error, error_bytes);
    if (err)
        return err;
    err = bench_nodes_init(&hops->nodes, hops->graph->nodes, &what->traffic, SEED);
    if (err) {
        snprintf(error, error_bytes, "%s", strerror(-err));
        return err;
    }
    hops->config.profile.transport = what->acknowledged ? EMU_TRANSPORT_ACKNOWLEDGED
                                                        : EMU_TRANSPORT_NONE;
    /* What rows say of packets is of the paper's. */
    hops->config.profile.raw_packet_bytes = hops->config.profile.packet_bytes;
    hops->config.profile.raw_pool_slots = hops->config.profile.pool_slots;
    hops->config.threads = workers ? workers : 1;
    hops->config.start_stopped = !workers;
    hops->config.local_nodes = &hops->nodes.ops;
    return fabric_start(&hops->fabric, &hops->config, error, error_bytes);
}

void bench_hops_close(struct bench_hops *hops)
{
    fabric_stop(hops->fabric);
    bench_nodes_free(&hops->nodes);
    topo_free(hops->graph);
}

/*
 * How many segments a packet had on the wire, on average, where @packets carried @delivered of the
 * nodes' segments. One that fits into a segment on the wire, beside the packet's header and end, is
 * a packet of its own. Longer ones are gathered: a packet has one segment for each of them, and one
 * more for what headers and end take.
 */
static double packet_segments(const struct bench_hops *hops, double delivered, double packets)
{
    uint32_t bytes = EMU_HDR_BYTES + hops->nodes.traffic.bytes;

    return emu_packet_segments(bytes) == 1 ? 1 : delivered / packets + 1;
}

struct bench_hops_sample bench_hops_step(struct bench_hops *hops, uint64_t run_ns)
{
    struct emu_worker *worker = fabric_worker(hops->fabric, 0);
    uint64_t wall_ns = emu_now_ns();
    uint64_t start_ns = emu_time_ns(CLOCK_THREAD_CPUTIME_ID);
    uint64_t now_ns = start_ns;
    struct bench_hops_sample ret = {.packet = 0};
    struct fabric_totals before, after;

    fabric_totals_read(hops->fabric, &before);
    while (now_ns < start_ns + run_ns) {
        for (unsigned i = 0; i < LOOK_EVERY; i++)
            emu_worker_pass(worker);
        now_ns = emu_time_ns(CLOCK_THREAD_CPUTIME_ID);
    }
    fabric_totals_read(hops->fabric, &after);
    hops->cpu_ns += now_ns - start_ns;
    hops->wall_ns += emu_now_ns() - wall_ns;
    double spent_ns = (double)(now_ns - start_ns);
    double delivered = (double)(after.delivered - before.delivered);
    double packets = (double)(after.transport.packets - before.transport.packets);
    ret.hop_ns = spent_ns / (double)(after.hops - before.hops);
    ret.segment_ns = spent_ns / delivered;
    if (packets > 0) { /* a reply for each */
        ret.packet = packet_segments(hops, delivered, packets);
        ret.packet_ns = spent_ns / packets;
        ret.hop_ns *= (ret.packet + 1) / ret.packet;
    }
    return ret;
}

const char *bench_hops_wrong(struct bench_hops *hops)
{
    struct fabric_totals totals;

    fabric_totals_read(hops->fabric, &totals);
    if (totals.dropped)
        return "segments were dropped";
    if (totals.transport.retransmissions * SENT_AGAIN > totals.transport.packets)
        return "packets were sent again";
    if (!totals.delivered || totals.hops < totals.delivered)
        return "no segments were delivered";
    return NULL;
}

struct json_object *bench_hops_conditions(const struct bench_hops *hops,
                                          const struct bench_hops_case *what)
{
    struct json_object *own = json_object_new_object();
    char share[32];
    double part = hops->wall_ns ? (double)hops->cpu_ns / (double)hops->wall_ns : 0;

    snprintf(share, sizeof share, "%.2f", part);
    json_object_object_add(own, "topo", json_object_new_string(what->topo));
    json_object_object_add(own, "traffic", json_object_new_string(what->says));
    json_object_object_add(own, "workers", json_object_new_int(1));
    json_object_object_add(own, "cpu_share", json_object_new_double_s(part, share));
    return own;
}

/* --- the crosspoint switch ---------------------------------------------------------- */

static void hops_row(struct bench *bench, const char *name, const struct bench_hops_case *what)
{
    struct bench_samples samples = {.count = 0};
    struct bench_hops hops;
    char error[256];

    int err = bench_hops_open(&hops, what, 0, error, sizeof error);
    struct bench_row row = {.name = name,
                            .unit = "Mhops/s",
                            .samples = &samples,
                            .error = err ? error : NULL,
                            .goal = BENCH_AT_LEAST,
                            .target = 100};
    if (!err) {
        bench_hops_step(&hops, bench_sample_ns(bench)); /* warm-up: queues fill */
        hops.cpu_ns = hops.wall_ns = 0;
        for (unsigned left = bench_repeat(bench, 9, 3); left; left--)
            bench_sample(&samples, 1e3 / bench_hops_step(&hops, bench_sample_ns(bench)).hop_ns);
        row.error = bench_hops_wrong(&hops);
        row.conditions = bench_hops_conditions(&hops, what);
    }
    bench_row(bench, &row);
    bench_hops_close(&hops);
}

/* --- the bare loop beside it ---------------------------------------------------------- */

enum { PLAIN, QUEUED, BARES };

struct beside {
    struct bench_samples fabric; /* Mhops/s */
    struct bench_samples bare[BARES];
    struct bench_samples ratio[BARES]; /* of a round */
};

static void beside_rows(struct bench *bench, const struct bench_hops_case *what,
                        const struct beside *beside, const char *error)
{
    const struct {
        const char *name;
        const char *unit;
        const struct bench_samples *samples;
    } rows[] = {{"hops.tree.uniform.bare", "Mhops/s", &beside->bare[PLAIN]},
                {"hops.tree.uniform bare/fabric", "x", &beside->ratio[PLAIN]},
                {"hops.tree.uniform.bare.queued", "Mhops/s", &beside->bare[QUEUED]},
                {"hops.tree.uniform bare.queued/fabric", "x", &beside->ratio[QUEUED]}};

    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct json_object *own = json_object_new_object();

        json_object_object_add(own, "topo", json_object_new_string(what->topo));
        json_object_object_add(own, "traffic", json_object_new_string(what->says));
        bench_row(bench, &(struct bench_row){.name = rows[i].name,
                                             .unit = rows[i].unit,
                                             .samples = rows[i].samples,
                                             .conditions = own,
                                             .error = error});
    }
}

/* A round: each moves segments for @ns, and the bare loops are compared with the fabric. */
static void beside_take(struct beside *beside, struct bench_hops *hops,
                        struct bare_hops *const bare[BARES], uint64_t ns)
{
    double hop_ns = bench_hops_step(hops, ns).hop_ns;

    bench_sample(&beside->fabric, 1e3 / hop_ns);
    for (unsigned i = 0; i < BARES; i++) {
        double bare_ns = bare_hops_step(bare[i], ns);

        bench_sample(&beside->bare[i], 1e3 / bare_ns);
        bench_sample(&beside->ratio[i], hop_ns / bare_ns);
    }
}

/* hops.tree.uniform and the loops that do no more than they must, in turns. */
static void tree_rows(struct bench *bench, const char *name, const struct bench_hops_case *what)
{
    uint64_t ns = bench_sample_ns(bench);
    struct beside beside = {.fabric = {.count = 0}};
    struct bare_hops *bare[BARES] = {bare_hops_open(false), bare_hops_open(true)};
    struct bench_row row = {.name = name,
                            .unit = "Mhops/s",
                            .samples = &beside.fabric,
                            .goal = BENCH_AT_LEAST,
                            .target = 100};
    struct bench_hops hops;
    char error[256] = "there is no memory";

    if (bench_hops_open(&hops, what, 0, error, sizeof error) || !bare[PLAIN] || !bare[QUEUED]) {
        row.error = error;
    } else {
        bench_hops_step(&hops, ns); /* warm-up: queues fill */
        for (unsigned i = 0; i < BARES; i++)
            bare_hops_step(bare[i], ns);
        hops.cpu_ns = hops.wall_ns = 0;
        for (unsigned left = bench_repeat(bench, 9, 3); left; left--)
            beside_take(&beside, &hops, bare, ns);
        row.error = bench_hops_wrong(&hops);
        row.conditions = bench_hops_conditions(&hops, what);
    }
    bench_row(bench, &row);
    if (!row.error && (bare_hops_stray(bare[PLAIN]) || bare_hops_stray(bare[QUEUED])))
        row.error = "segments went astray";
    beside_rows(bench, what, &beside, row.error);
    bench_hops_close(&hops);
    for (unsigned i = 0; i < BARES; i++)
        bare_hops_close(bare[i]);
}

/* --- workers on threads of their own ------------------------------------------------ */

/* Nobody is attached: what is read are counters of the fabric's threads alone. */
static uint64_t hops_of(const struct fabric *fabric)
{
    struct fabric_totals totals;

    fabric_totals_here(fabric, &totals);
    return totals.hops;
}

double bench_mhops(const struct fabric *fabric, uint64_t ns)
{
    double mhops = 0;

    /* If other programs use the host's cores, no segment may move for a while. */
    for (unsigned i = 0; mhops <= 0 && i <= NO_CORE_TRIES; i++, ns *= 2) {
        const struct timespec rest = {.tv_sec = (time_t)(ns / 1000000000u),
                                      .tv_nsec = (long)(ns % 1000000000u)};
        uint64_t before = hops_of(fabric), start_ns = emu_now_ns();

        nanosleep(&rest, NULL);
        mhops = (double)(hops_of(fabric) - before) * 1e3 / (double)(emu_now_ns() - start_ns);
    }
    return mhops;
}

double bench_threads_mhops(const struct bench_hops_case *what, uint32_t workers, uint64_t run_ns,
                           char *error, size_t error_bytes)
{
    struct bench_hops hops;
    double mhops = -1;

    if (!bench_hops_open(&hops, what, workers, error, error_bytes)) {
        bench_mhops(hops.fabric, run_ns / 2); /* queues fill */
        mhops = bench_mhops(hops.fabric, run_ns);
        if (mhops <= 0)
            snprintf(error, error_bytes, "no segment has moved in all that time");
    }
    bench_hops_close(&hops);
    return mhops;
}

static void twin_hops(const void *what)
{
    char error[256];

    bench_threads_mhops(what, 1, BENCH_TWIN_NS, error, sizeof error);
}

/* The same while another process does so, too. */
static double twin_mhops(const struct bench_hops_case *what, uint64_t run_ns, char *error,
                         size_t error_bytes)
{
    pid_t twin = bench_twin_begin(twin_hops, what);
    double mhops = bench_threads_mhops(what, 1, run_ns, error, error_bytes);

    return bench_twin_end(twin, error, error_bytes) ? mhops : -1;
}

struct gains {
    struct bench_samples two; /* workers, over one */
    struct bench_samples most;
};

static bool gains_take(struct gains *gains, const struct bench_hops_case *what, uint64_t run_ns,
                       char *error, size_t error_bytes)
{
    double alone = bench_threads_mhops(what, 1, run_ns, error, error_bytes);
    double both = alone > 0 ? bench_threads_mhops(what, 2, run_ns, error, error_bytes) : -1;
    double beside = both > 0 ? twin_mhops(what, run_ns, error, error_bytes) : -1;

    if (beside <= 0)
        return false;
    bench_sample(&gains->two, both / alone);
    bench_sample(&gains->most, 2 * beside / alone);
    return true;
}

static void gain_row(struct bench *bench, const char *name, const char *workers,
                     const struct bench_hops_case *what, const struct bench_samples *samples,
                     const char *error)
{
    struct json_object *own = json_object_new_object();

    json_object_object_add(own, "topo", json_object_new_string(what->topo));
    json_object_object_add(own, "traffic", json_object_new_string(what->says));
    json_object_object_add(own, "workers", json_object_new_string(workers));
    bench_row(bench, &(struct bench_row){.name = name,
                                         .unit = "times",
                                         .samples = samples,
                                         .conditions = own,
                                         .error = error});
}

/* What a second worker gains, on threads, and what it can gain at most; in turns. */
static void gain_rows(struct bench *bench, const struct bench_hops_case *what)
{
    struct gains gains = {.two = {.count = 0}};
    char error[256];
    bool good = true;
    int core[2];

    if (!bench_two_cores(core))
        return;
    for (unsigned left = bench_repeat(bench, 9, 3); good && left; left--)
        good = gains_take(&gains, what, bench_sample_ns(bench), error, sizeof error);
    gain_row(bench, "hops.tree.uniform.gain2", "2 against 1", what, &gains.two,
             good ? NULL : error);
    gain_row(bench, "hops.tree.uniform.most2", "1 and 1 in another process against 1", what,
             &gains.most, good ? NULL : error);
}

void bench_hops(struct bench *bench, int unused)
{
    enum { TREE_UNIFORM = 2, CASES = 4 };
    static const struct {
        const char *name;
        struct bench_hops_case what;
    } cases[CASES] = {
        {"hops.switch.uniform", {"oq2004", false, "kary:16,1", "uniform", {0, 1, 240}}},
        {"hops.switch.complement", {"oq2004", false, "kary:16,1", "complement", {16, 1, 240}}},
        {"hops.tree.uniform", {"oq2004", false, "kary:4,3", "uniform", {0, 1, 240}}},
        {"hops.tree.complement", {"oq2004", false, "kary:4,3", "complement", {64, 1, 240}}},
    };

    (void)unused;
    for (unsigned i = 0; i < CASES; i++) {
        bench_progress(bench, "hops", i / 5.0);
        (i == TREE_UNIFORM ? tree_rows : hops_row)(bench, cases[i].name, &cases[i].what);
    }
    bench_progress(bench, "hops", 0.8);
    gain_rows(bench, &cases[TREE_UNIFORM].what);
}
