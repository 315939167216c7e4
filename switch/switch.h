/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * switch.h - creates a router; the profile selects one of these kinds.
 *
 * crosspoint/     output-queued, with crosspoint buffers and combine units.
 *                 Source: output-queued routers §2.
 * input/fifo.c    the same, with a buffer at each input. Source: output-queued routers §5.
 * input/slots.c   input-queued with a central arbiter, the baseline. No combine units.
 * channel/        virtual channels and acknowledgments. No combine units of its own.
 *                 Source: QsNet III §III, §IV.
 */
#ifndef SWITCH_SWITCH_H
#define SWITCH_SWITCH_H

#include "switch/common/device.h"

/**
 * switch_create - create a switch without cables.
 * @ports: external ports, at most TOPO_PORTS_MAX, and with the combine units SWITCH_ROWS_MAX.
 * @route, @profile: borrowed for the lifetime of the switch.
 * With channels its cables must be joined with emu_vc_ring() credits.
 * Errors: -ENOMEM; -EINVAL, profile, clock and number of ports do not fit together.
 */
int switch_create(struct switch_dev **ret, struct emu_worker *worker, uint32_t ports,
                  const struct topo_route *route, const struct emu_profile *profile, uint64_t seed);

/** switch_has_clock - does this kind support timed clocks (@timed), or clock raw? Pure. */
bool switch_has_clock(const struct emu_profile *profile, bool timed);

/** switch_combines - has it combine units of its own? Else its groups only multicast. Pure. */
bool switch_combines(const struct emu_profile *profile);

/** switch_segments - segments that a switch can hold. Pure. */
uint32_t switch_segments(uint32_t ports, const struct emu_profile *profile);

/** switch_bytes - memory of a switch, including the rings of its outputs. Pure. */
size_t switch_bytes(uint32_t ports, const struct emu_profile *profile);

/** switch_has_links - can links go down, and are lost segments sent again? Pure. */
bool switch_has_links(const struct emu_profile *profile);

/**
 * switch_can_do_without - does this kind support switch_link(), so that no new segments use a link?
 * By itself that loses no segments. Pure.
 */
bool switch_can_do_without(const struct emu_profile *profile);

#endif
