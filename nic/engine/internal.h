/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - the engine's state. All of it is its worker's.
 *
 * A packet that is sent (struct engine_packet) is in one list at a time: free; waiting for a
 * channel, by priority; awaiting its reply; resting until its next try; or back, until the host
 * has been told. One that is received (struct engine_incoming, one for each channel of each link)
 * is closed; in parts; or whole, and waits for room at the host.
 */
#ifndef NIC_ENGINE_INTERNAL_H
#define NIC_ENGINE_INTERNAL_H

#include <assert.h>

#include "emu/count.h"
#include "emu/combiner.h"
#include "emu/packet/crc.h"
#include "emu/fault.h"
#include "emu/table.h"
#include "nic/engine/engine.h"
#include "nic/engine/list.h"

#define ENGINE_SEGS_MAX 17u  /* segments of a packet of EMU_PACKET_BYTES */
#define ENGINE_WINDOW   256u /* packets that a source is ahead of its oldest one to a destination */
#define ENGINE_TRY_BITS 6u   /* of a tag: the try; above them the sequence number */
#define ENGINE_BURST    64u  /* segments taken from, or sent to, one cable in one pass */
#define ENGINE_QUEUE    64u  /* packets kept beside those that can be on their way, or resting */
#define ENGINE_LOOK     16u  /* waiting packets looked at for one whose window is open */
#define ENGINE_SPAN     (1u << 24) /* numbers beyond the last acknowledged one: then a flow is dead */
#define ENGINE_TEST_DOUBLINGS 6u /* the same of a conditional, which is tried until it is true */
#define ENGINE_ASKS      128u /* conditionals of a host that wait until they are true */
#define ENGINE_ASK_PART  4u   /* conditionals have at most one packet in so many */

/* --- sending --------------------------------------------------------------------------- */

enum engine_state {
    ENGINE_FREE,
    ENGINE_WAITING,  /* for a channel */
    ENGINE_AWAITING, /* on a channel: its reply */
    ENGINE_RESTING,  /* until its next try */
    ENGINE_BACK      /* until the host has been told */
} __attribute__((packed));

/* What a packet carries; the receiver sees it by its host segments. */
enum engine_class {
    ENGINE_PLAIN, /* from host to host, or to a group's */
    ENGINE_TREE,  /* contributions and results of collectives */
    ENGINE_TEST   /* a network conditional: has no sequence number, for it changes nothing */
} __attribute__((packed));

/* Where a packet goes. */
struct engine_to {
    uint32_t dst; /* node, or a group's address */
    enum engine_class class;
    bool group;
    uint8_t only; /* 1 + the link that it must go by; 0: any */
};

/* What goes to the host. */
enum engine_word {
    ENGINE_WORD_NONE,
    ENGINE_WORD_HERE,   /* the segments themselves */
    ENGINE_WORD_FAILED, /* its own: given up */
    ENGINE_WORD_TOLD,   /* its own: acknowledged, if it asked */
    ENGINE_WORD_ANSWER  /* its own: what a conditional came to */
} __attribute__((packed));

struct engine_packet {
    uint64_t due_ps;    /* awaiting, resting: the list is in this order */
    uint64_t active_ps; /* awaiting: when its last segment was sent; due_ps follows lazily */
    struct engine_ask *ask; /* a conditional that is asked until it is true; else NULL */
    uint32_t host;      /* engine.host when it began: who is told of it */
    uint32_t dst;       /* node, or a group's address */
    uint32_t seq;       /* given with the first try */
    uint32_t tag;       /* of this try */
    uint32_t crc;       /* over the payload */
    uint16_t bytes;     /* of payload */
    uint16_t older;     /* of the same flow; ENGINE_NONE */
    uint16_t newer;
    uint16_t tries;
    enum engine_state state;
    bool group;
    bool more;          /* another one to there waits right behind */
    enum engine_class class;
    uint8_t only;       /* 1 + the link that it must go by; 0: any */
    enum engine_word back; /* what the host is told when it is acknowledged, or of it now */
    uint8_t answer;     /* enum emu_test_answer */
    uint8_t asked;      /* 1 + the priority that was asked for: of conditionals, that are asked again,
                           bulk's. No host does yet. 0: none */
    uint8_t priority;
    uint8_t count;      /* host segments */
    uint8_t segs;       /* on the wire */
    uint8_t sent;       /* of them, in this try */
    uint8_t link;       /* awaiting: which, */
    uint8_t channel;    /* and its channel */
    uint32_t buf[ENGINE_SEGS_MAX]; /* of host segments: a reference each */
};

/*
 * Packets to one destination that have a sequence number and are not acknowledged. One flow for
 * each node, and one for each group as long as it is: all zero before the first packet. A number
 * here is less config.first_seq, free-running; a tag has its low bits (engine/receive.c).
 */
struct engine_flow {
    uint32_t next;   /* number of the next packet */
    uint32_t acked;  /* one past the highest number that was acknowledged */
    uint16_t oldest; /* 1 + index; 0: none */
    uint16_t newest;
};

/* --- receiving ------------------------------------------------------------------------- */

/*
 * What was heard of one flow. It does not matter where numbers begin. All zero: nothing yet. That no
 * new number is taken for an old one is shown in engine/receive.c.
 */
struct engine_heard {
    uint32_t from; /* 1 + the source; 0: nothing was heard */
    uint32_t last; /* the highest number, as a tag has it */
    uint64_t seen[ENGINE_WINDOW / 64]; /* by number modulo ENGINE_WINDOW */
};

enum engine_incoming_state {
    ENGINE_CLOSED,
    ENGINE_PARTS, /* its segments are coming */
    ENGINE_WHOLE, /* waits for the host */
    ENGINE_TAKEN, /* is being delivered */
    ENGINE_STORED /* on its way to memory, which its acknowledgment waits for */
} __attribute__((packed));

struct engine_incoming {
    uint64_t due_ps;    /* in parts: the list is in this order */
    uint64_t late_ps;   /* whole: as engine.late_ps, of its last segment */
    uint64_t active_ps; /* when the last segment came; due_ps follows lazily */
    struct emu_head head;
    uint32_t tag;
    enum engine_incoming_state state;
    bool broken;        /* will be answered with a NACK */
    uint8_t segs;       /* that came */
    uint8_t count;      /* whole: host segments */
    uint32_t buf[ENGINE_SEGS_MAX]; /* by segment, or EMU_NO_BUF */
};

/* What is being handed to the host: one packet at a time, so that a superseded one still ends. */
struct engine_delivery {
    bool active;
    enum engine_word word;
    uint8_t answer;   /* enum emu_test_answer */
    uint8_t at;       /* host segments handed over */
    uint8_t count;
    uint16_t reply;   /* incoming to acknowledge in the end; ENGINE_NONE */
    uint16_t packet;  /* of this engine: to free in the end; ENGINE_NONE */
    uint32_t host;    /* a word about a packet of this engine: as there */
    uint64_t time_ps; /* timed: when it was judged */
    uint64_t late_ps; /* as engine_incoming.late_ps */
    uint32_t buf[ENGINE_SEGS_MAX];
};

/* --- groups ------------------------------------------------------------------------------ */

/* Who contributes to a collective at an adapter, or a combine unit: bits. */
#define ENGINE_HERE   0u /* its host */
#define ENGINE_PARENT 1u
#define ENGINE_CHILD  2u /* and those after it */
#define ENGINE_WIDTH  (ENGINE_CHILD + ENGINE_CHILDREN_MAX)
#define ENGINE_ASK    62u /* not one of them: all are to be asked, by a conditional */
#define ENGINE_GROUP  63u /* nor this: where a result goes as well */

enum engine_test { ENGINE_TEST_WORD, ENGINE_TEST_BARRIER }; /* in the op of a conditional's segment */

/*
 * A question to all members of a group that is asked until it is true (engine/ask.c): a host's
 * conditional, or a barrier's. It is in one list, free, at rest or due, or in a packet.
 */
struct engine_ask {
    struct engine_queued at;     /* first: engine_ask_of() */
    struct engine_coll *barrier; /* whose question it is; NULL: a host's, */
    uint32_t buf;                /* and this its segment: the packet's, while it is in one */
    uint32_t seq, id;            /* a host's: its number, and the group */
    uint32_t host;               /* engine.host when it came: who asks */
    uint64_t due_ps;             /* at rest */
    uint16_t tries;
    bool used;                   /* a host's: not in the list of free ones */
    bool taken_back;             /* a host's: it wants no answer any more */
};

static inline struct engine_ask *engine_ask_of(struct engine_queued *at)
{
    return (struct engine_ask *)at;
}

struct engine_asks {
    uint32_t any;                   /* lists at rest that are not empty, by bit */
    uint32_t resting;
    uint32_t asked;                 /* in packets */
    uint32_t jitter;                /* in 2^-32: so much of half a rest more */
    struct engine_queue rest[ENGINE_DOUBLINGS + 1]; /* by doublings */
    struct engine_queue due;     /* those that wait for a packet */
    struct engine_queue free;
    struct engine_ask place[ENGINE_ASKS];
};

/* One segment of a collective. Free: `have` is 0. */
struct engine_coll {
    struct engine_queued at; /* first: engine_coll_of(); the results that wait to go */
    struct engine_group *group;
    uint64_t due_ps;    /* timed: when the result is there */
    struct emu_hdr hdr; /* of the first contribution; free: of the operation that is over */
    uint64_t have;      /* whose contributions are in */
    uint64_t outs;      /* where the result still has to go; 0: there is none yet */
    uint32_t buf;       /* combined so far; in order: only when made */
    bool used;          /* there is one, or was */
    bool made;          /* there is a result, in buf: `have` says no more than that */
    bool asking;        /* a barrier by conditional: `ask` is under way */
    struct engine_ask ask;
};

static inline struct engine_coll *engine_coll_of(struct engine_queued *at)
{
    return (struct engine_coll *)at;
}

struct engine_group {
    uint32_t id;
    uint8_t link;
    uint8_t width;    /* positions: ENGINE_CHILD + children */
    bool in_order;
    bool by_link;     /* contributions go by the link, too */
    uint64_t all;     /* positions there are: bits */
    uint32_t *node;   /* by position */
    uint64_t *word;   /* EMU_WORDS */
    uint32_t window;  /* numbers of the stream that may be under way; a power of two */
    struct engine_coll *state; /* window, by sequence number; NULL: multicasts only */
    uint32_t *kept;             /* in order: engine_kept() of each state */
    _Atomic uint32_t waiting;   /* states in lists of the engine's: it may not be freed */
    struct engine_flow flow;    /* what this node sends to it */
    uint32_t sources;
    struct engine_heard heard[]; /* of each of the sources: a hash table, all of which may be full */
};

/* In order: the buffers that are kept for @state. */
static inline struct emu_kept engine_kept(const struct engine_coll *state)
{
    const struct engine_group *group = state->group;

    return (struct emu_kept){.buf = &group->kept[(size_t)(state - group->state) * emu_kept_slots(group->all)],
                             .all = group->all};
}

/* --- links ----------------------------------------------------------------------------- */

struct engine_link {
    alignas(EMU_LINE) uint64_t tx_ps; /* looks for something to send then; EMU_NEVER */
    uint32_t left[EMU_PRIORITIES];    /* open channels of packets with segments left to send */
    uint32_t replies;                 /* channels to reply on */
    uint32_t nacks;                   /* of them, those that get a NACK */
    uint32_t credited;                /* raw: credits put that the far end has not been told of */
    uint8_t at;                       /* channel served last */
    bool blocked;                     /* has something to send and no room; EMU_EVENT_CREDIT tells */
    struct emu_channels books;
    struct emu_tx tx;
    struct emu_rx rx;
    struct emu_faults *faults;        /* of the cable to here; NULL: none */
    uint16_t packet[EMU_CHANNELS];    /* by open channel */
    uint32_t reply_tag[EMU_CHANNELS];
};

struct engine {
    struct emu_dev dev;
    const struct emu_profile *profile;
    struct emu_profile host_profile;
    uint32_t node, nodes;
    uint32_t links;
    uint32_t cut;        /* of them, those that nothing is plugged into */
    uint32_t first_seq;
    uint64_t timeout_ps; /* profile->reply_timeout_ps */
    uint64_t recv_ps;    /* timed: from the judgement to the host's memory */
    uint64_t late_ps;    /* timed: the segment that is being taken was here so much earlier */
    uint64_t lookahead_ps; /* timed: nothing is at the host sooner than that */
    uint64_t handed_ps;  /* timed: when the last segment for the host is in memory */
    uint64_t random;     /* xorshift state: jitter */
    uint64_t now_ps;     /* for time-outs. Timed: of this event; raw: host time, see raw_clock() */
    uint64_t host_ps;    /* raw: the host's clock as last read */
    uint32_t passes;     /* raw: since it was read */
    uint64_t more;       /* raw: ports that had more than a burst */

    struct emu_rx in;    /* from the host */
    struct emu_tx out;   /* to it */
    uint64_t in_ps;      /* timed: when the next of its segments can be taken; EMU_NEVER: no room */
    uint64_t out_ps;     /* when the delivery goes on; EMU_NEVER: nothing, or no room at the host */
    bool in_full;        /* segments of the host wait for a free packet */
    uint32_t host;       /* names the process that is attached: emu_edge.serial; 0: none */

    uint32_t waiting_any;                        /* a bit a priority */
    struct engine_list waiting[EMU_PRIORITIES];
    struct engine_list awaiting;
    struct engine_list resting;
    struct engine_list back;
    struct engine_list free;
    uint16_t forming;    /* the newest waiting packet, which may still grow; ENGINE_NONE */
    uint8_t turn;        /* link that opened a channel last */
    struct engine_list parts; /* incoming */
    struct engine_list whole;
    struct engine_list stored;
    struct engine_delivery delivery;

    _Atomic(struct emu_table *) groups;
    struct engine_queue results;      /* those that wait to go, by due_ps */
    uint64_t results_ps;               /* when they can go on; EMU_NEVER: none, or no free packet */
    uint64_t combine_ps;               /* timed: until then contributions are being combined */
    uint32_t tests;                    /* conditionals sent so far: names them */

    struct engine_counts counts;
    struct engine_link *link;
    uint32_t packets;
    struct engine_packet *packet;
    struct engine_join *join;          /* like packet */
    struct engine_incoming *incoming;  /* links * EMU_CHANNELS */
    struct engine_join *incoming_join; /* like incoming */
    struct engine_flow *flow;          /* by node; those to groups are theirs */
    struct engine_heard *heard;        /* the same */
    struct engine_asks asks;           /* last: most of it is seldom looked at, and fills a page */
};

static inline struct emu_pool_cache *engine_cache(struct engine *e)
{
    return &e->dev.worker->cache;
}

static inline struct emu_hdr *engine_hdr(struct engine *e, uint32_t buf)
{
    return &emu_pool_seg(engine_cache(e)->pool, buf)->hdr;
}

/*
 * A host inside the fabric may send only lengths: then its segment has no payload, its buffer is the
 * engine's own, and goes no further. The header stored in the buffer says so, in a bit of its kind that
 * no wire carries. It is set and asked for here alone.
 */
#define ENGINE_HOLLOW 128u
static_assert(!(ENGINE_HOLLOW & (EMU_TOLD | EMU_FAILED)) && (unsigned)EMU_TEST < EMU_TOLD, "a bit to spare");

static inline bool engine_is_hollow(const struct emu_hdr *hdr)
{
    return hdr->kind & ENGINE_HOLLOW;
}

static inline void engine_set_hollow(struct emu_hdr *hdr, bool hollow)
{
    hdr->kind = (uint8_t)((hdr->kind & ~ENGINE_HOLLOW) | (hollow ? ENGINE_HOLLOW : 0));
}

/* When the host segment in @buf was posted. */
static inline uint32_t *engine_born_ns(struct engine *e, uint32_t buf)
{
    return emu_pool_note(engine_cache(e)->pool, buf);
}

/* What its host, or the fabric, asks for. */
static inline uint8_t engine_kind(const struct emu_hdr *hdr)
{
    return hdr->kind & (uint8_t)~(ENGINE_HOLLOW | EMU_TOLD);
}

/* What a host segment takes of a packet's payload. */
static inline uint32_t engine_seg_bytes(const struct emu_hdr *hdr)
{
    return EMU_HDR_BYTES + hdr->len;
}

/* Of these, the bytes that are there. */
static inline uint32_t engine_seg_there(const struct emu_hdr *hdr)
{
    return EMU_HDR_BYTES + (engine_is_hollow(hdr) ? 0u : hdr->len);
}

/* What names the flow from @src in a packet's tag. @dst: a node, or a group's whole address. Pure. */
static inline uint32_t engine_flow_key(uint32_t src, uint32_t dst, bool group)
{
    uint64_t key = (uint64_t)src << 33 | (uint64_t)dst << 1 | group;

    key = (key + 1) * 0x9e3779b97f4a7c15u;
    key = (key ^ key >> 32) * 0xd6e8feb86659fd93u;
    return (uint32_t)(key ^ key >> 32);
}

/* The CRC-32 of a packet, from that of its payload. Pure. */
static inline uint32_t engine_crc(uint32_t payload, uint32_t tag, uint16_t dst, bool group)
{
    uint32_t where[2] = {tag, (uint32_t)dst | (uint32_t)group << 16};

    return emu_crc32(payload, where, sizeof(where));
}

/* What a packet's last segment on the wire has in the place of the time at which it was posted: its CRC-32. */
static inline uint32_t *engine_entry_crc(struct emu_entry *last)
{
    return &last->born_ns;
}

/** engine_wake - link @l looks for something to send, at @at_ps or as soon as its wire is free. */
static inline void engine_wake(struct engine_link *l, uint64_t at_ps)
{
    if (at_ps < l->tx.busy_ps)
        at_ps = l->tx.busy_ps;
    if (at_ps < l->tx_ps)
        l->tx_ps = at_ps;
}

static inline void engine_wake_all(struct engine *e, uint64_t at_ps)
{
    emu_each_bit (i, emu_bits_below(e->links) & ~e->cut)
        engine_wake(&e->link[i], at_ps);
}

/* --- engine/host.c ----------------------------------------------------------------------- */

/**
 * engine_post - a host segment in @buf goes to node @dst, or to a group; its reference is the
 * engine's from now on. False: there is no free packet; nothing changed.
 */
bool engine_post(struct engine *e, uint32_t buf, struct engine_to to, uint64_t at_ps);

/** engine_begin - a packet of this one host segment, in no list. There is a free one. */
uint16_t engine_begin(struct engine *e, uint32_t buf, struct engine_to to);

/** engine_back - @word about packet @i goes to the host; it is in no list. */
void engine_back(struct engine *e, uint16_t i, enum engine_word word, uint64_t at_ps);

/** engine_take - a segment of the host's enters. False: no room for it now; nothing changed. */
bool engine_take(struct engine *e, const struct emu_entry *entry, uint64_t at_ps);

/** engine_deliver - hand over to the host what there is, as far as it has room. Sets out_ps. */
void engine_deliver(struct engine *e, uint64_t at_ps);

/* --- engine/group.c ------------------------------------------------------------------------ */

/** engine_group_of - NULL: the node is not in it. */
struct engine_group *engine_group_of(const struct engine *e, uint32_t id);

/** engine_group_heard - what was heard of @src there; NULL: it is no source of the group's. */
struct engine_heard *engine_group_heard(struct engine_group *group, uint32_t src);

/** engine_to_group - where a packet to the group goes, and by which link. */
struct engine_to engine_to_group(const struct engine *e, const struct engine_group *group,
                                 enum engine_class class);

/** engine_set - the host writes a word. */
void engine_set(struct engine *e, struct engine_group *group, const struct emu_hdr *hdr,
                const struct emu_word *word);

/** engine_agrees - is the word that the host segment in @buf asks for as it says, here? */
bool engine_agrees(struct engine *e, uint32_t buf);

/*
 * The manager may free a group when it sees that nothing of it waits.
 * T1 pairs with T2, engine_group_destroy(): it sees what was done before.
 */
static inline void engine_group_hold(struct engine_group *group)
{
    atomic_store_explicit(&group->waiting,
                          atomic_load_explicit(&group->waiting, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static inline void engine_group_release(struct engine_group *group)
{
    atomic_store_explicit(&group->waiting,
                          atomic_load_explicit(&group->waiting, memory_order_relaxed) - 1,
                          memory_order_release); /* T1 */
}

/* --- engine/ask.c --------------------------------------------------------------------------- */

void engine_asks_init(struct engine_asks *asks, uint64_t random);

/**
 * engine_test - the host's conditional @word in @buf, whose reference is the engine's. False: it needs
 * a packet, and there is no free one; nothing changed.
 */
bool engine_test(struct engine *e, struct engine_group *group, uint32_t buf,
                 const struct emu_word *word, uint64_t at_ps);

/** engine_ask_barrier - have all members come to the barrier @state? Asked until it is so. */
void engine_ask_barrier(struct engine *e, struct engine_coll *state, uint64_t at_ps);

/** engine_tested - a reply to the conditional in packet @i came, or none in time; it is in no list. */
void engine_tested(struct engine *e, uint16_t i, bool agreed, uint64_t at_ps);

/** engine_asks_due_ps - when the first of those at rest is due; EMU_NEVER. */
uint64_t engine_asks_due_ps(const struct engine_asks *asks);

/** engine_asks_due - the turn of those that have rested, or of some of them. */
void engine_asks_due(struct engine *e, uint64_t at_ps);

/** engine_asks_go - those that are due take free packets. */
void engine_asks_go(struct engine *e, uint64_t at_ps);

/* --- engine/tree.c ------------------------------------------------------------------------- */

/**
 * engine_contribute - a contribution from @from, a node, or this engine's own for its host. Its
 * reference is the engine's. What breaks the protocol is counted and dropped.
 */
void engine_contribute(struct engine *e, struct engine_group *group, uint32_t from, uint32_t buf,
                       uint64_t at_ps);

/** engine_all_ready - a conditional has found all members in the barrier @state. */
void engine_all_ready(struct engine *e, struct engine_coll *state, uint64_t at_ps);

/** engine_barrier_over - the word of it has come. */
void engine_barrier_over(struct engine *e, const struct emu_hdr *hdr);

/** engine_results - send on what is there by @at_ps, as far as there are free packets. */
void engine_results(struct engine *e, uint64_t at_ps);

/* --- engine/send.c ----------------------------------------------------------------------- */

/** engine_rest - this try has come to nothing; the packet is in no list. */
void engine_rest(struct engine *e, uint16_t i, uint64_t at_ps);

/** engine_ready - packet @i waits for a channel from now on; @first: before the others. */
void engine_ready(struct engine *e, uint16_t i, bool first, uint64_t at_ps);

/** engine_flow_dead - has nothing that was sent there come through for ENGINE_SPAN packets? */
bool engine_flow_dead(struct engine *e, struct engine_to to);

/** engine_free - packet @i is over; it is in no list. */
void engine_free(struct engine *e, uint16_t i, uint64_t at_ps);

/** engine_reply - a reply came on link @l. */
void engine_reply(struct engine *e, struct engine_link *l, const struct emu_packet_hdr *reply,
                  uint64_t at_ps);

/** engine_send - link @l sends one reply or one segment at @at_ps. False: nothing, or no room. */
bool engine_send(struct engine *e, struct engine_link *l, uint64_t at_ps);

/** engine_take_credits - those that came back on link @l by @until_ps. */
void engine_take_credits(struct engine_link *l, uint64_t until_ps);

/** engine_send_due - packets whose reply is overdue by e->now_ps, and those that have rested. */
void engine_send_due(struct engine *e, uint64_t at_ps);

/* --- engine/turn.c ------------------------------------------------------------------------- */

/** engine_turn_timers - when time-outs and rests are due, less @by_ps. */
void engine_turn_timers(struct engine *e, uint64_t by_ps);

/* --- engine/receive.c ---------------------------------------------------------------------- */

/** engine_arrive - what came on link @l, as a whole. Its reference is the engine's. */
void engine_arrive(struct engine *e, struct engine_link *l, struct emu_entry *entry,
                   enum emu_fate fate, uint64_t at_ps);

/** engine_answer - reply to incoming packet @i, and close it. */
void engine_answer(struct engine *e, uint32_t i, bool ack, uint64_t at_ps);

/** engine_heard_first - is this packet's number new? Then it is from now on not. Counts what is not. */
bool engine_heard_first(struct engine *e, const struct engine_incoming *in);

/** engine_receive_due - packets whose rest did not come by e->now_ps. */
void engine_receive_due(struct engine *e, uint64_t at_ps);

#endif
