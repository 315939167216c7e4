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

from cli_helpers import FabemuCase, build_bugs, busy_host, main

VIRTUAL = ("--clock", "virtual", "--topo", "kary:4,2")


@unittest.skipUnless(shutil.which("mpirun"), "needs Open MPI")
class SimtimeTest(FabemuCase):
    def simulate(self, ranks, *options, program="mpi_simtime", arguments=("--iterations", "10")):
        """Run the program. Return its output and the report."""
        path = os.path.join(os.path.dirname(self.command), "tests", program)
        report = os.path.join(self.dir, "report.json")
        run = self.start("run", *VIRTUAL, *options, "--report", report, "--", "mpirun", "-np",
                         str(ranks), "--oversubscribe", path, *arguments)
        out, err = run.communicate(timeout=300)
        self.assertEqual(run.returncode, 0, out + err)
        with open(report, encoding="utf-8") as file:
            return out, json.load(file)

    def schedule(self, *lines):
        path = os.path.join(self.dir, "schedule")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        return path

    def check_equal(self, ranks, *options):
        """Run the program three times. Return its output and digest, which must be equal."""
        def result():
            out, report = self.simulate(ranks, *options)
            self.assertRegex(out, r"simtime: [1-9]\d* checks passed, 0 failed")
            self.assertEqual(report["clock"]["late_posts"], 0)
            self.assertRegex(report["digest"], "^[0-9a-f]{16}$")
            return out, report["digest"], report["clock"]["finished_ns"]

        first = result()
        self.assertEqual(result(), first)
        with busy_host():
            self.assertEqual(result(), first)
        return first[:2]

    def test_oq2004(self):
        out = self.check_equal(2)[0]
        traffic = json.loads(self.fabemu(
            "traffic", "--topo", "kary:4,2", "--pattern", "allreduce", "--group-size", "2",
            "--bytes", "8", "--operations", "10", "--json").stdout)
        measured = float(re.search(r"all-reduce of 8 bytes: ([\d.]+) us", out)[1]) * 1000
        # the program reads the clock once, which takes 20 ns, for 10 operations
        self.assertAlmostEqual(measured, traffic["collectives"]["mean_ns"] + 20 / 10, delta=1)

    def test_collectives_at_time_0_are_measured(self):
        _, report = self.simulate(4, program="mpi_compute", arguments=("--iterations", "1"))
        for row in report["communication"]["collectives"]:
            self.assertEqual((row["calls"], row["where"]), (row["sampled"], "switches"), row)
            self.assertGreater(row["time_ns"]["mean"], 0, row)

    def test_qsnet3(self):
        self.check_equal(4, "--profile", "qsnet3")

    def test_any_source__order_of_simultaneous_messages_is_the_same(self):
        out = self.check_equal(4)[0]
        rounds = [re.findall(r"(\d+) sent at ([\d.]+) us", line) for line in out.splitlines()
                  if "received from any source" in line]
        self.assertEqual(len(rounds), 5)
        for received in rounds:
            self.assertEqual(sorted(rank for rank, _ in received), ["1", "2", "3"])
            self.assertEqual(len({sent for _, sent in received}), 1, out)

    def test_tsc(self):
        """Also if Open MPI reads the counter, the run is the same."""
        self.need_tsc()
        self.assertEqual(self.check_equal(4, "--tsc"), self.check_equal(4))

    def test_many_ranks(self):
        self.check_equal(16, "--profile", "qsnet3", "--threads", "2")

    def test_date(self):
        out, _ = self.simulate(2, "--date", "1000000000",
                               arguments=("--iterations", "1", "--date", "1000000000"))
        self.assertRegex(out, r"simtime: [1-9]\d* checks passed, 0 failed")

    def test_processes_that_sleep_outside_the_fabric(self):
        for profile in "oq2004", "qsnet3":
            fifo = os.path.join(self.dir, profile)
            out, report = self.simulate(3, "--profile", profile, program="mpi_outside",
                                        arguments=("--fifo", fifo))
            self.assertRegex(out, r"outside: [1-9]\d* checks passed, 0 failed")
            clock = report["clock"]
            self.assertGreater(clock["outside_ns"], 100e6)
            self.assertGreater(clock["outside"]["processes"], 0)
            self.assertLessEqual(clock["outside"]["longest_ns"], clock["outside_ns"])
            self.assertIn(clock["outside"]["rank"], (0, 2)) # rank 1 only waits for the others

    def test_faults_at_exact_times(self):
        schedule = self.schedule("at=200us for=300us link-down link=any",
                                 "at=900us for=200us loss link=any rate=0.01",
                                 "at=2ms for=1ms switch-crash switch=any")
        events = os.path.join(self.dir, "events.json")
        options = ("--profile", "qsnet3", "--faults", schedule, "--events", events)
        out, digest = self.check_equal(8, *options)
        without, report = self.simulate(8, "--profile", "qsnet3")
        self.assertNotEqual(out, without)
        self.assertNotEqual(digest, report["digest"])
        with open(events, encoding="utf-8") as file:
            changes = [event for event in map(json.loads, file) if event["event"] == "fault"]
        self.assertEqual([(event["fault"], event["state"], round(event["s"] * 1e6))
                          for event in changes],
                         [(1, "begins", 200), (1, "over", 500), (2, "begins", 900),
                          (2, "over", 1100), (3, "begins", 2000), (3, "over", 3000)])

    def test_standstill(self):
        """A deadlock is found at once, because nothing else delays simulated time."""
        program = build_bugs(self.dir)
        run = self.start("run", *VIRTUAL, "--standstill", "60s:end", "--", "mpirun", "-np", "4",
                         "--oversubscribe", program, "missing-send", "1")
        out, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 124, out + err)
        self.assertIn("ranks 0-1 wait for each other in a cycle", err)
        self.assertRegex(err, r"clock        virtual: .* s simulated, no process has finished,")

    def test_refusals(self):
        frozen = self.schedule("at=1ms for=1ms node-freeze node=1")
        for options, why in ((("--profile", "qsnet3", "--faults", frozen), "acts on processes"),
                             (("--set", "nic_send_ps=0", "--profile", "qsnet3"), "nic_send_ps")):
            done = self.fabemu("run", *VIRTUAL, *options, "--", "true")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(why, done.stderr)

    def test_sleep__beyond_simulated_time_ends_the_run(self):
        path = os.path.join(os.path.dirname(self.command), "tests", "mpi_simtime")
        done = self.fabemu("run", *VIRTUAL, "--", "mpirun", "-np", "2", "--oversubscribe", path,
                           "--sleep", str(60 * 86400))
        self.assertNotEqual(done.returncode, 0, done.stderr)
        self.assertIn("simulated time has ended after 53 days", done.stderr)
        self.assertIn("ending the run", done.stderr)

    def test_ranks_do_not_yield(self):
        command = ("sh", "-c", "echo yields=$OMPI_MCA_mpi_yield_when_idle")
        self.assertIn("yields=0\n", self.fabemu("run", *VIRTUAL, "--", *command).stdout)
        self.assertIn("yields=1\n", self.fabemu(
            "run", *VIRTUAL, "--", "env", "OMPI_MCA_mpi_yield_when_idle=1", *command).stdout)
        self.assertIn("yields=\n", self.fabemu("run", "--topo", "kary:4,2", "--", *command).stdout)

    def test_a_program_without_mpi_keeps_its_clocks(self):
        done = self.fabemu("run", *VIRTUAL, "--", "sh", "-c", "sleep 0.1; date +%Y")
        self.assertRegex(done.stdout, r"^20\d\d$")


if __name__ == "__main__":
    main(jobs=2)
