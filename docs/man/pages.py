#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""pages.py - generate the manual pages of the commands and of the C interface.

    pages.py --fabemu COMMAND --header FILE --version TEXT --out DIR

The page of a command is made from the output of its --help. If there is a file COMMAND.man beside
this one, its sections are appended. The pages of the C interface are made from the header. fabemu.1
and fabemu.7 are written by hand; @COMMANDS@ and @VERSION@ in them are replaced.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess

import header
from roff import escape, head, prose, references

HERE = pathlib.Path(__file__).resolve().parent
OPTION = re.compile(r"^  (?:-\w, )?(--[\w-]+)(?:(?: |(?=\[=))('[^']*'|\S+))?(?:\s+(.*))?$")


def help_of(fabemu, *command):
    done = subprocess.run([fabemu, *command, "--help"], text=True, capture_output=True, check=True,
                          env={**os.environ, "COLUMNS": "200"})  # so that argparse does not wrap
    return done.stdout


def commands(fabemu):
    """Return [(name, description)] of the commands that `fabemu --help` lists."""
    return re.findall(r"^  (\w+) +(\S.*)$", help_of(fabemu).split("\n\n")[2], re.M)


def options(block):
    """Return the options in a block of --help as roff: a tagged paragraph for each."""
    ret = []
    for line in block.split("\n"):
        found = OPTION.match(line)
        if found:
            name, value, text = found.groups()
            tag = rf"\fB{escape(name, True)}\fR"
            gap = "" if (value or "").startswith("[=") else " "
            ret += [".TP", tag + (rf"{gap}\fI{escape(value, True)}\fR" if value else "")]
            ret += [escape(text)] if text else []
        elif line.strip() and ret:
            ret.append(escape(line.strip()))
    return ret


def bounds(block):
    """Return the table of bounds in --help as roff: a tagged paragraph for each row."""
    ret = []
    for line in block.split("\n"):
        found = re.match(r"^  (\S+)  +(\S+(?: \S+)*)  +(\S.*)$", line)
        if found:
            name, value, text = found.groups()
            ret += [".TP", rf"\fB{escape(name, True)}\fR ({value})", escape(text)]
        else:
            ret.append(escape(line.strip()))
    return ret


def command_page(fabemu, name, about, version):
    blocks = help_of(fabemu, name).strip("\n").split("\n\n")
    usage = re.sub(rf"^usage: fabemu {name}", "", blocks[0]).strip()
    at = next(i for i, block in enumerate(blocks) if re.search(OPTION.pattern, block, re.M))
    text = [block for block in blocks[1:at]]
    lines = head(f"fabemu-{name}", 1, about, version)
    lines += [".SH SYNOPSIS", rf"\fBfabemu {name}\fR {escape(usage, True)}",
              ".SH DESCRIPTION", *prose("\n\n".join(text)), ".SH OPTIONS", *options(blocks[at])]
    for block in blocks[at + 1:]:
        title, colon, rest = block.partition(":\n")
        if colon and "\n" not in title:
            lines += [f".SH {escape(title.split(',')[0].upper(), True)}", *prose(title + "."),
                      *(bounds(rest) if title.startswith("Bounds") else prose(rest))]
        else:
            lines += [".SH NOTES"] * (".SH NOTES" not in lines) + prose(block)
    more = HERE / f"{name}.man"
    if more.exists():
        lines += more.read_text().rstrip("\n").split("\n")[1:]  # without its licence
    return lines + references(("fabemu", 1), ("fabemu", 7))


def written(name, listed, version):
    table = []
    for command, about in listed:
        table += [".TP", rf".BR fabemu\-{command} (1)", escape(about)]
    text = (HERE / name).read_text().rstrip("\n")
    return text.replace("@COMMANDS@", "\n".join(table)).replace("@VERSION@", version).split("\n")


def main():
    parser = argparse.ArgumentParser(description="Write the manual pages.")
    for option in ("fabemu", "header", "version", "out"):
        parser.add_argument("--" + option, required=True)
    args = parser.parse_args()
    listed = commands(args.fabemu)
    pages = {("fabemu", 1): written("fabemu.1", listed, args.version),
             ("fabemu", 7): written("fabemu.7", listed, args.version),
             ("fabemu-wide", 1): [".so man1/fabemu.1"]}
    pages |= {(f"fabemu-{name}", 1): command_page(args.fabemu, name, about, args.version)
              for name, about in listed}
    text = pathlib.Path(args.header).read_text()
    pages |= {(name, 3): lines for name, lines in header.pages(text, args.version).items()}
    for section in (1, 3, 7):
        folder = pathlib.Path(args.out, f"man{section}")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    for (name, section), lines in pages.items():
        path = pathlib.Path(args.out, f"man{section}", f"{name}.{section}")
        path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
