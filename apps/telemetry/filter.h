/* SPDX-License-Identifier: BSD-3-Clause */
/* filter.h - a subscription's field "fold": aggregation of a large network (aggregate.h). */
#ifndef APPS_TELEMETRY_FILTER_H
#define APPS_TELEMETRY_FILTER_H

#include "apps/telemetry/telemetry.h"

struct json_object;

/* Limits of the time between two snapshots. */
#define TELEMETRY_EVERY_LEAST_MS 100u
#define TELEMETRY_EVERY_MOST_MS  3600000u

struct telemetry_filter {
    bool aggregates; /* false: send rows of single switches, nodes and cables */
    uint32_t *block; /* blocks to open, by number */
    size_t count;    /* number of entries of @block */
};

/**
 * telemetry_filter_read - parse @request. Errors: -EINVAL, -ENOENT, -ENOMEM, with a line for the
 * user in *why. After an error the caller need not call telemetry_filter_free().
 */
int telemetry_filter_read(struct telemetry_filter *ret, struct json_object *request,
                          const char **why);
void telemetry_filter_free(struct telemetry_filter *filter);

/*
 * A filter that was applied to one network. If all fields are 0, nothing is aggregated.
 */
struct telemetry_format {
    bool is_aggregated;
    struct telemetry_aggregate *open; /* NULL: no block is open */
};

/**
 * telemetry_filter_apply - apply @filter to the network of @telemetry. Errors: as telemetry_open(),
 * with a line for the user in *why.
 */
int telemetry_filter_apply(const struct telemetry_filter *filter, struct telemetry *telemetry,
                           struct telemetry_format *ret, const char **why);
void telemetry_format_free(struct telemetry_format *format);

/**
 * telemetry_format_shape, telemetry_format_line - like telemetry_shape() and telemetry_line(), but
 * aggregate the network as @format says.
 */
void telemetry_format_shape(const struct telemetry_format *format,
                            const struct telemetry *telemetry, uint64_t every_ns,
                            struct text_buf *text);
void telemetry_format_line(const struct telemetry_format *format, struct telemetry *telemetry,
                           uint64_t since, uint64_t skipped, struct text_buf *text);

#endif
