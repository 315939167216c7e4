/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts.h - one fabric on several hosts: one of them governs (coordinator/coordinator.h), the
 * others obey (follower/follower.h).
 *
 * The governor's daemon is the daemon of the whole fabric. To it a process on another host is a
 * client like its own: the host there passes the client's lines on over the control channel
 * (coordinator.c, agent.c), so attaching, groups, deaths, status and reports are in one place,
 * and ask nobody where a process is. The fabrics of all hosts are replicas (apps/fabric/hosts.h,
 * struct fabric_mirror): what the governor does to its own it has all others do, each with its
 * devices, and goes on when all have done it.
 *
 * Both sides speak JSON, a line a message, over a stream that the host link carries:
 *
 *   to the governor   {"client":C,"new":PID,"command":NAME}   a process has connected
 *                     {"client":C,"line":{…}}                 its request
 *                     {"client":C,"taken":N}                  so many bytes of text more
 *                     {"client":C,"end":true}                 its connection has ended
 *                     {"client":C,"how":TEXT}                 how the process itself ended
 *                     {"client":C,"stopped":0|1}              it is stopped for too long; no more
 *                     {"here":PID}                            first of all, once
 *                     {"cut_off":NODE}                        its process takes no segments
 *                     {"link_lost":{"host":H,"number":I,"of":N}}   a host link to another ended
 *                     {"reply":N,"errno":E,…}                 to a call
 *                     {"reply":0,"sample":…}                  what it tells of its part (sample.c)
 *                     {"reply":0,"hit":N,"fault":ID}          a link that went down hit so many
 *                     {"failed":NAME,"errno":E}               to a call that nobody waits for
 *   from it           {"client":C,"line":{…}}                 a reply, or an event
 *                     {"client":C,"text":TEXT,"more":1}       a piece of a snapshot, or of what
 *                                                             is long; its last without "more"
 *                     {"client":C,"end":true}                 close its connection
 *                     {"call":N,"do":NAME,…}                  obey (agent.c, queries.c, faults.c
 *                                                             and rejoin.c have tables); 0: nobody
 *                                                             waits for it
 */
#ifndef APPS_CLUSTER_HOSTS_H
#define APPS_CLUSTER_HOSTS_H

#include <stdint.h>

#define HOSTS_MAX 64u

/* A host link, seen from one end: the pair of ports @number of @of that join it to @host. */
struct hosts_link {
    uint32_t host;
    uint32_t number;
    uint32_t of;
    /*
     * a socket whose other end is closed when the session ends; borrowed, nothing is read from it
     */
    int closed_fd;
};

/* What other hosts tell of their parts, piece by piece, whenever they are asked. */
enum hosts_sample_kind {
    HOSTS_SAMPLE_COUNTERS, /* counters, for telemetry_receive() */
    HOSTS_SAMPLE_FINISHED, /* what processes have finished, for timeline_receive() */
    HOSTS_SAMPLE_KINDS
};

#endif
