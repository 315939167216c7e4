# SPDX-License-Identifier: BSD-3-Clause
"""model.py - what a figure, a series, a point and a stated result are; the results so far.

Pull model: a figure or a row asks the results for the points that it needs. What is not there yet
is noted as wanted and Pending is raised; when points have come, it is asked again. So a search for
a load, which needs one round of points to know the next, is an ordinary function, and a point that
several ask for runs once."""
from dataclasses import dataclass, field
from typing import Callable, NamedTuple

PACKET_NS = 204.8  # 256 bytes at 10 Gb/s: only to guess what a point costs


class Pick(NamedTuple):
    """A value for a full run and one for --quick."""
    full: object
    quick: object


class Effort(NamedTuple):
    """How much a run measures; the same for all of its points."""
    quick: bool
    seed: int

    def pick(self, value):
        return value[self.quick] if isinstance(value, Pick) else value


@dataclass(frozen=True)
class Point:
    """One run of `fabemu traffic`."""
    args: tuple                          # its command line after "traffic"
    cost: float = field(compare=False)   # hops of segments it simulates, about


class Axis(NamedTuple):
    """What the x axis varies."""
    option: str     # of fabemu traffic
    label: str
    log: int = 0    # base; 0: linear
    form: object = "{}"     # the option's value for an x: to be filled in, or a function of x
    name: str = ""      # in the CSV; else the option's

    def args(self, x):
        return (self.option, self.form(x) if callable(self.form) else self.form.format(number(x)))

    @property
    def column(self):
        return self.name or self.option[2:]


class Quantity(NamedTuple):
    """What the y axis shows: a field of fabemu traffic's JSON."""
    label: str
    column: str     # in the CSV: name and unit
    path: tuple
    # the field with half the width of its 95 % confidence interval; (): there is none
    ci: tuple
    scale: float
    log: bool = False

    def of(self, result):
        return self.scale * dig(result, self.path)

    def ci_of(self, result):
        value = dig(result, self.ci) if self.ci else None
        return None if value is None else self.scale * value


def dig(result, path):
    """A field of fields; None where it is not."""
    for name in path:
        result = result.get(name) if isinstance(result, dict) else None
    return result


class Shown(NamedTuple):
    """A point of a curve."""
    x: float
    y: float
    ci: object          # half the width of its 95 % confidence interval; None: unknown
    saturated: bool
    point: Point
    result: dict


@dataclass(frozen=True)
class Series:
    """One curve."""
    name: str
    args: tuple             # of fabemu traffic, without x, time and seed
    axis: Axis
    xs: object              # values of x, a tuple or a Pick of tuples
    time: object            # arguments that say how long, a tuple or a Pick of tuples
    # a guess, for the order: hops of segments in one packet time at x = 1, or a function of x and
    # all ns that gives those of the point
    hops: object
    tolerance: object = 0   # find the x where it saturates to this width; 0: leave the xs alone

    def point(self, x, effort):
        time = effort.pick(self.time)
        return Point(self.args + time + self.axis.args(x) + ("--seed", str(effort.seed)),
                     self.cost(x, time))

    def shown(self, results, y):
        """What is drawn of it, in order."""
        return [Shown(x, y.of(result), y.ci_of(result), bool(result["saturated"]),
                      self.point(x, results.effort), result)
                for x, result in sorted(results.sweep(self).items())]

    def cost(self, x, time):
        ns = sum(float(value) for name, value in zip(time, time[1:])
                 if name in ("--warmup", "--measure"))
        if callable(self.hops):
            return self.hops(x, ns)
        return self.hops * (x * ns / PACKET_NS if ns else 1)


@dataclass(frozen=True)
class Added(Series):
    """A curve of what is more than at one x: y less y there. A gap where it is not (rounded)."""
    base: float = 0

    def shown(self, results, y):
        base = y.of(*results.need(self, [self.base]))
        return [one._replace(y=one.y - base if one.y - base > 1e-9 * base else float("nan"))
                for one in super().shown(results, y)]


@dataclass(frozen=True)
class Figure:
    number: object      # the paper's, or a name of ours
    title: str
    series: tuple
    y: Quantity
    marks: tuple = ()       # (x or y, value, label): what the paper's text states

    @property
    def name(self):
        return f"fig{self.number:02d}" if isinstance(self.number, int) else f"fig{self.number}"


@dataclass(frozen=True)
class Row:
    """One number that the paper's text fixes, or an order that is put as a number."""
    id: str
    part: str
    figures: tuple          # Figure.number of those whose series it is measured from
    what: str
    unit: str
    stated: object          # the paper's number, or its words
    rule: object            # criteria.py; None: the number is shown, and not judged
    measure: Callable       # results -> number or (number, ci); None: nothing to measure


class Pending(Exception):
    """Points are missing; they are noted as wanted."""


class Failed(Exception):
    """A point that this needs has failed."""


class Results:
    """What is known so far. Owned by the one thread."""

    def __init__(self, effort):
        self.effort = effort
        self.known = {}     # Point -> JSON object of fabemu traffic
        self.failed = {}    # Point -> why
        self.wanted = {}    # points that somebody asked for and that are in neither

    def want(self, points):
        """Note which of these are missing; are there any?"""
        missing = [p for p in points if p not in self.known and p not in self.failed]
        self.wanted.update(dict.fromkeys(missing))
        return bool(missing)

    def need(self, series, xs):
        """The results of a series at xs, all of them."""
        points = [series.point(x, self.effort) for x in xs]
        if self.want(points):
            raise Pending
        if any(p in self.failed for p in points):
            raise Failed
        return [self.known[p] for p in points]

    def whole_sweep(self, series):
        """As sweep(), if nothing of it failed."""
        found = self.sweep(series)
        self.need(series, self.effort.pick(series.xs))
        return found

    def sweep(self, series):
        """{x: result} of a whole series without what failed; with a tolerance, also the xs around
        the one where it saturates."""
        xs = list(self.effort.pick(series.xs))
        while True:
            points = {x: series.point(x, self.effort) for x in xs}
            if self.want(points.values()):
                raise Pending
            found = {x: self.known[p] for x, p in points.items() if p in self.known}
            more = between(*edge(found), self.effort.pick(series.tolerance))
            more = [x for x in more if x not in points]
            if not more:
                return found
            xs = sorted(xs + more)


def edge(found):
    """The largest x that is carried before the first that is not, and that one; None: there is
    none."""
    carried = None
    for x in sorted(found):
        if found[x]["saturated"]:
            return carried, x
        carried = x
    return carried, None


def between(low, high, tolerance):
    """Up to three multiples of the tolerance that divide low to high; none when that is narrow."""
    if not tolerance or low is None or high is None or high - low < 1.5 * tolerance:
        return []
    steps = round((high - low) / tolerance)
    cuts = sorted({round(steps * part / 4) for part in (1, 2, 3)} - {0, steps})
    return [round(low + cut * tolerance, 6) for cut in cuts]


def number(x):
    """0.3, not 0.30000000000000004."""
    return f"{x:.6g}"
