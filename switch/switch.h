/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * switch.h - the router, of four kinds behind one interface: the profile says which.
 *
 * crosspoint/     output-queued, with crosspoint buffers and combine units.
 *                 Source: output-queued routers §2.
 * input/fifo.c    the same, behind a buffer at each input. Source: there, §5.
 * input/slots.c   input-queued with a central arbiter, the baseline. No combine units.
 * channel/        virtual channels and acknowledgments. No combine units of its own.
 *                 Source: QsNet III §III, §IV.
 */
#ifndef SWITCH_SWITCH_H
#define SWITCH_SWITCH_H

#include "switch/common/device.h"

/**
 * switch_create - a switch, its ports empty.
 * @ports: external ports, at most TOPO_PORTS_MAX, and with the combine units SWITCH_ROWS_MAX.
 * @route, @profile: borrowed, as long as the switch is.
 * With channels its cables are joined with emu_vc_ring() credits.
 * Errors: -ENOMEM; -EINVAL, the profile, the clock and the ports do not go together.
 */
int switch_create(struct switch_dev **ret, struct emu_worker *worker, uint32_t ports,
                  const struct topo_route *route, const struct emu_profile *profile, uint64_t seed);

/** switch_has_clock - is there such a switch for clocks with times (@timed), or for raw? Pure. */
bool switch_has_clock(const struct emu_profile *profile, bool timed);

/** switch_combines - has it combine units of its own? Else its groups only multicast. Pure. */
bool switch_combines(const struct emu_profile *profile);

/** switch_segments - segments that a switch can hold. Pure. */
uint32_t switch_segments(uint32_t ports, const struct emu_profile *profile);

/** switch_bytes - memory that a switch takes, rings of its sending ends included. Pure. */
size_t switch_bytes(uint32_t ports, const struct emu_profile *profile);

/**
 * switch_has_links - can links of the profile's kind of switch go down, and what was on them be
 * sent again? Pure.
 */
bool switch_has_links(const struct emu_profile *profile);

/**
 * switch_can_do_without - can its links be taken out of use, so that nothing new goes by them
 * (switch_link())? What was on them is not lost then, unless it was before. Pure.
 */
bool switch_can_do_without(const struct emu_profile *profile);

#endif
