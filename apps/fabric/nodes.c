/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nodes.c - attach processes to nodes and detach them; publish the incarnations of nodes, and cut
 * off processes that do not read.
 *
 * A node serves one process after another. Each process is a numbered *incarnation* of the node.
 * The *incarnation word* of a node contains the number of its latest incarnation, and flags
 * (emu_incarnation_state()).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/fabric/fabric.h"
#include "apps/fabric/internal.h"
#include "apps/fabric/comm.h"
#include "apps/fabric/sample.h"
#include "emu/util/bits.h"
#include "emu/util/count.h"
#include "emu/dev/affinity.h"
#include "emu/dev/rcu.h"

#define FABRIC_TICK_MS 1000u
/*
 * While its ring is full, a process must read this many segments in cut_off_ms, or it is cut off.
 */
#define FABRIC_STALL_SEGMENTS 64

/*
 * Write a worker's host interfaces into the one of its two lists that is not in use, and publish
 * this list. Returns when the worker no longer uses the other list.
 */
static void node_publish_list(struct fabric *fabric, struct emu_worker *worker)
{
    uint32_t nodes = fabric->config.graph->nodes;
    struct emu_hostif_list *list = fabric->list[2 * worker->index + (worker->published & 1)];

    list->count = 0;
    for (uint32_t n = 0; n < nodes; n++)
        if (fabric->hostif[n] && fabric->hostif[n]->dev->worker == worker)
            list->hostif[list->count++] = fabric->hostif[n];
    emu_worker_hostifs(worker, list);
    if (fabric_is_virtual(fabric)) /* simulated time may wait for a process that is gone now */
        emu_waiter_ring(fabric->worker[0]->waiter);
}

/*
 * X5 (hostif/fabric/fabric.c): the word is published before any other process can receive a segment
 * from the new incarnation.
 */
void fabric_incarnation_publish(struct fabric *fabric, uint32_t node, uint64_t word)
{
    fabric->incarnation[node] = word;
    for (uint32_t n = 0; n < fabric->config.graph->nodes; n++)
        if (fabric->hostif[n])
            emu_hostif_set_incarnation(fabric->hostif[n], node, word);
}

/* Publish the incarnation word of @node on all hosts; keep its flag EMU_INCARNATION_NO_LINK. */
static void node_set_incarnation(struct fabric *fabric, uint32_t node, uint64_t word)
{
    fabric_incarnation_publish(fabric, node,
                               word | (fabric->incarnation[node] & EMU_INCARNATION_NO_LINK));
    if (fabric->mirror)
        fabric->mirror->incarnation(fabric->mirror->ctx, node, word);
}

void fabric_mirror(struct fabric *fabric, const struct fabric_mirror *mirror)
{
    fabric->mirror = mirror;
}

void fabric_node_linked(struct fabric *fabric, uint32_t node, bool linked)
{
    uint64_t word = fabric->incarnation[node] & ~EMU_INCARNATION_NO_LINK;

    fabric_incarnation_publish(fabric, node, linked ? word : word | EMU_INCARNATION_NO_LINK);
    if (fabric->mirror)
        fabric->mirror->linked(fabric->mirror->ctx, node, linked);
}

int fabric_incarnation_set(struct fabric *fabric, uint32_t node, uint64_t state)
{
    if (node >= fabric->config.graph->nodes || fabric_node_is_here(fabric, node))
        return -EINVAL;
    /* only fabric_node_linked() changes the flag */
    node_set_incarnation(fabric, node, state & ~EMU_INCARNATION_NO_LINK);
    return 0;
}

/* E4 pairs with E3 (link.h): a worker that sees the host interface sees its initial contents. */
static void node_plug(struct fabric *fabric, uint32_t node, struct emu_hostif *hostif)
{
    struct fabric_host host = fabric_host(fabric, node);

    atomic_store_explicit(&host.rx->plug.hostif, hostif, memory_order_release); /* E4 */
    atomic_store_explicit(&host.tx->plug.hostif, hostif, memory_order_release); /* E4 */
}

/*
 * Signal the device at the node's port. It then sends or drops the entries that wait there. In
 * simulated time also schedule a step, because the device may have no other event.
 */
static void node_signal_device(struct fabric *fabric, uint32_t node)
{
    struct fabric_host host = fabric_host(fabric, node);

    emu_dev_signal_remote(host.dev, EMU_EVENT_CREDIT, emu_port_signal(host.port));
    emu_dev_signal_remote(host.dev, EMU_EVENT_DATA, emu_port_signal(host.port));
    if (!fabric->drive.lockstep)
        return;
    fabric_pause(fabric);
    fabric_wake(fabric, host.dev, 0);
    fabric_resume(fabric);
}

/*
 * Publish whether threads outnumber cores. If so, threads spin less, because spinning delays other
 * threads.
 */
static void nodes_publish_oversubscribed(struct fabric *fabric)
{
    uint32_t threads = fabric->workers + fabric->attached;
    uint32_t cores = emu_affinity_cores();
    uint32_t oversubscribed = threads > cores;

    for (uint32_t w = 0; w < fabric->workers; w++) {
        atomic_store_explicit(&fabric->worker[w]->oversubscribed, oversubscribed,
                              memory_order_relaxed);
        atomic_store_explicit(&fabric->worker[w]->sole_oversubscribed,
                              oversubscribed && fabric->workers == 1, memory_order_relaxed);
    }
    for (uint32_t n = 0; n < fabric->config.graph->nodes; n++)
        if (fabric->hostif[n])
            atomic_store_explicit(&fabric->hostif[n]->shared->oversubscribed, oversubscribed,
                                  memory_order_relaxed);
}

static void hostif_set_watched(const struct fabric *fabric, struct emu_hostif *hostif)
{
    struct emu_hostif_shared *shared = hostif->shared;

    atomic_store_explicit(&shared->watched, fabric->watched != 0, memory_order_relaxed);
    atomic_store_explicit(&shared->watched_bytes, fabric->watched_bytes, memory_order_relaxed);
}

static void hostif_set_starved(const struct fabric *fabric, struct emu_hostif *hostif)
{
    atomic_store_explicit(&hostif->shared->starved_ns, fabric->starved_ns, memory_order_relaxed);
    atomic_store_explicit(&hostif->shared->counted_ns, fabric->starved_at_ns, memory_order_relaxed);
}

void fabric_starved(struct fabric *fabric, uint64_t ns, uint64_t now_ns)
{
    fabric->starved_ns += ns;
    fabric->starved_at_ns = now_ns;
    for (uint32_t n = 0; n < fabric->config.graph->nodes; n++)
        if (fabric->hostif[n])
            hostif_set_starved(fabric, fabric->hostif[n]);
}

uint64_t fabric_starved_ns(const struct fabric *fabric)
{
    return fabric->starved_ns;
}

uint64_t fabric_hosts_starved_ns(const struct fabric *fabric)
{
    const struct fabric_mirror *mirror = fabric->mirror;

    return mirror ? mirror->starved(mirror->ctx) : 0;
}

static void watched_changed(const struct fabric *fabric)
{
    for (uint32_t n = 0; n < fabric->config.graph->nodes; n++)
        if (fabric->hostif[n])
            hostif_set_watched(fabric, fabric->hostif[n]);
}

void fabric_watch(struct fabric *fabric, enum fabric_watcher who, bool watched)
{
    fabric->watched = watched ? fabric->watched | who : fabric->watched & ~(unsigned)who;
    watched_changed(fabric);
}

void fabric_watch_messages(struct fabric *fabric, uint64_t bytes)
{
    fabric->watched_bytes = bytes + 1 > bytes ? bytes + 1 : bytes;
    watched_changed(fabric);
}

static bool node_is_free(const struct fabric *fabric, uint32_t host, uint32_t node)
{
    return fabric_node_host(&fabric->config, node) == host &&
           !emu_incarnation_attached(fabric->incarnation[node]);
}

/* Return @want if it is free, else any free node of @host. Errors: -EXDEV, -ENOSPC. */
static int64_t node_free(const struct fabric *fabric, uint32_t host, int64_t want)
{
    uint32_t nodes = fabric->config.graph->nodes;

    if (want >= 0 && want < nodes && fabric_node_host(&fabric->config, (uint32_t)want) != host)
        return -EXDEV;
    if (want >= 0 && want < nodes && node_is_free(fabric, host, (uint32_t)want))
        return want;
    for (uint32_t n = 0; n < nodes; n++)
        if (node_is_free(fabric, host, n))
            return n;
    return -ENOSPC;
}

/*
 * Return the shared multicast buffer of the switch of @node; the first process there creates it.
 * NULL: there is no buffer. It is used only on clock raw without link engines, where a switch
 * copies a segment to several processes in one step.
 */
static struct emu_mcast_buf *mcast_buf_of(struct fabric *fabric, uint32_t node)
{
    uint32_t sw = topo_first_link(fabric->config.graph, node)->sw;

    if (fabric->clock.mode != EMU_CLOCK_RAW || fabric_engine(fabric, node))
        return NULL;
    if (!fabric->mcast_buf[sw] &&
        emu_mcast_buf_create(&fabric->mcast_buf[sw], fabric->config.first))
        fabric->mcast_buf[sw] = NULL; /* each process gets its own copies */
    return fabric->mcast_buf[sw];
}

/* Retire the buffer: the process may still read it. Later processes get a new one. */
static void mcast_buf_retire(struct fabric *fabric, const struct emu_hostif *hostif)
{
    struct emu_mcast_buf **current =
        &fabric->mcast_buf[topo_first_link(fabric->config.graph, hostif->node)->sw];

    if (!hostif->mcast_buf)
        return;
    emu_mcast_buf_retire(hostif->mcast_buf);
    if (*current == hostif->mcast_buf) {
        emu_mcast_buf_drop(*current); /* the host interface has its own reference */
        *current = NULL;
    }
}

/*
 * Set @fd to a duplicate of the multicast buffer's descriptor, or to -1 if there is no buffer.
 * Returns false if the descriptor cannot be duplicated.
 */
static bool mcast_buf_share(const struct emu_hostif *hostif, int *fd)
{
    *fd = hostif->mcast_buf ? fcntl(hostif->mcast_buf->memfd, F_DUPFD_CLOEXEC, 0) : -1;
    return !hostif->mcast_buf || *fd >= 0;
}

/* Create a host interface that no worker uses yet. @memfd: its memory; the caller closes it. */
static int hostif_make(struct fabric *fabric, uint32_t node, struct emu_hostif **ret, int *memfd)
{
    struct fabric_host host = fabric_host(fabric, node);
    const struct emu_slow *slow = fabric_slow_node(fabric, node);
    struct emu_hostif init = {
        .node = node,
        .nodes = fabric->config.graph->nodes,
        .up_head = fabric->config.first,
        .port = host.port,
        .dev = host.dev,
        .credits = host.rx->credits,
        .profile = slow ? &slow->profile : host.profile,
        .late_ps_per_byte = slow ? slow->profile.link_ps_per_byte - slow->own->link_ps_per_byte : 0,
        .compute = fabric->config.compute,
        .mcast_buf = mcast_buf_of(fabric, node),
        .sim_now_ps = fabric_reached_ps(fabric),
    };

    fabric->hostifs += 1 + (fabric->hostifs == UINT32_MAX);
    init.serial = fabric->hostifs;
    return emu_hostif_create(ret, &init, fabric->config.threads == FABRIC_THREADS_DEVICE,
                             &fabric->clock, memfd);
}

/*
 * Return the waiter of the thread that the bell of a process wakes. On clock virtual this is the
 * thread that drives all workers.
 */
static struct emu_waiter *bell_waiter(const struct fabric *fabric, const struct emu_hostif *hostif)
{
    return fabric_is_virtual(fabric) ? fabric->worker[0]->waiter : hostif->dev->worker->waiter;
}

/*
 * Let the bell (an eventfd) of a process wake its worker. Returns a duplicate of the descriptor,
 * which the caller closes.
 */
static int hostif_watch(const struct fabric *fabric, const struct emu_hostif *hostif)
{
    int bell = fcntl(hostif->bell, F_DUPFD_CLOEXEC, 0);
    int err;

    if (bell < 0)
        return -errno;
    err = emu_waiter_add(bell_waiter(fabric, hostif), hostif->bell);
    if (err) {
        close(bell);
        /* fabric_attach() returns -ENOSPC if no node is free */
        return err == -ENOSPC ? -EDQUOT : err;
    }
    return bell;
}

static uint64_t hostif_plug(struct fabric *fabric, struct emu_hostif *hostif)
{
    uint32_t node = hostif->node;

    fabric->hostif[node] = hostif;
    hostif_set_watched(fabric, hostif);
    hostif_set_starved(fabric, hostif);
    fabric_publish_base(fabric, hostif);
    for (uint32_t n = 0; n < fabric->config.graph->nodes; n++)
        if (fabric->incarnation[n])
            emu_hostif_set_incarnation(hostif, n, fabric->incarnation[n]);
    node_set_incarnation(fabric, node,
                         emu_incarnation_state(emu_incarnation_first(fabric->incarnation[node]),
                                               true));
    node_plug(fabric, node, hostif);
    node_publish_list(fabric, hostif->dev->worker);
    fabric->attached++;
    nodes_publish_oversubscribed(fabric);
    return emu_incarnation_first(fabric->incarnation[node]);
}

int fabric_attach(struct fabric *fabric, int64_t want, struct fabric_attachment *ret)
{
    int64_t node = node_free(fabric, fabric->config.hosts ? fabric->config.hosts->self : 0, want);
    struct emu_hostif *hostif;
    struct emu_hostif_fds fds;
    int err;

    if (node < 0)
        return (int)node;
    fabric_clock_tick(fabric); /* nobody calls fabric_tick() while no process is attached */
    err = hostif_make(fabric, (uint32_t)node, &hostif, &fds.memory);
    if (err)
        return err;
    if (!mcast_buf_share(hostif, &fds.mcast_buf)) {
        err = -errno;
        goto close_memory;
    }
    fds.bell = hostif_watch(fabric, hostif);
    if (fds.bell < 0) {
        err = fds.bell;
        goto close_mcast_buf;
    }
    *ret = (struct fabric_attachment){.node = (uint32_t)node,
                                      .incarnation = hostif_plug(fabric, hostif),
                                      .fds = fds};
    return 0;

close_mcast_buf:
    if (fds.mcast_buf >= 0)
        close(fds.mcast_buf);
close_memory:
    close(fds.memory);
    emu_hostif_destroy(hostif, &fabric->cache);
    return err;
}

void fabric_attachment_close(const struct fabric_attachment *attachment)
{
    const int fd[] = {attachment->fds.memory, attachment->fds.bell, attachment->fds.mcast_buf};

    for (size_t i = 0; i < sizeof fd / sizeof *fd; i++)
        if (fd[i] >= 0)
            close(fd[i]);
}

int fabric_attach_remote(struct fabric *fabric, uint32_t host, int64_t want,
                         struct fabric_attachment *ret)
{
    int64_t node = node_free(fabric, host, want);
    int err = node < 0 ? (int)node
                       : fabric->mirror->attach(fabric->mirror->ctx, host, (uint32_t)node);

    if (err)
        return err;
    node_set_incarnation(fabric, (uint32_t)node,
                         emu_incarnation_state(emu_incarnation_first(fabric->incarnation[node]),
                                               true));
    fabric->remote++;
    *ret =
        (struct fabric_attachment){.node = (uint32_t)node,
                                   .incarnation = emu_incarnation_first(fabric->incarnation[node]),
                                   .fds = {-1, -1, -1}};
    return 0;
}

static void detach_remote(struct fabric *fabric, uint32_t node, bool dead)
{
    const struct fabric_mirror *mirror = fabric->mirror;

    fabric_node_leave(fabric, node);
    fabric->remote--;
    mirror->detach(mirror->ctx, fabric_node_host(&fabric->config, node), node, dead);
    node_set_incarnation(fabric, node,
                         emu_incarnation_state(emu_incarnation_first(fabric->incarnation[node]),
                                               false));
}

static void node_detach(struct fabric *fabric, uint32_t node, bool dead)
{
    struct emu_hostif *hostif = node < fabric->config.graph->nodes ? fabric->hostif[node] : NULL;
    struct emu_worker *worker;

    if (!hostif) {
        if (fabric->mirror && node < fabric->config.graph->nodes &&
            emu_incarnation_attached(fabric->incarnation[node]))
            detach_remote(fabric, node, dead);
        return;
    }
    if (!fabric->config.hosts || fabric->mirror)
        fabric_node_leave(fabric, node);
    worker = hostif->dev->worker;
    fabric_comm_leaves(fabric, node);
    fabric->hostif[node] = NULL;
    node_set_incarnation(fabric, node,
                         emu_incarnation_state(emu_incarnation_first(fabric->incarnation[node]),
                                               false));
    fabric->attached--;
    nodes_publish_oversubscribed(fabric);
    if (dead)
        mcast_buf_retire(fabric, hostif);
    node_plug(fabric, node, NULL);
    /* simulated time goes on without this process as soon as the new list is published */
    node_signal_device(fabric, node);
    node_publish_list(fabric, worker);
    emu_waiter_remove(bell_waiter(fabric, hostif), hostif->bell);
    fabric_totals_add_hostif(&fabric->past, hostif, fabric_reached_ps(fabric));
    fabric->past.dropped_left_behind += emu_hostif_left(hostif);
    fabric->past_ideal_ns += emu_count_read(&hostif->times.ideal_ns);
    fabric->past_actual_ns += emu_count_read(&hostif->times.actual_ns);
    fabric->past_full_ns += emu_hostif_full_ns(hostif, emu_clock_now(&fabric->clock));
    emu_hostif_destroy(hostif, &fabric->cache);
}

void fabric_detach(struct fabric *fabric, uint32_t node)
{
    node_detach(fabric, node, false);
}

void fabric_detach_dead(struct fabric *fabric, uint32_t node)
{
    node_detach(fabric, node, true);
}

/* Cut off a process that has read too few segments for too long. Returns whether it did. */
static bool tick_hostif(struct fabric *fabric, struct emu_hostif *hostif, uint32_t tick_ms)
{
    uint64_t delivered = emu_count_read(&hostif->delivered);
    uint64_t bound_ms = fabric->config.bounds.cut_off_ms;

    if (atomic_load_explicit(&hostif->cut, memory_order_relaxed))
        return false;
    if (!atomic_load_explicit(&hostif->stuck, memory_order_relaxed) ||
        delivered - hostif->watch_delivered >= FABRIC_STALL_SEGMENTS) {
        hostif->watch_delivered = delivered;
        hostif->watch_ms = 0;
        return false;
    }
    hostif->watch_ms += tick_ms;
    if (bound_ms == EMU_BOUND_OFF || hostif->watch_ms < bound_ms)
        return false;
    atomic_store_explicit(&hostif->cut, 1, memory_order_relaxed);
    atomic_store_explicit(&hostif->shared->cut_off, 1, memory_order_relaxed);
    node_signal_device(fabric, hostif->node);
    return true;
}

/*
 * Return how much of a tick counts for bounds. The time in which threads waited for cores does not
 * count. But at least a share of the tick does, so that every bound expires at some time.
 */
static uint32_t tick_counted_ms(struct fabric *fabric)
{
    uint64_t starved_ms = (fabric->starved_ns - fabric->tick_starved_ns) / 1000000u;
    uint32_t most_ms = FABRIC_TICK_MS - FABRIC_TICK_MS / EMU_STARVED_SHARE;

    fabric->tick_starved_ns = fabric->starved_ns;
    return FABRIC_TICK_MS - (starved_ms < most_ms ? (uint32_t)starved_ms : most_ms);
}

uint32_t fabric_tick(struct fabric *fabric, uint32_t *nodes, uint32_t max)
{
    uint32_t count = 0, tick_ms = tick_counted_ms(fabric);

    fabric_groups_sweep(fabric);
    fabric_clock_tick(fabric);
    fabric_comm_tick(fabric);
    for (uint32_t n = 0; n < fabric->config.graph->nodes; n++)
        if (count < max && fabric->hostif[n] && tick_hostif(fabric, fabric->hostif[n], tick_ms))
            nodes[count++] = n;
    return count;
}

uint64_t fabric_full_ns(const struct fabric *fabric)
{
    uint64_t now_ps = emu_clock_now(&fabric->clock);
    uint64_t full_ns = fabric->past_full_ns;

    for (uint32_t n = 0; n < fabric->config.graph->nodes; n++)
        if (fabric->hostif[n])
            full_ns += emu_hostif_full_ns(fabric->hostif[n], now_ps);
    return full_ns;
}

uint32_t fabric_attached(const struct fabric *fabric)
{
    return fabric->attached + fabric->remote;
}
