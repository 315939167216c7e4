/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.h - groups as their members see them: the table, and functions that the group's parts
 * share.
 *
 * Of a group's fields, stream.c changes those of the stream, word.c those of words and
 * conditionals, broadcast.c those of broadcast puts, break.c the alarm and the probe. Lock: held,
 * except for nic_group_check().
 */
#ifndef NIC_GROUP_H
#define NIC_GROUP_H

#include "nic/host/base/complete.h"
#include "nic/host/tx/up.h"

#define NIC_GROUP_BURST 128u /* segments per group and round */

/* A collective, in the request's opaque words. */
struct nic_coll {
    struct nic_post post; /* on a list of its event, or in the group's ops */
    struct fabemu_group *group;
    const uint8_t *in; /* the contribution, or the data that the root broadcasts; NULL: none */
    uint8_t *out;      /* result; NULL: none */
    uint64_t bytes;
    uint64_t first; /* number of its first segment in the stream */
    uint64_t segs;
    uint64_t sent;     /* segments handed to the ring */
    uint64_t done;     /* segments complete */
    uint64_t began_ns; /* 0: not timed */
    uint32_t root;     /* node, if there is one */
    uint32_t step;     /* payload bytes of every segment but the last */
    int32_t status;    /* with which it will complete */
    uint8_t kind;      /* enum emu_kind */
    uint8_t op, type;
    bool sends;   /* this member contributes */
    bool awaits;  /* this member gets the result */
    bool counted; /* in the stream, and posted by the user (not by the library) */
    struct emu_comm_draw draw;

    /* fabemu_register_symmetric() */
    /* called at the end; NULL: complete the request */
    void (*ended)(struct fabemu_group *g, struct nic_coll *c);
    struct nic_region *region; /* to be registered */
    uint64_t *key;             /* receives its key */
    uint64_t agree[3];         /* the vector that is combined: a key, bytes, ~bytes */
} __attribute__((may_alias));
static_assert(sizeof(struct nic_coll) <= sizeof(((struct fabemu_req *)0)->opaque), "fits");

/*
 * State of the multicast by which a member that learns of the break from the network notifies the
 * others.
 */
enum nic_alarm {
    NIC_ALARM_NONE, /* nothing to send, or delivered to all */
    NIC_ALARM_DUE,  /* must be sent */
    NIC_ALARM_SENT, /* in flight */
    NIC_ALARM_LOST  /* dropped; sent again at the next watch */
};

#define NIC_GROUP_RECENT 4u /* latest operations that a group remembers, to report mismatches */

/* An operation, for the report when members call different ones. */
struct nic_recent {
    uint64_t first; /* nic_coll.first */
    uint32_t root;
    uint8_t kind, op, type;
};

/* Half windows whose tokens may be in flight to a member. */
#define NIC_TOKENS 2u

struct fabemu_group {
    struct fabemu *fab;
    struct fabemu_group *next; /* in its hash bucket */
    struct emu_list busy;      /* in fab->busy: has something to send */
    uint32_t id;
    uint32_t members;
    bool joined;          /* false: only keeps segments that arrived before the join */
    bool joining;         /* waits for the fabric's answer */
    int broken;           /* 0, or -EPIPE */
    uint32_t lost;        /* these four: FABEMU_ANY_NODE if none. Member whose death broke it */
    uint32_t gave_up;     /* member whose segment the network dropped for good */
    uint32_t broke_off;   /* member that has broken it */
    uint32_t partitioned; /* member that cannot be reached any more */
    /* why it broke, from the fabric; written once, before has_why is set */
    char why[NIC_WHY_BYTES];
    _Atomic bool has_why;       /* read without the lock */
    uint8_t alarm;              /* enum nic_alarm */
    bool probing;               /* a probe is in flight */
    uint64_t probe_ns;          /* when the next one may be sent */
    struct emu_list ops;        /* under way, in stream order */
    struct nic_coll *binding;   /* the first whose segments are not all bound */
    struct nic_coll *sending;   /* the first that sends and has not sent everything */
    uint64_t posted;            /* segments of all operations so far */
    uint64_t begun;             /* operations so far */
    uint64_t bound;             /* segments bound so far */
    uint64_t cur, issued, done; /* half windows: see stream.c */
    /* tokens that returned early, from done on, by half window modulo NIC_TOKENS */
    bool token_back[NIC_TOKENS];
    uint32_t complete[2]; /* segments complete in half windows cur and cur + 1; by parity */
    uint32_t window;      /* segment numbers in two half windows: a power of two */
    /* by number modulo window: operation of the segment; NULL once complete */
    struct nic_coll **owner;
    struct emu_seg *reorder_buf; /* likewise: segments that arrived early; NULL until needed */
    bool *reorder_used;          /* likewise: is there one? */
    uint32_t reorder_count;      /* how many there are */

    struct nic_recent recent[NIC_GROUP_RECENT]; /* latest operations: a ring */
    /* started, modulo 2^32: selects those to time */
    uint32_t calls[EMU_COMM_KINDS][EMU_COMM_SIZES];

    /* For progress/pending.c. */
    char name[EMU_PENDING_NAME];
    uint64_t seen;    /* 1 + first segment of the operation that was oldest at the last sample, */
    uint64_t seen_ns; /* and when that one was sampled first */

    /* Words and conditionals. */
    struct nic_words words; /* this member's own */
    struct emu_list unsent; /* conditionals to send */
    /* conditionals in the link engine; in a group of one, all that wait */
    struct emu_list sent_queries;
    struct emu_list again;       /* conditionals for which the link engine had no slot */
    struct emu_list backing_off; /* in fab->again, while `again` is not empty */

    /* Broadcast puts. */
    struct emu_list broadcasts; /* under way, in post order */
    uint32_t broadcast_out;     /* segments of them in flight */
};

struct fabemu_group *nic_group_make(struct fabemu *fab, uint32_t id); /* NULL: no memory */
/**
 * nic_group_early - create a group that keeps segments which arrive before we join; NULL: not
 * allowed, or no memory.
 */
struct fabemu_group *nic_group_early(struct fabemu *fab, uint32_t id);
/**
 * nic_group_request_break - ask the fabric to notify the other members that the group is broken.
 * Lock: none; waits for the answer.
 */
void nic_group_request_break(const struct fabemu_group *g);
/**
 * nic_group_status - 0, or -EPIPE if the group is broken. Then it also sets fab->broken_why for
 * requests that are completed before the next call (fabemu_req_why()).
 */
int nic_group_status(struct fabemu_group *g);
/** nic_group_end_ops - end the operations outside the stream. */
void nic_group_end_ops(struct fabemu_group *g, int status);
/**
 * nic_group_leave - free the group. If it was broken, remember that, so that late segments are not
 * kept for the id's next group.
 */
void nic_group_leave(struct fabemu_group *g);
/** nic_group_drop_early - free a group that this process has not joined. */
void nic_group_drop_early(struct fabemu_group *g);
/** nic_group_known - the id belongs to a joined group (again). */
void nic_group_known(struct fabemu *fab, uint32_t id);
/** nic_group_remember_broken - treat later segments for @id as late. */
void nic_group_remember_broken(struct fabemu *fab, uint32_t id);
/**
 * nic_group_check - may words, conditionals and broadcast puts be used? Errors: -EOPNOTSUPP,
 * -ENOTCONN, -EINVAL.
 */
int nic_group_check(const struct fabemu_group *g, const struct fabemu_req *req);
void nic_group_release(struct fabemu *fab);

/** nic_group_find - the group with this id, or NULL. */
static inline struct fabemu_group *nic_group_find(const struct fabemu *fab, uint32_t id)
{
    struct fabemu_group *g = fab->groups[id % NIC_GROUP_BUCKETS];

    while (g && g->id != id)
        g = g->next;
    return g;
}

/**
 * nic_group_may_be_early - can a segment with this header arrive before this member has started the
 * same operation, or has joined? Other members' data can; a result needs this member's
 * contribution.
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

/** nic_group_claim - a slot for a segment of the group, with its header; NULL: no space. */
static inline struct emu_seg *nic_group_claim(struct fabemu_group *g, uint8_t kind, uint64_t seq)
{
    struct emu_seg *seg = nic_claim_up(g->fab);

    if (seg)
        seg->hdr = nic_group_hdr(g, kind, seq);
    return seg;
}

/* --- dispatch.c -------------------------------------------------------------- */

/** nic_group_send - send as much as possible of what the group has to send. Returns segments. */
uint32_t nic_group_send(struct fabemu_group *g);
/** nic_group_start - append @c to the stream and send. */
void nic_group_start(struct fabemu_group *g, struct nic_coll *c);
/** nic_group_transmit - nic_group_send() for each group with something to send. */
uint32_t nic_group_transmit(struct fabemu *fab);
void nic_group_receive(struct fabemu *fab, const struct emu_seg *seg);
/** nic_group_receive_run - nic_stream_receive_run() for the group of @seg. */
uint32_t nic_group_receive_run(struct fabemu *fab, const struct emu_seg *seg, uint32_t most);
/** nic_group_notice - all members have a segment of ours that is outside the stream. */
void nic_group_notice(struct fabemu *fab, const struct emu_seg *seg);

#endif
