/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * adapter.h - struct fabemu: the state of an adapter.
 *
 * There is one lock per adapter. The thread that holds it may step the adapter: an application
 * thread that waits, or the adapter's thread when none does. All fields are protected by the lock
 * unless their comment says otherwise. Each group of fields names the files that change it; others
 * only read it.
 *
 * Memory: no step waits for memory of a peer. A peer can make this process hold at most
 * NIC_ORDER_WINDOW early segments, NIC_EAGER_WINDOW bytes of charged messages, and an answer to
 * each of its requests; all peers together, NIC_PARKED_MAX messages to queues that are not open and
 * NIC_SERVED_MAX transfers. Not bounded here are messages of one segment, and NIC_RTS, to an open
 * queue from which the application receives nothing: only the senders limit these. They are not
 * charged because a query before each would cost the receiver as much as the message.
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
/* Number of broken groups that were left and whose late segments are still recognised. */
#define NIC_BROKEN_GROUPS 1024u
/* Groups whose segments arrive before we join: as many as a fabric can have. */
#define NIC_EARLY_GROUPS_MAX 1024u
#define NIC_MSG_POOLS        4
#define NIC_WHY_BYTES        128u /* a line that says why something ended or broke */
#define NIC_RING_RESERVE     64u  /* up ring slots that bulk data leaves free for other segments */
#define NIC_LOOP_SLOTS       512u /* segments from this process to itself; a power of two */

struct nic_control;
struct nic_early;
struct nic_peer;
struct nic_region;
struct nic_slot;
struct nic_thread;

/* Segments from this process to itself, which bypass the fabric. */
struct nic_loop {
    uint32_t head, tail; /* free-running */
    struct emu_seg seg[NIC_LOOP_SLOTS];
};

/* A short message that fabemu_inject() refuses for lack of space, and that the caller retries. */
struct nic_offer {
    bool made;             /* tried again since progress/pending.c sampled it last */
    uint32_t node, tx_seq; /* the destination, and the number of requests sent there before */
    uint64_t tag, bytes;
    uint64_t seen_ns; /* when it was first sampled; 0: never */
};

/* Counts of dropped input; tests read them. */
struct nic_counts {
    uint64_t malformed;     /* a field is out of range, or nothing of the kind was expected */
    uint64_t stranger;      /* from or to a process that has been replaced */
    uint64_t out_of_window; /* a request number nobody may have sent yet, or a repeated one */
    uint64_t stale;         /* names a transfer that has ended */
    uint64_t refused;       /* out of memory, or a limit was reached */
    /* for a group, or a region of one, that is not joined, has been left, or is broken */
    uint64_t late;
    uint64_t given_up; /* segments of ours that the network dropped for good */
};

/* What the fabric's transport offers; open.c has one for each transport. */
struct nic_transport {
    /* the network reports for a segment whether it was delivered or dropped */
    bool reports_delivery;
    bool has_engine; /* link engines provide words, conditionals and broadcast puts */
};

struct fabemu {
    pthread_mutex_t lock;
    struct emu_hostif_nic hostif;

    /* Written once, by open.c. */
    struct fabemu_info info;
    struct nic_transport transport;
    /* this process's incarnation number: identifies it to its peers */
    uint64_t incarnation;
    uint32_t eager_bytes;       /* longest eager message */
    uint64_t send_ps;           /* from a post to the wire; 0 on clock raw */
    _Atomic uint64_t breaks;    /* fabemu_breaks() for all nodes */
    _Atomic uint64_t drops;     /* fabemu_drops() for all nodes */
    uint64_t hello_limit_ns;    /* a peer that does not answer for this long is unreachable */
    uint64_t vacant_limit_ns;   /* the same for a node whose process has left */
    uint64_t leave_limit_ns;    /* a detach takes at most this long, */
    uint64_t farewell_limit_ns; /* and waits this long for a peer that has confirmed everything */

    /* Watching peers: peer/handshake.c, peer/failure.c, progress/watch.c, api/leave.c. */
    uint64_t hello_scan_ns;    /* when the hellos are checked next */
    uint64_t hello_starved_ns; /* emu_hostif_nic_starved() at the last check */
    uint64_t hello_away_ns;    /* when time was last excluded for hellos */
    uint64_t watch_ns;         /* when to check next that awaited peers exist */
    uint64_t watch_gap_ns;     /* between two such checks */
    bool leaving;              /* no new operations: api/leave.c */
    /* when to query the peers again, and the interval after that */
    uint64_t disconnect_ns, disconnect_gap_ns;
    uint64_t disconnect_began_ns; /* when they were queried first */

    bool timed; /* written once: the clock has times */
    bool apart; /* written once: the fabric is in another session, so a yield does not reach it */
    uint64_t now_ps;      /* fabric time of this step, set by base/lock.c; always 0 on clock raw */
    _Atomic bool defunct; /* a forked child, or the fabric is gone. Read without the lock */

    /* Peers, and segments to them: peer/, tx/. */
    struct nic_peer *peers;     /* info.nodes of them */
    struct emu_list ready;      /* peers with requests to send: tx/request.c */
    struct emu_list connecting; /* peers to which we are connecting */
    struct emu_list bulk;       /* operations that stream data: tx/bulk.c */
    struct emu_list ctls;       /* answers that wait for space: tx/answer.c */
    uint32_t ctl_count;         /* hellos and acknowledgments among them */
    struct nic_loop *loop;      /* to ourselves; NULL until needed: tx/up.c */

    /* Operations: base/op.c. */
    struct nic_slot *slots; /* transfers by id; slot 0 is never used */
    uint32_t slot_count, slot_free, served;
    struct emu_list serving; /* free operations for serving peers */

    /* Messages: rx/. */
    struct fabemu_queue **queues; /* by id */
    struct emu_list opened;       /* the open ones */
    uint32_t parked;              /* messages in queues that are not open */
    uint32_t queue_any;           /* the id that fabemu_queue_open_any() tries first */

    /* Memory: rx/region.c. */
    struct nic_region **regions; /* by low bits of the key */
    uint32_t region_count;
    struct nic_region *symmetric; /* regions of groups */

    /* Events: base/complete.c. */
    struct emu_list events; /* all open ones */
    struct emu_list fired;  /* those with armed operations that may be due */

    /* Free objects of receive.c, tx/answer.c, rx/message.c. */
    struct nic_early *early_free;
    struct emu_list ctl_free;
    struct emu_list msg_free[NIC_MSG_POOLS];

    /* Groups: group/. */
    struct fabemu_group *groups[NIC_GROUP_BUCKETS]; /* by id, chained */
    struct emu_list busy;                           /* groups with something to send */
    /* groups with words that their link engines do not have yet: tx/up.c */
    struct emu_list setting;
    struct emu_list again; /* groups with conditionals to test again, */
    uint64_t again_ns;     /* and when */
    uint32_t early_groups;
    /* the last groups that were left broken; a ring */
    uint32_t broken_ids[NIC_BROKEN_GROUPS];
    uint32_t broken_count;          /* number ever entered into that ring */
    char broken_why[NIC_WHY_BYTES]; /* of the group whose operations are being ended with -EPIPE */

    uint32_t completions; /* free-running */
    uint32_t completed;   /* value of completions when the lock was last released */
    bool locked;          /* for assertions */
    struct nic_counts counts;

    /* Read without the lock. */
    alignas(EMU_LINE) _Atomic uint32_t polls;     /* by the application; relaxed: a hint */
    _Atomic uint32_t steps;                       /* number of steps, modulo 2^32 */
    _Atomic uint32_t watched;                     /* steps and polls at the last nic_watch() */
    alignas(EMU_LINE) _Atomic uint32_t seen_tail; /* down ring: read up to here */
    _Atomic uint32_t sleepers; /* application threads that sleep in fabemu_wait() */
    /* something waits for space in the up ring: do not sleep */
    _Atomic bool stalled;
    _Atomic bool calm; /* a step would only check the down ring, the endings and the clock */
    /* value of the host interface's count of ended processes that was handled last */
    _Atomic uint32_t endings;

    /* Written by attach.c before anybody else knows the adapter. */
    struct nic_control *control; /* NULL in tests */
    struct nic_thread *thread;   /* NULL when disabled */

    /* Of the list of adapters in attach.c, under its lock. */
    struct fabemu *next;
    char *path;
    uint32_t refs;
    pid_t pid;

    /*
     * Copy of what the fabric sees of this adapter's pending operations. Written by
     * progress/pending.c; the mismatch by group/stream.c; the call by group/coll.c.
     */
    struct emu_pending pending;
    uint64_t pending_moved; /* at the last sample: a sum that grows with all progress, */
    uint32_t pending_polls; /* and polls */
    struct nic_offer offer; /* written by api/message.c */
};

/**
 * nic_is_defunct - is this a forked child, or is the fabric gone? Then not even the lock may be
 * used.
 */
static inline bool nic_is_defunct(const struct fabemu *fab)
{
    return atomic_load_explicit(&fab->defunct, memory_order_relaxed);
}

#endif
