/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * found.h - what a check of a device finds: each thing that is wrong, and at which of its ports.
 */
#ifndef EMU_FOUND_H
#define EMU_FOUND_H

#include <stdint.h>

#define EMU_NO_PORT UINT32_MAX /* of the device as a whole */

/* Who is told. */
struct emu_found {
    void (*tell)(void *ctx, uint32_t port, const char *wrong);
    void *ctx;
};

/** emu_found_at - tell what is wrong at @port; NULL: nothing is. */
static inline void emu_found_at(const struct emu_found *found, uint32_t port, const char *wrong)
{
    if (wrong)
        found->tell(found->ctx, port, wrong);
}

/* Keeps the first thing that is found: ctx is a const char *, NULL at first. */
static inline void emu_found_first(void *ctx, uint32_t port, const char *wrong)
{
    const char **first = ctx;

    (void)port;
    if (!*first)
        *first = wrong;
}

#endif
