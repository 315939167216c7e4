/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * switches_test.c - one network of crosspoint switches on two hosts, for each kind of credits:
 * cables between switches of one host are local, the others use a host link.
 */
#include <string.h>

#include "emu/hostlink/hostlink.h"
#include "emu/hostlink/wire.h"
#include "emu/util/now.h"
#include "switch/switch.h"
#include "tests/test.h"
#include "tests/fixtures/hostlink/wire.h"
#include "tests/fixtures/fixture.h"

#define NODES       64u
#define SWITCHES    64u
#define STEPS       200000u
#define PATIENCE_NS UINT64_C(20000000000)
#define ENTRIES     200u /* from each node */

/* A node: sends to all others in rotation and takes arriving entries, sometimes late. */
struct test_node {
    struct emu_dev dev;
    struct emu_tx tx;
    struct emu_rx rx;
    uint32_t sent, got, wrong;
    uint32_t from[NODES]; /* entries received, by source */
};

struct spread {
    struct topo_graph *graph;
    struct emu_profile profile;
    struct wire *wire;
    struct emu_pool *pool[2];
    struct emu_worker *worker[2];
    struct emu_hostlink *link[2];
    struct switch_dev *sw[SWITCHES];
    struct test_node *peg[NODES];
    uint32_t crossing;
    uint32_t depth; /* credits that remote devices add */
    uint64_t now_ns, random;
};

static uint32_t node_step(struct emu_dev *dev, uint64_t until_ps)
{
    (void)until_ps;
    emu_dev_take(dev, EMU_EVENT_DATA);
    emu_dev_take(dev, EMU_EVENT_CREDIT);
    return 0;
}

static uint64_t spread_now_ns(void *ctx)
{
    return ((const struct spread *)ctx)->now_ns;
}

static uint64_t spread_random(void *ctx)
{
    return test_random(ctx);
}

/* The host of switch @s. A node is on its switch's host. */
static uint32_t host_of(const struct spread *w, uint32_t s)
{
    return s % 2 ? 0 : w->graph->switches > 1;
}

static void join_local(struct emu_tx *tx, struct emu_dev *from, uint8_t from_port,
                       struct emu_rx *rx, struct emu_dev *to, uint8_t to_port,
                       const struct emu_profile *profile)
{
    CU_ASSERT_EQUAL_FATAL(emu_link_join(tx, from, from_port, rx, to, to_port,
                                        emu_profile_credits(profile), profile),
                          0);
}

static void plug_node(struct spread *w, uint32_t n)
{
    const struct topo_link *at = &w->graph->node[n].link[0];
    struct emu_dev *sw = switch_emu_dev(w->sw[at->sw]);
    struct test_node *peg = w->peg[n] = fixture_zeros(sizeof *peg);

    emu_dev_init(&peg->dev, w->worker[host_of(w, at->sw)], node_step);
    join_local(&peg->tx, &peg->dev, 0, switch_rx(w->sw[at->sw], at->port), sw, at->port,
               &w->profile);
    join_local(switch_tx(w->sw[at->sw], at->port), sw, at->port, &peg->rx, &peg->dev, 0,
               &w->profile);
}

/* Link-level retry is enabled on the last step of cables between hosts, and nowhere else here. */
static struct emu_intake *retry_end(struct spread *w, uint32_t s, uint32_t port)
{
    struct emu_intake *intake = NULL;

    if (emu_profile_retries(&w->profile)) {
        intake = switch_retry_end(w->sw[s], port);
        CU_ASSERT_PTR_NOT_NULL_FATAL(intake);
    }
    return intake;
}

/*
 * Cables between hosts are numbered in the order of the walk; both directions of one are one cable.
 */
static void plug_switch(struct spread *w, uint32_t s)
{
    for (uint32_t p = 0; p < w->graph->ports; p++) {
        const struct topo_end *end = &w->graph->sw[s].end[p];

        if (end->kind != TOPO_END_SWITCH)
            continue;
        if (host_of(w, s) == host_of(w, end->id)) {
            join_local(switch_tx(w->sw[s], p), switch_emu_dev(w->sw[s]), (uint8_t)p,
                       switch_rx(w->sw[end->id], end->port), switch_emu_dev(w->sw[end->id]),
                       end->port, &w->profile);
        } else if (s < end->id) {
            const uint32_t sw[2] = {s, end->id}, port[2] = {p, end->port};

            for (uint32_t i = 0; i < 2; i++)
                CU_ASSERT_EQUAL_FATAL(emu_hostlink_join(w->link[host_of(w, sw[i])], 0, w->crossing,
                                                        switch_tx(w->sw[sw[i]], port[i]),
                                                        switch_rx(w->sw[sw[i]], port[i]),
                                                        switch_emu_dev(w->sw[sw[i]]),
                                                        (uint8_t)port[i],
                                                        retry_end(w, sw[i], port[i]),
                                                        emu_profile_credits(&w->profile), w->depth,
                                                        &w->profile),
                                      0);
            w->crossing++;
        }
    }
}

static uint32_t crossing(const struct spread *w)
{
    uint32_t count = 0;

    for (uint32_t s = 0; s < w->graph->switches; s++)
        for (uint32_t p = 0; p < w->graph->ports; p++) {
            const struct topo_end *end = &w->graph->sw[s].end[p];

            count += end->kind == TOPO_END_SWITCH && s < end->id &&
                     host_of(w, s) != host_of(w, end->id);
        }
    return count;
}

static void make_host(struct spread *w, uint32_t host, uint32_t cables)
{
    struct emu_clock clock = {.mode = EMU_CLOCK_RAW};
    struct emu_hostlink_peer peer = {.session = {.fabric = 1,
                                                 .host = (uint16_t)host,
                                                 .peer = (uint16_t)!host,
                                                 .silent_ns = UINT64_MAX,
                                                 .window = 64,
                                                 .random = spread_random,
                                                 .random_ctx = &w->random},
                                     .cables = cables,
                                     .control_fd = -1};
    struct emu_hostlink_config config = {.port = wire_port(w->wire, host),
                                         .nodes = w->graph->nodes,
                                         .peers = &peer,
                                         .count = 1,
                                         .now_ns = spread_now_ns,
                                         .now_ctx = w};

    w->pool[host] = emu_pool_create(1u << 14);
    CU_ASSERT_PTR_NOT_NULL_FATAL(w->pool[host]);
    CU_ASSERT_EQUAL_FATAL(emu_worker_create(&w->worker[host], 1 + NODES + SWITCHES, &clock,
                                            w->pool[host]),
                          0);
    CU_ASSERT_EQUAL_FATAL(emu_hostlink_create(&w->link[host], w->worker[host], &config), 0);
}

static void spread_open(struct spread *w, const char *spec, const char *set, uint64_t seed)
{
    struct emu_profile profile;

    memset(w, 0, sizeof *w);
    fixture_profile(&profile, "oq2004", set);
    w->profile = emu_profile_on(&profile, EMU_CLOCK_RAW);
    w->graph = fixture_graph(spec, NODES);
    w->random = seed;
    w->depth = (uint32_t)(seed >> 8) % 3 * 10;
    w->now_ns = 1;
    w->wire = wire_create(2, 512, 1514, seed);
    wire_at(w->wire, w->now_ns);
    for (uint32_t host = 0; host < 2; host++) {
        wire_faults(w->wire, host)->delay_ns = 5000;
        wire_faults(w->wire, host)->jitter_ns = 5000;
        wire_faults(w->wire, host)->lost = seed % 2 ? 10000 : 0;
        make_host(w, host, crossing(w));
    }
    for (uint32_t s = 0; s < w->graph->switches; s++)
        CU_ASSERT_EQUAL_FATAL(switch_create(&w->sw[s], w->worker[host_of(w, s)], w->graph->ports,
                                            &w->graph->sw[s].route, &w->profile, s + 1),
                              0);
    for (uint32_t s = 0; s < w->graph->switches; s++)
        plug_switch(w, s);
    for (uint32_t n = 0; n < w->graph->nodes; n++)
        plug_node(w, n);
}

static void spread_close(struct spread *w)
{
    for (uint32_t n = 0; n < w->graph->nodes; n++) {
        emu_link_unjoin(&w->peg[n]->tx);
        free(w->peg[n]);
    }
    for (uint32_t s = 0; s < w->graph->switches; s++)
        switch_destroy(w->sw[s]);
    for (uint32_t host = 0; host < 2; host++) {
        emu_hostlink_destroy(w->link[host]);
        emu_worker_destroy(w->worker[host]);
        emu_pool_destroy(w->pool[host]);
    }
    wire_destroy(w->wire);
    topo_free(w->graph);
}

static void node_send(struct spread *w, uint32_t n)
{
    struct test_node *peg = w->peg[n];
    struct emu_pool_cache *cache = &peg->dev.worker->cache;
    struct emu_entry entry = {.hdr = {.src = n,
                                      .dst = (n + 1 + peg->sent) % w->graph->nodes,
                                      .seq = peg->sent / w->graph->nodes,
                                      .len = (uint8_t)sizeof(uint32_t)},
                              .buf = EMU_NO_BUF};
    uint32_t word = n << 16 | peg->sent;

    emu_tx_take_credits(&peg->tx);
    if (peg->sent == ENTRIES || !peg->tx.credits ||
        (entry.buf = emu_pool_take(cache)) == EMU_NO_BUF)
        return;
    memcpy(emu_pool_bytes(cache->pool, entry.buf), &word, sizeof word);
    emu_tx_send(&peg->tx, &entry);
    emu_tx_flush(&peg->tx);
    peg->sent++;
}

static bool node_take(struct spread *w, uint32_t n)
{
    struct test_node *peg = w->peg[n];
    struct emu_pool_cache *cache = &peg->dev.worker->cache;
    const struct emu_entry *entry = emu_rx_front(&peg->rx, 0);
    uint32_t word = 0, src;

    if (!entry)
        return false;
    src = entry->hdr.src % NODES;
    if (entry->buf != EMU_NO_BUF)
        memcpy(&word, emu_pool_bytes(cache->pool, entry->buf), sizeof word);
    peg->wrong += entry->hdr.dst != n || word >> 16 != src ||
                  (src + 1 + (word & 0xffff)) % w->graph->nodes != n;
    peg->from[src]++;
    peg->got++;
    emu_pool_drop(cache, entry->buf);
    emu_rx_skip(&peg->rx);
    emu_rx_done(&peg->rx, 1);
    peg->rx.owed = 1;
    emu_rx_pay(&peg->rx, peg->rx.owner, 0);
    return true;
}

static void spread_step(struct spread *w)
{
    w->now_ns += 1000 + test_random(&w->random) % 5000;
    wire_at(w->wire, w->now_ns);
    if (emu_hostlink_phase(w->link[0], 0) == EMU_HOSTLINK_UP &&
        emu_hostlink_phase(w->link[1], 0) == EMU_HOSTLINK_UP)
        for (uint32_t n = 0; n < w->graph->nodes; n++) {
            uint64_t draw = test_random(&w->random);

            for (uint32_t i = draw % 4; i; i--)
                node_send(w, n);
            for (uint32_t i = (draw >> 8) % 4; i && node_take(w, n); i--)
                ;
        }
    for (uint32_t host = 0; host < 2; host++)
        emu_worker_pass(w->worker[host]);
}

static uint32_t spread_got(const struct spread *w)
{
    uint32_t got = 0;

    for (uint32_t n = 0; n < w->graph->nodes; n++)
        got += w->peg[n]->got;
    return got;
}

/* Credits of all switches are conserved, and those of cables between hosts agree at both ends. */
static void spread_check(struct spread *w)
{
    for (uint32_t s = 0; s < w->graph->switches; s++) {
        const char *wrong = switch_check(w->sw[s], 0);

        if (wrong)
            printf("switch %u: %s\n", s, wrong);
        CU_ASSERT_PTR_NULL_FATAL(wrong);
    }
    for (uint32_t i = 0; i < 2 * w->crossing; i++) {
        const char *wrong = emu_hostlink_check(w->link[i % 2], 0, i / 2);

        if (wrong)
            printf("host %u, cable %u: %s\n", i % 2, i / 2, wrong);
        CU_ASSERT_PTR_NULL_FATAL(wrong);
    }
}

/*
 * Each node received every entry sent to it. Returns the entries from the other host to nodes of
 * @host.
 */
static uint32_t all_received(const struct spread *w, uint32_t host)
{
    uint32_t nodes = w->graph->nodes, crossed = 0;

    for (uint32_t src = 0; src < nodes; src++)
        for (uint32_t dst = 0; dst < nodes; dst++) {
            uint32_t first = (dst + nodes - src - 1) % nodes; /* the first entry from src to dst */
            uint32_t sent = first < ENTRIES ? (ENTRIES - first + nodes - 1) / nodes : 0;

            CU_ASSERT_EQUAL(w->peg[dst]->from[src], sent);
            if (host_of(w, w->graph->node[dst].link[0].sw) == host &&
                host_of(w, w->graph->node[src].link[0].sw) != host)
                crossed += sent;
        }
    return crossed;
}

static void traffic_crosses(const char *spec, const char *set, uint64_t seed)
{
    struct spread w;
    uint32_t all;

    spread_open(&w, spec, set, seed);
    CU_ASSERT_TRUE_FATAL(w.crossing > 0);
    all = ENTRIES * w.graph->nodes;
    for (uint32_t i = 0; i < STEPS && spread_got(&w) < all; i++) {
        spread_step(&w);
        if (i % 32 == 0)
            spread_check(&w);
    }
    CU_ASSERT_EQUAL(spread_got(&w), all);
    for (uint32_t i = 0; i < 200; i++)
        spread_step(&w); /* all credits return */
    spread_check(&w);
    for (uint32_t n = 0; n < w.graph->nodes; n++)
        CU_ASSERT_EQUAL(w.peg[n]->wrong, 0);
    for (uint32_t host = 0; host < 2; host++) {
        CU_ASSERT_EQUAL(emu_pool_out(w.pool[host], w.worker[host]->cache.count), 0);
        CU_ASSERT_TRUE(emu_count_read(&emu_hostlink_counts(w.link[host], 0)->entries_received) >=
                       all_received(&w, host));
    }
    spread_close(&w);
}

static void traffic_crosses_seeds(const char *set)
{
    static const char *const specs[] = {"kary:2,2", "kary:2,3", "kary:4,2"};
    uint64_t random = test_seed();

    for (uint32_t i = 0; i < 12; i++)
        traffic_crosses(specs[i % 3], set, test_random(&random));
}

static void credits__of_rows(void)
{
    traffic_crosses_seeds("credit=row");
}

static void credits__of_a_counter(void)
{
    traffic_crosses_seeds("credit=counter");
}

static void credits__of_buffers_at_inputs(void)
{
    traffic_crosses_seeds("buffers=input_xpoint");
}

static void credits__scarce(void)
{
    traffic_crosses_seeds("raw_xpoint_slots=2");
}

/* --- faults ------------------------------------------------------------------------- */

/* The first cable between hosts, at the switch with the higher number. */
static struct switch_dev *first_crossing(const struct spread *w, uint32_t *port)
{
    for (uint32_t s = 0; s < w->graph->switches; s++)
        for (uint32_t p = 0; p < w->graph->ports; p++) {
            const struct topo_end *end = &w->graph->sw[s].end[p];

            if (end->kind == TOPO_END_SWITCH && host_of(w, s) != host_of(w, end->id)) {
                *port = end->port;
                return w->sw[end->id];
            }
        }
    return NULL;
}

/*
 * Injects @what into every fifth of @packets on a cable from the other host, with a profile that
 * sets @set. Returns the number of hits.
 */
static uint64_t inject_faults(enum emu_fault_what what, uint32_t packets, const char *set,
                              bool checks, uint64_t seed)
{
    const struct emu_fault_rule rule = {.what = what,
                                        .rate = EMU_FAULT_ONE / 5,
                                        .aim = {.packets = packets,
                                                .kinds = EMU_FAULT_KINDS,
                                                .src = EMU_FAULT_ANY,
                                                .dst = EMU_FAULT_ANY,
                                                .group = EMU_FAULT_ANY}};
    const struct emu_fault_rates none = {0};
    struct switch_retries hit = {0};
    struct emu_faults faults;
    struct switch_dev *sw;
    struct spread w;
    uint32_t port = 0, all;
    uint64_t hits, until_ns = set ? emu_now_ns() + PATIENCE_NS : 0; /* time-outs take a while */

    spread_open(&w, "kary:2,2", set, seed);
    sw = first_crossing(&w, &port);
    emu_faults_init(&faults, &none, seed);
    CU_ASSERT_EQUAL_FATAL(emu_faults_add(&faults, &rule, 1, seed), 0);
    CU_ASSERT_EQUAL_FATAL(switch_faults(sw, port, &faults), 0);
    all = ENTRIES * w.graph->nodes;
    for (uint32_t i = 0; (i < STEPS || emu_now_ns() < until_ns) && spread_got(&w) + hit.lost < all;
         i++) {
        spread_step(&w);
        if (checks && i % 32 == 0)
            spread_check(&w);
        hit = (struct switch_retries){0};
        switch_retries_add(sw, &hit);
    }
    CU_ASSERT_EQUAL(spread_got(&w) + hit.lost, all);
    CU_ASSERT_TRUE(!set || (!hit.lost && emu_hostlink_replay(w.link[0], 0, 0)));
    for (uint32_t n = 0; n < w.graph->nodes; n++)
        CU_ASSERT_EQUAL(w.peg[n]->wrong, 0);
    hits = emu_faults_remove(&faults, 1);
    for (uint32_t host = 0; host < 2; host++) {
        const struct emu_hostlink_counts *counts = emu_hostlink_counts(w.link[host], 0);

        CU_ASSERT_EQUAL(emu_count_read(&counts->overrun) + emu_count_read(&counts->unearned), 0);
        CU_ASSERT_EQUAL(emu_count_read(&counts->cut) + emu_count_read(&counts->discarded), 0);
    }
    CU_ASSERT_EQUAL(switch_faults(sw, port, NULL), 0);
    emu_faults_drop(&faults, &switch_emu_dev(sw)->worker->cache);
    spread_close(&w);
    return hits;
}

/*
 * A fault on a cable from another host has the same effect as on a local cable without link-level
 * retry; it is not taken for an invalid record.
 */
static void faults__between_hosts_are_not_taken_for_invalid_records(void)
{
    uint64_t random = test_seed(), hits[3] = {0};

    for (uint32_t i = 0; i < 6; i++) {
        hits[0] += inject_faults(EMU_FAULT_LOSE, EMU_FAULT_HEAD, NULL, true, test_random(&random));
        hits[1] +=
            inject_faults(EMU_FAULT_DUPLICATE, EMU_FAULT_HEAD, NULL, true, test_random(&random));
        hits[2] +=
            inject_faults(EMU_FAULT_DUPLICATE, EMU_FAULT_CREDIT, NULL, false, test_random(&random));
    }
    for (uint32_t i = 0; i < 3; i++)
        CU_ASSERT_TRUE(hits[i] > 0);
}

/* With link-level retry all entries arrive once, and the credits of both hosts are conserved. */
static void retry__repairs_the_last_step_between_hosts(void)
{
    static const enum emu_fault_what what[] = {EMU_FAULT_LOSE, EMU_FAULT_DUPLICATE,
                                               EMU_FAULT_FLIP_ANY};
    uint64_t random = test_seed();

    traffic_crosses_seeds("link_retry=go_back_n");
    for (uint32_t i = 0; i < 9; i++)
        CU_ASSERT_TRUE(inject_faults(what[i % 3], EMU_FAULT_HEAD, "link_retry=go_back_n", true,
                                     test_random(&random)) > 0);
}

/* --- a lying host ------------------------------------------------------------------------ */

#define LIES 1500u

/* The test drives the session of host 1, whose devices and switches rest. */
struct liar {
    struct spread w;
    struct emu_session *session;
    uint64_t incarnation;    /* of the session, to which the rest belongs */
    bool ready;              /* host 0 has sent READY */
    uint32_t owed[SWITCHES]; /* by cable: entries from host 0 without a credit yet */
};

static void liar_open(struct liar *l, uint64_t seed)
{
    struct emu_session_config config = {.fabric = 1,
                                        .host = 1,
                                        .silent_ns = UINT64_MAX,
                                        .window = 64,
                                        .random = spread_random,
                                        .random_ctx = &l->w.random};

    memset(l, 0, sizeof *l);
    spread_open(&l->w, "kary:2,2", "link_retry=go_back_n", seed);
    CU_ASSERT_FATAL(l->w.crossing > 0 && l->w.crossing <= SWITCHES);
    config.port = wire_port(l->w.wire, 1);
    CU_ASSERT_EQUAL_FATAL(emu_session_create(&l->session, &config), 0);
}

static void liar_receive(void *ctx, const uint8_t *records, uint32_t bytes)
{
    struct emu_hostlink_record record;
    struct liar *l = ctx;

    if (l->incarnation != emu_session_incarnation(l->session))
        memset(l->owed, 0, sizeof l->owed);
    l->incarnation = emu_session_incarnation(l->session);
    while (bytes) {
        uint32_t whole = emu_hostlink_parse(records, bytes, l->w.crossing, &record);

        CU_ASSERT_NOT_EQUAL_FATAL(whole, 0);
        l->ready |= record.kind == EMU_HOSTLINK_READY;
        if (record.kind == EMU_HOSTLINK_ENTRY)
            l->owed[record.cable]++;
        records += whole;
        bytes -= whole;
    }
}

/* Nodes of host 0 send if @sends, and take what arrives. */
static void liar_step(struct liar *l, bool sends)
{
    struct emu_hostport *port = wire_port(l->w.wire, 1);
    struct emu_hostframe *frame[EMU_HOSTLINK_BURST];
    uint32_t got;

    l->w.now_ns += 1000 + test_random(&l->w.random) % 5000;
    wire_at(l->w.wire, l->w.now_ns);
    for (uint32_t n = 0; n < l->w.graph->nodes; n++)
        if (host_of(&l->w, l->w.graph->node[n].link[0].sw) == 0) {
            if (sends)
                node_send(&l->w, n);
            node_take(&l->w, n);
        }
    emu_worker_pass(l->w.worker[0]);
    got = port->ops->receive(port, frame, EMU_HOSTLINK_BURST);
    for (uint32_t i = 0; i < got; i++)
        emu_session_receive(l->session, frame[i], l->w.now_ns, liar_receive, l);
    emu_session_step(l->session, l->w.now_ns);
}

/* An entry that its cable may carry, and to any node; or a count or a kind that no host sends. */
static struct emu_hostlink_record drawn_record(struct liar *l)
{
    static const uint8_t payload[EMU_PAYLOAD_BYTES];
    uint64_t draw = test_random(&l->w.random);
    struct emu_hostlink_record record = {.kind = EMU_HOSTLINK_ENTRY,
                                         .cable = (uint32_t)(draw >> 8) % l->w.crossing};

    if (draw % 64 == 0)
        return (struct emu_hostlink_record){.kind = EMU_HOSTLINK_CREDITS,
                                            .cable = record.cable,
                                            .count = 1000u << draw % 16};
    if (draw % 4 == 1 && l->owed[record.cable] &&
        l->incarnation == emu_session_incarnation(l->session)) {
        record.kind = EMU_HOSTLINK_CREDITS;
        record.count = l->owed[record.cable];
        l->owed[record.cable] = 0;
        return record;
    }
    record.entry.hdr = (struct emu_hdr){.dst = (uint32_t)(draw >> 16) % l->w.graph->nodes,
                                        .src = (uint32_t)(draw >> 24) % l->w.graph->nodes,
                                        .seq = (uint32_t)(draw >> 32),
                                        .len = (uint8_t)(draw >> 40) % 5 * 8,
                                        .kind = draw % 8 ? EMU_UNICAST : EMU_MULTICAST};
    record.has_buf = record.entry.hdr.len;
    record.payload = record.has_buf ? payload : NULL;
    record.payload_bytes = record.entry.hdr.len;
    return record;
}

static void liar_send(struct liar *l)
{
    static const struct emu_hostlink_record ready = {.kind = EMU_HOSTLINK_READY};
    bool is_up = emu_hostlink_phase(l->w.link[0], 0) == EMU_HOSTLINK_UP;
    struct emu_hostlink_record record = is_up ? drawn_record(l) : ready;
    uint8_t *to;

    if (!is_up && !l->ready)
        return;
    to = emu_session_room(l->session, emu_hostlink_bytes(&record));
    if (!to)
        return;
    emu_hostlink_write(to, &record);
    emu_session_put(l->session, emu_hostlink_bytes(&record));
    l->ready = false;
}

static void liar_check(struct liar *l)
{
    for (uint32_t s = 0; s < l->w.graph->switches; s++)
        if (host_of(&l->w, s) == 0)
            CU_ASSERT_PTR_NULL(switch_check(l->w.sw[s], 0));
    for (uint32_t i = 0; i < l->w.crossing; i++)
        CU_ASSERT_PTR_NULL(emu_hostlink_check(l->w.link[0], 0, i));
}

/* A cable from the other host at a switch of host 0. */
static struct switch_dev *crossing_here(const struct spread *w, uint32_t *port)
{
    for (uint32_t s = 0; s < w->graph->switches; s++)
        for (*port = 0; host_of(w, s) == 0 && *port < w->graph->ports; ++*port) {
            const struct topo_end *end = &w->graph->sw[s].end[*port];

            if (end->kind == TOPO_END_SWITCH && host_of(w, end->id))
                return w->sw[s];
        }
    return NULL;
}

/*
 * With link-level retry, and faults on the last step of a cable, a lying host has no effect on the
 * credits and buffers of this one. At the end all buffers are free.
 */
static void retry__keeps_the_credits_with_a_lying_host(void)
{
    const struct emu_fault_rule rule = {.what = EMU_FAULT_LOSE,
                                        .rate = EMU_FAULT_ONE / 8,
                                        .aim = {.packets = EMU_FAULT_HEAD,
                                                .kinds = EMU_FAULT_KINDS,
                                                .src = EMU_FAULT_ANY,
                                                .dst = EMU_FAULT_ANY,
                                                .group = EMU_FAULT_ANY}};
    const struct emu_fault_rates none = {0};
    uint64_t until_ns = emu_now_ns() + PATIENCE_NS; /* time-outs of retry take a while */
    struct emu_faults faults;
    struct switch_dev *sw;
    struct liar l;
    uint32_t port = 0;

    liar_open(&l, test_seed());
    sw = crossing_here(&l.w, &port);
    CU_ASSERT_PTR_NOT_NULL_FATAL(sw);
    emu_faults_init(&faults, &none, test_seed());
    CU_ASSERT_EQUAL_FATAL(emu_faults_add(&faults, &rule, 1, 0), 0);
    CU_ASSERT_EQUAL_FATAL(switch_faults(sw, port, &faults), 0);
    for (uint32_t i = 0; i < LIES; i++) {
        for (uint32_t s = 0; s < 20; s++) {
            liar_send(&l);
            liar_step(&l, true);
        }
        emu_hostlink_bring_up(l.w.link[0], 0); /* if a lie has ended the session */
        liar_check(&l);
    }
    CU_ASSERT_TRUE(emu_count_read(&emu_hostlink_counts(l.w.link[0], 0)->entries_received) >
                   LIES / 10);
    CU_ASSERT_TRUE(emu_count_read(&emu_hostlink_counts(l.w.link[0], 0)->unearned) > 1);
    CU_ASSERT_TRUE(emu_faults_remove(&faults, 1) > 0);
    emu_hostlink_take_down(l.w.link[0], 0);
    while (emu_pool_out(l.w.pool[0], l.w.worker[0]->cache.count) && emu_now_ns() < until_ns)
        liar_step(&l, false);
    CU_ASSERT_EQUAL(emu_pool_out(l.w.pool[0], l.w.worker[0]->cache.count), 0);
    liar_check(&l);
    CU_ASSERT_EQUAL(switch_faults(sw, port, NULL), 0);
    emu_faults_drop(&faults, &switch_emu_dev(sw)->worker->cache);
    emu_session_destroy(l.session);
    spread_close(&l.w);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(credits__of_rows),
        CASE(credits__of_a_counter),
        CASE(credits__of_buffers_at_inputs),
        CASE(credits__scarce),
        CASE(faults__between_hosts_are_not_taken_for_invalid_records),
        CASE(retry__repairs_the_last_step_between_hosts),
        CASE(retry__keeps_the_credits_with_a_lying_host),
        {NULL, NULL}};

    return test_run("switches", cases);
}
