/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * simtime.c - clock virtual: how the local time of this process advances.
 *
 * A poll takes the time of a call (base/compute.c), and if it finds nothing, at least
 * NIC_SIM_POLL_PS. Reading the clock takes NIC_SIM_READ_PS. So time advances in each loop. A
 * process that polls twice without success, and does nothing else in between, waits for its next
 * segment. The wait has a limit that grows with each further poll, because a program may poll a
 * limited number of times before it does something for which others wait. A program may compute
 * between two tests (MPI_Test), so polls in tests do not wait. But after NIC_SIM_TESTS tests in a
 * row that find nothing, each further test waits for a short time. Work between tests ends the row
 * only if it counts as computing (base/compute.c). These rules use only the program's calls and
 * simulated time, so results do not depend on the host.
 */
#include "nic/host/progress/progress.h"

#include <dlfcn.h>
#include <string.h>

#include "emu/util/clock.h"
#include "emu/util/count.h"
#include "nic/host/base/compute.h"
#include "nic/host/base/local_time.h"
#include "nic/host/base/lock.h"

#define NIC_SIM_POLL_PS  50000u
#define NIC_SIM_READ_PS  20000u
#define NIC_SIM_STILL    20000u                /* readings by other threads, see read_elsewhere() */
#define NIC_SIM_FIRST_PS UINT64_C(10000000)    /* limit of the first wait: 10 us */
#define NIC_SIM_TESTS    10000u                /* tests in a row before tests wait; >= 500 us */
#define NIC_SIM_MOST_PS  UINT64_C(10000000000) /* limit of any wait: 10 ms */

/* Return whether the calling thread is in a call that only tests, such as MPI_Test(). */
static bool is_test(const struct fabemu *fab)
{
    return fab->sim.compute.testing && nic_sim_is_owner(fab);
}

/*
 * Count a poll that found nothing. Returns 0 if this poll must not wait. Otherwise it may wait, and
 * the result counts the waits in a row: 1 for the first one.
 */
static uint32_t count_empty(struct fabemu *fab)
{
    if (!is_test(fab))
        return atomic_fetch_add_explicit(&fab->sim.empty, 1, memory_order_relaxed);
    if (fab->sim.tests < NIC_SIM_TESTS) {
        fab->sim.tests++;
        return 0;
    }
    return 1; /* this wait does not grow */
}

static void reset_empty(struct fabemu *fab)
{
    atomic_store_explicit(&fab->sim.empty, 0, memory_order_relaxed);
    if (nic_sim_is_owner(fab))
        fab->sim.tests = 0;
}

/* Wait until the down ring has all segments that arrive by the local time. */
static void await_present(struct fabemu *fab)
{
    const struct emu_simtime *sim = &fab->hostif.shared->sim;
    uint64_t now_ps = nic_local_ps(fab);

    if (nic_was_outside(fab) ||
        atomic_load_explicit(&sim->reached_ps, memory_order_acquire) < now_ps) /* Z6 */
        nic_await(fab, now_ps);
    else
        atomic_store_explicit(&fab->hostif.simulated_ps, now_ps, memory_order_relaxed);
}

/* Receive and send. If the up ring is full afterwards, the next wait ends when it has space. */
static uint32_t poll_rings(struct fabemu *fab)
{
    atomic_store_explicit(&fab->hostif.shared->sim.room_wanted, 0, memory_order_relaxed);
    return nic_poll(fab);
}

/*
 * Return the local time at which a wait ends at the latest. @waits: number of waits in a row before
 * it. Each wait is four times as long as the one before it, up to NIC_SIM_MOST_PS.
 */
static uint64_t limit_ps(const struct fabemu *fab, uint32_t waits)
{
    uint64_t most_ps = nic_local_ps(fab) +
                       (waits < 5 ? NIC_SIM_FIRST_PS << 2 * waits : NIC_SIM_MOST_PS);

    if (!emu_list_empty(&fab->again) && fab->again_ns * 1000 < most_ps)
        most_ps = fab->again_ns * 1000;
    return most_ps;
}

/*
 * Poll before simulated time begins. The host decides how often a process does so, so these polls
 * take no time, and do not count as polls without success.
 */
static uint32_t poll_before_begin(struct fabemu *fab)
{
    uint32_t moved = poll_rings(fab);

    if (!moved)
        nic_await(fab, nic_local_ps(fab));
    return moved;
}

static uint32_t poll_in_turn(struct fabemu *fab)
{
    uint64_t call_ps = fab->hostif.shared->sim.call_ps;
    uint32_t moved, empty;

    if (!nic_sim_has_begun(fab))
        return poll_before_begin(fab);
    await_present(fab);
    moved = poll_rings(fab);
    if (!moved) {
        empty = count_empty(fab);
        if (!empty) {
            nic_spend(fab, call_ps > NIC_SIM_POLL_PS ? call_ps : NIC_SIM_POLL_PS);
            return 0;
        }
        nic_await(fab, limit_ps(fab, empty - 1));
        moved = poll_rings(fab);
    }
    if (moved) {
        reset_empty(fab);
        nic_spend(fab, call_ps);
    }
    return moved;
}

/* Account for the time @ps that a poll of the owner has taken. */
static void count_wait(struct fabemu *fab, uint64_t ps)
{
    struct nic_compute *c = &fab->sim.compute;

    c->polling_ps += ps;
    c->idle_ps += ps;
    if (emu_count_read(&fab->sim.completed) != c->seen)
        nic_sim_progress(fab);
}

uint32_t nic_sim_poll(struct fabemu *fab)
{
    static const struct emu_call call = {.kind = EMU_CALL_POLL};
    uint64_t began_ps;
    uint32_t moved;

    nic_call_begin(fab, &call);
    atomic_store_explicit(&fab->sim.elsewhere, 0, memory_order_relaxed);
    nic_turn_take(fab);
    began_ps = nic_local_ps(fab);
    moved = poll_in_turn(fab);
    if (nic_sim_is_owner(fab) && nic_sim_has_begun(fab))
        count_wait(fab, nic_local_ps(fab) - began_ps);
    nic_turn_release(fab);
    nic_call_end(fab, &call, false);
    return moved;
}

void nic_sim_pause(struct fabemu *fab)
{
    nic_turn_take(fab);
    nic_await(fab, nic_local_ps(fab) + NIC_SIM_MOST_PS);
    nic_turn_release(fab);
}

static const struct emu_call clock_call = {.kind = EMU_CALL_CLOCK};

void fabemu_await_time(struct fabemu *fab)
{
    if (!fab->simulated || nic_is_defunct(fab))
        return;
    nic_ready(fab);
    nic_turn_take(fab);
    while (!nic_sim_has_begun(fab) && !nic_is_defunct(fab))
        nic_await(fab, nic_local_ps(fab));
    nic_turn_release(fab);
    nic_call_end(fab, &clock_call, false);
}

bool fabemu_testing(struct fabemu *fab, bool testing)
{
    if (fab->simulated && nic_sim_is_owner(fab))
        fab->sim.compute.testing = testing;
    return fab->simulated;
}

/* --- the clocks of the program ------------------------------------------------------ */

static void note(struct fabemu *fab, enum emu_host_time how)
{
    atomic_fetch_or_explicit(&fab->hostif.shared->sim.host_time, how, memory_order_relaxed);
}

/*
 * Handle a reading of the clock by another thread than the owner. The host decides when that thread
 * runs, so its readings must not advance the local time. But that thread may read the clock in a
 * loop until a certain time, while no thread polls and the owner makes no call (for example,
 * because the owner is in pthread_join()). Then time would stand still, so after many readings each
 * further one advances it.
 */
static void read_elsewhere(struct fabemu *fab)
{
    if (atomic_fetch_add_explicit(&fab->sim.elsewhere, 1, memory_order_relaxed) < NIC_SIM_STILL ||
        !nic_turn_try(fab))
        return;
    note(fab, EMU_HOST_TIME_THREADS);
    nic_spend(fab, NIC_SIM_READ_PS);
    nic_turn_release(fab);
}

static bool read_clock(void *ctx, clockid_t id, struct timespec *ret)
{
    struct fabemu *fab = ctx;
    const struct emu_simtime *sim = &fab->hostif.shared->sim;
    bool real = id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE || id == CLOCK_TAI;
    uint64_t began_ps, ns;

    if (nic_is_defunct(fab) || !nic_sim_has_begun(fab))
        return false;
    began_ps = nic_local_ps(fab);
    nic_outside_ends(fab);
    if (nic_sim_is_owner(fab))
        fab->sim.compute.idle_ps += nic_local_ps(fab) - began_ps;
    nic_call_begin(fab, &clock_call);
    if (nic_sim_is_owner(fab)) {
        nic_spend(fab, NIC_SIM_READ_PS);
        reset_empty(fab);
    } else {
        read_elsewhere(fab);
    }
    ns = nic_local_ps(fab) / 1000 + atomic_load_explicit(real ? &sim->base_real_ns : &sim->base_ns,
                                                         memory_order_relaxed); /* after Z8 */
    *ret = (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    nic_call_end(fab, &clock_call, false);
    return true;
}

/* Return the time that is @ps after the local time, but at most the last simulated time. */
static uint64_t later_ps(const struct fabemu *fab, uint64_t ps)
{
    uint64_t now_ps = nic_local_ps(fab);

    return now_ps < EMU_LAST_PS && ps < EMU_LAST_PS - now_ps ? now_ps + ps : EMU_LAST_PS;
}

/* Let @ps of simulated time pass. The adapter handles segments when they arrive. Lock: not held. */
static void pass(struct fabemu *fab, uint64_t ps)
{
    uint64_t until_ps;

    nic_turn_take(fab);
    reset_empty(fab);
    await_present(fab);
    until_ps = later_ps(fab, ps);
    while (nic_local_ps(fab) < until_ps && !nic_is_defunct(fab)) {
        nic_await(fab, until_ps);
        poll_rings(fab);
    }
    nic_turn_release(fab);
}

void nic_sim_settle(struct fabemu *fab)
{
    if (fab->simulated && nic_sim_has_begun(fab) && !nic_is_defunct(fab))
        pass(fab, 0);
}

/*
 * Shorter sleeps are not reported. A reported sleep means that the lack of progress is no
 * standstill, so the deadlock of a program that polls between short sleeps would not be found.
 */
#define SLEEP_REPORTED_NS 1000000000u

static void report_sleep(struct fabemu *fab, uint64_t ns)
{
    uint64_t now_ns = nic_now_ns(fab);

    if (ns < SLEEP_REPORTED_NS)
        return;
    nic_lock(fab);
    nic_pending_sleep(fab, ns < UINT64_MAX - now_ns ? now_ns + ns : UINT64_MAX);
    nic_unlock(fab);
}

/*
 * A signal handler may have interrupted a call of this library that holds a lock. The handler must
 * then sleep by the host's time: no segment can be received until the interrupted call goes on, and
 * that call may have prepared a segment with the present time.
 */
static bool sleep_simulated(void *ctx, uint64_t ns)
{
    struct fabemu *fab = ctx;
    uint64_t began_ps;

    if (nic_is_defunct(fab) || !nic_sim_has_begun(fab) || !nic_sim_may_enter(fab))
        return false;
    nic_call_begin(fab, &clock_call);
    report_sleep(fab, ns);
    began_ps = nic_local_ps(fab);
    pass(fab, ns < EMU_LAST_PS / 1000 ? ns * 1000 : EMU_LAST_PS);
    fab->sim.compute.idle_ps += nic_local_ps(fab) - began_ps;
    nic_call_end(fab, &clock_call, false);
    return true;
}

static void note_sleep(void *ctx)
{
    struct fabemu *fab = ctx;

    if (!nic_is_defunct(fab) && nic_sim_has_begun(fab))
        note(fab, EMU_HOST_TIME_THREADS);
}

static void note_timer(void *ctx)
{
    struct fabemu *fab = ctx;

    if (!nic_is_defunct(fab))
        note(fab, EMU_HOST_TIME_TIMERS);
}

/* Returns false if libfabemu-clock is not loaded. */
static bool follow(const struct fabemu_clock *clock)
{
    void *symbol = dlsym(RTLD_DEFAULT, FABEMU_CLOCK_FOLLOW);
    fabemu_clock_follow_fn *call;

    if (!symbol)
        return false;
    memcpy(&call, &symbol, sizeof call); /* C has no cast from void * to a function's address */
    call(clock);
    return true;
}

void nic_sim_begin(struct fabemu *fab)
{
    if (!fab->simulated)
        return;
    pthread_mutex_init(&fab->sim.turn, NULL);
    fab->sim.owner = pthread_self();
    fab->sim.pass = pass;
    fab->sim.clock =
        (struct fabemu_clock){read_clock, sleep_simulated, note_sleep, note_timer, fab};
    if (!follow(&fab->sim.clock))
        note(fab, EMU_HOST_TIME_CLOCKS);
}

void nic_sim_end(struct fabemu *fab)
{
    bool defunct;

    if (!fab->simulated)
        return;
    /* other threads may wait for simulated time, and follow() waits until they return; the fabric
       does not end their waits any more */
    defunct = atomic_exchange_explicit(&fab->defunct, true, memory_order_relaxed);
    follow(NULL);
    atomic_store_explicit(&fab->defunct, defunct, memory_order_relaxed);
    pthread_mutex_destroy(&fab->sim.turn);
}
