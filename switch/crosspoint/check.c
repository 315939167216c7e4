/* SPDX-License-Identifier: BSD-3-Clause */
/* check.c - check the state of crosspoints by counting it again, and rebase their times. */
#include "switch/crosspoint/crosspoint.h"

uint8_t switch_crosspoints_fullest(const struct switch_crosspoints *xp, uint32_t r)
{
    uint8_t fullest = 0;

    for (uint32_t o = 0; o < xp->bar.rows; o++)
        fullest = *switch_count(&xp->bar, r, o) > fullest ? *switch_count(&xp->bar, r, o) : fullest;
    return fullest;
}

const char *switch_crosspoints_check_row(struct switch_crosspoints *xp, uint32_t r)
{
    for (uint32_t full = 1; xp->bar.sw.dev.timed && full <= xp->xpoint_slots; full++) {
        uint32_t crosspoints = 0;

        for (uint32_t o = 0; o < xp->bar.rows; o++)
            crosspoints += *switch_count(&xp->bar, r, o) >= full;
        if (crosspoints != *switch_level(&xp->bar, r, full))
            return "a row's counts of crosspoints by fill level are wrong";
    }
    return NULL;
}

/* Return whether the length of unit @u's list is the number of groups with waiting results. */
static bool check_unit(const struct switch_crosspoints *xp, uint32_t u)
{
    const struct emu_table *table = atomic_load_explicit(&xp->bar.sw.groups, memory_order_relaxed);
    const struct switch_unit *unit = &xp->unit[u];
    uint32_t waiting = 0, listed = 0;

    for (uint32_t g = 0; table && g < table->count; g++) {
        const struct switch_group *group =
            atomic_load_explicit(&table->at[g], memory_order_relaxed);

        waiting += group && group->units && group->results[u].pending;
    }
    for (uint32_t at = unit->first; at != unit->last; at++)
        listed += switch_group_of(&xp->bar.sw, unit->group[at % SWITCH_PENDING_MAX]) != NULL;
    return waiting == listed;
}

void switch_crosspoints_check(struct switch_dev *sw, uint64_t now_ps,
                              const struct emu_reporter *reporter)
{
    struct switch_crosspoints *xp = switch_crosspoints_of(sw);

    switch_crossbar_check(sw, now_ps, reporter);
    for (uint32_t u = 0; u < xp->units; u++)
        if (!check_unit(xp, u))
            emu_report_error(reporter, EMU_NO_PORT,
                             "a combine unit's list of waiting groups is wrong");
}

/* --- rebase ------------------------------------------------------------------------- */

/* Rebase the times at which partial results were complete. */
static void rebase_groups(struct switch_dev *sw, uint64_t by_ps)
{
    const struct emu_table *table = atomic_load_explicit(&sw->groups, memory_order_relaxed);

    for (uint32_t g = 0; table && g < table->count; g++) {
        struct switch_group *group = atomic_load_explicit(&table->at[g], memory_order_relaxed);

        for (uint32_t i = 0; group && group->units && i < group->window; i++)
            for (uint32_t u = 0; u < group->units; u++)
                switch_rebase_time(&switch_group_partial(group, i, u)->done_ps, by_ps);
    }
}

void switch_crosspoints_rebase(struct switch_dev *sw, uint64_t by_ps)
{
    struct switch_crosspoints *xp = switch_crosspoints_of(sw);
    struct switch_timing *timing = switch_timing_of(xp);

    switch_crossbar_rebase(&xp->bar, by_ps);
    rebase_groups(sw, by_ps);
    emu_order_rebase(&timing->agenda.acts, by_ps);
    switch_rebase_time(&xp->bar.little.last_ps, by_ps);
    for (uint32_t u = 0; u < xp->units; u++)
        switch_rebase_time(&timing->work[u].free_ps, by_ps);
}
