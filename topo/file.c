/* SPDX-License-Identifier: BSD-3-Clause */
/* file.c - read a topology file, and build and check its network. */
#include "topo/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/util/slurp.h"

/* Return the last @most bytes of a file name: they say more than the first. */
static const char *name_tail(const char *name, size_t most)
{
    size_t length = strlen(name);

    return length > most ? name + length - most : name;
}

/* Check that each cable joins switches of different levels, as given in the file. */
static int check_given(const struct file *file, const struct topo_graph *graph)
{
    char a[TOPO_SHOWN_BYTES], b[TOPO_SHOWN_BYTES];

    for (uint32_t s = 0; s < graph->switches; s++)
        for (uint32_t port = 0; port < graph->ports; port++) {
            const struct topo_end *end = &graph->sw[s].end[port];

            if (end->kind == TOPO_END_SWITCH && graph->sw[end->id].level == graph->sw[s].level)
                return file_fail(file, 0,
                                 "%s and %s have the same level=%u and a cable between "
                                 "them: one must be higher",
                                 topo_show_switch(graph, s, a), topo_show_switch(graph, end->id, b),
                                 graph->sw[s].level);
        }
    return 0;
}

/* Use the file's name as the graph's SPEC, with '?' in place of control characters. */
static void graph_set_spec(struct topo_graph *graph, const char *name)
{
    snprintf(graph->spec, sizeof graph->spec, "%s", name);
    for (char *p = graph->spec; *p; p++)
        if ((unsigned char)*p < ' ')
            *p = '?';
}

/* Add levels and routes, and check the graph: files are not trusted. Frees @graph on failure. */
static int file_finish(struct topo_graph **ret, struct topo_graph *graph, const struct file *file)
{
    char why[TOPO_ERROR_BYTES];
    int err = file->levels ? check_given(file, graph) : topo_find_levels(graph);

    if (err) {
        topo_free(graph);
        return err;
    }
    err = topo_build(&graph, graph, why, sizeof why);
    if (err) {
        file_fail(file, 0, "%s", why);
        return err;
    }
    err = topo_check(graph, NULL, why, sizeof why);
    if (err) {
        file_fail(file, 0, "%s", why);
        topo_free(graph);
        return err;
    }
    *ret = graph;
    return 0;
}

int topo_read(struct topo_graph **ret, const char *name, const char *text, size_t bytes,
              char *error, size_t error_bytes)
{
    struct file file = {.name = name_tail(name, 100), .error = error, .error_bytes = error_bytes};
    struct topo_graph *graph = NULL;
    int err = file_scan(&file, text, bytes);

    if (!err)
        err = file_graph(&graph, &file);
    if (!err) {
        graph_set_spec(graph, name_tail(name, sizeof graph->spec - 1));
        err = file_finish(ret, graph, &file);
    }
    if (err == -ENOMEM)
        file_fail(&file, 0, "not enough memory");
    free(file.device);
    free(file.bucket);
    free(file.plug);
    return err;
}

int topo_load(struct topo_graph **ret, const char *name, char *error, size_t error_bytes)
{
    struct file file = {.name = name_tail(name, 100), .error = error, .error_bytes = error_bytes};
    size_t bytes;
    char *text;
    int err = emu_slurp(name, FILE_BYTES_MAX, &text, &bytes);

    if (err)
        free(text);
    if (err == -EFBIG)
        return file_fail(&file, 0, "it is larger than %u MiB, so it is no topology file",
                         FILE_BYTES_MAX >> 20);
    if (err) {
        file_fail(&file, 0, "cannot read the topology: %s", emu_slurp_why(err));
        return err == -ENOMEM ? err : -EIO;
    }
    err = topo_read(ret, name, text, bytes, error, error_bytes);
    free(text);
    return err;
}
