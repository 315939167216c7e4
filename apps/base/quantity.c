/* SPDX-License-Identifier: BSD-3-Clause */
/* quantity.c - parse times, sizes and shares. */
#include "apps/base/quantity.h"

#include <string.h>

/* when `digits` has reached this value, further digits are dropped */
#define DIGITS_MAX   UINT64_C(1000000000000000000)
#define EXPONENT_MAX 1000

const struct quantity_unit quantity_times[] = {
    {"ps", 1},
    {"ns", QUANTITY_NS_PS},
    {"us", 1000000},
    {"ms", QUANTITY_MS_PS},
    {"s", QUANTITY_S_PS},
    {"min", 60 * QUANTITY_S_PS},
    {"h", 3600 * QUANTITY_S_PS},
    {NULL, 0},
};

const struct quantity_unit quantity_sizes[] = {
    {"B", 1},
    {"K", UINT64_C(1) << 10},
    {"KiB", UINT64_C(1) << 10},
    {"M", UINT64_C(1) << 20},
    {"MiB", UINT64_C(1) << 20},
    {"G", UINT64_C(1) << 30},
    {"GiB", UINT64_C(1) << 30},
    {"kB", 1000},
    {"KB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {NULL, 0},
};

const struct quantity_unit quantity_shares[] = {{"%", QUANTITY_SHARE_ONE / 100}, {NULL, 0}};

/* The number digits * 10^exponent. */
struct decimal {
    uint64_t digits;
    int exponent;
    bool large; /* digits before the point were dropped */
    bool fine;  /* digits after the point were dropped, and not all of them were 0 */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool quantity_digits(const char **at, uint64_t most, uint64_t *ret)
{
    const char *p = *at;
    uint64_t number = 0;

    for (; is_digit(*p); p++) {
        uint64_t digit = (uint64_t)(*p - '0');

        if (number > (most - digit) / 10 || digit > most)
            return false;
        number = number * 10 + digit;
    }
    if (p == *at)
        return false;
    *at = p;
    *ret = number;
    return true;
}

static void decimal_digit(struct decimal *d, char c, bool fraction)
{
    if (d->digits < DIGITS_MAX) {
        d->digits = d->digits * 10 + (uint64_t)(c - '0');
        d->exponent -= fraction;
    } else if (!fraction) {
        d->large = true;
    } else if (c != '0') {
        d->fine = true;
    }
}

/* Parse a number such as "12.5e-3" at *@at, and move *@at behind it. False: there is none. */
static bool scan_decimal(const char **at, struct decimal *ret)
{
    const char *p = *at;
    bool any = is_digit(*p);
    uint64_t exponent;

    *ret = (struct decimal){0};
    for (; is_digit(*p); p++)
        decimal_digit(ret, *p, false);
    if (*p == '.') {
        any |= is_digit(p[1]);
        for (p++; is_digit(*p); p++)
            decimal_digit(ret, *p, true);
    }
    if (!any)
        return false;
    if (*p == 'e' || *p == 'E') {
        bool negative = p[1] == '-';

        p += 1 + (p[1] == '-' || p[1] == '+');
        if (!quantity_digits(&p, EXPONENT_MAX, &exponent))
            return false;
        ret->exponent += negative ? -(int)exponent : (int)exponent;
    }
    *at = p;
    return true;
}

/* Convert a decimal to stored units. @factor: number of stored units in the decimal's own unit. */
static enum quantity_verdict decimal_scaled(const struct decimal *d, uint64_t factor, uint64_t most,
                                            uint64_t *ret)
{
    unsigned __int128 n = (unsigned __int128)d->digits * factor;
    int exponent = d->exponent;

    if (d->large)
        return QUANTITY_LARGE;
    for (; exponent > 0 && n; exponent--) {
        if (n > most / 10)
            return QUANTITY_LARGE;
        n *= 10;
    }
    for (; exponent < 0 && n; exponent++) {
        if (n % 10)
            return QUANTITY_FINE;
        n /= 10;
    }
    if (n > most)
        return QUANTITY_LARGE;
    if (d->fine)
        return QUANTITY_FINE;
    *ret = (uint64_t)n;
    return QUANTITY_OK;
}

/* Parse the unit of @d at *@at, and move *@at behind it. False: the form has no such unit. */
static bool scan_unit(const char **at, const struct quantity_form *form, const struct decimal *d,
                      uint64_t *factor)
{
    size_t length = 0;

    while (is_letter((*at)[length]))
        length++;
    if (**at == '%')
        length = 1;
    *factor = form->bare;
    if (!length)
        return form->bare || (!d->digits && !d->fine);
    for (const struct quantity_unit *unit = form->units; unit && unit->name; unit++) {
        if (strlen(unit->name) == length && memcmp(unit->name, *at, length) == 0) {
            *factor = unit->factor;
            *at += length;
            return true;
        }
    }
    return false;
}

enum quantity_verdict quantity_scan(const char **at, const struct quantity_form *form,
                                    uint64_t *ret)
{
    struct decimal d;
    const char *p = *at;
    uint64_t factor, number;

    if (!scan_decimal(&p, &d) || !scan_unit(&p, form, &d, &factor))
        return QUANTITY_WRONG;
    enum quantity_verdict verdict = decimal_scaled(&d, factor, form->most, &number);
    if (verdict != QUANTITY_OK)
        return verdict;
    if (number < form->least)
        return QUANTITY_SMALL;
    *at = p;
    *ret = number;
    return QUANTITY_OK;
}

bool quantity_read(const char *text, const struct quantity_form *form, uint64_t *ret)
{
    uint64_t number;

    if (quantity_scan(&text, form, &number) != QUANTITY_OK || *text)
        return false;
    *ret = number;
    return true;
}
