"""Reports of checked designs, and the tables of text in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from dynagate.base.text_table import Column, aligned, table_lines
from dynagate.host.report import Report
from dynagate.host.report.functions import CheckedFunction, FunctionMeasurement, OutputErrors
from dynagate.host.report.sections import Pace, TextSection, labeled

COLUMNS = [
    Column[tuple[str, float | None]]("name", 8, lambda row: row[0], left=True),
    Column[tuple[str, float | None]]("median", 8, lambda row: row[1], ".1e", group="error"),
    Column[tuple[str, float | None]]("largest", 9, lambda row: row[1] and 2.0 * row[1], ".1e", group="error"),
    Column[tuple[str, float | None]]("note", 6, lambda row: "ok", left=True, gap=2),
]


def test_a_table_aligns_its_columns_and_groups_their_headings() -> None:
    assert table_lines(COLUMNS, [("tau", 0.25), ("qdd", None)], indent=1) == [
        "                     error",
        " name      median  largest  note",
        " tau      2.5e-01  5.0e-01  ok",
        " qdd            -        -  ok",
    ]
    assert len(table_lines([replace(each, group="") for each in COLUMNS], [])) == 1


def test_texts_in_columns_are_as_wide_as_the_longest() -> None:
    assert aligned([["a", "bcd", "e"], ["abcd", "", ""]], gap=1) == ["a    bcd e", "abcd"]


BLOCK = OutputErrors("tau", True, {kind: np.array([1e-6, 4e-6]) for kind in ("uniform", "limits", "rest")}, None, 1e-3)
MANY = CheckedFunction("one", {"uniform": 100}, {"uniform": 0}, 20, 2.0, (BLOCK,))


def test_each_function_of_a_design_keeps_its_own_rules() -> None:
    """Overflows of one function are not excused by the states of another."""
    other = replace(MANY, name="other", states={"uniform": 1_000_000})
    few = replace(MANY, states={"uniform": 100}, overflows={"uniform": 3})
    measured = FunctionMeasurement((few, other))
    assert measured.overflows == {"uniform": 3}
    assert measured.states == {"uniform": 1_000_100}
    (failed,) = (rule.text for rule in measured.rules if not rule.holds)
    assert failed.startswith("one: the number of overflows among 100 states in the region is 3; expected at most 0.")
    assert "  overflows       3 of 1000100 states in the region" in measured.lines


def test_a_report_prints_its_sections_and_every_rule_that_does_not_hold() -> None:
    pace = Pace("cycles per result", 2.0, 2, labeled({"latency": "30 cycles"}))
    report = Report("arm", (TextSection(("  a line",)), pace, FunctionMeasurement((MANY,))))
    assert report.passed
    assert report.text().startswith("arm\n  a line\n  latency         30 cycles\n  throughput      2 cycles per result")
    assert report.text().splitlines()[-1].startswith("PASS: cycles per result is at most 2; ")
    assert report.section(Pace) is pace
    slow = replace(report, sections=(replace(pace, cycles=2.5), *report.sections[2:]))
    assert not slow.passed
    assert "\nFAIL: 1 of 4 rules does not hold\n" in slow.text()
    assert "\n  cycles per result is 2.5; expected at most 2. To pass, report this as a bug" in slow.text()
    wrong = replace(MANY, blocks=(replace(BLOCK, errors=dict(BLOCK.errors, uniform=np.array([np.nan]))),))
    assert not Report("arm", (FunctionMeasurement((wrong,)),)).passed
