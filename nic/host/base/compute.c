/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compute.c - clock virtual: how the local time of this process advances between two calls of this
 * library, and by each call.
 *
 * This file measures the work of the thread between the end of one call and the beginning of the
 * next: the work of the program, MPI and libfabric, but not that of this library. Reading the CPU
 * time is a system call of about 0.2 us, and each call of the library needs two.
 *
 * A program waits by polling, and its work between two polls is not computing. So less work than
 * POLL_GAP_MOST between two polls does not count. Polls and readings of the clock are *soft* calls.
 * Before any other soft call, less work than SOFT_LEAST does not count at once, but at a later
 * call. Otherwise a loop of such calls would make many records.
 *
 * While a program computes for longer than UNATTENDED_NS, the library handles arriving segments, as
 * its own thread does on other clocks (progress/thread.c).
 */
#include "nic/host/base/compute.h"

#include <stdio.h>
#include <unistd.h>

#include "emu/util/count.h"
#include "emu/util/instructions.h"
#include "emu/util/now.h"
#include "emu/util/random.h"
#include "nic/host/base/base.h"
#include "nic/host/base/local_time.h"
#include "nic/host/base/lock.h"
#include "nic/host/base/tape.h"
#include "nic/host/base/trace.h"

/* two limits of work: ns of CPU time, or instructions */
#define SOFT_LEAST    2000u
#define POLL_GAP_MOST 20000u
#define UNATTENDED_NS UINT64_C(10000000)

static const struct emu_compute *compute_of(const struct fabemu *fab)
{
    return &fab->hostif.shared->sim.compute;
}

static bool is_measured(const struct fabemu *fab)
{
    return compute_of(fab)->mode != EMU_COMPUTE_NONE && compute_of(fab)->mode != EMU_COMPUTE_REPLAY;
}

static bool is_recorded(const struct fabemu *fab)
{
    return fab->sim.compute.tape && !fab->sim.compute.replays;
}

/* Advance the local time by @ns, for which the program has computed. */
static void advance(struct fabemu *fab, uint64_t ns)
{
    struct emu_simtime *sim = &fab->hostif.shared->sim;
    uint64_t alone_ns = ns < UNATTENDED_NS ? ns : UNATTENDED_NS;

    if (!ns)
        return;
    fab->sim.tests = 0;
    emu_count(&sim->computed_ps, ns * 1000);
    nic_spend(fab, alone_ns * 1000);
    if (ns > alone_ns)
        fab->sim.pass(fab, (ns - alone_ns) * 1000);
}

/* Return the work of this thread so far, in units of emu_compute.unit_ps. */
static uint64_t work(const struct nic_compute *c)
{
    uint64_t count;

    if (c->counter < 0)
        return emu_time_ns(CLOCK_THREAD_CPUTIME_ID);
    return read(c->counter, &count, sizeof count) == sizeof count ? count : c->work_at_return;
}

/*
 * Return whether the call is a poll that follows another poll. Then the program waits, so return
 * false in a call such as MPI_Test(), which does not wait.
 */
static bool is_repeated_poll(const struct nic_compute *c, const struct emu_call *call)
{
    return call->kind == EMU_CALL_POLL && c->polled && !c->testing;
}

/*
 * Return the counter of soft calls of this kind since the last call on the tape (tape.h). It does
 * not count repeated polls.
 */
static uint64_t *soft_calls(struct nic_compute *c, const struct emu_call *call)
{
    return call->kind == EMU_CALL_POLL ? &c->polls : &c->readings;
}

static void count_soft(struct nic_compute *c, const struct emu_call *call)
{
    if (emu_call_is_soft(call->kind) && !is_repeated_poll(c, call))
        ++*soft_calls(c, call);
}

static void reset_soft_calls(struct nic_compute *c)
{
    c->polls = c->readings = 0;
}

/* Record that the program has computed before a poll or a reading of the clock. */
static void record_soft(struct nic_compute *c, const struct emu_call *call)
{
    const struct emu_call done = {.kind = call->kind,
                                  .bytes = *soft_calls(c, call) - 1,
                                  .ns = c->pending_ns};

    nic_tape_put(c->tape, &done);
    c->pending_ns = 0;
    reset_soft_calls(c);
}

/* Measure the time computed before @call. Returns how much of it passes now. */
static uint64_t measured_ns(struct fabemu *fab, const struct emu_call *call)
{
    struct nic_compute *c = &fab->sim.compute;
    uint64_t now = work(c), done = now - c->work_at_return, ns;

    c->work_at_return = now;
    if (is_repeated_poll(c, call) && done < POLL_GAP_MOST)
        return 0;
    c->uncounted += done;
    if (emu_call_is_soft(call->kind) && c->uncounted < SOFT_LEAST)
        return 0;
    ns = (uint64_t)((double)c->uncounted * compute_of(fab)->unit_ps / 1000);
    c->uncounted = 0;
    if (!is_recorded(fab))
        return ns;
    c->pending_ns += ns;
    if (emu_call_is_soft(call->kind) && !is_repeated_poll(c, call))
        record_soft(c, call);
    return ns;
}

/* --- replay -------------------------------------------------------------------------- */

/* Report that the program makes @call, which is not the next call of the recording. */
static void report_difference(struct fabemu *fab, const struct emu_call *call)
{
    struct nic_compute *c = &fab->sim.compute;
    struct emu_simtime *sim = &fab->hostif.shared->sim;
    char recorded[96], made[96], rank[32];
    uint64_t calls = 1;

    for (int i = 0; i < EMU_CALL_CLASSES; i++)
        calls += emu_count_read(&sim->calls[i]);
    emu_call_text(nic_tape_next(c->tape), recorded, sizeof recorded);
    emu_call_text(call, made, sizeof made);
    if (c->rank >= 0)
        snprintf(rank, sizeof rank, "rank %d", c->rank);
    else
        snprintf(rank, sizeof rank, "node %u", fab->info.node);
    fprintf(stderr,
            "fabemu: %s, call %llu: the recording has %s, the program made %s; from here on its "
            "computing takes no time\n",
            rank, (unsigned long long)calls, recorded, made);
    atomic_store_explicit(&sim->differs, 1, memory_order_relaxed);
    nic_tape_close(c->tape);
    c->tape = NULL;
}

/*
 * Return the recorded time before @call. It is 0 for a repeated poll. For a post, add the times of
 * recorded polls and readings of the clock that the program did not make in this run.
 */
static uint64_t replayed_ns(struct fabemu *fab, const struct emu_call *call)
{
    struct nic_compute *c = &fab->sim.compute;
    struct emu_call *next = nic_tape_next(c->tape);
    uint64_t ns = 0;

    if (emu_call_is_soft(call->kind)) {
        if (next->kind != call->kind || is_repeated_poll(c, call) ||
            *soft_calls(c, call) <= next->bytes)
            return 0;
        ns = next->ns;
        nic_tape_skip(c->tape);
        reset_soft_calls(c);
        return ns;
    }
    for (; emu_call_is_soft(next->kind); nic_tape_skip(c->tape))
        ns += next->ns;
    ns += next->ns;
    next->ns = 0; /* if the call fails, and the program tries again */
    if (next->kind != call->kind || next->node != call->node || next->bytes != call->bytes)
        report_difference(fab, call);
    return ns;
}

/* --- calls --------------------------------------------------------------------------- */

/* Return whether a call of this thread takes time, and is recorded or replayed. */
static bool is_counted(const struct fabemu *fab)
{
    return nic_sim_may_enter(fab) && !nic_is_defunct(fab);
}

static void begin_counted(struct fabemu *fab, const struct emu_call *call)
{
    struct nic_compute *c = &fab->sim.compute;
    uint64_t ns = 0;

    atomic_store_explicit(&fab->sim.elsewhere, 0, memory_order_relaxed);
    c->began = nic_sim_has_begun(fab);
    if (!c->began && emu_call_is_soft(call->kind))
        return;
    count_soft(c, call);
    if (c->tape && c->replays)
        ns = replayed_ns(fab, call);
    if (!c->began)
        return;
    if (is_measured(fab))
        ns = measured_ns(fab, call);
    advance(fab, ns);
    if (!emu_call_is_soft(call->kind))
        nic_spend(fab, fab->hostif.shared->sim.call_ps);
}

void nic_call_begin(struct fabemu *fab, const struct emu_call *call)
{
    if (!is_counted(fab))
        return;
    nic_sim_enter(fab);
    begin_counted(fab, call);
    nic_sim_leave(fab);
}

/* Add @call to the digest of the process. A post before simulated time begins has no time. */
static void add_to_digest(struct fabemu *fab, const struct emu_call *call)
{
    struct emu_simtime *sim = &fab->hostif.shared->sim;
    uint64_t digest = emu_count_read(&sim->digest);

    if (!nic_sim_has_begun(fab))
        return;
    digest = emu_mix(digest ^ nic_local_ps(fab));
    digest = emu_mix(digest ^ call->bytes);
    digest = emu_mix(digest ^ ((uint64_t)call->kind << 32 | call->node));
    /* only the thread that has attached writes this word */
    atomic_store_explicit(&sim->digest, digest, memory_order_relaxed);
}

void nic_sim_progress(struct fabemu *fab)
{
    struct nic_compute *c = &fab->sim.compute;

    emu_count(&fab->hostif.shared->sim.waited_ps[c->last], c->polling_ps);
    emu_count(&fab->hostif.shared->sim.progress, 1);
    c->polling_ps = c->idle_ps = 0;
    c->seen = emu_count_read(&fab->sim.completed);
}

/* Handle a posted @call: record it, or advance to the next call of the recording. */
static void posted_one(struct fabemu *fab, const struct emu_call *call)
{
    struct emu_simtime *sim = &fab->hostif.shared->sim;
    struct nic_compute *c = &fab->sim.compute;
    struct emu_call done = *call;

    if (call->kind == EMU_CALL_END) {
        atomic_store_explicit(&sim->finished_ps, nic_local_ps(fab) - c->idle_ps,
                              memory_order_relaxed);
    } else {
        nic_sim_progress(fab);
        add_to_digest(fab, call);
        c->last = emu_call_class(call->kind);
        emu_count(&sim->calls[c->last], 1);
    }
    if (!c->tape)
        return;
    reset_soft_calls(c);
    if (c->replays) {
        nic_tape_skip(c->tape);
        return;
    }
    done.ns = c->pending_ns;
    c->pending_ns = 0;
    nic_tape_put(c->tape, &done);
}

void nic_call_end(struct fabemu *fab, const struct emu_call *call, bool posted)
{
    struct nic_compute *c = &fab->sim.compute;

    if (!is_counted(fab))
        return;
    nic_sim_enter(fab);
    c->polled = call->kind == EMU_CALL_POLL && c->began;
    if (posted)
        posted_one(fab, call);
    if (is_measured(fab))
        c->work_at_return = work(c);
    nic_sim_leave(fab);
}

/* --- begin and end ------------------------------------------------------------------- */

int nic_compute_open(struct fabemu *fab, int calls_fd)
{
    enum emu_compute_mode mode = fab->simulated ? compute_of(fab)->mode : EMU_COMPUTE_NONE;
    struct nic_compute *c = &fab->sim.compute;

    c->replays = mode == EMU_COMPUTE_REPLAY;
    c->counter = mode == EMU_COMPUTE_COUNT ? emu_instructions_open() : -1;
    if (mode == EMU_COMPUTE_COUNT && c->counter < 0) {
        if (calls_fd >= 0)
            close(calls_fd);
        return c->counter;
    }
    if (mode == EMU_COMPUTE_RECORD || mode == EMU_COMPUTE_REPLAY)
        return nic_tape_open(&c->tape, calls_fd, c->replays);
    if (fab->simulated && compute_of(fab)->traces)
        return nic_trace_open(&fab->sim.trace, calls_fd);
    return 0;
}

void nic_compute_close(struct fabemu *fab)
{
    struct nic_compute *c = &fab->sim.compute;

    nic_tape_close(c->tape);
    c->tape = NULL;
    nic_lock(fab);
    nic_trace_close(fab, fab->sim.trace);
    fab->sim.trace = NULL;
    nic_unlock(fab);
    if (fab->simulated && c->counter >= 0)
        close(c->counter);
    c->counter = -1;
}
