/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_group_test.c - collectives: results, windows, tokens, early segments.
 *
 * One thread steps the adapters and a fake fabric that reorders.
 */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "emu/util/combine.h"
#include "tests/test.h"
#include "tests/fixtures/host/parts.h"
#include "tests/fixtures/host/peers.h"

/* A group as seen by all its members. */
struct team {
    uint32_t count;
    uint32_t node[FAKE_NODES];
    struct fabemu_group *group[FAKE_NODES]; /* by member index */
};

static void open_shuffled(struct peers *w, uint32_t nodes, uint64_t more)
{
    peers_open_seed(w, nodes, true, false, test_seed() + more);
}

static void join(struct peers *w, struct team *t, uint32_t place, uint32_t id)
{
    CU_ASSERT_EQUAL_FATAL(fabemu_group_join(w->fab[t->node[place]], id, t->count, &t->group[place]),
                          0);
}

static void team_open(struct peers *w, struct team *t, uint32_t id, uint32_t first, uint32_t count)
{
    t->count = count;
    for (uint32_t i = 0; i < count; i++)
        t->node[i] = first + i;
    fake_group(w->fake, id, t->node, count);
    for (uint32_t i = 0; i < count; i++)
        join(w, t, i, id);
}

static void team_close(struct team *t)
{
    for (uint32_t i = 0; i < t->count; i++)
        fabemu_group_leave(t->group[i]);
}

/* Everything arrived, nothing was dropped, and no combine state was requested twice. */
static void close_clean(struct peers *w, uint32_t nodes)
{
    CU_ASSERT_EQUAL(fake_conflicts(w->fake), 0);
    for (uint32_t i = 0; i < nodes; i++)
        CU_ASSERT_TRUE(peers_clean(w->fab[i]));
    peers_close(w);
}

/* --- random programs of collectives ------------------------------------------------- */

/* One collective at every member, and the expected result. */
struct act {
    uint8_t kind; /* enum emu_kind */
    bool in_place;
    uint32_t root; /* member index */
    uint64_t seed;
    size_t count; /* elements of 8 bytes; broadcasts: bytes */
    uint8_t *buf[FAKE_NODES];
    uint8_t *out[FAKE_NODES];
    struct fabemu_req req[FAKE_NODES];
};

static int64_t element(uint64_t seed, uint32_t place, size_t k)
{
    return (int64_t)((seed ^ k * 0x9e3779b97f4a7c15ull) >> 20) + (int64_t)place * 1000003;
}

static void act_draw(struct act *a, struct peers *w, const struct team *t)
{
    static const uint8_t kinds[] = {EMU_BARRIER, EMU_MULTICAST, EMU_REDUCE, EMU_ALLREDUCE};
    static const uint32_t sizes[] = {1, 1, 1, 30, 31, 61, 300, 3000, 8000};

    memset(a, 0, sizeof *a);
    a->kind = kinds[test_random(&w->random) % 4];
    a->root = (uint32_t)(test_random(&w->random) % t->count);
    a->seed = test_random(&w->random);
    a->in_place = a->kind == EMU_ALLREDUCE && test_random(&w->random) % 2;
    a->count = test_random(&w->random) % (sizes[test_random(&w->random) % 9] + 1);
    if (a->kind == EMU_MULTICAST)
        a->count *= 3;
    for (uint32_t i = 0; i < t->count; i++) {
        a->buf[i] = calloc(a->count + 1, 8);
        a->out[i] = a->in_place ? a->buf[i] : calloc(a->count + 1, 8);
        for (size_t k = 0; k < a->count; k++) {
            int64_t v = element(a->seed, i, k);

            if (a->kind != EMU_MULTICAST)
                memcpy(a->buf[i] + 8 * k, &v, 8);
            else if (i == a->root)
                a->buf[i][k] = (uint8_t)v;
        }
    }
}

static void act_post(struct act *a, const struct team *t, uint32_t i)
{
    int err = 0;

    switch (a->kind) {
    case EMU_BARRIER:
        err = fabemu_barrier(t->group[i], &a->req[i]);
        break;
    case EMU_MULTICAST:
        err = fabemu_broadcast(t->group[i], a->buf[i], a->count, t->node[a->root], &a->req[i]);
        break;
    case EMU_REDUCE:
        err = fabemu_reduce(t->group[i], a->buf[i], i == a->root ? a->out[i] : NULL, a->count,
                            FABEMU_SUM, FABEMU_I64, t->node[a->root], &a->req[i]);
        break;
    case EMU_ALLREDUCE:
        err = fabemu_allreduce(t->group[i], a->buf[i], a->out[i], a->count, FABEMU_SUM, FABEMU_I64,
                               &a->req[i]);
        break;
    }
    CU_ASSERT_EQUAL(err, 0);
}

static void act_check(struct act *a, const struct team *t)
{
    bool good = true;

    for (uint32_t i = 0; i < t->count; i++) {
        good = good && a->req[i].status == 0;
        for (size_t k = 0; good && k < a->count; k++) {
            int64_t sum = 0;

            for (uint32_t p = 0; p < t->count; p++)
                sum += element(a->seed, p, k);
            if (a->kind == EMU_MULTICAST)
                good = a->buf[i][k] == (uint8_t)element(a->seed, a->root, k);
            else if (a->kind == EMU_ALLREDUCE || (a->kind == EMU_REDUCE && i == a->root))
                good = memcmp(a->out[i] + 8 * k, &sum, 8) == 0;
        }
    }
    CU_ASSERT_TRUE(good);
}

static void act_free(struct act *a, const struct team *t)
{
    for (uint32_t i = 0; i < t->count; i++) {
        if (!a->in_place)
            free(a->out[i]);
        free(a->buf[i]);
    }
}

/* @acts collectives of each team, every member at its own pace, everything in flight at once. */
static void program_run(struct peers *w, struct team *t, uint32_t teams, uint32_t acts)
{
    struct act *act = calloc((size_t)acts * teams, sizeof *act);
    uint32_t at[2][FAKE_NODES] = {{0}};
    uint32_t left = 0;

    for (uint32_t g = 0; g < teams; g++)
        for (uint32_t k = 0; k < acts; k++)
            act_draw(&act[g * acts + k], w, &t[g]);
    for (uint32_t g = 0; g < teams; g++)
        left += acts * t[g].count;
    while (left) {
        uint32_t g = (uint32_t)(test_random(&w->random) % teams);
        uint32_t i = (uint32_t)(test_random(&w->random) % t[g].count);
        uint32_t burst = (uint32_t)(test_random(&w->random) % 8);

        for (; burst && at[g][i] < acts; burst--, left--)
            act_post(&act[g * acts + at[g][i]++], &t[g], i);
        if (test_random(&w->random) % 3 == 0)
            fake_pump(w->fake);
    }
    for (uint32_t g = 0; g < teams; g++) {
        for (uint32_t k = 0; k < acts; k++) {
            struct act *a = &act[g * acts + k];

            CU_ASSERT_TRUE_FATAL(fake_finish(w->fake, a->req, t[g].count));
            act_check(a, &t[g]);
            act_free(a, &t[g]);
        }
    }
    free(act);
}

/* Every case runs with narrow and with wide windows. */
static const uint32_t windows[] = {0, EMU_GROUP_WIDE};
#define WINDOWS (sizeof windows / sizeof windows[0])

static void collectives__are_right_for_any_size_of_group(void)
{
    for (uint32_t members = 2; members <= 8; members++) {
        for (uint32_t i = 0; i < WINDOWS; i++) {
            struct peers w;
            struct team t;

            open_shuffled(&w, members, members);
            team_open(&w, &t, windows[i] | (7 + members), 0, members);
            program_run(&w, &t, 1, 200);
            team_close(&t);
            close_clean(&w, members);
        }
    }
}

/* A group of two, over acknowledgments. */
static void open_pair(struct peers *w, struct team *t, uint32_t window, uint64_t more)
{
    peers_open_seed(w, 2, true, true, test_seed() + more);
    team_open(w, t, window | 11, 0, 2);
}

/* Vectors of many half windows, whose numbers wrap. */
static void vectors_of_two(uint32_t window)
{
    enum { COUNT = 400000 };
    struct fabemu_req up[2] = {{0}}, all[2] = {{0}}, end[2] = {{0}};
    double *v = malloc(5 * COUNT * sizeof *v), *sum = v + 4 * COUNT;
    bool good = true;
    struct peers w;
    struct team t;

    open_pair(&w, &t, window, 1);
    for (uint32_t k = 0; k < 4 * COUNT; k++)
        v[k] = k;
    for (uint32_t i = 0; i < 2; i++) {
        if (i)
            fake_quiet(w.fake);
        fabemu_reduce(t.group[i], v + i * COUNT, i ? sum : NULL, COUNT, FABEMU_SUM, FABEMU_F64, 1,
                      &up[i]);
        fabemu_allreduce(t.group[i], v + (2 + i) * COUNT, v + (2 + i) * COUNT, COUNT, FABEMU_SUM,
                         FABEMU_F64, &all[i]);
        fabemu_barrier(t.group[i], &end[i]);
    }
    CU_ASSERT_TRUE(fake_finish(w.fake, up, 2) && fake_finish(w.fake, all, 2));
    CU_ASSERT_TRUE(fake_finish(w.fake, end, 2));
    for (uint32_t k = 0; k < COUNT; k++)
        good = good && sum[k] == 2.0 * k + COUNT && v[2 * COUNT + k] == 2.0 * k + 5.0 * COUNT &&
               v[3 * COUNT + k] == v[2 * COUNT + k];
    CU_ASSERT_TRUE(good);
    team_close(&t);
    close_clean(&w, 2);
    free(v);
}

static void collectives__of_two_fill_many_windows(void)
{
    for (uint32_t i = 0; i < WINDOWS; i++)
        vectors_of_two(windows[i]);
}

/* A dropped contribution breaks the group, as in larger groups. */
static void collectives__of_two_break_when_cut(void)
{
    struct fabemu_req req = {0};
    struct peers w;
    struct team t;

    open_pair(&w, &t, 0, 0);
    fake_cut(w.fake, 0, 1, true);
    fabemu_barrier(t.group[0], &req);
    CU_ASSERT_TRUE(fake_finish(w.fake, &req, 1));
    CU_ASSERT_EQUAL(req.status, -EPIPE);
    peers_close(&w);
}

static void collectives__of_two_groups_interleave(void)
{
    struct peers w;
    struct team t[2];

    open_shuffled(&w, 6, 99);
    team_open(&w, &t[0], 1, 0, 4);
    team_open(&w, &t[1], EMU_GROUP_WIDE | 257, 2, 4); /* the same hash bucket */
    program_run(&w, t, 2, 200);
    team_close(&t[0]);
    team_close(&t[1]);
    close_clean(&w, 6);
}

/* Windows advance many times, and the numbers on the wire wrap. */
static void long_vectors_and_many_operations(uint32_t window)
{
    enum { COUNT = 100000, MANY = 5000 };
    struct peers w;
    struct team t;
    struct fabemu_req req[3] = {{0}}, *many = calloc(3 * MANY, sizeof *many);
    double *v = malloc(3 * COUNT * sizeof *v);
    uint64_t *u = malloc(3 * MANY * sizeof *u);
    bool good = true;

    open_shuffled(&w, 3, 5);
    team_open(&w, &t, window | 3, 0, 3);
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t k = 0; k < COUNT; k++)
            v[i * COUNT + k] = k + i;
        fabemu_allreduce(t.group[i], v + i * COUNT, v + i * COUNT, COUNT, FABEMU_MAX, FABEMU_F64,
                         &req[i]);
    }
    for (uint32_t k = 0; k < MANY; k++) {
        for (uint32_t i = 0; i < 3; i++) {
            u[3 * k + i] = UINT64_C(1) << (k + i) % 64;
            fabemu_allreduce(t.group[i], &u[3 * k + i], &u[3 * k + i], 1, FABEMU_BOR, FABEMU_U64,
                             &many[3 * k + i]);
        }
    }
    CU_ASSERT_TRUE(fake_finish(w.fake, req, 3));
    CU_ASSERT_TRUE(fake_finish(w.fake, many, 3 * MANY));
    for (uint32_t k = 0; k < 3 * COUNT; k++)
        good = good && v[k] == k % COUNT + 2;
    for (uint32_t k = 0; k < 3 * MANY; k++)
        for (uint32_t i = 0; i < 3; i++)
            good = good && u[k] & UINT64_C(1) << (k / 3 + i) % 64;
    CU_ASSERT_TRUE(good);
    team_close(&t);
    close_clean(&w, 3);
    free(v);
    free(u);
    free(many);
}

static void allreduce__long_vectors_and_many_operations(void)
{
    for (uint32_t i = 0; i < WINDOWS; i++)
        long_vectors_and_many_operations(windows[i]);
}

/* --- early and late segments -------------------------------------------------------- */

static void join_late(uint32_t id)
{
    static uint8_t buf[3][500000];
    struct peers w;
    struct team t = {.count = 3, .node = {0, 1, 2}};
    struct fabemu_req broadcast[3] = {{0}}, fold[3] = {{0}};
    int32_t v[3] = {1, 2, 3}, sum = 0;

    open_shuffled(&w, 3, 0);
    fake_group(w.fake, id, t.node, 3);
    memset(buf[0], 0xab, sizeof buf[0]);
    memset(buf[1], 0, sizeof buf[1]);
    memset(buf[2], 0, sizeof buf[2]);
    for (uint32_t i = 0; i < 3; i++) {
        if (i == 2)
            fake_quiet(w.fake); /* two members are far ahead */
        join(&w, &t, i, id);
        fabemu_broadcast(t.group[i], buf[i], sizeof buf[i], 0, &broadcast[i]);
        fabemu_reduce(t.group[i], &v[i], i == 2 ? &sum : NULL, 1, FABEMU_SUM, FABEMU_I32, 2,
                      &fold[i]);
    }
    CU_ASSERT_TRUE(fake_finish(w.fake, broadcast, 3));
    CU_ASSERT_TRUE(fake_finish(w.fake, fold, 3));
    CU_ASSERT_EQUAL(memcmp(buf[0], buf[2], sizeof buf[0]), 0);
    CU_ASSERT_EQUAL(memcmp(buf[0], buf[1], sizeof buf[0]), 0);
    CU_ASSERT_EQUAL(sum, 6);
    CU_ASSERT_EQUAL(w.fab[2]->early_groups, 0);
    team_close(&t);
    close_clean(&w, 3);
}

static void join__finds_early_segments(void)
{
    for (uint32_t i = 0; i < WINDOWS; i++)
        join_late(windows[i] | 40);
}

/*
 * A member that depends on nobody runs ahead by one window and no further: two half windows, each
 * with its token.
 */
static void broadcast__runs_ahead_by_a_window(void)
{
    static uint8_t buf[2][2 * EMU_WINDOW_WIDE * EMU_PAYLOAD_BYTES];

    for (uint32_t i = 0; i < WINDOWS; i++) {
        uint32_t id = windows[i] | 9;
        struct fabemu_req req[2] = {{0}};
        struct peers w;
        struct team t;

        open_shuffled(&w, 2, 0);
        team_open(&w, &t, id, 0, 2);
        fabemu_broadcast(t.group[0], buf[0], sizeof buf[0], 0, &req[0]);
        fake_quiet(w.fake);
        CU_ASSERT_EQUAL(t.group[0]->sending->sent, emu_window(id) - 2);
        fabemu_broadcast(t.group[1], buf[1], sizeof buf[1], 0, &req[1]);
        CU_ASSERT_TRUE(fake_finish(w.fake, req, 2));
        team_close(&t);
        close_clean(&w, 2);
    }
}

static void early__groups_are_bounded(void)
{
    struct peers w;
    struct emu_seg seg = {.hdr = {.kind = EMU_MULTICAST, .len = 4, .src = 1}};

    open_shuffled(&w, 2, 0);
    for (uint32_t id = 0; id < NIC_EARLY_GROUPS_MAX + 400; id++) {
        seg.hdr.dst = id;
        while (!fake_inject(w.fake, 0, &seg))
            fabemu_progress(w.fab[0]);
    }
    fake_quiet(w.fake);
    CU_ASSERT_EQUAL(w.fab[0]->early_groups, NIC_EARLY_GROUPS_MAX);
    CU_ASSERT_EQUAL(w.fab[0]->counts.late, 400);
    fake_close(w.fake);
}

/* Segments for a group that can no longer be joined are discarded, and late ones are refused. */
static void ended__discards_segments_of_an_unjoined_group(void)
{
    struct peers w;
    struct team t;
    struct fabemu_req req = {0};
    struct emu_seg seg = {.hdr = {.kind = EMU_MULTICAST, .len = 4, .src = 1}};
    const uint32_t any = FABEMU_ANY_NODE;
    const struct nic_group_end nobody = {.dead = any, .by = any, .partitioned = any, .why = ""},
                               first = {any, .by = 1, .partitioned = any,
                                        .why = "the first reason"},
                               then = {any, .by = 0, .partitioned = any, .why = "what came of it"};
    char why[96];

    open_shuffled(&w, 2, 0);
    team_open(&w, &t, 1, 0, 2);
    fabemu_barrier(t.group[0], &req);
    for (uint32_t round = 0; round < NIC_EARLY_GROUPS_MAX; round++) {
        seg.hdr.dst = 2 + round;
        CU_ASSERT_TRUE(fake_inject(w.fake, 0, &seg));
        fake_quiet(w.fake);
        nic_lock(w.fab[0]);
        nic_group_over(w.fab[0], 2 + round, &nobody);
        nic_unlock(w.fab[0]);
        CU_ASSERT_TRUE(fake_inject(w.fake, 0, &seg));
        fake_quiet(w.fake);
    }
    CU_ASSERT_EQUAL(w.fab[0]->early_groups, 0);
    CU_ASSERT_EQUAL(w.fab[0]->counts.late, NIC_EARLY_GROUPS_MAX);
    CU_ASSERT_EQUAL(fabemu_req_status(&req), FABEMU_PENDING);
    nic_lock(w.fab[0]);
    CU_ASSERT_FALSE(fabemu_group_why(t.group[0], why, sizeof why));
    nic_group_over(w.fab[0], 1, &first);
    nic_group_over(w.fab[0], 1, &then);
    nic_unlock(w.fab[0]);
    CU_ASSERT_EQUAL(req.status, -EPIPE);
    CU_ASSERT_TRUE(fabemu_group_why(t.group[0], why, sizeof why));
    CU_ASSERT_STRING_EQUAL(why, "the first reason");
    CU_ASSERT_EQUAL(fabemu_group_broke_off(t.group[0]), 1);
    fabemu_req_why(w.fab[0], &req, why, sizeof why);
    CU_ASSERT_STRING_EQUAL(why, "the first reason");
    fake_close(w.fake);
}

/* The error recorded in a request names a node, whatever broke the group. */
static void ended__names_a_node(void)
{
    const uint32_t any = FABEMU_ANY_NODE;
    const struct {
        struct nic_group_end end;
        const char *why;
    } cases[] = {
        {{any, any, any, "switch 3"}, "switch 3"},
        {{1, any, any, ""}, "the member of its group on node 1 died"},
        {{any, 1, any, ""}, "the member of its group on node 1 has left it or met an error"},
        {{any, any, 1, ""}, "no route leads to node 1"},
        {{any, any, any, ""}, "node 0, this one, was told that a member of its group is gone"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fabemu_req req[3] = {{0}};
        struct peers w;
        struct team t;
        char why[96];

        open_shuffled(&w, 2, 0);
        team_open(&w, &t, 1, 0, 2);
        fabemu_barrier(t.group[0], &req[0]);
        nic_lock(w.fab[0]);
        nic_group_over(w.fab[0], 1, &cases[i].end);
        nic_unlock(w.fab[0]);
        fabemu_barrier(t.group[0], &req[1]);
        fabemu_broadcast(t.group[0], why, 1, 0, &req[2]);
        for (size_t k = 0; k < 3; k++) {
            CU_ASSERT_EQUAL(req[k].status, -EPIPE);
            fabemu_req_why(w.fab[0], &req[k], why, sizeof why);
            CU_ASSERT_STRING_EQUAL(why, cases[i].why);
        }
        fake_close(w.fake);
    }
}

static void barrier__waits_for_everybody(void)
{
    struct peers w;
    struct team t;
    struct fabemu_req req[3] = {{0}};

    open_shuffled(&w, 3, 0);
    team_open(&w, &t, 1, 0, 3);
    fabemu_barrier(t.group[0], &req[0]);
    fabemu_barrier(t.group[2], &req[2]);
    fake_quiet(w.fake);
    CU_ASSERT_EQUAL(req[0].status, FABEMU_PENDING);
    fabemu_barrier(t.group[1], &req[1]);
    CU_ASSERT_TRUE(fake_finish(w.fake, req, 3));
    team_close(&t);
    close_clean(&w, 3);
}

static void group__of_one_needs_no_network(void)
{
    struct peers w;
    struct fabemu_group *g;
    struct fabemu_req req = {0};
    int v[2] = {1, 2}, out[2] = {0};

    open_shuffled(&w, 1, 0);
    CU_ASSERT_EQUAL(fabemu_group_join(w.fab[0], 9, 1, &g), 0);
    CU_ASSERT_EQUAL(fabemu_group_join(w.fab[0], 9, 1, &g), -EALREADY);
    CU_ASSERT_EQUAL(fabemu_allreduce(g, v, out, 2, FABEMU_SUM, FABEMU_I32, &req), 0);
    CU_ASSERT_TRUE(req.status == 0 && out[1] == 2);
    CU_ASSERT_EQUAL(fabemu_reduce(g, v + 1, out, 1, FABEMU_SUM, FABEMU_I32, 0, &req), 0);
    CU_ASSERT_TRUE(req.status == 0 && out[0] == 2);
    CU_ASSERT_EQUAL(fabemu_barrier(g, &req), 0);
    CU_ASSERT_EQUAL(req.status, 0);
    CU_ASSERT_EQUAL(fabemu_allreduce(g, v, out, 2, FABEMU_BAND, FABEMU_F64, &req), -EINVAL);
    fabemu_group_leave(g);
    close_clean(&w, 1);
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) /* their allocators abort the process */
/*
 * Memory runs out while groups are joined: one join is refused without leaving anything behind,
 * earlier groups work, and the join succeeds when memory is available again.
 */
static void join__without_memory_is_refused(void)
{
    enum { MOST = 4096 };
    static struct fabemu_group *group[MOST];
    struct fabemu_req req = {0};
    struct rlimit usual, none;
    uint32_t made = 0;
    struct peers w;
    int err = 0;

    open_shuffled(&w, 1, 0);
    CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_AS, &usual), 0);
    none = usual;
    none.rlim_cur = 0; /* no more than the process has already */
    malloc_trim(0);
    CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_AS, &none), 0);
    while (made < MOST &&
           !(err = fabemu_group_join(w.fab[0], EMU_GROUP_WIDE | made, 1, &group[made])))
        made++;
    CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_AS, &usual), 0);
    CU_ASSERT_EQUAL_FATAL(err, -ENOMEM);
    CU_ASSERT_EQUAL(w.fab[0]->early_groups, 0);
    CU_ASSERT_EQUAL_FATAL(fabemu_group_join(w.fab[0], EMU_GROUP_WIDE | made, 1, &group[made]), 0);
    for (uint32_t g = 0; g <= made; g++) {
        CU_ASSERT_EQUAL(fabemu_barrier(group[g], &req), 0);
        CU_ASSERT_EQUAL(req.status, 0);
        fabemu_group_leave(group[g]);
    }
    close_clean(&w, 1);
}
#endif

static void member_died__ends_all_with_epipe(void)
{
    struct peers w;
    struct team t;
    struct fabemu_req req[4] = {{0}};
    static uint64_t v[50000];

    open_shuffled(&w, 3, 0);
    team_open(&w, &t, 1, 0, 3);
    fabemu_allreduce(t.group[0], v, v, 50000, FABEMU_SUM, FABEMU_U64, &req[0]);
    fabemu_barrier(t.group[0], &req[1]);
    fake_quiet(w.fake);
    nic_lock(w.fab[0]);
    nic_group_broken(w.fab[0], 1, 0);
    nic_group_broken(w.fab[0], 2, 0); /* not joined yet */
    nic_unlock(w.fab[0]);
    CU_ASSERT_EQUAL(req[0].status, -EPIPE);
    CU_ASSERT_EQUAL(req[1].status, -EPIPE);
    fabemu_barrier(t.group[0], &req[2]);
    CU_ASSERT_EQUAL(req[2].status, -EPIPE);
    struct fabemu_group *other;
    CU_ASSERT_EQUAL(fabemu_group_join(w.fab[0], 2, 3, &other), 0);
    fabemu_barrier(other, &req[3]);
    CU_ASSERT_EQUAL(req[3].status, -EPIPE);
    fabemu_group_leave(other);
    fake_close(w.fake);
}

/* Forged, repeated and contradictory segments of a group are counted; valid ones still work. */
static void drop_foreign_segments(uint32_t id)
{
    struct peers w;
    struct team t;
    struct fabemu_req req[2] = {{0}};
    uint32_t v[2] = {1, 2};

    open_shuffled(&w, 2, 0);
    team_open(&w, &t, id, 0, 2);
    for (uint32_t i = 0; i < 300; i++) {
        fabemu_allreduce(t.group[0], &v[0], &v[0], 1, FABEMU_MAX, FABEMU_U32, &req[0]);
        for (uint32_t k = 0; k < 20; k++) {
            uint64_t r = test_random(&w.random);
            struct emu_seg seg = {.hdr = {.dst = id,
                                          .src = 1,
                                          .len = (uint8_t)(r >> 8),
                                          .kind = EMU_ALLREDUCE,
                                          .seq = (uint32_t)(r >> 32)}};

            if (r % 3 == 0)
                seg.hdr.seq = i + (uint32_t)(r >> 40) % 300 - 20;
            if (r % 7 == 0) { /* a forged token, or one that is too early */
                seg.hdr.kind = EMU_BARRIER;
                seg.hdr.seq |= emu_window(id) / 2 - 1;
            }
            if (seg.hdr.seq == i + i / (emu_window(id) / 2 - 1))
                continue; /* this one is expected */
            while (!fake_inject(w.fake, 0, &seg))
                fabemu_progress(w.fab[0]);
        }
        fabemu_progress(w.fab[0]);
        CU_ASSERT_EQUAL(req[0].status, FABEMU_PENDING);
        fabemu_allreduce(t.group[1], &v[1], &v[1], 1, FABEMU_MAX, FABEMU_U32, &req[1]);
        CU_ASSERT_TRUE_FATAL(fake_finish(w.fake, req, 2));
        CU_ASSERT_TRUE(v[0] == 2 && v[1] == 2 && req[0].status == 0);
    }
    CU_ASSERT_TRUE(w.fab[0]->counts.malformed > 1000);
    fake_close(w.fake);
}

static void receive__drops_foreign_segments(void)
{
    for (uint32_t i = 0; i < WINDOWS; i++)
        drop_foreign_segments(windows[i] | 1);
}

/* A result cannot arrive before our contribution has left, and only one result is accepted. */
static void receive__drops_a_result_before_its_contribution(void)
{
    struct peers w;
    struct team t;
    struct fabemu_req req[2] = {{0}};
    struct emu_seg seg = {
        .hdr = {.dst = 1, .kind = EMU_ALLREDUCE, .len = 8, .op = EMU_SUM, .type = EMU_U64},
    };
    struct fabemu_dest dest = {.queue = 1};
    uint64_t v[2] = {1, 2}, sum[2];

    open_shuffled(&w, FAKE_NODES, 0);
    team_open(&w, &t, 1, 0, 2);
    for (dest.node = 1; dest.node < FAKE_NODES; dest.node++)
        while (fabemu_inject(w.queue[0], &dest, v, 8) == -EAGAIN)
            fake_pump(w.fake);
    for (dest.node = 1; dest.node < FAKE_NODES; dest.node++)
        while (fabemu_inject(w.queue[0], &dest, v, 8) == 0)
            ; /* the up ring is full now */
    fabemu_allreduce(t.group[0], &v[0], &sum[0], 1, FABEMU_SUM, FABEMU_U64, &req[0]);
    CU_ASSERT_TRUE(fake_inject(w.fake, 0, &seg));
    fabemu_progress(w.fab[0]);
    CU_ASSERT_EQUAL(w.fab[0]->counts.malformed, 1);
    CU_ASSERT_EQUAL(req[0].status, FABEMU_PENDING);
    fabemu_allreduce(t.group[1], &v[1], &sum[1], 1, FABEMU_SUM, FABEMU_U64, &req[1]);
    CU_ASSERT_TRUE(fake_finish(w.fake, req, 2));
    CU_ASSERT_TRUE(sum[0] == 3 && sum[1] == 3);
    CU_ASSERT_TRUE(fake_inject(w.fake, 0, &seg));
    fabemu_progress(w.fab[0]);
    CU_ASSERT_EQUAL(w.fab[0]->counts.malformed, 2);
    fake_close(w.fake);
}

/* Members with different operations all get an error. */
static void collectives__mismatch_ends_with_eproto(void)
{
    struct peers w;
    struct team t;
    struct fabemu_req req[2] = {{0}};
    uint64_t v[2] = {1, 2};

    open_shuffled(&w, 2, 0);
    team_open(&w, &t, 1, 0, 2);
    fabemu_broadcast(t.group[0], v, 8, 0, &req[0]);
    fabemu_reduce(t.group[1], &v[1], &v[1], 1, FABEMU_SUM, FABEMU_U64, 1, &req[1]);
    CU_ASSERT_TRUE(fake_finish(w.fake, req, 2));
    CU_ASSERT_EQUAL(req[1].status, -EPROTO);
    CU_ASSERT_EQUAL(v[1], 2);
    team_close(&t);
    close_clean(&w, 2);
}

/* Segments in flight when a group broke do not reach the next group with the same id. */
static void leave__keeps_late_segments_from_the_next(void)
{
    struct peers w;
    struct team t;
    struct fabemu_req req[2] = {{0}};
    struct emu_seg seg = {.hdr = {.dst = 1, .src = 1, .kind = EMU_MULTICAST, .len = 8}};
    uint64_t v[2] = {1, 2};

    open_shuffled(&w, 2, 0);
    team_open(&w, &t, 1, 0, 2);
    nic_lock(w.fab[0]);
    nic_group_broken(w.fab[0], 1, 0);
    nic_unlock(w.fab[0]);
    team_close(&t);
    memset(seg.payload, 0xee, 8);
    CU_ASSERT_TRUE(fake_inject(w.fake, 0, &seg));
    fake_quiet(w.fake);
    nic_lock(w.fab[0]);
    nic_group_broken(w.fab[0], 1, 0); /* reported twice */
    nic_unlock(w.fab[0]);
    CU_ASSERT_EQUAL(w.fab[0]->counts.late, 1);
    CU_ASSERT_EQUAL(w.fab[0]->early_groups, 0);
    for (uint32_t i = 0; i < 2; i++)
        join(&w, &t, i, 1);
    fabemu_broadcast(t.group[0], &v[0], 8, 1, &req[0]);
    fabemu_broadcast(t.group[1], &v[1], 8, 1, &req[1]);
    CU_ASSERT_TRUE(fake_finish(w.fake, req, 2));
    CU_ASSERT_EQUAL(req[0].status, 0);
    CU_ASSERT_EQUAL(v[0], 2);
    team_close(&t);
    fake_close(w.fake);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(collectives__are_right_for_any_size_of_group),
        CASE(collectives__of_two_fill_many_windows),
        CASE(collectives__of_two_break_when_cut),
        CASE(collectives__of_two_groups_interleave),
        CASE(allreduce__long_vectors_and_many_operations),
        CASE(join__finds_early_segments),
        CASE(broadcast__runs_ahead_by_a_window),
        CASE(early__groups_are_bounded),
        CASE(ended__discards_segments_of_an_unjoined_group),
        CASE(ended__names_a_node),
        CASE(barrier__waits_for_everybody),
        CASE(group__of_one_needs_no_network),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        CASE(join__without_memory_is_refused),
#endif
        CASE(member_died__ends_all_with_epipe),
        CASE(receive__drops_foreign_segments),
        CASE(receive__drops_a_result_before_its_contribution),
        CASE(collectives__mismatch_ends_with_eproto),
        CASE(leave__keeps_late_segments_from_the_next),
        {0},
    };

    return test_run("nic_group", cases);
}
