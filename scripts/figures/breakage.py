# SPDX-License-Identifier: BSD-3-Clause
"""breakage.py - data only: throughput while links fail (figures r, rows R), and collectives under
the noise of operating systems (figures n, rows N). No paper has these numbers."""
import os

from criteria import AtLeast, AtMost, combined, difference, quotient, value
from model import Added, Axis, Figure, Pick, Quantity, Row, Series
from recovery import Expected, Trace, of_outage

# --- recovery --------------------------------------------------------------------------------

SCHEDULE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recovery.faults")
NS = 1000       # ns per µs
BEFORE_NS = 200 * NS    # start of the mean throughput before the first failure
TIME_OF_RUN = ("--warmup", "100000ns", "--measure", "2300000ns")
WINDOW = Axis("--series", "time (µs)", form="{}ns", name="time_us")
WINDOW_NS = (10000,)
THROUGHPUT = Quantity("payload delivered to a node (GB/s)", "gbytes_per_s", (), (), 1)
ROUTINGS = ("adaptive", "static")
LOADS = {"0.8": "below saturation", "200%": "saturated"}


def failing(kind, name, load, routing, **own):
    return kind(name, ("--profile", "qsnet3", "--threads", "1", "--topo", "kary:8,2",
                       "--bytes", "960",
                       "--set", f"routing={routing}", "--load", load, "--faults", SCHEDULE), WINDOW,
                WINDOW_NS, TIME_OF_RUN, lambda x, ns: 70 * 64 * ns / 1000, **own)


TRACES = {(load, routing): failing(Trace, f"{routing} routing", load, routing)
          for load in LOADS for routing in ROUTINGS}
EXPECTED = {load: failing(Expected, "expected throughput", load,
                          "adaptive", before_ns=BEFORE_NS) for load in LOADS}

OUTAGES = ("a link of 64 is down", "a top switch of 8 is down")
BACK_US = 100       # limit of the recovery time with adaptive routing


def of_run(load, routing, number, function):
    return of_outage(TRACES[load, routing], number, BEFORE_NS, function)


def recovered(load, number):
    """The rows of one load and outage."""
    figure, what = (f"r{1 + list(LOADS).index(load)}",), f"{LOADS[load]}, {OUTAGES[number]}"
    part = f"{'link' if number == 0 else 'switch'}.{load}"
    return (
        Row("R1", part, figure,
            f"{what}, adaptive routing: time until throughput is back", "µs", "-", AtMost(BACK_US),
            of_run(load, "adaptive", number,
                   lambda r: None if r.took_ns is None else r.took_ns / NS)),
        Row("R1", part + ".after", figure,
            f"{what}, adaptive routing: throughput before the repair, share of expected", "%", "-",
            AtLeast(95), of_run(load, "adaptive", number, lambda r: 100 * r.after / r.expected)),
        Row("R1", part + ".tables", figure,
            f"{what}, adaptive routing: time until new tables are in force", "µs", "-", None,
            of_run(load, "adaptive", number,
                   lambda r: None if r.tables_ns is None else r.tables_ns / NS)),
        Row("R1", part + ".worst", figure,
            f"{what}, adaptive routing: worst throughput over 10 µs, share of expected", "%", "-",
            None,
            of_run(load, "adaptive", number, lambda r: 100 * r.worst / r.expected)),
        Row("R2", part, figure,
            f"{what}, static routing: throughput before the repair, share of expected", "%", "-",
            AtMost(95), of_run(load, "static", number, lambda r: 100 * r.after / r.expected)))


# --- noise -----------------------------------------------------------------------------------

SHARE = Axis("--noise", "share of the core that the system takes, at 1 kHz (%)", log=10,
             form=lambda percent: f"1ms:{percent * 10000:.0f}ns", name="share_percent")
LENGTH = Axis("--noise", "length of an interruption (µs), 2.5 % of all time", log=10,
              form=lambda us: f"{us * 40000:.0f}ns:{us * 1000:.0f}ns", name="length_us")
SHARES = Pick((0.05, 0.1, 0.25, 0.5, 1, 2.5, 5), (0.1, 2.5))
LENGTHS = Pick((0.25, 2.5, 25, 250, 2500), (2.5, 25))
# 38.2 ms apart, so that operations start at different phases of the noise and do not overlap
APART = ("--interval", "38196601ns", "--operations")
OPERATIONS = Pick((*APART, "200"), (*APART, "25"))

TIME = Quantity("mean time (µs)", "mean_time_us", ("latency_ns", "mean"),
                ("latency_ns", "mean_ci95"), 1e-3, log=True)
MEDIAN = Quantity("median time (µs)", "median_time_us", ("latency_ns", "median"), (), 1e-3,
                  log=True)
MORE = TIME._replace(label="mean time minus that without noise (µs)", column="added_us")

MACHINES = {("oq2004", 64): "kary:4,3", ("oq2004", 256): "kary:4,4", ("qsnet3", 64): "qsnet:64",
            ("qsnet3", 256): "qsnet:256"}
HOWS = {"hardware": "hardware", "dissemination": "messages, dissemination",
        "tree": "messages, binomial tree"}


def noisy(kind, axis, xs, pattern, profile, nodes, how, name):
    return kind(name, ("--profile", profile, "--topo", MACHINES[profile, nodes], "--threads", "1",
                       "--pattern", pattern, "--collective", how), axis, xs, OPERATIONS,
                lambda x, ns: nodes * (2000 if how == "dissemination" else 400))


PATTERNS = {"barrier": "Barrier", "allreduce": "All-reduce of 8 bytes"}
NOISY = {(pattern, profile, nodes, how):
         noisy(Added, SHARE, SHARES, pattern, profile, nodes, how, f"{nodes} nodes, {HOWS[how]}")
         for pattern in PATTERNS for profile, nodes in MACHINES for how in HOWS}
PLAIN = {(profile, how): noisy(Series, SHARE, SHARES, "barrier", profile, 256, how,
                               f"{profile}, {HOWS[how]}")
         for profile in ("oq2004", "qsnet3") for how in HOWS}
BY_LENGTH = {(profile, how): noisy(Series, LENGTH, LENGTHS, "barrier", profile, 256, how,
                                   f"{profile}, {HOWS[how]}")
             for profile in ("oq2004", "qsnet3") for how in HOWS}


def of_profile(pattern, profile):
    return tuple(NOISY[pattern, profile, nodes, how] for how in HOWS for nodes in (64, 256))


def added(pattern, profile, nodes, how, share):
    series = NOISY[pattern, profile, nodes, how]
    return difference(value(series, share, TIME), value(series, 0, TIME))


def noise_figures():
    each = [(pattern, profile) for pattern in PATTERNS for profile in ("oq2004", "qsnet3")]
    return tuple(Figure(f"n{i}", f"{PATTERNS[pattern]}, {profile}: what noise adds",
                        of_profile(pattern, profile), MORE)
                 for i, (pattern, profile) in enumerate(each, 1))


def noise_rows(figure, pattern, profile, nodes):
    what = f"{pattern} of {nodes} nodes, {profile}"
    part = f"{pattern}.{profile}.{nodes}"
    quiet = {how: value(NOISY[pattern, profile, nodes, how], 0, TIME) for how in HOWS}
    rows = [Row("N1", part, (figure,),
                f"{what}, without noise: time of fastest software / of hardware", "x", "-",
                AtLeast(1), quotient(combined((quiet["dissemination"], quiet["tree"]), min),
                                     quiet["hardware"]))]
    for share in (0.1, 2.5):
        more = {how: added(pattern, profile, nodes, how, share) for how in HOWS}
        rows.append(Row("N2", f"{part}.{share:g}", (figure,),
                        f"{what}, noise of {share:g} % at 1 kHz: "
                        "time added to dissemination / to hardware", "x", "-",
                        AtLeast(1) if share == 0.1 else None,
                        quotient(more["dissemination"], more["hardware"])))
        rows += [] if nodes < 256 else [
                 Row("N3", f"{part}.{how}.{share:g}", (figure,),
                     f"{what}, noise of {share:g} % at 1 kHz: time added to {HOWS[how]}",
                     "µs", "-", None, more[how]) for how in HOWS]
    return tuple(rows)


FIGURES = (
    *(Figure(f"r{i}", f"A link, then a switch, fail and come back: {words}",
             (*(TRACES[load, routing] for routing in ROUTINGS), EXPECTED[load]), THROUGHPUT)
      for i, (load, words) in enumerate(LOADS.items(), 1)),
    *noise_figures(),
    Figure("n5", "Barrier of 256 nodes, noise of 2.5 %", tuple(BY_LENGTH.values()), TIME),
    Figure("n6", "Barrier of 256 nodes, noise at 1 kHz", tuple(PLAIN.values()), MEDIAN),
)
ROWS = (
    *(row for load in LOADS for number in (0, 1) for row in recovered(load, number)),
    *(row for i, (pattern, profile) in
      enumerate([(p, q) for p in PATTERNS for q in ("oq2004", "qsnet3")], 1)
      for nodes in (64, 256) for row in noise_rows(f"n{i}", pattern, profile, nodes)),
)
