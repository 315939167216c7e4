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
import subprocess
import unittest

from cli_helpers import FabemuCase, main

TABLE = pathlib.Path(__file__).parent.parent.parent / "apps/ompi/slower.def"
ROW = re.compile(r"^SLOWER\((\w+), (\w+), (\d+), (\d+), (\w+)\)$", re.MULTILINE)
PROFILES = {"CREDITS": "oq2004", "ACKNOWLEDGED": "qsnet3"}
CALLS = 4
SHARE = 64  # bytes; the share of each rank is a multiple of it
MOST = 4 << 20  # bytes; the largest size that mpi_compare_bench can use
# bytes; messages are faster at all larger sizes, on every clock (slower.c)
BLOCKS = {"GATHER": 1 << 20, "SCATTER": 1 << 20, "SCAN": 1 << 20, "ALLTOALL": 1 << 14}


@unittest.skipUnless(shutil.which("mpirun"), "needs Open MPI")
class SlowerTest(FabemuCase):
    def setUp(self):
        super().setUp()
        # two ranks, so that most tests are quick; the table has rows for two ranks
        self.ranks = 2
        self.rows = [(transport, kind, int(ranks), int(first),
                      MOST if last == "SIZE_MAX" else int(last))
                     for transport, kind, ranks, first, last in ROW.findall(TABLE.read_text())]
        self.transport, self.size = next(
            (transport, first) for transport, kind, ranks, first, _ in self.rows
            if kind == "REDUCE" and ranks == self.ranks)

    def counts(self, program, *arguments, options=()):
        """The report's counts of collectives of a program."""
        report = os.path.join(self.dir, "report.json")
        program = os.path.join(os.path.dirname(self.command), "tests", program)
        done = self.fabemu("run", "--nodes", "16", "--report", report, *options, "--",
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

    def sizes(self, kind, ranges):
        """The first and last sizes inside and outside the ranges of a collective."""
        if kind == "BARRIER":
            return {0}
        step = SHARE * self.ranks
        before = {(edge - 1) // step for first, last in ranges for edge in (first, last + 1)}
        return {steps * step for b in before for steps in (1, b, b + 1)
                if 1 <= steps <= MOST // step}

    def check_rows(self, transport):
        """Call each collective of the table at the ends of its ranges and next to them, and check
        how many calls used messages."""
        calls, expected = [], {}
        rows = [row[1:] for row in self.rows if row[0] == transport]
        for kind in sorted({kind for kind, ranks, *_ in rows if ranks == self.ranks}):
            ranges = [row[2:] for row in rows if row[:2] == (kind, self.ranks)]
            if kind in BLOCKS:
                ranges.append((BLOCKS[kind] + 1, MOST))
            sizes = self.sizes(kind, ranges)
            calls += [f"{kind}:{size}" for size in sizes]
            slower = sum(any(first <= size <= last for first, last in ranges) for size in sizes)
            expected[kind.lower()] = slower, len(sizes) - slower
        counts = self.counts("mpi_compare_bench", "--calls", ",".join(calls),
                             options=("--profile", PROFILES[transport]))
        for kind, (slower, network) in expected.items():
            with self.subTest(kind=kind, transport=transport, ranks=self.ranks):
                count = counts[kind]
                if kind == "barrier":  # MPI_Init and MPI_Finalize may call more of them
                    self.assertGreaterEqual(count["why"].get("slower", 0), slower)
                    continue
                self.assertEqual(count["why"].get("slower", 0), slower, calls)
                self.assertEqual(count["in_switch"] + count["in_adapter"] > 0, network > 0, calls)

    def test_each_row_of_the_table__holds_from_its_first_to_its_last_size(self):
        for self.ranks in sorted({ranks for _, _, ranks, *_ in self.rows}):
            for transport in PROFILES:
                self.check_rows(transport)

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

    def test_an_unknown_collective_of_the_benchmark__is_an_error(self):
        bench = os.path.join(os.path.dirname(self.command), "tests", "mpi_compare_bench")
        for calls, words in (("FOO:8", "there is no collective FOO"),
                             ("reduce", "it must be COLLECTIVE:BYTES,...")):
            done = subprocess.run([bench, "--alone", "--calls", calls], env=self.env, timeout=60,
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    main()
