# SPDX-License-Identifier: BSD-3-Clause
"""recovery.py - throughput over time while links fail, computed from the output of `fabemu traffic
--series --faults`.

An outage is the time from the failure of the first link until the first link is back in use."""
from dataclasses import dataclass
from typing import NamedTuple

from model import Failed, Series, Shown

MEAN_NS = 50_000    # window of the mean throughput
NEAR = 0.95         # share of the expected throughput from which it counts as recovered


class Outage(NamedTuple):
    begins_ns: float
    ends_ns: float
    tables_ns: float    # when new tables were in force; None: never
    share: float        # share of the links between switches that are in use


class Recovery(NamedTuple):
    """Throughputs in GB/s of payload per node."""
    before: float
    worst: float
    after: float            # mean of the last MEAN_NS of the outage
    expected: float         # before, times Outage.share
    took_ns: object         # from the start of the outage to the recovery; None: never
    tables_ns: object       # from the start of the outage to new tables; None: never


def outages(result):
    """The outages of a run, in order."""
    faults = result["faults"]
    found, begins, out = [], None, 0
    for change in faults["changes"]:
        if change["new_tables"]:
            continue
        if begins is None and change["links_out"]:
            begins, out = change["at_ns"], change["links_out"]
        elif begins is not None and change["links_out"] < out:
            found.append((begins, change["at_ns"], out))
            begins = None if not change["links_out"] else change["at_ns"]
        out = change["links_out"]
    return [Outage(begins, ends, tables_after(faults, begins, ends),
                   1 - out / faults["links_between_switches"]) for begins, ends, out in found]


def tables_after(faults, begins, ends):
    return next((change["at_ns"] for change in faults["changes"]
                 if change["new_tables"] and begins <= change["at_ns"] < ends), None)


def throughputs(result):
    """Return [(end of the window in ns, GB/s of payload per node)] of all complete windows."""
    series = result["series"]
    window = series["window_ns"]
    last = (result["warmup_ns"] + result["measure_ns"]) / window
    return [((i + 1) * window, count / window / result["nodes"])
            for i, count in enumerate(series["payload_bytes"]) if i + 1 <= last + 1e-9]


def mean(values):
    if not values:
        raise Failed
    return sum(values) / len(values)


def within(points, begins, ends):
    """Return the throughputs of the windows between the two times."""
    window = points[0][0]
    return [y for at, y in points if at - window >= begins - 1e-6 and at <= ends + 1e-6]


def recovery(result, number, before_ns):
    """Return the recovery from outage @number. The throughput before the outages is the mean from
    @before_ns to the first outage."""
    found = outages(result)
    if len(found) <= number:
        raise Failed
    outage = found[number]
    points = throughputs(result)
    window = points[0][0]
    before = mean(within(points, before_ns, found[0].begins_ns))
    during = within(points, outage.begins_ns, outage.ends_ns)
    size = max(1, round(MEAN_NS / window))
    means = [mean(during[i:i + size]) for i in range(len(during) - size + 1)]
    expected = before * outage.share
    low = [i for i, value in enumerate(means) if value < NEAR * expected]
    first = low[-1] + 1 if low else 0
    return Recovery(before, min(during), mean(during[-size:]), expected,
                    first * window if first < len(means) else None,
                    None if outage.tables_ns is None else outage.tables_ns - outage.begins_ns)


@dataclass(frozen=True)
class Trace(Series):
    """The throughput of a run over time."""
    def shown(self, results, y):
        result, = results.need(self, results.effort.pick(self.xs))
        point = self.point(results.effort.pick(self.xs)[0], results.effort)
        return [Shown(at / 1000, value, None, False, point, result)
                for at, value in throughputs(result)]


@dataclass(frozen=True)
class Expected(Trace):
    """The expected throughput during the outages of a run."""
    before_ns: float = 0    # argument of recovery()

    def shown(self, results, y):
        result, = results.need(self, results.effort.pick(self.xs))
        point = self.point(results.effort.pick(self.xs)[0], results.effort)
        found = []
        for number, outage in enumerate(outages(result)):
            value = recovery(result, number, self.before_ns).expected
            found += [Shown(at / 1000, value, None, False, point, result)
                      for at in (outage.begins_ns, outage.ends_ns)]
            found.append(Shown(outage.ends_ns / 1000, float("nan"), None, False, point, result))
        return found


def of_outage(series, number, before_ns, function):
    """Return a measure (criteria.py): @function of the recovery from outage @number of a run."""
    def measure(results):
        result, = results.need(series, results.effort.pick(series.xs))
        value = function(recovery(result, number, before_ns))
        if value is None:
            raise Failed
        return value
    return measure
