#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""telemetry_test.py - the stream of snapshots of a running fabric.

   tests/cli/telemetry_test.py --fabemu build/fabemu [unittest options]
"""
import concurrent.futures
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import unittest

from cli_helpers import FabemuCase, PATIENCE_S, main, until
from helpers.seed import seed
from helpers.telemetry import View, parse_metrics

EVERY_MS = 100


class Stream(FabemuCase):
    def subscribe(self, path, every_ms=EVERY_MS):
        """A client, and a view with its first snapshot."""
        client = self.client(path)
        self.assertEqual(client.ask("subscribe", telemetry=every_ms), {"ok": True})
        view = View(client.next())
        self.assertEqual(view.shape["event"], "telemetry_shape")
        self.more(client, view)
        return client, view

    def more(self, client, view, wanted=lambda view: True):
        """Receive snapshots until the view is @wanted; other events are skipped."""
        for _ in range(200):
            line = client.next()
            if line["event"] != "telemetry":
                continue
            self.assertEqual(line["since"], view.line["sample"] if view.line else 0)
            view.take(line)
            if wanted(view):
                return
        self.fail("it does not come")

    def test_processes_attach_and_detach(self):
        path = self.up("u")
        client, view = self.subscribe(path)
        self.assertEqual(view.attached(), {})
        rank = self.client(path)
        node = rank.attach()["node"]
        self.more(client, view, View.attached)
        self.assertEqual(list(view.attached()), [node])
        self.assertTrue(view.attached()[node]["command"].startswith("python"))
        self.assertEqual(view.attached()[node]["pid"],
                         self.status("u")["attached"][0]["pid"])
        rank.close()
        self.more(client, view, lambda view: not view.attached())

    def test_events_report_groups_and_deaths(self):
        path = self.up("u")
        reader = self.client(path)
        self.assertEqual(reader.ask("subscribe"), {"ok": True})
        ranks = [self.client(path) for _ in range(3)]
        nodes = [rank.attach()["node"] for rank in ranks]

        def next_event():
            event = reader.next()
            self.assertGreater(event.pop("s"), 0)
            return event
        groups = [ranks[0].ask("group_create", nodes=nodes[:2])["group"] for _ in range(2)]
        for group in groups:
            self.assertEqual(next_event(), {"event": "group", "group": group, "state": "made",
                                            "members": 2})
        for rank in ranks[:2]:
            for group in groups:
                self.assertTrue(rank.ask("group_join", group=group)["ok"])
        ranks[0].send({"cmd": "group_break", "group": groups[0]})
        self.assertTrue(until(lambda: ranks[0].next().get("ok")))  # any event precedes the reply
        self.assertEqual(next_event(), {"event": "group", "group": groups[0], "state": "broken",
                                        "members": 2, "by": nodes[0]})
        ranks[1].close()  # the group is broken already: no further event
        self.assertEqual(next_event(), {"event": "group", "group": groups[1], "state": "broken",
                                        "members": 2, "by": nodes[1]})
        died = next_event()
        self.assertEqual((died["event"], died["node"], died["pid"]),
                         ("node_died", nodes[1], os.getpid()))
        self.assertTrue(died["command"] and died["how"], died)
        ranks[0].close()
        self.assertEqual(sorted((next_event()["state"], next_event()["state"])), ["over", "over"])
        self.assertEqual(next_event()["event"], "node_died")

    def test_links_report_their_state(self):
        path = self.up("u", "--profile", "qsnet3")
        client, view = self.subscribe(path)
        cable = next(i for i, c in enumerate(view.shape["cables"]) if c[2])
        at = "%d:%d" % tuple(view.shape["cables"][cable][:2])
        down = view.shape["link_states"].index("down")
        up = view.shape["link_states"].index("up")
        self.assertEqual(view.states, {})
        number = self.client(path).ask("fault", fault=f"link-down link={at}")["fault"]
        self.more(client, view, lambda view: view.states.get(cable) == [down, 1])
        self.assertEqual(set(view.states), {cable})
        self.client(path).ask("fault_clear", fault=number)
        self.more(client, view, lambda view: view.states.get(cable) == [up, 1])

    def test_invalid_requests_are_refused(self):
        client = self.client(self.up("u"))
        for wrong in (-1, 1, 99, 3600001, "100", None, [100]):
            reply = client.ask("subscribe", telemetry=wrong)
            self.assertFalse(reply["ok"], wrong)
            self.assertIn("100 to 3600000", reply["error"])

    def test_unsubscribed_client_gets_nothing(self):
        path = self.up("u")
        client, _ = self.subscribe(path)
        client.send({"cmd": "subscribe", "telemetry": 0})
        until(lambda: client.next().get("ok"))
        other, view = self.subscribe(path)
        self.more(other, view, lambda view: view.line["sample"] > 3)
        client.send({"cmd": "report"})
        self.assertIn("report", client.next())  # no line preceded it

    def run_example(self, path):
        example = os.path.join(os.path.dirname(self.command), "apps", "example")
        ranks = [subprocess.Popen([example, "4"], stdout=subprocess.DEVNULL,
                                  env=dict(self.env, FABEMU_SOCKET=path, FABEMU_NODE=str(node)))
                 for node in range(4)]
        self.assertEqual([rank.wait(timeout=PATIENCE_S) for rank in ranks], [0] * 4)

    def test_stream_ends_with_the_reported_counts(self):
        """The next snapshot would be due in an hour."""
        path = self.up("u")
        client, view = self.subscribe(path, 3600000)
        self.run_example(path)
        report = self.client(path).ask("report")["report"]
        self.assertEqual(self.fabemu("down", "u").returncode, 0)
        line = {}
        with self.assertRaises((EOFError, ConnectionError)):
            while True:
                line = client.next()
                if line["event"] == "telemetry":
                    view.take(line)
        self.assertEqual(line.get("event"), "telemetry")
        for name in ("sent", "delivered", "hops"):
            self.assertEqual(view.line["totals"][name], report["segments"][name], name)
        self.assertGreater(report["segments"]["sent"], 0)
        self.assertEqual(view.attached(), {})

    def test_client_that_does_not_read_does_not_delay_the_end(self):
        path = self.up("u", "--topo", "kary:10,2")
        deaf, (client, view) = self.client(path), self.subscribe(path, 3600000)
        deaf.send({"cmd": "subscribe", "telemetry": EVERY_MS})
        deaf.socket.setblocking(False)
        # the socket is full of replies, so no request is read
        with self.assertRaises(BlockingIOError):
            while True:
                self.assertEqual(deaf.socket.send(b'{"cmd":"report"}\n'), 17)
        self.run_example(path)
        self.assertEqual(self.fabemu("down", "u").returncode, 0)
        self.more(client, view)  # the last snapshot of the client that reads
        self.assertGreater(view.line["totals"]["sent"], 0)

    def test_client_that_does_not_read_blocks_nobody(self):
        """A client subscribes and does not read while others do; afterwards it has missed only
        lines."""
        path = self.up("u", "--topo", "kary:10,2")
        deaf = self.client(path)
        deaf.send({"cmd": "subscribe", "telemetry": EVERY_MS})
        deaf.socket.setblocking(False)
        # the socket is full of replies, so no request is read
        with self.assertRaises(BlockingIOError):
            while True:
                self.assertEqual(deaf.socket.send(b'{"cmd":"report"}\n'), 17)
        deaf.socket.settimeout(PATIENCE_S)
        client, view = self.subscribe(path)
        rank = self.client(path)
        node = rank.attach()["node"]
        self.more(client, view, lambda view: view.line["sample"] > 10)
        self.assertEqual(view.line["skipped"], 0)
        late, skipped = None, 0
        while not late or not late.attached() or not skipped:
            line = deaf.next()
            if line.get("event") == "telemetry_shape":
                late = View(line)
            elif line.get("event") == "telemetry":
                late.take(line)
                skipped += line["skipped"]
        self.assertEqual(list(late.attached()), [node])


class Folded(FabemuCase):
    """5832 nodes and 17496 cables: just enough to be aggregated."""
    TOPO = "kary:18,3"

    def setUp(self):
        super().setUp()
        self.path = self.up("u", "--topo", self.TOPO)
        self.random = random.Random(seed())

    def snapshot(self, client, **how):
        """The shape, and all non-zero rows, of a new subscription."""
        client.send({"cmd": "subscribe", "telemetry": EVERY_MS, **how})
        self.assertEqual(self.reply(client), {"ok": True})
        view = None
        while not (view and view.line):
            line = client.next()
            if line["event"] == "telemetry_shape":
                view = View(line)
            elif line["event"] == "telemetry" and view:
                view.take(line)
        return view

    def run_ranks(self, count):
        """@count ranks at random nodes, which send to one another."""
        example = os.path.join(os.path.dirname(self.command), "apps", "example")
        env = dict(self.env, FABEMU_SOCKET=self.path)
        ranks = [subprocess.Popen([example, str(count)], env=dict(env, FABEMU_NODE=str(node)),
                                  stdout=subprocess.DEVNULL) for node in range(count)]
        self.assertEqual([rank.wait(timeout=60) for rank in ranks], [0] * count)

    def test_open_blocks_are_exact_and_all_adds_up(self):
        self.run_ranks(4)
        client = self.client(self.path)
        client.socket.settimeout(60)
        whole, plain = self.snapshot(client), self.snapshot(client, fold=True)
        blocks = plain.shape["folded"]["blocks"]
        self.assertLess(len(plain.shape["cables"]), len(whole.shape["cables"]) // 10)
        self.assertGreater(sum(row[0] for row in whole.links.values()), 0)
        self.check_sums(whole, plain)
        for count in 0, 1, 3, 20:
            some = sorted(self.random.sample(range(blocks), count))
            if count:
                some = sorted(set(some) | {0})  # nodes with traffic
            view = self.snapshot(client, fold={"open": some + some[:1]})
            self.assertEqual(view.shape["folded"]["open"], some)
            self.assertEqual(view.shape["folded"]["blocks"], blocks)
            self.check_sums(whole, view)
            self.check_open_rows(whole, view)

    def check_sums(self, whole, view):
        """Sums over all rows equal those of the whole network."""
        folded, shape = view.shape["folded"], view.shape
        self.assertEqual(folded["nodes"], whole.shape["nodes"])
        self.assertEqual(folded["switches"], len(whole.shape["switches"]))
        self.assertEqual(sum(row[6] for row in shape["cables"]), len(whole.shape["cables"]))
        self.assertEqual(view.line["totals"], whole.line["totals"])
        for name in "links", "nodes", "switches":
            rows, all_rows = getattr(view, name).values(), getattr(whole, name).values()
            for sums in zip(zip(*rows), zip(*all_rows)):
                self.assertEqual(*map(sum, sums))

    def check_open_rows(self, whole, view):
        """Each row of an open block equals that of the whole network."""
        shape, folded, opened = view.shape, view.shape["folded"], 0
        cables = {tuple(row[:2]): i for i, row in enumerate(whole.shape["cables"])}
        switches = len(shape["switches"])
        for part, (block, number) in enumerate(zip(folded["block_of"], folded["number_of"])):
            self.assertTrue(number >= 0 or block not in folded["open"])
            if block not in folded["open"]:
                continue
            opened += 1
            rows, of, at = ((view.switches, whole.switches, part) if part < switches
                            else (view.nodes, whole.nodes, part - switches))
            self.assertEqual(rows.get(at), of.get(number))
            self.assertEqual(shape["names"][part],
                             f"switch {number}" if part < switches else f"node {number}")
        self.assertEqual(opened > 0, bool(folded["open"]))
        for row, (sw, port, kind, remote, remote_port, _, count, *at) in enumerate(shape["cables"]):
            if count > 1:
                continue
            i = cables[tuple(at)]
            turned = not (folded["number_of"][sw] in (-1, at[0]) and port == at[1])
            for way in 0, 1:
                self.assertEqual(view.links.get(2 * row + way),
                                 whole.links.get(2 * i + (way ^ turned)), shape["cables"][row])

    def test_a_process_at_an_open_node_is_reported(self):
        client, rank = self.client(self.path), self.client(self.path)
        node = rank.attach()["node"]
        self.assertEqual(self.snapshot(client, fold=True).attached(), {})
        view = self.snapshot(client, fold={"open": [0]})
        while not view.attached():
            line = client.next()
            if line["event"] == "telemetry":
                view.take(line)
        part, = view.attached()
        folded = view.shape["folded"]
        self.assertEqual(folded["number_of"][len(view.shape["switches"]) + part], node)

    def test_invalid_blocks_are_refused_and_the_stream_continues(self):
        client = self.client(self.path)
        blocks = self.snapshot(client, fold=True).shape["folded"]["blocks"]
        wrong = {22: [None, 1, -1, 0.5, "true", "", [], [0], {"open": 0}, {"open": None},
                      {"open": "0"}, {"open": {}}, {"open": ["0"]}, {"open": [0.5]},
                      {"open": [True]}, {"open": [None]}, {"open": [[0]]}, {"open": [{}]}],
                 2: [{"open": [blocks]}, {"open": [-1]}, {"open": [2**31]}, {"open": [2**32]},
                     {"open": [2**32 - 1]}, {"open": [2**64]}, {"open": [-2**64]},
                     {"open": [10**30]}, {"open": [0] * 9000 + [blocks]}],
                 7: [{"open": list(range(blocks))}]}
        for errno, values in wrong.items():
            for value in values:
                client.send({"cmd": "subscribe", "telemetry": 100, "fold": value})
                reply = self.reply(client)
                self.assertEqual((reply["ok"], reply.get("errno")), (False, errno), value)
                self.assertTrue(reply["error"])
        until(lambda: client.next().get("event") == "telemetry")  # the previous request was valid
        self.assertEqual(self.snapshot(client, fold={"open": [0] * 9000}).shape["folded"]["open"],
                         [0])
        self.client(self.path).raw(b'{"cmd":"subscribe","telemetry":100,"fold":' + b"[" * 30000)
        for _ in range(50):  # numbers of any size, in any count
            count = self.random.choice((1, 2, 50, 3000))
            value = [self.random.randint(-3, 2**self.random.randint(1, 70)) for _ in range(count)]
            client.send({"cmd": "subscribe", "telemetry": 100, "fold": {"open": value}})
            reply = self.reply(client)
            self.assertEqual(reply["ok"], all(0 <= b < blocks for b in value), value[:9])
        patient = self.client(self.path)  # a large network takes a while
        patient.socket.settimeout(60)
        self.assertTrue(patient.ask("check")["check"]["right"])

    def reply(self, client):
        line = client.next()
        while "ok" not in line:
            line = client.next()
        return line

    def test_number_of_clients_with_open_blocks_is_limited(self):
        clients = [self.client(self.path) for _ in range(33)]
        for client in clients[:-1]:
            self.assertTrue(client.ask("subscribe", telemetry=3600000, fold={"open": [0]})["ok"])
        last = clients[-1]
        refused = last.ask("subscribe", telemetry=100, fold={"open": [0]})
        self.assertEqual(refused["errno"], 28)
        clients[2].send({"cmd": "subscribe", "telemetry": 3600000, "fold": {"open": [1]}})
        self.assertTrue(self.reply(clients[2])["ok"])  # it has other blocks open now
        self.snapshot(last, fold=True)
        clients[0].send({"cmd": "subscribe", "telemetry": 0})
        self.assertTrue(self.reply(clients[0])["ok"])
        self.snapshot(last, fold={"open": [1]})
        clients[1].close()

        def may_open():
            clients[0].send({"cmd": "subscribe", "telemetry": 100, "fold": {"open": [0]}})
            return self.reply(clients[0])["ok"]
        self.assertTrue(until(may_open))  # once the fabric has seen that the other client is gone

    def test_in_simulated_time_blocks_stay_open_from_run_to_run(self):
        run = self.start("traffic", "--topo", self.TOPO, "--load", "0.02,0.04", "--warmup", "100ns",
                         "--measure", "2000ns", "--web")
        run.stderr.readline()  # the page's address
        socket, = (name for name in self.sockets() if name.startswith("traffic"))
        client = self.client(os.path.join(os.path.dirname(self.path), socket))
        client.socket.settimeout(60)
        for fold in {"open": "3"}, {"open": [9999]}:  # errors are reported at once, or
            client.send({"cmd": "subscribe", "telemetry": 100, "fold": fold})
        client.send({"cmd": "subscribe", "telemetry": 100, "fold": {"open": [3]}})
        shapes, refused = [], 0
        while len(shapes) < 2:
            line = client.next()
            refused += line.get("ok") is False  # once there is a network
            if line.get("event") == "telemetry_shape":
                shapes.append(line["folded"]["open"])
        self.assertEqual(shapes, [[3], [3]])
        self.assertGreaterEqual(refused, 1)
        client.close()
        self.assertEqual(run.wait(timeout=60), 0)

    def test_a_small_network_has_no_blocks(self):
        client = self.client(self.up("v"))
        for fold in True, {}, {"open": []}:
            self.assertNotIn("folded", self.snapshot(client, fold=fold).shape)
        client.send({"cmd": "subscribe", "telemetry": 100, "fold": {"open": [0]}})
        self.assertEqual(self.reply(client)["errno"], 2)


def lines_of(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def view_of(lines):
    """The final state according to a recording, and its number of snapshots."""
    view, snapshots = View(lines[0]), 0
    assert lines[0]["event"] == "telemetry_shape"
    for line in lines[1:]:
        if line["event"] == "telemetry":
            assert line["since"] == snapshots
            snapshots += 1
            view.take(line)
    return view, snapshots


class Recording(FabemuCase):
    def test_recording_ends_with_the_reported_counts(self):
        record, report = (os.path.join(self.dir, name) for name in ("record", "report"))
        example = os.path.join(os.path.dirname(self.command), "apps", "example")
        ranks = "for i in 0 1 2 3; do FABEMU_NODE=$i %s 4 & done; wait" % example
        done = self.fabemu("run", "--topo", "kary:2,2", "--record", record, "--report", report,
                           "--", "sh", "-c", ranks)
        self.assertEqual(done.returncode, 0, done.stderr)
        view, _ = view_of(lines_of(record))
        with open(report) as f:
            report = json.load(f)
        for name in ("sent", "delivered", "hops"):
            self.assertEqual(view.line["totals"][name], report["segments"][name], name)
        self.assertEqual(view.line["totals"]["contributions"], report["combined"]["contributions"])
        self.assertGreater(view.line["totals"]["contributions"], 0)
        self.assertEqual(sum(row[0] for row in view.nodes.values()), report["segments"]["sent"])
        self.assertEqual(view.line["collectives"][3], [1, 0])
        finished = {view.shape["wait_kinds"][kind]: row for row in view.finished.values()
                    for kind, row in [(row[0], row[1:])]}
        self.assertEqual({kind: row[1] for kind, row in finished.items()},
                         {"allreduce": 4, "barrier": 4})  # by all members
        self.assertEqual(view.line["finished_count"], 8)
        for _, _, began, ended in finished.values():
            self.assertTrue(0 < began < ended < view.line["at_ns"])
        self.assertEqual(view.attached(), {})

    def up_into_pipes(self):
        """A fabric that writes into two pipes, and their unread ends."""
        paths = [os.path.join(self.dir, name) for name in ("record", "events")]
        ends = []
        for path in paths:
            os.mkfifo(path)
            ends.append(os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK)))
            self.addCleanup(ends[-1].close)
        run = self.start("run", "--topo", "kary:10,2", "--profile", "qsnet3", "--name", "u",
                         "--record", paths[0], "--events", paths[1], "--", "sleep", "100")
        self.assertTrue(until(lambda: "u.sock" in self.sockets()))
        for end in ends:
            os.set_blocking(end.fileno(), True)
        return run, *ends

    def many_events(self, at_least):
        """Links fail and recover until at least @at_least bytes of events went to readers."""
        reads, asks = self.client(self.socket_path("u")), self.client(self.socket_path("u"))
        reads.ask("subscribe")
        said = 0
        while said < at_least:
            number = asks.ask("fault", fault="link-down level=0")["fault"]
            self.assertTrue(asks.ask("fault_clear", fault=number)["ok"])
            over = None
            while (over or {}).get("state") != "over":
                event = reads.next()
                said += len(json.dumps(event, separators=(",", ":"))) + 1
                over = event if event["event"] == "fault" else over

    def two_are_due(self, client):
        """Two snapshots; each is due for @client at the same time as for the file."""
        self.assertEqual(client.ask("subscribe", telemetry=EVERY_MS), {"ok": True})
        for _ in range(3):  # the first is sent at once
            while client.next()["event"] != "telemetry":
                pass

    @unittest.skipUnless(shutil.which("mpirun"), "needs Open MPI")
    def test_each_finished_collective_has_a_row_with_all_members(self):
        """61440 bytes are 256 segments, so the numbers of the collectives have equal low bits."""
        path = os.path.join(self.dir, "record")
        program = os.path.join(os.path.dirname(self.command), "tests", "mpi_allreduce_bench")
        done = self.fabemu("run", "--topo", "kary:2,2", "--record", path, "--", "mpirun", "-np",
                           "4", program, "--op", "reduce", "--bytes", "61440", "--warmup", "0",
                           "--iterations", "150")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {}
        with open(path, encoding="utf-8") as f:
            for line in map(json.loads, f):
                rows.update({tuple(row[:2]): row[4] for row in line.get("finished", ())})
                count = line.get("finished_count", 0)
        self.assertGreater(len(rows), 150)
        self.assertEqual((count, set(rows.values())), (4 * len(rows), {4}))

    def test_an_unread_pipe_blocks_nobody(self):
        """Omissions are reported in the stream, and at the end; the last snapshot is complete."""
        run, record, events = self.up_into_pipes()
        self.many_events(400000)  # more than a pipe, 64 KB, and the fabric's buffer, 256 KB
        self.two_are_due(self.client(self.socket_path("u")))
        rank = self.client(self.socket_path("u"))
        rank.attach()
        run.send_signal(signal.SIGINT)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:  # while it ends, both are read
            recorded, logged = pool.map(lambda file: list(map(json.loads, file)), (record, events))
        _, err = run.communicate(timeout=60)
        skipped = sum(line.get("skipped", 0) for line in recorded)
        for name, lines in ("snapshots", recorded), ("events", logged):
            missing = [line["lines"] for line in lines if line["event"] == "left_out"]
            self.assertTrue(missing, name)
            left_out = sum(missing) + (skipped if name == "snapshots" else 0)
            self.assertIn(f"{name}: {left_out} lines were left out", err)
        self.assertGreater(skipped, 0)
        view = View(recorded[0])
        for line in recorded[1:]:
            if line["event"] == "telemetry":
                self.assertEqual(line["since"], view.line["sample"] if view.line else 0)
                view.take(line)
        self.assertEqual(recorded[-1]["event"], "telemetry")
        up = view.shape["link_states"].index("up")
        self.assertTrue(view.states and all(row[1] for row in view.states.values()), up)

    def test_a_never_read_pipe_ends_with_the_run(self):
        run, _, _ = self.up_into_pipes()
        self.many_events(400000)
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=60)
        self.assertRegex(err, r"events: \d+ lines were left out")
        self.assertRegex(err, r"snapshots: \d+ lines were left out")

    def files(self):
        """Options for a file of each kind, and the files."""
        paths = {name: os.path.join(self.dir, name) for name in
                 ("record", "events", "timeline", "capture", "report")}
        return [word for name in paths for word in ("--" + name, paths[name])], paths.values()

    def contents(self, paths):
        found = {}
        for path in paths:
            if os.path.exists(path):
                with open(path, "rb") as f:
                    found[path] = f.read()
        return found

    def test_refused_command_leaves_files_unchanged(self):
        options, paths = self.files()
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        for there in (True, False):
            for path in paths:
                if there:
                    with open(path, "w") as f:
                        f.write("precious\n" * 100)
                else:
                    os.unlink(path)
            before = self.contents(paths)
            for wrong in (("--capture-filter", "switch=999"), ("--name", ".x"),
                          ("--web=%d" % taken.getsockname()[1],)):
                for command in (("run",), ("up",), ("up", "--foreground")):
                    with self.subTest((there, wrong, command)):
                        end = ("--", "true") if command == ("run",) else ()
                        done = self.fabemu(*command, *options, *wrong, *end)
                        self.assertIn(done.returncode, (1, 2), done.stderr)
                        self.assertEqual(self.contents(paths), before)

    def test_files_of_a_running_fabric_are_locked(self):
        options, paths = self.files()
        for path in paths:
            with open(path, "w") as f:
                f.write("of a run before\n" * 10000)
        self.up("u", "--profile", "qsnet3", *options)
        self.one_line(self.fabemu("up", *options, "u"), 1, "'u' is running already")
        for option, path in zip(options[::2], options[1::2]):
            with self.subTest(option):
                done = self.fabemu("run", option, path, "--", "true")
                self.one_line(done, 1, path, "another process writes it", option)
        asks = self.client(self.socket_path("u"))
        self.assertTrue(asks.ask("fault", fault="link-down level=0")["ok"])
        self.assertEqual(self.fabemu("down", "u").returncode, 0)
        record, events, timeline, capture, report = paths
        self.assertGreater(view_of(lines_of(record))[1], 0)
        self.assertTrue(lines_of(events))
        for path in (timeline, report):
            with open(path) as f:
                json.load(f)
        with open(capture, "rb") as f:
            capture = f.read()
        self.assertEqual(capture[:4], b"\n\r\r\n")
        self.assertNotIn(b"of a run before", capture)
        self.up("u", *options)  # the files are free again

    def test_write_errors_are_reported(self):
        done = self.fabemu("run", "--record", os.path.join(self.dir, "no", "where"), "--", "true")
        self.one_line(done, 1, "cannot write snapshots", "--record")
        done = self.fabemu("run", "--record", "/dev/full", "--", "true")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("snapshots are no longer written", done.stderr)

    def test_simulated_time(self):
        """One snapshot per interval, and the same with any number of threads, except for the time
        at which stalls are counted: at the end these are equal, too."""
        path = os.path.join(self.dir, "t")
        recorded = []
        for threads in "1", "2":
            done = self.fabemu("traffic", "--topo", "kary:4,2", "--load", "0.9", "--warmup", "1ns",
                               "--measure", "20000ns", "--threads", threads, "--telemetry", path,
                               "--every", "500ns")
            self.assertEqual(done.returncode, 0, done.stderr)
            recorded.append(lines_of(path))
        lines = recorded[0]
        (view, snapshots), (other, _) = view_of(lines), view_of(recorded[1])
        self.assertEqual((view.links, view.nodes, view.line["totals"]),
                         (other.links, other.nodes, other.line["totals"]))
        for line, same in zip(lines[1:], recorded[1][1:], strict=True):
            for name in "at_ps", "nodes", "switches":
                self.assertEqual(line[name], same[name])
            self.assertEqual(line["totals"]["hops"], same["totals"]["hops"])
        self.assertEqual([line["at_ps"] for line in lines[1:snapshots]],
                         [i * 500000 for i in range(1, snapshots)])
        self.assertGreaterEqual(snapshots, 40)
        self.assertEqual(view.shape["clock"], "virtual")
        self.assertEqual(view.sent_by_nodes(), view.line["totals"]["sent"])
        self.assertTrue(any(row[2] for line in lines[1:] for row in line["links"]), "no queue")

    def test_waits_for_credits_are_those_of_all_ports(self):
        """Ports of switches, and of adapters in networks with acknowledgments."""
        path = os.path.join(self.dir, "t")
        for profile in "oq2004", "qsnet3":
            with self.subTest(profile=profile):
                done = self.fabemu("traffic", "--topo", "kary:4,2", "--profile", profile,
                                   "--pattern", "hotspot:0:0.5", "--load", "0.9", "--warmup", "1ns",
                                   "--measure", "20000ns", "--telemetry", path)
                self.assertEqual(done.returncode, 0, done.stderr)
                view, _ = view_of(lines_of(path))
                cables = view.shape["cables"]
                of_nodes = sum(row[1] for way, row in view.links.items()
                               if way % 2 == 0 and cables[way // 2][2] == 0)
                of_all = sum(row[1] for row in view.links.values())
                self.assertEqual(view.line["totals"]["credit_stalls"], of_all)
                self.assertGreater(of_all, of_nodes)
                self.assertEqual(of_nodes > 0, profile == "qsnet3")

    def test_simulated_time_requires_matching_options(self):
        self.one_line(self.fabemu("traffic", "--every", "10ns"), 2, "--every", "--telemetry")
        self.one_line(self.fabemu("traffic", "--json", "--telemetry", "-"), 2, "standard output")
        done = self.fabemu("traffic", "--topo", "kary:2,2", "--measure", "20us", "--telemetry", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in done.stdout.splitlines():
            self.assertIn("event", json.loads(line))
        self.assertIn("uniform on kary:2,2", done.stderr)
        self.one_line(self.fabemu("traffic", "--telemetry", "/no/where"), 1, "--telemetry")
        self.one_line(self.fabemu("traffic", "--telemetry", "/dev/full"), 1, "snapshots")


# Names and labels of ports that existing dashboards use: those of node_exporter (Open XDMoD's
# plugin for jobs, and others), and those of infiniband_exporter (its own dashboards, whose rules
# join them with uplink_info on guid and port). Metrics that have no meaning here, or are not
# counted, are listed in docs/telemetry.md.
NODE_EXPORTER = {name: {"device", "port"} for name in (
    "node_infiniband_port_packets_transmitted_total", "node_infiniband_port_packets_received_total",
    "node_infiniband_port_transmit_wait_total", "node_infiniband_symbol_error_total",
    "node_infiniband_link_downed_total", "node_infiniband_state_id",
    "node_infiniband_physical_state_id", "node_infiniband_rate_bytes_per_second")}
INFINIBAND_EXPORTER = {f"infiniband_{of}_{name}": {"guid", "port"} for of in ("switch", "hca")
                       for name in ("port_transmit_packets_total", "port_receive_packets_total",
                                    "port_transmit_wait_total", "port_symbol_error_total",
                                    "port_link_downed_total")} | {
    "infiniband_switch_port_rate_bytes_per_second": {"guid", "port"},
    "infiniband_hca_rate_bytes_per_second": {"guid"},
    **{f"infiniband_{of}_info": {"guid", of, "lid"} for of in ("switch", "hca")},
    **{f"infiniband_{of}_uplink_info": {"guid", "port", of, "uplink", "uplink_guid", "uplink_type",
                                        "uplink_port", "uplink_lid"} for of in ("switch", "hca")}}
NOT_HERE = (
    "node_infiniband_port_data_transmitted_bytes_total",
    "node_infiniband_port_data_received_bytes_total",
    *(f"infiniband_switch_{name}" for name in (
        "port_receive_data_bytes_total", "port_transmit_discards_total",
        "port_receive_remote_physical_errors_total", "port_local_link_integrity_errors_total",
        "power_supply_dc_power_status_info", "fan_status_info")))


class Metrics(FabemuCase):
    def metrics(self, *names):
        done = self.fabemu("status", "--metrics", *names, "u")
        self.assertEqual(done.returncode, 0, done.stderr)
        return parse_metrics(done.stdout)

    def run_example(self):
        example = os.path.join(os.path.dirname(self.command), "apps", "example")
        env = dict(self.env, FABEMU_SOCKET=self.socket_path("u"))
        ranks = [subprocess.Popen([example, "4"], env=dict(env, FABEMU_NODE=str(node)),
                                  stdout=subprocess.DEVNULL) for node in range(4)]
        self.assertEqual([rank.wait(timeout=60) for rank in ranks], [0] * 4)

    def test_the_format_and_that_counters_grow(self):
        path = self.up("u")
        before = self.metrics()
        self.run_example()
        after = self.metrics()
        report = self.client(path).ask("report")["report"]
        self.assertEqual(set(before), set(after))
        for name, family in after.items():
            self.assertEqual(set(family["samples"]), set(before[name]["samples"]), name)
            for labels, value in family["samples"].items():
                if family["type"] == "counter":
                    self.assertGreaterEqual(value, before[name]["samples"][labels], name)
        times = [m["fabemu_time_seconds_total"]["samples"][()] for m in (before, after)]
        self.assertGreater(times[1], times[0])
        self.assertGreater(times[0], 0)
        self.assertEqual(after["fabemu_sent_total"]["samples"][()], report["segments"]["sent"])
        ports = after["node_infiniband_port_packets_transmitted_total"]["samples"]
        sent = {"node": 0, "switch": 0}
        for labels, value in ports.items():
            sent[dict(labels)["device"].rstrip("0123456789")] += value
        self.assertEqual(sent, {"node": report["segments"]["sent"],
                                "switch": report["segments"]["hops"]})
        self.assertEqual(len(ports), 2 * 8)  # both ends of each cable
        collectives = after["fabemu_collectives_total"]["samples"]
        self.assertEqual(collectives[(("by", "network"), ("kind", "allreduce"))], 1)

    def test_a_lost_link(self):
        path = self.up("u", "--profile", "qsnet3")
        client = self.client(path)
        cable = next(c for c in self.shape(path)["cables"] if c[2])
        end = (("device", f"switch{cable[0]}"), ("port", str(cable[1])))

        def seen():
            metrics = self.metrics()
            return tuple(metrics["node_infiniband_" + name]["samples"][end] for name in
                         ("state_id", "physical_state_id", "link_downed_total"))
        self.assertEqual(seen(), (4, 5, 0))
        fault = client.ask("fault", fault="link-down link=%d:%d" % tuple(cable[:2]))["fault"]
        self.assertEqual(until(lambda: seen() if seen()[0] == 1 else None), (1, 2, 1))
        client.ask("fault_clear", fault=fault)
        self.assertEqual(until(lambda: seen() if seen()[0] == 4 else None), (4, 5, 1))

    def shape(self, path):
        client = self.client(path)
        client.ask("subscribe", telemetry=1000)
        return client.next()

    def test_dashboards_find_the_names_that_they_use(self):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)),
                               "../../docs/telemetry.md")) as f:
            document = f.read()
        self.up("u")
        for whose, wanted in (("node_exporter", NODE_EXPORTER),
                              ("infiniband_exporter", INFINIBAND_EXPORTER)):
            there = self.metrics("--names", whose)
            for name, labels in wanted.items():
                family = there[name]
                self.assertTrue(family["samples"], name)
                self.assertEqual({frozenset(dict(at)) for at in family["samples"]},
                                 {frozenset(labels)}, name)
            if whose == "infiniband_exporter":
                self.assertEqual(set(there), set(wanted))
            for name in NOT_HERE:
                self.assertNotIn(name, there)
                self.assertIn(f"`{name}`", document)
        self.one_line(self.fabemu("status", "--metrics", "--names", "mine", "u"), 2,
                      "infiniband_exporter")
        self.one_line(self.fabemu("status", "--names", "node_exporter", "u"), 2, "--metrics")
        self.one_line(self.fabemu("status", "--metrics", "--json", "u"), 2,
                      "--metrics and --json cannot be used together")

    def grown(self, name, before, after):
        """By device and port, as (device, port): by how much a counter has grown."""
        old, new = (m[name]["samples"] for m in (before, after))
        return {(dict(at)["guid"], dict(at)["port"]): new[at] - old[at] for at in new}

    def joined(self, name, before, after):
        """As in infiniband_exporter's rules: increases, with the labels of the one row of
        uplink_info that has the same guid and port."""
        of = name.split("_")[1]
        info = {}
        for at in after[f"infiniband_{of}_uplink_info"]["samples"]:
            labels = dict(at)
            self.assertNotIn((labels["guid"], labels["port"]), info)
            info[labels["guid"], labels["port"]] = labels
        grown = self.grown(name, before, after)
        self.assertEqual(grown.keys(), info.keys())
        return [(info[port], value) for port, value in grown.items()]

    def test_dashboards_of_switches_agree_with_telemetry(self):
        """sum by (switch) of the received data of ports, and where it came from."""
        topo = os.path.join(self.dir, "machine.topo")
        self.assertEqual(self.fabemu("topo", "kary:2,2", "--write", topo).returncode, 0)
        path = self.up("u", "--topo", topo)
        before = self.metrics("--names", "infiniband_exporter")
        self.run_example()
        client = self.client(path)
        client.ask("subscribe", telemetry=3600000)
        view = View(client.next())
        view.take(client.next())
        after = self.metrics("--names", "infiniband_exporter")
        names = view.shape["names"]
        switches = len(view.shape["switches"])
        ends, received = {}, dict.fromkeys(names[:switches], 0)
        for c, (sw, port, kind, remote, remote_port, _) in enumerate(view.shape["cables"]):
            there = names[remote if kind else switches + remote]
            to, from_ = (view.links.get(2 * c + way, [0])[0] for way in (0, 1))
            received[names[sw]] += to
            if kind:
                received[there] += from_
            device = "SW" if kind else "CA"
            ends[names[sw], str(port)] = (there, str(remote_port), device, to, from_)
            ends[there, str(remote_port)] = (names[sw], str(port), "SW", from_, to)
        self.assertGreater(sum(received.values()), 0)
        sums, seen = dict.fromkeys(received, 0), set()
        for of in "switch", "hca":
            sent = self.grown(f"infiniband_{of}_port_transmit_packets_total", before, after)
            for at, value in self.joined(f"infiniband_{of}_port_receive_packets_total", before,
                                         after):
                end = ends[at[of], at["port"]]
                self.assertEqual((at["uplink"], at["uplink_port"], at["uplink_type"], value,
                                  sent[at["guid"], at["port"]]), end)
                seen.add((at[of], at["port"]))
                if of == "switch":
                    sums[at["switch"]] += value
        self.assertEqual(seen, set(ends))
        self.assertEqual(sums, received)

    def test_no_fabric(self):
        self.one_line(self.fabemu("status", "--metrics", "u"), 1, "u")


if __name__ == "__main__":
    main()
