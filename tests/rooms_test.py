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
    "emu": ("emu/",),
    "topo": ("emu/bits.h", "emu/ports.h", "emu/random.h", "topo/"),
    "switch": ("emu/", "topo/", "switch/"),
    "nic": (),
    "nic/host": ("emu/", "nic/host/", "nic/fabemu.h"),
    "nic/engine": ("emu/", "nic/engine/"),
    "nic/ofi": ("nic/ofi/", "nic/fabemu.h"),
    "apps": ("",),
    "apps/ompi": ("apps/ompi/", "nic/fabemu.h"),
}
# The files of libfabemu, lowest first: each may include the headers of those before it, so that
# nobody calls in a circle.
HOST_ORDER = """
adapter wire base send/up op/complete lock peer/peer op/watched op/op
send/answer send/bulk
message/queue message/notice message/message message/end
memory/atomic memory/region memory/serve
peer/hello peer/gone peer/meet peer/bye
send/request memory/transfer
group/group group/stream group/condition group/broadcast group/send group/break group/receive
group/word
receive progress/pending progress/watch progress/step progress/wait
control/line control/control
op/event op/abort message/open message/post group/coll group/symmetric group/put group/member
peer/leave life progress/thread control/attach
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
    with open(os.path.join(TOP, name), encoding="utf-8") as f:
        return re.search(pattern, f.read(), re.M)[1]


def versions():
    """Errors in the version for citations (CITATION.cff)."""
    cited = version_of("CITATION.cff", r"^version: (\S+)$")
    built = version_of("meson.build", r"^  version: '([^']+)'")
    return [] if cited == built else [f"CITATION.cff has version {cited}, meson.build {built}"]


def main():
    wrong, checked = versions(), 1
    for path in files():
        with open(os.path.join(TOP, path), encoding="utf-8") as f:
            text = f.read()
        for included in INCLUDE.findall(text):
            checked += 1
            if not allowed(path, included):
                wrong.append(f"{path} includes {included}")
            elif circular(path, included):
                wrong.append(f"{path} includes {included}, which stands above it (HOST_ORDER)")
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
