# SPDX-License-Identifier: BSD-3-Clause
"""draw.py - draws a figure as SVG and PNG with matplotlib. Only drawing processes import it."""
import os

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams.update({
    "font.size": 9, "axes.grid": True, "grid.alpha": 0.3, "axes.spines.top": False,
    "axes.spines.right": False, "svg.fonttype": "none", "svg.hashsalt": "fabemu",
    "lines.linewidth": 1.4,
    "lines.markersize": 5, "legend.frameon": False})
from matplotlib import pyplot, ticker  # noqa: E402 (after the backend is chosen)

from shrink import shrink  # noqa: E402

# Colours that colour-blind readers can distinguish.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARKERS = "osD^vP"
POINTS_MARKED = 60      # a curve with more points is drawn without markers
LINES = ("-", "--", "-.", ":", "-", "--")       # curves that coincide stay visible


def curve(axes, one, number):
    colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
    if len(one.x) > POINTS_MARKED:
        marker = None
    axes.errorbar(one.x, one.y, yerr=one.ci if any(one.ci) else None, color=colour, capsize=2,
                  elinewidth=0.8, marker=marker, linestyle=LINES[number % len(LINES)],
                  label=one.name,
                  zorder=3)
    lost = [i for i, saturated in enumerate(one.saturated) if saturated]
    axes.plot([one.x[i] for i in lost], [one.y[i] for i in lost], linestyle="none", marker=marker,
              markerfacecolor="white", markeredgecolor=colour, zorder=4)


def mark(axes, where, at, label):
    """Draw a line with a label at a number that the paper states."""
    words = {"fontsize": 7, "color": "0.35", "textcoords": "offset points", "zorder": 5,
             "bbox": {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.5}}
    if where == "x":
        axes.axvline(at, color="0.45", linestyle=":", linewidth=1, zorder=1)
        axes.annotate(label, (at, 0.98), xycoords=("data", "axes fraction"), xytext=(-2, 0),
                      rotation=90,
                      ha="right", va="top", **words)
    else:
        axes.axhline(at, color="0.45", linestyle=":", linewidth=1, zorder=1)
        axes.annotate(label, (0.01, at), xycoords=("axes fraction", "data"), xytext=(0, 2),
                      va="bottom",
                      **words)


def scales(axes, d):
    if d.x_log:
        axes.set_xscale("log", base=d.x_log)
        axes.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    else:
        axes.set_xlim(left=0)
        if all(x == int(x) for one in d.curves for x in one.x):
            axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    if d.y_log:
        axes.set_yscale("log")
        least = min((y for one in d.curves for y in one.y if y > 0), default=None)
        if least:
            axes.set_ylim(bottom=least / 2)     # error bars may reach 0
        axes.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
        axes.yaxis.set_minor_locator(ticker.LogLocator(subs=(2, 3, 5)))
        axes.yaxis.set_minor_formatter(ticker.FormatStrFormatter("%g"))
    else:
        axes.set_ylim(bottom=0)


def draw(folder, d):
    """Write NAME.svg and NAME.png."""
    figure, axes = pyplot.subplots(figsize=(6.4, 4.6))
    for i, one in enumerate(d.curves):
        curve(axes, one, i)
    for where, at, label in d.marks:
        mark(axes, where, at, label)
    if any(any(one.saturated) for one in d.curves):
        axes.plot([], [], linestyle="none", marker="o", markerfacecolor="white",
                  markeredgecolor="0.3",
                  label="saturated")
    scales(axes, d)
    axes.set(title=d.title, xlabel=d.x_label, ylabel=d.y_label)
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: labels[i] == "saturated")
    axes.legend([handles[i] for i in order], [labels[i] for i in order], fontsize=8)
    figure.tight_layout()
    figure.text(0.01, -0.01, d.caption, fontsize=6.5, color="0.35", va="top")
    for kind, options in (("svg", {"metadata": {"Date": None}}), ("png", {"dpi": 130})):
        path = os.path.join(folder, f"{d.name}.{kind}")
        figure.savefig(path + ".new", format=kind, bbox_inches="tight", **options)
        if kind == "svg":
            with open(path + ".new", "r+", encoding="utf-8") as file:
                small = shrink(file.read())
                file.seek(0)
                file.truncate()
                file.write(small)
        os.replace(path + ".new", path)
    pyplot.close(figure)
