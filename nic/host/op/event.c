/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event.c - counted events: what is posted now, or when a count is reached.
 *
 * An event keeps its armed operations in the order of their thresholds. A count
 * only marks the event as fired; what is due begins at the end of this turn of
 * the adapter's lock (nic_unlock()), one after the other: a chain of operations
 * that complete at once is a loop there, not a recursion.
 */
#include "nic/host/adapter.h"

#include <string.h>

/* In the caller's event. */
struct nic_event {
    struct emu_list open;  /* in fab->events */
    struct emu_list fired; /* in fab->fired */
    struct emu_list armed; /* struct nic_post, lowest threshold first */
    struct fabemu *fab;
} __attribute__((may_alias));
static_assert(sizeof(struct nic_event) <= sizeof(((struct fabemu_event *)0)->opaque), "fits");

static struct nic_event *nic_event_of(struct fabemu_event *event)
{
    return (struct nic_event *)(void *)event->opaque;
}

static struct fabemu_event *event_of(struct nic_event *ev)
{
    return emu_list_entry(ev, struct fabemu_event, opaque);
}

/* The first that is armed, if it is due; or NULL. */
static struct nic_post *event_due(struct nic_event *ev)
{
    const struct fabemu_event *event = event_of(ev);
    struct nic_post *first;

    if (emu_list_empty(&ev->armed))
        return NULL;
    first = emu_list_entry(ev->armed.next, struct nic_post, link);
    return event->status || event->count >= first->req->threshold ? first : NULL;
}

static void event_fire(struct fabemu *fab, struct nic_event *ev)
{
    if (event_due(ev) && !emu_listed(&ev->fired))
        emu_list_add(&fab->fired, &ev->fired);
}

/* N5 pairs with N6, fabemu_event_count(). */
void nic_event_counts(struct fabemu *fab, struct fabemu_event *event, uint64_t n, int status)
{
    if (!status)
        __atomic_store_n(&event->count, event->count + n, __ATOMIC_RELEASE);
    else if (!event->status)
        __atomic_store_n(&event->status, status, __ATOMIC_RELAXED);
    event_fire(fab, nic_event_of(event));
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

/* --- posting ------------------------------------------------------------------------- */

int nic_event_check(const struct fabemu *fab, const struct fabemu_req *req)
{
    if ((req->event && nic_event_of(req->event)->fab != fab) ||
        (req->after && nic_event_of(req->after)->fab != fab))
        return nic_fail(-EINVAL, "an event that is not open on this adapter");
    return 0;
}

static void event_arm(struct fabemu *fab, struct nic_event *ev, struct nic_post *post)
{
    struct emu_list *at = &ev->armed;

    while (at->prev != &ev->armed &&
           emu_list_entry(at->prev, struct nic_post, link)->req->threshold > post->req->threshold)
        at = at->prev;
    emu_list_add(at, &post->link); /* before @at */
    event_fire(fab, ev);
}

int nic_post(struct fabemu *fab, struct nic_post *post)
{
    struct fabemu_req *req = post->req;
    int err = 0;

    nic_lock(fab);
    __atomic_store_n(&req->status, FABEMU_PENDING, __ATOMIC_RELAXED);
    if (req->after)
        event_arm(fab, nic_event_of(req->after), post);
    else
        err = post->begin(fab, post);
    if (err)
        __atomic_store_n(&req->status, err, __ATOMIC_RELAXED);
    nic_unlock(fab);
    return err;
}

/* --- the calls ------------------------------------------------------------------------- */

int fabemu_event_open(struct fabemu *fab, struct fabemu_event *event)
{
    struct nic_event *ev = nic_event_of(event);

    if (nic_gone(fab))
        return nic_fail_gone();
    memset(event, 0, sizeof *event);
    ev->fab = fab;
    emu_list_init(&ev->armed);
    nic_lock(fab);
    emu_list_add(&fab->events, &ev->open);
    nic_unlock(fab);
    return 0;
}

static void event_end(struct fabemu *fab, struct nic_event *ev)
{
    emu_list_del(&ev->open);
    while (!emu_list_empty(&ev->armed)) {
        struct nic_post *post = emu_list_entry(ev->armed.next, struct nic_post, link);

        emu_list_del(&post->link);
        nic_complete(fab, post->req, -ECANCELED);
    }
}

void fabemu_event_close(struct fabemu_event *event)
{
    struct fabemu *fab = nic_event_of(event)->fab;

    if (nic_gone(fab))
        return;
    nic_lock(fab);
    for (uint32_t i = 0; i < fab->region_count; i++)
        if (fab->regions[i] && fab->regions[i]->event == event)
            fab->regions[i]->event = NULL;
    for (struct nic_region *at = fab->symmetric; at; at = at->symmetric)
        if (at->event == event)
            at->event = NULL;
    event_end(fab, nic_event_of(event));
    nic_unlock(fab); /* which takes it off fab->fired */
}

void nic_event_release(struct fabemu *fab)
{
    while (!emu_list_empty(&fab->events))
        event_end(fab, emu_list_entry(fab->events.next, struct nic_event, open));
}

int fabemu_event_add(struct fabemu_event *event, uint64_t n)
{
    struct fabemu *fab = nic_event_of(event)->fab;

    if (nic_gone(fab))
        return nic_fail_gone();
    nic_lock(fab);
    nic_event_counts(fab, event, n, 0);
    nic_unlock(fab);
    return 0;
}

static int when_begin(struct fabemu *fab, struct nic_post *post)
{
    nic_op_end(fab, nic_op_of(post->req), 0);
    return 0;
}

int fabemu_event_when(struct fabemu_event *event, uint64_t threshold, struct fabemu_req *req)
{
    struct fabemu *fab = nic_event_of(event)->fab;

    if (nic_gone(fab))
        return nic_fail_gone();
    req->after = event;
    req->threshold = threshold;
    if (nic_event_check(fab, req))
        return -EINVAL;
    return nic_post(fab, &nic_op_new(req, NIC_OP_WHEN, FABEMU_ANY_NODE, when_begin)->post);
}

int fabemu_event_wait(struct fabemu_event *event, uint64_t threshold)
{
    struct fabemu_req req = {0};
    int err = fabemu_event_when(event, threshold, &req);

    return err ? err : fabemu_wait(nic_event_of(event)->fab, &req);
}
