# SPDX-License-Identifier: BSD-3-Clause
"""tables.py - judges all rows and writes the output files: the table as text, Markdown and JSON,
and a CSV file for each figure."""
import csv
import io
import json
import math
import os
import shlex

import curves
import published
from lines import folded, folded_command
from model import Failed, Pending, dig, number

HOLDS, DIFFERS, SHOWN = "holds", "differs", "shown"
NOT_MEASURED, NOT_BUILT = "not measured", "not built"


def judge(row, results):
    """Return the JSON object of a row."""
    measured = difference = ci = None
    verdict = NOT_BUILT
    if row.measure:
        verdict = NOT_MEASURED
        try:
            measured = row.measure(results)
            measured, ci = measured if isinstance(measured, tuple) else (measured, None)
            verdict = SHOWN
            if row.rule:
                difference, holds = row.rule.judge(measured, ci or 0.0)
                verdict = SHOWN if holds is None else HOLDS if holds else DIFFERS
        except (Failed, Pending):
            pass
    return {"id": row.id, "stated": row.stated, "measured": rounded(measured),
            "difference": rounded(difference), "verdict": verdict, "part": row.part,
            "what": row.what,
            "unit": row.unit, "ci95": rounded(ci), "criterion": str(row.rule) if row.rule else None,
            "figure": list(row.figures)}


def rounded(value):
    return None if value is None else float(f"{value:.6g}")


def good(verdicts):
    return all(v["verdict"] in (HOLDS, SHOWN, NOT_BUILT) for v in verdicts)


def cell(value, sign=""):
    return "-" if value is None else value if isinstance(value, str) else f"{value:{sign}.4g}"


def columns(v):
    return (v["id"], v["what"], cell(v["stated"]), cell(v["measured"]), cell(v["difference"], "+"),
            v["unit"], v["criterion"] or "-", v["verdict"])


HEAD = ("id", "what", "stated", "measured", "difference", "unit", "criterion", "verdict")


def origin_lines(origin):
    """The origin of the numbers, in the form of origin_print() in apps/fabric/origin.c."""
    return (f"fabemu {origin['version']}, host {origin.get('host', 'unknown')}, "
            f"{origin.get('date', 'unknown')}, seed {origin['seed']}",
            shlex.join(origin.get("command", ())))


def text(verdicts, origin):
    """The table for a terminal of 80 columns, without the criteria. Below the numbers of each row,
    a sentence describes the measurement."""
    lines = [folded(f"# {origin_lines(origin)[0]}", "# "),
             folded_command(origin.get("command", ()), "# ")]
    table = [(line[0], *line[2:-2], line[-1]) for line in (HEAD, *map(columns, verdicts))]
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    for words, what in zip(table, ("", *(v["what"] for v in verdicts))):
        padded = (f"{word:<{width}}" for word, width in zip(words, widths))
        lines.append("  ".join(padded).rstrip())
        lines += [folded(f"     {what}", "     ")] if what else []
    return "".join(f"{line}\n" for line in lines)


def markdown(verdicts, origin):
    about, command = origin_lines(origin)
    table = [HEAD, ("---",) * len(HEAD), *map(columns, verdicts)]
    return f"{about}: `{command}`\n\n" + \
        "".join("| " + " | ".join(line) + " |\n" for line in table)


# --- a figure's numbers ------------------------------------------------------------------

FIELDS = (("offered", ("offered",)), ("accepted", ("accepted",)),
          ("accepted_ci95", ("accepted_ci95",)),
          ("delivered", ("delivered",)),
          ("latency_mean_ns", ("latency_ns", "mean")),
          ("latency_mean_ci95_ns", ("latency_ns", "mean_ci95")),
          ("latency_median_ns", ("latency_ns", "median")),
          ("latency_p99_ns", ("latency_ns", "p99")),
          ("latency_max_ns", ("latency_ns", "max")), ("messages", ("messages",)),
          ("digest", ("digest",)))


def figure_csv(figure, results, origin):
    """Return all points of a figure as CSV, after lines with '#' that give the parameters."""
    out = io.StringIO()
    axis = figure.series[0].axis
    out.write(f"# Figure {figure.number}. {figure.title}\n")
    for line in origin_lines(origin):
        out.write(f"# {line}\n")
    out.write(f"# {'quick' if results.effort.quick else 'full'} run\n")
    out.write(f"# x: {axis.label}; y: {figure.y.label}; offered, accepted: fractions of link rate; "
              "ci95: half the width of the 95 % confidence interval\n")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["series", axis.column, figure.y.column, figure.y.column + "_ci95",
                     "saturated",
                     *(name for name, _ in FIELDS), "command"])
    for series in figure.series:
        for one in curves.attempt_shown(series, results, figure.y):
            if math.isnan(one.y):
                continue        # a gap of the curve
            command = shlex.join(["fabemu", "traffic", *one.point.args])
            values = (one.y, one.ci, int(one.saturated),
                      *(dig(one.result, path) for _, path in FIELDS))
            writer.writerow([series.name, number(one.x), *map(plain, values), command])
    return out.getvalue()


def plain(value):
    return "" if value is None else f"{value:.8g}" if isinstance(value, float) else value


def write(folder, name, content):
    """Write a file under another name and rename it, so that it is complete if it exists."""
    path = os.path.join(folder, name)
    with open(path + ".new", "w") as f:
        f.write(content)
    os.replace(path + ".new", path)


def write_tables(folder, verdicts, figures, results, origin):
    for figure in figures:
        write(folder, figure.name + ".csv", figure_csv(figure, results, origin))
    write(folder, "table.json", json.dumps(verdicts, indent=1, ensure_ascii=False) + "\n")
    write(folder, "table.md", markdown(verdicts, origin))
    if published.markdown(verdicts):
        write(folder, "validation.md", published.markdown(verdicts))
