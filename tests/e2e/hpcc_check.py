#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""hpcc_check - verify everything that hpcc's output file reports.

hpcc 1.5 checks its own results and continues after an error, so its exit status says little. This
reads hpccoutf.txt, compares every residual, error count and validation with hpcc's own limits, and
checks that every section ran to its end.
"""
import argparse
import math
import re
import sys

EPS = 2.0 ** -53
THRESHOLD = 16.0  # of scaled residuals, as in hpccinf.txt

RANDOM_ACCESS = ["RandomAccess", "RandomAccess_LCG"]
SECTIONS = (
    [kind + name for name in RANDOM_ACCESS for kind in ("MPI", "Star", "Single")]
    + ["PTRANS", "StarDGEMM", "SingleDGEMM", "StarSTREAM", "SingleSTREAM"]
    + ["MPIFFT", "StarFFT", "SingleFFT", "LatencyBandwidth", "HPL", "Summary"]
)
# Lines that hpcc writes only after an error.
COMPLAINTS = re.compile(
    r"FAILED|\(failed\)|Failed|failed\.|errors were found|ERROR|ILLEGAL|skip$|Skip\.|Error code"
    r"|Ooops|\bnan\b"
)
COUNTS = re.compile(
    r"Finished +(\d+) tests,? with the following results:\s+(\d+) tests completed and passed"
    r"[^\n]*\s+(\d+) tests completed and failed[^\n]*\s+(\d+) tests skipped"
)


class Checks:
    """The checks made, and those that failed."""

    def __init__(self):
        self.passed = 0
        self.failures = []

    def that(self, ok, what):
        if ok:
            self.passed += 1
        else:
            self.failures.append(what)

    def below(self, value, limit, what):
        self.that(0 <= value < limit, f"{what} is {value:g}, wanted below {limit:g}")


def sections(text):
    """{name: body} of every section that begins and ends exactly once, by hpcc's marks."""
    found = {}
    for name in SECTIONS:
        begin, end = f"Begin of {name} section.\n", f"End of {name} section.\n"
        if text.count(begin) == 1 and text.count(end) == 1:
            found[name] = text.split(begin)[1].split(end)[0]
    return found


def check_random_access(checks, name, body):
    found = re.findall(r"^Found (-?\d+) errors in (\d+) locations \((\w+)\)\.$", body, re.M)
    checks.that(len(found) == 1, f"{name}: {len(found)} verifications, wanted 1")
    for errors, locations, verdict in found:
        checks.that(int(errors) == 0 and int(locations) > 0 and verdict == "passed",
                    f"{name}: found {errors} errors in {locations} locations ({verdict})")


def check_node_errors(checks, name, body):
    found = re.findall(r"^Node\(s\) with error (-?\d+)$", body, re.M)
    checks.that(found == ["0"], f"{name}: nodes with error: {', '.join(found) or 'no such line'}")


def check_counts(checks, name, body, results):
    """'Finished N tests': as many as there are results, none failed, none skipped."""
    found = COUNTS.findall(body)
    checks.that(len(found) == 1, f"{name}: no count of finished tests")
    for finished, passed, failed, skipped in found:
        checks.that(int(finished) == int(passed) == results > 0 and failed == skipped == "0",
                    f"{name}: {results} results, {finished} finished, {passed} passed, "
                    f"{failed} failed, {skipped} skipped")


def check_ptrans(checks, body):
    rows = re.findall(r"^(WALL|CPU) (?: *\d+){6} +\S+ +(\S+) +\S+ +(\S+)$", body, re.M)
    checks.that(len(rows) == len(re.findall(r"^(?:WALL|CPU)", body, re.M)), "PTRANS: odd lines")
    # one check for all rows: hpcc leaves out a row "CPU" if it measured no CPU time
    bad = [f"{verdict}, residual {residual}" for _, verdict, residual in rows
           if verdict != "PASSED" or not 0 <= float(residual) < THRESHOLD]
    checks.that(rows and not bad, f"PTRANS: {'; '.join(bad) or 'no results'}")
    check_counts(checks, "PTRANS", body, sum(kind == "WALL" for kind, _, _ in rows))


def check_dgemm(checks, body):
    found = re.findall(r"^Scaled residual: (\S+)$", body, re.M)
    checks.that(len(found) >= 1, "StarDGEMM: no residual")
    for value in found:
        checks.below(float(value), THRESHOLD, "StarDGEMM: scaled residual")


def check_stream(checks, body):
    checks.that(len(re.findall(r"^Solution Validates: .* on all three arrays$", body, re.M)) == 1,
                "StarSTREAM: the solution does not validate")


def check_fft(checks, name, body):
    error = re.search(r"^max\(\|x-x0\|\): (\S+)$", body, re.M)
    size = re.search(r"^Vector size: +(\d+)$", body, re.M)
    checks.that(error and size, f"{name}: no result")
    if error and size:
        checks.below(float(error[1]) / (EPS * math.log(int(size[1]))), THRESHOLD,
                     f"{name}: scaled error")


def check_latency(checks, body):
    for what in ("Max Ping Pong Latency", "Randomly Ordered Ring Latency",
                 "Min Ping Pong Bandwidth", "Naturally Ordered Ring Bandwidth",
                 "Randomly  Ordered Ring Bandwidth"):
        found = re.findall(rf"^{what}: +(\S+) (?:msecs|MB/s)$", body, re.M)
        checks.that(len(found) == 1 and 0 < float(found[0]) < math.inf,
                    f"LatencyBandwidth: {what}: {', '.join(found) or 'missing'}")


def check_hpl(checks, body):
    found = re.findall(r"^\|\|Ax-b\|\|\S+= +(\S+) \.+ (\w+)$", body, re.M)
    for residual, verdict in found:
        checks.that(verdict == "PASSED" and 0 <= float(residual) < THRESHOLD,
                    f"HPL: residual {residual}, {verdict}")
    check_counts(checks, "HPL", body, len(found))


def check_summary(checks, body, ranks):
    values = dict(line.split("=", 1) for line in body.splitlines() if "=" in line)
    zero = [name + "_Errors" for name in ("MPIRandomAccess", "MPIRandomAccess_LCG")]
    expected = {"Success": 1, **dict.fromkeys(zero, 0)}
    if ranks:
        expected.update(CommWorldProcs=ranks, HPLMaxProcs=ranks, HPLMinProcs=ranks)
    for key, value in expected.items():
        checks.that(values.get(key) == str(value), f"{key}={values.get(key)}, wanted {value}")
    for key in ("PTRANS_residual", "MPIFFT_maxErr"):
        checks.below(float(values.get(key, "nan")), 1e-10, key)
    for key in ("HPL_Tflops", "PTRANS_GBs", "MPIRandomAccess_GUPs", "MPIRandomAccess_LCG_GUPs",
                "MPIFFT_Gflops", "StarDGEMM_Gflops", "SingleDGEMM_Gflops"):
        value = float(values.get(key, "nan"))  # hpcc writes -1 for values that it did not measure
        checks.that(0 < value < math.inf, f"{key}={value:g}")


def check(text, ranks=None):
    """All checks of one hpccoutf.txt."""
    checks = Checks()
    found = sections(text)
    for name in SECTIONS:
        checks.that(name in found, f"section {name} did not begin and end exactly once")
    complaints = [line.strip() for line in text.splitlines() if COMPLAINTS.search(line)
                  and not COUNTS.search(line)
                  and not re.match(r" *0 tests completed and failed", line)]
    checks.that(not complaints, f"hpcc complains: {'; '.join(complaints[:3])}")
    checks.that("End of HPC Challenge tests." in text, "hpcc did not reach its end")

    for name, body in found.items():
        if name.endswith(("RandomAccess", "RandomAccess_LCG")) and not name.startswith("Single"):
            check_random_access(checks, name, body)
        if name.startswith(("Star", "Single")):
            check_node_errors(checks, name, body)
        if name in ("MPIFFT", "StarFFT"):
            check_fft(checks, name, body)
    for name, check_one in (("PTRANS", check_ptrans), ("StarDGEMM", check_dgemm),
                            ("StarSTREAM", check_stream), ("HPL", check_hpl),
                            ("LatencyBandwidth", check_latency)):
        if name in found:
            check_one(checks, found[name])
    if "Summary" in found:
        check_summary(checks, found["Summary"], ranks)
    return checks


def success_lines(text):
    """hpcc's own lines for success."""
    wanted = re.compile(r"^(Found .* errors in .*|max\(.*|Solution Validates.*|\|\|Ax-b.*"
                        r"|.*tests completed and passed.*|Success=.*"
                        r"|End of HPC Challenge tests\.)$")
    return [line.strip() for line in text.splitlines() if wanted.match(line)]


def main():
    parser = argparse.ArgumentParser(description="Verify what hpcc wrote about its own results.")
    parser.add_argument("file", help="hpccoutf.txt")
    parser.add_argument("--ranks", type=int, help="ranks that it must have run on")
    parser.add_argument("--lines", action="store_true", help="print hpcc's own success lines")
    args = parser.parse_args()

    try:
        with open(args.file, encoding="ascii", errors="replace") as file:
            text = file.read()
    except OSError as err:
        print(f"hpcc_check: {args.file}: {err.strerror}", file=sys.stderr)
        return 1
    checks = check(text, args.ranks)
    if args.lines:
        print("\n".join(success_lines(text)))
    for failure in checks.failures:
        print(f"hpcc_check: {failure}", file=sys.stderr)
    print(f"hpcc_check: {checks.passed} checks passed, {len(checks.failures)} failed")
    return 1 if checks.failures else 0


if __name__ == "__main__":
    sys.exit(main())
