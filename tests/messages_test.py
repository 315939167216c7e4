#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""messages_test - docs/two-machines.md has every message about hosts and their ports that the code
has, and no other: what users look up is there, as it is printed."""
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
PAGE = TOP / "docs" / "two-machines.md"
# Whose messages the page has; of the last ones it has some.
SOURCES = [*TOP.glob("emu/hostlink/**/*.c"), *TOP.glob("apps/hosts/**/*.c"),
           *TOP.glob("apps/cluster/*.c")]
OTHERS = [TOP / "apps" / "run" / "run.c"]
NEVER_SAID = {"the cluster file says: key none"}  # apps/hosts asks, and needs no text
SAYS = re.compile(r"\b(?:dpdk_fail|fail|wrong|say|refused|options_usage_error)\(|\.hint = ")
LITERALS = re.compile(r'"(?:[^"\\]|\\.)*"(?:\s*"(?:[^"\\]|\\.)*")*')
FORMAT = re.compile(r"%[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?[hlzjt]*[a-zA-Z]")
# What the preprocessor puts between literals.
LINKS = (TOP / "apps" / "hosts" / "links.h").read_text(encoding="utf-8")
KNOCK = re.search(r'LINKS_KNOCK (".*")', LINKS)[1]
PUT = {"LINKS_KNOCK": KNOCK, "EMU_HOSTPORT_LIBRARY": '"libfabemu-dpdk.so"',
       "FABEMU_VERSION": '"%s"', "PRIu64": '"lu"'}


def core(text):
    """What is fixed in it; what varies is one sign."""
    text = re.sub(r"…(?:-?…)+", "…", FORMAT.sub("…", text))
    return " ".join(text.split()).strip(" …:")


def literal(found):
    """The text of literals in a row."""
    pieces = re.findall(r'"((?:[^"\\]|\\.)*)"', found)
    return re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), "".join(pieces))


def source(path):
    text = re.sub(r"(?<!\S)/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
    for name, value in PUT.items():
        text = re.sub(rf"\b{name}\b", value, text)
    return text


def statement(text, at):
    """From there to the end of the statement, or of a table's field."""
    depth = 0
    for end in range(at, len(text)):
        depth += (text[end] == "(") - (text[end] == ")")
        if text[end] == ";" and depth <= 0 or text[end] == "}" and depth <= 0:
            return text[at:end]
    return text[at:]


def said(text):
    """Messages of a source: the literals of a call that has one, or of each way of a choice."""
    for call in SAYS.finditer(text):
        for found in LITERALS.findall(statement(text, call.start())):
            message = core(literal(found))
            if " " in message and message not in NEVER_SAID:
                yield message


def main():
    page = PAGE.read_text(encoding="utf-8")
    told = [core(m.replace("\\|", "|")) for m in
            re.findall(r"^\| `(.*?)` \|", page[page.index("## Messages"):], re.M)]
    texts = {path: source(path) for path in SOURCES + OTHERS}
    known = [core(literal(found)) for text in texts.values() for found in LITERALS.findall(text)]
    wrong = [f"docs/two-machines.md has '{message}', and the code has not" for message in told
             if not any(message in each for each in known)]
    for path in SOURCES:
        wrong += [f"{path.relative_to(TOP)}: '{message}' is not in docs/two-machines.md"
                  for message in said(texts[path]) if not any(message in each for each in told)]
    for line in wrong:
        print(f"messages_test: {line}", file=sys.stderr)
    print(f"messages_test: {len(told)} messages, {len(wrong)} wrong")
    return 1 if wrong or not told else 0


if __name__ == "__main__":
    sys.exit(main())
