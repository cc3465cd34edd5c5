"""Figures of pages: one file holds them, pages are filled from it."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

import dynagate
import pytest
from dynagate.base.errors import ArgumentError
from dynagate.bench import record

ROOT = Path(__file__).parents[2]
FIGURES = runpy.run_path(str(ROOT / "docs" / "figures.py"))
MACHINE = {
    "cpu": "AMD EPYC 7B13 64-Core Processor",
    "cores": 2,
    "vectors": "avx2",
    "compiler": "cc 12.2",
    "python": "3.11.7",
    "numpy": "2.4.6",
    "date": "2026-11-26",
}
RESULT: dict[str, Any] = {
    "robot": "arm",
    "machine": MACHINE,
    "pinocchio": {"times": {"forward_dynamics_gradient": (4000.4, 12.3)}},
    "casadi": "not requested",
    "single_call": {"forward_dynamics_gradient": {"float64": {"ns": 400.04, "spread": 3.0, "repeats": 9}}},
    "throughput": [
        {
            "function": "forward_dynamics_gradient",
            "dtype": "float32",
            "layout": "rows",
            "threads": 2,
            "batch": 1024,
            "ns": 40.04,
            "spread": 1.0,
            "repeats": 9,
        }
    ],
    "accuracy": {"float64": {"dqdd_dq": 2.26e-16}, "float32 fewest operations": {"dqdd_dq": 8.31e-7}},
}


@pytest.mark.parametrize("page", list(FIGURES["pages"]()), ids=lambda page: str(page.relative_to(ROOT)))
def test_marked_figures_of_a_page_are_those_of_the_file(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert FIGURES["filled"](text, FIGURES["figures"]()) == text, "run `python docs/figures.py`"


def test_the_picture_of_speed_shows_the_figures_of_the_file() -> None:
    assert FIGURES["PICTURE"].read_text(encoding="utf-8") == FIGURES["speed_picture"](), "run `python docs/figures.py`"


def test_a_number_that_differs_is_replaced() -> None:
    kept = {"runs": {"a/b": {"ns": 1234.0}}}
    page = "It takes <!--= runs / a/b / ns us -->9 µs<!--=--> a call, <!--= runs / a/b / ns n -->9<!--=--> ns."
    assert FIGURES["filled"](page, kept).startswith("It takes <!--= runs / a/b / ns us -->1.23 µs<!--=--> a call, ")
    with pytest.raises(KeyError, match=r"no 'us' among ns"):
        FIGURES["filled"]("<!--= runs / a/b / us ns -->9 ns<!--=-->", kept)


@pytest.mark.long
def test_exact_figures_of_designs_are_those_that_the_designs_have(designs: Path) -> None:
    name = "iiwa14 gradient, 24 bits, II 8"
    built = dynagate.build("iiwa14", "forward_dynamics_gradient", ii=8, folder=designs)
    assert FIGURES["figures_of"](built) == FIGURES["figures"]()["designs"][name]


def test_record_adds_a_run_and_keeps_the_others(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    path.write_text(json.dumps({"runs": {"other": {}}, "designs": {"one": {}}}))
    kept = json.loads(record.added(RESULT, path, "dynagate bench arm"))
    assert set(kept["runs"]) == {"other", "arm-amd-epyc-7b13-avx2"}
    assert kept["designs"] == {"one": {}}
    run = kept["runs"]["arm-amd-epyc-7b13-avx2"]
    assert (run["command"], run["date"], run["vectors"]) == ("dynagate bench arm", "2026-11-26", "avx2")
    head = subprocess.run(["git", "rev-parse", "--short=7", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    assert run["commit"].startswith(head.stdout.strip() or "version")
    gradient = "forward_dynamics_gradient"
    assert run["figures"][f"{gradient}/pinocchio"]["ns"] == 4000.0
    assert run["figures"][f"{gradient}/call/float64"] == {
        "ns": 400.0,
        "spread": 3.0,
        "times_pinocchio": 10.0,
        "relative_error": 2.3e-16,
    }
    assert run["figures"][f"{gradient}/float32/rows/1024/2 threads"]["relative_error"] == 8.3e-7


@pytest.mark.parametrize("text", ["", "[]", '{"runs": []}', "{" * 100_000])
def test_record_refuses_a_file_of_something_else(text: str, tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    path.write_text(text)
    with pytest.raises(ArgumentError, match="not a file of figures"):
        record.added(RESULT, path, "dynagate bench arm")


def unmarked(text: str) -> str:
    """Return the prose of a page without its marked figures, tables of figures and blocks of code."""
    text = FIGURES["MARK"].sub("", FIGURES["TABLE"].sub("", text))
    return re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)


@pytest.mark.parametrize("page", list(FIGURES["pages"]()), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_figure_of_the_file_is_marked_where_a_page_has_it(page: Path) -> None:
    """Blocks, register bits and operations of designs on all pages; measured times on those that are about speed."""
    kept = FIGURES["figures"]()
    known = {
        text
        for design in kept["designs"].values()
        for name in ("dsp", "register_bits", "operations")
        for text in (str(design[name]), f"{design[name]:,}")
    }
    if page.name in ("README.md", "performance.md", "when.md"):
        times = [row["ns"] for run in kept["runs"].values() for row in run["figures"].values()]
        known |= {FIGURES["written"](time, form) for time in times if time > 100.0 for form in ("ns", "us")}
    numbers = re.findall(r"(?<![\w.,])(\d[\d,.]*\d)( [nµ]s\b)?", unmarked(page.read_text()))
    found = known & {text for number, unit in numbers for text in (number, number + unit)}
    assert not found, f"{found} are in docs/figures.json; mark them as docs/figures.py explains"
