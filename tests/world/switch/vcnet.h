/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vcnet.h - switches with virtual channels, without a fabric around them, between nodes that speak
 * the contract of emu/packet/packet.h themselves, send what a test has written down, and write down
 * what comes and when.
 *
 * It owns the workers, the pool, the switches, the nodes and their lists. On clock virtual time
 * goes on in vcnet_advance() and vcnet_drain(); on the others the test steps the workers, or gives
 * them threads. Nothing is looked at by itself: vcnet_holds() says whether all is in order at this
 * moment, vcnet_free() whether everything is back in the end, and vcnet_judge() whether what came
 * is what was sent.
 */
#ifndef TESTS_WORLD_VCNET_H
#define TESTS_WORLD_VCNET_H

#include "emu/fault/fault.h"
#include "emu/link/channels.h"
#include "emu/packet/packet.h"
#include "emu/worker/windows.h"
#include "switch/switch.h"
#include "tests/world/world.h"

#define VCNET_NODES    256u
#define VCNET_SWITCHES 256u
#define VCNET_WORKERS  4u
#define VCNET_GROUPS   16u
#define TAG_NODE       20u /* a tag is a node's number above, and that of its packet below */

enum post_state { POST_WAITS, POST_OPEN, POST_ACKED, POST_NACKED, POST_TIMED_OUT };

/* A packet to send. */
struct vcnet_post {
    uint64_t ready_ps; /* no earlier */
    uint64_t head_ps;  /* its head left, */
    uint64_t reply_ps; /* and its reply came */
    uint32_t tag;
    uint32_t crc;
    uint16_t dst;
    uint16_t bytes;
    bool group;
    uint8_t priority;
    uint8_t state;
};

/* One that came. */
struct vcnet_got {
    uint64_t head_ps;  /* its head came, */
    uint64_t whole_ps; /* and its last byte */
    uint32_t tag;
    uint16_t bytes;
    uint8_t priority;
    bool good; /* all of it, in order, as it was sent */
};

/* What is on a channel: sending, receiving. */
struct vcnode_out {
    uint32_t post; /* index */
    uint64_t since_ps;
    uint8_t segments, sent;
    bool over; /* nothing is left to send */
};

struct vcnode_in {
    bool open, good;
    uint8_t index, last;
    uint8_t priority;
    uint16_t bytes;
    uint32_t tag, crc;
    uint64_t head_ps;
};

struct vcnode_reply {
    uint64_t ready_ps;
    uint32_t tag;
    uint8_t channel;
    bool nack;
};

struct vcnode {
    struct emu_dev dev;
    struct emu_tx tx;
    struct emu_rx rx;
    struct vcnet *world;
    uint32_t node;
    struct emu_vcs vcs;
    struct emu_faults *faults;
    struct switch_dev *sw; /* at the other end, */
    uint32_t port;         /* and where */

    /* The test's wishes. */
    struct vcnet_post *post;
    uint32_t posts, posts_room;
    uint32_t open_max;   /* channels that it opens at a time, for bulk */
    uint32_t refuse;     /* of a thousand packets, those that get a NACK */
    bool silent;         /* it never replies */
    uint64_t service_ps; /* it takes no more than one segment in such a time */
    bool endless;        /* raw: posts are sent again and again */

    uint32_t next[EMU_PRIORITIES]; /* post to open next */
    struct vcnode_out out[EMU_VCS];
    struct vcnode_in in[EMU_VCS];
    struct vcnode_reply reply[4 * EMU_VCS];
    uint32_t replies;
    uint32_t last_channel;
    uint64_t now_ps;
    uint64_t served_ps;
    struct vcnet_got *got;
    uint32_t gots, gots_room;
    uint64_t segments_got, bad, stale, twice, packets_got;
    bool quiet; /* keeps no list of what came */
};

struct vcnet {
    struct topo_graph *graph; /* or NULL: the test made its own */
    struct emu_profile profile;
    enum emu_clock_mode clock;
    struct emu_pool *pool;
    struct emu_pool_cache cache;
    struct emu_worker *worker[VCNET_WORKERS];
    uint32_t workers;
    struct emu_windows *windows;
    struct emu_thread *thread[VCNET_WORKERS];
    struct switch_dev *sw[VCNET_SWITCHES];
    uint32_t switches;
    struct vcnode *node[VCNET_NODES];
    uint32_t nodes;
    bool member[VCNET_GROUPS][VCNET_NODES];
    struct switch_group *part[VCNET_GROUPS * VCNET_SWITCHES];
    struct switch_dev *part_sw[VCNET_GROUPS * VCNET_SWITCHES];
    uint32_t parts;
    struct emu_faults *faults; /* of all cables, if any */
    bool payload;              /* segments have buffers */
    uint64_t timeout_ps;       /* a node gives a packet up; EMU_NEVER */
    uint64_t now_ps;
};

/* What the nodes make of all that came. */
struct vcnet_verdict {
    uint32_t wrong; /* not as it was sent, or not for whom it came to */
    uint32_t twice;
    uint32_t lost; /* acknowledged, and did not come to all that it is for */
};

/** vcnet_open_on - the network @spec, a node at each of its ports, of qsnet3 but for @set. */
void vcnet_open_on(struct vcnet *w, const char *spec, const char *set, enum emu_clock_mode mode,
                   uint32_t workers);
/** vcnet_open - the same on clock virtual, on one worker. */
void vcnet_open(struct vcnet *w, const char *spec, const char *set);
/** vcnet_close - whatever is under way. */
void vcnet_close(struct vcnet *w);

/*
 * Or piece by piece: workers without devices; a switch, a node, on a worker; a node's cables, both
 * ways; a cable between switches, one way; then, when all is plugged, time may begin.
 */
void vcnet_begin(struct vcnet *w, const char *set, enum emu_clock_mode mode, uint32_t workers);
struct switch_dev *vcnet_switch(struct vcnet *w, uint32_t worker, uint32_t ports,
                                const struct topo_route *route);
struct vcnode *vcnet_node(struct vcnet *w, uint32_t worker);
void vcnet_plug(struct vcnet *w, struct vcnode *p, struct switch_dev *sw, uint32_t port);
void vcnet_cable(struct vcnet *w, uint32_t from, uint32_t from_port, uint32_t to, uint32_t to_port);
void vcnet_ready(struct vcnet *w);

/** vcnet_group - the group @id of @nodes, in all switches of a tree of its own. */
void vcnet_group(struct vcnet *w, uint32_t id, const uint32_t *nodes, uint32_t count);

/** vcnet_faults - something goes wrong on every cable from now on. */
void vcnet_faults(struct vcnet *w, const struct emu_fault_rates *rates, uint64_t seed);

/**
 * vcnet_post - node @src sends a packet, after those of its priority that it was given before. Its
 * index.
 */
uint32_t vcnet_post(struct vcnet *w, uint32_t src, uint64_t ready_ps, struct vcnet_post post);

/** vcnet_advance - clock virtual: time goes on to @until_ps. */
void vcnet_advance(struct vcnet *w, uint64_t until_ps);
/**
 * vcnet_drain - clock virtual: until nothing is left to happen. False: it takes longer than
 * @limit_ps.
 */
bool vcnet_drain(struct vcnet *w, uint64_t limit_ps);
/** vcnet_settle - credits that are still on their way are nobody's event: take them. */
void vcnet_settle(struct vcnet *w);
/** vcnet_ticks - clock raw: time for time-outs passes at all switches, and nobody waits for it. */
void vcnet_ticks(struct vcnet *w, uint32_t ticks);

/**
 * vcnet_holds - what must hold in every switch and on every cable, now. If it does not, it is
 * printed.
 */
bool vcnet_holds(struct vcnet *w);
/**
 * vcnet_free - all places, channels and buffers are free.
 * @lossy: but for inputs that nobody told that it is over.
 */
bool vcnet_free(struct vcnet *w, bool lossy);
/** vcnet_judge - of all packets of all nodes; they must keep lists of what came. */
struct vcnet_verdict vcnet_judge(const struct vcnet *w);

/** vcnet_count - packets that are in that state. */
uint32_t vcnet_count(const struct vcnet *w, enum post_state state);

/** VCNET_SUM - a counter of struct switch_counts, of all switches. */
#define VCNET_SUM(w, counter) vcnet_sum(w, offsetof(struct switch_counts, counter))
uint64_t vcnet_sum(const struct vcnet *w, size_t counter);

/** vcnet_digest - of everything that came anywhere and every reply, and when. */
uint64_t vcnet_digest(const struct vcnet *w);

/* vcnode.c: for vcnet.c. */
void vcnode_take_credits(struct vcnode *p, uint64_t at_ps);
uint32_t vcnode_step(struct emu_dev *dev, uint64_t until_ps);

#endif
