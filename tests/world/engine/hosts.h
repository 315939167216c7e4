/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts.h - hosts behind engines, and bad cables between these: two engines back to back, or a
 * whole fabric.
 *
 * What host n sends as its i-th segment is drawn by a function, so a receiver knows what every
 * segment must look like; it marks each that came. Nothing is kept but these marks.
 *
 * The world owns the workers or the fabric, the engines, the hosts and what is wrong with the
 * cables. On clock virtual time goes on in hosts_advance() and hosts_run(); on clock raw in
 * hosts_step(), or by threads. Before it is closed hosts_exactly_once() and hosts_clean() say
 * whether each segment was settled once, and whether anything is left.
 */
#ifndef TESTS_WORLD_HOSTS_H
#define TESTS_WORLD_HOSTS_H

#include "nic/engine/engine.h"
#include "tests/world/fabric.h"

#define HOSTS_MAX     16u
#define HOSTS_WORKERS 3u

struct hosts;

/* A segment to send. */
struct hosts_post {
    uint64_t ready_ps; /* no earlier; never less than the one's before */
    uint32_t dst;      /* unicast: a node; multicast: a group, 0: that of all */
    uint8_t kind;
    uint8_t len;
    bool length_only; /* no payload: only its length */
};

struct host {
    alignas(EMU_LINE) struct emu_dev dev;
    struct emu_tx tx;
    struct emu_rx rx;
    struct hosts *world;
    uint32_t node;
    bool deaf;        /* takes nothing */
    uint64_t wake_ps; /* timed: no longer deaf from then on */
    uint64_t posts;   /* to send in all */
    uint64_t sent;
    uint8_t *marks;    /* [source][its post]: how often it came here */
    uint8_t *failures; /* by own posts: how often it was told as failed */
    uint64_t digest;
    uint64_t last_ps; /* time of the last that came */
    _Atomic uint64_t got;
    _Atomic uint64_t failed;
    _Atomic uint64_t wrong; /* not as it was sent */
};

typedef void (*hosts_draw_fn)(const struct hosts *w, uint32_t node, uint64_t i,
                              struct hosts_post *ret);

/* How a world is made. What is 0 or NULL has the meaning that it says. */
struct hosts_config {
    enum emu_clock_mode clock;
    const char *topo;   /* NULL: two engines back to back */
    uint32_t workers;   /* 0: one */
    uint32_t links;     /* back to back; 0: one */
    const char *set;    /* "NAME=VALUE ...": what differs from qsnet3 */
    uint32_t first_seq; /* back to back */
    bool no_group;      /* back to back: the engines know none */
    struct emu_fault_rates faults;
    bool only_one_bad;  /* back to back: faults on the cables to host 1's engine only */
    hosts_draw_fn draw; /* NULL: hosts_draw_mixed */
    uint64_t posts;     /* of each host */
};

struct hosts {
    struct hosts_config set;
    struct emu_profile profile;
    struct emu_clock clock;
    struct topo_graph *graph;
    struct fabric *fabric; /* NULL: back to back */
    struct fabric_node_ops ops;
    struct emu_pool *pool;
    struct emu_worker *worker[HOSTS_WORKERS];
    struct emu_thread *thread[HOSTS_WORKERS];
    struct emu_windows *windows;
    uint32_t hosts;
    struct engine *engine[HOSTS_MAX];
    struct engine_group *member[HOSTS_MAX]; /* back to back: of the group */
    struct host *host[HOSTS_MAX];
    struct emu_faults engine_faults[HOSTS_MAX][ENGINE_LINKS_MAX]; /* at the engine, of its links */
    struct emu_faults *switch_faults;                             /* [switch][port] */
    uint32_t group;
    uint64_t seed;
    uint64_t now_ps;  /* virtual: up to where hosts_advance() has come */
    uint64_t base_ps; /* when hosts begin; less when the clock has been rebased */
};

/**
 * hosts_draw_mixed - to any other host, and through switches to itself; of all lengths, at full
 * speed.
 */
void hosts_draw_mixed(const struct hosts *w, uint32_t node, uint64_t i, struct hosts_post *ret);
/** hosts_draw_whole - whole segments to the next host. */
void hosts_draw_whole(const struct hosts *w, uint32_t node, uint64_t i, struct hosts_post *ret);

/** hosts_begin - as @set says; nothing has moved yet. */
void hosts_begin(struct hosts *w, const struct hosts_config *set);
/** hosts_end - whatever is under way. */
void hosts_end(struct hosts *w);

/** hosts_threads - clock raw: the workers run, until hosts_threads_stop(). */
void hosts_threads(struct hosts *w);
void hosts_threads_stop(struct hosts *w);

/** hosts_advance - clock virtual: time goes on to @until_ps. */
void hosts_advance(struct hosts *w, uint64_t until_ps);
/** hosts_run - clock virtual: until nothing is left to happen, or @limit_ps. */
void hosts_run(struct hosts *w, uint64_t limit_ps);
/**
 * hosts_rebase - clock virtual: turn the clock back, as a fabric on clock real does. Then everybody
 * is stepped: what windows know of times is of the clock before.
 */
void hosts_rebase(struct hosts *w, uint64_t by_ps);
/**
 * hosts_step - clock raw, by hand: until @awaited segments are settled and the engines are idle.
 * False: not in so many passes.
 */
bool hosts_step(struct hosts *w, uint64_t awaited, uint32_t passes);

/** hosts_settled - segments that came, or were told as failed. */
uint64_t hosts_settled(const struct hosts *w);
/** hosts_awaited - as many as there have to be, if none of a group fails. */
uint64_t hosts_awaited(const struct hosts *w);
/** hosts_idle - all engines are. */
bool hosts_idle(const struct hosts *w);
/** hosts_exactly_once - each post came once, or was told as failed once, and all was right. */
bool hosts_exactly_once(const struct hosts *w);
/**
 * hosts_clean - no engine keeps anything, and every buffer is back: on clock raw, of those on stale
 * channels of switches only when somebody needs these. The threads have ended.
 */
bool hosts_clean(struct hosts *w);

/** hosts_mark - how often @src's post @i came to this host. */
uint8_t *hosts_mark(const struct host *h, uint32_t src, uint64_t i);

/** COUNT - a counter of struct engine_counts, of all engines. */
#define COUNT(w, field) hosts_count(w, offsetof(struct engine_counts, field))
uint64_t hosts_count(const struct hosts *w, size_t offset);

/** hosts_flow - the numbers of what node @n sends to @group. */
struct engine_flow *hosts_flow(const struct hosts *w, uint32_t n, uint32_t group);

/* hosts_host.c: for hosts.c. A host of @node, on that worker. */
struct host *hosts_host(struct hosts *w, uint32_t node, struct emu_worker *worker);

#endif
