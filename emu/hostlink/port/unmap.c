/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unmap.c - munmap() of this program, and of the libraries that it has loaded: who may be reading
 * what is to go is waited for.
 *
 * When the peer of net_memif leaves, DPDK's thread for interrupts unmaps the rings, whether or not
 * another thread is amid them: neither looks at the other (DPDK 22.11), and the process dies with
 * its peer. The driver says in its own flags that the device is not connected, and then calls
 * munmap(), which a program may define: so the wait is between the two.
 * Rejected: to receive and send on that thread, which would take a switch of threads a burst.
 */
#include "emu/hostlink/port/open.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic(emu_hostport_unmaps_fn *) guard;

void emu_unmap_guard(emu_hostport_unmaps_fn *unmaps)
{
    atomic_store_explicit(&guard, unmaps, memory_order_release); /* H8 */
}

/* Sanitizers have one of their own, which they need. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
int munmap(void *addr, size_t bytes)
{
    emu_hostport_unmaps_fn *unmaps = atomic_load_explicit(&guard, memory_order_acquire); /* H7 */

    if (unmaps)
        unmaps();
    return (int)syscall(SYS_munmap, addr, bytes);
}
#endif
