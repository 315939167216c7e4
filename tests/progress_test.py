#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""progress_test - scripts/progress, which shows the progress of a command that prints to it."""
import contextlib
import os
import pathlib
import pty
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

    def test_a_bar_on_a_terminal(self):
        """The bar is drawn anew for each number, and removed at the end."""
        master, slave = pty.openpty()
        with subprocess.Popen([PROGRESS, "p"], stdin=subprocess.PIPE, stderr=slave, text=True,
                              env=dict(os.environ, TERM="vt100")) as running:
            running.communicate("[1/100]\n[25/100] cc\n[25/100]\ntext\n[100/100]\n")
        os.close(slave)
        shown = ""
        with contextlib.suppress(OSError):  # EIO is the end: no process has the terminal open
            while piece := os.read(master, 65536):  # the kernel may pass it on in pieces
                shown += piece.decode()
        os.close(master)
        self.assertEqual(shown, "".join(f"\rp [{'#' * n + '.' * (20 - n)}] {percent:3} %"
                                        for n, percent in ((0, 1), (5, 25), (20, 100))) +
                         "\r\x1b[K")

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
