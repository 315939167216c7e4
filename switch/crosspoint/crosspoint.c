/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crosspoint.c - a switch with crosspoint buffers is made, and taken apart.
 */
#include "switch/crosspoint/crosspoint.h"

#include <errno.h>
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

    return switch_crossbar_bytes(ports, rows, slots, profile) + sizeof(struct switch_timing) +
           rows * (sizeof(struct switch_level) + sizeof(struct switch_settling)) + switch_agenda_bytes(rows) +
           units * (sizeof(struct switch_unit) + sizeof(struct switch_work) +
                    SWITCH_PENDING_MAX * sizeof(uint32_t)) +
           sizeof(struct switch_copies) + ports * EMU_XPOINT_MAX + slots * sizeof(uint16_t);
}

static size_t crosspoint_bytes(uint32_t ports, const struct emu_profile *profile)
{
    return sizeof(struct switch_crosspoints) +
           switch_crosspoints_bytes(ports, switch_crosspoints_segments(ports, profile), profile);
}

bool switch_crosspoints_sane(uint32_t ports, const struct emu_profile *profile)
{
    uint32_t credits = emu_profile_credits(profile);

    return ports + profile->combine_units <= SWITCH_ROWS_MAX && profile->xpoint_slots &&
           profile->xpoint_slots <= EMU_XPOINT_MAX && credits && credits <= EMU_INPUT_MAX;
}

static int timing_init(struct switch_crosspoints *xp)
{
    uint32_t rows = xp->bar.rows;
    struct switch_timing *timing = xp->timing = calloc(1, sizeof *timing);

    if (!timing)
        return -ENOMEM;
    timing->level = calloc(rows, sizeof *timing->level);
    timing->work = calloc(xp->units, sizeof *timing->work);
    if (!switch_agenda_init(&timing->agenda, rows) || !timing->level || !timing->work)
        return -ENOMEM;
    for (uint32_t r = 0; r < rows; r++)
        timing->level[r].at[0] = (uint8_t)rows;
    return 0;
}

static void timing_free(struct switch_timing *timing)
{
    if (!timing)
        return;
    free(timing->agenda.acts.event);
    free(timing->work);
    free(timing->level);
    free(timing);
}

static int units_init(struct switch_crosspoints *xp)
{
    uint32_t ports = xp->bar.sw.ports;

    xp->leaf_ports = xp->units > 1 ? (ports + xp->units - 2) / (xp->units - 1) : ports;
    xp->unit = calloc(xp->units, sizeof *xp->unit);
    if (!xp->unit)
        return -ENOMEM;
    for (uint32_t u = 0; u < xp->units; u++) {
        xp->unit[u].group = calloc(SWITCH_PENDING_MAX, sizeof(uint32_t));
        xp->backed |= emu_bit(ports + u);
        if (!xp->unit[u].group)
            return -ENOMEM;
    }
    return 0;
}

int switch_crosspoints_init(struct switch_crosspoints *xp, enum emu_clock_mode clock, uint32_t slots)
{
    struct switch_dev *sw = &xp->bar.sw;

    xp->units = sw->profile->combine_units;
    xp->xpoint_slots = sw->profile->xpoint_slots;
    xp->shut = UINT64_MAX;
    if (!switch_crossbar_init(&xp->bar, sw->ports + xp->units, slots) || units_init(xp) ||
        (clock != EMU_CLOCK_RAW && timing_init(xp)))
        return -ENOMEM;
    return 0;
}

void switch_crosspoints_start(struct switch_crosspoints *xp, struct emu_worker *worker)
{
    emu_dev_init(&xp->bar.sw.dev, worker, xp->timing ? switch_step_timed : switch_step_raw);
}

void switch_crosspoints_free(struct switch_crosspoints *xp)
{
    for (uint32_t u = 0; xp->unit && u < xp->units; u++)
        free(xp->unit[u].group);
    free(xp->unit);
    timing_free(xp->timing);
    switch_crossbar_free(&xp->bar);
}

/* --- the kind ------------------------------------------------------------------------------------ */

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
    switch_base_destroy(sw);
}

static int credit_by_counter(struct switch_crosspoints *xp, uint32_t slots)
{
    struct switch_copies *copies = xp->copies = calloc(1, sizeof *copies);

    xp->admit = switch_admit_copies;
    if (!copies)
        return -ENOMEM;
    copies->left = calloc(xp->bar.sw.ports, sizeof *copies->left);
    copies->of = switch_lines(slots * sizeof *copies->of);
    return copies->left && copies->of ? 0 : -ENOMEM;
}

static int credit_by_row(struct switch_crosspoints *xp)
{
    if (xp->timing) {
        xp->timing->by_row = true;
        xp->admit = switch_admit_level;
        return 0;
    }
    xp->through = true;
    xp->admit = switch_admit_settling;
    xp->settling = calloc(xp->bar.sw.ports, sizeof *xp->settling);
    return xp->settling ? 0 : -ENOMEM;
}

static int crosspoint_create(struct switch_dev **ret, const struct switch_plan *plan)
{
    uint32_t slots = switch_crosspoints_segments(plan->ports, plan->profile);
    struct switch_crosspoints *xp;
    int err;

    if (!switch_crosspoints_sane(plan->ports, plan->profile))
        return -EINVAL;
    xp = switch_base_create(&switch_crosspoint_kind, plan, sizeof *xp);
    if (!xp)
        return -ENOMEM;
    err = switch_crosspoints_init(xp, plan->worker->clock.mode, slots);
    if (!err)
        err = plan->profile->credit == EMU_CREDIT_ROW ? credit_by_row(xp) : credit_by_counter(xp, slots);
    if (err) {
        crosspoint_destroy(&xp->bar.sw);
        return err;
    }
    switch_crosspoints_start(xp, plan->worker);
    *ret = &xp->bar.sw;
    return 0;
}

static uint32_t crosspoint_bufs(struct switch_dev *sw)
{
    return switch_crossbar_bufs(switch_crossbar_of(sw));
}

static const char *crosspoint_check(struct switch_dev *sw, uint64_t now_ps)
{
    const struct switch_crosspoints *xp = switch_crosspoints_of(sw);
    uint64_t held = 0, waited_ps = 0;

    for (uint32_t r = 0; r < xp->bar.rows; r++) {
        const char *wrong = switch_crosspoints_check(xp, r, now_ps, &held, &waited_ps);

        if (!wrong && r < sw->ports)
            wrong = switch_crossbar_check_cable(&xp->bar, r, switch_crosspoints_holds(xp, r));
        if (wrong)
            return wrong;
    }
    return switch_crosspoints_check_books(xp, now_ps, held, waited_ps);
}

const struct switch_kind switch_crosspoint_kind = {
    .fits = crosspoint_fits,
    .segments = switch_crosspoints_segments,
    .bytes = crosspoint_bytes,
    .create = crosspoint_create,
    .destroy = crosspoint_destroy,
    .tx = switch_crossbar_tx,
    .rx = switch_crossbar_rx,
    .check = crosspoint_check,
    .bufs = crosspoint_bufs,
    .turn_back = switch_crosspoints_turn_back,
    .combines = true,
};
