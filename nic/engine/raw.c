/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * raw.c - the engine on clock raw, where nothing takes time.
 *
 * A pass of the worker takes credits and segments from the links and the host, checks time-outs,
 * and sends. Only time-outs use times, which are those of the host's clock.
 */
#include "nic/engine/internal.h"

/*
 * The engine begins no packet while the host segments that it keeps are at least this many times
 * the number of packets that it has space for. With this limit, all kept buffers fit into the
 * caches. Measured with 64 nodes that send as much as they can, each over 5 switches: 4 million
 * hops per second without this limit, 13 million with 4 segments per packet, and 22 million with 2.
 * Two nodes are equally fast with any of these limits.
 */
#define RAW_KEPT 2u
/* passes between two reads of the clock, which is also read after a sleep or yield */
#define RAW_PASSES 16u
/* the worker sleeps for at most the longest time-out divided by this number */
#define RAW_CHECKS 8u

struct engine_raw {
    struct engine base; /* must be first, because raw_step() casts it */
    uint64_t host_ps;   /* the host's clock as last read */
    uint64_t more;      /* bit per port: it has input that was left for the next pass */
    /* bit per link: credits were returned there, and the other end is not notified yet */
    uint64_t credited;
    uint64_t rest_ps; /* longest sleep that was allowed after the last step */
    uint32_t passes;  /* passes since the clock was read */
};

/*
 * Read the host's clock and advance the engine's clock. The latter advances by at most a quarter of
 * the shortest time-out, plus the time for which the worker was allowed to sleep. If more time has
 * passed, this thread was waiting for a core, which must not count as a late reply of a peer.
 */
static void raw_clock(struct engine_raw *r)
{
    struct engine *e = &r->base;
    uint64_t host_ps = emu_host_ps(e->dev.worker->clock.origin_ns);
    uint64_t passed_ps = host_ps - r->host_ps, most_ps = e->rto.least_ps / 4;

    if (e->dev.worker->woke)
        most_ps += r->rest_ps;
    r->passes = 0;
    r->host_ps = host_ps;
    e->now_ps += passed_ps < most_ps ? passed_ps : most_ps;
    if (e->now_ps >= EMU_REBASE_PS)
        engine_rebase_timers(e, EMU_REBASE_BY_PS);
}

static void raw_timers(struct engine_raw *r)
{
    struct engine *e = &r->base;
    const struct emu_worker *worker = e->dev.worker;

    if ((++r->passes < RAW_PASSES && !worker->woke && !worker->preempted) ||
        engine_timers_ps(e) == EMU_NEVER)
        return;
    raw_clock(r);
    if (r->more)
        return; /* a reply may be in the input that is left */
    engine_send_due(e, 0);
    engine_receive_due(e, 0);
}

/* Return for how long the engine needs no step. Input wakes it earlier. */
static uint64_t raw_max_sleep_ps(const struct engine *e)
{
    uint64_t at_ps = engine_timers_ps(e), most_ps = e->rto.most_ps / RAW_CHECKS;

    if (at_ps == EMU_NEVER)
        return EMU_NEVER;
    if (at_ps <= e->now_ps)
        return 0;
    return at_ps - e->now_ps < most_ps ? at_ps - e->now_ps : most_ps;
}

/*
 * Return the credit for one segment on a faulty cable. The faults may turn it into none or several.
 */
static __attribute__((noinline)) void raw_return_faulty(struct engine_link *l, uint32_t c)
{
    for (uint32_t credits = emu_faults_credit(l->faults, &l->rx, 0); credits; credits--) {
        emu_rx_note(&l->rx, 1, c, 0);
        emu_credit_put(&l->rx.credit, 1, c, 0);
    }
}

/* Credits for consecutive segments on one channel, to be returned together. */
struct raw_credits {
    uint32_t channel;
    uint32_t count;
};

static inline void raw_return_credits(struct engine_link *l, struct raw_credits *credits)
{
    if (credits->count)
        emu_rx_put_credits(&l->rx, credits->count, credits->channel, 0);
    credits->count = 0;
}

/* Add @count credits for channel @c to @credits; on a faulty cable, return them at once instead. */
static inline void raw_add_credits(struct engine_link *l, struct raw_credits *credits, uint32_t c,
                                   uint32_t count)
{
    if (__builtin_expect(l->faults != NULL, 0)) {
        assert(count == 1); /* with faults, segments are taken one by one */
        raw_return_faulty(l, c);
        return;
    }
    if (credits->channel != c)
        raw_return_credits(l, credits);
    credits->channel = c;
    credits->count += count;
}

/*
 * Take up to @most consecutive continuations of one packet from the front of a link's input.
 * Returns how many; 0: the front segment must be taken alone.
 */
static inline uint32_t raw_take_run(struct engine *e, struct engine_link *l, uint32_t most,
                                    struct raw_credits *credits)
{
    const struct emu_entry *front = l->faults ? NULL : emu_ring_front(&l->rx.data);
    uint32_t c, run;

    if (!front || front->packet.kind != EMU_PACKET_CONT)
        return 0;
    c = front->packet.channel % EMU_VCS;
    run = engine_arrive_run(e, l, c, most);
    if (run)
        raw_add_credits(l, credits, c, run);
    return run;
}

/* Take the input of a link, with the faults of its cable. Returns how many segments. */
static uint32_t raw_take_link(struct engine_raw *r, uint32_t i)
{
    struct engine *e = &r->base;
    struct engine_link *l = &e->link[i];
    struct raw_credits credits = {0};
    struct emu_entry entry;
    enum emu_fate fate;
    uint32_t moved = 0;

    while (moved < ENGINE_BURST) {
        uint32_t run = raw_take_run(e, l, ENGINE_BURST - moved, &credits);

        if (run) {
            moved += run;
            r->credited |= emu_bit(i);
            continue;
        }
        if (!emu_rx_take(&l->rx, l->faults, engine_cache(e), 0, &entry, &fate))
            break;
        moved++;
        if (engine_arrives_credit(&entry, fate)) {
            raw_add_credits(l, &credits, entry.packet.channel % EMU_VCS, 1);
            r->credited |= emu_bit(i);
        }
        engine_arrive(e, l, &entry, fate, 0);
    }
    raw_return_credits(l, &credits);
    if (moved == ENGINE_BURST ||
        /* a segment that a fault has delayed arrives when no other segment does */
        (l->faults && l->faults->held))
        r->more |= emu_bit(i);
    return moved;
}

/* Return the host interface if segments can be taken from it in place; otherwise NULL. */
static inline struct emu_hostif *raw_hostif(const struct engine *e)
{
    const struct emu_rx *in = &e->host.in;
    struct emu_hostif *hostif = in->kind == EMU_LINK_HOSTIF ? in->plug.plugged : NULL;

    return hostif && !in->tapped && hostif->batch_at == hostif->batch_end ? hostif : NULL;
}

static uint32_t raw_take_each(struct engine *e, uint32_t most)
{
    const struct emu_entry *entry = NULL;
    uint32_t taken = 0;

    for (; taken < most && (entry = emu_rx_front(&e->host.in, 0)) && engine_take(e, entry, 0);
         taken++)
        emu_rx_skip(&e->host.in);
    return taken;
}

/*
 * Take up to @most segments of the host, and add their number to *moved. False: fewer were taken.
 */
static bool raw_take_some(struct engine *e, uint32_t most, uint32_t *moved)
{
    struct emu_hostif *hostif = raw_hostif(e);
    uint32_t taken = hostif ? engine_take_hostif(e, hostif, most) : raw_take_each(e, most);

    if (taken) {
        emu_rx_done(&e->host.in, taken);
        e->host.in.owed += taken;
        emu_rx_pay(&e->host.in, &e->dev, 0);
    }
    *moved += taken;
    return taken == most;
}

static bool raw_host_has(struct engine *e)
{
    struct emu_hostif *hostif = raw_hostif(e);
    struct emu_hdr hdr;

    return hostif ? emu_hostif_peek(hostif, &hdr) != NULL : emu_rx_front(&e->host.in, 0) != NULL;
}

/* Take the host's segments, in batches as large as the credits of a host interface. */
static uint32_t raw_take_host(struct engine_raw *r)
{
    struct engine *e = &r->base;
    uint32_t moved = 0;

    engine_host_refresh(e);
    while (moved < ENGINE_BURST && raw_take_some(e, ENGINE_HOSTIF_CREDITS, &moved))
        ;
    if (moved == ENGINE_BURST || (!e->host.in_full && raw_host_has(e)))
        r->more |= emu_bit(ENGINE_HOST); /* the host may have more, or no pool buffer was free */
    return moved;
}

static uint32_t raw_take(struct engine_raw *r, uint64_t ports)
{
    struct engine *e = &r->base;
    uint32_t moved = 0;

    emu_each_bit (i, ports & emu_bits_below(ENGINE_HOST))
        moved += raw_take_link(r, i);
    if ((ports >> ENGINE_HOST & 1) || (e->host.in_ps != EMU_NEVER && !e->host.in_full)) {
        e->host.in_ps = EMU_NEVER; /* engine_posts_again() sets it to 0 when a packet is free */
        moved += raw_take_host(r);
    }
    return moved;
}

/*
 * Send the next entry of link @l, and then segments of its packet until there is no space. Adds the
 * number of entries to *sent.
 */
static enum engine_sent raw_send_next(struct engine *e, struct engine_link *l, uint32_t *sent)
{
    struct emu_entry *slot = emu_tx_slot(&l->tx), own;
    enum engine_sent what;

    what = engine_link_send(e, l, slot ? slot : &own, 0);
    if (what == ENGINE_SENT && slot) { /* the entry was built in the ring */
        bool reply = slot->packet.kind > EMU_PACKET_CONT;

        emu_tx_publish(&l->tx, 0);
        *sent += reply ? 0 : engine_link_run(e, l);
    } else if (what == ENGINE_SENT) {
        own.time_ps = 0;
        emu_tx_send(&l->tx, &own);
    }
    *sent += what != ENGINE_SENT_NOTHING;
    return what;
}

static uint32_t raw_send(struct engine *e)
{
    uint32_t most = ENGINE_BURST * e->links;
    uint32_t sent = 0;
    struct engine_link *l;

    while ((l = engine_next_link(e, 0)) && sent < most) {
        if (raw_send_next(e, l, &sent) == ENGINE_SENT_NOTHING)
            l->tx_ps = EMU_NEVER;
    }
    if (l)
        emu_dev_again(&e->dev);
    emu_each_bit (i, emu_bits_below(e->links)) /* no event wakes a link that holds a packet back */
        if (engine_link_holds_back(e, &e->link[i])) {
            engine_wake(&e->link[i], 0);
            emu_dev_again(&e->dev);
        }
    return sent;
}

/* Notify the other ends of all entries that this pass has put on the cables. */
static void raw_notify(struct engine_raw *r)
{
    struct engine *e = &r->base;

    for (uint32_t i = 0; i < e->links; i++) {
        struct engine_link *l = &e->link[i];

        emu_tx_flush(&l->tx);
        if (r->credited >> i & 1)
            emu_rx_notify(&l->rx, e->dev.worker);
    }
    r->credited = 0;
    engine_host_notify(e);
}

/* Publish segments for the process before the pass ends, if the worker has a core of its own. */
static inline void raw_publish_host(struct engine *e)
{
    struct emu_tx *out = &e->host.out;

    if (!emu_worker_is_alone(e->dev.worker) || !emu_tx_publish_few(out))
        return;
    emu_hostif_publish_end();
    emu_hostif_wake(out->plug.plugged);
}

static uint32_t raw_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct engine_raw *r = (struct engine_raw *)dev;
    struct engine *e = &r->base;
    uint64_t data = emu_dev_take(dev, EMU_EVENT_DATA) | r->more;
    uint64_t credit = emu_dev_take(dev, EMU_EVENT_CREDIT);
    uint64_t rest_ps;
    uint32_t moved;

    (void)until_ps;
    r->more = 0;
    engine_host_refresh(e);
    emu_each_bit (i, credit & emu_bits_below(ENGINE_HOST)) {
        engine_take_credits(&e->link[i], EMU_NEVER);
        engine_wake(&e->link[i], 0);
    }
    if (credit >> ENGINE_HOST & 1) {
        emu_tx_take_credits(&e->host.out);
        engine_deliver_raw(e, 0);
    }
    moved = raw_take(r, data);
    raw_publish_host(e);
    raw_timers(r);
    if (e->tree.results_ps != EMU_NEVER)
        engine_results(e, 0);
    moved += raw_send(e);
    raw_notify(r);
    if (r->more || (e->host.in_ps != EMU_NEVER && !e->host.in_full))
        emu_dev_again(dev);
    rest_ps = raw_max_sleep_ps(e);
    r->rest_ps = rest_ps == EMU_NEVER ? 0 : rest_ps;
    emu_dev_poll_within(dev, rest_ps);
    return moved;
}

/* On this clock a reply takes as long as the workers need, and the time-out adapts to this time. */
static void raw_init(struct engine *e, enum emu_clock_mode clock)
{
    assert(clock == EMU_CLOCK_RAW);
    (void)clock;
    e->send.most = RAW_KEPT * e->send.packets;
    if (e->profile->reply_timeout_ps < EMU_REPLY_NEVER_PS)
        emu_rto_adapt(&e->rto, EMU_RTO_LEAST_PS);
}

const struct engine_impl engine_raw = {
    .bytes = sizeof(struct engine_raw),
    .step = raw_step,
    .deliver = engine_deliver_raw,
    .init = raw_init,
};
