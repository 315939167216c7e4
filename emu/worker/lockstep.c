/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lockstep.c - advance simulated time together with processes. A process either *runs* or *waits*.
 * The labels of its memory orderings begin with Z (docs/ORDERING.md).
 */
#include "emu/worker/lockstep.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "emu/dev/rcu.h"
#include "emu/hostif/fabric/fabric.h"
#include "emu/util/alloc.h"
#include "emu/util/asleep.h"
#include "emu/util/now.h"
#include "emu/worker/windows.h"
#include "emu/worker/worker.h"

/*
 * If all processes wait and no event is left, something outside the fabric must happen next, such
 * as a message from the job's launcher. Processes learn of it by polling, so their waits end after
 * this host time, at an unchanged local time. Waits do not end like this while time stands still at
 * an alarm. Otherwise a process could post at a time that has already been simulated, because there
 * may be events after the alarm. While a process is outside (simtime.h), simulated time advances in
 * steps of this length.
 */
#define LOCKSTEP_OUTSIDE_NS 1000000u

/*
 * While a process runs and nothing happens, this thread checks at this interval whether the process
 * is asleep.
 */
#define LOCKSTEP_CHECK_NS 20000000u
/* A process is outside (simtime.h) if each check for this long has found it asleep. */
#define LOCKSTEP_ASLEEP_NS 50000000u

/*
 * A worker that waits for processes spins this many times, and then sleeps. It does not yield,
 * because a yield takes milliseconds if other programs are busy. A woken thread runs sooner.
 */
#define LOCKSTEP_SPINS 20u

#define SECOND_NS UINT64_C(1000000000)

struct emu_lockstep {
    struct emu_windows *windows;
    struct emu_worker **worker;
    uint32_t workers;
    uint64_t lookahead_ps;
    uint64_t reached_ps;            /* all events up to this time have been simulated */
    _Atomic uint64_t shown_ps;      /* a copy of reached_ps for other threads */
    bool hold;                      /* time has not begun, since not all processes are ready */
    bool complete;                  /* all processes have attached: emu_lockstep_complete() */
    uint64_t base_ns, base_real_ns; /* the processes' clocks at time 0; 0: time has not begun */
    uint32_t date_s;                /* the processes' date at time 0; 0: the host's date */
    bool all_wait;                  /* in the last pass no process was running, or time was held */
    bool any_outside;               /* in the last pass a process was outside */
    uint64_t alarm_ps; /* time does not advance beyond this; EMU_NEVER: there is no alarm */
    int alarm_fd;      /* eventfd to write when time reaches the alarm; -1: none, or written */
    uint64_t check_ns; /* host time of the next check for processes that are asleep */
};

/* Iterate over the host interfaces of all workers. */
#define each_hostif(lockstep, list, i)                                                      \
    for (uint32_t w_ = 0; w_ < (lockstep)->workers; w_++)                                   \
        for (const struct emu_hostif_list *list = hostifs_of((lockstep)->worker[w_]); list; \
             list = NULL)                                                                   \
            for (uint32_t i = 0; i < list->count; i++)

static const struct emu_hostif_list *hostifs_of(const struct emu_worker *worker)
{
    return atomic_load_explicit(&worker->hostifs, memory_order_acquire); /* E1 pairs with E2 */
}

static uint64_t later(uint64_t a_ps, uint64_t b_ps)
{
    return a_ps > b_ps ? a_ps : b_ps;
}

/* Return the sum of two times, or EMU_NEVER. */
static uint64_t after(uint64_t at_ps, uint64_t by_ps)
{
    return at_ps < EMU_NEVER - by_ps ? at_ps + by_ps : EMU_NEVER;
}

/* Return @named_ps, which a process has named, or @otherwise_ps if it is later than EMU_LAST_PS. */
static uint64_t valid_ps(uint64_t named_ps, uint64_t otherwise_ps)
{
    return named_ps <= EMU_LAST_PS ? named_ps : otherwise_ps;
}

/* Return the local time of a process: the time that it names, or the end of its last wait. */
static uint64_t local_ps(const struct emu_hostif *hostif)
{
    uint64_t named_ps =
        atomic_load_explicit(&hostif->shared->sim.now_ps, memory_order_acquire); /* Z2: Z1 */

    return later(valid_ps(named_ps, 0), hostif->sim_now_ps);
}

/* Return whether segment @number of the down ring does not end the process's wait. */
static bool is_quiet(const struct emu_hostif *hostif, uint32_t number)
{
    const struct emu_hostif_shared *shared = hostif->shared;
    const struct emu_simtime *sim = &shared->sim;
    uint32_t at = emu_hostif_slot_at(number, hostif->down_shift);
    const struct emu_seg *seg = &shared->down[at].seg;
    uint64_t word;

    if (shared->down_mcast_ref[at] || seg->hdr.kind != EMU_UNICAST || seg->hdr.len < sizeof word)
        return false;
    memcpy(&word, seg->payload, sizeof word);
    return emu_hdr_words(&seg->hdr).ends ==
               atomic_load_explicit(&sim->quiet_ends, memory_order_relaxed) &&
           word == atomic_load_explicit(&sim->quiet_word, memory_order_relaxed);
}

/*
 * Return how many of the @unread segments from @head on are quiet, up to the first one that is not.
 * During one wait, each call continues the count of the last call.
 */
static uint32_t count_quiet(struct emu_hostif *hostif, uint32_t head, uint32_t unread)
{
    uint32_t most = atomic_load_explicit(&hostif->shared->sim.quiet_most, memory_order_relaxed);

    if (most > unread)
        most = unread;
    if (hostif->sim_quiet_of != hostif->sim_seen)
        hostif->sim_quiet = 0;
    hostif->sim_quiet_of = hostif->sim_seen;
    while (hostif->sim_quiet < most && is_quiet(hostif, head + hostif->sim_quiet))
        hostif->sim_quiet++;
    return hostif->sim_quiet < most ? hostif->sim_quiet : most;
}

/*
 * Return the arrival time of the first unread segment that is not quiet; EMU_NEVER: there is none.
 * The number of unread segments depends on a word that the process writes, so it may be forged. If
 * it is larger than the ring, no segment counts as unread.
 */
static uint64_t unread_ps(struct emu_hostif *hostif)
{
    const struct emu_hostif_shared *shared = hostif->shared;
    uint32_t head = atomic_load_explicit(&shared->down_head, memory_order_acquire); /* X3: Y4 */
    uint32_t unread = hostif->down_published - head;

    if (unread == 0 || unread > EMU_HOSTIF_SLOTS)
        return EMU_NEVER;
    head += count_quiet(hostif, head, unread);
    if (head == hostif->down_published)
        return EMU_NEVER;
    return shared->down_ps[emu_hostif_slot_at(head, hostif->down_shift)];
}

/*
 * Return the time up to which the fabric may be simulated while the process runs at @now_ps. The
 * process's next segment reaches the device only after this time.
 */
static uint64_t runs_until_ps(const struct emu_hostif *hostif, uint64_t now_ps)
{
    return after(now_ps, emu_hostif_lookahead_ps(hostif) - 1);
}

/* Return when the up ring has the space for which the process waits; EMU_NEVER: not known yet. */
static uint64_t room_ps(const struct emu_hostif *hostif)
{
    const struct emu_hostif_shared *shared = hostif->shared;
    uint32_t number = atomic_load_explicit(&shared->sim.room_at, memory_order_relaxed);
    uint32_t at = emu_hostif_slot_at(number, hostif->up_shift);

    if (!atomic_load_explicit(&shared->sim.room_wanted, memory_order_relaxed) ||
        emu_hostif_taken(hostif) - number - 1 >= EMU_HOSTIF_SLOTS)
        return EMU_NEVER;
    return valid_ps(__atomic_load_n(&shared->up_ps[at], __ATOMIC_RELAXED), EMU_NEVER);
}

/* Return when the wait of @hostif's process ends. */
static uint64_t wait_end_ps(struct emu_hostif *hostif)
{
    const struct emu_simtime *sim = &hostif->shared->sim;
    uint64_t until_ps = atomic_load_explicit(&sim->until_ps, memory_order_relaxed);
    uint64_t end_ps = emu_earlier(unread_ps(hostif), room_ps(hostif));

    return later(local_ps(hostif), emu_earlier(valid_ps(until_ps, EMU_NEVER), end_ps));
}

/* Z5 pairs with Z6: a process whose wait ends sees all segments that have arrived. */
static void end_wait(struct emu_hostif *hostif, uint64_t at_ps)
{
    struct emu_simtime *sim = &hostif->shared->sim;

    hostif->sim_now_ps = at_ps;
    hostif->sim_ended = hostif->sim_seen;
    atomic_store_explicit(&sim->end_ps, at_ps, memory_order_relaxed);
    atomic_store_explicit(&sim->outside, 0, memory_order_relaxed);
    atomic_store_explicit(&sim->ended, hostif->sim_ended, memory_order_release); /* Z5 */
    syscall(SYS_futex, &sim->ended, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* --- processes that sleep outside the fabric ------------------------------------------ */

/*
 * Count the sleeps after which the process has posted an operation or found one complete. Sleeps
 * after its last operation change only the time that it then reads from a clock: in MPI_Finalize()
 * it sleeps until the launcher has time for it.
 */
static void count_sleeps(struct emu_hostif *hostif)
{
    uint64_t progress = emu_count_read(&hostif->shared->sim.progress);

    if (progress == hostif->progress)
        return;
    emu_count(&hostif->outside_ns, hostif->slept_ns);
    hostif->slept_ns = 0;
    hostif->progress = progress;
}

/*
 * While a process is outside, simulated time advances with the host's time, but in steps, so that
 * this thread can sleep between them. Return the time of the last step.
 */
static uint64_t outside_until_ps(struct emu_hostif *hostif)
{
    uint64_t now_ns = emu_now_ns();
    uint64_t steps = (now_ns - hostif->asleep_ns) / LOCKSTEP_OUTSIDE_NS;

    count_sleeps(hostif);
    hostif->slept_ns += now_ns - hostif->counted_ns;
    hostif->counted_ns = now_ns;
    return after(hostif->asleep_ps, steps * LOCKSTEP_OUTSIDE_NS * 1000);
}

/* Record that the process is awake or waits. If it was outside, its time becomes the fabric's. */
static void outside_ends(const struct emu_lockstep *lockstep, struct emu_hostif *hostif)
{
    hostif->asleep_ns = 0;
    if (!hostif->outside)
        return;
    hostif->outside = false;
    hostif->sim_now_ps = later(hostif->sim_now_ps, lockstep->reached_ps);
}

/*
 * Check whether a running process is asleep. A process that has begun a wait since the last check
 * was awake, so do not ask the kernel about it: this takes long if many processes share few cores.
 */
static void check_asleep(const struct emu_lockstep *lockstep, struct emu_hostif *hostif,
                         uint64_t now_ns)
{
    bool was_awake = hostif->sim_checked != hostif->sim_seen;

    hostif->sim_checked = hostif->sim_seen;
    if (!hostif->pid || hostif->sim_seen != hostif->sim_ended)
        return;
    if (was_awake || atomic_load_explicit(&hostif->shared->sim.requests, memory_order_relaxed) ||
        !emu_is_asleep(hostif->pid)) {
        outside_ends(lockstep, hostif);
    } else if (!hostif->asleep_ns) {
        hostif->asleep_ns = hostif->counted_ns = now_ns;
        hostif->asleep_ps = local_ps(hostif);
    } else if (!hostif->outside && now_ns - hostif->asleep_ns >= LOCKSTEP_ASLEEP_NS) {
        hostif->outside = true;
        atomic_store_explicit(&hostif->shared->sim.outside, 1, memory_order_relaxed);
    }
}

/* If it is time for the check, check all processes. */
static void check_all_asleep(struct emu_lockstep *lockstep)
{
    uint64_t now_ns = emu_now_ns();

    if (lockstep->hold || now_ns < lockstep->check_ns)
        return;
    lockstep->check_ns = now_ns + LOCKSTEP_CHECK_NS;
    each_hostif (lockstep, list, i)
        check_asleep(lockstep, list->hostif[i], now_ns);
}

/* --- a pass --------------------------------------------------------------------------- */

/*
 * Return the time up to which this process allows the fabric to be simulated. End the process's
 * wait if it is over.
 */
static uint64_t hostif_limit_ps(struct emu_lockstep *lockstep, struct emu_hostif *hostif)
{
    struct emu_simtime *sim = &hostif->shared->sim;
    uint64_t now_ps = local_ps(hostif);

    hostif->sim_seen = atomic_load_explicit(&sim->begun, memory_order_acquire); /* Z2: Z1 */
    if (hostif->slept_ns)
        count_sleeps(hostif);
    if (hostif->sim_seen == hostif->sim_ended && hostif->outside) {
        lockstep->any_outside = true;
        return outside_until_ps(hostif);
    }
    if (hostif->sim_seen == hostif->sim_ended) {
        lockstep->all_wait = false;
        return runs_until_ps(hostif, now_ps);
    }
    outside_ends(lockstep, hostif);
    now_ps = wait_end_ps(hostif);
    if (now_ps > lockstep->reached_ps || lockstep->hold)
        return now_ps;
    end_wait(hostif, now_ps);
    lockstep->all_wait = false;
    return runs_until_ps(hostif, now_ps);
}

/* Count new posts whose time has been simulated already. A correct process makes none. */
static void count_late(struct emu_hostif *hostif, uint32_t first)
{
    const struct emu_hostif_shared *shared = hostif->shared;
    uint32_t shift = atomic_load_explicit(&shared->up_shift, memory_order_relaxed); /* after X1 */

    for (; first != hostif->up_polled; first++)
        if (__atomic_load_n(&shared->up_ps[emu_hostif_slot_at(first, shift)], __ATOMIC_RELAXED) <
            hostif->sim_least_ps)
            emu_count(&hostif->late_posts, 1);
}

/* Signal new posts and new space to the devices, which then are stepped in the next window. */
static void hostif_take_posts(const struct emu_lockstep *lockstep, struct emu_hostif *hostif)
{
    uint32_t polled = hostif->up_polled, read = hostif->down_polled;
    uint64_t next_ps = lockstep->reached_ps + 1, cable_ps = emu_hostif_cable_ps(hostif);

    hostif->sim_least_ps = next_ps > cable_ps ? next_ps - cable_ps : 0;
    emu_hostif_poll(hostif);
    if (hostif->up_polled - polled <= EMU_HOSTIF_SLOTS)
        count_late(hostif, polled);
    if (hostif->up_polled != polled || hostif->down_polled != read)
        emu_dev_wake(hostif->dev, lockstep->reached_ps + 1);
}

/* Publish the data that the window has written, and then the time that it has reached. */
static void publish(struct emu_lockstep *lockstep, uint64_t reached_ps)
{
    for (uint32_t w = 0; w < lockstep->workers; w++)
        if (lockstep->worker[w]->unnotified)
            emu_hostif_notify_all(lockstep->worker[w], true);
    lockstep->reached_ps = reached_ps;
    atomic_store_explicit(&lockstep->shown_ps, reached_ps, memory_order_relaxed);
    each_hostif (lockstep, list, i)
        atomic_store_explicit(&list->hostif[i]->shared->sim.reached_ps, reached_ps,
                              memory_order_release); /* Z5 */
}

void emu_lockstep_publish_base(const struct emu_lockstep *lockstep, struct emu_hostif *hostif)
{
    struct emu_simtime *sim = &hostif->shared->sim;

    atomic_store_explicit(&sim->base_real_ns, lockstep->base_real_ns, memory_order_relaxed);
    atomic_store_explicit(&sim->base_ns, lockstep->base_ns, memory_order_release); /* Z7 */
}

/* Let time begin if all processes have attached and are ready. */
static void begin_if_ready(struct emu_lockstep *lockstep)
{
    each_hostif (lockstep, list, i)
        if (!atomic_load_explicit(&list->hostif[i]->shared->sim.ready, memory_order_relaxed))
            return;
    lockstep->hold = false;
    /* a whole second, so that times in floating point are rounded in the same way in each run */
    lockstep->base_ns = (emu_now_ns() / SECOND_NS + 1) * SECOND_NS;
    lockstep->base_real_ns = lockstep->date_s ? lockstep->date_s * SECOND_NS
                                              : emu_time_ns(CLOCK_REALTIME);
    each_hostif (lockstep, list, i)
        emu_lockstep_publish_base(lockstep, list->hostif[i]);
}

/* Return whether time stands still until the thread that has set the alarm sets a later one. */
static bool is_at_alarm(const struct emu_lockstep *lockstep)
{
    return lockstep->reached_ps >= lockstep->alarm_ps;
}

/* If time has reached the alarm, wake the thread that has set it, once. */
static void ring_alarm(struct emu_lockstep *lockstep)
{
    uint64_t one = 1;

    if (lockstep->alarm_fd < 0 || !is_at_alarm(lockstep))
        return;
    if (write(lockstep->alarm_fd, &one, sizeof one) < 0)
        return; /* EAGAIN: it has been written already */
    lockstep->alarm_fd = -1;
}

void emu_lockstep_set_alarm(struct emu_lockstep *lockstep, uint64_t at_ps, int fd)
{
    lockstep->alarm_ps = at_ps;
    lockstep->alarm_fd = at_ps == EMU_NEVER ? -1 : fd;
}

bool emu_lockstep_pass(struct emu_lockstep *lockstep)
{
    uint64_t limit_ps = EMU_NEVER, next_ps;

    if (lockstep->hold && lockstep->complete)
        begin_if_ready(lockstep);
    if (lockstep->any_outside)
        check_all_asleep(lockstep);
    lockstep->all_wait = true;
    lockstep->any_outside = false;
    each_hostif (lockstep, list, i)
        limit_ps = emu_earlier(limit_ps, hostif_limit_ps(lockstep, list->hostif[i]));
    each_hostif (lockstep, list, i)
        hostif_take_posts(lockstep, list->hostif[i]);
    lockstep->all_wait |= lockstep->hold;
    ring_alarm(lockstep);
    next_ps = emu_windows_next_ps(lockstep->windows);
    if (lockstep->hold || (next_ps == EMU_NEVER && limit_ps == EMU_NEVER))
        return false;
    limit_ps = emu_earlier(limit_ps, lockstep->alarm_ps);
    if (limit_ps <= lockstep->reached_ps)
        return false;
    if (next_ps <= limit_ps) {
        limit_ps = emu_earlier(limit_ps, after(next_ps, lockstep->lookahead_ps - 1));
        emu_windows_advance(lockstep->windows, limit_ps);
    }
    publish(lockstep, emu_earlier(limit_ps, EMU_LAST_PS));
    return true;
}

/* Return whether a process has begun a wait since the last pass. */
static bool wait_has_begun(const struct emu_lockstep *lockstep)
{
    each_hostif (lockstep, list, i)
        if (atomic_load_explicit(&list->hostif[i]->shared->sim.begun, memory_order_seq_cst) !=
            list->hostif[i]->sim_seen) /* Z4 */
            return true;
    return false;
}

static void want_bells(const struct emu_lockstep *lockstep, uint32_t what)
{
    each_hostif (lockstep, list, i)
        atomic_exchange_explicit(&list->hostif[i]->shared->bell_wanted, what,
                                 memory_order_seq_cst); /* Z4 */
}

/* End all waits at unchanged local times, so that the processes poll something else. */
static void poll_outside(struct emu_lockstep *lockstep)
{
    each_hostif (lockstep, list, i)
        if (list->hostif[i]->sim_seen != list->hostif[i]->sim_ended)
            end_wait(list->hostif[i], local_ps(list->hostif[i]));
}

void emu_lockstep_idle(struct emu_lockstep *lockstep, unsigned *rounds)
{
    struct emu_worker *worker = lockstep->worker[0];

    if ((*rounds)++ < LOCKSTEP_SPINS) {
        emu_wait_spin();
        return;
    }
    atomic_exchange_explicit(&worker->asleep, 1, memory_order_seq_cst); /* W5 */
    want_bells(lockstep, EMU_HOSTIF_RING_WAIT);
    if (!wait_has_begun(lockstep) && !atomic_load_explicit(&worker->stop, memory_order_seq_cst)) {
        emu_rcu_offline();
        emu_waiter_sleep(worker->waiter,
                         lockstep->all_wait ? LOCKSTEP_OUTSIDE_NS : LOCKSTEP_CHECK_NS);
        emu_rcu_online();
    }
    atomic_exchange_explicit(&worker->asleep, 0, memory_order_seq_cst);
    want_bells(lockstep, 0);
    check_all_asleep(lockstep);
    if (lockstep->all_wait && !lockstep->any_outside && !is_at_alarm(lockstep) &&
        !wait_has_begun(lockstep))
        poll_outside(lockstep);
}

void emu_lockstep_complete(struct emu_lockstep *lockstep)
{
    lockstep->complete = true;
}

uint64_t emu_lockstep_reached_ps(const struct emu_lockstep *lockstep)
{
    return atomic_load_explicit(&lockstep->shown_ps, memory_order_relaxed);
}

int emu_lockstep_create(struct emu_lockstep **ret, struct emu_windows *windows,
                        struct emu_worker **worker, uint32_t workers, uint64_t lookahead_ps,
                        uint32_t date_s)
{
    struct emu_lockstep *lockstep = emu_zeros(sizeof *lockstep);

    if (!lockstep)
        return -ENOMEM;
    *lockstep = (struct emu_lockstep){.windows = windows,
                                      .worker = worker,
                                      .workers = workers,
                                      .hold = true,
                                      .alarm_ps = EMU_NEVER,
                                      .alarm_fd = -1,
                                      .lookahead_ps = lookahead_ps,
                                      .date_s = date_s};
    *ret = lockstep;
    return 0;
}

void emu_lockstep_destroy(struct emu_lockstep *lockstep)
{
    free(lockstep);
}
