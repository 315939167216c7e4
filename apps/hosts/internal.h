/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - what both sides of the control channel share. Not for others.
 */
#ifndef APPS_HOSTS_INTERNAL_H
#define APPS_HOSTS_INTERNAL_H

#include <errno.h>
#include <sys/epoll.h>

#include "apps/hosts/hosts.h"

#define HOSTS_DRAIN_MS 1000 /* for the last messages to leave */
/* A host of another fabric may be one of before that is about to end. Who governs waits longer, as
 * the others end with it, and are to have said what they know. */
#define HOSTS_REFUSED_MS 3000
#define HOSTS_LONGER_MS  2000
#define HOSTS_WHY_BYTES  256

/* Have @epoll tell, once, with the link's address, that its session has ended. */
static inline int hosts_watch(int epoll, const struct hosts_link *link)
{
    /* no events: the end is always told, and what a liar sends is not */
    struct epoll_event event = {.data.ptr = (void *)(uintptr_t)link};

    return epoll_ctl(epoll, EPOLL_CTL_ADD, link->end_fd, &event) < 0 ? -errno : 0;
}

/* hosts/totals.c: counters as a list of numbers, and such a list added to others. */
struct json_object *hosts_totals_list(const struct fabric_totals *totals);
void hosts_totals_add(struct fabric_totals *sum, struct json_object *list);

#endif
