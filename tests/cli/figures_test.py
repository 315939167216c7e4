#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""figures_test.py - fabemu figures: the files that it writes, and that an interrupted run resumes.

   tests/cli/figures_test.py --fabemu build/fabemu [unittest options]

The figures themselves are not checked here (docs/figures.md).
"""
import csv
import glob
import json
import os
import re
import signal
import stat
import subprocess
import sys
import unittest
import xml.etree.ElementTree

from cli_helpers import PATIENCE_S, FabemuCase, alive, flat, main, until

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 2)
sys.path.insert(0, os.path.join(SOURCES, "scripts", "figures"))
import model        # noqa: E402 (after the path is set)
import recovery     # noqa: E402

CHEAP = "16"    # the figure that these tests measure
MEASURED = f"fabemu: figure {CHEAP} is measured (1 of 1)\n"
VERDICTS = {"holds", "differs", "shown", "not measured", "not built"}
PNG = b"\x89PNG\r\n\x1a\n"


class FiguresTest(FabemuCase):
    def setUp(self):
        super().setUp()
        self.out = os.path.join(self.dir, "figures")
        self.log = os.path.join(self.dir, "log")

    def figures(self, *args, **kwargs):
        return self.fabemu("figures", "--quick", "--out", self.out, *args, **kwargs)

    def wrapper(self, before):
        """A fabemu that logs each run of traffic and does something before it."""
        path = os.path.join(self.dir, "wrapper")
        with open(path, "w") as f:
            f.write('#!/bin/sh\n'
                    f'if [ "$1" = traffic ]; then\necho "$$ $*" >>{self.log}\n{before}\nfi\n'
                    f'exec {self.command} "$@"\n')
        os.chmod(path, stat.S_IRWXU)
        return path

    def logged(self):
        """[(pid, command line)] of the runs of traffic so far."""
        try:
            with open(self.log) as f:
                return [(int(pid), line) for pid, line in
                        (text.rstrip("\n").split(" ", 1) for text in f if text.endswith("\n"))]
        except FileNotFoundError:
            return []

    def kept(self):
        return glob.glob(os.path.join(self.out, "points", "*", "*.json"))

    # --- the command line ---------------------------------------------------------

    def test_list__names_every_figure_and_row(self):
        done = self.fabemu("figures", "--list")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        names = set(re.findall(r"^(\S+)", done.stdout, re.M))
        self.assertEqual(names, {str(n) for n in range(5, 19)} | {f"A{n}" for n in range(1, 12)} |
                         {f"q{n}" for n in range(1, 13)} | {f"Q{n}" for n in range(1, 11)} |
                         {"m1", "r1", "r2", "R1", "R2", "N1", "N2", "N3"} |
                         {f"{v}{n}" for v in "vV" for n in range(1, 4)} |
                         {f"n{n}" for n in range(1, 7)})

    def test_list__ends_silently_if_standard_output_is_closed(self):
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as closed:  # as in: fabemu figures --list | head
            done = subprocess.run([self.command, "figures", "--list"], stdout=closed,
                                  stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (-signal.SIGPIPE, ""))

    def test_list__with_only_names_the_selected_ones(self):
        done = self.fabemu("figures", "--list", "--only", "fig16,q3")
        names = set(re.findall(r"^(\S+)", done.stdout, re.M))
        self.assertEqual(names, {"16", "q3", "A8", "A9", "Q3"})
        as_json = self.fabemu("figures", "--list", "--only", "fig16,q3", "--json")
        self.assertEqual([flat(f"{one['name']:<4} {one['about']}")
                          for one in json.loads(as_json.stdout)],
                         [flat(line) for line in re.split(r"\n(?! )", done.stdout.strip())])

    def test_help__names_the_options(self):
        done = self.fabemu("figures", "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for option in ("--only", "--quick", "--jobs", "--out", "--json", "--seed", "--fresh",
                       "--list"):
            self.assertIn(option, done.stdout)

    def test_usage_errors__are_one_line_and_exit_2(self):
        for args, words in (
                (("--only", "4"), ["'4'", "--list"]),
                (("--only", "5,B1"), ["'B1'", "--list"]),
                (("--only", "5,figq13"), ["'figq13'", "did you mean 'q1'?"]),
                (("--only", "Q11"), ["'Q11'", "did you mean 'Q1'?"]),
                (("--only", ""), ["--list"]),
                (("--only",), ["--only"]),
                (("--jobs", "0"), ["--jobs", "1 to"]),
                (("--seed", "x"), ["--seed", "number"]),
                (("--out", "-"), ["--out -", "a folder"]),
                (("--fast",), ["--fast"]),
                (("now",), ["now"]),
        ):
            with self.subTest(args=args):
                self.one_line(self.fabemu("figures", *args), 2, *words, "fabemu figures --help")

    def test_out_that_cannot_be_made__is_one_line(self):
        done = self.fabemu("figures", "--only", "A1", "--out", "/proc/none")
        self.one_line(done, 1, "cannot make the folder /proc/none: ", "choose another --out")

    # --- what it writes -------------------------------------------------------------

    def test_one_figure__writes_csv_svg_png_and_rows(self):
        done = self.figures("--only", CHEAP, "--json")
        self.assertEqual(done.stderr, MEASURED)
        self.check_rows(json.loads(done.stdout), done.returncode)
        base = os.path.join(self.out, "fig" + CHEAP)
        self.check_csv(base + ".csv")
        root = xml.etree.ElementTree.parse(base + ".svg").getroot()
        self.assertTrue(root.tag.endswith("svg"))
        self.assertTrue(any("Figure " + CHEAP in (text.text or "") for text in root.iter()))
        self.assertLess(os.path.getsize(base + ".svg"), 20000)
        with open(base + ".png", "rb") as f:
            self.assertEqual(f.read(8), PNG)
        with open(os.path.join(self.out, "table.json")) as f:
            self.assertEqual(json.load(f), json.loads(done.stdout))

    def check_rows(self, rows, status):
        self.assertGreater(len(rows), 0)
        for row in rows:
            self.assertLessEqual({"id", "stated", "measured", "difference", "verdict", "what",
                                  "figure"},
                                 set(row))
            self.assertIn(row["verdict"], VERDICTS)
            self.assertIsInstance(row["measured"], float)
        holds = all(row["verdict"] == "holds" for row in rows)
        self.assertEqual(status, 0 if holds else 1)

    def check_csv(self, path):
        with open(path) as f:
            head = [line for line in f if line.startswith("#")]
            f.seek(0)
            rows = list(csv.DictReader(line for line in f if not line.startswith("#")))
        self.assertIn("Figure " + CHEAP, head[0])
        self.assertGreaterEqual(len({row["series"] for row in rows}), 2)
        for row in rows:
            self.assertGreater(float(row["mean_time_us"]), 0)
            self.assertIn(row["saturated"], ("0", "1"))
            self.assertIn("--seed 1", row["command"])

    def test_a_single_row__prints_the_table_only(self):
        done = self.figures("--only", "A8,A11")
        self.assertEqual(done.stderr, "")
        head, *rest = [line for line in done.stdout.splitlines() if not line.startswith("#")]
        for word in ("stated", "measured", "difference", "verdict"):
            self.assertIn(word, head)
        rows = [line for line in rest if not line.startswith(" ")]  # others describe the row
        self.assertEqual({line.split()[0] for line in rows}, {"A8", "A11"})
        self.assertIn("not built", rows[-1])
        self.assertLessEqual(max(map(len, (head, *rest))), 80)
        self.assertEqual(glob.glob(os.path.join(self.out, "*.svg")), [])

    def test_figures_without_rows__print_no_empty_table(self):
        done = self.figures("--only", "6", "--no-plots")
        self.assertEqual([line for line in done.stdout.splitlines() if not line.startswith("#")],
                         [f"the data of 6 are in the folder {self.out}"])

    def test_a_figure_of_ours__has_the_requested_name(self):
        done = self.figures("--only", "q9", "--json")
        self.assertEqual(done.stderr, "fabemu: figure q9 is measured (1 of 1)\n")
        rows = json.loads(done.stdout)
        self.assertEqual({(row["id"], *row["figure"]) for row in rows}, {("Q8", "q9")})
        self.assertEqual({row["verdict"] for row in rows}, {"holds", "shown"})
        self.assertEqual(done.returncode, 0)
        for kind in ("csv", "svg", "png"):
            self.assertTrue(os.path.exists(os.path.join(self.out, "figq9." + kind)), kind)

    def test_noise__is_a_figure_of_added_time(self):
        done = self.figures("--only", "n5", "--json")
        self.assertEqual((done.stderr, done.returncode),
                         ("fabemu: figure n5 is measured (1 of 1)\n", 0))
        with open(os.path.join(self.out, "fign5.csv")) as f:
            rows = list(csv.DictReader(line for line in f if not line.startswith("#")))
        self.assertEqual({row["length_us"] for row in rows}, {"2.5", "25"})
        for row in rows:
            self.assertIn(f"--noise {40000 * float(row['length_us']):.0f}ns:", row["command"])
            # every node is delayed now and then
            self.assertGreater(float(row["mean_time_us"]), 0)

    def test_published_machines__the_page_has_the_table(self):
        done = self.fabemu("figures", "--only", "v1,v2,v3", "--no-plots", "--json", "--out",
                           self.out)
        self.assertEqual(done.returncode, 0, done.stderr)
        for row in json.loads(done.stdout):
            # an error above 15 % has a named cause
            self.assertIn(row["verdict"], ("holds", "shown"))
            if row["verdict"] == "shown" and row["stated"] != "-":
                self.assertIn("otherwise: ", row["criterion"])
            if "(calibrated)" in row["what"]:
                self.assertAlmostEqual(row["measured"] / row["stated"], 1, delta=0.01)
        with open(os.path.join(self.out, "validation.md")) as f:
            table = f.read()
        self.assertEqual(len(table.splitlines()), 2 + 20)
        with open(os.path.join(SOURCES, "docs", "validation.md")) as f:
            self.assertIn(table, f.read())

    def test_the_same_seed__the_same_numbers(self):
        runs = [json.loads(self.figures("--only", CHEAP, "--no-plots", "--json", "--fresh",
                                        "--jobs", jobs).stdout)
                for jobs in ("1", "2")]
        for row in (*runs[0], *runs[1]):
            self.assertEqual(row.pop("origin")["seed"], 1)  # date and command differ
        self.assertEqual(runs[0], runs[1])

    def test_a_failing_point__is_reported_and_the_others_continue(self):
        broken = self.wrapper('case "$*" in '
                              '*"--bytes 8 "*combine_units=5*|*combine_units=5*"--bytes 8 "*)'
                              ' echo no luck >&2; exit 3;; esac')
        done = self.figures("--only", CHEAP, "--no-plots", "--json", "--fabemu", broken)
        done.stderr = done.stderr.replace(MEASURED, "")
        self.one_line(done, 1, "wrapper traffic", "--bytes 8", "combine_units=5",
                      "exit status 3: no luck")
        verdicts = {(row["id"], row["part"]): row["verdict"] for row in json.loads(done.stdout)}
        self.assertEqual(verdicts["A9", "ports"], "not measured")
        self.assertNotEqual(verdicts["A8", "short"], "not measured")

    # --- interruption ------------------------------------------------------------------

    def test_interrupted__resumes_where_it_stopped(self):
        slow = self.wrapper("sleep 0.2")
        args = ("figures", "--quick", "--out", self.out, "--only", CHEAP, "--no-plots", "--jobs",
                "1",
                "--fabemu", slow)
        run = self.start(*args)
        self.assertTrue(until(self.kept), "no point was kept")
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=20)
        self.assertEqual(run.returncode, 130)
        self.assertIn("interrupted", err)
        before = len(self.logged())
        kept = len(self.kept())
        self.assertGreaterEqual(kept, 1)
        self.assertEqual(self.fabemu(*args).stderr, MEASURED)
        lines = [line for _, line in self.logged()]
        self.assertEqual(len(lines) - len(set(lines)), before - kept)  # only interrupted ones
        self.assertEqual(len(self.kept()), len(set(lines)))
        self.assertEqual(self.fabemu(*args).stderr, MEASURED)
        self.assertEqual(len(self.logged()), len(lines))                # a third run: nothing to do

    def test_killed__its_children_end(self):
        for signal_number in (signal.SIGKILL, signal.SIGTERM):
            with self.subTest(signal=signal_number):
                stuck = self.wrapper("exec sleep 60")
                run = self.start("figures", "--quick", "--out", self.out, "--only", CHEAP,
                                 "--no-plots", "--jobs", "2", "--fabemu", stuck)
                seen = len(self.logged())
                self.assertTrue(until(lambda: len(self.logged()) == seen + 2))
                pids = [pid for pid, _ in self.logged()[seen:]]
                run.send_signal(signal_number)
                run.communicate(timeout=PATIENCE_S)
                self.assertTrue(until(lambda: not any(map(alive, pids))), pids)

    def test_two_runs_on_one_folder__the_second_is_refused(self):
        stuck = self.wrapper("exec sleep 60")
        run = self.start("figures", "--quick", "--out", self.out, "--only", CHEAP, "--no-plots",
                         "--fabemu", stuck)
        self.assertTrue(until(self.logged))
        self.one_line(self.figures("--only", CHEAP, "--no-plots"), 1, "another fabemu figures",
                      "--out")
        run.terminate()
        run.communicate(timeout=20)


class RecoveryTest(unittest.TestCase):
    """Recovery times of a throughput curve, for invented runs: one node, windows of 10 us."""

    def run_of(self, *during):
        whole = 100
        per_window = [whole] * 20 + list(during) + [whole] * 10
        begins, ends = 20 * 10000, (20 + len(during)) * 10000
        return {"warmup_ns": 0, "measure_ns": 10000 * len(per_window), "nodes": 1,
                "series": {"window_ns": 10000, "payload_bytes": [10000 * n for n in per_window]},
                "faults": {"links_between_switches": 4, "changes": [
                    {"at_ns": begins, "links_out": 1, "new_tables": False},
                    {"at_ns": begins + 50000, "links_out": 1, "new_tables": True},
                    {"at_ns": ends, "links_out": 0, "new_tables": False}]}}

    def test_throughput__recovery_is_timed(self):
        found = recovery.recovery(self.run_of(*[10] * 5, *[75] * 20), 0, 0)
        self.assertEqual((found.before, found.expected, found.worst, found.after),
                         (100, 75, 10, 75))
        self.assertEqual((found.took_ns, found.tables_ns), (50000, 50000))

    def test_throughput__without_a_drop_recovers_at_once(self):
        self.assertEqual(recovery.recovery(self.run_of(*[74] * 25), 0, 0).took_ns, 0)

    def test_throughput__dropping_again_has_not_recovered(self):
        self.assertIsNone(recovery.recovery(self.run_of(*[75] * 20, *[60] * 5), 0, 0).took_ns)

    def test_cost_of_a_point__includes_its_start(self):
        series = model.Series("", (), model.Axis("--load", ""), (), (), 1)
        self.assertEqual(series.point(0.5, model.Effort(True, 1)).cost, model.START_HOPS + 1)

    def test_no_outage__has_no_numbers(self):
        with self.assertRaises(model.Failed):
            recovery.recovery(self.run_of(*[75] * 20), 1, 0)


if __name__ == "__main__":
    main()
