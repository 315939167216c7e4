/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_words_test.c - conditionals on words in the memory of processes, on a real fabric with
 * acknowledgments, and the traffic class of a process.
 */
#include <errno.h>
#include <string.h>

#include "apps/fabric/links.h"
#include "nic/engine/internal.h"
#include "tests/test.h"
#include "tests/fixtures/host/cluster.h"
#include "tests/fixtures/host/parts.h"

#define WORDS         8u
#define REACHED_UNTIL (FABEMU_TEST_REACHED | FABEMU_TEST_UNTIL)

/* Adapters combine with conditionals or in a tree, or switches combine. */
static const char *const combines[] = {"barrier=conditional", "barrier=tree", "combining=switch"};

static void store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* Each node chooses WORDS words for the group, in another part of its memory than other nodes. */
static void words_open_with(struct cluster *w, const struct cluster_config *config,
                            uint64_t *words[CLUSTER_NODES])
{
    cluster_open(w, config);
    for (uint32_t n = 0; n < w->nodes; n++) {
        uint64_t *others;

        CU_ASSERT_EQUAL(fabemu_words_alloc(w->fab[n], 5 * n + 1, &others), 0);
        CU_ASSERT_EQUAL(fabemu_words_alloc(w->fab[n], WORDS, &words[n]), 0);
        CU_ASSERT_EQUAL(words[n] - others, 5 * n + 1);
        memset(others, 0xff, (5 * n + 1) * sizeof *others);
        CU_ASSERT_EQUAL(fabemu_group_memory(w->group[n], words[n], WORDS), 0);
    }
}

static void words_open(struct cluster *w, const char *set, uint64_t *words[CLUSTER_NODES])
{
    words_open_with(w, &(struct cluster_config){.topo = "kary:2,2", .set = set}, words);
}

/* Node @node tests word @i in memory once. Returns the status. */
static int test_once(struct cluster *w, uint32_t node, uint32_t i, uint64_t value, unsigned how)
{
    struct fabemu_req req = {0};

    CU_ASSERT_EQUAL(fabemu_group_test(w->group[node], FABEMU_WORDS + i, value, how, &req), 0);
    CU_ASSERT_TRUE_FATAL(cluster_finish(w, &req, 1));
    return req.status;
}

static void memory__is_compared_at_all_members(void)
{
    uint64_t *words[CLUSTER_NODES];
    struct cluster w;

    test_each_setting (i, 3) {
        words_open(&w, combines[i], words);
        CU_ASSERT_EQUAL(test_once(&w, 0, 3, 0, FABEMU_TEST_EQUAL), 0);
        for (uint32_t n = 0; n < w.nodes; n++) {
            CU_ASSERT_EQUAL(test_once(&w, n, 3, 7, FABEMU_TEST_EQUAL), -EAGAIN);
            store(&words[n][3], 7);
        }
        for (uint32_t n = 0; n < w.nodes; n++) {
            CU_ASSERT_EQUAL(test_once(&w, n, 3, 7, FABEMU_TEST_EQUAL), 0);
            CU_ASSERT_EQUAL(test_once(&w, n, 3, 6, FABEMU_TEST_EQUAL), -EAGAIN);
            CU_ASSERT_EQUAL(test_once(&w, n, 3, 6, FABEMU_TEST_REACHED), 0);
            CU_ASSERT_EQUAL(test_once(&w, n, 3, 7, FABEMU_TEST_REACHED), 0);
            CU_ASSERT_EQUAL(test_once(&w, n, 3, 8, FABEMU_TEST_REACHED), -EAGAIN);
            CU_ASSERT_EQUAL(test_once(&w, n, 2, 7, FABEMU_TEST_EQUAL), -EAGAIN);
        }
        for (uint32_t n = 0; n < w.nodes; n++) /* numbers wrap around */
            store(&words[n][3], n % 2 ? 1 : UINT64_MAX);
        CU_ASSERT_EQUAL(test_once(&w, 1, 3, UINT64_MAX - 3, FABEMU_TEST_REACHED), 0);
        CU_ASSERT_EQUAL(test_once(&w, 1, 3, UINT64_MAX, FABEMU_TEST_REACHED), 0);
        CU_ASSERT_EQUAL(test_once(&w, 1, 3, 0, FABEMU_TEST_REACHED), -EAGAIN);
        cluster_close(&w);
    }
}

/* A member that stores does not call the library. */
static void memory__is_awaited(void)
{
    uint64_t *words[CLUSTER_NODES];
    struct fabemu_req req[CLUSTER_NODES];
    struct cluster w;

    test_each_setting (i, 3) {
        words_open(&w, combines[i], words);
        for (uint64_t number = 1; number <= 100; number++) {
            memset(req, 0, sizeof req);
            for (uint32_t n = 0; n < w.nodes; n++)
                CU_ASSERT_EQUAL(fabemu_group_test(w.group[n], FABEMU_WORDS + number % WORDS, number,
                                                  REACHED_UNTIL, &req[n]),
                                0);
            for (uint32_t n = 0; n < w.nodes; n++) {
                for (uint32_t round = 0; round < 3; round++)
                    cluster_pump(&w);
                CU_ASSERT_EQUAL(fabemu_req_status(&req[number % w.nodes]), FABEMU_PENDING);
                store(&words[n][number % WORDS], number);
            }
            CU_ASSERT_TRUE_FATAL(cluster_finish(&w, req, w.nodes));
            CU_ASSERT_TRUE(adapters_all_are(req, w.nodes, 0));
        }
        cluster_close(&w);
    }
}

/* The fabric's worker is a thread, which reads the words while this thread stores into them. */
static void memory__is_read_while_it_changes(void)
{
    struct fabemu_req req = {0};
    uint64_t *words[CLUSTER_NODES];
    struct cluster w;

    words_open_with(&w, &(struct cluster_config){.topo = "kary:2,2", .threads = true}, words);
    for (uint64_t number = 1; number <= 300; number++) {
        CU_ASSERT_EQUAL(fabemu_group_test(w.group[number % w.nodes], FABEMU_WORDS, number,
                                          REACHED_UNTIL, &req),
                        0);
        for (uint32_t n = 0; n < w.nodes; n++)
            store(words[n], number);
        CU_ASSERT_TRUE_FATAL(cluster_finish(&w, &req, 1));
        CU_ASSERT_EQUAL(req.status, 0);
        memset(&req, 0, sizeof req);
    }
    cluster_close(&w);
}

/* Peers count in a member's word: "wait until every process has got so many". */
static void memory__can_be_changed_by_peers(void)
{
    struct fabemu_req req[CLUSTER_NODES * CLUSTER_NODES], test = {0};
    uint64_t *words[CLUSTER_NODES], key[CLUSTER_NODES], one = 1;
    struct cluster w;

    words_open(&w, NULL, words);
    memset(req, 0, sizeof req);
    CU_ASSERT_EQUAL(fabemu_group_test(w.group[2], FABEMU_WORDS, w.nodes, REACHED_UNTIL, &test), 0);
    for (uint32_t n = 0; n < w.nodes; n++)
        CU_ASSERT_EQUAL(fabemu_register(w.fab[n], words[n], WORDS * sizeof **words,
                                        FABEMU_REMOTE_ATOMIC, &key[n]),
                        0);
    for (uint32_t n = 0; n < w.nodes; n++) {
        CU_ASSERT_EQUAL(fabemu_req_status(&test), FABEMU_PENDING);
        for (uint32_t to = 0; to < w.nodes; to++)
            CU_ASSERT_EQUAL(fabemu_atomic(w.fab[n],
                                          &(struct fabemu_atomic){.node = to,
                                                                  .key = key[to],
                                                                  .op = FABEMU_ATOMIC_ADD,
                                                                  .type = FABEMU_U64,
                                                                  .operand = &one},
                                          &req[n * w.nodes + to]),
                            0);
        CU_ASSERT_TRUE_FATAL(cluster_finish(&w, &req[n * w.nodes], w.nodes));
    }
    CU_ASSERT_TRUE_FATAL(cluster_finish(&w, &test, 1));
    CU_ASSERT_EQUAL(test.status, 0);
    CU_ASSERT_TRUE(adapters_all_are(req, w.nodes * w.nodes, 0));
    for (uint32_t n = 0; n < w.nodes; n++) {
        CU_ASSERT_EQUAL(words[n][0], w.nodes);
        fabemu_unregister(w.fab[n], key[n]);
    }
    cluster_close(&w);
}

/* More conditionals than the adapter has slots wait, and all become true. */
static void memory__has_many_conditionals_at_a_time(void)
{
    enum { WAITERS = 700 };
    static struct fabemu_req req[WAITERS];
    uint64_t *words[CLUSTER_NODES];
    struct cluster w;

    words_open(&w, NULL, words);
    memset(req, 0, sizeof req);
    for (uint32_t i = 0; i < WAITERS; i++)
        CU_ASSERT_EQUAL(fabemu_group_test(w.group[0], FABEMU_WORDS + i % WORDS, 1 + i,
                                          REACHED_UNTIL, &req[i]),
                        0);
    for (uint32_t i = 0; i < 300; i++)
        cluster_pump(&w);
    for (uint32_t n = 0; n < w.nodes; n++)
        for (uint32_t i = 0; i < WORDS; i++)
            store(&words[n][i], WAITERS);
    CU_ASSERT_TRUE_FATAL(cluster_finish(&w, req, WAITERS));
    CU_ASSERT_TRUE(adapters_all_are(req, WAITERS, 0));
    cluster_close(&w);
}

/* --- ranges ------------------------------------------------------------------------- */

static void range__must_be_chosen_first(void)
{
    struct cluster w;
    uint64_t *words[CLUSTER_NODES], elsewhere[2];
    struct fabemu_req req = {0};

    cluster_open(&w, &(struct cluster_config){.topo = "kary:2,1"});
    CU_ASSERT_EQUAL(w.nodes, 2);
    for (uint32_t n = 0; n < 2; n++)
        CU_ASSERT_EQUAL(fabemu_words_alloc(w.fab[n], 2, &words[n]), 0);
    CU_ASSERT_EQUAL(test_once(&w, 0, 0, 0, FABEMU_TEST_EQUAL), -EAGAIN);
    CU_ASSERT_EQUAL(fabemu_group_memory(w.group[0], words[0], 2), 0);
    CU_ASSERT_EQUAL(test_once(&w, 0, 0, 0, FABEMU_TEST_EQUAL), -EAGAIN);
    CU_ASSERT_EQUAL(fabemu_group_memory(w.group[1], words[1], 1), 0);
    CU_ASSERT_EQUAL(test_once(&w, 0, 0, 0, FABEMU_TEST_EQUAL), 0);
    CU_ASSERT_EQUAL(test_once(&w, 0, 1, 0, FABEMU_TEST_EQUAL), -EAGAIN);
    CU_ASSERT_EQUAL(fabemu_group_memory(w.group[1], words[1], 2), 0);
    CU_ASSERT_EQUAL(test_once(&w, 0, 1, 0, FABEMU_TEST_EQUAL), 0);
    CU_ASSERT_EQUAL(fabemu_group_memory(w.group[1], NULL, 0), 0);
    CU_ASSERT_EQUAL(test_once(&w, 0, 1, 0, FABEMU_TEST_EQUAL), -EAGAIN);

    CU_ASSERT_EQUAL(fabemu_group_memory(w.group[0], elsewhere, 2), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_group_memory(w.group[0], words[0] + 4095, 2), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_group_memory(w.group[0], words[0], 4097), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_group_memory(w.group[0], (void *)((char *)words[0] + 4), 1), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_group_set(w.group[0], FABEMU_WORDS, 1, NULL), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_group_test(w.group[0], FABEMU_WORDS + FABEMU_MEMORY_WORDS, 1,
                                      FABEMU_TEST_EQUAL, &req),
                    -EINVAL);
    cluster_close(&w);
}

/* Without an engine, the library itself looks at the words of a group of one. */
static void range__of_a_group_of_one_is_awaited(void)
{
    struct fabemu_req req = {0}, other = {0};
    struct fabemu_group *alone;
    struct cluster w;
    uint64_t *words;

    cluster_open(&w, &(struct cluster_config){.topo = "kary:2,1"});
    CU_ASSERT_EQUAL_FATAL(fabemu_group_join(w.fab[0], 9999, 1, &alone), 0);
    CU_ASSERT_EQUAL(fabemu_words_alloc(w.fab[0], 1, &words), 0);
    CU_ASSERT_EQUAL(fabemu_group_test(alone, FABEMU_WORDS, 0, FABEMU_TEST_EQUAL, &req), 0);
    CU_ASSERT_EQUAL(req.status, -EAGAIN);
    CU_ASSERT_EQUAL(fabemu_group_memory(alone, words, 1), 0);
    CU_ASSERT_EQUAL(fabemu_group_test(alone, FABEMU_WORDS, 0, FABEMU_TEST_EQUAL, &req), 0);
    CU_ASSERT_EQUAL(req.status, 0);
    CU_ASSERT_EQUAL(fabemu_group_test(alone, FABEMU_WORDS, 3, REACHED_UNTIL, &req), 0);
    CU_ASSERT_EQUAL(fabemu_group_test(alone, FABEMU_WORDS, 4, REACHED_UNTIL, &other), 0);
    for (uint32_t i = 0; i < 100; i++)
        cluster_pump(&w);
    CU_ASSERT_EQUAL(fabemu_req_status(&req), FABEMU_PENDING);
    store(words, 3);
    CU_ASSERT_TRUE_FATAL(cluster_finish(&w, &req, 1));
    CU_ASSERT_EQUAL(req.status, 0);
    CU_ASSERT_EQUAL(fabemu_req_status(&other), FABEMU_PENDING);
    CU_ASSERT_EQUAL(fabemu_abort(w.fab[0], &other), -ECANCELED);
    fabemu_group_leave(alone);
    cluster_close(&w);
}

/* In two groups of one member, tests that stay false are repeated once per millisecond. */
static void range__of_groups_of_one_is_tested_at_intervals(void)
{
    struct fabemu_req req[2] = {{0}};
    struct fabemu_group *alone[2];
    struct cluster w;
    uint64_t *words, began_ns;

    cluster_open(&w, &(struct cluster_config){.topo = "kary:2,1"});
    CU_ASSERT_EQUAL(fabemu_words_alloc(w.fab[0], 1, &words), 0);
    for (uint32_t i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL_FATAL(fabemu_group_join(w.fab[0], 9998 + i, 1, &alone[i]), 0);
        CU_ASSERT_EQUAL(fabemu_group_memory(alone[i], words, 1), 0);
        CU_ASSERT_EQUAL(fabemu_group_test(alone[i], FABEMU_WORDS, 3, REACHED_UNTIL, &req[i]), 0);
    }
    while (nic_now_ns(w.fab[0]) < w.fab[0]->again_ns)
        ;
    began_ns = nic_now_ns(w.fab[0]);
    cluster_pump(&w);
    CU_ASSERT_TRUE(w.fab[0]->again_ns > began_ns);
    for (uint32_t i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(fabemu_abort(w.fab[0], &req[i]), -ECANCELED);
        fabemu_group_leave(alone[i]);
    }
    cluster_close(&w);
}

/* A process has died. Its successor has words of the same values, but is not in the group. */
static void range__ends_with_its_process(void)
{
    uint64_t *words[CLUSTER_NODES], *again;
    struct fabemu_req req = {0};
    struct cluster w;

    words_open(&w, NULL, words);
    CU_ASSERT_EQUAL(test_once(&w, 0, 0, 0, FABEMU_TEST_EQUAL), 0);
    CU_ASSERT_EQUAL(fabemu_group_test(w.group[0], FABEMU_WORDS, 1, REACHED_UNTIL, &req), 0);
    nic_close(w.fab[1]);
    fabric_detach(w.fabric, 1);
    cluster_attach(&w, 1);
    CU_ASSERT_EQUAL(fabemu_words_alloc(w.fab[1], 4096, &again), 0);
    for (uint32_t i = 0; i < 4096; i++)
        store(&again[i], 1);
    for (uint32_t n = 0; n < w.nodes; n++)
        if (n != 1)
            store(words[n], 1);
    for (uint32_t i = 0; i < 10; i++)
        CU_ASSERT_EQUAL(test_once(&w, 0, 0, 1, FABEMU_TEST_EQUAL), -EAGAIN);
    CU_ASSERT_EQUAL(fabemu_req_status(&req), FABEMU_PENDING);
    nic_lock(w.fab[0]);
    nic_group_broken(w.fab[0], w.id, 1); /* as when the daemon reports the death */
    nic_unlock(w.fab[0]);
    CU_ASSERT_EQUAL(req.status, -EPIPE);
    for (uint32_t n = 0; n < w.nodes; n++)
        if (n != 1) {
            fabemu_group_leave(w.group[n]);
            fabric_group_leave(w.fabric, w.id, n);
        }
    cluster_group(&w);
    cluster_broadcasts(&w);
    cluster_close(&w);
}

/* A process may write any range into the ring. The engine counts a bad one, and keeps the last. */
static void range__is_checked_by_the_engine(void)
{
    static const uint64_t bad[] = {UINT64_C(1) << 32 | 4096, UINT64_C(4097) << 32, UINT64_MAX,
                                   UINT64_C(1) << 32 | UINT32_MAX, UINT64_C(4096) << 32 | 1};
    uint64_t *words[CLUSTER_NODES], before;
    const struct engine_counts *counts;
    struct cluster w;

    words_open(&w, NULL, words);
    counts = engine_counts(fabric_engine(w.fabric, 0));
    for (uint32_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        before = emu_count_read(&counts->against);
        nic_lock(w.fab[0]);
        w.group[0]->words.value[NIC_WORD_MEMORY] = bad[i];
        nic_word_set(w.fab[0], &w.group[0]->words, NIC_WORD_MEMORY);
        nic_unlock(w.fab[0]);
        CU_ASSERT_EQUAL(test_once(&w, 1, 0, 0, FABEMU_TEST_EQUAL), 0);
        CU_ASSERT_EQUAL(emu_count_read(&counts->against), before + 1);
    }
    cluster_close(&w);
}

/* --- allocation --------------------------------------------------------------------- */

static void alloc__finds_what_was_freed(void)
{
    uint64_t *all, *part, *more;
    struct cluster w;

    cluster_open(&w, &(struct cluster_config){.topo = "kary:2,1"});
    CU_ASSERT_EQUAL(fabemu_words_alloc(w.fab[0], 0, &all), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_words_alloc(w.fab[0], 4097, &all), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_words_alloc(w.fab[0], 4096, &all), 0);
    memset(all, 1, 4096 * sizeof *all);
    CU_ASSERT_EQUAL(fabemu_words_alloc(w.fab[0], 1, &part), -ENOSPC);
    fabemu_words_free(w.fab[0], all + 60, 10);
    CU_ASSERT_EQUAL(fabemu_words_alloc(w.fab[0], 11, &part), -ENOSPC);
    CU_ASSERT_EQUAL(fabemu_words_alloc(w.fab[0], 7, &part), 0);
    CU_ASSERT_EQUAL(fabemu_words_alloc(w.fab[0], 3, &more), 0);
    CU_ASSERT_TRUE(part == all + 60 && more == all + 67);
    for (uint32_t i = 0; i < 10; i++)
        CU_ASSERT_EQUAL(part[i], 0);
    CU_ASSERT_NOT_EQUAL(all[59], 0);
    CU_ASSERT_NOT_EQUAL(all[70], 0);
    cluster_close(&w);
}

/* --- the traffic class -------------------------------------------------------------- */

static void tclass__is_that_of_the_process(void)
{
    struct cluster w;
    const struct engine *e;

    cluster_open(&w, &(struct cluster_config){.topo = "kary:2,2"});
    e = fabric_engine(w.fabric, 1);
    for (unsigned tclass = 0; tclass < 3; tclass++) {
        CU_ASSERT_EQUAL(fabemu_set_tclass(w.fab[1], tclass), 0);
        cluster_messages(&w);
        cluster_memory(&w);
        CU_ASSERT_EQUAL(e->host.tclass, tclass);
        CU_ASSERT_EQUAL(fabric_engine(w.fabric, 0)->host.tclass, FABEMU_TCLASS_DEFAULT);
    }
    CU_ASSERT_EQUAL(fabemu_set_tclass(w.fab[1], 3), -EINVAL);
    /* a process may write anything there */
    atomic_store_explicit(&w.fab[1]->hostif.shared->tclass, 77, memory_order_relaxed);
    cluster_messages(&w);
    CU_ASSERT_EQUAL(e->host.tclass, FABEMU_TCLASS_DEFAULT);
    cluster_close(&w);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE_ALONE(memory__is_compared_at_all_members),
        CASE_ALONE(memory__is_awaited),
        CASE(memory__is_read_while_it_changes),
        CASE(memory__can_be_changed_by_peers),
        CASE(memory__has_many_conditionals_at_a_time),
        CASE(range__must_be_chosen_first),
        CASE(range__of_a_group_of_one_is_awaited),
        CASE(range__of_groups_of_one_is_tested_at_intervals),
        CASE(range__ends_with_its_process),
        CASE(range__is_checked_by_the_engine),
        CASE(alloc__finds_what_was_freed),
        CASE(tclass__is_that_of_the_process),
        {0},
    };

    return test_run("nic_words", cases);
}
