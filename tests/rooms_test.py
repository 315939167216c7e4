#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rooms_test - the tree is in order: which folder includes which, and the prefixes of file names.

docs/ARCHITECTURE.md draws the rooms; this is what holds them to it."""
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CODE = ("emu", "topo", "switch", "nic", "apps")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
# A folder, and the beginnings of what its files may include. The longest folder that fits counts.
MAY = {
    "emu/hostlink/dpdk": ("emu/hostlink/dpdk/", "emu/hostlink/port/", "emu/util/"),
    "nic/host": ("nic/fabemu.h",),
    "nic/ofi": ("nic/ofi/", "nic/fabemu.h"),
    "apps": ("",),
    "apps/ompi": ("apps/ompi/", "nic/fabemu.h"),
}
# The dependencies of library NAME, in the meson.build of its folder.
DEPS = re.compile(r"^(\w+)_deps = \[([^\]]*)\]", re.M)


def libraries():
    """The folders that each folder may include, by the dependencies that its meson.build declares;
    only folders whose library has its dependencies in NAME_deps. Meson allows no cycle."""
    folders, deps = {}, {}
    for top in CODE:
        for folder, _, names in os.walk(os.path.join(TOP, top)):
            if "meson.build" not in names:
                continue
            with open(os.path.join(folder, "meson.build"), encoding="utf-8") as f:
                text = f.read()
            for name, needs in DEPS.findall(text):
                assert f"dependencies: {name}_deps" in text, f"{folder} does not use {name}_deps"
                folders[name] = os.path.relpath(folder, TOP)
                deps[name] = re.findall(r"\w+", needs)
    return {folders[name]: {folders[need] for need in [name, *needs] if need in folders}
            for name, needs in deps.items()}


def files():
    """Every source file, from the top."""
    for top in CODE:
        for folder, _, names in os.walk(os.path.join(TOP, top)):
            for name in names:
                if name.endswith((".c", ".h")):
                    yield os.path.relpath(os.path.join(folder, name), TOP)


def allowed(path, included, permitted):
    """May the file at @path include @included?"""
    folder, of = os.path.dirname(path), os.path.dirname(included)
    if folder in permitted and of in permitted[folder]:
        return True
    room = max((r for r in MAY if path.startswith(r + "/")), key=len, default=None)
    if not os.path.exists(os.path.join(TOP, included)):
        return True  # beside it, or made by the build
    return room is not None and included.startswith(MAY[room])


def version_of(name, pattern):
    with open(os.path.join(TOP, name), encoding="utf-8") as f:
        return re.search(pattern, f.read(), re.M)[1]


def versions():
    """Errors in the version for citations (CITATION.cff)."""
    cited = version_of("CITATION.cff", r"^version: (\S+)$")
    built = version_of("meson.build", r"^  version: '([^']+)'")
    return [] if cited == built else [f"CITATION.cff has version {cited}, meson.build {built}"]


def main():
    wrong, checked, permitted = versions(), 1, libraries()
    for path in files():
        with open(os.path.join(TOP, path), encoding="utf-8") as f:
            text = f.read()
        for included in INCLUDE.findall(text):
            checked += 1
            if not allowed(path, included, permitted):
                wrong.append(f"{path} includes {included}")
        folder, name = os.path.split(path)
        rooms = {d for d in os.listdir(os.path.join(TOP, os.path.dirname(folder) or "."))}
        prefix = name.split("_")[0] if "_" in name else ""
        checked += 1
        if prefix in rooms - {os.path.basename(folder)}:
            wrong.append(f"{path} has the prefix of another folder")
    for line in wrong:
        print(line)
    print(f"rooms_test: looked at {checked} things, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
