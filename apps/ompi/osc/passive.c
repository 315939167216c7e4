/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * passive.c - synchronization in which the target does not take part: locks and flushes.
 *
 * To acquire a shared lock, a process adds 1 to the target's lock word, and subtracts it again if
 * another member has an exclusive lock. To acquire an exclusive lock, it replaces 0 by its own
 * number. A process that does not get a lock tries again, less and less often. The adapter
 * completes an operation only when it is complete at the target, so MPI_Win_flush_local does the
 * same as MPI_Win_flush.
 *
 * MPI_Win_lock_all acquires only this process's own lock, which protects its loads and stores. The
 * lock of another member is acquired at the first access to that member.
 */
#include "apps/ompi/osc/osc_fabemu.h"

#define BACK_OFF_MOST 8 /* at most 2^8 rounds between two attempts */

static uint64_t exclusive_word(const struct osc_fabemu_window *w)
{
    return ((uint64_t)w->rank + 1) << 32;
}

/* Return the rank that has the exclusive lock, or -1. */
static int holder_of(const struct osc_fabemu_window *w, uint64_t word)
{
    return word >> 32 && word >> 32 <= (uint64_t)w->ranks ? (int)(word >> 32) - 1 : -1;
}

/*
 * Try to acquire a lock. @word: receives the previous value of the lock word, from which
 * lock_taken() computes whether this process has the lock now.
 */
static int lock_try(struct osc_fabemu_window *w, int rank, enum osc_fabemu_lock kind,
                    uint64_t *word, const char *name)
{
    int rc;

    if (kind == OSC_FABEMU_EXCLUSIVE)
        return osc_fabemu_state_op(w, rank, FABEMU_ATOMIC_CAS, OSC_FABEMU_AT(lock),
                                   exclusive_word(w), word, name);
    rc = osc_fabemu_state_op(w, rank, FABEMU_ATOMIC_ADD, OSC_FABEMU_AT(lock), 1, word, name);
    if (!rc && *word >> 32)
        rc = osc_fabemu_state_add(w, rank, OSC_FABEMU_AT(lock), (uint64_t)-1, false);
    return rc;
}

static bool lock_taken(enum osc_fabemu_lock kind, uint64_t word)
{
    return kind == OSC_FABEMU_EXCLUSIVE ? !word : !(word >> 32);
}

/*
 * Return whether the lock will never be released. This is so if its exclusive owner is lost. The
 * owners of a shared lock are not known, so it is assumed if any member is lost and the bound
 * `silence` has passed.
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

static int lock_end(struct osc_fabemu_window *w, unsigned tries, int rc)
{
    if (tries)
        fabemu_awaits(w->fab, NULL);
    return rc;
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
            return lock_end(w, tries, rc);
        /* an attempt to acquire a shared lock was two operations: add 1, and subtract it again */
        osc_fabemu_awaits_lock(w, rank, holder_of(w, word), kind == OSC_FABEMU_EXCLUSIVE ? 1 : 2);
        tries += tries < BACK_OFF_MOST;
        for (unsigned i = 0; i < 1u << tries; i++) {
            osc_fabemu_wait(w, &wait);
            if (lock_abandoned(w, &wait, word))
                return lock_end(w, tries, osc_fabemu_fails(w, name, holder_of(w, word)));
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

/*
 * Release a lock. This does not wait; the member's adapter executes it before any later request of
 * this process.
 */
static int lock_release(struct osc_fabemu_window *w, int rank)
{
    struct osc_fabemu_peer *peer = &w->peer[rank];
    uint64_t word = peer->lock == OSC_FABEMU_EXCLUSIVE ? exclusive_word(w) : 1;
    bool unchecked = peer->unchecked;

    peer->lock = OSC_FABEMU_UNLOCKED;
    return unchecked ? OMPI_SUCCESS
                     : osc_fabemu_state_add(w, rank, OSC_FABEMU_AT(lock), -word, false);
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

/*
 * Begin to acquire the shared lock of @rank, unless this process has it already. Returns the
 * previous state.
 */
static enum osc_fabemu_lock lazy_begin(struct osc_fabemu_window *w, int rank)
{
    enum osc_fabemu_lock before;

    OPAL_THREAD_LOCK(&w->lock);
    before = w->peer[rank].lock;
    if (before == OSC_FABEMU_UNLOCKED)
        w->peer[rank].lock = OSC_FABEMU_LOCKING;
    OPAL_THREAD_UNLOCK(&w->lock);
    return before;
}

static void lazy_end(struct osc_fabemu_window *w, int rank, enum osc_fabemu_lock now)
{
    OPAL_THREAD_LOCK(&w->lock);
    w->peer[rank].lock = now;
    OPAL_THREAD_UNLOCK(&w->lock);
}

int osc_fabemu_lock_lazily(struct osc_fabemu_window *w, int rank, const char *name)
{
    struct osc_fabemu_wait wait = {0};
    enum osc_fabemu_lock before;
    int rc;

    while ((before = lazy_begin(w, rank)) == OSC_FABEMU_LOCKING)
        osc_fabemu_wait(w, &wait); /* another thread is acquiring the lock */
    if (before != OSC_FABEMU_UNLOCKED)
        return OMPI_SUCCESS;
    rc = w->peer[rank].unchecked ? OMPI_SUCCESS : lock_take(w, rank, OSC_FABEMU_SHARED, name);
    lazy_end(w, rank, rc ? OSC_FABEMU_UNLOCKED : OSC_FABEMU_SHARED);
    return rc;
}

static int lock_all(int assertion, ompi_win_t *win)
{
    struct osc_fabemu_window *w = osc_fabemu_window(win);
    int rc;

    if (w->lock_all)
        return OMPI_ERR_RMA_SYNC;
    for (int i = 0; i < w->ranks; i++) {
        if (w->peer[i].lock)
            return OMPI_ERR_RMA_SYNC;
        if (osc_fabemu_is_lost(w, i))
            return osc_fabemu_fails(w, "MPI_Win_lock_all", i);
        w->peer[i].unchecked = assertion & MPI_MODE_NOCHECK;
    }
    rc = osc_fabemu_lock_lazily(w, w->rank, "MPI_Win_lock_all");
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
        if (w->peer[i].lock && !osc_fabemu_is_lost(w, i) && lock_release(w, i))
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

/* Nothing has to be copied, because the adapter changes the window's memory directly. */
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
