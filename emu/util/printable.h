/* SPDX-License-Identifier: BSD-3-Clause */
/* printable.h - make received text safe to print. */
#ifndef EMU_PRINTABLE_H
#define EMU_PRINTABLE_H

#include <stddef.h>

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

/**
 * emu_no_controls - replace each control character in @text, which is valid UTF-8, with '?': the
 * characters below 32, 127, and the C1 control characters (U+0080 to U+009F), which are two bytes.
 */
static inline void emu_no_controls(char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        unsigned char next = i + 1 < bytes ? (unsigned char)text[i + 1] : 0;

        if (c == 0xc2 && next >= 0x80 && next <= 0x9f)
            text[i] = text[i + 1] = '?';
        else if (c < ' ' || c == 127)
            text[i] = '?';
    }
}

#endif
