/* SPDX-License-Identifier: BSD-3-Clause */
/* wait.c - wait for a request, and for segments from the fabric */
#include "nic/host/progress/progress.h"

#include "emu/util/now.h"
#include "emu/util/wait.h"
#include "nic/host/base/base.h"

bool fabemu_test(struct fabemu *fab, struct fabemu_req *req)
{
    if (fabemu_req_status(req) != FABEMU_PENDING)
        return true;
    nic_poll_app(fab);
    return fabemu_req_status(req) != FABEMU_PENDING;
}

static bool nic_is_oversubscribed(const struct fabemu *fab)
{
    return atomic_load_explicit(&fab->hostif.shared->oversubscribed, memory_order_relaxed);
}

/*
 * Sleep until a segment arrives, or for @most_ns, which is at least NIC_NAP_NS. The caller has
 * yielded without success. The sleep lasts only NIC_NAP_NS if a segment waits for space in the ring
 * to the fabric, because the fabric does not wake us when there is space. It also lasts only
 * NIC_NAP_NS if a segment has arrived that is not due yet or that another thread is handling. To
 * yield instead would be an unlimited busy wait, because a link may be down for seconds.
 */
static void nic_nap(const struct fabemu *fab, uint32_t seen_tail, uint64_t most_ns)
{
    const struct timespec nap = {.tv_nsec = NIC_NAP_NS};
    struct emu_hostif_shared *sh = fab->hostif.shared;

    if (atomic_load_explicit(&fab->stalled, memory_order_relaxed))
        most_ns = NIC_NAP_NS;
    if (atomic_load_explicit(&sh->down_tail, memory_order_relaxed) != seen_tail)
        clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
    else
        emu_hostif_nic_sleep(sh, seen_tail, most_ns);
}

void nic_sleep(struct fabemu *fab, uint32_t seen_tail)
{
    if (fab->simulated)
        nic_sim_pause(fab);
    else
        nic_nap(fab, seen_tail, NIC_SLEEP_NS);
}

/*
 * With sched_autogroup, Linux schedules each session as a group, and a yield lets only threads of
 * the same session run. If the fabric or a peer is in another session, it would wait until the
 * scheduler preempts this thread. So if a thread only polls, we let it sleep now and then. We
 * recognise such a thread by its CPU time between several polls. Two polls are not enough, because
 * a thread that computes, and must not be delayed, may poll twice in a row, as MPI_Iprobe does. The
 * CPU time of the polls themselves is not counted, because a single yield may take longer than
 * NIC_NAP_WORK_NS.
 *
 * A sleep costs the worker a system call to wake this thread, and this thread a scheduling delay.
 * Together these take twice as long as an operation of 15 us. So if the fabric is in this session,
 * where a yield lets it run, the first sleep begins at a time when most waits have ended.
 */
void fabemu_idle(const struct fabemu *fab, unsigned rounds)
{
    /* polls without success in this wait, up to NIC_NAP_MISSES */
    static _Thread_local unsigned misses;
    static _Thread_local struct {
        uint64_t left_ns;   /* the thread's CPU time after the last poll; 0: unknown */
        uint64_t worked_ns; /* CPU time between polls since the last sleep */
        unsigned polls;     /* polls since the last sleep, or since the thread last computed */
    } since;

    if (fab->simulated)
        return; /* nic_sim_poll() has waited */
    if (emu_wait_round(rounds, nic_is_oversubscribed(fab)) == EMU_WAIT_AGAIN) {
        misses = 0;
        since.left_ns = 0;
        return;
    }
    if (!fab->other_session && misses < NIC_NAP_MISSES) {
        misses++;
        since.left_ns = 0;
        emu_wait_yield();
        return;
    }
    if (since.left_ns)
        since.worked_ns += emu_time_ns(CLOCK_THREAD_CPUTIME_ID) - since.left_ns;
    if (nic_is_defunct(fab) || ++since.polls < NIC_NAP_POLLS) {
        emu_wait_yield();
    } else {
        if (since.worked_ns > NIC_NAP_POLLS * NIC_NAP_WORK_NS)
            emu_wait_yield();
        else
            nic_nap(fab, atomic_load_explicit(&fab->seen_tail, memory_order_acquire),
                    NIC_NAP_NS); /* N2 */
        since.polls = 0;
        since.worked_ns = 0;
    }
    since.left_ns = emu_time_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Sleep, unless @req has completed since the last poll. */
static void wait_sleep(struct fabemu *fab, const struct fabemu_req *req)
{
    uint32_t seen;

    atomic_fetch_add_explicit(&fab->sleepers, 1, memory_order_seq_cst);
    seen = atomic_load_explicit(&fab->seen_tail, memory_order_acquire); /* N2 */
    if (fabemu_req_status(req) == FABEMU_PENDING)
        nic_sleep(fab, seen);
    atomic_fetch_sub_explicit(&fab->sleepers, 1, memory_order_relaxed);
}

int fabemu_wait(struct fabemu *fab, struct fabemu_req *req)
{
    unsigned idle = 0;
    int status;

    while ((status = fabemu_req_status(req)) == FABEMU_PENDING) {
        if (nic_is_defunct(fab))
            return nic_fail_defunct();
        if (nic_poll_app(fab))
            idle = 0;
        else if (!fab->simulated && fabemu_req_status(req) == FABEMU_PENDING &&
                 emu_wait_round(idle++, nic_is_oversubscribed(fab)) == EMU_WAIT_SLEEP)
            wait_sleep(fab, req);
    }
    return status;
}
