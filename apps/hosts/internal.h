/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - what both sides of the control channel share. Not for others.
 */
#ifndef APPS_HOSTS_INTERNAL_H
#define APPS_HOSTS_INTERNAL_H

#include <errno.h>
#include <sys/epoll.h>

#include "apps/daemon/conn.h"
#include "apps/fabric/look/stalls.h"
#include "apps/hosts/hosts.h"

/*
 * Be told by @epoll, with @what, when something comes on @conn, or there is room for what waits to
 * leave. @had: the events that were asked for, 0 at first.
 */
static inline void hosts_listen(int epoll, struct conn *conn, uint32_t *had, void *what)
{
    struct epoll_event event = {.data.ptr = what};

    event.events = EPOLLIN | (conn->out.bytes ? EPOLLOUT : 0u);
    if (conn->fd < 0 || event.events == *had)
        return;
    epoll_ctl(epoll, *had ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, conn->fd, &event);
    *had = event.events;
}

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

#define HOSTS_STALL 5u /* numbers for each link that stands still */

/* hosts/look.c: bytes as hexadecimal digits; NULL: no memory. hosts_bytes() reads them. */
struct json_object *hosts_digits(const void *from, size_t bytes);

/* What befalls devices of a host that obeys: befall.c's. */
struct befallen {
    struct fabric *fabric;
    const struct topo_graph *graph;
    struct injector *injector; /* NULL: nobody has asked for a fault yet */
};

/**
 * hosts_befall - befall.c: what such a host is asked that has to do with faults and what follows.
 * Errors: -ENOSYS, there is no such call; those of what is asked. Thread: the fabric's manager.
 */
int hosts_befall(struct befallen *befallen, const char *what, struct json_object *call,
                 struct json_object *reply);
void hosts_befallen_free(struct befallen *befallen);

/* A hit that is told: its bytes, as digits, in "log" of the reply to "hits"; at most so many. */
#define HOSTS_HITS_MOST 4096u

/**
 * hosts_look - look.c: what a host that obeys is asked of its part, told in @reply. Errors:
 * -ENOSYS, there is no such question; -ENOMEM. Thread: the fabric's manager.
 */
int hosts_look(struct fabric *fabric, const char *what, struct json_object *call,
               struct json_object *reply);

/** hosts_bytes - look.c: what digits say, at most @most bytes. Returns how many; 0: none. */
size_t hosts_bytes(struct json_object *digits, void *to, size_t most);

/* What a host said last of all of its processes. views.c's. */
struct hosts_said {
    struct json_object *blocks; /* by node: look.c; NULL: nothing */
    int64_t next;               /* there is more, from that node on; 0: that was all */
    uint64_t there_ns, here_ns; /* when, by its clock and by ours */
};

/* govern.c: for views.c. */
uint32_t hosts_count(const struct hosts *hosts);
struct hosts_said *hosts_said(struct hosts *hosts, uint32_t host);
uint64_t *hosts_asked_ns(struct hosts *hosts); /* when all were asked last */
const char *hosts_name(const struct hosts *hosts, uint32_t host);

/**
 * hosts_call - have all other hosts, or @only one, do @what with @with, which is put; returns when
 * they have. @each is called with each reply. Returns 0, or the first error.
 */
int hosts_call(struct hosts *hosts, uint32_t only, const char *what, struct json_object *with,
               void (*each)(void *ctx, uint32_t host, struct json_object *reply), void *ctx);

/**
 * hosts_tell - have all other hosts do what cannot fail: they do it in the order in which they are
 * told and called, and nobody waits. @with is put.
 */
void hosts_tell(struct hosts *hosts, const char *what, struct json_object *with);

/** hosts_call_long - the same, for what may take long: of all, as long as they are there. */
int hosts_call_long(struct hosts *hosts, const char *what, struct json_object *with,
                    void (*each)(void *ctx, uint32_t host, struct json_object *reply), void *ctx);

/* views.c: of struct fabric_mirror. */
int hosts_view_audit(void *ctx, bool routes, struct fabric_audit *sum);
bool hosts_view_pending(void *ctx, uint32_t host, uint32_t node, struct emu_pending *ret);
uint32_t hosts_view_came(void *ctx, uint32_t group, uint32_t seq, struct fabric_came *ret,
                         uint32_t max);
bool hosts_view_clash(void *ctx, uint32_t group, struct emu_clash *ret);
uint32_t hosts_view_stalls(void *ctx, uint64_t now_ns, struct fabric_stall *ret, uint32_t max);

/* faults.c: of struct fabric_mirror. */
void hosts_mirror_test(void *ctx, struct fabric_test *tests, const struct fabric_past *here,
                       uint32_t count, uint32_t packets);
void hosts_mirror_look(void *ctx, struct fabric_seen *ret);
void hosts_mirror_losses(void *ctx, uint64_t bound_ps);
void hosts_mirror_alone(void *ctx, uint32_t node);
void hosts_mirror_failed(void *ctx, uint32_t group);
void hosts_mirror_unit_out(void *ctx, uint32_t sw);

/* What a host has told of faults: faults.c's. */
struct hosts_hits {
    struct json_object *counts; /* [FAULT,HITS,…], as it said last; NULL: nothing */
    uint64_t *dark;             /* by fault: packets that were on cables when they went down */
    uint32_t dark_slots;
    uint64_t missed;
};
#define HOSTS_FAULTS_MOST 131072 /* numbers of faults that a host is believed */
#define HOSTS_TEST        5u     /* numbers for each cable that is tested */

/* @count more of those of @fault. */
void hosts_dark(struct hosts_hits *hits, int64_t fault, int64_t count);
struct hosts_hits *hosts_hits_of(struct hosts *hosts, uint32_t host);
struct fabric *hosts_fabric(struct hosts *hosts); /* that is governed */

/* views.c: the process at @node has gone, or has just come. */
void hosts_view_forget(struct hosts *hosts, uint32_t host, uint32_t node);

#endif
