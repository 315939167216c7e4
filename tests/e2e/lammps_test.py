#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""lammps_test - Debian's unmodified lmp over a fabric and over Open MPI's own transports: the
thermodynamic output is equal in every printed digit."""
import pathlib
import sys

import common

RANKS = (4, 8)
STEPS = 22  # lines of numbers that in.melt prints
COUNTS = ("Total # of neighbors", "Neighbor list builds", "Dangerous builds")


def thermo(log):
    """The lines of a log file about the physics, without those about time."""
    found, table = [], False
    for line in log.splitlines():
        if line.startswith("Loop time"):
            table = False
        if table or line.startswith(COUNTS):
            found.append(" ".join(line.split()))
        if line.startswith("Step "):
            table = True
    return found


def main():
    args = common.arguments("Compare LAMMPS over a fabric and over Open MPI's own transports.",
                            timeout=(int, 180, "seconds a run may take"))
    checks = common.Checks("lammps_test")
    command = ["lmp", "-in", str(common.HERE / "in.melt"), "-screen", "none", "-log", "log.lammps"]
    for ranks in RANKS:
        outputs = []
        for over in ("Open MPI", "fabemu"):
            with common.scratch() as cwd:
                if over == "fabemu":
                    options = common.options_for(args, ranks)
                    result, report = common.fabemu_mpirun(args.fabemu, options, ranks, command, cwd,
                                                          args.timeout)
                    common.check_report(checks, report, f"{ranks} ranks", args,
                                        by_network=("allreduce", "broadcast"))
                else:
                    result = common.plain_mpirun(ranks, command, cwd, args.timeout)
                if checks.that(not result.wrong(), f"lmp on {ranks} ranks over {over} "
                               f"{result.wrong()}\n{result.tail()}"):
                    outputs.append(thermo((pathlib.Path(cwd) / "log.lammps").read_text()))
        if len(outputs) < 2:
            continue
        plain, fabric = outputs
        lines = STEPS + 2 * len(COUNTS)
        checks.that(len(plain) == lines and len(fabric) == lines,
                    f"{ranks} ranks: {len(plain)} and {len(fabric)} lines, wanted {lines}")
        for here, there in zip(plain, fabric):
            checks.that(here == there, f"{ranks} ranks: Open MPI: {here}; fabemu: {there}")
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
