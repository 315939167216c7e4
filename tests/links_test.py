#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""links_test - the relative links of README.md and docs lead to existing files and headings.
Anchors are the ones that GitHub generates for headings."""
import itertools
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
DOCS = TOP / "docs"
CODE = re.compile(r"^(`{3,}).*?^\1$|`[^`\n]*`", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)|\b(?:src|href)=\"([^\"]+)\"")


def named(slug, times):
    return f"{slug}-{times}" if times else slug


def anchors(text):
    """The anchors of a page's headings. A repeated heading gets a number."""
    ret = set()
    text = re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.M | re.S)
    for title in re.findall(r"^#+ +(.*?) *#*$", text, re.M):
        title = re.sub(r"\]\([^)]*\)", "", title)
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        times = next(n for n in itertools.count() if named(slug, n) not in ret)
        ret.add(named(slug, times))
    return ret


def wrong_links(page, text):
    for found in LINK.finditer(CODE.sub("", text)):
        link = found[1] or found[2]
        if re.match(r"[a-z]+:", link):
            continue  # on the web
        name, _, anchor = link.partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.exists():
            yield f"{link}: there is no such file"
        elif DOCS in page.parents and DOCS not in path.parents:
            yield f"{link}: it is not in docs, which is installed alone"
        elif anchor and anchor not in anchors(path.read_text(encoding="utf-8")):
            yield f"{link}: there is no such heading"


def main():
    pages = [TOP / "README.md", *sorted(DOCS.glob("**/*.md"))]
    texts = {page: page.read_text(encoding="utf-8") for page in pages}
    links = sum(len(LINK.findall(CODE.sub("", text))) for text in texts.values())
    wrong = [f"{page.relative_to(TOP)}: {why}" for page, text in texts.items()
             for why in wrong_links(page, text)]
    for line in wrong:
        print(f"links_test: {line}", file=sys.stderr)
    print(f"links_test: {links} links, {len(wrong)} wrong")
    return 1 if wrong or not links else 0


if __name__ == "__main__":
    sys.exit(main())
