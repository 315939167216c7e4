/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * frame.c - the operations of a port. A frame is a DPDK buffer (mbuf), and each holder of a frame
 * has a reference to its mbuf.
 *
 * The struct emu_hostframe is in the mbuf's private area, so nothing is copied or allocated. The
 * device drops its own reference after the frame was sent. An adapter may drop it much later, when
 * it sends more frames or rte_eth_tx_done_cleanup() is called.
 */
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <rte_alarm.h>
#include <rte_epoll.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <rte_mbuf.h>

#include "emu/hostlink/dpdk/dpdk.h"
#include "emu/util/now.h"

#define CONNECT_NS 200000000u           /* shortest interval between restarts of a client */
#define AGREE_NS   UINT64_C(2000000000) /* added to CONNECT_NS if the server may be responding */

static struct dpdk_port *port_of(struct emu_hostport *port)
{
    return (struct dpdk_port *)port;
}

uint16_t dpdk_frame_private(void)
{
    /* rounded so that the data stays aligned */
    return RTE_CACHE_LINE_ROUNDUP(sizeof(struct emu_hostframe));
}

static struct emu_hostframe *frame_of(struct dpdk_port *port, struct rte_mbuf *mbuf)
{
    struct emu_hostframe *frame = rte_mbuf_to_priv(mbuf);
    uint32_t room = (uint32_t)rte_pktmbuf_data_len(mbuf) + rte_pktmbuf_tailroom(mbuf);

    frame->data = rte_pktmbuf_mtod(mbuf, uint8_t *);
    frame->bytes = rte_pktmbuf_data_len(mbuf);
    frame->room = RTE_MIN(room, port->port.frame_bytes);
    frame->own = mbuf;
    return frame;
}

/* Return whether the port's socket is ready for @events (poll(2)), or the port has no socket. */
static bool socket_ready(const struct dpdk_port *port, short events)
{
    struct pollfd ask = {.fd = port->socket, .events = events};

    return port->socket < 0 || (poll(&ask, 1, 0) == 1 && (ask.revents & events));
}

/*
 * Return whether this thread may use the device. H3 pairs with H4: the interrupt thread's changes
 * to the device are visible.
 */
static bool device_ready(const struct dpdk_port *port)
{
    /* H3 pairs with H4 */
    return !atomic_load_explicit(&port->restarts, memory_order_acquire) && port->started;
}

static bool device_up(const struct dpdk_port *port)
{
    struct rte_eth_link link = {0};

    return device_ready(port) && rte_eth_link_get_nowait(port->id, &link) == 0 &&
           link.link_status == RTE_ETH_LINK_UP;
}

static void device_restart(void *ctx)
{
    struct dpdk_port *port = ctx;

    if (port->started)
        rte_eth_dev_stop(port->id);
    port->started = rte_eth_dev_start(port->id) == 0;
    atomic_store_explicit(&port->restarts, false, memory_order_release); /* H4 pairs with H3 */
}

/*
 * Return whether the device may be used. From time to time, restart a memif client that is not
 * connected.
 *
 * A memif client tries to connect only when it is started. Therefore it is restarted until its
 * server exists. DPDK's interrupt thread performs the restart, because it watches the descriptors
 * that a restart closes, and would panic if another thread closed them. When the server exists,
 * client and server negotiate, which takes a while if the hosts are busy. A restart must not
 * interrupt this, because the server's DPDK could panic.
 */
static bool device_connects(struct dpdk_port *port)
{
    uint64_t now;

    if (!port->device.connects || device_up(port))
        return port->started;
    if (atomic_load_explicit(&port->restarts, memory_order_acquire)) /* H3 pairs with H4 */
        return false;
    now = emu_now_ns();
    if (now < port->connect_ns + (port->started ? AGREE_NS : 0))
        return port->started;
    port->connect_ns = now + CONNECT_NS;
    atomic_store_explicit(&port->restarts, true, memory_order_relaxed);
    if (rte_eal_alarm_set(1, device_restart, port) == 0)
        return false;
    atomic_store_explicit(&port->restarts, false, memory_order_relaxed);
    return port->started;
}

void dpdk_port_settle(struct dpdk_port *port)
{
    rte_eal_alarm_cancel(device_restart, port);
}

/*
 * Mark the beginning of a burst. During a burst the driver uses its rings if its flags say that it
 * is connected. H5 pairs with H6: the interrupt thread first changes these flags, and then checks
 * whether a burst is in progress.
 */
static void burst_begins(struct dpdk_port *port)
{
    if (!port->device.kind->stops_among_interrupts)
        return;
    atomic_store_explicit(&port->in_burst, true, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst); /* H5 pairs with H6 */
}

static void burst_ends(struct dpdk_port *port)
{
    atomic_store_explicit(&port->in_burst, false, memory_order_release); /* H5 pairs with H6 */
}

static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;
static struct dpdk_port *watched;

void dpdk_port_watch(struct dpdk_port *port)
{
    pthread_mutex_lock(&watch_lock);
    port->next = watched;
    watched = port;
    pthread_mutex_unlock(&watch_lock);
}

void dpdk_port_unwatch(struct dpdk_port *port)
{
    pthread_mutex_lock(&watch_lock);
    for (struct dpdk_port **at = &watched; *at; at = &(*at)->next) {
        if (*at == port) {
            *at = port->next;
            break;
        }
    }
    pthread_mutex_unlock(&watch_lock);
}

/*
 * Wait for the bursts in progress, before DPDK's interrupt thread unmaps rings (port/open.c). H6
 * pairs with H5: the driver's flags already say that it is disconnected. A burst in progress may
 * have read the flags earlier, but a new burst sees them. A burst takes microseconds if its thread
 * has a core.
 */
__attribute__((visibility("default"))) void emu_hostport_dpdk_unmaps(void);
void emu_hostport_dpdk_unmaps(void)
{
    static const struct timespec moment = {.tv_nsec = 20000};

    if (!rte_thread_is_intr())
        return;
    pthread_mutex_lock(&watch_lock);
    atomic_thread_fence(memory_order_seq_cst); /* H6 pairs with H5 */
    for (struct dpdk_port *port = watched; port; port = port->next)
        while (atomic_load_explicit(&port->in_burst, memory_order_acquire)) /* H6 pairs with H5 */
            nanosleep(&moment, NULL);
    pthread_mutex_unlock(&watch_lock);
}

static uint32_t frame_receive(struct emu_hostport *of, struct emu_hostframe **frames, uint32_t max)
{
    struct dpdk_port *port = port_of(of);
    struct rte_mbuf *mbufs[EMU_HOSTLINK_BURST];
    uint32_t count = 0;

    if (!device_connects(port))
        return 0;
    /* If no frame has arrived, the XDP driver may block for up to a second to wake the kernel. */
    if (port->device.kind->polls_to_receive && !socket_ready(port, POLLIN))
        return 0;
    burst_begins(port);
    uint16_t got = rte_eth_rx_burst(port->id, 0, mbufs, (uint16_t)RTE_MIN(max, EMU_HOSTLINK_BURST));
    burst_ends(port);
    for (uint16_t i = 0; i < got; i++) {
        if (mbufs[i]->nb_segs > 1 && rte_pktmbuf_linearize(mbufs[i]) != 0)
            rte_pktmbuf_free(mbufs[i]); /* the frame is larger than any of ours */
        else
            frames[count++] = frame_of(port, mbufs[i]);
    }
    return count;
}

static uint32_t frame_send(struct emu_hostport *of, struct emu_hostframe **frames, uint32_t count)
{
    struct dpdk_port *port = port_of(of);
    struct rte_mbuf *mbufs[EMU_HOSTLINK_BURST];

    count = RTE_MIN(count, EMU_HOSTLINK_BURST);
    /* If the ring is full, the packet-socket driver would block until the kernel sends a frame. */
    if (count == 0 || !device_ready(port) ||
        (port->device.kind->polls_to_send && !socket_ready(port, POLLOUT)))
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        struct emu_hostframe *frame = frames[i];
        struct rte_mbuf *mbuf = frame->own;
        uint32_t bytes = RTE_MAX(frame->bytes, EMU_HOSTLINK_FRAME_LEAST);
        if (bytes > frame->bytes)
            memset(frame->data + frame->bytes, 0, bytes - frame->bytes);
        mbuf->data_len = (uint16_t)bytes;
        mbuf->pkt_len = bytes;
        mbuf->ol_flags = 0; /* clear the flags of the frame that was received in this mbuf */
        mbufs[i] = mbuf;
    }
    burst_begins(port);
    count = rte_eth_tx_burst(port->id, 0, mbufs, (uint16_t)count);
    burst_ends(port);
    return count;
}

static struct emu_hostframe *frame_take(struct emu_hostport *of)
{
    struct dpdk_port *port = port_of(of);
    struct rte_mbuf *mbuf = rte_pktmbuf_alloc(port->pool);

    if (!mbuf) {
        rte_eth_tx_done_cleanup(port->id, 0, 0); /* free sent frames, if the device supports that */
        mbuf = rte_pktmbuf_alloc(port->pool);
    }
    return mbuf ? frame_of(port, mbuf) : NULL;
}

static void frame_keep(struct emu_hostport *of, struct emu_hostframe *frame)
{
    (void)of;
    rte_pktmbuf_refcnt_update(frame->own, 1);
}

static bool frame_is_alone(struct emu_hostport *of, const struct emu_hostframe *frame)
{
    if (rte_mbuf_refcnt_read(frame->own) == 1)
        return true;
    rte_eth_tx_done_cleanup(port_of(of)->id, 0, 0);
    return rte_mbuf_refcnt_read(frame->own) == 1;
}

static void frame_drop(struct emu_hostport *of, struct emu_hostframe *frame)
{
    (void)of;
    rte_pktmbuf_free(frame->own);
}

static int frame_wake_fd(struct emu_hostport *of)
{
    return port_of(of)->wake;
}

static void frame_wake_clear(struct emu_hostport *of)
{
    const struct dpdk_port *port = port_of(of);
    struct rte_epoll_event event;
    socklen_t bytes = sizeof(int);
    int err;

    if (port->socket >= 0) /* a socket with an error stays readable until the error is read */
        getsockopt(port->socket, SOL_SOCKET, SO_ERROR, &err, &bytes);
    if (port->epoll < 0)
        return;
    rte_epoll_wait(port->epoll, &event, 1, 0);
    rte_eth_dev_rx_intr_disable(port->id, 0);
    rte_eth_dev_rx_intr_enable(port->id, 0);
}

static void close_elsewhere(void *ctx)
{
    dpdk_port_close(ctx);
}

static void frame_close(struct emu_hostport *of)
{
    if (dpdk_elsewhere(close_elsewhere, port_of(of)) != 0)
        dpdk_port_close(port_of(of));
}

const struct emu_hostport_ops dpdk_ops = {
    .receive = frame_receive,
    .send = frame_send,
    .take = frame_take,
    .keep = frame_keep,
    .is_alone = frame_is_alone,
    .drop = frame_drop,
    .wake_fd = frame_wake_fd,
    .wake_clear = frame_wake_clear,
    .close = frame_close,
};
