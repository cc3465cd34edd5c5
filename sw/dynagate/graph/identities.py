"""Identities: nodes that are equal, zero or constant in every state although their formulas differ.

Examples are c² + s² = 1, orthogonal columns, and symmetric products. Instead of a rewriting rule for each of them, the
nodes are evaluated at a few random states. Two analytic functions that agree there to fourteen digits agree everywhere,
except with a probability of about 10**-70 (Schwartz-Zippel). The tests also compare every graph with its algorithm. The
result of an operation that is not analytic is treated as an input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dynagate.graph.ops import OPS, SUMS
from dynagate.graph.rebuild import Entry, Raw, Rebuilt, RecordedPort, live_nodes, rebuilt, replay, with_sign

POINTS = 6
"""Number of random states."""
SEED = 7
TOLERANCE = 1e-14
"""Largest difference of equal nodes, relative to the terms that a node sums: constants are rounded to float64. The
nodes are evaluated in the longest float of the machine, so that cancellation in their operands does not hide an
equality."""


def merge_identities(
    raw: Raw,
    inputs: Sequence[RecordedPort],
    outputs: Sequence[RecordedPort],
    units: Sequence[Sequence[int]],
    sizes: Mapping[int, float],
    new_trace: Callable[[], Any],
) -> Rebuilt:
    """Rebuild the nodes with equal ones merged (up to sign), and zeros and constants folded.

    units: groups of input nodes that are unit vectors. sizes: input node -> magnitude of its values, 1 by default. With
    realistic magnitudes, no term of a sum is small enough to be mistaken for rounding of the other terms.
    """
    roots = [entry for port in (*inputs, *outputs) for entry in port[2]]
    live = live_nodes(raw, roots)
    same = _representatives(raw, live, units, sizes)
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


def _representatives(
    raw: Raw, live: list[bool], units: Sequence[Sequence[int]], sizes: Mapping[int, float]
) -> dict[int, Entry]:
    """Node -> (an earlier node that is equal up to sign, the sign), or the node's constant value."""
    random = np.random.default_rng(SEED)
    values: list[Any] = [None] * len(raw.nodes)
    for unit in units:
        drawn = random.normal(size=(len(unit), POINTS)).astype(np.longdouble)
        for i, value in zip(unit, drawn / np.sqrt((drawn * drawn).sum(axis=0)), strict=True):
            values[i] = value
    largest = [0.0] * len(raw.nodes)
    scale = [1.0] * len(raw.nodes)
    by_digits: dict[tuple[int, ...], list[tuple[int, Any]]] = {}  # leading digits -> nodes and their values
    same: dict[int, Entry] = {}
    for i, node in enumerate(raw.nodes):
        if not live[i]:
            continue
        operands = [values[a] for a in node.args]
        constant = [] if node.constant is None else [node.constant]
        if node.op != "input" and OPS[node.op].analytic:
            values[i] = OPS[node.op].real(*operands, *constant) + np.zeros(POINTS, dtype=np.longdouble)
        elif values[i] is None:
            chosen = node.args[OPS[node.op].conditions :]
            size = max((largest[a] for a in chosen), default=sizes.get(i, 1.0))
            values[i] = random.uniform(-2.5, 2.5, POINTS).astype(np.longdouble) * size
        value = values[i]
        largest[i] = scale[i] = float(np.abs(value).max())
        if node.op in SUMS:
            terms = [largest[a] for a in node.args] + [abs(c) for c in constant]
            # a partial sum contributes the magnitudes of its own terms
            partial = [scale[a] for a in node.args if raw.nodes[a].op in SUMS]
            scale[i] = max(scale[i], *terms, *partial)
        first, second = float(value[0]), float(value[1])
        if abs(second - first) <= 2.0 * TOLERANCE * scale[i] and np.ptp(value) <= TOLERANCE * scale[i]:
            same[i] = _shortest(float(value.mean()), TOLERANCE * scale[i])
            values[i] = np.full(POINTS, same[i])
            largest[i] = abs(same[i])
            continue
        sign = 1 if first > 0 else -1
        key = (*_digits(sign * first), *_digits(sign * second))
        for other, other_value in by_digits.setdefault(key, []):
            if np.abs(sign * value - other_value).max() <= TOLERANCE * max(scale[i], scale[other]):
                other_sign = 1 if values[other][0] > 0 else -1
                same[i] = (other, sign * other_sign)
                break
        else:
            by_digits[key].append((i, sign * value))
    return same


def _digits(value: float) -> tuple[int, int]:
    """The mantissa, rounded to about six digits, and the exponent."""
    mantissa, exponent = math.frexp(value)
    return round(mantissa * 2**20), exponent


def _shortest(value: float, tolerance: float) -> float:
    """The number with the fewest decimal digits within the tolerance."""
    if abs(value) <= tolerance:
        return 0.0
    candidates = (float(f"{value:.{digits}e}") for digits in range(17))
    return next((x for x in candidates if abs(x - value) <= tolerance), value)
