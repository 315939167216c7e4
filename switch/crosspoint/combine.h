/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * combine.h - the combine units, which combine the contributions of a group's members (combine.c).
 * Used by the switch's worker only, on published groups. "Raw" marks functions for clock raw only.
 */
#ifndef SWITCH_COMBINE_H
#define SWITCH_COMBINE_H

#include "switch/crosspoint/crosspoint.h"

/* Raw. Let the units take contributions, and send results. Returns the number of contributions. */
uint32_t switch_combine(struct switch_crosspoints_raw *raw);

/* Return whether unit @u has results that wait. */
static inline bool switch_unit_pending(const struct switch_crosspoints *xp, uint32_t u)
{
    return xp->unit[u].first != xp->unit[u].last;
}

/*
 * Raw. Combine a contribution straight from a process's memory into a state that has other
 * contributions already, if the group combines in the order of arrival. False: nothing was done.
 */
bool switch_unit_add(struct switch_crosspoints *xp, const struct switch_group *group, uint32_t u,
                     uint32_t row, const struct emu_hdr *hdr, const struct emu_seg *seg);

/*
 * Raw, switches with one unit. Return the output ports of the result that a contribution with @hdr
 * would complete by switch_unit_end(); empty: it would complete none.
 */
emu_ports switch_unit_ends(const struct switch_crosspoints *xp, const struct switch_group *group,
                           uint32_t row, const struct emu_hdr *hdr);

/*
 * Raw. Combine a contribution for which switch_unit_ends() has returned outputs, and end its
 * operation. Returns the buffer of the result, which the caller sends and drops, and the result's
 * header in *@result. The caller counts the contribution and the result.
 */
uint32_t switch_unit_end(struct switch_crosspoints *xp, const struct switch_group *group,
                         uint32_t row, const struct emu_hdr *hdr, const struct emu_seg *seg,
                         struct emu_hdr *result);

/*
 * Raw, switches with one unit. Do as switch_unit_add() for up to @most consecutive contributions
 * that complete no result and differ from the first one (@hdr and @seg) only in sequence number and
 * payload. Takes them from @hostif. Overwrites *@hdr. Returns how many.
 */
uint32_t switch_unit_add_run(struct switch_crosspoints *xp, const struct switch_group *group,
                             uint32_t row, struct emu_hostif *hostif, struct emu_hdr *hdr,
                             const struct emu_seg *seg, uint32_t most);

/* Raw. Let unit @u process a contribution that was not queued at its crosspoint. */
void switch_unit_fold(struct switch_crosspoints *xp, const struct switch_group *group, uint32_t u,
                      uint32_t row, const struct emu_entry *in);

/* Let unit @u process the oldest segment of @row at @at_ps. The caller then flushes results. */
void switch_unit_take(struct switch_crosspoints *xp, uint32_t u, uint32_t row, uint64_t at_ps);

/* Move the waiting results of all units, or of unit @u, to crosspoints of its row with space. */
void switch_units_flush(struct switch_crosspoints *xp, uint64_t at_ps);
void switch_unit_flush(struct switch_crosspoints *xp, uint32_t u, uint64_t at_ps);

#endif
