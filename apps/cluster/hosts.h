/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts.h - one fabric on several hosts. One host is the coordinator (coordinator/coordinator.h),
 * the others are agents (agent/agent.h).
 *
 * The daemon of the coordinator is the daemon of the whole fabric. It treats processes on other
 * hosts as clients, like those of its own host: the agent on the process's host forwards all lines
 * between the process and the daemon over the *control channel*, a stream between coordinator and
 * agent (coordinator/clients.c, agent/clients.c). Therefore one daemon handles attaching, groups,
 * deaths, status and reports for the processes of all hosts.
 *
 * The fabrics of all hosts are *replicas* (apps/fabric/hosts.h, struct fabric_mirror): each has the
 * description of the whole network, but only the devices of its own part. When the coordinator
 * changes its replica, it sends the change to all other hosts. They make all changes in the order
 * in which the coordinator sends them.
 *
 * A host link carries the control channel. Both ends send JSON, one message per line. C is the
 * agent's number for a process:
 *
 *   to the coordinator  {"client":C,"new":PID,"command":NAME}   a process has connected
 *                       {"client":C,"line":{…}}                 its request
 *                       {"client":C,"taken":N}                  it has read N more bytes of text
 *                       {"client":C,"end":1}                    its connection has ended
 *                       {"client":C,"how":TEXT}                 how the process itself ended
 *                       {"client":C,"stopped":0|1}              1: it has been stopped for longer
 *                                                               than --bound stopped; 0: it runs
 *                                                               again
 *                       {"here":PID}                            the agent's first message: its pid
 *                       {"cut_off":NODE}                        the process of NODE does not read
 *                                                               its segments
 *                       {"link_lost":{"host":H,"number":I,"of":N}}
 *                                                               link I of the N links to host H
 *                                                               has ended
 *                       {"reply":N,"errno":E,…}                 reply to call N
 *                       {"reply":0,"sample":…}                  a piece of a sample (sample.c)
 *                       {"reply":0,"hit":N,"fault":ID}          fault ID took a link down and lost
 *                                                               N packets on the wire
 *                       {"failed":NAME,"errno":E}               a call without a reply failed
 *   to an agent         {"client":C,"line":{…}}                 a reply or an event for the process
 *                       {"client":C,"text":TEXT,"more":1}       a piece of a snapshot or a long
 *                                                               line; the last has no "more"
 *                       {"client":C,"end":1}                    close its connection
 *                       {"call":N,"do":NAME,…}                  call number N (tables in agent.c,
 *                                                               queries.c, faults.c, rejoin.c);
 *                                                               no reply is sent if N is 0
 */
#ifndef APPS_CLUSTER_HOSTS_H
#define APPS_CLUSTER_HOSTS_H

#include <stdint.h>

#define HOSTS_MAX 64u

/*
 * A host link of this host: it leads to @host, over pair @number of the @of pairs of ports that
 * connect the two hosts. Its *session* is the connection between its two ends.
 */
struct hosts_link {
    uint32_t host;
    uint32_t number;
    uint32_t of;
    int closed_fd; /* hangs up when the link's session ends; never read; borrowed */
};

/*
 * Kinds of samples. A sample contains the changes since the previous sample; agents send it on
 * request.
 */
enum hosts_sample_kind {
    HOSTS_SAMPLE_COUNTERS, /* counters, for telemetry_receive() */
    HOSTS_SAMPLE_FINISHED, /* finished operations of processes, for timeline_receive() */
    HOSTS_SAMPLE_KINDS
};

#endif
