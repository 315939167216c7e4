/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * totals.c - what each host has counted of its part, added up.
 */
#include "apps/hosts/internal.h"

struct json_object *hosts_totals_list(const struct fabric_totals *totals)
{
    const uint64_t *counter = (const uint64_t *)(const void *)totals;
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < FABRIC_COUNTERS; i++)
        json_object_array_add(list, json_object_new_uint64(counter[i]));
    json_object_array_add(list, json_object_new_double(totals->real_time_factor));
    json_object_array_add(list, json_object_new_uint64(totals->worst_lag_ns));
    return list;
}

void hosts_totals_add(struct fabric_totals *sum, struct json_object *list)
{
    uint64_t *counter = (uint64_t *)(void *)sum;
    double factor;
    uint64_t lag_ns;

    if (!json_object_is_type(list, json_type_array) ||
        json_object_array_length(list) != FABRIC_COUNTERS + 2)
        return;
    for (size_t i = 0; i < FABRIC_COUNTERS; i++)
        counter[i] += json_object_get_uint64(json_object_array_get_idx(list, i));
    factor = json_object_get_double(json_object_array_get_idx(list, FABRIC_COUNTERS));
    lag_ns = json_object_get_uint64(json_object_array_get_idx(list, FABRIC_COUNTERS + 1));
    if (factor < sum->real_time_factor)
        sum->real_time_factor = factor; /* the slowest host's */
    if (lag_ns > sum->worst_lag_ns)
        sum->worst_lag_ns = lag_ns;
}
