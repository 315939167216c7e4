/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * amount.c - print counts and sizes for people.
 */
#include "apps/base/amount.h"

#include <stdio.h>

#include "apps/base/duration.h"

struct amount amount_of_bytes(uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    struct amount ret;
    double value = (double)bytes;
    size_t unit = 0;

    /* Take a unit in which the number is below 1000: 1023 KiB is printed as 1.00 MiB. */
    for (; value >= 999.5 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        value /= 1024;
    if (value == (double)(unsigned)value)
        snprintf(ret.text, sizeof ret.text, "%u %s", (unsigned)value, units[unit]);
    else
        snprintf(ret.text, sizeof ret.text, "%.*f %s", duration_decimals(value), value,
                 units[unit]);
    return ret;
}

struct amount amount_count(uint64_t count)
{
    struct amount ret;
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count), at = 0;

    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            ret.text[at++] = ',';
        ret.text[at++] = digits[i];
    }
    ret.text[at] = '\0';
    return ret;
}
