#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""traffic_test.py - fabemu traffic: output, errors, and termination.

   tests/cli/traffic_test.py --fabemu build/fabemu [unittest options]
"""
import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess

from cli_helpers import FabemuCase, main, until

PROMISED = {"offered", "accepted", "latency_ns", "segment_hops", "wall_s", "saturated", "digest",
            "bytes_per_node"}
BOTH = PROMISED | {"topo", "profile", "pattern", "nodes", "switches", "seed", "threads", "bytes",
                   "hosts", "windows", "messages", "segments", "virtual_ns", "build_s",
                   "hops_per_s", "ns_per_hop", "origin", "pattern_parameters"}
OPEN = BOTH | {"steady", "load", "accepted_ci95", "delivered", "senders", "undelivered", "backlog",
               "arrivals", "warmup_ns", "measure_ns", "source_messages_per_s",
               "source_bytes_per_s"}
LATENCY = {"mean", "mean_ci95", "min", "median", "p99", "max"}
SHORT = ("--warmup", "5000ns", "--measure", "30000ns")


class TrafficTest(FabemuCase):
    def json(self, *args):
        done = self.fabemu("traffic", *args, "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""), args)
        return json.loads(done.stdout)

    def table(self, text):
        """The rows of a table of loads; checks the table's head."""
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        self.assertEqual(lines[0].split()[:3], ["load", "offered", "accepted"])
        return lines[1:]

    # --- what it prints ---------------------------------------------------------------

    def test_json__has_the_promised_fields(self):
        got = self.json("--topo", "kary:4,2", "--pattern", "uniform", "--load", "0.3", *SHORT,
                        "--threads", "2", "--seed", "7")
        self.assertEqual(set(got), OPEN)
        self.assertEqual(set(got["latency_ns"]), LATENCY)
        self.assertEqual((got["topo"], got["profile"], got["pattern"], got["seed"], got["threads"]),
                         ("kary:4,2", "oq2004", "uniform", 7, 2))
        self.assertEqual((got["warmup_ns"], got["measure_ns"]), (5000, 30000))
        self.assertIs(got["saturated"], False)
        self.assertAlmostEqual(got["offered"], 0.3, delta=0.05)
        self.assertAlmostEqual(got["accepted"], 0.3, delta=0.05)
        self.assertRegex(got["digest"], "^[0-9a-f]{16}$")
        latency = got["latency_ns"]
        self.assertEqual(latency["min"], 2934.8)  # FACTS A, over one switch
        self.assertLessEqual(latency["min"], latency["median"])
        self.assertLessEqual(latency["median"], latency["p99"])
        self.assertLessEqual(latency["p99"], latency["max"])
        self.assertGreater(got["segment_hops"], got["segments"])
        self.assertGreater(got["virtual_ns"], 35000)
        self.assertGreater(got["bytes_per_node"], 1000)
        messages, payload = got["source_messages_per_s"], got["source_bytes_per_s"]
        self.assertEqual((set(messages), set(payload)), ({"mean", "min", "max"},) * 2)
        self.assertLess(messages["min"], messages["mean"])
        self.assertLess(messages["mean"], messages["max"])
        self.assertAlmostEqual(payload["mean"], 240 * messages["mean"], delta=1)
        self.assertAlmostEqual(payload["mean"] * 256 / 240 / 1.25e9, got["accepted"], delta=1e-6)

    def test_pattern__has_the_default_numbers(self):
        for pattern, numbers, text in (
                ("hotspot", {"node": 0, "fraction": 0.1}, "node 0, fraction 0.1 of the messages"),
                ("hotspot:5:1", {"node": 5, "fraction": 1}, "node 5, fraction 1 of"),
                ("hotspot:5:0.012345678", {"node": 5, "fraction": 0.012345678}, "node 5, "),
                ("permutation", {"number": 1}, "number 1\n"),
                ("multicast", {"fanout_law": "uniform", "sets": 1024},
                 "by the switches; 1,024 sets at each source, "),
                ("uniform", {}, "")):
            args = ("--topo", "kary:4,2", "--pattern", pattern, "--load", "0.05")
            self.assertEqual(self.json(*args, *SHORT)["pattern_parameters"], numbers)
            self.assertIn(text, self.fabemu("traffic", *args, *SHORT).stdout)
            self.assertIn(text, self.fabemu("traffic", *args[:-1], "0.05,0.1", *SHORT).stdout)

    def test_zero_load__is_as_in_the_paper(self):
        for topo, mean in (("kary:16,2", 3154.8), ("kary:4,4", 3594.8)):
            got = self.json("--topo", topo, "--pattern", "complement", "--sources", "first:1",
                            "--arrivals", "fixed", "--load", "0.01", *SHORT)
            self.assertEqual(got["latency_ns"]["mean"], mean)
            self.assertEqual(got["latency_ns"]["max"], mean)

    def test_digest__is_the_same_for_any_number_of_threads(self):
        for args in (("--load", "0.9"), ("--pattern", "multicast", "--load", "0.2"),
                     ("--pattern", "multicast", "--load", "0.1", "--multicast", "tree:3"),
                     ("--pattern", "allreduce", "--bytes", "1000", "--operations", "5"),
                     ("--topo", "qsnet:34,links=2", "--profile", "qsnet3", "--pattern",
                      "permutation:2"),
                     ("--profile", "qsnet3", "--pattern", "barrier", "--skew", "3000ns")):
            short = () if {"allreduce", "barrier"}.intersection(args) else SHORT
            args = ("--topo", "kary:4,2", *args, *short)
            digests = {self.json(*args, "--threads", threads)["digest"]
                       for threads in ("1", "2", "3", "device", "auto")}
            self.assertEqual(len(digests), 1, args)

    def test_loads__make_a_list_or_a_table(self):
        got = self.json("--load", "0.1,0.2:0.4:0.1", *SHORT)
        self.assertEqual([one["load"] for one in got], [0.1, 0.2, 0.3, 0.4])
        self.assertEqual(len({one["digest"] for one in got}), 4)
        done = self.fabemu("traffic", "--load", "0.1:0.3:0.1", *SHORT)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([row.split()[0] for row in self.table(done.stdout)],
                         ["0.1", "0.2", "0.3"])

    def test_multicast__has_its_own_figures(self):
        for how, word in (("hardware", "switches"), ("messages", "messages"), ("tree", "by tree"),
                          ("tree:2", "by tree:2")):
            args = ("--topo", "kary:8,1", "--pattern", "multicast", "--fanout", "3", "--fanout-law",
                    "fixed", "--sources", "first:2", "--load", "0.1", "--multicast", how)
            got = self.json(*args)
            self.assertEqual(set(got), OPEN | {"fanout", "multicast", "completion_ns"})
            self.assertEqual((got["fanout"], got["senders"], got["multicast"]), (3, 2, how))
            self.assertEqual(set(got["completion_ns"]), LATENCY)
            self.assertGreaterEqual(got["completion_ns"]["mean"], got["latency_ns"]["mean"])
            self.assertAlmostEqual(got["accepted"], 0.1, delta=0.02)
            self.assertAlmostEqual(got["delivered"], 0.1 * 3 * 2 / 8, delta=0.01)
            self.assertIn(word, self.fabemu("traffic", *args).stdout)

    def test_md__sends_from_one_node_in_sixteen(self):
        got = self.json("--topo", "kary:8,2", "--pattern", "md", "--load", "0.05", *SHORT)
        self.assertEqual(got["senders"], 4)
        self.assertAlmostEqual(got["fanout"], 16, delta=1.5)

    def test_collectives__are_checked_and_timed(self):
        for pattern in ("reduce", "barrier", "allreduce"):
            got = self.json("--topo", "kary:4,2", "--pattern", pattern, "--operations", "7")
            self.assertEqual(set(got), BOTH | {"collectives"})
            self.assertIsNone(got["accepted"])
            self.assertEqual(got["collectives"]["operations"], 7)
            self.assertEqual(got["collectives"]["group_size"], 16)
            self.assertGreater(got["collectives"]["mean_ns"], 2600)
            self.assertEqual(got["collectives"]["mean_ns"], got["latency_ns"]["mean"])
        done = self.fabemu("traffic", "--pattern", "reduce", "--groups", "4")
        self.assertIn("400 of 8 bytes, 4 groups of 4 nodes; all results correct", done.stdout)

    def test_text__has_singulars(self):
        done = self.fabemu("traffic", "--bytes", "1", "--measure", "1us")
        self.assertIn("messages of 1 byte\n", done.stdout)
        faults = os.path.join(self.dir, "one.faults")
        with open(faults, "w") as f:
            f.write("at=1us link-down link=0:4\n")
        done = self.fabemu("traffic", "--topo", "kary:4,2", "--profile", "qsnet3", "--faults",
                           faults, "--warmup", "1us", "--measure", "9us")
        self.assertIn("; 1 link lost, ", done.stdout)

    def test_storage__is_written_beside_collectives(self):
        args = ("--topo", "qsnet:16", "--pattern", "barrier", "--group-size", "8",
                "--operations", "7")
        got = self.json(*args, "--storage", "2:bulk", "--tclass", "latency")
        self.assertEqual(got["collectives"]["operations"], 7)
        self.assertGreater(got["collectives"]["storage_bytes_per_s"], 1e9)
        self.assertNotIn("storage_bytes_per_s", self.json(*args)["collectives"])
        got = self.json(*args, "--profile", "oq2004", "--storage", "2")
        self.assertGreater(got["collectives"]["storage_bytes_per_s"], 1e8)

    def test_collectives_by_messages__are_right_among_any_number(self):
        for pattern in ("barrier", "allreduce"):
            for how in ("tree", "dissemination"):
                for members in (2, 3, 4, 5, 7, 8, 13, 16):
                    if (pattern, how) == ("allreduce", "dissemination") and members & (members - 1):
                        continue
                    for profile in ("oq2004", "qsnet3"):
                        with self.subTest(pattern=pattern, how=how, members=members,
                                          profile=profile):
                            got = self.by(how, pattern, "--profile", profile, "--group-size",
                                          str(members))
                            rounds = (members - 1).bit_length()
                            sent = (members * rounds if how == "dissemination"
                                    else 2 * (members - 1))
                            self.assertEqual(got["segments"], 9 * sent)

    def test_collectives_by_messages__have_any_radix(self):
        for pattern in ("barrier", "allreduce"):
            for how, radix in (("tree", 2), ("tree", 5), ("tree", 16), ("dissemination", 4),
                               ("dissemination", 8), ("dissemination", 16)):
                for members in (2, 4, 8, 13, 16):
                    if (pattern, how) == ("allreduce", "dissemination") and members & (members - 1):
                        continue
                    with self.subTest(pattern=pattern, how=how, radix=radix, members=members):
                        got = self.by(f"{how}:{radix}", pattern, "--group-size", str(members),
                                      "--bytes" if pattern == "allreduce" else "--groups",
                                      "500" if pattern == "allreduce" else "1")
                        self.assertEqual(got["collectives"]["by"], f"{how}:{radix}")
                        segments = 9 * (3 if pattern == "allreduce" else 1)
                        if how == "tree":
                            self.assertEqual(got["segments"], segments * 2 * (members - 1))
                        elif radix == 16:   # all to all
                            self.assertEqual(got["segments"], segments * members * (members - 1))

    def test_long_vectors_by_messages__take_the_time_of_their_segments(self):
        """A message of n bytes over one switch: docs/traffic.md, zero load."""
        for size in (240, 248, 4096, 100000):
            with self.subTest(size=size):
                wire = (size + 16 * -(-size // 240)) * 0.8
                got = self.by("dissemination", "allreduce", "--group-size", "2", "--bytes",
                              str(size))
                self.assertAlmostEqual(got["latency_ns"]["mean"], 2600 + 2 * 20 + 90 + wire,
                                       places=1)
        for how in ("dissemination", "tree", "tree:3"):
            for profile in ("oq2004", "qsnet3", "sharp"):
                runs = [self.by(how, "allreduce", "--bytes", "3000", "--profile", profile,
                                "--processes", "3", "--threads", threads)
                        for threads in ("1", "2")]
                self.assertEqual(runs[0]["digest"], runs[1]["digest"])
                self.assertEqual(runs[0]["latency_ns"], runs[1]["latency_ns"])

    HOST = (("host_send_ps", 100000), ("host_recv_ps", 70000), ("host_word_ps", 2000),
            ("share_ps", 30000))

    def added(self, how, pattern, settings, *args):
        """The ns that these fields of the profile add to the time of a collective."""
        words = [word for name, ps in settings for word in ("--set", f"{name}={ps}")]
        times = [self.by(how, pattern, *args, *more)["latency_ns"]["mean"] for more in ((), words)]
        return round(times[1] - times[0], 3)

    def test_times_of_the_host__are_added_once_each(self):
        pair = ("--group-size", "2", "--bytes", "80")
        self.assertEqual(self.added("dissemination", "allreduce", self.HOST, *pair), 100 + 70 + 20)
        self.assertEqual(self.added("tree", "allreduce", self.HOST, *pair), 2 * 170 + 20)
        self.assertEqual(self.added("dissemination", "allreduce", self.HOST, *pair, "--processes",
                                    "4"), 190 + 3 * (30 + 20) + 30)
        for profile in ("oq2004", "qsnet3"):
            self.assertEqual(self.added("hardware", "allreduce", self.HOST, *pair, "--profile",
                                        profile, "--processes", "4"), 170 + 3 * (30 + 20) + 30)
        # a program posts 5 segments, one after the other; before, 4 of them waited in the unit
        long = ("--group-size", "2", "--bytes", "1200")
        self.assertEqual(self.added("hardware", "allreduce", (("host_send_ps", 9000000),), *long),
                         5 * 9000 - 4 * 2 * (16 + 30 * 4))

    def test_times_of_the_host__do_not_depend_on_the_threads(self):
        settings = [word for name, ps in self.HOST for word in ("--set", f"{name}={ps}")]
        for pattern in ("barrier", "allreduce", "reduce"):
            for profile in ("oq2004", "qsnet3"):
                args = ("--profile", profile, "--interval", "30us", "--skew", "10us", *settings)
                size = () if pattern == "barrier" else ("--bytes", "2000")
                runs = [self.by("hardware", pattern, *args, *size, "--threads", threads)
                        for threads in ("1", "2")]
                self.assertEqual(runs[0]["digest"], runs[1]["digest"])

    def test_a_pass_through_a_combine_unit__takes_its_time(self):
        for size, passes in (("2", 1), ("16", 2)):
            self.assertEqual(self.added("hardware", "allreduce", (("combine_ps", 500000),),
                                        "--group-size", size), 500 * passes)

    def test_the_root_of_a_conditional_barrier__takes_its_time(self):
        self.assertEqual(self.added("hardware", "barrier", (("barrier_root_ps", 500000),),
                                    "--profile", "qsnet3"), 500)

    def test_the_bus__limits_the_rate(self):
        got = self.json("--topo", "kary:4,2", "--pattern", "complement", "--load", "200%", *SHORT,
                        "--set", "bus_ps_per_byte=2000")
        self.assertAlmostEqual(got["source_bytes_per_s"]["mean"], 500e6, delta=5e6)

    def by(self, how, pattern, *args):
        return self.json("--topo", "kary:4,2", "--pattern", pattern, "--collective", how,
                         "--operations", "9", *args)

    def test_noise__delays_and_is_reproducible(self):
        for how in ("hardware", "dissemination", "tree"):
            with self.subTest(how=how):
                apart = ("--interval", "1234567ns")
                quiet = self.by(how, "barrier", *apart)
                none = self.by(how, "barrier", *apart, "--noise", "1000ns:0ns")
                self.assertEqual(none["digest"], quiet["digest"])
                runs = [self.by(how, "barrier", *apart, "--noise", "1ms:200us", "--threads",
                                threads) for threads in ("1", "2")]
                self.assertEqual(runs[0]["digest"], runs[1]["digest"])
                self.assertEqual(runs[0]["latency_ns"], runs[1]["latency_ns"])
                self.assertGreaterEqual(runs[0]["latency_ns"]["min"], quiet["latency_ns"]["min"])
                self.assertGreater(runs[0]["latency_ns"]["mean"], quiet["latency_ns"]["mean"])
                self.assertEqual(runs[0]["collectives"]["noise_length_ns"], 200000)
                other = self.by(how, "barrier", *apart, "--noise", "1ms:200us", "--seed", "2")
                self.assertNotEqual(other["latency_ns"], runs[0]["latency_ns"])

    def test_noise__of_almost_all_time_is_accepted(self):
        for how in ("hardware", "dissemination", "tree"):
            got = self.by(how, "allreduce", "--noise", "1000ns:999ns")
            self.assertEqual(got["collectives"]["operations"], 9)

    def test_series__adds_up_to_what_was_accepted(self):
        got = self.json("--topo", "kary:4,2", "--load", "0.4", *SHORT, "--series", "5000ns",
                        "--threads", "2")
        self.assertEqual(set(got), OPEN | {"series"})
        self.assertEqual(got["series"]["window_ns"], 5000)
        windows = got["series"]["payload_bytes"]
        self.assertEqual(len(windows), 7)   # one of the warm-up, six of the measurement
        wire = sum(windows[1:]) * 256 / 240
        self.assertAlmostEqual(wire / (30000 * 1.25 * got["nodes"]), got["accepted"], places=7)
        alone = self.json("--topo", "kary:4,2", "--load", "0.4", *SHORT, "--series", "5000ns",
                          "--threads", "1")
        self.assertEqual(alone["series"], got["series"])
        text = self.fabemu("traffic", "--load", "0.4", *SHORT, "--series", "5000ns").stdout
        self.assertEqual(len(text.partition("  series ")[2].splitlines()), 1 + 7)

    def test_series_with_faults__has_times_of_links_and_tables(self):
        path = os.path.join(self.dir, "schedule")
        with open(path, "w") as f:
            f.write("at=20us for=100us link-down link=0:4\n")
        got = self.json("--profile", "qsnet3", "--topo", "kary:4,2", "--load", "0.5", "--warmup",
                        "10000ns", "--measure", "240000ns", "--series", "10000ns", "--faults", path)
        self.assertEqual(got["faults"]["links_between_switches"], 16)
        changes = [(change["links_out"], change["new_tables"])
                   for change in got["faults"]["changes"]]
        self.assertEqual(changes, [(1, False), (1, True), (0, False), (0, True)])
        times = [change["at_ns"] for change in got["faults"]["changes"]]
        self.assertEqual(times, sorted(times))
        self.assertEqual(times[0], 20000)
        self.assertEqual(len(got["series"]["payload_bytes"]), 25)

    def test_permutation__comes_from_a_file(self):
        path = os.path.join(self.dir, "pairs")
        with open(path, "w") as f:
            f.write("# two pairs\n0 15\n15 0\n3 4\n")
        got = self.json("--pattern", "file:" + path, "--load", "0.2")
        self.assertEqual(got["senders"], 3)
        with open(path, "a") as f:
            f.write("5 4\n")
        self.one_line(self.fabemu("traffic", "--pattern", "file:" + path), 2, path, "line 5",
                      "node 4")

    def test_text__is_complete(self):
        done = self.fabemu("traffic", "--topo", "kary:4,2", "--load", "0.4", *SHORT)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for word in ("uniform on kary:4,2", "16 nodes", "throughput", "latency", "digest"):
            self.assertIn(word, done.stdout)

    def test_table_of_loads__has_80_columns_and_separators(self):
        done = self.fabemu("traffic", "--topo", "kary:4,2", "--load", "0.4,150%", *SHORT)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        head, *rows = [line for line in done.stdout.splitlines() if not line.startswith("#")]
        self.assertIn("median/ns", head)
        self.assertEqual(len(rows), 2)
        self.assertLessEqual(max(map(len, (head, *rows))), 80)
        self.assertRegex(rows[0], r" \d,\d{3}\.\d ")
        self.assertTrue(rows[1].endswith(" saturated"), rows[1])

    def test_table_of_loads__has_80_columns_and_separators__with_long_messages(self):
        done = self.fabemu("traffic", "--topo", "kary:4,2", "--bytes", "1MB", "--load", "0.5,150%",
                           "--set", "link_ps_per_byte=20000", "--sources", "4", "--warmup", "1ns",
                           "--measure", "900ms")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        head, *rows = [line for line in done.stdout.splitlines() if not line.startswith("#")]
        for row in rows:
            self.assertLessEqual(len(row), 80)
            self.assertRegex(row[:len(head)], r"^.{25}( +[\d.,]+( m?s)?){4}$")
            for column in (25, 36, 47, 58):
                self.assertEqual(row[column], " ", row)

    def test_no_message_in_the_measurement__has_a_hint(self):
        done = self.fabemu("traffic", "--topo", "kary:4,2", "--bytes", "1MB", "--load", "0.01",
                           "--measure", "1us")
        self.one_line(done, 0, "load 0.01: no source sent a message in the measurement of 1.00 us",
                      "--measure makes it longer")

    def test_terminal__shows_progress_and_wipes_it(self):
        master, slave = pty.openpty()
        process = subprocess.Popen([self.command, "traffic", "--topo", "kary:8,2", "--load", "0.9",
                                    "--measure", "3ms"], env=self.env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=slave)
        os.close(slave)
        out, _ = process.communicate(timeout=60)
        err = b""
        try:
            while True:
                data = os.read(master, 4096)
                if not data:
                    break
                err += data
        except OSError:  # the remote end of the terminal is closed
            pass
        os.close(master)
        self.assertEqual(process.returncode, 0)
        self.assertIn(b" % done", err)
        self.assertTrue(err.endswith(b"\r\x1b[K"), err[-40:])
        self.assertNotIn(b"% done", out)

    # --- it is interrupted, or nobody takes what it prints ------------------------------------

    def interrupt(self, *args, load=1):
        """Interrupt it at its @load-th load, which takes minutes; returns its output. Its error
        message says how much of the run was done."""
        path = os.path.join(self.dir, "t")
        process = subprocess.Popen([self.command, "traffic", "--topo", "kary:4,2", *args,
                                    "--telemetry", path, "--every", "1000000ns"],
                                   env=self.env,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.started.append(process)

        def is_at_load():
            with contextlib.suppress(FileNotFoundError), open(path) as f:
                return f.read().count("telemetry_shape") == load
        self.assertTrue(until(is_at_load))
        os.unlink(path)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        loads = f", load {load} of 2" if load > 1 else ""
        self.assertRegex(err, r"^fabemu: traffic: interrupted after [\d.]+ [mun]?s of simulated "
                         rf"time: \d+ % done{loads}\n$")
        return out

    def test_silence__ends_with_a_line_of_progress(self):
        process = self.start("traffic", "--topo", "kary:4,2", "--pattern", "barrier",
                             "--operations", "1000000000")
        self.assertRegex(process.stderr.readline(),
                         r"^fabemu: traffic: 0 % done, \d+ s so far\n$")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (130, ""))

    def test_silence__while_the_network_is_built(self):
        """The network comes from a pipe, which stays open until fabemu has printed a line."""
        path = os.path.join(self.dir, "slow.topo")
        os.mkfifo(path)
        process = self.start("traffic", "--topo", path)
        with open(path, "w") as pipe:
            while not select.select([process.stderr], [], [], 1)[0]:
                print("# a comment", file=pipe, flush=True)
        self.assertRegex(process.stderr.readline(),
                         r"^fabemu: traffic: building the network, \d+ s so far\n$")
        process.communicate(timeout=60)

    def test_interrupt__prints_completed_loads(self):
        long = ("--load", "0.000001,0.9", "--warmup", "1ns", "--measure", "1000000000ns")
        got = json.loads(self.interrupt(*long, "--json", load=2))
        self.assertEqual([one["load"] for one in got], [1e-6])
        self.assertEqual(len(self.table(self.interrupt(*long, load=2))), 1)
        alone = ("--load", "0.9", "--measure", "1000000000ns")
        self.assertIsNone(json.loads(self.interrupt(*alone, "--json")))
        self.assertEqual(self.interrupt(*alone), "")
        self.assertEqual(self.interrupt("--pattern", "barrier", "--operations", "1000000000"), "")

    def test_output__unwritable_is_an_error(self):
        for args in ((), ("--json",), ("--load", "0.1,0.2")):
            with open("/dev/full", "w") as full:
                done = subprocess.run([self.command, "traffic", *args, *SHORT], env=self.env,
                                      stdout=full,
                                      stderr=subprocess.PIPE, text=True, timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assertIn("standard output", done.stderr)

    # --- past saturation --------------------------------------------------------------------

    def test_saturation__ends_by_itself_and_is_reported(self):
        got = self.json("--topo", "kary:4,2", "--load", "150%")
        self.assertIs(got["saturated"], True)
        self.assertGreater(got["offered"], 1.4)
        self.assertLess(got["accepted"], 1)
        self.assertGreater(got["backlog"], 100)
        self.assertGreater(got["undelivered"], 100)
        done = self.fabemu("traffic", "--topo", "kary:4,2", "--load", "0.5,150%")
        rows = self.table(done.stdout)
        self.assertEqual([row.endswith("saturated") for row in rows], [False, True])

    def test_table__reports_that_there_were_no_messages(self):
        done = self.fabemu("traffic", "--load", "0.1,0.2", "--warmup", "1ns", "--measure", "1ns")
        rows = self.table(done.stdout)
        self.assertEqual([row.split()[3:7] for row in rows], [["-"] * 4] * 2)

    def test_faults__that_did_not_begin_are_reported(self):
        path = os.path.join(self.dir, "late.faults")
        with open(path, "w") as f:
            f.write("at=1us for=1us stuck-port random\nat=1s stuck-port random\n")
        done = self.fabemu("traffic", "--faults", path, *SHORT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("ended before 1 of its 2 faults began", done.stderr)

    def test_steady__is_reported(self):
        args = ("--topo", "kary:4,2", "--load", "150%", "--warmup", "1000ns", "--measure",
                "60000ns")
        self.assertIs(self.json(*args)["steady"], False)
        self.assertIs(self.json("--topo", "kary:4,1", "--load", "0.3")["steady"], True)

    def test_rates_per_source(self):
        """Without a payload they are in messages, which are printed once."""
        for size, times in ("0", 1), ("240", 2):
            done = self.fabemu("traffic", "--bytes", size, *SHORT)
            line = re.search(r"  per source .*\n(?: {15}.*\n)*", done.stdout)[0]
            self.assertEqual(line.count(" million "), times, line)
            self.assertEqual(line.count("messages"), 1, line)

    # --- what it refuses ------------------------------------------------------------------------

    def test_usage_errors__are_one_line_and_exit_2(self):
        for args, words in (
                (("--load", "0"), ["--load 0", "above 0"]),
                (("--load", "0.1,x"), ["0.1,x"]),
                (("--load", "0.1:0.5"), ["0.1:1:0.1"]),
                (("--load", "0.5:0.1:0.1"), ["0.5:0.1:0.1"]),
                (("--load", "5"), ["at most 1", "such as 50%"]),
                (("--load", "0.5:1.5:0.5"), ["at most 1"]),
                (("--measure", "100"), ["--measure 100", "with its unit"]),
                (("--pattern", "barrier", "--skew", "5"), ["--skew 5", "with its unit"]),
                (("--pattern", "barrier", "--noise", "1000:10"), ["with their units"]),
                (("--pattern", "barrier", "--tclass", "fast"), ["default, bulk or latency"]),
                (("--pattern", "barrier", "--storage", "0"), ["a number of servers"]),
                (("--pattern", "barrier", "--storage", "000000000000002x"),
                 ["a number of servers"]),
                (("--pattern", "barrier", "--storage", "2:fast"), ["a traffic class"]),
                (("--pattern", "barrier", "--storage", "1"), ["0 of 16 nodes are in no group"]),
                (("--topo", "kary:4,2", "--pattern", "barrier", "--tclass", "bulk"),
                 ["--profile qsnet3"]),
                (("--pattern", "uniform", "--tclass", "bulk"), ["--tclass", "--pattern uniform"]),
                (("--load", "1e-10"), ["at most 9 decimals"]),
                (("--pattern", "multicast", "--fanout", "0x4"), ["--fanout 0x4"]),
                (("--pattern", "hotspot:0:0x1"), ["hotspot:NODE:FRACTION"]),
                (("--pattern", "file:/no/such/file"), ["/no/such/file", "No such file"]),
                (("--pattern", "file:/tmp"), ["Is a directory"]),
                (("--pattern", "file:/dev/zero"), ["cannot read", "File too large"]),
                (("--pattern", "allreduce", "--set", "buffers=input"), ["combine units"]),
                (("--pattern", "barrier", "--set", "combine_states=100"), ["combine_states"]),
                (("--pattern", "reduce", "--interval", "1s", "--operations", "1000000000"),
                 ["53 days"]),
                (("--pattern", "round"), ["no pattern 'round'", "uniform"]),
                (("--profile", "qsnet3", "--set", "pool_slots=97"), ["pool_slots", "96"]),
                (("--profile", "qsnet3", "--set", "pool_slots=0", "--pattern", "multicast"),
                 ["set pool_slots to 1"]),
                (("--pattern", "permutation:0"), ["permutation:NUMBER", "1 or more"]),
                (("--pattern", "multicast", "--multicast", "trees"), ["hardware, messages, tree"]),
                (("--pattern", "multicast", "--multicast", "tree:0"), ["tree:K", "1 to 65536"]),
                (("--pattern", "multicast", "--skew", "5ns"), ["--skew cannot be used"]),
                (("--pattern", "barrier", "--interval", "10ns", "--skew", "11ns"),
                 ["skew of 11 ns", "--interval"]),
                (("--series", "0ns"), ["--series 0ns"]),
                (("--series", "1000ns"), ["--series", "--measure"]),
                (("--series", "1us", *SHORT, "--load", "0.1,0.2"), ["--series", "needs --json"]),
                (("--series", "1ns", "--measure", "1000000ns"), ["100000", "longer window"]),
                (("--pattern", "barrier", "--series", "1000ns"), ["--series cannot be used"]),
                (("--noise", "1000ns:10ns"), ["--noise cannot be used"]),
                (("--pattern", "barrier", "--noise", "1000"), ["PERIOD:LENGTH"]),
                (("--pattern", "barrier", "--noise", "10ns:10ns"), ["LENGTH shorter than PERIOD"]),
                (("--pattern", "barrier", "--noise", "0ns:0ns"), ["PERIOD:LENGTH"]),
                (("--pattern", "barrier", "--noise", ":1"), ["PERIOD:LENGTH"]),
                (("--pattern", "barrier", "--noise", "9" * 40 + ":1"), ["PERIOD:LENGTH"]),
                *((("--pattern", "barrier", "--collective", how),
                   ["hardware, dissemination or tree", "2 to 16"])
                  for how in ("ring", "tree:", "tree:1", "dissemination:17", "hardware:4")),
                (("--pattern", "barrier", "--processes", "0"), ["--processes 0", "1 to 1024"]),
                (("--processes", "2"), ["--processes cannot be used"]),
                (("--collective", "tree"), ["--collective cannot be used"]),
                (("--pattern", "reduce", "--collective", "tree"), ["reduce by messages"]),
                (("--pattern", "allreduce", "--collective", "dissemination:3", "--group-size", "8"),
                 ["powers of two", "rounds of 3"]),
                (("--pattern", "allreduce", "--collective", "dissemination", "--group-size", "12"),
                 ["powers of two", "12", "--collective tree"]),
                (("--pattern", "transpose", "--topo", "kary:2,3"), ["power of four", "not 8"]),
                (("--pattern", "reversal", "--topo", "kary:3,2"), ["power of two", "not 9"]),
                (("--pattern", "hotspot:99"), ["no node 99"]),
                (("--pattern", "hotspot:node01"), ["no node node01", "no names"]),
                (("--fanout", "3"), ["--fanout cannot be used", "uniform"]),
                (("--pattern", "reduce", "--load", "0.1"), ["--load cannot be used"]),
                (("--pattern", "barrier", "--bytes", "8"), ["--bytes cannot be used"]),
                (("--operations", "5"), ["--operations cannot be used"]),
                (("--pattern", "multicast", "--fanout", "9"), ["mean fanout of 9", "from 1 to 8"]),
                (("--pattern", "multicast", "--sets", "60000"), ["65536 collective addresses"]),
                (("--pattern", "reduce", "--groups", "9"), ["2 or more"]),
                (("--pattern", "reduce", "--group-size", "17"), ["the network has 16 nodes"]),
                (("--sources", "17"), ["17 sources", "16 nodes"]),
                (("--sources", "some"), ["first:N"]),
                (("--arrivals", "late"), ["poisson or fixed"]),
                (("--bytes", "1e3x"), ["--bytes 1e3x"]),
                (("--warmup", "0ns"), ["a time from 1ns"]),
                (("--clock", "raw"), ["must be virtual"]),
                (("--threads", "0"), ["--threads 0"]),
                (("--load",), ["needs a value"]),
                (("--speed", "3"), ["--speed"]),
                (("--cluster", "/none/such"), ["/none/such"]),
                (("--cluster", "a", "--faults", "b"), ["--faults and --cluster", "one host"]),
                (("now",), ["'now'"]),
        ):
            with self.subTest(args=args):
                self.one_line(self.fabemu("traffic", *args), 2, *words)

    def test_virtual_clock__is_not_for_up(self):
        self.one_line(self.fabemu("up", "--clock", "virtual"), 2, "--clock virtual", "raw or real",
                      "fabemu run, traffic and compare")
        self.assertEqual(self.fabemu("traffic", "--clock", "virtual", *SHORT).returncode, 0)

    def test_larger_than_memory__is_refused_at_once(self):
        done = self.fabemu("traffic", "--topo", "kary:2,20")
        # a slow host reports after 9 s that it still builds the network
        done.stderr = re.sub("fabemu: traffic: building the network.*\n", "", done.stderr)
        self.one_line(done, 1, "kary:2,20 needs", "GiB", "available")

    def test_help__names_every_option_with_its_unit(self):
        done = self.fabemu("traffic", "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for word in ("--pattern", "--load", "fraction of link rate", "--warmup TIME",
                     "--interval TIME", "--fanout-law", "--group-size", "--seed", "--threads",
                     "--json"):
            self.assertIn(word, done.stdout)


if __name__ == "__main__":
    main()
