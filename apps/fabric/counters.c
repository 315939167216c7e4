/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counters.c - the counters of the parts of a network, as arrays of descriptors.
 */
#include "apps/fabric/counters.h"

#include <assert.h>

static const struct fabric_counter of_way[] = {
#define WAY(name, kind, shown, text, help) {#name, FABRIC_##kind, help},
#include "apps/fabric/counters.def"
};

static const struct fabric_counter of_switch[] = {
#define SWITCH(name, kind, shown, text, help) {#name, FABRIC_##kind, help},
#include "apps/fabric/counters.def"
};

static const struct fabric_counter of_node[] = {
#define NODE(name, kind, shown, text, help) {#name, FABRIC_##kind, help},
#include "apps/fabric/counters.def"
};

static_assert(FABRIC_WAY_COUNTERS <= FABRIC_COUNTERS_MOST &&
                  FABRIC_SWITCH_COUNTERS <= FABRIC_COUNTERS_MOST &&
                  FABRIC_NODE_COUNTERS <= FABRIC_COUNTERS_MOST,
              "arrays of FABRIC_COUNTERS_MOST hold any part's counters");

const struct fabric_counters fabric_way_counters = {"port", of_way, FABRIC_WAY_COUNTERS};
const struct fabric_counters fabric_switch_counters = {"switch", of_switch, FABRIC_SWITCH_COUNTERS};
const struct fabric_counters fabric_node_counters = {"node", of_node, FABRIC_NODE_COUNTERS};

void fabric_counters_add(const struct fabric_counters *counters, uint64_t *sum,
                         const uint64_t *value)
{
    for (size_t i = 0; i < counters->count; i++)
        sum[i] += value[i];
}

void fabric_counters_idle(const struct fabric_counters *counters, uint64_t *value)
{
    for (size_t i = 0; i < counters->count; i++)
        if (counters->counter[i].kind == FABRIC_LEVEL)
            value[i] = 0;
}

static const char *const totals[] = {
#define TOTAL(name, section, shown, text) #name,
#define DROP(name, text)                  "dropped_" #name,
#define KEPT(name)                        #name,
#include "apps/fabric/counters.def"
#define REPORTED(name) #name,
#include "nic/engine/counts.def"
#define REPLAY(name)     #name,
#define INTAKE(name)     #name,
#define UNREPORTED(name) #name,
#include "switch/common/retries.def"
};

void fabric_counters_each(void (*print)(void *ctx, const char *part, const char *name), void *ctx)
{
    const struct fabric_counters *const parts[] = {&fabric_way_counters, &fabric_switch_counters,
                                                   &fabric_node_counters};

    for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++)
        print(ctx, "total", totals[i]);
    for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++)
        for (size_t i = 0; i < parts[p]->count; i++)
            print(ctx, parts[p]->part, parts[p]->counter[i].name);
}
