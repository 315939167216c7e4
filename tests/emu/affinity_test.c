/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * affinity_test.c - the affinity of workers (emu/dev/affinity.h, emu/worker/oversub.h). A worker
 * moves to the core of the only process that sends it streams. A worker that shares cores with
 * other threads moves to the core with the fewest of them, and waits for an answer only while the
 * processes that may answer run on other cores.
 */
#include "emu/dev/affinity.h"
#include "emu/worker/oversub.h"

#include <pthread.h>
#include <sched.h>

#include "tests/test.h"
#include "tests/fixtures/hostifs.h"

#define NODE 7u

/*
 * Reports @streams streams of @node from @core to a worker on core @own. Returns how often it would
 * move.
 */
static uint32_t moves_of(struct emu_affinity *place, uint32_t node, uint32_t core, uint32_t own,
                         uint32_t times)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < times; i++)
        count += emu_affinity_observe(place, node, core, own);
    return count;
}

static uint32_t moves(struct emu_affinity *place, uint32_t core, uint32_t own, uint32_t times)
{
    return moves_of(place, NODE, core, own, times);
}

/* The worker moves after EMU_AFFINITY_STREAMS streams from one other core, and no sooner. */
static void affinity__follows_a_sender_on_another_core(void)
{
    struct emu_affinity place = {0};

    CU_ASSERT_EQUAL(moves(&place, 2, 1, EMU_AFFINITY_STREAMS - 1), 0);
    CU_ASSERT_EQUAL(moves(&place, 2, 1, 1), 1);
    CU_ASSERT_EQUAL(moves(&place, 2, 1, EMU_AFFINITY_STREAMS - 1), 0); /* counting starts again */
}

/*
 * Streams from the worker's own core, from several other cores or from an unknown core do not move
 * it.
 */
static void affinity__ignores_several_senders(void)
{
    static const uint32_t others[] = {1, 3};
    struct emu_affinity place = {0};

    for (uint32_t i = 0; i < 3 * EMU_AFFINITY_STREAMS; i++) {
        CU_ASSERT_EQUAL(moves(&place, 2, 1, EMU_AFFINITY_STREAMS - 1), 0);
        CU_ASSERT_EQUAL(moves(&place, others[i % 2], 1, 1), 0);
    }
    CU_ASSERT_EQUAL(moves(&place, 2, 1, EMU_AFFINITY_STREAMS - 1), 0);
    CU_ASSERT_EQUAL(moves(&place, 0, 1, 3 * EMU_AFFINITY_STREAMS), 0);
    CU_ASSERT_EQUAL(moves(&place, 2, 1, 1), 1); /* an unknown core does not count */
    CU_ASSERT_EQUAL(moves(&place, 1, 1, 3 * EMU_AFFINITY_STREAMS), 0);
}

/* Two senders that alternate on the same other core do not move the worker; a single one does. */
static void affinity__stays_while_senders_alternate(void)
{
    struct emu_affinity place = {0};

    for (uint32_t i = 0; i < 3 * EMU_AFFINITY_STREAMS; i++)
        CU_ASSERT_EQUAL(moves_of(&place, i % 2, 2, 1, EMU_AFFINITY_STREAMS - 1), 0);
    CU_ASSERT_EQUAL(moves_of(&place, 0, 2, 1, EMU_AFFINITY_STREAMS), 1);
}

/* A move does not shrink the set of allowed cores; a core that does not exist is ignored. */
static void affinity__move_keeps_the_allowed_cores(void)
{
    cpu_set_t before, after;

    CU_ASSERT_EQUAL(sched_getaffinity(0, sizeof before, &before), 0);
    for (uint32_t core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, &before))
            continue;
        emu_affinity_migrate(core + 1);
        CU_ASSERT_EQUAL(sched_getaffinity(0, sizeof after, &after), 0);
        CU_ASSERT(CPU_EQUAL(&before, &after));
    }
    emu_affinity_migrate(0);
    emu_affinity_migrate(CPU_SETSIZE + 1);
    emu_affinity_migrate(UINT32_MAX);
    CU_ASSERT_EQUAL(sched_getaffinity(0, sizeof after, &after), 0);
    CU_ASSERT(CPU_EQUAL(&before, &after));
}

/* The worker never moves to a core that it may not use. */
static void affinity__never_leaves_the_allowed_cores(void)
{
    cpu_set_t before, one, after;
    uint32_t mine = (uint32_t)sched_getcpu();

    CU_ASSERT_EQUAL(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    CPU_SET(mine, &one);
    CU_ASSERT_EQUAL(sched_setaffinity(0, sizeof one, &one), 0);
    for (uint32_t core = 1; core <= CPU_SETSIZE; core++)
        emu_affinity_migrate(core);
    CU_ASSERT_EQUAL(sched_getaffinity(0, sizeof after, &after), 0);
    CU_ASSERT(CPU_EQUAL(&one, &after));
    CU_ASSERT_EQUAL((uint32_t)sched_getcpu(), mine);
    sched_setaffinity(0, sizeof before, &before);
}

static void send(struct hostifs *w, uint32_t src, uint32_t dst)
{
    struct emu_hdr hdr = {.dst = dst, .kind = EMU_UNICAST, .len = 0};

    CU_ASSERT_TRUE_FATAL(hostifs_post(w, src, &hdr, NULL));
}

/* Run passes until all work is done. Returns true if the worker then waits for an answer. */
static bool awaits(struct hostifs *w)
{
    struct emu_worker *worker = w->fabric->worker[0];

    worker->oversub.wait_ns = 0;
    while (emu_worker_pass(worker))
        ;
    return worker->oversub.wait_ns;
}

static void mark_oversubscribed(struct hostifs *w)
{
    for (uint32_t n = 0; n < w->nodes; n++)
        if (w->nic[n].shared)
            atomic_store(&w->nic[n].shared->oversubscribed, 1);
    atomic_store(&w->fabric->worker[0]->sole_oversubscribed, 1);
}

/* Four processes and one worker, all marked as oversubscribed. */
static void oversub_open(struct hostifs *w)
{
    struct fabric_config config = {.threads = 1, .start_stopped = true};

    fixture_profile(&config.profile, "oq2004", NULL);
    hostifs_open(w, "kary:4,1", &config);
    mark_oversubscribed(w);
}

/*
 * A process reports its core when it posts. One that has not posted yet may need the worker's core.
 */
static void wait__only_for_processes_on_other_cores(void)
{
    struct hostifs w;

    oversub_open(&w);
    send(&w, 0, 1);
    CU_ASSERT_FALSE(awaits(&w)); /* process 1 has not posted yet */
    CU_ASSERT_EQUAL(atomic_load(&w.nic[1].shared->post_core), 0);
    CU_ASSERT_NOT_EQUAL(atomic_load(&w.nic[0].shared->post_core), 0);
    atomic_store(&w.nic[1].shared->post_core, CPU_SETSIZE + 1); /* no such core */
    send(&w, 0, 1);
    CU_ASSERT_TRUE(awaits(&w));
    send(&w, 0, 1);
    send(&w, 0, 2);
    CU_ASSERT_FALSE(awaits(&w)); /* process 2 may need this core */
    atomic_store(&w.nic[2].shared->post_core, CPU_SETSIZE + 1);
    send(&w, 0, 1);
    send(&w, 0, 2);
    CU_ASSERT_TRUE(awaits(&w));
    w.fabric->worker[0]->oversub.misses = EMU_OVERSUB_MISSES; /* recent waits brought no answer */
    for (uint32_t i = 0; i < EMU_OVERSUB_SKIPS; i++) {
        send(&w, 0, 1);
        CU_ASSERT_FALSE(awaits(&w));
    }
    send(&w, 0, 1);
    CU_ASSERT_TRUE(awaits(&w));
    for (uint32_t i = 0; i < 2 * EMU_STREAM_SEGS; i++)
        send(&w, 0, 1);
    CU_ASSERT_FALSE(awaits(&w)); /* the traffic is now a stream */
    send(&w, 0, 1);
    CU_ASSERT_TRUE(awaits(&w));
    atomic_store(&w.fabric->worker[0]->sole_oversubscribed, 0);
    send(&w, 0, 1);
    CU_ASSERT_FALSE(awaits(&w)); /* with several workers: one of them may need this core */
    hostifs_close(&w);
}

/*
 * A notified process may still answer until it posts. One that has posted many segments may post
 * more.
 */
static void wait__not_while_a_process_here_may_answer(void)
{
    struct hostifs w;

    oversub_open(&w);
    send(&w, 0, 2);
    CU_ASSERT_FALSE(awaits(&w)); /* the core of process 2 is unknown */
    atomic_store(&w.nic[1].shared->post_core, CPU_SETSIZE + 1);
    send(&w, 0, 1);
    CU_ASSERT_FALSE(awaits(&w)); /* process 2 may still answer from this core */
    send(&w, 2, 1);
    CU_ASSERT_TRUE(awaits(&w)); /* process 2 has answered; 1 is on another core */
    w.fabric->worker[0]->oversub.misses = 0;
    for (uint32_t i = 0; i < 8; i++)
        send(&w, 2, 1);
    CU_ASSERT_FALSE(awaits(&w)); /* process 2 may have used up its burst */
    send(&w, 2, 1);
    CU_ASSERT_TRUE(awaits(&w));
    hostifs_close(&w);
}

/*
 * The worker waits for a device that becomes ready soon unless a process that may still answer
 * could need this core, whether or not recent waits brought an answer. Nothing is delivered to node
 * 3.
 */
static void wait__for_a_device_unless_a_process_here_may_answer(void)
{
    struct emu_worker *worker;
    struct hostifs w;

    oversub_open(&w);
    worker = w.fabric->worker[0];
    hostifs_detach(&w, 3);
    mark_oversubscribed(&w); /* detaching made the host count its processes again */
    worker->oversub.misses = EMU_OVERSUB_MISSES;
    worker->max_sleep_ps = 1000000; /* no device of this profile waits: the value stays */
    send(&w, 0, 3);
    CU_ASSERT_TRUE(awaits(&w));
    CU_ASSERT_FALSE(worker->oversub.answer);
    send(&w, 0, 1);
    CU_ASSERT_FALSE(awaits(&w)); /* process 1 may need this core */
    atomic_store(&w.nic[1].shared->post_core, CPU_SETSIZE + 1);
    send(&w, 0, 1);
    CU_ASSERT_TRUE(awaits(&w)); /* process 1 is on another core */
    CU_ASSERT_FALSE(worker->oversub.answer);
    CU_ASSERT_EQUAL(worker->oversub.misses, EMU_OVERSUB_MISSES + 1); /* only answers are counted */
    worker->max_sleep_ps = 3000000;
    send(&w, 0, 1);
    CU_ASSERT_FALSE(awaits(&w)); /* longer than other threads would keep the core */
    worker->max_sleep_ps = 1000000;
    atomic_store(&worker->sole_oversubscribed, 0);
    send(&w, 0, 3);
    CU_ASSERT_FALSE(awaits(&w));
    hostifs_close(&w);
}

/* The worker moves only to an allowed core with at least two threads fewer than its own. */
static void best_core__has_the_fewest_threads(void)
{
    uint16_t on[CPU_SETSIZE] = {[0] = 5, [1] = 3, [2] = 4, [CPU_SETSIZE - 1] = 1};
    cpu_set_t usable;

    CPU_ZERO(&usable);
    CPU_SET(0, &usable);
    CPU_SET(2, &usable);
    CU_ASSERT_EQUAL(emu_oversub_best_core(on, &usable, 1), 1);
    CPU_SET(1, &usable);
    CU_ASSERT_EQUAL(emu_oversub_best_core(on, &usable, 1), 2);
    CU_ASSERT_EQUAL(emu_oversub_best_core(on, &usable, 3), 3);
    CPU_SET(CPU_SETSIZE - 1, &usable);
    CU_ASSERT_EQUAL(emu_oversub_best_core(on, &usable, 1), CPU_SETSIZE);
    CU_ASSERT_EQUAL(emu_oversub_best_core(on, &usable, 2), CPU_SETSIZE);
    CU_ASSERT_EQUAL(emu_oversub_best_core(on, &usable, CPU_SETSIZE), CPU_SETSIZE);
    CU_ASSERT_EQUAL(emu_oversub_best_core(on, &usable, 0), 0); /* own core unknown */
    CU_ASSERT_EQUAL(emu_oversub_best_core(on, &usable, CPU_SETSIZE + 1), CPU_SETSIZE + 1);
    CU_ASSERT_EQUAL(emu_oversub_best_core(on, &usable, UINT32_MAX), UINT32_MAX);
}

/* A wait for an answer ends after a limit and counts as a miss; a wait for a device never does. */
static void wait__ends_after_its_limit(void)
{
    struct emu_worker *worker;
    struct hostifs w;

    oversub_open(&w);
    worker = w.fabric->worker[0];
    atomic_store(&w.nic[1].shared->post_core, CPU_SETSIZE + 1);
    for (uint32_t vain = 1; vain <= EMU_OVERSUB_MISSES; vain++) {
        send(&w, 0, 1);
        CU_ASSERT_TRUE(awaits(&w));
        while (emu_oversub_keeps_core(worker))
            ;
        CU_ASSERT_EQUAL(worker->oversub.misses, vain);
        CU_ASSERT_FALSE(emu_oversub_keeps_core(worker));
        CU_ASSERT_EQUAL(worker->oversub.misses, vain); /* this wait counts once */
    }
    worker->max_sleep_ps = 1000000;
    send(&w, 0, 1);
    CU_ASSERT_TRUE(awaits(&w)); /* a wait for a device: recent misses do not matter */
    while (emu_oversub_keeps_core(worker))
        ;
    CU_ASSERT_EQUAL(worker->oversub.misses, EMU_OVERSUB_MISSES + 1);
    hostifs_close(&w);
}

/* Arriving work ends a wait for an answer, and resets the count of misses. */
static void wait__ends_when_work_arrives(void)
{
    struct emu_worker *worker;
    struct hostifs w;

    oversub_open(&w);
    worker = w.fabric->worker[0];
    atomic_store(&w.nic[1].shared->post_core, CPU_SETSIZE + 1);
    worker->oversub.misses = EMU_OVERSUB_MISSES - 1;
    send(&w, 0, 1);
    CU_ASSERT_TRUE(awaits(&w));
    worker->oversub.wait_ns = UINT64_MAX; /* the test may be off the core for any time */
    send(&w, 1, 0);
    CU_ASSERT_NOT_EQUAL(emu_worker_pass(worker), 0);
    CU_ASSERT_FALSE(emu_oversub_keeps_core(worker));
    CU_ASSERT_EQUAL(worker->oversub.misses, 0);
    hostifs_close(&w);
}

/* Has node @n's process posted since the worker last sampled the cores? */
static bool has_posted(struct emu_worker *worker, uint32_t n)
{
    return atomic_load(&worker->hostifs)->hostif[n]->posted;
}

/* The first three processes send something and report @core. */
static void post_on(struct hostifs *w, uint32_t core)
{
    for (uint32_t n = 0; n < 3; n++) {
        send(w, n, 3);
        atomic_store(&w->nic[n].shared->post_core, core);
    }
    while (emu_worker_pass(w->fabric->worker[0]))
        ;
    for (uint32_t n = 0; n < 3; n++)
        CU_ASSERT_TRUE(has_posted(w->fabric->worker[0], n));
}

/* Returns 1 + the number of a core that this thread may use, other than @but. */
static uint32_t another(uint32_t but)
{
    cpu_set_t usable;

    CU_ASSERT_EQUAL_FATAL(sched_getaffinity(0, sizeof usable, &usable), 0);
    for (uint32_t core = 1; core <= CPU_SETSIZE; core++)
        if (core != but && CPU_ISSET(core - 1, &usable))
            return core;
    return 0;
}

/*
 * An oversubscribed worker samples the cores of processes that posted since the last sample, and
 * not in every pass.
 */
static void oversub__samples_in_some_passes_only(void)
{
    struct emu_worker *worker;
    struct hostifs w;

    oversub_open(&w);
    worker = w.fabric->worker[0];
    post_on(&w, 1);
    worker->oversub.turns = 0;
    for (uint32_t turn = 1; turn < EMU_OVERSUB_SLICES; turn++)
        emu_oversub_slice_begins(worker);
    CU_ASSERT_TRUE(has_posted(worker, 0));
    emu_oversub_slice_begins(worker);
    CU_ASSERT_FALSE(has_posted(worker, 0));
    post_on(&w, 1);
    for (uint32_t turn = 1; turn < EMU_OVERSUB_SLICES; turn++)
        emu_oversub_slice_begins(worker);
    CU_ASSERT_TRUE(has_posted(worker, 0));
    atomic_store(&worker->sole_oversubscribed, 0);
    for (uint32_t turn = 0; turn < 2 * EMU_OVERSUB_SLICES; turn++)
        emu_oversub_slice_begins(worker);
    CU_ASSERT_TRUE(has_posted(worker, 0));
    hostifs_close(&w);
}

/*
 * Only processes that posted since, on cores that the worker may use, count. A process that sends
 * streams does not: affinity handles it.
 */
static void oversub__counts_recent_posters_only(void)
{
    static const uint32_t nowhere[] = {0, CPU_SETSIZE + 1, 1u << 31, UINT32_MAX};
    uint32_t own = (uint32_t)sched_getcpu() + 1;
    struct emu_worker *worker;
    struct hostifs w;

    if (!another(own)) {
        test_skip("one core");
        return;
    }
    oversub_open(&w);
    worker = w.fabric->worker[0];
    post_on(&w, own);
    CU_ASSERT_EQUAL(emu_oversub_pick_core(worker, own), another(own));
    CU_ASSERT_EQUAL(emu_oversub_pick_core(worker, own), own); /* no process posted since */
    for (uint32_t i = 0; i < sizeof nowhere / sizeof nowhere[0]; i++) {
        post_on(&w, nowhere[i]);
        CU_ASSERT_EQUAL(emu_oversub_pick_core(worker, own), own);
        CU_ASSERT_FALSE(has_posted(worker, 0));
    }
    post_on(&w, own);
    CU_ASSERT_EQUAL(emu_oversub_pick_core(worker, 0), 0); /* own core unknown */
    atomic_load(&worker->hostifs)->hostif[1]->streams = true;
    post_on(&w, own);
    CU_ASSERT_EQUAL(emu_oversub_pick_core(worker, own), own);
    atomic_load(&worker->hostifs)->hostif[1]->streams = false;
    atomic_load(&worker->hostifs)->hostif[3]->streams = true; /* once; it posts no more */
    post_on(&w, own);
    CU_ASSERT_EQUAL(emu_oversub_pick_core(worker, own), another(own));
    hostifs_close(&w);
}

/*
 * An oversubscribed worker that shares its core with all three posting processes moves away after
 * some passes. Several trials: the scheduler may move it back.
 */
static void oversub__leaves_the_busiest_core(void)
{
    struct emu_worker *worker;
    struct hostifs w;
    bool moved = false;

    if (emu_affinity_cores() < 2) {
        test_skip("one core");
        return;
    }
    oversub_open(&w);
    worker = w.fabric->worker[0];
    for (uint32_t trial = 0; trial < 100 && !moved; trial++) {
        uint32_t own = (uint32_t)sched_getcpu() + 1;

        post_on(&w, own);
        for (uint32_t turn = 0; turn < 4 * EMU_OVERSUB_SLICES && has_posted(worker, 0); turn++)
            emu_oversub_slice_begins(worker);
        for (uint32_t n = 0; n < 3; n++)
            CU_ASSERT_FALSE(has_posted(worker, n));
        moved = (uint32_t)sched_getcpu() + 1 != own;
    }
    CU_ASSERT_TRUE(moved);
    hostifs_close(&w);
}

/* A thread that always wants a core. */
static void *other_run(void *arg)
{
    atomic_bool *ends = arg;

    while (!atomic_load(ends))
        sched_yield();
    return NULL;
}

/* Has the worker's thread waited for an answer and sampled the cores since it was last stopped? */
static bool thread_did_both(struct hostifs *w)
{
    struct emu_worker *worker = w->fabric->worker[0];
    bool both;

    emu_threads_pause(w->fabric->drive.thread, 1);
    both = worker->oversub.misses && !has_posted(worker, 2);
    emu_threads_resume(w->fabric->drive.thread, 1);
    return both;
}

/*
 * A running worker that shares cores with other threads waits for answers in vain, and yields so
 * often that it samples the cores. Node 2 posts once, 0 keeps posting, 1 reports another core and
 * then stays silent.
 */
static void oversub__samples_and_waits_in_a_running_worker(void)
{
    struct fabric_config config = {.threads = 1};
    uint32_t count = emu_affinity_cores() < 8 ? emu_affinity_cores() + 1 : 9;
    atomic_bool ends = false;
    struct emu_seg seg;
    pthread_t other[9];
    bool both = false;
    struct hostifs w;

    fixture_profile(&config.profile, "oq2004", NULL);
    hostifs_open(&w, "kary:4,1", &config);
    atomic_store(&w.fabric->worker[0]->oversubscribed, 1);
    atomic_store(&w.fabric->worker[0]->sole_oversubscribed, 1);
    atomic_store(&w.nic[1].shared->post_core, CPU_SETSIZE + 1);
    for (uint32_t i = 0; i < count; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&other[i], NULL, other_run, &ends), 0);
    send(&w, 2, 1);
    for (uint32_t i = 0; i < HOSTIFS_GIVE_UP && !both; i++) {
        send(&w, 0, 1);
        CU_ASSERT_TRUE_FATAL(hostifs_await(&w, 1, &seg));
        hostifs_pause(i);
        both = i % 64 == 63 && thread_did_both(&w);
    }
    CU_ASSERT_TRUE(both);
    atomic_store(&ends, true);
    for (uint32_t i = 0; i < count; i++)
        pthread_join(other[i], NULL);
    hostifs_close(&w);
}

/*
 * A process that posts on the worker's own core reports that core, and the worker does not wait for
 * it.
 */
static void wait__not_for_a_process_on_the_own_core(void)
{
    struct fabric_config config = {.threads = 1, .start_stopped = true};
    cpu_set_t before, one;
    struct hostifs w;

    CU_ASSERT_EQUAL_FATAL(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    CPU_SET((uint32_t)sched_getcpu(), &one);
    CU_ASSERT_EQUAL(sched_setaffinity(0, sizeof one, &one), 0);
    fixture_profile(&config.profile, "oq2004", NULL);
    hostifs_open(&w, "kary:4,1", &config);
    atomic_store(&w.nic[1].shared->oversubscribed, 1);
    atomic_store(&w.fabric->worker[0]->sole_oversubscribed, 1);
    send(&w, 1, 0);
    awaits(&w);
    CU_ASSERT_EQUAL(atomic_load(&w.nic[1].shared->post_core), (uint32_t)sched_getcpu() + 1);
    send(&w, 0, 1);
    CU_ASSERT_FALSE(awaits(&w));
    hostifs_close(&w);
    sched_setaffinity(0, sizeof before, &before);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(affinity__follows_a_sender_on_another_core),
        CASE(affinity__ignores_several_senders),
        CASE(affinity__stays_while_senders_alternate),
        CASE(affinity__move_keeps_the_allowed_cores),
        CASE(affinity__never_leaves_the_allowed_cores),
        CASE(wait__only_for_processes_on_other_cores),
        CASE(wait__not_while_a_process_here_may_answer),
        CASE(wait__for_a_device_unless_a_process_here_may_answer),
        CASE(wait__ends_after_its_limit),
        CASE(wait__ends_when_work_arrives),
        CASE(best_core__has_the_fewest_threads),
        CASE(oversub__samples_in_some_passes_only),
        CASE(oversub__counts_recent_posters_only),
        CASE(oversub__leaves_the_busiest_core),
        CASE(oversub__samples_and_waits_in_a_running_worker),
        CASE(wait__not_for_a_process_on_the_own_core),
        {NULL, NULL},
    };

    return test_run("place", cases);
}
