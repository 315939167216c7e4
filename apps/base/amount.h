/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * amount.h - print counts and sizes for people. Output for programs has plain numbers instead.
 */
#ifndef APPS_CLI_AMOUNT_H
#define APPS_CLI_AMOUNT_H

#include <stdint.h>

struct amount {
    char text[32];
};

/** amount_of_bytes - three digits and a unit of 1024: "140 B", "4 KiB", "1.46 MiB". Pure. */
struct amount amount_of_bytes(uint64_t bytes);

/** amount_count - all digits, in groups of three: "573,269". Pure. */
struct amount amount_count(uint64_t count);

#endif
