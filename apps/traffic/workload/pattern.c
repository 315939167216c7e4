/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pattern.c - parses --pattern into a table of destinations, or into a rule that chooses them.
 * Source: output-queued routers §4 (uniform, transpose, bit reversal, complement);
 * the others are common in studies of interconnects.
 */
#include "apps/traffic/workload/pattern.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/base/quantity.h"
#include "emu/util/nearest.h"
#include "emu/util/slurp.h"

#define HOT_SHARE_DEFAULT (QUANTITY_SHARE_ONE / 10)
#define LINE_BYTES        4096 /* buffer for a line of a file */
#define FILE_BYTES_MAX    (128u << 20)

/* Return the fixed destination of @node. @bits: number of address bits. */
typedef uint32_t to_fn(uint32_t node, uint32_t nodes, unsigned bits);

static uint32_t to_transpose(uint32_t node, uint32_t nodes, unsigned bits)
{
    return (node << bits / 2 | node >> bits / 2) & (nodes - 1);
}

static uint32_t to_reversal(uint32_t node, uint32_t nodes, unsigned bits)
{
    uint32_t to = 0;

    (void)nodes;
    for (unsigned i = 0; i < bits; i++)
        to |= (node >> i & 1) << (bits - 1 - i);
    return to;
}

static uint32_t to_complement(uint32_t node, uint32_t nodes, unsigned bits)
{
    (void)bits;
    return nodes - 1 - node;
}

/* If the nodes form a ring, each node sends almost half of the way around it. */
static uint32_t to_tornado(uint32_t node, uint32_t nodes, unsigned bits)
{
    (void)bits;
    return (uint32_t)((node + (uint64_t)(nodes + 1) / 2 - 1) % nodes);
}

static uint32_t to_neighbour(uint32_t node, uint32_t nodes, unsigned bits)
{
    (void)bits;
    return node + 1 == nodes ? 0 : node + 1;
}

enum needs { ANY, POWER_OF_2, POWER_OF_4 };

static const struct {
    const char *name;
    enum traffic_kind kind;
    enum needs needs;
    to_fn *to;
    enum traffic_collective collective;
    bool md;
} patterns[] = {
    {.name = "uniform", .kind = TRAFFIC_UNIFORM},
    {.name = "transpose", .kind = TRAFFIC_FIXED, .needs = POWER_OF_4, .to = to_transpose},
    {.name = "reversal", .kind = TRAFFIC_FIXED, .needs = POWER_OF_2, .to = to_reversal},
    {.name = "complement", .kind = TRAFFIC_FIXED, .to = to_complement},
    {.name = "tornado", .kind = TRAFFIC_FIXED, .to = to_tornado},
    {.name = "neighbour", .kind = TRAFFIC_FIXED, .to = to_neighbour},
    {.name = "permutation", .kind = TRAFFIC_PERMUTATION},
    {.name = "alltoall", .kind = TRAFFIC_ALLTOALL},
    {.name = "hotspot", .kind = TRAFFIC_HOTSPOT},
    {.name = "multicast", .kind = TRAFFIC_MULTICAST},
    {.name = "md", .kind = TRAFFIC_MULTICAST, .md = true},
    {.name = "reduce", .kind = TRAFFIC_COLLECTIVE, .collective = TRAFFIC_REDUCE},
    {.name = "barrier", .kind = TRAFFIC_COLLECTIVE, .collective = TRAFFIC_BARRIER},
    {.name = "allreduce", .kind = TRAFFIC_COLLECTIVE, .collective = TRAFFIC_ALLREDUCE},
};

#define PATTERNS (sizeof patterns / sizeof patterns[0])

/* --- fixed -------------------------------------------------------------------------- */

static int table_new(struct traffic_pattern *pattern, char *error, size_t error_bytes)
{
    pattern->to = malloc(pattern->nodes * sizeof pattern->to[0]);
    if (!pattern->to) {
        snprintf(error, error_bytes, "out of memory");
        return -ENOMEM;
    }
    for (uint32_t n = 0; n < pattern->nodes; n++)
        pattern->to[n] = TRAFFIC_NOBODY;
    return 0;
}

static int fixed(struct traffic_pattern *pattern, size_t which, char *error, size_t error_bytes)
{
    uint32_t nodes = pattern->nodes;
    unsigned bits = 31u - (unsigned)__builtin_clz(nodes);
    bool power_of_2 = (nodes & (nodes - 1)) == 0;

    if (patterns[which].needs == POWER_OF_2 && !power_of_2) {
        snprintf(error, error_bytes,
                 "%s needs a number of nodes that is a power of two (16, 32, 64, …), not %u",
                 patterns[which].name, nodes);
        return -EINVAL;
    }
    if (patterns[which].needs == POWER_OF_4 && (!power_of_2 || bits % 2)) {
        snprintf(error, error_bytes,
                 "%s swaps the halves of the address bits, so it needs a number of nodes that is a "
                 "power of four (16, 64, 256, …), not %u",
                 patterns[which].name, nodes);
        return -EINVAL;
    }
    int err = table_new(pattern, error, error_bytes);
    for (uint32_t n = 0; !err && n < nodes; n++) {
        uint32_t to = patterns[which].to(n, nodes, bits);
        pattern->to[n] = to == n ? TRAFFIC_NOBODY : to;
    }
    return err;
}

/* --- permutation -------------------------------------------------------------------- */

/* Parse the optional ":NUMBER" of a permutation. */
static int permutation(struct traffic_pattern *pattern, const char *text, char *error,
                       size_t error_bytes)
{
    unsigned long number = 1;
    char *end = (char *)text;

    if (*text == ':' && text[1] >= '0' && text[1] <= '9')
        number = strtoul(text + 1, &end, 10);
    if (*end || number < 1 || number > UINT32_MAX) {
        snprintf(error, error_bytes,
                 "'permutation%.60s': it must be permutation:NUMBER; the NUMBER, 1 or more, "
                 "selects one of the seed's permutations",
                 text);
        return -EINVAL;
    }
    pattern->number = (uint32_t)number;
    return 0;
}

static bool sends_to_itself(const uint32_t *to, uint32_t nodes)
{
    uint32_t n = 0;

    while (n < nodes && to[n] != n)
        n++;
    return n < nodes;
}

int traffic_pattern_draw(struct traffic_pattern *ret, const struct traffic_pattern *pattern,
                         uint64_t seed)
{
    uint32_t *to = malloc(pattern->nodes * sizeof to[0]);
    struct traffic_random random;

    if (!to)
        return -ENOMEM;
    for (uint32_t n = 0; n < pattern->nodes; n++)
        to[n] = n;
    traffic_random_init(&random, seed, pattern->number, TRAFFIC_STREAM_PERMUTATION);
    do /* about 1 permutation in 2.7 (of 2 nodes: 1 in 2) has no node that sends to itself */
        traffic_shuffle(&random, to, pattern->nodes);
    while (sends_to_itself(to, pattern->nodes));
    *ret = *pattern;
    ret->kind = TRAFFIC_FIXED;
    ret->to = to;
    return 0;
}

/* --- hotspot ------------------------------------------------------------------------ */

/*
 * Parse "NODE:FRACTION" or "NODE". A node's name may contain colons. So if the whole text is the
 * name of a node, there is no fraction; otherwise the fraction follows the last colon.
 */
static int hotspot(struct traffic_pattern *pattern, const struct topo_graph *graph,
                   const char *text, char *error, size_t error_bytes)
{
    static const struct quantity_form form = {.units = quantity_shares,
                                              .bare = QUANTITY_SHARE_ONE,
                                              .most = QUANTITY_SHARE_ONE};
    size_t length = strlen(text);
    const char *colon = strrchr(text, ':'), *at = colon ? colon + 1 : NULL;
    uint64_t share = HOT_SHARE_DEFAULT;
    char node[TOPO_NAME_MAX + 1], why[TOPO_NODE_ERROR_BYTES];

    if (at && topo_find_node(graph, text, length) == TOPO_NONE)
        length = (size_t)(colon - text);
    else
        at = NULL;
    if (!length || length > TOPO_NAME_MAX ||
        (at && (quantity_scan(&at, &form, &share) != QUANTITY_OK || *at))) {
        snprintf(error, error_bytes,
                 "'hotspot:%.60s': it must be hotspot:NODE:FRACTION with a fraction from 0 to 1, "
                 "for example hotspot:0:0.1 or hotspot:0:10%%",
                 text);
        return -EINVAL;
    }
    snprintf(node, sizeof node, "%.*s", (int)length, text);
    int err = topo_parse_node(&pattern->hot, graph, node, why, sizeof why);
    if (err) {
        snprintf(error, error_bytes, "hotspot: %s", why);
        return err;
    }
    pattern->share = share == QUANTITY_SHARE_ONE ? UINT32_MAX
                                                 : (uint32_t)((share << 32) / QUANTITY_SHARE_ONE);
    return 0;
}

/* --- file --------------------------------------------------------------------------- */

struct table_file {
    const struct topo_graph *graph;
    const char *path;
    unsigned line;
    uint32_t rows;    /* number of lines with destinations so far */
    unsigned numbers; /* numbers per line: 1 (destination) or 2 (source, destination) */
    uint32_t *owner;  /* by destination: the line of the file in which it is; 0: none */
    char *error;
    size_t error_bytes;
};

static int file_wrong(const struct table_file *file, const char *what)
{
    snprintf(file->error, file->error_bytes, "%s, line %u: %s", file->path, file->line, what);
    return -EINVAL;
}

static int file_pair(struct traffic_pattern *pattern, struct table_file *file, uint32_t src,
                     uint32_t dst)
{
    char what[TOPO_SHOWN_BYTES + 64], shown[TOPO_SHOWN_BYTES];

    if (pattern->to[src] != TRAFFIC_NOBODY) {
        snprintf(what, sizeof what, "%s has a destination already",
                 topo_show_node(file->graph, src, shown));
        return file_wrong(file, what);
    }
    if (file->owner[dst]) {
        snprintf(what, sizeof what, "%s is the destination of line %u already",
                 topo_show_node(file->graph, dst, shown), file->owner[dst]);
        return file_wrong(file, what);
    }
    file->owner[dst] = file->line;
    pattern->to[src] = dst;
    return 0;
}

/* Parse "DST", "SRC DST" or a comment. @cut: the line is longer than the buffer. */
static int file_line(struct traffic_pattern *pattern, struct table_file *file, char *text, bool cut)
{
    char *words[2], *rest, why[TOPO_NODE_ERROR_BYTES];
    uint32_t node[2];
    unsigned count = 0;

    file->line++;
    if (cut)
        return file_wrong(file, "the line is too long");
    text[strcspn(text, "#\r\n")] = '\0';
    for (char *word = strtok_r(text, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        if (count == 2)
            return file_wrong(file,
                              "a line must have a destination, or a source and a destination");
        words[count++] = word;
    }
    if (count == 0)
        return 0;
    for (unsigned i = 0; i < count; i++)
        if (topo_parse_node(&node[i], file->graph, words[i], why, sizeof why))
            return file_wrong(file, why);
    if (file->rows && count != file->numbers)
        return file_wrong(file, "some lines have a source and others do not");
    file->numbers = count;
    uint32_t row = file->rows++;
    if (count == 2)
        return file_pair(pattern, file, node[0], node[1]);
    if (row >= pattern->nodes)
        return file_wrong(file, "the file has more destinations than the network has nodes");
    return file_pair(pattern, file, row, node[0]);
}

static int file_unreadable(const struct table_file *file, int err)
{
    snprintf(file->error, file->error_bytes, "cannot read %s: %s", file->path, emu_slurp_why(err));
    return err;
}

static int file_read(struct traffic_pattern *pattern, struct table_file *file)
{
    char line[LINE_BYTES], *text;
    size_t bytes;
    int err = emu_slurp(file->path, FILE_BYTES_MAX, &text, &bytes);
    FILE *stream = err || !bytes ? NULL : fmemopen(text, bytes, "r");

    if (err || (bytes && !stream)) {
        free(text);
        return file_unreadable(file, err ? err : -ENOMEM);
    }
    line[LINE_BYTES - 1] = 1; /* if fgets() fills the buffer, it writes 0 here */
    while (!err && stream && fgets(line, LINE_BYTES, stream)) {
        bool cut = !line[LINE_BYTES - 1] && line[LINE_BYTES - 2] != '\n';
        line[LINE_BYTES - 1] = 1;
        err = file_line(pattern, file, line, cut);
    }
    if (!err && !file->rows) {
        err = -EINVAL;
        snprintf(file->error, file->error_bytes, "%s has no destinations", file->path);
    }
    if (stream)
        fclose(stream);
    free(text);
    return err;
}

static int from_file(struct traffic_pattern *pattern, const struct topo_graph *graph,
                     const char *path, char *error, size_t error_bytes)
{
    struct table_file file = {.graph = graph,
                              .path = path,
                              .error = error,
                              .error_bytes = error_bytes};
    int err = table_new(pattern, error, error_bytes);

    if (err)
        return err;
    file.owner = calloc(pattern->nodes, sizeof file.owner[0]);
    if (!file.owner) {
        snprintf(error, error_bytes, "out of memory");
        return -ENOMEM;
    }
    err = file_read(pattern, &file);
    for (uint32_t n = 0; n < pattern->nodes; n++)
        if (pattern->to[n] == n)
            pattern->to[n] = TRAFFIC_NOBODY;
    free(file.owner);
    return err;
}

/* ---------------------------------------------------------------------------------------- */

static int unknown(const char *text, char *error, size_t error_bytes)
{
    static const char names[] =
        "uniform, transpose, reversal, complement, tornado, neighbour, permutation:NUMBER, "
        "alltoall, hotspot:NODE:FRACTION, file:PATH, multicast, md, reduce, barrier, allreduce";

    snprintf(error, error_bytes, "there is no pattern '%.60s'; the patterns are %s%s", text, names,
             nearest_in(text, names).text);
    return -EINVAL;
}

static int parse(struct traffic_pattern *pattern, const struct topo_graph *graph, const char *text,
                 char *error, size_t error_bytes)
{
    size_t which = 0;

    if (strncmp(text, "file:", 5) == 0) {
        pattern->kind = TRAFFIC_FIXED;
        return from_file(pattern, graph, text + 5, error, error_bytes);
    }
    if (strncmp(text, "hotspot:", 8) == 0) {
        pattern->kind = TRAFFIC_HOTSPOT;
        return hotspot(pattern, graph, text + 8, error, error_bytes);
    }
    if (strncmp(text, "permutation:", 12) == 0) {
        pattern->kind = TRAFFIC_PERMUTATION;
        return permutation(pattern, text + 11, error, error_bytes);
    }
    while (which < PATTERNS && strcmp(text, patterns[which].name) != 0)
        which++;
    if (which == PATTERNS)
        return unknown(text, error, error_bytes);
    pattern->kind = patterns[which].kind;
    pattern->collective = patterns[which].collective;
    pattern->md = patterns[which].md;
    if (pattern->kind == TRAFFIC_FIXED)
        return fixed(pattern, which, error, error_bytes);
    if (pattern->kind == TRAFFIC_PERMUTATION)
        return permutation(pattern, "", error, error_bytes);
    return pattern->kind == TRAFFIC_HOTSPOT ? hotspot(pattern, graph, "0", error, error_bytes) : 0;
}

int traffic_pattern_parse(struct traffic_pattern *ret, const char *text,
                          const struct topo_graph *graph, char *error, size_t error_bytes)
{
    *ret = (struct traffic_pattern){.nodes = graph->nodes};
    int err = parse(ret, graph, text, error, error_bytes);
    if (err)
        traffic_pattern_release(ret);
    return err;
}

void traffic_pattern_release(struct traffic_pattern *pattern)
{
    free(pattern->to);
    pattern->to = NULL;
}
