#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""top_test.py - fabemu top: on a terminal of 80 columns, and as text.

    tests/cli/top_test.py --fabemu build/fabemu [unittest options]
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unittest

from cli_kit import FabemuCase, PATIENCE_S, main, until

ESCAPE = re.compile(rb"\x1b\[([?>]?)([0-9;]*)([A-Za-z@`])|\x1b[()][A-Z0-9]|\x1b[=>78DEM]")


class Screen:
    """What a terminal of the kind `vt100` shows of what is written to it."""

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
        """A line down; at the end of the region it scrolls."""
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
            # As terminals do: what was written for a larger screen ends at the edge of this one.
            self.y = min(max(self.y, 0), self.lines - 1)
            self.x = min(max(self.x, 0), self.columns - 1)


class Top(FabemuCase):
    def open(self, *options):
        """fabemu top on a terminal: its process and its screen."""
        self.master, slave = pty.openpty()
        self.resize(24, 80)
        self.screen = Screen(24, 80)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.top = subprocess.Popen(
            [self.command, "top", "--every", "100", *options, "u"], stdin=slave, stdout=slave,
            stderr=subprocess.PIPE, text=True, env=dict(self.env, TERM="vt100"),
            preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)))
        self.started.append(self.top)
        self.addCleanup(lambda: (os.close(self.master), os.close(slave)))

    def resize(self, lines, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            self.screen.feed(os.read(self.master, 65536))

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
        self.assertEqual(termios.tcgetattr(self.slave)[3], self.before[3])  # as it was: echo, lines

    def test_pages_orders_filters_and_the_end(self):
        path = self.up("u")
        self.client(path).attach(want=2)
        self.open()
        self.shows("u: kary:2,2, oq2004, clock raw", "NODE  RANK", "python", "1 of 4 nodes")
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
        self.shows("KIND", "MEMBERS", "o)rder: newest")
        self.keys("?")
        self.shows("KEYS", "any key goes back")
        self.keys("n")
        self.keys("n")
        self.shows("NODE  RANK", "python")
        self.keys("q")
        self.ended(0)

    def test_pause_holds_what_is_shown(self):
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

    def test_it_follows_the_size_and_scrolls(self):
        self.up("u", "--topo", "kary:4,2")
        self.open()
        self.shows("\n    15 ")
        self.screen.size(8, 60)
        self.resize(8, 60)
        os.kill(self.top.pid, signal.SIGWINCH)
        self.shows("u: kary:4,2", "\n     3 ", "n)odes")
        self.assertNotIn("\n     9 ", self.screen.text())
        for _ in range(12):
            self.keys("\x1bOB")  # arrow down, as a vt100 sends it
        self.shows("\n    15 ")
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
        done = self.fabemu("top", "--once", "--every", "100", "u")
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in ("fabric u: kary:2,2", "1 of 4 nodes", "python", "NODE", "LINK", "SWITCH",
                      "KIND"):
            self.assertIn(words, done.stdout)
        self.assertNotIn("\x1b", done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.split("\n"))), 80)

    def test_what_is_wrong(self):
        self.one_line(self.fabemu("top", "--once", "u"), 1, "u")
        self.one_line(self.fabemu("top", "u"), 2, "--once")
        self.one_line(self.fabemu("top", "--page", "ports", "u"), 2, "collectives")
        self.one_line(self.fabemu("top", "a", "b"), 2, "one name")


if __name__ == "__main__":
    main()
