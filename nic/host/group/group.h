/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.h - the groups of this process: their table, and functions that several files of this
 * folder share.
 *
 * The collectives of a group form one *stream* of numbered segments (stream.c). Words, conditionals
 * and broadcast puts are outside the stream. Of the fields below, stream.c changes those of the
 * stream, word.c those of words and conditionals, broadcast.c those of broadcast puts, and break.c
 * those of alarms and probes (defined in break.h). Lock: held, except for nic_group_check().
 */
#ifndef NIC_GROUP_H
#define NIC_GROUP_H

#include "nic/host/base/complete.h"
#include "nic/host/tx/up.h"

#define NIC_GROUP_BURST 128u /* segments per group and burst */

/* A collective operation, in req->opaque. */
struct nic_coll {
    struct nic_post post; /* linked in the armed list of its event, or in the group's ops */
    struct fabemu_group *group;
    /* this member's contribution, or the root's data to broadcast; NULL: none */
    const uint8_t *in;
    uint8_t *out; /* where to store the result; NULL: it is not stored */
    uint64_t bytes;
    uint64_t first; /* number of its first segment in the stream */
    uint64_t segs;
    uint64_t sent;     /* segments written to the ring to the fabric */
    uint64_t done;     /* segments that are complete here */
    uint64_t began_ns; /* when it was posted, if @timed; may be 0 on clock virtual */
    uint32_t root;     /* node of the root, for kinds that have one */
    uint32_t step;     /* payload bytes of every segment but the last */
    int32_t status;    /* the status with which it will complete */
    uint8_t kind;      /* enum emu_kind */
    uint8_t op, type;
    bool sends;   /* this member sends segments: it contributes, or is the root of a broadcast */
    bool awaits;  /* this member gets the result */
    bool counted; /* the report counts it: the application posted it, and it is in the stream */
    bool timed;   /* its duration is measured, or reported to the fabric */
    struct emu_comm_draw draw;

    /* The next fields are for fabemu_register_symmetric(). */
    /* called at the end in place of nic_complete(), or NULL */
    void (*ended)(struct fabemu_group *g, struct nic_coll *c);
    struct nic_region *region; /* the region to be registered */
    uint64_t *key;             /* where the region's key is stored */
    /* operand of the reduction with MAX by which the members agree on a key, and check that they
       have the same size: a key, bytes, ~bytes (its maximum gives the smallest size) */
    uint64_t agree[3];
} __attribute__((may_alias));
static_assert(sizeof(struct nic_coll) <= sizeof(((struct fabemu_req *)0)->opaque), "fits");

enum nic_alarm {
    NIC_ALARM_NONE, /* nothing to send, or all members have received it */
    NIC_ALARM_DUE,  /* must be sent */
    NIC_ALARM_SENT, /* in flight */
    NIC_ALARM_LOST  /* the network dropped it; nic_group_watch() sends it again */
};

/* how many of its latest operations a group remembers, to report mismatches */
#define NIC_GROUP_RECENT 4u

/* A remembered operation, for the report that members have called different operations. */
struct nic_recent {
    uint64_t first; /* number of its first segment in the stream */
    uint32_t root;
    uint8_t kind, op, type;
};

/* At most this many half windows may have tokens in flight to a member. */
#define NIC_TOKENS 2u

struct fabemu_group {
    struct fabemu *fab;
    struct fabemu_group *next; /* next group in the hash bucket */
    struct emu_list busy;      /* entry in fab->busy, if the group has segments to send */
    uint32_t id;
    uint32_t members;
    bool joined;  /* false: the group only keeps segments that arrived before the join */
    bool joining; /* a join waits for the fabric's reply */
    int broken;   /* 0, or -EPIPE if the group is broken */
    /* node of the member whose death broke the group. FABEMU_ANY_NODE here and in the next three:
       no such member */
    uint32_t lost;
    uint32_t gave_up;     /* node of the member whose segment the network dropped for good */
    uint32_t broke_off;   /* node of the member that has broken the group */
    uint32_t partitioned; /* node of the member that cannot be reached any more */
    /* why the group broke, as the fabric reports it; written once, before has_why is set */
    char why[NIC_WHY_BYTES];
    _Atomic bool has_why; /* read without the lock */
    uint8_t alarm;        /* enum nic_alarm */
    bool probing;         /* a probe is in flight */
    uint64_t probe_ns;    /* when the next probe may be sent */
    struct emu_list ops;  /* pending collectives, in stream order */
    /* the first collective with segments that are not bound; see stream.c */
    struct nic_coll *binding;
    struct nic_coll *sending;   /* the first collective that has segments to send */
    uint64_t posted;            /* segments of all collectives posted so far */
    uint64_t begun;             /* number of collectives posted so far */
    uint64_t bound;             /* number of segments bound so far */
    uint64_t cur, issued, done; /* counts of half windows: see stream.c */
    /* the token of a half window has returned and is not counted in `done` yet; by half window
       modulo NIC_TOKENS */
    bool token_back[NIC_TOKENS];
    /* number of complete segments in half windows cur and cur + 1; by half window modulo 2 */
    uint32_t complete[2];
    uint32_t window; /* numbers in a window, which is two half windows; a power of two */
    /* the operation of each bound segment that is not complete; by number modulo window */
    struct nic_coll **owner;
    /* segments that arrived early, by number modulo window; NULL until needed */
    struct emu_seg *reorder_buf;
    /* reorder_buf contains a segment; by number modulo window */
    bool *reorder_used;
    uint32_t reorder_count; /* number of segments in reorder_buf */

    struct nic_recent recent[NIC_GROUP_RECENT]; /* the latest operations, in a ring */
    /* operations started, by kind and size, modulo 2^32; decides which operations are timed */
    uint32_t calls[EMU_COMM_KINDS][EMU_COMM_SIZES];

    /* For progress/pending.c. */
    char name[EMU_PENDING_NAME];
    /* the oldest pending operation at the last sample: 1 + number of its first segment */
    uint64_t seen;
    uint64_t seen_ns; /* when that operation was first sampled */

    /* Words and conditionals. */
    struct nic_words words; /* this member's own words */
    struct emu_list unsent; /* conditionals to send */
    /* conditionals that wait in the link engine; in a group of one member, all that are pending */
    struct emu_list in_engine;
    struct emu_list again;       /* conditionals for which the link engine had no free slot */
    struct emu_list backing_off; /* entry in fab->again, while `again` is not empty */

    /* Broadcast puts. */
    struct emu_list broadcasts; /* pending broadcast puts, in post order */
    uint32_t broadcast_out;     /* number of their segments in flight */
};

/** nic_group_make - add a group that is not joined yet to the table. NULL: out of memory. */
struct fabemu_group *nic_group_make(struct fabemu *fab, uint32_t id);
/**
 * nic_group_early - create a group that keeps segments that arrive before this process joins it.
 * NULL: there are too many such groups, the group was broken, or there is no memory.
 */
struct fabemu_group *nic_group_early(struct fabemu *fab, uint32_t id);
/**
 * nic_group_request_break - ask the fabric to notify the other members that the group is broken.
 * Waits for the fabric's reply. Lock: none.
 */
void nic_group_request_break(const struct fabemu_group *g);
/**
 * nic_group_status - return 0, or -EPIPE if the group is broken. In the second case, also copy the
 * reason to fab->broken_why, from where requests that complete get it (fabemu_req_why()).
 */
int nic_group_status(struct fabemu_group *g);
/** nic_group_end_ops - end the operations that are not part of the stream. */
void nic_group_end_ops(struct fabemu_group *g, int status);
/**
 * nic_group_leave - free the group. If it was broken, remember its id, so that late segments are
 * not kept for the next group with this id.
 */
void nic_group_leave(struct fabemu_group *g);
/** nic_group_drop_early - free a group that this process has not joined. */
void nic_group_drop_early(struct fabemu_group *g);
/**
 * nic_group_forget_broken - forget that group @id was broken, because this process has joined a new
 * group with this id.
 */
void nic_group_forget_broken(struct fabemu *fab, uint32_t id);
/**
 * nic_group_remember_broken - note that group @id is broken, so that its segments are counted as
 * late.
 */
void nic_group_remember_broken(struct fabemu *fab, uint32_t id);
/**
 * nic_group_check - check that words, conditionals and broadcast puts may be used. Errors:
 * -EOPNOTSUPP, -ENOTCONN, -EINVAL.
 */
int nic_group_check(const struct fabemu_group *g, const struct fabemu_req *req);
void nic_group_release(struct fabemu *fab);

static inline struct fabemu_group *nic_group_find(const struct fabemu *fab, uint32_t id)
{
    struct fabemu_group *g = fab->groups[id % NIC_GROUP_BUCKETS];

    while (g && g->id != id)
        g = g->next;
    return g;
}

/**
 * nic_group_may_be_early - return whether a segment with this header can arrive before this member
 * has started the operation or joined the group. Data of other members can, but a result cannot,
 * because it needs this member's contribution.
 */
static inline bool nic_group_may_be_early(const struct emu_hdr *hdr)
{
    return hdr->kind == EMU_MULTICAST || hdr->kind == EMU_REDUCE;
}

static inline struct emu_hdr nic_group_hdr(const struct fabemu_group *g, uint8_t kind, uint64_t seq)
{
    return (
        struct emu_hdr){.dst = g->id, .src = g->fab->info.node, .seq = (uint32_t)seq, .kind = kind};
}

/** nic_group_claim - return a slot for a segment of the group, with its header; NULL: no space. */
static inline struct emu_seg *nic_group_claim(struct fabemu_group *g, uint8_t kind, uint64_t seq)
{
    struct emu_seg *seg = nic_claim_up(g->fab);

    if (seg)
        seg->hdr = nic_group_hdr(g, kind, seq);
    return seg;
}

/* --- dispatch.c -------------------------------------------------------------- */

/** nic_group_send - send a burst of each kind of segment that is due. Returns the number sent. */
uint32_t nic_group_send(struct fabemu_group *g);
/** nic_group_start - append @c to the group's stream, and send. */
void nic_group_start(struct fabemu_group *g, struct nic_coll *c);
/** nic_group_transmit - call nic_group_send() for groups that are due. Returns the number sent. */
uint32_t nic_group_transmit(struct fabemu *fab);
void nic_group_receive(struct fabemu *fab, const struct emu_seg *seg);
/** nic_group_receive_run - call nic_stream_receive_run() for the group of @seg. */
uint32_t nic_group_receive_run(struct fabemu *fab, const struct emu_seg *seg, uint32_t most);
/**
 * nic_group_notice - handle the report that all members have received one of our segments outside
 * the stream.
 */
void nic_group_notice(struct fabemu *fab, const struct emu_seg *seg);

#endif
