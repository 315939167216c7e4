/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * virtual.h - cables to other hosts on clock virtual.
 *
 * As with hostlink.h, such a cable is a local cable on each host between the switch, or the link
 * engine, and a device that stands for the remote end. But this device does nothing in its steps.
 * When all workers of a host have finished a window (emu/worker/windows.h), everything that they
 * put on these cables, segments, replies and credits with their simulated times, is sent to the
 * other hosts in one superstep (barrier.h), together with the time of this host's next event.
 * Whatever is sent arrives at least one lookahead later in simulated time, so it is there before
 * the window that uses it, as if both ends were on one host: entries in the order of each cable,
 * with their times, on rings of the same length.
 *
 * Received records are checked: no entry or credit has a time in the past, no cable has more in
 * flight than it has credits, and the fields of an entry are valid.
 */
#ifndef EMU_HOSTLINK_VIRTUAL_H
#define EMU_HOSTLINK_VIRTUAL_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/hostlink/barrier.h"
#include "emu/link/link.h"

struct emu_virtual;

/**
 * emu_virtual_create - make the device on @worker and receive the barrier's records. @nodes: number
 * of nodes in the network, all simulated inside the fabric. Errors: -ENOMEM. Thread: before the
 * workers start.
 */
int emu_virtual_create(struct emu_virtual **ret, struct emu_worker *worker,
                       struct emu_barrier *barrier, uint32_t nodes);

/**
 * emu_virtual_destroy - free the device and the rings that it fills. Call it after the workers have
 * ended.
 */
void emu_virtual_destroy(struct emu_virtual *link);

/**
 * emu_virtual_join - connect a local cable to cable @number of session @peer, instead of two
 * emu_link_join(); the remote host calls the same for its end. @tx and @rx are the near ends, at
 * port @port of @dev. @credits: as on one host; with channels emu_vc_ring(). emu_virtual_destroy()
 * frees the rings of the device's sending end, the owner of @tx its own. Errors: -ENOMEM. Thread:
 * before the workers start.
 */
int emu_virtual_join(struct emu_virtual *link, uint32_t peer, uint32_t number, struct emu_tx *tx,
                     struct emu_rx *rx, struct emu_dev *dev, uint8_t port, uint32_t credits,
                     const struct emu_profile *profile);

/**
 * emu_virtual_agree - exchange records at the end of a window. *next_ps: time of this host's next
 * event; becomes the earliest of all hosts. Errors: as emu_barrier_sync(); then *next_ps is
 * EMU_NEVER.
 * Thread: any, while all workers are paused; all hosts call it equally often.
 */
int emu_virtual_agree(struct emu_virtual *link, uint64_t *next_ps);

/** emu_virtual_bufs - references to pool buffers on cables to the device. Thread: as above. */
uint64_t emu_virtual_bufs(const struct emu_virtual *link);

#endif
