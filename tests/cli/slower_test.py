#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""slower_test.py - MPI collectives that use messages because measurements found these to be
faster.

   tests/cli/slower_test.py --fabemu build/fabemu [unittest options]
"""
import json
import os
import pathlib
import re
import shutil
import unittest

from cli_helpers import FabemuCase, main

TABLE = pathlib.Path(__file__).parent.parent.parent / "apps/ompi/slower.def"
ROW = re.compile(r"^SLOWER\((\w+), REDUCE, (\d+), (\d+), SIZE_MAX\)$", re.MULTILINE)
PROFILES = {"CREDITS": "oq2004", "ACKNOWLEDGED": "qsnet3"}
CALLS = 4


@unittest.skipUnless(shutil.which("mpirun"), "needs Open MPI")
class SlowerTest(FabemuCase):
    def setUp(self):
        super().setUp()
        # two ranks, so that the test is quick; the table has rows for two ranks
        self.transport, ranks, size = next(row for row in ROW.findall(TABLE.read_text())
                                           if row[1] == "2")
        self.ranks, self.size = int(ranks), int(size)

    def counts(self, program, *arguments, options=()):
        """The report's counts of collectives of a program."""
        report = os.path.join(self.dir, "report.json")
        program = os.path.join(os.path.dirname(self.command), "tests", program)
        done = self.fabemu("run", "--topo", "kary:2,2", "--report", report, *options, "--",
                           "mpirun", "-np", str(self.ranks), program, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(report) as f:
            return json.load(f)["collectives"]

    def reduces(self, size, *options):
        """The report's count of reduces of @size bytes."""
        return self.counts("mpi_allreduce_bench", "--op", "reduce", "--bytes", str(size),
                           "--warmup", "0", "--iterations", str(CALLS),
                           options=("--profile", PROFILES[self.transport], *options))["reduce"]

    def test_from_the_measured_size_on__messages_are_used(self):
        count = self.reduces(self.size)
        self.assertEqual(count["why"].get("slower"), CALLS)

    def test_below_the_measured_size__the_network_is_used(self):
        count = self.reduces(self.size - 8)
        self.assertNotIn("slower", count["why"])
        self.assertGreaterEqual(count["in_switch"] + count["in_adapter"], CALLS)

    def test_the_parameter_is_off__the_network_is_used(self):
        self.env["OMPI_MCA_coll_fabemu_step_aside"] = "0"
        self.assertNotIn("slower", self.reduces(self.size)["why"])

    def test_clock_real__the_network_is_used(self):
        self.assertNotIn("slower", self.reduces(self.size, "--clock", "real")["why"])

    def test_a_non_blocking_reduction__the_network_is_used(self):
        count = self.counts("mpi_overlap_bench", "--rounds", "2", "--sleep")["allreduce"]
        self.assertNotIn("slower", count["why"])
        self.assertGreater(count["in_switch"], CALLS)


if __name__ == "__main__":
    main()
