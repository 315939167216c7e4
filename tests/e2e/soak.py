#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""soak - many short mixed runs in a row, each with another setting and seed: none may hang or give
another result. A failure prints the setting and the seed that replay it."""
import itertools
import random
import sys

import common

RANKS = (4, 2, 3, 8)
CLOCKS = ("raw", "real")
THREADS = ("device", "1", "2", "auto")
COMBINE = ("arrival", "port")
CREDITS = ("row", "counter")
FAILURES = 3  # stop after this many


def settings(rng):
    """Every combination, shuffled, without end."""
    every = list(itertools.product(RANKS, CLOCKS, THREADS, COMBINE, CREDITS))
    while True:
        rng.shuffle(every)
        yield from every


def main():
    args = common.arguments("Run the check program many times under changing settings.",
                            runs=(int, 100, "runs in a row"),
                            timeout=(int, 60, "seconds a run may take"),
                            seed=(int, 0, "replay the runs of this seed, 0: draw one"))
    checks = common.Checks("soak")
    seed = args.seed or random.SystemRandom().randrange(1, 2 ** 31)
    rng = random.Random(seed)
    done = 0
    with common.scratch() as cwd:
        program = common.check_program(checks, args.fabemu)
        for setting in itertools.islice(settings(rng), args.runs if program else 0):
            if checks.failed >= FAILURES:
                break
            run_seed = str(rng.randrange(1, 2 ** 31))
            ranks, clock, threads, combine, credits = setting
            network = rng.choice(sorted(common.NETWORKS))
            options = [*common.NETWORKS[network][0](ranks), "--clock", clock, "--threads", threads,
                       "--set", f"combine_order={combine}", "--set", f"credit={credits}",
                       "--seed", run_seed]
            result, _ = common.fabemu_mpirun(args.fabemu, options, ranks,
                                             [program, "--quick", "--seed", run_seed], cwd,
                                             args.timeout)
            counts = common.checked(result)
            fine = not result.wrong() and counts is not None and counts[0] > 0 and counts[1] == 0
            done += 1
            wrong = result.wrong() or "failed checks"
            checks.that(fine, f"run {done} of --seed {seed} {wrong}; alone: "
                        f"fabemu run {' '.join(options)} -- mpirun -np {ranks} "
                        f"check --quick --seed {run_seed}\n{result.tail()}")
    return checks.end(f"; {done} of {args.runs} runs, seed {seed}")


if __name__ == "__main__":
    sys.exit(main())
