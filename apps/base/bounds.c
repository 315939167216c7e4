/* SPDX-License-Identifier: BSD-3-Clause */
/* bounds.c - bounds on waiting as text and as JSON. */
#include "apps/base/bounds.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/base/quantity.h"

#define LEAST_MS   1u
#define MOST_MS    86400000u /* a day */
#define TRIES_MOST 1000u

static const struct {
    const char *name;
    size_t at; /* offset of the field */
} rows[] = {
#define ROW(field, name, ms, what) {name, offsetof(struct emu_bounds, field##_ms)},
    EMU_BOUNDS(ROW)
#undef ROW
};

#define ROWS (sizeof rows / sizeof rows[0])

static bool read_time(const char *text, uint64_t *ret_ms)
{
    static const struct quantity_form form = {.units = quantity_times,
                                              .least = LEAST_MS * QUANTITY_MS_PS,
                                              .most = MOST_MS * QUANTITY_MS_PS};
    uint64_t ps;

    if (!quantity_read(text, &form, &ps))
        return false;
    *ret_ms = (ps + QUANTITY_MS_PS / 2) / QUANTITY_MS_PS;
    return true;
}

static bool read_tries(const char *text, uint64_t *ret)
{
    char *end;

    *ret = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && *ret && *ret <= TRIES_MOST;
}

/*
 * Parse one bound of the list. @name has no final NUL. If there is such a bound, *@right becomes a
 * description of its valid values.
 */
static bool read_one(struct emu_bounds *bounds, const char *name, size_t length, const char *value,
                     const char **right)
{
    bool off = strcmp(value, "off") == 0;

    for (size_t i = 0; i < ROWS; i++) {
        uint64_t *field = (uint64_t *)(void *)((char *)bounds + rows[i].at);

        if (strlen(rows[i].name) != length || memcmp(rows[i].name, name, length) != 0)
            continue;
        *right = "a time from 1ms to 24h, such as 500ms, 1.5s or 2min, or off";
        *field = EMU_BOUND_OFF;
        return off || read_time(value, field);
    }
    if (length == strlen("retries") && memcmp(name, "retries", length) == 0) {
        *right = "retries=N, from 1 to 1000, or off";
        bounds->retries = EMU_BOUND_OFF;
        return off || read_tries(value, &bounds->retries);
    }
    return false;
}

bool bounds_read(struct emu_bounds *bounds, const char *text, const char **right)
{
#define NAME(field, name, ms, what) name ", "
    static const char names[] =
        "NAME=TIME or NAME=off, where NAME is one of " EMU_BOUNDS(NAME) "or retries";
#undef NAME
    char copy[256];

    *right = names;
    if (strlen(text) >= sizeof copy)
        return false;
    strcpy(copy, text);
    for (char *one = copy, *next; one; one = next) {
        char *equals = strchr(one, '=');

        *right = names;
        next = strchr(one, ',');
        if (next)
            *next++ = '\0';
        if (!equals || (next && equals > next) ||
            !read_one(bounds, one, (size_t)(equals - one), equals + 1, right))
            return false;
    }
    return true;
}

struct bounds_text bounds_text(uint64_t ms)
{
    struct bounds_text ret;

    if (!ms || ms == EMU_BOUND_OFF)
        snprintf(ret.text, sizeof ret.text, "%s", ms ? "off" : "from profile");
    else if (ms % 1000)
        snprintf(ret.text, sizeof ret.text, "%ums", (unsigned)ms);
    else
        snprintf(ret.text, sizeof ret.text, "%us", (unsigned)(ms / 1000));
    return ret;
}

void bounds_profile(struct emu_profile *profile, const struct emu_bounds *bounds)
{
    if (bounds->reply_ms == EMU_BOUND_OFF)
        profile->reply_timeout_ps = EMU_REPLY_NEVER_PS;
    else if (bounds->reply_ms)
        profile->reply_timeout_ps = bounds->reply_ms * QUANTITY_MS_PS;
    if (bounds->retries == EMU_BOUND_OFF)
        profile->retry_limit = EMU_RETRIES_ENDLESS;
    else if (bounds->retries)
        profile->retry_limit = (uint32_t)bounds->retries;
}

static void add(struct json_object *to, const char *field, uint64_t value)
{
    json_object_object_add(to, field,
                           value == EMU_BOUND_OFF ? NULL : json_object_new_int64((int64_t)value));
}

static void add_library(struct json_object *ret, const struct emu_bounds *bounds)
{
#define ADD(field, name, ms, what) add(ret, #field "_ms", bounds->field##_ms);
    EMU_BOUNDS_LIBRARY(ADD)
}

struct json_object *bounds_library(const struct emu_bounds *bounds)
{
    struct json_object *ret = json_object_new_object();

    add_library(ret, bounds);
    return ret;
}

struct json_object *bounds_all(const struct emu_bounds *bounds, const struct emu_profile *profile)
{
    struct json_object *ret = json_object_new_object();
    bool never = profile->reply_timeout_ps == EMU_REPLY_NEVER_PS;
    bool endless = profile->retry_limit == EMU_RETRIES_ENDLESS;

    add(ret, "cut_off_ms", bounds->cut_off_ms);
    add(ret, "stopped_ms", bounds->stopped_ms);
    add(ret, "no_link_ms", bounds->no_link_ms);
    add(ret, "unit_ms", bounds->unit_ms);
    add(ret, "stuck_ms", bounds->stuck_ms);
    add_library(ret, bounds);
    EMU_BOUNDS_RUN(ADD)
#undef ADD
    if (!emu_profile_acknowledged(profile))
        return ret;
    add(ret, "reply_ms",
        never ? EMU_BOUND_OFF : (profile->reply_timeout_ps + QUANTITY_MS_PS - 1) / QUANTITY_MS_PS);
    add(ret, "retries", endless ? EMU_BOUND_OFF : profile->retry_limit);
    return ret;
}
