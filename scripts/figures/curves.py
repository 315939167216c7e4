# SPDX-License-Identifier: BSD-3-Clause
"""curves.py - the data of drawings, and the processes that draw them."""
import multiprocessing
import os
import signal
import textwrap
from typing import NamedTuple

from model import Failed


CAPTION_WIDTH = 130     # characters


class Curve(NamedTuple):
    name: str
    x: list
    y: list
    ci: list            # half of each confidence interval; 0: unknown
    saturated: list


class Drawing(NamedTuple):
    """One figure as plain data, so that another process can draw it."""
    name: str
    title: str
    caption: str
    x_label: str
    y_label: str
    x_log: int
    y_log: bool
    curves: list
    marks: tuple


def drawing(figure, results, version):
    axis, y = figure.series[0].axis, figure.y
    curves = []
    for series in figure.series:
        shown = attempt_shown(series, results, y)
        curves.append(Curve(series.name, [one.x for one in shown], [one.y for one in shown],
                            [one.ci or 0 for one in shown], [one.saturated for one in shown]))
    return Drawing(figure.name, f"Figure {figure.number}. {figure.title}",
                   caption(figure, results.effort, version), axis.label, y.label, axis.log, y.log,
                   curves,
                   figure.marks)


def attempt_shown(series, results, y):
    """Return the points of a curve; [] if a required point has failed."""
    try:
        return series.shown(results, y)
    except Failed:
        return []


def caption(figure, effort, version):
    """Return the parameters common to all series, then the parameters of each series."""
    lists = [pairs(series.args + effort.pick(series.time)) for series in figure.series]
    shared = [pair for pair in lists[0] if all(pair in one for one in lists)]
    lines = [f"{version}: " + ", ".join(shared + [f"seed {effort.seed}"])]
    for series, one in zip(figure.series, lists):
        own = [pair for pair in one if pair not in shared]
        if own and own != [f"pattern {series.name}"]:
            lines.append(f"{series.name}: " + ", ".join(own))
    return "\n".join(part for line in lines for part in textwrap.wrap(line, CAPTION_WIDTH))


def pairs(args):
    """Return each option as text: ('--topo', 'kary:4,4') as 'topo kary:4,4', the value of --set
    without 'set', and times in µs."""
    ret = []
    for name, value in zip(args[::2], args[1::2]):
        if name == "--faults":
            value = os.path.basename(value)
        if name in ("--warmup", "--measure", "--interval"):
            value = f"{float(value.removesuffix('ns')) / 1000:g} µs"
        ret.append(value if name == "--set" else f"{name[2:]} {value}")
    return ret


# --- processes -------------------------------------------------------------------------------

def draw_all(folder, drawings, jobs):
    """Draw the figures with several processes. Return the number of processes that failed."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=draw_some, args=(folder, drawings[i::jobs]), daemon=True)
                 for i in range(min(jobs, len(drawings)))]
    try:
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    finally:
        for process in processes:
            if process.pid:
                process.kill()
                process.join()
    return sum(process.exitcode != 0 for process in processes)


def draw_some(folder, drawings):
    # A terminal sends SIGINT to this process, too, but the parent ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    import draw
    for one in drawings:
        draw.draw(folder, one)
