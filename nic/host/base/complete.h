/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * complete.h - requests complete, events count that, and what an event was to begin is due.
 *
 * Owner: what a request and an event say to the application (status, count); the lists of open and
 * fired events. Lock: held, but for nic_event_check(). Callers: everybody who ends an operation. Up
 * from here it goes by what the caller has left in the request: post->begin(), req->done().
 */
#ifndef NIC_COMPLETE_H
#define NIC_COMPLETE_H

#include "nic/host/base/adapter.h"

/* What every operation of the application's begins with. */
struct nic_post {
    struct emu_list link; /* armed: event's */
    struct fabemu_req *req;
    int (*begin)(struct fabemu *fab, struct nic_post *post); /* on an error nothing has begun */
} __attribute__((may_alias));

/* In the caller's event. */
struct nic_event {
    struct emu_list open;  /* in fab->events */
    struct emu_list fired; /* in fab->fired */
    struct emu_list armed; /* struct nic_post, lowest threshold first */
    struct fabemu *fab;
} __attribute__((may_alias));
static_assert(sizeof(struct nic_event) <= sizeof(((struct fabemu_event *)0)->opaque), "fits");

static inline struct nic_event *nic_event_of(struct fabemu_event *event)
{
    return (struct nic_event *)(void *)event->opaque;
}

/* What is left in the caller's request of an operation that a broken group has ended, -EPIPE. */
struct nic_epitaph {
    char why[NIC_WHY_BYTES];
} __attribute__((may_alias));
static_assert(sizeof(struct nic_epitaph) <= sizeof(((struct fabemu_req *)0)->opaque), "fits");

/**
 * nic_complete - the request is over; its memory is the caller's again. With -EPIPE it keeps what
 * fab->broken_why says.
 */
void nic_complete(struct fabemu *fab, struct fabemu_req *req, int status);
/** nic_event_check - may a request of @fab name these events? Errors: -EINVAL. Lock: none. */
int nic_event_check(const struct fabemu *fab, const struct fabemu_req *req);
/** nic_event_counts - @event has counted @n more, or has failed with @status. */
void nic_event_counts(struct fabemu *fab, struct fabemu_event *event, uint64_t n, int status);
/** nic_event_arm - @post begins when @ev has counted so far. */
void nic_event_arm(struct fabemu *fab, struct nic_event *ev, struct nic_post *post);
/** nic_event_run - start what is due. */
void nic_event_run(struct fabemu *fab);
/** nic_event_end - the event is closed: what is armed on it ends. */
void nic_event_end(struct fabemu *fab, struct nic_event *ev);
void nic_event_release(struct fabemu *fab);

#endif
