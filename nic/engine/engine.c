/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine.c - an engine is made, stepped, and taken apart.
 *
 * Timed, everything happens in the order of its times, and at one time in this order: what comes
 * from the links, what the host posts, what the host has room for again, time-outs, what leaves. So a
 * packet holds all that the host posted at one time, and nothing depends on how time was cut into
 * windows. A segment counts as here when its last byte is.
 */
#include "nic/engine/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/random.h"
#include "nic/engine/internal.h"

#define ENGINE_RAW_PASSES   16u /* raw: the clock is read once in so many passes, or after a sleep, */
#define ENGINE_RAW_LOOKS    8u  /* and at least as often in a time-out */

/* When the first of all that waits for a time is due; EMU_NEVER. */
static uint64_t timers_ps(const struct engine *e)
{
    uint64_t at_ps = EMU_NEVER;

    if (!engine_list_empty(&e->awaiting))
        at_ps = e->packet[e->awaiting.first].due_ps;
    if (!engine_list_empty(&e->resting) && e->packet[e->resting.first].due_ps < at_ps)
        at_ps = e->packet[e->resting.first].due_ps;
    if (!engine_list_empty(&e->parts) && e->incoming[e->parts.first].due_ps < at_ps)
        at_ps = e->incoming[e->parts.first].due_ps;
    if (!engine_list_empty(&e->stored) && e->incoming[e->stored.first].due_ps < at_ps)
        at_ps = e->incoming[e->stored.first].due_ps;
    if (e->asks.any && engine_asks_due_ps(&e->asks) < at_ps)
        at_ps = engine_asks_due_ps(&e->asks);
    return at_ps;
}

/* Look the host's edge up, once for this pass, and see who is there. */
static void host_look(struct engine *e)
{
    emu_rx_begin(&e->in);
    if (e->in.kind == EMU_LINK_EDGE)
        e->host = e->in.plug.plugged ? e->in.plug.plugged->serial : 0;
}

/* --- clock raw --------------------------------------------------------------------------- */

/*
 * The host's clock, read rarely. Between two looks at most a quarter of the time-out counts: if this
 * thread had to wait that long, nobody else is late.
 */
static void raw_clock(struct engine *e)
{
    uint64_t host_ps = emu_host_ps(e->dev.worker->clock.origin_ns);
    uint64_t passed_ps = host_ps - e->host_ps;

    e->passes = 0;
    e->host_ps = host_ps;
    e->now_ps += passed_ps < e->timeout_ps / 4 ? passed_ps : e->timeout_ps / 4;
    if (e->now_ps >= EMU_TURN_PS)
        engine_turn_timers(e, EMU_TURN_BY_PS);
}

/* Time-outs, when what has come was looked at. */
static void raw_timers(struct engine *e)
{
    if ((++e->passes < ENGINE_RAW_PASSES && !e->dev.worker->woke) || timers_ps(e) == EMU_NEVER)
        return;
    raw_clock(e);
    if (e->more)
        return; /* the reply may be in what has not been looked at */
    engine_send_due(e, 0);
    engine_receive_due(e, 0);
}

/* How long it can do without being stepped. Whoever is told something is stepped then. */
static uint64_t raw_rest_ps(const struct engine *e)
{
    uint64_t at_ps = timers_ps(e), most_ps = e->timeout_ps / ENGINE_RAW_LOOKS;

    if (at_ps == EMU_NEVER)
        return EMU_NEVER;
    if (at_ps <= e->now_ps)
        return 0;
    return at_ps - e->now_ps < most_ps ? at_ps - e->now_ps : most_ps;
}

/* Take what came on a link, with what goes wrong on its cable. */
static bool link_take(struct engine *e, struct engine_link *l, uint64_t until_ps,
                      struct emu_entry *entry, enum emu_fate *fate)
{
    return emu_rx_take(&l->rx, l->faults, engine_cache(e), until_ps, entry, fate);
}

static uint32_t raw_take_link(struct engine *e, uint32_t i)
{
    struct engine_link *l = &e->link[i];
    struct emu_entry entry;
    enum emu_fate fate;
    uint32_t moved = 0;

    for (; moved < ENGINE_BURST && link_take(e, l, 0, &entry, &fate); moved++)
        engine_arrive(e, l, &entry, fate, 0);
    if (moved == ENGINE_BURST || (l->faults && l->faults->held)) /* that comes when nothing else does */
        e->more |= emu_bit(i);
    return moved;
}

/* Up to @most segments of the host. False: no more can be taken now. */
static bool raw_take_some(struct engine *e, uint32_t most, uint32_t *moved)
{
    const struct emu_entry *entry = NULL;
    uint32_t taken = 0;

    for (; taken < most && (entry = emu_rx_front(&e->in, 0)) && engine_take(e, entry, 0); taken++)
        emu_rx_skip(&e->in);
    if (taken) {
        emu_rx_done(&e->in, taken);
        e->in.owed += taken;
        emu_rx_pay(&e->in, 0);
    }
    *moved += taken;
    return taken == most;
}

/* As many as an edge has credits at a time, and then again. */
static uint32_t raw_take_host(struct engine *e)
{
    uint32_t moved = 0;

    host_look(e);
    while (moved < ENGINE_BURST && raw_take_some(e, ENGINE_EDGE_CREDITS, &moved))
        ;
    if (moved == ENGINE_BURST || (!e->in_full && emu_rx_front(&e->in, 0)))
        e->more |= emu_bit(ENGINE_HOST); /* more has come, or no buffer was left for it */
    return moved;
}

static uint32_t raw_take(struct engine *e, uint64_t ports)
{
    uint32_t moved = 0;

    emu_each_bit (i, ports & emu_bits_below(ENGINE_HOST))
        moved += raw_take_link(e, i);
    if ((ports >> ENGINE_HOST & 1) || (e->in_ps != EMU_NEVER && !e->in_full)) {
        e->in_ps = EMU_NEVER; /* 0: a packet became free */
        moved += raw_take_host(e);
    }
    return moved;
}

/* The link that sends next by @until_ps: the earliest; then the least loaded; then in turn. */
static struct engine_link *next_link(struct engine *e, uint64_t until_ps)
{
    struct engine_link *best = NULL;

    for (uint32_t n = 1; n <= e->links; n++) {
        struct engine_link *l = &e->link[(e->turn + n) % e->links];

        if (l->tx_ps > until_ps || (best && l->tx_ps > best->tx_ps))
            continue;
        if (!best || l->tx_ps < best->tx_ps ||
            emu_channels_pending(&l->books) < emu_channels_pending(&best->books))
            best = l;
    }
    return best;
}

static uint32_t raw_send(struct engine *e)
{
    uint32_t most = ENGINE_BURST * e->links;
    uint32_t sent = 0;
    struct engine_link *l;

    while ((l = next_link(e, 0)) && sent < most) {
        if (engine_send(e, l, 0))
            sent++;
        else
            l->tx_ps = EMU_NEVER;
    }
    if (l)
        emu_dev_again(&e->dev);
    return sent;
}

/* Tell everybody what this pass has put on the cables. */
static void raw_tell(struct engine *e)
{
    for (uint32_t i = 0; i < e->links; i++) {
        struct engine_link *l = &e->link[i];

        emu_tx_flush(&l->tx);
        if (l->credited)
            emu_signal(l->rx.peer_worker, l->rx.peer_index, e->dev.worker, EMU_EVENT_CREDIT,
                       emu_bit(l->rx.peer_port));
        l->credited = 0;
    }
    emu_tx_flush(&e->out);
}

/* One pass: bounded, never blocks or allocates. Returns segments moved. */
static uint32_t engine_step_raw(struct emu_dev *dev, uint64_t until_ps)
{
    struct engine *e = (struct engine *)dev;
    uint64_t data = emu_dev_take(dev, EMU_EVENT_DATA) | e->more;
    uint64_t credit = emu_dev_take(dev, EMU_EVENT_CREDIT);
    uint32_t moved;

    (void)until_ps;
    e->more = 0;
    host_look(e);
    emu_each_bit (i, credit & emu_bits_below(ENGINE_HOST)) {
        engine_take_credits(&e->link[i], EMU_NEVER);
        engine_wake(&e->link[i], 0);
    }
    if (credit >> ENGINE_HOST & 1) {
        emu_tx_take_credits(&e->out);
        engine_deliver(e, 0);
    }
    moved = raw_take(e, data);
    raw_timers(e);
    if (e->results_ps != EMU_NEVER)
        engine_results(e, 0);
    moved += raw_send(e);
    raw_tell(e);
    if (e->more || (e->in_ps != EMU_NEVER && !e->in_full))
        emu_dev_again(dev);
    dev->next_ps = raw_rest_ps(e);
    return moved;
}

/* --- timed -------------------------------------------------------------------------------- */

enum engine_event_kind { EVENT_ARRIVE, EVENT_POST, EVENT_DELIVER, EVENT_DUE, EVENT_RESULT, EVENT_SEND };

struct engine_event {
    uint64_t at_ps;
    enum engine_event_kind kind;
    struct engine_link *link;
};

/* From the time of an entry until its last byte is here. With faults all count as whole segments. */
static uint64_t wire_rest_ps(const struct engine *e, uint32_t bytes)
{
    uint64_t wire_ps = bytes * e->profile->link_ps_per_byte;

    return wire_ps > e->profile->switch_ps ? wire_ps - e->profile->switch_ps : 0;
}

/* When the front segment of a link is here, the last byte of it. */
static uint64_t arrive_ps(const struct engine *e, struct engine_link *l)
{
    const struct emu_entry *entry;
    uint64_t at_ps;

    if (l->faults) {
        at_ps = emu_faults_next_ps(l->faults, &l->rx);
        return at_ps == EMU_NEVER ? at_ps : at_ps + wire_rest_ps(e, EMU_SEG_BYTES);
    }
    entry = emu_ring_front(&l->rx.data);
    return entry ? entry->time_ps + wire_rest_ps(e, entry->packet.wire + 1u) : EMU_NEVER;
}

static void event_earlier(struct engine_event *best, uint64_t at_ps, enum engine_event_kind kind,
                          struct engine_link *link)
{
    if (at_ps < best->at_ps)
        *best = (struct engine_event){.at_ps = at_ps, .kind = kind, .link = link};
}

/* The earliest event; at_ps EMU_NEVER: none. At one time the kinds are in their order. */
static struct engine_event event_next(struct engine *e)
{
    struct engine_event best = {.at_ps = EMU_NEVER};
    struct engine_link *l = next_link(e, EMU_NEVER - 1);

    for (uint32_t i = 0; i < e->links; i++)
        event_earlier(&best, arrive_ps(e, &e->link[i]), EVENT_ARRIVE, &e->link[i]);
    event_earlier(&best, e->in_ps, EVENT_POST, NULL);
    event_earlier(&best, e->out_ps, EVENT_DELIVER, NULL);
    event_earlier(&best, timers_ps(e), EVENT_DUE, NULL);
    event_earlier(&best, e->results_ps, EVENT_RESULT, NULL);
    if (l)
        event_earlier(&best, l->tx_ps, EVENT_SEND, l);
    return best;
}

/*
 * An entry shows when a switch would have passed it on: its delay after the first byte. A segment that
 * is shorter than that was here before, by the time returned. (On a cable with faults none is.)
 */
static uint64_t late_ps(const struct engine *e, const struct engine_link *l,
                        const struct emu_entry *entry)
{
    uint64_t wire_ps = (entry->packet.wire + 1u) * e->profile->link_ps_per_byte;

    return l->faults || wire_ps >= e->profile->switch_ps ? 0 : e->profile->switch_ps - wire_ps;
}

static void timed_arrive(struct engine *e, struct engine_link *l, uint64_t at_ps)
{
    uint64_t until_ps = l->faults ? at_ps - wire_rest_ps(e, EMU_SEG_BYTES) : at_ps;
    struct emu_entry entry;
    enum emu_fate fate;

    if (!link_take(e, l, until_ps, &entry, &fate))
        return;
    e->late_ps = late_ps(e, l, &entry);
    engine_arrive(e, l, &entry, fate, at_ps);
}

/* The host's front segment, if it is due, enters. Then the next one is looked for. */
static void timed_post(struct engine *e, uint64_t at_ps, uint64_t until_ps)
{
    const struct emu_entry *entry = emu_rx_front(&e->in, until_ps);
    uint64_t front_ps;

    if (entry) {
        if (!engine_take(e, entry, at_ps)) {
            e->in_ps = e->in_full ? EMU_NEVER : at_ps + e->profile->retry_ps; /* no buffers */
            return;
        }
        emu_rx_skip(&e->in);
        emu_rx_done(&e->in, 1);
        e->in.owed = 1;
        emu_rx_pay(&e->in, at_ps + (e->in.kind == EMU_LINK_LOCAL ? e->profile->credit_ps : 0));
    }
    front_ps = emu_rx_front_ps(&e->in, until_ps);
    e->in_ps = front_ps > at_ps ? front_ps : at_ps;
}

/* How late this host is; see docs/ARCHITECTURE.md, "real". */
static void timed_lag(struct engine *e, uint64_t at_ps, uint64_t now_ps)
{
    _Atomic uint64_t *worst = &e->dev.worker->worst_lag_ps;

    if (now_ps - at_ps > atomic_load_explicit(worst, memory_order_relaxed))
        atomic_store_explicit(worst, now_ps - at_ps, memory_order_relaxed);
}

static void timed_send(struct engine *e, struct engine_link *l, uint64_t at_ps)
{
    const struct emu_credit *back;

    l->tx_ps = EMU_NEVER;
    engine_take_credits(l, at_ps);
    if (engine_send(e, l, at_ps)) {
        engine_wake(l, at_ps);
    } else if (l->blocked) {
        back = emu_credit_front(&l->tx.credit);
        if (back)
            engine_wake(l, back->time_ps);
    }
}

/* What other devices told since the last step. */
static void timed_begin(struct engine *e, uint64_t until_ps)
{
    uint64_t data = emu_dev_take(&e->dev, EMU_EVENT_DATA);
    uint64_t credit = emu_dev_take(&e->dev, EMU_EVENT_CREDIT);
    const struct emu_credit *back;

    host_look(e); /* an edge may have gone since the last look */
    if (!e->in_full && ((data >> ENGINE_HOST & 1) || e->in_ps != EMU_NEVER))
        e->in_ps = emu_rx_front_ps(&e->in, until_ps);
    emu_each_bit (i, credit & emu_bits_below(ENGINE_HOST))
        if (e->link[i].blocked && (back = emu_credit_front(&e->link[i].tx.credit)))
            engine_wake(&e->link[i], back->time_ps);
    if (!(credit >> ENGINE_HOST & 1) || e->out_ps != EMU_NEVER)
        return;
    if (e->out.kind != EMU_LINK_LOCAL)
        e->out_ps = until_ps; /* the process has made room, or is gone */
    else if (e->delivery.active && (back = emu_credit_front(&e->out.credit)))
        e->out_ps = back->time_ps;
}

static uint32_t engine_step_timed(struct emu_dev *dev, uint64_t until_ps)
{
    struct engine *e = (struct engine *)dev;
    struct engine_event event;
    uint32_t moved = 0;

    timed_begin(e, until_ps);
    while ((event = event_next(e)).at_ps <= until_ps) {
        moved++;
        if (event.at_ps < e->now_ps) /* clock real: it comes late, and counts as of now: nothing is early */
            event.at_ps = e->now_ps;
        e->now_ps = event.at_ps;
        switch (event.kind) {
        case EVENT_ARRIVE:
            timed_arrive(e, event.link, event.at_ps);
            break;
        case EVENT_POST:
            timed_post(e, event.at_ps, until_ps);
            break;
        case EVENT_DELIVER:
            engine_deliver(e, event.at_ps);
            break;
        case EVENT_DUE:
            engine_send_due(e, event.at_ps);
            engine_receive_due(e, event.at_ps);
            break;
        case EVENT_RESULT:
            engine_results(e, event.at_ps);
            break;
        case EVENT_SEND:
            timed_lag(e, event.at_ps, until_ps);
            timed_send(e, event.link, event.at_ps);
            break;
        }
    }
    for (uint32_t i = 0; i < e->links; i++)
        emu_tx_flush(&e->link[i].tx);
    emu_tx_flush(&e->out);
    dev->next_ps = event.at_ps;
    return moved;
}

/* --- made and taken apart --------------------------------------------------------------------- */

/* Packets that an engine keeps: as many again as can be on their way may rest. */
static uint32_t engine_packets(uint32_t links, const struct emu_profile *profile)
{
    return 2 * links * profile->channels + ENGINE_QUEUE;
}

uint32_t engine_bufs(uint32_t links, const struct emu_profile *profile)
{
    uint32_t packets = engine_packets(links, profile) + links * EMU_CHANNELS + 1;

    return packets * emu_packet_segments(profile->packet_bytes) + ENGINE_ASKS +
           ENGINE_LOCAL_CREDITS;
}

size_t engine_bytes(uint32_t links, const struct emu_profile *profile)
{
    return sizeof(struct engine) +
           links * (sizeof(struct engine_link) + emu_link_bytes(EMU_CHANNEL_SLOTS)) +
           engine_packets(links, profile) *
               (sizeof(struct engine_packet) + sizeof(struct engine_join)) +
           links * EMU_CHANNELS * (sizeof(struct engine_incoming) + sizeof(struct engine_join));
}

static bool engine_sane(const struct engine_config *config)
{
    const struct emu_profile *profile = config->profile;

    return config->links && config->links <= ENGINE_LINKS_MAX && config->nodes &&
           config->nodes <= ENGINE_NODES_MAX && config->node < config->nodes &&
           profile->channels && profile->channels <= EMU_CHANNELS &&
           profile->pool_places <= EMU_POOL_PLACES_MAX &&
           emu_channel_slots(profile) <= EMU_CHANNEL_SLOTS && /* see link_put() */
           profile->packet_bytes >= EMU_SEG_BYTES && profile->packet_bytes <= EMU_PACKET_BYTES;
}

static bool engine_alloc(struct engine *e)
{
    size_t links = e->links * sizeof(*e->link);

    e->link = aligned_alloc(EMU_LINE, links);
    e->packet = calloc(e->packets, sizeof(*e->packet));
    e->join = calloc(e->packets, sizeof(*e->join));
    e->incoming = calloc(e->links * EMU_CHANNELS, sizeof(*e->incoming));
    e->incoming_join = calloc(e->links * EMU_CHANNELS, sizeof(*e->incoming_join));
    e->flow = calloc(e->nodes, sizeof(*e->flow)); /* this and the next: memory follows use */
    e->heard = calloc(e->nodes, sizeof(*e->heard));
    if (e->link)
        memset(e->link, 0, links);
    return e->link && e->packet && e->join && e->incoming && e->incoming_join && e->flow &&
           e->heard;
}

static void engine_init(struct engine *e)
{
    struct engine_list *lists[] = {&e->awaiting, &e->resting, &e->back,       &e->free,
                                   &e->parts,    &e->whole,   &e->stored,     &e->waiting[0],
                                   &e->waiting[1], &e->waiting[2], &e->waiting[3]};

    static_assert(EMU_PRIORITIES == 4, "all lists of those that wait");
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        engine_list_init(lists[i]);
    for (uint32_t i = 0; i < e->packets; i++)
        engine_list_add(&e->free, e->join, (uint16_t)i);
    for (uint32_t i = 0; i < e->links; i++) {
        e->link[i].tx_ps = EMU_NEVER;
        emu_channels_init(&e->link[i].books, e->profile->channels, e->profile->pool_places);
    }
    e->forming = ENGINE_NONE;
    e->in_ps = e->out_ps = e->results_ps = EMU_NEVER;
}

/* What the clock makes of the profile's times. */
static void engine_times(struct engine *e, enum emu_clock_mode clock)
{
    const struct emu_profile *profile = e->profile;
    uint64_t lookahead_ps = emu_profile_lookahead_ps(profile);

    e->host_profile = *profile;
    e->host_profile.link_ps_per_byte = 0;
    e->host_profile.channel_ps = 0;
    e->host_profile.switch_ps = clock == EMU_CLOCK_VIRTUAL ? lookahead_ps : 0;
    e->recv_ps = profile->nic_recv_ps > lookahead_ps ? profile->nic_recv_ps : lookahead_ps;
    e->lookahead_ps = lookahead_ps;
    e->timeout_ps = profile->reply_timeout_ps;
}

int engine_create(struct engine **ret, struct emu_worker *worker,
                  const struct engine_config *config)
{
    size_t bytes = (sizeof(struct engine) + EMU_LINE - 1) / EMU_LINE * EMU_LINE;
    struct engine *e;

    if (!engine_sane(config))
        return -EINVAL;
    e = aligned_alloc(EMU_LINE, bytes);
    if (!e)
        return -ENOMEM;
    memset(e, 0, bytes);
    e->profile = config->profile;
    e->node = config->node;
    e->nodes = config->nodes;
    e->links = config->links;
    e->cut = config->cut;
    e->first_seq = e->tests = config->first_seq;
    e->random = (config->seed ^ config->node) * 0x9e3779b97f4a7c15u | 1;
    e->packets = engine_packets(e->links, e->profile);
    if (!engine_alloc(e)) {
        engine_destroy(e);
        return -ENOMEM;
    }
    engine_init(e);
    engine_asks_init(&e->asks, emu_mix(e->random));
    engine_times(e, worker->clock.mode);
    emu_dev_init(&e->dev, worker,
                 worker->clock.mode == EMU_CLOCK_RAW ? engine_step_raw : engine_step_timed);
    *ret = e;
    return 0;
}

void engine_destroy(struct engine *engine)
{
    if (!engine)
        return;
    for (uint32_t i = 0; engine->link && i < engine->links; i++)
        emu_link_unjoin(&engine->link[i].tx);
    emu_link_unjoin(&engine->out);
    emu_link_free_edge(&engine->in);
    emu_table_free(&engine->groups);
    free(engine->heard);
    free(engine->flow);
    free(engine->incoming_join);
    free(engine->incoming);
    free(engine->join);
    free(engine->packet);
    free(engine->link);
    free(engine);
}

void engine_faults(struct engine *engine, uint32_t link, struct emu_faults *faults)
{
    engine->link[link].faults = faults;
}

const struct emu_channels *engine_books(const struct engine *engine, uint32_t link)
{
    return &engine->link[link].books;
}

struct emu_dev *engine_emu_dev(struct engine *engine)
{
    return &engine->dev;
}

struct emu_tx *engine_tx(struct engine *engine, uint32_t port)
{
    return port == ENGINE_HOST ? &engine->out : &engine->link[port].tx;
}

struct emu_rx *engine_rx(struct engine *engine, uint32_t port)
{
    return port == ENGINE_HOST ? &engine->in : &engine->link[port].rx;
}

const struct engine_counts *engine_counts(const struct engine *engine)
{
    return &engine->counts;
}

const struct emu_profile *engine_host_profile(const struct engine *engine)
{
    return &engine->host_profile;
}
