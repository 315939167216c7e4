/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cables.h - what stands between a switch's ports and its cables, where anything does: faults, and
 * the two halves of link-level retry (emu/retry/intake.h, replay.h).
 *
 * A machine knows nothing of it: its step is taken over by one that lets the intakes take first,
 * then steps the machine, then lets intakes and replay buffers send. A switch without any of this
 * keeps its own step, and NULL. All of it is the switch's worker's.
 */
#ifndef SWITCH_CABLES_H
#define SWITCH_CABLES_H

#include "emu/retry/replay.h"
#include "switch/common/base.h"

struct switch_cables {
    emu_step_fn step; /* the machine's own */
    emu_ports in;     /* ports with an intake */
    emu_ports out;    /* ports with a replay buffer */
    struct emu_intake *intake[TOPO_PORTS_MAX];
    struct emu_replay *replay[TOPO_PORTS_MAX];
};

/* faults of a struct switch_kind. */
int switch_cables_faults(struct switch_dev *sw, uint32_t port, struct emu_faults *faults);

/* Its cable at @port lost its signal, or has it again: part of link of a struct switch_kind. */
void switch_cables_link(struct switch_dev *sw, uint32_t port, bool up, uint64_t at_ps);

void switch_cables_free(struct switch_dev *sw);
void switch_cables_rebase(struct switch_dev *sw, uint64_t by_ps);

/* Pool buffers on the cables, but those in the rings of the switch's own receiving ends. */
uint32_t switch_cables_bufs(const struct switch_dev *sw);

/* Is a segment of group @id kept for a cable that it leaves by, or on one to an intake here? */
bool switch_cables_hold(const struct switch_dev *sw, uint32_t id);

/* The intake of @port; NULL: it has none. */
static inline const struct emu_intake *switch_intake(const struct switch_dev *sw, uint32_t port)
{
    return sw->cables ? sw->cables->intake[port] : NULL;
}

#endif
