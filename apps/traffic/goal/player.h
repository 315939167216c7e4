/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * player.h - plays the operations of a GOAL file (docs/traffic.md) in simulated time (clock
 * virtual). Rank r is node r of the network.
 *
 * An operation is *ready* when its dependencies are satisfied. Each cpu of a rank starts its ready
 * operations one after the other, in the order in which they became ready; at the start this is
 * their order in the file. A calc occupies its cpu. A send or receive does not occupy the cpu, as
 * in a program that runs in simulated time. The latencies of the adapter are those of the profile.
 *
 * A message is sent as the adapter library sends it (nic/host/tx/request.c). If it has up to
 * GOAL_EAGER_BYTES, the node sends it at once, and the send is complete. For a longer message the
 * node sends RTS and waits for CTS, and the send is complete when FIN arrives. Messages of a pair
 * of ranks are matched in the order of their sends. As in MPI, a new receive gets the earliest
 * waiting message that matches, and a new message goes to the earliest waiting receive that
 * matches. A receive is complete GOAL_POLL_PS after its message is in memory: MPI polls once more,
 * and this poll, which finds nothing, takes that time.
 *
 * Nodes send and receive collectives in the network as the library does (coll.c). The values of
 * their vectors are all 0.
 *
 * Deviations from the library: a node sends its messages one after the other, and not in bursts of
 * 32 segments. The number of unacknowledged requests has no limit. A message of several segments is
 * matched only when all of them have arrived.
 */
#ifndef APPS_TRAFFIC_GOAL_PLAYER_H
#define APPS_TRAFFIC_GOAL_PLAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/fabric/fabric.h"
#include "apps/traffic/goal/goal.h"
#include "apps/traffic/workload/worker.h"

#define GOAL_EAGER_BYTES 8192u /* the default of the adapter library */
/* time of a poll that finds nothing, see nic/host/progress/simtime.c */
#define GOAL_POLL_PS 50000u

struct goal_node;

struct goal_list {
    uint32_t head, tail; /* GOAL_NONE: empty */
};

/* A collective at a rank. Owned by the worker of the rank. */
struct goal_coll {
    uint64_t first;    /* index of its first segment in the group's stream */
    uint64_t last_ps;  /* when its latest segment so far was complete */
    uint32_t op;       /* the operation */
    uint32_t segments; /* number of its segments */
    uint32_t sent;     /* segments that may leave, or have left */
    uint32_t done;     /* segments that are complete */
    uint32_t after;    /* operation of the group that this rank started next; GOAL_NONE: none */
};

/* A segment of a group that arrived before its operation started. */
struct goal_early {
    uint64_t at_ps; /* when it was in memory; 0: there is none */
    uint8_t kind, len, op, type;
};

/*
 * A membership in a group. Owned by the worker of the rank. The fields are those of the adapter
 * library's struct fabemu_group (nic/host/group/stream.c).
 */
struct goal_stream {
    uint32_t id;     /* the group's address in the network */
    uint32_t window; /* number of segments in two half windows, tokens included */
    uint64_t posted, cur, issued, done;
    bool back[2];
    uint32_t complete[2];
    struct goal_list ops; /* pending operations, in the order of their starts */
    uint32_t sending;     /* the first one that has segments to send; GOAL_NONE: none has */
    uint32_t latest;      /* the latest operation that has started; before that, the first one */
    uint32_t first;       /* the operation that started first; GOAL_NONE: none has started */
    /* segments that came early, by number modulo window; NULL: none can */
    struct goal_early *early;
};

/* The state of an operation. Owned by the worker of its rank. */
struct goal_state {
    /* number of dependencies that are not satisfied; or GOAL_STARTED, or GOAL_DONE */
    uint32_t waits;
    uint32_t next; /* next operation in the same list */
};
#define GOAL_STARTED (UINT32_MAX - 1)
#define GOAL_DONE    UINT32_MAX

/*
 * A message at one of its two ranks, or a part of a collective or membership (coll.c). Owned by the
 * worker of that rank. It is in at most one list: segments to send, arrivals, messages that no
 * receive has matched, or messages that wait for an earlier one.
 */
struct goal_item {
    /*
     * in the list of segments to send: the earliest time at which it can be sent; in another list:
     * when all of it was in memory; in no list: when its latest segment so far was in memory
     */
    uint64_t at_ps;
    uint32_t next, prev;
    uint32_t left; /* number of segments that were not sent yet, or that have not arrived yet */
    uint32_t recv; /* at the receiver: the receive that has matched the message, if any */
    uint8_t what;  /* enum goal_packet: the kind of packet that is sent, or that arrives */
};

/*
 * A message. The sender's worker writes this before the first segment, and the receiver's worker
 * reads it.
 */
struct goal_sent {
    uint64_t at_ps;  /* when the send started */
    uint32_t number; /* number of the message in its pair */
};

/* A pair of ranks. `sent` is owned by the sender's worker, the rest by the receiver's. */
struct goal_pair {
    uint32_t sent;     /* number of messages that were sent */
    uint32_t expected; /* number of the message that is matched next */
    uint32_t early;    /* list of later messages, by number; GOAL_NONE: empty */
};

/* Sums over the nodes of a worker. Only that worker writes them. */
struct goal_worker {
    struct traffic_stats latency; /* from the start of a send until its message is in memory */
    uint64_t done;                /* complete operations */
    uint64_t messages, bytes;     /* number and size of the messages that were received */
    uint64_t segments;            /* segments sent and received */
    bool fault;                   /* an operation of a node has failed, see goal_player_check() */
};

struct goal_player {
    struct fabric_node_ops ops; /* for fabric_config.local_nodes */
    const struct goal *goal;
    const struct emu_profile *profile;
    struct traffic_times times;
    uint32_t nodes; /* number of nodes of the network; at least goal->ranks */
    struct goal_node **node;
    struct goal_worker **worker; /* by index of the worker; NULL: it has no nodes */
    uint32_t workers;
    struct goal_state *state; /* by operation */
    /* by item number (node.h): all messages at their senders, then all at their receivers */
    struct goal_item *item;
    struct goal_sent *sent; /* by message */
    struct goal_pair *pair;
    struct goal_coll *coll;     /* by number of the collective */
    struct goal_stream *stream; /* by membership */
    uint32_t *group;            /* by group: its address in the network */
};

/**
 * goal_player_init - call before fabric_start(). @goal, @profile: borrowed.
 * Errors: -ENOMEM; goal_player_free() must be called even then.
 */
int goal_player_init(struct goal_player *player, const struct goal *goal, uint32_t nodes,
                     const struct emu_profile *profile);

/**
 * goal_coll_groups - create the groups in the network, after fabric_start(). Errors: those of
 * fabric_group_create(), with a line in @error.
 */
int goal_coll_groups(struct goal_player *player, struct fabric *fabric, char *error,
                     size_t error_bytes);

/** goal_player_free - call after fabric_stop(). */
void goal_player_free(struct goal_player *player);

/** goal_player_bytes - estimate the memory of the player and its nodes. Pure. */
uint64_t goal_player_bytes(const struct goal_player *player);

/* --- for the driver, while the workers are stopped ---------------------------------- */

/** goal_player_begin - start the operations without dependencies, at time 0. */
void goal_player_begin(struct goal_player *player);

/** goal_player_done - return the number of complete operations. */
uint64_t goal_player_done(const struct goal_player *player);

/** goal_player_moved - return a number that changes when an operation ends or a segment moves. */
uint64_t goal_player_moved(const struct goal_player *player);

/** goal_player_rests - return whether no rank does anything until another segment arrives. */
bool goal_player_rests(const struct goal_player *player);

/**
 * goal_player_agree - check that the ranks of each group have started the same collectives in the
 * same order. @complete: all operations are complete, so also check that their numbers are equal.
 * Errors: -EINVAL, with a line in @error.
 */
int goal_player_agree(const struct goal_player *player, bool complete, char *error,
                      size_t error_bytes);

/** goal_player_check - check for errors of operations. Errors: -EINVAL, with a line in @error. */
int goal_player_check(const struct goal_player *player, char *error, size_t error_bytes);

/**
 * goal_player_stuck - describe ranks whose operations are not all complete. If there are none,
 * describe ranks with messages that no receive has matched. Returns the number of these ranks.
 */
uint32_t goal_player_stuck(const struct goal_player *player, char *text, size_t bytes);

/* When a rank has finished, and how long it was blocked. */
struct goal_times {
    uint64_t finish_ps;  /* when its last operation was complete */
    uint64_t blocked_ps; /* time until then in which none of its cpus computed */
};
struct goal_times goal_player_times(const struct goal_player *player, uint32_t rank);

/**
 * goal_player_totals - set digest[n] to the digest of node n, for all nodes, and *sent and
 * *received to the sums of the nodes' segments.
 */
void goal_player_totals(const struct goal_player *player, uint64_t *digest, uint64_t *sent,
                        uint64_t *received);

#endif
