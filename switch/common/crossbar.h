/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crossbar.h - rows, outputs, and a queue for each pair of them, shared by the routers with
 * crosspoints and the router with virtual output queues.
 *
 * A *row* is an input with its queues, one per output. The first rows and outputs belong to the
 * ports, the others to combine units. A unit's output feeds contributions to the unit, and its row
 * takes the unit's results. A *crosspoint* is the queue between one row and one output. *Level* n
 * of a row is the number of its queues that have n segments or more. The switch's worker owns all
 * data.
 */
#ifndef SWITCH_CROSSBAR_H
#define SWITCH_CROSSBAR_H

#include "switch/common/base.h"
#include "switch/common/events.h"
#include "switch/common/store.h"

/* The receiving end of a row; its queues are in struct switch_crossbar. */
struct switch_row {
    alignas(EMU_LINE) struct emu_rx rx;
};

struct switch_out {
    alignas(EMU_LINE) emu_ports waiting; /* rows that have a segment for this output */
    /* segments for this output, plus SWITCH_OUT_DOWN if its link is down; read by any thread */
    uint32_t queued;
    uint8_t last; /* the row that was served last, for round robin */
    struct emu_tx tx;
};

struct switch_crossbar {
    struct switch_dev sw;
    /* A cache line that is used for every segment. */
    alignas(EMU_LINE) emu_ports runnable; /* outputs with new segments or credits, to be served */
    emu_ports light;                      /* outputs with fewer than light_slots segments */
    uint32_t light_slots;                 /* copy of profile->light_slots */
    /* entries per row in count and xpoint: rows + levels, rounded up to a multiple of 16 */
    uint32_t width;
    /* rows whose segments came down from a higher switch and must not go up again */
    emu_ports down_only;
    struct switch_row *row; /* array of `rows` */
    struct switch_out *out; /* array of `rows` */
    /* [row][output]: segments in the queue; the levels of the row follow its outputs */
    uint8_t *count;
    struct switch_list *xpoint; /* [row][output]: the queue */
    /* Another cache line that is used for every segment. */
    struct switch_store store;
    struct switch_little little; /* on timed clocks */
    /* number of rows and of outputs; from number sw.ports on they belong to combine units */
    uint32_t rows;
    /* Rarely used. */
    emu_ports sends; /* ports that no fault keeps from sending (switch_stick()) */
};
static_assert(EMU_PORT_WORDS > 1 || (offsetof(struct switch_crossbar, runnable) % EMU_LINE == 0 &&
                                     offsetof(struct switch_crossbar, store) % EMU_LINE == 0 &&
                                     offsetof(struct switch_crossbar, sends) % EMU_LINE == 0),
              "these fields begin cache lines");

/*
 * crossbar.c: allocate the parts of @bar. False: no memory. The caller calls switch_crossbar_free()
 * in either case. @levels: number of levels of each row, see switch_level(); may be 0.
 */
bool switch_crossbar_init(struct switch_crossbar *bar, uint32_t rows, uint32_t slots,
                          uint32_t levels);
void switch_crossbar_free(struct switch_crossbar *bar);
size_t switch_crossbar_bytes(uint32_t ports, uint32_t rows, uint32_t slots, uint32_t levels,
                             const struct emu_profile *profile);

/* crossbar.c: tx() and rx() of a struct switch_kind. */
struct emu_tx *switch_crossbar_tx(struct switch_dev *sw, uint32_t port);
struct emu_rx *switch_crossbar_rx(struct switch_dev *sw, uint32_t port);

/* crossbar.c: link() of a struct switch_kind. Segments wait while their link is down. */
uint32_t switch_crossbar_link(struct switch_dev *sw, uint32_t port, bool up, uint64_t at_ps);

/* crossbar.c: queued(), shortest(), stick(), ready() and waiting() of a struct switch_kind. */
uint32_t switch_crossbar_queued(const struct switch_dev *sw, uint32_t port);
emu_ports switch_crossbar_shortest(const struct switch_dev *sw, emu_ports outs);
void switch_crossbar_stick(struct switch_dev *sw, uint32_t port, bool stuck, uint64_t at_ps);
bool switch_crossbar_ready(const struct switch_dev *sw, uint32_t port);
uint32_t switch_crossbar_waiting(struct switch_dev *sw, uint32_t port,
                                 void (*report)(void *ctx, const struct emu_entry *entry),
                                 void *ctx);

/* crossbar.c: ups() of a struct switch_kind. Segments that came down never go up again. */
void switch_crossbar_ups(struct switch_dev *sw);

/* crossbar.c: subtract @by_ps from all times. */
void switch_crossbar_rebase(struct switch_crossbar *bar, uint64_t by_ps);

/*
 * crossbar.c: check() of a struct switch_kind. Checks all rows, outputs and queues, on timed clocks
 * also Little's law, and calls check_row() for each row.
 */
void switch_crossbar_check(struct switch_dev *sw, uint64_t now_ps,
                           const struct emu_reporter *reporter);

/* crossbar.c: check the cable into port @r, whose row has segments that took @holds credits. */
const char *switch_crossbar_check_cable(const struct switch_crossbar *bar, uint32_t r,
                                        uint32_t holds);

/* crossbar.c: holds() and bufs() of a kind with all segments in crossbar queues or on cables. */
bool switch_crossbar_holds(struct switch_dev *sw, uint32_t id);
uint32_t switch_crossbar_bufs(struct switch_dev *sw);

static inline struct switch_crossbar *switch_crossbar_of(struct switch_dev *sw)
{
    return (struct switch_crossbar *)sw;
}

static inline bool switch_link_is_down(const struct switch_crossbar *bar, uint32_t port)
{
    return bar->out[port].queued & SWITCH_OUT_DOWN;
}

static inline size_t switch_at(const struct switch_crossbar *bar, uint32_t row, uint32_t out)
{
    return (size_t)row * bar->width + out;
}

/* Return a pointer to the number of segments in a queue. */
static inline uint8_t *switch_count(const struct switch_crossbar *bar, uint32_t row, uint32_t out)
{
    return &bar->count[switch_at(bar, row, out)];
}

/*
 * Return a pointer to level @level, 1 or more, of a row: the number of its queues with @level
 * segments or more. It is in the cache line of the row's counts, which change with it.
 */
static inline uint8_t *switch_level(const struct switch_crossbar *bar, uint32_t row, uint32_t level)
{
    return switch_count(bar, row, bar->rows + level - 1);
}

static inline struct switch_list *switch_xpoint(const struct switch_crossbar *bar, uint32_t row,
                                                uint32_t out)
{
    return &bar->xpoint[switch_at(bar, row, out)];
}

/*
 * crossbar.c: count a unicast to @dst, to which the current routing table has no route from here.
 * Returns the outputs that the unicast has in the routing table for all links up; there may be
 * none.
 */
emu_ports switch_crossbar_trap(struct switch_crossbar *bar, uint32_t dst);

/* How unicasts from one row are routed; looked up once per burst. */
struct switch_routes {
    const struct topo_route *route;
    emu_ports barred; /* outputs that unicasts from the row must not take */
};

static inline struct switch_routes switch_routes_of(const struct switch_crossbar *bar, uint32_t r)
{
    return (struct switch_routes){.route = switch_route(&bar->sw),
                                  .barred =
                                      emu_ports_if(bar->sw.ups, emu_ports_has(bar->down_only, r))};
}

/*
 * Return the outputs that a unicast to @dst may take from a row with these @routes; empty: none. A
 * segment that came down from a higher switch never goes up again, even while the manager changes
 * the routing tables. It keeps to its original route, and waits if a link of that route is down
 * (switch_reroute_in_flight()). So every route goes up, then down, and no cycle of waits can form.
 */
static inline emu_ports switch_unicast_outs(struct switch_crossbar *bar,
                                            const struct switch_routes *routes, uint32_t dst)
{
    emu_ports outs = topo_route_ports(routes->route, dst) & ~routes->barred;

    return __builtin_expect(emu_ports_any(outs), 1) ? outs : switch_crossbar_trap(bar, dst);
}

/* Return the oldest segment of a queue, which must not be empty. */
static inline struct emu_entry *switch_front(const struct switch_crossbar *bar, uint32_t row,
                                             uint32_t out)
{
    return &bar->store.slot[switch_xpoint(bar, row, out)->first];
}

/* Set out->queued, which other threads read by switch_queued(). Returns @queued. */
static inline uint32_t switch_out_set_queued(struct switch_out *out, uint32_t queued)
{
    __atomic_store_n(&out->queued, queued, __ATOMIC_RELAXED);
    return queued;
}

/* Count one more segment for output @o, from row @r. The caller updates `runnable` if needed. */
static inline void switch_out_gains(struct switch_crossbar *bar, uint32_t r, uint32_t o)
{
    struct switch_out *out = &bar->out[o];
    uint32_t queued = switch_out_set_queued(out, out->queued + 1);

    out->waiting |= emu_port(r);
    bar->light &= ~emu_port_if(o, queued >= bar->light_slots);
}

/*
 * Note that @count segments of row @r have left through output @o. The row has @left more for @o.
 */
static inline void switch_out_lose(struct switch_crossbar *bar, uint32_t r, uint32_t o,
                                   uint32_t count, uint32_t left)
{
    struct switch_out *out = &bar->out[o];
    uint32_t queued = switch_out_set_queued(out, out->queued - count);

    out->waiting &= ~emu_port_if(r, left == 0);
    bar->light |= emu_port_if(o, queued < bar->light_slots);
}

/* --- timed clocks ------------------------------------------------------------------- */

/* Return the credits that row @r of a port owes, because an event at @at_ps has freed space. */
static inline void switch_pay(struct switch_crossbar *bar, uint32_t r, uint64_t at_ps)
{
    if (bar->row[r].rx.owed)
        emu_rx_pay(&bar->row[r].rx, &bar->sw.dev, at_ps + bar->sw.profile->credit_ps);
}

/*
 * Remove the front segment of row @r's ring, because it has entered the switch, and return the
 * credits that the row owes. @at_ps: when the segment arrived.
 */
static inline void switch_entered(struct switch_crossbar *bar, uint32_t r, uint64_t at_ps)
{
    /* free the slot before the credit that lets the sender fill it again */
    emu_rx_skip_at(&bar->row[r].rx, at_ps);
    emu_rx_done(&bar->row[r].rx, 1);
    switch_pay(bar, r, at_ps);
}

/*
 * Check the front segment of row @r's ring. If it arrives not later than @until_ps, add it to
 * @arrivals and return EMU_NEVER. Otherwise note the row for the next step, and return the
 * segment's time, or EMU_NEVER if there is no segment.
 */
static inline uint64_t switch_poll(struct switch_crossbar *bar, struct emu_order *arrivals,
                                   uint32_t r, uint64_t until_ps)
{
    uint64_t at_ps = emu_rx_front_ps(&bar->row[r].rx, until_ps);

    if (at_ps <= until_ps) {
        emu_order_add(arrivals, at_ps, r);
        return EMU_NEVER;
    }
    bar->sw.arriving |= emu_port_if(r, at_ps != EMU_NEVER);
    return at_ps;
}

/* Do as switch_poll() after a segment of row @r has entered. Usually the ring is empty then. */
static inline uint64_t switch_poll_next(struct switch_crossbar *bar, struct emu_order *arrivals,
                                        uint32_t r, uint64_t until_ps)
{
    const struct emu_rx *rx = &bar->row[r].rx;

    if (__builtin_expect(rx->kind == EMU_LINK_LOCAL && !emu_ring_front(&rx->data), 1))
        return EMU_NEVER;
    return switch_poll(bar, arrivals, r, until_ps);
}

/* Do as switch_poll() for all rows with arrivals. Returns the time of the next later arrival. */
static inline uint64_t switch_poll_all(struct switch_crossbar *bar, struct emu_order *arrivals,
                                       uint64_t until_ps)
{
    emu_ports rows = switch_take(&bar->sw, EMU_EVENT_DATA) | bar->sw.arriving;
    uint64_t later_ps = EMU_NEVER;

    bar->sw.arriving = EMU_NO_PORTS;
    emu_each_port (r, rows) {
        uint64_t next_ps;

        emu_rx_begin(&bar->row[r].rx);
        next_ps = switch_poll(bar, arrivals, r, until_ps);
        later_ps = next_ps < later_ps ? next_ps : later_ps;
    }
    return later_ps;
}

#endif
