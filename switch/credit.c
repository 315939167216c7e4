/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * credit.c - what a row owes to its sender: the two readings of a credit.
 *
 * Row guarantee: room on every crosspoint of the row; settled here, once for
 * any number of arrivals and departures. Plain counter: one credit a segment,
 * back when its last copy has left; counted where that happens (send.c).
 * Source: output-queued routers §2; FACTS A, "Two readings of the credit counter".
 */
#include "switch/internal.h"

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

void switch_pay_row(struct switch_dev *sw, uint32_t r, uint64_t arrive_ps)
{
    struct switch_row *row = &sw->row[r];

    if (switch_by_row(sw)) {
        uint8_t fullest = row_fullest(&sw->count[switch_at(sw, r, 0)], sw->width);

        row->rx.owed += row->arrived + row->fullest - fullest;
        row->fullest = fullest;
    }
    row->arrived = 0;
    if (row->rx.owed)
        emu_rx_pay(&row->rx, arrive_ps);
}
