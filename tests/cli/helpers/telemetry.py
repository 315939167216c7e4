# SPDX-License-Identifier: BSD-3-Clause
"""telemetry.py - a reader of telemetry, and a parser of metrics (docs/telemetry.md)."""
import re


class View:
    """The state of a fabric, updated from its lines one by one."""

    def __init__(self, shape):
        self.shape = shape
        self.line = None
        self.links = {}
        self.states = {}
        self.switches = {}
        self.nodes = {}
        self.processes = {}
        self.finished = {}
        self.waits = {}

    def take(self, line):
        """Values in @line replace the previous ones."""
        self.line = line
        for name in ("links", "states", "switches", "nodes", "waits"):
            getattr(self, name).update({row[0]: row[1:] for row in line[name]})
        self.finished.update({(row[0], row[1]): row[2:] for row in line["finished"]})
        for process in line["processes"]:
            self.processes[process["node"]] = process

    def sent_by_nodes(self):
        """Segments on all cables from nodes."""
        return sum(self.links.get(2 * i, [0])[0] for i, cable in enumerate(self.shape["cables"])
                   if not cable[2])

    def attached(self):
        return {node: p for node, p in self.processes.items() if p["pid"]}


SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? ([0-9]+(?:\.[0-9]+)?)')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
META = re.compile(r'# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.*)')


def labels_of(text):
    """{name: value} of the labels between the braces; nothing else may be there."""
    found, at = {}, 0
    while at < len(text):
        match = LABEL.match(text, at)
        assert match, f"labels {text!r}"
        assert match[1] not in found, f"label {match[1]} twice"
        found[match[1]] = match[2]
        at = match.end()
    return found


def parse_metrics(text):
    """{family: {"type", "samples": {labels: value}}} from Prometheus' text format, version 0.0.4.

    Strict: every family has HELP, then TYPE, then all of its samples, once; no sample occurs twice;
    a counter's name ends in _total, a gauge's does not; times are in seconds.
    """
    families, current, helped = {}, None, None
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        meta = META.fullmatch(line)
        if meta and meta[1] == "HELP":
            assert meta[2] not in families and meta[3].strip(), line
            helped = meta[2]
        elif meta:
            assert meta[2] == helped and meta[3] in ("counter", "gauge"), line
            assert meta[2].endswith("_total") == (meta[3] == "counter"), line
            assert not re.search(r"(nano|micro|milli)seconds|_[num]s(_|$)", meta[2]), line
            current, helped = meta[2], None
            families[current] = {"type": meta[3], "samples": {}}
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample and sample[1] == current and not helped, line
            labels = tuple(sorted(labels_of(sample[2] or "").items()))
            assert labels not in families[current]["samples"], line
            families[current]["samples"][labels] = (float if "." in sample[3] else int)(sample[3])
    return families
