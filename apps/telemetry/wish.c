/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wish.c - how a reader wants a large network told.
 */
#include "apps/telemetry/wish.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>

#define WRONG    "\"fold\" must be true, false or {\"open\":[BLOCK,...]}, blocks by their numbers"
#define NO_BLOCK "there is no such block to open; the folded shape has the numbers of all"
#define TOO_MANY \
    "so many open blocks would be more than 16384 cables, switches or nodes; close some first"
#define NO_MEMORY "there is no memory for telemetry"

static int refuse(int err, const char *why, const char **ret)
{
    *ret = why;
    return err;
}

static int read_blocks(struct telemetry_wish *wish, struct json_object *list, const char **why)
{
    size_t count = json_object_array_length(list);

    wish->block = calloc(count + 1, sizeof *wish->block);
    if (!wish->block)
        return refuse(-ENOMEM, NO_MEMORY, why);
    for (size_t i = 0; i < count; i++) {
        struct json_object *one = json_object_array_get_idx(list, i);
        int64_t block = json_object_get_int64(one);

        if (!json_object_is_type(one, json_type_int))
            return refuse(-EINVAL, WRONG, why);
        if (block < 0 || block >= UINT32_MAX)
            return refuse(-ENOENT, NO_BLOCK, why);
        wish->block[wish->count++] = (uint32_t)block;
    }
    return 0;
}

int telemetry_wish_read(struct telemetry_wish *ret, struct json_object *request, const char **why)
{
    struct json_object *fold = NULL, *list = NULL;
    bool there = json_object_object_get_ex(request, "fold", &fold);
    int err;

    *ret = (struct telemetry_wish){.folds = json_object_get_boolean(fold)};
    if (!there || json_object_is_type(fold, json_type_boolean))
        return 0;
    ret->folds = true;
    if (!json_object_is_type(fold, json_type_object))
        return refuse(-EINVAL, WRONG, why);
    if (!json_object_object_get_ex(fold, "open", &list))
        return 0;
    if (!json_object_is_type(list, json_type_array))
        return refuse(-EINVAL, WRONG, why);
    err = read_blocks(ret, list, why);
    if (err)
        telemetry_wish_free(ret);
    return err;
}

void telemetry_wish_free(struct telemetry_wish *wish)
{
    free(wish->block);
    *wish = (struct telemetry_wish){0};
}

int telemetry_wish_meet(const struct telemetry_wish *wish, struct telemetry *t,
                        struct telemetry_told *ret, const char **why)
{
    int folded = wish->folds ? telemetry_fold(t) : 0, err = 0;

    *ret = (struct telemetry_told){.folded = folded > 0};
    if (folded < 0)
        return refuse(folded, NO_MEMORY, why);
    if (wish->count)
        err = folded ? telemetry_open(&ret->open, t, wish->block, wish->count) : -ENOENT;
    if (err)
        return refuse(err, err == -ENOENT ? NO_BLOCK : err == -E2BIG ? TOO_MANY : NO_MEMORY, why);
    return 0;
}

void telemetry_told_free(struct telemetry_told *told)
{
    telemetry_fold_destroy(told->open);
    *told = (struct telemetry_told){0};
}

void telemetry_told_shape(const struct telemetry_told *told, const struct telemetry *t,
                          uint64_t every_ns, struct telemetry_text *text)
{
    if (told->folded)
        telemetry_folded_shape(t, told->open, every_ns, text);
    else
        telemetry_shape(t, every_ns, text);
}

void telemetry_told_line(const struct telemetry_told *told, struct telemetry *t, uint64_t since,
                         uint64_t skipped, struct telemetry_text *text)
{
    if (told->folded)
        telemetry_folded_line(t, told->open, since, skipped, text);
    else
        telemetry_line(t, since, skipped, text);
}
