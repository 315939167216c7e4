/* SPDX-License-Identifier: BSD-3-Clause */
/* worker.c - the loop that steps devices, and how it goes to sleep. A *pass* is one iteration. */
#include "emu/worker/worker.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "emu/util/alloc.h"
#include "emu/util/bits.h"
#include "emu/hostif/fabric/fabric.h"
#include "emu/util/now.h"
#include "emu/dev/rcu.h"
#include "emu/dev/outbox.h"
#include "emu/util/spawn.h"
#include "emu/worker/lockstep.h"
#include "emu/worker/oversub.h"

/*
 * Devices are prefetched in groups of GROUP, in the stages of enum emu_fetch, before they are
 * stepped. A cache line takes longer to arrive than one device's step. Therefore several groups are
 * in progress: while one is in one stage, the group before it is in the next stage.
 */
#define GROUP           2u
#define GROUPS          8u        /* slots for groups, of which EMU_FETCHES + 2 are in use */
#define AHEAD_FROM      1024u     /* prefetch if there are more devices than fit into the cache */
#define WORKER_NEAR_PS  50000000u /* 50 us: a worker does not sleep before a nearer event */
#define WORKER_ONCE_PS  1000u     /* a device that is due sooner than this polls continuously */
#define WORKER_FEW_SEGS 8u        /* worker_step_raw_all(): no second round if more have moved */

static_assert(GROUPS >= EMU_FETCHES + 2 && (GROUPS & (GROUPS - 1)) == 0,
              "group numbers are taken modulo GROUPS");

static bool signals_create(struct emu_signals *signals, uint32_t words, uint32_t devs)
{
    signals->near = calloc(words, sizeof *signals->near);
    signals->ready = calloc(devs, sizeof *signals->ready);
    return signals->near && signals->ready;
}

static void signals_destroy(struct emu_signals *signals)
{
    free(signals->near);
    free(signals->ready);
}

static bool worker_alloc(struct emu_worker *worker, uint32_t devs)
{
    uint32_t words = worker->words;
    bool made;

    worker->remote = emu_zeros(words * sizeof *worker->remote);
    worker->dev = calloc(devs, sizeof(struct emu_dev *));
    worker->due_ps = calloc(devs, sizeof *worker->due_ps);
    worker->wants = calloc(devs, sizeof *worker->wants);
    worker->always = calloc(4 * (size_t)words, sizeof *worker->always);
    if (!worker->always)
        return false;
    worker->stepped = worker->always + words;
    worker->poll_next = worker->stepped + words;
    worker->poll_now = worker->poll_next + words;
    made = worker->remote && worker->dev && worker->due_ps && worker->wants &&
           signals_create(&worker->signalled, words, devs);
    if (worker->clock.mode != EMU_CLOCK_VIRTUAL)
        worker->taken = worker->signalled;
    else
        made = made && signals_create(&worker->taken, words, devs);
    return made;
}

int emu_worker_create(struct emu_worker **ret, uint32_t devs, const struct emu_clock *clock,
                      struct emu_pool *pool)
{
    struct emu_worker *worker = emu_zeros(sizeof *worker);
    int err = -ENOMEM;

    if (!worker)
        return -ENOMEM;
    devs = devs ? devs : 1;
    worker->words = (devs + 63) / 64;
    worker->clock = *clock;
    worker->next_ps = worker->max_sleep_ps = worker->sent_ps = EMU_NEVER;
    emu_pool_cache_init(&worker->cache, pool);
    if (worker_alloc(worker, devs))
        err = emu_waiter_create(&worker->waiter);
    if (err)
        emu_worker_destroy(worker);
    else
        *ret = worker;
    return err;
}

void emu_worker_destroy(struct emu_worker *worker)
{
    if (!worker)
        return;
    emu_waiter_destroy(worker->waiter);
    if (worker->clock.mode == EMU_CLOCK_VIRTUAL)
        signals_destroy(&worker->taken);
    signals_destroy(&worker->signalled);
    emu_outbox_free(worker);
    free(worker->always);
    free(worker->wants);
    free(worker->due_ps);
    free(worker->dev);
    free(worker->remote);
    free(worker);
}

static uint32_t worker_step(struct emu_worker *worker, uint32_t i, uint64_t until_ps)
{
    struct emu_dev *dev = worker->dev[i];
    uint32_t moved = dev->step(dev, until_ps);

    emu_pool_drop_all_late(&worker->cache);
    worker->due_ps[i] = dev->next_ps;
    if (dev->next_ps < worker->next_ps)
        worker->next_ps = dev->next_ps;
    return moved;
}

/* worker_step() on clock raw, where a device may ask to be stepped in the next pass, too. */
static uint32_t worker_step_raw(struct emu_worker *worker, uint32_t i)
{
    uint32_t moved = worker_step(worker, i, worker->now_ps);

    worker->stepped[i / 64] |= emu_bit(i % 64);
    worker->poll_next[i / 64] |= (uint64_t)(worker->due_ps[i] != EMU_NEVER) << i % 64;
    return moved;
}

/* Return the time from now until a device must be stepped even without a signal, or EMU_NEVER. */
static uint64_t worker_max_sleep_ps(const struct emu_worker *worker)
{
    if (worker->clock.mode == EMU_CLOCK_RAW)
        return worker->max_sleep_ps;
    if (worker->next_ps == EMU_NEVER)
        return EMU_NEVER;
    return worker->next_ps > worker->now_ps ? worker->next_ps - worker->now_ps : 0;
}

static void worker_wake_due(struct emu_worker *worker, uint64_t now_ps)
{
    uint64_t next_ps = EMU_NEVER, bits = 0;

    for (uint32_t i = worker->devs; i-- > 0;) { /* no branches, as they would be unpredictable */
        uint64_t due_ps = worker->due_ps[i];
        bool due = due_ps <= now_ps;

        due_ps = due ? EMU_NEVER : due_ps;
        next_ps = due_ps < next_ps ? due_ps : next_ps;
        bits = bits << 1 | due;
        if (i % 64 == 0) {
            worker->taken.near[i / 64] |= bits;
            bits = 0;
        }
    }
    worker->next_ps = next_ps;
}

static void worker_take_remote(struct emu_worker *worker, uint32_t i)
{
    struct emu_dev *dev = worker->dev[i];

    for (uint32_t event = 0; event < EMU_EVENTS; event++)
        if (atomic_load_explicit(&dev->ready_remote[event], memory_order_relaxed))
            worker->taken.ready[i][event] |=
                /* W1 */
                atomic_exchange_explicit(&dev->ready_remote[event], 0, memory_order_seq_cst);
}

/*
 * Return the signalled devices of word @w, and clear their bits. The bits must be cleared before
 * the devices read their rings. An entry that is published after a ring was read sets them again.
 */
static uint64_t worker_take(struct emu_worker *worker, uint32_t w)
{
    uint64_t bits = worker->taken.near[w];
    uint64_t remote = 0;

    worker->taken.near[w] = 0;
    if (atomic_load_explicit(&worker->remote[w], memory_order_relaxed))
        remote = atomic_exchange_explicit(&worker->remote[w], 0, memory_order_seq_cst); /* W3 */
    emu_each_bit (i, remote)
        worker_take_remote(worker, w * 64 + i);
    return bits | remote;
}

static void worker_poll_hostifs(struct emu_worker *worker)
{
    const struct emu_hostif_list *list =
        atomic_load_explicit(&worker->hostifs, memory_order_acquire); /* E1 pairs with E2 */

    if (list && list->serial != worker->seen) { /* rebuild the list of interfaces to notify */
        worker->seen = list->serial;
        worker->unnotified = NULL;
        for (uint32_t i = 0; list && i < list->count; i++) {
            list->hostif[i]->unnotified = NULL;
            emu_hostif_mark(list->hostif[i]);
        }
    }
    for (uint32_t i = 0; list && i < list->count; i++)
        emu_hostif_poll(list->hostif[i]);
}

/*
 * Return the devices of @bits in word @w that have not been stepped in this pass, and clear their
 * signals. `stepped` is empty on timed clocks, where all of @bits are returned.
 */
static inline uint64_t worker_take_late(struct emu_worker *worker, uint32_t w, uint64_t bits)
{
    bits &= ~worker->stepped[w];
    worker->taken.near[w] &= ~bits;
    return bits;
}

/*
 * Step the devices @bits of word @w. Also step devices that these signal, if they have higher
 * numbers in the word. Host links (cables to other hosts) have higher numbers than all switches. So
 * segments that take different paths reach a host link in the same pass and leave in one frame.
 * Always inlined with a constant @raw.
 */
static inline __attribute__((always_inline)) uint32_t worker_step_word(struct emu_worker *worker,
                                                                       uint32_t w, uint64_t bits,
                                                                       bool raw)
{
    uint32_t moved = 0;

    while (bits) {
        uint32_t i = emu_bits_first(bits);
        uint64_t behind = ~emu_bits_below(i + 1);

        moved += raw ? worker_step_raw(worker, w * 64 + i)
                     : worker_step(worker, w * 64 + i, worker->now_ps);
        bits &= behind;
        bits |= worker_take_late(worker, w, worker->taken.near[w] & behind);
    }
    return moved;
}

static uint32_t worker_step_timed(struct emu_worker *worker)
{
    uint32_t moved = 0;

    if (worker->next_ps <= worker->now_ps)
        worker_wake_due(worker, worker->now_ps);
    for (uint32_t w = 0; w < worker->words; w++)
        moved += worker_step_word(worker, w, worker_take(worker, w) | worker->always[w], false);
    return moved;
}

/* Return whether a device that has not been stepped in this pass is signalled. */
static bool worker_needs_second_round(const struct emu_worker *worker)
{
    for (uint32_t w = 0; w < worker->words; w++)
        if (worker->taken.near[w] & ~worker->stepped[w])
            return true;
    return false;
}

/* Begin a pass for the devices of word @w. Their requests to be stepped in it take effect now. */
static void worker_begin_word(struct emu_worker *worker, uint32_t w)
{
    worker->stepped[w] = 0;
    worker->poll_now[w] = worker->poll_next[w];
    worker->poll_next[w] = 0;
}

/*
 * Step all signalled devices, each at most once per pass. If few segments have moved, a second
 * round steps devices that were signalled by devices with higher numbers. Without it, a link engine
 * that was signalled by a switch would wait until the host interfaces have been polled. If many
 * segments move, no second round follows, because devices that wait for the next pass handle more
 * segments at a time. (A second round made a tree full of packets 8 % slower.) Devices that asked
 * to be stepped without a signal come last, because no other device waits for them.
 */
static uint32_t worker_step_raw_all(struct emu_worker *worker)
{
    bool poll_now = worker->next_ps != EMU_NEVER;
    uint32_t moved = 0;

    if (poll_now) /* each device that polls requests it again */
        worker->next_ps = worker->max_sleep_ps = EMU_NEVER;
    for (uint32_t w = 0; w < worker->words; w++) {
        worker_begin_word(worker, w);
        moved += worker_step_word(worker, w, worker_take(worker, w) | worker->always[w], true);
    }
    if (moved <= WORKER_FEW_SEGS && worker_needs_second_round(worker))
        for (uint32_t w = 0; w < worker->words; w++)
            moved += worker_step_word(worker, w, worker_take_late(worker, w, worker->taken.near[w]),
                                      true);
    for (uint32_t w = 0; poll_now && w < worker->words; w++)
        moved +=
            worker_step_word(worker, w, worker_take_late(worker, w, worker->poll_now[w]), true);
    return moved;
}

uint32_t emu_worker_pass(struct emu_worker *worker)
{
    uint32_t moved;

    worker->now_ps = emu_clock_now(&worker->clock);
    worker_poll_hostifs(worker);
    moved = worker->clock.mode == EMU_CLOCK_RAW ? worker_step_raw_all(worker)
                                                : worker_step_timed(worker);
    if (worker->unnotified)
        emu_hostif_notify_all(worker, !moved || emu_worker_quiet(worker));
    if (moved)
        emu_oversub_pass_moved(worker);
    else
        emu_oversub_pass_idle(worker);
    worker->woke = worker->preempted = false;
    return moved;
}

uint64_t emu_worker_due_ps(const struct emu_worker *worker)
{
    uint64_t next_ps = EMU_NEVER;

    for (uint32_t i = 0; i < worker->devs; i++)
        if (worker->due_ps[i] < next_ps)
            next_ps = worker->due_ps[i];
    return next_ps;
}

struct ahead {
    const struct emu_dev *dev;
    uint64_t kept; /* result of dev->fetch() in the previous stage */
};

struct group {
    uint32_t count;
    struct ahead at[GROUP];
};

static inline __attribute__((always_inline)) void group_fetch(struct group *group,
                                                              enum emu_fetch what)
{
    for (uint32_t k = 0; k < group->count; k++) {
        struct ahead *at = &group->at[k];

        if (at->dev->fetch)
            at->kept = at->dev->fetch(at->dev, what, at->kept);
    }
}

/*
 * Prefetch the first stage of group @n, which gets no further devices. Prefetch the next stage of
 * each group before it. Then step the devices of the oldest group, and empty it.
 */
static void groups_step(struct emu_worker *worker, struct group *groups, uint32_t n,
                        uint64_t until_ps)
{
    struct group *oldest = &groups[(n - 1 - EMU_FETCHES) % GROUPS];

    for (uint32_t what = 0; what < EMU_FETCHES; what++)
        group_fetch(&groups[(n - 1 - what) % GROUPS], (enum emu_fetch)what);
    for (uint32_t k = 0; k < oldest->count; k++)
        worker_step(worker, oldest->at[k].dev->index, until_ps);
    oldest->count = 0;
}

/*
 * Step all signalled devices, and meanwhile prefetch the devices that follow. With 4096 nodes,
 * whose switches do not fit into the cache, segments pass 1.7 to 2.4 times as many switches per
 * second. For devices that fit into the cache, prefetching costs more than it gains.
 */
static void window_step_ahead(struct emu_worker *worker, uint64_t until_ps)
{
    struct group groups[GROUPS] = {0}, *group = groups;
    uint32_t n = 0;

    for (uint32_t w = 0; w < worker->words; w++)
        emu_each_bit (bit, worker_take(worker, w)) {
            const struct emu_dev *dev = worker->dev[w * 64 + bit];

            emu_fetch_line(dev);
            group->at[group->count++] = (struct ahead){.dev = dev};
            if (group->count < GROUP)
                continue;
            groups_step(worker, groups, n++, until_ps);
            group = &groups[n % GROUPS];
        }
    for (uint32_t end = n + EMU_FETCHES + 2; n < end; n++)
        groups_step(worker, groups, n, until_ps);
}

static void window_step(struct emu_worker *worker, uint64_t until_ps)
{
    for (uint32_t w = 0; w < worker->words; w++)
        emu_each_bit (i, worker_take(worker, w))
            worker_step(worker, w * 64 + i, until_ps);
}

uint64_t emu_worker_window(struct emu_worker *worker, uint64_t until_ps)
{
    struct emu_signals signalled = worker->signalled;
    uint64_t next_ps;

    worker->signalled = worker->taken;
    worker->taken = signalled;
    emu_outbox_begin(worker);
    worker->now_ps = until_ps;
    worker->sent_ps = EMU_NEVER;
    worker_wake_due(worker, until_ps);
    if (worker->devs >= AHEAD_FROM)
        window_step_ahead(worker, until_ps);
    else
        window_step(worker, until_ps);
    assert(worker->sent_ps > until_ps); /* emu_dev_expect() */
    next_ps = worker->next_ps;
    return next_ps < worker->sent_ps ? next_ps : worker->sent_ps;
}

bool emu_worker_quiet(const struct emu_worker *worker)
{
    for (uint32_t w = 0; w < worker->words; w++)
        if (worker->signalled.near[w] ||
            atomic_load_explicit(&worker->remote[w], memory_order_seq_cst))
            return false;
    return true;
}

/*
 * If @wanted, request that processes wake this worker when they post; otherwise cancel the request.
 * Returns whether a process has posted already.
 */
static bool worker_request_wakeups(struct emu_worker *worker, bool wanted)
{
    const struct emu_hostif_list *list =
        atomic_load_explicit(&worker->hostifs, memory_order_acquire); /* E1 */
    bool busy = false;

    for (uint32_t i = 0; list && i < list->count; i++)
        busy |= emu_hostif_bell(list->hostif[i], wanted);
    return busy;
}

/* The worker announces its sleep before it checks once more for work, so no signal is lost. */
static void worker_sleep(struct emu_worker *worker, uint64_t max_sleep_ps)
{
    uint64_t timeout_ns = UINT64_MAX;
    bool busy;

    if (max_sleep_ps != EMU_NEVER)
        timeout_ns = (max_sleep_ps - WORKER_NEAR_PS / 2) / 1000u;
    atomic_exchange_explicit(&worker->asleep, 1, memory_order_seq_cst); /* W5 */
    busy = worker_request_wakeups(worker, true);
    if (!busy && emu_worker_quiet(worker) &&
        !atomic_load_explicit(&worker->stop, memory_order_seq_cst)) {
        emu_rcu_offline();
        emu_waiter_sleep(worker->waiter, timeout_ns);
        emu_rcu_online();
        worker->woke = true;
    }
    atomic_exchange_explicit(&worker->asleep, 0, memory_order_seq_cst);
    worker_request_wakeups(worker, false);
}

/*
 * Keep polling, yield or sleep after an empty pass. @rounds: empty passes in a row. If a device
 * polls without signals, the worker does not yield again within EMU_WAIT_POLL_NS after a yield,
 * except in the first empty pass. More yields would delay segments that arrive during the context
 * switches.
 */
static void worker_idle(struct emu_worker *worker, unsigned *rounds)
{
    uint64_t max_sleep_ps = worker_max_sleep_ps(worker);

    if (!emu_worker_quiet(worker) || emu_oversub_keeps_core(worker))
        return;
    if (*rounds && max_sleep_ps <= WORKER_ONCE_PS && emu_wait_may_poll())
        return;
    if (emu_wait_round((*rounds)++, atomic_load_explicit(&worker->oversubscribed,
                                                         memory_order_relaxed)) == EMU_WAIT_SLEEP) {
        if (max_sleep_ps >= WORKER_NEAR_PS) {
            worker_sleep(worker, max_sleep_ps);
            return;
        }
        emu_wait_yield();
    }
    worker->preempted = emu_wait_was_preempted();
    if (worker->preempted)
        emu_oversub_slice_begins(worker);
}

void emu_worker_hostifs(struct emu_worker *worker, struct emu_hostif_list *list)
{
    list->serial = ++worker->published;
    atomic_store_explicit(&worker->hostifs, list, memory_order_release); /* E2 */
    emu_waiter_ring(worker->waiter);
    emu_rcu_wait();
}

struct emu_thread {
    pthread_t id;
    struct emu_worker *worker;
    struct emu_lockstep *lockstep; /* the thread drives this; NULL: it makes passes of `worker` */
    pthread_mutex_t lock;          /* protects `held` */
    pthread_cond_t moved;          /* signalled when `held` or `stop` has changed */
    bool held; /* the thread is stopped, or was released and has not run since */
};

void emu_worker_rebase(struct emu_worker *worker, uint64_t by_ps)
{
    emu_clock_rebase(&worker->clock, by_ps);
    worker->now_ps = emu_rebased_ps(worker->now_ps, by_ps);
    worker->next_ps = emu_rebased_ps(worker->next_ps, by_ps);
    for (uint32_t i = 0; i < worker->devs; i++) {
        worker->due_ps[i] = emu_rebased_ps(worker->due_ps[i], by_ps);
        worker->dev[i]->next_ps = emu_rebased_ps(worker->dev[i]->next_ps, by_ps);
    }
}

static void thread_wait_paused(struct emu_thread *thread)
{
    emu_rcu_offline();
    pthread_mutex_lock(&thread->lock);
    thread->held = true;
    pthread_cond_broadcast(&thread->moved);
    while (atomic_load_explicit(&thread->worker->stop, memory_order_relaxed) == EMU_WORKER_PAUSES)
        pthread_cond_wait(&thread->moved, &thread->lock);
    thread->held = false;
    pthread_mutex_unlock(&thread->lock);
    emu_rcu_online();
}

/* Set worker->stop, which the thread reads before each pass, and wake the thread if it sleeps. */
static void thread_request(struct emu_thread *thread, enum emu_worker_stop stop)
{
    atomic_store_explicit(&thread->worker->stop, stop, memory_order_seq_cst);
    emu_waiter_ring(thread->worker->waiter);
}

/* Because of the lock, a thread that is still in an earlier pause stays in it. */
static void thread_request_pause(struct emu_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    thread_request(thread, EMU_WORKER_PAUSES);
    pthread_mutex_unlock(&thread->lock);
}

static void thread_await_pause(struct emu_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    while (!thread->held)
        pthread_cond_wait(&thread->moved, &thread->lock);
    pthread_mutex_unlock(&thread->lock);
}

void emu_threads_pause(struct emu_thread *const *thread, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (thread[i])
            thread_request_pause(thread[i]);
    for (uint32_t i = 0; i < count; i++)
        if (thread[i])
            thread_await_pause(thread[i]);
}

void emu_threads_resume(struct emu_thread *const *thread, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!thread[i])
            continue;
        pthread_mutex_lock(&thread[i]->lock);
        atomic_store_explicit(&thread[i]->worker->stop, EMU_WORKER_RUNS, memory_order_relaxed);
        pthread_cond_broadcast(&thread[i]->moved);
        pthread_mutex_unlock(&thread[i]->lock);
    }
}

static bool thread_pass(const struct emu_thread *thread)
{
    return thread->lockstep ? emu_lockstep_pass(thread->lockstep)
                            : emu_worker_pass(thread->worker) != 0;
}

static void thread_idle(const struct emu_thread *thread, unsigned *rounds)
{
    if (thread->lockstep)
        emu_lockstep_idle(thread->lockstep, rounds);
    else
        worker_idle(thread->worker, rounds);
}

static void *thread_main(void *arg)
{
    struct emu_thread *thread = arg;
    struct emu_worker *worker = thread->worker;
    unsigned idle = 0;
    uint32_t stop;

    emu_wait_time_all();
    emu_rcu_enter();
    while ((stop = atomic_load_explicit(&worker->stop, memory_order_relaxed)) != EMU_WORKER_STOPS) {
        if (stop == EMU_WORKER_PAUSES)
            thread_wait_paused(thread);
        else if (thread_pass(thread))
            idle = 0;
        else
            thread_idle(thread, &idle);
        emu_rcu_quiescent();
    }
    emu_rcu_leave();
    return NULL;
}

static void thread_free(struct emu_thread *thread)
{
    pthread_cond_destroy(&thread->moved);
    pthread_mutex_destroy(&thread->lock);
    free(thread);
}

int emu_thread_start(struct emu_thread **ret, struct emu_worker *worker,
                     struct emu_lockstep *lockstep, const char *name)
{
    struct emu_thread *thread = malloc(sizeof *thread);
    int err;

    if (!thread)
        return -ENOMEM;
    thread->worker = worker;
    thread->lockstep = lockstep;
    thread->held = false;
    pthread_mutex_init(&thread->lock, NULL);
    pthread_cond_init(&thread->moved, NULL);
    err = emu_spawn(&thread->id, name, thread_main, thread);
    if (err)
        thread_free(thread);
    else
        *ret = thread;
    return err;
}

void emu_thread_stop(struct emu_thread *thread)
{
    if (!thread)
        return;
    thread_request(thread, EMU_WORKER_STOPS);
    pthread_join(thread->id, NULL);
    thread_free(thread);
}
