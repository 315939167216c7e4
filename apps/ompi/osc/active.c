/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * active.c - synchronization in which the target takes part: MPI_Win_fence, and MPI_Win_post,
 * start, complete and wait.
 *
 * MPI_Win_post adds 1 to the count of posts at each origin. MPI_Win_complete adds 1 to the count of
 * completes at each target, after the operations at this target. The counts are never reset, so
 * each wait compares a count with the number that it must reach. MPI_Win_free waits in a similar
 * way.
 */
#include "apps/ompi/osc/osc_fabemu.h"

#include <stdlib.h>

/* Wait for all members. Returns an error if @rc is an error at any of them. */
static int agree(struct osc_fabemu_window *w, const char *name, int rc)
{
    int mine = rc != OMPI_SUCCESS, worst = 0;
    int err = w->comm->c_coll->coll_allreduce(&mine, &worst, 1, MPI_INT, MPI_MAX, w->comm,
                                              w->comm->c_coll->coll_allreduce_module);

    if (rc)
        return rc;
    return err || worst ? osc_fabemu_fails(w, name, -1) : OMPI_SUCCESS;
}

static int fence(int assertion, ompi_win_t *win)
{
    struct osc_fabemu_window *w = osc_fabemu_window(win);
    int rc = osc_fabemu_drain_all(w, "MPI_Win_fence");

    w->fence = !(assertion & MPI_MODE_NOSUCCEED);
    return agree(w, "MPI_Win_fence", rc);
}

/* Return the window's ranks of the members of @group. NULL: no memory. */
static int *ranks_of(struct osc_fabemu_window *w, ompi_group_t *group)
{
    int count = ompi_group_size(group);
    int *in_group = malloc((size_t)(count + 1) * sizeof *in_group);
    int *ranks = malloc((size_t)(count + 1) * sizeof *ranks);

    for (int i = 0; in_group && i < count; i++)
        in_group[i] = i;
    if (in_group && ranks)
        (void)ompi_group_translate_ranks(group, count, in_group, w->comm->c_local_group, ranks);
    free(in_group);
    return ranks;
}

static void exposure_ends(struct osc_fabemu_window *w)
{
    free(w->exposed);
    w->exposed = NULL;
}

static int post(ompi_group_t *group, int assertion, ompi_win_t *win)
{
    struct osc_fabemu_window *w = osc_fabemu_window(win);
    int rc = OMPI_SUCCESS;

    (void)assertion;
    if (w->exposed)
        return OMPI_ERR_RMA_SYNC;
    w->exposed = ranks_of(w, group);
    if (!w->exposed)
        return MPI_ERR_NO_MEM;
    w->exposed_count = ompi_group_size(group);
    w->tests = (struct osc_fabemu_wait){0};
    for (int i = 0; i < w->exposed_count && !rc; i++) {
        rc = osc_fabemu_state_add(w, w->exposed[i],
                                  OSC_FABEMU_AT(posts) + (size_t)w->rank * sizeof(uint64_t), 1,
                                  false);
        w->completes_due += !rc;
    }
    if (rc)
        exposure_ends(w);
    return rc;
}

static uint64_t load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE); /* the adapter changes this word by atomics */
}

/*
 * Wait until @count members have added to this member's count of frees. Returns whether one of them
 * has an error.
 */
static bool frees_fail(struct osc_fabemu_window *w, int count)
{
    struct osc_fabemu_wait wait = {0};
    bool lost = false;

    osc_fabemu_awaits(w, FABEMU_ACTION_FREE, -1);
    while (!lost && (uint32_t)load(&w->state->frees) < (uint32_t)count) {
        osc_fabemu_wait(w, &wait);
        lost = osc_fabemu_wait_lost(w, &wait, NULL, w->ranks);
    }
    fabemu_awaits(w->fab, NULL);
    return lost || load(&w->state->frees) >> 32;
}

/*
 * All members notify rank 0, which then notifies all others. This may be faster than a collective
 * of the window's communicator: in the first collective, the processes must first join a group.
 */
int osc_fabemu_free_barrier(struct osc_fabemu_window *w, int rc)
{
    const size_t at = OSC_FABEMU_AT(frees);
    bool fails = rc != OMPI_SUCCESS;

    (void)osc_fabemu_state_add(w, 0, at, 1 | (uint64_t)fails << 32, false);
    fails = frees_fail(w, w->rank ? 1 : w->ranks);
    for (int i = 1; i < w->ranks && !w->rank; i++)
        (void)osc_fabemu_state_add(w, i, at, 1 | (uint64_t)fails << 32, false);
    if (rc)
        return rc;
    return fails ? osc_fabemu_fails(w, "MPI_Win_free", -1) : OMPI_SUCCESS;
}

static bool has_posted(const struct osc_fabemu_window *w, int rank)
{
    return (int64_t)(load(&w->state->posts[rank]) - w->peer[rank].started_count) > 0;
}

static bool all_complete(const struct osc_fabemu_window *w)
{
    return (int64_t)(load(&w->state->completes) - w->completes_due) >= 0;
}

/* Wait until all members of the group of MPI_Win_start have called MPI_Win_post. */
static int wait_posts(struct osc_fabemu_window *w)
{
    struct osc_fabemu_wait wait = {0};
    bool lost = false;

    for (int i = 0; !lost && i < w->targets_count; i++) {
        if (has_posted(w, w->targets[i]))
            continue;
        osc_fabemu_awaits(w, FABEMU_ACTION_POST, w->targets[i]);
        while (!lost && !has_posted(w, w->targets[i])) {
            osc_fabemu_wait(w, &wait);
            lost = osc_fabemu_wait_lost(w, &wait, w->targets, w->targets_count);
        }
        fabemu_awaits(w->fab, NULL);
    }
    return lost ? osc_fabemu_fails(w, "MPI_Win_start", -1) : OMPI_SUCCESS;
}

static void access_ends(struct osc_fabemu_window *w)
{
    free(w->targets);
    w->targets = NULL;
}

static int start(ompi_group_t *group, int assertion, ompi_win_t *win)
{
    struct osc_fabemu_window *w = osc_fabemu_window(win);
    int rc;

    (void)assertion;
    if (w->targets)
        return OMPI_ERR_RMA_SYNC;
    w->targets = ranks_of(w, group);
    if (!w->targets)
        return MPI_ERR_NO_MEM;
    w->targets_count = ompi_group_size(group);
    rc = wait_posts(w);
    if (rc) {
        access_ends(w);
        return rc;
    }
    for (int i = 0; i < w->targets_count; i++) {
        w->peer[w->targets[i]].started_count++;
        w->peer[w->targets[i]].started = true;
    }
    return OMPI_SUCCESS;
}

/*
 * Notify a target that the operations of this process at the target are complete. If the adapter
 * executes them in the order of posting, the notice can be posted right after them
 * (fabemu_atomic()).
 * The notice is sent in the same batch as small operations, unless the target may refuse them. It
 * refuses only wrong addresses in a dynamic window.
 */
static int notify(struct osc_fabemu_window *w, int rank)
{
    w->peer[rank].started = false;
    return osc_fabemu_state_add(w, rank, OSC_FABEMU_AT(completes), 1, !w->dynamic);
}

static int complete(ompi_win_t *win)
{
    struct osc_fabemu_window *w = osc_fabemu_window(win);
    int rc = OMPI_SUCCESS;

    if (!w->targets)
        return OMPI_ERR_RMA_SYNC;
    for (int i = 0; i < w->targets_count && !rc; i++)
        if (!osc_fabemu_flight(w, w->targets[i]).unordered)
            rc = notify(w, w->targets[i]);
    for (int i = 0; i < w->targets_count; i++) {
        int rank = w->targets[i], one = OMPI_SUCCESS;

        if (w->peer[rank].started || osc_fabemu_flight(w, rank).borrows)
            one = osc_fabemu_drain(w, rank, "MPI_Win_complete");
        else if (osc_fabemu_is_lost(w, rank))
            one = osc_fabemu_fails(w, "MPI_Win_complete", rank);
        if (!one && w->peer[rank].started)
            one = notify(w, rank);
        w->peer[rank].started = false;
        rc = rc ? rc : one;
    }
    access_ends(w);
    return rc;
}

static int wait_exposed(ompi_win_t *win)
{
    struct osc_fabemu_window *w = osc_fabemu_window(win);
    struct osc_fabemu_wait wait = {0};
    bool lost = false, waits = !all_complete(w);

    if (!w->exposed)
        return OMPI_ERR_RMA_SYNC;
    /* the count of completes does not say which member has not completed */
    if (waits)
        osc_fabemu_awaits(w, FABEMU_ACTION_COMPLETE, w->exposed_count == 1 ? w->exposed[0] : -1);
    while (!lost && !all_complete(w)) {
        osc_fabemu_wait(w, &wait);
        lost = osc_fabemu_wait_lost(w, &wait, w->exposed, w->exposed_count);
    }
    if (waits)
        fabemu_awaits(w->fab, NULL);
    exposure_ends(w);
    return lost ? osc_fabemu_fails(w, "MPI_Win_wait", -1) : OMPI_SUCCESS;
}

static int test_exposed(ompi_win_t *win, int *flag)
{
    struct osc_fabemu_window *w = osc_fabemu_window(win);
    bool lost;

    if (!w->exposed)
        return OMPI_ERR_RMA_SYNC;
    fabemu_testing(w->fab, true);
    osc_fabemu_wait(w, &w->tests);
    fabemu_testing(w->fab, false);
    *flag = all_complete(w);
    lost = !*flag && osc_fabemu_wait_lost(w, &w->tests, w->exposed, w->exposed_count);
    if (*flag || lost)
        exposure_ends(w);
    return lost ? osc_fabemu_fails(w, "MPI_Win_test", -1) : OMPI_SUCCESS;
}

void osc_fabemu_active_fill(ompi_osc_base_module_t *module)
{
    module->osc_fence = fence;
    module->osc_post = post;
    module->osc_start = start;
    module->osc_complete = complete;
    module->osc_wait = wait_exposed;
    module->osc_test = test_exposed;
}
