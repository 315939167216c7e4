/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * filter.h - how a reader wants a large network told: the field "fold" of a subscription.
 */
#ifndef APPS_TELEMETRY_FILTER_H
#define APPS_TELEMETRY_FILTER_H

#include "apps/telemetry/telemetry.h"

struct json_object;

/* How often a reader can want a snapshot. */
#define TELEMETRY_EVERY_LEAST_MS 100u
#define TELEMETRY_EVERY_MOST_MS  3600000u

struct telemetry_filter {
    bool aggregates;
    uint32_t *block; /* that are to be open; */
    size_t count;    /* so many */
};

/**
 * telemetry_filter_read - what @request says. Errors: -EINVAL, -ENOENT, -ENOMEM, with a line for
 * the user in *why; nothing is held then.
 */
int telemetry_filter_read(struct telemetry_filter *ret, struct json_object *request,
                          const char **why);
void telemetry_filter_free(struct telemetry_filter *filter);

/* How one is told of the network of one run. All 0: whole. */
struct telemetry_format {
    bool is_aggregated;               /* as of one of few parts, */
    struct telemetry_aggregate *open; /* of which these are open; NULL: none is */
};

/** telemetry_filter_apply - as it is wished. Errors: as telemetry_open(), with a line in *why. */
int telemetry_filter_apply(const struct telemetry_filter *filter, struct telemetry *telemetry,
                           struct telemetry_format *ret, const char **why);
void telemetry_format_free(struct telemetry_format *format);

/** telemetry_format_shape, telemetry_format_line - telemetry_shape() or telemetry_line(), so. */
void telemetry_format_shape(const struct telemetry_format *format,
                            const struct telemetry *telemetry, uint64_t every_ns,
                            struct text_buf *text);
void telemetry_format_line(const struct telemetry_format *format, struct telemetry *telemetry,
                           uint64_t since, uint64_t skipped, struct text_buf *text);

#endif
