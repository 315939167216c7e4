/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * raw.c - clock raw: the pass by the row guarantee.
 */
#include "switch/crosspoint/raw.h"

#include "switch/crosspoint/through.h"

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

/* The fullest crosspoint of a row. Vectorised: a row is a multiple of 16 bytes, the rest zero. */
static inline uint8_t row_fullest(const uint8_t *count, uint32_t width)
{
    uint8_t most[16] = {0};
    uint8_t fullest = 0;

    for (uint32_t i = 0; i < width; i += 16)
        for (uint32_t j = 0; j < 16; j++)
            most[j] = most[j] > count[i + j] ? most[j] : count[i + j];
    for (uint32_t j = 0; j < 16; j++)
        fullest = fullest > most[j] ? fullest : most[j];
    return fullest;
}

/* What row @r owes to its sender, for all that came and left since the last time. */
static inline uint32_t row_settle(struct switch_crosspoints_raw *raw, uint32_t r)
{
    const struct switch_crossbar *bar = &raw->xp.bar;
    struct switch_settling *settling = &row_of(raw)->settling[r];
    uint8_t fullest = row_fullest(switch_count(bar, r, 0), bar->width);

    bar->row[r].rx.owed += settling->arrived + settling->fullest - fullest;
    settling->fullest = fullest;
    settling->arrived = 0;
    return bar->row[r].rx.owed;
}

uint32_t switch_step_row_raw(struct emu_dev *dev, uint64_t until_ps)
{
    static const struct switch_pass row_pass = {.begin = row_begin,
                                                .take = row_take,
                                                .dequeue = switch_dequeue_raw,
                                                .settle = row_settle};

    (void)until_ps;
    return switch_pass_run((struct switch_crosspoints_raw *)dev, &row_pass);
}
