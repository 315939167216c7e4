# SPDX-License-Identifier: BSD-3-Clause
"""measure.py - runs all points that the chosen figures and rows need, the longest first. A *point*
is one run of `fabemu traffic`."""
import os

from children import Children, command_line
from lines import say
from model import Failed, Pending
from progress import Progress


FAILURES_SHOWN = 10


class Stop(Exception):
    """The run cannot continue; the argument is the reason."""


def ask(results, figures, rows):
    """Let all figures and rows request their points. Return the figures that have all."""
    complete = [figure for figure in figures
                if all([attempt(results.sweep, series) for series in figure.series])]
    for row in rows:
        if row.measure:
            attempt(row.measure, results)
    return complete


def attempt(function, argument):
    """Return whether all points of a series or row have been measured."""
    try:
        function(argument)
    except (Pending, Failed):
        return False
    return True


class Measurement:
    def __init__(self, results, store, fabemu, jobs, figures, rows):
        self.results = results
        self.store = store
        self.fabemu = fabemu
        self.figures = figures
        self.rows = rows
        self.children = Children(fabemu.path, jobs)
        self.progress = Progress(jobs)
        self.waiting = []

    def run(self):
        try:
            while True:
                self._plan()
                self._start()
                if not self.children.running:
                    break
                self.progress.show(self.waiting, self.children.running.values())
                for point, result, why, seconds in self.children.wait(0.5):
                    self._take(point, result, why, seconds)
        finally:
            self.children.end()
            self.progress.clear()
        if len(self.results.failed) > FAILURES_SHOWN:
            say(f"{len(self.results.failed)} measurements failed; the first {FAILURES_SHOWN} are "
                "shown")

    def _plan(self):
        """Queue the requested points that do not run yet. Load results of earlier runs."""
        while True:
            self.results.wanted.clear()
            complete = ask(self.results, self.figures, self.rows)
            kept = {point: self.store.load(point) for point in self.results.wanted
                    if point not in self.children.running and point not in self.waiting}
            found = {point: result for point, result in kept.items() if result is not None}
            self.results.known.update(found)
            self.waiting += [point for point in kept if point not in found]
            if not found:
                break
        self.progress.figures_done(complete, len(self.figures))
        self.waiting.sort(key=lambda point: -point.cost)

    def _start(self):
        while self.waiting and self.children.room():
            if self.fabemu.changed():
                raise Stop(f"{self.fabemu.path} has changed during the run; start again")
            self.children.start(self.waiting.pop(0))

    def _take(self, point, result, why, seconds):
        self.progress.point_done(point, seconds)
        if why is None:
            self.store.save(point, result)
            self.results.known[point] = result
            return
        self.results.failed[point] = why
        if len(self.results.failed) > FAILURES_SHOWN:
            return
        self.progress.clear()
        command = command_line(os.path.relpath(self.fabemu.path), point)
        say(f"a measurement failed: {command}: {why}")
