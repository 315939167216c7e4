/* SPDX-License-Identifier: BSD-3-Clause */
/* amount.c - counts, sizes and times as text for people. */
#include "apps/base/amount.h"

#include <stdio.h>
#include <string.h>

/* Return the number of decimals with which @value, from 0 to 999, has three digits. */
static int decimals(double value)
{
    return value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
}

struct amount amount_of_bytes(uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    struct amount ret;
    double value = (double)bytes;
    size_t unit = 0;

    /* use the first unit in which the number is below 1000: 1023 KiB becomes 1.00 MiB */
    for (; value >= 999.5 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        value /= 1024;
    if (value == (double)(unsigned)value)
        snprintf(ret.text, sizeof ret.text, "%u %s", (unsigned)value, units[unit]);
    else
        snprintf(ret.text, sizeof ret.text, "%.*f %s", decimals(value), value, units[unit]);
    return ret;
}

/* Return the number @digits with the digits before its decimal point in groups of three. */
static struct amount group_digits(const char *digits)
{
    struct amount ret;
    int whole = (int)strcspn(digits, "."), at = 0;

    for (int i = 0; i < whole; i++) {
        if (i && (whole - i) % 3 == 0)
            ret.text[at++] = ',';
        ret.text[at++] = digits[i];
    }
    snprintf(ret.text + at, sizeof ret.text - (size_t)at, "%s", digits + whole);
    return ret;
}

struct amount amount_count(uint64_t count)
{
    char digits[24];

    snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
    return group_digits(digits);
}

struct amount amount_of_real(double value, int decimals)
{
    char digits[24];

    snprintf(digits, sizeof digits, "%.*f", decimals, value);
    return group_digits(digits);
}

#define MINUTES_FROM_S 120.0  /* longer times are printed as minutes and seconds */
#define HOURS_FROM_S   7200.0 /* longer times are printed as hours and minutes */
#define MOST_NS        1e18   /* longer times are printed as this: 30 years */

/* Return a time of less than 999.5 s. The number is below 1000: 999.6 us becomes 1.00 ms. */
static struct duration short_of(double ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    struct duration ret;
    size_t unit = 0;

    for (; ns >= 999.5 && unit < 3; unit++)
        ns /= 1000;
    snprintf(ret.text, sizeof ret.text, "%.*f %s", decimals(ns), ns, units[unit]);
    return ret;
}

struct duration duration_of_ns(double ns)
{
    struct duration ret = {"0 s"};
    double s = (ns < MOST_NS ? ns : MOST_NS) / 1e9;

    if (!(ns > 0))
        return ret;
    if (s < MINUTES_FROM_S - 0.5)
        return short_of(ns);
    if (s < HOURS_FROM_S - 0.5) {
        unsigned whole = (unsigned)(s + 0.5);
        snprintf(ret.text, sizeof ret.text, "%u min %02u s", whole / 60, whole % 60);
    } else {
        double minutes = (double)(unsigned long long)(s / 60 + 0.5);
        double hours = (double)(unsigned long long)(minutes / 60);
        snprintf(ret.text, sizeof ret.text, "%.0f h %02.0f min", hours, minutes - 60 * hours);
    }
    return ret;
}

struct amount duration_in(const struct duration_unit *unit, double ns)
{
    return amount_of_real(ns / unit->ns, unit->decimals);
}

struct duration_unit duration_unit_of(double most_ns, int width)
{
    static const struct duration_unit units[] = {
        {"us", 1e3, 1}, {"us", 1e3, 0}, {"ms", 1e6, 2}, {"ms", 1e6, 1},
        {"ms", 1e6, 0}, {"s", 1e9, 1},  {"s", 1e9, 0},
    };
    size_t at = 0;

    while (at + 1 < sizeof units / sizeof units[0] &&
           strlen(duration_in(&units[at], most_ns).text) > (size_t)width)
        at++;
    return units[at];
}
