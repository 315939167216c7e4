/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reroute_test.c - links between crosspoint switches go down and up, and ports get stuck, under
 * traffic without retransmission: with the manager's tables, trees and rerouting every segment
 * reaches its destination once.
 */
#include <stdlib.h>
#include <string.h>

#include "apps/fabric/internal.h"
#include "apps/manager/manager.h"
#include "emu/util/combine.h"
#include "emu/util/now.h"
#include "switch/common/crossbar.h"
#include "tests/test.h"
#include "tests/fixtures/hostifs.h"
#include "tests/fixtures/switch/trial.h"

#define FOREVER_PS (UINT64_C(1) << 36) /* 68 ms */
#define FLAPS      TEST_TRIALS(40u)

/* Events that the manager has reported. */
struct heard {
    uint32_t lost, ups, tables, treeless, stuck, failed, partitions;
    uint64_t partitioned;
};

static void on_event(void *ctx, const struct manager_event *event)
{
    struct heard *heard = ctx;

    heard->lost += event->what == MANAGER_EVENT_LOST;
    heard->ups += event->what == MANAGER_EVENT_UP;
    heard->tables += event->what == MANAGER_EVENT_TABLES;
    heard->treeless += event->what == MANAGER_EVENT_TREELESS;
    heard->partitions += event->what == MANAGER_EVENT_PARTITIONED;
    heard->stuck += event->what == MANAGER_EVENT_STUCK;
    heard->failed += event->what == MANAGER_EVENT_FAILED;
    if (event->what == MANAGER_EVENT_TABLES)
        heard->partitioned = event->partitioned;
}

/* @no_link_ps: how long nodes may be unreachable. */
static struct manager *manager_within(struct fabric *fabric, struct heard *heard,
                                      uint64_t no_link_ps)
{
    struct manager_config config = manager_defaults();
    struct manager *manager;

    config.step_ps = 1000000;
    config.reaction_ps = 3000000;
    config.in_flight_ps = 1000000;
    config.in_flight_last_ps = 8000000;
    config.again_ps = 50000000;
    config.scan_ps = 5000000;
    config.stuck_ps = 20000000;
    config.no_link_ps = no_link_ps;
    config.event = on_event;
    config.ctx = heard;
    CU_ASSERT_EQUAL_FATAL(manager_create(&manager, fabric, &config), 0);
    return manager;
}

static struct manager *manager_for(struct fabric *fabric, struct heard *heard)
{
    return manager_within(fabric, heard, EMU_NEVER);
}

/* --- simulated time ----------------------------------------------------------------- */

/* Run to @until_ps, or until nothing is due; the manager is stepped when it is due. */
static void advance(struct sim *w, struct manager *manager, uint64_t until_ps, bool drains)
{
    uint64_t carried = manager_rerouted(manager);
    uint32_t idle = 0;

    while (w->now_ps < until_ps) {
        uint64_t due_ps = manager_due_ps(manager);
        bool still = carried == manager_rerouted(manager) && fabric_idle(w->fabric) &&
                     !manager_is_busy(manager);

        idle = still ? idle + 1 : 0;
        carried = manager_rerouted(manager);
        if (drains && still && (idle == 4 || due_ps == EMU_NEVER))
            return; /* nothing is left to reroute either */
        sim_advance(w, due_ps < until_ps ? due_ps : until_ps);
        if (due_ps <= w->now_ps)
            CU_ASSERT_EQUAL(manager_step(manager, w->now_ps), 0);
    }
}

static bool is_inside(const struct fabric *fabric, uint32_t cable)
{
    return fabric_cable(fabric, cable)->kind == TOPO_END_SWITCH;
}

static void turn(struct sim *w, struct manager *manager, uint32_t cable, bool on)
{
    uint32_t hit;

    CU_ASSERT_EQUAL(manager_signal(manager, cable, on, 0, w->now_ps, &hit), 0);
}

/* A trial of a network with several routes, on cables with retry. */
static struct trial draw(uint64_t *seed, enum emu_buffers buffers)
{
    static const char *const specs[] = {"kary:2,3", "kary:4,2", "kary:3,2", "kary:2,2"};
    struct trial t = trial_draw(test_random(seed), buffers);

    t.spec = specs[test_draw(seed, 0, 3)];
    t.profile.link_retry = EMU_LINK_RETRY_GO_BACK_N;
    return t;
}

/*
 * Cables go down and up for a while; at the end all are back if @heals, otherwise some stay down.
 */
static uint64_t run_with_flaps(struct trial t, struct heard *heard, uint64_t *carried,
                               uint32_t workers, uint64_t cut_ps, bool heals)
{
    uint64_t random = t.seed, digest;
    struct manager *manager;
    struct sim w;

    *heard = (struct heard){0};
    trial_open(&t, &w, workers);
    manager = manager_for(w.fabric, heard);
    for (uint32_t moment = 0; moment < 60; moment++) {
        uint32_t cable = (uint32_t)test_draw(&random, 0, fabric_cable_count(w.fabric) - 1);
        uint64_t until_ps = w.now_ps + test_draw(&random, 1, 1000000);
        bool on = test_draw(&random, 0, 1);

        while (cut_ps && w.now_ps + cut_ps < until_ps)
            advance(&w, manager, w.now_ps + cut_ps, false);
        advance(&w, manager, until_ps, false);
        if (is_inside(w.fabric, cable) && (on || manager_links_out(manager) < 1 + moment % 3))
            turn(&w, manager, cable, on);
        CU_ASSERT_TRUE(sim_holds(&w));
    }
    for (uint32_t c = 0; c < fabric_cable_count(w.fabric); c++)
        if (is_inside(w.fabric, c))
            turn(&w, manager, c, true);
    for (uint32_t c = 0; !heals && c < fabric_cable_count(w.fabric); c++)
        if (is_inside(w.fabric, c)) {
            turn(&w, manager, c, false);
            break;
        }
    advance(&w, manager, w.now_ps + FOREVER_PS, true);
    if (!trial_arrived(&t, &w) || !sim_holds(&w)) {
        trial_print(&t);
        CU_FAIL_FATAL("not everything has arrived");
    }
    digest = sim_digest(&w);
    *carried = manager_rerouted(manager);
    manager_destroy(manager);
    sim_close(&w);
    CU_ASSERT_EQUAL(heard->stuck, 0);
    return digest;
}

/* @trials trials; two of four leave a link down. Returns the number of table computations. */
static uint32_t flap(uint64_t seed, uint32_t trials, uint64_t *carried)
{
    uint32_t tables = 0;

    *carried = 0;
    for (uint32_t i = 0; i < trials; i++) {
        struct trial t = draw(&seed, (enum emu_buffers)(i % 2));
        struct heard heard;
        uint64_t by_this;

        run_with_flaps(t, &heard, &by_this, 1 + i % 2, 0, i % 4 < 2);
        *carried += by_this;
        tables += heard.tables;
    }
    return tables;
}

/*
 * Links flap, and one stays down: every segment arrives once, wherever it was when the link went
 * down.
 */
static void links__flap_and_nothing_is_lost(void)
{
    uint64_t carried;

    CU_ASSERT(flap(test_seed(), FLAPS, &carried) > FLAPS);
    CU_ASSERT(carried > 0);
}

/*
 * The last trial of this seed takes two links of a switch down and brings both back: segments of
 * each wait for the other link. They once kept each other down for ever.
 */
static void links__returning_do_not_keep_each_other_down(void)
{
    uint64_t carried;

    CU_ASSERT(flap(UINT64_C(1795277041002416169), 4, &carried) > 0);
    CU_ASSERT(carried > 0);
}

/* A run depends only on its seed, not on workers or on how time is cut into windows. */
static void links__flap_the_same_on_any_number_of_workers(void)
{
    uint64_t seed = test_seed(), carried[3];

    for (uint32_t i = 0; i < TEST_TRIALS(8u); i++) {
        struct trial t = draw(&seed, (enum emu_buffers)(i % 2));
        struct heard heard;
        uint64_t once = run_with_flaps(t, &heard, &carried[0], 1, 0, i % 2);

        CU_ASSERT_EQUAL(run_with_flaps(t, &heard, &carried[1], 2, 0, i % 2), once);
        CU_ASSERT_EQUAL(run_with_flaps(t, &heard, &carried[2], 2, 300000, i % 2), once);
        CU_ASSERT(carried[0] == carried[1] && carried[0] == carried[2]);
    }
}

/* --- unreachable nodes ---------------------------------------------------------------- */

/* Cut or restore all cables of the first switch upwards. */
static void set_partitioned(struct sim *w, struct manager *manager, bool parts)
{
    for (uint32_t p = 0; p < fabric_graph(w->fabric)->ports; p++) {
        uint32_t cable = fabric_cable_at(w->fabric, 0, p);

        if (cable != TOPO_NONE && is_inside(w->fabric, cable))
            turn(w, manager, cable, !parts);
    }
}

static uint64_t waiting(const struct sim *w)
{
    uint64_t waiting = 0;

    for (uint32_t i = 0; i < fabric_cable_count(w->fabric); i++)
        for (uint32_t out = 0; is_inside(w->fabric, i) && out < 2; out++)
            waiting += fabric_port_waiting(w->fabric, i, out, 0, w->now_ps);
    return waiting;
}

/*
 * From some moment on nodes are unreachable. Segments for them wait, are dropped after the bound,
 * and block nothing else; they leak no credit or buffer, and at the end all links are used.
 */
static void partitioned__nodes_block_nothing(void)
{
    uint64_t seed = test_seed(), dropped = 0;

    for (uint32_t i = 0; i < TEST_TRIALS(20u); i++) {
        struct trial t = draw(&seed, (enum emu_buffers)(i % 2));
        struct heard heard = {0};
        struct manager *manager;
        struct sim w;

        trial_open(&t, &w, 1 + i % 2);
        manager = manager_within(w.fabric, &heard, 30000000);
        advance(&w, manager, w.now_ps + test_draw(&seed, 1, 10000000), false);
        set_partitioned(&w, manager, true);
        advance(&w, manager, w.now_ps + 20000000, false);
        CU_ASSERT_EQUAL(fabric_dropped_unreachable(w.fabric) + heard.partitions, 0);
        advance(&w, manager, w.now_ps + FOREVER_PS, false);
        CU_ASSERT(heard.partitions > 1); /* again and again */
        CU_ASSERT_EQUAL(waiting(&w), 0);
        CU_ASSERT_TRUE(sim_holds(&w));
        dropped += fabric_dropped_unreachable(w.fabric);
        set_partitioned(&w, manager, false);
        advance(&w, manager, w.now_ps + FOREVER_PS, false);
        CU_ASSERT_EQUAL(manager_links_out(manager), 0);
        CU_ASSERT_TRUE(fabric_reaches(w.fabric, 0, fabric_graph(w.fabric)->nodes - 1));
        CU_ASSERT_TRUE(sim_holds(&w));
        manager_destroy(manager);
        sim_close(&w);
    }
    CU_ASSERT(dropped > 0);
}

/* --- ports that are stuck ------------------------------------------------------------- */

static void stick(struct fabric *fabric, uint32_t cable, bool stuck, uint64_t at_ps)
{
    fabric_pause(fabric);
    for (uint32_t out = 0; out < 2; out++) {
        CU_ASSERT_PTR_NOT_NULL_FATAL(fabric_faults(fabric, cable, out));
        fabric_port_stick(fabric, cable, out, stuck, at_ps);
    }
    fabric_resume(fabric);
}

static uint32_t cable_inside(const struct fabric *fabric, uint64_t *random)
{
    uint32_t cable;

    do
        cable = (uint32_t)test_draw(random, 0, fabric_cable_count(fabric) - 1);
    while (!is_inside(fabric, cable));
    return cable;
}

/* The ports of a cable are stuck from some moment on, until everything has arrived. */
static uint64_t run_with_stuck_port(struct trial t, struct heard *heard, uint32_t workers)
{
    uint64_t random = t.seed, digest;
    struct manager *manager;
    uint32_t cable;
    struct sim w;

    *heard = (struct heard){0};
    trial_open(&t, &w, workers);
    manager = manager_for(w.fabric, heard);
    cable = cable_inside(w.fabric, &random);
    advance(&w, manager, w.now_ps + test_draw(&random, 1, 20000000), false);
    stick(w.fabric, cable, true, w.now_ps);
    advance(&w, manager, w.now_ps + FOREVER_PS, false);
    if (!trial_arrived(&t, &w) || !sim_holds(&w)) {
        trial_print(&t);
        CU_FAIL_FATAL("not everything has arrived");
    }
    digest = sim_digest(&w);
    CU_ASSERT_EQUAL(manager_link_state(manager, cable) != MANAGER_UP, heard->stuck != 0);
    CU_ASSERT_EQUAL(heard->failed != 0, heard->stuck != 0); /* it was tested meanwhile */
    CU_ASSERT_EQUAL(heard->ups, 0);
    stick(w.fabric, cable, false, w.now_ps);
    advance(&w, manager, w.now_ps + FOREVER_PS, false);
    CU_ASSERT_EQUAL(manager_link_state(manager, cable), MANAGER_UP);
    CU_ASSERT_TRUE(sim_holds(&w));
    manager_destroy(manager);
    sim_close(&w);
    return digest;
}

/*
 * With retry and without: a port that sends nothing is detected, the segments waiting there arrive
 * all the same, and its link is used again only after the port sends again.
 */
static void port__stuck_is_removed_and_its_segments_rerouted(void)
{
    uint64_t seed = test_seed();
    uint32_t found[2] = {0};

    for (uint32_t i = 0; i < TEST_TRIALS(40u); i++) {
        struct trial t = draw(&seed, (enum emu_buffers)(i / 2 % 2));
        struct heard heard;
        uint64_t once;

        t.profile.link_retry = i % 2 ? EMU_LINK_RETRY_GO_BACK_N : EMU_LINK_RETRY_NONE;
        once = run_with_stuck_port(t, &heard, 1);
        found[i % 2] += heard.stuck;
        if (i % 8 < 2)
            CU_ASSERT_EQUAL(run_with_stuck_port(t, &heard, 2), once);
    }
    CU_ASSERT(found[0] && found[1]);
}

/* A fabric without traffic, a manager, and a port between switches. */
struct lone_port {
    struct hostifs w;
    struct heard heard;
    struct manager *manager;
    struct switch_dev *sw;
    uint32_t port;
};

static void lone_port_open(struct lone_port *l)
{
    struct fabric_config config = {.threads = 1, .seed = 1, .start_stopped = true};
    uint32_t cable = 0;

    l->heard = (struct heard){0};
    fixture_profile(&config.profile, "oq2004", NULL);
    hostifs_open(&l->w, "kary:2,2", &config);
    l->manager = manager_for(l->w.fabric, &l->heard);
    while (!is_inside(l->w.fabric, cable))
        cable++;
    CU_ASSERT_PTR_NOT_NULL_FATAL(fabric_faults(l->w.fabric, cable, true));
    l->sw = l->w.fabric->sw[fabric_cable(l->w.fabric, cable)->at.sw];
    l->port = fabric_cable(l->w.fabric, cable)->at.port;
}

static void lone_port_close(struct lone_port *l)
{
    manager_destroy(l->manager);
    hostifs_close(&l->w);
}

/* The manager's check at @now_ps: is a segment waiting at the port? */
static void lone_port_check(struct lone_port *l, uint64_t now_ps, bool waits)
{
    struct switch_out *out = &switch_crossbar_of(l->sw)->out[l->port];

    out->waiting = waits;
    CU_ASSERT_TRUE(switch_is_ready(l->sw, l->port) == waits);
    CU_ASSERT_EQUAL(manager_step(l->manager, now_ps), 0);
    out->waiting = 0;
    fixture_fabric_pass(l->w.fabric);
}

#define LOOK_PS  UINT64_C(5000000)
#define BOUND_PS UINT64_C(20000000)

/*
 * Segments wait at a port in two checks that are farther apart than the bound; in between nothing
 * waits, or it waits for credit. The first segment may have been dropped instead of sent.
 */
static void port__unable_to_send_between_samples_is_not_stuck(void)
{
    struct lone_port l;

    lone_port_open(&l);
    for (uint64_t now_ps = LOOK_PS; now_ps <= 3 * BOUND_PS; now_ps += LOOK_PS)
        lone_port_check(&l, now_ps, now_ps == LOOK_PS || now_ps == LOOK_PS + BOUND_PS);
    CU_ASSERT_EQUAL(l.heard.stuck, 0);
    lone_port_close(&l);
}

/* A manager that had no core for a while cannot conclude that the port had one. */
static void port__is_not_stuck_if_a_check_is_late(void)
{
    uint64_t now_ps = LOOK_PS;
    struct lone_port l;

    lone_port_open(&l);
    lone_port_check(&l, now_ps, true);
    now_ps += 10 * BOUND_PS;
    lone_port_check(&l, now_ps, true);
    for (uint32_t looks = 2; looks * LOOK_PS < BOUND_PS; looks++)
        lone_port_check(&l, now_ps += LOOK_PS, true);
    CU_ASSERT_EQUAL(l.heard.stuck, 0);
    lone_port_check(&l, now_ps += LOOK_PS, true);
    CU_ASSERT_EQUAL(l.heard.stuck, 1);
    lone_port_close(&l);
}

/* --- clock raw ---------------------------------------------------------------------- */

#define POSTS (8 * TEST_TRIALS(75u)) /* unicasts of each node, and rounds of the groups */

/* All processes of a run: what each has posted and received. */
struct procs {
    struct hostifs w;
    struct manager *manager;
    struct heard heard;
    uint64_t random;
    bool flaps, sticks; /* flaps: cables go down and up; sticks: the ports of one get stuck */
    uint32_t steps;
    uint32_t all, sums; /* groups of all nodes: for multicasts, for all-reduces */
    uint8_t *seen;      /* unicasts, by source and number */
    uint32_t got, casts, wrong;
    uint32_t added[HOSTIFS_MAX];  /* contributions of each node, */
    uint32_t result[HOSTIFS_MAX]; /* and results it received */
};

static uint64_t now_ps(void)
{
    return emu_now_ns() * 1000u;
}

static void procs_take(struct procs *c)
{
    struct emu_seg seg;
    int64_t is;

    for (uint32_t n = 0; n < c->w.nodes; n++)
        while (hostifs_take(&c->w, n, &seg)) {
            memcpy(&is, seg.payload, sizeof is);
            if (seg.hdr.kind == EMU_UNICAST) {
                c->got++;
                c->wrong += seg.hdr.dst != n || c->seen[seg.hdr.src * POSTS + seg.hdr.seq]++ ||
                            is != (int64_t)(seg.hdr.seq * 77 + seg.hdr.src);
            } else if (seg.hdr.kind == EMU_MULTICAST) {
                c->casts++;
                c->wrong += seg.hdr.src == n || is != (int64_t)seg.hdr.src;
            } else {
                c->wrong += seg.hdr.seq != c->result[n] ||
                            is != (int64_t)(seg.hdr.seq * c->w.nodes);
                c->result[n]++;
            }
        }
}

/* One cable loses or regains its signal. */
static void procs_flap(struct procs *c)
{
    uint32_t cable = (uint32_t)test_draw(&c->random, 0, fabric_cable_count(c->w.fabric) - 1);
    bool on = manager_links_out(c->manager) >= 2 || test_draw(&c->random, 0, 1);
    uint32_t hit;

    if (is_inside(c->w.fabric, cable))
        CU_ASSERT_EQUAL(manager_signal(c->manager, cable, on, 0, now_ps(), &hit), 0);
    fabric_pause(c->w.fabric);
    CU_ASSERT_TRUE(fixture_fabric_holds(c->w.fabric, 0));
    fabric_resume(c->w.fabric);
}

/* The manager does what is due; with @flaps a cable changes state now and then. */
static void procs_step(struct procs *c)
{
    if (c->flaps && c->steps++ % 16 == 0)
        procs_flap(c);
    if (c->sticks && c->steps++ == 64)
        stick(c->w.fabric, cable_inside(c->w.fabric, &c->random), true, now_ps());
    if (manager_due_ps(c->manager) <= now_ps())
        CU_ASSERT_EQUAL(manager_step(c->manager, now_ps()), 0);
    procs_take(c);
}

static void procs_post(struct procs *c, uint32_t src, struct emu_hdr hdr, int64_t is)
{
    hdr.len = sizeof is;
    for (uint32_t i = 0; !hostifs_post(&c->w, src, &hdr, &is); i++) {
        CU_ASSERT_FATAL(i < HOSTIFS_GIVE_UP);
        procs_step(c);
        hostifs_pause(i);
    }
}

/* Contributions run ahead of results by at most @ahead. */
static void procs_add(struct procs *c, uint32_t n, uint32_t ahead)
{
    const struct emu_hdr hdr = {
        .dst = c->sums, .kind = EMU_ALLREDUCE, .seq = c->added[n], .op = EMU_SUM, .type = EMU_I64};

    if (c->added[n] == POSTS || c->added[n] - c->result[n] >= ahead)
        return;
    procs_post(c, n, hdr, (int64_t)c->added[n]);
    c->added[n]++;
}

/* All cables are up again, but for one that stays down. */
static void procs_settle(struct procs *c)
{
    bool away = false;
    uint32_t hit;

    c->flaps = false;
    for (uint32_t i = 0; i < fabric_cable_count(c->w.fabric); i++) {
        bool on = away || !is_inside(c->w.fabric, i);

        away |= !on;
        if (is_inside(c->w.fabric, i))
            CU_ASSERT_EQUAL(manager_signal(c->manager, i, on, 0, now_ps(), &hit), 0);
    }
}

static bool procs_is_done(const struct procs *c)
{
    uint32_t rounds = POSTS / 8;

    for (uint32_t n = 0; n < c->w.nodes; n++)
        if (c->result[n] < POSTS)
            return false;
    return c->got == c->w.nodes * POSTS && c->casts == rounds * c->w.nodes * (c->w.nodes - 1);
}

static void procs_open(struct procs *c, const char *topo, const char *set, uint32_t threads,
                       enum emu_link_retry retry, uint64_t seed)
{
    struct fabric_config config = {.clock = EMU_CLOCK_RAW, .threads = threads, .seed = seed};
    uint32_t nodes[HOSTIFS_MAX];
    char error[256];

    *c = (struct procs){.got = 0};
    fixture_profile(&config.profile, "oq2004", set);
    config.profile.link_retry = retry;
    hostifs_open(&c->w, topo, &config);
    c->seen = calloc(c->w.nodes, POSTS);
    for (uint32_t n = 0; n < c->w.nodes; n++)
        nodes[n] = n;
    CU_ASSERT_EQUAL_FATAL(fabric_group_create(c->w.fabric, nodes, c->w.nodes, &c->sums, error,
                                              sizeof error),
                          0);
    CU_ASSERT_EQUAL_FATAL(fabric_multicast_create(c->w.fabric, nodes, c->w.nodes, c->w.nodes,
                                                  &c->all, error, sizeof error),
                          0);
    c->manager = manager_for(c->w.fabric, &c->heard);
    c->random = ~seed;
}

static void procs_close(struct procs *c)
{
    manager_destroy(c->manager);
    hostifs_close(&c->w);
    free(c->seen);
}

/*
 * All nodes send to each other, multicast and all-reduce, over cables that flap, of which one stays
 * down or is stuck at the end. Everything arrives once, and all sums are right.
 */
static void procs_run(struct procs *c)
{
    for (uint32_t i = 0; i < POSTS; i++) {
        for (uint32_t n = 0; n < c->w.nodes; n++) {
            struct emu_hdr hdr = {.dst = (uint32_t)test_draw(&c->random, 0, c->w.nodes - 1),
                                  .seq = i};

            procs_post(c, n, hdr, (int64_t)(i * 77 + n));
            if (i % 8 == 0)
                procs_post(c, n, (struct emu_hdr){.dst = c->all, .kind = EMU_MULTICAST}, n);
            procs_add(c, n, 1 + i % 4);
        }
        procs_step(c);
    }
    if (c->flaps)
        procs_settle(c);
    for (uint32_t i = 0; i < HOSTIFS_GIVE_UP && !procs_is_done(c); i++) {
        for (uint32_t n = 0; n < c->w.nodes; n++)
            procs_add(c, n, 4);
        procs_step(c);
        hostifs_pause(i);
    }
    CU_ASSERT_TRUE(procs_is_done(c));
    CU_ASSERT_EQUAL(c->wrong, 0);
}

static const char *const topos[] = {"kary:2,3", "kary:4,2", "kary:2,2"};
static const char *const sets[] = {"credit=row", "credit=counter", "buffers=input_xpoint"};

static void links__flap_under_threads(void)
{
    uint64_t random = test_seed();

    for (uint32_t i = 0; i < 9; i++) {
        struct procs c;

        procs_open(&c, topos[i % 3], sets[i / 3], 1 + i % 2, EMU_LINK_RETRY_GO_BACK_N,
                   test_random(&random));
        c.flaps = true;
        procs_run(&c);
        CU_ASSERT(c.heard.lost > 0 && c.heard.tables > 0);
        CU_ASSERT_EQUAL(c.heard.stuck, 0); /* however late the host's threads are */
        procs_close(&c);
    }
}

static void port__is_stuck_under_threads(void)
{
    uint64_t random = test_seed();
    uint32_t found[2] = {0};

    for (uint32_t i = 0; i < 18; i++) {
        enum emu_link_retry retry = i % 2 ? EMU_LINK_RETRY_GO_BACK_N : EMU_LINK_RETRY_NONE;
        struct procs c;

        procs_open(&c, topos[i / 2 % 3], sets[i / 6], 1 + i / 2 % 2, retry, test_random(&random));
        c.sticks = true;
        procs_run(&c);
        CU_ASSERT(c.heard.stuck <= 1); /* but no port that waits for it */
        found[i % 2] += c.heard.stuck;
        procs_close(&c);
    }
    CU_ASSERT(found[0] && found[1]);
}

/*
 * A process takes nothing, and the network backs up to its senders: however long the manager
 * checks, no port counts as stuck. When the process reads again, everything arrives.
 */
static void port__waiting_for_credit_is_not_stuck(void)
{
    for (uint32_t retry = 0; retry < 2; retry++) {
        uint64_t due_ps, posted = 0, got = 0;
        struct emu_seg seg;
        struct procs c;

        procs_open(&c, "kary:2,2", "credit=row", 1, (enum emu_link_retry)retry, test_seed());
        fabric_pause(c.w.fabric);
        CU_ASSERT_PTR_NOT_NULL_FATAL(
            fabric_faults(c.w.fabric, cable_inside(c.w.fabric, &c.random), true));
        fabric_resume(c.w.fabric);
        for (uint32_t n = 1, idle = 0; idle < 100; idle++)
            for (; hostifs_post(&c.w, n, &(struct emu_hdr){.dst = 0}, NULL);
                 n = 1 + n % 3, idle = 0)
                posted++;
        for (uint32_t look = 0; look < 100; look++) {
            due_ps = manager_due_ps(c.manager);
            CU_ASSERT_EQUAL(manager_step(c.manager, due_ps), 0);
        }
        CU_ASSERT_EQUAL(c.heard.stuck, 0);
        for (; got < posted && hostifs_await(&c.w, 0, &seg); got++)
            ;
        CU_ASSERT_EQUAL(got, posted);
        procs_close(&c);
    }
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(links__flap_and_nothing_is_lost),
        CASE(links__returning_do_not_keep_each_other_down),
        CASE(links__flap_the_same_on_any_number_of_workers),
        CASE(partitioned__nodes_block_nothing),
        CASE(port__stuck_is_removed_and_its_segments_rerouted),
        CASE(port__unable_to_send_between_samples_is_not_stuck),
        CASE(port__is_not_stuck_if_a_check_is_late),
        CASE(links__flap_under_threads),
        CASE(port__is_stuck_under_threads),
        CASE(port__waiting_for_credit_is_not_stuck),
        {NULL, NULL},
    };

    return test_run("reroute", cases);
}
