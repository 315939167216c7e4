/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * raw.c - clock raw: the passes by the row guarantee, and by the plain counter.
 */
#include "switch/crosspoint/raw.h"

#include "switch/crosspoint/through.h"

/* --- the row guarantee -------------------------------------------------------------- */

static inline struct switch_crosspoints_row *row_of(struct switch_crosspoints_raw *raw)
{
    return switch_row_of(&raw->xp);
}

/* Each pass finds out anew which outputs are open. */
static inline void row_begin(struct switch_crosspoints_raw *raw)
{
    row_of(raw)->open = 0;
    raw->xp.shut = ~raw->xp.bar.sends;
}

static inline uint32_t row_take(struct switch_crosspoints_raw *raw, uint32_t r)
{
    if (raw->xp.bar.row[r].rx.kind == EMU_LINK_EDGE)
        return switch_through(row_of(raw), r);
    return raw_take_port(&raw->xp, r, switch_admit_settling);
}

static inline uint32_t row_settle(struct switch_crosspoints_raw *raw, uint32_t r)
{
    return switch_row_settle(row_of(raw), r);
}

uint32_t switch_step_row_raw(struct emu_dev *dev, uint64_t until_ps)
{
    static const struct switch_pass row_pass = {.begin = row_begin,
                                                .take = row_take,
                                                .settle = row_settle};

    (void)until_ps;
    return switch_pass_run((struct switch_crosspoints_raw *)dev, &row_pass);
}

/* --- the plain counter -------------------------------------------------------------- */

static inline uint32_t counter_take(struct switch_crosspoints_raw *raw, uint32_t r)
{
    return raw_take_port(&raw->xp, r, switch_admit_copies);
}

uint32_t switch_step_counter_raw(struct emu_dev *dev, uint64_t until_ps)
{
    static const struct switch_pass counter_pass = {.take = counter_take,
                                                    .settle = switch_row_owed};

    (void)until_ps;
    return switch_pass_run((struct switch_crosspoints_raw *)dev, &counter_pass);
}
