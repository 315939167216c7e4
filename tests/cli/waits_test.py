#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""waits_test.py - clock real reports whether a program's measurements reflect the network's time.
No time is asserted: the report is compared with the kernel's counts for the same threads, read
here before and after.

   tests/cli/waits_test.py --fabemu build/fabemu [unittest options]
"""
import json
import os
import shutil
import sys
import time
import unittest

from cli_helpers import ATTACH, FabemuCase, main, until

RANKS = 4  # on one core
BUSY_S = 0.15  # of a rank's own time on a core

# A rank: attaches, computes, detaches; prints the kernel's counts from before and after.
BUSY = f"ATTACH = {ATTACH!r}\n" + r'''
import json, os, socket, sys, time
def waited():
    with open("/proc/self/schedstat") as f:  # it has one thread
        return int(f.read().split()[1])
def ask(request):
    s.sendall(request + b"\n")
    return json.loads(s.recvmsg(65536, 64)[0])
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["FABEMU_SOCKET"])
before = waited()
assert ask(ATTACH.strip())["ok"]
attached = waited()
with open(os.path.join(sys.argv[1], "ready.%d" % os.getpid()), "w"):
    pass
os.read(os.open(os.path.join(sys.argv[1], "go"), os.O_RDONLY), 1)  # when all are there
busy = time.process_time() + float(sys.argv[2])
while time.process_time() < busy:
    pass
leaving = waited()
if sys.argv[3] == "detach":
    assert ask(b'{"cmd":"detach"}')["ok"]
line = json.dumps({"least": leaving - attached, "most": waited() - before}) + "\n"
os.write(1, line.encode())  # whole: others write there, too
'''

# A process of libfabemu: its program computes on the core that the library's own thread needs, too.
LIBRARY = r'''
import ctypes, os, sys, time
def waited():
    threads = os.listdir("/proc/self/task")
    return sum(int(open("/proc/self/task/%s/schedstat" % t).read().split()[1]) for t in threads)
lib = ctypes.CDLL(sys.argv[1])
lib.fabemu_detach.argtypes = [ctypes.c_void_p]
fab = ctypes.c_void_p()
assert lib.fabemu_attach(ctypes.byref(fab), None) == 0
attached = waited()
busy = time.process_time() + float(sys.argv[2])
while time.process_time() < busy:
    pass
leaving = waited()
lib.fabemu_detach(fab)
print(leaving - attached)
'''


def waited(pid):
    """The kernel's count of waits of a process's live threads, in ns."""
    sum_ns = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/schedstat") as f:
            sum_ns += int(f.read().split()[1])
    return sum_ns


class WaitsTest(FabemuCase):
    def setUp(self):
        super().setUp()
        self.report = os.path.join(self.dir, "report.json")
        self.busy = os.path.join(self.dir, "busy.py")
        with open(self.busy, "w") as f:
            f.write(BUSY)
        os.mkfifo(os.path.join(self.dir, "go"))

    def run_busy(self, ranks, busy_s, *options, before="", end="detach"):
        """A run of busy ranks that start together; returns their outputs, report and text."""
        one = f"{sys.executable} {self.busy} {self.dir} {busy_s} {end}"
        run = self.start("run", "--topo", "kary:2,2", "--name", "r", *options, "--report",
                         self.report, "--", "sh", "-c", f"{before} {one} & " * ranks + "wait")
        self.assertTrue(until(lambda: sum(n.startswith("ready.") for n in os.listdir(self.dir))
                              == ranks))
        go = os.open(os.path.join(self.dir, "go"), os.O_RDWR)
        os.write(go, b"." * ranks)
        out, err = run.communicate(timeout=60)
        os.close(go)
        with open(self.report) as f:
            return [json.loads(line) for line in out.splitlines()], json.load(f), err

    def check_bounds(self, said, programs):
        """The programs' waits in the report agree with the kernel's counts."""
        self.assertGreaterEqual(programs["waited_ns"], sum(one["least"] for one in said))
        self.assertLessEqual(programs["waited_ns"], sum(one["most"] for one in said))
        self.assertLessEqual(programs["late_most_ns"], programs["attached_ns"])
        self.assertLessEqual(programs["late_most_ns"], programs["waited_ns"] +
                             programs["fabric_waited_ns"] + programs["hostif_full_ns"])
        self.assertEqual(programs["unseen"], 0)

    def test_oversubscribed__is_reported(self):
        core = min(os.sched_getaffinity(0))
        said, report, err = self.run_busy(RANKS, BUSY_S, "--clock", "real",
                                          before=f"taskset -c {core}")
        programs = report["programs"]
        self.assertEqual(len(said), RANKS)
        self.check_bounds(said, programs)
        self.assertIs(programs["on_time"], False)
        self.assertIn("programs     NOT on time: up to ", err)
        self.assertIn("not the network's", err)
        longest = programs["longest"]
        self.assertLessEqual(longest["waited_ns"], max(one["most"] for one in said))
        self.assertGreaterEqual(longest["waited_ns"], max(one["least"] for one in said))

    def test_undersubscribed__reports_only_waits_of_the_kernel(self):
        said, report, err = self.run_busy(1, 0, "--clock", "real")
        programs = report["programs"]
        self.check_bounds(said, programs)
        self.assertIn("programs     ", err)
        late = programs["late_most_ns"] * 100 > programs["attached_ns"]
        slow = report["clock"]["real_time_factor"] < 0.99
        self.assertIs(programs["on_time"], not late and not slow)
        self.assertEqual("NOT on time" in err, late or slow)

    def test_dead__its_possible_wait_counts(self):
        _, report, _ = self.run_busy(1, 0, "--clock", "real", end="die")
        programs = report["programs"]
        self.assertEqual(report["processes"]["died"], 1)
        self.assertGreater(programs["late_most_ns"], 0)
        self.assertLessEqual(programs["late_most_ns"], programs["attached_ns"])

    def test_library__waits_of_its_own_thread_count(self):
        library = os.path.join(os.path.dirname(self.command), "nic", "libfabemu.so")
        core = min(os.sched_getaffinity(0))
        run = self.start("run", "--topo", "kary:2,1", "--clock", "real", "--report", self.report,
                         "--",
                         "taskset", "-c", str(core), sys.executable, "-c", LIBRARY, library,
                         str(BUSY_S))
        out, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0, err)
        with open(self.report) as f:
            programs = json.load(f)["programs"]
        self.assertGreaterEqual(programs["waited_ns"], int(out))

    def test_raw__reports_no_waits(self):
        _, report, err = self.run_busy(1, 0)
        self.assertIsNone(report["programs"])
        self.assertNotIn("programs  ", err)

    def test_status__covers_each_process_and_the_fabric(self):
        path = self.up("u", "--clock", "real")
        pid = self.status("u")["pid"]
        self.assertIsNone(self.status("u")["report"]["programs"]["on_time"])  # nobody was attached
        fabric, before = waited(pid), waited(os.getpid())
        client = self.client(path)
        client.attach()
        attached = waited(os.getpid())
        end = time.process_time() + 0.05
        while time.process_time() < end:
            pass
        least = waited(os.getpid()) - attached
        status = self.status("u")
        text = self.fabemu("status", "u").stdout
        most = waited(os.getpid()) - before
        one = status["attached"][0]
        self.assertGreaterEqual(one["waited_ns"], least)
        self.assertLessEqual(one["waited_ns"], most)
        self.assertRegex(text, r"node \d+: pid \d+, \S+, waited .* for cores")
        self.assertIn("programs     ", text)
        self.assertEqual(client.ask("detach")["ok"], True)
        programs = self.status("u")["report"]["programs"]
        self.assertLessEqual(programs["fabric_waited_ns"], waited(pid) - fabric)
        again = self.status("u")["report"]["programs"]
        self.assertEqual(again, programs)  # nobody is attached: nothing is added

    @unittest.skipUnless(shutil.which("mpirun") and shutil.which("mpicc"), "needs Open MPI")
    def test_pairs__too_many_ranks_for_the_cores_are_reported(self):
        pairs = os.path.join(os.path.dirname(self.command), "tests", "mpi_pairs_bench")
        core = min(os.sched_getaffinity(0))
        run = self.start("run", "--topo", "kary:4,2", "--clock", "real", "--report", self.report,
                         "--", "taskset", "-c", str(core), "mpirun", "-np", "8", "--bind-to",
                         "none",
                         pairs, "--windows", "5", "--json")
        out, err = run.communicate(timeout=120)
        self.assertEqual(run.returncode, 0, err)
        with open(self.report) as f:
            programs = json.load(f)["programs"]
        self.assertGreaterEqual(programs["waited_ns"], json.loads(out)["waited_ns"])
        self.assertIs(programs["on_time"], False)
        self.assertIn("NOT on time", err)


if __name__ == "__main__":
    main()
