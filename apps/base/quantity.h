/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * quantity.h - parse times, sizes and shares. Exact: no floating point, no rounding.
 */
#ifndef APPS_BASE_QUANTITY_H
#define APPS_BASE_QUANTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The result of reading a number. */
enum quantity_verdict {
    QUANTITY_OK,
    QUANTITY_WRONG, /* not a number of this form */
    QUANTITY_LARGE, /* above the limit */
    QUANTITY_SMALL, /* below the limit */
    QUANTITY_FINE   /* not a whole number of stored units */
};

struct quantity_unit {
    const char *name;
    uint64_t factor; /* stored units of one such unit */
};

/* How a quantity is written. */
struct quantity_form {
    const struct quantity_unit *units; /* the last row has no name; NULL: no units */
    uint64_t bare; /* factor of a number without a unit; 0: only the number 0 needs no unit */
    uint64_t least, most; /* in stored units */
};

#define QUANTITY_NS_PS UINT64_C(1000)
#define QUANTITY_MS_PS UINT64_C(1000000000)
#define QUANTITY_S_PS  UINT64_C(1000000000000)

/* ps, ns, us, ms, s, min and h; stored in picoseconds. */
extern const struct quantity_unit quantity_times[];

/*
 * Units of GNU programs, stored in bytes: B; K, M, G and KiB, MiB, GiB are powers of 1024;
 * kB, MB and GB (and KB) are powers of 1000.
 */
extern const struct quantity_unit quantity_sizes[];

/* "%"; stored in billionths. */
extern const struct quantity_unit quantity_shares[];
#define QUANTITY_SHARE_ONE UINT64_C(1000000000)

/**
 * quantity_scan - read a number and its unit, "12.5e-3ms", at *@at, and move *@at behind them.
 * @ret: in stored units; unchanged unless QUANTITY_OK is returned. Pure.
 */
enum quantity_verdict quantity_scan(const char **at, const struct quantity_form *form,
                                    uint64_t *ret);

/** quantity_read - the same for all of @text. False: @text does not have this form. */
bool quantity_read(const char *text, const struct quantity_form *form, uint64_t *ret);

/** quantity_digits - read an integer at *@at and move *@at behind it. False: none, or > @most. */
bool quantity_digits(const char **at, uint64_t most, uint64_t *ret);

#endif
