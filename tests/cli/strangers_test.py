#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""strangers_test.py - programs that do more than to communicate, in simulated time
(tests/mpi/strangers.c): each one ends with an answer, and the report says what is not exact.

   tests/cli/strangers_test.py --fabemu build/fabemu [unittest options]
"""
import json
import os
import shutil
import subprocess
import sys
import unittest

from cli_helpers import FabemuCase, end_of_spawning, flat, main

ENDS = None  # the program ends before its checks
FAILED = 17  # status of a rank whose peer has ended (MPI_ERR_INTERN), if mpirun sees it first

# The expected exit status, or a set of them; how the program measures the host's time; a text in
# the output.
PROGRAMS = {
    "spin": (0, [], ""),
    "threads": (0, [], ""),
    "thread-spins": (0, ["threads"], "by threads that sleep or wait"),
    "thread-sleeps": (0, ["threads"], "by threads that sleep or wait"),
    "clocks": (0, [], ""),
    "locks": (0, [], "processes slept outside the fabric"),
    "timers": (0, ["timers"], "the host's time, by timers"),
    "signals": (0, [], ""),
    "children": (0, [], ""),
    "spawns": (0, [], "5 attached, 5 at the same time"),
    "child-communicates": (0, [], "and cannot use its adapter; only process"),
    "reads-input": (0, [], ""),
    "aborts": (7, ENDS, "exited with status 7 without detaching"),
    "exits": ({3, FAILED}, ENDS, "exited with status 3 without detaching"),
    "receives": (124, ENDS, "ranks 0-2 wait for each other in a cycle"),
    "killed": ({137, FAILED}, ENDS, "killed by signal 9"),
    "stopped": (0, [], ""),
}
WITH_TSC = {
    "counts": (0, [], ""),
    "threads": PROGRAMS["threads"],
    "signals": PROGRAMS["signals"],
    "children": PROGRAMS["children"],
    "segfaults": ({139, FAILED}, ENDS, "killed by signal 11"),
}

# Programs in other languages open MPI by dlopen().
DLOPEN = """
import ctypes, time
mpi = ctypes.CDLL("libmpi.so.40")
mpi.MPI_Wtime.restype = ctypes.c_double
mpi.MPI_Init(None, None)
began, monotonic = mpi.MPI_Wtime(), time.monotonic()
time.sleep(1000)
print("slept %.0f %.0f" % (mpi.MPI_Wtime() - began, time.monotonic() - monotonic))
mpi.MPI_Finalize()
"""


# Python's objects are messages of unknown length, for which it waits by MPI_Mprobe.
MPI4PY = """
import time
from array import array
from mpi4py import MPI
world = MPI.COMM_WORLD
rank, ranks = world.rank, world.size
began, monotonic = MPI.Wtime(), time.monotonic()
for i in range(20):
    sent = world.sendrecv({"rank": rank, "at": time.monotonic()}, (rank + 1) % ranks,
                          source=(rank - 1) % ranks)
    assert sent["rank"] == (rank - 1) % ranks and sent["at"] < time.monotonic(), sent
total = array("d", [0])
world.Allreduce(array("d", [rank]), total)
assert total[0] == world.allreduce(rank) == ranks * (ranks - 1) / 2
assert world.gather([rank] * rank) == ([[r] * r for r in range(ranks)] if rank == 0 else None)
time.sleep(1000)
print("slept %.0f %.0f" % (MPI.Wtime() - began, time.monotonic() - monotonic))
"""


def python_with_mpi4py():
    """The command of a Python that has mpi4py, or None."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import mpi4py"], check=False,
                          stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return None


@unittest.skipUnless(shutil.which("mpirun"), "needs Open MPI")
class StrangersTest(FabemuCase):
    def simulate(self, ranks, *command, options=()):
        """Run the command. Return its exit status, its output, and the report's part `clock`."""
        report = os.path.join(self.dir, "report.json")

        def start():
            return self.start("run", "--clock", "virtual", "--topo", "kary:4,2", "--report", report,
                              *options, "--", "mpirun", "-np", str(ranks), "--oversubscribe",
                              *command)

        if "spawns" in command:
            run, out, err = end_of_spawning(start, 90)
        else:
            run = start()
            out, err = run.communicate(timeout=300)
        with open(report, encoding="utf-8") as file:
            return run.returncode, out + err, json.load(file)["clock"]

    def check_all(self, programs, *options):
        program = os.path.join(os.path.dirname(self.command), "tests/mpi_strangers")
        for name, (status, by, text) in programs.items():
            with self.subTest(name):
                code, out, clock = self.simulate(3, program, "--name", name,
                                                 options=(*options, "--standstill", "60s:end"))
                self.assertIn(code, status if isinstance(status, set) else {status}, out)
                self.assertIn(text, flat(out))
                if by is ENDS:
                    continue
                self.assertRegex(out, r"strangers: [1-9]\d* checks passed, 0 failed")
                self.assertNotRegex(out, r"passed, [1-9]\d* failed")
                noted = clock["host_time"]["by"] if clock["host_time"] else []
                # a handler that interrupts a poll may have slept
                if name in ("signals", "timers"):
                    noted = [how for how in noted if how != "threads"]
                self.assertEqual(noted, by, out)

    def test_oq2004(self):
        self.check_all(PROGRAMS)

    def test_qsnet3(self):
        self.check_all(PROGRAMS, "--profile", "qsnet3")

    def test_with_computing(self):
        programs = {name: PROGRAMS[name] for name in ("clocks", "signals", "timers")}
        self.check_all(programs, "--compute", "cpu")

    def test_tsc(self):
        self.need_tsc()
        self.check_all(WITH_TSC, "--tsc")

    def test_dlopen(self):
        code, out, clock = self.simulate(2, sys.executable, "-c", DLOPEN)
        self.assertEqual(code, 0, out)
        self.assertEqual(out.count("slept 1000 1000"), 2, out)
        self.assertIsNone(clock["host_time"])

    def test_mpi4py(self):
        python = python_with_mpi4py()
        if not python:
            self.skipTest("needs mpi4py (package python3-mpi4py)")
        for profile in ("oq2004", "qsnet3"):
            with self.subTest(profile):
                code, out, clock = self.simulate(3, python, "-c", MPI4PY,
                                                 options=("--profile", profile))
                self.assertEqual(code, 0, out)
                self.assertEqual(out.count("slept 1000 1000"), 3, out)
                self.assertIsNone(clock["host_time"])

    def test_a_program_without_the_preloaded_library_is_reported(self):
        program = os.path.join(os.path.dirname(self.command), "tests/mpi_strangers")
        out, clock = self.simulate(2, "env", "-u", "LD_PRELOAD", program)[1:]
        self.assertEqual(clock["host_time"]["processes"], 2)
        self.assertEqual(clock["host_time"]["by"], ["clocks"])
        self.assertIn("libfabemu-clock is not loaded", out)


if __name__ == "__main__":
    main(jobs=2)
