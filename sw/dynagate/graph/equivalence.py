"""Check that a lowered graph computes the same function as the recording from which it was made.

The passes merge, fold and reorder operations. This check evaluates both versions at probes that no pass has used:
around the typical sizes, near rest, and with small and large numbers together. A running error bound accompanies each
value. It depends on the magnitudes that were added and multiplied, not on the size of the result, so cancellation is
not reported as a difference, and a difference beyond rounding is found. Entries that rounding hides at every probe are
compared exactly (`field`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dynagate.base.arrays import Array
from dynagate.graph import field
from dynagate.graph.graph import Graph, Node, Port
from dynagate.graph.identities import elements
from dynagate.graph.levels import Group, Levels
from dynagate.graph.ops import table
from dynagate.graph.probes import probes
from dynagate.graph.rebuild import Entry, Raw, RawNode, RecordedPort, live_nodes

PROBES = 24
PLAIN = 8
NEAR_REST = 8
"""Number of probes at which the inputs have their typical sizes times SMALL."""
SMALL = 1e-4
SEED = 11
ROUNDING = 8.0 * float(np.finfo(np.float64).eps)
"""Relative error of a constant, since folding rounds a product or a sum of constants a few times."""
EPSILON = 8.0 * float(np.finfo(np.longdouble).eps)
"""Relative error of the result of an operation in the machine's longest float."""
CANCELED = 64.0
"""Largest distance, in error bounds, that rounding may explain.

Constants whose terms canceled before they were recorded have larger errors than ROUNDING. An entry further away than
one bound is compared exactly.
"""
VISIBLE = 1e-6
"""Largest error bound, relative to the largest entry of an output, at which a probe confirms an entry.

A probe does not confirm an entry that is 0 there, such as at rest.
"""

Rule = Callable[[Any, Sequence[Any], Sequence[Any], Any], Any]


class OutputDifference(NamedTuple):
    """An entry of an output that differs from the recording."""

    text: str
    """The position and the size of the difference."""
    certain: bool
    """Whether rounding cannot explain the difference."""


def difference(
    graph: Graph, raw: Raw, inputs: Sequence[RecordedPort], outputs: Sequence[RecordedPort]
) -> OutputDifference | None:
    """Return how an output of a graph differs from the recording; None if all outputs are equal.

    An entry differs if rounding cannot explain its distance from the recording at some probe. It also differs if it is
    another function in exact arithmetic, which is tested if no probe confirms it or its distance exceeds the error
    bounds.

    Args:
        graph: The lowered graph.
        raw: The recorded nodes.
        inputs: Input ports of the recording.
        outputs: Output ports of the recording.
    """
    ports = {port.name: port for port in graph.inputs}
    at = _probes(inputs, ports)
    renamed = {
        new: at[entry[0]]
        for port, old in zip(graph.inputs, inputs, strict=True)
        for new, entry in zip(port.nodes, old[2], strict=True)
    }
    recorded_roots = [entry for port in outputs for entry in port[2]]
    lowered_roots: list[Entry] = [(i, 1) for port in graph.outputs for i in port.nodes]
    with np.errstate(all="ignore"):
        expected, result = _bounded(raw.nodes, recorded_roots, at), _bounded(graph.nodes, lowered_roots, renamed)
        bound = expected.errors + result.errors
        distance = np.abs(result.values - expected.values)
        compared = np.isfinite(bound) & np.isfinite(expected.values)
        wrong = compared & ~(distance <= CANCELED * bound)
        doubted = (compared & (distance > bound)).any(axis=1)
        largest = np.maximum(np.abs(result.values), np.abs(expected.values))
        shown = ((bound <= VISIBLE * _of_output(largest, graph)) & (largest > 0.0)).any(axis=1)
    names = [(port.name, k) for port in graph.outputs for k in range(len(port.nodes))]
    if wrong.any():
        where, p = (int(k) for k in np.argwhere(wrong)[0])
        name, entry = names[where]
        return OutputDifference(
            f"entry {entry} of output '{name}' is {float(result.values[where, p]):.17g} where its recording has "
            f"{float(expected.values[where, p]):.17g}, with rounding errors of at most {float(bound[where, p]):.3g}",
            certain=True,
        )
    hidden = np.flatnonzero(~shown | doubted)
    if len(hidden):
        exact = _exact(raw.nodes, [recorded_roots[k] for k in hidden], inputs, ports)
        same = _exact(graph.nodes, [lowered_roots[k] for k in hidden], _recorded_ports(graph), ports)
        for k, a, b in zip(hidden, exact, same, strict=True):
            if a != b:
                name, entry = names[int(k)]
                text = f"entry {entry} of output '{name}' is hidden by rounding and is another function than recorded"
                return OutputDifference(text, certain=False)
    return None


def _of_output(sizes: Array, graph: Graph) -> Array:
    """Return for each entry the largest size in its output, (entries, probes)."""
    parts = np.split(sizes, np.cumsum([len(port.nodes) for port in graph.outputs])[:-1])
    return np.concatenate([np.broadcast_to(part.max(axis=0, initial=0.0), part.shape) for part in parts])


def _probes(inputs: Sequence[RecordedPort], ports: Mapping[str, Port]) -> dict[int, Array]:
    """Return values of the input nodes, (probes,)."""
    drawn = probes(inputs, ports, PROBES, PLAIN, SEED)
    still = probes(inputs, ports, NEAR_REST, NEAR_REST, SEED + 1)
    units = {
        entries[k][0]
        for name, _, entries in inputs
        for start, stop in ports[name].unit_vectors
        for k in range(start, stop)
    }
    return {i: np.concatenate([drawn[i], still[i] * (1.0 if i in units else SMALL)]) for i in drawn}


def _recorded_ports(graph: Graph) -> list[RecordedPort]:
    return [(port.name, port.shape, [(i, 1) for i in port.nodes]) for port in graph.inputs]


def _exact(
    nodes: Sequence[RawNode | Node],
    roots: Sequence[Entry],
    inputs: Sequence[RecordedPort],
    ports: Mapping[str, Port],
) -> list[tuple[int, ...]]:
    """Return the values of the roots modulo a prime."""
    values = elements(nodes, live_nodes(nodes, roots), inputs, ports)

    def value(root: Entry) -> field.Element:
        if not isinstance(root, tuple):
            return field.constant(root)
        return values[root[0]] if root[1] > 0 else -values[root[0]]

    return [value(root).points for root in roots]


class Bounded(NamedTuple):
    """Values, and bounds on their errors, of the same shape (entries, probes)."""

    values: Array
    errors: Array


def _bounded(nodes: Sequence[RawNode | Node], roots: Sequence[Entry], at: Mapping[int, Array]) -> Bounded:
    """Return the values of the roots and their error bounds, from the values (probes,) of the inputs."""
    levels = Levels(nodes, live_nodes(nodes, roots))
    count = PROBES + NEAR_REST
    values, errors = (np.zeros((levels.count, count), dtype=np.longdouble) for _ in range(2))
    for group in levels:
        if group.op == "input":
            values[group.rows] = np.stack([at[i] for i in group.nodes])
        else:
            values[group.rows] = group.value(values)
            errors[group.rows] = _errors(group, values, errors)
    result = Bounded(*(np.zeros((len(roots), count), dtype=np.longdouble) for _ in range(2)))
    for k, root in enumerate(roots):
        if isinstance(root, tuple):
            row = levels.row[root[0]]
            result.values[k], result.errors[k] = root[1] * values[row], errors[row]
        else:
            result.values[k], result.errors[k] = root, ROUNDING * abs(root)
    return result


def _errors(group: Group, values: Array, errors: Array) -> Array:
    """Return bounds on the errors of a group's results, from the errors of its operands."""
    result = values[group.rows]
    operands = [values[rows] for rows in group.operands]
    constant = None if group.constants is None else group.constants[:, None]
    if group.op != "shift" and constant is not None:
        constant = np.abs(constant)
    bound = ERRORS.get(group.op, _of_unknown)(result, operands, [errors[rows] for rows in group.operands], constant)
    bound = bound + EPSILON * np.abs(result)
    return np.where(np.isnan(bound), np.inf, bound)


def _of_product(result: Any, x: Sequence[Any], e: Sequence[Any], c: Any) -> Any:
    """Return the error of a product, plus the error of an addend if there is one."""
    addend = e[2] if len(e) > 2 else 0.0
    return np.abs(x[0]) * e[1] + np.abs(x[1]) * e[0] + e[0] * e[1] + addend


def _of_reciprocal(result: Any, x: Sequence[Any], e: Sequence[Any], c: Any) -> Any:
    size = np.abs(x[0])
    return np.where(e[0] == 0.0, 0.0, np.where(e[0] < size, e[0] / (size * (size - e[0])), np.inf))


def _of_root(result: Any, x: Sequence[Any], e: Sequence[Any], c: Any) -> Any:
    """Return the error of a square root. Near zero, the root of the largest possible operand bounds it."""
    away = e[0] < x[0]
    return np.where(away, e[0] / np.sqrt(np.where(away, x[0] - e[0], 1.0)), np.sqrt(np.maximum(x[0], 0.0) + e[0]))


def _of_select(result: Any, x: Sequence[Any], e: Sequence[Any], c: Any) -> Any:
    """Return the error of a selection. If rounding may change the sign of the condition, the bound covers both
    operands.
    """
    either = np.maximum(e[1], e[2]) + np.abs(x[1] - x[2])
    return np.where((np.abs(x[0]) > e[0]) | (e[0] == 0.0), np.where(x[0] > 0.0, e[1], e[2]), either)


def _of_noise(result: Any, x: Sequence[Any], e: Sequence[Any], c: Any) -> Any:
    """Return 0 if rounding cannot change the integers of the operands, else infinity."""
    steady = [np.rint(a - b) == np.rint(a + b) for a, b in zip(x, e, strict=True)]
    return np.where(np.logical_and.reduce(steady), 0.0, np.inf)


def _of_unknown(result: Any, x: Sequence[Any], e: Sequence[Any], c: Any) -> Any:
    """Return infinity: an operation without a rule has no known error, so its readers are compared exactly."""
    return np.full(np.shape(result), np.inf)


def _of_sum(result: Any, x: Sequence[Any], e: Sequence[Any], c: Any) -> Any:
    return sum(e, 0.0) + (0.0 if c is None else ROUNDING * c)


ERRORS: Mapping[str, Rule] = table(
    "graph.equivalence.ERRORS",
    {
        "input": lambda r, x, e, c: 0.0,
        "const": lambda r, x, e, c: ROUNDING * c,
        "add": _of_sum,
        "sub": _of_sum,
        "add_const": _of_sum,
        "neg": _of_sum,
        "mul": _of_product,
        "mul_const": lambda r, x, e, c: c * e[0] + ROUNDING * c * (np.abs(x[0]) + e[0]),
        "shift": lambda r, x, e, c: np.exp2(c) * e[0],
        "sin": lambda r, x, e, c: np.minimum(e[0], 2.0),
        "cos": lambda r, x, e, c: np.minimum(e[0], 2.0),
        "exp": lambda r, x, e, c: r * np.expm1(e[0]),
        "sqrt": _of_root,
        "noise": _of_noise,
        "select": _of_select,
        "reciprocal": _of_reciprocal,
        "multiply_add": _of_product,
        "multiply_sub": _of_product,
        "sub_multiply": _of_product,
        "normalized_reciprocal": _of_reciprocal,
    },
)
"""For each operation, a function that bounds its error from the result, the operands, their errors and the magnitude of
the constant (the exponent of a shift).
"""
