"""Fill the figures of pages from docs/figures.json: `python docs/figures.py` rewrites every marked number, and draws
docs/pictures/speed.svg.

A marked number stands between two comments, `<!--= NAME FORM -->420 ns<!--=-->`. NAME is a path into figures.json,
FORM says how the number is written. A table stands between `<!--= table NAME -->` and `<!--=-->`.
`tests/docs/test_figures.py` fails if a marked number or a table differs from the file.

`python docs/figures.py --designs` builds the designs of DESIGNS and writes their exact figures into the file first.
`dynagate bench ROBOT --record docs/figures.json` writes the measured ones.
"""

from __future__ import annotations

import json
import re
import runpy
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
FILE = DOCS / "figures.json"
PICTURE = DOCS / "pictures" / "speed.svg"
MARK = re.compile(r"<!--= (?!table )(?P<name>[^<>]*?) (?P<form>[\w:.]+) -->(?P<text>.*?)<!--=-->", re.DOTALL)
TABLE = re.compile(r"<!--= table (?P<name>\w+) -->\n.*?<!--=-->", re.DOTALL)
SEPARATOR = " / "
"""Separator between the keys of a figure's path. Keys contain slashes without spaces."""

DESIGNS: dict[str, dict[str, Any]] = {
    "iiwa14 gradient, 24 bits, II 8": {"robot": "iiwa14", "function": "forward_dynamics_gradient", "ii": 8},
    "iiwa14 gradient, error 1e-3, II 8": {
        "robot": "iiwa14",
        "function": "forward_dynamics_gradient",
        "ii": 8,
        "error": 1e-3,
    },
}
"""Designs whose exact figures pages quote, by the name that pages use."""


def figures() -> dict[str, Any]:
    return dict(json.loads(FILE.read_text(encoding="utf-8")))


def value_of(kept: Mapping[str, Any], name: str) -> Any:
    """Return the figure at a path such as `runs / iiwa14-amd-epyc-avx2 / figures / ... / ns`.

    Raises:
        KeyError: There is no such figure.
    """
    at: Any = kept
    for key in name.split(SEPARATOR):
        if not isinstance(at, Mapping) or key not in at:
            raise KeyError(f"docs/figures.json has no {name!r}: no {key!r} among {', '.join(at) if at else 'nothing'}")
        at = at[key]
    return at


def written(value: Any, form: str) -> str:
    """Return a figure as pages write it: with a unit (`ns`, `us`, `ms`), as a ratio (`x`), with thousands (`n`)."""
    if form == "text":
        return str(value)
    if form == "n":
        return f"{value:,}"
    if form == "x":
        return f"{_short(value)}×"
    if form == "e":
        return re.sub(r"e-0", "e-", f"{value:.1e}")
    scale = {"ns": 1.0, "us": 1e-3, "ms": 1e-6}[form]
    return f"{_short(value * scale)} {form.replace('us', 'µs')}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def filled(text: str, kept: Mapping[str, Any]) -> str:
    """Return a page with every marked number and table replaced by the values of the file.

    Raises:
        KeyError: A mark refers to a figure that does not exist.
    """

    def fill(mark: re.Match[str]) -> str:
        return f"<!--= {mark['name']} {mark['form']} -->{written(value_of(kept, mark['name']), mark['form'])}<!--=-->"

    def table(mark: re.Match[str]) -> str:
        rows = tables[mark["name"]](kept, written)
        return "\n".join([f"<!--= table {mark['name']} -->", *rows, "<!--=-->"])

    tables = runpy.run_path(str(DOCS / "figure_tables.py"))["TABLES"]
    return TABLE.sub(table, MARK.sub(fill, text))


def pages() -> Iterator[Path]:
    yield DOCS.parent / "README.md"
    yield from sorted(DOCS.rglob("*.md"))


def design_figures(folder: Path) -> dict[str, dict[str, Any]]:
    """Build the designs of DESIGNS and return their exact figures by name."""
    import dynagate

    rows = {}
    for name, options in DESIGNS.items():
        own = dict(options)
        built = dynagate.build(own.pop("robot"), own.pop("function"), folder=folder, **own)
        rows[name] = figures_of(built)
    return rows


def figures_of(built: Any) -> dict[str, Any]:
    """Return the exact figures of a datapath: cycles by its schedule, DSP blocks and register bits by its plan."""
    plan = built.hardware.plan
    return {
        "latency_cycles": plan.latency,
        "interval_cycles": plan.ii,
        "dsp": plan.dsp_blocks(),
        "register_bits": plan.register_bits(),
        "operations": len(built.graph),
    }


def speed_picture() -> str:
    """Return the bar chart of speed, drawn from the file of figures."""
    return str(runpy.run_path(str(DOCS / "speed.py"))["drawn"](figures()))


def main() -> None:
    kept = figures()
    if "--designs" in sys.argv[1:]:
        kept["designs"] = design_figures(DOCS.parent / "build" / "designs")
        FILE.write_text(json.dumps(kept, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (new := filled(text, kept)) != text:
            page.write_text(new, encoding="utf-8")
            print(page.relative_to(DOCS.parent))
    PICTURE.write_text(speed_picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
