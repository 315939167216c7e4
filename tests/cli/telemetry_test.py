#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""telemetry_test.py - snapshots of a running fabric: the stream.

    tests/cli/telemetry_test.py --fabemu build/fabemu [unittest options]
"""
import concurrent.futures
import json
import os
import signal
import subprocess
import unittest

from cli_kit import FabemuCase, PATIENCE_S, main, until
from kits.telemetry import View, parse_metrics

EVERY_MS = 100


class Stream(FabemuCase):
    def subscribe(self, path, every_ms=EVERY_MS):
        """A client, and a view that has its first snapshot."""
        client = self.client(path)
        self.assertEqual(client.ask("subscribe", telemetry=every_ms), {"ok": True})
        view = View(client.next())
        self.assertEqual(view.shape["event"], "telemetry_shape")
        self.more(client, view)
        return client, view

    def more(self, client, view, wanted=lambda view: True):
        """Take snapshots until one is @wanted; other events are passed over."""
        for _ in range(200):
            line = client.next()
            if line["event"] != "telemetry":
                continue
            self.assertEqual(line["since"], view.line["look"] if view.line else 0)
            view.take(line)
            if wanted(view):
                return
        self.fail("it does not come")

    def test_processes_come_and_go(self):
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

    def test_links_say_their_state(self):
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

    def test_what_is_wrong_is_refused(self):
        client = self.client(self.up("u"))
        for wrong in (-1, 1, 99, 3600001, "100", None, [100]):
            reply = client.ask("subscribe", telemetry=wrong)
            self.assertFalse(reply["ok"], wrong)
            self.assertIn("100 to 3600000", reply["error"])

    def test_who_asked_for_no_more_gets_no_more(self):
        path = self.up("u")
        client, _ = self.subscribe(path)
        client.send({"cmd": "subscribe", "telemetry": 0})
        until(lambda: client.next().get("ok"))
        other, view = self.subscribe(path)
        self.more(other, view, lambda view: view.line["look"] > 3)
        client.send({"cmd": "report"})
        self.assertIn("report", client.next())  # nothing came before it

    def test_who_reads_nothing_holds_up_nobody(self):
        """One asks, and does not read while others do; then it has lost nothing but lines."""
        path = self.up("u", "--topo", "kary:10,2")
        deaf = self.client(path)
        deaf.send({"cmd": "subscribe", "telemetry": EVERY_MS})
        deaf.socket.setblocking(False)
        with self.assertRaises(BlockingIOError):  # the socket is full of replies, so none is read
            while True:
                self.assertEqual(deaf.socket.send(b'{"cmd":"report"}\n'), 17)
        deaf.socket.settimeout(PATIENCE_S)
        client, view = self.subscribe(path)
        rank = self.client(path)
        node = rank.attach()["node"]
        self.more(client, view, lambda view: view.line["look"] > 10)
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


def lines_of(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def view_of(lines):
    """What the lines of a recording tell, in the end; and how many snapshots there are."""
    view, snapshots = View(lines[0]), 0
    assert lines[0]["event"] == "telemetry_shape"
    for line in lines[1:]:
        if line["event"] == "telemetry":
            assert line["since"] == snapshots
            snapshots += 1
            view.take(line)
    return view, snapshots


class Recording(FabemuCase):
    def test_ends_with_what_the_report_says(self):
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
        """A fabric that writes into two pipes, and the ends that nobody reads of yet."""
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
        """Links fail and come again until @at_least bytes of events were told to who reads."""
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

    def test_a_pipe_that_nobody_reads_holds_up_nobody(self):
        """What was left out is said in the stream, and at the end; the last snapshot has it all."""
        run, record, events = self.up_into_pipes()
        self.many_events(400000)  # a pipe, 64 KB, what waits in the fabric, 256 KB, and more
        rank = self.client(self.socket_path("u"))
        rank.attach()
        run.send_signal(signal.SIGINT)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:  # while it ends, both are read
            recorded, told = pool.map(lambda file: list(map(json.loads, file)), (record, events))
        _, err = run.communicate(timeout=60)
        skipped = sum(line.get("skipped", 0) for line in recorded)
        for name, lines in ("snapshots", recorded), ("events", told):
            missing = [line["lines"] for line in lines if line["event"] == "left_out"]
            self.assertTrue(missing, name)
            left_out = sum(missing) + (skipped if name == "snapshots" else 0)
            self.assertIn(f"{name}: {left_out} lines were left out", err)
        self.assertGreater(skipped, 0)
        view = View(recorded[0])
        for line in recorded[1:]:
            if line["event"] == "telemetry":
                self.assertEqual(line["since"], view.line["look"] if view.line else 0)
                view.take(line)
        self.assertEqual(recorded[-1]["event"], "telemetry")
        up = view.shape["link_states"].index("up")
        self.assertTrue(view.states and all(row[1] for row in view.states.values()), up)

    def test_a_pipe_that_nobody_ever_reads_ends_with_the_run(self):
        run, _, _ = self.up_into_pipes()
        self.many_events(400000)
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=60)
        self.assertRegex(err, r"events: \d+ lines were left out")
        self.assertRegex(err, r"snapshots: \d+ lines were left out")

    def test_what_cannot_be_written_is_said(self):
        done = self.fabemu("run", "--record", os.path.join(self.dir, "no", "where"), "--", "true")
        self.one_line(done, 1, "cannot write snapshots", "--record")
        done = self.fabemu("run", "--record", "/dev/full", "--", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("snapshots are no longer written", done.stderr)

    def test_simulated_time(self):
        """A snapshot each interval, and the same with any number of threads.

        But for when stalls are counted: in the end they are the same, too."""
        path = os.path.join(self.dir, "t")
        recorded = []
        for threads in "1", "2":
            done = self.fabemu("traffic", "--topo", "kary:4,2", "--load", "0.9", "--warmup", "1",
                               "--measure", "20000", "--threads", threads, "--telemetry", path,
                               "--every", "500")
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

    def test_simulated_time_wants_what_fits(self):
        self.one_line(self.fabemu("traffic", "--every", "10"), 2, "--every", "--telemetry")
        self.one_line(self.fabemu("traffic", "--telemetry", "/no/where"), 1, "--telemetry")
        self.one_line(self.fabemu("traffic", "--telemetry", "/dev/full"), 1, "snapshots")


class Metrics(FabemuCase):
    def metrics(self):
        done = self.fabemu("status", "--metrics", "u")
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

    def test_a_link_that_is_lost(self):
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

    def test_no_fabric(self):
        self.one_line(self.fabemu("status", "--metrics", "u"), 1, "u")


if __name__ == "__main__":
    main()
