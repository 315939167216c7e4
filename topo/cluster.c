/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cluster.c - nodes that are plugged into the same switches: all other switches
 * see no difference between them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "topo/route.h"

/* The switches that @node is plugged into: ascending, each once. */
static struct cluster cluster_of(const struct topo_node *node)
{
    struct cluster key = {.seats = 1, .next = TOPO_NONE};

    for (uint32_t i = 0; i < node->links; i++) {
        uint32_t sw = node->link[i].sw;
        uint32_t at = key.switches;

        if (sw == TOPO_NONE)
            continue; /* cut */
        while (at && key.sw[at - 1] > sw)
            at--;
        if (at && key.sw[at - 1] == sw)
            continue;
        memmove(&key.sw[at + 1], &key.sw[at], (key.switches - at) * sizeof key.sw[0]);
        key.sw[at] = sw;
        key.switches++;
    }
    return key;
}

/* The cluster like @key in the list that begins with *@head: found, or new. */
static uint32_t cluster_number(struct clusters *clusters, uint32_t *head, const struct cluster *key)
{
    for (uint32_t c = *head; c != TOPO_NONE; c = clusters->at[c].next) {
        struct cluster *at = &clusters->at[c];

        if (at->switches == key->switches &&
            memcmp(at->sw, key->sw, key->switches * sizeof key->sw[0]) == 0) {
            at->seats++;
            return c;
        }
    }
    clusters->at[clusters->count] = *key;
    clusters->at[clusters->count].next = *head;
    *head = clusters->count;
    return clusters->count++;
}

int clusters_find(struct clusters *ret, const struct topo_graph *graph)
{
    uint32_t *head = malloc((graph->switches + 1) * sizeof *head); /* last: in none */

    *ret = (struct clusters){
        .at = malloc(graph->nodes * sizeof *ret->at),
        .where = malloc(graph->nodes * sizeof *ret->where),
    };
    if (!head || !ret->at || !ret->where) {
        free(head);
        clusters_free(ret);
        return -ENOMEM;
    }
    memset(head, 0xff, (graph->switches + 1) * sizeof *head);
    for (uint32_t n = 0; n < graph->nodes; n++) {
        struct cluster key = cluster_of(&graph->node[n]);
        uint32_t c = cluster_number(ret, &head[key.switches ? key.sw[0] : graph->switches], &key);

        ret->where[n] = c << TOPO_SEAT_BITS;
        if (key.switches)
            ret->where[n] |= ret->at[c].seats - 1;
    }
    free(head);
    return 0;
}

void clusters_free(struct clusters *clusters)
{
    free(clusters->at);
    free(clusters->where);
}
