/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.h - a member's view of a group, and the table of groups.
 *
 * Owner: the table (`groups`), the groups that were left broken (`broken_ids`). Of a group's
 * fields, stream.c owns those of the stream, word.c those of words and conditionals, broadcast.c
 * those of broadcast puts, break.c the alarm and the probe. Lock: held, but for nic_group_check().
 * Callers: the rest of group/, and life.c.
 */
#ifndef NIC_GROUP_H
#define NIC_GROUP_H

#include "nic/host/base/complete.h"
#include "nic/host/tx/up.h"

#define NIC_GROUP_BURST 128u /* segments a group sends in its turn */

/* One collective. Lies in the request's opaque words. */
struct nic_coll {
    struct nic_post post; /* on a list of the event's, or the group's ops */
    struct fabemu_group *group;
    const uint8_t *in; /* contribution, or what the root broadcasts; NULL: none */
    uint8_t *out;      /* result; NULL: none */
    uint64_t bytes;
    uint64_t first; /* its first segment in the stream */
    uint64_t segs;
    uint64_t sent;     /* segments handed to the ring */
    uint64_t done;     /* segments complete */
    uint64_t began_ns; /* 0: it is not timed */
    uint32_t root;     /* node, where there is one */
    uint32_t step;     /* payload bytes of every segment but the last */
    int32_t status;    /* with which it will complete */
    uint8_t kind;      /* enum emu_kind */
    uint8_t op, type;
    bool sends;   /* this member contributes */
    bool awaits;  /* this member gets the result */
    bool counted; /* it is in the stream, and the user's */
    struct emu_comm_draw draw;

    /* fabemu_register_symmetric() */
    void (*ended)(struct fabemu_group *g, struct nic_coll *c); /* what follows; NULL: nothing */
    struct nic_region *region;                                 /* what is to be registered */
    uint64_t *key;                                             /* where its key is to be written */
    uint64_t agree[3]; /* what the members agree on: the key, bytes, ~bytes */
} __attribute__((may_alias));
static_assert(sizeof(struct nic_coll) <= sizeof(((struct fabemu_req *)0)->opaque), "fits");

/* Who hears from the network that the group is broken tells the others. How far is that? */
enum nic_alarm {
    NIC_ALARM_NONE, /* it has nothing to tell, or has told all */
    NIC_ALARM_DUE,  /* a multicast is to be sent to them */
    NIC_ALARM_SENT, /* it is on its way */
    NIC_ALARM_LOST  /* it has not reached all: due again at the next watch */
};

#define NIC_GROUP_RECENT 4u /* operations that a group remembers: for what comes late */

/* What an operation was, for when the members turn out not to agree. */
struct nic_recent {
    uint64_t first; /* nic_coll.first */
    uint32_t root;
    uint8_t kind, op, type;
};

/* Half windows whose tokens may be on their way to a member. */
#define NIC_TOKENS 2u

struct fabemu_group {
    struct fabemu *fab;
    struct fabemu_group *next; /* in its bucket */
    struct emu_list busy;      /* in fab->busy: something is left to send */
    uint32_t id;
    uint32_t members;
    bool joined;                 /* false: it only keeps segments that came early */
    bool joining;                /* the fabric is asked whether we may */
    int broken;                  /* 0, or -EPIPE */
    uint32_t lost;               /* node of the member whose death broke it, FABEMU_ANY_NODE */
    uint32_t gave_up;            /* node whose segment the network gave up, FABEMU_ANY_NODE */
    uint32_t broke_off;          /* node of the member that has broken it off, FABEMU_ANY_NODE */
    uint32_t parted;             /* node that no way leads to any more, FABEMU_ANY_NODE */
    char why[NIC_WHY_BYTES];     /* it broke, as the fabric said; written once, before: */
    _Atomic bool has_why;        /* read without the lock; false: the fabric did not say */
    uint8_t alarm;               /* enum nic_alarm */
    bool probing;                /* a probe is under way */
    uint64_t probe_ns;           /* the next one may be sent */
    struct emu_list ops;         /* under way, in stream order */
    struct nic_coll *binding;    /* the first whose segments are not all bound */
    struct nic_coll *sending;    /* the first that sends and has not sent all */
    uint64_t posted;             /* segments of all operations so far */
    uint64_t begun;              /* operations so far */
    uint64_t bound;              /* of them, bound */
    uint64_t cur, issued, done;  /* half windows: see stream.c */
    bool token_back[NIC_TOKENS]; /* token of done and those after it, by half window modulo */
    uint32_t complete[2];        /* segments complete in half windows cur, cur + 1; by parity */
    uint32_t window;             /* numbers in two half windows: a power of two */
    struct nic_coll **owner;     /* by number modulo window: whose segment; NULL once complete */
    struct emu_seg *stash;       /* likewise: segments that came early; NULL until needed */
    bool *stashed;               /* likewise: is there one? */
    uint32_t stashes;            /* how many there are */

    struct nic_recent recent[NIC_GROUP_RECENT];     /* the last that began: a ring */
    uint32_t calls[EMU_COMM_KINDS][EMU_COMM_SIZES]; /* begun, modulo 2^32: draws those to time */

    /* For the fabric: progress/pending.c. */
    char name[EMU_PENDING_NAME];
    uint64_t seen;    /* 1 + the first segment of the operation that was the oldest, and */
    uint64_t seen_ns; /* when it was seen first */

    /* Words and conditionals. */
    struct nic_words words;  /* one's own */
    struct emu_list asking;  /* conditionals that are not on their way */
    struct emu_list asked;   /* those that are; in a group of one, those that wait for a word */
    struct emu_list again;   /* those that the adapter had no slot for */
    struct emu_list resting; /* in fab->again, while `again` is not empty */

    /* Broadcast puts. */
    struct emu_list broadcasts; /* under way, in post order */
    uint32_t broadcast_out;     /* segments of them that not all have */
};

struct fabemu_group *nic_group_make(struct fabemu *fab, uint32_t id); /* NULL: no memory */
/** nic_group_early - a group that keeps what comes before we join; NULL: there may be none. */
struct fabemu_group *nic_group_early(struct fabemu *fab, uint32_t id);
/**
 * nic_group_ask_break - the fabric is asked to tell the other members that the group is broken.
 * Lock: none; waits for the fabric's answer.
 */
void nic_group_ask_break(const struct fabemu_group *g);
/**
 * nic_group_status - 0, or -EPIPE: it is broken. What ends with that before this is asked of
 * another group is told why (fabemu_req_why()).
 */
int nic_group_status(struct fabemu_group *g);
/** nic_group_end_ops - end what is under way and not of the stream. */
void nic_group_end_ops(struct fabemu_group *g, int status);
/**
 * nic_group_leave - unmake; if it was broken, what still comes for it must not wait for a next
 * owner of the id.
 */
void nic_group_leave(struct fabemu_group *g);
/** nic_group_drop_early - forget what came for a group that this process has not joined. */
void nic_group_drop_early(struct fabemu_group *g);
/** nic_group_known - the id has an owner here (again). */
void nic_group_known(struct fabemu *fab, uint32_t id);
/** nic_group_remember_broken - what still comes for @id is late. */
void nic_group_remember_broken(struct fabemu *fab, uint32_t id);
/**
 * nic_group_check - may words, conditionals and broadcast puts be used? Errors: -EOPNOTSUPP,
 * -ENOTCONN, -EINVAL. Lock: none.
 */
int nic_group_check(const struct fabemu_group *g, const struct fabemu_req *req);
void nic_group_release(struct fabemu *fab);

/** nic_group_find - the group of that id, or NULL. */
static inline struct fabemu_group *nic_group_find(const struct fabemu *fab, uint32_t id)
{
    struct fabemu_group *g = fab->groups[id % NIC_GROUP_BUCKETS];

    while (g && g->id != id)
        g = g->next;
    return g;
}

/**
 * nic_group_may_be_early - can a segment with this header come before this member has started the
 * same operation, or has joined? Other members' data can; a result needs this member's own part.
 */
static inline bool nic_group_may_be_early(const struct emu_hdr *hdr)
{
    return hdr->kind == EMU_MULTICAST || hdr->kind == EMU_REDUCE;
}

/** nic_group_hdr - of a segment of the group's. */
static inline struct emu_hdr nic_group_hdr(const struct fabemu_group *g, uint8_t kind, uint64_t seq)
{
    return (
        struct emu_hdr){.dst = g->id, .src = g->fab->info.node, .seq = (uint32_t)seq, .kind = kind};
}

/** nic_group_claim - a slot for a segment of the group's; NULL: no room. */
static inline struct emu_seg *nic_group_claim(struct fabemu_group *g, uint8_t kind, uint64_t seq)
{
    struct emu_seg *seg = nic_claim_up(g->fab);

    if (seg)
        seg->hdr = nic_group_hdr(g, kind, seq);
    return seg;
}

#endif
