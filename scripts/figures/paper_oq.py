# SPDX-License-Identifier: BSD-3-Clause
"""paper_oq.py - the figures and stated results of "Hardware collectives in output-queued high-radix
routers" (Kumar, Kale, Stunkel): data only.

A figure is an entry of FIGURES, a stated result one of ROWS. Loads are fractions of link rate."""
from criteria import (AtLeast, Between, Near, Within, ask, crossover, least_gain, least_ratio, rise,
                      saturation, value)
from model import Axis, Figure, Pick, Quantity, Row, Series

LOAD = Axis("--load", "offered load (fraction of link rate)")
LOG_LOAD = LOAD._replace(log=10)
BYTES = Axis("--bytes", "bytes reduced", log=2)
THROUGHPUT = Quantity("throughput (% of all nodes' links)", "throughput_percent", ("delivered",),
                      ("accepted_ci95",), 100)
LATENCY = Quantity("mean latency (µs)", "mean_latency_us", ("latency_ns", "mean"),
                   ("latency_ns", "mean_ci95"), 1e-3, log=True)
TIME = Quantity("mean completion time (µs)", "mean_time_us", ("latency_ns", "mean"),
                ("latency_ns", "mean_ci95"), 1e-3)

# The paper says only that routing is adaptive; docs/figures/plots.md compares the choices.
ROUTER = ("--profile", "oq2004")
TREE = {8: ("--topo", "kary:4,4", *ROUTER), 32: ("--topo", "kary:16,2", *ROUTER)}   # 256 nodes
SWITCH = ("--topo", "kary:8,1", *ROUTER)


def lasting(warmup_ns, measure_ns):
    return ("--warmup", f"{warmup_ns}ns", "--measure", f"{measure_ns}ns")


# --- Figures 5 to 12: permutations on 256 nodes ----------------------------------------

PATTERNS = ("uniform", "transpose", "reversal", "complement")
HOPS = {8: 2000, 32: 1000}
LOADS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
# --quick measures fully only where the paper states numbers: 32 ports, 4 packets.
FEW = (0.1, 0.5, 0.8, 1.0)
PERMUTED = {
    (32, 4): (Pick(LOADS, (0.1, 0.5, 0.8, 0.85, 0.9, 0.95, 1.0)),
              Pick(lasting(500_000, 5_000_000), lasting(300_000, 1_500_000))),
    32: (Pick(LOADS, FEW), Pick(lasting(500_000, 3_000_000), lasting(100_000, 200_000))),
    8: (Pick(LOADS, FEW), Pick(lasting(300_000, 1_000_000), lasting(100_000, 200_000)))}


def permutations(ports, packets):
    xs, time = PERMUTED.get((ports, packets)) or PERMUTED[ports]
    return {pattern: Series(
        pattern, (*TREE[ports], "--set", f"xpoint_slots={packets}", "--pattern", pattern), LOAD, xs,
        time, HOPS[ports]) for pattern in PATTERNS}


PERMUTATIONS = {(ports, packets): permutations(ports, packets)
                for ports in (8, 32) for packets in (2, 4)}
BEST = PERMUTATIONS[32, 4]


def permutation_figures(number, ports, packets, marks=()):
    network = f"256 nodes, {ports}-port switches, {packets} packets a crosspoint"
    series = tuple(PERMUTATIONS[ports, packets].values())
    return (Figure(number, f"Throughput: {network}", series, THROUGHPUT, marks),
            Figure(number + 1, f"Latency: {network}", series, LATENCY))


def paired(better, worse):
    """Pairs of series of the same pattern."""
    return [(PERMUTATIONS[better][p], PERMUTATIONS[worse][p]) for p in PATTERNS]


# --- Figures 13 to 15: multicast -------------------------------------------------------

def on_switch(senders, loads, tolerance):
    """The curves of one 8-port switch: @senders of its 8 nodes multicast to 4 nodes on average."""
    some = () if senders == 8 else ("--sources", f"first:{senders}")
    common = (*SWITCH, "--pattern", "multicast", "--fanout", "4", *some)
    time = Pick(lasting(1_000_000, 20_000_000), lasting(500_000, 5_000_000))
    return {name: Series(name, common + router, LOAD, loads, time, 5 * senders, tolerance)
            for name, router in (("crosspoint buffers", ()),
                                 ("input-queued, virtual output queues",
                                  ("--set", "buffers=input")),
                                 ("crosspoints behind an input buffer",
                                  ("--set", "buffers=input_xpoint")))}


EIGHT = on_switch(8, Pick((0.02, 0.05, 0.1, 0.15, 0.18, 0.2, 0.22, 0.24, 0.26, 0.28),
                          (0.05, 0.15, 0.2, 0.25, 0.3)), 0.005)
TWO = on_switch(2, Pick((0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 1.0),
                        (0.1, 0.4, 0.6, 0.8, 1.0)), Pick(0.005, 0.01))
XPOINT, VOQ, _ = EIGHT      # the third router is the paper's future work

EVERYBODY = {ports: Series(
    f"{ports}-port switches", (*TREE[ports], "--pattern", "multicast", "--fanout", "8",
                               "--sets", "256"),
    LOAD, Pick((0.01, 0.02, 0.04, 0.06, 0.08, 0.09, 0.1, 0.11, 0.12, 0.13, 0.14),
               (0.01, 0.08, 0.1, 0.12)),
    Pick(lasting(200_000, 1_000_000), lasting(100_000, 200_000)), 12 * HOPS[ports],
    Pick(0.0025, 0.005))
    for ports in (8, 32)}


# --- Figure 16: reduction --------------------------------------------------------------

SIZES = Pick((8, 16, 24, 32, 48, 64, 80, 96, 128, 160, 192, 224, 256, 512, 1024),
             (8, 32, 64, 128, 256, 512))
SHORT = Pick((8, 16, 24, 32, 48, 64), (8, 32, 64))
LONG = Pick((80, 96, 128, 160, 192, 224, 256, 512, 1024), (128, 256, 512))


def reduction(name, ports, units):
    return Series(
        name, (*TREE[ports], "--set", f"combine_units={units}", "--pattern", "reduce",
               "--groups", "1", "--group-size", "256"), BYTES, SIZES,
        ("--operations", "10", "--interval", "100000ns"), 50_000)


REDUCE_8 = reduction("8-port switches", 8, 1)
REDUCE_32 = reduction("32-port switches, 1 combine unit", 32, 1)
REDUCE_32_5 = reduction("32-port switches, 5 combine units", 32, 5)


# --- Figures 17, 18: the molecular-dynamics benchmark ----------------------------------

MD_LOADS = Pick((0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.055, 0.06),   # below saturation with either
                (0.01, 0.03, 0.05))
MD_MORE = {"hardware": Pick((0.08, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9), (0.1, 0.4, 0.8)),
           "messages": Pick((0.065, 0.07), (0.07,))}


def dynamics(tree, hops):
    return {how: Series(
        name, (*tree, "--pattern", "md", "--multicast", how),
        LOG_LOAD, Pick(*(both + more for both, more in zip(MD_LOADS, MD_MORE[how]))),
        Pick(lasting(200_000, 2_000_000), lasting(100_000, 500_000)), hops)
        for how, name in (("hardware", "hardware multicast"),
                          ("messages", "point-to-point messages"))}


MD = {ports: dynamics(TREE[ports], 16 * 16 * HOPS[ports] / 256) for ports in (8, 32)}
MD_64 = dynamics(("--topo", "kary:4,3", *ROUTER), 4 * 16 * 4)


def md_pair(ports):
    return [(MD[ports]["messages"], MD[ports]["hardware"])]


# Multicasts from every node, which load the network and not only the links of the senders.
CROWD_LOADS = Pick((0.03, 0.04, 0.05), (0.03, 0.05))
CROWD = {ports: tuple(Series(
    f"all nodes, {ports} ports, {how}",
    (*TREE[ports], "--pattern", "multicast", "--fanout", "16", "--sets", "64", "--multicast", how),
    LOAD, CROWD_LOADS, Pick(lasting(200_000, 500_000), lasting(100_000, 150_000)), 16 * HOPS[ports])
    for how in ("messages", "hardware")) for ports in (8, 32)}


# --- the two tables ----------------------------------------------------------------------

FIGURES = (
    *permutation_figures(5, 8, 2),
    *permutation_figures(7, 8, 4),
    *permutation_figures(9, 32, 2),
    *permutation_figures(11, 32, 4, (("y", 93, "paper: about 93 %"), ("y", 100, "paper: 100 %"))),
    Figure(13, "Multicast on one 8x8 switch, mean fanout 4", tuple(EIGHT.values()), LATENCY,
           (("x", 0.25, "paper: 0.25"), ("x", 0.22, "paper, queued at the inputs: 0.22"))),
    Figure(14, "Multicast on one 2x8 switch, mean fanout 4", tuple(TWO.values()), LATENCY,
           (("x", 0.8, "paper: 0.8"), ("x", 0.65, "paper, queued at the inputs: 0.65"))),
    Figure(15, "Multicast from each of 256 nodes, mean fanout 8", tuple(EVERYBODY.values()),
           LATENCY,
           (("x", 0.125, "paper: stable below 0.125"),)),
    Figure(16, "Reduction over 256 nodes", (REDUCE_8, REDUCE_32, REDUCE_32_5), TIME,
           (("x", 64, "paper: 8 ports win above 64 bytes"),)),
    Figure(17, "Molecular-dynamics benchmark: 256 nodes, 8-port switches", tuple(MD[8].values()),
           LATENCY),
    Figure(18, "Molecular-dynamics benchmark: 256 nodes, 32-port switches", tuple(MD[32].values()),
           LATENCY),
    Figure("m1", "Molecular-dynamics benchmark: 64 nodes, 8-port switches", tuple(MD_64.values()),
           LATENCY),
)


def rises_at(pattern, words, rule):
    return Row("A3", pattern, (12,),
               f"{pattern}: load at which mean latency is 3 times that at load 0.5", "load",
               words, rule, rise(BEST[pattern], 3, 0.5, LATENCY))


def full(pattern, stated, margin, id):
    return Row(id, pattern, (11,), f"{pattern}, 32 ports, 4 packets: throughput at load 1.0", "%",
               stated, Within(stated, margin, " points"), value(BEST[pattern], 1.0, THROUGHPUT))


def beats(part, better, worse, what, figures):
    return Row("A4", part, figures, f"largest throughput, {what}: smallest gain of 4 patterns",
               "points", "better", AtLeast(0, 0.5), least_gain(paired(better, worse), THROUGHPUT))


def saturates(id, part, figure, series, stated, what):
    return Row(id, part, (figure,), f"{what}: largest load carried", "load", stated,
               Near(stated, 0.1), saturation(series))


def stable(ports):
    what = f"256 nodes, {ports} ports, fanout 8"
    return (Row("A7", "stable", (15,),
                f"{what}: load at which mean latency is twice that at load 0.01", "load",
                0.125, Near(0.125, 0.1), rise(EVERYBODY[ports], 2, 0.01, LATENCY)),
            saturates("A7", "carried", 15, EVERYBODY[ports], 0.125, what))


def gains(ports):
    return Row("A10", f"{ports}.ports", ({8: 17, 32: 18}[ports],),
               f"{ports} ports: latency of messages / of hardware multicast, minimum of the loads",
               "x",
               "hardware is better", AtLeast(1), least_ratio(md_pair(ports), MD_LOADS, LATENCY))


def saved(results, pair, loads):
    """The latency that hardware multicast saves, at each load."""
    messages, hardware = (results.need(series, loads) for series in pair)
    return [LATENCY.of(a) - LATENCY.of(b) for a, b in zip(messages, hardware)]


def saved_more(more, less, xs):
    """The time that @more saves, divided by the time that @less saves: mean over the loads."""
    def measure(results):
        loads = results.effort.pick(xs)
        ask(results, [*more, *less], loads)
        parts = [a / b for a, b in zip(saved(results, more, loads), saved(results, less, loads))]
        return sum(parts) / len(parts)
    return measure


ROWS = (
    full("complement", 100, 3, "A1"),
    full("uniform", 93, 4, "A2"), full("transpose", 93, 3, "A2"), full("reversal", 93, 3, "A2"),
    rises_at("transpose", "only above 0.9", Between(0.9, 1)),
    rises_at("reversal", "only above 0.9", Between(0.9, 1)),
    rises_at("complement", "good", AtLeast(0.95)), rises_at("uniform", "good", AtLeast(0.86)),
    beats("ports.4", (32, 4), (8, 4), "32 instead of 8 ports, 4 packets", (7, 11)),
    beats("ports.2", (32, 2), (8, 2), "32 instead of 8 ports, 2 packets", (5, 9)),
    beats("packets.32", (32, 4), (32, 2), "4 instead of 2 packets, 32 ports", (9, 11)),
    beats("packets.8", (8, 4), (8, 2), "4 instead of 2 packets, 8 ports", (5, 7)),
    saturates("A5", "crosspoint", 13, EIGHT[XPOINT], 0.25, "8x8 switch, fanout 4"),
    saturates("A5", "input_queued", 13, EIGHT[VOQ], 0.22,
              "8x8 switch, fanout 4, queued at the inputs"),
    saturates("A6", "crosspoint", 14, TWO[XPOINT], 0.8, "2x8 switch, fanout 4"),
    saturates("A6", "input_queued", 14, TWO[VOQ], 0.65,
              "2x8 switch, fanout 4, queued at the inputs"),
    *stable(32),
    Row("A8", "short", (16,), "reduction of at most 64 bytes: time with 8 / 32 ports, minimum",
        "x", "32 ports are as good", AtLeast(1), least_ratio([(REDUCE_8, REDUCE_32)], SHORT, TIME)),
    Row("A8", "long", (16,), "reduction of more than 64 bytes: time with 32 / 8 ports, minimum",
        "x", "8 ports win", AtLeast(1), least_ratio([(REDUCE_32, REDUCE_8)], LONG, TIME)),
    Row("A8", "crossover", (16,), "size above which reductions are faster with 8 ports", "bytes",
        64,
        Within(64, 32, " bytes"), crossover(REDUCE_8, REDUCE_32, TIME)),
    Row("A9", "units", (16,),
        "reduction of more than 64 bytes, 32 ports: time with 1 / 5 units, minimum",
        "x", "5 units are better", AtLeast(1), least_ratio([(REDUCE_32, REDUCE_32_5)], LONG, TIME)),
    Row("A9", "ports", (16,),
        "reduction of up to a packet: time with 8 ports / 32 ports and 5 units, minimum",
        "x", "good also when long", AtLeast(1),
        least_ratio([(REDUCE_8, REDUCE_32_5)],
                    Pick(SHORT.full + LONG.full[:7], SHORT.quick + LONG.quick[:2]), TIME)),
    gains(8), gains(32),
    Row("A10", "order", (17, 18),
        "time that hardware saves with 8 / 32 ports, mean of the loads",
        "x", "more so with 8 ports", AtLeast(1), saved_more(*md_pair(8), *md_pair(32), MD_LOADS)),
    Row("A10", "contention", (17, 18),
        "time that hardware saves with 8 / 32 ports, all 256 nodes multicast", "x",
        "more so with 8 ports", AtLeast(1), saved_more(CROWD[8], CROWD[32], CROWD_LOADS)),
    Row("A11", "", (),
        "input-queued wormhole router, 4-ary 4-tree: saturation with 1 / 2 / 4 virtual channels",
        "%",
        "35-40 / 55-60 / 75", None, None),
)
