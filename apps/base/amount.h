/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * amount.h - print counts, sizes and times for people. Output for programs has plain numbers, and
 * times in fixed units.
 */
#ifndef APPS_BASE_AMOUNT_H
#define APPS_BASE_AMOUNT_H

#include <stdint.h>

struct amount {
    char text[32];
};

/** amount_of_bytes - three digits and a unit of 1024: "140 B", "4 KiB", "1.46 MiB". Pure. */
struct amount amount_of_bytes(uint64_t bytes);

/** amount_count - all digits, in groups of three: "573,269". Pure. */
struct amount amount_count(uint64_t count);

struct duration {
    char text[32];
};

/**
 * duration_of_ns - three digits and the unit that suits them: "491 ms", "12.3 us", "2 min 05 s".
 * @ns: at most 0: "0 s". Pure.
 */
struct duration duration_of_ns(double ns);

#endif
