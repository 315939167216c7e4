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
ROW = re.compile(r"^SLOWER\((\w+), (\w+), (\d+), (\d+), SIZE_MAX\)$", re.MULTILINE)
PROFILES = {"CREDITS": "oq2004", "ACKNOWLEDGED": "qsnet3"}
CALLS = 4


@unittest.skipUnless(shutil.which("mpirun"), "needs Open MPI")
class SlowerTest(FabemuCase):
    def setUp(self):
        super().setUp()
        # two ranks, so that the test is quick; the table has rows for two ranks
        self.ranks = 2
        self.rows = [(transport, kind.lower(), int(size)) for transport, kind, ranks, size
                     in ROW.findall(TABLE.read_text()) if ranks == "2"]
        self.transport, _, self.size = next(row for row in self.rows if row[1] == "reduce")

    def counts(self, program, *arguments, options=()):
        """The report's counts of collectives of a program."""
        report = os.path.join(self.dir, "report.json")
        program = os.path.join(os.path.dirname(self.command), "tests", program)
        done = self.fabemu("run", "--topo", "kary:2,2", "--report", report, *options, "--",
                           "mpirun", "-np", str(self.ranks), program, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(report) as f:
            return json.load(f)["collectives"]

    def calls(self, transport, kind, size, *options):
        """The report's count of collectives of @kind, of @size bytes."""
        op = {"broadcast": "bcast"}.get(kind, kind)
        return self.counts("mpi_allreduce_bench", "--op", op, "--bytes", str(size or 8),
                           "--warmup", "0", "--iterations", str(CALLS),
                           options=("--profile", PROFILES[transport], *options))[kind]

    def reduces(self, size, *options):
        return self.calls(self.transport, "reduce", size, *options)

    def test_each_collective_of_the_table__uses_messages(self):
        for kind in "broadcast", "reduce", "allreduce", "barrier":
            for transport, _, size in (row for row in self.rows if row[1] == kind):
                with self.subTest(kind=kind, transport=transport):
                    why = self.calls(transport, kind, size)["why"]
                    self.assertGreaterEqual(why.get("slower", 0), CALLS)

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
