/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * switch.h - create a switch. The profile selects one of these kinds.
 *
 *   crosspoint/     output-queued, with crosspoint buffers and combine units.
 *                   Source: output-queued routers §2.
 *   input/fifo.c    as crosspoint/, with a buffer at each input. Source: output-queued routers §5.
 *   input/slots.c   input-queued with a central arbiter, the baseline. No combine units.
 *   channel/        virtual channels and acknowledgments. No combine units of its own.
 *                   Source: QsNet III §III, §IV.
 *
 * A *combine unit* is the part of a switch that combines the operands of reductions.
 */
#ifndef SWITCH_SWITCH_H
#define SWITCH_SWITCH_H

#include "switch/common/device.h"

/**
 * switch_create - create a switch without cables.
 * @ports: external ports, at most TOPO_PORTS_MAX, and with the combine units at most
 * SWITCH_ROWS_MAX. @route, @profile: borrowed for the lifetime of the switch. Join the cables of a
 * switch with virtual channels by emu_link_join() with emu_vc_ring() as the number of credits.
 * Errors: -ENOMEM; -EINVAL if profile, clock and number of ports do not fit together.
 */
int switch_create(struct switch_dev **ret, struct emu_worker *worker, uint32_t ports,
                  const struct topo_route *route, const struct emu_profile *profile, uint64_t seed);

/**
 * switch_has_clock - return whether the profile's kind of switch supports the clocks real and
 * virtual, if @timed; otherwise, whether it supports the clock raw, on which nothing takes time.
 * Pure.
 */
bool switch_has_clock(const struct emu_profile *profile, bool timed);

/**
 * switch_combines - return whether the profile's kind of switch has combine units of its own. If
 * not, its groups can only multicast. Pure.
 */
bool switch_combines(const struct emu_profile *profile);

/** switch_segments - return how many segments a switch can hold. Pure. */
uint32_t switch_segments(uint32_t ports, const struct emu_profile *profile);

/** switch_bytes - return the bytes of memory of a switch, including its outputs' rings. Pure. */
size_t switch_bytes(uint32_t ports, const struct emu_profile *profile);

/**
 * switch_links_are_lossless - return whether links may go down: lost segments are sent again, so no
 * segment is lost for good. Pure.
 */
bool switch_links_are_lossless(const struct emu_profile *profile);

/**
 * switch_supports_link_down - return whether the profile's kind of switch supports switch_link(),
 * after which no new segments use a link that is down. Pure.
 */
bool switch_supports_link_down(const struct emu_profile *profile);

#endif
