"""SVG drawings: rectangles, lines and text on a canvas, written with the standard library's XML writer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree import ElementTree

NAMESPACE = "http://www.w3.org/2000/svg"
FONT = "system-ui, 'DejaVu Sans', sans-serif"
INK, FAINT, GRID, PAPER = "#1b2530", "#5b6773", "#d9dee3", "#ffffff"
BLUE, ORANGE, GREEN, RED, SKY, PURPLE, YELLOW = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#d55e00",
    "#56b4e9",
    "#cc79a7",
    "#f0e442",
)
"""Okabe and Ito's colors, which color-blind readers tell apart."""

DARK = {
    "fill": {
        PAPER: "#0d1117",
        INK: "#e6edf3",
        FAINT: "#9aa5b1",
        SKY: "#1d4f6e",
        "#dcefe8": "#17382d",
        "#fbe8c2": "#4a3912",
        "#e4f1fa": "#12303f",
    },
    "stroke": {INK: "#e6edf3", FAINT: "#9aa5b1", GRID: "#30363d", BLUE: "#3d9bd6"},
}
"""Replacement colors for a dark page: attribute -> color -> replacement."""
_RULES = [f'[{name}="{light}"]{{{name}:{dark}}}' for name, colors in DARK.items() for light, dark in colors.items()]
STYLE = f"@media (prefers-color-scheme:dark){{{''.join(_RULES)}}}"

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_text(text: str) -> str:
    """Return a text with every character that XML does not allow replaced."""
    return _NOT_XML.sub("\ufffd", text)


def shortened(text: str, most: int) -> str:
    """Return at most `most` characters of a text, ending with an ellipsis if it was cut."""
    return text if len(text) <= most else text[: most - 1] + "…"


class Canvas:
    """A drawing of width × height pixels. Coordinates are pixels from the upper left corner.

    Args:
        width: Width in pixels.
        height: Height in pixels.
        title: Description of the drawing, which screen readers announce.
    """

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height = width, height
        size = {"width": _number(width), "height": _number(height)}
        box = f"0 0 {size['width']} {size['height']}"
        self._root = ElementTree.Element(
            "svg", {"xmlns": NAMESPACE, "viewBox": box, **size, "role": "img", "font-family": FONT, "font-size": "12"}
        )
        ElementTree.SubElement(self._root, "title").text = xml_text(title)
        ElementTree.SubElement(self._root, "style").text = STYLE
        self.rectangle(0, 0, width, height, fill=PAPER)

    def rectangle(
        self, x: float, y: float, width: float, height: float, *, fill: str, edge: str = "none", hint: str = ""
    ) -> None:
        """Draw a rectangle with its upper left corner at (x, y). `hint` appears when the pointer rests on it."""
        place = {"x": _number(x), "y": _number(y), "width": _number(width), "height": _number(height)}
        self._add("rect", {**place, "fill": fill, "stroke": edge}, hint)

    def line(self, points: Iterable[tuple[float, float]], *, color: str = FAINT, width: float = 1.0) -> None:
        """Draw straight lines through the points."""
        listed = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
        self._add("polyline", {"points": listed, "fill": "none", "stroke": color, "stroke-width": _number(width)})

    def arrow(self, points: list[tuple[float, float]], *, color: str = FAINT) -> None:
        """Draw straight lines through the points with an arrowhead at the end."""
        self.line(points, color=color)
        (x0, y0), (x1, y1) = points[-2:]
        length = max(abs(x1 - x0) + abs(y1 - y0), 1e-9)
        dx, dy = 5 * (x1 - x0) / length, 5 * (y1 - y0) / length
        corners = [(x1, y1), (x1 - dx - dy / 2, y1 - dy + dx / 2), (x1 - dx + dy / 2, y1 - dy - dx / 2)]
        self._add("polygon", {"points": " ".join(f"{_number(x)},{_number(y)}" for x, y in corners), "fill": color})

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        color: str = INK,
        size: int = 12,
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        """Draw text on the baseline y. `anchor` is the end of the text at x: "start", "middle" or "end"."""
        style = {
            "fill": color,
            "font-size": str(size),
            "text-anchor": anchor,
            **({"font-weight": "600"} if bold else {}),
        }
        self._add("text", {"x": _number(x), "y": _number(y), **style}).text = xml_text(text)

    def markup(self) -> str:
        """Return the drawing as text, for a file or for inclusion in a page."""
        return ElementTree.tostring(self._root, encoding="unicode")

    def _add(self, tag: str, attributes: dict[str, str], hint: str = "") -> ElementTree.Element:
        """Add an element with an optional hint."""
        element = ElementTree.SubElement(self._root, tag, attributes)
        if hint:
            ElementTree.SubElement(element, "title").text = xml_text(hint)
        return element


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
