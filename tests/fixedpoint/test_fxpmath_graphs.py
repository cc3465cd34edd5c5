"""fxpmath as the oracle of whole graphs at full width: every node of the executor against fxpmath's own arithmetic.

fxpmath keeps exact sums and products (its "optimal" sizes), and rounds once into the node's format. It has no tables
for sin, cos, √ and 1/x: those nodes' integers are the executor's, held to the real function within the error of their
units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dynagate import Region, Robot, robots, trace
from dynagate.fixedpoint.assign import Policy, assign, fixed_constant
from dynagate.fixedpoint.format import HALF_UP, WRAP, Format, FormattedIntegers, Integers, to_float
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.evaluate import evaluate_in_numpy, quantize_inputs
from dynagate.graph.ops import OPS
from fxpmath import Fxp

STATES = 24
UNITS = 4.0
"""Steps of the result by which a table and its steps may miss sin, cos, √ or 1/x."""
TABULATED = ("sin", "cos", "exp", "sqrt", "reciprocal")


def number(value: FormattedIntegers) -> Fxp:
    """Integers of a format as fxpmath's."""
    return Fxp(np.asarray(value.value), raw=True, signed=True, n_word=value.format.width, n_frac=value.format.frac)


EXACT: dict[str, Callable[..., Fxp]] = {
    "add": lambda a, b: a + b,
    "add_const": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "neg": lambda a: -a,
    "mul": lambda a, b: a * b,
    "mul_const": lambda a, b: a * b,
}


def rounded(exact: Fxp, to: Format, half_up: bool, wraps: bool) -> Fxp:
    """Once into a format. fxpmath knows no half-up, which is the floor of half a unit more."""
    if half_up and exact.n_frac > to.frac:
        half = Fxp(1, raw=True, signed=True, n_word=3, n_frac=to.frac + 1)
        exact = exact + half
    return Fxp(
        exact,
        signed=True,
        n_word=to.width,
        n_frac=to.frac,
        rounding="floor",
        overflow="wrap" if wraps else "saturate",
    )


def by_fxpmath(formatted: FormattedGraph, node: int, values: dict[int, Integers], batch: int) -> Integers:
    """The integers of a node, from those of its operands."""
    what, to = formatted.graph.nodes[node], formatted.formats[node]
    operands = [FormattedIntegers(values[a], formatted.formats[a]) for a in what.args]
    constant = fixed_constant(formatted, node) if what.constant is not None else None
    arithmetic = formatted.arithmetic
    modes = (arithmetic.rounding == HALF_UP, arithmetic.overflow == WRAP)
    if what.op == "const":
        assert constant is not None
        exact = number(FormattedIntegers(np.full(batch, constant.value), constant.format))
    elif what.op == "shift":
        assert constant is not None
        moved = Format(operands[0].format.width, operands[0].format.frac - int(constant.value))
        exact = number(FormattedIntegers(operands[0].value, moved))
    elif what.op == "select":
        condition, *choices = (number(operand) for operand in operands)
        either = [rounded(choice, to, *modes).val for choice in choices]
        return np.where(np.asarray(condition.val) > 0, *either).astype(np.int64)
    else:
        exact = EXACT[what.op](*(number(x) for x in [*operands, *([constant] if constant is not None else [])]))
    return np.asarray(rounded(exact, to, *modes).val).astype(np.int64)


def check(robot: Robot, function: str, word: int, states: int = STATES) -> dict[str, int]:
    """Every node of a graph; returns how many of each operation."""
    region = Region.of(robot)
    formatted = assign(trace(robot, function), region, Policy(word=word))
    graph = formatted.graph
    drawn = region.states(graph, states, seed=word)
    expected = evaluate_in_numpy(formatted, quantize_inputs(formatted, drawn), keep_all=True).value
    values: dict[int, Integers] = {}
    counts: dict[str, int] = {}
    for i, node in enumerate(graph.nodes):
        ours = np.asarray(expected[i])
        counts[node.op] = counts.get(node.op, 0) + 1
        if node.op == "input":
            values[i] = ours
        elif node.op in TABULATED:
            (a,) = node.args
            real = OPS[node.op].real(to_float(values[a], formatted.formats[a]))
            fits = np.abs(real) < formatted.formats[i].limits[1]
            miss = np.abs(to_float(ours, formatted.formats[i]) - real)[fits] / formatted.formats[i].step
            assert miss.max(initial=0.0) <= UNITS, f"{node.name}: {miss.max():.2f} steps"
            values[i] = ours
        else:
            values[i] = by_fxpmath(formatted, i, values, states)
            where = f"{robot.name} {function}, {word} bits, node '{node.name}' ({node.op})"
            np.testing.assert_array_equal(values[i], ours, err_msg=where)
    return counts


def test_every_node_of_an_arm_at_full_width() -> None:
    counts = check(robots.load("two_joint_arm"), "forward_dynamics_gradient", 24)
    assert {"add", "sub", "mul", "mul_const", "sin", "cos", "reciprocal"} <= set(counts)


def test_one_bit_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = evaluate_in_numpy

    def wrong(*arguments: Any, keep_all: bool) -> Any:
        result = sound(*arguments, keep_all=keep_all)
        result.value[max(result.value)] ^= 1
        return result

    monkeypatch.setitem(globals(), "evaluate_in_numpy", wrong)
    with pytest.raises(AssertionError, match="two_joint_arm mass_matrix, 20 bits, node '"):
        check(robots.load("two_joint_arm"), "mass_matrix", 20)


@pytest.mark.long
@pytest.mark.parametrize("word", range(16, 28))
@pytest.mark.parametrize("function", ["inverse_dynamics", "forward_dynamics_gradient"])
@pytest.mark.parametrize("name", ["two_joint_arm", "iiwa14"])
def test_every_node_of_two_robots(name: str, function: str, word: int) -> None:
    assert sum(check(robots.load(name), function, word).values()) > 20
