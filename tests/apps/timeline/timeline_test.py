#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""timeline_test.py - a run's report on its program's communication, and its timeline.

   tests/apps/timeline/timeline_test.py --fabemu build/fabemu [unittest options]
"""
import collections
import json
import os
import re
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 2,
                                "cli"))
from cli_helpers import FabemuCase, main, until  # noqa: E402

NODES = 4


class Timeline:
    """A file in Chrome's trace-event format, read strictly."""

    def __init__(self, path):
        with open(path) as f:
            whole = json.load(f)
        self.events = whole["traceEvents"]
        self.other = whole["otherData"]
        self.path = path

    def named(self, *names):
        return [e for e in self.events if e["ph"] == "X" and e["name"] in names]

    def check(self, case):
        """Times rise in each thread and nothing overlaps, all threads have names, the counts in
        the file are right, and arrows point forward."""
        end, named, flows = {}, set(), collections.defaultdict(dict)
        for event in self.events:
            at = event["pid"], event["tid"]
            if event["ph"] == "M":
                named.add(at)
            elif event["ph"] in "Xi":
                case.assertIn(at, named)
                case.assertGreaterEqual(event["ts"] + 1e-6, end.get(at, 0), event)
                end[at] = event["ts"] + event.get("dur", 0)
            elif event["ph"] in "sf":
                case.assertNotIn(event["ph"], flows[event["id"]])
                flows[event["id"]][event["ph"]] = event["ts"]
        for ends in flows.values():
            case.assertLessEqual(ends.get("s", 0), ends.get("f", float("inf")))
        kept = self.other["kept"]
        case.assertEqual(len(self.named("send")), kept["sends"])
        case.assertEqual(len(self.named("receive")), kept["receives"])
        case.assertEqual(len(self.named("barrier", "broadcast", "reduce", "allreduce")),
                         kept["collectives"])
        case.assertEqual(len([e for e in self.events if e.get("cat") == "process"]),
                         kept["processes"])
        return flows


class Program(FabemuCase):
    """A program whose messages and collectives are all known: apps/example.c."""

    def setUp(self):
        super().setUp()
        self.file = os.path.join(self.dir, "timeline")
        self.report = os.path.join(self.dir, "report")
        program = os.path.join(os.path.dirname(self.command), "apps", "example")
        line = "".join(f"FABEMU_NODE={i} {program} {NODES} & " for i in range(NODES)) + "wait"
        self.command_line = ["--", "sh", "-c", line]

    def run_it(self, *options):
        done = self.fabemu("run", "--topo", "kary:2,2", "--report", self.report, *options,
                           *self.command_line)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.report) as f:
            return done, json.load(f)

    def test_parts_of_a_timeline__are_refused_without_one(self):
        for words in (("--timeline-bytes", "8"), ("--timeline-limit", "256MiB")):
            done = self.fabemu("run", *words, "--", "true")
            self.assertEqual(done.returncode, 2)
            self.assertIn(words[0] + " needs --timeline FILE", done.stderr)

    def test_report(self):
        done, report = self.run_it()
        section = report["communication"]
        calls = {(c["kind"], c["bytes_most"]): c for c in section["collectives"]}
        self.assertEqual(set(calls), {("barrier", 0), ("allreduce", 8)})
        for one, size in ((calls["barrier", 0], 0), (calls["allreduce", 8], 8)):
            self.assertEqual((one["calls"], one["sampled"]), (NODES, NODES))
            self.assertEqual(one["bytes"], NODES * size)
            self.assertEqual(one["where"], "switches")
            times = one["time_ns"]
            self.assertLessEqual(times["mean"], times["longest"])
            self.assertLessEqual(times["longest"], times["sum"])
            parts = one["wait_ns"]["sum"] + one["network_ns"]["sum"]
            self.assertLessEqual(abs(parts - times["sum"]), 1)
        matrix = {(row[0], row[1]): tuple(row[2:]) for row in section["messages"]["matrix"]}
        ring = {(i, (i + 1) % NODES): (1, 4) for i in range(NODES)}
        ring.update({(0, i): (1, 4) for i in range(2, NODES)})
        ring[0, 1] = (2, 8)  # the group's address, and the token
        self.assertEqual(matrix, ring)
        self.assertEqual(section["messages"]["messages"], sum(m for m, _ in ring.values()))
        self.assertEqual(section["messages"]["bytes"], sum(b for _, b in ring.values()))
        self.assertEqual(section["messages"]["not_listed"], {"pairs": 0, "messages": 0, "bytes": 0})
        # from 0 to 1 twice, from 2 to 3
        self.assertEqual(section["messages"]["within_switch"]["messages"], 3)
        self.assertNotIn("timeline", report)
        self.assertIn("7 of 28 B in all, between 6 pairs of nodes\n" + 15 * " " +
                      "43 % of the bytes within a switch", done.stderr)

    def test_timeline(self):
        _, report = self.run_it("--timeline", self.file, "--timeline-bytes", "0")
        timeline = Timeline(self.file)
        flows = timeline.check(self)
        self.assertEqual(len(timeline.named("barrier")), NODES)
        self.assertEqual(len(timeline.named("allreduce")), NODES)
        self.assertEqual(len(timeline.named("send")), 7)
        self.assertEqual(len(timeline.named("receive")), 7)
        self.assertEqual({frozenset(ends) for ends in flows.values()}, {frozenset("sf")})
        self.assertEqual(len(flows), 7)
        for event in timeline.named("send"):
            self.assertEqual(event["args"]["bytes"], 4)
        self.assertEqual({e["pid"] for e in timeline.named("barrier")}, set(range(NODES)))
        self.assertEqual(timeline.other["missed"], 0)
        self.assertEqual(set(timeline.other["left_out"].values()), {0})
        section = report["timeline"]
        self.assertEqual(section["kept"], timeline.other["kept"])
        self.assertTrue(section["whole"])
        self.assertEqual(section["bytes"], os.path.getsize(self.file))
        words = [e["name"].split(":")[0] for e in timeline.events if e.get("cat") == "process"]
        self.assertEqual(collections.Counter(words), {"attached": NODES, "left": NODES})

    def test_no_short_messages_unless_asked_for(self):
        self.run_it("--timeline", self.file)
        timeline = Timeline(self.file)
        timeline.check(self)
        self.assertEqual(timeline.other["kept"]["sends"] + timeline.other["kept"]["receives"], 0)
        self.assertEqual(timeline.other["kept"]["collectives"], 2 * NODES)

    def test_invalid_options_are_refused(self):
        for options, words in ((("--timeline", "/no/such"), "choose another --timeline"),
                               (("--timeline", "/dev/null"), "choose another --timeline"),
                               (("--timeline", self.file, "--timeline-bytes", "-1"), "bytes"),
                               (("--timeline", self.file, "--timeline-limit", "0"), "MiB")):
            done = self.fabemu("run", *options, "--", "true")
            self.one_line(done, 1 if "another" in words else 2, words)


class Mpi(FabemuCase):
    """MPI programs that run until they are killed."""

    def setUp(self):
        super().setUp()
        self.file = os.path.join(self.dir, "timeline")
        self.report = os.path.join(self.dir, "report")
        self.env.update({"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                         "OMPI_MCA_rmaps_base_oversubscribe": "1"})

    def running(self, seconds, *options):
        program = os.path.join(os.path.dirname(self.command), "tests", "mpi_rounds")
        run = self.start("run", "--topo", "kary:2,2", "--name", "r", "--timeline", self.file,
                         "--report", self.report, *options, "--", "mpirun", "-np", str(NODES),
                         program, "--seconds", str(seconds))
        return run

    def running_well(self, seconds):
        """The same, once it has started."""
        run = self.running(seconds)
        self.assertTrue(until(lambda: os.path.exists(self.socket_path("r"))))
        self.assertTrue(until(lambda: os.path.getsize(self.file) > 20000), "nothing is told")
        return run

    def test_a_process_that_dies_leaves_a_file(self):
        run = self.running_well(60)
        victim = self.status("r")["attached"][1]
        os.kill(victim["pid"], signal.SIGKILL)
        run.communicate(timeout=30)
        timeline = Timeline(self.file)
        timeline.check(self)
        died = [e for e in timeline.events if e["name"].startswith("died")]
        self.assertIn(victim["node"], {e["pid"] for e in died})
        self.assertTrue(timeline.named("allreduce"))

    def test_a_fabric_that_dies_leaves_a_file(self):
        run = self.running_well(60)
        status = self.status("r")
        for process in status["attached"]:
            os.kill(process["pid"], signal.SIGSTOP)
        size = None
        while size != os.path.getsize(self.file):  # nothing is written any more
            size = os.path.getsize(self.file)
            self.status("r")
        os.kill(status["pid"], signal.SIGKILL)
        run.communicate(timeout=30)
        timeline = Timeline(self.file)
        timeline.check(self)
        self.assertTrue(timeline.named("allreduce"))

    def test_mpi_messages(self):
        self.env["OMPI_MCA_coll_fabemu_enable"] = "0"
        run = self.running(0)
        out, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0, err)
        rounds = int(re.match(r"(\d+) rounds", out).group(1))
        with open(self.report) as f:
            section = json.load(f)["communication"]
        one = next(c for c in section["collectives"] if c["kind"] == "allreduce")
        self.assertEqual((one["where"], one["calls"], one["bytes"]),
                         ("elsewhere", NODES * rounds, NODES * rounds * 8))
        self.assertEqual({c["where"] for c in section["collectives"]}, {"elsewhere"})
        self.assertNotIn("wait_ns", one)
        self.assertGreater(section["messages"]["messages"], 2 * NODES * rounds)

    def test_a_long_run_fits_its_bound(self):
        run = self.running(1, "--timeline-limit", "1MiB")
        out, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0, err)
        self.assertLessEqual(os.path.getsize(self.file), 1 << 20)
        timeline = Timeline(self.file)
        timeline.check(self)
        with open(self.report) as f:
            report = json.load(f)
        rounds = int(re.match(r"(\d+) rounds", out).group(1))
        calls = collections.Counter()
        for one in report["communication"]["collectives"]:
            calls[one["kind"]] += one["calls"]
            self.assertLessEqual(one["time_ns"]["mean"], one["time_ns"]["longest"])
        self.assertEqual(calls["allreduce"], NODES * rounds)
        self.assertEqual(calls["reduce"], NODES)
        other = timeline.other
        listed = other["kept"]["collectives"] + other["left_out"]["collectives"]
        self.assertGreaterEqual(listed + other["missed"], sum(calls.values()))
        self.assertEqual(report["timeline"]["left_out"], other["left_out"])
        if other["left_out"]["collectives"]:
            self.assertIn("the timeline has reached 1.00 MiB; later", err)
            self.assertIn("did not fit into the file", err)


if __name__ == "__main__":
    main()
