#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""hostile_test.py - clients of a control socket whose peer violates the protocol. Each client ends
with a clear error or with a result; none crashes or waits for ever.

    tests/apps/daemon/hostile_test.py --fabemu build/fabemu [unittest options]
"""
import array
import concurrent.futures
import contextlib
import copy
import json
import mmap
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 2,
                                "cli"))
from cli_helpers import (HOSTIF_VERSION, Client, FabemuCase, alive, main,  # noqa: E402
                     stat_of, until)
from helpers.fabric import Listener  # noqa: E402
from helpers.seed import seed  # noqa: E402

NAME = "h"
PATIENCE_S = 60  # limit for a client to end; its own bounds are 5 to 20 s
# A value of every JSON type, and numbers that no field can have.
# Each field gets DRAWN of them, since each takes a process: FABEMU_SEED draws others.
VALUES = (None, True, -1, 2**63, 2**64, 1e308, "text", "", [], [7], [[]], [{}], {}, {"a": 1})
DRAWN = 4
ABSENT = object()
JOBS = 64  # clients at a time: they mostly wait

# A fabric's report of processes that wait for each other: docs/control.md.
OPERATION = {"kind": "receive", "state": "unmatched", "node": 1, "tag": 7, "ignore": 0, "bytes": 8,
             "for_ns": 9000000000}
PROCESS = {"node": 0, "pid": 7, "command": "a", "rank": 0, "host": "x", "waits": True,
           "stopped": False, "silent_ns": 4000000000, "waited_ns": 5, "send": OPERATION,
           "receive": OPERATION, "unexpected": 2, "first_unexpected": OPERATION}
STANDSTILL = {
    "for_ns": 9000000000,
    "collectives": [{
        "group": 3, "name": "c", "number": 1, "kind": "all-reduce", "bytes": 8, "operation": "sum",
        "type": "int32", "root": 0, "for_ns": 2000000000, "members": 2, "arrived": [0],
        "missing": [{"node": 1, "begun": 1, "entered": False, "switch": 0, "port": 1}],
        "differ": [{"node": 1, "kind": "barrier"}],
        "mismatch": [{"node": 0, "kind": "barrier"}, {"node": 1, "kind": "reduce"}],
        "gaps": [{"from": 0, "switch": 1, "port": 2, "from_host": "x", "host": "y"}]}],
    "links": [{"switch": 0, "port": 1, "to_switch": 2, "waits_for": "credit", "for_ns": 2**31}],
    "disagreements": [{"group": 3, "name": "c", "number": 1, "mine": {"node": 0, "kind": "barrier"},
                       "other": {"node": 1, "kind": "reduce", "bytes": 8}}]}
COMMUNICATION = {
    "collectives": [{"kind": "reduce", "where": "elsewhere", "bytes_most": 64, "calls": 2,
                     "bytes": 8, "time_ns": {"sum": 9, "mean": 4, "longest": 5},
                     "wait_ns": {"sum": 9, "mean": 4, "longest": 5},
                     "network_ns": {"sum": 9, "mean": 4, "longest": 5}}],
    "messages": {"pairs": 1, "messages": 2, "bytes": 8, "within_switch": {"bytes": 8},
                 "matrix": [[0, 1, 2, 8]]}}
REPORT = {
    "clock": {"host_time": {"processes": 2, "by": ["timers"]}},
    "died": [{"node": 0, "pid": 7, "command": "a", "how": "killed"}],
    "faults": [{"fault": 1, "text": "loss", "times": 1, "hits": 2}],
    "links": {"lost": 1, "new_tables": 1, "trees_moved": 1},
    "unrecoverable": {"units_out": 1, "groups_failed": 1},
    "hosts": [{"host": "x", "state": "up", "nodes": 2, "attached": 1, "segments": {"hops": 1},
               "combined": {}, "links": [{"host": "y", "cables": 1, "clock_error_ns": 5}]}],
    "programs": {"on_time": False, "attached_ns": 5, "longest": {"node": 0, "waited_ns": 9}},
    "timeline": {"kept": {}, "left_out": {}, "hosts": [{"clock_error_ns": 4}], "whole": True},
    "check": {"wrong": ["a cable"], "found": 2},
    "communication": COMMUNICATION,
    "exit_status": 0, "wall_s": 1.5}


def paths_of(value, at=()):
    """The paths to the fields of an object, and to the first two elements of its lists."""
    if isinstance(value, dict):
        items = value.items()
    else:
        items = enumerate(value[:2]) if isinstance(value, list) else ()
    for key, below in items:
        yield (*at, key)
        yield from paths_of(below, (*at, key))


def changed(value, path, other):
    """A copy of an object with another value at the path; ABSENT: without that field."""
    ret = copy.deepcopy(value)
    at = ret
    for key in path[:-1]:
        at = at[key]
    if other is ABSENT:
        del at[path[-1]]
    else:
        at[path[-1]] = other
    return ret


class Hostile(Listener):
    """@answer(conn, cmd) handles a request, and returns True to keep the connection. @gone(conn)
    is called when a connection has ended."""

    def __init__(self, path, answer, gone=lambda conn: None):
        self.answer, self.gone = answer, gone
        super().__init__(path)

    def talk(self, conn):
        with contextlib.suppress(OSError, ValueError), conn, conn.makefile("rb") as lines:
            for line in lines:
                if not self.answer(conn, json.loads(line)["cmd"]):
                    break
        self.gone(conn)


def never(conn, cmd):
    return True


def hangs_up(conn, cmd):
    return False


def in_the_middle(conn, cmd):
    conn.sendall(b'{"ok":true,"name":')


def without_end(name, data, pause_s=0):
    """The behaviour @name: a peer that sends @data without end."""
    def answer(conn, cmd):
        while True:
            conn.sendall(data)
            time.sleep(pause_s)
    answer.__name__ = name
    return answer


only_events = without_end("only_events", b'{"event":"fault","s":1.5}\n', 0.05)
flood_of_events = without_end("flood_of_events", b'{"event":"telemetry"}\n' * 100)
byte_by_byte = without_end("byte_by_byte", b" ", 0.05)
huge_line = without_end("huge_line", b" " * 65536)


def no_json(conn, cmd):
    conn.sendall(b"HTTP/1.1 400 Bad Request\n")


def no_object(conn, cmd):
    conn.sendall(b"[1,2]\n")


def only_ok(conn, cmd):
    conn.sendall(b'{"ok":true}\n')


def no_reason(conn, cmd):
    conn.sendall(b'{"ok":false}\n')


def reason_of_another_type(conn, cmd):
    conn.sendall(b'{"ok":false,"errno":"five","error":[7]}\n')


BEHAVIOURS = (never, hangs_up, in_the_middle, only_events, flood_of_events, byte_by_byte, huge_line,
              no_json, no_object, only_ok, no_reason, reason_of_another_type)

ATTACH = r"""
#include "fabemu.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
    struct fabemu *fab;
    uint32_t id, nodes[2] = {0, 1};
    int err = fabemu_attach(&fab, NULL);

    if (err) {
        fprintf(stderr, "fabemu: attach: %s (%s)\n", fabemu_error(), strerror(-err));
        return 1;
    }
    if (argc > 1)
        err = fabemu_group_create(fab, nodes, 2, &id);
    if (err)
        fprintf(stderr, "fabemu: group: %s (%s)\n", fabemu_error(), strerror(-err));
    fabemu_detach(fab);
    return err ? 1 : 0;
}
"""


class HostileTest(FabemuCase):
    def setUp(self):
        super().setUp()
        self.hostiles = []
        self.random = random.Random(seed())

    def tearDown(self):
        for hostile in self.hostiles:
            hostile.close()
        super().tearDown()

    def listen(self, answer, name=NAME, **kwargs):
        hostile = Hostile(self.socket_path(name), answer, **kwargs)
        self.hostiles.append(hostile)
        return hostile

    def commands(self, name):
        """The words of each command that sends a request to a fabric."""
        return (["status", name], ["status", "--json", name], ["status", "--metrics", name],
                ["check", name], ["check", "--json", name], ["fault", "--name", name],
                ["fault", "--name", name, "--json"], ["fault", "--name", name, "loss", "random"],
                ["fault", "--name", name, "--clear", "1"], ["top", "--once", name],
                ["capture", name, "-w", os.path.join(self.dir, name)], ["down", name])

    def ended(self, words, env=None):
        """Runs a client to its end, and checks that a user can understand how it ends."""
        done = subprocess.run(words, env=env or self.env, text=True, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=PATIENCE_S)
        self.assertIn(done.returncode, (0, 1), (words, done.stderr))
        self.assertNotRegex(done.stderr, "Assertion|runtime error|AddressSanitizer")
        if done.returncode:
            self.assertRegex(done.stderr, r"\A(fabemu: [^\n]+\n)+\Z|\A\Z", words)
            self.assertTrue(done.stderr or done.stdout, words)  # check prints what is wrong
        return done

    def test_clients__end_whatever_the_peer_does(self):
        program = self.against_library(ATTACH)
        ends = []
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            for behaviour in BEHAVIOURS:
                name = behaviour.__name__
                self.listen(behaviour, name)
                env = {**self.env, "FABEMU_SOCKET": self.socket_path(name)}
                ends += [(behaviour, words, pool.submit(self.ended, words, env))
                         for words in [[program], *([self.command, *command]
                                                    for command in self.commands(name))]]
        for behaviour, words, end in ends:
            with self.subTest(behaviour=behaviour.__name__, words=words):
                status = end.result().returncode
                if behaviour != only_ok:  # {"ok": true} is a valid answer to some requests
                    self.assertEqual(status, 1)

    def replies(self):
        """A fabric's answers by request; the reply to status has every possible field."""
        self.up("real")
        client = self.client(self.socket_path("real"))
        ret = {cmd: client.ask(cmd) for cmd in ("status", "check", "faults")}
        self.fabemu("fault", "--name", "real", "node-slow", "node=0", "share=50%")
        ret["faults"] = client.ask("faults")
        self.assertEqual(len(ret["faults"]["faults"]), 1)
        ret["status"]["report"].update(REPORT)
        ret["status"].update(attached=[PROCESS, {**PROCESS, "node": 1, "silent_ns": 0}],
                             standstill=STANDSTILL)
        ret["fault"] = {"ok": True, "fault": 3, "note": "note"}
        self.fabemu("down", "real")
        return ret

    def test_commands__validate_every_field_of_a_reply(self):
        replies = self.replies()
        commands = {"status": ["status", NAME], "check": ["check", NAME],
                    "faults": ["fault", "--name", NAME],
                    "fault": ["fault", "--name", NAME, "loss", "random"]}
        needed = {("status", "name"), ("status", "report"), ("status", "attached"),
                  ("check", "check"), ("faults", "faults"), ("fault", "fault")}
        answers = {}

        def answer(conn, cmd):
            conn.sendall(answers[cmd])

        def one(cmd, path):
            self.assertEqual(self.ended([self.command, *commands[cmd]]).returncode,
                             int((cmd, *path) in needed), (cmd, path))

        self.listen(answer)
        for cmd, reply in replies.items():
            answers[cmd] = json.dumps(reply).encode() + b"\n"
            self.assertEqual(self.ended([self.command, *commands[cmd]]).stderr,
                             "fabemu: note\n" if cmd == "fault" else "")
            for path in paths_of(reply):
                if path == ("ok",):
                    continue
                answers[cmd] = json.dumps(changed(reply, path, ABSENT)).encode() + b"\n"
                if path != ("check", "right") and path != ("check", "found"):
                    one(cmd, path)
                for other in self.random.sample(VALUES, DRAWN):
                    answers[cmd] = json.dumps(changed(reply, path, other)).encode() + b"\n"
                    self.ended([self.command, *commands[cmd]])

    def test_counters__are_validated_by_every_reader(self):
        client = self.client(self.up("real"))
        client.ask("subscribe", telemetry=100)
        shape, snapshot = client.next(), client.next()
        self.fabemu("down", "real")
        lines = []

        def answer(conn, cmd):
            conn.sendall(b'{"ok":true}\n' + b"".join(json.dumps(line).encode() + b"\n"
                                                     for line in lines))
            return True

        self.listen(answer)
        for i, line in enumerate((shape, snapshot)):
            for path in paths_of(line):
                for other in (ABSENT, *self.random.sample(VALUES, DRAWN)):
                    lines[:] = [shape, snapshot, snapshot]
                    for at in range(len(lines)):
                        if lines[at] is line:
                            lines[at] = changed(line, path, other)
                    # if "event" is changed, the line is not a snapshot, and the client goes on
                    # waiting
                    if path != ("event",):
                        self.ended([self.command, "status", "--metrics", NAME])
        lines[:] = [changed(shape, ("nodes",), 2**31)]
        self.assertEqual(self.ended([self.command, "top", "--once", NAME]).returncode, 1)

    def proxy(self, real, change):
        """Forwards everything between a process and the fabric at @real, descriptors included.
        Lines from the fabric are replaced by @change(line)."""
        fabrics = {}

        def answer(conn, cmd):
            if cmd == "attach":
                fabrics[conn] = Client(real)
            fabric = fabrics[conn]
            fabric.send({"cmd": cmd, "version": HOSTIF_VERSION, "want": -1, "nodes": [0, 1]})
            line = fabric.next()
            fds, fabric.fds = fabric.fds, []
            passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
            conn.sendmsg([change(cmd, line)], passed)
            for fd in fds:
                os.close(fd)
            return True

        return self.listen(answer, gone=lambda conn: fabrics.pop(conn).close())

    def test_refusals__are_shown_with_their_reason(self):
        def answer(conn, cmd):
            conn.sendall(b'{"ok":false,"errno":12,"error":"no memory for counters"}\n')

        self.listen(answer)
        for words in (["status", NAME], ["status", "--metrics", NAME], ["top", "--once", NAME]):
            self.one_line(self.fabemu(*words), 1, f"fabric '{NAME}': no memory for counters")

    def test_capture__ends_with_wrong_counts_and_texts_in_the_rings(self):
        """Other processes can write to a capture's memory: emu/link/tap_area.h."""
        client = self.client(self.up("real"))
        self.assertTrue(client.ask("capture", filter="", snaplen=256)["ok"])
        fd, = client.fds
        with mmap.mmap(fd, 0) as area:
            ifaces, = struct.unpack_from("I", area, 12)
            struct.pack_into("Q", area, 64 + 256 * ifaces, 2**63)  # records in the first ring
            area[64 + 64:64 + 208] = b"a" * 144  # a text without end

        def answer(conn, cmd):
            conn.sendmsg([b'{"ok":true}\n'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                               array.array("i", [fd]))])
            return True

        self.listen(answer)
        path = os.path.join(self.dir, "c.pcapng")
        done = self.ended([self.command, "capture", NAME, "-w", path, "--seconds", "100ms"])
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(path, "rb") as f:
            self.assertIn(b"a" * 143 + b"\0", f.read(65536))

    def test_library__validates_every_field_of_replies_and_events(self):
        program = self.against_library(ATTACH)
        real = self.up("real")
        self.client(real).attach()  # attaches the other member of the group
        env = {**self.env, "FABEMU_SOCKET": self.socket_path(NAME), "FABEMU_ADAPTER_THREAD": "0"}
        bad = {}

        def change(cmd, line):
            text = b""
            if cmd == bad.get("cmd") and line["ok"]:
                line = changed(line, bad["path"], bad["other"])
            if cmd == "attach":
                text = b"".join(json.dumps(event).encode() + b"\n"
                                for event in bad.get("events", ()))
            return json.dumps(line).encode() + b"\n" + text

        self.proxy(real, change)
        self.assertEqual(self.ended([program], env).returncode, 0)
        client = Client(real)
        reply = client.attach()
        client.close()
        for path in paths_of(reply):
            for other in (ABSENT, *self.random.sample(VALUES, DRAWN)):
                bad.update(cmd="attach", path=path, other=other)
                done = self.ended([program], env)
                if path in (("node",), ("nodes",)) and type(other) is not int:
                    self.assertEqual(done.returncode, 1)
        for other in (ABSENT, None, "text", -1, 2**40, []):
            bad.update(cmd="group_create", path=("group",), other=other)
            self.one_line(self.ended([program, "group"], env), 1, "names no group")
        events = [{"event": name, field: other}
                  for name in ("node_died", "groups_broken", "lost", "nodes_partitioned", "none")
                  for field in ("groups", "nodes", "node", "by", "from", "to", "why")
                  for other in VALUES]
        bad.clear()
        bad["events"] = events
        self.assertEqual(self.ended([program], env).returncode, 0)

    def test_down__signals_nobody_but_a_supervisor(self):
        """The socket belongs to a process that is not a supervisor, and is served by a process
        that is not its child: as if it had the PID of a dead supervisor."""
        ours, theirs = socket.socketpair()
        path = self.socket_path(NAME)
        os.makedirs(os.path.dirname(path), 0o700)
        innocent = subprocess.Popen(
            [sys.executable, "-c",
             "import array, os, socket, sys, time\n"
             "s = socket.socket(socket.AF_UNIX)\n"
             "s.bind(sys.argv[1][:-1] + '~')\n"
             "s.listen()\n"
             "os.rename(sys.argv[1][:-1] + '~', sys.argv[1])\n"
             "to = socket.socket(fileno=int(sys.argv[2]))\n"
             "to.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,"
             " array.array('i', [s.fileno()]))])\n"
             "s.close()\n"
             "time.sleep(1000)\n", path, str(theirs.fileno())], pass_fds=[theirs.fileno()])
        self.started.append(innocent)
        _, ancillary, _, _ = ours.recvmsg(1, 64)
        try:
            self.one_line(self.fabemu("down", NAME), 1, "no signal was sent", str(innocent.pid))
            self.assertIsNone(innocent.poll())
        finally:
            os.close(array.array("i", ancillary[0][2])[0])
            os.unlink(path)
            ours.close()
            theirs.close()

    def test_down__ends_a_fabric_that_does_not_answer(self):
        self.up("deaf")
        supervisor = self.status("deaf")["supervisor"]
        fabric = next(pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                      if alive(pid) and int(stat_of(pid)[1]) == supervisor)
        os.kill(fabric, signal.SIGSTOP)
        done = self.fabemu("down", "deaf")
        self.assertEqual(done.stderr.count("no signal"), 0, done.stderr)
        os.kill(fabric, signal.SIGCONT)
        self.assertTrue(until(lambda: not alive(supervisor)))


if __name__ == "__main__":
    main()
