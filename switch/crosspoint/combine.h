/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * combine.h - the combine units. The switch's worker only, on published groups. "Raw" marks
 * functions for clock raw only.
 */
#ifndef SWITCH_COMBINE_H
#define SWITCH_COMBINE_H

#include "switch/crosspoint/crosspoint.h"

/* Raw. Let the units take contributions and send results. Returns the contributions taken. */
uint32_t switch_combine(struct switch_crosspoints_raw *raw);

/* Does unit @u have results that wait? */
static inline bool switch_unit_pending(const struct switch_crosspoints *xp, uint32_t u)
{
    return xp->unit[u].first != xp->unit[u].last;
}

/*
 * Raw. Combine a contribution straight from a process's memory into a state that has others, if
 * combining by arrival is allowed. False: nothing was done.
 */
bool switch_unit_add(struct switch_crosspoints *xp, const struct switch_group *group, uint32_t u,
                     uint32_t row, const struct emu_hdr *hdr, const struct emu_seg *seg);

/*
 * Raw, switches with one unit. The output ports of the result that a contribution with @hdr would
 * complete by switch_unit_end(); empty: none.
 */
emu_ports switch_unit_ends(const struct switch_crosspoints *xp, const struct switch_group *group,
                           uint32_t row, const struct emu_hdr *hdr);

/*
 * Raw, after switch_unit_ends(). Combine such a contribution and end its operation. Returns the
 * buffer of the result, which the caller sends and drops, and its header in *@result. The caller
 * counts it.
 */
uint32_t switch_unit_end(struct switch_crosspoints *xp, const struct switch_group *group,
                         uint32_t row, const struct emu_hdr *hdr, const struct emu_seg *seg,
                         struct emu_hdr *result);

/*
 * Raw, switches with one unit. switch_unit_add() for a run of up to @most contributions that
 * complete nothing and differ from the first, @hdr and @seg, only in their numbers. Takes them from
 * @hostif. Overwrites *@hdr. Returns how many.
 */
uint32_t switch_unit_add_run(struct switch_crosspoints *xp, const struct switch_group *group,
                             uint32_t row, struct emu_hostif *hostif, struct emu_hdr *hdr,
                             const struct emu_seg *seg, uint32_t most);

/* Raw. Unit @u processes a contribution that has not been queued at its crosspoint. */
void switch_unit_fold(struct switch_crosspoints *xp, const struct switch_group *group, uint32_t u,
                      uint32_t row, const struct emu_entry *in);

/* Unit @u takes the oldest segment of @row and is done at @at_ps. Flush results afterwards. */
void switch_unit_take(struct switch_crosspoints *xp, uint32_t u, uint32_t row, uint64_t at_ps);

/* Move waiting results, of all units or of @u, to their rows as far as these have space. */
void switch_units_flush(struct switch_crosspoints *xp, uint64_t at_ps);
void switch_unit_flush(struct switch_crosspoints *xp, uint32_t u, uint64_t at_ps);

#endif
