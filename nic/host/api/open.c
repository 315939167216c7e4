/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * open.c - the calls that open and close queues.
 */
#include "nic/fabemu.h"

#include <errno.h>
#include <string.h>

#include "nic/host/base/base.h"
#include "nic/host/base/lock.h"
#include "nic/host/progress/receive.h"
#include "nic/host/rx/end.h"

#define ANY_FIRST 256u
#define ANY_LAST  65534u /* 65535 is no queue to the libfabric provider */

/* Messages that came early become ordinary unexpected ones. */
static void queue_adopt(struct fabemu *fab, struct fabemu_queue *queue)
{
    for (struct emu_list *at = queue->unexpected.next; at != &queue->unexpected; at = at->next)
        fab->parked--;
    queue->open = true;
    emu_list_add(&fab->opened, &queue->opened);
}

static int queue_open_locked(struct fabemu *fab, uint16_t id, struct fabemu_queue **ret)
{
    struct fabemu_queue *queue = nic_queue_at(fab, id);

    if (!queue)
        return -ENOMEM;
    if (queue->open)
        return -EADDRINUSE;
    queue_adopt(fab, queue);
    nic_receive_resume(fab);
    *ret = queue;
    return 0;
}

int fabemu_queue_open(struct fabemu *fab, uint16_t id, struct fabemu_queue **ret)
{
    int err;

    if (nic_gone(fab))
        return nic_fail_gone();
    nic_lock(fab);
    err = queue_open_locked(fab, id, ret);
    nic_unlock(fab);
    return err ? nic_fail(err, "queue %u of node %u: %s", (unsigned)id, fab->info.node,
                          strerror(-err))
               : 0;
}

uint16_t fabemu_queue_id(const struct fabemu_queue *queue)
{
    return queue->id;
}

/*
 * Round robin, so that an id is used again as late as possible: a segment for its last owner must
 * not be taken for the next one's.
 */
static int queue_open_next(struct fabemu *fab, struct fabemu_queue **ret)
{
    if (fab->queue_any < ANY_FIRST)
        fab->queue_any = ANY_FIRST;
    for (uint32_t n = ANY_FIRST; n <= ANY_LAST; n++) {
        uint16_t id = (uint16_t)fab->queue_any;
        struct fabemu_queue *queue = fab->queues[id];

        fab->queue_any = id == ANY_LAST ? ANY_FIRST : id + 1u;
        if (queue && queue->open)
            continue;
        if (queue)
            nic_queue_free(queue);
        return queue_open_locked(fab, id, ret);
    }
    return -EADDRINUSE;
}

int fabemu_queue_open_any(struct fabemu *fab, struct fabemu_queue **ret)
{
    int err;

    if (nic_gone(fab))
        return nic_fail_gone();
    nic_lock(fab);
    err = queue_open_next(fab, ret);
    nic_unlock(fab);
    return err ? nic_fail(err, "no queue of node %u is free", fab->info.node) : 0;
}

void fabemu_queue_close(struct fabemu_queue *queue)
{
    struct fabemu *fab = queue->fab;

    if (nic_gone(fab))
        return;
    nic_lock(fab);
    nic_queue_free(queue);
    nic_unlock(fab);
}
