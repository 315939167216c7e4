/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cables.c - traffic from another host on the cables between hosts: arbitrary entries, complete
 * packets with a valid CRC-32 and arbitrary headers, and replies to packets that were never sent.
 * As a host link does, this target passes only entries to the switches that emu/hostlink/entry.h
 * accepts. It steps the part of a real fabric that is on this host, and the input sets the clock.
 *
 * The first byte of the input selects the switch model (machines[]). Commands follow, each a byte
 * (enum command) with parameters.
 *
 * Nodes 0 and 1 are on this host, and their processes are well-behaved. On clock virtual they are
 * devices of the fabric. A process may receive only segments that another process could have sent,
 * and every allocated buffer must have an owner. With link-level retry, cables go down and come
 * back, and waiting segments are rerouted.
 */
#include <stdlib.h>
#include <string.h>

#include "apps/audit/audit.h"
#include "apps/fabric/internal.h"
#include "apps/fabric/links.h"
#include "emu/hostlink/entry.h"
#include "emu/link/channels.h"
#include "emu/retry/replay.h"
#include "nic/engine/internal.h"
#include "tests/fuzz/fuzz.h"

#define NODES      4u
#define HERE       2u /* number of nodes on this host: 0 and 1 */
#define GROUPS     4u
#define CABLES     8u /* limit of cables between the hosts */
#define CARRIED    4u /* limit of the segments of a process in one packet */
#define END_PASSES 200u
#define STEP_NS    1000000u
#define WINDOW_PS  1000000u /* clock virtual: of a pass */

static const struct machine {
    const char *profile;
    enum emu_clock_mode clock;
    const char *set[3];
} machines[] = {
    {"oq2004", EMU_CLOCK_RAW, {0}},
    {"qsnet3", EMU_CLOCK_RAW, {0}},
    {"oq2004", EMU_CLOCK_REAL, {0}},
    {"qsnet3", EMU_CLOCK_REAL, {0}},
    {"oq2004", EMU_CLOCK_RAW, {"combine_units=3", "combine_order=port"}},
    {"qsnet3", EMU_CLOCK_RAW, {"combining=switch"}},
    {"qsnet3", EMU_CLOCK_RAW, {"barrier=tree", "combine_order=port", "tree_width=1"}},
    {"oq2004", EMU_CLOCK_REAL, {"buffers=input"}},
    {"oq2004", EMU_CLOCK_RAW, {"buffers=input_xpoint"}},
    {"qsnet3", EMU_CLOCK_REAL, {"combining=switch", "combine_order=port"}},
    {"oq2004", EMU_CLOCK_RAW, {"link_retry=go_back_n"}},
    {"oq2004", EMU_CLOCK_REAL, {"link_retry=go_back_n", "combine_units=2"}},
    {"oq2004", EMU_CLOCK_REAL, {"link_retry=go_back_n", "buffers=input"}},
    {"oq2004", EMU_CLOCK_VIRTUAL, {0}},
    {"oq2004", EMU_CLOCK_VIRTUAL, {"link_retry=go_back_n", "combine_order=port"}},
    {"oq2004", EMU_CLOCK_VIRTUAL, {"buffers=input"}},
    {"qsnet3", EMU_CLOCK_VIRTUAL, {0}},
    {"qsnet3", EMU_CLOCK_VIRTUAL, {"combining=switch"}},
};

enum command {
    ENTRY, /* cable, 16 bytes of header, length of the payload: an entry without channels */
    /* cable, destination, source, head, segments; of each: kind, op, type, length, number */
    PACKET,
    BYTES, /* cable, count: this number of bytes of the input, as a record */
    /* node, times, destination, kind, length, op, type, number: a process on this host sends */
    POST,
    PASS,  /* count: passes of the workers */
    GROUP, /* a bit for each member, 128 for a wide window */
    LEAVE, /* group, node */
    TIME,  /* exponent: advances the clock by a power of two */
    /* cable, bits: 1, it comes up, else down; 2, new tables; 4, waiting segments are rerouted */
    LINK,
    COMMANDS
};

/* The other host's end of a cable. */
struct remote_end {
    struct emu_tx tx;
    struct emu_rx rx;
    struct emu_replay replay; /* link-level retry; zeros: none */
    uint32_t cable;
};

/* A node inside the fabric, on clock virtual. */
struct inside_node {
    struct emu_dev dev;
    struct emu_tx tx;
    struct emu_rx rx;
    struct emu_entry post;
    uint32_t posts; /* left */
};

static struct fixture {
    struct fabric *fabric;
    struct fabric_hosts hosts;
    struct emu_dev dev;
    struct remote_end end[CABLES];
    uint32_t ends;
    uint32_t packets; /* number of packets that PACKET has made */
    uint32_t group[GROUPS], groups;
    bool channels;
    struct inside_node *inside[NODES];
    uint64_t first_ps, window_ps; /* clock virtual: remote_first_ps(), and the window's end */
    uint64_t until_ps;            /* and the time up to which the fabric was advanced */
} fixture;

static bool is_virtual(void)
{
    return fixture.dev.worker->clock.mode == EMU_CLOCK_VIRTUAL;
}

/* --- a host link controlled by the input ---------------------------------------------- */

static uint32_t remote_step(struct emu_dev *dev, uint64_t until_ps)
{
    uint64_t next_ps = EMU_NEVER;

    emu_dev_take(dev, EMU_EVENT_DATA);
    emu_dev_take(dev, EMU_EVENT_CREDIT);
    for (uint32_t i = 0; i < fixture.ends; i++)
        if (fixture.end[i].replay.kept) {
            uint64_t at_ps = emu_replay_run(&fixture.end[i].replay, until_ps);

            next_ps = at_ps < next_ps ? at_ps : next_ps;
        }
    if (dev->timed)
        dev->next_ps = next_ps;
    else
        emu_dev_poll_within(dev, next_ps);
    return 0;
}

static int remote_create(void *ctx, uint32_t i, struct emu_worker *worker)
{
    (void)ctx;
    (void)i;
    emu_dev_init(&fixture.dev, worker, remote_step);
    return 0;
}

static int remote_join(void *ctx, const struct fabric_crossing *crossing,
                       const struct fabric_crossing_end *here, uint32_t credits,
                       const struct emu_profile *profile)
{
    struct remote_end *end = &fixture.end[fixture.ends++];
    int err;

    (void)ctx;
    fuzz_must(fixture.ends <= CABLES, "at most CABLES cables connect the hosts");
    end->cable = crossing->cable;
    err =
        emu_link_join(here->tx, here->dev, here->port, &end->rx, &fixture.dev, 0, credits, profile);
    if (!err && here->intake)
        return emu_retry_join(&end->replay, &end->tx, &fixture.dev, 0, here->intake, here->rx,
                              here->dev, here->port, credits, profile);
    return err ? err
               : emu_link_join(&end->tx, &fixture.dev, 0, here->rx, here->dev, here->port, credits,
                               profile);
}

static void remote_destroy(void *ctx)
{
    (void)ctx;
    while (fixture.ends) {
        emu_link_unjoin(&fixture.end[--fixture.ends].tx);
        emu_replay_free(&fixture.end[fixture.ends].replay);
    }
}

static uint64_t remote_held(void *ctx)
{
    uint64_t held = 0;

    (void)ctx;
    for (uint32_t i = 0; i < fixture.ends; i++) {
        held += emu_link_bufs(&fixture.end[i].rx);
        held += fixture.end[i].replay.kept ? emu_replay_bufs(&fixture.end[i].replay) : 0;
    }
    return held;
}

static struct emu_replay *remote_replay(void *ctx, const struct fabric_crossing *crossing)
{
    (void)ctx;
    for (uint32_t i = 0; i < fixture.ends; i++)
        if (fixture.end[i].cable == crossing->cable && fixture.end[i].replay.kept)
            return &fixture.end[i].replay;
    return NULL;
}

/* The earliest event that the remote host has sent since the last window. */
static uint64_t *remote_first_ps(void)
{
    if (fixture.window_ps != fixture.dev.worker->now_ps)
        fixture.first_ps = EMU_NEVER;
    fixture.window_ps = fixture.dev.worker->now_ps;
    return &fixture.first_ps;
}

/* The remote host announces that event, as emu/hostlink/virtual.c requires. */
static void remote_agree(void *ctx, uint64_t *next_ps)
{
    uint64_t first_ps = *remote_first_ps();

    (void)ctx;
    if (first_ps < *next_ps)
        *next_ps = first_ps;
}

static const struct fabric_crossing_ops remote_ops = {.devices = 1,
                                                      .create = remote_create,
                                                      .join = remote_join,
                                                      .destroy = remote_destroy,
                                                      .held = remote_held,
                                                      .replay = remote_replay,
                                                      .agree = remote_agree};

static uint64_t now_ps(void)
{
    return fixture.dev.timed ? fixture.dev.worker->now_ps : 0;
}

/* Return when something that the remote host sends now arrives. */
static uint64_t arrival_ps(void)
{
    uint64_t at_ps = now_ps() + fixture.dev.timed;

    if (is_virtual() && at_ps < *remote_first_ps())
        fixture.first_ps = at_ps;
    return at_ps;
}

/* Parse a record, and pass it to the switch if a host link would accept it. */
static void remote_send(struct remote_end *end, const uint8_t *bytes, uint32_t count)
{
    const struct fabric_config *config = &fixture.fabric->config;
    struct emu_pool_cache *cache = &fixture.dev.worker->cache;
    struct emu_hostlink_record record;
    struct emu_entry entry;
    uint32_t buf = EMU_NO_BUF;

    if (!hostlink_entry_parse(bytes, count, 1, &record) ||
        !hostlink_entry_is_sane(&record, &config->profile, NODES, is_virtual()))
        return;
    if (!fixture.channels)
        emu_tx_take_credits(&end->tx);
    if (fixture.channels ? !emu_tx_has_slot(&end->tx) : !end->tx.credits)
        return;
    if (record.has_buf && (buf = emu_pool_take(cache)) == EMU_NO_BUF)
        return;
    hostlink_entry_of(&record, cache->pool, buf, &entry);
    entry.time_ps = arrival_ps();
    emu_tx_send(&end->tx, &entry);
    emu_tx_flush(&end->tx);
}

static void remote_send_record(struct remote_end *end, const struct emu_hostlink_record *record)
{
    uint8_t bytes[EMU_HOSTLINK_ENTRY_MOST];

    hostlink_entry_write(bytes, record);
    remote_send(end, bytes, hostlink_entry_bytes(record));
}

/* Take all entries that have arrived and return their credits; acknowledge complete packets. */
static void remote_take(struct remote_end *end)
{
    const struct emu_entry *entry;
    uint32_t taken = 0;

    while ((entry = emu_rx_front(&end->rx, EMU_NEVER)) != NULL) {
        struct emu_hostlink_record reply = {.kind = EMU_HOSTLINK_ENTRY};
        bool segment = hostlink_is_segment(&entry->hdr, fixture.channels);

        reply.entry.packet = (struct emu_packet_hdr){.tag = entry->packet.tag,
                                                     .kind = EMU_PACKET_ACK,
                                                     .wire = EMU_REPLY_BYTES - 1,
                                                     .channel = entry->packet.channel % EMU_VCS,
                                                     .last = 1};
        if (fixture.channels && segment)
            emu_rx_pay_channel(&end->rx, reply.entry.packet.channel, arrival_ps());
        if (fixture.channels && segment && entry->packet.last)
            remote_send_record(end, &reply);
        emu_pool_drop(&fixture.dev.worker->cache, entry->buf);
        emu_rx_skip(&end->rx);
        taken++;
    }
    if (!taken)
        return;
    emu_rx_done(&end->rx, taken);
    if (fixture.channels)
        return;
    end->rx.owed = (uint16_t)taken;
    emu_rx_pay(&end->rx, &fixture.dev, arrival_ps());
}

/* --- nodes here on clock virtual -------------------------------------------- */

static uint32_t inside_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct inside_node *node = (struct inside_node *)dev;
    const struct emu_entry *entry;
    uint64_t next_ps = EMU_NEVER;

    emu_dev_take(dev, EMU_EVENT_DATA);
    emu_dev_take(dev, EMU_EVENT_CREDIT);
    while ((entry = emu_rx_front(&node->rx, EMU_NEVER)) && entry->time_ps <= until_ps) {
        uint64_t at_ps = entry->time_ps + node->tx.profile->credit_ps;

        emu_pool_drop(&dev->worker->cache, entry->buf);
        emu_rx_skip(&node->rx);
        node->rx.owed = 1;
        emu_rx_pay(&node->rx, dev, at_ps);
        emu_rx_done(&node->rx, 1);
    }
    while (node->posts) {
        next_ps = emu_tx_earliest_ps(&node->tx, until_ps);
        if (next_ps > until_ps)
            break;
        emu_tx_depart(&node->tx, &node->post, next_ps);
        next_ps = EMU_NEVER;
        node->post.hdr.seq++;
        node->posts--;
    }
    emu_tx_flush(&node->tx);
    dev->next_ps = entry && entry->time_ps < next_ps ? entry->time_ps : next_ps;
    return 0;
}

static int inside_create(void *ctx, uint32_t n, struct emu_worker *worker, struct emu_dev **dev,
                         struct emu_tx **tx, struct emu_rx **rx)
{
    struct inside_node *node = emu_zeros(sizeof *node);

    (void)ctx;
    if (!node)
        return -1;
    fixture.inside[n] = node;
    emu_dev_init(&node->dev, worker, inside_step);
    node->dev.next_ps = EMU_NEVER;
    *dev = &node->dev;
    *tx = &node->tx;
    *rx = &node->rx;
    return 0;
}

static const struct fabric_node_ops inside_ops = {.create = inside_create};

static void inside_free(void)
{
    for (uint32_t n = 0; n < NODES; n++) {
        if (fixture.inside[n])
            emu_link_unjoin(&fixture.inside[n]->tx);
        free(fixture.inside[n]);
    }
}

/* Only unicasts: a well-behaved node counts its contributions to a group. */
static void inside_post(struct inside_node *node, const struct emu_hdr *hdr, uint32_t times)
{
    node->post = (struct emu_entry){.hdr = {.dst = hdr->dst % NODES,
                                            .src = hdr->src,
                                            .seq = hdr->seq,
                                            .len = hdr->len <= EMU_PAYLOAD_BYTES ? hdr->len : 0},
                                    .buf = EMU_NO_BUF};
    node->posts = times;
    emu_dev_wake(&node->dev, now_ps() + 1);
}

/* --- processes of this host --------------------------------------------------- */

static struct emu_hostif_shared *shared_of(uint32_t node)
{
    return fixture.fabric->hostif[node]->shared;
}

static void post(uint32_t node, const struct emu_seg *seg)
{
    struct emu_hostif_shared *shared = shared_of(node);
    uint32_t tail = atomic_load_explicit(&shared->up_tail, memory_order_relaxed);
    uint32_t at = emu_hostif_slot_at(tail, atomic_load(&shared->up_shift));

    if (tail - atomic_load_explicit(&shared->up_head, memory_order_acquire) >= EMU_HOSTIF_SLOTS)
        return;
    memcpy(&shared->up[at].seg, seg, sizeof *seg);
    shared->up_ps[at] = (fuzz_now_ns - shared->origin_ns) * 1000u;
    atomic_store_explicit(&shared->up_tail, tail + 1, memory_order_release);
}

/*
 * Take the segments of a process on this host. All must be segments that a well-behaved process, or
 * the receiver's own adapter, could have sent.
 */
static void take(uint32_t node)
{
    struct emu_hostif_shared *shared = shared_of(node);
    uint32_t head = atomic_load_explicit(&shared->down_head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(&shared->down_tail, memory_order_acquire);

    for (; head != tail; head++) {
        uint32_t at = emu_hostif_slot_at(head, atomic_load(&shared->down_shift));
        const struct emu_hdr *hdr = &shared->down[at].seg.hdr;

        fuzz_must(shared->down_mcast_ref[at] ||
                      (hdr->len <= EMU_PAYLOAD_BYTES && hdr->src < 2 * NODES),
                  "a process receives only segments that a process could have sent");
    }
    atomic_store_explicit(&shared->down_head, head, memory_order_release);
}

static void pass(void)
{
    if (is_virtual()) {
        fixture.until_ps = now_ps() > fixture.until_ps ? now_ps() : fixture.until_ps;
        fixture.until_ps += WINDOW_PS;
        fabric_advance(fixture.fabric, fixture.until_ps);
    } else {
        emu_worker_pass(fixture.fabric->worker[0]);
    }
    for (uint32_t n = 0; n < HERE && !is_virtual(); n++)
        take(n);
    for (uint32_t i = 0; i < fixture.ends; i++)
        remote_take(&fixture.end[i]);
}

static void check_bufs(void)
{
    char error[256];

    fuzz_must(fabric_check_bufs(fixture.fabric, error, sizeof error) == 0, error);
}

/* --- commands ---------------------------------------------------------- */

static struct remote_end *read_end(struct fuzz_input *in)
{
    return &fixture.end[fuzz_u8(in) % fixture.ends];
}

/* Read the number of a node or group, or any number. */
static uint32_t read_dst(struct fuzz_input *in)
{
    uint8_t dst = fuzz_u8(in);

    if (dst < 8)
        return dst;
    return dst < 8 + GROUPS ? fixture.group[dst - 8] : fuzz_u32(in);
}

static void read_hdr(struct fuzz_input *in, struct emu_hdr *hdr)
{
    hdr->kind = fuzz_u8(in);
    hdr->op = fuzz_u8(in);
    hdr->type = fuzz_u8(in);
    hdr->len = fuzz_u8(in);
    hdr->seq = (uint32_t)(int8_t)fuzz_u8(in);
}

static void do_entry(struct fuzz_input *in)
{
    static const uint8_t payload[EMU_PAYLOAD_BYTES];
    struct remote_end *end = read_end(in);
    struct emu_hostlink_record record = {.kind = EMU_HOSTLINK_ENTRY};
    struct emu_hdr *hdr = &record.entry.hdr;

    hdr->dst = read_dst(in);
    hdr->src = fuzz_u8(in);
    read_hdr(in, hdr);
    record.entry.crc = fuzz_u8(in);
    record.has_buf = hdr->len;
    record.payload = payload;
    record.payload_bytes = hdr->len < EMU_PAYLOAD_BYTES ? hdr->len : EMU_PAYLOAD_BYTES;
    remote_send_record(end, &record);
}

/* Make a packet of these segments of a process, with a new number and a valid CRC-32. */
struct made {
    struct emu_head head;
    uint32_t tag, crc, segs, count;
    struct emu_seg seg[CARRIED];
};

static void made_send(struct remote_end *end, const struct made *made)
{
    for (uint32_t s = 0; s < made->segs; s++) {
        bool last = s + 1 == made->segs;
        struct emu_cont cont = {.channel = made->head.channel,
                                .priority = made->head.priority,
                                .index = (uint8_t)s,
                                .last = last};
        struct emu_hostlink_record record = {.kind = EMU_HOSTLINK_ENTRY, .entry.crc = made->crc};
        struct emu_packet_hdr *hdr = &record.entry.packet;

        *hdr =
            (struct emu_packet_hdr){.tag = made->tag,
                                    .kind = s ? EMU_PACKET_CONT : EMU_PACKET_HEAD,
                                    .wire =
                                        (uint8_t)(emu_packet_wire_bytes(made->head.bytes, s) - 1),
                                    .channel = made->head.channel,
                                    .last = last};
        if (s)
            hdr->cont = emu_cont_pack(&cont);
        else
            hdr->head = emu_head_pack(&made->head);
        if (s < made->count) {
            uint32_t len = made->seg[s].hdr.len;

            record.has_buf = true;
            record.own_hdr = (const uint8_t *)&made->seg[s].hdr;
            record.payload = made->seg[s].payload;
            record.payload_bytes = len < EMU_PAYLOAD_BYTES ? len : EMU_PAYLOAD_BYTES;
        }
        remote_send_record(end, &record);
    }
}

static void do_packet(struct fuzz_input *in)
{
    struct remote_end *end = read_end(in);
    struct made made = {.count = 0};
    uint32_t dst = read_dst(in), src = fuzz_u8(in), bytes = 0, crc = 0;
    uint8_t how = fuzz_u8(in);

    if (!fixture.channels)
        return;
    made.count = 1 + how % CARRIED;
    for (uint32_t s = 0; s < made.count; s++) {
        struct emu_hdr *hdr = &made.seg[s].hdr;

        hdr->dst = dst;
        hdr->src = src;
        read_hdr(in, hdr);
        if (hdr->kind == EMU_TEST)
            fuzz_bytes(in, made.seg[s].payload, sizeof(struct emu_word));
        crc = emu_crc32(crc, hdr,
                        engine_seg_there(hdr) < EMU_SEG_BYTES ? engine_seg_there(hdr)
                                                              : EMU_SEG_BYTES);
        bytes += engine_seg_bytes(hdr);
    }
    made.head = (struct emu_head){.channel = (uint8_t)(fixture.packets %
                                                       fixture.fabric->config.profile.channels),
                                  .priority = how >> 4 & 3,
                                  .group = how >> 6 & 1,
                                  .more = how >> 7,
                                  .dst = (uint16_t)dst,
                                  .bytes = (uint16_t)bytes};
    if (how >> 2 & 1) /* as a contribution to a group, which is addressed to a node */
        made.head.dst = (how >> 3 & 1);
    made.segs = emu_packet_segments(bytes);
    made.tag = (++fixture.packets << ENGINE_TRY_BITS | 1) ^
               engine_flow_key(src, made.head.group ? dst : made.head.dst, made.head.group);
    made.crc = engine_crc(crc, made.tag, made.head.dst, made.head.group, 0);
    made_send(end, &made);
}

static void do_bytes(struct fuzz_input *in)
{
    struct remote_end *end = read_end(in);
    uint8_t bytes[EMU_HOSTLINK_ENTRY_MOST] = {EMU_HOSTLINK_ENTRY};
    uint32_t count = fuzz_u8(in);

    count = (uint32_t)fuzz_bytes(in, bytes + 1, count);
    remote_send(end, bytes,
                sizeof bytes < EMU_HOSTLINK_ENTRY_BYTES + count ? (uint32_t)sizeof bytes
                                                                : count + 1);
}

static void do_post(struct fuzz_input *in)
{
    uint32_t node = fuzz_u8(in) % HERE, times = 1 + fuzz_u8(in) % 64;
    struct emu_seg seg = {.hdr.dst = read_dst(in)};

    read_hdr(in, &seg.hdr);
    seg.hdr.src = is_virtual() ? node : 0;
    if (is_virtual())
        inside_post(fixture.inside[node], &seg.hdr, times);
    for (; times && !is_virtual(); times--) {
        post(node, &seg);
        seg.hdr.seq++;
    }
}

static void do_group(struct fuzz_input *in)
{
    uint8_t members = fuzz_u8(in);
    uint32_t *group = &fixture.group[fixture.groups % GROUPS];
    uint32_t nodes[NODES], count = 0;
    char error[256];
    int err;

    for (uint32_t n = 0; n < NODES; n++)
        if (members >> n & 1)
            nodes[count++] = n;
    err = members & 128
              ? fabric_group_create_wide(fixture.fabric, nodes, count, group, error, sizeof error)
              : fabric_group_create(fixture.fabric, nodes, count, group, error, sizeof error);
    fixture.groups += !err;
}

static void ignore_treeless(void *ctx, uint32_t group)
{
    (void)ctx;
    (void)group;
}

static void do_link(struct fuzz_input *in)
{
    struct fabric *fabric = fixture.fabric;
    uint32_t count = fabric_cable_count(fabric), cable = fuzz_u8(in) % count, hit;
    uint8_t how = fuzz_u8(in);
    uint64_t partitioned;
    bool routed[64];

    if (!fabric_has_links(fabric) || is_virtual() ||
        count > 64) /* traffic runs on hosts have no faults */
        return;
    fabric_pause(fabric);
    fabric_link_set(fabric, cable, how & 1, 0, now_ps(), &hit);
    fabric_resume(fabric);
    for (uint32_t i = 0; i < count; i++)
        routed[i] = !fabric_link_is_out(fabric, i);
    if (how & 2)
        fabric_reroute(fabric, routed, now_ps(), &partitioned, ignore_treeless, NULL);
    fabric_assume_reachable(fabric, how & 8);
    fabric_drop_unreachable(fabric, how & 16);
    if (how & 4)
        fabric_reroute_in_flight_all(fabric, now_ps());
}

static void do_command(struct fuzz_input *in)
{
    uint32_t group;
    uint64_t by;

    switch (fuzz_u8(in) % COMMANDS) {
    case ENTRY:
        do_entry(in);
        break;
    case PACKET:
        do_packet(in);
        break;
    case BYTES:
        do_bytes(in);
        break;
    case POST:
        do_post(in);
        break;
    case PASS:
        for (uint32_t left = 1 + fuzz_u8(in) % 64; left; left--)
            pass();
        check_bufs();
        break;
    case GROUP:
        do_group(in);
        break;
    case LEAVE:
        group = fixture.group[fuzz_u8(in) % GROUPS];
        fabric_group_leave(fixture.fabric, group, fuzz_u8(in) % NODES);
        break;
    case LINK:
        do_link(in);
        break;
    default:
        by = UINT64_C(1) << fuzz_u8(in) % 40;
        fixture.until_ps += by;
        fuzz_now_ns += by;
    }
}

/* --- create and destroy ------------------------------------------------------ */

static struct topo_graph *start(uint8_t which, uint32_t *of)
{
    const struct machine *machine = &machines[which % (sizeof machines / sizeof machines[0])];
    struct fabric_config config = {.name = "fuzz",
                                   .clock = machine->clock,
                                   .threads = 1,
                                   .start_stopped = true};
    struct topo_graph *graph;
    char error[256];

    fuzz_must(topo_parse(&graph, "kary:2,2", error, sizeof error) == 0, error);
    fuzz_must(emu_profile_load(&config.profile, machine->profile, error, sizeof error) == 0, error);
    for (unsigned i = 0; i < 3 && machine->set[i]; i++)
        fuzz_must(emu_profile_set(&config.profile, machine->set[i], error, sizeof error) == 0,
                  error);
    for (uint32_t s = 0; s < graph->switches; s++)
        of[s] = s % 2;
    for (uint32_t n = 0; n < NODES; n++)
        of[graph->node[n].link[0].sw] = n / HERE;
    config.graph = graph;
    if (machine->clock == EMU_CLOCK_VIRTUAL)
        config.local_nodes = &inside_ops;
    fixture = (struct fixture){.channels = emu_profile_acknowledged(&config.profile),
                               .first_ps = EMU_NEVER};
    fixture.hosts = (struct fabric_hosts){.count = 2, .of = of, .ops = &remote_ops};
    config.hosts = &fixture.hosts;
    fuzz_now_ns = 1000000000000u;
    fuzz_must(fabric_start(&fixture.fabric, &config, error, sizeof error) == 0, error);
    return graph;
}

static void attach(uint32_t node)
{
    struct fabric_attachment incarnation;

    fuzz_must(fabric_attach(fixture.fabric, node, &incarnation) == 0, "a process can attach");
    fabric_attachment_close(&incarnation);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fuzz_input in = {.at = data, .left = bytes};
    uint32_t of[16];
    struct topo_graph *graph = start(fuzz_u8(&in), of);

    for (uint32_t n = 0; n < HERE && !is_virtual(); n++)
        attach(n);
    while (in.left)
        do_command(&in);
    for (uint32_t i = 0; i < END_PASSES; i++, fuzz_now_ns += STEP_NS)
        pass();
    check_bufs();
    for (uint32_t n = 0; n < HERE && !is_virtual(); n++)
        fabric_detach(fixture.fabric, n);
    fabric_stop(fixture.fabric);
    inside_free();
    topo_free(graph);
    return 0;
}
