/* SPDX-License-Identifier: BSD-3-Clause */
/* printable.h - make received text safe to print. */
#ifndef EMU_PRINTABLE_H
#define EMU_PRINTABLE_H

/**
 * emu_printable - replace each byte of @text that is not printable ASCII with '?'. Control bytes
 * could change the state of a terminal. Bytes above 126 could be C1 control characters, or invalid
 * UTF-8, which JSON does not allow.
 */
static inline void emu_printable(char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

#endif
