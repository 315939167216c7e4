# SPDX-License-Identifier: BSD-3-Clause
"""telemetry_kit.py - what a reader of telemetry keeps: docs/telemetry.md."""


class View:
    """A fabric as its lines tell of it, one taken after the other."""

    def __init__(self, shape):
        self.shape = shape
        self.line = None
        self.links = {}
        self.states = {}
        self.switches = {}
        self.nodes = {}
        self.processes = {}
        self.waits = {}

    def take(self, line):
        """What is in @line replaces what was known."""
        self.line = line
        for name in ("links", "states", "switches", "nodes", "waits"):
            getattr(self, name).update({row[0]: row[1:] for row in line[name]})
        for process in line["processes"]:
            self.processes[process["node"]] = process

    def sent_by_nodes(self):
        """Segments on all cables that lead from nodes."""
        return sum(self.links.get(2 * i, [0])[0] for i, cable in enumerate(self.shape["cables"])
                   if not cable[2])

    def attached(self):
        return {node: p for node, p in self.processes.items() if p["pid"]}
