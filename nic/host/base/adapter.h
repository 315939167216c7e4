/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * adapter.h - struct fabemu: the state of an adapter.
 *
 * There is one lock per adapter. The thread that holds it may step the adapter. Application threads
 * do so while they wait. If none does, the adapter's own thread does. All fields are protected by
 * the lock unless their comment says otherwise. The heading of each group of fields names the files
 * that change them; other files only read them. The host interface has an *up ring* to the fabric
 * and a *down ring* from it. A *hello* is a segment by which two processes handshake
 * (peer/handshake.c).
 *
 * Memory: no step waits until a peer frees memory. The memory that others can make this process
 * hold is limited. For each peer: NIC_ORDER_WINDOW segments that arrived out of order,
 * NIC_EAGER_WINDOW bytes of charged messages (eager messages longer than one segment), and an
 * answer to each of its requests. For all peers together: NIC_PARKED_MAX messages to queues that
 * are not open, and NIC_SERVED_MAX transfers. If the application receives nothing from an open
 * queue, only the senders limit how many messages of one segment and how many announcements of long
 * messages (NIC_RTS) the queue holds. Messages of one segment are not charged, because asking for
 * permission before each would cost the receiver as much as the message itself.
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
#include "emu/util/now.h"
#include "emu/util/random.h"
#include "nic/clock.h"
#include "nic/fabemu.h"
#include "nic/host/base/base.h"

#define NIC_GROUP_BUCKETS 256u
/*
 * maximum number of kept ids of groups that were broken when this process left them; by these it
 * recognises late segments
 */
#define NIC_BROKEN_GROUPS 1024u
/* maximum number of groups that may send segments before this process joins them */
#define NIC_EARLY_GROUPS_MAX 1024u
#define NIC_MSG_POOLS        4
/* size of a line with the reason why an operation ended or a group broke */
#define NIC_WHY_BYTES 128u
/* slots of the up ring that bulk data leaves free for other segments */
#define NIC_RING_RESERVE 64u
#define NIC_LOOP_SLOTS   512u /* segments from this process to itself; a power of two */

struct nic_control;
struct nic_early;
struct nic_peer;
struct nic_region;
struct nic_slot;
struct nic_tape;
struct nic_thread;

/* Queue of segments from this process to itself, which bypass the fabric. */
struct nic_loop {
    uint32_t head, tail; /* free-running */
    struct emu_seg seg[NIC_LOOP_SLOTS];
};

/* A short message that fabemu_inject() could not send at once. The caller may call again. */
struct nic_offer {
    /* the caller has called again since progress/pending.c last sampled the message */
    bool made;
    /* the destination; number of requests that had been sent there before the call */
    uint32_t node, tx_seq;
    uint64_t tag, bytes;
    uint64_t seen_ns; /* when the message was first sampled; 0: never */
};

/* The last probe that found no message. */
struct nic_probe {
    bool made;     /* it was made after progress/pending.c last sampled it */
    uint32_t node; /* or FABEMU_ANY_NODE */
    uint64_t tag, ignore;
    uint64_t seen_ns; /* when it was first sampled; 0: never */
};

/* The action of another process for which the program waits: fabemu_awaits(). */
struct nic_awaited {
    bool waits;
    struct fabemu_awaited what;
    uint64_t checks;  /* sum of fabemu_awaited.checks over all calls of fabemu_awaits() */
    uint64_t seen_ns; /* when the wait was first sampled; 0: never */
};

/* Counts of dropped input; tests read them. */
struct nic_counts {
    uint64_t malformed; /* a field was out of range, or a segment of this kind was not expected */
    /* the segment came from, or was for, a process that another one has replaced */
    uint64_t wrong_incarnation;
    /* the request's number was a repeated one, or was too high to have been sent yet */
    uint64_t out_of_window;
    uint64_t stale;   /* the segment names a transfer that has ended */
    uint64_t refused; /* this process was out of memory or had reached a limit */
    uint64_t closed;  /* the message was for a queue that has closed or is broken */
    /* the segment was for a group, or a region of a group, that is not joined, has been left, or is
       broken */
    uint64_t late;
    uint64_t given_up; /* the network dropped one of our segments for good */
};

/* Properties of the fabric's transport; open.c has an entry for each transport. */
struct nic_transport {
    /* the network reports each segment that it drops and, on request, each that it delivers */
    bool reports_delivery;
    bool has_engine; /* link engines provide words, conditionals and broadcast puts */
};

/*
 * Clock virtual: the time that the program computes (base/compute.c). Only the owner's thread uses
 * this.
 */
struct nic_compute {
    uint64_t work_at_return; /* work() when the thread's last call ended */
    int counter;           /* descriptor that counts the thread's instructions; -1: use CPU time */
    uint64_t uncounted;    /* work of the thread that does not count yet */
    uint64_t pending_ns;   /* recording: time that has passed and is not recorded yet */
    struct nic_tape *tape; /* the calls that are recorded or replayed; NULL: none */
    bool replays;
    int rank;                 /* rank of this process in its MPI job; -1: none */
    bool began;               /* simulated time had begun when the last call began */
    bool polled;              /* the last call was a poll, and time had begun before it */
    bool testing;             /* the thread is in a call such as MPI_Test: fabemu_testing() */
    enum emu_call_class last; /* class of the last call that posted an operation */
    uint64_t seen;            /* nic_sim.completed at the last nic_sim_progress() */
    /* time in polls, and in polls and sleeps, since the last post or completion */
    uint64_t polling_ps, idle_ps;
    uint64_t polls, readings; /* counts since the last call that was recorded or replayed */
};

struct nic_trace;

/* Clock virtual: how this process's local time advances (progress/simtime.c). */
struct nic_sim {
    struct fabemu_clock clock; /* the clock that the program sees */
    pthread_t owner;           /* the thread that sleeps in simulated time, and pays for calls */
    /*
     * number of nested sections in which the owner is now: nic_sim_enter(). Thread: owner, and its
     * signal handlers
     */
    _Atomic uint32_t sections;
    /* let time pass, and handle segments when they arrive. Lock: not held */
    void (*pass)(struct fabemu *fab, uint64_t ps);
    struct nic_compute compute;
    struct nic_trace *trace; /* --goal; NULL: none. Lock: held */
    pthread_mutex_t turn;    /* one thread polls or waits at a time; taken before the lock */
    _Atomic uint32_t empty;  /* polls in a row that found nothing, without tests */
    /*
     * polls in tests (fabemu_testing()) that found nothing, since the program last computed.
     * Thread: owner
     */
    uint32_t tests;
    /* how often other threads have read the clock since the owner's last call or any poll */
    _Atomic uint32_t elsewhere;
    _Atomic uint64_t completed; /* number of completed requests; written with the lock */
};

struct fabemu {
    pthread_mutex_t lock;
    struct emu_hostif_nic hostif;

    /* Written once, by open.c. */
    struct fabemu_info info;
    struct nic_transport transport;
    /* this process's incarnation number: identifies it to its peers */
    uint64_t incarnation;
    uint32_t eager_bytes; /* size of the longest eager message */
    /* emulated time from a post to the wire; always 0 on clock raw */
    uint64_t send_ps;
    _Atomic uint64_t breaks;     /* fabemu_breaks() for all nodes */
    _Atomic uint64_t drops;      /* fabemu_drops() for all nodes */
    uint64_t hello_limit_ns;     /* a peer that does not answer for this long is unreachable */
    uint64_t successor_limit_ns; /* as hello_limit_ns, for a node whose process has left */
    uint64_t leave_limit_ns;     /* upper limit on the duration of a detach */
    /* how long a detach waits for a peer that has confirmed everything but does not answer */
    uint64_t farewell_limit_ns;

    /* Watching peers: peer/handshake.c, peer/failure.c, progress/watch.c, api/leave.c. */
    uint64_t hello_scan_ns; /* when the pending hellos are checked next */
    /* emu_hostif_nic_starved() at the last check of the hellos */
    uint64_t hello_starved_ns;
    /* when the time without a core was last excluded from the waiting times of hellos */
    uint64_t hello_away_ns;
    /* when to check next that the peers for which an operation waits still exist */
    uint64_t watch_ns;
    uint64_t watch_gap_ns; /* interval between two such checks */
    /* api/leave.c: this process detaches and accepts no new operations */
    bool leaving;
    /* when to send NIC_DISCONNECT_ASK to the peers again, and the interval after that */
    uint64_t disconnect_ns, disconnect_gap_ns;
    /* when this process first sent NIC_DISCONNECT_ASK to its peers, by nic_disconnect_now_ns() */
    uint64_t disconnect_began_ns;

    bool timed;         /* written once: the clock is real or virtual, not raw */
    bool simulated;     /* written once: the clock is virtual */
    struct nic_sim sim; /* clock virtual */
    /* written once: the environment has set the traffic class (api/attach.c) */
    bool tclass_given;
    /* written once: the fabric is in another session (setsid(2)), so a yield does not let it run */
    bool other_session;
    uint64_t now_ps; /* fabric time of this step, set by base/lock.c; always 0 on clock raw */
    /* this process is a forked child, or nic_sim_end() is running. Read without the lock */
    _Atomic bool defunct;

    /* Peers, and segments to them: peer/, tx/. */
    struct nic_peer *peers;     /* array of info.nodes peers, by node */
    struct emu_list ready;      /* peers with requests to send: tx/request.c */
    struct emu_list connecting; /* peers to which we are connecting */
    struct emu_list bulk;       /* operations that stream data: tx/bulk.c */
    struct emu_list ctls;       /* answers that wait for space: tx/answer.c */
    /* how many of ctls may be dropped: hellos, acknowledgments and disconnects */
    uint32_t ctl_count;
    struct nic_loop *loop; /* segments to this process itself; NULL until needed: tx/up.c */

    /* Operations: base/op.c. */
    struct nic_slot *slots; /* operations with an id; slot 0 is never used */
    uint32_t slot_count, slot_free, served;
    struct emu_list serving; /* unused struct nic_serve */

    /* Messages: rx/. */
    struct fabemu_queue **queues; /* by id; NULL: no such queue */
    /* by id: the queue has closed, so messages for it are refused. Never set for a queue that
       several parts of the process use, because another part may open it again */
    bool *retired;
    struct emu_list opened; /* the open queues */
    uint32_t queue_any;     /* the id that fabemu_queue_open_any() tries first */

    /* Memory: rx/region.c. */
    struct nic_region **regions; /* table of regions, by the low bits of their keys */
    uint32_t region_count;
    struct nic_region *symmetric; /* list of the symmetric regions of groups */
    void *chosen;                 /* tree (tsearch) of the regions with chosen keys */
    /* group/memory.c: a bit per word of the host interface's memory, set if it is allocated */
    uint64_t words_used[EMU_MEMORY_WORDS / 64];

    /* Traps: base/trap.c. */
    struct fabemu_trap trap;         /* the last one, and the number of all */
    struct fabemu_event *trap_event; /* counts the traps; NULL: none */

    /* Events: base/complete.c. */
    struct emu_list events; /* all open events */
    struct emu_list fired;  /* events with armed operations that may be due */

    /* Unused objects of progress/receive.c, tx/answer.c and rx/message.c. */
    struct nic_early *early_free;
    struct emu_list ctl_free;
    struct emu_list msg_free[NIC_MSG_POOLS];

    /* Groups: group/. */
    struct fabemu_group *groups[NIC_GROUP_BUCKETS]; /* hash table by id */
    struct emu_list busy;                           /* groups that have segments to send */
    /* groups with words that their link engines have not received yet: tx/up.c */
    struct emu_list setting;
    struct emu_list again; /* groups with conditionals that must be sent again */
    uint64_t again_ns;     /* when to send these conditionals again */
    uint32_t early_groups;
    /* ids of the groups that were already broken when this process left them; a ring */
    uint32_t broken_ids[NIC_BROKEN_GROUPS];
    uint32_t broken_count; /* number of ids ever entered into broken_ids */
    /* the reason why a group broke, while its operations are ended with -EPIPE */
    char broken_why[NIC_WHY_BYTES];

    uint32_t completions; /* number of completed requests, free-running */
    uint32_t completed;   /* value of completions when the lock was last released */
    bool locked;          /* read by assertions */
    struct nic_counts counts;

    /* Read without the lock. */
    /* number of polls by the application; relaxed, because it is only a hint */
    alignas(EMU_LINE) _Atomic uint32_t polls;
    _Atomic uint32_t steps; /* number of steps, modulo 2^32 */
    /* steps + polls when nic_watch() was last called */
    _Atomic uint32_t watched;
    /* slots of the down ring up to this position have been read */
    alignas(EMU_LINE) _Atomic uint32_t seen_tail;
    _Atomic uint32_t sleepers; /* application threads that sleep in fabemu_wait() */
    /* a segment waits for space in the up ring, so a sleep must be short */
    _Atomic bool stalled;
    /* a step would only look for segments, due times and ended processes */
    _Atomic bool nothing_pending;
    /* emu_hostif_nic_endings() when this adapter last handled the ends of processes */
    _Atomic uint32_t endings;

    /* Written by api/attach.c before any other thread knows the adapter. */
    struct nic_control *control; /* NULL in tests */
    struct nic_thread *thread;   /* NULL if FABEMU_ADAPTER_THREAD is 0 */

    /* Fields for the list of adapters in api/attach.c, protected by its lock. */
    struct fabemu *next;
    char *path;
    uint32_t refs;
    pid_t pid;

    /*
     * This adapter's pending operations, as last copied to the fabric. Written by
     * progress/pending.c, except the mismatch (group/stream.c) and the call (group/coll.c).
     */
    struct emu_pending pending;
    uint64_t pending_moved;   /* measure of progress at the last sample (progress/pending.c) */
    uint32_t pending_polls;   /* value of polls at the last sample */
    bool (*finalizing)(void); /* fabemu_finalizing(); may be NULL */
    int rank; /* rank in the MPI job, set while the process attaches; -1: not an MPI process */
    struct nic_offer offer; /* written by api/message.c */
    struct nic_probe probe; /* written by api/message.c */
    struct nic_awaited awaited;
};

/**
 * nic_is_defunct - return whether this process is a forked child, which may not even use the lock.
 * Also true while nic_sim_end() ends the waits of other threads.
 */
static inline bool nic_is_defunct(const struct fabemu *fab)
{
    return atomic_load_explicit(&fab->defunct, memory_order_relaxed);
}

/** nic_now_ns - the time of protocol timers: the host's, or on clock virtual the local time. */
static inline uint64_t nic_now_ns(const struct fabemu *fab)
{
    const _Atomic uint64_t *now_ps = &fab->hostif.shared->sim.now_ps;

    return fab->simulated ? atomic_load_explicit(now_ps, memory_order_relaxed) / 1000u
                          : emu_now_ns();
}

/** nic_random_of - a random number; on clock virtual one that depends on node and time only. */
static inline uint64_t nic_random_of(const struct fabemu *fab)
{
    return fab->simulated ? emu_spread(nic_now_ns(fab) + ((uint64_t)fab->info.node << 44))
                          : nic_random();
}

/** nic_ready - clock virtual: tell the fabric that simulated time may begin for this process. */
static inline void nic_ready(struct fabemu *fab)
{
    if (fab->simulated)
        atomic_store_explicit(&fab->hostif.shared->sim.ready, 1, memory_order_relaxed);
}

#endif
