#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""__main__.py - `fabemu figures`: the command line, and the steps of a run."""
import signal

signal.signal(signal.SIGINT, signal.SIG_DFL)  # during the imports, until on_signals()
signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `fabemu figures --list | head` ends silently

# pylint: disable=wrong-import-position
import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys

import breakage
import curves
import paper_oq
import paper_qsnet
import published
import tables
from lines import folded, say
from measure import Measurement, Stop
from model import Effort, Results
from nearest import question
from store import Fabemu, Store

EXIT_FAILURE, EXIT_USAGE = 1, 2
ABOUT = """Measure with fabemu traffic, and print results beside the numbers that papers state.
Figures 5 to 18 and rows A are of "Hardware collectives in output-queued high-radix routers";
figures q and rows Q check statements of "QsNet III, an adaptively routed network"; figures r and
rows R show throughput while links fail; figures n and rows N show collectives under the noise of
operating systems; figures v and rows V predict published machines (docs/validation.md).
docs/figures.md explains the results."""
SUBJECTS = (paper_oq, paper_qsnet, breakage, published)
FIGURES = {str(figure.number): figure for subject in SUBJECTS for figure in subject.FIGURES}
ROWS = tuple(row for subject in SUBJECTS for row in subject.ROWS)


class Interrupted(Exception):
    """A signal has arrived."""


# --- the command line ----------------------------------------------------------------------

class Parser(argparse.ArgumentParser):
    def error(self, message):
        unknown = re.match("unrecognized arguments: (--[^ =]+)", message)
        if unknown:
            known = [name for action in self._actions for name in action.option_strings
                     if action.help != argparse.SUPPRESS]
            message = f"figures has no option '{unknown[1][:80]}'" + question(unknown[1], known)
        message = re.sub("^argument (--[a-z-]+): ", r"\1 ", message)
        say(message + (" Try" if message.endswith("?") else "; try") + ": fabemu figures --help")
        sys.exit(EXIT_USAGE)


def count(most):
    def read(text):
        if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text[:80]}: it must be a number from 1 to {most}")
        return int(text)
    return read


def parser():
    p = Parser(prog="fabemu figures", allow_abbrev=False, usage="fabemu figures [options]",
               description=ABOUT, epilog="Exit status: 0, every stated result holds; 1, one "
               "does not hold, or a measurement failed; 2, the command line is wrong. To continue "
               "an interrupted run, start it again with the same --out.")
    p.add_argument("--only", metavar="LIST",
                   help="only these figures (5 to 18, m1, q1 to q12, r1, r2, n1 to n6, v1 to v3) "
                   "and rows (A1 to A11, Q1 to Q10, R1, R2, N1 to N3, V1 to V3), for example "
                   "5,6,A3; a row is also included if LIST contains all figures that it needs")
    p.add_argument("--quick", action="store_true",
                   help="fewer loads and shorter runs: less than a minute on 2 cores")
    p.add_argument("--jobs", metavar="N", type=count(1024), default=len(os.sched_getaffinity(0)),
                   help="number of runs of fabemu traffic at a time (default: number of cores)")
    p.add_argument("--out", metavar="DIR", default="fabemu-figures",
                   help="folder for figures, tables and finished measurements "
                        "(default: fabemu-figures)")
    p.add_argument("--json", action="store_true", help="print JSON")
    p.add_argument("--seed", metavar="N", type=count(2**63), default=1,
                   help="seed of all measurements (default 1)")
    p.add_argument("--no-plots", action="store_true", help="write only numbers, without matplotlib")
    p.add_argument("--fresh", action="store_true", help="delete the measurements of earlier runs")
    p.add_argument("--list", action="store_true",
                   help="list the figures and rows for --only, with --json as JSON")
    p.add_argument("--fabemu", metavar="PATH", help="measure with this command (default: this one)")
    p.add_argument("--origin", type=json.loads, default={}, help=argparse.SUPPRESS)
    return p


def choose(only):
    """Return the figures and rows that --only names."""
    if only is None:
        return list(FIGURES.values()), list(ROWS)
    figures, ids = set(), set()
    for word in only.split(","):
        number = re.sub(r"^fig(ure)?", "", word, flags=re.IGNORECASE)
        if number in FIGURES:
            word = number
        if word in FIGURES:
            figures.add(word)
        elif word in {row.id for row in ROWS}:
            ids.add(word)
        else:
            names = sorted([*FIGURES, *(row.id for row in ROWS)],  # names of the same kind first
                           key=lambda name: name[0] != number[:1])
            parser().error(f"--only: no figure or row '{word[:80]}'; --list prints them"
                           f"{question(number, names)}")
    rows = [row for row in ROWS
            if row.id in ids or (row.figures and figures.issuperset(map(str, row.figures)))]
    return [figure for number, figure in FIGURES.items() if number in figures], rows


def print_list(figures, rows, as_json):
    entries = [{"name": str(figure.number), "about": figure.title} for figure in figures]
    entries += [{"name": row.id, "about": row.what + (f": {row.rule}" if row.rule else "")}
                for row in rows]
    if as_json:
        print(json.dumps(entries, indent=1, ensure_ascii=False))
        return
    for entry in entries:
        print(folded(f"{entry['name']:<4} {entry['about']}", " " * 5))


# --- the run -----------------------------------------------------------------------------------

def on_signals():
    def interrupt(number, _frame):
        raise Interrupted(number)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)


def run(options, figures, rows):
    fabemu = Fabemu(options.fabemu)
    store = Store(options.out, fabemu, options.fresh)
    results = Results(Effort(options.quick, options.seed))
    Measurement(results, store, fabemu, options.jobs, figures, rows).run()
    # The calling command gives the origin, except for the version of the fabemu that measured and
    # the seed.
    origin = options.origin | {"version": fabemu.version.removeprefix("fabemu "),
                               "seed": options.seed}
    verdicts = [tables.judge(row, results) | {"origin": origin} for row in rows]
    tables.write_tables(options.out, verdicts, figures, results, origin)
    drawings = [curves.drawing(figure, results, fabemu.version) for figure in figures]
    if drawings and not options.no_plots:
        if sys.stderr.isatty():
            say("drawing the plots")
        if curves.draw_all(options.out, drawings, options.jobs):
            raise Stop(f"cannot draw the figures into {options.out}; see the error above")
    if options.json:
        print(json.dumps(verdicts, indent=1, ensure_ascii=False))
    else:
        if verdicts:
            print(tables.text(verdicts, origin), end="")
        if figures:
            names = ", ".join(str(figure.number) for figure in figures)
            what = "data" if options.no_plots else "data and plots"
            print(folded(f"the {what} of {names} are in the folder {options.out}", ""))
    return 0 if tables.good(verdicts) and not results.failed else EXIT_FAILURE


def main():
    options = parser().parse_args()
    figures, rows = choose(options.only)
    if options.list:
        print_list(figures, rows, options.json)
        return 0
    if options.out == "-":
        parser().error("--out -: it must be a folder")
    if not options.fabemu:
        parser().error("--fabemu must name the command that measures")
    if figures and not options.no_plots and not importlib.util.find_spec("matplotlib"):
        say("matplotlib is not installed: run apt-get install python3-matplotlib, or use "
            "--no-plots")
        return EXIT_FAILURE
    on_signals()
    try:
        return run(options, figures, rows)
    except Interrupted as interrupted:
        say(f"interrupted; finished measurements are kept in {options.out}, and the same command"
            f"{' without --fresh' if options.fresh else ''} continues from there")
        return 128 + interrupted.args[0]
    except (OSError, subprocess.SubprocessError, Stop) as error:
        say(str(error))
        return EXIT_FAILURE


def checked():
    """main(), with a check that its output was written."""
    status = EXIT_FAILURE
    try:
        try:
            status = main()
        except SystemExit as ended:  # of argparse: --help, or a usage error
            status = ended.code or 0
        sys.stdout.flush()
    except OSError as error:
        say(f"standard output: {error.strerror}")
        # Python flushes again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return status or EXIT_FAILURE
    return status


if __name__ == "__main__":
    sys.exit(checked())
