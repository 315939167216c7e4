#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""progress_test - scripts/progress, which shows the progress of a command that prints to it."""
import pathlib
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

    def test_other_lines_are_ignored(self):
        lines = (f"[{LONG}/100]", f"[1/{LONG}]", f"[{LONG}/{LONG}]", f"{LONG}%", "200/100", "900%",
                 "7/7", "0/0", "text")
        self.assertEqual(self.shown(*lines), "")
        self.assertEqual(self.shown(*lines, "[30/100]"), "p: 30 % done\n")


if __name__ == "__main__":
    unittest.main()
