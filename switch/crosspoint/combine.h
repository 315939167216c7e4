/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * combine.h - the combine units: combine.c. The switch's worker only, on groups that are published.
 */
#ifndef SWITCH_COMBINE_H
#define SWITCH_COMBINE_H

#include "switch/crosspoint/crosspoint.h"

/* Raw. The units take contributions and send results back into the crossbar. */
uint32_t switch_combine(struct switch_crosspoints_raw *raw);

/* Does unit @u have results that wait? */
static inline bool switch_unit_pending(const struct switch_crosspoints *xp, uint32_t u)
{
    return xp->unit[u].first != xp->unit[u].last;
}

/*
 * Raw. Add a contribution to a state that has others, from where it lies, if it may be
 * folded as it comes. False: nothing was done.
 */
bool switch_unit_add(struct switch_crosspoints *xp, const struct switch_group *group, uint32_t u,
                     uint32_t row, const struct emu_hdr *hdr, const struct emu_seg *seg);

/*
 * Raw, the switch's only unit. Where does the result go that a contribution with @hdr completes, if
 * it is one that switch_unit_end() may add? 0: it completes none.
 */
emu_ports switch_unit_ends(const struct switch_crosspoints *xp, const struct switch_group *group,
                           uint32_t row, const struct emu_hdr *hdr);

/*
 * Raw. Such a contribution is added as by switch_unit_add(), and its state is over. Returns the
 * buffer with the result, for the caller to send where it goes, and to drop; *@result is its
 * header. Nothing is counted.
 */
uint32_t switch_unit_end(struct switch_crosspoints *xp, const struct switch_group *group,
                         uint32_t row, const struct emu_hdr *hdr, const struct emu_seg *seg,
                         struct emu_hdr *result);

/*
 * Raw, the switch's only unit. The same for contributions in a row that complete nothing, as far as
 * they are like the first, @hdr and @seg, but for their numbers; @most at most. @edge: that they
 * come by, where they are done with. @hdr is written. Returns how many.
 */
uint32_t switch_unit_add_run(struct switch_crosspoints *xp, const struct switch_group *group,
                             uint32_t row, struct emu_hostif *edge, struct emu_hdr *hdr,
                             const struct emu_seg *seg, uint32_t most);

/*
 * Raw. The same for a contribution that nothing waits before: it need not stand at the unit's
 * crosspoint.
 */
void switch_unit_fold(struct switch_crosspoints *xp, const struct switch_group *group, uint32_t u,
                      uint32_t row, const struct emu_entry *in);

/* Unit @u takes the oldest segment of @row, done at @at_ps. Results wait to be flushed. */
void switch_unit_take(struct switch_crosspoints *xp, uint32_t u, uint32_t row, uint64_t at_ps);

/* Results enter their unit's row as far as there is room; timed: at @at_ps. */
void switch_units_flush(struct switch_crosspoints *xp, uint64_t at_ps);

/* Results of unit @u enter its row as far as there is room; timed: at @at_ps. */
void switch_unit_flush(struct switch_crosspoints *xp, uint32_t u, uint64_t at_ps);

#endif
