/* SPDX-License-Identifier: BSD-3-Clause */
/* world.c - see world.h: what may fail a test. */
#include "tests/world/world.h"

#include <string.h>

#include "tests/test.h"

void *world_zeros(size_t bytes)
{
    size_t whole = (bytes + EMU_LINE - 1) / EMU_LINE * EMU_LINE;
    void *at = aligned_alloc(EMU_LINE, whole);

    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    memset(at, 0, whole);
    return at;
}

void world_profile(struct emu_profile *profile, const char *name, const char *set)
{
    char text[256], error[512], *save = NULL;

    CU_ASSERT_EQUAL_FATAL(emu_profile_load(profile, name, error, sizeof error), 0);
    snprintf(text, sizeof text, "%s", set ? set : "");
    for (char *at = strtok_r(text, " ", &save); at; at = strtok_r(NULL, " ", &save))
        CU_ASSERT_EQUAL_FATAL(emu_profile_set(profile, at, error, sizeof error), 0);
}

struct topo_graph *world_graph(const char *spec, uint32_t most)
{
    struct topo_graph *graph;
    char error[256];

    CU_ASSERT_EQUAL_FATAL(topo_parse(&graph, spec, error, sizeof error), 0);
    CU_ASSERT_TRUE_FATAL(graph->nodes <= most);
    return graph;
}
