/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * notify_test.c - when a process is notified of segments. With a core of its own, a worker notifies
 * of a few segments at once, before the pass ends; otherwise once, for all that the pass moved.
 *
 * The linker wraps emu_hostif_notify_all(), which ends a pass: segments visible to a process at
 * that moment were notified early.
 */
#include <pthread.h>
#include <sched.h>

#include "emu/hostif/fabric/fabric.h"
#include "emu/worker/worker.h"
#include "tests/test.h"
#include "tests/fixtures/hostifs.h"

static const struct hostifs *watched;
static uint32_t early[HOSTIFS_MAX]; /* segments that a process saw before the end of the pass */
static bool woken[HOSTIFS_MAX];

void __real_emu_hostif_notify_all(struct emu_worker *worker, bool now);
void __wrap_emu_hostif_notify_all(struct emu_worker *worker, bool now);

void __wrap_emu_hostif_notify_all(struct emu_worker *worker, bool now)
{
    for (uint32_t n = 0; watched && n < watched->nodes; n++) {
        const struct emu_hostif_nic *nic = &watched->nic[n];

        early[n] = atomic_load(&nic->shared->down_tail) - nic->down_head;
        woken[n] = !atomic_load(&nic->shared->asleep);
    }
    __real_emu_hostif_notify_all(worker, now);
}

static void comm_samples_open(struct hostifs *e, const char *profile, bool alone)
{
    struct fabric_config config = {.clock = EMU_CLOCK_RAW,
                                   .threads = 1,
                                   .start_stopped = true,
                                   .seed = test_seed()};

    fixture_profile(&config.profile, profile, "");
    hostifs_open(e, "kary:4,1", &config);
    atomic_store(&e->fabric->worker[0]->oversubscribed, !alone);
    watched = e;
}

static void notify_close(struct hostifs *e)
{
    watched = NULL;
    hostifs_close(e);
}

/* One pass; all processes were asleep before it. */
static void notify_pass(struct hostifs *e)
{
    for (uint32_t n = 0; n < e->nodes; n++) {
        early[n] = 0;
        woken[n] = false;
        atomic_store(&e->nic[n].shared->asleep, 1);
    }
    fixture_fabric_pass(e->fabric);
}

static void post(struct hostifs *e, uint32_t node, const struct emu_hdr *hdr, uint32_t count)
{
    uint8_t payload[EMU_PAYLOAD_BYTES] = {0};

    for (uint32_t i = 0; i < count; i++)
        CU_ASSERT_TRUE_FATAL(hostifs_post(e, node, hdr, payload));
}

static void take(struct hostifs *e, uint32_t node, uint32_t count)
{
    struct emu_seg seg;

    while (count--) {
        for (uint32_t i = 0; i < 1000 && !emu_hostif_nic_peek(&e->nic[node], 0); i++)
            fixture_fabric_pass(e->fabric);
        CU_ASSERT_TRUE(hostifs_take(e, node, &seg));
    }
    CU_ASSERT_FALSE(hostifs_take(e, node, &seg));
}

/*
 * Send @count segments from node 0 to node 1. Returns how many were notified early; *passes: passes
 * until the first arrived.
 */
static uint32_t notified_early(const char *profile, bool alone, uint32_t count, uint32_t *passes)
{
    struct emu_hdr hdr = {.dst = 1, .kind = EMU_UNICAST, .len = 8};
    uint32_t seen = 0;
    struct hostifs e;

    comm_samples_open(&e, profile, alone);
    post(&e, 0, &hdr, count);
    for (*passes = 0; *passes < 10 && !emu_hostif_nic_peek(&e.nic[1], 0); ++*passes) {
        notify_pass(&e);
        seen = early[1];
        CU_ASSERT_EQUAL(woken[1], seen != 0);
        CU_ASSERT_FALSE(woken[2]);
    }
    CU_ASSERT_FALSE(atomic_load(&e.nic[1].shared->asleep));
    take(&e, 1, count);
    notify_close(&e);
    return seen;
}

static void few__are_notified_before_the_pass_ends(void)
{
    static const char *const profiles[] = {"oq2004", "qsnet3"};
    uint32_t passes;

    for (uint32_t p = 0; p < 2; p++) {
        for (uint32_t count = 1; count <= 4; count++) {
            CU_ASSERT_EQUAL(notified_early(profiles[p], true, count, &passes), count);
            CU_ASSERT_EQUAL(passes, 1); /* also between the two adapters */
            CU_ASSERT_EQUAL(notified_early(profiles[p], false, count, &passes), 0);
        }
        CU_ASSERT_EQUAL(notified_early(profiles[p], true, 40, &passes), 0); /* more may come */
    }
}

/* Each target of a multicast is notified early, and again of the next one. */
static void few__of_a_broadcast_are_notified_to_all(void)
{
    struct emu_hdr hdr = {.kind = EMU_MULTICAST, .len = 8};
    struct hostifs e;

    comm_samples_open(&e, "oq2004", true);
    hdr.dst = fixture_group_of_first(e.fabric, 4);
    for (uint32_t round = 1; round <= 3; round++) {
        post(&e, 0, &hdr, 1);
        notify_pass(&e);
        for (uint32_t n = 1; n < 4; n++) {
            CU_ASSERT_EQUAL(early[n], round);
            CU_ASSERT_TRUE(woken[n]);
        }
        CU_ASSERT_FALSE(woken[0]);
    }
    for (uint32_t n = 1; n < 4; n++)
        take(&e, n, 3);
    fixture_group_end(e.fabric, hdr.dst);
    notify_close(&e);
}

/* Segments of several sources in one pass: each is notified when it arrives. */
static void few__from_several_are_notified_to_one(void)
{
    struct emu_hdr hdr = {.dst = 1, .kind = EMU_UNICAST, .len = 8};
    struct hostifs e;

    comm_samples_open(&e, "oq2004", true);
    for (uint32_t n = 0; n < 4; n++)
        post(&e, n, &hdr, n == 1 ? 0 : 4);
    notify_pass(&e);
    CU_ASSERT_EQUAL(early[1], 12);
    CU_ASSERT_TRUE(woken[1]);
    take(&e, 1, 12);
    notify_close(&e);
}

/* The notification that a ring has space again may be several passes late, but it comes. */
static void space__is_notified_later(void)
{
    struct emu_hdr hdr = {.dst = 1, .kind = EMU_UNICAST, .len = 8};
    struct hostifs e;

    for (uint32_t alone = 0; alone < 2; alone++) {
        comm_samples_open(&e, "oq2004", alone);
        for (uint32_t i = 1; i <= 20; i++) {
            post(&e, 0, &hdr, 1);
            for (uint32_t pass = 0; pass < 5; pass++)
                notify_pass(&e);
            CU_ASSERT_EQUAL(emu_hostif_nic_taken(&e.nic[0]), e.nic[0].up_tail);
        }
        take(&e, 1, 20);
        notify_close(&e);
    }
}

static void *stand_by(void *shared)
{
    return emu_hostif_nic_stand_by(shared, 3600 * UINT64_C(1000000000)) ? shared : NULL;
}

/* After emu_hostif_nic_hand_over(), the next segment wakes the thread that stands by. */
static void standby__is_woken_after_hand_over(void)
{
    struct emu_hdr hdr = {.dst = 1, .kind = EMU_UNICAST, .len = 8};
    struct emu_hostif_shared *shared;
    struct hostifs e;
    pthread_t thread;
    void *woken_by;

    comm_samples_open(&e, "oq2004", true);
    shared = e.nic[1].shared;
    for (uint32_t round = 0; round < 100; round++) {
        atomic_store(&shared->asleep, 0);
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, stand_by, shared), 0);
        do { /* again, because the thread may not be waiting yet */
            emu_hostif_nic_hand_over(shared);
            post(&e, 0, &hdr, 1);
            take(&e, 1, 1);
            CU_ASSERT_EQUAL(atomic_load(&shared->asleep), 0);
        } while (pthread_tryjoin_np(thread, &woken_by) != 0 && sched_yield() == 0);
        CU_ASSERT_PTR_EQUAL(woken_by, shared);
    }
    CU_ASSERT_FALSE(emu_hostif_nic_stand_by(shared, 1)); /* nothing arrives */
    notify_close(&e);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(few__are_notified_before_the_pass_ends), CASE(few__of_a_broadcast_are_notified_to_all),
        CASE(few__from_several_are_notified_to_one),  CASE(space__is_notified_later),
        CASE(standby__is_woken_after_hand_over),      {NULL, NULL},
    };

    return test_run("notify", cases);
}
