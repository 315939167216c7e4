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
 * bounds_read - take "NAME=TIME", "NAME=off", or several with commas between them.
 * Returns false on a wrong one, with what would be right in @right, a static text.
 */
bool bounds_read(struct emu_bounds *bounds, const char *text, const char **right);

struct bounds_text {
    char text[16];
};

/** bounds_text - "5s", "300ms", "off"; of 0 "profile's". Pure. */
struct bounds_text bounds_text(uint64_t ms);

/** bounds_profile - what the bounds say in the place of the profile's own numbers. Pure. */
void bounds_profile(struct emu_profile *profile, const struct emu_bounds *bounds);

/** bounds_library - those that a process's library is told: {"silence_ms":N, …}; off is null. */
struct json_object *bounds_library(const struct emu_bounds *bounds);

/**
 * bounds_all - all of them. @profile: as it runs, where the bounds leave its numbers as they are.
 */
struct json_object *bounds_all(const struct emu_bounds *bounds, const struct emu_profile *profile);

#endif
