/* SPDX-License-Identifier: BSD-3-Clause */
/* events.c - the agenda, and the check of Little's law. */
#include "switch/common/events.h"

size_t switch_agenda_bytes(uint32_t outs)
{
    return EMU_ORDER_ROOM(outs) * sizeof(struct emu_order_event);
}

bool switch_agenda_init(struct switch_agenda *agenda, uint32_t outs)
{
    struct emu_order_event *event = emu_sparse_alloc(switch_agenda_bytes(outs));

    agenda->acts.event = event;
    if (event)
        emu_order_init(&agenda->acts, event, outs, false);
    return event != NULL;
}

/* Little's law is not exact on clock real, where switch_no_sooner() may move departures. */
const char *switch_little_check(const struct switch_dev *sw, const struct switch_little *little,
                                uint64_t now_ps, uint64_t held, uint64_t waited_ps)
{
    uint64_t area_ps = little->area_ps + little->held * (now_ps - little->last_ps);

    if (held != little->held)
        return "segments were lost or duplicated in a switch";
    if (sw->dev.worker->clock.mode == EMU_CLOCK_VIRTUAL && area_ps != little->waited_ps + waited_ps)
        return "Little's law does not hold";
    return NULL;
}
