/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostlink.c - what a segment costs a host link at either end, and what it cannot cost less than.
 *
 * Two host links, each with the ends of its cables and a worker, on one thread. Between them there
 * is no device: a frame that one sends is the frame that the other gets. So a figure is that of
 * links alone, from a core's own cache; what a device and a wire need comes on top of it.
 *
 * The bare loop does no more than what must be done to what came: it copies the segments of a frame
 * into buffers, and pushes them into a ring, from where somebody takes them.
 */
#include <stdlib.h>
#include <string.h>

#include "apps/bench/internal.h"
#include "apps/bench/link_end.h"
#include "emu/alloc.h"
#include "emu/hostlink/hostlink.h"
#include "emu/link/ring.h"
#include "emu/now.h"
#include "emu/packet/crc.h"
#include "emu/worker/worker.h"

#define CABLES    8u
#define CREDITS   256u /* a cable */
#define BUFS      16384u
#define WINDOW    1024u /* frames, as apps/hosts has it */
#define FRAMES    4096u /* of both ends */
#define SILENT_NS 5000000000ull
#define MEET_NS   2000000000ull
#define RECORD    (40u + EMU_PAYLOAD_BYTES) /* bytes of a segment in a frame */
#define PACKED    31u                       /* segments of a frame */
#define TURNS     32u                       /* frames that the bare loop takes by turns */
#define LOOK      16u                       /* passes between looks at the clock */

/* --- frames ------------------------------------------------------------------------- */

struct lane;

struct lane_frame {
    struct emu_hostframe frame; /* .own: itself */
    uint32_t holders;
    uint8_t data[EMU_HOSTLINK_FRAME_BYTES];
};

/* A port: what the other one sends is what it receives. */
struct lane {
    struct emu_hostport port; /* must be first */
    struct lane *far;
    struct lane_frame **free; /* of both */
    uint32_t *count;          /* of them */
    struct emu_hostframe *in[FRAMES];
    uint32_t at, to; /* modulo FRAMES */
};

static struct lane *lane_of(struct emu_hostport *port)
{
    return (struct lane *)port;
}

static uint32_t lane_receive(struct emu_hostport *port, struct emu_hostframe **frames, uint32_t max)
{
    struct lane *lane = lane_of(port);
    uint32_t got = 0;

    for (; got < max && lane->at != lane->to; got++)
        frames[got] = lane->in[lane->at++ % FRAMES];
    return got;
}

/* There is a slot for each frame that there is. */
static uint32_t lane_send(struct emu_hostport *port, struct emu_hostframe **frames, uint32_t count)
{
    struct lane *far = lane_of(port)->far;

    for (uint32_t i = 0; i < count; i++)
        far->in[far->to++ % FRAMES] = frames[i];
    return count;
}

static struct emu_hostframe *lane_take(struct emu_hostport *port)
{
    struct lane *lane = lane_of(port);
    struct lane_frame *frame = *lane->count ? lane->free[--*lane->count] : NULL;

    if (!frame)
        return NULL;
    frame->holders = 1;
    return &frame->frame;
}

static void lane_keep(struct emu_hostport *port, struct emu_hostframe *frame)
{
    (void)port;
    ((struct lane_frame *)frame->own)->holders++;
}

static bool lane_is_alone(struct emu_hostport *port, const struct emu_hostframe *frame)
{
    (void)port;
    return ((struct lane_frame *)frame->own)->holders == 1;
}

static void lane_drop(struct emu_hostport *port, struct emu_hostframe *frame)
{
    struct lane *lane = lane_of(port);
    struct lane_frame *own = frame->own;

    if (!--own->holders)
        lane->free[(*lane->count)++] = own;
}

static int lane_wake_fd(struct emu_hostport *port)
{
    (void)port;
    return -1;
}

static bool lane_is_up(struct emu_hostport *port)
{
    (void)port;
    return true;
}

static void lane_close(struct emu_hostport *port)
{
    (void)port;
}

static const struct emu_hostport_ops lane_ops = {.receive = lane_receive,
                                                 .send = lane_send,
                                                 .take = lane_take,
                                                 .keep = lane_keep,
                                                 .is_alone = lane_is_alone,
                                                 .drop = lane_drop,
                                                 .wake_fd = lane_wake_fd,
                                                 .wake_clear = lane_close,
                                                 .is_up = lane_is_up,
                                                 .close = lane_close};

/* --- two hosts ---------------------------------------------------------------------- */

struct host {
    struct lane lane;
    struct emu_pool *pool;
    struct emu_worker *worker;
    struct emu_hostlink *link;
    struct bench_link_end end[CABLES];
};

struct hosts {
    struct host host[2]; /* the first one sends */
    struct lane_frame *frame;
    struct lane_frame *free[FRAMES];
    uint32_t count;
    struct emu_profile profile;
};

static bool host_link(struct hosts *hosts, uint32_t h)
{
    struct host *host = &hosts->host[h];
    struct emu_hostlink_peer peer = {.session = {.fabric = 1,
                                                 .host = (uint16_t)h,
                                                 .peer = (uint16_t)!h,
                                                 .silent_ns = SILENT_NS,
                                                 .window = WINDOW},
                                     .cables = CABLES,
                                     .control_fd = -1};
    struct emu_hostlink_config config = {.port = &host->lane.port,
                                         .nodes = BENCH_LINK_NODES,
                                         .peers = &peer,
                                         .count = 1};

    if (emu_hostlink_create(&host->link, host->worker, &config))
        return false;
    for (uint32_t i = 0; i < CABLES; i++) {
        struct bench_link_end *end = &host->end[i];

        if (emu_hostlink_join(host->link, 0, i, &end->tx, &end->rx, &end->dev, 0, NULL, CREDITS, 0,
                              &hosts->profile))
            return false;
    }
    return true;
}

static bool host_open(struct hosts *hosts, uint32_t h)
{
    const struct emu_clock clock = {.mode = EMU_CLOCK_RAW};
    struct host *host = &hosts->host[h];

    host->lane = (struct lane){.port = {.ops = &lane_ops,
                                        .mac = {2, 0, 0, 0, 0, (uint8_t)h},
                                        .frame_bytes = EMU_HOSTLINK_FRAME_BYTES},
                               .far = &hosts->host[!h].lane,
                               .free = hosts->free,
                               .count = &hosts->count};
    host->pool = emu_pool_create(BUFS);
    if (!host->pool || emu_worker_create(&host->worker, CABLES + 1, &clock, host->pool))
        return false;
    for (uint32_t i = 0; i < CABLES; i++)
        bench_link_end_init(&host->end[i], host->worker, !h);
    return host_link(hosts, h);
}

static void hosts_close(struct hosts *hosts)
{
    for (uint32_t h = 0; hosts && h < 2; h++) {
        struct host *host = &hosts->host[h];

        for (uint32_t i = 0; i < CABLES; i++)
            if (host->end[i].tx.kind == EMU_LINK_LOCAL)
                emu_link_unjoin(&host->end[i].tx);
        emu_hostlink_destroy(host->link);
        emu_worker_destroy(host->worker);
        emu_pool_destroy(host->pool);
    }
    if (hosts)
        free(hosts->frame);
    free(hosts);
}

/* NULL: they cannot be made, or do not meet. */
static struct hosts *hosts_open(void)
{
    struct hosts *hosts = emu_zeros(sizeof *hosts);
    uint64_t until_ns = emu_now_ns() + MEET_NS;
    char error[128];
    bool up = false;

    if (!hosts)
        return NULL;
    hosts->frame = emu_zeros(FRAMES * sizeof *hosts->frame);
    for (; hosts->frame && hosts->count < FRAMES; hosts->count++) {
        struct lane_frame *frame = &hosts->frame[hosts->count];

        frame->frame =
            (struct emu_hostframe){.data = frame->data, .room = sizeof frame->data, .own = frame};
        hosts->free[hosts->count] = frame;
    }
    up = hosts->frame && !emu_profile_load(&hosts->profile, "oq2004", error, sizeof error) &&
         host_open(hosts, 0) && host_open(hosts, 1);
    while (up && (emu_hostlink_phase(hosts->host[0].link, 0) != EMU_HOSTLINK_UP ||
                  emu_hostlink_phase(hosts->host[1].link, 0) != EMU_HOSTLINK_UP)) {
        emu_worker_pass(hosts->host[0].worker);
        emu_worker_pass(hosts->host[1].worker);
        up = emu_now_ns() < until_ns;
    }
    if (up)
        return hosts;
    hosts_close(hosts);
    return NULL;
}

static uint64_t hosts_moved(const struct hosts *hosts)
{
    return emu_count_read(&emu_hostlink_counts(hosts->host[1].link, 0)->entries_received);
}

/* A sample: ns a segment of either end. */
static void hosts_sample(struct hosts *hosts, uint64_t sample_ns, double ns[2])
{
    uint64_t spent_ns[2] = {0}, from = hosts_moved(hosts);

    for (uint32_t h = 0; h < 2; h++)
        for (uint32_t i = 0; i < CABLES; i++) /* those that send begin */
            emu_dev_again(&hosts->host[h].end[i].dev);
    while (spent_ns[0] + spent_ns[1] < sample_ns)
        for (uint32_t h = 0; h < 2; h++) {
            uint64_t at_ns = emu_time_ns(CLOCK_THREAD_CPUTIME_ID);

            emu_worker_pass(hosts->host[h].worker);
            spent_ns[h] += emu_time_ns(CLOCK_THREAD_CPUTIME_ID) - at_ns;
        }
    from = hosts_moved(hosts) - from;
    for (uint32_t h = 0; h < 2; h++)
        ns[h] = from ? (double)spent_ns[h] / (double)from : 0;
}

/* --- the bare loop ------------------------------------------------------------------ */

struct bare {
    struct emu_pool *pool;
    struct emu_pool_cache cache;
    struct emu_ring_end in, out;
    uint8_t frame[TURNS][PACKED * RECORD];
    uint32_t sum;
};

static struct bare *bare_open(void)
{
    struct bare *bare = emu_zeros(sizeof *bare);

    if (!bare)
        return NULL;
    bare->pool = emu_pool_create(BUFS);
    if (!bare->pool || !emu_ring_create(&bare->in, &bare->out, TURNS * PACKED)) {
        emu_pool_destroy(bare->pool);
        free(bare);
        return NULL;
    }
    emu_pool_cache_init(&bare->cache, bare->pool);
    memset(bare->frame, 1, sizeof bare->frame);
    return bare;
}

static void bare_close(struct bare *bare)
{
    if (!bare)
        return;
    emu_ring_destroy(&bare->in);
    emu_pool_destroy(bare->pool);
    free(bare);
}

static void bare_frame(struct bare *bare, const uint8_t *from, bool checks)
{
    struct emu_entry entry = {.time_ps = 0};

    if (checks)
        bare->sum ^= emu_crc32(0, from, PACKED * RECORD);
    for (uint32_t i = 0; i < PACKED; i++, from += RECORD) {
        memcpy(&entry.hdr, from + 16, sizeof entry.hdr);
        entry.buf = emu_pool_take(&bare->cache);
        emu_copy(emu_pool_bytes(bare->pool, entry.buf), from + RECORD - EMU_PAYLOAD_BYTES,
                 EMU_PAYLOAD_BYTES);
        emu_ring_put(&bare->in, &entry);
    }
}

static void bare_take(struct bare *bare)
{
    const struct emu_entry *entry;

    while ((entry = emu_ring_front(&bare->out))) {
        emu_pool_drop(&bare->cache, entry->buf);
        emu_ring_skip(&bare->out);
    }
}

static double bare_sample(struct bare *bare, uint64_t sample_ns, bool checks)
{
    uint64_t start_ns = emu_time_ns(CLOCK_THREAD_CPUTIME_ID), now_ns = start_ns, done = 0;

    while (now_ns < start_ns + sample_ns) {
        for (unsigned look = 0; look < LOOK; look++) {
            for (uint32_t t = 0; t < TURNS; t++)
                bare_frame(bare, bare->frame[t], checks);
            bare_take(bare);
        }
        done += (uint64_t)LOOK * TURNS * PACKED;
        now_ns = emu_time_ns(CLOCK_THREAD_CPUTIME_ID);
    }
    return (double)(now_ns - start_ns) / (double)done;
}

/* --- rows --------------------------------------------------------------------------- */

static void row(struct bench *bench, const char *name, const char *of,
                const struct bench_samples *samples, const char *error)
{
    struct json_object *own = json_object_new_object();

    json_object_object_add(own, "of", json_object_new_string(of));
    json_object_object_add(own, "threads", json_object_new_int(1));
    bench_row(bench, &(struct bench_row){.name = name,
                                         .unit = "ns",
                                         .samples = samples,
                                         .conditions = own,
                                         .error = error});
}

void bench_hostlink(struct bench *bench, int unused)
{
    struct bench_samples sent = {.count = 0}, taken = {.count = 0};
    struct bench_samples bare[2] = {{.count = 0}, {.count = 0}};
    struct hosts *hosts = hosts_open();
    struct bare *loop = bare_open();
    const char *error = hosts && loop ? NULL : "no two hosts";
    unsigned samples = bench_repeat(bench, 9, 3);

    (void)unused;
    for (unsigned i = 0; !error && i < samples; i++) { /* in turns */
        double ns[2];

        bench_progress(bench, "hostlink", (double)i / samples);
        hosts_sample(hosts, bench_sample_ns(bench), ns);
        bench_sample(&sent, ns[0]);
        bench_sample(&taken, ns[1]);
        for (unsigned checks = 0; checks < 2; checks++)
            bench_sample(&bare[checks], bare_sample(loop, bench_sample_ns(bench), checks));
    }
    if (hosts && !hosts_moved(hosts))
        error = "nothing came";
    row(bench, "hostlink.sent", "a segment from a ring into a frame, with its buffer", &sent,
        error);
    row(bench, "hostlink.taken", "a segment out of a frame into a ring, and from there", &taken,
        error);
    row(bench, "hostlink.bare", "the same by a loop that does nothing else", &bare[0], error);
    row(bench, "hostlink.bare.checked", "and sums up the frame", &bare[1], error);
    bare_close(loop);
    hosts_close(hosts);
}
