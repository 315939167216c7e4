/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watched.h - messages that somebody wants to see: when they were posted, and when complete.
 *
 * The fabric says from which size on (emu_hostif_shared.watched_bytes); of a receive the size is
 * not known before its message comes, so all are noted then. Who is not watched pays a load of a
 * line that hardly anybody writes.
 *
 * Owner: nothing of its own. Lock: none for nic_watched_begin(), else held. Callers: what posts
 * messages, what ends operations.
 */
#ifndef NIC_WATCHED_H
#define NIC_WATCHED_H

#include "emu/util/now.h"
#include "nic/host/base/adapter.h"

#define NIC_WATCHED_NS ((UINT64_C(1) << 48) - 1)

/* Of a message; lies behind the operation, both of a send and of a receive. */
struct nic_watched {
    uint64_t began_ns : 48; /* it was posted, by emu_now_ns() modulo 78 hours; 0: nobody asks */
    uint64_t number : 16;   /* that it has among its sender's requests to its receiver, its end */
};

/** nic_watched_bytes - is a message of so many bytes watched? */
static inline bool nic_watched_bytes(const struct fabemu *fab, uint64_t bytes)
{
    uint64_t from = atomic_load_explicit(&fab->edge.shared->watched_bytes, memory_order_relaxed);

    return from && bytes >= from - 1;
}

/** nic_watched_begin - of a message of so many bytes that is posted now. */
static inline struct nic_watched nic_watched_begin(const struct fabemu *fab, uint64_t bytes)
{
    if (__builtin_expect(!nic_watched_bytes(fab, bytes), 1))
        return (struct nic_watched){0};
    return (struct nic_watched){.began_ns = (emu_now_ns() & NIC_WATCHED_NS) | 1};
}

/**
 * nic_watched_tell - it is complete: the fabric is told, with the times, of @what, unless it turns
 * out not to be watched.
 */
static inline void nic_watched_tell(const struct fabemu *fab, const struct nic_watched *watched,
                                    struct emu_finished what)
{
    uint64_t now_ns = emu_now_ns();
    uint64_t took_ns = (now_ns + 1 - watched->began_ns) & NIC_WATCHED_NS; /* it may have one more */

    what.first = watched->number;
    what.ended_ns = now_ns;
    what.began_ns = now_ns + 1 - took_ns < now_ns ? now_ns + 1 - took_ns : now_ns;
    if (nic_watched_bytes(fab, what.bytes))
        emu_finished_write(&fab->edge.shared->finished, &what);
}

#endif
