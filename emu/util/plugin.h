/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin.h - find the folder of this program's plug-ins. */
#ifndef EMU_HOSTLINK_PLUGIN_H
#define EMU_HOSTLINK_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

/**
 * emu_plugin_dir - write the folder of @file to @ret; @file is a plug-in or another file of this
 * program. Searched, relative to the program's own file: @built below its folder or the one above
 * (in a build folder); fabemu among the prefix's libraries, wherever the prefix was moved to; then
 * the configured folder. False: not found. Thread: any.
 */
bool emu_plugin_dir(char *ret, size_t ret_bytes, const char *file, const char *built);

#endif
