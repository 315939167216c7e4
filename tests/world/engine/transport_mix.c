/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport_mix.c - settings at random, odd ones among them: see transport_mix() in
 * transport_run.h.
 */
#include "emu/util/random.h"
#include "tests/world/bytes.h"
#include "tests/world/engine/transport_run.h"

#define COUNT(list) ((uint32_t)(sizeof list / sizeof((list)[0])))

static const char *const topos[] = {
    "kary:4,1", "kary:2,2",         "kary:4,2", "kary:2,3",         "kary:2,4",
    "qsnet:8",  "qsnet:24,links=2", "qsnet:32", "qsnet:16,rails=2", "qsnet:40,links=4",
};

/* clang-format off: a row a line */
static const struct transport_sizes sizes[] = {
    {.count = 1, .range = {{0, 200}}},           {.count = 1, .range = {{0, 2000}}},
    {.count = 1, .range = {{1000, 4000}}},       {.count = 2, .range = {{0, 100}, {4000, 8000}}},
    {.count = 1, .range = {{224, 224}}}, /* just one segment on the wire */
    {.count = 2, .range = {{0, 1}, {200, 250}}}, {.count = 1, .range = {{0, 0}}},
};
/* clang-format on */

/* One of a million entries, on each cable. */
static const uint32_t rates[] = {0, 0, 100, 1000, 5000, 20000};

/* What differs from the profile: up to two. */
static const char *const sets[][2] = {
    {NULL, NULL},
    {NULL, NULL},
    {"channels=1", NULL},
    {"channels=2", "pool_slots=0"},
    {"pool_slots=0", NULL},
    {"channels=7", NULL},
    {"packet_bytes=256", NULL},
    {"packet_bytes=4096", NULL},
    {"reply_timeout_ps=20000000", NULL}, /* some packets take longer, and are sent in vain */
    {"reply_timeout_ps=5000000", NULL},
    {"channels=4", "reply_timeout_ps=50000000"},
    {"channel_ps=2000000", NULL},
    {"routing=static", NULL},
    {"routing=oblivious", "choice=random"},
    {"retry_ps=10000", NULL},
};

void transport_mix(struct transport_config *config, uint64_t seed)
{
    uint64_t state = seed;
    const char *const *set = sets[bytes_below(&state, COUNT(sets))];
    struct emu_fault_rates *faults = &config->faults;

    config->seed = emu_mix(seed) % 1000000007u;
    config->topo = topos[bytes_below(&state, COUNT(topos))];
    config->sizes = sizes[bytes_below(&state, COUNT(sizes))];
    config->threads = 1 + bytes_below(&state, 4);
    config->groups = bytes_below(&state, 5);
    config->may_fail = true; /* some of these networks lose most of what has many destinations */
    faults->lost = rates[bytes_below(&state, COUNT(rates))];
    faults->head = rates[bytes_below(&state, COUNT(rates))];
    faults->payload = faults->head;
    faults->twice = rates[bytes_below(&state, COUNT(rates))];
    faults->late = rates[bytes_below(&state, COUNT(rates))];
    faults->late_ps = 1000;
    for (uint32_t digits = bytes_below(&state, 6); digits; digits--)
        faults->late_ps *= 10;
    config->sets = 0;
    for (uint32_t i = 0; i < 2 && set[i]; i++)
        config->set[config->sets++] = set[i];
}
