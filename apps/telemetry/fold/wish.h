/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wish.h - how a reader wants a large network told: the field "fold" of a subscription.
 */
#ifndef APPS_TELEMETRY_WISH_H
#define APPS_TELEMETRY_WISH_H

#include "apps/telemetry/telemetry.h"

struct json_object;

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

/**
 * telemetry_wish_meet - have the network told so. Returns 1: it is folded, and *open has what is
 * open; NULL: nothing is. 0: it is told whole. Errors: as telemetry_open(), with a line in *why.
 */
int telemetry_wish_meet(const struct telemetry_wish *wish, struct telemetry *telemetry,
                        struct telemetry_fold **open, const char **why);

#endif
