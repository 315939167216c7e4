#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""mpi_check_test - our MPI check program, built by plain mpicc, over fabrics with many settings.
With every number of ranks but the largest it runs once in full, and with all of them twice in
its quick form, each time with another clock and number of threads. All runs have the same seed.
The program compares the results with its own computation, and the report proves that the
network did the work. --full runs the full form with every setting.

One-sided communication is checked in full here, and by soak.py with other clocks and numbers of
threads.
"""
import itertools
import re
import sys

import common

RANKS = (2, 3, 4, 8, 16)
FULL_RUNS = RANKS[:-1]  # with 16 ranks the full run takes as long as all the others
SETTINGS = tuple(itertools.product(("raw", "real"), ("device", "1", "2")))  # clock, threads
QUICK = ["--quick"]
# One-sided communication over every transport: each profile with the other's transport, and two
# levels.
TRANSPORTS = (["--topo", "kary:4,2", "--set", "transport=acknowledged"],
              ["--profile", "qsnet3", "--topo", "qsnet:16", "--set", "transport=none"],
              ["--profile", "qsnet3", "--topo", "qsnet:64,links=2,apart=router"])


def settings_for(args, ranks):
    """Settings of the quick runs: two for each number of ranks, so that every one is used."""
    i = RANKS.index(ranks)
    return SETTINGS if args.full else [SETTINGS[j % len(SETTINGS)] for j in (i, i + 4)]


def counts_differ(checks, report, what):
    """Calls in which a rank need not know the counts of the others have run over messages."""
    for name in ("gather", "scatter", "alltoall", "neighbor"):
        why = report["collectives"][name]["why"]
        checks.that(why.get("counts", 0) > 0, f"{what}: {name}: {why}")


def types_reduced(checks, report, what):
    """Check that no reduction ran over messages because of its type."""
    for name in ("allreduce", "reduce", "reduce_scatter"):
        why = report["collectives"][name]["why"]
        checks.that(why.get("type", 0) == 0, f"{what}: {name}: {why}")


def one_run(checks, args, program, cwd, ranks, options, more):
    """One run with its checks; returns how many checks the program made, or None."""
    what = f"{ranks} ranks, {' '.join(options)}, check {' '.join(more)} --seed {args.seed}"
    result, report = common.fabemu_mpirun(
        args.fabemu, [*common.options_for(args, ranks), *options], ranks,
        [program, *more, "--seed", str(args.seed), "--timeout", str(args.timeout - 10)], cwd,
        args.timeout)
    counts = common.checked(result)
    fine = not result.wrong() and counts is not None and counts[0] > 0 and counts[1] == 0
    if not checks.that(fine, f"{what}: {result.wrong() or 'checks failed'}\n{result.tail()}"):
        return None
    common.check_report(checks, report, what, args)
    checks.that(report is not None and report["clock"]["mode"] == options[1],
                f"{what}: the report tells of another clock")
    wide = [line for line in result.output.splitlines()
            if re.match(r" {4}\S", line) and len(line) > 80]
    checks.that(not wide, f"{what}: rows of tables with more than 80 columns: {wide}")
    if report is not None:
        counts_differ(checks, report, what)
        types_reduced(checks, report, what)
    return counts[0]


def by_size(checks, args, program, cwd):
    """Two ranks run large collectives over messages; the results are the same. Returns the number
    of checks that the program made."""
    what = f"2 ranks, large collectives over messages, check --seed {args.seed}"
    result, _ = common.fabemu_mpirun(
        args.fabemu, common.options_for(args, 2), 2,
        [program, "--seed", str(args.seed), "--timeout", str(args.timeout - 10)], cwd,
        args.timeout, env={})
    counts = common.checked(result)
    fine = not result.wrong() and counts is not None and counts[0] > 0 and counts[1] == 0
    checks.that(fine, f"{what}: {result.wrong() or 'checks failed'}\n{result.tail()}")
    return counts[0] if fine else 0


def one_sided(checks, args, program, cwd, ranks):
    """One-sided communication over every transport; returns the number of checks made."""
    made = 0
    for options in TRANSPORTS:
        what = f"{ranks} ranks, {' '.join(options)}, check --only one-sided --seed {args.seed}"
        result, _ = common.fabemu_mpirun(
            args.fabemu, options, ranks,
            [program, *QUICK, "--only", "one-sided", "--seed", str(args.seed), "--timeout",
             str(args.timeout - 10)], cwd, args.timeout)
        counts = common.checked(result)
        fine = not result.wrong() and counts is not None and counts[0] > 0 and counts[1] == 0
        if checks.that(fine,
                       f"{what}: {result.wrong() or 'checks failed'}\n{result.tail()}"):
            made += counts[0]
    return made


def clocks(checks, args, program, cwd):
    """Ranks on several machines have several clocks; the check must not compare their times."""
    other = ["unshare", "--time", "--monotonic", "1000"]
    if common.run([*other, "true"], cwd, args.timeout).wrong():
        checks.skip("ranks with clocks of their own, for time namespaces cannot be made here")
        return
    line = f'[ "$OMPI_COMM_WORLD_RANK" = 0 ] || exec {" ".join(other)} "$@"; exec "$@"'
    part = ["sh", "-c", line, "sh", program, *QUICK, "--only", "barriers"]
    result = common.run(["mpirun", "-np", "3", *part], cwd, args.timeout,
                        {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                         "OMPI_MCA_rmaps_base_oversubscribe": "1",
                         "OMPI_MCA_mpi_yield_when_idle": "1"})
    counts = common.checked(result)
    checks.that(not result.wrong() and counts and counts[0] > 0 and counts[1] == 0,
                f"a clock of its own: {result.wrong() or 'checks failed'}\n{result.tail()}")


def main():
    args = common.arguments("Check MPI's collectives over fabrics of many settings.",
                            timeout=(int, 240, "seconds a run may take"),
                            full=(bool, False, "every combination, at length, under every setting"),
                            seed=(int, common.seed(), "of all runs"))
    more = ["--full"] if args.full else [*QUICK, "--skip", "one-sided"]
    checks = common.Checks("mpi_check_test")
    made = 0
    with common.scratch() as cwd:
        program = common.check_program(checks, args.fabemu)
        for ranks in RANKS if program else ():
            if not args.full and ranks in FULL_RUNS:
                made += one_run(checks, args, program, cwd, ranks, ["--clock", "raw"], []) or 0
            counts = set()
            for clock, threads in settings_for(args, ranks):
                options = ["--clock", clock, "--threads", threads]
                counts.add(one_run(checks, args, program, cwd, ranks, options, more))
            counts.discard(None)  # already reported
            made += sum(counts)
            checks.that(len(counts) <= 1,
                        f"{ranks} ranks: settings differ in the number of checks: {counts}")
        if program:  # several threads in each rank, MPI_THREAD_MULTIPLE
            made += one_run(checks, args, program, cwd, 4, ["--clock", "raw"],
                            [*QUICK, "--threads"]) or 0
        if program:
            made += by_size(checks, args, program, cwd)
            clocks(checks, args, program, cwd)
        if program and args.network == "oq2004":  # TRANSPORTS do not depend on the network
            made += sum(one_sided(checks, args, program, cwd, ranks) for ranks in (2, 4))
    return checks.end(f"; MPI results compared at least {made} times, seed {args.seed}")


if __name__ == "__main__":
    sys.exit(main())
