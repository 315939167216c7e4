/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compute.c - clock virtual: how the local time of this process advances between two calls of this
 * library, and by each call.
 *
 * Measured is what the thread does between the end of one call and the beginning of the next: the
 * program, MPI and libfabric, but not this library. Reading the CPU time is a system call, of about
 * 0.2 us; there are two for each call.
 *
 * A program that waits polls, and what it does between two polls is no computing. So less than
 * WAITING_NS between two polls do not count. Before other polls and readings of the clock, less
 * than LEAST_NS count only at a later call, so that loops of such calls do not make many records.
 *
 * Of a long time of computing, the library handles segments that arrive only after ALONE_NS, as its
 * own thread does on other clocks (progress/thread.c).
 */
#include "nic/host/base/compute.h"

#include "emu/util/count.h"
#include "emu/util/now.h"
#include "nic/host/base/base.h"

#define LEAST_NS   2000u
#define WAITING_NS 20000u
#define ALONE_NS   UINT64_C(10000000)

static void spend(struct fabemu *fab, uint64_t ps)
{
    _Atomic uint64_t *now_ps = &fab->hostif.shared->sim.now_ps;

    atomic_store_explicit(now_ps, atomic_load_explicit(now_ps, memory_order_relaxed) + ps,
                          memory_order_release); /* Z1 */
}

static const struct emu_compute *compute_of(const struct fabemu *fab)
{
    return &fab->hostif.shared->sim.compute;
}

static bool measures(const struct fabemu *fab)
{
    return compute_of(fab)->mode != EMU_COMPUTE_NONE;
}

/* Let @ns pass, in which the program has computed. */
static void pass(struct fabemu *fab, uint64_t ns)
{
    struct emu_simtime *sim = &fab->hostif.shared->sim;
    uint64_t alone_ns = ns < ALONE_NS ? ns : ALONE_NS;

    if (!ns)
        return;
    emu_count(&sim->computed_ps, ns * 1000);
    spend(fab, alone_ns * 1000);
    if (ns > alone_ns)
        fab->sim.pass(fab, (ns - alone_ns) * 1000);
}

/* Return what this thread has done so far, in units of emu_compute.unit_ps. */
static uint64_t work(void)
{
    return emu_time_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Measure the time computed before @call. Returns how much of it passes now. */
static uint64_t measured_ns(struct fabemu *fab, const struct emu_call *call)
{
    struct nic_compute *c = &fab->sim.compute;
    uint64_t now = work(), ns;

    ns = (uint64_t)((double)(now - c->left) * compute_of(fab)->unit_ps / 1000);
    c->left = now;
    if (call->kind == EMU_CALL_POLL && c->polled && ns < WAITING_NS)
        return 0;
    c->carried_ns += ns;
    if (emu_call_is_soft(call->kind) && c->carried_ns < LEAST_NS)
        return 0;
    ns = c->carried_ns;
    c->carried_ns = 0;
    return ns;
}

void nic_call_begin(struct fabemu *fab, const struct emu_call *call)
{
    if (!nic_sim_is_owner(fab) || nic_is_defunct(fab) || !nic_sim_has_begun(fab))
        return;
    if (measures(fab))
        pass(fab, measured_ns(fab, call));
    if (!emu_call_is_soft(call->kind))
        spend(fab, fab->hostif.shared->sim.call_ps);
}

void nic_call_end(struct fabemu *fab, const struct emu_call *call, bool posted)
{
    struct nic_compute *c = &fab->sim.compute;

    if (!nic_sim_is_owner(fab) || nic_is_defunct(fab))
        return;
    c->polled = call->kind == EMU_CALL_POLL;
    if (posted)
        emu_count(&fab->hostif.shared->sim.calls, 1);
    if (measures(fab))
        c->left = work();
}
