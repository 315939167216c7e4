/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mcast_buf_test.c - segments for several processes at one switch are stored once in a shared
 * multicast buffer: each process reads all of them, in order and whole, whatever other processes
 * do.
 *
 * Workers do not run except in one case: the test steps them.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emu/util/combine.h"
#include "tests/test.h"
#include "tests/fixtures/hostifs.h"

#define NODES  4u
#define LONG   EMU_PAYLOAD_BYTES /* bytes of a segment that is stored in the multicast buffer, */
#define SHORT  (LONG - 1)        /* and of one that is not */
#define ROUNDS (3 * EMU_MCAST_BUF_SLOTS) /* segments that overwrite it several times */
#define AHEAD  (EMU_HOSTIF_SLOTS / 2)    /* a source runs ahead of a reader by at most this */

struct fixture {
    struct hostifs w;
    uint64_t random;
    uint32_t sent;       /* segments of the stream so far */
    uint32_t got[NODES]; /* received of it, by node */
    uint32_t wrong;      /* out of order, or with wrong bytes */
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

/* Send the next segment of the stream from node 0 to @group. */
static void send_next(struct fixture *r, uint32_t group, uint32_t len)
{
    struct emu_hdr hdr = {.dst = group, .seq = r->sent, .kind = EMU_MULTICAST, .len = (uint8_t)len};
    uint8_t payload[EMU_PAYLOAD_BYTES];

    payload_fill(payload, r->sent, len);
    CU_ASSERT_TRUE_FATAL(hostifs_post(&r->w, 0, &hdr, payload));
    r->sent++;
}

/* Receive up to @most segments at @node: each must be the next of the stream. */
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

/* Send @count more segments to @group, while nodes 1 to @readers read now and then. */
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

static void stream__is_read_by_each_at_its_own_pace(void)
{
    static const uint32_t first[] = {0, UINT32_MAX - 20, EMU_MCAST_BUF_SLOTS - 3, UINT32_MAX / 2};

    for (uint32_t i = 0; i < sizeof first / sizeof *first; i++) {
        struct fixture r;
        uint32_t before;

        fixture_open(&r, first[i]);
        before = in_mcast_buf(&r);
        stream(&r, fixture_group_of_first(r.w.fabric, NODES), NODES - 1, ROUNDS);
        CU_ASSERT_TRUE(in_mcast_buf(&r) - before > ROUNDS / 2); /* most segments were long */
        CU_ASSERT_TRUE(in_mcast_buf(&r) - before < ROUNDS);
        fixture_close(&r);
    }
}

/* Node @n's contributions to @count sums from @from on. */
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

/* Check that node @n has exactly these sums. */
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

/* Results of all-reduces, which leave the combine unit, are stored once as well. */
static void results__are_stored_once(void)
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
 * A member leaves after its contribution, before the last one is made: the others get the results,
 * and the absent process's interface is not used. Another process may be attached there.
 */
static void results__skip_detached_members(void)
{
    for (uint32_t successor = 0; successor < 2; successor++) {
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
        if (successor)
            hostifs_attach(&r.w, 1);
        contribute(&r, group, NODES - 1, 4, 4);
        settle(&r);
        has_sums(&r, 0, 4, 4);
        has_sums(&r, 2, 4, 4);
        has_sums(&r, 3, 4, 4);
        if (!successor)
            hostifs_attach(&r.w, 1);
        while (hostifs_take(&r.w, 1, &seg)) /* complete results of its predecessor are possible */
            CU_ASSERT_EQUAL(seg.hdr.dst, group);
        fixture_close(&r);
    }
}

/* Store the stream's first @count segments for nodes 2 and 3; only 2 reads them. */
static void store_unread(struct fixture *r, uint32_t count)
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
 * One process does not read its segments. The others' stream continues, by copies once the buffer
 * is full; the unread segments are intact when it reads them, and then the buffer is used again.
 */
static void unread__stays_intact(void)
{
    const uint32_t without[] = {0, 1, 2};
    uint32_t left = 100, full, before;
    struct fixture r;

    fixture_open(&r, 0);
    store_unread(&r, left);
    CU_ASSERT_EQUAL(in_mcast_buf(&r), left);

    r.got[1] = left;
    full = fixture_multicast(r.w.fabric, without, 3);
    stream(&r, full, 2, ROUNDS);
    CU_ASSERT_EQUAL(in_mcast_buf(&r), EMU_MCAST_BUF_SLOTS); /* later segments were copied */
    CU_ASSERT_EQUAL(read_some(&r, 3, UINT32_MAX), left);

    before = in_mcast_buf(&r);
    stream(&r, full, 2, ROUNDS);
    CU_ASSERT_TRUE(in_mcast_buf(&r) - before > ROUNDS / 2);
    fixture_close(&r);
}

/*
 * After a process has detached, the buffer does not wait for it, and its successor gets none of its
 * segments.
 */
static void detach__releases_unread_segments(void)
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

/*
 * A stream to nodes 1 and 2, which have received @got, long enough to fill the buffer several
 * times.
 */
static void others_stream(struct fixture *r, uint32_t got)
{
    const uint32_t without[] = {0, 1, 2};

    r->got[1] = r->got[2] = got;
    stream(r, fixture_multicast(r->w.fabric, without, 3), 2, ROUNDS);
}

/*
 * A process that was cut off still reads, since it does not know. Its segments stay intact, and the
 * others get copies. When it has read them the buffer is used again.
 */
static void cut_off__reads_its_segments(void)
{
    uint32_t left = 100, before;
    struct fixture r;

    fixture_open(&r, 0);
    store_unread(&r, left);
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
 * A process that disappeared without detaching may still be alive, so its unread segments are never
 * overwritten, whatever it claims to have read. Processes that were attached before it disappeared
 * get copies from then on. When all of these have detached, the old buffer is freed; later
 * processes use a new one.
 */
static void disappeared__reads_its_segments(void)
{
    uint32_t left = 100, group;
    struct emu_mcast_buf *old;
    struct fixture r;

    fixture_open(&r, 0);
    store_unread(&r, left);
    CU_ASSERT_EQUAL(read_some(&r, 3, left / 2), left / 2);
    old = r.w.fabric->mcast_buf[0];
    fabric_detach_dead(r.w.fabric, 3);
    CU_ASSERT_PTR_NULL(r.w.fabric->mcast_buf[0]);
    others_stream(&r, left);
    /* the slots that were free before, and no more */
    CU_ASSERT_EQUAL(old->next, EMU_MCAST_BLOCK_SLOTS);
    CU_ASSERT_EQUAL(read_some(&r, 3, UINT32_MAX), left / 2);
    emu_hostif_nic_close(&r.w.nic[3]);

    hostifs_attach(&r.w, 3);
    CU_ASSERT_PTR_NOT_NULL_FATAL(r.w.fabric->mcast_buf[0]);
    CU_ASSERT_PTR_NOT_EQUAL(r.w.fabric->mcast_buf[0], old);
    group = fixture_group_of_first(r.w.fabric, NODES);
    r.got[3] = r.sent;
    stream(&r, group, NODES - 1, ROUNDS);
    CU_ASSERT_EQUAL(in_mcast_buf(&r), 0); /* they do not share one buffer */
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

/*
 * The worker is at the end of a block when a process disappears that has read nothing of the next
 * one.
 */
static void disappeared__while_a_block_is_needed(void)
{
    const uint32_t without[] = {0, 1, 2};
    uint32_t group;
    struct fixture r;

    fixture_open(&r, 0);
    store_unread(&r, 1); /* in block 0, for node 3 */
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

/* A process that detaches in order has stopped reading before it asks. */
static void leaver__reads_nothing_after_detaching(void)
{
    struct emu_seg seg;
    struct fixture r;

    fixture_open(&r, 0);
    store_unread(&r, 100);
    CU_ASSERT_EQUAL(read_some(&r, 3, 50), 50);
    emu_hostif_nic_leave(&r.w.nic[3]);
    CU_ASSERT_FALSE(hostifs_take(&r.w, 3, &seg));
    CU_ASSERT_EQUAL(r.w.nic[3].shared->down_head, r.w.nic[3].shared->down_tail); /* all dropped */
    hostifs_detach(&r.w, 3);
    others_stream(&r, 100);
    CU_ASSERT_TRUE(in_mcast_buf(&r) > 2 * EMU_MCAST_BUF_SLOTS); /* nothing waited for it */
    fixture_close(&r);
}

/*
 * If one of the processes has no multicast buffer, because memory was short when it attached, all
 * get copies.
 */
static void without_a_mcast_buf__segments_are_copied(void)
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

/* A process that claims impossible read positions harms only itself. */
static void invalid_claims__harm_only_their_process(void)
{
    const uint32_t with[] = {0, 3, 2}, without[] = {0, 1, 2};
    uint32_t both, valid;
    struct fixture r;

    fixture_open(&r, 0);
    both = fixture_multicast(r.w.fabric, with, 3);
    valid = fixture_multicast(r.w.fabric, without, 3);
    for (uint32_t round = 0; round < 64; round++) {
        struct emu_hostif_shared *liar = r.w.nic[3].shared;

        atomic_store_explicit(&liar->down_head, (uint32_t)test_random(&r.random),
                              memory_order_release);
        for (uint32_t i = 0; i < EMU_HOSTIF_SLOTS; i++)
            liar->down_mcast_ref[i] = (uint32_t)test_random(&r.random);
        for (uint32_t i = 0; i < EMU_HOSTIF_SLOTS / 128; i++, r.got[1]++)
            send_next(&r, both, LONG);
        settle(&r);
        stream(&r, valid, 2, EMU_MCAST_BLOCK_SLOTS / 2);
    }
    CU_ASSERT_TRUE(in_mcast_buf(&r) >= EMU_MCAST_BUF_SLOTS);
    fixture_close(&r);
}

/* A process has read-only access to the buffer. */
static void process__has_read_only_access(void)
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

/*
 * With a running worker, a stream from node 0 to all others. Returns the number of multicast
 * buffers created.
 */
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

static void threads__overwrite_read_segments(void)
{
    CU_ASSERT_EQUAL(threads_stream("kary:4,1", 1, 2 * EMU_MCAST_BUF_SLOTS), 1);
}

/* Segments that arrive by cable are stored in the multicast buffers of the lower switches, too. */
static void threads__read_segments_from_cables(void)
{
    CU_ASSERT_EQUAL(threads_stream("kary:4,2", 2, TEST_TRIALS(2000)), 4);
}

/* Segments of both groups are numbered as one stream. Returns false if @node has nothing new. */
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
 * With a running worker, a process disappears after @after segments without detaching, and reads on
 * while the others' stream fills the buffer several times.
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

static void threads__disappeared_reads_its_segments(void)
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
        CASE_ALONE(stream__is_read_by_each_at_its_own_pace),
        CASE(results__are_stored_once),
        CASE(results__skip_detached_members),
        CASE(unread__stays_intact),
        CASE(detach__releases_unread_segments),
        CASE(cut_off__reads_its_segments),
        CASE_ALONE(disappeared__reads_its_segments),
        CASE(disappeared__while_a_block_is_needed),
        CASE(leaver__reads_nothing_after_detaching),
        CASE(without_a_mcast_buf__segments_are_copied),
        CASE(invalid_claims__harm_only_their_process),
        CASE(process__has_read_only_access),
        CASE(threads__overwrite_read_segments),
        CASE(threads__read_segments_from_cables),
        CASE(threads__disappeared_reads_its_segments),
        {NULL, NULL},
    };

    return test_run("shelf", cases);
}
