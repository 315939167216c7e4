/* SPDX-License-Identifier: BSD-3-Clause */
/* found.h - report the errors that a check of a device finds. */
#ifndef EMU_FOUND_H
#define EMU_FOUND_H

#include <stdint.h>

#define EMU_NO_PORT UINT32_MAX /* an error of the device as a whole */

/* Where to report errors. */
struct emu_found {
    void (*tell)(void *ctx, uint32_t port, const char *wrong);
    void *ctx;
};

/** emu_found_at - report error @wrong at @port; NULL: no error. */
static inline void emu_found_at(const struct emu_found *found, uint32_t port, const char *wrong)
{
    if (wrong)
        found->tell(found->ctx, port, wrong);
}

/* A reporter that keeps the first error. ctx: const char **, initially to NULL. */
static inline void emu_found_first(void *ctx, uint32_t port, const char *wrong)
{
    const char **first = ctx;

    (void)port;
    if (!*first)
        *first = wrong;
}

#endif
