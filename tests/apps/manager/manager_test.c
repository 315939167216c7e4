/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * manager_test.c - links go down and up under the traffic of tests/fixtures/engine/transport_run.h,
 * which checks that each message arrives once and whole.
 */
#include <string.h>

#include "apps/fabric/internal.h"
#include "apps/manager/manager.h"
#include "nic/engine/internal.h"
#include "tests/test.h"
#include "tests/fixtures/engine/transport_run.h"
#include "tests/fixtures/fabric.h"

#define CABLES_MAX 512u

/* Cable events during a run. */
struct cable_events {
    uint64_t random;
    uint32_t most;    /* most cables without a signal at a time */
    uint32_t lone;    /* this node has no link from then on; 0: none; */
    bool silent;      /* it has a link, but its ports send nothing */
    uint32_t checks;  /* this many checks after the first */
    uint32_t top;     /* this switch dies and comes back; TOPO_NONE: none */
    uint64_t dies_ps; /* since the start */
    uint64_t alive_ps;
    uint64_t began_ps, calm_ps; /* calm_ps: when all are back */
    struct manager_config set;

    struct manager *manager;
    struct fabric *fabric;
    bool link_down[CABLES_MAX];
    uint32_t links_down, lost, ups, tables, swapped, failed, out, treeless, alone, looks;
    /* stuck: a cable without a signal between two checks; 0: none */
    uint32_t stuck, traps, isolated, cut;
    uint64_t trapped_at, trapped_for; /* switches, and nodes */
    uint64_t partitioned, hit;
    struct topo_at peer;
};

static void on_event(void *ctx, const struct manager_event *event)
{
    struct cable_events *w = ctx;

    w->lost += event->what == MANAGER_EVENT_LOST;
    w->ups += event->what == MANAGER_EVENT_UP;
    w->tables += event->what == MANAGER_EVENT_TABLES;
    w->swapped += event->what == MANAGER_EVENT_SWAPPED;
    w->failed += event->what == MANAGER_EVENT_FAILED;
    w->out += event->what == MANAGER_EVENT_OUT;
    w->alone += event->what == MANAGER_EVENT_NO_LINK;
    w->stuck += event->what == MANAGER_EVENT_STUCK;
    w->treeless += event->what == MANAGER_EVENT_TREELESS;
    w->traps += event->what == MANAGER_EVENT_TRAP;
    if (event->what == MANAGER_EVENT_TRAP) {
        w->isolated += event->isolated;
        w->trapped_at |= emu_bit(event->sw);
        w->trapped_for |= emu_bit(event->to);
    }
    if (event->what == MANAGER_EVENT_TABLES)
        w->partitioned = event->partitioned;
    if (event->what == MANAGER_EVENT_SWAPPED)
        w->peer = event->peer;
}

static void cable_events_open(struct cable_events *w, struct fabric *fabric, uint64_t now_ps)
{
    w->fabric = fabric;
    w->began_ps = now_ps;
    w->calm_ps = now_ps + w->set.no_link_ps / 4;
    w->set.event = on_event;
    w->set.ctx = w;
    CU_ASSERT_FATAL(fabric_cable_count(fabric) <= CABLES_MAX);
    CU_ASSERT_EQUAL_FATAL(manager_create(&w->manager, fabric, &w->set), 0);
}

static void turn(struct cable_events *w, uint32_t cable, bool link_down, uint64_t now_ps)
{
    uint32_t hit;

    if (w->link_down[cable] == link_down)
        return;
    w->link_down[cable] = link_down;
    w->links_down += link_down ? 1 : UINT32_MAX;
    CU_ASSERT_EQUAL(manager_signal(w->manager, cable, !link_down, 0, now_ps, &hit), 0);
    w->hit += hit;
}

/* May cable @i go down? Each node keeps a link: another test covers nodes without one. */
static bool may_go(const struct cable_events *w, uint32_t i)
{
    const struct fabric_cable *cable = fabric_cable(w->fabric, i);
    uint32_t left = 0;

    if (cable->kind == TOPO_END_SWITCH)
        return true;
    for (uint32_t l = 0; l < w->fabric->config.graph->node[cable->node].links; l++) {
        uint32_t other = fabric_cable_of(w->fabric, cable->node, l);

        left += other != i && manager_link_state(w->manager, other) == MANAGER_UP;
    }
    return left != 0;
}

/*
 * One cable loses or regains its signal; the first call always takes one down. Simulated time leaps
 * where everything waits for retries, so a cable comes back before the manager gives up unreachable
 * nodes.
 */
static void flap(struct cable_events *w, uint64_t now_ps)
{
    for (uint32_t i = 0; now_ps >= w->calm_ps && i < fabric_cable_count(w->fabric); i++)
        turn(w, i, false, now_ps);
    if (now_ps >= w->calm_ps) {
        w->calm_ps = now_ps + w->set.no_link_ps / 4;
        return;
    }
    do {
        uint32_t i = (uint32_t)(test_random(&w->random) % fabric_cable_count(w->fabric));

        if (test_random(&w->random) % 4)
            turn(w, i, w->links_down < w->most && may_go(w, i) && !w->link_down[i], now_ps);
    } while (!w->looks && !w->links_down);
}

static void top_dies(struct cable_events *w, uint64_t now_ps)
{
    uint64_t at_ps = now_ps - w->began_ps;
    bool link_down = at_ps >= w->dies_ps && at_ps < w->alive_ps;

    for (uint32_t p = 0; w->top != TOPO_NONE && p < w->fabric->config.graph->ports; p++) {
        uint32_t i = fabric_cable_at(w->fabric, w->top, p);

        if (i != TOPO_NONE)
            turn(w, i, link_down, now_ps);
    }
}

/* No notification is given. */
static void silence_ports(struct cable_events *w, uint64_t now_ps)
{
    uint32_t cable = fabric_cable_of(w->fabric, w->lone, 0);

    fabric_pause(w->fabric);
    for (uint32_t out = 0; out < 2; out++) {
        CU_ASSERT_PTR_NOT_NULL_FATAL(fabric_faults(w->fabric, cable, out));
        fabric_port_stick(w->fabric, cable, out, true, now_ps);
    }
    fabric_resume(w->fabric);
}

static void blow(void *ctx, struct fabric *fabric, uint64_t now_ps)
{
    struct cable_events *w = ctx;

    if (!w->manager)
        cable_events_open(w, fabric, now_ps);
    if (w->most)
        flap(w, now_ps);
    top_dies(w, now_ps);
    if (w->cut && w->looks == 2)
        turn(w, w->cut, true, now_ps);
    if (w->cut && w->looks == w->checks)
        turn(w, w->cut, false, now_ps);
    if (w->silent && w->looks == w->checks)
        silence_ports(w, now_ps);
    else if (w->lone && !w->silent && w->looks >= w->checks)
        turn(w, fabric_cable_of(fabric, w->lone, 0), true, now_ps);
    w->looks++;
    CU_ASSERT_EQUAL(manager_step(w->manager, now_ps), 0);
}

static void cable_events_close(struct cable_events *w)
{
    manager_destroy(w->manager);
}

/* One run; returns its result. */
static struct transport_result run_with_events(struct cable_events *w,
                                               struct transport_config *config)
{
    struct transport_result result;

    config->between = blow;
    config->ctx = w;
    config->deaf = TRANSPORT_NOBODY;
    config->seed = w->random;
    CU_ASSERT_EQUAL(transport_run(&result, config), 0);
    if (*result.wrong) {
        printf("%s: ", result.wrong);
        transport_command(stdout, config);
    }
    cable_events_close(w);
    return result;
}

/* Intervals that are short compared to a run. */
static struct manager_config quick(void)
{
    struct manager_config config = manager_defaults();

    config.step_ps = 1000000;
    config.reaction_ps = 10000000;
    return config;
}

static const struct transport_sizes sizes = {.count = 1, .range = {{0, 900}}};

static const char *const topos[] = {"kary:2,3", "kary:4,2", "qsnet:16,links=2", "kary:2,4"};
#define TOPOS (sizeof topos / sizeof topos[0])

/*
 * Links go down and up at random. Every message arrives once, with results that depend only on the
 * seed, for any number of workers.
 */
static void links__flap_and_nothing_is_lost(void)
{
    uint64_t seed = test_seed();

    for (size_t t = 0; t < TOPOS; t++) {
        uint64_t order[2];

        for (uint32_t threads = 1; threads <= 2; threads++) {
            struct cable_events w = {.random = seed + t, .most = 3, .top = TOPO_NONE};
            struct transport_config config = {.topo = topos[t],
                                              .clock = EMU_CLOCK_VIRTUAL,
                                              .threads = threads,
                                              .packets = TEST_TRIALS(5000u),
                                              .groups = 3,
                                              .sizes = sizes};

            w.set = quick();
            order[threads - 1] = run_with_events(&w, &config).order;
            CU_ASSERT(w.lost && w.tables);
        }
        CU_ASSERT_EQUAL(order[0], order[1]);
    }
}

static void links__flap_under_threads(void)
{
    uint64_t seed = test_seed();

    for (size_t t = 0; t < TOPOS; t++) {
        struct cable_events w = {.random = seed + t, .most = 3, .top = TOPO_NONE};
        struct transport_config config = {.topo = topos[t],
                                          .clock = EMU_CLOCK_RAW,
                                          .threads = 2,
                                          .packets = TEST_TRIALS(4000u),
                                          .groups = 3,
                                          .sizes = sizes};

        w.set = quick();
        run_with_events(&w, &config);
        CU_ASSERT(w.lost > 0);
    }
}

/* A top switch loses all its cables and regains them. */
static void top__dies_and_comes_back(void)
{
    struct cable_events w = {.random = test_seed(),
                             .top = 8,
                             .dies_ps = 40000000,
                             .alive_ps = 120000000};
    struct transport_config config = {.topo = "kary:2,3",
                                      .clock = EMU_CLOCK_VIRTUAL,
                                      .threads = 1,
                                      .packets = 8000,
                                      .groups = 3,
                                      .sizes = sizes};

    w.set = quick();
    run_with_events(&w, &config);
    CU_ASSERT_EQUAL(w.lost, 2);
    CU_ASSERT_EQUAL(w.ups, 2);
    CU_ASSERT_EQUAL(w.treeless, 0);
    CU_ASSERT(w.hit > 0);
}

/*
 * A node loses its only link for good, or neither end of it sends any more (@silent). Messages from
 * and to it fail with an error, and nobody waits for ever.
 */
static void check_node_reported(bool silent)
{
    static const enum emu_clock_mode clocks[] = {EMU_CLOCK_VIRTUAL, EMU_CLOCK_RAW};

    for (size_t c = 0; c < 2; c++) {
        /* the host's threads may end before a second check */
        bool raw = clocks[c] == EMU_CLOCK_RAW;
        struct cable_events w = {
            .random = test_seed(), .top = TOPO_NONE, .lone = 3, .silent = silent, .checks = !raw};
        struct transport_config config = {.topo = "kary:2,2",
                                          .clock = clocks[c],
                                          .threads = 1,
                                          .packets = 2000,
                                          .sizes = sizes,
                                          .may_fail = true,
                                          .set = {"retry_limit=8"},
                                          .sets = 1};
        struct transport_result result;

        w.set = quick();
        w.set.no_link_ps = 100000000;
        w.set.scan_ps = 5000000;
        w.set.stuck_ps = 50000000;
        result = run_with_events(&w, &config);
        CU_ASSERT(result.counts.failed > 0);
        CU_ASSERT(w.alone > 0);
        CU_ASSERT_EQUAL(w.stuck, silent);
    }
}

static void node__isolated_is_reported(void)
{
    check_node_reported(false);
}

static void node__with_a_stuck_port_is_reported(void)
{
    check_node_reported(true);
}

/*
 * A top switch that has lost a link down sends a trap, at most once per check. If the profile
 * isolates it, its links go down; when the lost one is back, all come up.
 */
static void trap__is_reported_and_isolates_if_configured(void)
{
    for (uint32_t isolates = 0; isolates < 2; isolates++) {
        struct cable_events w = {.random = test_seed(), .top = TOPO_NONE, .checks = 40, .cut = 2};
        struct transport_config config = {.topo = "kary:2,2",
                                          .clock = EMU_CLOCK_VIRTUAL,
                                          .threads = 1,
                                          .packets = 20000,
                                          .sizes = sizes,
                                          .set = {isolates ? "trap=isolate" : "trap=edit"},
                                          .sets = 1};

        w.set = quick();
        w.set.reroute = false; /* so that the neighbours keep sending */
        w.set.scan_ps = 20000000;
        run_with_events(&w, &config);
        CU_ASSERT_EQUAL(w.lost, 1);
        CU_ASSERT_EQUAL(w.trapped_at, emu_bit(2));
        CU_ASSERT(w.trapped_for & 3); /* below the switch that is cut off */
        CU_ASSERT(w.traps > 0);
        CU_ASSERT_EQUAL(w.isolated, isolates);
        CU_ASSERT_EQUAL(w.ups, 1 + isolates);
    }
}

/* --- links -------------------------------------------------------------------------- */

/* A fabric without traffic, and its manager. */
struct idle_fabric {
    struct topo_graph *graph;
    struct cable_events w;
    uint64_t now_ps;
};

static void still_open(struct idle_fabric *s, const char *topo, const struct emu_fault_rates *rates)
{
    struct fabric_config config = {.name = "idle_fabric",
                                   .clock = EMU_CLOCK_RAW,
                                   .threads = 1,
                                   .seed = 1,
                                   .start_stopped = true,
                                   .faults = rates};
    char error[256];

    *s = (struct idle_fabric){.now_ps = 1000000};
    CU_ASSERT_EQUAL_FATAL(emu_profile_load(&config.profile, "qsnet3", error, sizeof error), 0);
    CU_ASSERT_EQUAL_FATAL(topo_parse(&s->graph, topo, error, sizeof error), 0);
    config.graph = s->graph;
    CU_ASSERT_EQUAL_FATAL(fabric_start(&s->w.fabric, &config, error, sizeof error), 0);
    s->w.set = quick();
    cable_events_open(&s->w, s->w.fabric, s->now_ps);
}

static void still_close(struct idle_fabric *s)
{
    cable_events_close(&s->w);
    fabric_stop(s->w.fabric);
    topo_free(s->graph);
}

/* Run until nothing is due, or for @ps. */
static void idle_fabric_run(struct idle_fabric *s, uint64_t ps)
{
    uint64_t end_ps = s->now_ps + ps;

    while (manager_due_ps(s->w.manager) <= end_ps) {
        if (s->now_ps < manager_due_ps(s->w.manager))
            s->now_ps = manager_due_ps(s->w.manager);
        CU_ASSERT_EQUAL(manager_step(s->w.manager, s->now_ps), 0);
    }
    s->now_ps = end_ps;
}

static void signal_of(struct idle_fabric *s, uint32_t cable, bool on)
{
    uint32_t hit;

    CU_ASSERT_EQUAL(manager_signal(s->w.manager, cable, on, 0, s->now_ps, &hit), 0);
    CU_ASSERT_EQUAL(hit, 0);
}

/* How many candidate ports switch @sw has for node @node. */
static int directions(const struct idle_fabric *s, uint32_t sw, uint32_t node)
{
    return __builtin_popcountll(topo_route_ports(&s->w.fabric->links.routed->sw[sw].route, node));
}

/* Tables exclude a link some time after its loss, and include it again after three intervals. */
static void link__is_in_the_tables_only_while_up(void)
{
    struct idle_fabric s;
    uint32_t cable;

    still_open(&s, "kary:2,2", NULL);
    cable = fabric_cable_at(s.w.fabric, 0, 2);
    CU_ASSERT_EQUAL(directions(&s, 0, 3), 2);
    signal_of(&s, cable, false);
    CU_ASSERT_EQUAL(manager_link_state(s.w.manager, cable), MANAGER_LOST);
    CU_ASSERT_EQUAL(directions(&s, 0, 3), 2);
    idle_fabric_run(&s, s.w.set.reaction_ps);
    CU_ASSERT_EQUAL(directions(&s, 0, 3), 1);
    signal_of(&s, cable, true);
    idle_fabric_run(&s, 2 * s.w.set.step_ps);
    CU_ASSERT_EQUAL(manager_link_state(s.w.manager, cable), MANAGER_TESTS);
    CU_ASSERT_EQUAL(manager_links_out(s.w.manager), 1);
    idle_fabric_run(&s, s.w.set.step_ps);
    CU_ASSERT_EQUAL(manager_link_state(s.w.manager, cable), MANAGER_UP);
    idle_fabric_run(&s, s.w.set.reaction_ps);
    CU_ASSERT_EQUAL(directions(&s, 0, 3), 2);
    CU_ASSERT_EQUAL(s.w.tables, 2);
    still_close(&s);
}

/* A cable that is plugged in elsewhere is reported, and not used until it is right. */
static void link__swapped_is_detected(void)
{
    const struct topo_at wrong = {3, 1};
    struct topo_at right;
    struct idle_fabric s;
    uint32_t cable;

    still_open(&s, "kary:2,2", NULL);
    cable = fabric_cable_at(s.w.fabric, 0, 2);
    right = fabric_cable(s.w.fabric, cable)->peer;
    signal_of(&s, cable, false);
    manager_plug(s.w.manager, cable, &wrong);
    signal_of(&s, cable, true);
    idle_fabric_run(&s, 10 * s.w.set.reaction_ps);
    CU_ASSERT_EQUAL(s.w.swapped, 1);
    CU_ASSERT(s.w.peer.sw == wrong.sw && s.w.peer.port == wrong.port);
    CU_ASSERT_EQUAL(manager_link_state(s.w.manager, cable), MANAGER_SWAPPED);
    CU_ASSERT_EQUAL(directions(&s, 0, 3), 1);
    signal_of(&s, cable, false);
    manager_plug(s.w.manager, cable, &right);
    signal_of(&s, cable, true);
    idle_fabric_run(&s, 10 * s.w.set.reaction_ps);
    CU_ASSERT_EQUAL(manager_link_state(s.w.manager, cable), MANAGER_UP);
    still_close(&s);
}

/* A link with too many errors is not used again; a node's link has a higher limit. */
static void link__with_errors_is_not_used_again(void)
{
    const struct emu_fault_rates rates = {.lost = 30000};
    struct idle_fabric s;
    uint32_t inside, node;

    still_open(&s, "kary:2,2", &rates);
    inside = fabric_cable_at(s.w.fabric, 0, 2);
    node = fabric_cable_of(s.w.fabric, 0, 0);
    signal_of(&s, inside, false);
    signal_of(&s, node, false);
    signal_of(&s, inside, true);
    signal_of(&s, node, true);
    idle_fabric_run(&s, 10 * s.w.set.again_ps);
    CU_ASSERT_EQUAL(manager_link_state(s.w.manager, node), MANAGER_UP);
    CU_ASSERT_NOT_EQUAL(manager_link_state(s.w.manager, inside), MANAGER_UP);
    CU_ASSERT(s.w.failed >= 2);
    CU_ASSERT_EQUAL(manager_links_out(s.w.manager), 1);
    still_close(&s);
}

/* Errors are counted in one direction of a cable, and checked. */
static bool stays_up(struct idle_fabric *s, uint32_t cable, uint64_t packets, uint64_t errors)
{
    struct emu_faults *faults = fabric_faults(s->w.fabric, cable, false);

    emu_count(&faults->counts.seen, packets);
    emu_count(&faults->counts.damaged, errors);
    idle_fabric_run(s, s->w.set.scan_ps);
    return manager_link_state(s->w.manager, cable) == MANAGER_UP;
}

/*
 * A few errors in few packets prove nothing; an error rate is detected even if few packets pass
 * between checks.
 */
static void link__with_errors_is_removed_when_certain(void)
{
    const struct emu_fault_rates rates = {0};
    struct idle_fabric s;
    uint32_t a, b, c, looks;

    still_open(&s, "kary:2,3", &rates);
    a = fabric_cable_at(s.w.fabric, 0, 2);
    b = fabric_cable_at(s.w.fabric, 1, 2);
    c = fabric_cable_at(s.w.fabric, 2, 2);
    for (uint32_t i = 0; i < 20; i++) /* 1 % is allowed, with some variance in both directions */
        CU_ASSERT_TRUE(stays_up(&s, a, 127, i % 3 ? 0 : 4));
    CU_ASSERT_EQUAL(s.w.out, 0);
    CU_ASSERT_FALSE(stays_up(&s, a, 127, 6));
    CU_ASSERT_EQUAL(s.w.out, 1);
    for (looks = 0; looks < 20 && stays_up(&s, b, 10, 1); looks++)
        ;
    CU_ASSERT_TRUE(looks < 12); /* one in ten, which 100 packets show */
    CU_ASSERT_TRUE(stays_up(&s, c, 1000000, 10300));
    CU_ASSERT_FALSE(stays_up(&s, c, 1000000, 10301));
    still_close(&s);
}

/* --- partitions --------------------------------------------------------------------- */

/* Does engine @src give packets for @dst few retries? */
static bool has_few_retries(const struct idle_fabric *s, uint32_t src, uint32_t dst)
{
    return fabric_engine(s->w.fabric, src)->send.flow[dst].cut;
}

/* Set the signal of all cables from switch @sw upwards. */
static void set_links_up(struct idle_fabric *s, uint32_t sw, bool on)
{
    for (uint32_t p = 2; p < 4; p++)
        signal_of(s, fabric_cable_at(s->w.fabric, sw, p), on);
}

/*
 * Half of a network is cut off from the other half, but no node is alone. After a while, not
 * before, nodes in the other half get few retries, and so does a group of both halves. Traffic
 * within a half continues. A half that is back in time is never treated as cut off.
 */
static void partition__cut_off_for_long_gets_few_retries(void)
{
    const uint32_t all[] = {0, 1, 2, 3}, mine[] = {0, 1};
    uint32_t both, half;
    struct idle_fabric s;

    still_open(&s, "kary:2,2", NULL);
    both = fixture_multicast(s.w.fabric, all, 4);
    half = fixture_multicast(s.w.fabric, mine, 2);
    set_links_up(&s, 0, false);
    idle_fabric_run(&s, s.w.set.no_link_ps / 2);
    set_links_up(&s, 0, true);
    idle_fabric_run(&s, 2 * s.w.set.no_link_ps);
    CU_ASSERT_EQUAL(manager_links_out(s.w.manager), 0);
    CU_ASSERT_FALSE(has_few_retries(&s, 0, 2));
    set_links_up(&s, 0, false);
    idle_fabric_run(&s, s.w.set.no_link_ps / 2);
    CU_ASSERT_FALSE(has_few_retries(&s, 0, 2));
    idle_fabric_run(&s, s.w.set.no_link_ps);
    for (uint32_t a = 0; a < 4; a++)
        for (uint32_t b = 0; b < 4; b++)
            CU_ASSERT_EQUAL(has_few_retries(&s, a, b), a / 2 != b / 2);
    for (uint32_t n = 0; n < 4; n++)
        CU_ASSERT_TRUE(engine_group_of(fabric_engine(s.w.fabric, n), both)->flow.cut);
    CU_ASSERT_FALSE(engine_group_of(fabric_engine(s.w.fabric, 0), half)->flow.cut);
    still_close(&s);
}

/*
 * A manager that had no core for longer than the bound finds, in one check, that the bound has
 * expired and the signal has returned: that node is not given up. A node without a signal is.
 */
static void late_manager__keeps_nodes_whose_signal_returned(void)
{
    for (uint32_t back = 0; back < 2; back++) {
        struct idle_fabric s;
        uint32_t node;

        still_open(&s, "kary:2,2", NULL);
        node = fabric_cable_of(s.w.fabric, 3, 0);
        signal_of(&s, node, false);
        set_links_up(&s, 0, false);
        idle_fabric_run(&s, 2 * s.w.set.reaction_ps);
        s.now_ps += 3 * s.w.set.no_link_ps;
        if (back) {
            signal_of(&s, node, true);
            set_links_up(&s, 0, true);
        }
        idle_fabric_run(&s, s.w.set.no_link_ps);
        CU_ASSERT_EQUAL(s.w.alone != 0, !back);
        CU_ASSERT_EQUAL(has_few_retries(&s, 0, 2), !back);
        CU_ASSERT_EQUAL(manager_links_out(s.w.manager), back ? 0 : 3);
        still_close(&s);
    }
}

/*
 * A manager without a core is late in each step. It still takes a link into use that fails again
 * and again, because it does all steps of a bring-up that are due.
 */
static void late_manager__brings_up_a_link_that_flaps(void)
{
    struct idle_fabric s;
    uint32_t node;

    still_open(&s, "kary:2,2", NULL);
    node = fabric_cable_of(s.w.fabric, 3, 0);
    for (uint32_t flaps = 0; flaps < 32; flaps++) {
        for (uint32_t on = 0; on < 2; on++) {
            signal_of(&s, node, on);
            s.now_ps += s.w.set.no_link_ps / 16;
            CU_ASSERT_EQUAL(manager_step(s.w.manager, s.now_ps), 0);
        }
        CU_ASSERT_EQUAL(manager_link_state(s.w.manager, node), MANAGER_UP);
    }
    CU_ASSERT_FALSE(s.w.alone);
    still_close(&s);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(links__flap_and_nothing_is_lost),
        CASE(links__flap_under_threads),
        CASE_ALONE(top__dies_and_comes_back),
        CASE(node__isolated_is_reported),
        CASE(node__with_a_stuck_port_is_reported),
        CASE_ALONE(trap__is_reported_and_isolates_if_configured),
        CASE(link__is_in_the_tables_only_while_up),
        CASE(link__swapped_is_detected),
        CASE(link__with_errors_is_not_used_again),
        CASE(link__with_errors_is_removed_when_certain),
        CASE(partition__cut_off_for_long_gets_few_retries),
        CASE(late_manager__keeps_nodes_whose_signal_returned),
        CASE(late_manager__brings_up_a_link_that_flaps),
        {NULL, NULL},
    };

    return test_run("manager", cases);
}
