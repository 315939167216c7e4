/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * open.h - opens a DPDK device as an Ethernet port.
 *
 * DPDK is linked into a separate library (emu/hostlink/dpdk), loaded when the first port is opened:
 * a fabric on one host has nothing of DPDK in its memory.
 */
#ifndef EMU_HOSTLINK_OPEN_H
#define EMU_HOSTLINK_OPEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/hostlink/port/port.h"

struct emu_hostport_options {
    uint32_t frames; /* frames that may be held at a time, sent and received; 0: 4096 */
    uint32_t
        frame_bytes; /* largest frame, if the device supports it; 0: EMU_HOSTLINK_FRAME_BYTES */
    uint32_t frame_least; /* devices with smaller frames are refused; 0: 512 */
    /*
     * For the whole process, set when the first port is opened: memory for the frames of all ports
     * (0: 256 MiB; with huge pages as much as needed), and whether to use huge pages if any are
     * free.
     */
    uint32_t memory_mib;
    bool huge_pages;
};

/**
 * emu_hostport_open - open @device as a port, to be closed by its close().
 * @device: in DPDK's syntax, with arguments: net_af_packet0,iface=eth1; net_af_xdp0,iface=eth1;
 * net_memif0,role=server,id=0,socket=/run/x.sock; net_ring0; or the PCI address of an adapter.
 * Where DPDK's default for an argument is unsuitable and @device does not set it, a better value is
 * added.
 * @options: NULL: all zero.
 *
 * Writes one line for the user to @error. Errors: -ENOTSUP (built without DPDK), -ENOENT (its
 * library is missing), -EINVAL (device or arguments), -ENODEV (no such device or interface),
 * -ENETDOWN (the interface is down), -EPERM, -ENOMEM, -EMSGSIZE (frames too small), -EEXIST
 * (already open), -EIO (anything else).
 *
 * Thread: any; one at a time. The first call takes 0.2 to 0.4 s. It runs on a temporary thread, so
 * the caller's affinity, signal mask and signal handlers stay unchanged; DPDK keeps an interrupt
 * thread, which takes no signals. Programs that are started later do not inherit DPDK's
 * descriptors. A child of fork() may not use a port.
 */
int emu_hostport_open(struct emu_hostport **ret, const char *device,
                      const struct emu_hostport_options *options, char *error, size_t error_bytes);

/* The symbols of the DPDK library: this function, and the fabemu version that it was built for. */
#define EMU_HOSTPORT_LIBRARY       "libfabemu-dpdk.so"
#define EMU_HOSTPORT_OPEN_SYMBOL   "emu_hostport_dpdk_open"
#define EMU_HOSTPORT_BUILT_SYMBOL  "emu_hostport_dpdk_built"
#define EMU_HOSTPORT_UNMAPS_SYMBOL "emu_hostport_dpdk_unmaps"

typedef int emu_hostport_open_fn(struct emu_hostport **ret, const char *device,
                                 const struct emu_hostport_options *options, char *error,
                                 size_t error_bytes);

/*
 * Called before munmap(): returns when no port uses rings that DPDK's interrupt thread is about to
 * unmap.
 */
typedef void emu_hostport_unmaps_fn(void);

void emu_unmap_guard(emu_hostport_unmaps_fn *unmaps);

#endif
