/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bounds.h - bounds on waiting (emu/hostif/bounds.h) as text and as JSON.
 */
#ifndef APPS_BASE_BOUNDS_H
#define APPS_BASE_BOUNDS_H

#include <json-c/json.h>
#include <stdbool.h>

#include "emu/hostif/bounds.h"
#include "emu/packet/profile.h"

/**
 * bounds_read - parse "NAME=TIME" or "NAME=off", or several separated by commas. False: @text is
 * invalid; @right is a static text that describes a valid one.
 */
bool bounds_read(struct emu_bounds *bounds, const char *text, const char **right);

struct bounds_text {
    char text[16];
};

/** bounds_text - "5s", "300ms", "off"; for 0 "profile's". Pure. */
struct bounds_text bounds_text(uint64_t ms);

/** bounds_profile - replace the profile's numbers by the bounds that are set. Pure. */
void bounds_profile(struct emu_profile *profile, const struct emu_bounds *bounds);

/** bounds_library - the bounds for a process's library: {"silence_ms":N, …}; off is null. */
struct json_object *bounds_library(const struct emu_bounds *bounds);

/** bounds_all - all bounds. @profile: the running one, with the values of unset bounds. */
struct json_object *bounds_all(const struct emu_bounds *bounds, const struct emu_profile *profile);

#endif
