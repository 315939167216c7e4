/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * adapter.h - struct fabemu: all that an adapter is, part by part.
 *
 * One lock an adapter. Whoever holds it may step: an application thread that waits, or the
 * adapter's thread when none does. Everything here is under the lock but what says otherwise. Each
 * part names the files that move it: others read it at most. This header has no functions but
 * nic_gone(); each part's header has its own.
 *
 * Memory: no step waits for memory of a peer. What a peer can make this process hold is bounded by
 * NIC_ORDER_WINDOW early segments, NIC_EAGER_WINDOW bytes of charged messages, NIC_PARKED_MAX
 * messages (of all peers) to queues that are not open, NIC_SERVED_MAX transfers (likewise) and an
 * answer to each of its requests. Not bounded here, but by what the senders choose to send:
 * messages of one segment, and NIC_RTS, to an open queue whose application takes none. They are not
 * charged, as asking first would cost the receiver as much as the message.
 */
#ifndef NIC_ADAPTER_H
#define NIC_ADAPTER_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "emu/hostif/hostif.h"
#include "emu/hostif/pending.h"
#include "emu/packet/seg.h"
#include "emu/util/list.h"
#include "nic/fabemu.h"

#define NIC_GROUP_BUCKETS 256u
/* Of so many groups that broke and were left it is known that what still comes is late. */
#define NIC_BROKEN_GROUPS 1024u
/* Groups that others use before we join: as many as a fabric has. */
#define NIC_EARLY_GROUPS_MAX 1024u
#define NIC_MSG_POOLS        4
#define NIC_WHY_BYTES        128u /* of a line that says why something ended, or broke */
#define NIC_RING_RESERVE     64u  /* up slots that bulk data leaves to the rest */
#define NIC_LOOP_SLOTS       512u /* segments to this node itself; a power of two */

struct nic_control;
struct nic_early;
struct nic_peer;
struct nic_region;
struct nic_slot;
struct nic_thread;

/* Segments from this process to itself: they need no fabric. */
struct nic_loop {
    uint32_t head, tail; /* free-running */
    struct emu_seg seg[NIC_LOOP_SLOTS];
};

/* A short message that its caller offers again and again, for there is no room for it. */
struct nic_offer {
    bool made;       /* since the last look of progress/pending.c, */
    uint32_t node;   /* to there, */
    uint32_t tx_seq; /* and so many requests had gone there */
    uint64_t tag, bytes;
    uint64_t seen_ns; /* it was seen first; 0: it was not */
};

/* Counts of input that was dropped; tests read them, a debugger shows them. */
struct nic_counts {
    uint64_t malformed;     /* a field is out of range, or no such thing was expected */
    uint64_t stranger;      /* from or to a process that has been replaced */
    uint64_t out_of_window; /* a request number nobody may have sent yet, or a repeated one */
    uint64_t stale;         /* names a transfer that is over */
    uint64_t refused;       /* memory or a bound ran out */
    /* For a group, or a region of one, that is not here (any more) or broken. */
    uint64_t late;
    uint64_t given_up; /* segments of ours that the network gave up */
};

/* What the fabric's transport does for an adapter. life.c has one for each transport. */
struct nic_transport {
    bool reports_delivery; /* says of segments whether they were brought or given up */
    bool has_engine;       /* a link engine has words, conditionals and broadcast puts for groups */
};

struct fabemu {
    pthread_mutex_t lock;
    struct emu_hostif_nic edge;

    /* Written once, by life.c. */
    struct fabemu_info info;
    struct nic_transport transport;
    uint64_t life;              /* this process's seat: names it to its peers */
    uint32_t eager_bytes;       /* longest eager message */
    uint64_t send_ps;           /* from a post to the wire; 0 on clock raw */
    _Atomic uint64_t breaks;    /* with all peers: fabemu_breaks() */
    _Atomic uint64_t losses;    /* fabemu_losses() of all nodes */
    uint64_t hello_limit_ns;    /* a peer that does not answer for so long is unreachable */
    uint64_t vacant_limit_ns;   /* the same of a node that a process has left */
    uint64_t leave_limit_ns;    /* so long a detach waits at most, */
    uint64_t farewell_limit_ns; /* and so long for an answer alone */

    /* Looking after peers: peer/meet.c, peer/gone.c, progress/watch.c, api/leave.c. */
    uint64_t hello_scan_ns;    /* when the hellos are checked next */
    uint64_t hello_starved_ns; /* emu_hostif_nic_starved() at the last check */
    uint64_t hello_away_ns;    /* when time was last excluded for hellos */
    uint64_t watch_ns;         /* when to check next that awaited peers exist */
    uint64_t watch_gap_ns;
    bool leaving;                /* nothing new begins: leave.c */
    uint64_t bye_ns, bye_gap_ns; /* when the peers are asked again, and how long after that */
    uint64_t bye_began_ns;       /* when they were asked first */

    bool timed;        /* written once */
    bool apart;        /* likewise: no yield reaches the fabric, which is in another session */
    uint64_t now_ps;   /* fabric time of this step; clock raw is always at 0. lock.c's */
    _Atomic bool gone; /* forked child, or no fabric any more. Read without the lock */

    /* Peers, and what goes out to them: peer/, send/. */
    struct nic_peer *peers;     /* info.nodes of them */
    struct emu_list ready;      /* peers that have requests: tx/request.c */
    struct emu_list connecting; /* peers */
    struct emu_list bulk;       /* operations that stream: tx/bulk.c */
    struct emu_list ctls;       /* answers: tx/answer.c */
    uint32_t ctl_count;         /* hellos and acknowledgments among them */
    struct nic_loop *loop;      /* to ourselves; NULL until needed: tx/up.c */

    /* Operations: base/op.c. */
    struct nic_slot *slots; /* transfers by id; slot 0 is never used */
    uint32_t slot_count, slot_free, served;
    struct emu_list serving; /* free operations for serving peers */

    /* Messages: message/. */
    struct fabemu_queue **queues; /* by id */
    struct emu_list opened;       /* those that are open */
    uint32_t parked;              /* messages in queues that are not open */
    uint32_t queue_any;           /* the id that fabemu_queue_open_any() tries first */

    /* Memory: rx/region.c. */
    struct nic_region **regions; /* by low bits of the key */
    uint32_t region_count;
    struct nic_region *symmetric; /* those of groups */

    /* Events: base/complete.c. */
    struct emu_list events; /* open */
    struct emu_list fired;  /* of them, those on which something may be due */

    /* Free objects of receive.c, tx/answer.c, rx/message.c. */
    struct nic_early *early_free;
    struct emu_list ctl_free;
    struct emu_list msg_free[NIC_MSG_POOLS];

    /* Groups: group/. */
    struct fabemu_group *groups[NIC_GROUP_BUCKETS]; /* by id, chained */
    struct emu_list busy;                           /* groups that have something to send */
    /* Groups with words that their adapters do not have yet: tx/up.c. */
    struct emu_list setting;
    struct emu_list again; /* groups with conditionals that are to be asked again */
    uint64_t again_ns;     /* when they are */
    uint32_t early_groups;
    /* The last that were left after a member's death; a ring. */
    uint32_t broken_ids[NIC_BROKEN_GROUPS];
    uint32_t broken_count;          /* ever left so */
    char broken_why[NIC_WHY_BYTES]; /* of the group whose operations end now with -EPIPE */

    uint32_t completions; /* free-running */
    uint32_t completed;   /* of them, before this turn of the lock */
    bool locked;          /* does somebody hold the lock? For assertions */
    struct nic_counts counts;

    /* Read without the lock. */
    alignas(EMU_LINE) _Atomic uint32_t polls;     /* by the application; relaxed: a hint */
    _Atomic uint32_t steps;                       /* so far, modulo 2^32 */
    _Atomic uint32_t watched;                     /* steps and polls at the last nic_watch() */
    alignas(EMU_LINE) _Atomic uint32_t seen_tail; /* down ring: read up to here */
    _Atomic uint32_t sleepers;                    /* application threads in fabemu_wait()'s sleep */
    /* Something waits for room in the up ring: do not sleep. */
    _Atomic bool stalled;
    _Atomic bool calm; /* a step would do nothing but look at the down ring, endings, the clock */
    _Atomic uint32_t endings; /* of the edge's: looked at */

    /* Written by attach.c while nobody else knows the adapter. */
    struct nic_control *control; /* NULL in tests */
    struct nic_thread *thread;   /* NULL when switched off */

    /* The registry's in attach.c, under its lock. */
    struct fabemu *next;
    char *path;
    uint32_t refs;
    pid_t pid;

    /*
     * The part of all this that the fabric sees. Owner: progress/pending.c; of the clash:
     * group/stream.c; of the call: group/coll.c.
     */
    struct emu_pending pending;
    uint64_t pending_moved; /* what grows with all that moves, and */
    uint32_t pending_polls; /* polls: both at the last look */
    struct nic_offer offer; /* api/message.c */
};

/**
 * nic_gone - has this process no fabric, or is it a forked child? Then even the lock is not to be
 * touched.
 */
static inline bool nic_gone(const struct fabemu *fab)
{
    return atomic_load_explicit(&fab->gone, memory_order_relaxed);
}

#endif
