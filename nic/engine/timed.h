/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timed.h - the engine on a clock that has times: real or virtual. What raw has instead stands in
 * raw.c.
 *
 * Owner: the engine's worker.
 */
#ifndef NIC_ENGINE_TIMED_H
#define NIC_ENGINE_TIMED_H

#include "nic/engine/internal.h"

struct engine_timed {
    struct engine base; /* first: engine_timed_of() */
    /* when the delivery goes on; EMU_NEVER: nothing, or no room at the host */
    uint64_t out_ps;
    uint64_t recv_ps;      /* from the judgement of a packet until it is in the host's memory, */
    uint64_t lookahead_ps; /* and never less than this */
    uint64_t handed_ps;    /* when the last segment for the host is in memory */
    /* the last segment of what is being delivered was here so long before it showed */
    uint64_t early_ps;
    /* the same of the last one on each channel of each link: as engine_receiving.incoming */
    uint64_t last_early_ps[ENGINE_LINKS_MAX * EMU_VCS];
};

static inline struct engine_timed *engine_timed_of(struct engine *e)
{
    assert(e->dev.timed);
    return (struct engine_timed *)e;
}

#endif
