/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wish.h - how a reader wants a large network told: the field "fold" of a subscription.
 */
#ifndef APPS_TELEMETRY_WISH_H
#define APPS_TELEMETRY_WISH_H

#include "apps/telemetry/telemetry.h"

struct json_object;

/* How often a reader can want a snapshot. */
#define TELEMETRY_EVERY_LEAST_MS 100u
#define TELEMETRY_EVERY_MOST_MS  3600000u

struct telemetry_wish {
    bool folds;
    uint32_t *block; /* that are to be open; */
    size_t count;    /* so many */
};

/**
 * telemetry_wish_read - what @request says. Errors: -EINVAL, -ENOENT, -ENOMEM, with a line for the
 * user in *why; nothing is held then.
 */
int telemetry_wish_read(struct telemetry_wish *ret, struct json_object *request, const char **why);
void telemetry_wish_free(struct telemetry_wish *wish);

/* How one is told of the network of one run. All 0: whole. */
struct telemetry_told {
    bool folded;                 /* as of one of few parts, */
    struct telemetry_fold *open; /* of which these are open; NULL: none is */
};

/** telemetry_wish_meet - as it is wished. Errors: as telemetry_open(), with a line in *why. */
int telemetry_wish_meet(const struct telemetry_wish *wish, struct telemetry *telemetry,
                        struct telemetry_told *ret, const char **why);
void telemetry_told_free(struct telemetry_told *told);

/** telemetry_told_shape, telemetry_told_line - telemetry_shape() or telemetry_line(), so. */
void telemetry_told_shape(const struct telemetry_told *told, const struct telemetry *telemetry,
                          uint64_t every_ns, struct telemetry_text *text);
void telemetry_told_line(const struct telemetry_told *told, struct telemetry *telemetry,
                         uint64_t since, uint64_t skipped, struct telemetry_text *text);

#endif
