/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_broadcast_test.c - words and conditionals of a group, symmetric regions, broadcast puts.
 *
 * One thread steps the adapters and a fake fabric alternately.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"
#include "tests/fixtures/host/parts.h"
#include "tests/fixtures/host/team.h"

#define UNTIL (FABEMU_TEST_REACHED | FABEMU_TEST_UNTIL)

static int ask(struct team *t, uint32_t from, uint32_t word, uint64_t value, unsigned how)
{
    struct fabemu_req req = {0};
    int err = fabemu_group_test(t->group[from], word, value, how, &req);

    if (err)
        return err;
    CU_ASSERT_TRUE_FATAL(fake_finish(t->w.fake, &req, 1));
    return req.status;
}

static void set_all(struct team *t, uint32_t word, uint64_t value)
{
    for (uint32_t i = 0; i < t->count; i++)
        CU_ASSERT_EQUAL(fabemu_group_set(t->group[i], word, value, NULL), 0);
    fake_quiet(t->w.fake);
}

/* --- words and conditionals --------------------------------------------------------- */

static void test__queries_all_members(void)
{
    for (uint32_t members = 1; members <= 4; members++) {
        struct team t;
        uint32_t last = members - 1;

        team_open(&t, members, true);
        CU_ASSERT_EQUAL(ask(&t, 0, 5, 0, FABEMU_TEST_EQUAL), 0); /* the initial value is 0 */
        set_all(&t, 5, 7);
        CU_ASSERT_EQUAL(ask(&t, last, 5, 7, FABEMU_TEST_EQUAL), 0);
        CU_ASSERT_EQUAL(ask(&t, 0, 5, 6, FABEMU_TEST_EQUAL), -EAGAIN);
        CU_ASSERT_EQUAL(ask(&t, 0, 5, 6, FABEMU_TEST_REACHED), 0);
        CU_ASSERT_EQUAL(ask(&t, 0, 5, 8, FABEMU_TEST_REACHED), -EAGAIN);
        CU_ASSERT_EQUAL(ask(&t, 0, 4, 7, FABEMU_TEST_EQUAL), -EAGAIN); /* another word */
        fabemu_group_set(t.group[last], 5, 9, NULL);
        CU_ASSERT_EQUAL(ask(&t, last, 5, 7, FABEMU_TEST_EQUAL), -EAGAIN);
        CU_ASSERT_EQUAL(ask(&t, last, 5, 7, UNTIL), 0);
        set_all(&t, 15, UINT64_MAX - 1); /* numbers wrap */
        CU_ASSERT_EQUAL(ask(&t, 0, 15, 1, FABEMU_TEST_REACHED), -EAGAIN);
        set_all(&t, 15, 3);
        CU_ASSERT_EQUAL(ask(&t, 0, 15, UINT64_MAX, FABEMU_TEST_REACHED), 0);
        CU_ASSERT_TRUE(team_clean(&t));
        team_close(&t);
    }
}

static void test__until_waits_for_the_last(void)
{
    for (uint32_t members = 1; members <= 3; members++) {
        struct team t;
        struct fabemu_req req[3] = {{0}};

        team_open(&t, members, true);
        for (uint32_t i = 0; i < members; i++)
            CU_ASSERT_EQUAL(fabemu_group_test(t.group[i], 0, 2, UNTIL, &req[i]), 0);
        for (uint32_t i = 0; i < members; i++) {
            fabemu_group_set(t.group[i], 0, 1 + (i + 1 < members), NULL);
            fake_quiet(t.w.fake);
            CU_ASSERT_EQUAL(req[i].status, FABEMU_PENDING);
        }
        fabemu_group_set(t.group[members - 1], 0, 2, NULL);
        CU_ASSERT_TRUE(fake_finish(t.w.fake, req, members));
        for (uint32_t i = 0; i < members; i++)
            CU_ASSERT_EQUAL(req[i].status, 0);
        CU_ASSERT_TRUE(team_clean(&t));
        team_close(&t);
    }
}

static void words__are_refused_where_unsupported(void)
{
    struct peers w;
    struct team t;
    struct fabemu_group *group;
    struct fabemu_req req = {0};
    uint64_t key = 0, v;

    peers_open(&w, 2, false); /* without acknowledgments */
    CU_ASSERT_EQUAL(fabemu_group_join(w.fab[0], 3, 1, &group), 0);
    CU_ASSERT_EQUAL(fabemu_group_set(group, 0, 1, NULL), -EOPNOTSUPP);
    CU_ASSERT_EQUAL(fabemu_group_test(group, 0, 1, 0, &req), -EOPNOTSUPP);
    CU_ASSERT_EQUAL(fabemu_broadcast_put(group, 1, 0, &v, 8, &req), -EOPNOTSUPP);
    CU_ASSERT_EQUAL(fabemu_register_symmetric(group, &v, 8, FABEMU_REMOTE_READ, &key, &req), 0);
    CU_ASSERT_TRUE(req.status == 0 && key >> 63); /* these need no acknowledgments */
    fabemu_group_leave(group);
    peers_close(&w);

    team_open(&t, 2, false);
    CU_ASSERT_EQUAL(fabemu_group_set(t.group[0], FABEMU_WORDS, 1, NULL), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_group_test(t.group[0], FABEMU_WORDS + FABEMU_MEMORY_WORDS, 1, 0, &req),
                    -EINVAL);
    CU_ASSERT_EQUAL(fabemu_group_test(t.group[0], 0, 1, 4, &req), -EINVAL);
    atomic_store(&t.w.fab[0]->defunct, true);
    CU_ASSERT_EQUAL(fabemu_group_set(t.group[0], 0, 1, NULL), -ENOTCONN);
    CU_ASSERT_EQUAL(fabemu_group_test(t.group[0], 0, 1, 0, &req), -ENOTCONN);
    CU_ASSERT_EQUAL(fabemu_broadcast_put(t.group[0], 1, 0, &v, 8, &req), -ENOTCONN);
    CU_ASSERT_EQUAL(fabemu_register_symmetric(t.group[0], &v, 8, 0, &key, &req), -ENOTCONN);
    atomic_store(&t.w.fab[0]->defunct, false);
    team_close(&t);
}

/* While the up ring is full a word waits, with its last value only, and nothing overtakes it. */
static void set__is_not_overtaken(void)
{
    struct team t;
    struct fabemu_dest dest = peers_to(1, 1, 0);
    struct fabemu_req req = {0}, recv;
    uint32_t v = 0, sent = 0;

    static_assert((FAKE_NODES - 1) * NIC_ORDER_WINDOW > EMU_HOSTIF_SLOTS, "they fill the ring");
    team_open(&t, FAKE_NODES, false);
    for (uint32_t node = 1; node < FAKE_NODES; node++)
        peers_inject(&t.w, 0, node, 9, "x", 1);
    fake_quiet(t.w.fake);
    for (dest.node = FAKE_NODES - 1; dest.node; dest.node--) /* more than the ring holds */
        while (fabemu_inject(t.w.queue[0], &dest, &v, 4) == 0)
            sent++;
    CU_ASSERT_EQUAL(sent, EMU_HOSTIF_SLOTS);
    dest.node = 1;
    for (uint64_t k = 1; k <= 5; k++)
        CU_ASSERT_EQUAL(fabemu_group_set(t.group[0], k % 2, k, NULL), 0);
    CU_ASSERT_EQUAL(fabemu_group_test(t.group[0], 1, 5, 0, &req), 0);
    dest.tag = 2;
    fake_step(t.w.fake); /* the ring has space, and the adapter has not been stepped */
    CU_ASSERT_EQUAL(fabemu_inject(t.w.queue[0], &dest, &v, 4), 0);
    peers_recv(&t.w, 1, 0, 2, 0, &v, 4, &recv);
    CU_ASSERT_EQUAL(fake_word(t.w.fake, t.id, 0, 1), 0);
    CU_ASSERT_TRUE(fake_finish(t.w.fake, &recv, 1));
    CU_ASSERT_EQUAL(fake_word(t.w.fake, t.id, 0, 1), 5);
    CU_ASSERT_EQUAL(fake_word(t.w.fake, t.id, 0, 0), 4);
    CU_ASSERT_TRUE(fake_finish(t.w.fake, &req, 1));
    CU_ASSERT_EQUAL(req.status, -EAGAIN); /* the other members' words are not set */
    CU_ASSERT_TRUE(team_clean(&t));
    team_close(&t);
}

/* --- barriers from words, as in the paper ------------------------------------------- */

/* Every process tests for itself whether all have reached n. */
static void words__make_a_barrier(void)
{
    enum { MEMBERS = 5, EPOCHS = 30 };
    struct team t;
    struct fabemu_req req[MEMBERS] = {{0}};
    uint64_t at[MEMBERS] = {0}, least = 0;

    team_open(&t, MEMBERS, true);
    while (least < EPOCHS) {
        uint32_t i = (uint32_t)(test_random(&t.w.random) % MEMBERS);

        if (fabemu_req_status(&req[i]) != FABEMU_PENDING && at[i] < EPOCHS) {
            CU_ASSERT_TRUE_FATAL(req[i].status == 0 && least >= at[i]);
            at[i]++;
            fabemu_group_set(t.group[i], 0, at[i], NULL);
            fabemu_group_test(t.group[i], 0, at[i], UNTIL, &req[i]);
        }
        if (test_random(&t.w.random) % 2)
            fake_pump(t.w.fake);
        least = at[0];
        for (uint32_t k = 1; k < MEMBERS; k++)
            least = at[k] < least ? at[k] : least;
    }
    CU_ASSERT_TRUE(fake_finish(t.w.fake, req, MEMBERS));
    CU_ASSERT_TRUE(team_clean(&t));
    team_close(&t);
}

/* The root tests, and broadcasts a done word; the others poll only that word. */
static void words__and_a_broadcast_make_a_barrier(void)
{
    enum { MEMBERS = 5, EPOCHS = 30 };
    struct team t;
    uint64_t done[MEMBERS] = {0}, at[MEMBERS] = {0}, number[EPOCHS + 1], least = 0, key;
    void *const where[MEMBERS] = {&done[0], &done[1], &done[2], &done[3], &done[4]};
    struct fabemu_event all[1];
    struct fabemu_req *test = calloc(EPOCHS, sizeof *test), *put = calloc(EPOCHS, sizeof *put);
    bool early = false;

    team_open(&t, MEMBERS, true);
    key = team_register(&t, where, sizeof done[0]);
    fabemu_event_open(t.w.fab[0], all);
    for (uint64_t e = 0; e < EPOCHS; e++) { /* the root arms its whole part beforehand */
        number[e] = e + 1;
        test[e].event = put[e].after = all;
        put[e].threshold = e + 1;
        fabemu_group_test(t.group[0], 0, e + 1, UNTIL, &test[e]);
        fabemu_broadcast_put(t.group[0], key, 0, &number[e], 8, &put[e]);
    }
    while (least < EPOCHS) {
        uint32_t i = (uint32_t)(test_random(&t.w.random) % MEMBERS);

        if (done[i] >= at[i] && at[i] < EPOCHS)
            fabemu_group_set(t.group[i], 0, ++at[i], NULL);
        if (test_random(&t.w.random) % 2)
            fake_pump(t.w.fake);
        least = at[0];
        for (uint32_t k = 1; k < MEMBERS; k++)
            least = at[k] < least ? at[k] : least;
        for (uint32_t k = 0; k < MEMBERS; k++)
            early = early || done[k] > least;
    }
    CU_ASSERT_TRUE(fake_finish(t.w.fake, test, EPOCHS) && fake_finish(t.w.fake, put, EPOCHS));
    CU_ASSERT_FALSE(early);
    fabemu_event_close(all);
    CU_ASSERT_TRUE(team_clean(&t));
    team_close(&t);
    free(test);
    free(put);
}

/* --- failures ----------------------------------------------------------------------- */

static void group_broken__ends_conditionals_and_broadcasts(void)
{
    struct team t;
    struct fabemu_req req[4] = {{0}};
    static uint8_t memory[3][100000];
    void *const where[3] = {memory[0], memory[1], memory[2]};
    uint64_t key;

    team_open(&t, 3, true);
    key = team_register(&t, where, sizeof memory[0]);
    fabemu_group_test(t.group[0], 0, 1, UNTIL, &req[0]);
    fabemu_broadcast_put(t.group[0], key, 0, memory[1], 100000, &req[1]);
    for (int i = 0; i < 3; i++)
        fake_pump(t.w.fake);
    nic_lock(t.w.fab[0]);
    nic_group_broken(t.w.fab[0], t.id, 0);
    nic_unlock(t.w.fab[0]);
    CU_ASSERT_EQUAL(req[0].status, -EPIPE);
    CU_ASSERT_EQUAL(req[1].status, -EPIPE);
    fake_quiet(t.w.fake);
    CU_ASSERT_EQUAL(ask(&t, 0, 0, 1, FABEMU_TEST_EQUAL), -EPIPE);
    CU_ASSERT_EQUAL(fabemu_group_set(t.group[0], 0, 1, &req[2]), 0);
    CU_ASSERT_EQUAL(req[2].status, -EPIPE);
    fabemu_broadcast_put(t.group[0], key, 0, memory[1], 1, &req[3]);
    CU_ASSERT_EQUAL(req[3].status, -EPIPE);
    CU_ASSERT_EQUAL(t.w.fab[0]->counts.malformed, 0);
    team_close(&t);
}

/* A member leaves the operation: the members that wait for it get an error that names it. */
static void group_break__is_reported_to_all_members(void)
{
    struct team t;
    struct fabemu_req barrier[3] = {{0}};

    team_open(&t, 3, true);
    for (uint32_t i = 1; i < 3; i++)
        fabemu_barrier(t.group[i], &barrier[i]);
    fake_quiet(t.w.fake);
    CU_ASSERT_EQUAL(barrier[1].status, FABEMU_PENDING);
    fabemu_group_break(t.group[0]);
    fabemu_group_break(t.group[0]);
    fake_quiet(t.w.fake);
    fabemu_barrier(t.group[0], &barrier[0]);
    for (uint32_t i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(barrier[i].status, -EPIPE);
    CU_ASSERT_EQUAL(fabemu_group_gave_up(t.group[0]), FABEMU_ANY_NODE);
    CU_ASSERT_EQUAL(fabemu_group_broke_off(t.group[0]), 0);
    CU_ASSERT_EQUAL(fabemu_group_gave_up(t.group[2]), 0);
    CU_ASSERT_EQUAL(fabemu_group_dead_node(t.group[2]), FABEMU_ANY_NODE);
    team_close(&t);
}

/*
 * The network drops a segment of a broadcast: all members get an error, whether they test or
 * broadcast.
 */
static void dropped__broadcast_breaks_the_group(void)
{
    struct team t;
    struct fabemu_req req[3] = {{0}}, barrier[3] = {{0}};
    uint64_t v[3] = {0}, key;
    void *const where[3] = {&v[0], &v[1], &v[2]};

    team_open(&t, 3, true);
    key = team_register(&t, where, 8);
    fabemu_group_test(t.group[1], 0, 1, UNTIL, &req[1]);
    fake_cut(t.w.fake, 0, 2, true);
    fabemu_broadcast_put(t.group[0], key, 0, "12345678", 8, &req[0]);
    CU_ASSERT_TRUE(fake_finish(t.w.fake, req, 2));
    CU_ASSERT_TRUE(req[0].status == -EPIPE && req[1].status == -EPIPE);
    fake_cut(t.w.fake, 0, 2, false);
    fabemu_barrier(t.group[2], &barrier[2]);
    t.w.fab[0]->watch_gap_ns = 1000000;
    t.w.fab[0]->watch_ns = 0;
    while (fabemu_req_status(&barrier[2]) == FABEMU_PENDING)
        fake_pump(t.w.fake);
    CU_ASSERT_EQUAL(barrier[2].status, -EPIPE);
    team_close(&t);
}

static void abort__cancels_conditionals_and_broadcasts(void)
{
    struct team t;
    struct fabemu_req req[3] = {{0}};
    static uint8_t memory[2][100000], src[100000];
    void *const where[2] = {memory[0], memory[1]};
    uint64_t key;

    team_open(&t, 2, false);
    key = team_register(&t, where, sizeof memory[0]);
    fabemu_group_test(t.group[0], 0, 1, UNTIL, &req[0]);
    fabemu_broadcast_put(t.group[0], key, 0, src, sizeof src, &req[1]);
    fake_step(t.w.fake);
    CU_ASSERT_EQUAL(t.group[0]->broadcast_out, NIC_BROADCAST_WINDOW);
    CU_ASSERT_EQUAL(fabemu_abort(t.w.fab[0], &req[0]), -ECANCELED);
    CU_ASSERT_EQUAL(fabemu_abort(t.w.fab[0], &req[1]), -ECANCELED);
    CU_ASSERT_EQUAL(t.group[0]->broadcast_out, 0);
    set_all(&t, 0, 1);
    /* nothing else of the conditional */
    CU_ASSERT_EQUAL(t.w.fab[0]->counts.stale, NIC_BROADCAST_WINDOW);
    memset(src, 3, sizeof src);
    fabemu_broadcast_put(t.group[0], key, 0, src, sizeof src, &req[2]);
    CU_ASSERT_TRUE(fake_finish(t.w.fake, &req[2], 1));
    CU_ASSERT_EQUAL(memcmp(memory[1], src, sizeof src), 0);
    team_close(&t);
}

/* --- symmetric regions -------------------------------------------------------------- */

static void symmetric__keys_are_the_same_at_all_members(void)
{
    struct team t;
    struct fabemu_req req[3] = {{0}};
    uint64_t word[3][4] = {{0}}, key[2], one = 1, got = 0;
    void *const first[3] = {&word[0][0], &word[1][0], &word[2][0]};
    void *const second[3] = {&word[0][2], &word[1][2], &word[2][2]};

    team_open(&t, 3, true);
    key[0] = team_register(&t, first, 16);
    key[1] = team_register(&t, second, 8);
    CU_ASSERT_NOT_EQUAL(key[0], key[1]);
    for (uint32_t i = 0; i < 3; i++) {
        struct fabemu_atomic add = {.node = (i + 1) % 3,
                                    .key = key[1],
                                    .type = FABEMU_U64,
                                    .operand = &one};

        fabemu_put(t.w.fab[i], (i + 1) % 3, key[0], 8, &(uint64_t){40 + i}, 8, &req[0]);
        fabemu_atomic(t.w.fab[i], &add, &req[1]);
        CU_ASSERT_TRUE(fake_finish(t.w.fake, req, 2) && !req[0].status && !req[1].status);
        fabemu_get(t.w.fab[i], (i + 1) % 3, key[0], 8, &got, 8, &req[2]);
        CU_ASSERT_TRUE(fake_finish(t.w.fake, &req[2], 1) && !req[2].status && got == 40 + i);
        CU_ASSERT_TRUE(word[(i + 1) % 3][2] == 1);
    }
    CU_ASSERT_EQUAL(fabemu_unregister(t.w.fab[1], key[1]), 0);
    CU_ASSERT_EQUAL(fabemu_unregister(t.w.fab[1], key[1]), -ENOENT);
    fabemu_get(t.w.fab[0], 1, key[1], 0, &got, 8, &req[0]);
    CU_ASSERT_TRUE(fake_finish(t.w.fake, req, 1) && req[0].status == -EACCES);
    fabemu_group_leave(t.group[1]); /* its regions are removed with it */
    t.group[1] = NULL;
    fabemu_get(t.w.fab[0], 1, key[0], 0, &got, 8, &req[0]);
    CU_ASSERT_TRUE(fake_finish(t.w.fake, req, 1) && req[0].status == -EACCES);
    CU_ASSERT_PTR_NULL(t.w.fab[1]->symmetric);
    CU_ASSERT_TRUE(team_clean(&t));
    team_close(&t);
}

/* A process that knows the key may use it at once, at all members. */
static void symmetric__keys_are_valid_everywhere_at_once(void)
{
    for (uint32_t round = 0; round < 60; round++) {
        struct team t;
        struct fabemu_req req[4] = {{0}}, put[4] = {{0}};
        uint64_t v[4] = {0}, key[4] = {0};
        uint32_t first = 4;

        team_open(&t, 4, true);
        t.w.random += round;
        /* all members register */
        for (uint32_t n = (uint32_t)(test_random(&t.w.random) % 40) + 12; n; n--)
            peers_inject(&t.w, n % 4, (n % 4 + 1 + n / 4 % 3) % 4, 1, "x", 1);
        for (uint32_t i = 0; i < 4; i++)
            fabemu_register_symmetric(t.group[i], &v[i], 8, FABEMU_REMOTE_WRITE, &key[i], &req[i]);
        while (first == 4) {
            fake_pump(t.w.fake);
            for (uint32_t i = 0; i < 4; i++)
                if (fabemu_req_status(&req[i]) != FABEMU_PENDING)
                    first = i;
        }
        for (uint32_t i = 0; i < 4; i++)
            fabemu_put(t.w.fab[first], i, key[first], 0, "12345678", 8, &put[i]);
        CU_ASSERT_TRUE(fake_finish(t.w.fake, put, 4) && fake_finish(t.w.fake, req, 4));
        for (uint32_t i = 0; i < 4; i++)
            CU_ASSERT_EQUAL(put[i].status, 0);
        team_close(&t);
    }
}

/*
 * All members detect a mismatch; none completes before all have registered; a broken group ends it.
 */
static void symmetric__is_a_collective(void)
{
    struct team t;
    struct fabemu_event other;
    struct fabemu_req req[3] = {{0}};
    uint64_t v[3][2], key[3] = {0};

    team_open(&t, 3, true);
    for (uint32_t i = 0; i < 3; i++)
        fabemu_register_symmetric(t.group[i], v[i], i == 1 ? 8 : 16, FABEMU_REMOTE_WRITE, &key[i],
                                  &req[i]);
    CU_ASSERT_TRUE(fake_finish(t.w.fake, req, 3));
    for (uint32_t i = 0; i < 3; i++)
        CU_ASSERT_TRUE(req[i].status == -EINVAL && !key[i] && !t.w.fab[i]->symmetric);
    CU_ASSERT_EQUAL(fabemu_event_open(t.w.fab[1], &other), 0);
    req[0].event = &other;
    CU_ASSERT_EQUAL(fabemu_register_symmetric(t.group[0], v[0], 16, FABEMU_REMOTE_WRITE, &key[0],
                                              &req[0]),
                    -EINVAL);
    CU_ASSERT_PTR_NULL(t.w.fab[0]->symmetric);
    req[0].event = NULL;
    fabemu_event_close(&other);
    for (uint32_t i = 0; i < 2; i++)
        fabemu_register_symmetric(t.group[i], v[i], 16, FABEMU_REMOTE_WRITE, &key[i], &req[i]);
    fake_quiet(t.w.fake);
    CU_ASSERT_EQUAL(req[0].status, FABEMU_PENDING);
    CU_ASSERT_EQUAL(fabemu_broadcast_put(t.group[0], UINT64_C(1) << 63, 0, v, 8, &req[2]), -EINVAL);
    for (uint32_t i = 0; i < 2; i++) {
        nic_lock(t.w.fab[i]);
        nic_group_broken(t.w.fab[i], t.id, 0);
        nic_unlock(t.w.fab[i]);
        CU_ASSERT_EQUAL(req[i].status, -EPIPE);
        CU_ASSERT_PTR_NULL(t.w.fab[i]->symmetric);
    }
    CU_ASSERT_EQUAL(fabemu_register_symmetric(t.group[0], v[0], 16, 8, &key[0], &req[0]), -EINVAL);
    fabemu_register_symmetric(t.group[0], v[0], 16, FABEMU_REMOTE_WRITE, &key[0], &req[0]);
    CU_ASSERT_EQUAL(req[0].status, -EPIPE);
    CU_ASSERT_PTR_NULL(t.w.fab[0]->symmetric);
    team_close(&t);
}

/* --- broadcast puts ----------------------------------------------------------------- */

static void broadcast__writes_all_members(void)
{
    static const size_t sizes[] = {0, 1, 223, 224, 225, 448, 449, 5000, 100000};
    static uint8_t memory[4][100100], src[100000];

    for (uint32_t members = 1; members <= 4; members++) {
        struct team t;
        struct fabemu_event event[4];
        void *const where[4] = {memory[0], memory[1], memory[2], memory[3]};
        uint64_t key;

        team_open(&t, members, members % 2);
        key = team_register(&t, where, sizeof memory[0]);
        for (uint32_t i = 0; i < members; i++) {
            fabemu_event_open(t.w.fab[i], &event[i]);
            fabemu_register_event(t.w.fab[i], key, FABEMU_REMOTE_WRITE, &event[i]);
        }
        for (unsigned k = 0; k < 9; k++) {
            struct fabemu_req req = {0};
            uint32_t root = k % members;
            bool in_place = k % 3 == 2;
            uint8_t *from = in_place ? memory[root] + 50 : src;

            for (uint32_t i = 0; i < members; i++)
                memset(memory[i], 0xee, sizeof memory[i]);
            bytes_fill(from, sizes[k], k);
            CU_ASSERT_EQUAL(fabemu_broadcast_put(t.group[root], key, 50, sizes[k] ? from : NULL,
                                                 sizes[k], &req),
                            0);
            CU_ASSERT_TRUE_FATAL(fake_finish(t.w.fake, &req, 1));
            CU_ASSERT_EQUAL(req.status, 0);
            /* the other adapters have it, their libraries perhaps not yet */
            fake_quiet(t.w.fake);
            for (uint32_t i = 0; i < members; i++) {
                CU_ASSERT_TRUE(bytes_filled(memory[i] + 50, sizes[k], k));
                CU_ASSERT_TRUE(memory[i][49] == 0xee && memory[i][50 + sizes[k]] == 0xee);
                CU_ASSERT_EQUAL(fabemu_event_count(&event[i]), k + 1);
            }
        }
        CU_ASSERT_TRUE(team_clean(&t));
        for (uint32_t i = 0; i < members; i++)
            fabemu_event_close(&event[i]);
        team_close(&t);
    }
}

/* Every member broadcasts at once, many at a time, among collectives and messages. */
static void broadcast__is_pipelined_and_bounded(void)
{
    enum { MEMBERS = 4, MANY = 20, BYTES = 9000 };
    static uint8_t memory[MEMBERS][MEMBERS][MANY][BYTES], src[MEMBERS][MANY][BYTES];
    static struct fabemu_req req[MEMBERS][MANY], barrier[MEMBERS];
    void *const where[MEMBERS] = {memory[0], memory[1], memory[2], memory[3]};
    struct team t;
    uint64_t key;
    bool good = true, full = false;

    memset(req, 0, sizeof req);
    memset(barrier, 0, sizeof barrier);
    team_open(&t, MEMBERS, true);
    key = team_register(&t, where, sizeof memory[0]);
    for (uint32_t k = 0; k < MANY; k++) {
        for (uint32_t i = 0; i < MEMBERS; i++) {
            size_t bytes = k % 3 ? BYTES : 1 + k;

            bytes_fill(src[i][k], bytes, i * 100 + k);
            fabemu_broadcast_put(t.group[i], key,
                                 (size_t)(&memory[0][i][k][0] - &memory[0][0][0][0]), src[i][k],
                                 bytes, &req[i][k]);
            if (test_random(&t.w.random) % 3 == 0)
                fake_pump(t.w.fake);
            good = good && t.group[i]->broadcast_out <= NIC_BROADCAST_WINDOW;
            full = full || t.group[i]->broadcast_out == NIC_BROADCAST_WINDOW;
        }
    }
    for (uint32_t i = 0; i < MEMBERS; i++)
        fabemu_barrier(t.group[i], &barrier[i]);
    CU_ASSERT_TRUE(fake_finish(t.w.fake, req[0], MEMBERS * MANY));
    CU_ASSERT_TRUE(fake_finish(t.w.fake, barrier, MEMBERS));
    fake_quiet(t.w.fake);
    for (uint32_t k = 0; k < MANY; k++)
        for (uint32_t i = 0; i < MEMBERS; i++)
            for (uint32_t at = 0; at < MEMBERS; at++)
                good = good && req[i][k].status == 0 &&
                       bytes_filled(memory[at][i][k], k % 3 ? BYTES : 1 + k, i * 100 + k);
    CU_ASSERT_TRUE(good && full);
    for (uint32_t i = 0; i < MEMBERS; i++)
        CU_ASSERT_EQUAL(t.group[i]->broadcast_out, 0);
    CU_ASSERT_TRUE(team_clean(&t));
    team_close(&t);
}

/* A process that sees the last bytes sees all of them, without an event or message. */
static void broadcast__writes_its_last_bytes_last(void)
{
    static uint8_t memory[3][20000], src[20000];
    void *const where[3] = {memory[0], memory[1], memory[2]};
    struct team t;
    uint64_t key;
    bool good = true;

    team_open(&t, 3, true);
    key = team_register(&t, where, sizeof src);
    for (uint32_t round = 1; round < 20; round++) {
        struct fabemu_req req = {0};

        memset(src, (int)round, sizeof src);
        fabemu_broadcast_put(t.group[0], key, 0, src, sizeof src, &req);
        while (fabemu_req_status(&req) == FABEMU_PENDING) {
            fake_pump(t.w.fake);
            for (uint32_t i = 1; i < 3; i++)
                good = good &&
                       (memory[i][19999] != round || memcmp(memory[i], src, sizeof src) == 0);
        }
        fake_quiet(t.w.fake);
        good = good && memory[2][19999] == round;
    }
    CU_ASSERT_TRUE(good);
    team_close(&t);
}

/*
 * A member without such a region any more loses the broadcast, which is counted; the others get it.
 */
static void broadcast__skips_unregistered_members(void)
{
    struct team t;
    struct fabemu_req req = {0};
    uint64_t v[3] = {0}, other[3] = {0}, key[2];
    void *const where[3] = {&v[0], &v[1], &v[2]}, *const rest[3] = {&other[0], &other[1],
                                                                    &other[2]};
    struct fabemu_group *second;

    team_open(&t, 3, true);
    key[0] = team_register(&t, where, 8);
    key[1] = team_register(&t, rest, 8);
    fabemu_unregister(t.w.fab[1], key[0]);
    fabemu_broadcast_put(t.group[0], key[0], 0, "12345678", 8, &req);
    CU_ASSERT_TRUE(fake_finish(t.w.fake, &req, 1));
    fake_quiet(t.w.fake);
    CU_ASSERT_TRUE(req.status == 0 && v[1] == 0 && v[2] != 0 && v[0] != 0);
    CU_ASSERT_EQUAL(t.w.fab[1]->counts.late, 1);
    CU_ASSERT_EQUAL(fabemu_broadcast_put(t.group[1], key[0], 0, v, 8, &req), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_broadcast_put(t.group[0], key[0], 1, v, 8, &req), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_broadcast_put(t.group[0], key[0], UINT64_MAX, v, 2, &req), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_group_join(t.w.fab[0], 5, 1, &second), 0);
    CU_ASSERT_EQUAL(fabemu_broadcast_put(second, key[0], 0, v, 8, &req), -EINVAL);
    fabemu_group_leave(second);
    CU_ASSERT_EQUAL(req.status, -EINVAL);
    team_close(&t);
}

/* --- hostile input ------------------------------------------------------------------ */

/* Node 0 waits for answers to all its requests and gets forged ones. */
struct forger {
    struct team t;
    struct fabemu_req test, put, get;
    uint64_t key;                    /* of a group's region, LIAR_BYTES long */
    uint64_t read;                   /* of a region that is not the group's */
    struct emu_hdr tested, answered; /* plausible answers: to test, to a part of put */
    uint64_t malformed, stale, late; /* expected counters of node 0 */
};

#define LIAR_BYTES 1000u

/* A header field and its forged value. */
enum lie_field { LIE_DST, LIE_SRC, LIE_SEQ, LIE_KIND, LIE_OP, LIE_TYPE, LIE_LEN };

struct lie {
    enum lie_field field;
    uint32_t value;
    bool stale; /* true: it names an operation that ended, or a peer's; false: impossible */
};

static void forger_open(struct forger *l, uint8_t memory[2][LIAR_BYTES])
{
    static uint8_t src[LIAR_BYTES];
    void *const where[2] = {memory[0], memory[1]};

    memset(l, 0, sizeof *l);
    team_open(&l->t, 2, false);
    l->key = team_register(&l->t, where, LIAR_BYTES);
    fabemu_group_test(l->t.group[0], 0, 1, UNTIL, &l->test);
    fabemu_broadcast_put(l->t.group[0], l->key, 0, src, sizeof src, &l->put);
    fabemu_get(l->t.w.fab[0], 1, l->key, 0, src, 8, &l->get);
    fabemu_register(l->t.w.fab[0], memory[0], 8, FABEMU_REMOTE_READ, &l->read);
    l->tested = (struct emu_hdr){.dst = l->t.id,
                                 .seq = nic_op_of(&l->test)->id,
                                 .kind = EMU_TEST,
                                 .op = EMU_TEST_TRUE};
    l->answered = (struct emu_hdr){.dst = l->t.id,
                                   .seq = nic_op_of(&l->put)->id,
                                   .kind = EMU_MULTICAST | EMU_NOTIFY,
                                   .op = NIC_MULTICAST_BODY};
}

/* Node 0 receives the segment and must count it as expected. */
static void forger_send(struct forger *l, const struct emu_seg *seg)
{
    const struct nic_counts *counts = &l->t.w.fab[0]->counts;

    CU_ASSERT_TRUE(fake_inject(l->t.w.fake, 0, seg));
    fabemu_progress(l->t.w.fab[0]);
    CU_ASSERT_EQUAL(counts->malformed, l->malformed);
    CU_ASSERT_EQUAL(counts->stale, l->stale);
    CU_ASSERT_EQUAL(counts->late, l->late);
}

/* All true answers arrive in the end and still count; a repeated answer counts as forged again. */
static void forger_close(struct forger *l)
{
    const struct emu_seg again = {.hdr = l->tested};

    CU_ASSERT_TRUE(l->test.status == FABEMU_PENDING && l->put.status == FABEMU_PENDING);
    set_all(&l->t, 0, 1);
    CU_ASSERT_TRUE(fake_finish(l->t.w.fake, &l->test, 1) && fake_finish(l->t.w.fake, &l->put, 1));
    CU_ASSERT_TRUE(l->test.status == 0 && l->put.status == 0);
    l->malformed = l->t.w.fab[0]->counts.malformed; /* true answers that a forged one preceded */
    l->stale++;
    forger_send(l, &again);
    fake_finish(l->t.w.fake, &l->get, 1);
    team_close(&l->t);
}

static void lie_set(struct emu_hdr *hdr, const struct lie *lie)
{
    uint8_t small = (uint8_t)lie->value;

    switch (lie->field) {
    case LIE_DST:
        hdr->dst = lie->value;
        return;
    case LIE_SRC:
        hdr->src = lie->value;
        return;
    case LIE_SEQ:
        hdr->seq = lie->value;
        return;
    case LIE_KIND:
        hdr->kind = small;
        return;
    case LIE_OP:
        hdr->op = small;
        return;
    case LIE_TYPE:
        hdr->type = small;
        return;
    case LIE_LEN:
        hdr->len = small;
        return;
    }
}

/* The answer @good, with each of @count forged fields in it. */
static void forger_send_all(struct forger *l, const struct emu_hdr *good, const struct lie *lie,
                            size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct emu_seg seg = {.hdr = *good};

        lie_set(&seg.hdr, &lie[i]);
        l->stale += lie[i].stale;
        l->malformed += !lie[i].stale;
        forger_send(l, &seg);
    }
}

/* Answers to other conditionals, and impossible answers. */
static void receive__rejects_impossible_answers_to_a_conditional(void)
{
    static uint8_t memory[2][LIAR_BYTES];
    struct forger l;

    forger_open(&l, memory);
    const struct lie lies[] = {
        {LIE_SRC, 1, false},
        {LIE_OP, 2, false},
        {LIE_DST, 78, false},
        {LIE_SEQ, l.tested.seq + (1 << 20), true},
        {LIE_SEQ, l.answered.seq, false}, /* a broadcast is not a conditional */
        {LIE_KIND, EMU_TEST | EMU_NOTIFY, false},
    };
    forger_send_all(&l, &l.tested, lies, sizeof lies / sizeof *lies);
    forger_close(&l);
}

/*
 * Reports of delivery to all members are rejected if the segment was not sent, does not exist, or
 * was reported before.
 */
static void receive__rejects_impossible_answers_to_a_broadcast(void)
{
    static uint8_t memory[2][LIAR_BYTES];
    struct forger l;

    forger_open(&l, memory);
    const struct lie lies[] = {
        {LIE_LEN, 1, false},
        {LIE_DST, 78, false},
        {LIE_TYPE, 4, false}, /* not sent yet */
        {LIE_TYPE, 255, false},
        {LIE_SEQ, l.tested.seq, false},
        {LIE_SEQ, nic_op_of(&l.get)->id, true}, /* only a peer may name this one */
        {LIE_OP, NIC_MULTICAST_BROKEN, false},
        {LIE_KIND, EMU_BARRIER | EMU_NOTIFY, false},
    };
    forger_send_all(&l, &l.answered, lies, sizeof lies / sizeof *lies);
    /* as if all members had it, each answer twice; once in order */
    for (unsigned i = 0; i < 4; i++) {
        struct emu_seg seg = {.hdr = l.answered};

        seg.hdr.type = (uint8_t)(i / 2 * 2);
        l.malformed += i % 2;
        forger_send(&l, &seg);
    }
    forger_close(&l);
}

/*
 * Broadcasts to a region that is not the group's, or outside of it, count as late; others are
 * malformed.
 */
static void receive__rejects_broadcasts_that_do_not_fit(void)
{
    static uint8_t memory[2][LIAR_BYTES];
    struct forger l;

    forger_open(&l, memory);
    const struct {
        uint64_t key, offset;
        struct lie lie; /* stale here means late */
    } c[] = {
        {l.key ^ 1, 0, {LIE_SRC, 1, true}},
        {l.key, 993, {LIE_SRC, 1, true}},
        {l.key, UINT64_MAX - 2, {LIE_SRC, 1, true}},
        {l.key, 0, {LIE_DST, 78, true}},
        {l.read, 0, {LIE_SRC, 1, true}},
        {l.key, 0, {LIE_LEN, 15, false}},
        {l.key, 0, {LIE_OP, NIC_MULTICAST_PROBE + 1, false}},
        {l.key, 0, {LIE_LEN, 241, false}},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct nic_wire_broadcast broadcast = {.key = c[i].key, .offset = c[i].offset};
        struct emu_seg seg = {.hdr = {.dst = l.t.id,
                                      .src = 1,
                                      .kind = EMU_MULTICAST,
                                      .len = 24,
                                      .op = NIC_MULTICAST_LAST}};

        lie_set(&seg.hdr, &c[i].lie);
        memcpy(seg.payload, &broadcast, sizeof broadcast);
        memset(seg.payload + sizeof broadcast, 0x77, 8);
        l.late += c[i].lie.stale;
        l.malformed += !c[i].lie.stale;
        forger_send(&l, &seg);
    }
    CU_ASSERT_TRUE(memory[0][0] == 0 && memory[0][LIAR_BYTES - 1] == 0);
    forger_close(&l);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(test__queries_all_members),
        CASE(test__until_waits_for_the_last),
        CASE(words__are_refused_where_unsupported),
        CASE(set__is_not_overtaken),
        CASE(words__make_a_barrier),
        CASE(words__and_a_broadcast_make_a_barrier),
        CASE(group_broken__ends_conditionals_and_broadcasts),
        CASE(group_break__is_reported_to_all_members),
        CASE(dropped__broadcast_breaks_the_group),
        CASE(abort__cancels_conditionals_and_broadcasts),
        CASE(symmetric__keys_are_the_same_at_all_members),
        CASE(symmetric__keys_are_valid_everywhere_at_once),
        CASE(symmetric__is_a_collective),
        CASE(broadcast__writes_all_members),
        CASE(broadcast__is_pipelined_and_bounded),
        CASE(broadcast__writes_its_last_bytes_last),
        CASE(broadcast__skips_unregistered_members),
        CASE(receive__rejects_impossible_answers_to_a_conditional),
        CASE(receive__rejects_impossible_answers_to_a_broadcast),
        CASE(receive__rejects_broadcasts_that_do_not_fit),
        {0},
    };

    return test_run("nic_broadcast", cases);
}
