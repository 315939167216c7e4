#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""trace_test.py - fabemu run --goal: fabemu traffic --goal takes as long as the recorded program.

   tests/cli/trace_test.py --fabemu build/fabemu [unittest options]
"""
import json
import os
import shutil
import unittest

from cli_helpers import FabemuCase, main

NETWORK = ("--topo", "kary:4,2")
OVER_MESSAGES = ("--mca", "coll_fabemu_enable", "0")


class RecordCase(FabemuCase):
    profile = "oq2004"
    delta = 0.01

    def record(self, ranks, program, *arguments, mca=OVER_MESSAGES, status=0):
        """Record a program. Return its time in ns, the path of the GOAL, and the errors."""
        path, report = (os.path.join(self.dir, name) for name in ("program.goal", "report.json"))
        run = self.start("run", "--clock", "virtual", *NETWORK, "--profile", self.profile,
                         "--goal", path, "--report", report,
                         "--", "mpirun", "-np", str(ranks), "--oversubscribe", *mca,
                         os.path.join(os.path.dirname(self.command), "tests", program), *arguments)
        out, err = run.communicate(timeout=150)
        self.assertEqual(run.returncode, status, out + err)
        with open(report, encoding="utf-8") as file:
            return json.load(file)["clock"]["finished_ns"], path, err

    def play(self, path):
        done = self.fabemu("traffic", *NETWORK, "--profile", self.profile, "--goal", path, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["goal"]

    def same(self, ranks, program, *arguments, mca=OVER_MESSAGES):
        recorded, path, _ = self.record(ranks, program, *arguments, mca=mca)
        played = self.play(path)
        self.assertEqual(played["ranks"], ranks)
        self.assertAlmostEqual(played["completion_ns"] / recorded, 1, delta=self.delta)
        return played


@unittest.skipUnless(shutil.which("mpirun"), "needs Open MPI")
class PlayTest(RecordCase):
    def test_rings(self):
        for ranks in (2, 4, 8):
            with self.subTest(ranks=ranks):
                played = self.same(ranks, "mpi_ring")
                self.assertGreaterEqual(played["messages"], 50 * ranks)

    def test_long_messages(self):
        self.same(4, "mpi_ring", "--bytes", "100000", "--rounds", "10")

    def test_pingpong(self):
        self.same(2, "mpi_pingpong_bench", "--bytes", "8", "--iterations", "100")

    def test_mixed_calls_and_collectives_over_messages(self):
        self.same(4, "mpi_ring", "--kind", "mixed")
        self.same(4, "mpi_ring", "--kind", "mixed", "--bytes", "20000", "--rounds", "10")

    def test_collectives_in_the_network(self):
        self.same(4, "mpi_ring", "--kind", "mixed", mca=())
        for size, rounds in (("64", "100"), ("100000", "5")):
            with self.subTest(size=size):
                self.same(6, "mpi_ring", "--kind", "groups", "--bytes", size, "--rounds", rounds,
                          mca=())

    def test_a_receive_that_is_too_short(self):
        for size in ("64", "20000"):
            with self.subTest(size=size):
                self.same(2, "mpi_ring", "--kind", "short", "--bytes", size, "--rounds", "20")


class AcknowledgedPlayTest(PlayTest):
    profile = "qsnet3"
    delta = 0.02  # messages take a quarter of the time, and polls as long as with oq2004


@unittest.skipUnless(shutil.which("mpirun"), "needs Open MPI")
class TraceTest(RecordCase):
    def test_calls_that_goal_cannot_hold(self):
        _, _, err = self.record(4, "mpi_ring", "--kind", "put", status=1)
        self.assertRegex(err, r"--goal: the file does not contain the whole program, because GOAL "
                              r"has no one-sided accesses and no triggered operations "
                              r"\([1-9]\d* calls\)")

    def test_more_groups_than_the_network_has_at_a_time(self):
        """The program frees each group, but the file has all of them."""
        for rounds, words in ((200, None), (257, "created 257 groups, and fabemu traffic creates "
                                                 "all of them at the beginning, but such a network "
                                                 "has room for 256")):
            _, path, err = self.record(2, "mpi_ring", "--kind", "dup", "--rounds", str(rounds),
                                       mca=())
            done = self.fabemu("traffic", *NETWORK, "--profile", self.profile, "--goal", path)
            if words:
                self.assertIn(words, err)
                self.assertRegex(done.stderr, r"group \d+ \(line \d+\): no combine state is left ")
                self.assertIn("; all groups of the file exist from the beginning", done.stderr)
            else:
                self.assertNotIn("--goal:", err)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_process_that_does_not_end_well(self):
        path = os.path.join(self.dir, "x")
        run = self.start("run", "--clock", "virtual", "--goal", path, "--",
                         "mpirun", "-np", "4", "--oversubscribe", *OVER_MESSAGES,
                         os.path.join(os.path.dirname(self.command), "tests", "mpi_compute"),
                         "--tail", "exit")
        _, err = run.communicate(timeout=150)
        self.assertNotEqual(run.returncode, 0)
        self.assertRegex(err, r"--goal: the process of node \d did not end well, so the file is "
                         "not complete, and fabemu traffic refuses it")
        done = self.fabemu("traffic", *NETWORK, "--goal", path)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertRegex(done.stderr, r", line \d+: .* } is missing, as in a recording that is not "
                         "complete")

    def test_without_processes_an_old_file_is_not_taken_for_a_new_one(self):
        path = os.path.join(self.dir, "old")
        for option in (("--goal", path), ("--compute", f"record:{path}")):
            with open(path, "w", encoding="utf-8") as file:
                file.write("old")
            done = self.fabemu("run", "--clock", "virtual", *option, "--", "true")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"{option[0]}: no process has attached, so the file is not written",
                          done.stderr)

    def test_a_network_without_the_component(self):
        """Time also begins if the first call is a send that has no request."""
        self.same(2, "mpi_ring")
        recorded, _, _ = self.record(2, "mpi_ring", mca=("--mca", "coll", "^fabemu"))
        self.assertGreater(recorded, 0)


class OptionsTest(FabemuCase):
    def test_wrong_options(self):
        for args, words in (
                (("--goal", "x"), "--goal needs --clock virtual"),
                (("--clock", "virtual", "--goal", ""), "--goal : it must be the name of a file"),
                (("--clock", "virtual", "--goal", "x", "--compute", "record:y"),
                 "--goal cannot be used with --compute record or replay")):
            done = self.fabemu("run", *args, "--", "true")
            self.assertEqual(done.returncode, 2)
            self.assertIn(words, done.stderr)
        done = self.fabemu("run", "--clock", "virtual", "--goal", "/proc/none/x", "--", "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/proc/none/x", done.stderr)


if __name__ == "__main__":
    main()
