# SPDX-License-Identifier: BSD-3-Clause
"""header.py - generate the manual pages of the C interface from its header."""
import re

from roff import display, escape, head, references

SECTION = re.compile(r"--- (.+?) -+$")
FUNCTION = re.compile(r"^(?:FABEMU_API|static inline) .*?\b(fabemu_\w+)\(", re.M)
BEGINS = re.compile(r"(@\w+|Errors|Status|Source|Thread|Returns|fabemu_\w+ -)(?!\w)")


def plain(comment):
    """Return the text of a C comment, without its stars."""
    lines = comment.strip().removeprefix("/*").removesuffix("*/").strip("* \n").split("\n")
    return "\n".join(re.sub(r"^ \* ?", "", line) for line in lines)


def items(text):
    """Yield a pair (comment, code) for each part of the header. One element may be empty."""
    text = re.sub(r"^#(if|endif|ifdef|ifndef).*\n|^extern \"C\" \{\n#endif\n|^\}\n#endif\n", "",
                  text, flags=re.M)
    comment, code, depth, inside = [], [], 0, False
    for line in [*text.split("\n"), ""]:
        if inside or (line.startswith("/*") and not depth):
            if not inside and (code or comment):
                yield plain("\n".join(comment)), "\n".join(code)
                comment, code = [], []
            comment.append(line)
            inside = not line.rstrip().endswith("*/")
        elif line.strip() or depth:
            code.append(line)
            depth += line.count("{") - line.count("}")
        elif comment or code:
            yield plain("\n".join(comment)), "\n".join(code)
            comment, code = [], []


def formatted(text):
    """Return a comment as roff: functions are bold, parameters italic. "Errors" begins a line, and
    so do the other words in BEGINS."""
    ret = []
    for paragraph in re.split(r"\n\s*\n", text):
        ret.append(".PP")
        for line in paragraph.split("\n"):
            if BEGINS.match(line) and ret[-1].endswith((".", ")")):
                ret.append(".br")
            line = re.sub(r"(?<!\w)@(\w+)", r"\\fI\1\\fR", escape(line))
            ret.append(re.sub(r"\b(fabemu_\w+)\(\)", r"\\fB\1\\fR()", line))
    return ret


def capital(found):
    """Return the matched word with a capital letter, but an identifier unchanged."""
    word = found[1]
    return word if "_" in word else word[0].upper() + word[1:]


def summary(text):
    """Return the first clause of a function's comment, for the section NAME."""
    said = re.sub(r"\s+", " ", re.sub(r"^[\w, \n]+ - ", "", text))
    said = re.sub(r" \([^()]+\)", "", said)
    return re.match(r".*?(?=[.:](?: |$)|(?<=\?) |$)", said)[0].replace("@", "")


class Function:
    """Functions that share one comment."""

    def __init__(self, comment, code):
        self.names = FUNCTION.findall(code)
        self.comment = comment
        code = re.sub(r"\n\{.*?^\}", ";", code, flags=re.S | re.M)
        code = re.sub(r"^FABEMU_API |^ {11}", "", code, flags=re.M)
        self.code = code.replace("static inline ", "")
        self.about = summary(comment)


def function_pages(function, version):
    first = function.names[0]
    lines = head(", ".join(function.names), 3, function.about, version)
    lines[1] = lines[1].replace(escape(", ".join(function.names).upper(), True),
                                escape(first.upper(), True))
    lines += [".SH SYNOPSIS", ".nf", ".B #include <fabemu.h>", ".PP",
              *(escape(line, True) for line in function.code.split("\n")), ".fi",
              ".SH DESCRIPTION",
              *formatted(re.sub(r"^[\w, \n]+ - (\w+)", capital, function.comment)),
              ".PP", "The rules for all functions are in", ".BR libfabemu (3).",
              *references(("libfabemu", 3))]
    pages = {first: lines}
    pages |= {name: [f".so man3/{first}.3"] for name in function.names[1:]}
    return pages


def library_page(parts, version):
    lines = head("libfabemu", 3, "host interface of an emulated network adapter", version)
    lines += [".SH SYNOPSIS", ".nf", ".B #include <fabemu.h>", ".PP",
              r"cc ... $(pkg\-config \-\-cflags \-\-libs libfabemu)", ".fi", ".SH DESCRIPTION"]
    for part in parts:
        if isinstance(part, Function):
            lines += [".TP", ", ".join(rf"\fB{name}\fR(3)" for name in part.names),
                      escape(part.about) + "." * (not part.about.endswith("?"))]
            continue
        comment, code = part
        title = SECTION.match(comment)
        if title:
            lines += [f".SH {escape(title[1].upper(), True)}"]
            comment = ""
        lines += formatted(comment) if comment else []
        lines += [".PP", *display(code.split("\n"))] if code else []
    return lines + references(("fabemu", 1), ("fabemu", 7))


def pages(text, version):
    """Return {name: lines}: the pages of section 3 for the header @text."""
    begin = text.index("/*", text.index("*/"))  # after the licence
    parts = []
    for comment, code in items(text[begin:]):
        comment = re.sub(r"^fabemu\.h - .*?\n\n", "", comment, flags=re.S)
        code = re.sub(r"^#define (FABEMU_H|FABEMU_API.*)$\n?", "", code, flags=re.M)
        code = re.sub(r"^#include .*$\n?", "", code, flags=re.M).strip("\n")
        known = Function(comment, code)
        parts.append(known if known.names else (comment, code))
    ret = {"libfabemu": library_page(parts, version)}
    for part in parts:
        if isinstance(part, Function):
            ret |= function_pages(part, version)
    return ret
