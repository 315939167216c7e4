/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pattern.c - patterns of synthetic traffic: the input's first byte is the number of nodes; the
 * rest is parsed as a pattern's file, as --pattern, and as --sources.
 */
#include "apps/traffic/workload/pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/traffic/workload/sets.h"
#include "tests/fuzz/fuzz.h"

#define NODES_LEAST 2u

/* Check that destinations are other nodes and, in a file, that no two nodes share one. */
static void check_pattern(const struct traffic_pattern *pattern, bool from_file)
{
    bool taken[NODES_LEAST + 255] = {false};

    fuzz_must(pattern->kind != TRAFFIC_HOTSPOT || pattern->hot < pattern->nodes,
              "the hot node exists");
    for (uint32_t n = 0; pattern->to && n < pattern->nodes; n++) {
        uint32_t to = pattern->to[n];
        if (to == TRAFFIC_NOBODY)
            continue;
        fuzz_must(to < pattern->nodes && to != n, "a destination is another node");
        fuzz_must(!from_file || !taken[to], "a destination has one source");
        taken[to] = true;
    }
}

static void parse(const char *text, uint32_t nodes, bool from_file)
{
    const struct topo_graph graph = {.spec = "net", .nodes = nodes};
    struct traffic_pattern pattern, drawn;
    char error[512] = "";

    if (traffic_pattern_parse(&pattern, text, &graph, error, sizeof error)) {
        fuzz_print_why(error);
        return;
    }
    check_pattern(&pattern, from_file);
    if (pattern.kind == TRAFFIC_PERMUTATION) {
        fuzz_must(traffic_pattern_draw(&drawn, &pattern, 1) == 0, "a permutation can be drawn");
        check_pattern(&drawn, true);
        traffic_pattern_release(&drawn);
    }
    traffic_pattern_release(&pattern);
}

static void parse_file(const uint8_t *data, size_t bytes, uint32_t nodes)
{
    char path[FUZZ_PATH_BYTES], text[FUZZ_PATH_BYTES + 8];
    int fd = fuzz_file(data, bytes, path);

    snprintf(text, sizeof text, "file:%s", path);
    parse(text, nodes, true);
    close(fd);
}

/* Choose sources. As in options.c, there are no more sources than nodes. */
static void choose_sources(const char *text, uint32_t nodes)
{
    struct traffic_sources sources;
    bool sends[NODES_LEAST + 255];
    uint32_t count = 0;

    if (!traffic_sources_parse(&sources, text) || sources.count > nodes)
        return;
    traffic_sources_choose(&sources, 1, nodes, sends);
    for (uint32_t n = 0; n < nodes; n++)
        count += sends[n];
    fuzz_must(count == sources.count, "the requested number of sources is chosen");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fuzz_input in = {.at = data, .left = bytes};
    uint32_t nodes = NODES_LEAST + fuzz_u8(&in);
    char *text = fuzz_text(in.at, in.left);

    parse_file(in.at, in.left, nodes);
    if (strncmp(text, "file:", 5) != 0) /* do not read files of this machine */
        parse(text, nodes, false);
    choose_sources(text, nodes);
    free(text);
    return 0;
}
