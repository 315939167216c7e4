/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dpdk.h - a DPDK device that the user has named, and the port that is made from it. The files of
 * this folder share it:
 *
 *   open.c       opens a port, by the only function that other folders call, and closes it
 *   device.c     parses the text that names a device, and its arguments
 *   kind.c       the table of kinds of devices, and the arguments of each
 *   kernel.c     network interfaces of the kernel, and descriptors that DPDK opened
 *   eal.c        starts DPDK, once; runs code on temporary threads
 *   log.c        filters DPDK's log
 *   frame.c      the operations of a port, whose frames are mbufs
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

/* maximum number of characters of a device's text, with all arguments */
#define DPDK_DEVICE_CHARS 512

#define DPDK_LOG_CHARS 200 /* size of dpdk_log_kept() */

/* The buffer for a line that explains an error to the user. */
struct dpdk_error {
    char *text;
    size_t bytes;
};

/** dpdk_fail - write the line and return @err. */
int dpdk_fail(const struct dpdk_error *error, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

struct dpdk_interface {
    char name[IFNAMSIZ]; /* "": the device has no interface */
    uint32_t mtu;
};

struct dpdk_kind;

struct dpdk_device {
    const struct dpdk_kind *kind;
    char name[64]; /* name of the device, without arguments */
    /* text for DPDK: the user's text, and the arguments that we have added */
    char text[DPDK_DEVICE_CHARS];
    struct dpdk_interface interface;
    /* largest frame that the caller wants, with the Ethernet header */
    uint32_t frame_wanted;
    uint32_t frame_bytes; /* largest frame that the device supports */
    bool connects;        /* the device is a client, and its server may be absent */
    uint32_t ring_bytes;  /* af_packet: size of a frame slot in the kernel's ring; others: 0 */
};

struct dpdk_kind {
    const char *name; /* prefix of the device names; NULL: any other device */
    /* argument iface= names an interface of the kernel, which must exist and be up */
    bool has_interface;
    /* address family of the driver's socket, which can be polled; 0: it has no socket */
    int family;
    bool polls_to_send;    /* sending may block in the kernel, so the socket is polled first */
    bool polls_to_receive; /* receiving may block in the kernel, so the socket is polled first */
    bool filters;          /* a filter on the driver's socket can drop frames of other protocols */
    bool has_mtu;          /* we may set the MTU, because no other program uses the device */
    bool has_interrupts;   /* the device supports receive interrupts */
    /* opening it creates a network interface of the kernel, at first with the port's address */
    bool ends_in_kernel;
    /* the device keeps frames in its queues, so the pool needs more frames than the user does */
    bool keeps_queues;
    /* DPDK's interrupt thread unmaps the rings, so only that thread may stop the device */
    bool stops_among_interrupts;
    /* maximum number of bytes of a pool buffer with all its headers; 0: no limit */
    uint32_t object_most;
    /* Add missing arguments and set frame_bytes. Errors: -EINVAL. */
    int (*arguments)(struct dpdk_device *device, const struct dpdk_error *error);
    const char *hint; /* likely cause if the device cannot be opened; NULL: unknown */
};

const struct dpdk_kind *dpdk_kind_of(const char *name);

/** dpdk_is_address - return whether @name is the PCI address of an adapter. Pure. */
bool dpdk_is_address(const char *name);

/** dpdk_device_read - parse @text, and add missing arguments. Errors: as emu_hostport_open(). */
int dpdk_device_read(struct dpdk_device *ret, const char *text, uint32_t frame_bytes,
                     const struct dpdk_error *error);

/** dpdk_argument - copy the value of argument @key to @ret. Returns false if it is not given. */
bool dpdk_argument(const struct dpdk_device *device, const char *key, char *ret, size_t ret_bytes);

/**
 * dpdk_number - return the number in argument @key, or @otherwise if it is not given. Sets *@bad if
 * its value is no number.
 */
uint32_t dpdk_number(const struct dpdk_device *device, const char *key, uint32_t otherwise,
                     bool *bad);

/** dpdk_argument_add - add an argument, unless the user has given it. */
void dpdk_argument_add(struct dpdk_device *device, const char *key, uint32_t value);

/** dpdk_interface_missing - write the line that there is no interface @name. Returns -ENODEV. */
int dpdk_interface_missing(const struct dpdk_device *device, const char *name,
                           const struct dpdk_error *error);

/**
 * dpdk_interface_check - query the interface's MTU, and check that it can be used. Errors: -ENODEV,
 * -ENETDOWN; -EPERM: no permission to use it.
 */
int dpdk_interface_check(struct dpdk_interface *interface, const struct dpdk_device *device,
                         const struct dpdk_error *error);

/**
 * dpdk_interface_readdress - change the address of the kernel interface that the driver has
 * created, so that it differs from @mac, the address of the port. Otherwise a bridge with this
 * interface would take the port's frames for its own.
 */
void dpdk_interface_readdress(unsigned index, const uint8_t mac[static 6]);

/**
 * dpdk_eal_start - start DPDK with the @options of the first call. Errors: -EIO, -ENOMEM. Later
 * calls do nothing and return the same result.
 */
int dpdk_eal_start(const struct emu_hostport_options *options, const struct dpdk_error *error);

/**
 * dpdk_elsewhere - run @fn(@ctx) on a temporary thread that receives no signals, and wait for it.
 * Errors: those of pthread_create().
 */
int dpdk_elsewhere(void (*fn)(void *ctx), void *ctx);

/**
 * dpdk_log_open - redirect DPDK's log; warnings and errors go to stderr.
 * dpdk_log_keep - if true, print nothing from now on, and keep the first error for dpdk_log_kept();
 * if false, print again.
 * dpdk_log_kept - copy this error to @ret; "": there was none. Thread: any, because threads of DPDK
 * may write to the log meanwhile.
 */
int dpdk_log_open(void);
void dpdk_log_keep(bool keep);
void dpdk_log_kept(char ret[static DPDK_LOG_CHARS]);

/**
 * dpdk_log_libraries - redirect the messages of the libraries that DPDK's drivers have loaded. Call
 * this after dpdk_eal_start().
 */
void dpdk_log_libraries(void);

struct dpdk_open {
    uint32_t count;
    int fds[32768];
};

/** dpdk_open_list - list the open descriptors, or as many of them as fit. */
void dpdk_open_list(struct dpdk_open *ret);

/**
 * dpdk_open_claim - set close-on-exec on all descriptors that were opened since @before. Returns
 * the socket of address family @family among them, or -1. Does nothing if @before is full.
 */
int dpdk_open_claim(const struct dpdk_open *before, int family);

/** dpdk_socket_prepare - let the kernel drop other protocols' frames; enlarge the send buffer. */
void dpdk_socket_prepare(int fd);

struct dpdk_port {
    struct emu_hostport port;
    struct dpdk_device device;
    uint16_t id; /* DPDK's port number */
    struct rte_mempool *pool;
    int socket;          /* the driver's socket; -1: none */
    int wake;            /* the descriptor to wait on; -1: none */
    int epoll;           /* our epoll descriptor for the device's interrupt; -1: none */
    bool started;        /* the device runs; otherwise it must not be used */
    uint64_t connect_ns; /* when the device may be restarted next */
    /* DPDK's interrupt thread is restarting the device, so no other thread may use it */
    _Atomic bool restarts;
    _Atomic bool in_burst;  /* a burst uses rings, so DPDK's interrupt thread must not unmap them */
    struct dpdk_port *next; /* next port of the list of dpdk_port_watch() */
};

extern const struct emu_hostport_ops dpdk_ops;

/** dpdk_frame_private - return the size of the area for a frame's struct in a pool buffer. */
uint16_t dpdk_frame_private(void);

/**
 * dpdk_port_watch - add the port to a list, so that its rings are not unmapped during a burst.
 * dpdk_port_unwatch - remove the port from the list.
 */
void dpdk_port_watch(struct dpdk_port *port);
void dpdk_port_unwatch(struct dpdk_port *port);

/** dpdk_port_settle - cancel a restart that has not begun. Not on DPDK's interrupt thread. */
void dpdk_port_settle(struct dpdk_port *port);

/** dpdk_port_close - stop the port, whatever its state is, and free it, on this thread. */
void dpdk_port_close(struct dpdk_port *port);

#endif
