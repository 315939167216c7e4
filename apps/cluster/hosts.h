/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts.h - one fabric on several hosts: one is the coordinator (coordinator/coordinator.h), the
 * others are agents (follower/follower.h).
 *
 * The coordinator's daemon is the daemon of the whole fabric. It treats a process on another host
 * like one of its own clients: the agent forwards the client's lines over the control channel
 * (coordinator.c, agent.c). So attaching, groups, deaths, status and reports are handled in one
 * place, wherever a process is. The fabrics of all hosts are replicas (apps/fabric/hosts.h, struct
 * fabric_mirror): every change that the coordinator makes to its own is made by all others, each to
 * its devices, before the coordinator goes on.
 *
 * Both sides send JSON, one message per line, over a stream that the host link carries:
 *
 *   to the coordinator  {"client":C,"new":PID,"command":NAME}   a process has connected
 *                       {"client":C,"line":{…}}                 its request
 *                       {"client":C,"taken":N}                  it has read N more bytes of text
 *                       {"client":C,"end":true}                 its connection has ended
 *                       {"client":C,"how":TEXT}                 how the process itself ended
 *                       {"client":C,"stopped":0|1}              it is stopped for too long, or not
 *                       {"here":PID}                            once, before all others
 *                       {"cut_off":NODE}                        its process takes no segments
 *                       {"link_lost":{"host":H,"number":I,"of":N}}   a host link to H has ended
 *                       {"reply":N,"errno":E,…}                 reply to call N
 *                       {"reply":0,"sample":…}                  a sample of its part (sample.c)
 *                       {"reply":0,"hit":N,"fault":ID}          N hits of a link that went down
 *                       {"failed":NAME,"errno":E}               a call without a reply failed
 *   to an agent         {"client":C,"line":{…}}                 a reply, or an event
 *                       {"client":C,"text":TEXT,"more":1}       a piece of a snapshot or a long
 *                                                               line; the last has no "more"
 *                       {"client":C,"end":true}                 close its connection
 *                       {"call":N,"do":NAME,…}                  a call (tables in agent.c,
 *                                                               queries.c, faults.c and rejoin.c);
 *                                                               0: no reply is expected
 */
#ifndef APPS_CLUSTER_HOSTS_H
#define APPS_CLUSTER_HOSTS_H

#include <stdint.h>

#define HOSTS_MAX 64u

/* A host link, seen from one host: pair @number of the @of pairs of ports that lead to @host. */
struct hosts_link {
    uint32_t host;
    uint32_t number;
    uint32_t of;
    /* Socket that hangs up when the session ends; borrowed, and nothing is read from it. */
    int closed_fd;
};

/* What other hosts report of their parts, in pieces, when queried. */
enum hosts_sample_kind {
    HOSTS_SAMPLE_COUNTERS, /* counters, for telemetry_receive() */
    HOSTS_SAMPLE_FINISHED, /* finished operations of processes, for timeline_receive() */
    HOSTS_SAMPLE_KINDS
};

#endif
