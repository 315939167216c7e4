#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""bench_test.py - fabemu bench runs and prints what docs/bench.md specifies. No measured value is
checked.

   tests/cli/bench_test.py --fabemu build/fabemu [unittest options]
"""
import json
import os
import re
import signal
import stat

from cli_helpers import FabemuCase, main

CONDITIONS = {"cpu", "cores", "kernel", "compiler", "build", "load", "date", "clock", "profile"}
HOPS = {f"hops.{topo}.{traffic}" for topo in ("switch", "tree")
        for traffic in ("uniform", "complement")}
HOSTLINK = {"hostlink.send", "hostlink.receive"}
VIRTUAL = {"virtual.nodes256.load0.5", "virtual.nodes256.load0.9", "virtual.nodes4096.load0.5"}

# Replaces mpirun: prints one bench line, or fails as a launcher does.
MPIRUN = """#!/bin/sh
case $FI_PROVIDER in
tcp*) echo '------' >&2; echo 'no such transport' >&2; exit 1 ;;
esac
echo '{"bench":"pingpong","latency_us":1.5,"bandwidth_mb_per_s":10.0}'
"""


class BenchTest(FabemuCase):
    def script(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, stat.S_IRWXU)
        return path

    def check_row(self, row, has_bound=True):
        self.assertEqual(set(row), {"name", "value", "unit", "samples", "conditions", "origin",
                                    *(["bound"] if has_bound else [])})
        self.assertGreater(row["value"], 0, row)
        self.assertGreater(row.get("bound", 1), 0, row)
        self.assertGreater(len(row["samples"]), 0)
        self.assertLessEqual(min(row["samples"]), row["value"])
        self.assertGreaterEqual(max(row["samples"]), row["value"])
        self.assertLessEqual(CONDITIONS, set(row["conditions"]))

    def succeeded(self, done):
        """The benchmark had no errors. On a busy host it may have printed its progress."""
        errors = re.sub(r"(?m)^fabemu: bench: benchmark .*, \d+ s so far\n", "", done.stderr)
        self.assertEqual((done.returncode, errors), (0, ""))

    def rows(self, *args):
        done = self.fabemu("bench", "--quick", "--json", *args)
        self.succeeded(done)
        return {row["name"]: row for row in json.loads(done.stdout)}

    def test_quick__prints_the_promised_rows(self):
        rows = self.rows("--only", "hops,hostlink")
        self.assertEqual(set(rows), HOPS | HOSTLINK)
        for row in rows.values():
            self.check_row(row)
        self.assertEqual({rows[name]["unit"] for name in HOPS}, {"Mhops/s"})
        self.assertEqual({rows[name]["unit"] for name in HOSTLINK}, {"ns"})
        self.assertEqual(rows["hops.tree.uniform"]["conditions"]["topo"], "kary:4,3")

    def test_virtual__several_workers_have_no_bound(self):
        rows = self.rows("--only", "virtual", "--repeat", "1")
        two = {"virtual.nodes256.load0.5.workers2"} if len(os.sched_getaffinity(0)) > 1 else set()
        self.assertEqual(set(rows), VIRTUAL | two)
        for name, row in rows.items():
            self.check_row(row, has_bound=name not in two)
            self.assertEqual(row["conditions"]["clock"], "virtual")

    def test_text__has_the_conditions_and_a_line_per_row(self):
        done = self.fabemu("bench", "--quick", "--repeat", "1", "--only", "hops")
        self.succeeded(done)
        lines = done.stdout.splitlines()
        self.assertTrue(any(line.startswith("# kernel: Linux") for line in lines), lines)
        self.assertEqual({line.split()[0] for line in lines if line.startswith("hops.")}, HOPS)
        self.assertLessEqual(max(len(line) for line in lines if line.startswith("hops.")), 100)
        self.assertIn(["row", "median", "unit", "least", "most", "n", "of", "bound"],
                      [line.split() for line in lines])

    def test_interrupt__says_that_results_are_missing(self):
        run = self.start("bench", "--only", "virtual", "--repeat", "99")
        self.assertIn("# cpu", "".join(run.stdout.readline() for _ in range(3)))
        run.send_signal(signal.SIGINT)
        err = run.communicate(timeout=60)[1]
        self.assertEqual(run.returncode, -signal.SIGINT)
        self.assertIn("fabemu: bench: interrupted; not all benchmarks were measured\n", err)

    def test_list__names_what_only_takes(self):
        done = self.fabemu("bench", "--list")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        names = [line.split()[0] for line in done.stdout.splitlines()]
        self.assertLessEqual({"hops", "virtual", "hostlink", "mpi.latency8", "mpi.bandwidth1M",
                              "mpi.collectives.np4", "mpi.collectives.np16"}, set(names))

    def test_list__with_only_names_the_selected_rows(self):
        done = self.fabemu("bench", "--list", "--only", "mpi,hops")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([line.split()[0] for line in done.stdout.splitlines()],
                         ["hops", "mpi.latency8", "mpi.bandwidth1M", "mpi.collectives.np4",
                          "mpi.collectives.np8", "mpi.collectives.np16"])
        as_json = self.fabemu("bench", "--list", "--only", "mpi,hops", "--json")
        self.assertEqual([f"{one['name']:20} {one['about']}" for one in json.loads(as_json.stdout)],
                         done.stdout.splitlines())

    def test_usage_errors__are_one_line_and_exit_2(self):
        for args, words in (
                (("--list", "--only", "rings"), ["'rings'", "--list"]),
                (("--only", "rings"), ["'rings'", "--list"]),
                (("--only", "hops.tree.uniform"), ["'hops.tree.uniform'", "'hops'"]),
                (("--only", ""), ["--list"]),
                (("--repeat", "0"), ["1 to 99"]),
                (("--repeat",), ["needs a value"]),
                (("--fast",), ["--fast"]),
                (("now",), ["'now'"]),
        ):
            with self.subTest(args=args):
                self.one_line(self.fabemu("bench", *args), 2, *words)

    def test_no_mpirun__skips_those_rows_with_a_message(self):
        done = self.fabemu("bench", "--quick", "--json", "--only", "hostlink,mpi",
                           env={**self.env, "PATH": self.dir})
        self.assertEqual({row["name"] for row in json.loads(done.stdout)}, HOSTLINK)
        self.one_line(done, 1, "the MPI benchmarks did not run", "apt-get install openmpi-bin")

    def test_no_bench_programs__names_the_missing_file(self):
        self.script("mpirun", MPIRUN)
        done = self.fabemu("bench", "--quick", "--json", "--only", "mpi",
                           env={**self.env, "PATH": self.dir, "FABEMU_BENCH_DIR": "/none"})
        self.assertEqual(json.loads(done.stdout), [])
        self.one_line(done, 1, "/none/mpi_pingpong_bench", "FABEMU_BENCH_DIR")

    def test_a_failing_transport__has_its_row_and_the_others_continue(self):
        self.script("mpirun", MPIRUN)
        self.script("mpi_pingpong_bench", "")
        self.script("mpi_allreduce_bench", "")
        path = f"{self.dir}:{os.environ['PATH']}"
        done = self.fabemu("bench", "--quick", "--json", "--only", "mpi.latency8",
                           env={**self.env, "PATH": path, "FABEMU_BENCH_DIR": self.dir})
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        rows = {row["name"]: row for row in json.loads(done.stdout)}
        self.assertIsNone(rows["latency8.np2.tcp"]["value"])
        self.assertIn("no such transport", rows["latency8.np2.tcp"]["error"])
        for fabric in ("fabemu", "fabemu_ack"):
            self.assertIn("no segments went through", rows[f"latency8.np2.{fabric}"]["error"])
        self.assertEqual(rows["latency8.np2.shm"]["value"], 1.5)


if __name__ == "__main__":
    main()
