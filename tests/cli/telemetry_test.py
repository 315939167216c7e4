#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""telemetry_test.py - snapshots of a running fabric: the stream.

    tests/cli/telemetry_test.py --fabemu build/fabemu [unittest options]
"""
import unittest

from cli_kit import FabemuCase, PATIENCE_S, main, until
from telemetry_kit import View

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
        self.more(client, view, lambda view: view.states.get(cable) == [down])
        self.assertEqual(set(view.states), {cable})
        self.client(path).ask("fault_clear", fault=number)
        self.more(client, view, lambda view: view.states.get(cable) == [up])

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


if __name__ == "__main__":
    main()
