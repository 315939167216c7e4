/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * notice.h - notices, which tell a process that all bytes of a put to its memory have arrived.
 * Lock: held.
 */
#ifndef NIC_NOTICE_H
#define NIC_NOTICE_H

#include "nic/host/base/peer.h"
#include "nic/host/rx/queue.h"

/* A notice that a queue keeps until a call receives it. */
struct nic_notice {
    struct emu_list link; /* entry in the queue's notices */
    uint32_t src_node;
    uint16_t src_queue;
    uint64_t src_incarnation;
    uint64_t data;
    uint64_t bytes; /* size of the put */
};

/** nic_notice_check - check that queue @id accepts notices. Errors: -EOPNOTSUPP. */
int nic_notice_check(const struct fabemu *fab, uint16_t id);
/**
 * nic_notice_give - deliver the notice of a put from @from, because all @bytes of the put have
 * arrived. The notice completes the oldest receive that waits for one, or the queue keeps it.
 * Errors: -ECANCELED, the queue accepts no notices any more; -ENOMEM.
 */
int nic_notice_give(struct fabemu *fab, const struct nic_peer *from,
                    const struct fabemu_notice *notice, uint64_t bytes);
/** nic_notices_end - when @queue closes, cancel its receives of notices and drop its notices. */
void nic_notices_end(struct fabemu_queue *queue);

#endif
