/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * quantity.h - parse times, sizes and shares exactly, without floating point and rounding. A
 * quantity is written as a number with a unit, and stored as a number of *stored units* (such as
 * picoseconds).
 */
#ifndef APPS_BASE_QUANTITY_H
#define APPS_BASE_QUANTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The result of parsing a quantity. */
enum quantity_verdict {
    QUANTITY_OK,
    QUANTITY_WRONG, /* the text does not have this form */
    QUANTITY_LARGE, /* above the upper limit */
    QUANTITY_SMALL, /* below the lower limit */
    QUANTITY_FINE   /* not a whole number of stored units */
};

struct quantity_unit {
    const char *name;
    uint64_t factor; /* number of stored units in this unit */
};

/* The form in which a quantity is written, and its limits. */
struct quantity_form {
    const struct quantity_unit *units; /* ended by a row with the name NULL; NULL: no units */
    uint64_t bare; /* factor of a number without a unit; 0: only the number 0 needs no unit */
    uint64_t least, most; /* limits, in stored units */
};

#define QUANTITY_NS_PS UINT64_C(1000)
#define QUANTITY_MS_PS UINT64_C(1000000000)
#define QUANTITY_S_PS  UINT64_C(1000000000000)

/* Times: ps, ns, us, ms, s, min and h; stored in picoseconds. */
extern const struct quantity_unit quantity_times[];

/*
 * Sizes, stored in bytes. The units are those of GNU programs: B; powers of 1024: K, M, G, KiB, MiB
 * and GiB; powers of 1000: kB, KB, MB and GB.
 */
extern const struct quantity_unit quantity_sizes[];

/* Shares, with the unit "%"; stored in billionths. */
extern const struct quantity_unit quantity_shares[];
#define QUANTITY_SHARE_ONE UINT64_C(1000000000)

/**
 * quantity_scan - parse a number and its unit, such as "12.5e-3ms", at *@at, and move *@at behind
 * them. @ret: the number of stored units; set only if QUANTITY_OK is returned. Pure.
 */
enum quantity_verdict quantity_scan(const char **at, const struct quantity_form *form,
                                    uint64_t *ret);

/** quantity_read - parse all of @text as a quantity. Returns false if @text is not one. */
bool quantity_read(const char *text, const struct quantity_form *form, uint64_t *ret);

/**
 * quantity_digits - parse an integer at *@at, and move *@at behind it. Returns false if there is
 * none, or if it is above @most.
 */
bool quantity_digits(const char **at, uint64_t most, uint64_t *ret);

#endif
