/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.h - what group.c (the stream of segments) and coll.c (the calls) share.
 */
#ifndef NIC_GROUP_H
#define NIC_GROUP_H

#include "nic/adapter.h"

/* One collective. Lies in the request's opaque words. */
struct nic_coll {
    struct nic_list link; /* group's ops */
    struct fabemu_req *req;
    const uint8_t *in; /* contribution, or what the root broadcasts; NULL: none */
    uint8_t *out;      /* result; NULL: none */
    uint64_t bytes;
    uint64_t first;    /* its first segment in the stream */
    uint64_t segs;
    uint64_t sent;     /* segments handed to the ring */
    uint64_t done;     /* segments complete */
    uint32_t step;     /* payload bytes of every segment but the last */
    int32_t status;    /* with which it will complete */
    uint8_t kind;      /* enum emu_kind */
    uint8_t op, type;
    bool sends;        /* this member contributes */
    bool awaits;       /* this member gets the result */
} __attribute__((may_alias));
static_assert(sizeof(struct nic_coll) <= sizeof(((struct fabemu_req *)0)->opaque), "fits");

struct fabemu_group {
    struct fabemu *fab;
    struct fabemu_group *next; /* in its bucket */
    struct nic_list busy;      /* in fab->busy: something is left to send */
    uint32_t id;
    uint32_t members;
    bool joined;               /* false: only a place for segments that came early */
    int broken;                /* 0, or -EPIPE */
    struct nic_list ops;       /* under way, in stream order */
    struct nic_coll *binding;  /* the first whose segments are not all bound */
    struct nic_coll *sending;  /* the first that sends and has not sent all */
    uint64_t posted;           /* segments of all operations so far */
    uint64_t bound;            /* of them, bound */
    uint64_t cur, issued, done; /* half windows, see above */
    bool token_back[2];        /* token of done, done + 1 */
    uint32_t complete[2];      /* segments complete in half windows cur, cur + 1; by parity */
    struct nic_coll *owner[EMU_WINDOW]; /* by number: whose segment; NULL once complete */
    struct emu_seg *stash;     /* by number; NULL until needed */
    bool stashed[EMU_WINDOW];
};

/* All want the adapter's lock. */
struct fabemu_group *nic_group_find(const struct fabemu *fab, uint32_t id);
struct fabemu_group *nic_group_make(struct fabemu *fab, uint32_t id); /* NULL: no memory */
void nic_group_unmake(struct fabemu_group *g);
/** nic_group_leave - unmake; if it was broken, what still comes for it must not wait for a next owner of the id. */
void nic_group_leave(struct fabemu_group *g);
/** nic_group_known - the id has an owner here (again). */
void nic_group_known(struct fabemu *fab, uint32_t id);
/** nic_group_start - @c takes the next numbers of the stream; sends what can be sent. */
void nic_group_start(struct fabemu_group *g, struct nic_coll *c);

#endif
