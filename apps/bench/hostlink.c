/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostlink.c - measures the time per segment at both ends of a link between hosts.
 *
 * Two host links, each with its cables and a worker, run on one thread. There is no network adapter
 * between them: the frame that one end sends is the frame that the other end receives. The times
 * are therefore those of the host link alone; the adapter and the wire would add to them.
 *
 * The bound of the rows (internal.h) is the time of a loop that only copies the payloads of a frame
 * and computes the frame's checksum. Both ends must do at least this.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "apps/bench/internal.h"
#include "emu/util/alloc.h"
#include "emu/hostlink/hostlink.h"
#include "emu/link/link.h"
#include "emu/util/now.h"
#include "emu/packet/crc.h"
#include "emu/worker/worker.h"

#define CABLES       8u
#define CREDITS      256u /* credits of each cable */
#define NODES        16u  /* nodes of the network to which the segments belong */
#define BURST        128u /* maximum segments of a cable in one step */
#define BUFS         16384u
#define WINDOW       1024u /* window of a session, in frames: WINDOW_MOST of apps/cluster/links.c */
#define FRAMES       4096u /* frames of both ends together */
#define SILENT_NS    5000000000ull
#define CONNECT_NS   2000000000ull
#define RECORD_BYTES (40u + EMU_PAYLOAD_BYTES) /* size of a segment in a frame */
#define RECORDS      31u                       /* segments in a frame of 9 KB */
#define LOOP_FRAMES  32u                       /* number of frames that the bound uses in turn */
#define CLOCK_EVERY  16u /* passes of the bound between two reads of the clock */

/* --- the device at the end of a cable, where a switch would be ------------------------- */

struct end {
    struct emu_dev dev; /* must be first */
    struct emu_tx tx;
    struct emu_rx rx;
    bool sends;
};

/* Write the fields into the slot itself, as node_send() of hops.c does and explains. */
static uint32_t end_send(struct end *end)
{
    uint32_t sent = 0;

    emu_tx_take_credits(&end->tx);
    for (; sent < BURST && end->tx.credits; sent++) {
        struct emu_entry *slot = emu_tx_slot(&end->tx);

        slot->buf = emu_pool_take(&end->dev.worker->cache);
        if (slot->buf == EMU_NO_BUF)
            break;
        slot->hdr = (struct emu_hdr){.dst = NODES / 2,
                                     .seq = sent,
                                     .kind = EMU_UNICAST,
                                     .len = EMU_PAYLOAD_BYTES};
        slot->born_ns = 0;
        emu_tx_publish(&end->tx, 0);
    }
    emu_tx_flush(&end->tx);
    return sent;
}

static uint32_t end_receive(struct end *end)
{
    const struct emu_entry *entry;
    uint32_t received = 0;

    for (; received < BURST && (entry = emu_rx_front(&end->rx, EMU_NEVER)); received++) {
        emu_pool_drop(&end->dev.worker->cache, entry->buf);
        emu_rx_skip(&end->rx);
    }
    if (received) {
        emu_rx_done(&end->rx, received);
        end->rx.owed = received;
        emu_rx_pay(&end->rx, end->rx.owner, 0);
    }
    return received;
}

static uint32_t end_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct end *end = (struct end *)dev;
    uint32_t moved;

    (void)until_ps;
    emu_dev_take(dev, EMU_EVENT_DATA);
    emu_dev_take(dev, EMU_EVENT_CREDIT);
    moved = end->sends ? end_send(end) : end_receive(end);
    if (moved == BURST)
        emu_dev_again(dev);
    return moved;
}

/* --- a port in memory ------------------------------------------------------------------ */

struct lane;

struct lane_frame {
    struct emu_hostframe frame; /* frame.own points to this struct */
    uint32_t holders;
    uint8_t data[EMU_HOSTLINK_FRAME_BYTES];
};

/* A port in memory. It receives the frames that @peer sends. */
struct lane {
    struct emu_hostport port; /* must be first */
    struct lane *peer;
    struct lane_frame **free; /* free frames, shared by both ports */
    uint32_t *count;          /* number of free frames */
    struct emu_hostframe *in[FRAMES];
    uint32_t at, to; /* first frame in in[], and the end; free-running */
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

/* in[] of the peer has a slot for every frame, so it cannot overflow. */
static uint32_t lane_send(struct emu_hostport *port, struct emu_hostframe **frames, uint32_t count)
{
    struct lane *peer = lane_of(port)->peer;

    for (uint32_t i = 0; i < count; i++)
        peer->in[peer->to++ % FRAMES] = frames[i];
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
                                                 .close = lane_close};

/* --- two hosts ---------------------------------------------------------------------- */

struct host {
    struct lane lane;
    struct emu_pool *pool;
    struct emu_worker *worker;
    struct emu_hostlink *link;
    struct end end[CABLES];
};

struct two_hosts {
    struct host host[2]; /* the first one sends, the second one receives */
    struct lane_frame *frame;
    struct lane_frame *free[FRAMES];
    uint32_t count; /* number of frames in free[] */
    struct emu_profile profile;
};

static bool host_link(struct two_hosts *hosts, uint32_t h)
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
                                         .nodes = NODES,
                                         .peers = &peer,
                                         .count = 1};

    if (emu_hostlink_create(&host->link, host->worker, &config))
        return false;
    for (uint32_t i = 0; i < CABLES; i++) {
        struct end *end = &host->end[i];

        if (emu_hostlink_join(host->link, 0, i, &end->tx, &end->rx, &end->dev, 0, NULL, CREDITS, 0,
                              &hosts->profile))
            return false;
    }
    return true;
}

static bool host_open(struct two_hosts *hosts, uint32_t h)
{
    const struct emu_clock clock = {.mode = EMU_CLOCK_RAW};
    struct host *host = &hosts->host[h];

    host->lane = (struct lane){.port = {.ops = &lane_ops,
                                        .mac = {2, 0, 0, 0, 0, (uint8_t)h},
                                        .frame_bytes = EMU_HOSTLINK_FRAME_BYTES},
                               .peer = &hosts->host[!h].lane,
                               .free = hosts->free,
                               .count = &hosts->count};
    host->pool = emu_pool_create(BUFS);
    if (!host->pool || emu_worker_create(&host->worker, CABLES + 1, &clock, host->pool))
        return false;
    for (uint32_t i = 0; i < CABLES; i++) {
        emu_dev_init(&host->end[i].dev, host->worker, end_step);
        host->end[i].sends = h == 0;
    }
    return host_link(hosts, h);
}

static void hosts_close(struct two_hosts *hosts)
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

/* Returns NULL if there is no memory, or if the hosts' session is not up within CONNECT_NS. */
static struct two_hosts *hosts_open(void)
{
    struct two_hosts *hosts = emu_zeros(sizeof *hosts);
    uint64_t until_ns = emu_now_ns() + CONNECT_NS;
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

static uint64_t hosts_moved(const struct two_hosts *hosts)
{
    return emu_count_read(&emu_hostlink_counts(hosts->host[1].link, 0)->entries_received);
}

/* Set ns[0] to the time per segment at the sending end, and ns[1] to that at the receiving end. */
static void hosts_sample(struct two_hosts *hosts, uint64_t sample_ns, double ns[2])
{
    uint64_t spent_ns[2] = {0}, from = hosts_moved(hosts);

    for (uint32_t h = 0; h < 2; h++)
        for (uint32_t i = 0; i < CABLES; i++) /* wake the senders; receivers have nothing to do */
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

/* --- the bound ---------------------------------------------------------------------- */

struct bound {
    uint8_t frame[LOOP_FRAMES][RECORDS * RECORD_BYTES];
    struct emu_seg buffer[LOOP_FRAMES][RECORDS];
    uint32_t sum;
};

/* Return ns per segment. */
static double bound_sample(struct bound *bound, uint64_t sample_ns)
{
    uint64_t start_ns = emu_time_ns(CLOCK_THREAD_CPUTIME_ID), now_ns = start_ns, segments = 0;

    while (now_ns < start_ns + sample_ns) {
        for (unsigned f = 0; f < CLOCK_EVERY * LOOP_FRAMES; f++) {
            const uint8_t *from = bound->frame[f % LOOP_FRAMES];

            bound->sum ^= emu_crc32(0, from, RECORDS * RECORD_BYTES);
            for (uint32_t i = 0; i < RECORDS; i++)
                emu_copy(bound->buffer[f % LOOP_FRAMES][i].payload,
                         from + (i + 1) * RECORD_BYTES - EMU_PAYLOAD_BYTES, EMU_PAYLOAD_BYTES);
        }
        segments += (uint64_t)CLOCK_EVERY * LOOP_FRAMES * RECORDS;
        now_ns = emu_time_ns(CLOCK_THREAD_CPUTIME_ID);
    }
    return (double)(now_ns - start_ns) / (double)segments;
}

/* --- rows --------------------------------------------------------------------------- */

static void row(struct bench *bench, const char *name, const struct bench_samples *samples,
                const struct bench_samples *bound, const char *error)
{
    struct json_object *own = json_object_new_object();

    json_object_object_add(own, "threads", json_object_new_int(1));
    bench_row(bench, &(struct bench_row){.name = name,
                                         .unit = "ns",
                                         .samples = samples,
                                         .bound = bound,
                                         .conditions = own,
                                         .error = error});
}

void bench_hostlink(struct bench *bench, int unused)
{
    struct bench_samples sent = {.count = 0}, received = {.count = 0}, bounds = {.count = 0};
    struct two_hosts *hosts = hosts_open();
    struct bound *bound = emu_zeros(sizeof *bound);
    const char *error = hosts && bound ? NULL : "no link between two hosts";
    double ns[2];

    (void)unused;
    for (unsigned left = error ? 0 : bench_repeat(bench, 9, 3); left; left--) {
        hosts_sample(hosts, bench_sample_ns(bench), ns);
        bench_sample(&sent, ns[0]);
        bench_sample(&received, ns[1]);
        bench_sample(&bounds, bound_sample(bound, bench_sample_ns(bench)));
    }
    if (hosts && !hosts_moved(hosts))
        error = "no segment has arrived";
    row(bench, "hostlink.send", &sent, &bounds, error);
    row(bench, "hostlink.receive", &received, &bounds, error);
    free(bound);
    hosts_close(hosts);
}
