/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * goal.c - GOAL files: the input is parsed as a file, and its dependencies are checked. A small
 * program is also played, until it is complete or stands still.
 */
#include "apps/traffic/goal/goal.h"

#include <stdlib.h>

#include "apps/traffic/run.h"
#include "tests/fuzz/fuzz.h"

#define RANKS_PLAYED 4u /* number of nodes of the network */
#define OPS_PLAYED   200u
#define BYTES_PLAYED 100000u

/* Check that indexes are in range and that dependencies stay in their rank. */
static void check_goal(const struct goal *goal)
{
    uint32_t edges = 0, ops = 0, messages = 0;

    for (uint32_t r = 0; r < goal->ranks; r++) {
        uint32_t first = goal->rank[r].first, end = first + goal->rank[r].ops;

        ops += goal->rank[r].ops;
        fuzz_must(end <= goal->ops, "a rank's operations exist");
        for (uint32_t i = first; i < end; i++) {
            const struct goal_op *op = &goal->op[i];

            fuzz_must(op->cpu < goal->rank[r].cpus, "the cpu exists");
            fuzz_must(op->kind == GOAL_CALC || op->peer < goal->ranks ||
                          (op->kind == GOAL_RECV && op->peer == GOAL_ANY),
                      "the peer exists");
            if (op->kind == GOAL_COLL)
                fuzz_must(op->member < goal->members && op->coll < goal->colls &&
                              goal->member[op->member].rank == r &&
                              goal->member[op->member].group < goal->groups,
                          "the rank is in the group");
            if (op->kind == GOAL_SEND) {
                messages++;
                fuzz_must(goal->message[op->message].op == i, "the message is that of the send");
                fuzz_must(goal->message[op->message].pair < goal->pairs, "the pair exists");
            }
            for (uint32_t e = goal->edge_first[i]; e < goal->edge_first[i + 1]; e++, edges++)
                fuzz_must(goal->edge[e] / 2 >= first && goal->edge[e] / 2 < end &&
                              goal->waits[goal->edge[e] / 2],
                          "dependencies connect operations of one rank");
        }
    }
    fuzz_must(edges == goal->edges && ops == goal->ops && messages == goal->messages,
              "nothing is lost");
}

static bool is_small(const struct goal *goal)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < goal->ops && bytes <= BYTES_PLAYED; i++)
        bytes += goal->op[i].kind == GOAL_SEND || goal->op[i].kind == GOAL_COLL ? goal->op[i].amount
                                                                                : 0;
    return goal->ranks <= RANKS_PLAYED && goal->ops <= OPS_PLAYED && bytes <= BYTES_PLAYED;
}

static void play(const struct goal *goal)
{
    struct traffic_config config = {.goal = goal, .fabric = {.threads = 1, .seed = 1}};
    struct traffic_result result;
    struct topo_graph *graph;
    char error[1024] = "";

    fuzz_must(topo_parse(&graph, "kary:4,1", error, sizeof error) == 0, error);
    fuzz_must(emu_profile_load(&config.fabric.profile, "oq2004", error, sizeof error) == 0, error);
    config.fabric.graph = graph;
    if (traffic_run(&result, &config, error, sizeof error))
        fuzz_print_why(error);
    else
        traffic_result_release(&result);
    topo_free(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct goal *goal = NULL;
    char error[512] = "";

    if (goal_parse(&goal, "file", (const char *)data, bytes, error, sizeof error)) {
        fuzz_print_why(error);
        return 0;
    }
    check_goal(goal);
    if (is_small(goal))
        play(goal);
    goal_free(goal);
    return 0;
}
