/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * open.h - opens a DPDK device as an Ethernet port.
 *
 * DPDK is in a library of its own (emu/hostlink/dpdk), which is loaded when the first port is
 * opened: a fabric on one host has nothing of it in its memory.
 */
#ifndef EMU_HOSTLINK_OPEN_H
#define EMU_HOSTLINK_OPEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/hostlink/port/port.h"

struct emu_hostport_options {
    uint32_t frames;      /* that may be held, by who takes and by who receives; 0: 4096 */
    uint32_t frame_bytes; /* of a frame at most, if the device can; 0: EMU_HOSTLINK_FRAME_BYTES */
    uint32_t frame_least; /* a device that has no frames of so many bytes is refused; 0: 512 */
    /*
     * Of the whole process, as the first port that is opened has them: memory for all ports'
     * frames (0: 256 MiB; with huge pages as much as is needed), and whether it is in huge pages,
     * if any are free.
     */
    uint32_t memory_mib;
    bool huge_pages;
};

/**
 * emu_hostport_open - the port of @device, to be closed by its close().
 * @device: as DPDK names it, with arguments: net_af_packet0,iface=eth1; net_af_xdp0,iface=eth1;
 * net_memif0,role=server,id=0,socket=/run/x.sock; net_ring0; or the PCI address of an adapter. What
 * DPDK's defaults for the arguments would spoil is added where @device does not say otherwise.
 * @options: NULL: all as if zero.
 *
 * @error gets one line that a user understands. Errors: -ENOTSUP (no DPDK in this build), -ENOENT
 * (its library is not where it should be), -EINVAL (device or arguments), -ENODEV (no such device
 * or interface), -ENETDOWN (the interface is down), -EPERM, -ENOMEM, -EMSGSIZE (frames too small),
 * -EEXIST (open already), -EIO (all else).
 *
 * Thread: any; one at a time. It takes 0.2 to 0.4 s the first time. It runs on a thread of its own
 * that is gone when it returns, so that the caller's affinity, signal mask and signal handlers stay
 * as they are; DPDK keeps a thread for interrupts, which takes no signals. What DPDK opened is not
 * passed on to programs that are started later. A child of fork() may not use a port.
 */
int emu_hostport_open(struct emu_hostport **ret, const char *device,
                      const struct emu_hostport_options *options, char *error, size_t error_bytes);

/* What the library of DPDK has: the same, and which version of this it was built with. */
#define EMU_HOSTPORT_LIBRARY       "libfabemu-dpdk.so"
#define EMU_HOSTPORT_OPEN_SYMBOL   "emu_hostport_dpdk_open"
#define EMU_HOSTPORT_BUILT_SYMBOL  "emu_hostport_dpdk_built"
#define EMU_HOSTPORT_UNMAPS_SYMBOL "emu_hostport_dpdk_unmaps"

typedef int emu_hostport_open_fn(struct emu_hostport **ret, const char *device,
                                 const struct emu_hostport_options *options, char *error,
                                 size_t error_bytes);

/* Called by whoever unmaps memory, before that: it returns when no port reads what DPDK unmaps. */
typedef void emu_hostport_unmaps_fn(void);

/** emu_unmap_guard - call @unmaps from now on. unmap.c. Thread: any. */
void emu_unmap_guard(emu_hostport_unmaps_fn *unmaps);

#endif
