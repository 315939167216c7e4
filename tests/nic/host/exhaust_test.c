/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exhaust_test.c - every bounded resource of adapters and switches, used up to its limit.
 *
 * A well-behaved process that wants more continues, or gets the error that fabemu.h documents. One
 * that writes garbage, never reads, or takes all it can get harms nobody else: the other processes
 * keep working, and so does the next process on its node. Resources with queues are tested in
 * nic_fabric_test.c.
 */
#include <errno.h>
#include <string.h>

#include "emu/util/combine.h"
#include "nic/engine/internal.h"
#include "tests/test.h"
#include "tests/fixtures/hostifs.h"
#include "tests/fixtures/host/cluster.h"

/* --- a hostile process -------------------------------------------------------------- */

#define EVIL_GROUPS   3u
#define HOSTILE_BURST 16u   /* segments per round */
#define TICK          2000u /* rounds: about a second, for a process that does not read */

enum { EVIL_DEAF = 1, EVIL_INDEXES = 2, EVIL_TESTS = 4, EVIL_MODES = 8 };

struct hostile {
    struct emu_hostif_nic nic;
    uint32_t node;
    unsigned mode;
    uint64_t random;
    uint64_t posted;
    uint64_t rounds;
    uint32_t group[EVIL_GROUPS];
};

static struct hostile hostile; /* one per program: the callback has no argument for it */

static uint64_t evil_random(void)
{
    return test_random(&hostile.random);
}

/* Any header that the host interface may accept, and sometimes one that it may not. */
static void hostile_header(struct emu_hdr *hdr)
{
    static const uint8_t kinds[] = {EMU_UNICAST,   EMU_UNICAST | EMU_NOTIFY,
                                    EMU_MULTICAST, EMU_MULTICAST | EMU_NOTIFY,
                                    EMU_REDUCE,    EMU_ALLREDUCE,
                                    EMU_BARRIER,   EMU_SET,
                                    EMU_TEST,      EMU_TEST};
    uint64_t number = evil_random();
    bool to_group;

    hdr->kind = number % 50 ? kinds[number / 64 % 10] : (uint8_t)(number >> 8);
    if (hostile.mode & EVIL_TESTS)
        hdr->kind = EMU_TEST;
    to_group = (hdr->kind & ~EMU_NOTIFY) != EMU_UNICAST;
    hdr->dst = to_group ? hostile.group[number / 1024 % EVIL_GROUPS] : (uint32_t)(number >> 12) % 4;
    number = evil_random();
    if (number % 64 == 0)
        hdr->dst = (uint32_t)(number >> 32);
    hdr->src = (uint32_t)(number >> 16);
    hdr->seq = number / 64 % 4 ? (uint32_t)(number >> 20) % 512 : (uint32_t)evil_random();
    number = evil_random();
    hdr->op = (uint8_t)(number % 12);
    hdr->type = (uint8_t)(number / 16 % 18);
    hdr->len = (uint8_t)(number / 512 % 31 * 8);
    if ((hdr->kind == EMU_SET || hdr->kind == EMU_TEST) && number % 16)
        hdr->len = sizeof(struct emu_word);
    if (hdr->kind == EMU_BARRIER && number % 16)
        hdr->len = 0;
}

static void evil_payload(const struct emu_hdr *hdr, uint8_t *payload)
{
    uint64_t number = evil_random();
    struct emu_word word = {.value = 1 + number % 4,
                            .word = (uint32_t)(number >> 8) % 18,
                            .test = (uint8_t)(number >> 16) % 3,
                            .until = number >> 20 & 1};

    for (uint32_t i = 0; i + 8 <= EMU_PAYLOAD_BYTES; i += 8)
        memcpy(payload + i, &(uint64_t){evil_random()}, 8);
    if (hdr->kind == EMU_SET || hdr->kind == EMU_TEST)
        memcpy(payload, &word, sizeof word);
    else if (number % 2) /* the first bytes of the library's segments */
        payload[0] = (uint8_t)(1 + number / 2 % NIC_DISCONNECT);
}

static void evil_post(void)
{
    for (uint32_t i = 0; i < HOSTILE_BURST; i++) {
        struct emu_seg *seg = emu_hostif_nic_claim(&hostile.nic, 0);

        if (!seg)
            break;
        hostile_header(&seg->hdr);
        evil_payload(&seg->hdr, seg->payload);
        hostile.posted++;
    }
    emu_hostif_nic_publish(&hostile.nic);
}

static void evil_scribble(void)
{
    struct emu_hostif_shared *shared = hostile.nic.shared;

    atomic_store(&shared->up_tail, (uint32_t)evil_random());
    atomic_store(&shared->down_head, (uint32_t)evil_random());
    atomic_store(&shared->up_head, (uint32_t)evil_random());
    atomic_store(&shared->bell_wanted, (uint32_t)evil_random());
    atomic_store(&shared->asleep, (uint32_t)evil_random() % 2);
}

static void evil_round(struct cluster *w)
{
    uint32_t cut[CLUSTER_NODES];

    if (++hostile.rounds % TICK == 0)
        fabric_tick(w->fabric, cut, CLUSTER_NODES);
    evil_post();
    while (!(hostile.mode & EVIL_DEAF) && emu_hostif_nic_peek(&hostile.nic, 0))
        emu_hostif_nic_pop(&hostile.nic);
    emu_hostif_nic_consumed(&hostile.nic);
    if ((hostile.mode & EVIL_INDEXES) && evil_random() % 256 == 0) {
        evil_scribble();
        fixture_fabric_pass(w->fabric);
        hostile.nic.up_published--; /* then the valid values again */
        emu_hostif_nic_publish(&hostile.nic);
        atomic_store(&hostile.nic.shared->down_head, hostile.nic.down_head);
    }
}

/* Creates groups with each well-behaved node, which never joins them. */
static void hostile_open(struct cluster *w, unsigned mode)
{
    memset(&hostile, 0, sizeof hostile);
    hostile.node = w->nodes;
    hostile.mode = mode;
    hostile.random = test_seed() + mode;
    hostifs_attach_at(w->fabric, hostile.node, &hostile.nic);
    for (uint32_t g = 0; g < EVIL_GROUPS; g++) {
        const uint32_t nodes[] = {g % w->nodes, hostile.node};

        hostile.group[g] = fixture_group(w->fabric, nodes, 2);
    }
    w->also = evil_round;
    w->bad_company = true;
}

static void evil_close(struct cluster *w)
{
    w->also = NULL;
    emu_hostif_nic_close(&hostile.nic);
    fabric_detach(w->fabric, hostile.node);
    for (uint32_t g = 0; g < EVIL_GROUPS; g++)
        CU_ASSERT_EQUAL(fabric_group_leave(w->fabric, hostile.group[g], g % w->nodes), 0);
}

static const char *engines_wrong(const struct cluster *w)
{
    const char *wrong = NULL;

    for (uint32_t n = 0; n < w->graph->nodes && fabric_engine(w->fabric, n) && !wrong; n++)
        wrong = engine_check(fabric_engine(w->fabric, n));
    return wrong;
}

/*
 * The other processes do everything they can, and then so does the next process on the hostile
 * node.
 */
static void others_beside_hostile(const struct cluster_config *set, unsigned mode)
{
    bool acknowledged;
    struct cluster w;

    cluster_open(&w, set);
    acknowledged = fabric_engine(w.fabric, 0);
    hostile_open(&w, mode);
    cluster_messages(&w);
    cluster_memory(&w);
    if (acknowledged)
        cluster_broadcasts(&w);
    cluster_collectives(&w);
    CU_ASSERT_TRUE(hostile.posted > 1000);
    if (acknowledged && mode == EVIL_TESTS)
        /* it holds every resource that it can get */
        CU_ASSERT_PTR_NULL(fabric_engine(w.fabric, hostile.node)->queries.free.first);
    CU_ASSERT_PTR_NULL(engines_wrong(&w));
    evil_close(&w);
    cluster_attach(&w, w.nodes);
    CU_ASSERT_EQUAL_FATAL(fabemu_group_join(w.fab[w.nodes], w.id, w.nodes, &w.group[w.nodes]), 0);
    w.nodes++;
    cluster_messages(&w);
    CU_ASSERT_PTR_NULL(engines_wrong(&w));
    cluster_close(&w);
}

static void hostile__harms_nobody_else(void)
{
    static const struct cluster_config sets[] = {
        {.topo = "kary:2,2", .members = 3},
        {.topo = "kary:2,2", .members = 3, .set = "barrier=tree"},
        {.topo = "kary:2,2", .members = 3, .set = "channels=2"},
        {.topo = "qsnet:4,links=2", .members = 3, .set = "combine_order=port"},
        {.topo = "kary:2,2", .members = 3, .profile = "oq2004"},
    };

    test_each_setting (s, sizeof sets / sizeof sets[0])
        for (unsigned mode = 0; mode < EVIL_MODES; mode++)
            others_beside_hostile(&sets[s], mode);
}

/* --- well-behaved processes at the limits ------------------------------------------- */

/* One channel and one slot: all-to-all messages, and broadcasts of several segments. */
static void channels__one_carries_everything(void)
{
    static const struct cluster_config sets[] = {
        {.topo = "kary:4,1", .set = "channels=1"},
        {.topo = "kary:2,2", .set = "pool_slots=1"},
        {.topo = "kary:2,2", .set = "retry_limit=1000", .bad = 3000},
    };
    struct cluster w;

    for (uint32_t s = 0; s < sizeof sets / sizeof sets[0]; s++) {
        cluster_open(&w, &sets[s]);
        cluster_messages(&w);
        cluster_memory(&w);
        cluster_broadcasts(&w);
        cluster_collectives(&w);
        CU_ASSERT_PTR_NULL(engines_wrong(&w));
        cluster_close(&w);
    }
}

/*
 * All groups that can combine are in use, or all buffers for partial results. When one group is
 * left, another one can be created.
 */
static void groups__exhausted_return_an_error(void)
{
    static const char *const profiles[] = {"qsnet3", "oq2004"};
    static uint32_t ids[FABRIC_COMBINING_MAX + 1];
    const uint32_t nodes[] = {0, 1};
    char error[256];

    for (uint32_t p = 0; p < 2; p++) {
        uint32_t made = 0, again;
        struct cluster w;

        cluster_open(&w, &(struct cluster_config){.topo = "kary:2,1", .profile = profiles[p]});
        while (made <= FABRIC_COMBINING_MAX &&
               !fabric_group_create(w.fabric, nodes, 2, &ids[made], error, sizeof error))
            made++;
        CU_ASSERT_TRUE(made > 0 && made <= FABRIC_COMBINING_MAX);
        CU_ASSERT_EQUAL(fabric_group_create(w.fabric, nodes, 2, &again, error, sizeof error),
                        -ENOSPC);
        cluster_collectives(&w); /* an existing group continues */
        for (uint32_t n = 0; n < 2; n++)
            CU_ASSERT_EQUAL(fabric_group_leave(w.fabric, ids[made / 2], n), 0);
        CU_ASSERT_EQUAL(fabric_group_create(w.fabric, nodes, 2, &ids[made / 2], error,
                                            sizeof error),
                        0);
        CU_ASSERT_EQUAL(fabric_group_create(w.fabric, nodes, 2, &again, error, sizeof error),
                        -ENOSPC);
        cluster_close(&w);
    }
}

/*
 * Groups with wide windows are refused where they would take more than half of the buffers; narrow
 * ones are not.
 */
static void groups__wide_leave_half_of_the_buffers(void)
{
    static uint32_t wide[FABRIC_COMBINING_MAX];
    const uint32_t nodes[] = {0, 1, 2, 3};
    uint32_t made = 0, narrow;
    char error[256];
    struct cluster w;

    cluster_open(&w, &(struct cluster_config){.topo = "kary:4,1"});
    while (made < FABRIC_COMBINING_MAX &&
           !fabric_group_create_wide(w.fabric, nodes, 4, &wide[made], error, sizeof error))
        made++;
    CU_ASSERT_TRUE(made > 1 && made < FABRIC_COMBINING_MAX);
    CU_ASSERT_PTR_NOT_NULL(strstr(error, "wide window"));
    CU_ASSERT_TRUE(w.fabric->spare_bufs >= FABRIC_GROUP_BUFS / 2);
    CU_ASSERT_TRUE(w.fabric->spare_bufs < FABRIC_GROUP_BUFS / 2 + 4 * engine_group_bufs(wide[0]));
    CU_ASSERT_EQUAL(fabric_group_create(w.fabric, nodes, 4, &narrow, error, sizeof error), 0);
    for (uint32_t n = 0; n < 4; n++)
        CU_ASSERT_EQUAL(fabric_group_leave(w.fabric, wide[0], n), 0);
    CU_ASSERT_EQUAL(fabric_group_leave(w.fabric, narrow, 0), 0);
    cluster_close(&w);
}

/* Use up all operation ids of @fab. Returns the list of free ids (slot_free) before. */
static uint32_t ids_exhaust(struct fabemu *fab)
{
    uint32_t free = fab->slot_free;

    fab->slots = realloc(fab->slots, NIC_OPS_MAX * sizeof *fab->slots);
    CU_ASSERT_PTR_NOT_NULL_FATAL(fab->slots);
    memset(fab->slots + fab->slot_count, 0, (NIC_OPS_MAX - fab->slot_count) * sizeof *fab->slots);
    fab->slot_count = NIC_OPS_MAX;
    fab->slot_free = 0;
    return free;
}

/* All operation ids are in use: the next operation gets the error, and works once an id is free. */
static void ids__exhausted_return_an_error(void)
{
    struct fabemu_req req[2] = {{0}};
    struct cluster w;
    struct fabemu *fab;
    uint32_t free;

    cluster_open(&w, &(struct cluster_config){.topo = "kary:2,1"});
    cluster_collectives(&w);
    fab = w.fab[0];
    fabemu_group_test(w.group[0], 0, 1, FABEMU_TEST_REACHED | FABEMU_TEST_UNTIL, &req[0]);
    free = ids_exhaust(fab);
    CU_ASSERT_EQUAL(fabemu_group_test(w.group[0], 0, 1, FABEMU_TEST_REACHED, &req[1]), -ENOBUFS);
    for (uint32_t n = 0; n < w.nodes; n++)
        fabemu_group_set(w.group[n], 0, 1, NULL);
    CU_ASSERT_TRUE_FATAL(cluster_finish(&w, req, 1) && req[0].status == 0);
    memset(&req[1], 0, sizeof req[1]);
    CU_ASSERT_EQUAL(fabemu_group_test(w.group[0], 0, 1, FABEMU_TEST_REACHED, &req[1]), 0);
    CU_ASSERT_TRUE_FATAL(cluster_finish(&w, &req[1], 1) && req[1].status == 0);
    fab->slots[fab->slot_free].next_free = free;
    cluster_close(&w);
}

/* A receiver without a free id: both processes get the error, and later messages arrive. */
static void ids__exhausted_fail_a_long_message(void)
{
    static uint8_t out[CLUSTER_BYTES], in[CLUSTER_BYTES];
    const struct fabemu_iov from = {out, sizeof out}, to = {in, sizeof in};
    const struct fabemu_dest dest = {.node = 1, .queue = 1, .tag = 9};
    struct fabemu_req req[2] = {{0}};
    struct cluster w;
    uint32_t free;

    cluster_open(&w, &(struct cluster_config){.topo = "kary:2,1"});
    cluster_messages(&w);
    free = ids_exhaust(w.fab[1]);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(fabemu_recv(w.queue[1], 0, 9, 0, &to, 1, &req[0]), 0);
        CU_ASSERT_EQUAL(fabemu_send(w.queue[0], &dest, &from, 1, &req[1]), 0);
        CU_ASSERT_TRUE_FATAL(cluster_finish(&w, req, 2));
        CU_ASSERT_EQUAL(req[0].status, i ? 0 : -ENOBUFS);
        CU_ASSERT_EQUAL(req[1].status, i ? 0 : -ENOBUFS);
        w.fab[1]->slot_free = free;
    }
    cluster_close(&w);
}

int main(void)
{
    static const struct test_case cases[] = {
        {"hostile__harms_nobody_else", hostile__harms_nobody_else},
        {"channels__one_carries_everything", channels__one_carries_everything},
        {"groups__exhausted_return_an_error", groups__exhausted_return_an_error},
        {"groups__wide_leave_half_of_the_buffers", groups__wide_leave_half_of_the_buffers},
        {"ids__exhausted_return_an_error", ids__exhausted_return_an_error},
        {"ids__exhausted_fail_a_long_message", ids__exhausted_fail_a_long_message},
        {NULL, NULL},
    };

    return test_run("exhaust", cases);
}
