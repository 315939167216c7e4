/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packet_run_test.c - streams of full segments through the engine on clock raw: how they are
 * grouped into packets, delivered, combined, and kept until they are acknowledged.
 *
 * The test steps the devices one by one, so that it can inspect or corrupt a packet on its last
 * cable.
 */
#include <string.h>

#include "emu/fault/log.h"
#include "nic/engine/internal.h"
#include "switch/common/base.h"
#include "tests/test.h"
#include "tests/fixtures/hostifs.h"

#define FULL_BYTES 1024u /* payload of a full packet: four full segments, in five on the wire */
#define SEGS       5u
#define MOST       64u

struct fixture {
    struct hostifs hostifs;
    struct engine *from, *to;  /* of nodes 0 and 1 */
    struct engine_link *cable; /* the last cable to node 1 */
};

/* Select the direction from @from to @to for the helpers below. */
static void fixture_observe(struct fixture *w, uint32_t from, uint32_t to)
{
    w->from = fabric_engine(w->hostifs.fabric, from);
    w->to = fabric_engine(w->hostifs.fabric, to);
    w->cable = w->to->link;
}

/* @set: a profile setting; NULL: packets of four segments. */
static void fixture_open(struct fixture *w, const char *set)
{
    struct fabric_config config = {.name = "whole",
                                   .clock = EMU_CLOCK_RAW,
                                   .threads = 1,
                                   .seed = test_seed(),
                                   .start_stopped = true};

    fixture_profile(&config.profile, "qsnet3", set ? set : "packet_bytes=1024");
    hostifs_open(&w->hostifs, "kary:4,1", &config);
    fixture_observe(w, 0, 1);
}

static void fixture_close(struct fixture *w)
{
    CU_ASSERT_TRUE(fixture_fabric_holds(w->hostifs.fabric, 0));
    hostifs_close(&w->hostifs);
}

/* The sending engine polls its host interface and sends. */
static void step_from(struct fixture *w)
{
    w->from->host.in_ps = 0;
    w->from->dev.step(&w->from->dev, 0);
}

/* The switch polls the cable from the sending engine and sends. */
static void step_switch(struct fixture *w)
{
    struct switch_dev *sw = w->hostifs.fabric->sw[0];

    for (uint32_t p = 0; p < sw->ports; p++)
        switch_more(sw, p);
    sw->dev.step(&sw->dev, 0);
}

/* The receiving engine takes all entries on its cable, once. */
static void step_to(struct fixture *w)
{
    emu_dev_signal(&w->to->dev, w->to->dev.worker, EMU_EVENT_DATA, 1);
    w->to->dev.step(&w->to->dev, 0);
}

/* Run until nothing moves. */
static void settle(struct fixture *w)
{
    uint32_t quiet = 0;

    while (quiet < 4)
        quiet = fixture_fabric_pass(w->hostifs.fabric) ? 0 : quiet + 1;
}

static void fill(uint8_t *payload, uint32_t number)
{
    for (uint32_t i = 0; i < EMU_PAYLOAD_BYTES; i++)
        payload[i] = (uint8_t)(number * 31 + i * 7);
}

/* Post segment @number of @node to @dst, with @len bytes. */
static void post_from(struct fixture *w, uint32_t node, uint32_t dst, uint32_t number, uint8_t len)
{
    struct emu_hdr hdr = {.dst = dst, .seq = number, .kind = EMU_UNICAST, .len = len};
    uint8_t payload[EMU_PAYLOAD_BYTES];

    fill(payload, number);
    CU_ASSERT_TRUE_FATAL(hostifs_post(&w->hostifs, node, &hdr, payload));
}

static void post(struct fixture *w, uint32_t dst, uint32_t number, uint8_t len)
{
    post_from(w, 0, dst, number, len);
}

/* Post full segments to node 1, numbered from @from on. */
static void post_stream(struct fixture *w, uint32_t from, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        post(w, 1, from + i, EMU_PAYLOAD_BYTES);
}

/* Did node 1 receive exactly these segments, in order? */
static bool received(struct fixture *w, uint32_t from, uint32_t count)
{
    uint8_t payload[EMU_PAYLOAD_BYTES];
    struct emu_seg seg;

    for (uint32_t i = 0; i < count; i++) {
        fill(payload, from + i);
        if (!hostifs_take(&w->hostifs, 1, &seg) || seg.hdr.seq != from + i || seg.hdr.src != 0 ||
            seg.hdr.kind != EMU_UNICAST || memcmp(seg.payload, payload, seg.hdr.len) != 0)
            return false;
    }
    return !hostifs_take(&w->hostifs, 1, &seg);
}

/* Bring all posted segments onto the cable to node 1. */
static void bring_posted(struct fixture *w)
{
    step_from(w);
    step_switch(w);
    CU_ASSERT_PTR_NOT_NULL_FATAL(emu_ring_front(&w->cable->rx.data));
}

/* The same for a packet of four segments, numbered from @from on. */
static void bring_packet(struct fixture *w, uint32_t from)
{
    post_stream(w, from, FULL_BYTES / EMU_SEG_BYTES);
    bring_posted(w);
}

static struct emu_entry *entry_at(const struct fixture *w, uint32_t index)
{
    struct emu_ring_end end = w->cable->rx.data;

    end.at += index;
    return emu_ring_slot(&end);
}

static struct emu_seg *seg_at(const struct fixture *w, uint32_t index)
{
    return emu_pool_seg(w->hostifs.fabric->pool, entry_at(w, index)->buf);
}

/* --- the sending end ---------------------------------------------------------------- */

/*
 * One pass sends as many whole packets as fit the remote end's pool, each with its CRC: @posts
 * segments make @packets.
 */
static void stream_by_packets(const char *set, uint32_t posts, uint32_t packets)
{
    struct fixture w;
    uint32_t bytes = 0;

    fixture_open(&w, set);
    post_stream(&w, 0, posts);
    step_from(&w);
    CU_ASSERT_EQUAL(emu_count_read(&w.from->counts.packets), packets);
    emu_each_bit (c, w.from->link->vcs.open) {
        const struct engine_packet *p = &w.from->send.packet[w.from->link->packet[c]];

        CU_ASSERT_EQUAL(p->state, ENGINE_AWAITING);
        CU_ASSERT_EQUAL(p->sent, p->segs);
        bytes += p->bytes;
        CU_ASSERT_EQUAL(p->crc, engine_payload_crc(w.from, p->buf, p->count));
    }
    CU_ASSERT_EQUAL(bytes, posts * EMU_SEG_BYTES);
    settle(&w);
    CU_ASSERT_TRUE(received(&w, 0, posts));
    CU_ASSERT_EQUAL(emu_count_read(&w.from->counts.acks), packets);
    fixture_close(&w);
}

static void stream__is_sent_in_packets(void)
{
    stream_by_packets("packet_bytes=1024", 10, 3);
    stream_by_packets("transport=acknowledged", 15, 1);
    stream_by_packets("transport=acknowledged", 90, 6); /* the whole pool */
    stream_by_packets("raw_packet_bytes=4096", 16, 1);
    stream_by_packets("raw_packet_bytes=4096 raw_pool_slots=16", 16, 1);
}

/*
 * An adapter keeps two segments for each packet it may have in flight; its host waits with further
 * ones.
 */
static void stream__waits_at_the_replay_limit(void)
{
    enum { POSTS = 900 };
    uint8_t got[POSTS] = {0};
    struct fixture w;
    struct emu_seg seg;
    uint32_t most;

    fixture_open(&w, "transport=acknowledged");
    most = w.from->send.most;
    CU_ASSERT_EQUAL(most, 2 * w.from->send.packets);
    CU_ASSERT_TRUE_FATAL(most + MOST < POSTS);
    post_stream(&w, 0, POSTS);
    for (uint32_t i = 0; i < POSTS; i++)
        step_from(&w);
    CU_ASSERT_TRUE(w.from->send.held >= most);
    CU_ASSERT_TRUE(w.from->send.held < most + 16);
    CU_ASSERT_TRUE(w.from->host.in_full);
    settle(&w);
    while (hostifs_take(&w.hostifs, 1, &seg)) /* packets in flight overtake each other */
        got[seg.hdr.seq]++;
    for (uint32_t i = 0; i < POSTS; i++)
        CU_ASSERT_EQUAL(got[i], 1);
    CU_ASSERT_EQUAL(w.from->send.held, 0);
    CU_ASSERT_FALSE(w.from->host.in_full);
    fixture_close(&w);
}

/*
 * A different segment ends a packet and is sent to its own destination, and the same holds for the
 * next one.
 */
static void stream__is_split_where_segments_differ(void)
{
    struct fixture w;
    struct emu_seg seg;

    fixture_open(&w, NULL);
    post_stream(&w, 0, 3);
    post(&w, 2, 100, EMU_PAYLOAD_BYTES);
    post_stream(&w, 3, 2);
    post(&w, 1, 5, EMU_PAYLOAD_BYTES - 1);
    post_stream(&w, 6, 5);
    post(&w, 1, 11, 0);
    settle(&w);
    CU_ASSERT_TRUE(hostifs_take(&w.hostifs, 2, &seg));
    CU_ASSERT_EQUAL(seg.hdr.seq, 100);
    CU_ASSERT_TRUE(hostifs_take(&w.hostifs, 1, &seg));
    CU_ASSERT_EQUAL(seg.hdr.seq, 11); /* small: it overtakes */
    CU_ASSERT_TRUE(received(&w, 0, 11));
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.broken), 0);
    fixture_close(&w);
}

/* Take @count posted segments from the host interface without sending any. */
static void take_posted(struct fixture *w, uint32_t count)
{
    engine_host_refresh(w->from);
    CU_ASSERT_EQUAL(engine_take_hostif(w->from, w->from->host.in.plug.plugged, count), count);
    emu_rx_done(&w->from->host.in, count);
    w->from->host.in.owed += (uint16_t)count;
    emu_rx_pay(&w->from->host.in, &w->from->dev, 0);
}

/* All @count segments were dropped and none was sent. */
static void gave_up(const struct fixture *w, uint32_t count)
{
    CU_ASSERT_EQUAL(emu_count_read(&w->from->counts.lost), count);
    CU_ASSERT_EQUAL(emu_count_read(&w->from->counts.packets), 0);
    CU_ASSERT_EQUAL(emu_count_read(&w->to->counts.received), 0);
}

/* Because the numbers would alias, the stream is dropped. */
static void stream__to_an_unreachable_node_is_dropped(void)
{
    struct fixture w;

    fixture_open(&w, NULL);
    w.from->send.flow[1].next += ENGINE_SPAN;
    post_stream(&w, 0, 9);
    settle(&w);
    gave_up(&w, 9);
    CU_ASSERT_TRUE(received(&w, 0, 0));
    fixture_close(&w);
}

/* A new process has attached: its segments never join a packet of the previous process. */
static void stream__of_another_process_is_a_new_packet(void)
{
    struct fixture w;

    fixture_open(&w, NULL);
    post_stream(&w, 0, 2);
    take_posted(&w, 2);
    hostifs_detach(&w.hostifs, 0);
    hostifs_attach(&w.hostifs, 0);
    post_stream(&w, 2, 2);
    take_posted(&w, 2);
    settle(&w);
    CU_ASSERT_EQUAL(emu_count_read(&w.from->counts.packets), 2);
    CU_ASSERT_EQUAL(emu_count_read(&w.from->counts.acks), 2);
    CU_ASSERT_TRUE(received(&w, 0, 4));
    fixture_close(&w);
}

/* --- the receiving end -------------------------------------------------------------- */

/* Write the CRC-32 that matches the entries now on the cable, @bytes of payload in all. */
static void seal(const struct fixture *w, uint32_t bytes)
{
    uint32_t crc = 0, last = emu_packet_segments(bytes) - 1;
    struct emu_head head = {0};

    for (uint32_t s = 0; s * EMU_SEG_BYTES < bytes; s++) {
        uint32_t left = bytes - s * EMU_SEG_BYTES;

        crc = emu_crc32(crc, seg_at(w, s), left < EMU_SEG_BYTES ? left : EMU_SEG_BYTES);
    }
    CU_ASSERT_TRUE_FATAL(emu_head_unpack(&head, entry_at(w, 0)->packet.head));
    entry_at(w, last)->crc = engine_crc(crc, entry_at(w, 0)->packet.tag, head.dst, head.group, 0);
}

/* A corrupted packet gets a NACK and is sent again. */
static void packet__corrupted_is_sent_again(void)
{
    struct fixture w;

    fixture_open(&w, NULL);
    bring_packet(&w, 0);
    entry_at(&w, SEGS - 1)->crc ^= 1;
    settle(&w);
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.broken), 1);
    for (uint32_t i = 0; i < 100000 && !emu_count_read(&w.from->counts.acks); i++)
        fixture_fabric_pass(w.hostifs.fabric);
    settle(&w);
    CU_ASSERT_EQUAL(emu_count_read(&w.from->counts.nacks), 1);
    CU_ASSERT_TRUE(received(&w, 0, 4));
    fixture_close(&w);
}

/*
 * Another host can send anything with a matching CRC-32. Segments that no host may post get a NACK
 * and are neither combined nor delivered.
 */
static void segment__invalid_is_refused(void)
{
    static const struct {
        uint8_t kind, op, type;
    } lies[] = {
        {EMU_UNICAST | EMU_FAILED, 0, 0},
        {EMU_SET, 0, 0},
        {EMU_TEST + 1, 0, 0},
        {EMU_BARRIER, 0, 0}, /* with a payload */
        {EMU_ALLREDUCE, 200, 200},
        {EMU_ALLREDUCE, EMU_OPS, EMU_I32},
        {EMU_REDUCE, EMU_SUM, EMU_TYPES},
        {EMU_REDUCE, EMU_BAND, EMU_F64},
        {EMU_REDUCE | EMU_NOTIFY, EMU_SUM, EMU_I32},
    };

    for (uint32_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        struct emu_hdr *hdr[SEGS - 1], was[SEGS - 1];
        struct fixture w;

        fixture_open(&w, NULL);
        bring_packet(&w, 0);
        for (uint32_t s = 0; s < SEGS - 1; s++) {
            hdr[s] = &seg_at(&w, s)->hdr;
            was[s] = *hdr[s];
            hdr[s]->kind = lies[i].kind;
        }
        hdr[1]->op = lies[i].op; /* in only one of the two */
        hdr[1]->type = lies[i].type;
        seal(&w, FULL_BYTES);
        settle(&w);
        CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.broken), 1);
        CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.received), 0);
        CU_ASSERT_TRUE(received(&w, 0, 0));
        for (uint32_t s = 0; s < SEGS - 1; s++)
            *hdr[s] = was[s]; /* the sender's copy is unchanged */
        for (uint32_t pass = 0; pass < 100000 && !emu_count_read(&w.from->counts.acks); pass++)
            fixture_fabric_pass(w.hostifs.fabric);
        settle(&w);
        CU_ASSERT_TRUE(received(&w, 0, 4));
        fixture_close(&w);
    }
}

/* Bring packets that no node sent, each with a new tag, on all channels in rotation. */
static void bring_heads(struct fixture *w, uint32_t from, uint32_t count)
{
    struct switch_dev *sw = w->hostifs.fabric->sw[0];
    struct emu_tx *tx = switch_tx(sw, w->cable->rx.peer.port);

    for (uint32_t i = from; i < from + count; i++) {
        struct emu_head head = {.channel = i % EMU_VCS, .dst = w->to->node, .bytes = 16};
        struct emu_entry entry = {.packet = {.head = emu_head_pack(&head),
                                             .tag = 1000 + i,
                                             .kind = EMU_PACKET_HEAD,
                                             .channel = head.channel,
                                             .last = 1},
                                  .buf = EMU_NO_BUF};

        emu_tx_send(tx, &entry);
    }
}

/*
 * A malicious host sends heads without end and takes no replies: replies wait for space in the
 * ring.
 */
static void replies__wait_for_space_in_the_ring(void)
{
    struct fixture w;
    uint32_t slots;

    fixture_open(&w, NULL);
    slots = w.cable->tx.data.mask + 1;
    for (uint32_t sent = 0; sent < 2 * slots; sent += EMU_VCS) {
        bring_heads(&w, sent, EMU_VCS);
        emu_dev_signal(&w.to->dev, w.to->dev.worker, EMU_EVENT_DATA, 1);
        w.to->dev.step(&w.to->dev, 0);
    }
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.broken), 2 * slots);
    CU_ASSERT_EQUAL(w.cable->tx.data.at, slots);
    CU_ASSERT_NOT_EQUAL(w.cable->replies, 0);
    step_switch(&w); /* the switch takes all entries */
    w.to->dev.step(&w.to->dev, 0);
    CU_ASSERT_EQUAL(w.cable->replies, 0);
    CU_ASSERT_EQUAL(w.cable->tx.data.at, slots + EMU_VCS);
    hostifs_close(&w.hostifs); /* their credits are not accounted for */
}

/* Half of the packet has arrived: it is left alone, since the rest may never arrive. */
static void packet__incomplete_is_left(void)
{
    struct fixture w;
    uint32_t channel;
    uint64_t stamp;

    fixture_open(&w, NULL);
    bring_packet(&w, 0);
    channel = entry_at(&w, 0)->packet.channel;
    stamp = atomic_load(&entry_at(&w, SEGS - 1)->stamp);
    atomic_store(&entry_at(&w, SEGS - 1)->stamp, 0);
    settle(&w);
    CU_ASSERT_TRUE(received(&w, 0, 0));
    CU_ASSERT_EQUAL(w.to->receive.incoming[channel].segs, SEGS - 1);
    atomic_store(&entry_at(&w, 0)->stamp, stamp); /* now the first entry */
    emu_dev_signal(&w.to->dev, w.to->dev.worker, EMU_EVENT_DATA, 1);
    settle(&w);
    CU_ASSERT_TRUE(received(&w, 0, 4));
    fixture_close(&w);
}

/* More segments than the host's ring holds: all arrive in order as space becomes free. */
static void host__full_gets_all_in_order(void)
{
    struct fixture w;
    struct emu_seg seg;
    uint32_t posted = 0, got = 0;
    uint64_t random = test_seed();

    fixture_open(&w, NULL);
    while (got < 2 * EMU_HOSTIF_SLOTS) {
        for (uint32_t i = 0; i < 64 && posted < 2 * EMU_HOSTIF_SLOTS && posted - got < 6000; i++)
            post(&w, 1, posted++, EMU_PAYLOAD_BYTES);
        for (uint32_t i = 0; i < 12; i++)
            fixture_fabric_pass(w.hostifs.fabric);
        if (posted - got < 5500 && posted < 2 * EMU_HOSTIF_SLOTS)
            continue;
        for (uint32_t some = emu_xorshift(&random) % 9; some && hostifs_take(&w.hostifs, 1, &seg);
             some--)
            CU_ASSERT_EQUAL_FATAL(seg.hdr.seq, got++);
    }
    settle(&w);
    CU_ASSERT_TRUE(received(&w, got, 0));
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.broken), 0);
    CU_ASSERT_EQUAL(emu_count_read(&w.from->counts.lost), 0);
    fixture_close(&w);
}

/*
 * A process that requests notices of the fate of its segments gets them; the receiving host does
 * not see the request.
 */
static void packet__requested_notices_are_delivered(void)
{
    const struct emu_hdr hdr = {.dst = 1,
                                .kind = EMU_UNICAST | EMU_NOTIFY,
                                .len = EMU_PAYLOAD_BYTES};
    uint8_t payload[EMU_PAYLOAD_BYTES];
    struct fixture w;
    struct emu_seg seg;

    fixture_open(&w, NULL);
    for (uint32_t i = 0; i < 4; i++) {
        struct emu_hdr own = hdr;

        own.seq = i;
        fill(payload, i);
        CU_ASSERT_TRUE_FATAL(hostifs_post(&w.hostifs, 0, &own, payload));
    }
    settle(&w);
    CU_ASSERT_TRUE(received(&w, 0, 4));
    for (uint32_t i = 0; i < 4; i++) {
        CU_ASSERT_TRUE(hostifs_take(&w.hostifs, 0, &seg));
        CU_ASSERT_EQUAL(seg.hdr.seq, i);
    }
    CU_ASSERT_FALSE(hostifs_take(&w.hostifs, 0, &seg));
    fixture_close(&w);
}

/* A duplicate number: the packet is acknowledged but not delivered. */
static void packet__duplicate_is_only_acknowledged(void)
{
    struct fixture w;
    struct engine_history *heard;

    fixture_open(&w, NULL);
    bring_packet(&w, 0);
    heard = &w.to->receive.history[0];
    heard->from = 1;
    heard->last = 0;
    memset(heard->seen, 0xff, sizeof heard->seen);
    settle(&w);
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.duplicates), 1);
    CU_ASSERT_EQUAL(emu_count_read(&w.from->counts.acks), 1);
    CU_ASSERT_TRUE(received(&w, 0, 0));
    CU_ASSERT_EQUAL(fixture_fabric_bufs_held(w.hostifs.fabric), 0);
    fixture_close(&w);
}

/* The process has gone: the packet is dropped, and its sender is not affected. */
static void packet__without_a_process_is_dropped(void)
{
    struct fixture w;

    fixture_open(&w, NULL);
    bring_packet(&w, 0);
    hostifs_detach(&w.hostifs, 1);
    settle(&w);
    CU_ASSERT_EQUAL(emu_count_read(&w.from->counts.acks), 1);
    CU_ASSERT_EQUAL(fixture_fabric_bufs_held(w.hostifs.fabric), 0);
    fixture_close(&w);
}

/* --- groups ------------------------------------------------------------------------- */

/* Create a group of the first two nodes, observed at node 1's unit. Returns its address. */
static uint32_t open_unit(struct fixture *w)
{
    fixture_open(w, "packet_bytes=1024 combining=switch");
    fixture_observe(w, 1, w->hostifs.nodes);
    return fixture_group_of_first(w->hostifs.fabric, 2);
}

/*
 * Create a group of the first @members nodes, combined at node 0 and observed from node 1. Returns
 * its address.
 */
static uint32_t open_tree(struct fixture *w, uint32_t members)
{
    fixture_open(w, NULL);
    fixture_observe(w, 1, 0);
    return fixture_group_of_first(w->hostifs.fabric, members);
}

/* Segment @number of @node for @group: a vector whose elements encode both. */
static void post_of(struct fixture *w, uint32_t node, uint32_t group, uint8_t kind, uint32_t number)
{
    struct emu_hdr hdr = {.dst = group,
                          .seq = number,
                          .kind = kind,
                          .len = kind == EMU_BARRIER ? 0 : EMU_PAYLOAD_BYTES,
                          .op = kind == EMU_MULTICAST ? 0 : EMU_SUM,
                          .type = kind == EMU_MULTICAST ? 0 : EMU_U64};
    uint64_t payload[EMU_PAYLOAD_BYTES / 8];

    for (uint32_t i = 0; i < EMU_PAYLOAD_BYTES / 8; i++)
        payload[i] = 1000 * number + node;
    CU_ASSERT_TRUE_FATAL(hostifs_post(&w->hostifs, node, &hdr, payload));
}

/* Segments 1 to 4 of @node for @group. */
static void post_four(struct fixture *w, uint32_t node, uint32_t group, uint8_t kind)
{
    for (uint32_t i = 1; i <= 4; i++)
        post_of(w, node, group, kind, i);
}

/* Did @node receive segments 1 to 4 of @group, with elements of @times * 1000 plus @value? */
static bool received_group(struct fixture *w, uint32_t node, uint32_t group, uint64_t times,
                           uint64_t value)
{
    struct emu_seg seg;
    uint64_t element;

    for (uint32_t i = 1; i <= 4; i++) {
        if (!hostifs_take(&w->hostifs, node, &seg) || seg.hdr.seq != i || seg.hdr.dst != group)
            return false;
        memcpy(&element, seg.payload + EMU_PAYLOAD_BYTES - 8, 8);
        if (element != times * 1000 * i + value)
            return false;
    }
    return !hostifs_take(&w->hostifs, node, &seg);
}

/* Post @posts contributions of @kind: one pass sends @packets packets, further passes the rest. */
static void contributions_leave(uint8_t kind, uint32_t posts, uint32_t packets)
{
    struct fixture w;
    uint32_t group;

    fixture_open(&w, "transport=acknowledged");
    group = fixture_group_of_first(w.hostifs.fabric, 4);
    fixture_observe(&w, 1, 0);
    for (uint32_t i = 1; i <= posts; i++)
        post_of(&w, 1, group, kind, i);
    step_from(&w);
    CU_ASSERT_EQUAL(emu_count_read(&w.from->counts.packets), packets);
    settle(&w);
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.contributions), posts);
    fixture_close(&w);
}

/*
 * Contributions use only half of a pool: the rest is for results, and for other senders to the same
 * node.
 */
static void contributions__leave_half_of_a_pool(void)
{
    contributions_leave(EMU_REDUCE, 15, 1);
    contributions_leave(EMU_REDUCE, 90, 3);
    contributions_leave(EMU_ALLREDUCE, 15, 1);
    contributions_leave(EMU_ALLREDUCE, 90, 3);
}

/* The adapter combines contributions to a reduction, whether or not its host has space. */
static void packet__of_contributions_is_combined(void)
{
    struct fixture w;
    uint32_t group;

    group = open_tree(&w, 4);
    post_four(&w, 1, group, EMU_REDUCE);
    bring_posted(&w);
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.contributions), 0);
    w.to->host.delivery.active = true;
    step_to(&w);
    w.to->host.delivery.active = false;
    settle(&w);
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.contributions), 4);
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.received), 1);
    CU_ASSERT_EQUAL(emu_count_read(&w.from->counts.acks), 1);
    post_four(&w, 0, group, EMU_REDUCE);
    post_four(&w, 2, group, EMU_REDUCE);
    settle(&w);
    CU_ASSERT_TRUE(received_group(&w, 3, group, 3, 3));
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.against), 0);
    fixture_close(&w);
}

/* Contributions to a group that all members have left are dropped and acknowledged. */
static void packet__of_contributions_to_no_group_is_dropped(void)
{
    struct fixture w;
    uint32_t group;

    group = open_tree(&w, 4);
    post_four(&w, 1, group, EMU_REDUCE);
    bring_posted(&w);
    engine_groups_clear(w.to, group);
    settle(&w);
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.contributions), 0);
    CU_ASSERT_EQUAL(emu_count_read(&w.from->counts.acks), 1);
    CU_ASSERT_EQUAL(fixture_fabric_bufs_held(w.hostifs.fabric), 0);
    hostifs_close(&w.hostifs); /* the fabric still counts the group that the test removed */
}

/* A multicast packet is delivered to each member's host. */
static void packet__to_a_group_is_delivered(void)
{
    struct fixture w;
    uint32_t nodes[4], group;

    fixture_open(&w, NULL);
    group = fixture_multicast(w.hostifs.fabric, nodes, fixture_nodes(nodes, 4));
    post_four(&w, 0, group, EMU_MULTICAST);
    bring_posted(&w);
    settle(&w);
    for (uint32_t n = 1; n < 4; n++)
        CU_ASSERT_TRUE(received_group(&w, n, group, 1, 0));
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.received), 1);
    CU_ASSERT_EQUAL(emu_count_read(&w.from->counts.acks), 1);
    fixture_close(&w);
}

/* The state of contribution @number at the engine @e. */
static struct engine_coll *state_of(struct engine *e, uint32_t group, uint32_t number)
{
    return engine_state(engine_group_of(e, group)->tree, number);
}

/* Make the engine @e forget that the first four contributions were made. */
static void forget_four(struct engine *e, uint32_t group)
{
    for (uint32_t i = 1; i <= 4; i++)
        state_of(e, group, i)->used = false;
    memset(engine_group_of(e, group)->tree->passed, 0,
           sizeof(struct engine_seq_range[ENGINE_PASSED_RANGES]));
}

/* A member contributes again, before there is a result and after it. */
static void contributions_made_twice(uint8_t kind)
{
    struct fixture w;
    uint32_t group;

    group = open_tree(&w, 4);
    /* for a member whose contributions are combined, and one whose contributions are forwarded */
    for (uint32_t i = 0; i < 2; i++) {
        post_four(&w, 0, group, kind);
        post_four(&w, 1, group, kind);
        settle(&w);
    }
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.against), 4);
    CU_ASSERT_EQUAL(emu_count_read(&w.from->counts.against), 4);
    forget_four(w.from, group); /* the member sends them again */
    post_four(&w, 1, group, kind);
    settle(&w);
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.against), 8);
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.contributions), 8);
    for (uint32_t n = 2; n < (kind == EMU_REDUCE ? 3u : 4u); n++)
        post_four(&w, n, group, kind);
    settle(&w);
    CU_ASSERT_TRUE(
        received_group(&w, 3, group, kind == EMU_REDUCE ? 3 : 4, kind == EMU_REDUCE ? 3 : 6));
    forget_four(w.from, group);
    post_four(&w, 0, group, kind); /* and again when the operation is over */
    post_four(&w, 1, group, kind);
    settle(&w);
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.against), 16);
    CU_ASSERT_EQUAL(state_of(w.to, group, 1)->have, 0);
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.results), 4);
    fixture_close(&w);
}

static void contributions__duplicate_count_once(void)
{
    contributions_made_twice(EMU_REDUCE);
    contributions_made_twice(EMU_ALLREDUCE);
}

/* Node 1's contributions from @from to @to, which it only forwards. */
static void post_row(struct fixture *w, uint32_t group, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i <= to; i++)
        post_of(w, 1, group, EMU_REDUCE, i);
    settle(w);
}

/* Contributions that an adapter only forwards need no state, and duplicates are still detected. */
static void contributions__forwarded_have_no_state(void)
{
    struct engine_group *of;
    struct fixture w;
    uint32_t group;

    group = open_tree(&w, 4);
    of = engine_group_of(w.from, group);
    post_row(&w, group, 1, 6);
    post_row(&w, group, 8, 9);   /* number 7 is a token */
    post_row(&w, group, 10, 13); /* to the same row */
    for (uint32_t i = 0; i <= 14; i++) {
        CU_ASSERT_EQUAL(engine_group_arrived(of, i), i != 0 && i != 7 && i != 14);
        CU_ASSERT_EQUAL(state_of(w.from, group, i)->used, false);
    }
    CU_ASSERT_EQUAL(emu_count_read(&w.from->counts.results), 12);
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.contributions), 12);
    post_row(&w, group, 3, 4); /* duplicates */
    post_row(&w, group, 9, 9);
    CU_ASSERT_EQUAL(emu_count_read(&w.from->counts.against), 3);
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.contributions), 12);
    CU_ASSERT_PTR_NULL(engine_group_check(of));
    CU_ASSERT_PTR_NULL(engine_group_check(engine_group_of(w.to, group)));
    CU_ASSERT_EQUAL(engine_group_of(w.to, group)->tree->open, 12);
    post_row(&w, group, 7, 7); /* later than its successors */
    for (uint32_t i = 1; i <= 13; i++)
        CU_ASSERT_TRUE(engine_group_arrived(of, i));
    fixture_close(&w);
}

/*
 * While a group has an open state, its contributions are not forwarded directly: mismatched
 * operations are detected.
 */
static void contributions__are_not_forwarded_past_a_state(void)
{
    struct fixture w;
    uint32_t group;

    group = open_unit(&w);
    post_of(&w, 0, group, EMU_ALLREDUCE, 1); /* waits for the other contribution */
    settle(&w);
    CU_ASSERT_EQUAL(engine_group_of(w.to, group)->tree->open, 1);
    post_of(&w, 1, group, EMU_REDUCE, 1);
    settle(&w);
    CU_ASSERT_PTR_NOT_NULL(engine_group_mismatch(engine_group_of(w.to, group)));
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.against), 1);
    fixture_close(&w);
}

/* A token of all members. */
static void post_token(struct fixture *w, uint32_t group, uint32_t number)
{
    struct emu_seg seg;

    for (uint32_t n = 0; n < 4; n++)
        post_of(w, n, group, EMU_BARRIER, number);
    settle(w);
    for (uint32_t n = 0; n < 4; n++)
        CU_ASSERT_TRUE(hostifs_take(&w->hostifs, n, &seg) && seg.hdr.seq == number);
}

/*
 * Numbers wrap after 2^32: an earlier operation with the same number, with or without a state, does
 * not make them duplicates.
 */
static void contributions__numbers_wrap(void)
{
    struct engine_group *of;
    struct fixture w;
    uint32_t group;

    group = open_tree(&w, 4);
    of = engine_group_of(w.from, group);
    post_row(&w, group, 1, 4);
    CU_ASSERT_TRUE(engine_group_arrived(of, 2));
    post_token(&w, group, 5);
    for (uint32_t i = 0; i < EMU_WINDOW; i++) {
        CU_ASSERT_EQUAL(engine_group_arrived(of, 2), i < 2);
        post_token(&w, group, 6 + (i << 24));
        CU_ASSERT_TRUE(engine_group_arrived(of, 6 + (i << 24)));
    }
    post_token(&w, group, 5);
    post_row(&w, group, 1, 4);
    CU_ASSERT_EQUAL(emu_count_read(&w.from->counts.against), 0);
    CU_ASSERT_EQUAL(emu_count_read(&w.from->counts.results), 8);
    fixture_close(&w);
}

/* The only packet in flight from the observed engine is unchanged. */
static bool sent_is_kept(const struct fixture *w)
{
    const struct engine_packet *p = &w->from->send.packet[w->from->send.awaiting.first];

    return w->from->send.awaiting.first != ENGINE_NONE && p->count == 4 &&
           p->crc == engine_payload_crc(w->from, p->buf, p->count);
}

/* Sent contributions may have to be retransmitted: nothing is combined into them. */
static void contributions__are_kept_by_their_sender(void)
{
    struct fixture w;
    uint32_t group;

    group = open_tree(&w, 4);
    post_four(&w, 1, group, EMU_REDUCE);
    bring_posted(&w);
    step_to(&w);
    CU_ASSERT_EQUAL(state_of(w.to, group, 1)->buf,
                    w.from->send.packet[w.from->send.awaiting.first].buf[0]);
    CU_ASSERT_TRUE(sent_is_kept(&w));
    post_four(&w, 0, group, EMU_REDUCE);
    w.to->host.in_ps = 0;
    w.to->dev.step(&w.to->dev, 0);
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.contributions), 8);
    CU_ASSERT_TRUE(sent_is_kept(&w));
    post_four(&w, 2, group, EMU_REDUCE);
    settle(&w);
    CU_ASSERT_TRUE(received_group(&w, 3, group, 3, 3));
    fixture_close(&w);
}

/* If there was nothing to combine, their header does not become that of a result, either. */
static void contributions__that_are_the_result_stay_unchanged(void)
{
    struct fixture w;
    uint32_t group;

    group = open_unit(&w);
    post_four(&w, 1, group, EMU_REDUCE);
    bring_posted(&w);
    CU_ASSERT_TRUE(sent_is_kept(&w));
    step_to(&w);
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.results), 4);
    CU_ASSERT_TRUE(sent_is_kept(&w));
    settle(&w);
    CU_ASSERT_TRUE(received_group(&w, 0, group, 1, 1));
    fixture_close(&w);
}

/* Contributions to a failed group are neither combined nor forwarded. */
static void contributions__to_a_failed_group_are_dropped(void)
{
    struct fixture w;
    struct emu_seg seg;
    uint32_t group;

    group = open_tree(&w, 4);
    engine_group_of(w.to, group)->tree->failed = true;
    for (uint32_t n = 0; n < 3; n++)
        post_four(&w, n, group, EMU_REDUCE);
    settle(&w);
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.contributions), 0);
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.results), 0);
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.against), 12);
    CU_ASSERT_EQUAL(emu_count_read(&w.from->counts.acks), 1);
    CU_ASSERT_TRUE(!hostifs_take(&w.hostifs, 3, &seg));
    fixture_close(&w);
}

/* A fault flips a bit in a combine state; it is detected at the next read. */
static void contributions__faults_are_detected(void)
{
    const struct emu_fault_rule rule = {.what = EMU_FAULT_FLIP_PAYLOAD,
                                        .rate = EMU_FAULT_ONE,
                                        .aim = {.packets = EMU_FAULT_ENTRIES,
                                                .kinds = EMU_FAULT_KINDS,
                                                .src = EMU_FAULT_ANY,
                                                .dst = EMU_FAULT_ANY,
                                                .group = EMU_FAULT_ANY}};
    struct emu_faults faults;
    struct fixture w;
    uint32_t group;

    group = open_tree(&w, 4);
    emu_faults_init(&faults, &(struct emu_fault_rates){0}, test_seed());
    faults.log = emu_fault_log_create();
    CU_ASSERT_PTR_NOT_NULL_FATAL(faults.log);
    CU_ASSERT_EQUAL_FATAL(emu_faults_add(&faults, &rule, 1, test_seed()), 0);
    engine_combine_faults(w.to, &faults);
    post_four(&w, 1, group, EMU_REDUCE);
    settle(&w);
    engine_combine_faults(w.to, NULL);
    CU_ASSERT_EQUAL(emu_faults_remove(&faults, 1), 4);
    emu_fault_log_destroy(faults.log);
    emu_faults_drop(&faults, engine_cache(w.to));
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.contributions), 4);
    fixture_close(&w);
}

/* A state with wrong parity is read by the next contribution but not by the first one. */
static void contributions__detect_a_corrupted_state(void)
{
    struct fixture w;
    uint32_t group;

    group = open_tree(&w, 4);
    for (uint32_t i = 1; i <= 4; i++)
        state_of(w.to, group, i)->flipped = true; /* its previous operation is over */
    post_four(&w, 1, group, EMU_REDUCE);
    settle(&w);
    post_four(&w, 0, group, EMU_REDUCE);
    settle(&w);
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.damaged), 0);
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.contributions), 8);
    state_of(w.to, group, 2)->flipped = true;
    post_four(&w, 2, group, EMU_REDUCE);
    settle(&w);
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.damaged), 1);
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.contributions), 9);
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.results), 1);
    CU_ASSERT_TRUE(engine_group_of(w.to, group)->tree->failed);
    fixture_close(&w);
}

static uint64_t element_of(const struct fixture *w, const struct engine_coll *state)
{
    uint64_t element;

    memcpy(&element, emu_pool_bytes(w->hostifs.fabric->pool, state->buf), sizeof element);
    return element;
}

/* A contribution without payload cannot be combined. */
static void contributions__without_payload_are_not_combined(void)
{
    struct fixture w;
    uint32_t group;

    group = open_tree(&w, 4);
    post_four(&w, 1, group, EMU_REDUCE);
    settle(&w);
    for (uint32_t i = 1; i <= 4; i++)
        engine_set_length_only(engine_hdr(w.to, state_of(w.to, group, i)->buf), true);
    post_four(&w, 0, group, EMU_REDUCE);
    settle(&w);
    for (uint32_t i = 1; i <= 4; i++) {
        struct engine_coll *state = state_of(w.to, group, i);

        CU_ASSERT_EQUAL(element_of(&w, state), 1000 * i + 1);
        engine_set_length_only(engine_hdr(w.to, state->buf), false);
    }
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.contributions), 8);
    post_four(&w, 2, group, EMU_REDUCE);
    settle(&w);
    CU_ASSERT_TRUE(received_group(&w, 3, group, 2, 3));
    fixture_close(&w);
}

/* The same for a group, and for forwarded contributions. */
static void group__unreachable_gets_no_packet(void)
{
    struct fixture w;
    uint32_t nodes[4], group;

    fixture_open(&w, NULL);
    group = fixture_multicast(w.hostifs.fabric, nodes, fixture_nodes(nodes, 4));
    engine_group_of(w.from, group)->flow.next += ENGINE_SPAN;
    post_four(&w, 0, group, EMU_MULTICAST);
    settle(&w);
    gave_up(&w, 4);
    fixture_close(&w);
}

static void parent__unreachable_gets_no_packet(void)
{
    struct fixture w;
    uint32_t group;

    group = open_tree(&w, 4);
    w.from->send.flow[0].next += ENGINE_SPAN;
    post_four(&w, 1, group, EMU_REDUCE);
    settle(&w);
    gave_up(&w, 4);
    CU_ASSERT_EQUAL(emu_count_read(&w.from->counts.results), 4);
    fixture_close(&w);
}

/* --- a full host -------------------------------------------------------------------- */

/* Is the engine registered as waiting for its observed host? */
static bool engine_host_waits(const struct fixture *w)
{
    const struct emu_hostif *hostif = w->hostifs.fabric->hostif[w->to->node];

    return hostif->blocked || atomic_load(&hostif->stuck) || w->to->host.delivery.active ||
           !engine_list_empty(&w->to->receive.complete);
}

/* Fill the observed host's ring to the last slot; nothing waits yet. */
static void fill_host(struct fixture *w)
{
    for (uint32_t i = 0; i < EMU_HOSTIF_SLOTS; i++) {
        post_from(w, w->from->node, w->to->node, i, EMU_PAYLOAD_BYTES);
        if (i % 16 == 15)
            settle(w);
    }
    settle(w);
    CU_ASSERT_FALSE(engine_host_waits(w));
}

/* The host reads all of it. A process detached after that had nothing left to answer. */
static void host_reads_all(struct fixture *w)
{
    uint32_t nodes[HOSTIFS_MAX], got = 0;
    struct emu_seg seg;

    CU_ASSERT_FALSE(engine_host_waits(w));
    while (hostifs_take(&w->hostifs, w->to->node, &seg))
        got++;
    CU_ASSERT_EQUAL(got, EMU_HOSTIF_SLOTS);
    settle(w);
    for (uint32_t tick = 0; tick < 10; tick++)
        CU_ASSERT_EQUAL(fabric_tick(w->hostifs.fabric, nodes, HOSTIFS_MAX), 0);
}

/* A packet that exactly fits the ring is delivered at once. */
static void packet__fills_the_last_slots(void)
{
    struct fixture w;

    fixture_open(&w, NULL);
    for (uint32_t i = 0; i < EMU_HOSTIF_SLOTS - 4; i++) {
        post(&w, 1, i, EMU_PAYLOAD_BYTES);
        if (i % 16 == 15)
            settle(&w);
    }
    settle(&w);
    bring_packet(&w, EMU_HOSTIF_SLOTS - 4);
    settle(&w);
    CU_ASSERT_TRUE(received(&w, 0, EMU_HOSTIF_SLOTS));
    fixture_close(&w);
}

/* A duplicate for a full host, from a sender that has not seen the acknowledgment. */
static void host__full_does_not_block_duplicates(void)
{
    struct fixture w;
    struct engine_history *heard;

    fixture_open(&w, NULL);
    fill_host(&w);
    bring_packet(&w, EMU_HOSTIF_SLOTS);
    heard = &w.to->receive.history[0];
    memset(heard->seen, 0xff, sizeof heard->seen);
    heard->last += EMU_HOSTIF_SLOTS;
    settle(&w);
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.duplicates), 1);
    host_reads_all(&w);
    fixture_close(&w);
}

/* Contributions are for the adapter: a full host does not block them. */
static void host__full_does_not_block_contributions(void)
{
    struct fixture w;
    uint32_t group;

    group = open_tree(&w, 4);
    fill_host(&w);
    post_of(&w, 1, group, EMU_REDUCE, 1);
    post_of(&w, 2, group, EMU_REDUCE, 1);
    settle(&w);
    CU_ASSERT_EQUAL(emu_count_read(&w.to->counts.contributions), 2);
    host_reads_all(&w);
    fixture_close(&w);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(stream__is_sent_in_packets),
        CASE(stream__waits_at_the_replay_limit),
        CASE(stream__is_split_where_segments_differ),
        CASE(stream__to_an_unreachable_node_is_dropped),
        CASE(stream__of_another_process_is_a_new_packet),
        CASE(packet__corrupted_is_sent_again),
        CASE(segment__invalid_is_refused),
        CASE(replies__wait_for_space_in_the_ring),
        CASE(packet__incomplete_is_left),
        CASE(host__full_gets_all_in_order),
        CASE(packet__requested_notices_are_delivered),
        CASE(packet__duplicate_is_only_acknowledged),
        CASE(packet__without_a_process_is_dropped),
        CASE(contributions__leave_half_of_a_pool),
        CASE(packet__of_contributions_is_combined),
        CASE(packet__of_contributions_to_no_group_is_dropped),
        CASE(packet__to_a_group_is_delivered),
        CASE(contributions__duplicate_count_once),
        CASE(contributions__forwarded_have_no_state),
        CASE(contributions__are_not_forwarded_past_a_state),
        CASE(contributions__numbers_wrap),
        CASE(contributions__are_kept_by_their_sender),
        CASE(contributions__that_are_the_result_stay_unchanged),
        CASE(contributions__to_a_failed_group_are_dropped),
        CASE(contributions__faults_are_detected),
        CASE(contributions__detect_a_corrupted_state),
        CASE(contributions__without_payload_are_not_combined),
        CASE(group__unreachable_gets_no_packet),
        CASE(parent__unreachable_gets_no_packet),
        CASE(packet__fills_the_last_slots),
        CASE(host__full_does_not_block_duplicates),
        CASE(host__full_does_not_block_contributions),
        {NULL, NULL},
    };

    return test_run("whole", cases);
}
