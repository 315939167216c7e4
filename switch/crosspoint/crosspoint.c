/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crosspoint.c - a switch with crosspoint buffers is made, and taken apart.
 */
#include "switch/crosspoint/crosspoint.h"

#include <stdlib.h>

static bool crosspoint_fits(const struct emu_profile *profile)
{
    return !emu_profile_acknowledged(profile) && profile->buffers == EMU_BUFFERS_XPOINT;
}

uint32_t switch_crosspoints_segments(uint32_t ports, const struct emu_profile *profile)
{
    uint32_t rows = ports + profile->combine_units;

    return rows * rows * profile->xpoint_slots;
}

size_t switch_crosspoints_bytes(uint32_t ports, uint32_t slots, const struct emu_profile *profile)
{
    uint32_t units = profile->combine_units, rows = ports + units;

    return sizeof(struct switch_crosspoints_timed) +
           switch_crossbar_bytes(ports, rows, slots, profile) +
           rows * (sizeof(struct switch_level) + sizeof(struct switch_settling)) +
           switch_agenda_bytes(rows) +
           units * (sizeof(struct switch_unit) + sizeof(struct switch_work) +
                    SWITCH_PENDING_MAX * sizeof(uint32_t)) +
           sizeof(struct switch_copies) + ports * EMU_XPOINT_MAX + slots * sizeof(uint16_t);
}

static size_t crosspoint_bytes(uint32_t ports, const struct emu_profile *profile)
{
    return switch_crosspoints_bytes(ports, switch_crosspoints_segments(ports, profile), profile);
}

bool switch_crosspoints_sane(uint32_t ports, const struct emu_profile *profile)
{
    uint32_t credits = emu_profile_credits(profile);

    return ports + profile->combine_units <= SWITCH_ROWS_MAX && profile->xpoint_slots &&
           profile->xpoint_slots <= EMU_XPOINT_MAX && credits && credits <= EMU_INPUT_MAX;
}

static bool timing_init(struct switch_timing *timing, uint32_t rows, uint32_t units)
{
    timing->level = calloc(rows, sizeof *timing->level);
    timing->work = calloc(units, sizeof *timing->work);
    for (uint32_t r = 0; timing->level && r < rows; r++)
        timing->level[r].at[0] = (uint8_t)rows;
    return switch_agenda_init(&timing->agenda, rows) && timing->level && timing->work;
}

static void timing_free(struct switch_timing *timing)
{
    if (!timing)
        return;
    free(timing->agenda.acts.event);
    free(timing->work);
    free(timing->level);
}

static bool units_init(struct switch_crosspoints *xp, uint32_t ports)
{
    xp->leaf_ports = xp->units > 1 ? (ports + xp->units - 2) / (xp->units - 1) : ports;
    xp->unit = calloc(xp->units, sizeof *xp->unit);
    for (uint32_t u = 0; xp->unit && u < xp->units; u++) {
        xp->backed |= emu_bit(ports + u);
        xp->unit[u].group = calloc(SWITCH_PENDING_MAX, sizeof(uint32_t));
        if (!xp->unit[u].group)
            return false;
    }
    return xp->unit;
}

bool switch_crosspoints_init(struct switch_crosspoints *xp, bool timed, uint32_t slots)
{
    const struct switch_dev *sw = &xp->bar.sw;

    xp->units = sw->profile->combine_units;
    xp->xpoint_slots = sw->profile->xpoint_slots;
    xp->shut = UINT64_MAX;
    if (!switch_crossbar_init(&xp->bar, sw->ports + xp->units, slots) || !units_init(xp, sw->ports))
        return false;
    if (timed)
        xp->timing = &((struct switch_crosspoints_timed *)xp)->timing;
    return !timed || timing_init(xp->timing, xp->bar.rows, xp->units);
}

void switch_crosspoints_free(struct switch_crosspoints *xp)
{
    for (uint32_t u = 0; xp->unit && u < xp->units; u++)
        free(xp->unit[u].group);
    free(xp->unit);
    timing_free(xp->timing);
    switch_crossbar_free(&xp->bar);
}

/* --- the kind ----------------------------------------------------------------------- */

static void crosspoint_destroy(struct switch_dev *sw)
{
    struct switch_crosspoints *xp = switch_crosspoints_of(sw);

    if (xp->copies) {
        free(xp->copies->left);
        free(xp->copies->of);
    }
    free(xp->copies);
    free(xp->settling);
    switch_crosspoints_free(xp);
}

static bool credit_by_counter(struct switch_crosspoints *xp, uint32_t slots)
{
    struct switch_copies *copies = xp->copies = calloc(1, sizeof *copies);

    xp->admit = switch_admit_copies;
    if (!copies)
        return false;
    copies->left = calloc(xp->bar.sw.ports, sizeof *copies->left);
    copies->of = switch_lines(slots * sizeof *copies->of);
    return copies->left && copies->of;
}

static bool credit_by_row(struct switch_crosspoints *xp)
{
    if (xp->timing) {
        xp->timing->by_row = true;
        xp->admit = switch_admit_level;
        return true;
    }
    xp->through = true;
    xp->admit = switch_admit_settling;
    xp->settling = calloc(xp->bar.sw.ports, sizeof *xp->settling);
    return xp->settling;
}

static bool crosspoint_init(struct switch_dev *sw, bool timed)
{
    struct switch_crosspoints *xp = switch_crosspoints_of(sw);
    uint32_t slots = switch_crosspoints_segments(sw->ports, sw->profile);

    return switch_crosspoints_init(xp, timed, slots) &&
           (sw->profile->credit == EMU_CREDIT_ROW ? credit_by_row(xp)
                                                  : credit_by_counter(xp, slots));
}

static uint32_t crosspoint_bufs(struct switch_dev *sw)
{
    return switch_crossbar_bufs(switch_crossbar_of(sw));
}

static const char *check_row(struct switch_dev *sw, uint32_t r, uint64_t now_ps, uint64_t *held,
                             uint64_t *waited_ps)
{
    const struct switch_crosspoints *xp = switch_crosspoints_of(sw);
    const char *wrong = switch_crosspoints_check_row(xp, r);

    (void)now_ps, (void)held, (void)waited_ps; /* nothing is but at the crosspoints */
    if (wrong || r >= sw->ports)
        return wrong;
    return switch_crossbar_check_cable(&xp->bar, r, switch_crosspoints_holds(xp, r));
}

static const char *crosspoint_check(struct switch_dev *sw, uint64_t now_ps)
{
    return switch_crosspoints_check(sw, now_ps, check_row);
}

const struct switch_kind switch_crosspoint_kind = {
    .raw = {sizeof(struct switch_crosspoints), switch_step_raw},
    .timed = {sizeof(struct switch_crosspoints_timed), switch_step_timed},
    .combines = true,
    .fits = crosspoint_fits,
    .sane = switch_crosspoints_sane,
    .segments = switch_crosspoints_segments,
    .bytes = crosspoint_bytes,
    .init = crosspoint_init,
    .destroy = crosspoint_destroy,
    .tx = switch_crossbar_tx,
    .rx = switch_crossbar_rx,
    .check = crosspoint_check,
    .bufs = crosspoint_bufs,
    .rebase = switch_crosspoints_rebase,
};
