/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check.c - what must hold in a switch at any time, counted anew.
 */
#include "switch/internal.h"

/* Credits on their way. */
static uint64_t ring_credits(const struct emu_ring_end *from, const struct emu_ring_end *to)
{
    uint64_t credits = 0;

    for (uint32_t at = to->at; at != from->at; at++)
        credits += to->slot[at & to->mask].credits;
    return credits;
}

/*
 * Credits of the cable into port @r: the sender's, those on their way back, the
 * segments on their way here, what the row holds and what it owes.
 */
static const char *check_credits(const struct switch_dev *sw, uint32_t r)
{
    const struct switch_row *row = &sw->row[r];
    const struct emu_rx *rx = &row->rx;
    uint32_t flying;

    if (rx->kind != EMU_LINK_LOCAL)
        return NULL;
    flying = rx->tx->data.at - rx->data.at;
    if (rx->tx->credits + ring_credits(&rx->credit, &rx->tx->credit) + flying +
            switch_row_holds(sw, r) + rx->owed !=
        emu_profile_credits(sw->profile))
        return "credits were lost or made";
    if (emu_count_read(&rx->tx->counts.segments) !=
        emu_count_read(&rx->counts.segments) + flying)
        return "segments were lost or made on a cable";
    return NULL;
}

/* What stands at (@r, output), counted: adds to the segments held and to how long they have waited. */
static const char *check_row(const struct switch_dev *sw, uint32_t r, uint64_t now_ps,
                             uint64_t *held, uint64_t *waited_ps)
{
    uint8_t fullest = 0;

    for (uint32_t o = 0; o < sw->rows; o++) {
        uint32_t slot = switch_xpoint(sw, r, o)->first;
        uint8_t count = *switch_count(sw, r, o);

        if (!(sw->out[o].waiting >> r & 1) != !count)
            return "an output does not know who waits for it";
        fullest = count > fullest ? count : fullest;
        *held += count;
        for (; count; count--) {
            *waited_ps += now_ps - sw->slot[slot].time_ps;
            slot = sw->link[slot].next;
        }
    }
    if (sw->profile->buffers == EMU_BUFFERS_INPUT)
        return NULL;
    return fullest == sw->row[r].fullest ? NULL : "a row does not know its fullest crosspoint";
}

/* An output knows how many segments are for it. */
static const char *check_out(const struct switch_dev *sw, uint32_t o)
{
    uint32_t queued = 0;

    for (uint32_t r = 0; r < sw->rows; r++)
        queued += *switch_count(sw, r, o);
    return queued == sw->out[o].queued ? NULL : "an output does not know how many wait for it";
}

const char *switch_check(struct switch_dev *sw, uint64_t now_ps)
{
    uint64_t waited_ps = sw->little.waited_ps;
    uint64_t area_ps = sw->little.area_ps + sw->little.held * (now_ps - sw->little.last_ps);
    uint64_t held = 0;
    const char *wrong;

    for (uint32_t r = 0; r < sw->rows; r++) {
        wrong = check_row(sw, r, now_ps, &held, &waited_ps);
        if (!wrong)
            wrong = check_out(sw, r);
        if (!wrong && r < sw->ports && sw->input)
            wrong = switch_input_check(sw, r, now_ps, &held, &waited_ps);
        if (!wrong && r < sw->ports)
            wrong = check_credits(sw, r);
        if (wrong)
            return wrong;
    }
    if (held != sw->little.held)
        return "segments were lost or made in the crossbar";
    if (area_ps != waited_ps)
        return "Little's law does not hold";
    return NULL;
}
