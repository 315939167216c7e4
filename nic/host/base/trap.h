/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trap.h - count and check the accesses of peers to this process's memory, and report the failed
 * accesses.
 *
 * A peer names memory by a key and an address or offset. The table of regions (rx/region.h)
 * translates this to memory of the process. An access that the table does not allow *traps*: it is
 * counted and reported, changes nothing, and fails at its origin. In a region with FABEMU_TRAPS an
 * access also traps if the process has not mapped the pages, or has mapped them without the
 * permission that the access needs. The kernel's page tables are then the second part of the
 * translation. Lock: the caller holds the adapter's lock (lock.h).
 * Source: QsNet III §III (the adapter's MMU; no interrupts provided the page is mapped).
 */
#ifndef NIC_TRAP_H
#define NIC_TRAP_H

#include "nic/host/base/op.h"

/** nic_trap_translated - count an access that the table of regions has translated. */
void nic_trap_translated(struct fabemu *fab);
/** nic_trap - count and report an access that failed. @trap: all fields but count. */
void nic_trap(struct fabemu *fab, const struct fabemu_trap *trap);
/** nic_trap_forget_event - do not count traps in @event any more, because it closes. */
void nic_trap_forget_event(struct fabemu *fab, const struct fabemu_event *event);

/** nic_trap_works - return whether this kernel can test pages. Lock: none. */
bool nic_trap_works(void);
/**
 * nic_trap_mapped - return whether the pages of all pieces are mapped and, if @write, may be
 * written. Pages that the process has mapped but not touched yet get memory.
 */
bool nic_trap_mapped(const struct fabemu_iov *iov, unsigned iovs, bool write);
/**
 * nic_trap_ends - check whether the next @n bytes at @offset of @op, which serves a peer, are
 * mapped. If they are not, end the operation and return true. The caller must then notify the peer
 * of -EFAULT.
 */
bool nic_trap_ends(struct fabemu *fab, struct nic_op *op, uint64_t offset, uint64_t n);

#endif
