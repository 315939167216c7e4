/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * affinity_test.c - a worker follows the one who sends it streams, and nobody else; among many it
 * is where the fewest are, and keeps its core while only processes on others may answer.
 */
#include "emu/dev/affinity.h"
#include "emu/worker/oversub.h"

#include <pthread.h>
#include <sched.h>

#include "tests/test.h"
#include "tests/fixtures/hostifs.h"

#define NODE 7u

/* Times that a stream of @node from @core is heard of by who is on @own, and would move. */
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

/* One other core, again and again: after that long, and not sooner. */
static void affinity__follows_one_that_sends_from_elsewhere(void)
{
    struct emu_affinity place = {0};

    CU_ASSERT_EQUAL(moves(&place, 2, 1, EMU_AFFINITY_STREAMS - 1), 0);
    CU_ASSERT_EQUAL(moves(&place, 2, 1, 1), 1);
    CU_ASSERT_EQUAL(moves(&place, 2, 1, EMU_AFFINITY_STREAMS - 1), 0); /* it begins anew */
}

/* Streams from its own core, from several others, or from nobody knows where, do not move it. */
static void affinity__stays_where_one_of_several_sends(void)
{
    static const uint32_t others[] = {1, 3};
    struct emu_affinity place = {0};

    for (uint32_t i = 0; i < 3 * EMU_AFFINITY_STREAMS; i++) {
        CU_ASSERT_EQUAL(moves(&place, 2, 1, EMU_AFFINITY_STREAMS - 1), 0);
        CU_ASSERT_EQUAL(moves(&place, others[i % 2], 1, 1), 0);
    }
    CU_ASSERT_EQUAL(moves(&place, 2, 1, EMU_AFFINITY_STREAMS - 1), 0);
    CU_ASSERT_EQUAL(moves(&place, 0, 1, 3 * EMU_AFFINITY_STREAMS), 0);
    CU_ASSERT_EQUAL(moves(&place, 2, 1, 1), 1); /* who is not known says nothing */
    CU_ASSERT_EQUAL(moves(&place, 1, 1, 3 * EMU_AFFINITY_STREAMS), 0);
}

/* Two that send by turns from the same other core do not move it; the one that goes on does. */
static void affinity__stays_while_several_send(void)
{
    struct emu_affinity place = {0};

    for (uint32_t i = 0; i < 3 * EMU_AFFINITY_STREAMS; i++)
        CU_ASSERT_EQUAL(moves_of(&place, i % 2, 2, 1, EMU_AFFINITY_STREAMS - 1), 0);
    CU_ASSERT_EQUAL(moves_of(&place, 0, 2, 1, EMU_AFFINITY_STREAMS), 1);
}

/* It may go anywhere that it might before; a core that cannot be is none. */
static void affinity__is_not_bound_where_it_moves(void)
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

/* Where it may not run it does not go. */
static void affinity__keeps_to_the_cores_it_was_given(void)
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

/* What is under way is told of. Does the worker wait for an answer then? */
static bool awaits(struct hostifs *w)
{
    struct emu_worker *worker = w->fabric->worker[0];

    worker->oversub.wait_ns = 0;
    while (emu_worker_pass(worker))
        ;
    return worker->oversub.wait_ns;
}

static void crowd_says(struct hostifs *w)
{
    for (uint32_t n = 0; n < w->nodes; n++)
        if (w->nic[n].shared)
            atomic_store(&w->nic[n].shared->oversubscribed, 1);
    atomic_store(&w->fabric->worker[0]->sole_oversubscribed, 1);
}

/* Four processes and one worker, which are told that they outnumber the cores. */
static void crowd_open(struct hostifs *w)
{
    struct fabric_config config = {.threads = 1, .start_stopped = true};

    fixture_profile(&config.profile, "oq2004", NULL);
    hostifs_open(w, "kary:4,1", &config);
    crowd_says(w);
}

/* A process says where it is by posting; one that has not may need this core, too. */
static void answer__is_awaited_from_other_cores_alone(void)
{
    struct hostifs w;

    crowd_open(&w);
    send(&w, 0, 1);
    CU_ASSERT_FALSE(awaits(&w)); /* 1 has not posted yet */
    CU_ASSERT_EQUAL(atomic_load(&w.nic[1].shared->post_core), 0);
    CU_ASSERT_NOT_EQUAL(atomic_load(&w.nic[0].shared->post_core), 0);
    atomic_store(&w.nic[1].shared->post_core, CPU_SETSIZE + 1); /* no core of this machine */
    send(&w, 0, 1);
    CU_ASSERT_TRUE(awaits(&w));
    send(&w, 0, 1);
    send(&w, 0, 2);
    CU_ASSERT_FALSE(awaits(&w)); /* 2 may need this core */
    atomic_store(&w.nic[2].shared->post_core, CPU_SETSIZE + 1);
    send(&w, 0, 1);
    send(&w, 0, 2);
    CU_ASSERT_TRUE(awaits(&w));
    w.fabric->worker[0]->oversub.misses = EMU_OVERSUB_MISSES; /* none came lately */
    for (uint32_t i = 0; i < EMU_OVERSUB_SKIPS; i++) {
        send(&w, 0, 1);
        CU_ASSERT_FALSE(awaits(&w));
    }
    send(&w, 0, 1);
    CU_ASSERT_TRUE(awaits(&w));
    for (uint32_t i = 0; i < 2 * EMU_STREAM_SEGS; i++)
        send(&w, 0, 1);
    CU_ASSERT_FALSE(awaits(&w)); /* a stream */
    send(&w, 0, 1);
    CU_ASSERT_TRUE(awaits(&w));
    atomic_store(&w.fabric->worker[0]->sole_oversubscribed, 0);
    send(&w, 0, 1);
    CU_ASSERT_FALSE(awaits(&w)); /* other workers may need this core, or nobody does */
    hostifs_close(&w);
}

/* Whoever was told of something may answer until it posts, and who posts much may post more. */
static void answer__is_owed_until_it_is_given(void)
{
    struct hostifs w;

    crowd_open(&w);
    send(&w, 0, 2);
    CU_ASSERT_FALSE(awaits(&w)); /* where 2 is is not known */
    atomic_store(&w.nic[1].shared->post_core, CPU_SETSIZE + 1);
    send(&w, 0, 1);
    CU_ASSERT_FALSE(awaits(&w)); /* 2 may still answer from this core */
    send(&w, 2, 1);
    CU_ASSERT_TRUE(awaits(&w)); /* it did; 1 is elsewhere */
    w.fabric->worker[0]->oversub.misses = 0;
    for (uint32_t i = 0; i < 8; i++)
        send(&w, 2, 1);
    CU_ASSERT_FALSE(awaits(&w)); /* 2 had filled its turn, perhaps */
    send(&w, 2, 1);
    CU_ASSERT_TRUE(awaits(&w));
    hostifs_close(&w);
}

/*
 * What a device does soon is waited for where nobody who owes an answer may need this core, in vain
 * or not. 3 has nobody to be told of anything.
 */
static void device__is_awaited_where_nobody_here_owes(void)
{
    struct emu_worker *worker;
    struct hostifs w;

    crowd_open(&w);
    worker = w.fabric->worker[0];
    hostifs_detach(&w, 3);
    crowd_says(&w); /* a host with a core for each has been looked at again */
    worker->oversub.misses = EMU_OVERSUB_MISSES;
    worker->max_sleep_ps = 1000000; /* no device of this profile waits for anything: so it stays */
    send(&w, 0, 3);
    CU_ASSERT_TRUE(awaits(&w));
    CU_ASSERT_FALSE(worker->oversub.answer);
    send(&w, 0, 1);
    CU_ASSERT_FALSE(awaits(&w)); /* 1 may need this core */
    atomic_store(&w.nic[1].shared->post_core, CPU_SETSIZE + 1);
    send(&w, 0, 1);
    CU_ASSERT_TRUE(awaits(&w)); /* it is elsewhere */
    CU_ASSERT_FALSE(worker->oversub.answer);
    CU_ASSERT_EQUAL(worker->oversub.misses, EMU_OVERSUB_MISSES + 1); /* answers alone count */
    worker->max_sleep_ps = 3000000;
    send(&w, 0, 1);
    CU_ASSERT_FALSE(awaits(&w)); /* others would have given the core back by then */
    worker->max_sleep_ps = 1000000;
    atomic_store(&worker->sole_oversubscribed, 0);
    send(&w, 0, 3);
    CU_ASSERT_FALSE(awaits(&w));
    hostifs_close(&w);
}

/* Two fewer, on a core that it may use: else it stays. */
static void oversub__belongs_where_the_fewest_are(void)
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
    CU_ASSERT_EQUAL(emu_oversub_best_core(on, &usable, 0), 0); /* nobody could say where it is */
    CU_ASSERT_EQUAL(emu_oversub_best_core(on, &usable, CPU_SETSIZE + 1), CPU_SETSIZE + 1);
    CU_ASSERT_EQUAL(emu_oversub_best_core(on, &usable, UINT32_MAX), UINT32_MAX);
}

/* An answer is awaited for so long, and then counted as none; what a device did not do is not. */
static void wait__ends(void)
{
    struct emu_worker *worker;
    struct hostifs w;

    crowd_open(&w);
    worker = w.fabric->worker[0];
    atomic_store(&w.nic[1].shared->post_core, CPU_SETSIZE + 1);
    for (uint32_t vain = 1; vain <= EMU_OVERSUB_MISSES; vain++) {
        send(&w, 0, 1);
        CU_ASSERT_TRUE(awaits(&w));
        while (emu_oversub_keeps_core(worker))
            ;
        CU_ASSERT_EQUAL(worker->oversub.misses, vain);
        CU_ASSERT_FALSE(emu_oversub_keeps_core(worker));
        CU_ASSERT_EQUAL(worker->oversub.misses, vain); /* once */
    }
    worker->max_sleep_ps = 1000000;
    send(&w, 0, 1);
    CU_ASSERT_TRUE(awaits(&w)); /* a device: no answer came so often */
    while (emu_oversub_keeps_core(worker))
        ;
    CU_ASSERT_EQUAL(worker->oversub.misses, EMU_OVERSUB_MISSES + 1);
    hostifs_close(&w);
}

/* What comes while an answer is awaited ends the wait, and says that answers come. */
static void wait__is_ended_by_what_comes(void)
{
    struct emu_worker *worker;
    struct hostifs w;

    crowd_open(&w);
    worker = w.fabric->worker[0];
    atomic_store(&w.nic[1].shared->post_core, CPU_SETSIZE + 1);
    worker->oversub.misses = EMU_OVERSUB_MISSES - 1;
    send(&w, 0, 1);
    CU_ASSERT_TRUE(awaits(&w));
    worker->oversub.wait_ns = UINT64_MAX; /* however late this host lets the test go on */
    send(&w, 1, 0);
    CU_ASSERT_NOT_EQUAL(emu_worker_pass(worker), 0);
    CU_ASSERT_FALSE(emu_oversub_keeps_core(worker));
    CU_ASSERT_EQUAL(worker->oversub.misses, 0);
    hostifs_close(&w);
}

/* Since it was looked where node @n's process is. */
static bool has_posted(struct emu_worker *worker, uint32_t n)
{
    return atomic_load(&worker->hostifs)->hostif[n]->posted;
}

/* The first three send something, and say that they did so on @core. */
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

/* One of the cores that this thread may use, 1 + its number, that is not @but. */
static uint32_t another(uint32_t but)
{
    cpu_set_t usable;

    CU_ASSERT_EQUAL_FATAL(sched_getaffinity(0, sizeof usable, &usable), 0);
    for (uint32_t core = 1; core <= CPU_SETSIZE; core++)
        if (core != but && CPU_ISSET(core - 1, &usable))
            return core;
    return 0;
}

/* By what posted since the last look, if it is in a crowd, and not each turn. */
static void oversub__samples_now_and_then(void)
{
    struct emu_worker *worker;
    struct hostifs w;

    crowd_open(&w);
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

/* Those alone count that posted, and only where they can be; who streams moves it by itself. */
static void oversub__goes_by_who_posted_lately(void)
{
    static const uint32_t nowhere[] = {0, CPU_SETSIZE + 1, 1u << 31, UINT32_MAX};
    uint32_t own = (uint32_t)sched_getcpu() + 1;
    struct emu_worker *worker;
    struct hostifs w;

    if (!another(own)) {
        test_skip("one core");
        return;
    }
    crowd_open(&w);
    worker = w.fabric->worker[0];
    post_on(&w, own);
    CU_ASSERT_EQUAL(emu_oversub_pick_core(worker, own), another(own));
    CU_ASSERT_EQUAL(emu_oversub_pick_core(worker, own), own); /* nobody did since */
    for (uint32_t i = 0; i < sizeof nowhere / sizeof nowhere[0]; i++) {
        post_on(&w, nowhere[i]);
        CU_ASSERT_EQUAL(emu_oversub_pick_core(worker, own), own);
        CU_ASSERT_FALSE(has_posted(worker, 0));
    }
    post_on(&w, own);
    CU_ASSERT_EQUAL(emu_oversub_pick_core(worker, 0), 0); /* where it is itself is not known */
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
 * A worker in a crowd, beside all three that post, is elsewhere after some turns; several trials,
 * for the scheduler may move it back at once.
 */
static void oversub__moves_from_where_most_post(void)
{
    struct emu_worker *worker;
    struct hostifs w;
    bool moved = false;

    if (emu_affinity_cores() < 2) {
        test_skip("one core");
        return;
    }
    crowd_open(&w);
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

/* Something that always wants a core. */
static void *other_run(void *arg)
{
    atomic_bool *ends = arg;

    while (!atomic_load(ends))
        sched_yield();
    return NULL;
}

/* Since it last stood still the worker's thread waited for an answer, and looked who is where. */
static bool thread_did_both(struct hostifs *w)
{
    struct emu_worker *worker = w->fabric->worker[0];
    bool both;

    emu_thread_pause(w->fabric->drive.thread[0]);
    both = worker->oversub.misses && !has_posted(worker, 2);
    emu_thread_resume(w->fabric->drive.thread[0]);
    return both;
}

/*
 * A worker's thread among others waits for answers in vain, and gives its core away so often that
 * it looks who is where: node 2 posts once, 0 goes on, 1 says that it is elsewhere and is silent.
 */
static void oversub__is_asked_by_a_worker_that_runs(void)
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

/* What a process posts on the worker's own core is said, and believed. */
static void answer__is_not_awaited_on_the_own_core(void)
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
        CASE(affinity__follows_one_that_sends_from_elsewhere),
        CASE(affinity__stays_where_one_of_several_sends),
        CASE(affinity__stays_while_several_send),
        CASE(affinity__is_not_bound_where_it_moves),
        CASE(affinity__keeps_to_the_cores_it_was_given),
        CASE(answer__is_awaited_from_other_cores_alone),
        CASE(answer__is_owed_until_it_is_given),
        CASE(device__is_awaited_where_nobody_here_owes),
        CASE(wait__ends),
        CASE(wait__is_ended_by_what_comes),
        CASE(oversub__belongs_where_the_fewest_are),
        CASE(oversub__samples_now_and_then),
        CASE(oversub__goes_by_who_posted_lately),
        CASE(oversub__moves_from_where_most_post),
        CASE(oversub__is_asked_by_a_worker_that_runs),
        CASE(answer__is_not_awaited_on_the_own_core),
        {NULL, NULL},
    };

    return test_run("place", cases);
}
