/* SPDX-License-Identifier: BSD-3-Clause */
/* slurp.h - read a whole file that a user has named. */
#ifndef EMU_SLURP_H
#define EMU_SLURP_H

#include <stddef.h>

/**
 * emu_slurp - read a whole file of at most @most bytes, without its byte-order mark. The caller
 * frees *@text, even after an error. The file may be a pipe that gets a writer within five seconds.
 * Errors: -EFBIG, the file is larger; -ETIMEDOUT, the pipe has got no writer in time; -ENOMEM;
 * -errno of open() and read().
 * emu_slurp_why - return the text of such an error.
 */
int emu_slurp(const char *name, size_t most, char **text, size_t *bytes);
const char *emu_slurp_why(int err);

#endif
