/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reroute_test.c - links between switches with crosspoints come and go under traffic that nobody
 * sends again: the manager's tables, trees and carrying bring all of it to where it is to go, once.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "apps/fabric/internal.h"
#include "apps/manager/manager.h"
#include "tests/test.h"
#include "tests/world/edges.h"
#include "tests/world/switch/trial.h"

#define FOREVER_PS (UINT64_C(1) << 42)

/* What the manager has said. */
struct heard {
    uint32_t lost, ups, tables, treeless;
    uint64_t parted;
};

static void hear(void *ctx, const struct manager_event *event)
{
    struct heard *heard = ctx;

    heard->lost += event->what == MANAGER_SAYS_LOST;
    heard->ups += event->what == MANAGER_SAYS_UP;
    heard->tables += event->what == MANAGER_SAYS_TABLES;
    heard->treeless += event->what == MANAGER_SAYS_TREELESS;
    if (event->what == MANAGER_SAYS_TABLES)
        heard->parted = event->parted;
}

static struct manager *manager_for(struct fabric *fabric, struct heard *heard)
{
    struct manager_config config = manager_defaults();
    struct manager *manager;

    config.step_ps = 1000000;
    config.reaction_ps = 3000000;
    config.carry_ps = 1000000;
    config.carry_last_ps = 8000000;
    config.event = hear;
    config.ctx = heard;
    CU_ASSERT_EQUAL_FATAL(manager_create(&manager, fabric, &config), 0);
    return manager;
}

/* --- simulated time ----------------------------------------------------------------- */

/* To @until_ps, or until nothing is left to happen; the manager is stepped when it is due. */
static void advance(struct sim *w, struct manager *manager, uint64_t until_ps, bool drains)
{
    uint64_t carried = manager_carried(manager);
    uint32_t idle = 0;

    while (w->now_ps < until_ps) {
        uint64_t due_ps = manager_due_ps(manager);
        bool still = carried == manager_carried(manager) && fabric_idle(w->fabric) &&
                     !manager_is_busy(manager);

        idle = still ? idle + 1 : 0;
        carried = manager_carried(manager);
        if (drains && still && (idle == 4 || due_ps == EMU_NEVER))
            return; /* nothing is left to carry either */
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

/* A trial of a network with several ways, on cables with retry. */
static struct trial draw(uint64_t *seed, enum emu_buffers buffers)
{
    static const char *const specs[] = {"kary:2,3", "kary:4,2", "kary:3,2", "kary:2,2"};
    struct trial t = trial_draw(test_random(seed), buffers);

    t.spec = specs[test_draw(seed, 0, 3)];
    t.profile.link_retry = EMU_LINK_RETRY_GO_BACK_N;
    return t;
}

/* Cables come and go for a while; in the end all are back if @heals, else some stay away. */
static uint64_t weather(struct trial t, struct heard *heard, uint64_t *carried, uint32_t workers,
                        uint64_t cut_ps, bool heals)
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
        trial_say(&t);
        CU_FAIL_FATAL("not everything has arrived");
    }
    digest = sim_digest(&w);
    *carried = manager_carried(manager);
    manager_destroy(manager);
    sim_close(&w);
    return digest;
}

/* Links flap, and one of them stays away: all arrives once, whatever was where when it went. */
static void links__flap_and_nothing_is_lost(void)
{
    uint64_t seed = test_seed(), carried, all = 0;
    uint32_t tables = 0;

    for (uint32_t i = 0; i < 40; i++) {
        struct trial t = draw(&seed, (enum emu_buffers)(i % 2));
        struct heard heard;

        weather(t, &heard, &carried, 1 + i % 2, 0, i % 4 < 2);
        all += carried;
        tables += heard.tables;
    }
    if (getenv("SAY"))
        printf("carried %llu tables %u ", (unsigned long long)all, tables);
    CU_ASSERT(all > 0);
    CU_ASSERT(tables > 40);
}

/* A run is a function of its seed: not of workers, nor of how time is cut. */
static void links__flap_the_same_on_any_number_of_workers(void)
{
    uint64_t seed = test_seed(), carried[3];

    for (uint32_t i = 0; i < 8; i++) {
        struct trial t = draw(&seed, (enum emu_buffers)(i % 2));
        struct heard heard;
        uint64_t once = weather(t, &heard, &carried[0], 1, 0, i % 2);

        CU_ASSERT_EQUAL(weather(t, &heard, &carried[1], 2, 0, i % 2), once);
        CU_ASSERT_EQUAL(weather(t, &heard, &carried[2], 2, 300000, i % 2), once);
        CU_ASSERT(carried[0] == carried[1] && carried[0] == carried[2]);
    }
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(links__flap_and_nothing_is_lost),
        CASE(links__flap_the_same_on_any_number_of_workers),
        {NULL, NULL},
    };

    return test_run("reroute", cases);
}
