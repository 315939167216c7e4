/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group_gone_test.c - the manager may remove a group at any time, also between two lookups in an
 * engine's table within one pass.
 *
 * Threads hit this race once in ten thousand runs; this test hits it every time. The linker wraps
 * engine_group_of(), and before one of its calls the group leaves that engine's table. The call is
 * drawn from all calls of a small fixture, except those in group.c itself.
 */
#include "nic/engine/internal.h"
#include "tests/test.h"
#include "tests/fixtures/engine/trees.h"

static uint64_t lookups;    /* lookups so far */
static uint64_t removed_at; /* the group is removed before this lookup; 0: never */
static uint32_t removed;    /* the removed group */

struct engine_group *__real_engine_group_of(const struct engine *e, uint32_t id);
struct engine_group *__wrap_engine_group_of(const struct engine *e, uint32_t id);

struct engine_group *__wrap_engine_group_of(const struct engine *e, uint32_t id)
{
    struct engine_group *group = __real_engine_group_of(e, id);

    if (++lookups != removed_at || !group)
        return group;
    /* the manager's first step; it frees the group later */
    engine_groups_clear((struct engine *)e, id);
    removed = id;
    return __real_engine_group_of(e, id);
}

/* Wait until the other groups are done. Returns false on time-out. */
static bool others_done(const struct trees *w)
{
    for (uint32_t s = 0; s < w->streams; s++)
        if (w->stream[s]->id != removed && atomic_load(&w->stream[s]->left))
            return false;
    return !atomic_load(&w->noise_left);
}

/* Run a little longer: the rest of the removal happens when no pass is in progress. */
static void run_some(struct trees *w)
{
    uint32_t was = removed;

    if (w->set.clock == EMU_CLOCK_VIRTUAL)
        trees_advance(w, w->now_ps + 1000000);
    else
        for (uint32_t pass = 0; pass < 16; pass++)
            fixture_fabric_pass(w->fabric);
    if (removed != was)
        fixture_group_end(w->fabric, removed);
}

/* A packet on its way to the removed group keeps its channel until its time-out, on raw, too. */
static bool run_others(struct trees *w)
{
    for (uint32_t i = 0; i < 5000000 && !others_done(w); i++)
        run_some(w);
    return others_done(w);
}

/* One run in which a group is removed at lookup @at. Returns the number of lookups. */
static uint64_t run_and_remove(const struct trees_config *set, uint64_t at)
{
    struct trees w;

    trees_open(&w, set);
    for (uint32_t i = 0; i < TREES_JUNK; i++)
        w.junk_id[i] = trees_group_of_all(&w);
    lookups = 0;
    removed = 0;
    removed_at = at;
    CU_ASSERT_TRUE(run_others(&w));
    removed_at = 0;
    while (w.streams)
        trees_stream_end(&w, 0);
    for (uint32_t i = 0; i < TREES_JUNK; i++)
        fixture_group_end(w.fabric, w.junk_id[i]);
    if (set->clock == EMU_CLOCK_RAW)
        CU_ASSERT_TRUE(trees_step(&w, 100000000));
    CU_ASSERT_TRUE(trees_clean(&w));
    trees_close(&w);
    return lookups;
}

static void removed_before_any_lookup(enum emu_clock_mode clock)
{
    static const char *const sets[] = {"barrier=conditional", "barrier=tree combine_order=port",
                                       "barrier=conditional channels=2 tree_width=1",
                                       "combining=switch"};

    test_each_setting (s, 4) {
        struct trees_config set = {.clock = clock,
                                   .topo = "kary:2,2",
                                   .set = sets[s],
                                   .streams = 2,
                                   .ops = 12,
                                   .noise = 5,
                                   .junk = 30};
        uint64_t random = test_seed() + s, all = run_and_remove(&set, 0);
        uint32_t went = 0, trials = TEST_TRIALS(100);

        CU_ASSERT_TRUE(all > 100);
        for (uint32_t i = 0; i < trials; i++) {
            run_and_remove(&set, 1 + test_random(&random) % all);
            went += removed != 0;
        }
        CU_ASSERT_TRUE(went > trials / 4);
    }
}

static void raw__group_removed_before_any_lookup(void)
{
    removed_before_any_lookup(EMU_CLOCK_RAW);
}

static void virtual__group_removed_before_any_lookup(void)
{
    removed_before_any_lookup(EMU_CLOCK_VIRTUAL);
}

int main(void)
{
    static const struct test_case cases[] = {
        {"raw__group_removed_before_any_lookup", raw__group_removed_before_any_lookup},
        {"virtual__group_removed_before_any_lookup", virtual__group_removed_before_any_lookup},
        {NULL, NULL},
    };

    return test_run("group_gone", cases);
}
