/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mcast_buf_test.c - what several processes at one switch get, and lies on their shelf once: each
 * gets all of it, in order and whole, whoever else reads or does not, comes or goes.
 *
 * Workers do not run but in one case: the test steps them.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emu/util/combine.h"
#include "tests/test.h"
#include "tests/fixtures/hostifs.h"

#define NODES  4u
#define LONG   EMU_PAYLOAD_BYTES         /* bytes that go onto the shelf, */
#define SHORT  (LONG - 1)                /* and that do not */
#define ROUNDS (3 * EMU_MCAST_BUF_SLOTS) /* segments with which it is written again and again */
#define AHEAD  (EMU_HOSTIF_SLOTS / 2)    /* a source is ahead of who reads by so much at most */

struct fixture {
    struct hostifs w;
    uint64_t random;
    uint32_t sent;       /* segments of the stream that the test's cases send */
    uint32_t got[NODES]; /* of it, by node */
    uint32_t wrong;      /* not the one that was next, or not what was sent */
};

static void fixture_open(struct fixture *r, uint32_t first)
{
    struct fabric_config config = {.threads = 1, .seed = 1, .start_stopped = true, .first = first};

    memset(r, 0, sizeof *r);
    r->random = test_seed();
    fixture_profile(&config.profile, "oq2004", NULL);
    hostifs_open(&r->w, "kary:4,1", &config);
    CU_ASSERT_EQUAL_FATAL(r->w.nodes, NODES);
}

static void fixture_close(struct fixture *r)
{
    CU_ASSERT_EQUAL(r->wrong, 0);
    CU_ASSERT_TRUE(fixture_fabric_holds(r->w.fabric, 0));
    hostifs_close(&r->w);
}

static uint32_t in_mcast_buf(const struct fixture *r)
{
    return r->w.fabric->mcast_buf[0]->next;
}

static void payload_fill(uint8_t *payload, uint32_t seq, uint32_t len)
{
    uint64_t random = seq;

    for (uint32_t i = 0; i < len; i++)
        payload[i] = (uint8_t)test_random(&random);
}

/* The next segment of the stream, from node 0 to @group. */
static void send_next(struct fixture *r, uint32_t group, uint32_t len)
{
    struct emu_hdr hdr = {.dst = group, .seq = r->sent, .kind = EMU_MULTICAST, .len = (uint8_t)len};
    uint8_t payload[EMU_PAYLOAD_BYTES];

    payload_fill(payload, r->sent, len);
    CU_ASSERT_TRUE_FATAL(hostifs_post(&r->w, 0, &hdr, payload));
    r->sent++;
}

/* What has come for @node, @most segments: each is the next of the stream. */
static uint32_t read_some(struct fixture *r, uint32_t node, uint32_t most)
{
    uint8_t payload[EMU_PAYLOAD_BYTES];
    struct emu_seg seg;
    uint32_t taken = 0;

    for (; taken < most && hostifs_take(&r->w, node, &seg); taken++, r->got[node]++) {
        payload_fill(payload, seg.hdr.seq, seg.hdr.len);
        r->wrong += seg.hdr.seq != r->got[node] || memcmp(seg.payload, payload, seg.hdr.len);
    }
    return taken;
}

static void settle(struct fixture *r)
{
    for (uint32_t pass = 0; pass < 1000; pass++)
        fixture_fabric_pass(r->w.fabric);
}

/* @count segments more to @group, of which nodes 1 to @readers read now and then. */
static void stream(struct fixture *r, uint32_t group, uint32_t readers, uint32_t count)
{
    uint32_t end = r->sent + count;

    while (r->sent != end) {
        for (uint32_t n = test_draw(&r->random, 1, 200); n && r->sent != end; n--)
            send_next(r, group, test_draw(&r->random, 0, 9) ? LONG : SHORT);
        fixture_fabric_pass(r->w.fabric);
        for (uint32_t n = 1; n <= readers; n++) {
            uint32_t behind = r->sent - r->got[n];

            if (!test_draw(&r->random, 0, 3) || behind > AHEAD)
                read_some(r, n, (uint32_t)test_draw(&r->random, 0, behind));
        }
        for (uint32_t n = 1; n <= readers; n++)
            while (r->sent - r->got[n] > AHEAD)
                if (!read_some(r, n, 100))
                    fixture_fabric_pass(r->w.fabric);
    }
    for (uint32_t pass = 0; pass < 1000; pass++) {
        fixture_fabric_pass(r->w.fabric);
        for (uint32_t n = 1; n <= readers; n++)
            read_some(r, n, UINT32_MAX);
    }
    for (uint32_t n = 1; n <= readers; n++)
        CU_ASSERT_EQUAL(r->got[n], r->sent);
}

static void stream__is_read_by_all_at_their_own_pace(void)
{
    static const uint32_t first[] = {0, UINT32_MAX - 20, EMU_MCAST_BUF_SLOTS - 3, UINT32_MAX / 2};

    for (uint32_t i = 0; i < sizeof first / sizeof *first; i++) {
        struct fixture r;
        uint32_t before;

        fixture_open(&r, first[i]);
        before = in_mcast_buf(&r);
        stream(&r, fixture_group_of_first(r.w.fabric, NODES), NODES - 1, ROUNDS);
        CU_ASSERT_TRUE(in_mcast_buf(&r) - before > ROUNDS / 2); /* most was long */
        CU_ASSERT_TRUE(in_mcast_buf(&r) - before < ROUNDS);
        fixture_close(&r);
    }
}

/* Node @n's part of the sums @from and on, @count of them. */
static void contribute(struct fixture *r, uint32_t group, uint32_t n, uint32_t from, uint32_t count)
{
    int64_t value[LONG / 8];

    for (uint32_t seq = from; seq < from + count; seq++) {
        struct emu_hdr hdr = {.dst = group,
                              .seq = seq,
                              .kind = EMU_ALLREDUCE,
                              .len = LONG,
                              .op = EMU_SUM,
                              .type = EMU_I64};

        for (uint32_t i = 0; i < LONG / 8; i++)
            value[i] = (int64_t)(seq * 100 + i + n);
        CU_ASSERT_TRUE_FATAL(hostifs_post(&r->w, n, &hdr, value));
    }
}

/* Node @n has these sums, and no others. */
static void has_sums(struct fixture *r, uint32_t n, uint32_t from, uint32_t count)
{
    int64_t value[LONG / 8];
    uint32_t wrong = 0;
    struct emu_seg seg;

    for (uint32_t seq = from; seq < from + count; seq++) {
        CU_ASSERT_TRUE_FATAL(hostifs_take(&r->w, n, &seg));
        memcpy(value, seg.payload, LONG);
        for (uint32_t i = 0; i < LONG / 8; i++)
            wrong += value[i] != (int64_t)(NODES * (seq * 100 + i) + NODES * (NODES - 1) / 2);
    }
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_FALSE(hostifs_take(&r->w, n, &seg));
}

/* Sums of all, which come out of the combine unit: they lie there once, too. */
static void results__lie_there_once(void)
{
    uint32_t group, before;
    struct fixture r;

    fixture_open(&r, 0);
    group = fixture_group_of_first(r.w.fabric, NODES);
    before = in_mcast_buf(&r);
    for (uint32_t n = 0; n < NODES; n++)
        contribute(&r, group, n, 0, EMU_WINDOW / 2);
    settle(&r);
    for (uint32_t n = 0; n < NODES; n++)
        has_sums(&r, n, 0, EMU_WINDOW / 2);
    CU_ASSERT_EQUAL(in_mcast_buf(&r) - before, EMU_WINDOW / 2);
    fixture_close(&r);
}

/*
 * A member ends when it has done its part, before the last one has: the others have the results,
 * and nobody looks for its edge. Where it was somebody else may be.
 */
static void results__are_not_for_who_is_gone(void)
{
    for (uint32_t heir = 0; heir < 2; heir++) {
        struct emu_seg seg;
        uint32_t group;
        struct fixture r;

        fixture_open(&r, 0);
        group = fixture_group_of_first(r.w.fabric, NODES);
        for (uint32_t n = 0; n < NODES; n++)
            contribute(&r, group, n, 0, 4);
        settle(&r);
        for (uint32_t n = 0; n < NODES; n++)
            has_sums(&r, n, 0, 4);
        for (uint32_t n = 0; n < NODES - 1; n++)
            contribute(&r, group, n, 4, 4);
        settle(&r);
        hostifs_detach(&r.w, 1);
        if (heir)
            hostifs_attach(&r.w, 1);
        contribute(&r, group, NODES - 1, 4, 4);
        settle(&r);
        has_sums(&r, 0, 4, 4);
        has_sums(&r, 2, 4, 4);
        has_sums(&r, 3, 4, 4);
        if (!heir)
            hostifs_attach(&r.w, 1);
        while (hostifs_take(&r.w, 1, &seg)) /* of its predecessor's it may have whole ones */
            CU_ASSERT_EQUAL(seg.hdr.dst, group);
        fixture_close(&r);
    }
}

/* The stream's first @count lie on the shelf for nodes 2 and 3; only 2 has read them. */
static void leave(struct fixture *r, uint32_t count)
{
    const uint32_t nodes[] = {0, 2, 3};
    uint32_t group = fixture_multicast(r->w.fabric, nodes, 3);

    for (uint32_t i = 0; i < count; i++)
        send_next(r, group, LONG);
    settle(r);
    read_some(r, 2, UINT32_MAX);
    CU_ASSERT_EQUAL_FATAL(r->got[2], count);
}

/*
 * One process leaves something unread on the shelf. The others' stream goes on, by copies once the
 * shelf is full; what it left is there, whole, when it reads; and then the shelf is used again.
 */
static void unread__stays_as_it_is(void)
{
    const uint32_t without[] = {0, 1, 2};
    uint32_t left = 100, full, before;
    struct fixture r;

    fixture_open(&r, 0);
    leave(&r, left);
    CU_ASSERT_EQUAL(in_mcast_buf(&r), left);

    r.got[1] = left;
    full = fixture_multicast(r.w.fabric, without, 3);
    stream(&r, full, 2, ROUNDS);
    CU_ASSERT_EQUAL(in_mcast_buf(&r), EMU_MCAST_BUF_SLOTS); /* what came then was copied */
    CU_ASSERT_EQUAL(read_some(&r, 3, UINT32_MAX), left);

    before = in_mcast_buf(&r);
    stream(&r, full, 2, ROUNDS);
    CU_ASSERT_TRUE(in_mcast_buf(&r) - before > ROUNDS / 2);
    fixture_close(&r);
}

/* Who goes leaves nothing behind that the shelf would wait for; its successor has nothing of it. */
static void detach__clears_what_was_unread(void)
{
    uint32_t group, before;
    struct emu_seg seg;
    struct fixture r;

    fixture_open(&r, 0);
    group = fixture_group_of_first(r.w.fabric, NODES);
    for (uint32_t i = 0; i < 100; i++)
        send_next(&r, group, LONG);
    settle(&r);
    hostifs_detach(&r.w, 3);
    hostifs_attach(&r.w, 3);
    CU_ASSERT_FALSE(hostifs_take(&r.w, 3, &seg));

    before = in_mcast_buf(&r);
    group = fixture_group_of_first(r.w.fabric, NODES);
    r.got[3] = r.sent;
    stream(&r, group, NODES - 1, ROUNDS);
    CU_ASSERT_TRUE(in_mcast_buf(&r) - before > ROUNDS / 2);
    fixture_close(&r);
}

/* A stream to nodes 1 and 2, who have got @got, long enough to fill a shelf again and again. */
static void others_stream(struct fixture *r, uint32_t got)
{
    const uint32_t without[] = {0, 1, 2};

    r->got[1] = r->got[2] = got;
    stream(r, fixture_multicast(r->w.fabric, without, 3), 2, ROUNDS);
}

/*
 * A process that was given up reads on, as it has not heard of it: it is waited for, while others
 * get copies, and what it had is as it was. When it has read that, the shelf is used again.
 */
static void given_up__reads_what_it_had(void)
{
    uint32_t left = 100, before;
    struct fixture r;

    fixture_open(&r, 0);
    leave(&r, left);
    CU_ASSERT_EQUAL(read_some(&r, 3, left / 2), left / 2);
    atomic_store(&r.w.fabric->hostif[3]->cut, 1); /* as fabric_tick() does */
    others_stream(&r, left);
    CU_ASSERT_EQUAL(in_mcast_buf(&r), EMU_MCAST_BUF_SLOTS);
    CU_ASSERT_EQUAL(read_some(&r, 3, UINT32_MAX), left / 2);
    CU_ASSERT_EQUAL(r.got[3], left);

    before = in_mcast_buf(&r);
    others_stream(&r, r.sent);
    CU_ASSERT_TRUE(in_mcast_buf(&r) - before > ROUNDS / 2);
    fixture_close(&r);
}

/*
 * A process that is gone without having asked may be there all the same: nothing is written over
 * what it had, whatever it has said to have read. Those who were there before get copies from then
 * on. Once none of them is left the old shelf is gone, and all who came meanwhile use the new one.
 */
static void gone__reads_what_it_had(void)
{
    uint32_t left = 100, group;
    struct emu_mcast_buf *old;
    struct fixture r;

    fixture_open(&r, 0);
    leave(&r, left);
    CU_ASSERT_EQUAL(read_some(&r, 3, left / 2), left / 2);
    old = r.w.fabric->mcast_buf[0];
    fabric_detach_dead(r.w.fabric, 3);
    CU_ASSERT_PTR_NULL(r.w.fabric->mcast_buf[0]);
    others_stream(&r, left);
    CU_ASSERT_EQUAL(old->next, EMU_MCAST_BLOCK_SLOTS); /* what was free before, and no more */
    CU_ASSERT_EQUAL(read_some(&r, 3, UINT32_MAX), left / 2);
    emu_hostif_nic_close(&r.w.nic[3]);

    hostifs_attach(&r.w, 3);
    CU_ASSERT_PTR_NOT_NULL_FATAL(r.w.fabric->mcast_buf[0]);
    CU_ASSERT_PTR_NOT_EQUAL(r.w.fabric->mcast_buf[0], old);
    group = fixture_group_of_first(r.w.fabric, NODES);
    r.got[3] = r.sent;
    stream(&r, group, NODES - 1, ROUNDS);
    CU_ASSERT_EQUAL(in_mcast_buf(&r), 0); /* they have not all the same */
    CU_ASSERT_EQUAL(old->users, 3);
    for (uint32_t n = 0; n < 3; n++) {
        hostifs_detach(&r.w, n);
        hostifs_attach(&r.w, n);
    }
    CU_ASSERT_EQUAL(r.w.fabric->mcast_buf[0]->users, 1 + NODES);
    group = fixture_group_of_first(r.w.fabric, NODES);
    r.got[1] = r.got[2] = r.got[3] = r.sent;
    stream(&r, group, NODES - 1, ROUNDS);
    CU_ASSERT_TRUE(in_mcast_buf(&r) > ROUNDS / 2);
    fixture_close(&r);
}

/* The worker is at a part's end when a process goes that has read nothing of the next one. */
static void gone__while_a_part_is_wanted(void)
{
    const uint32_t without[] = {0, 1, 2};
    uint32_t group;
    struct fixture r;

    fixture_open(&r, 0);
    leave(&r, 1); /* in part 0, for node 3 */
    r.got[1] = 1;
    group = fixture_multicast(r.w.fabric, without, 3);
    while (in_mcast_buf(&r) != EMU_MCAST_BUF_SLOTS) {
        send_next(&r, group, LONG);
        fixture_fabric_pass(r.w.fabric);
        read_some(&r, 1, UINT32_MAX);
        read_some(&r, 2, UINT32_MAX);
    }
    fabric_detach_dead(r.w.fabric, 3);
    stream(&r, group, 2, ROUNDS);
    CU_ASSERT_EQUAL(read_some(&r, 3, UINT32_MAX), 1);
    emu_hostif_nic_close(&r.w.nic[3]);
    fixture_close(&r);
}

/* Who leaves in good order has stopped reading before it asked. */
static void leaver__peeks_at_nothing_there(void)
{
    struct emu_seg seg;
    struct fixture r;

    fixture_open(&r, 0);
    leave(&r, 100);
    CU_ASSERT_EQUAL(read_some(&r, 3, 50), 50);
    emu_hostif_nic_leave(&r.w.nic[3]);
    CU_ASSERT_FALSE(hostifs_take(&r.w, 3, &seg));
    CU_ASSERT_EQUAL(r.w.nic[3].shared->down_head, r.w.nic[3].shared->down_tail); /* all dropped */
    hostifs_detach(&r.w, 3);
    others_stream(&r, 100);
    CU_ASSERT_TRUE(in_mcast_buf(&r) > 2 * EMU_MCAST_BUF_SLOTS); /* nobody waited for it */
    fixture_close(&r);
}

/* Where one of them has no shelf, for want of memory when it came, all get copies. */
static void without_a_mcast_buf__it_is_a_copy(void)
{
    uint32_t group, before;
    struct fixture r;

    fixture_open(&r, 0);
    group = fixture_group_of_first(r.w.fabric, NODES);
    before = in_mcast_buf(&r);
    emu_mcast_buf_drop(r.w.fabric->hostif[3]->mcast_buf);
    r.w.fabric->hostif[3]->mcast_buf = NULL;
    stream(&r, group, NODES - 1, EMU_MCAST_BLOCK_SLOTS);
    CU_ASSERT_EQUAL(in_mcast_buf(&r), before);
    fixture_close(&r);
}

/* A process that says to have read what cannot be harms itself alone. */
static void liar__harms_nobody_else(void)
{
    const uint32_t with[] = {0, 3, 2}, without[] = {0, 1, 2};
    uint32_t both, honest;
    struct fixture r;

    fixture_open(&r, 0);
    both = fixture_multicast(r.w.fabric, with, 3);
    honest = fixture_multicast(r.w.fabric, without, 3);
    for (uint32_t round = 0; round < 64; round++) {
        struct emu_hostif_shared *liar = r.w.nic[3].shared;

        atomic_store_explicit(&liar->down_head, (uint32_t)test_random(&r.random),
                              memory_order_release);
        for (uint32_t i = 0; i < EMU_HOSTIF_SLOTS; i++)
            liar->down_on[i] = (uint32_t)test_random(&r.random);
        for (uint32_t i = 0; i < EMU_HOSTIF_SLOTS / 128; i++, r.got[1]++)
            send_next(&r, both, LONG);
        settle(&r);
        stream(&r, honest, 2, EMU_MCAST_BLOCK_SLOTS / 2);
    }
    CU_ASSERT_TRUE(in_mcast_buf(&r) >= EMU_MCAST_BUF_SLOTS);
    fixture_close(&r);
}

/* A process may read what lies there, and that is all. */
static void process__cannot_write_there(void)
{
    struct fabric_attachment incarnation;
    struct fixture r;
    void *at;

    fixture_open(&r, 0);
    hostifs_detach(&r.w, 2);
    CU_ASSERT_EQUAL_FATAL(fabric_attach(r.w.fabric, 2, &incarnation), 0);
    CU_ASSERT_TRUE_FATAL(incarnation.fds.mcast_buf >= 0);
    at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, incarnation.fds.mcast_buf, 0);
    CU_ASSERT_TRUE(at == MAP_FAILED && errno == EPERM);
    CU_ASSERT_TRUE(pwrite(incarnation.fds.mcast_buf, "x", 1, 0) < 0 && errno == EPERM);
    CU_ASSERT_TRUE(ftruncate(incarnation.fds.mcast_buf, 0) < 0 && errno == EPERM);
    at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, incarnation.fds.mcast_buf, 0);
    CU_ASSERT_TRUE_FATAL(at != MAP_FAILED);
    CU_ASSERT_TRUE(mprotect(at, 4096, PROT_READ | PROT_WRITE) < 0 && errno == EACCES);
    munmap(at, 4096);
    fabric_attachment_close(&incarnation);
    fixture_close(&r);
}

/* Beside a worker, a stream from node 0 to all others. Returns the shelves that were made. */
static uint32_t threads_stream(const char *topo, uint32_t threads, uint32_t count)
{
    struct fabric_config config = {.threads = threads,
                                   .seed = test_seed(),
                                   .first = UINT32_MAX - 20};
    uint32_t group, sent = 0, wrong = 0, got[HOSTIFS_MAX] = {0}, mcast_bufs = 0, left;
    struct hostifs w;

    fixture_profile(&config.profile, "oq2004", NULL);
    hostifs_open(&w, topo, &config);
    group = fixture_group_of_first(w.fabric, w.nodes);
    left = count * (w.nodes - 1);
    for (uint32_t idle = 0; left && idle < HOSTIFS_GIVE_UP; idle++) {
        struct emu_hdr hdr = {.dst = group, .seq = sent, .kind = EMU_MULTICAST, .len = LONG};
        uint8_t payload[EMU_PAYLOAD_BYTES];
        struct emu_seg seg;

        payload_fill(payload, sent, LONG);
        sent += sent < count && hostifs_post(&w, 0, &hdr, payload);
        for (uint32_t n = 1; n < w.nodes; n++) {
            if (!hostifs_take(&w, n, &seg))
                continue;
            payload_fill(payload, got[n], LONG);
            wrong += seg.hdr.seq != got[n]++ || memcmp(seg.payload, payload, LONG);
            left--;
            idle = 0;
        }
        if (idle)
            hostifs_pause(idle);
    }
    for (uint32_t s = 0; s < w.graph->switches; s++)
        mcast_bufs += w.fabric->mcast_buf[s] != NULL;
    for (uint32_t n = 1; n < w.nodes; n++)
        CU_ASSERT_EQUAL(got[n], count);
    CU_ASSERT_EQUAL(wrong, 0);
    hostifs_close(&w);
    return mcast_bufs;
}

static void threads__write_over_what_was_read(void)
{
    CU_ASSERT_EQUAL(threads_stream("kary:4,1", 1, 2 * EMU_MCAST_BUF_SLOTS), 1);
}

/* What comes by a cable lies on the shelves of the switches below, too: where processes are. */
static void threads__read_what_came_by_cables(void)
{
    CU_ASSERT_EQUAL(threads_stream("kary:4,2", 2, TEST_TRIALS(2000)), 4);
}

/* Both groups' segments have the numbers of one stream. False: @node has nothing new. */
static bool take_next(struct hostifs *w, uint32_t node, uint32_t *got, uint32_t *wrong)
{
    uint8_t payload[EMU_PAYLOAD_BYTES];
    struct emu_seg seg;

    if (!hostifs_take(w, node, &seg))
        return false;
    payload_fill(payload, *got, LONG);
    *wrong += seg.hdr.seq != (*got)++ || memcmp(seg.payload, payload, LONG);
    return true;
}

/*
 * Beside a worker, a process goes without having asked after @after segments, and reads on while
 * the others' stream would fill the shelf again and again.
 */
static uint32_t threads_gone(uint32_t first, uint32_t after)
{
    struct fabric_config config = {.threads = 1, .seed = test_seed(), .first = first};
    const uint32_t nodes[] = {0, 1, 2};
    uint32_t count = after + 2 * EMU_MCAST_BUF_SLOTS, sent = 0, wrong = 0, got[NODES] = {0}, all,
             some;
    struct hostifs w;

    fixture_profile(&config.profile, "oq2004", NULL);
    hostifs_open(&w, "kary:4,1", &config);
    all = fixture_group_of_first(w.fabric, NODES);
    some = fixture_multicast(w.fabric, nodes, 3);
    for (uint32_t idle = 0; (got[1] < count || got[2] < count) && idle < HOSTIFS_GIVE_UP; idle++) {
        struct emu_hdr hdr = {.seq = sent, .kind = EMU_MULTICAST, .len = LONG};
        uint8_t payload[EMU_PAYLOAD_BYTES];

        hdr.dst = sent < after ? all : some;
        payload_fill(payload, sent, LONG);
        if (sent == after && w.fabric->hostif[3] && got[1] == after && got[2] == after)
            fabric_detach_dead(w.fabric, 3);
        if (sent < after || (sent < count && !w.fabric->hostif[3]))
            sent += hostifs_post(&w, 0, &hdr, payload);
        if (take_next(&w, 1, &got[1], &wrong) | take_next(&w, 2, &got[2], &wrong))
            idle = 0;
        else
            hostifs_pause(idle);
        if (sent > after && sent % 8 == 0)
            take_next(&w, 3, &got[3], &wrong);
    }
    while (take_next(&w, 3, &got[3], &wrong))
        ;
    for (uint32_t n = 1; n < NODES; n++)
        CU_ASSERT_EQUAL(got[n], n == 3 ? after : count);
    hostifs_close(&w);
    return wrong;
}

static void threads__gone_reads_what_it_had(void)
{
    uint64_t random = test_seed();

    for (uint32_t incarnation = 0; incarnation < 6; incarnation++)
        CU_ASSERT_EQUAL(threads_gone((uint32_t)test_draw(&random, 0, EMU_MCAST_BUF_SLOTS),
                                     (uint32_t)test_draw(&random, 1, EMU_HOSTIF_SLOTS)),
                        0);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE_ALONE(stream__is_read_by_all_at_their_own_pace),
        CASE(results__lie_there_once),
        CASE(results__are_not_for_who_is_gone),
        CASE(unread__stays_as_it_is),
        CASE(detach__clears_what_was_unread),
        CASE(given_up__reads_what_it_had),
        CASE_ALONE(gone__reads_what_it_had),
        CASE(gone__while_a_part_is_wanted),
        CASE(leaver__peeks_at_nothing_there),
        CASE(without_a_mcast_buf__it_is_a_copy),
        CASE(liar__harms_nobody_else),
        CASE(process__cannot_write_there),
        CASE(threads__write_over_what_was_read),
        CASE(threads__read_what_came_by_cables),
        CASE(threads__gone_reads_what_it_had),
        {NULL, NULL},
    };

    return test_run("shelf", cases);
}
