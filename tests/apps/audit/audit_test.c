/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * audit_test.c - fabric_audit() finds no error at random moments under load. It finds each kind of
 * damage that this test causes, and names the place.
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "apps/audit/audit.h"
#include "apps/fabric/links.h"
#include "nic/engine/group.h"
#include "nic/engine/internal.h"
#include "switch/channel/channel.h"
#include "switch/common/crossbar.h"
#include "switch/common/group.h"
#include "tests/test.h"
#include "tests/fixtures/hostifs.h"

/* --- fabrics ------------------------------------------------------------------------ */

struct setting {
    const char *topo;
    const char *profile;
    const char *set; /* profile settings */
    enum emu_clock_mode clock;
    uint32_t threads;
    uint32_t faults; /* of each kind, per million entries */
};

static const struct setting settings[] = {
    {"kary:4,2", "oq2004", NULL, EMU_CLOCK_RAW, 3, 0},
    {"kary:2,3", "oq2004", "credit=counter combine_order=port", EMU_CLOCK_RAW, 2, 0},
    {"kary:4,2", "oq2004", "buffers=input_xpoint", EMU_CLOCK_RAW, FABRIC_THREADS_DEVICE, 0},
    {"kary:4,2", "oq2004", "combine_units=5", EMU_CLOCK_RAW, 2, 0},
    {"kary:4,2", "oq2004", NULL, EMU_CLOCK_REAL, 2, 0},
    {"kary:2,3", "oq2004", "credit=counter", EMU_CLOCK_REAL, 1, 0},
    {"kary:4,2", "oq2004", "buffers=input_xpoint", EMU_CLOCK_REAL, 2, 0},
    {"kary:4,2", "qsnet3", NULL, EMU_CLOCK_RAW, 3, 0},
    {"qsnet:16,links=2", "qsnet3", NULL, EMU_CLOCK_RAW, 2, 0},
    {"kary:4,2", "qsnet3", NULL, EMU_CLOCK_RAW, 2, 3000},
    {"kary:2,3", "qsnet3", "combining=switch", EMU_CLOCK_RAW, 2, 0},
    {"kary:4,2", "qsnet3", NULL, EMU_CLOCK_REAL, 2, 0},
    {"kary:2,3", "qsnet3", "barrier=conditional", EMU_CLOCK_REAL, 2, 3000},
};
#define SETTINGS (sizeof settings / sizeof settings[0])

static void open_in(struct hostifs *w, const struct setting *set)
{
    static struct emu_fault_rates faults; /* the fabric keeps a pointer */
    struct fabric_config config = {.clock = set->clock,
                                   .threads = set->threads,
                                   .seed = test_seed(),
                                   .faults = set->faults ? &faults : NULL,
                                   .first = UINT32_MAX - 20};

    faults = fixture_faults(set->faults);
    fixture_profile(&config.profile, set->profile, set->set);
    hostifs_open(w, set->topo, &config);
}

/* Audit. Returns the number of errors; prints them if none are expected. */
static uint32_t audit(struct fabric *fabric, struct fabric_audit *ret, bool quiet)
{
    CU_ASSERT_EQUAL_FATAL(fabric_audit(fabric, 0, true, ret), 0);
    for (uint32_t i = 0; !quiet && i < ret->lines; i++)
        printf("%s\n", ret->line[i]);
    return ret->found;
}

static void count_treeless(void *ctx, uint32_t group)
{
    (void)group;
    ++*(uint32_t *)ctx;
}

/* Take a cable out of service, or return it, and recompute tables and trees. */
static void set_link_out(struct fabric *fabric, uint32_t cable, bool out, uint64_t *unreachable,
                         uint32_t *treeless)
{
    bool routed[64];
    uint32_t hit;

    CU_ASSERT_FATAL(fabric_cable_count(fabric) <= 64);
    for (uint32_t i = 0; i < fabric_cable_count(fabric); i++)
        routed[i] = !out || i != cable;
    fabric_pause(fabric);
    CU_ASSERT_EQUAL(fabric_link_set(fabric, cable, !out, 0, fabric_now_ps(fabric), &hit), 0);
    fabric_resume(fabric);
    CU_ASSERT_EQUAL(fabric_reroute(fabric, routed, fabric_now_ps(fabric), unreachable,
                                   count_treeless, treeless),
                    0);
}

/* --- under load --------------------------------------------------------------------- */

#define LOAD_THREADS 2u
#define LOAD_WINDOW  32u /* all-reduces in progress per node */
#define LOAD_AUDITS  TEST_TRIALS(30u)
#define LOAD_TAKEN   2000u /* segments, at least, during the audits */
#define LOAD_GIVE_UP 100000u

/* Processes at some of the nodes, in a thread. */
struct load {
    struct hostifs *w;
    uint32_t first;   /* nodes first, first + LOAD_THREADS, ... */
    uint32_t reduces; /* the group for all-reduces */
    uint32_t spreads; /* the group for multicasts */
    _Atomic bool stop;
    _Atomic uint64_t taken;
    pthread_t thread;
};

static bool load_post(struct load *load, uint32_t n, uint64_t draw, uint32_t *posted,
                      const uint32_t *results)
{
    static const int64_t payload[30] = {1, 2, 3};
    struct emu_hdr hdr = {.seq = (uint32_t)draw, .len = (uint8_t)(draw >> 32) % 240};

    switch (draw >> 40 & 7) {
    case 0:
        hdr.dst = load->spreads;
        hdr.kind = EMU_MULTICAST;
        break;
    case 1:
    case 2:
        if (posted[n] - results[n] >= LOAD_WINDOW)
            return true;
        hdr = (struct emu_hdr){.dst = load->reduces,
                               .seq = posted[n],
                               .kind = posted[n] % 3 ? EMU_ALLREDUCE : EMU_BARRIER,
                               .len = posted[n] % 3 ? 240 : 0,
                               .op = posted[n] % 3 ? EMU_SUM : 0,
                               .type = posted[n] % 3 ? EMU_I64 : 0};
        break;
    default:
        hdr.dst = (uint32_t)(draw >> 44) % load->w->nodes;
        break;
    }
    if (!hostifs_post(load->w, n, &hdr, payload))
        return false;
    posted[n] += hdr.dst == load->reduces;
    return true;
}

static void *load_main(void *arg)
{
    struct load *load = arg;
    uint32_t posted[HOSTIFS_MAX] = {0}, results[HOSTIFS_MAX] = {0};
    uint64_t random = test_seed() + load->first;
    uint32_t looks = 0;
    struct emu_seg seg;

    while (!atomic_load(&load->stop)) {
        uint64_t taken = 0;
        bool full = true;

        for (uint32_t n = load->first; n < load->w->nodes; n += LOAD_THREADS) {
            for (uint32_t i = 0; i < 16; i++)
                full &= !load_post(load, n, test_random(&random), posted, results);
            for (; hostifs_take(load->w, n, &seg); taken++)
                results[n] += seg.hdr.dst == load->reduces;
        }
        atomic_fetch_add(&load->taken, taken);
        if (full && !taken)
            hostifs_pause(looks++);
    }
    return NULL;
}

/* Create and remove groups under load. */
static void load_regroup(struct hostifs *w, uint64_t *random, uint32_t *group)
{
    uint32_t nodes[HOSTIFS_MAX];

    if (*group) {
        fixture_group_end(w->fabric, *group);
        *group = 0;
        return;
    }
    fixture_nodes(nodes, w->nodes);
    test_shuffle(random, nodes, w->nodes, w->nodes / 2);
    *group = fixture_group(w->fabric, nodes, w->nodes / 2);
}

/* In a fabric with faults, take a cable between switches out of service or return it. */
static void load_flap(struct hostifs *w, uint64_t *random, uint32_t *out)
{
    uint32_t cable = *out, treeless = 0;
    uint64_t unreachable = 0;
    bool quiet;

    if (!w->fabric->config.faults)
        return;
    if (cable == TOPO_NONE) {
        cable = (uint32_t)(test_random(random) % fabric_cable_count(w->fabric));
        if (fabric_cable(w->fabric, cable)->kind != TOPO_END_SWITCH)
            return;
        *out = cable;
        set_link_out(w->fabric, cable, true, &unreachable, &treeless);
    } else {
        fabric_pause(w->fabric);
        quiet = fabric_link_quiet(w->fabric, cable);
        fabric_resume(w->fabric);
        if (!quiet)
            return;
        *out = TOPO_NONE;
        set_link_out(w->fabric, cable, false, &unreachable, &treeless);
    }
    CU_ASSERT_EQUAL(unreachable + treeless, 0);
}

static uint64_t load_taken(const struct load load[LOAD_THREADS])
{
    uint64_t taken = 0;

    for (uint32_t i = 0; i < LOAD_THREADS; i++)
        taken += atomic_load(&load[i].taken);
    return taken;
}

/*
 * Continue after @audits audits if the load has hardly run: on a busy host it may have had no core.
 */
static bool load_goes_on(const struct load load[LOAD_THREADS], uint32_t audits)
{
    return audits < LOAD_AUDITS || (audits < LOAD_GIVE_UP && load_taken(load) < LOAD_TAKEN);
}

static void audit_under_load(struct hostifs *w)
{
    uint32_t reduces = fixture_group_of_first(w->fabric, w->nodes), nodes[HOSTIFS_MAX], group = 0;
    uint32_t spreads = fixture_multicast(w->fabric, nodes, fixture_nodes(nodes, w->nodes));
    struct load load[LOAD_THREADS];
    struct fabric_audit *result = malloc(sizeof *result);
    uint64_t random = test_seed();
    uint32_t wrong = 0, out = TOPO_NONE;

    for (uint32_t i = 0; i < LOAD_THREADS; i++) {
        load[i] = (struct load){.w = w, .first = i, .reduces = reduces, .spreads = spreads};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&load[i].thread, NULL, load_main, &load[i]), 0);
    }
    for (uint32_t i = 0; load_goes_on(load, i) && !wrong; i++) {
        for (uint64_t left = test_random(&random) % 6; left; left--)
            sched_yield();
        if (i % 4 == 0)
            load_regroup(w, &random, &group);
        if (i % 3 == 0)
            load_flap(w, &random, &out);
        wrong = audit(w->fabric, result, false);
    }
    for (uint32_t i = 0; i < LOAD_THREADS; i++) {
        atomic_store(&load[i].stop, true);
        pthread_join(load[i].thread, NULL);
    }
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_TRUE(load_taken(load) >= LOAD_TAKEN);
    CU_ASSERT_EQUAL(result->partitioned, 0);
    CU_ASSERT_TRUE(result->groups >= 2);
    free(result);
}

static void audit__under_load_finds_nothing(void)
{
    for (size_t i = 0; i < SETTINGS; i++) {
        struct hostifs w;

        open_in(&w, &settings[i]);
        audit_under_load(&w);
        if (CU_get_number_of_failures())
            printf("setting %zu: %s %s\n", i, settings[i].profile,
                   settings[i].set ? settings[i].set : "");
        hostifs_close(&w);
    }
}

/* --- damage ------------------------------------------------------------------------- */

static const struct setting crosspoints = {"kary:2,2", "oq2004", NULL, EMU_CLOCK_RAW, 1, 0};
static const struct setting channels = {"kary:2,2", "qsnet3", NULL, EMU_CLOCK_RAW, 1, 0};

/* A fabric that is damaged and then repaired. */
struct damage {
    struct hostifs w;
    struct fabric *fabric;
    uint32_t id; /* of a group of all nodes */
    struct fabric_group *group;
    struct fabric_audit audit;
};

static void damage_open(struct damage *d, const struct setting *set)
{
    open_in(&d->w, set);
    d->fabric = d->w.fabric;
    d->id = fixture_group_of_first(d->fabric, d->w.nodes);
    d->group = d->fabric->group[d->id % FABRIC_GROUPS_MAX];
    CU_ASSERT_EQUAL_FATAL(audit(d->fabric, &d->audit, false), 0);
}

static void damage_close(struct damage *d)
{
    CU_ASSERT_EQUAL(audit(d->fabric, &d->audit, false), 0);
    hostifs_close(&d->w);
}

/* The audit reports the damage in a line that begins with @where and contains @what. */
static void expect_finding(struct damage *d, const char *where, const char *what)
{
    bool found = false;

    audit(d->fabric, &d->audit, true);
    for (uint32_t i = 0; i < d->audit.lines; i++)
        found |= strncmp(d->audit.line[i], where, strlen(where)) == 0 &&
                 strstr(d->audit.line[i], what);
    if (!found) {
        printf("not found: %s: %s; but %u:\n", where, what, d->audit.found);
        audit(d->fabric, &d->audit, false);
    }
    CU_ASSERT_TRUE(found);
}

/* The first port of switch @s that leads to another switch, and the switch at its remote end. */
static const struct topo_end *first_cable(const struct damage *d, uint32_t s, uint32_t *port)
{
    const struct topo_end *end = d->w.graph->sw[s].end;

    for (*port = 0; end[*port].kind != TOPO_END_SWITCH; ++*port)
        ;
    return &end[*port];
}

static void add_credits(struct damage *d, uint32_t *credits, uint32_t more)
{
    fabric_pause(d->fabric);
    *credits += more;
    fabric_resume(d->fabric);
}

static void credits__lost_and_forged_are_found(void)
{
    struct damage d;
    struct emu_tx *tx;
    struct emu_rx *hostif;
    char where[64];
    uint32_t port;
    const struct topo_end *remote;

    damage_open(&d, &crosspoints);
    remote = first_cable(&d, 0, &port);
    tx = switch_tx(d.fabric->sw[0], port);
    snprintf(where, sizeof where, "switch %u port %u (cable to switch 0 port %u)", remote->id,
             remote->port, port);
    add_credits(&d, &tx->credits, -1u);
    expect_finding(&d, where, "credits were lost");
    CU_ASSERT_EQUAL(d.audit.found, 1);
    add_credits(&d, &tx->credits, 2);
    expect_finding(&d, where, "there are more credits than buffers on the cable to here");
    add_credits(&d, &tx->credits, -1u);

    hostif =
        switch_rx(d.fabric->sw[d.w.graph->node[3].link[0].sw], d.w.graph->node[3].link[0].port);
    add_credits(&d, &hostif->credits->count, -1u);
    expect_finding(&d, "switch", "(cable to node 3): credits were lost");
    add_credits(&d, &hostif->credits->count, 1);
    damage_close(&d);
}

static void buffers__one_without_a_holder_is_found(void)
{
    struct damage d;
    uint32_t buf;

    damage_open(&d, &crosspoints);
    buf = emu_pool_take(&d.fabric->cache);
    expect_finding(&d, "fabric", "1 references to buffers exist, but holders have 0");
    emu_pool_drop(&d.fabric->cache, buf);
    damage_close(&d);
}

/* Replace the entry for @node in switch 0's table. */
static void with_route(struct damage *d, uint32_t node, uint64_t ports, const char *where,
                       const char *what)
{
    const struct topo_route *right = switch_route_now(d->fabric->sw[0]);
    uint64_t sets[16];
    struct topo_route wrong = {.span = d->w.nodes, .stride = 1, .spread = 1, .sets = sets};

    for (uint32_t n = 0; n < d->w.nodes; n++)
        sets[n] = n == node ? ports : topo_route_ports(right, n);
    switch_reroute(d->fabric->sw[0], &wrong);
    expect_finding(d, where, what);
    switch_reroute(d->fabric->sw[0], right);
    fabric_pause(d->fabric); /* all readers have finished */
    fabric_resume(d->fabric);
}

static void tables__a_wrong_entry_is_found(void)
{
    struct damage d;
    const struct topo_link *near, *other;
    uint32_t port;

    damage_open(&d, &crosspoints);
    near = &d.w.graph->node[0].link[0];
    other = &d.w.graph->node[1].link[0];
    CU_ASSERT_EQUAL_FATAL(near->sw, 0);
    with_route(&d, 0, 0, "switch 0: ", "the table's route to node 0 is missing");
    CU_ASSERT_EQUAL(d.audit.partitioned, 0);
    CU_ASSERT_EQUAL_FATAL(other->sw, 0);
    with_route(&d, 0, emu_bit(other->port), "switch 0 port", "to node 0 ends at another node");
    first_cable(&d, 0, &port);
    with_route(&d, 0, emu_bit(port), "switch", "to node 0 goes in a cycle");
    damage_close(&d);
}

static void trees__a_cut_edge_is_found(void)
{
    struct damage d;
    const struct topo_tree_switch *at;
    struct switch_group *part;
    struct fabric_audit *result;
    uint32_t port;
    char where[64];
    void *old;

    damage_open(&d, &crosspoints);
    result = &d.audit;
    at = &d.group->tree.switches[1];
    part = d.group->part[1];
    port = (uint32_t)at->up;
    part->ports ^= emu_bit(port);
    snprintf(where, sizeof where, "switch %u port %u (cable to switch %u", at->sw, port,
             d.group->tree.switches[0].sw);
    expect_finding(&d, where, "an edge of the tree is missing here");
    CU_ASSERT_PTR_NOT_NULL(strstr(result->line[0], "group "));
    part->ports ^= emu_bit(port);

    port = emu_bits_first(at->ports & ~emu_bit(port));
    part->ports ^= emu_bit(port);
    expect_finding(&d, "node ", "a member is not a leaf of the tree");
    part->ports ^= emu_bit(port);

    switch_groups_clear(d.fabric->sw[at->sw], d.id);
    expect_finding(&d, "switch ", "the group is not in its table");
    CU_ASSERT_EQUAL(switch_groups_set(d.fabric->sw[at->sw], part, &old), 0);

    part->up = -1;
    expect_finding(&d, "switch ", "it has the wrong port towards the top");
    part->up = at->up;
    damage_close(&d);
}

static void states__leaked_ones_are_found(void)
{
    struct damage d;
    struct switch_group *part;
    struct switch_state *state;
    char where[64];

    damage_open(&d, &crosspoints);
    part = d.group->part[0];
    state = switch_group_state(part, 7);
    snprintf(where, sizeof where, "switch %u, group %u", d.group->tree.switches[0].sw, d.id);
    state->active = true;
    expect_finding(&d, where, "a combine state has leaked");
    state->active = false;
    state->part[0].queued = true;
    state->part[0].buf = EMU_NO_BUF;
    expect_finding(&d, where, "a result has leaked");
    state->part[0].queued = false;
    d.fabric->states[0] += EMU_WINDOW;
    expect_finding(&d, "switch 0", "combine states are reserved");
    d.fabric->states[0] -= EMU_WINDOW;
    d.fabric->spare_bufs--;
    expect_finding(&d, "fabric", "buffers reserved for groups have leaked");
    d.fabric->spare_bufs++;
    damage_close(&d);
}

/* A switch counts a slot as used that holds no segment. */
static void slots__leaked_ones_are_found(void)
{
    struct damage d;
    struct switch_crossbar *bar;

    damage_open(&d, &crosspoints);
    bar = (struct switch_crossbar *)(void *)d.fabric->sw[1];
    bar->store.fresh++;
    expect_finding(&d, "switch 1: ", "slots for segments have leaked");
    bar->store.fresh--;
    damage_close(&d);
}

static void channels__open_at_one_end_are_found(void)
{
    struct damage d;
    struct switch_channels *ch;
    struct engine_link *link;
    const struct topo_end *remote;
    struct emu_vcs *vcs;
    char where[64];
    uint32_t port;

    damage_open(&d, &channels);
    remote = first_cable(&d, 0, &port);
    snprintf(where, sizeof where, "switch 0 port %u (cable to switch %u port %u)", port, remote->id,
             remote->port);
    ch = (struct switch_channels *)(void *)d.fabric->sw[0];
    ch->in[port * EMU_VCS + 3].state = CHANNEL_OPEN;
    expect_finding(&d, where, "a channel is open at the receiving end only");
    ch->in[port * EMU_VCS + 3].state = CHANNEL_CLOSED;

    vcs = &((struct switch_channels *)(void *)d.fabric->sw[remote->id])->port[remote->port].vcs;
    vcs->used[2]++;
    vcs->occupied |= 1u << 2;
    expect_finding(&d, where, "credits were lost");
    vcs->used[2]--;
    vcs->occupied &= ~(1u << 2);

    link = &fabric_engine(d.fabric, 2)->link[0];
    link->vcs.open |= 1;
    expect_finding(&d, "node 2 link 0 (cable to switch", "an open channel has no packet");
    link->vcs.open &= ~1u;
    link->vcs.pool--;
    expect_finding(&d, "node 2 link 0", "the pool slots of a cable do not add up");
    link->vcs.pool++;
    damage_close(&d);
}

/* The path from a switch to an adapter, and the tree of adapters. */
static void engines__damage_is_found(void)
{
    struct damage d;
    struct engine_group *top;
    struct switch_channels *ch;
    const struct topo_link *at;
    uint32_t child;
    void *old;

    damage_open(&d, &channels);
    at = &d.w.graph->node[1].link[0];
    ch = (struct switch_channels *)(void *)d.fabric->sw[at->sw];
    ch->port[at->port].vcs.pool--;
    expect_finding(&d, "node 1 link 0", "slots of a pool were lost or duplicated");
    ch->port[at->port].vcs.pool++;
    add_credits(&d, &engine_rx(fabric_engine(d.fabric, 1), ENGINE_HOST)->credits->count, 1);
    expect_finding(&d, "node 1: ", "there are more credits than buffers on the cable to here");
    add_credits(&d, &engine_rx(fabric_engine(d.fabric, 1), ENGINE_HOST)->credits->count, -1u);

    top = d.group->engines->at[0].group;
    child = top->tree->node[ENGINE_CHILD];
    top->tree->node[ENGINE_CHILD] = 0;
    expect_finding(&d, "node ", "its parent in the tree of combiners does not know it");
    top->tree->node[ENGINE_CHILD] = child;
    engine_groups_clear(d.group->engines->at[0].engine, d.id);
    expect_finding(&d, "node 0, group ", "the group is not in its adapter's table");
    CU_ASSERT_EQUAL(engine_groups_set(d.group->engines->at[0].engine, top, &old), 0);
    top->tree->state[5].querying = true;
    expect_finding(&d, "node 0, group ", "a result of a collective has leaked");
    top->tree->state[5].querying = false;
    damage_close(&d);
}

/* --- links out of service ----------------------------------------------------------- */

/* The audit follows the tables in force; a node without any route is not an error. */
static void links__out_are_taken_into_account(void)
{
    struct damage d;
    const struct topo_route *right;
    uint64_t unreachable = 0;
    uint32_t port, inside, treeless = 0;

    damage_open(&d, &channels);
    first_cable(&d, 0, &port);
    inside = fabric_cable_at(d.fabric, 0, port);
    right = switch_route_now(d.fabric->sw[0]);
    set_link_out(d.fabric, inside, true, &unreachable, &treeless);
    CU_ASSERT_EQUAL(audit(d.fabric, &d.audit, false), 0);
    CU_ASSERT_EQUAL(d.audit.partitioned, 0);
    CU_ASSERT_EQUAL(treeless, 0);
    const struct topo_route *now = switch_route_now(d.fabric->sw[0]);
    switch_reroute(d.fabric->sw[0], right);
    expect_finding(&d, "switch 0 port", "uses a port without a cable in use");
    switch_reroute(d.fabric->sw[0], now);
    set_link_out(d.fabric, inside, false, &unreachable, &treeless);

    set_link_out(d.fabric, fabric_cable_of(d.fabric, 2, 0), true, &unreachable, &treeless);
    CU_ASSERT_EQUAL(audit(d.fabric, &d.audit, false), 0);
    CU_ASSERT_TRUE(d.audit.partitioned > 0);
    CU_ASSERT_EQUAL(d.audit.partitioned, unreachable);
    CU_ASSERT_EQUAL(d.audit.treeless, 1);
    set_link_out(d.fabric, fabric_cable_of(d.fabric, 2, 0), false, &unreachable, &treeless);
    damage_close(&d);
}

/* --- duration ----------------------------------------------------------------------- */

static void takes(const char *topo, const char *profile, uint32_t groups)
{
    struct fabric_config config = {.clock = EMU_CLOCK_RAW, .threads = 2, .seed = test_seed()};
    struct fabric_audit *result = malloc(sizeof *result);
    struct topo_graph *graph;
    struct fabric *fabric;
    uint32_t nodes[256];

    fixture_profile(&config.profile, profile, NULL);
    fabric = fixture_fabric_start(&graph, topo, 256, &config);
    fixture_nodes(nodes, graph->nodes);
    for (uint32_t i = 0; i < groups; i++)
        fixture_group(fabric, nodes, graph->nodes);
    CU_ASSERT_EQUAL(audit(fabric, result, false), 0);
    CU_ASSERT_EQUAL(audit(fabric, result, false), 0); /* the memory has been touched now */
    printf("%s, %s, %u groups: the workers were held for %.2f ms of %.2f ms\n", topo, profile,
           groups, (double)result->paused_ns / 1e6, (double)result->elapsed_ns / 1e6);
    CU_ASSERT_EQUAL(result->groups, groups);
    CU_ASSERT_EQUAL(result->switches, graph->switches);
    CU_ASSERT_TRUE(result->routes >= graph->nodes);
    fixture_fabric_stop(fabric, graph);
    free(result);
}

static void audit__takes_milliseconds(void)
{
    takes("kary:4,2", "oq2004", 10);
    takes("kary:16,2", "oq2004", 0);
    takes("kary:16,2", "oq2004", 20);
    takes("qsnet:16", "qsnet3", 10);
    takes("qsnet:256", "qsnet3", 0);
    takes("qsnet:256", "qsnet3", 4);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(audit__under_load_finds_nothing),
        CASE(credits__lost_and_forged_are_found),
        CASE(buffers__one_without_a_holder_is_found),
        CASE(tables__a_wrong_entry_is_found),
        CASE(trees__a_cut_edge_is_found),
        CASE(states__leaked_ones_are_found),
        CASE(slots__leaked_ones_are_found),
        CASE(channels__open_at_one_end_are_found),
        CASE(engines__damage_is_found),
        CASE(links__out_are_taken_into_account),
        CASE(audit__takes_milliseconds),
        {NULL, NULL},
    };

    return test_run("audit", cases);
}
