# SPDX-License-Identifier: BSD-3-Clause
"""nearest.py - find the known name that is most similar to a misspelt word.

    python3 scripts/figures/nearest.py WORD NAME...    prints "; did you mean 'NAME'?", or nothing

The rule is that of emu/util/nearest.h: at most one edit for each three letters of the longer of the
two. An edit changes, adds or drops a letter, or swaps two neighbouring letters. Dashes before words
do not count."""
import sys

LETTERS_MAX = 32  # longer words are not compared


def distance(a, b):
    """Return the optimal string alignment distance."""
    rows = [list(range(len(b) + 1))]
    for i, letter in enumerate(a, 1):
        row = [i]
        for j, other in enumerate(b, 1):
            least = min(rows[-1][j - 1] + (letter != other), rows[-1][j] + 1, row[-1] + 1)
            if i > 1 and j > 1 and (letter, a[i - 2]) == (b[j - 2], other):
                least = min(least, rows[-2][j - 2] + 1)
            row.append(least)
        rows.append(row)
    return rows[-1][-1]


def nearest(word, names):
    """Return the most similar of @names, or None if none is similar. A value after '=' in @word is
    ignored."""
    found, least = None, LETTERS_MAX
    word = word.split("=")[0].lstrip("-")
    for name in names:
        letters = name.lstrip("-")
        longer = max(len(word), len(letters))
        far = distance(word, letters) if 2 <= len(word) and longer <= LETTERS_MAX else longer
        if far <= longer // 3 and far < least:
            found, least = name, far
    return found


def question(word, names):
    """Return "; did you mean 'NAME'?", or "" if no name is similar."""
    name = nearest(word, names)
    return f"; did you mean '{name}'?" if name else ""


if __name__ == "__main__":
    print(question(sys.argv[1], sys.argv[2:]), end="")
