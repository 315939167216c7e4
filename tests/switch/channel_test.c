/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * channel_test.c - switches with virtual channels and acknowledgments: exact times, priorities,
 * replies, time-outs, faults, and invariants that hold at every moment.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "emu/link/tap_area.h"
#include "emu/worker/worker.h"
#include "switch/channel/stages.h"
#include "tests/test.h"
#include "tests/fixtures/switch/vcnet.h"

#define HOP_PS  60000u /* qsnet3: delay of a cable and a switch */
#define BYTE_PS 400u
#define WIRE_PS 102400u /* time of a full segment on the wire */
#define LONG_PS (UINT64_C(1) << 42)

/*
 * FABEMU_TEST_LONG=N multiplies the number of packets or rounds by N in the tests that call this.
 */
static uint32_t longer(uint32_t count)
{
    const char *text = getenv("FABEMU_TEST_LONG");
    unsigned long times = text ? strtoul(text, NULL, 0) : 1;

    return count * (uint32_t)(times ? times : 1);
}

static uint64_t wire_ps(uint32_t bytes, uint32_t segments)
{
    uint64_t sum = 0;

    for (uint32_t s = 0; s < segments; s++)
        sum += emu_packet_wire_bytes(bytes, s);
    return sum * BYTE_PS;
}

/* --- a row of switches -------------------------------------------------------------- */

/* Node 0, @count switches in a row joined by @cables cables each, node 1. */
struct row {
    struct vcnet w;
    struct topo_route route;
    uint64_t sets[2];
};

static void row_open(struct row *row, uint32_t count, uint32_t cables, const char *set)
{
    uint64_t left = ((uint64_t)1 << cables) - 1;

    vcnet_begin(&row->w, set, EMU_CLOCK_VIRTUAL, 1);
    row->sets[0] = left;
    row->sets[1] = left << cables;
    row->route = (struct topo_route){.span = 2, .stride = 1, .spread = 1, .sets = row->sets};
    for (uint32_t s = 0; s < count; s++)
        vcnet_switch(&row->w, 0, 2 * cables, &row->route);
    for (uint32_t s = 0; s + 1 < count; s++)
        for (uint32_t c = 0; c < cables; c++) {
            vcnet_cable(&row->w, s, cables + c, s + 1, c);
            vcnet_cable(&row->w, s + 1, c, s, cables + c);
        }
    vcnet_plug(&row->w, vcnet_node(&row->w, 0), row->w.sw[0], 0);
    vcnet_plug(&row->w, vcnet_node(&row->w, 0), row->w.sw[count - 1], 2 * cables - 1);
    vcnet_ready(&row->w);
}

/* --- random packets ----------------------------------------------------------------- */

/* Random packets of all nodes, one in @casts to a group. */
static void random_posts(struct vcnet *w, uint64_t *random, uint32_t packets, uint32_t broadcasts,
                         uint16_t broadcast_bytes, uint64_t within_ps)
{
    static const uint16_t sizes[] = {0, 24, 240, 241, 500, 1024, 1024, 2000, 4096};
    uint64_t at_ps = 0;

    for (uint32_t i = 0; i < packets; i++) {
        bool group = broadcasts && test_draw(random, 1, broadcasts) == 1;
        uint32_t src = (uint32_t)test_draw(random, 0, w->nodes - 1);
        uint16_t bytes = sizes[test_draw(random, 0, 8)];

        at_ps += within_ps ? test_draw(random, 0, 2 * within_ps / packets) : 0;
        vcnet_post(w, src, at_ps,
                   (struct vcnet_post){
                       .group = group,
                       .priority = (uint8_t)(test_draw(random, 0, 7) ? 0 : test_draw(random, 1, 3)),
                       .bytes = group && bytes > broadcast_bytes ? broadcast_bytes : bytes,
                       .dst = (uint16_t)(group ? test_draw(random, 0, 3)
                                               : test_draw(random, 0, w->nodes - 1))});
    }
}

/* Groups 0 to 3, of random nodes. */
static void random_groups(struct vcnet *w, uint64_t *random)
{
    for (uint32_t g = 0; g < 4; g++) {
        uint32_t nodes[VCNET_NODES], members = 0;

        for (uint32_t n = 0; n < w->nodes; n++)
            if (test_draw(random, 0, 2) || (w->nodes - n <= 2 && members < 2))
                nodes[members++] = n;
        vcnet_group(w, g, nodes, members);
    }
}

/* All packets ended correctly. On a slow host some may have timed out, which counts as a NACK. */
static void check_posts(const struct vcnet *w, uint32_t packets)
{
    struct vcnet_verdict verdict = vcnet_judge(w);
    uint32_t nacked = vcnet_count(w, POST_NACKED), timed_out = vcnet_count(w, POST_TIMED_OUT);
    uint64_t late = VCNET_SUM(w, timeouts) + timed_out;

    CU_ASSERT_EQUAL(vcnet_count(w, POST_ACKED) + nacked + timed_out, packets);
    CU_ASSERT_TRUE(late || nacked == VCNET_SUM(w, refused));
    CU_ASSERT_EQUAL(verdict.wrong, 0);
    CU_ASSERT_EQUAL(verdict.duplicated, 0);
    CU_ASSERT_EQUAL(verdict.lost, 0);
    if (late && w->clock != EMU_CLOCK_VIRTUAL)
        printf(
            "\n    %u packets, %llu time-outs, %u of nodes: %u NACKs, %llu of them refused\n    ",
            packets, (unsigned long long)VCNET_SUM(w, timeouts), timed_out, nacked,
            (unsigned long long)VCNET_SUM(w, refused));
}

/* --- exact times -------------------------------------------------------------------- */

/* The head takes one cable and one switch delay per hop; the rest follows at the link's rate. */
static void times__a_packet_takes_a_hop_each_way_and_its_length_once(void)
{
    static const uint16_t sizes[] = {0, 24, 240, 241, 1024, 4096};

    for (uint32_t i = 0; i < 3 * 6; i++) {
        uint32_t count = 1 + i / 6;
        uint16_t bytes = sizes[i % 6];
        uint64_t start_ps = 1000007, whole_ps;
        struct row row;

        row_open(&row, count, 1, "");
        vcnet_post(&row.w, 0, start_ps, (struct vcnet_post){.dst = 1, .bytes = bytes});
        CU_ASSERT_TRUE(vcnet_drain(&row.w, LONG_PS));
        CU_ASSERT_EQUAL_FATAL(row.w.node[1]->gots, 1);
        whole_ps = start_ps + (count + 1) * HOP_PS + wire_ps(bytes, emu_packet_segments(bytes));
        CU_ASSERT_EQUAL(row.w.node[1]->got[0].head_ps, start_ps + (count + 1) * HOP_PS);
        CU_ASSERT_EQUAL(row.w.node[1]->got[0].whole_ps, whole_ps);
        CU_ASSERT_TRUE(row.w.node[1]->got[0].good);
        CU_ASSERT_EQUAL(row.w.node[0]->post[0].state, POST_ACKED);
        CU_ASSERT_EQUAL(row.w.node[0]->post[0].reply_ps, whole_ps + (count + 1) * HOP_PS);
        CU_ASSERT_TRUE(vcnet_holds(&row.w));
        CU_ASSERT_TRUE(vcnet_free(&row.w, false));
        vcnet_close(&row.w);
    }
}

/*
 * One slot, whose credit returns 60 ns after its segment left: two segments of a channel are 120 ns
 * apart.
 */
static void times__a_segment_waits_for_its_slot(void)
{
    uint64_t first_ps;
    struct row row;

    row_open(&row, 1, 1, "channels=1 pool_slots=0");
    vcnet_post(&row.w, 0, 0, (struct vcnet_post){.dst = 1, .bytes = 1024});
    CU_ASSERT_TRUE(vcnet_drain(&row.w, LONG_PS));
    first_ps = 2 * HOP_PS;
    CU_ASSERT_EQUAL(row.w.node[1]->got[0].head_ps, first_ps);
    CU_ASSERT_EQUAL(row.w.node[1]->got[0].whole_ps,
                    first_ps + 4 * 2 * HOP_PS + emu_packet_wire_bytes(1024, 4) * BYTE_PS);
    CU_ASSERT_TRUE(vcnet_free(&row.w, false));
    vcnet_close(&row.w);
}

/*
 * The paper's 2 or 3 channels that fill a link. A channel is busy from the head's departure until
 * the reply: over @count switches that is the packet's length plus 2 * (@count + 1) hops.
 */
static double channels_throughput(uint32_t channels, uint32_t count, uint16_t bytes)
{
    const uint32_t packets = 200;
    uint64_t end_ps;
    char set[40];
    struct row row;

    snprintf(set, sizeof set, "channels=%u", channels);
    row_open(&row, count, 1, set);
    for (uint32_t i = 0; i < packets; i++)
        vcnet_post(&row.w, 0, 0, (struct vcnet_post){.dst = 1, .bytes = bytes});
    CU_ASSERT_TRUE(vcnet_drain(&row.w, LONG_PS));
    CU_ASSERT_EQUAL(vcnet_count(&row.w, POST_ACKED), packets);
    end_ps = row.w.node[1]->got[packets - 1].whole_ps - (count + 1) * HOP_PS;
    vcnet_close(&row.w);
    return (double)(packets * wire_ps(bytes, emu_packet_segments(bytes))) / (double)end_ps;
}

static void channels__two_or_three_fill_a_link(void)
{
    static const uint32_t counts[] = {1, 3, 5};

    printf("\n    link use, packets of 1 KB (and of 64 bytes), by channels:\n");
    for (uint32_t i = 0; i < 3; i++) {
        double use[33];

        printf("    %u switches:", counts[i]);
        for (uint32_t channels = 1; channels <= 32; channels *= 2) {
            use[channels] = channels_throughput(channels, counts[i], 1024);
            printf(" %u: %.3f (%.3f)", channels, use[channels],
                   channels_throughput(channels, counts[i], 64));
        }
        use[3] = channels_throughput(3, counts[i], 1024);
        printf(", 3: %.3f\n", use[3]);
        CU_ASSERT_TRUE(use[1] < 0.7);
        CU_ASSERT_TRUE(use[2] > (counts[i] < 5 ? 0.9 : 0.7));
        CU_ASSERT_TRUE(use[3] > 0.98);
    }
}

/* --- priorities --------------------------------------------------------------------- */

/* A small high-priority packet waits for at most one segment of bulk traffic per cable. */
static void priorities__a_small_packet_passes_bulk(void)
{
    uint64_t worst_ps = 0;

    for (uint32_t i = 0; i < 100; i++) {
        uint64_t start_ps = 5000000 + i * 10301, took_ps;
        const uint64_t ideal_ps = 4 * HOP_PS + wire_ps(24, 1);
        const struct vcnet_got *got;
        struct row row;

        row_open(&row, 3, 1, "");
        for (uint32_t n = 0; n < 60; n++)
            vcnet_post(&row.w, 0, 0, (struct vcnet_post){.dst = 1, .bytes = 4096});
        vcnet_post(&row.w, 0, start_ps, (struct vcnet_post){.dst = 1, .bytes = 24, .priority = 2});
        vcnet_advance(&row.w, 12000000);
        got = row.w.node[1]->got;
        while (got < row.w.node[1]->got + row.w.node[1]->gots && got->priority != 2)
            got++;
        CU_ASSERT_TRUE_FATAL(got < row.w.node[1]->got + row.w.node[1]->gots);
        took_ps = got->whole_ps - start_ps;
        worst_ps = took_ps > worst_ps ? took_ps : worst_ps;
        CU_ASSERT_TRUE(took_ps <= ideal_ps + 4 * WIRE_PS);
        CU_ASSERT_TRUE(vcnet_holds(&row.w));
        vcnet_close(&row.w);
    }
    CU_ASSERT_TRUE(worst_ps > 4 * HOP_PS + wire_ps(24, 1)); /* it did wait behind bulk */
}

/*
 * Small packets from node 0 to node 63 share all their links with bulk packets that @sources nodes,
 * node 0 among them, send there. Returns the largest delay that bulk added to one of them.
 */
static uint64_t beside_bulk(const char *set, uint16_t bulk_bytes, uint32_t sources)
{
    const uint64_t no_link_ps = 6 * HOP_PS + wire_ps(24, 1), every_ps = 3000341;
    const uint32_t trials = longer(150);
    const uint64_t bulk_ps = wire_ps(bulk_bytes, emu_packet_segments(bulk_bytes));
    uint64_t most_ps = 0;
    uint32_t arrived_ps = 0;
    struct vcnet w;

    vcnet_open(&w, "kary:4,3", set);
    for (uint32_t n = 0; n < sources; n++)
        for (uint64_t ps = 0; ps < trials * every_ps; ps += bulk_ps * (n < 60 && n ? 4 : 1))
            vcnet_post(&w, n, 0, (struct vcnet_post){.dst = 63, .bytes = bulk_bytes});
    for (uint32_t i = 0; i < trials; i++) /* phases spread over a segment */
        vcnet_post(&w, 0, 5000000 + i * every_ps,
                   (struct vcnet_post){.dst = 63, .bytes = 24, .priority = 2});
    vcnet_advance(&w, 5000000 + (trials + 1) * every_ps);
    for (uint32_t i = 0; i < w.node[63]->gots; i++) {
        const struct vcnet_got *got = &w.node[63]->got[i];
        uint32_t post = (got->tag & ((1u << TAG_NODE) - 1)) - 1;
        uint64_t took_ps;

        if (!got->priority)
            continue;
        took_ps = got->whole_ps - w.node[0]->post[post].ready_ps;
        arrived_ps++;
        CU_ASSERT_TRUE(took_ps >= no_link_ps);
        most_ps = took_ps - no_link_ps > most_ps ? took_ps - no_link_ps : most_ps;
    }
    CU_ASSERT_EQUAL(arrived_ps, trials);
    CU_ASSERT_TRUE(vcnet_holds(&w));
    vcnet_close(&w);
    return most_ps;
}

/* A small put beside bulk traffic on the same links waits for at most one segment per hop. */
static void priorities__a_small_put_waits_for_a_segment_a_hop(void)
{
    static const char *const sets[] = {
        "routing=static reply_timeout_ps=1000000000000",
        "routing=static reply_timeout_ps=1000000000000 channels=8 pool_slots=4"};
    static const uint16_t bytes[] = {4096, 1024, 300};

    CU_ASSERT_EQUAL(beside_bulk(sets[0], 1024, 0), 0);
    printf("\n    of %u ps, beside bulk of one node, and of 63:", 6 * WIRE_PS);
    test_each_setting (i, 6) {
        uint64_t one_ps = beside_bulk(sets[i / 3], bytes[i % 3], 1);
        uint64_t all_ps = beside_bulk(sets[i / 3], bytes[i % 3], 63);

        CU_ASSERT_TRUE(one_ps <= 6 * WIRE_PS && all_ps <= 6 * WIRE_PS);
        CU_ASSERT_TRUE(one_ps > WIRE_PS / 2 && all_ps > WIRE_PS); /* it did wait behind bulk */
        printf(" %llu %llu,", (unsigned long long)one_ps, (unsigned long long)all_ps);
    }
    printf("\n    ");
}

/*
 * Long packets of two nodes could take all channels on the path to a third one. They leave @left
 * channels: a packet of a fourth node, with a higher priority, passes after one or two segments
 * (the one on the wire, and one that arrived first).
 */
static void leaves_channels(uint8_t priority, uint32_t left)
{
    struct vcnet w;
    uint64_t start_ps = 40000000;

    vcnet_open(&w, "kary:4,1", "");
    for (uint32_t i = 0; i < 200; i++)
        for (uint32_t n = 1; n < 3; n++)
            vcnet_post(&w, n, 0,
                       (struct vcnet_post){.dst = 0, .bytes = 1024, .priority = priority});
    vcnet_post(&w, 3, start_ps,
               (struct vcnet_post){.dst = 0, .bytes = 24, .priority = (uint8_t)(priority + 1)});
    vcnet_advance(&w, start_ps - 1);
    CU_ASSERT_EQUAL(emu_vcs_pending(&switch_channels_of(w.sw[0])->port[0].vcs), EMU_VCS - left);
    CU_ASSERT_TRUE(vcnet_drain(&w, LONG_PS));
    CU_ASSERT_TRUE(w.node[3]->post[0].reply_ps - start_ps <
                   4 * HOP_PS + wire_ps(24, 1) + WIRE_PS + 10000);
    CU_ASSERT_EQUAL(vcnet_count(&w, POST_ACKED), 401);
    CU_ASSERT_TRUE(vcnet_free(&w, false));
    vcnet_close(&w);
}

/* Class bulk leaves two channels to others, and long packets of the default class leave one. */
static void priorities__long_packets_leave_channels(void)
{
    leaves_channels(emu_packet_priority(EMU_TCLASS_BULK, false), 2);
    leaves_channels(emu_packet_priority(EMU_TCLASS_DEFAULT, false), 1);
}

/* Inputs are served in rotation, however many channels each of them uses. */
static void arbitration__serves_inputs_in_rotation(void)
{
    uint32_t count[4] = {0};
    struct vcnet w;

    vcnet_open(&w, "kary:4,1", "");
    w.node[1]->open_max = w.node[3]->open_max = 12; /* no node waits for a channel */
    w.node[2]->open_max = 1;
    for (uint32_t i = 0; i < 60; i++)
        for (uint32_t n = 1; n < 4; n++)
            vcnet_post(&w, n, 0, (struct vcnet_post){.dst = 0, .bytes = 4096});
    vcnet_advance(&w, 100000000);
    for (uint32_t i = 0; i < w.node[0]->gots; i++)
        count[w.node[0]->got[i].tag >> TAG_NODE]++;
    for (uint32_t n = 1; n < 4; n++)
        CU_ASSERT_TRUE(count[n] * 3 + 12 > w.node[0]->gots);
    CU_ASSERT_TRUE(vcnet_drain(&w, LONG_PS));
    CU_ASSERT_EQUAL(vcnet_count(&w, POST_ACKED), 180);
    vcnet_close(&w);
}

/* Broadcasts, which collect slots, and other packets alternate for channels. */
static void arbitration__alternates_broadcasts_and_others(void)
{
    static const uint32_t pairs[3][2] = {{0, 1}, {0, 2}, {0, 3}};

    for (uint32_t channels = 1; channels <= 4; channels++) {
        uint32_t count[4] = {0};
        struct vcnet w;
        char set[40];

        snprintf(set, sizeof set, "channels=%u pool_slots=4", channels);
        vcnet_open(&w, "kary:4,1", set);
        for (uint32_t g = 0; g < 3; g++)
            vcnet_group(&w, g, pairs[g], 2);
        for (uint32_t i = 0; i < 100; i++) {
            vcnet_post(&w, 1, 0, (struct vcnet_post){.dst = 0, .group = true, .bytes = 996});
            vcnet_post(&w, 2, 0, (struct vcnet_post){.dst = 0, .bytes = 996});
            vcnet_post(&w, 3, 0, (struct vcnet_post){.dst = 2, .group = true, .bytes = 996});
        }
        vcnet_advance(&w, 60000000);
        for (uint32_t i = 0; i < w.node[0]->gots; i++)
            count[w.node[0]->got[i].tag >> TAG_NODE]++;
        CU_ASSERT_TRUE(w.node[0]->gots > 30 && w.node[0]->gots < 250);
        for (uint32_t n = 1; n < 4; n++)
            CU_ASSERT_TRUE(count[n] * 6 > w.node[0]->gots);
        CU_ASSERT_TRUE(vcnet_drain(&w, LONG_PS));
        check_posts(&w, 300);
        CU_ASSERT_TRUE(vcnet_free(&w, false));
        vcnet_close(&w);
    }
}

/* --- replies ------------------------------------------------------------------------ */

static const uint32_t eight[] = {0, 1, 2, 3, 4, 5, 6, 7};

/* A broadcast's source gets one reply, after the last member has replied. */
static void replies__are_merged(void)
{
    for (uint16_t bytes = 24; bytes <= 4096; bytes *= 5) {
        struct vcnet w;
        uint64_t last_ps = 0;

        vcnet_open(&w, "kary:2,3", "");
        w.payload = true;
        w.node[5]->service_ps = 3000000; /* the slowest */
        vcnet_group(&w, 7, eight, 8);
        vcnet_post(&w, 2, 0, (struct vcnet_post){.dst = 7, .group = true, .bytes = bytes});
        CU_ASSERT_TRUE(vcnet_drain(&w, LONG_PS));
        for (uint32_t n = 0; n < 8; n++) {
            CU_ASSERT_EQUAL_FATAL(w.node[n]->gots, n != 2);
            if (n == 2)
                continue;
            CU_ASSERT_TRUE(w.node[n]->got[0].good);
            if (w.node[n]->got[0].whole_ps > last_ps)
                last_ps = w.node[n]->got[0].whole_ps;
        }
        CU_ASSERT_EQUAL(w.node[2]->post[0].state, POST_ACKED);
        CU_ASSERT_EQUAL(w.node[2]->stale, 0);
        CU_ASSERT_TRUE(w.node[2]->post[0].reply_ps >= last_ps + 3000000 + 6 * HOP_PS);
        CU_ASSERT_TRUE(vcnet_holds(&w));
        CU_ASSERT_TRUE(vcnet_free(&w, false));
        vcnet_close(&w);
    }
}

static void replies__one_nack_makes_a_nack(void)
{
    for (uint32_t who = 0; who < 8; who++) {
        struct vcnet w;

        vcnet_open(&w, "kary:2,3", "");
        w.node[who]->refuse = 1000;
        vcnet_group(&w, 7, eight, 8);
        for (uint32_t n = 0; n < 8; n++)
            vcnet_post(&w, n, n, (struct vcnet_post){.dst = 7, .group = true, .bytes = 100});
        CU_ASSERT_TRUE(vcnet_drain(&w, LONG_PS));
        for (uint32_t n = 0; n < 8; n++)
            CU_ASSERT_EQUAL(w.node[n]->post[0].state, n == who ? POST_ACKED : POST_NACKED);
        CU_ASSERT_TRUE(vcnet_free(&w, false));
        vcnet_close(&w);
    }
}

/*
 * A packet to an absent node or an unknown group, and a broadcast that needs more slots than a
 * switch on its path has, get a NACK.
 */
static void replies__unreachable_packet_gets_a_nack(void)
{
    static const struct vcnet_post posts[] = {
        {.dst = 4000, .bytes = 1024},
        {.dst = 9, .group = true, .bytes = 1024},
        {.dst = 7, .group = true, .bytes = 1024},
        {.dst = 8, .group = true, .bytes = 24},
    };
    struct vcnet w;

    vcnet_open(&w, "kary:2,2", "pool_slots=3");
    vcnet_group(&w, 7, eight, 4);
    vcnet_group(&w, 8, eight, 3); /* without node 3 */
    for (uint32_t i = 0; i < 4; i++)
        vcnet_post(&w, 3, i * 10000000, posts[i]);
    vcnet_advance(&w, 9000000);
    CU_ASSERT_EQUAL(w.node[3]->post[0].state, POST_NACKED);
    /* by the top switch */
    CU_ASSERT_EQUAL(w.node[3]->post[0].reply_ps, 4 * HOP_PS + wire_ps(1024, 4));
    CU_ASSERT_TRUE(vcnet_drain(&w, LONG_PS));
    for (uint32_t i = 1; i < 4; i++) {
        uint64_t sent_ps = i * 10000000 + (i < 3 ? wire_ps(1024, 4) : 0);

        CU_ASSERT_EQUAL(w.node[3]->post[i].state, POST_NACKED);
        CU_ASSERT_EQUAL(w.node[3]->post[i].reply_ps, sent_ps + 2 * HOP_PS);
    }
    CU_ASSERT_EQUAL(VCNET_SUM(&w, refused), 4);
    for (uint32_t n = 0; n < 4; n++)
        CU_ASSERT_EQUAL(w.node[n]->gots, 0);
    CU_ASSERT_TRUE(vcnet_free(&w, false));
    vcnet_close(&w);
}

/* --- time-outs ---------------------------------------------------------------------- */

/*
 * Without a reply a NACK comes after the time-out, at most an eighth later; then all resources are
 * free.
 */
static void timeouts__free_everything(void)
{
    const uint64_t timeout_ps = 20000000;

    for (uint32_t group = 0; group < 2; group++) {
        struct vcnet w;

        vcnet_open(&w, "kary:2,3", "reply_timeout_ps=20000000");
        vcnet_group(&w, 7, eight, 8);
        w.node[7]->silent = true;
        for (uint32_t i = 0; i < 20; i++)
            vcnet_post(&w, 0, i * 300000,
                       (struct vcnet_post){.dst = 7, .group = group, .bytes = 1024});
        CU_ASSERT_TRUE(vcnet_drain(&w, LONG_PS));
        for (uint32_t i = 0; i < 20; i++) {
            const struct vcnet_post *post = &w.node[0]->post[i];

            CU_ASSERT_EQUAL(post->state, POST_NACKED);
            CU_ASSERT_TRUE(post->reply_ps - post->head_ps > timeout_ps);
            CU_ASSERT_TRUE(post->reply_ps - post->head_ps < timeout_ps + timeout_ps / 8 + 4000000);
        }
        CU_ASSERT_TRUE(VCNET_SUM(&w, timeouts) >= 20);
        CU_ASSERT_TRUE(vcnet_holds(&w));
        CU_ASSERT_TRUE(vcnet_free(&w, false));
        vcnet_close(&w);
    }
}

/*
 * A reply that arrives after its time-out is stale, also if the channel carries another packet by
 * then.
 */
static void timeouts__late_replies_are_stale(void)
{
    struct vcnet w;

    vcnet_open(&w, "kary:2,1", "reply_timeout_ps=1000000 channels=2");
    w.node[1]->service_ps = 3000000;
    for (uint32_t i = 0; i < 12; i++)
        vcnet_post(&w, 0, 0, (struct vcnet_post){.dst = 1, .bytes = 24});
    CU_ASSERT_TRUE(vcnet_drain(&w, LONG_PS));
    CU_ASSERT_EQUAL(vcnet_count(&w, POST_NACKED) + vcnet_count(&w, POST_ACKED), 12);
    CU_ASSERT_TRUE(VCNET_SUM(&w, stale) > 0);
    CU_ASSERT_TRUE(VCNET_SUM(&w, timeouts) > 0);
    CU_ASSERT_TRUE(vcnet_free(&w, false));
    vcnet_close(&w);
}

/*
 * The sender reuses a channel whose previous packet still waits at the switch: that packet is
 * dropped.
 */
static void timeouts__a_new_head_ends_the_packet_before(void)
{
    struct vcnet w;

    vcnet_open(&w, "kary:2,1", "channels=1");
    w.node[1]->service_ps = 5000000;
    w.timeout_ps = 2000000;
    w.payload = true;
    for (uint32_t i = 0; i < 10; i++)
        vcnet_post(&w, 0, 0, (struct vcnet_post){.dst = 1, .bytes = 1024});
    CU_ASSERT_TRUE(vcnet_drain(&w, LONG_PS));
    CU_ASSERT_EQUAL(vcnet_count(&w, POST_TIMED_OUT) + vcnet_count(&w, POST_ACKED) +
                        vcnet_count(&w, POST_NACKED),
                    10);
    CU_ASSERT_TRUE(VCNET_SUM(&w, given_up) > 0);
    CU_ASSERT_TRUE(vcnet_holds(&w));
    CU_ASSERT_TRUE(vcnet_free(&w, true));
    vcnet_close(&w);
}

/*
 * Node @dst never replies, and nodes 1 to @above keep all channels to it busy with packets of a
 * higher priority. Packets from node 0, and from the others, still get their NACKs in time, and a
 * packet to another node makes progress.
 */
static void overtaken_by(const char *topo, uint32_t dst, uint32_t above, bool group)
{
    const uint64_t timeout_ps = 20000000;
    const uint32_t members[] = {0, dst, dst + 1}, posts = 100, bulk = 24;
    struct vcnet w;

    vcnet_open(&w, topo, "reply_timeout_ps=20000000 channels=4 pool_slots=4");
    vcnet_group(&w, 7, members, 3);
    w.node[dst]->silent = true;
    for (uint32_t node = 1; node <= above; node++)
        for (uint32_t i = 0; i < posts; i++)
            vcnet_post(&w, node, 0,
                       (struct vcnet_post){.dst = (uint16_t)dst, .bytes = 24, .priority = 2});
    for (uint32_t i = 0; i < bulk; i++)
        vcnet_post(&w, 0, 1000000,
                   (struct vcnet_post){.dst = (uint16_t)(group ? 7 : dst),
                                       .group = group,
                                       .bytes = i % 2 ? 1024 : 24});
    vcnet_post(&w, 0, 1000000, (struct vcnet_post){.dst = 1, .bytes = 1024});
    for (uint64_t at_ps = 1730000; w.node[0]->post[bulk].state != POST_ACKED; at_ps += 1730000) {
        vcnet_advance(&w, at_ps);
        CU_ASSERT_TRUE_FATAL(at_ps < posts / 4 * timeout_ps);
        CU_ASSERT_TRUE_FATAL(vcnet_holds(&w));
    }
    CU_ASSERT_TRUE(vcnet_drain(&w, LONG_PS));
    for (uint32_t node = 0; node <= above; node++)
        for (uint32_t i = 0; i < (node ? posts : bulk); i++) {
            const struct vcnet_post *post = &w.node[node]->post[i];
            uint64_t took_ps = post->reply_ps - post->head_ps;

            CU_ASSERT_EQUAL(post->state, POST_NACKED);
            CU_ASSERT_TRUE(took_ps > timeout_ps);
            /* a packet that gets a channel late waits for the reply from then on */
            CU_ASSERT_TRUE(took_ps < (node ? 2 : 1) * (timeout_ps + timeout_ps / 4));
        }
    CU_ASSERT_TRUE(VCNET_SUM(&w, timeouts) >= above * posts + bulk);
    CU_ASSERT_TRUE(vcnet_free(&w, false));
    vcnet_close(&w);
}

static void timeouts__end_packets_that_others_overtake(void)
{
    overtaken_by("kary:6,1", 4, 3, false);
    overtaken_by("kary:6,1", 4, 3, true);
    overtaken_by("clos:down=8x2,up=2", 8, 7, false); /* both paths are busy */
}

/* Time-outs too short for most packets cause NACKs and nothing worse. */
static void timeouts__early_ones_lose_nothing(void)
{
    static const char *const sets[] = {"reply_timeout_ps=700000", "reply_timeout_ps=2000000",
                                       "reply_timeout_ps=400000 channels=1 pool_slots=4",
                                       "reply_timeout_ps=1500000 channels=2 pool_slots=16"};

    for (uint32_t i = 0; i < 4; i++) {
        uint64_t random = test_seed() + i;
        struct vcnet w;

        vcnet_open(&w, "kary:4,2", sets[i]);
        w.payload = true;
        random_groups(&w, &random);
        random_posts(&w, &random, longer(1500), 4, 1000, 30000000);
        for (uint64_t at_ps = 0; at_ps < 40000000; at_ps += 1730000) {
            vcnet_advance(&w, at_ps);
            CU_ASSERT_TRUE_FATAL(vcnet_holds(&w));
        }
        CU_ASSERT_TRUE(vcnet_drain(&w, LONG_PS));
        CU_ASSERT_TRUE(VCNET_SUM(&w, timeouts) > 0);
        check_posts(&w, longer(1500));
        CU_ASSERT_TRUE(vcnet_free(&w, true));
        vcnet_close(&w);
    }
}

/* --- routing ------------------------------------------------------------------------ */

/* The least and the most segments that left switch @s by one of the ports [from, from + count). */
static void port_use(const struct vcnet *w, uint32_t s, uint32_t from, uint32_t count,
                     uint64_t *least, uint64_t *most)
{
    const struct switch_channels *ch = switch_channels_of(w->sw[s]);

    *least = UINT64_MAX;
    *most = 0;
    for (uint32_t p = from; p < from + count; p++) {
        uint64_t segments = emu_count_read(&ch->port[p].tx.counts.segments);

        *least = segments < *least ? segments : *least;
        *most = segments > *most ? segments : *most;
    }
}

/*
 * The nodes of one leaf send to a node of another: adaptive routing uses all ports up, static
 * routing one.
 */
static void routing__adaptive_spreads_static_does_not(void)
{
    static const char *const sets[] = {"routing=adaptive choice=next_free",
                                       "routing=adaptive choice=random",
                                       "routing=adaptive choice=first_free", "routing=oblivious",
                                       "routing=static"};

    for (uint32_t i = 0; i < 5; i++) {
        uint64_t least, most;
        struct vcnet w;

        vcnet_open(&w, "kary:4,2", sets[i]);
        for (uint32_t n = 0; n < 4; n++)
            for (uint32_t k = 0; k < 40; k++)
                vcnet_post(&w, n, 0, (struct vcnet_post){.dst = 13, .bytes = 1024});
        CU_ASSERT_TRUE(vcnet_drain(&w, LONG_PS));
        CU_ASSERT_EQUAL(vcnet_count(&w, POST_ACKED), 160);
        port_use(&w, 0, 4, 4, &least, &most);
        CU_ASSERT_TRUE(i < 4 ? least > 20 * 5 && most < 70 * 5 : least == 0 && most == 160 * 5);
        CU_ASSERT_TRUE(i || most - least <= 40 * 5 / 8);
        vcnet_close(&w);
    }
}

/* The static routes of all destinations together use all ports up equally. */
static void routing__static_spreads_destinations(void)
{
    struct vcnet w;

    vcnet_open(&w, "kary:4,3", "routing=static");
    for (uint32_t dst = 0; dst < 64; dst++)
        for (uint32_t src = 0; src < 64; src += 16)
            if (src != dst)
                vcnet_post(&w, src, 0, (struct vcnet_post){.dst = (uint16_t)dst, .bytes = 24});
    CU_ASSERT_TRUE(vcnet_drain(&w, LONG_PS));
    for (uint32_t s = 0; s < w.switches; s++) {
        uint64_t least, most;

        if (w.graph->sw[s].level == 2)
            continue;
        port_use(&w, s, 4, 4, &least, &most);
        CU_ASSERT_TRUE(least == most || w.graph->sw[s].level == 0);
        CU_ASSERT_TRUE(most - least <= 5);
    }
    vcnet_close(&w);
}

/* And all parallel links to one switch: 112 destinations behind 8 switches, 2 links to each. */
static void routing__static_uses_parallel_links(void)
{
    uint64_t least, most;
    struct vcnet w;

    vcnet_open(&w, "qsnet:128", "routing=static");
    for (uint32_t dst = 16; dst < 128; dst++)
        for (uint32_t src = 0; src < 16; src++)
            vcnet_post(&w, src, 0, (struct vcnet_post){.dst = (uint16_t)dst, .bytes = 24});
    CU_ASSERT_TRUE(vcnet_drain(&w, LONG_PS));
    port_use(&w, 0, 16, 16, &least, &most);
    CU_ASSERT_EQUAL(least, 7 * 16);
    CU_ASSERT_EQUAL(most, 7 * 16);
    for (uint32_t s = 8; s < 16; s++) {
        /* the destination's number selects one of two links down */
        port_use(&w, s, 2, 14, &least, &most);
        CU_ASSERT_EQUAL(least, 16);
        CU_ASSERT_EQUAL(most, 16);
    }
    vcnet_close(&w);
}

/* Several cables between two switches, or into one node, share the load equally. */
static void routing__adaptive_uses_equivalent_links(void)
{
    uint64_t least, most, start_ps;
    struct row row;

    for (uint32_t adaptive = 0; adaptive < 2; adaptive++) {
        row_open(&row, 2, 4, adaptive ? "" : "routing=static");
        for (uint32_t n = 0; n < 3; n++) {
            /* three more sources, and three more cables into node 1 */
            struct vcnode *from = vcnet_node(&row.w, 0), *into = vcnet_node(&row.w, 0);

            vcnet_plug(&row.w, from, row.w.sw[0], 1 + n);
            vcnet_plug(&row.w, into, row.w.sw[1], 4 + n);
        }
        for (uint32_t s = 0; s < 2; s++)
            switch_channels_of(row.w.sw[s])->plugged = 0;
        for (uint32_t k = 0; k < 100; k++)
            for (uint32_t n = 0; n < 4; n++)
                vcnet_post(&row.w, n ? 2 * n : 0, 0, (struct vcnet_post){.dst = 1, .bytes = 1024});
        start_ps = row.w.now_ps;
        CU_ASSERT_TRUE(vcnet_drain(&row.w, LONG_PS));
        CU_ASSERT_EQUAL(vcnet_count(&row.w, POST_ACKED), 400);
        for (uint32_t s = 0; s < 2; s++) {
            port_use(&row.w, s, 4, 4, &least, &most);
            CU_ASSERT_TRUE(adaptive ? least > 100 * 5 * 8 / 10 && most < 100 * 5 * 12 / 10
                                    : least == 0 && most == 400 * 5);
        }
        CU_ASSERT_TRUE(row.w.now_ps - start_ps > 0);
        vcnet_close(&row.w);
    }
}

/* --- invalid input ------------------------------------------------------------------ */

static struct emu_entry odd_entry(uint32_t kind, uint32_t channel, uint32_t tag, uint32_t bytes,
                                  uint32_t index)
{
    uint32_t segments = emu_packet_segments(bytes);
    struct emu_entry entry = {.packet = {.kind = (uint8_t)kind,
                                         .channel = (uint8_t)channel,
                                         .tag = tag,
                                         .last = index + 1 == segments,
                                         .wire =
                                             (uint8_t)(emu_packet_wire_bytes(bytes, index) - 1)},
                              .buf = EMU_NO_BUF};
    struct emu_head head = {.channel = (uint8_t)channel, .dst = 1, .bytes = (uint16_t)bytes};
    struct emu_cont cont = {.channel = (uint8_t)channel,
                            .index = (uint8_t)index,
                            .last = index + 1 == segments};

    if (kind == EMU_PACKET_HEAD)
        entry.packet.head = emu_head_pack(&head);
    else
        entry.packet.cont = emu_cont_pack(&cont);
    return entry;
}

/* Put an entry on a node's wire without any check. */
static void odd_put(struct vcnode *p, struct emu_entry entry)
{
    if (entry.packet.kind == EMU_PACKET_HEAD || entry.packet.kind == EMU_PACKET_CONT)
        emu_vcs_spend(&p->vcs, entry.packet.channel % EMU_VCS);
    emu_tx_send(&p->tx, &entry);
    emu_tx_flush(&p->tx);
}

static void odd_pass(struct vcnet *w)
{
    for (uint32_t i = 0; i < 20; i++)
        emu_worker_pass(w->worker[0]);
}

/* Put it on node 0's wire; the counter of the entries `bad` or `stale` goes up by one. */
static void odd_send(struct vcnet *w, struct emu_entry entry)
{
    odd_put(w->node[0], entry);
    odd_pass(w);
}

/*
 * An entry that violates the protocol is counted and dropped, and its credit returns. Nothing else
 * changes.
 */
static void input__drops_protocol_violations(void)
{
    struct vcnet w;
    uint32_t bad = 0, stale = 0;
    struct emu_entry odd[18];
    uint32_t count = 0;

    vcnet_open_on(&w, "kary:2,1", "channels=8", EMU_CLOCK_RAW, 1);
    w.node[1]->silent = true;
    odd_send(&w, odd_entry(EMU_PACKET_HEAD, 2, 77, 1024, 0)); /* this one is valid */
    CU_ASSERT_EQUAL(w.node[1]->segments_got, 1);
    for (uint32_t bit = 0; bit < 5; bit++) { /* wrong CRC-16 */
        odd[count] = odd_entry(EMU_PACKET_HEAD, 3, 78, 24, 0);
        odd[count++].packet.head ^= (uint64_t)1 << (bit * 15);
    }
    odd[count] = odd_entry(EMU_PACKET_CONT, 2, 77, 1024, 1);
    odd[count++].packet.cont ^= 4;
    odd[count++] = odd_entry(EMU_PACKET_HEAD, 9, 78, 24, 0); /* no such channel */
    odd[count++] = odd_entry(EMU_PACKET_HEAD, 2, 77, 24, 0); /* the channel is busy */
    /* contradicts the descriptor: channel, */
    odd[count] = odd_entry(EMU_PACKET_HEAD, 3, 78, 24, 0);
    odd[count++].packet.channel = 4;
    odd[count] = odd_entry(EMU_PACKET_HEAD, 3, 78, 24, 0); /* length, */
    odd[count++].packet.wire++;
    odd[count] = odd_entry(EMU_PACKET_HEAD, 3, 78, 1024, 0); /* last-segment flag */
    odd[count++].packet.last = 1;
    odd[count++] = odd_entry(EMU_PACKET_CONT, 2, 77, 4096, 6); /* beyond the packet's length */
    odd[count] = odd_entry(EMU_PACKET_CONT, 2, 77, 1024, 1);
    odd[count++].packet.wire--;
    odd[count++] = odd_entry(50, 2, 77, 1024, 1); /* unknown kind */
    bad = count;
    odd[count++] = odd_entry(EMU_PACKET_CONT, 2, 99, 1024, 1); /* another packet's */
    odd[count++] = odd_entry(EMU_PACKET_CONT, 5, 77, 1024, 1); /* a closed channel's */
    odd[count++] = odd_entry(EMU_PACKET_ACK, 5, 77, 0, 0);     /* a reply that no packet awaits, */
    /* and on a channel that does not exist */
    odd[count++] = odd_entry(EMU_PACKET_NACK, 200, 77, 0, 0);
    stale = count - bad;
    for (uint32_t i = 0; i < count; i++) {
        if (odd[i].packet.kind == 50) { /* occupies a slot, whatever its kind */
            emu_vcs_spend(&w.node[0]->vcs, 2);
        }
        odd_send(&w, odd[i]);
        CU_ASSERT_EQUAL(VCNET_SUM(&w, bad) + VCNET_SUM(&w, stale), i + 1);
    }
    CU_ASSERT_EQUAL(VCNET_SUM(&w, bad), bad);
    CU_ASSERT_EQUAL(VCNET_SUM(&w, stale), stale);
    for (uint32_t s = 1; s < 5; s++) /* the valid packet continues */
        odd_send(&w, odd_entry(EMU_PACKET_CONT, 2, 77, 1024, s));
    CU_ASSERT_EQUAL(w.node[1]->gots, 1);
    CU_ASSERT_TRUE(w.node[1]->got[0].good);
    CU_ASSERT_EQUAL(w.node[0]->vcs.pool, w.profile.pool_slots);
    for (uint32_t c = 0; c < EMU_VCS; c++)
        CU_ASSERT_EQUAL(w.node[0]->vcs.used[c], 0);
    vcnet_close(&w);
}

static const uint32_t four[] = {0, 1, 2, 3};

/* Segment @index of a broadcast of 1024 bytes to group 3. */
static struct emu_entry cast_entry(uint32_t index)
{
    const struct emu_head head = {.channel = 2, .dst = 3, .group = true, .bytes = 1024};
    struct emu_entry entry =
        odd_entry(index ? EMU_PACKET_CONT : EMU_PACKET_HEAD, 2, 77, 1024, index);

    if (!index)
        entry.packet.head = emu_head_pack(&head);
    return entry;
}

/* One switch, and the first @sent segments of a broadcast from node 0 to all others. */
static void cast_open(struct vcnet *w, uint32_t sent)
{
    vcnet_open_on(w, "kary:4,1", "", EMU_CLOCK_RAW, 1);
    vcnet_group(w, 3, four, 4);
    for (uint32_t s = 0; s < sent; s++)
        odd_send(w, cast_entry(s));
    for (uint32_t n = 1; n < 4; n++)
        CU_ASSERT_EQUAL(w->node[n]->segments_got, sent);
}

/* The broadcast ended everywhere, and no slot is taken or reserved. */
static void cast_close(struct vcnet *w, bool good)
{
    const struct switch_channels *ch = switch_channels_of(w->sw[0]);

    vcnet_settle(w);
    for (uint32_t n = 1; n < 4; n++) {
        CU_ASSERT_EQUAL_FATAL(w->node[n]->gots, 1);
        CU_ASSERT_EQUAL(w->node[n]->got[0].good, good);
    }
    for (uint32_t p = 0; p < 4; p++) {
        CU_ASSERT_EQUAL(ch->port[p].vcs.pool, w->profile.pool_slots);
        CU_ASSERT_EQUAL(ch->port[p].vcs.open | ch->port[p].vcs.paid | ch->port[p].vcs.occupied, 0);
        for (uint32_t c = 0; c < EMU_VCS; c++)
            CU_ASSERT_EQUAL(ch->port[p].vcs.promised[c], 0);
    }
    CU_ASSERT_EQUAL(w->node[0]->vcs.pool, w->profile.pool_slots);
    CU_ASSERT_TRUE(vcnet_holds(w));
    CU_ASSERT_TRUE(vcnet_free(w, false));
    vcnet_close(w);
}

/* Only the next segment of a broadcast is forwarded. */
static void broadcasts__forward_no_bad_continuation(void)
{
    struct emu_entry odd[4];
    struct vcnet w;

    cast_open(&w, 2);
    for (uint32_t i = 0; i < 4; i++)
        odd[i] = cast_entry(2);
    odd[0].packet.cont ^= 4; /* wrong CRC-16 */
    odd[1] = cast_entry(1);  /* the same again */
    odd[2].packet.cont = cast_entry(4).packet.cont;
    odd[3].packet.wire--;
    for (uint32_t i = 0; i < 4; i++) {
        odd_send(&w, odd[i]);
        CU_ASSERT_EQUAL(VCNET_SUM(&w, bad), i + 1);
        for (uint32_t n = 1; n < 4; n++)
            CU_ASSERT_EQUAL(w.node[n]->segments_got, 2);
    }
    for (uint32_t s = 2; s < 5; s++)
        odd_send(&w, cast_entry(s));
    cast_close(&w, true);
}

/*
 * A port that is stuck sends nothing; the copies to the other ports go on, and its own copy follows
 * when it can.
 */
static void broadcasts__wait_at_a_stuck_port(void)
{
    struct vcnet w;

    cast_open(&w, 2);
    switch_stick(w.sw[0], 1, true, 0);
    for (uint32_t s = 2; s < 5; s++) {
        odd_send(&w, cast_entry(s));
        CU_ASSERT_EQUAL(w.node[1]->segments_got, 2);
        CU_ASSERT_EQUAL(w.node[2]->segments_got, s + 1);
        CU_ASSERT_EQUAL(w.node[3]->segments_got, s + 1);
    }
    switch_stick(w.sw[0], 1, false, 0);
    odd_pass(&w);
    CU_ASSERT_EQUAL(w.node[1]->segments_got, 5);
    cast_close(&w, true);
}

/* Cut-through does not overtake earlier segments that wait at a port. */
static void broadcasts__do_not_overtake(void)
{
    struct vcnet w;

    cast_open(&w, 4);
    switch_stick(w.sw[0], 1, true, 0);
    vcnet_post(&w, 2, 0, (struct vcnet_post){.dst = 1, .bytes = 24, .priority = 2});
    emu_dev_again(&w.node[2]->dev);
    odd_pass(&w);
    CU_ASSERT_EQUAL(w.node[1]->segments_got, 4);
    switch_stick(w.sw[0], 1, false, 0);
    switch_channels_of(w.sw[0])->news = 0; /* as if a pass had used up its burst */
    odd_send(&w, cast_entry(4));
    CU_ASSERT_EQUAL_FATAL(w.node[1]->gots, 2);
    CU_ASSERT_EQUAL(w.node[1]->got[0].priority, 2);
    CU_ASSERT_TRUE(w.node[1]->got[0].good && w.node[1]->got[1].good);
    CU_ASSERT_EQUAL(w.node[2]->post[0].state, POST_ACKED);
    w.node[1]->gots = 1;
    cast_close(&w, true);
}

/* Cut-through does not bypass a tap: a capture sees all segments. */
static void broadcasts__are_captured(void)
{
    const uint32_t slots = 16;
    struct emu_taps *taps = fixture_zeros(sizeof *taps + sizeof taps->end[0]);
    struct emu_tap_iface iface = {.name = "0:1>n1:0"};
    struct vcnet w;

    cast_open(&w, 2);
    *taps = (struct emu_taps){.filter = {.aim = {.packets = EMU_FAULT_ENTRIES,
                                                 .kinds = EMU_FAULT_KINDS,
                                                 .src = EMU_FAULT_ANY,
                                                 .dst = EMU_FAULT_ANY,
                                                 .group = EMU_FAULT_ANY},
                                         .what = ~0u},
                              .clock = EMU_CLOCK_RAW,
                              .iface = &iface,
                              .ring = aligned_alloc(EMU_LINE,
                                                    sizeof(struct emu_tap_ring) +
                                                        slots * sizeof(struct emu_tap_record)),
                              .slots = slots,
                              .ends = 1};
    CU_ASSERT_PTR_NOT_NULL_FATAL(taps->ring);
    memset(taps->ring, 0, sizeof *taps->ring);
    taps->end[0] = (struct emu_tap_end){.end = switch_tx(w.sw[0], 1),
                                        .takes = EMU_TAP_NOWHERE,
                                        .packets = true};
    w.worker[0]->taps = taps;
    switch_tx(w.sw[0], 1)->tapped = true;
    for (uint32_t s = 2; s < 5; s++) {
        odd_send(&w, cast_entry(s));
        CU_ASSERT_EQUAL(emu_count_read(&iface.seen), s - 1);
        CU_ASSERT_EQUAL(w.node[1]->segments_got, s + 1);
    }
    switch_tx(w.sw[0], 1)->tapped = false;
    w.worker[0]->taps = NULL;
    free(taps->ring);
    free(taps);
    cast_close(&w, true);
}

/* A segment of the broadcast is lost on its cable: the slot reserved for it is released. */
static void broadcasts__lost_segment_releases_its_slot(void)
{
    for (uint32_t lost = 1; lost < 4; lost++) {
        struct vcnet w;

        cast_open(&w, lost);
        for (uint32_t s = lost + 1; s < 5; s++)
            odd_send(&w, cast_entry(s));
        cast_close(&w, false);
    }
}

/* Segments beyond the number of slots are dropped. */
static void input__accepts_no_more_than_its_slots(void)
{
    struct vcnet w;

    vcnet_open_on(&w, "kary:2,1", "channels=1 pool_slots=2", EMU_CLOCK_RAW, 1);
    w.node[1]->silent = true;
    w.node[1]->vcs.pool = 0;
    switch_channels_of(w.sw[0])->port[1].vcs.pool = 0; /* the remote end has no free slot */
    switch_channels_of(w.sw[0])->port[1].vcs.used[0] = 1;
    switch_channels_of(w.sw[0])->port[1].vcs.occupied = 1;
    odd_send(&w, odd_entry(EMU_PACKET_HEAD, 0, 77, 4096, 0));
    for (uint32_t s = 1; s < 10; s++)
        odd_send(&w, odd_entry(EMU_PACKET_CONT, 0, 77, 4096, s));
    CU_ASSERT_EQUAL(switch_channels_of(w.sw[0])->port[0].held, 3);
    CU_ASSERT_EQUAL(VCNET_SUM(&w, overrun), 7);
    CU_ASSERT_EQUAL(VCNET_SUM(&w, bad), 0);
    vcnet_close(&w);
}

/* --- cut-through -------------------------------------------------------------------- */

/* One switch, which is returned; node 1 accepts packets and never replies. */
static struct switch_channels *cut_through_open(struct vcnet *w)
{
    struct switch_channels *ch;

    vcnet_open_on(w, "kary:4,1", "", EMU_CLOCK_RAW, 1);
    w->node[1]->silent = true;
    ch = switch_channels_of(w->sw[0]);
    switch_channel_find_cables(ch); /* as its first step does */
    return ch;
}

/* Segments @from to before @to of a packet of 1024 bytes to node 1, on node 0's wire. */
static void cut_through_put(const struct vcnet *w, uint32_t from, uint32_t to)
{
    for (uint32_t s = from; s < to; s++)
        odd_put(w->node[0], odd_entry(s ? EMU_PACKET_CONT : EMU_PACKET_HEAD, 2, 77, 1024, s));
}

/* The rest of the packet follows, and everything is in order. */
static void cut_through_close(struct vcnet *w)
{
    odd_pass(w);
    CU_ASSERT_EQUAL_FATAL(w->node[1]->gots, 1);
    CU_ASSERT_TRUE(w->node[1]->got[0].good);
    CU_ASSERT_TRUE(vcnet_holds(w));
    vcnet_close(w);
}

/* The segments of a packet that have arrived are forwarded together, but no more than requested. */
static void cut_through__forwards_no_more_than_requested(void)
{
    for (uint32_t most = 1; most <= 6; most++) {
        uint32_t first = most < 5 ? most : 5, rest = 5 - first;
        struct vcnet w;
        struct switch_channels *ch = cut_through_open(&w);

        cut_through_put(&w, 0, 5);
        CU_ASSERT_EQUAL(switch_channel_bypass(ch, 0, most), first);
        CU_ASSERT_EQUAL(switch_channel_bypass(ch, 0, most), rest < first ? rest : first);
        cut_through_close(&w);
    }
}

/* Nor more than the remote end has space for; the rest follows later. */
static void cut_through__forwards_no_more_than_fit(void)
{
    for (uint32_t room = 1; room < 5; room++) {
        struct vcnet w;
        struct switch_channels *ch = cut_through_open(&w);

        ch->port[1].vcs.pool = (uint8_t)(room - 1); /* and the channel's own slot */
        cut_through_put(&w, 0, 5);
        CU_ASSERT_EQUAL(switch_channel_bypass(ch, 0, 64), room);
        CU_ASSERT_EQUAL(ch->port[1].vcs.used[0], room);
        CU_ASSERT_EQUAL(ch->port[1].vcs.pool, 0);
        ch->port[1].vcs.pool = (uint8_t)(w.profile.pool_slots - room + 1);
        cut_through_close(&w);
    }
}

/* Late segments follow, and only expected segments are forwarded. */
static void cut_through__forwards_expected_segments_only(void)
{
    for (uint32_t arrived = 1; arrived < 5; arrived++) {
        struct vcnet w;

        cut_through_open(&w);
        cut_through_put(&w, 0, arrived);
        odd_pass(&w);
        CU_ASSERT_EQUAL(w.node[1]->segments_got, arrived);
        cut_through_put(&w, arrived, 5);
        cut_through_close(&w);
    }
    /* the last segment in the place of another ends the packet */
    for (uint32_t arrived = 1; arrived < 4; arrived++) {
        struct vcnet w;

        cut_through_open(&w);
        cut_through_put(&w, 0, arrived);
        cut_through_put(&w, 4, 5);
        cut_through_put(&w, arrived, 4);
        odd_pass(&w);
        CU_ASSERT_EQUAL(w.node[1]->segments_got, arrived + 1);
        CU_ASSERT_EQUAL(VCNET_SUM(&w, bad) + VCNET_SUM(&w, stale), 4 - arrived);
        CU_ASSERT_EQUAL_FATAL(w.node[1]->gots, 1);
        CU_ASSERT_FALSE(w.node[1]->got[0].good);
        vcnet_close(&w);
    }
}

/* A duplicate of a packet that has ended is not forwarded. */
static void cut_through__forwards_nothing_twice(void)
{
    struct vcnet w;

    vcnet_open_on(&w, "kary:4,1", "", EMU_CLOCK_RAW, 1);
    cut_through_put(&w, 0, 5);
    odd_pass(&w);
    CU_ASSERT_EQUAL(w.node[1]->packets_got, 1);
    CU_ASSERT_EQUAL(switch_channels_of(w.sw[0])->open, 0);
    cut_through_put(&w, 0, 5);
    odd_pass(&w);
    CU_ASSERT_EQUAL(w.node[1]->segments_got, 5);
    CU_ASSERT_EQUAL(VCNET_SUM(&w, bad) + VCNET_SUM(&w, stale), 5);
    vcnet_close(&w);
}

/* A stuck port sends nothing, and earlier segments at a port go first. */
static void cut_through__does_not_overtake(void)
{
    struct vcnet w;

    cut_through_open(&w);
    switch_stick(w.sw[0], 1, true, 0);
    cut_through_put(&w, 0, 5);
    odd_pass(&w);
    CU_ASSERT_EQUAL(w.node[1]->segments_got, 0);
    switch_stick(w.sw[0], 1, false, 0);
    odd_pass(&w);
    CU_ASSERT_EQUAL(w.node[1]->segments_got, 5);
    vcnet_close(&w);

    cut_through_open(&w);
    switch_stick(w.sw[0], 1, true, 0);
    vcnet_post(&w, 2, 0, (struct vcnet_post){.dst = 1, .bytes = 24, .priority = 2});
    emu_dev_again(&w.node[2]->dev);
    odd_pass(&w);
    switch_stick(w.sw[0], 1, false, 0);
    switch_channels_of(w.sw[0])->news = 0; /* as if a pass had used up its burst */
    cut_through_put(&w, 0, 5);
    odd_pass(&w);
    CU_ASSERT_EQUAL_FATAL(w.node[1]->gots, 2);
    CU_ASSERT_EQUAL(w.node[1]->got[0].priority, 2);
    CU_ASSERT_TRUE(w.node[1]->got[0].good && w.node[1]->got[1].good);
    vcnet_close(&w);
}

/* A reply ends the packet that it names once that packet has been sent completely. */
static void cut_through__matches_replies_to_packets(void)
{
    struct vcnet w;

    cut_through_open(&w);
    vcnet_post(&w, 0, 0, (struct vcnet_post){.dst = 1, .bytes = 1024});
    emu_dev_again(&w.node[0]->dev);
    odd_pass(&w);
    CU_ASSERT_EQUAL(w.node[1]->segments_got, 5);
    odd_put(w.node[1], odd_entry(EMU_PACKET_ACK, 0, w.node[0]->post[0].tag ^ 1, 0, 0));
    odd_pass(&w);
    CU_ASSERT_EQUAL(VCNET_SUM(&w, stale), 1);
    CU_ASSERT_EQUAL(w.node[0]->post[0].state, POST_OPEN);
    odd_put(w.node[1], odd_entry(EMU_PACKET_ACK, 0, w.node[0]->post[0].tag, 0, 0));
    odd_pass(&w);
    CU_ASSERT_EQUAL(w.node[0]->post[0].state, POST_ACKED);
    vcnet_close(&w);

    cut_through_open(&w);
    cut_through_put(&w, 0, 2);
    odd_pass(&w);
    CU_ASSERT_EQUAL(w.node[1]->segments_got, 2);
    odd_put(w.node[1], odd_entry(EMU_PACKET_ACK, 0, 77, 0, 0));
    odd_pass(&w);
    CU_ASSERT_EQUAL(VCNET_SUM(&w, bad), 1);
    vcnet_close(&w);
}

/*
 * On clock raw the lowest free channels are reused; on timed clocks channels are used in rotation.
 */
static void channels__rotate_on_timed_clocks_only(void)
{
    for (uint32_t turns = 0; turns < 2; turns++) {
        struct emu_vcs vcs;

        emu_vcs_init(&vcs, 4, 6, turns);
        for (uint32_t i = 1; i < 6; i++) {
            int c = emu_vcs_open(&vcs, i);

            CU_ASSERT_EQUAL(c, turns ? (int)(i % 4) : 0);
            CU_ASSERT_TRUE(emu_vcs_close(&vcs, (uint32_t)c, i));
        }
    }
    for (uint32_t raw = 0; raw < 2; raw++) {
        struct vcnet w;

        vcnet_open_on(&w, "kary:2,1", "", raw ? EMU_CLOCK_RAW : EMU_CLOCK_VIRTUAL, 1);
        CU_ASSERT_EQUAL(switch_channels_of(w.sw[0])->port[0].vcs.turns, !raw);
        vcnet_close(&w);
    }
}

/* All segments of a packet but the last are full; headers come on top of payload and tail. */
static void packets__have_one_short_segment_at_most(void)
{
    for (uint32_t bytes = 0; bytes <= EMU_PACKET_BYTES; bytes++) {
        uint32_t segments = emu_packet_segments(bytes);

        CU_ASSERT_EQUAL(emu_packet_last_wire(bytes, segments),
                        emu_packet_wire_bytes(bytes, segments - 1));
        CU_ASSERT_TRUE(emu_packet_last_wire(bytes, segments) <= EMU_SEG_BYTES);
        CU_ASSERT_EQUAL(wire_ps(bytes, segments) / BYTE_PS,
                        EMU_HEAD_BYTES + (segments - 1) * EMU_CONT_BYTES + bytes + EMU_TAIL_BYTES);
    }
}

/* Cables, groups and profiles that this switch does not support are refused. */
static void create__refuses_unsupported_configurations(void)
{
    struct emu_clock clock = {.mode = EMU_CLOCK_VIRTUAL};
    struct topo_route route = {.stride = 1, .spread = 1};
    struct emu_profile profile;
    struct emu_worker *worker;
    struct switch_group *group;
    struct switch_dev *sw;
    void *old;

    CU_ASSERT_EQUAL_FATAL(emu_worker_create(&worker, 4, &clock, NULL), 0);
    fixture_profile(&profile, "qsnet3", "pool_slots=96");
    profile.pool_slots++;
    CU_ASSERT_EQUAL(switch_create(&sw, worker, 8, &route, &profile, 1), -EINVAL);
    profile.pool_slots--;
    CU_ASSERT_EQUAL(switch_create(&sw, worker, TOPO_PORTS_MAX + 1, &route, &profile, 1), -EINVAL);
    CU_ASSERT_EQUAL_FATAL(switch_create(&sw, worker, 8, &route, &profile, 1), 0);
    CU_ASSERT_EQUAL_FATAL(switch_group_create(&group, 3, 7, -1, 1, EMU_COMBINE_ARRIVAL), 0);
    CU_ASSERT_EQUAL(switch_groups_set(sw, group, &old), -ENOTSUP);
    switch_group_destroy(group, 8, NULL);
    switch_destroy(sw);
    emu_worker_destroy(worker);
}

/* --- conservation and liveness ------------------------------------------------------ */

/* All invariants are checked at every step, while the network backs up and drains. */
static void conserve(const char *spec, const char *set, uint16_t broadcast_bytes)
{
    uint64_t random = test_seed() ^ (uint64_t)(set[9] * 31 + broadcast_bytes);
    uint32_t packets = 1200;
    struct vcnet w;

    vcnet_open(&w, spec, set);
    w.payload = true;
    random_groups(&w, &random);
    random_posts(&w, &random, packets, 8, broadcast_bytes, 30000000);
    w.node[1]->service_ps = 300000;
    w.node[2]->refuse = 300;
    for (uint64_t at_ps = 0; at_ps < 200000000 && emu_windows_next_ps(w.windows) != EMU_NEVER;
         at_ps += 173000) {
        vcnet_advance(&w, at_ps);
        CU_ASSERT_TRUE_FATAL(vcnet_holds(&w));
    }
    CU_ASSERT_TRUE(vcnet_drain(&w, LONG_PS));
    CU_ASSERT_TRUE(vcnet_holds(&w));
    CU_ASSERT_TRUE(vcnet_free(&w, false));
    CU_ASSERT_EQUAL(vcnet_count(&w, POST_ACKED) + vcnet_count(&w, POST_NACKED), packets);
    CU_ASSERT_EQUAL(VCNET_SUM(&w, timeouts), 0);
    CU_ASSERT_EQUAL(VCNET_SUM(&w, bad) + VCNET_SUM(&w, stale), 0);
    for (uint32_t n = 0; n < w.nodes; n++)
        for (uint32_t i = 0; i < w.node[n]->gots; i++)
            CU_ASSERT_TRUE(w.node[n]->got[i].good);
    vcnet_close(&w);
}

static void conservation__holds_at_every_step(void)
{
    static const struct {
        const char *topo, *set;
        uint32_t bytes;
    } cases[] = {{"kary:2,3", "channels=32", 4096},
                 {"kary:3,2", "channels=2 pool_slots=4", 1000},
                 {"kary:4,2", "channels=1 pool_slots=0", 240},
                 {"kary:4,2", "channels=3 pool_slots=16 routing=oblivious", 4096},
                 {"kary:2,2", "channels=4 pool_slots=1 routing=static", 400}};

    test_each_setting (i, sizeof cases / sizeof cases[0])
        conserve(cases[i].topo, cases[i].set, cases[i].bytes);
}

/* A random one of groups 0 to 3 that has @src as a member; -1: none. */
static int live_group(const struct vcnet *w, uint32_t src, uint64_t *random)
{
    uint32_t first = (uint32_t)test_draw(random, 0, 3);

    for (uint32_t i = 0; i < 4; i++)
        if (w->member[(first + i) % 4][src])
            return (int)((first + i) % 4);
    return -1;
}

/*
 * Each node sends to each other node in its own random order, and with chance 1 of 3 to a group
 * before each.
 */
static uint32_t live_posts(struct vcnet *w, uint64_t *random, uint16_t broadcast_bytes)
{
    static const uint16_t sizes[] = {0, 24, 240, 241, 500, 1024, 1024, 2000, 4096};
    uint32_t packets = 0;

    for (uint32_t src = 0; src < w->nodes; src++) {
        uint32_t order = (uint32_t)test_draw(random, 0, w->nodes - 1);

        for (uint32_t i = 0; i < w->nodes; i++) {
            struct vcnet_post post = {.priority = (uint8_t)(test_draw(random, 0, 7)
                                                                ? 0
                                                                : test_draw(random, 1, 3)),
                                      .bytes = sizes[test_draw(random, 0, 8)]};
            int group = test_draw(random, 0, 2) ? -1 : live_group(w, src, random);

            post.dst = (uint16_t)((i ^ order) < w->nodes ? i ^ order : i);
            vcnet_post(w, src, 0, post);
            packets++;
            if (group < 0)
                continue;
            post.group = true;
            post.dst = (uint16_t)group;
            post.bytes = post.bytes > broadcast_bytes ? broadcast_bytes : post.bytes;
            vcnet_post(w, src, 0, post);
            packets++;
        }
    }
    return packets;
}

/*
 * All nodes at full load, without time-outs: the run ends, all packets arrive, all resources are
 * free.
 */
static bool live_run(const char *spec, uint32_t channels, uint32_t pool, uint64_t seed)
{
    /* sizes that the pool allows */
    static const uint16_t broadcast_bytes[] = {240, 492, 744, 996, 1248};
    uint64_t random = seed;
    uint32_t packets;
    struct vcnet w;
    char set[80];
    bool done;

    snprintf(set, sizeof set, "channels=%u pool_slots=%u reply_timeout_ps=1000000000000", channels,
             pool);
    vcnet_open(&w, spec, set);
    random_groups(&w, &random);
    packets = live_posts(&w, &random, pool < 5 ? broadcast_bytes[pool] : 4096);
    done = vcnet_drain(&w, LONG_PS) && vcnet_count(&w, POST_ACKED) == packets &&
           VCNET_SUM(&w, timeouts) == 0;
    CU_ASSERT_TRUE(done);
    check_posts(&w, packets);
    CU_ASSERT_TRUE(vcnet_free(&w, false));
    vcnet_close(&w);
    return done;
}

/*
 * All-to-all traffic with broadcasts in the smallest buffers: no pool and broadcasts of one
 * segment, a pool for one packet of several segments, and QsNet III's pool. The seed selects a
 * third of the cases; FABEMU_TEST_LONG runs all.
 */
static void liveness__at_full_load_in_minimal_buffers(void)
{
    static const char *const specs[] = {"kary:4,2",
                                        "kary:2,4",
                                        "qsnet:40",
                                        "qsnet:20",
                                        "clos:down=4x6,up=3",
                                        "clos:down=4x4,up=4,cables=2",
                                        "clos:radix=4,levels=3"};
    static const uint32_t channels[] = {1, 2, 32}, pools[] = {0, 1, 4, 16};

    const uint32_t all = 7 * 3 * 4, step = longer(1) > 1 ? 1 : all / TEST_ALONE(all / 3);

    for (uint32_t round = 0; round < longer(1); round++)
        for (uint32_t i = (uint32_t)(test_seed() % step); i < all; i += step) {
            uint64_t seed = test_seed() + round * 1000 + i;
            const char *spec = specs[i / 12];

            if (!live_run(spec, channels[i / 4 % 3], pools[i % 4], seed))
                printf("\n    %s channels=%u pool_slots=%u, seed %llu\n    ", spec,
                       channels[i / 4 % 3], pools[i % 4], (unsigned long long)seed);
        }
}

/* The same on a larger network. */
static void liveness__on_three_levels(void)
{
    static const struct {
        uint32_t channels, pool;
    } cases[] = {{1, 0}, {1, 4}, {2, 4}, {2, 16}};

    for (uint32_t i = 0; i < longer(1); i++) {
        uint64_t seed = test_seed() + i;

        CU_ASSERT_TRUE(live_run("kary:4,3", cases[seed % 4].channels, cases[seed % 4].pool, seed));
    }
}

/* --- faults ------------------------------------------------------------------------- */

static const struct emu_fault_rates rough = {.lost = 4000,
                                             .head = 2000,
                                             .payload = 3000,
                                             .duplicated = 4000,
                                             .late = 4000,
                                             .late_ps = 700000};

/*
 * Every packet gets a reply or is dropped by its node. Exactly the acknowledged packets arrived
 * whole.
 */
static void check_fault_run(struct vcnet *w, uint32_t packets, bool broadcasts)
{
    uint32_t over = vcnet_count(w, POST_ACKED) + vcnet_count(w, POST_NACKED) +
                    vcnet_count(w, POST_TIMED_OUT);
    uint8_t *good = calloc((size_t)VCNET_NODES << 12, 1);
    uint32_t lost = 0;

    CU_ASSERT_EQUAL(over, packets);
    for (uint32_t n = 0; n < w->nodes; n++)
        for (uint32_t i = 0; i < w->node[n]->gots; i++) {
            const struct vcnet_got *got = &w->node[n]->got[i];

            if (got->good)
                good[(got->tag >> TAG_NODE) << 12 | (got->tag & 4095)] = 1;
        }
    for (uint32_t n = 0; n < w->nodes && !broadcasts; n++)
        for (uint32_t i = 0; i < w->node[n]->posts; i++)
            lost += w->node[n]->post[i].state == POST_ACKED && !good[n << 12 | (i + 1)];
    CU_ASSERT_EQUAL(lost, 0);
    free(good);
}

/* A reply with a flipped bit counts as lost, and not also as damaged. */
static void faults__count_a_damaged_reply_once(void)
{
    const struct emu_fault_rates all = {.head = EMU_FAULT_UNIT};
    const struct emu_entry ack = {.packet = {.kind = EMU_PACKET_ACK}, .buf = EMU_NO_BUF};
    const struct emu_clock clock = {.mode = EMU_CLOCK_RAW};
    const struct emu_profile profile = {.channels = 1};
    struct emu_rx rx = {.kind = EMU_LINK_NONE};
    struct emu_tx tx = {.kind = EMU_LINK_NONE};
    struct emu_worker *worker;
    struct emu_faults faults;
    struct emu_entry entry;
    enum emu_fate fate;
    struct emu_dev dev;

    CU_ASSERT_EQUAL_FATAL(emu_worker_create(&worker, 1, &clock, NULL), 0);
    emu_dev_init(&dev, worker, NULL);
    CU_ASSERT_EQUAL_FATAL(emu_link_join(&tx, &dev, 0, &rx, &dev, 1, 1, &profile), 0);
    emu_faults_init(&faults, &all, test_seed());
    emu_tx_send(&tx, &ack);
    CU_ASSERT_TRUE(emu_faults_take(&faults, &rx, &worker->cache, 0, &entry, &fate));
    CU_ASSERT_EQUAL(fate, EMU_FATE_LOST);
    CU_ASSERT_EQUAL(emu_faults_errors(&faults), 1);
    emu_link_unjoin(&tx);
    emu_worker_destroy(worker);
}

static void faults__every_packet_ends_and_nothing_leaks(void)
{
    for (uint32_t broadcasts = 0; broadcasts < 2; broadcasts++) {
        uint64_t digest[3], counted[3];

        for (uint32_t workers = 1; workers <= 3; workers++) {
            uint64_t random = test_seed() ^ broadcasts;
            struct vcnet w;

            vcnet_open_on(&w, "kary:4,2", "reply_timeout_ps=20000000 channels=8", EMU_CLOCK_VIRTUAL,
                          workers);
            w.payload = true;
            w.timeout_ps = 60000000;
            random_groups(&w, &random);
            vcnet_faults(&w, &rough, test_seed());
            random_posts(&w, &random, 3000, broadcasts ? 8 : 0, 1024, 60000000);
            CU_ASSERT_TRUE(vcnet_drain(&w, LONG_PS));
            CU_ASSERT_TRUE(vcnet_holds(&w));
            CU_ASSERT_TRUE(vcnet_free(&w, true));
            check_fault_run(&w, 3000, broadcasts);
            CU_ASSERT_TRUE(vcnet_count(&w, POST_ACKED) > 2000);
            CU_ASSERT_TRUE(VCNET_SUM(&w, bad) > 0 && VCNET_SUM(&w, stale) > 0 &&
                           VCNET_SUM(&w, timeouts) > 0);
            digest[workers - 1] = vcnet_digest(&w);
            counted[workers - 1] = VCNET_SUM(&w, bad) * 31 + VCNET_SUM(&w, stale) * 7 +
                                   VCNET_SUM(&w, timeouts) + VCNET_SUM(&w, given_up) * 3;
            vcnet_close(&w);
        }
        CU_ASSERT_EQUAL(digest[0], digest[1]);
        CU_ASSERT_EQUAL(digest[0], digest[2]);
        CU_ASSERT_EQUAL(counted[0], counted[1]);
        CU_ASSERT_EQUAL(counted[0], counted[2]);
    }
}

/* Results do not depend on the number of workers or on how time is cut into windows. */
static void windows__do_not_change_results(void)
{
    uint64_t digest[4];

    for (uint32_t i = 0; i < 4; i++) {
        uint64_t random = test_seed();
        struct vcnet w;

        vcnet_open_on(&w, "kary:4,2", "channels=6 pool_slots=5 choice=random", EMU_CLOCK_VIRTUAL,
                      i < 3 ? i + 1 : 1);
        random_groups(&w, &random);
        random_posts(&w, &random, 2000, 10, 1024, 20000000);
        for (uint64_t at_ps = 7001; i == 3 && at_ps < 20000000; at_ps += 7001)
            vcnet_advance(&w, at_ps);
        CU_ASSERT_TRUE(vcnet_drain(&w, LONG_PS));
        digest[i] = vcnet_digest(&w);
        vcnet_close(&w);
    }
    for (uint32_t i = 1; i < 4; i++)
        CU_ASSERT_EQUAL(digest[i], digest[0]);
}

/* --- clock raw ---------------------------------------------------------------------- */

/*
 * Random counters: segments on three channels, and slots reserved by a fourth, which may still
 * collect them.
 */
static void random_accounts(struct emu_vcs *vcs, uint64_t *random)
{
    emu_vcs_init(vcs, 4, 6, test_draw(random, 0, 1));
    for (uint32_t left = (uint32_t)test_draw(random, 1, 9); left; left--) {
        uint32_t c = (uint32_t)test_draw(random, 0, 2);

        if (emu_vcs_room(vcs) >> c & 1)
            emu_vcs_spend(vcs, c);
    }
    if (test_draw(random, 0, 1))
        emu_vcs_promise(vcs, 3, (uint32_t)test_draw(random, 1, 6));
}

/* A batch of credits has the same effect as its credits one by one; forged credits have none. */
static void credits__batch_equals_single_ones(void)
{
    uint64_t random = test_seed();

    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t c = (uint32_t)test_draw(&random, 0, 3), bad = 0;
        uint32_t count = (uint32_t)test_draw(&random, 1, 8);
        struct emu_vcs one, all;

        random_accounts(&one, &random);
        memcpy(&all, &one, sizeof all);
        for (uint32_t left = count; left; left--) {
            if (one.used[c] > one.promised[c])
                emu_vcs_return(&one, c);
            else
                bad++;
        }
        CU_ASSERT_EQUAL(emu_vcs_return_all(&all, c, count), bad);
        CU_ASSERT_EQUAL(memcmp(&one, &all, sizeof all), 0);
    }
}

static bool raw_over(const struct vcnet *w)
{
    for (uint32_t n = 0; n < w->nodes; n++)
        for (uint32_t i = 0; i < w->node[n]->posts; i++)
            if (w->node[n]->post[i].state <= POST_OPEN)
                return false;
    return true;
}

/*
 * Run passes until every packet has ended. Returns false if nothing has happened for so long that
 * nothing ever will. The wall-clock time of a pass depends on the host, so nothing is judged by it.
 */
static bool raw_run(struct vcnet *w)
{
    const uint64_t silence_ps = UINT64_C(20000000000000);
    uint64_t end_ps = emu_host_ps(0) + silence_ps;

    for (uint32_t n = 0; n < w->nodes; n++)
        emu_dev_again(&w->node[n]->dev);
    while (!raw_over(w) && emu_host_ps(0) < end_ps)
        for (uint32_t i = 0; i < 100; i++)
            for (uint32_t k = 0; k < w->workers; k++)
                if (emu_worker_pass(w->worker[k]))
                    end_ps = emu_host_ps(0) + silence_ps;
    return raw_over(w);
}

/* Packets that will never get a reply time out. Then no resource is in use. */
static void raw_drain(struct vcnet *w, bool lossy)
{
    for (uint32_t i = 0; i < 1000; i++)
        for (uint32_t k = 0; k < w->workers; k++)
            emu_worker_pass(w->worker[k]);
    lossy |= VCNET_SUM(w, timeouts) || vcnet_count(w, POST_TIMED_OUT);
    if (lossy)
        vcnet_ticks(w, 4 * CHANNEL_TICKS);
    vcnet_settle(w);
    CU_ASSERT_TRUE(vcnet_holds(w));
    CU_ASSERT_TRUE(vcnet_free(w, lossy));
}

/*
 * @early: a time-out every few steps, which no packet can meet; else time-outs of the host's clock.
 */
static void raw_timeouts(struct vcnet *w, bool early)
{
    w->timeout_ps = early ? 20000000000 : 2000000000000;
    for (uint32_t s = 0; early && s < w->switches; s++)
        switch_channels_of(w->sw[s])->tick_ps = 0;
}

static void raw_soak(const char *set, uint16_t broadcast_bytes, bool payload, bool early)
{
    uint32_t packets = longer(TEST_ALONE(early ? 2000u : 10000u));
    uint64_t random = test_seed() ^ broadcast_bytes;
    struct vcnet w;

    vcnet_open_on(&w, "kary:4,2", set, EMU_CLOCK_RAW, 1);
    w.payload = payload;
    raw_timeouts(&w, early);
    random_groups(&w, &random);
    random_posts(&w, &random, packets, 8, broadcast_bytes, 0);
    CU_ASSERT_TRUE(raw_run(&w));
    check_posts(&w, packets);
    raw_drain(&w, false);
    vcnet_close(&w);
}

static void raw__soak(void)
{
    raw_soak("", 4096, true, false);
    raw_soak("channels=1 pool_slots=0", 240, false, false);
    raw_soak("channels=2 pool_slots=4 routing=oblivious", 1000, false, false);
}

/*
 * However early time-outs expire, no acknowledged packet is lost, none arrives twice, and nothing
 * leaks.
 */
static void raw__early_timeouts_lose_nothing(void)
{
    raw_soak("", 4096, true, true);
    raw_soak("channels=1 pool_slots=0", 240, true, true);
    raw_soak("channels=2 pool_slots=4", 1000, true, true);
}

/* With faults, and short time-outs of the host's clock. */
static void raw__faults_leak_nothing(void)
{
    uint64_t random = test_seed();
    uint32_t packets = longer(TEST_ALONE(20000u));
    struct vcnet w;

    vcnet_open_on(&w, "kary:4,2", "", EMU_CLOCK_RAW, 1);
    w.payload = true;
    w.timeout_ps = 100000000000;
    for (uint32_t s = 0; s < w.switches; s++)
        switch_channels_of(w.sw[s])->tick_ps = 4000000000;
    random_groups(&w, &random);
    vcnet_faults(&w, &rough, test_seed());
    random_posts(&w, &random, packets, 0, 1024, 0);
    CU_ASSERT_TRUE(raw_run(&w));
    CU_ASSERT_TRUE(vcnet_count(&w, POST_ACKED) > 0);
    check_fault_run(&w, packets, false);
    raw_drain(&w, true);
    vcnet_close(&w);
}

/* Two threads run the workers; if they sleep too early, this thread does the rest. */
static void raw_threads(uint32_t packets, bool early)
{
    uint64_t random = test_seed(), got = 1, before = 0;
    struct vcnet w;

    vcnet_open_on(&w, "kary:4,2", "channels=4 pool_slots=8", EMU_CLOCK_RAW, 2);
    raw_timeouts(&w, early);
    random_groups(&w, &random);
    random_posts(&w, &random, packets, 8, 1024, 0);
    for (uint32_t n = 0; n < w.nodes; n++)
        emu_dev_signal_remote(&w.node[n]->dev, EMU_EVENT_DATA, 1);
    for (uint32_t i = 0; i < 2; i++)
        CU_ASSERT_EQUAL_FATAL(emu_thread_start(&w.thread[i], w.worker[i], NULL, "channel-test"), 0);
    while (got != before) {
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        before = got;
        got = 1;
        for (uint32_t n = 0; n < w.nodes; n++)
            got += emu_count_read(&w.node[n]->rx.counts.segments);
    }
    for (uint32_t i = 0; i < 2; i++)
        emu_thread_stop(w.thread[i]);
    CU_ASSERT_TRUE(raw_run(&w));
    check_posts(&w, packets);
    raw_drain(&w, false);
    vcnet_close(&w);
}

static void raw__runs_on_threads(void)
{
    raw_threads(longer(TEST_TRIALS(4000u)), false);
    raw_threads(longer(TEST_TRIALS(4000u)), true);
}

/*
 * Return whether all posts are over, and nothing of them is in the network. On a late host a post
 * may end by a time-out while its packet is on its way.
 */
static bool real_over(struct vcnet *w)
{
    if (!raw_over(w))
        return false;
    vcnet_settle(w);
    return vcnet_free(w, VCNET_SUM(w, timeouts) > 0);
}

/* On the host's clock nothing arrives early, and all arrives, however late the host is. */
static void real__keeps_its_times(void)
{
    uint64_t random = test_seed();
    uint64_t end_ps;
    struct vcnet w;

    vcnet_open_on(&w, "kary:4,2", "reply_timeout_ps=1000000000000", EMU_CLOCK_REAL, 1);
    w.payload = true;
    random_groups(&w, &random);
    random_posts(&w, &random, 1000, 8, 1024, 1000000000);
    end_ps = emu_host_ps(0) + UINT64_C(20000000000000);
    for (uint32_t n = 0; n < w.nodes; n++)
        emu_dev_again(&w.node[n]->dev);
    while (!real_over(&w) && emu_host_ps(0) < end_ps)
        emu_worker_pass(w.worker[0]);
    check_posts(&w, 1000);
    for (uint32_t n = 0; n < w.nodes; n++)
        for (uint32_t i = 0; i < w.node[n]->gots; i++) {
            const struct vcnet_got *got = &w.node[n]->got[i];
            const struct vcnode *from = w.node[got->tag >> TAG_NODE];
            const struct vcnet_post *post = &from->post[(got->tag & ((1u << TAG_NODE) - 1)) - 1];

            CU_ASSERT_TRUE(got->good);
            CU_ASSERT_TRUE(got->head_ps >= post->ready_ps + 2 * HOP_PS);
            CU_ASSERT_TRUE(post->state != POST_ACKED ||
                           post->reply_ps >= got->whole_ps + 2 * HOP_PS);
        }
    vcnet_settle(&w);
    CU_ASSERT_TRUE(vcnet_free(&w, VCNET_SUM(&w, timeouts) > 0));
    vcnet_close(&w);
}

int main(void)
{
    static const struct test_case cases[] = {
        {"times__a_packet_takes_a_hop_each_way_and_its_length_once",
         times__a_packet_takes_a_hop_each_way_and_its_length_once},
        {"times__a_segment_waits_for_its_slot", times__a_segment_waits_for_its_slot},
        CASE_ALONE(channels__two_or_three_fill_a_link),
        {"priorities__a_small_packet_passes_bulk", priorities__a_small_packet_passes_bulk},
        {"priorities__a_small_put_waits_for_a_segment_a_hop",
         priorities__a_small_put_waits_for_a_segment_a_hop},
        {"priorities__long_packets_leave_channels", priorities__long_packets_leave_channels},
        {"arbitration__serves_inputs_in_rotation", arbitration__serves_inputs_in_rotation},
        {"arbitration__alternates_broadcasts_and_others",
         arbitration__alternates_broadcasts_and_others},
        {"replies__are_merged", replies__are_merged},
        {"replies__one_nack_makes_a_nack", replies__one_nack_makes_a_nack},
        {"replies__unreachable_packet_gets_a_nack", replies__unreachable_packet_gets_a_nack},
        {"timeouts__free_everything", timeouts__free_everything},
        {"timeouts__late_replies_are_stale", timeouts__late_replies_are_stale},
        {"timeouts__end_packets_that_others_overtake", timeouts__end_packets_that_others_overtake},
        {"timeouts__a_new_head_ends_the_packet_before",
         timeouts__a_new_head_ends_the_packet_before},
        CASE_ALONE(timeouts__early_ones_lose_nothing),
        {"routing__adaptive_spreads_static_does_not", routing__adaptive_spreads_static_does_not},
        {"routing__static_spreads_destinations", routing__static_spreads_destinations},
        {"routing__static_uses_parallel_links", routing__static_uses_parallel_links},
        {"routing__adaptive_uses_equivalent_links", routing__adaptive_uses_equivalent_links},
        {"input__drops_protocol_violations", input__drops_protocol_violations},
        {"broadcasts__forward_no_bad_continuation", broadcasts__forward_no_bad_continuation},
        {"broadcasts__wait_at_a_stuck_port", broadcasts__wait_at_a_stuck_port},
        {"broadcasts__do_not_overtake", broadcasts__do_not_overtake},
        {"broadcasts__are_captured", broadcasts__are_captured},
        {"broadcasts__lost_segment_releases_its_slot", broadcasts__lost_segment_releases_its_slot},
        {"input__accepts_no_more_than_its_slots", input__accepts_no_more_than_its_slots},
        {"cut_through__forwards_no_more_than_requested",
         cut_through__forwards_no_more_than_requested},
        {"cut_through__forwards_no_more_than_fit", cut_through__forwards_no_more_than_fit},
        {"cut_through__forwards_expected_segments_only",
         cut_through__forwards_expected_segments_only},
        {"cut_through__forwards_nothing_twice", cut_through__forwards_nothing_twice},
        {"cut_through__does_not_overtake", cut_through__does_not_overtake},
        {"cut_through__matches_replies_to_packets", cut_through__matches_replies_to_packets},
        {"channels__rotate_on_timed_clocks_only", channels__rotate_on_timed_clocks_only},
        {"packets__have_one_short_segment_at_most", packets__have_one_short_segment_at_most},
        {"create__refuses_unsupported_configurations", create__refuses_unsupported_configurations},
        {"conservation__holds_at_every_step", conservation__holds_at_every_step},
        {"liveness__at_full_load_in_minimal_buffers", liveness__at_full_load_in_minimal_buffers},
        CASE_ALONE(liveness__on_three_levels),
        {"faults__count_a_damaged_reply_once", faults__count_a_damaged_reply_once},
        {"faults__every_packet_ends_and_nothing_leaks",
         faults__every_packet_ends_and_nothing_leaks},
        {"windows__do_not_change_results", windows__do_not_change_results},
        {"credits__batch_equals_single_ones", credits__batch_equals_single_ones},
        {"raw__soak", raw__soak},
        {"raw__early_timeouts_lose_nothing", raw__early_timeouts_lose_nothing},
        {"raw__faults_leak_nothing", raw__faults_leak_nothing},
        {"raw__runs_on_threads", raw__runs_on_threads},
        {"real__keeps_its_times", real__keeps_its_times},
        {NULL, NULL},
    };

    return test_run("channel", cases);
}
