/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * virtual.h - cables to other hosts on clock virtual.
 *
 * As with hostlink.h, a cable to another host is a local cable on each host, between the switch or
 * link engine and a device that represents the remote end. But here the device does nothing in its
 * steps. When all workers of a host have finished a window (emu/worker/windows.h), the host sends
 * the segments, replies and credits that they have put on these cables to the other hosts, in one
 * superstep (barrier.h). Each has its simulated time. The host also sends the time of its next
 * event.
 *
 * All of these records are due after the end of that window, because a window is not longer than
 * the lookahead (windows.h). Therefore they are in the receiver's rings before the window in which
 * they are due begins. The results are as if both ends were on one host, because entries keep their
 * order and times, and the rings have the same length.
 *
 * Received records are checked: no entry or credit has a time in the past, no cable has more
 * entries in flight than it has credits, and the fields of an entry are valid.
 */
#ifndef EMU_HOSTLINK_VIRTUAL_H
#define EMU_HOSTLINK_VIRTUAL_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/hostlink/barrier.h"
#include "emu/link/link.h"

struct emu_virtual;

/**
 * emu_virtual_create - create the device on @worker, which then receives the barrier's cable
 * records. @nodes: number of nodes in the network, all simulated inside the fabric. Errors:
 * -ENOMEM. Thread: before the workers start.
 */
int emu_virtual_create(struct emu_virtual **ret, struct emu_worker *worker,
                       struct emu_barrier *barrier, uint32_t nodes);

/** emu_virtual_destroy - free the device and the rings that it fills. Not while workers run. */
void emu_virtual_destroy(struct emu_virtual *link);

/**
 * emu_virtual_join - connect @tx and @rx, the ends at port @port of @dev, to cable @number of
 * session @peer. This call replaces the two calls of emu_link_join() for a local cable. The remote
 * host makes the same call for its end. @credits: as for a local cable; for one with channels, the
 * result of emu_vc_ring(). emu_virtual_destroy() frees the rings of the device's sender. The owner
 * of @tx frees the rings of @tx. Errors: -ENOMEM. Thread: before the workers start.
 */
int emu_virtual_join(struct emu_virtual *link, uint32_t peer, uint32_t number, struct emu_tx *tx,
                     struct emu_rx *rx, struct emu_dev *dev, uint8_t port, uint32_t credits,
                     const struct emu_profile *profile);

/**
 * emu_virtual_agree - exchange records with all hosts at the end of a window. *@next_ps: the time
 * of this host's next event; replaced by the earliest such time of all hosts. Errors: as
 * emu_barrier_sync(); then *@next_ps becomes EMU_NEVER.
 * Thread: any, while all workers are paused. All hosts must call it equally often.
 */
int emu_virtual_agree(struct emu_virtual *link, uint64_t *next_ps);

/**
 * emu_virtual_bufs - return the number of references to pool buffers on cables to the device.
 * Thread: any, while all workers are paused.
 */
uint64_t emu_virtual_bufs(const struct emu_virtual *link);

#endif
