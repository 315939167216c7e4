#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""hpcc_test - Debian's unmodified hpcc over a fabric: its own checks pass, and its collectives ran
in the network. Also tampers with the output, to prove that the checker detects errors."""
import pathlib
import re
import shutil
import sys

import common
import hpcc_check

RANKS = 4
# Each turns a good output into a bad one.
TAMPER = [
    (r"Success=1", "Success=0"),
    (r"Found 0 errors in (\d+) locations \(passed\)", r"Found 3 errors in \1 locations (passed)"),
    (r"MPIRandomAccess_Errors=0", "MPIRandomAccess_Errors=1"),
    (r"Node\(s\) with error 0", "Node(s) with error 1"),
    (r"(WALL .*) PASSED", r"\1 FAILED"),
    (r"(WALL .*) \S+\n", r"\1 17.5\n"),
    (r"\.\.\. PASSED", "... FAILED"),
    (r"Scaled residual: \S+", "Scaled residual: nan"),
    (r"Solution Validates", "Failed Validation on array a[]"),
    (r"max\(\|x-x0\|\): \S+", "max(|x-x0|): 1e-3"),
    (r"    0 tests completed and failed", "    1 tests completed and failed"),
    (r"Begin of MPIFFT section\.\n", ""),
    (r"End of HPC Challenge tests\.", ""),
    (r"CommWorldProcs=4", "CommWorldProcs=2"),
    (r"HPL_Tflops=\S+", "HPL_Tflops=-1"),
]


def main():
    args = common.arguments("Run hpcc over a fabric and verify all that it says.",
                            timeout=(int, 180, "seconds a run may take"))
    checks = common.Checks("hpcc_test")
    with common.scratch() as cwd:
        shutil.copy(common.HERE / "hpccinf.txt", cwd)
        result, report = common.fabemu_mpirun(args.fabemu, common.options_for(args, RANKS),
                                              RANKS, ["hpcc"], cwd, args.timeout)
        if not checks.that(not result.wrong(),
                           f"hpcc over fabemu {result.wrong()}\n{result.tail()}"):
            return checks.end()
        text = (pathlib.Path(cwd) / "hpccoutf.txt").read_text(errors="replace")

    verified = hpcc_check.check(text, RANKS)
    checks.passed += verified.passed
    for failure in verified.failures:
        checks.that(False, failure)
    for pattern, bad in TAMPER:
        tampered, changed = re.subn(pattern, bad, text, count=1)
        checks.that(changed and hpcc_check.check(tampered, RANKS).failures,
                    f"the checker did not notice '{bad}'")

    common.check_report(checks, report, "hpcc", args,
                        by_network=("allreduce", "broadcast", "barrier"))
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
