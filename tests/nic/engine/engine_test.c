/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_test.c - the link engine: packets, acknowledgments, and every fault that can occur between
 * two engines.
 */
#include <string.h>
#include <time.h>

#include "nic/engine/internal.h"
#include "switch/channel/channel.h"
#include "tests/test.h"
#include "tests/fixtures/engine/hosts.h"

#define LIMIT_PS 10000000000000u /* simulated time: 10 s */

/* Run a virtual fixture to its end: every packet ended exactly once, and nothing is left. */
static void run_to_end(struct engine_hosts *w)
{
    hosts_run(w, LIMIT_PS);
    CU_ASSERT_EQUAL(hosts_settled(w), coordinator_awaited(w));
    CU_ASSERT_TRUE(hosts_exactly_once(w));
    CU_ASSERT_TRUE(hosts_clean(w));
}

/* --- delivery ----------------------------------------------------------------------- */

#define BYTES_MOST 4096u
#define SIZES      (TEST_ALONE(BYTES_MOST) + 1u) /* number of message sizes, from 0 bytes on, */
#define SIZE_STEP  (BYTES_MOST / (SIZES - 1u))   /* in steps of this many bytes, */
static uint64_t size_first[BYTES_MOST + 2u];     /* number of segments before each message */

static uint64_t sizes_posts(void)
{
    for (uint32_t size = 0; size < SIZES; size++) {
        uint32_t bytes = size * SIZE_STEP;

        size_first[size + 1] = size_first[size] +
                               (bytes ? (bytes + EMU_PAYLOAD_BYTES - 1) / EMU_PAYLOAD_BYTES : 1);
    }
    return size_first[SIZES];
}

static void draw_sizes(const struct engine_hosts *w, uint32_t node, uint64_t i,
                       struct hosts_post *ret)
{
    uint32_t low = 0, high = SIZES;
    uint32_t left;

    (void)w;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;

        *(size_first[middle] <= i ? &low : &high) = middle;
    }
    left = low * SIZE_STEP - (uint32_t)(i - size_first[low]) * EMU_PAYLOAD_BYTES;
    *ret =
        (struct hosts_post){.ready_ps = (uint64_t)low * 3000000,
                            .dst = 1 - node,
                            .kind = EMU_UNICAST,
                            .len = (uint8_t)(left < EMU_PAYLOAD_BYTES ? left : EMU_PAYLOAD_BYTES),
                            .length_only = (low + node) % 5 == 0};
}

static void sizes_in_packets_of(const char *set)
{
    struct engine_hosts_config setting = {.clock = EMU_CLOCK_VIRTUAL,
                                          .set = set,
                                          .draw = draw_sizes,
                                          .posts = sizes_posts()};
    struct engine_hosts w;

    hosts_begin(&w, &setting);
    run_to_end(&w);
    CU_ASSERT_EQUAL(COUNT(&w, retransmissions), 0);
    CU_ASSERT_EQUAL(COUNT(&w, broken), 0);
    CU_ASSERT_EQUAL(COUNT(&w, acks), COUNT(&w, packets));
    hosts_end(&w);
}

static void packets__of_every_size_arrive(void)
{
    sizes_in_packets_of("packet_bytes=4096");
    sizes_in_packets_of("packet_bytes=1024");
    sizes_in_packets_of("packet_bytes=256 channels=1 pool_slots=0");
}

/*
 * Four full host segments make one packet of five wire segments; an empty packet has 32 bytes in
 * all.
 */
static void packets__gather_segments_posted_together(void)
{
    struct engine_hosts_config setting = {.clock = EMU_CLOCK_VIRTUAL,
                                          .draw = hosts_draw_whole,
                                          .posts = 400};
    struct engine_hosts w;

    hosts_begin(&w, &setting);
    run_to_end(&w);
    CU_ASSERT_EQUAL(COUNT(&w, packets), 2 * 100);
    CU_ASSERT_EQUAL(emu_count_read(&w.engine[0]->link[0].tx.counts.segments),
                    100 * 5 + 100); /* and the replies */
    CU_ASSERT_EQUAL(EMU_HEAD_BYTES + EMU_HDR_BYTES + EMU_TAIL_BYTES, 32);
    hosts_end(&w);
}

static void draw_for_no_group(const struct engine_hosts *w, uint32_t node, uint64_t i,
                              struct hosts_post *ret)
{
    hosts_draw_whole(w, node, i, ret);
    ret->kind = i % 3 ? EMU_UNICAST : EMU_ALLREDUCE;
}

static void combining__without_a_group_is_reported_as_failed(void)
{
    struct engine_hosts_config setting = {.clock = EMU_CLOCK_VIRTUAL,
                                          .draw = draw_for_no_group,
                                          .posts = 300,
                                          .no_group = true};
    struct engine_hosts w;

    hosts_begin(&w, &setting);
    run_to_end(&w);
    CU_ASSERT_EQUAL(COUNT(&w, not_in_group), 2 * 100);
    CU_ASSERT_EQUAL(emu_count_read(&w.host[0]->failed), 100);
    hosts_end(&w);
}

/* --- faulty cables ------------------------------------------------------------------ */

static void bad_cables(uint32_t each, uint32_t links, uint32_t first_seq, uint64_t posts)
{
    struct engine_hosts_config setting = {.clock = EMU_CLOCK_VIRTUAL,
                                          .links = links,
                                          .first_seq = first_seq,
                                          .set = "reply_timeout_ps=20000000",
                                          .faults = fixture_faults(each),
                                          .posts = posts};
    struct engine_hosts w;

    hosts_begin(&w, &setting);
    run_to_end(&w);
    CU_ASSERT_EQUAL(COUNT(&w, lost), 0);
    CU_ASSERT_TRUE(COUNT(&w, retransmissions) > 0);
    CU_ASSERT_TRUE(COUNT(&w, duplicates) > 0);
    CU_ASSERT_TRUE(COUNT(&w, broken) > 0);
    CU_ASSERT_TRUE(COUNT(&w, timeouts) > 0);
    hosts_end(&w);
}

static void faults__everything_arrives_once(void)
{
    bad_cables(20000, 1, 0, TEST_TRIALS(4000u)); /* together 1e-1 */
    bad_cables(2000, 1, 0, TEST_TRIALS(20000u));
    bad_cables(1000, 2, 0, TEST_TRIALS(40000u));
}

static void sequence__wraps(void)
{
    bad_cables(10000, 1, UINT32_MAX - 300, 6000);
    bad_cables(10000, 2, (UINT32_MAX >> ENGINE_TRY_BITS) - 300, 6000);
    bad_cables(10000, 1, (UINT32_MAX >> ENGINE_TRY_BITS) / 2 - 300, 6000);
}

#define PAUSE_PS 10000000000u /* 10 ms pause after this many segments */
#define TURN     20u

static uint32_t group_of_turn[2];

/* Node 0 sends bursts to two groups alternately. */
static void draw_two_groups(const struct engine_hosts *w, uint32_t node, uint64_t i,
                            struct hosts_post *ret)
{
    (void)w;
    (void)node;
    *ret = (struct hosts_post){.kind = EMU_MULTICAST,
                               .len = 8,
                               .dst = group_of_turn[i / TURN % 2],
                               .ready_ps = i / TURN * PAUSE_PS};
}

/*
 * A member of one of a source's groups does not see packets to the other group; however many these
 * are, its next packet counts as new. @jump: the number of packets to the second group.
 */
static void jump_elsewhere(uint32_t jump)
{
    struct engine_hosts_config setting = {.clock = EMU_CLOCK_VIRTUAL,
                                          .topo = "kary:2,2",
                                          .posts = 3 * TURN,
                                          .draw = draw_two_groups};
    static const uint32_t nodes[2][2] = {{0, 1}, {0, 2}};
    char error[256];
    struct engine_hosts w;

    hosts_begin(&w, &setting);
    for (uint32_t g = 0; g < 2; g++)
        CU_ASSERT_EQUAL_FATAL(fabric_multicast_create(w.fabric, nodes[g], 2, 1, &group_of_turn[g],
                                                      error, sizeof error),
                              0);
    for (uint32_t n = 1; n < w.hosts; n++)
        w.host[n]->posts = 0;
    hosts_advance(&w, PAUSE_PS - 1);
    CU_ASSERT_EQUAL(emu_count_read(&w.host[1]->got), TURN);
    hosts_flow(&w, 0, group_of_turn[1])->next += jump;
    hosts_flow(&w, 0, group_of_turn[1])->acked += jump;
    hosts_run(&w, LIMIT_PS);
    CU_ASSERT_EQUAL(emu_count_read(&w.host[1]->got), 2 * TURN);
    CU_ASSERT_EQUAL(emu_count_read(&w.host[2]->got), TURN);
    CU_ASSERT_EQUAL(COUNT(&w, duplicates), 0);
    CU_ASSERT_TRUE(hosts_clean(&w));
    hosts_end(&w);
}

static void sequence__is_separate_per_group(void)
{
    const uint32_t jumps[] = {
        300,      1u << 20,         ENGINE_SPAN - 1,         (1u << 25) - 100, 1u << 25,
        3u << 24, (1u << 26) - 300, (1u << 26) - (1u << 19), (1u << 26) + 300};

    for (uint32_t j = 0; j < sizeof jumps / sizeof jumps[0]; j++)
        jump_elsewhere(jumps[j]);
}

static void draw_pauses(const struct engine_hosts *w, uint32_t node, uint64_t i,
                        struct hosts_post *ret)
{
    hosts_draw_whole(w, node, i, ret);
    ret->ready_ps = i / TURN * PAUSE_PS;
}

/*
 * When no packet has been acknowledged for so long that a receiver could confuse new numbers with
 * old ones, packets are dropped at once; before that they are not.
 */
static void sequence__stops_before_numbers_alias(void)
{
    struct engine_hosts_config setting = {.clock = EMU_CLOCK_VIRTUAL,
                                          .draw = draw_pauses,
                                          .posts = 2 * TURN};
    struct engine_hosts w;

    hosts_begin(&w, &setting);
    w.host[1]->posts = 0;
    w.engine[0]->send.flow[1].next += ENGINE_SPAN - 1;
    hosts_advance(&w, PAUSE_PS - 1);
    CU_ASSERT_EQUAL(emu_count_read(&w.host[1]->got), TURN);
    w.engine[0]->send.flow[1].next += ENGINE_SPAN;
    hosts_run(&w, LIMIT_PS);
    CU_ASSERT_EQUAL(emu_count_read(&w.host[0]->failed), TURN);
    CU_ASSERT_EQUAL(COUNT(&w, lost), TURN);
    CU_ASSERT_TRUE(hosts_exactly_once(&w));
    CU_ASSERT_TRUE(hosts_clean(&w));
    hosts_end(&w);
}

/* No sender runs ahead of its oldest packet by more than the window, whatever is lost. */
static void window__holds_the_sender(void)
{
    struct engine_hosts_config setting = {.clock = EMU_CLOCK_VIRTUAL,
                                          .draw = hosts_draw_whole,
                                          .posts = 8000,
                                          .faults = {.lost = 20000}};
    uint32_t most = 0;
    struct engine_hosts w;

    hosts_begin(&w, &setting);
    for (uint64_t at_ps = 0; hosts_settled(&w) < 16000 && at_ps < LIMIT_PS; at_ps += 2000000) {
        hosts_advance(&w, at_ps);
        for (uint32_t n = 0; n < w.hosts; n++) {
            const struct engine_flow *flow = &w.engine[n]->send.flow[1 - n];
            uint32_t ahead =
                flow->oldest ? flow->next - w.engine[n]->send.packet[flow->oldest - 1].seq : 0;

            most = ahead > most ? ahead : most;
            CU_ASSERT_PTR_NULL(engine_check(w.engine[n]));
        }
    }
    CU_ASSERT_EQUAL(most, ENGINE_WINDOW); /* the window limited it, and was not exceeded */
    run_to_end(&w);
    hosts_end(&w);
}

static void retries__end_at_the_limit(void)
{
    struct engine_hosts_config setting = {.clock = EMU_CLOCK_VIRTUAL,
                                          .set = "retry_limit=4",
                                          .posts = 2000,
                                          .faults = {.lost = EMU_FAULT_UNIT},
                                          .only_one_bad = true};
    struct engine_hosts w;

    hosts_begin(&w, &setting);
    w.host[1]->posts = 0;
    hosts_run(&w, LIMIT_PS);
    CU_ASSERT_EQUAL(emu_count_read(&w.host[0]->failed), 2000);
    CU_ASSERT_EQUAL(COUNT(&w, lost), 2000);
    CU_ASSERT_EQUAL(COUNT(&w, retransmissions), 3 * COUNT(&w, packets));
    CU_ASSERT_TRUE(hosts_exactly_once(&w));
    CU_ASSERT_TRUE(hosts_clean(&w));
    hosts_end(&w);
}

/* --- queueing behind unreachable destinations ---------------------------------------- */

#define NOWHERE 3u
#define BEHIND  6000u /* segments to that node: many times what an engine holds */

/* All packets go to an unreachable node, the last one to another node. */
static void draw_nowhere(const struct engine_hosts *w, uint32_t node, uint64_t i,
                         struct hosts_post *ret)
{
    hosts_draw_whole(w, node, i, ret);
    ret->dst = i < BEHIND ? NOWHERE : 1;
}

static void nowhere_open(struct engine_hosts *w)
{
    struct engine_hosts_config setting = {
        .clock = EMU_CLOCK_VIRTUAL,
        .topo = "kary:4,1",
        .set = "retry_ps=1000 retry_limit=60 reply_timeout_ps=2000000",
        .draw = draw_nowhere,
        .posts = BEHIND + 1};

    hosts_begin(w, &setting);
    for (uint32_t n = 1; n < w->hosts; n++)
        w->host[n]->posts = 0;
    w->engine_faults[NOWHERE][0].rates.lost = EMU_FAULT_UNIT;
    CU_ASSERT_TRUE(w->engine[0]->send.packets * ENGINE_SEGS_MAX < BEHIND);
}

/* When the first packet was dropped. */
static uint64_t first_given_up_ps(struct engine_hosts *w)
{
    while (!emu_count_read(&w->host[0]->failed) && w->now_ps < LIMIT_PS)
        hosts_advance(w, w->now_ps + 1000000);
    return w->now_ps;
}

/*
 * The first packets get all retries. The packets behind them get only few, because otherwise they
 * would block the queue far longer.
 */
static void destination__lost_blocks_others_once(void)
{
    uint64_t first_ps, turns;
    struct engine_hosts w;

    nowhere_open(&w);
    turns = BEHIND / (w.engine[0]->send.packets * (w.profile.packet_bytes / EMU_SEG_BYTES));
    first_ps = first_given_up_ps(&w);
    CU_ASSERT_EQUAL(emu_count_read(&w.host[1]->got), 0);
    CU_ASSERT_TRUE(w.engine[0]->send.flow[NOWHERE].cut);
    hosts_run(&w, LIMIT_PS);
    CU_ASSERT_EQUAL(emu_count_read(&w.host[1]->got), 1);
    CU_ASSERT_TRUE(w.host[1]->last_ps > first_ps && w.host[1]->last_ps < turns * first_ps / 2);
    CU_ASSERT_EQUAL(emu_count_read(&w.host[0]->failed), BEHIND);
    CU_ASSERT_TRUE(hosts_exactly_once(&w));
    CU_ASSERT_TRUE(hosts_clean(&w));
    hosts_end(&w);
}

/* If the destination is known to be unreachable, even the first packets get few retries. */
static void destination__known_lost_gets_few_retries(void)
{
    uint64_t first_ps;
    struct engine_hosts w;

    nowhere_open(&w);
    first_ps = first_given_up_ps(&w);
    hosts_end(&w);
    nowhere_open(&w);
    engine_cut(w.engine[0], NOWHERE, false);
    CU_ASSERT_TRUE(first_given_up_ps(&w) < first_ps);
    hosts_run(&w, LIMIT_PS);
    CU_ASSERT_EQUAL(emu_count_read(&w.host[0]->failed), BEHIND);
    CU_ASSERT_EQUAL(COUNT(&w, packets) * ENGINE_DOUBLINGS,
                    COUNT(&w, retransmissions) + ENGINE_DOUBLINGS);
    hosts_end(&w);
}

/* After one acknowledgment, packets get every retry again. */
static void destination__recovered_gets_every_retry(void)
{
    struct engine_hosts w;

    nowhere_open(&w);
    first_given_up_ps(&w);
    w.engine_faults[NOWHERE][0].rates.lost = 0;
    hosts_run(&w, LIMIT_PS);
    CU_ASSERT_FALSE(w.engine[0]->send.flow[NOWHERE].cut);
    CU_ASSERT_TRUE(emu_count_read(&w.host[NOWHERE]->got) > 0);
    CU_ASSERT_EQUAL(hosts_settled(&w), BEHIND + 1);
    CU_ASSERT_TRUE(hosts_exactly_once(&w));
    CU_ASSERT_TRUE(hosts_clean(&w));
    hosts_end(&w);
}

/* Without a retry limit no packet is dropped, even after more retries than the counter holds. */
static void retries__continue_without_a_limit(void)
{
    struct engine_hosts_config setting = {.clock = EMU_CLOCK_VIRTUAL,
                                          .set = "retry_ps=1 reply_timeout_ps=2000000",
                                          .posts = 1,
                                          .faults = {.lost = EMU_FAULT_UNIT},
                                          .only_one_bad = true};
    struct engine_hosts w;

    hosts_begin(&w, &setting);
    w.profile.retry_limit = EMU_RETRIES_ENDLESS;
    w.host[1]->posts = 0;
    for (uint64_t ps = 0; COUNT(&w, retransmissions) < 70000 && ps < UINT64_C(1000000000000);)
        hosts_advance(&w, ps += 10000000000);
    CU_ASSERT_TRUE(COUNT(&w, retransmissions) >= 70000);
    CU_ASSERT_EQUAL(emu_count_read(&w.host[0]->failed), 0);
    CU_ASSERT_EQUAL(COUNT(&w, packets), 1);
    hosts_end(&w);
}

/* --- links and channels ------------------------------------------------------------- */

/* Time until all of @posts full segments of host 0 have arrived. */
static uint64_t stream_ps(struct engine_hosts *w)
{
    w->host[1]->posts = 0;
    hosts_run(w, LIMIT_PS);
    CU_ASSERT_EQUAL(emu_count_read(&w->host[1]->got), w->host[0]->posts);
    return w->host[1]->last_ps - w->profile.nic_recv_ps;
}

static void links__share_the_load(void)
{
    struct engine_hosts_config setting = {.clock = EMU_CLOCK_VIRTUAL,
                                          .draw = hosts_draw_whole,
                                          .posts = 4000};
    uint64_t one_ps, two_ps, sent[2];
    struct engine_hosts w;

    hosts_begin(&w, &setting);
    one_ps = stream_ps(&w);
    hosts_end(&w);
    setting.links = 2;
    hosts_begin(&w, &setting);
    two_ps = stream_ps(&w);
    for (uint32_t l = 0; l < 2; l++)
        sent[l] = emu_count_read(&w.engine[0]->link[l].tx.counts.segments);
    CU_ASSERT_TRUE(one_ps > 4000 * 256 * 400); /* the link's rate */
    CU_ASSERT_TRUE(one_ps < 4000 * 256 * 400 / 100 * 107);
    CU_ASSERT_TRUE(two_ps < one_ps / 100 * 52);
    CU_ASSERT_EQUAL(sent[0] + sent[1], 5000);
    CU_ASSERT_TRUE(sent[0] > 2450 && sent[0] < 2550);
    hosts_end(&w);
}

/*
 * On a long cable, as many packets are in flight as there are channels; bulk traffic leaves one of
 * several free.
 */
static void channels__bound_packets_in_flight(void)
{
    const char *set[] = {"channel_ps=20000000", "channel_ps=20000000 channels=5"};
    const uint32_t want[] = {31, 5};

    for (uint32_t s = 0; s < 2; s++) {
        struct engine_hosts_config setting = {.clock = EMU_CLOCK_VIRTUAL,
                                              .set = set[s],
                                              .draw = hosts_draw_whole,
                                              .posts = 1000};
        uint32_t most = 0;
        struct engine_hosts w;

        hosts_begin(&w, &setting);
        for (uint64_t at_ps = 0; at_ps < 100000000; at_ps += 500000) {
            uint32_t open;

            hosts_advance(&w, at_ps);
            open = emu_vcs_pending(&w.engine[0]->link[0].vcs);
            most = open > most ? open : most;
        }
        CU_ASSERT_EQUAL(most, want[s]);
        run_to_end(&w);
        hosts_end(&w);
    }
}

/* A small segment among full ones. */
static void draw_urgent(const struct engine_hosts *w, uint32_t node, uint64_t i,
                        struct hosts_post *ret)
{
    hosts_draw_whole(w, node, i, ret);
    if (i == 300)
        ret->len = 8;
}

static void priority__lets_small_packets_overtake(void)
{
    struct engine_hosts_config setting = {.clock = EMU_CLOCK_VIRTUAL,
                                          .draw = draw_urgent,
                                          .posts = 400};
    uint64_t before = 0, at_ps = 0;
    struct engine_hosts w;

    hosts_begin(&w, &setting);
    w.host[1]->posts = 0;
    while (!*hosts_mark(w.host[1], 0, 300) && at_ps < LIMIT_PS)
        hosts_advance(&w, at_ps += 100000);
    for (uint32_t i = 0; i < 300; i++)
        before += *hosts_mark(w.host[1], 0, i);
    CU_ASSERT_TRUE(before < 30); /* it overtook everything queued at the engine */
    hosts_run(&w, LIMIT_PS);
    CU_ASSERT_TRUE(hosts_exactly_once(&w));
    hosts_end(&w);
}

/*
 * Bulk traffic uses all but one channel of a long cable: a small packet need not wait for a reply.
 */
static void priority__finds_a_channel(void)
{
    struct engine_hosts_config setting = {.clock = EMU_CLOCK_VIRTUAL,
                                          .set = "channel_ps=20000000",
                                          .draw = draw_urgent,
                                          .posts = 400};
    uint64_t at_ps = 0;
    struct engine_hosts w;

    hosts_begin(&w, &setting);
    w.host[1]->posts = 0;
    while (!*hosts_mark(w.host[1], 0, 300) && at_ps < LIMIT_PS)
        hosts_advance(&w, at_ps += 100000);
    CU_ASSERT_TRUE(at_ps < 2 * w.profile.channel_ps);
    hosts_end(&w);
}

/* --- hosts -------------------------------------------------------------------------- */

/*
 * A host that takes nothing for many time-outs backs the sender up; nothing is lost or duplicated.
 */
static void host__that_takes_nothing_causes_backpressure(void)
{
    struct engine_hosts_config setting = {.clock = EMU_CLOCK_VIRTUAL,
                                          .posts = 3000,
                                          .set = "reply_timeout_ps=100000000"};
    struct engine_hosts w;

    hosts_begin(&w, &setting);
    w.host[1]->deaf = true;
    w.host[1]->wake_ps = 5000000000;
    emu_dev_wake(&w.host[1]->dev, 0);
    hosts_advance(&w, 4999999999);
    CU_ASSERT_EQUAL(emu_count_read(&w.host[1]->got), 0);
    CU_ASSERT_TRUE(w.host[0]->sent < 2000);
    CU_ASSERT_TRUE(emu_count_read(&w.host[0]->got) == 3000);
    run_to_end(&w);
    CU_ASSERT_EQUAL(COUNT(&w, lost), 0);
    hosts_end(&w);
}

/* Packets to a node without a process are accepted, dropped, counted and acknowledged. */
static void host__unplugged_drops_packets(void)
{
    struct engine_hosts_config setting = {.clock = EMU_CLOCK_VIRTUAL, .posts = 500};
    struct engine_hosts w;

    hosts_begin(&w, &setting);
    w.host[1]->posts = 0;
    emu_link_unjoin(&w.engine[1]->host.out);
    emu_link_unjoin(&w.host[1]->tx);
    memset(&w.engine[1]->host.in, 0, sizeof w.engine[1]->host.in); /* it was the end of a cable */
    memset(&w.engine[1]->host.out, 0, sizeof w.engine[1]->host.out);
    CU_ASSERT_EQUAL_FATAL(emu_link_hostif(&w.engine[1]->host.out, &w.engine[1]->host.in,
                                          &w.engine[1]->dev, ENGINE_HOST, ENGINE_HOSTIF_CREDITS,
                                          engine_host_profile(w.engine[1])),
                          0);
    memset(&w.host[1]->rx, 0, sizeof w.host[1]->rx);
    hosts_run(&w, LIMIT_PS);
    CU_ASSERT_EQUAL(emu_count_read(&w.engine[1]->host.out.counts.dropped), 500);
    CU_ASSERT_EQUAL(COUNT(&w, acks), COUNT(&w, packets));
    CU_ASSERT_TRUE(hosts_clean(&w));
    hosts_end(&w);
}

/* --- clocks ------------------------------------------------------------------------- */

static uint64_t digest_of(const char *topo, uint32_t workers)
{
    struct engine_hosts_config setting = {.clock = EMU_CLOCK_VIRTUAL,
                                          .topo = topo,
                                          .workers = workers,
                                          .links = topo ? 1 : 2,
                                          .set = "reply_timeout_ps=20000000",
                                          .faults = fixture_faults(2000),
                                          .posts = TEST_TRIALS(topo ? 1000u : 4000u)};
    uint64_t digest = 0;
    struct engine_hosts w;

    hosts_begin(&w, &setting);
    run_to_end(&w);
    for (uint32_t n = 0; n < w.hosts; n++)
        digest = digest * 31 + w.host[n]->digest;
    digest += COUNT(&w, retransmissions) << 32;
    hosts_end(&w);
    return digest;
}

static void virtual__is_the_same_for_any_number_of_workers(void)
{
    const char *topos[] = {NULL, "kary:2,3"};

    for (uint32_t t = 0; t < 2; t++) {
        uint64_t digest = digest_of(topos[t], 1);

        CU_ASSERT_EQUAL(digest_of(topos[t], 2), digest);
        CU_ASSERT_EQUAL(digest_of(topos[t], 3), digest);
        CU_ASSERT_EQUAL(digest_of(topos[t], 1), digest);
    }
}

/* A third of the packets at first, the rest after the clock may have been rebased. */
static void draw_based(const struct engine_hosts *w, uint32_t node, uint64_t i,
                       struct hosts_post *ret)
{
    hosts_draw_mixed(w, node, i, ret);
    ret->ready_ps = w->base_ps;
}

/*
 * The clock is rebased while packets are on faulty cables, in backoff, or waiting for replies.
 * Every stored time must be rebased: an overlooked one would expire 13 days later.
 */
static void rebase__changes_nothing(void)
{
    const char *topos[] = {NULL, "kary:4,2"};

    test_each_setting (t, 2) {
        struct engine_hosts_config setting = {.clock = EMU_CLOCK_VIRTUAL,
                                              .topo = topos[t],
                                              .posts = topos[t] ? 1000 + TEST_ALONE(2000u) : 3000,
                                              .links = topos[t] ? 1 : 2,
                                              .draw = draw_based,
                                              .faults = fixture_faults(topos[t] ? 2000 : 10000),
                                              .set = "reply_timeout_ps=20000000"};
        struct engine_hosts w;

        hosts_begin(&w, &setting);
        w.base_ps = EMU_REBASE_PS;
        for (uint32_t turn = 1; turn <= 2; turn++) { /* and there is enough traffic left */
            hosts_advance(&w, w.base_ps + turn * 100000000);
            CU_ASSERT_TRUE(COUNT(&w, retransmissions) > 0 && !hosts_idle(&w));
            hosts_rebase(&w, EMU_REBASE_BY_PS);
        }
        hosts_run(&w, w.now_ps + LIMIT_PS);
        CU_ASSERT_EQUAL(hosts_settled(&w), coordinator_awaited(&w));
        CU_ASSERT_TRUE(hosts_exactly_once(&w));
        CU_ASSERT_TRUE(hosts_clean(&w));
        hosts_end(&w);
    }
}

/* Virtual time ends before its numbers wrap; up to then nothing changes. */
static void virtual__ends_before_times_wrap(void)
{
    struct engine_hosts_config setting = {.clock = EMU_CLOCK_VIRTUAL,
                                          .topo = "kary:2,2",
                                          .posts = 300,
                                          .draw = draw_based,
                                          .faults = fixture_faults(2000),
                                          .set = "reply_timeout_ps=20000000"};
    struct engine_hosts w;

    hosts_begin(&w, &setting);
    for (uint32_t n = 0; n < w.hosts; n++)
        w.host[n]->posts = 200;
    w.base_ps = EMU_LAST_PS - LIMIT_PS;
    hosts_run(&w, EMU_LAST_PS);
    CU_ASSERT_TRUE(hosts_exactly_once(&w) && hosts_clean(&w));
    w.base_ps = EMU_LAST_PS + 1;
    for (uint32_t n = 0; n < w.hosts; n++) {
        w.host[n]->posts = 300;
        emu_dev_wake(&w.host[n]->dev, EMU_LAST_PS);
    }
    hosts_run(&w, UINT64_MAX);
    CU_ASSERT_EQUAL(emu_windows_next_ps(w.windows), EMU_NEVER);
    CU_ASSERT_EQUAL(w.host[0]->sent, 200);
    hosts_end(&w);
}

static void raw_by_hand(const struct engine_hosts_config *setting)
{
    struct engine_hosts w;

    hosts_begin(&w, setting);
    CU_ASSERT_TRUE(hosts_step(&w, coordinator_awaited(&w), 100000000));
    CU_ASSERT_TRUE(hosts_exactly_once(&w));
    CU_ASSERT_TRUE(hosts_clean(&w));
    hosts_end(&w);
}

static void raw__everything_arrives_once(void)
{
    uint64_t posts = TEST_TRIALS(20000u);
    struct engine_hosts_config setting = {.clock = EMU_CLOCK_RAW, .links = 2, .posts = posts};

    raw_by_hand(&setting);
    setting.faults = fixture_faults(1000);
    raw_by_hand(&setting);
    setting =
        (struct engine_hosts_config){.clock = EMU_CLOCK_RAW, .topo = "kary:4,2", .posts = 2000};
    raw_by_hand(&setting);
}

/* Packets beyond the pool's slots start when earlier ones have left, one per pass. */
static void raw__starts_few_packets_at_a_time(void)
{
    struct engine_hosts_config setting = {.clock = EMU_CLOCK_RAW,
                                          .topo = "kary:2,3",
                                          .set = "packet_bytes=1024 pool_slots=16",
                                          .posts = 3000};
    uint32_t most = 0;
    struct engine_hosts w;

    setting.draw = hosts_draw_whole;
    hosts_begin(&w, &setting);
    for (uint32_t pass = 0; pass < 100; pass++) {
        uint32_t open;

        hosts_step(&w, coordinator_awaited(&w), 1);
        open = emu_vcs_pending(&w.engine[0]->link[0].vcs);
        most = open > most ? open : most;
    }
    CU_ASSERT_TRUE(most < 12); /* without the limit it is 14 */
    w.host[1]->deaf = true;
    hosts_step(&w, coordinator_awaited(&w), 1000);
    CU_ASSERT_EQUAL(emu_vcs_pending(&w.engine[0]->link[0].vcs), w.profile.channels - 1);
    hosts_end(&w);
}

/*
 * An engine reads the clock only once in many passes, but also when other threads have had the
 * worker's core after a pass.
 */
static void raw__time_passes_while_off_the_core(void)
{
    struct engine_hosts_config setting = {.clock = EMU_CLOCK_RAW, .posts = 3000};
    struct engine_hosts w;

    hosts_begin(&w, &setting);
    w.host[1]->deaf = true;
    hosts_step(&w, coordinator_awaited(&w), 1000);
    CU_ASSERT_NOT_EQUAL(engine_timers_ps(w.engine[0]), EMU_NEVER);
    for (uint32_t i = 0; i < 10; i++) {
        uint64_t before_ps = w.engine[0]->now_ps, after_ps;

        w.worker[0]->preempted = true;
        emu_worker_pass(w.worker[0]);
        after_ps = w.engine[0]->now_ps;
        CU_ASSERT_TRUE(after_ps > before_ps);
        CU_ASSERT_FALSE(w.worker[0]->preempted);
        emu_worker_pass(w.worker[0]);
        CU_ASSERT_EQUAL(w.engine[0]->now_ps, after_ps);
    }
    hosts_end(&w);
}

/* The clock for time-outs is rebased in both engines. */
static void raw__time_is_rebased_under_traffic(void)
{
    struct engine_hosts_config setting = {.clock = EMU_CLOCK_RAW,
                                          .links = 2,
                                          .posts = 3000,
                                          .set = "reply_timeout_ps=1000000000",
                                          .faults = fixture_faults(2000)};
    struct engine_hosts w;

    hosts_begin(&w, &setting);
    for (uint32_t n = 0; n < w.hosts; n++)
        w.engine[n]->now_ps = EMU_REBASE_PS - 1000000;
    CU_ASSERT_TRUE(hosts_step(&w, coordinator_awaited(&w), 100000000));
    for (uint32_t n = 0; n < w.hosts; n++)
        CU_ASSERT_TRUE(w.engine[n]->now_ps < EMU_REBASE_PS);
    CU_ASSERT_TRUE(hosts_exactly_once(&w));
    CU_ASSERT_TRUE(hosts_clean(&w));
    hosts_end(&w);
}

/* The host's clock wraps after 213 days of uptime: switches still check for time-outs. */
static void raw__ticks_where_the_hosts_time_wraps(void)
{
    struct engine_hosts_config setting = {.clock = EMU_CLOCK_RAW, .topo = "kary:2,2", .posts = 300};
    struct engine_hosts w;

    hosts_begin(&w, &setting);
    for (uint32_t s = 0; s < w.graph->switches; s++) {
        struct switch_channels_raw *sw = switch_channels_raw_of(w.fabric->sw[s]);

        sw->swept_ps = UINT64_MAX - 2 * sw->ch.tick_ps; /* the last check was just before */
    }
    CU_ASSERT_TRUE(hosts_step(&w, coordinator_awaited(&w), 100000000));
    for (uint32_t s = 0; s < w.graph->switches; s++)
        CU_ASSERT_TRUE(switch_channels_raw_of(w.fabric->sw[s])->swept_ps < UINT64_MAX / 2);
    CU_ASSERT_TRUE(hosts_exactly_once(&w));
    hosts_end(&w);
}

static void raw_with_threads(const struct engine_hosts_config *setting)
{
    struct timespec nap = {.tv_nsec = 1000000};
    uint64_t awaited;
    struct engine_hosts w;

    hosts_begin(&w, setting);
    awaited = coordinator_awaited(&w);
    hosts_threads(&w);
    for (uint32_t naps = 0; naps < 60000 && hosts_settled(&w) < awaited; naps++)
        nanosleep(&nap, NULL);
    hosts_threads_stop(&w);
    CU_ASSERT_TRUE(hosts_step(&w, awaited, 100000000));
    CU_ASSERT_TRUE(hosts_exactly_once(&w));
    CU_ASSERT_TRUE(hosts_clean(&w));
    hosts_end(&w);
}

static void raw__threads_soak(void)
{
    raw_with_threads(&(struct engine_hosts_config){.clock = EMU_CLOCK_RAW,
                                                   .workers = 3,
                                                   .links = 2,
                                                   .faults = fixture_faults(500),
                                                   .posts = 10000});
    raw_with_threads(&(struct engine_hosts_config){.clock = EMU_CLOCK_RAW,
                                                   .topo = "kary:2,2",
                                                   .workers = 3,
                                                   .faults = fixture_faults(50),
                                                   .posts = 4000});
}

/* --- with switches ------------------------------------------------------------------ */

static void fabric__everything_arrives_once(void)
{
    struct engine_hosts_config setting = {.clock = EMU_CLOCK_VIRTUAL,
                                          .topo = "kary:4,2",
                                          .posts = TEST_TRIALS(1000u)};
    struct engine_hosts w;

    for (uint32_t each = 0; each <= 2000; each += 1000) { /* on each cable */
        setting.faults = fixture_faults(each);
        hosts_begin(&w, &setting);
        run_to_end(&w);
        CU_ASSERT_EQUAL(COUNT(&w, lost), 0);
        CU_ASSERT_EQUAL(COUNT(&w, retransmissions) > 0, each > 0);
        hosts_end(&w);
    }
}

int main(void)
{
    static const struct test_case cases[] = {
        {"packets__of_every_size_arrive", packets__of_every_size_arrive},
        {"packets__gather_segments_posted_together", packets__gather_segments_posted_together},
        {"combining__without_a_group_is_reported_as_failed",
         combining__without_a_group_is_reported_as_failed},
        {"faults__everything_arrives_once", faults__everything_arrives_once},
        CASE_ALONE(sequence__wraps),
        {"sequence__is_separate_per_group", sequence__is_separate_per_group},
        {"sequence__stops_before_numbers_alias", sequence__stops_before_numbers_alias},
        {"window__holds_the_sender", window__holds_the_sender},
        {"retries__end_at_the_limit", retries__end_at_the_limit},
        CASE_ALONE(retries__continue_without_a_limit),
        CASE_ALONE(destination__lost_blocks_others_once),
        CASE_ALONE(destination__known_lost_gets_few_retries),
        {"destination__recovered_gets_every_retry", destination__recovered_gets_every_retry},
        {"links__share_the_load", links__share_the_load},
        {"channels__bound_packets_in_flight", channels__bound_packets_in_flight},
        {"priority__lets_small_packets_overtake", priority__lets_small_packets_overtake},
        {"priority__finds_a_channel", priority__finds_a_channel},
        {"host__that_takes_nothing_causes_backpressure",
         host__that_takes_nothing_causes_backpressure},
        {"host__unplugged_drops_packets", host__unplugged_drops_packets},
        {"virtual__is_the_same_for_any_number_of_workers",
         virtual__is_the_same_for_any_number_of_workers},
        CASE_ALONE(rebase__changes_nothing),
        {"virtual__ends_before_times_wrap", virtual__ends_before_times_wrap},
        {"raw__ticks_where_the_hosts_time_wraps", raw__ticks_where_the_hosts_time_wraps},
        {"raw__time_passes_while_off_the_core", raw__time_passes_while_off_the_core},
        {"raw__time_is_rebased_under_traffic", raw__time_is_rebased_under_traffic},
        CASE_ALONE(raw__everything_arrives_once),
        {"raw__starts_few_packets_at_a_time", raw__starts_few_packets_at_a_time},
        {"raw__threads_soak", raw__threads_soak},
        CASE_ALONE(fabric__everything_arrives_once),
        {NULL, NULL},
    };

    return test_run("engine", cases);
}
