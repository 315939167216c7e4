#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""bench_test.py - fabemu bench runs and prints what docs/bench.md promises. No figure is judged.

    tests/cli/bench_test.py --fabemu build/fabemu [unittest options]
"""
import json
import os
import stat

from cli_kit import FabemuCase, main

CONDITIONS = {"cpu", "cores", "kernel", "compiler", "build", "load", "date", "clock", "profile"}
RINGS = {f"ring.{where}.burst{burst}" for where in ("one_core", "two_cores")
         for burst in (1, 8, 32)}
HOPS = {f"hops.{topo}.{traffic}" for topo in ("switch", "tree")
        for traffic in ("uniform", "complement")}
HOPS_BARE = {"hops.tree.uniform.bare": "Mhops/s", "hops.tree.uniform bare/fabric": "x",
             "hops.tree.uniform.bare.queued": "Mhops/s",
             "hops.tree.uniform bare.queued/fabric": "x"}
HOPS_GAIN = {"hops.tree.uniform.gain2", "hops.tree.uniform.most2"}

ACK_HOPS = {f"ack.hops.{topo}.{traffic}{what}"
            for topo, traffics in (("switch", ("uniform", "uniform4", "complement")),
                                   ("tree", ("uniform", "uniform4", "complement", "complement224")))
            for traffic in traffics for what in (".none", ".ack", " none/ack", ".added")}
ACK_SPLIT = {f"ack.split.{what}" for what in ("none", "segment", "packet", "added1", "added5",
                                              "ends.none", "ends1", "ends5", "bare.none",
                                              "bare1", "bare5")}
ACK_RATE = {f"ack.rate.{what}{part}" for part in ("", " of most")
            for what in ("pair.switches1", "pair.switches3", "pair.switches5", "all.complement",
                         "all.uniform", "all.alltoall")}
FACE = {f"face.{what}" for what in ("hops.nodes64.without", "hops.nodes64.with",
                                    "hops.nodes64 with/without", "core.nodes64")}
RELAY = {"relay.latency8": "us", "relay.stream.copies4": "MB/s", "relay.stream.copies2": "MB/s",
         "relay.stream.packets": "MB/s",
         "relay.allreduce8.np4": "us", "relay.allreduce8.np4.direct": "us",
         "relay.allreduce8.np4 between/direct": "x"}
CRC = {"crc.segment", "crc.segment.tables", "crc.head", "crc.cont"}

# Stands in for mpirun: prints one bench line, or fails as a launcher does.
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

    def check_row(self, row):
        self.assertEqual(set(row), {"name", "value", "unit", "samples", "conditions", "origin"})
        self.assertGreater(row["value"], 0, row)
        self.assertGreater(len(row["samples"]), 0)
        self.assertLessEqual(min(row["samples"]), row["value"])
        self.assertGreaterEqual(max(row["samples"]), row["value"])
        self.assertLessEqual(CONDITIONS, set(row["conditions"]))

    def test_quick__prints_the_promised_rows(self):
        done = self.fabemu("bench", "--quick", "--json", "--only", "ring,hops,start256")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = {row["name"]: row for row in json.loads(done.stdout)}
        rings = RINGS if len(os.sched_getaffinity(0)) > 1 else {r for r in RINGS if "one" in r}
        self.assertEqual(set(rows), rings | HOPS | set(HOPS_BARE) | HOPS_GAIN | {"start256"})
        for row in rows.values():
            self.check_row(row)
        self.assertEqual({rows[name]["unit"] for name in rings}, {"ns"})
        self.assertEqual({rows[name]["unit"] for name in HOPS}, {"Mhops/s"})
        self.assertEqual({name: rows[name]["unit"] for name in HOPS_BARE}, HOPS_BARE)
        self.assertEqual({rows[name]["unit"] for name in HOPS_GAIN}, {"times"})
        self.assertEqual(rows["hops.tree.uniform"]["conditions"]["topo"], "kary:4,3")

    def test_text__has_the_conditions_and_a_line_a_row(self):
        done = self.fabemu("bench", "--quick", "--repeat", "1", "--only", "hops")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        head, *rest = [line for line in done.stdout.splitlines() if not line.startswith("#")]
        self.assertIn("kernel Linux", head)
        self.assertEqual({line.split()[0] for line in rest if line.startswith("hops.")},
                         HOPS | {name.split()[0] for name in HOPS_BARE} | HOPS_GAIN)

    def test_relay__says_what_messages_cannot_be_faster_than(self):
        rows = self.rows("--only", "relay")
        self.assertEqual({name: row["unit"] for name, row in rows.items()}, RELAY)
        for row in rows.values():
            self.check_row(row)

    def test_real__says_how_many_nodes_are_on_time(self):
        rows = self.rows("--only", "real", "--repeat", "1")  # none, where others have the core
        self.assertEqual({name: row["unit"] for name, row in rows.items()},
                         {"real.nodes": "nodes", "real.hops": "Mhops/s",
                          "real.nodes.bare": "nodes", "real.hops.bare": "Mhops/s",
                          "real.nodes of bare": "x"})
        for whose in ("", ".bare"):
            nodes, hops = rows["real.nodes" + whose]["value"], rows["real.hops" + whose]["value"]
            self.assertTrue(0 <= nodes < 64, rows)
            self.assertEqual(nodes > 0, hops > 0, rows)
        self.assertEqual(rows["real.nodes of bare"]["value"] > 0,
                         rows["real.nodes"]["value"] > 0 and rows["real.nodes.bare"]["value"] > 0,
                         rows)

    def rows(self, *args):
        done = self.fabemu("bench", "--quick", "--json", *args)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return {row["name"]: row for row in json.loads(done.stdout)}

    def test_face__readers_have_their_snapshots_while_hops_are_counted(self):
        rows = self.rows("--repeat", "1", "--only", "face.nodes64")
        self.assertEqual(set(rows), FACE)
        for row in rows.values():
            self.check_row(row)
        core = rows["face.core.nodes64"]["conditions"]
        self.assertGreater(core["snapshots_per_s"], 0)
        self.assertGreater(core["manager"], 0)
        self.assertEqual(core["server"] > 0, core["page"])

    def test_ack__has_both_transports_in_turns(self):
        rows = self.rows("--repeat", "1", "--only", "ack.hops,crc")
        self.assertEqual(set(rows), ACK_HOPS | CRC)
        for row in rows.values():
            self.check_row(row)
        for transport, what in (("none", "none"), ("acknowledged", "ack")):
            row = rows[f"ack.hops.tree.complement224.{what}"]["conditions"]
            self.assertEqual((row["transport"], row["profile"]), (transport, "qsnet3"))
        self.assertEqual(row["segments_a_packet"], 1)
        full = rows["ack.hops.tree.uniform4.ack"]["conditions"]["segments_a_packet"]
        self.assertGreater(full, 4)

    def test_ack_split__has_all_its_rows(self):
        rows = self.rows("--repeat", "1", "--only", "ack.split") # differences: of any sign
        self.assertEqual(set(rows), ACK_SPLIT)

    def test_ack_rate__is_below_what_headers_allow(self):
        rows = self.rows("--only", "ack.rate")
        self.assertEqual(set(rows), ACK_RATE)
        for name, row in rows.items():
            self.check_row(row)
            self.assertLess(row["value"], 101, name)
        self.assertEqual(rows["ack.rate.pair.switches5"]["conditions"]["most"], 96.97)
        self.assertEqual(rows["ack.rate.all.uniform"]["conditions"]["most"], 96.24)

    def test_idle__is_a_share_of_a_core(self):
        done = self.fabemu("bench", "--quick", "--json", "--only", "idle256")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = json.loads(done.stdout)
        self.assertEqual([row["name"] for row in rows], ["idle256_raw", "idle256_real"])
        for row in rows:
            self.assertEqual(row["unit"], "%")
            self.assertGreaterEqual(min(row["samples"]), 0)
            self.assertEqual(row["conditions"]["attached"], 256)
        self.assertEqual(rows[1]["conditions"]["clock"], "real")

    def test_list__names_what_only_takes(self):
        done = self.fabemu("bench", "--list")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        names = [line.split()[0] for line in done.stdout.splitlines()]
        self.assertLessEqual({"ring", "hops", "crc", "ack.hops", "ack.split", "ack.rate",
                              "ack.virtual", "start256", "idle256_raw", "idle256_real",
                              "mpi.latency8", "mpi.bandwidth1M", "mpi.collectives.np16"},
                             set(names))

    def test_list__of_some_names_these_alone(self):
        done = self.fabemu("bench", "--list", "--only", "ack,crc")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([line.split()[0] for line in done.stdout.splitlines()],
                         ["crc", "ack.hops", "ack.split", "ack.rate", "ack.virtual"])
        as_json = self.fabemu("bench", "--list", "--only", "ack,crc", "--json")
        self.assertEqual([f"{one['name']:22} {one['about']}" for one in json.loads(as_json.stdout)],
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

    def test_no_mpirun__skips_those_rows_and_says_so(self):
        done = self.fabemu("bench", "--quick", "--json", "--only", "start256,mpi",
                           env={**self.env, "PATH": self.dir})
        self.assertEqual([row["name"] for row in json.loads(done.stdout)], ["start256"])
        self.one_line(done, 1, "no MPI rows", "apt-get install openmpi-bin")

    def test_no_bench_programs__says_where_they_are_looked_for(self):
        self.script("mpirun", MPIRUN)
        done = self.fabemu("bench", "--quick", "--json", "--only", "mpi",
                           env={**self.env, "PATH": self.dir, "FABEMU_BENCH_DIR": "/none"})
        self.assertEqual(json.loads(done.stdout), [])
        self.one_line(done, 1, "/none/mpi_pingpong_bench", "FABEMU_BENCH_DIR")

    def test_a_contender_that_fails__has_its_row_and_the_others_go_on(self):
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
