#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""cluster_test.py - fabemu cluster --check: the placement, and errors.

   tests/cli/cluster_test.py --fabemu build/fabemu [unittest options]
"""
import os
import re

from cli_helpers import FabemuCase, flat, main

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "hosts.md")
TWO = "fabric 7\nkey none\nhost alpha\nport eth0\nhost beta\nport eth0\n"


class ClusterTest(FabemuCase):
    def check(self, text, *args):
        path = os.path.join(self.dir, "lab.cluster")
        with open(path, "w", newline="", encoding="utf-8") as f:
            f.write(text)
        return self.fabemu("cluster", "--check", path, *args)

    def good(self, text, *args):
        """Its output for a valid file."""
        done = self.check(text, *args)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def bad(self, text, *args):
        """Its error for an invalid file."""
        done = self.check(text, *args)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1),
                         done.stderr)
        return done.stderr

    def key(self, mode, text="00" * 32):
        path = os.path.join(self.dir, "lab.key")
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, mode)
        return TWO.replace("key none", "key " + path)

    def test_pages_file__is_right(self):
        with open(DOCS, encoding="utf-8") as f:
            text = re.search(r"```text\n(fabric.*?)```", f.read(), re.S).group(1)
        said = self.good(re.sub(r"key \S+", "key none", text), "--topo", "kary:4,2")
        self.assertIn("over ports 1 - 0", said)
        self.assertRegex(said, r"digest [0-9a-f]{64}\n$")

    def test_digest__covers_what_hosts_must_agree_on(self):
        digests = {self.good(text, "--topo", topo, *more).split("digest ")[1]
                   for text, topo, more in ((TWO, "kary:4,2", ()), (TWO, "kary:2,4", ()),
                                            (TWO, "kary:4,2", ("--seed", "9")),
                                            (TWO, "kary:4,2", ("--profile", "qsnet3")),
                                            (TWO + "join alpha:0 beta:0\n", "kary:4,2", ()))}
        self.assertEqual(len(digests), 5)
        again = self.good("# a comment\n" + TWO, "--topo", "kary:4,2").split("digest ")[1]
        self.assertIn(again, digests)

    def test_errors__name_the_line_or_the_place(self):
        self.assertIn("lab.cluster, line 7: 'x' after join; nothing may follow it",
                      self.bad(TWO + "join alpha:0 beta:0 x\n"))
        self.assertIn("2 hosts are too many for 1 switch", self.bad(TWO, "--topo", "kary:4,1"))
        self.assertIn("host beta has switch 9, but kary:4,2 has only switches 0 to 7",
                      self.bad(TWO.replace("host beta", "switches 0-7\nhost beta") +
                               "switches 8-9\n", "--topo", "kary:4,2"))

    def test_key__must_be_private(self):
        self.assertIn("with a key", flat(self.good(self.key(0o600), "--topo", "kary:4,2")))
        self.assertIn("other users may read the key",
                      self.bad(self.key(0o644), "--topo", "kary:4,2"))
        self.assertIn("this is not a key: it must be 32 bytes",
                      self.bad(self.key(0o600, "short"), "--topo", "kary:4,2"))

    def test_pipe__without_a_writer_is_not_waited_for(self):
        pipe = os.path.join(self.dir, "a.pipe")
        os.mkfifo(pipe, 0o600)
        self.assertIn("the key must be in a regular file", self.bad(TWO.replace("none", pipe)))
        for words in (("cluster", "--check", pipe), ("fault", "--check", pipe), ("topo", pipe),
                      ("traffic", "--topo", "kary:2,2", "--profile", pipe),
                      ("traffic", "--topo", "kary:2,2", "--pattern", "file:" + pipe)):
            done = self.fabemu(*words)
            self.assertEqual((done.returncode == 0, done.stdout), (False, ""), words)
            self.assertIn("nobody writes to the pipe", done.stderr, words)

    def test_agent__failure_ends_the_wait_for_its_host(self):
        path = os.path.join(self.dir, "lab.cluster")
        port = "net_memif0,role={},socket-abstract=no,socket=" + os.path.join(self.dir, "memif")
        text = TWO.replace("port eth0", "port " + port.format("server"), 1)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text.replace("port eth0", "port " + port.format("client")))
        for words in (("run", "--", "true"), ("traffic",)):
            done = self.fabemu(words[0], "--cluster", path, "--host", "alpha", "--launch", "false",
                               "--topo", "kary:4,2", *words[1:])
            self.assertEqual(done.returncode, 1, done.stderr)
            if "host beta" not in done.stderr:
                self.skipTest("no host links here: " + done.stderr)
            self.assertIn("its launcher (false) has ended with status 1\n", done.stderr)

    def test_byte_order_mark__is_ignored(self):
        self.assertEqual(self.good("\ufeff" + TWO), self.good(TWO))

    def test_usage__is_printed(self):
        for args in ((), ("--check",), ("--check", "x", "y")):
            self.assertEqual(self.fabemu("cluster", *args).returncode, 2, args)
        done = self.fabemu("cluster", "--check", "x", "y")
        self.assertIn("takes no operand 'y'; give --check FILE", done.stderr)
        for command in (("run",), ("up",), ("traffic",)):
            for option in (("--host", "x"), ("--launch", "x"), ("--launch", "none")):
                done = self.fabemu(*command, *option, "--", "true")
                self.assertEqual(done.returncode, 2, (command, option))
                self.assertIn(option[0] + " needs --cluster FILE", done.stderr)
        done = self.fabemu("cluster", "--check", os.path.join(self.dir, "none"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("cannot read the cluster file", done.stderr)


if __name__ == "__main__":
    main()
