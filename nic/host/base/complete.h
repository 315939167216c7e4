/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * complete.h - complete requests, count completions in events, and start the operations armed on
 * them.
 *
 * Lock: held, except for nic_event_check(). The layers above are called through pointers in the
 * request: post->begin(), req->done().
 */
#ifndef NIC_COMPLETE_H
#define NIC_COMPLETE_H

#include "nic/host/base/adapter.h"

/* The first member of every operation of the application. */
struct nic_post {
    struct emu_list link; /* in the event's armed list */
    struct fabemu_req *req;
    /* after an error nothing has started */
    int (*begin)(struct fabemu *fab, struct nic_post *post);
} __attribute__((may_alias));

/* In the caller's struct fabemu_event. */
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

/* Left in the caller's request when a broken group has ended its operation with -EPIPE. */
struct nic_failure {
    char why[NIC_WHY_BYTES];
} __attribute__((may_alias));
static_assert(sizeof(struct nic_failure) <= sizeof(((struct fabemu_req *)0)->opaque), "fits");

/**
 * nic_complete - complete the request; its memory belongs to the caller again. With -EPIPE it keeps
 * a copy of fab->broken_why.
 */
void nic_complete(struct fabemu *fab, struct fabemu_req *req, int status);
/** nic_event_check - may a request of @fab name these events? Errors: -EINVAL. Lock: none. */
int nic_event_check(const struct fabemu *fab, const struct fabemu_req *req);
/** nic_event_counts - add @n to the count of @event, or fail it with @status. */
void nic_event_counts(struct fabemu *fab, struct fabemu_event *event, uint64_t n, int status);
/** nic_event_arm - start @post when @ev has reached its threshold. */
void nic_event_arm(struct fabemu *fab, struct nic_event *ev, struct nic_post *post);
/** nic_event_run - start the operations that are due. */
void nic_event_run(struct fabemu *fab);
/** nic_event_end - close the event: cancel the operations that are armed on it. */
void nic_event_end(struct fabemu *fab, struct nic_event *ev);
void nic_event_release(struct fabemu *fab);

#endif
