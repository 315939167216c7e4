/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crosspoint.c - create and free switches with crosspoint buffers, and handle the faults of their
 * combine units. This file also defines the kind with the row guarantee (crosspoint.h); counter.c
 * defines the kind with the plain counter.
 */
#include "switch/crosspoint/crosspoint.h"

#include <errno.h>
#include <stdlib.h>

const struct switch_access switch_access_raw = {.put = switch_put_raw,
                                                .dequeue = switch_dequeue_raw,
                                                .fast_path = true};
const struct switch_access switch_access_timed = {.put = switch_put_timed,
                                                  .dequeue = switch_dequeue_timed};

bool switch_crosspoints_fit(const struct emu_profile *profile, enum emu_credit_policy credit)
{
    return !emu_profile_acknowledged(profile) && profile->buffers == EMU_BUFFERS_XPOINT &&
           profile->credit == credit;
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
           switch_crossbar_bytes(ports, rows, slots, profile->xpoint_slots, profile) +
           rows * sizeof(struct switch_settling) + switch_agenda_bytes(rows) +
           units * (sizeof(struct switch_unit) + sizeof(struct switch_work) +
                    SWITCH_PENDING_MAX * sizeof(uint32_t));
}

bool switch_crosspoints_sane(uint32_t ports, const struct emu_profile *profile)
{
    uint32_t credits = emu_profile_credits(profile);

    return ports + profile->combine_units <= SWITCH_ROWS_MAX && profile->xpoint_slots &&
           profile->xpoint_slots <= EMU_XPOINT_MAX && credits && credits <= EMU_INPUT_MAX;
}

static bool timing_init(struct switch_timing *timing, uint32_t rows, uint32_t units)
{
    timing->work = calloc(units, sizeof *timing->work);
    return switch_agenda_init(&timing->agenda, rows) && timing->work;
}

static void timing_free(struct switch_timing *timing)
{
    emu_sparse_free(timing->agenda.acts.event);
    free(timing->work);
}

static bool units_init(struct switch_crosspoints *xp, uint32_t ports)
{
    xp->leaf_ports = xp->units > 1 ? (ports + xp->units - 2) / (xp->units - 1) : ports;
    xp->unit = calloc(xp->units, sizeof *xp->unit);
    for (uint32_t u = 0; xp->unit && u < xp->units; u++) {
        xp->unit[u].group = calloc(SWITCH_PENDING_MAX, sizeof(uint32_t));
        if (!xp->unit[u].group)
            return false;
    }
    return xp->unit;
}

bool switch_crosspoints_init(struct switch_crosspoints *xp, uint32_t slots,
                             const struct switch_access *access)
{
    const struct switch_dev *sw = &xp->bar.sw;

    xp->access = access;
    xp->units = sw->profile->combine_units;
    xp->xpoint_slots = sw->profile->xpoint_slots;
    xp->shut = emu_ports_below(EMU_PORTS_MAX);
    if (!switch_crossbar_init(&xp->bar, sw->ports + xp->units, slots,
                              sw->dev.timed ? xp->xpoint_slots : 0) ||
        !units_init(xp, sw->ports))
        return false;
    return !sw->dev.timed || timing_init(switch_timing_of(xp), xp->bar.rows, xp->units);
}

void switch_crosspoints_free(struct switch_crosspoints *xp)
{
    for (uint32_t u = 0; xp->unit && u < xp->units; u++)
        free(xp->unit[u].group);
    free(xp->unit);
    free(xp->impaired);
    if (xp->bar.sw.dev.timed)
        timing_free(switch_timing_of(xp));
    switch_crossbar_free(&xp->bar);
}

void switch_crosspoints_stick(struct switch_dev *sw, uint32_t port, bool stuck, uint64_t at_ps)
{
    struct switch_agenda *agenda;

    switch_crossbar_stick(sw, port, stuck, at_ps);
    if (!sw->dev.timed || !stuck || switch_link_is_down(switch_crossbar_of(sw), port))
        return;
    agenda = &switch_timing_of(switch_crosspoints_of(sw))->agenda;
    if (!emu_ports_has(agenda->due, port))
        return;
    emu_order_drop(&agenda->acts, port); /* cancel its scheduled departure */
    agenda->due &= ~emu_port(port);
    agenda->stalled |= emu_port(port);
}

/* Return the faults of the units, after allocating them if needed. NULL: no memory. */
static struct switch_impaired *units_impaired(struct switch_crosspoints *xp)
{
    if (!xp->impaired)
        xp->impaired = calloc(1, sizeof *xp->impaired);
    return xp->impaired;
}

int switch_units_faults(struct switch_dev *sw, struct emu_faults *faults)
{
    struct switch_impaired *impaired = units_impaired(switch_crosspoints_of(sw));

    if (!impaired)
        return -ENOMEM;
    impaired->faults = faults;
    return 0;
}

/* Schedule the units that were due while they were stalled, to act at @at_ps. */
static void units_act(struct switch_crosspoints *xp, uint64_t at_ps)
{
    struct switch_dev *sw = &xp->bar.sw;
    struct switch_agenda *agenda;

    if (!sw->dev.timed)
        return;
    agenda = &switch_timing_of(xp)->agenda;
    emu_each_bit (u, xp->impaired->held) {
        if (emu_ports_has(agenda->due, sw->ports + u))
            emu_order_drop(&agenda->acts, sw->ports + u);
        switch_agenda_add(agenda, sw->ports + u, at_ps);
    }
    xp->impaired->held = 0;
}

int switch_units_stall(struct switch_dev *sw, bool stalled, uint64_t at_ps)
{
    struct switch_crosspoints *xp = switch_crosspoints_of(sw);
    struct switch_impaired *impaired = units_impaired(xp);

    if (!impaired)
        return -ENOMEM;
    impaired->stalled = stalled;
    if (!stalled)
        units_act(xp, at_ps);
    return 0;
}

void switch_units_out(struct switch_dev *sw, bool out, uint64_t at_ps)
{
    struct switch_crosspoints *xp = switch_crosspoints_of(sw);
    struct switch_impaired *impaired = units_impaired(xp);

    if (!impaired)
        return;
    impaired->out = out;
    if (out)
        units_act(xp, at_ps);
}

uint64_t switch_units_taken(const struct switch_dev *sw)
{
    const struct switch_impaired *impaired = ((const struct switch_crosspoints *)sw)->impaired;

    return impaired ? impaired->taken : 0;
}

struct units_report {
    void (*report)(void *ctx, const struct emu_hdr *hdr);
    void *ctx;
};

static void units_report(void *ctx, const struct emu_entry *entry)
{
    const struct units_report *to = ctx;

    to->report(to->ctx, &entry->hdr);
}

uint32_t switch_units_waiting(struct switch_dev *sw,
                              void (*report)(void *ctx, const struct emu_hdr *hdr), void *ctx)
{
    struct units_report to = {report, ctx};
    uint32_t waiting = 0;

    for (uint32_t u = 0; u < switch_crosspoints_of(sw)->units; u++)
        waiting += switch_crossbar_waiting(sw, sw->ports + u, report ? units_report : NULL, &to);
    return waiting;
}

/* --- the kind with the row guarantee ------------------------------------------------ */

static bool row_fits(const struct emu_profile *profile)
{
    return switch_crosspoints_fit(profile, EMU_CREDIT_ROW);
}

static size_t row_bytes(uint32_t ports, const struct emu_profile *profile)
{
    return switch_crosspoints_bytes(ports, switch_crosspoints_segments(ports, profile), profile);
}

static void row_destroy(struct switch_dev *sw)
{
    struct switch_crosspoints *xp = switch_crosspoints_of(sw);

    if (!sw->dev.timed)
        free(switch_row_of(xp)->settling);
    switch_crosspoints_free(xp);
}

static bool row_init(struct switch_dev *sw)
{
    struct switch_crosspoints *xp = switch_crosspoints_of(sw);
    struct switch_crosspoints_row *row = switch_row_of(xp);

    if (!switch_crosspoints_init(xp, switch_crosspoints_segments(sw->ports, sw->profile),
                                 sw->dev.timed ? &switch_access_row_timed : &switch_access_raw))
        return false;
    if (sw->dev.timed)
        return true;
    row->settling = calloc(sw->ports, sizeof *row->settling);
    return row->settling;
}

/* check_row() of the kind. All segments are at crosspoints, so nothing is added to the sums. */
static const char *row_check(struct switch_dev *sw, uint32_t r, uint64_t now_ps, uint64_t *held,
                             uint64_t *waited_ps)
{
    struct switch_crosspoints *xp = switch_crosspoints_of(sw);
    const char *wrong = switch_crosspoints_check_row(xp, r);
    const struct switch_settling *settling;

    (void)now_ps, (void)held, (void)waited_ps;
    if (wrong || r >= sw->ports)
        return wrong;
    if (sw->dev.timed)
        return switch_crossbar_check_cable(&xp->bar, r, switch_crosspoints_fullest(xp, r));
    settling = &switch_row_of(xp)->settling[r];
    if (!emu_ports_has(switch_row_of(xp)->raw.touched, r) &&
        (settling->arrived || settling->fullest != switch_crosspoints_fullest(xp, r)))
        return "a row owes credits that its settling state does not show";
    return switch_crossbar_check_cable(&xp->bar, r, settling->fullest + settling->arrived);
}

const struct switch_kind switch_row_kind = {
    .raw = {sizeof(struct switch_crosspoints_row), switch_step_row_raw},
    .timed = {sizeof(struct switch_crosspoints_timed), switch_step_row_timed, switch_fetch_timed},
    .fits = row_fits,
    .segments = switch_crosspoints_segments,
    .bytes = row_bytes,
    .init = row_init,
    .destroy = row_destroy,
    .check_row = row_check,
    .bufs = switch_crossbar_bufs,
    .holds = switch_crossbar_holds,
    SWITCH_CROSSPOINTS_KIND,
};
