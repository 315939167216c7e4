/* SPDX-License-Identifier: BSD-3-Clause */
/* channel.h - shared by both sides of the control channel. Internal to apps/cluster. */
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
 * Have @epoll report @what when @conn is readable, if @reads, or writable while output is queued.
 * With neither, nothing is reported, not even the end of the connection. @had: the events requested
 * so far, 0 at first.
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
 * Messages of processes use the control channel while at most HOSTS_BACKLOG bytes are queued on it.
 * The rest of its buffer (CONN_OUT_MAX) is for calls. So a process that sends more than the peer
 * reads has to wait, and its host does not. A process has at most HOSTS_ASKED_MOST requests in
 * flight: one that does not read replies cannot send more.
 */
#define HOSTS_BACKLOG    ((size_t)512 << 10)
#define HOSTS_ASKED_MOST 16u

/*
 * Snapshots, and lines longer than a piece, are sent as text in pieces, which only the receiving
 * process parses as JSON. At most HOSTS_UNACKED_MOST bytes of text per process may be sent and
 * not yet read by it. The rest waits at the daemon, which skips snapshots meanwhile. The process's
 * host acknowledges text after every HOSTS_ACK_BYTES bytes.
 */
#define HOSTS_PIECE_BYTES  ((size_t)32 << 10)
#define HOSTS_UNACKED_MOST ((size_t)128 << 10)
#define HOSTS_ACK_BYTES    ((size_t)32 << 10)
static_assert(HOSTS_ACK_BYTES < HOSTS_UNACKED_MOST, "what is not told holds up nothing");

static inline bool hosts_is_full(const struct conn *control)
{
    return control->out.bytes > HOSTS_BACKLOG;
}

#define HOSTS_DRAIN_MS 1000 /* time to send the last messages */
/*
 * A host of another fabric may be an old process that is about to exit. The coordinator waits
 * longer than the agents: they end when it ends, and must send their last reports before that.
 */
#define HOSTS_REFUSED_MS 3000
#define HOSTS_LONGER_MS  2000
#define HOSTS_WARN_MS    1000 /* until a line explains why a host is not connected yet */
#define HOSTS_WHY_BYTES  256

/* Have @epoll report once, with the link's address, that its session has ended. */
static inline int hosts_watch(int epoll, const struct hosts_link *link)
{
    /* no events: a hang-up is always reported, and data from a malicious host is not */
    struct epoll_event event = {.data.ptr = (void *)(uintptr_t)link};

    return epoll_ctl(epoll, EPOLL_CTL_ADD, link->closed_fd, &event) < 0 ? -errno : 0;
}

static inline void hosts_list_add(struct json_object *list, uint64_t number)
{
    json_object_array_add(list, json_object_new_uint64(number));
}

static inline uint64_t hosts_number_at(struct json_object *list, size_t i)
{
    return json_object_get_uint64(json_object_array_get_idx(list, i));
}

/* Copy a text field of @message from another host, or "" if there is none. */
static inline void hosts_text(char *to, size_t bytes, struct json_object *message,
                              const char *field)
{
    snprintf(to, bytes, "%s", emu_json_text(message, field, ""));
    emu_printable(to);
}

/*
 * numbers.c: write the counters of struct fabric_totals as a list; add such a list to @sum.
 * cluster_digest() ensures that all hosts have the same counters in the same order.
 */
struct json_object *hosts_totals_list(const struct fabric_totals *totals);
void hosts_totals_add(struct fabric_totals *sum, struct json_object *list);

/*
 * numbers.c: the communication of this host's processes: at most @most pairs of nodes from number
 * @from on. "next" is the number of the first pair left out, if any. Only @from 0 includes the
 * rest. NULL: no memory. hosts_comm_add() adds such an object to @sum and ignores invalid parts.
 */
#define HOSTS_PAIRS_MOST 65536u /* most pairs per message */
struct json_object *hosts_comm_list(struct fabric *fabric, uint64_t from, uint32_t most);
void hosts_comm_add(struct fabric_comm *sum, struct json_object *comm);

#define HOSTS_STALL 5u /* numbers per stalled link */

/*
 * numbers.c: bytes as hexadecimal digits; NULL: no memory. hosts_from_hex() - parse at most @most
 * bytes from digits. Returns how many; 0 on an error.
 */
struct json_object *hosts_to_hex(const void *from, size_t bytes);
size_t hosts_from_hex(struct json_object *digits, void *to, size_t most);

/* numbers.c: append a set of ports to a list, as EMU_PORT_WORDS numbers. */
void hosts_ports_add(struct json_object *list, emu_ports set);

/**
 * hosts_ports_read - numbers.c: read such a set from another host, from element @at of @list on.
 * @ports: number of ports. Returns false if the list is too short or the set has a port beyond
 * @ports.
 */
bool hosts_ports_read(emu_ports *ret, struct json_object *list, size_t at, uint32_t ports);

/* Most hits in "log" of a reply to "hits", each the bytes of a hit as digits. */
#define HOSTS_HITS_MOST 4096u

/*
 * Most unrecoverable drops in a reply to "unrecoverable"; a line has space for many times as many.
 */
#define HOSTS_DROPS_MOST 4096u

/* State bits of a group in admit.c and rejoin.c. */
#define HOSTS_COMBINES    1u
#define HOSTS_FAILED      2u
#define HOSTS_TREELESS    4u
#define HOSTS_PARTITIONED 8u

#define HOSTS_TREE_NUMBERS (2u + EMU_PORT_WORDS) /* numbers per switch of a group's tree */

/* Most bytes of digits per message about pending operations. */
#define HOSTS_BLOCKS_MOST ((size_t)CONN_REPLY_MAX / 4)

/*
 * Most bytes of other messages that a host may send before it replies to a call; they are kept as
 * text. 64 MiB is what the daemon buffers for all of its own clients. In addition each node's
 * process may have its requests in flight: HOSTS_ASKED_MOST of 256 bytes.
 */
#define HOSTS_KEPT_BYTES(nodes) (CONN_EXCESS_MAX + (size_t)(nodes)*HOSTS_ASKED_MOST * 256u)

/*
 * numbers.c: limit the lines that @conn accepts from another host, by what an honest host sends in
 * @fabric. hosts_line_most() - the longest such line. Its numbers have at most 20 digits. For each
 * cable there are at most 17 of them ("scan", "test"), for each switch or node a few ("arrived",
 * "groups", "begin"). Up to 5 MiB more are for the lists that do not grow with the network: hits of
 * up to 131072 faults, HOSTS_PAIRS_MOST pairs, a part of the groups, and the request of a process.
 */
size_t hosts_line_most(const struct fabric *fabric);
void hosts_limit(struct conn *conn, const struct fabric *fabric, size_t containers_max);

/*
 * Lists and objects in a line. From an agent: an object for each of its links in the reply to
 * "totals", at most 64 hosts by 8 ports, or a request of a process. From the coordinator: three for
 * each group of a message "groups", or a reply of HOSTS_PIECE_BYTES to a process.
 */
#define HOSTS_AGENT_CONTAINERS       2048u
#define HOSTS_COORDINATOR_CONTAINERS 32768u

#define HOSTS_TEST      5u     /* numbers per tested cable, */
#define HOSTS_TEST_MOST 100000 /* and most packets per test; the fabric manager uses 10000 */

/*
 * Bytes of a piece of a sample, excess of a record that begins before that limit, and most bytes of
 * a row of a list of counters.
 */
#define HOSTS_SAMPLE_BYTES ((size_t)32 << 10)
#define HOSTS_SAMPLE_SLACK ((size_t)2 << 10)
#define HOSTS_SAMPLE_ROW   80u

#endif
