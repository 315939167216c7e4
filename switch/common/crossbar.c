/* SPDX-License-Identifier: BSD-3-Clause */
/* crossbar.c - create, rebase and check rows, outputs and their queues. */
#include "switch/common/crossbar.h"

#include <stdlib.h>

#include "emu/util/alloc.h"
#include "emu/util/ports.h"
#include "switch/common/cables.h"

static uint32_t crossbar_width(uint32_t rows, uint32_t levels)
{
    return (rows + levels + 15) / 16 * 16;
}

size_t switch_crossbar_bytes(uint32_t ports, uint32_t rows, uint32_t slots, uint32_t levels,
                             const struct emu_profile *profile)
{
    uint32_t credits = emu_profile_credits(profile);

    return (size_t)rows * (sizeof(struct switch_row) + sizeof(struct switch_out)) +
           (size_t)rows * crossbar_width(rows, levels) * (1 + sizeof(struct switch_list)) +
           ports * (emu_link_bytes(credits) +
                    (emu_profile_retries(profile) ? emu_retry_bytes(credits) : 0)) +
           switch_store_bytes(slots);
}

bool switch_crossbar_init(struct switch_crossbar *bar, uint32_t rows, uint32_t slots,
                          uint32_t levels)
{
    bar->light = emu_ports_below(EMU_PORTS_MAX);
    bar->sends = emu_ports_below(bar->sw.ports);
    bar->light_slots = bar->sw.profile->light_slots;
    bar->rows = rows;
    bar->width = crossbar_width(rows, levels);
    bar->count = emu_zeros(rows * bar->width);
    bar->xpoint = emu_zeros(rows * bar->width * sizeof *bar->xpoint);
    bar->row = emu_zeros(rows * sizeof *bar->row);
    bar->out = emu_zeros(rows * sizeof *bar->out);
    return switch_store_init(&bar->store, slots) && bar->count && bar->xpoint && bar->row &&
           bar->out;
}

void switch_crossbar_free(struct switch_crossbar *bar)
{
    for (uint32_t p = 0; bar->out && bar->row && p < bar->sw.ports; p++) {
        emu_link_unjoin(&bar->out[p].tx);
        emu_link_free_hostif(&bar->row[p].rx);
    }
    switch_cables_free(&bar->sw);
    switch_store_free(&bar->store);
    free(bar->out);
    free(bar->row);
    free(bar->xpoint);
    free(bar->count);
}

struct emu_tx *switch_crossbar_tx(struct switch_dev *sw, uint32_t port)
{
    return &switch_crossbar_of(sw)->out[port].tx;
}

struct emu_rx *switch_crossbar_rx(struct switch_dev *sw, uint32_t port)
{
    return &switch_crossbar_of(sw)->row[port].rx;
}

uint32_t switch_crossbar_queued(const struct switch_dev *sw, uint32_t port)
{
    const struct switch_crossbar *bar = (const struct switch_crossbar *)sw;

    return __atomic_load_n(&bar->out[port].queued, __ATOMIC_RELAXED);
}

static uint32_t crossbar_load(const void *of, uint32_t o)
{
    return ((const struct switch_out *)of)[o].queued;
}

emu_ports switch_crossbar_shortest(const struct switch_dev *sw, emu_ports outs)
{
    return emu_least(outs, crossbar_load, ((const struct switch_crossbar *)sw)->out);
}

/*
 * Set whether segments that arrive at @port may only go down. With link-level retry, they may go
 * anywhere while the link at @port is down. The manager then sends the segments in flight of both
 * directions through this row again, and makes sure that none comes down and goes up again.
 */
static void crossbar_onward(struct switch_crossbar *bar, uint32_t port, bool up)
{
    bool only_down = (up || !emu_profile_retries(bar->sw.profile)) &&
                     emu_ports_has(bar->sw.ups, port);

    bar->down_only &= ~emu_port(port);
    bar->down_only |= emu_port_if(port, only_down);
}

uint32_t switch_crossbar_link(struct switch_dev *sw, uint32_t port, bool up, uint64_t at_ps)
{
    struct switch_crossbar *bar = switch_crossbar_of(sw);
    struct switch_out *out = &bar->out[port];
    /* the port may send after @at_ps, because all events up to then have happened */
    uint64_t goes_ps = sw->dev.timed ? at_ps + 1 : 0;

    if (up == !switch_link_is_down(bar, port))
        return 0;
    /* a stuck port sends while its link is down (switch_stick()) */
    if (!up && switch_is_stuck(sw, port))
        sw->kind->stick(sw, port, false, goes_ps);
    switch_out_set_queued(out, out->queued ^ SWITCH_OUT_DOWN);
    bar->light &= ~emu_port(port);
    bar->light |= emu_port_if(port, out->queued < bar->light_slots);
    crossbar_onward(bar, port, up);
    if (up && switch_is_stuck(sw, port))
        sw->kind->stick(sw, port, true, goes_ps);
    switch_cables_link(sw, port, up, at_ps);
    return 0; /* without virtual channels, no packet awaits a reply */
}

/* Stop or resume a port. On timed clocks a stuck output behaves like one without a credit. */
void switch_crossbar_stick(struct switch_dev *sw, uint32_t port, bool stuck, uint64_t at_ps)
{
    struct switch_crossbar *bar = switch_crossbar_of(sw);
    emu_ports bit = emu_port(port);

    if (switch_link_is_down(bar, port))
        return;
    emu_tx_stick(&bar->out[port].tx, stuck, at_ps);
    bar->sends = stuck ? bar->sends & ~bit : bar->sends | bit;
    if (!stuck)
        emu_dev_signal(&sw->dev, sw->dev.worker, EMU_EVENT_CREDIT, emu_port_signal(port));
}

bool switch_crossbar_ready(const struct switch_dev *sw, uint32_t port)
{
    const struct switch_out *out = &((const struct switch_crossbar *)sw)->out[port];

    return emu_ports_any(out->waiting) && emu_tx_has_credit(&out->tx);
}

uint32_t switch_crossbar_waiting(struct switch_dev *sw, uint32_t port,
                                 void (*report)(void *ctx, const struct emu_entry *entry),
                                 void *ctx)
{
    const struct switch_crossbar *bar = switch_crossbar_of(sw);
    uint32_t waiting = 0;

    emu_each_port (r, bar->out[port].waiting) {
        uint32_t slot = switch_xpoint(bar, r, port)->first;

        for (uint32_t left = *switch_count(bar, r, port); left; left--, waiting++) {
            if (report)
                report(ctx, &bar->store.slot[slot]);
            slot = bar->store.next[slot];
        }
    }
    return waiting;
}

void switch_crossbar_ups(struct switch_dev *sw)
{
    for (uint32_t p = 0; p < sw->ports; p++)
        crossbar_onward(switch_crossbar_of(sw), p, true);
}

bool switch_is_clear(const struct switch_dev *sw, uint32_t port)
{
    const struct switch_crossbar *bar = (const struct switch_crossbar *)sw;
    const struct emu_rx *rx = &bar->row[port].rx;
    uint32_t rising = 0;

    emu_each_port (o, sw->ups)
        rising |= *switch_count(bar, port, o);
    return !emu_ports_has(sw->ups, port) || (!rising && rx->data.at == rx->tx->data.at);
}

emu_ports switch_crossbar_trap(struct switch_crossbar *bar, uint32_t dst)
{
    switch_trap(&bar->sw, dst);
    return topo_route_ports(bar->sw.whole, dst);
}

bool switch_crossbar_holds(struct switch_dev *sw, uint32_t id)
{
    const struct switch_crossbar *bar = switch_crossbar_of(sw);

    for (uint32_t r = 0; r < bar->rows; r++) {
        for (uint32_t o = 0; o < bar->rows; o++)
            if (switch_store_holds(&bar->store, switch_xpoint(bar, r, o), *switch_count(bar, r, o),
                                   id))
                return true;
        if (r < bar->sw.ports && emu_link_holds(&bar->row[r].rx, id))
            return true;
    }
    return switch_cables_hold(sw, id);
}

void switch_crossbar_rebase(struct switch_crossbar *bar, uint64_t by_ps)
{
    switch_store_rebase(&bar->store, by_ps);
    for (uint32_t p = 0; p < bar->sw.ports; p++) {
        emu_tx_rebase(&bar->out[p].tx, by_ps);
        emu_rx_rebase(&bar->row[p].rx, by_ps);
    }
    switch_cables_rebase(&bar->sw, by_ps);
}

/* --- checks ------------------------------------------------------------------------- */

/* Check the queues of row @r, and add up their segments and waiting times. */
static const char *check_row(const struct switch_crossbar *bar, uint32_t r, uint64_t now_ps,
                             uint64_t *held, uint64_t *waited_ps)
{
    for (uint32_t o = 0; o < bar->rows; o++) {
        uint32_t slot = switch_xpoint(bar, r, o)->first;
        uint32_t count = *switch_count(bar, r, o);

        if (!emu_ports_has(bar->out[o].waiting, r) != !count)
            return "an output's set of waiting rows is wrong";
        *held += count;
        for (; count; count--) {
            *waited_ps += now_ps - bar->store.slot[slot].time_ps;
            slot = bar->store.next[slot];
        }
    }
    return NULL;
}

static const char *check_out(const struct switch_crossbar *bar, uint32_t o)
{
    uint32_t queued = 0;

    for (uint32_t r = 0; r < bar->rows; r++)
        queued += *switch_count(bar, r, o);
    return queued == (bar->out[o].queued & ~SWITCH_OUT_DOWN)
               ? NULL
               : "an output's count of waiting segments is wrong";
}

void switch_crossbar_check(struct switch_dev *sw, uint64_t now_ps,
                           const struct emu_reporter *reporter)
{
    const struct switch_crossbar *bar = switch_crossbar_of(sw);
    uint64_t held = 0, waited_ps = 0;
    bool counted = true;

    for (uint32_t r = 0; r < bar->rows; r++) {
        const char *wrong = check_row(bar, r, now_ps, &held, &waited_ps);

        if (!wrong)
            wrong = check_out(bar, r);
        if (!wrong)
            wrong = sw->kind->check_row(sw, r, now_ps, &held, &waited_ps);
        emu_report_error(reporter, r < sw->ports ? r : EMU_NO_PORT, wrong);
        counted &= !wrong;
    }
    if (!counted)
        return; /* because the checks below would only repeat the error */
    emu_report_error(reporter, EMU_NO_PORT, switch_store_check(&bar->store, held));
    if (sw->dev.timed)
        emu_report_error(reporter, EMU_NO_PORT,
                         switch_little_check(sw, &bar->little, now_ps, held, waited_ps));
}

const char *switch_crossbar_check_cable(const struct switch_crossbar *bar, uint32_t r,
                                        uint32_t holds)
{
    const struct emu_rx *rx = &bar->row[r].rx;
    uint32_t credits = emu_profile_credits(bar->sw.profile);

    if (rx->kind == EMU_LINK_HOSTIF)
        return emu_hostif_check(rx, holds, credits);
    if (rx->kind != EMU_LINK_LOCAL)
        return NULL;
    if (switch_intake(&bar->sw, r))
        return emu_intake_check(switch_intake(&bar->sw, r), holds, credits);
    return emu_link_check(rx, holds, credits);
}

uint32_t switch_crossbar_bufs(struct switch_dev *sw)
{
    const struct switch_crossbar *bar = switch_crossbar_of(sw);
    uint32_t bufs = 0;

    for (uint32_t r = 0; r < bar->rows; r++) {
        for (uint32_t o = 0; o < bar->rows; o++)
            bufs +=
                switch_store_bufs(&bar->store, switch_xpoint(bar, r, o), *switch_count(bar, r, o));
        if (r < sw->ports)
            bufs += emu_link_bufs(&bar->row[r].rx);
    }
    return bufs + switch_cables_bufs(sw);
}
