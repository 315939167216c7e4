#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""origin_test.py - every result has its origin, which reveals no secrets.

   tests/cli/origin_test.py --fabemu build/fabemu [unittest options]
"""
import csv
import json
import os
import platform
import re
import subprocess

from cli_helpers import FabemuCase, flat, main, until
from helpers.telemetry import parse_metrics

FIELDS = {"version", "command", "settings", "seed", "host", "date"}
DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
TRAFFIC = ("traffic", "--topo", "kary:4,2", "--measure", "5000ns", "--warmup", "1000ns")
SET = ("--set", "link_retry=go_back_n", "--set", "combine_order=port", "--seed", "7")
SETTINGS = {"link_retry": "go_back_n", "combine_order": "port"}
SECRET = "hushhush"


class OriginTest(FabemuCase):
    def ok(self, *args):
        done = self.fabemu(*args)
        self.assertEqual((done.returncode, done.stderr), (0, ""), args)
        return done.stdout

    def path(self, name):
        return os.path.join(self.dir, name)

    def read(self, name):
        with open(self.path(name)) as f:
            return f.read()

    def check(self, origin, *args, settings=None, seed=1):
        """Check the origin in the output of the command line @args."""
        self.assertEqual(set(origin), FIELDS)
        self.assertEqual(origin["command"], [self.command, *args])
        self.assertEqual((origin["settings"], origin["seed"]), (settings or {}, seed))
        self.assertEqual(origin["host"], platform.node())
        self.assertRegex(origin["date"], DATE)
        self.assertEqual(f"fabemu {origin['version']}\n", self.ok("--version"))

    def check_text(self, text, prefix, *args, seed=1):
        """Check that lines after @prefix name the host, the seed and the command line @args."""
        lines = [line[len(prefix):].strip() for line in text.splitlines()
                 if line.startswith(prefix)]
        self.assertRegex(flat("\n".join(lines)), rf"fabemu \S+, host {platform.node()}, "
                         rf"{DATE.pattern}" + ("" if seed is None else f", seed {seed} "))
        first = next(i for i, line in enumerate(lines) if line.startswith(self.command))
        self.assertEqual(self.copied(lines[first:]), [self.command, *args])

    def copied(self, lines):
        """The words that a shell gets from a command that begins in the first of @lines."""
        count = 1 + next(i for i, line in enumerate(lines) if not line.endswith("\\"))
        copy = "\n".join(lines[:count])
        return subprocess.run(["sh", "-c", f"printf '%s\\0' {copy}"], text=True, check=True,
                              capture_output=True).stdout.split("\0")[:-1]

    # --- where the origin is ------------------------------------------------------------------

    def test_run__has_it_in_all_outputs(self):
        names = ("report", "record", "events", "timeline")
        files = [word for name in names for word in ("--" + name, self.path(name))]
        args = ("run", *SET, *files, "--", "true")
        done = self.fabemu(*args)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_text(done.stderr, "  ", *args, seed=7)
        self.assertIn("settings link_retry=go_back_n, combine_order=port\n", done.stderr)
        lines = {name: self.read(name).splitlines() for name in names}
        for holder in (json.loads(self.read("report")), json.loads(lines["record"][0]),
                       json.loads(lines["events"][0]), json.loads(self.read("timeline"))):
            self.check(holder["origin"], *args, settings=SETTINGS, seed=7)

    def test_up__has_it_in_status_and_metrics(self):
        args = ("up", "u", "--topo", "kary:2,2")  # getopt moves the name behind the options
        self.ok(*args)
        status, = json.loads(self.ok("status", "--json", "u"))
        self.check(status["report"]["origin"], *args)
        self.check_text(self.ok("status", "u"), "  ", *args)
        client = self.client(self.socket_path("u"))
        client.ask("subscribe", telemetry=100)
        self.assertEqual(client.next()["origin"], status["report"]["origin"])
        labels, = (dict(labels) for labels in
                   parse_metrics(self.ok("status", "--metrics", "u"))["fabemu_info"]["samples"])
        self.assertEqual(labels["command"], " ".join([self.command, *args]))
        self.assertEqual((labels["seed"], labels["host"]), ("1", platform.node()))

    def test_traffic__has_it_in_json_text_table_and_snapshots(self):
        one, two = (*TRAFFIC, *SET), (*TRAFFIC, "--load", "0.1,0.2")
        self.check(json.loads(self.ok(*one, "--json"))["origin"], *one, "--json",
                   settings=SETTINGS, seed=7)
        self.check_text(self.ok(*one), "  ", *one, seed=7)
        for load in json.loads(self.ok(*two, "--json")):
            self.check(load["origin"], *two, "--json")
        self.check_text(self.ok(*two), "# ", *two)
        record = (*TRAFFIC, "--telemetry", self.path("record"))
        self.ok(*record)
        self.check(json.loads(self.read("record").splitlines()[0])["origin"], *record)

    def test_traffic__differs_only_in_it(self):
        runs = []
        for threads in ("1", "2"):
            result = json.loads(self.ok(*TRAFFIC, "--threads", threads, "--json"))
            self.check(result.pop("origin"), *TRAFFIC, "--threads", threads, "--json")
            runs.append({name: value for name, value in result.items() if name not in
                         ("threads", "wall_s", "build_s", "hops_per_s", "ns_per_hop",
                          "bytes_per_node")})
        self.assertEqual(*runs)

    def test_bench__has_it_in_each_row_and_above_the_table(self):
        args = ("bench", "--quick", "--repeat", "1", "--only", "hostlink")
        for row in json.loads(self.ok(*args, "--json")):
            self.check(row["origin"], *args, "--json", seed=None)
        self.check_text(self.ok(*args), "# ", *args, seed=None)

    def test_figures__have_it_in_each_file(self):
        out = self.path("out")
        args = ("figures", "--quick", "--no-plots", "--only", "13", "--out", out, "--seed", "3")
        done = self.fabemu(*args)
        self.check_text(done.stdout, "# ", *args, seed=3)
        for row in json.loads(self.read("out/table.json")):
            self.check(row["origin"], *args, seed=3)
        text = self.read("out/fig13.csv")
        self.check_text(text, "# ", *args, seed=3)
        rows = list(csv.DictReader(line for line in text.splitlines() if line[0] != "#"))
        self.assertTrue(rows and all("--seed 3" in row["command"] for row in rows))
        self.assertIn(f"`{' '.join([self.command, *args])}`\n", self.read("out/table.md"))

    def test_long_command__can_be_copied(self):
        args = ("run", "--topo", "kary:2,2", "--", "true", *("a b  c 'd' " * 9, "it's", "\\", "e"),
                *map(str, range(1000000, 1000040)))
        done = self.fabemu(*args)
        self.check_text(done.stderr, "  ", *args)

    def test_topo__has_it_in_text_and_json(self):
        args = ("topo", "kary:2,2", *SET)
        self.check_text(self.ok(*args), "  ", *args, seed=7)
        self.check(json.loads(self.ok(*args, "--json"))["origin"], *args, "--json",
                   settings=SETTINGS, seed=7)

    def test_script__gives_its_own_command_line(self):
        self.env["FABEMU_ORIGIN"] = "scripts/mine\n--to ken\n--token\n" + SECRET
        origin = json.loads(self.ok("topo", "kary:2,2", "--json"))["origin"]
        self.assertEqual(origin["command"], ["scripts/mine", "--to ken", "--token", "***"])

    def test_two_hosts__names_no_temporary_file(self):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/two-hosts")
        args = [script, "2", "--fabemu", self.command, "--traffic", "--topo", "kary:4,2",
                "--measure", "5000ns", "--json"]
        done = subprocess.run(args, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=120)
        if done.returncode == 77:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["origin"]["command"], args)

    # --- secrets ----------------------------------------------------------------------

    def test_secrets__are_never_shown(self):
        words = [f"API_KEY={SECRET}", f"--env=Token={SECRET}", "--password", SECRET,
                 f"http://user:{SECRET}@host/", f"Authorization: {SECRET}",
                 "--passphrase", SECRET, f"a=http://host/,http://user:{SECRET}@host/",
                 "--auth", SECRET, f"pwd={SECRET}", f"https://{SECRET}@host/x"]
        shown = ["API_KEY=***", "--env=Token=***", "--password", "***", "http://user:***",
                 "Authorization:***", "--passphrase", "***", "a=http://host/,http://user:***",
                 "--auth", "***", "pwd=***", "https://***"]
        kept = ["ssh://git@host/x", "--key", "--verbose", "monkeys", "a=b", "kary:4,2",
                "http://host:80/x", "it's"]
        names = ("report", "record", "events", "timeline")
        files = [word for name in names for word in ("--" + name, self.path(name))]
        done = self.fabemu("run", *files, "--", "true", *words, *kept)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(self.read("report"))
        self.assertEqual(report["command"], ["true", *shown, *kept])
        self.assertEqual(report["origin"]["command"],
                         [self.command, "run", *files, "--", "true", *shown, *kept])
        for text in (done.stderr, *map(self.read, names)):
            self.assertNotIn(SECRET, text)
        self.assertIn("kary:4,2 http://host:80/x 'it'\\''s'\n", done.stderr)

    def test_arguments__invalid_text_keeps_the_json_valid(self):
        done = self.fabemu("run", "--report", self.path("report"), "--", "true", b"\xff\x1b[31m",
                           "\u00fc")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(self.read("report"))["command"],
                         ["true", "?\x1b[31m", "\u00fc"])
        self.assertNotIn("\x1b", done.stderr)

    # --- a start that takes long ------------------------------------------------------

    def read_until(self, run, text):
        """The lines of @run's standard error, up to one with @text."""
        lines = []
        while not lines or text not in lines[-1]:
            lines.append(run.stderr.readline())
            self.assertTrue(lines[-1], lines)
        return lines

    def test_slow_start__reports_how_many_have_attached(self):
        run = self.start("run", "--topo", "kary:2,2", "--name", "r", "--", "sleep", "100")
        self.assertTrue(until(lambda: "r.sock" in self.sockets()))
        clients = [self.client(self.socket_path("r")) for _ in range(3)]
        for n, client in enumerate(clients):
            self.assertTrue(client.attach(rank=n, ranks=3)["ok"])
            if n == 0:
                self.assertEqual(self.read_until(run, "1 of 3"),
                                 ["fabemu: waiting: 1 of 3 processes has attached\n"])
        self.assertRegex(self.read_until(run, "all 3")[-1],
                         r"^fabemu: all 3 processes have attached, after ")

    def test_slow_launcher__reports_that_nobody_has_attached(self):
        launcher = self.path("mpirun")
        with open(launcher, "w") as f:
            f.write("#!/bin/sh\nexec sleep 100\n")
        os.chmod(launcher, 0o700)
        run = self.start("run", "--", launcher)
        self.read_until(run, "waiting: no process has attached to the fabric yet")


if __name__ == "__main__":
    main()
