/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timed.c - the engine on clocks real and virtual: one event at a time.
 *
 * Events happen in the order of their times. At equal times the order is: input from the links,
 * segments posted by the host, deliveries to the host, timers, results, output. Because of this
 * order, a packet gets all segments that the host posts at the same time, and the result does not
 * depend on how far a worker advances its devices in one call. A segment arrives when its last byte
 * arrives.
 */
#include "nic/engine/internal.h"

enum engine_event_kind {
    EVENT_ARRIVE,
    EVENT_POST,
    EVENT_DELIVER,
    EVENT_DUE,
    EVENT_RESULT,
    EVENT_SEND
};

struct engine_event {
    uint64_t at_ps;
    enum engine_event_kind kind;
    struct engine_link *link;
};

/*
 * Return the time from entry.time_ps until the last byte arrives. On a cable with faults the
 * callers count every entry as a full segment.
 */
static uint64_t wire_tail_ps(const struct engine *e, uint32_t bytes)
{
    uint64_t wire_ps = bytes * e->profile->link_ps_per_byte;

    return wire_ps > e->profile->switch_ps ? wire_ps - e->profile->switch_ps : 0;
}

/* Return when the last byte of the front segment of a link arrives; EMU_NEVER: there is none. */
static uint64_t arrive_ps(const struct engine *e, struct engine_link *l)
{
    const struct emu_entry *entry;
    uint64_t at_ps;

    if (l->faults) {
        at_ps = emu_faults_next_ps(l->faults, &l->rx);
        return at_ps == EMU_NEVER ? at_ps : at_ps + wire_tail_ps(e, EMU_SEG_BYTES);
    }
    entry = emu_ring_front(&l->rx.data);
    return entry ? entry->time_ps + wire_tail_ps(e, entry->packet.wire + 1u) : EMU_NEVER;
}

static void event_earlier(struct engine_event *best, uint64_t at_ps, enum engine_event_kind kind,
                          struct engine_link *link)
{
    if (at_ps < best->at_ps)
        *best = (struct engine_event){.at_ps = at_ps, .kind = kind, .link = link};
}

/*
 * Return the earliest event; if there is none, at_ps is EMU_NEVER. At equal times the kind decides.
 */
static struct engine_event event_next(struct engine_timed *t)
{
    struct engine *e = &t->base;
    struct engine_event best = {.at_ps = EMU_NEVER};
    struct engine_link *l = engine_next_link(e, EMU_NEVER - 1);

    for (uint32_t i = 0; i < e->links; i++)
        event_earlier(&best, arrive_ps(e, &e->link[i]), EVENT_ARRIVE, &e->link[i]);
    event_earlier(&best, e->host.in_ps, EVENT_POST, NULL);
    event_earlier(&best, t->out_ps, EVENT_DELIVER, NULL);
    event_earlier(&best, engine_timers_ps(e), EVENT_DUE, NULL);
    event_earlier(&best, e->tree.results_ps, EVENT_RESULT, NULL);
    if (l)
        event_earlier(&best, l->tx_ps, EVENT_SEND, l);
    return best;
}

/*
 * Return by how long the last byte arrived before the entry became visible. An entry becomes
 * visible when a switch would have forwarded it, which is the switch's delay after its first byte.
 * A short segment arrives completely before that. On a cable with faults this is 0.
 */
static uint64_t early_ps(const struct engine *e, const struct engine_link *l,
                         const struct emu_entry *entry)
{
    uint64_t wire_ps = (entry->packet.wire + 1u) * e->profile->link_ps_per_byte;

    return l->faults || wire_ps >= e->profile->switch_ps ? 0 : e->profile->switch_ps - wire_ps;
}

static void timed_arrive(struct engine_timed *t, struct engine_link *l, uint64_t at_ps)
{
    struct engine *e = &t->base;
    uint64_t until_ps = l->faults ? at_ps - wire_tail_ps(e, EMU_SEG_BYTES) : at_ps;
    struct emu_entry entry;
    enum emu_fate fate;

    if (!emu_rx_take(&l->rx, l->faults, engine_cache(e), until_ps, &entry, &fate))
        return;
    if (engine_arrives_credit(&entry, fate)) {
        uint32_t c = entry.packet.channel % EMU_VCS;

        t->last_early_ps[(l - e->link) * EMU_VCS + c] = early_ps(e, l, &entry);
        for (uint32_t n = l->faults ? emu_faults_credit(l->faults, &l->rx, at_ps) : 1; n; n--)
            emu_rx_pay_channel(&l->rx, c, at_ps + e->profile->credit_ps);
    }
    engine_arrive(e, l, &entry, fate, at_ps);
}

/* Take the host's front segment if it is due, and find the time of the next one. */
static void timed_post(struct engine *e, uint64_t at_ps, uint64_t until_ps)
{
    const struct emu_entry *entry = emu_rx_front(&e->host.in, until_ps);
    uint64_t front_ps;

    if (entry) {
        if (!engine_take(e, entry, at_ps)) {
            e->host.in_ps = e->host.in_full ? EMU_NEVER
                                            /* no pool buffer is free: try again later */
                                            : at_ps + e->profile->retry_ps;
            return;
        }
        emu_rx_skip_at(&e->host.in, at_ps);
        emu_rx_done(&e->host.in, 1);
        e->host.in.owed = 1;
        emu_rx_pay(&e->host.in, &e->dev,
                   at_ps + (e->host.in.kind == EMU_LINK_LOCAL ? e->profile->credit_ps : 0));
    }
    front_ps = emu_rx_front_ps(&e->host.in, until_ps);
    e->host.in_ps = front_ps > at_ps ? front_ps : at_ps;
}

static void timed_send(struct engine *e, struct engine_link *l, uint64_t at_ps)
{
    const struct emu_credit *back;
    struct emu_entry entry;
    enum engine_sent what;

    l->tx_ps = EMU_NEVER;
    engine_take_credits(l, at_ps);
    what = engine_link_send(e, l, &entry, at_ps);
    if (what == ENGINE_SENT)
        emu_tx_depart_packet(&l->tx, &entry, at_ps);
    if (what != ENGINE_SENT_NOTHING) {
        engine_wake(l, at_ps);
    } else if (l->full) {
        engine_wake(l, at_ps + e->profile->credit_ps);
    } else if (l->blocked) {
        back = emu_credit_front(&l->tx.credit);
        if (back)
            engine_wake(l, back->time_ps);
    }
}

/* Handle the notifications of other devices since the last step. */
static void timed_begin(struct engine_timed *t, uint64_t until_ps)
{
    struct engine *e = &t->base;
    uint64_t data = emu_dev_take(&e->dev, EMU_EVENT_DATA);
    uint64_t credit = emu_dev_take(&e->dev, EMU_EVENT_CREDIT);
    const struct emu_credit *back;

    engine_host_refresh(e); /* the process may have detached since the last step */
    if (!e->host.in_full && ((data >> ENGINE_HOST & 1) || e->host.in_ps != EMU_NEVER))
        e->host.in_ps = emu_rx_front_ps(&e->host.in, until_ps);
    emu_each_bit (i, credit & emu_bits_below(ENGINE_HOST))
        if (e->link[i].blocked && (back = emu_credit_front(&e->link[i].tx.credit)))
            engine_wake(&e->link[i], back->time_ps);
    if (!(credit >> ENGINE_HOST & 1))
        return;
    if (e->host.out.kind != EMU_LINK_LOCAL)
        /* the process has made space, has detached, was cut off, or has written a false time */
        t->out_ps = emu_tx_earliest_ps(&e->host.out, emu_profile_window_ps(e->profile, until_ps));
    else if (t->out_ps == EMU_NEVER && e->host.delivery.active &&
             (back = emu_credit_front(&e->host.out.credit)))
        t->out_ps = back->time_ps;
}

static void timed_event(struct engine_timed *t, const struct engine_event *event, uint64_t until_ps)
{
    struct engine *e = &t->base;
    uint64_t at_ps = event->at_ps;

    switch (event->kind) {
    case EVENT_ARRIVE:
        timed_arrive(t, event->link, at_ps);
        break;
    case EVENT_POST:
        timed_post(e, at_ps, until_ps);
        break;
    case EVENT_DELIVER:
        engine_deliver_timed(e, at_ps);
        break;
    case EVENT_DUE:
        engine_send_due(e, at_ps);
        engine_receive_due(e, at_ps);
        break;
    case EVENT_RESULT:
        engine_results(e, at_ps);
        break;
    case EVENT_SEND:
        emu_dev_note_lag(&e->dev, at_ps, until_ps);
        timed_send(e, event->link, at_ps);
        break;
    }
}

static uint32_t timed_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct engine_timed *t = (struct engine_timed *)dev;
    struct engine *e = &t->base;
    struct engine_event event;
    uint32_t moved = 0;

    timed_begin(t, until_ps);
    while ((event = event_next(t)).at_ps <= until_ps) {
        moved++;
        /* clock real: a late event happens at the time of the previous event */
        if (event.at_ps < e->now_ps)
            event.at_ps = e->now_ps;
        e->now_ps = event.at_ps;
        timed_event(t, &event, until_ps);
    }
    for (uint32_t i = 0; i < e->links; i++)
        emu_tx_flush(&e->link[i].tx);
    emu_tx_flush(&e->host.out);
    dev->next_ps = event.at_ps;
    return moved;
}

static void timed_init(struct engine *e, enum emu_clock_mode clock)
{
    struct engine_timed *t = (struct engine_timed *)e;
    const struct emu_profile *profile = e->profile;

    assert(clock != EMU_CLOCK_RAW);
    t->lookahead_ps = emu_profile_lookahead_ps(profile);
    t->recv_ps = profile->nic_recv_ps > t->lookahead_ps ? profile->nic_recv_ps : t->lookahead_ps;
    t->out_ps = EMU_NEVER;
    if (clock == EMU_CLOCK_VIRTUAL) {
        uint64_t send_ps = profile->nic_send_ps;

        /* the cable from the host needs a delay, which is a part of nic_send_ps */
        e->host_profile.switch_ps = t->lookahead_ps;
        e->host_profile.nic_send_ps = send_ps > t->lookahead_ps ? send_ps - t->lookahead_ps : 0;
    }
    e->tree.root_ps = profile->barrier_root_ps;
    e->tree.header_ps = profile->combine_header_ps;
    e->tree.word_ps = profile->combine_word_ps;
}

const struct engine_impl engine_timed = {
    .bytes = sizeof(struct engine_timed),
    .step = timed_step,
    .deliver = engine_deliver_timed,
    .init = timed_init,
};
