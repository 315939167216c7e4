/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin.h - find the folder of this program's plug-ins. */
#ifndef EMU_HOSTLINK_PLUGIN_H
#define EMU_HOSTLINK_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

/**
 * emu_plugin_dir - find the folder that contains @file, a plug-in or another file of this program,
 * and write it to @ret. Searches the folder @built below the running program's folder or below its
 * parent (for a program in a build folder), then the folder fabemu among the libraries of the
 * prefix in which the program is installed, then the folder that was configured at build time.
 * Returns false if none has the file. Thread: any.
 */
bool emu_plugin_dir(char *ret, size_t ret_bytes, const char *file, const char *built);

#endif
