# SPDX-License-Identifier: BSD-3-Clause
"""paper_qsnet.py - the stated results of "QsNet III, an Adaptively Routed Network for High
Performance Computing" (Roweth, Jones), and figures for them: data only. The paper has no curves;
figures q1, q2, … are ours.

Bandwidths count payload. A packet carries 1 KB, of which 960 bytes are the program's data."""
from criteria import (AtLeast, From, Near, combined, difference, first_reaching, over_xs, quotient,
                      value)
from model import Axis, Figure, Pick, Quantity, Row, Series

NODES = Axis("--topo", "nodes", log=2, form="qsnet:{}")
PAIRS = Axis("--pattern", "permutation", form="permutation:{}")
CHANNELS = Axis("--set", "virtual channels of a link", form="channels={}")
BYTES = Axis("--bytes", "bytes of a message", log=2)
TREES = Axis("--set", "trees of the group", log=2, form="broadcast_trees={}")
SKEW = Axis("--skew", "time over which the nodes arrive (ns)", log=10, form="{}ns")

BANDWIDTH = Quantity("bandwidth of a node (GB/s of payload)", "gbytes_per_s",
                     ("source_bytes_per_s", "mean"),
                     (), 1e-9)
WORST = Quantity("bandwidth of the worst pair (GB/s of payload)", "least_gbytes_per_s",
                 ("source_bytes_per_s", "min"), (), 1e-9)
RATE = Quantity("messages of a node (million/s)", "million_messages_per_s",
                ("source_messages_per_s", "mean"),
                (), 1e-6)
CROSSING = Quantity("latency of 1 KB (ns)", "latency_ns", ("latency_ns", "min"), (), 1)
TIME = Quantity("time (µs)", "mean_time_us", ("latency_ns", "mean"), ("latency_ns", "mean_ci95"),
                1e-3)
LOG_TIME = TIME._replace(label="time after the last arrival (µs)", log=True)
COMPLETION = Quantity("time until the last node has the data (µs)", "mean_completion_us",
                      ("completion_ns", "mean"),
                      ("completion_ns", "mean_ci95"), 1e-3, log=True)

MACHINE = ("--profile", "qsnet3", "--threads", "1")
PACKET = ("--bytes", "960")     # 1 KB with the headers of the segments: one packet
FULL = ("--load", "200%")       # more than the link rate: sources always have something to send
ALONE = ("--pattern", "complement", "--sources", "first:1")
LINK_BYTES_PER_US = 2500
SMALL = 32                      # bytes of the smallest packet on the wire


def lasting(warmup_ns, measure_ns):
    return ("--warmup", f"{warmup_ns}ns", "--measure", f"{measure_ns}ns")


def network(nodes):
    return (*MACHINE, "--topo", f"qsnet:{nodes}")


def hops_of(nodes):
    """All nodes send all the time. Above saturation, the queues take 50 µs more to drain."""
    return lambda x, ns: 70 * (nodes or x) * (ns + 50_000) / 1000


def hops_of_one(x, ns):
    return 100 * ns / 1000


# --- Q1: all to all ------------------------------------------------------------------------

ROUTINGS = ("adaptive", "oblivious", "static")
BULK = Pick(lasting(60_000, 60_000), lasting(20_000, 10_000))
ALL_TO_ALL = {routing: Series(
    f"{routing} routing", (*MACHINE, "--set", f"routing={routing}", "--pattern", "alltoall",
                           *PACKET, *FULL),
    NODES, Pick((32, 128, 256, 512, 1024), (32, 1024)), BULK, hops_of(None))
              for routing in ROUTINGS}

# --- Q2, Q3: pairs -------------------------------------------------------------------------

FAST = "static routing, links 1.8 times as fast"


def pairs(name, routing, *faster):
    # With static routing, the worst pair has little bandwidth, which takes longer to measure.
    quick = lasting(20_000, 60_000 if routing == "static" else 20_000)
    return Series(name, (*network(1024), "--set", f"routing={routing}", *faster, *PACKET, *FULL),
                  PAIRS,
                  Pick((1, 2, 3), (1,)), Pick(lasting(50_000, 100_000), quick), hops_of(1024))


PERMUTED = {routing: pairs(f"{routing} routing", routing) for routing in ROUTINGS}
PERMUTED[FAST] = pairs(FAST, "static", "--set", "link_ps_per_byte=222")

# --- Q4: crossing the network --------------------------------------------------------------

CROSSED = (*MACHINE, *ALONE, *PACKET, "--load", "0.01", "--arrivals", "fixed")
SIZES = Pick((32, 64, 128, 256, 512, 1024, 2048), (32, 1024, 2048))
CROSS = Series("1 KB", CROSSED, NODES, SIZES, lasting(10_000, 200_000), hops_of_one)
NO_SWITCHES = Series("with switches that take no time", (*CROSSED, "--set", "switch_ps=0"), NODES,
                     SIZES, lasting(10_000, 200_000), hops_of_one)

# --- Q5: virtual channels ------------------------------------------------------------------

CHANNELED = {nodes: Series(
    f"one pair of {nodes} nodes", (*network(nodes), *ALONE, *PACKET, *FULL), CHANNELS,
    Pick(tuple(range(1, 9)), (1, 2, 3, 4)), lasting(20_000, 100_000), hops_of_one)
             for nodes in (32, 2048)}
ADAPTER = value(CHANNELED[2048], 32, BANDWIDTH)    # bandwidth of a single pair

# --- Q6: small packets ---------------------------------------------------------------------

LENGTHS = Pick((8, 16, 32, 64, 96, 128, 192, 240, 480, 960, 1920, 3840), (8, 64, 240, 960))


def sized(name, nodes, *own):
    return Series(name, (*network(nodes), *FULL, *own), BYTES, LENGTHS, lasting(20_000, 50_000),
                  hops_of_one if own[:4] == ALONE else hops_of(nodes))


SMALL_ALONE = {nodes: sized(f"one pair of {nodes} nodes", nodes, *ALONE) for nodes in (32, 2048)}
SMALL_ONE_CHANNEL = {nodes: sized(f"one pair of {nodes} nodes, 1 channel", nodes, *ALONE,
                                  "--set", "channels=1")
                     for nodes in (32, 2048)}
SMALL_ALL = sized("all of 128 nodes, in pairs", 128, "--pattern", "permutation")

# --- Q7: barriers --------------------------------------------------------------------------

DESIGNS = {"conditional": "network conditional and broadcast",
           "tree": "tree of adapters and broadcast"}
BARRIER = {how: Series(
    name, (*MACHINE, "--set", f"barrier={how}", "--pattern", "barrier", "--operations", "20"),
    NODES,
    Pick((2, 4, 8, 16, 32, 64, 128, 256, 512, 1024), (8, 64, 256)), (), lambda x, ns: 100 * x)
    for how, name in DESIGNS.items()}
SKEWED = {how: Series(
    name, (*network(64), "--set", f"barrier={how}", "--pattern", "barrier"), SKEW,
    Pick((100, 300, 1000, 3000, 10000, 30000, 100000), (100, 1000, 10000, 100000)),
    Pick(("--operations", "1000"), ("--operations", "200")), lambda x, ns: 100_000)
    for how, name in DESIGNS.items()}

# --- Q8: broadcast -------------------------------------------------------------------------

CASTS = {"hardware": "by the switches", "tree": "binomial tree of messages",
         "tree:4": "tree of messages, 4 children each",
         "tree:8": "tree of messages, 8 children each", "messages": "a message to each"}
CAST_SIZES = Pick((8, 32, 64, 128, 240, 480, 960, 1920, 3840, 7680, 15360), (8, 240, 960, 7680))
BROADCAST = {how: Series(
    name, (*network(64), "--pattern", "multicast", "--multicast", how, "--sources", "first:1",
           "--sets", "1",
           "--fanout", "63", "--fanout-law", "fixed", "--load", "0.002", "--arrivals", "fixed"),
    BYTES, CAST_SIZES,
    Pick(lasting(10_000, 20_000_000), lasting(10_000, 8_000_000)), lambda x, ns: 200_000)
    for how, name in CASTS.items()}
SOFTWARE = [how for how in CASTS if how != "hardware"]

# --- Q9: collectives beside a file system --------------------------------------------------

# Without priorities, all packets have the lowest one. In the paper, short ones have a higher one.
BESIDE = {"alone": "alone", "none": "no priorities", "short": "short packets first",
          "bulk": "file system in class bulk", "latency": "and group in class latency"}
CLASSES = {"alone": (), "none": ("--storage", "4:bulk", "--tclass", "bulk"),
           "short": ("--storage", "4"), "bulk": ("--storage", "4:bulk"),
           "latency": ("--storage", "4:bulk", "--tclass", "latency")}


def beside(pattern, *own):
    return {how: Series(
        name, (*MACHINE, *CLASSES[how], "--pattern", pattern, *own, "--group-size", "32",
               "--placement", "random"),
        NODES, Pick((40, 48, 64, 96, 128), (64, 128)),
        Pick(("--operations", "50"), ("--operations", "20")),
        lambda x, ns: 10_000 if how == "alone" else 50_000 * (x - 36))
            for how, name in BESIDE.items()}


BARRIER_BESIDE = beside("barrier")
VECTOR_BESIDE = beside("allreduce", "--bytes", "3840")
LOG_MEAN = TIME._replace(log=True)

# --- Q10: several trees for broadcasts -----------------------------------------------------

LINKS = (1, 2, 4)
TREED = {links: Series(
    f"{links} link{'s' if links > 1 else ''} per node", (
        *MACHINE, "--topo", f"qsnet:64,links={links}", "--pattern", "multicast", "--sources",
        "first:1", "--sets", "1", "--fanout", "63", "--fanout-law", "fixed", *PACKET, *FULL),
    TREES, Pick((1, 2, 4, 8), (1, 2, 4)), lasting(20_000, 60_000), lambda x, ns: 100 * ns)
    for links in LINKS}

# --- the two tables ------------------------------------------------------------------------

FIGURES = (
    Figure("q1", "All to all", tuple(ALL_TO_ALL.values()), BANDWIDTH,
           (("y", 1.93, "paper: 85 % of a single pair"),)),
    Figure("q2", "Pairs at random, 1024 nodes: average", tuple(PERMUTED.values()), BANDWIDTH),
    Figure("q3", "Pairs at random, 1024 nodes: worst", tuple(PERMUTED.values()), WORST),
    Figure("q4", "1 KB from node to node", (CROSS, NO_SWITCHES), CROSSING),
    Figure("q5", "One pair alone", tuple(CHANNELED.values()), BANDWIDTH),
    Figure("q6", "Small messages", (*SMALL_ALONE.values(), SMALL_ALL),
           BANDWIDTH._replace(log=True)),
    Figure("q7", "Barrier, all nodes arrive at once", tuple(BARRIER.values()), TIME),
    Figure("q8", "Barrier of 64 nodes", tuple(SKEWED.values()), LOG_TIME),
    Figure("q9", "Broadcast from one to 63 nodes", tuple(BROADCAST.values()), COMPLETION),
    Figure("q10", "Barrier of 32 nodes; the others write to 4 servers",
           tuple(BARRIER_BESIDE.values()), LOG_MEAN),
    Figure("q11", "All-reduce of 3840 bytes; the others write to 4 servers",
           tuple(VECTOR_BESIDE.values()), LOG_MEAN),
    Figure("q12", "Broadcasts from one to 63 nodes", tuple(TREED.values()), BANDWIDTH),
)


def mean(values):
    return sum(values) / len(values)


def all_to_all(routing, stated, rule):
    return Row("Q1", routing, ("q1",),
               f"1024 nodes, all to all, {routing} routing: bandwidth, share of a single pair's",
               "%", stated, rule,
               quotient(value(ALL_TO_ALL[routing], 1024, BANDWIDTH), ADAPTER, 100))


def gain(id, figure, y, function, stated, what):
    """The gain of adaptive routing over static routing with equal and with faster links."""
    def over(other):
        return quotient(over_xs(PERMUTED["adaptive"], y, function),
                        over_xs(PERMUTED[other], y, function))
    return (Row(id, "equal", (figure,),
                f"1024 nodes in random pairs, {what}: adaptive / static routing",
                "x", stated, AtLeast(stated), over("static")),
            Row(id, "faster", (figure,), f"1024 nodes in random pairs, {what}: "
                "adaptive routing / static routing on links 1.8 times as fast",
                "x", stated, None, over(FAST)),
            Row(id, "oblivious", (figure,), f"1024 nodes in random pairs, {what}: "
                "adaptive / oblivious routing", "x", "-", None, over("oblivious")),
            Row(id, "adaptive", (figure,), f"1024 nodes in random pairs, {what}: "
                "adaptive routing, share of a single pair's",
                "%", "-", None, quotient(over_xs(PERMUTED["adaptive"], y, function), ADAPTER, 100)))


def crosses(nodes, stated):
    return Row("Q4", f"{nodes}.nodes", ("q4",),
               f"1 KB in a network of {nodes} nodes: time in switches", "ns",
               stated, Near(stated, 0.1),
               difference(value(CROSS, nodes, CROSSING), value(NO_SWITCHES, nodes, CROSSING)))


def fills(nodes):
    return Row("Q5", f"{nodes}.nodes", ("q5",),
               f"one pair of {nodes} nodes: fewest virtual channels "
               "with 99 % of the bandwidth of 32", "channels", "2 or 3", From(2, 3),
               first_reaching(CHANNELED[nodes], 0.99, 32, BANDWIDTH))


def outstanding(nodes):
    """The limit of the packet rate: 32 packets per round trip, or the rate of the wire."""
    return combined((value(SMALL_ONE_CHANNEL[nodes], 0, RATE),),
                    lambda one: min(32 * one, LINK_BYTES_PER_US / SMALL))


def small(nodes):
    rate = value(SMALL_ALONE[nodes], 0, RATE)
    return (Row("Q6", f"{nodes}.rate", ("q6",), f"32-byte packets, one pair of {nodes} nodes: rate",
                "million/s", "-", None, rate),
            Row("Q6", f"{nodes}.limit", ("q6",),
                f"32-byte packets, one pair of {nodes} nodes: rate, share of the limit", "%", "-",
                AtLeast(90), quotient(rate, outstanding(nodes), 100)))


def barrier(how, words):
    return Row("Q7", how, ("q7",), f"barrier of 64 nodes by {words}, all arrive at once: time",
               "µs", "-", None, value(BARRIER[how], 64, TIME))


def slowed(figure, series, what, how, words, rule=None):
    """How many times longer an operation takes beside the file system than alone."""
    return Row("Q9", f"{what}.{how}", (figure,),
               f"{what} of 32 of 128 nodes, 92 nodes write to 4 servers, {words}: "
               "time / time alone",
               "x", "-", rule, quotient(value(series[how], 128, TIME),
                                        value(series["alone"], 128, TIME)))


def relieved(figure, series, what, than, how, words):
    """The gain of a choice of priorities over another one."""
    return Row("Q9", f"{what}.gain", (figure,),
               f"{what} of 32 of 128 nodes beside a file system: {words}", "x",
               "reduces the impact", AtLeast(1), quotient(value(series[than], 128, TIME),
                                                          value(series[how], 128, TIME)))


def cast_gain(size):
    """The time of the fastest broadcast in software, divided by that in switches."""
    return quotient(combined([value(BROADCAST[how], size, COMPLETION) for how in SOFTWARE], min),
                    value(BROADCAST["hardware"], size, COMPLETION))


def least_cast_gain(results):
    return combined([cast_gain(size) for size in results.effort.pick(CAST_SIZES)], min)(results)


def trees(links):
    return Row("Q10", f"{links}.links", ("q12",),
               f"broadcasts to 63 nodes with {links} links each: bandwidth with {links} trees / "
               "with one", "x", "planned", AtLeast(0.95 * links),
               quotient(value(TREED[links], links, BANDWIDTH), value(TREED[links], 1, BANDWIDTH)))


ROWS = (
    all_to_all("adaptive", "more than 85", AtLeast(85)), all_to_all("oblivious", "-", None),
    all_to_all("static", "-", None),
    *gain("Q2", "q2", BANDWIDTH, mean, 1.4, "average bandwidth"),
    *gain("Q3", "q3", WORST, min, 2.6, "bandwidth of the worst pair"),
    crosses(32, 40), crosses(2048, 200),
    fills(32), fills(2048),
    *small(32), *small(2048),
    Row("Q6", "all", ("q6",), "32-byte packets, 128 nodes in pairs: rate of a node",
        "million/s", "-",
        None, value(SMALL_ALL, 0, RATE)),
    *(barrier(how, words) for how, words in DESIGNS.items()),
    Row("Q7", "together", ("q7",),
        "64 nodes arrive at once: time of the tree / of the conditional", "x",
        "conditional suits", AtLeast(1), quotient(value(BARRIER["tree"], 64, TIME),
                                                  value(BARRIER["conditional"], 64, TIME))),
    Row("Q7", "apart", ("q8",),
        "64 nodes arrive over 100 µs: time of the conditional / of the tree", "x",
        "tree suits", AtLeast(1), quotient(value(SKEWED["conditional"], 100000, TIME),
                                           value(SKEWED["tree"], 100000, TIME))),
    Row("Q8", "least", ("q9",),
        "broadcast to 63 nodes: time of fastest software / of switches, minimum of sizes",
        "x", "faster than software", AtLeast(1), least_cast_gain),
    Row("Q8", "1K", ("q9",),
        "broadcast of 1 KB to 63 nodes: time of fastest software / of switches", "x", "-", None,
        cast_gain(960)),
    *(slowed("q10", BARRIER_BESIDE, "barrier", how, BESIDE[how]) for how in BESIDE
      if how != "alone"),
    relieved("q10", BARRIER_BESIDE, "barrier", "none", "short",
             "time without priorities / with short packets first"),
    *(slowed("q11", VECTOR_BESIDE, "all-reduce", how, BESIDE[how]) for how in BESIDE
      if how != "alone"),
    relieved("q11", VECTOR_BESIDE, "all-reduce", "short", "bulk",
             "time with short packets first / with file system in class bulk"),
    trees(2), trees(4),
)
