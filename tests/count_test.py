#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""count_test - scripts/count, which counts the results of scripts/test: skipped is not passed."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

COUNT = pathlib.Path(__file__).resolve().parent.parent / "scripts" / "count"
SIDE_BY_SIDE = f"""
import sys, unittest
sys.path.insert(0, {str(pathlib.Path(__file__).resolve().parent / "cli")!r})
from cli_helpers import main
class A(unittest.TestCase):
    def test_a(self):
        pass
    @unittest.skip("no wire")
    def test_b(self):
        pass
main(jobs=2, alone=False)
"""
CUNIT = """
  Test: a ...passed
  Test: b ...
    SKIPPED: no wire
    passed
               tests      {0}      {0}      {0}      0        0
"""
UNITTEST = """test_a (__main__.A.test_a) ... ok
test_b (__main__.A.test_b)
What it shows. ... skipped 'SKIPPED: no shark'
----------------------------------------------------------------------
Ran 2 tests in 0.176s

OK (skipped=1)
"""
ALL_SKIPPED = """test_a (__main__.A.test_a) ... skipped "needs 'root'"
Ran 1 test in 0.001s

OK (skipped=1)
"""


class Count(unittest.TestCase):
    def ask(self, *words, **files):
        """The output of count for @words, where the names of files are filled in."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                pathlib.Path(folder, name).write_text(text)
            words = [str(pathlib.Path(folder, word)) if word in files else word for word in words]
            return subprocess.run([sys.executable, str(COUNT), *words], check=True, text=True,
                                  capture_output=True).stdout

    def log(self, text, status="0"):
        return self.ask("log", status, log=text).split()

    def suite(self, *tests):
        """Programs of a suite: (result, standard output, standard error)."""
        lines = [json.dumps({"name": f"t{i}", "result": result, "stdout": out, "stderr": err})
                 for i, (result, out, err) in enumerate(tests)]
        return "\n".join(lines) + "\n"

    def counted(self, *tests):
        text = self.suite(*tests)
        return self.ask("log", "0", "testlog", log="", testlog=text).split()

    def test_own_line__counts(self):
        self.assertEqual(self.log("a: 3 checks passed, 0 failed; seed 4\n"), ["3", "0", "0"])
        self.assertEqual(self.log("a: SKIPPED: x: no wire\na: 3 checks passed, 0 failed\n"),
                         ["3", "0", "1"])
        self.assertEqual(self.log("a: 3 checks passed, 2 failed\n", "1"), ["3", "2", "0"])

    def test_all_skipped__is_neither_passed_nor_failed(self):
        self.assertEqual(self.log("a: SKIPPED: all: no root\n", "77"), ["0", "0", "1"])
        self.assertEqual(self.log("no root\n", "77"), ["0", "0", "1"])

    def test_bad_exit__is_a_failure(self):
        self.assertEqual(self.log("a: 3 checks passed, 0 failed\n", "124"), ["3", "1", "0"])
        self.assertEqual(self.log("", "1"), ["0", "1", "0"])

    def test_cunit__cases_that_are_skipped_have_not_passed(self):
        self.assertEqual(self.counted(("OK", CUNIT.format(5), "")), ["4", "0", "1"])

    def test_unittest__programs_of_skipped_tests_have_not_passed(self):
        self.assertEqual(self.counted(("OK", "", UNITTEST)), ["1", "0", "1"])
        self.assertEqual(self.counted(("OK", "", UNITTEST), ("OK", "", ALL_SKIPPED)),
                         ["1", "0", "2"])

    def test_unittest__tests_that_are_skipped_side_by_side_have_not_passed(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "p_test.py")
            program.write_text(SIDE_BY_SIDE)
            out = subprocess.run([sys.executable, str(program), "--fabemu", sys.executable],
                                 check=True, text=True, capture_output=True).stdout
        self.assertEqual(self.counted(("OK", out, "")), ["1", "0", "1"])

    def test_skipped_program__is_counted_as_skipped(self):
        self.assertEqual(self.counted(("OK", "", ""), ("SKIP", "no root", "")), ["1", "0", "1"])

    def test_skipped__are_named_with_the_reason(self):
        text = self.suite(("OK", CUNIT.format(5), ""), ("OK", "", UNITTEST),
                          ("SKIP", "no\nroot", ""))
        self.assertEqual(self.ask("--skipped", "log", "testlog", log="", testlog=text),
                         "test: SKIPPED: t0: no wire\ntest: SKIPPED: t1: no shark\n"
                         "test: SKIPPED: t2: no root\n")
        self.assertEqual(self.ask("--skipped", "log", log="a: SKIPPED: x: y\na: SKIPPED: x: y\n"),
                         "test: SKIPPED: log: x: y (2 times)\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
