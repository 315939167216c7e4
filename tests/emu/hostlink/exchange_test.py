#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""exchange_test.py - ports that connect one network namespace to another.

   exchange_test.py --exchange build/tests/hostlink_exchange --two-hosts scripts/two-hosts

scripts/two-hosts makes the namespaces, exchange.c sends and receives. All tests are skipped where
namespaces may not be created.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PATIENCE_S = 60
SKIPPED = 77
WITHOUT_DPDK = "built without DPDK"


class Base(unittest.TestCase):
    exchange = two_hosts = None

    def start(self, *options, command):
        """Start two-hosts. It is stopped when the test ends."""
        run = subprocess.Popen([sys.executable, self.two_hosts, *options, "--", *command],
                               text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
        self.addCleanup(self.end, run)
        return run

    @staticmethod
    def end(run):
        """Stop two-hosts if it is still running, and close its outputs."""
        if run.poll() is None:
            run.terminate()
            run.wait(PATIENCE_S)
        run.stdout.close()
        run.stderr.close()

    def finish(self, run):
        """Wait until two-hosts exits with success, and return its output."""
        out, err = run.communicate(timeout=PATIENCE_S + 40)
        if run.returncode == SKIPPED or WITHOUT_DPDK in err:
            self.skipTest(err.strip())
        return out, err

    def exchanged(self, run):
        """Return both hosts' reports once all frames have arrived."""
        out, err = self.finish(run)
        self.assertEqual(run.returncode, 0, out + err)
        self.assertEqual(err, "")
        reports = [json.loads(line) for line in re.findall(r"^host\d: (\{.*)$", out, re.M)]
        self.assertEqual(len(reports), 2, out)
        for mine, other in (reports, reversed(reports)):
            self.assertTrue(mine["all"])
            self.assertEqual(mine["sent"], mine["of"])
            self.assertEqual(mine["received"], other["of"])
            self.assertEqual(mine["wrong"], 0)
            self.assertGreater(mine["again"], 0)
            self.assertGreater(mine["doubles"], 0)
        return reports

    def left_behind(self, pid):
        """Resources that two-hosts @pid left behind."""
        names = subprocess.run(["ip", "netns", "list"], text=True, capture_output=True, check=True)
        left = re.findall(rf"fabemu-hosts-{pid}-\w+", names.stdout)
        folder = os.path.join(tempfile.gettempdir(), f"fabemu-hosts-{pid}")
        return left + ([folder] if os.path.exists(folder) else [])

    def until(self, condition, what):
        """Wait until @condition holds; fail with @what on time-out."""
        end = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.05)

    def connect(self, run):
        """Wait until both hosts have heard each other. Returns the namespace that is the wire."""
        lines = ""
        while lines.count(": up\n") < 2:
            line = run.stdout.readline()
            if not line:
                _, err = self.finish(run)
                self.fail(lines + err)
            lines += line
        return f"fabemu-hosts-{run.pid}-wire"


class Exchange(Base):
    def test_af_packet__frames_of_all_sizes(self):
        for mine in self.exchanged(self.start(command=[self.exchange, "{device}"])):
            self.assertEqual(mine["frame_bytes"], 9014)
            self.assertEqual(mine["of"], 9014 - 60 + 1)
            self.assertTrue(mine["wakes"])
            self.assertEqual(mine["free_after"], mine["free_before"])

    def test_memif__frames_of_all_sizes(self):
        run = self.start("--device", "memif", command=[self.exchange, "{device}"])
        for mine in self.exchanged(run):
            self.assertEqual(mine["of"], 9014 - 60 + 1)
            self.assertEqual(mine["free_after"], mine["free_before"])

    def test_af_xdp__frames_of_all_sizes(self):
        run = self.start("--device", "af_xdp", command=[self.exchange, "{device}"])
        for mine in self.exchanged(run):
            self.assertGreater(mine["frame_bytes"], 3300)
            self.assertTrue(mine["wakes"])
            # The device has not released the last acknowledgments yet.
            self.assertLess(mine["free_before"] - mine["free_after"], 64)

    def test_tap__frames_of_all_sizes_through_a_bridge(self):
        """The bridge forwards frames for the port's address to the port, not to its own stack."""
        run = self.start("--device", "tap", command=[self.exchange, "{device}"])
        for mine in self.exchanged(run):
            self.assertEqual(mine["frame_bytes"], 1514)
            self.assertTrue(mine["wakes"])

    def test_small_mtu__small_frames(self):
        run = self.start("--mtu", "1500", command=[self.exchange, "{device}"])
        for mine in self.exchanged(run):
            self.assertEqual(mine["frame_bytes"], 1514)

    def test_own_arguments__override_defaults(self):
        run = self.start(command=[self.exchange, "{device},framesz=2048,blocksz=4096,framecnt=64"])
        for mine in self.exchanged(run):
            self.assertLess(mine["frame_bytes"], 2048)

    def test_netem__all_frames_arrive(self):
        run = self.start("--netem", "loss 2% duplicate 2% reorder 10% delay 1ms",
                         command=[self.exchange, "{device},qdisc_bypass=0", "1000"])
        reports = self.exchanged(run)
        self.assertGreater(sum(mine["early"] for mine in reports), 0)

    def test_loss__all_frames_arrive(self):
        reports = self.exchanged(self.start("--loss", "2", command=[self.exchange, "{device}"]))
        self.assertGreater(sum(mine["early"] for mine in reports), 0)

    def test_own_queue_delays__sending_does_not_wait(self):
        """The sender's slow queue holds a whole ring of frames: further frames are refused at
        once."""
        shell = "tc qdisc add dev eth1 root tbf rate 50mbit burst 20kb limit 2mb && exec \"$@\""
        run = self.start(command=["sh", "-c", shell, "sh", self.exchange,
                                  "{device},qdisc_bypass=0,framecnt=32,framesz=9216,blocksz=36864",
                                  "2000"])
        for mine in self.exchanged(run):
            self.assertGreater(mine["refused"], 0)

    def test_cable_pulled__exchange_resumes(self):
        run = self.start(command=[self.exchange, "{device}", "60000"])
        wire = self.connect(run)
        for state in ("down", "up"):
            subprocess.run(["ip", "-n", wire, "link", "set", "h1e1", state], check=True)
            time.sleep(1)
        self.exchanged(run)

    def test_interface_down__exchange_resumes(self):
        run = self.start(command=[self.exchange, "{device}", "60000"])
        host = self.connect(run).replace("wire", "h0")
        for state in ("down", "up"):
            subprocess.run(["ip", "-n", host, "link", "set", "eth1", state], check=True)
            time.sleep(1)
        self.exchanged(run)


    def test_memif__client_before_its_server(self):
        shell = "[ {host} = 1 ] || sleep 2; exec \"$@\""
        run = self.start("--device", "memif", command=["sh", "-c", shell, "sh", self.exchange,
                                                       "{device}", "1000"])
        self.exchanged(run)


class Tcp(Base):
    def test_tcp__ranks_on_both_hosts(self):
        if not shutil.which("mpirun"):
            self.skipTest("no mpirun")
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        run = self.start("--tcp", command=["env", *(f"{k}={v}" for k, v in root.items()),
                                           "mpirun", "-np", "2", "hostname"])
        out, err = self.finish(run)
        self.assertEqual(run.returncode, 0, out + err)
        self.assertEqual(sorted(out.split()), ["h0", "h1"])


class Refusals(Base):
    def refused(self, shell, *, device="{device}", options=()):
        """Return the error line of the host whose device cannot be opened."""
        run = self.start(*options, command=["sh", "-c", shell + "; exec \"$@\"", "sh",
                                            self.exchange, device, "1"])
        out, err = self.finish(run)
        self.assertEqual(run.returncode, 3, out + err)
        lines = err.splitlines()
        self.assertEqual(len(lines), 2, err)  # one line per host
        return lines[0]

    def test_interface_down(self):
        self.assertIn("the interface eth1 is down", self.refused("ip link set eth1 down"))

    def test_mtu_too_small(self):
        self.assertIn("at most 414 bytes, and a link between hosts needs 512",
                      self.refused("ip link set eth1 mtu 400"))

    def test_mtu_too_large_for_xdp(self):
        self.assertIn("MTU of at most 3498", self.refused(":", options=("--device", "af_xdp",
                                                                        "--mtu", "9000")))

    def test_ring_size_refused_by_the_kernel(self):
        self.assertIn("PACKET_RX_RING", self.refused(":", device="{device},blocksz=10000"))

    def test_unknown_device_argument(self):
        self.assertIn("net_af_packet0: DPDK cannot open it",
                      self.refused(":", device="{device},colour=red"))

    def test_no_permission(self):
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("needs root, and setpriv")
        dropped = ["setpriv", "--bounding-set=-net_raw,-net_admin",
                   "--inh-caps=-net_raw,-net_admin"]
        if subprocess.run([*dropped, "true"], capture_output=True).returncode:
            self.skipTest("setpriv cannot drop capabilities here")
        for device in ("af_packet", "af_xdp"):
            run = self.start("--device", device,
                             command=[*dropped, self.exchange, "{device}", "1"])
            _, err = self.finish(run)
            self.assertEqual(run.returncode, 3, err)
            self.assertIn("no permission: it needs root, or the capabilities CAP_NET_RAW", err)

    def test_memif__server_twice(self):
        """Host 1 starts second. Host 0 stays until host 1 has been refused."""
        shell = ("if [ {host} = 0 ]; then \"$@\" & while ! [ -e {dir}/told ]; do sleep 0.05; done; "
                 "kill -9 $!; else while ! [ -e {dir}/one ]; do sleep 0.05; done; \"$@\"; "
                 ": >{dir}/told; fi")
        run = self.start("--device", "memif", command=[
            "sh", "-c", shell, "sh", self.exchange,
            "net_memif0,role=server,socket={dir}/one", "1"])
        _, err = self.finish(run)
        self.assertIn("host1: net_memif0: another server has the socket", err)


class LeftBehind(Base):
    def test_memif__stale_socket_of_a_dead_server(self):
        # Host 1 waits until host 0 is dead. Otherwise it would connect to host 0, and both would
        # succeed.
        shell = ("if [ {host} = 0 ]; then \"$@\" >{dir}/first & while ! [ -e {dir}/memif-0-1 ] && "
                 "kill -0 $!; do sleep 0.05; done; kill -9 $!; wait $!; "
                 "[ -e {dir}/memif-0-1 ] || echo no socket; : >{dir}/dead; "
                 "else while ! [ -e {dir}/dead ]; do sleep 0.05; done; fi; exec \"$@\"")
        run = self.start("--device", "memif", command=["sh", "-c", shell, "sh", self.exchange,
                                                       "{device}", "1000"])
        out, err = self.finish(run)
        self.assertEqual(out.count('"all": true'), 2, out + err)
        self.assertNotIn("no socket", out)

    def killed(self, number):
        """A signal to two-hosts leaves nothing behind."""
        run = self.start(command=["sh", "-c", "echo at work; sleep 1000 & sleep 1000"])
        if not run.stdout.readline():
            self.finish(run)
        inside = []

        def at_work():
            """Host 0's shell has started its command: the output line may be host 1's."""
            inside[:] = subprocess.run(["ip", "netns", "pids", f"fabemu-hosts-{run.pid}-h0"],
                                       text=True, capture_output=True, check=True).stdout.split()
            return len(inside) > 2
        self.until(at_work, "host 0's shell has not started its two")
        run.send_signal(number)
        run.wait(PATIENCE_S)
        self.until(lambda: not self.left_behind(run.pid), "namespaces or folder left")
        self.until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in inside),
                   "processes left")

    def test_two_hosts__killed(self):
        self.killed(signal.SIGKILL)

    def test_two_hosts__terminated(self):
        self.killed(signal.SIGTERM)

    def test_two_hosts__removes_leftovers_of_a_killed_run(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        if subprocess.run(["ip", "netns", "add", f"fabemu-hosts-{gone.pid}-h0"],
                          capture_output=True).returncode:
            self.skipTest("namespaces cannot be made here")
        os.mkdir(os.path.join(tempfile.gettempdir(), f"fabemu-hosts-{gone.pid}"))
        self.finish(self.start(command=["true"]))
        self.assertEqual(self.left_behind(gone.pid), [])


def main():
    """unittest.main() with this test's options removed from the arguments."""
    args = sys.argv[1:]
    for option, name in (("--exchange", "exchange"), ("--two-hosts", "two_hosts")):
        at = args.index(option)
        setattr(Base, name, os.path.abspath(args[at + 1]))
        del args[at:at + 2]
    probe = subprocess.run([sys.executable, Base.two_hosts, "--", "true"], text=True,
                           capture_output=True)
    if probe.returncode == SKIPPED:
        print(f"exchange_test: {probe.stderr.strip()}")
        return SKIPPED  # meson counts it as skipped
    unittest.main(module="__main__", argv=[sys.argv[0], "-v", *args])
    return 0


if __name__ == "__main__":
    sys.exit(main())
