# SPDX-License-Identifier: BSD-3-Clause
"""lines.py - break lines of text for people so that they fit on a terminal, as fold.h does."""
import os
import shlex
import sys
import textwrap

COLUMNS = 80


def folded(text, later, columns=COLUMNS):
    """Break a line between words. Each part but the first begins with @later."""
    return textwrap.fill(text, columns, subsequent_indent=later, break_long_words=False,
                         break_on_hyphens=False)


def folded_command(words, before):
    """Return a command in lines that begin with @before, and that a user can copy into a shell."""
    lines = []
    for word in map(shlex.quote, words):
        if lines and len(lines[-1]) + len(word) + 3 <= COLUMNS:
            lines[-1] += f" {word}"
        else:
            lines.append(before + word)
    return " \\\n".join(lines)


def say(text):
    """Print a message to standard error, as print_message() in apps/base/message.h does."""
    text = f"fabemu: {text}"
    if sys.stderr.isatty():
        text = folded(text, " " * 8, os.get_terminal_size(sys.stderr.fileno()).columns or COLUMNS)
    print(text, file=sys.stderr, flush=True)
