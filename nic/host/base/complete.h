/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * complete.h - complete requests, count completions in events, and start the operations that are
 * armed on the events.
 *
 * Lock: held, except for nic_event_check(). Operations of higher layers are started through
 * post->begin(); the application is notified through req->done().
 */
#ifndef NIC_COMPLETE_H
#define NIC_COMPLETE_H

#include "nic/host/base/adapter.h"

/* The first member of every operation that the application posts. */
struct nic_post {
    struct emu_list link; /* entry in the event's armed list */
    struct fabemu_req *req;
    /* starts the operation; if it returns an error, nothing was started */
    int (*begin)(struct fabemu *fab, struct nic_post *post);
} __attribute__((may_alias));

/* The number of an event that an armed operation compares with its threshold. */
enum nic_sum {
    NIC_SUCCESSES,            /* the event's count */
    NIC_SUCCESSES_OR_FAILURES /* the sum of its count and its failures */
};
#define NIC_SUMS 2

/* The library's part of a struct fabemu_event, in its field opaque. */
struct nic_event {
    struct emu_list open;            /* entry in fab->events */
    struct emu_list fired;           /* entry in fab->fired */
    struct emu_list armed[NIC_SUMS]; /* struct nic_post, lowest threshold first */
    struct fabemu *fab;
    bool tolerant; /* failures are counted, and do not make the event fail */
    void (*changed)(struct fabemu_event *event);
} __attribute__((may_alias));
static_assert(sizeof(struct nic_event) <= sizeof(((struct fabemu_event *)0)->opaque), "fits");

/* The events that count peers' accesses to a region or to a queue; NULL: none. */
struct nic_access_events {
    struct fabemu_event *reads, *writes;
};

static inline struct nic_event *nic_event_of(struct fabemu_event *event)
{
    return (struct nic_event *)(void *)event->opaque;
}

/* Contents of the caller's request after its group broke and its operation ended with -EPIPE. */
struct nic_failure {
    char why[NIC_WHY_BYTES];
} __attribute__((may_alias));
static_assert(sizeof(struct nic_failure) <= sizeof(((struct fabemu_req *)0)->opaque), "fits");

/**
 * nic_complete - complete the request. From then on its memory belongs to the caller. With status
 * -EPIPE the request keeps a copy of fab->broken_why.
 */
void nic_complete(struct fabemu *fab, struct fabemu_req *req, int status);
/** nic_event_check - check that the events of @req are open on @fab. Error: -EINVAL. Lock: none. */
int nic_event_check(const struct fabemu *fab, const struct fabemu_req *req);
/**
 * nic_event_counts - count a completion with this status in @event. A status other than 0 makes the
 * event fail unless it is tolerant.
 */
void nic_event_counts(struct fabemu *fab, struct fabemu_event *event, int status);
/** nic_event_change - implement fabemu_event_change_in_done(). */
void nic_event_change(struct fabemu *fab, struct fabemu_event *event,
                      enum fabemu_event_change change, uint64_t value);
/**
 * nic_access_count - count one access of a peer.
 * @access: FABEMU_REMOTE_READ, FABEMU_REMOTE_WRITE, both or none.
 */
void nic_access_count(struct fabemu *fab, const struct nic_access_events *events, unsigned access);
/**
 * nic_access_set - let @event (NULL: none) count these accesses. Errors: -EINVAL, @access has
 * unknown bits.
 */
int nic_access_set(struct nic_access_events *events, unsigned access, struct fabemu_event *event);
/** nic_access_forget - stop counting in @event, because it closes. */
void nic_access_forget(struct nic_access_events *events, const struct fabemu_event *event);
/** nic_event_arm - start @post when the count of @ev reaches the threshold of its request. */
void nic_event_arm(struct fabemu *fab, struct nic_event *ev, struct nic_post *post);
/** nic_event_run - start the armed operations whose events have reached their thresholds. */
void nic_event_run(struct fabemu *fab);
/** nic_event_end - close the event, and cancel the operations that are armed on it. */
void nic_event_end(struct fabemu *fab, struct nic_event *ev);
void nic_event_release(struct fabemu *fab);

#endif
