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
 * Nodes 0 and 1 are on this host, and their processes are well-behaved. A process may receive only
 * segments that another process could have sent, and every allocated buffer must have an owner.
 */
#include <stdlib.h>
#include <string.h>

#include "apps/audit/audit.h"
#include "apps/fabric/internal.h"
#include "emu/hostlink/entry.h"
#include "emu/link/channels.h"
#include "nic/engine/internal.h"
#include "tests/fuzz/fuzz.h"

#define NODES      4u
#define HERE       2u /* number of nodes on this host: 0 and 1 */
#define GROUPS     4u
#define CABLES     8u /* limit of cables between the hosts */
#define CARRIED    4u /* limit of the segments of a process in one packet */
#define END_PASSES 200u
#define STEP_NS    1000000u

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
    COMMANDS
};

/* The other host's end of a cable. */
struct remote_end {
    struct emu_tx tx;
    struct emu_rx rx;
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
} fixture;

/* --- a host link controlled by the input ---------------------------------------------- */

static uint32_t remote_step(struct emu_dev *dev, uint64_t until_ps)
{
    (void)until_ps;
    emu_dev_take(dev, EMU_EVENT_DATA);
    emu_dev_take(dev, EMU_EVENT_CREDIT);
    if (dev->timed)
        dev->next_ps = EMU_NEVER;
    else
        emu_dev_poll_within(dev, EMU_NEVER);
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
    (void)crossing;
    fuzz_must(fixture.ends <= CABLES, "at most CABLES cables connect the hosts");
    err =
        emu_link_join(here->tx, here->dev, here->port, &end->rx, &fixture.dev, 0, credits, profile);
    return err ? err
               : emu_link_join(&end->tx, &fixture.dev, 0, here->rx, here->dev, here->port, credits,
                               profile);
}

static void remote_destroy(void *ctx)
{
    (void)ctx;
    while (fixture.ends)
        emu_link_unjoin(&fixture.end[--fixture.ends].tx);
}

static uint64_t remote_held(void *ctx)
{
    uint64_t held = 0;

    (void)ctx;
    for (uint32_t i = 0; i < fixture.ends; i++)
        held += emu_link_bufs(&fixture.end[i].rx);
    return held;
}

static const struct fabric_crossing_ops remote_ops = {.devices = 1,
                                                      .create = remote_create,
                                                      .join = remote_join,
                                                      .destroy = remote_destroy,
                                                      .held = remote_held};

static uint64_t now_ps(void)
{
    return fixture.dev.timed ? fixture.dev.worker->now_ps : 0;
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
        !hostlink_entry_is_sane(&record, &config->profile, NODES, false))
        return;
    if (!fixture.channels)
        emu_tx_take_credits(&end->tx);
    if (fixture.channels ? !emu_tx_has_slot(&end->tx) : !end->tx.credits)
        return;
    if (record.has_buf && (buf = emu_pool_take(cache)) == EMU_NO_BUF)
        return;
    hostlink_entry_of(&record, cache->pool, buf, &entry);
    entry.time_ps = now_ps() + fixture.dev.timed;
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
            emu_rx_pay_channel(&end->rx, reply.entry.packet.channel, now_ps());
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
    emu_rx_pay(&end->rx, &fixture.dev, now_ps());
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

        fuzz_must(shared->down_on[at] || (hdr->len <= EMU_PAYLOAD_BYTES && hdr->src < 2 * NODES),
                  "a process receives only segments that a process could have sent");
    }
    atomic_store_explicit(&shared->down_head, head, memory_order_release);
}

static void pass(void)
{
    emu_worker_pass(fixture.fabric->worker[0]);
    for (uint32_t n = 0; n < HERE; n++)
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
    for (; times; times--) {
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

static void do_command(struct fuzz_input *in)
{
    uint32_t group;

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
    default:
        fuzz_now_ns += UINT64_C(1) << fuzz_u8(in) % 40;
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
    fixture = (struct fixture){.channels = emu_profile_acknowledged(&config.profile)};
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

    for (uint32_t n = 0; n < HERE; n++)
        attach(n);
    while (in.left)
        do_command(&in);
    for (uint32_t i = 0; i < END_PASSES; i++, fuzz_now_ns += STEP_NS)
        pass();
    check_bufs();
    for (uint32_t n = 0; n < HERE; n++)
        fabric_detach(fixture.fabric, n);
    fabric_stop(fixture.fabric);
    topo_free(graph);
    return 0;
}
