/* SPDX-License-Identifier: BSD-3-Clause */
/* lock.c - take and release the adapter's lock; post operations */
#include "nic/host/base/lock.h"

#include <errno.h>

#include "emu/util/now.h"
#include "nic/host/base/base.h"
#include "nic/host/base/complete.h"
#include "nic/host/base/compute.h"
#include "nic/host/base/local_time.h"
#include "nic/host/base/trace.h"

static void nic_clock(struct fabemu *fab)
{
    if (fab->simulated)
        fab->now_ps = nic_local_ps(fab);
    else if (fab->timed)
        fab->now_ps = (emu_now_ns() - fab->hostif.shared->origin_ns) * 1000;
}

void nic_lock(struct fabemu *fab)
{
    nic_sim_enter(fab);
    pthread_mutex_lock(&fab->lock);
    fab->locked = true;
    atomic_store_explicit(&fab->sim.empty, 0, memory_order_relaxed);
    nic_clock(fab);
}

bool nic_trylock(struct fabemu *fab)
{
    nic_sim_enter(fab);
    if (pthread_mutex_trylock(&fab->lock)) {
        nic_sim_leave(fab);
        return false;
    }
    fab->locked = true;
    nic_clock(fab);
    return true;
}

/* Return whether any segment or operation waits to go into the ring to the fabric. */
static bool nic_has_more(const struct fabemu *fab)
{
    return !emu_list_empty(&fab->bulk) || !emu_list_empty(&fab->ready) ||
           !emu_list_empty(&fab->busy) || !emu_list_empty(&fab->ctls) ||
           !emu_list_empty(&fab->setting);
}

static void hint_set(_Atomic bool *what, bool is)
{
    if (atomic_load_explicit(what, memory_order_relaxed) != is)
        atomic_store_explicit(what, is, memory_order_relaxed);
}

/*
 * Set two hints for threads that do not take the lock. stalled: a segment waits for space in the up
 * ring, and the fabric will not wake us when there is space. nothing_pending: a step would only
 * check for input.
 */
static void hints_update(struct fabemu *fab)
{
    bool more = nic_has_more(fab);
    bool idle = !more && emu_list_empty(&fab->connecting) && emu_list_empty(&fab->again);

    hint_set(&fab->stalled, more && fab->hostif.up_tail - fab->hostif.up_head >=
                                        EMU_HOSTIF_SLOTS - NIC_RING_RESERVE);
    hint_set(&fab->nothing_pending, idle && (!fab->loop || fab->loop->head == fab->loop->tail));
}

void nic_unlock(struct fabemu *fab)
{
    bool wake = false;

    assert(fab->locked);
    if (!emu_list_empty(&fab->fired))
        nic_event_run(fab);
    emu_hostif_nic_publish(&fab->hostif);
    hints_update(fab);
    if (fab->completed != fab->completions) {
        fab->completed = fab->completions;
        wake = atomic_load_explicit(&fab->sleepers, memory_order_seq_cst);
    }
    fab->locked = false;
    pthread_mutex_unlock(&fab->lock);
    nic_sim_leave(fab);
    if (wake)
        emu_hostif_nic_wake(fab->hostif.shared);
}

bool nic_in_fabric(struct fabemu *fab)
{
    return !nic_has_more(fab) && emu_hostif_nic_taken(&fab->hostif) == fab->hostif.up_tail;
}

int nic_post(struct fabemu *fab, struct nic_post *post, const struct emu_call *call)
{
    struct fabemu_req *req = post->req;
    int err = 0;

    nic_outside_ends(fab);
    nic_call_begin(fab, call);
    nic_lock(fab);
    nic_ready(fab);
    __atomic_store_n(&req->status, FABEMU_PENDING, __ATOMIC_RELAXED);
    nic_trace_begin(fab, req);
    if (req->after)
        nic_event_arm(fab, nic_event_of(req->after), post);
    else
        err = post->begin(fab, post);
    if (err) {
        __atomic_store_n(&req->status, err, __ATOMIC_RELAXED);
        nic_trace_begin(fab, NULL);
    } else {
        nic_trace_posted(fab, call);
    }
    nic_unlock(fab);
    nic_call_end(fab, call, !err);
    return err;
}
