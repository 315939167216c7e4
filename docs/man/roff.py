# SPDX-License-Identifier: BSD-3-Clause
"""roff.py - convert text to man(7)."""
import re
import textwrap


def escape(text, literal=False):
    """Escape @text for troff. If @literal, hyphens become minus signs."""
    text = text.replace("\\", "\\e")
    text = re.sub(r"(?<![\w-])--?(?=\w)|(?<=\s)--(?=\s)", lambda m: "\\-" * len(m.group()), text)
    if literal:
        text = re.sub(r"(?<!\\)-", r"\\-", text)
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.M)


def display(lines):
    """Return @lines, without their common indentation, as a block that troff does not fill."""
    lines = textwrap.dedent("\n".join(lines)).split("\n")
    return [".RS 4", ".nf", *(escape(line, True) for line in lines), ".fi", ".RE"]


def prose(text):
    """Return @text as paragraphs. Lines that are indented are not filled."""
    ret = []
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        ret.append(".PP")
        lines = paragraph.split("\n")
        while lines:
            count = next((i for i, line in enumerate(lines) if not line.startswith("  ")),
                         len(lines))
            if count:
                ret += display(lines[:count])
            else:
                count = 1
                ret.append(escape(lines[0]))
            del lines[:count]
    return ret


def head(name, section, about, version):
    """Return the title of a page and its section NAME, which whatis(1) reads."""
    return [r'.\" SPDX-License-Identifier: BSD-3-Clause',
            rf'.TH {escape(name.upper(), True)} {section} "" "fabemu {version}" "fabemu"',
            ".SH NAME", rf"{escape(name, True)} \- {escape(about)}"]


def references(*pages):
    """Return the section SEE ALSO. @pages: pairs (name, section)."""
    return [".SH SEE ALSO", *(f".BR {escape(name, True)} ({section}){',' * (i < len(pages))}"
                              for i, (name, section) in enumerate(pages, 1))]
