#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""onesided_test.py - MPI's one-sided communication with a target that calls no MPI function, over
both profiles, with and without faults, and with several threads (tests/mpi/passive.c).

   tests/cli/onesided_test.py --fabemu build/fabemu [unittest options]
"""
import os
import shutil
import unittest

from cli_helpers import FabemuCase, main


@unittest.skipUnless(shutil.which("mpirun"), "needs Open MPI")
class OnesidedTest(FabemuCase):
    def passive(self, ranks, *options, more=()):
        program = os.path.join(os.path.dirname(self.command), "tests", "mpi_passive")
        run = self.start("run", "--topo", "kary:2,3", *options, "--", "mpirun", "-np", str(ranks),
                         program, *more)
        # 15 s on an idle host, but each wait for a peer needs its core: 100 s at a load of 15
        out, err = run.communicate(timeout=300)
        self.assertRegex(out, r"passive: [1-9]\d* checks passed, 0 failed", out + err)

    def test_oq2004(self):
        self.passive(2)

    def test_qsnet3_with_threads(self):
        self.passive(4, "--profile", "qsnet3", more=("--threads",))

    def test_oq2004_under_faults(self):
        self.passive(3, "--set", "link_retry=go_back_n", "--faults", "noisy-links",
                     more=("--threads",))

    def test_qsnet3_under_faults(self):
        self.passive(3, "--profile", "qsnet3", "--faults", "noisy-links")


if __name__ == "__main__":
    main(jobs=2)
