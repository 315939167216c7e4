/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loss.c - waiting for actions of other members, and members that are lost.
 *
 * A put, get or atomic to a lost member ends with an error by itself. A call that waits for
 * something that another member will do (a post, a complete, the release of a lock) must check by
 * osc_fabemu_wait_lost() whether that member is lost.
 */
#include "apps/ompi/osc/osc_fabemu.h"

#include "opal/util/output.h"

#include <stdio.h>

#define PROBE_ROUNDS 64  /* rounds between two reads of the clock */
#define PROBE_GAP_S  1.0 /* time between two probes, the same as in nic/host/progress/watch.c */

void osc_fabemu_wait(struct osc_fabemu_window *w, struct osc_fabemu_wait *wait)
{
    coll_fabemu_wait_round(w->fab, ++wait->round, &wait->idle);
}

/* Return the node of the member @rank; -1: FABEMU_ANY_NODE. */
static uint32_t node_of(const struct osc_fabemu_window *w, int rank)
{
    return rank < 0 ? FABEMU_ANY_NODE : w->peer[rank].place.node;
}

void osc_fabemu_awaits(struct osc_fabemu_window *w, enum fabemu_action action, int rank)
{
    fabemu_awaits(w->fab, &(struct fabemu_awaited){.action = action, .node = node_of(w, rank)});
}

void osc_fabemu_awaits_lock(struct osc_fabemu_window *w, int rank, int holder, unsigned checks)
{
    fabemu_awaits(w->fab, &(struct fabemu_awaited){.action = FABEMU_ACTION_UNLOCK,
                                                   .node = node_of(w, holder),
                                                   .target = node_of(w, rank),
                                                   .checks = checks});
}

bool osc_fabemu_is_lost(const struct osc_fabemu_window *w, int rank)
{
    const struct osc_fabemu_peer *peer = &w->peer[rank];

    return peer->lost || fabemu_breaks(w->fab, peer->place.node) != peer->breaks;
}

static bool has_drop(const struct osc_fabemu_window *w, int rank)
{
    const struct osc_fabemu_peer *peer = &w->peer[rank];

    return fabemu_drops(w->fab, peer->place.node) != peer->drops;
}

/*
 * Probe the members once a second. A process that only waits would otherwise not notice a loss,
 * because it sends nothing that could fail.
 */
static void probe(struct osc_fabemu_window *w, struct osc_fabemu_wait *wait, const int *ranks,
                  int count)
{
    double now = MPI_Wtime();

    if (now < wait->probe_s)
        return;
    for (int i = 0; wait->probe_s != 0 && i < count; i++)
        fabemu_ping(w->fab, w->peer[ranks ? ranks[i] : i].place.node);
    wait->probe_s = now + PROBE_GAP_S;
}

bool osc_fabemu_wait_lost(struct osc_fabemu_window *w, struct osc_fabemu_wait *wait,
                          const int *ranks, int count)
{
    int drops = has_drop(w, w->rank); /* members with drops; each drop concerns two processes */

    if (wait->round % PROBE_ROUNDS)
        return false;
    for (int i = 0; i < count; i++) {
        int rank = ranks ? ranks[i] : i;

        if (osc_fabemu_is_lost(w, rank))
            return true;
        drops += rank != w->rank && has_drop(w, rank);
    }
    probe(w, wait, ranks, count);
    return drops > 1;
}

bool osc_fabemu_is_late(struct osc_fabemu_window *w, struct osc_fabemu_wait *wait)
{
    uint64_t silence_ms = fabemu_info(w->fab)->bounds.silence_ms;
    double now = MPI_Wtime();

    if (wait->late_s == 0)
        wait->late_s = now + (double)silence_ms / 1e3;
    return silence_ms != FABEMU_FOREVER && now >= wait->late_s;
}

/*
 * Return a lost member; if there is none, another member that has lost messages. Returns -1 if no
 * other member has lost messages.
 */
static int find_lost(const struct osc_fabemu_window *w)
{
    for (int i = 0; i < w->ranks; i++)
        if (osc_fabemu_is_lost(w, i))
            return i;
    for (int i = 0; i < w->ranks; i++)
        if (i != w->rank && has_drop(w, i))
            return i;
    return -1;
}

int osc_fabemu_fails(struct osc_fabemu_window *w, const char *call, int rank)
{
    char why[96];
    uint32_t node;

    if (w->reported)
        return MPI_ERR_OTHER;
    w->reported = true;
    rank = rank < 0 ? find_lost(w) : rank;
    if (rank < 0) {
        opal_output(0, "fabemu: %s on %s failed in the fabric: another member has an error", call,
                    w->win->w_name);
        return MPI_ERR_OTHER;
    }
    node = w->peer[rank].place.node;
    if (!fabemu_node_why(w->fab, node, why, sizeof why) &&
        !fabemu_drop_why(w->fab, node, why, sizeof why))
        snprintf(why, sizeof why, "communication with node %u has failed", node);
    opal_output(
        0, "fabemu: %s on %s failed in the fabric: rank %d of the window cannot be reached: %s",
        call, w->win->w_name, rank, why);
    return MPI_ERR_OTHER;
}
