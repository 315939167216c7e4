/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * notify.c - the fabric's end of a host interface: notifications to and from the process. The
 * process wakes the worker by a *bell* (an eventfd) if the worker has requested it. hostif/nic.c
 * and docs/ORDERING.md explain the labels (X2, X4, Y5, Y6). "X2: Y1" means that X2 pairs with Y1.
 */
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "emu/hostif/fabric/fabric.h"
#include "emu/util/count.h"

#define HOSTIF_NOTIFY_SEGS   64u  /* notify a process after this many segments */
#define HOSTIF_NOTIFY_STREAM 256u /* during a stream of segments, notify after this many */
#define HOSTIF_NOTIFY_PASSES 4u   /* after this many iterations of the worker's loop in any case */

/* Move the worker to the core of a process that sends a stream (dev/affinity.h). */
static void hostif_follow_sender(struct emu_hostif *hostif, uint32_t news)
{
    struct emu_hostif_shared *shared = hostif->shared;
    struct emu_worker *worker = hostif->dev->worker;
    uint32_t own = (uint32_t)sched_getcpu() + 1;

    if (news >= EMU_STREAM_SEGS &&
        atomic_load_explicit(&worker->oversubscribed, memory_order_relaxed)) {
        uint32_t core = atomic_load_explicit(&shared->up_core, memory_order_relaxed);

        if (emu_affinity_observe(&worker->affinity, hostif->node, core, own))
            emu_affinity_migrate(core);
    }
}

/*
 * Record on which core the process will probably reply: the core of its last post. If this core is
 * unknown, or if the process receives a stream, any core is possible.
 */
static void hostif_expect_answer(struct emu_hostif *hostif)
{
    uint32_t core = atomic_load_explicit(&hostif->shared->post_core, memory_order_relaxed);

    hostif->owes = core && !hostif->streams ? core : EMU_HOSTIF_ANYWHERE;
}

/*
 * Publish the written segments. X4 pairs with Y3: a process that sees the tail sees the segments.
 * The caller continues with emu_hostif_publish_end() and emu_hostif_wake(). Then either this thread
 * sees that the adapter sleeps, or the adapter sees the tail before it sleeps
 * (emu_hostif_nic_sleep()).
 */
static bool hostif_publish(struct emu_hostif *hostif)
{
    if (hostif->down_published == hostif->down_tail)
        return false;
    hostif->streams = hostif->down_tail - hostif->down_published >= EMU_STREAM_SEGS;
    hostif->down_published = hostif->down_tail;
    hostif->wake_pending = true;
    emu_hostif_publish(&hostif->shared->down_tail, hostif->down_tail); /* X4 */
    return true;
}

void emu_hostif_wake(struct emu_hostif *hostif)
{
    struct emu_hostif_shared *shared = hostif->shared;

    if (!hostif->wake_pending)
        return;
    hostif->wake_pending = false;
    if (atomic_load_explicit(&shared->asleep, memory_order_seq_cst)) {
        uint32_t who = atomic_exchange_explicit(&shared->asleep, 0, memory_order_seq_cst);

        if (who)
            syscall(SYS_futex, &shared->asleep, FUTEX_WAKE_BITSET, INT32_MAX, NULL, NULL, who);
    }
    hostif_expect_answer(hostif);
}

/* Publish the space in the up ring. This is the least urgent notification, so it comes last. */
static void hostif_publish_taken(struct emu_hostif *hostif)
{
    uint32_t taken = emu_hostif_taken(hostif);

    if (hostif->up_published == taken)
        return;
    atomic_store_explicit(&hostif->shared->up_head, taken, memory_order_release); /* X2: Y1 */
    hostif_follow_sender(hostif, taken - hostif->up_published);
    hostif->up_published = taken;
}

void emu_hostif_mark(struct emu_hostif *hostif)
{
    struct emu_worker *worker = hostif->dev->worker;

    if (hostif->unnotified)
        return;
    hostif->unnotified = worker->unnotified ? worker->unnotified : hostif;
    worker->unnotified = hostif;
}

static struct emu_hostif *hostif_next_unnotified(const struct emu_hostif *hostif)
{
    return hostif->unnotified == hostif ? NULL : hostif->unnotified;
}

void emu_hostif_done(struct emu_hostif *hostif, uint32_t moved)
{
    emu_count(&hostif->sent, moved);
    emu_hostif_mark(hostif);
}

/* Return whether the unpublished segments are a short message, and not part of a stream. */
static bool hostif_has_few(const struct emu_hostif *hostif)
{
    return hostif->down_tail - hostif->down_published - 1 < EMU_HOSTIF_FEW && !hostif->streams;
}

bool emu_hostif_publish_few(struct emu_hostif *hostif)
{
    return hostif_has_few(hostif) && hostif_publish(hostif);
}

/* Return whether to notify the process now, although more segments may follow. */
static bool hostif_has_much(const struct emu_hostif *hostif)
{
    uint32_t down = hostif->down_tail - hostif->down_published;
    uint32_t news = down + emu_hostif_taken(hostif) - hostif->up_published;

    return news >= (hostif->streams ? HOSTIF_NOTIFY_STREAM : HOSTIF_NOTIFY_SEGS);
}

void emu_hostif_notify_all(struct emu_worker *worker, bool now)
{
    bool alone = emu_worker_is_alone(worker);
    struct emu_hostif *hostif = worker->unnotified, *notified = NULL, *next;
    bool any = false;

    worker->unnotified = NULL;
    for (; hostif; hostif = next) {
        next = hostif_next_unnotified(hostif);
        hostif->unnotified = NULL;
        if (!now && !hostif_has_much(hostif) && !(alone && hostif_has_few(hostif)) &&
            ++hostif->unnotified_passes < HOSTIF_NOTIFY_PASSES) {
            emu_hostif_mark(hostif);
            continue;
        }
        hostif->unnotified_passes = 0;
        any |= hostif_publish(hostif);
        hostif->unnotified = notified ? notified : hostif;
        notified = hostif;
    }
    if (any)
        emu_hostif_publish_end();
    for (hostif = notified; hostif; hostif = next) {
        next = hostif_next_unnotified(hostif);
        hostif->unnotified = NULL;
        emu_hostif_wake(hostif);
        hostif_publish_taken(hostif);
    }
}

/*
 * Y5: this thread requests the bell and then checks the indexes once more, while the adapter
 * publishes its index and then reads the request. So at least one of the two threads sees the
 * other's store.
 */
bool emu_hostif_bell(struct emu_hostif *hostif, bool wanted)
{
    struct emu_hostif_shared *shared = hostif->shared;
    uint32_t what = 0;

    if (wanted)
        what = EMU_HOSTIF_RING_DATA | (hostif->blocked ? EMU_HOSTIF_RING_ROOM : 0);
    atomic_exchange_explicit(&shared->bell_wanted, what, memory_order_seq_cst);
    return atomic_load_explicit(&shared->up_tail, memory_order_seq_cst) != hostif->up_polled ||
           (hostif->blocked &&
            atomic_load_explicit(&shared->down_head, memory_order_seq_cst) != hostif->down_polled);
}
