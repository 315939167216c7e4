#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""pingpong_test.py - libfabric's own fi_pingpong over each type of endpoint, with messages of many
lengths whose data it checks.

   tests/nic/ofi/pingpong_test.py --fabemu build/fabemu [unittest options]
"""
import os
import shutil
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 2,
                                "cli"))
from cli_helpers import FabemuCase, main, until  # noqa: E402

# The program's longest messages, if it may choose: datagrams have up to 8 KB.
LONGEST = {"dgram": "8k", "rdm": "6m", "msg": "6m"}
LISTENS = "0A"  # a state in /proc/net/tcp


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def is_listening(port):
    with open("/proc/net/tcp") as tcp, open("/proc/net/tcp6") as tcp6:
        sockets = [line.split() for line in [*tcp, *tcp6]]
    return any(s[1].endswith(f":{port:04X}") and s[3] == LISTENS for s in sockets)


@unittest.skipUnless(shutil.which("fi_pingpong"), "fi_pingpong (libfabric-bin) is missing")
class PingpongTest(FabemuCase):
    def program(self, *options):
        words = ["sh", "-c", f'eval "$({self.command} env u)" && exec fi_pingpong "$@"', "sh",
                 "-p", "fabemu", "-c", *options]
        process = subprocess.Popen(words, env=self.env, text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.started.append(process)
        return process

    def pingpong(self, kind, size, *options):
        """Returns what the client printed: a line for each length."""
        words, port = ["-e", kind, "-S", size, *options], str(free_port())
        server = self.program(*words, "-B", port)
        self.assertTrue(until(lambda: is_listening(int(port)) or server.poll() is not None))
        client = self.program(*words, "-P", port, "127.0.0.1")
        printed = [process.communicate(timeout=100)[0] for process in (client, server)]
        self.assertEqual((client.returncode, server.returncode), (0, 0), "\n".join(printed))
        return [line.split() for line in printed[0].splitlines()]

    def each_type(self, *network):
        self.up("u", *network)
        for kind, longest in LONGEST.items():
            for mode in ("msg",) if kind == "dgram" else ("msg", "tagged"):
                with self.subTest(endpoint=kind, mode=mode):
                    lines = self.pingpong(kind, "all", "-m", mode)
                    self.assertEqual(lines[1][:3], ["0", "10", "=10"])
                    self.assertEqual(lines[-1][:3], [longest, "10", "=10"])

    def test_oq2004(self):
        self.each_type()

    def test_qsnet3(self):
        self.each_type("--profile", "qsnet3")

    def test_many_messages(self):
        self.up("u")
        for kind in LONGEST:
            with self.subTest(endpoint=kind):
                self.assertEqual(self.pingpong(kind, "192", "-I", "3000")[-1][1:3],
                                 ["3k", "=3k"])


if __name__ == "__main__":
    main()
