#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""in_vm_test - scripts/in-vm: its options and, where QEMU and a kernel are installed, a machine."""
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

IN_VM = pathlib.Path(__file__).resolve().parent.parent / "scripts" / "in-vm"
SKIPPED = 77
# In the machine: its output and its status, what it sees, what stays; and what it leaves running.
WITHIN = """
echo "$0 $(hostname) $(nproc) in $PWD: $TOLD"; echo "to standard error" >&2
ip link add v0 type veth peer name v1 && tc qdisc add dev v0 root netem loss 1% && echo netem
echo stays >stays; ls /tmp | wc -l; touch /usr/gone && echo wrote
sleep 1000 & exit 5
"""


def run(*words, **more):
    return subprocess.run([sys.executable, str(IN_VM), *words], text=True, check=False,
                          capture_output=True, stdin=subprocess.DEVNULL, **more)


def machines(pid):
    """Those that a process has started."""
    return subprocess.run(["pgrep", "-P", str(pid), "^qemu"], text=True, check=False,
                          capture_output=True).stdout.split()


def runs(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class InVm(unittest.TestCase):
    def refused(self, words, why):
        ended = run(*words)
        self.assertEqual(ended.returncode, 2, ended)
        self.assertIn(why, ended.stderr)

    def test_options__wrong_ones_are_refused(self):
        for words, why in ((["--cpus", "2"], "it needs a command"),
                           ([], "it needs a command"),
                           (["true"], "unrecognized arguments: true"),
                           (["--cpus", "0", "--", "true"], "--cpus 0: one at least"),
                           (["--cpus", "two", "--", "true"], "--cpus: invalid int value: 'two'"),
                           (["--memory", "6", "--", "true"], "it must be like 6G, or 900M"),
                           (["--share", "/no/such", "--", "true"], "/no/such: no such folder"),
                           (["--name", "a b", "--", "true"], "letters, digits and '-'"),
                           (["--accel", "hax", "--", "true"], "invalid choice: 'hax'"),
                           (["--cpu", "2", "--", "true"], "unrecognized arguments: --cpu")):
            with self.subTest(words=words):
                self.refused(words, why)

    def test_help__names_each_option(self):
        told = run("--help")
        self.assertEqual(told.returncode, 0)
        for option in ("--cpus", "--memory", "--share", "--name", "--accel", "--boot", "--qemu",
                       "--timeout"):
            self.assertIn(option, told.stdout)

    def test_missing__says_what_to_install(self):
        with tempfile.TemporaryDirectory() as empty:
            ended = run("--", "true", env={**os.environ, "PATH": empty})
        self.assertEqual(ended.returncode, SKIPPED, ended)
        self.assertIn("skipped: no QEMU, busybox or modprobe; run scripts/deps qemu-system-x86",
                      ended.stderr)


class Machine(unittest.TestCase):
    """Not among what scripts/deps installs by itself."""

    def started(self, *words, **more):
        ended = run(*words, **more)
        if ended.returncode == SKIPPED:
            self.skipTest(f"SKIPPED: {ended.stderr.strip()}")
        return ended

    def test_command__has_its_output_its_status_and_what_it_shares(self):
        with tempfile.TemporaryDirectory() as folder:
            ended = self.started("--cpus", "2", "--memory", "1G", "--share", folder, "--name",
                                 "odd", "--timeout", "150", "--", "bash", "-c", WITHIN, "it's $me",
                                 cwd=folder, env={**os.environ, "TOLD": "a 'b'\n\"c\" $d"})
            files = os.listdir(folder)
        # An empty /tmp has the folder that is shared.
        said = f"it's $me odd 2 in {folder}: a 'b'\n\"c\" $d\nto standard error\nnetem\n1\nwrote\n"
        self.assertEqual((ended.returncode, ended.stdout), (5, said), ended.stderr)
        self.assertEqual(files, ["stays"])
        self.assertFalse(os.path.exists("/usr/gone"))

    def test_killed__leaves_no_machine(self):
        vm = subprocess.Popen([sys.executable, str(IN_VM), "--memory", "1G", "--", "sleep", "999"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
        qemu = []
        while vm.poll() is None and not qemu:
            qemu = machines(vm.pid)
            time.sleep(0.01)
        vm.kill()
        said = vm.communicate()[1]
        if vm.returncode == SKIPPED:
            self.skipTest(f"SKIPPED: {said.strip()}")
        self.assertTrue(qemu, said)
        give_up = time.monotonic() + 30
        while runs(qemu[0]) and time.monotonic() < give_up:
            time.sleep(0.01)
        self.assertFalse(runs(qemu[0]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
