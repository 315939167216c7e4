# SPDX-License-Identifier: BSD-3-Clause
"""published.py - data only: predictions of published machines (figures v, rows V). The profiles
sharp, qsnet and qsnet2 are calibrated on point-to-point figures alone. docs/validation.md has the
sources of the published values, and explains the errors."""
from dataclasses import dataclass

from criteria import combined, value
from model import Axis, Figure, Pick, Quantity, Row, Series

CLOSE = 0.15

BYTES = Axis("--bytes", "bytes of a vector", log=2)
CHILDREN = Axis("--collective", "children of a node in the tree of messages", form="tree:{}",
                name="children")
WIDTH = Axis("--set", "children of an adapter in its tree", log=2, form="tree_width={}",
             name="tree_width")
ONE = Axis("--seed", "")     # for a single point
SEED = 1

TIME = Quantity("time (µs)", "time_us", ("latency_ns", "mean"), ("latency_ns", "mean_ci95"), 1e-3)
LOG_TIME = TIME._replace(log=True)
COMPLETION = TIME._replace(path=("completion_ns", "min"), ci=())
BANDWIDTH = Quantity("bandwidth (MB/s of payload)", "mbytes_per_s", ("source_bytes_per_s", "mean"),
                     (), 1e-6)


@dataclass(frozen=True)
class Predicts:
    """Holds within 15 %. With a @cause, a larger error is shown, and no failure."""
    stated: float
    cause: str = ""

    def judge(self, measured, ci):
        close = abs(measured - self.stated) <= CLOSE * self.stated + ci
        return measured - self.stated, close or (None if self.cause else False)

    def __str__(self):
        return "within 15 %" + (f"; otherwise: {self.cause}" if self.cause else "")


def runs(name, profile, args, axis, xs):
    return Series(name, ("--profile", profile, "--threads", "1", *args), axis, xs,
                  ("--operations", "20"), lambda x, ns: 100_000)


def single(profile, *args):
    """A measure of the time of one run."""
    return value(runs(profile, profile, args, ONE, (SEED,)), SEED, TIME)


def pair(profile):
    """The latency between neighbours: each of two nodes sends a message, and waits for the other's.
    """
    return single(profile, "--topo", "kary:4,2", "--pattern", "barrier", "--group-size", "2",
                  "--collective", "dissemination")


def stream(profile, kind, y, *args):
    """A measure of a single source that sends messages to one node, or multicasts."""
    return value(Series(profile, ("--profile", profile, "--threads", "1", "--sources", "first:1",
                                  "--topo", "kary:4,3", "--pattern", *kind, *args), ONE, (SEED,),
                        ("--warmup", "1000000ns", "--measure", "4000000ns"),
                        lambda x, ns: 100_000), SEED, y)


FULL = ("--load", "200%")
TO_ONE = ("complement",)
TO_ALL = ("multicast", "--fanout", "63", "--fanout-law", "fixed", "--sets", "1")


# --- V1: SHARP -----------------------------------------------------------------------------

HOSTS_128 = ("--topo", "kary:18,2", "--group-size", "128", "--pattern", "allreduce")
SIZES = (8, 64, 256, 1024, 4096)
SHARP = runs("by the switches", "sharp", HOSTS_128, BYTES, SIZES)
NO_PASS = runs("by units without input and output", "sharp", ("--set", "combine_ps=0", *HOSTS_128),
               BYTES, SIZES)
HOSTS = {how: runs(name, "sharp", (*HOSTS_128, "--collective", how), BYTES, SIZES)
         for how, name in {"dissemination": "messages, recursive doubling",
                           "dissemination:4": "messages, rounds of 4",
                           "dissemination:8": "messages, rounds of 8",
                           "tree": "messages, binomial tree"}.items()}


def of_size(series, size):
    return value(series, size, TIME)


def one_more_pass(size):
    """The result comes down through the units of the lower switches, too, which the emulated
    switches skip. A contribution passes two units."""
    return combined((of_size(SHARP, size), of_size(NO_PASS, size)),
                    lambda two, none: two + (two - none) / 2)


def fastest(series, x):
    return combined([value(one, x, TIME) for one in series], min)


# --- V2: QsNet -----------------------------------------------------------------------------

NODES_64 = ("--topo", "kary:4,3", "--pattern", "barrier")
ARITIES = Pick((2, 3, 4, 5, 6, 8, 12, 16), (2, 4, 8))
TREES = {"": runs("tree of messages", "qsnet", NODES_64, CHILDREN, ARITIES),
         "4": runs("the same, 4 packets outstanding", "qsnet", (*NODES_64, "--set", "channels=4"),
                   CHILDREN, ARITIES)}
BARRIER = single("qsnet", *NODES_64)
WITH_BUS = single("qsnet", *NODES_64, "--set", "barrier_root_ps=2766000")
BROADCAST = stream("qsnet", TO_ALL, COMPLETION, "--bytes", "256", "--load", "0.001")


def best(series):
    """The time of the fastest tree."""
    def measure(results):
        xs = results.effort.pick(series.xs)
        return min(TIME.of(one) for one in results.need(series, xs))
    return measure


# --- V3: QsNet II ----------------------------------------------------------------------------

NODES_512 = ("--topo", "kary:4,5", "--group-size", "512", "--pattern", "allreduce",
             "--processes", "4")
WIDTHS = Pick((2, 4, 8, 16), (2, 4, 8))
DOUBLE = tuple(word for field in ("nic_send_ps", "nic_recv_ps", "combine_header_ps")
               for word in ("--set", f"{field}=1177000"))
ADAPTERS = runs("MPI latency 1.22 µs", "qsnet2", NODES_512, WIDTH, WIDTHS)
SLOW = runs("MPI latency 2.44 µs", "qsnet2", (*NODES_512, *DOUBLE), WIDTH, WIDTHS)


def row(number, part, what, unit, stated, measure, cause=""):
    return Row(f"V{number}", part, (f"v{number}",), what, unit, stated, Predicts(stated, cause),
               measure)


def shown(number, part, what, measure):
    return Row(f"V{number}", part, (f"v{number}",), what, "µs", "-", None, measure)


FIGURES = (
    Figure("v1", "All-reduce of 128 hosts, EDR InfiniBand",
           (SHARP, NO_PASS, *HOSTS.values()), LOG_TIME,
           (("y", 2.83, "published"), ("y", 6.01, ""), ("y", 14.48, ""), ("y", 46.93, ""))),
    Figure("v2", "Barrier of 64 nodes by messages, QsNet", tuple(TREES.values()), TIME,
           (("y", 15, "published"),)),
    Figure("v3", "All-reduce of 2048 processes on 512 nodes, QsNet II", (ADAPTERS, SLOW), TIME,
           (("y", 22, "published"),)),
)
ROWS = (
    row(1, "latency", "MPI latency through one switch (calibrated)", "µs", 1.05, pair("sharp")),
    row(1, "8", "SHARP, 128 hosts: all-reduce of 8 bytes", "µs", 2.83, one_more_pass(8),
        "a pass through an aggregation node takes less time than through two adapters"),
    row(1, "multicast", "the same, result by multicast", "µs", 2.38, of_size(SHARP, 8),
        "as above"),
    shown(1, "none", "the same, if a pass took no time", of_size(NO_PASS, 8)),
    row(1, "4096", "SHARP, 128 hosts: all-reduce of 4096 bytes", "µs", 14.48, one_more_pass(4096),
        "the rate of an aggregation node is not published"),
    row(1, "hosts.8", "by hosts, fastest of 4 algorithms: 8 bytes", "µs", 6.01,
        fastest(HOSTS.values(), 8)),
    row(1, "hosts.4096", "by hosts, fastest of 4 algorithms: 4096 bytes", "µs", 46.93,
        fastest(HOSTS.values(), 4096), "the library's algorithm is not published"),
    shown(1, "hosts.tree", "by hosts, binomial tree: 4096 bytes", of_size(HOSTS["tree"], 4096)),
    row(2, "latency", "user-level latency (calibrated)", "µs", 2.0, pair("qsnet")),
    row(2, "bandwidth", "user-level bandwidth (calibrated)", "MB/s", 300,
        stream("qsnet", TO_ONE, BANDWIDTH, "--bytes", "65536", *FULL)),
    row(2, "barrier", "QsNet, 64 nodes: barrier in hardware", "µs", 6, BARRIER,
        "the adapter reads the ready word over the PCI bus"),
    shown(2, "barrier.bus", "the same, if that takes as long as nic_recv_ps", WITH_BUS),
    row(2, "messages", "QsNet, 64 nodes: barrier by messages, best tree", "µs", 15,
        best(TREES[""]), "an adapter waits for replies before its third packet"),
    shown(2, "messages.4", "the same, 4 packets outstanding", best(TREES["4"])),
    row(2, "broadcast", "QsNet, 64 nodes: barrier and broadcast of 256 bytes", "µs", 13,
        combined((BARRIER, BROADCAST), lambda a, b: a + b),
        "the library's protocol is not published"),
    row(2, "stream", "QsNet, 64 nodes: broadcasts of 64 KB", "MB/s", 288,
        stream("qsnet", TO_ALL, BANDWIDTH, "--bytes", "65536", *FULL)),
    row(3, "latency", "MPI latency (calibrated)", "µs", 1.22, pair("qsnet2")),
    row(3, "bandwidth", "MPI bandwidth (calibrated)", "MB/s", 912,
        stream("qsnet2", TO_ONE, BANDWIDTH, "--bytes", "65536", *FULL)),
    row(3, "allreduce", "QsNet II, 2048 processes: all-reduce of 8 bytes", "µs", 22,
        best(ADAPTERS), "1.22 µs is the MPI latency of the fastest hosts"),
    shown(3, "allreduce.slow", "the same, if MPI latency is 2.44 µs", best(SLOW)),
)


def markdown(verdicts):
    """The table of docs/validation.md; "" if these are not all rows V."""
    mine = [v for v in verdicts if v["id"].startswith("V")]
    if len(mine) < len(ROWS):
        return ""
    lines = ["| | what | predicted | published | error |", "| --- | --- | --- | --- | --- |"]
    for v in mine:
        stated, measured = v["stated"], v["measured"]
        known = isinstance(stated, (int, float)) and measured is not None
        percent = round(100 * (measured / stated - 1)) if known else 0
        error = "-" if not known else f"{percent:+d} %" if percent else "0 %"
        predicted = "-" if measured is None else f"{measured:.4g} {v['unit']}"
        published = f"{stated:g}" if known else "-"
        lines.append(f"| {v['id']} | {v['what']} | {predicted} | {published} | {error} |")
    return "\n".join(lines) + "\n"
