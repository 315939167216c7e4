#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""faulttable_test.py - part of the table that scripts/faulttable makes: no application hangs or
gets wrong data.

   tests/cli/faulttable_test.py --fabemu build/fabemu [unittest options]
"""
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

from cli_helpers import FabemuCase, main

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts",
                      "faulttable")


@unittest.skipUnless(shutil.which("mpirun"), "needs Open MPI")
class FaulttableTest(FabemuCase):
    def table(self, *options):
        """The cells and the printed table; no cell may be bad."""
        path = os.path.join(self.dir, "cells.json")
        done = subprocess.run([sys.executable, SCRIPT, "--fabemu", self.command, "--json", path,
                               *options], text=True,
                              capture_output=True, timeout=150)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(path) as f:
            cells = {(cell["profile"], cell["interface"], cell["fault"]): cell
                     for cell in json.load(f)}
        bad = [cell for cell in cells.values() if cell["verdict"] in ("hung", "wrong")]
        self.assertEqual(bad, [])
        return cells, done

    def test_lost_node__is_an_error_that_names_it_on_every_interface(self):
        cells, done = self.table("--only", "link-down", "--profile", "qsnet3",
                                 "--place", "a node's cable")
        interfaces = {interface for _, interface, _ in cells}
        self.assertEqual(len(cells), 2 * len(interfaces))  # permanently, and for a while
        for (_, interface, fault), cell in cells.items():
            with self.subTest(interface=interface, fault=fault):
                if fault.startswith("for="):
                    self.assertEqual(cell["verdict"], "right", cell)
                    continue
                self.assertEqual(cell["verdict"], "error", cell)
                right = ("MPI_Win_fence" if "fences" in interface else
                         "no link in use" if "libfabric" in interface else
                         "MPI_ERR_INTERN" if "messages" in interface else "MPI_ERR_OTHER")
                self.assertIn(right, cell["text"])
        self.assertRegex(done.stdout, r"(?m)^- MPI_(Barrier|Bcast|Allreduce|Reduce) on "
                                      "MPI_COMM_WORLD failed in the fabric: rank 1 of the "
                                      "communicator cannot be reached: node 1 has no link in use$")
        self.assertRegex(done.stdout, r"(?m)^- MPI_\w+ on fabemu window 3 failed in the fabric: "
                                      r"rank \d of the window cannot be reached")

    def test_loss__is_repaired_on_both_switch_models(self):
        cells, _ = self.table("--only", "loss", "--profile", "qsnet3",
                              "--profile", "oq2004 with link-level retry",
                              "--place", "a cable between switches",
                              "--interface", "MPI collectives", "--interface",
                              "libfabric one-sided")
        for key, cell in cells.items():
            with self.subTest(key=key):
                self.assertEqual(cell["verdict"], "right", cell)
                self.assertRegex(cell["text"], r"hit [1-9]")

    def test_dead_process__is_reported_to_all_survivors(self):
        cells, _ = self.table("--only", "node-kill", "--profile", "oq2004",
                              "--interface", "MPI collectives",
                              "--interface", "libfabric one-sided")
        for key, cell in cells.items():
            with self.subTest(key=key):
                self.assertIn("to 3 of 3", cell["text"])

    def test_refused_faults__are_in_the_table(self):
        cells, done = self.table("--only", "loss", "--profile", "oq2004")
        self.assertEqual({cell["verdict"] for cell in cells.values()}, {"refused"})
        self.assertIn("refused: loss: this profile acknowledges nothing", done.stdout)

    def test_kinds__are_those_of_the_command(self):
        listed = self.fabemu("fault", "--list").stdout.split("scenarios")[0]
        done = subprocess.run([sys.executable, SCRIPT, "--fabemu", self.command,
                               "--only", "no-such-fault"], text=True, capture_output=True,
                              timeout=60)
        self.assertEqual(done.returncode, 1)
        for kind in re.findall(r"(?m)^  (\S+)  ", listed):
            self.assertIn(kind, done.stderr)


if __name__ == "__main__":
    main()
