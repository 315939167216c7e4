# SPDX-License-Identifier: BSD-3-Clause
"""model.py - figures, series, points and stated results; the results so far.

A *point* is one run of `fabemu traffic`. Figures and rows request points from Results. If a point
has not run, Results notes it as wanted and raises Pending; measure.py repeats the request when more
points have finished. Therefore a search for a load, which needs some results to choose the next
points, is an ordinary function. A point that several figures need runs once."""
from dataclasses import dataclass, field
from typing import Callable, NamedTuple

START_HOPS = 400_000  # simulating these takes as long as the start and end of fabemu traffic
PACKET_NS = 204.8  # 256 bytes at 10 Gb/s, to estimate the cost of a point


class Pick(NamedTuple):
    """A value for a full run and one for --quick."""
    full: object
    quick: object


class Effort(NamedTuple):
    """The settings for all points of a run."""
    quick: bool
    seed: int

    def pick(self, value):
        return value[self.quick] if isinstance(value, Pick) else value


@dataclass(frozen=True)
class Point:
    """One run of `fabemu traffic`."""
    args: tuple                          # its command line after "traffic"
    cost: float = field(compare=False)   # estimated number of hops of all segments


class Axis(NamedTuple):
    """An x axis: the option of fabemu traffic that it varies."""
    option: str
    label: str
    log: int = 0    # base; 0: linear
    form: object = "{}"     # the value of the option: a format string, or a function of x
    name: str = ""      # its column in the CSV file; default: the name of the option

    def args(self, x):
        return (self.option, self.form(x) if callable(self.form) else self.form.format(number(x)))

    @property
    def column(self):
        return self.name or self.option[2:]


class Quantity(NamedTuple):
    """A y axis: a field of the JSON of fabemu traffic."""
    label: str
    column: str     # its column in the CSV file: name and unit
    path: tuple
    # field with half the width of the 95 % confidence interval; (): none
    ci: tuple
    scale: float
    log: bool = False

    def of(self, result):
        return self.scale * dig(result, self.path)

    def ci_of(self, result):
        value = dig(result, self.ci) if self.ci else None
        return None if value is None else self.scale * value


def dig(result, path):
    """A nested field; None if it is missing."""
    for name in path:
        result = result.get(name) if isinstance(result, dict) else None
    return result


class Shown(NamedTuple):
    """A point of a curve."""
    x: float
    y: float
    ci: object          # half the width of the 95 % confidence interval; None: unknown
    saturated: bool
    point: Point
    result: dict


@dataclass(frozen=True)
class Series:
    """One curve."""
    name: str
    args: tuple             # arguments of fabemu traffic, without x, time and seed
    axis: Axis
    xs: object              # values of x, a tuple or a Pick of tuples
    time: object            # arguments for the simulated time, a tuple or a Pick of tuples
    # to estimate the cost of a point: hops of segments in one packet time at x = 1, or a function
    # of x and the simulated time in ns that returns the hops of the point
    hops: object
    tolerance: object = 0   # accuracy of the search for the x of saturation; 0: no search

    def point(self, x, effort):
        time = effort.pick(self.time)
        return Point(self.args + time + self.axis.args(x) + ("--seed", str(effort.seed)),
                     START_HOPS + self.cost(x, time))

    def shown(self, results, y):
        """The points to draw, in order."""
        return [Shown(x, y.of(result), y.ci_of(result), bool(result["saturated"]),
                      self.point(x, results.effort), result)
                for x, result in sorted(results.sweep(self).items())]

    def cost(self, x, time):
        ns = sum(float(value.removesuffix("ns")) for name, value in zip(time, time[1:])
                 if name in ("--warmup", "--measure"))
        if callable(self.hops):
            return self.hops(x, ns)
        return self.hops * (x * ns / PACKET_NS if ns else 1)


@dataclass(frozen=True)
class Added(Series):
    """A curve of y minus the y at @base, with a gap where the difference is not above 0."""
    base: float = 0

    def shown(self, results, y):
        base = y.of(*results.need(self, [self.base]))
        return [one._replace(y=one.y - base if one.y - base > 1e-9 * base else float("nan"))
                for one in super().shown(results, y)]


@dataclass(frozen=True)
class Figure:
    number: object      # the paper's number, or our own name
    title: str
    series: tuple
    y: Quantity
    marks: tuple = ()       # (x or y, value, label): numbers that the paper states

    @property
    def name(self):
        return f"fig{self.number:02d}" if isinstance(self.number, int) else f"fig{self.number}"


@dataclass(frozen=True)
class Row:
    """One result: a number, or a comparison expressed as a number, for example a quotient."""
    id: str
    part: str
    figures: tuple          # Figure.number of the figures with its series
    what: str
    unit: str
    stated: object          # the paper's number or text
    rule: object            # a criterion of criteria.py; None: the row has no verdict
    measure: Callable       # results -> number or (number, ci); None: not measured


class Pending(Exception):
    """Required points have not run yet; Results has noted them as wanted."""


class Failed(Exception):
    """A required point has failed."""


class Results:
    """The results so far. Not thread-safe: the program has only one thread."""

    def __init__(self, effort):
        self.effort = effort
        self.known = {}     # Point -> JSON object of fabemu traffic
        self.failed = {}    # Point -> reason
        self.wanted = {}    # requested points that are neither known nor failed

    def want(self, points):
        """Note the missing points among these. Returns True if there are any."""
        missing = [p for p in points if p not in self.known and p not in self.failed]
        self.wanted.update(dict.fromkeys(missing))
        return bool(missing)

    def need(self, series, xs):
        """Return the results of a series at @xs. Raises Pending or Failed if one is missing."""
        points = [series.point(x, self.effort) for x in xs]
        if self.want(points):
            raise Pending
        if any(p in self.failed for p in points):
            raise Failed
        return [self.known[p] for p in points]

    def whole_sweep(self, series):
        """Return sweep(), but raise Failed if a point has failed."""
        found = self.sweep(series)
        self.need(series, self.effort.pick(series.xs))
        return found

    def sweep(self, series):
        """Return {x: result} of a series, without failed points. If the series has a tolerance,
        this includes the values of x that the search for saturation adds. Raises Pending."""
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
    """Return the last x below saturation and the first saturated x; each may be None."""
    carried = None
    for x in sorted(found):
        if found[x]["saturated"]:
            return carried, x
        carried = x
    return carried, None


def between(low, high, tolerance):
    """Return up to three multiples of the tolerance between low and high; [] if these are close."""
    if not tolerance or low is None or high is None or high - low < 1.5 * tolerance:
        return []
    steps = round((high - low) / tolerance)
    cuts = sorted({round(steps * part / 4) for part in (1, 2, 3)} - {0, steps})
    return [round(low + cut * tolerance, 6) for cut in cuts]


def number(x):
    """Format x without digits that only come from rounding: 0.3, not 0.30000000000000004."""
    return f"{x:.6g}"
