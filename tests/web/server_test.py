#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""server_test.py - the server of the page: its answers, its access control, and its resistance to
hostile processes on the same host.

   tests/web/server_test.py --fabemu build/fabemu [unittest options]
"""
import contextlib
import errno
import json
import os
import re
import resource
import signal
import socket
import subprocess
import threading
import time
import unittest

from web_helpers import FabemuCase, FakeFabric, PATIENCE_S, main, page_of, until
from cli_helpers import Client, flat
from helpers.telemetry import View, parse_metrics

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FILES = os.path.join(TOP, "apps", "web", "page")
MOST_KB = 65536  # memory limit of the server's process; sanitizers need more
CONNECTIONS = 1000  # simultaneous connections


def children(pid, name="fabemu-web"):
    """Processes of this name below @pid."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{entry}/stat") as f:
                comm, rest = f.read().split("(", 1)[1].rsplit(")", 1)
            if comm == name and int(rest.split()[1]) == pid:
                found.append(int(entry))
    return found


def cpu_s(pid):
    """Processor time that the process has used, in seconds."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_kb(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(r"VmHWM:\s+(\d+)", f.read())[1])


class WebCase(FabemuCase):
    def up_page(self, *options):
        done = self.fabemu("up", "--topo", "kary:2,2", "--web", *options, "u")
        self.assertEqual(done.returncode, 0, done.stderr)
        return page_of(done.stdout)

    def run_page(self, *command, options=()):
        """A run with a page: its process, and the page."""
        run = self.start("run", "--web", *options, "--", *command)
        text = ""
        while not page_of(text):
            line = run.stderr.readline()
            self.assertTrue(line, text)
            text += line
        return run, page_of(text)

    def web_of_fake(self):
        """A fabric played by the test, the server of its page, and the page."""
        fabric = FakeFabric(self.socket_path("u"))
        self.addCleanup(lambda: fabric.listener.close())
        web = self.start("web", "u")
        return fabric, web, page_of(web.stdout.readline())

    def closed(self, sock):
        """The server closes this connection; returns the data before that."""
        sock.settimeout(PATIENCE_S)
        said = b""
        with contextlib.suppress(ConnectionError):
            while True:
                data = sock.recv(65536)
                if not data:
                    break
                said += data
        sock.close()
        return said


class Answers(WebCase):
    def test_page_has_its_files(self):
        page = self.up_page()
        for name in os.listdir(FILES):
            status, headers, body = page.request("" if name == "index.html" else name)
            self.assertEqual(status, 200, name)
            with open(os.path.join(FILES, name), "rb") as f:
                self.assertEqual(body, f.read(), name)
            self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
            self.assertEqual(headers["Referrer-Policy"], "no-referrer")
        for name in ("index.html", "nothing", "../main.js", "%2e%2e/main.js", "main.js/"):
            self.assertEqual(page.request(name)[0], 404, name)

    def test_page_loads_nothing_from_elsewhere(self):
        for name in os.listdir(FILES):
            with open(os.path.join(FILES, name), encoding="utf-8") as f:
                text = f.read()
            found = set(re.findall(r"\w+://[\w.]+", text)) - {"http://www.w3.org"}
            self.assertEqual(found, set(), name)

    def test_metrics_agree_with_status(self):
        page = self.up_page()
        status, headers, body = page.request("metrics")
        self.assertEqual((status, headers["Content-Type"].split(";")[0]), (200, "text/plain"))
        mine = parse_metrics(body.decode())
        theirs = parse_metrics(self.fabemu("status", "--metrics", "u").stdout)
        self.assertEqual(mine.keys(), theirs.keys())
        names = ("--names", "infiniband_exporter")
        theirs = parse_metrics(self.fabemu("status", "--metrics", *names, "u").stdout)
        mine = parse_metrics(page.request("metrics?names=infiniband_exporter")[2].decode())
        self.assertEqual(mine.keys(), theirs.keys())
        self.assertEqual(page.request("metrics?names=mine")[0], 400)

    def test_stream_has_shape_snapshots_events_and_the_end(self):
        page = self.up_page("--profile", "qsnet3")
        stream = page.stream()
        self.assertEqual(stream.status, 200)
        self.assertEqual(stream.next(), {"ok": True})
        view = View(stream.next())
        view.take(stream.next())
        cable = next(i for i, c in enumerate(view.shape["cables"]) if c[2])
        at = "%d:%d" % tuple(view.shape["cables"][cable][:2])
        reply, _ = page.ask("fault", fault=f"link-down link={at}")
        self.assertTrue(reply["ok"], reply)
        events = []
        down = view.shape["link_states"].index("down")
        while view.states.get(cable, [0])[0] != down:
            line = stream.next()
            if line["event"] == "telemetry":
                view.take(line)
            else:
                events.append(line)
        self.assertIn(("fault", "begins"), [(e["event"], e.get("state")) for e in events])
        self.assertEqual([f["text"] for f in page.ask("faults")[0]["faults"]],
                         [f"link-down link={at}"])
        self.assertTrue(page.ask("fault_clear", fault=reply["fault"])[0]["ok"])
        self.assertEqual(self.fabemu("down", "u").returncode, 0)
        events = []
        with self.assertRaises(EOFError):
            while True:
                events.append(stream.next())
        self.assertEqual(events[-1], {"event": "ended"})
        self.assertEqual(events[-2]["event"], "report")  # the last one, from the supervisor
        self.assertEqual(events[-2]["report"]["topo"], "kary:2,2")

    def test_stream_ends_with_the_reported_counts(self):
        example = os.path.join(os.path.dirname(self.command), "apps", "example")
        go = os.path.join(self.dir, "go")
        ranks = (f"until [ -e {go} ]; do sleep 0.1; done; "
                 f"for i in 0 1 2 3; do FABEMU_NODE=$i {example} 4 & done; wait")
        run, page = self.run_page("sh", "-c", ranks, options=("--topo", "kary:2,2"))
        stream = page.stream()
        self.assertEqual(stream.next(), {"ok": True})
        view = View(stream.next())
        open(go, "w").close()
        report = None
        while not report:
            line = stream.next()
            if line["event"] == "telemetry":
                view.take(line)
            elif line["event"] == "report":
                report = line["report"]
        for name in ("sent", "delivered", "hops"):
            self.assertEqual(view.line["totals"][name], report["segments"][name], name)
        self.assertGreater(report["segments"]["sent"], 0)
        self.assertEqual(run.wait(PATIENCE_S), 0)

    def test_fabric_that_dies_within_a_line_has_ended(self):
        fabric, web, page = self.web_of_fake()
        stream = page.stream()
        conn = fabric.next()
        fabric.say(conn, {"ok": True})
        conn.sendall(b'{"event":"telemetry_sh')
        self.assertEqual(stream.next(), {"ok": True})
        while not stream.text.endswith(b"telemetry_sh"):
            self.assertTrue(stream.more())
        fabric.end()
        self.assertEqual(stream.event(), b'{"event":"telemetry_sh')
        self.assertEqual(stream.next(), {"event": "ended"})
        with self.assertRaises(EOFError):
            stream.next()
        self.assertEqual(web.wait(PATIENCE_S), 0)

    def test_stream_has_blocks_open(self):
        """The server refuses invalid lists, the fabric refuses unknown blocks."""
        page = page_of(self.fabemu("up", "--topo", "kary:18,3", "--web", "u").stdout)
        for blocks in [], [3], [0, 341, 3, 3]:
            stream = page.stream("stream?open=" + ",".join(map(str, blocks)))
            self.assertEqual(stream.next(), {"ok": True})
            self.assertEqual(stream.next()["folded"]["open"], sorted(set(blocks)))
            stream.close()
        for blocks in "99999", "4294967296", "9999999999", ",".join(map(str, range(343))):
            stream = page.stream("stream?open=" + blocks)
            self.assertFalse(stream.next()["ok"])
            stream.close()
        for wrong in ("x", "-1", "1.5", "1,,2", ",1", "1;2", "1 2", "0x1", "99999999999",
                      "[1]", "%22", "1," * 2100 + "1", "9" * 5000):
            status, _, why = page.request("stream?open=" + wrong.replace(" ", "%20"))
            self.assertEqual((status, b"open must be" in why), (400, True), wrong[:20])
        self.assertEqual(page.ask("status")[1], 200)

    def test_stream_closed_by_the_fabric_is_not_its_end(self):
        fabric, web, page = self.web_of_fake()
        for _ in range(2):
            stream = page.stream()
            conn = fabric.next()
            fabric.say(conn, {"ok": True})
            self.assertEqual(stream.next(), {"ok": True})
            fabric.hang_up(conn)
            with self.assertRaises(EOFError):  # without an event: the browser reconnects
                stream.next()
        fabric.end()
        self.assertEqual(web.wait(PATIENCE_S), 0)

    def test_kinds_for_a_target(self):
        """The kinds of fault for a target, each with an example, and the reasons why others are
        impossible."""
        page = self.up_page()
        listed = flat(self.fabemu("fault", "--list").stdout)
        found = {}
        for where in "link=0:2", "switch=0", "node=1", "random":
            reply, _ = page.ask("fault_kinds", where=where, **{"for": "100ms"})
            for kind in reply["kinds"]:
                self.assertIn(kind["about"], listed)
                answer, _ = page.ask("fault", fault=kind["text"])
                self.assertEqual(answer["ok"], "why" not in kind, kind)
                self.assertEqual(answer.get("error"), kind.get("why"))
                found.setdefault(kind["name"], []).append(kind["text"])
        self.assertEqual(len(found), 20)  # all kinds
        self.assertIn("for=100ms node-slow node=1 share=25%", found["node-slow"])
        self.assertIn("node-kill node=1", found["node-kill"])  # no duration
        for wrong in "", "link=0:x", "nowhere", "9" * 1500:
            reply, _ = page.ask("fault_kinds", where=wrong)
            self.assertFalse(reply["ok"])
            self.assertTrue(reply["error"])

    def test_invalid_faults_get_a_reason(self):
        page = self.up_page()
        reply, _ = page.ask("fault", fault="link-down link=999:0")
        self.assertFalse(reply["ok"])
        self.assertIn("999", reply["error"])

    def test_web_of_a_running_fabric(self):
        self.up("u")
        web = self.start("web", "u")
        page = page_of(web.stdout.readline())
        self.assertEqual(page.request()[0], 200)
        web.send_signal(signal.SIGINT)
        self.assertEqual(web.wait(PATIENCE_S), 0)
        web = self.start("web", "u")
        self.assertTrue(page_of(web.stdout.readline()))
        self.fabemu("down", "u")
        self.assertEqual(web.wait(PATIENCE_S), 0)

    def test_web_of_a_recording(self):
        """A file is served without a fabric, and no request goes to a fabric."""
        record = os.path.join(self.dir, "record")
        with open(record, "w") as f:
            f.write('{"event":"telemetry_shape"}\n')
        web = self.start("web", record)
        page = page_of(web.stdout.readline())
        status, headers, body = page.request("recording")
        self.assertEqual((status, body), (200, b'{"event":"telemetry_shape"}\n'))
        self.assertEqual(page.request("")[0], 200)
        for status in page.request("stream")[0], page.ask("faults")[1]:
            self.assertEqual(status, 404)
        self.assertEqual(page.request("recording", token="0" * 32)[0], 403)
        web.terminate()
        self.assertEqual(web.wait(PATIENCE_S), 0)
        with open(record, "w") as f:
            f.write('{ "event": "telemetry_shape" }\n')  # as json.dumps() writes it
        self.assertTrue(page_of(self.start("web", record).stdout.readline()))
        text = os.path.join(self.dir, "text")
        with open(text, "w") as f:
            f.write("int main(void)\n")
        empty = os.path.join(self.dir, "empty")
        open(empty, "w").close()
        for wrong, status, why in (
                (self.dir, 2, "is not a file"), (f"{self.dir}/none", 2, "cannot read"),
                (empty, 2, "is not a recording"), (text, 2, "is not a recording"),
                ("none", 1, "neither a running fabric nor")):
            done = self.fabemu("web", wrong)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(why, done.stderr)
        self.assertEqual(self.up_page().request("recording")[0], 404)

    def test_run_waits_for_a_browser(self):
        """The command starts when the first page is opened, not before; Ctrl-C ends the run while
        it waits."""
        begun = os.path.join(self.dir, "begun")
        run = self.start("run", "--web=wait", "--", "touch", begun)
        page = page_of(run.stderr.readline())
        self.assertIn("once a browser", run.stderr.readline())
        # requests for files do not count as an open page
        self.assertEqual(page.request("")[0], 200)
        self.assertEqual(page.ask("status")[1], 200)
        self.assertFalse(os.path.exists(begun))
        stream = page.stream()
        line, report = {}, {}
        while line.get("event") != "ended":
            line = stream.next()
            report = line.get("report", report)
        self.assertEqual((report["command"], report["exit_status"]), (["touch", begun], 0))
        self.assertIn("wall_s", report)
        self.assertEqual(run.wait(PATIENCE_S), 0)
        self.assertTrue(os.path.exists(begun))
        os.remove(begun)
        for end in (signal.SIGINT, signal.SIGTERM):
            run = self.start("run", "--web=wait", "--", "touch", begun)
            run.stderr.readline()
            self.assertIn("once a browser", run.stderr.readline())
            run.send_signal(end)
            err = run.communicate(timeout=PATIENCE_S)[1]
            self.assertEqual(run.returncode, 128 + end)
            self.assertIn("before a browser opened the page: the command was not started", err)
            self.assertIn("  command      not started\n", err)
            self.assertFalse(os.path.exists(begun))
        self.assertEqual(self.fabemu("up", "--web=wait", "u").returncode, 2)
        self.assertIn("wait, or PORT,wait: ", flat(self.fabemu("run", "--help").stdout))
        for wrong in ("0", "wait,80", "80,now", ",wait", "99999,wait", "123456789,wait"):
            done = self.fabemu("run", f"--web={wrong}", "--", "true")
            self.assertEqual(done.returncode, 2)
            self.assertIn("a port from 1 to 65535, wait, or PORT,wait", done.stderr)

    def test_standstill_while_the_run_waits__signals_no_other_process(self):
        """A process that the run has not started stands still."""
        program = self.against_library(r"""
#include "fabemu.h"
int main(void)
{
    struct fabemu *fab;
    struct fabemu_queue *queue;
    struct fabemu_req req = {0};
    char byte;
    struct fabemu_iov iov = {.base = &byte, .bytes = 1};

    if (fabemu_attach(&fab, NULL) || fabemu_queue_open(fab, 7, &queue) ||
        fabemu_recv(queue, 1, 1, 0, &iov, 1, &req))
        return 1;
    return fabemu_wait(fab, &req) != 0;
}
""")
        run = self.start("run", "--topo", "kary:2,2", "--name", "r", "--web=wait", "--standstill",
                         "1s:end", "--", "true", process_group=0)
        other = subprocess.Popen(["sleep", "60"], process_group=run.pid)
        self.started.append(other)
        run.stderr.readline()
        self.assertIn("once a browser", run.stderr.readline())
        waiting = subprocess.Popen([program], env={**self.env,
                                                   "FABEMU_SOCKET": self.socket_path("r")})
        self.started.append(waiting)
        err = run.communicate(timeout=PATIENCE_S)[1]
        self.assertEqual(run.returncode, 124, err)
        self.assertIsNone(other.poll(), err)

    def test_run_whose_page_dies_waits_no_more(self):
        run = self.start("run", "--web=wait", "--", "true")
        run.stderr.readline()
        self.assertIn("once a browser", run.stderr.readline())
        server, = until(lambda: children(run.pid))
        os.kill(server, signal.SIGKILL)
        self.assertEqual(run.wait(PATIENCE_S), 0)

    def test_walk_of_the_document(self):
        """Every command works as printed; page_test.py covers scripts/demo."""
        if os.path.abspath(self.command) != os.path.abspath(os.path.join(TOP, "build/fabemu")):
            self.skipTest("the walk is with build/fabemu")
        with open(os.path.join(TOP, "docs", "web.md"), encoding="utf-8") as f:
            walk = f.read().split("## A walk\n")[1].split("```")[1].splitlines()[1:]
        self.assertIn("scripts/demo", walk)
        self.assertGreater(len(walk), 4)
        last = None
        for line in walk:
            if line == "scripts/demo":
                continue
            words = line.split()
            run = subprocess.Popen(words, env=self.env, text=True, cwd=TOP,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
            self.started.append(run)
            text = ""
            while not page_of(text) and (piece := run.stdout.readline()):
                text += piece
            if words[1] == "down":
                self.assertEqual((run.wait(PATIENCE_S), text), (0, ""))
                self.assertEqual(last.wait(PATIENCE_S), 0)  # and its page, too
                continue
            self.assertTrue(page_of(text), text)
            self.assertEqual(page_of(text).request()[0], 200, line)
            if words[1] in ("run", "traffic"):
                run.send_signal(signal.SIGINT)
                run.communicate(timeout=PATIENCE_S)
            last = run

    def test_errors_are_reported(self):
        done = self.fabemu("web", "nobody")
        self.one_line(done, 1, "neither a running fabric nor a file named 'nobody'")
        self.assertEqual(done.stdout, "")  # no address, since there is no server
        self.one_line(self.fabemu("web"), 1, "no fabric named 'default'", "the default name")
        with open(os.path.join(self.dir, "report.json"), "w") as f:
            f.write('{\n  "command": ["true"]\n}\n')
        self.one_line(self.fabemu("web", f.name), 2, "does not begin with telemetry_shape")
        self.one_line(self.fabemu("run", "--web=0", "--", "true"), 2, "1 to 65535")
        self.one_line(self.fabemu("up", "--web=http", "u"), 2, "1 to 65535")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            self.one_line(self.fabemu("up", f"--web={port}", "u"), 1, str(port), "in use")
        self.assertEqual(self.sockets(), [])


class Large(WebCase):
    """Replies with the size of the largest networks, and slow readers."""
    BYTES = 12 << 20
    READERS = 6  # at the same time: more than twice as many as fit

    def request_slowly(self, page):
        """Request the status; returns the socket, which is read slowly."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(PATIENCE_S)
        sock.connect(("127.0.0.1", page.port))
        body = b'{"cmd":"status"}'
        sock.sendall(f"POST /{page.token}/ask HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\n"
                     "Content-Type: application/json\r\n"
                     f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return sock

    def status_of(self, sock):
        return int(sock.recv(12, socket.MSG_WAITALL)[9:])

    def test_readers_memory_is_limited(self):
        """How many are refused depends on their speed; the memory limit does not."""
        fabric, web, page = self.web_of_fake()
        large = {"ok": True, "text": "x" * self.BYTES}
        fabric.replies["status"] = json.dumps(large).encode()
        fabric.replies["faults"] = {"ok": True, "faults": ["y" * 10000]}
        slow, said = [], []
        while said.count(503) < 4 and len(slow) < 4 * self.READERS:
            slow += [self.request_slowly(page) for _ in range(self.READERS)]
            said += [self.status_of(sock) for sock in slow[-self.READERS:]]
        self.assertLessEqual(set(said), {200, 503, 504})
        self.assertIn(503, said)
        if "asan" not in self.command:
            self.assertLess(memory_kb(web.pid), MOST_KB)
        self.assertEqual(page.ask("faults")[0], fabric.replies["faults"])  # small replies pass
        for sock in slow:
            sock.close()
        self.assertTrue(until(lambda: page.ask("status")[0] == large))
        fabric.end()
        self.assertEqual(web.wait(PATIENCE_S), 0)


class Simulated(WebCase):
    RUN = ("traffic", "--topo", "kary:2,2", "--load", "0.5", "--seed", "5", "--warmup", "2000ns",
           "--measure", "8000ns", "--json")

    def begin(self, *options):
        run = self.start(*self.RUN, "--web", "--every", "500ns", *options)
        page = page_of(run.stderr.readline())
        name, = [s[:-5] for s in self.sockets() if s.endswith(".sock")]
        self.clients.append(Client(self.socket_path(name)))
        return run, page, self.clients[-1]

    def ended(self, run):
        out, err = run.communicate(timeout=PATIENCE_S)
        self.assertEqual(run.returncode, 0, err)
        return json.loads(out)

    def test_time_is_paused_and_the_run_is_the_same(self):
        run, page, reader = self.begin()
        self.assertEqual(reader.ask("subscribe", telemetry=100), {"ok": True})
        view = View(reader.next())
        self.assertEqual(view.shape["clock"], "virtual")
        view.take(reader.next())
        self.assertEqual(page.ask("pace", hold=True, for_ms=60000)[0], {"ok": True})
        reader.socket.settimeout(0.3)
        with self.assertRaises(TimeoutError):  # data in flight, and then nothing
            while True:
                view.take(reader.next())
        reader.socket.settimeout(PATIENCE_S)
        self.assertIsNone(run.poll())
        self.assertEqual(page.ask("pace", every_ms=0, for_ms=60000)[0], {"ok": True})
        with self.assertRaises(EOFError):
            while True:
                view.take(reader.next())
        got = self.ended(run)
        self.assertEqual(view.line["at_ps"], round(got["virtual_ns"] * 1000))
        alone = json.loads(self.fabemu(*self.RUN).stdout)
        self.assertEqual(got["digest"], alone["digest"])

    def test_time_continues_when_the_pausing_page_is_gone(self):
        run, page, reader = self.begin("--every", "2500ns")
        reader.ask("subscribe", telemetry=100)
        holder = Client(reader.path)
        self.assertEqual(holder.ask("pace", hold=True, for_ms=300), {"ok": True})
        holder.close()
        self.ended(run)

    def test_slowest_requested_pace_counts(self):
        run, page, reader = self.begin()
        for who, hold in ((1, True), (2, False), (2, False)):
            self.assertEqual(page.ask("pace", who=who, hold=hold, for_ms=60000)[0], {"ok": True})
        reader.ask("subscribe", telemetry=100)
        reader.next()
        reader.socket.settimeout(0.3)
        with self.assertRaises(TimeoutError):
            while True:
                reader.next()
        other = Client(reader.path)
        for who in range(3, 65):  # as many as allowed, and one more
            self.assertEqual(other.ask("pace", who=who, for_ms=60000), {"ok": True})
        self.assertEqual(other.ask("pace", who=65, for_ms=60000)["errno"], errno.ENOSPC)
        other.close()
        self.assertEqual(page.ask("pace", who=1, for_ms=60000)[0], {"ok": True})
        self.ended(run)

    def test_snapshots_are_at_least_the_requested_interval_apart(self):
        run, page, reader = self.begin()
        begun = time.monotonic()
        for who, every_ms in ((1, 200), (2, 0), (3, 100)):  # the slowest one counts
            self.assertEqual(page.ask("pace", who=who, every_ms=every_ms, for_ms=60000)[0],
                             {"ok": True})
        reader.ask("subscribe", telemetry=100)
        view = View(reader.next())
        view.take(reader.next())
        first = view.line["sample"]
        while view.line["sample"] < first + 8:
            view.take(reader.next())
        due = (view.line["sample"] - first - 2) * 0.2  # two may be due at once at the start
        self.assertGreaterEqual(time.monotonic() - begun, due)
        self.assertIsNone(run.poll())
        for who in 1, 3:
            self.assertEqual(page.ask("pace", who=who, for_ms=0)[0], {"ok": True})
        self.assertEqual(self.ended(run)["digest"],
                         json.loads(self.fabemu(*self.RUN).stdout)["digest"])

    def test_invalid_paces_change_nothing(self):
        run, page, reader = self.begin()
        for fields in ({}, {"for_ms": -1}, {"every_ms": -1, "for_ms": 1},
                       {"every_ms": 10**6, "for_ms": 1}, {"hold": True, "for_ms": 10**9}):
            self.assertEqual(reader.ask("pace", **fields)["errno"], errno.EINVAL, fields)
        self.assertEqual(reader.ask("attach", version=6, want=-1)["errno"], errno.ENOTSUP)
        self.assertIn("clock virtual", self.fabemu("status").stdout)
        self.assertEqual(page.ask("pace", for_ms="x")[0]["ok"], False)
        run.send_signal(signal.SIGINT)  # nobody has opened the page: it has not started, and ends
        self.assertEqual(run.wait(PATIENCE_S), 130)
        self.assertTrue(until(lambda: not self.sockets()))

    def test_every_signal_ends_it_and_leaves_nothing(self):
        for signo in (signal.SIGTERM, signal.SIGHUP, None):
            # A script's background job ignores SIGINT. SIGHUP must have effect also under nohup.
            saved = [(number, signal.signal(number, handler)) for number, handler in
                     ((signal.SIGINT, signal.SIG_IGN), (signal.SIGHUP, signal.SIG_DFL))]
            try:
                run, _, reader = self.begin()
            finally:
                for number, handler in saved:
                    signal.signal(number, handler)
            if signo:
                run.send_signal(signo)
            else:
                self.assertEqual(reader.ask("shutdown"), {"ok": True})
            self.assertEqual(run.wait(PATIENCE_S), 130, signo)
            self.assertEqual(self.sockets(), [], signo)


class Strangers(WebCase):
    def test_requests_without_the_token_get_nothing(self):
        page = self.up_page()
        other = page.token[:-1] + ("0" if page.token[-1] != "0" else "1")
        for token in ("", other, page.token[:-1], page.token + "0", page.token.upper() + "/",
                      "%00" + page.token):
            for path, method in (("", "GET"), ("stream", "GET"), ("metrics", "GET"),
                                 ("ask", "POST")):
                status, _, body = page.request(path, method, token=token,
                                               headers={"Content-Type": "application/json"})
                self.assertEqual(status, 403, (token, path))
                self.assertNotIn(page.token.encode(), body)

    def test_other_names_and_pages_are_refused(self):
        page = self.up_page()
        port = page.port
        for headers in ({"Host": "evil.example"}, {"Host": f"evil.example:{port}"},
                        {"Host": "127.0.0.1"}, {"Host": f"127.0.0.1:{port}.evil.example"},
                        {"Origin": "http://evil.example"}, {"Origin": "null"},
                        {"Origin": f"https://127.0.0.1:{port}"}, {"Origin": ""}):
            for method, path in (("GET", ""), ("GET", "stream"), ("POST", "ask")):
                self.assertEqual(page.request(path, method, headers=headers)[0], 403, headers)
        for headers in ({"Host": f"localhost:{port}"}, {"Origin": f"http://127.0.0.1:{port}"},
                        {"Origin": f"http://localhost:{port}"}):
            self.assertEqual(page.request(headers=headers)[0], 200, headers)

    def test_page_may_send_few_requests(self):
        page = self.up_page()
        for cmd in ("shutdown", "attach", "detach", "subscribe", "capture", "group_create", ""):
            self.assertEqual(page.ask(cmd, version=4, want=-1)[1], 400, cmd)
        for body in ("", "[]", "1", "null", "{", '{"cmd":1}', '{"cmd":["faults"]}', "\0" * 100,
                     "[" * 2000):
            self.assertEqual(page.request("ask", "POST", body,
                                          {"Content-Type": "application/json"})[0], 400, body)
        for kind in ("text/plain", "application/x-www-form-urlencoded", "application/json2"):
            self.assertEqual(page.request("ask", "POST", '{"cmd":"faults"}',
                                          {"Content-Type": kind})[0], 415, kind)
        for method in ("PUT", "DELETE", "OPTIONS", "HEAD", "TRACE", "X"):
            self.assertEqual(page.request("", method)[0], 405, method)
        self.assertEqual(page.request("", "POST")[0], 404)
        self.assertEqual(self.status("u")["name"], "u")  # it still runs

    def test_listens_on_loopback_only(self):
        page = self.up_page()
        local = []
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            with contextlib.suppress(FileNotFoundError), open(table) as f:
                rows = [line.split() for line in f][1:]
                local += [row[1] for row in rows if row[3] == "0A"]
        self.assertEqual([at for at in local if at.endswith(f":{page.port:04X}")],
                         [f"0100007F:{page.port:04X}"])

    def test_number_of_pages_is_limited(self):
        page = self.up_page()
        streams = [page.stream() for _ in range(8)]
        self.assertEqual({s.status for s in streams}, {200})
        self.assertEqual(page.request("stream")[0], 503)
        self.assertTrue(page.ask("faults")[0]["ok"])  # but open ones continue
        streams.pop().close()
        self.assertTrue(until(lambda: self.stream_there(page)))

    def stream_there(self, page):
        stream = page.stream()
        stream.close()
        return stream.status == 200


class Hostile(WebCase):
    def send_raw(self, page, raw):
        sock = page.connect()
        sock.sendall(raw)
        return sock

    def endless(self, page, head, piece):
        """Send @piece until the server closes the connection."""
        sock = self.send_raw(page, head)
        with self.assertRaises(ConnectionError):
            for _ in range(1 << 20):
                sock.sendall(piece)
        sock.close()

    def trickle(self, page, sockets):
        """Send one header byte now and then on each, until the server has closed all."""
        left, stop = set(sockets), threading.Event()

        def send():
            while left and not stop.wait(0.2):
                for sock in list(left):
                    try:
                        sock.send(b"x")
                    except OSError:
                        left.discard(sock)
        thread = threading.Thread(target=send)
        thread.start()
        return thread, stop, left

    def open_many(self, page, count):
        """@count connections that send nothing."""
        ret = []
        for _ in range(count):
            sock = socket.socket()
            sock.settimeout(PATIENCE_S)
            sock.connect(("127.0.0.1", page.port))
            ret.append(sock)
        return ret

    def test_demo_reports_once_why_it_ends(self):
        """A dead node is reported by one peer, in words; a signal is not."""
        demo = os.path.join(os.path.dirname(self.command), "apps", "demo")
        for kill, later_s in ((signal.SIGKILL, 0), (signal.SIGTERM, 0),
                              # node 0 waits for messages of any source by then
                              (signal.SIGKILL, 1)):
            run = self.start("run", "--name", "d", "--nodes", "4", "--keep-going", "--", demo, "4",
                             "60", "1")
            self.assertTrue(until(lambda: os.path.exists(self.socket_path("d"))))
            self.assertTrue(until(lambda: self.status("d")["report"]["combined"]["results"] > 10))
            time.sleep(later_s)
            os.kill(self.status("d")["attached"][2]["pid"], kill)
            _, err = run.communicate(timeout=PATIENCE_S)
            said = [line for line in err.splitlines() if line.startswith("demo:")]
            self.assertEqual(len(said), kill == signal.SIGKILL, err)
            self.assertNotIn(" ()", err)
            if said:
                self.assertRegex(said[0], r"^demo: node \d: [a-z-]+: .*\bnode 2\b")

    def test_run_continues_under_hostile_requests(self):
        demo = os.path.join(os.path.dirname(self.command), "apps", "demo")
        enough = os.path.join(self.dir, "enough")
        run, page = self.run_page("sh", "-c", f"until [ -e {enough} ]; do {demo} 16 1 0.3 || exit; "
                                  "done", options=["--topo", "kary:4,2"])
        server, = until(lambda: children(run.pid))
        until(lambda: page.request()[0] == 200)
        stream = page.stream()
        host, token = f"Host: 127.0.0.1:{page.port}\r\n".encode(), page.token.encode()
        ask = b"POST /" + token + b"/ask HTTP/1.1\r\n" + host
        ask += b"Content-Type: application/json\r\n"

        # Slow clients: they have started, and continue for the rest of the test.
        slow = [self.send_raw(page, b"GET / HTTP/1.1\r\n" + host + b"X-Slow: ") for _ in range(8)]
        slow += [self.send_raw(page, ask + b"Content-Length: 2000\r\n\r\n")]
        trickle, stop, left = self.trickle(page, slow)
        silent = [page.connect() for _ in range(8)]

        # Invalid or excessive HTTP.
        odd = [self.send_raw(page, raw) for raw in (
            b"\0" * 4096, b"\xff" * 4096, b"GET\r\n\r\n", b"\r\n" * 4096,
            b"GET / HTTP/9.9\r\n\r\n", b"GET /%zz HTTP/1.1\r\n" + host + b"\r\n",
            os.urandom(4096) + b"\r\n\r\n", ask + b"Content-Length: -1\r\n\r\n",
            ask + b"Content-Length: 99999999999\r\n\r\n",
            ask + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n")]
        self.endless(page, b"GET /", b"a" * 4096)
        self.endless(page, b"GET / HTTP/1.1\r\n" + host, b"X: " + b"a" * 4000 + b"\r\n")
        self.endless(page, ask + b"Content-Length: 1000000000\r\n\r\n", b" " * 4096)
        self.endless(page, ask + b"Transfer-Encoding: chunked\r\n\r\n",
                     b"1000\r\n" + b" " * 4096 + b"\r\n")

        # A client that does not read, and many that send a request and disconnect.
        deaf = page.connect()
        deaf.sendall(b"GET /" + token + b"/stream HTTP/1.1\r\n" + host + b"\r\n")
        for _ in range(50):
            for path in (b"stream", b"metrics"):
                self.send_raw(page, b"GET /" + token + b"/" + path + b" HTTP/1.1\r\n" + host +
                              b"\r\n").close()

        # Many connections: the user's own browser still gets in.
        many = self.open_many(page, CONNECTIONS)
        self.assertEqual(page.request()[0], 200)
        self.assertTrue(page.ask("faults")[0]["ok"])
        for sock in [*many, *silent, *odd]:
            self.closed(sock)
        trickle.join(PATIENCE_S)
        stop.set()
        self.assertEqual(left, set())
        if "asan" not in self.command:
            self.assertLess(memory_kb(server), MOST_KB)

        with open(enough, "w"):
            pass

        # The open page has missed nothing, and the program's results were right.
        self.assertEqual(stream.next(), {"ok": True})
        view = View(stream.next())
        with self.assertRaises(EOFError):
            while True:
                line = stream.next()
                if line["event"] == "telemetry":
                    view.take(line)
        self.assertEqual(line, {"event": "ended"})
        _, err = run.communicate(timeout=PATIENCE_S)
        self.assertEqual(run.returncode, 0, err)
        self.assertGreater(view.line["totals"]["contributions"], 0)
        deaf.close()
        for sock in slow:
            sock.close()

    def test_browser_gets_in_after_thousands_of_connections(self):
        """They connect while the server has no core: the kernel queues them, and drops none."""
        run, page = self.run_page("sleep", "60")
        server, = until(lambda: children(run.pid))
        self.assertEqual(page.request()[0], 200)
        with open("/proc/sys/net/core/somaxconn") as f:
            most = int(f.read())
        _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        count = min(3000, most - 100, limit - 200)
        os.kill(server, signal.SIGSTOP)
        try:
            strangers = self.open_many(page, count)
            get = (f"GET /{page.token}/page.css HTTP/1.1\r\n"
                   f"Host: 127.0.0.1:{page.port}\r\nConnection: close\r\n\r\n")
            sock = self.send_raw(page, get.encode())
        finally:
            os.kill(server, signal.SIGCONT)
        self.assertRegex(self.closed(sock), rb"\AHTTP/1.1 200 ")
        self.assertTrue(page.ask("faults")[0]["ok"])
        if "asan" not in self.command:
            self.assertLess(memory_kb(server), MOST_KB)
        for stranger in strangers:
            stranger.close()

    def test_server_without_free_descriptors_sleeps(self):
        """It cannot accept a browser. It tries again a few times per second, and needs no core."""
        run, page = self.run_page("sleep", "60")
        server, = until(lambda: children(run.pid))
        self.assertEqual(page.request()[0], 200)  # it has opened what it needs
        had = resource.prlimit(server, resource.RLIMIT_NOFILE)
        few = 6  # enough for the descriptors of poll()
        self.assertLessEqual({str(fd) for fd in range(few)}, set(os.listdir(f"/proc/{server}/fd")))
        resource.prlimit(server, resource.RLIMIT_NOFILE, (few, had[1]))
        sock = self.send_raw(page, (f"GET /{page.token}/page.css HTTP/1.1\r\n"
                                    f"Host: 127.0.0.1:{page.port}\r\n"
                                    "Connection: close\r\n\r\n").encode())
        before_s = cpu_s(server)
        time.sleep(1)
        self.assertLess(cpu_s(server) - before_s, 0.1)
        resource.prlimit(server, resource.RLIMIT_NOFILE, had)
        self.assertRegex(self.closed(sock), rb"\AHTTP/1.1 200 ")

    def test_clients_without_a_token_are_answered_or_closed(self):
        """Bytes without a token: a complete invalid request line, or only the start of a valid
        one."""
        page = self.up_page()
        for raw in (b"GET /wrong HTTP/1.1\r\n\r\n", b"GET\r\n", b"\r\n", b"x", b"GET x", b"G" * 9,
                    f"GET /{page.token[:-1]}/ HTTP/1.1\r\n".encode(),
                    f"GET /{page.token}x HTTP/1.1\r\n".encode()):
            self.assertRegex(self.closed(self.send_raw(page, raw)), rb"\AHTTP/1.1 403 ", raw)
        sock = self.send_raw(page, f"GET /{page.token[:-1]}".encode())
        self.assertEqual(self.closed(sock), b"")  # its time limit has expired
        sock = page.connect()
        for byte in (f"GET /{page.token}/page.css HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\n"
                     "Connection: close\r\n\r\n"):
            sock.sendall(byte.encode())
        self.assertRegex(self.closed(sock), rb"\AHTTP/1.1 200 ")

    def test_server_ends_with_its_run(self):
        run, page = self.run_page("sleep", "60")
        server, = until(lambda: children(run.pid))
        until(lambda: page.request()[0] == 200)
        os.kill(server, signal.SIGKILL)  # the run does not need it
        self.assertTrue(any("page's server has ended" in line for line in run.stderr))
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=PATIENCE_S)
        run, page = self.run_page("sleep", "60")
        server, = until(lambda: children(run.pid))
        run.kill()  # and it does not outlive the supervisor
        self.assertTrue(until(lambda: not os.path.exists(f"/proc/{server}")))
        with self.assertRaises(ConnectionRefusedError):
            page.connect()

    def test_server_keeps_no_descriptor_of_its_run(self):
        """A process that waits for the end of a pipe given to the run is not delayed by the
        server."""
        ours, theirs = os.pipe()
        run = self.start("run", "--web", "--", "sleep", "60", pass_fds=[theirs])
        pipe = os.readlink(f"/proc/self/fd/{ours}")
        os.close(theirs)
        server, = until(lambda: children(run.pid))
        until(lambda: page_of(run.stderr.readline()))
        held = lambda pid: [os.readlink(f"/proc/{pid}/fd/{fd}")  # noqa: E731
                            for fd in os.listdir(f"/proc/{pid}/fd")]
        self.assertIn(pipe, held(run.pid))
        self.assertTrue(until(lambda: pipe not in held(server)))
        os.close(ours)
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=PATIENCE_S)

    def test_dead_server_is_reaped(self):
        for up in (("up", "--foreground", "--topo", "kary:2,2", "--web", "u"),
                   ("run", "--web", "--", "sleep", "60")):
            process = self.start(*up)
            server, = until(lambda: children(process.pid))
            os.kill(server, signal.SIGKILL)
            self.assertTrue(until(lambda: not os.path.exists(f"/proc/{server}")), up)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE_S)

    def run_until_file(self, *options):
        """A run that continues until the file "go" exists: its process, the page, and the file."""
        go = os.path.join(self.dir, "go")
        run, page = self.run_page("sh", "-c", f"until [ -e {go} ]; do sleep 0.1; done",
                                  options=options)
        return run, page, go

    def test_stopped_server_does_not_lengthen_the_run(self):
        """The seconds for which the run waits for the server are not the command's."""
        since = time.monotonic()
        report = os.path.join(self.dir, "report")
        run, _, go = self.run_until_file("--report", report)
        server, = until(lambda: children(run.pid))
        os.kill(server, signal.SIGSTOP)
        open(go, "w").close()
        _, err = run.communicate(timeout=PATIENCE_S)
        took_s = time.monotonic() - since
        self.assertEqual(run.returncode, 0, err)
        with open(report) as f:
            self.assertLessEqual(json.load(f)["wall_s"] + 2, took_s)

    def test_page_gets_the_report_from_a_slow_server(self):
        """The server has no core for seconds, as on a busy host, when the run ends."""
        run, page, go = self.run_until_file()
        stream = page.stream()
        self.assertEqual(stream.next(), {"ok": True})
        server, = until(lambda: children(run.pid))
        command, = until(lambda: children(run.pid, "sh"))
        os.kill(server, signal.SIGSTOP)
        open(go, "w").close()
        self.assertTrue(until(lambda: not os.path.exists(f"/proc/{command}")))
        time.sleep(4)
        os.kill(server, signal.SIGCONT)
        line, report = {}, {}
        while line.get("event") != "ended":
            line = stream.next()
            report = line.get("report", report)
        self.assertIn("exit_status", report)
        stream.close()
        self.assertEqual(run.wait(PATIENCE_S), 0)

    def test_page_never_gets_a_part_of_the_report(self):
        """The server reads again after the run has given up sending a large report."""
        go = os.path.join(self.dir, "go")
        run, page = self.run_page("sh", "-c", f"until [ -e {go} ]; do sleep 0.1; done",
                                  *["x" * 100000] * 8)
        stream = page.stream()
        self.assertEqual(stream.next(), {"ok": True})
        self.assertEqual(stream.next()["event"], "telemetry_shape")
        server, = until(lambda: children(run.pid))
        command, = until(lambda: children(run.pid, "sh"))
        os.kill(server, signal.SIGSTOP)
        open(go, "w").close()
        self.assertTrue(until(lambda: not os.path.exists(f"/proc/{command}")))
        time.sleep(3)  # between LAST_MS (apps/web/web.c) and its double after the first send()
        os.kill(server, signal.SIGCONT)
        line = {}
        while line.get("event") != "ended":
            line = stream.next()
            if line.get("event") == "report":
                self.assertIn("exit_status", line["report"])
        stream.close()
        run.communicate(timeout=PATIENCE_S)

    def test_run_ends_at_once_with_a_page_open(self):
        run, page, go = self.run_until_file()
        until(lambda: page.request()[0] == 200)
        streams = [page.stream() for _ in range(3)]
        open(go, "w").close()
        self.assertEqual(run.wait(PATIENCE_S), 0)
        for stream in streams:
            with self.assertRaises(EOFError):
                while True:
                    last = stream.next()
            self.assertEqual(last, {"event": "ended"})


if __name__ == "__main__":
    main(jobs=4)
