/* SPDX-License-Identifier: BSD-3-Clause */
/* event.c - the calls on counted events */
#include "nic/fabemu.h"

#include <errno.h>
#include <string.h>

#include "nic/host/base/base.h"
#include "nic/host/base/lock.h"
#include "nic/host/base/op.h"
#include "nic/host/base/trap.h"
#include "nic/host/rx/queue.h"
#include "nic/host/rx/region.h"

static int event_open(struct fabemu *fab, struct fabemu_event *event, bool tolerant,
                      void (*changed)(struct fabemu_event *event))
{
    struct nic_event *ev = nic_event_of(event);

    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    memset(event, 0, sizeof *event);
    ev->fab = fab;
    ev->tolerant = tolerant;
    ev->changed = changed;
    for (enum nic_sum of = 0; of < NIC_SUMS; of++)
        emu_list_init(&ev->armed[of]);
    nic_lock(fab);
    emu_list_add(&fab->events, &ev->open);
    nic_unlock(fab);
    return 0;
}

int fabemu_event_open(struct fabemu *fab, struct fabemu_event *event)
{
    return event_open(fab, event, false, NULL);
}

int fabemu_event_open_tolerant(struct fabemu *fab, struct fabemu_event *event,
                               void (*changed)(struct fabemu_event *event))
{
    return event_open(fab, event, true, changed);
}

void fabemu_event_close(struct fabemu_event *event)
{
    struct fabemu *fab = nic_event_of(event)->fab;

    if (nic_is_defunct(fab))
        return;
    nic_lock(fab);
    nic_region_forget_event(fab, event);
    nic_queue_forget_event(fab, event);
    nic_trap_forget_event(fab, event);
    nic_event_end(fab, nic_event_of(event));
    nic_unlock(fab); /* removes the event from fab->fired, because no operation is armed on it */
}

int fabemu_event_change(struct fabemu_event *event, enum fabemu_event_change change, uint64_t value)
{
    struct fabemu *fab = nic_event_of(event)->fab;

    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    if (change != FABEMU_EVENT_ADD && change != FABEMU_EVENT_SET && !nic_event_of(event)->tolerant)
        return nic_fail(-EINVAL, "the event has no count of failures");
    nic_lock(fab);
    nic_event_change(fab, event, change, value);
    nic_unlock(fab);
    return 0;
}

void fabemu_event_change_in_done(struct fabemu_event *event, enum fabemu_event_change change,
                                 uint64_t value)
{
    nic_event_change(nic_event_of(event)->fab, event, change, value);
}

int fabemu_event_add(struct fabemu_event *event, uint64_t n)
{
    return fabemu_event_change(event, FABEMU_EVENT_ADD, n);
}

int fabemu_disarm(struct fabemu *fab, struct fabemu_req *req)
{
    struct nic_op *op = nic_op_of(req);
    int err = -ENOENT;

    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    nic_lock(fab);
    if (fabemu_req_status(req) == FABEMU_PENDING && req->after && op->state == NIC_OP_ARMED) {
        nic_op_end(fab, op, -ECANCELED);
        err = 0;
    }
    nic_unlock(fab);
    return err;
}

static int when_begin(struct fabemu *fab, struct nic_post *post)
{
    nic_op_end(fab, nic_op_of(post->req), 0);
    return 0;
}

int fabemu_event_when(struct fabemu_event *event, uint64_t threshold, struct fabemu_req *req)
{
    struct fabemu *fab = nic_event_of(event)->fab;

    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    req->after = event;
    req->threshold = threshold;
    if (nic_event_check(fab, req))
        return -EINVAL;
    return nic_op_post(fab, nic_op_new(req, NIC_OP_WHEN, FABEMU_ANY_NODE, when_begin));
}

int fabemu_event_wait(struct fabemu_event *event, uint64_t threshold)
{
    struct fabemu_req req = {0};
    int err = fabemu_event_when(event, threshold, &req);

    return err ? err : fabemu_wait(nic_event_of(event)->fab, &req);
}
