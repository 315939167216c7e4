#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""compare_test.py - fabemu compare: its table and files, programs that fail, wrong options.

   tests/cli/compare_test.py --fabemu build/fabemu [unittest options]
"""
import csv
import json
import os
import shutil
import signal
import unittest
import xml.etree.ElementTree

from cli_helpers import FabemuCase, build_bugs, main, until

SLOW = "four times slower: --set link_ps_per_byte=4000"


class CompareTest(FabemuCase):
    def program(self, ranks=4, *arguments):
        return ("--", "mpirun", "-np", str(ranks), "--oversubscribe",
                os.path.join(os.path.dirname(self.command), "tests", "mpi_compute"), "--iterations",
                "3", *arguments)

    def file(self, name):
        return os.path.join(self.dir, name)

    def compare(self, *args, status=0):
        """Compare, and return the JSON, the standard output and the errors."""
        path = self.file("table.json")
        run = self.start("compare", "--json", path, *args)
        out, err = run.communicate(timeout=300)
        self.assertEqual(run.returncode, status, out + err)
        with open(path, encoding="utf-8") as file:
            return json.load(file), out, err


@unittest.skipUnless(shutil.which("mpirun"), "needs Open MPI")
class TableTest(CompareTest):
    def test_networks_profiles_and_variants(self):
        table, out, err = self.compare(
            "--topo", "kary:4,2", "--topo", "kary:2,4", "--profile", "oq2004", "--profile",
            "qsnet3", "--variant", SLOW, "--seed", "7", "--set", "combine_order=port", "--csv",
            self.file("t.csv"), "--plot", self.file("t.svg"), *self.program())
        names = ["kary:4,2 oq2004", "kary:4,2 qsnet3", "kary:2,4 oq2004", "kary:2,4 qsnet3",
                 "four times slower"]
        rows = table["networks"]
        self.assertEqual([row["network"] for row in rows], names)
        self.assertEqual(table["origin"]["seed"], 7)
        self.assertEqual(table["origin"]["settings"], {"combine_order": "port"})
        for number, row in enumerate(rows):
            self.assertIsNone(row["error"])
            self.assertTrue(row["exact"])
            self.assertAlmostEqual(row["ratio"], row["time_ns"] / rows[0]["time_ns"], places=6)
            self.assertEqual(row["waited_ns"],
                             sum(one["waited_ns"] for one in row["calls"].values()))
            self.assertEqual(row["calls"]["message"]["calls"], 4 * 3 * 2)
            self.assertGreater(row["calls"]["collective"]["calls"], 0)
            self.assertGreater(row["link_load"]["most"], 0)
            self.assertIn(f"fabemu: run {number + 1} of 5: {names[number]}\n", err)
        files = ", ".join(self.file(name) for name in ("t.csv", "table.json", "t.svg"))
        self.assertTrue(err.endswith(f"\nfabemu: the results are in {files}\n"), err)
        # the time is that of the program: MPI_Finalize sleeps for 100 us
        self.assertLess(rows[0]["time_ns"], 90000)
        self.assertGreater(rows[4]["time_ns"], rows[0]["time_ns"])
        self.assertRegex(out, r"^# .*fabemu [\d.]+, host .*, seed 7\n# .*compare --json")
        self.assertIn("\n# settings combine_order=port\n", out)
        self.assertRegex(out, r"\nnetwork +time/us  ratio ")
        self.assertIn("ranks waited/us, by last call", out)
        self.assertRegex(out, r"\nfour times slower\n +[\d,]+\.\d +1\.\d+ .* yes\n$")
        lines = [line for line in out.splitlines() if not line.startswith("#")]
        self.assertLessEqual(max(map(len, lines)), 80)

        with open(self.file("t.csv"), encoding="utf-8") as file:
            lines = list(csv.DictReader(line for line in file if not line.startswith("#")))
        self.assertEqual([line["network"] for line in lines], names)
        self.assertEqual([int(line["time_ns"]) for line in lines],
                         [row["time_ns"] for row in rows])
        self.assertEqual({len(line) for line in lines}, {15})
        svg = xml.etree.ElementTree.parse(self.file("t.svg")).getroot()
        texts = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")]
        self.assertEqual([text for text in texts if text in names], names)
        about = svg.find("{http://www.w3.org/2000/svg}desc").text
        self.assertRegex(about, r"^fabemu [\d.]+, host .*, seed 7\n.*compare --json.*\n"
                         r"settings combine_order=port\n$")

    def test_the_same_run_twice(self):
        table, _, _ = self.compare("--topo", "kary:4,2", "--topo", "kary:4,2", *self.program())
        first, second = table["networks"]
        self.assertEqual([first["network"], second["network"]], ["kary:4,2", "kary:4,2 #2"])
        # link_load may differ: the host decides when processes disconnect from each other
        self.assertEqual(first["time_ns"], second["time_ns"])

    def test_all_rows_have_the_same_date(self):
        """Only a variant may set another date. There the program reports that the date is wrong."""
        program = os.path.join(os.path.dirname(self.command), "tests", "mpi_simtime")
        table, _, _ = self.compare(
            "--topo", "kary:4,2", "--topo", "kary:2,4", "--date", "1000000000", "--variant",
            "later: --date 1000000001", "--", "mpirun", "-np", "2", "--oversubscribe", program,
            "--iterations", "1", "--date", "1000000000", status=1)
        self.assertEqual([row["exit_status"] for row in table["networks"]], [0, 0, 1])

    def test_computing_is_recorded_on_the_first_network(self):
        table, _, err = self.compare("--compute", "cpu", "--topo", "kary:4,2", "--topo", "kary:2,4",
                                     "--out", self.file("runs"), *self.program())
        self.assertIn("run 1 of 3: kary:4,2, to record the computing\n", err)
        self.assertIn("run 2 of 3: kary:4,2\n", err)
        self.assertEqual(sorted(os.listdir(self.file("runs"))),
                         ["0.json", "0.txt", "1.json", "1.txt", "2.json", "2.txt", "calls"])
        self.assertIn(f"table.json, the folder {self.file('runs')}\n", err)
        modes = []
        for number in range(3):
            with open(self.file(f"runs/{number}.json"), encoding="utf-8") as file:
                modes.append(json.load(file)["clock"]["compute"]["mode"])
            with open(self.file(f"runs/{number}.txt"), encoding="utf-8") as file:
                self.assertIn("3 iterations took", file.read())
        self.assertEqual(modes, ["record", "replay", "replay"])
        # the same recording again gives the same times, and the computing of 3 iterations
        again, _, _ = self.compare("--compute", f"replay:{self.file('runs/calls')}", "--topo",
                                   "kary:4,2", "--topo", "kary:2,4", *self.program())
        for first, second in zip(table["networks"], again["networks"]):
            self.assertEqual(first["time_ns"], second["time_ns"])
        self.assertGreater(table["networks"][0]["time_ns"], 100000)

    def test_other_calls_than_recorded(self):
        self.compare("--compute", "cpu", "--out", self.file("runs"), *self.program())
        table, out, _ = self.compare("--compute", f"replay:{self.file('runs/calls')}",
                                     *self.program(4, "--tail", "barrier"), status=1)
        self.assertRegex(table["networks"][0]["error"],
                         r"^exit status 1: rank \d, call \d+: the recording has the end of the "
                         r"process, the program made ")
        self.assertIn("failed: exit status 1: rank ", out)

    def test_a_program_that_fails_on_one_network(self):
        """A network of 4 nodes has no place for 6 ranks."""
        table, out, _ = self.compare("--topo", "kary:4,2", "--topo", "kary:2,2",
                                     *self.program(6), status=1)
        good, bad = table["networks"]
        self.assertIsNone(good["error"])
        self.assertRegex(bad["error"], r"^exit status \d+: .*4 nodes")
        self.assertNotEqual(bad["exit_status"], 0)
        self.assertIn("\nkary:2,2 failed: exit status", out)

    @unittest.skipUnless(shutil.which("mpicc"), "needs mpicc")
    def test_a_standstill_ends_the_run(self):
        """The program leaves out a barrier on each network. The run on the second network begins
        although that on the first one was ended."""
        program = ("--", "mpirun", "-np", "4", "--oversubscribe", build_bugs(self.dir),
                   "skip-barrier", "10")
        table, out, err = self.compare("--topo", "kary:2,2", "--topo", "kary:4,1", *program,
                                       status=124)
        for row in table["networks"]:
            self.assertEqual(row["exit_status"], 124)
            self.assertRegex(row["error"],
                             r"^exit status 124: nothing has moved for .* s of simulated time$")
            self.assertIn(f"\n{row['network']} failed: exit status 124: nothing has moved", out)
            self.assertRegex(err, rf"\nfabemu: {row['network']}: the program stood still:\n"
                             rf"fabemu: {row['error'][17:-18]} \(all .*\n(fabemu: .*\n)*"
                             r"fabemu: rank 3 .* waits in a receive from rank 0, tag 7, ")
        table, _, _ = self.compare("--standstill", "2s:end", "--compute", "cpu", "--topo",
                                   "kary:2,2", *program, status=124)
        row, = table["networks"]
        self.assertEqual(row["exit_status"], 124)
        self.assertIn("the recording failed: exit status 124: nothing has moved", row["error"])

    def test_a_slow_start_is_not_the_reason_for_a_failure(self):
        table, _, _ = self.compare("--topo", "kary:2,2", "--out", self.file("runs"), "--", "mpirun",
                                   "-np", "1", "sh", "-c", "sleep 3; exit 7", status=1)
        with open(self.file("runs/1.txt"), encoding="utf-8") as file:
            self.assertIn("fabemu: waiting: no process has attached to the fabric yet\n",
                          file.read())
        self.assertRegex(table["networks"][0]["error"], "^exit status 7: the command failed ")

    def test_output_that_is_not_kept(self):
        """A program fails, and only its output can say why."""
        hint = "fabemu: --out DIR keeps the program's output, which may say why it failed\n"
        program = ("--topo", "kary:2,2", "--", "sh", "-c", "echo why; exit 7")
        table, _, err = self.compare(*program, status=1)
        self.assertIn("its own messages may say why", table["networks"][0]["error"])
        self.assertIn(hint, err)
        _, _, err = self.compare("--out", self.file("kept"), *program, status=1)
        self.assertNotIn(hint, err)

    def test_silence_ends_with_a_line(self):
        run = self.start("compare", "--topo", "kary:2,2", "--", "sleep", "600")
        self.assertEqual(run.stderr.readline(), "fabemu: run 1 of 1: kary:2,2\n")
        self.assertRegex(run.stderr.readline(),
                         r"^fabemu: run 1 of 1: kary:2,2, \d+ s so far\n$")
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=60)
        self.assertEqual(run.returncode, 130)

    def test_an_interrupt_keeps_the_finished_rows(self):
        """The first run succeeds and the second one does not end."""
        command = ["sh", "-c", f"[ ! -e {self.file('mark')} ] || exec sleep 60; "
                   f"touch {self.file('mark')}; exec \"$@\"", "sh", *self.program()[1:]]
        run = self.start("compare", "--topo", "kary:4,2", "--topo", "kary:2,2", "--topo",
                         "kary:2,3", "--out", self.file("runs"), "--csv", self.file("t.csv"),
                         "--json", self.file("t.json"), "--plot", self.file("t.svg"), "--",
                         *command)
        self.assertTrue(until(lambda: os.path.exists(self.file("runs/2.txt"))))
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 128 + signal.SIGINT, err)
        lacking = "interrupted: 1 of 3 networks finished\n"
        self.assertIn(f"fabemu: {lacking}", err)
        with open(self.file("t.json"), encoding="utf-8") as file:
            table = json.load(file)
        self.assertIs(table["interrupted"], True)
        self.assertEqual([(row["network"], row["error"]) for row in table["networks"]],
                         [("kary:4,2", None)])
        with open(self.file("t.csv"), encoding="utf-8") as file:
            text = file.read()
        for where in (out, text):
            self.assertIn(f"\n# {lacking}", where)
            self.assertIn("kary:4,2", where.split(lacking)[1])
            self.assertNotIn("kary:2,", where.split(lacking)[1])
        with open(self.file("t.svg"), encoding="utf-8") as file:
            self.assertIn("interrupted", file.read())

    def test_a_recording_that_fails(self):
        table, _, err = self.compare("--compute", "cpu", "--topo", "kary:4,2", "--topo", "kary:2,4",
                                     "--", "false", status=1)
        self.assertEqual([row["error"][:20] for row in table["networks"]],
                         ["the recording failed"] * 2)
        self.assertNotIn("run 2", err)


class OptionsTest(CompareTest):
    def test_wrong_options(self):
        for args, words in (
                ((), "write '--' and a command"),
                (("--topo", "kary:2,2"), "write '--' and a command"),
                (("true",), "write '--' and a command"),
                (("--", "no-such-command"), "no-such-command"),
                (("--topo", "kary:0,2", "--", "true"), "--topo"),
                (("--topo", "kary:2,2", "--topo", "none", "--", "true"), "--topo"),
                (("--topo", "", "--", "true"), "--topo : it must be"),
                (("--profile", "none", "--", "true"), "--profile"),
                (("--set", "none=3", "--", "true"), "--set"),
                (("--seed", "x", "--", "true"), "--seed x: it must be"),
                (("--call-ns", "x", "--", "true"), "--call-ns x: it must be"),
                (("--date", "x", "--", "true"), "--date x: it must be"),
                (("--compute", "count", "--", "true"), "none, cpu or replay:FILE"),
                (("--compute", "record:x", "--", "true"), "none, cpu or replay:FILE"),
                (("--standstill", "5m", "--", "true"), "--standstill 5m: it must be a time"),
                (("--clock", "raw", "--", "true"), "no option '--clock'"),
                (("--variant", "x", "--", "true"), "a name, ': ' and options"),
                (("--variant", ": --set a=b", "--", "true"), "a name, ': ' and options"),
                (("--variant", "x: word", "--", "true"), "a name, ': ' and options"),
                (("--variant", "x: --seed 1 word", "--", "true"), "'word' that is no option"),
                (("--variant", "x: --seed 1 -- word", "--", "true"), "'word' that is no option"),
                (("--variant", "x: --", "--", "true"), "'--' that is no option"),
                (("--variant", "x: " + "--seed 1 " * 80, "--", "true"), "too many words"),
                (("--variant", "x: --clock raw", "--", "true"), "cannot change --clock"),
                (("--variant", "x: --compute cpu", "--", "true"), "--clock or --compute"),
                (("--variant", "x: --report y", "--", "true"),
                 "--variant has no option '--report'"),
                (("--csv", "-", "--json", "-", "--", "true"), "only one of --csv, --json and"),
                (("--out", "-", "--", "true"), "--out -: it must be a folder"),
                (("--topo", "kary:2,2") * 17 + ("--", "true"), "at most 16 times")):
            with self.subTest(args=args):
                done = self.fabemu("compare", *args)
                expected = 127 if "no-such-command" in args else 2
                self.assertEqual(done.returncode, expected, done.stderr)
                self.assertIn(words, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)
                self.assertEqual(done.stdout, "")

    def test_help_of_a_variant(self):
        done = self.fabemu("compare", "--variant", "x: --help", "--", "true")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("The options of --variant", done.stdout)
        self.assertIn("a variant has no --help", done.stderr)

    def test_files_that_cannot_be_written(self):
        for option in ("--csv", "--json", "--plot", "--out"):
            done = self.fabemu("compare", option, "/proc/none/x", "--", "true")
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, rf"/proc/none/x.*choose another {option}")
        done = self.fabemu("compare", "--csv", self.file("t.csv"), "--json", "/proc/none/x", "--",
                           "true")
        self.assertEqual(done.returncode, 1)
        self.assertFalse(os.path.exists(self.file("t.csv")))

    def test_a_folder_with_files_is_refused(self):
        with open(self.file("old"), "w", encoding="utf-8"):
            pass
        done = self.fabemu("compare", "--out", self.dir, "--", "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("Directory not empty; choose another --out", done.stderr)

    def test_a_program_without_the_network(self):
        """Its name and its last line may have control characters."""
        done = self.fabemu("compare", "--json", "-", "--topo", "kary:2,2", "--variant",
                           "a\x1b[31m: --seed 2", "--", "true")
        self.assertEqual(done.returncode, 1)
        self.assertEqual([row["error"].count("no process has used the fabric")
                          for row in json.loads(done.stdout)["networks"]], [1, 1])
        self.assertEqual(done.stderr.count("no process has used the fabric"), 2)
        self.assertIn("a?[31m", done.stderr)
        self.assertNotIn("\x1b[31m", done.stdout + done.stderr)

    def test_a_signal_ends_the_run(self):
        self.env["TMPDIR"] = self.dir
        run = self.start("compare", "--topo", "kary:2,2", "--csv", self.file("t.csv"), "--",
                         "sleep", "60")
        self.assertTrue(until(lambda: any(name.startswith("fabemu-compare-") and
                                          os.path.exists(self.file(name + "/1.txt"))
                                          for name in os.listdir(self.dir))))
        run.send_signal(signal.SIGTERM)
        out, err = run.communicate(timeout=60)
        self.assertEqual((run.returncode, out), (128 + signal.SIGTERM, ""))
        self.assertIn("fabemu: interrupted: 0 of 1 networks finished\n", err)
        self.assertFalse(os.path.exists(self.file("t.csv")))
        self.assertEqual([name for name in os.listdir(self.dir) if "compare" in name], [])


if __name__ == "__main__":
    main()
