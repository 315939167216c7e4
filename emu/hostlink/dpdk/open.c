/* SPDX-License-Identifier: BSD-3-Clause */
/* open.c - open a device as a port, and close the port. */
#include "emu/hostlink/port/open.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_dev.h>
#include <rte_epoll.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "emu/hostlink/dpdk/dpdk.h"
#include "emu/util/now.h"

#define EXPORTED __attribute__((visibility("default")))

#define FRAMES      4096u
#define FRAME_LEAST 512u
/*
 * frames for bursts on their way between the user of a port and the device; the pool has these in
 * addition to the frames that the user may hold
 */
#define SPARE        256u
#define QUEUE        1024u /* queue length if the device has no default */
#define XDP_HEADROOM 256u  /* bytes that the kernel reserves in a buffer for XDP programs */
#define ROOM_STEP    1024u /* granularity of some adapters' buffer sizes */

EXPORTED emu_hostport_open_fn emu_hostport_dpdk_open;
EXPORTED extern const char emu_hostport_dpdk_built[];
const char emu_hostport_dpdk_built[] = FABEMU_VERSION;

struct opening {
    const struct emu_hostport_options *options;
    const struct dpdk_error *error;
    struct dpdk_port *port;
    int err;
};

/* Report that DPDK has failed: @what, DPDK's own message, and a likely cause. Return the error. */
static int refused(const struct opening *opening, int err, const char *what)
{
    const struct dpdk_device *device = &opening->port->device;
    const char *hint = device->kind->hint;
    char said[DPDK_LOG_CHARS];

    dpdk_log_kept(said);
    return dpdk_fail(opening->error, err == -ENOMEM ? -ENOMEM : -EIO, "%s: %s: %s%s%s%s",
                     device->name, what, *said ? said : strerror(err < 0 ? -err : EIO),
                     hint ? " (" : "", hint ? hint : "", hint ? ")" : "");
}

static int pool_create(const struct opening *opening, const struct rte_eth_dev_info *info)
{
    struct dpdk_port *port = opening->port;
    const struct dpdk_kind *kind = port->device.kind;
    uint32_t frames = (opening->options->frames ? opening->options->frames : FRAMES) + SPARE;
    uint32_t bytes = RTE_MAX(port->device.frame_bytes, port->device.ring_bytes);
    uint32_t room = RTE_ALIGN_CEIL(bytes, ROOM_STEP) + RTE_PKTMBUF_HEADROOM;
    uint32_t before = RTE_ALIGN_CEIL(sizeof(struct rte_mempool_objhdr), RTE_CACHE_LINE_SIZE) +
                      sizeof(struct rte_mbuf) + dpdk_frame_private();
    char name[RTE_MEMPOOL_NAMESIZE];

    if (kind->object_most) {
        /* DPDK pads a buffer to an odd number of cache lines: at most 63 of a page's 64. */
        room = kind->object_most - RTE_CACHE_LINE_SIZE - before;
        bytes = room - RTE_PKTMBUF_HEADROOM - XDP_HEADROOM;
        port->device.frame_bytes = RTE_MIN(port->device.frame_bytes, bytes);
    }
    if (kind->keeps_queues)
        frames += info->default_rxportconf.ring_size + info->default_txportconf.ring_size;
    if (room > UINT16_MAX)
        return dpdk_fail(opening->error, -EINVAL, "%s: frames of %u bytes are too large",
                         port->device.name, bytes);
    snprintf(name, sizeof name, "fabemu_%u", port->id);
    /*
     * Only one thread at a time uses the pool, so it needs no caches. A stack hands out the frame
     * that was freed last, which is still in the processor's cache.
     */
    port->pool = rte_pktmbuf_pool_create_by_ops(name, frames, 0, dpdk_frame_private(),
                                                (uint16_t)room, SOCKET_ID_ANY, "stack");
    if (port->pool)
        return 0;
    return dpdk_fail(
        opening->error, -ENOMEM,
        "%s: no memory for %u frames of %u bytes: they need %u MiB of the memory for all ports",
        port->device.name, frames, bytes, (uint32_t)((uint64_t)frames * (room + before) >> 20));
}

/* Choose the MTU of a device that we may configure, and set frame_bytes to match. */
static uint32_t mtu_choose(struct dpdk_device *device, const struct rte_eth_dev_info *info)
{
    uint32_t header = RTE_ETHER_HDR_LEN, most = device->frame_bytes - header;

    if (info->max_rx_pktlen != UINT32_MAX && info->max_rx_pktlen > header + RTE_ETHER_CRC_LEN)
        most = RTE_MIN(most, info->max_rx_pktlen - header - RTE_ETHER_CRC_LEN);
    if (info->max_mtu >= RTE_ETHER_MIN_MTU)
        most = RTE_MIN(most, info->max_mtu);
    if (most > RTE_ETHER_MTU && most <= RTE_ETHER_MTU + 2 * RTE_VLAN_HLEN)
        most = RTE_ETHER_MTU; /* the driver's limit includes space for VLAN tags */
    device->frame_bytes = most + header;
    return most;
}

static int port_configure(const struct opening *opening)
{
    struct dpdk_port *port = opening->port;
    const struct dpdk_kind *kind = port->device.kind;
    struct rte_eth_conf conf = {0};
    struct rte_eth_dev_info info;
    int err = rte_eth_dev_info_get(port->id, &info);

    if (err != 0)
        return refused(opening, err, "DPDK cannot query it");
    info.default_rxportconf.ring_size =
        info.default_rxportconf.ring_size ? info.default_rxportconf.ring_size : QUEUE;
    info.default_txportconf.ring_size =
        info.default_txportconf.ring_size ? info.default_txportconf.ring_size : QUEUE;
    if (kind->has_mtu)
        conf.rxmode.mtu = mtu_choose(&port->device, &info);
    conf.intr_conf.rxq = kind->has_interrupts;
    err = rte_eth_dev_configure(port->id, 1, 1, &conf);
    if (err != 0 && conf.intr_conf.rxq) {
        conf.intr_conf.rxq = 0;
        err = rte_eth_dev_configure(port->id, 1, 1, &conf);
    }
    uint16_t rx = info.default_rxportconf.ring_size, tx = info.default_txportconf.ring_size;
    if (err == 0)
        err = rte_eth_dev_adjust_nb_rx_tx_desc(port->id, &rx, &tx);
    if (err != 0)
        return refused(opening, err, "it cannot be set up");
    err = pool_create(opening, &info);
    if (err != 0)
        return err;
    err = rte_eth_rx_queue_setup(port->id, 0, rx, SOCKET_ID_ANY, NULL, port->pool);
    if (err == 0)
        err = rte_eth_tx_queue_setup(port->id, 0, tx, SOCKET_ID_ANY, NULL);
    if (err == 0)
        err = rte_eth_dev_start(port->id);
    port->started = err == 0;
    port->connect_ns = emu_now_ns();
    return err == 0 || port->device.connects ? 0 : refused(opening, err, "it does not start");
}

/* Choose the descriptor to wait on: the driver's socket, or the device's interrupt. */
static void wake_open(struct dpdk_port *port)
{
    port->wake = port->socket;
    if (!port->device.kind->has_interrupts)
        return;
    port->epoll = epoll_create1(EPOLL_CLOEXEC);
    bool added = port->epoll >= 0 &&
                 rte_eth_dev_rx_intr_ctl_q(port->id, 0, port->epoll, RTE_INTR_EVENT_ADD, NULL) == 0;
    int err = added ? rte_eth_dev_rx_intr_enable(port->id, 0) : 0;
    if (err == -ENOTSUP) /* the driver cannot switch the interrupt off or on: it is always on */
        err = 0;
    if (err != 0)
        rte_eth_dev_rx_intr_ctl_q(port->id, 0, port->epoll, RTE_INTR_EVENT_DEL, NULL);
    if (port->epoll >= 0 && (!added || err != 0)) {
        close(port->epoll);
        port->epoll = -1;
    }
    port->wake = port->epoll;
}

static int port_probe(const struct opening *opening)
{
    struct dpdk_port *port = opening->port;
    const struct dpdk_device *device = &port->device;

    if (rte_eth_dev_get_port_by_name(device->name, &port->id) == 0) {
        /* the device belongs to another port, so dpdk_port_close() must not close it */
        port->id = RTE_MAX_ETHPORTS;
        return dpdk_fail(
            opening->error, -EEXIST,
            "%s: it is already open in this process; give a second device another number",
            device->name);
    }
    int err = rte_dev_probe(device->text);
    if (err != 0)
        return refused(opening, err, "DPDK cannot open it");
    if (rte_eth_dev_get_port_by_name(device->name, &port->id) != 0) {
        struct rte_dev_iterator all;
        char match[sizeof device->name + 8];
        snprintf(match, sizeof match, "%s", device->name);
        port->id = RTE_MAX_ETHPORTS;
        if (rte_eth_iterator_init(&all, match) == 0) {
            port->id = rte_eth_iterator_next(&all);
            rte_eth_iterator_cleanup(&all);
        }
    }
    return rte_eth_dev_is_valid_port(port->id)
               ? 0
               : refused(opening, -ENODEV, "it has no Ethernet port");
}

static int port_ready(const struct opening *opening)
{
    struct dpdk_port *port = opening->port;
    uint32_t least = opening->options->frame_least ? opening->options->frame_least : FRAME_LEAST;
    struct rte_eth_dev_info info;
    struct rte_ether_addr mac;

    if (port->device.frame_bytes < least)
        return dpdk_fail(opening->error, -EMSGSIZE,
                         "%s: its frames have at most %u bytes, and a link between hosts needs %u: "
                         "make the MTU larger (ip link set %s mtu 9000)",
                         port->device.name, port->device.frame_bytes, least,
                         port->device.interface.name[0] ? port->device.interface.name : "NAME");
    if (rte_eth_macaddr_get(port->id, &mac) == 0)
        memcpy(port->port.mac, mac.addr_bytes, sizeof port->port.mac);
    if (port->device.kind->ends_in_kernel && rte_eth_dev_info_get(port->id, &info) == 0)
        dpdk_interface_readdress(info.if_index, port->port.mac);
    if (port->socket >= 0 && port->device.kind->filters)
        dpdk_socket_prepare(port->socket);
    wake_open(port);
    port->port.ops = &dpdk_ops;
    port->port.frame_bytes = port->device.frame_bytes;
    snprintf(port->port.name, sizeof port->port.name, "%.*s", (int)sizeof port->port.name - 1,
             port->device.text);
    if (port->device.kind->stops_among_interrupts)
        dpdk_port_watch(port);
    return 0;
}

static void opening_run(void *ctx)
{
    struct opening *opening = ctx;
    struct dpdk_open *before = malloc(sizeof *before);

    opening->err = -ENOMEM;
    if (!before) {
        dpdk_fail(opening->error, -ENOMEM, "no memory");
        dpdk_port_close(opening->port);
        return;
    }
    dpdk_open_list(before);
    opening->err = port_probe(opening);
    if (opening->err == 0)
        opening->err = port_configure(opening);
    int family = opening->port->device.kind->family;
    opening->port->socket = dpdk_open_claim(before, family);
    free(before);
    if (opening->err == 0)
        opening->err = port_ready(opening);
    if (opening->err != 0)
        dpdk_port_close(opening->port);
}

struct stopping {
    uint16_t id;
    sem_t done;
};

static void stop_among_interrupts(void *ctx)
{
    struct stopping *stopping = ctx;

    rte_eth_dev_stop(stopping->id);
    sem_post(&stopping->done);
}

/*
 * When a memif peer disconnects, DPDK's interrupt thread frees the same resources as a stop,
 * without a lock. Therefore the interrupt thread performs the stop, too.
 */
static void port_stop(const struct dpdk_port *port)
{
    struct stopping stopping = {.id = port->id};

    if (!port->device.kind->stops_among_interrupts || sem_init(&stopping.done, 0, 0) != 0) {
        rte_eth_dev_stop(port->id);
        return;
    }
    if (rte_eal_alarm_set(1, stop_among_interrupts, &stopping) != 0)
        stop_among_interrupts(&stopping);
    while (sem_wait(&stopping.done) != 0) /* interrupted by a signal */
        ;
    sem_destroy(&stopping.done);
}

void dpdk_port_close(struct dpdk_port *port)
{
    struct rte_eth_dev_info info;

    dpdk_port_settle(port);
    if (rte_eth_dev_is_valid_port(port->id)) {
        struct rte_device *device = rte_eth_dev_info_get(port->id, &info) == 0 ? info.device : NULL;
        if (port->epoll >= 0)
            rte_eth_dev_rx_intr_ctl_q(port->id, 0, port->epoll, RTE_INTR_EVENT_DEL, NULL);
        if (port->started)
            port_stop(port);
        rte_eth_dev_close(port->id);
        dpdk_port_unwatch(port);
        if (device)
            rte_dev_remove(device);
    }
    if (port->epoll >= 0)
        close(port->epoll);
    rte_mempool_free(port->pool);
    free(port);
}

/*
 * Start DPDK. Programs that this process starts later must not inherit the descriptors that DPDK
 * opens.
 */
static int dpdk_start(const struct emu_hostport_options *options, const struct dpdk_error *error)
{
    struct dpdk_open *before = malloc(sizeof *before);

    if (!before)
        return dpdk_fail(error, -ENOMEM, "no memory");
    dpdk_open_list(before);
    int err = dpdk_eal_start(options, error);
    dpdk_open_claim(before, 0);
    free(before);
    return err;
}

int emu_hostport_dpdk_open(struct emu_hostport **ret, const char *device,
                           const struct emu_hostport_options *options, char *error,
                           size_t error_bytes)
{
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    const struct dpdk_error line = {error, error_bytes};
    struct dpdk_port *port = malloc(sizeof *port);
    struct opening opening = {.options = options, .error = &line, .port = port};

    if (!port)
        return dpdk_fail(&line, -ENOMEM, "no memory");
    *port = (struct dpdk_port){.id = RTE_MAX_ETHPORTS, .socket = -1, .wake = -1, .epoll = -1};
    pthread_mutex_lock(&one_at_a_time);
    int err =
        dpdk_device_read(&port->device, device,
                         options->frame_bytes ? options->frame_bytes : EMU_HOSTLINK_FRAME_BYTES,
                         &line);
    if (err == 0)
        err = dpdk_start(options, &line);
    if (err != 0) {
        free(port);
    } else {
        dpdk_log_keep(true);
        err = dpdk_elsewhere(opening_run, &opening);
        if (err != 0) {
            dpdk_fail(&line, err, "no thread for DPDK: %s", strerror(-err));
            free(port);
        }
        err = err ? err : opening.err;
        dpdk_log_keep(false);
    }
    pthread_mutex_unlock(&one_at_a_time);
    if (err == 0)
        *ret = &port->port;
    return err;
}
