/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim.h - a fabric in simulated time whose nodes send what a test has written down for them, and
 * write down what arrives and when.
 *
 * It owns the network, the fabric, the nodes and their lists. Time goes on in sim_advance() and
 * sim_drain(); between them everything stands still and sim_holds() asks fabric_check() whether
 * anything is lost.
 */
#ifndef TESTS_WORLD_SIM_H
#define TESTS_WORLD_SIM_H

#include "tests/world/fabric.h"

#define SIM_NODES 64

/* A segment to send, and one that came. */
struct sim_post {
    uint64_t ready_ps; /* no earlier: credits and the wire may make it later */
    struct emu_hdr hdr;
    uint64_t seed; /* of its payload */
};

struct sim_got {
    uint64_t at_ps; /* the time of its entry */
    struct emu_hdr hdr;
    uint8_t payload[EMU_PAYLOAD_BYTES];
};

struct sim_node {
    struct emu_dev dev;
    struct emu_tx tx;
    struct emu_rx rx;
    const struct emu_profile *profile;
    uint32_t node;
    struct sim_post *post; /* in the order of sending */
    uint32_t posts, posts_room, sent;
    struct sim_got *got;
    uint32_t gots, gots_room;
    /* it takes no more than one segment in such a time: the network backs up */
    uint64_t service_ps;
    uint64_t busy_ps; /* until then */
};

struct sim {
    struct topo_graph *graph;
    struct emu_profile profile;
    struct fabric_node_ops ops;
    struct fabric *fabric;
    struct sim_node *node[SIM_NODES];
    uint64_t now_ps;
};

/** sim_start - the network @spec of that profile, on so many workers. */
void sim_start(struct sim *w, const char *spec, const struct emu_profile *profile,
               uint32_t workers);
/** sim_open - the same of oq2004 but for @set, on one. */
void sim_open(struct sim *w, const char *spec, const char *set);

/** sim_close - whatever is under way. */
void sim_close(struct sim *w);

/** sim_post - node @src sends a segment, after all that it was given before. What was posted. */
struct sim_post *sim_post(struct sim *w, uint32_t src, uint64_t ready_ps, struct emu_hdr hdr);

/** sim_advance - time goes on to @until_ps. */
void sim_advance(struct sim *w, uint64_t until_ps);

/** sim_drain - until nothing is left to happen. False: it takes longer than @limit_ps. */
bool sim_drain(struct sim *w, uint64_t limit_ps);

/** sim_holds - everything that fabric_check() knows holds now. If not, it is printed. */
static inline bool sim_holds(struct sim *w)
{
    return world_fabric_holds(w->fabric, w->now_ps);
}

/**
 * sim_payload - what a node sends: small numbers, so that no sum of them overflows or is rounded.
 */
void sim_payload(const struct emu_hdr *hdr, uint64_t seed, uint8_t *bytes);

/** sim_digest - of everything that arrived anywhere, and when. */
uint64_t sim_digest(const struct sim *w);

#endif
