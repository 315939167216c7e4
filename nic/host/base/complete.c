/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * complete.c - complete requests, count completions in events, and start the operations armed on
 * them.
 *
 * An event keeps its armed operations in the order of their thresholds. When the event has counted
 * a completion and an operation is due, the event is only added to the list of fired events.
 * nic_unlock() then starts the operations that are due, one after the other. So if each operation
 * completes at once and starts the next one, this is a loop in nic_unlock() and not a recursion.
 */
#include "nic/host/base/complete.h"

#include <errno.h>
#include <string.h>

#include "emu/util/count.h"
#include "nic/host/base/base.h"
#include "nic/host/base/trace.h"

void nic_complete(struct fabemu *fab, struct fabemu_req *req, int status)
{
    void (*done)(struct fabemu_req *) = req->done;
    struct fabemu_event *event = req->event;

    /* a request completes only once */
    assert(__atomic_load_n(&req->status, __ATOMIC_RELAXED) == FABEMU_PENDING);
    fab->completions++;
    if (fab->simulated) {
        emu_count(&fab->sim.completed, 1);
        nic_trace_completed(fab, req, status);
    }
    if (status == -EPIPE)
        memcpy(((struct nic_failure *)(void *)req->opaque)->why, fab->broken_why, NIC_WHY_BYTES);
    /* N3 pairs with N4, fabemu_req_status(). */
    __atomic_store_n(&req->status, status, __ATOMIC_RELEASE);
    if (event)
        nic_event_counts(fab, event, status);
    if (done)
        done(req);
}

/* --- events ------------------------------------------------------------------------- */

static struct fabemu_event *event_of(struct nic_event *ev)
{
    return emu_list_entry(ev, struct fabemu_event, opaque);
}

static uint64_t event_sum(const struct fabemu_event *event, enum nic_sum of)
{
    uint64_t sum = event->count;

    if (of == NIC_SUCCESSES_OR_FAILURES && __builtin_add_overflow(sum, event->failures, &sum))
        return UINT64_MAX;
    return sum;
}

/*
 * Return the first armed operation that is due. If the event has failed, all are due. NULL: none is
 * due.
 */
static struct nic_post *event_due(struct nic_event *ev)
{
    const struct fabemu_event *event = event_of(ev);

    for (enum nic_sum of = 0; of < NIC_SUMS; of++) {
        if (emu_list_empty(&ev->armed[of]))
            continue;
        struct nic_post *first = emu_list_entry(ev->armed[of].next, struct nic_post, link);

        if (event->status || event_sum(event, of) >= first->req->threshold)
            return first;
    }
    return NULL;
}

static void event_fire(struct fabemu *fab, struct nic_event *ev)
{
    if (event_due(ev) && !emu_listed(&ev->fired))
        emu_list_add(&fab->fired, &ev->fired);
}

/* N5 pairs with N6, fabemu_event_count() and fabemu_event_failures(). */
void nic_event_change(struct fabemu *fab, struct fabemu_event *event,
                      enum fabemu_event_change change, uint64_t value)
{
    struct nic_event *ev = nic_event_of(event);
    bool fails = change == FABEMU_EVENT_ADD_FAILURES || change == FABEMU_EVENT_SET_FAILURES;
    bool adds = change == FABEMU_EVENT_ADD || change == FABEMU_EVENT_ADD_FAILURES;
    uint64_t *count = fails ? &event->failures : &event->count;

    assert(fab->locked && (ev->tolerant || !fails));
    __atomic_store_n(count, adds ? *count + value : value, __ATOMIC_RELEASE); /* N5 */
    if (ev->changed)
        ev->changed(event);
    event_fire(fab, ev);
}

void nic_event_counts(struct fabemu *fab, struct fabemu_event *event, int status)
{
    if (!status) {
        nic_event_change(fab, event, FABEMU_EVENT_ADD, 1);
    } else if (nic_event_of(event)->tolerant) {
        nic_event_change(fab, event, FABEMU_EVENT_ADD_FAILURES, 1);
    } else {
        if (!event->status)
            __atomic_store_n(&event->status, status, __ATOMIC_RELAXED);
        event_fire(fab, nic_event_of(event));
    }
}

void nic_access_count(struct fabemu *fab, const struct nic_access_events *events, unsigned access)
{
    if (access & FABEMU_REMOTE_READ && events->reads)
        nic_event_counts(fab, events->reads, 0);
    if (access & FABEMU_REMOTE_WRITE && events->writes)
        nic_event_counts(fab, events->writes, 0);
}

int nic_access_set(struct nic_access_events *events, unsigned access, struct fabemu_event *event)
{
    if (!access || access & ~(FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE))
        return nic_fail(-EINVAL, "an event counts remote reads, remote writes or both");
    if (access & FABEMU_REMOTE_READ)
        events->reads = event;
    if (access & FABEMU_REMOTE_WRITE)
        events->writes = event;
    return 0;
}

void nic_access_forget(struct nic_access_events *events, const struct fabemu_event *event)
{
    if (events->reads == event)
        events->reads = NULL;
    if (events->writes == event)
        events->writes = NULL;
}

void nic_event_run(struct fabemu *fab)
{
    while (!emu_list_empty(&fab->fired)) {
        struct nic_event *ev = emu_list_entry(fab->fired.next, struct nic_event, fired);
        struct nic_post *post = event_due(ev);
        int err;

        if (!post) {
            emu_list_del(&ev->fired);
            continue;
        }
        emu_list_del(&post->link);
        err = event_of(ev)->status;
        if (!err)
            err = post->begin(fab, post);
        if (err)
            nic_complete(fab, post->req, err);
    }
}

int nic_event_check(const struct fabemu *fab, const struct fabemu_req *req)
{
    if ((req->event && nic_event_of(req->event)->fab != fab) ||
        (req->after && nic_event_of(req->after)->fab != fab))
        return nic_fail(-EINVAL, "the request names an event that is not open on this adapter");
    return 0;
}

void nic_event_arm(struct fabemu *fab, struct nic_event *ev, struct nic_post *post)
{
    struct emu_list *armed =
        &ev->armed[post->req->after_failures ? NIC_SUCCESSES_OR_FAILURES : NIC_SUCCESSES];
    struct emu_list *at = armed;

    assert(fab->locked && !emu_listed(&post->link));
    while (at->prev != armed &&
           emu_list_entry(at->prev, struct nic_post, link)->req->threshold > post->req->threshold)
        at = at->prev;
    emu_list_add(at, &post->link); /* adds before @at */
    event_fire(fab, ev);
}

void nic_event_end(struct fabemu *fab, struct nic_event *ev)
{
    emu_list_del(&ev->open);
    for (enum nic_sum of = 0; of < NIC_SUMS; of++)
        while (!emu_list_empty(&ev->armed[of])) {
            struct nic_post *post = emu_list_entry(ev->armed[of].next, struct nic_post, link);

            emu_list_del(&post->link);
            nic_complete(fab, post->req, -ECANCELED);
        }
}

void nic_event_release(struct fabemu *fab)
{
    while (!emu_list_empty(&fab->events))
        nic_event_end(fab, emu_list_entry(fab->events.next, struct nic_event, open));
}
