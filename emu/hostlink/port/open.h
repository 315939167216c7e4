/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * open.h - open a DPDK device as an Ethernet port.
 *
 * DPDK is linked into a separate library (emu/hostlink/dpdk), which is loaded when the first port
 * is opened. So a fabric on a single host does not load DPDK.
 */
#ifndef EMU_HOSTLINK_OPEN_H
#define EMU_HOSTLINK_OPEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/hostlink/port/port.h"

struct emu_hostport_options {
    /* maximum number of frames in use at a time, to send and receive; 0: 4096 */
    uint32_t frames;
    uint32_t frame_bytes; /* largest frame to use if the device supports it; 0: 9014 */
    uint32_t frame_least; /* a device with a smaller limit is refused; 0: 512 */

    /* These apply to the whole process: the first emu_hostport_open() sets them. */
    uint32_t memory_mib; /* memory for all frames; 0: 256, or with huge pages as much as needed */
    bool huge_pages;     /* use huge pages if some are free */
};

/**
 * emu_hostport_open - open @device as a port, which port->ops->close() closes. @device: in DPDK's
 * syntax, with arguments: net_af_packet0,iface=eth1; net_af_xdp0,iface=eth1;
 * net_memif0,role=server,id=0,socket=/run/x.sock; net_ring0; or the PCI address of an adapter.
 * Arguments whose default in DPDK is unsuitable get a better value, unless @device sets them.
 * @options: NULL stands for all zeros.
 *
 * Writes one line for the user to @error. Errors: -ENOTSUP (built without DPDK), -ENOENT (the
 * library is missing), -EINVAL (wrong device or arguments), -ENODEV (no such device or interface),
 * -ENETDOWN (the interface is down), -EPERM, -ENOMEM, -EMSGSIZE (the device's frames are too
 * small), -EEXIST (the device is already open), -EIO (anything else).
 *
 * Thread: any, but only one at a time. The first call takes 0.2 to 0.4 s. It runs on a temporary
 * thread, so that the caller's affinity, signal mask and signal handlers stay unchanged. DPDK keeps
 * an interrupt thread, which receives no signals. Programs that are started later do not inherit
 * DPDK's descriptors. A child of fork() may not use a port.
 */
int emu_hostport_open(struct emu_hostport **ret, const char *device,
                      const struct emu_hostport_options *options, char *error, size_t error_bytes);

/* Names in the DPDK library. */
#define EMU_HOSTPORT_LIBRARY       "libfabemu-dpdk.so"        /* its file */
#define EMU_HOSTPORT_OPEN_SYMBOL   "emu_hostport_dpdk_open"   /* an emu_hostport_open_fn */
#define EMU_HOSTPORT_BUILT_SYMBOL  "emu_hostport_dpdk_built"  /* fabemu version it was built for */
#define EMU_HOSTPORT_UNMAPS_SYMBOL "emu_hostport_dpdk_unmaps" /* an emu_hostport_unmaps_fn */

typedef int emu_hostport_open_fn(struct emu_hostport **ret, const char *device,
                                 const struct emu_hostport_options *options, char *error,
                                 size_t error_bytes);

/*
 * This program's munmap() calls this function first. DPDK's interrupt thread unmaps the rings of
 * ports. On this thread, the function waits until no other thread uses the rings of any port.
 */
typedef void emu_hostport_unmaps_fn(void);

/** emu_unmap_guard - set the function that this program's munmap() calls first; NULL: none. */
void emu_unmap_guard(emu_hostport_unmaps_fn *unmaps);

#endif
