#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""loss_test.py - a host dies, is cut off, or returns while MPI programs run across several hosts.

   loss_test.py --fabemu build/fabemu --two-hosts scripts/two-hosts [--all]

The test draws a few combinations of losses, programs and profiles; $FABEMU_SEED is the seed. --all
runs all of them. Hosts are network namespaces, as scripts/two-hosts makes them; where these may not
be created, all tests are skipped with a message. No test asserts how long anything takes, only that
it ends.
"""
import importlib.machinery
import importlib.util
import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import types
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 2,
                                "cli"))
from helpers.seed import seed  # noqa: E402

PATIENCE_S = 60
SILENT = "3s"  # a host without a core for a second or two is not lost
PROFILES = ("oq2004", "qsnet3")
PROGRAMS = ("pairs", "allreduce")
AGENT = """#!/bin/sh
host=$1; shift
exec ip netns exec {mark}$host unshare --uts sh -c "hostname $host; $*"
"""
NAME = f"back{os.getpid()}"  # of a fabric that stays up; other tests may run on this machine
DEVICES = ("af_packet", "af_xdp", "memif")


def load(path):
    """Load scripts/two-hosts as a module."""
    loader = importlib.machinery.SourceFileLoader("two_hosts", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("two_hosts", loader))
    loader.exec_module(module)
    return module


class Run:
    """A fabemu run across hosts, and its output."""

    def __init__(self, words, env):
        self.lines = []
        self.child = subprocess.Popen(words, env=env, text=True, errors="replace",
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, start_new_session=True)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        """Runs on a thread of its own."""
        for line in self.child.stdout:
            self.lines.append(line.rstrip())

    def text(self):
        """The whole output."""
        return "\n".join(self.lines)

    def until(self, condition):
        """Wait for condition(self.lines)."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if condition(self.lines):
                return True
            time.sleep(0.02)
        return False

    def count(self, what):
        """Number of lines that contain these words."""
        return sum(what in line for line in self.lines)


class HostLossTest(unittest.TestCase):
    """Two hosts, or three."""
    fabemu = two_hosts = None

    def setUp(self):
        if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
            self.skipTest("it needs root and iproute2 to make network namespaces")
        if not shutil.which("mpirun"):
            self.skipTest("it needs Open MPI")
        self.module = load(self.two_hosts)

    def make(self, count, device="af_packet", loss=0):
        """Create this many hosts, replacing those of the test so far."""
        self.doCleanups()
        self.hosts = self.module.Hosts(types.SimpleNamespace(
            hosts=count, mtu=self.module.MTU[device], netem="", loss=loss, wire="", device=device,
            silent=SILENT, command=[]))
        self.addCleanup(self.module.clean, lambda pid: pid == os.getpid())
        try:
            self.hosts.make()
        except subprocess.CalledProcessError as error:
            self.skipTest(f"{' '.join(error.cmd)}: {error.stderr.strip()}")
        self.agent = os.path.join(self.hosts.dir, "agent")
        with open(self.agent, "w", encoding="utf-8") as f:
            f.write(AGENT.format(mark=self.hosts.mark))
        os.chmod(self.agent, 0o755)
        self.cluster = os.path.join(self.hosts.dir, "cluster")
        with open(self.cluster, "w", encoding="utf-8") as f:
            f.write(self.hosts.cluster())

    def on(self, host, *words):
        """Run these words as a command on the host; it is killed after the test."""
        env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_mpi_yield_when_idle="1",
                   OMPI_MCA_plm_rsh_agent=self.agent, OMPI_MCA_oob_tcp_if_include="eth0")
        run = Run(["ip", "netns", "exec", self.hosts.name(host), "unshare", "--uts", "sh", "-c",
                   f'hostname h{host}; exec "$@"', "sh", *words], env)
        self.addCleanup(self.end, run)
        return run

    def program(self, name, hosts, ranks):
        """mpirun's words: this many ranks on each of these hosts."""
        lost = os.path.join(os.path.dirname(self.fabemu), "tests", "mpi_lost")
        return ["mpirun", "--enable-recovery", "-np", str(ranks * len(hosts)), "--host",
                ",".join(f"h{host}:{ranks}" for host in hosts), lost, name]

    def start(self, count, program, *options, topo="kary:2,3"):
        """Two ranks per host; returns when they are running."""
        run = self.on(0, self.fabemu, "run", "--cluster", self.cluster, "--launch", self.agent,
                      "--topo", topo, *options, "--", *self.program(program, range(count), 2))
        for rank in range(2 * count):
            self.assertTrue(run.until(lambda _, r=rank: run.count(f"rank {r} goes")), run.text())
        return run

    @staticmethod
    def end(run):
        """Kill it, whatever its state."""
        run.child.send_signal(signal.SIGTERM)
        try:
            run.child.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(run.child.pid, signal.SIGKILL)
            run.child.wait()
        run.reader.join()
        run.child.stdout.close()

    def inside(self, host):
        """Processes of a host: (pid, words of its command, name)."""
        pids = self.module.ip("netns", "pids", self.hosts.name(host), check=False).stdout.split()
        for pid in pids:
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    words = f.read().split(b"\0")
                with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
                    yield int(pid), words, f.read().strip()
            except OSError:
                pass

    def kill(self, host, fabric, number=signal.SIGKILL):
        """Kill the fabric's process there, or its supervisor."""
        for pid, words, name in self.inside(host):
            if (b"join" if host else b"run") in words and words[0].endswith(b"fabemu") and \
                    (name == "fabemu-fabric") == fabric:
                os.kill(pid, number)
                return
        self.fail("there is no such process")

    def stop_for_long(self, run):
        """Stop the coordinator until the other hosts have given it up."""
        self.kill(0, True, signal.SIGSTOP)
        self.assertTrue(run.until(lambda _: not any(
            name == "fabemu-fabric" for _, _, name in self.inside(1))), run.text())
        self.kill(0, True, signal.SIGCONT)

    def unplug(self, host):
        """Take down the fabric's interface for good."""
        self.module.ip("-n", self.hosts.wire, "link", "set", f"h{host}e1", "down")

    def assert_nothing_left(self, run, hosts):
        """The run has ended, and no process or file of it is left."""
        self.assertTrue(run.until(lambda lines: run.child.poll() is not None), run.text())
        for host in hosts:
            self.assertTrue(run.until(lambda lines: not list(self.inside(host))),
                            (run.text(), list(self.inside(host))))

    every = False  # --all
    draw = random.Random()

    def some(self, cases, count):
        """A random selection of the cases."""
        cases = list(cases)
        return cases if self.every else self.draw.sample(cases, count)

    LOSSES = {"fabric killed": lambda self: self.kill(1, True),
              "supervisor killed": lambda self: self.kill(1, False),
              "unplugged": lambda self: self.unplug(1)}

    def test_run__ends_and_names_the_host_that_was_lost(self):
        for loss, lose in self.some(self.LOSSES.items(), 1):
            with self.subTest(loss=loss):
                self.make(2)
                run = self.start(2, "allreduce", "--profile", "qsnet3")
                lose(self)
                self.assert_nothing_left(run, range(2))
                self.assertIn("host h1 is lost", run.text())
                self.assertIn("ending the run", run.text())
                self.assertNotEqual(run.child.returncode, 0)

    def test_coordinator__lost(self):
        losses = {"fabric killed": lambda _: self.kill(0, True),
                  "fabric stopped": self.stop_for_long,
                  "supervisor killed": lambda _: self.kill(0, False),
                  "unplugged": lambda _: self.unplug(0)}
        for loss, lose in self.some(losses.items(), 1):
            with self.subTest(loss=loss):
                self.make(2)
                run = self.start(2, "pairs", "--profile", "qsnet3")
                lose(run)
                self.assert_nothing_left(run, range(2))
                if loss in ("fabric stopped", "unplugged"):
                    self.assertIn("the coordinator is lost; ending", run.text())

    def starts(self, *options):
        """A run that waits for a host that is never started."""
        self.make(2)
        with open(self.agent, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\nexec true\n")
        run = Run(["ip", "netns", "exec", self.hosts.name(0), "unshare", "--uts", "sh", "-c",
                   'hostname h0; exec "$@"', "sh", self.fabemu, "run", "--cluster", self.cluster,
                   "--launch", self.agent, "--topo", "kary:2,3", "--bound", "start=off", *options,
                   "--", "true"], os.environ)
        self.addCleanup(self.end, run)
        self.assertTrue(run.until(lambda _: any(
            name == "fabemu-fabric" for _, _, name in self.inside(0))), run.text())
        return run

    # How a run can end: its command, the action that ends it, its exit status.
    ENDS = {"run": ("true", lambda self, run: None, 0),
            "failed": ("false", lambda self, run: None, 1),
            "signal": ("sleep 600", lambda self, run: run.child.send_signal(signal.SIGTERM),
                       128 + signal.SIGTERM),
            "down": ("sleep 600", lambda self, run: self.on(0, self.fabemu, "down", f"{NAME}.h0"),
                     1)}

    def by_hand(self, command):
        """Start the run on h0 and the agents on all other hosts, each by hand."""
        words = ("--cluster", self.cluster, "--topo", "kary:3,2", "--name", NAME)
        run = self.on(0, self.fabemu, "run", *words, "--launch", "none", "--", "sh", "-c",
                      f"echo it goes; exec {command}")
        return run, [self.on(host, self.fabemu, "join", *words)
                     for host in range(1, self.hosts.options.hosts)]

    def test_join__ends_in_order_with_its_fabric(self):
        cases = itertools.product(self.ENDS, (2, 3), (0, 10))
        for order, count, loss in self.some(cases, 3):
            with self.subTest(order=order, hosts=count, loss=loss):
                command, end, status = self.ENDS[order]
                self.make(count, loss=loss)
                run, joins = self.by_hand(command)
                self.assertTrue(run.until(lambda _: run.count("it goes")), run.text())
                end(self, run)
                self.assert_nothing_left(run, range(count))
                self.assertEqual(run.child.wait(), status, run.text())
                for join in joins:
                    self.end(join)
                    self.assertEqual((join.text(), join.child.returncode), ("", 0))

    def keyed_cluster(self):
        """A cluster file with a key."""
        key = self.hosts.write("key", os.urandom(32), 0o600)
        with open(self.cluster, encoding="utf-8") as f:
            text = f.read()
        return self.hosts.write("keyed", text.replace("key none", f"key {key}").encode(), 0o644)

    def test_start__with_a_key_on_one_side_is_reported_on_both(self):
        """The agent stops the coordinator for 5 s, as if its start took that long."""
        self.make(2)
        slow = AGENT.replace("exec", "kill -STOP $PPID\nsleep 5\nkill -CONT $PPID\nexec", 1)
        slow = slow.replace("$*", f"$* --cluster {self.keyed_cluster()}")
        agent = self.hosts.write("slow", slow.format(mark=self.hosts.mark).encode(), 0o755)
        run = self.on(0, self.fabemu, "run", "--cluster", self.cluster, "--launch", agent,
                      "--topo", "kary:3,2", "--bound", "start=10s", "--", "true")
        self.assert_nothing_left(run, range(2))
        self.end(run)
        self.assertIn("the fabric did not start: host h1: the other host has a key, and this one "
                      "has none", run.text())
        self.assertRegex(run.text(), "host h1: .* to the coordinator.*: host h0: the other host "
                                     "has no key, and this one has one")
        self.assertIn("host h1: the other host has a key, and this one has none; waiting for it",
                      run.text())

    def test_start__ends_when_it_is_interrupted_or_its_supervisor_dies(self):
        run = self.starts()
        run.child.send_signal(signal.SIGINT)
        self.assert_nothing_left(run, range(2))
        self.assertEqual(run.child.returncode, 128 + signal.SIGINT)
        self.assertIn("interrupted while the fabric started", run.text())
        run = self.starts()
        run.child.kill()
        self.assert_nothing_left(run, range(2))

    def drop_between(self, a, b):
        """Drop frames from one host to the other at the bridge."""
        for to, sender in ((a, b), (b, a)):
            link = self.module.ip("-n", self.hosts.name(sender), "-o", "link", "show", "eth1")
            mac = link.stdout.split("link/ether ")[1].split()[0].replace(":", "")
            self.hosts.tc("qdisc", "add", "dev", f"h{to}e1", "clsact")
            # Match the sender's address in two halves; then TC_ACT_SHOT drops the frame.
            self.hosts.tc("filter", "add", "dev", f"h{to}e1", "egress", "bpf", "da", "bytecode",
                          f"6,32 0 0 6,21 0 3 {int(mac[:8], 16)},40 0 0 10,"
                          f"21 0 1 {int(mac[8:], 16)},6 0 0 2,6 0 0 0")

    def test_two_lose_each_other__and_send_through_the_third(self):
        for program in self.some(PROGRAMS, 1):
            with self.subTest(program=program):
                self.make(3)
                run = self.start(3, program, "--profile", "qsnet3", "--keep-going", topo="kary:3,2")
                self.drop_between(1, 2)
                for rank in (2, 5):  # on h1 and h2, which talk to each other
                    line = f"rank {rank} goes"
                    been = run.count(line)
                    # Ten a second at most: by then the two have lost each other.
                    self.assertTrue(run.until(lambda _, l=line, n=been: run.count(l) >= n + 50),
                                    run.text())
                self.assertNotIn("has an error", run.text())
                self.end(run)
                self.assert_nothing_left(run, range(3))
                self.assertRegex(run.text(), "links +2 lost")

    def test_two_lose_each_other__and_have_errors_without_acknowledgments(self):
        for program in self.some(PROGRAMS, 1):
            with self.subTest(program=program):
                self.make(3)
                run = self.start(3, program, "--profile", "oq2004", "--keep-going", topo="kary:3,2")
                self.drop_between(1, 2)
                for rank in (2, 5):
                    self.assertTrue(run.until(lambda _, r=rank: run.count(f"rank {r} has")),
                                    run.text())
                self.assertNotIn("is lost", run.text())  # no host is lost
                self.end(run)
                self.assert_nothing_left(run, range(3))

    def test_pulled_for_a_moment__nothing_is_lost(self):
        self.make(2)
        run = self.start(2, "pairs", "--profile", "oq2004", "--keep-going")
        self.unplug(1)
        self.module.ip("-n", self.hosts.wire, "link", "set", "h1e1", "up")
        for rank in range(4):  # and all ranks continue: the silent ones have reported
            line = f"rank {rank} goes"
            been = run.count(line)
            self.assertTrue(run.until(lambda _, l=line, n=been: run.count(l) >= n + 2), run.text())
        self.assertNotIn("is lost", run.text())
        self.assertNotIn("has an error", run.text())
        self.end(run)
        self.assert_nothing_left(run, range(2))

    def test_survivors__get_errors_and_continue(self):
        cases = itertools.product(PROFILES, PROGRAMS, self.LOSSES.items())
        for profile, program, (loss, lose) in self.some(cases, 2):
            with self.subTest(profile=profile, program=program, loss=loss):
                self.make(2)
                run = self.start(2, program, "--profile", profile, "--keep-going")
                lose(self)
                for rank in (0, 1):
                    self.assertTrue(run.until(lambda lines, r=rank: run.count(f"rank {r} has")),
                                    run.text())
                # The run's own report is not ordered with the ranks' output.
                self.assertTrue(run.until(lambda _: run.count("host h1 is lost")), run.text())
                self.end(run)
                self.assert_nothing_left(run, range(2))
                self.assertIn("its host h1 was lost", run.text())

    def program_on(self, hosts, name):
        """Start a program on a fabric that is up, one rank per host; returns when all run."""
        run = self.on(0, "sh", "-c", f"""
            eval "$({self.fabemu} env {NAME}.h0)"
            exec "$@" """, "sh", *self.program(name, hosts, 1))
        for rank in range(len(hosts)):
            self.assertTrue(run.until(lambda _, r=rank: run.count(f"rank {r} goes")), run.text())
        return run

    def end_join(self, host, up):
        """Kill all fabemu processes of the host and remove their socket."""
        for pid, words, _ in list(self.inside(host)):
            if b"join" in words:
                os.kill(pid, signal.SIGKILL)
        path = next(line.split()[1] for line in up.lines if line.startswith("socket "))
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            with socket.socket(socket.AF_UNIX) as there:
                if there.connect_ex(path.replace(".h0.", f".h{host}.")):
                    return
            time.sleep(0.02)
        self.fail("the socket is served still")

    def join(self, host, cluster, *options):
        """Start the host's part of the fabric again."""
        return self.on(host, self.fabemu, "join", "--cluster", cluster, "--host", f"h{host}",
                       "--name", NAME, *options)

    def other_cluster(self):
        """A cluster file with different content."""
        with open(self.cluster, encoding="utf-8") as f:
            text = f.read()
        with open(self.cluster + ".other", "w", encoding="utf-8") as f:
            f.write(text.replace("silent " + SILENT, "silent 4s"))
        return f.name

    def refused(self, host, up, *options):
        """Start the host with another cluster file; both sides report the mismatch."""
        wrong = self.join(host, self.other_cluster(), *options)
        self.assertTrue(up.until(lambda _: up.count(f"host h{host} cannot come back")), up.text())
        self.assertTrue(wrong.until(lambda _: wrong.child.poll() is not None), wrong.text())
        self.assertIn("another cluster file", wrong.text())

    def test_second_instance_of_a_host__is_refused(self):
        """A second instance with another cluster file is refused; the first one and the programs
        continue."""
        up = self.stays_up("af_packet", "--topo", "kary:3,2")
        run = self.program_on((0, 1), "pairs")
        wrong = self.on(2, self.fabemu, "join", "--cluster", self.other_cluster(), "--host", "h1",
                        "--name", NAME + "-2", "--topo", "kary:3,2", "--bound", "start=2s")
        refused = "refused another host that claims to be host h1"
        self.assertTrue(up.until(lambda _: up.count(refused)), up.text())
        self.assertTrue(wrong.until(lambda _: wrong.child.poll() is not None), wrong.text())
        been = run.count("rank 0 goes")
        self.assertTrue(run.until(lambda _: run.count("rank 0 goes") > been), run.text())
        self.assertNotIn("has an error", run.text())
        self.assertNotIn("is lost", up.text())
        self.assertEqual(up.count(refused), 1)
        self.end(run)
        self.end(up)
        self.assert_nothing_left(up, range(3))

    def stays_up(self, device, *options):
        """Three hosts of a fabric that stays up."""
        self.make(3, device)
        up = self.on(0, self.fabemu, "up", NAME, "--foreground", "--cluster", self.cluster,
                     "--launch", self.agent, *options)
        self.assertTrue(up.until(lambda _: up.count("stop it")), up.text())
        return up

    def come(self, order, lost, up, *options):
        """Start these hosts again, whose processes are gone."""
        if order == "refused":
            self.assertTrue(up.until(lambda _: up.count(f"host h{lost[0]} is lost")), up.text())
            self.refused(lost[0], up, *options)
        if order == "twice":
            self.join(lost[0], self.cluster, *options)
            time.sleep(self.draw.random())  # somewhere during its start
            self.end_join(lost[0], up)
        for host in lost:
            self.join(host, self.cluster, *options)

    def comes_back(self, order, profile, device, lost):
        """These hosts of three return."""
        options = ["--topo", "kary:3,2", "--profile", profile]
        stays = [host for host in (0, 1, 2) if host not in lost]
        up = self.stays_up(device, *options)
        goes_on = profile == "qsnet3" and len(stays) > 1 and self.program_on(stays, "pairs")
        cut_off = self.program_on((0, 1, 2), "allreduce")
        for host in lost:
            self.end_join(host, up)
        self.come(order, lost, up, *options)
        for host in lost:
            self.assertTrue(up.until(lambda _, h=host: up.count(f"host h{h} is back")), up.text())
        self.assertTrue(cut_off.until(lambda _: cut_off.count("rank 0 has")), cut_off.text())
        self.end(cut_off)
        self.end(self.program_on((0, 1, 2), "allreduce"))
        if goes_on:
            been = goes_on.count("rank 0 goes")
            self.assertTrue(goes_on.until(lambda _: goes_on.count("rank 0 goes") > been),
                            goes_on.text())
            self.assertNotIn("has an error", goes_on.text())
            self.end(goes_on)
        self.end(up)
        self.assert_nothing_left(up, range(3))

    def test_returning_host__programs_run_on_all(self):
        ways = [("unnoticed", (1,)), ("unnoticed", (2,)), ("refused", (2,)), ("twice", (1,)),
                ("twice", (2,)), ("both", (1, 2))]
        cases = itertools.product(ways, PROFILES, DEVICES)
        for (order, lost), profile, device in self.some(cases, 1):
            with self.subTest(order=order, lost=lost, profile=profile, device=device):
                self.comes_back(order, profile, device, lost)


def main():
    """unittest.main() with this test's options removed from the arguments."""
    for flag in ("--fabemu", "--two-hosts"):
        at = sys.argv.index(flag)
        setattr(HostLossTest, flag[2:].replace("-", "_"), os.path.abspath(sys.argv[at + 1]))
        del sys.argv[at:at + 2]
    HostLossTest.every = "--all" in sys.argv
    if HostLossTest.every:
        sys.argv.remove("--all")
    HostLossTest.draw.seed(seed())
    probe = subprocess.run([sys.executable, HostLossTest.two_hosts, "--", "true"], text=True,
                           capture_output=True)
    if probe.returncode == load(HostLossTest.two_hosts).SKIPPED:
        print(f"loss_test: {probe.stderr.strip()}")
        return probe.returncode  # meson counts it as skipped
    result = unittest.main(verbosity=2, exit=False).result
    for test, trace in result.failures + result.errors:  # outputs of the whole run are long
        where = [line.strip() for line in trace.splitlines() if line.startswith('  File "')]
        print(f"loss_test: {test}: {' < '.join(reversed(where))}", file=sys.stderr)
    return int(not result.wasSuccessful())


if __name__ == "__main__":
    sys.exit(main())
