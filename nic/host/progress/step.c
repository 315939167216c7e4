/* SPDX-License-Identifier: BSD-3-Clause */
/* step.c - one bounded step of the adapter, and polling */
#include "nic/host/progress/progress.h"

#include "nic/host/base/lock.h"
#include "nic/host/group/group.h"
#include "nic/host/group/word.h"
#include "nic/host/peer/failure.h"
#include "nic/host/peer/handshake.h"
#include "nic/host/tx/answer.h"
#include "nic/host/tx/bulk.h"
#include "nic/host/tx/request.h"
#include "nic/host/tx/up.h"

#define NIC_WATCH_STEPS 64u /* steps and polls between two reads of the clock for nic_watch() */

/*
 * Send words of groups first, so that a later segment cannot announce a word that is not set. Then
 * send answers, because peers wait for them. Then send segments of groups, then requests (peer by
 * peer, in post order), and last bulk data (transfer by transfer, in short bursts). Bulk data
 * leaves some slots of the up ring free, so that a short message waits for few segments.
 */
static uint32_t transmit(struct fabemu *fab)
{
    uint32_t sent = 0;

    if (!emu_list_empty(&fab->setting) && !nic_word_flush(fab))
        return 0;
    sent += nic_answers_send(fab);
    if (!emu_list_empty(&fab->busy))
        sent += nic_group_transmit(fab);
    if (!emu_list_empty(&fab->ready))
        sent += nic_requests_send(fab);
    if (!emu_list_empty(&fab->bulk))
        sent += nic_bulk_send(fab);
    return sent;
}

static bool has_endings(const struct fabemu *fab)
{
    return emu_hostif_nic_endings(&fab->hostif) !=
           atomic_load_explicit(&fab->endings, memory_order_relaxed);
}

/*
 * Return the number of steps and polls. Polls count, too, because most of them need no step.
 * Concurrent threads may lose a count.
 */
static uint32_t steps_and_polls(const struct fabemu *fab)
{
    return atomic_load_explicit(&fab->steps, memory_order_relaxed) +
           atomic_load_explicit(&fab->polls, memory_order_relaxed);
}

/* Return whether it is time to read the clock for nic_watch(). Needs no lock. */
static bool watch_is_due(const struct fabemu *fab)
{
    return steps_and_polls(fab) - atomic_load_explicit(&fab->watched, memory_order_relaxed) >=
           NIC_WATCH_STEPS;
}

/* Count this step, and call nic_watch() when it is time. */
static void watch_if_due(struct fabemu *fab)
{
    uint32_t steps = atomic_load_explicit(&fab->steps, memory_order_relaxed) + 1;

    atomic_store_explicit(&fab->steps, steps, memory_order_relaxed);
    if (!watch_is_due(fab))
        return;
    atomic_store_explicit(&fab->watched, steps_and_polls(fab), memory_order_relaxed);
    nic_watch(fab);
}

uint32_t nic_step(struct fabemu *fab)
{
    uint32_t taken;

    assert(fab->locked);
    taken = nic_receive(fab);
    if (fab->hostif.down_head != atomic_load_explicit(&fab->seen_tail, memory_order_relaxed)) {
        emu_hostif_nic_consumed(&fab->hostif);
        /* N1 pairs with N2: a thread that sees this tail also sees the requests that these segments
           have completed. */
        atomic_store_explicit(&fab->seen_tail, fab->hostif.down_head, memory_order_release);
    }
    /* after nic_receive(), which handles the last segments of processes that have ended */
    if (has_endings(fab))
        nic_peer_check_all(fab);
    if (!emu_list_empty(&fab->connecting))
        nic_peer_connect_again(fab);
    if (!emu_list_empty(&fab->again))
        taken += nic_word_again(fab);
    watch_if_due(fab);
    return taken + transmit(fab);
}

uint32_t nic_poll(struct fabemu *fab)
{
    uint32_t moved;

    if (nic_is_defunct(fab) || !nic_trylock(fab))
        return 0;
    moved = nic_step(fab);
    nic_unlock(fab);
    return moved;
}

/*
 * Return whether a step would do nothing. The lock is not needed: if another thread is just adding
 * work, the next poll finds it. N2 pairs with N1: a thread that sees the tail also sees the
 * requests that the segments have completed.
 */
static bool nothing_to_do(const struct fabemu *fab)
{
    const struct emu_hostif_shared *sh = fab->hostif.shared;

    return atomic_load_explicit(&sh->down_tail, memory_order_relaxed) ==
               atomic_load_explicit(&fab->seen_tail, memory_order_acquire) && /* N2 */
           atomic_load_explicit(&fab->nothing_pending, memory_order_relaxed) &&
           !watch_is_due(fab) && !has_endings(fab);
}

uint32_t nic_poll_app(struct fabemu *fab)
{
    struct emu_hostif_shared *sh = fab->hostif.shared;
    uint32_t polls = atomic_load_explicit(&fab->polls, memory_order_relaxed);

    if (nic_is_defunct(fab))
        return 0; /* a forked child must not use the host interface of its parent */
    /* concurrent threads may lose a count */
    atomic_store_explicit(&fab->polls, polls + 1, memory_order_relaxed);
    if (fab->simulated)
        return nic_sim_poll(fab);
    if (atomic_load_explicit(&sh->asleep, memory_order_relaxed))
        /* this thread is awake, so the fabric need not wake any thread */
        atomic_store_explicit(&sh->asleep, 0, memory_order_relaxed);
    return nothing_to_do(fab) ? 0 : nic_poll(fab);
}

unsigned fabemu_progress(struct fabemu *fab)
{
    return nic_poll_app(fab);
}
