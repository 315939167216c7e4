/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traffic_hosts_test.c - traffic runs on several hosts in simulated time: all measurements equal
 * those of one host, and a lost or stopped host ends the run on all.
 *
 * Each host is a thread with its own fabric, sessions and ports; a lane joins each two of them. The
 * test provides their clock: it advances only when all hosts have polled their ports, so that no
 * host is lost merely because the machine is slow. FABEMU_SEED replays the random configurations.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "apps/traffic/hosts.h"
#include "apps/traffic/run.h"
#include "tests/apps/traffic/draw.h"
#include "tests/test.h"
#include "tests/fixtures/fabric.h"
#include "tests/fixtures/hostlink/lane.h"

#define HOSTS_MOST 3u
#define PATIENCE   UINT64_C(60000000000) /* of the hosts' clock: no host is silent for so long */
#define TICK_NS    UINT64_C(1000000)     /* step of that clock */
#define SILENT_NS  (16 * TICK_NS)
#define POLLS      2u /* polls of the ports by each host between two ticks */
#define TICK_US    50u
#define HANG_POLLS 2000000u /* times @TICK_US: a hang, not a slow host */
#define FRAMES     512u
#define FRAME_MOST 1514u
#define KEPT_MOST  ((size_t)32768) /* log size of the lying host only */

static const char *const names[HOSTS_MOST] = {"red", "green", "blue"};

struct fixture;

struct node_host {
    struct fixture *fixture;
    uint32_t self;
    pthread_t thread;
    struct traffic_config config;
    struct traffic_result result;
    /* sent instead of the correct agreement, from number LIES_AT on; NULL: always correct */
    void (*lie)(struct traffic_hosts *hosts, uint64_t *next_ps);
    uint32_t lies_at;          /* 0: LIES_AT */
    bool (*stops)(void *host); /* emu_barrier_config.stops; NULL: never */
    uint32_t asked;            /* number of calls of stops() */
    bool stands_still;         /* its threads do not work */
    uint32_t looks;            /* number of calls of host_worked() while it stands still */
    uint32_t reports;          /* progress: how often completion of the run was reported */
    int err;
    char error[EMU_BARRIER_WHY_BYTES];
    _Atomic uint64_t polls; /* polls of the clock: one for each poll of the ports */
    _Atomic bool ended;
};

struct fixture {
    uint32_t hosts;
    uint64_t silent_ns;
    size_t most_bytes;                         /* emu_barrier_config.most_bytes */
    uint32_t *of;                              /* host by switch */
    struct lane *lane[HOSTS_MOST][HOSTS_MOST]; /* [a][b], a < b */
    struct node_host host[HOSTS_MOST];
    _Atomic uint64_t now_ns;
};

/* --- their clock ------------------------------------------------------------------------ */

static uint64_t host_now(void *ctx)
{
    struct node_host *host = ctx;

    atomic_fetch_add_explicit(&host->polls, 1, memory_order_relaxed);
    return atomic_load_explicit(&host->fixture->now_ns, memory_order_relaxed);
}

/*
 * Return for how long the host's threads have worked: all the time or, if the host stands still,
 * never. The second result alternates between 0 and 1 ns, because real clocks are not exact.
 */
static uint64_t host_worked(void *ctx)
{
    struct node_host *host = ctx;

    if (host->stands_still)
        return ++host->looks % 2;
    return atomic_load_explicit(&host->fixture->now_ns, memory_order_relaxed);
}

static bool has_ended(const struct node_host *host)
{
    return atomic_load_explicit(&host->ended, memory_order_relaxed);
}

/* Wait until @host has polled its ports again, or has ended. */
static void await_poll(struct node_host *host)
{
    uint64_t seen = atomic_load_explicit(&host->polls, memory_order_relaxed);

    for (uint32_t i = 0; i < HANG_POLLS && !has_ended(host); i++) {
        if (atomic_load_explicit(&host->polls, memory_order_relaxed) >= seen + POLLS)
            return;
        usleep(TICK_US);
    }
}

/* Advance the clock until all hosts have ended. */
static void fixture_tick(struct fixture *fixture)
{
    bool all = false;

    while (!all) {
        all = true;
        for (uint32_t h = 0; h < fixture->hosts; h++)
            await_poll(&fixture->host[h]);
        for (uint32_t h = 0; h < fixture->hosts; h++)
            all &= has_ended(&fixture->host[h]);
        atomic_fetch_add_explicit(&fixture->now_ns, TICK_NS, memory_order_relaxed);
        usleep(TICK_US);
    }
}

/* --- hosts ---------------------------------------------------------------------------- */

static void fixture_make(struct fixture *fixture, uint32_t hosts, const struct topo_graph *graph,
                         uint64_t *seed)
{
    *fixture = (struct fixture){.hosts = hosts, .silent_ns = PATIENCE, .now_ns = TICK_NS};
    fixture->of = calloc(graph->switches, sizeof fixture->of[0]);
    CU_ASSERT_PTR_NOT_NULL_FATAL(fixture->of);
    CU_ASSERT_FATAL(graph->switches >= hosts);
    for (uint32_t s = 0; s < graph->switches; s++) /* each has one at least */
        fixture->of[s] = s < hosts ? s : (uint32_t)(test_random(seed) % hosts);
    for (uint32_t a = 0; a < hosts; a++)
        for (uint32_t b = a + 1; b < hosts; b++) {
            fixture->lane[a][b] = lane_create(FRAMES, FRAME_MOST);
            CU_ASSERT_PTR_NOT_NULL_FATAL(fixture->lane[a][b]);
        }
}

static void fixture_free(struct fixture *fixture)
{
    for (uint32_t a = 0; a < fixture->hosts; a++)
        for (uint32_t b = a + 1; b < fixture->hosts; b++)
            lane_destroy(fixture->lane[a][b]);
    free(fixture->of);
}

/* Lose frames between the hosts at this rate. */
static void fixture_lose(struct fixture *fixture, uint32_t rate, uint64_t seed)
{
    for (uint32_t a = 0; a < fixture->hosts; a++)
        for (uint32_t b = a + 1; b < fixture->hosts; b++)
            lane_lose(fixture->lane[a][b], rate, seed + 2 * (HOSTS_MOST * a + b));
}

static int host_barrier(struct node_host *host, struct emu_barrier **ret)
{
    struct fixture *fixture = host->fixture;
    struct emu_hostport *port[HOSTS_MOST];
    struct emu_barrier_peer peer[HOSTS_MOST] = {{0}};
    struct emu_barrier_config config = {.self = host->self,
                                        .hosts = fixture->hosts,
                                        .name = names,
                                        .port = port,
                                        .peer = peer,
                                        .oversubscribed =
                                            true, /* one thread each, and more threads than cores */
                                        .most_bytes = fixture->most_bytes,
                                        .stops = host->stops,
                                        .stops_ctx = host,
                                        .now_ns = host_now,
                                        .now_ctx = host,
                                        .worked_ns = host_worked,
                                        .worked_ctx = host};

    for (uint32_t h = 0; h < fixture->hosts; h++) {
        if (h == host->self)
            continue;
        port[config.ports] = h < host->self ? lane_port(fixture->lane[h][host->self], 1)
                                            : lane_port(fixture->lane[host->self][h], 0);
        peer[config.peers].host = h;
        peer[config.peers].port = config.ports++;
        peer[config.peers++].session = (struct emu_session_config){.fabric = 7,
                                                                   .host = (uint16_t)host->self,
                                                                   .peer = (uint16_t)h,
                                                                   .silent_ns = fixture->silent_ns,
                                                                   .window = 64};
    }
    return emu_barrier_create(ret, &config);
}

/* The one host that sends a false agreement. */
static struct {
    uint32_t agreed, lies_at; /* agreements so far, and the first false one */
    const struct node_host *red;
    const struct emu_profile *profile;
    uint64_t window_ps; /* begin of the last window; 0: unknown */
    void (*lie)(struct traffic_hosts *hosts, uint64_t *next_ps);
} liar;

#define LIES_AT 10u

static void liar_agrees(void *ctx, uint64_t *next_ps)
{
    struct traffic_hosts *hosts = ctx;

    if (++liar.agreed >= liar.lies_at)
        liar.lie(hosts, next_ps);
    else
        emu_virtual_agree(hosts->link, next_ps);
}

static void liar_is(const struct node_host *host, struct traffic_hosts *hosts)
{
    liar.agreed = 0;
    liar.window_ps = 0;
    liar.lies_at = host->lies_at ? host->lies_at : LIES_AT;
    liar.lie = host->lie;
    liar.profile = &host->config.fabric.profile;
    hosts->ops.agree = liar_agrees;
}

static void *host_main(void *arg)
{
    struct node_host *host = arg;
    struct traffic_hosts hosts;
    struct emu_barrier *barrier = NULL;

    host->err = host_barrier(host, &barrier);
    if (!host->err)
        host->err = emu_barrier_connect(barrier, PATIENCE);
    if (!host->err) {
        traffic_hosts_init(&hosts, barrier, host->config.fabric.graph, host->fixture->of);
        host->config.hosts = &hosts;
        if (host->lie)
            liar_is(host, &hosts);
        host->err = traffic_run(&host->result, &host->config, host->error, sizeof host->error);
    }
    emu_barrier_destroy(barrier);
    atomic_store_explicit(&host->ended, true, memory_order_relaxed);
    return NULL;
}

/* Run @body on each host until all have ended. */
static void fixture_go(struct fixture *fixture, void *(*body)(void *))
{
    for (uint32_t h = 0; h < fixture->hosts; h++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&fixture->host[h].thread, NULL, body,
                                             &fixture->host[h]),
                              0);
    fixture_tick(fixture);
    for (uint32_t h = 0; h < fixture->hosts; h++)
        pthread_join(fixture->host[h].thread, NULL);
}

/* All hosts run @config; @each may change it for one host. */
static void fixture_run(struct fixture *fixture, const struct traffic_config *config,
                        void (*each)(struct node_host *host))
{
    for (uint32_t h = 0; h < fixture->hosts; h++) {
        struct node_host *host = &fixture->host[h];

        host->fixture = fixture;
        host->self = h;
        host->config = *config;
        if (each)
            each(host);
    }
    fixture_go(fixture, host_main);
}

/* Did all hosts measure the same as one host alone? */
static bool check_same(struct fixture *fixture, const struct traffic_result *alone)
{
    bool same = true;

    for (uint32_t h = 0; h < fixture->hosts; h++) {
        struct node_host *host = &fixture->host[h];

        if (host->err)
            printf("\n    %s: %s\n    ", names[h], host->error);
        same &= !host->err && draw_same_result(&host->result, alone) &&
                host->result.hosts == fixture->hosts;
        if (!host->err)
            traffic_result_release(&host->result);
    }
    return same;
}

/* --- the same as on one host ------------------------------------------------------------ */

typedef struct traffic_config draw_fn(uint64_t *seed, const char **topo, const char **pattern);

static void other_threads(struct node_host *host)
{
    static const uint32_t threads[] = {1, 2, FABRIC_THREADS_DEVICE};

    host->config.fabric.threads = threads[(host->self + host->config.fabric.seed) % 3];
}

static bool same_on(uint32_t hosts, const struct traffic_config *config,
                    const struct traffic_result *alone, uint32_t lost, uint64_t *seed)
{
    struct fixture fixture;
    bool same;

    fixture_make(&fixture, hosts, config->fabric.graph, seed);
    fixture_lose(&fixture, lost, *seed);
    fixture_run(&fixture, config, other_threads);
    same = check_same(&fixture, alone);
    fixture_free(&fixture);
    return same;
}

static void same_on_any_hosts(uint32_t count, draw_fn *draw, uint32_t lost)
{
    uint64_t seed = test_seed();

    for (uint32_t i = 0; i < count; i++) {
        uint64_t began = seed;
        struct traffic_result alone;
        const char *topo, *pattern;
        struct traffic_config config = draw(&seed, &topo, &pattern);
        char error[640] = "";
        bool same = traffic_run(&alone, &config, error, sizeof error) == 0;

        for (uint32_t hosts = 2; same && hosts <= HOSTS_MOST; hosts++)
            if (config.fabric.graph->switches >= hosts)
                same = same_on(hosts, &config, &alone, lost, &seed);
        if (!*error)
            traffic_result_release(&alone);
        traffic_pattern_release(&config.pattern);
        CU_ASSERT(same);
        if (!same)
            printf("\n    run %u, alone with FABEMU_SEED=%llu: %s %s %s\n    ", i,
                   (unsigned long long)began, topo, pattern, error);
    }
}

static void traffic_run__on_any_hosts_is_the_same_as_on_one(void)
{
    same_on_any_hosts(TEST_TRIALS(6), draw_config, 0);
}

static void traffic_run__acknowledged_on_any_hosts_is_the_same_as_on_one(void)
{
    same_on_any_hosts(TEST_TRIALS(6), draw_acknowledged, 0);
}

static void traffic_run__over_lossy_wires_is_the_same(void)
{
    same_on_any_hosts(1, draw_config, LANE_UNIT / 100);
}

/* --- ends of runs ----------------------------------------------------------------------- */

static struct traffic_config draw_storage(uint64_t *seed, const char **topo, const char **pattern)
{
    *topo = "qsnet:40";
    *pattern = test_random(seed) % 2 ? "allreduce" : "barrier";
    struct traffic_config config = draw_acknowledged_of(*topo, *pattern);

    config.bytes = strcmp(*pattern, "barrier") == 0 ? 0 : 600;
    config.members = 12;
    config.at_random = true;
    config.servers = 3;
    config.tclass = (uint8_t)(test_random(seed) % EMU_TCLASSES);
    config.storage_tclass = (uint8_t)(test_random(seed) % EMU_TCLASSES);
    return config;
}

static void traffic_run__storage_on_any_hosts_is_the_same_as_on_one(void)
{
    same_on_any_hosts(2, draw_storage, 0);
}

/* A short run for cases that do not complete. */
static struct traffic_config short_run_of(struct traffic_config config)
{
    config.warmup_ps = 3000000;
    config.measure_ps = 60000000;
    return config;
}

static struct traffic_config short_run(const char *pattern)
{
    return short_run_of(draw_config_of("kary:3,2", pattern));
}

static struct traffic_config a_run(void)
{
    return short_run("uniform");
}

static void fixture_a_run(struct fixture *fixture, struct traffic_config *config)
{
    uint64_t seed = test_seed();

    *config = a_run();
    fixture_make(fixture, HOSTS_MOST, config->fabric.graph, &seed);
}

static bool stops(void *ctx, double done)
{
    (void)ctx;
    return done < 0.1;
}

static void green_stops(struct node_host *host)
{
    if (host->self == 1)
        host->config.progress = stops;
}

static void traffic_run__ended_by_one_host_ends_on_all(void)
{
    struct traffic_config config;
    struct fixture fixture;

    fixture_a_run(&fixture, &config);
    fixture_run(&fixture, &config, green_stops);
    CU_ASSERT_EQUAL(fixture.host[1].err, -EINTR);
    for (uint32_t h = 0; h < HOSTS_MOST; h += 2) {
        CU_ASSERT_EQUAL(fixture.host[h].err, -ECONNABORTED);
        CU_ASSERT_PTR_NOT_NULL(strstr(fixture.host[h].error, "host green: interrupted after "));
    }
    fixture_free(&fixture);
}

static bool cuts(void *ctx, double done)
{
    struct node_host *host = ctx;
    struct fixture *fixture = host->fixture;

    if (done >= 0.1) {
        lane_lose(fixture->lane[0][2], LANE_UNIT, 0);
        lane_lose(fixture->lane[1][2], LANE_UNIT, 0);
    }
    return true;
}

static void blue_is_cut_off(struct node_host *host)
{
    host->config.context = host;
    if (host->self == 2)
        host->config.progress = cuts;
}

static void traffic_run__with_a_lost_host_ends_on_all(void)
{
    struct traffic_config config;
    struct fixture fixture;

    fixture_a_run(&fixture, &config);
    fixture.silent_ns = SILENT_NS;
    fixture_run(&fixture, &config, blue_is_cut_off);
    for (uint32_t h = 0; h < HOSTS_MOST; h++) {
        CU_ASSERT(fixture.host[h].err == -EHOSTDOWN || fixture.host[h].err == -ECONNABORTED);
        CU_ASSERT_PTR_NOT_NULL(strstr(fixture.host[h].error, "was lost"));
    }
    CU_ASSERT_EQUAL(fixture.host[2].err, -EHOSTDOWN); /* no other host can have reported it */
    fixture_free(&fixture);
}

static bool has_dawdled;

static bool dawdles(void *ctx, double done)
{
    struct fixture *fixture = ctx;
    uint64_t until_ns = atomic_load_explicit(&fixture->now_ns, memory_order_relaxed) +
                        4 * SILENT_NS;

    for (uint32_t i = 0; i < HANG_POLLS && done > 0.1 && !has_dawdled; i++) {
        has_dawdled = atomic_load_explicit(&fixture->now_ns, memory_order_relaxed) >= until_ns;
        usleep(TICK_US);
    }
    return true;
}

static void red_dawdles(struct node_host *host)
{
    if (host->self)
        return;
    host->config.progress = dawdles;
    host->config.context = host->fixture;
}

/* A busy host is silent for as long as a window takes, and is not lost. */
static void traffic_run__waits_for_a_slow_host(void)
{
    struct traffic_result alone;
    struct traffic_config config;
    char error[640] = "";
    struct fixture fixture;

    fixture_a_run(&fixture, &config);
    fixture.silent_ns = SILENT_NS;
    CU_ASSERT_EQUAL(traffic_run(&alone, &config, error, sizeof error), 0);
    has_dawdled = false;
    fixture_run(&fixture, &config, red_dawdles);
    CU_ASSERT_TRUE(has_dawdled);
    CU_ASSERT_TRUE(check_same(&fixture, &alone));
    traffic_result_release(&alone);
    fixture_free(&fixture);
}

static void blue_has_more(struct node_host *host)
{
    host->config.bytes += host->self == 2;
}

static void traffic_run__of_different_traffic_is_refused(void)
{
    struct traffic_config config;
    struct fixture fixture;

    fixture_a_run(&fixture, &config);
    fixture_run(&fixture, &config, blue_has_more);
    for (uint32_t h = 0; h < HOSTS_MOST; h++)
        CU_ASSERT_PTR_NOT_NULL(strstr(fixture.host[h].error, "has other settings of the traffic"));
    fixture_free(&fixture);
}

/* --- supersteps ------------------------------------------------------------------------- */

#define STEPS 40u

/* The bytes of @host in superstep @step follow from both numbers. */
static size_t superstep_bytes(uint8_t *to, uint32_t host, uint32_t step)
{
    size_t bytes = step % 7 ? step * 211u % 5000 : 0;

    for (size_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(host + step + i);
    return bytes;
}

static bool heard(struct emu_barrier *barrier, uint32_t host, uint32_t step)
{
    uint8_t want[5000];
    size_t bytes, wanted = superstep_bytes(want, host, step);
    const void *got = emu_barrier_of(barrier, host, &bytes);

    return bytes == wanted && (!bytes || memcmp(got, want, bytes) == 0);
}

static void *talk_main(void *arg)
{
    struct node_host *host = arg;
    struct emu_barrier *barrier = NULL;
    uint8_t mine[5000];

    host->err = host_barrier(host, &barrier);
    if (!host->err)
        host->err = emu_barrier_connect(barrier, PATIENCE);
    for (uint32_t step = 0; !host->err && step < STEPS; step++) {
        host->err = emu_barrier_sync(barrier, mine, superstep_bytes(mine, host->self, step));
        for (uint32_t h = 0; !host->err && h < host->fixture->hosts; h++)
            if (h != host->self && !heard(barrier, h, step))
                host->err = -EBADMSG;
    }
    emu_barrier_destroy(barrier);
    atomic_store_explicit(&host->ended, true, memory_order_relaxed);
    return NULL;
}

static void barrier_sync__delivers_all_bytes_to_all(void)
{
    struct traffic_config config;
    struct fixture fixture;

    fixture_a_run(&fixture, &config);
    fixture_lose(&fixture, LANE_UNIT / 50, test_seed());
    for (uint32_t h = 0; h < HOSTS_MOST; h++)
        fixture.host[h] = (struct node_host){.fixture = &fixture, .self = h};
    fixture_go(&fixture, talk_main);
    for (uint32_t h = 0; h < HOSTS_MOST; h++)
        CU_ASSERT_EQUAL(fixture.host[h].err, 0);
    fixture_free(&fixture);
}

/* Send an entry of an unknown cable, and then a malformed one. */
static void *liar_main(void *arg)
{
    static const struct emu_hostlink_record credit = {.kind = EMU_HOSTLINK_CREDIT_AT,
                                                      .count = 1,
                                                      .credit_ps = 1};
    struct node_host *host = arg;
    struct emu_barrier *barrier = NULL;

    host->err = host_barrier(host, &barrier);
    if (!host->err)
        host->err = emu_barrier_connect(barrier, PATIENCE);
    if (!host->err && host->self)
        host->err = emu_barrier_put(barrier, 0, &credit);
    if (!host->err)
        host->err = emu_barrier_sync(barrier, NULL, 0);
    if (!host->err) /* the lying host may have completed this one */
        host->err = emu_barrier_sync(barrier, NULL, 0);
    snprintf(host->error, sizeof host->error, "%s", emu_barrier_why(barrier));
    emu_barrier_destroy(barrier);
    atomic_store_explicit(&host->ended, true, memory_order_relaxed);
    return NULL;
}

static void barrier_sync__protocol_violation_ends_it(void)
{
    struct traffic_config config;
    struct fixture fixture;

    fixture_a_run(&fixture, &config);
    fixture.hosts = 2;
    for (uint32_t h = 0; h < 2; h++)
        fixture.host[h] = (struct node_host){.fixture = &fixture, .self = h};
    fixture_go(&fixture, liar_main);
    for (uint32_t h = 0; h < 2; h++)
        CU_ASSERT_PTR_NOT_NULL(strstr(fixture.host[h].error, "violated the protocol"));
    CU_ASSERT_EQUAL(fixture.host[0].err, -EPROTO);
    CU_ASSERT_EQUAL(fixture.host[1].err, -ECONNABORTED);
    fixture.hosts = HOSTS_MOST;
    fixture_free(&fixture);
}

/* The last host reports only to the first one that it has failed. */
static void *tells_one_main(void *arg)
{
    static const struct emu_hostlink_record fail = {.kind = EMU_HOSTLINK_STEP,
                                                    .channel = EMU_STEP_FAIL,
                                                    .bytes = (const uint8_t *)"no memory",
                                                    .length = 9};
    struct node_host *host = arg;
    struct emu_barrier *barrier = NULL;

    host->err = host_barrier(host, &barrier);
    if (!host->err)
        host->err = emu_barrier_connect(barrier, PATIENCE);
    if (!host->err && host->self == HOSTS_MOST - 1)
        host->err = emu_barrier_put(barrier, 0, &fail);
    for (uint32_t step = 0; step < 2 && !host->err; step++)
        host->err = emu_barrier_sync(barrier, NULL, 0);
    snprintf(host->error, sizeof host->error, "%s", emu_barrier_why(barrier));
    emu_barrier_destroy(barrier);
    atomic_store_explicit(&host->ended, true, memory_order_relaxed);
    return NULL;
}

/* The host that was told passes the reason on, so that no host reports that it was lost. */
static void barrier_sync__failure_told_to_one_host_reaches_all(void)
{
    struct traffic_config config;
    struct fixture fixture;

    fixture_a_run(&fixture, &config);
    for (uint32_t h = 0; h < HOSTS_MOST; h++)
        fixture.host[h] = (struct node_host){.fixture = &fixture, .self = h};
    fixture_go(&fixture, tells_one_main);
    for (uint32_t h = 0; h < HOSTS_MOST; h++) {
        CU_ASSERT_PTR_NOT_NULL(strstr(fixture.host[h].error, "no memory"));
        CU_ASSERT_EQUAL(fixture.host[h].err, -ECONNABORTED);
    }
    fixture_free(&fixture);
}

/* Red and green are connected by a second session, over the lane to blue. */
static int pair_barrier(struct node_host *host, struct emu_barrier **ret)
{
    struct fixture *fixture = host->fixture;
    struct emu_hostport *port[2] = {lane_port(fixture->lane[0][1], host->self),
                                    lane_port(fixture->lane[0][2], host->self)};
    struct emu_barrier_peer peer[2];

    for (uint32_t i = 0; i < 2; i++)
        peer[i] = (struct emu_barrier_peer){.host = !host->self,
                                            .port = i,
                                            .session = {.fabric = 7,
                                                        .host = (uint16_t)host->self,
                                                        .peer = !host->self,
                                                        .silent_ns = fixture->silent_ns,
                                                        .window = 64}};
    return emu_barrier_create(ret, &(struct emu_barrier_config){.self = host->self,
                                                                .hosts = 2,
                                                                .name = names,
                                                                .port = port,
                                                                .ports = 2,
                                                                .peer = peer,
                                                                .peers = 2,
                                                                .oversubscribed = true,
                                                                .now_ns = host_now,
                                                                .now_ctx = host});
}

static void *says_more_main(void *arg)
{
    const struct emu_hostlink_record more = {.kind = EMU_HOSTLINK_STEP,
                                             .channel = EMU_STEP_MORE,
                                             .bytes = (const uint8_t *)"more",
                                             .length = 4};
    struct node_host *host = arg;
    struct emu_barrier *barrier = NULL;

    host->err = pair_barrier(host, &barrier);
    if (!host->err)
        host->err = emu_barrier_connect(barrier, PATIENCE);
    if (!host->err)
        host->err = emu_barrier_sync(barrier, "all", 3);
    if (!host->err && host->self)
        host->err = emu_barrier_put(barrier, 1, &more);
    if (!host->err)
        host->err = emu_barrier_sync(barrier, "all", 3);
    if (!host->err) /* the lying host may have completed this one */
        host->err = emu_barrier_sync(barrier, "all", 3);
    snprintf(host->error, sizeof host->error, "%s", emu_barrier_why(barrier));
    emu_barrier_destroy(barrier);
    atomic_store_explicit(&host->ended, true, memory_order_relaxed);
    return NULL;
}

/* Only the first session of a host carries its bytes for all hosts, which need memory here. */
static void barrier_sync__bytes_on_a_second_session_end_it(void)
{
    struct traffic_config config;
    struct fixture fixture;

    fixture_a_run(&fixture, &config);
    fixture.hosts = 2;
    for (uint32_t h = 0; h < 2; h++)
        fixture.host[h] = (struct node_host){.fixture = &fixture, .self = h};
    fixture_go(&fixture, says_more_main);
    CU_ASSERT_EQUAL(fixture.host[0].err, -EPROTO);
    CU_ASSERT_PTR_NOT_NULL(strstr(fixture.host[0].error, "session that is not its first"));
    fixture.hosts = HOSTS_MOST;
    fixture_free(&fixture);
}

/*
 * Red is cut off from blue and detects it in the middle of a superstep, when its buffer for blue is
 * full. Blue still hears green, but sends nothing.
 */
static void put_until_lost(struct node_host *host, struct emu_barrier *barrier)
{
    static const struct emu_hostlink_record credit = {.kind = EMU_HOSTLINK_CREDIT_AT,
                                                      .count = 1,
                                                      .credit_ps = 1};
    uint32_t blue = 0;

    while (emu_barrier_host(barrier, blue) != 2)
        blue++;
    lane_lose(host->fixture->lane[0][2], LANE_UNIT, 0);
    while (!host->err)
        host->err = emu_barrier_put(barrier, blue, &credit);
}

static void *partitioned_main(void *arg)
{
    struct node_host *host = arg;
    struct emu_barrier *barrier = NULL;

    host->err = host_barrier(host, &barrier);
    if (!host->err)
        host->err = emu_barrier_connect(barrier, PATIENCE);
    if (!host->err && host->self == 0)
        put_until_lost(host, barrier);
    if (!host->err && host->self == 1)
        host->err = emu_barrier_sync(barrier, NULL, 0);
    for (uint32_t i = 0; i < HANG_POLLS && host->self == 2 &&
                         !atomic_load_explicit(&host->fixture->host[1].ended, memory_order_relaxed);
         i++)
        usleep(TICK_US);
    snprintf(host->error, sizeof host->error, "%s", emu_barrier_why(barrier));
    emu_barrier_destroy(barrier);
    atomic_store_explicit(&host->ended, true, memory_order_relaxed);
    return NULL;
}

static void barrier_put__finding_a_host_lost_reports_the_others(void)
{
    struct traffic_config config;
    struct fixture fixture;

    fixture_a_run(&fixture, &config);
    fixture.silent_ns = SILENT_NS;
    for (uint32_t h = 0; h < HOSTS_MOST; h++)
        fixture.host[h] = (struct node_host){.fixture = &fixture, .self = h};
    fixture_go(&fixture, partitioned_main);
    CU_ASSERT_EQUAL(fixture.host[0].err, -EHOSTDOWN);
    CU_ASSERT_EQUAL(fixture.host[1].err, -ECONNABORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(fixture.host[1].error, "host red: host blue was lost"));
    fixture_free(&fixture);
}

/* Green does not start. Red stops waiting for it long before blue does. */
static void *impatient_main(void *arg)
{
    struct node_host *host = arg;
    struct emu_barrier *barrier = NULL;

    if (host->self != 1) {
        host->err = host_barrier(host, &barrier);
        if (!host->err)
            host->err = emu_barrier_connect(barrier, (host->self ? 100 : 2) * SILENT_NS);
        snprintf(host->error, sizeof host->error, "%s", emu_barrier_why(barrier));
        emu_barrier_destroy(barrier);
    }
    atomic_store_explicit(&host->ended, true, memory_order_relaxed);
    return NULL;
}

/* Blue is connected to red, and reports why red has failed, not that red was lost. */
static void barrier_connect__reports_why_another_host_has_failed(void)
{
    struct traffic_config config;
    struct fixture fixture;

    fixture_a_run(&fixture, &config);
    fixture.silent_ns = SILENT_NS;
    for (uint32_t h = 0; h < HOSTS_MOST; h++)
        fixture.host[h] = (struct node_host){.fixture = &fixture, .self = h};
    fixture_go(&fixture, impatient_main);
    CU_ASSERT_EQUAL(fixture.host[0].err, -ETIMEDOUT);
    CU_ASSERT_EQUAL(fixture.host[2].err, -ECONNABORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(fixture.host[2].error, "host red: host green: no frame"));
    fixture_free(&fixture);
}

/* --- invalid messages --------------------------------------------------------------------- */

#define FIRST_GROUP \
    (FABRIC_GROUPS_MAX + 1u) /* the address of the first group that a fabric makes */

static void wants_the_past(struct traffic_hosts *hosts, uint64_t *next_ps)
{
    uint64_t past_ps = 1;

    emu_barrier_sync(hosts->barrier, &past_ps, sizeof past_ps);
    *next_ps = EMU_NEVER;
}

static void puts_entry(struct traffic_hosts *hosts, const struct emu_hdr *hdr, uint64_t at_ps)
{
    const struct emu_hostlink_record record = {.kind = EMU_HOSTLINK_ENTRY,
                                               .entry = {.hdr = *hdr, .buf = EMU_NO_BUF},
                                               .at_ps = at_ps};

    emu_barrier_put(hosts->barrier, 0, &record);
}

static void turns_time_back(struct traffic_hosts *hosts, uint64_t *next_ps)
{
    const struct emu_hdr hdr = {.kind = EMU_UNICAST};

    puts_entry(hosts, &hdr, EMU_LAST_PS / 2);
    puts_entry(hosts, &hdr, EMU_LAST_PS / 2 - 1);
    emu_virtual_agree(hosts->link, next_ps);
}

static void names_no_node(struct traffic_hosts *hosts, uint64_t *next_ps)
{
    puts_entry(hosts, &(struct emu_hdr){.kind = EMU_UNICAST, .src = UINT32_MAX}, EMU_LAST_PS / 2);
    emu_virtual_agree(hosts->link, next_ps);
}

/*
 * Send one number in every exchange: as the time of the next event, and as the count of results at
 * the root of a reduce, which is in fact lower.
 */
static void has_too_many_results(struct traffic_hosts *hosts, uint64_t *next_ps)
{
    static const uint64_t many = UINT64_C(1) << 62;

    while (emu_barrier_error(hosts->barrier) == 0)
        emu_barrier_sync(hosts->barrier, &many, sizeof many);
    *next_ps = EMU_NEVER;
}

static const char *ignores(void *ctx, uint32_t peer, const struct emu_hostlink_record *record)
{
    (void)ctx;
    (void)peer;
    (void)record;
    return NULL;
}

/* A result of the first group as a multicast, which needs no payload inside the fabric. */
static void sends_result_without_payload(struct traffic_hosts *hosts, uint64_t *next_ps)
{
    static const struct emu_barrier_taker taker = {.record = ignores};
    const struct emu_hdr hdr = {.kind = EMU_MULTICAST,
                                .dst = FIRST_GROUP,
                                .len = EMU_PAYLOAD_BYTES};
    static const uint64_t never_ps = EMU_NEVER;

    emu_barrier_taker(hosts->barrier, &taker); /* also the credit for it */
    puts_entry(hosts, &hdr, *next_ps + 1000000);
    emu_barrier_sync(hosts->barrier, next_ps, sizeof *next_ps);
    while (emu_barrier_error(hosts->barrier) == 0)
        emu_barrier_sync(hosts->barrier, &never_ps, sizeof never_ps);
    *next_ps = EMU_NEVER;
}

/*
 * While all hosts wait for the next operation, send an entry that arrives before it, but report no
 * event before it. A window that begins at the operation would deliver the entry in its past.
 */
static void hides_an_entry(struct traffic_hosts *hosts, uint64_t *next_ps)
{
    uint64_t after_ps = liar.window_ps + emu_profile_lookahead_ps(liar.profile);

    if (liar.window_ps && *next_ps != EMU_NEVER && *next_ps > 2 * after_ps) {
        puts_entry(hosts, &(struct emu_hdr){.kind = EMU_UNICAST}, after_ps);
        liar.window_ps = 0;
    }
    emu_virtual_agree(hosts->link, next_ps);
    if (*next_ps != EMU_NEVER)
        liar.window_ps = *next_ps;
}

/*
 * While all hosts wait for the next operation, report no event to blue, and an event at once to
 * red. They then simulate different windows, and each finds the times of the other impossible.
 */
static void tells_each_another_time(struct traffic_hosts *hosts, uint64_t *next_ps)
{
    uint64_t now_ps = liar.window_ps + emu_profile_lookahead_ps(liar.profile), never_ps = EMU_NEVER;

    if (liar.window_ps && *next_ps != EMU_NEVER && *next_ps > 2 * now_ps) {
        for (uint32_t p = 0; p < 2; p++) {
            bool red = !emu_barrier_host(hosts->barrier, p);
            const struct emu_hostlink_record told = {.kind = EMU_HOSTLINK_STEP,
                                                     .channel = EMU_STEP_LAST,
                                                     .bytes = (const uint8_t *)(red ? &now_ps
                                                                                    : &never_ps),
                                                     .length = sizeof now_ps};

            emu_barrier_put(hosts->barrier, p, &told);
        }
        liar.window_ps = 0;
    }
    emu_virtual_agree(hosts->link, next_ps);
    if (*next_ps != EMU_NEVER)
        liar.window_ps = *next_ps;
}

/* Acknowledged: credits of other channels than those of the segments that came. */
static const char *notes_segment(void *ctx, uint32_t peer, const struct emu_hostlink_record *record)
{
    struct emu_hostlink_record *credit = ctx;

    if (!peer && record->kind == EMU_HOSTLINK_ENTRY && record->entry.packet.kind == EMU_PACKET_HEAD)
        *credit =
            (struct emu_hostlink_record){.kind = EMU_HOSTLINK_CREDIT_AT,
                                         .channel = (record->entry.packet.channel + 16) % EMU_VCS,
                                         .cable = record->cable,
                                         .count = 1,
                                         .credit_ps = EMU_LAST_PS / 2};
    return NULL;
}

static void pays_another_channel(struct traffic_hosts *hosts, uint64_t *next_ps)
{
    static struct emu_hostlink_record credit;

    if (liar.agreed == LIES_AT)
        credit.count = 0;
    emu_barrier_taker(hosts->barrier,
                      &(struct emu_barrier_taker){.record = notes_segment, .ctx = &credit});
    if (credit.count)
        emu_barrier_put(hosts->barrier, 0, &credit);
    credit.count = 0;
    emu_virtual_agree(hosts->link, next_ps);
}

/* More bytes than any host sends in a superstep; they fit a session's window. */
static void floods_a_superstep(struct traffic_hosts *hosts, uint64_t *next_ps)
{
    static const uint8_t many[KEPT_MOST + 4096];

    emu_barrier_sync(hosts->barrier, many, sizeof many);
    *next_ps = EMU_NEVER;
}

/* Its final reason contains control characters. */
static void ends_with_control_bytes(struct traffic_hosts *hosts, uint64_t *next_ps)
{
    emu_barrier_fail(hosts->barrier, "\033[2J\x9b\xffgone");
    *next_ps = EMU_NEVER;
}

/* An impossible message of another host in simulated time has only one effect: the run ends. */
static void traffic_run__with_a_lying_host_ends(void)
{
    static const struct {
        const char *pattern;
        void (*lie)(struct traffic_hosts *hosts, uint64_t *next_ps);
        const char *why;
    } lies[] = {
        {"uniform", wants_the_past, "host green and this host have diverged: its next event is in"},
        {"uniform", turns_time_back, "an entry with a time before that of an earlier entry"},
        {"barrier", tells_each_another_time, "and this host have diverged"},
        {"uniform", names_no_node, "an entry that is invalid on its cable"},
        {"reduce", has_too_many_results, "another host has logged an impossible result"},
        {"allreduce", sends_result_without_payload, "a segment that is not the next"},
        {"barrier", hides_an_entry, "later than an entry or credit from it"},
        {"uniform", pays_another_channel, "credits that do not match the segments that were sent"},
        {"uniform", floods_a_superstep, "host green violated the protocol: more than 32768 bytes"},
        {"uniform", ends_with_control_bytes, "host green: ?[2J??gone"},
    };

    for (uint32_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        bool acknowledged = lies[i].lie == pays_another_channel;
        struct traffic_config config =
            short_run_of(acknowledged ? draw_acknowledged_of("kary:3,2", lies[i].pattern)
                                      : draw_config_of("kary:3,2", lies[i].pattern));
        uint64_t seed = 2; /* red and green share a cable 0, which is in the group's tree */
        struct fixture fixture;

        config.interval_ps = strcmp(lies[i].pattern, "barrier") == 0 ? 100000000 : 0; /* pauses */
        fixture_make(&fixture, HOSTS_MOST, config.fabric.graph, &seed);
        fixture.host[1].lie = lies[i].lie;
        fixture.most_bytes = KEPT_MOST;
        fixture_run(&fixture, &config, NULL);
        CU_ASSERT_NOT_EQUAL(fixture.host[0].err, 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(fixture.host[0].error, lies[i].why));
        for (uint32_t h = 0; h < HOSTS_MOST; h++)
            CU_ASSERT_NOT_EQUAL(fixture.host[h].err, 0);
        fixture_free(&fixture);
    }
}

/* Its next event is always a microsecond after everyone else's. */
static void is_never_idle(struct traffic_hosts *hosts, uint64_t *next_ps)
{
    static uint64_t busy_ps;

    if (liar.agreed > LIES_AT && busy_ps < *next_ps)
        *next_ps = busy_ps;
    emu_virtual_agree(hosts->link, next_ps);
    busy_ps = *next_ps + 1000000;
}

static bool stops_behind_the_end(void *ctx, double done)
{
    struct node_host *host = ctx;

    host->reports += done >= 1;
    return host->reports < 10;
}

static void red_stops_behind_the_end(struct node_host *host)
{
    host->config.context = host;
    if (host->self == 0)
        host->config.progress = stops_behind_the_end;
}

static void traffic_run__with_a_never_idle_host_can_be_ended(void)
{
    struct traffic_config config = short_run("barrier");
    uint64_t seed = 1;
    struct fixture fixture;

    fixture_make(&fixture, HOSTS_MOST, config.fabric.graph, &seed);
    fixture.host[1].lie = is_never_idle;
    fixture_run(&fixture, &config, red_stops_behind_the_end);
    CU_ASSERT_EQUAL(fixture.host[0].err, -EINTR);
    fixture_free(&fixture);
}

/* It is alive and never completes the superstep that the others wait for. */
static void never_ends_a_superstep(struct traffic_hosts *hosts, uint64_t *next_ps)
{
    (void)hosts;
    while (!has_ended(liar.red))
        usleep(TICK_US);
    *next_ps = EMU_NEVER;
}

static bool requests_twice(void *ctx)
{
    struct node_host *host = ctx;

    return ++host->asked == 2;
}

static void red_can_be_stopped(struct node_host *host)
{
    if (host->self == 0)
        host->stops = requests_twice;
}

static void traffic_run__waiting_for_another_host_can_be_ended(void)
{
    struct traffic_config config = short_run("uniform");
    uint64_t seed = 1;
    struct fixture fixture;

    fixture_make(&fixture, HOSTS_MOST, config.fabric.graph, &seed);
    fixture.host[1].lie = never_ends_a_superstep;
    liar.red = &fixture.host[0];
    fixture_run(&fixture, &config, red_can_be_stopped);
    CU_ASSERT_EQUAL(fixture.host[0].err, -EINTR);
    CU_ASSERT_EQUAL(fixture.host[2].err, -ECONNABORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(fixture.host[2].error, "host red: interrupted"));
    fixture_free(&fixture);
}

/* The sessions of the second host send keep-alives, but its worker has stopped. */
static void traffic_run__with_a_host_that_stands_still_ends(void)
{
    struct traffic_config config = short_run("uniform");
    uint64_t seed = 1;
    struct fixture fixture;

    fixture_make(&fixture, HOSTS_MOST, config.fabric.graph, &seed);
    fixture.silent_ns = SILENT_NS;
    fixture.host[1].lie = never_ends_a_superstep;
    fixture.host[1].stands_still = true;
    liar.red = &fixture.host[0];
    fixture_run(&fixture, &config, NULL);
    for (uint32_t h = 0; h < HOSTS_MOST; h += 2) {
        CU_ASSERT(fixture.host[h].err == -EHOSTDOWN || fixture.host[h].err == -ECONNABORTED);
        CU_ASSERT_PTR_NOT_NULL(
            strstr(fixture.host[h].error, "host green was lost: it still sends"));
    }
    fixture_free(&fixture);
}

/* --- payloads that nobody reads ----------------------------------------------------------- */

static bool pads;                 /* all hosts add payload to segments that need none */
static _Atomic uint32_t buf_held; /* buffers that they still hold at the ends of their runs */

int __real_emu_barrier_put(struct emu_barrier *barrier, uint32_t peer,
                           const struct emu_hostlink_record *record);
int __wrap_emu_barrier_put(struct emu_barrier *barrier, uint32_t peer,
                           const struct emu_hostlink_record *record);
void __real_fabric_stop(struct fabric *fabric);
void __wrap_fabric_stop(struct fabric *fabric);

int __wrap_emu_barrier_put(struct emu_barrier *barrier, uint32_t peer,
                           const struct emu_hostlink_record *record)
{
    static const uint8_t zeros[EMU_PAYLOAD_BYTES];
    struct emu_hostlink_record padded;

    if (!pads || record->kind != EMU_HOSTLINK_ENTRY || record->has_buf || !record->entry.hdr.len)
        return __real_emu_barrier_put(barrier, peer, record);
    padded = *record;
    padded.has_buf = true;
    padded.payload = zeros;
    padded.payload_bytes = padded.entry.hdr.len;
    return __real_emu_barrier_put(barrier, peer, &padded);
}

void __wrap_fabric_stop(struct fabric *fabric)
{
    if (pads && fabric) {
        fabric_pause(fabric);
        atomic_fetch_add(&buf_held, fixture_fabric_bufs_held(fabric));
        fabric_resume(fabric);
    }
    __real_fabric_stop(fabric);
}

/* Nodes drop the buffers of payloads that only a malicious host sends. */
static void traffic_run__with_needless_payloads_loses_no_buffers(void)
{
    static const struct {
        const char *pattern;
        enum traffic_by by;
    } runs[] = {{"uniform", TRAFFIC_BY_HARDWARE}, {"allreduce", TRAFFIC_BY_TREE}};

    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct traffic_config config = short_run(runs[i].pattern);
        uint64_t seed = test_seed();
        struct traffic_result alone;
        struct fixture fixture;
        char error[640];

        config.by = runs[i].by;
        CU_ASSERT_EQUAL_FATAL(traffic_run(&alone, &config, error, sizeof error), 0);
        fixture_make(&fixture, HOSTS_MOST, config.fabric.graph, &seed);
        buf_held = 0;
        pads = true;
        fixture_run(&fixture, &config, NULL);
        pads = false;
        CU_ASSERT(check_same(&fixture, &alone));
        CU_ASSERT_EQUAL(buf_held, 0);
        fixture_free(&fixture);
        traffic_result_release(&alone);
    }
}

/* --- invalid logs -------------------------------------------------------------------------- */

#define ANY UINT64_MAX

/* Sent once by host 1 in place of its log; count 0: nothing. Used by its own thread only. */
static struct {
    struct traffic_part part[8192];
    size_t count;
    uint64_t after;   /* with its own, once it logs operation @after, or ANY; 0: instead of them */
    uint64_t waiting; /* messages that wait, as it counts them once; 0: correct */
    size_t counts;    /* number of counts in the superstep in which it sends the largest counts */
} logs;

int __real_emu_barrier_sync(struct emu_barrier *barrier, const void *mine, size_t bytes);
int __wrap_emu_barrier_sync(struct emu_barrier *barrier, const void *mine, size_t bytes);

/* Send the forged log with the own one, which must contain an operation logs.after. */
static int logs_too(struct emu_barrier *barrier, const struct traffic_part *mine, size_t own)
{
    bool now = false;

    for (size_t i = 0; i < own && mine[0].of; i++) /* counts have a 0 there */
        now |= mine[i].birth_ps == logs.after || logs.after == ANY;
    if (!now)
        return __real_emu_barrier_sync(barrier, mine, own * sizeof *mine);
    memmove(logs.part + own, logs.part, logs.count * sizeof *mine);
    memcpy(logs.part, mine, own * sizeof *mine);
    own += logs.count;
    logs.count = 0;
    return __real_emu_barrier_sync(barrier, logs.part, own * sizeof *mine);
}

/* Logs are lists of partial results; other supersteps here have 8 bytes. After that: idle. */
int __wrap_emu_barrier_sync(struct emu_barrier *barrier, const void *mine, size_t bytes)
{
    static const uint64_t never_ps = EMU_NEVER;
    bool is_log = bytes % sizeof logs.part[0] == 0;
    size_t count;
    int err;

    if (emu_barrier_config(barrier)->self != 1)
        return __real_emu_barrier_sync(barrier, mine, bytes);
    if (logs.waiting && bytes == 3 * sizeof(uint64_t)) {
        uint64_t counts[3]; /* count_all() of open.c */

        memcpy(counts, mine, sizeof counts);
        counts[1] = logs.waiting;
        logs.waiting = 0;
        return __real_emu_barrier_sync(barrier, counts, sizeof counts);
    }
    if (logs.counts && bytes == logs.counts * sizeof(uint64_t)) {
        memset(logs.part, 255, bytes);
        logs.counts = 0;
        return __real_emu_barrier_sync(barrier, logs.part, bytes);
    }
    count = logs.count;
    if (count && is_log && bytes && logs.after)
        return logs_too(barrier, mine, bytes / sizeof logs.part[0]);
    if (!count || !is_log || logs.after)
        return __real_emu_barrier_sync(barrier, mine, bytes);
    logs.count = 0;
    err = __real_emu_barrier_sync(barrier, logs.part, count * sizeof logs.part[0]);
    while (!err)
        err = __real_emu_barrier_sync(barrier, &never_ps, sizeof never_ps);
    return err;
}

static void logs_all(uint64_t at_ps)
{
    logs.count = 8;
    for (uint32_t i = 0; i < logs.count; i++)
        logs.part[i] = (struct traffic_part){.at_ps = at_ps, .of = 8};
}

/* Results never reach its nodes, nor do contributions of others: its switch ignores them. */
static void ignores_all(struct traffic_hosts *hosts, uint64_t *next_ps)
{
    static const struct emu_barrier_taker taker = {.record = ignores};

    emu_barrier_taker(hosts->barrier, &taker);
    emu_virtual_agree(hosts->link, next_ps);
}

static void traffic_run__with_forged_completions_fails(void)
{
    static const struct {
        uint64_t at_ps, operations;
        const char *why;
    } lies[] = {{EMU_LAST_PS + 1, 1, "another host has logged an impossible result"},
                {EMU_LAST_PS, 2, "the operations take more than 53 days"},
                {1000000, 1, "another host has logged operations as complete that node"}};

    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        struct traffic_config config = short_run("allreduce");
        uint64_t seed = 2;
        struct fixture fixture;

        config.operations = lies[i].operations;
        config.members = 8;
        config.groups = 1;
        fixture_make(&fixture, HOSTS_MOST, config.fabric.graph, &seed);
        fixture.host[1].lie = ignores_all;
        fixture.host[1].lies_at = 1;
        logs_all(lies[i].at_ps);
        fixture_run(&fixture, &config, NULL);
        CU_ASSERT_NOT_EQUAL(fixture.host[0].err, 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(fixture.host[0].error, lies[i].why));
        fixture_free(&fixture);
    }
}

/* A part of an operation that was completed before would be kept for ever. */
static void traffic_run__with_parts_of_past_operations_fails(void)
{
    struct traffic_config config = short_run("allreduce");
    uint64_t seed = 2;
    struct fixture fixture;

    config.operations = 4;
    config.members = 8;
    config.groups = 1;
    fixture_make(&fixture, HOSTS_MOST, config.fabric.graph, &seed);
    logs_all(1000000);
    logs.count = 1;
    logs.after = 1;
    fixture_run(&fixture, &config, NULL);
    CU_ASSERT_EQUAL(logs.count, 0);
    CU_ASSERT_NOT_EQUAL(fixture.host[0].err, 0);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(fixture.host[0].error, "another host has logged an impossible result"));
    logs.after = 0;
    fixture_free(&fixture);
}

/* More multicasts that are not complete than there can be, and a sum that has no sign. */
static void traffic_run__with_impossible_counts_or_multicasts_fails(void)
{
    for (uint32_t lie = 0; lie < 3; lie++) {
        struct traffic_config config = short_run(lie ? "uniform" : "multicast");
        uint64_t seed = 2;
        struct fixture fixture;

        config.fanout = 3;
        config.sets = 4;
        fixture_make(&fixture, HOSTS_MOST, config.fabric.graph, &seed);
        logs.count = lie ? 0 : 4000;
        for (uint32_t i = 0; i < logs.count; i++)
            logs.part[i] = (struct traffic_part){.birth_ps = i, .at_ps = 1000000, .of = 2};
        logs.after = lie ? 0 : ANY;
        logs.waiting = lie == 1 ? UINT64_C(1) << 63 : lie == 2 ? INT64_MAX : 0;
        fixture_run(&fixture, &config, NULL);
        CU_ASSERT_EQUAL(logs.count, 0);
        CU_ASSERT_EQUAL(logs.waiting, 0);
        CU_ASSERT_NOT_EQUAL(fixture.host[0].err, 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(fixture.host[0].error, "impossible message"));
        logs.after = 0;
        fixture_free(&fixture);
    }
}

/* A sum over all hosts that does not fit would be wrong, also for the nodes of other hosts. */
static void traffic_run__with_counts_that_are_too_large_fails(void)
{
    struct traffic_config config = short_run("uniform");
    uint64_t seed = 2;
    struct fixture fixture;

    fixture_make(&fixture, HOSTS_MOST, config.fabric.graph, &seed);
    logs.counts = config.fabric.graph->nodes;
    fixture_run(&fixture, &config, NULL);
    CU_ASSERT_EQUAL(logs.counts, 0);
    for (uint32_t h = 0; h < HOSTS_MOST; h += 2) {
        CU_ASSERT_NOT_EQUAL(fixture.host[h].err, 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(fixture.host[h].error, "a count that is too large"));
    }
    fixture_free(&fixture);
}

int main(void)
{
    const struct test_case cases[] = {
        CASE(barrier_sync__delivers_all_bytes_to_all),
        CASE(barrier_sync__protocol_violation_ends_it),
        CASE(barrier_sync__failure_told_to_one_host_reaches_all),
        CASE(barrier_sync__bytes_on_a_second_session_end_it),
        CASE(barrier_put__finding_a_host_lost_reports_the_others),
        CASE(barrier_connect__reports_why_another_host_has_failed),
        CASE(traffic_run__on_any_hosts_is_the_same_as_on_one),
        CASE(traffic_run__acknowledged_on_any_hosts_is_the_same_as_on_one),
        CASE(traffic_run__storage_on_any_hosts_is_the_same_as_on_one),
        CASE(traffic_run__over_lossy_wires_is_the_same),
        CASE(traffic_run__ended_by_one_host_ends_on_all),
        CASE(traffic_run__with_a_lost_host_ends_on_all),
        CASE(traffic_run__waits_for_a_slow_host),
        CASE(traffic_run__of_different_traffic_is_refused),
        CASE(traffic_run__with_a_lying_host_ends),
        CASE(traffic_run__with_a_never_idle_host_can_be_ended),
        CASE(traffic_run__waiting_for_another_host_can_be_ended),
        CASE(traffic_run__with_a_host_that_stands_still_ends),
        CASE(traffic_run__with_needless_payloads_loses_no_buffers),
        CASE(traffic_run__with_forged_completions_fails),
        CASE(traffic_run__with_parts_of_past_operations_fails),
        CASE(traffic_run__with_impossible_counts_or_multicasts_fails),
        CASE(traffic_run__with_counts_that_are_too_large_fails),
        {NULL, NULL},
    };
    int status = test_run("traffic_hosts", cases);

    draw_end();
    return status;
}
