#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""progress_test - scripts/progress, which shows the progress of a command that prints to it."""
import contextlib
import os
import pathlib
import pty
import re
import select
import subprocess
import unittest

PROGRESS = pathlib.Path(__file__).resolve().parent.parent / "scripts" / "progress"
LONG = "9" * 23


class Progress(unittest.TestCase):
    def shown(self, *lines):
        """The output of progress for @lines."""
        done = subprocess.run([PROGRESS, "p"], input="".join(line + "\n" for line in lines),
                              text=True, capture_output=True, check=True)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_each_quarter_is_shown(self):
        self.assertEqual(self.shown("[1/100]", "[025/100]", "[26/100] cc", "[80/100]"),
                         "p: 25 % done\np: 80 % done\n")
        self.assertEqual(self.shown("x 50.08%", "100%"), "p: 50 % done\np: 100 % done\n")

    @contextlib.contextmanager
    def on_a_terminal(self, **environment):
        """Yields a running progress on a terminal, and a function that reads the terminal until it
        has shown a text or, without one, until its end. It returns all that was shown."""
        master, slave = pty.openpty()
        shown = ""

        def read(text=None):
            nonlocal shown
            with contextlib.suppress(OSError):  # EIO is the end: no process has the terminal open
                while ((not text or text not in shown) and
                       select.select([master], [], [], 20)[0]):  # empty: nothing came for 20 s
                    shown += os.read(master, 65536).decode()  # the kernel may pass it on in pieces
            return shown

        with subprocess.Popen([PROGRESS, "p"], stdin=subprocess.PIPE, stderr=slave, text=True,
                              env=dict(os.environ, TERM="vt100", **environment)) as running:
            os.close(slave)
            yield running, read
        os.close(master)

    @staticmethod
    def bar(percent, text=""):
        return f"\rp [{'#' * (percent // 5):.<20}] {percent:3} %{text}\x1b[K"

    def test_a_bar_on_a_terminal(self):
        """The bar is drawn anew for each number, and removed at the end."""
        with self.on_a_terminal(PROGRESS_SECONDS="1000") as (running, read):
            running.communicate("[1/100]\n[25/100] cc\n[25/100]\ntext\n[100/100]\n")
            self.assertEqual(read(), self.bar(1) + self.bar(25) + self.bar(100) + "\r\x1b[K")

    def test_a_bar_that_stands_still_has_the_time(self):
        with self.on_a_terminal(PROGRESS_SECONDS="1") as (running, read):
            running.stdin.write("[1/100]\n")
            running.stdin.flush()
            self.assertIn(self.bar(1), read("so far"))
            running.communicate("[25/100]\n")
            bars = re.sub(r"\b\d+ s so far", "N s so far", read())
            self.assertIn(self.bar(1, ", N s so far") + self.bar(25), bars)

    def test_other_lines_are_ignored(self):
        lines = (f"[{LONG}/100]", f"[1/{LONG}]", f"[{LONG}/{LONG}]", f"{LONG}%", "200/100", "900%",
                 "7/7", "0/0", "text")
        self.assertEqual(self.shown(*lines), "")
        self.assertEqual(self.shown(*lines, "[30/100]"), "p: 30 % done\n")

    def test_a_line_after_a_silence(self):
        environment = dict(os.environ, PROGRESS_SECONDS="1")
        with subprocess.Popen([PROGRESS, "p"], stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, bufsize=1, env=environment) as running:
            self.assertRegex(running.stderr.readline(), r"^p: \d+ s so far$")
            running.stdin.write("[30/1")  # a part of a line
            running.stdin.flush()
            self.assertRegex(running.stderr.readline(), r"^p: \d+ s so far$")
            running.stdin.write("00]\n")
            lines = [running.stderr.readline() for _ in range(3)]
            self.assertIn("p: 30 % done\n", lines)
            self.assertRegex(lines[-1], r"^p: 30 % done, \d+ s so far$")
            running.stdin.close()


if __name__ == "__main__":
    unittest.main()
