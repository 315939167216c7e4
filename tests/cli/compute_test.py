#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""compute_test.py - the cost of computing in simulated time (fabemu run --compute, --call-ns), with
tests/mpi/compute.c.

   tests/cli/compute_test.py --fabemu build/fabemu [unittest options]
"""
import json
import os
import re
import shutil
import unittest

from cli_helpers import FabemuCase, main

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
            return out, err, json.load(file)["clock"]["compute"]

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

    def test_a_long_computation(self):
        """The library handles segments meanwhile, so peers do not give up, even after 30 s."""
        out = self.compute("--compute", "cpu:10000", arguments=("--iterations", "2"))[0]
        self.assertGreater(seconds(out), 1)

    def test_wrong_values(self):
        for options, why in ((("--compute", "cpu:0"), "a SCALE from"),
                             (("--compute", "cpu:"), "a SCALE from"),
                             (("--compute", "cpu:1x"), "a SCALE from"),
                             (("--compute", "gpu"), "it must be none, cpu"),
                             (("--call-ns", "-1"), "a time up to 1s"),
                             (("--call-ns", "2s"), "a time up to 1s")):
            done = self.fabemu("run", *VIRTUAL, *options, "--", "true")
            self.assertEqual(done.returncode, 2)
            self.assertIn(why, done.stderr)
        for option, value in (("--compute", "cpu"), ("--call-ns", "50")):
            done = self.fabemu("run", option, value, "--", "true")
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"{option} needs --clock virtual", done.stderr)


if __name__ == "__main__":
    main(jobs=2)
