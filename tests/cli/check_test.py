#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""check_test.py - fabemu check: healthy fabrics, and the errors that it finds in a damaged one."""
import contextlib
import json
import os
import re
import socket
import threading
import time

from cli_helpers import FabemuCase, flat, main

WRONG = {"right": False, "found": 3, "switches": 4, "cables": 8, "groups": 1, "routes": 8,
         "buffers": 2,
         "partitioned": 1, "treeless": 0, "paused_ns": 1000, "elapsed_ns": 2000,
         "wrong": ["switch 3 port 1 (cable to switch 0 port 2): "
                   "credits were lost on the cable to here",
                   "switch 1, group 65537: the group is not in its table"]}


class Check(FabemuCase):
    def check(self, *args):
        done = self.fabemu("check", "--json", *args)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return json.loads(done.stdout)

    def test_check__of_idle_fabrics__finds_nothing(self):
        for name, options in (("plain", ()), ("real", ("--clock", "real")),
                              ("acknowledged", ("--profile", "qsnet3")),
                              ("units", ("--profile", "qsnet3", "--set", "combining=switch"))):
            with self.subTest(name=name):
                self.up(name, *options)
                got = self.check(name)
                self.assertEqual((got["right"], got["found"], got["wrong"]), (True, 0, []))
                self.assertEqual((got["switches"], got["cables"], got["routes"], got["groups"]),
                                 (4, 8, 8, 0))
                self.assertEqual((got["partitioned"], got["treeless"], got["buffers"]), (0, 0, 0))
                self.assertGreater(got["paused_ns"], 0)
                self.assertGreaterEqual(got["elapsed_ns"], got["paused_ns"])
                text = self.fabemu("check", name)
                self.assertEqual((text.returncode, text.stderr), (0, ""))
                self.assertIn(f"{name}: right\n", text.stdout)
                self.assertIn("4 switches, 8 cables, 8 routes, 0 groups, 0 buffers", text.stdout)
                self.assertIn("the workers were held for ", text.stdout)

    def test_check__of_many_nodes__has_separators_in_numbers(self):
        done = self.fabemu("up", "--topo", "kary:32,2", "--threads", "1", "many")
        self.assertIn("kary:32,2, 1,024 nodes, ", flat(done.stdout))
        text = flat(self.fabemu("check", "many").stdout)
        self.assertIn("64 switches, 2,048 cables, 32,768 routes, ", text)
        self.assertIn("kary:32,2: 1,024 nodes, ", flat(self.fabemu("status", "many").stdout))

    def test_check__with_processes_and_a_group__by_the_socket(self):
        path = self.up("busy")
        clients = [self.client(path) for _ in range(4)]
        for client in clients:
            self.assertTrue(client.attach()["ok"])
        made = clients[0].ask("group_create", nodes=[0, 1, 2, 3])
        self.assertTrue(made["ok"], made)
        reply = self.client(path).ask("check")
        self.assertTrue(reply["ok"])
        self.assertEqual(reply["name"], "busy")
        self.assertEqual((reply["check"]["right"], reply["check"]["groups"]), (True, 1))
        for client in clients:
            client.close()
        until = time.monotonic() + 10
        while self.check("busy")["groups"] and time.monotonic() < until:
            time.sleep(0.02)
        self.assertEqual(self.check("busy")["groups"], 0)

    def test_run__is_checked_at_its_end(self):
        path = os.path.join(self.dir, "r.json")
        done = self.fabemu("run", "--topo", "kary:2,2", "--report", path, "--", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("NOT RIGHT", done.stderr)
        with open(path) as f:
            check = json.load(f)["check"]
        self.assertEqual((check["right"], check["switches"], check["routes"]), (True, 4, 0))

    def fake(self, name, check, limit_ms=0, after_s=0):
        """
        A broken fabric that answers one request. With limit_ms, it repeats the event "wait" for
        after_s seconds first, of which only the first one counts.
        """
        if not os.path.isdir(os.path.dirname(self.socket_path(name))):
            self.up("other")  # creates the folder
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.socket_path(name))
        os.chmod(self.socket_path(name), 0o600)
        listener.listen()

        def answer():
            client, _ = listener.accept()
            request = json.loads(client.recv(4096))
            with contextlib.suppress(BrokenPipeError):
                end = time.monotonic() + after_s
                while time.monotonic() < end:
                    if limit_ms and request["wait"]:
                        client.sendall(b'{"event":"wait","limit_ms":%d}\n' % limit_ms)
                    time.sleep(0.05)
                reply = {"ok": True, "name": name, "check": check}
                client.sendall(json.dumps(reply).encode() + b"\n")
            client.close()
            listener.close()
        threading.Thread(target=answer, daemon=True).start()

    def test_check__of_a_broken_fabric__exits_1_with_a_line_each(self):
        self.fake("bad", WRONG)
        done = self.fabemu("check", "bad")
        os.unlink(self.socket_path("bad"))
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        said = re.split(r"\n  (?=\S)", done.stdout)
        self.assertEqual([flat(one) for one in said[:4]],
                         ["bad: 3 errors", *WRONG["wrong"][:2], "and 1 more"])
        self.assertIn("1 route and 0 trees are impossible", flat(done.stdout))

    def test_check__of_an_incomplete_reply__exits_1(self):
        self.fake("odd", {"right": True})
        done = self.fabemu("check", "odd")
        os.unlink(self.socket_path("odd"))
        self.one_line(done, 1, "found")

    def test_check__waits_as_long_as_the_fabric_says(self):
        self.fake("slow", WRONG, limit_ms=60000, after_s=10)
        done = self.fabemu("check", "slow")
        os.unlink(self.socket_path("slow"))
        self.assertIn("slow: 3 errors", done.stdout)
        self.assertRegex(done.stderr,
                         r"^fabemu: waiting for other hosts of the fabric, \d+ s so far\n$")
        self.fake("stuck", WRONG, limit_ms=100, after_s=2)
        done = self.fabemu("check", "stuck")
        os.unlink(self.socket_path("stuck"))
        self.one_line(done, 1, "does not answer")

    def test_check__where_none_runs__is_one_line(self):
        self.one_line(self.fabemu("check", "nobody"), 1, "nobody")
        self.one_line(self.fabemu("check", "a", "b"), 2, "give one name")


if __name__ == "__main__":
    main()
