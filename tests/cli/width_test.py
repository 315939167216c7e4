#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""width_test.py - text for people fits into 80 columns.

   tests/cli/width_test.py --fabemu build/fabemu [unittest options]

Standard output is a pipe, and standard error a terminal of 80 columns.
"""
import fcntl
import os
import pathlib
import pty
import re
import struct
import subprocess
import termios
import threading

from cli_helpers import FabemuCase, build_bugs, main, until
from machine_test import machine

COLUMNS = 80
SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
LONG_WORD = 60  # a name or path of this length may make a line longer
SHORT = ("--measure", "20us", "--warmup", "1us")
PATTERNS = ("uniform", "transpose", "reversal", "complement", "tornado", "neighbour",
            "permutation:3", "alltoall", "hotspot:1:0.25", "multicast", "md")
COLLECTIVES = ("reduce", "barrier", "allreduce")
GOAL = """num_ranks 2
group 1 ranks 0 1
rank 0 {
a: send 4096b to 1 tag 7
b: coll allreduce 64b MAX I32 group 1
}
rank 1 {
a: recv 4096b from 0 tag 7
b: coll allreduce 64b MAX I32 group 1
}
"""
CLUSTER = "fabric 7\nkey none\n" + "".join(
    f"host host-number-{n}\nport eth0 mac=02:00:00:00:00:0{n}\n" for n in range(4))


def read_all(fd, chunks):
    while True:
        try:
            data = os.read(fd, 65536)
        except OSError:  # all processes have closed the terminal
            return
        chunks.append(data)


class WidthTest(FabemuCase):
    def said(self, *args, columns=COLUMNS):
        """Run a command; return its standard output and what the terminal got."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        chunks = []
        reader = threading.Thread(target=read_all, args=(master, chunks))
        reader.start()
        try:
            done = subprocess.run([self.command, *args], env=self.env, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=slave, timeout=120, cwd=self.dir)
        finally:
            os.close(slave)
            reader.join()
            os.close(master)
        # a progress line, which a carriage return begins, is cleared before the next text
        err = re.sub(rb"\x1b\[K|\r\n", lambda m: b"\n" if m[0] == b"\r\n" else b"",
                     b"".join(chunks))
        return done.stdout.decode(), err.decode().replace("\r", "\n"), done.returncode

    def fits(self, *args, status=0, says=""):
        out, err, got = self.said(*args)
        self.assertEqual(got, status, (args, out, err))
        self.assertIn(says, " ".join((out + err).split()))
        self.narrow(out + err)

    def narrow(self, text):
        for line in text.split("\n"):
            if max(map(len, line.split()), default=0) <= LONG_WORD:
                self.assertLessEqual(len(line), COLUMNS, line)

    def file(self, name, text):
        with open(os.path.join(self.dir, name), "w", encoding="utf-8") as f:
            f.write(text)
        return name

    def test_help(self):
        out, _, _ = self.said("help")
        for name in re.findall(r"^  (\w+) ", out.split("\n\n")[2], re.M):
            with self.subTest(command=name):
                self.fits(name, "--help")

    def test_help__of_scripts(self):
        scripts = [path for path in SCRIPTS.iterdir()
                   if path.is_file() and os.access(path, os.X_OK)]
        self.assertGreater(len(scripts), 10)
        for path in scripts:
            with self.subTest(script=path.name):
                done = subprocess.run([path, "--help"], stdin=subprocess.DEVNULL, text=True,
                                      capture_output=True, timeout=60)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertGreater(len(done.stdout), 50)
                self.narrow(done.stdout)

    def test_traffic__of_each_pattern(self):
        for pattern in PATTERNS:
            with self.subTest(pattern=pattern):
                self.fits("traffic", "--topo", "kary:4,2", "--pattern", pattern, *SHORT)
        for pattern in COLLECTIVES:
            with self.subTest(pattern=pattern):
                self.fits("traffic", "--topo", "kary:4,2", "--pattern", pattern)
        self.fits("traffic", "--pattern", "uniform", "--load", "0.1:0.9:0.4", *SHORT)
        self.fits("traffic", "--pattern", "hotspot:1:0.5", "--load", "0.1,0.2", *SHORT)
        self.fits("traffic", "--pattern", "multicast", "--load", "0.1,0.2", *SHORT)

    def test_traffic__with_each_kind_of_line(self):
        lossy = ("--faults", "noisy-links", "--profile", "qsnet3")
        collective = ("--pattern", "allreduce", "--groups", "2", "--collective", "tree:4",
                      "--processes", "4", "--noise", "1ms:25us")
        for args in ((*SHORT, "--load", "1", "--pattern", "hotspot:1:1"),
                     (*SHORT, "--pattern", "multicast", "--multicast", "tree:2", "--fanout", "8"),
                     (*SHORT, "--series", "5us", "--arrivals", "fixed"),
                     (*SHORT, *lossy, "--load", "0.3"), collective,
                     ("--goal", self.file("program.goal", GOAL))):
            with self.subTest(args=args):
                self.fits("traffic", "--topo", "kary:4,2", *args)

    def test_topo(self):
        self.fits("topo", "kary:4,4", "--check", "--threads", "4")
        self.fits("topo", "qsnet:1024", "--check", "--set", "link_retry=go_back_n")
        self.fits("topo", self.file("machine.topo", machine()), "--check")

    def test_progress_of_a_benchmark(self):
        self.fits("bench", "--quick", "--only", "hops", says="[1 of 1] hops")

    def test_lists_of_faults(self):
        self.fits("fault", "--list")
        for name in ("noisy-links", "flap", "slow-node", "cut-link"):
            with self.subTest(name=name):
                self.fits("fault", "--check", name, "--topo", "kary:4,3", "--set",
                          "link_retry=go_back_n")

    def test_figures(self):
        self.fits("figures", "--list")
        self.fits("figures", "--quick", "--no-plots", "--only", "13,A9", "--out", "out")

    def test_cluster(self):
        self.fits("cluster", "--check", self.file("lab.cluster", CLUSTER), "--topo", "kary:8,2")

    def test_bench(self):
        self.fits("bench", "--list")
        self.fits("bench", "--quick", "--repeat", "1", "--only", "hostlink")

    def test_run(self):
        program = build_bugs(self.dir)
        faults = ("--set", "link_retry=go_back_n", "--set", "combine_order=port", "--faults",
                  "noisy-links", "--timeline", "timeline")
        self.fits("run", "--topo", "kary:2,2", *faults, "--", "mpirun", "-np", "4", program,
                  "none")
        self.fits("run", "--topo", "kary:2,2", "--", "mpirun", "-np", "4", "--mca", "pml", "ob1",
                  "--mca", "btl", "vader,self", program, "none", says="outside")
        self.fits("run", "--topo", "kary:2,2", "--standstill", "1s:end", "--", "mpirun", "-np",
                  "4", program, "skip-barrier", status=124, says="nothing has moved")

    def test_compare(self):
        self.fits("compare", "--topo", "kary:2,2", "--topo", "kary:4,2", "--", "mpirun", "-np",
                  "2", "sh", "-c", "exit 3", status=1, says="failed: exit status 3")

    def test_running_fabric(self):
        name = "a-fabric-with-a-long-name"
        self.fits("up", "--topo", "kary:2,2", "--set", "link_retry=go_back_n", "--set",
                  "combine_order=port", name)
        self.fits("fault", name, "every=100ms", "for=10ms", "link-down", "link=0:2")
        self.client(self.socket_path(name)).attach(rank=0, ranks=1)
        for args in (("status",), ("status", name), ("check", name), ("top", "--once", name),
                     ("capture", "--seconds", "0.1", "-w", "capture.pcapng", name),
                     ("fault", name), ("env", "nobody"), ("down", name)):
            with self.subTest(args=args):
                self.fits(*args, status=int(args[-1] == "nobody"))

    def test_errors(self):
        long = "a-name-that-is-much-longer-than-fabemu-allows" * 2
        for args in (("run", "--topo", "kary:2", "--", "true"), ("run", "--profile", "x"),
                     ("run", "--set", "speed=1", "--", "true"), ("run", "--nodes", "one"),
                     ("run", "--compute", "x", "--", "true"), ("run", "true"), ("run",),
                     ("run", "--faults", "flpa", "--", "true"), ("traffic", "--pattern", "x"),
                     ("run", "--faults", "lossy", "--", "true"), ("topo", "none.topo"),
                     ("run", "--clock", "fast"), ("run", "--bound", "x=1s"), ("fault", "--show"),
                     ("fault", "--check", "link-down random"), ("figures", "--only", "A99"),
                     ("up", "--name", long), ("status", long, long), ("join", "x"), ("web", "x"),
                     ("cluster", "--check", self.file("x.cluster", "host a\nhost a\n")),
                     ("traffic", "--goal", self.file("x.goal", "num_ranks 0\n"))):
            with self.subTest(args=args):
                out, err, status = self.said(*args)
                self.assertNotEqual(status, 0)
                self.assertTrue(err.startswith("fabemu: "), err)
                self.narrow(err)

    def test_errors__are_broken_only_on_a_terminal(self):
        args = ("run", "--set", "speed=1", "--", "true")
        line = self.fabemu(*args).stderr
        self.assertEqual(line.count("\n"), 1)
        self.assertGreater(len(line), COLUMNS)
        for columns in (COLUMNS, 40, 1000):
            lines = self.said(*args, columns=columns)[1].split("\n")
            self.assertEqual(" ".join("\n".join(lines).split()), line.strip())
            self.assertLessEqual(max(map(len, lines)), columns)
            self.assertEqual(len(lines) > 2, columns < len(line))


if __name__ == "__main__":
    main(jobs=2)
