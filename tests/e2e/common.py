# SPDX-License-Identifier: BSD-3-Clause
"""common - shared by the end-to-end tests: running commands without leaving processes behind,
reading fabemu's report, counting checks."""
import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "cli"))
from cli_helpers import unless_no_sync  # noqa: E402
from helpers.seed import seed  # noqa: E402 (the tests use it)
# Collectives in which ranks have blocks of data. They may also run over messages: large ones
# because these are faster, others because a rank does not know how much data the others send.
OF_BLOCKS = ("gather", "scatter", "scan", "alltoall")
COLLECTIVES = ("barrier", "broadcast", "reduce", "allreduce", "allgather", "reduce_scatter",
               *OF_BLOCKS)
MARK = "FABEMU_TEST_MARK"  # in the environment of every process that a test starts
SETTINGS = ("FABEMU_", "FI_", "OMPI_")  # of the caller's environment: removed
SKIPPED = 77  # exit status: nothing could be tested
LINGER_S = 5  # how long a process may outlive its run
# How each collective is executed in the network.
SWITCHES = {"barrier": ("in_switch", "combine units, multicast"),
            "broadcast": ("in_switch", "multicast"),
            "reduce": ("in_switch", "combine units"),
            "allreduce": ("in_switch", "combine units, multicast"),
            "allgather": ("in_switch", "multicasts"),
            "reduce_scatter": ("in_switch", "combine units"),
            "gather": ("in_switch", "combine units"),
            "scatter": ("in_switch", "multicast"),
            "scan": ("in_switch", "combine units, multicast"),
            "alltoall": ("in_switch", "combine units, multicast")}
ADAPTERS = {"barrier": ("in_switch", "network conditional, broadcast"),
            "broadcast": ("in_switch", "broadcast"),
            "reduce": ("in_adapter", "adapter tree"),
            "allreduce": ("in_adapter", "adapter tree, broadcast"),
            "allgather": ("in_switch", "broadcasts"),
            "reduce_scatter": ("in_adapter", "adapter tree"),
            "gather": ("in_adapter", "adapter tree"),
            "scatter": ("in_switch", "broadcast"),
            "scan": ("in_adapter", "adapter tree, broadcast"),
            "alltoall": ("in_adapter", "adapter tree, broadcast")}
COUNTING = {**ADAPTERS, "barrier": ("in_adapter", "adapter tree, broadcast")}
QSNET3 = ["--profile", "qsnet3"]
# Networks to test: for each, the network for a number of ranks, and how it executes collectives.
# Ranks use the first nodes. If a node's links lead to different switches, even two ranks use both
# levels.
NETWORKS = {
    "oq2004": (lambda ranks: ["--topo", topo_for(ranks)], SWITCHES),
    "qsnet:16": (lambda ranks: [*QSNET3, "--topo", "qsnet:16"], ADAPTERS),
    "two-level": (lambda ranks: [*QSNET3, "--topo", "qsnet:64,links=2,apart=router"], ADAPTERS),
    "rails": (lambda ranks: [*QSNET3, "--topo", "qsnet:64,rails=2", "--set", "barrier=tree"],
              COUNTING),
    "retry": (lambda ranks: ["--topo", topo_for(ranks), "--set", "link_retry=go_back_n"], SWITCHES),
    "packets": (lambda ranks: [*QSNET3, "--topo", topo_for(ranks)], ADAPTERS),
    "units": (lambda ranks: [*QSNET3, "--topo", topo_for(ranks), "--set", "combining=switch"],
              SWITCHES),
}
# For tests of collectives in the network: run them there even at sizes at which messages are
# faster.
IN_NETWORK = {"OMPI_MCA_coll_fabemu_step_aside": "0"}
# Valid reasons for a collective to run outside of the network.
RIGHTLY_ELSEWHERE = {"operation", "type", "in_place", "single", "intercommunicator", "finalize"}


class Checks:
    """Counts checks, prints failed ones, and ends with one line that scripts/test reads."""

    def __init__(self, name):
        self.name = name
        self.passed = self.failed = self.skipped = 0

    def that(self, ok, what):
        if ok:
            self.passed += 1
        else:
            self.failed += 1
            print(f"{self.name}: {what}", file=sys.stderr)
        return bool(ok)

    def skip(self, what):
        """A test that is impossible here is reported, and does not count as a passed check."""
        self.skipped += 1
        print(f"{self.name}: SKIPPED: {what}", flush=True)

    def end(self, note=""):
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        print(f"{self.name}: {self.passed} checks passed, {self.failed} failed{skipped}{note}",
              flush=True)
        if self.skipped and not self.passed + self.failed:
            return SKIPPED
        return 1 if self.failed or not self.passed else 0


class Result:
    """How a run ended. status is None if it was killed after a time-out."""

    def __init__(self, status, output, left):
        self.status = status
        self.output = output
        self.left = left  # processes that outlived it

    def wrong(self):
        """One line about a failure of the run itself, or None."""
        if self.status is None:
            return "did not end in time"
        if self.status:
            return f"ended with status {self.status}"
        if self.left:
            return f"left processes behind: {', '.join(self.left)}"
        return None

    def tail(self, lines=90):
        return "\n".join("    " + line for line in self.output.splitlines()[-lines:])


def arguments(description, **more):
    """Parse --fabemu PATH and the options in @more: {name: (type, default, help)}."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--fabemu", default=str(TOP / "build" / "fabemu"),
                        help="the command to test")
    parser.add_argument("--network", choices=NETWORKS, default="oq2004",
                        help="what to run over (default: %(default)s)")
    parser.add_argument("--faults", help="a scenario, or a schedule, meanwhile")
    for name, (kind, default, text) in more.items():
        option = "--" + name.replace("_", "-")
        if kind is bool:
            parser.add_argument(option, action="store_true", help=text)
        else:
            parser.add_argument(option, type=kind, default=default,
                                help=f"{text} (default: {default})")
    args = parser.parse_args()
    args.fabemu = str(pathlib.Path(args.fabemu).resolve())
    if not os.access(args.fabemu, os.X_OK):
        parser.error(f"no command at {args.fabemu}: build first, or name it with --fabemu")
    signal.signal(signal.SIGTERM, unwind)
    return args


def unwind(number, _frame):
    """Handle a signal: kill everything that was started. timeout signals both this process and its
    group."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def scratch():
    """A folder of its own for a test."""
    return tempfile.TemporaryDirectory(prefix="fabemu-e2e-")


def marked(mark):
    """{pid: command} of every live process that has @mark in its environment."""
    found = {}
    want = f"{MARK}={mark}".encode()
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if want in (entry / "environ").read_bytes().split(b"\0"):
                name, rest = (entry / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
                if rest.split()[0] not in "ZX":
                    found[int(entry.name)] = f"{name}({rest.split()[0]})"
    return found


def stop(process, mark):
    """Stop a run that timed out: first as Ctrl-C would, then with SIGKILL."""
    print(f"    still running: {', '.join(marked(mark).values())}", file=sys.stderr)
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGINT)
        process.wait(LINGER_S)
    for pid in marked(mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def run(command, cwd, timeout_s, env=None, during=None):
    """Run @command without input, for at most @timeout_s; returns output and errors as one text.
    Meanwhile during(process, mark, the output's path) is called once."""
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(SETTINGS)}
    environment = {**inherited, **(env or {}), MARK: mark}
    with tempfile.NamedTemporaryFile() as output:
        process = subprocess.Popen(command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            if during:
                during(process, mark, pathlib.Path(output.name))
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            if process.poll() is None:
                stop(process, mark)
        left = linger(mark)
        output.seek(0)
        return Result(status, output.read().decode(errors="replace"), left)


def linger(mark):
    """Processes that are still alive after a grace period; they are killed."""
    until = time.monotonic() + LINGER_S
    while marked(mark) and time.monotonic() < until:
        time.sleep(0.05)
    left = marked(mark)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return list(left.values())


def plain_mpirun(ranks, command, cwd, timeout_s):
    """Run @command over Open MPI's own transports."""
    env = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
           "OMPI_MCA_mpi_yield_when_idle": "1"}
    return run(["mpirun", "--oversubscribe", "-np", str(ranks), *command], cwd, timeout_s, env)


def fabemu_mpirun(fabemu, options, ranks, command, cwd, timeout_s, env=IN_NETWORK):
    """Run @command over a fabric; returns (Result, report or None). Collectives run in the network
    at every size, unless @env says otherwise."""
    report = pathlib.Path(cwd) / "report.json"

    def once():
        report.unlink(missing_ok=True)
        return run([fabemu, "run", *options, "--report", str(report), "--",
                    "mpirun", "-np", str(ranks), *command], cwd, timeout_s, env)

    result = unless_no_sync(once, lambda done: (done.status, done.output))
    try:
        return result, json.loads(report.read_text())
    except (OSError, ValueError):
        return result, None


def check_program(checks, fabemu):
    """tests/mpi/check.c and its parts, which the build compiles with plain mpicc as a user would;
    or None."""
    program = pathlib.Path(fabemu).parent / "tests" / "mpi_check"
    ok = checks.that(os.access(program, os.X_OK), f"no program at {program}: build first")
    return str(program) if ok else None


def checked(result):
    """(passed, failed) as counted by the check program, or None."""
    found = re.findall(r"^check: (\d+) checks passed, (\d+) failed", result.output, re.M)
    return (int(found[0][0]), int(found[0][1])) if len(found) == 1 else None


def topo_for(ranks):
    """The smallest tree of the tested shapes that has @ranks nodes."""
    return next(spec for nodes, spec in ((4, "kary:2,2"), (8, "kary:2,3"), (16, "kary:4,2"))
                if ranks <= nodes)


def options_for(args, ranks):
    """Options of fabemu run for this number of ranks over the selected network, with its faults."""
    return [*NETWORKS[args.network][0](ranks), *(["--faults", args.faults] if args.faults else [])]


def check_faults(checks, report, what):
    """Every fault of the schedule is in the report; something was hit and retransmitted."""
    sent_again = (report.get("transport") or {}).get("retransmissions", 0)
    sent_again += (report.get("link_retry") or {}).get("again", 0)
    faults, links = report["faults"], report["links"]
    checks.that(faults and all(fault["text"] for fault in faults), f"{what}: no faults: {faults}")
    checks.that(sum(fault["hits"] for fault in faults) > 0, f"{what}: nothing was hit: {faults}")
    checks.that(sent_again > 0, f"{what}: nothing was sent again")
    checks.that(links["lost"] > 0 and links["up_again"] > 0 and links["swapped"] == 0,
                f"{what}: no link came and went: {links}")


def check_report(checks, report, what, args, by_network=COLLECTIVES):
    """The report is complete, the network executed @by_network with its mechanisms, and none ran
    elsewhere without a valid reason."""
    network = args.network
    if not checks.that(report is not None, f"{what}: no report was written, or it is no JSON"):
        return
    checks.that(report["exit_status"] == 0,
                f"{what}: report says exit status {report['exit_status']}")
    segments = report["segments"]
    checks.that(segments["sent"] > 0 and segments["delivered"] > 0 and segments["hops"] > 0,
                f"{what}: no segments passed: {segments}")
    combined = report["combined"]
    # Between two nodes at one switch nothing is copied: a broadcast is a normal packet there.
    several = report["processes"]["peak"] > 2
    kinds = ("contributions", "results", *(["multicasts"] if several else []))
    checks.that(all(combined[kind] > 0 for kind in kinds),
                f"{what}: the network combined nothing: {combined}")
    # Corrupted segments count as malformed.
    bad = report["drops"]["malformed"] + report["drops"]["overrun"]
    checks.that((args.faults or not bad) and not report["died"],
                f"{what}: malformed segments or deaths: {report['drops']}, {report['died']}")
    if args.faults:
        check_faults(checks, report, what)
    transport = report.get("transport")
    if transport:
        checks.that(transport["packets"] > 0 and not transport["lost"] + transport["refused"],
                    f"{what}: packets were given up or refused: {transport}")
    for name in COLLECTIVES:
        count = report["collectives"][name]
        where, mechanism = NETWORKS[network][1][name]
        why = {reason: n for reason, n in count["why"].items() if n}
        checks.that(sum(why.values()) == count["elsewhere"],
                    f"{what}: {name}: the reasons {why} do not add up to {count['elsewhere']}")
        rightly = RIGHTLY_ELSEWHERE | ({"slower", "counts"} if name in OF_BLOCKS else set())
        checks.that(set(why) <= rightly, f"{what}: {name} ran elsewhere: {why}")
        checks.that(count["mechanism"] == mechanism and
                    count["in_switch"] + count["in_adapter"] == count[where],
                    f"{what}: {name} is not by {mechanism}: {count}")
        if name in by_network:
            checks.that(count[where] > 0,
                        f"{what}: no {name} ran in the network: {count}")
