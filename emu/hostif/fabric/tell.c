/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tell.c - the fabric's end of a host interface: notifications to and from the process.
 *
 * Labels: X2 and X4; Y6 and, of the bell, Y5: see hostif/nic.c.
 */
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "emu/hostif/fabric/fabric.h"
#include "emu/util/count.h"

#define EDGE_TELL_SEGS   64u  /* notify after this many segments, */
#define EDGE_TELL_STREAM 256u /* in a stream after this many, */
#define EDGE_TELL_PASSES 4u   /* and always after this many passes */

/* Move the worker to the core of a process that sends it a stream (dev/place.h). */
static void edge_cores(struct emu_hostif *edge, uint32_t news)
{
    struct emu_hostif_shared *shared = edge->shared;
    struct emu_worker *worker = edge->dev->worker;
    uint32_t own = (uint32_t)sched_getcpu() + 1;

    if (news >= EMU_STREAM_SEGS &&
        atomic_load_explicit(&worker->oversubscribed, memory_order_relaxed)) {
        uint32_t core = atomic_load_explicit(&shared->up_core, memory_order_relaxed);

        if (emu_place_hear(&worker->place, edge->node, core, own))
            emu_place_move(core);
    }
}

/*
 * Note the core of a notified process that may answer soon. The receiver of a stream answers later.
 */
static void edge_owes(struct emu_hostif *edge)
{
    uint32_t core = atomic_load_explicit(&edge->shared->post_core, memory_order_relaxed);

    edge->owes = core && !edge->streams ? core : EMU_HOSTIF_ANYWHERE;
}

/*
 * Publish the segments written. X4 pairs with Y3: a process that sees the tail sees the segments.
 * The caller continues with emu_hostif_shown() and emu_hostif_wake(): either we see that the
 * adapter sleeps, or it sees our tail before it does (emu_hostif_nic_sleep). False: nothing is new.
 */
static bool edge_show(struct emu_hostif *edge)
{
    if (edge->down_told == edge->down_tail)
        return false;
    edge->streams = edge->down_tail - edge->down_told >= EMU_STREAM_SEGS;
    edge->down_told = edge->down_tail;
    edge->shown = true;
    emu_hostif_show(&edge->shared->down_tail, edge->down_tail); /* X4 */
    return true;
}

void emu_hostif_wake(struct emu_hostif *edge)
{
    struct emu_hostif_shared *shared = edge->shared;

    if (!edge->shown)
        return;
    edge->shown = false;
    if (atomic_load_explicit(&shared->asleep, memory_order_seq_cst) &&
        atomic_exchange_explicit(&shared->asleep, 0, memory_order_seq_cst))
        syscall(SYS_futex, &shared->asleep, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    edge_owes(edge);
}

/* Publish the space in the up ring. Least urgent, so it comes last. */
static void edge_tell_taken(struct emu_hostif *edge)
{
    uint32_t taken = emu_hostif_taken(edge);

    if (edge->up_told == taken)
        return;
    atomic_store_explicit(&edge->shared->up_head, taken, memory_order_release); /* X2: Y1 */
    edge_cores(edge, taken - edge->up_told);
    edge->up_told = taken;
}

void emu_hostif_mark(struct emu_hostif *edge)
{
    struct emu_worker *worker = edge->dev->worker;

    if (edge->untold)
        return;
    edge->untold = worker->untold ? worker->untold : edge;
    worker->untold = edge;
}

/* The next in a list of interfaces, or NULL. */
static struct emu_hostif *edge_behind(const struct emu_hostif *edge)
{
    return edge->untold == edge ? NULL : edge->untold;
}

void emu_hostif_done(struct emu_hostif *edge, uint32_t moved)
{
    emu_count(&edge->sent, moved);
    emu_hostif_mark(edge);
}

/* Are the unpublished segments a short message rather than part of a stream? */
static bool edge_has_few(const struct emu_hostif *edge)
{
    return edge->down_tail - edge->down_told - 1 < EMU_HOSTIF_FEW && !edge->streams;
}

bool emu_hostif_show_few(struct emu_hostif *edge)
{
    return edge_has_few(edge) && edge_show(edge);
}

/* Is there enough to notify the process although the worker goes on? */
static bool edge_has_much(const struct emu_hostif *edge)
{
    uint32_t down = edge->down_tail - edge->down_told;
    uint32_t news = down + emu_hostif_taken(edge) - edge->up_told;

    return news >= (edge->streams ? EDGE_TELL_STREAM : EDGE_TELL_SEGS);
}

void emu_hostif_tell_all(struct emu_worker *worker, bool now)
{
    bool alone = emu_worker_is_alone(worker);
    struct emu_hostif *edge = worker->untold, *told = NULL, *next;
    bool any = false;

    worker->untold = NULL;
    for (; edge; edge = next) {
        next = edge_behind(edge);
        edge->untold = NULL;
        if (!now && !edge_has_much(edge) && !(alone && edge_has_few(edge)) &&
            ++edge->untold_passes < EDGE_TELL_PASSES) {
            emu_hostif_mark(edge);
            continue;
        }
        edge->untold_passes = 0;
        any |= edge_show(edge);
        edge->untold = told ? told : edge;
        told = edge;
    }
    if (any)
        emu_hostif_shown();
    for (edge = told; edge; edge = next) {
        next = edge_behind(edge);
        edge->untold = NULL;
        emu_hostif_wake(edge);
        edge_tell_taken(edge);
    }
}

/*
 * As in edge_show(), in the other direction: we request the bell, then check once more; the adapter
 * publishes its index, then reads the request.
 */
bool emu_hostif_bell(struct emu_hostif *edge, bool wanted)
{
    struct emu_hostif_shared *shared = edge->shared;
    uint32_t what = 0;

    if (wanted)
        what = EMU_HOSTIF_RING_DATA | (edge->blocked ? EMU_HOSTIF_RING_ROOM : 0);
    atomic_exchange_explicit(&shared->bell_wanted, what, memory_order_seq_cst);
    return atomic_load_explicit(&shared->up_tail, memory_order_seq_cst) != edge->up_looked ||
           (edge->blocked &&
            atomic_load_explicit(&shared->down_head, memory_order_seq_cst) != edge->down_looked);
}
