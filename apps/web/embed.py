#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""embed.py - write the files of the page as C arrays, so that the command contains the page.

    embed.py OUT.c FILE...
"""
import pathlib
import sys

TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
ROW = 20  # bytes per line


def array(number, data):
    rows = (data[i:i + ROW] for i in range(0, len(data), ROW))
    body = "\n".join("    " + ",".join(map(str, row)) + "," for row in rows)
    return f"static const unsigned char file_{number}[] = {{\n{body}\n}};\n"


def main():
    out, *paths = map(pathlib.Path, sys.argv[1:])
    text = ['/* Made by embed.py of apps/web/page/. */\n#include "apps/web/internal.h"\n']
    rows = []
    for number, path in enumerate(paths):
        text.append(array(number, path.read_bytes()))
        name = "" if path.name == "index.html" else path.name
        rows.append(f'    {{"{name}", "{TYPES[path.suffix]}", file_{number}, '
                    f"sizeof file_{number}}},\n")
    text.append(f"const struct web_file web_files[] = {{\n{''.join(rows)}    {{0}},\n}};\n")
    out.write_text("\n".join(text))


if __name__ == "__main__":
    main()
