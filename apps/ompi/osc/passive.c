/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * passive.c - synchronization in which the target does not take part: locks and flushes.
 *
 * A shared lock adds 1 to the target's lock word, and takes it back if another member has an
 * exclusive lock. An exclusive lock replaces 0 by the number of its owner. A process that does not
 * get a lock tries again, less and less often. When an operation is complete, it is complete at the
 * target, so the local flushes are the same as the others.
 */
#include "apps/ompi/osc/osc_fabemu.h"

#include "opal/runtime/opal_progress.h"

#include <stdlib.h>

#define BACK_OFF_MOST 8 /* 2^8 rounds between two attempts */

static uint64_t exclusive_word(const struct osc_fabemu_window *w)
{
    return ((uint64_t)w->rank + 1) << 32;
}

/* Return the rank with the exclusive lock, or -1. */
static int holder_of(const struct osc_fabemu_window *w, uint64_t word)
{
    return word >> 32 && word >> 32 <= (uint64_t)w->ranks ? (int)(word >> 32) - 1 : -1;
}

/* Try to take a lock. @word: receives the lock word before; the lock is taken if it permits so. */
static int lock_try(struct osc_fabemu_window *w, int rank, enum osc_fabemu_lock kind,
                    uint64_t *word, const char *name)
{
    int rc;

    if (kind == OSC_FABEMU_EXCLUSIVE)
        return osc_fabemu_state_op(w, rank, FABEMU_ATOMIC_CAS, OSC_FABEMU_AT(lock),
                                   exclusive_word(w), word, name);
    rc = osc_fabemu_state_op(w, rank, FABEMU_ATOMIC_ADD, OSC_FABEMU_AT(lock), 1, word, name);
    if (!rc && *word >> 32)
        rc = osc_fabemu_state_add(w, rank, OSC_FABEMU_AT(lock), (uint64_t)-1);
    return rc;
}

static bool lock_taken(enum osc_fabemu_lock kind, uint64_t word)
{
    return kind == OSC_FABEMU_EXCLUSIVE ? !word : !(word >> 32);
}

/*
 * Return whether the lock will never be released: its owner is lost; or any member is lost and may
 * be one of the owners of a shared lock, and the bound `silence` has passed.
 */
static bool lock_abandoned(struct osc_fabemu_window *w, struct osc_fabemu_wait *wait, uint64_t word)
{
    int holder = holder_of(w, word);

    if (holder >= 0)
        return osc_fabemu_wait_lost(w, wait, &holder, 1);
    for (int i = 0; i < w->ranks; i++)
        if (osc_fabemu_is_lost(w, i))
            return osc_fabemu_is_late(w, wait);
    return false;
}

static int lock_take(struct osc_fabemu_window *w, int rank, enum osc_fabemu_lock kind,
                     const char *name)
{
    struct osc_fabemu_wait wait = {0};
    unsigned tries = 0;
    uint64_t word;

    for (;;) {
        int rc = lock_try(w, rank, kind, &word, name);

        if (rc || lock_taken(kind, word))
            return rc;
        tries += tries < BACK_OFF_MOST;
        for (unsigned i = 0; i < 1u << tries; i++) {
            osc_fabemu_wait(w, &wait);
            if (lock_abandoned(w, &wait, word))
                return osc_fabemu_fails(w, name, holder_of(w, word));
        }
    }
}

static int lock(int type, int rank, int assertion, ompi_win_t *win)
{
    struct osc_fabemu_window *w = osc_fabemu_window(win);
    struct osc_fabemu_peer *peer = &w->peer[rank];
    enum osc_fabemu_lock kind = type == MPI_LOCK_EXCLUSIVE ? OSC_FABEMU_EXCLUSIVE
                                                           : OSC_FABEMU_SHARED;
    int rc = OMPI_SUCCESS;

    if (peer->lock || w->lock_all)
        return OMPI_ERR_RMA_SYNC;
    if (osc_fabemu_is_lost(w, rank))
        return osc_fabemu_fails(w, "MPI_Win_lock", rank);
    peer->unchecked = assertion & MPI_MODE_NOCHECK;
    if (!peer->unchecked)
        rc = lock_take(w, rank, kind, "MPI_Win_lock");
    if (!rc)
        peer->lock = kind;
    return rc;
}

/* Release a lock. The member learns of it later, but before any later request of this process. */
static int lock_release(struct osc_fabemu_window *w, int rank)
{
    struct osc_fabemu_peer *peer = &w->peer[rank];
    uint64_t word = peer->lock == OSC_FABEMU_EXCLUSIVE ? exclusive_word(w) : 1;
    bool unchecked = peer->unchecked;

    peer->lock = OSC_FABEMU_UNLOCKED;
    return unchecked ? OMPI_SUCCESS : osc_fabemu_state_add(w, rank, OSC_FABEMU_AT(lock), -word);
}

static int unlock(int rank, ompi_win_t *win)
{
    struct osc_fabemu_window *w = osc_fabemu_window(win);
    int rc;

    if (!w->peer[rank].lock || w->lock_all)
        return OMPI_ERR_RMA_SYNC;
    rc = osc_fabemu_drain(w, rank, "MPI_Win_unlock");
    if (osc_fabemu_is_lost(w, rank)) {
        w->peer[rank].lock = OSC_FABEMU_UNLOCKED;
        return rc;
    }
    return lock_release(w, rank) ? MPI_ERR_NO_MEM : rc;
}

/* A request for the shared lock of one member. */
struct lock_request {
    struct fabemu_req req;
    uint64_t before; /* the lock word */
};

/* Request the shared locks of all members at once, and wait for the replies. */
static void lock_request_all(struct osc_fabemu_window *w, struct lock_request *requests)
{
    struct osc_fabemu_wait wait = {0};

    for (int i = 0; i < w->ranks; i++) {
        int err = osc_fabemu_state_post(w, i, FABEMU_ATOMIC_ADD, OSC_FABEMU_AT(lock), 1,
                                        &requests[i].before, &requests[i].req);

        if (err)
            requests[i].req.status = err;
    }
    for (int i = 0; i < w->ranks; i++)
        while (fabemu_req_status(&requests[i].req) == FABEMU_PENDING)
            osc_fabemu_wait(w, &wait);
}

/* Take the shared locks of all members. Those that were refused are taken one by one. */
static int lock_everyone(struct osc_fabemu_window *w)
{
    static const char name[] = "MPI_Win_lock_all";
    struct lock_request *requests = calloc((size_t)w->ranks, sizeof *requests);
    int rc = requests ? OMPI_SUCCESS : MPI_ERR_NO_MEM;

    if (!rc)
        lock_request_all(w, requests);
    for (int i = 0; requests && i < w->ranks; i++) {
        int one = OMPI_SUCCESS;

        if (requests[i].req.status) {
            w->peer[i].lost = true;
            one = osc_fabemu_fails(w, name, i);
        } else if (lock_taken(OSC_FABEMU_SHARED, requests[i].before)) {
            w->peer[i].lock = OSC_FABEMU_SHARED;
        } else {
            one = osc_fabemu_state_add(w, i, OSC_FABEMU_AT(lock), (uint64_t)-1);
            if (!one && !rc)
                one = lock_take(w, i, OSC_FABEMU_SHARED, name);
            if (!one && !rc)
                w->peer[i].lock = OSC_FABEMU_SHARED;
        }
        rc = rc ? rc : one;
    }
    free(requests);
    for (int i = 0; rc && i < w->ranks; i++)
        if (w->peer[i].lock)
            (void)lock_release(w, i);
    return rc;
}

static int lock_all(int assertion, ompi_win_t *win)
{
    struct osc_fabemu_window *w = osc_fabemu_window(win);
    int rc = OMPI_SUCCESS;

    if (w->lock_all)
        return OMPI_ERR_RMA_SYNC;
    for (int i = 0; i < w->ranks; i++) {
        if (w->peer[i].lock)
            return OMPI_ERR_RMA_SYNC;
        if (osc_fabemu_is_lost(w, i))
            return osc_fabemu_fails(w, "MPI_Win_lock_all", i);
        w->peer[i].unchecked = assertion & MPI_MODE_NOCHECK;
    }
    if (!(assertion & MPI_MODE_NOCHECK))
        rc = lock_everyone(w);
    w->lock_all = !rc;
    return rc;
}

static int unlock_all(ompi_win_t *win)
{
    struct osc_fabemu_window *w = osc_fabemu_window(win);
    int rc;

    if (!w->lock_all)
        return OMPI_ERR_RMA_SYNC;
    rc = osc_fabemu_drain_all(w, "MPI_Win_unlock_all");
    w->lock_all = false;
    for (int i = 0; i < w->ranks; i++) {
        if (!osc_fabemu_is_lost(w, i) && lock_release(w, i))
            rc = MPI_ERR_NO_MEM;
        w->peer[i].lock = OSC_FABEMU_UNLOCKED;
    }
    return rc;
}

static int flush(int rank, ompi_win_t *win)
{
    struct osc_fabemu_window *w = osc_fabemu_window(win);

    if (!w->peer[rank].lock && !w->lock_all)
        return OMPI_ERR_RMA_SYNC;
    return osc_fabemu_drain(w, rank, "MPI_Win_flush");
}

static int flush_all(ompi_win_t *win)
{
    struct osc_fabemu_window *w = osc_fabemu_window(win);
    bool locked = w->lock_all;

    for (int i = 0; i < w->ranks; i++)
        locked = locked || w->peer[i].lock;
    return locked ? osc_fabemu_drain_all(w, "MPI_Win_flush_all") : OMPI_ERR_RMA_SYNC;
}

/* The adapter changes the window's memory directly, so there is no copy to be reconciled. */
static int sync_memory(ompi_win_t *win)
{
    opal_atomic_mb(); /* MPI_Win_sync orders the program's own loads and stores */
    (void)fabemu_progress(osc_fabemu_window(win)->fab);
    return OMPI_SUCCESS;
}

void osc_fabemu_passive_fill(ompi_osc_base_module_t *module)
{
    module->osc_lock = lock;
    module->osc_unlock = unlock;
    module->osc_lock_all = lock_all;
    module->osc_unlock_all = unlock_all;
    module->osc_flush = module->osc_flush_local = flush;
    module->osc_flush_all = module->osc_flush_local_all = flush_all;
    module->osc_sync = sync_memory;
}
