#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""top_test.py - fabemu top on a terminal of 80 columns, and its output as text (--once).

   tests/cli/top_test.py --fabemu build/fabemu [unittest options]
"""
import fcntl
import os
import pty
import random
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unittest

from cli_helpers import FabemuCase, PATIENCE_S, main, until
from helpers.fabric import FakeFabric
from helpers.seed import seed
from helpers.telemetry import View

ESCAPE = re.compile(rb"\x1b\[([?>]?)([0-9;]*)([A-Za-z@`])|\x1b[()][A-Z0-9]|\x1b[=>78DEM]")


class Screen:
    """The screen of a `vt100` terminal after all that was written to it."""

    def __init__(self, lines, columns):
        self.size(lines, columns)
        self.pending = b""

    def size(self, lines, columns):
        self.lines, self.columns, self.y, self.x = lines, columns, 0, 0
        self.cells = [[" "] * columns for _ in range(lines)]
        self.region = (0, lines - 1)

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.cells)

    def feed(self, data):
        data, self.pending, at = self.pending + data, b"", 0
        while at < len(data):
            if data[at] == 0x1b:
                match = ESCAPE.match(data, at)
                if not match:
                    self.pending = data[at:]
                    return
                if match[3]:
                    self.command(match[3], [int(n or 0) for n in match[2].split(b";")])
                elif match[0] == b"\x1bM":
                    self.back()
                at = match.end()
                continue
            self.character(data[at])
            at += 1

    def forth(self):
        """One line down; scrolls at the end of the region."""
        if self.y == self.region[1]:
            del self.cells[self.region[0]]
            self.cells.insert(self.y, [" "] * self.columns)
        else:
            self.y = min(self.y + 1, self.lines - 1)

    def back(self):
        if self.y == self.region[0]:
            del self.cells[self.region[1]]
            self.cells.insert(self.y, [" "] * self.columns)
        else:
            self.y = max(self.y - 1, 0)

    def character(self, byte):
        if byte == 13:
            self.x = 0
        elif byte == 10:
            self.forth()
        elif byte == 8:
            self.x = max(self.x - 1, 0)
        elif byte == 9:
            self.x = min(self.x // 8 * 8 + 8, self.columns - 1)
        elif 32 <= byte < 127:
            self.cells[self.y][self.x] = chr(byte)
            self.x = min(self.x + 1, self.columns - 1)

    def command(self, what, numbers):
        first = max(numbers[0], 1)
        if what == b"H":
            self.y = min(first, self.lines) - 1
            self.x = min(numbers[1] if len(numbers) > 1 and numbers[1] else 1, self.columns) - 1
        elif what == b"J":
            for y in range(self.y if not numbers[0] else 0, self.lines):
                begin = self.x if y == self.y and not numbers[0] else 0
                self.cells[y][begin:] = [" "] * (self.columns - begin)
        elif what == b"r":
            last = numbers[1] if len(numbers) > 1 else self.lines
            self.region = (first - 1, last - 1)
            self.y = self.x = 0
        elif what == b"K" and numbers[0] == 1:
            self.cells[self.y][:self.x + 1] = [" "] * (self.x + 1)
        elif what == b"K":
            self.cells[self.y][self.x:] = [" "] * (self.columns - self.x)
        elif what in b"ABCD":
            self.y += {b"A": -first, b"B": first}.get(what, 0)
            self.x += {b"C": first, b"D": -first}.get(what, 0)
            # As on real terminals, output for a larger screen is clipped to this one.
            self.y = min(max(self.y, 0), self.lines - 1)
            self.x = min(max(self.x, 0), self.columns - 1)


class OnTerminal(FabemuCase):
    def open(self, *options, columns=80, **environment):
        """fabemu top on a terminal: its process and its screen."""
        self.master, slave = pty.openpty()
        self.resize(24, columns)
        self.screen = Screen(24, columns)
        self.bytes = b""
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.top = subprocess.Popen(
            [self.command, "top", "--every", "100ms", *options, "u"], stdin=slave, stdout=slave,
            stderr=subprocess.PIPE, text=True, env={**self.env, "TERM": "vt100", **environment},
            preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)))
        self.started.append(self.top)
        self.addCleanup(lambda: (os.close(self.master), os.close(slave)))

    def resize(self, lines, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            data = os.read(self.master, 65536)
            self.bytes += data
            self.screen.feed(data)

    def shows(self, *words):
        """Wait until all of @words are on the screen; returns it."""
        end = time.monotonic() + PATIENCE_S
        while not all(word in self.screen.text() for word in words):
            self.assertLess(time.monotonic(), end, f"{words} in:\n{self.screen.text()}")
            self.read(0.1)
        return self.screen.text()

    def hides(self, word):
        self.assertTrue(until(lambda: self.read(0.05) or word not in self.screen.text()),
                        f"{word} in:\n{self.screen.text()}")

    def keys(self, text):
        os.write(self.master, text.encode())

    def ended(self, code, *words):
        until(lambda: self.read(0.02) or self.top.poll() is not None)
        self.assertEqual(self.top.poll(), code)
        error = self.top.stderr.read()
        for word in words:
            self.assertIn(word, error)
        self.assertEqual(termios.tcgetattr(self.slave)[3], self.before[3])  # restored: echo, lines


class Top(OnTerminal):
    def test_pages_orders_filters_and_quit(self):
        path = self.up("u")
        self.client(path).attach(want=2)
        self.open()
        self.shows("u: nodes  kary:2,2, oq2004, clock raw", "NODE  RANK", "python", "1 of 4 nodes")
        self.keys("l")
        self.shows("LINK", "switch 0:0 - node 0:0", "o)rder: traffic")
        self.keys("oo")
        self.shows("o)rder: errors")
        self.keys("/switch 3:1\r")
        self.hides("node 0:0")
        self.shows("switch 3:1", "1 of 1")
        self.keys("/\x1b")
        self.shows("node 0:0")
        self.keys("s")
        self.shows("SWITCH LEVEL", "STATES")
        self.keys("c")
        self.shows("KIND", "DONE BY", "o)rder: newest")
        self.keys("?")
        self.shows("KEYS (press any key to go back)")
        self.keys("n")
        self.keys("n")
        self.shows("NODE  RANK", "python")
        self.keys("q")
        self.ended(0)

    def test_pause_freezes_the_screen(self):
        path = self.up("u")
        self.open()
        self.shows("0 of 4 nodes")
        self.keys("p")
        self.shows("PAUSED")
        self.client(path).attach()
        until(lambda: self.status("u")["attached"])
        for _ in range(5):
            self.read(0.1)
        self.assertIn("0 of 4 nodes", self.screen.text())
        self.keys("p")
        self.shows("1 of 4 nodes")
        self.assertNotIn("PAUSED", self.screen.text())
        self.keys("q")
        self.ended(0)

    def test_resizes_and_scrolls(self):
        self.up("u", "--topo", "kary:4,2")
        self.open()
        self.shows("\n   15 ")
        self.screen.size(8, 60)
        self.resize(8, 60)
        os.kill(self.top.pid, signal.SIGWINCH)
        self.shows("u: nodes  kary:4,2", "\n    3 ", "cut at 60 of 80 columns")
        self.assertNotIn("\n    9 ", self.screen.text())
        for _ in range(12):
            self.keys("\x1bOB")  # arrow down, as a vt100 sends it
        self.shows("\n   15 ")
        self.assertTrue(all(len(line) <= 60 for line in self.screen.text().split("\n")))
        os.kill(self.top.pid, signal.SIGINT)
        self.ended(0)

    def test_the_fabric_ends(self):
        self.up("u")
        self.open()
        self.shows("0 of 4 nodes")
        self.fabemu("down", "u")
        self.ended(0, "fabric 'u' has ended")

    def test_once_is_text_of_80_columns(self):
        path = self.up("u")
        self.client(path).attach(want=1)
        done = self.fabemu("top", "--once", "--every", "100ms", "u")
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in ("fabric u: kary:2,2", "1 of 4 nodes", "python", "NODE", "LINK", "SWITCH",
                      "KIND"):
            self.assertIn(words, done.stdout)
        self.assertNotIn("\x1b", done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.split("\n"))), 80)

    def test_once__counts_have_groups_of_three_digits(self):
        self.assertEqual(self.fabemu("up", "--topo", "kary:32,2", "u").returncode, 0)
        done = self.fabemu("top", "--once", "--every", "100ms", "u")
        self.assertRegex(done.stdout, r"\n0 of 1,\d{3} nodes ")
        self.assertRegex(done.stdout, r"\n\([12],\d{3} more\)\n")

    def test_once_prints_a_named_page_only(self):
        self.up("u", "--set", "link_retry=go_back_n")
        done = self.fabemu("top", "--once", "--page", "links", "--every", "100ms", "u")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("\nLINK ", done.stdout)
        for words in ("NODE", "\nSWITCH", "KIND"):
            self.assertNotIn(words, done.stdout)
        self.assertIn("profile oq2004 with link_retry=go_back_n,", done.stdout)

    def test_errors(self):
        self.one_line(self.fabemu("top", "--once", "u"), 1, "u")
        self.one_line(self.fabemu("top", "u"), 2, "--once")
        self.one_line(self.fabemu("top", "--page", "ports", "u"), 2, "collectives")
        self.one_line(self.fabemu("top", "a", "b"), 2, "one name")


# Four switches with four nodes each, below four others; two cables have names of two digits.
KINDS = ["nothing", "send", "receive", "put", "get", "atomic", "barrier", "broadcast", "reduce",
         "allreduce"]
SHAPE = {
    "event": "telemetry_shape", "version": 1, "name": "played", "topo": "kary:4,2", "nodes": 16,
    "profile": "oq2004", "clock": "raw", "every_ns": 10**9, "levels": 2, "ports": 8,
    "link_bytes_per_s": 10**9, "segment_bytes": 256, "queue": "segments", "combines": "switches",
    "link_states": ["up", "testing", "out", "down"], "wait_kinds": KINDS,
    "switches": [[0, s, 4 * s, 4 * s + 3] for s in range(4)] + [[1, s, 0, 15] for s in range(4)],
    "cables": [[n // 4, n % 4, 0, n, 0, 0] for n in range(16)] +
              [[s, 4 + top, 1, 4 + top, s, 0] for s in range(4) for top in range(4)]}
UP, DOWN = "\x1bOA", "\x1bOB"  # arrows, as a vt100 sends them


def short(number):
    """As in a column of six: six digits are shown as thousands."""
    return f"{number:,}" if number < 10**5 else f"{(number + 500) // 1000}k"


class Sorted(OnTerminal):
    """The order of rows and their content, against counters that the test invents."""

    def setUp(self):
        super().setUp()
        self.random = random.Random(seed())
        self.fabric = FakeFabric(self.socket_path("u"))
        self.addCleanup(self.fabric.listener.close)

    def few(self, count, most, zeros=0):
        """Distinct numbers and zeros, in any order."""
        ret = self.random.sample(range(1, most), count - zeros) + [0] * zeros
        self.random.shuffle(ret)
        return ret

    def snapshot(self, look, before=None):
        """A full snapshot @look seconds after the start; no counter is less than in the one
        before."""
        def grown(name, counters, rows):  # the first @counters columns only grow
            old = before[name] if before else [[0] * 9] * len(rows)
            return [[part, *(value + (was if i < counters else 0)
                             for i, (value, was) in enumerate(zip(row, old[part][1:])))]
                    for part, row in enumerate(rows)]
        ways, stalls, queue, errors = (self.few(64, most, zeros) for most, zeros in (
            (40000, 10), (9000, 20), (900, 30), (60, 40)))
        links = list(zip(ways, stalls, queue, errors))
        work = list(zip(self.few(8, 4000, 2), self.few(8, 500), self.few(8, 500),
                        self.few(8, 90)))
        nodes = list(zip(self.few(16, 40000, 3), self.few(16, 40000, 3), self.few(16, 500),
                         self.few(16, 500), [0] * 16))
        return {
            "event": "telemetry", "sample": look, "since": look - 1, "at_ns": look * 10**9,
            "skipped": 0, "totals": {"hops": 1000 * look, "credit_stalls": 50 * look},
            "collectives": [[0, 0]] * 11, "finished_count": 0, "finished_missed": 0,
            "links": grown("links", 2, links),
            "states": [[3, 3, 1], [20, 1, 2], [9, 0, 4]],
            "switches": grown("switches", 3, work),
            "nodes": grown("nodes", 2, nodes),
            "processes": [{"node": n, "pid": 1000 + n, "rank": 15 - n, "command": "p" * (n + 1)}
                          for n in range(15)],
            "waits": [[5, 2, 11, -1, 8, 10**9], [7, 9, -1, 65537, 8, 0], [8, 2, -1, -1, 8, 0]],
            "finished": [[65537, i, 6 + i % 4, 8 * i, 4, 10**7 * (90 + ended - took),
                          10**7 * (90 + ended)]
                         for i, (ended, took) in enumerate(zip(self.few(12, 90),
                                                               self.few(12, 90)))]}

    def play(self, **changes):
        """A terminal that shows two snapshots: the last values and the increases."""
        self.open()
        stream = self.fabric.next()
        self.first = self.snapshot(1)
        self.last = {**self.snapshot(2, self.first), **changes.pop("last", {})}
        self.fabric.say(stream, {"ok": True}, {**SHAPE, **changes}, self.first, self.last)
        self.shows("up 2.0 s")
        self.now, self.was = View(SHAPE), View(SHAPE)
        self.now.take(self.last)
        self.was.take(self.first)

    def grew(self, name, part, i):
        return getattr(self.now, name)[part][i] - getattr(self.was, name)[part][i]

    def rows(self):
        """The lines of the table that are on the screen."""
        return [line for line in self.screen.text().split("\n")[3:-1] if line]

    def check_order(self, order, number_of, wanted):
        """Wait until the order is shown and rows are in this order, as far as they fit."""
        self.shows(f"o)rder: {order}")
        self.check_rows(number_of, wanted)

    def check_rows(self, number_of, wanted):
        room = self.screen.lines - 4

        def numbers():
            self.read(0.05)
            try:
                return [number_of(row) for row in self.rows()]
            except (IndexError, TypeError, ValueError):
                return None  # it is half drawn
        until(lambda: numbers() == wanted[:room])
        self.assertEqual(numbers(), wanted[:room])

    def by(self, key, parts):
        """Largest first, then by number."""
        return sorted(parts, key=lambda part: (-key(part), part))

    def link_of(self, row):
        match = re.match(r"switch (\d+):(\d+) - ", row)
        return [cable[:2] for cable in SHAPE["cables"]].index([int(match[1]), int(match[2])])

    def orders_of_links(self):
        both = lambda name, i, c: name(2 * c, i) + name(2 * c + 1, i)  # noqa: E731
        grew = lambda way, i: self.grew("links", way, i)  # noqa: E731
        is_ = lambda way, i: self.now.links[way][i]  # noqa: E731
        states = self.now.states
        return {
            "traffic": lambda c: both(grew, 0, c),
            "stalls": lambda c: both(grew, 1, c) + both(is_, 2, c),
            "errors": lambda c: (states.get(c, [0])[0] * 10**6 + states.get(c, [0, 0])[1] +
                                 both(is_, 3, c)),
            "number": lambda c: 0}

    def test_links_by_each_order__with_their_values(self):
        self.play()
        self.keys("l")
        for order, key in self.orders_of_links().items():
            self.check_order(order, self.link_of, self.by(key, range(32)))
            self.keys("o")
        self.shows("o)rder: traffic")  # and the first one again
        self.screen.size(40, 80)
        self.resize(40, 80)
        os.kill(self.top.pid, signal.SIGWINCH)
        self.check_order("traffic", self.link_of,
                         self.by(self.orders_of_links()["traffic"], range(32)))
        for row in self.rows():
            c = self.link_of(row)
            state, outs = self.now.states.get(c, [0, 0])
            grew = [[self.grew("links", 2 * c + way, i) for way in (1, 0)] for i in (0, 1)]
            is_ = [sum(self.now.links[2 * c + way][i] for way in (0, 1)) for i in (2, 3)]
            self.assertEqual(row.split()[-7:], [
                SHAPE["link_states"][state], *map(short, (*grew[0], sum(grew[1]), *is_, outs))])
        self.keys("q")
        self.ended(0)

    def test_nodes_switches_and_collectives_by_each_order(self):
        self.play()
        grew = lambda name, i: lambda part: self.grew(name, part, i)  # noqa: E731
        first = lambda row: int(row.split()[0])  # noqa: E731
        waits = {row[0] for row in self.last["waits"]}
        nodes = {"traffic": lambda n: grew("nodes", 0)(n) + grew("nodes", 1)(n),
                 "waiting": lambda n: n in waits and 1 + sum(self.now.nodes[n][2:4]),
                 "number": lambda n: 0}
        out = {s: [2 * c + 1 for c, cable in enumerate(SHAPE["cables"]) if cable[0] == s] +
                  [2 * c for c, cable in enumerate(SHAPE["cables"]) if cable[2] and cable[3] == s]
               for s in range(8)}
        switches = {
            "traffic": lambda s: sum(self.grew("links", way, 0) for way in out[s]),
            "stalls": lambda s: sum(self.grew("links", way, 1) + self.now.links[way][2]
                                     for way in out[s]),
            "combining": lambda s: grew("switches", 0)(s) + self.now.switches[s][3] / 1000,
            "number": lambda s: 0}
        done = {row[1]: row[5:] for row in self.last["finished"]}
        collectives = {"newest": lambda i: done[i][1], "slowest": lambda i: done[i][1] - done[i][0]}
        for page, orders, parts, number_of in (
                ("n", nodes, range(16), first), ("s", switches, range(8), first),
                ("c", collectives, done, lambda row: int(row.split()[2]))):
            self.keys(page)
            for order, key in orders.items():
                self.check_order(order, number_of, self.by(key, parts))
                self.keys("o")
        self.keys("s")
        self.check_order("traffic", first, self.by(switches["traffic"], range(8)))
        for row in self.rows():
            s, level, *cells = row.split()
            s = int(s)
            self.assertEqual(int(level), SHAPE["switches"][s][0])
            self.assertEqual(cells, [short(number) for number in (
                switches["traffic"](s), sum(self.grew("links", way, 1) for way in out[s]),
                sum(self.now.links[way][2] for way in out[s]),
                *(self.grew("switches", s, i) for i in range(3)), self.now.switches[s][3])])
        self.keys("q")
        self.ended(0)

    def test_filter__busy_rows__and_scrolling(self):
        self.play()
        traffic = self.by(self.orders_of_links()["traffic"], range(32))
        self.keys("l/switch 5:x\x7f")
        there = [c for c in traffic if "switch 5:" in
                 "switch {0}:{1} - {2} {3}:{4}".format(*SHAPE["cables"][c][:2], "switch" if
                                                       SHAPE["cables"][c][2] else "node",
                                                       *SHAPE["cables"][c][3:5])]
        self.shows(f"/switch 5:_  1 of {len(there)}")
        self.check_rows(self.link_of, there)
        self.keys("\r/none\r")
        self.shows("/switch 5:none  0 of 0")
        self.keys("/\x1b")
        self.check_order("traffic", self.link_of, traffic)
        for _ in range(5):
            self.keys(DOWN)
        self.check_order("traffic", self.link_of, traffic[5:25])
        self.keys(UP)
        self.check_order("traffic", self.link_of, traffic[4:24])
        self.keys("nb/rec\r")  # nodes: idle ones are not shown
        busy = [n for n in range(16) if n in {5, 7, 8} or
                any(self.grew("nodes", n, i) for i in (0, 1))]
        self.shows("/rec", "1 of 2")
        self.keys("/\x1b/pppppppppppppp\r")  # also the hidden part of a command
        there = {13, 14} & set(busy)
        self.shows("pppp ", f"{min(len(there), 1)} of {len(there)}")
        self.keys("/\x1b")
        self.shows("traffic BUSY")
        key = lambda n: self.grew("nodes", n, 0) + self.grew("nodes", n, 1)  # noqa: E731
        self.check_rows(lambda row: int(row.split()[0]), self.by(key, busy))
        self.keys("q")
        self.ended(0)

    def waits_for(self):
        """For each node with a row: its wait as shown in 80 columns."""
        at = self.screen.text().split("\n")[2].index("WAITS FOR")
        return {int(row.split()[0]): row[at:] for row in self.rows()}

    def test_waits_are_shown_within_80_columns(self):
        self.play()
        self.keys("oo")
        self.shows("o)rder: number")
        said = self.waits_for()
        self.assertEqual((said[5], said[8]), ("receive 11, 1.00 s", "receive, 2.00 s"))
        self.assertEqual(said[7], "allreduce 65537, 2.00 s")
        self.assertEqual([n for n, text in said.items() if text], [5, 7, 8])
        self.assertLessEqual(max(map(len, self.screen.text().split("\n"))), 80)
        self.keys("q")
        self.ended(0)

    def test_names_of_the_file__stand_in_place_of_numbers(self):
        """A long name is cut at its beginning; a filter finds it by any part."""
        names = [*(f"leaf{s}" for s in range(4)), *(f"spine{s}" for s in range(4)),
                 *(f"rack-17-node{n:02}" for n in range(16))]
        self.play(names=names)
        self.shows("NODE        RANK", "\n~17-node15  ", "receive ~17-node11")
        self.keys("/rack-17-node11\r")
        self.shows("1 of 1", "~17-node11")
        self.keys("/\x1b" + "looo")
        self.shows("o)rder: number", "\nleaf3:3 - ~17-node15:0 ", "\nleaf0:4 - spine0:0 ")
        self.keys("s")
        self.shows("\nSWITCH     LEVEL", "\nspine3         1 ")
        self.assertLessEqual(max(map(len, self.screen.text().split("\n"))), 80)
        self.keys("q")
        self.ended(0)

    def test_a_wide_screen__has_bars_in_proportion(self):
        self.play()
        self.screen.size(24, 120)
        self.resize(24, 120)
        os.kill(self.top.pid, signal.SIGWINCH)
        self.keys("s")
        self.shows("SWITCH LEVEL", " segments/s")
        hops = {s: sum(self.grew("links", 2 * c + (cable[0] == s), 0)
                       for c, cable in enumerate(SHAPE["cables"])
                       if cable[0] == s or (cable[2] and cable[3] == s)) for s in range(8)}
        room = 120 - 84

        def bars():
            self.read(0.05)
            found = {int(row.split()[0]): re.search(r" \[(\|*) *\]$", row) for row in self.rows()}
            return {s: len(bar[1]) if bar else None for s, bar in found.items()}
        wanted = {s: int(hops[s] / max(hops.values()) * room + 0.5) for s in hops}
        until(lambda: bars() == wanted)
        self.assertEqual(bars(), wanted)
        self.keys("q")
        self.ended(0)

    def test_a_long_path_of_the_network__is_cut_at_its_beginning(self):
        self.play(topo="/long path" * 9 + "/ibnetdiscover.txt")
        self.shows("path/ibnetdiscover.txt, oq2004, clock raw, up 2.0 s\n")
        self.assertRegex(self.screen.text(), "^played: nodes  ~")
        self.keys("q")
        self.ended(0)

    def test_a_narrow_screen__says_that_rows_are_cut(self):
        self.play()
        for _ in range(20):  # the signal arrives at any point of the loop that draws
            for columns, foot in ((40, "cut at 40 of 80 columns  ? q)uit"), (80, "n)odes l)inks ")):
                self.screen.size(24, columns)
                self.resize(24, columns)
                os.kill(self.top.pid, signal.SIGWINCH)
                self.shows(foot)
        self.keys("q")
        self.ended(0)

    def colours(self, **environment):
        """The bytes that a terminal with colours gets for one snapshot. Port 1 of switch 1 is
        saturated, port 2 of switch 1 has traffic, and port 3 of switch 0 is down."""
        self.open("--page", "links", columns=120, TERM="xterm", **environment)  # with bars
        links = [[way, 0, 0, 0, 0] for way in range(64)]
        links[11], links[13] = [11, 10**6, 10**6, 9, 0], [13, 10**6, 0, 0, 0]
        self.fabric.say(self.fabric.next(), {"ok": True}, SHAPE,
                        {**self.snapshot(1), "links": links})
        self.assertTrue(until(lambda: self.read(0.1) or b"o)rder" in self.bytes), self.bytes)
        self.keys("q")
        self.ended(0)
        return self.bytes

    def test_colours__show_what_waits_and_what_is_wrong(self):
        """A row is yellow if segments wait, and red if the link is down; else only its bar is
        coloured."""
        shown = self.colours()
        self.assertRegex(shown, rb"\x1b\[33mswitch 1:1 - node 5:0")
        self.assertRegex(shown, rb"\x1b\[31mswitch 0:3 - node 3:0")
        self.assertRegex(shown, rb"[^m]switch 1:2 - node 6:0[^\n]*\[\x1b\[32m\|")

    def test_colours__are_off_with_no_color(self):
        shown = self.colours(NO_COLOR="1")
        self.assertIn(b"switch 1:1 - node 5:0", shown)
        self.assertNotRegex(shown, rb"\x1b\[[0-9;]*[34][0-9]m")

    def test_pause_before_the_first_snapshot__waits_for_it(self):
        self.open()
        stream = self.fabric.next()
        self.fabric.say(stream, {"ok": True})
        until(lambda: not termios.tcgetattr(self.slave)[3] & termios.ICANON)
        self.keys("cp")
        # top reads keys before it reads the lines that arrive later
        self.assertTrue(until(lambda: struct.unpack("i", fcntl.ioctl(
            self.slave, termios.FIONREAD, b"0000"))[0] == 0))
        self.fabric.say(stream, SHAPE, self.snapshot(1))
        self.shows("KIND", "up 1.0 s")
        self.assertNotIn("PAUSED", self.screen.text())
        self.keys("q")
        self.ended(0)

    def test_once__prints_no_control_characters(self):
        """A fabric that lies cannot change the state of the terminal."""
        evil = "\x1b[2J\x07\u009b31m\x7f"
        shape = {**SHAPE, "name": evil, "topo": evil, "profile": evil,
                 "names": [evil] * 24, "wait_kinds": [evil] * 20, "link_states": [evil] * 5,
                 "origin": {"settings": {evil: 1, "a": evil}}}
        snapshot = self.snapshot(1)
        for process in snapshot["processes"]:
            process["command"] = evil
        top = subprocess.Popen([self.command, "top", "--once", "u"], stdout=subprocess.PIPE,
                               env=self.env)
        self.started.append(top)
        self.fabric.say(self.fabric.next(), {"ok": True}, shape, snapshot,
                        {**snapshot, "sample": 2, "at_ns": 2 * 10**9})
        out = top.communicate(timeout=PATIENCE_S)[0].decode()
        self.assertEqual(top.returncode, 0, out)
        self.assertIn("?[2J???31m?", out)
        self.assertFalse([c for c in out if c != "\n" and not c.isprintable()])

    def test_status__prints_no_control_characters(self):
        evil = "\x1b]0;lie\x07"
        self.fabric.replies["status"] = {
            "ok": True, "name": evil, "attached": [{"node": 1, "pid": 1, "command": evil}],
            "report": {"topo": evil, "profile": {"name": evil}, "clock": {"mode": evil}}}
        self.fabric.replies["check"] = {"ok": False, "error": evil + "\u009b"}
        done = self.fabemu("status", "u")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("?]0;lie?", done.stdout)
        checked = self.fabemu("check", "u")
        self.assertIn("?]0;lie???", checked.stderr)
        for text in (done.stdout, checked.stderr):
            self.assertFalse([c for c in text if c != "\n" and not c.isprintable()], text)

    def test_in_simulated_time__times_are_simulated(self):
        """All times are in ps there."""
        self.play(clock="virtual", last={
            "at_ps": 2 * 10**12, "finished": [[1, 1, 6, 8, 4, 10**12, 1500 * 10**9]],
            "waits": [[5, 2, 11, -1, 8, 10**12]]})
        self.keys("oo")
        self.shows("receive 11, 1.00 s")
        self.keys("c")
        self.shows("TOOK/us", "SINCE START/s", "500,000.0", "1.500")
        self.keys("q")
        self.ended(0)


if __name__ == "__main__":
    main()
