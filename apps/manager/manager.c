/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * manager.c - links, one by one: signal, bring-up, errors; and tables when any of them changed.
 *
 * On several hosts there is one manager, where the fabric is governed. It knows all links; what is
 * at ends that other hosts have it asks them, and what it decides they do, too (apps/fabric/hosts.h
 * has the calls). Never while it holds the workers, which carry what is asked.
 */
#include "apps/manager/manager.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"

#include <errno.h>
#include <stdlib.h>

#include "emu/clock.h"
#include "emu/fault/fault.h"

#define AGAIN_DOUBLINGS 6u
#define ERRORS_OF       1000000u /* errors_inside and errors_node are of so many packets */
#define LOOK_LEAST      100u     /* packets, for a rate of errors to mean something */

/* What the manager knows of a cable. */
struct link {
    enum manager_link state;
    uint64_t outs;      /* times that it went out of use */
    uint8_t failed;     /* tests in a row */
    bool isolated;      /* it is out for no fault of its own, and until it is in use again */
    bool severed;       /* it leads nowhere any more: it never has a signal again */
    uint64_t due_ps;    /* its next step; EMU_NEVER */
    uint64_t signal_ps; /* since when it has a signal */
    struct topo_at far; /* where its second end is plugged in */
    uint64_t seen[2];   /* as of the last look: packets, each way, */
    uint64_t errors[2]; /* and errors */
    struct {
        uint64_t sent;     /* as of the last look */
        uint64_t since_ps; /* when it could have sent more, and has not since; EMU_NEVER */
    } port[2];             /* that send on it: to its first end, and from it */
    bool stuck;            /* one of them does not send what it could */
    bool barred;           /* it has passed its test, and something of its past is in the way */
};

struct manager {
    struct fabric *fabric;
    struct manager_config config;
    struct link *link;        /* by cable */
    bool *routed;             /* by cable: tables may name it */
    uint64_t *trapped;        /* by switch: packets without a way, as of the last look */
    struct fabric_seen far;   /* at that look: what other hosts said; all NULL on one host */
    struct fabric_test *test; /* the same of links that this step tests; on one host NULL */
    uint32_t tests;           /* of these */
    uint64_t *alone;    /* by node: when it is next told that it has no link; EMU_NEVER: it has */
    uint64_t alone_ps;  /* the first of these */
    uint64_t pieces_ps; /* the network has been in the same pieces for too long; EMU_NEVER */
    uint32_t out;       /* links not in use */
    uint64_t links_ps;  /* the first that is due; EMU_NEVER */
    uint64_t tables_ps; /* new ones are due; EMU_NEVER */
    uint64_t since_ps;  /* the first change that they are for */
    uint64_t look_ps;   /* the next look at errors, where there can be any */
    uint64_t carry_ps;  /* what waits for links that are out is carried next; EMU_NEVER */
    uint64_t gap_ps;    /* after the last time */
    uint64_t carried;   /* segments, in all */
    uint64_t
        parted_ps;   /* who is parted is told next; EMU_NEVER: nobody is, or it does not matter */
    uint64_t parted; /* pairs, as of the last tables */
    bool parting;    /* they have been told */
    uint32_t nodes;
    uint64_t now_ps; /* of this step */
};

struct manager_config manager_defaults(void)
{
    return (struct manager_config){.reroute = true,
                                   .reaction_ps = 50000000,
                                   .step_ps = 10000000,
                                   .test_packets = 10000,
                                   .again_ps = 1000000000,
                                   .alone_ps = 1000000000000,
                                   .look_ps = 100000000000,
                                   .stuck_ps = 1000000000000,
                                   .carry_ps = 20000000,
                                   .carry_last_ps = 20480000000,
                                   .errors_inside = 10000,
                                   .errors_node = 100000};
}

static void manager_say(struct manager *m, struct manager_event event)
{
    event.at_ps = m->now_ps;
    event.links_out = m->out;
    if (m->config.event)
        m->config.event(m->config.ctx, &event);
}

/* The time by which devices are told: raw has none, and real goes on meanwhile. */
static uint64_t device_ps(const struct manager *m)
{
    return fabric_is_virtual(m->fabric) ? m->now_ps : fabric_now_ps(m->fabric);
}

static void tables_plan(struct manager *m)
{
    if (!m->config.reroute || m->tables_ps != EMU_NEVER)
        return;
    m->since_ps = m->now_ps;
    m->tables_ps = m->now_ps + m->config.reaction_ps;
}

static void carry_plan(struct manager *m, uint64_t gap_ps)
{
    m->gap_ps = gap_ps;
    m->carry_ps = m->out && fabric_must_tend(m->fabric) ? m->now_ps + gap_ps : EMU_NEVER;
}

static void link_plan(struct manager *m, struct link *link, enum manager_link state, uint64_t in_ps)
{
    link->state = state;
    link->due_ps = m->now_ps + in_ps;
    if (link->due_ps < m->links_ps)
        m->links_ps = link->due_ps;
}

/* --- nodes without a link ----------------------------------------------------------- */

static bool node_has_link(const struct manager *m, uint32_t node)
{
    uint32_t cable;

    for (uint32_t l = 0; l < TOPO_NODE_LINKS_MAX; l++) {
        cable = fabric_cable_of(m->fabric, node, l);
        if (cable != TOPO_NONE && m->routed[cable])
            return true;
    }
    return false;
}

/* The link at the node's end, if it is one, has come or gone. */
static void node_look(struct manager *m, uint32_t i)
{
    const struct fabric_cable *cable = fabric_cable(m->fabric, i);
    uint64_t *alone;

    if (cable->kind != TOPO_END_NODE)
        return;
    bool linked = node_has_link(m, cable->node);

    fabric_node_linked(m->fabric, cable->node, linked);
    alone = &m->alone[cable->node];
    if (linked)
        *alone = EMU_NEVER;
    else if (*alone == EMU_NEVER && m->config.alone_ps != EMU_NEVER)
        *alone = m->now_ps + m->config.alone_ps;
    if (*alone < m->alone_ps)
        m->alone_ps = *alone;
}

/* Again and again: what it posts meanwhile is given up, too. */
static void nodes_step(struct manager *m)
{
    m->alone_ps = EMU_NEVER;
    for (uint32_t n = 0; n < m->nodes; n++) {
        if (m->alone[n] <= m->now_ps) {
            fabric_hold(m->fabric);
            fabric_node_alone(m->fabric, n, device_ps(m));
            fabric_go(m->fabric);
            fabric_node_alone_told(m->fabric, n);
            m->alone[n] = m->now_ps + m->config.alone_ps;
            manager_say(m, (struct manager_event){.what = MANAGER_SAYS_ALONE,
                                                  .cable = TOPO_NONE,
                                                  .node = n});
        }
        if (m->alone[n] < m->alone_ps)
            m->alone_ps = m->alone[n];
    }
}

/* Out of use: its ends know, and soon the tables. */
static int link_out(struct manager *m, uint32_t i, uint32_t fault, uint32_t *hit)
{
    int err;

    fabric_hold(m->fabric);
    err = fabric_link_set(m->fabric, i, false, fault, device_ps(m), hit);
    fabric_go(m->fabric);
    if (err)
        return err;
    fabric_link_told(m->fabric, i, false, fault);
    m->routed[i] = false;
    m->out++;
    m->link[i].outs++;
    node_look(m, i);
    tables_plan(m);
    carry_plan(m, m->config.carry_ps);
    return 0;
}

/* Links of the switch that it is isolated by, and @others that are out. */
static uint32_t switch_count_out(const struct manager *m, uint32_t sw, uint32_t *others)
{
    uint32_t isolated = 0;

    *others = 0;
    for (uint32_t p = 0; p < fabric_ports(m->fabric); p++) {
        uint32_t i = fabric_cable_at(m->fabric, sw, p);

        if (i == TOPO_NONE)
            continue;
        isolated += m->link[i].isolated;
        *others += !m->link[i].isolated && !m->routed[i];
    }
    return isolated;
}

/* --- the three steps ---------------------------------------------------------------- */

/* Is the far end where the topology says? */
static bool link_right(const struct manager *m, uint32_t i)
{
    const struct fabric_cable *cable = fabric_cable(m->fabric, i);
    const struct link *link = &m->link[i];

    return cable->kind != TOPO_END_SWITCH ||
           (link->far.sw == cable->far.sw && link->far.port == cable->far.port);
}

#define UNCOUNTED UINT64_MAX /* link.seen: what the other host has counted is not known yet */

/* Packets that came by this way of a link, and their errors; where its end is elsewhere, as of the
 * last look. */
static void link_counts(const struct manager *m, uint32_t i, uint32_t out, uint64_t *packets,
                        uint64_t *errors)
{
    const struct emu_faults *faults = fabric_faults_of(m->fabric, i, out);

    *packets = faults ? emu_faults_seen(faults) : 0;
    *errors = faults ? emu_faults_errors(faults) : 0;
    if (!m->far.packets || fabric_cable_ends_here(m->fabric, i, out))
        return;
    *packets = m->far.packets[2 * i + out];
    *errors = m->far.errors[2 * i + out];
}

/* What the counts are now: errors from here on are new ones. */
static void link_recount(struct manager *m, uint32_t i)
{
    for (uint32_t out = 0; out < 2; out++)
        link_counts(m, i, out, &m->link[i].seen[out], &m->link[i].errors[out]);
}

/* It is in use from now on: what is counted is counted from here. */
static void link_begin(struct manager *m, uint32_t i)
{
    link_recount(m, i);
    m->link[i].stuck = false;
    for (uint32_t out = 0; out < 2; out++) {
        m->link[i].port[out].since_ps = EMU_NEVER;
        if (m->far.packets && !fabric_cable_ends_here(m->fabric, i, out))
            m->link[i].seen[out] = UNCOUNTED;
    }
}

static bool link_join(struct manager *m, uint32_t i)
{
    uint32_t none;
    bool joined;

    fabric_hold(m->fabric);
    joined = fabric_link_quiet(m->fabric, i) &&
             !fabric_link_set(m->fabric, i, true, 0, device_ps(m), &none);
    fabric_go(m->fabric);
    if (joined)
        fabric_link_told(m->fabric, i, true, 0);
    return joined;
}

/* A switch that has no link out but those that it was isolated by gets them back, tested. */
static void switch_rejoin(struct manager *m, uint32_t sw)
{
    uint32_t others;

    if (switch_count_out(m, sw, &others) && !others)
        for (uint32_t p = 0; p < fabric_ports(m->fabric); p++) {
            uint32_t i = fabric_cable_at(m->fabric, sw, p);

            if (i != TOPO_NONE && m->link[i].state == MANAGER_ISOLATED) {
                m->link[i].signal_ps = m->now_ps;
                link_plan(m, &m->link[i], MANAGER_BEGINS, m->config.step_ps);
            }
        }
}

/* @quiet: for all that other hosts know. */
static void link_up(struct manager *m, uint32_t i, bool quiet)
{
    struct link *link = &m->link[i];

    link->barred = !quiet || !link_join(m, i);
    if (link->barred) {
        link_plan(m, link, MANAGER_TESTS, m->config.step_ps);
        return;
    }
    link->state = MANAGER_UP;
    link->failed = 0;
    link->isolated = false;
    m->routed[i] = true;
    m->out--;
    node_look(m, i);
    link_begin(m, i);
    tables_plan(m);
    switch_rejoin(m, fabric_cable(m->fabric, i)->at.sw);
    if (fabric_cable(m->fabric, i)->kind == TOPO_END_SWITCH)
        switch_rejoin(m, fabric_cable(m->fabric, i)->far.sw);
    manager_say(m, (struct manager_event){.what = MANAGER_SAYS_UP,
                                          .cable = i,
                                          .took_ps = m->now_ps - link->signal_ps});
}

/* Errors that it may have, of ERRORS_OF packets. */
static uint32_t link_most(const struct manager *m, uint32_t i)
{
    return fabric_cable(m->fabric, i)->kind == TOPO_END_NODE ? m->config.errors_node
                                                             : m->config.errors_inside;
}

/* What other hosts said to this step's tests: see tests_ask(). */
static const struct fabric_test *test_of(const struct manager *m, uint32_t i)
{
    for (uint32_t t = 0; t < m->tests; t++)
        if (m->test[t].cable == i)
            return &m->test[t];
    return NULL;
}

static void link_test(struct manager *m, uint32_t i)
{
    const struct fabric_test *far = test_of(m, i);
    struct link *link = &m->link[i];
    uint32_t errors = fabric_cable_try(m->fabric, i, m->config.test_packets);

    if (far && far->errors > errors)
        errors = far->errors;
    if ((uint64_t)errors * ERRORS_OF <= (uint64_t)m->config.test_packets * link_most(m, i)) {
        link_up(m, i, !far || far->quiet);
        return;
    }
    link_plan(m, link, MANAGER_RESTS, m->config.again_ps << link->failed);
    link->failed += link->failed < AGAIN_DOUBLINGS;
    manager_say(m, (struct manager_event){.what = MANAGER_SAYS_FAILED,
                                          .cable = i,
                                          .errors = errors,
                                          .packets = m->config.test_packets});
}

static void link_step(struct manager *m, uint32_t i)
{
    struct link *link = &m->link[i];

    link->due_ps = EMU_NEVER;
    switch (link->state) {
    case MANAGER_RESTS:
        link_plan(m, link, MANAGER_BEGINS, m->config.step_ps);
        break;
    case MANAGER_BEGINS:
        link_plan(m, link, MANAGER_ASKS, m->config.step_ps);
        break;
    case MANAGER_ASKS:
        if (link_right(m, i)) {
            link_plan(m, link, MANAGER_TESTS, m->config.step_ps);
            break;
        }
        link->state = MANAGER_SWAPPED;
        manager_say(m, (struct manager_event){.what = MANAGER_SAYS_SWAPPED,
                                              .cable = i,
                                              .far = link->far});
        break;
    case MANAGER_TESTS:
        link_test(m, i);
        break;
    case MANAGER_UP:
    case MANAGER_LOST:
    case MANAGER_ISOLATED:
    case MANAGER_SWAPPED:
        break; /* nothing is due */
    }
}

/* --- errors of links in use --------------------------------------------------------- */

/* More errors than it may have, since the last look? */
static bool link_bad(const struct manager *m, uint32_t i, uint64_t *errors, uint64_t *packets)
{
    const struct link *link = &m->link[i];
    uint32_t most = link_most(m, i);

    for (uint32_t out = 0; out < 2; out++) {
        if (link->seen[out] == UNCOUNTED)
            continue;
        link_counts(m, i, out, packets, errors);
        *packets -= link->seen[out];
        *errors -= link->errors[out];
        if (*packets >= LOOK_LEAST && *errors * ERRORS_OF > *packets * most)
            return true;
    }
    return false;
}

static void links_look(struct manager *m)
{
    for (uint32_t i = 0; i < fabric_cable_count(m->fabric); i++) {
        uint64_t errors, packets;
        uint32_t hit;

        if (m->link[i].state != MANAGER_UP)
            continue;
        if (link_bad(m, i, &errors, &packets) && !link_out(m, i, 0, &hit)) {
            m->link[i].signal_ps = m->now_ps;
            link_plan(m, &m->link[i], MANAGER_RESTS, m->config.again_ps);
            manager_say(m, (struct manager_event){.what = MANAGER_SAYS_OUT,
                                                  .cable = i,
                                                  .errors = errors,
                                                  .packets = packets});
        }
        link_recount(m, i);
    }
}

/* --- ports that do not send ----------------------------------------------------------- */

/* As the host saw it that has the sending end. */
static struct fabric_port port_seen(struct manager *m, uint32_t i, bool out)
{
    if (!m->far.port || fabric_cable_ends_here(m->fabric, i, !out))
        return fabric_port_look(m->fabric, i, out, device_ps(m));
    return m->far.port[2 * i + out];
}

/*
 * One that could send at a look, and has sent nothing from then to now, when it can still, as it
 * could at each look between. A port that waits for room at the far end, however long, is no such
 * port; nor is one that sends now and then, for what waits at a port has its turn: a port sends as
 * a whole, or it does not. Returns since when; EMU_NEVER.
 */
static uint64_t port_look(struct manager *m, uint32_t i, bool out)
{
    const struct fabric_port port = port_seen(m, i, out);
    uint64_t *since_ps = &m->link[i].port[out].since_ps;

    if (!port.ready || port.sent != m->link[i].port[out].sent)
        *since_ps = EMU_NEVER;
    if (port.ready && !port.idle && *since_ps == EMU_NEVER)
        *since_ps = m->now_ps;
    m->link[i].port[out].sent = port.sent;
    return port.idle ? EMU_NEVER : *since_ps;
}

/* Taken out; it is tested from time to time, as one that errs is. */
static void link_take_stuck(struct manager *m, uint32_t i)
{
    uint64_t in_ps = m->link[i].port[0].since_ps, out_ps = m->link[i].port[1].since_ps;
    uint32_t hit;

    manager_say(m,
                (struct manager_event){.what = MANAGER_SAYS_STUCK,
                                       .cable = i,
                                       .took_ps = m->now_ps - (in_ps < out_ps ? in_ps : out_ps)});
    m->link[i].stuck = false;
    if (link_out(m, i, 0, &hit))
        return;
    m->link[i].signal_ps = m->now_ps;
    link_plan(m, &m->link[i], MANAGER_RESTS, m->config.again_ps);
}

static bool link_is_watched(const struct manager *m, uint32_t i)
{
    return m->link[i].state == MANAGER_UP && fabric_can_fail(m->fabric, i);
}

static void ports_look(struct manager *m)
{
    if (m->config.stuck_ps == EMU_NEVER)
        return;
    fabric_hold(m->fabric);
    for (uint32_t i = 0; i < fabric_cable_count(m->fabric); i++)
        for (uint32_t out = 0; link_is_watched(m, i) && out < 2; out++) {
            uint64_t since_ps = port_look(m, i, out);

            if (since_ps != EMU_NEVER && m->now_ps - since_ps >= m->config.stuck_ps)
                m->link[i].stuck = true;
        }
    fabric_go(m->fabric);
    for (uint32_t i = 0; i < fabric_cable_count(m->fabric); i++)
        if (m->link[i].stuck)
            link_take_stuck(m, i);
}

/* --- traps ---------------------------------------------------------------------------- */

static bool switch_has_nodes(const struct manager *m, uint32_t sw)
{
    for (uint32_t p = 0; p < fabric_ports(m->fabric); p++) {
        uint32_t i = fabric_cable_at(m->fabric, sw, p);

        if (i != TOPO_NONE && fabric_cable(m->fabric, i)->kind == TOPO_END_NODE)
            return true;
    }
    return false;
}

/*
 * Its links are taken down, so that nobody sends to it what it has no way for. Returns how many:
 * none where it has nodes, which it would cut off, or where none of its links is out, for then it
 * is not the one that has lost a way. A switch is isolated once, as long as that link is out.
 */
static uint32_t switch_isolate(struct manager *m, uint32_t sw)
{
    uint32_t isolated = 0, others, hit;

    if (switch_count_out(m, sw, &others) || !others || switch_has_nodes(m, sw))
        return 0;
    for (uint32_t p = 0; p < fabric_ports(m->fabric); p++) {
        uint32_t i = fabric_cable_at(m->fabric, sw, p);

        if (i == TOPO_NONE || m->link[i].state != MANAGER_UP || link_out(m, i, 0, &hit))
            continue;
        m->link[i].state = MANAGER_ISOLATED;
        m->link[i].isolated = true;
        isolated++;
    }
    return isolated;
}

static uint64_t switch_traps(const struct manager *m, uint32_t s, uint32_t *to)
{
    uint64_t trapped = fabric_traps(m->fabric, s, to);

    if (!m->far.trapped || !m->far.trapped[s])
        return trapped; /* it is here, or has had none */
    *to = m->far.trapped_to[s];
    return m->far.trapped[s];
}

/* One line a switch and look, however many packets there were. */
static void traps_look(struct manager *m)
{
    for (uint32_t s = 0; s < fabric_switches(m->fabric); s++) {
        struct manager_event event = {.what = MANAGER_SAYS_TRAP, .cable = TOPO_NONE, .sw = s};
        uint64_t trapped = switch_traps(m, s, &event.to);

        event.trapped = trapped - m->trapped[s];
        m->trapped[s] = trapped;
        if (!event.trapped)
            continue;
        event.isolated = fabric_isolates(m->fabric) ? switch_isolate(m, s) : 0;
        manager_say(m, event);
    }
}

/* --- what waits for links that are out ------------------------------------------------ */

static void group_treeless(void *ctx, uint32_t group)
{
    manager_say(ctx, (struct manager_event){.what = MANAGER_SAYS_TREELESS,
                                            .cable = TOPO_NONE,
                                            .group = group});
}

/* As tables in force say: not while others are due. */
static void carry_step(struct manager *m)
{
    uint64_t longer_ps = 2 * m->gap_ps;
    uint32_t carried = 0;
    bool barred = false;

    for (uint32_t i = 0; i < fabric_cable_count(m->fabric); i++)
        barred = barred || m->link[i].barred;
    fabric_ease(m->fabric, barred);
    if (m->tables_ps == EMU_NEVER) {
        fabric_hold(m->fabric);
        for (uint32_t i = 0; i < fabric_cable_count(m->fabric); i++)
            if (m->link[i].state != MANAGER_UP)
                carried += fabric_carry(m->fabric, i, device_ps(m));
        fabric_go(m->fabric);
    }
    if (fabric_ungrown(m->fabric))
        fabric_regrow(m->fabric, device_ps(m), group_treeless, m);
    m->carried += carried;
    if (carried || fabric_ungrown(m->fabric) || m->tables_ps != EMU_NEVER)
        longer_ps = m->config.carry_ps;
    carry_plan(m, longer_ps < m->config.carry_last_ps ? longer_ps : m->config.carry_last_ps);
}

/* --- nodes that no way joins ---------------------------------------------------------- */

static void parted_say(struct manager *m)
{
    manager_say(m, (struct manager_event){.what = MANAGER_SAYS_PARTED,
                                          .cable = TOPO_NONE,
                                          .parted = m->parted});
}

/*
 * They have been parted for the bound, or for another one: what they have under way with each other
 * is over. Again and again, for what they post meanwhile.
 */
static void parted_step(struct manager *m)
{
    m->parting = true;
    fabric_part(m->fabric, true);
    parted_say(m);
    m->parted_ps = m->now_ps + m->config.alone_ps;
}

/* New tables leave so many pairs parted. Packets that are acknowledged give up by themselves. */
static void parted_plan(struct manager *m, uint64_t parted)
{
    m->parted = parted;
    if (!parted) {
        m->parted_ps = EMU_NEVER;
        m->parting = false;
        fabric_part(m->fabric, false);
    } else if (m->parted_ps == EMU_NEVER && m->config.alone_ps != EMU_NEVER &&
               fabric_can_carry(m->fabric)) {
        m->parted_ps = m->now_ps + m->config.alone_ps;
    }
}

/* --- tables ------------------------------------------------------------------------- */

/* Whatever is out may cut somebody off, and be back soon. */
static void pieces_plan(struct manager *m)
{
    bool waits = m->out && m->config.alone_ps != EMU_NEVER;

    m->pieces_ps = waits ? m->now_ps + m->config.alone_ps : EMU_NEVER;
}

static void pieces_step(struct manager *m)
{
    m->pieces_ps = EMU_NEVER;
    if (fabric_cut_off(m->fabric, m->parted))
        pieces_plan(m); /* again, for something may have come through meanwhile */
}

static int tables_make(struct manager *m)
{
    uint64_t parted;
    int err;

    if (m->parting) /* of what was dropped since they were told last, too */
        parted_say(m);
    err = fabric_reroute(m->fabric, m->routed, device_ps(m), &parted, group_treeless, m);
    if (err) {
        m->tables_ps = m->now_ps + m->config.again_ps;
        return err;
    }
    m->tables_ps = EMU_NEVER;
    parted_plan(m, parted);
    pieces_plan(m);
    manager_say(m, (struct manager_event){.what = MANAGER_SAYS_TABLES,
                                          .cable = TOPO_NONE,
                                          .took_ps = m->now_ps - m->since_ps,
                                          .parted = parted});
    return 0;
}

/* --- the manager -------------------------------------------------------------------- */

/* What other hosts see, if there are any. Errors: -ENOMEM. */
static int far_create(struct manager *m)
{
    uint32_t ways = 2 * fabric_cable_count(m->fabric), switches = fabric_switches(m->fabric);
    struct fabric_seen *far = &m->far;

    if (!fabric_has_far(m->fabric))
        return 0;
    far->packets = calloc(ways + 1u, sizeof *far->packets);
    far->errors = calloc(ways + 1u, sizeof *far->errors);
    far->port = calloc(ways + 1u, sizeof *far->port);
    far->trapped = calloc(switches, sizeof *far->trapped);
    far->trapped_to = calloc(switches, sizeof *far->trapped_to);
    m->test = calloc(ways / 2 + 1u, sizeof *m->test);
    return m->test && far->packets && far->errors && far->port && far->trapped && far->trapped_to
               ? 0
               : -ENOMEM;
}

int manager_create(struct manager **ret, struct fabric *fabric, const struct manager_config *config)
{
    uint32_t cables = fabric_cable_count(fabric);
    struct manager *m;

    if (!fabric_can_reroute(fabric))
        return -ENOTSUP;
    m = calloc(1, sizeof *m);
    if (!m)
        return -ENOMEM;
    m->fabric = fabric;
    m->config = *config;
    m->links_ps = m->tables_ps = m->alone_ps = m->carry_ps = m->parted_ps = m->pieces_ps =
        EMU_NEVER;
    m->nodes = fabric_nodes(fabric);
    m->alone = malloc(m->nodes * sizeof *m->alone);
    m->trapped = calloc(fabric_switches(fabric), sizeof *m->trapped);
    m->look_ps = config->look_ps;
    m->link = calloc(cables, sizeof *m->link);
    m->routed = calloc(cables, sizeof *m->routed);
    if (far_create(m) || !m->link || !m->routed || !m->alone || !m->trapped) {
        manager_destroy(m);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < cables; i++) {
        m->link[i] = (struct link){.state = MANAGER_UP,
                                   .due_ps = EMU_NEVER,
                                   .far = fabric_cable(fabric, i)->far};
        m->routed[i] = true;
        link_begin(m, i);
    }
    for (uint32_t n = 0; n < m->nodes; n++)
        m->alone[n] = EMU_NEVER;
    *ret = m;
    return 0;
}

void manager_destroy(struct manager *m)
{
    if (!m)
        return;
    free(m->test);
    free(m->far.packets);
    free(m->far.errors);
    free(m->far.port);
    free(m->far.trapped);
    free(m->far.trapped_to);
    free(m->alone);
    free(m->trapped);
    free(m->routed);
    free(m->link);
    free(m);
}

int manager_signal(struct manager *m, uint32_t i, bool signal, uint32_t fault, uint64_t now_ps,
                   uint32_t *hit)
{
    struct link *link = &m->link[i];
    int err;

    m->now_ps = now_ps;
    *hit = 0;
    if (signal == (link->state != MANAGER_LOST) || link->severed)
        return 0;
    if (signal) {
        link->signal_ps = now_ps;
        link_plan(m, link, MANAGER_BEGINS, m->config.step_ps);
        return 0;
    }
    err = link->state == MANAGER_UP ? link_out(m, i, fault, hit) : 0;
    if (err)
        return err;
    link->state = MANAGER_LOST;
    link->isolated = link->barred = false;
    link->due_ps = EMU_NEVER;
    manager_say(m, (struct manager_event){.what = MANAGER_SAYS_LOST, .cable = i});
    return 0;
}

int manager_sever(struct manager *m, uint32_t i, uint64_t now_ps)
{
    uint32_t hit;
    int err = manager_signal(m, i, false, 0, now_ps, &hit);

    m->link[i].severed = m->link[i].severed || !err;
    return err;
}

void manager_plug(struct manager *m, uint32_t i, const struct topo_at *far)
{
    m->link[i].far = *far;
}

uint64_t manager_due_ps(const struct manager *m)
{
    uint64_t at_ps = m->links_ps < m->tables_ps ? m->links_ps : m->tables_ps;

    at_ps = m->alone_ps < at_ps ? m->alone_ps : at_ps;
    at_ps = m->carry_ps < at_ps ? m->carry_ps : at_ps;
    at_ps = m->parted_ps < at_ps ? m->parted_ps : at_ps;
    at_ps = m->pieces_ps < at_ps ? m->pieces_ps : at_ps;
    return at_ps < m->look_ps || !fabric_is_faulty(m->fabric) ? at_ps : m->look_ps;
}

bool manager_is_busy(const struct manager *m)
{
    return m->links_ps != EMU_NEVER || m->tables_ps != EMU_NEVER;
}

/* Other hosts are asked of all links at once that are to be tested: each question takes a while. */
static int tests_ask(struct manager *m)
{
    m->tests = 0;
    for (uint32_t i = 0; m->test && i < fabric_cable_count(m->fabric); i++)
        if (m->link[i].due_ps <= m->now_ps && m->link[i].state == MANAGER_TESTS)
            m->test[m->tests++].cable = i;
    return fabric_test_far(m->fabric, m->test, m->tests, m->config.test_packets);
}

/* Links that are due; and when the next one is. */
static void links_step(struct manager *m)
{
    if (tests_ask(m)) {
        m->links_ps = m->now_ps + m->config.again_ps; /* there is no memory for it now */
        return;
    }
    m->links_ps = EMU_NEVER;
    for (uint32_t i = 0; i < fabric_cable_count(m->fabric); i++) {
        if (m->link[i].due_ps <= m->now_ps)
            link_step(m, i);
        if (m->link[i].due_ps < m->links_ps)
            m->links_ps = m->link[i].due_ps;
    }
}

int manager_step(struct manager *m, uint64_t now_ps)
{
    int err;

    m->now_ps = now_ps;
    if (m->links_ps <= now_ps)
        links_step(m);
    if (m->alone_ps <= now_ps)
        nodes_step(m);
    if (m->pieces_ps <= now_ps)
        pieces_step(m);
    if (m->look_ps <= now_ps && fabric_is_faulty(m->fabric)) {
        if (m->far.packets)
            fabric_look_far(m->fabric, &m->far);
        if (fabric_has_links(m->fabric))
            links_look(m);
        ports_look(m);
        traps_look(m);
        m->look_ps = now_ps + m->config.look_ps;
    }
    err = m->tables_ps <= now_ps ? tables_make(m) : 0;
    if (m->parted_ps <= now_ps)
        parted_step(m);
    if (m->carry_ps <= now_ps)
        carry_step(m);
    return err;
}

uint64_t manager_link_outs(const struct manager *m, uint32_t cable)
{
    return m->link[cable].outs;
}

enum manager_link manager_link_state(const struct manager *m, uint32_t cable)
{
    return m->link[cable].state;
}

uint64_t manager_carried(const struct manager *m)
{
    return m->carried;
}

uint32_t manager_links_out(const struct manager *m)
{
    return m->out;
}
