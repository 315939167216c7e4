# SPDX-License-Identifier: BSD-3-Clause
"""shrink.py - makes matplotlib's SVG files small, because they are kept in git.

Numbers are rounded to a tenth of a point, which is less than a pixel. Groups that only have an id
are removed. Style attributes become classes. Consecutive paths of the same style become one path,
and consecutive markers of one kind become one path with this marker at its vertices.
"""
import re
import string
import xml.etree.ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"
SHAPES = [SVG + "path", SVG + "use", SVG + "text"]
HREF = "{http://www.w3.org/1999/xlink}href"
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
FONTS = re.compile(r"'DejaVu Sans'.*?sans-serif")


def short(text):
    """Round the numbers in a text, and remove spaces that a path does not need."""
    text = NUMBER.sub(lambda m: f"{round(float(m[0]), 1) + 0:g}", text)
    return re.sub(r" ?([A-Za-z]) ?", r"\1", " ".join(text.split()))


def thin(path):
    """Remove points of a path that are equal to the preceding point after rounding."""
    steps = re.findall(r"[MLCQz][^MLCQz]*", path)
    return "".join(step for i, step in enumerate(steps)
                   if not (i and step[0] == "L" and step[1:] == steps[i - 1][1:]))


def flat(parent):
    """Yield the shapes and texts below @parent in order, each with the clip path of its groups. For
    an axis, sort them by grid lines, ticks and texts, so that path() can join them."""
    for child in parent:
        if child.tag == SVG + "g":
            shapes = list(flat(child))
            if child.get("id", "").startswith("matplotlib.axis"):
                shapes.sort(key=lambda shape: SHAPES.index(shape.tag))
            for one in shapes:
                if "clip-path" in child.attrib:
                    one.attrib.setdefault("clip-path", child.attrib["clip-path"])
                yield one
        elif child.tag in SHAPES:
            yield child


class Shrunk:
    """The shapes of the new file, and the definitions to which they refer."""

    def __init__(self, symbols):
        self.symbols = symbols          # paths by id, to which <use> refers
        self.classes, self.markers, self.defs, self.lines = {}, {}, [], []
        self.last = None                # attributes of the last path

    def name_of(self, style):
        style = FONTS.sub("sans-serif", style.replace(": ", ":").replace("; ", ";"))
        names = string.ascii_lowercase + string.ascii_uppercase
        return self.classes.setdefault(style, names[len(self.classes) % 52] +
                                       str(len(self.classes) // 52 or ""))

    def marker(self, symbol, style):
        """Return the marker that replaces a <use> of @symbol with @style."""
        key = (symbol, style)
        if key not in self.markers:
            self.markers[key] = f"m{len(self.markers)}"
            path = self.symbols[symbol]
            self.defs.append(
                f'<marker id="{self.markers[key]}" markerUnits="userSpaceOnUse" '
                f'overflow="visible"><g class="{self.name_of(style)}">'
                f'<path class="{self.name_of(path.get("style", ""))}" d="{short(path.get("d"))}"/>'
                "</g></marker>")
        return self.markers[key]

    def path(self, data, attributes):
        """Add a path, or extend the last one if it has the same attributes."""
        if self.last == attributes:
            self.lines[-1] = self.lines[-1].removesuffix('"/>') + data + '"/>'
        else:
            self.lines.append(f'<path {attributes} d="{data}"/>')
        self.last = attributes

    def add(self, shape):
        clip = f' clip-path="{shape.get("clip-path")}"' if shape.get("clip-path") else ""
        style = shape.get("style", "")
        if shape.tag == SVG + "path":
            self.path(thin(short(shape.get("d"))), f'class="{self.name_of(style)}"' + clip)
        elif shape.tag == SVG + "use":
            name = self.marker(shape.get(HREF)[1:], style)
            attributes = f'fill="none" style="marker:url(#{name})"' + clip
            at = short(f'{shape.get("x")} {shape.get("y")}')
            self.path(("L" if self.last == attributes else "M") + at, attributes)
        else:
            turn = short(shape.get("transform", ""))
            turn = "" if turn.startswith("rotate(-0") or not turn else f' transform="{turn}"'
            at = "".join(f' {name}="{short(shape.get(name))}"' for name in "xy"
                         if shape.get(name)) if shape.get("x") else ""
            words = (shape.text or "").replace("&", "&amp;").replace("<", "&lt;")
            self.lines.append(f'<text class="{self.name_of(style)}"{at}{turn}>{words}</text>')
            self.last = None


def shrink(text):
    """Return a smaller SVG that looks like @text, which matplotlib has written."""
    root = ET.fromstring(text)
    symbols = {path.get("id"): path for defs in root.iter(SVG + "defs")
               for path in defs.iter(SVG + "path")}
    out = Shrunk(symbols)
    for shape in flat(root):
        out.add(shape)
    clips = "".join(f'<clipPath id="{clip.get("id")}"><rect ' +
                    " ".join(f'{name}="{short(clip[0].get(name))}"'
                             for name in ("x", "y", "width", "height")) + "/></clipPath>"
                    for clip in root.iter(SVG + "clipPath"))
    style = "".join(f".{name}{{{style}}}" for style, name in out.classes.items())
    head = " ".join(f'{name}="{short(root.get(name))}"' for name in ("width", "height", "viewBox"))
    text = "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {head}>',
                      f"<style>*{{stroke-linejoin:round}}{style}</style>",
                      f"<defs>{clips}{''.join(out.defs)}</defs>", *out.lines, "</svg>", ""])
    for number, clip in enumerate(root.iter(SVG + "clipPath")):
        text = text.replace(clip.get("id"), f"c{number}")
    return text
