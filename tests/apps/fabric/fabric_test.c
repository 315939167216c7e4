/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric_test.c - a whole fabric with running workers; this test acts for the processes at its host
 * interfaces. Every case runs with several thread counts, clocks and credit policies.
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>

#include "emu/dev/affinity.h"
#include "emu/util/combine.h"
#include "nic/engine/internal.h"
#include "tests/test.h"
#include "tests/fixtures/hostifs.h"

/* How the fabric of a case is run. */
struct setting {
    const char *topo;
    uint32_t threads;
    enum emu_clock_mode clock;
    enum emu_credit_policy credit;
    enum emu_combine_order order;
};

static const struct setting settings[] = {
    {"kary:4,1", 1, EMU_CLOCK_RAW, EMU_CREDIT_ROW, EMU_COMBINE_ARRIVAL},
    {"kary:2,3", 2, EMU_CLOCK_RAW, EMU_CREDIT_ROW, EMU_COMBINE_PORT},
    {"kary:2,3", FABRIC_THREADS_DEVICE, EMU_CLOCK_RAW, EMU_CREDIT_COUNTER, EMU_COMBINE_ARRIVAL},
    {"kary:4,2", 2, EMU_CLOCK_REAL, EMU_CREDIT_ROW, EMU_COMBINE_ARRIVAL},
    {"kary:2,3", 1, EMU_CLOCK_REAL, EMU_CREDIT_COUNTER, EMU_COMBINE_PORT},
};
#define SETTINGS (sizeof settings / sizeof settings[0])

/* The same over faulty cables between switches, with link-level retry. */
static const struct {
    struct setting setting;
    uint32_t each; /* per million segments, faults of each kind */
} lossy[] = {
    {{"kary:2,3", 1, EMU_CLOCK_RAW, EMU_CREDIT_ROW, EMU_COMBINE_ARRIVAL}, 20000},
    {{"kary:4,2", FABRIC_THREADS_DEVICE, EMU_CLOCK_RAW, EMU_CREDIT_COUNTER, EMU_COMBINE_PORT},
     5000},
    {{"kary:2,3", 2, EMU_CLOCK_REAL, EMU_CREDIT_ROW, EMU_COMBINE_ARRIVAL}, 5000},
};
#define LOSSY (sizeof lossy / sizeof lossy[0])

static void open_with(struct hostifs *w, const struct setting *set, uint32_t each)
{
    struct emu_fault_rates rates = fixture_faults(each);
    struct fabric_config config = {.clock = set->clock,
                                   .threads = set->threads,
                                   .seed = test_seed(),
                                   .first = UINT32_MAX - 20}; /* it wraps in every test */

    fixture_profile(&config.profile, "oq2004", NULL);
    if (each) {
        config.profile.link_retry = EMU_LINK_RETRY_GO_BACK_N;
        config.faults = &rates;
    }
    config.profile.credit = set->credit;
    config.profile.combine_order = set->order;
    hostifs_open(w, set->topo, &config);
}

static void open_in(struct hostifs *w, const struct setting *set)
{
    open_with(w, set, 0);
}

static struct fabric_totals totals(struct hostifs *w)
{
    struct fabric_totals t;

    fabric_totals_read(w->fabric, &t);
    return t;
}

/* Run one case in every setting. */
static void in_all_settings(void (*one)(struct hostifs *w))
{
    for (size_t i = 0; i < SETTINGS; i++) {
        struct hostifs w;

        open_in(&w, &settings[i]);
        one(&w);
        hostifs_close(&w);
    }
    for (size_t i = 0; i < LOSSY; i++) {
        struct hostifs w;

        open_with(&w, &lossy[i].setting, lossy[i].each);
        one(&w);
        hostifs_close(&w);
    }
}

/* --- unicast ------------------------------------------------------------------------ */

#define PAIR_SEGS 60

/* Payload of the @i-th message from @src to @dst, which the receiver can check. */
static void pair_payload(uint8_t *payload, uint32_t src, uint32_t dst, uint32_t i, uint8_t len)
{
    for (uint32_t b = 0; b < len; b++)
        payload[b] = (uint8_t)(src * 31 + dst * 7 + i * 13 + b);
}

static bool pair_check(const struct emu_seg *seg, uint32_t at)
{
    uint8_t want[EMU_PAYLOAD_BYTES];

    pair_payload(want, seg->hdr.src, at, seg->hdr.seq, seg->hdr.len);
    return seg->hdr.dst == at && !memcmp(want, seg->payload, seg->hdr.len);
}

/*
 * The segments sent so far, once they are at least @least: the worker counts at the end of a burst.
 */
static uint64_t sent_of(struct hostifs *w, uint64_t least)
{
    for (uint32_t i = 0; i < HOSTIFS_GIVE_UP && totals(w).sent < least; i++)
        hostifs_pause(i);
    return totals(w).sent;
}

static uint32_t drain(struct hostifs *w, uint32_t *wrong)
{
    struct emu_seg seg = {0};
    uint32_t got = 0;

    for (uint32_t n = 0; n < w->nodes; n++)
        while (hostifs_take(w, n, &seg)) {
            *wrong += !pair_check(&seg, n);
            got++;
        }
    return got;
}

/*
 * All pairs at once, random order and lengths: every message arrives once, whole, at the right
 * node.
 */
static void unicast_all_pairs(struct hostifs *w)
{
    uint32_t left = w->nodes * w->nodes * PAIR_SEGS, got = 0, wrong = 0, idle = 0;
    uint32_t total = left;
    uint64_t random = test_seed();
    uint8_t sent[HOSTIFS_MAX][HOSTIFS_MAX] = {{0}};

    while (got < total && idle < HOSTIFS_GIVE_UP) {
        uint32_t src = (uint32_t)(test_random(&random) % w->nodes);
        uint32_t dst = (uint32_t)(test_random(&random) % w->nodes);
        uint32_t more = drain(w, &wrong);

        got += more;
        idle = more ? 0 : idle + 1;
        if (sent[src][dst] < PAIR_SEGS) {
            struct emu_hdr hdr = {.dst = dst, .src = 0xdead, .seq = sent[src][dst]};
            uint8_t payload[EMU_PAYLOAD_BYTES];

            hdr.len = (uint8_t)(test_random(&random) % (EMU_PAYLOAD_BYTES + 1));
            pair_payload(payload, src, dst, hdr.seq, hdr.len);
            if (hostifs_post(w, src, &hdr, payload))
                sent[src][dst]++;
        } else if (!more) {
            sched_yield();
        }
    }
    CU_ASSERT_EQUAL(got, total);
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_EQUAL(totals(w).delivered, total);
    CU_ASSERT_EQUAL(sent_of(w, total), total);
    CU_ASSERT_EQUAL(totals(w).dropped, 0);
}

static void unicast__every_pair_delivers_once(void)
{
    in_all_settings(unicast_all_pairs);
}

/* --- collectives -------------------------------------------------------------------- */

/* A multicast reaches every member but its source, from any source. */
static void multicast_each_source(struct hostifs *w)
{
    uint32_t group = fixture_group_of_first(w->fabric, w->nodes), missing = 0, wrong = 0;
    struct emu_seg seg = {0};

    for (uint32_t src = 0; src < w->nodes; src++) {
        struct emu_hdr hdr = {.dst = group, .seq = src, .kind = EMU_MULTICAST, .len = 5};

        CU_ASSERT_TRUE(hostifs_post(w, src, &hdr, "hello"));
        for (uint32_t n = 0; n < w->nodes; n++) {
            if (n == src)
                continue;
            missing += !hostifs_await(w, n, &seg);
            wrong += seg.hdr.seq != src || seg.hdr.src != src || memcmp(seg.payload, "hello", 5);
        }
    }
    CU_ASSERT_EQUAL(missing, 0);
    CU_ASSERT_EQUAL(wrong, 0);
    for (uint32_t n = 0; n < w->nodes; n++)
        CU_ASSERT_FALSE(hostifs_take(w, n, &seg));
    CU_ASSERT_EQUAL(totals(w).delivered, w->nodes * (w->nodes - 1));
}

static void multicast__reaches_all_members_but_the_source(void)
{
    in_all_settings(multicast_each_source);
}

/* Many all-reduces of a group at once, members in random order: all get all sums. */
static void allreduces_at_once(struct hostifs *w, uint32_t group, uint32_t many)
{
    uint32_t wrong = 0, missing = 0;
    uint32_t posted[HOSTIFS_MAX] = {0};
    uint64_t random = test_seed();

    for (uint32_t left = w->nodes * many; left;) {
        uint32_t n = (uint32_t)(test_random(&random) % w->nodes);
        struct emu_hdr hdr = {.dst = group,
                              .seq = posted[n],
                              .kind = EMU_ALLREDUCE,
                              .len = 240,
                              .op = EMU_SUM,
                              .type = EMU_I64};
        int64_t value[30] = {0};

        if (posted[n] == many)
            continue;
        for (int i = 0; i < 30; i++)
            value[i] = (int64_t)posted[n] * 1000 + i + n;
        if (hostifs_post(w, n, &hdr, value)) {
            posted[n]++;
            left--;
        } else {
            sched_yield();
        }
    }
    for (uint32_t n = 0; n < w->nodes; n++)
        for (uint32_t s = 0; s < many; s++) {
            struct emu_seg seg = {0};
            int64_t value[30] = {0};

            if (!hostifs_await(w, n, &seg)) {
                missing++;
                break;
            }
            memcpy(value, seg.payload, sizeof value);
            for (int i = 0; i < 30; i++)
                wrong += value[i] != (int64_t)w->nodes * ((int64_t)seg.hdr.seq * 1000 + i) +
                                         (int64_t)w->nodes * (w->nodes - 1) / 2;
        }
    CU_ASSERT_EQUAL(missing, 0);
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_TRUE(totals(w).contributions >= w->nodes * many);
    CU_ASSERT_EQUAL(totals(w).dropped, 0);
}

static void allreduce_window(struct hostifs *w)
{
    allreduces_at_once(w, fixture_group_of_first(w->fabric, w->nodes), EMU_WINDOW / 2);
}

static void allreduce__gives_every_member_every_sum(void)
{
    in_all_settings(allreduce_window);
}

/* A wide window has a state for each number that may be in progress. */
static void allreduce__fills_a_wide_window(void)
{
    uint32_t nodes[HOSTIFS_MAX], group = 0;
    char error[256];
    struct hostifs w;

    open_in(&w, &settings[0]);
    CU_ASSERT_EQUAL_FATAL(fabric_group_create_wide(w.fabric, nodes, fixture_nodes(nodes, w.nodes),
                                                   &group, error, sizeof error),
                          0);
    CU_ASSERT_EQUAL(emu_window(group), EMU_WINDOW_WIDE);
    allreduces_at_once(&w, group, EMU_WINDOW_WIDE / 2);
    hostifs_close(&w);
}

/* The result of a reduce arrives at the one member that did not contribute, and nowhere else. */
static void reduce_each_root(struct hostifs *w)
{
    uint32_t group = fixture_group_of_first(w->fabric, w->nodes), wrong = 0, missing = 0;
    struct emu_seg seg = {0};

    for (uint32_t root = 0; root < w->nodes; root++) {
        int32_t value = 0, want = 0;

        for (uint32_t n = 0; n < w->nodes; n++) {
            struct emu_hdr hdr = {.dst = group,
                                  .seq = root,
                                  .kind = EMU_REDUCE,
                                  .len = 4,
                                  .op = EMU_MAX,
                                  .type = EMU_I32};

            value = (int32_t)((n * 7 + root) % w->nodes);
            if (n == root)
                continue;
            want = value > want ? value : want;
            CU_ASSERT_TRUE(hostifs_post(w, n, &hdr, &value));
        }
        missing += !hostifs_await(w, root, &seg);
        memcpy(&value, seg.payload, 4);
        wrong += value != want || seg.hdr.seq != root;
    }
    CU_ASSERT_EQUAL(missing, 0);
    CU_ASSERT_EQUAL(wrong, 0);
    for (uint32_t n = 0; n < w->nodes; n++)
        CU_ASSERT_FALSE(hostifs_take(w, n, &seg));
}

static void reduce__arrives_at_the_root_only(void)
{
    in_all_settings(reduce_each_root);
}

/* No member gets a barrier's result before the last has entered. */
static void barrier_last_one(struct hostifs *w)
{
    uint32_t group = fixture_group_of_first(w->fabric, w->nodes), early = 0, missing = 0;
    struct emu_seg seg = {0};

    for (uint32_t last = 0; last < w->nodes; last++) {
        struct emu_hdr hdr = {.dst = group, .seq = last, .kind = EMU_BARRIER};

        for (uint32_t n = 0; n < w->nodes; n++)
            if (n != last)
                CU_ASSERT_TRUE(hostifs_post(w, n, &hdr, NULL));
        for (uint32_t i = 0; i < 200; i++) {
            for (uint32_t n = 0; n < w->nodes; n++)
                early += hostifs_take(w, n, &seg);
            sched_yield();
        }
        CU_ASSERT_TRUE(hostifs_post(w, last, &hdr, NULL));
        for (uint32_t n = 0; n < w->nodes; n++)
            missing += !hostifs_await(w, n, &seg) || seg.hdr.seq != last;
    }
    CU_ASSERT_EQUAL(early, 0);
    CU_ASSERT_EQUAL(missing, 0);
}

static void barrier__waits_for_the_last(void)
{
    in_all_settings(barrier_last_one);
}

/*
 * In port order, sums that depend on the order of operands have the same bits whatever the order of
 * arrival.
 */
static void allreduce__in_port_order_gives_the_same_bits(void)
{
    static const struct setting set = {"kary:4,2", 2, EMU_CLOCK_RAW, EMU_CREDIT_ROW,
                                       EMU_COMBINE_PORT};
    uint64_t random = test_seed();
    float first = 0;

    for (uint32_t round = 0; round < TEST_TRIALS(30u); round++) {
        struct hostifs w;
        uint32_t group, order[HOSTIFS_MAX];
        struct emu_seg seg = {0};
        float sum;

        open_in(&w, &set);
        group = fixture_group_of_first(w.fabric, w.nodes);
        fixture_nodes(order, w.nodes);
        for (uint32_t n = w.nodes; n; n--) {
            struct emu_hdr hdr = {
                .dst = group, .kind = EMU_ALLREDUCE, .len = 4, .op = EMU_SUM, .type = EMU_F32};
            uint32_t pick = (uint32_t)(test_random(&random) % n);
            float value = 1.0f / (float)(order[pick] + 3) * (order[pick] % 2 ? 1e6f : 1.0f);

            CU_ASSERT_TRUE(hostifs_post(&w, order[pick], &hdr, &value));
            order[pick] = order[n - 1];
        }
        CU_ASSERT_TRUE(hostifs_await(&w, 0, &seg));
        memcpy(&sum, seg.payload, 4);
        if (!round)
            first = sum;
        CU_ASSERT_EQUAL(memcmp(&sum, &first, sizeof sum), 0);
        hostifs_close(&w);
    }
}

/* --- clock real --------------------------------------------------------------------- */

/*
 * Nothing arrives early: n full segments over one switch take at least one path delay (2 cables, 1
 * switch, delivery to memory) and n times the wire time; the sending adapter adds its delay before
 * the post. Only the lower bound is guaranteed; the upper one depends on the host.
 */
static void real__is_never_faster_than_the_profile(void)
{
    static const struct setting set = {"kary:4,1", 1, EMU_CLOCK_REAL, EMU_CREDIT_ROW,
                                       EMU_COMBINE_ARRIVAL};
    const uint64_t wire_ps = 256 * 800, way_ps = 2 * 20000 + 90000 + 1300000;
    struct emu_hdr hdr = {.dst = 1, .len = EMU_PAYLOAD_BYTES};
    uint8_t payload[EMU_PAYLOAD_BYTES] = {0};
    struct emu_seg seg = {0};
    struct hostifs w;
    uint64_t began_ps, early = 0;

    open_in(&w, &set);
    began_ps = hostifs_now(&w, 0);
    for (uint32_t i = 0; i < 600; i++) {
        hdr.seq = i;
        CU_ASSERT_TRUE(hostifs_post(&w, 0, &hdr, payload));
    }
    for (uint32_t i = 0; i < 600; i++) {
        CU_ASSERT_TRUE(hostifs_await(&w, 1, &seg));
        early += hostifs_now(&w, 0) < began_ps + way_ps + (i + 1) * wire_ps;
    }
    CU_ASSERT_EQUAL(early, 0);
    CU_ASSERT_TRUE(totals(&w).real_time_factor <= 1.0);
    hostifs_close(&w);
}

/*
 * A process does not empty its full ring. That time counts while it lasts, and up to the end if the
 * process detaches or is killed first.
 */
static void full_hostif__counts_until_its_process_detaches(void)
{
    static const struct setting set = {"kary:4,1", 1, EMU_CLOCK_REAL, EMU_CREDIT_ROW,
                                       EMU_COMBINE_ARRIVAL};
    struct emu_hdr hdr = {.dst = 1};
    uint64_t before_ns, began_ps, full_ns = 0;
    struct hostifs w;

    open_in(&w, &set);
    for (uint32_t i = 0; i < HOSTIFS_GIVE_UP && !full_ns; i++) {
        hostifs_post(&w, 0, &hdr, NULL);
        full_ns = fabric_full_ns(w.fabric);
        sched_yield();
    }
    CU_ASSERT_TRUE_FATAL(full_ns > 0);
    for (uint32_t last = 0; last < 2; last++) {
        before_ns = fabric_full_ns(w.fabric);
        began_ps = hostifs_now(&w, 0);
        while (hostifs_now(&w, 0) < began_ps + 2000000000u)
            sched_yield();
        if (last)
            fabric_detach(w.fabric, 1);
        full_ns = fabric_full_ns(w.fabric);
        CU_ASSERT_TRUE(full_ns >= before_ns + 2000000u);
    }
    CU_ASSERT_EQUAL(fabric_full_ns(w.fabric), full_ns);
    hostifs_close(&w);
}

/* --- streams within a switch -------------------------------------------------------- */

#define STREAM_SEGS 2000u /* of each of three senders: together more than a ring holds */

/* Node @n sends full segments to node 2, numbers @from up to and excluding @end. */
static void stream_post(struct hostifs *w, uint32_t n, uint32_t from, uint32_t end)
{
    for (uint32_t i = from; i < end; i++) {
        struct emu_hdr hdr = {.dst = 2, .seq = i, .len = EMU_PAYLOAD_BYTES};
        uint8_t payload[EMU_PAYLOAD_BYTES];

        pair_payload(payload, n, 2, i, EMU_PAYLOAD_BYTES);
        CU_ASSERT_TRUE_FATAL(hostifs_post(w, n, &hdr, payload));
    }
}

/* Three nodes send, and nothing is taken yet. */
static void streams_post(struct hostifs *w, uint32_t from)
{
    stream_post(w, 0, from, STREAM_SEGS);
    stream_post(w, 1, 0, STREAM_SEGS);
    stream_post(w, 3, 0, STREAM_SEGS);
}

/* Take all segments at node 2. @next: next number by source. Returns how many. */
static uint32_t streams_take(struct hostifs *w, uint32_t next[4], uint32_t *wrong)
{
    struct emu_seg seg;
    uint32_t got = 0;

    for (; hostifs_take(w, 2, &seg); got++)
        *wrong += !pair_check(&seg, 2) || seg.hdr.seq != next[seg.hdr.src % 4]++;
    return got;
}

/* Cut-through from ring to ring moves no more than fits, and counts each segment. */
static void stream__within_a_switch_fills_its_receivers_ring(void)
{
    struct fabric_config config = {.threads = 1,
                                   .seed = 1,
                                   .start_stopped = true,
                                   .first = UINT32_MAX - 20};
    uint32_t next[4] = {0}, wrong = 0, got = 0;
    struct hostifs w;

    fixture_profile(&config.profile, "oq2004", NULL);
    hostifs_open(&w, "kary:4,1", &config);
    stream_post(&w, 0, 0, 20); /* fewer than a pass moves, and nothing behind them */
    while (fixture_fabric_pass(w.fabric))
        ;
    /* the ring had no space for a whole number of runs then */
    CU_ASSERT_EQUAL(totals(&w).hops, 20);
    streams_post(&w, 20);
    while (fixture_fabric_pass(w.fabric))
        ;
    CU_ASSERT_EQUAL(totals(&w).delivered, EMU_HOSTIF_SLOTS);
    CU_ASSERT_TRUE(fixture_fabric_holds(w.fabric, 0));
    /* some of these count the segments that were moved */
    for (uint32_t idle = 0; idle < 4; idle++) {
        uint32_t some = streams_take(&w, next, &wrong);

        got += some;
        if (fixture_fabric_pass(w.fabric) || some)
            idle = 0;
    }
    CU_ASSERT_EQUAL(got, 3 * STREAM_SEGS);
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_EQUAL(totals(&w).delivered, got);
    CU_ASSERT_EQUAL(totals(&w).hops, got);
    CU_ASSERT_EQUAL(totals(&w).dropped, 0);
    CU_ASSERT_TRUE(fixture_fabric_holds(w.fabric, 0));
    hostifs_close(&w);
}

/* A process that was cut off gets nothing more, and its ring is not written. */
static void stream__to_a_cut_off_process_is_dropped(void)
{
    struct fabric_config config = {.threads = 1, .seed = 1, .start_stopped = true};
    struct emu_seg seg;
    struct hostifs w;

    fixture_profile(&config.profile, "oq2004", NULL);
    hostifs_open(&w, "kary:4,1", &config);
    atomic_store(&w.fabric->hostif[2]->cut, true);
    streams_post(&w, 0);
    while (fixture_fabric_pass(w.fabric))
        ;
    CU_ASSERT_EQUAL(totals(&w).dropped_nobody_attached, 3 * STREAM_SEGS);
    CU_ASSERT_EQUAL(totals(&w).delivered, 0);
    CU_ASSERT_FALSE(hostifs_take(&w, 2, &seg));
    CU_ASSERT_EQUAL(w.nic[2].shared->down[0].seg.hdr.len, 0);
    CU_ASSERT_TRUE(fixture_fabric_holds(w.fabric, 0));
    hostifs_close(&w);
}

/* A run ends at a segment with another route, or a malformed one. */
static void stream__within_a_switch_ends_at_a_different_segment(void)
{
    struct fabric_config config = {.threads = 1, .seed = 1, .start_stopped = true};
    const struct emu_hdr others[] = {{.dst = 2, .kind = 77, .len = EMU_PAYLOAD_BYTES},
                                     {.dst = 2, .len = EMU_PAYLOAD_BYTES + 1},
                                     {.dst = 1u << 20, .len = EMU_PAYLOAD_BYTES},
                                     {.dst = 3, .len = EMU_PAYLOAD_BYTES}};
    uint32_t next[4] = {0}, wrong = 0;
    struct emu_seg seg;
    struct hostifs w;

    fixture_profile(&config.profile, "oq2004", NULL);
    hostifs_open(&w, "kary:4,1", &config);
    for (uint32_t i = 0; i < 4; i++) {
        uint8_t payload[EMU_PAYLOAD_BYTES];

        stream_post(&w, 0, 5 * i, 5 * i + 5);
        pair_payload(payload, 0, others[i].dst, 0, EMU_PAYLOAD_BYTES);
        CU_ASSERT_TRUE_FATAL(hostifs_post(&w, 0, &others[i], payload));
    }
    while (fixture_fabric_pass(w.fabric))
        ;
    CU_ASSERT_EQUAL(streams_take(&w, next, &wrong), 20);
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_TRUE(hostifs_take(&w, 3, &seg) && seg.hdr.dst == 3 && seg.hdr.src == 0);
    CU_ASSERT_EQUAL(totals(&w).dropped_malformed, 3);
    CU_ASSERT_EQUAL(totals(&w).delivered, 21);
    CU_ASSERT_TRUE(fixture_fabric_holds(w.fabric, 0));
    hostifs_close(&w);
}

/* --- invalid segments and slow processes -------------------------------------------- */

/* A repeated contribution and a contradictory one are dropped; the result is right. */
static void combine_ignores_repeats(struct hostifs *w)
{
    uint32_t group = fixture_group_of_first(w->fabric, w->nodes);
    struct emu_hdr hdr = {
        .dst = group, .kind = EMU_ALLREDUCE, .len = 8, .op = EMU_SUM, .type = EMU_U64};
    struct emu_hdr other = hdr;
    uint64_t value = 0;
    struct emu_seg seg = {0};

    other.op = EMU_PROD;
    for (uint32_t n = 0; n < w->nodes; n++) {
        value = n + 1;
        if (n + 1 < w->nodes) {
            CU_ASSERT_TRUE(hostifs_post(w, n, &hdr, &value));
            CU_ASSERT_TRUE(hostifs_post(w, n, &hdr, &value));
            CU_ASSERT_TRUE(hostifs_post(w, n, &other, &value));
        }
    }
    for (uint32_t i = 0; i < HOSTIFS_GIVE_UP && totals(w).dropped_malformed < 2 * (w->nodes - 1);
         i++)
        sched_yield();
    CU_ASSERT_TRUE(hostifs_post(w, w->nodes - 1, &hdr, &value));
    CU_ASSERT_TRUE(hostifs_await(w, 0, &seg));
    memcpy(&value, seg.payload, 8);
    CU_ASSERT_EQUAL(value, (uint64_t)w->nodes * (w->nodes + 1) / 2);
    CU_ASSERT_EQUAL(totals(w).dropped_malformed, 2 * (w->nodes - 1));
}

static void combine__ignores_repeated_and_foreign_contributions(void)
{
    static const struct setting one = {"kary:4,1", 1, EMU_CLOCK_RAW, EMU_CREDIT_ROW,
                                       EMU_COMBINE_ARRIVAL};
    struct hostifs w;

    open_in(&w, &one);
    combine_ignores_repeats(&w);
    hostifs_close(&w);
}

/* A process that is not a member cannot send to a group. */
static void multicast__from_outside_the_group_is_dropped(void)
{
    struct hostifs w;
    uint32_t group;
    struct emu_hdr hdr = {.kind = EMU_MULTICAST, .len = 1};
    struct emu_seg seg = {0};

    open_in(&w, &settings[0]);
    group = fixture_group_of_first(w.fabric, 2);
    hdr.dst = group;
    CU_ASSERT_TRUE(hostifs_post(&w, 3, &hdr, "x"));
    hdr.dst = group + 1;
    CU_ASSERT_TRUE(hostifs_post(&w, 0, &hdr, "x"));
    for (uint32_t i = 0;
         i < HOSTIFS_GIVE_UP && totals(&w).dropped_malformed + totals(&w).dropped_groups_over < 2;
         i++)
        sched_yield();
    CU_ASSERT_EQUAL(totals(&w).dropped_malformed, 1);
    /* the switch cannot tell it from a group that has ended */
    CU_ASSERT_EQUAL(totals(&w).dropped_groups_over, 1);
    CU_ASSERT_FALSE(hostifs_take(&w, 0, &seg));
    CU_ASSERT_FALSE(hostifs_take(&w, 1, &seg));
    hostifs_close(&w);
}

static void scribble(struct hostifs *w, uint32_t node, uint64_t *random)
{
    struct emu_hostif_shared *shared = w->nic[node].shared;

    for (uint32_t i = 0; i < 64; i++) {
        uint64_t *at = (void *)&shared->up[test_random(random) % EMU_HOSTIF_SLOTS];

        for (uint32_t b = 0; b < sizeof(struct emu_seg) / 8; b++)
            __atomic_store_n(&at[b], test_random(random), __ATOMIC_RELAXED);
    }
    for (uint32_t i = 0; i < EMU_HOSTIF_SLOTS; i++)
        __atomic_store_n(&shared->up_ps[i], test_random(random), __ATOMIC_RELAXED);
}

/* One process fills its ring with noise and invalid indexes; the others are not affected. */
static void garbage_is_contained(struct hostifs *w)
{
    uint64_t random = test_seed();
    uint32_t bad = w->nodes - 1, wrong = 0, missing = 0;
    struct emu_hostif_shared *shared = w->nic[bad].shared;

    for (uint32_t round = 0; round < 200; round++) {
        struct emu_hdr hdr = {.dst = 1, .seq = round, .len = 32};
        uint8_t payload[EMU_PAYLOAD_BYTES];
        struct emu_seg seg = {0};

        scribble(w, bad, &random);
        atomic_fetch_add(&shared->up_tail, (uint32_t)(test_random(&random) % 40));
        if (round % 50 == 49)
            atomic_store(&shared->up_tail, (uint32_t)test_random(&random));
        atomic_store(&shared->down_head, (uint32_t)test_random(&random));
        pair_payload(payload, 0, 1, round, hdr.len);
        CU_ASSERT_TRUE(hostifs_post(w, 0, &hdr, payload));
        do { /* segments to node 1 may come from the noise, not from node 0 */
            if (!hostifs_await(w, 1, &seg)) {
                missing++;
                break;
            }
        } while (seg.hdr.src != 0);
        wrong += seg.hdr.seq != round || !pair_check(&seg, 1);
    }
    CU_ASSERT_EQUAL(missing, 0);
    CU_ASSERT_EQUAL(wrong, 0);
    eventfd_write(w->nic[bad].bell, 1); /* its worker may sleep: nobody rang the bell */
    for (uint32_t i = 0; i < HOSTIFS_GIVE_UP && !totals(w).dropped_malformed; i++)
        sched_yield();
    CU_ASSERT_TRUE(totals(w).dropped_malformed > 0);
}

static void hostif__garbage_is_counted_and_contained(void)
{
    in_all_settings(garbage_is_contained);
}

/* A ring full of malformed segments is emptied, and later segments get through. */
static void hostif__malformed_segments_do_not_block_the_ring(void)
{
    struct hostifs w;
    struct emu_hdr bad = {.dst = 1, .kind = 0xff};
    struct emu_hdr good = {.dst = 1, .seq = 7, .len = 8};
    uint8_t payload[EMU_PAYLOAD_BYTES];
    struct emu_seg seg = {0};

    open_in(&w, &settings[0]);
    for (uint32_t posted = 0, i = 0; posted < 3 * EMU_HOSTIF_SLOTS && i < HOSTIFS_GIVE_UP; i++) {
        if (hostifs_post(&w, 0, &bad, NULL))
            posted++;
        else
            sched_yield();
    }
    pair_payload(payload, 0, 1, 7, 8);
    for (uint32_t i = 0; i < HOSTIFS_GIVE_UP && !hostifs_post(&w, 0, &good, payload); i++)
        sched_yield();
    CU_ASSERT_TRUE(hostifs_await(&w, 1, &seg));
    CU_ASSERT_TRUE(pair_check(&seg, 1));
    CU_ASSERT_EQUAL(totals(&w).dropped_malformed, 3 * EMU_HOSTIF_SLOTS);
    hostifs_close(&w);
}

struct flood {
    struct emu_hostif_shared *shared;
    _Atomic bool stop;
};

/* Post garbage as fast as a core can, whatever the fabric has taken. */
static void *flood_main(void *arg)
{
    struct flood *flood = arg;

    while (!atomic_load(&flood->stop)) {
        uint32_t head = atomic_load(&flood->shared->up_head);

        atomic_store(&flood->shared->up_tail, head + EMU_HOSTIF_SLOTS);
    }
    return NULL;
}

/* It cannot occupy the worker: others get through, and the manager can detach it. */
static void hostif__endless_garbage_does_not_occupy_the_worker(void)
{
    struct hostifs w;
    struct flood flood = {0};
    uint32_t wrong = 0;
    pthread_t thread;

    open_in(&w, &settings[0]);
    flood.shared = w.nic[3].shared;
    for (uint32_t i = 0; i < EMU_HOSTIF_SLOTS; i++)
        flood.shared->up[i].seg.hdr.kind = 0xff;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, flood_main, &flood), 0);
    for (uint32_t i = 0; i < HOSTIFS_GIVE_UP && !totals(&w).dropped_malformed; i++) {
        /* the flood does not ring the bell, and the worker may sleep */
        eventfd_write(w.nic[3].bell, 1);
        sched_yield();
    }
    for (uint32_t i = 0; i < 300; i++) {
        struct emu_hdr hdr = {.dst = 1, .seq = i, .len = 16};
        uint8_t payload[EMU_PAYLOAD_BYTES];
        struct emu_seg seg = {0};

        pair_payload(payload, 0, 1, i, 16);
        CU_ASSERT_TRUE(hostifs_post(&w, 0, &hdr, payload));
        wrong += !hostifs_await(&w, 1, &seg) || !pair_check(&seg, 1);
    }
    fabric_detach(w.fabric, 3);
    atomic_store(&flood.stop, true);
    pthread_join(thread, NULL);
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_TRUE(totals(&w).dropped_malformed > 0);
    hostifs_close(&w);
}

/* Processes attach and detach under load; no credit or buffer is lost. */
static void detach_under_load(struct hostifs *w)
{
    uint64_t random = test_seed();
    uint32_t victim = w->nodes - 1, wrong = 0;
    struct emu_seg seg = {0};

    for (uint32_t round = 0; round < 10; round++) {
        for (uint32_t i = 0; i < 300; i++) {
            struct emu_hdr hdr = {.dst = victim, .len = 100};
            uint8_t payload[EMU_PAYLOAD_BYTES] = {0};

            hostifs_post(w, (uint32_t)(test_random(&random) % victim), &hdr, payload);
            hostifs_post(w, victim, &hdr, payload);
        }
        hostifs_detach(w, victim);
        hostifs_attach(w, victim);
    }
    for (uint32_t i = 0; i < 500; i++) {
        struct emu_hdr hdr = {.dst = victim, .seq = i, .len = 64};
        uint8_t payload[EMU_PAYLOAD_BYTES];

        pair_payload(payload, 0, victim, i, 64);
        for (uint32_t t = 0; t < HOSTIFS_GIVE_UP && !hostifs_post(w, 0, &hdr, payload); t++)
            sched_yield(); /* its ring is still full of the load */
        do {               /* segments of the load have 100 bytes */
            wrong += !hostifs_await(w, victim, &seg);
        } while (!wrong && seg.hdr.len == 100);
        wrong += seg.hdr.seq != i || !pair_check(&seg, victim);
    }
    CU_ASSERT_EQUAL(wrong, 0);
}

static void detach__under_load_loses_no_credits(void)
{
    in_all_settings(detach_under_load);
}

/* A process that takes nothing is cut off; its segments no longer block others. */
static void tick__cuts_off_a_process_that_takes_nothing(void)
{
    struct hostifs w;
    uint32_t cut[HOSTIFS_MAX], count = 0, posted = 0, wrong = 0;
    struct emu_seg seg = {0};

    open_in(&w, &settings[0]);
    for (uint32_t i = 0; i < HOSTIFS_GIVE_UP && posted < 2 * EMU_HOSTIF_SLOTS; i++) {
        struct emu_hdr hdr = {.dst = 2, .len = 1};

        posted += hostifs_post(&w, 0, &hdr, "x");
        if (i % 1000 == 999 && posted > EMU_HOSTIF_SLOTS + 64)
            break; /* the network is full up to the sender */
        sched_yield();
    }
    for (uint32_t i = 0; i < HOSTIFS_GIVE_UP && !count; i++) {
        /* the worker may not have got there yet */
        atomic_store(&w.nic[2].shared->down_head, 0x80000000u + i); /* impossible claims */
        count = fabric_tick(w.fabric, cut, HOSTIFS_MAX);
        sched_yield();
    }
    CU_ASSERT_EQUAL_FATAL(count, 1);
    CU_ASSERT_EQUAL(cut[0], 2);
    CU_ASSERT_EQUAL(atomic_load(&w.nic[2].shared->cut_off), 1);
    for (uint32_t i = 0; i < 100; i++) {
        struct emu_hdr hdr = {.dst = 1, .seq = i, .len = 8};
        uint8_t payload[EMU_PAYLOAD_BYTES];

        pair_payload(payload, 0, 1, i, 8);
        for (uint32_t t = 0; t < HOSTIFS_GIVE_UP && !hostifs_post(&w, 0, &hdr, payload); t++)
            sched_yield();
        wrong += !hostifs_await(&w, 1, &seg) || !pair_check(&seg, 1);
    }
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_EQUAL(fabric_tick(w.fabric, cut, HOSTIFS_MAX), 0);
    hostifs_close(&w);
}

/*
 * Node 2 takes @count segments of node 0; then its ring is full again, and the next one waits for
 * it.
 */
static bool take_and_fill(struct hostifs *w, uint64_t *taken, uint32_t count)
{
    struct emu_seg seg;

    for (*taken += count; count; count--)
        if (!hostifs_await(w, 2, &seg))
            return false;
    for (uint32_t i = 0; i < HOSTIFS_GIVE_UP; i++) {
        struct emu_hdr hdr = {.dst = 2, .len = 1};

        hostifs_post(w, 0, &hdr, "x");
        if (totals(w).delivered == *taken + EMU_HOSTIF_SLOTS &&
            atomic_load(&w->fabric->hostif[2]->stuck))
            return true;
        sched_yield();
    }
    return false;
}

/*
 * A process that takes a segment only now and then is cut off, since senders would wait for ever. A
 * process that is merely slow is not.
 */
static void tick__cuts_off_a_process_that_takes_hardly_any(void)
{
    static const struct {
        uint32_t each; /* segments between two ticks */
        bool cut;
    } c[] = {{1, true}, {12, true}, {13, false}, {64, false}};

    for (unsigned i = 0; i < sizeof c / sizeof c[0]; i++) {
        uint32_t nodes[HOSTIFS_MAX], ticks = 0, count = 0;
        uint64_t taken = 0;
        struct hostifs w;

        open_in(&w, &settings[0]);
        CU_ASSERT_TRUE_FATAL(take_and_fill(&w, &taken, 0));
        for (; !count && ticks < 20; ticks++) {
            CU_ASSERT_TRUE_FATAL(take_and_fill(&w, &taken, c[i].each));
            count = fabric_tick(w.fabric, nodes, HOSTIFS_MAX);
        }
        CU_ASSERT_EQUAL(count, c[i].cut);
        CU_ASSERT_TRUE(!c[i].cut || ticks <= 7);
        hostifs_close(&w);
    }
}

/* One check is enough for a short bound; with "off" no number is. */
static void tick__cuts_off_within_the_bound(void)
{
    static const uint64_t bounds_ms[] = {1, EMU_BOUND_OFF};

    for (unsigned i = 0; i < 2; i++) {
        uint32_t nodes[HOSTIFS_MAX], count = 0;
        uint64_t taken = 0;
        struct hostifs w;

        open_in(&w, &settings[0]);
        w.fabric->config.bounds.cut_off_ms = bounds_ms[i];
        CU_ASSERT_TRUE_FATAL(take_and_fill(&w, &taken, 0));
        fabric_tick(w.fabric, nodes, HOSTIFS_MAX); /* sees what was taken so far */
        for (unsigned ticks = 0; ticks < (i ? 100u : 1u); ticks++)
            count += fabric_tick(w.fabric, nodes, HOSTIFS_MAX);
        CU_ASSERT_EQUAL(count, i ? 0 : 1);
        hostifs_close(&w);
    }
}

/* Of ticks in which processes had no core only a part counts: a starved process is not cut off. */
static void tick__counts_no_time_without_a_core(void)
{
    uint32_t nodes[HOSTIFS_MAX], ticks = 0, count = 0;
    uint64_t taken = 0;
    struct hostifs w;

    open_in(&w, &settings[0]);
    w.fabric->config.bounds.cut_off_ms = 5000;
    CU_ASSERT_TRUE_FATAL(take_and_fill(&w, &taken, 0));
    fabric_tick(w.fabric, nodes, HOSTIFS_MAX); /* sees what was taken so far */
    for (; !count && ticks < 1000; ticks++) {
        fabric_starved(w.fabric, UINT64_C(1000000000), 1);
        count = fabric_tick(w.fabric, nodes, HOSTIFS_MAX);
    }
    CU_ASSERT_EQUAL(count, 1);
    CU_ASSERT_EQUAL(ticks, (5000 + 30) / 31); /* 31 ms each */
    hostifs_close(&w);
}

/* Groups: invalid members are refused, states run out with an error, and become available again. */
static void group_create__refuses_and_recovers(void)
{
    struct hostifs w;
    uint32_t twice[2] = {1, 1}, far[2] = {0, 99}, pair[2] = {0, 1};
    uint32_t group[2000], made = 0;
    struct emu_hdr hdr = {.kind = EMU_MULTICAST, .len = 1};
    struct emu_seg seg = {0};
    char error[256];

    open_in(&w, &settings[0]);
    CU_ASSERT_EQUAL(fabric_group_create(w.fabric, twice, 2, group, error, 256), -EINVAL);
    CU_ASSERT_EQUAL(fabric_group_create(w.fabric, far, 2, group, error, 256), -EINVAL);
    CU_ASSERT_EQUAL(fabric_group_create(w.fabric, pair, 1, group, error, 256), -EINVAL);
    while (made < 2000 && !fabric_group_create(w.fabric, pair, 2, &group[made], error, 256))
        made++;
    CU_ASSERT_TRUE(made > 0 && made < 2000);
    CU_ASSERT_EQUAL(fabric_group_create(w.fabric, pair, 2, group, error, 256), -ENOSPC);
    CU_ASSERT_PTR_NOT_NULL(strstr(error, "left") ? error : strstr(error, "taken"));
    CU_ASSERT_EQUAL(fabric_group_leave(w.fabric, group[0], 7), -ENOENT);
    CU_ASSERT_EQUAL(fabric_group_leave(w.fabric, group[0], 0), 0);
    CU_ASSERT_EQUAL(fabric_group_leave(w.fabric, group[0], 0), -ENOENT);
    CU_ASSERT_EQUAL(fabric_group_leave(w.fabric, group[0], 1), 0);
    for (uint32_t i = 0; i < 1024; i++) { /* until the slot is reused */
        CU_ASSERT_EQUAL_FATAL(fabric_group_create(w.fabric, pair, 2, &group[1], error, 256), 0);
        if (group[1] % 1024 == group[0] % 1024)
            break;
        CU_ASSERT_EQUAL(fabric_group_leave(w.fabric, group[1], 0), 0);
        CU_ASSERT_EQUAL(fabric_group_leave(w.fabric, group[1], 1), 0);
    }
    CU_ASSERT_EQUAL(group[1] % 1024, group[0] % 1024);
    CU_ASSERT_NOT_EQUAL(group[1], group[0]);
    hdr.dst = group[0];
    CU_ASSERT_TRUE(hostifs_post(&w, 0, &hdr, "x"));
    hdr.kind = EMU_BARRIER; /* the adapter's own last segment */
    hdr.len = 0;
    hdr.seq = EMU_WINDOW / 2 - 1;
    CU_ASSERT_TRUE(hostifs_post(&w, 0, &hdr, NULL));
    for (uint32_t i = 0; i < HOSTIFS_GIVE_UP && totals(&w).dropped_groups_over < 2; i++)
        sched_yield();
    CU_ASSERT_EQUAL(totals(&w).dropped_groups_over,
                    2); /* late for the old group, not taken for the new one */
    CU_ASSERT_EQUAL(totals(&w).dropped_malformed, 0); /* and not the sender's error */
    CU_ASSERT_FALSE(hostifs_take(&w, 1, &seg));
    hostifs_close(&w);
}

/* Wide windows use at most half of the states; states they return serve either kind. */
static void group_create_wide__leaves_half_to_narrow_windows(void)
{
    uint32_t pair[2] = {0, 1}, wide[1024], narrow, made = 0;
    char error[256];
    struct hostifs w;

    open_in(&w, &settings[0]);
    for (uint32_t round = 0; round < 3; round++) {
        for (made = 0; made < 1024; made++)
            if (fabric_group_create_wide(w.fabric, pair, 2, &wide[made], error, 256))
                break;
        CU_ASSERT_TRUE(made > 0 && made < 1024);
        CU_ASSERT_PTR_NOT_NULL(strstr(error, "wide window"));
        CU_ASSERT_EQUAL_FATAL(fabric_group_create(w.fabric, pair, 2, &narrow, error, 256), 0);
        CU_ASSERT_EQUAL(emu_window(narrow), EMU_WINDOW);
        CU_ASSERT_EQUAL(fabric_group_leave(w.fabric, narrow, 0), 0);
        CU_ASSERT_EQUAL(fabric_group_leave(w.fabric, narrow, 1), 0);
        for (uint32_t i = 0; i < made; i++)
            CU_ASSERT_TRUE(!fabric_group_leave(w.fabric, wide[i], 0) &&
                           !fabric_group_leave(w.fabric, wide[i], 1));
    }
    hostifs_close(&w);
}

/* The most children that an adapter of @count nodes has in the tree of their group. */
static uint32_t tree_widest(const char *topo, const char *set, uint32_t count, bool wide)
{
    struct fabric_config config = {.name = "trees",
                                   .clock = EMU_CLOCK_RAW,
                                   .threads = 1,
                                   .seed = test_seed()};
    uint32_t nodes[128], id, widest = 0, below = 0;
    struct fabric *fabric;
    char error[256];

    fixture_profile(&config.profile, "qsnet3", set);
    config.graph = fixture_graph(topo, 128);
    config.start_stopped = true;
    CU_ASSERT_EQUAL_FATAL(fabric_start(&fabric, &config, error, sizeof error), 0);
    for (uint32_t n = 0; n < count; n++)
        nodes[n] = n;
    CU_ASSERT_EQUAL_FATAL((wide ? fabric_group_create_wide : fabric_group_create)(fabric, nodes,
                                                                                  count, &id, error,
                                                                                  sizeof error),
                          0);
    for (uint32_t n = 0; n < count; n++) {
        const struct engine_group *group = engine_group_of(fabric_engine(fabric, n), id);
        uint32_t children = group->tree->width - ENGINE_CHILD;

        widest = children > widest ? children : widest;
        below += children;
    }
    CU_ASSERT_EQUAL(below, count - 1);
    fabric_stop(fabric);
    topo_free((struct topo_graph *)config.graph);
    return widest;
}

/*
 * Groups for long vectors are chains, unless they are large; groups for single numbers are shallow
 * trees.
 */
static void group_create_wide__builds_a_chain(void)
{
    CU_ASSERT_EQUAL(tree_widest("kary:4,2", NULL, 16, false), 8);
    CU_ASSERT_EQUAL(tree_widest("kary:4,2", NULL, 16, true), 1);
    CU_ASSERT_EQUAL(tree_widest("kary:9,2", NULL, 64, true), 1);
    CU_ASSERT_EQUAL(tree_widest("kary:9,2", NULL, 65, true), 2);
    CU_ASSERT_EQUAL(tree_widest("kary:4,2", "tree_width=3", 16, true), 1);
    CU_ASSERT_EQUAL(tree_widest("kary:4,2", "tree_width=3", 16, false), 3);
    CU_ASSERT_EQUAL(tree_widest("kary:9,2", "vector_tree_width=5", 65, true), 5);
    CU_ASSERT_EQUAL(tree_widest("kary:9,2", "vector_tree_width=5", 65, false), 8);
}

/* If the fabric may use one core only, its worker and a process oversubscribe it. */
static void cores__are_the_allowed_ones(void)
{
    struct fabric_config config = {.threads = 1, .seed = 1, .start_stopped = true};
    cpu_set_t all, one;
    struct hostifs w;

    CU_ASSERT_EQUAL_FATAL(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    CU_ASSERT_EQUAL_FATAL(sched_setaffinity(0, sizeof one, &one), 0);
    CU_ASSERT_EQUAL(emu_affinity_cores(), 1);
    fixture_profile(&config.profile, "oq2004", NULL);
    hostifs_open(&w, "kary:2,1", &config); /* with two processes */
    CU_ASSERT_EQUAL(atomic_load(&w.nic[0].shared->oversubscribed), 1);
    CU_ASSERT_EQUAL(atomic_load(&w.fabric->worker[0]->sole_oversubscribed), 1);
    hostifs_detach(&w, 1);
    CU_ASSERT_EQUAL(atomic_load(&w.nic[0].shared->oversubscribed), 1);
    CU_ASSERT_EQUAL(atomic_load(&w.fabric->worker[0]->sole_oversubscribed), 1);
    hostifs_detach(&w, 0);
    CU_ASSERT_EQUAL(atomic_load(&w.fabric->worker[0]->sole_oversubscribed), 0);
    hostifs_close(&w);
    CU_ASSERT_EQUAL(sched_setaffinity(0, sizeof all, &all), 0);
}

/* On timed clocks cables within a worker are fused; on raw, and between two workers, none is. */
static void cables__are_fused_within_a_worker(void)
{
    static const struct setting sets[] = {
        {"kary:2,3", 1, EMU_CLOCK_RAW, EMU_CREDIT_ROW, EMU_COMBINE_ARRIVAL},
        {"kary:2,3", 1, EMU_CLOCK_REAL, EMU_CREDIT_ROW, EMU_COMBINE_ARRIVAL},
        {"kary:2,3", 2, EMU_CLOCK_REAL, EMU_CREDIT_COUNTER, EMU_COMBINE_ARRIVAL},
    };

    for (uint32_t i = 0; i < 3; i++) {
        uint32_t fused = 0, others = 0, wrong = 0;
        struct hostifs w;

        open_in(&w, &sets[i]);
        for (uint32_t s = 0; s < w.graph->switches; s++)
            for (uint32_t p = 0; p < w.graph->ports; p++) {
                const struct emu_tx *tx = switch_tx(w.fabric->sw[s], p);

                if (w.graph->sw[s].end[p].kind != TOPO_END_SWITCH)
                    continue;
                wrong += tx->fused != (i && tx->remote == tx->owner->worker);
                fused += tx->fused;
                others += !tx->fused;
            }
        CU_ASSERT_EQUAL(wrong, 0);
        CU_ASSERT_EQUAL(fused > 0, i > 0);
        CU_ASSERT_EQUAL(others > 0, i != 1);
        hostifs_close(&w);
    }
}

/* A copy from a faulty coordinator: the tree has one switch, and leads up to a node. */
static void group_restore__refuses_a_tree_up_to_a_node(void)
{
    const uint32_t nodes[] = {0 | FABRIC_LEFT, 1 | FABRIC_LEFT};
    struct topo_tree_switch leaf = {.sw = 0};
    struct fabric_group_copy copy = {.count = 2, .nodes = nodes, .tree = {1, &leaf}};
    struct hostifs w;

    open_in(&w, &settings[1]);
    for (uint32_t n = 0; n < 2; n++) {
        leaf.up = (int16_t)topo_first_link(w.graph, n)->port;
        leaf.ports |= emu_port((uint32_t)leaf.up);
    }
    CU_ASSERT_EQUAL(fabric_group_restore(w.fabric, &copy), -EINVAL);
    hostifs_close(&w);
}

int main(void)
{
    static const struct test_case cases[] = {
        {"cables__are_fused_within_a_worker", cables__are_fused_within_a_worker},
        {"unicast__every_pair_delivers_once", unicast__every_pair_delivers_once},
        {"stream__within_a_switch_fills_its_receivers_ring",
         stream__within_a_switch_fills_its_receivers_ring},
        {"stream__within_a_switch_ends_at_a_different_segment",
         stream__within_a_switch_ends_at_a_different_segment},
        {"stream__to_a_cut_off_process_is_dropped", stream__to_a_cut_off_process_is_dropped},
        {"multicast__reaches_all_members_but_the_source",
         multicast__reaches_all_members_but_the_source},
        {"allreduce__gives_every_member_every_sum", allreduce__gives_every_member_every_sum},
        {"allreduce__fills_a_wide_window", allreduce__fills_a_wide_window},
        {"reduce__arrives_at_the_root_only", reduce__arrives_at_the_root_only},
        {"barrier__waits_for_the_last", barrier__waits_for_the_last},
        {"allreduce__in_port_order_gives_the_same_bits",
         allreduce__in_port_order_gives_the_same_bits},
        {"real__is_never_faster_than_the_profile", real__is_never_faster_than_the_profile},
        {"full_hostif__counts_until_its_process_detaches",
         full_hostif__counts_until_its_process_detaches},
        {"combine__ignores_repeated_and_foreign_contributions",
         combine__ignores_repeated_and_foreign_contributions},
        {"multicast__from_outside_the_group_is_dropped",
         multicast__from_outside_the_group_is_dropped},
        {"hostif__garbage_is_counted_and_contained", hostif__garbage_is_counted_and_contained},
        {"hostif__malformed_segments_do_not_block_the_ring",
         hostif__malformed_segments_do_not_block_the_ring},
        {"hostif__endless_garbage_does_not_occupy_the_worker",
         hostif__endless_garbage_does_not_occupy_the_worker},
        {"detach__under_load_loses_no_credits", detach__under_load_loses_no_credits},
        {"tick__cuts_off_a_process_that_takes_nothing",
         tick__cuts_off_a_process_that_takes_nothing},
        {"tick__cuts_off_a_process_that_takes_hardly_any",
         tick__cuts_off_a_process_that_takes_hardly_any},
        {"tick__cuts_off_within_the_bound", tick__cuts_off_within_the_bound},
        {"tick__counts_no_time_without_a_core", tick__counts_no_time_without_a_core},
        {"cores__are_the_allowed_ones", cores__are_the_allowed_ones},
        {"group_create__refuses_and_recovers", group_create__refuses_and_recovers},
        {"group_create_wide__leaves_half_to_narrow_windows",
         group_create_wide__leaves_half_to_narrow_windows},
        {"group_create_wide__builds_a_chain", group_create_wide__builds_a_chain},
        {"group_restore__refuses_a_tree_up_to_a_node", group_restore__refuses_a_tree_up_to_a_node},
        {NULL, NULL},
    };

    return test_run("fabric", cases);
}
