/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * face.c - what it costs to look at a fabric: hops a second of one that has a page, a scraper of
 * metrics and a subscriber beside those of the same one without, in turns; and the part of a core
 * that its manager and the page's server take.
 *
 * The nodes are inside the fabric and send all they can, so every counter changes between two
 * snapshots. Its worker, its manager, the page's server and the readers have a thread each, as in
 * any run; the readers' own time is nobody's.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apps/bench/hops.h"
#include "apps/bench/internal.h"
#include "apps/bench/readers.h"
#include "apps/daemon/daemon.h"
#include "apps/run/paths.h"
#include "apps/web/web.h"
#include "emu/now.h"

#define SLICE_NS 300000000u  /* short: memory's speed drifts, with what neighbours do */
#define CORE_NS  1000000000u /* so that each has one scrape */

/* A fabric that is served as `fabemu up --web` does it, by threads of this process. */
struct face {
    struct fabric_config config;
    struct topo_graph *graph;
    struct bench_nodes nodes;
    struct fabric *fabric;
    struct paths_socket socket;
    char name[PATHS_NAME_MAX + 1];
    int listen_fd, signal_fd;
    int owner_fd[2]; /* the supervisor's end, which hears nothing; and the daemon's */
    pthread_t manager;
    bool serves; /* the manager's thread is there */
    struct web web;
};

struct face_samples {
    struct bench_samples without, with, times;  /* hops a second, in millions; with/without */
    struct bench_samples core, manager, server; /* parts of a core while somebody reads, in % */
    struct bench_samples snapshots;             /* a second, of the subscriber's */
};

/* --- the fabric -------------------------------------------------------------------------- */

static void *manager_main(void *ctx)
{
    struct face *face = ctx;
    struct daemon_config config = {.fabric = &face->config,
                                   .listen_fd = face->listen_fd,
                                   .signal_fd = face->signal_fd,
                                   .owner_fd = face->owner_fd[1],
                                   .owner = getpid(),
                                   .events_fd = -1,
                                   .record_fd = -1};
    char error[256] = "";

    daemon_serve(face->fabric, &config, error, sizeof error);
    return NULL;
}

/* The page's server is forked before there are threads. */
static int server_open(struct face *face, char *error, size_t error_bytes)
{
    int err = web_there() ? web_open(&face->web, 0, error, error_bytes) : 0;

    if (!err && web_there())
        err = web_start(&face->web, face->name, error, error_bytes);
    return err;
}

static int manager_start(struct face *face)
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, face->owner_fd) < 0)
        return -errno;
    face->signal_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (face->signal_fd < 0)
        return -errno;
    int err = -pthread_create(&face->manager, NULL, manager_main, face);
    face->serves = !err;
    return err;
}

/* Without an error text it is strerror()'s. In any case face_close() wants to be called. */
static int face_open(struct face *face, const char *topo, char *error, size_t error_bytes)
{
    const struct bench_traffic uniform = {0, 1, 240};

    *face = (struct face){.listen_fd = -1, .signal_fd = -1, .owner_fd = {-1, -1}, .web = WEB_NONE};
    int err = bench_config(&face->config, &face->graph, "oq2004", topo, error, error_bytes);
    if (err)
        return err;
    snprintf(face->name, sizeof face->name, "bench-%d", (int)getpid());
    snprintf(face->config.name, sizeof face->config.name, "%s", face->name);
    err = paths_listen(&face->socket, &face->listen_fd, face->name, error, error_bytes);
    if (!err)
        err = server_open(face, error, error_bytes);
    if (!err)
        err = bench_nodes_init(&face->nodes, face->graph->nodes, &uniform, face->config.seed);
    face->config.threads = 1;
    face->config.local_nodes = &face->nodes.ops;
    if (!err)
        err = fabric_start(&face->fabric, &face->config, error, error_bytes);
    if (!err)
        err = manager_start(face);
    if (!err)
        web_go(&face->web);
    return err;
}

static void face_close(struct face *face)
{
    if (face->serves) {
        eventfd_write(face->signal_fd, 1);
        pthread_join(face->manager, NULL);
    } else if (face->owner_fd[1] >= 0) {
        close(face->owner_fd[1]);
    }
    if (face->listen_fd >= 0) {
        close(face->listen_fd);
        paths_unlink(&face->socket);
    }
    web_stop(&face->web);
    web_close(&face->web);
    if (face->owner_fd[0] >= 0)
        close(face->owner_fd[0]);
    if (face->signal_fd >= 0)
        close(face->signal_fd);
    fabric_stop(face->fabric);
    bench_nodes_free(&face->nodes);
    topo_free(face->graph);
}

/* --- slices ------------------------------------------------------------------------------- */

/* Time of its own that a thread or process has had. */
static uint64_t manager_ns(const struct face *face)
{
    clockid_t clock;

    return pthread_getcpuclockid(face->manager, &clock) ? 0 : emu_time_ns(clock);
}

static uint64_t server_ns(const struct face *face)
{
    clockid_t clock;

    return !face->web.pid || clock_getcpuclockid(face->web.pid, &clock) ? 0 : emu_time_ns(clock);
}

/* Errors: -EPIPE, a line in @error. */
static int readers_end(struct bench_readers *readers, char *error, size_t error_bytes)
{
    bench_readers_close(readers);
    if (*readers->error)
        snprintf(error, error_bytes, "%s", readers->error);
    return *readers->error ? -EPIPE : 0;
}

static int readers_begin(struct bench_readers *readers, const struct face *face, char *error,
                         size_t error_bytes)
{
    return bench_readers_open(readers, face->name, web_there() ? &face->web : NULL, error,
                              error_bytes);
}

/* A slice without, one with. Errors: one line in @error. */
static int round_take(const struct face *face, struct face_samples *samples, char *error,
                      size_t error_bytes)
{
    struct bench_readers readers;
    double without = bench_mhops(face->fabric, SLICE_NS), with;
    int err = readers_begin(&readers, face, error, error_bytes);

    if (err)
        return err;
    with = bench_mhops(face->fabric, SLICE_NS);
    bench_sample(&samples->without, without);
    bench_sample(&samples->with, with);
    bench_sample(&samples->times, with / without);
    return readers_end(&readers, error, error_bytes);
}

static void core_take(const struct face *face, const struct bench_readers *readers,
                      struct face_samples *samples)
{
    uint64_t lines = atomic_load_explicit(&readers->lines, memory_order_relaxed);
    uint64_t manager = manager_ns(face), server = server_ns(face), start_ns = emu_now_ns();

    bench_mhops(face->fabric, CORE_NS);
    manager = manager_ns(face) - manager;
    server = server_ns(face) - server;
    lines = atomic_load_explicit(&readers->lines, memory_order_relaxed) - lines;
    double wall_ns = (double)(emu_now_ns() - start_ns);
    bench_sample(&samples->manager, (double)manager * 100 / wall_ns);
    bench_sample(&samples->server, (double)server * 100 / wall_ns);
    bench_sample(&samples->core, (double)(manager + server) * 100 / wall_ns);
    bench_sample(&samples->snapshots, (double)lines * 1e9 / wall_ns);
}

/* Errors: one line in @error. */
static int core_samples(const struct face *face, unsigned count, struct face_samples *samples,
                        char *error, size_t error_bytes)
{
    struct bench_readers readers;
    int err = readers_begin(&readers, face, error, error_bytes);

    if (err)
        return err;
    for (unsigned i = 0; i < count; i++)
        core_take(face, &readers, samples);
    return readers_end(&readers, error, error_bytes);
}

/* --- rows --------------------------------------------------------------------------------- */

static struct json_object *conditions_of(const struct face *face,
                                         const struct face_samples *samples, bool parts)
{
    struct json_object *own = json_object_new_object();
    const struct {
        const char *name;
        const struct bench_samples *of; /* in %, but for the first */
    } part[] = {{"snapshots_per_s", &samples->snapshots},
                {"manager", &samples->manager},
                {"server", &samples->server}};

    json_object_object_add(own, "topo", json_object_new_string(face->graph->spec));
    json_object_object_add(own, "traffic", json_object_new_string("uniform"));
    json_object_object_add(own, "workers", json_object_new_int(1));
    json_object_object_add(own, "page", json_object_new_boolean(web_there()));
    for (unsigned i = 0; parts && i < sizeof part / sizeof part[0]; i++) {
        char text[32];

        snprintf(text, sizeof text, "%.2f", bench_median(part[i].of));
        json_object_object_add(own, part[i].name,
                               json_object_new_double_s(bench_median(part[i].of), text));
    }
    return own;
}

static void face_rows(struct bench *bench, const char *name, const struct face *face,
                      const struct face_samples *samples, const char *error)
{
    const struct {
        const char *format, *unit;
        const struct bench_samples *samples;
        enum bench_goal goal;
        double target;
    } rows[] = {
        {"face.hops.%s.without", "Mhops/s", &samples->without, BENCH_NO_GOAL, 0},
        {"face.hops.%s.with", "Mhops/s", &samples->with, BENCH_NO_GOAL, 0},
        {"face.hops.%s with/without", "x", &samples->times, BENCH_AT_LEAST, 0.98},
        {"face.core.%s", "%", &samples->core, BENCH_AT_MOST, 5},
    };

    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[96];

        snprintf(text, sizeof text, rows[i].format, name);
        bench_row(bench,
                  &(struct bench_row){.name = text,
                                      .unit = rows[i].unit,
                                      .samples = rows[i].samples,
                                      .conditions = error ? NULL
                                                          : conditions_of(face, samples, i == 3),
                                      .error = error,
                                      .goal = rows[i].goal,
                                      .target = rows[i].target});
    }
}

static void face_case(struct bench *bench, const char *name, const char *topo)
{
    unsigned repeat = bench_repeat(bench, 33, 2);
    struct face_samples samples = {.core = {.count = 0}};
    struct face face;
    char error[256] = "";
    int err = face_open(&face, topo, error, sizeof error);

    if (!err)
        bench_mhops(face.fabric, SLICE_NS); /* queues fill */
    for (unsigned i = 0; i < repeat && !err; i++) {
        bench_progress(bench, "face", i / (double)repeat);
        err = round_take(&face, &samples, error, sizeof error);
    }
    if (!err)
        err = core_samples(&face, bench->quick ? 1 : 5, &samples, error, sizeof error);
    face_rows(bench, name, &face, &samples, !err ? NULL : *error ? error : strerror(-err));
    face_close(&face);
}

void bench_face(struct bench *bench, int nodes)
{
    if (nodes == 64)
        face_case(bench, "nodes64", "kary:4,3");
    else
        face_case(bench, "nodes1000", "kary:10,3");
}
