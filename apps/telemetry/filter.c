/* SPDX-License-Identifier: BSD-3-Clause */
/* filter.c - see filter.h. */
#include "apps/telemetry/filter.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>

#define WRONG \
    "\"fold\" must be true, false or {\"open\":[BLOCK,...]}, where BLOCK is the number of a block"
#define NO_BLOCK "no such block; the folded shape lists the numbers of all blocks"
#define TOO_MANY \
    "these open blocks have more than 16384 cables, switches or nodes; close some first"
#define NO_MEMORY "no memory for telemetry"

static int refuse(int err, const char *why, const char **ret)
{
    *ret = why;
    return err;
}

static int read_blocks(struct telemetry_filter *filter, struct json_object *list, const char **why)
{
    size_t count = json_object_array_length(list);

    filter->block = calloc(count + 1, sizeof *filter->block);
    if (!filter->block)
        return refuse(-ENOMEM, NO_MEMORY, why);
    for (size_t i = 0; i < count; i++) {
        struct json_object *one = json_object_array_get_idx(list, i);
        int64_t block = json_object_get_int64(one);

        if (!json_object_is_type(one, json_type_int))
            return refuse(-EINVAL, WRONG, why);
        if (block < 0 || block >= UINT32_MAX)
            return refuse(-ENOENT, NO_BLOCK, why);
        filter->block[filter->count++] = (uint32_t)block;
    }
    return 0;
}

int telemetry_filter_read(struct telemetry_filter *ret, struct json_object *request,
                          const char **why)
{
    struct json_object *aggregate = NULL, *list = NULL;
    bool there = json_object_object_get_ex(request, "fold", &aggregate);
    int err;

    *ret = (struct telemetry_filter){.aggregates = json_object_get_boolean(aggregate)};
    if (!there || json_object_is_type(aggregate, json_type_boolean))
        return 0;
    ret->aggregates = true;
    if (!json_object_is_type(aggregate, json_type_object))
        return refuse(-EINVAL, WRONG, why);
    if (!json_object_object_get_ex(aggregate, "open", &list))
        return 0;
    if (!json_object_is_type(list, json_type_array))
        return refuse(-EINVAL, WRONG, why);
    err = read_blocks(ret, list, why);
    if (err)
        telemetry_filter_free(ret);
    return err;
}

void telemetry_filter_free(struct telemetry_filter *filter)
{
    free(filter->block);
    *filter = (struct telemetry_filter){0};
}

int telemetry_filter_apply(const struct telemetry_filter *filter, struct telemetry *t,
                           struct telemetry_format *ret, const char **why)
{
    int is_aggregated = filter->aggregates ? telemetry_aggregate(t) : 0, err = 0;

    *ret = (struct telemetry_format){.is_aggregated = is_aggregated > 0};
    if (is_aggregated < 0)
        return refuse(is_aggregated, NO_MEMORY, why);
    if (filter->count)
        err = is_aggregated ? telemetry_open(&ret->open, t, filter->block, filter->count) : -ENOENT;
    if (err)
        return refuse(err, err == -ENOENT ? NO_BLOCK : err == -E2BIG ? TOO_MANY : NO_MEMORY, why);
    return 0;
}

void telemetry_format_free(struct telemetry_format *format)
{
    telemetry_aggregate_destroy(format->open);
    *format = (struct telemetry_format){0};
}

void telemetry_format_shape(const struct telemetry_format *format, const struct telemetry *t,
                            uint64_t every_ns, struct text_buf *text)
{
    if (format->is_aggregated)
        telemetry_aggregate_put_shape(t, format->open, every_ns, text);
    else
        telemetry_shape(t, every_ns, text);
}

void telemetry_format_line(const struct telemetry_format *format, struct telemetry *t,
                           uint64_t since, uint64_t skipped, struct text_buf *text)
{
    if (format->is_aggregated)
        telemetry_aggregate_put_line(t, format->open, since, skipped, text);
    else
        telemetry_line(t, since, skipped, text);
}
