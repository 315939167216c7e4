/* SPDX-License-Identifier: BSD-3-Clause */
/* timed.h - the engine on a clock that has times: real or virtual. Used by its worker only. */
#ifndef NIC_ENGINE_TIMED_H
#define NIC_ENGINE_TIMED_H

#include "nic/engine/internal.h"

struct engine_timed {
    struct engine base; /* first: engine_timed_of() */
    /* when the delivery continues; EMU_NEVER: nothing to deliver, or no space at the host */
    uint64_t out_ps;
    uint64_t recv_ps;      /* from the check of a packet until it is in the host's memory, */
    uint64_t lookahead_ps; /* at least */
    uint64_t handed_ps;    /* when the last segment for the host is in memory */
    /* how long the last segment of the current delivery had arrived before it became visible */
    uint64_t early_ps;
    /*
     * the same for the last one on each channel of each link: same index as
     * engine_receiving.incoming
     */
    uint64_t last_early_ps[ENGINE_LINKS_MAX * EMU_VCS];
};

static inline struct engine_timed *engine_timed_of(struct engine *e)
{
    assert(e->dev.timed);
    return (struct engine_timed *)e;
}

#endif
