/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replan_test.c - groups whose trees lose a link, with members that have contributed and left.
 * Their contributions still reach the other members.
 *
 * Workers do not run: the test steps them, and triggers new tables where a manager would.
 */
#include <errno.h>

#include "apps/fabric/internal.h"
#include "apps/fabric/links.h"
#include "tests/test.h"
#include "tests/fixtures/hostifs.h"

#define LEAVER     0u
#define PASSES_MAX 4000000u /* empty passes before a case fails */

struct fixture {
    struct hostifs w;
    bool routed[64];
    uint32_t group, seq;
};

static const uint32_t members[] = {LEAVER, 1, 3};

static void fixture_open(struct fixture *r, const char *profile, const char *set)
{
    struct fabric_config config = {.threads = 1, .seed = 1, .start_stopped = true};

    *r = (struct fixture){.seq = 0};
    fixture_profile(&config.profile, profile, set);
    hostifs_open(&r->w, "kary:2,2", &config);
    CU_ASSERT_FATAL(fabric_cable_count(r->w.fabric) <= sizeof r->routed / sizeof r->routed[0]);
    for (uint32_t i = 0; i < fabric_cable_count(r->w.fabric); i++)
        r->routed[i] = true;
    r->group = fixture_group(r->w.fabric, members, 3);
}

static void fixture_close(struct fixture *r)
{
    fixture_group_end(r->w.fabric, r->group);
    CU_ASSERT_TRUE(fixture_fabric_holds(r->w.fabric, 0));
    hostifs_close(&r->w);
}

static void treeless(void *ctx, uint32_t group)
{
    (void)ctx;
    (void)group;
    CU_FAIL("there is a tree");
}

/* The cable loses or regains its signal; then tables and trees are recomputed. */
static void set_signal(struct fixture *r, uint32_t cable, bool on)
{
    uint32_t hit;

    CU_ASSERT_EQUAL(fabric_link_set(r->w.fabric, cable, on, 0, fabric_now_ps(r->w.fabric), &hit),
                    0);
    r->routed[cable] = on;
}

static void reroute(struct fixture *r)
{
    uint64_t unreachable;

    CU_ASSERT_EQUAL(fabric_reroute(r->w.fabric, r->routed, fabric_now_ps(r->w.fabric), &unreachable,
                                   treeless, NULL),
                    0);
}

/* A broadcast by the member that leaves at once, which is allowed. */
static void post_and_leave(struct fixture *r)
{
    const struct emu_hdr hdr = {
        .dst = r->group, .src = LEAVER, .seq = r->seq, .kind = EMU_MULTICAST, .len = sizeof r->seq};

    CU_ASSERT_TRUE(hostifs_post(&r->w, LEAVER, &hdr, &r->seq));
    CU_ASSERT_EQUAL(fabric_group_leave(r->w.fabric, r->group, LEAVER), 0);
}

static bool is_taken(struct fixture *r, uint32_t node)
{
    struct emu_seg seg;

    for (uint32_t looks = 0; looks < PASSES_MAX; looks++) {
        fixture_fabric_pass(r->w.fabric);
        if (hostifs_take(&r->w, node, &seg))
            return seg.hdr.dst == r->group && seg.hdr.kind == EMU_MULTICAST;
        hostifs_pause(looks);
    }
    return false;
}

static void others_get_it(struct fixture *r)
{
    CU_ASSERT_TRUE(is_taken(r, 1));
    CU_ASSERT_TRUE(is_taken(r, 3));
}

/* A cable between switches in the group's tree. */
static uint32_t tree_cable(const struct fixture *r)
{
    const struct topo_tree *tree = &fabric_group_at(r->w.fabric, r->group)->tree;

    return fabric_cable_at(r->w.fabric, tree->switches[1].sw, (uint32_t)tree->switches[1].up);
}

/* The tree is rebuilt while the contribution is still in its adapter. */
static void leaver__is_in_the_rebuilt_tree(void)
{
    static const char *const profiles[][2] = {{"qsnet3", ""}, {"oq2004", "link_retry=go_back_n"}};

    for (size_t i = 0; i < sizeof profiles / sizeof profiles[0]; i++) {
        struct fixture r;
        uint32_t cable;

        fixture_open(&r, profiles[i][0], profiles[i][1]);
        cable = tree_cable(&r);
        post_and_leave(&r);
        set_signal(&r, cable, false);
        reroute(&r);
        CU_ASSERT_EQUAL(fabric_replanned(r.w.fabric), 1);
        CU_ASSERT_NOT_EQUAL(tree_cable(&r), cable);
        others_get_it(&r);
        set_signal(&r, cable, true);
        reroute(&r);
        CU_ASSERT_EQUAL(fabric_replanned(r.w.fabric), 1);
        fixture_close(&r);
    }
}

/*
 * The leaver's node has no link for a while. The others get a tree without it, and later one with
 * it again: switches accept nothing from an adapter outside of the tree.
 */
static void leaver__reconnected_is_in_the_tree_again(void)
{
    struct fixture r;
    uint32_t cable;

    fixture_open(&r, "qsnet3", "");
    cable = fabric_cable_of(r.w.fabric, LEAVER, 0);
    set_signal(&r, cable, false);
    post_and_leave(&r);
    reroute(&r);
    CU_ASSERT_EQUAL(fabric_replanned(r.w.fabric), 1);
    for (uint32_t i = 0; i < 100; i++)
        fixture_fabric_pass(r.w.fabric);
    set_signal(&r, cable, true);
    for (uint32_t i = 0; i < 100; i++) /* refused until the new tables are in force */
        fixture_fabric_pass(r.w.fabric);
    reroute(&r);
    CU_ASSERT_EQUAL(fabric_replanned(r.w.fabric), 2);
    others_get_it(&r);
    fixture_close(&r);
}

/*
 * The leaver's own switch, which no other member needs, stops combining: the group continues
 * without it, unless a contribution is still due there.
 */
static void leaver__does_not_block_others_at_its_switch(void)
{
    for (int posted = 0; posted < 2; posted++) {
        struct fixture r;
        uint32_t sw;

        fixture_open(&r, "oq2004", "");
        sw = topo_first_link(r.w.graph, 3)->sw;
        CU_ASSERT_NOT_EQUAL(topo_first_link(r.w.graph, 1)->sw, sw);
        if (posted) {
            const struct emu_hdr hdr = {.dst = 1, .src = 3, .kind = EMU_UNICAST, .len = sizeof sw};

            CU_ASSERT_TRUE(hostifs_post(&r.w, 3, &hdr, &sw));
        }
        CU_ASSERT_EQUAL(fabric_group_leave(r.w.fabric, r.group, 3), 0);
        CU_ASSERT_EQUAL(fabric_group_leave(r.w.fabric, r.group, 3), -ENOENT);
        CU_ASSERT_EQUAL(fabric_group_leave(r.w.fabric, r.group, 3 | FABRIC_LEFT), -ENOENT);
        CU_ASSERT_EQUAL(switch_combine_stall(r.w.fabric->sw[sw], true, 0), 0);
        fabric_combine_out(r.w.fabric, sw, true, fabric_now_ps(r.w.fabric));
        CU_ASSERT_EQUAL(fabric_group_avoid_unit(r.w.fabric, fabric_group_at(r.w.fabric, r.group),
                                                fabric_now_ps(r.w.fabric)),
                        !posted);
        CU_ASSERT_EQUAL(fabric_group_at(r.w.fabric, r.group)->tree.count, posted ? 3 : 1);
        while (posted && !hostifs_take(&r.w, 1, &(struct emu_seg){0}))
            fixture_fabric_pass(r.w.fabric);
        fixture_close(&r);
    }
}

/* --- several trees -------------------------------------------------------------------- */

/* A packet that meets a lost link gets a NACK, and goes by another tree before the manager acts. */
static void trees__carry_on_without_the_manager(void)
{
    struct fixture r;
    const struct fabric_group *extra;
    struct emu_hdr hdr = {.src = LEAVER, .kind = EMU_MULTICAST, .len = sizeof r.seq};

    fixture_open(&r, "qsnet3", "broadcast_trees=4");
    extra = fabric_group_tree(r.w.fabric, fabric_group_at(r.w.fabric, r.group), 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(extra);
    CU_ASSERT_PTR_NULL(fabric_group_tree(r.w.fabric, extra, 1)); /* there are two top switches */
    CU_ASSERT_EQUAL(fabric_group_leave(r.w.fabric, extra->id, 1), -ENOENT);
    set_signal(&r, tree_cable(&r), false);
    hdr.dst = r.group;
    for (uint32_t i = 0; i < 10; i++) {
        CU_ASSERT_TRUE(hostifs_post(&r.w, LEAVER, &hdr, &r.seq));
        others_get_it(&r);
    }
    reroute(&r);
    CU_ASSERT_EQUAL(fabric_replanned(r.w.fabric), 1);
    for (uint32_t i = 0; i < 10; i++) {
        CU_ASSERT_TRUE(hostifs_post(&r.w, LEAVER, &hdr, &r.seq));
        others_get_it(&r);
    }
    fixture_close(&r);
}

/* A member that has left is in all trees that are planned later. */
static void trees__include_leavers(void)
{
    struct fixture r;
    const struct fabric_group *extra;

    fixture_open(&r, "qsnet3", "broadcast_trees=2");
    extra = fabric_group_at(r.w.fabric, r.group + 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(extra);
    post_and_leave(&r);
    set_signal(&r,
               fabric_cable_at(r.w.fabric, extra->tree.switches[1].sw,
                               (uint32_t)extra->tree.switches[1].up),
               false);
    reroute(&r);
    CU_ASSERT_EQUAL(fabric_replanned(r.w.fabric), 1);
    CU_ASSERT_EQUAL(topo_tree_link(&extra->tree, r.w.graph, LEAVER), 0);
    others_get_it(&r);
    fixture_close(&r);
}

static const struct test_case cases[] = {
    CASE(leaver__is_in_the_rebuilt_tree),
    CASE(leaver__reconnected_is_in_the_tree_again),
    CASE(leaver__does_not_block_others_at_its_switch),
    CASE(trees__carry_on_without_the_manager),
    CASE(trees__include_leavers),
    {0},
};

int main(void)
{
    return test_run("replan", cases);
}
