/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dpdk.h - shared by the files here: a device as the user named it, and the port made from it.
 *
 *   open.c       the only function that others call: device, DPDK, pool, port; and closing them
 *   device.c     parses the text that names a device, and its arguments
 *   kind.c       the table of kinds of devices, and the arguments of each
 *   kernel.c     network interfaces of the kernel, and descriptors that DPDK opened
 *   eal.c        starts DPDK, once; runs code on temporary threads
 *   log.c        filters DPDK's log
 *   frame.c      the port: frames are mbufs
 */
#ifndef EMU_HOSTLINK_DPDK_H
#define EMU_HOSTLINK_DPDK_H

#include <net/if.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/hostlink/port/open.h"

struct rte_mempool;
struct rte_mbuf;

#define DPDK_DEVICE_CHARS 512 /* of a device's text with all arguments */

/* Where to write one line for the user. */
struct dpdk_error {
    char *text;
    size_t bytes;
};

/** dpdk_fail - write the line and return @err. */
int dpdk_fail(const struct dpdk_error *error, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A network interface of the kernel, as it was when it was queried. */
struct dpdk_interface {
    char name[IFNAMSIZ]; /* "": the device has none */
    uint32_t mtu;
};

struct dpdk_kind;

struct dpdk_device {
    const struct dpdk_kind *kind;
    char name[64];                /* of the device, without arguments */
    char text[DPDK_DEVICE_CHARS]; /* passed to DPDK: the user's text and added arguments */
    struct dpdk_interface interface;
    uint32_t frame_wanted; /* bytes, with the Ethernet header */
    uint32_t frame_bytes;  /* that it supports */
    bool connects;         /* a client, whose server may be absent */
    uint32_t ring_bytes;   /* af_packet: size of a frame slot in the kernel's ring; others: 0 */
};

/* Properties of a kind of device. */
struct dpdk_kind {
    const char *name;      /* prefix of the device names; NULL: any other device */
    bool has_interface;    /* iface= names an interface of the kernel, which must exist and be up */
    int family;            /* of the driver's socket, which can be waited on; 0: none */
    bool polls_to_send;    /* sending may block in the kernel: poll the socket first */
    bool polls_to_receive; /* and so may receiving */
    bool filters;          /* a filter on that socket can drop foreign frames */
    bool has_mtu;          /* we may set its MTU: no other program uses it */
    bool has_interrupts;   /* it supports receive interrupts */
    bool ends_in_kernel;   /* it creates a kernel interface with the port's own address */
    bool keeps_queues;     /* its queues hold frames of the pool, in addition to those requested */
    /* only DPDK's interrupt thread, which unmaps its rings, may stop it */
    bool stops_among_interrupts;
    uint32_t object_most; /* most bytes of a buffer with all its headers; 0: no limit */
    /* Add missing arguments and set frame_bytes. Errors: -EINVAL. */
    int (*arguments)(struct dpdk_device *device, const struct dpdk_error *error);
    const char *hint; /* likely cause of a failure to open it, or NULL */
};

/** dpdk_kind_of - the kind of device @name. Pure. */
const struct dpdk_kind *dpdk_kind_of(const char *name);

/** dpdk_is_address - is @name the PCI address of an adapter? Pure. */
bool dpdk_is_address(const char *name);

/**
 * dpdk_device_read - parse @text, query the interface and complete the arguments. Errors: as
 * emu_hostport_open().
 */
int dpdk_device_read(struct dpdk_device *ret, const char *text, uint32_t frame_bytes,
                     const struct dpdk_error *error);

/** dpdk_argument - copy the value of argument @key to @ret; false: it is not given. */
bool dpdk_argument(const struct dpdk_device *device, const char *key, char *ret, size_t ret_bytes);

/** dpdk_number - the number in argument @key, or @otherwise. Sets *@bad if it is no number. */
uint32_t dpdk_number(const struct dpdk_device *device, const char *key, uint32_t otherwise,
                     bool *bad);

/** dpdk_argument_add - add an argument unless the user gave it. */
void dpdk_argument_add(struct dpdk_device *device, const char *key, uint32_t value);

/**
 * dpdk_interface_check - query its MTU. Errors: -ENODEV, -ENETDOWN; -EPERM: no permission to use
 * it.
 */
int dpdk_interface_check(struct dpdk_interface *interface, const struct dpdk_device *device,
                         const struct dpdk_error *error);

/**
 * dpdk_interface_readdress - give the interface that the driver created another address than the
 * port's, @mac: a bridge consumes frames to its own interfaces' addresses.
 */
void dpdk_interface_readdress(unsigned index, const uint8_t mac[static 6]);

/** dpdk_interface_runs - is it up, with a carrier? @fd: any socket. */
bool dpdk_interface_runs(const struct dpdk_interface *interface, int fd);

/**
 * dpdk_eal_start - start DPDK, once, with the first caller's @options. Errors: -EIO, -ENOMEM; later
 * calls return the same.
 */
int dpdk_eal_start(const struct emu_hostport_options *options, const struct dpdk_error *error);

/**
 * dpdk_elsewhere - run @fn(@ctx) on a temporary thread that takes no signals, and wait for it.
 * Errors: pthread_create()'s.
 */
int dpdk_elsewhere(void (*fn)(void *ctx), void *ctx);

/**
 * dpdk_log_open - redirect DPDK's log: warnings go to stderr. After dpdk_log_keep(true) nothing is
 * printed, and dpdk_log_kept() returns the first error.
 */
int dpdk_log_open(void);
void dpdk_log_keep(bool keep);
const char *dpdk_log_kept(void);

/** dpdk_log_libraries - the same for libraries that drivers have loaded. After dpdk_eal_start(). */
void dpdk_log_libraries(void);

/* The open descriptors of this process. */
struct dpdk_open {
    uint32_t count;
    int fds[32768];
};

/** dpdk_open_list - list the open descriptors, as many as fit. */
void dpdk_open_list(struct dpdk_open *ret);

/**
 * dpdk_open_claim - set close-on-exec on all descriptors opened since @before. Returns the socket
 * of @family among them, or -1. Does nothing if @before is full.
 */
int dpdk_open_claim(const struct dpdk_open *before, int family);

/** dpdk_socket_prepare - let only our frames through to @fd, and enlarge its send buffer. */
void dpdk_socket_prepare(int fd);

struct dpdk_port {
    struct emu_hostport port;
    struct dpdk_device device;
    uint16_t id; /* DPDK's port number */
    struct rte_mempool *pool;
    int socket;          /* the driver's; -1: none */
    int wake;            /* descriptor to wait on; -1: none */
    int epoll;           /* ours, with the device's interrupt; -1: none */
    int query;           /* socket to query the interface; -1: none */
    bool started;        /* running; else it must not be used */
    uint64_t connect_ns; /* earliest time of the next restart */
    /* DPDK's interrupt thread is restarting the device and owns it until this is false. */
    _Atomic bool restarts;
    _Atomic bool amid;      /* in a burst, on rings that DPDK's interrupt thread may unmap */
    struct dpdk_port *next; /* next port with such rings */
};

extern const struct emu_hostport_ops dpdk_ops;

/** dpdk_frame_private - bytes before each buffer for struct emu_hostframe. */
uint16_t dpdk_frame_private(void);

/**
 * dpdk_port_watch - protect its rings from being unmapped during a burst; dpdk_port_unwatch() ends
 * that.
 */
void dpdk_port_watch(struct dpdk_port *port);
void dpdk_port_unwatch(struct dpdk_port *port);

/** dpdk_port_settle - cancel pending restarts. Not on DPDK's interrupt thread. */
void dpdk_port_settle(struct dpdk_port *port);

/** dpdk_port_close - stop and free @port, in whatever state it is. On the caller's thread. */
void dpdk_port_close(struct dpdk_port *port);

#endif
