#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""hosts_test - one fabric over several hosts, which are network namespaces (scripts/two-hosts).
MPI programs run across them with right results, according to counters of every host. A host
that does not match is refused with a reason on both sides. Wires are bad, or cut for a while or
for good, and processes are killed at random moments: everything that must end ends, and nothing
is left behind. A failure prints the seed that replays it. Skipped where namespaces may not be
created."""
import argparse
import concurrent.futures
import contextlib
import fnmatch
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import common
import hpcc_check
import lammps_test

TWO_HOSTS = common.TOP / "scripts" / "two-hosts"
SKIPPED = common.SKIPPED
LEFT = "two-hosts: processes left behind:"  # reports also contain segments "left behind"
RUNS = pathlib.Path(f"/tmp/fabemu-{os.geteuid()}")  # sockets and scratch folders of runs
# Runs across hosts: hosts, port, network of common.NETWORKS, options of two-hosts, of fabemu run.
ACROSS = ((2, "af_packet", "oq2004", [], []),
          (2, "memif", "packets", ["--key"], []),
          (3, "af_packet", "packets", [], ["--faults", str(common.HERE / "flaps.faults")]),
          (3, "memif", "retry", [], ["--faults", str(common.HERE / "flaps.faults")]),
          (2, "af_packet", "packets", [], ["--clock", "real", "--threads", "device"]),
          (2, "memif", "units", [], []),
          (3, "af_packet", "oq2004", [], []),
          (4, "af_packet", "oq2004", ["--key"], []),
          (2, "tap", "packets", [], []),
          (2, "af_xdp", "oq2004", [], []))
# Synthetic traffic: hosts, whether the wire is bad, options of fabemu traffic.
TRAFFIC = ((2, False, ["--topo", "kary:4,2", "--pattern", "md", "--load", "0.4"]),
           (3, False, ["--topo", "kary:4,2", "--pattern", "allreduce", "--operations", "20",
                       "--bytes", "2000"]),
           (2, True, ["--topo", "kary:4,2", "--profile", "qsnet3", "--load", "0.5"]),
           (2, False, ["--topo", "kary:4,2", "--set", "link_retry=go_back_n", "--load", "0.5"]))
TIMES = ["--warmup", "2000ns", "--measure", "8000ns"]
IN_FLIGHT = 16  # segments in flight between two hosts, of retransmissions while links flap
# Parts of its report that are not about the network.
OWN = {"origin", "threads", "hosts", "wall_s", "build_s", "hops_per_s", "ns_per_hop",
       "bytes_per_node"}
# With link-level retry, this is not about the network either: retransmissions and their replies end
# at each host, and a window starts at each event, even at one without effect on the network.
OWN_WITH_RETRY = {"windows"}
BAD = ["--lose", "0.01", "--double", "0.01", "--late", "0.01", "--jitter", "1000"]
# Faults of a wire, by tc netem, or by the wire program where the kernel has no netem; and the
# counters that each host must then have.
WIRES = {
    "all": ("loss 1% duplicate 1% reorder 5% delay 1ms 1ms", ["--wire", BAD],
            ("sent_again", "doubles", "out_of_order")),
    "loss": ("loss 1%", ["--loss", "1"], ("sent_again",)),
    "double": ("duplicate 1%", ["--wire", ["--double", "0.01"]], ("doubles",)),
    "reorder": ("reorder 90% delay 1ms", ["--wire", ["--late", "0.01", "--jitter", "50"]],
                ("out_of_order",)),
    "jitter": ("delay 1ms 1ms", ["--wire", ["--jitter", "1000"]], ("out_of_order",)),
}
ROUNDS = 200  # of a checked stream over such a wire
RANKS = 4
WITHIN = 10  # multiple of the silence limit: a rank without its error by then will never get it
GREETING = "going"  # of mpi_rounds --survive
# Which process is killed, on which host.
KILLS = (("h1", "fabemu"), ("h1", "fabemu-fabric"), ("h0", "fabemu-fabric"), ("h0", "fabemu"),
         ("h1", "mpi_rounds"))


class Skip(Exception):
    """Namespaces, or ports of a kind, are not available here."""


def program(args, name):
    return str(pathlib.Path(args.fabemu).parent / "tests" / name)


def over(args, hosts, options, fabric, command, cwd, during=None, timeout_s=None, env=None):
    """Run @command over a fabric on @hosts; returns (Result, report or None)."""
    report = pathlib.Path(cwd) / "report.json"
    report.unlink(missing_ok=True)
    timeout_s = timeout_s or args.timeout
    result = common.run([sys.executable, str(TWO_HOSTS), str(hosts), "--fabemu", args.fabemu,
                         "--timeout", str(timeout_s - 5), *options, "--fabric", "--report",
                         str(report), *fabric, "--", *command], cwd, timeout_s, env, during)
    if result.status == SKIPPED:
        raise Skip(result.output.strip())
    try:
        return result, json.loads(report.read_text())
    except (OSError, ValueError):
        return result, None


def of_network(args, network, faults=False):
    """Arguments for common.check_report()."""
    return argparse.Namespace(**{**vars(args), "network": network, "faults": faults})


def check_hosts(checks, report, what, hosts, network):
    """Every host carried and combined, and segments sent over a host link on one host were
    received by its peer."""
    parts = {part["host"]: part for part in report["hosts"]} if report else {}
    if not checks.that(len(parts) == hosts, f"{what}: not {hosts} hosts: {list(parts)}"):
        return
    for field in ("segments", "combined"):
        for name, total in report[field].items():
            parted = sum(part[field][name] for part in parts.values())
            checks.that(parted == total, f"{what}: {field} {name}: {parted}, not {total}")
    passed = {(name, link["host"]): link for name, part in parts.items() for link in part["links"]}
    checks.that(len(passed) == hosts * (hosts - 1), f"{what}: host links {list(passed)}")
    for name, part in parts.items():
        sent = sum(link["segments_sent"] for link in part["links"])
        checks.that(part["segments"]["hops"] > 0 and sent > 0, f"{what}: {name} sent nothing")
        # in other networks adapters combine, and not all need to
        if network in ("oq2004", "retry", "units"):
            checks.that(part["combined"]["contributions"] > 0 and part["combined"]["results"] > 0,
                        f"{what}: {name} combined nothing: {part['combined']}")
        for link in part["links"]:
            there = passed[link["host"], name]
            # Each host counts when it is queried: delayed segments may pass meanwhile.
            in_flight = abs(link["segments_sent"] - there["segments_received"])
            checks.that(in_flight <= (IN_FLIGHT if "--faults" in what else 0),
                        f"{what}: {name} to {link['host']}: {link} and {there}")
            checks.that("real" not in what or 0 < link["clock_error_ns"] < 1e9,
                        f"{what}: {name} does not know {link['host']}'s clock: {link}")
            checks.that(link["malformed"] + link["forged"] + link["dropped"] + link["cuts"] == 0,
                        f"{what}: {name} to {link['host']}: {link}")
    checks.that(report["check"]["right"], f"{what}: {report['check']}")


def check_recording(checks, path, report, what, network):
    """The final sample of all hosts equals the counters of each."""
    shape, *lines = (json.loads(line) for line in path.read_text().splitlines())
    ways = {}
    for line in lines:
        ways.update({row[0]: row[1] for row in line.get("links", [])})
    hops = sum(segments for way, segments in ways.items()
               if way % 2 or shape["cables"][way // 2][2])  # except for those that nodes send
    checks.that(len(shape["hosts"]) == len(report["hosts"]), f"{what}: {shape['hosts']}")
    # With acknowledgments links carry replies, too.
    checks.that(network == "packets" or hops == report["segments"]["hops"],
                f"{what}: {hops} hops by links recorded, not {report['segments']['hops']}")
    totals = {**report["segments"], **report["combined"]}
    for name, total in lines[-1]["totals"].items():
        checks.that(totals.get(name, total) == total, f"{what}: {total} {name} recorded, not "
                    f"{totals.get(name)}")


def check_communication(checks, report, what, ranks):
    """Its communication profile covers the ranks on all hosts."""
    communication = report["communication"]
    senders = {row[0] for row in communication["messages"]["matrix"]}
    checks.that(len(senders) == ranks, f"{what}: only nodes {senders} have sent messages")
    parts = {"allgather": ("allreduce", "broadcast"), "reduce_scatter": ("reduce",),
             "gather": ("reduce",), "scatter": ("broadcast",),
             "scan": ("allreduce", "broadcast"), "alltoall": ("allreduce", "broadcast")}
    for kind, count in report["collectives"].items():
        calls = sum(c["calls"] for c in communication["collectives"]
                    if c["kind"] in parts.get(kind, (kind,)) and c["where"] != "elsewhere")
        ran = count["in_switch"] + count["in_adapter"]
        least = 2 * ran  # none has less than two members
        checks.that(calls >= least, f"{what}: {calls} calls of {kind}, not {least} or more")


def check_timeline(checks, path, report, what, hosts):
    """It has each collective in the network with a rank on any host, and arrows point forward,
    within the accuracy of the hosts' clocks."""
    whole = json.loads(path.read_text())
    other = whole["otherData"]
    error_us = sum(host["clock_error_ns"] for host in other["hosts"]) / 1000
    checks.that(len(other["hosts"]) == hosts and error_us > 0, f"{what}: {other['hosts']}")
    calls = sum(c["calls"] for c in report["communication"]["collectives"]
                if c["where"] != "elsewhere")
    listed = sum(other[count]["collectives"] for count in ("kept", "left_out"))
    checks.that(listed <= calls <= listed + other["missed"],
                f"{what}: {listed} of {calls} collectives, {other['missed']} missed")
    flows = {"s": {}, "f": {}}
    for event in whole["traceEvents"]:
        if event["ph"] in flows:
            flows[event["ph"]][event["id"]] = event["ts"]
    both = set(flows["s"]) & set(flows["f"])
    back = [flow for flow in both if flows["s"][flow] > flows["f"][flow] + error_us + 0.01]
    checks.that(both and not back, f"{what}: of {len(both)} messages {len(back)} came before they "
                f"were sent: {back[:3]}")


def check_across(checks, args, hosts, device, network, options, fabric):
    """The check program, two ranks per host."""
    ranks = 2 * hosts
    profile = {"packets": common.QSNET3, "units": [*common.QSNET3, "--set", "combining=switch"],
               "retry": ["--set", "link_retry=go_back_n"]}.get(network, [])
    what = f"{hosts} hosts, {device}, {network}, {[*options, *fabric]}, --seed {args.seed}"
    with common.scratch() as cwd:
        recording, timeline = pathlib.Path(cwd) / "recording", pathlib.Path(cwd) / "timeline"
        result, report = over(args, hosts, ["--device", device, *options],
                              [*profile, *fabric, "--record", str(recording),
                               "--timeline", str(timeline)],
                              ["mpirun", "-np", str(ranks), "--mca", "coll_fabemu_step_aside", "0",
                               program(args, "mpi_check"), "--quick", "--part", "16",
                               "--seed", str(args.seed)], cwd)
        if report and "--faults" not in fabric:  # those retransmit while they are counted
            check_recording(checks, recording, report, what, network)
        if report:
            check_timeline(checks, timeline, report, what, hosts)
    if device == "af_xdp" and result.wrong() and re.search(r"af_xdp.*(cannot|failed|not)",
                                                           result.output):
        raise Skip(result.tail(5))
    counts = common.checked(result)
    if checks.that(not result.wrong() and counts and counts[0] > 0 and counts[1] == 0,
                   f"{what}: {result.wrong() or 'checks failed'}\n{result.tail()}"):
        common.check_report(checks, report, what, of_network(args, network, "--faults" in fabric))
        check_hosts(checks, report, what, hosts, network)
        check_communication(checks, report, what, ranks)
        if "--faults" in fabric:
            common.check_faults(checks, report, what)


def onesided(checks, args, network):
    """One-sided communication with targets on another host that compute."""
    what = f"one-sided, {network}, --seed {args.seed}"
    with common.scratch() as cwd:
        result, report = over(args, 2, [], common.QSNET3 if network == "packets" else [],
                              ["mpirun", "-np", "4", program(args, "mpi_passive"),
                               "--seed", str(args.seed)], cwd)
    passed = re.search(r"passive: [1-9]\d* checks passed, 0 failed", result.output)
    if checks.that(not result.wrong() and passed, f"{what} {result.wrong()}\n{result.tail()}"):
        check_hosts(checks, report, what, 2, network)


def hpcc(checks, args):
    """Everything that hpcc verifies itself."""
    with common.scratch() as cwd:
        shutil.copy(common.HERE / "hpccinf.txt", cwd)
        result, report = over(args, 2, [], [], ["mpirun", "-np", "4", "hpcc"], cwd)
        if not checks.that(not result.wrong(), f"hpcc {result.wrong()}\n{result.tail()}"):
            return
        text = (pathlib.Path(cwd) / "hpccoutf.txt").read_text(errors="replace")
    verified = hpcc_check.check(text, 4)
    checks.passed += verified.passed
    for failure in verified.failures:
        checks.that(False, failure)
    check_hosts(checks, report, "hpcc", 2, "oq2004")


def lammps(checks, args):
    """The same output as on one host."""
    command = ["lmp", "-in", str(common.HERE / "in.melt"), "-screen", "none", "-log", "log.lammps"]
    outputs = []
    for hosts in (1, 2):
        with common.scratch() as cwd:
            if hosts == 1:
                result, report = common.fabemu_mpirun(args.fabemu, ["--topo", "kary:4,2"], 4,
                                                      command, cwd, args.timeout)
            else:
                result, report = over(args, 2, [], [], ["mpirun", "-np", "4", *command], cwd)
                check_hosts(checks, report, "lmp", 2, "oq2004")
            if checks.that(not result.wrong(), f"lmp on {hosts} hosts {result.wrong()}\n"
                           f"{result.tail()}"):
                outputs.append(lammps_test.thermo(
                    (pathlib.Path(cwd) / "log.lammps").read_text()))
    if len(outputs) == 2:
        checks.that(outputs[0] and outputs[0] == outputs[1], f"lmp: {outputs[0]}\n{outputs[1]}")


# --- what starts the other hosts ----------------------------------------------------------

# Stand-ins for ssh and srun that start programs in a namespace. Like sshd, the first one passes its
# arguments, joined by spaces, to a shell with an environment and folder of its own. Like srun, the
# second one runs a program with unchanged arguments.
STARTERS = {
    "ssh": """#!/usr/bin/env python3
import os, shlex, sys
host, words = sys.argv[1], sys.argv[2:]
agent = os.environ["OMPI_MCA_plm_rsh_agent"]
assert not host.startswith("-") and os.read(0, 1) == b""
os.execv(agent, [agent, host, "cd / && exec env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME=/root "
                 "sh -c " + shlex.quote(" ".join(words))])
""",
    "srun": """#!/usr/bin/env python3
import os, shlex, sys
*options, host = sys.argv[1:sys.argv.index("sh")]
agent = os.environ["OMPI_MCA_plm_rsh_agent"]
assert options == ["--overlap", "-N1", "-n1", "-w"]
os.execv(agent, [agent, host, shlex.join(sys.argv[sys.argv.index("sh"):])])
"""}
LAUNCHES = (("ssh", "default"), ("srun", "srun --overlap -N1 -n1 -w %h sh -c"),
            ("mpirun", "mpirun --allow-run-as-root -np 1 --host %h sh -c"))
AWKWARD = """it's a "folder" of $HOME; and more"""


def launched(checks, args, name, agent):
    """The launcher starts the other host in our folder, with unchanged arguments."""
    with common.scratch() as cwd:
        folder, tools = pathlib.Path(cwd, AWKWARD), pathlib.Path(cwd, "tools")
        folder.mkdir()
        tools.mkdir()
        for tool, text in STARTERS.items():
            (tools / tool).write_text(text)
            (tools / tool).chmod(0o755)
        network = AWKWARD + ".topo"
        written = common.run([args.fabemu, "topo", "kary:4,2", "--write", network], folder,
                             args.timeout)
        checks.that(not written.wrong(), written.tail())
        env = {"PATH": f"{tools}:{os.environ['PATH']}"}
        result, report = over(args, 2, ["--launch", agent], ["--topo", network, "--set",
                              "link_retry=go_back_n"], ["true"], folder, env=env)
        checks.that(not result.wrong() and report and
                    [part["state"] for part in report["hosts"]] == ["coordinator", "up"],
                    f"by {name}: {result.wrong()}\n{result.tail()}")
        result = traffic_over(args, 2, ["--launch", agent], ["--topo", network, "--load", "0.2",
                              "--measure", "2000ns"], folder, env=env)
        checks.that(not result.wrong() and "digest" in result.output,
                    f"traffic by {name}: {result.wrong()}\n{result.tail()}")


# --- hosts that do not fit ---------------------------------------------------------------

def other_version(args, cwd):
    """Returns an agent that starts a fabemu whose digest has another version of fabemu. It is a
    copy of ours with another text, in a folder with all other files of the build."""
    ours = pathlib.Path(args.fabemu).resolve()
    other = pathlib.Path(cwd, "version")
    other.mkdir()
    for path in ours.parent.iterdir():
        if path != ours:
            (other / path.name).symlink_to(path)
    code, count = re.subn(rb"(?<=\0version )\d(?=[.\d]+\n\0)", b"9", ours.read_bytes())
    assert count == 1, count
    (other / ours.name).write_bytes(code)
    (other / ours.name).chmod(0o755)
    agent = pathlib.Path(cwd, "agent")
    agent.write_text(f'#!/bin/bash\nours={ours} other={other / ours.name}\n'
                     'exec "$OMPI_MCA_plm_rsh_agent" "${@//"$ours"/"$other"}"\n')
    agent.chmod(0o755)
    return agent


def mismatches(args, cwd):
    """(what, options of two-hosts, options of the remote host, the error on both sides)."""
    ports = "".join(f"host h{host}\n    port net_af_packet0,iface=eth1\n" for host in (0, 1))
    key, keyed, other = (pathlib.Path(cwd, name) for name in ("key", "keyed", "other"))
    key.touch(0o600)
    key.write_bytes(os.urandom(32))
    keyed.write_text(f"fabric two-hosts\nkey {key}\nsilent 5s\n{ports}")
    other.write_text(f"fabric two-hosts\nkey none\nsilent 4s\n{ports}")
    another = r"the other host has another cluster file, network, profile or version of fabemu"
    return (("another network", [], "--topo kary:8,2", another),
            ("another profile", [], "--profile qsnet3", another),
            ("another cluster file", [], f"--cluster {other}", another),
            ("another version", ["--launch", str(other_version(args, cwd))], "", another),
            ("another key", ["--key"], f"--cluster {keyed}",
             r"does the other host have the same key\?"),
            ("a key", [], f"--cluster {keyed}", "has (no|a) key, and this one has (none|one)"))


def check_mismatch(args, mismatch):
    """Returns the error in how it ended, or None."""
    what, options, far, why = mismatch
    with common.scratch() as cwd:
        result, _ = over(args, 2, [*options, "--far", far], ["--bound", "start=4s"],
                         ["mpirun", "-np", "2", "hostname"], cwd, timeout_s=60)
    coordinator = re.search(rf"the fabric did not start: host h1: .*{why}", result.output)
    remote = re.search(rf"host h1: .* to the coordinator.*: host h0: .*{why}", result.output)
    if result.status == 1 and not result.left and coordinator and remote:
        return None
    return f"{what}: status {result.status}, left {result.left}\n{result.tail()}"


def check_mismatches(checks, args):
    with common.scratch() as cwd, concurrent.futures.ThreadPoolExecutor() as pool:
        for wrong in pool.map(lambda mismatch: check_mismatch(args, mismatch),
                              mismatches(args, cwd)):
            checks.that(not wrong, wrong)


# --- wires ---------------------------------------------------------------------------------

def has_netem(checks, args):
    """Does this kernel have netem? A missing one is reported, once."""
    if not hasattr(args, "netem"):
        with common.scratch() as cwd:
            probe = common.run([sys.executable, str(TWO_HOSTS), "2", "--netem", "delay 1us",
                                "--", "true"], cwd, args.timeout)
        args.netem = probe.status == 0
        if not args.netem:
            checks.skip("tc netem; in its place a filter, or tests/e2e/wire.c, do that to frames: "
                        + probe.output.strip())
    return args.netem


def wire_options(checks, args, kind):
    """Options of two-hosts for a wire of this kind."""
    netem, other, _ = WIRES[kind]
    if has_netem(checks, args):
        return ["--netem", netem]
    if other[0] == "--loss":
        return other
    return ["--wire", " ".join([program(args, "wire"), "--seed", str(args.seed), *other[1]])]


def bad_wire(checks, args, kind, network):
    """Frames are lost, duplicated, delayed and reordered, and no layer above is affected. With all
    faults at once, run mpi_check, with a part of its many reductions, and a stream of messages.
    With each single fault, run the stream."""
    what = f"wire, {kind}, {network}, --seed {args.seed}"
    mpirun = ["mpirun", "-np", str(RANKS)]
    stream = [*mpirun, program(args, "mpi_rounds"), "--seconds", "1", "--rounds", str(ROUNDS)]
    check = [*mpirun, program(args, "mpi_check"), "--quick", "--part", "16", "--seed",
             str(args.seed)]
    command = " ".join([*check, "&&", *stream] if kind == "all" else stream)
    with common.scratch() as cwd:
        result, report = over(args, 2, wire_options(checks, args, kind),
                              common.QSNET3 if network == "packets" else [],
                              ["sh", "-c", command], cwd)
    counts = common.checked(result) if kind == "all" else (1, 0)
    rounds = re.findall(r"^(\d+) rounds, (\d+) wrong", result.output, re.M)
    good = (not result.wrong() and counts and counts[0] > 0 and counts[1] == 0 and
            len(rounds) == 1 and int(rounds[0][0]) >= ROUNDS and rounds[0][1] == "0")
    if not checks.that(good, f"{what}: {result.wrong() or 'checks failed'}\n{result.tail()}"):
        return
    check_hosts(checks, report, what, 2, network)
    said = re.search(r"wire: \d+ carried, (\d+) lost, (\d+) doubled, (\d+) overtaken",
                     result.output)
    checks.that(kind != "all" or has_netem(checks, args) or
                (said and all(int(n) > 0 for n in said.groups())), f"{what}: {said and said[0]}")
    links = [link for part in report["hosts"] for link in part["links"]]
    seen = {field: sum(link[field] for link in links) for field in WIRES[kind][2]}
    print(f"{what}: {sum(link['frames_sent'] for link in links)} frames, {seen}")
    checks.that(all(seen.values()), f"{what}: the hosts saw nothing of it: {links}")


def lies(checks, args, liar, network):
    """A host lies in the frames that it sends. The other host may refuse or lose it, but does not
    crash, and the run ends."""
    what = f"h{liar} lies, {network}, --seed {args.seed}"
    with common.scratch() as cwd:
        log = pathlib.Path(cwd) / "lies"
        wire = [program(args, "wire"), "--seed", str(args.seed), "--liar", str(liar), "--lie",
                "0.001", "--lie-json", "0.2", "--log", str(log)]
        command = ["mpirun", "-np", str(RANKS), program(args, "mpi_rounds"), "--seconds", "3"]
        result, _ = over(args, 2, ["--silent", "2s", "--wire", " ".join(wire)],
                         ["--keep-going", *(common.QSNET3 if network == "packets" else [])],
                         ["sh", "-c", " ".join(command) + "; true"], cwd)
        told = log.read_text(errors="replace").splitlines() if log.exists() else []
    crashed = re.search(r"Sanitizer|runtime error:|the fabric[^\n]* was killed by signal "
                        r"(?:4|6|7|8|11)\b", result.output)
    checks.that(result.status is not None and not result.left and LEFT not in result.output and
                not crashed, f"{what}: {result.wrong()}\n{result.tail()}\n" + "\n".join(told))
    print(f"{what}: {len(told)} lies")
    checks.that(told, f"{what}: it told no lies\n{result.tail()}")


class Event:
    """A random event during one run, once its ranks communicate. @continues: the run must continue
    with the survivors."""

    def __init__(self, seed, cut_s=None, kill=None, continues=False):
        rng = random.Random(seed)
        self.seed, self.cut_s, self.kill, self.continues = seed, cut_s, kill, continues
        self.wait_s, self.pick = rng.uniform(0.25, 1.25), rng.random()  # a host reports that often
        self.hit = False
        self.within_s = None  # limit for every rank to end after the event; None: they continue
        self.ended_s = {}  # by host: when its last rank ended

    def __str__(self):
        what = f"{self.kill[1]} of {self.kill[0]} killed" if self.kill else f"cut, {self.cut_s} s"
        others = ", the others go on" if self.continues else ""
        return f"{what} after {self.wait_s:.3f} s{others}, --seed {self.seed}"

    def fall(self, process, said, starts_s):
        """Trigger the event when it is due, and measure how long the ranks take to notice."""
        give_up = time.monotonic() + starts_s
        while not (said.exists() and GREETING in said.read_text()):
            if process.poll() is not None or time.monotonic() > give_up:
                return
            time.sleep(0.01)
        time.sleep(self.wait_s)
        space = f"fabemu-hosts-{process.pid}-"
        if self.kill:
            self.strike(space + self.kill[0])
        else:
            self.link(space, "down")
        if self.cut_s:
            time.sleep(self.cut_s)
            self.link(space, "up")
        if self.within_s:
            self.watch(space)
        if self.continues:  # and mpirun waits for ranks that have ended
            for pid in inside(space + "h0"):
                if comm(pid) == "mpirun":
                    os.kill(int(pid), signal.SIGTERM)

    def watch(self, space):
        """When did each host's last rank end?"""
        began = time.monotonic()
        while len(self.ended_s) < 2 and time.monotonic() - began < self.within_s:
            for host in {"h0", "h1"} - set(self.ended_s):
                if not any(comm(pid) == "mpi_rounds" for pid in inside(space + host)):
                    self.ended_s[host] = time.monotonic() - began
            time.sleep(0.02)

    def link(self, space, state):
        self.hit = subprocess.run(["ip", "-n", space + "wire", "link", "set", "h1e1", state],
                                  check=False).returncode == 0

    def strike(self, space):
        named = [int(pid) for pid in inside(space) if comm(pid) == self.kill[1]]
        if named:
            os.kill(named[int(self.pick * len(named))], signal.SIGKILL)
            self.hit = True


def inside(space):
    """Processes of a host, that is, of its namespace."""
    return subprocess.run(["ip", "netns", "pids", space], check=False, text=True,
                          capture_output=True).stdout.split()


def comm(pid):
    try:
        return pathlib.Path("/proc", pid, "comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def run_with_event(checks, args, blow, silent):
    """One run with an event; returns (Result, report, each rank's output)."""
    with common.scratch() as cwd:
        timeline = pathlib.Path(cwd) / "timeline"
        wrote = [pathlib.Path(cwd, f"rank.{rank}") for rank in range(RANKS)]
        # Into files, without mpirun in between, which may end first.
        rank = (f"exec {program(args, 'mpi_rounds')} --seconds 5 --survive "
                f">{cwd}/rank.$OMPI_COMM_WORLD_RANK 2>&1")
        result, report = over(args, 2, ["--silent", silent],
                              ["--timeline", str(timeline), "--timeline-limit", "8MiB",
                               *(["--keep-going"] if blow.continues else [])],
                              ["mpirun", *(["--enable-recovery"] if blow.continues else []), "-np",
                               str(RANKS), "sh", "-c", rank], cwd,
                              lambda process, _mark, _output: blow.fall(process, wrote[0],
                                                                        0.3 * args.timeout),
                              timeout_s=0.9 * args.timeout)
        if blow.kill != ("h0", "fabemu-fabric"):  # which may be in the middle of writing it
            nodes = {event["pid"] for event in json.loads(timeline.read_text())["traceEvents"]
                     if event.get("cat") == "collective"}
            checks.that(len(nodes) == RANKS, f"its timeline has nodes {nodes}: {blow}")
        said = [path.read_text(errors="replace") if path.exists() else "" for path in wrote]
    checks.that(blow.hit, f"nothing was hit: {blow}\n{result.tail()}")
    checks.that(result.status is not None and result.status != 124,
                f"did not end: {blow}\n{result.tail()}")
    checks.that(not result.left and LEFT not in result.output,
                f"left {result.left} behind: {blow}\n{result.tail()}")
    return result, report, said


def cut_for_a_while(checks, args):
    """For less than the silence limit: the run continues."""
    blow = Event(args.seed, cut_s=2)
    result, report, said = run_with_event(checks, args, blow, "5s")
    rounds = re.findall(r"(\d+) rounds, (\d+) wrong", said[0])
    checks.that(result.status == 0 and rounds and int(rounds[0][0]) > 0 and int(rounds[0][1]) == 0,
                f"not the same after it: {blow}\n{result.tail()}")
    check_hosts(checks, report, str(blow), 2, "oq2004")


# The error of a rank that ends: its fabric, or another host, is gone.
FABRIC_GONE = r"fabemu: the fabric is gone \(.+\); ending this process"
KNOWS = r"rank \d+ knows at [\d.]+: \w+: ."


def check_errors(checks, blow, said, output):
    """Each rank has its expected error, and each host reports the event. If the coordinator's host
    is hit, mpirun and all its ranks get a signal, perhaps before they can report it."""
    for rank, text in enumerate(said if blow.continues else ()):
        want = FABRIC_GONE if rank % 2 else KNOWS
        checks.that(re.search(want, text), f"rank {rank} has not ended with {want}: {blow}\n{text}")
    says = {("h1", "fabemu-fabric"): (r"host h1: the fabric was killed by signal 9",),
            ("h0", "fabemu-fabric"): (r"the fabric \(pid \d+\) was killed by signal 9; ending",),
            ("h0", "fabemu"): (r"the supervisor of fabric .* died; ending the processes of its "
                               "run",),
            None: (r"host h1: the coordinator is lost; ending",)}
    want = says.get(blow.kill, ())
    if not blow.kill or blow.kill[0] == "h1":
        want += (r"host h1 is lost: .*; the others go on",
                 r"node \d+ \(.*\) died: its host h1 was lost; the others go on")
    for pattern in want:
        checks.that(re.search(pattern, output), f"nobody said {pattern}: {blow}\n{output[-4000:]}")


def in_memory():
    """Files in shared memory, and in fabemu's folder for sockets and scratch."""
    return {path for folder in (RUNS, pathlib.Path("/dev/shm")) if folder.exists()
            for path in folder.glob("*")}


def in_use(path):
    """Does a live process have this file open, or mapped? Other tests may run as well."""
    for maps in pathlib.Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            if str(path) in maps.read_text(errors="replace"):
                return True
    for fd in pathlib.Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.readlink(fd) == str(path):
                return True
    return False


def ended_by(checks, args, blow):
    """Affected ranks end, and so do all others, each with an error, on every host; nothing is
    left. The time is printed. After WITHIN times the silence limit it counts as a hang."""
    before, silent_s = in_memory(), 2
    blow.within_s = WITHIN * silent_s
    result, _, said = run_with_event(checks, args, blow, f"{silent_s}s")
    checks.that(result.status != 0, f"ended as if nothing had happened: {blow}\n{result.tail()}")
    wrong = re.findall(r"rounds, (\d+) wrong", "".join(said))
    checks.that(all(int(count) == 0 for count in wrong), f"wrong data: {blow}\n{result.tail()}")
    checks.that(len(blow.ended_s) == 2, f"ranks of a host never end: of {list(blow.ended_s)} they "
                f"did, {blow}\n{result.tail()}")
    when = ", ".join(f"{host} {s:.2f} s" for host, s in sorted(blow.ended_s.items()))
    print(f"{blow}: the last rank has ended after: {when} (silent {silent_s} s)")
    if blow.continues or blow.kill and blow.kill[0] == "h0":
        check_errors(checks, blow, said, result.output)
    stayed = [str(path) for path in in_memory() - before if not alive(path) and not in_use(path)]
    checks.that(not stayed, f"left {stayed} behind: {blow}\n{result.tail()}")


def traffic_over(args, hosts, options, words, cwd, during=None, timeout_s=None, env=None):
    """Run fabemu traffic on @hosts; returns its Result."""
    timeout_s = timeout_s or args.timeout
    result = common.run([sys.executable, str(TWO_HOSTS), str(hosts), "--fabemu", args.fabemu,
                         "--timeout", str(timeout_s - 5), *options, "--traffic", *words], cwd,
                        timeout_s, env, during)
    if result.status == SKIPPED:
        raise Skip(result.output.strip())
    return result


def about_network(output, own=frozenset()):
    """The report in a run's output, without the fields about its hosts and @own, or None."""
    try:
        report = json.loads(output[output.index("{\n"):output.rindex("}") + 1])
    except ValueError:
        return None
    return {name: value for name, value in report.items() if name not in OWN | own}


def traffic(checks, args, hosts, bad, words):
    """Simulated time on several hosts gives the same as on one, whatever the wire does."""
    times = [] if "--operations" in words else TIMES
    words = [*words, *times, "--seed", str(args.seed), "--json"]
    options = []
    if bad:
        options = ["--wire", " ".join([program(args, "wire"), *BAD, "--seed",
                                       str(args.seed)])]
    with common.scratch() as cwd:
        one = common.run([args.fabemu, "traffic", *words], cwd, args.timeout)
        many = traffic_over(args, hosts, options, words, cwd)
    what = f"{hosts} hosts, {words}"
    if checks.that(not many.wrong(), f"{what}: {many.wrong()}\n{many.tail()}"):
        own = OWN_WITH_RETRY if "link_retry=go_back_n" in words else frozenset()
        checks.that(about_network(one.output) is not None
                    and about_network(one.output, own) == about_network(many.output, own),
                    f"{what}: not as on one host:\n{one.tail()}\n{many.tail()}")


def records(output):
    """(file, records in it or counted there) of each capture."""
    found = re.findall(r"capture: (\d+) records are in (\S+?)(?:; (\d+) more.*)?$", output, re.M)
    return sorted((pathlib.Path(path).name, int(kept) + int(more or 0))
                  for kept, path, more in found)


def traffic_captured(checks, args):
    """Each host writes the segments that start there to a file of its own: together these are one
    host's records."""
    words = ["--topo", "kary:4,2", "--load", "0.4", *TIMES, "--seed", str(args.seed),
             "--capture", "t"]
    with common.scratch() as cwd:
        one = records(common.run([args.fabemu, "traffic", *words], cwd, args.timeout).output)
        many = traffic_over(args, 2, [], words, cwd)
        files = sorted(path.name for path in pathlib.Path(cwd).glob("t*"))
    parts = records(many.output)
    what = f"capture on 2 hosts, {words}"
    if checks.that(not many.wrong(), f"{what}: {many.wrong()}\n{many.tail()}"):
        checks.that(files == ["t", "t.h0", "t.h1"], f"{what}: files {files}")
        checks.that([name for name, _ in one + parts] == files, f"{what}: {one}, {parts}")
        checks.that(sum(count for _, count in parts) == sum(count for _, count in one) > 0,
                    f"{what}: {parts}, on one host {one}")


def simulates(space):
    """Does fabemu traffic simulate on this host? Its workers start when all hosts are connected."""
    return any(comm(path.relative_to("/proc")) == "fab-worker-1" for pid in inside(space)
               for path in pathlib.Path("/proc", pid, "task").glob("*"))


def traffic_ended_by(checks, args, host):
    """A killed host ends the run on all hosts, and nothing is left."""
    blow = Event(args.seed, kill=(host, "fabemu"))

    def fall(process, _mark, _output):
        space = f"fabemu-hosts-{process.pid}-"
        give_up = time.monotonic() + 30
        while not (simulates(space + "h0") and simulates(space + "h1")):
            if process.poll() is not None or time.monotonic() > give_up:
                return
            time.sleep(0.01)
        time.sleep(blow.wait_s)
        blow.strike(space + host)

    with common.scratch() as cwd:
        result = traffic_over(args, 2, ["--silent", "1s"],
                              ["--topo", "kary:4,2", "--threads", "2", "--measure",
                               "500000000ns"], cwd, fall, timeout_s=60)
    checks.that(blow.hit, f"nothing was hit: {blow}\n{result.tail()}")
    checks.that(result.status not in (None, 0, 124),
                f"did not end, or as if nothing had been: {blow}\n{result.tail()}")
    # With the first host its launch agents end, and the processes that these started.
    checks.that(host == "h0" or f"host {host} was lost" in result.output,
                f"{blow}: not told\n{result.tail()}")
    checks.that(not result.left and LEFT not in result.output,
                f"left {result.left} behind: {blow}\n{result.tail()}")


def alive(path):
    """Does the run that this file is named after still exist? Other tests may run as well."""
    found = re.match(r"(?:run-)?(\d+)\.", path.name)
    return bool(found) and os.path.exists(f"/proc/{found[1]}")


def parts_of(args):
    """(name, function, arguments) of each part, most significant first."""
    parts = [(f"across{i}", check_across, how) for i, how in enumerate(ACROSS)]
    parts += [(f"traffic{i}", traffic, how) for i, how in enumerate(TRAFFIC)]
    parts += [("traffic-capture", traffic_captured, ())]
    parts += [(f"launch-{name}", launched, (name, agent)) for name, agent in LAUNCHES]
    parts += [(f"traffic-kill-{host}", traffic_ended_by, (host,)) for host in ("h0", "h1")]
    parts += [(f"onesided-{network}", onesided, (network,)) for network in ("oq2004", "packets")]
    parts += [("lammps", lammps, ()), ("wire-oq2004", bad_wire, ("all", "oq2004"))]
    parts += [(f"wire-{kind}", bad_wire, (kind, ("oq2004", "packets")[(args.seed + i) % 2]))
              for i, kind in enumerate(list(WIRES)[1:])]
    parts += [("misfits", check_mismatches, ()), ("cut", cut_for_a_while, ())]
    parts += [("gone-survivors", ended_by, (Event(args.seed, continues=True),))]
    parts += [(f"kill{i}-survivors", ended_by, (Event(args.seed + i, kill=kill, continues=True),))
              for i, kill in enumerate(KILLS) if kill[0] == "h1" and kill[1] != "mpi_rounds"]
    parts += [("gone", ended_by, (Event(args.seed),))]
    parts += [(f"kill{i}", ended_by, (Event(args.seed + i, kill=kill),))
              for i, kill in enumerate(KILLS)]
    parts += [(f"lies{liar}-{network}", lies, (liar, network))
              for liar, network in ((1, "oq2004"), (0, "packets"), (1, "packets"))]
    parts += [("wire-packets", bad_wire, ("all", "packets")), ("hpcc", hpcc, ())]
    return parts


def side_by_side(checks, args, names):
    """Run each part in a process of its own, args.jobs at a time."""
    def alone(name):
        words = ["--fabemu", args.fabemu, "--timeout", str(args.timeout), "--seed", str(args.seed)]
        return subprocess.run([sys.executable, __file__, *words, "--only", name], check=False,
                              text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for name, done in zip(names, pool.map(alone, names)):
            print(done.stdout, end="", flush=True)
            counts = re.findall(r"^hosts_test: (\d+) checks passed, (\d+) failed(?:, (\d+))?",
                                done.stdout, re.M)
            if not counts:
                checks.that(False, f"{name} ended with status {done.returncode}")
                continue
            passed, failed, skipped = (int(count or 0) for count in counts[0])
            checks.passed += passed
            checks.failed += failed
            checks.skipped += skipped


def main():
    args = common.arguments("Run MPI programs over a fabric on several hosts.",
                            timeout=(int, 100, "seconds a run may take"),
                            seed=(int, common.seed(), "of all runs"),
                            jobs=(int, 1, "parts at a time, each in a process of its own"),
                            only=(str, "*", "parts with such a name, for example wire-*"))
    checks = common.Checks("hosts_test")
    parts = [row for row in parts_of(args) if fnmatch.fnmatchcase(row[0], args.only)]
    if args.jobs > 1:
        side_by_side(checks, args, [name for name, *_ in parts])
        return checks.end(f"; seed {args.seed}")
    for name, part, how in parts:
        began = time.monotonic()
        try:
            part(checks, args, *how)
        except Skip as why:
            checks.skip(f"{name}: {why}")
        print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)
    return checks.end(f"; seed {args.seed}")


if __name__ == "__main__":
    sys.exit(main())
