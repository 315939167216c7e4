/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trees.h - hosts that use groups, behind the engines of a whole fabric.
 *
 * A stream is a group and the collectives that its members do, one after the other, as a host's
 * library posts them (emu/packet/seg.h: numbers, half windows, tokens). What the i-th one is, and
 * what each member contributes, is drawn by functions (trees_draw.h), so every result is checked
 * against all contributions, and that none came before the last of these was posted. Beside streams
 * a host sends unicasts, what the test tells it to say, and junk: anything that an edge lets pass.
 *
 * The world owns the fabric, the hosts and the streams. On clock virtual time goes on in
 * trees_advance() and trees_run(); on clock raw in trees_step(), or by threads. Before it is closed
 * trees_wrong() says whether anything was not as it should be, and trees_clean() whether anything
 * is left.
 */
#ifndef TESTS_WORLD_TREES_H
#define TESTS_WORLD_TREES_H

#include "nic/engine/engine.h"
#include "tests/world/engine/trees_draw.h"
#include "tests/world/fabric.h"

#define TREES_STREAMS  16u /* of a host at a time */
#define TREES_LOG      4096u
#define TREES_JUNK     4u
#define TREES_LIMIT_PS 20000000000000u /* simulated: 20 s */

/* How a world is made. What is 0 or NULL has the meaning that it says. */
struct trees_config {
    enum emu_clock_mode clock;
    const char *topo;
    const char *set;     /* "NAME=VALUE ...": what differs from qsnet3 */
    uint32_t workers;    /* 0: one */
    uint32_t streams;    /* at the start, each of random members */
    uint32_t ops;        /* of each */
    uint32_t mix;        /* 0: all but rough */
    uint64_t delay_ps;   /* up to so much between two posts of a member */
    uint64_t delay_seed; /* of these times alone */
    uint64_t nap_ps;     /* a host now and then takes nothing for up to so long */
    uint32_t noise;      /* unicasts of each host; of three one is EMU_NOTIFY */
    uint32_t junk;       /* segments of each host to w->junk_id */
    uint64_t cut_ps;     /* time is advanced by up to so much; 0: by as much as one likes */
    uint32_t faults;     /* in a million entries: of each kind */
    uint32_t lost;       /* only losses, instead */
    bool all;            /* streams have all nodes */
};

/* A host's place in a stream. As in nic/host/group/stream.c. */
struct tree_member {
    struct tree_stream *stream;
    uint64_t next; /* operation to post next */
    uint64_t due_ps;
    uint64_t random; /* of its times */
    /* results, and words that all have them, that are still to come; and posts */
    uint32_t left;
    uint32_t cur, issued, done; /* half windows */
    uint8_t *complete;          /* by half window: operations */
    bool *token_back;           /* by half window */
    uint8_t *got;               /* by operation: results */
    uint8_t *told;              /* by operation */
};

/* What the test says to a host, or a host heard that is not of a stream. */
struct tree_line {
    uint64_t at_ps;
    struct emu_hdr hdr;
    uint8_t payload[EMU_PAYLOAD_BYTES];
};

struct trees;

struct tree_host {
    alignas(EMU_LINE) struct emu_dev dev;
    struct emu_tx tx;
    struct emu_rx rx;
    struct trees *world;
    uint32_t node;
    uint32_t members;
    struct tree_member *member[TREES_STREAMS];
    uint64_t now_ps; /* timed: of the last thing that it did */
    uint64_t nap_ps; /* timed: takes nothing before */
    uint64_t random;
    uint32_t noise; /* sent */
    uint32_t junk;  /* sent */
    struct tree_line *script;
    uint32_t lines, said;
    struct tree_line *log;
    uint32_t heard; /* lines in it */
    uint64_t digest;
    uint64_t bits; /* of the results of reductions: the same in whatever order they came */
    _Atomic uint64_t results; /* of streams, right */
    _Atomic uint64_t wrong;   /* not as they should be */
    _Atomic uint64_t other;   /* of no stream */
};

struct trees {
    struct trees_config set;
    struct emu_profile profile;
    struct emu_fault_rates rates;
    struct topo_graph *graph;
    struct fabric *fabric;
    struct fabric_node_ops ops;
    uint32_t hosts;
    struct tree_host *host[TREES_HOSTS];
    struct tree_stream *stream[TREES_STREAMS];
    uint32_t streams;
    _Atomic uint8_t *noise_got; /* [source][number] */
    _Atomic uint8_t *noise_told;
    _Atomic uint64_t noise_left;
    _Atomic uint32_t junk_id[TREES_JUNK];
    uint64_t seed;
    uint64_t cut_random;
    uint64_t now_ps;     /* virtual: up to where trees_advance() has come */
    uint64_t spare_bufs; /* for groups, at the start */
};

/** trees_open - with its streams and their groups; nothing has moved yet. */
void trees_open(struct trees *w, const struct trees_config *set);
/** trees_close - whatever is under way. */
void trees_close(struct trees *w);

/** trees_threads - clock raw: the workers run, until trees_threads_stop(). */
void trees_threads(struct trees *w);
void trees_threads_stop(struct trees *w);

/** trees_advance - clock virtual: time goes on to @until_ps. */
void trees_advance(struct trees *w, uint64_t until_ps);
/** trees_run - clock virtual: until nothing is left to happen, or @limit_ps. */
void trees_run(struct trees *w, uint64_t limit_ps);
/** trees_step - clock raw, by hand: until all is through and idle. False: not in so many passes. */
bool trees_step(struct trees *w, uint32_t passes);

/** trees_say - the host will say this at @at_ps, after what it was told to say before. */
void trees_say(struct trees *w, uint32_t node, const struct emu_hdr *hdr, const void *payload,
               uint64_t at_ps);
/**
 * trees_heard - how often it heard a segment of that kind, group and number, of no stream. Last:
 * *ret.
 */
uint32_t trees_heard(const struct tree_host *h, uint8_t kind, uint32_t dst, uint32_t seq,
                     struct tree_line *ret);

/** trees_nodes - @count different nodes, at random. */
void trees_nodes(const struct trees *w, uint64_t *random, uint32_t *node, uint32_t count);
/** trees_group_of_all - a group of all hosts, of no stream; its address. */
static inline uint32_t trees_group_of_all(struct trees *w)
{
    return world_group_of_first(w->fabric, w->hosts);
}

/**
 * trees_stream - a stream of @ops operations over a new group of these nodes, from now on. Virtual,
 * or before the start.
 */
struct tree_stream *trees_stream(struct trees *w, const uint32_t *node, uint32_t members,
                                 uint32_t ops, uint64_t seed);
/**
 * trees_stream_end - all leave the group of stream @at, whatever is under way. Virtual, or nothing
 * runs.
 */
void trees_stream_end(struct trees *w, uint32_t at);

/** trees_through - is everything through that the hosts do of themselves? */
bool trees_through(const struct trees *w);
/** trees_wrong, trees_other - segments that were not as they should be, and those of no stream. */
uint64_t trees_wrong(const struct trees *w);
uint64_t trees_other(const struct trees *w);
/**
 * trees_clean - all leave; then no engine keeps anything, everything that groups set aside is back,
 * and every buffer. On clock raw switches may keep some on stale channels. Nothing runs.
 */
bool trees_clean(struct trees *w);
/** trees_digest - of all that the hosts heard, and when. */
uint64_t trees_digest(const struct trees *w);

/** COUNT - a counter of struct engine_counts, of all hosts' engines. */
#define COUNT(w, field) trees_count(w, offsetof(struct engine_counts, field))
uint64_t trees_count(const struct trees *w, size_t offset);

/* Between the files of this world. */

/* trees_host.c: a host at a node; and that it looks again, between two advances or at the start. */
int trees_host(void *ctx, uint32_t node, struct emu_worker *worker, struct emu_dev **dev,
               struct emu_tx **tx, struct emu_rx **rx);
void trees_wake(struct trees *w, uint32_t node);
/* trees_host.c: unicast @i of @node. */
void trees_noise(const struct trees *w, uint32_t node, uint32_t i, struct emu_hdr *hdr);

/* trees_member.c: whether a member may post, what, how long it waits then, and what it takes. */
struct tree_member *trees_member_create(const struct trees *w, struct tree_stream *s,
                                        uint32_t node);
void trees_member_destroy(struct tree_member *m);
bool trees_member_may_post(struct tree_member *m, uint32_t node);
void trees_member_post(struct tree_host *h, struct tree_member *m, struct tree_line *ret);
uint64_t trees_member_delay_ps(struct trees *w, struct tree_member *m);
/* False: it is not what it should be, or not once, or before it can be. */
bool trees_member_take(struct tree_host *h, struct tree_member *m, const struct emu_entry *entry);
uint64_t trees_bytes_sum(const uint8_t *bytes, uint32_t count);

#endif
