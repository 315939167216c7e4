# SPDX-License-Identifier: BSD-3-Clause
"""progress.py - on a terminal, a progress bar with the remaining time; otherwise a line for each
figure that has been measured, and a line after each 9 s without one."""
import sys
import time

from lines import say

WIDTH = 24
EVERY_S = 0.2
SILENT_S = 9  # longest time without a line, if there is no terminal


class Progress:
    """Estimates the remaining time from the time and the estimated cost of finished points."""

    def __init__(self, jobs):
        self.shown = sys.stderr.isatty()
        self.jobs = jobs
        self.done = 0           # points finished in this run
        self.done_cost = 0.0
        self.took_s = 0.0
        self.last = time.monotonic()
        self.figures = set()    # numbers of the measured figures

    def figures_done(self, figures, of):
        """Print a line for each figure that is new among the measured @figures. @of: how many are
        to be measured."""
        for figure in figures:
            if not self.shown and figure.number not in self.figures:
                self.figures.add(figure.number)
                self.last = time.monotonic()
                say(f"figure {figure.number} is measured ({len(self.figures)} of {of})")

    def point_done(self, point, seconds):
        self.done += 1
        self.done_cost += point.cost
        self.took_s += seconds

    def left_s(self, waiting, running):
        if not self.done:
            return None
        per_cost = self.took_s / self.done_cost
        left = sum(point.cost for point in waiting) * per_cost
        left += sum(max(0.0, child.point.cost * per_cost - child.seconds()) for child in running)
        return left / self.jobs

    def show(self, waiting, running):
        now = time.monotonic()
        if now - self.last < (EVERY_S if self.shown else SILENT_S):
            return
        self.last = now
        known = self.done_cost + sum(p.cost for p in waiting) + sum(c.point.cost for c in running)
        self.line(self.done / max(1, self.done + len(waiting) + len(running)) if not known else
                  self.done_cost / known,
                  f"{self.done} of {self.done + len(waiting) + len(running)} points",
                  self.left_s(waiting, running))

    def line(self, part, what, left_s):
        bar = "#" * int(WIDTH * part)
        left = "" if left_s is None else f", {duration(left_s)} left"
        if not self.shown:
            say(f"{what}{left}")
            return
        sys.stderr.write(f"\r\033[K[{bar:.<{WIDTH}}] {what}{left}")
        sys.stderr.flush()

    def clear(self):
        if self.shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def duration(seconds):
    seconds = int(seconds + 0.99)
    return f"{seconds} s" if seconds < 100 else f"{(seconds + 59) // 60} min"
