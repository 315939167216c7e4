#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""goal_test.py - fabemu traffic --goal: output, errors, many ranks, and a model of random programs.

   tests/cli/goal_test.py --fabemu build/fabemu [unittest options]
"""
import json
import os
import random
import re

from cli_helpers import FabemuCase, flat, main

POLL_PS = 50_000
# A network that is so fast that messages do not wait for each other.
FAST = ("link_ps_per_byte=1", "channel_ps=1000", "switch_ps=1000", "credit_ps=1000")
PINGPONG = """num_ranks 2
rank 0 {
there: send 8b to 1 tag 1
back: recv 8b from 1 tag 2
back requires there
}
rank 1 {
there: recv 8b from 0 tag 1
back: send 8b to 0 tag 2
back requires there
}
"""


class Model:
    """A random program, and when its ranks end in a network of infinite bandwidth.

    The program is a list of calcs and messages. Each operation waits for earlier ones only, and
    for the one before it on its cpu, so that nothing depends on the order in which a cpu starts
    operations. Messages have tags of their own, so that nothing depends on the order of arrival.
    """

    def __init__(self, draw, ranks, items):
        self.draw = draw
        self.lines = [[] for _ in range(ranks)]
        self.ops = [[] for _ in range(ranks)]  # of each rank: start and end of its operations, ps
        self.last = [{} for _ in range(ranks)]  # the last operation of each cpu
        for item in range(items):
            if draw.random() < 0.3:
                rank = draw.randrange(ranks)
                ns = draw.choice((0, 1, 500, 20000))
                start = self.add(rank, f"calc {ns}")
                self.ops[rank].append((start, start + ns * 1000))
            else:
                self.message(*draw.sample(range(ranks), 2), item)

    def add(self, rank, text):
        """Write an operation of a rank with its dependencies; return when it starts."""
        index, cpu, start = len(self.ops[rank]), self.draw.randrange(3), 0
        self.lines[rank].append(f"l{index}: {text} cpu {cpu}")
        needs = {(self.last[rank][cpu], "requires")} if cpu in self.last[rank] else set()
        for _ in range(self.draw.randrange(3) if index else 0):
            needs.add((self.draw.randrange(max(0, index - 5), index),
                       self.draw.choice(("requires", "irequires"))))
        for on, how in sorted(needs):
            self.lines[rank].append(f"l{index} {how} l{on}")
            start = max(start, self.ops[rank][on][how == "requires"])
        self.last[rank][cpu] = index
        return start

    @staticmethod
    def flight_ps(*segments):
        """From the start of a send until segments with these payloads are in memory: the
        adapters, two cables, a switch, and the wire, with the settings of FAST."""
        return 1_300_000 * 2 + 3 * 1000 + sum(16 + each for each in segments)

    def message(self, src, dst, tag):
        size = self.draw.choice((0, 8, 192, 193, 8192, 8193, 20000))
        sent = self.add(src, f"send {size}b to {dst} tag {tag}")
        posted = self.add(dst, f"recv {size}b from {src} tag {tag}")
        if size <= 8192:
            segments = 1 + max(0, -(-(size - 192) // 224))
            head = 32 if segments == 1 else 48 + 16 * (segments - 1)
            there = sent + self.flight_ps(size + head + 16 * (segments - 1))
            self.ops[src].append((sent, sent))
            self.ops[dst].append((posted, max(posted, there) + POLL_PS))
            return
        segments = -(-size // 232)
        match = max(posted, sent + self.flight_ps(48))
        there = match + self.flight_ps(32) + self.flight_ps(size + 24 * segments - 16)
        self.ops[src].append((sent, there + POLL_PS + self.flight_ps(24)))
        self.ops[dst].append((posted, there + POLL_PS))

    def text(self):
        blocks = [f"rank {rank} {{\n" + "\n".join(lines) + "\n}\n"
                  for rank, lines in enumerate(self.lines)]
        return f"num_ranks {len(self.lines)}\n" + "".join(blocks)

    def ends_ns(self):
        """The least and the greatest time at which a rank with operations ends."""
        ends = [max(end for _, end in ops) / 1000 for ops in self.ops if ops]
        return min(ends), max(ends)


class GoalTest(FabemuCase):
    def write(self, text):
        path = os.path.join(self.dir, "p.goal")
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        return path

    def test_text__counts_one_in_the_singular(self):
        path = self.write("num_ranks 2\nrank 0 {\nsend 1b to 1\n}\nrank 1 {\nrecv 1b from 0\n}\n")
        text = self.fabemu("traffic", "--topo", "kary:2,1", "--goal", path).stdout
        self.assertIn("  messages     1, 1 byte\n", text)
        self.assertRegex(flat(text), r"1 thread on 1 host; 1 hop, ")
        self.assertRegex(text, r"  latency +[0-9.,]+ ns mean, ")  # one sample has no confidence

    def json(self, *args):
        done = self.fabemu("traffic", *args, "--json")
        errors = re.sub(r"(?m)^fabemu: traffic: .*, \d+ s so far\n", "", done.stderr)
        self.assertEqual((done.returncode, errors), (0, ""), args)
        return json.loads(done.stdout)

    def test_pingpong__takes_as_long_as_other_traffic_with_the_librarys_header(self):
        path = self.write(PINGPONG)
        for topo in (("kary:2,2",), ("kary:4,1",), ("qsnet:16", "--profile", "qsnet3")):
            with self.subTest(topo=topo):
                got = self.json("--topo", *topo, "--goal", path)
                same = self.json("--topo", *topo, "--pattern", "neighbour", "--sources", "first:1",
                                 "--bytes", str(8 + 32), "--load", "0.001", "--measure", "1ms")
                one = same["latency_ns"]["min"]
                self.assertEqual(got["latency_ns"]["min"], one)
                self.assertEqual(got["latency_ns"]["max"], one)
                self.assertEqual(got["goal"]["finish_ns"],
                                 {"min": one + 50, "median": 2 * (one + 50),
                                  "max": 2 * (one + 50)})

    def test_collectives__take_as_long_as_other_traffic(self):
        for pattern, text in (("barrier", "barrier"), ("allreduce", "allreduce 8b SUM U64"),
                              ("reduce", "reduce 8b SUM U64 root 0")):
            blocks = [f"rank {rank} {{\ncoll {text} group 1\n}}\n" for rank in range(16)]
            path = self.write("num_ranks 16\ngroup 1 ranks 0-15\n" + "".join(blocks))
            for topo in (("kary:4,2",), ("qsnet:16", "--profile", "qsnet3")):
                with self.subTest(pattern=pattern, topo=topo):
                    got = self.json("--topo", *topo, "--goal", path)
                    same = self.json("--topo", *topo, "--pattern", pattern, "--operations", "1",
                                     *(() if pattern == "barrier" else ("--bytes", "8")))
                    self.assertEqual(got["goal"]["completion_ns"], same["collectives"]["mean_ns"])

    def test_json__has_the_promised_fields(self):
        path = self.write(PINGPONG)
        got = self.json("--topo", "kary:4,1", "--goal", path)
        self.assertEqual(set(got["goal"]), {"file", "ranks", "operations", "messages", "bytes",
                                            "collectives", "completion_ns", "finish_ns",
                                            "blocked_ns"})
        self.assertEqual(set(got["goal"]["blocked_ns"]), {"min", "median", "max"})
        self.assertEqual((got["pattern"], got["goal"]["file"]), ("goal", path))
        self.assertEqual([got["goal"][field] for field in ("ranks", "operations", "messages",
                                                           "bytes")], [2, 4, 2, 16])
        self.assertEqual((got["offered"], got["accepted"], got["saturated"]), (None, None, False))
        self.assertEqual((got["messages"], got["segments"]), (2, 2))
        self.assertEqual(got["goal"]["completion_ns"], got["goal"]["finish_ns"]["max"])

    def test_text__summarises_ranks(self):
        path = self.write("num_ranks 2\nrank 0 { calc 700 }\nrank 1 {\ncalc 300\n}")
        done = self.fabemu("traffic", "--topo", "kary:4,1", "--goal", path)
        self.assertIn(f"file         {path}: 2 ranks, 2 operations", done.stdout)
        self.assertIn("completion   700.0 ns", done.stdout)
        self.assertIn("ranks end    300.0 ns least, 700.0 median, 700.0 most", done.stdout)
        self.assertIn("blocked      0.0 ns least, 0.0 median, 0.0 most", done.stdout)
        for word in ("messages", "collectives", "latency"):  # the file has none
            self.assertNotIn(word, done.stdout)

    def test_text__has_collectives_without_messages(self):
        blocks = [f"rank {rank} {{\ncoll barrier group 1\n}}\n" for rank in range(4)]
        path = self.write("num_ranks 4\ngroup 1 ranks 0-3\n" + "".join(blocks))
        done = self.fabemu("traffic", "--topo", "kary:4,1", "--goal", path)
        self.assertIn("  collectives  4 calls, counted at each rank, run by the network\n",
                      done.stdout)
        for word in ("messages     ", "latency"):
            self.assertNotIn(word, done.stdout)

    def test_errors__name_what_is_wrong(self):
        path = self.write(PINGPONG)
        missing = os.path.join(self.dir, "missing")
        for args, status, want in (
                (("--goal", path, "--pattern", "uniform"), 2,
                 "--goal and --pattern cannot be used together"),
                (("--goal", path, "--load", "0.5"), 2, f"--load cannot be used with --goal {path}"),
                (("--goal", path, "--bytes", "8"), 2, "--bytes cannot be used with --goal"),
                (("--goal", path, "--every", "1us"), 2, "--every needs --telemetry or --web"),
                (("--goal", path, "--cluster", "hosts"), 2, "--goal and --cluster cannot be used"),
                (("--goal", missing), 2, f"cannot read {missing}: No such file or directory"),
                (("--goal", self.dir), 2, f"cannot read {self.dir}: Is a directory"),
                (("--goal", path, "--topo", "kary:2,1", "--nodes", "1"), 2, "")):
            with self.subTest(args=args):
                done = self.fabemu("traffic", "--topo", "kary:4,1", *args)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(want, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_errors__of_files_end_at_once(self):
        for text, status, want in (
                ("num_ranks 1\nrank 0 {\nl1: snd 8b to 0\n}", 2,
                 "line 3: found 'snd', but expected send, recv, calc or coll"),
                ("num_ranks 2\nrank 0 {\nrecv 8b from 1 tag 5\n}\nrank 1 { }", 1,
                 "rank 0: recv of 8 bytes from 1 tag 5 never matched (line 3)"),
                ("num_ranks 2\nrank 0 {\nsend 8b to 1\n}\nrank 1 { }", 1,
                 "rank 0: send of 8 bytes to 1 tag 0 never received (line 3)")):
            done = self.fabemu("traffic", "--topo", "kary:4,1", "--goal", self.write(text))
            self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
            self.assertIn(want, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)

    def test_random_programs__end_as_in_the_model(self):
        draw = random.Random(int(os.environ.get("FABEMU_SEED", "1")))
        for _ in range(12):
            model = Model(draw, draw.randrange(2, 17), draw.randrange(1, 400))
            got = self.json("--topo", "kary:16,1", "--goal", self.write(model.text()),
                            *(word for setting in FAST for word in ("--set", setting)))
            finish = got["goal"]["finish_ns"]
            for name, want in zip(("min", "max"), model.ends_ns()):
                self.assertGreaterEqual(finish[name] + 0.001, want)
                self.assertLessEqual(finish[name], want * 1.02)

    def test_many_ranks__take_seconds(self):
        ranks = 65536
        blocks = [f"rank {r} {{\na: send 8b to {(r + 1) % ranks}\nb: recv 8b from "
                  f"{(r - 1) % ranks}\nc: calc 100\nc requires b\n}}\n" for r in range(ranks)]
        path = self.write(f"num_ranks {ranks}\n" + "".join(blocks))
        got = self.json("--topo", "kary:16,4", "--threads", "2", "--goal", path)
        self.assertEqual((got["goal"]["messages"], got["goal"]["operations"]), (ranks, 3 * ranks))
        self.assertEqual(got["goal"]["finish_ns"]["min"], 2600 + 40 + 90 + 44.8 + 50 + 100)


if __name__ == "__main__":
    main()
