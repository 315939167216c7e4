/* SPDX-License-Identifier: BSD-3-Clause */
/* notice.h - notices: a put notifies the target process that its bytes are there. Lock: held. */
#ifndef NIC_NOTICE_H
#define NIC_NOTICE_H

#include "nic/host/base/peer.h"
#include "nic/host/rx/queue.h"

/* A notice that a queue keeps until a call receives it. */
struct nic_notice {
    struct emu_list link; /* in the queue's notices */
    uint32_t src_node;
    uint16_t src_queue;
    uint64_t src_incarnation;
    uint64_t data;
    uint64_t bytes; /* of the put */
};

/** nic_notice_check - does queue @id accept notices? Errors: -EOPNOTSUPP. */
int nic_notice_check(const struct fabemu *fab, uint16_t id);
/**
 * nic_notice_give - all @bytes of a put from @from have arrived: @notice completes the oldest
 * receive that waits for one, or is kept. Errors: -ECANCELED, the queue accepts no notices any
 * more; -ENOMEM.
 */
int nic_notice_give(struct fabemu *fab, const struct nic_peer *from,
                    const struct fabemu_notice *notice, uint64_t bytes);
/** nic_notices_end - the queue closes: cancel its receives of notices, drop its notices. */
void nic_notices_end(struct fabemu_queue *queue);

#endif
