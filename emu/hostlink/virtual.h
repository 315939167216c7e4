/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * virtual.h - cables to other hosts on clock virtual.
 *
 * As everywhere (hostlink.h) such a cable is a local one on each host, between the switch, or the
 * link engine, and a device that stands for the far end. But this device does nothing by itself.
 * When all workers of a host have stepped a window (emu/worker/windows.h), what they have put on
 * these cables, segments, replies and credits with their simulated times, goes to the other hosts
 * as one superstep (barrier.h), and with it when this host has something to do next. Whatever a
 * device sends is at the far end a lookahead later, so it is there before the window in which it
 * is taken, as if both ends were on one host: entries in the order of each cable, at their own
 * times, on rings of the same length.
 *
 * What comes is checked: no entry or credit is of a time that is over, a cable has no more of them
 * under way than it has room for, and what an entry asks for can be.
 */
#ifndef EMU_HOSTLINK_VIRTUAL_H
#define EMU_HOSTLINK_VIRTUAL_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/hostlink/barrier.h"
#include "emu/link/link.h"

struct emu_virtual;

/**
 * emu_virtual_create - the device, on @worker; it takes the barrier's records. @nodes: of the
 * network, which are inside the fabric. Errors: -ENOMEM. Thread: before the workers start.
 */
int emu_virtual_create(struct emu_virtual **ret, struct emu_worker *worker,
                       struct emu_barrier *barrier, uint32_t nodes);

/** emu_virtual_destroy - after the workers have ended; with the rings that the device fills. */
void emu_virtual_destroy(struct emu_virtual *link);

/**
 * emu_virtual_join - in the place of two emu_link_join(): @tx and @rx, at port @port of @dev, are
 * the near ends of cable @number of those that go over @peer; the far host calls the same of its.
 * @credits: as on one host; with channels emu_vc_ring(). Rings of the device's sending end are
 * freed by emu_virtual_destroy(), those of @tx by its owner. Errors: -ENOMEM. Thread: as above.
 */
int emu_virtual_join(struct emu_virtual *link, uint32_t peer, uint32_t number, struct emu_tx *tx,
                     struct emu_rx *rx, struct emu_dev *dev, uint8_t port, uint32_t credits,
                     const struct emu_profile *profile);

/**
 * emu_virtual_agree - a window is over: send what is on the cables, and take what other hosts have
 * sent. *next_ps: when this host has something to do next; becomes that of all hosts, the least.
 * Errors: as emu_barrier_sync(); then *next_ps is EMU_NEVER.
 * Thread: any, while all workers stand still; all hosts call it equally often.
 */
int emu_virtual_agree(struct emu_virtual *link, uint64_t *next_ps);

/** emu_virtual_bufs - references to pool buffers that are on cables to the device. Thread: same. */
uint64_t emu_virtual_bufs(const struct emu_virtual *link);

#endif
