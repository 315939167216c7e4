/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin.h - find the folder of this program's plug-ins. */
#ifndef EMU_PLUGIN_H
#define EMU_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

/**
 * emu_plugin_dir - find the folder that contains @file, a plug-in or another file of this program,
 * and write it to @ret. It searches these places in this order: the folder @built in the running
 * program's folder and in its parent (for a program in a build folder); the plug-in folder of the
 * prefix in which the program is installed; the plug-in folder that was configured at build time.
 * Returns false if none has the file. Thread: any.
 */
bool emu_plugin_dir(char *ret, size_t ret_bytes, const char *file, const char *built);

#endif
