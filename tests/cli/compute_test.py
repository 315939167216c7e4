#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""compute_test.py - the cost of computing in simulated time (fabemu run --compute, --call-ns), with
tests/mpi/compute.c.

   tests/cli/compute_test.py --fabemu build/fabemu [unittest options]
"""
import contextlib
import json
import os
import re
import shutil
import unittest

from cli_helpers import FabemuCase, busy_host, flat, main

VIRTUAL = ("--clock", "virtual", "--topo", "kary:4,2")


def seconds(out):
    """Return the simulated time that the program has printed."""
    return float(re.search(r"iterations took ([\d.]+) s", out)[1])


@unittest.skipUnless(shutil.which("mpirun"), "needs Open MPI")
class ComputeTest(FabemuCase):
    def compute(self, *options, ranks=4, arguments=(), status=0):
        """Run the program. Return its output, the errors, and the report's object `compute`."""
        path = os.path.join(os.path.dirname(self.command), "tests", "mpi_compute")
        report = os.path.join(self.dir, "report.json")
        run = self.start("run", *VIRTUAL, *options, "--report", report, "--", "mpirun", "-np",
                         str(ranks), "--oversubscribe", path, *arguments)
        out, err = run.communicate(timeout=300)
        self.assertEqual(run.returncode, status, out + err)
        with open(report, encoding="utf-8") as file:
            report = json.load(file)
        self.digest = report["digest"]
        return out, err, report["clock"]["compute"]

    def test_none(self):
        out, _, compute = self.compute()
        self.assertEqual((compute["mode"], compute["computed_ns"]), ("none", 0))
        self.assertGreater(compute["calls"], 4 * 20 * 3)
        self.assertEqual(seconds(self.compute("--compute", "none")[0]), seconds(out))

    def test_calls_take_time(self):
        none = seconds(self.compute("--call-ns", "0")[0])
        slow = seconds(self.compute("--call-ns", "2us")[0])
        # an iteration posts a collective, a send and a receive; polls take time, too
        self.assertGreater(slow - none, 20 * 3 * 1.9e-6)

    def test_cpu(self):
        for option, scale in (("cpu", 1), ("cpu:3", 3), ("cpu:0.25", 0.25)):
            out, err, compute = self.compute("--compute", option)
            cpu = float(re.search(r"cpu: ([\d.]+) s", out)[1])
            self.assertGreater(seconds(out), cpu * scale)
            self.assertGreater(compute["computed_ns"], cpu * scale * 1e9)
            self.assertEqual(compute["unit_ps"], 1000 * scale)
            self.assertRegex(err, r"computing +cpu: [\d.]+ ms in all processes")

    def test_computing_between_tests(self):
        """After 10,000 polls in tests without computing, each would take up to 10 us."""
        out = self.compute("--compute", "cpu:0.01", ranks=2, arguments=("--tests", "6000"))[0]
        self.assertLess(float(re.search(r"tests took ([\d.]+) s", out)[1]), 0.01)

    def test_a_long_computation(self):
        """The library handles segments meanwhile, so peers do not give up, even after 30 s."""
        out = self.compute("--compute", "cpu:10000", arguments=("--iterations", "2"))[0]
        self.assertGreater(seconds(out), 1)

    def record(self, **arguments):
        """Record the program. Return the file's name, and the output."""
        path = os.path.join(self.dir, "calls")
        out, _, compute = self.compute("--compute", f"record:{path}", **arguments)
        self.assertEqual(compute["mode"], "record")
        return path, out

    def test_replay_on_a_busy_host(self):
        path, recorded = self.record()
        out, err, compute = self.compute("--compute", f"replay:{path}")
        self.assertEqual((compute["mode"], compute["differing"], compute["unused"]),
                         ("replay", 0, 0))
        self.assertRegex(err, "computing +replay")
        digest = self.digest
        # each iteration computes twice
        self.assertGreater(seconds(out), float(re.search(r"cpu: ([\d.]+) s", recorded)[1]))
        with contextlib.ExitStack() as stack:
            for _ in range(2):
                stack.enter_context(busy_host())
            for _ in range(2):
                again = self.compute("--compute", f"replay:{path}")[0]
                self.assertEqual((seconds(again), self.digest), (seconds(out), digest))

    def test_replay_on_another_network(self):
        path, _ = self.record()
        _, _, compute = self.compute("--compute", f"replay:{path}", "--profile", "qsnet3")
        self.assertEqual((compute["differing"], compute["unused"]), (0, 0))

    def test_replay_of_another_program(self):
        path, _ = self.record()
        _, err, compute = self.compute("--compute", f"replay:{path}", status=1,
                                       arguments=("--tail", "barrier"))
        self.assertEqual(compute["differing"], 4)
        self.assertRegex(err, r"rank 0, call \d+: the recording has the end of the process, the "
                              r"program made a barrier")
        self.assertRegex(err, r"rank 1, call \d+: the recording has the end of the process, the "
                              r"program made a receive of 4 bytes from node 1")
        self.assertIn("NOT REPLAYED: 4 processes made other calls", flat(err))
        _, err, compute = self.compute("--compute", f"replay:{path}", status=1, ranks=3)
        self.assertRegex(err, r"rank 0, call \d+: the recording has a receive of 8 bytes from node "
                              r"3, the program made a receive of 8 bytes from node 2")
        self.assertEqual(compute["unused"], 1)
        path_of = os.path.join(os.path.dirname(self.command), "tests", "mpi_compute")
        done = self.fabemu("run", *VIRTUAL, "--compute", f"replay:{path}", "--", "mpirun", "-np",
                           "5", "--oversubscribe", path_of)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("has no calls for this process of rank 4", done.stderr)

    def test_a_process_that_does_not_end_well(self):
        path = os.path.join(self.dir, "calls")
        run = self.start("run", *VIRTUAL, "--compute", f"record:{path}", "--", "mpirun", "-np", "4",
                         "--oversubscribe",
                         os.path.join(os.path.dirname(self.command), "tests", "mpi_compute"),
                         "--tail", "exit")
        out, err = run.communicate(timeout=300)
        self.assertNotEqual(run.returncode, 0, out + err)
        with open(path, "rb") as file:
            head = json.loads(file.readline())
        self.assertFalse(head["processes"][1]["ended"])
        done = self.fabemu("run", *VIRTUAL, "--compute", f"replay:{path}", "--", "true")
        self.assertEqual(done.returncode, 2)
        self.assertIn("did not end well", done.stderr)

    def test_wrong_files(self):
        path, _ = self.record(arguments=("--iterations", "2"))
        with open(path, "rb") as file:
            good = file.read()
        at = good.index(b"\n") + 1
        wrong = [b"", b"{}\n", b"hello\n", good[:at - 1], good + b"x", b"[" * 5000 + b"\n",
                 good.replace(b'"calls":1,', b'"calls":9,'),
                 good.replace(b'"rank":0', b'"rank":-1'),
                 good[:at] + bytes(len(good) - at), good[:at] + b"\xff" * (len(good) - at)]
        wrong += [good[:end] for end in range(at, len(good), 31)]
        for text in wrong:
            with open(path, "wb") as file:
                file.write(text)
            done = self.fabemu("run", *VIRTUAL, "--compute", f"replay:{path}", "--", "true")
            self.assertEqual(done.returncode, 2, text)
            self.assertRegex(done.stderr, rf"^fabemu: --compute: {path}(:| is) ")
        with open(path, "wb") as file:
            file.write(re.sub(rb'"processes":\[.*\]', b'"processes":[]', good[:at]))
        done = self.fabemu("run", *VIRTUAL, "--compute", f"replay:{path}", "--", "true")
        self.one_line(done, 2, "its list of processes is empty")
        for name, why in (("missing/calls", "No such file"), (".", "Is a directory")):
            done = self.fabemu("run", *VIRTUAL, "--compute",
                               f"replay:{os.path.join(self.dir, name)}", "--", "true")
            self.one_line(done, 2, why)
        done = self.fabemu("run", *VIRTUAL, "--compute", f"record:{self.dir}/missing/calls", "--",
                           "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write calls to", done.stderr)

    def test_a_refused_run_keeps_the_recording(self):
        path = os.path.join(self.dir, "kept")
        with open(path, "w", encoding="utf-8") as file:
            file.write("kept")
        for command in ("true", "./missing"):
            self.fabemu("run", *VIRTUAL, "--compute", f"record:{path}", "--", command)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), "kept")

    def test_count(self):
        done = self.fabemu("run", *VIRTUAL, "--compute", "count", "--", "true")
        if "--compute count" in done.stderr:  # most virtual machines have no counters
            self.assertEqual(done.returncode, 1)
            self.assertIn("the kernel does not count the instructions", done.stderr)
            self.assertNotIn("report", done.stderr)
            return
        out, _, compute = self.compute("--compute", "count:2")
        self.assertEqual((compute["mode"], compute["unit_ps"]), ("count", 2000))
        self.assertGreater(compute["computed_ns"], 4 * 20 * 2 * 10000)
        self.assertGreater(seconds(out), seconds(self.compute()[0]))

    def test_wrong_values(self):
        for options, why in ((("--compute", "cpu:0"), "SCALE and NS are from"),
                             (("--compute", "cpu:"), "SCALE and NS are from"),
                             (("--compute", "cpu:1x"), "SCALE and NS are from"),
                             (("--compute", "gpu"), "it must be none, cpu"),
                             (("--compute", "count:x"), "SCALE and NS are from"),
                             (("--compute", "record"), "record:FILE"),
                             (("--compute", "replay:"), "replay:FILE"),
                             (("--compute", "rebuild:x"), "replay:FILE"),
                             (("--call-ns", "-1"), "a time up to 1s"),
                             (("--call-ns", "2s"), "a time up to 1s"),
                             (("--date", "0"), "a number from 1 to 4294967295"),
                             (("--date", "4294967296"), "a number from 1 to 4294967295"),
                             (("--date", "2001-09-09"), "a number from 1 to 4294967295")):
            done = self.fabemu("run", *VIRTUAL, *options, "--", "true")
            self.assertEqual(done.returncode, 2)
            self.assertIn(why, done.stderr)
        for option, value in (("--compute", "cpu"), ("--call-ns", "50"), ("--goal", "x"),
                              ("--date", "1000000000")):
            done = self.fabemu("run", option, value, "--", "true")
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"{option} needs --clock virtual", done.stderr)
        done = self.fabemu("run", "--tsc", "--", "true")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--tsc needs --clock virtual", done.stderr)


if __name__ == "__main__":
    main(jobs=2)
