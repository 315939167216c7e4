#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""kills - a rank, the fabric, or the supervisor of an MPI run is killed at a random moment, or a
rank is stopped for a while, again and again with the same name of the fabric. Survivors get an
error, everything that must end ends, the next run starts at once, and nothing is left behind. A
failure prints the seed that replays it."""
import contextlib
import glob
import os
import pathlib
import random
import re
import signal
import statistics
import sys
import time

import common

WHATS = ("rank", "rank", "fabric", "supervisor", "stop")
PROGRAM = "mpi_rounds"
NAMES = {"rank": PROGRAM, "stop": PROGRAM, "fabric": "fabemu-fabric"}
NAME = f"kills{os.getpid()}"  # of all runs; other tests may run on this machine
FAILURES = 3  # stop after this many
STOP_S = 2.0  # longest stop of a rank


class Event:
    """The random event of one run."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.seed = seed
        self.what = rng.choice(WHATS)
        self.ranks = rng.choice((2, 3, 4))
        self.profile = rng.choice(("oq2004", "qsnet3"))
        self.threads = rng.choice(("1", "2", "device"))
        # From its start on, or once ranks communicate. Open MPI's launcher may wait for ever for a
        # rank that dies before it has joined its job.
        self.talking = rng.random() < 0.75 or self.what == "rank"
        self.wait_s = rng.uniform(0, 0.3 if self.talking else 0.8)
        self.stop_s = rng.uniform(0, STOP_S)
        self.pick = rng.random()
        self.at_s = None     # when it happened: monotonic clock
        self.hit = None

    def __str__(self):
        return (f"{self.what} over {self.profile} with {self.ranks} ranks, threads {self.threads}, "
                f"{self.wait_s:.3f} s after {'ranks talk' if self.talking else 'the start'}")

    def options(self):
        return ["--name", NAME, "--topo", "kary:2,2", "--profile", self.profile, "--threads",
                self.threads]

    def command(self, fabemu, program):
        """After a rank's death the others continue without it."""
        dies = self.what == "rank"
        return [fabemu, "run", *self.options(), *(["--keep-going"] if dies else []), "--",
                "mpirun", *(["--enable-recovery"] if dies else []), "-np", str(self.ranks),
                program, "--seconds", "1", "--survive"]

    def victim(self, process, mark):
        """The target process; None: not started yet."""
        if self.what == "supervisor":
            return process.pid
        name = NAMES[self.what][:15]
        pids = sorted(pid for pid, text in common.marked(mark).items()
                      if text.rsplit("(", 1)[0] == name)
        return pids[int(self.pick * len(pids))] if pids else None

    def fall(self, process, mark, output):
        """Trigger the event when it is due."""
        give_up = time.monotonic() + 30
        while self.talking and b"going" not in output.read_bytes():
            if process.poll() is not None or time.monotonic() > give_up:
                return
            time.sleep(0.01)
        time.sleep(self.wait_s)
        self.hit = self.victim(process, mark)
        with contextlib.suppress(ProcessLookupError):
            if self.hit is None:
                return
            self.at_s = time.monotonic()
            if self.what != "stop":
                os.kill(self.hit, signal.SIGKILL)
                return
            os.kill(self.hit, signal.SIGSTOP)
            time.sleep(self.stop_s)
            os.kill(self.hit, signal.SIGCONT)


def shared_files():
    return {path for folder in ("/dev/shm", os.environ.get("XDG_RUNTIME_DIR", "/run"), "/tmp")
            for below in ("*fabemu*", "*fabemu*/*") for path in glob.glob(f"{folder}/{below}")
            if NAME in pathlib.Path(path).name}


def judge(checks, blow, result, alone):
    """Check that a run ended as required; returns how long each survivor took to notice, in
    seconds."""
    knows = [float(at) for at in re.findall(r"knows at (\d+\.\d+)", result.output)]
    wrong = re.findall(r"(\d+) rounds, (\d+) wrong", result.output)
    ended = checks.that(result.status is not None, f"did not end: {alone}\n{result.tail()}")
    checks.that(not result.left, f"left {', '.join(result.left)} behind: {alone}\n{result.tail()}")
    checks.that(all(int(count) == 0 for _, count in wrong), f"wrong data: {alone}\n{result.tail()}")
    if not ended or blow.hit is None:
        return []
    if blow.what == "stop":
        checks.that(result.status == 0 and len(wrong) == 1,
                    f"not the same after a stop: {alone}\n{result.tail()}")
        return []
    checks.that(result.status != 0 or wrong, f"ended as if nothing had happened: {alone}"
                f"\n{result.tail()}")
    if blow.what != "rank" or wrong:
        return []
    checks.that(len(knows) == blow.ranks - 1,
                f"{len(knows)} of {blow.ranks - 1} survivors know: {alone}\n{result.tail()}")
    return [at - blow.at_s for at in knows]


def main():
    args = common.arguments("Kill parts of MPI runs at random moments, again and again.",
                            runs=(int, 200, "runs in a row"),
                            timeout=(int, 60, "seconds a run may take"),
                            seed=(int, 0, "the first run's seed, 0: draw one"))
    checks = common.Checks("kills")
    seed = args.seed or random.SystemRandom().randrange(1, 2 ** 31)
    program = str(pathlib.Path(args.fabemu).parent / "tests" / PROGRAM)
    if not checks.that(os.access(program, os.X_OK), f"no program at {program}: build first"):
        return checks.end()
    before = shared_files()
    count = {}
    known = []
    for run in range(args.runs):
        if checks.failed >= FAILURES:
            break
        blow = Event(seed + run)
        count[blow.what] = count.get(blow.what, 0) + 1
        of_run = common.Checks("kills")
        with common.scratch() as cwd:
            result = common.run(blow.command(args.fabemu, program), cwd, args.timeout,
                                during=blow.fall)
        alone = f"--runs 1 --seed {blow.seed}: {blow}"
        known += judge(of_run, blow, result, alone)
        left = shared_files() - before
        of_run.that(not left, f"left {', '.join(sorted(left))} behind: {alone}")
        checks.that(not of_run.failed, f"run {run + 1} is wrong: {alone}")
    what = ", ".join(f"{n} times {name}" for name, n in sorted(count.items()))
    if known:
        what += (f"; {len(known)} survivors knew after {statistics.median(known) * 1000:.0f} ms, "
                 f"{max(known) * 1000:.0f} ms at most")
    return checks.end(f"; {what}, seed {seed}")


if __name__ == "__main__":
    sys.exit(main())
