/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scan.c - numbers as people write them, exactly: no floating point, nothing is rounded.
 */
#include <string.h>

#include "apps/fault/internal.h"

#define DIGITS_MAX   UINT64_C(1000000000000000000) /* a decimal keeps those below it */
#define EXPONENT_MAX 1000

/* digits * 10^exponent */
struct decimal {
    uint64_t digits;
    int exponent;
    bool large; /* there were more digits before the point */
    bool fine;  /* there were more behind it, and not all 0 */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool fault_scan_number(const char **at, uint64_t most, uint64_t *ret)
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

/* "12.5e-3" at *@at, which moves past it; false: no digit there. */
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
        if (!fault_scan_number(&p, EXPONENT_MAX, &exponent))
            return false;
        ret->exponent += negative ? -(int)exponent : (int)exponent;
    }
    *at = p;
    return true;
}

/* In units of 10^-@places. */
static enum fault_verdict decimal_scaled(const struct decimal *d, int places, uint64_t most,
                                         uint64_t *ret)
{
    int exponent = d->exponent + places;
    uint64_t n = d->digits;

    if (d->large)
        return FAULT_VERDICT_LARGE;
    for (; exponent > 0 && n; exponent--) {
        if (n > most / 10)
            return FAULT_VERDICT_LARGE;
        n *= 10;
    }
    for (; exponent < 0 && n; exponent++) {
        if (n % 10)
            return FAULT_VERDICT_FINE;
        n /= 10;
    }
    *ret = n;
    return n > most ? FAULT_VERDICT_LARGE : d->fine ? FAULT_VERDICT_FINE : FAULT_VERDICT_RIGHT;
}

/* The unit's places behind the point of a picosecond; 0 needs none. -1: there is no such unit. */
static int unit_places(const char *unit, const struct decimal *d)
{
    static const char *const units[] = {"ps", "ns", "us", "ms", "s"};

    for (int i = 0; i < 5; i++)
        if (strcmp(unit, units[i]) == 0)
            return 3 * i;
    return !*unit && !d->digits && !d->fine ? 0 : -1;
}

enum fault_verdict fault_scan(const struct fault_key_row *row, const char *text, uint64_t *ret)
{
    struct decimal d;
    int places = 0;

    if (!scan_decimal(&text, &d))
        return FAULT_VERDICT_WRONG;
    if (row->type == FAULT_TYPE_TIME) {
        places = unit_places(text, &d);
        if (places < 0)
            return FAULT_VERDICT_WRONG;
    } else {
        if (row->type == FAULT_TYPE_SHARE)
            places = *text == '%' ? 7 : 9;
        else if (row->type == FAULT_TYPE_FACTOR)
            places = 3;
        if (text[row->type == FAULT_TYPE_SHARE && *text == '%'])
            return FAULT_VERDICT_WRONG;
    }
    enum fault_verdict verdict = decimal_scaled(&d, places, row->most, ret);
    return verdict == FAULT_VERDICT_RIGHT && *ret < row->least ? FAULT_VERDICT_SMALL : verdict;
}

bool fault_read_time(const char *text, uint64_t *ret_ps)
{
    static const struct fault_key_row row = {.type = FAULT_TYPE_TIME, .most = FAULT_TIME_MAX_PS};

    return fault_scan(&row, text, ret_ps) == FAULT_VERDICT_RIGHT;
}
