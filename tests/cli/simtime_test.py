#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""simtime_test.py - MPI programs in simulated time (tests/mpi/simtime.c): equal output in each run,
also on a busy host; the times that fabemu traffic computes; and what is refused.

   tests/cli/simtime_test.py --fabemu build/fabemu [unittest options]
"""
import json
import os
import re
import shutil
import unittest

from cli_helpers import FabemuCase, busy_host, main

VIRTUAL = ("--clock", "virtual", "--topo", "kary:4,2")


@unittest.skipUnless(shutil.which("mpirun"), "needs Open MPI")
class SimtimeTest(FabemuCase):
    def simulate(self, ranks, *options, program="mpi_simtime"):
        """Run the program. Return its output and the report's description of the clock."""
        path = os.path.join(os.path.dirname(self.command), "tests", program)
        report = os.path.join(self.dir, "report.json")
        run = self.start("run", *VIRTUAL, *options, "--report", report, "--", "mpirun", "-np",
                         str(ranks), "--oversubscribe", path, "--iterations", "10")
        out, err = run.communicate(timeout=300)
        self.assertEqual(run.returncode, 0, out + err)
        with open(report, encoding="utf-8") as file:
            return out, json.load(file)["clock"]

    def check_equal(self, ranks, *options):
        out, clock = self.simulate(ranks, *options)
        self.assertRegex(out, r"simtime: [1-9]\d* checks passed, 0 failed")
        self.assertEqual(clock["late_posts"], 0)
        self.assertEqual(self.simulate(ranks, *options)[0], out)
        with busy_host():
            self.assertEqual(self.simulate(ranks, *options)[0], out)
        return out

    def test_oq2004(self):
        out = self.check_equal(2)
        traffic = json.loads(self.fabemu(
            "traffic", "--topo", "kary:4,2", "--pattern", "allreduce", "--group-size", "2",
            "--bytes", "8", "--operations", "10", "--json").stdout)
        measured = float(re.search(r"all-reduce of 8 bytes: ([\d.]+) us", out)[1]) * 1000
        # the program reads the clock once, which takes 20 ns, for 10 operations
        self.assertAlmostEqual(measured, traffic["collectives"]["mean_ns"] + 20 / 10, delta=1)

    def test_qsnet3(self):
        self.check_equal(4, "--profile", "qsnet3")

    def test_many_ranks(self):
        self.check_equal(16, "--profile", "qsnet3", "--threads", "2")

    def test_refusals(self):
        for options, why in ((("--profile", "qsnet3", "--faults", "flap"), "fabemu traffic only"),
                             (("--set", "nic_send_ps=0", "--profile", "qsnet3"), "nic_send_ps")):
            done = self.fabemu("run", *VIRTUAL, *options, "--", "true")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(why, done.stderr)

    def test_a_program_without_mpi_keeps_its_clocks(self):
        done = self.fabemu("run", *VIRTUAL, "--", "sh", "-c", "sleep 0.1; date +%Y")
        self.assertRegex(done.stdout, r"^20\d\d$")


if __name__ == "__main__":
    main(jobs=2)
