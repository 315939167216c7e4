#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""fault_test.py - fabemu fault: the lists, the dry run, and its errors.

    tests/cli/fault_test.py --fabemu build/fabemu [unittest options]
"""
import os
import re

from cli_kit import FabemuCase, main

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "faults.md")


class FaultTest(FabemuCase):
    def good(self, *args):
        """What a command that works prints."""
        done = self.fabemu("fault", *args)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def page(self):
        """The page on faults."""
        with open(DOCS, encoding="utf-8") as f:
            return f.read()

    def lists(self):
        """The names of faults, and of scenarios, that --list has."""
        kinds, scenarios = self.good("--list").split("scenarios\n")
        return [[line.split()[0] for line in part.splitlines() if line.startswith("  ")]
                for part in (kinds, scenarios)]

    def write(self, text):
        path = os.path.join(self.dir, "my.faults")
        with open(path, "w", newline="") as f:
            f.write(text)
        return path

    def test_list__has_all_that_the_page_has(self):
        kinds, scenarios = self.lists()
        self.assertEqual(len(kinds), 20)
        self.assertIn("flap", scenarios)
        page, built_in = self.page().split("## Scenarios")
        rows = re.compile(r"^\| `([a-z-]+)` \|", re.M)
        self.assertEqual(rows.findall(page.split("## Kinds")[1].split("## Which")[0]), kinds)
        self.assertEqual(rows.findall(built_in), scenarios)

    def test_show__is_a_schedule(self):
        for name in self.lists()[1]:
            with self.subTest(name=name):
                path = self.write(self.good("--show", name))
                over = ("--topo", "qsnet:256", "--set", "combining=switch")
                shown, built_in = (self.good("--check", what, *over).split("\n", 1)
                                   for what in (path, name))
                self.assertEqual(shown[1], built_in[1])
                self.assertIn("dry run", shown[0])

    def test_check__prints_what_it_reads(self):
        for over in ("kary:4,2", "kary:3,3"):
            out = self.good("--check", "flap", "--topo", over)
            again = self.good("--check", self.write(out.replace("\n", "\r\n")), "--topo", over)
            self.assertEqual(out.split("\n", 1)[1], again.split("\n", 1)[1])

    def test_check__draws_by_the_seed(self):
        drawn = {self.good("--check", "cut-link", "--topo", "kary:4,3",
                           "--seed", str(seed)).split("\n", 1)[1]
                 for seed in range(20)}
        self.assertGreater(len(drawn), 10)
        self.assertEqual(self.good("--check", "cut-link", "--seed", "5"),
                         self.good("--check", "cut-link", "--seed", "5"))

    def test_check__names_cables_switches_and_nodes(self):
        out = self.good("--check",
                        self.write("link-down link=0:1>\nlink-down link=0:4\nlink-down link=4:0<\n"
                                   "switch-crash switch=7\nnode-kill nodes=3-5"),
                        "--topo", "kary:4,2")
        for words in ("1 cable: 0:1->n1:0\n", "1 cable: 0:4-4:0\n", "1 cable: 4:0<-0:4\n",
                      "1 switch: 7\n", "3 nodes: 3 4 5\n", "5 faults"):
            self.assertIn(words, out)

    def test_errors__are_one_line_that_says_what_is_right(self):
        bad = self.write("loss link=any\n\nlink-down link=99:0\n")
        for args, status, words in (
                ((), 1, ["no fabric named 'default'"]),
                (("--list", "--show", "flap"), 2, ["one of"]),
                (("--list", "more"), 2, ["one of"]),
                (("--show", "flop"), 2, ["--show flop", "fabemu fault --list"]),
                (("--check", ""), 2, ["--check", "name of"]),
                (("--check", "flop"), 2, ["no scenario 'flop'", "flap"]),
                (("--check", "flap", "--topo", "kary:4,1"), 2,
                 ["flap, line 3", "no cables between", "link=nN"]),
                (("--check", bad, "--topo", "kary:4,2"), 2, ["line 3", "no switch 99", "0 to 7"]),
                (("--check", self.dir + "/none"), 1, ["none", "No such file"]),
                (("--check", self.dir), 1, ["Is a directory"]),
                (("--check", "adapter-resets", "--topo", "kary:4,2"), 2, ["line 1", "qsnet3"]),
                (("--check", "flap", "--topo", "torus:3"), 2, ["kary:"]),
        ):
            with self.subTest(args=args):
                done = self.fabemu("fault", *args)
                self.one_line(done, status, *words)
                self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    main()
