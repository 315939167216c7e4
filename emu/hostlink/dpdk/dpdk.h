/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dpdk.h - what the files here share: a device as the user named it, and the port that it becomes.
 *
 *   open.c       the only function that others call: device, DPDK, pool, port; and the way back
 *   device.c     the text that names a device, its arguments
 *   kind.c       the table of kinds of devices, and what each wants
 *   interface.c  network interfaces of the kernel
 *   eal.c        starts DPDK, once; threads for what may not run on the caller's
 *   log.c        what DPDK says
 *   socket.c     descriptors that DPDK opened
 *   frame.c      the port: frames are mbufs
 *   unmaps.c     rings that a driver unmaps are read by nobody
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

#define DPDK_DEVICE_CHARS 512 /* of a device's text, with all arguments */

/* One line for the user, and the error. */
struct dpdk_error {
    char *text;
    size_t bytes;
};

/** dpdk_fail - writes the line, returns @err. */
int dpdk_fail(const struct dpdk_error *error, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A network interface of the kernel, as it was when it was looked at. */
struct dpdk_interface {
    char name[IFNAMSIZ]; /* "": the device has none */
    uint32_t mtu;
};

struct dpdk_kind;

struct dpdk_device {
    const struct dpdk_kind *kind;
    char name[64];                /* of the device, without arguments */
    char text[DPDK_DEVICE_CHARS]; /* for DPDK: as the user wrote it, and what was added */
    struct dpdk_interface interface;
    uint32_t frame_wanted; /* bytes, with the Ethernet header */
    uint32_t frame_bytes;  /* that it has */
    bool connects;         /* to a server, which may be there or not */
    uint32_t ring_bytes;   /* af_packet: of a frame in the kernel's ring; others: 0 */
};

/* What distinguishes devices. */
struct dpdk_kind {
    const char *name;      /* devices' names begin with it; NULL: what no other row is */
    bool has_interface;    /* iface= is an interface of the kernel, which must be there and up */
    int family;            /* of the driver's own socket, on which can be slept; 0: it has none */
    bool polls_to_send;    /* sending would wait for the kernel: the socket is asked first */
    bool polls_to_receive; /* so would receiving */
    bool filters;          /* what is not ours can be kept out by a filter on that socket */
    bool has_mtu;          /* its MTU is set, and is no other program's */
    bool has_interrupts;   /* DPDK can be asked for an interrupt when frames come */
    bool ends_in_kernel;   /* it makes an interface of the kernel, with the port's own address */
    bool keeps_queues;     /* frames lie in its queues: the pool has them besides those asked for */
    /* it may only be stopped by the thread that has its interrupts, which unmaps its rings */
    bool stops_among_interrupts;
    uint32_t object_most; /* bytes of a buffer with all that stands before it; 0: no limit */
    /* Add arguments that the user left to us, find frame_bytes. Errors: -EINVAL. */
    int (*arguments)(struct dpdk_device *device, const struct dpdk_error *error);
    const char *hint; /* when it cannot be opened and nothing better is known; or NULL */
};

/** dpdk_kind_of - of the device @name. Pure. */
const struct dpdk_kind *dpdk_kind_of(const char *name);

/** dpdk_is_address - is @name the address of an adapter on PCI? Pure. */
bool dpdk_is_address(const char *name);

/**
 * dpdk_device_read - the device that @text names, its interface looked at, its arguments completed.
 * Errors: as emu_hostport_open().
 */
int dpdk_device_read(struct dpdk_device *ret, const char *text, uint32_t frame_bytes,
                     const struct dpdk_error *error);

/** dpdk_argument - the value of @key among the arguments, at @ret; false: it is not given. */
bool dpdk_argument(const struct dpdk_device *device, const char *key, char *ret, size_t ret_bytes);

/** dpdk_number - of the argument @key, or @otherwise. *@bad becomes true if it is no number. */
uint32_t dpdk_number(const struct dpdk_device *device, const char *key, uint32_t otherwise,
                     bool *bad);

/** dpdk_argument_add - unless the user said something about it. */
void dpdk_argument_add(struct dpdk_device *device, const char *key, uint32_t value);

/** dpdk_interface_check - its MTU. Errors: -ENODEV, -ENETDOWN; -EPERM: it may not be used. */
int dpdk_interface_check(struct dpdk_interface *interface, const struct dpdk_device *device,
                         const struct dpdk_error *error);

/**
 * dpdk_interface_readdress - the interface that the driver has made gets another address than the
 * port's, @mac: a bridge takes a frame to its own interface's address for its own.
 */
void dpdk_interface_readdress(unsigned index, const uint8_t mac[static 6]);

/** dpdk_interface_runs - is it up, with a carrier? @fd: any socket. */
bool dpdk_interface_runs(const struct dpdk_interface *interface, int fd);

/** dpdk_eal_start - once, as the first @options say. Errors: -EIO, -ENOMEM, the same ever after. */
int dpdk_eal_start(const struct emu_hostport_options *options, const struct dpdk_error *error);

/**
 * dpdk_elsewhere - runs @fn(@ctx) on a thread that takes no signals. Errors: pthread_create()'s.
 */
int dpdk_elsewhere(void (*fn)(void *ctx), void *ctx);

/**
 * dpdk_log_open - what DPDK says goes through here from now on: warnings to stderr. While something
 * is opened nothing is said, and the first error is kept: dpdk_log_keep(true); dpdk_log_kept().
 */
int dpdk_log_open(void);
void dpdk_log_keep(bool keep);
const char *dpdk_log_kept(void);

/** dpdk_log_libraries - the same for what drivers have loaded. After dpdk_eal_start(). */
void dpdk_log_libraries(void);

/* Descriptors of this process: those that are open. */
struct dpdk_open {
    uint32_t count;
    int fds[32768];
};

/** dpdk_open_list - those that are open now; more than fit are left out. */
void dpdk_open_list(struct dpdk_open *ret);

/**
 * dpdk_open_claim - of those opened since @before: none is passed on to programs that are started.
 * Returns the socket of @family among them, or -1. With more descriptors than fit nothing is done.
 */
int dpdk_open_claim(const struct dpdk_open *before, int family);

/** dpdk_socket_prepare - only our frames come to @fd; much may be under way. */
void dpdk_socket_prepare(int fd);

struct dpdk_port {
    struct emu_hostport port;
    struct dpdk_device device;
    uint16_t id; /* DPDK's */
    struct rte_mempool *pool;
    int socket;          /* the driver's own; -1 */
    int wake;            /* descriptor to sleep on; -1 */
    int epoll;           /* of ours, which has the device's interrupt; -1 */
    int query;           /* socket by which the interface is asked for its state; -1 */
    bool started;        /* to be stopped; else it must not be used */
    uint64_t connect_ns; /* not before is it started anew */
    /* DPDK's thread for interrupts stops and starts it; until then it is that thread's alone. */
    _Atomic bool restarts;
    _Atomic bool amid;      /* a burst, in rings that DPDK's thread for interrupts may unmap */
    struct dpdk_port *next; /* of those with such rings */
};

extern const struct emu_hostport_ops dpdk_ops;

/** dpdk_frame_private - bytes before each buffer that are the frame's. */
uint16_t dpdk_frame_private(void);

/** dpdk_port_watch - its rings may be unmapped by another thread; _unwatch: they are no more. */
void dpdk_port_watch(struct dpdk_port *port);
void dpdk_port_unwatch(struct dpdk_port *port);

/** dpdk_port_settle - nobody starts it anew from now on. Not on DPDK's thread for interrupts. */
void dpdk_port_settle(struct dpdk_port *port);

/** dpdk_port_close - stops and frees what there is of @port. On the caller's thread. */
void dpdk_port_close(struct dpdk_port *port);

#endif
