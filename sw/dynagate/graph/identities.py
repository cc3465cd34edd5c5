"""Identities: nodes that are equal, zero or constant in every state although their formulas differ.

Examples are c² + s² = 1, orthogonal columns, and symmetric products. Instead of a rewriting rule for each of them, the
nodes are evaluated at random probes. Two analytic functions that agree at each of them to fourteen digits of their
terms agree everywhere, except with a probability of about 10**-70 (Schwartz-Zippel). The result of an operation that is
not analytic is treated as an input. `same.check_same` compares the graph that comes of it with its recording.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dynagate.graph.graph import Port
from dynagate.graph.levels import Group, Levels
from dynagate.graph.ops import BEYOND, OPS, SUMS
from dynagate.graph.probes import magnitudes, probes
from dynagate.graph.rebuild import Entry, Raw, Rebuilt, RecordedPort, live_nodes, rebuilt, replay, with_sign

PROBES = 48
"""Number of probes, and of those first ones that have the inputs' own sizes."""
PLAIN = 6
SEED = 7
TOLERANCE = 1e-14
"""Largest difference of equal nodes at a probe, relative to the terms that a node sums there: constants are rounded to
float64. The nodes are evaluated in the longest float of the machine, so that cancellation in their operands does not
hide an equality."""

ENOUGH = 36
"""Probes at which equal nodes are seen to be equal, at least."""
EPSILON = float(np.finfo(np.longdouble).eps)


def merge_identities(
    raw: Raw,
    inputs: Sequence[RecordedPort],
    outputs: Sequence[RecordedPort],
    ports: Mapping[str, Port],
    new_trace: Callable[[], Any],
) -> Rebuilt:
    """Rebuild the nodes with equal ones merged (up to sign), and zeros and constants folded. ports: as in `lower`."""
    roots = [entry for port in (*inputs, *outputs) for entry in port[2]]
    live = live_nodes(raw.nodes, roots)
    with np.errstate(all="ignore"):
        same = _representatives(raw, live, probes(inputs, ports, PROBES, PLAIN, SEED))
    trace = new_trace()
    place: dict[int, Any] = {}
    for i, node in enumerate(raw.nodes):
        if not live[i]:
            continue
        equal = same.get(i)
        if isinstance(equal, tuple):
            place[i] = with_sign(place[equal[0]], equal[1])
        elif equal is not None:
            place[i] = equal
        else:
            place[i] = replay(node, [place[a] for a in node.args], trace, raw.names[i])
        if hasattr(place[i], "id") and not trace.named[place[i].id]:
            trace.names[place[i].id], trace.named[place[i].id] = raw.names[i], raw.named[i]
    return rebuilt(trace, place, inputs, outputs)


def _representatives(raw: Raw, live: list[bool], inputs: Mapping[int, Any]) -> dict[int, Entry]:
    """Node -> (an earlier node that is equal up to sign, the sign), or the node's constant value. inputs: values of the
    input nodes at the probes."""
    at = _Probed(raw, live, inputs)
    same: dict[int, Entry] = dict(at.constants)
    by_digits: dict[tuple[int, ...], list[tuple[int, int]]] = {}  # leading digits -> rows and signs of their nodes
    nodes: dict[int, int] = {}  # by row
    for i, row, sign, *key in at.leading_digits(live):
        others = by_digits.setdefault(tuple(key), [])
        for other, other_sign in others:
            if at.equal(row, other, sign * other_sign):
                same[i] = (nodes[other], sign * other_sign)
                break
        else:
            nodes[row] = i
            others.append((row, sign))
    return same


class _Probed:
    """The live nodes at the probes.

    values, scales, noises: (nodes, probes), by their row in the levels. A scale is the size of a node, of a sum that of
    the largest of its and its partial sums' terms. A noise is how far evaluation may have moved a value: what cancels
    leaves it.
    constants: the nodes that are constant, and their values.
    """

    def __init__(self, raw: Raw, live: list[bool], inputs: Mapping[int, Any]) -> None:
        self._levels = Levels(raw.nodes, live)
        self.values, self.scales, self.noises = (
            np.zeros((self._levels.count, PROBES), dtype=np.longdouble) for _ in range(3)
        )
        self.constants: dict[int, float] = {}
        drawn = _drawn(raw, live)
        for group in self._levels:
            if group.op == "input":
                value: Any = np.stack([inputs[i] for i in group.nodes])
            elif OPS[group.op].analytic:
                value = group.value(self.values) + 0.0
            else:
                value = self._like_an_input(group, [drawn[i] for i in group.nodes])
            self._note(group, value)

    def _like_an_input(self, group: Group, drawn: Sequence[tuple[Any, Any]]) -> Any:
        """Values as large as one of the operands that are not 0, another from probe to probe: where it were 0, what it
        multiplies would be equal to anything else that it multiplies."""
        choices = np.stack([self.values[rows] for rows in group.operands[OPS[group.op].conditions :]])
        picked = np.stack([pick for pick, _ in drawn])
        size = np.take_along_axis(choices, picked[None], axis=0)[0]
        size = np.where(size == 0.0, np.abs(choices).max(axis=0), size)
        return np.stack([factor for _, factor in drawn]) * size

    def _note(self, group: Group, value: Any) -> None:
        """Keeps the group's values, with their scales and noises."""
        rows = group.rows
        self.values[rows] = value
        value = self.values[rows]
        scale = np.abs(value)
        if group.op in SUMS:
            terms = [self.scales[operand] for operand in group.operands]
            terms += [] if group.constants is None else [np.abs(group.constants)[:, None]]
            scale = functools.reduce(np.maximum, terms, scale).astype(np.float64)
        self.scales[rows] = scale
        self.noises[rows] = self._noise(group, value) + EPSILON * scale
        leading = value[:, :2].astype(np.float64)
        near = np.abs(leading[:, 1] - leading[:, 0]) <= TOLERANCE * (self.scales[rows, 0] + self.scales[rows, 1])
        for k in np.flatnonzero(near & _comparable(leading)):
            self._fold(int(group.nodes[k]), rows.start + int(k), group.op in SUMS)

    def _fold(self, node: int, row: int, is_sum: bool) -> None:
        """Gives a node that is constant its value."""
        tolerance = TOLERANCE * self.scales[row]
        finest = np.nanargmin(tolerance)
        difference = self.values[row] - self.values[row, finest]
        if _within(difference, tolerance + tolerance[finest], self.noises[row] > tolerance):
            constant = _shortest(float(self.values[row, finest]), float(tolerance[finest]))
            self.constants[node] = constant
            self.values[row], self.noises[row] = constant, 0.0
            if not is_sum:
                self.scales[row] = abs(constant)

    def _noise(self, group: Group, value: Any) -> Any:
        """What an operation makes of its operands' noise, to first order."""
        noises = [self.noises[rows] for rows in group.operands]
        if group.op == "mul":
            (a, b), (of_a, of_b) = (self.values[rows] for rows in group.operands), noises
            return (np.abs(a) * of_b + np.abs(b) * of_a).astype(np.float64)
        if group.op == "mul_const":
            return np.abs(np.asarray(group.constants))[:, None] * noises[0]
        if group.op == "reciprocal":
            return (value * value).astype(np.float64) * noises[0]
        return sum(noises) if OPS[group.op].analytic else 0.0

    def leading_digits(self, live: Sequence[bool]) -> Iterator[tuple[int, ...]]:
        """Node, row, sign, and mantissa and exponent of its first two values, rounded to about six digits; of the nodes
        that are no constants and can be compared there."""
        nodes = np.array([i for i in np.flatnonzero(live) if i not in self.constants], dtype=int)
        rows = self._levels.row[nodes]
        first = self.values[rows, :2].astype(np.float64)
        kept = _comparable(first)
        nodes, rows, first = nodes[kept], rows[kept], first[kept]
        sign = np.where(first[:, 0] > 0.0, 1, -1)
        mantissas, exponents = np.frexp(sign[:, None] * first)
        digits = np.rint(mantissas * 2**20).astype(int)
        columns = (nodes, rows, sign, digits[:, 0], exponents[:, 0], digits[:, 1], exponents[:, 1])
        yield from zip(*(column.tolist() for column in columns), strict=True)

    def equal(self, row: int, other: int, sign: int) -> bool:
        """Whether a node is another times a sign."""
        of_row, of_other = TOLERANCE * self.scales[row], TOLERANCE * self.scales[other]
        drowned = (self.noises[row] > of_row) | (self.noises[other] > of_other)
        return _within(self.values[row] - sign * self.values[other], np.maximum(of_row, of_other), drowned)


def _drawn(raw: Raw, live: Sequence[bool]) -> dict[int, tuple[Any, Any]]:
    """Of each operation that is not analytic, at each probe, the operand that it is as large as, and a factor."""
    random = np.random.default_rng(SEED)
    drawn: dict[int, tuple[Any, Any]] = {}
    for i, node in enumerate(raw.nodes):
        if live[i] and node.op != "input" and not OPS[node.op].analytic:
            pick = random.integers(OPS[node.op].arity - OPS[node.op].conditions, size=PROBES)
            drawn[i] = pick, random.uniform(-2.5, 2.5, PROBES) * magnitudes(random, PROBES, PLAIN)
    return drawn


def _comparable(values: Any) -> Any:
    """The rows (nodes,) of values that tell nodes apart. In BEYOND - x the x is lost to rounding."""
    return np.isfinite(values).all(axis=1) & (np.abs(values) < 0.5 * BEYOND).all(axis=1)


def _within(difference: Any, tolerance: Any, drowned: Any) -> bool:
    """Whether nodes are equal. A probe says nothing at which there is no number, or noise alone, but for the first
    ones; enough others must say so."""
    equal = np.abs(difference) <= tolerance
    different = ~equal & np.isfinite(difference) & ~drowned
    return bool(not different.any() and equal[:PLAIN].all() and equal.sum() >= ENOUGH)


def _shortest(value: float, tolerance: float) -> float:
    """The number with the fewest decimal digits within the tolerance."""
    if abs(value) <= tolerance:
        return 0.0
    candidates = (float(f"{value:.{digits}e}") for digits in range(17))
    return next((x for x in candidates if abs(x - value) <= tolerance), value)
