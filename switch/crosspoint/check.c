/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check.c - what must hold in a switch at any time, counted anew.
 */
#include "switch/channel/channel.h"

/* The cable into port @r: what the row holds stands for credits that are out. */
static const char *check_cable(const struct switch_dev *sw, uint32_t r)
{
    const struct emu_rx *rx = &sw->row[r].rx;

    if (rx->kind != EMU_LINK_LOCAL)
        return NULL;
    return emu_link_check(rx, switch_row_holds(sw, r), emu_profile_credits(sw->profile));
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

    if (sw->acknowledged)
        return switch_channels_check(switch_channels_of(sw), now_ps);
    for (uint32_t r = 0; r < sw->rows; r++) {
        wrong = check_row(sw, r, now_ps, &held, &waited_ps);
        if (!wrong)
            wrong = check_out(sw, r);
        if (!wrong && r < sw->ports && sw->input)
            wrong = switch_input_check(sw, r, now_ps, &held, &waited_ps);
        if (!wrong && r < sw->ports)
            wrong = check_cable(sw, r);
        if (wrong)
            return wrong;
    }
    if (held != sw->little.held)
        return "segments were lost or made in the crossbar";
    if (area_ps != waited_ps)
        return "Little's law does not hold";
    return NULL;
}

/* --- who holds pool buffers --------------------------------------------------------------- */

/* References of a queue of @count segments. */
static uint32_t queue_bufs(const struct switch_dev *sw, const struct switch_list *queue,
                           uint32_t count)
{
    uint32_t bufs = 0;

    for (uint32_t slot = queue->first; count--; slot = sw->link[slot].next)
        bufs += sw->slot[slot].buf != EMU_NO_BUF;
    return bufs;
}

/* Of an input's fifo: a multicast's copies that have not left it yet have a reference each. */
static uint32_t fifo_bufs(const struct switch_dev *sw, const struct switch_input *in)
{
    uint32_t slot = in->fifo.first, bufs = 0;

    for (uint32_t left = in->queued; left; left--, slot = sw->link[slot].next) {
        bool copies = sw->slot[slot].hdr.kind != EMU_UNICAST;

        if (sw->slot[slot].buf != EMU_NO_BUF)
            bufs += copies ? (uint32_t)__builtin_popcountll(sw->outs[slot]) : 1;
    }
    return bufs;
}

uint32_t switch_bufs(struct switch_dev *sw)
{
    uint32_t bufs = 0;

    if (sw->acknowledged)
        return switch_channels_bufs(switch_channels_of(sw));
    for (uint32_t r = 0; r < sw->rows; r++) {
        for (uint32_t o = 0; o < sw->rows; o++)
            bufs += queue_bufs(sw, switch_xpoint(sw, r, o), *switch_count(sw, r, o));
        if (r < sw->ports)
            bufs += emu_link_bufs(&sw->row[r].rx) + (sw->input ? fifo_bufs(sw, &sw->input[r]) : 0);
    }
    return bufs;
}
