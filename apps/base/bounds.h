/* SPDX-License-Identifier: BSD-3-Clause */
/* bounds.h - bounds on waiting (emu/hostif/bounds.h) as text and as JSON. */
#ifndef APPS_BASE_BOUNDS_H
#define APPS_BASE_BOUNDS_H

#include <json-c/json.h>
#include <stdbool.h>

#include "emu/hostif/bounds.h"
#include "emu/packet/profile.h"

/**
 * bounds_read - parse "NAME=TIME" or "NAME=off", or several of these separated by commas. Returns
 * false if @text is invalid. Sets @right to a static text that describes a valid @text.
 */
bool bounds_read(struct emu_bounds *bounds, const char *text, const char **right);

struct bounds_text {
    char text[16];
};

/**
 * bounds_text - return a bound as text: "5s", "300ms", "off", or "from profile" if @ms is 0. Pure.
 */
struct bounds_text bounds_text(uint64_t ms);

/**
 * bounds_profile - if @bounds has a value for a field of the profile, set the field to it. Pure.
 */
void bounds_profile(struct emu_profile *profile, const struct emu_bounds *bounds);

/** bounds_library - return the bounds that processes apply: {"silence_ms":N, …}; null means off. */
struct json_object *bounds_library(const struct emu_bounds *bounds);

/** bounds_all - return all bounds; @profile has the time-out of replies and the retry limit. */
struct json_object *bounds_all(const struct emu_bounds *bounds, const struct emu_profile *profile);

#endif
