/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cables.h - optional stages between a switch's ports and its cables: an *intake*
 * (emu/retry/intake.h) receives for a port from a cable with faults or link-level retry, and a
 * *replay buffer* (emu/retry/replay.h) sends for a port over a cable with link-level retry.
 *
 * The switch does not notice these stages. Its step function is replaced by one that lets the
 * intakes receive, then steps the switch, then lets intakes and replay buffers send. A switch
 * without such stages has no struct switch_cables, and its step function is not replaced. The
 * switch's worker owns all data.
 */
#ifndef SWITCH_CABLES_H
#define SWITCH_CABLES_H

#include "emu/retry/replay.h"
#include "switch/common/base.h"

struct switch_cables {
    emu_step_fn step; /* the switch's own step function */
    emu_ports in;     /* ports with an intake */
    emu_ports out;    /* ports with a replay buffer */
    struct emu_intake *intake[TOPO_PORTS_MAX];
    struct emu_replay *replay[TOPO_PORTS_MAX];
};

/* faults() of a struct switch_kind. */
int switch_cables_faults(struct switch_dev *sw, uint32_t port, struct emu_faults *faults);

/* link() of a struct switch_kind calls this when the cable at @port loses or regains its signal. */
void switch_cables_link(struct switch_dev *sw, uint32_t port, bool up, uint64_t at_ps);

void switch_cables_free(struct switch_dev *sw);
void switch_cables_rebase(struct switch_dev *sw, uint64_t by_ps);

/* Return how many pool buffers the intakes and replay buffers hold. */
uint32_t switch_cables_bufs(const struct switch_dev *sw);

/*
 * Return whether a replay buffer of this switch holds a segment of group @id, or whether one is on
 * a cable without link-level retry that leads into an intake of this switch.
 */
bool switch_cables_hold(const struct switch_dev *sw, uint32_t id);

/* Return the intake of @port; NULL: it has none. */
static inline const struct emu_intake *switch_intake(const struct switch_dev *sw, uint32_t port)
{
    return sw->cables ? sw->cables->intake[port] : NULL;
}

#endif
