# SPDX-License-Identifier: BSD-3-Clause
"""criteria.py - measures, which compute a number from results, and criteria, which compare this
number with the stated one."""
import math
from dataclasses import dataclass

from model import Failed, Pending, edge


# --- criteria: judge(measured, half of the confidence interval) -> (difference, holds) ---

class Closeness:
    """Holds if the number differs from nearest() by at most margin()."""
    def nearest(self, _measured):
        return self.stated

    def judge(self, measured, ci):
        difference = measured - self.nearest(measured)
        return difference, abs(difference) <= self.margin() + ci + 1e-9


@dataclass(frozen=True)
class Within(Closeness):
    """Holds if the number differs from the stated one by at most @most, in the row's unit."""
    stated: float
    most: float
    unit: str = ""

    def margin(self):
        return self.most

    def __str__(self):
        return f"within {self.most:g}{self.unit} of {self.stated:g}"


@dataclass(frozen=True)
class Near(Closeness):
    """Holds if the number differs from the stated one by at most @part times the stated one."""
    stated: float
    part: float

    def margin(self):
        return self.part * self.stated

    def __str__(self):
        return f"within {100 * self.part:g} % of {self.stated:g}"


@dataclass(frozen=True)
class AtLeast:
    bound: float
    noise: float = 0    # margin for measurement noise

    def judge(self, measured, ci):
        return measured - self.bound, measured >= self.bound - self.noise - ci

    def __str__(self):
        return f"at least {self.bound:g}" + (f", less {self.noise:g} for noise"
                                             if self.noise else "")


@dataclass(frozen=True)
class AtMost:
    bound: float

    def judge(self, measured, ci):
        return measured - self.bound, measured <= self.bound + ci

    def __str__(self):
        return f"at most {self.bound:g}"


@dataclass(frozen=True)
class From(Closeness):
    """Holds from low to high, both included."""
    low: float
    high: float

    def nearest(self, measured):
        return min(max(measured, self.low), self.high)

    def margin(self):
        return 0.0

    def __str__(self):
        return f"from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Between:
    """Holds above low and below high. The difference is 0, or the distance to the nearer bound."""
    low: float
    high: float

    def judge(self, measured, ci):
        inside = self.low < measured + ci and measured - ci < self.high
        nearer = self.low if measured <= self.low else self.high
        return 0.0 if inside else measured - nearer, inside

    def __str__(self):
        return f"above {self.low:g}, below {self.high:g}"


# --- measures: functions that return a function of Results, which returns a number or (number, ci)

def value(series, x, y):
    """The y of a series at x."""
    def measure(results):
        result, = results.need(series, [x])
        return y.of(result), y.ci_of(result) or 0.0
    return measure


def combined(measures, function):
    """@function of the numbers of these measures; their confidence intervals are ignored."""
    def measure(results):
        numbers, pending = [], None
        for one in measures:
            try:
                number = one(results)
                numbers.append(number[0] if isinstance(number, tuple) else number)
            except Pending as missing:
                pending = missing       # continue, so that the others request their points, too
        if pending:
            raise pending
        return function(*numbers)
    return measure


def quotient(over, under, scale=1):
    """One measure divided by another. Raises Failed if the other is 0."""
    def divide(a, b):
        if not b:
            raise Failed
        return scale * a / b
    return combined((over, under), divide)


def difference(one, other):
    return combined((one, other), lambda a, b: a - b)


def over_xs(series, y, function):
    """@function (such as the mean) of the values of y at all xs."""
    def measure(results):
        return function([y.of(one) for one in results.need(series, results.effort.pick(series.xs))])
    return measure


def first_reaching(series, part, of, y):
    """The first x of the sweep at which y is at least @part times y at x = @of."""
    def measure(results):
        xs = results.effort.pick(series.xs)
        ask(results, [series], (*xs, of))
        bound = part * y.of(results.need(series, [of])[0])
        for x in xs:
            if y.of(results.need(series, [x])[0]) >= bound:
                return x
        raise Failed
    return measure


def rise(series, factor, base, y):
    """The x at which y reaches @factor times y at x = @base, interpolated with log y. If y does not
    reach it, the last x of the sweep."""
    def measure(results):
        found = sorted((x, y.of(result)) for x, result in results.whole_sweep(series).items())
        bound = factor * y.of(results.need(series, [base])[0])
        for (x, before), (next_x, after) in zip(found, found[1:]):
            if before <= bound < after:
                return x + (next_x - x) * math.log(bound / before) / math.log(after / before)
        return found[-1][0]
    return measure


def least_gain(pairs, y):
    """The smallest gain in the largest y, over pairs of series (better, worse)."""
    def measure(results):
        for series in (s for pair in pairs for s in pair):
            ask(results, [series], results.effort.pick(series.xs))
        return min(largest(results, a, y) - largest(results, b, y) for a, b in pairs)
    return measure


def largest(results, series, y):
    return max(y.of(result) for result in results.whole_sweep(series).values())


def least_ratio(pairs, xs, y):
    """The smallest quotient of the y of the first and of the second series, over pairs and xs."""
    return lambda results: min(ratios(results, pairs, results.effort.pick(xs), y))


def ratios(results, pairs, xs, y):
    ask(results, [s for pair in pairs for s in pair], xs)
    for a, b in pairs:
        for one, other in zip(results.need(a, xs), results.need(b, xs)):
            yield y.of(one) / y.of(other)


def saturation(series):
    """The last x below saturation."""
    def measure(results):
        carried, lost = edge(results.whole_sweep(series))
        if carried is None or lost is None:
            raise Failed
        return carried
    return measure


def crossover(a, b, y):
    """The x where the curves of a and b cross, interpolated linearly."""
    def measure(results):
        xs = results.effort.pick(a.xs)
        ask(results, [a, b], xs)
        gaps = [y.of(one) - y.of(other)
                for one, other in zip(results.need(a, xs), results.need(b, xs))]
        for i in range(1, len(xs)):
            if (gaps[i - 1] < 0) != (gaps[i] < 0):
                part = gaps[i - 1] / (gaps[i - 1] - gaps[i])
                return xs[i - 1] + part * (xs[i] - xs[i - 1])
        raise Failed
    return measure


def ask(results, series, xs):
    """Request all points of these series at once, so that they run in parallel."""
    results.want([one.point(x, results.effort) for one in series for x in xs])
