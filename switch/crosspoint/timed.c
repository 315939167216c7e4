/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timed.c - timed clocks: arrivals and the step of a switch with the row guarantee (crosspoint.h),
 * and prefetching for the step.
 *
 * Source: output-queued routers §2. docs/ARCHITECTURE.md, section 4, explains the two possible
 * readings of the credit counter in this paper.
 */
#include "switch/crosspoint/timed.h"

#include "switch/crosspoint/admit.h"

/*
 * row_gains() and row_dequeue() add a segment to a crosspoint of row @r, and remove one. If the
 * addition makes the row's fullest crosspoint fuller, the row owes one credit less. If the removal
 * makes it less full, the row owes one credit more. Rows of combine units have no credits, so their
 * `owed` is not used.
 */
static inline void row_gains(struct switch_crosspoints *xp, uint32_t r, uint32_t o,
                             const struct emu_entry *entry)
{
    switch_little_until(&xp->bar.little, entry->time_ps);
    switch_put_slot(xp, r, o, entry);
    xp->bar.row[r].rx.owed -= switch_level_gains(xp, r, o);
}

static inline struct emu_entry *row_dequeue(struct switch_crosspoints *xp, uint32_t r, uint32_t o)
{
    uint32_t slot = switch_dequeue_slot(xp, r, o);

    xp->bar.row[r].rx.owed += switch_level_loses(xp, r, o);
    return &xp->bar.store.slot[slot];
}

/*
 * Put a segment at its crosspoint. timed_news() then schedules the output. row_put() is the faster
 * function for unicasts to cables.
 */
static void row_put_queued(struct switch_crosspoints *xp, uint32_t r, uint32_t o,
                           const struct emu_entry *entry, uint8_t share)
{
    (void)share;
    row_gains(xp, r, o, entry);
    xp->bar.runnable |= emu_port(o);
}

const struct switch_access switch_access_row_timed = {.put = row_put_queued,
                                                      .dequeue = row_dequeue};

/* Send a segment at its arrival time by output @o, which must be idle. */
static inline __attribute__((always_inline)) void row_pass(struct switch_crosspoints *xp,
                                                           uint32_t r, uint32_t o,
                                                           const struct emu_entry *entry)
{
    struct switch_out *out = &xp->bar.out[o];

    out->last = (uint8_t)r;
    emu_tx_depart_notify(&out->tx, &xp->bar.sw.dev, xp->bar.sw.profile, entry, entry->time_ps);
}

/*
 * Put a unicast from row @r for output @o. If the output is idle and has a credit, and no other
 * event at this time competes with it, the segment is sent without being put at its crosspoint. Its
 * credit returns as if it had been put there.
 */
static inline __attribute__((always_inline)) void row_put(struct switch_crosspoints *xp, uint32_t r,
                                                          uint32_t o, const struct emu_entry *entry,
                                                          uint8_t share)
{
    struct switch_out *out = &xp->bar.out[o];
    bool planned = emu_ports_any(out->waiting); /* the output is scheduled, or waits for a credit */
    uint64_t at_ps = entry->time_ps, due_ps = EMU_NEVER;

    if (!emu_tx_is_cable(&out->tx)) {
        row_put_queued(xp, r, o, entry, share);
        return;
    }
    if (!planned) {
        due_ps = emu_tx_earliest_ps(&out->tx, at_ps);
        if (due_ps == at_ps && switch_timing_of(xp)->alone) {
            row_pass(xp, r, o, entry);
            return;
        }
    }
    row_gains(xp, r, o, entry);
    if (!planned)
        timed_plan_at(xp, o, at_ps, due_ps);
}

static inline __attribute__((always_inline)) void row_admit(struct switch_crosspoints *xp,
                                                            uint32_t r,
                                                            const struct emu_entry *entry)
{
    /* row_gains() subtracts it again if the row's fullest crosspoint becomes fuller */
    xp->bar.row[r].rx.owed++;
    switch_admit(xp, r, entry, false, row_put);
}

uint32_t switch_step_row_timed(struct emu_dev *dev, uint64_t until_ps)
{
    static const struct switch_timed row = {.admit = row_admit, .dequeue = row_dequeue};

    return switch_timed_run(dev, until_ps, &row);
}

/* --- prefetching the data of a step ------------------------------------------------- */

/* Return the outputs that are scheduled, or whose awaited credit has arrived. */
static emu_ports fetch_due(const struct switch_crosspoints_timed *impl)
{
    const struct switch_agenda *agenda = &impl->timing.agenda;
    emu_ports credited = switch_signalled_ports(&impl->xp.bar.sw, EMU_EVENT_CREDIT);

    return (agenda->due | (agenda->stalled & credited)) & emu_ports_below(impl->xp.bar.sw.ports);
}

/* Predict the outputs of the unicasts that have arrived at @rows by now. */
static emu_ports fetch_outputs(const struct switch_crossbar *bar, emu_ports rows)
{
    uint64_t until_ps = bar->sw.dev.worker->now_ps;
    emu_ports predicted = EMU_NO_PORTS;
    struct route_state choice = bar->sw.choice;

    emu_each_port (r, rows) {
        const struct emu_rx *rx = &bar->row[r].rx;
        const struct emu_entry *entry = rx->kind == EMU_LINK_LOCAL ? emu_ring_front(&rx->data)
                                                                   : NULL;
        struct switch_routes routes = switch_routes_of(bar, r);
        emu_ports outs;

        if (!entry || entry->time_ps > until_ps || entry->hdr.kind != EMU_UNICAST)
            continue;
        outs = topo_route_ports(routes.route, entry->hdr.dst) & ~routes.barred;
        if (emu_ports_several(outs & bar->light)) {
            predicted |= emu_port(bar->sw.policy->pick(&choice, outs & bar->light));
        } else {
            predicted |= emu_ports_any(outs & bar->light) ? outs & bar->light : outs;
        }
    }
    return predicted;
}

static void fetch_outs(const struct switch_crossbar *bar, emu_ports outs)
{
    emu_each_port (o, outs)
        emu_fetch_line(&bar->out[o]);
}

static void fetch_ports(const struct switch_crosspoints_timed *impl, emu_ports rows)
{
    const struct switch_crossbar *bar = &impl->xp.bar;

    emu_each_port (r, rows) {
        emu_fetch_line(&bar->row[r].rx);
        emu_fetch_line(switch_count(bar, r, 0));
    }
    fetch_outs(bar, fetch_due(impl));
    switch_slot_fetch(&bar->store);
    emu_fetch_line(impl->timing.agenda.acts.first);
    emu_fetch_line(switch_route(&bar->sw));
}

static void fetch_rings(const struct switch_crosspoints_timed *impl, emu_ports rows)
{
    const struct switch_crossbar *bar = &impl->xp.bar;

    emu_each_port (r, rows)
        emu_rx_fetch(&bar->row[r].rx);
    emu_each_port (o, fetch_due(impl)) {
        const struct switch_out *out = &bar->out[o];

        emu_tx_fetch(&out->tx);
        if (emu_ports_any(out->waiting))
            emu_fetch_line(switch_xpoint(bar, emu_ports_next(out->waiting, out->last), o));
    }
    emu_fetch_line(switch_route(&bar->sw)->sets);
}

static void fetch_ends(const struct switch_crossbar *bar, emu_ports outs)
{
    emu_each_port (o, outs)
        emu_tx_fetch(&bar->out[o].tx);
}

/*
 * emu_fetch_fn of the device. @kept and the return value are sets of ports as signals: first the
 * rows with arrivals, then the predicted outputs. A wrong prefetch does no harm.
 */
uint64_t switch_fetch_timed(const struct emu_dev *dev, enum emu_fetch what, uint64_t kept)
{
    const struct switch_crosspoints_timed *impl = (const struct switch_crosspoints_timed *)dev;
    const struct switch_crossbar *bar = &impl->xp.bar;
    emu_ports ports = emu_ports_signalled(kept) & emu_ports_below(bar->sw.ports);

    switch (what) {
    case EMU_FETCH_SELF: /* this stage must not read the device itself */
        emu_fetch_line(&bar->sw.route);
        emu_fetch_lines(&bar->runnable, impl + 1);
        return 0;
    case EMU_FETCH_PORTS:
        ports = switch_signalled_ports(&bar->sw, EMU_EVENT_DATA) | bar->sw.arriving;
        fetch_ports(impl, ports);
        return emu_ports_signals(ports);
    case EMU_FETCH_RINGS:
        fetch_rings(impl, ports);
        return kept;
    case EMU_FETCH_OUTPUTS:
        ports = fetch_outputs(bar, ports);
        fetch_outs(bar, ports);
        return emu_ports_signals(ports);
    default:
        fetch_ends(bar, ports);
        return 0;
    }
}
