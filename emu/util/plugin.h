/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin.h - where the plug-ins of this program lie.
 */
#ifndef EMU_HOSTLINK_PLUGIN_H
#define EMU_HOSTLINK_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

/**
 * emu_plugin_dir - the folder that holds the plug-in @file, or another file that only this program
 * uses, at @ret; false: it is in none of the places. They are seen from the program's own file:
 * @built below its folder or the one above, where the program lies in a build folder; the folder
 * fabemu among the prefix's libraries, wherever the prefix was moved to; then the folder into which
 * the plug-ins were to be installed. Any thread.
 */
bool emu_plugin_dir(char *ret, size_t ret_bytes, const char *file, const char *built);

#endif
