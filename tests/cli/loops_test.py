#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""loops_test.py - in simulated time, the loops of OSU's benchmarks (tests/mpi/loops.c) take the
time that fabemu traffic computes, to the nanosecond that the program's clock shows.

   tests/cli/loops_test.py --fabemu build/fabemu [unittest options]
"""
import json
import os
import re
import shutil
import unittest

from cli_helpers import FabemuCase, main

NETWORKS = {"oq2004": "kary:4,3", "qsnet3": "qsnet:64"}
LOOPS = ("latency", "allreduce", "bcast", "barrier")
BARRIER = "coll barrier group 1"
READ_NS, POLL_NS = 20, 50  # docs/manual.md
PROBE_NS = 10**9


def call(loop, size, rank):
    """The operations of the call that a loop times."""
    if loop == "latency":
        ends = [f"send {size}b to {1 - rank}", f"recv {size}b from {1 - rank}"]
        return ends if rank == 0 else ends[::-1] if rank == 1 else []
    return [{"allreduce": f"coll allreduce {size}b SUM I8 group 1",
             "bcast": f"coll broadcast {size}b root 0 group 1", "barrier": BARRIER}[loop]]


def operations(loop, size, rank):
    """Operations of three iterations, and the indices of the last two readings of the clock."""
    read = [f"calc {READ_NS}"] if loop != "latency" or rank == 0 else []
    after = [BARRIER] if loop in ("allreduce", "bcast") else []
    timed = read + call(loop, size, rank) + read
    ops = [BARRIER] + 3 * (timed + after) + [BARRIER]
    end = len(ops) - 2 - len(after)
    return ops, (end - len(timed) + 1, end)


@unittest.skipUnless(shutil.which("mpirun"), "needs Open MPI")
class LoopsTest(FabemuCase):
    def traffic(self, profile, *options):
        done = self.fabemu("traffic", "--profile", profile, "--topo", NETWORKS[profile], "--json",
                           *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def computed_ns(self, profile, ranks, loop, size, rank):
        """Time between the last two readings of the clock at this rank. A long calc that begins
        after a reading, on another cpu, shows its time."""
        times = []
        for which in range(2):
            text = f"num_ranks {ranks}\ngroup 1 ranks 0-{ranks - 1}\n"
            for r in range(ranks):
                ops, ends = operations(loop, size, r)
                lines = [f"o{i}: {op}\n" + (f"o{i} requires o{i - 1}\n" if i else "")
                         for i, op in enumerate(ops)]
                if r == rank:
                    lines.append(f"p: calc {PROBE_NS} cpu 1\np requires o{ends[which]}\n")
                text += f"rank {r} {{\n{''.join(lines)}}}\n"
            path = os.path.join(self.dir, "loop.goal")
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
            times.append(self.traffic(profile, "--goal", path)["goal"]["finish_ns"]["max"])
        return (times[1] - times[0]) / (2 if loop == "latency" else 1)

    def measured_ns(self, profile, ranks, size):
        """The mean time of each loop and rank. All iterations take the same time."""
        program = os.path.join(os.path.dirname(self.command), "tests/mpi_loops")
        run = self.start("run", "--clock", "virtual", "--profile", profile, "--topo",
                         NETWORKS[profile], "--", "mpirun", "-np", str(ranks), "--oversubscribe",
                         program, "--iterations", "5", "--bytes", str(size))
        out, err = run.communicate(timeout=300)
        self.assertEqual(run.returncode, 0, out + err)
        lines = re.findall(r"loops: (\w+): rank (\d+): ([\d.]+) ns \(([\d.]+) to ([\d.]+)\)", out)
        self.assertEqual(len(lines), len(LOOPS) * ranks, out)
        for line in lines:
            self.assertLessEqual(float(line[4]) - float(line[3]), 1.001, line)
        return {(loop, int(rank)): float(mean) for loop, rank, mean, _, _ in lines}

    def check(self, profile, ranks, size=8, more_ns=None):
        """@more_ns: by how much each loop takes longer than computed."""
        measured = self.measured_ns(profile, ranks, size)
        for loop in LOOPS:
            for rank in sorted({0, 1, ranks // 2, ranks - 1} if loop != "latency" else {0}):
                with self.subTest(profile, ranks=ranks, size=size, loop=loop, rank=rank):
                    computed = self.computed_ns(profile, ranks, loop, size, rank)
                    computed += (more_ns or {}).get((loop, rank), 0)
                    # the clock shows whole nanoseconds
                    self.assertAlmostEqual(measured[loop, rank], computed, delta=1)
        return measured

    def check_patterns(self, profile, ranks, measured):
        """The pattern's time of an all-reduce is that of the rank that ends last. This also holds
        for a barrier of oq2004, but not of qsnet3: in a loop, each rank begins the next barrier
        when it leaves the last one."""
        for loop in ("allreduce", "barrier") if profile == "oq2004" else ("allreduce",):
            pattern = self.traffic(profile, "--pattern", loop, "--group-size", str(ranks),
                                   "--operations", "5")["collectives"]["mean_ns"]
            self.assertAlmostEqual(max(measured[loop, r] for r in range(ranks)), pattern + READ_NS,
                                   delta=1)

    def test_few_ranks(self):
        for profile in NETWORKS:
            for ranks in (2, 4, 16):
                self.check_patterns(profile, ranks, self.check(profile, ranks))

    def test_64_ranks(self):
        for profile in NETWORKS:
            self.check_patterns(profile, 64, self.check(profile, 64))

    def test_several_segments(self):
        for profile in NETWORKS:
            self.check(profile, 2, 1024)
        # the second segment, 32 bytes on the wire, arrives within a poll that began after the first
        late = POLL_NS - 32 * 0.8
        self.check("oq2004", 2, 256, {("allreduce", 0): late, ("allreduce", 1): late,
                                      ("bcast", 1): late})


if __name__ == "__main__":
    main(jobs=2)
