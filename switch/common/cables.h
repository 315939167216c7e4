/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cables.h - optional stages between a switch's ports and its cables: faults, and the two halves of
 * link-level retry (emu/retry/intake.h, replay.h).
 *
 * They are transparent to the switch: its step function is wrapped by one that lets the intakes
 * receive first, then steps the switch, then lets intakes and replay buffers send. A switch without
 * such stages has no struct switch_cables and keeps its step. The switch's worker owns all of it.
 */
#ifndef SWITCH_CABLES_H
#define SWITCH_CABLES_H

#include "emu/retry/replay.h"
#include "switch/common/base.h"

struct switch_cables {
    emu_step_fn step; /* the wrapped one */
    emu_ports in;     /* ports with an intake */
    emu_ports out;    /* ports with a replay buffer */
    struct emu_intake *intake[TOPO_PORTS_MAX];
    struct emu_replay *replay[TOPO_PORTS_MAX];
};

/* faults of a struct switch_kind. */
int switch_cables_faults(struct switch_dev *sw, uint32_t port, struct emu_faults *faults);

/* The cable at @port lost its signal, or has it again: part of link of a struct switch_kind. */
void switch_cables_link(struct switch_dev *sw, uint32_t port, bool up, uint64_t at_ps);

void switch_cables_free(struct switch_dev *sw);
void switch_cables_rebase(struct switch_dev *sw, uint64_t by_ps);

/* Pool buffers that intakes and replay buffers hold. */
uint32_t switch_cables_bufs(const struct switch_dev *sw);

/* Does a replay buffer hold a segment of group @id, or is one on a cable to an intake here? */
bool switch_cables_hold(const struct switch_dev *sw, uint32_t id);

/* The intake of @port; NULL: it has none. */
static inline const struct emu_intake *switch_intake(const struct switch_dev *sw, uint32_t port)
{
    return sw->cables ? sw->cables->intake[port] : NULL;
}

#endif
