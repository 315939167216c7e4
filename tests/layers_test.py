#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""layers_test - the tree is in order: which folder includes which, and the prefixes of file names.

docs/ARCHITECTURE.md draws the rooms; this is what holds them to it. A folder is a library: its
meson.build lists in NAME_needs what the library is built with, and the folder may include nothing
else."""
import graphlib
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CODE = ("emu", "topo", "switch", "nic", "apps")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
NEEDS = re.compile(r"^(\w+)_needs = \[([^\]]*)\]", re.M)
# What may be included besides: a folder, and the beginnings of it. The longest folder counts.
MAY = {
    "emu/hostlink/dpdk": ("emu/hostlink/dpdk/", "emu/hostlink/port/", "emu/util/"),
    "nic/host": ("nic/fabemu.h",),
    "nic/ofi": ("nic/ofi/", "nic/fabemu.h"),
    "apps": ("emu/", "topo/", "switch/", "nic/"),  # their folders need the whole of these
    "apps/ompi": ("apps/ompi/", "nic/fabemu.h"),
}


def files():
    """Every source file, from the top."""
    for top in CODE:
        for folder, _, names in os.walk(os.path.join(TOP, top)):
            for name in names:
                if name.endswith((".c", ".h")):
                    yield os.path.relpath(os.path.join(folder, name), TOP)


def text_of(name):
    with open(os.path.join(TOP, name), encoding="utf-8") as f:
        return f.read()


def longest(path, folders):
    """The innermost of @folders that the file at @path is in; "" if it is in none."""
    return max((folder for folder in folders if path.startswith(folder + "/")), key=len, default="")


def libraries():
    """The folders that are libraries: for each its name and the names that it needs."""
    found = {}
    for top in CODE:
        for folder, _, names in os.walk(os.path.join(TOP, top)):
            folder = os.path.relpath(folder, TOP)
            if "meson.build" in names:
                for name, needs in NEEDS.findall(text_of(f"{folder}/meson.build")):
                    found[folder] = name, set(re.findall(r"\w+", needs))
    return found


def library_of(path, libs):
    """The folder of the library that the file at @path belongs to; "": of no library."""
    folder = longest(path, libs)
    return folder if len(folder) >= len(longest(path, MAY)) else ""


def is_judged(folder, other):
    """Has library @folder to list library @other? What is below apps is there for all of apps."""
    return bool(folder and other) and (other.startswith("apps/") or not folder.startswith("apps/"))


def library_errors(libs, included):
    """Errors in the libraries. @included: for each folder the folders that its files include."""
    builds = text_of("meson.build")
    wrong = []
    for folder, (name, needs) in libs.items():
        names = {libs[other][0] for other in libs if is_judged(folder, other)}
        if not f"_{folder}".replace("/", "_").endswith(f"_{name}"):
            wrong.append(f"{folder}/meson.build names its library {name}")
        if f"dependencies: {name}_needs" not in text_of(f"{folder}/meson.build") + builds:
            wrong.append(f"{folder}/meson.build does not build {name} with {name}_needs")
        used = {libs[other][0] for other in included.get(folder, ())}
        for other in sorted(used - needs):
            wrong.append(f"{folder} includes {other}, which {name}_needs does not list")
        for other in sorted((needs & names) - used):
            wrong.append(f"{folder}/meson.build lists {other}, and no file there includes it")
    try:
        graphlib.TopologicalSorter(included).prepare()
    except graphlib.CycleError as error:
        wrong.append("folders include each other in a circle: " + " <- ".join(error.args[1]))
    return wrong


def include_error(path, included, libs, library_includes):
    """Why the file at @path may not include @included, or None. An include from one library in
    another one is noted in @library_includes: library_errors() judges it."""
    if not os.path.exists(os.path.join(TOP, included)):
        return None  # beside it, or made by the build
    mine, its = library_of(path, libs), library_of(included, libs)
    if is_judged(mine, its):
        if mine != its:
            library_includes.setdefault(mine, set()).add(its)
        return None
    if included.startswith(MAY.get(longest(path, MAY), ())):
        return None
    return f"{path} includes {included}"


def version_of(name, pattern):
    return re.search(pattern, text_of(name), re.M)[1]


def versions():
    """Errors in the version for citations (CITATION.cff)."""
    cited = version_of("CITATION.cff", r"^version: (\S+)$")
    built = version_of("meson.build", r"^  version: '([^']+)'")
    return [] if cited == built else [f"CITATION.cff has version {cited}, meson.build {built}"]


def main():
    wrong, checked = versions(), 1
    libs, library_includes = libraries(), {}
    for path in files():
        for included in INCLUDE.findall(text_of(path)):
            checked += 1
            error = include_error(path, included, libs, library_includes)
            if error:
                wrong.append(error)
        folder, name = os.path.split(path)
        rooms = {d for d in os.listdir(os.path.join(TOP, os.path.dirname(folder) or "."))}
        prefix = name.split("_")[0] if "_" in name else ""
        checked += 1
        # the files of apps/cmd are named after subcommands, as some folders are
        if folder != "apps/cmd" and prefix in rooms - {os.path.basename(folder)}:
            wrong.append(f"{path} has the prefix of another folder")
    wrong += library_errors(libs, library_includes)
    for line in wrong:
        print(line)
    print(f"layers_test: looked at {checked} things, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
