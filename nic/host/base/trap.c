/* SPDX-License-Identifier: BSD-3-Clause */
/* trap.c - count and report accesses of peers that are refused; test whether pages are mapped */
#include "nic/host/base/trap.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nic/host/base/base.h"
#include "nic/host/base/complete.h"
#include "nic/host/base/lock.h"

void nic_trap_translated(struct fabemu *fab)
{
    emu_count(&fab->hostif.shared->comm.translated, 1);
}

void nic_trap(struct fabemu *fab, const struct fabemu_trap *trap)
{
    uint64_t count = fab->trap.count + 1;

    assert(fab->locked);
    fab->trap = *trap;
    fab->trap.count = count;
    emu_comm_trapped(&fab->hostif.shared->comm,
                     &(struct emu_comm_trap){.from = trap->node,
                                             .address = trap->offset,
                                             .bytes = trap->bytes,
                                             .error = (uint32_t)-trap->status});
    if (fab->trap_event)
        nic_event_counts(fab, fab->trap_event, 0);
}

void nic_trap_forget_event(struct fabemu *fab, const struct fabemu_event *event)
{
    if (fab->trap_event == event)
        fab->trap_event = NULL;
}

/* --- pages -------------------------------------------------------------------------- */

/*
 * madvise() fails for pages that are not mapped or lack the permission, and changes no contents. A
 * test by process_vm_writev() would have to write.
 */
static bool pages_mapped(uintptr_t from, uint64_t bytes, bool write)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = from & ~(page - 1);

    return !bytes || madvise((void *)first, bytes + (from - first), // NOLINT
                             write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0;
}

bool nic_trap_works(void)
{
    char byte;

    return pages_mapped((uintptr_t)&byte, sizeof byte, true);
}

bool nic_trap_mapped(const struct fabemu_iov *iov, unsigned iovs, bool write)
{
    for (unsigned i = 0; i < iovs; i++)
        if (!pages_mapped((uintptr_t)iov[i].base, iov[i].bytes, write))
            return false;
    return true;
}

/* As nic_trap_mapped(), for a part of an operation's memory. */
static bool part_mapped(const struct nic_op *op, uint64_t offset, uint64_t n, bool write)
{
    for (unsigned i = 0; i < op->iovs && n; i++) {
        uint64_t room = op->iov[i].bytes, part;

        if (offset >= room) {
            offset -= room;
            continue;
        }
        part = n < room - offset ? n : room - offset;
        if (!pages_mapped((uintptr_t)op->iov[i].base + offset, part, write))
            return false;
        n -= part;
        offset = 0;
    }
    return true;
}

bool nic_trap_ends(struct fabemu *fab, struct nic_op *op, uint64_t offset, uint64_t n)
{
    if (part_mapped(op, offset, n, op->kind == NIC_OP_SERVE_PUT))
        return false;
    nic_trap(fab, &(struct fabemu_trap){.node = op->node,
                                        .status = -EFAULT,
                                        .offset = nic_serve_of(op)->offset + offset,
                                        .bytes = n});
    nic_op_end(fab, op, -EFAULT);
    return true;
}

/* --- the calls ---------------------------------------------------------------------- */

void fabemu_traps(struct fabemu *fab, struct fabemu_trap *last)
{
    *last = (struct fabemu_trap){0};
    if (nic_is_defunct(fab))
        return;
    nic_lock(fab);
    *last = fab->trap;
    nic_unlock(fab);
}

int fabemu_trap_event(struct fabemu *fab, struct fabemu_event *event)
{
    const struct fabemu_req named = {.event = event};

    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    if (nic_event_check(fab, &named))
        return -EINVAL;
    nic_lock(fab);
    fab->trap_event = event;
    nic_unlock(fab);
    return 0;
}
