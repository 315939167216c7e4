/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_tree_test.c - collectives among adapters: correct results, each exactly once, whatever the
 * cables, hosts and the manager do.
 */
#include <time.h>
#include <string.h>

#include "emu/util/combine.h"
#include "apps/fabric/links.h"
#include "nic/engine/internal.h"
#include "tests/test.h"
#include "tests/fixtures/hostifs.h"
#include "tests/fixtures/engine/trees.h"

#define LONG "FABEMU_TEST_LONG"

/* By how much the long version of the test (FABEMU_TEST_LONG) multiplies. */
static uint32_t times(uint32_t more)
{
    return getenv(LONG) ? more : 1;
}

/* Operations of a stream: more in the long version, fewer under a sanitizer. */
static uint32_t ops(uint32_t count)
{
#ifdef __SANITIZE_THREAD__
    return count * times(10) / 4;
#else
    return count * times(10);
#endif
}

/* Run a virtual fixture to its end: all results were correct and came once, and nothing is left. */
static void run_to_end(struct trees *w)
{
    trees_run(w, TREES_LIMIT_PS);
    CU_ASSERT_TRUE(trees_through(w));
    CU_ASSERT_EQUAL(trees_wrong(w), 0);
    CU_ASSERT_EQUAL(trees_other(w), 0);
    CU_ASSERT_EQUAL(COUNT(w, against), 0);
    CU_ASSERT_EQUAL(COUNT(w, refused), 0);
    CU_ASSERT_EQUAL(COUNT(w, lost), 0);
    CU_ASSERT_TRUE(trees_clean(w));
}

/* --- streams ------------------------------------------------------------------------ */

static void streams_right(const struct trees_config *set)
{
    struct trees w;

    trees_open(&w, set);
    run_to_end(&w);
    CU_ASSERT_TRUE(COUNT(&w, results) > 0);
    CU_ASSERT_TRUE(!set->faults || COUNT(&w, duplicates) > 0);
    CU_ASSERT_TRUE(!set->faults || COUNT(&w, timeouts) > 0);
    trees_close(&w);
}

/* All collectives in random groups, on all kinds of trees; then on cables with 1 % faults. */
static void streams__give_every_member_every_result(void)
{
    static const struct {
        const char *topo, *set;
    } fixtures[] = {
        {"kary:2,2", "barrier=conditional"},
        {"kary:4,2", "barrier=tree tree_width=2"},
        {"kary:2,4", "barrier=conditional combine_order=port"},
        {"qsnet:24", "barrier=tree combine_order=port tree_width=3"},
        {"qsnet:20,links=2", "barrier=conditional tree_width=1"},
        {"qsnet:12,rails=2", "barrier=tree tree_width=16 reply_timeout_ps=20000000"},
        {"kary:2,3", "combining=switch"},
        {"qsnet:24,links=2,apart=router", "combining=switch combine_order=port"},
        {"qsnet:20,links=2,apart=router", "broadcast_trees=4"},
        {"kary:2,3", "combining=switch broadcast_trees=2"},
        {"qsnet:64", "barrier=conditional"}, /* in the long version */
    };

    for (uint32_t i = 0; i + (times(2) == 1) < sizeof fixtures / sizeof fixtures[0]; i++)
        for (uint32_t faults = 0; faults <= 2000; faults += 2000) {
            struct trees_config set = {.clock = EMU_CLOCK_VIRTUAL,
                                       .topo = fixtures[i].topo,
                                       .set = fixtures[i].set,
                                       .streams = 3,
                                       .ops = ops(300),
                                       .delay_ps = 3000000,
                                       .noise = 60,
                                       .faults = faults};

            streams_right(&set);
        }
}

/* Few channels and slots, segments of hosts one by one, hosts that take nothing for long. */
static void streams__continue_with_few_resources(void)
{
    struct trees_config set = {.clock = EMU_CLOCK_VIRTUAL,
                               .topo = "kary:4,2",
                               .streams = 6,
                               .set = "channels=1 pool_slots=1 packet_bytes=256 barrier=tree",
                               .ops = ops(150),
                               .noise = 100,
                               .nap_ps = 300000000};

    streams_right(&set);
    set.set = "channels=2 pool_slots=1 barrier=conditional tree_width=2";
    set.faults = 2000;
    streams_right(&set);
    set.set = "channels=1 pool_slots=1 combining=switch";
    streams_right(&set);
}

/* Windows of a hundred and more barriers: all members, or all but one, run ahead. */
static void streams__of_one_kind_fill_the_window(void)
{
    static const uint32_t mixes[] = {MIX_BARRIER, MIX_REDUCE, MIX_ALLREDUCE, MIX_MULTICAST};
    static const char *const sets[] = {"barrier=tree", "barrier=conditional combine_order=port",
                                       "combining=switch"};

    for (uint32_t i = 0; i < 4; i++)
        test_each_setting (s, 3) {
            struct trees_config set = {.clock = EMU_CLOCK_VIRTUAL,
                                       .topo = "qsnet:10,links=2",
                                       .set = sets[s],
                                       .streams = 2,
                                       .ops = ops(600),
                                       .mix = mixes[i],
                                       .all = true,
                                       .nap_ps = 100000000,
                                       .faults = s % 2 * 1000};

            streams_right(&set);
        }
}

/* --- reproducibility ---------------------------------------------------------------- */

static uint64_t digest_of(const struct trees_config *set)
{
    uint64_t digest;
    struct trees w;

    trees_open(&w, set);
    for (uint32_t i = 0; set->junk && i < TREES_JUNK; i++)
        w.junk_id[i] = trees_group_of_all(&w);
    /* an operation that junk starts may never end */
    trees_run(&w, set->junk ? 20000000000 : TREES_LIMIT_PS);
    CU_ASSERT_TRUE(trees_through(&w));
    CU_ASSERT_EQUAL(trees_wrong(&w), 0);
    digest = trees_digest(&w);
    for (uint32_t i = 0; set->junk && i < TREES_JUNK; i++)
        fixture_group_end(w.fabric, w.junk_id[i]);
    CU_ASSERT_TRUE(trees_clean(&w));
    trees_close(&w);
    return digest;
}

/* Times, bits of sums combined in order of arrival, and retries are all identical. */
static void virtual__is_the_same_for_any_workers_and_windows(void)
{
    static const char *const topos[] = {"kary:2,3", "qsnet:24", "qsnet:12,rails=2", "kary:2,3"};
    static const char *const sets[] = {"barrier=conditional", "barrier=tree", "barrier=tree",
                                       "combining=switch"};

    test_each_setting (t, 4) {
        struct trees_config set = {.clock = EMU_CLOCK_VIRTUAL,
                                   .topo = topos[t],
                                   .streams = 3,
                                   .set = sets[t],
                                   .mix = t ? MIX_ALL : MIX_ALL | MIX_ROUGH,
                                   .ops = ops(150),
                                   .delay_ps = 2000000,
                                   .noise = 40,
                                   .faults = 2000,
                                   .junk = 60,
                                   .nap_ps = 50000000};
        uint64_t digest = digest_of(&set);

        for (set.workers = 2; set.workers <= 3; set.workers++)
            CU_ASSERT_EQUAL(digest_of(&set), digest);
        set.workers = 1;
        set.cut_ps = 70000; /* about one window */
        CU_ASSERT_EQUAL(digest_of(&set), digest);
        set.workers = 2;
        set.cut_ps = 5000000;
        CU_ASSERT_EQUAL(digest_of(&set), digest);
    }
}

static uint64_t bits_of(const struct trees_config *set)
{
    uint64_t bits = 0;
    struct trees w;

    trees_open(&w, set);
    run_to_end(&w);
    for (uint32_t n = 0; n < w.hosts; n++)
        bits = bits * 31 + w.host[n]->bits;
    trees_close(&w);
    return bits;
}

/* In port order, sums have the same bits whoever is late and whatever is retransmitted. */
static void same_bits(const char *what)
{
    struct trees_config set = {.clock = EMU_CLOCK_VIRTUAL,
                               .topo = "kary:4,2",
                               .streams = 2,
                               .set = what,
                               .mix = MIX_REDUCE | MIX_ALLREDUCE | MIX_ROUGH,
                               .ops = ops(100),
                               .delay_ps = 20000000};
    uint64_t bits = bits_of(&set);

    for (set.delay_seed = 1; set.delay_seed <= 3 * times(10); set.delay_seed++) {
        set.faults = set.delay_seed % 2 * 2000;
        CU_ASSERT_EQUAL(bits_of(&set), bits);
    }
}

static void port_order__gives_the_same_bits(void)
{
    same_bits("combine_order=port tree_width=3");
    same_bits("combine_order=port combining=switch");
}

/* --- words and conditionals --------------------------------------------------------- */

static void send_word(struct trees *w, uint32_t node, uint8_t kind, uint32_t group, uint32_t seq,
                      const struct emu_word *word, uint64_t at_ps)
{
    struct emu_hdr hdr = {.dst = group, .seq = seq, .kind = kind, .len = sizeof *word};

    trees_send(w, node, &hdr, word, at_ps);
}

static void send_set(struct trees *w, uint32_t node, uint32_t group, uint32_t word, uint64_t value,
                     uint64_t at_ps)
{
    send_word(w, node, EMU_SET, group, 0, &(struct emu_word){.value = value, .word = word}, at_ps);
}

static void set_all(struct trees *w, uint32_t group, uint32_t word, uint64_t value)
{
    for (uint32_t n = 0; n < w->hosts; n++)
        send_set(w, n, group, word, value, 0);
    trees_run(w, w->now_ps + 5000000);
}

/* The answer to host @node's conditional; -1: none, or more than one. */
static int answer_of(struct trees *w, uint32_t node, uint32_t group, const struct emu_word *word)
{
    static uint32_t seq;
    struct tree_line line;

    send_word(w, node, EMU_TEST, group, ++seq, word, 0);
    trees_run(w, TREES_LIMIT_PS);
    if (trees_received(w->host[node], EMU_TEST, group, seq, &line) != 1 || line.hdr.len ||
        line.hdr.src != node || line.hdr.op > EMU_TEST_TRUE)
        return -1;
    return line.hdr.op;
}

static int equal_of(struct trees *w, uint32_t node, uint32_t group, uint32_t word, uint64_t value)
{
    return answer_of(w, node, group, &(struct emu_word){.value = value, .word = word});
}

static int reached_of(struct trees *w, uint32_t node, uint32_t group, uint32_t word, uint64_t value)
{
    return answer_of(w, node, group,
                     &(struct emu_word){.value = value, .word = word, .test = EMU_TEST_REACHED});
}

/*
 * The answer is true exactly if the words of all members, the source included, satisfy the
 * condition.
 */
static void conditionals__report_whether_all_agree(void)
{
    struct trees_config set = {.clock = EMU_CLOCK_VIRTUAL, .topo = "kary:2,3"};
    uint32_t group, words[2] = {0, EMU_WORDS - 1};
    struct trees w;

    trees_open(&w, &set);
    group = trees_group_of_all(&w);
    CU_ASSERT_EQUAL(equal_of(&w, 1, group, 3, 0), EMU_TEST_TRUE); /* initial value */
    CU_ASSERT_EQUAL(equal_of(&w, 1, group, 3, 1), EMU_TEST_FALSE);
    for (uint32_t i = 0; i < 2; i++) {
        set_all(&w, group, words[i], 41);
        CU_ASSERT_EQUAL(equal_of(&w, 2, group, words[i], 41), EMU_TEST_TRUE);
        CU_ASSERT_EQUAL(equal_of(&w, 2, group, words[i], 42), EMU_TEST_FALSE);
        for (uint32_t odd = 0; odd < w.hosts; odd++) {
            send_set(&w, odd, group, words[i], 42, 0);
            CU_ASSERT_EQUAL(equal_of(&w, 2, group, words[i], 41), EMU_TEST_FALSE);
            CU_ASSERT_EQUAL(reached_of(&w, 2, group, words[i], 41), EMU_TEST_TRUE);
            CU_ASSERT_EQUAL(reached_of(&w, 2, group, words[i], 42), odd + 1 == w.hosts);
        }
    }
    set_all(&w, group, 5, 3); /* past UINT64_MAX */
    CU_ASSERT_EQUAL(reached_of(&w, 0, group, 5, UINT64_MAX - 7), EMU_TEST_TRUE);
    CU_ASSERT_EQUAL(reached_of(&w, 0, group, 5, (UINT64_C(1) << 63) + 4), EMU_TEST_TRUE);
    CU_ASSERT_EQUAL(reached_of(&w, 0, group, 5, (UINT64_C(1) << 63) + 3), EMU_TEST_FALSE);
    CU_ASSERT_EQUAL(reached_of(&w, 0, group, 5, 4), EMU_TEST_FALSE);
    CU_ASSERT_EQUAL(equal_of(&w, 0, group, 4, 0), EMU_TEST_TRUE); /* other words are unchanged */
    CU_ASSERT_TRUE(COUNT(&w, unequal) < COUNT(&w, conditionals));
    CU_ASSERT_EQUAL(COUNT(&w, nacks), 0); /* an answer "false" is no NACK */
    fixture_group_end(w.fabric, group);
    CU_ASSERT_TRUE(trees_clean(&w));
    trees_close(&w);
}

/*
 * All wait for all others, on faulty cables: each is notified once, and not before the last has set
 * its word.
 */
static void conditionals__wait_until_all_agree(void)
{
    struct trees_config set = {.clock = EMU_CLOCK_VIRTUAL, .topo = "qsnet:10,links=2"};
    const struct emu_word until = {.value = 9, .word = 2, .test = EMU_TEST_REACHED, .until = 1};
    uint64_t last_ps = 900000000;
    struct tree_line line = {0};
    struct trees w;

    for (set.faults = 0; set.faults <= 2000; set.faults += 2000) {
        uint32_t group, wrong = 0;

        trees_open(&w, &set);
        group = trees_group_of_all(&w);
        for (uint32_t n = 0; n < w.hosts; n++) {
            for (uint32_t i = 0; i < 4; i++)
                send_word(&w, n, EMU_TEST, group, i, &until, 1000000);
            send_set(&w, n, group, 2, 7 + n % 3, 2000000);
            send_set(&w, n, group, 2, 10, n == 4 ? last_ps : 200000000);
        }
        trees_run(&w, TREES_LIMIT_PS);
        for (uint32_t n = 0; n < w.hosts; n++)
            for (uint32_t i = 0; i < 4; i++) {
                wrong += trees_received(w.host[n], EMU_TEST, group, i, &line) != 1;
                wrong += line.hdr.op != EMU_TEST_TRUE || line.at_ps < last_ps ||
                         line.at_ps > last_ps + (set.faults ? 1000000000000 : 150000000);
            }
        CU_ASSERT_EQUAL(wrong, 0);
        CU_ASSERT_EQUAL(trees_other(&w), 4 * w.hosts);
        fixture_group_end(w.fabric, group);
        CU_ASSERT_TRUE(trees_clean(&w));
        trees_close(&w);
    }
}

/* The segment returns to host @node as failed, once, and nothing else does. */
static void fails(struct trees *w, uint32_t node, const struct emu_hdr *hdr, const void *payload)
{
    uint64_t other = trees_other(w);
    struct tree_line line = {0};

    w->host[node]->heard = 0;
    trees_send(w, node, hdr, payload, 0);
    trees_run(w, w->now_ps + 50000000);
    CU_ASSERT_EQUAL(trees_other(w), other + 1);
    CU_ASSERT_EQUAL(trees_received(w->host[node], hdr->kind | EMU_FAILED, hdr->dst, hdr->seq,
                                   &line),
                    1);
    CU_ASSERT_EQUAL(line.hdr.len, hdr->len);
    CU_ASSERT_EQUAL(line.hdr.op, hdr->op);
    CU_ASSERT_TRUE(!payload || !memcmp(line.payload, payload, hdr->len));
}

/* An invalid conditional is returned, and so is any segment for a group that the node is not in. */
static void invalid__returns_as_failed(void)
{
    struct trees_config set = {.clock = EMU_CLOCK_VIRTUAL, .topo = "kary:4,1"};
    static const struct emu_word words[] = {{.word = EMU_WORDS + EMU_MEMORY_WORDS},
                                            {.word = UINT32_MAX},
                                            {.test = EMU_TEST_REACHED + 1},
                                            {.until = EMU_TEST_TAKE_BACK + 1}};
    static const uint8_t kinds[] = {EMU_REDUCE, EMU_ALLREDUCE, EMU_BARRIER, EMU_SET, EMU_TEST};
    uint32_t group, broadcasts, nodes[3] = {0, 1, 2};
    uint64_t bytes[2] = {1, 2};
    char error[256];
    struct trees w;

    trees_open(&w, &set);
    group = fixture_group(w.fabric, nodes, 3);
    CU_ASSERT_EQUAL_FATAL(fabric_multicast_create(w.fabric, nodes, 3, 3, &broadcasts, error, 256),
                          0);
    for (uint32_t i = 0; i < 4; i++)
        fails(&w, 1, &(struct emu_hdr){.dst = group, .seq = i, .kind = EMU_TEST, .len = 16},
              &words[i]);
    fails(&w, 1, &(struct emu_hdr){.dst = group, .kind = EMU_TEST, .len = 8}, bytes);
    for (uint32_t i = 0; i < 5; i++) {
        struct emu_hdr hdr = {.seq = 7, .kind = kinds[i], .len = i == 2 ? 0 : 16, .type = EMU_U64};
        uint32_t strange[] = {broadcasts, group + FABRIC_GROUPS_MAX, UINT32_MAX, 5};

        for (uint32_t s = 0; s < 4; s++) {
            hdr.dst = strange[s];
            fails(&w, 0, &hdr, bytes);
        }
        hdr.dst = group;
        fails(&w, 3, &hdr, bytes);
    }
    CU_ASSERT_EQUAL(COUNT(&w, refused), 4 + 1 + 5); /* five are broadcasts, which have no state */
    CU_ASSERT_EQUAL(COUNT(&w, not_in_group), 4 * 5);
    send_set(&w, 0, group, EMU_WORDS + 1, 1, 0); /* no answer, no effect */
    trees_run(&w, TREES_LIMIT_PS);
    CU_ASSERT_EQUAL(COUNT(&w, against), 1);
    fixture_group_end(w.fabric, group);
    fixture_group_end(w.fabric, broadcasts);
    CU_ASSERT_TRUE(trees_clean(&w));
    trees_close(&w);
}

/* --- invalid operations ------------------------------------------------------------- */

static void send(struct trees *w, uint32_t node, uint8_t kind, uint32_t dst, uint32_t seq)
{
    trees_send(w, node, &(struct emu_hdr){.dst = dst, .seq = seq, .kind = kind}, NULL, 0);
}

/* Nothing gets through: each segment returns to its sender once, and a conditional is false. */
static void dropped__returns_once(void)
{
    struct trees_config set = {.clock = EMU_CLOCK_VIRTUAL,
                               .topo = "kary:2,2",
                               .lost = EMU_FAULT_UNIT,
                               .set = "retry_limit=4 barrier=tree tree_width=2"};
    const struct emu_word until = {.until = 1};
    uint32_t group;
    struct trees w;

    trees_open(&w, &set);
    group = trees_group_of_all(&w);
    for (uint32_t n = 0; n < w.hosts; n++) {
        send(&w, n, EMU_UNICAST | EMU_NOTIFY, (n + 1) % w.hosts, 1);
        send(&w, n, EMU_MULTICAST | EMU_NOTIFY, group, 2);
        send(&w, n, EMU_MULTICAST, group, 3);
        send(&w, n, EMU_BARRIER, group, 4);
        send_word(&w, n, EMU_TEST, group, 5, &(struct emu_word){0}, 0);
        send_word(&w, n, EMU_TEST, group, 6, &until, 0);
    }
    trees_run(&w, w.now_ps + 50000000000);
    for (uint32_t n = 0; n < w.hosts; n++) {
        const struct tree_host *h = w.host[n];
        bool leaf = w.fabric->group[group % FABRIC_GROUPS_MAX]->engines->at[n].group->tree->width ==
                    ENGINE_CHILD;
        uint8_t flags = EMU_NOTIFY | EMU_FAILED;
        struct tree_line line = {0};

        CU_ASSERT_EQUAL(h->heard, 4u + leaf);
        CU_ASSERT_EQUAL(trees_received(h, EMU_UNICAST | flags, (n + 1) % w.hosts, 1, NULL), 1);
        CU_ASSERT_EQUAL(trees_received(h, EMU_MULTICAST | flags, group, 2, NULL), 1);
        CU_ASSERT_EQUAL(trees_received(h, EMU_MULTICAST | EMU_FAILED, group, 3, NULL), 1);
        CU_ASSERT_EQUAL(trees_received(h, EMU_BARRIER | EMU_FAILED, group, 4, NULL), leaf);
        CU_ASSERT_EQUAL(trees_received(h, EMU_TEST, group, 5, &line), 1);
        CU_ASSERT_EQUAL(line.hdr.op, EMU_TEST_FALSE);
    }
    fixture_group_end(w.fabric, group); /* while conditionals still wait */
    CU_ASSERT_TRUE(trees_clean(&w));
    trees_close(&w);
}

static uint32_t host_heard_of(const struct tree_host *h, uint32_t group)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < h->heard; i++)
        count += h->log[i].hdr.dst == group && h->log[i].hdr.kind == EMU_BARRIER;
    return count;
}

/* From now on host @node's adapter receives nothing. */
static void deafen(struct trees *w, uint32_t node)
{
    struct emu_faults *faults = fabric_faults(w->fabric, fabric_cable_of(w->fabric, node, 0), true);

    faults->rates = (struct emu_fault_rates){.lost = EMU_FAULT_UNIT};
}

/*
 * A result that one member does not get returns to the root where it was made; the others have it
 * once. If all members leave meanwhile it is not retried: the links are free for other groups.
 */
static void result_dropped__returns_to_the_root(void)
{
    struct trees_config set = {.clock = EMU_CLOCK_VIRTUAL,
                               .topo = "kary:4,1",
                               .faults = 1,
                               .set = "retry_limit=12 barrier=tree retry_ps=100000"};
    uint32_t group, other, nodes[2] = {0, 1};
    struct trees w;

    trees_open(&w, &set);
    group = trees_group_of_all(&w);
    other = fixture_group(w.fabric, nodes, 2);
    deafen(&w, 3);
    for (uint32_t n = 0; n < w.hosts; n++)
        send(&w, n, EMU_BARRIER, group, 1);
    trees_run(&w, w.now_ps + 100000000000);
    for (uint32_t n = 0; n < w.hosts; n++) {
        CU_ASSERT_EQUAL(trees_received(w.host[n], EMU_BARRIER, group, 1, NULL), n != 3);
        CU_ASSERT_EQUAL(trees_received(w.host[n], EMU_BARRIER | EMU_FAILED, group, 1, NULL),
                        n == 0 || n == 3);
    }
    for (uint32_t n = 0; n < w.hosts; n++)
        send(&w, n, EMU_BARRIER, group, 2);
    trees_run(&w, w.now_ps + 3000000);
    fixture_group_end(w.fabric, group);
    trees_run(&w, w.now_ps + 2500000000); /* two time-outs: host 3's result is still retried */
    CU_ASSERT_TRUE(engine_idle(fabric_engine(w.fabric, 0)));
    for (uint32_t i = 0; i < 2000; i++) { /* many windows */
        send(&w, 0, EMU_BARRIER, other, i);
        send(&w, 1, EMU_BARRIER, other, i);
        trees_run(&w, w.now_ps + 20000000);
    }
    CU_ASSERT_TRUE(host_heard_of(w.host[1], other) > 1990); /* cables lose one entry in a million */
    trees_run(&w, w.now_ps + 2500000000);
    CU_ASSERT_EQUAL(host_heard_of(w.host[1], other), 2000);
    fixture_group_end(w.fabric, other);
    CU_ASSERT_TRUE(trees_clean(&w));
    trees_close(&w);
}

/* --- waiting packets ---------------------------------------------------------------- */

/* A group with all members that node 0 reaches by link @link. */
static uint32_t group_by_link(struct trees *w, uint32_t link)
{
    for (uint32_t tries = 0; tries < 20; tries++) {
        uint32_t group = trees_group_of_all(w);

        if (w->fabric->group[group % FABRIC_GROUPS_MAX]->engines->at[0].group->link[0] == link)
            return group;
    }
    CU_FAIL_FATAL("no tree by that link");
    return 0;
}

/* Many packets that must use one link do not block those behind them that must use the other. */
static void links__do_not_block_each_other(void)
{
    static const char *const topos[] = {"qsnet:24,links=2,apart=router", "qsnet:4,rails=2"};
    struct trees w;

    for (uint32_t i = 0; i < 2; i++) {
        struct trees_config set = {.clock = EMU_CLOCK_VIRTUAL, .topo = topos[i]};
        uint32_t group[2];

        trees_open(&w, &set);
        group[0] = group_by_link(&w, 0);
        group[1] = group_by_link(&w, 1);
        for (uint32_t m = 0; m < 120; m++)
            send(&w, 0, EMU_MULTICAST, group[m / 60], m);
        trees_run(&w, TREES_LIMIT_PS);
        CU_ASSERT_EQUAL(w.host[1]->heard, 120);
        CU_ASSERT_EQUAL(trees_other(&w), (w.hosts - 1) * 120);
        while (fabric_node_groups(w.fabric, 0, group, 1))
            fixture_group_end(w.fabric, group[0]);
        CU_ASSERT_TRUE(trees_clean(&w));
        trees_close(&w);
    }
}

/*
 * A word for a host that takes nothing keeps its packet, so the flow stays closed until the host
 * takes it.
 */
static void flow__opens_when_its_oldest_was_delivered(void)
{
    struct trees_config set = {.clock = EMU_CLOCK_VIRTUAL, .topo = "kary:4,1"};
    uint32_t group, broadcasts = ENGINE_WINDOW + 40; /* more than there are packets for */
    struct trees w;

    trees_open(&w, &set);
    group = trees_group_of_all(&w);
    w.host[0]->nap_ps = 1000000000;
    for (uint32_t i = 0; i < ENGINE_LOCAL_CREDITS + 1; i++)
        send(&w, 0, EMU_UNICAST | EMU_NOTIFY, 1, i);
    trees_run(&w, w.now_ps + 100000000);
    for (uint32_t i = 0; i < broadcasts; i++)
        send(&w, 0, i ? EMU_MULTICAST : EMU_MULTICAST | EMU_NOTIFY, group, i);
    trees_run(&w, w.host[0]->nap_ps - 1);
    CU_ASSERT_EQUAL(w.host[2]->heard, ENGINE_WINDOW);
    trees_run(&w, TREES_LIMIT_PS);
    CU_ASSERT_EQUAL(w.host[2]->heard, broadcasts);
    CU_ASSERT_EQUAL(w.host[0]->heard, ENGINE_LOCAL_CREDITS + 2);
    fixture_group_end(w.fabric, group);
    CU_ASSERT_TRUE(trees_clean(&w));
    trees_close(&w);
}

/* --- creating and removing groups --------------------------------------------------- */

/*
 * Groups are created, and removed when they are done or in mid-operation; nothing is left of them.
 */
static void start_and_end_groups(const char *what)
{
    struct trees_config set = {.clock = EMU_CLOCK_VIRTUAL,
                               .topo = "qsnet:4,links=2",
                               /* as much per round, for any number of rounds */
                               .noise = ops(3000) / times(10),
                               .delay_ps = 1000000,
                               .junk = 3000 * times(10),
                               .faults = 500,
                               .set = what};
    uint64_t random = test_seed() + 77;
    uint32_t node[TREES_HOSTS], through = 0;
    struct trees w;

    trees_open(&w, &set);
    for (uint32_t round = 0; round < ops(2200); round++) {
        uint32_t members = 2 + (uint32_t)(test_random(&random) % (w.hosts - 1));
        uint32_t at = (uint32_t)(test_random(&random) % TREES_JUNK);

        trees_nodes(&w, &random, node, members);
        if (round % 2) {
            fixture_group_end(w.fabric, w.junk_id[at]);
            w.junk_id[at] = fixture_group(w.fabric, node, members);
        } else {
            trees_stream(&w, node, members, 1 + test_random(&random) % 20, test_random(&random));
        }
        trees_advance(&w, w.now_ps + test_random(&random) % 15000000);
        for (uint32_t s = w.streams; s--;)
            if (!atomic_load(&w.stream[s]->left) || w.streams == TREES_STREAMS / 2) {
                through += !atomic_load(&w.stream[s]->left);
                trees_stream_end(&w, s);
            }
    }
    while (atomic_load(&w.noise_left) && w.now_ps < TREES_LIMIT_PS) /* few rounds end sooner */
        trees_advance(&w, w.now_ps + 10000000000);
    for (uint32_t i = 0; i < TREES_JUNK; i++)
        fixture_group_end(w.fabric, w.junk_id[i]);
    CU_ASSERT_TRUE(trees_clean(&w));
    CU_ASSERT_EQUAL(trees_wrong(&w), 0);
    CU_ASSERT_EQUAL(atomic_load(&w.noise_left), 0);
    CU_ASSERT_TRUE(through > ops(2200) / 8);
    trees_close(&w);
}

static void groups__start_and_end_under_traffic(void)
{
    static const char *const sets[] = {"combine_order=port barrier=conditional",
                                       "combining=switch"};

    test_each_setting (i, 2)
        start_and_end_groups(sets[i]);
}

/*
 * A group whose results still wait when all members leave is freed when they can be delivered, not
 * before.
 */
static void group__with_waiting_results_is_freed_later(void)
{
    struct trees_config set = {.clock = EMU_CLOCK_VIRTUAL,
                               .topo = "kary:4,1",
                               .set = "barrier=tree channels=1"};
    uint32_t group[2];
    struct trees w;

    trees_open(&w, &set);
    w.host[0]->nap_ps = 5000000000;
    for (uint32_t g = 0; g < 2; g++) {
        group[g] = trees_group_of_all(&w);
        for (uint32_t n = 0; n < w.hosts; n++)
            for (uint32_t i = 0; i < 120; i++)
                send(&w, n, EMU_BARRIER, group[g], i);
    }
    trees_run(&w, 4000000000);
    CU_ASSERT_EQUAL(w.host[0]->heard, 0);
    CU_ASSERT_TRUE(w.host[1]->heard < 240);
    for (uint32_t g = 0; g < 2; g++)
        fixture_group_end(w.fabric, group[g]);
    CU_ASSERT_PTR_NOT_NULL(w.fabric->retired);
    fabric_groups_sweep(w.fabric);
    CU_ASSERT_PTR_NOT_NULL(w.fabric->retired);
    CU_ASSERT_TRUE(w.fabric->spare_bufs < w.spare_bufs);
    CU_ASSERT_TRUE(trees_clean(&w)); /* the host takes segments again */
    CU_ASSERT_TRUE(w.host[0]->heard >= w.host[1]->heard);
    trees_close(&w);
}

/* The fabric may be stopped at any time. */
static void stop__frees_operations_in_progress(void)
{
    static const char *const sets[] = {"barrier=tree channels=1 combine_order=port",
                                       "barrier=conditional",
                                       "combining=switch combine_order=port"};

    for (uint32_t s = 0; s < 3; s++)
        for (uint32_t i = 1; i < 8; i++) {
            struct trees_config set = {.clock = EMU_CLOCK_VIRTUAL,
                                       .topo = "kary:2,2",
                                       .set = sets[s],
                                       .streams = 4,
                                       .ops = 300,
                                       .noise = 50,
                                       .junk = 100,
                                       .nap_ps = 900000000,
                                       .delay_ps = 1000000};
            struct trees w;

            trees_open(&w, &set);
            w.junk_id[0] = trees_group_of_all(&w);
            trees_advance(&w, i * 7000000);
            if (i % 2)
                trees_stream_end(&w, 0);
            while (w.streams && i % 3) /* otherwise the fabric frees the groups */
                trees_stream_end(&w, 0);
            trees_close(&w);
        }
}

/* --- hosts that break the protocol -------------------------------------------------- */

/* Junk harms only groups of its own members, and only until all have left. */
static void junk__harms_its_own_groups_only(void)
{
    static const char *const sets[] = {"barrier=tree",
                                       "barrier=conditional combine_order=port tree_width=2",
                                       "combining=switch"};

    test_each_setting (s, 3) {
        struct trees_config set = {.clock = EMU_CLOCK_VIRTUAL,
                                   .topo = "qsnet:12,links=2",
                                   .set = sets[s],
                                   .streams = 2,
                                   .ops = 200,
                                   .delay_ps = 2000000,
                                   .noise = 100,
                                   .junk = 1000 * times(10),
                                   .nap_ps = 10000000,
                                   .faults = 500};
        struct trees w;

        trees_open(&w, &set);
        for (uint32_t i = 0; i < TREES_JUNK; i++)
            w.junk_id[i] = i ? fixture_group(w.fabric, (const uint32_t[]){i, i + 1, 9 + i % 2}, 3)
                             : trees_group_of_all(&w);
        trees_run(&w, 30000000000);
        CU_ASSERT_TRUE(trees_through(&w));
        CU_ASSERT_EQUAL(trees_wrong(&w), 0);
        CU_ASSERT_TRUE(COUNT(&w, against) > 100);
        CU_ASSERT_TRUE(COUNT(&w, refused) > 100);
        CU_ASSERT_TRUE(COUNT(&w, not_in_group) > 100);
        for (uint32_t i = 0; i < TREES_JUNK; i++)
            fixture_group_end(w.fabric, w.junk_id[i]);
        CU_ASSERT_TRUE(trees_clean(&w));
        trees_close(&w);
    }
}

/*
 * Each group starts its own numbering, even if it reuses the slot of an earlier group: numbers of
 * the old group do not affect the new members.
 */
static void numbers__restart_with_a_group(void)
{
    static const uint32_t leaps[] = {1, ENGINE_WINDOW, 1u << 20, ENGINE_SPAN - 1};
    struct trees_config set = {.clock = EMU_CLOCK_VIRTUAL, .topo = "kary:4,1"};
    struct trees w;

    trees_open(&w, &set);
    for (uint32_t i = 0; i < sizeof leaps / sizeof leaps[0]; i++) {
        uint32_t group = trees_group_of_all(&w);

        for (uint32_t b = 0; b < 2; b++) {
            for (uint32_t n = 0; n < w.hosts; n++)
                send(&w, n, EMU_BARRIER, group, b);
            trees_run(&w, w.now_ps + 100000000);
            for (uint32_t n = 0; n < w.hosts; n++)
                CU_ASSERT_EQUAL(trees_received(w.host[n], EMU_BARRIER, group, b, NULL), 1);
            if (!b) /* the rest was dropped, and no member got it */
                engine_group_of(fabric_engine(w.fabric, 0), group)->flow.next += leaps[i];
        }
        fixture_group_end(w.fabric, group);
    }
    CU_ASSERT_TRUE(trees_clean(&w));
    trees_close(&w);
}

/* --- time-outs ---------------------------------------------------------------------- */

/* Use the time-outs of clock raw: they follow the round trips, which are short here. */
static void adapt_timeouts(struct trees *w, uint64_t least_ps)
{
    for (uint32_t n = 0; n < w->hosts; n++) {
        struct emu_rto *rto = &fabric_engine(w->fabric, n)->rto;

        emu_rto_adapt(rto, least_ps);
        emu_rto_sample(rto, 1);
    }
}

/* Lose everything on all cables from now on, or nothing. */
static void lose_all(struct trees *w, bool lose)
{
    for (uint32_t n = 0; n < w->hosts; n++)
        fabric_faults(w->fabric, fabric_cable_of(w->fabric, n, 0), true)->rates.lost =
            lose ? EMU_FAULT_UNIT : 0;
}

/*
 * The last member enters a barrier late, so its conditional is answered with "false" many times.
 * Then one test of it is lost. The engine waits for the reply no longer than for a first one:
 * answered tests are no reason to wait longer.
 */
static void conditional__lost_after_many_answers_is_soon_tested_again(void)
{
    const uint64_t timeout_ps = 5000000000, most_ps = 100000000000;
    struct trees_config set = {.clock = EMU_CLOCK_VIRTUAL,
                               .topo = "kary:4,1",
                               .lost = 1,
                               .set = "barrier=conditional reply_timeout_ps=100000000000"};
    uint32_t group, n;
    struct trees w;

    trees_open(&w, &set);
    adapt_timeouts(&w, timeout_ps);
    lose_all(&w, false);
    group = trees_group_of_all(&w);
    for (n = 0; n < 3; n++)
        send(&w, n, EMU_BARRIER, group, 1);
    trees_advance(&w, 20000000000);
    CU_ASSERT_TRUE(COUNT(&w, unequal) > 20);
    CU_ASSERT_EQUAL(COUNT(&w, timeouts), 0);
    lose_all(&w, true);
    trees_advance(&w, w.now_ps + timeout_ps / 2); /* longer than any backoff */
    lose_all(&w, false);
    send(&w, 3, EMU_BARRIER, group, 1);
    trees_advance(&w, w.now_ps + 2 * timeout_ps);
    CU_ASSERT_EQUAL(COUNT(&w, timeouts), 1);
    for (n = 0; n < w.hosts; n++)
        CU_ASSERT_EQUAL(trees_received(w.host[n], EMU_BARRIER, group, 1, NULL), 1);
    trees_run(&w, w.now_ps + 10 * most_ps);
    fixture_group_end(w.fabric, group);
    CU_ASSERT_TRUE(trees_clean(&w));
    trees_close(&w);
}

/* --- clock raw ---------------------------------------------------------------------- */

static void raw_by_hand(const struct trees_config *set)
{
    struct trees w;

    trees_open(&w, set);
    CU_ASSERT_TRUE(trees_step(&w, 100000000));
    CU_ASSERT_EQUAL(trees_wrong(&w), 0);
    CU_ASSERT_EQUAL(trees_other(&w), 0);
    CU_ASSERT_EQUAL(COUNT(&w, against), 0);
    CU_ASSERT_TRUE(trees_clean(&w));
    trees_close(&w);
}

static void raw__gives_every_member_every_result(void)
{
    struct trees_config set = {.clock = EMU_CLOCK_RAW,
                               .topo = "kary:4,2",
                               .streams = 4,
                               .workers = 2,
                               .set = "barrier=tree",
                               .ops = ops(400),
                               .noise = 200};

    raw_by_hand(&set);
    set.set = "barrier=conditional combine_order=port channels=2";
    set.topo = "qsnet:12,rails=2";
    raw_by_hand(&set);
    set.set = "combining=switch";
    raw_by_hand(&set);
}

/* Workers run while the manager creates and removes groups that hosts use at random. */
static void raw_with_threads(const struct trees_config *set)
{
    struct timespec nap = {.tv_nsec = 100000};
    uint64_t random = test_seed() + 5;
    uint32_t node[TREES_HOSTS];
    struct trees w;

    trees_open(&w, set);
    trees_threads(&w);
    for (uint32_t round = 0; round < 150 * times(10) || !trees_through(&w); round++) {
        uint32_t at = (uint32_t)(test_random(&random) % TREES_JUNK);

        if (round == 100000)
            break; /* it hangs */
        if (round >= 1000)
            nanosleep(&nap, NULL);
        fixture_group_end(w.fabric, w.junk_id[at]);
        trees_nodes(&w, &random, node, 3);
        atomic_store(&w.junk_id[at], fixture_group(w.fabric, node, 3));
    }
    trees_threads_stop(&w);
    for (uint32_t i = 0; i < TREES_JUNK; i++)
        fixture_group_end(w.fabric, w.junk_id[i]);
    CU_ASSERT_TRUE(trees_step(&w, 100000000));
    CU_ASSERT_EQUAL(trees_wrong(&w), 0);
    CU_ASSERT_TRUE(trees_clean(&w));
    trees_close(&w);
}

static void raw__threads_and_manager_at_once(void)
{
    raw_with_threads(&(struct trees_config){.clock = EMU_CLOCK_RAW,
                                            .topo = "qsnet:4,links=2",
                                            .workers = 3,
                                            .set = "barrier=conditional",
                                            .streams = 3,
                                            .ops = ops(200),
                                            .noise = 100,
                                            .junk = 3000});
    raw_with_threads(&(struct trees_config){.clock = EMU_CLOCK_RAW,
                                            .topo = "qsnet:8,links=2",
                                            .workers = 2,
                                            .set = "barrier=tree combine_order=port",
                                            .streams = 3,
                                            .ops = ops(200),
                                            .junk = 1000,
                                            .faults = 20});
    raw_with_threads(&(struct trees_config){.clock = EMU_CLOCK_RAW,
                                            .topo = "qsnet:6,links=2",
                                            .workers = 3,
                                            .set = "combining=switch",
                                            .streams = 3,
                                            .ops = ops(200),
                                            .junk = 1000});
}

/* --- processes ---------------------------------------------------------------------- */

#define PROCESSES 4u

/* A fabric on clock raw, stepped by the test. */
static void processes_open(struct hostifs *s, const char *set)
{
    struct fabric_config config = {.clock = EMU_CLOCK_RAW,
                                   .threads = 1,
                                   .start_stopped = true,
                                   .seed = test_seed()};

    fixture_profile(&config.profile, "qsnet3", set);
    hostifs_open(s, "kary:2,2", &config);
}

static void processes_close(struct hostifs *s)
{
    for (uint32_t n = 0; n < PROCESSES; n++)
        hostifs_detach(s, n);
    hostifs_close(s);
}

static void processes_step(struct hostifs *s)
{
    for (uint32_t i = 0; i < 300; i++)
        fixture_fabric_pass(s->fabric);
}

static void process_sends(struct hostifs *s, uint32_t node, uint8_t kind, uint32_t dst,
                          uint32_t seq, uint64_t value)
{
    bool bare = (kind & ~EMU_NOTIFY) == EMU_BARRIER;
    struct emu_hdr hdr = {.dst = dst,
                          .seq = seq,
                          .kind = kind,
                          .op = EMU_SUM,
                          .type = EMU_U64,
                          .len = bare ? 0 : sizeof value};

    CU_ASSERT_TRUE_FATAL(hostifs_post(s, node, &hdr, &value));
    processes_step(s);
}

/* Check the next segment that @node receives. */
static bool process_receives(struct hostifs *s, uint32_t node, uint8_t kind, uint32_t dst,
                             uint32_t seq, uint64_t value)
{
    struct emu_seg seg;
    bool heard = false;

    for (uint32_t i = 0; i < 1000000 && !(heard = hostifs_take(s, node, &seg)); i++)
        fixture_fabric_pass(s->fabric);
    return heard && seg.hdr.kind == kind && seg.hdr.dst == dst && seg.hdr.seq == seq &&
           (!seg.hdr.len || !memcmp(seg.payload, &value, sizeof value));
}

static void processes_group_end(struct hostifs *s, uint32_t group)
{
    for (uint32_t n = 0; n < PROCESSES; n++)
        fabric_group_leave(s->fabric, group, n);
}

static bool processes_quiet(struct hostifs *s)
{
    processes_step(s);
    for (uint32_t n = 0; n < PROCESSES; n++)
        if (emu_hostif_nic_peek(&s->nic[n], 0))
            return false;
    return true;
}

/*
 * A segment for a group that the process's node is not in, or that was removed, is refused; no
 * other process sees it.
 */
static void process__outside_is_refused(void)
{
    static const uint8_t kinds[] = {EMU_MULTICAST, EMU_BARRIER, EMU_ALLREDUCE};
    uint32_t group, old, i;
    struct hostifs s;

    processes_open(&s, "barrier=conditional");
    group = old = fixture_group_of_first(s.fabric, 3);
    process_sends(&s, 1, EMU_MULTICAST | EMU_NOTIFY, group, 5, 77);
    CU_ASSERT_TRUE(process_receives(&s, 0, EMU_MULTICAST, group, 5, 77));
    CU_ASSERT_TRUE(process_receives(&s, 2, EMU_MULTICAST, group, 5, 77));
    CU_ASSERT_TRUE(process_receives(&s, 1, EMU_MULTICAST | EMU_NOTIFY, group, 5, 0));
    for (uint32_t k = 0; k < 3; k++) {
        process_sends(&s, 3, kinds[k], group, k, 78);
        CU_ASSERT_TRUE(process_receives(&s, 3, kinds[k] | EMU_FAILED, group, k, 78));
    }
    processes_group_end(&s, group);
    for (i = 0; i < 2 * 1024; i++) { /* until the group's slot is reused */
        group = fixture_group_of_first(s.fabric, PROCESSES);
        if (group % FABRIC_GROUPS_MAX == old % FABRIC_GROUPS_MAX)
            break;
        processes_group_end(&s, group);
    }
    CU_ASSERT_TRUE(i < 2 * 1024 && group != old);
    for (uint32_t k = 0; k < 3; k++) {
        process_sends(&s, k, kinds[k], old, k, 79);
        CU_ASSERT_TRUE(process_receives(&s, k, kinds[k] | EMU_FAILED, old, k, 79));
    }
    CU_ASSERT_TRUE(processes_quiet(&s));
    processes_close(&s);
}

/*
 * A process may leave after it has contributed: its adapter continues, and the next process there
 * gets the rest.
 */
static void process__may_leave_and_be_replaced(void)
{
    static const char *const sets[] = {"tree_width=1", "tree_width=2 combine_order=port",
                                       "tree_width=8"};

    for (uint32_t i = 0; i < 3; i++) {
        uint32_t group, detached = 3 - i; /* a leaf, a node with a child, any node */
        struct hostifs s;

        processes_open(&s, sets[i]);
        group = fixture_group_of_first(s.fabric, PROCESSES);
        process_sends(&s, detached, EMU_ALLREDUCE, group, 0, 1000);
        hostifs_detach(&s, detached);
        hostifs_attach(&s, detached);
        for (uint32_t n = 0; n < PROCESSES; n++)
            if (n != detached)
                process_sends(&s, n, EMU_ALLREDUCE, group, 0, n + 1);
        for (uint32_t n = 0; n < PROCESSES; n++)
            CU_ASSERT_TRUE(process_receives(&s, n, EMU_ALLREDUCE, group, 0, 1010 - (detached + 1)));
        processes_group_end(&s, group);
        process_sends(&s, detached, EMU_ALLREDUCE, group, 1, 5);
        CU_ASSERT_TRUE(process_receives(&s, detached, EMU_ALLREDUCE | EMU_FAILED, group, 1, 5));
        group = fixture_group_of_first(s.fabric, PROCESSES);
        for (uint32_t n = 0; n < PROCESSES; n++)
            process_sends(&s, n, EMU_BARRIER, group, 0, 0);
        for (uint32_t n = 0; n < PROCESSES; n++)
            CU_ASSERT_TRUE(process_receives(&s, n, EMU_BARRIER, group, 0, 0));
        CU_ASSERT_TRUE(processes_quiet(&s));
        processes_close(&s);
    }
}

/* The segments that the process at node 0 posted, by number, and which of them arrived. */
#define STREAM 3000u

struct stream {
    struct emu_hdr sent[STREAM];
    uint32_t comes[STREAM]; /* how many more times it must arrive */
    uint32_t wrong;
    uint32_t notices; /* requested and not arrived yet */
};

/* Segment @i: most are full and go to node 3; one in three is different or invalid. */
static struct emu_hdr stream_hdr(struct stream *t, uint32_t i, uint64_t *random)
{
    struct emu_hdr hdr = {.dst = 3, .seq = i, .kind = EMU_UNICAST, .len = EMU_PAYLOAD_BYTES};
    uint64_t drawn = test_random(random);

    switch (drawn % 18) {
    case 0:
        hdr.len = (uint8_t)(drawn >> 8) % EMU_PAYLOAD_BYTES;
        break;
    case 1:
        hdr.dst = 1;
        break;
    case 2:
        hdr.op = 7;
        break;
    case 3:
        hdr.kind |= EMU_NOTIFY;
        t->notices++;
        break;
    case 4:
        hdr.dst = PROCESSES;
        t->wrong++;
        return hdr;
    case 5:
        hdr.len = EMU_PAYLOAD_BYTES + 1;
        t->wrong++;
        return hdr;
    default:
        break;
    }
    t->comes[i] = 1;
    return hdr;
}

/* Take everything that is available for @node. */
static void stream_take(struct hostifs *s, uint32_t node, struct stream *t)
{
    struct emu_seg seg;

    while (hostifs_take(s, node, &seg)) {
        uint32_t i = seg.hdr.seq;

        CU_ASSERT_TRUE_FATAL(i < STREAM);
        if (node == 0) {
            CU_ASSERT_EQUAL(seg.hdr.kind, EMU_UNICAST | EMU_NOTIFY);
            t->notices--;
            continue;
        }
        CU_ASSERT_EQUAL(t->comes[i]--, 1);
        CU_ASSERT_EQUAL(seg.hdr.dst, node);
        CU_ASSERT_EQUAL(seg.hdr.src, 0);
        CU_ASSERT_EQUAL(seg.hdr.kind, EMU_UNICAST);
        CU_ASSERT_EQUAL(seg.hdr.op, t->sent[i].op);
        CU_ASSERT_EQUAL(seg.hdr.len, t->sent[i].len);
        for (uint32_t b = 0; b < seg.hdr.len; b++)
            CU_ASSERT_EQUAL_FATAL(seg.payload[b], (uint8_t)(i + i / 256));
    }
}

/*
 * Several segments of a long message go into one packet. Segments in between that are shorter, for
 * another node, with other words, or invalid travel alone. All valid segments arrive once and
 * unchanged.
 */
static void stream__arrives_unchanged(void)
{
    static struct stream t;
    uint64_t random = test_seed() + 9;
    struct fabric_totals totals;
    struct hostifs s;

    t = (struct stream){0};
    processes_open(&s, NULL);
    for (uint32_t i = 0; i < STREAM; i++) {
        uint8_t payload[EMU_PAYLOAD_BYTES];

        memset(payload, (uint8_t)(i + i / 256), sizeof payload);
        t.sent[i] = stream_hdr(&t, i, &random);
        CU_ASSERT_TRUE_FATAL(hostifs_post(&s, 0, &t.sent[i], payload));
        if (test_random(&random) % 64)
            continue;
        for (uint32_t node = 0; node < PROCESSES; node++)
            stream_take(&s, node, &t);
        processes_step(&s);
    }
    processes_step(&s);
    for (uint32_t node = 0; node < PROCESSES; node++)
        stream_take(&s, node, &t);
    for (uint32_t i = 0; i < STREAM; i++)
        CU_ASSERT_EQUAL(t.comes[i], 0);
    fabric_totals_read(s.fabric, &totals);
    CU_ASSERT_EQUAL(totals.dropped_malformed, t.wrong);
    CU_ASSERT_EQUAL(t.notices, 0);
    CU_ASSERT_TRUE(processes_quiet(&s));
    processes_close(&s);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE_ALONE(streams__give_every_member_every_result),
        CASE_ALONE(streams__continue_with_few_resources),
        CASE_ALONE(streams__of_one_kind_fill_the_window),
        {"virtual__is_the_same_for_any_workers_and_windows",
         virtual__is_the_same_for_any_workers_and_windows},
        {"port_order__gives_the_same_bits", port_order__gives_the_same_bits},
        {"conditionals__report_whether_all_agree", conditionals__report_whether_all_agree},
        {"conditionals__wait_until_all_agree", conditionals__wait_until_all_agree},
        {"invalid__returns_as_failed", invalid__returns_as_failed},
        {"dropped__returns_once", dropped__returns_once},
        {"result_dropped__returns_to_the_root", result_dropped__returns_to_the_root},
        {"links__do_not_block_each_other", links__do_not_block_each_other},
        {"flow__opens_when_its_oldest_was_delivered", flow__opens_when_its_oldest_was_delivered},
        CASE_ALONE(groups__start_and_end_under_traffic),
        {"group__with_waiting_results_is_freed_later", group__with_waiting_results_is_freed_later},
        CASE_ALONE(stop__frees_operations_in_progress),
        CASE_ALONE(junk__harms_its_own_groups_only),
        {"numbers__restart_with_a_group", numbers__restart_with_a_group},
        CASE(conditional__lost_after_many_answers_is_soon_tested_again),
        CASE_ALONE(raw__gives_every_member_every_result),
        {"raw__threads_and_manager_at_once", raw__threads_and_manager_at_once},
        {"process__outside_is_refused", process__outside_is_refused},
        {"process__may_leave_and_be_replaced", process__may_leave_and_be_replaced},
        {"stream__arrives_unchanged", stream__arrives_unchanged},
        {NULL, NULL},
    };

    return test_run("engine_tree", cases);
}
