#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rooms_test - the tree is in order: which folder includes which, and the prefixes of file names.

docs/ARCHITECTURE.md draws the rooms; this is what holds them to it. Each folder of apps is a
library of its name. Its meson.build lists in NAME_needs what the library is built with, and the
folder may include nothing else."""
import graphlib
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CODE = ("emu", "topo", "switch", "nic", "apps")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
NEEDS = re.compile(r"^(\w+)_needs = \[([^\]]*)\]", re.M)
# A folder, and the beginnings of what its files may include. The longest folder that fits counts.
MAY = {
    "emu": ("emu/",),
    "topo": ("emu/bits.h", "emu/ports.h", "emu/random.h", "topo/"),
    "switch": ("emu/", "topo/", "switch/"),
    "nic": (),
    "nic/host": ("emu/", "nic/host/", "nic/fabemu.h"),
    "nic/engine": ("emu/", "nic/engine/"),
    "nic/ofi": ("nic/ofi/", "nic/fabemu.h"),
    "apps": ("emu/", "topo/", "switch/", "nic/", "apps/"),  # of apps/: libraries()
    "apps/ompi": ("apps/ompi/", "nic/fabemu.h"),
}
# The files of libfabemu, lowest first: each may include the headers of those before it, so that
# nobody calls in a circle.
HOST_ORDER = """
base/adapter base/wire base/base tx/up base/complete base/lock base/peer base/watched base/op
tx/answer tx/bulk rx/queue rx/notice rx/message rx/end rx/atomic rx/region rx/serve peer/hello
peer/gone peer/meet peer/bye tx/request api/transfer group/group group/stream group/condition
group/broadcast group/send group/break group/receive group/word progress/receive progress/pending
progress/watch progress/step progress/wait control/line control/control api/event api/abort
api/open api/message group/coll group/symmetric group/put group/member api/leave api/life
progress/thread api/attach
""".split()
# libfabemu lives in the application's process: of emu it has these alone.
HOST_OF_EMU = {"emu/edge/bounds.h", "emu/edge/edge.h", "emu/edge/finished.h",
               "emu/edge/pending.h", "emu/link/seg.h", "emu/worker/wait.h", "emu/bits.h",
               "emu/combine.h", "emu/json.h", "emu/list.h", "emu/now.h", "emu/random.h"}


def files():
    """Every source file, from the top."""
    for top in CODE:
        for folder, _, names in os.walk(os.path.join(TOP, top)):
            for name in names:
                if name.endswith((".c", ".h")):
                    yield os.path.relpath(os.path.join(folder, name), TOP)


def allowed(path, included):
    """May the file at @path include @included?"""
    room = max((r for r in MAY if path.startswith(r + "/")), key=len)
    if not os.path.exists(os.path.join(TOP, included)):
        return True  # beside it, or made by the build
    if room == "nic/host" and included.startswith("emu/"):
        return included in HOST_OF_EMU
    return included.startswith(MAY[room])


def text_of(name):
    with open(os.path.join(TOP, name), encoding="utf-8") as f:
        return f.read()


def libraries():
    """The folders of apps that are libraries: for each its name and the names that it needs."""
    found = {}
    for folder, _, names in os.walk(os.path.join(TOP, "apps")):
        folder = os.path.relpath(folder, TOP)
        if "meson.build" in names:
            for name, needs in NEEDS.findall(text_of(os.path.join(folder, "meson.build"))):
                found[folder] = name, set(re.findall(r"\w+", needs))
    return found


def library_of(path, libs):
    """The folder of the library that the file at @path belongs to; None: of no library."""
    return max((folder for folder in libs if path.startswith(folder + "/")), key=len, default=None)


def library_errors(libs, included):
    """Errors in the libraries. @included: for each folder the folders that its files include."""
    builds = text_of("meson.build")
    names = {name for name, _ in libs.values()}
    wrong = []
    for folder, (name, needs) in libs.items():
        if name != os.path.basename(folder):
            wrong.append(f"{folder}/meson.build names its library {name}")
        if f"dependencies: {name}_needs" not in text_of(f"{folder}/meson.build") + builds:
            wrong.append(f"{folder}/meson.build does not build {name} with {name}_needs")
        used = {libs[other][0] for other in included.get(folder, ())}
        for other in sorted(used - needs):
            wrong.append(f"{folder} includes {other}, which {name}_needs does not list")
        for other in sorted((needs & names) - used):
            wrong.append(f"{folder}/meson.build lists {other}, and no file there includes it")
    try:
        graphlib.TopologicalSorter(
            {folder: others - {folder} for folder, others in included.items()}).prepare()
    except graphlib.CycleError as error:
        wrong.append("folders include each other in a circle: " + " <- ".join(error.args[1]))
    return wrong


def host_rank(path):
    """Where the file at @path stands in libfabemu's order; None for files that are not in it."""
    name = os.path.splitext(path)[0].removeprefix("nic/host/")
    return HOST_ORDER.index(name) if path.startswith("nic/host/") and name in HOST_ORDER else None


def circular(path, included):
    """Does the file at @path, of libfabemu, include what stands above it?"""
    if not path.startswith("nic/host/") or not included.startswith("nic/host/"):
        return False
    mine, its = host_rank(path), host_rank(included)
    return mine is None or its is None or its > mine


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
        mine = library_of(path, libs)
        for included in INCLUDE.findall(text_of(path)):
            checked += 1
            its = library_of(included, libs)
            if its and os.path.exists(os.path.join(TOP, included)):
                if mine and mine != its:
                    library_includes.setdefault(mine, set()).add(its)
                elif not mine:
                    wrong.append(f"{path}, of no library of apps, includes {included}")
            if not allowed(path, included):
                wrong.append(f"{path} includes {included}")
            elif circular(path, included):
                wrong.append(f"{path} includes {included}, which stands above it (HOST_ORDER)")
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
    print(f"rooms_test: looked at {checked} things, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
