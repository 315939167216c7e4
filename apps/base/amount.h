/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * amount.h - counts, sizes and times as text for people. Output for programs does not use this: it
 * has plain numbers, and times in fixed units.
 */
#ifndef APPS_BASE_AMOUNT_H
#define APPS_BASE_AMOUNT_H

#include <stdint.h>

struct amount {
    char text[32];
};

/** amount_of_bytes - return a size with up to three digits and a binary unit: "1.46 MiB". Pure. */
struct amount amount_of_bytes(uint64_t bytes);

/** amount_count - return a count with all digits, in groups of three: "573,269". Pure. */
struct amount amount_count(uint64_t count);

/**
 * amount_of_real - return @value, from 0 to 1e18, with @decimals digits after the decimal point.
 * The digits before the point are in groups of three: "11,636.4". Pure.
 */
struct amount amount_of_real(double value, int decimals);

/** plural_s - return the ending of a regular noun after @count: "" or "s". Pure. */
static inline const char *plural_s(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/** plural_es - return the ending of a noun like "process" after @count: "" or "es". Pure. */
static inline const char *plural_es(uint64_t count)
{
    return count == 1 ? "" : "es";
}

struct duration {
    char text[32];
};

/**
 * duration_of_ns - return a time with three digits and the unit that suits it: "491 ms", "12.3 us".
 * From 2 min on, two units are used: "2 min 05 s". A time of 0 or less is "0 s". Pure.
 */
struct duration duration_of_ns(double ns);

/* The unit and the number of decimals of all times in a table. */
struct duration_unit {
    const char *name;
    double ns; /* length of the unit */
    int decimals;
};

/**
 * duration_unit_of - return the finest unit, from 0.1 us to 1 s, in which times up to @most_ns have
 * at most @width characters. If no unit is coarse enough, returns 1 s. Pure.
 */
struct duration_unit duration_unit_of(double most_ns, int width);

/** duration_in - return a time, which is not negative, in @unit, such as "13,600.0". Pure. */
struct amount duration_in(const struct duration_unit *unit, double ns);

#endif
