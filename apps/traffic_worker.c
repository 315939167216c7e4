/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traffic_worker.c - the workers' accumulators, made as nodes join.
 */
#include "apps/traffic_worker.h"

#include <stdlib.h>

struct traffic_worker *traffic_worker_join(struct traffic_workers *all, uint32_t index)
{
    if (index >= all->count) {
        struct traffic_worker **more = realloc(all->at, (index + 1) * sizeof more[0]);
        if (!more)
            return NULL;
        for (all->at = more; all->count <= index; all->count++)
            more[all->count] = NULL;
    }
    if (!all->at[index])
        all->at[index] = calloc(1, sizeof(struct traffic_worker));
    if (all->at[index])
        all->at[index]->nodes++;
    return all->at[index];
}

void traffic_workers_free(struct traffic_workers *all)
{
    for (uint32_t w = 0; w < all->count; w++) {
        if (all->at[w])
            traffic_log_release(&all->at[w]->log);
        free(all->at[w]);
    }
    free(all->at);
    *all = (struct traffic_workers){ .count = 0 };
}
