/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clos.c - folded Clos networks, given by their parameters.
 *
 * A switch of level l has down[l] ports down and up[l] ports up. cables[l] parallel cables join it
 * to each of its children at level l - 1 (one cable to each node at level 0). So it has down[l] /
 * cables[l] children and up[l] / cables[l + 1] parents. The number of a switch in its level
 * consists of one digit for each other level; digits of higher levels are more significant. For a
 * higher level i, the digit says which child of a level-i switch is this switch or has it below.
 * For a lower level i, it says which parent a path upwards to this switch takes at level i. Two
 * switches of neighbouring levels are cabled if their digits for all other levels agree.
 *
 * Source: Ohring et al., extended generalized fat trees; Zahavi, parallel ports.
 */
#include <errno.h>
#include <string.h>

#include "topo/graph.h"

#define LEVELS_MAX 8

#define WANT                                                                            \
    "want clos:radix=R,levels=L[,over=F], or clos:down=D0xD1..,up=U0..[,cables=C1..]; " \
    "for example clos:down=24x36,up=12"

struct clos {
    uint32_t levels;
    uint32_t down[LEVELS_MAX]; /* ports down of a switch */
    uint32_t up[LEVELS_MAX];   /* ports up of a switch; 0 at the top level */
    /* parallel cables between a switch of this level and one of the level below; cables[0] is 1 */
    uint32_t cables[LEVELS_MAX];

    uint32_t children[LEVELS_MAX]; /* children of a switch; at level 0 these are nodes */
    uint32_t parents[LEVELS_MAX];
    uint32_t switches[LEVELS_MAX];
    uint32_t first[LEVELS_MAX]; /* number of the level's first switch */
    uint32_t nodes;
    uint32_t all; /* number of switches */
    uint32_t ports;
};

/* Scan a list such as "24x36". Returns how many numbers it has; 0: none, or too many. */
static uint32_t scan_list(const char **at, uint32_t *list)
{
    uint32_t count = 0;

    do {
        if (count == LEVELS_MAX || !topo_scan_number(at, &list[count]))
            return 0;
        count++;
    } while (topo_scan_word(at, "x"));
    return count;
}

/* Compute the ports up and down from a radix. Returns NULL, or an error text. */
static const char *from_radix(struct clos *c, uint32_t radix, uint32_t levels, uint32_t over)
{
    if (levels < 1 || levels > LEVELS_MAX)
        return "levels must be 1 to 8";
    if (radix < 2 || radix > TOPO_PORTS_WIDE)
        return "radix must be 2 to " TEXT(TOPO_PORTS_WIDE) ", the ports of a switch";
    if (over == 1 && radix % 2)
        return "radix must be even, because half of the ports lead up and half down; over=F gives "
               "F ports down for each port up";
    if (over < 1 || over >= radix || radix % (over + 1))
        return "over=F needs a radix that is a multiple of F + 1: F ports down for each port up";
    if (levels > 2 && radix % 2)
        return "more than 2 levels need an even radix: half of the ports lead up and half down";
    c->levels = levels;
    for (uint32_t l = 0; l < levels; l++) {
        c->up[l] = l ? radix / 2 : radix / (over + 1);
        c->up[l] = l + 1 < levels ? c->up[l] : 0;
        c->down[l] = radix - c->up[l];
    }
    return NULL;
}

static const char *clos_options(struct clos *c, const char *at)
{
    uint32_t radix = 0, levels = TOPO_NONE, over = TOPO_NONE, ups = 0, cables = 0;
    uint32_t list[LEVELS_MAX];

    *c = (struct clos){0};
    for (uint32_t l = 0; l < LEVELS_MAX; l++)
        c->cables[l] = 1;
    do {
        bool right = false;

        if (topo_scan_word(&at, "radix="))
            right = topo_scan_number(&at, &radix);
        else if (topo_scan_word(&at, "levels="))
            right = topo_scan_number(&at, &levels) && levels != TOPO_NONE;
        else if (topo_scan_word(&at, "over="))
            right = topo_scan_number(&at, &over) && over != TOPO_NONE;
        else if (topo_scan_word(&at, "down="))
            right = (c->levels = scan_list(&at, c->down));
        else if (topo_scan_word(&at, "up="))
            right = (ups = scan_list(&at, c->up));
        else if (topo_scan_word(&at, "cables="))
            right = (cables = scan_list(&at, list));
        if (!right)
            return WANT;
    } while (topo_scan_word(&at, ","));

    bool given = levels != TOPO_NONE || over != TOPO_NONE;
    const char *wrong = NULL;

    if (*at || (radix && (c->levels || ups)) || (!radix && (given || !c->levels)))
        return WANT;
    if (radix)
        wrong =
            from_radix(c, radix, levels == TOPO_NONE ? 2 : levels, over == TOPO_NONE ? 1 : over);
    if (wrong)
        return wrong;
    if (!radix && ups != c->levels - 1)
        return "up must have one number for each level except the top, one number less than down";
    if (cables && cables != c->levels - 1)
        return "cables must have one number for each level except the lowest, one number less than "
               "down";
    memcpy(c->cables + 1, list, cables * sizeof list[0]);
    return NULL;
}

/* Compute all other sizes from the ports and cables. Returns NULL, or an error text. */
static const char *clos_size(struct clos *c)
{
    uint64_t nodes = 1;

    for (uint32_t l = 0; l < c->levels; l++) {
        uint32_t above = l + 1 < c->levels ? c->cables[l + 1] : 1;

        if (!c->down[l] || (l + 1 < c->levels && !c->up[l]) || !c->cables[l])
            return "down, up and cables must be at least 1";
        if (c->down[l] > TOPO_PORTS_WIDE || c->up[l] > TOPO_PORTS_WIDE - c->down[l])
            return "a switch has at most " TEXT(TOPO_PORTS_WIDE) " ports, down and up";
        if (c->down[l] % c->cables[l] || c->up[l] % above)
            return "cables must divide the ports down, and the ports up of the level below";
        c->children[l] = c->down[l] / c->cables[l];
        c->parents[l] = c->up[l] / above;
        c->ports = c->down[l] + c->up[l] > c->ports ? c->down[l] + c->up[l] : c->ports;
        nodes *= c->children[l];
        if (nodes > TOPO_NODES_MAX)
            return "too large: at most 1048576 nodes";
    }
    if (nodes < 2)
        return "a network has at least 2 nodes";
    c->nodes = (uint32_t)nodes;
    for (uint32_t l = 0; l < c->levels; l++) {
        uint64_t count = 1;

        for (uint32_t i = 0; i < c->levels && count <= TOPO_NODES_MAX; i++)
            count *= i > l ? c->children[i] : i < l ? c->parents[i] : 1;
        c->first[l] = c->all;
        c->switches[l] = (uint32_t)count;
        c->all += c->switches[l];
        if (count > TOPO_NODES_MAX || c->all > TOPO_NODES_MAX)
            return "too large: at most 1048576 switches";
    }
    if ((uint64_t)c->all * c->switches[0] > TOPO_ROUTES_MAX)
        return "too large: the number of switches times the number of switches with nodes is at "
               "most " TEXT(TOPO_ROUTES_MAX);
    return NULL;
}

static void plug_up(struct topo_graph *graph, const struct clos *c, uint32_t l, uint32_t w)
{
    uint32_t copies = 1; /* number of switches of this level that have the same nodes below */

    for (uint32_t i = 0; i < l; i++)
        copies *= c->parents[i];
    uint32_t copy = w % copies;
    uint32_t child = w / copies % c->children[l + 1];
    uint32_t above = w / copies / c->children[l + 1];

    for (uint32_t p = 0; p < c->parents[l]; p++)
        for (uint32_t k = 0; k < c->cables[l + 1]; k++) {
            uint32_t parent = (above * c->parents[l] + p) * copies + copy;

            topo_plug_cable(graph, c->first[l] + w, c->down[l] + p * c->cables[l + 1] + k,
                            c->first[l + 1] + parent, child * c->cables[l + 1] + k);
        }
}

static void clos_plug(struct topo_graph *graph, const struct clos *c)
{
    for (uint32_t n = 0; n < c->nodes; n++)
        topo_plug_node(graph, n, n / c->children[0], n % c->children[0]);
    for (uint32_t l = 0; l < c->levels; l++)
        for (uint32_t w = 0; w < c->switches[l]; w++) {
            graph->sw[c->first[l] + w].level = l;
            if (l + 1 < c->levels)
                plug_up(graph, c, l, w);
        }
}

static size_t name_list(char *spec, size_t bytes, size_t used, const char *key,
                        const uint32_t *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        used += (size_t)snprintf(spec + used, bytes - used, "%s%u", i ? "x" : key, list[i]);
    return used;
}

static void clos_name(char *spec, size_t bytes, const struct clos *c)
{
    size_t used = name_list(spec, bytes, 0, "clos:down=", c->down, c->levels);
    uint32_t most = 1;

    used = name_list(spec, bytes, used, ",up=", c->up, c->levels - 1);
    for (uint32_t l = 1; l < c->levels; l++)
        most = c->cables[l] > most ? c->cables[l] : most;
    if (most > 1)
        name_list(spec, bytes, used, ",cables=", c->cables + 1, c->levels - 1);
}

int topo_clos(struct topo_graph **ret, const char *args, char *why, size_t why_bytes)
{
    struct clos c;
    const char *wrong = clos_options(&c, args);

    if (!wrong)
        wrong = clos_size(&c);
    if (wrong) {
        snprintf(why, why_bytes, "%s", wrong);
        return strncmp(wrong, "too large", 9) == 0 ? -E2BIG : -EINVAL;
    }
    const struct topo_size size = {.nodes = c.nodes, .switches = c.all, .ports = c.ports};
    int err = topo_ports_fit(c.ports, why, why_bytes);

    if (err)
        return err;
    struct topo_graph *graph = topo_graph_new(&size, NULL);

    if (graph) {
        clos_name(graph->spec, sizeof graph->spec, &c);
        clos_plug(graph, &c);
    }
    return topo_build(ret, graph, why, why_bytes);
}
