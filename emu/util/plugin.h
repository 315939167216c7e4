/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin.h - find the folder of this program's plug-ins. */
#ifndef EMU_HOSTLINK_PLUGIN_H
#define EMU_HOSTLINK_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

/**
 * emu_plugin_dir - find the folder that contains @file, a plug-in or another file of this program,
 * and write it to @ret. Three places are searched. In a build folder: @built, below the folder of
 * the running program or below its parent. In an installation, which may have been moved: the
 * folder fabemu among the libraries of the program's prefix. Last, the folder that was configured
 * at build time. Returns false if none has the file. Thread: any.
 */
bool emu_plugin_dir(char *ret, size_t ret_bytes, const char *file, const char *built);

#endif
