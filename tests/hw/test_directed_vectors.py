"""Samples of benches that are chosen: each table entry is read, passes overflow, and bounds hold for every input."""

from __future__ import annotations

import re
from pathlib import Path

import dynagate
import numpy as np
import pytest
from dynagate import robots
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.format import Format
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.evaluate import evaluate_integers, quantize_inputs
from dynagate.fixedpoint.ranges.reachable import Reachable, reachable
from dynagate.fixedpoint.table_use import UsedTable, table_of
from dynagate.hw.bodies.pipeline import Pipeline
from dynagate.hw.designs import Design
from dynagate.hw.plan import plan as plans
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.vectors.directed import chosen, observed, uncovered
from dynagate.hw.vectors.drawn import drawn_states
from dynagate.hw.vectors.subject import DATAPATH
from dynagate.hw.vectors.unreached import unreached, unreached_lines

from tests.benches import bench

FORMATS = {
    "sin": (Format(16, 12), Format(16, 14)),
    "cos": (Format(16, 13), Format(16, 14)),
    "exp": (Format(16, 10), Format(16, 8)),
    "reciprocal": (Format(16, 13), Format(16, 12)),
    "normalized_reciprocal": (Format(16, 8), Format(16, 12)),
}


@pytest.fixture(scope="module")
def built(designs: Path) -> Design:
    return dynagate.build(robots.load("two_joint_arm"), "forward_dynamics", ii=4, folder=designs)


def table(op: str) -> UsedTable:
    found = table_of(op, *FORMATS[op])
    assert found is not None
    return found


@pytest.mark.parametrize("op", FORMATS)
def test_a_bit_is_visible_where_an_entry_with_it_inverted_gives_another_result(op: str) -> None:
    own, x = table(op), np.random.default_rng(0).integers(1, FORMATS[op][0].highest, 200)
    entries, visible = own.address(x), own.visible(x)
    assert visible.shape == (200, sum(own.widths))
    assert 0 <= entries.min() <= entries.max() < own.size
    assert visible.any(axis=0).mean() > 0.4
    assert not visible.all()


@pytest.mark.parametrize("op", ["sin", "cos", "exp", "reciprocal"])
def test_the_entries_that_a_range_reads_are_those_that_its_operands_read(op: str) -> None:
    own, random = table(op), np.random.default_rng(1)
    for _ in range(20):
        low, high = sorted(int(x) for x in random.integers(0, FORMATS[op][0].highest, 2))
        read = np.zeros(own.size, bool)
        read[own.address(np.arange(low, high + 1))] = True
        assert own.read_by(low, high).tolist() == read.tolist()


def test_no_input_leaves_the_bounds(built: Design) -> None:
    formatted, random = built.formatted, np.random.default_rng(2)
    inputs = {
        i: random.integers(formatted.formats[i].lowest, formatted.formats[i].highest + 1, 4000)
        for i in formatted.graph.input_nodes
    }
    bounds, values = reachable(formatted), evaluate_integers(formatted, inputs, keep_all=True).value
    for i, integers in values.items():
        real = integers * formatted.formats[i].step
        assert bounds.low[i] <= real.min() <= real.max() <= bounds.high[i], formatted.graph.nodes[i]
    points = observed(formatted, inputs)
    by_scope = evaluate_integers(formatted, inputs).by_scope
    for scope in range(by_scope.shape[1]):  # all overflows are those of operations that may overflow
        assert points.overflow[:, points.scopes == scope].any(axis=1).tolist() == by_scope[:, scope].tolist()


def test_hardware_has_the_bits_that_bounds_allow(built: Design) -> None:
    hardware = built.hardware
    assert isinstance(hardware, Pipeline)
    plan = hardware.plan
    bounds = plan.bounds
    text = "".join(path.read_text() for path in built.folder.glob("datapath*.v"))
    own = [i for i in plan.position if plan.formatted.graph.nodes[i].op in ("add", "sub")]
    assert {bounds.overflows[i] for i in own} == {False, True}
    for i in own:
        assert (f" {plan.signal_names[i]}_guard <= " in text) == bounds.overflows[i]
        assert re.search(rf"reg \[{bounds.widths[i] - 1}:0\] {plan.signal_names[i]}\b", text)
    narrow = [i for i in plan.position if bounds.widths[i] < plan.formatted.formats[i].width]
    assert narrow
    assert not any(bounds.overflows[i] for i in narrow)


@pytest.mark.parametrize("wrong", ["overflows", "widths"])
def test_a_bench_notices_bounds_that_a_value_leaves(
    wrong: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def too_narrow(formatted: FormattedGraph) -> Reachable:
        bounds = reachable(formatted)
        if wrong == "overflows":
            return bounds._replace(overflows=(False,) * len(bounds.overflows))
        return bounds._replace(widths=tuple(width - (width < 24) for width in bounds.widths))

    monkeypatch.setattr(plans, "reachable", too_narrow)
    built = dynagate.build(robots.load("two_joint_arm"), "inverse_dynamics", ii=4, folder=tmp_path)
    done = bench(built.folder)
    assert done.returncode != 0
    assert "mismatch" in done.stdout or "expected" in done.stdout, done.stdout


def test_a_bit_of_a_table_is_covered_only_if_it_changes_an_output(built: Design) -> None:
    formatted, random = built.formatted, np.random.default_rng(3)
    inputs = {i: random.integers(-(1 << 18), 1 << 18, 200) for i in formatted.graph.input_nodes}
    values = evaluate_integers(formatted, inputs, keep_all=True).value
    hidden = 0
    for each in observed(formatted, inputs).reads:
        by_unit = each.table.visible(values[formatted.graph.nodes[each.node].args[0]])
        assert not (each.visible & ~by_unit).any()
        hidden += int((by_unit & ~each.visible).sum())
    assert hidden > 1000  # rounding behind the table


def test_chosen_samples_read_all_tables_and_overflow_more_passes(built: Design) -> None:
    def seen(states: dict[str, np.ndarray]) -> tuple[int, int, int]:
        inputs = quantize_inputs(built.formatted, states)
        left = uncovered(built.formatted, inputs)
        return len(left.scopes), left.overflows[0], sum(len(others) for _, others in left.unread.values())

    drawn, _ = drawn_states(built, 300, 1)
    with_chosen, inside = drawn_states(
        built, 300, 1, lambda pool, n: chosen(observed(built.formatted, quantize_inputs(built.formatted, pool)), n)
    )
    before, after = seen(drawn), seen(with_chosen)
    assert all(new <= old for new, old in zip(after, before, strict=True))
    assert after < before
    assert inside.sum() > 200


def test_the_datasheet_names_what_samples_do_not_reach(built: Design) -> None:
    drawn = built.vectors(1)[DATAPATH]
    (each,) = unreached(built, drawn)
    lines = list(unreached_lines(each))
    sheet = (built.folder / "datasheet.md").read_text()
    assert lines
    assert all(f"* {line}\n" in sheet for line in lines)
    few = drawn._replace(inputs=drawn.inputs[:2], ends=drawn.ends[:2])  # fewer samples reach fewer points
    ((_, points),) = unreached(built, few)
    assert points.scopes
    assert sum(len(others) for _, others in points.unread.values()) > 0
    assert any(line.startswith("passes that may overflow") for line in unreached_lines(unreached(built, few)[0]))


def test_parameters_of_links_stay_those_of_bodies(designs: Path) -> None:
    """Random numbers up to what the formats hold are no inertia."""
    arm = robots.load("two_joint_arm").with_variable("forearm")
    variable = dynagate.build(arm, "inverse_dynamics", ii=3, axi=Axi(64), policy=Policy(word=18), folder=designs)
    assert {"datapath", "accelerator"} == set(variable.design.modules)
