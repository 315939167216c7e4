#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""messages_test - each message that docs/hosts.md explains is in the code with the same text.

The messages are in the tables of the section "Messages", in the first column. A '…' stands for a
name or number; each piece of text in between must be part of a string in the code.
"""
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
PAGE = TOP / "docs" / "hosts.md"


def main():
    page = PAGE.read_text(encoding="utf-8")
    section = page.partition("\n## Messages\n")[2].partition("\n## ")[0]
    messages = re.findall(r"^\| `(.*?)` \|", section, re.M)
    code = "".join(path.read_text(encoding="utf-8")
                   for folder in ("emu", "apps") for path in (TOP / folder).rglob("*.[ch]"))
    code = re.sub(r'"\s+"', "", code).replace('\\"', '"')  # adjacent string literals are one string
    wrong = [piece for message in messages for piece in message.split("…")
             if piece.strip(" :") not in code]
    for piece in wrong:
        print(f"messages_test: the code has no message '{piece}'", file=sys.stderr)
    print(f"messages_test: {len(messages)} messages, {len(wrong)} wrong")
    return 1 if wrong or not messages else 0


if __name__ == "__main__":
    sys.exit(main())
