/* SPDX-License-Identifier: BSD-3-Clause */
/* links.c - bring links up in three steps, take links out, and handle nodes without a link. */
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "apps/manager/internal.h"
#include "emu/fault/fault.h"
#include "emu/util/clock.h"

#define AGAIN_DOUBLINGS 6u /* limit of the number of times that config.again_ps is doubled */

void manager_link_plan(struct manager *m, struct link *link, enum manager_link state,
                       uint64_t in_ps)
{
    link->state = state;
    link->due_ps = m->now_ps + in_ps;
    if (link->due_ps < m->links_ps)
        m->links_ps = link->due_ps;
}

static bool link_is_routed(const struct manager *m, uint32_t i)
{
    return m->routed[i];
}

static bool node_has_link(const struct manager *m, uint32_t node,
                          bool (*is)(const struct manager *m, uint32_t i))
{
    uint32_t cable;

    for (uint32_t l = 0; l < TOPO_NODE_LINKS_MAX; l++) {
        cable = fabric_cable_of(m->fabric, node, l);
        if (cable != TOPO_NONE && is(m, cable))
            return true;
    }
    return false;
}

/* Link @i has changed: if it leads to a node, update whether that node has a link in use. */
static void node_update_linked(struct manager *m, uint32_t i)
{
    const struct fabric_cable *cable = fabric_cable(m->fabric, i);
    uint64_t *no_link;

    if (cable->kind != TOPO_END_NODE)
        return;
    bool linked = node_has_link(m, cable->node, link_is_routed);

    fabric_node_linked(m->fabric, cable->node, linked);
    no_link = &m->no_link[cable->node];
    if (linked)
        *no_link = EMU_NEVER;
    else if (*no_link == EMU_NEVER && m->config.no_link_ps != EMU_NEVER)
        *no_link = m->now_ps + m->config.no_link_ps;
    if (*no_link < m->no_link_ps)
        m->no_link_ps = *no_link;
}

bool manager_link_comes_up(const struct manager *m, uint32_t i)
{
    const struct link *link = &m->link[i];
    bool steps = link->state == MANAGER_BEGINS || link->state == MANAGER_QUERIES ||
                 link->state == MANAGER_TESTS;

    return steps && !link->failed && m->now_ps - link->signal_ps < m->config.no_link_ps;
}

/*
 * If a node has had no link in use for config.no_link_ps, its adapter gives up its packets. This is
 * repeated after each further no_link_ps, because the process of the node may post more. It is
 * postponed while one of the node's links is in its bring-up, unless that takes longer than
 * no_link_ps or its test has failed. Otherwise a late manager, which finds in one step that the
 * time has passed and that the signal has returned, would give up packets that could soon be sent.
 */
void manager_nodes_step(struct manager *m)
{
    m->no_link_ps = EMU_NEVER;
    for (uint32_t n = 0; n < m->nodes; n++) {
        if (m->no_link[n] <= m->now_ps && node_has_link(m, n, manager_link_comes_up))
            m->no_link[n] = m->now_ps + m->config.step_ps;
        if (m->no_link[n] <= m->now_ps) {
            fabric_pause(m->fabric);
            fabric_node_no_link(m->fabric, n, manager_device_ps(m));
            fabric_resume(m->fabric);
            fabric_node_no_link_publish(m->fabric, n);
            m->no_link[n] = m->now_ps + m->config.no_link_ps;
            manager_notify(m, (struct manager_event){.what = MANAGER_EVENT_NO_LINK,
                                                     .cable = TOPO_NONE,
                                                     .node = n});
        }
        if (m->no_link[n] < m->no_link_ps)
            m->no_link_ps = m->no_link[n];
    }
}

int manager_link_out(struct manager *m, uint32_t i, uint32_t fault, uint32_t *hit)
{
    int err;

    fabric_pause(m->fabric);
    err = fabric_link_set(m->fabric, i, false, fault, manager_device_ps(m), hit);
    fabric_resume(m->fabric);
    if (err)
        return err;
    fabric_link_publish(m->fabric, i, false, fault);
    m->routed[i] = false;
    m->out++;
    m->link[i].outs++;
    node_update_linked(m, i);
    manager_tables_plan(m);
    manager_in_flight_plan(m, m->config.in_flight_ps);
    return 0;
}

uint32_t manager_count_out(const struct manager *m, uint32_t sw, uint32_t *others)
{
    uint32_t isolated = 0;

    *others = 0;
    for (uint32_t p = 0; p < fabric_graph(m->fabric)->ports; p++) {
        uint32_t i = fabric_cable_at(m->fabric, sw, p);

        if (i == TOPO_NONE)
            continue;
        isolated += m->link[i].isolated;
        *others += !m->link[i].isolated && !m->routed[i];
    }
    return isolated;
}

static bool link_peer_is_right(const struct manager *m, uint32_t i)
{
    const struct fabric_cable *cable = fabric_cable(m->fabric, i);
    const struct link *link = &m->link[i];

    return cable->kind != TOPO_END_SWITCH ||
           (link->peer.sw == cable->peer.sw && link->peer.port == cable->peer.port);
}

void manager_link_counts(const struct manager *m, uint32_t i, uint32_t out, uint64_t *packets,
                         uint64_t *errors)
{
    const struct emu_faults *faults = fabric_faults_of(m->fabric, i, out);

    *packets = faults ? emu_faults_seen(faults) : 0;
    *errors = faults ? emu_faults_errors(faults) : 0;
    if (!m->remote.packets || fabric_cable_ends_here(m->fabric, i, out))
        return;
    *packets = m->remote.packets[2 * i + out];
    *errors = m->remote.errors[2 * i + out];
}

void manager_link_begin(struct manager *m, uint32_t i)
{
    m->link[i].stuck = false;
    for (uint32_t out = 0; out < 2; out++) {
        manager_link_counts(m, i, out, &m->link[i].seen[out], &m->link[i].errors[out]);
        m->link[i].port[out].since_ps = EMU_NEVER;
        if (m->remote.packets && !fabric_cable_ends_here(m->fabric, i, out))
            m->link[i].seen[out] = MANAGER_UNCOUNTED;
    }
}

/*
 * Take a link into use at both ends. Returns false if it still has old packets, or if there is no
 * memory.
 */
static bool link_join(struct manager *m, uint32_t i)
{
    uint32_t none;
    bool joined;

    fabric_pause(m->fabric);
    joined = fabric_link_quiet(m->fabric, i) &&
             !fabric_link_set(m->fabric, i, true, 0, manager_device_ps(m), &none);
    fabric_resume(m->fabric);
    if (joined)
        fabric_link_publish(m->fabric, i, true, 0);
    return joined;
}

/*
 * With trap=isolate, the manager takes the other links of a switch out of use when the switch had
 * no route for a packet. Begin the bring-up of these *isolated* links of @sw if none of its other
 * links is out.
 */
static void switch_end_isolation(struct manager *m, uint32_t sw)
{
    uint32_t others;

    if (manager_count_out(m, sw, &others) && !others)
        for (uint32_t p = 0; p < fabric_graph(m->fabric)->ports; p++) {
            uint32_t i = fabric_cable_at(m->fabric, sw, p);

            if (i != TOPO_NONE && m->link[i].state == MANAGER_ISOLATED) {
                m->link[i].signal_ps = m->now_ps;
                manager_link_plan(m, &m->link[i], MANAGER_BEGINS, m->config.step_ps);
            }
        }
}

/* Take a tested link into use, or test it again later. @quiet: other hosts have no old packets. */
static void link_up(struct manager *m, uint32_t i, bool quiet)
{
    struct link *link = &m->link[i];

    link->barred = !quiet || !link_join(m, i);
    if (link->barred) {
        manager_link_plan(m, link, MANAGER_TESTS, m->config.step_ps);
        return;
    }
    link->state = MANAGER_UP;
    link->failed = 0;
    link->isolated = false;
    m->routed[i] = true;
    m->out--;
    node_update_linked(m, i);
    manager_link_begin(m, i);
    manager_tables_plan(m);
    switch_end_isolation(m, fabric_cable(m->fabric, i)->at.sw);
    if (fabric_cable(m->fabric, i)->kind == TOPO_END_SWITCH)
        switch_end_isolation(m, fabric_cable(m->fabric, i)->peer.sw);
    manager_notify(m, (struct manager_event){.what = MANAGER_EVENT_UP,
                                             .cable = i,
                                             .took_ps = m->now_ps - link->signal_ps});
}

uint32_t manager_link_most(const struct manager *m, uint32_t i)
{
    return fabric_cable(m->fabric, i)->kind == TOPO_END_NODE ? m->config.errors_node
                                                             : m->config.errors_inside;
}

/* Return the other hosts' result for a test that tests_query_remote() has requested; NULL: none. */
static const struct fabric_test *test_by_remote(const struct manager *m, uint32_t i)
{
    for (uint32_t t = 0; t < m->tests; t++)
        if (m->test[t].cable == i)
            return &m->test[t];
    return NULL;
}

static void link_test(struct manager *m, uint32_t i)
{
    const struct fabric_test *remote = test_by_remote(m, i);
    struct link *link = &m->link[i];
    uint32_t errors = fabric_cable_try(m->fabric, i, m->config.test_packets);

    if (remote && remote->errors > errors)
        errors = remote->errors;
    if ((uint64_t)errors * MANAGER_ERRORS_OF <=
        (uint64_t)m->config.test_packets * manager_link_most(m, i)) {
        link_up(m, i, !remote || remote->quiet);
        return;
    }
    manager_link_plan(m, link, MANAGER_BACKOFF, m->config.again_ps << link->failed);
    link->failed += link->failed < AGAIN_DOUBLINGS;
    manager_notify(m, (struct manager_event){.what = MANAGER_EVENT_FAILED,
                                             .cable = i,
                                             .errors = errors,
                                             .packets = m->config.test_packets});
}

/*
 * Let the next step of a bring-up be due config.step_ps after this step was due, even if this step
 * is late. So a manager that got no CPU time for a while makes up for all missed steps at once.
 */
static void link_go_on(struct manager *m, struct link *link, enum manager_link state,
                       uint64_t was_due_ps)
{
    link->state = state;
    link->due_ps = was_due_ps + m->config.step_ps;
}

static void manager_link_step(struct manager *m, uint32_t i)
{
    struct link *link = &m->link[i];
    uint64_t due_ps = link->due_ps;

    link->due_ps = EMU_NEVER;
    switch (link->state) {
    case MANAGER_BACKOFF:
        link_go_on(m, link, MANAGER_BEGINS, due_ps);
        break;
    case MANAGER_BEGINS:
        link_go_on(m, link, MANAGER_QUERIES, due_ps);
        break;
    case MANAGER_QUERIES:
        if (link_peer_is_right(m, i)) {
            link_go_on(m, link, MANAGER_TESTS, due_ps);
            break;
        }
        link->state = MANAGER_SWAPPED;
        manager_notify(m, (struct manager_event){.what = MANAGER_EVENT_SWAPPED,
                                                 .cable = i,
                                                 .peer = link->peer});
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

/* Let other hosts test all due links in one call, because each call waits for all hosts. */
static int tests_query_remote(struct manager *m)
{
    m->tests = 0;
    for (uint32_t i = 0; m->test && i < fabric_cable_count(m->fabric); i++)
        if (m->link[i].due_ps <= m->now_ps && m->link[i].state == MANAGER_TESTS)
            m->test[m->tests++].cable = i;
    return fabric_test_remote(m->fabric, m->test, m->tests, m->config.test_packets);
}

void manager_links_step(struct manager *m)
{
    bool remote = fabric_has_remote(m->fabric), held = false;

    if (tests_query_remote(m)) {
        m->links_ps = m->now_ps + m->config.again_ps; /* out of memory: retry later */
        return;
    }
    m->links_ps = EMU_NEVER;
    for (uint32_t i = 0; i < fabric_cable_count(m->fabric); i++) {
        struct link *link = &m->link[i];

        for (uint32_t steps = 0; link->due_ps <= m->now_ps; steps++) {
            bool tests = link->state == MANAGER_TESTS;

            if (remote && tests && steps) /* other hosts were not asked to test the link */
                break;
            if (!remote && tests && !held)
                fabric_pause(m->fabric); /* only once for all links that come up now */
            held |= !remote && tests;
            manager_link_step(m, i);
        }
        if (link->due_ps < m->links_ps)
            m->links_ps = link->due_ps;
    }
    if (held)
        fabric_resume(m->fabric);
}
