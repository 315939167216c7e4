/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group_gone_test.c - the manager takes a group out at any time: also between two looks of an
 * engine's at its table, of which there are several in one pass.
 *
 * A race that threads meet once in ten thousand runs is had here each time: engine_group_of() is
 * wrapped by the linker, and before one of its calls the group that it is asked for leaves that
 * engine's table. All calls of a small fixture are drawn from but those of group.c itself.
 */
#include "nic/engine/internal.h"
#include "tests/test.h"
#include "tests/fixtures/engine/trees.h"

static uint64_t looks;   /* so far */
static uint64_t goes_at; /* before which of them the group goes; 0: before none */
static uint32_t gone;    /* the group that went */

struct engine_group *__real_engine_group_of(const struct engine *e, uint32_t id);
struct engine_group *__wrap_engine_group_of(const struct engine *e, uint32_t id);

struct engine_group *__wrap_engine_group_of(const struct engine *e, uint32_t id)
{
    struct engine_group *group = __real_engine_group_of(e, id);

    if (++looks != goes_at || !group)
        return group;
    engine_groups_clear((struct engine *)e, id); /* as the manager does first; it frees later */
    gone = id;
    return __real_engine_group_of(e, id);
}

/* The groups that are whole are through; false: not in so long. */
static bool others_through(const struct trees *w)
{
    for (uint32_t s = 0; s < w->streams; s++)
        if (w->stream[s]->id != gone && atomic_load(&w->stream[s]->left))
            return false;
    return !atomic_load(&w->noise_left);
}

/* A little later: the rest of the group's end follows when no pass is under way. */
static void run_some(struct trees *w)
{
    uint32_t was = gone;

    if (w->set.clock == EMU_CLOCK_VIRTUAL)
        trees_advance(w, w->now_ps + 1000000);
    else
        for (uint32_t pass = 0; pass < 16; pass++)
            fixture_fabric_pass(w->fabric);
    if (gone != was)
        fixture_group_end(w->fabric, gone);
}

/* A packet that was on its way to the group has its channel until its time-out, on raw, too. */
static bool run_others(struct trees *w)
{
    for (uint32_t i = 0; i < 5000000 && !others_through(w); i++)
        run_some(w);
    return others_through(w);
}

/* The whole of it, where at look number @at a group goes. Returns how many looks there were. */
static uint64_t run_and_go(const struct trees_config *set, uint64_t at)
{
    struct trees w;

    trees_open(&w, set);
    for (uint32_t i = 0; i < TREES_JUNK; i++)
        w.junk_id[i] = trees_group_of_all(&w);
    looks = 0;
    gone = 0;
    goes_at = at;
    CU_ASSERT_TRUE(run_others(&w));
    goes_at = 0;
    while (w.streams)
        trees_stream_end(&w, 0);
    for (uint32_t i = 0; i < TREES_JUNK; i++)
        fixture_group_end(w.fabric, w.junk_id[i]);
    if (set->clock == EMU_CLOCK_RAW)
        CU_ASSERT_TRUE(trees_step(&w, 100000000));
    CU_ASSERT_TRUE(trees_clean(&w));
    trees_close(&w);
    return looks;
}

static void goes_before_any_look(enum emu_clock_mode clock)
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
        uint64_t random = test_seed() + s, all = run_and_go(&set, 0);
        uint32_t went = 0, trials = TEST_TRIALS(100);

        CU_ASSERT_TRUE(all > 100);
        for (uint32_t i = 0; i < trials; i++) {
            run_and_go(&set, 1 + test_random(&random) % all);
            went += gone != 0;
        }
        CU_ASSERT_TRUE(went > trials / 4);
    }
}

static void raw__group_goes_before_any_look(void)
{
    goes_before_any_look(EMU_CLOCK_RAW);
}

static void virtual__group_goes_before_any_look(void)
{
    goes_before_any_look(EMU_CLOCK_VIRTUAL);
}

int main(void)
{
    static const struct test_case cases[] = {
        {"raw__group_goes_before_any_look", raw__group_goes_before_any_look},
        {"virtual__group_goes_before_any_look", virtual__group_goes_before_any_look},
        {NULL, NULL},
    };

    return test_run("group_gone", cases);
}
