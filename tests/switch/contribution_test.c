/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * contribution_test.c - valid and invalid contributions to collectives: each is used once, and
 * every buffer returns to the pool.
 *
 * `contribution_test GROUPS` runs the storm with that many groups in each setting.
 */
#include "apps/audit/audit.h"
#include "emu/util/combine.h"
#include "switch/crosspoint/combine.h"
#include "tests/test.h"
#include "tests/fixtures/switch/bench.h"

#define LEN  240u /* bytes: 30 numbers */
#define ROOT 3u   /* index of the root unit when there are three leaves */

static uint32_t storm_groups;

/* --- one switch, stepped by hand ---------------------------------------------------- */

/* A reduction of doubles from @node; every number is @value. */
static bool contribute(struct bench *b, uint32_t node, const struct emu_hdr *hdr, double value)
{
    struct emu_entry entry = {.hdr = *hdr, .buf = EMU_NO_BUF};

    if (!probe_has_credit(b, node))
        return false;
    if (hdr->len) {
        entry.buf = emu_pool_take(&b->worker->cache);
        for (uint32_t i = 0; i < LEN / sizeof value; i++)
            memcpy(emu_pool_bytes(b->fabric->pool, entry.buf) + i * sizeof value, &value,
                   sizeof value);
    }
    probe_put(b, node, &entry);
    return true;
}

static bool bufs_are_held(struct bench *b, const char *when)
{
    char error[256];

    if (!fabric_check_bufs(b->fabric, error, sizeof error))
        return true;
    printf("\n    %s: %s\n    ", when, error);
    return false;
}

/* A switch with 8 ports and 8 nodes, with leaf units of 3, 3 and 2 ports and a root unit. */
static void leaves_open(struct bench *b, enum emu_combine_order order, struct emu_hdr *hdr)
{
    static const uint32_t members[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct emu_profile profile = bench_profile(EMU_CREDIT_ROW, 4);

    profile.combine_units = ROOT + 1;
    profile.combine_order = order;
    bench_start(b, "kary:8,1", &profile);
    *hdr = (struct emu_hdr){.dst = fixture_group(b->fabric, members, 8),
                            .kind = EMU_REDUCE,
                            .op = EMU_SUM,
                            .type = EMU_F64,
                            .len = LEN};
}

/* Run only the part of a pass that combines node @n's contribution at its leaf. */
static void leaf_combines(struct bench *b, uint32_t n)
{
    struct switch_crosspoints *xp = switch_crosspoints_of(b->fabric->sw[0]);
    uint32_t row = b->graph->node[n].link[0].port;
    struct emu_rx *rx = &xp->bar.row[row].rx;

    switch_enter(xp, row, emu_rx_front(rx, 0));
    switch_row_of(xp)->settling[row].arrived++;
    emu_rx_skip(rx);
    emu_rx_done(rx, 1);
}

/*
 * All nodes but 0 have contributed, and the leaves' partial results wait at the root: the result is
 * for node 0.
 */
static void leaves_pass_on(struct bench *b, const struct emu_hdr *hdr)
{
    struct switch_crosspoints *xp = switch_crosspoints_of(b->fabric->sw[0]);

    for (uint32_t n = 1; n < 8; n++) {
        CU_ASSERT_TRUE(contribute(b, n, hdr, n));
        leaf_combines(b, n);
    }
    switch_units_flush(xp, 0);
    CU_ASSERT_EQUAL_FATAL(xp->bar.out[xp->bar.sw.ports + ROOT].queued, 3);
}

static void quieten(struct bench *b)
{
    for (uint32_t pass = 0; pass < 5000 && !emu_worker_quiet(b->worker); pass++)
        emu_worker_pass(b->worker);
}

/*
 * Seven contributions make the result. The eighth arrives after its leaf's partial result was
 * combined at the root and the buffer of that was reused.
 */
static void late_contribution__does_not_write_to_a_reused_buffer(void)
{
    struct bench b;
    struct emu_hdr hdr;
    struct switch_crosspoints *xp;
    uint32_t theirs;
    uint8_t before[LEN];

    leaves_open(&b, EMU_COMBINE_ARRIVAL, &hdr);
    xp = switch_crosspoints_of(b.fabric->sw[0]);
    leaves_pass_on(&b, &hdr);
    /* The partial result of leaf 0, node 0's leaf. */
    theirs = switch_front(&xp->bar, xp->bar.sw.ports, xp->bar.sw.ports + ROOT)->buf;
    switch_unit_take(xp, ROOT, xp->bar.sw.ports + 1, 0);
    switch_unit_take(xp, ROOT, xp->bar.sw.ports, 0);
    CU_ASSERT_EQUAL_FATAL(emu_pool_take(&b.worker->cache), theirs); /* reused by another owner */
    memset(emu_pool_bytes(b.fabric->pool, theirs), 0, LEN);
    memcpy(before, emu_pool_bytes(b.fabric->pool, theirs), LEN);

    CU_ASSERT_TRUE(contribute(&b, 0, &hdr, 100));
    quieten(&b);
    CU_ASSERT_EQUAL(memcmp(before, emu_pool_bytes(b.fabric->pool, theirs), LEN), 0);
    CU_ASSERT_EQUAL(emu_count_read(&xp->bar.sw.counts.bad), 1);
    CU_ASSERT_EQUAL(b.probe[0]->got, 1);
    CU_ASSERT_EQUAL(b.probe[0]->number, 1 + 2 + 3 + 4 + 5 + 6 + 7);
    emu_pool_drop(&b.worker->cache, theirs);
    CU_ASSERT_TRUE(bufs_are_held(&b, "after a late contribution"));
    bench_close(&b);
}

/*
 * Whenever the late contribution arrives, the result is that of the seven, it is delivered, and
 * nothing is left behind.
 */
static void late_contribution__changes_nothing(void)
{
    for (uint32_t taken = 0; taken < 8; taken++) {
        enum emu_combine_order order = taken & 1 ? EMU_COMBINE_PORT : EMU_COMBINE_ARRIVAL;
        struct bench b;
        struct emu_hdr hdr;
        struct switch_crosspoints *xp;

        leaves_open(&b, order, &hdr);
        xp = switch_crosspoints_of(b.fabric->sw[0]);
        leaves_pass_on(&b, &hdr);
        for (uint32_t leaf = 0; leaf < taken / 2; leaf++)
            switch_unit_take(xp, ROOT, xp->bar.sw.ports + 2 - leaf, 0);
        CU_ASSERT_TRUE(contribute(&b, 0, &hdr, 100));
        quieten(&b);
        CU_ASSERT_EQUAL(b.probe[0]->got, 1);
        CU_ASSERT_EQUAL(b.probe[0]->number, 1 + 2 + 3 + 4 + 5 + 6 + 7);
        CU_ASSERT_TRUE(bufs_are_held(&b, "after a late contribution"));
        CU_ASSERT_EQUAL(fabric_bufs_out(b.fabric), 0);
        bench_close(&b);
    }
}

/* The root combines even if nothing else happens in the switch. */
static void partial_results__reach_the_root_when_all_else_is_quiet(void)
{
    static const uint32_t members[4] = {0, 1, 2, 3};

    for (uint32_t units = 1; units <= 5; units++) {
        struct emu_profile profile = bench_profile(EMU_CREDIT_ROW, 4);
        struct bench b;
        struct emu_hdr hdr = {.kind = EMU_ALLREDUCE, .op = EMU_SUM, .type = EMU_F64, .len = LEN};

        profile.combine_units = units;
        bench_start(&b, "kary:2,2", &profile);
        hdr.dst = fixture_group(b.fabric, members, 4);
        for (uint32_t n = 0; n < 4; n++) {
            CU_ASSERT_TRUE(contribute(&b, n, &hdr, n + 1));
            quieten(&b);
        }
        for (uint32_t n = 0; n < 4; n++) {
            CU_ASSERT_EQUAL(b.probe[n]->got, 1);
            CU_ASSERT_EQUAL(b.probe[n]->number, 1 + 2 + 3 + 4);
        }
        CU_ASSERT_EQUAL(fabric_bufs_out(b.fabric), 0);
        bench_close(&b);
    }
}

/*
 * Two groups below one leaf together pass more on in one pass than its crosspoint to the root
 * holds. The members return no credits, so only the switch itself can schedule the rest.
 */
static void partial_results__of_two_groups_do_not_fit_at_once(void)
{
    static const uint32_t members[2][2] = {{0, 1}, {2, 3}};
    const uint32_t slots = 4;

    for (uint32_t units = 1; units <= 4; units++) {
        struct emu_profile profile = bench_profile(EMU_CREDIT_ROW, slots);
        struct emu_hdr hdr = {.kind = EMU_ALLREDUCE, .op = EMU_SUM, .type = EMU_F64, .len = LEN};
        struct bench b;
        uint32_t group[2];

        profile.combine_units = units;
        bench_start(&b, "kary:8,1", &profile);
        for (uint32_t g = 0; g < 2; g++)
            group[g] = fixture_group(b.fabric, members[g], 2);
        /* as many from each node as it has credits for */
        for (uint32_t i = 0; i < 4 * slots; i++) {
            hdr.dst = group[i / 2 % 2];
            hdr.seq = i / 4;
            CU_ASSERT_TRUE(contribute(&b, members[i / 2 % 2][i % 2], &hdr, 1));
        }
        for (uint32_t n = 0; n < 4; n++)
            b.probe[n]->deaf = true;
        quieten(&b);
        CU_ASSERT_EQUAL(emu_count_read(&switch_counts(b.fabric->sw[0])->results), 2 * slots);
        CU_ASSERT_TRUE(bufs_are_held(&b, "when all is quiet"));
        bench_close(&b);
    }
}

/* --- late contributions after the end ----------------------------------------------- */

static void bench_of(struct bench *b, const char *profile, const char *spec, const char *set)
{
    struct emu_profile p;
    char error[256], text[256];

    CU_ASSERT_EQUAL_FATAL(emu_profile_load(&p, profile, error, sizeof error), 0);
    snprintf(text, sizeof text, "%s", set);
    for (char *rest, *field = strtok_r(text, " ", &rest); field; field = strtok_r(NULL, " ", &rest))
        CU_ASSERT_EQUAL_FATAL(emu_profile_set(&p, field, error, sizeof error), 0);
    bench_start(b, spec, &p);
}

/* All of @count nodes but @without contribute in rotation from @first on. Then run until quiet. */
static void operation(struct bench *b, uint32_t count, struct emu_hdr hdr, uint32_t first,
                      uint32_t without)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t n = (first + i) % count;

        if (n != without)
            CU_ASSERT_TRUE(contribute(b, n, &hdr, n + 1));
    }
    quieten(b);
}

/* Results that nodes below @count received since the last call. */
static uint32_t results_since(const struct bench *b, uint32_t count, uint32_t *before)
{
    uint32_t got = 0, was = *before;

    for (uint32_t n = 0; n < count; n++)
        got += b->probe[n]->got;
    *before = got;
    return got - was;
}

/*
 * A late contribution does not restart a finished operation: its result is not sent twice, and the
 * operation that reuses its state one window later is not affected.
 */
static void late_one_is_dropped(const char *profile, const char *spec, const char *set,
                                uint8_t kind)
{
    uint32_t members[BENCH_NODES], count, seen = 0, want;
    struct emu_hdr hdr = {.kind = kind,
                          .op = EMU_SUM,
                          .type = EMU_F64,
                          .len = kind == EMU_BARRIER ? 0 : LEN};
    uint32_t root = kind == EMU_REDUCE ? 1 : BENCH_NODES;
    struct bench b;

    bench_of(&b, profile, spec, set);
    count = b.graph->nodes;
    want = kind == EMU_REDUCE ? 1 : count;
    for (uint32_t n = 0; n < count; n++)
        members[n] = n;
    hdr.dst = fixture_group(b.fabric, members, count);
    for (uint32_t round = 0; round < 4; round++, hdr.seq += EMU_WINDOW) {
        operation(&b, count, hdr, round, root);
        CU_ASSERT_EQUAL(results_since(&b, count, &seen), want);
        for (uint32_t n = 0; n < count; n++) {
            CU_ASSERT_TRUE(contribute(&b, n, &hdr, 100));
            quieten(&b);
        }
        CU_ASSERT_EQUAL(results_since(&b, count, &seen), 0);
        CU_ASSERT_TRUE(bufs_are_held(&b, set));
    }
    CU_ASSERT_EQUAL(fabric_bufs_out(b.fabric), 0);
    bench_close(&b);
}

static void late_contribution__restarts_no_operation(void)
{
    static const uint8_t kinds[] = {EMU_REDUCE, EMU_ALLREDUCE, EMU_BARRIER};

    for (uint32_t i = 0; i < 3; i++) {
        late_one_is_dropped("oq2004", "kary:2,2", "combine_units=1", kinds[i]);
        late_one_is_dropped("oq2004", "kary:2,2", "combine_units=3 combine_order=port", kinds[i]);
        late_one_is_dropped("qsnet3", "kary:2,2", "barrier=tree", kinds[i]);
        late_one_is_dropped("qsnet3", "kary:4,2", "barrier=conditional tree_width=2", kinds[i]);
        late_one_is_dropped("qsnet3", "kary:2,2", "barrier=tree combine_order=port", kinds[i]);
        late_one_is_dropped("qsnet3", "kary:4,2", "combining=switch", kinds[i]);
    }
}

/* --- the audit itself --------------------------------------------------------------- */

static void check_bufs__finds_leaked_buffers(void)
{
    struct bench b;
    char error[256];
    uint32_t buf;

    bench_open(&b, "kary:2,2", EMU_CREDIT_ROW, 4);
    CU_ASSERT_EQUAL(fabric_check_bufs(b.fabric, error, sizeof error), 0);
    buf = emu_pool_take(&b.worker->cache);
    CU_ASSERT_EQUAL(fabric_bufs_out(b.fabric), 1);
    CU_ASSERT_NOT_EQUAL(fabric_check_bufs(b.fabric, error, sizeof error), 0);
    emu_pool_share(b.fabric->pool, buf, 2);
    CU_ASSERT_EQUAL(fabric_bufs_out(b.fabric), 3);
    for (uint32_t i = 0; i < 3; i++)
        emu_pool_drop(&b.worker->cache, buf);
    CU_ASSERT_EQUAL(fabric_check_bufs(b.fabric, error, sizeof error), 0);
    bench_close(&b);
}

/* --- many groups -------------------------------------------------------------------- */

/* How members contribute to a group's operations. */
enum storm_kind {
    STORM_HONEST, /* as specified: all members, or all but one for a reduction */
    STORM_ALL,    /* all members, also for reductions */
    STORM_NONE,
    STORM_LATE,  /* one member waits until the result has left, and then contributes */
    STORM_TWICE, /* each contribution is sent twice */
    /* mismatched lengths, operations, kinds and numbers; senders that are not members */
    STORM_HOSTILE,
    STORM_KINDS
};

struct storm {
    struct bench bench;
    bool acknowledged;
    uint64_t random;
    uint32_t group;
    uint32_t members;
    uint32_t member[BENCH_NODES];
    enum storm_kind kind;
    uint32_t seq; /* first sequence number of the group */
};

static uint32_t storm_draw(struct storm *s, uint32_t below)
{
    return (uint32_t)(test_random(&s->random) % below);
}

static void storm_pass(struct storm *s, uint32_t passes)
{
    while (passes--)
        emu_worker_pass(s->bench.worker);
}

/* Sent if there is a credit; a member of a stuck group may never get one. */
static void storm_send(struct storm *s, uint32_t node, struct emu_hdr hdr)
{
    for (uint32_t pass = 0; pass < 20; pass++) {
        if (contribute(&s->bench, node, &hdr, node))
            return;
        storm_pass(s, 1);
    }
}

static struct emu_hdr storm_twist(struct storm *s, struct emu_hdr hdr)
{
    static const uint8_t kinds[] = {EMU_REDUCE, EMU_ALLREDUCE, EMU_MULTICAST};
    /* A node inside the fabric may multicast to any group at any time. */
    uint32_t any = s->acknowledged ? 2 : 3;

    switch (storm_draw(s, 6)) {
    case 0:
        hdr.len = hdr.len ? 8 : 0;
        break;
    case 1:
        hdr.op = EMU_MAX;
        break;
    case 2:
        hdr.seq += EMU_WINDOW * (1 + storm_draw(s, 3));
        break;
    case 3:
        hdr.seq -= EMU_WINDOW;
        break;
    case 4:
        hdr.kind = hdr.len ? kinds[storm_draw(s, any)] : EMU_BARRIER;
        break;
    case 5:
        hdr.type = EMU_I64;
        break;
    }
    return hdr;
}

/* One member's contribution to one operation, of the group's storm kind. */
static void storm_contribute(struct storm *s, uint32_t i, const struct emu_hdr *hdr)
{
    uint32_t node = s->member[i];

    if (s->kind == STORM_HOSTILE && storm_draw(s, 3) == 0) {
        storm_send(s, storm_draw(s, 2) ? node : storm_draw(s, s->bench.graph->nodes),
                   storm_twist(s, *hdr));
        return;
    }
    storm_send(s, node, *hdr);
    if (s->kind == STORM_TWICE) {
        storm_pass(s, storm_draw(s, 2) * 10);
        storm_send(s, node, *hdr);
    }
}

static void storm_operation(struct storm *s, uint32_t seq)
{
    static const uint8_t kinds[] = {EMU_REDUCE, EMU_ALLREDUCE, EMU_BARRIER};
    uint8_t kind = kinds[storm_draw(s, 3)];
    struct emu_hdr hdr = {.dst = s->group,
                          .seq = seq,
                          .kind = kind,
                          .op = EMU_SUM,
                          .type = EMU_F64,
                          .len = kind == EMU_BARRIER ? 0 : LEN};
    bool all = kind != EMU_REDUCE || s->kind == STORM_ALL;
    uint32_t root = storm_draw(s, s->members), first = storm_draw(s, s->members);

    for (uint32_t k = 0; k < s->members; k++) {
        uint32_t i = (first + k) % s->members;

        if (i != root || (all && s->kind != STORM_LATE))
            storm_contribute(s, i, &hdr);
        if (storm_draw(s, 4) == 0)
            storm_pass(s, storm_draw(s, 4));
    }
    if (s->kind == STORM_LATE) {
        storm_pass(s, storm_draw(s, 30));
        storm_send(s, s->member[root], hdr);
    }
}

static void storm_group(struct storm *s)
{
    uint32_t nodes = s->bench.graph->nodes;
    uint32_t ops = 1 + storm_draw(s, 3);

    s->members = 2 + storm_draw(s, nodes - 1);
    s->kind = (enum storm_kind)storm_draw(s, STORM_KINDS);
    s->seq = storm_draw(s, 4) ? storm_draw(s, 1000) : 0u - storm_draw(s, EMU_WINDOW);
    for (uint32_t n = 0; n < nodes; n++) /* the first elements of a shuffle */
        s->member[n] = n;
    for (uint32_t i = 0; i < s->members; i++) {
        uint32_t j = i + storm_draw(s, nodes - i), other = s->member[j];

        s->member[j] = s->member[i];
        s->member[i] = other;
    }
    s->group = fixture_group(s->bench.fabric, s->member, s->members);
    for (uint32_t op = 0; s->kind != STORM_NONE && op < ops; op++)
        storm_operation(s, s->seq + op);
    /* some groups are removed with contributions in flight */
    storm_pass(s, storm_draw(s, 3) ? 30 : storm_draw(s, 10));
    for (uint32_t i = 0; i < s->members; i++)
        fabric_group_leave(s->bench.fabric, s->group, s->member[i]);
    if (storm_draw(s, 4) == 0) /* also send contributions to a removed group */
        storm_operation(s, s->seq);
}

/* No state of any group is left: all buffers are in the pool. */
static void storm_run_and_check(struct storm *s, const char *set)
{
    struct bench *b = &s->bench;
    uint64_t out;

    for (uint32_t pass = 0; pass < 1000000 && fabric_bufs_out(b->fabric); pass++) {
        emu_worker_pass(b->worker);
        fabric_groups_sweep(b->fabric);
    }
    out = fabric_bufs_out(b->fabric);
    if (out)
        printf("\n    %s: %llu buffers did not come back\n    ", set, (unsigned long long)out);
    CU_ASSERT_TRUE(bufs_are_held(b, set));
    CU_ASSERT_EQUAL(out, 0);
    CU_ASSERT_PTR_NULL(b->fabric->retired);
}

static void storm(const char *profile, const char *spec, const char *set)
{
    struct storm s = {.random = test_seed()};
    bool held = true;

    bench_of(&s.bench, profile, spec, set);
    s.acknowledged = emu_profile_acknowledged(&s.bench.fabric->config.profile);
    for (uint32_t g = 0; held && g < storm_groups; g++) {
        storm_group(&s);
        held = g % 16 || bufs_are_held(&s.bench, set);
    }
    CU_ASSERT_TRUE(held);
    storm_run_and_check(&s, set);
    bench_close(&s.bench);
}

static void storm_units(const char *order)
{
    char set[64];

    for (uint32_t units = 1; units <= 5; units++) {
        snprintf(set, sizeof set, "combine_units=%u combine_order=%s", units, order);
        storm("oq2004", units & 1 ? "kary:4,2" : "kary:8,1", set);
    }
}

static void groups__return_every_buffer_by_arrival(void)
{
    storm_units("arrival");
}

static void groups__return_every_buffer_in_port_order(void)
{
    storm_units("port");
}

static void groups__return_every_buffer_with_input_buffers(void)
{
    storm("oq2004", "kary:4,2", "buffers=input_xpoint combine_units=3 combine_order=arrival");
    storm("oq2004", "kary:4,2", "buffers=input_xpoint combine_units=2 combine_order=port");
    storm("oq2004", "kary:4,2", "credit=counter combine_units=4 combine_order=port");
}

static void groups__return_every_buffer_with_acknowledgments(void)
{
    storm("qsnet3", "kary:4,2", "combine_order=arrival barrier=conditional");
    storm("qsnet3", "kary:4,2", "combine_order=port barrier=tree tree_width=2");
    storm("qsnet3", "kary:4,2", "combining=switch combine_order=arrival");
    storm("qsnet3", "kary:4,2", "combining=switch combine_order=port");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(late_contribution__does_not_write_to_a_reused_buffer),
        CASE(late_contribution__changes_nothing),
        CASE(partial_results__reach_the_root_when_all_else_is_quiet),
        CASE(partial_results__of_two_groups_do_not_fit_at_once),
        CASE(late_contribution__restarts_no_operation),
        CASE(check_bufs__finds_leaked_buffers),
        CASE(groups__return_every_buffer_by_arrival),
        CASE(groups__return_every_buffer_in_port_order),
        CASE(groups__return_every_buffer_with_input_buffers),
        CASE(groups__return_every_buffer_with_acknowledgments),
        {NULL, NULL},
    };

    storm_groups = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : TEST_ALONE(1000u);
    return test_run("contribution", cases);
}
