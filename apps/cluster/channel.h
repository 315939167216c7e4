/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * channel.h - the control channel between the coordinator and an agent (hosts.h): limits, formats
 * and helpers that both ends share. Internal to apps/cluster.
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
 * Let @epoll report @what when @conn is readable, if @reads is set, and when @conn is writable, if
 * output is queued. If it waits for neither, it does not even report the end of the connection.
 * @had: the events that the last call requested; 0 before the first call. This call updates it.
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
 * A message of a process is queued on the control channel only if at most HOSTS_BACKLOG bytes are
 * already queued there. The rest of the buffer (CONN_OUT_MAX) is reserved for calls. Therefore a
 * process that sends faster than the other host reads has to wait, but calls do not wait. While
 * HOSTS_ASKED_MOST requests of a process wait for their replies, the next ones are not read.
 */
#define HOSTS_BACKLOG    ((size_t)512 << 10)
#define HOSTS_ASKED_MOST 16u

/*
 * If output to a process is a snapshot, or a line longer than HOSTS_PIECE_BYTES, it is sent as
 * *text*, in pieces of up to this size. The hosts do not parse it as JSON; only the process does.
 * At most HOSTS_UNACKED_MOST bytes of text for a process may be sent without an acknowledgment.
 * Further text waits in the daemon, which skips snapshots in the meantime. The process's host
 * acknowledges text whenever the process has read HOSTS_ACK_BYTES of it.
 */
#define HOSTS_PIECE_BYTES  ((size_t)32 << 10)
#define HOSTS_UNACKED_MOST ((size_t)128 << 10)
#define HOSTS_ACK_BYTES    ((size_t)32 << 10)
static_assert(HOSTS_ACK_BYTES < HOSTS_UNACKED_MOST,
              "text that was read but is not acknowledged yet never uses up the limit");

static inline bool hosts_is_full(const struct conn *control)
{
    return control->out.bytes > HOSTS_BACKLOG;
}

#define HOSTS_DRAIN_MS 1000 /* time to send the last messages when a channel is closed */
/*
 * If a host's process belongs to another fabric, the start fails only after this time, because it
 * may be an old process that is about to exit. The coordinator waits HOSTS_LONGER_MS longer than
 * the agents, because agents end with the coordinator and must first send their reports.
 */
#define HOSTS_REFUSED_MS 3000
#define HOSTS_LONGER_MS  2000
/* time after which a warning explains why a host is not connected yet */
#define HOSTS_WARN_MS   1000
#define HOSTS_WHY_BYTES 256

/* Let @epoll report @link, once, when the link's session has ended. Errors: -errno. */
static inline int hosts_watch(int epoll, const struct hosts_link *link)
{
    /*
     * request no events: a hang-up is reported nevertheless, but data from a malicious host is not
     */
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

/*
 * Copy the text of field @field of @message to @to, or "" if the field is missing. Replace
 * unprintable bytes, because @message comes from another host.
 */
static inline void hosts_text(char *to, size_t bytes, struct json_object *message,
                              const char *field)
{
    snprintf(to, bytes, "%s", emu_json_text(message, field, ""));
    emu_printable(to);
}

/*
 * hosts_totals_list (numbers.c) - write the counters of struct fabric_totals as a list.
 * hosts_totals_add() - add such a list to @sum. All hosts have the same counters in the same order,
 * which cluster_digest() ensures.
 */
struct json_object *hosts_totals_list(const struct fabric_totals *totals);
void hosts_totals_add(struct fabric_totals *sum, struct json_object *list);

/*
 * numbers.c: return the communication of this host's processes, with at most @most pairs of nodes,
 * beginning with pair number @from. If further pairs are left out, "next" is the number of the
 * first of them. Data other than pairs is included only if @from is 0. Returns NULL if there is no
 * memory.
 * hosts_comm_add() - add such an object, which @host has sent, to @sum. Ignores
 * invalid parts, and data about nodes of hosts other than @host.
 */
#define HOSTS_PAIRS_MOST 65536u /* maximum number of pairs per message */
struct json_object *hosts_comm_list(struct fabric *fabric, uint64_t from, uint32_t most);
void hosts_comm_add(struct fabric_comm *sum, const struct fabric_config *config, uint32_t host,
                    struct json_object *comm);

#define HOSTS_STALL 5u /* numbers per stalled link in a reply to "stalls" */

/*
 * numbers.c: return bytes as text of hexadecimal digits; NULL if there is no memory.
 * hosts_from_hex() - parse such digits into at most @most bytes. Returns the number of bytes; 0 on
 * error.
 */
struct json_object *hosts_to_hex(const void *from, size_t bytes);
size_t hosts_from_hex(struct json_object *digits, void *to, size_t most);

/* numbers.c: append a set of ports to @list, as EMU_PORT_WORDS numbers. */
void hosts_ports_add(struct json_object *list, emu_ports set);

/**
 * hosts_ports_read - numbers.c: read a set of ports from @list, which another host has sent,
 * beginning at element @at. @ports: number of ports of a switch. Returns false if the list is too
 * short, or the set has a port with a number of @ports or more.
 */
bool hosts_ports_read(emu_ports *ret, struct json_object *list, size_t at, uint32_t ports);

/*
 * Maximum number of hits in a reply to "hits". A hit is sent as the bytes of struct emu_fault_hit,
 * in hexadecimal.
 */
#define HOSTS_HITS_MOST 4096u

/*
 * Maximum number of drops in a reply to "unrecoverable". A line has space for many times that
 * number.
 */
#define HOSTS_DROPS_MOST 4096u

/* Bits of field "is" of a group, which coordinator/admit.c sends to agent/rejoin.c. */
#define HOSTS_COMBINES    1u
#define HOSTS_FAILED      2u
#define HOSTS_TREELESS    4u
#define HOSTS_PARTITIONED 8u

#define HOSTS_TREE_NUMBERS (2u + EMU_PORT_WORDS) /* numbers per switch of a group's tree */

/* Maximum number of hexadecimal digits in a message about pending operations. */
#define HOSTS_BLOCKS_MOST ((size_t)CONN_REPLY_MAX / 4)

/*
 * Maximum size, in bytes, of the other messages that an agent may send before it replies to a call;
 * the coordinator keeps them as text until then. 64 MiB is the limit of the daemon's buffers for
 * all its own clients. In addition, the process of each node may have HOSTS_ASKED_MOST requests of
 * 256 bytes in flight.
 */
#define HOSTS_KEPT_BYTES(nodes) (CONN_EXCESS_MAX + (size_t)(nodes)*HOSTS_ASKED_MOST * 256u)

/*
 * hosts_limit (numbers.c) - let @conn reject a line from another host if the line is longer, or has
 * more lists and objects, than any line that a correct host sends for @fabric.
 * hosts_line_most() - return the length of the longest line that a correct host sends. A number has
 * at most 20 digits. There are at most 17 numbers for each cable (in "scan" and "test"), and a few
 * for each switch or node (in "arrived", "groups" and "begin"). 5 MiB are added for lines whose
 * length does not depend on the network: the hits of up to 131072 faults, HOSTS_PAIRS_MOST pairs, a
 * message of groups, or the request of a process.
 */
size_t hosts_line_most(const struct fabric *fabric);
void hosts_limit(struct conn *conn, const struct fabric *fabric, size_t containers_max);

/*
 * Maximum number of lists and objects in a line. Of the lines of an agent, a request of a process
 * and a reply to "totals" have the largest number. The reply has an object for each link (64 hosts
 * by 8 ports). Of the lines of the coordinator, the call "groups" and a reply of HOSTS_PIECE_BYTES
 * to a process have the largest number. The call has three for each group.
 */
#define HOSTS_AGENT_CONTAINERS       2048u
#define HOSTS_COORDINATOR_CONTAINERS 32768u

#define HOSTS_TEST 5u /* numbers per cable in a reply to "test" */
/* maximum number of packets per test; the fabric manager uses 10000 */
#define HOSTS_TEST_MOST 100000

#define HOSTS_SAMPLE_BYTES ((size_t)32 << 10) /* size of a piece of a sample */
/* number of bytes by which the last record of a piece may exceed that size */
#define HOSTS_SAMPLE_SLACK ((size_t)2 << 10)
/* maximum number of bytes of counters of a device or a cable */
#define HOSTS_SAMPLE_ROW 80u

#endif
