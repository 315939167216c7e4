/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * channel.h - what both sides of the control channel share. Not for others.
 */
#ifndef APPS_CLUSTER_CHANNEL_H
#define APPS_CLUSTER_CHANNEL_H

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "apps/control/conn.h"
#include "apps/fabric/fabric.h"
#include "apps/fabric/comm.h"
#include "apps/cluster/hosts.h"
#include "emu/util/printable.h"

/*
 * Be told by @epoll, with @what, when something comes on @conn, if it @reads, or there is room for
 * what waits to leave; of neither: of nothing, not even of its end. @had: the events that were
 * asked for, 0 at first.
 */
static inline void hosts_listen_for(int epoll, struct conn *conn, bool reads, uint32_t *had,
                                    void *what)
{
    struct epoll_event event = {.data.ptr = what};

    event.events = (reads ? EPOLLIN : 0u) | (conn->out.bytes ? EPOLLOUT : 0u);
    if (conn->fd < 0 || event.events == *had)
        return;
    epoll_ctl(epoll,
              !event.events ? EPOLL_CTL_DEL
              : *had        ? EPOLL_CTL_MOD
                            : EPOLL_CTL_ADD,
              conn->fd, &event);
    *had = event.events;
}

static inline void hosts_listen(int epoll, struct conn *conn, uint32_t *had, void *what)
{
    hosts_listen_for(epoll, conn, true, had, what);
}

/*
 * What processes send and are sent passes the control channel as long as no more than so many bytes
 * wait to leave on it: the rest of its room (CONN_OUT_MAX) is for calls, and a process that sends
 * more than the other host takes waits, and its host does not. One process has so many requests
 * under way: who reads no replies asks no more.
 */
#define HOSTS_BACKLOG    ((size_t)512 << 10)
#define HOSTS_ASKED_MOST 16u

/*
 * A snapshot, and any line that is longer than a piece, passes the control channel as text, in
 * pieces that nobody reads as JSON before its process does. So much of that may be under way to a
 * process and not be taken by it; the rest waits at the daemon, which leaves out snapshots
 * meanwhile. Its host tells what it has taken after so many bytes.
 */
#define HOSTS_PIECE_BYTES  ((size_t)32 << 10)
#define HOSTS_UNACKED_MOST ((size_t)128 << 10)
#define HOSTS_ACK_BYTES    ((size_t)32 << 10)
static_assert(HOSTS_ACK_BYTES < HOSTS_UNACKED_MOST, "what is not told holds up nothing");

static inline bool hosts_is_full(const struct conn *control)
{
    return control->out.bytes > HOSTS_BACKLOG;
}

#define HOSTS_DRAIN_MS 1000 /* for the last messages to leave */
/* A host of another fabric may be one of before that is about to end. Who governs waits longer, as
 * the others end with it, and are to have said what they know. */
#define HOSTS_REFUSED_MS 3000
#define HOSTS_LONGER_MS  2000
#define HOSTS_WARN_MS    1000 /* until a line says why a host has not been met yet */
#define HOSTS_WHY_BYTES  256

/* Have @epoll tell, once, with the link's address, that its session has ended. */
static inline int hosts_watch(int epoll, const struct hosts_link *link)
{
    /* no events: the end is always told, and what a liar sends is not */
    struct epoll_event event = {.data.ptr = (void *)(uintptr_t)link};

    return epoll_ctl(epoll, EPOLL_CTL_ADD, link->closed_fd, &event) < 0 ? -errno : 0;
}

/* Copies a text of @message, which another host has sent; no text: "". */
static inline void hosts_text(char *to, size_t bytes, struct json_object *message,
                              const char *field)
{
    snprintf(to, bytes, "%s", emu_json_text(message, field, ""));
    emu_printable(to);
}

/*
 * numbers.c: the counters of struct fabric_totals as a list, and such a list added to others. All
 * hosts have the counters in the same order: cluster_digest().
 */
struct json_object *hosts_totals_list(const struct fabric_totals *totals);
void hosts_totals_add(struct fabric_totals *sum, struct json_object *list);

/*
 * numbers.c: what the processes of this host have communicated, of their pairs of nodes @most,
 * from number @from on; "next" is the number of the one behind, if there is any. Only @from 0 has
 * the rest. NULL: no memory. And that added to others'. What cannot be is left out.
 */
#define HOSTS_PAIRS_MOST 65536u /* that are told at once */
struct json_object *hosts_comm_list(struct fabric *fabric, uint64_t from, uint32_t most);
void hosts_comm_add(struct fabric_comm *sum, struct json_object *comm);

#define HOSTS_STALL 5u /* numbers for each link that stands still */

/*
 * numbers.c: bytes as hexadecimal digits; NULL: no memory. hosts_from_hex() - what digits say,
 * at most @most bytes. Returns how many; 0: none.
 */
struct json_object *hosts_to_hex(const void *from, size_t bytes);
size_t hosts_from_hex(struct json_object *digits, void *to, size_t most);

/* numbers.c: append a set of ports to a list of numbers: EMU_PORT_WORDS of them. */
void hosts_ports_add(struct json_object *list, emu_ports set);

/**
 * hosts_ports_read - numbers.c: read such a set, which another host has sent, from number @at of
 * @list on. @ports: the number of ports. False: the list is too short, or the set has a port beyond
 * them.
 */
bool hosts_ports_read(emu_ports *ret, struct json_object *list, size_t at, uint32_t ports);

/* A hit that is told: its bytes, as digits, in "log" of the reply to "hits"; at most so many. */
#define HOSTS_HITS_MOST 4096u

/* Losses in a reply to "unrecoverable", at most; a line has room for many times as many. */
#define HOSTS_DROPS_MOST 4096u

/* What a group is, in admit.c's and rejoin.c's bits. */
#define HOSTS_COMBINES    1u
#define HOSTS_FAILED      2u
#define HOSTS_TREELESS    4u
#define HOSTS_PARTITIONED 8u

#define HOSTS_TREE_NUMBERS (2u + EMU_PORT_WORDS) /* for each switch of a group's tree */

/* So many bytes of digits are as much as is told at once of what processes have pending. */
#define HOSTS_BLOCKS_MOST ((size_t)CONN_REPLY_MAX / 4)

#define HOSTS_TEST      5u     /* numbers for each cable that is tested, */
#define HOSTS_TEST_MOST 100000 /* and packets, at most; a manager's are 10000 */

/*
 * A piece of what a host tells has so many bytes, and less than so many more, which a record may
 * have that begins before; each row of a list of counters has at most so many.
 */
#define HOSTS_SAMPLE_BYTES ((size_t)32 << 10)
#define HOSTS_SAMPLE_SLACK ((size_t)2 << 10)
#define HOSTS_SAMPLE_ROW   80u

#endif
